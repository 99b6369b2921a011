"""Plans: cached, hashable, and made of shapes and names only."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import plans
import pytest

import gridsample
from gridsample import methods
from gridsample.definitions.boundaries import BOUNDARIES, FOREIGN_BOUNDARIES
from gridsample.definitions.coords import COORDS
from gridsample.definitions.options import plan_of
from gridsample.definitions.plan import Plan
from gridsample.definitions.request import Request, request_of, shared
from gridsample.ops.quotients import EVEN

IMAGE, GRID = np.zeros((2, 3, 5, 7), np.float32), np.zeros((1, 4, 6, 2), np.float32)


def plan(mode: object = "bilinear", padding: object = "zeros", align: bool = False) -> Plan:
    return plans.plan_for(IMAGE.shape, IMAGE.dtype, GRID.shape, GRID.dtype, mode, padding, align)


def test_plans_describe_their_call() -> None:
    result = plan(("nearest", "cubic"), ("border", "zeros"), True)
    assert [method.name for method in result.methods] == ["nearest", "cubic"]
    assert result.boundaries == ("border", "zeros")
    assert result.spatial == (5, 7)
    assert result.shape == (2, 3, 4, 6)
    assert (result.image_items, result.grid_items, result.items) == (2, 1, 2)
    assert result.points == 24
    assert not result.nearest


def test_equal_requests_are_one_object() -> None:
    """Options that equal their defaults count as absent; what only equals another does not."""
    assert shared(Request()) is shared(Request("bilinear", coords="normalized"))
    assert shared(Request(align_corners=True)) is not shared(Request(align_corners=1))
    assert shared(Request(["bilinear"])) is None
    assert shared(Request(coords=np.zeros(1))) is None
    assert request_of(Request, "cubic") is shared(Request("cubic"))


def test_equal_calls_have_equal_plans() -> None:
    assert plan() is plan()
    assert plan("bilinear") == plan("linear") == plan(("linear", "trilinear"))
    assert hash(plan("bilinear")) == hash(plan("linear"))
    assert plan() != plan(align=True)
    assert len({plan(), plan("linear"), plan("cubic")}) == 2


def test_the_same_call_twice_is_planned_once() -> None:
    gridsample.grid_sample(IMAGE, GRID)
    before = plan_of.cache_info()
    for _ in range(3):
        gridsample.grid_sample(IMAGE, GRID)
    assert plan_of.cache_info().misses == before.misses


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
def test_sums_use_a_wide_enough_dtype(image: str, grid: str, real: str) -> None:
    result = plans.plan_for(IMAGE.shape, np.dtype(image), GRID.shape, np.dtype(grid))
    assert result.real == real
    assert result.dtype == image


def test_planning_imports_only_numpy() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules); import gridsample.definitions.plan; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new & {'llvmlite', 'scipy', 'torch'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def made_with(image: tuple[int, ...] = IMAGE.shape, **changes: object) -> Plan:
    grid = (1, 4, 6, len(image) - 2)
    real = np.dtype(np.float32)
    return plans.plan_for(image, real, grid, real, **changes)


def test_a_method_is_a_mode() -> None:
    sharp = methods.keys(-0.6)
    assert made_with(mode=sharp).methods == (sharp, sharp)
    assert made_with(mode=(sharp, "linear")).methods == (sharp, methods.get("linear"))
    assert made_with(mode=methods.get("cubic")) == made_with(mode="bicubic")


def test_splines_too_short_for_a_filter_are_nearest_and_linear() -> None:
    assert made_with(mode=("spline0", "spline1")) == made_with(mode=("nearest", "linear"))


def test_edges_and_folds_of_each_boundary() -> None:
    for name, boundary in BOUNDARIES.items():
        for aligned in (False, True):
            plan = made_with(mode=("linear", "cubic"), padding_mode=name, align_corners=aligned)
            edges = {"reflection": int(not aligned), "symmetric": 1, "antisymmetric": 1, "dst1": 2}
            assert plan.edges == (edges.get(name, 0),) * 2
            assert plan.folds == (name in ("zeros", "border", "reflection"), False)
            assert plan.filled == (name == "constant")
            assert boundary.name == name


def test_odd_boundaries_fold_like_even_ones_but_for_pixels_of_zero() -> None:
    assert EVEN == {"antisymmetric": "symmetric", "antimirror": "mirror"}


def test_only_pixel_copies_count_as_nearest() -> None:
    assert made_with(mode="nearest", padding_mode="wrap").nearest
    assert not made_with(mode="nearest", padding_mode=("wrap", "antimirror")).nearest
    doubled = methods.Method("doubled", ((2.0,),), first=0, normalized=False)
    assert not made_with(mode=doubled).nearest


def test_plans_describe_the_units_of_coordinates() -> None:
    plans = [made_with(coords=coords, extrapolate=e) for coords in COORDS for e in (True, False)]
    assert len(set(plans)) == 6
    assert plans[0] == made_with()
    assert [plan.margins[0] for plan in plans] == [None, 0.5, None, 0, None, 0]
    assert made_with(align_corners=True, extrapolate=False).margins == (0, 0)
    assert made_with(coords="pixel", extrapolate="edges").margins == (0.5, 0.5)
    assert made_with(extrapolate=(True, "centers")).margins == (None, 0)
    assert made_with(coords=("normalized", "pixel"), extrapolate=False).margins == (0.5, 0)
    assert made_with(extrapolate=(True, True)) == made_with()


def test_displacements_need_a_grid_shape_of_the_image_rank() -> None:
    with pytest.raises(ValueError, match=r"displacement.* 3, got 2: \(4, 6\)"):
        made_with((2, 3, 4, 5, 7), coords="displacement")


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"coords": "pixels"}, ValueError, "coords 'pixels' .*did you mean 'pixel'"),
        ({"coords": 1}, TypeError, "coords must be one of 'normalized', 'pixel', .* got 1"),
        ({"extrapolate": "no"}, ValueError, "extrapolate 'no' is .*accepted: 'edges', 'centers'"),
        ({"extrapolate": 0.5}, TypeError, "extrapolate must be True, False or one of 'edges', .*"),
        ({"padding_mode": ("zeros", "constant")}, ValueError, "mixes 'zeros' and 'constant'"),
        ({"padding_mode": methods.get("linear")}, TypeError, "padding_mode must be a string"),
        ({"padding_mode": "reflect"}, ValueError, "'mirror' here.*'symmetric'.*'reflection'"),
        ({"mode": ("linear", None)}, TypeError, "string or a Method"),
    ],
)
def test_incompatible_options_are_rejected(
    changes: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        made_with(**changes)


def test_no_name_is_both_ours_and_foreign() -> None:
    assert not FOREIGN_BOUNDARIES.keys() & BOUNDARIES.keys()
