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


def is_record(annotation: Any) -> bool:
    """Whether an annotation, as `meaning` gives it, is a record."""
    return (
        isinstance(annotation, type)
        and issubclass(annotation, tuple)
        and hasattr(annotation, "_fields")
    )


def meaning(annotation: Any, scope: Mapping[str, Any]) -> Any:
    """Return the record that an annotation names, or else its text."""
    annotation = getattr(annotation, "__forward_arg__", annotation)  # how NamedTuple stores text
    value = scope.get(annotation) if isinstance(annotation, str) else annotation
    return value if is_record(value) else annotation


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


def flat_names(name: str, record: Any) -> Iterator[tuple[str, str]]:
    """Yield the flat names that a parameter becomes, with the text of their annotations."""
    if not is_record(record):
        yield name, record
        return
    for field, inner in fields(record).items():
        yield from flat_names(f"{name}_{field}", inner)


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
    return dict(
        pair for parameter in parameters(function).items() for pair in flat_names(*parameter)
    )


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
            flat |= flat_values(**{f"{name}_{field}": value for field, value in inner})
        else:
            flat[name] = value
    return flat


def check(function: Function, arguments: Mapping[str, Any], left: frozenset[str]) -> None:
    """Check named arguments against a function's signature.

    Every parameter must be given, except those in ``left``, which others supply.  An argument for a
    record must be an instance of that record.

    Raises:
        TypeError: an argument is missing, unknown, or not an instance of its record.
    """
    taken = parameters(function)
    if arguments.keys() != taken.keys() - left:
        missing, more = (
            taken.keys() - left - arguments.keys(),
            arguments.keys() - taken.keys() | left,
        )
        raise TypeError(
            f"{function.__name__}: missing {sorted(missing)}, unexpected "
            f"{sorted(more & arguments.keys())}"
        )
    for name, value in arguments.items():
        record = taken[name]
        if is_record(record) and not isinstance(value, record):
            raise TypeError(f"{function.__name__}: {name} must be {record.__name__}, got {value!r}")


class Flatten(ast.NodeTransformer):
    """Replace records by their fields in one function."""

    def __init__(self, records: dict[str, Any], scope: Mapping[str, Any]) -> None:
        """Transform parameters that are ``records``; ``scope`` contains the records' names."""
        self.records, self.scope = dict(records), scope

    def find(self, node: ast.expr) -> tuple[str, Any] | None:
        """Return the flat name of a record or field, and its kind; None for anything else."""
        if isinstance(node, ast.Name):
            record = self.records.get(node.id)
            return (node.id, record) if record is not None else None
        owner = self.find(node.value) if isinstance(node, ast.Attribute) else None
        if owner is None or not is_record(owner[1]):
            return None
        assert isinstance(node, ast.Attribute)
        return f"{owner[0]}_{node.attr}", fields(owner[1])[node.attr]

    def flatten_arguments(self, arguments: list[ast.expr]) -> list[ast.expr]:
        """Return the arguments of a call, with the fields of records one by one."""
        flat: list[ast.expr] = []
        for argument in arguments:
            prefix = self.find(argument)
            if prefix is None:
                flat.append(self.visit(argument))
            else:
                flat += [ast.Name(name, ast.Load()) for name, _ in flat_names(*prefix)]
        return flat

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        """Flatten the parameters."""
        flat: list[ast.arg] = []
        for parameter in node.args:
            record = self.records.get(parameter.arg)
            if record is None:
                flat.append(parameter)
                continue
            for name, annotation in flat_names(parameter.arg, record):
                flat.append(ast.arg(name, ast.parse(annotation, mode="eval").body))
        node.args = flat
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Flatten the arguments of a call."""
        node.func = self.visit(node.func)
        node.args = self.flatten_arguments(node.args)
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Replace a field by its variable."""
        prefix = self.find(node)
        if prefix is None:
            node.value = self.visit(node.value)
            return node
        if is_record(prefix[1]):
            raise TypeError(f"{ast.unparse(node)} is a record, which can only be passed on")
        return ast.copy_location(ast.Name(prefix[0], node.ctx), node)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Reject any other use of a record."""
        if node.id in self.records:
            raise TypeError(f"{node.id} is a record, which can only be passed on")
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        """Replace the construction of a record by assignments to its variables."""
        constructor = node.value.func if isinstance(node.value, ast.Call) else None
        record = self.scope.get(constructor.id) if isinstance(constructor, ast.Name) else None
        if not is_record(record):
            return self.generic_visit(node)  # type: ignore[return-value]
        (target,) = node.targets
        assert isinstance(target, ast.Name) and isinstance(node.value, ast.Call)
        values = self.flatten_arguments(node.value.args)
        named = {keyword.arg: keyword.value for keyword in node.value.keywords}
        rest = list(fields(record))[len(node.value.args) :]
        values += self.flatten_arguments([named[name] for name in rest])
        self.records[target.id] = record
        return [
            ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), node)
            for (name, _), value in zip(flat_names(target.id, record), values, strict=True)
        ]


@functools.cache
def tree(path: str) -> dict[str, ast.FunctionDef]:
    """Return the functions of a file, by name."""
    with open(path, encoding="utf-8") as file:
        body = ast.parse(file.read()).body
    return {
        statement.name: statement for statement in body if isinstance(statement, ast.FunctionDef)
    }


def flat_definition(function: Function) -> ast.FunctionDef:
    """Return the flattened definition of a function."""
    code = function.__code__
    definition: Any = tree(code.co_filename).get(code.co_name)
    if (
        definition is None or definition.lineno != code.co_firstlineno
    ):  # not a top-level function of its file
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    records = {
        name: annotation
        for name, annotation in parameters(function).items()
        if is_record(annotation)
    }
    flat = Flatten(records, function.__globals__).visit(copy.deepcopy(definition))
    assert isinstance(flat, ast.FunctionDef)
    return flat
