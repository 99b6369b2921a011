"""`gridsample.register`: known transforms are found, with every model, loss and kind of array."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
import torch
from registered import (
    MAPS,
    SHIFT,
    SIDE,
    about_centre,
    blobs,
    error,
    images,
    moved,
    pixels,
    rotation,
)

import gridsample
from gridsample import cli, fields, io, register
from gridsample.registration import (
    RegistrationWarning,
    draw_report,
    load_transform,
)


@pytest.mark.parametrize("model", cases.slow_after(1, MAPS))
def test_known_matrices_are_found(model: str) -> None:
    fixed, moving = images(MAPS[model], SIDE, SIDE)
    result = register(fixed, moving, model)
    assert error(result, MAPS[model]) < 0.1
    np.testing.assert_allclose(result.matrix[0], MAPS[model], rtol=0, atol=0.1)
    assert result.matrix.dtype == np.float64
    assert (result.theta is None) == (model == "homography")
    # All forms of the result agree.
    grid = fields.homography_grid(result.matrix, (SIDE, SIDE), (SIDE, SIDE), convention="pixel")
    np.testing.assert_allclose(result.grid, grid, rtol=0, atol=1e-5)
    sampled = gridsample.grid_sample(moving[None, None], result.grid)[0, 0]
    np.testing.assert_array_equal(result.warped, sampled)
    if result.theta is not None:
        grid = gridsample.affine_grid(result.theta, (1, 1, SIDE, SIDE))
        np.testing.assert_allclose(result.grid, grid, rtol=0, atol=1e-5)
    flow = fields.flow_warp(moving[None, None], result.field)[0, 0]
    np.testing.assert_allclose(result.warped, flow, rtol=0, atol=1e-4)
    for stage in result.history:
        assert np.all(np.diff(stage.losses) < 0)
    assert result.loss == result.history[-1].losses[-1]


@pytest.mark.parametrize("loss", cases.slow_after(1, ["ncc", "l1", "lncc", "mi", "callable"]))
def test_every_loss_finds_an_affine_map(loss: str) -> None:
    fixed, moving = images(MAPS["affine"], SIDE, SIDE)
    custom: Any = loss
    if loss == "ncc":
        moving = 3 * moving - 7
    elif loss == "lncc":
        moving = moving * (1 + 0.3 * pixels(SIDE, SIDE)[..., 0] / SIDE) + 0.01
    elif loss == "mi":
        moving = np.exp(-moving)  # the contrast is inverted, and not linear
    elif loss == "callable":

        def custom(w: torch.Tensor, f: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return (weight * ((w - f).square() + 1e-4).sqrt()).sum() / weight.sum()

    result = register(fixed, moving, "affine", custom)
    assert error(result, MAPS["affine"]) < (0.5 if loss == "lncc" else 0.1)


def smooth_warp(side: int, amplitude: float, shift: Any) -> np.ndarray:
    """Positions: a translation and a smooth displacement."""
    points = pixels(side, side)
    angle = 2 * np.pi * points / side
    bend = np.stack([np.sin(angle[..., 1]), np.cos(angle[..., 0] + 0.5 * angle[..., 1])], -1)
    return points + amplitude * bend + shift


@pytest.mark.parametrize(
    ("model", "options"),
    cases.slow_after(
        1,
        [
            ("velocity", {"loss": "ncc"}),
            ("displacement", {}),
            ("displacement", {"regularization": "diffusion", "smoothing": 0.5}),
        ],
    ),
)
def test_known_fields_are_found(model: str, options: dict[str, Any]) -> None:
    at, true = blobs(SIDE, SIDE), smooth_warp(SIDE, 1.5, SHIFT)
    fixed, moving = at(true), at(pixels(SIDE, SIDE))
    result = register(fixed, moving, model, **options)
    assert result.matrix is None
    assert result.theta is None
    inside = ((true >= 0) & (true <= SIDE - 1)).all(-1)
    positions = pixels(SIDE, SIDE) + result.field[0]
    distances = np.sqrt(((positions - true) ** 2).sum(-1))[inside]
    assert distances.mean() < 0.5
    assert fields.regularity(result.field).folded == 0
    if model == "velocity":  # T(x) = start @ (x + exp(v)(x))
        inner = pixels(SIDE, SIDE) + fields.exp(result.velocity)[0]
        again = moved(result.start[0], inner)
        np.testing.assert_allclose(again, positions, rtol=0, atol=0.02)
    else:
        assert result.velocity is None


@pytest.mark.slow
def test_volumes_with_spacing() -> None:
    # A rotation in millimetres, in voxels that are 1.5 times as long along z.
    size, spacing = (20, 26, 28), (1.5, 1.0, 1.0)
    angle = np.eye(3)
    angle[np.ix_([0, 2], [0, 2])] = rotation(12)
    scale = np.diag(spacing[::-1])
    part = np.linalg.inv(scale) @ angle @ scale
    matrix = about_centre(part, (4.0, -2.0, 1.0), size)
    fixed, moving = images(matrix, *size)
    result = register(fixed, moving, "rigid", spacing=spacing)
    assert error(result, matrix) < 0.1
    bent = register(fixed, moving, "displacement", initial=result.matrix, iterations=2, levels=1)
    assert error(bent, matrix) < 0.2


@pytest.mark.slow
def test_layouts_dtypes_and_libraries_agree() -> None:
    fixed, moving = (picture.astype(np.float32) for picture in images(MAPS["rigid"], SIDE, SIDE))
    expected = register(fixed, moving, "rigid")
    both = np.stack([fixed, moving])[:, None]  # N = 2: each is aligned with the moving image
    batch = register(both, moving[None, None], "rigid")
    np.testing.assert_allclose(batch.matrix[0], expected.matrix[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(batch.matrix[1], np.eye(3), rtol=0, atol=1e-3)
    assert batch.warped.shape == (2, 1, SIDE, SIDE)
    assert {stage.item for stage in batch.history} == {0, 1}
    last = register(fixed[None, ..., None], moving[None, ..., None], "rigid", channel_axis=-1)
    np.testing.assert_allclose(last.matrix, expected.matrix, rtol=0, atol=1e-6)
    assert last.warped.shape == (1, SIDE, SIDE, 1)
    shares: list[float] = []
    tensors = [torch.from_numpy(picture).requires_grad_() for picture in (fixed, moving)]
    registered = register(*tensors, "rigid")
    register(*tensors, "homography", progress=shares.append)
    assert isinstance(registered.matrix, torch.Tensor)
    assert isinstance(registered.warped, torch.Tensor)
    assert not registered.warped.requires_grad
    np.testing.assert_allclose(registered.matrix, expected.matrix, rtol=0, atol=1e-6)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    numbers = [
        np.rint((picture - moving.min()) * 60).astype(np.uint8) for picture in (fixed, moving)
    ]
    from_integers = register(*numbers, "rigid")
    assert from_integers.warped.dtype == np.uint8
    assert error(from_integers, MAPS["rigid"]) < 0.1


@pytest.mark.slow
def test_missing_and_masked_pixels_do_not_count() -> None:
    fixed, moving = images(MAPS["rigid"], SIDE, SIDE)
    damaged, spoilt = fixed.copy(), moving.copy()
    damaged[10:25, 5:50] = 50.0
    spoilt[40:50, 20:30] = -80.0
    masks = [np.ones((SIDE, SIDE), bool) for _ in range(2)]
    masks[0][10:25, 5:50] = masks[1][40:50, 20:30] = False
    result = register(damaged, spoilt, "rigid", fixed_mask=masks[0], moving_mask=masks[1])
    assert error(result, MAPS["rigid"]) < 0.1
    damaged[~masks[0]], spoilt[~masks[1]] = np.nan, np.inf
    again = register(damaged, spoilt, "rigid")
    np.testing.assert_allclose(result.matrix, again.matrix, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_sizes_may_differ_and_a_start_may_be_given() -> None:
    fixed, moving = images(MAPS["affine"], SIDE, SIDE)
    cut = moving[3:, 7:]
    matrix = np.array([[1, 0, -7], [0, 1, -3], [0, 0, 1.0]]) @ MAPS["affine"]
    result = register(fixed, cut, "affine")
    np.testing.assert_allclose(result.matrix[0], matrix, rtol=0, atol=0.1)
    assert result.warped.shape == (SIDE, SIDE)
    mirror = moving[:, ::-1]
    flip = np.array([[-1.0, 0, SIDE - 1], [0, 1, 0], [0, 0, 1]])
    registered = register(fixed, mirror, "rigid", initial=flip @ MAPS["rigid"])
    assert np.linalg.det(registered.matrix[0]) < 0  # no rotation is a reflection
    registered = register(fixed, fixed, "affine", initial="identity")
    np.testing.assert_allclose(registered.matrix[0], np.eye(3), rtol=0, atol=1e-3)


@pytest.mark.slow
def test_labels_are_warped() -> None:
    fixed, moving = images(MAPS["rigid"], SIDE, SIDE)
    result = register(fixed, moving, "rigid")
    labels = np.digitize(moving, [-0.5, 0, 0.5]).astype(np.int16)
    warped = result.warp(labels, "label")
    expected = gridsample.grid_sample(labels[None, None], result.grid, "label")[0, 0]
    np.testing.assert_array_equal(warped, expected)
    both = result.warp(np.stack([moving, fixed], -1)[None], channel_axis=-1)
    np.testing.assert_allclose(both[0, ..., 0], result.warped, rtol=0, atol=1e-12)


# Verdicts -----------------------------------------------------------------------------------------


def unrelated() -> list[np.ndarray]:
    return [blobs(SIDE, SIDE, seed=seed)(pixels(SIDE, SIDE)) for seed in (1, 2)]


@pytest.mark.parametrize(
    "model", cases.slow_after(1, ["translation", "rigid", "homography", "displacement"])
)
def test_a_failure_is_reported(model: str) -> None:
    with pytest.warns(RegistrationWarning, match="register failed: the images hardly agree"):
        result = register(*unrelated(), model)
    assert not result.success
    assert result.relation < 0.3 / result.overlap
    assert f"({model}): FAILURE: the images hardly agree" in str(result)


def test_a_success_is_reported() -> None:
    fixed, moving = images(MAPS["rigid"], SIDE, SIDE)
    result = register(fixed, moving, "rigid")
    assert result.success
    assert result.converged
    assert result.relation > 0.9
    points = moved(MAPS["rigid"], pixels(SIDE, SIDE))
    inside = ((points >= 0) & (points <= SIDE - 1)).all(-1)
    assert abs(result.overlap - inside.mean()) < 0.02
    assert "success: the images agree (relation " in str(result)
    assert len(str(result)) < 200
    assert str(result) in repr(result)


def test_the_relation_does_not_depend_on_the_loss() -> None:
    fixed, moving = images(MAPS["rigid"], SIDE, SIDE)
    start = {"initial": MAPS["rigid"]}
    relations = [register(fixed, moving, "rigid", loss, **start).relation for loss in ("mse", "mi")]
    relations += [register(fixed, 3 - 2 * moving, "rigid", "mi", **start).relation]
    np.testing.assert_allclose(relations, relations[0], rtol=0, atol=0.05)


def test_a_result_that_did_not_converge_is_a_failure() -> None:
    fixed, moving = images(MAPS["rigid"], SIDE, SIDE)
    initial = MAPS["rigid"] @ np.array([[1, 0, 1.5], [0, 1, 0], [0, 0, 1]])
    with pytest.warns(RegistrationWarning, match="the iterations were used up; the last step"):
        result = register(fixed, moving, "rigid", initial=initial, levels=1, iterations=1)
    assert not result.converged


def test_small_overlaps_and_one_pair_of_several() -> None:
    fixed, moving = images(MAPS["translation"], SIDE, SIDE)
    far = np.array([[1.0, 0, SIDE * 0.82], [0, 1, 0], [0, 0, 1]])
    options: dict[str, Any] = {"levels": 1, "iterations": 0}
    with pytest.warns(RegistrationWarning, match="pair 1: the images overlap by only 1[78]%"):
        result = register(
            np.stack([fixed, fixed])[:, None],
            np.stack([moving, moving])[:, None],
            "translation",
            initial=np.stack([MAPS["translation"], far]),
            **options,
        )
    assert [verdict.success for verdict in result.verdicts] == [True, False]


def test_losses_that_are_not_finite() -> None:
    fixed, moving = images(MAPS["rigid"], SIDE, SIDE)
    with pytest.raises(ValueError, match=r"loss is not finite at the initial transform, for \d+"):
        register(fixed, moving, "rigid", lambda w, f, m: (w - f).sum() * math.nan)

    def flat(w: Any, f: Any, m: Any) -> Any:
        return ((w - f) ** 2).mean() + 0 * (w - w.detach()).abs().sum().sqrt()

    with pytest.warns(RegistrationWarning, match="derivatives of the loss are not finite"):
        register(fixed, moving, "rigid", flat, initial=MAPS["rigid"])


# Files --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:register failed")
def test_transforms_in_files(tmp_path: Path) -> None:
    fixed, moving = images(MAPS["homography"], SIDE, SIDE)
    result = register(fixed, moving, "homography")
    for name in ("t.txt", "t.csv", "t.npy"):
        result.save(tmp_path / name)
        registered = load_transform(tmp_path / name)
        np.testing.assert_allclose(registered, result.matrix, rtol=1e-9, atol=1e-9)
    # The file holds what `homography_grid` takes by default.
    stored = np.loadtxt(tmp_path / "t.txt")
    grid = fields.homography_grid(stored, (SIDE, SIDE), (SIDE, SIDE))
    np.testing.assert_allclose(grid, result.grid, rtol=0, atol=1e-5)
    for name in ("t.flo", "t.nii.gz"):
        result.save(tmp_path / name, affine=np.diag([2.0, 2.0, 2.0, 1.0]))
        np.testing.assert_allclose(load_transform(tmp_path / name), result.field, atol=1e-4)
    with pytest.raises(ValueError, match="exists"):
        result.save(tmp_path / "t.txt")
    bent = register(fixed, moving, "displacement", levels=1, iterations=1)
    bent.save(tmp_path / "f.npy")
    np.testing.assert_array_equal(load_transform(tmp_path / "f.npy"), bent.field)
    with pytest.raises(ValueError, match="a text file holds a matrix"):
        bent.save(tmp_path / "f.txt")
    (tmp_path / "bad.txt").write_text("1 2 x")
    with pytest.raises(ValueError, match="does not hold a matrix"):
        load_transform(tmp_path / "bad.txt")


def test_a_failure_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(tmp_path / name) for name in ("fixed.npy", "moving.npy", "out.npy")]
    for path, image in zip(paths, unrelated(), strict=False):
        np.save(path, image)
    assert cli.main(["register", *paths, "--model", "translation"]) == 1
    assert "FAILURE: the images hardly agree" in capsys.readouterr().out
    assert np.load(paths[2]).shape == (SIDE, SIDE)


def write(path: Path, image: np.ndarray) -> None:
    scaled = np.rint(255 * (image - image.min()) / (image.max() - image.min())).astype(np.uint8)
    io.write(io.Image(np.stack([scaled, scaled, scaled], -1), "NumPy", True), path)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fixed, moving = images(MAPS["affine"], SIDE, SIDE)
    paths = {
        name: str(tmp_path / name)
        for name in ("fixed.png", "moving.png", "out.png", "report.png", "t.txt", "again.png")
    }
    low, high = moving.min(), moving.max()
    write(tmp_path / "moving.png", moving)
    shown = np.rint(255 * (np.clip(fixed, low, high) - low) / (high - low)).astype(np.uint8)
    io.write(io.Image(shown[..., None], "NumPy", False), tmp_path / "fixed.png")
    command = ["register", paths["fixed.png"], paths["moving.png"], paths["out.png"]]
    extra = ["--plot", paths["report.png"], "--save-transform", paths["t.txt"]]
    assert cli.main([*command, *extra]) == 0
    assert "Registration (affine): success" in capsys.readouterr().out
    np.testing.assert_allclose(load_transform(paths["t.txt"])[0], MAPS["affine"], rtol=0, atol=0.15)
    assert io.read(tmp_path / "report.png").array.shape[-1] in (3, 4)
    # `gridsample warp` takes the saved matrix, and makes the same picture.
    warp = ["warp", paths["moving.png"], paths["again.png"], "--homography", paths["t.txt"]]
    assert cli.main([*warp, "--size", f"{SIDE}x{SIDE}", "--no-antialias"]) == 0
    out, again = (io.read(tmp_path / name).array.astype(int) for name in ("out.png", "again.png"))
    assert out.shape == (SIDE, SIDE, 3)
    assert np.abs(out - again).max() <= 1
    start = ["--initial", paths["t.txt"], "--loss", "ncc", "--force"]
    assert cli.main([*command, *start]) == 0
    for words, message in (
        (command, "out.png exists"),
        (
            [*command, "--model", "bend", "--force"],
            "--model: 'bend' is not known; accepted: ",
        ),
        (
            [*command, "--force", "--model", "velocity", "--save-transform", "x.txt"],
            "a text file holds a matrix",
        ),
    ):
        assert cli.main(words) == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("scale", [(1.0, 0.0), (0.25, 100.0)])  # of the moving image alone
def test_volumes_on_the_command_line(tmp_path: Path, scale: tuple[float, float]) -> None:
    import nibabel

    size = (14, 18, 20)
    fixed, moving = images(about_centre(np.eye(3), (2.0, -1.0, 1.0), size), *size)
    affine = np.diag([1.0, 1.0, 2.0, 1.0])
    for name, image, (slope, inter) in (("f", fixed, (1.0, 0.0)), ("m", moving, scale)):
        stored = nibabel.Nifti1Image(((image.T - inter) / slope).astype(np.float32), affine)
        stored.header.set_slope_inter(slope, inter)
        stored.to_filename(tmp_path / f"{name}.nii")
    words = [str(tmp_path / name) for name in ("f.nii", "m.nii", "out.nii", "t.nii", "r.png")]
    command = ["register", *words[:3], "--model", "translation", "--loss", "mse"]
    command += ["--save-transform", words[3]]
    assert cli.main([*command, "--plot", words[4]]) == 0
    np.testing.assert_allclose(
        load_transform(words[3])[0, 7, 9, 10], (2.0, -1.0, 1.0), rtol=0, atol=0.1
    )
    result = nibabel.load(words[2])
    np.testing.assert_array_equal(result.affine, affine)
    outside = result.get_fdata().T[:, :, -2:]  # 2 voxels of the fixed image are missing
    np.testing.assert_array_equal(outside[2:-2, 2:-2], 0)
    inner = (slice(3, -3),) * 3
    np.testing.assert_allclose(result.get_fdata().T[inner], fixed[inner], rtol=0, atol=0.05)


@pytest.mark.slow
def test_reports_show_every_kind_of_image(tmp_path: Path) -> None:
    fixed, moving = images(MAPS["translation"], SIDE, SIDE)
    for axis in (1, -1):
        colours = [
            np.stack([image] * 3, axis if axis < 0 else 0)[None] for image in (fixed, moving)
        ]
        result = register(*colours, "translation", channel_axis=axis)
        draw_report(result, *colours, tmp_path / f"{axis}.png")
        assert (tmp_path / f"{axis}.png").stat().st_size > 10_000
    with pytest.raises(ValueError, match="spatial shape"):
        draw_report(result, colours[0][:, 1:], colours[1], tmp_path / "x.png")
