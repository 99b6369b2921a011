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
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gridsample.kernels.compile.records import flatten

Function = Callable[..., Any]


def rebind(function: Function, names: Mapping[str, Any], name: str) -> Function:
    """A twin of ``function`` that finds ``names`` where its module's globals were.

    The twin has a ``name`` of its own, because compilers key their caches by name, and linkers know
    functions by it.  Its records are flat: see `gridsample.kernels.compile.records`.

    Example:
        >>> from gridsample.kernels.compile.lower import rebind
        >>> scale = 2
        >>> def times(x):
        ...     return scale * x
        >>> rebind(times, {"scale": 3}, "times_3")(5)
        15
    """
    function = flatten(function)
    code: types.CodeType = function.__code__
    scope: dict[str, Any] = {**function.__globals__, **names}
    twin = types.FunctionType(code, scope, name, function.__defaults__, function.__closure__)
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

    Twins for which all names that they use mean the same are one, compiled once: most functions of
    a driver are those of the driver before it.  ``tag`` ends the name of one that is new.  It must
    decide all that ``names`` mean, in any process: a driver that is loaded from disk brings its
    functions along, and a linker knows functions by name.
    """
    lowered: dict[str, Any] = {}
    for entry in functions:
        alias, function, flags = entry if isinstance(entry, tuple) else (entry.__name__, entry, {})
        scope = {**names, **lowered, **flags}
        # Numbers of different types are equal, but not the same constant.
        used = sorted(names_used(flatten(function).__code__) & scope.keys())
        meaning = tuple((name, type(scope[name]), scope[name]) for name in used)
        twin = (function, compile_, alias, meaning)
        if twin not in TWINS:
            TWINS[twin] = compile_(rebind(function, scope, f"{alias}_{tag}"))
        lowered[alias] = TWINS[twin]
    return lowered


# What was lowered, by all that decides its code.
TWINS: dict[Hashable, Any] = {}


@functools.cache
def names_used(code: types.CodeType) -> frozenset[str]:
    """The global names that code may mention, and those of attributes."""
    inner = (names_used(one) for one in code.co_consts if isinstance(one, types.CodeType))
    return frozenset(code.co_names).union(*inner)


@functools.cache
def fingerprint(*modules: str) -> str:
    """A short hash of the sources of modules that are compiled: no cache outlives a change of them.

    It is part of every kernel's name, by which the kernel is found on disk.  Modules go by their
    names inside the package; if none is named, all kernels are meant.
    """
    package = Path(__file__).parent.parent.parent
    paths = [package.joinpath(*name.split(".")).with_suffix(".py") for name in modules]
    digest = hashlib.sha256()
    everything = package / "definitions" / "axis.py", *sorted((package / "kernels").rglob("*.py"))
    for path in paths or everything:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
