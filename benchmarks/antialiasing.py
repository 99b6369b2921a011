"""Antialiased warps: their quality, compared with supersampling, and their cost.

    python -m benchmarks.antialiasing            print the tables
    python -m benchmarks.antialiasing --write    also write docs/benchmarks/antialiasing.json
    python -m benchmarks.antialiasing --quick    only check that everything runs, with one photo

Quality is the PSNR of a warped photo (scikit-image's) against 16 x 16 samples of bicubic per output
pixel, 8 x 8 x 8 for a volume.  Time is that of one thread, as a ratio to the same result from a
finer grid, and to `reproject.reproject_adaptive` if that is installed.  The contenders take turns.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gridsample

Array = np.ndarray[Any, Any]
RESULTS = Path(__file__).parent.parent / "docs" / "benchmarks" / "antialiasing.json"
PHOTOS = ("astronaut", "chelsea", "coffee")
SIZE = 256


class Warp(NamedTuple):
    """A warp of a square photo: normalized output coordinates (x, y) to normalized input ones."""

    name: str
    shrink: float
    positions: Callable[[Array], Array]


def rotation(shrink: float, degrees: float) -> Callable[[Array], Array]:
    """A shrinking rotation about the middle, of a photo of twice the output's size."""
    angle, scale = np.deg2rad(degrees), shrink / 2
    cos, sin = scale * np.cos(angle), scale * np.sin(angle)
    return lambda points: points @ np.array([[cos, sin], [-sin, cos]])


def floor(points: Array) -> Array:
    """A floor that is seen up to the horizon, at the upper edge."""
    depth = 0.35 / (points[..., 1] + 1.05)
    return np.stack([points[..., 0] * depth * 4, 2 * depth - 1], -1)


WARPS = (
    Warp("4x shrink, 30 degrees", 4, rotation(4, 30)),
    Warp("2.5x shrink, 30 degrees", 2.5, rotation(2.5, 30)),
    Warp("floor seen to the horizon", 2.5, floor),
    Warp("1x, 17 degrees", 1, rotation(1, 17)),
)


def photo(name: str) -> Array:
    """A photo as (1, 3, 512, 512), from 0 to 1."""
    from skimage import data

    image = np.moveaxis(getattr(data, name)()[..., :3], -1, 0)[None].astype(np.float32) / 255
    return gridsample.interpolate(image, (2 * SIZE, 2 * SIZE), mode="bicubic", antialias=True)


def centres(size: int, parts: int = 1) -> Array:
    """Normalized coordinates of the middles of parts of output pixels, (size * parts,)."""
    return (2 * np.arange(size * parts) + 1) / (size * parts) - 1


def grid_of(positions: Callable[[Array], Array], parts: int = 1) -> Array:
    """The grid of a warp, with some points for each output pixel along both axes."""
    line = centres(SIZE, parts)
    points = np.stack(np.meshgrid(line, line), -1)
    return positions(points)[None].astype(np.float32)


def psnr(image: Array, exact: Array) -> float:
    """The peak signal-to-noise ratio, for a peak of 1, in dB, without a rim of two pixels."""
    inner = (..., *(slice(2, -2),) * (image.ndim - 2))
    return float(-10 * np.log10(np.square(image[inner] - exact[inner]).mean()))


def supersampled(image: Array, positions: Callable[[Array], Array]) -> Array:
    """The mean of 16 x 16 samples of bicubic for each output pixel, some rows at a time."""
    parts, rows = 16, []
    fine_grid = grid_of(positions, parts)
    for first in range(0, SIZE, 32):
        grid = fine_grid[:, first * parts : (first + 32) * parts]
        fine = gridsample.grid_sample(image, grid, "bicubic", "reflection")
        rows.append(gridsample.interpolate(fine, (32, SIZE), mode="area"))
    return np.concatenate(rows, 2)


def quality(photos: tuple[str, ...]) -> list[dict[str, Any]]:
    """The PSNR of each warp, as the mean over the photos."""
    rows = []
    for warp in WARPS:
        grid, scores = grid_of(warp.positions), []
        for name in photos:
            image = photo(name)
            exact = supersampled(image, warp.positions)
            options: Any = {"padding_mode": "reflection"}
            scores.append(
                [
                    psnr(gridsample.grid_sample(image, grid, **options), exact),
                    psnr(gridsample.grid_sample(image, grid, "bicubic", **options), exact),
                    psnr(gridsample.grid_sample(image, grid, antialias=True, **options), exact),
                ]
            )
        counts = gridsample.footprint(grid, image.shape[2:]).counts.prod(-1).mean()
        bilinear, cubic, mean = np.mean(scores, 0)
        rows.append(
            {
                "warp": warp.name,
                "bilinear": bilinear,
                "bicubic": cubic,
                "antialias": mean,
                "samples": float(counts),
            }
        )
    return [*rows, volume_quality()]


def volume_quality() -> dict[str, Any]:
    """The same for a volume of noise of all scales, which is turned and shrunk by 3."""
    rng = np.random.default_rng(3)
    volume = np.zeros((1, 1, 96, 96, 96), np.float32)
    for n in (6, 12, 24, 48, 96):
        noise = rng.standard_normal((1, 1, n, n, n)).astype(np.float32)
        volume += gridsample.interpolate(noise, (96,) * 3, mode="trilinear") * (6 / n)
    volume = (volume - volume.min()) / np.ptp(volume)
    angle = np.deg2rad(25)
    matrix = np.array(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0.2], [0.1, -0.2, 1]]
    )
    size, parts = 32, 8

    def grid(n: int) -> Array:
        line = centres(size, n)
        points = np.stack(np.meshgrid(line, line, line, indexing="ij")[::-1], -1)
        return (points @ matrix.T)[None].astype(np.float32)

    options: Any = {"padding_mode": "reflection"}
    fine = gridsample.grid_sample(volume, grid(parts), "bicubic", **options)
    exact = gridsample.interpolate(fine, (size,) * 3, mode="area")
    counts = gridsample.footprint(grid(1), volume.shape[2:]).counts.prod(-1).mean()
    return {
        "warp": "volume, 3x shrink, 25 degrees",
        "bilinear": psnr(gridsample.grid_sample(volume, grid(1), **options), exact),
        "bicubic": psnr(gridsample.grid_sample(volume, grid(1), "bicubic", **options), exact),
        "antialias": psnr(
            gridsample.grid_sample(volume, grid(1), antialias=True, **options), exact
        ),
        "samples": float(counts),
    }


def best(*calls: Callable[[], Any], seconds: float = 4.0) -> list[float]:
    """The shortest time of each call in seconds; they are made in turns."""
    times = [[] for _ in calls]  # type: list[list[float]]
    for call in calls:
        call()
    end = time.perf_counter() + seconds * len(calls)
    while not times[0] or time.perf_counter() < end:
        for call, own_times in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            own_times.append(time.perf_counter() - start)
    return [min(own_times) for own_times in times]


def speed(dtype: str, last: bool, kind: str, seconds: float) -> dict[str, Any]:
    """One thread, RGB 2048 x 2048 to 512 x 512, turned by 30 degrees.

    kind: "grid", "map" for an affine map, or "labels", which are 8 pixels wide, under a map.
    """
    rng = np.random.default_rng(0)
    image = rng.random((1, 3, 2048, 2048), np.float32)
    image = (image * 255).astype(dtype) if dtype == "uint8" else image
    if kind == "labels":
        image = (image[..., ::8, ::8] // 32).repeat(8, -1).repeat(8, -2)
    axis = -1 if last else 1
    image = np.ascontiguousarray(np.moveaxis(image, 1, -1)) if last else image
    angle = np.deg2rad(30)
    theta = np.array([[[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0]]])
    theta, size = theta.astype(np.float32), (1, 3, 512, 512)
    grid = gridsample.affine_grid(theta, size)
    options: Any = {"padding_mode": "border", "threads": 1, "channel_axis": axis}

    def ours() -> Array:
        if kind == "grid":
            return gridsample.grid_sample(image, grid, antialias=True, **options)
        mode = "label" if kind == "labels" else "bilinear"
        return gridsample.affine_sample(image, theta, size, mode, antialias=True, **options)

    def by_finer_grid() -> Array:
        fine = gridsample.affine_grid(theta, (1, 3, 2048, 2048))
        if kind == "labels":  # the samples vote after their taps have
            sampled = gridsample.grid_sample(image, fine, "label", **options)
            return gridsample.interpolate(
                sampled, (512, 512), mode="label", antialias=True, threads=1, channel_axis=axis
            )
        sampled = gridsample.grid_sample(image, fine, **options)
        return gridsample.interpolate(
            sampled, (512, 512), mode="area", threads=1, channel_axis=axis
        )

    result, expected = ours(), by_finer_grid()
    if kind == "labels":
        assert (result == expected).mean() > 0.9
    else:
        difference = np.abs(result.astype(float) - expected.astype(float)).max()
        assert difference <= (1 if dtype == "uint8" else 1e-4), difference
    counts = gridsample.footprint(grid, (2048, 2048)).counts.prod(-1).sum()
    mine, theirs = best(ours, by_finer_grid, seconds=seconds)
    tracemalloc.start()
    result = ours()
    peak = tracemalloc.get_traced_memory()[1] - result.nbytes
    tracemalloc.stop()
    layout, content = "last" if last else "first", "" if kind == "grid" else f"{kind}, "
    return {
        "case": f"RGB 2048 x 2048 to 512 x 512, {content}{dtype}, channels {layout}",
        "ms": mine * 1e3,
        "ns": mine * 1e9 / (float(counts) * 3),
        "MB": peak / 2**20,
        "peers": {"a 4x finer grid": {"ratio": theirs / mine}},
    }


def against_reproject(seconds: float) -> dict[str, Any] | None:
    """A rotation of a grey image by reproject_adaptive at its fastest setting; None without it."""
    try:
        from astropy.wcs import WCS
        from reproject import reproject_adaptive
    except ImportError:
        return None
    image = np.random.default_rng(0).random((1, 1, 1024, 1024))
    angle = np.deg2rad(30)
    linear = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    theta = np.concatenate([linear, np.zeros((2, 1))], 1)[None]
    source, target = WCS(naxis=2), WCS(naxis=2)
    source.wcs.crpix, source.wcs.cd = (512.5, 512.5), np.eye(2)
    target.wcs.crpix, target.wcs.cd = (128.5, 128.5), 4 * linear

    def theirs() -> Array:
        result: Array = reproject_adaptive(
            (image[0, 0], source),
            target,
            (256, 256),
            kernel="hann",
            center_jacobian=False,
            boundary_mode="nearest",
            return_footprint=False,
        )
        return result

    def ours() -> Array:
        result: Array = gridsample.affine_sample(
            image, theta, (1, 1, 256, 256), padding_mode="border", antialias=True, threads=1
        )
        return result[0, 0]

    # Their kernel is another one: only the mean over many pixels is the same.
    difference = np.abs(ours()[8:-8, 8:-8] - theirs()[8:-8, 8:-8]).mean()
    assert difference < 0.1, difference
    mine, their_seconds = best(ours, theirs, seconds=seconds / 2)
    return {
        "case": "grey float64 1024 x 1024 to 256 x 256",
        "ms": mine * 1e3,
        "ns": mine * 1e9 / (256 * 256 * 16),
        "MB": None,
        "peers": {"reproject": {"ratio": their_seconds / mine}},
    }


def cell(value: Any) -> str:
    """An entry of a table: a name, a number, or ratios to peers."""
    if isinstance(value, dict):
        return ", ".join(f"{figures['ratio']:.3g} ({peer})" for peer, figures in value.items())
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.3g}"


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table."""
    names = list(rows[0])
    lines = [names, ["---"] * len(names)]
    for row in rows:
        lines.append([cell(v) for v in row.values()])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Print the tables, and write them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--quick", action="store_true", help="time each call only a few times")
    arguments = parser.parse_args()
    seconds = 0.0 if arguments.quick else 4.0
    results: dict[str, Any] = {"quality": quality(PHOTOS[:1] if arguments.quick else PHOTOS)}
    print("PSNR against supersampling, dB\n\n" + table(results["quality"]))
    kinds = [("grid", d) for d in ("float32", "uint8")]
    kinds += [("map", "float32"), ("map", "uint8"), ("labels", "uint8")]
    rows = [speed(d, last, kind, seconds) for kind, d in kinds for last in (False, True)]
    reproject_row = against_reproject(seconds)
    results |= {"threads": 1, "rows": rows if reproject_row is None else [*rows, reproject_row]}
    print("\nOne thread; ns for a sample and channel, and memory beside the output\n")
    print(table(results["rows"]))
    if arguments.write and not arguments.quick:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
