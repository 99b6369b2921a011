"""GPU kernels: gather, its two gradients, and the derivatives of those, each in one sweep.

The contract is that of `gridsample.kernels`, for tensors of any library that provides ``shape``,
``stride()``, ``dtype`` and ``data_ptr()``.  Their points are flattened: a grid is (N, points, D),
values are (N, C, points).  Outputs are arguments; those that are added to are zeros of the type
``plan.real``.

This file determines what a kernel is compiled for and its arguments; `launching`, how many points
and channels a program processes, and into how many programs a point's channels are split.  All
that depends only on a plan and the layouts of tensors is cached (`Call`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.dtypes import is_differentiable
from gridsample.definitions.footprints import Footprint, deepest, levels
from gridsample.definitions.methods import NEAREST, Method
from gridsample.definitions.plan import Plan
from gridsample.kernels.gpu import footprints, sweeps
from gridsample.kernels.gpu.choices import ALONE, IN_PIXELS, TO_CENTRES, TO_EDGES, describe
from gridsample.kernels.gpu.flattening import Function, check, flat_values, parameters
from gridsample.kernels.gpu.launching import (
    DEFAULTS,
    NEITHER,
    Call,
    Extent,
    LaunchOptions,
    Layout,
    Sums,
    Tensor,
    blocks_of,
    launch,
    layouts,
    power_of_two,
    shape_launch,
)
from gridsample.kernels.gpu.parts import AS_THEY_COME, DISPLACED, GIVEN, MAPPED
from gridsample.kernels.gpu.records import (
    Fill,
    FootprintParams,
    GradImage,
    Grid,
    Needs,
    Outputs,
    Planes,
    SecondNeeds,
    Tile,
    Values,
    Work,
)

Order = tuple[int, ...]

# Offsets below this fit in 32 bits.
FAR = 2**31 - 64
# Reads and writes of pixels per output value above which lines of taps are processed in a loop.
MANY = 32
# The number of points per pixel above which values of successive points are summed first.
CROWDED = 8
# The fewest channels, and values of points, for which an image is copied such that the channels of
# a pixel lie side by side.
INTERLEAVED, WORTH = 8, 1 << 20
# The numbers that a program of `collect` processes.
FLAT = 1024
# The most spatial axes of an image: kernels have a stride, a size and taps for each of x, y and z.
MAX_RANK = 3


# What kernels are compiled for -------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def axes(plan: Plan, order: Order, tables: int) -> dict[str, tuple[float, ...]]:
    """Return the axes x, y and z as kernels are compiled for them: their choices and coefficients.

    The coefficients are those of ``tables`` successive orders, from the given one on.  Axes that
    the image lacks have one pixel.
    """
    known: list[tuple[float, ...]] = [
        (*describe(plan, a, n), *coefficients(plan.methods[a], n, tables))
        for a, n in enumerate(order)
    ]
    known += [(*ALONE, *coefficients(NEAREST, 0, tables))] * (3 - len(known))
    return dict(zip("XYZ", known, strict=True))


def coefficients(method: Method, order: int, tables: int) -> Iterator[float]:
    """Yield the coefficients of ``tables`` successive orders."""
    for raised in range(tables):
        for row in method.derivative(order + raised):
            yield from row


# For a gradient to which values are added directly.
NO_SUMS: dict[str, Any] = {"bounds": None, "limbs": None, "limb": 0, "room": 0}


def real_type(dtype: Any) -> Any:
    """Return Triton's dtype of sums, given that of NumPy or of another library."""
    import triton.language as tl

    return tl.float64 if dtype.itemsize == 8 else tl.float32


def index_type(tensors: Iterable[Layout]) -> Any:
    """Return Triton's dtype of the offsets within an item of some tensors."""
    import triton.language as tl

    return tl.int64 if max(map(reach, tensors)) >= FAR else tl.int32


def reach(tensor: Layout) -> int:
    """Return the greatest offset within an item of a tensor."""
    return sum((n - 1) * s for n, s in zip(tensor.shape[1:], tensor.strides[1:], strict=True))


def side_by_side(tensor: Layout) -> bool:
    """Whether a pixel's channels are contiguous in memory, and its points are not."""
    return tensor.shape[1] > 1 and tensor.strides[1] == 1 and tensor.strides[-1] != 1


def item_step(tensor: Layout, items: int) -> int:
    """Return the distance between items; 0 if one item serves all."""
    return tensor.strides[0] if tensor.shape[0] == items else 0


def planes(tensor: Layout, items: int) -> Planes:
    """Describe (N, C, *spatial) to kernels, without its memory; absent axes have stride 0."""
    _, channel, *rest = tensor.strides
    x, y, z = (*rest[::-1], 0, 0, 0)[:3]
    return Planes(None, item_step(tensor, items), channel, x, y, z)


def grad_image_of(tensor: Layout, items: int) -> GradImage:
    """Describe (N, C, *spatial), to which values are added, without its memory."""
    return GradImage(*planes(tensor, items), **NO_SUMS)


def values_of(tensor: Layout, items: int) -> Values:
    """Describe (N, C, points) to kernels, without its memory."""
    _, channel, point = tensor.strides
    return Values(None, item_step(tensor, items), channel, point)


def grid_of(grid: Layout, affine: bool = False) -> Grid:
    """Describe (N, points, D), or maps (N, D, D + 1), to kernels, without their memory."""
    item, point, axis = grid.strides
    return Grid(None, item, axis, point) if affine else Grid(None, item, point, axis)


def units_of(plan: Plan) -> int:
    """Return the units of the coordinates that a caller gives."""
    if plan.coords != "normalized":
        return IN_PIXELS
    return TO_CENTRES if plan.align_corners else TO_EDGES


@functools.lru_cache(maxsize=1024)
def halved(plan: Plan, level: int) -> Plan:
    """Return the plan of plain sampling in an image that is halved ``level`` times."""
    image = levels(plan.spatial, plan.coords, plan.align_corners, level)[level]
    return replace(plan, spatial=image.spatial, coords=image.coords)


def footprint_params(plan: Plan, level: int) -> FootprintParams:
    """Describe the footprints of a plan to kernels, for the points of a level."""
    footprint = plan.footprint or Footprint(1)
    x, y, z = (*plan.spatial[::-1], 1, 1)[:3]
    return FootprintParams(
        level=level, levels=deepest(plan.spatial), max_samples=footprint.max_samples,
        full_x=x, full_y=y, full_z=z,
        SCALED=level > 0 and units_of(plan) != TO_EDGES, ATTACHED=footprint.attached,
        WRAPPED=sum((name == "wrap") << a for a, name in enumerate(plan.boundaries)),
    )  # fmt: skip


def is_plain(name: str, plan: Plan) -> bool:
    """Whether each point is a weighted sum over its taps, and a kernel adds nothing to pixels."""
    return name == "gather" and plan.footprint is None and not plan.votes


def sampling_call(
    kernel: Function, plan: Plan, order: Order, grid: Layout, tensors: Sequence[Layout],
    last: bool, affine: bool, fill: Layout | None, visits: int, tables: int, level: int = 0,
    **records: Any,
) -> Call:  # fmt: skip
    """Make the call of a kernel that samples an image, or adds to one.

    ``tensors`` are all tensors that are read or written, except the grid.  ``records`` are the
    kernel's own records, without the memory of their tensors.  ``visits`` is the number of reads
    and writes per tap; exact sums need more of them.  With footprints, the image is halved
    ``level`` times.
    """
    rank = len(plan.spatial)
    if rank > MAX_RANK:
        raise ValueError(
            f"input has {rank} spatial axes; accepted on a GPU: 1 to {MAX_RANK}, or any on the CPU"
        )
    name = kernel.__name__
    visits *= math.prod(method.taps for method in plan.methods)
    shared = plan.items if plan.grid_items == 1 else 1
    # Many taps of successive points share lines of the cache already.
    row = plan.out[-1] if name != "gather" or visits <= 8 else 0
    extent = Extent(plan.points, row, plan.channels, plan.grid_items, shared)
    shape = shape_launch(extent, last, visits, plan.real.itemsize, is_plain(name, plan))
    blocks = blocks_of(plan.points, plan.out[-1], shape.block, shape.width)
    spread, displaced = plan.footprint is not None, plan.coords == "displacement"
    full, plan = plan, halved(plan, level) if spread else plan
    sizes = (*plan.spatial[::-1], 1, 1)
    out = (*plan.out[::-1], 1, 1)
    # Every program has its own place in a gradient.
    parts = (1 + rank * plan.footprint.attached,) if plan.footprint else ()
    each = (blocks, rank, rank + 1) if affine else (plan.points, *parts, rank)
    work = Work(
        **{f"size_{name}": n for name, n in zip("xyz", sizes, strict=False)},
        **{f"out_{name}": n for name, n in zip("xyz", out, strict=False)},
        channels=plan.channels, points=plan.points, grid_items=plan.grid_items,
        units=shape.units, splits=shape.splits,
    )  # fmt: skip
    tile = Tile(
        **axes(plan, order, tables), RANK=rank,
        SOURCE=MAPPED if affine else DISPLACED if displaced else GIVEN,
        LAST=last, REAL=real_type(plan.real), INDEX=index_type((grid, *tensors)),
        BLOCK=shape.block, WIDTH=shape.width, DEPTH=shape.depth,
        FILLED=plan.filled and fill is not None, UNITS=units_of(full), SPREAD=spread,
    )  # fmt: skip
    of_fill = Fill(None, 0 if fill is None or fill.shape[0] == 1 else fill.strides[0])
    own_records = {"grid": grid_of(grid, affine), "fill": of_fill, "work": work, "tile": tile}
    own_records["footprint"] = footprint_params(full, level)
    taken = parameters(kernel)
    own_records = {key: record for key, record in own_records.items() if key in taken}
    check(kernel, own_records | records, NEITHER)
    arguments = flat_values(**own_records, **records)
    programs = blocks * plan.grid_items * shape.splits
    call = Call(name, programs, shape.warps, arguments, visits > MANY)
    call.gradient_shape = shape.splits, plan.grid_items, *each
    return call


# Memory layouts -----------------------------------------------------------------------------------


def interleaves(plan: Plan, adds: bool) -> bool:
    """Whether it pays to copy an image, so that the channels of a pixel lie side by side.

    Such an image is read with fewer and wider loads, above all if neighbouring points sample
    distant pixels, and it needs fewer atomic additions.  Sampling a dense grid, with one point for
    each pixel, takes less time than the copy.

    adds: whether values are added to pixels.
    """
    points, pixels = plan.items * plan.points, plan.image_items * math.prod(plan.spatial)
    if plan.channels < INTERLEAVED or points * plan.channels < WORTH:
        return False
    if adds or plan.footprint is not None:
        return True
    listed = max(plan.out) == plan.points  # the points of a list are seldom neighbours
    return not plan.nearest and points * (4 if listed else 1) >= pixels * (1 if listed else 4)


def transpose(source: Tensor, target: Tensor, *, options: LaunchOptions = DEFAULTS) -> None:
    """Copy (N, C, pixels) to ``target``, which has the same shape, and may have another dtype."""
    a, b = layouts(source, target)
    assert a is not None and b is not None
    transposing_call(a, b).run(options, source=source, target=target)


@functools.lru_cache(maxsize=1024)
def transposing_call(source: Layout, target: Layout) -> Call:
    """Make the call for `transpose`."""
    items, channels, pixels = source.shape
    block, depth = 64, min(power_of_two(channels), 64)
    arguments = flat_values(
        source=values_of(source, items), target=values_of(target, items), channels=channels,
        pixels=pixels, BLOCK=block, DEPTH=depth,
    )  # fmt: skip
    return Call("transpose", items * -(-channels // depth) * -(-pixels // block), 4, arguments)


# The contract -------------------------------------------------------------------------------------


def measure_footprints(
    plan: Plan, grid: Tensor, extent: Tensor, *, options: LaunchOptions = DEFAULTS
) -> None:
    """Store what the points of a plan with footprints need in ``extent``, two 32-bit zeros.

    These become the deepest level, which is how often the image must be halved, and the most
    samples of a point.
    """
    (layout,) = layouts(grid)
    assert layout is not None
    measuring_call(plan, layout, options.affine).run(options, grid=grid, extent=extent)


@functools.lru_cache(maxsize=1024)
def measuring_call(plan: Plan, grid: Layout, affine: bool) -> Call:
    """Make the call for `measure_footprints`; for maps, it looks at one point of each."""
    order = (0,) * len(plan.spatial)
    lone = replace(plan, image_items=1, channels=1)
    kernel = footprints.measure_footprints
    call = sampling_call(kernel, lone, order, grid, (), False, affine, None, 1, 1)
    if affine:
        call = call.but(work_points=1, tile_WIDTH=call.arguments["tile_BLOCK"])
        call.programs = plan.grid_items
    return call


def additions(plan: Plan, samples: int = 1) -> int:
    """Return how many values are added to a pixel at most.

    samples: the most samples of a point.
    """
    shared = plan.items if plan.image_items == 1 else 1
    return plan.points * shared * samples * math.prod(method.taps for method in plan.methods)


def gather(
    plan: Plan,
    image: Tensor,
    grid: Tensor,
    out: Tensor,
    order: Order,
    *,
    fill: Tensor | None = None,
    level: int = 0,
    options: LaunchOptions = DEFAULTS,
) -> None:
    """Sample real images, (N, C, *spatial), into ``out`` (N, C, points).

    ``fill`` (C,) or (1,) has the fill value, in the image's dtype if pixels are copied (`copies`),
    otherwise in plan.real.  If it is None, the fill value is 0.

    If the plan has footprints, the image is halved ``level`` times, and only the points of that
    level are sampled: the others keep what is in ``out``.
    """
    call = gather_call(plan, order, *layouts(image, grid, out, fill), level, options.affine)
    call.run(options, image=image, grid=grid, out=out, fill=fill)


@functools.lru_cache(maxsize=1024)
def gather_call(
    plan: Plan, order: Order, image: Layout, grid: Layout, out: Layout, fill: Layout | None,
    level: int, affine: bool,
) -> Call:  # fmt: skip
    """Make the call for `gather`."""
    is_value, copied, (low, high) = not any(order), plan.nearest and not any(order), (0, 0)
    rounds = is_value and not is_differentiable(plan.dtype)
    if rounds:
        dtype = plan.dtype
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return sampling_call(
        sweeps.gather, plan, order, grid, (image, out), side_by_side(image), affine, fill, 1, 1,
        level, image=planes(image, plan.items), out=values_of(out, plan.items),
        outputs=Outputs(
            COPY=copied and not plan.votes, VOTE=plan.votes, NAN=not rounds and is_value,
            ROUND=rounds and not copies(plan, order),
            BACKED=is_value and fill is not None, LOW=int(low), HIGH=int(high),
        ),
    )  # fmt: skip


def copies(plan: Plan, order: Order) -> bool:
    """Whether values are copied from the image to the output unchanged."""
    return (plan.nearest or plan.votes) and plan.footprint is None and not any(order)


def crowded(plan: Plan, grad_image: Layout) -> bool:
    """Whether there are so many points per pixel that those of a block should be summed first."""
    return plan.points > CROWDED * math.prod(grad_image.shape[2:])


def backward(
    plan: Plan,
    values: Tensor,
    image: Tensor | None,
    grid: Tensor,
    grad_image: Tensor | None,
    order: Order,
    *,
    empty: Callable[[tuple[int, ...]], Tensor] | None = None,
    sums: Sums | None = None,
    fill: Tensor | None = None,
    level: int = 0,
    options: LaunchOptions = DEFAULTS,
) -> Tensor | None:
    """Add values (N, C, points) to their taps in ``grad_image`` (N, C, *spatial), if there is one.

    With ``sums``, finite values are added to those instead, for `collect`.  With ``empty``, which
    makes tensors of the type ``plan.real``, and an image, also return the grid's gradient: a tensor
    (splits, N, points, D), to be summed over splits, or for maps (splits, N, blocks, D, D + 1), to
    be summed over splits and blocks.

    If the plan has footprints, the image is halved ``level`` times, and only the values of points
    of that level count.  The tensor that ``empty`` makes must contain numbers, to which the grid's
    gradient is added.  It is (splits, N, points, 1 + D, D), with the gradient of the points
    followed by those of the sides, x first; the latter are left out if they are detached.
    """
    needs = grad_image is not None, empty is not None, sums is not None
    tensors = layouts(values, image, grid, grad_image, fill)
    call = backward_call(plan, order, *tensors, needs, level, options.affine)
    gradient = None if empty is None else empty(call.gradient_shape)
    call.add_up(
        options, sums, grad_image, values=values, image=image, grid=grid, gradient=gradient,
        fill=fill,
    )  # fmt: skip
    return gradient


@functools.lru_cache(maxsize=1024)
def backward_call(
    plan: Plan, order: Order, values: Layout, image: Layout | None, grid: Layout,
    grad_image: Layout | None, fill: Layout | None, needs: tuple[bool, bool, bool], level: int,
    affine: bool,
) -> Call:  # fmt: skip
    """Make the call for `backward`; ``needs`` are those of image, grid and exact sums."""
    (need_image, need_grid, exact), items = needs, plan.items
    first, second = image or grad_image, grad_image or image
    assert first is not None and second is not None
    return sampling_call(
        sweeps.backward, plan, order, grid, (values, first, second), side_by_side(second), affine,
        fill, 4 if exact else 2, 2 if need_grid else 1, level, image=planes(first, items),
        grad_image=grad_image_of(second, items), values=values_of(values, items),
        needs=Needs(need_image, need_grid, JOIN=crowded(plan, second), SUMS=AS_THEY_COME),
    )  # fmt: skip


class Upstream(NamedTuple):
    """The upstream gradients of `double_backward`, those of the results of `backward`.

    Attributes:
        by_image: that of the image's gradient, with the image's shape, or None.
        by_grid: that of the grid's gradient, (N, points, D), or None.
    """

    by_image: Tensor | None
    by_grid: Tensor | None


def double_backward(
    plan: Plan,
    values: Tensor,
    image: Tensor,
    grid: Tensor,
    upstream: Upstream,
    grad_values: Tensor | None,
    grad_image: Tensor | None,
    order: Order,
    *,
    empty: Callable[[tuple[int, ...]], Tensor] | None = None,
    sums: Sums | None = None,
    fill: Tensor | None = None,
    options: LaunchOptions = DEFAULTS,
) -> Tensor | None:
    """Compute the derivatives of backward in one sweep: see `sweeps.double_backward`.

    Results are stored in ``grad_values`` (N, C, points), added to ``grad_image``, and returned as
    by `backward`.
    """
    needs = grad_values is not None, grad_image is not None, empty is not None, sums is not None
    tensors = layouts(values, image, grid, *upstream, grad_values, grad_image, fill)
    call = double_backward_call(plan, order, *tensors, needs)
    gradient = None if empty is None else empty(call.gradient_shape)
    call.add_up(
        options, sums, grad_image, values=values, image=image, grid=grid,
        grad_values=grad_values, gradient=gradient, fill=fill, **upstream._asdict(),
    )  # fmt: skip
    return gradient


@functools.lru_cache(maxsize=1024)
def double_backward_call(
    plan: Plan, order: Order, values: Layout, image: Layout, grid: Layout, by_image: Layout | None,
    by_grid: Layout | None, grad_values: Layout | None, grad_image: Layout | None,
    fill: Layout | None, needs: tuple[bool, bool, bool, bool],
) -> Call:  # fmt: skip
    """Make the call for `double_backward`.

    ``needs`` are those of values, image, grid and exact sums.
    """
    (need_values, need_image, need_grid, exact), items = needs, plan.items
    up, under, target = by_image or image, grad_image or image, grad_values or values
    # If no axis has a derivative, the result does not depend on the grid.
    varies = any(n + 1 < method.powers for n, method in zip(order, plan.methods, strict=True))
    return sampling_call(
        sweeps.double_backward, plan, order, grid, (values, image, up, under, target),
        side_by_side(image), False, fill, 6 if exact else 4, 3, image=planes(image, items),
        by_image=planes(up, items),
        grad_image=grad_image_of(under, items), values=values_of(values, items),
        grad_values=values_of(target, items), by_grid=grid_of(by_grid or grid),
        needs=SecondNeeds(
            FROM_IMAGE=by_image is not None, FROM_GRID=by_grid is not None and varies,
            VALUES=need_values, IMAGE=need_image, GRID=need_grid, JOIN=crowded(plan, under),
            SUMS=AS_THEY_COME,
        ),
    )  # fmt: skip


def collect(
    sums: Sums, grad_image: Tensor, out: Tensor, *, options: LaunchOptions = DEFAULTS
) -> None:
    """Convert exact sums to ``out``: the gradient's dense layout, and any floating dtype."""
    count = grad_image.numel()
    record = GradImage(grad_image, *(0,) * 5, **sums.arguments())
    known = {
        "grad_image": record, "out": out, "count": count,
        "REAL": real_type(grad_image.dtype), "BLOCK": FLAT,
    }  # fmt: skip
    launch("collect", False, -(-count // FLAT), 4, flat_values(**known), options)
