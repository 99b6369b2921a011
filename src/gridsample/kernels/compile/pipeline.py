"""The pipeline that compiles kernels, made of Numba's own classes: what decorators do not offer.

    Part    the code of a function that drivers call: optimised once, and not made executable
    Loop    a part that is called a few times a block: drivers are linked with it at the very end
    Body    the code of a driver, whose parts are optimised already
    Whole   the code of what enters a driver; it is executable, and kept on disk

Compiled by Numba's plain decorator, a first call takes several times as long, and some loops do not
vectorise.  All of this is private to Numba: `unexpected` says whether it is as this module needs
it, and `gridsample.kernels.compile.jit` uses the plain decorator where it is not.
"""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import Callable
from typing import Any

import numba as nb
from llvmlite import binding as llvm
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.typed_passes import NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes
from numba.np import arrayobj

from gridsample.kernels.compile.cache import keep
from gridsample.kernels.compile.lower import Function

# What is called, or overridden, of Numba and llvmlite: owner, name, and the number of parameters
# where they are ours to pass.
EXPECTED: tuple[tuple[Any, str, int | None], ...] = (
    (JITCodeLibrary, "__init__", 3),
    (JITCodeLibrary, "add_linking_library", 2),
    (JITCodeLibrary, "enable_object_caching", 1),
    (JITCodeLibrary, "finalize", 1),
    (JITCodeLibrary, "get_pointer_to_function", 2),
    (JITCodeLibrary, "_ensure_finalized", 1),
    (JITCodeLibrary, "_finalize_dynamic_globals", 1),
    (JITCodeLibrary, "_finalize_final_module", 1),
    (JITCodeLibrary, "_get_module_for_linking", 1),
    (JITCodeLibrary, "_optimize_final_module", 1),
    (JITCodeLibrary, "_optimize_functions", 2),
    (Compiler, "__init__", 8),
    (Compiler, "compile_extra", 2),
    (Compiler, "define_pipelines", 1),
    (CompileResult, "_rebuild", None),
    (CompileResult, "_reduce", 1),
    (arrayobj, "populate_array", 7),
    (cgutils._StructProxy, "_getvalue", 1),
    (llvm, "create_pass_builder", 2),
    (llvm, "create_pipeline_tuning_options", None),
)


def unexpected() -> str:
    """What of Numba's internals is not as it was when this was written; nothing if all is."""
    for owner, name, count in EXPECTED:
        function = getattr(owner, name, None)
        if function is None:
            return f"{owner.__name__}.{name} is missing"
        if count not in (None, len(inspect.signature(function).parameters)):
            return f"{owner.__name__}.{name} takes other arguments"
    return ""


class NoEnvironment:
    """A code generator for functions that are not made executable, and so have no environment."""

    def __init__(self, codegen: Any) -> None:
        """In all else ``codegen``."""
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """There is none to set."""


@functools.cache
def wide_machine(cpu: str, features: str) -> Any:
    """A processor, for LLVM's optimiser: it may use the widest vectors that there are.

    For some processors LLVM prefers 256 bits to 512, which slowed earlier ones down.  Here that
    takes twice as long, on the same processors, for all loops but those that only collect pixels.
    """
    triple = llvm.get_process_triple()
    if triple.startswith("x86_64"):
        features = f"{features},-prefer-256-bit".removeprefix(",")
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="pic", codemodel="jitdefault", jit=True
    )


class Once(JITCodeLibrary):
    """Code that is optimised once, not function by function, then cheaply, and then in full.

    What it only calls is not there meanwhile: it is optimised already, and is of no use to it.
    """

    level = 3

    def __init__(self, *arguments: Any) -> None:
        """As Numba's library."""
        super().__init__(*arguments)  # type: ignore[no-untyped-call]
        self.called: dict[Loop, None] = {}  # each after those that it calls

    def add_linking_library(self, library: Any) -> None:
        """As Numba's library does; but loops, and those that they call, are kept for later."""
        library._ensure_finalized()
        self.called |= getattr(library, "called", {})
        if isinstance(library, Loop):
            self.called[library] = None
        else:
            super().add_linking_library(library)  # type: ignore[no-untyped-call]

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        options = llvm.create_pipeline_tuning_options(speed_level=self.level)
        options.loop_vectorization = self.level > 1
        cpu = nb.config.CPU_NAME or llvm.get_host_cpu_name()  # type: ignore[attr-defined]
        machine = wide_machine(cpu, self._codegen._tm_features)
        builder = llvm.create_pass_builder(machine, options)
        manager = builder.getModulePassManager()
        with self._recorded_timings.record("Module passes", builder):
            manager.run(self._final_module, builder)


class Part(Once):
    """The code of a function that drivers are linked with: optimised, but not made executable."""

    @property
    def codegen(self) -> Any:
        """Numba's code generator, but for environments."""
        return NoEnvironment(self._codegen)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """No function has an address of its own."""
        if not self._finalized:
            self.finalize()  # type: ignore[no-untyped-call]
        return 0


class Loop(Part):
    """A loop that is called a few times a block, where a call costs nothing.

    The driver would not gain from having its code, which would only be optimised once more.
    """


class Body(Part):
    """The code of a driver, whose parts are optimised already."""

    level = 1


class Whole(Once):
    """The code of what enters a driver, whose parts are optimised already."""

    level = 1

    def _optimize_final_module(self) -> None:
        super()._optimize_final_module()
        for loop in reversed(self.called):  # nothing is linked before it is asked for
            self._final_module.link_in(loop._get_module_for_linking(), preserve=True)  # type: ignore[no-untyped-call]


class PartCompiler(Compiler):
    """Compiles a function that drivers call, with what Numba's decorators do not offer."""

    library: type[JITCodeLibrary] = Part
    separate = False

    def __init__(
        self,
        typingctx: Any,
        targetctx: Any,
        library: Any,
        args: Any,
        return_type: Any,
        flags: Any,
        locals: Any,
    ) -> None:
        """As Numba's compiler."""
        flags.noalias = self.separate
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)  # type: ignore[no-untyped-call]
        self.state.library = self.library(targetctx.codegen(), "gridsample")

    def define_pipelines(self) -> list[Any]:
        """Numba's, but for what looks in vain for closures, or for sums of whole arrays."""
        pipelines: list[Any] = super().define_pipelines()  # type: ignore[no-untyped-call]
        for one in pipelines:
            one.passes = [
                a for a in one.passes if a[0] not in (InlineClosureLikes, NopythonRewrites)
            ]
            one.finalize()
        return pipelines


class LoopCompiler(PartCompiler):
    """Compiles a loop that a driver calls."""

    library = Loop


class SeparateCompiler(PartCompiler):
    """Compiles a loop over arrays that are separate memory, so that LLVM may vectorise it."""

    library = Loop
    separate = True


class PieceCompiler(PartCompiler):
    """As SeparateCompiler, for a loop so short that the call would be felt."""

    separate = True


class BodyCompiler(PartCompiler):
    """Compiles a driver."""

    library = Body


class WholeCompiler(PartCompiler):
    """Compiles what enters a driver, and is kept on disk with it."""

    library = Whole

    def __init__(self, *arguments: Any) -> None:
        """As Numba's compiler."""
        super().__init__(*arguments)
        self.state.library.enable_object_caching()

    def compile_extra(self, function: Function) -> Any:
        """As Numba's compiler.

        It makes so many small objects, and keeps them, that a tenth of its time would go into
        collecting garbage.
        """
        collecting = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(function)  # type: ignore[no-untyped-call]
        finally:
            if collecting:
                gc.enable()


COMPILERS: dict[str, type[PartCompiler]] = {
    "part": PartCompiler,
    "loop": LoopCompiler,
    "separate": SeparateCompiler,
    "piece": PieceCompiler,
    "body": BodyCompiler,
    "whole": WholeCompiler,
}

# Options of Numba's decorator: nothing is allocated, so that no reference needs counting; and
# nobody but a driver calls a part, which is compiled in half the time without wrappers.
UNCOUNTED: dict[str, Any] = {"_nrt": False}
INNER: dict[str, Any] = {**UNCOUNTED, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def inner_options(kind: str) -> dict[str, Any]:
    """Options of Numba's decorator for a function that drivers call; see COMPILERS for kinds."""
    return {"pipeline_class": COMPILERS[kind], **INNER}


def driver_options() -> dict[str, Any]:
    """As `inner_options`, for what enters a driver."""
    return {"pipeline_class": WholeCompiler, **UNCOUNTED}


def kept_on_disk(dispatcher: Any, function: Function, prepare: Callable[[], None]) -> Any:
    """A driver's dispatcher, which loads its code from disk, or keeps there what it compiles."""
    return keep(dispatcher, function, prepare)


def compile_address(dispatcher: Any) -> tuple[int, Callable[[int], None]]:
    """Compile a function of one integer: the address of its code, and it as Python may call it."""
    kinds = (nb.types.int64,)
    dispatcher.compile(kinds)
    result = dispatcher.overloads[kinds]
    code: int = result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)
    return code, result.entry_point
