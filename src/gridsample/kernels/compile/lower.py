"""Lower functions, which are written once, to a target.

A function that runs on several targets does not mention any target: everything that differs between
them (``where``, ``floor``, constants of the right precision, the loads of a storage type) is a
global name.  Lowering makes a twin of the function: the same code, with these names bound to
the target's own values.  The twin is then passed to the target's compiler.
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
    """Return a twin of ``function`` in which ``names`` replace its module's globals.

    The twin has its own ``name``, because compilers key their caches by name and linkers identify
    functions by it.  Its records are flattened: see `gridsample.kernels.compile.records`.

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

    An entry ``(alias, function, flags)`` lowers another twin of ``function``, called ``alias``,
    with ``flags`` bound.  This is how a choice at compile time becomes a separate function.

    Twins whose names all have the same values are compiled only once: a driver shares most of its
    functions with the driver before it.  ``tag`` is appended to the name of a new twin.  It must
    determine the values of all ``names``, in any process, because a driver that is loaded from disk
    brings its functions along, and a linker identifies functions by name.
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


# The lowered twins, keyed by all that determines their code.
TWINS: dict[Hashable, Any] = {}


@functools.cache
def names_used(code: types.CodeType) -> frozenset[str]:
    """Return the global names that code may use, and the names of attributes."""
    inner = (names_used(one) for one in code.co_consts if isinstance(one, types.CodeType))
    return frozenset(code.co_names).union(*inner)


@functools.cache
def fingerprint(*modules: str) -> str:
    """Return a short hash of modules' sources, so that changed sources invalidate the cache.

    It is part of every kernel's name on disk.  Modules are given by their names inside the package;
    if none is given, the hash covers all kernels.
    """
    package = Path(__file__).parent.parent.parent
    paths = [package.joinpath(*name.split(".")).with_suffix(".py") for name in modules]
    digest = hashlib.sha256()
    everything = package / "definitions" / "axis.py", *sorted((package / "kernels").rglob("*.py"))
    for path in paths or everything:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
