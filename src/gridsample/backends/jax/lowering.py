"""How primitives are lowered: to programs on the CPU, to kernels on a GPU, or to `jax.numpy`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.sharding import NamedSharding, PartitionSpec

from gridsample.backends.jax import gpu, handler, sharding
from gridsample.backends.jax.taps import with_promotion


def lower(
    primitive: Primitive,
    program: Callable[..., Any],
    fallback: Callable[..., Any],
    supports: Callable[..., bool],
    kernel: Callable[..., Any] | None = None,
) -> None:
    """Tell JAX how a primitive is lowered.

    Args:
        primitive: the primitive.
        program: what calls the handler; used on the CPU.
        fallback: the same as operations of `jax.numpy`, which do not depend on this process.  It is
            used elsewhere, in exported programs, where a size is not known, and where nothing is
            compiled.
        supports: whether the program can be used, given the arguments' shapes and the parameters.
        kernel: what calls a kernel on a GPU, if there is one.
    """
    multiple = primitive.multiple_results

    def choose(
        context: Any, fast: Callable[..., Any], supports: Callable[..., bool], parameters: Any
    ) -> Callable[..., Any]:
        avals = *context.avals_in, *context.avals_out
        sizes = [n for aval in avals for n in aval.shape]
        known = all(isinstance(n, int) and n for n in sizes)
        exported = getattr(context.module_context.lowering_parameters, "for_export", False)
        return (
            fast
            if known and not exported and supports(*context.avals_in, **parameters)
            else fallback
        )

    def lower_for_cpu(context: Any, *operands: Any, devices: Any = None, **parameters: Any) -> Any:
        can_call = handler.is_available()
        function = choose(context, program, supports, parameters) if can_call else fallback
        return lower_function(function)(context, *operands, **parameters)

    def lower_for_gpu(context: Any, *operands: Any, devices: Any = None, **parameters: Any) -> Any:
        can_call = gpu.is_available()
        function = (
            choose(context, kernel or fallback, gpu.supports, parameters) if can_call else fallback
        )
        return lower_function(function)(context, *operands, **parameters)

    def lower_function(function: Callable[..., Any]) -> Callable[..., Any]:
        return mlir.lower_fun(with_promotion(function), multiple_results=multiple)

    @with_promotion
    def compute(*arrays: Any, devices: Any = None, **parameters: Any) -> Any:
        return fallback(*arrays, **parameters)

    primitive.def_impl(compute)
    mlir.register_lowering(primitive, mlir.lower_fun(compute, multiple_results=multiple))
    mlir.register_lowering(primitive, lower_for_cpu, platform="cpu")
    if kernel is not None:
        mlir.register_lowering(primitive, lower_for_gpu, platform="cuda")


@functools.cache
def device_dependence() -> Any:
    """Return a program that JAX only lowers for known devices, if there are several; or else None.

    JAX tells a rule the devices only if a primitive that needs them is among those of the program,
    or of a program among the parameters of its primitives.
    """
    if not sharding.has_several_devices():
        return None
    identity = custom_partitioning(lambda numbers: numbers)
    identity.def_partition(partition=lambda *_: None, sharding_rule="i -> i")  # it never runs
    return jax.make_jaxpr(identity)(jax.ShapeDtypeStruct((1,), np.float32))


def bind(primitive: Primitive, *arrays: Any, **parameters: Any) -> Any:
    """Call a primitive."""
    return primitive.bind(*with_common_axes(*arrays), **parameters, devices=device_dependence())


def varying_axes(aval: Any) -> frozenset[str]:
    """The axes of the mesh of a `jax.shard_map` along which an array differs."""
    placement = getattr(aval, "mat", aval)  # before JAX 0.10, the type has the axes itself
    axes: frozenset[str] = getattr(placement, "varying", getattr(placement, "vma", frozenset()))
    return axes


def type_like(aval: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The type of a result: an argument's type with another shape and dtype."""
    shape = aval.shape if shape is None else shape
    dtype = aval.dtype if dtype is None else dtype
    if not varying_axes(aval):
        return jax.core.ShapedArray(shape, dtype)
    sharding = NamedSharding(aval.sharding.mesh, PartitionSpec())
    return aval.update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)


def with_common_axes(*arrays: Any) -> list[Any]:
    """Mark arrays as different along all axes of a mesh along which one of them is.

    Within `jax.shard_map`, a gradient is then summed over the axes along which an array is the
    same.
    """
    if not hasattr(jax.lax, "pcast"):  # before JAX 0.9, `shard_map` does not know of our primitives
        return list(arrays)
    axes = [varying_axes(jax.typeof(array)) for array in arrays]
    union: frozenset[str] = frozenset().union(*axes)
    return [
        jax.lax.pcast(array, tuple(union - along), to="varying") if union - along else array
        for array, along in zip(arrays, axes, strict=True)
    ]
