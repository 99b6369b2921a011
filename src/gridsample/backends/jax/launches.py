"""Prepared launches as calls that XLA makes: where their arrays are, and what they write."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gridsample.backends.jax import handler
from gridsample.backends.jax.handler import RESULT, LaunchStep, Place
from gridsample.backends.jax.taps import Array, TracedCall
from gridsample.definitions.options import fill_of_channels
from gridsample.kernels.memory import Layout
from gridsample.kernels.run import Steps

Shape = tuple[int, ...]


class ArrayType(NamedTuple):
    """The shape and the dtype of an array."""

    shape: Shape
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """The bytes of an array without gaps."""
        return math.prod(self.shape) * self.dtype.itemsize


def type_of(array: Array) -> ArrayType:
    """The type of an array."""
    return ArrayType(tuple(array.shape), np.dtype(array.dtype))


def scratch_type(size: int) -> ArrayType:
    """The type of ``size`` bytes of memory."""
    return ArrayType((size,), np.dtype(np.uint8))


def layout_of(array_type: ArrayType, last: bool = False) -> Layout:
    """The layout of an array (N, C, ...) without gaps, whose channels may come ``last``."""
    shape, dtype = array_type
    steps, size = [0] * len(shape), dtype.itemsize
    axes = [0, *range(2, len(shape)), 1] if last else range(len(shape))  # slowest first
    for axis in reversed(axes):
        steps[axis], size = size, size * shape[axis]
    return shape, tuple(steps), dtype


# Calls --------------------------------------------------------------------------------------------


def named_needs(needed: tuple[bool, bool]) -> frozenset[str]:
    """The names of the gradients that are needed: of the image, and of the grid."""
    return frozenset(name for name, need in zip(("image", "grid"), needed, strict=True) if need)


def values_outside(call: TracedCall, dtype: Any) -> dict[str, np.ndarray[Any, Any]]:
    """The values of each plane outside an image, by the names of the program's arrays."""
    from gridsample.kernels.sampling.preparing import fills_of_planes

    fills = fill_of_channels(call.fill, call.plan)
    numbers = fills_of_planes(call.plan, call.order, dtype, fills, None)
    return {
        name: np.zeros_like(plane) if call.tangent else plane for name, plane in numbers.items()
    }


class KeptLaunches(NamedTuple):
    """Launches that are never freed, because XLA's programs contain their address.

    Attributes:
        address: the address of the first.
        results: the types of the results, of intermediate ones, and of scratch memory.
        number: the number of results that the caller gets; the others are intermediate.
    """

    address: int
    results: tuple[ArrayType, ...]
    number: int

    def call(self, *arrays: Array, last: Sequence[int] = ()) -> list[Array]:
        """Call the handler.

        Args:
            arrays: the arguments.
            last: which arrays have their channels last, as indices into the arguments followed by
                the results.  If the caller's arrays have them last, too, XLA cancels the
                transpositions.
        """
        arguments = [jnp.moveaxis(a, 1, -1) if k in last else a for k, a in enumerate(arrays)]
        moved_results = [k - len(arrays) for k in last]
        types = [
            jax.ShapeDtypeStruct(
                (shape[0], *shape[2:], shape[1]) if k in moved_results else shape, dtype
            )
            for k, (shape, dtype) in enumerate(self.results)
        ]
        call = jax.ffi.ffi_call(handler.NAME, types)
        results = call(*arguments, launch=np.int64(self.address))[: self.number]
        return [jnp.moveaxis(a, -1, 1) if k in moved_results else a for k, a in enumerate(results)]


class StepArrays:
    """The arrays that steps write: results, and then those that are only needed between steps.

    Attributes:
        types: the type of each.
        number: how many results there are.
    """

    def __init__(self, *results: ArrayType) -> None:
        self.types, self.number = [*results], len(results)

    def add_intermediate(self, size: int) -> Place:
        """Add an array of ``size`` bytes that is only needed between steps."""
        self.types.append(scratch_type(size))
        return Place(RESULT, len(self.types) - 1)

    def cleared(self) -> dict[int, int]:
        """The number of bytes of each result; steps add to results, which must be 0 before."""
        return {k: array_type.nbytes for k, array_type in enumerate(self.types[: self.number])}

    def located(
        self,
        steps: Steps,
        places: Mapping[str, Place | np.ndarray[Any, Any] | None],
        cleared: Mapping[int, int] = MappingProxyType({}),
    ) -> list[LaunchStep]:
        """Return the steps of a call of kernels, and add the memory between them.

        Args:
            steps: the steps.
            places: where the arrays of the call are, by name.
            cleared: the bytes of results that are set to 0 before, by their numbers.
        """
        between = {name: self.add_intermediate(size) for name, size in steps.between.items()}
        known, located = {**places, **between}, list[LaunchStep]()
        for step in steps.steps:
            arrays = dict[str, Place | np.ndarray[Any, Any] | None]()
            for name in step.launch.program.arrays:
                array, offset = step.place_of(name)
                place = arrays[name] = known.get(array)
                if isinstance(place, Place):
                    arrays[name] = place._replace(offset=place.offset + offset)
            zeros = {between[name].number: size for name, size in step.cleared.items()}
            located.append(LaunchStep(step.launch, arrays, {**cleared, **zeros}))
            cleared = {}
        return located

    def prepare(self, steps: Sequence[LaunchStep]) -> KeptLaunches:
        """Store the steps, which share scratch memory."""
        size, count = handler.scratch_of(steps), len(self.types)
        scratch = [scratch_type(size)] if size else []
        return KeptLaunches(
            handler.store_launches(steps, count), (*self.types, *scratch), self.number
        )
