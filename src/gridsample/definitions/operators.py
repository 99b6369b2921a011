"""Fused operators: what one is, apart from the programs that compute it.

An operator computes one array from several arrays and a few options.  Its record names the axes of
all arrays, as in `numpy.einsum`, and everything that does not depend on what is computed follows
from these names: checks and their errors, the shape of the result, batches (`torch.vmap`,
`jax.vmap`), and what the devices of a mesh compute.

What is computed is said twice: by a program for the result and one for the first derivatives
(`gridsample.kernels.operators`), and by a composition of functions that exist (``composed`` and
``composed_vjp``).  The composition defines the operator.  It serves wherever there is no program:
derivatives of higher order, forward mode, other devices, and options that ``is_fused`` excludes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gridsample.definitions.dtypes import GRID_TYPES
from gridsample.definitions.methods import Method, find_method
from gridsample.definitions.shapes import Shape

# An array of any library.
Array = Any
# The axis that every array has first, and that batches join.
BATCH = "n"


def no_lengths(options: Any) -> Mapping[str, int]:
    """Return no axes: every axis of the result is one of the arrays."""
    return {}


@dataclass(frozen=True)
class Operator:
    """A fused operator.

    Attributes:
        name: its name, which is that of its module of programs, too.
        arrays: the axes of each array by its name, separated by blanks.  The first axis of every
            array is "n".
        result: the axes of the result, whose dtype is that of the first array.
        sums: the arrays to whose gradients the program adds, which therefore begin with zeros, and
            which are sums over points in the dtype of sums.
        whole: the axes that cannot be divided among devices.
        options: the type of the options, a NamedTuple.
        is_fused: whether programs compute a call with some options.
        composed: computes the result from a backend, the arrays and the options, by functions that
            can be differentiated.
        composed_vjp: computes gradients from a backend, the upstream gradient, the arrays, the
            options and a flag for each array: the needed gradients, in the order of the arrays,
            and None in place of the others.
        lengths: returns the sizes of the axes that only the result has, by name, given the options.
        reads_result: whether the program of the derivatives also reads the result.
    """

    name: str
    arrays: Mapping[str, str]
    result: str
    sums: tuple[str, ...]
    whole: tuple[str, ...]
    options: type
    is_fused: Callable[[Any], bool]
    composed: Callable[[Any, Sequence[Array], Any], Array]
    composed_vjp: Callable[[Any, Array, Sequence[Array], Any, Sequence[bool]], Sequence[Any]]
    lengths: Callable[[Any], Mapping[str, int]] = no_lengths
    reads_result: bool = False

    def __hash__(self) -> int:
        """The hash of the name, which no other operator has."""
        return hash(self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return tuple(self.arrays)

    def sizes(self, shapes: Sequence[Shape], names: Sequence[str] = ()) -> dict[str, int]:
        """Return the size of each axis by its name, given the shapes of the arrays.

        ``names`` are those of the caller's arguments, if they differ from those of the arrays.

        Raises:
            ValueError: an array has another number of axes, or arrays have different sizes.
        """
        sizes: dict[str, int] = {}  # not dict[str, int](), which a compiler does not know
        places: dict[str, str] = {}
        known = zip(names or self.names, self.arrays.values(), shapes, strict=True)
        for name, axes, shape in known:
            letters = axes.split()
            if len(shape) != len(letters):
                raise ValueError(
                    f"{name} must have the axes ({', '.join(letters)}), got shape {tuple(shape)}"
                )
            for axis, size in zip(letters, shape, strict=True):
                place = places.setdefault(axis, name)
                if sizes.setdefault(axis, size) != size:
                    raise ValueError(
                        f"{name} with the axes ({', '.join(letters)}) has {size} entries along "
                        f"{axis}, but {place} has {sizes[axis]}"
                    )
        return sizes

    def shape(self, sizes: Mapping[str, int], options: Any) -> Shape:
        """Return the shape of the result, given the sizes of the arrays' axes."""
        known = {**sizes, **self.lengths(options)}
        return tuple([known[axis] for axis in self.result.split()])


def check_types(**types: str) -> None:
    """Raise an error unless all arrays are floating-point, given the names of their dtypes.

    Raises:
        TypeError: an array has another dtype.
    """
    for name, dtype in types.items():
        if dtype not in GRID_TYPES:
            raise TypeError(f"{name} has dtype {dtype}; accepted: {', '.join(GRID_TYPES)}")


_declared: list[Operator] = []
_watchers: list[Callable[[Operator], object]] = []


def declare(operator: Operator) -> Operator:
    """Make an operator known to the backends that watch, and return it."""
    _declared.append(operator)
    for tell in _watchers:
        tell(operator)
    return operator


def watch(tell: Callable[[Operator], object]) -> None:
    """Call a function with each operator that is declared, before or after this call.

    A library that must know operators before they are used, as torch does, is told of them here.
    """
    _watchers.append(tell)
    for operator in _declared:
        tell(operator)


def shapes_of(sizes: tuple[int, ...], rank: int) -> list[Shape]:
    """Divide the sizes of all levels into a shape for each."""
    return [sizes[k : k + rank] for k in range(0, len(sizes), rank)]


class SumOptions(NamedTuple):
    """The options of `gridsample.operators.weighted_sum`; one entry for each axis is x first.

    Attributes:
        sizes: the spatial shapes of all levels, one after the other.
        rank: the number of spatial axes.
        mode: the method of each axis.
        padding_mode: the boundary of each axis.
        align_corners: whether -1 and 1 are the centres of the corner pixels.
        coords: the units of points: one of UNITS.
        threads: the maximum number of threads; None for the default.
    """

    sizes: tuple[int, ...]
    rank: int
    mode: tuple[Method, ...]
    padding_mode: tuple[str, ...]
    align_corners: bool
    coords: str
    threads: int | None

    def levels(self) -> list[Shape]:
        """Return the spatial shape of each level."""
        return shapes_of(self.sizes, self.rank)

    def is_fused(self) -> bool:
        """Whether the taps of all points are those of the image, and none votes."""
        methods = [find_method(method) for method in self.mode]
        return not any([method.prefilter > 1 or method.votes for method in methods])


def correlation_scale(channels: int) -> float:
    """Return the factor of the dot products of features, of which there may be none."""
    return 1 / math.sqrt(max(channels, 1))


class LookupOptions(NamedTuple):
    """The options of `gridsample.operators.correlation_lookup`.

    Attributes:
        sizes: the spatial shapes of all levels, one after the other.
        rank: the number of spatial axes.
        radius: how many pixels a window extends from its centre, each way along each axis.
        threads: the maximum number of threads; None for the default.
    """

    sizes: tuple[int, ...]
    rank: int
    radius: int
    threads: int | None

    def levels(self) -> list[Shape]:
        """Return the spatial shape of each level."""
        return shapes_of(self.sizes, self.rank)

    def window(self) -> int:
        """Return the number of samples of a window."""
        return int((2 * self.radius + 1) ** self.rank)

    def lengths(self) -> dict[str, int]:
        """Return the number of samples of all levels, which is the axis "w" of the result."""
        return {"w": len(self.levels()) * self.window()}


class SplatOptions(NamedTuple):
    """The options of the operators of `gridsample.operators.softmax_splat`.

    Attributes:
        size: the spatial shape of the result.
        padding_mode: the boundary of each axis, x first.
        hard: whether only values of the greatest metric of a pixel count.
        threads: the maximum number of threads; None for the default.
    """

    size: tuple[int, ...]
    padding_mode: tuple[str, ...]
    hard: bool
    threads: int | None

    def lengths(self) -> dict[str, int]:
        """Return the number of pixels, which is the axis "q" of the result."""
        return {"q": math.prod(self.size)}


# The units of points: those of `gridsample.grid_sample`, and "unit", from 0 to 1 between the outer
# edges of the image.
UNITS = ("normalized", "pixel", "unit")
