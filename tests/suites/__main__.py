"""Runs another project's own tests twice: as they are, and with our functions in place.

    python -m tests.suites                          the projects that are known
    python -m tests.suites scipy                    an installed package that has its tests
    python -m tests.suites kornia ~/kornia          a checkout; its own tests
    python -m tests.suites kornia ~/kornia --strict -k warp
    python -m tests.suites mine ~/mine --in-place torch tests/test_flow.py

It prints how many tests pass and fail, how many calls reached us, and each test that comes out
otherwise.  The exit status is 0 if no test is worse, 1 if one is, and 2 if a run did not end as it
should.  docs/suites.md says how to install the projects.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.suites import running
from tests.suites.projects import PROJECTS, Project
from tests.suites.running import Difference, Run

IN_PLACE = ("torch", "ndimage", "interpolators", "skimage", "cv", "interpol", "jax", "xarray")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.suites",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "project", nargs="?", help=f"{', '.join(PROJECTS)}, or one that is not known"
    )
    parser.add_argument("path", nargs="?", type=Path, help="a checkout of it")
    parser.add_argument("tests", nargs="*", help="other tests than usual: paths in the checkout")
    parser.add_argument(
        "--in-place", choices=IN_PLACE, help="what is put in place, if not the usual"
    )
    parser.add_argument("--strict", action="store_true", help="torch_compat.patch(strict=True)")
    parser.add_argument("-k", dest="keyword", help="which tests, as for pytest, if not the usual")
    parser.add_argument("-n", dest="processes", type=int, default=0, help="as for pytest-xdist")
    parser.add_argument("--python", default=sys.executable, help="of the project's environment")
    parser.add_argument("--limit", type=float, metavar="S", help="seconds that each run may take")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where all outcomes go, too")
    parser.add_argument(
        "--plain", type=Path, metavar="FILE", help="take what is as it is from an earlier --json"
    )
    parser.add_argument(
        "--option", action="append", default=[], help="a further option of pytest: --option=-x"
    )
    return parser


def project_of(arguments: argparse.Namespace) -> Project | str:
    """The project with the command's options, or an error message."""
    usual = PROJECTS.get(arguments.project)
    in_place = arguments.in_place or (usual and usual.in_place)
    if in_place is None:
        return f"{arguments.project} is not known: say what is put in place (--in-place)"
    if arguments.path is None and not (usual and usual.installed):
        return f"{arguments.project}: the installed package has no tests; give a checkout's path"
    if arguments.path is not None and not arguments.path.is_dir():
        return f"{arguments.path} is not a folder"
    tests = tuple(arguments.tests) or (usual.tests if usual else ())
    keyword = (usual.keyword if usual else "") if arguments.keyword is None else arguments.keyword
    installed = arguments.path is None
    options = (*(usual.options if usual else ()), *arguments.option)
    return Project("", in_place, tests, installed, keyword, options)


def words_of(project: Project, processes: int) -> list[str]:
    """The arguments of pytest."""
    words = ["--pyargs"] if project.installed else []
    words += [*project.tests, *project.options]
    words += ["-k", project.keyword] if project.keyword else []
    return words + (["-n", str(processes)] if processes else [])


def report(name: str, baseline: Run, ours: Run, differences: Sequence[Difference]) -> Iterator[str]:
    """The lines of the report."""
    columns = ("passed", "failed", "error", "crashed", "skipped", "xfailed", "xpassed")
    width = max(len(name), 12) + 2
    yield f"{name:{width}}" + "".join(f"{column:>9}" for column in columns) + f"{'seconds':>9}"
    for title, run in (("as it is", baseline), ("ours", ours)):
        cells = "".join(f"{run.count(column):9}" for column in columns)
        yield f"{title:{width}}{cells}{run.seconds:9.0f}"
        if run.code not in (0, 1):
            yield f"{'':{width}}pytest ended with status {run.code}"
    calls = ", ".join(f"{function} {count}" for function, count in sorted(ours.calls.items()))
    total = sum(ours.calls.values())
    yield f"calls that reached us: {total} in {ours.reached} tests ({calls or 'none'})"
    worse = sum(difference.worse for difference in differences)
    yield f"tests that come out otherwise: {len(differences)}, of which {worse} worse"
    for difference in differences:
        yield f"  {difference.before} -> {difference.after}: {difference.test}"
        if difference.why:
            yield f"      {difference.why}"


def list_projects() -> None:
    """Print the projects."""
    for name, project in PROJECTS.items():
        print(f"{name:16}{project.in_place:10}{' '.join(project.tests)}")
        print(f"{'':16}{'':10}needs {project.install}")


def main(words: Sequence[str] | None = None) -> int:
    """Run the tests, print a report and write the figures."""
    arguments = parser().parse_args(words)
    if arguments.project is None:
        list_projects()
        return 0
    project = project_of(arguments)
    if isinstance(project, str):
        print(project, file=sys.stderr)
        return 2
    pytest_arguments = words_of(project, arguments.processes)
    location = arguments.python, arguments.path and arguments.path.resolve(), pytest_arguments
    if arguments.plain:
        baseline = Run(**json.loads(arguments.plain.read_text())["plain"])
    else:
        baseline = running.run(*location, limit=arguments.limit)
    ours = running.run(*location, project.in_place, arguments.strict, arguments.limit)
    differences = running.compare(baseline, ours)
    heading = project.in_place + (", strict" if arguments.strict else "")
    print(*report(f"{arguments.project} ({heading})", baseline, ours, differences), sep="\n")
    if arguments.json:
        stored = {
            "project": arguments.project,
            "in_place": project.in_place,
            "strict": arguments.strict,
            "words": pytest_arguments,
            "plain": baseline.record(),
            "ours": ours.record(),
            "differences": [
                asdict(difference) | {"worse": difference.worse} for difference in differences
            ],
        }
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(stored, indent=1) + "\n")
    for run in (baseline, ours):
        if not run.outcomes or run.code not in (0, 1):
            print(f"pytest ended with status {run.code}:\n{run.message}", file=sys.stderr)
            return 2
    return int(any(difference.worse for difference in differences))


if __name__ == "__main__":
    sys.exit(main())
