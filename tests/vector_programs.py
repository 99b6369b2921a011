"""Formulas of values as machine code, run on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gridsample.kernels.vector import (
    Function,
    Pointer,
    Program,
    Record,
    StoredRecord,
    Value,
    compile,
)
from gridsample.kernels.vector.interpreter import PythonProgram

Array = np.ndarray[Any, Any]
OUTPUTS = 16  # of a formula, at most
INTERPRETED = 4  # vectors of a formula that are computed in Python, too
LANES = (1, 4, 8, 16)
# NumPy has no bfloat16; such an array holds the bits.
BFLOAT16 = np.dtype([("bfloat16", np.uint16)])


def kind_name(array: Array) -> str:
    return "bfloat16" if array.dtype == BFLOAT16 else array.dtype.name


def storage(kind: str) -> np.dtype[Any]:
    return BFLOAT16 if kind == "bfloat16" else np.dtype(kind)


def run(program: Program, record: Record, **arguments: Any) -> None:
    """Run a program; an array stands for its address."""
    row, arrays = packed(record, arguments)
    if isinstance(program, PythonProgram):
        program.call(row, *arrays)
    else:
        program.call(row.address)


def packed(record: Record, arguments: dict[str, Any]) -> tuple[StoredRecord, list[Array]]:
    """The record of these arguments, and the arrays among them."""
    arrays = {name: x for name, x in arguments.items() if isinstance(x, np.ndarray)}
    places = {name: array.ctypes.data for name, array in arrays.items()}
    return record.pack(**{**arguments, **places}), [*arrays.values()]


def run_both(function: Function, record: Record, **arguments: Any) -> None:
    """Run a function in Python, on copies of the arrays, and as machine code; compare the bits."""
    copies = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in arguments.items()}
    run(function.in_python(), record, **copies)
    run(compile(function), record, **arguments)
    for name, argument in arguments.items():
        if isinstance(argument, np.ndarray):
            same_bits(copies[name], argument)


COUNT = Record(out="*int64", amount="int64")


def counter(step: int = 1) -> Function:
    """A program that adds to a number."""
    function = Function("counter", lanes=4)
    arguments = function.arguments(COUNT)
    arguments.out.store(arguments.out.load() + arguments.amount * step)
    return function


def counted(program: Program, amount: int = 2) -> int:
    """What a counter makes of 1."""
    out = np.ones(1, np.int64)
    run(program, COUNT, out=out, amount=amount)
    return int(out[0])


class Formula:
    """A formula of values as a program that goes through arrays, ``lanes`` numbers at a time.

    Args:
        formula: takes a value for each array, and returns a value or a tuple of them; with
            ``pass_function``, it takes the `Function` first.
        options: arguments of `Function`.
    """

    def __init__(
        self,
        formula: Callable[..., Any],
        lanes: int = 8,
        pass_function: bool = False,
        **options: Any,
    ) -> None:
        self.formula, self.lanes, self.pass_function = formula, lanes, pass_function
        self.options = options

    def write(self, kinds: list[str]) -> tuple[Function, Record, list[Value]]:
        function = Function("formula", self.lanes, **self.options)
        inputs = {f"in{k}": f"*{kind}" for k, kind in enumerate(kinds)}
        record = Record(**inputs, out=("int64", OUTPUTS), count="int64")
        call = function.arguments(record)
        with function.loop(0, call.count, self.lanes) as loop, function.exactly():
            values = [getattr(call, name).load(loop.index, self.lanes) for name in inputs]
            results = self.formula(*([function] * self.pass_function), *values)
            results = results if isinstance(results, tuple) else (results,)
            for result, address in zip(results, call.out, strict=False):
                place = loop.index // self.lanes * result.lanes
                Pointer(address.to("pointer"), result.kind).store(result, place)
        return function, record, list(results)

    def __call__(self, *arrays: Array) -> Any:
        """Run the formula on arrays with the same number of elements.

        Some of the vectors are computed in Python, too: the bits must be the same.
        """
        shape, count = arrays[0].shape, arrays[0].size
        assert all(array.size == count and array.flags.c_contiguous for array in arrays)
        assert count % self.lanes == 0, "a whole number of vectors"
        function, record, values = self.write([kind_name(array) for array in arrays])
        outs = self.run(compile(function), record, values, arrays)
        rows = [array.reshape(-1, self.lanes) for array in arrays]
        some = np.unique(np.linspace(0, len(rows[0]) - 1, INTERPRETED).astype(int))
        few = self.run(function.in_python(), record, values, [row[some].ravel() for row in rows])
        for out, value, again in zip(outs, values, few, strict=True):
            same_bits(again, out.reshape(-1, value.lanes)[some].ravel())
        outs = [out.reshape(shape) if out.size == count else out for out in outs]
        return outs[0] if len(outs) == 1 else tuple(outs)

    def run(
        self, program: Program, record: Record, values: list[Value], arrays: Sequence[Array]
    ) -> list[Array]:
        count = arrays[0].size
        outs = [
            np.zeros(count // self.lanes * value.lanes, storage(value.kind.name))
            for value in values
        ]
        addresses = [out.ctypes.data for out in outs] + [0] * (OUTPUTS - len(outs))
        inputs = {f"in{k}": array for k, array in enumerate(arrays)}
        run(program, record, out=addresses, count=count, **inputs)
        return outs


def evaluate(formula: Callable[..., Any], *arrays: Array, lanes: int = 8, **options: Any) -> Any:
    """Compile a formula of values and run it on arrays."""
    return Formula(formula, lanes, **options)(*arrays)


def padded(numbers: Any, dtype: Any, multiple: int = 16) -> Array:
    """The numbers as an array, repeated until they fill whole vectors."""
    array = np.asarray(numbers, dtype)
    return np.resize(array, -(-array.size // multiple) * multiple)


def pairs(numbers: Array) -> tuple[Array, Array]:
    """All pairs of the numbers, as two arrays that fill whole vectors."""
    first, second = (part.ravel() for part in np.meshgrid(numbers, numbers, indexing="ij"))
    return padded(first, first.dtype), padded(second, second.dtype)


def same_bits(result: Array, expected: Array) -> None:
    """Require equal bits, but for those of a NaN."""
    assert result.dtype == expected.dtype, (result.dtype, expected.dtype)
    assert result.shape == expected.shape, (result.shape, expected.shape)
    if result.dtype.kind == "f":
        assert np.array_equal(np.isnan(result), np.isnan(expected)), differing(result, expected)
        equal = (result == expected) & (np.signbit(result) == np.signbit(expected)) | np.isnan(
            result
        )
    else:
        equal = result == expected
    assert equal.all(), differing(result, expected, equal)


def differing(result: Array, expected: Array, equal: Any = False) -> str:
    places = np.flatnonzero(~np.broadcast_to(equal, result.shape))[:5]
    return f"at {places}: got {result.ravel()[places]}, expected {expected.ravel()[places]}"
