"""Programs over sharded arrays: each device computes the results of its own shards.

XLA knows nothing of a call of the handler, and would gather every array on every device.  It is
told which axes of the arguments and of the results belong together: those with the same name.
Names of axes along which a result is summed are not among those of the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from gridsample.backends.jax.taps import Array

Names = tuple[str, ...]


class AxisNames(NamedTuple):
    """The names of the axes of all arrays.

    Attributes:
        arguments: those of each argument.
        results: those of each result.
        replicated: axes that are not sharded.
    """

    arguments: tuple[Names, ...]
    results: tuple[Names, ...]
    replicated: Names = ()

    @property
    def names(self) -> list[str]:
        """All names that can be sharded, those of results first."""
        arrays = (*self.results, *self.arguments)
        all_names = dict.fromkeys(name for names in arrays for name in names)
        return [name for name in all_names if name not in self.replicated]


def partitioned(
    compute: Callable[..., Sequence[Array]], axes: AxisNames, arrays: Sequence[Array]
) -> list[Array]:
    """Call a function of arrays, which returns a list, on the shards of each device.

    compute: the function, which is also called with shards.
    """
    if not has_several_devices():
        return [*compute(*arrays)]

    def compute_shards(*shards: Array) -> tuple[Array, ...]:
        return tuple(compute(*shards))

    def partition(mesh: Any, arguments: Sequence[Any], results: Sequence[Any]) -> Any:
        assigned = mesh_axes(axes, [*results, *arguments])

        def on_device(*shards: Array) -> tuple[Array, ...]:
            return tuple(
                jax.lax.psum(result, summed)
                if (summed := reduced_axes(axes, names, assigned))
                else result
                for result, names in zip(compute(*shards), axes.results, strict=True)
            )

        shardings = [[sharding(mesh, names, assigned) for names in arrays] for arrays in axes[:2]]
        return mesh, on_device, tuple(shardings[1]), tuple(shardings[0])

    def infer(mesh: Any, arguments: Sequence[Any], results: Sequence[Any]) -> Any:
        assigned = mesh_axes(axes._replace(results=()), arguments)
        return tuple(sharding(mesh, names, assigned) for names in axes.results)

    call = custom_partitioning(compute_shards)
    rule = " -> ".join(", ".join(map(" ".join, arrays)) for arrays in axes[:2])
    # XLA expects them in the order in which they occur.
    all_names = dict.fromkeys(name for names in (*axes.arguments, *axes.results) for name in names)
    replicated = tuple(name for name in all_names if name in axes.replicated)
    results = {name for names in axes.results for name in names}
    summed = tuple(name for name in all_names if name not in (*results, *axes.replicated))
    options = {"need_replication_factors": replicated} if replicated else {}
    if summed:
        options["reduction_factors"] = summed
    call.def_partition(
        partition=partition, infer_sharding_from_operands=infer, sharding_rule=rule, **options
    )
    return [*call(*arrays)]


@functools.cache
def has_several_devices() -> bool:
    """Whether there are several CPU devices."""
    try:
        return len(jax.devices("cpu")) > 1
    except RuntimeError:  # JAX is configured without a CPU
        return False


def mesh_axes(axes: AxisNames, arrays: Sequence[Any]) -> dict[str, Any]:
    """The mesh axes along which each axis is sharded: as in the first array that is."""
    assigned: dict[str, Any] = {}
    for names, array in zip((*axes.results, *axes.arguments), arrays, strict=True):
        specification = getattr(array.sharding, "spec", ())
        for name, entry in zip(names, specification, strict=False):
            in_use = {axis for other in assigned.values() for axis in as_axes(other)}
            if (
                entry
                and name not in (*axes.replicated, *assigned)
                and not in_use & {*as_axes(entry)}
            ):
                assigned[name] = entry
    return assigned


def as_axes(entry: Any) -> tuple[Any, ...]:
    """An entry of a PartitionSpec as a tuple."""
    return entry if isinstance(entry, tuple) else (entry,)


def reduced_axes(axes: AxisNames, names: Names, assigned: dict[str, Any]) -> tuple[Any, ...]:
    """The mesh axes over which a result with these names of axes is summed."""
    return tuple(
        axis for name, entry in assigned.items() if name not in names for axis in as_axes(entry)
    )


def sharding(mesh: Any, names: Names, assigned: dict[str, Any]) -> NamedSharding:
    """The sharding of an array whose axes have these names."""
    return NamedSharding(mesh, PartitionSpec(*[assigned.get(name) for name in names]))
