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
    pointers = {name: getattr(call, name) for name in arrays}
    with function.tasks(counters, call.first, call.last) as task:
        yield task, SimpleNamespace(**pointers, **vars(fields), scratch=scratch)


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

    def ready(
        self,
        threads: int,
        names: Sequence[str] | None = None,
        fixed: Mapping[str, Array] = MappingProxyType({}),
    ) -> Ready:
        """Prepare a run on at most ``threads`` threads.

        Args:
            threads: the most threads.
            names: the names of the arrays whose addresses `Ready.run` takes, in its order; all
                arrays of the program by default.
            fixed: other arrays, which are the same in each run.

        Raises:
            TypeError: the program takes an array that is not among them.
        """
        known = [*(self.program.arrays if names is None else names), *fixed]
        self.check(known)
        worker, settings = (self.program.address, self.program.call), self.settings.address
        scratch, threads = whole_lines(self.scratch), min(threads, self.threads)
        batch, steps = self.batch * threads, []
        for first in range(0, self.tasks, batch):
            last = min(first + batch, self.tasks)
            head = 0, 0, first, last, settings
            steps.append(Step(worker, head, scratch, min(threads, last - first)))
        places = [known.index(name) for name in self.program.arrays]
        # Of a single place, `itemgetter` would return the address without a tuple around it.
        only = [slice(place, place + 1) for place in places] if len(places) == 1 else places
        pick = itemgetter(*only)
        addresses = tuple(addresses_of(fixed.values()))
        return Ready(tuple(steps), pick, addresses, (self.settings, *fixed.values()))

    def run(self, arrays: Mapping[str, Array | None], threads: int) -> None:
        """Run all tasks on arrays, given by name, on at most ``threads`` threads.

        Those that the program does not take are not used.

        Raises:
            TypeError: the program takes an array that is not among them.
        """
        known = [name for name, array in arrays.items() if array is not None]
        self.check(known)
        taken = self.program.arrays
        self.ready(threads).run(*addresses_of([arrays[name] for name in taken]))

    def check(self, known: Sequence[str]) -> None:
        """Require that all arrays of the program are known by name."""
        missing = [name for name in self.program.arrays if name not in known]
        if missing:
            taken, given = ", ".join(self.program.arrays), ", ".join(known)
            raise TypeError(f"the program takes {taken}; got {given}")


class Step(NamedTuple):
    """Some tasks of a launch, after which Python may handle an interrupt.

    Attributes:
        worker: the program, as threads call it.
        head: the first fields of `HEAD`, up to the settings.
        scratch: bytes of scratch memory for each thread, a multiple of a cache's line.
        threads: the number of threads.
    """

    worker: pool.Worker
    head: tuple[int, ...]
    scratch: int
    threads: int


class Ready(NamedTuple):
    """A prepared run, which only needs the addresses of the caller's arrays.

    Attributes:
        steps: what is run, one after the other.
        pick: puts these addresses, and those of fixed arrays after them, in the program's order.
        fixed: the addresses of arrays that are always the same.
        kept: what the steps and these addresses point to.
    """

    steps: tuple[Step, ...]
    pick: Callable[[tuple[int, ...]], tuple[int, ...]]
    fixed: tuple[int, ...]
    kept: tuple[Any, ...]

    @property
    def nbytes(self) -> int:
        """The memory of what is kept."""
        return sum([memory.nbytes for memory in self.kept])

    def run(self, *addresses: int) -> None:
        """Run all steps on arrays at these addresses, with the layouts they were prepared for."""
        taken = self.pick((*addresses, *self.fixed))
        for worker, head, scratch, threads in self.steps:
            memory = lend_scratch(scratch * threads) if scratch else 0
            record = array("q", (*head, memory, scratch, *taken))  # see `HEAD`
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
