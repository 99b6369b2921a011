"""NumPy arrays: the `Backend` that passes them to the CPU kernels without copying."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import resizing as host
from gridsample.backends.base import Backend, Gradients, Needed, PreparedCall
from gridsample.backends.maps import grid_along
from gridsample.definitions.caches import cached_call
from gridsample.definitions.checks import as_array, check_dense, check_extent
from gridsample.definitions.control_points import ControlPoints
from gridsample.definitions.coords import coordinates
from gridsample.definitions.dtypes import BFLOAT16, check_image_type, type_name
from gridsample.definitions.operators import Operator
from gridsample.definitions.options import (
    Averaging,
    Options,
    Resizing,
    checked,
    fill_numbers,
    fill_of_channels,
    plan_of,
)
from gridsample.definitions.plan import Plan
from gridsample.definitions.request import Request, ResizeRequest, is_default_fill, without_fill
from gridsample.definitions.resizing import Sizes, plain_resizing
from gridsample.definitions.shapes import Shape
from gridsample.definitions.statistics import Statistic
from gridsample.kernels import (
    of_cell_statistics,
    of_colour_tables,
    of_operators,
    of_positions,
    on_cpu,
)
from gridsample.kernels import threads as pool
from gridsample.kernels.memory import Layout, address_of, addresses_of, converted, layout_of
from gridsample.kernels.spline import coefficients

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]

# The most points whose search takes less time than the start of a program.
FEW_POINTS = 1500


# Results of shapes, dtypes and options ------------------------------------------------------------


@cached_call(1024)
def resolve(
    image: Shape, image_type: DType, grid: Shape, grid_type: DType, request: Request
) -> Options:
    """Compute the checked options, without a fill value, and their plan."""
    checked_options = checked(request, image, grid)
    last = checked_options.channels_last()
    plan = plan_of(image, image_type, grid, grid_type, checked_options, last)
    return checked_options._replace(plan=plan)


class Fills(NamedTuple):
    """The arrays of a fill value that a kernel takes, by name, and their addresses."""

    arrays: dict[str, Array]
    addresses: list[int]


class ArraySampling(PreparedCall):
    """Sampling of arrays of certain layouts, by one run of a kernel.

    Attributes:
        request, plan, order: those of the call.
        kernel: the run of a kernel.
        shape: the shape of the result, which is in C order.
        dtype: its dtype.
        filled: whether the kernel takes fill values.
        latest: the latest fill value that was one number, with the result of `fills`.
    """

    __slots__ = ("dtype", "filled", "kernel", "latest", "order", "plan", "request", "shape")

    def __init__(self, request: Request, resolved: Options, kernel: Any, filled: bool) -> None:
        super().__init__()
        plan: Plan = resolved.plan
        self.request, self.plan, self.order = request, plan, tuple(resolved.order)
        self.kernel, self.filled, self.dtype = kernel, filled, plan.dtype
        items, channels, *out = plan.shape
        last = resolved.channels_last()
        self.shape = (items, *out, channels) if last else plan.shape
        self.latest: tuple[Any, Fills] = None, Fills({}, [])

    def stores_into(self, out: Any, *inputs: Array) -> bool:
        """Whether results can be stored in an array, which shares no memory with the inputs."""
        if type(out) is not np.ndarray or out.shape != self.shape or out.dtype != self.dtype:
            return False
        usable = out.flags.c_contiguous and out.flags.behaved
        return usable and not any([np.may_share_memory(out, array) for array in inputs])

    def run(self, image: Array, *points: Array, fill_value: Any = 0, out: Any = None) -> Array:
        """Sample an image at points."""
        (places,) = points
        result = np.empty(self.shape, self.dtype) if out is None else out
        if not self.filled:
            self.kernel.run(address_of(image), address_of(places), address_of(result))
            return result
        fills = self.fills(fill_value, image.dtype)  # the kernel needs them until it is done
        arrays = address_of(image), address_of(places), address_of(result)
        self.kernel.run(*arrays, *fills.addresses)
        return result

    def fills(self, fill_value: Any, dtype: DType) -> Fills:
        """Return the arrays of a fill value that the kernel takes."""
        known, kept = self.latest
        if known is fill_value is not None:  # not ==, as NaN differs from itself
            return kept
        plan, used = self.plan, self.plan.filled or not self.plan.extrapolate
        fill = fill_numbers(fill_value, self.request, used, dtype, plan.channels)
        channels = fill_of_channels(fill, plan)
        arrays = on_cpu().fills_of_planes(plan, self.order, dtype, channels, None)
        kept = Fills(arrays, addresses_of(arrays.values()))
        if type(fill_value) is float:  # unlike an array, it cannot change
            self.latest = fill_value, kept
        return kept


class ArrayResizing(PreparedCall):
    """Resizing of arrays of a layout, by one run of a kernel."""

    __slots__ = ("dtype", "kernel", "shape")

    def __init__(self, kernel: Any, shape: Shape, dtype: DType) -> None:
        super().__init__()
        self.kernel, self.shape, self.dtype = kernel, shape, dtype

    def run(self, image: Array, *points: Array, fill_value: Any = 0, out: Any = None) -> Array:
        """Resize an image."""
        result = np.empty(self.shape, self.dtype)
        self.kernel.run(address_of(image), address_of(result))
        return result


def prepare_sampling(
    request: Request, image: Layout, points: Layout, size: Shape | None, filled: bool
) -> ArraySampling | None:
    """Prepare sampling for arrays of these layouts; None if it is not one run of a kernel.

    Points are a grid or, if there is a ``size``, maps to outputs of this spatial shape.
    """
    shape, _, points_type = points
    readable = points_type.kind == "f" and (size is None or points_type.itemsize > 2)
    if not readable or not request.is_plain():
        return None
    grid = shape if size is None else (shape[0], *size, shape[2] - 1)
    resolved = resolve(image[0], image[2], grid, points_type, request)
    plan, last = resolved.plan, resolved.channels_last()
    if resolved.prefilter or 0 in plan.shape:
        return None
    if last:
        image = moved(image[0]), moved(image[1]), image[2]
    out = layout_of(empty(plan.shape, plan.dtype, last))
    threads = resolved.threads or pool.cores()
    order = tuple(resolved.order)
    kernel = on_cpu().ready_gather(plan, order, image, points, out, threads, filled=filled)
    return None if kernel is None else ArraySampling(request, resolved, kernel, filled)


def prepare_resizing(request: ResizeRequest, image: Layout, sizes: Sizes) -> ArrayResizing | None:
    """Prepare the resizing of arrays of a layout; None if it is not one run of a kernel."""
    resizing = plain_resizing(request, image[0], sizes)
    if resizing is None:
        return None
    shape, dtype = (*image[0][:2], *resizing.size), image[2]
    check_extent("the result", shape, dtype.itemsize)
    strides = tuple([dtype.itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape))])
    kernel = host.ready(resizing, image, (shape, strides, dtype), resizing.threads)
    return None if kernel is None else ArrayResizing(kernel, shape, dtype)


def moved(numbers: Shape) -> Shape:
    """Move the last number, which is that of channels, to the second place."""
    return numbers[0], numbers[-1], *numbers[1:-1]


def plan_for(image: Array, grid: Array, options: Options, dtype: DType) -> Plan:
    """Return the plan of the options, or create one for an image that is sampled in a dtype."""
    plan: Plan | None = options.plan
    return plan or plan_of(image.shape, dtype, grid.shape, grid.dtype, options)


def empty(shape: Sequence[int], dtype: DType, last: bool, allocate: Any = np.empty) -> Array:
    """Allocate a result (N, C, *rest); if ``last``, its channels come last in memory.

    allocate: `np.empty`, or `np.zeros`, which the system can provide cheaply.
    """
    array: Array = allocate((shape[0], *shape[2:], shape[1]) if last else shape, dtype)
    # `np.moveaxis` takes longer than small images do.
    return array.transpose(0, -1, *range(1, array.ndim - 1)) if last else array


def has_channels_last(array: Array) -> bool:
    """Whether the channels of a pixel are contiguous in memory."""
    if array.ndim < 3 or array.shape[1] < 2 or array.flags.c_contiguous:
        return False
    return array.strides[1] == array.itemsize


def in_type_of(points: Array, gradient: Array | None) -> Array | None:
    """Convert the gradient of points to their dtype, in native byte order."""
    return None if gradient is None else converted(gradient, points.dtype.newbyteorder("="))


def grid_like(theta: Array, out: Shape) -> Array:
    """Create a broadcast view with the shape and dtype of the grid that maps represent."""
    return repeated(0, theta.dtype, (len(theta), *out, theta.shape[2] - 1))


def plan_of_lattice(
    image: Array, lattice: Array, places: ControlPoints, options: Options, dtype: DType
) -> Plan | None:
    """Return the plan for a lattice; None if programs do not read it."""
    grid = repeated(0, lattice.dtype, (len(lattice), *places.out, lattice.shape[-1]))
    plan = replace(plan_for(image, grid, options, dtype), lattice=places)
    return plan if on_cpu().reads_lattices(plan) else None


@functools.lru_cache(maxsize=256)
def repeated(number: float, dtype: DType, shape: Shape) -> Array:
    """Return a view of one number, which is cached because making it takes as long as small calls.

    `np.broadcast_to` takes longer still.
    """
    memory = np.array(number, dtype.newbyteorder("="))
    view: Array = np.ndarray(shape, memory.dtype, memory, 0, (0,) * len(shape))
    view.flags.writeable = False
    return view


# The backend --------------------------------------------------------------------------------------


class NumPy(Backend):
    """The backend for NumPy arrays and objects that NumPy can convert."""

    xp: Any = np
    is_host = True

    def asarrays(self, **arguments: Any) -> list[Array]:
        """Convert each argument to an array."""
        return [
            array if type(array) is np.ndarray else as_array(array, k)
            for k, array in arguments.items()
        ]

    to_device = asarrays  # the default would be one more call

    def type_name(self, dtype: DType, name: str = "input") -> str:
        """NumPy's name of a dtype, without its byte order, or "bfloat16"."""
        return type_name(dtype)

    def as_dtype(self, dtype: Any) -> DType | None:
        """Convert a dtype or a name to a dtype; None for an array."""
        return np.dtype(dtype) if isinstance(dtype, (type, np.dtype, str)) else None

    def asarray(self, array: Any, like: Array) -> Array:
        """Convert to an array."""
        return np.asarray(array)

    def type(self, name: str) -> DType:
        """The dtype of a name."""
        return BFLOAT16 if name == "bfloat16" else np.dtype(name)

    def promote(self, *types: DType) -> DType:
        """The dtype of a product; bfloat16 is treated as float32 beside other dtypes."""
        if BFLOAT16 in types or len({*map(type_name, types)}) > 1:
            single = np.dtype(np.float32)
            types = tuple([single if type_name(t) == "bfloat16" else t for t in types])
        return np.result_type(*types)

    def astype(self, array: Array, dtype: DType) -> Array:
        """Convert an array to a dtype, which may be bfloat16, in native byte order."""
        dtype = np.dtype(dtype).newbyteorder("=")
        return array if array.dtype == dtype else converted(array, dtype)

    def permute(self, array: Array, axes: Sequence[int]) -> Array:
        """View an array with its axes in another order."""
        return array.transpose(axes)

    def full(self, shape: Sequence[int], number: float, dtype: DType, like: Array) -> Array:
        """Create a broadcast view of one number."""
        return repeated(number, dtype, tuple(shape))

    def ratio(self, values: Array, count: Array) -> Array:
        """Compute values / count where count is not 0, in place."""
        with np.errstate(all="ignore"):
            return np.divide(values, count, out=values, where=count != 0)

    def line(self, size: Any, align_corners: bool | None, dtype: DType, like: Array) -> Array:
        """Compute the coordinates of pixel centres, or their indices."""
        line: Array = (
            np.arange(size, dtype=dtype)
            if align_corners is None
            else coordinates(size, align_corners, dtype)
        )
        return line

    def empty(self, shape: Sequence[int], dtype: DType, like: Array) -> Array:
        """Allocate an array."""
        return np.empty(shape, dtype)

    def custom_vjp(
        self,
        compute: Callable[[Sequence[Array], bool], Array],
        differentiate: Callable[..., Any],
        arrays: Sequence[Array],
    ) -> Array:
        """Compute a function; NumPy keeps nothing for derivatives."""
        return compute(arrays, True)

    def affine_grid(self, theta: Array, out: Sequence[Any], align_corners: bool | None) -> Array:
        """Create the grid of affine maps."""
        grid: Array = grid_along(self, theta, out, align_corners)
        return grid

    def complex(self, real: Array, imaginary: Array) -> Array:
        """Join real and imaginary parts."""
        joined = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
        joined.real, joined.imag = real, imaginary
        return joined

    def quiet(self) -> Any:
        """A context in which arithmetic does not warn."""
        return np.errstate(all="ignore")

    # Sampling

    def resolve_options(self, image: Array, grid: Array, request: Request) -> Options:
        """Return the checked options, with a plan."""
        known = without_fill(request)
        find = resolve.__wrapped__ if known is None else resolve
        resolved = find(image.shape, image.dtype, grid.shape, grid.dtype, known or request)
        if is_default_fill(request.fill_value):
            return resolved
        used, plan = resolved.may_fill(), resolved.plan
        fill = fill_numbers(request.fill_value, request, used, image.dtype, plan.channels)
        return resolved._replace(fill_value=fill) if fill else resolved

    def layouts(self, *arrays: Any) -> Any:
        """Return the layouts of arrays; None if one of them is not an array."""
        layouts = []
        for array in arrays:
            if type(array) is not np.ndarray:
                return None
            layouts.append((array.shape, array.strides, array.dtype))
        return tuple(layouts)

    def prepare(self, request: Any, layouts: Any, size: Any, filled: bool) -> PreparedCall | None:
        """Prepare a call that is one run of a kernel."""
        if isinstance(request, ResizeRequest):
            return prepare_resizing(request, layouts[0], size)
        image, points = layouts
        return prepare_sampling(request, image, points, size, filled)

    def check_out(self, out: Any, shape: Shape, image: Array, grid: Array) -> None:
        """Raise an error if ``out`` cannot store the result or shares memory with the inputs."""
        check_output(out, shape, image, grid)

    def gather(
        self, image: Array, grid: Array, options: Options, dtype: DType, out: Array | None = None
    ) -> Array:
        """Sample an image; the channels come last in memory if they do in the input."""
        plan = plan_for(image, grid, options, dtype)
        if out is None:
            out = empty(plan.shape, plan.dtype, options.channels_last())
        if out.size:
            fill, order = fill_of_channels(options.fill_value, plan), options.order
            on_cpu().gather(plan, image, grid, out, order=order, fill=fill, threads=options.threads)
        return out

    def gathers(
        self, image: Array, grid: Array, options: Options, orders: Sequence[Shape], dtype: DType
    ) -> Array:
        """Compute derivatives of several orders, each of them once."""
        plan = plan_for(image, grid, options, dtype)
        shape = (*plan.shape, len(orders))
        result = empty(shape, dtype.newbyteorder("="), False)
        if options.channels_last():
            items, channels, *out = plan.shape
            memory = np.empty((items, *out, channels, len(orders)), result.dtype)
            result = memory.transpose(0, -2, *range(1, memory.ndim - 2), -1)
        fill, done = fill_of_channels(options.fill_value, plan), dict[Shape, int]()
        for k, order in enumerate(orders):
            part = result[..., k]
            if order in done:
                part[...] = result[..., done[order]]
            elif part.size:
                on_cpu().gather(
                    plan, image, grid, part, order=order, fill=fill, threads=options.threads
                )
            done.setdefault(order, k)
        return result

    def scatter(
        self, values: Array, grid: Array, spatial: Shape, options: Options, dtype: DType
    ) -> Array:
        """Apply the transpose of gather; channels come last in memory if they do in the input."""
        size = (*values.shape[:2], *spatial)
        plan = plan_of(size, dtype, grid.shape, grid.dtype, options)
        if not values.size:
            return empty(size, plan.dtype, options.channels_last(), np.zeros)
        # The result has the layout of the image, which is not read.
        sums = np.result_type(plan.real, np.complex64 if plan.dtype.kind == "c" else plan.real)
        like = empty(size, sums, options.channels_last(), np.zeros)
        cpu, order = on_cpu(), options.order
        call_arrays = cpu.CallArrays(like, grid, values)
        needs = cpu.NeededGradients(True, False, dtype=plan.dtype)
        gradients = cpu.backward(plan, call_arrays, needs, order=order, threads=options.threads)
        grad_image: Array = gradients.image
        return grad_image

    def backward(
        self, values: Array, image: Array, grid: Array, options: Options, needed: Needed, dtype: Any
    ) -> Gradients:
        """Compute both gradients of gather in one sweep."""
        return self.sweep(values, image, grid, grid, options, needed, dtype)

    def affine(
        self, image: Array, theta: Array, out: Shape, options: Options, dtype: DType
    ) -> Array:
        """Sample an image under affine maps, or projective ones (N, D + 1, D + 1)."""
        plan = plan_for(image, grid_like(theta, out), options, dtype)
        result, threads = empty(plan.shape, plan.dtype, options.channels_last()), options.threads
        if result.size:
            fill = fill_of_channels(options.fill_value, plan)
            on_cpu().gather(plan, image, theta, result, fill=fill, threads=threads)
        return result

    def affine_backward(
        self,
        values: Array,
        image: Array,
        theta: Array,
        out: Shape,
        options: Options,
        needed: Needed,
        dtype: DType,
    ) -> Gradients:
        """Compute both gradients under affine maps in one sweep."""
        return self.sweep(values, image, theta, grid_like(theta, out), options, needed, dtype)

    def sweep(
        self,
        values: Array,
        image: Array,
        points: Array,
        grid: Array,
        options: Options,
        needed: Needed,
        dtype: DType,
    ) -> Gradients:
        """Compute the needed gradients of image and ``points``, which is a grid or affine maps."""
        plan, native = plan_for(image, grid, options, dtype), dtype.newbyteorder("=")
        if not values.size:
            by_image = np.zeros(image.shape, native) if needed[0] else None
            return by_image, in_type_of(points, np.zeros(points.shape)) if needed[1] else None
        cpu, fill = on_cpu(), fill_of_channels(options.fill_value, plan)
        call_arrays = cpu.CallArrays(image, points, values, fill=fill)
        needs, threads = cpu.NeededGradients(*needed, dtype=native), options.threads
        gradients = cpu.backward(plan, call_arrays, needs, order=options.order, threads=threads)
        return gradients.image, in_type_of(points, gradients.grid)

    def lattice(
        self, image: Array, lattice: Array, places: ControlPoints, options: Options, dtype: DType
    ) -> Array | None:
        """Sample an image at the points of a lattice."""
        plan = plan_of_lattice(image, lattice, places, options, dtype)
        if plan is None:
            return None
        result, points = empty(plan.shape, plan.dtype, options.channels_last()), lattice
        if result.size:
            cpu, fill = on_cpu(), fill_of_channels(options.fill_value, plan)
            points = cpu.padded(places, lattice)
            cpu.gather(plan, image, points, result, fill=fill, threads=options.threads)
        return result

    def lattice_backward(
        self,
        values: Array,
        image: Array,
        lattice: Array,
        places: ControlPoints,
        options: Options,
        needed: Needed,
        dtype: DType,
    ) -> Gradients | None:
        """Compute both gradients at the points of a lattice in one sweep."""
        plan = plan_of_lattice(image, lattice, places, options, dtype)
        if plan is None or not values.size:
            return None
        cpu, fill = on_cpu(), fill_of_channels(options.fill_value, plan)
        call_arrays = cpu.CallArrays(image, cpu.padded(places, lattice), values, fill=fill)
        needs = cpu.NeededGradients(*needed, dtype=dtype.newbyteorder("="))
        gradients = cpu.backward(plan, call_arrays, needs, threads=options.threads)
        return gradients.image, in_type_of(lattice, gradients.grid)

    def averages(self, arrays: Sequence[Array], options: Options, detached: bool) -> bool:
        """Whether `average` supports these options."""
        return options.plan is not None and bool(on_cpu().averages(options.plan))

    def average(
        self, arrays: Sequence[Array], options: Options, averaging: Averaging
    ) -> tuple[Array, Array | None, bool]:
        """Gather means over the pixels that count."""
        image, points, *weights = arrays
        plan: Plan = options.plan
        last, invalid_weights = options.channels_last(), False
        result = empty(plan.shape, plan.dtype, last)
        shares = empty(plan.shape, plan.real, last) if averaging.returns_weights else None
        if result.size:
            cpu, weight = on_cpu(), weights[0] if weights else None
            call_arrays = cpu.CallArrays(
                image, points, result, weight, shares, fill_of_channels(options.fill_value, plan)
            )
            invalid_weights = cpu.average(plan, call_arrays, averaging, options.threads)
        return result, shares, invalid_weights

    def average_backward(
        self,
        values: Array,
        arrays: Sequence[Array],
        options: Options,
        averaging: Averaging,
        needed: Needed,
    ) -> tuple[Gradients, bool]:
        """Compute the gradients of means in one sweep."""
        image, points, *weights = arrays
        plan: Plan = options.plan
        cpu, weight = on_cpu(), weights[0] if weights else None
        call_arrays = cpu.CallArrays(
            image, points, values, weight, fill=fill_of_channels(options.fill_value, plan)
        )
        needs = cpu.NeededGradients(*needed, dtype=image.dtype.newbyteorder("="))
        sums = cpu.average_backward(plan, call_arrays, averaging, needs, options.threads)
        return (sums.image, in_type_of(points, sums.grid), sums.weights), sums.invalid_weights

    def scatter_maximum(self, values: Array, index: Array, count: int) -> Array:
        """Return the greatest value at each index."""
        result = np.full((len(values), count), -np.inf, values.dtype)
        np.maximum.at(result, (np.arange(len(values))[:, None], index.astype(np.int64)), values)
        return result

    def fused(self, operator: Operator, arrays: Sequence[Array], options: Any) -> Array:
        """Compute a fused operator by its program, if there is one for the options."""
        if not operator.is_fused(options):
            composed: Array = super().fused(operator, arrays, options)
            return composed
        named = dict(zip(operator.names, arrays, strict=True))
        sizes = operator.sizes([array.shape for array in arrays])
        out = np.empty(operator.shape(sizes, options), arrays[0].dtype.newbyteorder("="))
        of_operators().compute(operator, named, options, out, options.threads)
        return out

    def fused_vjp(
        self,
        operator: Operator,
        upstream: Array,
        arrays: Sequence[Array],
        options: Any,
        needed: Needed,
    ) -> Sequence[Array | None]:
        """Compute the needed gradients of a fused operator by its program, if there is one."""
        if not operator.is_fused(options):
            return super().fused_vjp(operator, upstream, arrays, options, needed)
        named = dict(zip(operator.names, arrays, strict=True))
        gradients: list[Array | None] = of_operators().differentiate(
            operator, upstream, named, options, needed, options.threads
        )
        return gradients

    def look_up(
        self,
        image: Array,
        table: Array,
        on_simplices: bool,
        factors: tuple[Sequence[float], Sequence[float], float],
        threads: int | None,
    ) -> Array | None:
        """Look the pixels of an image up in a table, in one pass."""
        result: Array | None = of_colour_tables().look_up(
            image, table, on_simplices, factors, threads
        )
        return result

    def positions(self, axis: Array, points: Array) -> Array:
        """Return where points are on an axis; few are found without a program."""
        if points.size < max(len(axis), FEW_POINTS):
            few: Array = super().positions(axis, points)
            return few
        result: Array = of_positions().compute(axis, points)
        return result

    def cell_statistics(
        self,
        image: Array,
        corners: Array,
        weights: Array | None,
        statistic: Statistic,
        threads: int | None,
    ) -> Array:
        """Compute a statistic of cells."""
        result: Array = of_cell_statistics().compute(image, corners, weights, statistic, threads)
        return result

    def prefilter(
        self,
        image: Array,
        order: int,
        extended: Sequence[str],
        axes: Sequence[int],
        adjoint: bool,
        threads: int | None,
    ) -> Array:
        """Compute B-spline coefficients, or the transpose."""
        check_image_type(image.dtype)
        real = host.real_type(image.dtype)
        dtype = np.dtype(f"c{2 * real.itemsize}") if image.dtype.kind == "c" else real
        result: Array = np.empty_like(image, dtype, subok=False)
        coefficients(image, order, extended, axes, result, adjoint=adjoint, threads=threads)
        return result

    def resize(self, image: Array, options: Resizing, transposed: bool) -> Array:
        """Resize by one matrix per axis, or by their transposes."""
        dtype = image.dtype.newbyteorder("=")
        shape = (*image.shape[:2], *options.size)
        check_extent("the result", shape, dtype.itemsize)
        result = empty(shape, dtype, options.channel_axis == -1)
        if result.size:
            host.resize(image, result, options, transposed)
        return result


BACKEND = NumPy()


# Outputs ------------------------------------------------------------------------------------------


def check_output(out: Any, shape: Shape, image: Array, grid: Array) -> None:
    """Raise an error if ``out`` cannot store the result or shares memory with the inputs."""
    check_dense(out=out)
    dtype = image.dtype.newbyteorder("=")
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be a NumPy array, got {type(out).__name__}")
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(
            f"out must have shape {shape} and dtype {dtype}, "
            f"got shape {out.shape} and dtype {out.dtype}"
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    for name, array in (("input", image), ("grid", grid)):
        if shares_memory(out, array):
            raise ValueError(
                f"out shares memory with {name}, which would be overwritten while it is read"
            )
    if shares_memory_with_itself(out):
        raise ValueError(
            f"out has entries that share memory: strides {out.strides} for shape {out.shape}"
        )


def shares_memory(a: Array, b: Array) -> bool:
    """Whether two arrays share memory, or it is too expensive to find out."""
    try:
        return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def shares_memory_with_itself(array: Array) -> bool:
    """Whether two entries of an array may share memory, as in a broadcast view."""
    steps = sorted(
        (abs(stride), n) for stride, n in zip(array.strides, array.shape, strict=True) if n > 1
    )
    reach = array.itemsize
    for stride, n in steps:
        if stride < reach:
            return array.size > 0
        reach = stride * (n - 1) + reach
    return False
