"""Conversion of records to arguments of torch's operators, and back.

The schemas of operators cannot contain records.  Only this module knows the order of the arguments,
and how methods are written as strings: a name, or the complete definition, which an exported
program thus contains.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gridsample.definitions.caches import cached_call
from gridsample.definitions.cells import CELLS_PREFIX, AxisMethod, CellMeans, means_of_text
from gridsample.definitions.control_points import ControlAxis
from gridsample.definitions.footprints import Footprint
from gridsample.definitions.knots import PREFIX, Axes
from gridsample.definitions.methods import METHODS, Method, find_method
from gridsample.definitions.options import Options, Resizing
from gridsample.definitions.zooming import Zoom

# How the text of a `Zoom` begins.
ZOOM_PREFIX = "zoom:"
# How that of a `ControlAxis` begins.
CONTROL_PREFIX = "control:"


def text_of(method: str | AxisMethod) -> str:
    """Describe a method as a string: its name, or its complete definition."""
    if isinstance(method, str):
        return method
    if isinstance(method, Zoom):
        return ZOOM_PREFIX + ",".join(map(str, method))
    if isinstance(method, ControlAxis):
        return CONTROL_PREFIX + ",".join(map(str, method))
    if isinstance(method, CellMeans):
        return method.text
    known = METHODS.get(method.name)
    if known is method:  # avoids `Method.text`, which torch.compile cannot trace
        return method.name
    return method.name if known is not None and known.text == method.text else method.text


def method_of(text: str) -> AxisMethod:
    """Find the method that `text_of` described, which may be one that only resizes."""
    return means_of_text(text) if text.startswith(CELLS_PREFIX) else short_method_of(text)


@functools.lru_cache(maxsize=1024)
def short_method_of(text: str) -> Method | Zoom | ControlAxis:
    """Find the method of a text that is short enough to be kept in a cache."""
    if text.startswith("["):
        return Method.of_text(text)
    if text.startswith(ZOOM_PREFIX):
        order, boundary, sigma, *numbers = text.removeprefix(ZOOM_PREFIX).split(",")
        return Zoom(int(order), boundary, float(sigma), *map(int, numbers))
    if text.startswith(CONTROL_PREFIX):
        name, points, outputs, *rest = text.removeprefix(CONTROL_PREFIX).split(",")
        return ControlAxis(name, int(points), int(outputs), *map(float, rest))
    return find_method(text, resizing=True)


@cached_call(64)
def coords_of(text: str) -> str | Axes:
    """Find the units of coordinates of a name, or of `Axes.text`."""
    return Axes.of_text(text) if text.startswith(PREFIX) else text


# Sampling -----------------------------------------------------------------------------------------


# The arguments of all sampling operators after their tensors: fields of `Options`.
SAMPLING = (
    "str[] mode, str[] padding_mode, bool align_corners, int[] order, "
    'str coords="normalized", str? end=None, float[] fill=[], int? threads=None, '
    "int samples=0, bool attached=True"
)


def end_text(ends: Sequence[bool | str]) -> str | None:
    """Convert where an image ends to a name, or one for each axis; None if it is extended."""
    if not ends:
        return None
    names = [end if isinstance(end, str) else "" for end in ends]
    return names[0] if len({*names}) == 1 else ",".join(names)


def ends_of(text: str | None, rank: int) -> tuple[bool | str, ...]:
    """Return where an image ends along each axis: the inverse of `end_text`."""
    if text is None:
        return ()
    names = text.split(",")
    return tuple([name or True for name in (names * rank if len(names) == 1 else names)])


def flat_options(options: Options) -> tuple[Any, ...]:
    """Convert checked options to the operators' arguments."""
    return (
        [text_of(method) for method in options.mode],
        list(options.padding_mode),
        options.align_corners,
        list(options.order),
        options.coords if isinstance(options.coords, str) else options.coords.text,
        end_text(options.ends),
        list(options.fill_value),
        options.threads,
        0 if options.footprint is None else options.footprint.max_samples,
        options.footprint is None or options.footprint.attached,
    )


def options_of(
    mode: Sequence[str],
    padding_mode: Sequence[str],
    align_corners: bool,
    order: Sequence[int],
    coords: str = "normalized",
    end: str | None = None,
    fill: Sequence[float] = (),
    threads: int | None = None,
    samples: int = 0,
    attached: bool = True,
) -> Options:
    """Convert the operators' arguments, of which the last ones are optional, to checked options.

    ``end`` is where the image ends, as `end_text` writes it.  ``samples`` is the maximum number of
    samples along a side of a footprint, or 0 for none.
    """
    methods: Any = [method_of(name) for name in mode]  # none that only resizes
    return Options(
        mode=tuple(methods),
        padding_mode=tuple(padding_mode),
        align_corners=align_corners,
        coords=coords_of(coords),
        fill_value=tuple(fill),
        ends=ends_of(end, len(mode)),
        threads=threads,
        footprint=Footprint(samples, attached) if samples else None,
        order=tuple(order),
    )


# The number of arguments of each operator before the options, and how many of these are flags,
# which come last: whether each gradient is needed.
LEADING = {"gather": 2, "scatter": 3, "backward": 5, "backward_twice": 8}
FLAGS = {"gather": 0, "scatter": 0, "backward": 2, "backward_twice": 3}


def as_operator(name: str, compute: Callable[..., Any], more: int = 0) -> Callable[..., Any]:
    """Wrap a function so that it has the arguments of an operator.

    The function takes one tuple in place of the flags, and one record in place of the options.
    ``more`` is the number of additional arguments before those of the operator.
    """
    first = LEADING[name] + more
    flags = first - FLAGS[name]

    @functools.wraps(compute)
    def call(*arguments: Any) -> Any:
        needed = (arguments[flags:first],) if flags < first else ()
        return compute(*arguments[:flags], *needed, options_of(*arguments[first:]))

    return call


def operator_arguments(name: str, *arguments: Any) -> tuple[Any, ...]:
    """Convert arguments, of which the last is a record of options, to those of an operator."""
    *leading, options = arguments
    needed = leading.pop() if FLAGS[name] else ()
    return (*leading, *needed, *flat_options(options))


# Resizing -----------------------------------------------------------------------------------------

# The arguments of `resize` after the image: fields of `Resizing`, and ``transposed``.
RESIZING = (
    "SymInt[] size, str[] method, bool align_corners, bool antialias, "
    "float[] scale, bool transposed, int? threads=None, str rounding='exact'"
)


def flat_resizing(resizing: Resizing, transposed: bool) -> tuple[Any, ...]:
    """Convert a record to the arguments of `resize`."""
    return (
        list(resizing.size),
        [text_of(method) for method in resizing.methods],
        resizing.align_corners,
        resizing.antialias,
        list(resizing.scales),
        transposed,
        resizing.threads,
        resizing.rounding,
    )


def resizing_of(
    size: Sequence[int],
    method: Sequence[str],
    align_corners: bool,
    antialias: bool,
    scale: Sequence[float],
    transposed: bool,
    threads: int | None = None,
    rounding: str = "exact",
) -> tuple[Resizing, bool]:
    """Convert the arguments of `resize`, the last ones optional, to a record and ``transposed``."""
    resizing = Resizing(
        size=tuple(size),
        methods=tuple([method_of(name) for name in method]),
        align_corners=align_corners,
        antialias=antialias,
        scales=tuple(scale),
        rounding=rounding,
        threads=threads,
    )
    return resizing, transposed
