"""A small vector language: Python functions that write LLVM programs.

    kinds       element types, under their NumPy names
    values      `Value`: a number for each of some lanes; its operators write instructions
    conversions    between kinds, 16-bit floats among them
    pointers    `Pointer`: memory, with loads and stores
    records     `Record`: the arguments of a program, by name
    function    `Function`: instructions, loops, conditions, scratch memory
    compiler    `compile`: from a function to machine code, on llvmlite
    interpreter    programs that Python runs, with checks of memory, for tests and debuggers
        sources        the lines of Python that wrote their lines
        steps          their instructions, read from their text
        instructions   what these do to numbers
    numpy_target   `Lanes`: arrays with the methods of values, for tests and readers

A program is compiled for one purpose, such as linear sampling of a float32 image under the boundary
"border".  Python runs once, while the program is written: its ``if`` chooses what is compiled, and
its ``for`` repeats instructions.  What differs between points is chosen by `Value.select` or
``np.where``, and what differs between calls is in the record of arguments.
"""

from gridsample.kernels.vector.compiler import (
    Program,
    Target,
    assembly,
    compile,
    host,
)
from gridsample.kernels.vector.function import Function, Loop
from gridsample.kernels.vector.kinds import KINDS, Kind, kind_of
from gridsample.kernels.vector.pointers import Pointer
from gridsample.kernels.vector.records import Record, StoredRecord, side_by_side
from gridsample.kernels.vector.shuffles import index_kind, joined, pick, picks, transpose
from gridsample.kernels.vector.values import Value

__all__ = [
    "KINDS",
    "Function",
    "Kind",
    "Loop",
    "Pointer",
    "Program",
    "Record",
    "StoredRecord",
    "Target",
    "Value",
    "assembly",
    "compile",
    "host",
    "index_kind",
    "joined",
    "kind_of",
    "pick",
    "picks",
    "side_by_side",
    "transpose",
]
