"""How an image is resized: in which order of axes, in which pieces, and by which program."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.bands import CACHE_BYTES, Band
from gridsample.definitions.caches import cached_by_size
from gridsample.definitions.tables import AxisMap, rounded_order, split_off_copies
from gridsample.kernels.caches import CACHES, whole_lines
from gridsample.kernels.resize.forms import Stage
from gridsample.kernels.resize.packing import packing_of
from gridsample.kernels.resize.picking import Picking, Repeated, picking_of
from gridsample.kernels.resize.program import SETTINGS, Description, compiled, stage_record
from gridsample.kernels.run import Launch
from gridsample.kernels.vector import host, index_kind, kind_of, picks, side_by_side

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

# The maximum size of a piece between two axes, in numbers.
PIECE = 1 << 16
# The outputs of a piece of a long line.
PART = 1 << 13
# The numbers that are worth a task.
SHARE = 1 << 14
# The minimum number of rows per tap in a piece: rows at the edges of pieces are computed twice.
ROWS_PER_TAP = 6
# Products, or copies, that are worth a thread: a tenth of a millisecond.
PRODUCTS_OF_THREAD = 1 << 20
# The number of taps from which the leading axis is resized first if a piece of so many rows would
# otherwise be larger than two pieces.
MANY_TAPS = 16
# The cost of transposing a number, in products.
TRANSPOSITION = 3.0
# The outputs between two transpositions, at most.  They are halved while their inputs do not
# fit into a near cache; once they are few, only while they need more than half of a core's own.
MAX_OUTPUTS, MIN_OUTPUTS = 64, 16
# The greatest number of inputs for which a stage is compiled.
FEW_TAPS = 4
# The most instructions that pick the inputs of a register, by the bits of registers.
MAX_PICKS = {512: 24, 256: 10}
# Pieces have a multiple of so many rows, so that lanes of a single axis are not shared.
WHOLE_ROWS = 64
# The forms that sum 16-bit integers.
NARROW_FORMS = "rows", "picked"
NOTHING = np.empty(0, np.int64)


# Numbers ------------------------------------------------------------------------------------------

# Pillow's weights have the bits that bytes leave in 32.  PyTorch's weights have 16 bits, with as
# many after the point as the largest weight allows.
PILLOW_BITS = 22
# The greatest sum of absolute weights for which all of these have enough bits.
FIXED_GAIN = 1.9


class Numbers(NamedTuple):
    """The type of sums, that of results between two axes, and how weights are rounded.

    ``rounding`` is "exact", "pillow" or "torch"; or "dyadic" where all weights are exact in fixed
    point, such as those of a mean of four.  ``drop`` are then the bits to drop from the last sums.
    """

    sums: str
    between: str
    rounding: str = "exact"
    drop: int = 0

    def bits(self, band: Band) -> int:
        """Return the number of bits after the point in a band's weights."""
        if self.rounding == "pillow":
            return PILLOW_BITS
        if self.rounding == "dyadic":
            return exact_bits(band) or 0
        largest = float(band.weights.max(initial=0))
        return next((n for n in range(PILLOW_BITS) if 0.5 + largest * 2 ** (n + 1) >= 2**15), 22)

    def weights(self, band: Band, table: Array | None = None) -> Array:
        """Return a band's weights as factors, or a table of some of them.

        Pillow and PyTorch round each weight separately, and halves away from zero.
        """
        table = band.weights if table is None else table
        if self.rounding == "exact":
            return table.astype(self.sums)
        scaled = table * 2.0 ** self.bits(band)
        rounded = np.trunc(scaled + np.copysign(0.5, scaled))
        wide = self.rounding in ("pillow", "dyadic")  # PyTorch's wrap around in 16 bits
        return rounded.astype(np.int32 if wide else np.int16).astype(self.sums)

    def shift(self, band: Band) -> int:
        """Return by how many bits a sum must be shifted right before it is stored."""
        if self.rounding == "dyadic":
            return self.drop
        return 0 if self.rounding == "exact" else self.bits(band)


def exact_bits(band: Band) -> int | None:
    """Return the bits after the point with which a band's weights are exact; None if many."""
    for bits in range(8):
        scaled = band.weights * 2.0**bits
        if (scaled == np.rint(scaled)).all():
            return bits
    return None


def narrow(bands: Sequence[Band], order: Sequence[int], kinds: tuple[str, str]) -> Numbers | None:
    """Return the numbers of bytes whose sums are exact in 16 bits; None for others.

    The weights are non-negative and add up to 1, so that no result needs to be bounded.
    """
    if kinds != ("uint8", "uint8") or not picks(kind_of("int16")):
        return None
    drop = 0
    for axis in order:
        bits = exact_bits(bands[axis])
        if bits is None or bands[axis].gain > 1:
            return None
        drop += bits
    return Numbers("int16", "int16", "dyadic", drop) if 0 < drop <= 6 else None


def are_fixed(dtype: np.dtype[Any], bands: Sequence[Band]) -> bool:
    """Whether bands can round as Pillow does: they sum bytes and do not overshoot much."""
    return dtype == np.uint8 and all(band.gain < FIXED_GAIN for band in bands)


# The order of axes --------------------------------------------------------------------------------


def reach(band: Band, outputs: int) -> int:
    """Return the greatest number of inputs that ``outputs`` adjacent outputs need.

    This is the maximum over all first outputs, because a band of rows may start anywhere in a
    plane.
    """
    last = np.minimum(np.arange(band.outputs) + outputs, band.outputs) - 1
    return int((band.first[last] + band.count[last] - band.first).max(initial=0))


def best_order(
    bands: tuple[Band, ...], axes: Sequence[int], inner: int, lanes: int
) -> tuple[int, ...]:
    """Return the order with the lowest cost of the axes that are resized."""

    def cost(order: Sequence[int]) -> float:
        shape = [band.inputs for band in bands]
        total = 0.0
        for axis in order:
            band = bands[axis]
            shape[axis] = band.outputs
            work: float = band.outputs * (band.taps + 1)
            line = inner * math.prod(shape[axis + 1 :])
            if line < lanes:
                picking = picked(band, line, lanes)
                work += band.outputs if picking else TRANSPOSITION * (band.inputs + band.outputs)
            total += work * math.prod(shape) / band.outputs
        return total

    return min(itertools.permutations(axes), key=cost) or (0,)


def order_of(maps: Sequence[AxisMap], shape: Shape, numbers: Numbers) -> list[int]:
    """Return the order in which axes of planes (outer, *spatial, inner) are resized."""
    bands = tuple([axis_map.band for axis_map in maps])
    # An image has the order of those of its pixels that are read, as these may be copied first.
    of_read = tuple([split_off_copies(axis_map)[1].band for axis_map in maps])
    axes = [axis for axis, band in enumerate(bands) if not band.is_identity]
    order = [*best_order(of_read, axes, shape[-1], host().lanes(numbers.sums))]
    if numbers.rounding != "exact":
        sizes = [band.inputs for band in bands], [band.outputs for band in bands]
        return [axis for axis in rounded_order(*sizes, numbers.rounding) if axis in order]
    if 0 in order and bands[0].taps > MANY_TAPS:
        rows = min(bands[0].outputs, ROWS_PER_TAP * bands[0].taps)
        if rows * between(bands, order, shape) // bands[0].outputs > 2 * PIECE:
            order.sort(key=bool)
    return order


def between(bands: Sequence[Band], order: Sequence[int], shape: Shape) -> int:
    """Return the size of the largest result of a plane, in numbers, if the last is not stored."""
    sizes, sizes_now = [], list(shape[1:])
    for axis in order:
        sizes_now[axis] = bands[axis].outputs
        sizes.append(math.prod(sizes_now))
    return max(sizes[:-1] or sizes)


# Pieces -------------------------------------------------------------------------------------------


class Pieces(NamedTuple):
    """How planes are cut: the planes of a piece, or the rows of a plane's pieces."""

    planes: int
    rows: int
    bands: int

    @property
    def complete(self) -> bool:
        """Whether pieces have all rows."""
        return self.bands == 1


def cut(outer: int, size: int, rows: int, min_rows: int, target: int) -> Pieces:
    """Cut planes of ``size`` numbers such that a piece has about ``target``.

    Pieces have at least so many rows, unless a plane has fewer.
    """
    if size <= target or rows <= min_rows:
        return Pieces(min(outer, max(1, target // max(1, size))), rows, 1)
    step = rows * target // size
    step = max(min_rows, step // WHOLE_ROWS * WHOLE_ROWS or step)
    return Pieces(1, step, -(-rows // step))


def pieces_of(bands: Sequence[Band], order: Sequence[int], shape: Shape, threads: int) -> Pieces:
    """Cut planes (outer, *spatial, inner) into pieces that are each taken through all axes."""
    size = between(bands, order, shape)
    rows = bands[0].outputs
    # Rows at the edges of pieces are computed twice unless their axis comes first.
    min_rows = ROWS_PER_TAP * bands[0].taps if 0 in order[1:] else 1
    target = min(PIECE, max(SHARE, shape[0] * size // threads))
    return cut(shape[0], size, rows, min_rows, target)


# Stages -------------------------------------------------------------------------------------------


class Memory:
    """Parts of scratch memory, one after the other."""

    def __init__(self) -> None:
        self.size = 0

    def reserve(self, count: int, kind: str) -> int:
        """Reserve memory for so many numbers, and return where it begins."""
        begin = self.size
        self.size += whole_lines(count * kind_of(kind).size)
        return begin


class Planned(NamedTuple):
    """A stage: what is compiled for it, and its settings."""

    stage: Stage
    settings: dict[str, Any]


def picked(band: Band, inner: int, lanes: int) -> Picking | None:
    """Return how lanes pick their inputs if that is worth more than to transpose lines."""
    bits, picking = host().bits, None
    if inner <= FEW_TAPS and bits in MAX_PICKS:
        picking = picking_of(band, inner, lanes)
    if picking is None:
        return None
    each = -(-picking.window // 2) if bits == 512 else picking.window
    return picking if band.taps * each <= MAX_PICKS[bits] else None


def plan_stage(
    axis: int,
    band: Band,
    shape: Sequence[int],
    lines: int,
    numbers: Numbers,
    memory: Memory,
    picks_lanes: bool,
) -> Planned:
    """Plan the stage that resizes an axis of a piece of so many ``lines``.

    ``shape`` is (*spatial, inner), and its entry for the axis is the number of inputs.
    ``picks_lanes`` says whether lanes may be the outputs of a part of the axis.
    """
    inner, lanes = math.prod(shape[axis + 1 :]), host().lanes(numbers.sums)
    fields = fields_of(band, numbers)
    fields |= {"middle": math.prod(shape[1:axis]), "n": shape[axis], "inner": inner}
    few = band.taps if band.taps <= FEW_TAPS else 0
    if inner >= lanes:
        return Planned(Stage("rows", axis == 0, few), fields)
    picking = picked(band, inner, lanes) if picks_lanes and picks(kind_of(numbers.sums)) else None
    if picking is not None:
        stage = Stage("picked", axis == 0, band.taps, inner, picking.window)
        return Planned(stage, fields | tables_of(picking, numbers.weights(band, picking.weights)))
    registers = 2 if inner == 1 and lines >= 2 * lanes else 1
    wide, size = inner * registers * lanes, np.dtype(numbers.sums).itemsize
    chunk = min(MAX_OUTPUTS, band.outputs)
    while chunk > 1 and reach(band, chunk) * wide * size > (
        CACHES.near if chunk > MIN_OUTPUTS else CACHES.own // 2
    ):
        chunk //= 2
    fields |= {
        "chunk": chunk,
        "before": memory.reserve(reach(band, chunk) * wide, numbers.sums),
        "after": memory.reserve(chunk * wide, numbers.sums),
    }
    few_numbers = inner if inner <= FEW_TAPS else 0
    return Planned(Stage("transposed", axis == 0, few, few_numbers, registers), fields)


def fields_of(band: Band, numbers: Numbers) -> dict[str, Any]:
    """Return the settings of a stage that say which weights it has."""
    weights = np.ascontiguousarray(numbers.weights(band))
    return {
        "result": 0, "middle": 1, "n": band.inputs, "outputs": band.outputs, "inner": 1,
        "first": np.ascontiguousarray(band.first, np.int64),
        "count": np.ascontiguousarray(band.count, np.int64),
        "weights": weights, "taps": weights.shape[1], "shift": numbers.shift(band),
        "start": 0, "stop": 0, "groups": NOTHING, "picked": weights,
        "places": np.empty(0, index_kind(kind_of(numbers.sums)).name),
        "step": 0, "chunk": 1, "before": 0, "after": 0,
    }  # fmt: skip


def tables_of(picking: Picking, weights: Array) -> dict[str, Any]:
    """Return the settings of a stage whose lanes pick their inputs."""
    return {
        "start": picking.start, "stop": picking.stop,
        "groups": np.ascontiguousarray(picking.groups, np.int64),
        "places": np.ascontiguousarray(picking.places, index_kind(kind_of(weights.dtype)).name),
        "picked": np.ascontiguousarray(weights),
    }  # fmt: skip


def plan_stages(
    bands: Sequence[Band],
    order: Sequence[int],
    shape: Shape,
    pieces: Pieces,
    numbers: Numbers,
    memory: Memory,
    in_place: bool,
) -> list[Planned]:
    """Plan the stages of a piece of planes (outer, *spatial, inner), in the order of axes.

    ``in_place`` says whether the image is read where it is, and not copied first.
    """
    sizes, rows = list(shape[1:]), rows_of_piece(bands, order, shape, pieces)
    stages: list[Planned] = []
    for axis in order:
        lines = pieces.planes * (rows * math.prod(sizes[1:axis]) if axis else 1)
        # Windows reach beyond the inputs of a part, which only an image in its place has.
        reachable = in_place and axis == order[0] and pieces.rows % WHOLE_ROWS == 0
        picks_lanes = axis > 0 or pieces.complete or reachable
        stage = plan_stage(axis, bands[axis], sizes, lines, numbers, memory, picks_lanes)
        sizes[axis] = bands[axis].outputs
        rows = rows if axis else pieces.rows
        if axis != order[-1]:
            count = pieces.planes * rows * math.prod(sizes[1:])
            stage.settings["result"] = memory.reserve(count, numbers.between)
        stages.append(stage)
    return stages


def rows_of_piece(bands: Sequence[Band], order: Sequence[int], shape: Shape, pieces: Pieces) -> int:
    """Return the greatest number of the image's rows that a piece needs."""
    if 0 not in order:
        return pieces.rows
    inputs = bands[0].inputs
    return inputs if pieces.complete else min(inputs, reach(bands[0], pieces.rows))


def products_of(bands: Sequence[Band], order: Sequence[int], shape: Shape) -> int:
    """Return the number of products of all planes (outer, *spatial, inner), and of copies."""
    sizes, total = list(shape), 0
    for axis in order:
        sizes[axis + 1] = bands[axis].outputs
        total += math.prod(sizes) * (bands[axis].taps + 1)
    return total


def kept_bytes(launch: Launch) -> int:
    """The memory of the tables of a launch, which are those of bands or as large."""
    return 2 * launch.settings.nbytes


def packed_strides(shape: Shape) -> Shape:
    """Return the strides of a packed array, which count numbers."""
    return tuple([math.prod(shape[k + 1 :]) for k in range(len(shape))])


def source_settings(planes: Shape, strides: Shape | None) -> dict[str, int]:
    """Return the settings of a source (N, C, *spatial, inner) with any strides; None if packed."""
    # There are always three spatial axes: the leading one, perhaps one between, and the last one.
    _, channels, *spatial, inner = planes
    item, channel, *steps, number = strides or (0,) * len(planes)
    number = number if inner > 1 else 1  # NumPy may say anything
    while len(spatial) < 3:
        spatial.insert(1, 1)
        steps.insert(1, 0)
    return {
        "channels": channels, "item_step": item, "channel_step": channel, "row_step": steps[0],
        "line_step": steps[1], "pixel_step": steps[2], "number_step": number,
        "lines": spatial[1], "pixels": spatial[2], "numbers": inner,
    }  # fmt: skip


def rows_of_pieces(band: Band | None, pieces: Pieces, rows: int) -> tuple[Array, Array]:
    """Return the image's rows that each piece of a plane needs, if ``band`` resizes them."""
    begin = np.arange(pieces.bands) * pieces.rows
    end = np.minimum(begin + pieces.rows, rows)
    if band is None:
        return begin, end
    if pieces.complete:
        return begin, np.array([band.inputs])
    low = band.first[begin].astype(np.int64)
    return low, np.maximum(low, band.first[end - 1] + band.count[end - 1])


@cached_by_size(CACHE_BYTES, kept_bytes)
def prepare(
    maps: tuple[AxisMap, ...],
    planes: Shape,
    strides: Shape | None,
    kinds: tuple[str, str],
    numbers: Numbers,
    threads: int,
) -> Launch:
    """Prepare the bands of maps for planes (N, C, *spatial, inner).

    ``kinds`` are the types of the source and the target.  The source's strides count elements;
    they are None if it is packed.
    """
    bands = tuple([axis_map.band for axis_map in maps])
    shape = (planes[0] * planes[1], *planes[2:])
    order = order_of(maps, shape, numbers)
    pieces = pieces_of(bands, order, shape, threads)
    memory, copy, row = Memory(), 0, math.prod(shape[2:])
    if strides:
        rows = rows_of_piece(bands, order, shape, pieces)
        copy = memory.reserve(pieces.planes * rows * row, kinds[0])
    begin, wide = memory.size, numbers
    numbers = (numbers.rounding == "exact" and narrow(bands, order, kinds)) or wide
    stages = plan_stages(bands, order, shape, pieces, numbers, memory, not strides)
    if numbers != wide and any(plan.stage.form not in NARROW_FORMS for plan in stages):
        memory.size, numbers = begin, wide
        stages = plan_stages(bands, order, shape, pieces, numbers, memory, not strides)
    low, high = rows_of_pieces(bands[0] if 0 in order else None, pieces, bands[0].outputs)
    layout = source_settings(planes, strides)
    steps = layout["numbers"], layout["pixel_step"], layout["number_step"]
    settings = {
        "outer": shape[0], "inputs": shape[1], "outputs": bands[0].outputs, "row": row,
        "result_row": math.prod([band.outputs for band in bands[1:]]) * shape[-1],
        "low": low, "high": high, "copy": copy, **layout,
    }  # fmt: skip
    threads = max(1, products_of(bands, order, shape) // PRODUCTS_OF_THREAD)
    description = Description(
        *kinds,
        numbers.sums,
        numbers.between,
        tuple([stage.stage for stage in stages]),
        numbers.rounding,
        strides is not None,
        packing_of(*steps, kind_of(kinds[0]).bits) if strides else None,
    )
    return launch_of(description, stages, pieces, settings, memory.size, threads)


def launch_of(
    description: Description,
    stages: Sequence[Planned],
    pieces: Pieces,
    settings: dict[str, Any],
    scratch: int,
    threads: int,
) -> Launch:
    """Return a program with the settings of its stages and pieces, and all others."""
    record = stage_record(description.sums)
    packed = SETTINGS.pack(
        planes=pieces.planes,
        rows=pieces.rows,
        bands=pieces.bands,
        stages=side_by_side([record.pack(**stage.settings) for stage in stages]),
        **settings,
    )
    tasks = -(-settings["outer"] // pieces.planes) * pieces.bands
    return Launch(compiled(description), packed, tasks, scratch, threads)


def prepare_repeated(
    tables: Repeated, lines: int, kinds: tuple[str, str], sums: str, copies: bool
) -> Launch:
    """Prepare the resizing of long lines, whose tables repeat."""
    band, picking, skipped = tables.band, tables.picking, tables.skipped
    inputs = band.inputs + skipped * tables.step
    outputs = band.outputs + skipped * host().lanes(sums)
    pieces, numbers = Pieces(1, PART, -(-outputs // PART)), Numbers(sums, sums)
    stage = Stage("picked", True, band.taps, 1, picking.window, repeats=True, copies=copies)
    fields = fields_of(band, numbers) | tables_of(picking, numbers.weights(band, picking.weights))
    fields |= {
        "outputs": outputs, "start": tables.group, "stop": tables.group + skipped + 1,
        "step": tables.step,
    }  # fmt: skip
    settings = {
        "outer": lines, "inputs": inputs, "outputs": outputs, "row": 1, "result_row": 1,
        "low": np.zeros(pieces.bands, np.int64), "high": np.full(pieces.bands, inputs), "copy": 0,
        **source_settings((1, lines, inputs, 1), None),
    }  # fmt: skip
    description = Description(*kinds, sums, sums, (stage,))
    return launch_of(description, [Planned(stage, fields)], pieces, settings, 0, 1)
