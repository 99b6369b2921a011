"""Compile lowered functions: one function for each kind of function that kernels consist of.

Numba compiles them through `gridsample.kernels.compile.pipeline`, which relies on its internals.
If these are not as expected, or ``GRIDSAMPLE_PLAIN_NUMBA=1`` is set, Numba's plain decorators
compile the same functions.  Results then agree up to rounding, loops may be slower, and every
process compiles anew.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numba as nb

from gridsample.kernels.compile import forks
from gridsample.kernels.compile.lower import Function

log = logging.getLogger("gridsample.compile")

# Numba's decorators; their type stubs lack some of the options.
jit: Any = nb.njit
cfunc: Any = nb.cfunc
# Compiled functions raise no exceptions.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
# The environment variable that asks for the plain decorators.
PLAIN = "GRIDSAMPLE_PLAIN_NUMBA"


@functools.cache
def pipeline() -> ModuleType | None:
    """Return the module that compiles with Numba's internals; None if plain decorators must do.

    In the latter case, the log says so once.
    """
    if os.environ.get(PLAIN) == "1":
        problem = f"{PLAIN} is set"
    else:
        try:
            from gridsample.kernels.compile import pipeline as internals

            problem = internals.unexpected()
        except (ImportError, AttributeError) as error:
            problem = str(error)
    if not problem:
        return internals
    log.info("kernels are compiled by Numba's plain njit, which is slower: %s", problem)
    return None


def is_plain() -> bool:
    """Whether kernels are compiled by Numba's plain decorators."""
    return pipeline() is None


def compile_inner(
    function: Function, *more: str, kind: str = "part", fuses: bool = True, **options: Any
) -> Any:
    """Compile a function that drivers call.

    Products and sums may fuse into one rounding unless ``fuses`` is False.  ``more`` are LLVM's
    names of further fast-math flags.  ``kind`` selects how the function is compiled: see
    `gridsample.kernels.compile.pipeline`.
    """
    internals = pipeline()
    ours = {} if internals is None else internals.inner_options(kind)
    fast = {"contract", *more} if fuses else False
    return jit(function, fastmath=fast, **OPTIONS, **ours, **options)


def compile_loop(function: Function) -> Any:
    """Compile a loop."""
    return compile_inner(function, kind="loop")


def compile_rounded(function: Function) -> Any:
    """Compile a loop in which every product and every sum is rounded, as in NumPy."""
    return compile_inner(function, kind="loop", fuses=False)


def compile_separate(function: Function) -> Any:
    """Compile a loop over arrays that do not overlap."""
    return compile_inner(function, kind="separate")


def compile_piece(function: Function) -> Any:
    """Compile a short loop over arrays that do not overlap."""
    return compile_inner(function, kind="piece")


def compile_inline(function: Function) -> Any:
    """Inline a function where it is called, which saves a compilation."""
    return compile_inner(function, inline="always")


def compile_sum(function: Function) -> Any:
    """Compile a reduction; the compiler chooses the order of summation, the same in every call."""
    return compile_inner(function, "reassoc", "nsz")


def compile_body(function: Function) -> Any:
    """Compile a driver, whose parts are already optimised."""
    return compile_inner(function, kind="body", fuses=False)


class PlainDriver:
    """A driver that Numba's plain decorator compiles; a fork waits for the compilation."""

    def __init__(self, function: Function) -> None:
        """Wrap the function; it is compiled in the first call."""
        self.dispatcher = jit(function, **OPTIONS)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function compiled for the types of the arguments."""
        kinds = tuple(map(nb.typeof, arguments))
        if kinds not in self.dispatcher.signatures:
            with forks.held():
                self.dispatcher.compile(kinds)
        return self.dispatcher(*arguments)


def compile_driver(function: Function, prepare: Callable[[], None] = lambda: None) -> Any:
    """Compile the entry point of a driver, and store it on disk if there is a writable folder.

    ``prepare`` is called before the function is compiled, but not if it is loaded from disk.
    """
    internals = pipeline()
    if internals is None:
        prepare()
        return PlainDriver(function)
    dispatcher = jit(function, **OPTIONS, **internals.driver_options())
    return internals.kept_on_disk(dispatcher, function, prepare)


def compile_native(
    function: Function, names: Callable[[], Mapping[str, Any]] = dict
) -> tuple[int, Callable[[int], None]]:
    """Compile a function of one integer; return the address of its code, and its Python callable.

    ``names`` makes the global values that the function uses, if it is not loaded from disk.
    """

    def prepare() -> None:
        function.__globals__.update(names())

    internals = pipeline()
    if internals is not None:
        address: tuple[int, Callable[[int], None]] = internals.compile_address(
            compile_driver(function, prepare)
        )
        return address
    with forks.held():
        prepare()
        compiled = cfunc(nb.void(nb.int64), **OPTIONS)(function)
    # A call of a C function releases the interpreter's lock.
    CALLBACKS.append(compiled)
    return compiled.address, compiled.ctypes


# C functions live as long as these.
CALLBACKS: list[Any] = []
