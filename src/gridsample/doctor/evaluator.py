"""What expressions of a file are worth: see `values`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from gridsample.doctor import values as v
from gridsample.doctor.names import Module
from gridsample.doctor.operations import (
    arithmetic,
    as_int,
    cast,
    cast_by,
    component,
    components_of,
    flag_of,
    has_flow,
    indices,
    is_plain,
    is_reversal,
    keeps_order,
    meshgrid,
    part_of,
    rename,
    split,
    stack,
    with_half,
)
from gridsample.doctor.values import Base, Const, Flag, Number, Pack, Shape, Stack, Symbol, Value

# Methods that change neither the values nor the order of components.
KEEPING = frozenset((
    "clone", "contiguous", "detach", "repeat", "expand", "expand_as", "unsqueeze", "squeeze", "cpu",
    "cuda", "copy", "clamp", "clip", "requires_grad_", "to", "type", "type_as", "astype", "float",
    "double", "half", "bfloat16", "view_as", "permute",
))  # fmt: skip
# Methods after which it is not known along which axes the indices of a mesh vary.
MOVING = frozenset(("view", "reshape", "flatten", "transpose", "swapaxes", "t", "ravel"))
CASTS = {"float": "", "double": "", "half": "float16", "bfloat16": "bfloat16"}
LIBRARIES = ("torch", "numpy", "cupy", "jax", "einops", "mindspore", "paddle")
# How deep calls of functions of the same file are followed.
DEPTH = 3
# What is returned for a function that is not known.
UNKNOWN = Const("a function that is not known")


class Checker(Protocol):
    """What is told of each call of a function that is checked."""

    def __call__(
        self, node: ast.Call, function_kind: str, arguments: dict[str, Value], scope: Scope
    ) -> None:
        """Check a call."""


class Scope:
    """The names of a function and what they are worth; evaluates expressions.

    Attributes:
        module: the file.
        names: values by name; attributes as "self.name".
        check: is told of calls, or None.
        run: runs the body of a function of the file, and returns what it returns.
        function: the function, or None at the top of the file.
        depth: how many calls deep it is.
        resized: align_corners of each interpolate of an image in the function that says it.
    """

    def __init__(
        self,
        module: Module,
        names: dict[str, Value],
        check: Checker | None,
        run: Callable[[Scope, ast.FunctionDef, dict[str, Value]], Value],
        function: ast.AST | None = None,
        depth: int = 0,
    ) -> None:
        self.module, self.names, self.check, self.run = module, names, check, run
        self.function, self.depth = function, depth
        self.resized: list[tuple[ast.Call, Flag]] = []

    # Names ----------------------------------------------------------------------------------------

    def look_up(self, name: str) -> Value:
        """Return the value of a name, or what the name says."""
        if name in self.names:
            return self.names[name]
        if v.is_flow(name):
            return v.unknown(name, "flow")
        axis = v.size_axis(name)
        if axis:
            return v.size(Symbol(name, axis))
        return v.unknown(name)

    def value(self, node: ast.expr | None) -> Value:
        """Evaluate an expression."""
        match node:
            case None:
                return None
            case ast.Constant(value=bool() | str() | None as word):
                return Const(word)
            case ast.Constant(value=int() | float() as number):
                return v.constant(number)
            case ast.Name(id=name):
                return self.look_up(name)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return Pack(tuple(self.value(element) for element in elements))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                result = self.value(operand)
                return v.change(result, lambda n: v.scaled(n, v.constant(-1), operator.mul))
            case ast.BinOp():
                return self.binary(node.op, self.value(node.left), self.value(node.right), node)
            case ast.Subscript():
                return self.subscript(node)
            case ast.Call():
                return self.call(node)
            case ast.IfExp():
                self.value(node.test)
                first, second = self.value(node.body), self.value(node.orelse)
                return first if first == second else None
            case ast.NamedExpr(target=ast.Name(id=name)):
                self.names[name] = self.value(node.value)
                return self.names[name]
            case ast.Lambda(args=arguments, body=body):
                outer = self.names
                hidden = {parameter.arg for parameter in arguments.args}
                self.names = {key: value for key, value in outer.items() if key not in hidden}
                self.value(body)
                self.names = outer
                return None
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
            elif isinstance(child, ast.comprehension):
                self.value(child.iter)
        return None

    def attribute(self, node: ast.Attribute) -> Value:
        """Evaluate ``x.shape``, ``torch.float16``, ``self.width`` and the like."""
        text = ast.unparse(node)
        if node.attr == "shape":
            return Shape(ast.unparse(node.value))
        if node.attr in ("T", "mT"):
            return self.moved(self.value(node.value))
        if node.attr == "data":
            return self.value(node.value)
        full = self.module.qualify(node)
        if full.partition(".")[0] in LIBRARIES:
            return Const(full)
        return self.look_up(text)

    # Arithmetic -----------------------------------------------------------------------------------

    def binary(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        """Evaluate an operation on two values; what is not linear becomes unknown."""
        if isinstance(left, Stack) or isinstance(right, Stack):
            return self.componentwise(op, left, right, node)
        if isinstance(left, Number) and isinstance(right, Number):
            result = arithmetic(op, left, right)
            if result is not None:
                return result
        if isinstance(left, Pack) and isinstance(right, Pack) and isinstance(op, ast.Add):
            return Pack((*left.items, *right.items))
        return v.unknown(ast.unparse(node), "mixed")

    def componentwise(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
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

    # Subscripts -----------------------------------------------------------------------------------

    def subscript(self, node: ast.Subscript) -> Value:
        """Evaluate ``x.shape[-1]``, ``grid[..., 0]``, ``np.mgrid[0:H, 0:W]`` and the like."""
        value = self.value(node.value)
        index = node.slice
        if isinstance(node.value, ast.Attribute) and node.value.attr == "mgrid":
            return self.mgrid(index)
        if isinstance(value, Shape):
            return self.entry(value, index)
        if isinstance(value, Pack):
            if is_reversal(index):
                return Pack(value.items[::-1])
            place = as_int(index)
            if place is not None and -len(value.items) <= place < len(value.items):
                return value.items[place]
            return None
        if isinstance(value, Number | Stack):
            return self.piece(value, index, node)
        return None

    def piece(self, value: Number | Stack, index: ast.expr, node: ast.Subscript) -> Value:
        """Return a component of an array, its components reversed, or the array itself."""
        place = component(index)
        if place is not None:
            if isinstance(value, Stack):
                return value.parts[place] if -len(value.parts) <= place < len(value.parts) else None
            if any(base.kind in ("arange", "line") for base, _ in value.terms):
                return v.unknown(ast.unparse(node))
            return rename(value, f"[{place}]")
        entries = index.elts if isinstance(index, ast.Tuple) else [index]
        if any(is_reversal(entry) for entry in entries):
            if isinstance(value, Stack):
                return Stack(value.parts[::-1], value.names[::-1])
            return rename(value, "[::-1]")
        if all(is_plain(entry) for entry in entries):
            return value
        return v.unknown(ast.unparse(node))

    def entry(self, shape: Shape, index: ast.expr) -> Value:
        """Return an entry of a shape as a size, or the end of a shape."""
        if isinstance(index, ast.Slice):
            if is_reversal(index):
                sizes = [self.entry(shape, ast.Constant(n)) for n in (-1, -2)]
                return Pack(tuple(sizes))
            start = as_int(index.lower)
            tail = index.upper is None and start in (-2, 2)
            head = index.lower is None and as_int(index.upper) == 2
            return Shape(shape.owner, -2) if tail or head else Shape(shape.owner, -3)
        place = as_int(index)
        text = ast.unparse(index) if place is None else str(place)
        axes: dict[int | None, str] = {-1: "x", -2: "y", 2: "y", 3: "x"}
        if "grid" in shape.owner.lower() or "coord" in shape.owner.lower():
            axes = {1: "y", 2: "x"}
        if shape.start == -2:
            axes = {0: "y", 1: "x", -1: "x", -2: "y"}
        key = f"{shape.owner}.shape[{shape.start}][{text}]"
        return v.size(Symbol(key, axes.get(place, ""), shape.owner))

    def mgrid(self, index: ast.expr) -> Value:
        """Evaluate ``np.mgrid[0:H, 0:W]``."""
        entries = index.elts if isinstance(index, ast.Tuple) else [index]
        components: list[Value] = []
        for dim, entry in enumerate(entries):
            upper = self.value(entry.upper) if isinstance(entry, ast.Slice) else None
            fits = (
                isinstance(entry, ast.Slice) and not entry.step and as_int(entry.lower) in (0, None)
            )
            if not fits or not isinstance(upper, Number) or not upper.constant:
                return None
            components.append(indices(upper, f"mgrid {dim}", dim))
        return Pack(tuple(components))

    # Calls ----------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Value:
        """Evaluate a call, and have it checked."""
        arguments = [self.value(argument) for argument in node.args]
        keywords = {keyword.arg: self.value(keyword.value) for keyword in node.keywords}
        known = self.module.known(node.func)
        if known is not None:
            return self.known_call(node, known, arguments, keywords)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        full = self.module.qualify(node.func)
        if full.partition(".")[0] in LIBRARIES or (isinstance(node.func, ast.Name) and not name):
            result = self.library_call(full.rpartition(".")[2], node, arguments, keywords)
            if result is not UNKNOWN:
                return result
        inlined = self.local_call(node, arguments, keywords)
        if inlined is not UNKNOWN:
            return inlined
        if isinstance(node.func, ast.Attribute) and full.partition(".")[0] not in LIBRARIES:
            return self.method(node, self.value(node.func.value), arguments, keywords)
        return self.opaque(node, arguments)

    def opaque(self, node: ast.Call, arguments: Sequence[Value]) -> Value:
        """Make the result of an unknown function; "mixed" if it may change the units of a flow."""
        text = ast.unparse(node)
        flows = any(has_flow(argument) for argument in arguments)
        bounded = any(word in text.lower() for word in ("norm", "tanh", "sigmoid", "scale", "conv"))
        return v.unknown(text, "mixed" if flows or bounded else "call")

    def known_call(
        self,
        node: ast.Call,
        known: tuple[str, tuple[str, ...]],
        arguments: Sequence[Value],
        keywords: dict[str | None, Value],
    ) -> Value:
        """Evaluate a call of a function that is checked, and have it checked."""
        function_kind, names = known
        hidden = None in keywords or any(
            isinstance(argument, ast.Starred) for argument in node.args
        )
        arguments_by_name: dict[str, Value] = dict(zip(names, arguments, strict=False))
        arguments_by_name |= {key: value for key, value in keywords.items() if key is not None}
        if hidden:
            arguments_by_name.setdefault("align_corners", None)
            arguments_by_name.setdefault("antialias", None)
        if self.check is not None:
            self.check(node, function_kind, arguments_by_name, self)
        align = flag_of(arguments_by_name)
        if function_kind == "resize":
            field = v.is_field(ast.unparse(node.args[0] if node.args else node))
            if align.state == "given" and align.value is not None and not field:
                self.resized.append((node, align))
            image = arguments_by_name.get("input")
            if isinstance(image, Stack):  # a field of coordinates, which are now some in between
                return v.change(image, lambda number: replace(number, resized=align))
            result = image if isinstance(image, Number) else v.unknown(ast.unparse(node))
            return replace(result, resized=align)
        if function_kind.endswith("affine"):
            base = Base("affine", ast.unparse(node), align=align)
            return Number((0.0,) * v.SAMPLES, ((base, (1.0,) * v.SAMPLES),))
        return v.unknown(ast.unparse(node), "mixed")

    def library_call(
        self,
        name: str,
        node: ast.Call,
        arguments: list[Value],
        keywords: dict[str | None, Value],
    ) -> Value:
        """Evaluate a function of an array library, or of Python."""
        numbers = [argument for argument in arguments if isinstance(argument, Number)]
        all_numbers = len(numbers) == len(arguments)
        result: Value = UNKNOWN
        if name in ("arange", "range"):
            result = self.arange(numbers) if all_numbers else None
        elif name == "linspace":
            ends = [*arguments, *(keywords.get(k) for k in ("steps", "num") if k in keywords)]
            numbers_of_line = [end for end in ends[:3] if isinstance(end, Number)]
            result = (
                v.line(
                    numbers_of_line[0], numbers_of_line[1], numbers_of_line[2], ast.unparse(node)
                )
                if len(numbers_of_line) == 3
                else None
            )
        elif name == "meshgrid":
            result = meshgrid(arguments, keywords, self.module.qualify(node.func))
        elif name in ("stack", "cat", "concat", "concatenate", "dstack"):
            components = arguments[0] if arguments else keywords.get("tensors")
            result = stack(components, node)
        elif name in ("max", "min") and len(numbers) == 2 and all(n.constant for n in numbers):
            choose = max if name == "max" else min
            pair = zip(numbers[0].offset, numbers[1].offset, strict=True)
            offset = tuple(choose(a, b) for a, b in pair)
            result = Number(offset, symbols=numbers[0].symbols | numbers[1].symbols)
        elif name in ("flip", "flipud", "fliplr") and arguments:
            result = self.flipped(arguments[0], node)
        elif name in (
            "tensor", "as_tensor", "Tensor", "FloatTensor", "array", "asarray", "from_numpy",
            "float", "int", "float32", "float64", "Variable", "Parameter", "clone", "tuple",
            "list", "ascontiguousarray", "reversed", "round", "clamp", "clip", "unsqueeze",
        ) and arguments:  # fmt: skip
            result = components_of(arguments[0])
            if name in ("tuple", "list", "reversed") and isinstance(arguments[0], Pack):
                result = Pack(arguments[0].items[:: -1 if name == "reversed" else 1])
        elif name in ("rearrange", "permute", "transpose", "reshape", "repeat") and arguments:
            result = self.moved(arguments[0])
        elif name in ("chunk", "split", "unbind") and arguments:
            result = split(arguments[0])
        elif name in ("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide"):
            result = self.operation(name, node, arguments)
        if isinstance(result, Number | Stack):
            return cast(result, keywords.get("dtype"))
        return result

    def operation(self, name: str, node: ast.Call, arguments: Sequence[Value]) -> Value:
        """Evaluate ``torch.mul(a, b)`` or ``a.mul(b)``."""
        operators = {"add": ast.Add(), "sub": ast.Sub(), "mul": ast.Mult(), "div": ast.Div()}
        operators |= {"subtract": ast.Sub(), "true_divide": ast.Div(), "divide": ast.Div()}
        operators |= {"multiply": ast.Mult()}
        if len(arguments) != 2:
            return v.unknown(ast.unparse(node), "mixed")
        return self.binary(operators[name], arguments[0], arguments[1], node)

    def arange(self, numbers: list[Number]) -> Value:
        """Evaluate arange for a stop, or a start and a stop."""
        if len(numbers) == 1:
            return indices(numbers[0], f"arange {len(self.names)}")
        if len(numbers) == 2 and numbers[0].constant:
            count = v.add(numbers[1], numbers[0], -1.0)
            return v.add(indices(count, f"arange {len(self.names)}"), numbers[0])
        return None

    def local_call(
        self, node: ast.Call, arguments: list[Value], keywords: dict[str | None, Value]
    ) -> Value:
        """Run a function of the same file, if it is called by its name."""
        if not isinstance(node.func, ast.Name) or self.depth >= DEPTH:
            return UNKNOWN
        function = self.module.functions.get(node.func.id)
        if not isinstance(function, ast.FunctionDef) or function is self.function:
            return UNKNOWN
        names = [parameter.arg for parameter in function.args.args]
        if None in keywords or len(arguments) > len(names) or function.args.vararg:
            return UNKNOWN
        arguments_by_name = dict(zip(names, arguments, strict=False))
        arguments_by_name |= {key: value for key, value in keywords.items() if key}
        result = self.run(
            self,
            function,
            {k: value for k, value in arguments_by_name.items() if value is not None},
        )
        return self.opaque(node, arguments) if result is None else result

    def method(
        self,
        node: ast.Call,
        owner: Value,
        arguments: list[Value],
        keywords: dict[str | None, Value],
    ) -> Value:
        """Evaluate a method of a value."""
        assert isinstance(node.func, ast.Attribute)
        name, base = node.func.attr, node.func.value
        if name == "size":
            shape = Shape(ast.unparse(base))
            return self.entry(shape, node.args[0]) if node.args else shape
        if not isinstance(owner, Number | Stack):
            if isinstance(owner, Pack) and name == "flip":
                return self.flipped(owner, node)
            return self.opaque(node, [owner, *arguments])
        if name in KEEPING:
            receiver = owner
            if name == "permute" and not keeps_order(node.args):
                return self.moved(owner)
            if name in CASTS:
                return with_half(receiver, CASTS[name])
            if name in ("to", "type", "astype", "type_as"):
                return cast_by(receiver, [*arguments, keywords.get("dtype")], name)
            return receiver
        if name in MOVING:
            return self.moved(owner)
        if name == "flip":
            return self.flipped(owner, node)
        if name in ("split", "chunk", "unbind"):
            return split(owner)
        base_name = name.rstrip("_")
        if base_name in ("add", "sub", "mul", "div") and arguments:
            return self.operation(base_name, node, [owner, arguments[0]])
        return self.opaque(node, [owner, *arguments])

    def moved(self, value: Value) -> Value:
        """Forget along which axes of a mesh the indices vary."""
        return v.change(value, lambda n: v.along(n, None))

    def flipped(self, value: Value, node: ast.Call) -> Value:
        """Reverse the components of a stack, if an axis of components is flipped."""
        if isinstance(value, Shape):
            return self.entry(value, ast.Slice(step=ast.UnaryOp(ast.USub(), ast.Constant(1))))
        if isinstance(value, Stack):
            return Stack(value.parts[::-1], value.names[::-1])
        if isinstance(value, Number):
            return v.unknown(ast.unparse(node))
        return None
