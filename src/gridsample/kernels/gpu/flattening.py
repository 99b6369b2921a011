"""Records: named groups of arguments, which machine code takes one by one.

A compiled function may have a parameter that is annotated with a record, a NamedTuple.  It can read
the fields, pass the record on, and make a record for a variable.  Before the function is compiled,
it is flattened: each field becomes a separate parameter or variable, called ``parameter_field``.
Compilers thus see only numbers and arrays, however they treat tuples, and the arguments of machine
code are listed by field name, from the same records.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Function = Callable[..., Any]


def is_record(kind: Any) -> bool:
    """Whether an annotation, as `meaning` gives it, is a record."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def meaning(annotation: Any, scope: Mapping[str, Any]) -> Any:
    """Return the record that an annotation names, or else its text."""
    annotation = getattr(annotation, "__forward_arg__", annotation)  # how NamedTuple stores text
    found = scope.get(annotation) if isinstance(annotation, str) else annotation
    return found if is_record(found) else annotation


@functools.cache
def fields(record: Any) -> dict[str, Any]:
    """Return a record's fields, each with its own record, or the text of its annotation."""
    scope = vars(sys.modules[record.__module__])
    return {name: meaning(record.__annotations__[name], scope) for name in record._fields}


def parameters(function: Function) -> dict[str, Any]:
    """Return a function's parameters, each with its record, or the text of its annotation."""
    notes = function.__annotations__
    return {
        name: meaning(notes.get(name, ""), function.__globals__)
        for name in inspect.signature(function).parameters
    }


def spread(name: str, kind: Any) -> Iterator[tuple[str, str]]:
    """Yield the flat names that a parameter becomes, with the text of their annotations."""
    if not is_record(kind):
        yield name, kind
        return
    for field, inner in fields(kind).items():
        yield from spread(f"{name}_{field}", inner)


def flat_parameters(function: Function) -> dict[str, str]:
    """Return the parameters of the flattened function, with the text of their annotations.

    Example:
        >>> from typing import NamedTuple
        >>> class Image(NamedTuple):
        ...     memory: "Array"
        ...     item: int
        >>> def gather(image: Image, first: int) -> None: ...
        >>> list(flat_parameters(gather))
        ['image_memory', 'image_item', 'first']
    """
    return dict(pair for one in parameters(function).items() for pair in spread(*one))


def flat_values(**records: Any) -> dict[str, Any]:
    """Return values by flat name: the fields of records, and other values unchanged.

    Example:
        >>> from typing import NamedTuple
        >>> class Image(NamedTuple):
        ...     memory: object
        ...     item: int
        >>> flat_values(image=Image(None, 12), first=3)
        {'image_memory': None, 'image_item': 12, 'first': 3}
    """
    flat: dict[str, Any] = {}
    for name, value in records.items():
        if is_record(type(value)):
            inner = zip(value._fields, value, strict=True)
            flat |= flat_values(**{f"{name}_{field}": one for field, one in inner})
        else:
            flat[name] = value
    return flat


def check(function: Function, given: Mapping[str, Any], left: frozenset[str]) -> None:
    """Check named arguments against a function's signature.

    Every parameter must be given, except those in ``left``, which others supply.  An argument for a
    record must be an instance of that record.

    Raises:
        TypeError: an argument is missing, unknown, or not an instance of its record.
    """
    taken = parameters(function)
    if given.keys() != taken.keys() - left:
        missing, more = taken.keys() - left - given.keys(), given.keys() - taken.keys() | left
        raise TypeError(
            f"{function.__name__}: missing {sorted(missing)}, unexpected "
            f"{sorted(more & given.keys())}"
        )
    for name, value in given.items():
        kind = taken[name]
        if is_record(kind) and not isinstance(value, kind):
            raise TypeError(f"{function.__name__}: {name} must be {kind.__name__}, got {value!r}")


class Flatten(ast.NodeTransformer):
    """Replace records by their fields in one function."""

    def __init__(self, records: dict[str, Any], scope: Mapping[str, Any]) -> None:
        """Transform parameters that are ``records``; ``scope`` contains the records' names."""
        self.records, self.scope = dict(records), scope

    def find(self, node: ast.expr) -> tuple[str, Any] | None:
        """Return the flat name of a record or field, and its kind; None for anything else."""
        if isinstance(node, ast.Name):
            kind = self.records.get(node.id)
            return (node.id, kind) if kind is not None else None
        owner = self.find(node.value) if isinstance(node, ast.Attribute) else None
        if owner is None or not is_record(owner[1]):
            return None
        assert isinstance(node, ast.Attribute)
        return f"{owner[0]}_{node.attr}", fields(owner[1])[node.attr]

    def given(self, arguments: list[ast.expr]) -> list[ast.expr]:
        """Return the arguments of a call, with the fields of records one by one."""
        flat: list[ast.expr] = []
        for one in arguments:
            found = self.find(one)
            if found is None:
                flat.append(self.visit(one))
            else:
                flat += [ast.Name(name, ast.Load()) for name, _ in spread(*found)]
        return flat

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        """Flatten the parameters."""
        flat: list[ast.arg] = []
        for one in node.args:
            kind = self.records.get(one.arg)
            if kind is None:
                flat.append(one)
                continue
            for name, annotation in spread(one.arg, kind):
                flat.append(ast.arg(name, ast.parse(annotation, mode="eval").body))
        node.args = flat
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Flatten the arguments of a call."""
        node.func = self.visit(node.func)
        node.args = self.given(node.args)
        node.keywords = [self.visit(one) for one in node.keywords]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Replace a field by its variable."""
        found = self.find(node)
        if found is None:
            node.value = self.visit(node.value)
            return node
        if is_record(found[1]):
            raise TypeError(f"{ast.unparse(node)} is a record, which can only be passed on")
        return ast.copy_location(ast.Name(found[0], node.ctx), node)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Reject any other use of a record."""
        if node.id in self.records:
            raise TypeError(f"{node.id} is a record, which can only be passed on")
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        """Replace the construction of a record by assignments to its variables."""
        made = node.value.func if isinstance(node.value, ast.Call) else None
        kind = self.scope.get(made.id) if isinstance(made, ast.Name) else None
        if not is_record(kind):
            return self.generic_visit(node)  # type: ignore[return-value]
        (target,) = node.targets
        assert isinstance(target, ast.Name) and isinstance(node.value, ast.Call)
        values = self.given(node.value.args)
        named = {one.arg: one.value for one in node.value.keywords}
        rest = list(fields(kind))[len(node.value.args) :]
        values += self.given([named[name] for name in rest])
        self.records[target.id] = kind
        return [
            ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), node)
            for (name, _), value in zip(spread(target.id, kind), values, strict=True)
        ]


@functools.cache
def tree(path: str) -> dict[str, ast.FunctionDef]:
    """Return the functions of a file, by name."""
    with open(path, encoding="utf-8") as file:
        body = ast.parse(file.read()).body
    return {one.name: one for one in body if isinstance(one, ast.FunctionDef)}


def flat_definition(function: Function) -> ast.FunctionDef:
    """Return the flattened definition of a function."""
    code = function.__code__
    found: Any = tree(code.co_filename).get(code.co_name)
    if found is None or found.lineno != code.co_firstlineno:  # not a top-level function of its file
        (found,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    records = {name: kind for name, kind in parameters(function).items() if is_record(kind)}
    flat = Flatten(records, function.__globals__).visit(copy.deepcopy(found))
    assert isinstance(flat, ast.FunctionDef)
    return flat
