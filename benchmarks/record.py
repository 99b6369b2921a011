"""Figures in a JSON file that is complete after every row, so that a run can be resumed."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gridsample
from benchmarks.measuring import Row
from benchmarks.peers import PEERS
from benchmarks.timing import machine


class OtherMachine(Exception):
    """The file holds figures of another machine, or of other versions."""


@functools.cache
def source() -> str:
    """What tells one state of the library's source from another."""
    folder = Path(gridsample.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def versions() -> dict[str, str]:
    """Of everybody who is here."""
    import importlib.metadata

    named = {name: importlib.metadata.version(name) for name in ("numpy", "llvmlite")}
    return {**named, **{name: peer.version for name, peer in PEERS.items() if peer.version}}


class Record:
    """The file.

    Attributes:
        path: where it is.
        rows: by case and threads.
        bandwidth: bytes a second of a copy, by threads.
    """

    def __init__(self, path: Path, resume: bool) -> None:
        """What the file holds, if a run is resumed.

        Raises:
            OtherMachine: it cannot be gone on with.
        """
        self.path = path
        self.machine, self.versions = machine(), versions()
        self.rows: dict[tuple[str, int], Row] = {}
        self.bandwidth: dict[int, float] = {}
        if resume and path.exists():
            self.load(json.loads(path.read_text()))

    def load(self, held: dict[str, Any]) -> None:
        """Go on with these."""
        for name, mine in (("machine", self.machine), ("versions", self.versions)):
            differ = [
                f"{key}: {held[name].get(key)}, here {mine.get(key)}"
                for key in sorted({*held[name], *mine} - {"cores"})
                if held[name].get(key) != mine.get(key)
            ]
            if differ:
                raise OtherMachine(
                    f"{self.path} holds figures of another {name.rstrip('s')} "
                    f"({'; '.join(differ)}): begin anew, or in another folder (--out)"
                )
        self.show(held)

    def show(self, held: dict[str, Any]) -> None:
        """Take over what a file holds, of any machine and any versions."""
        self.machine, self.versions = held["machine"], held["versions"]
        self.rows = {(row["case"], row["threads"]): row for row in held["rows"]}
        self.bandwidth = {int(key): value for key, value in held["bandwidth"].items()}

    def holds(self, case: str, threads: int, peers: Iterable[str]) -> bool:
        """Whether the case was measured, of the source as it is now, beside these."""
        row = self.rows.get((case, threads))
        return row is not None and row["source"] == source() and set(peers) <= set(row["asked"])

    def add(self, row: Row, peers: Iterable[str]) -> None:
        """Keep a row, at once."""
        self.rows[row["case"], row["threads"]] = {**row, "source": source(), "asked": list(peers)}
        self.save()

    def saw_copy(self, threads: int, speed: float) -> float:
        """The best bandwidth seen so far, to which all rows are related."""
        best = self.bandwidth[threads] = max(speed, self.bandwidth.get(threads, 0.0))
        for row in self.rows.values():
            if row["threads"] == threads:
                row["share_of_copy"] = row["bytes"] / best / (row["ms"] / 1e3)
        return best

    def save(self) -> None:
        """Write all; whoever interrupts that leaves the file as it was."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        held = {
            "machine": self.machine,
            "versions": self.versions,
            "bandwidth": self.bandwidth,
            "rows": list(self.rows.values()),
        }
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(held, indent=1) + "\n")
        os.replace(new, self.path)
