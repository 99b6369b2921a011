"""The drop-ins against what they stand in for: `python -m benchmarks.drop_ins [--small]`.

Both outputs are compared first; a case that does not agree is reported and not timed.  Contenders
take turns, and what is printed is each one's best time and the median ratio of neighbouring runs.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """Two calls of the same meaning, and how far their results may be apart."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    tolerance: float


def smooth(shape: tuple[int, ...]) -> np.ndarray:
    """Coordinates of a slightly turned and stretched image, all of them inside."""
    places = np.indices(shape, np.float64)
    middle = (np.array(shape) - 1).reshape(-1, *(1,) * len(shape)) / 2
    turned = (places - middle) * 0.68
    turned[-1], turned[-2] = turned[-1] + 0.1 * turned[-2], turned[-2] - 0.1 * turned[-1]
    return turned + middle


def scipy_cases(small: bool) -> Iterator[Case]:
    """Orders 1 and 3, prefilter included."""
    from scipy import ndimage as theirs

    from gridsample import ndimage as ours

    for shape in [(96, 96), (24, 24, 24)] if small else [(1024, 1024), (128, 128, 128)]:
        image = np.random.default_rng(0).normal(size=shape)
        grid, rank = smooth(shape), len(shape)
        matrix = np.eye(rank) * 0.9
        matrix[0, 1], matrix[1, 0] = 0.05, -0.05
        for order in (1, 3):
            calls: dict[str, tuple[Any, ...]] = {
                "map_coordinates": (grid,),
                "affine_transform": (matrix, 2.0),
                "zoom": (1.3 if rank == 2 else 1.2,),
                "shift": (0.4,),
            }
            for name, arguments in calls.items():

                def run(module: Any, name=name, arguments=arguments, order=order, image=image):
                    return getattr(module, name)(image, *arguments, order=order, mode="mirror")

                size = "x".join(map(str, shape))
                yield Case(
                    f"{name} order {order} {size}",
                    lambda run=run: run(ours),
                    lambda run=run: run(theirs),
                    1e-10,
                )


def opencv_cases(small: bool) -> Iterator[Case]:
    """Colour images, on maps that OpenCV does not have to round."""
    import cv2

    from gridsample import cv

    n = 96 if small else 1024
    y, x = (np.round(smooth((n, n)) * 32) / 32).astype(np.float32)
    noise = np.random.default_rng(0).random((n, n, 3))
    for image, tolerance in (((noise * 255).astype(np.uint8), 1), (noise.astype("f4"), 1e-5)):
        for name, how in (("linear", cv.INTER_LINEAR), ("cubic", cv.INTER_CUBIC)):

            def run(module: Any, image=image, how=how):
                return module.remap(image, x, y, how)

            yield Case(
                f"remap {name} {image.dtype} {n}x{n}x3",
                lambda run=run: run(cv),
                lambda run=run: run(cv2),
                tolerance,
            )


def measure(case: Case, repeats: int) -> str:
    """One line: do they agree, and how fast are they."""
    ours, theirs = case.ours(), case.theirs()
    apart = float(np.max(np.abs(np.asarray(ours, float) - np.asarray(theirs, float))))
    if not apart <= case.tolerance:
        return f"{case.name:44s} DIFFERS by {apart:.3g}: not timed"
    times = np.array([[clock(case.ours), clock(case.theirs)] for _ in range(repeats)]) * 1e3
    best, ratio = times.min(axis=0), float(np.median(times[:, 1] / times[:, 0]))
    return f"{case.name:44s} ours {best[0]:8.2f} ms  theirs {best[1]:8.2f} ms  {ratio:5.1f}x"


def clock(call: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Run all cases whose yardstick is installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="small images: does it run at all")
    parser.add_argument("--threads", type=int, default=1, help="cores that all may use")
    parser.add_argument("--repeats", type=int, default=15)
    chosen = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: chosen.threads])
    for cases, library in ((scipy_cases, "scipy"), (opencv_cases, "cv2")):
        try:
            for case in cases(chosen.small):
                print(measure(case, chosen.repeats), flush=True)
        except ModuleNotFoundError:
            print(f"{library} is not installed")


if __name__ == "__main__":
    main()
