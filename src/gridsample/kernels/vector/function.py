"""A function that is being written: instructions, structured control, and memory.

    function = Function("scale", lanes=8)
    arguments = function.arguments(RECORD)
    with function.loop(0, arguments.count, 8) as loop:
        numbers = arguments.source.load(loop.index, lanes=8)
        arguments.target.store(numbers * arguments.factor, loop.index)
    program = compile(function)

Control is structured: `Function.loop` and `Function.when` are used with ``with``, and
`Function.choose` takes two Python functions.  Their bodies are written once; machine code runs them
as often as needed.  A value that is computed inside a body is not known outside of it, unless it is
carried (`Function.loop`) or returned (`Function.choose`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gridsample.kernels.vector.compiler import host, llvm_version
from gridsample.kernels.vector.kinds import (
    BOOL,
    INT32,
    INT64,
    POINTER,
    Kind,
    kind_of,
    llvm_type,
)
from gridsample.kernels.vector.pointers import ALIGNED, Pointer
from gridsample.kernels.vector.records import Fields, Record
from gridsample.kernels.vector.values import Value, constant_text

# Instructions that are not put before a loop: they read memory, have effects, or may trap; and a
# product is fused with a sum only in the same block.
STAYING = {
    "phi", "load", "call", "atomicrmw add", "sdiv", "udiv", "srem", "urem", "fmul contract",
}  # fmt: skip


def type_of_lines(traced: bool) -> type[list[Any]]:
    """Return the type of lists of lines, which know who wrote them if they are traced."""
    if not traced:
        return list
    from gridsample.kernels.vector.sources import Lines

    return Lines


class Loop:
    """A loop whose body is being written.

    Attributes:
        index: the index, an int64 with one lane.
        carried: the carried values: within the body, those at its start; after the loop, the last.
    """

    def __init__(self, index: Value, carried: list[Value]) -> None:
        self.index, self.carried = index, carried
        self.following: list[Value] | None = None

    def carry(self, *values: Value) -> None:
        """Set the carried values for the next iteration; required once if the loop carries any."""
        self.following = list(values)


class Function:
    """A function of LLVM's language, written instruction by instruction.

    Attributes:
        name: the name of its machine code.
        lanes: the number of points that programs process at a time.
        real: the kind of Python's floats where no operand says otherwise.
        half_conversions: whether the processor converts float16 itself; by default, as the host.
        contracts: whether a product and a sum may become one instruction, with one rounding.
        arrays: the names of the arrays that it takes, in their order, if `run.entry` wrote it.
        traced: whether its lines know who wrote them, as Python runs it.
        result: the int64 that it returns, or None.
    """

    def __init__(
        self, name: str, lanes: int, real: Any = "float32", *, half_conversions: bool | None = None
    ) -> None:
        self.name, self.lanes, self.real = name, lanes, kind_of(real)
        if half_conversions is None:
            half_conversions = host().converts_halves
        self.half_conversions = half_conversions
        self.contracts = True
        self.arrays: tuple[str, ...] = ()
        self.result: Value | None = None
        self.traced = bool(os.environ.get("GRIDSAMPLE_INTERPRET"))
        # Lines of text; a nested list holds what is not complete yet, such as what is computed
        # before a loop.
        self.new_lines = type_of_lines(self.traced)
        self.lines: list[str | list[str]] = self.new_lines()
        self.stack: list[str] = self.new_lines()  # allocations, which belong to the beginning
        self.declarations: dict[str, str] = {}
        self.constants: dict[tuple[Any, str, int], Value] = {}
        self.count = 0
        # The bodies that are being written, the outermost first: the list before a loop, or None
        # for a body that is run or skipped.
        self.bodies: list[list[str] | None] = []
        self.block = "entry"

    # Instructions ---------------------------------------------------------------------------------

    def number(self) -> int:
        """Return a number that no other name in this function has."""
        self.count += 1
        return self.count

    def emit(
        self,
        instruction: str,
        kind: Kind,
        lanes: int,
        operands: str,
        *values: Value,
        pure: bool = False,
    ) -> Value:
        """Append an instruction and return its result.

        What is the same each time is computed before a loop, if the instruction is ``pure`` or not
        one of `STAYING`.  LLVM does so only while it has registers, but it takes less time to read
        a number from the stack than to compute it again.

        Args:
            instruction: its name.
            kind: the kind of the result.
            lanes: the lanes of the result.
            operands: what follows the name.
            values: the values among the operands, unless the instruction is one of `STAYING`.
            pure: whether the result depends on nothing but these.
        """
        depth = len(self.bodies)
        lines: list[Any] = self.lines
        # Most instructions are in a body that is run or skipped, and stay there.
        if depth and self.bodies[-1] is not None and (pure or instruction not in STAYING):
            known = max([value.depth for value in values])
            while depth > known and (before := self.bodies[depth - 1]) is not None:
                depth, lines = depth - 1, before
        self.count += 1
        name = f"%v{self.count}"
        lines.append(f"  {name} = {instruction} {operands}")
        return Value(self, name, kind, lanes, depth=depth)

    def call(self, name: str, kind: Kind, lanes: int, *arguments: Value) -> Value:
        """Call one of LLVM's intrinsic functions."""
        result = llvm_type(kind, lanes)
        if name not in self.declarations:
            types = ", ".join([value.type for value in arguments])
            self.declarations[name] = f"declare {result} @{name}({types})"
        operands = ", ".join([value.operand for value in arguments])
        return self.emit(
            "call", kind, lanes, f"{result} @{name}({operands})", *arguments, pure=True
        )

    def comment(self, text: str) -> None:
        """Add a comment for readers of the function's text."""
        self.lines.append(f"  ; {text}")

    @contextlib.contextmanager
    def exactly(self) -> Iterator[None]:
        """Round every operation in the body by itself, as NumPy does: no fused multiply-adds."""
        before, self.contracts = self.contracts, False
        try:
            yield
        finally:
            self.contracts = before

    # Constants ------------------------------------------------------------------------------------

    def constant(self, number: Any, kind: Any, lanes: int = 1) -> Value:
        """Return a constant, the same in each lane."""
        kind = kind_of(kind)
        if type(number) not in (int, float):
            return self._new_constant(number, kind, lanes)
        # 0.0 equals -0.0, which is another constant.
        key = number or str(number), kind.name, lanes
        known = self.constants.get(key)
        if known is None:
            known = self.constants[key] = self._new_constant(number, kind, lanes)
        return known

    def _new_constant(self, number: Any, kind: Kind, lanes: int) -> Value:
        text = constant_text(number, kind)
        if lanes > 1 and llvm_version() >= 20:
            text = f"splat ({kind.llvm} {text})"
        elif lanes > 1:
            text = f"<{', '.join([f'{kind.llvm} {text}'] * lanes)}>"
        return Value(self, text, kind, lanes, is_constant=True, uniform=True)

    def vector(self, numbers: Sequence[Any], kind: Any) -> Value:
        """Return a constant with a number for each lane."""
        kind = kind_of(kind)
        lanes = ", ".join(f"{kind.llvm} {constant_text(number, kind)}" for number in numbers)
        return Value(self, f"<{lanes}>", kind, len(numbers), is_constant=True)

    def undefined(self, kind: Any, lanes: int) -> Value:
        """Return a vector whose lanes will be inserted."""
        return Value(self, "poison", kind_of(kind), lanes)

    def alike(self, a: Value, b: Any) -> tuple[Value, Value]:
        """Return both operands with the same kind and lanes.

        Raises:
            TypeError: they are values of different kinds; conversions are explicit.
        """
        if not isinstance(b, Value):
            return a, self.constant(b, a.kind, a.lanes)
        if a.kind is not b.kind:
            raise TypeError(f"operands are {a.kind.name} and {b.kind.name}; convert one with .to")
        if a.lanes == b.lanes:
            return a, b
        lanes = max(a.lanes, b.lanes)
        return a.splat(lanes), b.splat(lanes)

    def kind_of_numbers(self, *numbers: Any) -> Kind:
        """Return the kind of Python's or NumPy's numbers where no value says otherwise."""
        types = {np.asarray(number).dtype.kind for number in numbers}
        if "f" in types:
            return self.real
        return BOOL if types == {"b"} else INT32

    # Control --------------------------------------------------------------------------------------

    def _label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def _jump(self, name: str) -> None:
        self.lines.append(f"  br label %{name}")

    def reserve(self) -> Callable[[], contextlib.AbstractContextManager[None]]:
        """Reserve this place; return a function for ``with``, whose bodies write instructions here.

        Control is not among them.
        """
        lines, bodies = self.new_lines(), [*self.bodies]
        self.lines.append(lines)

        @contextlib.contextmanager
        def here() -> Iterator[None]:
            before = self.lines, self.bodies
            self.lines, self.bodies = lines, bodies
            try:
                yield
            finally:
                self.lines, self.bodies = before

        return here

    @contextlib.contextmanager
    def _body(self, before_loop: list[str] | None = None) -> Iterator[None]:
        """Write a body: that of a loop, or one that is run or skipped."""
        self.bodies.append(before_loop)
        yield
        self.bodies.pop()

    def as_index(self, number: Any) -> Value:
        """Return a number as an int64 with one lane."""
        if not isinstance(number, Value):
            return self.constant(number, INT64)
        if number.lanes != 1 or not number.kind.is_integer:
            raise TypeError(f"an index has one lane, got {number.lanes} of {number.kind.name}")
        return number.to(INT64)

    @contextlib.contextmanager
    def loop(
        self, start: Any, stop: Any, step: Any = 1, carry: Sequence[Value] = ()
    ) -> Iterator[Loop]:
        """Repeat the body for indices from ``start`` to below ``stop``.

        Values in ``carry`` are known to the body as ``loop.carried``; the body sets their next
        values with ``loop.carry(...)``, and ``loop.carried`` has the last ones after the loop.
        """
        start, stop, step = (self.as_index(number) for number in (start, stop, step))
        k, before = self.number(), self.block
        depth = len(self.bodies) + 1
        index = Value(self, f"%i{k}", INT64, 1, depth=depth)
        names = [f"%c{k}.{j}" for j in range(len(carry))]
        before_loop, choices = self.new_lines(), self.new_lines()
        self.lines.append(before_loop)
        self.lines.append(f"  %enter{k} = icmp slt {start}, {stop.text}")
        self.lines.append(f"  br i1 %enter{k}, label %loop{k}, label %end{k}")
        self._label(f"loop{k}")
        self.lines.append(
            f"  {index.text} = phi i64 [ {start.text}, %{before} ], [ %next{k}, %latch{k} ]"
        )
        self.lines.append(choices)
        carried = [
            Value(self, name, first.kind, first.lanes, depth=depth)
            for name, first in zip(names, carry, strict=True)
        ]
        loop = Loop(index, carried)
        with self._body(before_loop):
            yield loop
            following = loop.following if carry else []
            if following is None or len(following) != len(carry):
                count = len(carry)
                raise ValueError(f"the loop carries {count} values; set them with loop.carry(...)")
            following = [self._fit(v, c) for v, c in zip(following, carry, strict=True)]
        self._jump(f"latch{k}")
        self._label(f"latch{k}")
        self.lines.append(f"  %next{k} = add nsw i64 {index.text}, {step.text}")
        self.lines.append(f"  %again{k} = icmp slt i64 %next{k}, {stop.text}")
        self.lines.append(f"  br i1 %again{k}, label %loop{k}, label %end{k}")
        for name, first, last in zip(names, carry, following, strict=True):
            sources = f"[ {first.text}, %{before} ], [ {last.text}, %latch{k} ]"
            choices.append(f"  {name} = phi {first.type} {sources}")
        self._label(f"end{k}")
        loop.carried = [
            self.emit(
                "phi", first.kind, first.lanes,
                f"{first.type} [ {first.text}, %{before} ], [ {last.text}, %latch{k} ]",
            )
            for first, last in zip(carry, following, strict=True)
        ]  # fmt: skip

    def _fit(self, value: Value, pattern: Value) -> Value:
        if value.kind is not pattern.kind:
            raise TypeError(f"a carried value is {pattern.kind.name}, its next {value.kind.name}")
        return value.splat(pattern.lanes)

    @contextlib.contextmanager
    def when(self, condition: Value, rare: bool = False) -> Iterator[None]:
        """Run the body if a condition with one lane holds; ``rare`` if it seldom does."""
        check_condition(condition)
        k = self.number()
        hint = ", !prof !0" if rare else ""
        self.lines.append(f"  br {condition}, label %then{k}, label %end{k}{hint}")
        self._label(f"then{k}")
        with self._body():
            yield
        self._jump(f"end{k}")
        self._label(f"end{k}")

    def choose(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value]],
        otherwise: Callable[[], Sequence[Value]],
        likely: bool | None = None,
    ) -> list[Value]:
        """Return the values of one of two functions; machine code runs only that one.

        Args:
            condition: a condition with one lane.
            then: computes the values if the condition holds.
            otherwise: computes as many values of the same kinds if it does not.
            likely: whether the condition usually holds; None if nothing is known.
        """
        check_condition(condition)
        k = self.number()
        hint = "" if likely is None else f", !prof !{int(likely)}"
        self.lines.append(f"  br {condition}, label %then{k}, label %else{k}{hint}")
        self._label(f"then{k}")
        with self._body():
            first = [*then()]
        self._jump(f"join{k}")
        first_end = self.block
        self._label(f"else{k}")
        with self._body():
            second = [self._fit(v, f) for v, f in zip(otherwise(), first, strict=True)]
        self._jump(f"join{k}")
        second_end = self.block
        self._label(f"join{k}")
        return [
            self.emit(
                "phi", a.kind, a.lanes,
                f"{a.type} [ {a.text}, %{first_end} ], [ {b.text}, %{second_end} ]",
            )
            for a, b in zip(first, second, strict=True)
        ]  # fmt: skip

    @contextlib.contextmanager
    def tasks(self, taken: Pointer, first: Value, last: Value) -> Iterator[Value]:
        """Run the body for tasks from ``first`` to below ``last``, shared with other threads.

        The int64 at ``taken`` counts the tasks that any thread has taken.
        """
        k = self.number()
        self._jump(f"take{k}")
        self._label(f"take{k}")
        task = first + taken.fetch_add(1)
        more = task < last
        self.lines.append(f"  br {more}, label %task{k}, label %done{k}")
        self._label(f"task{k}")
        with self._body():
            yield task
        self._jump(f"take{k}")
        self._label(f"done{k}")

    @contextlib.contextmanager
    def until(self, condition: Callable[[], Value]) -> Iterator[None]:
        """Repeat the body until a condition with one lane, computed before it, holds."""
        k = self.number()
        self._jump(f"again{k}")
        self._label(f"again{k}")
        holds = condition()
        check_condition(holds)
        self.lines.append(f"  br {holds}, label %past{k}, label %body{k}")
        self._label(f"body{k}")
        with self._body():
            yield
        self._jump(f"again{k}")
        self._label(f"past{k}")

    # Other functions ------------------------------------------------------------------------------

    def invoke(self, address: Any, *arguments: Value) -> Value:
        """Call the C function at an address; return its result, which is undefined if it has none.

        The arguments and the result are int64s, or addresses as such numbers.
        """
        code = self.at_address(self.as_index(address), INT64).address.text
        operands = ", ".join(map(str, arguments))
        return self.emit("call", INT64, 1, f"i64 {code}({operands})")

    def at_address(self, address: Value, kind: Any) -> Pointer:
        """Return the memory at an address, which is an int64."""
        return Pointer(self.emit("inttoptr", POINTER, 1, f"{address} to ptr", address), kind)

    def address_of(self, memory: Pointer) -> Value:
        """Return the address of memory as an int64."""
        address = memory.address
        return self.emit("ptrtoint", INT64, 1, f"{address} to i64", address)

    # Memory ---------------------------------------------------------------------------------------

    def scratch(self, kind: Any, count: int, lanes: int = 1) -> Pointer:
        """Reserve memory on the stack for ``count`` vectors of ``lanes`` lanes, 64-byte aligned."""
        kind = kind_of(kind)
        name = f"%s{self.number()}"
        size = count * lanes * kind.size
        self.stack.append(f"  {name} = alloca [{size} x i8], align {ALIGNED}")
        return Pointer(Value(self, name, POINTER, 1), kind)

    def spill(self, value: Value, soon: bool = False) -> Pointer:
        """Store a vector in memory of its own, so that lanes can be read by index.

        Reading a lane from memory is faster than extracting it from a register.  ``soon`` says that
        lanes are read next, rather than after other work; see `Pointer.store_in_parts`.
        """
        memory = self.scratch(value.kind, 1, value.lanes)
        if soon:
            memory.store_in_parts(value)
        else:
            memory.store(value, aligned=True)
        return memory

    def reread(self, value: Value) -> Value:
        """Store a vector whose lanes were inserted one by one, and load it again.

        On x86, LLVM inserts small numbers straight from memory, which is faster than by way of
        other registers, only if the vector is stored.
        """
        memory = self.scratch(value.kind, 1, value.lanes)
        memory.store(value, alone=True)
        return memory.load(0, value.lanes)

    @property
    def argument(self) -> Value:
        """The function's only argument, an address."""
        return Value(self, "%arguments", POINTER, 1)

    def arguments(self, record: Record) -> Fields:
        """Read the record that the function's argument points to."""
        return record.read(Pointer(self.argument, INT64))

    # Text -----------------------------------------------------------------------------------------

    def body(self) -> list[str]:
        """Return the lines of the function, from its entry on."""
        lines = [*self.stack]
        for part in self.lines:
            lines += part if isinstance(part, list) else [part]
        return [*lines, f"  ret {'void' if self.result is None else self.result}"]

    def in_python(self) -> Any:
        """Return the program that runs in Python, a `PythonProgram`; nothing is compiled."""
        from gridsample.kernels.vector.interpreter import PythonProgram

        return PythonProgram(self)

    def text(self, bits: int = 0) -> str:
        """Return the function in LLVM's language; ``bits`` is the width of vector registers."""
        width = f'"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"' if bits else ""
        result = "void" if self.result is None else "i64"
        lines = [
            f"define {result} @{self.name}(ptr %arguments) #0 {{",
            "entry:", *self.body(), "}",
            *self.declarations.values(),
            f"attributes #0 = {{ nounwind {width} }}",
            '!0 = !{!"branch_weights", i32 1, i32 1000}',
            '!1 = !{!"branch_weights", i32 1000, i32 1}',
        ]  # fmt: skip
        return "\n".join(lines) + "\n"


def check_condition(condition: Value) -> None:
    """Require a bool with one lane: machine code goes one way or the other for all lanes."""
    if condition.kind is not BOOL or condition.lanes != 1:
        raise TypeError(
            f"a condition is a bool with one lane, got {condition.lanes} of {condition.kind.name}; "
            "reduce it with .any() or .all()"
        )
