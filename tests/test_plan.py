"""Plans: cached, hashable, made of shapes and names alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import gridsample
from gridsample.plan import Plan, make_plan

IMAGE, GRID = np.zeros((2, 3, 5, 7), np.float32), np.zeros((1, 4, 6, 2), np.float32)


def plan(mode: object = "bilinear", padding: object = "zeros", align: bool = False) -> Plan:
    return make_plan(IMAGE.shape, IMAGE.dtype, GRID.shape, GRID.dtype, mode, padding, align, False)  # type: ignore[arg-type]


def test_a_plan_tells_what_the_call_is() -> None:
    made = plan(("nearest", "cubic"), ("border", "zeros"), True)
    assert [method.name for method in made.methods] == ["nearest", "cubic"]
    assert made.boundaries == ("border", "zeros")
    assert made.spatial == (5, 7)
    assert made.shape == (2, 3, 4, 6)
    assert (made.image_items, made.grid_items, made.items) == (2, 1, 2)
    assert made.points == 24
    assert not made.nearest


def test_equal_calls_have_equal_plans() -> None:
    assert plan() is plan()
    assert plan("bilinear") == plan("linear") == plan(("linear", "trilinear"))
    assert hash(plan("bilinear")) == hash(plan("linear"))
    assert plan() != plan(align=True)
    assert len({plan(), plan("linear"), plan("cubic")}) == 2


def test_the_same_call_twice_is_planned_once() -> None:
    gridsample.grid_sample(IMAGE, GRID)
    before = make_plan.cache_info()
    for _ in range(3):
        gridsample.grid_sample(IMAGE, GRID)
    after = make_plan.cache_info()
    assert after.misses == before.misses
    assert after.hits == before.hits + 3


def test_a_plan_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        plan().spatial = (1, 1)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("image", "grid", "real"),
    [
        ("float32", "float32", "float32"),
        ("float16", "float16", "float32"),
        ("uint8", "float32", "float32"),
        ("int32", "float32", "float64"),
        ("int64", "float16", "float64"),
        ("float32", "float64", "float64"),
        ("float64", "float32", "float64"),
        ("complex64", "float32", "float32"),
        ("complex128", "float32", "float64"),
    ],
)
def test_sums_are_made_in_a_type_that_holds_them(image: str, grid: str, real: str) -> None:
    made = make_plan(
        IMAGE.shape, np.dtype(image), GRID.shape, np.dtype(grid), "linear", "zeros", False, False
    )
    assert made.real == real
    assert made.dtype == image


def test_planning_loads_numpy_alone() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules); import gridsample.plan; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new & {'numba', 'llvmlite', 'scipy', 'torch'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
