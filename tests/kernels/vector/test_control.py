"""Loops, conditions, and tasks that threads share."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from vector_programs import Array, evaluate, run_both

from gridsample.kernels.vector import Function, Pointer, Record, Value, compile

OUT = Record(out="*int64", a="int64", b="int64", c="int64")


def outputs(write: Any, count: int = 64, **settings: int) -> list[int]:
    """Let a program write int64 numbers; return them up to the first that it did not write."""
    function = Function("control", lanes=8)
    arguments = function.arguments(OUT)
    write(function, arguments)
    out = np.full(count, -999, np.int64)
    run_both(function, OUT, out=out, **{"a": 0, "b": 0, "c": 1, **settings})
    values = out.tolist()
    return values[: values.index(-999)]


# Loops --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(0, 5, 1), (3, 10, 4), (-2, 2, 1), (5, 5, 1), (7, 2, 3)])
def test_loops_iterate_like_range(bounds: tuple[int, int, int]) -> None:
    def count(function: Function, start: Any, stop: Any, step: Any, out: Pointer) -> None:
        zero = function.constant(0, "int64")
        with function.loop(start, stop, step, carry=[zero]) as loop:
            (i,) = loop.carried
            out.store(loop.index, i)
            loop.carry(i + 1)

    start, stop, step = bounds
    expected = list(range(*bounds))
    known = outputs(lambda f, r: count(f, start, stop, step, r.out))
    unknown = outputs(lambda f, r: count(f, r.a, r.b, r.c, r.out), a=start, b=stop, c=step)
    assert known == unknown == expected


def position(function: Function, part: str) -> int:
    """Return the number of the only line of a function's text that contains ``part``."""
    lines = function.text().splitlines()
    (place,) = (k for k, text in enumerate(lines) if part in text)
    return place


def test_what_stays_the_same_is_computed_before_loops() -> None:
    def write(function: Function, record: Any) -> None:
        with (
            function.loop(0, record.a) as outer,
            function.loop(0, record.b) as inner,
        ):
            fixed, of_row = record.b * record.c, outer.index * record.c
            record.out.store(fixed + of_row, outer.index * record.b + inner.index)
            function.comment(f"{fixed.text}; {of_row.text}")

    assert outputs(write, a=3, b=2, c=5) == [10, 10, 15, 15, 20, 20]
    function = Function("loops", lanes=8)
    write(function, function.arguments(OUT))
    comment = next(line for line in function.text().splitlines() if line.startswith("  ; "))
    fixed, of_row = comment[4:].split("; ")
    first, second = sorted(
        k for k, line in enumerate(function.text().splitlines()) if line.startswith("loop")
    )
    assert position(function, f"{fixed} = mul") < first
    assert first < position(function, f"{of_row} = mul") < second


def test_what_may_not_be_run_stays_in_a_loop() -> None:
    def write(function: Function, record: Any) -> None:
        with function.loop(0, record.a) as loop:
            record.out.store(record.b // record.c, loop.index)  # processors stop at b / 0
        with function.loop(0, record.b) as loop, function.when(record.c > 0):
            record.out.store(record.b * record.c, loop.index)
            function.comment("product")

    assert outputs(write, a=0, b=2, c=0) == []
    assert outputs(write, a=3, b=1, c=1) == [1, 1, 1]
    function = Function("loops", lanes=8)
    write(function, function.arguments(OUT))
    products = [k for k, line in enumerate(function.text().splitlines()) if " = mul" in line]
    then = next(k for k, line in enumerate(function.text().splitlines()) if line.startswith("then"))
    assert then < products[0] < position(function, "; product")


@pytest.mark.parametrize("n", [0, 1, 7])
def test_carried_values_are_available_after_the_loop(n: int) -> None:
    def fibonacci(function: Function, record: Any) -> None:
        first = [function.constant(0, "int64"), function.constant(1, "int64")]
        with function.loop(0, record.a, carry=first) as loop:
            a, b = loop.carried
            loop.carry(b, a + b)
        for k, value in enumerate(loop.carried):
            record.out.store(value, k)

    numbers = [0, 1, 1, 2, 3, 5, 8, 13, 21]
    assert outputs(fibonacci, a=n) == numbers[n : n + 2]


@pytest.mark.parametrize(("rows", "columns"), [(3, 4), (0, 4), (3, 0)])
def test_nested_loops_carry_separate_values(rows: int, columns: int) -> None:
    def table(function: Function, record: Any) -> None:
        zero = function.constant(0, "int64")
        with function.loop(0, record.a, carry=[zero]) as outer:
            with function.loop(0, record.b, carry=[*outer.carried, zero]) as inner:
                total, place = inner.carried
                inner.carry(total + outer.index * 10 + inner.index, place + 1)
            outer.carry(inner.carried[0] + 1000)
            record.out.store(inner.carried[1], outer.index)
        record.out.store(outer.carried[0], record.a)

    total = sum(10 * i + j for i in range(rows) for j in range(columns)) + 1000 * rows
    assert outputs(table, a=rows, b=columns) == [columns] * rows + [total]


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("lanes", [8, 16])
def test_conditions_are_unpacked_where_they_are_used(lanes: int, anew: bool) -> None:
    def formula(function: Function, a: Value) -> tuple[Value, Value, Value]:
        packed = (a > 0.0).bitcast(f"uint{lanes}")
        positive = packed.unpack(anew)
        first = positive.select(a, -a)

        def elsewhere() -> list[Value]:
            return [positive.select(a, 0.0)]

        (second,) = function.choose(positive.all(), lambda: [a], elsewhere)
        return first, second, positive.any().select(1.0, 0.0)

    a = np.random.default_rng(0).normal(size=16).astype(np.float32)
    for numbers in (a, np.abs(a), -np.abs(a)):
        absolute, kept, some = evaluate(formula, numbers, lanes=lanes, pass_function=True)
        np.testing.assert_array_equal(absolute, np.abs(numbers))
        np.testing.assert_array_equal(kept, np.maximum(numbers, 0))
        present = (numbers > 0).reshape(-1, lanes).any(1)
        np.testing.assert_array_equal(some.reshape(-1), present)


def test_a_carried_vector_takes_its_lanes_from_the_first() -> None:
    def formula(function: Function, a: Value) -> Value:
        with function.loop(0, 3, carry=[a]) as loop:
            loop.carry(loop.carried[0] * 2.0)
        with function.loop(0, 1, carry=loop.carried) as again:
            again.carry(again.carried[0][0])
        return again.carried[0]

    a = np.arange(16, dtype=np.float32)
    assert (evaluate(formula, a, pass_function=True) == np.repeat(a[::8] * 8, 8)).all()


# Conditions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rare", [False, True])
def test_when_in_loops(rare: bool) -> None:
    def odd_rows(function: Function, record: Any) -> None:
        place = function.scratch("int64", 1)
        place.store(function.constant(0, "int64"))
        with (
            function.loop(0, record.a) as outer,
            function.when((outer.index & 1) == 1, rare=rare),
            function.loop(0, record.b) as inner,
            function.when(inner.index != 1),
        ):
            record.out.store(outer.index * 10 + inner.index, place.load())
            place.store(place.load() + 1)

    assert outputs(odd_rows, a=5, b=3) == [10, 12, 30, 32]


@pytest.mark.parametrize("likely", [None, True, False])
def test_choose_in_loops_runs_one_of_two(likely: bool | None) -> None:
    def collatz(function: Function, record: Any) -> None:
        def even(n: Value) -> list[Value]:
            return function.choose(n == 0, lambda: [n], lambda: [n >> 1])

        def odd(n: Value) -> list[Value]:
            # A choice within a choice, and a loop there: n, n + n, ...
            with function.loop(0, 2, carry=[n]) as loop:
                loop.carry(loop.carried[0] + n)
            return function.choose(n == 1, lambda: [n], lambda: [loop.carried[0] + 1])

        with function.loop(0, record.b, carry=[record.a]) as loop:
            (n,) = loop.carried
            record.out.store(n, loop.index)
            loop.carry(*function.choose((n & 1) == 0, lambda: even(n), lambda: odd(n), likely))

    assert outputs(collatz, a=6, b=12) == [6, 3, 10, 5, 16, 8, 4, 2, 1, 1, 1, 1]


def test_choose_runs_the_instructions_of_one_only() -> None:
    def stores(function: Function, record: Any) -> None:
        def first() -> Sequence[Value]:
            record.out.store(record.a, 0)
            return [record.a, record.b]

        def second() -> Sequence[Value]:
            record.out.store(record.b, 1)
            return [record.b, record.a]

        a, b = function.choose(record.c > 0, first, second)
        record.out.store(a, 2)
        record.out.store(b, 3)

    def numbers(c: int) -> Array:
        function = Function("stores", lanes=8)
        stores(function, function.arguments(OUT))
        out = np.zeros(4, np.int64)
        run_both(function, OUT, out=out, a=5, b=6, c=c)
        return out

    assert numbers(1).tolist() == [5, 0, 5, 6]
    assert numbers(0).tolist() == [0, 6, 6, 5]


# Tasks --------------------------------------------------------------------------------------------


def test_threads_share_tasks() -> None:
    record = Record(taken="int64", done="*int64", last="int64", each="int64")
    function = Function("tasks", lanes=8)
    arguments = function.arguments(record)
    taken = Pointer(function.argument, "int64")
    first = function.constant(5, "int64")
    with function.tasks(taken, first, arguments.last) as task:
        place = arguments.done.at(task)
        # As slow as a task is, so that each thread gets some.
        with function.loop(0, arguments.each):
            place.fetch_add(1)
    program = compile(function)
    done = np.zeros(300, np.int64)
    row = record.pack(taken=0, done=done, last=295, each=2000)
    threads = [threading.Thread(target=program.call, args=(row.address,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (done[5:295] == 2000).all()
    assert not done[:5].any()
    assert not done[295:].any()
    assert row.slots[0] == 290 + 4  # each thread asks once more than it gets tasks


@pytest.mark.parametrize("start", [0, 3, 5])
def test_a_body_is_repeated_until_a_condition_holds(start: int) -> None:
    def count(function: Function, record: Any) -> None:
        counter = function.scratch("int64", 1)
        counter.store(record.a)
        with function.until(lambda: counter.load() >= record.b):
            record.out.store(counter.load(), counter.load() - record.a)
            counter.store(counter.load() + record.c)

    assert outputs(count, a=start, b=5) == [*range(start, 5)]


def test_functions_at_addresses_are_called() -> None:
    add = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(lambda a, b: 10 * a + b)
    address = ctypes.cast(add, ctypes.c_void_p).value

    def call(function: Function, record: Any) -> None:
        record.out.store(function.invoke(address, record.a, record.b))
        # Memory by its address.
        place = function.address_of(record.out.at(1))
        function.at_address(place, "int64").store(function.invoke(record.c, record.b, record.a))

    assert address is not None
    assert outputs(call, a=3, b=4, c=address) == [34, 43]


def test_a_function_returns_a_number() -> None:
    function = Function("returns", lanes=1)
    function.result = Pointer(function.argument, "int64").load() + 1
    program, number = compile(function), np.array([41])
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(program.address)
    assert call(number.ctypes.data) == 42


def test_no_task_is_run_in_an_empty_range() -> None:
    def none(function: Function, record: Any) -> None:
        counter = function.scratch("int64", 1)
        counter.store(function.constant(0, "int64"))
        with function.tasks(counter, record.a, record.b) as task:
            record.out.store(task)
        record.out.store(counter.load(), 0)

    assert outputs(none, a=3, b=3) == [1]
    assert outputs(none, a=3, b=2) == [1]


# Mistakes -----------------------------------------------------------------------------------------


def test_carried_values_must_be_set() -> None:
    function = Function("mistake", lanes=8)
    zero = function.constant(0, "int64")
    with (
        pytest.raises(ValueError, match=r"carries 1 values; set them with loop\.carry"),
        function.loop(0, 3, carry=[zero]),
    ):
        pass
    with (
        pytest.raises(ValueError, match="carries 1 values"),
        function.loop(0, 3, carry=[zero]) as loop,
    ):
        loop.carry(zero, zero)
    with (
        pytest.raises(TypeError, match="a carried value is int64, its next int32"),
        function.loop(0, 3, carry=[zero]) as loop,
    ):
        loop.carry(zero.to("int32"))


def test_both_sides_of_a_choice_must_agree() -> None:
    function = Function("mistake", lanes=8)
    zero = function.constant(0, "int64")
    with pytest.raises(TypeError, match="int64, its next int32"):
        function.choose(zero == 0, lambda: [zero], lambda: [zero.to("int32")])
    with pytest.raises(ValueError, match=r"zip\(\)"):
        function.choose(zero == 0, lambda: [zero], lambda: [])


def test_a_condition_has_one_lane() -> None:
    function = Function("mistake", lanes=8)
    condition = function.constant(1, "int64", 8) > 0
    with (
        pytest.raises(TypeError, match="one lane, got 8 of bool; reduce it"),
        function.when(condition),
    ):
        pass
    with pytest.raises(TypeError, match="one lane, got 8 of bool"):
        function.choose(condition, list, list)
    with pytest.raises(TypeError, match="one lane, got 1 of int64"):
        function.choose(function.constant(1, "int64"), list, list)
