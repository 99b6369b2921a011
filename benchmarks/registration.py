"""Registers known warps of photos and of a volume, with gridsample, SimpleITK and OpenCV.

    python -m benchmarks.registration                   55 hard pairs of photos
    python -m benchmarks.registration --set accuracy    photos of 512 x 512 and a volume
    python -m benchmarks.registration --case coffee     cases whose name contains a text
    python -m benchmarks.registration --peer none       without SimpleITK and OpenCV
    python -m benchmarks.registration --json FILE       also write the figures

The fixed image is a photo, sampled by cubic splines under a known map of the model.  Pixels outside
the photo are missing (NaN).  The moving image is the photo itself.  The error is the mean and the
largest distance between the positions found and the known ones, over the pixels that show the
photo; the time is that of one call, after a small first call that loads the kernels.

The set "robust" has 11 photos of 256 x 256 under five conditions: a small motion of a few pixels;
a motion of an eighth of the image with noise, with a changed contrast, or with an inverted one; and
any rotation with a quarter of the image.  A mean error above 1 pixel is a failure, and a failure
that the verdict does not report is *silent*.  The set "accuracy" has offsets of a fifth of the
image.

SimpleITK gets the averages of the channels, a mask for missing pixels, the same kind of model, the
mean squares metric (or correlation, or Mattes mutual information), a pyramid, and its gradient
descent with regular steps and scales from physical shifts; for fields, its symmetric demons after
its affine registration.  It starts from the geometric centre, as in its examples; with `--start
near` from the known mean shift plus a twentieth of the image, because it has no search of its own
for such offsets.  OpenCV's ECC starts from the identity.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import gridsample
from gridsample import fields
from gridsample.registration import RegistrationWarning

SIDE, VOLUME = 512, 64
PHOTOS = ("astronaut", "camera", "chelsea", "coffee")
MODELS = ("translation", "affine", "homography", "displacement")
# The largest mean errors in pixels.  The sky of "camera" has no features, so that displacements
# there are only extrapolated.
LIMIT, LIMITS = 0.1, {"displacement": 0.5}
EXCEPTIONS = {"camera displacement": 1.5}
SECONDS = 10.0

HARD_SIDE = 256
HARD_PHOTOS = (
    "astronaut", "brick", "camera", "chelsea", "coffee", "coins", "grass", "gravel",
    "immunohistochemistry", "moon", "rocket",
)  # fmt: skip
FAILURE = 1.0
"""The mean error in pixels above which a registration has failed."""
MAX_FAILURES = 1


@dataclass(frozen=True)
class Condition:
    """How the two images of a hard pair differ, and how they are registered.

    Attributes:
        models: the models, of which the photos take turns.
        loss: the name of the loss.
        degrees: the largest rotation.
        offset: the length of the offset, relative to the side.
        change: what is done to the moving image, whose values lie between 0 and 1.
    """

    models: tuple[str, ...]
    loss: str
    degrees: float
    offset: float
    change: Callable[[np.ndarray, np.random.Generator], np.ndarray]


def noisy(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add noise with a standard deviation of a tenth of the range."""
    return image + rng.normal(0, 0.1, image.shape).astype(np.float32)


CONDITIONS = {
    "small": Condition(
        ("translation", "rigid", "affine"), "mse", 2, 0.015, lambda image, rng: image
    ),
    "noise": Condition(("rigid",), "mse", 20, 0.125, noisy),
    "contrast": Condition(("affine",), "ncc", 20, 0.125, lambda image, rng: image**0.6 * 50 + 20),
    "inverted": Condition(("rigid",), "mi", 20, 0.125, lambda image, rng: 1 - image),
    "large": Condition(("similarity", "affine"), "mse", 180, 0.25, lambda image, rng: image),
}


@dataclass(frozen=True)
class Case:
    """One registration: images (1, C, *spatial), and the positions to find."""

    name: str
    model: str
    fixed: np.ndarray
    moving: np.ndarray
    positions: np.ndarray
    loss: str = "mse"

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
        positions = fields.to_pixel(field[None], self.inside.shape, coords="displacement")[0]
        return np.sqrt(((positions - self.positions) ** 2).sum(-1))[self.inside]


@dataclass(frozen=True)
class Answer:
    """What a library returns: displacements (*spatial, D), and whether it calls them a success."""

    field: np.ndarray
    success: bool = True


def photo(name: str, side: int = SIDE) -> np.ndarray:
    """A photo of scikit-image's, (1, C, side, side) float32."""
    import skimage.data

    image = getattr(skimage.data, name)().astype(np.float32)
    image = image[None] if image.ndim == 2 else np.moveaxis(image, -1, 0)
    return gridsample.interpolate(image[None], (side, side), mode="bilinear", antialias=True)


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
    direction = rng.normal(size=rank)
    shift = 0.2 * side * direction / np.linalg.norm(direction)
    points, linear = pixels - centre, np.eye(rank)
    if model in ("affine", "homography"):
        angle = math.radians(rng.uniform(-20, 20))
        linear[:2, :2] = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        linear = linear * rng.uniform(0.9, 1.1) + rng.uniform(-0.06, 0.06, (rank, rank))
    mapped = points @ linear.T + shift
    if model == "homography":
        mapped = mapped / (1 + points @ rng.uniform(-0.15, 0.15, (rank, 1)) / side)
    if model == "displacement":
        nodes = rng.uniform(-1, 1, (1, rank, *[4] * rank)).astype(np.float32)
        displacements = gridsample.interpolate(
            nodes, size, mode="bicubic" if rank == 2 else "cubic"
        )
        mapped = mapped + 0.015 * side * np.moveaxis(displacements[0], 0, -1)
    return mapped + centre


def accuracy_cases() -> list[Case]:
    """Every model, for photos and a volume."""
    cases = []
    images = {name: photo(name) for name in PHOTOS} | {"volume": volume()}
    for number, (name, moving) in enumerate(images.items()):
        for model in MODELS:
            if name == "volume" and model == "homography":
                continue
            positions = known_positions(model, moving.shape[2:], 10 * number)
            fixed = sampled(moving, positions)
            cases.append(Case(f"{name} {model}", model, fixed, moving, positions))
    return cases


def sampled(moving: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Sample an image at positions; NaN outside."""
    return gridsample.grid_sample(
        moving, positions[None], "spline3", coords="pixel", extrapolate=False, fill_value=np.nan
    )


def hard_positions(condition: Condition, rng: np.random.Generator) -> np.ndarray:
    """Positions (256, 256, 2) under a similarity whose offset has a given length."""
    side = HARD_SIDE
    pixels = fields.to_pixel(np.zeros((1, side, side, 2)), coords="displacement")[0]
    centre = (side - 1) / 2
    angle = math.radians(rng.uniform(-condition.degrees, condition.degrees))
    direction = rng.uniform(0, 2 * math.pi)
    model = condition.models[0]
    if model == "translation":
        angle = 0.0
    scale = rng.uniform(0.9, 1.1) if model in ("similarity", "affine") else 1.0
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    shift = condition.offset * side * np.array([math.cos(direction), math.sin(direction)])
    return (pixels - centre) @ (scale * rotation).T + shift + centre


def hard_cases() -> list[Case]:
    """Every photo under every condition."""
    cases = []
    for number, name in enumerate(HARD_PHOTOS):
        image = photo(name, HARD_SIDE)
        low, high = image.min(), image.max()
        image = (image - low) / (high - low)
        for index, (title, condition) in enumerate(CONDITIONS.items()):
            rng = np.random.default_rng([number, index])
            model = condition.models[number % len(condition.models)]
            positions = hard_positions(replace(condition, models=(model,)), rng)
            fixed = sampled(image, positions)
            if title == "noise":
                fixed = noisy(fixed, rng)
            moving = condition.change(image, rng)
            cases.append(Case(f"{name} {title}", model, fixed, moving, positions, condition.loss))
    return cases


CASES = {"robust": hard_cases, "accuracy": accuracy_cases}


def gridsamples(case: Case) -> Answer:
    """The displacements that gridsample finds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RegistrationWarning)
        result = gridsample.register(case.fixed, case.moving, case.model, case.loss)
    return Answer(result.field[0], result.success)


# Peers --------------------------------------------------------------------------------------------


def grey(image: np.ndarray) -> np.ndarray:
    """The mean of the channels, with 0 for missing pixels."""
    return np.nan_to_num(image[0].mean(0)).astype(np.float32)


def eccs(case: Case) -> Answer:
    """The displacements that OpenCV's ECC finds.

    Its mask belongs to the image that is warped, so it maps moving to fixed pixels.
    """
    import cv2

    motions = {
        "translation": cv2.MOTION_TRANSLATION,
        "rigid": cv2.MOTION_EUCLIDEAN,
        "similarity": cv2.MOTION_AFFINE,
        "affine": cv2.MOTION_AFFINE,
        "homography": cv2.MOTION_HOMOGRAPHY,
    }
    if case.model not in motions or case.inside.ndim != 2:
        raise ValueError(f"ECC does not register {case.name}")
    start = np.eye(3 if case.model == "homography" else 2, 3, dtype=np.float32)
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 200, 1e-6)
    _, matrix = cv2.findTransformECC(
        grey(case.moving),
        grey(case.fixed),
        start,
        motions[case.model],
        criteria,
        case.inside.astype(np.uint8),
        5,
    )
    inverse = np.linalg.inv(np.vstack([matrix, [[0, 0, 1]]])[:3].astype(np.float64))
    size = case.inside.shape
    grid = fields.homography_grid(inverse, size, size, convention="pixel")
    return Answer(fields.to_displacement(grid, size)[0])


def simpleitks(case: Case, near: bool) -> Answer:
    """The displacements that SimpleITK finds."""
    import SimpleITK as sitk

    images = [sitk.GetImageFromArray(grey(image)) for image in (case.fixed, case.moving)]
    if case.model == "homography":
        raise ValueError("SimpleITK has no homographies")
    transform = start_of_simpleitk(case, near)
    rank = case.positions.shape[-1]
    method = sitk.ImageRegistrationMethod()
    if case.loss == "mi":
        method.SetMetricAsMattesMutualInformation(32)
    elif case.loss == "ncc":
        method.SetMetricAsCorrelation()
    else:
        method.SetMetricAsMeanSquares()
    method.SetMetricFixedMask(sitk.GetImageFromArray(case.inside.astype(np.uint8)))
    method.SetInterpolator(sitk.sitkLinear)
    method.SetOptimizerAsRegularStepGradientDescent(4.0, 1e-4, 200)
    method.SetOptimizerScalesFromPhysicalShift()
    levels = [16, 8, 4, 2, 1] if case.inside.shape[0] == SIDE else [8, 4, 2, 1]
    levels = levels if rank == 2 else [4, 2, 1]
    method.SetShrinkFactorsPerLevel(levels)
    method.SetSmoothingSigmasPerLevel([factor / 2 if factor > 1 else 0 for factor in levels])
    method.SetInitialTransform(transform, inPlace=True)
    method.Execute(*images)
    reference = images[0]
    field = sitk.TransformToDisplacementField(
        transform,
        sitk.sitkVectorFloat64,
        reference.GetSize(),
        reference.GetOrigin(),
        reference.GetSpacing(),
        reference.GetDirection(),
    )
    if case.model == "displacement":
        demons = sitk.FastSymmetricForcesDemonsRegistrationFilter()
        demons.SetNumberOfIterations(200)
        demons.SetStandardDeviations(4.0)
        field = demons.Execute(*images, field)
    return Answer(sitk.GetArrayFromImage(field))


def start_of_simpleitk(case: Case, near: bool) -> Any:
    """The transform of the case's model from which SimpleITK starts."""
    import SimpleITK as sitk

    rank = case.positions.shape[-1]
    size = np.array(case.inside.shape[::-1])
    offset = np.zeros(rank)
    if near:
        zeros = np.zeros((1, *case.inside.shape, rank))
        shift = case.positions - fields.to_pixel(zeros, coords="displacement")[0]
        offset = shift.reshape(-1, rank).mean(0) + 0.05 * size
    if case.model == "translation":
        return sitk.TranslationTransform(rank, offset.tolist())
    transforms = {"rigid": sitk.Euler2DTransform, "similarity": sitk.Similarity2DTransform}
    transform = transforms.get(case.model, lambda: sitk.AffineTransform(rank))()
    transform.SetCenter(((size - 1) / 2).tolist())
    transform.SetTranslation(offset.tolist())
    return transform


# The table ----------------------------------------------------------------------------------------

Find = Callable[[Case], Answer]


def measured(case: Case, find: Find) -> dict[str, Any]:
    """The errors, seconds and verdict of one registration."""
    start = time.perf_counter()
    answer = find(case)
    seconds = time.perf_counter() - start
    errors = case.errors(np.asarray(answer.field, np.float64))
    return {
        "mean": float(errors.mean()),
        "largest": float(errors.max()),
        "seconds": seconds,
        "success": answer.success,
    }


def libraries(peers: str, near: bool) -> dict[str, Find]:
    """The libraries that are installed, ours first."""
    finds: dict[str, Find] = {"gridsample": gridsamples}
    if peers == "none":
        return finds
    for name, module, find in (
        ("SimpleITK", "SimpleITK", lambda case: simpleitks(case, near)),
        ("ECC", "cv2", eccs),
    ):
        if importlib.util.find_spec(module) is None:
            print(f"{name} is not installed; it is left out")
        else:
            finds[name] = find
    return finds


def compared(cases: list[Case], finds: dict[str, Find]) -> list[dict[str, Any]]:
    """Run the cases with all libraries, and print a line for each."""
    rows = []
    print(f"{'case':<29}{'library':<12}{'mean px':>9}{'largest':>9}{'seconds':>9}")
    for case in cases:
        for name, find in finds.items():
            row = {"case": case.name, "model": case.model, "library": name}
            try:
                row |= measured(case, find)
            except Exception as error:  # each library has errors of its own
                row |= {"error": str(error).strip().splitlines()[-1][:60]}
                print(f"{case.name:<29}{name:<12}  {row['error']}")
            else:
                verdict = "" if row["success"] else "  reported as a failure"
                print(
                    f"{case.name:<29}{name:<12}{row['mean']:9.3f}{row['largest']:9.3f}"
                    f"{row['seconds']:9.2f}{verdict}",
                    flush=True,
                )
            rows.append(row)
    return rows


def summarize(rows: list[dict[str, Any]]) -> bool:
    """Print failures and medians; return whether ours are few and all reported."""
    print(
        f"\n{'condition':<12}{'library':<12}{'failures':>9}{'silent':>8}{'false alarms':>14}"
        f"{'median px':>11}{'median s':>10}"
    )
    passed = True
    for title in (*CONDITIONS, ""):
        for name in dict.fromkeys(row["library"] for row in rows):
            mine = [r for r in rows if r["library"] == name and r["case"].endswith(title)]
            completed = [row for row in mine if "error" not in row]
            failed = [row for row in completed if row["mean"] > FAILURE]
            silent = sum(row["success"] for row in failed)
            alarms = sum(not row["success"] for row in completed if row["mean"] <= FAILURE)
            failures = len(failed) + len(mine) - len(completed)
            good = [row for row in completed if row["mean"] <= FAILURE]
            if name == "gridsample" and not title:
                passed = failures <= MAX_FAILURES and silent == 0
            if mine:
                medians = [
                    np.median([r[k] for r in good or completed]) for k in ("mean", "seconds")
                ]
                print(
                    f"{title or 'all':<12}{name:<12}{failures:>9}{silent:>8}{alarms:>14}"
                    f"{medians[0]:>11.4f}{medians[1]:>10.3f}"
                )
    return passed


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command = argparse.ArgumentParser(
        prog="python -m benchmarks.registration",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--set", choices=tuple(CASES), default="robust")
    command.add_argument("--case", default="", metavar="PATTERN")
    command.add_argument("--peer", choices=("all", "none"), default="all")
    command.add_argument("--start", choices=("centre", "near"), default="centre")
    command.add_argument("--json", type=Path, metavar="FILE")
    return command


def main() -> int:
    """Run the cases; 1 if there are too many failures of ours, or one is silent."""
    arguments = parser().parse_args()
    finds = libraries(arguments.peer, arguments.start == "near")
    for shape in ((32, 32), (16, 16, 16)):  # load kernels
        image = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        gridsample.register(image, image, "displacement", iterations=1)
    chosen = [
        case for case in CASES[arguments.set]() if fnmatch.fnmatch(case.name, f"*{arguments.case}*")
    ]
    rows = compared(chosen, finds)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if arguments.set == "robust":
        passed = summarize(rows)
    else:
        limits = {case.name: case.limit for case in chosen}
        passed = all(
            row["mean"] < limits[row["case"]] and row["seconds"] < SECONDS
            for row in rows
            if row["library"] == "gridsample"
        )
    print("gridsample is within its limits" if passed else "gridsample is NOT within its limits")
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
