"""Functions of array libraries and of Python, evaluated on values."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass

from gridsample.doctor import values as v
from gridsample.doctor.operations import (
    binary,
    cast,
    components_of,
    flipped,
    indices,
    meshgrid,
    not_first,
    permuted,
    split,
    stack,
    without_dims,
)
from gridsample.doctor.values import Const, ListValue, Number, Shape, Stack, Value

# What is returned for a function that is not known.
UNKNOWN = Const("a function that is not known")


@dataclass(frozen=True)
class Call:
    """A call of a function whose arguments are evaluated.

    Attributes:
        node: its syntax.
        name: the full name of the function.
        arguments: the values of its positional arguments.
        keywords: the values of the others.
    """

    node: ast.Call
    name: str
    arguments: list[Value]
    keywords: dict[str | None, Value]

    def get(self, position: int, *names: str) -> Value:
        """Return an argument by its position, or by one of its names; None if it is not given."""
        if position < len(self.arguments):
            return self.arguments[position]
        return next((self.keywords[name] for name in names if name in self.keywords), None)

    def numbers(self) -> list[Number] | None:
        """Return the positional arguments if all of them are numbers."""
        numbers = [argument for argument in self.arguments if isinstance(argument, Number)]
        return numbers if len(numbers) == len(self.arguments) else None


def evaluate(call: Call) -> Value:
    """Return what a function of an array library or of Python returns; UNKNOWN if it is unknown."""
    name = call.name.rpartition(".")[2]
    function = FUNCTIONS.get(name.rstrip("_"))
    result: Value = UNKNOWN if function is None else function(call)
    if isinstance(result, Number | Stack):
        return cast(result, call.keywords.get("dtype"))
    return result


def arange(call: Call) -> Value:
    """Evaluate arange and range for a stop, or a start and a stop."""
    numbers, text = call.numbers(), ast.unparse(call.node)
    if numbers is None or not 1 <= len(numbers) <= 2:
        return None
    start, stop = numbers if len(numbers) == 2 else (v.constant(0), numbers[0])
    if not (start.constant and stop.constant):
        return None
    count = v.add(stop, start, operator.sub)
    if call.name == "torch.range":  # it includes its end
        count = v.add(count, v.constant(1))
    return v.add(indices(count, text), start)


def linspace(call: Call) -> Value:
    """Evaluate linspace."""
    start, stop = call.get(0, "start"), call.get(1, "end", "stop")
    count = call.get(2, "steps", "num")
    if not (isinstance(start, Number) and isinstance(stop, Number) and isinstance(count, Number)):
        return None
    return v.linspace(start, stop, count, ast.unparse(call.node))


def index_arrays(call: Call) -> Value:
    """Evaluate ``np.indices((H, W))``."""
    sizes = components_of(call.get(0, "dimensions"))
    if not isinstance(sizes, Stack) or not all(part and part.constant for part in sizes.parts):
        return None
    components = [indices(n, f"indices {k}", k) for k, n in enumerate(sizes.parts) if n]
    return Stack(tuple(components), first=True)


def create_meshgrid(call: Call) -> Value:
    """Evaluate Kornia's mesh: (x, y) on the last axis, by default from -1 to 1."""
    height, width = call.get(0, "height"), call.get(1, "width")
    chosen = call.get(2, "normalized_coordinates")
    if not isinstance(height, Number) or not isinstance(width, Number):
        return UNKNOWN
    if not (height.constant and width.constant) or not isinstance(chosen, Const | None):
        return UNKNOWN
    parts: list[Number | None] = []
    for dim, n in ((1, width), (0, height)):
        line = v.linspace(v.constant(-1), v.constant(1), n, f"create_meshgrid {dim}")
        is_normalized = chosen is None or chosen.value is True
        part = line if is_normalized else indices(n, f"create_meshgrid {dim}")
        parts.append(part and v.with_dim(part, dim))
    return Stack(tuple(parts))


def extremum(call: Call) -> Value:
    """Evaluate max and min of two constants, one of which may be a size."""
    numbers = call.numbers()
    if numbers is None or len(numbers) != 2 or not all(n.constant for n in numbers):
        return UNKNOWN
    if all(n.symbols for n in numbers) and numbers[0] != numbers[1]:
        return v.unknown(ast.unparse(call.node), "mixed")  # either of two sizes
    choose = max if call.name.endswith("max") else min
    pairs = zip(numbers[0].offset, numbers[1].offset, strict=True)
    offset = tuple(choose(a, b) for a, b in pairs)
    return Number(offset, symbols=numbers[0].symbols | numbers[1].symbols)


def of_first(function: Callable[[Value], Value]) -> Callable[[Call], Value]:
    """Make the evaluation of a function that depends on its first argument only."""
    return lambda call: function(call.arguments[0]) if call.arguments else UNKNOWN


def sequence(call: Call) -> Value:
    """Evaluate list, tuple and reversed."""
    value = call.get(0)
    if call.name == "reversed":
        return flipped(value)
    if isinstance(value, ListValue | Shape):
        return value
    return of_first(components_of)(call)


def permutation(call: Call) -> Value:
    """Evaluate permute and transpose."""
    return permuted(call.arguments[0], call.node.args[1:]) if call.arguments else UNKNOWN


def operation(op: ast.operator) -> Callable[[Call], Value]:
    """Make the evaluation of ``torch.mul(a, b)`` and ``a.mul(b)``."""

    def evaluate_operation(call: Call) -> Value:
        right = call.get(1, "other")
        if not call.arguments or right is None or len(call.arguments) > 2:
            return v.unknown(ast.unparse(call.node), "mixed")
        return binary(op, call.arguments[0], right, call.node)

    return evaluate_operation


def named_functions() -> dict[str, Callable[[Call], Value]]:
    """Return the functions by the last parts of their names."""
    functions: dict[str, Callable[[Call], Value]] = {
        "arange": arange,
        "range": arange,
        "linspace": linspace,
        "max": extremum,
        "min": extremum,
        "indices": index_arrays,
        "create_meshgrid": create_meshgrid,
        "meshgrid": lambda call: meshgrid(call.arguments, call.keywords, call.name),
    }

    def add(names: str, function: Callable[[Call], Value]) -> None:
        functions.update(dict.fromkeys(names.split(), function))

    for op, names in (
        (ast.Add(), "add"),
        (ast.Sub(), "sub subtract"),
        (ast.Mult(), "mul multiply"),
        (ast.Div(), "div divide true_divide"),
    ):
        add(names, operation(op))
    add(
        "stack cat concat concatenate dstack",
        lambda call: stack(call.get(0, "tensors", "arrays"), call.node),
    )
    add("list tuple reversed", sequence)
    add(  # these change neither values nor the order of components
        """tensor as_tensor Tensor FloatTensor array asarray from_numpy float int float32 float64
        Variable Parameter clone ascontiguousarray round clamp clip Size new_tensor""",
        of_first(components_of),
    )
    add(
        "unsqueeze expand_dims moveaxis movedim",
        of_first(lambda value: not_first(components_of(value))),
    )
    add("flip flipud fliplr", of_first(flipped))
    add("rearrange reshape repeat", of_first(lambda value: not_first(without_dims(value))))
    add("permute transpose", permutation)
    add("broadcast_arrays broadcast_tensors", lambda call: ListValue(tuple(call.arguments)))
    add("chunk split unbind", of_first(split))
    return functions


FUNCTIONS = named_functions()
