"""Operations on values, and the indices of components: what the evaluator is made of."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from dataclasses import replace

from gridsample.doctor import values as v
from gridsample.doctor.names import Function
from gridsample.doctor.values import Base, Const, Flag, Number, Pack, Shape, Stack, Symbol, Value

HALVES = {"float16": "float16", "half": "float16", "bfloat16": "bfloat16"}
HALVES |= {"HalfTensor": "float16", "BFloat16Tensor": "bfloat16"}

# Functions on values ------------------------------------------------------------------------------


def arithmetic(op: ast.operator, left: Number, right: Number) -> Number | None:
    """Add, subtract, multiply or divide two numbers, if the result is linear."""
    match op:
        case ast.Add():
            return v.add(left, right)
        case ast.Sub():
            return v.add(left, right, -1.0)
        case ast.Mult() if right.constant:
            return v.scaled(left, right, operator.mul)
        case ast.Mult() if left.constant:
            return v.scaled(right, left, operator.mul)
        case ast.Div() if right.constant:
            return v.scaled(left, right, operator.truediv)
        case ast.FloorDiv() if right.constant and left.constant:
            return v.scaled(left, right, operator.floordiv)
    return None


def binary(op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    """Evaluate an operation on two values; what is not linear becomes unknown."""
    if isinstance(left, Stack) or isinstance(right, Stack):
        return componentwise(op, left, right)
    if isinstance(left, Number) and isinstance(right, Number):
        result = arithmetic(op, left, right)
        if result is not None:
            return result
    if isinstance(left, Pack) and isinstance(right, Pack) and isinstance(op, ast.Add):
        return Pack((*left.items, *right.items))
    return v.unknown(ast.unparse(node), "mixed")


def componentwise(op: ast.operator, left: Value, right: Value) -> Value:
    """Evaluate an operation on each component."""
    count = max(len(operand.parts) for operand in (left, right) if isinstance(operand, Stack))
    parts: list[Number | None] = []
    for i in range(count):
        pair = [part_of(operand, i) for operand in (left, right)]
        result = None
        if pair[0] is not None and pair[1] is not None:
            result = arithmetic(op, pair[0], pair[1])
        parts.append(result)
    names = next(operand.names for operand in (left, right) if isinstance(operand, Stack))
    return Stack(tuple(parts), names)


def part_of(value: Value, i: int) -> Number | None:
    """Return a component of a stack, or a number as it is."""
    if isinstance(value, Stack):
        return value.parts[i] if i < len(value.parts) else None
    return value if isinstance(value, Number) else None


def indices(count: Number, name: str, dim: int | None = None) -> Number:
    """Make the indices 0, 1, ... of pixels."""
    base = Base("arange", f"{name} {sorted(s.key for s in count.symbols)}", count.offset, dim)
    return Number((0.0,) * v.SAMPLES, ((base, (1.0,) * v.SAMPLES),), count.symbols)


def has_flow(value: Value) -> bool:
    """Whether a flow is part of a value."""
    parts = value.parts if isinstance(value, Stack) else [value]
    return any(
        base.kind == "flow"
        for number in parts
        if isinstance(number, Number)
        for base, _ in number.terms
    )


def rename(number: Number, suffix: str) -> Number:
    """Make the component of an unknown array."""
    terms = tuple((replace(base, name=base.name + suffix), scale) for base, scale in number.terms)
    return replace(number, terms=terms)


def components_of(value: Value) -> Value:
    """Make an array of a list of numbers; other values stay as they are."""
    if isinstance(value, Shape):
        value = Pack(tuple(entry(value, n) for n in (0, 1))) if value.start == -2 else None
    if isinstance(value, Pack):
        if len(value.items) == 1 and isinstance(value.items[0], Pack | Shape):
            return components_of(value.items[0])
        if value.items and all(isinstance(item, Number) for item in value.items):
            return Stack(tuple(item for item in value.items if isinstance(item, Number)))
        return None
    return value


def flag_of(options: dict[str, Value], name: str = "align_corners") -> Flag:
    """Return the value of an option as a flag."""
    if name not in options:
        return Flag(None, "missing")
    option = options[name]
    if isinstance(option, Const) and (option.value is None or isinstance(option.value, bool)):
        return Flag(option.value, "default" if option.default else "given")
    return Flag(None, "unknown")


def meshgrid(arguments: list[Value], keywords: dict[str | None, Value], full: str) -> Value:
    """Evaluate meshgrid: its results vary along known axes."""
    lines = arguments
    if len(arguments) == 1 and isinstance(arguments[0], Pack):
        lines = list(arguments[0].items)
    elif len(arguments) == 1 and isinstance(arguments[0], Number):
        return moved(arguments[0])  # one of each axis, in a list
    indexing = keywords.get("indexing", Const("ij" if full.startswith("torch") else "xy"))
    if not isinstance(indexing, Const):
        return Pack(tuple(v.change(line, lambda n: v.along(n, None)) for line in lines))
    dims = list(range(len(lines)))
    if indexing.value == "xy" and len(dims) > 1:
        dims[:2] = [1, 0]
    components = []
    for line, dim in zip(lines, dims, strict=True):
        components.append(v.along(line, dim) if isinstance(line, Number) else None)
    return Pack(tuple(components))


def stack(components: Value, node: ast.Call) -> Value:
    """Evaluate stack and cat of components."""
    if isinstance(components, Stack | Number):
        return components
    if not isinstance(components, Pack) or not 2 <= len(components.items) <= 3:
        return None
    if not all(item is None or isinstance(item, Number) for item in components.items):
        return None
    names: tuple[str, ...] = ()
    if node.args and isinstance(node.args[0], ast.Tuple | ast.List):
        names = tuple(first_name(element) for element in node.args[0].elts)
    return Stack(
        tuple(item if isinstance(item, Number) else None for item in components.items), names
    )


def first_name(node: ast.expr) -> str:
    """Return the name that an expression such as ``grid_x[None].to(x)`` begins with, or ""."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return ""
    return node.id


def entry(shape: Shape, place: int | None, text: str = "") -> Number:
    """Return an entry of a shape as a size; ``text`` identifies an entry whose place is unknown."""
    axes: dict[int | None, str] = {-1: "x", -2: "y", 2: "y", 3: "x"}
    if "grid" in shape.owner.lower() or "coord" in shape.owner.lower():
        axes = {1: "y", 2: "x"}
    if shape.start == -2:
        axes = {0: "y", 1: "x", -1: "x", -2: "y"}
    key = f"{shape.owner}.shape[{shape.start}][{text or place}]"
    return v.size(Symbol(key, axes.get(place, ""), shape.owner))


def entries(shape: Shape, index: ast.expr) -> Value:
    """Return an entry of a shape, or a slice of it."""
    if not isinstance(index, ast.Slice):
        place = as_int(index)
        return entry(shape, place, ast.unparse(index) if place is None else "")
    if is_reversal(index):
        return reversed_shape(shape)
    start, stop = as_int(index.lower), as_int(index.upper)
    if start == -1 and stop == -3 and as_int(index.step) == -1:
        return reversed_shape(shape)
    tail = index.upper is None and start in (-2, 2)
    head = index.lower is None and stop == 2
    return Shape(shape.owner, -2) if tail or head else Shape(shape.owner, -3)


def reversed_shape(shape: Shape) -> Pack:
    """Return the last two entries of a shape, the width first."""
    return Pack((entry(shape, -1), entry(shape, -2)))


def piece(value: Number | Stack, index: ast.expr, node: ast.Subscript) -> Value:
    """Return a component of an array, its components reversed, or the array itself."""
    place = component(index)
    if place is not None:
        if isinstance(value, Stack):
            return value.parts[place] if -len(value.parts) <= place < len(value.parts) else None
        if any(base.kind in ("arange", "line") for base, _ in value.terms):
            return v.unknown(ast.unparse(node))
        return rename(value, f"[{place}]")
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    if any(is_reversal(part) for part in parts):
        return flipped(value)
    others = [part for part in parts[1:] if not is_plain(part)]
    each = len(others) == 1 and isinstance(others[0], ast.Name) and is_plain(parts[0])
    if each and isinstance(value, Number):
        return value  # any of its components
    if all(is_plain(part) for part in parts):
        return value
    return v.unknown(ast.unparse(node))


def moved(value: Value) -> Value:
    """Forget along which axes of a mesh the indices vary."""
    return v.change(value, lambda n: v.along(n, None))


def flipped(value: Value) -> Value:
    """Reverse the components of a stack, if an axis of components is flipped."""
    if isinstance(value, Shape):
        return reversed_shape(value)
    if isinstance(value, Stack):
        return Stack(value.parts[::-1], value.names[::-1])
    if isinstance(value, Pack):
        return Pack(value.items[::-1])
    return moved(value)


def split(value: Value) -> Value:
    """Evaluate split, chunk and unbind, as components."""
    if isinstance(value, Stack):
        return Pack(value.parts)
    if isinstance(value, Number) and not any(
        base.kind in ("arange", "line") for base, _ in value.terms
    ):
        return Pack(tuple(rename(value, f"[{i}]") for i in range(3)))
    return None


def with_half(value: Value, half: str) -> Value:
    """Say that a value was converted to half precision, or to a wider dtype."""
    return v.change(value, lambda n: replace(n, half=half))


def cast(value: Value, dtype: Value) -> Value:
    """Convert a value to a dtype, if there is one."""
    if isinstance(dtype, Const) and isinstance(dtype.value, str):
        return with_half(value, HALVES.get(dtype.value.rpartition(".")[2], ""))
    return value


def cast_by(value: Value, arguments: Sequence[Value], name: str) -> Value:
    """Evaluate ``to``, ``type`` and ``astype``."""
    for argument in arguments:
        if isinstance(argument, Const) and isinstance(argument.value, str):
            last = argument.value.rpartition(".")[2]
            if last in HALVES:
                return with_half(value, HALVES[last])
            if last.startswith(("float", "double", "Float", "Double")):
                return with_half(value, "")
        elif name == "type_as" or not isinstance(argument, Const | None):
            return with_half(value, "")
    return value


# Syntax -------------------------------------------------------------------------------------------


def as_int(node: ast.expr | None) -> int | None:
    """Return the integer that an expression is, or None."""
    match node:
        case ast.Constant(value=int() as found) if not isinstance(found, bool):
            return found
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as found)):
            return -found
    return None


def component(index: ast.expr) -> int | None:
    """Return which component ``[..., 0]``, ``[:, 0]`` or ``[:, 0:1]`` is, or None."""
    if not isinstance(index, ast.Tuple) or len(index.elts) < 2:
        return None
    result: int | None = None
    for n, entry in enumerate(index.elts):
        if is_plain(entry):
            continue
        place = as_int(entry)
        if isinstance(entry, ast.Slice) and entry.step is None:
            low, high = as_int(entry.lower) or 0, as_int(entry.upper)
            place = low if high == low + 1 else None
        if place is None or result is not None or n == 0 or not -3 <= place <= 2:
            return None
        result = place
    return result


def is_plain(node: ast.expr) -> bool:
    """Whether an index keeps its axis, or adds one: ``:``, ``...``, ``None``."""
    match node:
        case ast.Slice(lower=None, upper=None, step=None):
            return True
        case ast.Constant(value=found):
            return found is None or found is ...
        case ast.Attribute(attr="newaxis"):
            return True
    return False


def is_reversal(node: ast.expr) -> bool:
    """Whether an index is ``::-1``, ``[1, 0]`` or ``[2, 1, 0]``."""
    if isinstance(node, ast.Slice):
        return node.lower is None and node.upper is None and as_int(node.step) == -1
    if isinstance(node, ast.List | ast.Tuple):
        axes = [as_int(element) for element in node.elts]
        return axes in ([1, 0], [2, 1, 0])
    return False


def keeps_order(arguments: Sequence[ast.expr]) -> bool:
    """Whether a permutation moves one axis only, so that rows and columns keep their order."""
    if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple | ast.List):
        arguments = arguments[0].elts
    axes = [as_int(argument) for argument in arguments]
    if None in axes:
        return False
    usual = ([0, 2, 3, 1], [1, 2, 0], [0, 2, 3, 4, 1], [1, 2, 3, 0], [0, 3, 1, 2], [2, 0, 1])
    return axes in usual


def entry_key(node: ast.Subscript) -> str:
    """Return a name for an entry of a dictionary: parts of the key that vary are left out.

    >>> entry_key(ast.parse("outputs['warped', frame, 0]", mode="eval").body)
    "outputs['warped', _, 0]"
    """
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    words = [repr(part.value) if isinstance(part, ast.Constant) else "_" for part in parts]
    return f"{ast.unparse(node.value)}[{', '.join(words)}]"


def is_static(function: Function) -> bool:
    """Whether a method has no ``self``."""
    return any(ast.unparse(node) == "staticmethod" for node in function.decorator_list)


def bind_names(names: dict[str, Value], target: ast.expr, value: Value) -> None:
    """Assign a value to the name, or the names, that an iteration binds."""
    if isinstance(target, ast.Name):
        names.pop(target.id, None)
        if value is not None:
            names[target.id] = value
    elif isinstance(target, ast.Tuple):
        items = value.items if isinstance(value, Pack) else ()
        for n, part in enumerate(target.elts):
            bind_names(names, part, items[n] if n < len(items) else None)
