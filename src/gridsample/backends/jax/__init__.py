"""JAX arrays: every operation on every device, under every transform of JAX.

Sampling, the prefilter and resizing are primitives of JAX (`primitives`, `batching`, `filtering`,
`resizing`).  On the CPU, XLA runs the programs of `gridsample.kernels` for them: `handler` is the
machine code that it calls, `launches` the prepared calls, `programs`, `footprint_programs` and
`resizing_programs` prepare them, `sharding` says what each device computes.  Elsewhere, they are
operations of `jax.numpy` (`fallback`, from the taps in `taps`; `footprints`, `labels`).  Each call
is compiled once for each shape, dtype and choice of options.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gridsample.backends.base import Backend, Gradients, Needed
from gridsample.backends.jax.taps import TracedCall, with_promotion
from gridsample.backends.maps import grid_along
from gridsample.definitions.checks import check_dense, check_extent
from gridsample.definitions.coords import coordinates
from gridsample.definitions.dtypes import NARROW_TYPES, WIDE_TYPES, check_image_type
from gridsample.definitions.operators import Operator
from gridsample.definitions.options import Options, Resizing, checked, fill_numbers, plan_of
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import Shape
from gridsample.kernels import forks

Array = Any
DType = np.dtype[Any]


@functools.cache
def operations() -> Any:
    """Return the modules that compute, which are imported on first use."""
    with forks.held():
        from gridsample.backends.jax import filtering, fused, resizing, sampling

    modules = {"filtering": filtering, "fused": fused, "resizing": resizing, "sampling": sampling}
    return SimpleNamespace(**modules)


class Jax(Backend):
    """The backend for JAX arrays."""

    xp: Any = jnp
    is_host = False

    # Arrays and types

    def asarrays(self, **arguments: Any) -> list[Array]:
        """Convert each argument to a JAX array; NumPy arrays and numbers are accepted."""
        return [as_jax(argument, name) for name, argument in arguments.items()]

    to_device = asarrays

    def type_name(self, dtype: Any, name: str = "input") -> str:
        """NumPy's name of a dtype, or "bfloat16"."""
        dtype_name = str(dtype)
        if dtype_name not in WIDE_TYPES and dtype_name not in NARROW_TYPES:
            accepted = ", ".join(NARROW_TYPES + WIDE_TYPES)
            raise TypeError(f"{name} has dtype {dtype_name}; accepted: {accepted}")
        return dtype_name

    def as_dtype(self, dtype: Any) -> DType | None:
        """Convert a dtype or a name to a dtype; None for an array."""
        if isinstance(dtype, str):
            return self.type(dtype)
        scalar = isinstance(dtype, type) or isinstance(getattr(dtype, "dtype", None), np.dtype)
        if isinstance(dtype, np.dtype) or (scalar and not hasattr(dtype, "shape")):
            return jax.dtypes.canonicalize_dtype(dtype)
        return None

    def asarray(self, array: Any, like: Array) -> Array:
        """Convert to a JAX array."""
        return jnp.asarray(array)

    def type(self, name: str) -> DType:
        """The dtype of a name, with 32 bits where JAX is configured without 64."""
        dtype: DType = jax.dtypes.canonicalize_dtype(jnp.dtype(name))
        return dtype

    def promote(self, *types: Any) -> DType:
        """The dtype of a product."""
        promoted: DType = with_promotion(functools.reduce)(jnp.promote_types, types)
        return promoted

    def astype(self, array: Array, dtype: Any) -> Array:
        """Convert an array to another dtype."""
        return array if array.dtype == dtype else array.astype(dtype)

    def permute(self, array: Array, axes: Sequence[int]) -> Array:
        """Return an array with its axes in another order."""
        return array.transpose(axes)

    def full(self, shape: Sequence[int], number: float, dtype: Any, like: Array) -> Array:
        """Create an array of one number."""
        return jnp.full(tuple(shape), number, dtype)

    def empty(self, shape: Sequence[int], dtype: Any, like: Array) -> Array:
        """Create an array of zeros."""
        return jnp.zeros(tuple(shape), dtype)

    def inspects(self, array: Array) -> bool:
        """Whether an array is on a CPU, and nothing is traced."""
        return is_known(array)

    def complex(self, real: Array, imaginary: Array) -> Array:
        """Join real and imaginary parts."""
        return jax.lax.complex(real, imaginary)

    def line(self, size: Any, align_corners: bool | None, dtype: Any, like: Array) -> Array:
        """Compute the coordinates of pixel centres, or their indices."""
        if align_corners is None:
            return jnp.arange(size, dtype=dtype)
        return jnp.asarray(coordinates(size, align_corners).astype(dtype))

    def affine_grid(self, theta: Array, out: Sequence[Any], align_corners: bool | None) -> Array:
        """Create the grid of affine maps."""
        return grid_along(self, theta, out, align_corners)

    def custom_vjp(
        self,
        compute: Callable[[Sequence[Array], bool], Array],
        differentiate: Callable[..., Any],
        arrays: Sequence[Array],
    ) -> Array:
        """Compute a function, and again for its derivatives."""
        return jax.checkpoint(lambda *arrays: compute(arrays, False))(*arrays)

    def checkpoint(self, function: Callable[..., Array], arrays: Sequence[Array]) -> Array:
        """Compute a function, and again for its derivatives."""
        return jax.checkpoint(function)(*arrays)

    # Sampling

    def resolve_options(self, image: Array, grid: Array, request: Request) -> Options:
        """Return the checked options, with the fill value."""
        shape = self.shape(image)
        check_sizes("input", shape, image.dtype)
        resolved = checked(request, shape, grid.shape)
        self.type_name(image.dtype)
        self.type_name(grid.dtype, "grid")
        last = resolved.channels_last()
        plan = plan_of(shape, image.dtype, grid.shape, grid.dtype, resolved, last)
        used = resolved.may_fill()
        fill = fill_numbers(request.fill_value, request, used, image.dtype, plan.channels)
        return resolved.changed(fill_value=fill)

    def gather(
        self, image: Array, grid: Array, options: Options, dtype: Any, out: Array | None = None
    ) -> Array:
        """Sample an image."""
        call = call_of(image.shape, grid, options, dtype)
        return operations().sampling.gather(image, grid, call, np.dtype(dtype))

    def scatter(
        self, values: Array, grid: Array, spatial: Shape, options: Options, dtype: Any
    ) -> Array:
        """Apply the transpose of gather."""
        size = (*self.shape(values)[:2], *spatial)
        check_sizes("the result", size, np.dtype(dtype))
        call = call_of(size, grid, options.linear(), dtype)
        return operations().sampling.scatter(values, grid, call, np.dtype(dtype))

    def backward(
        self, values: Array, image: Array, grid: Array, options: Options, needed: Needed, dtype: Any
    ) -> Gradients:
        """Compute both gradients of gather."""
        call = call_of(image.shape, grid, options, dtype)
        first, second = operations().sampling.backward(
            values, image, grid, call, (needed[0], needed[1]), np.dtype(dtype)
        )
        return first, second

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
        self.type_name(image.dtype)
        check_image_type(image.dtype)
        real = operations().resizing.sum_type(image.dtype)
        is_complex = jnp.issubdtype(image.dtype, jnp.complexfloating)
        dtype = np.result_type(real, np.complex64) if is_complex else real
        return operations().filtering.coefficients(
            image.astype(dtype), order, tuple(extended), tuple(axes), adjoint
        )

    def resize(self, image: Array, options: Resizing, transposed: bool) -> Array:
        """Resize by one matrix per axis, or by their transposes."""
        self.type_name(image.dtype)
        check_sizes("input", image.shape, image.dtype)
        check_sizes("the result", (*image.shape[:2], *options.size), image.dtype)
        return operations().resizing.resize(image, options._replace(threads=None), transposed)

    def detached(self, array: Array) -> Array:
        """Return an array without derivatives."""
        constant: Array = jax.lax.stop_gradient(array)
        return constant

    def scatter_maximum(self, values: Array, index: Array, count: int) -> Array:
        """Return the greatest value at each index."""
        lowest = jnp.full((values.shape[0], count), -jnp.inf, values.dtype)
        items = jnp.arange(values.shape[0])[:, None]
        greatest: Array = lowest.at[items, index.astype(int)].max(values)
        return greatest

    def fused(self, operator: Operator, arrays: Sequence[Array], options: Any) -> Array:
        """Compute a fused operator."""
        options = options._replace(threads=None)
        if not operator.is_fused(options):
            return operator.composed(self, arrays, options)
        return operations().fused.compute(operator, self, options, *arrays)

    def fused_vjp(
        self,
        operator: Operator,
        upstream: Array,
        arrays: Sequence[Array],
        options: Any,
        needed: Needed,
    ) -> Sequence[Array | None]:
        """Compute the needed gradients of a fused operator."""
        options = options._replace(threads=None)
        if not operator.is_fused(options):
            return operator.composed_vjp(self, upstream, arrays, options, needed)
        results = iter(
            operations().fused.differentiate(
                operator, self, options, tuple(needed), upstream, *arrays
            )
        )
        return [next(results) if need else None for need in needed]


BACKEND = Jax()


def call_of(image: Shape, grid: Array, options: Options, dtype: Any) -> TracedCall:
    """Describe a call for an image (N, C, *spatial) that is sampled in a dtype."""
    plan = plan_of(image, np.dtype(dtype), grid.shape, grid.dtype, options)
    # XLA would copy a single channel that has to come last.
    last = options.channels_last() and plan.channels > 1
    return TracedCall(plan, tuple(options.order), tuple(options.fill_value), last=last)


# Arrays -------------------------------------------------------------------------------------------


def as_jax(argument: Any, name: str) -> Array:
    """Convert an argument to a JAX array.

    Raises:
        TypeError: it is neither an array of JAX or NumPy nor a number.
    """
    if isinstance(argument, jax.Array):
        return argument
    check_dense(**{name: argument})
    if isinstance(argument, (np.ndarray, np.generic, bool, int, float, complex)):
        return jnp.asarray(argument)
    cls = type(argument)
    raise TypeError(
        f"{name} is a {cls.__module__}.{cls.__qualname__}, and other arguments are JAX arrays; "
        f"accepted: arrays of JAX and NumPy; convert it: {name} = jax.numpy.asarray({name})"
    )


def check_sizes(name: str, shape: Sequence[Any], dtype: DType) -> None:
    """Raise an error if an array (N, C, *spatial) is too large, or has a spatial axis of any size.

    Raises:
        TypeError: a spatial axis is symbolic, as `jax.export` allows it for the others.
    """
    if not all(isinstance(n, int) for n in shape[2:]):
        raise TypeError(
            f"{name} must have spatial axes of known sizes, got shape {tuple(shape)}; the number "
            "of items and those of output points may be symbolic"
        )
    if all(isinstance(n, int) for n in shape):
        check_extent(name, shape, dtype.itemsize)


def is_known(array: Array) -> bool:
    """Whether the values of an array can be inspected: it is on a CPU, and nothing is traced."""
    # Within jit, what is computed from constants is traced, too.
    computed = jax.lax.neg(np.float32(0))
    if isinstance(array, jax.core.Tracer) or isinstance(computed, jax.core.Tracer):
        return False
    return all(device.platform == "cpu" for device in array.devices())
