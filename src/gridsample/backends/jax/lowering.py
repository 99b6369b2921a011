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
    plain: Callable[..., Any],
    serves: Callable[..., bool],
    kernel: Callable[..., Any] | None = None,
) -> None:
    """Tell JAX how a primitive is lowered.

    Args:
        primitive: the primitive.
        program: what calls the handler; used on the CPU.
        plain: the same as operations of `jax.numpy`, which do not depend on this process.  It is
            used elsewhere, in exported programs, where a size is not known, and where nothing is
            compiled.
        serves: whether the program can be used, given the arguments' shapes and the parameters.
        kernel: what calls a kernel on a GPU, if there is one.
    """
    multiple = primitive.multiple_results

    def chosen(context: Any, fast: Callable[..., Any], serves: Callable[..., bool],
               parameters: Any) -> Callable[..., Any]:  # fmt: skip
        avals = *context.avals_in, *context.avals_out
        sizes = [n for aval in avals for n in aval.shape]
        known = all(isinstance(n, int) and n for n in sizes)
        exported = getattr(context.module_context.lowering_parameters, "for_export", False)
        return fast if known and not exported and serves(*context.avals_in, **parameters) else plain

    def lower_for_cpu(context: Any, *operands: Any, devices: Any = None, **parameters: Any) -> Any:
        can_call = handler.is_available()
        function = chosen(context, program, serves, parameters) if can_call else plain
        return lowered(function)(context, *operands, **parameters)

    def lower_for_gpu(context: Any, *operands: Any, devices: Any = None, **parameters: Any) -> Any:
        can_call = gpu.is_available()
        function = chosen(context, kernel or plain, gpu.serves, parameters) if can_call else plain
        return lowered(function)(context, *operands, **parameters)

    def lowered(function: Callable[..., Any]) -> Callable[..., Any]:
        return mlir.lower_fun(with_promotion(function), multiple_results=multiple)

    @with_promotion
    def compute(*arrays: Any, devices: Any = None, **parameters: Any) -> Any:
        return plain(*arrays, **parameters)

    primitive.def_impl(compute)
    mlir.register_lowering(primitive, mlir.lower_fun(compute, multiple_results=multiple))
    mlir.register_lowering(primitive, lower_for_cpu, platform="cpu")
    if kernel is not None:
        mlir.register_lowering(primitive, lower_for_gpu, platform="cuda")


@functools.cache
def asks_for_devices() -> Any:
    """A program that JAX may only lower for known devices, if there are several, or else None.

    JAX tells a rule the devices only if a primitive that needs them is among those of the program,
    or of a program among the parameters of its primitives.
    """
    if not sharding.has_several_devices():
        return None
    identity = custom_partitioning(lambda numbers: numbers)
    identity.def_partition(partition=lambda *_: None, sharding_rule="i -> i")  # which never runs
    return jax.make_jaxpr(identity)(jax.ShapeDtypeStruct((1,), np.float32))


def bind(primitive: Primitive, *arrays: Any, **parameters: Any) -> Any:
    """Call a primitive."""
    return primitive.bind(*alike(*arrays), **parameters, devices=asks_for_devices())


def varying(aval: Any) -> frozenset[str]:
    """The axes of the mesh of a `jax.shard_map` along which an array differs."""
    kinds = getattr(aval, "mat", aval)  # since JAX 0.10; before, the array's type has them itself
    axes: frozenset[str] = getattr(kinds, "varying", getattr(kinds, "vma", frozenset()))
    return axes


def like(aval: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The type of a result: an argument's type with another shape and dtype."""
    shape = aval.shape if shape is None else shape
    dtype = aval.dtype if dtype is None else dtype
    if not varying(aval):
        return jax.core.ShapedArray(shape, dtype)
    placed = NamedSharding(aval.sharding.mesh, PartitionSpec())
    return aval.update(shape=shape, dtype=dtype, weak_type=False, sharding=placed)


def alike(*arrays: Any) -> list[Any]:
    """Mark arrays as different along all axes of a mesh along which one of them is.

    Within `jax.shard_map`, a gradient is then summed over the axes along which an array is the
    same.
    """
    if not hasattr(jax.lax, "pcast"):  # before JAX 0.9, `shard_map` does not know of our primitives
        return list(arrays)
    axes = [varying(jax.typeof(array)) for array in arrays]
    union: frozenset[str] = frozenset().union(*axes)
    return [
        jax.lax.pcast(array, tuple(union - own), to="varying") if union - own else array
        for array, own in zip(arrays, axes, strict=True)
    ]
