"""A rotated volume in chunks, with gridsample and with dask-image: time, memory and errors.

    python -m benchmarks.chunks --size 512 --order 3

Every run is a process of its own, and contenders take turns.  Memory is the most that a process
took beyond what it had before, image and result included, less the result.  It needs dask-image.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.volumes import rotation

Array = np.ndarray[Any, Any]
CONTENDERS = ("gridsample", "dask-image", "dask-image, prefiltered")


def lazy(name: str, source: Any, matrix: Array, offset: Array, order: int) -> Any:
    """Return the rotated volume as a dask array of a contender."""
    if name == "gridsample":
        import gridsample.dask

        return gridsample.dask.affine_transform(source, matrix, offset, order=order)
    from dask_image.ndinterp import affine_transform, spline_filter

    chunks = source.chunksize
    if name == "dask-image":
        return affine_transform(source, matrix, offset, order=order, output_chunks=chunks)
    coefficients = spline_filter(source, order)
    return affine_transform(
        coefficients, matrix, offset, order=order, output_chunks=chunks, prefilter=False
    ).astype(source.dtype)


def measured(name: str, size: int, chunk: int, order: int, threads: int) -> dict[str, Any]:
    """Rotate a volume in this process, once for programs and imports, and once for the figures."""
    import dask
    import dask.array as da

    matrix = rotation(np.array((1.0, 0, 0)), np.deg2rad(10))
    volume = np.random.default_rng(1).random((size,) * 3, np.float32)
    with dask.config.set(scheduler="threads", num_workers=threads):
        for n in (chunk // 4, size):
            centre = np.full(3, (n - 1) / 2)
            source = da.from_array(volume[:n, :n, :n], chunks=chunk, name=False)
            rotated = lazy(name, source, matrix, centre - matrix @ centre, order)
            result = np.zeros(rotated.shape, np.float32)
            result[:] = 1  # allocate its memory
            before = memory("VmRSS")
            Path("/proc/self/clear_refs").write_text("5")  # reset the peak
            start = time.perf_counter()
            da.store(rotated, result, lock=False)
            seconds = time.perf_counter() - start
    return {"seconds": seconds, "memory": memory("VmHWM") - before, "result": result}


def memory(name: str) -> int:
    """Return a number of bytes that Linux has counted for this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


def error_of(result: Array, size: int, order: int) -> float:
    """Return the greatest difference from SciPy."""
    from scipy import ndimage

    matrix = rotation(np.array((1.0, 0, 0)), np.deg2rad(10))
    centre = np.full(3, (size - 1) / 2)
    volume = np.random.default_rng(1).random((size,) * 3, np.float32)
    expected = ndimage.affine_transform(volume, matrix, centre - matrix @ centre, order=order)
    return float(np.abs(result - expected).max())


def main() -> None:
    """Print the figures of each run, and at the end their quotients."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chunks")
    parser.add_argument("--size", type=int, default=512, help="the edge of the volume in pixels")
    parser.add_argument("--chunk", type=int, default=128, help="the edge of a chunk in pixels")
    parser.add_argument("--order", type=int, default=3, help="the order of the spline")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--errors", action="store_true", help="also compare results with SciPy")
    parser.add_argument("--run", choices=CONTENDERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        numbers = measured(
            arguments.run, arguments.size, arguments.chunk, arguments.order, arguments.threads
        )
        result = numbers.pop("result")
        if arguments.errors:
            numbers["error"] = error_of(result, arguments.size, arguments.order)
        print(json.dumps(numbers))
        return
    names = CONTENDERS if arguments.order > 1 else CONTENDERS[:2]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(arguments.rounds):
        for name in names:
            command = [sys.executable, "-m", "benchmarks.chunks", *sys.argv[1:], "--run", name]
            process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            rows[name].append(json.loads(process.stdout.splitlines()[-1]))
            row = rows[name][-1]
            error = f", error {row['error']:.1e}" if "error" in row else ""
            size = row["memory"] / 1e6
            print(f"{name}: {row['seconds']:.2f} s, {size:.0f} MB{error}", flush=True)
    ours = min(row["seconds"] for row in rows[names[0]])
    for name in names[1:]:
        print(f"{name}: {min(row['seconds'] for row in rows[name]) / ours:.1f} times the time")


if __name__ == "__main__":
    main()
