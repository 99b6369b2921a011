"""The pipeline that compiles kernels: Numba's own classes, with options that decorators lack.

    Part    a function that drivers call: optimised once, and not made executable
    Loop    a part that is called a few times per block: it is linked to drivers at the very end
    Body    a driver, whose parts are already optimised
    Whole   the entry point of a driver; it is executable, and cached on disk

With Numba's plain decorator, a first call takes several times as long, and some loops do not
vectorise.  This module uses private parts of Numba.  `unexpected` checks whether they are as this
module needs them; if not, `gridsample.kernels.compile.jit` uses the plain decorator.
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

# What we call or override in Numba and llvmlite: owner, name, and the number of parameters if we
# pass them.
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
    """Return which of Numba's internals is not as expected; empty if all are."""
    for owner, name, count in EXPECTED:
        function = getattr(owner, name, None)
        if function is None:
            return f"{owner.__name__}.{name} is missing"
        if count not in (None, len(inspect.signature(function).parameters)):
            return f"{owner.__name__}.{name} takes other arguments"
    return ""


class NoEnvironment:
    """A code generator for functions that are not executable and therefore have no environment."""

    def __init__(self, codegen: Any) -> None:
        """Wrap ``codegen``, which does everything else."""
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing."""


@functools.cache
def wide_machine(cpu: str, features: str) -> Any:
    """Return a target machine for LLVM's optimiser that may use the widest vectors available.

    For some processors LLVM prefers 256 bits to 512, because wide vectors slowed earlier models
    down.  Here, 256 bits take twice as long on the same processors, except in loops that only
    collect pixels.
    """
    triple = llvm.get_process_triple()
    if triple.startswith("x86_64"):
        features = f"{features},-prefer-256-bit".removeprefix(",")
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="pic", codemodel="jitdefault", jit=True
    )


class Once(JITCodeLibrary):
    """Code that is optimised only once; Numba optimises by function, then cheaply, then in full.

    Functions that it only calls are left out of the optimisation, because they are already
    optimised.
    """

    level = 3

    def __init__(self, *arguments: Any) -> None:
        """Make a library as Numba does."""
        super().__init__(*arguments)  # type: ignore[no-untyped-call]
        self.called: dict[Loop, None] = {}  # each follows those that it calls

    def add_linking_library(self, library: Any) -> None:
        """Link a library as Numba does, but keep loops, and the loops that they call, for later."""
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
    """The code of a function that is linked to drivers: optimised, but not made executable."""

    @property
    def codegen(self) -> Any:
        """Numba's code generator, without environments."""
        return NoEnvironment(self._codegen)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: no function has an address of its own."""
        if not self._finalized:
            self.finalize()  # type: ignore[no-untyped-call]
        return 0


class Loop(Part):
    """A loop that is called a few times per block, where the cost of a call does not matter.

    The driver would gain nothing from inlining its code, which would only be optimised again.
    """


class Body(Part):
    """The code of a driver, whose parts are already optimised."""

    level = 1


class Whole(Once):
    """The code of a driver's entry point, whose parts are already optimised."""

    level = 1

    def _optimize_final_module(self) -> None:
        super()._optimize_final_module()
        for loop in reversed(self.called):  # a library must follow those that need it
            self._final_module.link_in(loop._get_module_for_linking(), preserve=True)  # type: ignore[no-untyped-call]


class PartCompiler(Compiler):
    """Compile a function that drivers call, with options that Numba's decorators lack."""

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
        """Make a compiler as Numba does, with our own library."""
        flags.noalias = self.separate
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)  # type: ignore[no-untyped-call]
        self.state.library = self.library(targetctx.codegen(), "gridsample")

    def define_pipelines(self) -> list[Any]:
        """Return Numba's pipelines, without the passes for closures and for sums of arrays."""
        pipelines: list[Any] = super().define_pipelines()  # type: ignore[no-untyped-call]
        for one in pipelines:
            one.passes = [
                a for a in one.passes if a[0] not in (InlineClosureLikes, NopythonRewrites)
            ]
            one.finalize()
        return pipelines


class LoopCompiler(PartCompiler):
    """Compile a loop that a driver calls."""

    library = Loop


class SeparateCompiler(PartCompiler):
    """Compile a loop over arrays that do not overlap, so that LLVM may vectorise it."""

    library = Loop
    separate = True


class PieceCompiler(PartCompiler):
    """Compile a separate loop that is so short that the cost of a call would matter."""

    separate = True


class BodyCompiler(PartCompiler):
    """Compile a driver."""

    library = Body


class WholeCompiler(PartCompiler):
    """Compile the entry point of a driver, which is cached on disk together with the driver."""

    library = Whole

    def __init__(self, *arguments: Any) -> None:
        """Make a compiler whose code can be cached."""
        super().__init__(*arguments)
        self.state.library.enable_object_caching()

    def compile_extra(self, function: Function) -> Any:
        """Compile as Numba does, but without garbage collection.

        The compiler creates and keeps so many small objects that collecting garbage would take a
        tenth of its time.
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

# Options of Numba's decorator.  Nothing is allocated, so references need not be counted.  Only
# drivers call parts, which compile in half the time without wrappers.
UNCOUNTED: dict[str, Any] = {"_nrt": False}
INNER: dict[str, Any] = {**UNCOUNTED, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def inner_options(kind: str) -> dict[str, Any]:
    """Return the decorator's options for a function that drivers call; see COMPILERS for kinds."""
    return {"pipeline_class": COMPILERS[kind], **INNER}


def driver_options() -> dict[str, Any]:
    """Return the decorator's options for the entry point of a driver."""
    return {"pipeline_class": WholeCompiler, **UNCOUNTED}


def kept_on_disk(dispatcher: Any, function: Function, prepare: Callable[[], None]) -> Any:
    """Make a driver's dispatcher load its code from disk, and store there what it compiles."""
    return keep(dispatcher, function, prepare)


def compile_address(dispatcher: Any) -> tuple[int, Callable[[int], None]]:
    """Compile a function of one integer; return its code's address, and its Python callable."""
    kinds = (nb.types.int64,)
    dispatcher.compile(kinds)
    result = dispatcher.overloads[kinds]
    code: int = result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)
    return code, result.entry_point
