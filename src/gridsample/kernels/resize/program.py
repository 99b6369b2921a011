"""The program of resizing: it takes one piece of an image through all of its axes.

A piece is a few planes, or a band of rows (in a volume, slices) of one plane.  Each axis is one
stage (`forms`), which sees its data as (outer, n, inner) and makes (outer, outputs, inner) of them.

The first stage reads the image and the last one writes the result, with conversions of type.  What
is between them stays in scratch memory, in the type of sums.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import NamedTuple

from gridsample.kernels.resize.forms import FORMS, Stage, Work
from gridsample.kernels.resize.packing import Packing, copied
from gridsample.kernels.run import entry
from gridsample.kernels.vector import (
    Function,
    Program,
    Record,
    Value,
    compile,
    host,
    index_kind,
    kind_of,
)


class Description(NamedTuple):
    """What a program is compiled for.

    Attributes:
        source: the type of the image, as the vector language names it.
        target: the type of the result.
        sums: "float32" or "float64"; "int32" or "int16" for weights in fixed point.
        between: the type of what lies between two stages.
        stages: the stages in their order.
        rounding: how sums are rounded; see `planning.Numbers`.
        copies: whether pieces of the image are copied first, because it is not contiguous.
        packing: how its pixels lie in memory then, if they are near each other.
    """

    source: str
    target: str
    sums: str
    between: str
    stages: tuple[Stage, ...]
    rounding: str = "exact"
    copies: bool = False
    packing: Packing | None = None


SETTINGS = Record(
    outer="int64",
    planes="int64",  # all planes, and those of a piece
    outputs="int64",
    rows="int64",  # rows of a plane of the result, and those of a piece
    bands="int64",  # the pieces of a plane
    inputs="int64",  # rows of a plane of the image
    row="int64",
    result_row="int64",  # the numbers in a row of either
    low="*int64",
    high="*int64",  # the rows of the image that each piece of a plane needs
    stages="*int64",  # the record of each stage
    # For an image that is not contiguous: its strides and sizes, and where its copy begins.
    channels="int64",
    item_step="int64",
    channel_step="int64",
    row_step="int64",
    line_step="int64",
    pixel_step="int64",
    number_step="int64",
    lines="int64",
    pixels="int64",
    numbers="int64",
    copy="int64",
)


@functools.cache
def stage_record(sums: str) -> Record:
    """Return the layout of the settings of a stage, for a type of sums."""
    return Record(
        result="int64",  # where the result is in scratch memory
        middle="int64",  # lines in a row
        n="int64",
        outputs="int64",
        inner="int64",
        first="*int64",
        count="*int64",
        weights=f"*{sums}",
        taps="int64",  # the distance of the weights of neighbouring outputs
        shift="int64",  # the bits of fixed point that are dropped from sums
        # Of lanes that pick their inputs, see `picking`: the groups in the middle, tables, and the
        # numbers from a group's window to the next one's in a long line.
        start="int64",
        stop="int64",
        groups="*int64",
        places=f"*{index_kind(kind_of(sums)).name}",
        picked=f"*{sums}",
        step="int64",
        chunk="int64",  # outputs between two transpositions
        before="int64",
        after="int64",  # where transposed lines are in scratch memory
    )


@functools.lru_cache(maxsize=256)
def compiled(description: Description) -> Program:
    """Compile the program for a description."""
    name, sums = f"resize_{description.source}_{description.target}", description.sums
    function = Function(name.replace(" ", "_"), host().lanes(sums), sums)
    arrays = {"source": description.source, "target": description.target}
    with entry(function, arrays, SETTINGS) as (task, call):
        write_piece(function, description, call, task)
    return compile(function, reduces_strength=False)


def write_piece(
    function: Function, description: Description, call: SimpleNamespace, task: Value
) -> None:
    """Write all stages of a piece."""
    group = task // call.bands
    band = task - group * call.bands
    plane, begin = group * call.planes, band * call.rows
    planes = call.planes.minimum(call.outer - plane)
    end = (begin + call.rows).minimum(call.outputs)
    low, high = call.low.load(band), call.high.load(band)
    rows = high - low
    if description.copies:
        data = copied(function, call, (plane, planes), (low, high), description.packing)
    else:
        data = call.source.at((plane * call.inputs + low) * call.row)
    record = stage_record(description.sums)
    for k, stage in enumerate(description.stages):
        fields = record.read(call.stages.at(k * record.size))
        fields.rounding = description.rounding
        if k == len(description.stages) - 1:
            result = call.target.at((plane * call.outputs + begin) * call.result_row)
        else:
            result = call.scratch.at(fields.result).cast(description.between)
        if stage.leading:
            work = Work(data, result, call.scratch, planes, rows, low, begin, end)
            rows = end - begin
        else:
            lines = planes * rows * fields.middle
            zero = low * 0
            work = Work(data, result, call.scratch, lines, fields.n, zero, zero, fields.outputs)
        FORMS[stage.form](function, stage, fields, work).write()
        data = result
