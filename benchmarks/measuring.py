"""One row of the table: make the contenders, compare their results, and only then time them."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.base import Base
from benchmarks.cases import Case, Inputs, highest, make_inputs, touched
from benchmarks.peers import PEERS, Arrays, Contender, Missing, ours, ties, truth
from benchmarks.timing import extra_memory, ratio, rounds, timer

Row = dict[str, Any]

MEMORY = ("affine", "step", "double")  # operations and directions whose memory is of interest


class Disagreement(Exception):
    """Two contenders do not give the same."""


def compare(case: Case, mine: Arrays, theirs: Arrays, contender: Contender) -> float:
    """The root mean square of the differences, relative to the scale.

    Raises:
        Disagreement: shapes differ, or more numbers than may be are farther apart than rounding.
    """
    if [a.shape for a in mine] != [b.shape for b in theirs]:
        shapes = [a.shape for a in mine], [b.shape for b in theirs]
        raise Disagreement(f"shapes {shapes[1]}, not {shapes[0]}")
    squares = []
    for a, b in zip(mine, theirs, strict=True):
        difference = np.abs(a - b)
        scale = max(float(np.abs(b).max()), 1e-300)
        tolerance = contender.tolerance
        if case.operation == "affine" and b.shape[1:] == (case.rank, case.rank + 1):
            # The gradient of a map: terms of any sign, of which a share are a neighbour's.
            tolerance += math.sqrt(ties(case))
        beyond = ~(difference <= tolerance * scale)  # a NaN is beyond
        # The fewest that may be: one number, of which a small case has few.
        if beyond.sum() > max(1, (contender.odd + ties(case)) * beyond.size):
            raise Disagreement(
                f"{beyond.mean():.2%} of the numbers differ by more than {tolerance:.2g} "
                f"of the greatest, by up to {difference.max() / scale:.2g}"
            )
        squares.append(np.square(difference / scale).mean())
    return float(np.sqrt(np.mean(squares)))


def errors(result: Arrays, true: np.ndarray[Any, Any] | None, case: Case) -> Row | None:
    """Root mean square and maximum of what is off the truth, relative to the image's range."""
    if true is None:
        return None
    difference = np.abs(result[0] - true) / highest(case.dtype)
    return {"rms": float(np.sqrt(np.square(difference).mean())), "max": float(difference.max())}


def find_peers(
    case: Case, given: Inputs, threads: int, names: Sequence[str], left_out: dict[str, str]
) -> dict[str, Contender]:
    """Those that can do the case; why others cannot goes to ``left_out``."""
    found = {}
    for name in names:
        try:
            contender = PEERS[name].make(case, given, threads)
        except Exception as failure:  # theirs: whatever it is, ours is still timed
            left_out[name] = told(failure)
            continue
        if contender is not None:
            found[name] = contender
    return found


def judge(
    case: Case, given: Inputs, mine: Arrays, found: dict[str, Contender], left_out: dict[str, str]
) -> tuple[dict[str, Row], dict[str, str]]:
    """Figures of those that agree with us, and what is wrong with those that do not."""
    true = truth(case, given)
    figures, differ = {"": {"error": errors(mine, true, case)}}, {}
    for name, contender in found.items():
        try:
            theirs = contender.read(contender.call())
            figures[name] = {
                "difference": compare(case, mine, theirs, contender),
                "error": errors(theirs, true, case),
                "why": contender.why,
            }
        except Disagreement as difference:
            differ[name] = str(difference)
        except Exception as failure:
            left_out[name] = told(failure)
    return figures, differ


def told(failure: Exception) -> str:
    """A failure in a line."""
    return f"{type(failure).__name__}: {failure}"


def measure(
    case: Case,
    threads: int,
    seconds: float,
    bandwidth: float,
    names: Sequence[str],
    base: Base | None = None,
) -> Row:
    """One row.  Contenders that fail or do not agree are named in ``left_out`` or ``differ``.

    Raises:
        Missing: we have no such function.
    """
    given, left_out = make_inputs(case), dict[str, str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peers' own are nobody's business here
        own = ours(case, given, threads)
        found = find_peers(case, given, threads, names, left_out)
        if base is not None:
            found["base"] = base.contender(case, threads)
        figures, differ = judge(case, given, own.read(own.call()), found, left_out)
        agreed = {name: {"": own, **found}[name] for name in figures}
        times = rounds([one.clock or timer(one.call) for one in agreed.values()], seconds)
        for (name, one), spent in zip(agreed.items(), times, strict=True):
            figures[name] |= {
                "ms": statistics.median(spent) * 1e3,
                "ratio": ratio(times[0], spent),
                "extra_bytes": beside(one, case, given),
            }
    mine, size = figures.pop(""), touched(case, given)
    return {
        "case": case.name,
        "what": asdict(case),
        "threads": threads,
        "ms": mine["ms"],
        "rounds": len(times[0]),
        "bytes": size,
        "share_of_copy": size / bandwidth / (mine["ms"] / 1e3),
        "extra_bytes": mine["extra_bytes"],
        "error": mine["error"],
        "peers": figures,
        "left_out": left_out,
        "differ": differ,
    }


def beside(contender: Contender, case: Case, given: Inputs) -> float | None:
    """Bytes that a call takes at its peak beside its results, where that is of interest."""
    if contender.clock is not None or not {case.operation, case.direction} & set(MEMORY):
        return None
    memory = extra_memory(contender.call)
    return None if memory is None else memory - results(case, given)


def results(case: Case, given: Inputs) -> int:
    """Bytes of what a call returns or keeps: outputs and gradients."""
    size, where = given.image.nbytes, given.theta if case.operation == "affine" else given.grid
    kept = {"input": size, "grid": where.nbytes}.get(case.direction, size + where.nbytes)
    out = 0 if case.direction in ("input", "grid", "both") else given.upstream.nbytes
    return out + (0 if case.direction in ("forward", "jvp") else kept)


__all__ = ["Disagreement", "Missing", "Row", "compare", "measure"]
