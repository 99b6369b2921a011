"""GPU kernels: gather, both gradients of it, and the backward of those, each in one sweep.

The contract is that of `gridsample.kernels`, on tensors of any library whose tensors tell
``shape``, ``stride()``, ``dtype`` and ``data_ptr()``, and which are flat along the points: a grid
is (N, points, D), values are (N, C, points).  Memory is the caller's to allocate: outputs come in
as arguments, those that are added to as zeros of the type ``plan.real``.

This file decides how a launch is shaped: what a kernel is compiled for, how many points and
channels a program takes, and into how many programs a point's channels are split.  Nothing is tuned
at run time: a first call takes no longer than its compilation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gridsample.axis import ZEROS
from gridsample.kernels.gpu.sweeps import (
    AS_THEY_COME,
    DISPLACED,
    EXACT,
    GIVEN,
    MAPPED,
    MEASURED,
)
from gridsample.kernels.gpu.taps import IN_PIXELS, TO_CENTRES, TO_EDGES
from gridsample.plan import BOUNDARIES, Plan, is_differentiable
from gridsample.weights import NEAREST, Method

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


# An axis that an image has not: its one pixel is where all points are.
ALONE = (1, 0, 1, 1, 0, ZEROS, 0, 0, 1, IN_PIXELS, 0, 0)


# What kernels are compiled for -------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def axes(plan: Plan, order: Order, tables: int) -> dict[str, tuple[float, ...]]:
    """The axes x, y and z as kernels know them, with so many tables: that of the order, and on.

    Those that the image has not are of one pixel.
    """
    known = [describe(plan, a, order[a], tables) for a in range(len(plan.spatial))]
    known += [(*ALONE, *coefficients(NEAREST, 0, tables))] * (3 - len(known))
    return dict(zip("XYZ", known, strict=True))


def describe(plan: Plan, a: int, order: int, tables: int) -> tuple[float, ...]:
    """One axis as kernels know it: its entries are named in `gridsample.kernels.gpu.taps`."""
    method, boundary = plan.methods[a], BOUNDARIES[plan.boundaries[a]]
    counts = TO_CENTRES if plan.align_corners else TO_EDGES
    alike = all(one.normalized for one in plan.methods) and not odd(plan)
    return (
        *(method.taps, method.first, method.powers, int(method.rounds), order),
        *(boundary.code, plan.edges[a], int(boundary.odd), int(plan.folds[a])),
        counts if plan.coords == "normalized" else IN_PIXELS,
        *(int(not plan.extrapolate), int(boundary.filled and alike)),
        *coefficients(method, order, tables),
    )


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
        """What kernels take for it."""
        return {
            "bounds": self.bounds, "limbs": self.limbs, "room": self.room, "limb": shadow.numel(),
        }  # fmt: skip


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


def reach(tensor: Tensor) -> int:
    """The greatest offset in an item of a tensor."""
    return sum((n - 1) * s for n, s in zip(tensor.shape[1:], tensor.stride()[1:], strict=True))


def side_by_side(tensor: Tensor) -> bool:
    """Whether a pixel's channels are neighbours in memory, and its points are not."""
    strides = tensor.stride()
    return bool(tensor.shape[1] > 1 and strides[1] == 1 and strides[-1] != 1)


def named(name: str, parts: Sequence[str], strides: Sequence[int]) -> dict[str, int]:
    """Strides as a kernel's arguments."""
    return {f"{name}_{part}": step for part, step in zip(parts, strides, strict=True)}


def item_step(tensor: Tensor, items: int) -> int:
    """The distance between items; one that serves all is not moved from."""
    return int(tensor.stride()[0]) if tensor.shape[0] == items else 0


def image_steps(tensor: Tensor, name: str, items: int) -> dict[str, int]:
    """The strides of (N, C, *spatial) as arguments; 0 along axes that there are not."""
    _, channel, *rest = tensor.stride()
    strides = (item_step(tensor, items), channel, *rest[::-1], *(0,) * (3 - len(rest)))
    return named(name, ("item", "channel", "x", "y", "z"), strides)


def values_steps(tensor: Tensor, name: str, items: int) -> dict[str, int]:
    """The strides of (N, C, points) as arguments."""
    return named(
        name, ("item", "channel", "point"), (item_step(tensor, items), *tensor.stride()[1:])
    )


def grid_steps(grid: Tensor, name: str, affine: bool = False) -> dict[str, int]:
    """The strides of (N, points, D) as arguments; or, of maps (N, D, D + 1), those of columns."""
    item, point, axis = grid.stride()
    strides = (item, axis, point) if affine else (item, point, axis)
    return named(name, ("item", "point", "axis"), strides)


class Call:
    """A call of a kernel: its arguments, and how it is launched."""

    def __init__(
        self, plan: Plan, order: Order, grid: Tensor, tensors: Sequence[Tensor], last: bool,
        how: How, visits: int = 1, tables: int = 1, fill: Tensor | None = None,
    ) -> None:  # fmt: skip
        """``tensors`` are all that are gone through, beside the grid.

        A tap is visited so often: read, or added to, for which exact sums read and add more.
        """
        import triton.language as tl

        self.how, self.plan = how, plan
        self.visits = visits * math.prod(method.taps for method in plan.methods)
        shared = plan.items if plan.grid_items == 1 else 1
        self.launch = shape_launch(
            plan.points, plan.channels, plan.grid_items, shared, last, self.visits,
            plan.real.itemsize,
        )  # fmt: skip
        far = max(reach(tensor) for tensor in (grid, *tensors)) >= FAR
        sizes = (*plan.spatial[::-1], 1, 1)
        displaced = plan.coords == "displacement"
        out = (*plan.out[::-1], 1, 1) if how.affine or displaced else (1, 1, 1)
        self.arguments: dict[str, Any] = {
            "grid": grid, **grid_steps(grid, "grid", how.affine),
            **named("size", "xyz", sizes[:3]), **named("out", "xyz", out[:3]),
            "channels": plan.channels, "points": plan.points, "grid_items": plan.grid_items,
            "units": self.launch.units, "splits": self.launch.splits,
            "fill": fill,
            "fill_channel": 0 if fill is None or len(fill) == 1 else int(fill.stride()[0]),
            **axes(plan, order, tables), "RANK": len(plan.spatial),
            "SOURCE": MAPPED if how.affine else DISPLACED if displaced else GIVEN,
            "LAST": last, "FILLED": plan.filled and fill is not None,
            "REAL": tl.float64 if plan.real.itemsize == 8 else tl.float32,
            "INDEX": tl.int64 if far else tl.int32,
            "BLOCK": self.launch.block, "DEPTH": self.launch.depth,
        }  # fmt: skip

    @property
    def blocks(self) -> int:
        """Blocks of points of an item."""
        return -(-self.plan.points // self.launch.block)

    def gradient_shape(self) -> tuple[int, ...]:
        """The shape of a gradient: every program has a place of its own in it."""
        plan, rank = self.plan, len(self.plan.spatial)
        each = (self.blocks, rank, rank + 1) if self.how.affine else (plan.points, rank)
        return (self.launch.splits, plan.grid_items, *each)

    def run(self, name: str, **arguments: Any) -> None:
        """Launch a kernel with these arguments and all that it takes of the others."""
        programs = self.blocks * self.plan.grid_items * self.launch.splits
        known = {**self.arguments, **arguments}
        launch(name, self.visits > MANY, programs, self.launch.warps, known, self.how)

    def add_up(self, name: str, sums: Sums | None, shadow: Tensor | None, **arguments: Any) -> None:
        """Run a kernel that adds to a shadow; before exact sums, once to see how large they are."""
        if sums is None or shadow is None:
            self.run(
                name, shadow=shadow, bounds=None, limbs=None, limb=0, room=0, SUMS=AS_THEY_COME,
                **arguments,
            )  # fmt: skip
            return
        exact = {**arguments, "shadow": shadow, **sums.arguments(shadow)}
        unneeded = {"NEED_GRID": False, "NEED_VALUES": False}
        self.run(name, **{**exact, **unneeded}, SUMS=MEASURED)
        self.run(name, **exact, SUMS=EXACT)


def launch(
    name: str, rolled: bool, programs: int, warps: int, known: dict[str, Any], how: How
) -> None:
    """Launch so many programs of a kernel, with those of the known arguments that it takes."""
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
    limits, plain = (0, 0), not any(order)
    rounds = plain and not is_differentiable(plan.dtype)
    if rounds:
        import numpy as np

        kind = plan.dtype
        limits = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    copy = copies(plan, order)
    call = Call(plan, order, grid, (image, out), side_by_side(image), how, fill=fill)
    call.run(
        "gather", image=image, out=out,
        **image_steps(image, "image", plan.items), **values_steps(out, "out", plan.items),
        COPY=copy, HOLE=not rounds and plain, ROUND=rounds and not copy,
        BACKED=plain and fill is not None, LOW=limits[0], HIGH=limits[1],
    )  # fmt: skip


def copies(plan: Plan, order: Order) -> bool:
    """Whether numbers go from the image to the output as they are."""
    return plan.nearest and not any(order)


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
    first = shadow if image is None else image
    second = first if shadow is None else shadow
    call = Call(
        plan, order, grid, (values, first, second), side_by_side(second), how,
        2 if sums is None else 4, 1 if empty is None else 2, fill,
    )  # fmt: skip
    gradient = None if empty is None else empty(call.gradient_shape())
    call.add_up(
        "backward", sums, shadow, values=values, image=image, gradient=gradient, JOIN=crowded(plan),
        **image_steps(first, "image", plan.items), **image_steps(second, "shadow", plan.items),
        **values_steps(values, "values", plan.items),
        NEED_IMAGE=shadow is not None, NEED_GRID=gradient is not None,
    )  # fmt: skip
    return gradient


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
    up = image if by_image is None else by_image
    under = image if shadow is None else shadow
    target = values if onto is None else onto
    # Where no axis has a derivative, nothing changes as the grid moves.
    moves = any(n + 1 < method.powers for n, method in zip(order, plan.methods, strict=True))
    call = Call(
        plan, order, grid, (values, image, up, under, target), side_by_side(image), how,
        4 if sums is None else 6, 3, fill,
    )  # fmt: skip
    gradient = None if empty is None else empty(call.gradient_shape())
    call.add_up(
        "twice", sums, shadow, values=values, image=image, by_image=by_image, onto=onto,
        by_grid=by_grid, gradient=gradient, JOIN=crowded(plan),
        HOLE=by_image is not None and not any(order),
        **image_steps(image, "image", plan.items), **image_steps(up, "up", plan.items),
        **image_steps(under, "shadow", plan.items), **values_steps(values, "values", plan.items),
        **values_steps(target, "onto", plan.items),
        **grid_steps(grid if by_grid is None else by_grid, "along"),
        HAS_IMAGE=by_image is not None, HAS_GRID=by_grid is not None and moves,
        NEED_VALUES=onto is not None, NEED_IMAGE=shadow is not None, NEED_GRID=gradient is not None,
    )  # fmt: skip
    return gradient


def collect(sums: Sums, shadow: Tensor, out: Tensor, *, how: How = USUAL) -> None:
    """Exact sums -> ``out``, laid out in dense memory as the shadow, of any floating type."""
    import triton.language as tl

    count = shadow.numel()
    known = {
        "shadow": shadow, "out": out, "count": count, **sums.arguments(shadow),
        "REAL": tl.float64 if shadow.element_size() == 8 else tl.float32, "BLOCK": FLAT,
    }  # fmt: skip
    launch("collect", False, -(-count // FLAT), 4, known, how)
