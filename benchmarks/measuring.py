"""One row of the table: make the contenders, compare what they give, and only then time them."""

from __future__ import annotations

import contextlib
import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.base import Base
from benchmarks.cases import Case, Inputs, make_inputs, touched
from benchmarks.peers import PEERS, Arrays, Contender, Missing, ours, ties, truth
from benchmarks.timing import Timer, extra_memory, ratio, rounds, timer

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
        beyond = ~(difference <= contender.tolerance * scale)  # a NaN is beyond
        # The fewest that may be: one number, of which a small case has few.
        if beyond.sum() > max(1, (contender.odd + ties(case)) * beyond.size):
            raise Disagreement(
                f"{beyond.mean():.2%} of the numbers differ by more than {contender.tolerance:.2g} "
                f"of the greatest, by up to {difference.max() / scale:.2g}"
            )
        squares.append(np.square(difference / scale).mean())
    return float(np.sqrt(np.mean(squares)))


def errors(result: Arrays, true: np.ndarray[Any, Any] | None, case: Case) -> Row | None:
    """Root mean square and maximum of what is off the truth, relative to the image's range."""
    if true is None:
        return None
    difference = np.abs(result[0] - true) / (255 if case.dtype == "uint8" else 1)
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
            left_out[name] = f"{type(failure).__name__}: {failure}"
            continue
        if contender is not None:
            found[name] = contender
    return found


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
    given = make_inputs(case)
    true = truth(case, given)
    left_out: dict[str, str] = {}
    differ: dict[str, str] = {}
    with quiet_libraries():
        own = ours(case, given, threads)
        mine = own.read(own.call())
        timers: dict[str, Timer] = {"": timer(own.call)}
        figures: dict[str, Row] = {}

        def take(name: str, contender: Contender, time: Callable[[], Timer]) -> None:
            try:
                theirs = contender.read(contender.call())
                figures[name] = {
                    "difference": compare(case, mine, theirs, contender),
                    "error": errors(theirs, true, case),
                    "why": contender.why,
                }
                timers[name] = time()
            except Disagreement as difference:
                differ[name] = str(difference)
            except Exception as failure:
                left_out[name] = f"{type(failure).__name__}: {failure}"

        found = find_peers(case, given, threads, names, left_out)
        for name, contender in found.items():
            take(name, contender, lambda call=contender.call: timer(call))  # type: ignore[misc]
        if base is not None:
            take("base", base.contender(case, threads), lambda: base.seconds)
        times = dict(zip(timers, rounds(list(timers.values()), seconds), strict=True))
        memory = None
        if {case.operation, case.direction} & set(MEMORY):
            memory = beside(own.call, results(case, given))
            for name in set(figures) - {"base"}:
                figures[name]["extra_bytes"] = beside(found[name].call, results(case, given))
    for name, figure in figures.items():
        figure["ms"] = statistics.median(times[name]) * 1e3
        figure["ratio"] = ratio(times[""], times[name])
    median = statistics.median(times[""])
    return {
        "case": case.name,
        "what": asdict(case),
        "threads": threads,
        "ms": median * 1e3,
        "rounds": len(times[""]),
        "bytes": touched(case, given),
        "share_of_copy": touched(case, given) / bandwidth / median,
        "extra_bytes": memory,
        "error": errors(mine, true, case),
        "peers": figures,
        "left_out": left_out,
        "differ": differ,
    }


def beside(call: Callable[[], Any], results: int) -> float | None:
    """Bytes that a call takes at its peak, without those of its results."""
    memory = extra_memory(call)
    return None if memory is None else memory - results


def results(case: Case, given: Inputs) -> int:
    """Bytes of what a call returns or keeps: outputs and gradients."""
    size, where = given.image.nbytes, given.theta if case.operation == "affine" else given.grid
    kept = {"input": size, "grid": where.nbytes}.get(case.direction, size + where.nbytes)
    out = 0 if case.direction in ("input", "grid", "both") else given.upstream.nbytes
    return out + (0 if case.direction in ("forward", "jvp") else kept)


@contextlib.contextmanager
def quiet_libraries() -> Any:
    """Peers' own warnings are nobody's business here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


__all__ = ["Disagreement", "Missing", "Row", "compare", "measure"]
