"""Lower the loops to Numba: one compiled driver for each combination of types that occurs.

Rank, boundaries, alignment, derivative orders and the methods of all axes but x are arguments of a
compiled driver.  Only what changes the inner loops is compiled in: the driver, the storage types,
the precision, the index width and the number of taps along x.  Thus the number of compiled drivers
stays small.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from llvmlite import binding as llvm

from gridsample.kernels.compile.extending import tail, unpacker
from gridsample.kernels.compile.jit import (
    compile_body,
    compile_inline,
    compile_inner,
    compile_loop,
    compile_native,
    compile_piece,
    compile_rounded,
    compile_separate,
    compile_sum,
)
from gridsample.kernels.compile.lower import Function, fingerprint, lower, rebind
from gridsample.kernels.compile.records import flat_parameters, with_records
from gridsample.kernels.cpu import (
    blocks,
    direct,
    entry,
    gradients,
    intrinsics,
    labels,
    lanes,
    linear_lanes,
    linear_means,
    means,
    passes,
    positions,
    records,
    runs,
    second,
    sweeps,
    taps,
    tiles,
)
from gridsample.kernels.cpu.lanes import limits


class Spec(NamedTuple):
    """What is compiled into a driver.  Storage types are NumPy's codes; "V2" is bfloat16."""

    driver: str
    real: str
    bits: int
    grid: str
    image: str = "f4"
    values: str = "f4"
    displaced: bool = False  # coordinates are displacements
    signed: bool = False  # a boundary is odd
    packed: bool = False  # the points, or the coordinates along each axis, are contiguous
    pairs: bool = False  # pairs of taps are contiguous in an image's memory, and need no conversion
    joined: bool = False  # the same holds for the memory of the shadow
    linear: int = 0  # the rank if all axes are linear
    fours: bool = False  # there are four taps along x
    beside: bool = False  # and they are contiguous in memory
    few: int = 0  # the number of contiguous channels of a pixel, if they fit a register
    together: int = 1  # the number of contiguous pixels along x that are read together
    rows: int = 0  # the number of rows of such taps, or of four taps; 0 if it is an argument
    planar: bool = False  # the points' coordinates along one axis are contiguous
    affine: bool = False  # the grid's memory holds affine maps
    pixel: int = 0  # bytes of a pixel that is read by words, or numbers of one that is copied; or 0
    runs: bool = False  # a pixel's channels are contiguous and copied together


class Driver:
    """A compiled driver.

    Attributes:
        function: the function that it was compiled from.
        places: the indices of its arguments in a row of integers: see
            `gridsample.kernels.cpu.entry`.
        code: the address of the machine code, which takes the address of such a row.
    """

    def __init__(self, spec: Spec, body: Callable[[], Any], tag: str) -> None:
        """Load the code for a spec's types, or compile what ``body`` makes."""
        self.function = DRIVERS[spec.driver]
        self.places = entry.places_of(self.function)
        taken = flat_parameters(self.function)
        kinds = [kind_of(name, annotation, spec) for name, annotation in taken.items()]

        def names() -> dict[str, Any]:
            return {"body": body(), "unpack": unpacker(kinds, [*self.places.values()])}

        self.code, _ = compile_native(rebind(call_body, {}, f"{spec.driver}_{tag}"), names)


def call_body(row: int) -> None:
    """Call a driver; this is its entry point."""
    body(*unpack(row))


def body(*arguments: Any) -> None:
    """A driver itself; bound by lowering."""


def unpack(row: int) -> tuple[Any, ...]:
    """Return the arguments in a row; bound by lowering."""
    raise TypeError("only compiled code can read rows")


# The storage types of a driver's arrays by flat name, if they are not the types of sums or indices.
STORED = {
    "image_memory": "image", "upstream_memory": "image", "grid_memory": "grid",
    "moves_memory": "grid", "values_memory": "values", "out_memory": "values",
}  # fmt: skip
LISTS = ("_strides", "_shifts", "_starts", "_lines", "_table", "_axes")


def kind_of(name: str, annotation: str, spec: Spec) -> Any:
    """Return the type of a driver's argument, given its flat name and annotation."""
    name = name.removeprefix("job_")
    if annotation in ("int", "bool"):
        return nb.types.int64 if annotation == "int" else nb.types.boolean
    if name in STORED:
        code = getattr(spec, STORED[name])
        number = nb.from_dtype(np.dtype({"b1": "u1", "f2": "u2", "V2": "u2"}.get(code, code)))
    elif name == "block_indices":
        number = nb.types.int64 if spec.bits == 64 else nb.types.int32
    elif name.endswith(LISTS):
        number = nb.types.int64
    elif spec.driver in ("gather_nearest", "gather_labels") and name.startswith("around_"):
        number = nb.from_dtype(np.dtype(spec.image))
    else:
        number = nb.types.float64 if spec.real == "f8" else nb.types.float32
    return nb.types.Array(number, 1, "C")


@functools.cache
def worker() -> tuple[int, Callable[[int], None]]:
    """Compile the function that processes tasks: see `entry.work`."""
    tag = fingerprint("kernels.cpu.entry", *COMPILING)
    return compile_native(rebind(entry.work, {}, f"work_{tag}"))


@functools.cache
def integer_store(code: str) -> Any:
    """Make the conversion to an integer type: round half to even, saturate; NaN becomes 0."""
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
number_to_bfloat: Any = intrinsics.number_to_bfloat


@compile_inner
def store_half(value: Any) -> Any:
    """Convert a number to half precision."""
    return number_to_half(nb.float32(value))


@compile_inner
def store_bfloat(value: Any) -> Any:
    """Convert a number to bfloat16."""
    return number_to_bfloat(nb.float32(value))


LOADS = {"f2": intrinsics.half_to_number, "V2": intrinsics.bfloat_to_number}
STORES = {"f2": store_half, "V2": store_bfloat}


def loader(code: str) -> dict[str, Any]:
    """Return the function that reads a storage type."""
    return {"load": LOADS.get(code, intrinsics.same)}


def storer(code: str) -> dict[str, Any]:
    """Return the function that writes a storage type."""
    if code[0] in "iub":
        return {"store": integer_store(code)}
    return {"store": STORES.get(code, intrinsics.same)}


def few_bits(code: str) -> tuple[int, int]:
    """Return the limits of an integer type whose values all have an exact real; otherwise 0."""
    return limits(code) if code in ("b1", "u1", "i1", "u2", "i2") else (0, 0)


def bindings(spec: Spec) -> dict[str, Any]:
    """Return the names that lowering binds for a spec's precision and index width."""
    low, high = few_bits(spec.values)
    wide = spec.bits == 64
    real = np.float64 if spec.real == "f8" else np.float32
    return {
        "real": nb.float64 if spec.real == "f8" else nb.float32,
        "integer": nb.int64 if wide else nb.int32,
        "label": nb.int64 if wide or spec.image[1:] == "8" else nb.int32,
        "address": nb.uint64 if wide else nb.uint32,
        "unsigned": nb.uint64,
        "short": nb.uint16,
        "int64": nb.int64,
        "double": nb.float64,
        "TIE": real(0),
        "copy_pair": intrinsics.copy_pair,
        "add_pair": intrinsics.add_pair,
        "prefetch": intrinsics.prefetch,
        "tail": tail,
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
        **{f"RANK_{rank}": spec.linear in (0, rank) for rank in (1, 2, 3)},
        "FOURS": spec.fours,
        "BESIDE": spec.beside,
        "FEW": spec.few,
        "TOGETHER": spec.together,
        "ROWS": spec.rows,
        "IN_PLACE": spec.values == spec.real,
        "MEANS": "_means" in spec.driver,
        "EMPTY": real(0),
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
    """Return the functions for rows of taps: four numbers, or a few pixels of a few channels."""
    real: Any = nb.float64 if spec.real == "f8" else nb.float32
    channels, taps = (spec.few, spec.together) if spec.few else (1, 4)
    one = lanes.reader(spec.image, real, channels, 1)
    return {
        **lanes.reader(spec.image, real, channels, taps),
        **lanes.writer(spec.values, real, channels, taps),
        "weigh_lanes": lanes.weigh_lanes,
        "weigh_present": lanes.weigh_present,
        "weigh_known": lanes.weigh_known,
        "mean_lanes": lanes.mean_lanes,
        "store_lanes": lanes.store_lanes,
        "no_pixel": one["no_lanes"],
        "read_pixel": one["load_lanes"],
    }


def gathers_quickly() -> bool:
    """Whether gather instructions are faster than single loads.

    They are on Intel's processors since Sapphire Rapids.  These are identified by a feature that
    only they have, because in a virtual machine LLVM may report the name of another processor.
    """
    if nb.config.CPU_NAME or nb.config.CPU_FEATURES:  # type: ignore[attr-defined]
        return "+avx512fp16" in (nb.config.CPU_FEATURES or "")  # type: ignore[attr-defined]
    return bool(llvm.get_host_cpu_features().get("avx512fp16", False))


def direct_kind(spec: Spec) -> linear_lanes.Kind:
    """Return the kind of code to emit for a spec."""
    real: Any = nb.float64 if spec.real == "f8" else nb.float32
    grid = spec.real if spec.affine else spec.grid
    return linear_lanes.Kind(spec.linear, grid, spec.image, real, spec.planar, gathers_quickly())


# The modules that determine how functions are compiled.
COMPILING = tuple(
    f"kernels.compile.{name}" for name in ("extending", "jit", "lower", "pipeline", "records")
)
# The modules that are compiled into a driver, and this one, which determines what is bound.
SHARED = ("definitions.axis", "kernels.axes", "kernels.memory", *COMPILING)
SOURCES = (*SHARED, *(f"kernels.cpu.{name}" for name in (
    "blocks", "build", "direct", "entry", "gradients", "intrinsics", "labels", "lanes",
    "linear_lanes", "linear_means", "means", "passes", "positions", "records", "runs", "scatter",
    "second", "sweeps", "taps", "tiles", "vectors",
)))  # fmt: skip


class Work(NamedTuple):
    """The functions and records of a driver in `sweeps.sweep`."""

    job: Any  # the record of its arrays
    task: Any  # the record of a task
    inside: Function
    edges: Function


WORK = {
    "gather": Work(records.Gather, records.Task, sweeps.gather_inside, sweeps.gather_edges),
    "gather_nearest": Work(
        records.GatherRuns, records.Task, sweeps.gather_nearest_inside,
        sweeps.gather_nearest_edges,
    ),
    "gather_runs": Work(
        records.GatherRuns, records.Task, sweeps.gather_runs_inside, sweeps.gather_runs_edges
    ),
    "gather_means": Work(
        records.GatherMeans, records.Task,
        with_records(sweeps.gather_inside, "gather_means_inside", job=records.GatherMeans),
        with_records(sweeps.gather_edges, "gather_means_edges", job=records.GatherMeans),
    ),
    "gather_means_runs": Work(
        records.GatherMeansRuns, records.Task,
        with_records(
            sweeps.gather_runs_inside, "gather_means_runs_inside", job=records.GatherMeansRuns
        ),
        with_records(
            sweeps.gather_runs_edges, "gather_means_runs_edges", job=records.GatherMeansRuns
        ),
    ),
    "gather_labels": Work(
        records.Votes, records.Task, labels.gather_labels_inside, labels.gather_labels_edges
    ),
    "backward": Work(
        records.Backward, records.BandedTask, gradients.backward_inside, gradients.backward_edges
    ),
    "backward_runs": Work(
        records.BackwardRuns, records.BandedTask, gradients.backward_runs_inside,
        gradients.backward_runs_edges,
    ),
    "backward_twice": Work(
        records.Second, records.BandedTask, second.backward_twice_inside,
        second.backward_twice_edges,
    ),
}  # fmt: skip

# Drivers with tiles, or without a list of edges, do not use `sweep`.
DRIVERS: dict[str, Function] = {
    **{
        name: with_records(sweeps.sweep, name, job=one.job, task=one.task)
        for name, one in WORK.items()
    },
    "gather_tiles": tiles.gather_tiles,
    "backward_tiles": tiles.backward_tiles,
    "gather_direct": direct.gather_direct,
    **{
        f"gather_means_{end}": with_records(
            function, f"gather_means_{end}", around=records.Surroundings
        )
        for end, function in (("tiles", tiles.gather_tiles), ("direct", direct.gather_direct))
    },
    "backward_direct": direct.backward_direct,
}


@functools.cache
def driver_for(spec: Spec) -> Driver:
    """Return the compiled driver for a spec."""
    tag = "_".join(map(str, spec)) + "_" + fingerprint(*SOURCES)
    return Driver(spec, functools.partial(make_body, spec, tag), tag)


def make_body(spec: Spec, tag: str) -> Any:
    """Lower a spec's driver and all functions that it calls, ready to be compiled."""
    names = bindings(spec)
    load_grid, load_image, load_values = loader(spec.grid), loader(spec.image), loader(spec.values)

    def add(*functions: Any, compile_: Any = compile_inner, **flags: Any) -> None:
        names.update(lower(functions, {**names, **flags}, compile_, tag))

    add(*taps.ELEMENTWISE, passes.between, *passes.SLIDING_TAPS)
    add(positions.snap, positions.stretch, positions.stand, positions.slide, positions.kind)
    add(positions.place, positions.place_sliding, compile_=compile_separate, **load_grid)
    add(positions.read, positions.read_edges, blocks.lay_blocks, compile_=compile_loop, **load_grid)
    add(positions.any_slide, *taps.LOOPS, *passes.LOOPS, compile_=compile_separate)
    # Collecting is compiled as if arrays could overlap, so that LLVM does not use gather
    # instructions.
    add(
        passes.collect, passes.collect_pairs, passes.collect_present,
        compile_=compile_loop, **load_image,
    )  # fmt: skip
    if spec.runs and spec.pixel:
        names["copy_pixel"] = lanes.copier(spec.pixel)
    add(*passes.SCATTERED, *taps.SCATTERED, compile_=compile_loop)
    add(*taps.LAID, compile_=compile_rounded)
    if spec.driver == "gather_labels":
        names["as_keys"] = (
            intrinsics.same if names["label"] == names["integer"] else intrinsics.as_words
        )
        add(labels.key_of, *labels.ELEMENTWISE)
        add(*labels.LOOPS, compile_=compile_separate)
        add(*labels.SCATTERED, *labels.STEPS, compile_=compile_loop)
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
    add(*runs.LISTS, runs.blend_present, runs.add_outside)
    add(runs.blend_inside, compile_=compile_separate)
    add(
        gradients.raises, gradients.add_slopes, sweeps.enough, gradients.chunk,
        compile_=compile_inline,
    )  # fmt: skip
    add(blocks.next_block, blocks.next_piece, blocks.find_piece, compile_=compile_inline)
    add(*gradients.SUMS_OF, compile_=compile_sum)
    add(sweeps.window)
    add(*taps.STEPS, *sweeps.STEPS, *gradients.PLANES, compile_=compile_loop)
    if "_means" in spec.driver:
        lower_means(spec, names, add)
    if spec.driver.endswith("_tiles"):
        names |= {"TILE": lanes.TILE, "turn_tile": lanes.turn_tile}
        add(tiles.turn, *tiles.LOOPS, compile_=compile_loop)
        names["dot_lanes"] = lanes.dot_lanes
        add(tiles.pixel_or)
        add(*tiles.DERIVING, compile_=compile_separate)
    if spec.driver.endswith("_direct"):
        kind = direct_kind(spec)
        emitted = linear_lanes.emitted(kind) | linear_means.emitted(kind)
        names |= emitted
        add(*direct.loops(emitted), compile_=compile_separate)
    add(*second.LOOPS, compile_=compile_separate)
    add(*second.STEPS, compile_=compile_loop)
    if work := WORK.get(spec.driver):
        add(gradients.derive_runs, compile_=compile_loop)
        own: Any = (("work_inside", work.inside, {}), ("work_edges", work.edges, {}))
        add(*own, compile_=compile_loop)
    return compile_body(rebind(DRIVERS[spec.driver], names, f"body_{tag}"))


def lower_means(spec: Spec, names: dict[str, Any], add: Callable[..., None]) -> None:
    """Lower what drivers of means do in addition."""
    load_image = loader(spec.image)
    add(*means.INLINED, compile_=compile_inline)
    if spec.driver.endswith("_direct"):
        return
    add(*means.LOOPS, compile_=compile_separate)
    marks = {"EMPTY": names["ONE"]}
    add(("slide_two_marks", passes.slide_two, marks))
    marks["slide_two"] = names["slide_two_marks"]
    add(("slide_four_marks", passes.slide_four, marks))
    marks |= {"slide_four": names["slide_four_marks"], "SLIDING": True}
    add(("blend_marks_sliding", passes.blend_linear, marks), compile_=compile_separate)
    if spec.fours:
        add(means.sum_known_rows, compile_=compile_loop)
    if spec.few:
        add(means.average_few, means.average_few_edges, compile_=compile_loop)
    add(*means.RUN_LOADING, compile_=compile_piece, **load_image)
    add(*means.RUN_LOOPS, compile_=compile_piece)
    add(*(means.RUN_STEPS if spec.driver.endswith("_runs") else means.STEPS), compile_=compile_loop)
