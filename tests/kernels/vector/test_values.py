"""Operations of values are NumPy's, bit for bit, for every kind and number of lanes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from vector_programs import LANES, Array, evaluate, padded, pairs, run_both, same_bits

from gridsample.kernels.vector import (
    Function,
    Record,
    Value,
    host,
    index_kind,
    kind_of,
    pick,
    picks,
)
from gridsample.kernels.vector.numpy_target import Lanes

FLOATS = ("float32", "float64")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of overflow and NaN


def numbers(kind: str) -> Array:
    """Numbers of a kind for which its operations differ."""
    if kind == "bool":
        return padded([False, True, True], bool)
    if kind in FLOATS:
        info = np.finfo(kind)
        near_ties = [0.5, 1.5, 2.5, 0.1, 3.7, 2.0**23 + 0.5, 2.0**24 + 1, 2.0**52 + 0.5]
        extremes = [0.0, info.tiny, info.smallest_subnormal, info.max, np.inf, np.nan]
        positive = np.array([*near_ties, *extremes, 1.0, 2.0, 1e18], kind)
        return padded(np.concatenate([positive, -positive]), kind)
    info = np.iinfo(kind)
    small = [0, 1, 2, 3, 7, 100, info.max - 1, info.max, info.max // 2 + 3]
    below = [info.min, info.min + 1, -1, -7, -100] if info.min else []
    return padded(np.array(small + below, kind), kind)


def check(formula: Callable[..., Any], *arrays: Array, lanes: int, **options: Any) -> None:
    """Compare a formula's machine code with NumPy."""
    result, expected = evaluate(formula, *arrays, lanes=lanes, **options), formula(*arrays)
    if not isinstance(result, tuple):
        result, expected = (result,), (expected,)
    for a, b in zip(result, expected, strict=True):
        same_bits(a, np.asarray(b))


def check_lanes(formula: Callable[..., Any], *arrays: Array, lanes: int = 8) -> None:
    """Compare a formula's machine code with the NumPy target, one vector after the other."""
    result = evaluate(formula, *arrays, lanes=lanes)
    steps = range(0, arrays[0].size, lanes)
    vectors = [formula(*(Lanes.of(array[k : k + lanes]) for array in arrays)) for k in steps]
    same_bits(result.ravel(), np.concatenate([np.asarray(vector) for vector in vectors]))


# Arithmetic ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", FLOATS)
def test_arithmetic_of_floats(kind: str, lanes: int) -> None:
    a, b = pairs(numbers(kind))
    check(lambda a, b: (a + b, a - b, a * b, a / b, -a), a, b, lanes=lanes)
    same_bits(evaluate(operator.mod, a, b, lanes=lanes), np.fmod(a, b))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", INTEGERS)
def test_arithmetic_of_integers(kind: str, lanes: int) -> None:
    a, b = pairs(numbers(kind))
    shift = padded(np.arange(a.size) % np.iinfo(kind).bits, kind)
    check(
        lambda a, b, s: (a + b, a - b, a * b, a & b, a | b, a ^ b, ~a, -a, a << s, a >> s),
        a,
        b,
        shift,
        lanes=lanes,
    )


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", INTEGERS)
def test_quotients_and_remainders_of_integers(kind: str, lanes: int) -> None:
    some = numbers(kind)
    some = np.concatenate([some, np.arange(1, 65).astype(kind)])
    exact = (some >= 0) & (some.astype(float) < 2.0**53)  # beyond, they are approximate
    some = some[exact]
    if np.iinfo(kind).bits == 64:
        some = np.append(some, np.array([2**53 - 1, 2**53 - 2, 2**52 + 1, 2**31 + 1], kind))
    a, b = pairs(some)
    b = np.maximum(b, 1)
    check(lambda a, b: (a // b, a % b, a // 3, a % 7), a, b, lanes=lanes)
    # Just below, at and above multiples, which rounding must not confuse.
    a = np.clip(a // b * b, 1, np.iinfo(kind).max - 1).astype(kind)
    check(lambda a, b: (a // b, (a - 1) // b, (a + 1) // b), a, b, lanes=lanes)


@pytest.mark.parametrize("lanes", LANES)
def test_logic_of_bools(lanes: int) -> None:
    a, b = pairs(numbers("bool"))
    check(lambda a, b: (a & b, a | b, a ^ b, ~a, a == b, a != b), a, b, lanes=lanes)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", FLOATS + INTEGERS)
def test_comparisons(kind: str, lanes: int) -> None:
    a, b = pairs(numbers(kind))
    check(lambda a, b: tuple(compare(a, b) for compare in COMPARISONS), a, b, lanes=lanes)


def test_products_are_fused_except_where_rounding_is_exact() -> None:
    a = padded([1.0 + 2.0**-12], "float32")

    def formula(function: Function, a: Value) -> tuple[Value, Value]:
        exact = a * a - (1.0 + 2.0**-11)
        function.contracts = True
        return exact, a * a - (1.0 + 2.0**-11)

    exact, fused = evaluate(formula, a, pass_function=True)
    assert (exact == 0).all()
    assert set(fused.tolist()) <= {0.0, 2.0**-24}  # not every processor can


def test_exactly_applies_to_its_body_only() -> None:
    function = Function("exactly", 4)
    with function.exactly():
        assert not function.contracts
        with function.exactly():
            pass
        assert not function.contracts
    assert function.contracts
    with pytest.raises(TypeError), function.exactly():
        function.constant(1, "int32", 4) / 2
    assert function.contracts


# Functions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", FLOATS)
def test_functions_of_floats(kind: str, lanes: int) -> None:
    a = numbers(kind)
    check(lambda a: (np.floor(a), np.rint(a), np.sqrt(a), np.abs(a), abs(a)), a, lanes=lanes)


@pytest.mark.covering
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", FLOATS + INTEGERS)
def test_bounds_and_choices(kind: str, lanes: int) -> None:
    a, b = pairs(numbers(kind))
    result = evaluate(lambda a, b: (a.minimum(b), a.maximum(b)), a, b, lanes=lanes)
    for values, expected in zip(result, (np.minimum(a, b), np.maximum(a, b)), strict=True):
        # The sign of the result is either's where both are zeros.
        np.testing.assert_array_equal(values, expected)
    check(lambda a, b: (np.where(a < b, a, b), np.where(a < b, 1, a)), a, b, lanes=lanes)
    if kind in INTEGERS:
        check(abs, a, lanes=lanes)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", FLOATS)
def test_bounds_that_are_numbers(kind: str, lanes: int) -> None:
    a = numbers(kind)
    check(
        lambda a: (np.minimum(a, 2.5), np.minimum(2.5, a), np.maximum(a, -1), np.maximum(-1, a)),
        a,
        lanes=lanes,
    )


def test_a_bound_for_all_lanes_keeps_nan() -> None:
    a, limit = numbers("float32"), np.float32(2.5)

    def formula(function: Function, a: Value) -> tuple[Value, Value]:
        bound = function.constant(2.5, "float32")
        return a.minimum(bound), bound.splat(a.lanes).maximum(a)

    result = evaluate(formula, a, pass_function=True)
    same_bits(result[0], np.minimum(a, limit))
    same_bits(result[1], np.maximum(limit, a))


@pytest.mark.parametrize("lanes", LANES)
def test_mul_add_rounds_once_if_the_processor_can(lanes: int) -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(size=4096).astype("float32") for _ in range(3))
    c[:2048] = -(a * b)[:2048]
    exact = a.astype("float64") * b + c
    result = evaluate(lambda a, b, c: a.mul_add(b, c), a, b, c, lanes=lanes)
    if host().triple.startswith("x86_64") and not host().has("fma"):
        same_bits(result, a * b + c)
        return
    # The sum of a product of 48 bits is rounded in float64, too: differences are rare.
    assert (result != exact.astype("float32")).mean() < 1e-3
    assert (result[:2048] != 0).any(), "the product was rounded by itself"
    same_bits(evaluate(lambda a: a.mul_add(2.0, 0.5), a, lanes=lanes), a * np.float32(2) + 0.5)


# NumPy's functions and numbers --------------------------------------------------------------------


@pytest.mark.parametrize("kind", FLOATS)
def test_numbers_of_python_and_numpy(kind: str) -> None:
    a = numbers(kind)
    dtype = np.dtype(kind).type
    check(lambda a: (2 + a, 2 - a, 2.5 * a, 1 / a, a < 3, a <= 3, a == 3, a + True), a, lanes=8)
    check(
        lambda a: (dtype(2) + a, dtype(2) - a, dtype(2) * a, dtype(1) / a, dtype(3) > a,
                   dtype(3) >= a, dtype(3) != a, a - dtype(0.1), np.minimum(dtype(3), a)),
        a, lanes=8,
    )  # fmt: skip


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_of_python_and_numpy(kind: str) -> None:
    a = padded([0, 1, 2, 3, 5, 6], kind)
    check(
        lambda a: (9 - a, 9 // (a + 1), 9 % (a + 1), 5 & a, 5 | a, 5 ^ a, 1 << a, 64 >> a),
        a,
        lanes=8,
    )
    dtype = np.dtype(kind).type
    nine, unit = dtype(9), dtype(1)
    check(
        lambda a: (nine - a, nine // (a + unit), nine % (a + unit), nine & a, nine | a, nine ^ a,
                   unit << a, dtype(64) >> a, np.remainder(a, dtype(3)), np.minimum(a, nine)),
        a, lanes=8,
    )  # fmt: skip


def test_integers_that_change_nothing_take_no_instruction() -> None:
    function = Function("neutral", lanes=4)
    a = function.arguments(Record(a="int64")).a
    assert all(b is a for b in (a + 0, a - 0, a * 1, a << 0, a >> 0))
    integers = padded([0, 1, 2, 5], "int32")
    check(lambda a: (1 - a, 0 - a, a * 0, a + 1, 0 + a, a & 0, 1 << a), integers, lanes=4)
    check(lambda a: (a + 0, a - 0, a * 1), numbers("float32"), lanes=4)  # -0.0 + 0 is 0


def test_ufuncs_and_where() -> None:
    a, b = pairs(numbers("float32"))
    check(
        lambda a, b: (np.add(a, b), np.subtract(a, b), np.multiply(a, b), np.divide(a, b),
                      np.negative(a), np.less(a, b), np.less_equal(a, b), np.greater(a, b),
                      np.greater_equal(a, b), np.equal(a, b), np.not_equal(a, b),
                      np.logical_and(a > 0, b > 0), np.logical_or(a > 0, b > 0),
                      np.logical_not(a > 0)),
        a, b, lanes=8,
    )  # fmt: skip
    check(lambda a, b: (np.where(True, a, b), np.where(a > 0, b, np.float32(7))), a, b, lanes=8)


def test_where_between_numbers_has_the_kind_of_the_numbers() -> None:
    a = padded([0, 1], "float64")
    kinds = {
        (1.5, 2): np.float32,
        (np.float64(1), 2.0): np.float32,
        (3, -4): np.int32,
        (True, False): np.bool_,
    }
    for (yes, no), dtype in kinds.items():
        result = evaluate(lambda a, yes=yes, no=no: np.where(a > 0, yes, no), a)
        same_bits(result, np.where(a > 0, yes, no).astype(dtype))
    result = evaluate(lambda a: np.where(a > 0, 0.1, 2), a, real="float64")
    same_bits(result, np.where(a > 0, 0.1, 2))


def test_constants_are_exact() -> None:
    special = [0.1, 0.0, -0.0, 0, math.inf, -math.inf, math.nan, 1e300, 5e-324, 2**24 + 1]
    for kind in FLOATS:
        zeros = np.zeros(16, kind)
        result = evaluate(
            lambda f, a, kind=kind: tuple(f.constant(x, kind, a.lanes) for x in special),
            zeros,
            pass_function=True,
        )
        for values, number in zip(result, special, strict=True):
            same_bits(values, np.full(16, number).astype(kind))


def test_a_vector_of_constants() -> None:
    def formula(f: Function, a: Value) -> Value:
        return a + f.vector([1, 2, 3, 4], "int32")

    result = evaluate(formula, np.zeros(16, "int32"), lanes=4, pass_function=True)
    same_bits(result, padded([1, 2, 3, 4], "int32"))


# Lanes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", LANES)
def test_lanes_are_reduced(lanes: int) -> None:
    a = np.random.default_rng(0).normal(3, 3, 256).astype("float32")
    check_lanes(lambda a: a.sum(), a, lanes=lanes)
    a[: a.size // 2] = np.abs(a[: a.size // 2])
    for formula in (lambda a: (a > 6).any(), lambda a: (a > 0).all(), lambda a: (a >= 0).any()):
        check_lanes(formula, a, lanes=lanes)


@pytest.mark.covering
@pytest.mark.parametrize("kind", ("float32", "int64", "uint8", "bool"))
@pytest.mark.parametrize("lanes", (4, 8, 16))
def test_lanes_are_moved(kind: str, lanes: int) -> None:
    a, b = pairs(numbers(kind))
    order = [(3 * k + 1) % lanes for k in range(lanes)]
    both = [k // 2 + lanes * (k % 2) for k in range(lanes)]
    check_lanes(lambda a: a.shuffle(order), a, lanes=lanes)
    check_lanes(lambda a, b: a.shuffle(both, b), a, b, lanes=lanes)
    check_lanes(lambda a: a.shuffle([lanes - 1]), a, lanes=lanes)
    check_lanes(lambda a, b: a.shuffle([lanes + 1], b), a, b, lanes=lanes)
    check_lanes(lambda a: a.shuffle([2, None, 3]).freeze().shuffle([0, 2]), a, lanes=lanes)
    check_lanes(lambda a: a[2], a, lanes=lanes)
    check_lanes(lambda a: a[1].splat(lanes), a, lanes=lanes)
    check_lanes(lambda a, b: a.insert(b[0], 1), a, b, lanes=lanes)
    check_lanes(lambda a: a.insert(1, lanes - 1), a, lanes=lanes)


def test_one_lane_is_broadcast() -> None:
    a = numbers("float32")
    check_lanes(lambda a: a[0].shuffle([0, 0, 0]), a, lanes=4)
    check_lanes(lambda a: a + a[1], a, lanes=4)
    check_lanes(lambda a: a[1] - a, a, lanes=4)
    check_lanes(lambda a: (a[1] < 1).select(a, a[2]), a, lanes=4)


@pytest.mark.parametrize("kind", ("float32", "uint8", "bool"))
def test_two_values_of_one_lane_are_shuffled(kind: str) -> None:
    a, b = pairs(numbers(kind))
    for picked in ([0], [1], [0, 1], [1, 0, 1, 1], [0, 0]):
        check_lanes(lambda a, b, picked=picked: a.shuffle(picked, b), a, b, lanes=1)
    check_lanes(lambda a, b: a.insert(b, 0), a, b, lanes=1)
    check_lanes(lambda a: a.insert(1, 0), a, lanes=1)


# Lanes that are picked by index -------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_lanes_of_registers_are_picked_by_index(count: int) -> None:
    rng = np.random.default_rng(count)
    for kind in filter(picks, map(kind_of, ("int16", "int32", "int64", "float32", "float64"))):
        lanes, index = host().lanes(kind.name), index_kind(kind)
        record = Record(source=f"*{kind.name}", places=f"*{index.name}", out=f"*{kind.name}")
        function = Function("pick", lanes)
        call = function.arguments(record)
        registers = [call.source.load(k * lanes, lanes) for k in range(count)]
        call.out.store(pick(registers, call.places.load(0, lanes)))
        source = rng.integers(-9999, 9999, count * lanes).astype(kind.name)
        places = rng.integers(0, source.size, lanes).astype(index.name)
        out = np.zeros(lanes, kind.name)
        run_both(function, record, source=source, places=places, out=out)
        same_bits(out, source[places])


# Errors -------------------------------------------------------------------------------------------


def value(kind: str, lanes: int = 4) -> Value:
    return Function("unused", lanes).constant(1, kind, lanes)


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (lambda: value("int32") + value("float32"), TypeError, "int32 and float32; convert"),
        (lambda: value("int32") == value("int64"), TypeError, "int32 and int64; convert"),
        (lambda: value("int32") / 2, TypeError, "divide integers with //"),
        (lambda: 2 / value("int32"), TypeError, "divide integers with //"),
        (lambda: value("float32") // 2, TypeError, "// is for integers"),
        (lambda: value("float32") & 1, TypeError, "for integers and bools"),
        (lambda: value("int32") * 0.5, TypeError, "0.5 is not int32"),
        (lambda: value("uint8") + 256, OverflowError, "256 does not fit uint8"),
        (lambda: value("int8") - 300, OverflowError, "300 does not fit int8"),
        (lambda: value("float32") + None, TypeError, "a value or a number, got None"),
        (lambda: value("int32").floor(), TypeError, "floor is for float32 and float64"),
        (lambda: np.sqrt(value("int32")), TypeError, "sqrt is for float32 and float64"),
        (lambda: np.exp(value("float32")), TypeError, "exp"),
        (lambda: np.sum(value("float32")), TypeError, "sum"),
        (lambda: value("int32").saturate("int8"), TypeError, "turns floats into integers"),
        (lambda: value("float32").saturate("float16"), TypeError, "turns floats into integers"),
        (lambda: value("float32").to("complex64"), TypeError, "complex64.*accepted: bool, int8"),
        (lambda: value("float32").splat(8), ValueError, "cannot broadcast 4 lanes to 8"),
        (lambda: value("float32", 4) + value("float32", 8), ValueError, "cannot broadcast"),
        (lambda: value("float32").bitcast("float64", 4), ValueError, "do not have 128 bits"),
        (lambda: value("float32", 12).sum(), ValueError, "got 12"),
        (lambda: 1 if value("float32") > 0 else 2, TypeError, "not known while a program"),
        (lambda: value("float32") < 1 < value("float32"), TypeError, "not known while a program"),
    ],
)
def test_invalid_programs_are_rejected(
    mistake: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        mistake()
