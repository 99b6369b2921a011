"""Reprojected rasters: gridsample against rioxarray (GDAL) and odc-geo, in memory and lazily.

    python -m benchmarks.rasters                        all tables, 8000 x 8000 pixels
    python -m benchmarks.rasters --size 1000 --rounds 1 to check that everything runs
    python -m benchmarks.rasters --method average --coarser 4

A float32 raster in UTM, with holes, is reprojected to Web Mercator.  Every run is a process of its
own, which first reprojects a small raster; contenders take turns, and the least time and memory of
the rounds count.  Memory is the most that a process took beyond what it had before, less the
result; the image is there before.  Results are compared first: with GDAL's for positions that are
exact (tolerance 0), where neither is missing, as the median and the 99th percentile of differences
in parts of the range, and as the share of pixels that only one of both has.  Lazy arrays
have chunks of 2048 pixels, and are stored in memory.  It needs rioxarray, odc-geo and dask.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.chunks import memory

Array = np.ndarray[Any, Any]
METHODS = "bilinear", "cubic", "nearest", "average", "min", "median"
# The names of rasterio's methods where they are others.
RASTERIO = {"median": "med"}
# Those that are for outputs which are coarser than the image.
STATISTICS = *METHODS[3:], "sum"
CHUNK = 2048
CRS, PIXEL, CORNER = "EPSG:32632", 10.0, (500_000.0, 5_300_000.0)
# A pixel of Web Mercator that is about as large as one of the image, at 47 degrees.
NEW_PIXEL = 15.0


class Run(NamedTuple):
    """A run of a contender.

    Attributes:
        name: its name.
        method: the method.
        size: the rows and columns of the image.
        coarser: how many pixels are a side of an output pixel.
        threads: the number of threads.
        lazy: whether arrays are in chunks.
    """

    name: str
    method: str
    size: int
    coarser: float
    threads: int
    lazy: bool


def raster(size: int) -> Any:
    """Return a rough raster with holes, as a DataArray."""
    import rioxarray  # noqa: F401
    import xarray

    rng = np.random.default_rng(0)
    values = rng.random((size, size), np.float32)
    y, x = np.arange(size, dtype=np.float32)[:, None], np.arange(size, dtype=np.float32)
    values += 10 * np.sin(x / 40) * np.cos(y / 30)
    for row, column in rng.integers(0, size, (size // 40, 2)):
        values[row : row + 20, column : column + 20] = np.nan
    centres = PIXEL * (np.arange(size) + 0.5)
    places = {"y": CORNER[1] - centres, "x": CORNER[0] + centres}
    return xarray.DataArray(values, places, ("y", "x")).rio.write_crs(CRS)


def target_of(image: Any, coarser: float) -> Any:
    """Return the pixels of the output, as odc-geo's GeoBox."""
    from odc.geo.geobox import GeoBox
    from rasterio.warp import transform_bounds

    resolution = NEW_PIXEL * coarser
    bounds = transform_bounds(CRS, "EPSG:3857", *image.rio.bounds())
    return GeoBox.from_bbox(bounds, "EPSG:3857", resolution=resolution)


def by_gridsample(image: Any, target: Any, run: Run) -> Any:
    """Reproject by gridsample."""
    import gridsample.xarray

    chunks = (CHUNK, CHUNK) if run.lazy else None
    return gridsample.xarray.reproject(
        image,
        like=target,
        method=run.method,
        chunks=chunks,
        threads=None if run.lazy else run.threads,
        min_weight=0 if run.method in STATISTICS else None,  # as in GDAL
    )


def by_rioxarray(image: Any, target: Any, run: Run) -> Any:
    """Reproject by rioxarray, which is eager."""
    from rasterio.enums import Resampling

    return image.rio.reproject(
        "EPSG:3857",
        transform=target.affine,
        shape=tuple(target.shape),
        resampling=Resampling[RASTERIO.get(run.method, run.method)],
        nodata=np.nan,
        num_threads=run.threads,
    )


def by_odc(image: Any, target: Any, run: Run) -> Any:
    """Reproject by odc-geo."""
    from odc.geo.xr import xr_reproject

    name = RASTERIO.get(run.method, run.method)
    options: dict[str, Any] = {"chunks": (CHUNK, CHUNK)} if run.lazy else {}
    return xr_reproject(image, target, resampling=name, dst_nodata=np.nan, **options)


CONTENDERS: dict[str, Callable[[Any, Any, Run], Any]] = {
    "gridsample": by_gridsample,
    "rioxarray": by_rioxarray,
    "odc-geo": by_odc,
}


def measured(run: Run) -> tuple[dict[str, float], Array]:
    """Reproject in this process, once for programs and imports, and once for the figures."""
    import dask
    import dask.array as da

    figures, result = {"seconds": 0.0, "memory": 0.0}, np.empty(0)
    with dask.config.set(scheduler="threads", num_workers=run.threads):
        for size in (min(run.size, 300), run.size):
            image = raster(size)
            target = target_of(image, run.coarser)
            image = image.chunk({"y": CHUNK, "x": CHUNK}) if run.lazy else image
            before = memory("VmRSS")
            Path("/proc/self/clear_refs").write_text("5")  # reset the peak
            start = time.perf_counter()
            output = CONTENDERS[run.name](image, target, run)
            if run.lazy:
                result = np.empty(output.shape, output.dtype)
                da.store(output.data, result, lock=False)
            else:
                result = output.values
            figures["seconds"] = time.perf_counter() - start
            figures["memory"] = float(memory("VmHWM") - before - result.nbytes)
    return figures, result


def in_process(run: Run, folder: Path) -> tuple[dict[str, float], Array]:
    """Measure a run in a process of its own."""
    path = folder / "result.npy"
    words = ["--measure", json.dumps(run), "--result", str(path)]
    command = [sys.executable, "-m", "benchmarks.rasters", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{run} failed:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures, np.load(path)


def exact(run: Run) -> Array:
    """Reproject by GDAL with exact positions."""
    from rasterio.enums import Resampling
    from rasterio.warp import reproject

    image = raster(run.size)
    target = target_of(image, run.coarser)
    result = np.full(tuple(target.shape), np.nan, np.float32)
    reproject(
        image.values,
        result,
        src_transform=image.rio.transform(),
        src_crs=CRS,
        src_nodata=np.nan,
        dst_transform=target.affine,
        dst_crs="EPSG:3857",
        dst_nodata=np.nan,
        resampling=Resampling[RASTERIO.get(run.method, run.method)],
        tolerance=0,
    )
    return result


def differences(result: Array, truth: Array) -> str:
    """Describe how far two results are apart, in parts of the range, and what only one has."""
    known, expected = np.isfinite(result), np.isfinite(truth)
    both = known & expected
    apart = np.abs(result[both] - truth[both]) / np.ptp(truth[both])
    median, rare = np.quantile(apart, [0.5, 0.99])
    return f"{median:.1e}, {rare:.1e}, {(known != expected).mean():.2%}"


def compared(runs: Sequence[Run], folder: Path) -> Iterator[str]:
    """Yield lines with the differences of contenders from exact positions, for one thread."""
    truth = exact(runs[0])
    for run in runs:
        _, result = in_process(run, folder)
        yield f"| {run.method} | {run.name} | {differences(result, truth)} |"


def timed(runs: Sequence[Run], rounds: int, folder: Path) -> Iterator[str]:
    """Yield lines with the time and memory of contenders, which take turns."""
    best = {run: {"seconds": np.inf, "memory": np.inf} for run in runs}
    for _ in range(rounds):
        for run in runs:
            figures, _ = in_process(run, folder)
            best[run] = {name: min(best[run][name], figures[name]) for name in figures}
    ours = best[runs[0]]
    for run in runs:
        seconds, most = best[run]["seconds"], best[run]["memory"]
        kind = "lazy" if run.lazy else "eager"
        words = run.method, f"{kind}, {run.threads}", run.name
        ratio = f"{seconds / ours['seconds']:.2f}"
        yield f"| {' | '.join(words)} | {seconds:.2f} | {ratio} | {most / 2**20:.0f} |"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command = argparse.ArgumentParser(
        prog="python -m benchmarks.rasters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--size", type=int, default=8000, help="rows and columns of the image")
    names, slow = (*METHODS, "sum"), "default: all but sum, which takes GDAL minutes"
    command.add_argument("--method", choices=names, action="append", help=slow)
    command.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    command.add_argument("--rounds", type=int, default=3)
    command.add_argument("--coarser", type=float, default=3.0, help="in statistics, of both sides")
    command.add_argument("--measure", help=argparse.SUPPRESS)
    command.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    return command


def main(words: Sequence[str] | None = None) -> None:
    """Print the tables."""
    arguments = parser().parse_args(words)
    if arguments.measure:
        figures, result = measured(Run(*json.loads(arguments.measure)))
        np.save(arguments.result, result)
        print(json.dumps(figures))
        return

    def runs(method: str, threads: int, lazy: bool) -> list[Run]:
        coarser = arguments.coarser if method in STATISTICS else 1.0
        names = ("gridsample", "odc-geo") if lazy else ("gridsample", "rioxarray")
        return [Run(name, method, arguments.size, coarser, threads, lazy) for name in names]

    methods = arguments.method or METHODS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("| method | | differences: median, 99 %; only one has |\n|---|---|---|")
        for method in methods:
            both = [runs(method, 1, False), runs(method, 1, True)]
            for line in compared([*both[0], *both[1]], folder):
                print(line, flush=True)
        print("\n| method | threads | | seconds | ratio | MiB |\n|---|---|---|---|---|---|")
        for method in methods:
            for lazy in (False, True):
                for threads in arguments.threads:
                    for line in timed(runs(method, threads, lazy), arguments.rounds, folder):
                        print(line, flush=True)


if __name__ == "__main__":
    main()
