"""Memory: loads, stores, gathers, scratch, and records of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from vector_programs import BFLOAT16, LANES, Array, padded, run_both, same_bits

from gridsample.kernels.vector import (
    KINDS,
    Function,
    Pointer,
    Record,
    Value,
    side_by_side,
)
from gridsample.kernels.vector.interpreter import interpreted

MEMORY = Record(source="*uint8", target="*uint8", indices="*int64", count="int64", real="float64")
KIND_NAMES = [name for name in KINDS if name not in ("pointer", "bfloat16")]
SENTINEL = 0x77


def transform(
    write: Any, source: Array, size: int, indices: Any = (0,), count: int = 0, real: float = 0.0
) -> Array:
    """Let a program write ``size`` numbers of the source's kind; check that it writes no more."""
    function = Function("memory", lanes=8)
    arguments = function.arguments(MEMORY)
    kind = source.dtype.name if source.dtype != BFLOAT16 else "bfloat16"
    arguments.source = arguments.source.cast(kind)
    arguments.target = arguments.target.cast(kind)
    write(function, arguments)
    around = 64 * source.itemsize
    memory = np.full(size * source.itemsize + 2 * around, SENTINEL, np.uint8)
    target = memory[around : around + size * source.itemsize]
    places = np.asarray(indices, np.int64)
    run_both(
        function,
        MEMORY,
        source=source,
        target=target,
        indices=places,
        count=count,
        real=real,
    )
    assert (memory[:around] == SENTINEL).all()
    assert (memory[around + target.size :] == SENTINEL).all()
    return target.view(source.dtype)


def numbers(kind: str, count: int = 64) -> Array:
    rng = np.random.default_rng(0)
    if kind == "bool":
        return rng.random(count) < 0.5
    return rng.integers(0, 100, count).astype(kind)


# Loads and stores ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KIND_NAMES)
@pytest.mark.parametrize("lanes", LANES)
def test_contiguous_elements_are_loaded_and_stored(kind: str, lanes: int) -> None:
    source = numbers(kind)

    def write(_: Function, memory: Any) -> None:
        memory.target.store(memory.source.load(3, lanes), 2)
        part = memory.target.at(memory.indices.load(0))
        part.store(memory.source.at(5).load(memory.indices.load(1), lanes))

    result = transform(write, source, 40, indices=[20, 2])
    same_bits(result[2 : 2 + lanes], source[3 : 3 + lanes])
    same_bits(result[20 : 20 + lanes], source[7 : 7 + lanes])
    assert (result[2 + lanes : 20].view(np.uint8) == SENTINEL).all()


@pytest.mark.parametrize("lanes", (1, 8))
def test_elements_at_any_address(lanes: int) -> None:
    source = np.arange(64, dtype=np.uint8)

    def write(_: Function, memory: Any) -> None:
        value = memory.source.at(3).cast("float32").load(0, lanes)
        memory.target.at(1).cast("float32").store(value)

    result = transform(write, source, 40)
    assert (result[1 : 1 + 4 * lanes] == source[3 : 3 + 4 * lanes]).all()


@pytest.mark.parametrize("kind", [name for name in KIND_NAMES if KINDS[name].bits > 8])
@pytest.mark.parametrize("order", ["packed", "packed swapped"])
def test_packed_elements(order: str, kind: str) -> None:
    """Their indices count bytes."""
    elements = numbers(kind)
    records = np.zeros(64, [("before", "u1"), ("value", kind)])
    records["value"] = elements if order == "packed" else elements.byteswap()
    size = records.itemsize
    indices = np.array([63, 0, 5, 5, 17, 40, 2, 62])

    def write(_: Function, memory: Any) -> None:
        source = memory.source.at(1).cast(f"{order} {kind}")
        target = memory.target.cast(kind)
        vector = memory.indices.load(0, 8)
        target.store(source.load_each([memory.indices.load(k) for k in range(8)]))
        target.store(source.gather(vector), 8)
        target.store(source.gather(vector, vector < 5 * size), 16)
        target.store(source.gather(memory.indices.load(2)), 24)

    expected = elements[indices]
    few = np.where(indices < 5, expected, 0).astype(kind)
    result = transform(write, records.view(np.uint8), 25 * elements.itemsize, indices * size)
    same_bits(result.view(kind), np.concatenate([expected, expected, few, expected[2:3]]))


@pytest.mark.parametrize("kind", [name for name in KIND_NAMES if KINDS[name].bits > 8])
def test_elements_in_the_other_byte_order(kind: str) -> None:
    elements = numbers(kind)

    def write(_: Function, memory: Any) -> None:
        source, target = memory.source.cast(f"swapped {kind}"), memory.target.cast(kind)
        target.store(source.load(3, 8))
        target.store(source.load(1), 8)
        with pytest.raises(TypeError, match=f"cannot store {kind} in memory of swapped {kind}"):
            source.store(source.load(1))

    result = transform(write, elements.byteswap().view(np.uint8), 9 * elements.itemsize)
    same_bits(result.view(kind), np.concatenate([elements[3:11], elements[1:2]]))


def test_bfloat16_is_stored_as_its_bits() -> None:
    source = np.arange(100, 164, dtype=np.uint16).view(BFLOAT16)
    result = transform(lambda _, m: m.target.store(m.source.load(4, 8), 1), source, 16)
    assert (result[1:9] == source[4:12]).all()


# Gathers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_elements_at_indices(kind: str) -> None:
    source, indices = numbers(kind), [63, 0, 5, 5, 17, 40, 2, 62]

    def write(_: Function, memory: Any) -> None:
        each = [memory.indices.load(k) for k in range(8)]
        memory.target.store(memory.source.load_each(each))
        vector = memory.indices.load(0, 8)
        memory.target.store(memory.source.gather(vector), 8)
        memory.target.store(memory.source.gather(vector.to("int32")), 16)

    same_bits(transform(write, source, 24, indices), np.tile(source[indices], 3))


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_a_gather_reads_only_where_its_condition_holds(kind: str) -> None:
    source = numbers(kind)
    far = 1 << 45  # an address outside this process
    indices = [63, far, 5, -far, 17, far, 2, far]

    def write(_: Function, memory: Any) -> None:
        vector = memory.indices.load(0, 8)
        near = (vector >= 0) & (vector < 64)
        memory.target.store(memory.source.gather(vector, near))
        memory.target.store(memory.source.gather(vector, vector < -far), 8)

    result = transform(write, source, 16, indices)
    expected = [source[k] if 0 <= k < 64 else 0 for k in indices]
    same_bits(result, np.array(expected + [0] * 8).astype(kind))


@pytest.mark.parametrize("lanes", [1, 2, 8, 16])
@pytest.mark.parametrize("word", ["uint32", "float64", "uint64"])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32"])
def test_words_are_gathered_at_elements(kind: str, word: str, lanes: int) -> None:
    source = np.resize(numbers(kind), 64)
    indices, size = [5, 0, 55, 1, 6, 6, 40, 3] * 2, source.itemsize

    def write(_: Function, memory: Any) -> None:
        places = memory.indices.load(0, lanes)
        memory.target.cast(word).store(memory.source.gather(places, word=KINDS[word]))

    width = np.dtype(word).itemsize
    result = transform(write, source, lanes * width // size, indices)
    data = source.tobytes()
    expected = b"".join(data[k * size : k * size + width] for k in indices[:lanes])
    assert result.tobytes() == expected


def test_a_gather_of_one_lane() -> None:
    def write(function: Function, memory: Any) -> None:
        source, index = memory.source, memory.indices.load(0)
        memory.target.store(source.gather(index))
        memory.target.store(source.gather(index, index < 64), 1)
        memory.target.store(source.gather(index + (1 << 45), index > 64), 2)

    source = numbers("int16")
    assert transform(write, source, 3, [63]).tolist() == [source[63], source[63], 0]


# Scratch ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ("uint8", "float32", "float64"))
def test_scratch_is_aligned_and_its_own(kind: str) -> None:
    source = numbers(kind)

    def write(function: Function, memory: Any) -> None:
        first, second = function.scratch(kind, 2, lanes=8), function.scratch(kind, 3)
        for place, pointer in enumerate((first, second)):
            address = pointer.address.to("int64")
            memory.indices.store(address & 63, place)
        first.store(memory.source.load(0, 8))
        first.store(memory.source.load(8, 8), 8)
        for k in range(3):
            second.store(memory.source.load(16 + k), k)
        spilled = function.spill(memory.source.load(24, 8))
        memory.target.store(first.load(4, 8))
        memory.target.store(second.load(1), 8)
        memory.target.store(spilled.load(memory.indices.load(2)), 9)

    places = np.array([-1, -1, 5])
    result = transform(write, source, 10, places)
    same_bits(result, source[[*range(4, 12), 17, 29]])
    assert places[:2].tolist() == [0, 0]


@pytest.mark.parametrize("soon", [False, True])
def test_no_more_alignment_is_promised_than_scratch_has(soon: bool) -> None:
    function = Function("spills", lanes=16)
    for kind in ("float64", "float32", "uint8"):
        function.spill(function.constant(1, kind, 16), soon).load(0, 16, aligned=True)
    alignments = [int(line.split("align ")[1]) for line in function.text().splitlines()
                  if line.startswith("  ") and "align " in line]  # fmt: skip
    assert set(alignments) <= {16, 32, 64} and len(alignments) >= 9


@pytest.mark.parametrize("count", (0, 1, 7, 8, 9, 31))
@pytest.mark.parametrize("lanes", (4, 16))
def test_fill_and_copy(count: int, lanes: int) -> None:
    source = numbers("float32")
    result = transform(
        lambda _, m: m.target.fill(m.real.to("float32"), m.count, lanes),
        source,
        40,
        count=count,
        real=2.5,
    )
    assert (result[:count] == 2.5).all()
    assert (result[count:].view(np.uint8) == SENTINEL).all()
    result = transform(
        lambda _, m: m.target.copy(m.source.at(3), m.count, lanes), source, 40, count=count
    )
    same_bits(result[:count], source[3 : 3 + count])
    assert (result[count:].view(np.uint8) == SENTINEL).all()


def test_fetch_add_returns_what_was_there() -> None:
    def write(_: Function, memory: Any) -> None:
        for k in range(3):
            memory.target.store(memory.indices.at(1).fetch_add(10), k)

    places = np.array([5, 6, 7])
    assert transform(write, numbers("int64"), 3, places).tolist() == [6, 16, 26]
    assert places.tolist() == [5, 36, 7]


def test_prefetching_changes_nothing() -> None:
    def write(_: Function, memory: Any) -> None:
        memory.source.prefetch(1 << 45)
        memory.target.prefetch(memory.count, write=True)
        memory.target.store(memory.source.load(1))

    source = numbers("float32")
    same_bits(transform(write, source, 1), source[1:2])


# Records ------------------------------------------------------------------------------------------


def test_records_pass_numbers_pointers_and_lists() -> None:
    record = Record(
        real="float64",
        images=("*float32", 2),
        sizes=("int64", 3),
        out="*float64",
        factors=("float64", 2),
        whole="int64",
    )
    assert record.size == 10
    function = Function("records", lanes=4)
    arguments = function.arguments(record)
    numbers: list[Value] = [
        arguments.real,
        *arguments.factors,
        *(size.to("float64") for size in [*arguments.sizes, arguments.whole]),
        *(image.load(1).to("float64") for image in arguments.images),
    ]
    for k, number in enumerate(numbers):
        arguments.out.store(number, k)
    first, second = np.array([1, 2.5], np.float32), np.array([3, 4.5], np.float32)
    out = np.zeros(9)
    run_both(
        function,
        record,
        out=out,
        whole=-7,
        real=-0.1,
        factors=[1e300, np.inf],
        sizes=[1 << 40, 2, -3],
        images=[first.ctypes.data, second.ctypes.data],
    )
    assert out.tolist() == [-0.1, 1e300, np.inf, 2.0**40, 2, -3, -7, 2.5, 4.5]


def test_fields_are_read_once_before_what_asks_for_them_and_only_then() -> None:
    record = Record(out="*int64", unused="int64", sizes=("int64", 2), count="int64", last="int64")

    def write(function: Function) -> None:
        arguments = function.arguments(record)
        with function.loop(0, arguments.count) as outer:
            with function.when(outer.index > 0):
                arguments.out.store(arguments.sizes[1], outer.index)
            arguments.out.store(arguments.last, arguments.last + outer.index)

    function = Function("fields", lanes=4)
    write(function)
    text = function.text()
    assert text.count(" = load ") == text.partition("loop")[0].count(" = load ") == 5
    out = np.zeros(6, np.int64)
    run_both(function, record, out=out, unused=9, sizes=[8, 7], count=3, last=3)
    assert out.tolist() == [0, 7, 7, 3, 3, 3]
    with interpreted():  # where a debugger shows all fields
        function = Function("fields", lanes=4)
        write(function)
    assert function.text().count(" = load ") == 6


def test_a_field_that_a_record_lacks_is_an_error() -> None:
    function = Function("fields", lanes=4)
    with pytest.raises(AttributeError, match="the record has no field size"):
        _ = function.arguments(Record(sizes="int64")).size


def test_a_record_names_fields_that_are_wrong() -> None:
    record = Record(source="*float32", count="int64")
    with pytest.raises(TypeError, match=r"has the fields source, count; check \['count'\]"):
        record.pack(source=1)
    with pytest.raises(TypeError, match=r"check \['size'\]"):
        record.pack(source=1, count=2, size=3)
    with pytest.raises(ValueError, match="factors has 2 numbers, got 3"):
        Record(factors=("float64", 2)).pack(factors=[1, 2, 3])
    with pytest.raises(ValueError, match="factors has 2 numbers, got 1"):
        Record(factors=("float64", 2)).pack(factors=[1])
    with pytest.raises(TypeError, match=r"count is int64, got 2\.5"):
        record.pack(source=1, count=2.5)


def test_a_record_keeps_the_arrays_that_it_points_to() -> None:
    record = Record(numbers=("*float32", 2), others="*int64")
    numbers, inner = np.arange(3.0, dtype=np.float32), Record(count="int64").pack(count=7)
    row = side_by_side([record.pack(numbers=[numbers, 0], others=inner), inner])
    assert row.slots.tolist() == [numbers.ctypes.data, 0, inner.address, 7]
    assert row.arrays[0] is numbers and row.arrays[1] is inner
    assert row.nbytes == 4 * 8 + numbers.nbytes + 8
    with pytest.raises(TypeError, match="others points to int64, got an array of float32"):
        record.pack(numbers=[0, 0], others=numbers)
    with pytest.raises(ValueError, match=r"numbers points to a contiguous array, got strides"):
        record.pack(numbers=[0, numbers[::2]], others=0)


@pytest.mark.parametrize("kind", ("int32", "uint64", "float32", "*complex64", "*", "nothing"))
def test_record_fields_of_unsupported_types_are_rejected(kind: str) -> None:
    with pytest.raises(TypeError, match="field"):
        Record(field=kind)


# Mistakes -----------------------------------------------------------------------------------------


def test_memory_holds_one_kind() -> None:
    function = Function("mistake", lanes=8)
    memory = Pointer(function.argument, "float32")
    with pytest.raises(TypeError, match="cannot store int32 in memory of float32"):
        memory.store(function.constant(1, "int32"))
    with pytest.raises(TypeError, match="cannot store float64 in memory of float32"):
        memory.store(function.constant(1, "float64"))
    with pytest.raises(TypeError, match="complex64"):
        memory.cast("complex64")
    with pytest.raises(TypeError, match="an index has one lane, got 8"):
        memory.load(function.vector(range(8), "int64"))


def test_padded_repeats() -> None:
    assert padded([1, 2, 3], int, 4).tolist() == [1, 2, 3, 1]
