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
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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


# What kernels are compiled for -------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def describe(method: Method, boundary: str, order: int) -> tuple[float, ...]:
    """One axis as kernels know it: see `gridsample.kernels.gpu.taps`."""
    tables = (method.derivative(order + raised) for raised in range(3))
    return (
        *(method.taps, method.first, method.powers, int(method.rounds), int(method.folds_position)),
        *(BOUNDARIES[boundary].code, order),
        *(coefficient for table in tables for row in table for coefficient in row),
    )


# Boundaries that the kernels know.
KNOWN = ("zeros", "border", "reflection")


def axes(plan: Plan, order: Order) -> dict[str, Any]:
    """The axes x, y and z; those that the image has not are of one pixel.

    Raises:
        ValueError: a boundary, or a kind of coordinates, that the kernels do not know.
    """
    if not set(plan.boundaries) <= set(KNOWN) or plan.coords != "normalized":
        raise ValueError(
            f"padding_mode {plan.boundaries} with {plan.coords} coordinates: on a GPU, accepted: "
            f"{', '.join(map(repr, KNOWN))}, with normalized ones"
        )
    known = [describe(*one) for one in zip(plan.methods, plan.boundaries, order, strict=True)]
    known += [describe(NEAREST, "zeros", 0)] * (3 - len(known))
    return {**dict(zip("XYZ", known, strict=True)), "RANK": len(plan.spatial)}


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
        interpreted: bool, affine: bool = False, visits: int = 1,
    ) -> None:  # fmt: skip
        """For a grid or, ``affine``, maps (N, D, D + 1); ``tensors`` are all that are gone through.

        A tap is visited so often: read, or added to.
        """
        import triton.language as tl

        self.interpreted, self.plan = interpreted, plan
        self.visits = visits * math.prod(method.taps for method in plan.methods)
        shared = plan.items if plan.grid_items == 1 else 1
        self.launch = shape_launch(
            plan.points, plan.channels, plan.grid_items, shared, last, self.visits,
            plan.real.itemsize,
        )  # fmt: skip
        far = max(reach(tensor) for tensor in (grid, *tensors)) >= FAR
        sizes = (*plan.spatial[::-1], 1, 1)
        out = (*plan.out[::-1], 1, 1) if affine else (1, 1, 1)
        self.arguments: dict[str, Any] = {
            "grid": grid, **grid_steps(grid, "grid", affine),
            **named("size", "xyz", sizes[:3]), **named("out", "xyz", out[:3]),
            "channels": plan.channels, "points": plan.points, "grid_items": plan.grid_items,
            "units": self.launch.units, "splits": self.launch.splits,
            **axes(plan, order),
            "ALIGNED": int(plan.align_corners), "AFFINE": affine, "LAST": last,
            "REAL": tl.float64 if plan.real.itemsize == 8 else tl.float32,
            "INDEX": tl.int64 if far else tl.int32,
            "BLOCK": self.launch.block, "DEPTH": self.launch.depth,
        }  # fmt: skip

    @property
    def blocks(self) -> int:
        """Blocks of points of an item."""
        return -(-self.plan.points // self.launch.block)

    def gradient_shape(self, affine: bool) -> tuple[int, ...]:
        """The shape of a gradient: every program has a place of its own in it."""
        plan, rank = self.plan, len(self.plan.spatial)
        each = (self.blocks, rank, rank + 1) if affine else (plan.points, rank)
        return (self.launch.splits, plan.grid_items, *each)

    def run(self, name: str, wrap: Wrap | None, **arguments: Any) -> None:
        """Launch a kernel with these arguments and all that it takes of the others."""
        from gridsample.kernels.gpu.build import kernels

        kernel = getattr(kernels(self.visits > MANY, self.interpreted), name)
        known = {**self.arguments, **arguments}
        taken = [known[argument] for argument in kernel.arg_names]
        programs = self.blocks * self.plan.grid_items * self.launch.splits
        options = {} if self.interpreted else {"num_warps": self.launch.warps, "num_stages": 1}
        (wrap(kernel) if wrap else kernel)[(programs,)](*taken, **options)


# The contract -------------------------------------------------------------------------------------


def gather(
    plan: Plan,
    image: Tensor,
    grid: Tensor,
    out: Tensor,
    order: Order,
    *,
    affine: bool = False,
    wrap: Wrap | None = None,
    interpreted: bool = False,
) -> None:
    """Sample real images, (N, C, *spatial), into ``out`` (N, C, points).

    Where ``affine``, the grid is (N, D, D + 1), the rows of maps of the plan's output.
    """
    limits = (0, 0)
    rounds = not any(order) and not is_differentiable(plan.dtype)
    if rounds:
        import numpy as np

        kind = plan.dtype
        limits = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    copy = plan.nearest and not any(order)
    call = Call(plan, order, grid, (image, out), side_by_side(image), interpreted, affine)
    call.run(
        "gather", wrap, image=image, out=out,
        **image_steps(image, "image", plan.items), **values_steps(out, "out", plan.items),
        COPY=copy, HOLE=not rounds and not any(order), ROUND=rounds and not copy,
        LOW=limits[0], HIGH=limits[1],
    )  # fmt: skip


def crowded(plan: Plan) -> bool:
    """Whether so many points go to a pixel that those of a block are worth joining."""
    return plan.points > CROWDED * math.prod(plan.spatial)


class Sums(NamedTuple):
    """How additions to pixels are made to give the same in any order.

    Attributes:
        limbs: integers to add to, (limb, ...) as the shadow lies; or any tensor, if there are none.
        scales: one number, by which values are multiplied before they are truncated.
        number: number of limbs, or 0 where floats are added to.
        step: distance between limbs.
    """

    limbs: Tensor
    scales: Tensor
    number: int = 0
    step: int = 0


def largest(
    plan: Plan, values: Tensor, grid: Tensor, bound: Tensor, *, wrap: Wrap | None = None,
    interpreted: bool = False,
) -> None:  # fmt: skip
    """Raise ``bound``, the bits of a float in an integer, to the largest finite size of a value."""
    call = Call(plan, (0,) * len(plan.spatial), grid, (values,), side_by_side(values), interpreted)
    steps = values_steps(values, "values", plan.items)
    call.run("largest", wrap, values=values, bound=bound, **steps)


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
    affine: bool = False,
    wrap: Wrap | None = None,
    interpreted: bool = False,
) -> Tensor | None:
    """Add values (N, C, points) to their taps in ``shadow`` (N, C, *spatial), if there is one.

    With ``empty``, which makes tensors of the type ``plan.real``, also returns the grid's gradient,
    for which there has to be an image: (splits, N, points, D), or for maps (splits, N, blocks, D,
    D + 1); it is the sum over splits, and blocks, of that.
    """
    first = shadow if image is None else image
    second = first if shadow is None else shadow
    call = Call(
        plan, order, grid, (values, first, second), side_by_side(second), interpreted, affine, 2
    )
    gradient = None if empty is None else empty(call.gradient_shape(affine))
    sums = sums or Sums(values, values)
    call.run(
        "backward", wrap, values=values, image=first, shadow=second,
        gradient=values if gradient is None else gradient, limbs=sums.limbs, scales=sums.scales,
        limb=sums.step, LIMBS=sums.number, JOIN=crowded(plan),
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
    wrap: Wrap | None = None,
    interpreted: bool = False,
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
        plan, order, grid, (values, image, up, under, target), side_by_side(image), interpreted,
        visits=4,
    )  # fmt: skip
    gradient = None if empty is None else empty(call.gradient_shape(False))
    call.run(
        "twice", wrap, values=values, image=image, by_image=up, shadow=under, onto=target,
        by_grid=grid if by_grid is None else by_grid,
        gradient=values if gradient is None else gradient, JOIN=crowded(plan),
        HOLE=by_image is not None and not any(order),
        **image_steps(image, "image", plan.items), **image_steps(up, "up", plan.items),
        **image_steps(under, "shadow", plan.items), **values_steps(values, "values", plan.items),
        **values_steps(target, "onto", plan.items),
        **grid_steps(grid if by_grid is None else by_grid, "along"),
        HAS_IMAGE=by_image is not None, HAS_GRID=by_grid is not None and moves,
        NEED_VALUES=onto is not None, NEED_IMAGE=shadow is not None, NEED_GRID=gradient is not None,
    )  # fmt: skip
    return gradient
