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

    def __call__(self, node: ast.Call, kind: str, given: dict[str, Value], scope: Scope) -> None:
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
                return Pack(tuple(self.value(one) for one in elements))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                found = self.value(operand)
                return v.change(found, lambda n: v.scaled(n, v.constant(-1), operator.mul))
            case ast.BinOp():
                return self.binary(node.op, self.value(node.left), self.value(node.right), node)
            case ast.Subscript():
                return self.subscript(node)
            case ast.Call():
                return self.call(node)
            case ast.IfExp():
                self.value(node.test)
                one, other = self.value(node.body), self.value(node.orelse)
                return one if one == other else None
            case ast.NamedExpr(target=ast.Name(id=name)):
                self.names[name] = self.value(node.value)
                return self.names[name]
            case ast.Lambda(args=arguments, body=body):
                outer = self.names
                hidden = {one.arg for one in arguments.args}
                self.names = {key: one for key, one in outer.items() if key not in hidden}
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
            found = arithmetic(op, left, right)
            if found is not None:
                return found
        if isinstance(left, Pack) and isinstance(right, Pack) and isinstance(op, ast.Add):
            return Pack((*left.items, *right.items))
        return v.unknown(ast.unparse(node), "mixed")

    def componentwise(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        """Evaluate an operation on each component."""
        count = max(len(one.parts) for one in (left, right) if isinstance(one, Stack))
        parts: list[Number | None] = []
        for i in range(count):
            pair = [part_of(one, i) for one in (left, right)]
            made = None
            if pair[0] is not None and pair[1] is not None:
                made = arithmetic(op, pair[0], pair[1])
            parts.append(made)
        names = next(one.names for one in (left, right) if isinstance(one, Stack))
        return Stack(tuple(parts), names)

    # Subscripts -----------------------------------------------------------------------------------

    def subscript(self, node: ast.Subscript) -> Value:
        """Evaluate ``x.shape[-1]``, ``grid[..., 0]``, ``np.mgrid[0:H, 0:W]`` and the like."""
        whole = self.value(node.value)
        index = node.slice
        if isinstance(node.value, ast.Attribute) and node.value.attr == "mgrid":
            return self.mgrid(index)
        if isinstance(whole, Shape):
            return self.entry(whole, index)
        if isinstance(whole, Pack):
            if is_reversal(index):
                return Pack(whole.items[::-1])
            place = as_int(index)
            if place is not None and -len(whole.items) <= place < len(whole.items):
                return whole.items[place]
            return None
        if isinstance(whole, Number | Stack):
            return self.piece(whole, index, node)
        return None

    def piece(self, whole: Number | Stack, index: ast.expr, node: ast.Subscript) -> Value:
        """Return a component of an array, its components reversed, or the array itself."""
        place = component(index)
        if place is not None:
            if isinstance(whole, Stack):
                return whole.parts[place] if -len(whole.parts) <= place < len(whole.parts) else None
            if any(base.kind in ("arange", "line") for base, _ in whole.terms):
                return v.unknown(ast.unparse(node))
            return rename(whole, f"[{place}]")
        entries = index.elts if isinstance(index, ast.Tuple) else [index]
        if any(is_reversal(one) for one in entries):
            if isinstance(whole, Stack):
                return Stack(whole.parts[::-1], whole.names[::-1])
            return rename(whole, "[::-1]")
        if all(is_plain(one) for one in entries):
            return whole
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
        found: list[Value] = []
        for dim, one in enumerate(entries):
            upper = self.value(one.upper) if isinstance(one, ast.Slice) else None
            fits = isinstance(one, ast.Slice) and not one.step and as_int(one.lower) in (0, None)
            if not fits or not isinstance(upper, Number) or not upper.constant:
                return None
            found.append(indices(upper, f"mgrid {dim}", dim))
        return Pack(tuple(found))

    # Calls ----------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Value:
        """Evaluate a call, and have it checked."""
        arguments = [self.value(one) for one in node.args]
        keywords = {one.arg: self.value(one.value) for one in node.keywords}
        known = self.module.known(node.func)
        if known is not None:
            return self.known_call(node, known, arguments, keywords)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        full = self.module.qualify(node.func)
        if full.partition(".")[0] in LIBRARIES or (isinstance(node.func, ast.Name) and not name):
            found = self.library_call(full.rpartition(".")[2], node, arguments, keywords)
            if found is not UNKNOWN:
                return found
        inlined = self.local_call(node, arguments, keywords)
        if inlined is not UNKNOWN:
            return inlined
        if isinstance(node.func, ast.Attribute) and full.partition(".")[0] not in LIBRARIES:
            return self.method(node, self.value(node.func.value), arguments, keywords)
        return self.opaque(node, arguments)

    def opaque(self, node: ast.Call, arguments: Sequence[Value]) -> Value:
        """Make the result of an unknown function; "mixed" if it may change the units of a flow."""
        text = ast.unparse(node)
        flows = any(has_flow(one) for one in arguments)
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
        kind, names = known
        hidden = None in keywords or any(isinstance(one, ast.Starred) for one in node.args)
        given: dict[str, Value] = dict(zip(names, arguments, strict=False))
        given |= {key: one for key, one in keywords.items() if key is not None}
        if hidden:
            given.setdefault("align_corners", None)
            given.setdefault("antialias", None)
        if self.check is not None:
            self.check(node, kind, given, self)
        align = flag_of(given)
        if kind == "resize":
            field = v.is_field(ast.unparse(node.args[0] if node.args else node))
            if align.state == "given" and align.value is not None and not field:
                self.resized.append((node, align))
            image = given.get("input")
            if isinstance(image, Stack):  # a field of coordinates, which are now some in between
                return v.change(image, lambda one: replace(one, resized=align))
            found = image if isinstance(image, Number) else v.unknown(ast.unparse(node))
            return replace(found, resized=align)
        if kind.endswith("affine"):
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
        numbers = [one for one in arguments if isinstance(one, Number)]
        whole = len(numbers) == len(arguments)
        found: Value = UNKNOWN
        if name in ("arange", "range"):
            found = self.arange(numbers) if whole else None
        elif name == "linspace":
            ends = [*arguments, *(keywords.get(k) for k in ("steps", "num") if k in keywords)]
            some = [one for one in ends[:3] if isinstance(one, Number)]
            found = v.line(some[0], some[1], some[2], ast.unparse(node)) if len(some) == 3 else None
        elif name == "meshgrid":
            found = meshgrid(arguments, keywords, self.module.qualify(node.func))
        elif name in ("stack", "cat", "concat", "concatenate", "dstack"):
            given = arguments[0] if arguments else keywords.get("tensors")
            found = stack(given, node)
        elif name in ("max", "min") and len(numbers) == 2 and all(n.constant for n in numbers):
            choose = max if name == "max" else min
            pair = zip(numbers[0].offset, numbers[1].offset, strict=True)
            offset = tuple(choose(a, b) for a, b in pair)
            found = Number(offset, symbols=numbers[0].symbols | numbers[1].symbols)
        elif name in ("flip", "flipud", "fliplr") and arguments:
            found = self.flipped(arguments[0], node)
        elif name in (
            "tensor", "as_tensor", "Tensor", "FloatTensor", "array", "asarray", "from_numpy",
            "float", "int", "float32", "float64", "Variable", "Parameter", "clone", "tuple",
            "list", "ascontiguousarray", "reversed", "round", "clamp", "clip", "unsqueeze",
        ) and arguments:  # fmt: skip
            found = components_of(arguments[0])
            if name in ("tuple", "list", "reversed") and isinstance(arguments[0], Pack):
                found = Pack(arguments[0].items[:: -1 if name == "reversed" else 1])
        elif name in ("rearrange", "permute", "transpose", "reshape", "repeat") and arguments:
            found = self.moved(arguments[0])
        elif name in ("chunk", "split", "unbind") and arguments:
            found = split(arguments[0])
        elif name in ("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide"):
            found = self.operation(name, node, arguments)
        if isinstance(found, Number | Stack):
            return cast(found, keywords.get("dtype"))
        return found

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
        names = [one.arg for one in function.args.args]
        if None in keywords or len(arguments) > len(names) or function.args.vararg:
            return UNKNOWN
        given = dict(zip(names, arguments, strict=False))
        given |= {key: one for key, one in keywords.items() if key}
        found = self.run(self, function, {k: one for k, one in given.items() if one is not None})
        return self.opaque(node, arguments) if found is None else found

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
            kept = owner
            if name == "permute" and not keeps_order(node.args):
                return self.moved(owner)
            if name in CASTS:
                return with_half(kept, CASTS[name])
            if name in ("to", "type", "astype", "type_as"):
                return cast_by(kept, [*arguments, keywords.get("dtype")], name)
            return kept
        if name in MOVING:
            return self.moved(owner)
        if name == "flip":
            return self.flipped(owner, node)
        if name in ("split", "chunk", "unbind"):
            return split(owner)
        plain = name.rstrip("_")
        if plain in ("add", "sub", "mul", "div") and arguments:
            return self.operation(plain, node, [owner, arguments[0]])
        return self.opaque(node, [owner, *arguments])

    def moved(self, found: Value) -> Value:
        """Forget along which axes of a mesh the indices vary."""
        return v.change(found, lambda n: v.along(n, None))

    def flipped(self, found: Value, node: ast.Call) -> Value:
        """Reverse the components of a stack, if an axis of components is flipped."""
        if isinstance(found, Shape):
            return self.entry(found, ast.Slice(step=ast.UnaryOp(ast.USub(), ast.Constant(1))))
        if isinstance(found, Stack):
            return Stack(found.parts[::-1], found.names[::-1])
        if isinstance(found, Number):
            return v.unknown(ast.unparse(node))
        return None
