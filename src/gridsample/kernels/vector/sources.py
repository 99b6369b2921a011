"""Lines of programs that know which line of Python wrote them.

They are kept only for programs that run in Python (`gridsample.kernels.vector.interpreter`).
"""

from __future__ import annotations

import ast
import functools
import inspect
from types import CodeType
from typing import Any, NamedTuple

# Modules that write lines on behalf of others.
WRITERS = (__package__, "contextlib", "functools")


class Place(NamedTuple):
    """A line of Python that wrote a line of a program.

    Attributes:
        code: code that calls ``__step__()``, on that line of that file.
        names: its global names.
        variables: its local names at that time.
    """

    code: CodeType
    names: dict[str, Any]
    variables: dict[str, Any]


class Line(str):
    """A line of a program, and the place that wrote it."""

    place: Place


class Lines(list[Any]):
    """Lines of a program, each of which is told its place when it is appended."""

    def append(self, line: Any) -> None:
        """Append a line, or a list of lines."""
        if isinstance(line, str):
            line = Line(line)
            line.place = place()
        super().append(line)


def place() -> Place:
    """Return the innermost line that is being run, but for those of this package."""
    frame = inspect.currentframe()
    assert frame is not None
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(WRITERS):
        frame = frame.f_back
    code = frame.f_code
    step = step_at(code.co_filename, frame.f_lineno, code.co_name)
    return Place(step, frame.f_globals, dict(frame.f_locals))


@functools.cache
def step_at(file: str, line: int, name: str) -> CodeType:
    """Return code that seems to be in a line of a file, for tracebacks and debuggers."""
    tree = ast.increment_lineno(ast.parse("__step__()"), line - 1)
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr)):
            node.col_offset = node.end_col_offset = -1  # the columns are not known
    code: CodeType = compile(tree, file, "exec").replace(co_name=name, co_qualname=name)
    return code
