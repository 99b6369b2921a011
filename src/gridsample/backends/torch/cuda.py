"""CUDA tensors: the operators, computed by the kernels of `gridsample.kernels.gpu`.

Kernels are launched on the tensors' device and torch's current stream.  Launches are asynchronous,
and nothing is copied between host and device, so calls can be captured in a CUDA graph once their
kernels are compiled, and coordinates of axes, if there are any, were copied by a call.  Only a call
with footprints reads two integers back, to find out what its points need (`find_levels`).  A
complex tensor is processed as two real ones.

The functions also accept CPU tensors, for which Triton's interpreter runs the kernels, slowly.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gridsample.backends.base import Needed
from gridsample.backends.torch import cuda_splines, footprints
from gridsample.backends.torch.cuda_axes import InPixels
from gridsample.backends.torch.internals import FunctionalTensorMode
from gridsample.backends.torch.operators import (
    LIBRARY,
    Maybe,
    OperatorCall,
    call_for,
    check_differentiable,
    check_values,
    empty,
    empty_backward,
    empty_backward_twice,
    empty_gather,
    gathered_type,
    match_layout,
    sum_type,
)
from gridsample.backends.torch.schemas import LEADING, as_operator, options_of
from gridsample.definitions.footprints import levels
from gridsample.definitions.knots import Axes
from gridsample.definitions.options import Options
from gridsample.definitions.plan import Plan
from gridsample.kernels import gpu
from gridsample.kernels.gpu import launching

# The types of devices that have kernels.
DEVICES = ("cuda",) if importlib.util.find_spec("triton") else ()
# The value of a dropped tap or a point outside: empty for 0, one number, or one per channel.  A
# complex image has two numbers for each of these.
Fill = Sequence[float]


# Tensors in the form that the kernels accept ------------------------------------------------------


def parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """View a tensor as the real tensors of which it consists."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        return torch.view_as_real(tensor).unbind(-1)
    return (tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor,)


def at_points(tensor: Tensor, plan: Plan) -> Tensor:
    """Flatten the points of (N, C, *out) to one axis; copy only if they are unevenly spaced."""
    return tensor.reshape(*tensor.shape[:2], plan.points)


def points_of(grid: Tensor, plan: Plan) -> Tensor:
    """Flatten the points of (N, *out, D) to one axis."""
    return grid.detach().reshape(grid.shape[0], plan.points, grid.shape[-1])


def fills(fill: Fill, dtype: torch.dtype, like: Tensor, count: int) -> list[Maybe]:
    """Create the fill of each of the ``count`` parts of an image, on the device of a tensor.

    The numbers are passed as arguments of kernels that create the tensors, because a copy from the
    host cannot be captured in a CUDA graph.
    """
    if not fill:
        return [None] * count
    create = functools.partial(torch.full, (1,), dtype=dtype, device=like.device)
    result: list[Maybe] = []
    for k in range(count):
        numbers = [stored(number, dtype) for number in fill[k::count]]
        is_uniform = len(set(numbers)) == 1
        result.append(create(numbers[0]) if is_uniform else torch.cat([*map(create, numbers)]))
    return result


def stored(number: float, dtype: torch.dtype) -> float:
    """Convert a number to the values of a dtype: integers are rounded and saturate."""
    if dtype.is_floating_point:
        return number
    if math.isnan(number):
        return 0
    ends = torch.iinfo(dtype)
    return round(min(max(number, ends.min), ends.max))


def traced(tensor: Tensor) -> bool:
    """Whether a tensor has no memory, because a graph of operations is being recorded."""
    return type(tensor) not in (Tensor, torch.nn.Parameter)


def launch_options(tensor: Tensor, affine: bool = False) -> launching.LaunchOptions:
    """Determine how kernels are launched for a tensor."""
    wrap = torch.library.wrap_triton if traced(tensor) else None
    return launching.LaunchOptions(affine, tensor.device.type == "cpu", wrap)


def on_device(tensor: Tensor) -> Any:
    """A context that selects the device of a tensor; recorded graphs do this themselves."""
    guard: Any = torch.cuda.device_of
    return contextlib.nullcontext() if traced(tensor) else guard(tensor)


# Computation --------------------------------------------------------------------------------------


def run_gather(call: OperatorCall, image: Tensor, grid: Tensor, fill: Fill = ()) -> Tensor:
    """Compute gather."""
    plan, out = call.plan, empty_gather(image, grid, call.order)
    if call.vanishes:
        return out.zero_()
    if not out.numel():
        return out
    sample_into(call, image, points_of(grid, plan), out, fill, launch_options(image))
    return out


def sample_into(
    call: OperatorCall,
    image: Tensor,
    points: Tensor,
    out: Tensor,
    fill: Fill,
    launch: launching.LaunchOptions,
) -> None:
    """Gather at points (N, points, D) or at the points of maps (N, D, D + 1), into ``out``."""
    call, sizes, _ = find_levels(call, points, launch)
    image = interleaved(image, call.plan, False, launch)
    for n, source in enumerate(copies_of(image, sizes, call.plan)):
        sample_level(call, source, points, out, fill, n, launch)


def copies_of(image: Tensor, sizes: Sequence[Sequence[int]], plan: Plan) -> Iterator[Tensor]:
    """Yield an image, and copies of it that are halved to the following sizes."""
    yield image
    if len(sizes) > 1:
        images = footprints.HalvedImage(widened(image, plan))
        for spatial in sizes[1:]:
            yield match_layout(images.at(spatial), image)


def sample_level(
    call: OperatorCall, image: Tensor, points: Tensor, out: Tensor, fill: Fill, level: int,
    launch: launching.LaunchOptions,
) -> None:  # fmt: skip
    """Gather from a copy of the image that is halved ``level`` times."""
    plan, sources, targets = call.plan, parts(image), parts(out)
    dtype = sources[0].dtype if gpu.copies(plan, call.order) else sum_type(plan)
    if dtype == torch.uint8 and image.dtype == torch.bool:
        fill = [min(max(number, 0), 1) for number in fill]
    with on_device(image):
        outside = fills(fill, dtype, image, len(sources))
        for source, target, fill_of_part in zip(sources, targets, outside, strict=True):
            gpu.gather(
                plan, source, points, at_points(target, plan), call.order, fill=fill_of_part,
                level=level, options=launch,
            )  # fmt: skip


def copies_to_interleave(image: Tensor, plan: Plan, adds: bool) -> bool:
    """Whether a copy of an image with its channels side by side pays; see `interleaved`."""
    return image.stride(1) != 1 and image.is_floating_point() and gpu.interleaves(plan, adds)


def interleaved(image: Tensor, plan: Plan, adds: bool, launch: launching.LaunchOptions) -> Tensor:
    """Return an image whose channels lie side by side; itself if a copy does not pay.

    adds: whether values are added to pixels.
    """
    if not copies_to_interleave(image, plan, adds):
        return image
    result = empty_interleaved(image.shape, image, image.dtype)
    transpose(image.detach(), result, launch)
    return result


def empty_interleaved(shape: Sequence[int], like: Tensor, dtype: torch.dtype) -> Tensor:
    """Allocate (N, C, *spatial) with the channels of a pixel side by side."""
    items, channels, *spatial = shape
    return like.new_empty((items, *spatial, channels), dtype=dtype).movedim(-1, 1)


def transpose(source: Tensor, target: Tensor, launch: launching.LaunchOptions) -> None:
    """Copy an image to another layout and dtype."""
    with on_device(source):
        gpu.transpose(source.flatten(2), target.flatten(2), options=launch)


def find_levels(
    call: OperatorCall, points: Tensor, launch: launching.LaunchOptions
) -> tuple[OperatorCall, Sequence[Sequence[int]], int]:
    """Find out what the points of a call need.

    Returns:
        The call, without footprints if no point has more than one sample; the spatial shapes of the
        image and the halved copies that are needed; and the most samples of a point.
    """
    plan = call.plan
    if plan.footprint is None:
        return call, [plan.spatial], 1
    extent = torch.zeros(2, dtype=torch.int32, device=points.device)
    with on_device(points):
        gpu.measure_footprints(plan, points, extent, options=launch)
    deepest, largest = extent.tolist()
    if not deepest and largest == 1:
        return call._replace(plan=without_footprint(plan)), [plan.spatial], 1
    needed = levels(plan.spatial, plan.coords, plan.align_corners, deepest)
    return call, [level.spatial for level in needed], largest


@functools.lru_cache(maxsize=1024)
def without_footprint(plan: Plan) -> Plan:
    """Return the plan of plain sampling."""
    return replace(plan, footprint=None)


def widened(image: Tensor, plan: Plan) -> Tensor:
    """An image in the dtype of sums over its pixels, so that means are rounded only once."""
    real = sum_type(plan)
    return image.to(real.to_complex() if image.is_complex() else real)


def run_backward(
    call: OperatorCall, values: Tensor, image: Maybe, grid: Tensor,
    outputs: tuple[Tensor, Tensor], needed: Needed, fill: Fill = (),
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Compute the needed gradients of image and grid; ``outputs`` are empty tensors for them."""
    first, second = outputs
    if not values.numel() or call.vanishes or not any(needed):
        return first.zero_(), second.zero_()
    if not grid_has_gradient(call):
        second.zero_()
        needed = needed[0], False
    if not any(needed):
        return outputs
    points, launch = points_of(grid, call.plan), launch_options(values)
    grad_image, gradient = sweep(
        call, values, image, points, first if needed[0] else None, needed[1], fill, launch
    )
    if gradient is not None:
        second = gradient.reshape(grid.shape).to(grid.dtype)
    return first if grad_image is None else grad_image, second


def grid_has_gradient(call: OperatorCall) -> bool:
    """Whether values depend on positions between pixels: those of steps, as "nearest", do not."""
    return any(
        n + 1 < method.powers for n, method in zip(call.order, call.plan.methods, strict=True)
    )


def sweep(
    call: OperatorCall, values: Tensor, image: Maybe, points: Tensor, first: Maybe,
    need_grid: bool, fill: Fill, launch: launching.LaunchOptions,
) -> tuple[Maybe, Maybe]:  # fmt: skip
    """Compute both gradients.

    Returns:
        The image's gradient in ``first`` if that is not None, and that of the grid's points or of
        the maps, (N, points, D) or (N, D, D + 1).
    """
    call, sizes, largest = find_levels(call, points, launch)
    if image is not None:
        image = interleaved(image, call.plan, first is not None, launch)
    make = Gradients(points, call.plan, launch) if need_grid else None
    sources: Iterable[Maybe] = itertools.repeat(None, len(sizes))
    if image is not None:
        sources = copies_of(image, sizes, call.plan)
    grad_image: Maybe = None
    for n, source in enumerate(sources):
        grad_level = first
        if first is not None and len(sizes) > 1:
            wide = widened(first[:0], call.plan).dtype
            grad_level = empty((*first.shape[:2], *sizes[n]), first, wide)
        partial = sweep_level(
            call, values, source, points, grad_level, make, fill, (n, largest), launch
        )
        if partial is not None and n:
            partial = footprints.unhalve(partial, sizes[0])
        grad_image = partial if grad_image is None or partial is None else grad_image.add_(partial)
    if grad_image is not None and first is not None and len(sizes) > 1:
        grad_image = first.copy_(grad_image)
    return grad_image, None if make is None else make.total()


def sweep_level(
    call: OperatorCall, values: Tensor, image: Maybe, points: Tensor, first: Maybe,
    make: Gradients | None, fill: Fill, level: tuple[int, int], launch: launching.LaunchOptions,
) -> Maybe:  # fmt: skip
    """Run the fused kernel for each part of a tensor.

    ``level`` is how often the image has been halved, and the most samples of a point.  Returns the
    image's gradient in ``first`` if that is not None; ``make`` keeps the grid's.
    """
    plan, gradients = call.plan, []
    sources = (None,) * len(parts(values)) if image is None else parts(image)
    with on_device(values):
        outside = fills(fill if make else (), sum_type(plan), values, len(sources))
        for part, source, fill_of_part in zip(parts(values), sources, outside, strict=True):
            grad_image = None if first is None else ImageGradient(plan, first, launch, level[1])
            gpu.backward(
                plan, at_points(part, plan), source, points, grad_image and grad_image.wide,
                call.order, empty=make, sums=None if grad_image is None else grad_image.sums,
                fill=fill_of_part, level=level[0], options=launch,
            )  # fmt: skip
            if grad_image is not None:
                gradients.append(grad_image.finish())
    return torch.complex(*gradients) if len(gradients) == 2 else gradients[0] if gradients else None


class Gradients:
    """The tensors in which kernels store the gradient of a grid or of maps.

    Without footprints, there is one for each part of a complex tensor.  With footprints, kernels
    add to a tensor, so that one serves all parts and levels; if the launch for a level has another
    shape, that level has its own.
    """

    def __init__(self, points: Tensor, plan: Plan, launch: launching.LaunchOptions) -> None:
        self.points, self.plan, self.launch = points, plan, launch
        self.tensors: list[Tensor] = []

    def __call__(self, shape: tuple[int, ...]) -> Tensor:
        """Return the tensor to which a kernel writes."""
        options: Any = {"dtype": sum_type(self.plan), "device": self.points.device}
        if self.plan.footprint is None:
            self.tensors.append(torch.empty(shape, **options))
            return self.tensors[-1]
        for tensor in self.tensors:
            if tensor.shape == shape:
                return tensor
        self.tensors.append(torch.zeros(shape, **options))
        return self.tensors[-1]

    def total(self) -> Tensor:
        """Sum over tensors, splits and, for maps, blocks."""
        totals = [
            tensor.sum((0, 2)) if self.launch.affine else add_up(tensor) for tensor in self.tensors
        ]
        total = sum(totals[1:], totals[0])
        if self.plan.footprint is None or self.launch.affine:
            return total
        shape = total.shape[0], *self.plan.out
        grid = self.points.reshape(*shape, -1).to(total.dtype)
        slopes = total.reshape(*shape, *total.shape[2:])
        return footprints.grid_gradient(grid, slopes).flatten(1, -2)


def add_up(gradient: Tensor) -> Tensor:
    """Sum a gradient over splits."""
    return gradient.squeeze(0) if gradient.shape[0] == 1 else gradient.sum(0)


class ImageGradient:
    """The buffer to which a kernel adds an image's gradient."""

    def __init__(
        self, plan: Plan, first: Tensor, launch: launching.LaunchOptions, samples: int = 1
    ) -> None:
        """Create the buffer for the result ``first``, or for one part of it if it is complex.

        samples: the most samples of a point.
        """
        real, dense = sum_type(plan), not first.is_complex()
        self.result, self.launch = first if dense else empty(first.shape, first, real), launch
        self.transposed = dense and first.stride(1) != 1 and gpu.interleaves(plan, adds=True)
        wide = self.result
        if self.transposed:
            wide = empty_interleaved(first.shape, first, real)
        elif self.result.dtype != real:
            wide = empty(first.shape, first, real)
        self.wide = wide.zero_()
        exact = torch.are_deterministic_algorithms_enabled()
        self.sums = exact_sums(wide, gpu.additions(plan, samples)) if exact else None

    def finish(self) -> Tensor:
        """Return the gradient after all additions."""
        total = self.wide
        if self.sums is not None:
            total = torch.empty_like(self.wide) if self.transposed else self.result
            gpu.collect(self.sums, self.wide, total, options=self.launch)
        if self.transposed:
            transpose(total, self.result, self.launch)
        elif self.result is not total:
            self.result.copy_(total)
        return self.result


def exact_sums(memory: Tensor, additions: int) -> launching.Sums:
    """Create integer buffers, so that the result does not depend on the order of additions.

    additions: how many values are added to a number at most.
    """
    limbs = memory.element_size() // 4
    integers = torch.int64 if limbs == 2 else torch.int32
    return launching.Sums(
        torch.zeros_like(memory, dtype=integers),
        memory.new_zeros((limbs, *memory.shape), dtype=torch.int64),
        launching.room_for(additions),
    )


def run_double_backward(
    call: OperatorCall, values: Tensor, image: Tensor, grid: Tensor, by_image: Maybe,
    by_grid: Maybe, needed: Needed, fill: Fill = (),
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Compute the gradients of backward; one that is not needed is an empty tensor."""
    plan, launch = call.plan, launch_options(values)
    grad_values, first, second = empty_backward_twice(values, image, grid, needed)
    if not values.numel() or call.vanishes or not any(needed):
        return grad_values.zero_(), first.zero_(), second.zero_()
    make = functools.partial(values.new_empty, dtype=sum_type(plan)) if needed[2] else None
    image = interleaved(image, plan, needed[1], launch)
    if by_image is not None:
        by_image = interleaved(by_image, plan, needed[1], launch)
    with on_device(values):
        grad_image = ImageGradient(plan, first, launch) if needed[1] else None
        gradient = gpu.double_backward(
            plan, at_points(values.detach(), plan), image.detach(), points_of(grid, plan),
            gpu.Upstream(
                None if by_image is None else by_image.detach(),
                None if by_grid is None else points_of(by_grid, plan),
            ),
            at_points(grad_values, plan) if needed[0] else None,
            grad_image.wide if grad_image else None, call.order, empty=make,
            sums=grad_image.sums if grad_image else None,
            fill=fills(fill, sum_type(plan), values, 1)[0], options=launch,
        )  # fmt: skip
        return (
            grad_values,
            first if grad_image is None else grad_image.finish(),
            second if gradient is None else add_up(gradient).reshape(grid.shape).to(grid.dtype),
        )


# For torch.compile --------------------------------------------------------------------------------


def decomposed_in_graphs(name: str, compute: Any) -> Any:
    """Create a rule that replaces an operator by its kernels in a graph of torch.compile.

    `torch.library.triton_op` does the same, but only for operators without derivatives, batching
    rules, or kernels for other devices.  If sizes are symbolic, the operator is kept, because the
    launch configuration depends on them.  It is also kept in programs of torch.export, which cannot
    contain kernels, for footprints, whose numbers of samples depend on values, and for coordinates
    of axes, which are kept on the device.
    """

    def decompose(mode: Any, operator: Any, types: Any, arguments: Any, named: Any) -> Any:
        options = options_of(*arguments[LEADING[name] :])
        tensors = [tensor for tensor in arguments if isinstance(tensor, Tensor)]
        numbers = [n for tensor in tensors for n in (*tensor.shape, *tensor.stride())]
        if (
            options.footprint is not None
            or isinstance(options.coords, Axes)
            or any(type(n) is not int for n in numbers)
            or any(tensor.device.type not in DEVICES for tensor in tensors)
            or is_exporting_program()
        ):
            return mode.__torch_dispatch__(operator, types, arguments, named)
        with mode:
            return compute(*arguments, **named)

    return decompose


def is_exporting_program() -> bool:
    """Whether torch.export is running, according to its own module."""
    is_disabled: Any = getattr(
        sys.modules.get("torch.export._trace"), "custom_triton_ops_decomposition_disabled", None
    )
    return bool(is_disabled and is_disabled())


# The operators ------------------------------------------------------------------------------------


def gather_on_gpu(
    image: Tensor, grid: Tensor, options: Options, prepared_call: OperatorCall | None = None
) -> Tensor:
    """Compute gather for CUDA tensors; their call, if it is known."""
    if cuda_splines.samples_splines(options):
        return cuda_splines.gather(image, grid, options)
    if isinstance(options.coords, Axes):
        pixels = InPixels.of(grid, image.shape[2:], options)
        result = pixels.scaled(gather_on_gpu(image, pixels.grid, pixels.options))
        return result.to(gathered_type(image.dtype, grid.dtype, options.order))
    call = prepared_call or call_for(image.shape, image, grid, options)
    if call.plan.votes and call.plan.footprint is not None:
        return footprints.vote(gather_on_gpu, image, grid, options)
    return run_gather(call, image, grid, options.fill_value)


def scatter_on_gpu(values: Tensor, grid: Tensor, size: Sequence[int], options: Options) -> Tensor:
    """Compute scatter for CUDA tensors."""
    if cuda_splines.samples_splines(options):
        return cuda_splines.scatter(values, grid, size, options)
    if isinstance(options.coords, Axes):
        pixels = InPixels.of(grid, size[2:], options)
        return scatter_on_gpu(pixels.scaled(values), pixels.grid, size, pixels.options)
    call = call_for(size, values, grid, options)
    check_values(values, call.plan, "values")
    outputs = empty(size, values, values.dtype), grid.new_empty(0)
    return run_backward(call, values, None, grid, outputs, (True, False))[0]


def backward_on_gpu(
    values: Tensor, image: Tensor, grid: Tensor, needed: Needed, options: Options,
    prepared_call: OperatorCall | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Compute backward for CUDA tensors; their call, if it is known."""
    if cuda_splines.samples_splines(options):
        return cuda_splines.backward(values, image, grid, needed, options)
    if isinstance(options.coords, Axes):
        pixels = InPixels.of(grid, image.shape[2:], options)
        arrays = pixels.scaled(values), image, pixels.grid
        first, second = backward_on_gpu(*arrays, needed, pixels.options)
        return first, pixels.per_unit(second, grid)
    call = prepared_call or call_for(image.shape, image, grid, options)
    check_values(values, call.plan, "grad_output")
    if needed[0]:
        check_differentiable(image)
    outputs = empty_backward(image, grid, needed)
    return run_backward(call, values, image, grid, outputs, needed, options.fill_value)


def double_backward_on_gpu(
    values: Tensor, image: Tensor, grid: Tensor, by_image: Maybe, by_grid: Maybe, needed: Needed,
    options: Options,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Compute the gradients of backward for CUDA tensors; unneeded ones are empty tensors."""
    if cuda_splines.samples_splines(options):
        return cuda_splines.double_backward(values, image, grid, by_image, by_grid, needed, options)
    if isinstance(options.coords, Axes):
        pixels = InPixels.of(grid, image.shape[2:], options)
        arrays = pixels.scaled(values), image, pixels.grid, by_image
        tangents = None if by_grid is None else by_grid * pixels.slopes
        first, second, third = double_backward_on_gpu(*arrays, tangents, needed, pixels.options)
        return pixels.scaled(first) if needed[0] else first, second, pixels.per_unit(third, grid)
    call = call_for(image.shape, image, grid, options)
    arguments = values, image, grid, by_image, by_grid, needed
    if options.footprint is None:
        return run_double_backward(call, *arguments, options.fill_value)
    gradients = footprints.double_backward(double_backward_on_gpu, *arguments, options)
    likes = empty_backward_twice(values, image, grid, needed)
    first, second, third = (
        like.zero_() if gradient is None else gradient
        for gradient, like in zip(gradients, likes, strict=True)
    )
    return first, second, third


cuda_gather = as_operator("gather", gather_on_gpu)
cuda_scatter = as_operator("scatter", scatter_on_gpu)
cuda_backward = as_operator("backward", backward_on_gpu)
cuda_double_backward = as_operator("backward_twice", double_backward_on_gpu)

for name, compute in (
    ("gather", cuda_gather),
    ("scatter", cuda_scatter),
    ("backward", cuda_backward),
    ("backward_twice", cuda_double_backward),
):
    if DEVICES:
        LIBRARY.impl(name, compute, "CUDA")
        torch.library.register_torch_dispatch(
            f"gridsample::{name}",
            FunctionalTensorMode,
            decomposed_in_graphs(name, compute),
            lib=LIBRARY,
        )


# Affine maps without a grid -----------------------------------------------------------------------


def run_affine(call: OperatorCall, image: Tensor, theta: Tensor, out: Tensor, fill: Fill) -> None:
    """Sample at the points of affine maps (N, D, D + 1), without storing their grid."""
    sample_into(call, image, theta.detach(), out, fill, launch_options(image, affine=True))


def run_affine_backward(
    call: OperatorCall, values: Tensor, image: Tensor, theta: Tensor, needed: Needed, fill: Fill
) -> tuple[Maybe, Tensor]:
    """Compute the needed gradients of image and maps."""
    first = empty(image.shape, image, image.dtype).zero_() if needed[0] else None
    need_theta = needed[1] and any(method.powers > 1 for method in call.plan.methods)
    zeros = torch.zeros_like(theta)
    if not values.numel() or not (needed[0] or need_theta):
        return first, zeros
    launch = launch_options(values, affine=True)
    grad_image, gradient = sweep(
        call, values, image, theta.detach(), first, need_theta, fill, launch
    )
    return grad_image, zeros if gradient is None else gradient.to(theta.dtype)
