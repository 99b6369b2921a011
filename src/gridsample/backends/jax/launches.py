"""Prepared launches as calls that XLA makes: where their arrays are, and what they write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gridsample.backends.jax import handler
from gridsample.backends.jax.handler import RESULT, Place, Step
from gridsample.backends.jax.taps import Array, Call
from gridsample.kernels.memory import Layout

Shape = tuple[int, ...]
# The shape and the dtype of an array.
Form = tuple[Shape, np.dtype[Any]]


def form_of(array: Array) -> Form:
    """The shape and the dtype of an array."""
    return tuple(array.shape), np.dtype(array.dtype)


def axes_by_speed(rank: int, last: bool) -> list[int]:
    """The axes of an array from the slowest to the fastest; the second one may come ``last``."""
    return [0, *range(2, rank), 1] if last else [*range(rank)]


def layout_of(form: Form, last: bool = False) -> Layout:
    """The layout of an array (N, C, ...) without gaps, whose channels may come ``last``."""
    shape, dtype = form
    steps, size = [0] * len(shape), dtype.itemsize
    for axis in reversed(axes_by_speed(len(shape), last)):
        steps[axis], size = size, size * shape[axis]
    return shape, tuple(steps), dtype


def bytes_of(form: Form) -> int:
    """The bytes of an array."""
    return math.prod(form[0]) * form[1].itemsize


class Operand(NamedTuple):
    """An array that a step reads or writes.

    Attributes:
        form: its shape and dtype.
        place: where it is; None if it is not needed.
    """

    form: Form
    place: Place | None

    def part(self, items: slice) -> Operand:
        """Return a range of its items."""
        (count, *shape), dtype = self.form
        first, end, _ = items.indices(count)
        size = bytes_of(((1, *shape), dtype))
        place = self.place and self.place._replace(offset=self.place.offset + first * size)
        return Operand(((end - first, *shape), dtype), place)

    def cleared(self) -> dict[int, int]:
        """Return the number of the result and its bytes, as `Step.cleared`; empty if not needed."""
        return {self.place.number: bytes_of(self.form)} if self.place else {}


# Calls --------------------------------------------------------------------------------------------


def fill_numbers(call: Call) -> np.ndarray[Any, Any] | None:
    """The fill value of each channel; None if it is 0."""
    if not call.fill:
        return None
    return np.broadcast_to(np.array(call.fill), (call.plan.channels,))


def values_outside(call: Call, dtype: Any) -> list[np.ndarray[Any, Any]]:
    """The numbers of each plane outside an image."""
    from gridsample.kernels.sampling.preparing import fills_of_planes

    numbers = fills_of_planes(call.plan, call.order, dtype, fill_numbers(call), None)
    return [np.zeros_like(plane) if call.tangent else plane for plane in numbers]


class Prepared(NamedTuple):
    """Launches that are never freed, because XLA's programs contain their address.

    Attributes:
        address: the address of the first.
        results: the forms of the results, of intermediate ones, and of scratch memory.
        number: the number of results that the caller gets; the others are intermediate.
    """

    address: int
    results: tuple[Form, ...]
    number: int

    def call(self, *arrays: Array, last: Sequence[int] = ()) -> list[Array]:
        """Call the handler; ``last`` are the arrays, arguments first, whose channels come last.

        If they also do in the caller's arrays, XLA cancels the transpositions.
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


class Results:
    """The arrays that steps write: results, and then those that are only needed between steps.

    Attributes:
        forms: the form of each.
        number: how many results there are.
    """

    def __init__(self, *results: Form) -> None:
        self.forms, self.number = [*results], len(results)

    def add_intermediate(self, size: int) -> Place:
        """Add an array of ``size`` bytes that is only needed between steps."""
        self.forms.append(((size,), np.dtype(np.uint8)))
        return Place(RESULT, len(self.forms) - 1)

    def cleared(self) -> dict[int, int]:
        """The bytes of all results, which steps add to."""
        return {k: bytes_of(form) for k, form in enumerate(self.forms[: self.number])}

    def prepare(self, steps: Sequence[Step]) -> Prepared:
        """Store the steps, which share scratch memory."""
        size, count = handler.scratch_of(steps), len(self.forms)
        scratch = [((size,), np.dtype(np.uint8))] if size else []
        return Prepared(handler.store_launches(steps, count), (*self.forms, *scratch), self.number)
