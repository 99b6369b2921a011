"""A pytest plugin for other projects' tests: it puts our functions in place, and writes outcomes.

It runs in the other project's environment, and needs nothing of ours but `gridsample`.  The
environment variables `GRIDSAMPLE_IN_PLACE` (a name of `SUBSTITUTES`, or nothing), with
`GRIDSAMPLE_STRICT`, and `GRIDSAMPLE_OUTCOMES` (a file) say what it does.  Each line of the file is
a record: a test that starts, or a phase of a test that is over.  So nothing is lost when a test
ends the process.
"""

from __future__ import annotations

import collections
import functools
import inspect
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

CALLS: collections.Counter[str] = collections.Counter()
PROPERTY = "gridsample calls"


def counted(function: Callable[..., Any], name: str, watched: bool = True) -> Callable[..., Any]:
    """A function that counts its calls, except where torch.compile traces it."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        import torch

        if not torch.compiler.is_compiling():
            CALLS[name] += 1
        return function(*args, **options)

    @functools.wraps(function)
    def as_tensors(*args: Any, **options: Any) -> Any:
        CALLS[name] += 1
        return function(*args, **options)

    return call if watched else as_tensors


# What is put in place -----------------------------------------------------------------------------


def count_results(owner: Any, name: str, counter: str) -> None:
    """Count the results of what finds a prepared call: that does not reach the public function."""
    shortcut = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        result = shortcut(*arguments, **options)
        return result if result is None else counted(lambda: result, counter)()

    setattr(owner, name, call)


def for_torch(strict: bool) -> None:
    """Our `grid_sample`, `affine_grid` and `interpolate` for torch's.

    Counted is what reaches the public functions, and not what torch does in our place.
    """
    from gridsample import fields, torch_compat
    from gridsample.ops import resizing, sampling

    sampling.grid_sample = counted(sampling.grid_sample, "grid_sample")
    if not strict:  # then there are shortcuts for plain tensors
        count_results(torch_compat, "prepared_call", "grid_sample")
        count_results(resizing, "prepared_resizing", "interpolate")
    fields.affine_grid = counted(fields.affine_grid, "affine_grid")
    resizing.interpolate = counted(resizing.interpolate, "interpolate")
    takes_strict = "strict" in inspect.signature(torch_compat.patch).parameters
    if strict and not takes_strict:
        raise pytest.UsageError("gridsample.torch_compat.patch of this version has no strict")
    torch_compat.patch(**({"strict": strict} if takes_strict else {}))


def for_ndimage(strict: bool) -> None:
    """Our functions for the ones of `scipy.ndimage` that have their names."""
    import scipy.ndimage as theirs

    from gridsample import ndimage

    for name in ndimage.__all__:
        ours = counted(getattr(ndimage, name), name, watched=False)
        as_capable(ours, getattr(theirs, name))
        setattr(theirs, name, ours)


def for_interpolators(strict: bool) -> None:
    """Our interpolators for the ones of `scipy.interpolate`."""
    import scipy.interpolate as theirs
    from scipy.interpolate import _fitpack2, _rgi

    from gridsample import interpolators

    class Interpolator(interpolators.RegularGridInterpolator):
        _ALL_METHODS = theirs.RegularGridInterpolator._ALL_METHODS
        __call__ = counted(interpolators.RegularGridInterpolator.__call__, "__call__", False)

    class Spline(interpolators.RectBivariateSpline):
        __call__ = counted(interpolators.RectBivariateSpline.__call__, "__call__", False)

    ours = {
        "RegularGridInterpolator": Interpolator,
        "RectBivariateSpline": Spline,
        "interpn": counted(interpolators.interpn, "interpn", watched=False),
    }
    for name, substitute in ours.items():
        as_capable(substitute, getattr(theirs, name))
        for place in (theirs, _rgi, _fitpack2):
            if hasattr(place, name):  # whence the tests, too, take them
                setattr(place, name, substitute)


def as_capable(ours: Any, theirs: Any) -> None:
    """Let SciPy's own tests try a substitute with the array libraries of the original."""
    try:
        from scipy._lib._array_api import xp_capabilities_table as capabilities
    except ImportError:
        return
    if theirs in capabilities:
        capabilities[ours] = capabilities[theirs]


def for_jax(strict: bool) -> None:
    """Our `map_coordinates` and `resize` for JAX's."""
    import jax.image
    import jax.scipy.ndimage

    import gridsample.jax as ours

    for module, name in ((jax.scipy.ndimage, "map_coordinates"), (jax.image, "resize")):
        setattr(module, name, counted(getattr(ours, name), name, watched=False))


def for_skimage(strict: bool) -> None:
    """Our functions for the ones of `skimage.transform` that have their names.

    Modules of scikit-image that import the names later find ours, too.
    """
    import skimage.transform as package
    import skimage.transform._warps as theirs

    from gridsample import skimage

    for name in skimage.__all__:
        ours = counted(getattr(skimage, name), name, watched=False)
        setattr(theirs, name, ours)
        setattr(package, name, ours)


def for_cv(strict: bool) -> None:
    """Our functions for the ones of OpenCV's Python module that have their names."""
    import cv2

    from gridsample import cv

    for name in cv.__all__:
        if inspect.isfunction(getattr(cv, name)):  # constants stay
            setattr(cv2, name, counted(getattr(cv, name), name, watched=False))


def for_interpol(strict: bool) -> None:
    """Our sampling, splatting, counting and differentiating for torch-interpol's.

    Its public functions stay, and shape what they are given; what is replaced is what they call.
    Grids are in pixels there, and in the order of the axes.
    """
    import interpol.api
    from interpol.autograd import bound_to_nitorch, inter_to_nitorch, make_list

    import gridsample

    bounds = {
        "zero": "zeros",
        "replicate": "border",
        "dct1": "mirror",
        "dct2": "symmetric",
        "dst2": "antisymmetric",
        "dft": "wrap",
    }

    def options(interpolation: Any, bound: Any, extrapolate: Any, rank: int) -> dict[str, Any]:
        orders = inter_to_nitorch(make_list(interpolation), as_type="int")
        names = bound_to_nitorch(make_list(bound), as_type="str")
        each = [
            (list(axis_names) + [axis_names[-1]] * rank)[:rank][::-1]
            for axis_names in (orders, names)
        ]
        modes = tuple(["nearest", "linear"][n] if n < 2 else f"spline{n}" for n in each[0])
        return {
            "mode": modes,
            "padding_mode": tuple(bounds[name] for name in each[1]),
            "align_corners": int(extrapolate) == 0,
            "extrapolate": int(extrapolate) == 1,
            "coords": "pixel",
            "prefilter": False,
        }

    def pull(input: Any, grid: Any, *settings: Any) -> Any:
        return gridsample.grid_sample(input, grid.flip(-1), **options(*settings, grid.shape[-1]))

    def push(input: Any, grid: Any, shape: Any, *settings: Any) -> Any:
        size = tuple(shape or input.shape[2:])
        return gridsample.splat(input, grid.flip(-1), size, **options(*settings, grid.shape[-1]))

    def count(grid: Any, shape: Any, *settings: Any) -> Any:
        size = tuple(shape or grid.shape[1:-1])
        return gridsample.splat_count(grid.flip(-1), size, **options(*settings, grid.shape[-1]))

    def slope(input: Any, grid: Any, *settings: Any) -> Any:
        result = gridsample.grid_gradient(
            input, grid.flip(-1), **options(*settings, grid.shape[-1])
        )
        return result.flip(-1)

    places = {"GridPull": pull, "GridPush": push, "GridCount": count, "GridGrad": slope}
    for name, ours in places.items():
        setattr(interpol.api, name, OrTheirs(getattr(interpol.api, name), ours))


class OrTheirs:
    """An autograd function's `apply`, ours; theirs for a boundary that has no name of ours."""

    def __init__(self, theirs: Any, ours: Callable[..., Any]) -> None:
        self.theirs, self.ours = theirs, ours

    def apply(self, *args: Any) -> Any:
        """Call our function or, if it cannot, theirs."""
        try:
            result = self.ours(*args)
        except KeyError:
            return self.theirs.apply(*args)
        CALLS[self.theirs.__name__] += 1
        return result


def for_xarray(strict: bool) -> None:
    """Our `interp` and `interp_like` for the methods of xarray's objects.

    While ours run, the methods are the original ones, which they call.
    """
    import xarray

    import gridsample.xarray as ours

    running: list[str] = []

    def method(original: Callable[..., Any], name: str) -> Callable[..., Any]:
        function = counted(getattr(ours, name), name, watched=False)

        @functools.wraps(original)
        def call(*args: Any, **options: Any) -> Any:
            if running:
                return original(*args, **options)
            running.append(name)
            try:
                return function(*args, **options)
            finally:
                running.pop()

        return call

    for owner in (xarray.DataArray, xarray.Dataset):
        for name in ("interp", "interp_like"):
            setattr(owner, name, method(getattr(owner, name), name))


SUBSTITUTES: dict[str, Callable[[bool], None]] = {
    "torch": for_torch,
    "ndimage": for_ndimage,
    "interpolators": for_interpolators,
    "skimage": for_skimage,
    "cv": for_cv,
    "interpol": for_interpol,
    "jax": for_jax,
    "xarray": for_xarray,
}


# Hooks --------------------------------------------------------------------------------------------


def write(record: dict[str, Any]) -> None:
    """Add a line to the file."""
    with open(os.environ["GRIDSAMPLE_OUTCOMES"], "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any, parser: Any, args: Sequence[str]) -> None:
    """Replace the functions before the project is imported."""
    name = os.environ.get("GRIDSAMPLE_IN_PLACE")
    if name:
        SUBSTITUTES[name](bool(os.environ.get("GRIDSAMPLE_STRICT")))


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    """A test starts."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        write({"test": nodeid, "phase": "start"})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: Any, nextitem: Any) -> Iterator[None]:
    """Attach the calls of a test to its report."""
    item.gridsample_before = CALLS.copy()
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: Any, nextitem: Any) -> None:
    """Note the end of the test itself."""
    item.user_properties.append((PROPERTY, dict(CALLS - item.gridsample_before)))


def pytest_runtest_logreport(report: Any) -> None:
    """A phase is over; with xdist it is the process that hands out tests which hears of all."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    calls = dict(report.user_properties).get(PROPERTY, {}) if report.when == "teardown" else {}
    outcome = report.outcome
    if hasattr(report, "wasxfail"):
        outcome = "xfailed" if report.skipped else "xpassed"
    write(
        {
            "test": report.nodeid,
            "phase": report.when,
            "outcome": outcome,
            "calls": calls,
            "why": reason(report) if report.failed else "",
        }
    )


def pytest_collectreport(report: Any) -> None:
    """A file could not be collected."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        why = reason(report)
        write({"test": report.nodeid, "phase": "collect", "outcome": "failed", "why": why})


def reason(report: Any) -> str:
    """The line with the reason of a failure."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    # A failed collection is told as a traceback, whose last line says it.
    return (lines[0] if crash is not None else lines[-1])[:300]
