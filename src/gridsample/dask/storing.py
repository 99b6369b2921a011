"""Computing results that are much larger than memory, in an order that needs little of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.base import DaskMethodsMixin, compute, get_scheduler, optimize, persist, tokenize

from gridsample.chunked.schedules import Schedule, schedule_of
from gridsample.dask.graphs import blocks_of
from gridsample.definitions.shapes import Shape

# The chunks of the result that a step computes for each thread.
CHUNKS_PER_THREAD = 2

Key = Any


def store(
    result: Any,
    target: Any,
    *,
    keep: int = 128,
    skip: Container[Shape] = (),
    progress: Callable[[float], None] = lambda share: None,
) -> Schedule:
    """Compute a dask array into another array, with few of its inputs in memory at a time.

    `dask.array.store` gives all tasks to the scheduler at once, whose order may keep most of an
    image in memory until the end.  This function computes a few chunks at a time, column by column.
    What neighbouring chunks need, such as the chunks of the image, is computed once and kept, as
    long as there are no more than ``keep`` of them; then those that are needed last are dropped,
    and computed again later.

    It works with every scheduler of dask, and on a cluster if there is a client.  The memory of all
    workers together is about

        held x (bytes of a chunk of the image)  +  threads x (memory of a task)

    and up to twice the first term where several processes have copies of chunks.  ``held`` is that
    of the result: ``keep``, and what one step and the next one read.

    Args:
        result: a dask array, such as of `affine_sample`, or of what is computed from it.
        target: an array of the same shape that takes ``target[slices] = values``, such as one of
            Zarr; on a cluster, workers get copies of it, so it must refer to memory that they
            share.
        keep: the maximum number of such inputs that are kept.
        skip: the indices of chunks of the result that the target has already, and which are not
            computed.
        progress: called with the share of the chunks that are written, up to 1.0.

    Returns:
        What was done: ``inputs`` that several chunks need, ``reads`` of them, which is how often
        they were computed, and ``held``, how many were in memory at most.

    Raises:
        TypeError: the result is not a dask array.
        ValueError: shapes differ, or chunks of the target would be written by two tasks.

    Example:
        >>> import dask.array as da, numpy as np, gridsample.dask
        >>> image = da.ones((1, 1, 8, 8), chunks=4)
        >>> turn = np.array([[[0.0, -1.0, 7.0], [1.0, 0.0, 0.0]]])
        >>> result = gridsample.dask.affine_sample(image, turn, (1, 1, 8, 8), coords="pixel")
        >>> target = np.zeros((1, 1, 8, 8))
        >>> schedule = gridsample.dask.store(result, target, keep=4)
        >>> schedule.inputs, schedule.reads, float(target.min())
        (4, 4, 1.0)
    """
    if not isinstance(result, da.Array):
        raise TypeError(f"result must be a dask array, got {type(result).__name__}")
    if type(keep) is not int or keep < 0:
        raise ValueError(f"keep must be a number of inputs, at least 0, got {keep!r}")
    check_target(result, target)
    (array,) = optimize(result)
    graph, needed = dict(array.__dask_graph__()), dependencies(array)
    blocks = {index: block for index, block in blocks_of(array.chunks) if index not in skip}
    inputs = inputs_of(array, needed, blocks)
    schedule = schedule_of(inputs, keep, CHUNKS_PER_THREAD * number_of_threads(array))
    name = f"store-{uuid.uuid4().hex}"  # a cluster computes a name only once
    kept: dict[Key, Any] = {}
    previous, written_chunks = None, 0
    for step in schedule.steps:
        subgraph = {**tasks_below([*step.reads], graph, needed, {}), **kept}
        for index in step.chunks:
            key = (array.name, *index)
            subgraph |= tasks_below([key], graph, needed, subgraph)
            subgraph[name, *index] = (write, target, blocks[index], key)
        written = [(name, *index) for index in step.chunks]
        running = persisted(subgraph, [*written, *step.keeps])
        if previous is not None:
            compute(previous, traverse=False, optimize_graph=False)
            progress(written_chunks / len(blocks))
        kept = {key: running[key] for key in step.keeps}
        previous = Results({key: running[key] for key in written}, written)
        written_chunks += len(written)
        del running
    if previous is not None:
        compute(previous, traverse=False, optimize_graph=False)
    progress(1.0)
    return schedule


def check_target(result: Any, target: Any) -> None:
    """Raise an error unless each chunk of a target is written by a single task."""
    if tuple(target.shape) != result.shape:
        raise ValueError(f"target must have the shape {result.shape}, got {tuple(target.shape)}")
    files = getattr(target, "shards", None) or getattr(target, "chunks", None)
    if not files or not all(isinstance(n, int) for n in files):
        return
    for k, (sizes, n) in enumerate(zip(result.chunks, files, strict=True)):
        if any(end % n for end in np.cumsum(sizes)[:-1]):
            raise ValueError(
                f"chunks of the result must be multiples of the target's, {n} along axis {k}, got "
                f"{sizes}: rechunk the result, or choose its chunks where it is made"
            )


def number_of_threads(array: Any) -> int:
    """Return how many tasks the scheduler runs at a time."""
    scheduler = get_scheduler(collections=[array])
    client = getattr(scheduler, "__self__", None)
    if client is not None and hasattr(client, "nthreads"):
        return max(1, int(sum(client.nthreads().values())))
    threads: int = dask.config.get("num_workers", None) or dask.system.CPU_COUNT
    return threads


def write(target: Any, block: tuple[slice, ...], values: Any) -> None:
    """Store a chunk of a result; what a task runs."""
    target[block] = values


# Graphs -------------------------------------------------------------------------------------------


def dependencies(array: Any) -> Mapping[Key, set[Key]]:
    """Return the keys that each task of an array needs."""
    needed: Mapping[Key, set[Key]] = array.__dask_graph__().get_all_dependencies()
    return needed


def inputs_of(
    array: Any, needed: Mapping[Key, set[Key]], indices: Iterable[Shape]
) -> dict[Shape, frozenset[Key]]:
    """Return the tasks that a chunk of an array needs and others need, too, by its index."""
    users: dict[Key, int] = {}
    for keys in needed.values():
        for key in keys:
            users[key] = users.get(key, 0) + 1

    def shared(key: Key) -> Iterator[Key]:
        for dependency in needed[key]:
            if users[dependency] > 1:
                if isinstance(dependency, tuple):  # others are what all tasks share, which is small
                    yield dependency
            else:
                yield from shared(dependency)

    return {index: frozenset(shared((array.name, *index))) for index in indices}


def tasks_below(
    keys: list[Key], graph: Mapping[Key, Any], needed: Mapping[Key, set[Key]], known: Any
) -> dict[Key, Any]:
    """Return the tasks of some keys, and those that they need, but for known ones."""
    subgraph: dict[Key, Any] = {}
    while keys:
        key = keys.pop()
        if key not in subgraph and key not in known:
            subgraph[key] = graph[key]
            keys += needed[key]
    return subgraph


class Results(DaskMethodsMixin):
    """A collection of the results of some tasks."""

    __dask_scheduler__ = staticmethod(da.Array.__dask_scheduler__)
    __dask_optimize__ = None

    def __init__(self, graph: Mapping[Key, Any], keys: list[Key]) -> None:
        self.graph, self.keys = graph, keys

    def __dask_graph__(self) -> Mapping[Key, Any]:
        return self.graph

    def __dask_keys__(self) -> list[Key]:
        return self.keys

    def __dask_tokenize__(self) -> Any:
        return tokenize(self.keys)

    def __dask_postcompute__(self) -> Any:
        return list, ()

    def __dask_postpersist__(self) -> Any:
        return self.rebuilt, ()

    def rebuilt(self, graph: Mapping[Key, Any], **rename: Any) -> Results:
        """Return the collection with results in place of tasks."""
        return Results(graph, self.keys)


def persisted(graph: Mapping[Key, Any], keys: list[Key]) -> Mapping[Key, Any]:
    """Return the results of some tasks, or futures where a cluster computes them."""
    (computed,) = persist(Results(graph, keys), traverse=False, optimize_graph=False)
    results: Mapping[Key, Any] = computed.__dask_graph__()
    return results
