"""Lower the loops for resizing to Numba: one compiled driver for each pair of storage types."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numba as nb
import numpy as np

from gridsample.kernels.compile.extending import tail
from gridsample.kernels.compile.jit import (
    compile_driver,
    compile_inner,
    compile_loop,
    compile_piece,
    compile_separate,
)
from gridsample.kernels.compile.lower import fingerprint, lower, rebind
from gridsample.kernels.cpu import labels as votes
from gridsample.kernels.cpu import lanes, tiles
from gridsample.kernels.cpu.build import loader, storer
from gridsample.kernels.cpu.intrinsics import minimum, where
from gridsample.kernels.cpu.vectors import Block
from gridsample.kernels.resize import labels, loops
from gridsample.kernels.resize.vectors import (
    block_weigher,
    group_copier,
    settle_streams,
    square_weigher,
    to_cache_line,
)

# The number of short outer lines that are transposed together; the longest piece of a line that is
# processed at once, so that a few stay in cache; the outputs between two transpositions; and the
# rows of pixels that are processed together.
LANES, LINE, CHUNK, ROWS = 16, 8192, 64, 4
# Outputs of a row whose inputs vote together; and the difference of two sums of weights up to
# which they tie: exact sums would be equal.
WIDTH, TIE = 256, 1e-9


class Spec(NamedTuple):
    """What is compiled into a driver.  Types are NumPy's codes; "V2" is bfloat16.

    Sums in "i4" are in fixed point; see `gridsample.kernels.resize.Numbers`.
    """

    driver: str
    source: str
    target: str
    sums: str
    pixel: int = 1  # contiguous numbers that are processed together if lines are short


@functools.cache
def real_store(code: str) -> Any:
    """Make the function that converts a real sum to a storage type."""
    store = storer(code)["store"]

    def store_real(total: Any, shift: Any) -> Any:
        return store(total)

    return compile_inner(rebind(store_real, {}, f"store_real_{code}"))


@functools.cache
def reader(source: str, sums: str) -> Any:
    """Make the function that converts a stored value to the dtype of sums."""
    load, kind = loader(source)["load"], nb.from_dtype(np.dtype(sums))

    def read_number(value: Any) -> Any:
        return kind(load(value))

    return compile_inner(rebind(read_number, {}, f"read_{source}_{sums}"))


@functools.cache
def driver_for(spec: Spec) -> Any:
    """Return the compiled driver for a spec."""
    names: dict[str, Any] = {
        "unsigned": nb.uint64,
        "ZERO": np.dtype(spec.sums).type(0),
        "LANES": LANES,
        "LINE": LINE,
        "CHUNK": CHUNK,
        "TILE": lanes.TILE,
        "turn_tile": lanes.turn_tile,
        "PIXEL": spec.pixel,
        **{f"weigh_{n}": block_weigher(Block(1, n), spec.target) for n in (LANES, 2 * LANES)},
        "weigh_square": square_weigher(Block(2, spec.pixel, spills=True)),
        "weigh_square_exact": square_weigher(Block(2, spec.pixel)),
        "stream_32": block_weigher(Block(1, 2 * LANES, streams=True), spec.target),
        "to_cache_line": to_cache_line,
        "settle_streams": settle_streams,
        "ROWS": ROWS,
        "number": reader(spec.source, spec.sums),
        "settle": real_store(spec.target),
    }
    tag = "_".join(map(str, spec)) + "_" + fingerprint()

    def include(*functions: Any, compile_: Any = compile_piece) -> None:
        names.update(lower(functions, names, compile_, tag))

    if spec.driver in ("along_lines", "across_lines"):
        include(loops.weigh_lines, compile_=compile_loop)
    if spec.driver == "across_pixels":
        for name, taps, spills in (
            ("run_2", 2, True), ("run_4", 4, True), ("run_any", 0, True), ("run_exact", 0, False),
        ):  # fmt: skip
            block = Block(ROWS, spec.pixel, taps, spills)
            flags = {"weigh_pixels": block_weigher(block, spec.target)}
            include((name, loops.resize_run, flags), compile_=compile_loop)
    if spec.driver in ("across_lines", "solve_across"):
        include(tiles.turn, compile_=compile_inner)
    if spec.driver.startswith("solve"):
        include(loops.eliminate)
    if spec.driver == "solve_across":
        include(loops.solve_lines, compile_=compile_inner)
    if spec.driver == "pick":
        include(
            loops.copy_line,
            *(
                (f"pick_groups_{n}", loops.pick_groups, {"GROUP": n, "copy_group": group_copier(n)})
                for n in (1, 3, 4)
            ),
        )
    if spec.driver.startswith("vote"):
        include_votes(spec, names, include)
        return compile_driver(rebind(getattr(labels, spec.driver), names, tag))
    return compile_driver(rebind(getattr(loops, spec.driver), names, tag))


def include_votes(spec: Spec, names: dict[str, Any], include: Callable[..., None]) -> None:
    """What drivers that resize labels are made of."""
    keys = nb.int32 if spec.driver == "vote_few" and spec.source != "u8" else nb.int64
    names |= {
        "integer": keys, "label": keys, "int64": nb.int64, "WIDTH": WIDTH, "TIE": TIE, "tail": tail,
        "where": where, "minimum": minimum,
    }  # fmt: skip
    include(votes.key_of, compile_=compile_inner)
    if spec.driver == "vote_few":
        loops_apart = (votes.differ, votes.copy_keys, votes.add_votes, votes.compare)
        include(*loops_apart, labels.weigh_line, compile_=compile_separate)
        include(votes.elect, votes.settle_keys, labels.collect_line, compile_=compile_loop)
    else:
        include(labels.find_slot, labels.cast, labels.find_winner, labels.count_line)
