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
    """The results of two contenders differ."""


def compare(case: Case, mine: Arrays, theirs: Arrays, contender: Contender) -> float:
    """The root mean square of the differences, relative to the scale.

    Raises:
        Disagreement: Shapes differ, or more numbers than allowed differ by more than rounding.
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
            # The gradient of a map sums terms of any sign, some of which are a neighbour's.
            tolerance += math.sqrt(ties(case))
        beyond = ~(difference <= tolerance * scale)  # a NaN is beyond
        # One number may always differ: a small case has only a few.
        if beyond.sum() > max(1, (contender.outliers + ties(case)) * beyond.size):
            raise Disagreement(
                f"{beyond.mean():.2%} of the numbers differ by more than {tolerance:.2g} "
                f"of the greatest, by up to {difference.max() / scale:.2g}"
            )
        squares.append(np.square(difference / scale).mean())
    return float(np.sqrt(np.mean(squares)))


def errors(result: Arrays, expected: np.ndarray[Any, Any] | None, case: Case) -> Row | None:
    """Root mean square and maximum of the error, relative to the image's range."""
    if expected is None:
        return None
    difference = np.abs(result[0] - expected) / highest(case.dtype)
    return {"rms": float(np.sqrt(np.square(difference).mean())), "max": float(difference.max())}


def find_peers(
    case: Case, inputs: Inputs, threads: int, names: Sequence[str], left_out: dict[str, str]
) -> dict[str, Contender]:
    """The peers that support the case; the errors of the others are added to ``left_out``."""
    contenders = {}
    for name in names:
        try:
            contender = PEERS[name].make(case, inputs, threads)
        except Exception as failure:  # theirs: whatever it is, ours is still timed
            left_out[name] = failure_text(failure)
            continue
        if contender is not None:
            contenders[name] = contender
    return contenders


def verified_figures(
    case: Case,
    inputs: Inputs,
    mine: Arrays,
    contenders: dict[str, Contender],
    left_out: dict[str, str],
) -> tuple[dict[str, Row], dict[str, str]]:
    """Differences and errors of contenders that agree with ours; messages about the others."""
    expected = truth(case, inputs)
    figures, disagreements = {"": {"error": errors(mine, expected, case)}}, {}
    for name, contender in contenders.items():
        try:
            theirs = contender.read(contender.call())
            figures[name] = {
                "difference": compare(case, mine, theirs, contender),
                "error": errors(theirs, expected, case),
                "why": contender.why,
            }
        except Disagreement as error:
            disagreements[name] = str(error)
        except Exception as failure:
            left_out[name] = failure_text(failure)
    return figures, disagreements


def failure_text(failure: Exception) -> str:
    """An exception as a line of text."""
    return f"{type(failure).__name__}: {failure}"


def measure(
    case: Case,
    threads: int,
    seconds: float,
    bandwidth: float,
    names: Sequence[str],
    base: Base | None = None,
) -> Row:
    """One row.  ``left_out`` and ``differ`` name contenders that fail or disagree.

    Raises:
        Missing: gridsample lacks the function.
    """
    inputs, left_out = make_inputs(case), dict[str, str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of the peers
        own = ours(case, inputs, threads)
        contenders = find_peers(case, inputs, threads, names, left_out)
        if base is not None:
            contenders["base"] = base.contender(case, threads)
        figures, disagreements = verified_figures(
            case, inputs, own.read(own.call()), contenders, left_out
        )
        agreed = {name: {"": own, **contenders}[name] for name in figures}
        times = rounds(
            [contender.clock or timer(contender.call) for contender in agreed.values()], seconds
        )
        for (name, contender), seconds_per_call in zip(agreed.items(), times, strict=True):
            figures[name] |= {
                "ms": statistics.median(seconds_per_call) * 1e3,
                "ratio": ratio(times[0], seconds_per_call),
                "extra_bytes": memory_beyond_results(contender, case, inputs),
            }
    mine, size = figures.pop(""), touched(case, inputs)
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
        "differ": disagreements,
    }


def memory_beyond_results(contender: Contender, case: Case, inputs: Inputs) -> float | None:
    """The peak memory of a call beyond its results, in bytes, where it is of interest."""
    if contender.clock is not None or not {case.operation, case.direction} & set(MEMORY):
        return None
    memory = extra_memory(contender.call)
    return None if memory is None else memory - result_bytes(case, inputs)


def result_bytes(case: Case, inputs: Inputs) -> int:
    """Bytes of the outputs and gradients that a call returns or keeps."""
    size, points = inputs.image.nbytes, inputs.theta if case.operation == "affine" else inputs.grid
    gradients = {"input": size, "grid": points.nbytes}.get(case.direction, size + points.nbytes)
    out = 0 if case.direction in ("input", "grid", "both") else inputs.upstream.nbytes
    return out + (0 if case.direction in ("forward", "jvp") else gradients)


__all__ = ["Disagreement", "Missing", "Row", "compare", "measure"]
