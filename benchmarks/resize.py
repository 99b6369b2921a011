"""Times interpolate against torch, Pillow, OpenCV and SciPy, interleaved, if the results agree.

    python -m benchmarks.resize                 every case, one thread
    python -m benchmarks.resize --threads 2     number of threads of ours, torch's and OpenCV's
    python -m benchmarks.resize --only 1024     cases whose name contains a text
    python -m benchmarks.resize --json FILE     also write the figures

A peer takes part in a case only if it returns the same result.  A ratio is the peer's time divided
by ours, pair by pair; above 1, we are faster.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gridsample
from benchmarks.__main__ import interleave
from tests import cases

Array = np.ndarray[Any, Any]
Call = Callable[[], Array]

# The targets for one thread: the geometric mean of the ratios, and the least of them.
TARGETS = {"torch": (1.5, 1.0), "Pillow": (1.0, 1.0), "OpenCV": (1.0, 1.0), "SciPy": (10.0, 0.0)}


@dataclass(frozen=True)
class Case:
    """One call to time.

    Attributes:
        shape: the image, (N, C, *spatial).
        size: the output's spatial shape.
        mode: a mode of ours.
        antialias: whether it is antialiased.
        dtype: float32 or uint8.
        last: whether the channels of a pixel are contiguous in memory.
    """

    shape: tuple[int, ...]
    size: tuple[int, ...]
    mode: str
    antialias: bool = False
    dtype: str = "float32"
    last: bool = False

    @property
    def name(self) -> str:
        """A short name, the same in every run."""
        sizes = "x".join(map(str, self.shape)), "x".join(map(str, self.size))
        words = [f"{sizes[0]} -> {sizes[1]}", self.mode]
        words += ["antialias"] * self.antialias + [self.dtype] * (self.dtype != "float32")
        return " ".join(words + ["channels-last"] * self.last)

    def image(self) -> Array:
        """The input, channels first or last as the case says."""
        shape = (self.shape[0], *self.shape[2:], self.shape[1]) if self.last else self.shape
        rng = cases.generator(self.name)
        if self.dtype == "uint8":
            return rng.integers(64, 192, shape, np.uint8)
        return rng.random(shape, dtype=np.float32)


def every_case() -> Iterator[Case]:
    """All cases."""
    photo, batch, volume = (1, 3, 1024, 1024), (16, 64, 64, 64), (1, 1, 128, 128, 128)
    for side in (512, 2048):
        for mode in ("nearest", "linear", "cubic", "area"):
            yield Case(photo, (side, side), mode)
        for mode in ("linear", "cubic"):
            yield Case(photo, (side, side), mode, antialias=True)
        for mode in ("nearest", "linear", "cubic", "area"):
            yield Case(photo, (side, side), mode, last=True)
        yield Case(photo, (side, side), "spline3")
    for mode in ("nearest", "linear", "cubic", "area"):
        yield Case(batch, (128, 128), mode)
    for side in (256, 64):
        for mode in ("nearest", "linear", "area", "spline3"):
            yield Case(volume, (side,) * 3, mode)
    for mode in ("linear", "cubic"):
        yield Case((1, 3, 3000, 4000), (750, 1000), mode, True, "uint8", True)
    yield Case((1, 3, 3000, 4000), (750, 1000), "area", False, "uint8", True)
    # Thumbnails, which read few pixels.
    for dtype, last in (("uint8", True), ("float32", True), ("float32", False)):
        for mode in ("linear", "cubic"):
            yield Case((1, 3, 3000, 4000), (224, 224), mode, False, dtype, last)


def ours(case: Case, image: Array, threads: int) -> Call:
    """The case on gridsample."""
    return lambda: gridsample.interpolate(
        image,
        case.size,
        mode=case.mode,
        antialias=case.antialias,
        channel_axis=-1 if case.last else 1,
        threads=threads,
    )


def torchs(case: Case, image: Array, threads: int) -> Call | None:
    """The case on torch; channels-last as a view, in its own layout."""
    import torch

    names = {"nearest": "nearest", "area": "area", "cubic": "bicubic"}
    names["linear"] = ("linear", "bilinear", "trilinear")[len(case.size) - 1]
    if case.mode not in names or (case.mode == "cubic" and len(case.size) != 2):
        return None
    if case.mode == "area" and case.dtype == "uint8":
        return None
    torch.set_num_threads(threads)
    tensor = torch.from_numpy(image)
    tensor = tensor.movedim(-1, 1) if case.last else tensor

    def call() -> Array:
        result = torch.nn.functional.interpolate(
            tensor, case.size, mode=names[case.mode], antialias=case.antialias
        )
        return (result.movedim(1, -1) if case.last else result).numpy()

    return call


def pillows(case: Case, image: Array, threads: int) -> Call | None:
    """The case on Pillow: antialiased bytes."""
    from PIL import Image

    filters = {"linear": Image.Resampling.BILINEAR, "cubic": Image.Resampling.BICUBIC}
    filters["area"] = Image.Resampling.BOX
    smooth = case.antialias or case.mode == "area"
    if case.dtype != "uint8" or not (smooth and case.last and case.shape[0] == 1):
        return None
    picture = Image.fromarray(image[0])
    return lambda: np.asarray(picture.resize(case.size[::-1], filters[case.mode]))[np.newaxis]


def opencvs(case: Case, image: Array, threads: int) -> Call | None:
    """The case on OpenCV: one picture, channels last."""
    import cv2

    filters = {"linear": cv2.INTER_LINEAR, "cubic": cv2.INTER_CUBIC, "area": cv2.INTER_AREA}
    filters["nearest"] = cv2.INTER_NEAREST
    enlarges = case.mode == "area" and case.size[0] > case.shape[2]  # OpenCV interpolates there
    if not case.last or case.antialias or case.mode not in filters or enlarges:
        return None
    cv2.setNumThreads(threads)
    picture = image[0]
    return lambda: cv2.resize(picture, case.size[::-1], interpolation=filters[case.mode])[
        np.newaxis
    ]


def scipys(case: Case, image: Array, threads: int) -> Call | None:
    """The case on SciPy: splines of order 1 and 3, each plane by itself."""
    from scipy import ndimage

    orders = {"linear": (1, "nearest"), "spline3": (3, "reflect")}
    if case.antialias or case.last or case.mode not in orders or case.shape[0] > 1:
        return None
    order, mode = orders[case.mode]
    factors = [m / n for m, n in zip(case.size, case.shape[2:], strict=True)]

    def call() -> Array:
        planes = [
            ndimage.zoom(plane, factors, order=order, mode=mode, grid_mode=True)
            for plane in image[0]
        ]
        return np.stack(planes)[np.newaxis]

    return call


PEERS = {"torch": torchs, "Pillow": pillows, "OpenCV": opencvs, "SciPy": scipys}


def agree(case: Case, peer: str, mine: Array, theirs: Array) -> float:
    """The greatest difference; exit if it is larger than rounding."""
    if mine.shape != theirs.shape:
        sys.exit(f"{case.name}: {peer} gives shape {theirs.shape}, not {mine.shape}")
    worst = float(np.abs(mine.astype(float) - theirs.astype(float)).max())
    # Both round bytes; other values are below 1, and positions in single precision below 2048.
    if worst > (1 if case.dtype == "uint8" else 2048 * 2.0**-23):
        sys.exit(f"{case.name}: {peer} differs by up to {worst:.2g}")
    return worst


def measure(case: Case, threads: int, seconds: float) -> Iterator[dict[str, Any]]:
    """A row for each peer."""
    image = case.image()
    mine = ours(case, image, threads)
    for peer, make in PEERS.items():
        theirs = make(case, image, threads)
        if theirs is None:
            continue
        difference = agree(case, peer, mine(), theirs())
        a, b = interleave(
            lambda: (mine(),),
            lambda theirs=theirs: (theirs(),),  # type: ignore[misc]
            seconds,
        )
        yield {
            "case": case.name,
            "peer": peer,
            "ms": statistics.median(a) * 1e3,
            "peer_ms": statistics.median(b) * 1e3,
            "ratio": statistics.median(y / x for x, y in zip(a, b, strict=True)),
            "difference": difference,
            "runs": len(a),
        }


def versions() -> dict[str, str]:
    """The versions of the contenders by name."""
    names = ("gridsample", "numpy", "llvmlite", "torch", "PIL", "cv2", "scipy")
    return {name: str(__import__(name).__version__) for name in names}


def summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each peer: the geometric mean, and the cases that fall short."""
    for peer, (mean, least) in TARGETS.items():
        ratios = {row["case"]: row["ratio"] for row in rows if row["peer"] == peer}
        if ratios:
            reached = math.exp(statistics.fmean(map(math.log, ratios.values())))
            short = [f"{name} ({ratio:.2f})" for name, ratio in ratios.items() if ratio < least]
            yield (
                f"{peer}: geometric mean {reached:.2f} (to reach {mean}); "
                f"below {least}: {', '.join(short) or 'none'}"
            )


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resize", description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {arguments.threads} thread(s); {versions()}\n")
    print(f"{'case':64}{'peer':8}{'ours ms':>9}{'peer ms':>9}{'ratio':>7}")
    rows = []
    for case in every_case():
        if arguments.only in case.name:
            for row in measure(case, arguments.threads, arguments.seconds):
                rows.append(row)
                print(
                    f"{row['case']:64}{row['peer']:8}{row['ms']:9.2f}{row['peer_ms']:9.2f}"
                    f"{row['ratio']:7.2f}",
                    flush=True,
                )
    print("", *summary(rows), sep="\n")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        setting = {
            "machine": platform.machine(),
            "versions": versions(),
            "threads": arguments.threads,
        }
        arguments.json.write_text(json.dumps({**setting, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
