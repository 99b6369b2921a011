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
PAUSE = 2e-3  # seconds between two contenders: idle threads of the first stop spinning


def timer(call: Call) -> Timer:
    """A timer of a call in this process."""

    def seconds(number: int) -> float:
        start = time.perf_counter()
        for _ in range(number):
            call()
        return time.perf_counter() - start

    return seconds


def calls_per_round(clock: Timer) -> int:
    """How many calls are timed at once: so many that they take `SHORTEST`.

    The first calls after a pause find cold caches, and take several times as long.
    """
    number = 1
    while (seconds := clock(number)) < SHORTEST:
        number = max(2 * number, math.floor(0.9 * number * SHORTEST / max(seconds, 1e-9)))
    return number


def rounds(clocks: Sequence[Timer], seconds: float) -> list[list[float]]:
    """Times of a call of each timer, for some seconds; the order changes in every round."""
    numbers = [calls_per_round(clock) for clock in clocks]
    times: list[list[float]] = [[] for _ in clocks]
    end = time.perf_counter() + seconds
    collects = gc.isenabled()
    gc.disable()
    try:
        for round_number in range(ROUNDS[1]):
            for i in sorted(range(len(clocks)), key=lambda i: (i + round_number) % len(clocks)):
                time.sleep(PAUSE)
                times[i].append(clocks[i](numbers[i]) / numbers[i])
            if round_number + 1 >= ROUNDS[0] and time.perf_counter() > end:
                break
    finally:
        if collects:
            gc.enable()
    return times


def interleave(a: Call, b: Call, seconds: float) -> tuple[list[float], list[float]]:
    """Times of two calls, which are made alternately."""
    first, second = rounds([timer(a), timer(b)], seconds)
    return first, second


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Their time over ours: the median over the rounds."""
    return statistics.median(y / x for x, y in zip(ours, theirs, strict=True))


def copy_bandwidth(threads: int) -> float:
    """The best bandwidth of a copy of 128 MB, in bytes read and written per second."""
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
    """The growth of the peak memory in a call, in bytes; None where the system has no figure."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is None or not os.access(reset, os.W_OK):
        return None

    def read(name: str) -> int:
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) * 1024

    gc.collect()
    trim(0)  # freed memory that is reused would not be counted
    before = read("VmRSS")
    reset.write_text("5")  # forget the peak so far
    call()
    return float(read("VmHWM") - before)


def limit_cores(threads: int) -> None:
    """Restrict this process, and the threads that it will start, to some cores.

    Some libraries have no option for threads, so this is called before they are imported.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine() -> dict[str, Any]:
    """A description of this machine."""
    name = platform.processor() or platform.machine()
    description = Path("/proc/cpuinfo")
    if description.exists():
        fields = dict(
            tuple(map(str.strip, line.split(":", 1)))
            for line in description.read_text().split("\n\n")[0].splitlines()
            if ":" in line
        )
        name = fields.get("model name", name)
        family, model = fields.get("cpu family"), fields.get("model")
        name += f" (family {family}, model {model})" if family and model else ""
    return {
        "processor": name,
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
