"""GPU kernels: gather, both gradients of it, and the backward of those, each in one sweep.

The contract is that of `gridsample.kernels`, on tensors of any library whose tensors tell
``shape``, ``stride()``, ``dtype`` and ``data_ptr()``, and which are flat along the points: a grid
is (N, points, D), values are (N, C, points).  Memory is the caller's to allocate: outputs come in
as arguments, those that are added to as zeros of the type ``plan.real``.

This file decides how a launch is shaped: what a kernel is compiled for, how many points and
channels a program takes, and into how many programs a point's channels are split.  Nothing is tuned
at run time: a first call takes no longer than its compilation.  What follows from a plan and the
layouts of tensors is kept (`Call`), so that a next call only fills tensors in.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.methods import NEAREST, Method
from gridsample.definitions.plan import BOUNDARIES, Plan, is_differentiable
from gridsample.kernels.axes import ALONE, describe
from gridsample.kernels.compile.records import check, flat_values
from gridsample.kernels.gpu import sweeps
from gridsample.kernels.gpu.parts import AS_THEY_COME, DISPLACED, EXACT, GIVEN, MAPPED, MEASURED
from gridsample.kernels.gpu.records import (
    Fill,
    Grid,
    Needs,
    Outputs,
    Planes,
    SecondNeeds,
    Shadow,
    Tile,
    Values,
    Work,
)

Order = tuple[int, ...]
Tensor = Any
# Calls a kernel: by default as it is, but a framework may want to see it first.
Wrap = Callable[[Any], Any]

# Programs from which a GPU is full: a few for each of the places that some 150 processors have.
FULL = 4096
# Offsets stay below this in 32 bits.
FAR = 2**31 - 64
# Visits to pixels, for one number of the output, above which lines of taps are gone through in a
# loop.
MANY = 32
# Of how many points each pixel's neighbours may be before successive ones are joined.
CROWDED = 8
# Numbers that a program collects.
FLAT = 1024


# What kernels are compiled for -------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def axes(plan: Plan, order: Order, tables: int) -> dict[str, tuple[float, ...]]:
    """The axes x, y and z as kernels are compiled for them: their choices, and coefficients.

    Those are of so many tables: that of the order, and on.  Axes that the image has not have one
    pixel.
    """
    known: list[tuple[float, ...]] = [
        (*describe(plan, a, n).choices, *coefficients(plan.methods[a], n, tables))
        for a, n in enumerate(order)
    ]
    known += [(*ALONE, *coefficients(NEAREST, 0, tables))] * (3 - len(known))
    return dict(zip("XYZ", known, strict=True))


def coefficients(method: Method, order: int, tables: int) -> Iterator[float]:
    """Those of so many tables, one after the other."""
    for raised in range(tables):
        for row in method.derivative(order + raised):
            yield from row


def odd(plan: Plan) -> bool:
    """Whether some tap may have a sign."""
    return any(BOUNDARIES[name].odd for name in plan.boundaries)


class How(NamedTuple):
    """What holds for any launch.

    Attributes:
        affine: the grid is (N, D, D + 1), the rows of maps of the plan's output.
        interpreted: tensors are in the CPU's memory, and Triton's interpreter runs the kernel.
        wrap: what calls the kernel.
    """

    affine: bool = False
    interpreted: bool = False
    wrap: Wrap | None = None


class Sums(NamedTuple):
    """What is needed to add to the pixels of a shadow in any order, with the same result.

    Attributes:
        bounds: integers as wide as the shadow's floats, and as many, all 0.
        limbs: 64-bit integers, as many for each limb, all 0: one limb for 32-bit floats, else two.
        room: bits of a limb that one addition may use.
    """

    bounds: Tensor
    limbs: Tensor
    room: int

    def arguments(self, shadow: Tensor) -> dict[str, Any]:
        """What a shadow's record has of it."""
        return {
            "bounds": self.bounds, "limbs": self.limbs, "limb": shadow.numel(), "room": self.room,
        }  # fmt: skip


# Of a shadow that values are added to as they come.
NO_SUMS: dict[str, Any] = {"bounds": None, "limbs": None, "limb": 0, "room": 0}
USUAL = How()


class Launch(NamedTuple):
    """How a kernel is launched.

    Attributes:
        block: points of a program.
        depth: channels that it takes at a time.
        warps: warps of 32 threads of a program.
        splits: programs that share the channels of a block.
        units: chunks of channels, of all items that the grid serves.
    """

    block: int
    depth: int
    warps: int
    splits: int
    units: int


@functools.lru_cache(maxsize=1024)
def shape_launch(
    points: int, channels: int, grid_items: int, shared: int, last: bool, visits: int, size: int
) -> Launch:
    """The launch for so many points an item, and ``shared`` images for each item of the grid.

    Channels first: a thread takes a point, so that neighbours write to neighbours, and so many
    channels of it that some 32 loads wait together.  Channels last: a thread takes four channels of
    a point, which are one load, or eight, while its registers hold them.  ``visits`` are those of
    pixels, for one number of the output; ``size`` is that of a real, in bytes.
    """
    if last:
        each = (8 if visits <= 4 else 4) * 4 // size
        depth = min(power_of_two(channels), 64 if visits <= 8 else 32)
        block = max(8, 128 * each // depth)
    else:
        each = depth = min(power_of_two(channels), max(1, 32 // power_of_two(visits)), 8)
        block = 128
    block = min(block, power_of_two(points))
    if block * depth < 128:
        depth = min(power_of_two(channels), 128 // block)
    warps = max(1, min(4, block * depth // (32 * each)))
    units = -(-channels // depth) * shared
    programs = -(-points // block) * grid_items
    splits = min(units, max(1, -(-FULL // programs)))
    return Launch(block, depth, warps, splits, units)


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(0, n - 1).bit_length()


class Layout(NamedTuple):
    """How a tensor lies in memory: all that is asked before it is launched for."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]


def layouts(*tensors: Tensor | None) -> Iterator[Layout | None]:
    """Those of tensors; None of what there is not."""
    for one in tensors:
        yield None if one is None else Layout(tuple(one.shape), tuple(one.stride()))


def reach(tensor: Layout) -> int:
    """The greatest offset in an item of a tensor."""
    return sum((n - 1) * s for n, s in zip(tensor.shape[1:], tensor.strides[1:], strict=True))


def side_by_side(tensor: Layout) -> bool:
    """Whether a pixel's channels are neighbours in memory, and its points are not."""
    return tensor.shape[1] > 1 and tensor.strides[1] == 1 and tensor.strides[-1] != 1


def item_step(tensor: Layout, items: int) -> int:
    """The distance between items; one that serves all is not moved from."""
    return tensor.strides[0] if tensor.shape[0] == items else 0


def planes(tensor: Layout, items: int) -> Planes:
    """(N, C, *spatial) as kernels take it, but for its memory; strides along no axis are 0."""
    _, channel, *rest = tensor.strides
    x, y, z = (*rest[::-1], 0, 0, 0)[:3]
    return Planes(None, item_step(tensor, items), channel, x, y, z)


def shadow_of(tensor: Layout, items: int) -> Shadow:
    """As `planes`, to be added to."""
    return Shadow(*planes(tensor, items), **NO_SUMS)


def values_of(tensor: Layout, items: int) -> Values:
    """(N, C, points) as kernels take it, but for its memory."""
    _, channel, point = tensor.strides
    return Values(None, item_step(tensor, items), channel, point)


def grid_of(grid: Layout, affine: bool = False) -> Grid:
    """(N, points, D) as kernels take it, but for its memory; or maps (N, D, D + 1)."""
    item, point, axis = grid.strides
    return Grid(None, item, axis, point) if affine else Grid(None, item, point, axis)


class Call:
    """A call of a kernel: its arguments but for the tensors, and how it is launched.

    Calls are kept, by all that they are made of, so that the next one like it takes no time.
    """

    def __init__(
        self, name: str, plan: Plan, order: Order, grid: Layout, tensors: Sequence[Layout],
        last: bool, affine: bool, fill: Layout | None, visits: int, tables: int, **records: Any,
    ) -> None:  # fmt: skip
        """``tensors`` are all that are gone through, beside the grid.

        ``records`` are the kernel's own, of tensors but for their memory.  A tap is visited so
        often: read, or added to, for which exact sums read and add more.
        """
        import triton.language as tl

        rank = len(plan.spatial)
        visits *= math.prod(method.taps for method in plan.methods)
        shared = plan.items if plan.grid_items == 1 else 1
        shape = shape_launch(
            plan.points, plan.channels, plan.grid_items, shared, last, visits, plan.real.itemsize
        )
        blocks = -(-plan.points // shape.block)
        far = max(map(reach, (grid, *tensors))) >= FAR
        sizes = (*plan.spatial[::-1], 1, 1)
        displaced = plan.coords == "displacement"
        out = (*plan.out[::-1], 1, 1) if affine or displaced else (1, 1, 1)
        self.name, self.rolled, self.warps = name, visits > MANY, shape.warps
        self.programs = blocks * plan.grid_items * shape.splits
        # Every program has a place of its own in a gradient.
        each = (blocks, rank, rank + 1) if affine else (plan.points, rank)
        self.gradient_shape = (shape.splits, plan.grid_items, *each)
        work = Work(
            **{f"size_{name}": n for name, n in zip("xyz", sizes, strict=False)},
            **{f"out_{name}": n for name, n in zip("xyz", out, strict=False)},
            channels=plan.channels, points=plan.points, grid_items=plan.grid_items,
            units=shape.units, splits=shape.splits,
        )  # fmt: skip
        tile = Tile(
            **axes(plan, order, tables), RANK=rank,
            SOURCE=MAPPED if affine else DISPLACED if displaced else GIVEN,
            LAST=last, REAL=tl.float64 if plan.real.itemsize == 8 else tl.float32,
            INDEX=tl.int64 if far else tl.int32, BLOCK=shape.block, DEPTH=shape.depth,
            FILLED=plan.filled and fill is not None,
        )  # fmt: skip
        of_fill = Fill(None, 0 if fill is None or fill.shape[0] == 1 else fill.strides[0])
        given = {"grid": grid_of(grid, affine), "fill": of_fill, "work": work, "tile": tile}
        check(getattr(sweeps, name), given | records, NEITHER)
        self.arguments = flat_values(**given, **records)

    def run(self, how: How, gradient: Tensor | None = None, **tensors: Tensor | None) -> None:
        """Launch the kernel on these tensors."""
        memories = {f"{name}_memory": one for name, one in tensors.items()}
        known = {**self.arguments, "gradient": gradient, **memories}
        launch(self.name, self.rolled, self.programs, self.warps, known, how)

    def add_up(
        self, how: How, sums: Sums | None, shadow: Tensor | None, **tensors: Tensor | None
    ) -> None:
        """Run a kernel that adds to a shadow; before exact sums, once to see how large they are."""
        tensors["shadow"] = shadow
        if sums is None or shadow is None:
            self.run(how, **tensors)
            return
        exact = {f"shadow_{field}": one for field, one in sums.arguments(shadow).items()}
        seen = self.but(**exact, needs_SUMS=MEASURED, needs_GRID=False, needs_VALUES=False)
        seen.run(how, **tensors)
        self.but(**exact, needs_SUMS=EXACT).run(how, **tensors)

    def but(self, **arguments: Any) -> Call:
        """The same call with some other arguments, of those that the kernel takes."""
        other = copy.copy(self)
        other.arguments = {
            name: arguments.get(name, value) for name, value in self.arguments.items()
        }
        return other


# Parameters that are no records, and are given when a kernel is launched.
NEITHER = frozenset({"gradient"})


def launch(
    name: str, rolled: bool, programs: int, warps: int, known: dict[str, Any], how: How
) -> None:
    """Launch so many programs of a kernel, with its known arguments, by name."""
    from gridsample.kernels.gpu.build import kernels

    kernel = getattr(kernels(rolled, how.interpreted), name)
    taken = [known[argument] for argument in kernel.arg_names]
    options = {} if how.interpreted else {"num_warps": warps, "num_stages": 1}
    (how.wrap(kernel) if how.wrap else kernel)[(programs,)](*taken, **options)


# The contract -------------------------------------------------------------------------------------


def room_for(plan: Plan) -> int:
    """Bits of a limb that one addition may use, so that even a pixel that gets all of them fits."""
    taps = math.prod(method.taps for method in plan.methods)
    shared = plan.items if plan.image_items == 1 else 1
    return 62 - math.ceil(math.log2(max(1, plan.points * shared * taps)))


def gather(
    plan: Plan,
    image: Tensor,
    grid: Tensor,
    out: Tensor,
    order: Order,
    *,
    fill: Tensor | None = None,
    how: How = USUAL,
) -> None:
    """Sample real images, (N, C, *spatial), into ``out`` (N, C, points).

    ``fill`` (C,) or (1,) has the fill value: in the image's type where a pixel is copied
    (`copies`), else in plan.real; without, it is 0.
    """
    call = gather_call(plan, order, *layouts(image, grid, out, fill), how.affine)
    call.run(how, image=image, grid=grid, out=out, fill=fill)


@functools.lru_cache(maxsize=1024)
def gather_call(
    plan: Plan, order: Order, image: Layout, grid: Layout, out: Layout, fill: Layout | None,
    affine: bool,
) -> Call:  # fmt: skip
    """How `gather` is launched."""
    plain, copied, (low, high) = not any(order), copies(plan, order), (0, 0)
    rounds = plain and not is_differentiable(plan.dtype)
    if rounds:
        kind = plan.dtype
        low, high = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
    return Call(
        "gather", plan, order, grid, (image, out), side_by_side(image), affine, fill, 1, 1,
        image=planes(image, plan.items), out=values_of(out, plan.items),
        outputs=Outputs(
            COPY=copied and not plan.votes, VOTE=plan.votes,
            HOLE=not rounds and plain, ROUND=rounds and not copied,
            BACKED=plain and fill is not None, LOW=int(low), HIGH=int(high),
        ),
    )  # fmt: skip


def copies(plan: Plan, order: Order) -> bool:
    """Whether numbers go from the image to the output as they are."""
    return (plan.nearest or plan.votes) and not any(order)


def crowded(plan: Plan) -> bool:
    """Whether so many points go to a pixel that those of a block are worth joining."""
    return plan.points > CROWDED * math.prod(plan.spatial)


def backward(
    plan: Plan,
    values: Tensor,
    image: Tensor | None,
    grid: Tensor,
    shadow: Tensor | None,
    order: Order,
    *,
    empty: Callable[[tuple[int, ...]], Tensor] | None = None,
    sums: Sums | None = None,
    fill: Tensor | None = None,
    how: How = USUAL,
) -> Tensor | None:
    """Add values (N, C, points) to their taps in ``shadow`` (N, C, *spatial), if there is one.

    With ``sums`` what is finite is added to those, for `collect`.  With ``empty``, which makes
    tensors of the type ``plan.real``, also returns the grid's gradient, for which there has to be
    an image: (splits, N, points, D), or for maps (splits, N, blocks, D, D + 1); it is the sum over
    splits, and blocks, of that.
    """
    needs = shadow is not None, empty is not None, sums is not None
    tensors = layouts(values, image, grid, shadow, fill)
    call = backward_call(plan, order, *tensors, needs, how.affine)
    gradient = None if empty is None else empty(call.gradient_shape)
    call.add_up(
        how, sums, shadow, values=values, image=image, grid=grid, gradient=gradient, fill=fill
    )
    return gradient


@functools.lru_cache(maxsize=1024)
def backward_call(
    plan: Plan, order: Order, values: Layout, image: Layout | None, grid: Layout,
    shadow: Layout | None, fill: Layout | None, needs: tuple[bool, bool, bool], affine: bool,
) -> Call:  # fmt: skip
    """How `backward` is launched, for what it needs: image, grid, exact sums."""
    (need_image, need_grid, exact), items = needs, plan.items
    first, second = image or shadow, shadow or image
    assert first is not None and second is not None
    return Call(
        "backward", plan, order, grid, (values, first, second), side_by_side(second), affine, fill,
        4 if exact else 2, 2 if need_grid else 1, image=planes(first, items),
        shadow=shadow_of(second, items), values=values_of(values, items),
        needs=Needs(need_image, need_grid, JOIN=crowded(plan), SUMS=AS_THEY_COME),
    )  # fmt: skip


def twice(
    plan: Plan,
    values: Tensor,
    image: Tensor,
    grid: Tensor,
    by_image: Tensor | None,
    by_grid: Tensor | None,
    onto: Tensor | None,
    shadow: Tensor | None,
    order: Order,
    *,
    empty: Callable[[tuple[int, ...]], Tensor] | None = None,
    sums: Sums | None = None,
    fill: Tensor | None = None,
    how: How = USUAL,
) -> Tensor | None:
    """The backward of backward in one sweep: see `gridsample.kernels.gpu.sweeps.twice`.

    Upstream are ``by_image``, of the image's shape, and ``by_grid`` (N, points, D).  What is needed
    is stored in ``onto`` (N, C, points), added to ``shadow``, and returned, as by `backward`.
    """
    needs = onto is not None, shadow is not None, empty is not None, sums is not None
    tensors = layouts(values, image, grid, by_image, by_grid, onto, shadow, fill)
    call = twice_call(plan, order, *tensors, needs)
    gradient = None if empty is None else empty(call.gradient_shape)
    call.add_up(
        how, sums, shadow, values=values, image=image, grid=grid, by_image=by_image,
        by_grid=by_grid, onto=onto, gradient=gradient, fill=fill,
    )  # fmt: skip
    return gradient


@functools.lru_cache(maxsize=1024)
def twice_call(
    plan: Plan, order: Order, values: Layout, image: Layout, grid: Layout, by_image: Layout | None,
    by_grid: Layout | None, onto: Layout | None, shadow: Layout | None, fill: Layout | None,
    needs: tuple[bool, bool, bool, bool],
) -> Call:  # fmt: skip
    """How `twice` is launched, for what it needs: values, image, grid, exact sums."""
    (need_values, need_image, need_grid, exact), items = needs, plan.items
    up, under, target = by_image or image, shadow or image, onto or values
    # Where no axis has a derivative, nothing changes as the grid moves.
    moves = any(n + 1 < method.powers for n, method in zip(order, plan.methods, strict=True))
    return Call(
        "twice", plan, order, grid, (values, image, up, under, target), side_by_side(image), False,
        fill, 6 if exact else 4, 3, image=planes(image, items), by_image=planes(up, items),
        shadow=shadow_of(under, items), values=values_of(values, items),
        onto=values_of(target, items), by_grid=grid_of(by_grid or grid),
        needs=SecondNeeds(
            FROM_IMAGE=by_image is not None, FROM_GRID=by_grid is not None and moves,
            VALUES=need_values, IMAGE=need_image, GRID=need_grid, JOIN=crowded(plan),
            SUMS=AS_THEY_COME,
        ),
    )  # fmt: skip


def collect(sums: Sums, shadow: Tensor, out: Tensor, *, how: How = USUAL) -> None:
    """Exact sums -> ``out``, laid out in dense memory as the shadow, of any floating type."""
    import triton.language as tl

    count = shadow.numel()
    record = Shadow(shadow, *(0,) * 5, **sums.arguments(shadow))
    known = {
        "shadow": record, "out": out, "count": count,
        "REAL": tl.float64 if shadow.element_size() == 8 else tl.float32, "BLOCK": FLAT,
    }  # fmt: skip
    launch("collect", False, -(-count // FLAT), 4, flat_values(**known), how)
