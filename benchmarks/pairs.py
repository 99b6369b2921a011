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
    """Our results and torch's differ, so nothing is timed."""


def timed(ours: Call, torchs: Call, seconds: float) -> Row:
    """Time both alternately: median times in milliseconds, and torch's time over ours."""
    mine, theirs = rounds([timer(ours), timer(torchs)], seconds)
    return {
        "ms": statistics.median(mine) * 1e3,
        "torch_ms": statistics.median(theirs) * 1e3,
        "ratio": ratio(mine, theirs),
        "rounds": len(mine),
    }


def matching(names: Iterable[str], patterns: Sequence[str] | None) -> list[str]:
    """Names that contain one of the patterns, with wildcards; all names without a pattern."""
    return [
        name
        for name in names
        if not patterns or any(fnmatch.fnmatch(name, f"*{pattern}*") for pattern in patterns)
    ]


def parser(program: str, description: str | None, seconds: float) -> argparse.ArgumentParser:
    """The command line."""
    command = argparse.ArgumentParser(
        prog=f"python -m {program}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--threads", type=int, nargs="+", default=[1, cores()], metavar="N")
    command.add_argument("--case", action="append", metavar="PATTERN")
    command.add_argument("--seconds", type=float, default=seconds, help="how long to time a pair")
    command.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures to this file"
    )
    command.add_argument("--list", action="store_true", help="print the names of the cases")
    return command


def table(rows: Sequence[Row], threads: int) -> Iterator[str]:
    """The summary: for each kind of call, the mean and the cases below 1."""
    for kind in dict.fromkeys(row["kind"] for row in rows):
        ratios = {row["case"]: row["ratio"] for row in rows if row["kind"] == kind}
        below = [f"{name} ({value:.2f})" for name, value in ratios.items() if value < 1]
        yield (
            f"{kind}, {threads} thread(s): geometric mean {geometric_mean(ratios.values()):.2f} "
            f"of {len(ratios)}, least {min(ratios.values()):.2f}; "
            f"below 1: {', '.join(below) or 'none'}"
        )


def write(path: Path, rows: Sequence[Row], differ: dict[str, str]) -> None:
    """Write the figures, the machine and the versions."""
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "llvmlite", "torch")}
    contents = {"machine": machine(), "versions": versions, "rows": list(rows), "differ": differ}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(contents, indent=1) + "\n")


def run_processes(program: str, arguments: argparse.Namespace) -> int:
    """Run a process for each number of threads: libraries count the cores when they start."""
    rows, differ, code = list[Row](), dict[str, str](), 0
    with tempfile.TemporaryDirectory() as folder:
        for threads in arguments.threads:
            path = Path(folder) / f"{threads}.json"
            words = ["--threads", str(threads), "--seconds", str(arguments.seconds)]
            words += ["--json", str(path)]
            words += [word for pattern in arguments.case or [] for word in ("--case", pattern)]
            process = subprocess.run([sys.executable, "-m", program, *words], check=False)
            code = max(code, process.returncode)
            if path.exists():
                contents = json.loads(path.read_text())
                rows += contents["rows"]
                differ |= contents["differ"]
    if arguments.json:
        write(arguments.json, rows, differ)
    return code


def run(
    program: str,
    arguments: argparse.Namespace,
    names: Callable[[], Iterable[str]],
    measure: Callable[[str, float], Iterator[Row]],
) -> int:
    """Measure, print and write; return 0, 1 if results differ, 2 for an invalid command.

    `measure` takes a case's name and a time, and yields a row for each kind of call.  It and
    `names` may import torch: they are called after this process is restricted to its cores.
    """
    invalid = [threads for threads in arguments.threads if not 1 <= threads <= cores()]
    if invalid:
        print(f"--threads {invalid[0]}: there are 1 to {cores()} cores here", file=sys.stderr)
        return 2
    if arguments.list:
        print(*matching(names(), arguments.case), sep="\n")
        return 0
    if len(arguments.threads) > 1:
        return run_processes(program, arguments)
    (threads,) = arguments.threads
    limit_cores(threads)
    import torch

    torch.set_num_threads(threads)
    chosen = matching(names(), arguments.case)
    if not chosen:
        print(f"no case matches {arguments.case}: --list shows the cases", file=sys.stderr)
        return 2
    return report(chosen, threads, arguments, measure)


def report(
    chosen: Sequence[str],
    threads: int,
    arguments: argparse.Namespace,
    measure: Callable[[str, float], Iterator[Row]],
) -> int:
    """Measure the chosen cases in this process, print and write; 1 if results differ."""
    width = max(map(len, chosen)) + 2
    print(f"\n{f'{threads} thread(s)':{width}}{'':10}{'ours ms':>10}{'torch ms':>10}{'ratio':>7}")
    rows, differ = list[Row](), dict[str, str]()
    for name in chosen:
        try:
            for row in measure(name, arguments.seconds):
                rows.append({"case": name, "threads": threads, **row})
                print(
                    f"{name:{width}}{row['kind']:10}{row['ms']:10.3g}{row['torch_ms']:10.3g}"
                    f"{row['ratio']:7.2f}",
                    flush=True,
                )
        except Disagreement as error:
            differ[name] = str(error)
            print(f"{name:{width}}DIFFERS: {error}", flush=True)
    print("", *table(rows, threads), sep="\n")
    if arguments.json:
        write(arguments.json, rows, differ)
    return 1 if differ else 0
