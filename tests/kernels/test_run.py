"""Programs with tasks and arrays: what a launch takes."""

from __future__ import annotations

import numpy as np
import pytest

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
