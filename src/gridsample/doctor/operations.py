"""Operations on values, and the indices of components: what the evaluator is made of."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from dataclasses import replace

from gridsample.doctor import values as v
from gridsample.doctor.names import Function
from gridsample.doctor.values import (
    Const,
    Flag,
    ListValue,
    Number,
    Shape,
    Stack,
    Symbol,
    Value,
    Variable,
)

HALF_DTYPES = {"float16": "float16", "half": "float16", "bfloat16": "bfloat16"}
HALF_DTYPES |= {"HalfTensor": "float16", "BFloat16Tensor": "bfloat16"}

# Functions on values ------------------------------------------------------------------------------


def arithmetic(op: ast.operator, left: Number, right: Number) -> Number | None:
    """Add, subtract, multiply or divide two numbers, if the result is linear."""
    match op:
        case ast.Add():
            return v.add(left, right)
        case ast.Sub():
            return v.add(left, right, operator.sub)
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
    if isinstance(left, ListValue) and isinstance(right, ListValue) and isinstance(op, ast.Add):
        return ListValue((*left.items, *right.items))
    return v.unknown(ast.unparse(node), "mixed")


def not_first(value: Value) -> Value:
    """Move the components of an array away from its first axis; other values stay as they are."""
    return replace(value, first=False) if isinstance(value, Stack) else value


def componentwise(op: ast.operator, left: Value, right: Value) -> Value:
    """Evaluate an operation on each component."""
    stacks = [operand for operand in (left, right) if isinstance(operand, Stack)]
    count = max(len(operand.parts) for operand in stacks)
    parts: list[Number | None] = []
    for i in range(count):
        pair = [component_of(operand, i) for operand in (left, right)]
        result = None
        if pair[0] is not None and pair[1] is not None:
            result = arithmetic(op, pair[0], pair[1])
        parts.append(result)
    is_first = any([operand.first for operand in stacks])
    return Stack(tuple(parts), stacks[0].names, is_first)


def component_of(value: Value, i: int) -> Number | None:
    """Return a component of a stack, or a number as it is."""
    if isinstance(value, Stack):
        return value.parts[i] if i < len(value.parts) else None
    return value if isinstance(value, Number) else None


def indices(count: Number, name: str, dim: int | None = None) -> Number:
    """Make the indices 0, 1, ... of pixels."""
    full_name = f"{name} {sorted(s.key for s in count.symbols)}"
    return v.of_variable(Variable("arange", full_name, count.offset, dim), count.symbols)


def has_flow(value: Value) -> bool:
    """Whether a flow is part of a value."""
    parts = value.parts if isinstance(value, Stack) else [value]
    return any(
        variable.kind == "flow"
        for number in parts
        if isinstance(number, Number)
        for variable, _ in number.terms
    )


def rename(number: Number, suffix: str) -> Number:
    """Return a component of an unknown array: variables whose names end in ``suffix``."""
    terms = tuple(
        (replace(variable, name=variable.name + suffix), scale) for variable, scale in number.terms
    )
    return replace(number, terms=terms)


def components_of(value: Value) -> Value:
    """Make an array of a list of numbers; other values stay as they are."""
    if isinstance(value, Shape):
        sizes = (shape_entry(value, 0), shape_entry(value, 1))
        value = ListValue(sizes) if value.start == -2 else None
    if isinstance(value, ListValue):
        if len(value.items) == 1 and isinstance(value.items[0], ListValue | Shape):
            return components_of(value.items[0])
        if value.items and all(isinstance(item, Number) for item in value.items):
            return Stack(tuple(item for item in value.items if isinstance(item, Number)))
        return None
    return value


def align_flag(options: dict[str, Value]) -> Flag:
    """Return align_corners among the arguments of a call."""
    if "align_corners" not in options:
        return Flag(None, "missing")
    option = options["align_corners"]
    if isinstance(option, Const) and (option.value is None or isinstance(option.value, bool)):
        return Flag(option.value, "default" if option.default else "given")
    return Flag(None, "unknown")


def meshgrid(arguments: list[Value], keywords: dict[str | None, Value], full: str) -> Value:
    """Evaluate meshgrid: its results vary along known axes."""
    indexing = keywords.get("indexing", Const("ij" if full.startswith("torch") else "xy"))
    lines = arguments
    if len(arguments) == 1 and isinstance(arguments[0], ListValue):
        lines = list(arguments[0].items)
    elif len(arguments) == 1 and isinstance(arguments[0], Number):
        return mesh_of_any(arguments[0], indexing)
    if not isinstance(indexing, Const):
        return ListValue(tuple(map(without_dims, lines)))
    dims = list(range(len(lines)))
    if indexing.value == "xy" and len(dims) > 1:
        dims[:2] = [1, 0]
    components = []
    for line, dim in zip(lines, dims, strict=True):
        components.append(v.with_dim(line, dim) if isinstance(line, Number) else None)
    return ListValue(tuple(components))


def mesh_of_any(line: Number, indexing: Value) -> Number:
    """Evaluate meshgrid for a number that stands for the lines along all axes, in a list."""
    stands_for_all = all(variable.dim == v.EACH for variable, _ in line.terms)
    in_order = stands_for_all and indexing == Const("ij")
    return v.with_dim(line, v.IN_ORDER if in_order else None)


def stack(components: Value, node: ast.Call) -> Value:
    """Evaluate stack and cat of components."""
    axis = argument(node, "dim", 1) or argument(node, "axis", 1) or ast.Constant(0)
    is_first = as_int(axis) == 0 and ast.unparse(node.func).rpartition(".")[2] != "dstack"
    if isinstance(components, Stack):
        return replace(components, first=is_first)
    if isinstance(components, Number):
        return components
    if not isinstance(components, ListValue) or not 2 <= len(components.items) <= 3:
        return None
    if not all(item is None or isinstance(item, Number) for item in components.items):
        return None
    names: tuple[str, ...] = ()
    if node.args and isinstance(node.args[0], ast.Tuple | ast.List):
        names = tuple(root_name(element) for element in node.args[0].elts)
    parts = tuple([item if isinstance(item, Number) else None for item in components.items])
    return Stack(parts, names, is_first)


def root_name(node: ast.expr) -> str:
    """Return the name that an expression such as ``grid_x[None].to(x)`` begins with, or ""."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return ""
    return node.id


def shape_entry(shape: Shape, position: int | None, text: str = "") -> Number:
    """Return an entry of a shape as a size; ``text`` identifies one at an unknown position."""
    axes: dict[int | None, str] = {-1: "x", -2: "y", 2: "y", 3: "x"}
    if "grid" in shape.owner.lower() or "coord" in shape.owner.lower():
        axes = {1: "y", 2: "x"}
    if shape.start == -2:
        axes = {0: "y", 1: "x", -1: "x", -2: "y"}
    key = f"{shape.owner}.shape[{shape.start}][{text or position}]"
    return v.size(Symbol(key, axes.get(position, ""), shape.owner))


def index_shape(shape: Shape, index: ast.expr) -> Value:
    """Return an entry of a shape, or a slice of it."""
    if not isinstance(index, ast.Slice):
        position = as_int(index)
        return shape_entry(shape, position, ast.unparse(index) if position is None else "")
    if is_reversal(index):
        return reversed_shape(shape)
    start, stop = as_int(index.lower), as_int(index.upper)
    if start == -1 and stop == -3 and as_int(index.step) == -1:
        return reversed_shape(shape)
    tail = index.upper is None and start in (-2, 2)
    head = index.lower is None and stop == 2
    return Shape(shape.owner, -2) if tail or head else Shape(shape.owner, -3)


def reversed_shape(shape: Shape) -> ListValue:
    """Return the last two entries of a shape, the width first."""
    return ListValue((shape_entry(shape, -1), shape_entry(shape, -2)))


def select(value: Number | Stack, index: ast.expr, node: ast.Subscript) -> Value:
    """Return a component of an array, its components reversed, or the array itself."""
    is_first = isinstance(value, Stack) and value.first
    position = first_index(index) if is_first else component_index(index)
    if position is not None:
        if isinstance(value, Stack):
            is_known = -len(value.parts) <= position < len(value.parts)
            return value.parts[position] if is_known else None
        if any(variable.is_index for variable, _ in value.terms):
            return v.unknown(ast.unparse(node))
        return rename(value, f"[{position}]")
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    if any(is_reversal(part) for part in parts[: 1 if is_first else None]):
        return flipped(value)
    if parts and isinstance(parts[0], ast.Constant | ast.Attribute):  # None, which adds an axis
        value = replace(value, first=False) if isinstance(value, Stack) else value
    others = [part for part in parts[1:] if not keeps_axis(part)]
    in_loop = len(others) == 1 and isinstance(others[0], ast.Name) and keeps_axis(parts[0])
    if in_loop and isinstance(value, Number):
        return value  # any of its components
    if all(keeps_axis(part) for part in parts):
        return value
    return v.unknown(ast.unparse(node))


def without_dims(value: Value) -> Value:
    """Forget along which axes of a mesh the indices vary."""
    return v.map_numbers(value, lambda n: v.with_dim(n, None))


def flipped(value: Value) -> Value:
    """Reverse the components of a stack, if an axis of components is flipped."""
    if isinstance(value, Shape):
        return reversed_shape(value)
    if isinstance(value, Stack):
        return replace(value, parts=value.parts[::-1], names=value.names[::-1])
    if isinstance(value, ListValue):
        return ListValue(value.items[::-1])
    return without_dims(value)


def split(value: Value) -> Value:
    """Evaluate split, chunk and unbind, as components."""
    if isinstance(value, Stack):
        return ListValue(value.parts)
    if isinstance(value, Number) and not any(variable.is_index for variable, _ in value.terms):
        return ListValue(tuple(rename(value, f"[{i}]") for i in range(3)))
    return None


def with_half(value: Value, half: str) -> Value:
    """Record that a value has this half precision, or for "" that it has a wider dtype."""
    return v.map_numbers(value, lambda n: replace(n, half=half))


def cast(value: Value, dtype: Value) -> Value:
    """Convert a value to a dtype, if there is one."""
    if isinstance(dtype, Const) and isinstance(dtype.value, str):
        return with_half(value, HALF_DTYPES.get(dtype.value.rpartition(".")[2], ""))
    return value


def cast_method(value: Value, arguments: Sequence[Value], name: str) -> Value:
    """Evaluate ``to``, ``type`` and ``astype``."""
    for argument in arguments:
        if isinstance(argument, Const) and isinstance(argument.value, str):
            last = argument.value.rpartition(".")[2]
            if last in HALF_DTYPES:
                return with_half(value, HALF_DTYPES[last])
            if last.startswith(("float", "double", "Float", "Double")):
                return with_half(value, "")
        elif name == "type_as" or not isinstance(argument, Const | None):
            return with_half(value, "")
    return value


# Syntax -------------------------------------------------------------------------------------------


def count_of_steps(node: ast.expr | None) -> ast.expr | None:
    """Return the number of points that an imaginary step in ``np.mgrid`` gives: w for ``w * 1j``.

    >>> ast.unparse(count_of_steps(ast.parse("complex(0, w)", mode="eval").body))
    'w'
    """
    match node:
        case ast.Constant(value=complex() as step):
            return ast.Constant(step.imag)
        case ast.BinOp(op=ast.Mult(), left=count, right=ast.Constant(value=complex() as unit)) if (
            unit == 1j
        ):
            return count
        case ast.BinOp(op=ast.Mult(), left=ast.Constant(value=complex() as unit), right=count) if (
            unit == 1j
        ):
            return count
        case ast.Call(func=ast.Name(id="complex"), args=[ast.Constant(value=0), count]):
            return count
    return None


def argument(node: ast.Call, name: str, position: int) -> ast.expr | None:
    """Return an argument of a call by its name or its position."""
    for keyword in node.keywords:
        if keyword.arg == name:
            return keyword.value
    return node.args[position] if position < len(node.args) else None


def as_int(node: ast.expr | None) -> int | None:
    """Return the integer that an expression is, or None."""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
    return None


def component_index(index: ast.expr) -> int | None:
    """Return which component ``[..., 0]``, ``[:, 0]`` or ``[:, 0:1]`` is, or None."""
    if not isinstance(index, ast.Tuple) or len(index.elts) < 2:
        return None
    result: int | None = None
    for n, part in enumerate(index.elts):
        if keeps_axis(part):
            continue
        position = as_int(part)
        if isinstance(part, ast.Slice) and part.step is None:
            low, high = as_int(part.lower) or 0, as_int(part.upper)
            position = low if high == low + 1 else None
        if position is None or result is not None or n == 0 or not -3 <= position <= 2:
            return None
        result = position
    return result


def first_index(index: ast.expr) -> int | None:
    """Return which component ``[0]`` or ``[0, :, :]`` is of those on the first axis, or None."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return as_int(parts[0]) if parts and all(map(keeps_axis, parts[1:])) else None


def keeps_axis(node: ast.expr) -> bool:
    """Whether an index keeps its axis, or adds one: ``:``, ``...``, ``None``."""
    match node:
        case ast.Slice(lower=None, upper=None, step=None):
            return True
        case ast.Constant(value=value):
            return value is None or value is ...
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


def permuted(value: Value, arguments: Sequence[ast.expr]) -> Value:
    """Evaluate permute, and NumPy's transpose."""
    return not_first(value if keeps_order(arguments) else without_dims(value))


def keeps_order(arguments: Sequence[ast.expr]) -> bool:
    """Whether a permutation moves one axis only, so that rows and columns keep their order."""
    if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple | ast.List):
        arguments = arguments[0].elts
    axes = [as_int(argument) for argument in arguments]
    if None in axes:
        return False
    usual = ([0, 2, 3, 1], [1, 2, 0], [0, 2, 3, 4, 1], [1, 2, 3, 0], [0, 3, 1, 2], [2, 0, 1])
    return axes in usual


def item_key(node: ast.Subscript) -> str:
    """Return a name for an entry of a dictionary: parts of the key that vary are left out.

    >>> item_key(ast.parse("outputs['warped', frame, 0]", mode="eval").body)
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
        items = value.items if isinstance(value, ListValue) else ()
        for n, part in enumerate(target.elts):
            bind_names(names, part, items[n] if n < len(items) else None)
