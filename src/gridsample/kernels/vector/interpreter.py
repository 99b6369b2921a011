"""Run programs in Python: for tests that compile nothing, and in a debugger.

While the environment variable ``GRIDSAMPLE_INTERPRET`` is set, `compile` returns programs that
Python runs, one instruction after the other, on NumPy arrays.  Numbers are those of machine code,
bit for bit, but for products that LLVM fuses with sums where `fuse` does not know it.

What is run is the text that is compiled otherwise, not a second meaning of the language.  Each of
its lines knows which line of Python wrote it, and is run as if it were there: in a traceback, and
for a debugger.  There, a variable that holds a `Value` is the array of its lanes, and a `Pointer`
the array from its address on.

Memory is checked.  Reading or writing outside of an array raises an IndexError, also if it is
within another one; scratch memory is full of odd numbers until it is written.  Arrays are known if
they are in the `StoredRecord` that `PythonProgram.call` takes, among its ``arrays``, or, if the
environment variable was set from the beginning, wherever the library takes the address of one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pdb
from collections.abc import Iterator, Sequence
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np

from gridsample.kernels import memory
from gridsample.kernels.vector.compiler import host
from gridsample.kernels.vector.instructions import Array, Type, constant
from gridsample.kernels.vector.kinds import Kind
from gridsample.kernels.vector.numpy_target import Lanes
from gridsample.kernels.vector.pointers import Pointer
from gridsample.kernels.vector.records import StoredRecord
from gridsample.kernels.vector.sources import Line
from gridsample.kernels.vector.steps import Address, Region, Step, fuse, known_regions
from gridsample.kernels.vector.values import Value


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """Let Python run the programs that are written and compiled in the body."""
    before = os.environ.get("GRIDSAMPLE_INTERPRET")
    os.environ["GRIDSAMPLE_INTERPRET"] = "1"
    try:
        yield
    finally:
        del os.environ["GRIDSAMPLE_INTERPRET"]
        if before is not None:
            os.environ["GRIDSAMPLE_INTERPRET"] = before


# Programs -----------------------------------------------------------------------------------------


def blocks_of(lines: Sequence[str]) -> dict[str, list[Step]]:
    """Read the instructions of a function, by the name of their block."""
    block = list[Step]()
    blocks = {"entry": block}
    for line in lines:
        text = line.strip()
        if text.endswith(":"):
            block = blocks[text[:-1]] = []
        elif not text.startswith(";"):
            block.append(Step(text, line.place if isinstance(line, Line) else None))
    return blocks


class PythonProgram:
    """A program that Python runs; see `Program` for machine code.

    Attributes:
        address: the address of a C function that runs it; failures there are printed only.
        arrays: the names of the arrays that it takes (`Function.arrays`).
    """

    def __init__(self, function: Any) -> None:
        """Read a `Function`."""
        self.arrays: tuple[str, ...] = function.arrays
        self.fuses = host().fuses
        self.blocks = blocks_of(function.body())
        if self.fuses:
            fuse([*self.blocks.values()])
        self.callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(self.call)
        self.address = ctypes.cast(self.callback, ctypes.c_void_p).value

    def call(self, arguments: int | StoredRecord, *arrays: Array) -> int:
        """Run the program on a record; addresses in these arrays are checked, too.

        Raises:
            IndexError: an access is not within an array, or one of scratch memory.
        """
        roots: list[Any] = [*memory.noted, arguments, *arrays]
        address = arguments.address if isinstance(arguments, StoredRecord) else arguments
        with np.errstate(all="ignore"):
            return Run(self, known_regions(roots)[::-1]).execute(address)


class Run:
    """A call of a program.

    Attributes:
        values: what has been computed, by name.
        before: the block that was run before.
        after: the block to run next.
    """

    def __init__(self, program: PythonProgram, regions: list[Region]) -> None:
        self.program, self.regions, self.fuses = program, regions, program.fuses
        self.values: dict[str, Any] = {}
        self.before, self.after, self.number = "", "entry", 0

    def address(self, number: int) -> Address:
        """Return an address that was a number, in the region that has it."""
        unknown = Region("memory at an unknown address", number, None)
        if not number:
            unknown = Region("no array: the address is 0", 0, 0)
        found = next((region for region in self.regions if region.has(number)), unknown)
        return Address(found, np.array([number]))

    def execute(self, arguments: int) -> int:
        """Run all blocks; return the program's number."""
        self.values["%arguments"] = self.address(arguments)
        while self.after:
            block, name = self.program.blocks[self.after], self.after
            choices = [step for step in block if step.name == "phi"]
            # All of them are read before any is changed.
            self.values |= {step.result: step.work(self) for step in choices}
            for step in block:
                if step.name != "phi":
                    self.run(step)
            self.before = name
        return self.number

    def value(self, operand: Any) -> Any:
        """Return what an operand is now."""
        return self.values[operand] if isinstance(operand, str) else operand

    def run(self, step: Step) -> None:
        """Run an instruction in the place that wrote it."""

        def here() -> None:
            operands = map(self.value, step.operands)
            self.values[step.result] = step.work(self, *operands)

        if step.place is None:
            here()
        else:
            variables = Variables(step.place.variables, __step__=here)
            variables.run = self
            exec(step.place.code, step.place.names, variables)


# Debuggers ----------------------------------------------------------------------------------------


class Variables(dict[str, Any]):
    """Local variables of a line of Python, with numbers for values."""

    run: Run

    def __getitem__(self, name: str) -> Any:
        """Return a variable, as `shown`."""
        return shown(super().__getitem__(name), self.run)


def shown(variable: Any, run: Run) -> Any:
    """Return what a program has computed for a value, a pointer, or a list or record of them."""
    if isinstance(variable, Value):
        return numbers_of(variable, run)
    if isinstance(variable, Pointer):
        place = numbers_of(variable.address, run)
        return memory_from(place, variable.kind) if isinstance(place, Address) else variable
    if type(variable) in (list, tuple):
        return type(variable)(shown(entry, run) for entry in variable)
    if isinstance(variable, SimpleNamespace):
        return SimpleNamespace(**{name: shown(x, run) for name, x in vars(variable).items()})
    return variable


def numbers_of(value: Value, run: Run) -> Any:
    """Return the lanes of a value, or the value itself if it has not been computed yet."""
    if value.text[0] == "%":
        numbers = run.values.get(value.text, value)
    else:
        numbers = constant(value.text, Type(value.kind.llvm, value.lanes))
    if not isinstance(numbers, np.ndarray):
        return numbers
    return Lanes.of(numbers.view(dtype_of(value.kind)))


def memory_from(place: Address, kind: Kind) -> Any:
    """Return the elements of a kind from an address to the end of what is known there."""
    region, start = place.region, int(place.at[0])
    if region.size is None:
        return place
    count = max(region.start + region.size - start, 0) // kind.size
    size = count * kind.size
    return place.bytes(size, "showing").view(dtype_of(kind)) if size else np.empty(0)


def dtype_of(kind: Kind) -> np.dtype[Any]:
    """NumPy's type of the elements of a kind; of those that it lacks, their bits."""
    kind = kind.loaded
    names = {"bfloat16": "uint16", "pointer": "int64"}
    return np.dtype(names.get(kind.name, kind.name))


class Debugger(pdb.Pdb):
    """Python's debugger, which stops in lines that wrote instructions when these are run."""

    last: tuple[str, int] | None = None

    def user_call(self, frame: FrameType, argument_list: None) -> None:
        """Do not stop where a function begins."""

    def user_return(self, frame: FrameType, return_value: Any) -> None:
        """Do not stop where a function ends."""

    def user_line(self, frame: FrameType) -> None:
        """Stop once for all instructions of a line that follow each other."""
        place = frame.f_code.co_filename, frame.f_lineno
        if isinstance(frame.f_locals, Variables) and place != self.last:
            self.last = place
            super().user_line(frame)

    def user_exception(self, frame: FrameType, exc_info: Any) -> None:
        """Stop in the line whose instruction fails."""
        if isinstance(frame.f_locals, Variables):
            super().user_exception(frame, exc_info)


def debug(program: PythonProgram, arguments: StoredRecord, *arrays: Array) -> None:
    """Run a program in Python's debugger; its first instruction waits for commands.

    ``next`` goes to the line that wrote the instructions that follow.
    """
    Debugger().runcall(program.call, arguments, *arrays)
