"""Lowers the loops to Numba: one compiled driver for each combination of types that is met.

Rank, boundaries, alignment, derivative orders and the methods of all axes but x are data to a
compiled driver; only what changes the inner loops is compiled in: the driver, the storage types,
the precision, the index width and the number of taps along x.  So the number of compiled drivers
stays small.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from llvmlite import binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.typed_passes import NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

from gridsample.kernels.compile.cache import keep
from gridsample.kernels.compile.lower import Function, fingerprint, lower, rebind
from gridsample.kernels.cpu import (
    direct,
    entry,
    intrinsics,
    lanes,
    linear_lanes,
    passes,
    runs,
    second,
    sweeps,
    taps,
    tiles,
)
from gridsample.kernels.cpu.lanes import limits


class Spec(NamedTuple):
    """What is compiled into a driver.  Storage types go by NumPy's codes; "V2" is bfloat16."""

    driver: str
    real: str
    bits: int
    grid: str
    image: str = "f4"
    values: str = "f4"
    displaced: bool = False  # coordinates are displacements
    signed: bool = False  # a boundary is odd
    packed: int = 0  # the distance between points of the grid, or 0 where it is an argument
    pairs: bool = False  # taps come in pairs that are neighbours in an image's memory, as numbers
    joined: bool = False  # and in the memory of what is scattered to
    linear: int = 0  # the rank, where all axes are linear
    fours: bool = False  # there are four taps along x
    beside: bool = False  # and they are neighbours in memory
    few: int = 0  # channels of a pixel, side by side, where they fit a register
    together: int = 1  # pixels along x that do
    rows: int = 0  # rows of such taps, or of four; 0 where it is an argument
    in_place: bool = False
    planar: bool = False  # its points' coordinates along one axis are side by side
    affine: bool = False  # the grid's memory holds affine maps
    pixel: int = 0  # bytes of a pixel that is read by words, or numbers that are copied; or 0
    runs: bool = False  # a pixel's channels, side by side, are copied together


# Numba's decorator, with options that its type stubs do not know.
jit: Any = nb.njit
# No exception is raised and nothing is allocated, so that no reference needs counting.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


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


def compile_inner(
    function: Function,
    *more: str,
    pipeline_class: Any = PartCompiler,
    fuses: bool = True,
    **options: Any,
) -> Any:
    """Compile a function that drivers call.

    Products and sums may fuse into one rounding, unless it is said that none ``fuses``.
    """
    # Nobody but a driver calls it: without the wrappers it is compiled in half the time.
    wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return jit(
        function,
        fastmath={"contract", *more} if fuses else False,
        pipeline_class=pipeline_class,
        **OPTIONS,
        **wrappers,
        **options,
    )


def compile_loop(function: Function) -> Any:
    """Compile a loop."""
    return compile_inner(function, pipeline_class=LoopCompiler)


def compile_rounded(function: Function) -> Any:
    """Compile a loop in which every product and every sum is rounded, as NumPy's are."""
    return compile_inner(function, pipeline_class=LoopCompiler, fuses=False)


def compile_separate(function: Function) -> Any:
    """Compile a loop over separate arrays."""
    return compile_inner(function, pipeline_class=SeparateCompiler)


def compile_piece(function: Function) -> Any:
    """Compile a short loop over separate arrays."""
    return compile_inner(function, pipeline_class=PieceCompiler)


def compile_inline(function: Function) -> Any:
    """Have a function's code put where it is called, so that it is compiled once less."""
    return compile_inner(function, inline="always")


def compile_sum(function: Function) -> Any:
    """Compile a reduction, whose order of summation is the compiler's: the same at every call."""
    return compile_inner(function, "reassoc", "nsz")


class Driver:
    """A compiled driver.

    Attributes:
        places: where its arguments are in a row of integers: see `gridsample.kernels.cpu.entry`.
        code: where the machine code is that takes the address of such a row.
    """

    def __init__(self, spec: Spec, body: Any, tag: str) -> None:
        """Compile it for a spec's types, or load what was compiled."""
        function = DRIVERS[spec.driver]
        self.places = entry.places_of(function)
        annotations = function.__annotations__
        kinds = [kind_of(name, annotations[name], spec) for name in self.places]
        names = {"body": body, "unpack": entry.unpacker(kinds)}
        self.code, _ = compile_native(rebind(call_body, names, f"{spec.driver}_{tag}"))


def call_body(row: int) -> None:
    """A driver, as it is entered."""
    body(*unpack(row))


def body(*arguments: Any) -> None:
    """A driver itself; bound by lowering."""


def unpack(row: int) -> tuple[Any, ...]:
    """The arguments in a row; bound by lowering."""
    raise TypeError("only compiled code reads rows")


# The storage types of a driver's arrays, by their names, where they are not reals or integers.
STORED = {
    "image": "image", "upstream": "image", "grid": "grid", "moves": "grid", "values": "values",
    "out": "values",
}  # fmt: skip
LISTS = ("strides", "shifts", "source", "target", "target_lines", "block", "axes")


def kind_of(name: str, annotation: str, spec: Spec) -> Any:
    """The type of a driver's argument, by its name and annotation."""
    if annotation != "Array":
        return {"int": nb.types.int64, "bool": nb.types.boolean}[annotation]
    if name in STORED:
        code = getattr(spec, STORED[name])
        number = nb.from_dtype(np.dtype({"b1": "u1", "f2": "u2", "V2": "u2"}.get(code, code)))
    elif name == "indices":
        number = nb.types.int64 if spec.bits == 64 else nb.types.int32
    elif name.endswith(LISTS):
        number = nb.types.int64
    elif spec.driver == "gather_nearest" and name in ("outside", "dropped", "holes"):
        number = nb.from_dtype(np.dtype(spec.image))
    else:
        number = nb.types.float64 if spec.real == "f8" else nb.types.float32
    return nb.types.Array(number, 1, "C")


def compile_native(function: Function) -> tuple[int, Callable[[int], None]]:
    """Compile a function of one integer: where its code is, and it as Python may call it.

    It is kept on disk.
    """
    compiled = compile_driver(function)
    kinds = (nb.types.int64,)
    compiled.compile(kinds)
    result = compiled.overloads[kinds]
    code: int = result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)
    return code, result.entry_point


@functools.cache
def worker() -> tuple[int, Callable[[int], None]]:
    """What takes tasks: see `entry.work`."""
    return compile_native(rebind(entry.work, {}, f"work_{fingerprint('kernels.cpu.entry')}"))


def compile_body(function: Function) -> Any:
    """Compile a driver, whose parts are optimised already."""
    return compile_inner(function, pipeline_class=BodyCompiler, fuses=False)


def compile_driver(function: Function) -> Any:
    """Compile what enters a driver, and keep it on disk where there is a place to write to."""
    return keep(jit(function, pipeline_class=WholeCompiler, **OPTIONS), function)


@functools.cache
def integer_store(code: str) -> Any:
    """Rounding half to even and saturating to an integer type; NaN becomes 0."""
    low, high = limits(code)
    kind = nb.uint8 if code == "b1" else nb.from_dtype(np.dtype(code))
    lowest, highest = float(low), float(high)
    rint: Any = intrinsics.rint

    def store_integer(value: Any) -> Any:
        rounded = rint(value)
        if rounded >= highest:
            return kind(high)
        if rounded <= lowest:
            return kind(low)
        return kind(rounded) if rounded == rounded else kind(0)

    return compile_inner(rebind(store_integer, {}, f"store_{code}"))


number_to_half: Any = intrinsics.number_to_half
single_bits: Any = intrinsics.single_bits


@compile_inner
def store_half(value: Any) -> Any:
    """A number to half precision."""
    return number_to_half(nb.float32(value))


@compile_inner
def store_bfloat(value: Any) -> Any:
    """A number to bfloat16, half to even; a NaN stays one."""
    bits = single_bits(nb.float32(value))
    rounded = (bits + nb.uint32(0x7FFF) + ((bits >> nb.uint32(16)) & nb.uint32(1))) >> nb.uint32(16)
    return nb.uint16(rounded if value == value else nb.uint32(0x7FC0))


LOADS = {"f2": intrinsics.half_to_number, "V2": intrinsics.bfloat_to_number}
STORES = {"f2": store_half, "V2": store_bfloat}


def loader(code: str) -> dict[str, Any]:
    """How a storage type is read."""
    return {"load": LOADS.get(code, intrinsics.same)}


def storer(code: str) -> dict[str, Any]:
    """How a storage type is written."""
    if code[0] in "iub":
        return {"store": integer_store(code)}
    return {"store": STORES.get(code, intrinsics.same)}


@compile_inner
def window_in_place(out: Any, scratch: Any) -> Any:
    """Work on the output itself."""
    return out


@compile_inner
def window_scratch(out: Any, scratch: Any) -> Any:
    """Work on scratch."""
    return scratch


@compile_inner
def settled(numbers: Any, out: Any, step: int, n: int) -> None:
    """The numbers were worked on where they belong."""


def few_bits(code: str) -> tuple[int, int]:
    """The least and greatest number of an integer type whose numbers all have a real one; or 0."""
    return limits(code) if code in ("b1", "u1", "i1", "u2", "i2") else (0, 0)


def bindings(spec: Spec) -> dict[str, Any]:
    """The names that lowering binds for a spec's precision and index width."""
    low, high = few_bits(spec.values)
    wide = spec.bits == 64
    real = np.float64 if spec.real == "f8" else np.float32
    return {
        "real": nb.float64 if spec.real == "f8" else nb.float32,
        "integer": nb.int64 if wide else nb.int32,
        "address": nb.uint64 if wide else nb.uint32,
        "unsigned": nb.uint64,
        "short": nb.uint16,
        "int64": nb.int64,
        "double": nb.float64,
        "copy_pair": intrinsics.copy_pair,
        "add_pair": intrinsics.add_pair,
        "prefetch": intrinsics.prefetch,
        "tail": intrinsics.tail,
        "ZERO": real(0),
        "HALF": real(0.5),
        "ONE": real(1),
        "PAIRS": spec.pairs,
        "JOINED": spec.joined,
        "PACKED": spec.packed,
        "DISPLACED": spec.displaced,
        "PLANAR": spec.planar,
        "AFFINE": spec.affine,
        "LINE": 64 // int(spec.grid[1:]),
        "SIGNED": spec.signed,
        "ROUNDED": 0 if spec.linear else 1 if spec.driver == "gather_nearest" else 2,
        "LINEAR": spec.linear,
        "FOURS": spec.fours,
        "BESIDE": spec.beside,
        "FEW": spec.few,
        "TOGETHER": spec.together,
        "ROWS": spec.rows,
        "IN_PLACE": spec.in_place,
        "PIXEL": spec.pixel,
        "RUNS": spec.runs,
        "LOW": low,
        "HIGH": high,
        "word": intrinsics.word,
        "half_word": intrinsics.half_word,
        **{
            name: getattr(intrinsics, name)
            for name in ("where", "minimum", "maximum", "floor", "rint")
        },
    }


def rows_of(spec: Spec) -> dict[str, Any]:
    """What is done to rows of taps: four numbers, or so many pixels of a few channels."""
    real: Any = nb.float64 if spec.real == "f8" else nb.float32
    channels, taps = (spec.few, spec.together) if spec.few else (1, 4)
    one = lanes.reader(spec.image, real, channels, 1)
    return {
        **lanes.reader(spec.image, real, channels, taps),
        **lanes.writer(spec.values, real, channels, taps),
        "weigh_lanes": lanes.weigh_lanes,
        "store_lanes": lanes.store_lanes,
        "no_pixel": one["no_lanes"],
        "read_pixel": one["load_lanes"],
    }


def gathers_quickly() -> bool:
    """Whether gather instructions are faster than single loads.

    They are on Intel's processors since Sapphire Rapids.  Those are known by a feature that they
    alone have: the name that LLVM finds may be that of another processor where the machine is
    virtual.
    """
    if nb.config.CPU_NAME or nb.config.CPU_FEATURES:  # type: ignore[attr-defined]
        return "+avx512fp16" in (nb.config.CPU_FEATURES or "")  # type: ignore[attr-defined]
    return bool(llvm.get_host_cpu_features().get("avx512fp16", False))


def direct_kind(spec: Spec) -> linear_lanes.Kind:
    """What code is emitted for a spec."""
    real: Any = nb.float64 if spec.real == "f8" else nb.float32
    grid = spec.real if spec.affine else spec.grid
    return linear_lanes.Kind(spec.linear, grid, spec.image, real, spec.planar, gathers_quickly())


# All that is compiled into a driver; and this file, which says how.
SOURCES = ("definitions.axis", "kernels.compile.lower", *(f"kernels.cpu.{name}" for name in (
    "build", "direct", "entry", "intrinsics", "lanes", "linear_lanes", "passes", "runs", "second",
    "sweeps", "taps", "tiles", "vectors",
)))  # fmt: skip

DRIVERS: dict[str, Function] = {
    driver.__name__: driver
    for driver in (
        sweeps.gather,
        sweeps.gather_nearest,
        sweeps.gather_runs,
        sweeps.backward,
        sweeps.backward_runs,
        second.backward_twice,
        tiles.gather_tiles,
        tiles.backward_tiles,
        direct.gather_direct,
        direct.backward_direct,
    )
}


@functools.cache
def driver_for(spec: Spec) -> Driver:
    """The compiled driver for a spec."""
    names = bindings(spec)
    tag = "_".join(map(str, spec)) + "_" + fingerprint(*SOURCES)
    load_grid, load_image, load_values = loader(spec.grid), loader(spec.image), loader(spec.values)

    def add(*functions: Any, compile_: Any = compile_inner, **flags: Any) -> None:
        names.update(lower(functions, {**names, **flags}, compile_, tag))

    add(*taps.ELEMENTWISE, passes.between, *passes.SLIDING_TAPS)
    add(taps.snap, taps.stand, taps.slide, taps.kind)
    add(taps.place, taps.place_sliding, compile_=compile_separate, **load_grid)
    add(taps.read, taps.read_edges, taps.lay_blocks, compile_=compile_loop, **load_grid)
    add(taps.any_slide, *taps.LOOPS, *passes.LOOPS, compile_=compile_separate)
    # Collecting is compiled as if arrays could overlap, lest LLVM choose gather instructions.
    add(
        passes.collect, passes.collect_pairs, passes.collect_present,
        compile_=compile_loop, **load_image,
    )  # fmt: skip
    if spec.runs and spec.pixel:
        names["copy_pixel"] = lanes.copier(spec.pixel)
    add(*passes.SCATTERED, *taps.SCATTERED, compile_=compile_loop)
    add(*taps.LAID, compile_=compile_rounded)
    if spec.fours or spec.few:
        names.update(rows_of(spec))
    if spec.fours:
        add(passes.sum_rows, compile_=compile_loop)
    if spec.few:
        add(runs.blend_few, runs.blend_few_edges, compile_=compile_loop)
    add(passes.unpack, compile_=compile_separate, **load_image)
    add(passes.collect_channel, compile_=compile_loop)
    add(passes.fetch, passes.fetch_edges, compile_=compile_loop, **load_values)
    add(
        passes.settle, passes.settle_edges, passes.settle_run,
        compile_=compile_loop, **storer(spec.values),
    )  # fmt: skip
    add(*runs.LOADING, compile_=compile_piece, **load_image)
    add(*runs.LOOPS, compile_=compile_piece)
    add(runs.dot, compile_=compile_sum, **load_image)
    add(runs.dot_outside, compile_=compile_sum)
    names["window"] = window_in_place if spec.in_place else window_scratch
    if spec.in_place:
        names["settle"] = settled
    add(*runs.LISTS, runs.blend_present, runs.add_outside)
    add(runs.blend_inside, compile_=compile_separate)
    add(sweeps.raises, sweeps.enough, sweeps.chunk, compile_=compile_inline)
    add(taps.next_block, taps.next_piece, taps.find_piece, compile_=compile_inline)
    add(*sweeps.SUMS_OF, compile_=compile_sum)
    add(*taps.STEPS, *sweeps.STEPS, compile_=compile_loop)
    if spec.driver.endswith("_tiles"):
        names |= {"TILE": lanes.TILE, "turn_tile": lanes.turn_tile}
        add(tiles.turn, *tiles.LOOPS, compile_=compile_loop)
        names["dot_lanes"] = lanes.dot_lanes
        add(*tiles.DERIVING, compile_=compile_separate)
    if spec.driver.endswith("_direct"):
        names |= linear_lanes.emitted(direct_kind(spec))
        add(*direct.LOOPS, compile_=compile_separate)
    add(*second.LOOPS, compile_=compile_separate)
    add(*second.STEPS, compile_=compile_loop)
    return Driver(spec, compile_body(rebind(DRIVERS[spec.driver], names, f"body_{tag}")), tag)
