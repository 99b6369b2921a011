"""Which cases of parametrized tests need kernels that no other test of the ordinary run needs.

Most of a run's time from an empty cache goes into compiling kernels, at about a second each, and
half of the kernels serve a few cases only.  These are listed in `COSTLY` and are slow tests.  Every
test function keeps at least one case in the ordinary run.  To make the list again:

    pytest --choose

This runs the listed cases too, and notes the kernels of each.  Run it twice: only the second run
has all kernels in the cache, so that times are those of the cases.  A case that is new, or was
renamed, is not in the list and runs.
"""

from __future__ import annotations

import collections
import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

COSTLY = Path(__file__).with_name("costly_cases.json")
# What a kernel costs in seconds, and what a case may take.
COMPILING, LONG = 1.0, 0.8
# Modules whose caches lead to kernels.
CACHING = ("gridsample.kernels.cpu", "gridsample.kernels.resize", "gridsample.kernels.prefilter")


class Case(NamedTuple):
    """A case of a test function.

    Attributes:
        name: its node ID.
        seconds: how long it took, with all kernels in the cache.
        kernels: the names of the kernels that it used.
    """

    name: str
    seconds: float
    kernels: frozenset[str]


def function_of(name: str) -> str:
    """The node ID of a case's function."""
    return name.partition("[")[0]


def costly() -> frozenset[str]:
    """The node IDs in the list."""
    listed = json.loads(COSTLY.read_text(encoding="utf-8"))
    return frozenset(f"{function}[{case}]" for function in listed for case in listed[function])


def choose(cases: Iterable[Case]) -> dict[str, list[str]]:
    """Return the cases to leave out, by function.

    Functions with one case come first, because that one runs in any event.  Of the others, the case
    that costs least, given the kernels so far, is chosen.  In the end, all cases that need no other
    kernels and are short run as well.
    """
    functions: dict[str, list[Case]] = collections.defaultdict(list)
    for case in sorted(cases):
        functions[function_of(case.name)].append(case)
    kernels: set[str] = set()
    chosen: set[str] = set()

    def cost(case: Case) -> float:
        return COMPILING * len(case.kernels - kernels) + case.seconds

    for some in sorted(functions.values(), key=lambda some: (len(some) > 1, min(map(cost, some)))):
        least = min(some, key=cost)
        kernels |= least.kernels
        chosen.add(least.name)
    left: dict[str, list[str]] = {}
    for function, some in sorted(functions.items()):
        for case in some:
            cheap = case.kernels <= kernels and case.seconds < LONG
            if not cheap and case.name not in chosen:
                left.setdefault(function, []).append(case.name[len(function) + 1 : -1])
    return left


def write(cases: Iterable[Case]) -> int:
    """Write the list; return how many cases it has."""
    left = choose(cases)
    COSTLY.write_text(json.dumps(left, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    return sum(map(len, left.values()))


# What a case uses ---------------------------------------------------------------------------------

used: set[str] = set()


def watch() -> None:
    """Forget which kernels are loaded, and note those that are loaded from now on."""
    used.clear()
    for name, module in list(sys.modules.items()):
        if name.startswith(CACHING):
            for one in list(vars(module).values()):
                if isinstance(one, functools._lru_cache_wrapper):
                    one.cache_clear()
    folders: Any = sys.modules.get("gridsample.kernels.compile.folders")
    if folders is not None and not hasattr(folders.read, "__wrapped__"):
        folders.read = noted(folders.read)


def noted(read: Callable[[str], bytes | None]) -> Callable[[str], bytes | None]:
    """Note the names of the kernels that are read."""

    @functools.wraps(read)
    def reading(name: str) -> bytes | None:
        used.add(name)
        return read(name)

    return reading


def case_of(report: Any) -> Case:
    """The case of a report of pytest."""
    properties: Mapping[str, Any] = dict(report.user_properties)
    return Case(report.nodeid, report.duration, frozenset(properties.get("kernels", ())))
