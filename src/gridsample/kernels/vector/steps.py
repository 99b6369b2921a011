"""Instructions of a program that Python runs, read from their text."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.kernels.memory import address_of
from gridsample.kernels.vector import instructions
from gridsample.kernels.vector.instructions import TYPE, UNDEFINED, Array, Type, constant
from gridsample.kernels.vector.records import StoredRecord
from gridsample.kernels.vector.sources import Place

Run = Any  # a call of a program, which is the interpreter's

# Memory -------------------------------------------------------------------------------------------


class Region(NamedTuple):
    """Memory that a program may use: an array, a record, or scratch memory.

    Attributes:
        name: what it is, for errors.
        start: its first address.
        size: its bytes; None if nobody knows.
        owner: what keeps it.
    """

    name: str
    start: int
    size: int | None
    owner: Any = None

    @classmethod
    def of(cls, array: Array) -> Region:
        """Return the memory between an array's first and last byte."""
        start, end = np.lib.array_utils.byte_bounds(array)
        return cls(f"an array of {array.dtype} {array.shape}", start, end - start, array)

    def has(self, address: int) -> bool:
        """Whether memory begins at an address in here."""
        return self.size is None or 0 <= address - self.start < max(self.size, 1)


class Address(NamedTuple):
    """Addresses in one region, for each lane."""

    region: Region
    at: Array

    def bytes(self, size: int, doing: str, lane: int = 0) -> Array:
        """Return the bytes from an address on.

        Raises:
            IndexError: they are not in the region.
        """
        region, start = self.region, int(self.at[lane])
        first = start - region.start
        if region.size is not None and not 0 <= first <= region.size - size:
            raise IndexError(
                f"{doing} bytes {first} to {first + size} of {region.name}, "
                f"which has {region.size} bytes"
            )
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(start))

    def numbers(self, kind: Type, doing: str, lane: int = 0) -> Array:
        """Return the numbers from an address on, as a view of memory."""
        return self.bytes(kind.lanes * kind.dtype.itemsize, doing, lane).view(kind.dtype)


def known_regions(roots: Sequence[Any]) -> list[Region]:
    """Return the regions of arrays and records, and of those to which they point."""
    regions = []
    for root in roots:
        if isinstance(root, StoredRecord):
            regions.append(Region.of(root.slots)._replace(name="a record"))
            regions += known_regions(root.arrays)
        elif isinstance(root, np.ndarray):
            regions.append(Region.of(root))
    return regions


# Instructions -------------------------------------------------------------------------------------


class Step:
    """An instruction.

    Attributes:
        text: the line of the program.
        result: the name of its result, or "".
        operands: names of values, and constants.
        work: takes the `Run` and the operands; returns the result.
        name: the instruction's.
        place: the line of Python that wrote it, if that is known.
    """

    def __init__(self, text: str, place: Place | None) -> None:
        self.text, self.place = text, place
        match = re.fullmatch(r"\s*(?:(%[\w.]+) = )?(\w+)(.*?)", text)
        assert match is not None, text
        self.result, self.name = match[1] or "", match[2]
        self.operands: list[Any] = []
        self.work: Callable[..., Any] = read_instruction(self, match[3].strip())

    @property
    def has_effects(self) -> bool:
        """Whether it does more than compute a result."""
        return not self.result or self.name == "atomicrmw" or " = call i64 %" in self.text

    def names(self) -> list[str]:
        """The names among the operands."""
        return [operand for operand in self.operands if isinstance(operand, str)]

    def take(self, text: str) -> Type:
        """Take operands from a text; return the type of the last."""
        kind = Type("i64")
        for part in split(text):
            match = re.fullmatch(rf"(?:({TYPE})(?: align \d+)? )?(.+)", part)
            assert match is not None, part
            kind = Type.of(match[1]) if match[1] else kind
            value = match[2]
            self.operands.append(value if value[0] in "%@" else constant(value, kind))
        return kind


def split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<([") - (character in ">)]")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def read_instruction(step: Step, rest: str) -> Callable[..., Any]:
    """Take a step's operands and return its work."""
    name = step.name
    if name in instructions.ARITHMETIC:
        step.take(re.sub(r"^(contract|nsw) ", "", rest))
        function = instructions.ARITHMETIC[name]
        return lambda _, a, b: function(a, b)
    if name in ("icmp", "fcmp"):
        order, _, rest = rest.partition(" ")
        step.take(rest)
        comparison = instructions.COMPARISONS[order]
        return lambda _, a, b: comparison(a, b)
    if name in ("inttoptr", "ptrtoint", *instructions.CONVERSIONS):
        rest, _, to = rest.rpartition(" to ")
        step.take(rest)
        kind = Type.of(to)
        if name == "inttoptr":
            return lambda run, a: run.address(int(a[0]))
        if name == "ptrtoint":
            return lambda _, a: a.at
        convert = instructions.CONVERSIONS[name]
        return lambda _, a: convert(a, kind)
    return READERS[name](step, rest)


def read_simple(work: Callable[..., Any]) -> Callable[[Step, str], Callable[..., Any]]:
    """Return a reader for an instruction that has operands only."""

    def read(step: Step, rest: str) -> Callable[..., Any]:
        step.take(rest)
        return work

    return read


def select(_: Run, condition: Array, a: Any, b: Any) -> Any:
    """Choose between values for each lane, or between addresses."""
    if isinstance(a, Address):
        return a if condition[0] else b
    return np.where(condition, a, b)


def insert(_: Run, a: Array, number: Array, lane: Array) -> Array:
    """A copy of lanes with another number in one."""
    result = a.copy()
    result[lane] = number
    return result


def shuffle(_: Run, a: Array, b: Array, lanes: Array) -> Array:
    """Pick lanes of two values; any that need not be a certain one is undefined."""
    known = (lanes >= 0) & (lanes < 2 * a.size)
    return np.where(
        known,
        np.concatenate([a, b])[np.where(known, lanes, 0)],
        np.full(a.itemsize, UNDEFINED, np.uint8).view(a.dtype),
    )


def read_element(step: Step, rest: str) -> Callable[..., Any]:
    """An address some elements further."""
    element, _, rest = rest.partition(", ")
    size = Type(element).dtype.itemsize
    step.take(rest)
    return lambda _, base, index: base._replace(at=base.at + index.astype(np.int64) * size)


def read_load(step: Step, rest: str) -> Callable[..., Any]:
    """Numbers, or an address, from memory."""
    kind, place, alignment = split(rest)
    step.take(place)
    to, multiple = Type.of(kind), int(alignment.split()[1])

    def load(run: Run, place: Address) -> Any:
        check_alignment(place, multiple)
        numbers = place.numbers(to, "reading").copy()
        return run.address(int(numbers[0])) if to.element == "ptr" else numbers

    return load


def read_store(step: Step, rest: str) -> Callable[..., Any]:
    """Write numbers, or an address, to memory."""
    value, place, alignment = split(rest.removeprefix("volatile "))
    kind, multiple = step.take(value), int(alignment.split()[1])
    step.take(place)

    def store(_: Run, value: Any, place: Address) -> None:
        check_alignment(place, multiple)
        target = place.numbers(kind, "writing")
        target[...] = value.at if isinstance(value, Address) else value

    return store


def check_alignment(place: Address, multiple: int) -> None:
    """Require an address that the instruction may be given."""
    if place.at[0] % multiple:
        raise ValueError(f"the address {place.at[0]:#x} is no multiple of {multiple}")


def read_fetch_add(step: Step, rest: str) -> Callable[..., Any]:
    """Add to a number in memory; the result is what it was."""
    step.take(re.sub(r"^add | \w+$", "", rest))

    def add(_: Run, place: Address, amount: Array) -> Array:
        target = place.numbers(Type("i64"), "adding to")
        before = target.copy()
        target += amount
        return before

    return add


def read_scratch(_: Step, rest: str) -> Callable[..., Any]:
    """Memory on the stack, aligned to 64 bytes."""
    size = int(rest[1:].partition(" ")[0])

    def allocate(run: Run) -> Address:
        owner = np.full(size + 64, UNDEFINED, np.uint8)
        start = -(-address_of(owner) // 64) * 64
        region = Region("scratch memory", start, size, owner)
        run.regions.insert(0, region)
        return Address(region, np.array([start]))

    return allocate


def read_call(step: Step, rest: str) -> Callable[..., Any]:
    """One of LLVM's functions, or a C function at an address."""
    match = re.fullmatch(rf"({TYPE}|void) ([%@][\w.]+)\((.*)\)", rest)
    assert match is not None, rest
    name, kind = match[2], Type.of(match[1])
    if name[0] == "%":
        step.operands.append(name)
    if match[3]:
        step.take(match[3])
    if name[0] == "%":
        return invoke
    name = name[1:]
    if name.startswith("llvm.prefetch"):
        return lambda *_: None
    if name.startswith("llvm.masked.gather"):
        return lambda _, *operands: gather(kind, operands[0], *operands[-2:])
    if name.startswith("llvm.fmuladd"):
        return lambda run, a, b, c: instructions.multiply_add(a, b, c) if run.fuses else a * b + c
    function = next(f for start, f in instructions.FUNCTIONS.items() if name.startswith(start))
    return lambda _, *operands: function(*operands, kind)


def gather(kind: Type, places: Address, condition: Array, others: Array) -> Array:
    """Read a number for each lane where a condition holds."""
    numbers, element = others.copy(), Type(kind.element)
    for lane in np.flatnonzero(condition).tolist():
        numbers[lane : lane + 1] = places.numbers(element, "reading", lane)
    return numbers


def invoke(_: Run, code: Address, *operands: Array) -> Array:
    """Call a C function of integers."""
    signature = [ctypes.c_int64] * (1 + len(operands))
    function = ctypes.CFUNCTYPE(*signature)(int(code.at[0]))
    return np.array([function(*(int(operand[0]) for operand in operands))])


def read_choice(step: Step, rest: str) -> Callable[..., Any]:
    """The operand for the block before."""
    kind = re.match(TYPE, rest)
    assert kind is not None, rest
    blocks = []
    for value, block in re.findall(r"\[ (.+?), %([\w.]+) \]", rest):
        step.take(f"{kind[0]} {value}")
        blocks.append(block)
    return lambda run: run.value(step.operands[blocks.index(run.before)])


def read_jump(step: Step, rest: str) -> Callable[..., Any]:
    """Set the block that is run next."""
    labels = re.findall(r"label %([\w.]+)", rest)
    if len(labels) == 2:
        step.take(split(rest)[0])

    def jump(run: Run, *condition: Array) -> None:
        run.after = labels[0] if not condition or condition[0][0] else labels[1]

    return jump


def read_end(step: Step, rest: str) -> Callable[..., Any]:
    """Return a number, or none."""
    if rest != "void":
        step.take(rest)

    def end(run: Run, *number: Array) -> None:
        run.after, run.number = "", int(number[0][0]) if number else 0

    return end


READERS = {
    "fneg": read_simple(lambda _, a: -a),
    "freeze": read_simple(lambda _, a: a),
    "select": read_simple(select),
    "extractelement": read_simple(lambda _, a, lane: a[lane]),
    "insertelement": read_simple(insert),
    "shufflevector": read_simple(shuffle),
    "getelementptr": read_element,
    "load": read_load,
    "store": read_store,
    "atomicrmw": read_fetch_add,
    "alloca": read_scratch,
    "call": read_call,
    "phi": read_choice,
    "br": read_jump,
    "ret": read_end,
}


# Fused products -----------------------------------------------------------------------------------


def fuse(blocks: Sequence[list[Step]]) -> None:
    """Round products and sums once where LLVM makes one instruction of them.

    It does so for a product that only this sum uses, of the same block; the first operand's before
    the second's.  What is the same in a block is computed once, and has all the uses.
    """
    needed = set(needed_steps([step for block in blocks for step in block]))
    first: dict[str, str] = {}
    for block in blocks:
        first |= repeated([step for step in block if step in needed])
    uses = Counter(
        first.get(name, name)
        for step in needed
        if step.result not in first
        for name in step.names()
    )
    for block in blocks:
        products = {step.result: step for step in block if " = fmul contract" in step.text}
        for step in block:
            if re.search(r" = f(add|sub) contract", step.text):
                fuse_one(step, products, uses, first)


def fuse_one(
    step: Step, products: dict[str, Step], uses: Counter[str], first: dict[str, str]
) -> None:
    """Fuse a sum with the first operand that is a product which has no other use."""
    for place, operand in enumerate(step.operands):
        name = first.get(operand, operand) if isinstance(operand, str) else None
        if name in products and uses[name] == 1:
            subtracts = step.name == "fsub"
            step.work = fused(subtracts and place == 1, subtracts and place == 0)
            step.operands = [*products[name].operands, step.operands[1 - place]]
            return


def needed_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Return the steps that have effects, and those whose results they need."""
    results = {step.result: step for step in steps if step.result}
    waiting = [step for step in steps if step.has_effects]
    while waiting:
        step = waiting.pop()
        yield step
        waiting += [results.pop(name) for name in step.names() if name in results]


def repeated(block: Sequence[Step]) -> dict[str, str]:
    """Return the names of results that a block has computed before, with the first such name."""
    names: dict[str, str] = {}
    steps: dict[Any, Step] = {}
    for step in block:
        if step.name not in ("phi", "load", "alloca") and not step.has_effects:
            operands = [names.get(name, name) for name in step.names()]
            commutes = step.name in ("fadd", "fmul")
            text = re.sub(r"%[\w.]+", "%", step.text.partition(" = ")[2])
            key = text.replace(" contract", ""), *(sorted(operands) if commutes else operands)
            same = steps.setdefault(key, step)
            if same is not step:
                names[step.result] = same.result
                if " contract" not in step.text:  # none of them may be fused then
                    same.text = same.text.replace(" contract", "")
    return names


def fused(negates_product: bool, negates_other: bool) -> Callable[..., Any]:
    """Return the work of a product and a sum, or a difference, in one."""

    def work(_: Run, a: Array, b: Array, c: Array) -> Array:
        return instructions.multiply_add(
            -a if negates_product else a, b, -c if negates_other else c
        )

    return work
