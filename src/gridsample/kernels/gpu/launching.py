"""How kernels are launched: their calls, which are cached, and the division of work.

Nothing is tuned at run time.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gridsample.kernels.gpu.parts import EXACT, MEASURED

Tensor = Any
# Calls a kernel.  By default it is called directly, but a framework may need to wrap it.
Wrap = Callable[[Any], Any]

# The number of programs that fill a GPU: a few for each slot of about 150 multiprocessors.
FULL = 4096
# The points of a row that a block holds, if it holds points of several rows.
WIDTH = 16
# The most channels that a program of plain sampling processes.  Fewer programs would read the grid
# less often, but random points then read too many planes at a time for the cache.
LONGEST = 16


class LaunchOptions(NamedTuple):
    """Options of any launch.

    Attributes:
        affine: the grid is (N, D, D + 1), the rows of affine maps of the plan's output.
        interpreted: tensors are in CPU memory, and Triton's interpreter runs the kernel.
        wrap: wraps the kernel before it is called.
    """

    affine: bool = False
    interpreted: bool = False
    wrap: Wrap | None = None


DEFAULTS = LaunchOptions()


class Layout(NamedTuple):
    """The memory layout of a tensor: all that a launch depends on."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]


def layouts(*tensors: Tensor | None) -> Iterator[Layout | None]:
    """Yield the layouts of tensors; None for those that are None."""
    for tensor in tensors:
        yield None if tensor is None else Layout(tuple(tensor.shape), tuple(tensor.stride()))


# The division of work -----------------------------------------------------------------------------


class Launch(NamedTuple):
    """The configuration of a launch.

    Attributes:
        block: points of a program.
        width: how many of them are side by side in the output; all, or fewer of several rows.
        depth: channels that it processes at a time.
        warps: warps (of 32 threads) of a program.
        splits: programs that share the channels of a block.
        units: chunks of channels of all items that use the same item of the grid.
    """

    block: int
    width: int
    depth: int
    warps: int
    splits: int
    units: int


class Extent(NamedTuple):
    """The numbers of points and channels of a call.

    Attributes:
        points: points of an item.
        row: points of a row; 0 if a block is not to hold several.
        channels: channels of the image.
        grid_items: items of the grid.
        shared: images that use the same item of the grid.
    """

    points: int
    row: int
    channels: int
    grid_items: int
    shared: int


@functools.lru_cache(maxsize=1024)
def shape_launch(extent: Extent, last: bool, visits: int, size: int, plain: bool) -> Launch:
    """Determine the launch for points and channels.

    Channels first: a thread processes one point and one channel at a time, so that neighbouring
    threads write to neighbouring places.  If the output has several rows of ``row`` points, a block
    holds points of some of them: those of turned images read fewer lines of the cache, and add to
    fewer.  A thread then has two points if they are plain bilinear samples.  Channels last: a
    thread processes four channels of a point with one load, or eight if they fit in its registers.

    Args:
        extent: the numbers of points and channels.
        last: whether the channels of a pixel lie side by side.
        visits: reads and writes of pixels for each value of the output.
        size: the size of a real in bytes.
        plain: whether each point is a weighted sum over its taps, and nothing is added to pixels.
    """
    points, row, channels, grid_items, shared = extent
    if last:
        each = (8 if visits <= 4 else 4) * 4 // size
        depth = min(power_of_two(channels), 64 if visits <= 8 else 32)
        block = max(8, 128 * each // depth)
    elif plain and visits == 4 and size == 4 and 4 * WIDTH <= row < points:
        each, depth, block = 2, 1, 256
    else:
        each, depth, block = 1, 1, 128
    block = min(block, power_of_two(points))
    if block * depth < 128:
        depth = min(power_of_two(channels), 128 // block)
    warps = max(1, min(4, block * depth // (32 * each)))
    units = -(-channels // depth) * shared
    width = WIDTH if not last and block > WIDTH and 4 * WIDTH <= row < points else block
    programs = blocks_of(points, row, block, width) * grid_items
    splits = min(units, max(1, -(-FULL // programs)))
    if plain and not last:
        splits = max(splits, -(-units // LONGEST))
    return Launch(block, width, depth, warps, splits, units)


def blocks_of(points: int, row: int, block: int, width: int) -> int:
    """Return the number of blocks of an item's points; see `parts.blocks_of`."""
    if width == block:
        return -(-points // block)
    return -(-row // width) * -(-(points // row) // (block // width))


def power_of_two(n: int) -> int:
    """Return the smallest power of two that is at least n."""
    return 1 << max(0, n - 1).bit_length()


# Calls --------------------------------------------------------------------------------------------


class Sums(NamedTuple):
    """The buffers for exact sums: values are added in any order, with the same result.

    Attributes:
        bounds: zeros, integers of the width and shape of the gradient's floats.
        limbs: zeros, 64-bit integers, as many for each limb, which are the first axis: one limb for
            32-bit floats, otherwise two.
        room: the bits of a limb that one addition may use.
    """

    bounds: Tensor
    limbs: Tensor
    room: int

    def arguments(self) -> dict[str, Any]:
        """Return the fields of a gradient's record."""
        return {
            "bounds": self.bounds, "limbs": self.limbs, "limb": self.limbs.stride(0),
            "room": self.room,
        }  # fmt: skip


def room_for(additions: int) -> int:
    """Return the bits of a limb that one addition may use, such that even the sum of all fits."""
    return 62 - math.ceil(math.log2(max(1, additions)))


class Call:
    """A call of a kernel: its arguments except for the tensors, and its launch configuration.

    Calls are cached by everything that they depend on, so that a similar call costs nothing.
    """

    gradient_shape: tuple[int, ...] = ()

    def __init__(
        self, name: str, programs: int, warps: int, arguments: dict[str, Any], rolled: bool = False
    ) -> None:
        self.name, self.programs, self.warps, self.rolled = name, programs, warps, rolled
        self.arguments = arguments
        self.compiled: dict[tuple[Any, ...], Launcher] = {}

    def run(self, options: LaunchOptions, **tensors: Tensor | None) -> None:
        """Launch the kernel on these tensors."""
        if options.interpreted or options.wrap is not None:
            launch(self.name, self.rolled, self.programs, self.warps, self.known(tensors), options)
            return
        from gridsample.kernels.gpu.triton_jit import current_gpu

        # What a kernel is compiled for beside the call: dtypes, alignment of memory, and the GPU.
        key = (
            current_gpu(),
            *[t if t is None else (t.dtype, t.data_ptr() % 16 == 0) for t in tensors.values()],
        )
        launcher = self.compiled.get(key)
        if launcher is not None:
            launcher.launch(self.programs, tensors)
            return
        known = self.known(tensors)
        kernel = launch(self.name, self.rolled, self.programs, self.warps, known, options)
        self.compiled[key] = Launcher(kernel, known, tensors)

    def known(self, tensors: dict[str, Tensor | None]) -> dict[str, Any]:
        """Return all arguments by name."""
        return {**self.arguments, **{memory_of(name): t for name, t in tensors.items()}}

    def add_up(
        self,
        options: LaunchOptions,
        sums: Sums | None,
        grad_image: Tensor | None,
        **tensors: Tensor | None,
    ) -> None:
        """Run a kernel that adds to a gradient; for exact sums, run it before to measure values."""
        tensors["grad_image"] = grad_image
        if sums is None or grad_image is None:
            self.run(options, **tensors)
            return
        exact = {f"grad_image_{name}": n for name, n in sums.arguments().items()}
        bounds = self.but(**exact, needs_SUMS=MEASURED, needs_GRID=False, needs_VALUES=False)
        bounds.run(options, **tensors)
        self.but(**exact, needs_SUMS=EXACT).run(options, **tensors)

    def but(self, **arguments: Any) -> Call:
        """Return a copy of the call with some arguments replaced, where the kernel takes them."""
        other = copy.copy(self)
        other.compiled = {}
        other.arguments = {
            name: arguments.get(name, value) for name, value in self.arguments.items()
        }
        return other


# Parameters that are tensors without a record, and are given at launch.
NEITHER = frozenset({"gradient", "extent"})


def memory_of(name: str) -> str:
    """Return the parameter for the memory of a tensor."""
    return name if name in NEITHER else f"{name}_memory"


class Launcher:
    """A compiled kernel and its arguments, in which only the tensors' addresses change.

    Triton's own call looks at every argument to find the kernel, which takes longer than to sample
    some 100,000 points.
    """

    def __init__(
        self, kernel: Any, known: dict[str, Any], tensors: dict[str, Tensor | None]
    ) -> None:
        from gridsample.kernels.gpu.triton_jit import argument_names

        self.kernel, names = kernel, argument_names(kernel)
        memories = {memory_of(name): name for name in tensors}
        # The tensors themselves are not kept, or their memory would be.
        self.arguments = [None if name in memories else known[name] for name in names]
        self.places = [(k, memories[name]) for k, name in enumerate(names) if name in memories]

    def launch(self, programs: int, tensors: dict[str, Tensor | None]) -> None:
        """Launch the kernel on tensors of the same dtypes and alignment."""
        arguments = [*self.arguments]
        for place, name in self.places:
            tensor = tensors[name]
            arguments[place] = None if tensor is None else tensor.data_ptr()
        self.kernel[(programs, 1, 1)](*arguments)


def launch(
    name: str,
    rolled: bool,
    programs: int,
    warps: int,
    known: dict[str, Any],
    options: LaunchOptions,
) -> Any:
    """Launch ``programs`` programs of a kernel with arguments by name; return it, compiled."""
    from gridsample.kernels.gpu.build import kernels

    kernel = getattr(kernels(rolled, options.interpreted), name)
    taken = [known[argument] for argument in kernel.arg_names]
    settings = {} if options.interpreted else {"num_warps": warps, "num_stages": 1}
    return (options.wrap(kernel) if options.wrap else kernel)[(programs,)](*taken, **settings)
