"""The on-disk cache of compiled kernels.

Numba's own cache is next to the sources, where a damaged file makes every call fail, and every
process that finds it empty compiles all kernels itself.  The class below replaces it in Numba's
dispatchers, and keeps its files in `gridsample.kernels.compile.folders`.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import itertools
import logging
import pickle
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from gridsample._version import __version__
from gridsample.kernels.compile import folders, forks

# Numba looks at this module when it first sees an array, and NumPy imports it only then.  A child
# of a fork would wait for ever for that import in another thread; here, the fork waits.
MASKED = np.ma

Function = Callable[..., Any]

log = logging.getLogger("gridsample.compile")
tally: collections.Counter[str] = collections.Counter()  # kernels "compiled" and "loaded"

# How long, in seconds, a process waits for another one to compile a kernel before it does so
# itself.
PATIENCE = 120.0
# Numba's settings that change machine code.
SETTINGS = (
    "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "DISABLE_INTEL_SVML", "ENABLE_AVX", "LOOP_VECTORIZE",
    "OPT", "SLP_VECTORIZE",
)  # fmt: skip


@functools.cache
def environment() -> tuple[str, ...]:
    """Return what machine code depends on besides the kernel and the processor."""
    settings = (f"{name}={getattr(config, name, None)}" for name in SETTINGS)
    versions = __version__, numba.__version__, llvmlite.__version__, np.__version__
    return *versions, sys.version, platform.python_implementation(), *settings


class KernelCache:
    """A dispatcher's cache.  Numba asks it for machine code, and passes it what was compiled."""

    def __init__(self, function: Function, dispatcher: Any, prepare: Callable[[], None]) -> None:
        """Make a cache for the kernel of a dispatcher; see `keep`."""
        self.function = function
        self.prepare = prepare
        self.context = dispatcher.targetctx
        self.found: dict[str, bytes] = {}  # what was read and will be loaded next

    @property
    def cache_path(self) -> str:
        """The folder for new files, for Numba's statistics."""
        return folders.writable()

    def name(self, signature: Any) -> str:
        """Return the kernel's name on disk; it depends on everything that its code depends on."""
        name = self.function.__qualname__
        kernel = name, self.function.__code__.co_code.hex(), str(signature)
        processor = self.context.codegen().magic_tuple()
        meaning = repr((kernel, tuple(map(str, processor)), environment()))
        words = itertools.takewhile(str.isalpha, name.split("_"))  # the name without its types
        return f"{'_'.join(words)}-{hashlib.sha256(meaning.encode()).hexdigest()[:32]}"

    def find(self, signature: Any) -> bool:
        """Whether the code for a signature is on disk; if so, read it, to be loaded next."""
        payload = folders.read(self.name(signature))
        if payload is not None:
            self.found[str(signature)] = payload
        return payload is not None

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the code for a signature as Numba expects it; None if it must be compiled."""
        name = self.name(signature)
        payload = self.found.pop(str(signature), None) or folders.read(name)
        result = None
        if payload is not None:
            try:
                kept = pickle.loads(payload)
                result = CompileResult._rebuild(context, *kept)  # type: ignore[no-untyped-call]
            except Exception as error:  # whatever the failure, the kernel can be compiled
                folders.refuse(name, folders.writable(), f"{type(error).__name__}: {error}")
        if result is None:
            self.prepare()
        else:
            tally["loaded"] += 1
        return result

    def save_overload(self, signature: Any, result: Any) -> None:
        """Store code that was compiled."""
        tally["compiled"] += 1
        name, kept = self.name(signature), False
        if not (result.lifted or result.library.has_dynamic_globals):
            kept = folders.write(name, dumps(result._reduce()))  # type: ignore[no-untyped-call]
        log.info("compiled %s, which is %s", name, "stored" if kept else "not stored")

    def flush(self) -> None:
        """Do nothing: newly compiled code replaces the old."""


def keep(dispatcher: Any, function: Function, prepare: Callable[[], None] = lambda: None) -> Any:
    """Make a dispatcher store its code on disk, and compile in turn with other processes.

    The dispatcher compiles when it is called, or in its method ``compile``; calls end in that
    method too.  ``prepare`` is called before code is compiled, but not if it is loaded.
    """
    cache, compile_ = KernelCache(function, dispatcher, prepare), dispatcher.compile

    def compile_in_turn(signature: Any) -> Any:
        name = cache.name(signature)
        known = signature in dispatcher.overloads or cache.find(signature)
        turn = folders.turn(name, PATIENCE, lambda: cache.find(signature))
        with contextlib.nullcontext() if known else turn, forks.held():
            began = time.monotonic()
            entry = compile_(signature)
            cache.found.pop(str(signature), None)  # another thread may have loaded it
            log.debug("%s is ready after %.3f s", name, time.monotonic() - began)
            return entry

    dispatcher._cache = cache
    dispatcher.compile = compile_in_turn
    return dispatcher
