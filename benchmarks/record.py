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
    """A digest of the library's source code."""
    folder = Path(gridsample.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def versions() -> dict[str, str]:
    """The versions of the installed libraries by name."""
    import importlib.metadata

    named = {name: importlib.metadata.version(name) for name in ("numpy", "llvmlite")}
    return {**named, **{name: peer.version for name, peer in PEERS.items() if peer.version}}


class Record:
    """The file.

    Attributes:
        path: the path of the file.
        rows: the rows by case and number of threads.
        bandwidth: bytes a second of a copy, by threads.
    """

    def __init__(self, path: Path, resume: bool) -> None:
        """Read the file if a run is resumed.

        Raises:
            OtherMachine: The file's figures cannot be continued.
        """
        self.path = path
        self.machine, self.versions = machine(), versions()
        self.rows: dict[tuple[str, int], Row] = {}
        self.bandwidth: dict[int, float] = {}
        if resume and path.exists():
            self.load(json.loads(path.read_text()))

    def load(self, contents: dict[str, Any]) -> None:
        """Continue with the contents of a file."""
        for name, own in (("machine", self.machine), ("versions", self.versions)):
            differences = [
                f"{key}: {contents[name].get(key)}, here {own.get(key)}"
                for key in sorted({*contents[name], *own} - {"cores"})
                if contents[name].get(key) != own.get(key)
            ]
            if differences:
                raise OtherMachine(
                    f"{self.path} holds figures of another {name.rstrip('s')} "
                    f"({'; '.join(differences)}): omit --resume, or name another folder by --out"
                )
        self.show(contents)

    def show(self, contents: dict[str, Any]) -> None:
        """Take the contents of a file, of any machine and any versions."""
        self.machine, self.versions = contents["machine"], contents["versions"]
        self.rows = {(row["case"], row["threads"]): row for row in contents["rows"]}
        self.bandwidth = {int(key): value for key, value in contents["bandwidth"].items()}

    def holds(self, case: str, threads: int, peers: Iterable[str]) -> bool:
        """Whether the case was measured with the present source and with these peers."""
        row = self.rows.get((case, threads))
        return row is not None and row["source"] == source() and set(peers) <= set(row["asked"])

    def add(self, row: Row, peers: Iterable[str]) -> None:
        """Add a row, and write the file."""
        self.rows[row["case"], row["threads"]] = {**row, "source": source(), "asked": list(peers)}
        self.save()

    def saw_copy(self, threads: int, speed: float) -> float:
        """Update the best bandwidth, to which all rows are related, and return it."""
        best = self.bandwidth[threads] = max(speed, self.bandwidth.get(threads, 0.0))
        for row in self.rows.values():
            if row["threads"] == threads:
                row["share_of_copy"] = row["bytes"] / best / (row["ms"] / 1e3)
        return best

    def save(self) -> None:
        """Write the file; if that is interrupted, the old file stays."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        contents = {
            "machine": self.machine,
            "versions": self.versions,
            "bandwidth": self.bandwidth,
            "rows": list(self.rows.values()),
        }
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(contents, indent=1) + "\n")
        os.replace(new, self.path)
