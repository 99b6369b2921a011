"""Changes of source code that fix a finding."""

from __future__ import annotations

import ast
import codecs
from collections.abc import Iterable
from typing import NamedTuple


class Edit(NamedTuple):
    """Text in place of a part of a file.

    Attributes:
        begin: the line, from 1, and the byte in it, from 0, at which the part begins.
        end: where it ends.
        text: the new text.
    """

    begin: tuple[int, int]
    end: tuple[int, int]
    text: str


def edit_of_keyword(node: ast.Call, name: str, value: object, position: int) -> Edit | None:
    """Make the edit that gives an argument of a call a value; None for a call without arguments.

    ``position`` is that of the argument if it is not given by its name.
    """
    given = [keyword.value for keyword in node.keywords if keyword.arg == name]
    given += node.args[position : position + 1]
    if given:
        return Edit(begin_of(given[0]), end_of(given[0]), repr(value))
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    if not values:
        return None
    last = max(map(end_of, values))
    return Edit(last, last, f", {name}={value!r}")


def begin_of(node: ast.expr) -> tuple[int, int]:
    """Return where an expression begins."""
    return node.lineno, node.col_offset


def end_of(node: ast.expr) -> tuple[int, int]:
    """Return where an expression ends."""
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def edited(source: bytes, edits: Iterable[Edit]) -> bytes:
    """Apply edits, which do not overlap, to source code in UTF-8.

    >>> edited(b"f(x)", [Edit((1, 3), (1, 3), ", y=1")])
    b'f(x, y=1)'
    """
    mark = codecs.BOM_UTF8 if source.startswith(codecs.BOM_UTF8) else b""
    lines = source[len(mark) :].splitlines(keepends=True)
    for edit in sorted(set(edits), reverse=True):
        (first, begin), (last, end) = edit.begin, edit.end
        head, tail = lines[first - 1][:begin], lines[last - 1][end:]
        lines[first - 1 : last] = [head + edit.text.encode() + tail]
    return mark + b"".join(lines)
