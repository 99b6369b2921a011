"""The kernels' machine code, kept on disk from one process to the next.

Numba's own cache would lie beside the sources, where a damaged file ends every call, and has every
process that finds it empty compile for itself.  What stands here takes its place in Numba's
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

Function = Callable[..., Any]

log = logging.getLogger("gridsample.compile")
tally: collections.Counter[str] = collections.Counter()  # kernels "compiled" and "loaded"

# How long a process waits for another that compiles the same kernel, before it does so itself.
PATIENCE = 120.0
# Numba's settings that change machine code.
SETTINGS = (
    "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "DISABLE_INTEL_SVML", "ENABLE_AVX", "LOOP_VECTORIZE",
    "OPT", "SLP_VECTORIZE",
)  # fmt: skip


@functools.cache
def environment() -> tuple[str, ...]:
    """What machine code depends on beside the kernel and the processor."""
    settings = (f"{name}={getattr(config, name, None)}" for name in SETTINGS)
    versions = __version__, numba.__version__, llvmlite.__version__, np.__version__
    return *versions, sys.version, platform.python_implementation(), *settings


class KernelCache:
    """A dispatcher's cache: Numba asks it for machine code, and hands it what was compiled."""

    def __init__(self, function: Function, dispatcher: Any, prepare: Callable[[], None]) -> None:
        """For the kernel that a dispatcher was made of; see `keep`."""
        self.function = function
        self.prepare = prepare
        self.context = dispatcher.targetctx
        self.found: dict[str, bytes] = {}  # what was read, and is about to be loaded

    @property
    def cache_path(self) -> str:
        """The folder that is written to, for Numba's statistics."""
        return folders.writable()

    def name(self, signature: Any) -> str:
        """The kernel's name on disk, which stands for all that its code depends on."""
        name = self.function.__qualname__
        kernel = name, self.function.__code__.co_code.hex(), str(signature)
        processor = self.context.codegen().magic_tuple()
        meaning = repr((kernel, tuple(map(str, processor)), environment()))
        words = itertools.takewhile(str.isalpha, name.split("_"))  # what comes before its types
        return f"{'_'.join(words)}-{hashlib.sha256(meaning.encode()).hexdigest()[:32]}"

    def find(self, signature: Any) -> bool:
        """Whether the code for a signature is on disk; if so it is read, to be loaded next."""
        payload = folders.read(self.name(signature))
        if payload is not None:
            self.found[str(signature)] = payload
        return payload is not None

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The code for a signature as Numba wants it; None if it is not there, to be compiled."""
        name = self.name(signature)
        payload = self.found.pop(str(signature), None) or folders.read(name)
        result = None
        if payload is not None:
            try:
                kept = pickle.loads(payload)
                result = CompileResult._rebuild(context, *kept)  # type: ignore[no-untyped-call]
            except Exception as error:  # whatever it is, the kernel can be compiled
                folders.refuse(name, folders.writable(), f"{type(error).__name__}: {error}")
        if result is None:
            self.prepare()
        else:
            tally["loaded"] += 1
        return result

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep code that was compiled."""
        tally["compiled"] += 1
        name, kept = self.name(signature), False
        if not (result.lifted or result.library.has_dynamic_globals):
            kept = folders.write(name, dumps(result._reduce()))  # type: ignore[no-untyped-call]
        log.info("compiled %s, which is %s", name, "kept" if kept else "not kept")

    def flush(self) -> None:
        """Forget nothing: what is compiled anew takes the place of what was there."""


def keep(dispatcher: Any, function: Function, prepare: Callable[[], None] = lambda: None) -> Any:
    """Have a dispatcher keep its code on disk, and take turns with other processes to compile.

    It compiles when it is called, or by ``compile``; both end in that method.  ``prepare`` is
    called before code is compiled, and not where it is loaded.
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
