"""The kernels of resizing: where they read and write, and what is compiled for them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import cases
import numpy as np
import pytest
from resized import described

from gridsample.definitions.tables import axis_map
from gridsample.kernels.resize import program
from gridsample.kernels.resize.planning import best_order

HERE = Path(__file__).parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs mprotect")
@pytest.mark.parametrize(
    ("side", "dtype", "every"),
    cases.slow_after(
        1,
        [
            ("after", "float32", 23),
            *itertools.product(
                ("before", "after"), ("float32", "float64", "uint8", "float16"), (3,)
            ),
        ],
    ),
)
def test_memory_outside_arrays_is_not_accessed(side: str, dtype: str, every: int) -> None:
    """Pixels are loaded and stored by vectors that may be longer than they are."""
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(HERE / "guarded_resize.py"), side, dtype, str(every)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("runs\n")


def test_the_cheapest_axis_comes_first() -> None:
    def order(spatial: tuple[int, ...], size: tuple[int, ...], inner: int = 1) -> tuple[int, ...]:
        pairs = zip(spatial, size, strict=True)
        return best_order(tuple(axis_map(described(n, m, "linear")).band for n, m in pairs), inner)

    assert order((64, 64), (128, 128)) == (1, 0)  # enlarged: the dear axis while there is little
    assert order((64, 64), (16, 16)) == (0, 1)  # made smaller: the dear axis when little is left
    assert order((64, 64), (64, 32)) == (1,)
    assert order((9, 64, 64), (90, 64, 16)) == (2, 0)


def test_few_programs_serve_all_sizes() -> None:
    import gridsample

    image = np.ones((1, 1, 40, 50), np.float32)
    program.compiled.cache_clear()
    for size in ((90, 70), (41, 51), (200, 300)):
        for mode in ("cubic", "catmull-rom"):
            gridsample.interpolate(image, size, mode=mode)
    assert program.compiled.cache_info().currsize == 1
