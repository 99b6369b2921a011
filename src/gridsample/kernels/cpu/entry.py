"""How machine code is called: a driver's arguments are one row of integers in memory.

A row has a head, followed by an integer for each argument: a number, or the address of an array.
Rows are made once for a plan and layouts of arrays; a call only provides the addresses of its
arrays.  The call's threads, which need not be Python threads, take rows from a list, copy them,
fill in these addresses, and call the driver.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from gridsample.kernels import threads as pool
from gridsample.kernels.compile.extending import peek
from gridsample.kernels.compile.records import check, flat_parameters, flat_values
from gridsample.kernels.cpu.records import MEMORIES

Array = np.ndarray[Any, Any]
Ranges = Sequence[tuple[int, ...]]
I64 = ir.IntType(64)
LINE = 64  # bytes in a line of the processor's cache

# A row's head: the address of the driver's machine code; the number of integers in the row; which
# of them are the addresses of the scratch memory for indices and for reals; the distance in bytes
# from the former to the latter.  The addresses of the caller's arrays come next.
CODE, SIZE, INDICES, REALS, APART = range(5)
HEAD = 5
# The arguments of `work`: the number of tasks taken and that of working threads, which the threads
# count; the number of tasks, and the address of the list of their first and last rows; the address
# of the list of the rows' addresses; scratch memory, its bytes per thread, and the bytes that a row
# is copied to; the number of the caller's arrays, whose addresses come last.
TAKEN, THREADS, TASKS, ENDS, ROWS, SCRATCH, EACH, ROOM, ARRAYS = range(9)
ORDERS = 9
# The number of ranges of a task after which Python may check for an interrupt.
TURN = 16


def memories(function: Callable[..., None]) -> dict[str, str]:
    """Return the arrays that each call passes to a driver, in row order: name to flat argument."""
    flat = [name for name, kind in flat_parameters(function).items() if kind == "Memory"]
    named = {name.removeprefix("job_"): name for name in flat}
    return {name: named[name] for name in MEMORIES if name in named}


def places_of(function: Callable[..., None]) -> dict[str, int]:
    """Return the index of each of a driver's arguments in a row, in the order of its signature."""
    first, names = [*memories(function).values()], [*flat_parameters(function)]
    order = first + [name for name in names if name not in first]
    return {name: HEAD + order.index(name) for name in names}


class Part(NamedTuple):
    """One driver's part in a batch.

    Attributes:
        driver: the driver to call; see `gridsample.kernels.cpu.build`.
        given: its arguments by name, except its task: records without the caller's memory.
        scratch: bytes of scratch memory, for indices and for reals.
        tasks: the ranges of each task, as in the driver's task record.
    """

    driver: Any
    given: Mapping[str, Any]
    scratch: tuple[int, int]
    tasks: Sequence[Ranges]

    def rows(self) -> Array:
        """Make the rows of all its calls, task after task.

        Raises:
            TypeError: the driver's signature has other arguments.
        """
        places, function = self.driver.places, self.driver.function
        check(function, self.given, frozenset({"task"}))
        rows = np.zeros((sum(map(len, self.tasks)), HEAD + len(places)), np.int64)
        rows[:, CODE], rows[:, SIZE] = self.driver.code, rows.shape[1]
        rows[:, APART] = self.scratch[0]
        rows[:, INDICES], rows[:, REALS] = places["block_indices"], places["block_reals"]
        for name, value in flat_values(**self.given).items():
            if value is not None:
                fixed = value.ctypes.data if isinstance(value, np.ndarray) else value
                rows[:, places[name]] = fixed
        columns = [place for name, place in places.items() if name.startswith("task_")]
        rows[:, columns] = [one for task in self.tasks for one in task]
        return rows


class Batch:
    """All calls of drivers that implement one call of a kernel, ready to be run."""

    def __init__(self, parts: Sequence[Part], arrays: Sequence[str]) -> None:
        """Prepare everything but the addresses of the caller's ``arrays``; compile the drivers.

        Raises:
            TypeError: a driver takes other arrays, or in another order.
        """
        for part in parts:
            function = part.driver.function
            if [*memories(function)] != [*arrays]:
                raise TypeError(f"{function.__name__} takes {[*memories(function)]}, not {arrays}")
        self.parts = parts  # keeps alive what their arguments point to
        self.rows = [part.rows() for part in parts]
        self.list = np.concatenate(
            [one.ctypes.data + np.arange(len(one)) * one.strides[0] for one in self.rows]
        )
        self.ends = [*take_turns([len(task) for part in parts for task in part.tasks])]
        self.turns = [(len(one), one.ctypes.data) for one in self.ends]
        self.places = self.list.ctypes.data
        self.room = -(-max(one.strides[0] for one in self.rows) // LINE) * LINE
        self.each = self.room + max(sum(part.scratch) for part in parts)
        self.kind = ctypes.c_int64 * (ORDERS + len(arrays))
        self.arrays = len(arrays)

    def run(self, arrays: Sequence[int], threads: int, worker: pool.Worker) -> None:
        """Run the calls on arrays at these addresses, on at most ``threads`` threads."""
        for tasks, ends in self.turns:
            count = min(threads, tasks)
            orders = self.kind(
                0, 0, tasks, ends, self.places, lend_scratch(self.each * count), self.each,
                self.room, self.arrays, *arrays,
            )  # fmt: skip
            pool.work(worker, ctypes.addressof(orders), count)


def take_turns(lengths: Sequence[int]) -> Iterable[Array]:
    """Yield the first and last rows of tasks, for a few rows of each task at a time.

    The rows of a task are processed in order.  Tasks of one row are processed a few at a time.
    """
    ends = np.cumsum([0, *lengths])
    if max(lengths) == 1:
        rows = np.stack((ends[:-1], ends[1:]), 1)
        some = TURN * pool.cores()
        yield from (np.ascontiguousarray(rows[k : k + some]) for k in range(0, len(rows), some))
        return
    for first in range(0, max(lengths), TURN):
        begin = np.minimum(ends[:-1] + first, ends[1:])
        end = np.minimum(begin + TURN, ends[1:])
        yield np.ascontiguousarray(np.stack((begin, end), 1)[begin < end])


_lent = threading.local()
# The maximum number of bytes that a thread keeps for its next call.
KEPT = 1 << 20


def lend_scratch(size: int) -> int:
    """Return the address of scratch memory that only this thread uses, until its next call."""
    if getattr(_lent, "size", 0) > max(size, KEPT):
        _lent.size = 0
    address: int = getattr(_lent, "address", 0)
    if getattr(_lent, "size", 0) < size:
        _lent.memory = memory = np.empty(size + LINE, np.uint8)
        _lent.size, _lent.address = size, -(-memory.ctypes.data // LINE) * LINE
        address = _lent.address
    return address


@intrinsic
def _take(context: Any, address: Any) -> Any:
    """Atomically add one to a counter that threads share; return its previous value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        counter = builder.inttoptr(arguments[0], I64.as_pointer())
        return builder.atomic_rmw("add", counter, I64(1), "seq_cst")

    return nb.types.int64(nb.types.int64), generate


@intrinsic
def _poke(context: Any, address: Any, place: Any, value: Any) -> Any:
    """Store an integer in memory."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = builder.inttoptr(arguments[0], I64.as_pointer())
        builder.store(arguments[2], builder.gep(memory, [arguments[1]]))
        return context.get_dummy_value()

    return nb.types.void(nb.types.int64, nb.types.int64, nb.types.int64), generate


@intrinsic
def _enter(context: Any, code: Any, row: Any) -> Any:
    """Call machine code that takes the address of a row."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [I64])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [arguments[1]])
        return context.get_dummy_value()

    return nb.types.void(nb.types.int64, nb.types.int64), generate


# These are called without the context, which their types do not express.
take: Any = _take
poke: Any = _poke
enter: Any = _enter


def work(orders: int) -> None:
    """Process tasks until none is left; each thread of a call runs this, with its own memory."""
    row = peek(orders, SCRATCH) + take(orders + 8 * THREADS) * peek(orders, EACH)
    scratch = row + peek(orders, ROOM)
    ends, rows = peek(orders, ENDS), peek(orders, ROWS)
    task = take(orders + 8 * TAKEN)
    while task < peek(orders, TASKS):
        for k in range(peek(ends, 2 * task), peek(ends, 2 * task + 1)):
            given = peek(rows, k)
            for i in range(peek(given, SIZE)):
                poke(row, i, peek(given, i))
            for i in range(peek(orders, ARRAYS)):
                poke(row, HEAD + i, peek(orders, ORDERS + i))
            poke(row, peek(row, INDICES), scratch)
            poke(row, peek(row, REALS), scratch + peek(row, APART))
            enter(peek(row, CODE), row)
        task = take(orders + 8 * TAKEN)
