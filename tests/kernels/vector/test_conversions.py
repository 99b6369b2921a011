"""Conversions between all kinds are NumPy's, and exact for bfloat16."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from vector_programs import BFLOAT16, LANES, Array, evaluate, padded, same_bits, storage

from gridsample.kernels.vector import host
from gridsample.kernels.vector.numpy_target import Lanes

FLOATS = ("float32", "float64")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
NUMBERS = ("bool", *INTEGERS, *FLOATS)
HALVES = ("float16", "bfloat16")
EVERY_HALF = np.arange(1 << 16, dtype=np.uint16)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of overflow and NaN


def half_conversions() -> list[bool]:
    """With arithmetic on bits, and with the processor's instruction if it has one."""
    return [False, True] if host().converts_halves else [False]


def widened(bits: Array, kind: str) -> Array:
    """The float32 of 16-bit floats."""
    if kind == "float16":
        return bits.view(np.float16).astype("float32")
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrowed(numbers: Array, kind: str) -> Array:
    """The bits of 16-bit floats, ties to even; all NaN have the same."""
    if kind == "float16":
        return quiet(numbers.astype(np.float16).view(np.uint16), kind)
    # A bfloat16 has 8 bits from its exponent on, and the step 2**-133 below 2**-126.
    exponent = np.frexp(numbers.astype("float64"))[1]
    step = 2.0 ** (np.maximum(exponent, -125) - 8)
    rounded = (np.rint(numbers / step) * step).astype("float32")
    rounded = np.where(np.isfinite(numbers), rounded, numbers)
    rounded[np.isnan(numbers)] = np.nan  # whose payload may lie in the bits that are cut off
    return quiet((rounded.view(np.uint32) >> 16).astype(np.uint16), kind)


def quiet(bits: Array, kind: str) -> Array:
    bits[np.isnan(widened(bits, kind))] = 0x7FFF
    return bits


# Numbers ------------------------------------------------------------------------------------------


def that_fit(source: str, target: str) -> Array:
    """Numbers of a kind that fit another, whose conversion is therefore defined."""
    if source == "bool":
        return padded([False, True, True], bool)
    if source in INTEGERS:
        info = np.iinfo(source)
        wide = [0, 1, 2, 100, info.max, info.max - 1, info.min, info.min // 2, info.max // 3]
        return padded(np.array(wide, source), source)
    numbers = np.array([0.0, 0.5, 0.99, 1.5, 2.5, 3.999, 7.0, 1.1, 33.3, 126.9], source)
    if target in FLOATS:
        special = np.array([np.inf, np.nan, 1e300, 1e-42, 2.0**25 + 1, 0.1], source)
        numbers = np.concatenate([numbers, special])
    elif target == "bool":
        numbers = np.array([0.0, 0.25, 3.0, np.inf, np.nan], source)
    elif target in INTEGERS:
        limit = float(np.iinfo(target).max // 2 + 1)  # a power of two, which every float can be
        numbers = np.append(numbers, np.array([limit, limit * 1.5], source))
    negative = target in FLOATS or target == "bool" or target.startswith("int")
    return padded(np.concatenate([numbers, -numbers]) if negative else numbers, source)


@pytest.mark.covering
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("source", NUMBERS)
def test_conversions_between_numbers(source: str, lanes: int) -> None:
    for targets in (("bool", *INTEGERS), FLOATS):
        for target in targets:
            numbers = that_fit(source, target)
            result = evaluate(lambda a, target=target: a.to(target), numbers, lanes=lanes)
            same_bits(result, numbers.astype(target))


def limits(source: str, target: str) -> Array:
    """Numbers around the limits of an integer kind, ties, and what is no number."""
    info = np.iinfo(target if target != "bool" else "uint8")
    low, high = np.array([info.min, info.max], source)
    near = [np.nextafter(x, to) for x in (low, high) for to in (-np.inf, np.inf)]
    ties = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 254.5, 255.5, 127.5, 126.5, -128.5, -129.5]
    other = [low, high, low - 1, high + 1, low * 2, high * 2, np.inf, -np.inf, np.nan, -0.0]
    huge = [2.0**31, 2.0**32, 2.0**63, 2.0**64, -(2.0**31), -(2.0**63), 1e30, -1e30, 2.0**24 + 1]
    return padded(np.array([*near, *ties, *other, *huge], source), source)


def saturated(numbers: Array, kind: str) -> Array:
    """The same, one Python integer after the other."""
    if kind == "bool":
        return np.where(np.isnan(numbers), 0, np.rint(numbers)) > 0
    info = np.iinfo(kind)
    integers = [
        0 if np.isnan(x) else info.max if x == np.inf else info.min if x == -np.inf
        else min(max(round(x), info.min), info.max)
        for x in numbers.tolist()
    ]  # fmt: skip
    return np.array(integers, kind)


@pytest.mark.covering
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("source", FLOATS)
def test_saturation(source: str, lanes: int) -> None:
    for target in ("bool", *INTEGERS):
        numbers = limits(source, target)
        result = evaluate(lambda a, target=target: a.saturate(target), numbers, lanes=lanes)
        same_bits(result, saturated(numbers, target))
        same_bits(np.asarray(Lanes.of(numbers).saturate(target)), saturated(numbers, target))


@pytest.mark.parametrize("kinds", (("float32", "uint8"), ("float64", "float32"), ("int32", "int8")))
def test_only_floats_that_become_integers_are_rounded(kinds: tuple[str, str]) -> None:
    numbers = padded([-2.5, 1.5, 300.0, 77.0], kinds[0])
    expected = saturated(numbers, kinds[1]) if kinds[1] == "uint8" else numbers.astype(kinds[1])
    same_bits(evaluate(lambda a: a.round_to(kinds[1]), numbers), expected)
    same_bits(np.asarray(Lanes.of(numbers).round_to(kinds[1])), expected)


# 16-bit floats ------------------------------------------------------------------------------------


def as_half(bits: Array, kind: str) -> Array:
    return bits.view(BFLOAT16 if kind == "bfloat16" else np.float16)


@pytest.mark.parametrize("instruction", half_conversions())
@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("lanes", LANES)
def test_every_16_bit_float_is_widened(kind: str, lanes: int, instruction: bool) -> None:
    options: dict[str, Any] = {"lanes": lanes, "half_conversions": instruction}
    half = as_half(EVERY_HALF, kind)
    expected = widened(EVERY_HALF, kind)
    same_bits(evaluate(lambda a: a.to("float32"), half, **options), expected)
    same_bits(evaluate(lambda a: a.to("float64"), half, **options), expected.astype("float64"))
    back = evaluate(lambda a: a.to("float32").to(kind), half, **options)
    assert (quiet(back.view(np.uint16), kind) == quiet(EVERY_HALF.copy(), kind)).all()


@pytest.fixture
def flushing() -> Iterator[None]:
    """A thread whose arithmetic turns subnormal numbers into 0, as those of XLA do."""
    torch = pytest.importorskip("torch")
    assert torch.set_flush_denormal(True)
    yield
    torch.set_flush_denormal(False)


@pytest.mark.usefixtures("flushing")
@pytest.mark.parametrize("instruction", half_conversions())
@pytest.mark.parametrize("lanes", LANES)
def test_subnormal_float16_is_kept_where_those_of_float32_are_flushed(
    lanes: int, instruction: bool
) -> None:
    options: dict[str, Any] = {"lanes": lanes, "half_conversions": instruction}
    half, expected = as_half(EVERY_HALF, "float16"), widened(EVERY_HALF, "float16")
    wide = evaluate(lambda a: a.to("float32"), half, **options)
    assert (wide.view(np.uint32) == expected.view(np.uint32))[~np.isnan(expected)].all()
    back = evaluate(lambda a: a.to("float16"), expected, **options)
    assert (quiet(back.view(np.uint16), "float16") == quiet(EVERY_HALF.copy(), "float16")).all()


@pytest.mark.parametrize("instruction", half_conversions())
@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("lanes", LANES)
def test_floats_are_narrowed(kind: str, lanes: int, instruction: bool) -> None:
    exact = widened(EVERY_HALF, kind)
    exact = np.sort(exact[np.isfinite(exact)])
    ties = ((exact[1:].astype("float64") + exact[:-1]) / 2).astype("float32")
    toward = np.float32(np.inf)
    beyond = np.array([65519.996, 65520, 3.39e38, 3.4028235e38, np.inf, -np.inf, np.nan], "f4")
    tiny = np.array([1e-45, -1e-45, 1e-8, -1e-8, 2.0**-25, 1e-40], "f4")
    payloads = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view("f4")
    numbers = np.concatenate(
        [
            payloads,
            exact,
            ties,
            np.nextafter(ties, toward),
            np.nextafter(ties, -toward),
            beyond,
            tiny,
        ]
    )
    numbers = padded(numbers, "float32")
    options: dict[str, Any] = {"lanes": lanes, "half_conversions": instruction}
    result = evaluate(lambda a: a.to(kind), numbers, **options)
    bits = quiet(result.view(np.uint16), kind)
    expected = narrowed(numbers, kind)
    assert (bits == expected).all(), np.flatnonzero(bits != expected)[:5]


@pytest.mark.parametrize("kind", HALVES)
def test_other_kinds_become_16_bit_floats_by_way_of_float32(kind: str) -> None:
    for source in ("bool", "int32", "uint8", "int64", "float64"):
        numbers = that_fit(source, "float32")
        result = evaluate(lambda a: a.to(kind), numbers).view(np.uint16)
        assert (quiet(result, kind) == narrowed(numbers.astype("float32"), kind)).all()


@pytest.mark.parametrize("kind", HALVES)
def test_16_bit_floats_become_other_kinds(kind: str) -> None:
    numbers = padded([0.0, 0.5, 1.0, 1.5, 2.75, 100.0], "float32")
    half = as_half(narrowed(numbers, kind), kind)
    for target in NUMBERS:
        result = evaluate(lambda a, target=target: a.to(target), half)
        same_bits(result, numbers.astype(target))
    other = "float16" if kind == "bfloat16" else "bfloat16"
    result = evaluate(lambda a: a.to(other), half).view(np.uint16)
    assert (result == narrowed(widened(half.view(np.uint16), kind), other)).all()


# Bits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "uint32"), ("float32", "int64"), ("float64", "uint8"), ("uint8", "float32"),
     ("int16", "uint16"), ("uint16", "float16"), ("float16", "int16"), ("int64", "int16")],
)  # fmt: skip
def test_bits_are_read_as_another_kind(source: str, target: str) -> None:
    bits = np.random.default_rng(0).integers(0, 0x70, 256, np.uint8)  # none is a NaN
    numbers = bits.view(storage(source))
    result = evaluate(lambda a: a.bitcast(target), numbers, lanes=8)
    assert (result.ravel() == bits.view(storage(target))).all()


def test_bools_are_bits() -> None:
    numbers = np.random.default_rng(0).normal(size=64).astype("float32")
    result = evaluate(lambda a: (a > 0).bitcast("uint16"), numbers, lanes=16)
    assert (result == np.packbits(numbers > 0, bitorder="little").view(np.uint16)).all()
    result = evaluate(lambda a: a.bitcast("bool"), result, lanes=1)
    assert (result == (numbers > 0)).all()
