"""Follows the statements of a file, function by function, and keeps the values of names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from gridsample.doctor import values as v
from gridsample.doctor.evaluator import ABSENT, DICTIONARY, Check, File, Scope
from gridsample.doctor.names import Function, Module
from gridsample.doctor.operations import (
    as_int,
    binary,
    component_index,
    first_index,
    item_key,
    keeps_axis,
    select,
    without_dims,
)
from gridsample.doctor.values import (
    Const,
    Instance,
    ListValue,
    LocalFunction,
    Number,
    Shape,
    Stack,
    Symbol,
    Value,
)

NONE = Const(None)
# Methods that change an array in place and return it.
IN_PLACE = frozenset(
    ("add_", "sub_", "mul_", "div_", "subtract_", "multiply_", "divide_", "clamp_", "clip_")
)
# Methods that assign an attribute of self, or change a list.
ASSIGNING = frozenset(("register_buffer", "register_parameter", "setdefault", "append"))
# Words in conditions that choose between versions of a library.
VERSION_TESTS = re.compile(r"__version__|\bversion\b|align_corners|getfullargspec|signature")
# Words in docstrings about flows that are not in pixels.
NORMALIZED = re.compile(
    r"(flow|displacement|offset)s?[^.\n]*normali[sz]ed|normali[sz]ed[^.\n]*(flow|displacement|offset)"
)
FLOW_SOURCES = re.compile(r"raft|flow|pwc|gmflow|read|load|farneback", re.IGNORECASE)


def walk(module: Module, check: Check) -> None:
    """Evaluate all statements of a file, and tell ``check`` of all calls that it should check."""
    file = File(module, check, run_function)
    top = Scope(file, {})
    Walker(top).statements(module.tree.body)
    file.names = {name: value for name, value in top.names.items() if "[" not in name}
    walk_definitions(top, module.tree.body, {})


def walk_definitions(
    outer: Scope, body: Sequence[ast.stmt], local_names: dict[str, Value], owner: str = ""
) -> None:
    """Evaluate the functions and classes that a body defines."""
    for node in definitions(body):
        if isinstance(node, ast.ClassDef):
            walk_definitions(outer, node.body, members_of(outer, node), node.name)
        else:
            names = {**outer.names, **local_names}
            scope = Scope(outer.file, names, node, owner or outer.owner, outer.depth)
            bind_parameters(scope, node, {})
            Walker(scope).statements(node.body)
            walk_definitions(scope, node.body, {})


def members_of(outer: Scope, node: ast.ClassDef) -> dict[str, Value]:
    """Return what the methods of a class know of self: what any of them assigns to it."""
    methods = outer.module.methods(node.name) or {
        part.name: part for part in node.body if isinstance(part, Function)
    }
    members: dict[str, Value] = {}
    for method in sorted(methods.values(), key=lambda method: method.name != "__init__"):
        if not assigns_members(method):
            continue
        scope = Scope(outer.file, {**outer.names, **members}, method, node.name, silent=True)
        bind_parameters(scope, method, {})
        Walker(scope).statements(method.body)
        for key, value in scope.members.items():
            before = members.get(key, value)
            members[key] = merged_value(before, value, f"{key}@{method.lineno}")
    return members


def assigns_members(method: Function) -> bool:
    """Whether a method assigns attributes of self."""
    for node in ast.walk(method):
        match node:
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                if ast.unparse(node).startswith("self."):
                    return True
            case ast.Call(func=ast.Attribute(attr=name)) if name in ASSIGNING:
                return True
    return False


def definitions(body: Sequence[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    """Yield the functions and classes in a body, also below an ``if`` or a ``with``."""
    for node in body:
        if isinstance(node, Function | ast.ClassDef):
            yield node
        elif isinstance(node, ast.If | ast.With | ast.Try | ast.For | ast.While):
            for name in ("body", "orelse", "finalbody"):
                yield from definitions(getattr(node, name, []))


def bind_parameters(scope: Scope, function: Function, passed: dict[str, Value]) -> None:
    """Give the parameters of a function the values of arguments and defaults."""
    names, arguments = scope.names, function.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for parameter in parameters:
        names.pop(parameter.arg, None)
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs: list[tuple[ast.arg, ast.expr | None]] = []
    if arguments.defaults:
        pairs += zip(positional[-len(arguments.defaults) :], arguments.defaults, strict=True)
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    for parameter, default in pairs:
        if isinstance(default, ast.Constant) and isinstance(default.value, bool | str | None):
            names[parameter.arg] = Const(default.value, default=True)
    text = (ast.get_docstring(function) or "").lower()
    for parameter in parameters:
        if parameter.arg in passed:
            names[parameter.arg] = passed[parameter.arg]
        elif v.is_flow(parameter.arg) and NORMALIZED.search(text):
            names[parameter.arg] = v.unknown(parameter.arg, "mixed")


def run_function(scope: Scope, function: Function, passed: dict[str, Value]) -> Value:
    """Return what a function of the file returns for some arguments, or None if it depends."""
    bind_parameters(scope, function, passed)
    walker = Walker(scope)
    walker.statements(function.body)
    results = [value for value in walker.returned if value not in (ABSENT, NONE)]
    first = results[0] if results else None
    return first if all(value == first for value in results) else None


@dataclass
class Walker:
    """Evaluates statements in order.

    Attributes:
        scope: the names, which the statements change.
        returned: the values of the return statements.
    """

    scope: Scope
    returned: list[Value] = field(default_factory=list)

    def statements(self, body: Sequence[ast.stmt]) -> bool:
        """Evaluate statements; return whether one of them leaves the function or the loop."""
        return any([self.statement(node) for node in body])  # all, also what cannot be reached

    def statement(self, node: ast.stmt) -> bool:
        """Evaluate one statement; return whether it leaves the function or the loop."""
        match node:
            case ast.Assign(targets=targets, value=value):
                assigned = self.scope.value(value)
                self.assign_in_place(value)
                for target in targets:
                    self.bind(target, assigned, value)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self.bind(target, self.scope.value(value), value)
            case ast.AugAssign(target=target, op=op, value=value):
                before = self.scope.value(target)
                assigned = binary(op, before, self.scope.value(value), value)
                self.bind(target, assigned, value)
            case ast.Expr(value=value):
                self.scope.value(value)
                self.assign_in_place(value)
            case ast.Return(value=value):
                self.returned.append(self.scope.value(value))
                return True
            case ast.Raise() | ast.Continue() | ast.Break():
                return True
            case ast.If():
                return self.branch(node)
            case ast.For() | ast.AsyncFor():
                self.loop(node)
            case ast.While():
                self.scope.value(node.test)
                self.scope.loops += 1
                self.statements(node.body)
                self.scope.loops -= 1
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.scope.value(item.context_expr)
                return self.statements(node.body)
            case ast.Try():
                ended = self.statements(node.body)
                guarded = self.scope.guarded
                for handler in node.handlers:
                    names_before = dict(self.scope.names)
                    exception = ast.unparse(handler.type) if handler.type else ""
                    self.scope.guarded = guarded or "TypeError" in exception
                    self.statements(handler.body)
                    self.scope.names = names_before
                self.scope.guarded = guarded
                return self.statements([*node.orelse, *node.finalbody]) or ended
            case ast.Match():
                self.scope.value(node.subject)
                return self.match_cases([case.body for case in node.cases], node.lineno)
            case ast.FunctionDef() if self.scope.function is not None:
                self.scope.names[node.name] = LocalFunction(node)
            case ast.Assert(test=test):
                self.scope.value(test)
        return False

    def branch(self, node: ast.If) -> bool:
        """Evaluate both branches; what differs afterwards is unknown."""
        self.scope.value(node.test)
        before = dict(self.scope.names)
        test, positive = node.test, True
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, positive = test.operand, False
        flag = ast.unparse(test) if isinstance(test, ast.Name | ast.Attribute) else ""
        ends, after = [], []
        guarded = self.scope.guarded
        self.scope.guarded = guarded or (not flag and bool(VERSION_TESTS.search(ast.unparse(test))))
        for body, holds in ((node.body, positive), (node.orelse, not positive)):
            self.scope.names = dict(before)
            if flag:
                self.scope.names[flag] = Const(holds)
            ends.append(self.statements(body))
            if flag and self.scope.names.get(flag) == Const(holds):
                self.scope.names.pop(flag)
                if flag in before:
                    self.scope.names[flag] = before[flag]
            after.append(self.scope.names)
        self.scope.guarded = guarded or (self.scope.guarded and any(ends))
        left = [names for names, ended in zip(after, ends, strict=True) if not ended]
        self.scope.names = merged(left, node.lineno) if left else before
        return not left

    def match_cases(self, match_cases: Sequence[Sequence[ast.stmt]], line: int) -> bool:
        """Evaluate the cases of a match, one of which may hold or none."""
        before, after = dict(self.scope.names), [dict(self.scope.names)]
        for body in match_cases:
            self.scope.names = dict(before)
            if not self.statements(body):
                after.append(self.scope.names)
        self.scope.names = merged(after, line)
        return False

    def loop(self, node: ast.For | ast.AsyncFor) -> None:
        """Evaluate a loop: once for each axis if it is over axes, otherwise once."""
        count = self.axes_of_loop(node)
        if count and isinstance(node.target, ast.Name):
            for n in range(count):
                self.statements(with_number(node.body, node.target.id, n))
            return
        self.scope.loops += 1
        items = self.scope.each(node.iter, node.target)
        counter = counter_of(node) if len(items) > 1 else ""
        for n, item in enumerate(items):
            self.bind(node.target, item, node.iter)
            self.statements(with_number(node.body, counter, n) if counter else node.body)
        self.scope.loops -= 1
        self.statements(node.orelse)

    def axes_of_loop(self, node: ast.For | ast.AsyncFor) -> int:
        """Return how many components of an array a loop such as ``for i in range(2)`` changes."""
        match node:
            case ast.For(
                iter=ast.Call(func=ast.Name(id="range"), args=[_]), target=ast.Name(id=name)
            ):
                pass
            case _:
                return 0
        for part in ast.walk(node):
            if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
                index = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
                is_used = any(isinstance(i, ast.Name) and i.id == name for i in index)
                array = self.scope.value(part.value) if is_used else None
                if isinstance(array, Stack):
                    return len(array.parts)
        return 0

    def assign_in_place(self, value: ast.expr) -> None:
        """Assign the result of methods such as ``x.div_(w).mul_(2)`` to what they change."""
        changed = value
        while (
            isinstance(changed, ast.Call)
            and isinstance(changed.func, ast.Attribute)
            and changed.func.attr in IN_PLACE
        ):
            changed = changed.func.value
        if changed is not value:
            self.bind(changed, self.scope.value(value), value)

    # Assignments ----------------------------------------------------------------------------------

    def bind(self, target: ast.expr, value: Value, source: ast.expr) -> None:
        """Assign a value to a name, an attribute, a component, or several names."""
        match target:
            case ast.Name() | ast.Attribute():
                name = ast.unparse(target)
                self.scope.names[name] = value_of_name(name, value, target.lineno)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                self.unpack(elements, value, source)
            case ast.Subscript():
                self.assign_item(target, value, source)

    def unpack(self, targets: Sequence[ast.expr], value: Value, source: ast.expr) -> None:
        """Assign the items of a value to several names."""
        items: Sequence[Value] = [None] * len(targets)
        if isinstance(value, Shape):
            names = [ast.unparse(item_target) for item_target in targets]
            items = [
                v.size(Symbol(f"{name} of {value.owner}", axis, value.owner))
                for name, axis in zip(names, axes_of(names), strict=True)
            ]
        elif isinstance(value, ListValue) and len(value.items) >= len(targets):
            items = value.items[: len(targets)]
        elif isinstance(value, Stack) and len(value.parts) == len(targets):
            items = value.parts
        elif value is None or (isinstance(value, Number) and value.terms):
            is_mesh = value is not None and all(variable.is_index for variable, _ in value.terms)
            items = [without_dims(value)] * len(targets) if is_mesh else self.sizes(targets, source)
        for target, item in zip(targets, items, strict=True):
            self.bind(target, item, source)

    def sizes(self, targets: Sequence[ast.expr], source: ast.expr) -> list[Value]:
        """Return the values of names such as ``h, w = options["size"]``: sizes, by their names."""
        names = [ast.unparse(target) for target in targets]
        axes = axes_of(names) if len(names) < 5 else [""] * len(names)
        line = getattr(targets[0], "lineno", 0)
        if not {"x", "y"} <= set(axes) or (isinstance(source, ast.Call) and not is_size(source)):
            return [None] * len(targets)
        return [
            v.size(Symbol(f"{name}@{line}", axis)) if axis else None
            for name, axis in zip(names, axes, strict=True)
        ]

    def assign_item(self, target: ast.Subscript, value: Value, source: ast.expr) -> None:
        """Assign to a part of an array."""
        if not isinstance(target.value, ast.Name | ast.Attribute):
            return
        name = ast.unparse(target.value)
        before = self.scope.value(target.value)
        if before == DICTIONARY or has_string_key(target.slice):
            key = item_key(target)
            is_known = isinstance(value, Number | Stack | ListValue | Instance)
            self.scope.names[key] = value if is_known else v.unknown(key, "mixed")
            return
        item = as_int(target.slice)
        if isinstance(before, ListValue) and item is not None and 0 <= item < len(before.items):
            items = (*before.items[:item], value, *before.items[item + 1 :])
            self.scope.names[name] = ListValue(items)
            return
        is_first = isinstance(before, Stack) and before.first
        position = first_index(target.slice) if is_first else component_index(target.slice)
        if position is not None and position >= 0 and isinstance(before, Number | Stack):
            count = max(2, position + 1, len(before.parts) if isinstance(before, Stack) else 0)
            parts: list[Number | None] = []
            for i in range(count):
                old = select(before, ast.Constant(i) if is_first else index_of(i), target)
                parts.append(old if isinstance(old, Number) else None)
            parts[position] = value if isinstance(value, Number) else None
            names = list(before.names if isinstance(before, Stack) else ())
            names += [""] * (count - len(names))
            if isinstance(source, ast.Name):
                names[position] = source.id
            self.scope.names[name] = Stack(tuple(parts), tuple(names), is_first)
            return
        entries = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        others = [part for part in entries[1:] if not keeps_axis(part)]
        if len(others) == 1 and isinstance(others[0], ast.Name) and isinstance(value, Number):
            self.scope.names[name] = value  # for each component in a loop
        elif (
            any(isinstance(part, ast.Slice) for part in others)
            or any(as_int(part) is not None for part in entries[:1])
            or (self.scope.loops and isinstance(target.slice, ast.Name))
        ):  # a part of it that is not known
            self.scope.names[name] = v.unknown(f"{name}@{target.lineno}", "mixed")


def counter_of(node: ast.For | ast.AsyncFor) -> str:
    """Return the name of i in ``for i, item in enumerate(items)``, or ""."""
    match node:
        case ast.For(
            iter=ast.Call(func=ast.Name(id="enumerate"), args=[_]),
            target=ast.Tuple(elts=[ast.Name(id=name), _]),
        ):
            return name
    return ""


def with_number(body: Sequence[ast.stmt], name: str, number: int) -> list[ast.stmt]:
    """Replace a name by a number in statements."""
    return [ReplaceName(name, number).visit(deepcopy(part)) for part in body]


class ReplaceName(ast.NodeTransformer):
    """Replaces a name by a number."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace the name where it is read."""
        is_read = node.id == self.name and isinstance(node.ctx, ast.Load)
        return ast.copy_location(ast.Constant(self.number), node) if is_read else node


def has_string_key(index: ast.expr) -> bool:
    """Whether an index contains a string, so that what it belongs to is a dictionary."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(
        isinstance(part, ast.JoinedStr)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        or (isinstance(part, ast.Call) and ast.unparse(part.func) in ("str", "repr"))
        for part in parts
    )


def is_size(node: ast.expr) -> bool:
    """Whether a call returns sizes, by its name."""
    return bool(re.search(r"size|shape|list|tuple|map", ast.unparse(node).lower()))


def index_of(position: int) -> ast.expr:
    """Make the syntax of ``[..., position]``."""
    return ast.Tuple([ast.Constant(...), ast.Constant(position)])


def value_of_name(name: str, value: Value, line: int) -> Value:
    """Return the value of a name after an assignment: a flow may be recognized by its name."""
    axis = v.size_axis(name) if len(name.rpartition(".")[2]) > 1 else ""
    if axis and (value is None or is_opaque(value)):
        return v.size(Symbol(f"{name}@{line}", axis))
    if value is None:
        return v.unknown(f"{name}@{line}", "mixed")
    if isinstance(value, Number) and len(value.terms) == 1 and v.is_flow(name):
        (variable, scale), *_ = value.terms
        unscaled = v.close(scale, v.ONES) and not any(value.offset)
        if unscaled and variable.kind == "call" and FLOW_SOURCES.search(variable.name):
            return v.unknown(name, "flow")
    if isinstance(value, Number) and value.constant and len(value.symbols) == 1:
        (symbol,) = value.symbols
        axis = v.size_axis(name)
        if axis and symbol.axis and axis != symbol.axis:  # its name says another axis
            return replace(value, symbols=frozenset([replace(symbol, axis="")]))
    return value


def is_opaque(value: Value) -> bool:
    """Whether a value is an unknown array, as it is."""
    if not isinstance(value, Number) or len(value.terms) != 1 or any(value.offset):
        return False
    ((variable, scale),) = value.terms
    return variable.kind in ("", "call", "mixed") and v.close(scale, v.ONES)


def axes_of(names: Sequence[str]) -> list[str]:
    """Return the axes of the names that a shape is unpacked to, by the names or their places.

    >>> axes_of(["B", "C", "H", "W"]), axes_of(["n", "c", "d0", "d1", "d2"])
    (['', '', 'y', 'x'], ['', '', 'z', 'y', 'x'])
    """
    if len(names) == 5:
        return ["", "", "z", "y", "x"]
    axes = [v.size_axis(name) for name in names]
    if axes.count("x") == 1 and axes.count("y") == 1:
        return axes
    return [""] * len(names)


def merged(after: Sequence[dict[str, Value]], line: int) -> dict[str, Value]:
    """Return the names after branches: what differs is unknown."""
    first, *others = after
    names = dict(first)
    for other in others:
        for key in {*names, *other}:
            if (key in names) != (key in other):
                names[key] = names.get(key, other.get(key))  # defined in one branch only
            elif names[key] != other[key]:
                names[key] = merged_value(names[key], other[key], f"{key}@{line}")
    return names


def merged_value(first: Value, second: Value, name: str) -> Value:
    """Return the value that two branches give a name: unknown if they differ.

    What is None, or not yet in a dictionary, is about to get the value of the other branch.
    """
    if first == second or second in (ABSENT, NONE):
        return first
    if first in (ABSENT, NONE) or (
        mesh_outline(first) and mesh_outline(first) == mesh_outline(second)
    ):
        return second
    line = without_dims(first)
    return line if line and line == without_dims(second) else v.unknown(name, "mixed")


def mesh_outline(value: Value) -> object:
    """Describe a mesh without the sizes that it was made for; None for other values."""
    parts = value.parts if isinstance(value, Stack) else (value,)
    lines = []
    for part in parts:
        if not isinstance(part, Number) or not part.terms:
            return None
        for variable, scale in part.terms:
            if not variable.is_index:
                return None
            spans = [round(s * (n - 1), 4) for s, n in zip(scale, variable.count, strict=True)]
            span = 1.0 if v.close(scale, v.ONES) else tuple(spans)
            lines.append((variable.kind, variable.dim, span, part.offset))
    return tuple(lines)
