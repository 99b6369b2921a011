"""Compiles functions that are written once for a target.

A function that is to run on several targets mentions no target: what differs between them
(``where``, ``floor``, constants of the right precision, the loads of a storage type) is a global
name.  Lowering makes a twin of the function, from the same code, in which those names are bound
anew, and hands the twin to the target's compiler.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Function = Callable[..., Any]


def rebind(function: Function, names: Mapping[str, Any], name: str) -> Function:
    """A twin of ``function`` that finds ``names`` where its module's globals were.

    The twin has a ``name`` of its own, because compilers key their caches by name.

    Example:
        >>> from gridsample.kernels.lower import rebind
        >>> scale = 2
        >>> def times(x):
        ...     return scale * x
        >>> rebind(times, {"scale": 3}, "times_3")(5)
        15
    """
    code: types.CodeType = function.__code__
    scope: dict[str, Any] = {**function.__globals__, **names}
    twin = types.FunctionType(code, scope, name, function.__defaults__)
    twin.__qualname__ = name
    twin.__module__ = function.__module__
    return twin


def lower(
    functions: Iterable[Function | tuple[str, Function, Mapping[str, Any]]],
    names: Mapping[str, Any],
    compile_: Callable[[Function], Any],
    tag: str,
) -> dict[str, Any]:
    """Lower functions in order; each sees ``names`` and the lowered functions before it.

    An entry ``(alias, function, flags)`` lowers one more twin of ``function`` with ``flags``
    bound, to be called ``alias``: that is how a static choice becomes a function of its own.
    """
    lowered: dict[str, Any] = {}
    for entry in functions:
        alias, function, flags = entry if isinstance(entry, tuple) else (entry.__name__, entry, {})
        scope = {**names, **lowered, **flags}
        lowered[alias] = compile_(rebind(function, scope, f"{alias}_{tag}"))
    return lowered


@functools.cache
def fingerprint(*modules: str) -> str:
    """A short hash of the sources of modules that are compiled: no cache outlives a change of them.

    A compiler's own cache looks at the file of the outermost function only.  Modules go by their
    names inside the package; if none is named, all kernels are meant.
    """
    package = Path(__file__).parent.parent
    paths = [package.joinpath(*name.split(".")).with_suffix(".py") for name in modules]
    digest = hashlib.sha256()
    for path in paths or (package / "axis.py", *sorted((package / "kernels").rglob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
