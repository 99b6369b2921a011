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


def known_sum(plus: Any) -> Any:
    """Return the addition with which Triton's interpreter reduces in one operation, else ``plus``.

    With any other function, the interpreter reduces number by number.
    """
    import triton.language as tl

    return getattr(getattr(tl, "standard", None), "_sum_combine", plus)
