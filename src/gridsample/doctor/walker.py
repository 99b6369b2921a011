"""Follows the statements of a file, function by function, and keeps what names are worth."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gridsample.doctor import values as v
from gridsample.doctor.evaluator import Checker, Scope
from gridsample.doctor.names import Function, Module
from gridsample.doctor.operations import component, is_plain
from gridsample.doctor.values import Const, Number, Pack, Shape, Stack, Symbol, Value

IN_PLACE = {"add_": ast.Add(), "sub_": ast.Sub(), "mul_": ast.Mult(), "div_": ast.Div()}
# What a docstring says about a flow that is not in pixels.
NORMALIZED = re.compile(
    r"(flow|displacement|offset)s?[^.\n]*normali[sz]ed|normali[sz]ed[^.\n]*(flow|displacement|offset)"
)
SOURCES = re.compile(r"raft|flow|pwc|gmflow|read|load|farneback", re.IGNORECASE)


def walk(module: Module, check: Checker) -> None:
    """Evaluate all statements of a file, and tell ``check`` of all calls that it should check."""
    top = Scope(module, {}, check, run)
    Walker(top).statements(module.tree.body)
    enter(top, module.tree.body, {})


def enter(outer: Scope, body: Sequence[ast.stmt], local_names: dict[str, Value]) -> None:
    """Evaluate the functions and classes that a body defines."""
    for node in definitions(body):
        if isinstance(node, ast.ClassDef):
            enter_class(outer, node)
        else:
            scope = inside(outer, node, {}, local_names, outer.check)
            Walker(scope).statements(node.body)
            enter(scope, node.body, {})


def enter_class(outer: Scope, node: ast.ClassDef) -> None:
    """Evaluate the methods of a class; all of them know what the constructor assigns to self."""
    methods = [statement for statement in node.body if isinstance(statement, Function)]
    members: dict[str, Value] = {}
    for method in methods:
        if method.name == "__init__":
            scope = inside(outer, method, {}, {}, None)
            Walker(scope).statements(method.body)
            members = {key: value for key, value in scope.names.items() if key.startswith("self.")}
    enter(outer, node.body, members)


def definitions(body: Sequence[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    """Yield the functions and classes in a body, also below an ``if`` or a ``with``."""
    for node in body:
        if isinstance(node, Function | ast.ClassDef):
            yield node
        elif isinstance(node, ast.If | ast.With | ast.Try | ast.For | ast.While):
            for name in ("body", "orelse", "finalbody"):
                yield from definitions(getattr(node, name, []))


def inside(
    outer: Scope,
    function: Function,
    arguments_given: dict[str, Value],
    local_names: dict[str, Value],
    check: Checker | None,
) -> Scope:
    """Make the scope of a function: outer names, defaults of its parameters, and arguments."""
    names = {**outer.names, **local_names}
    arguments = function.args
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
    for parameter in parameters:
        if parameter.arg in arguments_given:
            names[parameter.arg] = arguments_given[parameter.arg]
    text = ast.get_docstring(function) or ""
    for parameter in parameters:
        if (
            v.is_flow(parameter.arg)
            and parameter.arg not in arguments_given
            and NORMALIZED.search(text.lower())
        ):
            names[parameter.arg] = v.unknown(parameter.arg, "mixed")
    depth = outer.depth + (check is None)
    return Scope(outer.module, names, check, run, function, depth)


def run(outer: Scope, function: ast.FunctionDef, arguments: dict[str, Value]) -> Value:
    """Return what a function of the file returns for some arguments, or None if it depends."""
    scope = inside(outer, function, arguments, {}, None)
    walker = Walker(scope)
    walker.statements(function.body)
    first = walker.returned[0] if walker.returned else None
    return first if all(value == first for value in walker.returned) else None


class Walker:
    """Evaluates statements in order.

    Attributes:
        scope: the names, which the statements change.
        returned: the values of the return statements.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.returned: list[Value] = []

    def statements(self, body: Sequence[ast.stmt]) -> bool:
        """Evaluate statements; return whether one of them leaves the function or the loop."""
        return any([self.statement(node) for node in body])  # all, also what cannot be reached

    def statement(self, node: ast.stmt) -> bool:
        """Evaluate one statement; return whether it leaves the function or the loop."""
        match node:
            case ast.Assign(targets=targets, value=value):
                assigned = self.scope.value(value)
                for target in targets:
                    self.bind(target, assigned, value)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self.bind(target, self.scope.value(value), value)
            case ast.AugAssign(target=target, op=op, value=value):
                before = self.scope.value(target)
                assigned = self.scope.binary(op, before, self.scope.value(value), value)
                self.bind(target, assigned, value)
            case ast.Expr(value=value):
                self.expression(value)
            case ast.Return(value=value):
                self.returned.append(self.scope.value(value))
                return True
            case ast.Raise() | ast.Continue() | ast.Break():
                return True
            case ast.If():
                return self.branch(node)
            case ast.For() | ast.AsyncFor():
                self.scope.value(node.iter)
                self.bind(node.target, None, node.iter)
                self.statements(node.body)
                self.statements(node.orelse)
            case ast.While():
                self.scope.value(node.test)
                self.statements(node.body)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.scope.value(item.context_expr)
                return self.statements(node.body)
            case ast.Try():
                ended = self.statements(node.body)
                for handler in node.handlers:
                    names_before = dict(self.scope.names)
                    self.statements(handler.body)
                    self.scope.names = names_before
                return self.statements([*node.orelse, *node.finalbody]) or ended
            case ast.Match():
                self.scope.value(node.subject)
                return self.bodies([case.body for case in node.cases], node.lineno)
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
        left = [names for names, ended in zip(after, ends, strict=True) if not ended]
        self.scope.names = merged(left, node.lineno) if left else before
        return not left

    def bodies(self, bodies: Sequence[Sequence[ast.stmt]], line: int) -> bool:
        """Evaluate the cases of a match, one of which may hold or none."""
        before, after = dict(self.scope.names), [dict(self.scope.names)]
        for body in bodies:
            self.scope.names = dict(before)
            if not self.statements(body):
                after.append(self.scope.names)
        self.scope.names = merged(after, line)
        return False

    def expression(self, value: ast.expr) -> None:
        """Evaluate a statement that is a call, perhaps one that changes an array in place."""
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            op = IN_PLACE.get(value.func.attr)
            if op is not None and len(value.args) == 1:
                owner, right = self.scope.value(value.func.value), self.scope.value(value.args[0])
                self.bind(value.func.value, self.scope.binary(op, owner, right, value), value)
                return
        self.scope.value(value)

    # Assignments ----------------------------------------------------------------------------------

    def bind(self, target: ast.expr, value: Value, source: ast.expr) -> None:
        """Assign a value to a name, an attribute, a component, or several names."""
        match target:
            case ast.Name(id=name):
                self.scope.names[name] = named(name, value, target.lineno)
            case ast.Attribute():
                self.scope.names[ast.unparse(target)] = named(
                    ast.unparse(target), value, target.lineno
                )
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                self.unpack(elements, value, source)
            case ast.Subscript():
                self.store(target, value, source)

    def unpack(self, targets: Sequence[ast.expr], value: Value, source: ast.expr) -> None:
        """Assign the items of a value to several names."""
        items: Sequence[Value] = [None] * len(targets)
        if isinstance(value, Shape):
            names = [ast.unparse(item_target) for item_target in targets]
            axes = axes_of(names)
            keys = [f"{name} of {value.owner}" for name in names]
            items = [
                v.size(Symbol(key, axis, value.owner)) for key, axis in zip(keys, axes, strict=True)
            ]
        elif isinstance(value, Pack) and len(value.items) >= len(targets):
            items = value.items[: len(targets)]
        elif isinstance(value, Stack) and len(value.parts) == len(targets):
            items = value.parts
        for target, item in zip(targets, items, strict=True):
            self.bind(target, item, source)

    def store(self, target: ast.Subscript, value: Value, source: ast.expr) -> None:
        """Assign to a part of an array."""
        if not isinstance(target.value, ast.Name | ast.Attribute):
            return
        name = ast.unparse(target.value)
        before = self.scope.value(target.value)
        place = component(target.slice)
        if place is not None and place >= 0 and isinstance(before, Number | Stack):
            count = max(2, place + 1, len(before.parts) if isinstance(before, Stack) else 0)
            parts: list[Number | None] = []
            for i in range(count):
                old = self.scope.piece(before, index_of(i), target)
                parts.append(old if isinstance(old, Number) else None)
            parts[place] = value if isinstance(value, Number) else None
            names = list(before.names if isinstance(before, Stack) else ())
            names += [""] * (count - len(names))
            if isinstance(source, ast.Name):
                names[place] = source.id
            self.scope.names[name] = Stack(tuple(parts), tuple(names))
            return
        entries = target.slice.elts if isinstance(target.slice, ast.Tuple) else []
        others = [entry for entry in entries[1:] if not is_plain(entry)]
        if len(others) == 1 and isinstance(others[0], ast.Name) and isinstance(value, Number):
            self.scope.names[name] = value  # for each component in a loop
        elif any(isinstance(entry, ast.Slice) for entry in others):
            self.scope.names[name] = v.unknown(f"{name}@{target.lineno}", "mixed")


def index_of(place: int) -> ast.expr:
    """Make the syntax of ``[..., place]``."""
    return ast.Tuple([ast.Constant(...), ast.Constant(place)])


def named(name: str, value: Value, line: int) -> Value:
    """Return what a name is worth after an assignment: a flow may be recognized by its name."""
    if value is None:
        return v.unknown(f"{name}@{line}", "mixed")
    if isinstance(value, Number) and len(value.terms) == 1 and v.is_flow(name):
        (base, scale), *_ = value.terms
        unscaled = v.close(scale, [1.0] * v.SAMPLES) and not any(value.offset)
        if unscaled and base.kind == "call" and SOURCES.search(base.name):
            return v.unknown(name, "flow")
    if isinstance(value, Number) and value.constant and len(value.symbols) == 1:
        (symbol,) = value.symbols
        axis = v.size_axis(name)
        if axis and symbol.axis and axis != symbol.axis:  # its name says another axis
            return replace(value, symbols=frozenset([replace(symbol, axis="")]))
    return value


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
            if key in names and key in other and names[key] == other[key]:
                continue
            if (key in names) != (key in other):
                names[key] = names.get(key, other.get(key))  # defined in one branch only
                continue
            names[key] = v.unknown(f"{key}@{line}", "mixed")
    return names
