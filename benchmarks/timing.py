"""Measuring time, memory and the machine."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

Call = Callable[[], Any]
Timer = Callable[[int], float]  # seconds that so many calls take

ROUNDS = 5, 60  # at least and at most
SHORTEST = 5e-3  # seconds: calls that are shorter are timed many at once
PAUSE = 2e-3  # seconds between two turns, in which idle threads of the one before stop spinning


def timer(call: Call) -> Timer:
    """What times a call of this process."""

    def seconds(number: int) -> float:
        start = time.perf_counter()
        for _ in range(number):
            call()
        return time.perf_counter() - start

    return seconds


def calls_at_once(one: Timer) -> int:
    """How many calls a turn has: so many that they take `SHORTEST`, the last of them undisturbed.

    The first ones after a pause find cold caches, and take several times as long.
    """
    number = 1
    while (taken := one(number)) < SHORTEST:
        number = max(2 * number, math.floor(0.9 * number * SHORTEST / max(taken, 1e-9)))
    return number


def rounds(timers: Sequence[Timer], seconds: float) -> list[list[float]]:
    """Times of a call of each, in turn, for about so long; nobody always follows the same one."""
    numbers = [calls_at_once(one) for one in timers]
    times: list[list[float]] = [[] for _ in timers]
    end = time.perf_counter() + seconds
    collects = gc.isenabled()
    gc.disable()
    try:
        for turn in range(ROUNDS[1]):
            for i in sorted(range(len(timers)), key=lambda i: (i + turn) % len(timers)):
                time.sleep(PAUSE)
                times[i].append(timers[i](numbers[i]) / numbers[i])
            if turn + 1 >= ROUNDS[0] and time.perf_counter() > end:
                break
    finally:
        if collects:
            gc.enable()
    return times


def interleave(a: Call, b: Call, seconds: float) -> tuple[list[float], list[float]]:
    """Times of two calls, in turn."""
    first, second = rounds([timer(a), timer(b)], seconds)
    return first, second


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Their time over ours: the median over the rounds."""
    return statistics.median(y / x for x, y in zip(ours, theirs, strict=True))


def copy_bandwidth(threads: int) -> float:
    """Bytes a second that a copy of 128 MB reads and writes, on so many threads, at best."""
    source = np.ones(1 << 25, np.float32)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    best = math.inf
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(12):
            start = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(*pair), parts))
            best = min(best, time.perf_counter() - start)
    return 2 * source.nbytes / best


def extra_memory(call: Call) -> float | None:
    """Bytes that a call takes at its peak beside what there was before, where Linux tells."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is None or not os.access(reset, os.W_OK):
        return None

    def read(name: str) -> int:
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) * 1024

    gc.collect()
    trim(0)  # what was freed before would be used again and not be seen
    before = read("VmRSS")
    reset.write_text("5")  # forget the peak so far
    call()
    return float(read("VmHWM") - before)


def limit_cores(threads: int) -> None:
    """Hold this process, and the threads that it will start, to so many cores, where that goes.

    Some libraries take no number of threads.  So this comes before any of them is imported.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    named = platform.processor() or platform.machine()
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        fields = dict(
            tuple(map(str.strip, line.split(":", 1)))
            for line in listed.read_text().split("\n\n")[0].splitlines()
            if ":" in line
        )
        named = fields.get("model name", named)
        family, model = fields.get("cpu family"), fields.get("model")
        named += f" (family {family}, model {model})" if family and model else ""
    return {
        "processor": named,
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
