"""How an image is resized: in which order of axes, in which pieces, and by which program."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions.bands import KEPT, Band
from gridsample.definitions.caches import cached_by_size
from gridsample.definitions.tables import AxisMap, rounded_order
from gridsample.kernels.resize.forms import Stage
from gridsample.kernels.resize.program import SETTINGS, Description, compiled, stage_record
from gridsample.kernels.run import LINE, Launch
from gridsample.kernels.vector import host, kind_of, side_by_side

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

# The maximum size of a piece between two axes, in numbers.
PIECE = 1 << 16
# The numbers that are worth a task.
SHARE = 1 << 14
# The minimum number of rows per tap in a piece: rows at the edges of pieces are computed twice.
ROWS_PER_TAP = 6
# Products, or copies, that are worth a thread: a tenth of a millisecond.
WORTH = 1 << 20
# The number of taps from which the leading axis is resized first if a piece of so many rows would
# otherwise be larger than two pieces.
MANY_TAPS = 16
# The cost of transposing a number, in products.
TRANSPOSITION = 3.0
# The outputs between two transpositions, at most.  They are halved while their inputs need more
# bytes than a near cache has; once they are few, only while they need more than a far one has.
MOST_OUTPUTS, LEAST_OUTPUTS = 64, 16
NEAR_CACHE, FAR_CACHE = 1 << 16, 1 << 19
# The greatest number of inputs for which a stage is compiled.
FEW_TAPS = 4
# The steps for which regular outputs are summed without transposing.
STEPS = (2, 4)
# The fewest registers of a line of regular outputs, and the most other outputs at its ends.
LEAST_REGISTERS, MOST_AT_ENDS = 4, 16


# Numbers ------------------------------------------------------------------------------------------

# Pillow's weights have the bits that bytes leave in 32.  PyTorch's weights have 16 bits, with as
# many after the point as the largest weight allows.
PILLOW_BITS = 22
# The greatest sum of absolute weights for which all of these have enough bits.
FIXED_GAIN = 1.9


class Numbers(NamedTuple):
    """The type of sums, that of results between two axes, and how weights are rounded."""

    sums: str
    between: str
    rounding: str = "exact"

    def bits(self, band: Band) -> int:
        """Return the number of bits after the point in a band's weights."""
        if self.rounding == "pillow":
            return PILLOW_BITS
        most = float(band.weights.max(initial=0))
        return next((n for n in range(PILLOW_BITS) if 0.5 + most * 2 ** (n + 1) >= 2**15), 22)

    def weights(self, band: Band) -> Array:
        """Return a band's weights as factors.

        Pillow and PyTorch round each weight separately, and halves away from zero.
        """
        if self.rounding == "exact":
            return band.weights.astype(self.sums)
        scaled = band.weights * 2.0 ** self.bits(band)
        whole = np.trunc(scaled + np.copysign(0.5, scaled))
        return whole.astype(np.int32 if self.rounding == "pillow" else np.int16).astype(np.int32)

    def shift(self, band: Band) -> int:
        """Return by how many bits a sum must be shifted right before it is stored."""
        return 0 if self.rounding == "exact" else self.bits(band)


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


def best_order(bands: tuple[Band, ...], inner: int, lanes: int = 16) -> tuple[int, ...]:
    """Return the order of axes with the lowest cost; axes that are not resized are left out."""

    def cost(order: Sequence[int]) -> float:
        shape = [band.inputs for band in bands]
        total = 0.0
        for axis in order:
            band = bands[axis]
            shape[axis] = band.outputs
            work: float = band.outputs * (band.taps + 1)
            line = inner * math.prod(shape[axis + 1 :])
            if line < lanes and not regular(band, line, lanes):
                work += TRANSPOSITION * (band.inputs + band.outputs)
            total += work * math.prod(shape) / band.outputs
        return total

    axes = [axis for axis, band in enumerate(bands) if not band.is_identity]
    return min(itertools.permutations(axes), key=cost) or (0,)


def order_of(bands: tuple[Band, ...], shape: Shape, numbers: Numbers) -> list[int]:
    """Return the order in which axes of planes (outer, *spatial, inner) are resized."""
    order = [*best_order(bands, shape[-1], host().lanes(numbers.sums))]
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
    def whole(self) -> bool:
        """Whether pieces have all rows."""
        return self.bands == 1


def cut(outer: int, size: int, rows: int, least: int, target: int) -> Pieces:
    """Cut planes of ``size`` numbers such that a piece has about ``target``.

    Pieces have at least so many rows, unless a plane has fewer.
    """
    if size <= target or rows <= least:
        return Pieces(min(outer, max(1, target // max(1, size))), rows, 1)
    step = max(least, rows * target // size)
    return Pieces(1, step, -(-rows // step))


def pieces_of(
    bands: Sequence[Band], order: Sequence[int], shape: Shape, threads: int, limit: int
) -> Pieces:
    """Cut planes (outer, *spatial, inner) into pieces that are each taken through all axes."""
    size = between(bands, order, shape)
    rows = bands[0].outputs
    # Rows at the edges of pieces are computed twice unless their axis comes first.
    least = ROWS_PER_TAP * bands[0].taps if 0 in order[1:] else 1
    target = min(limit, max(SHARE, shape[0] * size // threads))
    return cut(shape[0], size, rows, least, target)


# Stages -------------------------------------------------------------------------------------------


class Memory:
    """Parts of scratch memory, one after the other."""

    def __init__(self) -> None:
        self.size = 0

    def reserve(self, count: int, kind: str) -> int:
        """Reserve memory for so many numbers, and return where it begins."""
        begin = self.size
        self.size += -(-count * kind_of(kind).size // LINE) * LINE
        return begin


class Planned(NamedTuple):
    """A stage: what is compiled for it, and its settings."""

    stage: Stage
    settings: dict[str, Any]


def regular(band: Band, inner: int, lanes: int) -> tuple[int, int, int] | None:
    """Return (start, stop, step) if most outputs have the same few weights, a step apart.

    The step is a power of two, and there are so many outputs that their ends do not matter.
    """
    if inner > FEW_TAPS or band.outputs * inner < LEAST_REGISTERS * lanes:
        return None
    middle = band.outputs // 2
    step = int(band.first[middle + 1] - band.first[middle])
    if step not in STEPS or band.count[middle] > FEW_TAPS:
        return None
    alike = (band.count == band.count[middle]) & (band.weights == band.weights[middle]).all(axis=1)
    alike &= band.first == band.first[middle] + step * (np.arange(band.outputs) - middle)
    others = np.flatnonzero(~alike)
    start = int(others[others < middle].max(initial=-1)) + 1
    stop = int(others[others > middle].min(initial=band.outputs))
    return (start, stop, step) if start + band.outputs - stop <= MOST_AT_ENDS else None


def plan_stage(
    axis: int, band: Band, shape: Sequence[int], lines: int, numbers: Numbers, memory: Memory
) -> Planned:
    """Plan the stage that resizes an axis of a piece of so many ``lines``.

    ``shape`` is (*spatial, inner), and its entry for the axis is the number of inputs.
    """
    inner, lanes = math.prod(shape[axis + 1 :]), host().lanes(numbers.sums)
    weights = numbers.weights(band)
    fields: dict[str, Any] = {
        "result": 0, "middle": math.prod(shape[1:axis]), "n": shape[axis],
        "outputs": band.outputs, "inner": inner, "taps": weights.shape[1], "most": band.taps,
        "shift": numbers.shift(band), "start": 0, "stop": 0, "chunk": 1, "before": 0, "after": 0,
    }  # fmt: skip
    few = band.taps if band.taps <= FEW_TAPS else 0
    if inner >= lanes:
        stage = Stage("rows", axis == 0, few)
    elif pattern := regular(band, inner, lanes):
        start, stop, step = pattern
        stage = Stage("strided", axis == 0, int(band.count[start]), inner, step=step)
        fields |= {"start": start, "stop": stop}
    elif 1 < inner <= FEW_TAPS and band.taps <= inner:
        stage = Stage("pixels", axis == 0, few, inner)
    else:
        registers = 2 if inner == 1 and lines >= 2 * lanes else 1
        stage = Stage("transposed", axis == 0, few, inner if inner <= FEW_TAPS else 0, registers)
        wide, size = inner * registers * lanes, np.dtype(numbers.sums).itemsize
        chunk = min(MOST_OUTPUTS, band.outputs)
        while chunk > 1 and reach(band, chunk) * wide * size > (
            NEAR_CACHE if chunk > LEAST_OUTPUTS else FAR_CACHE
        ):
            chunk //= 2
        fields |= {
            "chunk": chunk,
            "before": memory.reserve(reach(band, chunk) * wide, numbers.sums),
            "after": memory.reserve(chunk * wide, numbers.sums),
        }
    return Planned(stage, fields | {
        "first": np.ascontiguousarray(band.first, np.int64),
        "count": np.ascontiguousarray(band.count, np.int64),
        "weights": np.ascontiguousarray(weights),
    })  # fmt: skip


def plan_stages(
    bands: Sequence[Band], order: Sequence[int], shape: Shape, pieces: Pieces, numbers: Numbers,
    memory: Memory,
) -> list[Planned]:  # fmt: skip
    """Plan the stages of a piece of planes (outer, *spatial, inner), in the order of axes."""
    sizes, rows = list(shape[1:]), rows_of_piece(bands, order, shape, pieces)
    stages: list[Planned] = []
    for axis in order:
        lines = pieces.planes * (rows * math.prod(sizes[1:axis]) if axis else 1)
        stage = plan_stage(axis, bands[axis], sizes, lines, numbers, memory)
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
    return inputs if pieces.whole else min(inputs, reach(bands[0], pieces.rows))


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


@cached_by_size(KEPT, kept_bytes)
def prepare(
    maps: tuple[AxisMap, ...], planes: Shape, strides: Shape | None, kinds: tuple[str, str],
    numbers: Numbers, threads: int, limit: int,
) -> Launch:  # fmt: skip
    """Prepare the bands of maps for planes (N, C, *spatial, inner).

    ``kinds`` are the types of the source and the target.  The source's strides count elements;
    they are None if it is packed.
    """
    bands = tuple([axis_map.band for axis_map in maps])
    shape = (planes[0] * planes[1], *planes[2:])
    order = order_of(bands, shape, numbers)
    pieces = pieces_of(bands, order, shape, threads, limit)
    memory, copy, row = Memory(), 0, math.prod(shape[2:])
    if strides:
        rows = rows_of_piece(bands, order, shape, pieces)
        copy = memory.reserve(pieces.planes * rows * row, kinds[0])
    stages = plan_stages(bands, order, shape, pieces, numbers, memory)
    record = stage_record(numbers.sums)
    tables = (bands[0].first, bands[0].count) if 0 in order else (np.zeros(1),) * 2
    first, count = (np.ascontiguousarray(table, np.int64) for table in tables)
    settings = SETTINGS.pack(
        outer=shape[0], planes=pieces.planes, outputs=bands[0].outputs, rows=pieces.rows,
        bands=pieces.bands, inputs=shape[1], row=row,
        result_row=math.prod([band.outputs for band in bands[1:]]) * shape[-1],
        first=first, count=count, copy=copy,
        stages=side_by_side([record.pack(**stage.settings) for stage in stages]),
        **source_settings(planes, strides),
    )  # fmt: skip
    description = Description(
        *kinds, numbers.sums, numbers.between, tuple([stage.stage for stage in stages]),
        strides is not None,
    )  # fmt: skip
    return Launch(
        compiled(description),
        settings,
        tasks=-(-shape[0] // pieces.planes) * pieces.bands,
        scratch=memory.size,
        threads=max(1, products_of(bands, order, shape) // WORTH),
    )
