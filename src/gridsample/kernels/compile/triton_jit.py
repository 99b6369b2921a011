"""What is asked of Triton beside its language: which of its two compilers a kernel is made for."""

from __future__ import annotations

from typing import Any


def compiler(interpreted: bool) -> Any:
    """What makes a kernel of a function: for a GPU, or for Triton's interpreter on the CPU.

    `triton.jit` chooses by an environment variable, once for a process; kernels need both.  Where
    Triton keeps its classes elsewhere, it chooses.
    """
    import triton

    try:
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.jit import JITFunction
    except ImportError:
        return triton.jit
    return InterpretedFunction if interpreted else JITFunction


def known_sum(plus: Any) -> Any:
    """The sum of two numbers that the interpreter knows to reduce by at once, else ``plus`` itself.

    By any other function it reduces number by number.
    """
    import triton.language as tl

    return getattr(getattr(tl, "standard", None), "_sum_combine", plus)
