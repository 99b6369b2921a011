"""Conversion of records to arguments of torch's operators, and back.

The schemas of operators cannot contain records.  Only this module knows the order of the arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gridsample.definitions.footprints import Footprint
from gridsample.definitions.methods import spell
from gridsample.definitions.options import Options, Resizing

# The arguments of all sampling operators after their tensors: fields of `Options`.
SAMPLING = (
    "str[] mode, str[] padding_mode, bool align_corners, int[] order, "
    'str coords="normalized", str? end=None, float[] fill=[], int? threads=None, '
    "int samples=0, bool attached=True"
)


def flat(options: Options) -> tuple[Any, ...]:
    """Convert checked options to the operators' arguments."""
    return (
        [spell(method) for method in options.mode],
        list(options.padding_mode),
        options.align_corners,
        list(options.order),
        options.coords,
        options.extrapolate if isinstance(options.extrapolate, str) else None,
        list(options.fill_value),
        options.threads,
        0 if options.footprint is None else options.footprint.most,
        options.footprint is None or options.footprint.attached,
    )


def record(
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

    ``end`` is where the image ends; None if it is extrapolated.  ``samples`` is the maximum number
    of samples along a side of a footprint, or 0 for none.
    """
    return Options(
        mode=tuple(mode),
        padding_mode=tuple(padding_mode),
        align_corners=align_corners,
        coords=coords,
        fill_value=tuple(fill),
        extrapolate=end or True,
        threads=threads,
        footprint=Footprint(samples, attached) if samples else None,
        order=tuple(order),
    )


# The number of arguments of each operator before the options.
LEADING = {"gather": 2, "scatter": 3, "backward": 5, "backward_twice": 8}


def on_record(name: str, compute: Callable[..., Any], more: int = 0) -> Callable[..., Any]:
    """Wrap a function of tensors and one record so that it has the arguments of an operator.

    ``more`` is the number of additional arguments before those of the operator.
    """
    first = LEADING[name] + more

    @functools.wraps(compute)
    def call(*arguments: Any) -> Any:
        return compute(*arguments[:first], record(*arguments[first:]))

    return call


# The arguments of `resize` after the image: fields of `Resizing`, and ``transposed``.
RESIZING = (
    "SymInt[] size, str[] method, bool align_corners, bool antialias, "
    "float[] scale, bool transposed, int? threads=None, str rounding='exact'"
)


def flat_resizing(resizing: Resizing, transposed: bool) -> tuple[Any, ...]:
    """Convert a record to the arguments of `resize`."""
    return (
        list(resizing.size), list(resizing.methods), resizing.align_corners, resizing.antialias,
        list(resizing.scales), transposed, resizing.threads, resizing.rounding,
    )  # fmt: skip


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
        methods=tuple(method),
        align_corners=align_corners,
        antialias=antialias,
        scales=tuple(scale),
        rounding=rounding,
        threads=threads,
    )
    return resizing, transposed
