"""The values of expressions, names and calls of a file; see `values`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from gridsample.doctor import library
from gridsample.doctor import values as v
from gridsample.doctor.library import UNKNOWN, Call
from gridsample.doctor.names import Function, Module
from gridsample.doctor.operations import (
    align_flag,
    as_int,
    binary,
    bind_names,
    cast_method,
    count_of_steps,
    flipped,
    has_flow,
    index_shape,
    indices,
    is_static,
    item_key,
    not_first,
    permuted,
    select,
    split,
    with_half,
    without_dims,
)
from gridsample.doctor.values import (
    Const,
    Flag,
    Instance,
    ListValue,
    LocalFunction,
    Number,
    Shape,
    Stack,
    Symbol,
    Value,
    Variable,
)

# Methods that change neither the values nor the order of components.
_PRESERVING = """clone contiguous detach repeat expand expand_as unsqueeze squeeze cpu cuda copy
    clamp clip requires_grad to type type_as astype float double half bfloat16 view_as permute
    pin_memory share_memory numpy nan_to_num movedim moveaxis"""
PRESERVING = frozenset(_PRESERVING.split())
# Those of them that add an axis before the first one, or move it.
MOVING = frozenset(("expand", "expand_as", "moveaxis", "movedim", "repeat", "unsqueeze"))
# Methods after which it is not known along which axes the indices of a mesh vary.
RESHAPING = frozenset(("view", "reshape", "flatten", "transpose", "swapaxes", "t", "ravel"))
CASTS = {"float": "", "double": "", "half": "float16", "bfloat16": "bfloat16"}
LIBRARIES = ("torch", "numpy", "cupy", "jax", "einops", "mindspore", "paddle", "kornia")
# How deep calls of functions of the same file are followed, and of how many results are kept.
MAX_DEPTH, MAX_RESULTS = 4, 4000
# A dictionary, and an entry of it that nothing was assigned to.
DICTIONARY, ABSENT = Const("a dictionary"), Const("an entry that was not assigned")


# Checks a call, given what its function is (see `KNOWN`), its arguments, and the names around it.
Check = Callable[[ast.Call, str, dict[str, Value], "Scope"], None]


@dataclass
class File:
    """What all scopes of a file share.

    Attributes:
        module: the parsed file.
        check: called with each call of a function that is checked.
        run: evaluates the body of a function, and returns what it returns.
        names: the values of names at the top of the file.
        results: what functions returned, by function and arguments.
    """

    module: Module
    check: Check
    run: Callable[[Scope, Function, dict[str, Value]], Value]
    names: dict[str, Value] = field(default_factory=dict)
    results: dict[object, tuple[Value, dict[str, Value]]] = field(default_factory=dict)


@dataclass(eq=False)
class Scope:
    """The names of a function and their values; evaluates expressions.

    Attributes:
        file: what all scopes of the file share.
        names: values by name; attributes as "self.name".
        function: the function, or None at the top of the file.
        owner: the name of the class whose method it is, or "".
        depth: how many calls deep it is.
        silent: whether calls are not checked.
        guarded: whether the code is one of several for different versions of a library.
        loops: how many loops the statement is in.
        resized: align_corners of each interpolate of an image in the function that gives it.
    """

    file: File
    names: dict[str, Value]
    function: ast.AST | None = None
    owner: str = ""
    depth: int = 0
    silent: bool = False
    guarded: bool = False
    loops: int = 0
    resized: list[tuple[ast.Call, Flag]] = field(default_factory=list)

    @property
    def module(self) -> Module:
        """The parsed file."""
        return self.file.module

    @property
    def members(self) -> dict[str, Value]:
        """The attributes of self, as "self.name"."""
        return {name: value for name, value in self.names.items() if name.startswith("self.")}

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
                return ListValue(tuple(self.items(elements)))
            case ast.Dict(values=[]):
                return DICTIONARY
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                result = self.value(operand)
                return v.map_numbers(result, lambda n: v.scaled(n, v.constant(-1), operator.mul))
            case ast.BinOp():
                return binary(node.op, self.value(node.left), self.value(node.right), node)
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
            case ast.ListComp(generators=[_]) | ast.GeneratorExp(generators=[_]):
                return self.comprehension(node)
            case ast.Lambda(args=arguments, body=body):
                outer = self.names
                hidden = {parameter.arg for parameter in arguments.args}
                self.names = {key: value for key, value in outer.items() if key not in hidden}
                self.value(body)
                self.names = outer
                function = ast.FunctionDef("<lambda>", arguments, [ast.Return(body)], [])
                return LocalFunction(ast.copy_location(function, node))
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
            elif isinstance(child, ast.comprehension):
                self.value(child.iter)
        return DICTIONARY if isinstance(node, ast.Dict | ast.DictComp) else None

    def items(self, elements: Sequence[ast.expr]) -> Iterator[Value]:
        """Evaluate the elements of a list or of arguments, and unpack those with a star."""
        for element in elements:
            if isinstance(element, ast.Starred):
                value = self.value(element.value)
                if isinstance(value, Shape):
                    value = flipped(flipped(value))
                yield from value.items if isinstance(value, ListValue) else [value]
            else:
                yield self.value(element)

    def attribute(self, node: ast.Attribute) -> Value:
        """Evaluate ``x.shape``, ``torch.float16``, ``self.width`` and the like."""
        text = ast.unparse(node)
        if text in self.names:
            return self.names[text]
        if node.attr == "shape":
            return Shape(ast.unparse(node.value))
        if node.attr in ("T", "mT"):
            return without_dims(self.value(node.value))
        if node.attr == "data":
            return self.value(node.value)
        full_name = self.module.qualify(node)
        if is_in_library(full_name):
            return Const(full_name)
        owner = self.names.get(ast.unparse(node.value))
        if isinstance(owner, Instance):
            return dict(owner.members).get(f"self.{node.attr}", self.look_up(text))
        return self.look_up(text)

    # Subscripts and loops -------------------------------------------------------------------------

    def subscript(self, node: ast.Subscript) -> Value:
        """Evaluate ``x.shape[-1]``, ``grid[..., 0]``, ``np.mgrid[0:H, 0:W]`` and the like."""
        value = self.value(node.value)
        index = node.slice
        key = item_key(node)
        if key in self.names:
            return self.names[key]
        if value == DICTIONARY:
            return ABSENT
        if isinstance(node.value, ast.Attribute) and node.value.attr in ("mgrid", "ogrid"):
            return self.mgrid(index)
        if isinstance(value, Shape):
            return index_shape(value, index)
        if isinstance(value, ListValue):
            position = as_int(index)
            if position is not None and -len(value.items) <= position < len(value.items):
                return value.items[position]
            if isinstance(index, ast.Slice):
                bounds = [as_int(bound) for bound in (index.lower, index.upper, index.step)]
                return ListValue(value.items[slice(*bounds)])
            return None
        if isinstance(value, Number | Stack):
            return select(value, index, node)
        return None

    def mgrid(self, index: ast.expr) -> Value:
        """Evaluate ``np.mgrid[0:H, 0:W]`` and ``np.mgrid[-1 : 1 : 512j, -1 : 1 : 512j]``."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        lines = [self.line_of_mesh(part, f"mgrid {dim}") for dim, part in enumerate(parts)]
        if not all(lines):
            return None
        components = [line and v.with_dim(line, dim) for dim, line in enumerate(lines)]
        return Stack(tuple(components), first=True)

    def line_of_mesh(self, part: ast.expr, name: str) -> Number | None:
        """Evaluate a slice of ``np.mgrid``, which is an arange or a linspace."""
        if not isinstance(part, ast.Slice):
            return None
        start = self.value(part.lower) if part.lower else v.constant(0)
        stop = self.value(part.upper)
        if not (isinstance(start, Number) and isinstance(stop, Number)):
            return None
        if not (start.constant and stop.constant):
            return None
        count = self.value(count_of_steps(part.step))
        if isinstance(count, Number) and count.constant:
            return v.linspace(start, stop, count, name)
        if part.step is not None and as_int(part.step) != 1:
            return None
        return v.add(indices(v.add(stop, start, operator.sub), name), start)

    def each(self, node: ast.expr, target: ast.expr) -> list[Value]:
        """Return the items of what is iterated over, or a single value that stands for any item."""
        match node:
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]):
                inner_target = target.elts[-1] if isinstance(target, ast.Tuple) else target
                return [ListValue((None, item)) for item in self.each(inner, inner_target)]
            case ast.Call(func=ast.Name(id="zip"), args=parts) if isinstance(target, ast.Tuple):
                if len(parts) == len(target.elts):
                    lists = [self.each(*pair) for pair in zip(parts, target.elts, strict=True)]
                    return [ListValue(items) for items in zip(*lists, strict=False)]
        value, text = self.value(node), ast.unparse(node)
        if isinstance(value, ListValue):
            return list(value.items[:4])
        if isinstance(value, Shape) or (isinstance(target, ast.Name) and v.is_sizes(text)):
            owner = value.owner if isinstance(value, Shape) else ""
            return [v.size(Symbol(f"{ast.unparse(target)} of {text}", "", owner))]
        return [None]

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> Value:
        """Evaluate a comprehension: a list, or one number that stands for any of its items."""
        (generator,) = node.generators
        outer, results = dict(self.names), []
        items = self.each(generator.iter, generator.target)
        for item in items:
            bind_names(self.names, generator.target, item)
            results.append(self.value(node.elt))
        self.names = outer
        if len(results) == 1 and isinstance(results[0], Number):
            return v.with_dim(results[0], v.EACH)
        return ListValue(tuple(results)) if len(results) > 1 else None

    # Calls ----------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Value:
        """Evaluate a call, and have it checked."""
        arguments = list(self.items(node.args))
        keywords = {keyword.arg: self.value(keyword.value) for keyword in node.keywords}
        if isinstance(node.func, ast.Call):
            self.value(node.func)
        known = self.module.known(node.func)
        if known is not None:
            return self.checked_call(node, known, arguments, keywords)
        self.record_attribute(node, arguments)
        inlined = self.local_call(node, arguments, keywords)
        if inlined is not UNKNOWN:
            return inlined
        full_name = self.module.qualify(node.func)
        if is_in_library(full_name) or isinstance(node.func, ast.Name):
            if full_name in ("dict", "defaultdict", "OrderedDict") and not arguments:
                return DICTIONARY
            result = library.evaluate(Call(node, full_name, arguments, keywords))
            if result is not UNKNOWN:
                return result
        if isinstance(node.func, ast.Attribute) and not is_in_library(full_name):
            return self.method(node, self.value(node.func.value), arguments, keywords)
        return self.opaque(node, arguments)

    def record_attribute(self, node: ast.Call, arguments: Sequence[Value]) -> None:
        """Note what ``self.register_buffer("grid", grid)`` and ``setattr`` assign."""
        match node:
            case ast.Call(
                func=ast.Attribute(attr="register_buffer" | "register_parameter", value=owner),
                args=[ast.Constant(value=str(name)), _, *_],
            ):
                self.names[f"{ast.unparse(owner)}.{name}"] = arguments[1]
            case ast.Call(
                func=ast.Name(id="setattr"), args=[owner, ast.Constant(value=str(name)), _]
            ):
                self.names[f"{ast.unparse(owner)}.{name}"] = arguments[2]

    def opaque(self, node: ast.Call, arguments: Sequence[Value]) -> Value:
        """Make the result of an unknown function; "mixed" if it may change the units of a flow."""
        text = ast.unparse(node)
        flows = any(has_flow(argument) for argument in arguments)
        bounded = any(word in text.lower() for word in ("norm", "tanh", "sigmoid", "scale", "conv"))
        return v.unknown(text, "mixed" if flows or bounded else "call")

    def checked_call(
        self,
        node: ast.Call,
        known: tuple[str, tuple[str, ...]],
        arguments: Sequence[Value],
        keywords: dict[str | None, Value],
    ) -> Value:
        """Evaluate a call of a function that is checked, and have it checked."""
        function_kind, names = known
        arguments_by_name = by_name(names, arguments, keywords)
        if is_unpacked(node):
            arguments_by_name.setdefault("align_corners", None)
            arguments_by_name.setdefault("antialias", None)
        if self.guarded:
            arguments_by_name.setdefault("align_corners", None)
        if not self.silent:
            self.file.check(node, function_kind, arguments_by_name, self)
        if function_kind == "module resize":
            return self.opaque(node, arguments)
        align = align_flag(arguments_by_name)
        if function_kind == "resize":
            field = v.is_field(ast.unparse(node.args[0] if node.args else node))
            if align.state == "given" and align.value is not None and not field:
                self.resized.append((node, align))
            image = arguments_by_name.get("input")
            if isinstance(image, Stack):  # a field of coordinates, which are now some in between
                return v.map_numbers(image, lambda number: replace(number, resized=align))
            result = image if isinstance(image, Number) else v.unknown(ast.unparse(node))
            return replace(result, resized=align)
        if function_kind.endswith("affine"):
            location = (node.lineno, node.col_offset)
            grid = Variable("affine", ast.unparse(node), align=align, location=location)
            return v.of_variable(grid)
        return v.unknown(ast.unparse(node), "mixed")

    def local_call(
        self, node: ast.Call, arguments: list[Value], keywords: dict[str | None, Value]
    ) -> Value:
        """Run a function, a method or a constructor of the same file."""
        function, owner, members = self.callee(node.func)
        if function is None or function is self.function:
            return UNKNOWN
        if is_unpacked(node) or function.args.vararg:
            return UNKNOWN
        if self.depth >= MAX_DEPTH or len(self.file.results) > MAX_RESULTS:
            return UNKNOWN
        names = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]
        if owner and not is_static(function):
            names = names[1:]
        if len(arguments) > len(names):
            return UNKNOWN
        arguments_by_name = by_name(names, arguments, keywords)
        passed: dict[str, Value] = {}
        passed |= {name: value for name, value in arguments_by_name.items() if value is not None}
        is_local = isinstance(node.func, ast.Name) and node.func.id in self.names
        outer = dict(self.names if is_local else self.file.names) | members
        scope = Scope(self.file, outer, function, owner, self.depth + 1, self.silent)
        if is_local:  # it may use any name around it
            return self.file.run(scope, function, passed)
        result, after = self.run_once(scope, function, passed)
        text = ast.unparse(node.func)
        if function.name == "__init__" and text in self.module.classes:
            return Instance(text, tuple(sorted(after.items(), key=lambda pair: pair[0])))
        if text.startswith("self."):
            self.names |= after
        return self.opaque(node, arguments) if result is None else result

    def run_once(
        self, scope: Scope, function: Function, passed: dict[str, Value]
    ) -> tuple[Value, dict[str, Value]]:
        """Run a function once for the same arguments; return its result and what self is then."""
        location = (function.lineno, function.col_offset)
        before = frozenset(scope.members.items())
        key = (location, frozenset(passed.items()), before, self.silent)
        results = self.file.results
        if key not in results:
            results[key] = None, {}  # for a function that calls itself
            result = self.file.run(scope, function, passed)
            results[key] = result, scope.members
        return results[key]

    def callee(self, node: ast.expr) -> tuple[Function | None, str, dict[str, Value]]:
        """Return the function of the file that is called, its class, and what self is there."""
        module = self.module
        if isinstance(node, ast.Name):
            value = self.names.get(node.id)
            if isinstance(value, LocalFunction):
                return value.function, "", {}
            if node.id not in self.names and node.id in module.functions:
                return module.functions[node.id], "", {}
            if node.id not in self.names:
                return module.methods(node.id).get("__init__"), node.id, {}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "self" and self.owner:
                method = module.methods(self.owner).get(node.attr)
                if method is not None:
                    return method, self.owner, self.members
            if node.value.id in module.classes:
                method = module.methods(node.value.id).get(node.attr)
                return (method if method and is_static(method) else None), node.value.id, {}
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            is_attribute = isinstance(node, ast.Attribute)
            called = self.names.get(ast.unparse(node)) if is_attribute else self.value(node)
            if isinstance(called, Instance):
                methods = module.methods(called.name)
                method = methods.get("forward") or methods.get("__call__")
                return method, called.name, dict(called.members)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = self.names.get(ast.unparse(node.value))
            if isinstance(owner, Instance):
                method = module.methods(owner.name).get(node.attr)
                return method, owner.name, dict(owner.members)
        return None, "", {}

    def method(
        self,
        node: ast.Call,
        owner: Value,
        arguments: list[Value],
        keywords: dict[str | None, Value],
    ) -> Value:
        """Evaluate a method of a value."""
        assert isinstance(node.func, ast.Attribute)
        name, base = node.func.attr.rstrip("_"), node.func.value
        if name == "size":
            shape = Shape(ast.unparse(base))
            return index_shape(shape, node.args[0]) if node.args else shape
        if name in ("get", "setdefault") and node.args:
            key = item_key(ast.Subscript(base, node.args[0]))
            if key in self.names or owner == DICTIONARY:
                return self.names.get(key, arguments[1] if len(arguments) > 1 else ABSENT)
        if name == "append" and isinstance(owner, ListValue) and len(arguments) == 1:
            item = arguments[0]
            grown: Value = ListValue((*owner.items, item))
            if self.loops and not owner.items:  # it stands for any of them
                grown = v.map_numbers(item, lambda n: v.with_dim(n, v.EACH)) or item
            self.names[ast.unparse(base)] = grown
            return Const(None)
        if name == "new_tensor":
            return library.evaluate(Call(node, name, arguments, keywords))
        if name in ("permute", "transpose") and len(node.args) > 2:
            return permuted(owner, node.args)
        if not isinstance(owner, Number | Stack):
            if name == "flip":
                return flipped(owner)
            if isinstance(owner, ListValue) and name in PRESERVING:
                return owner
            return self.opaque(node, [owner, *arguments])
        if name in PRESERVING:
            if name == "permute":
                return permuted(owner, node.args)
            if name in CASTS:
                return with_half(owner, CASTS[name])
            if name in ("to", "type", "astype", "type_as"):
                return cast_method(owner, [*arguments, keywords.get("dtype")], name)
            return not_first(owner) if name in MOVING else owner
        if name in RESHAPING:
            return not_first(without_dims(owner))
        if name == "flip":
            return flipped(owner)
        if name in ("split", "chunk", "unbind"):
            return split(owner)
        if name in ("add", "sub", "mul", "div", "subtract", "multiply", "divide") and arguments:
            return library.evaluate(Call(node, name, [owner, *arguments], keywords))
        return self.opaque(node, [owner, *arguments])


def is_in_library(name: str) -> bool:
    """Whether a full name is that of something in an array library."""
    return name.partition(".")[0] in LIBRARIES


def is_unpacked(node: ast.Call) -> bool:
    """Whether some arguments of a call are unpacked from a list or a dictionary."""
    starred = any(isinstance(argument, ast.Starred) for argument in node.args)
    return starred or any(keyword.arg is None for keyword in node.keywords)


def by_name(
    names: Sequence[str], arguments: Sequence[Value], keywords: dict[str | None, Value]
) -> dict[str, Value]:
    """Return the arguments of a call by the names of the parameters."""
    passed = dict(zip(names, arguments, strict=False))
    return passed | {name: value for name, value in keywords.items() if name is not None}
