"""Uses of Triton's internals: its compiler or its interpreter, and compiled kernels."""

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

    class Interpreted(InterpretedFunction):  # type: ignore[misc]
        """A kernel, or a function that kernels call, in the interpreter."""

        def __call__(self, *arguments: Any, **keywords: Any) -> Any:
            """Run the function for a kernel.

            The interpreter has patched Triton's language for the kernel.  Triton would patch it
            again for each function, which takes longer than most functions do.
            """
            return self.rewrite()(*arguments, **keywords)

    return Interpreted if interpreted else JITFunction


def known_reduction(name: str, function: Any) -> Any:
    """Return the operation of a reduction that Triton's interpreter knows, else ``function``.

    With any other operation, the interpreter reduces number by number.  ``name`` is "plus" or
    "larger".
    """
    import triton.language as tl

    known = {"plus": "_sum_combine", "larger": "_elementwise_max"}[name]
    return getattr(getattr(tl, "standard", None), known, function)


def current_gpu() -> int:
    """Return the number of the GPU on which kernels are launched."""
    from triton.runtime import driver

    number: int = driver.active.get_current_device()
    return number


def argument_names(kernel: Any) -> list[str]:
    """Return the names of the arguments that a compiled kernel takes, those of constants too."""
    names: list[str] = kernel.src.fn.arg_names
    return names
