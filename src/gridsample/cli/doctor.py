"""`gridsample doctor`: find misuse of grid sampling in Python code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gridsample.cli.arguments import Command
from gridsample.cli.terminal import progress_bar
from gridsample.doctor import RULES, Report, examine, examine_files
from gridsample.doctor.edits import Edit, edited
from gridsample.doctor.formats import FORMATS

HELP = """\
Read Python code, without running it, and find misuse of grid sampling: grids that do not match
align_corners, coordinates in the wrong order or unit, lost precision, aliasing.
"""

NOTES = """\
rules:
{rules}

output:
  Each finding gives the file and line, the effect, and the code that fixes it. --explain prints
  why. A comment "# gridsample: ignore[GS001]" on a line of the call hides the finding.

exit code:
  0 if nothing was found, 1 if anything was, 2 if the command could not run, or a file could not be
  read or parsed; such files are named on stderr.

examples:
  gridsample doctor
  gridsample doctor warp.py --fix
  gridsample doctor src --format github
  git show HEAD:warp.py | gridsample doctor -
  gridsample doctor src --select GS001,GS002,GS008
  gridsample doctor --explain GS001
"""


def command() -> Command:
    """Return the parser of the command."""
    rules = "\n".join(f"  {rule.code}  {rule.name}" for rule in RULES.values())
    command = Command("doctor", ["PATH..."], run, HELP, NOTES.format(rules=rules))
    command.add_argument(
        "paths",
        nargs="*",
        default=["."],
        metavar="PATH",
        help="a file, or a folder of Python files (default: .); - for standard input",
    )
    command.add_argument(
        "--format",
        choices=("text", *FORMATS),
        default="text",
        help="format of the report: text, JSON, GitHub annotations or SARIF (default: text)",
    )
    command.add_argument("--json", action="store_true", help="the same as --format json")
    command.add_argument(
        "--fix",
        action="store_true",
        help="write the fixes that are certain, those of align_corners, to the files",
    )
    command.add_argument(
        "--select", default="", metavar="CODES", help="report only these rules, such as GS001,GS002"
    )
    command.add_argument(
        "--explain", default="", metavar="CODES", help="print what rules mean, such as GS001"
    )
    command.add_argument(
        "--size",
        type=int,
        default=256,
        metavar="W",
        help="width of the image for which shifts are given, in pixels (default: 256)",
    )
    return command


def run(arguments: argparse.Namespace) -> int:
    """Examine files and print the findings, or explain rules; return the exit code."""
    if arguments.explain:
        print("\n\n".join(explained(code) for code in codes_of(arguments.explain)))
        return 0
    if arguments.size < 2:
        raise ValueError(f"--size must be at least 2, got {arguments.size}")
    codes = codes_of(arguments.select)
    report = examined(arguments.paths, arguments.size, codes)
    fixed = []
    if arguments.fix:
        fixed = fix_files(report)
        report = examined(arguments.paths, arguments.size, codes) if fixed else report
    chosen = "json" if arguments.json else arguments.format
    if chosen != "text":
        print(FORMATS[chosen](report))
    else:
        for finding in report.findings:
            print(finding)
        for error in report.errors:
            print(f"gridsample: {error}", file=sys.stderr)
        for path, count in fixed:
            print(f"{path}: {count} fixed")
        print(summary(report))
    return 2 if report.errors else int(bool(report.findings))


def examined(paths: Sequence[str], size: int, codes: Sequence[str]) -> Report:
    """Examine files, folders, or standard input.

    Raises:
        ValueError: there is no Python file, or a path beside standard input.
    """
    if "-" in paths:
        if len(paths) > 1:
            raise ValueError("- stands for standard input alone, without other paths")
        report = examine(sys.stdin.read(), "<stdin>", size=size)
        findings = [finding for finding in report.findings if not codes or finding.code in codes]
        return replace(report, findings=tuple(findings))
    with progress_bar("examining") as progress:
        report = examine_files(paths, size=size, codes=codes, progress=progress)
    if not report.files:
        raise ValueError(f"no Python files in {', '.join(paths)}")
    return report


def fix_files(report: Report) -> list[tuple[str, int]]:
    """Write the fixes that are certain; return the changed files, and how many fixes each has.

    Raises:
        ValueError: the code is from standard input.
    """
    edits: dict[str, set[Edit]] = {}
    for finding in report.findings:
        if finding.edit is not None and finding.certain:
            edits.setdefault(finding.path, set()).add(finding.edit)
    if "<stdin>" in edits:
        raise ValueError("--fix changes files, and cannot change standard input")
    for path, some in edits.items():
        Path(path).write_bytes(edited(Path(path).read_bytes(), some))
    return [(path, len(some)) for path, some in edits.items()]


def codes_of(text: str) -> list[str]:
    """Return the codes in a list with commas.

    >>> codes_of("gs001, GS004")
    ['GS001', 'GS004']
    """
    return [code.strip().upper() for code in text.split(",") if code.strip()]


def explained(code: str) -> str:
    """Return the explanation of a rule, under its code."""
    if code not in RULES:
        raise ValueError(f"no rule has the code {code!r}; accepted: {', '.join(RULES)}")
    return f"{code}\n\n{RULES[code].explanation}"


def summary(report: Report) -> str:
    """Return the last line: how much was examined, and how much was found.

    >>> summary(Report((), (), 1, 2))
    'nothing found: 2 calls in 1 file'
    """
    calls = f"{report.calls} call{'' if report.calls == 1 else 's'}"
    files = f"{report.files} file{'' if report.files == 1 else 's'}"
    count = len(report.findings)
    counted = f"{count} finding{'' if count == 1 else 's'}" if count else "nothing found"
    return f"{counted}: {calls} in {files}"
