"""Uses of Triton's internals: the choice between its compiler and its interpreter."""

from __future__ import annotations

from typing import Any


def compiler(interpreted: bool) -> Any:
    """Return what makes a kernel of a function: for a GPU, or for Triton's interpreter on the CPU.

    `triton.jit` chooses by an environment variable, once for the whole process, but kernels need
    both.  If Triton's classes are not where they are expected, its own choice is used.
    """
    import triton

    try:
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.jit import JITFunction
    except ImportError:
        return triton.jit
    return InterpretedFunction if interpreted else JITFunction


def known_reduction(name: str, function: Any) -> Any:
    """Return the operation of a reduction that Triton's interpreter knows, else ``function``.

    With any other operation, the interpreter reduces number by number.  ``name`` is "plus" or
    "larger".
    """
    import triton.language as tl

    known = {"plus": "_sum_combine", "larger": "_elementwise_max"}[name]
    return getattr(getattr(tl, "standard", None), known, function)
