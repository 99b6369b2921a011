"""Programs with tasks and arrays: the arguments of a launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gridsample.kernels.memory import address_of, addresses_of
from gridsample.kernels.run import Launch, Step, Steps, entry
from gridsample.kernels.vector import Function, Record, compile


def scaling() -> Launch:
    """A launch that doubles three numbers, one in each task."""
    settings = Record(factor="float64")
    function = Function("double", lanes=1)
    with entry(function, {"source": "float64", "target": "float64"}, settings) as (task, call):
        call.target.store(call.source.load(task) * call.factor, task)
    return Launch(compile(function), settings.pack(factor=2.0), tasks=3)


def test_arrays_are_passed_by_name() -> None:
    source, target = np.arange(3.0), np.full(3, np.nan)
    scaling().run({"target": target, "other": None, "source": source}, threads=2)
    assert target.tolist() == [0, 2, 4]


@pytest.mark.parametrize("names", [["target"], ["source"]])
def test_prepared_runs_take_addresses_in_the_order_of_their_names(names: list[str]) -> None:
    arrays = {"source": np.arange(3.0), "target": np.full(3, np.nan)}
    fixed = {name: array for name, array in arrays.items() if name not in names}
    steps = Steps((Step(scaling()),))
    steps.ready(1, names, fixed).run(*addresses_of([arrays[name] for name in names]))
    assert arrays["target"].tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    "arrays", [{}, {"source": 1}, {"source": 1, "traget": 1}, {"source": 1, "target": None}]
)
def test_every_array_must_be_given(arrays: dict[str, Any]) -> None:
    memory = {name: number and np.zeros(3) for name, number in arrays.items()}
    with pytest.raises(TypeError, match="the program takes source, target; got"):
        scaling().run(memory, threads=1)
    steps = Steps((Step(scaling()),))
    with pytest.raises(TypeError, match="the program takes source, target; got"):
        steps.ready(1, [name for name, array in memory.items() if array is not None])


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
