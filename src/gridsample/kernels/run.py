"""Run programs: tasks, threads, and the memory that each thread works in.

A program (`gridsample.kernels.vector`) takes the address of one record, which `Launch.run` makes
for each call:

    a head       which tasks to run, how many are taken, where the other parts are
    the arrays   the addresses of the caller's arrays
    settings     everything else that the program wants to know, prepared once

Every thread of a call runs the same program on the same record.  `entry` writes the beginning of
such a program: it reads the record and takes one task after the other, until none is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import sys
import threading
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from gridsample.kernels import threads as pool
from gridsample.kernels.caches import CACHES, whole_lines
from gridsample.kernels.memory import address_of, addresses_of
from gridsample.kernels.vector import Function, Pointer, Program, Record, StoredRecord, Value

Array = np.ndarray[Any, Any]

HEAD = {
    "taken": "int64",  # the number of tasks that threads have taken
    "working": "int64",  # the number of threads that have begun
    "first": "int64",  # the first task
    "last": "int64",  # the end of the tasks
    "settings": "*int64",
    "scratch": "*uint8",  # memory for all threads
    "scratch_bytes": "int64",  # the part of each thread
}
# The usual number of tasks in a `Launch.batch`.
BATCH = 16


@contextlib.contextmanager
def entry(
    function: Function, arrays: Mapping[str, str], settings: Record
) -> Iterator[tuple[Value, SimpleNamespace]]:
    """Write the beginning of a program, and its loop over tasks around the body.

    Args:
        function: the function to write.
        arrays: the element type of each array, by name, as `Launch.run` takes them.
        settings: the layout of the settings.

    Yields:
        The task's number, an int64; and a namespace with a `Pointer` for each array, the fields of
        the settings, and ``scratch``, the thread's own memory.
    """
    function.arrays = tuple(arrays)
    head = Record(**HEAD, **{name: f"*{kind}" for name, kind in arrays.items()})
    call = function.arguments(head)
    fields = settings.read(call.settings)
    counters = Pointer(function.argument, "int64")  # the fields `taken` and `working`
    thread = counters.at(1).fetch_add(1)
    scratch = call.scratch.at(thread * call.scratch_bytes)
    vars(fields).update({name: getattr(call, name) for name in arrays}, scratch=scratch)
    with function.tasks(counters, call.first, call.last) as task:
        yield task, fields


class Launch(NamedTuple):
    """A program and everything that it needs besides the caller's arrays.

    Attributes:
        program: the machine code.
        settings: the record of settings, and the arrays to which they point.
        tasks: the number of tasks.
        scratch: bytes of scratch memory for each thread.
        threads: the most threads that pay off; starting one takes as long as a small call.
        batch: the number of tasks per thread after which Python may handle an interrupt.
    """

    program: Program
    settings: StoredRecord
    tasks: int
    scratch: int = 0
    threads: int = sys.maxsize
    batch: int = BATCH

    def run(self, arrays: Mapping[str, Array | None], threads: int) -> None:
        """Run all tasks on arrays: see `Steps.run`."""
        Steps((Step(self),)).run(arrays, threads)

    def batches(self, threads: int) -> Iterator[tuple[tuple[int, ...], int]]:
        """Divide the tasks; yield the first fields of `HEAD` and the number of threads of each."""
        threads = min(threads, self.threads)
        for first in range(0, self.tasks, self.batch * threads):
            last = min(first + self.batch * threads, self.tasks)
            yield (0, 0, first, last, self.settings.address), min(threads, last - first)

    def check(self, known: Sequence[str]) -> None:
        """Require that all arrays of the program are known by name."""
        missing = [name for name in self.program.arrays if name not in known]
        if missing:
            taken, given = ", ".join(self.program.arrays), ", ".join(known)
            raise TypeError(f"the program takes {taken}; got {given}")


# Launches one after the other ---------------------------------------------------------------------


class Place(NamedTuple):
    """Where an array of a program begins.

    Attributes:
        array: the name of the caller's array, or of memory between steps.
        offset: how many bytes after the beginning of that.
    """

    array: str
    offset: int = 0


class Step(NamedTuple):
    """A launch, and where its arrays are.

    Attributes:
        launch: the launch.
        places: the places of its arrays, by name; others are the caller's arrays of the same names.
        cleared: memory between steps that is set to 0 before: the bytes, by name.
    """

    launch: Launch
    places: Mapping[str, Place] = MappingProxyType({})
    cleared: Mapping[str, int] = MappingProxyType({})

    def place_of(self, array: str) -> Place:
        """Return the place of an array of the program."""
        return self.places.get(array) or Place(array)


class Steps(NamedTuple):
    """A call: launches that run one after the other.

    Attributes:
        steps: the launches.
        between: the bytes of memory that is only needed between steps, by name.
    """

    steps: tuple[Step, ...]
    between: Mapping[str, int] = MappingProxyType({})

    @property
    def tasks(self) -> int:
        """The most tasks of a launch."""
        return max(step.launch.tasks for step in self.steps)

    def ready(
        self,
        threads: int,
        names: Sequence[str],
        fixed: Mapping[str, Array] = MappingProxyType({}),
    ) -> Ready:
        """Prepare a run on at most ``threads`` threads.

        Args:
            threads: the most threads.
            names: the names of the arrays whose addresses `Ready.run` takes, in its order.
            fixed: other arrays, which are the same in each run.

        Raises:
            TypeError: a program takes an array that is not among them.
        """
        known, parts, batches = [*names, *fixed, *self.between], dict[Place, int](), []
        for step in self.steps:
            launch, scratch = step.launch, whole_lines(step.launch.scratch)
            places = {name: step.place_of(name) for name in launch.program.arrays}
            launch.check([name for name, place in places.items() if place.array in known])
            for place in places.values():
                if place.offset:
                    parts.setdefault(place, len(known) + len(parts))
            numbers = [
                parts[place] if place.offset else known.index(place.array)
                for place in places.values()
            ]
            # Of a single place, `itemgetter` would return the address without a tuple around it.
            only = [slice(n, n + 1) for n in numbers] if len(numbers) == 1 else numbers
            pick, worker = itemgetter(*only), (launch.program.address, launch.program.call)
            cleared = tuple([(known.index(name), n) for name, n in step.cleared.items()])
            for head, count in launch.batches(threads):
                batches.append(Batch(worker, head, scratch, count, pick, cleared))
                cleared = ()
        between = tuple(itertools.accumulate(map(whole_lines, self.between.values()), initial=0))
        return Ready(
            tuple(batches),
            tuple(addresses_of(fixed.values())),
            between if self.between else (),
            tuple((known.index(place.array), place.offset) for place in parts),
            (*[step.launch.settings for step in self.steps], *fixed.values()),
        )

    def run(self, arrays: Mapping[str, Array | None], threads: int) -> None:
        """Run all tasks on arrays, given by name, on at most ``threads`` threads.

        Those that no program takes are not used.

        Raises:
            TypeError: a program takes an array that is not among them.
        """
        known = {name: array for name, array in arrays.items() if array is not None}
        self.ready(threads, [*known]).run(*addresses_of(known.values()))


class Batch(NamedTuple):
    """Some tasks of a launch, after which Python may handle an interrupt.

    Attributes:
        worker: the program, as threads call it.
        head: the first fields of `HEAD`, up to the settings.
        scratch: bytes of scratch memory for each thread, a multiple of a cache's line.
        threads: the number of threads.
        pick: chooses the addresses that the program takes, in its order.
        cleared: what is set to 0 before: the number of an address, and the bytes.
    """

    worker: pool.Worker
    head: tuple[int, ...]
    scratch: int
    threads: int
    pick: Callable[[tuple[int, ...]], tuple[int, ...]]
    cleared: tuple[tuple[int, int], ...]


class Ready(NamedTuple):
    """A prepared run, which only needs the addresses of the caller's arrays.

    Attributes:
        batches: what is run, one after the other.
        fixed: the addresses of arrays that are always the same.
        between: where each part of the memory between steps begins, and its end; or empty.
        parts: addresses some bytes after others, as pairs of their number and the bytes.
        kept: what the batches and these addresses point to.
    """

    batches: tuple[Batch, ...]
    fixed: tuple[int, ...]
    between: tuple[int, ...]
    parts: tuple[tuple[int, int], ...]
    kept: tuple[Any, ...]

    @property
    def nbytes(self) -> int:
        """The memory of what is kept."""
        return sum([memory.nbytes for memory in self.kept])

    def run(self, *addresses: int) -> None:
        """Run all batches on arrays at these addresses, with the layouts they are prepared for."""
        known = (*addresses, *self.fixed)
        if self.between:
            # A single block: of several, the C library would return most to the system after each
            # call, and to get them back takes longer than many a call.
            block = np.empty(self.between[-1] + CACHES.line, np.uint8)
            first = whole_lines(address_of(block))
            known = (*known, *[first + offset for offset in self.between[:-1]])
        if self.parts:
            known = (*known, *[known[number] + offset for number, offset in self.parts])
        for worker, head, scratch, threads, pick, cleared in self.batches:
            for number, size in cleared:
                ctypes.memset(known[number], 0, size)
            memory = lend_scratch(scratch * threads) if scratch else 0
            record = array("q", (*head, memory, scratch, *pick(known)))  # see `HEAD`
            if threads == 1:
                worker[1](record.buffer_info()[0])
            else:
                pool.work(worker, record.buffer_info()[0], threads)


_lent = threading.local()
# The maximum number of bytes that a thread keeps for its next call.
KEPT = 1 << 20


def lend_scratch(size: int) -> int:
    """Return the address of scratch memory that only this thread uses, until its next call."""
    if getattr(_lent, "size", 0) > max(size, KEPT):
        _lent.size = 0
    address: int = getattr(_lent, "address", 0)
    if getattr(_lent, "size", 0) < size:
        _lent.size = 0  # if this is interrupted
        _lent.memory = memory = np.empty(size + CACHES.line, np.uint8)
        _lent.size, _lent.address = size, whole_lines(address_of(memory))
        address = _lent.address
    return address
