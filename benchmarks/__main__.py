"""Times gridsample against its peers, interleaved in one process, after checking that they agree.

    python -m benchmarks                        everything, on one thread and on all cores
    python -m benchmarks --list                 the cases, and the peers that are installed
    python -m benchmarks --case '1024*both'     cases whose name contains a text; * and ? are wild
    python -m benchmarks --peer torch           against this peer only; may be repeated
    python -m benchmarks --threads 1            number of threads (default: 1,all)
    python -m benchmarks --quick                tiny inputs, to check that everything runs
    python -m benchmarks --base HEAD~3          also compare with an earlier commit of the library
    python -m benchmarks --time-limit 100       stop after 100 s and keep what was measured ...
    python -m benchmarks --resume               ... and continue with the cases that are missing,
                                                or were measured with other sources
    python -m benchmarks --device cuda          on a GPU: see benchmarks/gpu.py

A ratio is the peer's time divided by ours: the median over rounds, in each of which every contender
runs once.  Above 1, we are faster.  "Of copy" is the time that a plain copy would need to touch
input, grid and output once, divided by the measured time.

The figures, a page and charts (cpu.json, cpu.md, cpu.png, peers.png) are written to
docs/benchmarks.  Those of a partial run are written to a temporary folder, unless --out or --resume
is given.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.base import Base
from benchmarks.cases import Case, chosen
from benchmarks.measuring import Missing, Row, measure
from benchmarks.peers import PEERS
from benchmarks.record import OtherMachine, Record
from benchmarks.report import heading, keep
from benchmarks.targets import (
    PEERS_HEAD,
    SUMMARY_HEAD,
    geometric_mean,
    lines_of,
    peers_summary,
    summary,
)
from benchmarks.timing import copy_bandwidth, cores, interleave, limit_cores

__all__ = ["interleave", "main"]

DOCS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
QUICK = 0.02  # seconds a case


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    command.add_argument("--case", "--only", action="append", metavar="PATTERN")
    command.add_argument("--peer", action="append", choices=PEERS)
    command.add_argument("--threads", type=threads_of, default="1,all", metavar="N,...")
    command.add_argument("--seconds", type=float, default=1.0, help="how long to time a case")
    command.add_argument("--quick", action="store_true")
    command.add_argument("--list", action="store_true")
    command.add_argument("--base", metavar="COMMIT")
    command.add_argument("--time-limit", type=float, default=float("inf"), metavar="S")
    command.add_argument("--resume", action="store_true")
    command.add_argument("--out", type=Path, metavar="FOLDER")
    command.add_argument("--json", type=Path, help="with --device cuda: where the figures go")
    return command


def threads_of(text: str) -> list[int]:
    """Numbers of threads, each once."""
    numbers = [cores() if word == "all" else int(word) for word in text.split(",")]
    for number in numbers:
        if not 1 <= number <= cores():
            raise argparse.ArgumentTypeError(f"{number} is not from 1 to {cores()}, the cores here")
    return list(dict.fromkeys(numbers))


def folder_of(arguments: argparse.Namespace) -> Path:
    """The folder of the figures: docs/benchmarks for a full run, a temporary one otherwise."""
    partial = arguments.case or arguments.peer or arguments.quick or arguments.base
    if arguments.out is None and partial and (arguments.quick or not arguments.resume):
        return Path(tempfile.gettempdir()) / "gridsample-benchmarks"
    return arguments.out or DOCS


def cases_of(arguments: argparse.Namespace) -> list[Case]:
    """The cases that the arguments select."""
    matching = [case for pattern in arguments.case or [""] for case in chosen(pattern)]
    return list(dict.fromkeys(case.small() if arguments.quick else case for case in matching))


def run(arguments: argparse.Namespace, threads: int, record: Record, deadline: float) -> int:
    """Measure in this process; return how many cases are left or failed."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    peers = [name for name in arguments.peer or PEERS if PEERS[name].version is not None]
    contenders = [*peers, f"base {arguments.base}"] if arguments.base else peers
    remaining = [
        case for case in cases_of(arguments) if not record.holds(case.name, threads, contenders)
    ]
    if not remaining:
        return 0
    limit_cores(threads)
    bandwidth = record.saw_copy(threads, copy_bandwidth(threads))
    print("\n".join([*heading(record), "", line_head(threads)]), flush=True)
    base = Base(arguments.base, threads) if arguments.base else None
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    longest, failed = 0.0, 0
    seconds = QUICK if arguments.quick else arguments.seconds
    try:
        with Progress(*columns, transient=True, disable=not sys.stdout.isatty()) as bar:
            task = bar.add_task(f"{threads} thread(s)", total=len(remaining))
            output: Callable[..., Any] = bar.console.out if sys.stdout.isatty() else print
            for done, case in enumerate(remaining):
                start = time.monotonic()
                if done and start + min(longest, 15) > deadline:
                    return len(remaining) - done + failed
                try:
                    row = measure(case, threads, seconds, bandwidth, peers, base)
                    record.add(row, contenders)
                    output(line(row))
                except KeyboardInterrupt:
                    output("interrupted")
                    return len(remaining) - done + failed
                except Missing as error:
                    output(f"{case.name:62} skipped: {error}")
                except Exception as error:  # our own failure: the other cases are still measured
                    output(f"{case.name:62} FAILED: {type(error).__name__}: {error}")
                    failed += 1
                bar.advance(task)
                longest = max(longest, time.monotonic() - start)
    finally:
        if base is not None:
            base.close()
    return failed


def line_head(threads: int) -> str:
    """The head of the table that is printed."""
    return f"{f'{threads} thread(s)':62}{'ms':>10}{'of copy':>9}   peer ms ratio"


def line(row: Row) -> str:
    """The line that is printed for a row."""
    peers = [
        f"{name} {figures['ms']:.4g} {figures['ratio']:.2f}"
        for name, figures in row["peers"].items()
    ]
    peers += [f"{name} DIFFERS: {why}" for name, why in row["differ"].items()]
    peers += [f"{name} failed: {why}"[:150] for name, why in row["left_out"].items()]
    return f"{row['case']:62}{row['ms']:10.4g}{row['share_of_copy']:9.0%}   " + "; ".join(peers)


def run_each(
    arguments: argparse.Namespace, words: Sequence[str], deadline: float, path: Path
) -> int:
    """Run a process for each number of threads: libraries count the cores when they start."""
    for threads in arguments.threads:
        limit = ["--time-limit", str(max(0.0, deadline - time.monotonic()))]
        options = ["--resume", "--threads", str(threads), "--out", str(path.parent)]
        process = subprocess.run(
            [sys.executable, "-m", "benchmarks", *words, *limit, *options], check=False
        )
        if process.returncode not in (0, 1, 3):
            return process.returncode
        if time.monotonic() > deadline:
            return 3
    return 0


def conclude(record: Record, base: str | None) -> bool:
    """Print the summaries, write the page and the charts; return whether all results agreed."""
    rows = list(record.rows.values())
    print()
    print(*lines_of(PEERS_HEAD, peers_summary(rows), False), sep="\n")
    print()
    print(*lines_of(SUMMARY_HEAD, summary(rows, record.machine["cores"]), False), sep="\n")
    changes = {
        f"{row['case']} ({row['threads']} t)": row["peers"]["base"]["ratio"]
        for row in rows
        if "base" in row["peers"]
    }
    if base and changes:
        mean = geometric_mean(changes.values())
        print(f"\nagainst {base}: {mean:.2f} times as fast; by a tenth and more:")
        for name, ratio in sorted(changes.items(), key=lambda item: item[1]):
            if abs(ratio - 1) > 0.1:
                print(f"  {ratio:.2f}  {name}")
    keep(record)
    print(f"\nfigures, page and chart: {record.path.parent}/cpu.*")
    differ = [row["case"] for row in rows if row["differ"]]
    for name in differ:
        print(f"results differ: {name}")
    return not differ


def list_cases() -> None:
    """Print the cases and the peers."""
    for case in chosen(""):
        print(case.name)
    for name, peer in PEERS.items():
        print(f"peer {name}: {peer.version or 'not installed'}")


def main(words: Sequence[str] | None = None) -> int:
    """Run and print; return 0, 1 if results differ, 2 for an error, 3 if time ran out."""
    words = list(sys.argv[1:] if words is None else words)
    arguments = parser().parse_args(words)
    deadline = time.monotonic() + arguments.time_limit
    if arguments.device == "cuda":
        from benchmarks import gpu

        gpu.main(
            (arguments.case or [""])[0],
            arguments.seconds,
            arguments.json or Path("gpu-benchmarks.json"),
        )
        return 0
    if arguments.list:
        list_cases()
        return 0
    try:
        record = Record(folder_of(arguments) / "cpu.json", arguments.resume)
    except OtherMachine as error:
        print(error, file=sys.stderr)
        return 2
    if len(arguments.threads) == 1:
        remaining = run(arguments, arguments.threads[0], record, deadline)
        if remaining:
            print(f"\n{remaining} cases are left: --resume goes on")
        return 0 if conclude(record, arguments.base) and not remaining else 3 if remaining else 1
    record.save()
    code = run_each(arguments, words, deadline, record.path)
    return code


if __name__ == "__main__":
    sys.exit(main())
