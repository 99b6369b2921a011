"""Tables of pairs: a call with our functions, and the same call with torch's.

`benchmarks.models` and `benchmarks.shapes` share this module: the command line, one process for
each number of threads, the table, and the JSON file.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.metadata
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.targets import geometric_mean
from benchmarks.timing import Call, cores, limit_cores, machine, ratio, rounds, timer

Row = dict[str, Any]


class Disagreement(Exception):
    """We and torch do not give the same, so nothing is timed."""


def timed(ours: Call, torchs: Call, seconds: float) -> Row:
    """Both, in turn: median times in milliseconds, and torch's time over ours."""
    mine, theirs = rounds([timer(ours), timer(torchs)], seconds)
    return {
        "ms": statistics.median(mine) * 1e3,
        "torch_ms": statistics.median(theirs) * 1e3,
        "ratio": ratio(mine, theirs),
        "rounds": len(mine),
    }


def matching(names: Iterable[str], patterns: Sequence[str] | None) -> list[str]:
    """Names that hold one of the texts, in which * and ? are wild; all names without a text."""
    return [
        name
        for name in names
        if not patterns or any(fnmatch.fnmatch(name, f"*{pattern}*") for pattern in patterns)
    ]


def parser(program: str, description: str | None, seconds: float) -> argparse.ArgumentParser:
    """The command line."""
    it = argparse.ArgumentParser(
        prog=f"python -m {program}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    it.add_argument("--threads", type=int, nargs="+", default=[1, cores()], metavar="N")
    it.add_argument("--case", action="append", metavar="PATTERN")
    it.add_argument("--seconds", type=float, default=seconds, help="how long to time a pair")
    it.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    it.add_argument("--list", action="store_true", help="print the names of the cases")
    return it


def table(rows: Sequence[Row], threads: int) -> Iterator[str]:
    """What is printed at the end: for each kind of call its mean, and what is below 1."""
    for kind in dict.fromkeys(row["kind"] for row in rows):
        ratios = {row["case"]: row["ratio"] for row in rows if row["kind"] == kind}
        below = [f"{name} ({value:.2f})" for name, value in ratios.items() if value < 1]
        yield (
            f"{kind}, {threads} thread(s): geometric mean {geometric_mean(ratios.values()):.2f} "
            f"of {len(ratios)}, least {min(ratios.values()):.2f}; "
            f"below 1: {', '.join(below) or 'none'}"
        )


def write(path: Path, rows: Sequence[Row], differ: dict[str, str]) -> None:
    """Keep the figures, with the machine and the versions."""
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "llvmlite", "torch")}
    held = {"machine": machine(), "versions": versions, "rows": list(rows), "differ": differ}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(held, indent=1) + "\n")


def in_turn(program: str, given: argparse.Namespace) -> int:
    """A process for each number of threads: only what starts with few cores keeps to them."""
    rows, differ, code = list[Row](), dict[str, str](), 0
    with tempfile.TemporaryDirectory() as folder:
        for threads in given.threads:
            path = Path(folder) / f"{threads}.json"
            words = ["--threads", str(threads), "--seconds", str(given.seconds)]
            words += ["--json", str(path)]
            words += [word for pattern in given.case or [] for word in ("--case", pattern)]
            done = subprocess.run([sys.executable, "-m", program, *words], check=False)
            code = max(code, done.returncode)
            if path.exists():
                held = json.loads(path.read_text())
                rows += held["rows"]
                differ |= held["differ"]
    if given.json:
        write(given.json, rows, differ)
    return code


def run(
    program: str,
    given: argparse.Namespace,
    names: Callable[[], Iterable[str]],
    measure: Callable[[str, float], Iterator[Row]],
) -> int:
    """Measure, print and keep; 0, 1 where results differ, 2 for a command that means nothing.

    `measure` is given a case's name and a time, and yields a row for each kind of call.  It and
    `names` may import torch: they are called when this process is held to its cores.
    """
    wrong = [threads for threads in given.threads if not 1 <= threads <= cores()]
    if wrong:
        print(f"--threads {wrong[0]}: there are 1 to {cores()} cores here", file=sys.stderr)
        return 2
    if given.list:
        print(*matching(names(), given.case), sep="\n")
        return 0
    if len(given.threads) > 1:
        return in_turn(program, given)
    (threads,) = given.threads
    limit_cores(threads)
    import torch

    torch.set_num_threads(threads)
    chosen = matching(names(), given.case)
    if not chosen:
        print(f"no case matches {given.case}: --list shows the cases", file=sys.stderr)
        return 2
    return report(chosen, threads, given, measure)


def report(
    chosen: Sequence[str],
    threads: int,
    given: argparse.Namespace,
    measure: Callable[[str, float], Iterator[Row]],
) -> int:
    """Measure each of the chosen cases here, print and keep; 1 where results differ."""
    width = max(map(len, chosen)) + 2
    print(f"\n{f'{threads} thread(s)':{width}}{'':10}{'ours ms':>10}{'torch ms':>10}{'ratio':>7}")
    rows, differ = list[Row](), dict[str, str]()
    for name in chosen:
        try:
            for row in measure(name, given.seconds):
                rows.append({"case": name, "threads": threads, **row})
                print(
                    f"{name:{width}}{row['kind']:10}{row['ms']:10.3g}{row['torch_ms']:10.3g}"
                    f"{row['ratio']:7.2f}",
                    flush=True,
                )
        except Disagreement as why:
            differ[name] = str(why)
            print(f"{name:{width}}DIFFERS: {why}", flush=True)
    print("", *table(rows, threads), sep="\n")
    if given.json:
        write(given.json, rows, differ)
    return 1 if differ else 0
