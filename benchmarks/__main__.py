"""Times gridsample against its peers, in one run, interleaved, after checking that they agree.

    python -m benchmarks                 every case, one thread
    python -m benchmarks --threads 2     with so many threads on both sides
    python -m benchmarks --only 1024     cases whose name holds a text
    python -m benchmarks --json FILE     also write the figures
    python -m benchmarks --device cuda   on a GPU: see benchmarks/gpu.py

A ratio is the peer's time over ours, pair by pair; above 1 we are faster.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gridsample
from benchmarks.cases import Case, every_case

Array = np.ndarray[Any, Any]
Call = Callable[[], tuple[Array, ...]]


def ours(case: Case, image: Array, grid: Array, upstream: Array, threads: int) -> Call:
    """The case on gridsample."""
    channel_axis = -1 if case.last else 1
    if case.last:
        image, upstream = np.moveaxis(image, 1, -1), np.moveaxis(upstream, 1, -1)
    options: dict[str, Any] = {"channel_axis": channel_axis, "threads": threads}
    if case.direction == "forward":
        return lambda: (gridsample.grid_sample(image, grid, case.mode, **options),)
    return lambda: gridsample.grid_sample_vjp(upstream, image, grid, case.mode, **options)


def torchs(case: Case, image: Array, grid: Array, upstream: Array, threads: int) -> Call:
    """The case on torch, whose tensors share the arrays' memory."""
    import torch

    torch.set_num_threads(threads)
    tensors = [torch.from_numpy(array) for array in (image, grid, upstream)]
    inputs = [tensor.requires_grad_(case.direction == "backward") for tensor in tensors[:2]]
    options: dict[str, Any] = {"mode": case.mode, "align_corners": False}
    sample = torch.nn.functional.grid_sample
    if case.direction == "forward":
        return lambda: (channels(case, sample(*inputs, **options).numpy()),)
    out = sample(*inputs, **options)

    def backward() -> tuple[Array, ...]:
        grads = torch.autograd.grad(out, inputs, tensors[2], retain_graph=True)
        return channels(case, grads[0].numpy()), grads[1].numpy()

    return backward


def channels(case: Case, array: Array) -> Array:
    """Torch's result in our axes."""
    return np.moveaxis(array, 1, -1) if case.last else array


def agree(case: Case, mine: tuple[Array, ...], theirs: tuple[Array, ...]) -> float:
    """The greatest difference relative to the scale; an error where it is more than rounding.

    Nearest may pick the other pixel, and a grid's gradient the other side of one, where a position
    is on a tie to rounding: at most one point in ten thousand.
    """
    worst = 0.0
    for a, b in zip(mine, theirs, strict=True):
        difference = np.abs(a - b) / np.abs(b).max()
        if (difference > 1e-3).mean() > 1e-4:
            sys.exit(f"{case.name}: the results differ by up to {difference.max():.2g}")
        worst = max(worst, float(np.quantile(difference, 0.9999)))
    return worst


def interleave(a: Call, b: Call, seconds: float) -> tuple[list[float], list[float]]:
    """Times of two calls, in turn, for about so long."""
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while len(times[0]) < 5 or (time.perf_counter() < end and len(times[0]) < 50):
        for call, spent in zip((a, b), times, strict=True):
            start = time.perf_counter()
            call()
            spent.append(time.perf_counter() - start)
    return times


def copy_bandwidth() -> float:
    """Bytes a second that a copy of 64 MB reads and writes, one thread."""
    source = np.ones(1 << 24, np.float32)
    target = np.empty_like(source)
    best = math.inf
    for _ in range(10):
        start = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - start)
    return 2 * source.nbytes / best


def measure(case: Case, threads: int, seconds: float, bandwidth: float) -> dict[str, Any]:
    """One row of the table."""
    arrays = case.inputs()
    mine, theirs = ours(case, *arrays, threads), torchs(case, *arrays, threads)
    difference = agree(case, mine(), theirs())
    a, b = interleave(mine, theirs, seconds)
    return {
        "case": case.name,
        "required": case.required,
        "ms": statistics.median(a) * 1e3,
        "torch_ms": statistics.median(b) * 1e3,
        "ratio": statistics.median(y / x for x, y in zip(a, b, strict=True)),
        "difference": difference,
        "share_of_copy": case.bytes / bandwidth / statistics.median(a),
        "runs": len(a),
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.device == "cuda":
        from benchmarks import gpu

        gpu.main(arguments.only, arguments.seconds, arguments.json or Path("gpu-benchmarks.json"))
        return
    import torch

    bandwidth = copy_bandwidth()
    print(f"{platform.machine()}, {arguments.threads} thread(s), copy {bandwidth / 1e9:.1f} GB/s")
    print(f"gridsample {gridsample.__version__}, torch {torch.__version__}\n")
    print(f"{'case':58}{'ours ms':>10}{'torch ms':>10}{'ratio':>7}{'of copy':>9}")
    rows = []
    for case in every_case():
        if arguments.only in case.name:
            row = measure(case, arguments.threads, arguments.seconds, bandwidth)
            rows.append(row)
            print(
                f"{row['case']:58}{row['ms']:10.2f}{row['torch_ms']:10.2f}{row['ratio']:7.2f}"
                f"{row['share_of_copy']:8.0%}{' *' if row['required'] else ''}",
                flush=True,
            )
    if rows:
        mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))
        slower = [row["case"] for row in rows if row["required"] and row["ratio"] < 1]
        print(
            f"\ngeometric mean of the ratios {mean:.2f}; * must not be below 1: {slower or 'met'}"
        )
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        machine = {"copy_bytes_per_second": bandwidth, "machine": platform.machine()}
        versions = {"torch": torch.__version__, "numpy": np.__version__}
        setting = {"machine": machine, "versions": versions, "threads": arguments.threads}
        arguments.json.write_text(json.dumps({**setting, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
