"""Antialiased sampling with the GPU kernels, in Triton's interpreter, against the CPU kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import cases
import numpy as np
import oracles
import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

import gridsample
from gridsample.backends.rounding import as_integers
from gridsample.backends.torch import BACKEND, affine, cuda, operators
from gridsample.definitions.footprints import Footprint
from gridsample.definitions.options import Options

# The interpreter's NumPy warns where a GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")

SIZES = {1: (9,), 2: (7, 6), 3: (4, 5, 3)}
POINTS = {1: (7,), 2: (3, 4), 3: (2, 1, 3)}


class Case(NamedTuple):
    """A call whose grid shrinks the image: some footprints are longer than ``max_samples``."""

    rank: int
    mode: Any = "linear"
    boundary: Any = "border"
    coords: str = "normalized"
    corners: bool = False
    max_samples: int = 2
    attached: bool = True
    image: str = "float64"
    grid: str = "float64"
    items: tuple[int, int] = (2, 2)
    last: bool = False
    extrapolate: bool = True
    fill: tuple[float, ...] = ()
    seam: bool = False  # whether coordinates along x jump by a period within the grid

    @property
    def options(self) -> Options:
        return Options(
            mode=oracles.per_axis(self.mode, self.rank),
            padding_mode=oracles.per_axis(self.boundary, self.rank),
            align_corners=self.corners,
            coords=self.coords,
            ends=() if self.extrapolate else ("edges",) * self.rank,
            fill_value=self.fill,
            order=(0,) * self.rank,
            footprint=Footprint(self.max_samples, self.attached),
        )

    @property
    def tolerance(self) -> float:
        """That of the sums; half-precision results are stored with less."""
        kinds = [getattr(torch, name) for name in (self.image, self.grid)]
        wide = torch.float64 in kinds or torch.complex128 in kinds
        return 256 * float(torch.finfo(torch.float64 if wide else torch.float32).eps)


def laid_out(tensor: Tensor, last: bool) -> Tensor:
    return tensor.movedim(1, -1).contiguous().movedim(-1, 1) if last else tensor


def typed(array: np.ndarray, name: str) -> Tensor:
    return torch.from_numpy(array).to(getattr(torch, name))


def inputs(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """An image, a grid with NaN and infinite coordinates, and values."""
    rng = cases.generator("gpu footprints", case.rank, case.max_samples)
    spatial, out = SIZES[case.rank], POINTS[case.rank]
    (images, grids), channels = case.items, 2
    pixels = cases.pixels(rng, (images, channels, *spatial))
    axes = np.meshgrid(*[np.linspace(-0.9, 1.0, n) for n in out], indexing="ij")
    grid = np.stack(axes[::-1], -1) + 0.1 * rng.standard_normal((grids, *out, case.rank))
    if case.seam:
        period = 2 * spatial[-1] / (spatial[-1] - case.corners)
        grid[..., 0] = (grid[..., 0] + 1.7) % period - 1
    if case.coords != "normalized":
        grid = (grid + 1) * 0.5 * np.array(spatial[::-1])
    if case.coords == "displacement":
        grid -= np.stack(np.meshgrid(*map(np.arange, out), indexing="ij")[::-1], -1)
    rows = grid.reshape(grids, -1, case.rank)
    rows[0, 3, 0], rows[-1, 5, -1] = np.nan, np.inf
    if case.image.startswith("complex"):
        pixels = pixels + 1j * cases.pixels(rng, pixels.shape)
    values = rng.standard_normal((max(case.items), channels, *out)).astype(pixels.dtype)
    image = laid_out(typed(pixels, case.image), case.last)
    return image, typed(grid, case.grid), laid_out(typed(values, case.image), case.last)


def close(ours: Tensor, theirs: Tensor, case: Case) -> None:
    """Equal but for rounding, of the sums and of storage."""
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    slack = case.tolerance
    if ours.dtype in (torch.float16, torch.bfloat16):  # which the interpreter truncates
        slack += 2 * float(torch.finfo(ours.dtype).eps)
    wide = torch.complex128 if ours.is_complex() else torch.float64
    oracles.assert_close(ours.to(wide).numpy(), theirs.to(wide).numpy(), slack)


def check(case: Case) -> None:
    """Compare all operators that have GPU kernels with those of the CPU."""
    image, grid, values = inputs(case)
    options = case.options
    pairs: list[tuple[Any, Any]] = [
        (cuda.gather_on_gpu(image, grid, options), operators.gather_on_cpu(image, grid, options)),
        *zip(
            cuda.backward_on_gpu(values, image, grid, (True, True), options),
            operators.backward_on_cpu(values, image, grid, (True, True), options),
            strict=True,
        ),
    ]
    if case.rank == 1:  # a part of backward
        ours = cuda.scatter_on_gpu(values, grid, image.shape, options)
        pairs.append((ours, operators.scatter_on_cpu(values, grid, image.shape, options)))
    for ours, theirs in pairs:
        close(ours, theirs, case)


FEW = (
    Case(1, "cubic", "reflection", "pixel", items=(1, 2), attached=False),
    Case(1, "spline3", "constant", corners=True, extrapolate=False, fill=(1.5,)),
    Case(2, "linear", "zeros", items=(2, 1), image="float32", grid="float32"),
    Case(3, ("nearest", "linear", "linear"), ("wrap", "border", "zeros"), "displacement",
         max_samples=1, items=(1, 1), last=True),
)  # fmt: skip


@pytest.mark.parametrize("case", cases.slow_after(1, FEW), ids=str)
def test_values_and_gradients_match_the_cpu(case: Case) -> None:
    check(case)


MANY = (
    *[Case(*of) for of in ((1, "cubic"), (2, "nearest"), (2, "linear"), (3, "linear"))],
    *[Case(1, boundary=name) for name in ("reflection", "antimirror", "mirror")],
    *[Case(2, boundary=name) for name in ("zeros", "wrap")],
    *[Case(1, "cubic", "constant", fill=(0.5, -2.0), extrapolate=on) for on in (True, False)],
    *[Case(1, "spline2", "mirror", *chosen) for chosen in cases.covering(
        ("normalized", "pixel", "displacement"), (False, True), (1, 3), strength=1)],
    Case(2, "spline2", "mirror", "displacement", True, 3),
    *[Case(1, "linear", "wrap", "normalized", corners, seam=True) for corners in (True, False)],
    *[Case(2, "linear", ("wrap", "border"), coords, seam=True)
      for coords in ("pixel", "displacement")],
    *[Case(1, image=name, grid="float32", last=last)
      for name, last in (("float16", True), ("bfloat16", False), ("complex64", True))],
    *[Case(1, image="float32", grid=name, coords="pixel") for name in ("float16", "bfloat16")],
    *[Case(1, items=items, image="complex128") for items in ((1, 3), (3, 1))],
    Case(3, "linear", "reflection", "displacement", max_samples=1, attached=False),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", MANY, ids=str)
def test_every_option_matches_the_cpu(case: Case) -> None:
    check(case)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize(
    "name",
    [
        "uint8",
        pytest.param("int16", marks=pytest.mark.slow),
        pytest.param("bool", marks=pytest.mark.slow),
    ],
)
def test_integers_are_rounded_once(name: str, mode: str) -> None:
    rng = cases.generator("gpu footprints", name)
    image = torch.from_numpy(cases.pixels(rng, (1, 1, 17), name))
    _, grid, _ = inputs(Case(1))
    for max_samples in (1, 16):
        options = Case(1, mode, "constant", max_samples=max_samples, fill=(3.25,)).options
        ours = cuda.gather_on_gpu(image, grid, options)
        means = operators.gather_on_cpu(image.double(), grid, options)
        theirs = as_integers(BACKEND, means, image.dtype, options.fill_value)
        assert ours.dtype == image.dtype
        # Sums next to a half may be rounded to either side.
        assert (ours.int() - theirs.int()).abs().max() <= 1
        assert (ours == theirs).double().mean() > 0.7


def test_points_with_a_single_sample_have_the_bits_of_plain_sampling() -> None:
    image = torch.tensor([[[1.0, -0.0, 3.0, 0.1, 0.7, 0.3, 9.0, 2.0]]])
    grid = torch.tensor([0.1, 0.9, 1.2, 1.6, 4.0, 7.0]).reshape(1, -1, 1)
    for mode in ("nearest", "linear"):
        options = Case(1, mode, coords="pixel", image="float32", grid="float32").options
        mean = cuda.gather_on_gpu(image, grid, options)
        expected = cuda.gather_on_gpu(image, grid, options.changed(footprint=None))
        same = mean.view(torch.int32) == expected.view(torch.int32)
        assert same[0, 0, :3].all() and not same[0, 0, 4]


def test_plain_kernels_run_without_shrinking(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []
    original_gather = cuda.gpu.gather

    def gather(plan: Any, *arguments: Any, **named: Any) -> None:
        plans.append(plan)
        original_gather(plan, *arguments, **named)

    monkeypatch.setattr(cuda.gpu, "gather", gather)
    image = torch.linspace(0, 1, 9).reshape(1, 1, 9)
    for scale in (0.5, 1.5):
        grid = scale * torch.arange(5.0).reshape(1, -1, 1)
        cuda.gather_on_gpu(image, grid, Case(1, coords="pixel").options)
    assert [plan.footprint is None for plan in plans] == [True, False]


@pytest.mark.slow
def test_gradients_have_exact_sums() -> None:
    case = Case(1, "linear", "zeros", max_samples=2)
    image, grid, values = inputs(case)
    expected = cuda.backward_on_gpu(values, image, grid, (True, True), case.options)
    try:
        torch.use_deterministic_algorithms(True)
        result = cuda.backward_on_gpu(values, image, grid, (True, True), case.options)
    finally:
        torch.use_deterministic_algorithms(False)
    for actual, two in zip(result, expected, strict=True):
        close(actual, two, case)


# Affine maps --------------------------------------------------------------------------------------

MAPS = [
    (1, "normalized", False, (3,), 16, True),
    (2, "normalized", True, (3, 1), 2, True),
    pytest.param((2, "pixel", False, (1, 3), 1, True), marks=pytest.mark.slow),
    pytest.param((2, "normalized", False, (1, 3), 2, False), marks=pytest.mark.slow),
    pytest.param((3, "normalized", True, (2, 1, 2), 2, True), marks=pytest.mark.slow),
]


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("arguments", MAPS, ids=str)
def test_footprint_sides_of_affine_maps_are_matrix_columns(arguments: Any) -> None:
    rank, coords, corners, out, max_samples, attached = arguments
    rng = cases.generator("gpu footprints", "theta", rank)
    image = torch.from_numpy(cases.pixels(rng, (1, 2, *SIZES[rank])))
    theta = torch.from_numpy(rng.uniform(0.5, 1.0, (2, rank, rank + 1)))
    if coords == "pixel":
        theta *= 2.5
    values = torch.from_numpy(rng.standard_normal((2, 2, *out)))
    case = Case(rank, "linear", "zeros", coords, corners, max_samples, attached)
    image.requires_grad_(), theta.requires_grad_()
    call = affine.call_of_maps(BACKEND, image, theta, out, case.options)
    ours = affine.sample(call._replace(on_gpu=True), image, theta)
    theirs = gridsample.affine_sample(
        image,
        theta,
        values.shape,
        "linear",
        "zeros",
        corners,
        coords=coords,
        antialias=True,
        max_samples=max_samples,
        footprint="attach" if attached else "detach",
    )
    close(ours.detach(), theirs.detach(), case)
    gradients = [torch.autograd.grad(result, (image, theta), values) for result in (ours, theirs)]
    for actual, other in zip(*gradients, strict=True):
        close(actual, other, case)


# Second derivatives -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [
        Case(1, "linear", "border", items=(1, 1)),
        pytest.param(
            Case(2, "cubic", coords="displacement", max_samples=1), marks=pytest.mark.slow
        ),
    ],
    ids=str,
)
def test_second_derivatives_match_the_cpu(case: Case) -> None:
    image, grid, values = inputs(case)
    rng = cases.generator("gpu footprints", "double_backward")
    upstream = torch.from_numpy(cases.pixels(rng, tuple(image.shape)))
    grid_tangent = torch.from_numpy(rng.standard_normal(tuple(grid.shape)))
    arguments = values, image, grid, upstream, grid_tangent, (True,) * 3, case.options
    ours, theirs = (
        cuda.double_backward_on_gpu(*arguments),
        operators.double_backward_on_cpu(*arguments),
    )
    for actual, other in zip(ours, theirs, strict=True):
        close(actual, other, case)


@pytest.mark.slow
def test_samples_vote_for_labels() -> None:
    rng = cases.generator("gpu footprints", "labels")
    labels = torch.tensor(rng.integers(0, 3, (1, 1, 6, 7)))
    line = torch.linspace(-0.9, 0.9, 2, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)[None]
    options = Options(
        mode=("label",) * 2,
        padding_mode=("zeros",) * 2,
        fill_value=(),
        order=(0, 0),
        footprint=Footprint(2),
    )
    ours, theirs = (
        cuda.gather_on_gpu(labels, grid, options),
        operators.gather_on_cpu(labels, grid, options),
    )
    assert torch.equal(ours, theirs)
