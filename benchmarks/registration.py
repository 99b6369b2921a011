"""Registers known warps of photos and of a volume, with gridsample and with SimpleITK.

    python -m benchmarks.registration                   every case
    python -m benchmarks.registration --case coffee     cases whose name contains a text
    python -m benchmarks.registration --peer none       without SimpleITK
    python -m benchmarks.registration --json FILE       also write the figures

The fixed image is a photo (512 x 512), sampled by cubic splines under a known map of the model,
with an offset of a fifth of the image.  Pixels outside the photo are missing (NaN).  The
moving image is the photo itself.  The error is the mean and the largest distance between the
positions found and the known ones, over the pixels that show the photo; the time is that of one
call, after a small first call that loads the kernels.

SimpleITK gets the averages of the channels, a mask for missing pixels, the same kind of model, the
mean squares metric, a pyramid, and its gradient descent with regular steps and scales from physical
shifts; for fields, its symmetric demons after its affine registration.  It starts from the
geometric centre, as in its examples; with `--start near` from the known mean shift plus a twentieth
of the image, because it has no search of its own for such offsets.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gridsample
from gridsample import fields

SIDE, VOLUME = 512, 64
PHOTOS = ("astronaut", "camera", "chelsea", "coffee")
MODELS = ("translation", "affine", "homography", "displacement")
# The largest mean errors in pixels.  The sky of "camera" has no features, so that displacements
# there are only extrapolated.
LIMIT, LIMITS = 0.1, {"displacement": 0.5}
EXCEPTIONS = {"camera displacement": 1.5}
SECONDS = 10.0


@dataclass(frozen=True)
class Case:
    """One registration: images (*spatial) or (1, C, *spatial), and the positions to find."""

    name: str
    model: str
    fixed: np.ndarray
    moving: np.ndarray
    positions: np.ndarray

    @property
    def limit(self) -> float:
        """The largest mean error that is accepted, in pixels."""
        return EXCEPTIONS.get(self.name, LIMITS.get(self.model, LIMIT))

    @property
    def inside(self) -> np.ndarray:
        """Which fixed pixels show the moving image."""
        last = np.array(self.positions.shape[-2::-1]) - 1
        return ((self.positions >= 0) & (self.positions <= last)).all(-1)

    def errors(self, field: np.ndarray) -> np.ndarray:
        """The distances from the known positions, where the images overlap."""
        found = fields.to_pixel(field[None], self.inside.shape, coords="displacement")[0]
        return np.sqrt(((found - self.positions) ** 2).sum(-1))[self.inside]


def photo(name: str) -> np.ndarray:
    """A photo of scikit-image's, (1, C, 512, 512) float32."""
    import skimage.data

    image = getattr(skimage.data, name)().astype(np.float32)
    image = image[None] if image.ndim == 2 else np.moveaxis(image, -1, 0)
    return gridsample.interpolate(image[None], (SIDE, SIDE), mode="bilinear", antialias=True)


def volume() -> np.ndarray:
    """A synthetic volume with soft organs and texture, (1, 1, 64, 64, 64) float32."""
    rng = np.random.default_rng(3)
    x, y, z = np.meshgrid(*[np.linspace(-1, 1, VOLUME)] * 3, indexing="xy")
    total = 40.0 / (1 + np.exp(((x / 0.9) ** 2 + (y / 0.8) ** 2 + (z / 0.85) ** 2 - 1) * 12))
    for _ in range(30):
        centre, radius = rng.uniform(-0.7, 0.7, 3), rng.uniform(0.05, 0.25)
        away = (x - centre[0]) ** 2 + (y - centre[1]) ** 2 + (z - centre[2]) ** 2
        total += rng.uniform(-30, 60) / (1 + np.exp((np.sqrt(away) - radius) * 25))
    return total.astype(np.float32)[None, None]


def known_positions(model: str, size: tuple[int, ...], seed: int) -> np.ndarray:
    """Positions (*spatial, D): the offset is a fifth of the longest side."""
    rng, rank, side = np.random.default_rng(seed), len(size), max(size)
    pixels = fields.to_pixel(np.zeros((1, *size, rank)), coords="displacement")[0]
    centre = (np.array(size[::-1]) - 1) / 2
    way = rng.normal(size=rank)
    shift = 0.2 * side * way / np.linalg.norm(way)
    points, part = pixels - centre, np.eye(rank)
    if model in ("affine", "homography"):
        angle = math.radians(rng.uniform(-20, 20))
        part[:2, :2] = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        part = part * rng.uniform(0.9, 1.1) + rng.uniform(-0.06, 0.06, (rank, rank))
    moved = points @ part.T + shift
    if model == "homography":
        moved = moved / (1 + points @ rng.uniform(-0.15, 0.15, (rank, 1)) / side)
    if model == "displacement":
        nodes = rng.uniform(-1, 1, (1, rank, *[4] * rank)).astype(np.float32)
        bend = gridsample.interpolate(nodes, size, mode="bicubic" if rank == 2 else "cubic")
        moved = moved + 0.015 * side * np.moveaxis(bend[0], 0, -1)
    return moved + centre


def cases() -> list[Case]:
    """Every case, in order."""
    found = []
    images = {name: photo(name) for name in PHOTOS} | {"volume": volume()}
    for number, (name, moving) in enumerate(images.items()):
        for model in MODELS:
            if name == "volume" and model == "homography":
                continue
            positions = known_positions(model, moving.shape[2:], 10 * number)
            fixed = gridsample.grid_sample(
                moving, positions[None], "spline3", coords="pixel", extrapolate=False,
                fill_value=np.nan,
            )  # fmt: skip
            found.append(Case(f"{name} {model}", model, fixed, moving, positions))
    return found


def ours(case: Case) -> np.ndarray:
    """The displacements (*spatial, D) that gridsample finds."""
    return gridsample.register(case.fixed, case.moving, case.model).field[0]


# SimpleITK ----------------------------------------------------------------------------------------


def simpleitks(case: Case, near: bool) -> np.ndarray:
    """The displacements (*spatial, D) that SimpleITK finds."""
    import SimpleITK as sitk

    images = [
        sitk.GetImageFromArray(np.nan_to_num(one[0].mean(0)).astype(np.float32))
        for one in (case.fixed, case.moving)
    ]
    rank = case.positions.shape[-1]
    if case.model == "homography":
        raise ValueError("SimpleITK has no homographies")
    size = np.array(case.inside.shape[::-1])
    shift = (
        case.positions
        - fields.to_pixel(np.zeros((1, *case.inside.shape, rank)), coords="displacement")[0]
    ).reshape(-1, rank)
    begin = shift.mean(0) + 0.05 * size if near else np.zeros(rank)
    first: Any = sitk.TranslationTransform(rank, begin.tolist())
    if case.model != "translation":
        first = sitk.AffineTransform(rank)
        first.SetCenter(((size - 1) / 2).tolist())
        first.SetTranslation(begin.tolist())
    method = sitk.ImageRegistrationMethod()
    method.SetMetricAsMeanSquares()
    method.SetMetricFixedMask(sitk.GetImageFromArray(case.inside.astype(np.uint8)))
    method.SetInterpolator(sitk.sitkLinear)
    method.SetOptimizerAsRegularStepGradientDescent(4.0, 1e-4, 200)
    method.SetOptimizerScalesFromPhysicalShift()
    levels = [16, 8, 4, 2, 1] if rank == 2 else [4, 2, 1]
    method.SetShrinkFactorsPerLevel(levels)
    method.SetSmoothingSigmasPerLevel([one / 2 if one > 1 else 0 for one in levels])
    method.SetInitialTransform(first, inPlace=True)
    method.Execute(*images)
    reference = images[0]
    filled = sitk.TransformToDisplacementField(
        first, sitk.sitkVectorFloat64, reference.GetSize(), reference.GetOrigin(),
        reference.GetSpacing(), reference.GetDirection(),
    )  # fmt: skip
    if case.model != "displacement":
        return sitk.GetArrayFromImage(filled)
    demons = sitk.FastSymmetricForcesDemonsRegistrationFilter()
    demons.SetNumberOfIterations(200)
    demons.SetStandardDeviations(4.0)
    found = demons.Execute(*images, filled)
    return sitk.GetArrayFromImage(found)


# The table ----------------------------------------------------------------------------------------


def measured(case: Case, find: Callable[[Case], np.ndarray]) -> dict[str, Any]:
    """Errors and seconds of one registration."""
    began = time.perf_counter()
    field = find(case)
    seconds = time.perf_counter() - began
    apart = case.errors(np.asarray(field, np.float64))
    return {"mean": float(apart.mean()), "largest": float(apart.max()), "seconds": seconds}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    it = argparse.ArgumentParser(
        prog="python -m benchmarks.registration",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    it.add_argument("--case", default="", metavar="PATTERN")
    it.add_argument("--peer", choices=("simpleitk", "none"), default="simpleitk")
    it.add_argument("--start", choices=("centre", "near"), default="centre")
    it.add_argument("--json", type=Path, metavar="FILE")
    return it


def main() -> int:
    """Run the cases; 1 if an error or a time of ours is above its limit."""
    given = parser().parse_args()
    peers: dict[str, Callable[[Case], np.ndarray]] = {"gridsample": ours}
    if given.peer == "simpleitk":
        try:
            import SimpleITK  # noqa: F401
        except ImportError:
            print("SimpleITK is not installed; it is left out")
        else:
            peers["SimpleITK"] = lambda case: simpleitks(case, given.start == "near")
    for shape in ((32, 32), (16, 16, 16)):  # load kernels
        image = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        gridsample.register(image, image, "displacement", iterations=1)
    rows, passed = [], True
    print(f"{'case':<24}{'library':<12}{'mean px':>9}{'largest':>9}{'seconds':>9}")
    for case in cases():
        if not fnmatch.fnmatch(case.name, f"*{given.case}*"):
            continue
        for name, find in peers.items():
            try:
                row = measured(case, find)
            except (RuntimeError, ValueError) as error:
                print(f"{case.name:<24}{name:<12}  {str(error).splitlines()[-1][:60]}")
                continue
            rows.append({"case": case.name, "library": name, **row})
            print(
                f"{case.name:<24}{name:<12}{row['mean']:9.3f}{row['largest']:9.3f}"
                f"{row['seconds']:9.2f}", flush=True,
            )  # fmt: skip
            if name == "gridsample":
                passed &= row["mean"] < case.limit and row["seconds"] < SECONDS
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("gridsample is within its limits" if passed else "gridsample is NOT within its limits")
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
