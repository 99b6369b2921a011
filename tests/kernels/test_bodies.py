"""Programs that vote or average instead of only summing pixels, on several processors."""

from __future__ import annotations

import os
import pathlib
import platform
import subprocess
import sys

import cases
import numpy as np
import pytest

import gridsample

HERE = pathlib.Path(__file__).parent
# This processor, with programs that read by gather instructions, whatever it prefers; and with
# programs that ask for pixels before they read them, as they do if images are large.
GATHERS, ASKS = "gathers", "asks"


@pytest.mark.skipif(os.name != "posix", reason="needs mprotect")
@pytest.mark.parametrize(
    ("script", "side", "processor", "every"),
    cases.slow_after(
        5,
        [
            *(("bodies", "before", "", 24), ("edges", "before", "", 64)),
            ("edges", "after", GATHERS, 64),
            *(("bodies", "after", ASKS, 24), ("edges", "after", ASKS, 64)),
            *(("bodies", "before", "", 8), ("edges", "before", "", 12)),
            *(("bodies", "after", "x86-64-v3", 13), ("edges", "after", "x86-64-v3", 17)),
            *(("bodies", "after", "x86-64", 19), ("edges", "after", "x86-64", 25)),
            *(("bodies", "after", GATHERS, 19), ("edges", "before", GATHERS, 19)),
            *(("bodies", "before", ASKS, 19), ("edges", "before", ASKS, 19)),
        ],
    ),
)
def test_kernels_match_the_reference_and_touch_no_other_memory(
    script: str, side: str, processor: str, every: int
) -> None:
    """For this processor and others, optimized as for users; ordinary runs make a few calls."""
    others = processor not in ("", GATHERS, ASKS)
    if others and platform.machine() not in ("x86_64", "AMD64"):
        return
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "GRIDSAMPLE_CPU": processor if others else "",
        "GRIDSAMPLE_OPTIMIZATION": "",
    }
    done = subprocess.run(
        [sys.executable, str(HERE / f"guarded_{script}.py"), side, str(every), processor],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("runs\n")


@pytest.mark.parametrize("mode", ["label", "bilinear"])
def test_footprints_do_not_depend_on_threads(mode: str) -> None:
    rng = cases.generator("bodies", "threads")
    image = cases.pixels(rng, (1, 2, 300, 300), "int16")
    grid = cases.pixels(rng, (1, 200, 170, 2), np.float32) * 0.02
    grid += gridsample.affine_grid(np.eye(2, 3, dtype=np.float32)[None], (1, 1, 200, 170))
    alone, together = (
        gridsample.grid_sample(image, grid, mode, antialias=True, max_samples=4, threads=n)
        for n in (1, 3)
    )
    np.testing.assert_array_equal(alone, together)


def test_a_footprint_of_many_labels_elects_the_most_frequent() -> None:
    image = np.arange(64 * 64).reshape(1, 1, 64, 64)
    image[0, 0, 40:43, 20:23] = 7
    grid = gridsample.affine_grid(np.eye(2, 3)[None], (1, 1, 2, 2))
    labels = gridsample.grid_sample(image, grid, "label", antialias=True, max_samples=64)
    np.testing.assert_array_equal(labels[0, 0, 1], [7, image[0, 0, 32, 32]])
