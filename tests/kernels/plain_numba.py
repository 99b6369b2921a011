"""What every driver computes, with Numba's internals or without them.

Run in a process of its own by the tests, which say by the environment how kernels are compiled:

    python -m kernels.plain_numba PARTS FOLDER
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import cases
import numpy as np

import gridsample as gs

Array = np.ndarray[Any, Any]


def arrays() -> tuple[Array, Array, Array]:
    """An image, the same with channels side by side, and a grid, partly outside."""
    rng = cases.generator("plain")
    image = cases.pixels(rng, (2, 9, 7, 5), "float32")
    grid = rng.uniform(-1.3, 1.3, (2, 63, 1, 2)).astype(np.float32)
    return image, np.ascontiguousarray(np.moveaxis(image, 1, -1)), grid


def linear() -> dict[str, Array]:
    """The most usual driver alone."""
    image, _, grid = arrays()
    return {"linear": gs.grid_sample(image[:, :2], grid)}


def forward() -> dict[str, Array]:
    """Planes, pixels that are copied, channels side by side, and tiles of channels."""
    image, last, grid = arrays()
    few = image[:, :2]
    maps = np.array([[[0.8, 0.3, 0.1], [-0.2, 0.7, 0.0]]] * 2, np.float32)
    return {
        "mixed": gs.grid_sample(few.astype(np.uint8), grid, ("linear", "nearest"), "border"),
        "nearest": gs.grid_sample(few, grid, "nearest", "reflection"),
        "runs": gs.grid_sample(last, grid, "linear", "reflection", channel_axis=-1),
        "tiles": gs.grid_sample(image, grid),
        "affine": gs.affine_sample(few, maps, (2, 2, 4, 9)),
        "half": gs.grid_sample(few.astype(np.float16), grid),
    }


def backward() -> dict[str, Array]:
    """Both gradients, of planes and of channels side by side."""
    image, last, grid = arrays()
    out = cases.pixels(cases.generator("upstream"), (2, 9, 63, 1), "float32")
    planes = gs.grid_sample_vjp(out[:, :2], image[:, :2], grid, "cubic", "border")
    linear = gs.grid_sample_vjp(out[:, :2], image[:, :2], grid)
    side = np.ascontiguousarray(np.moveaxis(out, 1, -1))
    runs = gs.grid_sample_vjp(side, last, grid, "linear", channel_axis=-1)
    found = {"planes": planes, "linear": linear, "runs": runs}
    return {f"{name} {k}": pair[k] for name, pair in found.items() for k in range(2)}


def second() -> dict[str, Array]:
    """The gradients of the gradients."""
    from gridsample.definitions.plan import make_plan
    from gridsample.kernels import cpu

    image, _, grid = arrays()
    image, moves = image[:, :2], grid[::-1].copy()
    out = cases.pixels(cases.generator("upstream"), (2, 2, 63, 1), "float32")
    sizes = image.shape, image.dtype, grid.shape, grid.dtype
    plan = make_plan(*sizes, "cubic", "border", False, False)
    results = cpu.backward_twice(plan, out, image, grid, image[::-1].copy(), moves)
    return {str(k): one for k, one in enumerate(results) if one is not None}


def resizing() -> dict[str, Array]:
    """Resizing along lines, across pixels and of copies, and a spline's prefilter."""
    image, last, _ = arrays()
    return {
        "linear": gs.interpolate(image, (5, 9), mode="bilinear", antialias=True),
        "last": gs.interpolate(last[..., :3].copy(), (9, 4), mode="bicubic", channel_axis=-1),
        "nearest": gs.interpolate(image, (3, 8), mode="nearest"),
        "bytes": gs.interpolate(image.astype(np.uint8), (5, 9), mode="bilinear"),
        "filter": gs.spline_filter(image, 3, axes=(-2, -1)),
    }


WORK = {one.__name__: one for one in (linear, forward, backward, second, resizing)}


def same(ours: dict[str, Array], theirs: dict[str, Array]) -> None:
    """Results are equal but for the order of sums, which compilers choose."""
    assert ours.keys() == theirs.keys()
    for name, one in ours.items():
        scale = max(1.0, float(np.abs(one.astype(float)).max()))
        unit = 1.0 if one.dtype.kind in "iu" else float(np.finfo(one.dtype).eps)
        tolerance = (1 if one.dtype.kind in "iu" else 64 * scale) * unit
        np.testing.assert_allclose(
            one.astype(float), theirs[name].astype(float), rtol=0, atol=tolerance, err_msg=name
        )


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s: %(message)s")
    for part in sys.argv[1].split(","):
        np.savez(f"{sys.argv[2]}/{part}.npz", **WORK[part]())
