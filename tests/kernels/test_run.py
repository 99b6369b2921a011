"""Programs with tasks and arrays: the arguments of a launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gridsample.kernels.memory import address_of, addresses_of
from gridsample.kernels.run import Launch, entry
from gridsample.kernels.vector import Function, Record, compile


def scaling() -> Launch:
    """A launch that doubles three numbers, one in each task."""
    settings = Record(factor="float64")
    function = Function("double", lanes=1)
    with entry(function, {"source": "float64", "target": "float64"}, settings) as (task, call):
        call.target.store(call.source.load(task) * call.factor, task)
    return Launch(compile(function), settings.pack(factor=2.0), tasks=3)


def test_addresses_come_in_the_order_of_arrays() -> None:
    source, target = np.arange(3.0), np.full(3, np.nan)
    scaling().run([source.ctypes.data, target.ctypes.data], threads=2)
    assert target.tolist() == [0, 2, 4]


@pytest.mark.parametrize("count", (0, 1, 3))
def test_every_array_has_an_address(count: int) -> None:
    memory = np.zeros(3)
    with pytest.raises(TypeError, match=f"takes source, target; got {count} addresses"):
        scaling().run([memory.ctypes.data] * count, threads=1)


class Subclass(np.ndarray[Any, Any]):
    """An array of a class of its own."""


@pytest.mark.parametrize(
    "array",
    (
        np.arange(12.0).reshape(3, 4)[::-1, 1::2],
        np.zeros((0, 3)),
        np.array(5, np.uint8),
        np.broadcast_to(np.float32(1), (2, 3)),
        np.frombuffer(b"read-only", np.uint8),
        np.zeros(3, np.complex64).view(Subclass),
        np.zeros(3, [("bfloat16", np.uint16)]),
    ),
    ids=("view", "empty", "number", "broadcast", "read-only", "subclass", "structured"),
)
def test_addresses_are_those_of_first_entries(array: np.ndarray[Any, Any]) -> None:
    assert address_of(array) == array.ctypes.data
    assert addresses_of([array, None]) == [array.ctypes.data, 0]
