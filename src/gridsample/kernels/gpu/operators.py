"""Calls of the kernels of fused operators, as `gridsample.kernels.gpu` makes those of sampling."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from gridsample.definitions.operators import SumOptions
from gridsample.definitions.options import Options, plan_of
from gridsample.definitions.plan import Plan
from gridsample.definitions.shapes import Shape
from gridsample.kernels.gpu import NO_SUMS, copies, crowded, sampling_call
from gridsample.kernels.gpu.launching import (
    DEFAULTS,
    Call,
    LaunchOptions,
    Layout,
    Sums,
    Tensor,
    layouts,
)
from gridsample.kernels.gpu.parts import AS_THEY_COME
from gridsample.kernels.gpu.records import (
    GradImage,
    Grid,
    Heads,
    Needs,
    Outputs,
    Planes,
    SumPoints,
    Values,
)


class SumArrays(NamedTuple):
    """The arrays of weighted sums of one level.

    Attributes:
        image: (N, S, H, C), where S are the pixels of the level.
        points: (N, Q, H, P, D).
        weights: (N, Q, H, P).
    """

    image: Any
    points: Any
    weights: Any


class SumCall(NamedTuple):
    """What weighted sums of one level are, apart from the arrays.

    Attributes:
        plan: the plan of the samples, whose items are the heads of all items.
        is_unit: whether coordinates are from 0 to 1.
        continues: whether sums begin with what the output has.
    """

    plan: Plan
    is_unit: bool
    continues: bool = False


def sum_plan(
    options: SumOptions, size: Shape, shape: Shape, queries: int, dtype: Any, real: Any
) -> Plan:
    """Return the plan of the samples of a level, given the shape (N, S, H, C) of the images."""
    items, _, heads, channels = shape
    coords = "pixel" if options.coords == "pixel" else "normalized"
    checked = Options(options.mode, options.padding_mode, options.align_corners, coords)
    image, grid = (items * heads, channels, *size), (items * heads, queries, options.rank)
    return plan_of(image, dtype, grid, real, checked)


def weighted_sum(
    call: SumCall, arrays: SumArrays, out: Tensor, *, options: LaunchOptions = DEFAULTS
) -> None:
    """Store the sums of a level in ``out`` (N, Q, H, C), of the type ``plan.real``, or add them."""
    layout = SumArrays(*layouts(*arrays))
    (of_out,) = layouts(out)
    assert of_out is not None
    sum_call(call, layout, of_out).run(
        options, image=arrays.image, points_grid=arrays.points, points_weights=arrays.weights,
        out=out,
    )  # fmt: skip


@functools.lru_cache(maxsize=1024)
def sum_call(call: SumCall, arrays: SumArrays, out: Layout) -> Call:
    """Make the call for `weighted_sum`."""
    plan, order = call.plan, (0,) * len(call.plan.spatial)
    return sampling_call(
        "weighted_sum", plan, order, grid_of(arrays.points), (*arrays, out), side_by_side(arrays),
        False, None, 1, 1, image=planes_of(arrays.image, plan),
        points=points_of(arrays), out=values_of(out), heads=heads_of(call, arrays, out),
        outputs=outputs_of(plan),
    )  # fmt: skip


class SumGradients(NamedTuple):
    """Where the gradients of a level go, in the shapes of its arrays; None if not needed.

    Attributes:
        image: zeros of the type ``plan.real``, to which values are added.
        points: of that type; stored.
        weights: of that type; stored.
    """

    image: Any
    points: Any
    weights: Any


def weighted_sum_backward(
    call: SumCall,
    upstream: Tensor,
    arrays: SumArrays,
    gradients: SumGradients,
    *,
    sums: Sums | None = None,
    options: LaunchOptions = DEFAULTS,
) -> None:
    """Compute gradients of weighted sums of a level, given the upstream gradient (N, Q, H, C).

    With ``sums``, finite values are added to those in place of the gradient of the image.
    """
    (of_upstream,) = layouts(upstream)
    assert of_upstream is not None
    kinds = SumArrays(*layouts(*arrays)), SumGradients(*layouts(*gradients))
    made = sum_gradients_call(call, of_upstream, *kinds, sums is not None)
    made.add_up(
        options, sums, gradients.image, values=upstream, image=arrays.image,
        points_grid=arrays.points, points_weights=arrays.weights, gradients_grid=gradients.points,
        gradients_weights=gradients.weights,
    )  # fmt: skip


@functools.lru_cache(maxsize=1024)
def sum_gradients_call(
    call: SumCall, upstream: Layout, arrays: SumArrays, gradients: SumGradients, exact: bool
) -> Call:
    """Make the call for `weighted_sum_backward`, whose programs each have all channels."""
    plan, order = call.plan, (0,) * len(call.plan.spatial)
    needs = [layout is not None for layout in gradients]
    targets = SumArrays(*[mine or theirs for mine, theirs in zip(gradients, arrays, strict=True)])
    image = planes_of(targets.image, plan)
    made = sampling_call(
        "weighted_sum_backward", plan, order, grid_of(arrays.points),
        (*arrays, *targets, upstream), side_by_side(targets), False, None, 4 if exact else 3,
        2 if needs[1] else 1, image=planes_of(arrays.image, plan), values=values_of(upstream),
        points=points_of(arrays), grad_image=GradImage(*image, **NO_SUMS),
        gradients=points_of(targets),
        heads=heads_of(call, arrays, upstream)._replace(WEIGHTS=needs[2]),
        grad_heads=heads_of(call, targets, upstream), outputs=outputs_of(plan),
        needs=Needs(
            IMAGE=needs[0], GRID=needs[1],
            JOIN=crowded(plan, Layout((1, 1, *plan.spatial), ())), SUMS=AS_THEY_COME,
        ),
    )  # fmt: skip
    made.programs //= made.arguments["work_splits"]
    return made.but(work_splits=1)


# The records of arrays ----------------------------------------------------------------------------


def side_by_side(arrays: SumArrays) -> bool:
    """Whether the channels of a pixel are contiguous in memory."""
    last: bool = arrays.image.shape[3] > 1 and arrays.image.strides[3] == 1
    return last


def planes_of(image: Layout, plan: Plan) -> Planes:
    """Describe (N, S, H, C) to kernels, without its memory; absent axes have stride 0."""
    item, pixel, _, channel = image.strides
    steps, step = [0, 0, 0], pixel
    for axis, n in enumerate(plan.spatial[::-1]):
        steps[axis], step = step, step * n
    return Planes(None, item, channel, *steps)


def grid_of(points: Layout) -> Layout:
    """Return the layout of (N, Q, D), of the first head and point of (N, Q, H, P, D)."""
    (items, queries, _, _, rank), (item, query, _, _, axis) = points
    return Layout((items, queries, rank), (item, query, axis))


def points_of(arrays: SumArrays) -> SumPoints:
    """Describe (N, Q, H, P, D) and (N, Q, H, P) to kernels, without their memory."""
    item, query, _, point = arrays.weights.strides
    grid = Grid(None, *grid_of(arrays.points).strides)
    return SumPoints(grid, Values(None, item, point, query))


def values_of(values: Layout) -> Values:
    """Describe (N, Q, H, C) to kernels."""
    item, query, _, channel = values.strides
    return Values(None, item, channel, query)


def heads_of(call: SumCall, arrays: SumArrays, values: Layout) -> Heads:
    """Describe the heads and the points of queries to kernels."""
    points = arrays.points
    return Heads(
        count=points.shape[2], points=points.shape[3], image=arrays.image.strides[2],
        grid=points.strides[2], weights=arrays.weights.strides[2], values=values.strides[2],
        grid_point=points.strides[3], UNIT=call.is_unit, CONTINUES=call.continues, WEIGHTS=False,
    )  # fmt: skip


def outputs_of(plan: Plan) -> Outputs:
    """Describe samples to kernels: those of invalid points are NaN."""
    return Outputs(
        COPY=copies(plan, (0,) * len(plan.spatial)), VOTE=False, BACKED=False, NAN=True,
        ROUND=False, LOW=0, HIGH=0,
    )  # fmt: skip
