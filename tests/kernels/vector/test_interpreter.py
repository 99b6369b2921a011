"""Programs that Python runs give the bits of machine code, check memory, and can be debugged."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import traceback
from fractions import Fraction
from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_programs import Array, same_bits

from gridsample.kernels import run as running
from gridsample.kernels.vector import (
    Function,
    Record,
    StoredRecord,
    Value,
    compile,
    compiler,
    host,
)
from gridsample.kernels.vector.instructions import multiply_add
from gridsample.kernels.vector.interpreter import Debugger, PythonProgram, interpreted

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of overflow

# Random programs ----------------------------------------------------------------------------------

KINDS = ("float32", "float64", "int32", "int64", "uint8", "int16", "uint16", "bool")
INPUTS = Record(**{kind: f"*{kind}" for kind in KINDS}, out=("int64", 2 * len(KINDS)))


def of_two(kinds: tuple[str, ...], operation: Any) -> Any:
    """An operation of two values of the same kind, if it is one of these."""

    def write(values: dict[str, list[Value]], kind: str, i: int, j: int) -> Value | None:
        if kind not in kinds:
            return None
        pool = values[kind]
        return operation(pool[i % len(pool)], pool[j % len(pool)])

    return write


FLOATS, INTEGERS = ("float32", "float64"), ("int32", "int64", "uint8", "int16", "uint16")
OPERATIONS = [
    of_two(FLOATS, lambda a, b: a + b),
    of_two(FLOATS, lambda a, b: a - b),
    of_two(FLOATS, lambda a, b: a * b),
    of_two(FLOATS, lambda a, b: a / b),
    of_two(FLOATS, lambda a, b: a.mul_add(b, a)),
    of_two(FLOATS, lambda a, b: a.mul_add(2.5, b)),
    of_two(FLOATS, lambda a, b: abs(a).sqrt() - b),
    of_two(FLOATS, lambda a, b: np.floor(a) + np.rint(b)),
    of_two(FLOATS, lambda a, b: -a.minimum(b)),
    of_two(FLOATS, lambda a, b: a.maximum(b)),
    of_two(FLOATS, lambda a, _: a.to("float16").to("float32").to(a.kind)),
    of_two(FLOATS, lambda a, _: a.to("bfloat16").to(a.kind)),
    of_two(FLOATS, lambda a, _: a.saturate("uint8").to(a.kind)),
    of_two(FLOATS, lambda a, b: a.saturate("int64").to(b.kind)),
    of_two(FLOATS, lambda a, _: a.saturate("uint64").to(a.kind)),
    of_two(INTEGERS, lambda a, b: a + b * 3),
    of_two(INTEGERS, lambda a, b: a - b),
    of_two(INTEGERS, lambda a, b: (a & b) | (a ^ 5)),
    of_two(INTEGERS, lambda a, b: (a << 2) ^ (b >> 3) ^ ~a),
    of_two(INTEGERS, lambda a, b: (a & 63) // ((b & 7) + 1)),
    of_two(INTEGERS, lambda a, b: (a & 63) % ((b & 7) + 1)),
    of_two(INTEGERS, lambda a, _: abs(a)),
    of_two(INTEGERS, lambda a, b: (a & 127).to("float64").to("float32").to(b.kind)),
    of_two(INTEGERS, lambda a, b: a.to("uint16").to("int32").to("bool").select(a, b)),
    of_two(KINDS, lambda a, b: (a <= b).select(a, b)),
    of_two(KINDS, lambda a, b: ((a == b) | (a > b)).any().select(b, a)),
    of_two(KINDS, lambda a, b: a.shuffle([a.lanes, *range(a.lanes - 1)], b)),
    of_two(KINDS, lambda a, b: a.insert(b[b.lanes - 1], 0)),
    of_two(KINDS, lambda a, _: a[0].splat(a.lanes)),
    of_two(("bool",), lambda a, b: a ^ ~b),
    of_two(("bool",), lambda a, b: (a & b).all() | a),
]  # fmt: skip


@st.composite
def operations(draw: st.DrawFn) -> list[tuple[int, str, int, int]]:
    number = st.integers(0, 30)
    one = st.tuples(st.integers(0, len(OPERATIONS) - 1), st.sampled_from(KINDS), number, number)
    return draw(st.lists(one, min_size=1, max_size=40))


def write_operations(chosen: Any, lanes: int, exact: bool) -> tuple[Function, list[Value]]:
    """Write operations on values that are loaded, and store the last of each kind."""
    function = Function("random", lanes)
    call = function.arguments(INPUTS)
    values = {kind: [getattr(call, kind).load(k, lanes) for k in (0, 16)] for kind in KINDS}
    function.contracts = not exact
    for number, kind, i, j in chosen:
        result = OPERATIONS[number](values, kind, i, j)
        if result is not None:
            values[kind].append(result)
    results = [value for kind in KINDS for value in values[kind][-2:]]
    for result, address in zip(results, call.out, strict=False):
        function.at_address(address, result.kind).store(result)
    return function, results


def inputs(seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for kind in KINDS:
        if kind in FLOATS:
            arrays[kind] = (rng.normal(size=32) * 10.0 ** rng.integers(-3, 4, 32)).astype(kind)
            arrays[kind][rng.integers(0, 32, 3)] = [np.nan, -0.0, np.inf]
        else:
            arrays[kind] = rng.integers(0, 2 if kind == "bool" else 256, 32).astype(kind)
    return arrays


def check_operations(chosen: Any, lanes: int, seed: int, exact: bool) -> None:
    function, results = write_operations(chosen, lanes, exact)
    bits = []
    for program in (function.in_python(), compile(function)):
        outs = [np.zeros(lanes, value.kind.name) for value in results]
        row = INPUTS.pack(**inputs(seed), out=[out.ctypes.data for out in outs])
        program.call(row if isinstance(program, PythonProgram) else row.address)
        bits.append(outs)
    for again, out in zip(*bits, strict=True):
        same_bits(again, out)


@settings(max_examples=30)
@given(operations(), st.sampled_from([1, 4, 8, 16]), st.integers(0, 9), st.booleans())
def test_random_operations_have_the_bits_of_machine_code(
    chosen: Any, lanes: int, seed: int, exact: bool
) -> None:
    check_operations(chosen, lanes, seed, exact)


@pytest.mark.parametrize("kind", FLOATS)
@given(data=st.data())
def test_sums_of_products_are_rounded_once(kind: str, data: st.DataObject) -> None:
    """The right result is the one next to which no float is nearer to the exact sum."""
    width = 32 if kind == "float32" else 64
    numbers = st.floats(width=width, allow_nan=False, allow_infinity=False)
    a, b, c = (np.array([data.draw(numbers)], kind) for _ in range(3))
    if data.draw(st.booleans()):
        c = -(a * b)
    (result,) = multiply_add(a, b, c)
    if not (np.isfinite(result) and np.isfinite(c[0])):
        return
    exact = Fraction(float(a[0])) * Fraction(float(b[0])) + Fraction(float(c[0]))
    around = np.nextafter(result, np.array([-np.inf, np.inf], kind))
    for other in around[np.isfinite(around)]:
        error, of_other = (abs(Fraction(float(x)) - exact) for x in (result, other))
        assert error < of_other or (error == of_other and result.view(f"i{width // 8}") % 2 == 0)


# Programs of the library --------------------------------------------------------------------------

LEVELS = [name for name, features in compiler.LEVELS.items() if host().has(*features)]
LEVELS = [name for name in LEVELS if name in ("x86-64", "x86-64-v3", "x86-64-v4")]
SAMPLING = """
import sys
import numpy as np
import gridsample

rng = np.random.default_rng(0)
image = rng.random((1, 1, 7, 9), np.float32)
grid = rng.uniform(-1.2, 1.2, (1, 3, 7, 2)).astype(np.float32)
grid[0, 0, :2, 0] = np.nan, np.inf
sys.stdout.buffer.write(gridsample.grid_sample(image, grid, mode="linear").tobytes())
print("gridsample.kernels.vector.interpreter" in sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("level", cases.slow_after(1, LEVELS))
def test_sampling_in_python_has_the_bits_of_machine_code(level: str) -> None:
    results, loaded = [], []
    for interprets in ("", "1"):
        done = subprocess.run(
            [sys.executable, "-c", SAMPLING],
            env={**os.environ, "GRIDSAMPLE_CPU": level, "GRIDSAMPLE_INTERPRET": interprets},
            capture_output=True,
            check=True,
            timeout=120,
        )
        results.append(np.frombuffer(done.stdout, np.float32))
        loaded.append(done.stderr.decode().strip())
    assert loaded == ["False", "True"]
    assert results[0].size == 21
    assert results[0].tobytes() == results[1].tobytes()


def test_a_launch_shares_tasks_among_threads() -> None:
    with interpreted():
        function = Function("tasks", lanes=4)
        settings = Record(columns="int64")
        with running.entry(function, {"target": "int64"}, settings) as (row, call):
            call.target.store(row * call.columns, row)
        program = compile(function)
        launch = running.Launch(program, settings.pack(columns=3), tasks=40)
    target = np.zeros(40, np.int64)
    for threads in (1, 2):
        launch.run({"target": target}, threads)
        assert target.tolist() == list(range(0, 120, 3))


# Memory -------------------------------------------------------------------------------------------

SCALE = Record(source="*float32", target="*float32", count="int64")


def write_scale() -> Function:
    function = Function("scale", lanes=8)
    call = function.arguments(SCALE)
    with function.loop(0, call.count, 8) as loop:
        numbers = call.source.load(loop.index, 8)
        doubled = numbers * 2.0
        call.target.store(doubled, loop.index)
    return function


def scale_record(count: int) -> StoredRecord:
    source = np.arange(16, dtype=np.float32)
    return SCALE.pack(source=source, target=np.zeros(count, np.float32), count=count)


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


@pytest.mark.parametrize("count", (24, 17))
def test_an_access_outside_names_the_line_that_wrote_it(count: int) -> None:
    with interpreted():
        program = compile(write_scale())
    row = scale_record(16)
    program.call(row)
    assert row.arrays[1].tolist() == list(range(0, 32, 2))
    message = r"reading bytes 64 to 96 of an array of float32 \(16,\), which has 64 bytes"
    with pytest.raises(IndexError, match=message) as caught:
        program.call(scale_record(count))
    frames = [f for f in traceback.extract_tb(caught.tb) if f.name == "write_scale"]
    expected = "numbers = call.source.load(loop.index, 8)"
    assert [(f.filename, f.lineno, f.line) for f in frames] == [
        (__file__, line_of(expected), expected)
    ]


def mistake(write: Any) -> None:
    """Let Python run a program for two arrays of 4 and 8 float64, side by side in memory."""
    memory, record = np.arange(12.0), Record(first="*float64", second="*float64", n="int64")
    function = Function("mistake", lanes=4)
    write(function, function.arguments(record))
    function.in_python().call(record.pack(first=memory[:4], second=memory[4:], n=3))


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda f, call: call.first.load(call.n, 2), "reading bytes 24 to 40 of an array"),
        (lambda f, call: call.second.load(-1), "reading bytes -8 to 0 of an array"),
        (lambda f, call: call.second.store(call.first.load(), call.n + 5), "writing bytes 64"),
        (lambda f, call: call.first.at(3).cast("int64").at(1).fetch_add(1), "adding to bytes 32"),
        (lambda f, call: f.scratch("float64", 2).load(2), "of scratch memory, which has 16"),
        (
            lambda f, call: call.first.gather(call.n + f.vector([0, -3, 1, 0], "int64")),
            "reading bytes 32 to 40 of an array",
        ),
        (lambda f, call: f.at_address(call.n - 3, "int8").load(), "the address is 0"),
        (lambda f, call: call.first.load(f.scratch("int64", 1).load()), r"reading bytes \d{9,}"),
    ],
)
def test_an_access_outside_is_an_error(write: Any, message: str) -> None:
    with pytest.raises(IndexError, match=message):
        mistake(write)


def test_promises_that_a_processor_relies_on_are_checked() -> None:
    with pytest.raises(ValueError, match="is no multiple of 32"):
        mistake(lambda f, call: f.scratch("float64", 8).at(1).load(0, 4, aligned=True))
    with pytest.raises(ZeroDivisionError, match="division of an integer by zero"):
        mistake(lambda f, call: call.n // (call.n - 3))


# Debuggers ----------------------------------------------------------------------------------------


def test_a_debugger_stops_in_the_lines_of_a_program() -> None:
    with interpreted():
        program = compile(write_scale())
    commands = [
        f"break {__file__}:{line_of('doubled = numbers * 2.0')}", "continue", "p numbers[3]",
        "next", "p doubled.tolist()", "p call.target[:2]", "p loop.index", "continue",
        "p numbers.tolist()", "p call.source.shape", "clear 1", "continue",
    ]  # fmt: skip
    output = io.StringIO()
    debugger = Debugger(stdin=io.StringIO("\n".join(commands)), stdout=output, nosigint=True)
    debugger.runcall(program.call, scale_record(16))
    text = output.getvalue()
    for shown in (
        "-> call = function.arguments(SCALE)",
        "-> doubled = numbers * 2.0",
        "Lanes([3.], dtype=float32)",
        "-> call.target.store(doubled, loop.index)",
        "[0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]",
        "[8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]",
        "(16,)",
    ):
        assert shown in text, text
    assert "/steps.py" not in text and "vector/interpreter.py" not in text
