"""`gridsample warp --like --transform`: NIfTI files through the world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import SimpleITK as sitk

from gridsample import cli, resample
from gridsample.io.fields import Field, write_field
from gridsample.world import Displacement

Array = np.ndarray[Any, Any]
ROTATION = np.array([[0.8, -0.6, 0, 0], [0.6, 0.8, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
SOURCE = ROTATION @ np.diag([-1.5, 2.0, 3.0, 1])
TARGET = np.array([[0.0, 0, 2.2, -5], [1.1, 0, 0, 2], [0, -1.3, 0, 20], [0, 0, 0, 1]])


def volume(path: Path, shape: tuple[int, ...], affine: Array, dtype: Any = np.float32) -> Array:
    """A NIfTI file with random numbers, which it returns."""
    array = np.random.default_rng(len(shape)).uniform(-50, 50, shape).astype(dtype)
    image = nibabel.Nifti1Image(array, affine)
    image.header.set_xyzt_units("mm")
    image.header["descrip"] = b"ours"
    image.to_filename(path)
    return array


def run(*words: Any) -> int:
    return cli.main(["warp", "--no-antialias", *map(str, words)])


@pytest.mark.slow
def test_volumes_are_resampled_to_the_voxels_of_another(tmp_path: Path) -> None:
    a, b, out = tmp_path / "a.nii.gz", tmp_path / "b.nii", tmp_path / "c.nii.gz"
    image = volume(a, (9, 8, 7), SOURCE)
    volume(b, (6, 10, 5), TARGET)
    for mode in ("bilinear", "spline3"):
        assert run(a, out, "--like", b, "--mode", mode, "--force") == 0
        result, other = nibabel.load(out), nibabel.load(b)
        expected = resample(image, SOURCE, ((6, 10, 5), other.affine), mode=mode)
        np.testing.assert_allclose(result.get_fdata(), expected, rtol=0, atol=1e-3)
        np.testing.assert_array_equal(result.affine, other.affine)
        np.testing.assert_allclose(result.header.get_zooms(), other.header.get_zooms())
        assert result.header.get_data_dtype() == np.float32
        assert bytes(result.header["descrip"]).startswith(b"ours")
        for name in ("qform_code", "sform_code"):
            assert result.header[name] == other.header[name]


@pytest.mark.parametrize(("unit", "millimetre"), [("micron", 1000.0), ("meter", 0.001)])
def test_files_may_have_different_units(tmp_path: Path, unit: str, millimetre: float) -> None:
    a, b, out = tmp_path / "a.nii", tmp_path / "b.nii", tmp_path / "c.nii"
    image = volume(a, (9, 8, 7), SOURCE)
    other = nibabel.Nifti1Image(image, np.diag([millimetre] * 3 + [1.0]) @ SOURCE)
    other.header.set_xyzt_units(unit)
    other.to_filename(b)
    for source, like in ((a, b), (b, a)):
        assert run(source, out, "--like", like, "--force") == 0
        result = nibabel.load(out)
        np.testing.assert_allclose(result.get_fdata(), image, rtol=0, atol=1e-3)
        assert result.header.get_xyzt_units() == nibabel.load(like).header.get_xyzt_units()
        np.testing.assert_array_equal(result.affine, nibabel.load(like).affine)
    assert cli.main(["resize", str(b), str(out), "--spacing", "2.5", "--force"]) == 0
    assert nibabel.load(out).shape == (5, 6, 8)  # of voxels of 1.5 x 2 x 3 mm
    np.testing.assert_allclose(nibabel.load(out).header.get_zooms()[2], 21 / 8 * millimetre)


def test_channels_and_labels(tmp_path: Path) -> None:
    a, b, out = tmp_path / "a.nii", tmp_path / "b.nii", tmp_path / "c.nii"
    image = volume(a, (9, 8, 7, 2), SOURCE, np.int16)
    target = TARGET + np.diag([0.137, 0.021, 0.043], 1)  # where no weights are equal
    target[:3, 3] += 0.0137, 0.0233, 0.0311
    volume(b, (6, 10, 5, 3), target)
    assert run(a, out, "--like", b, "--mode", "label", "--padding", "border") == 0
    result = nibabel.load(out)
    assert result.shape == (6, 10, 5, 2)
    for k in range(2):
        expected = resample(
            image[..., k], SOURCE, ((6, 10, 5), target), mode="label", padding_mode="border"
        )
        np.testing.assert_array_equal(np.asarray(result.dataobj)[..., k], expected)


def test_voxels_that_coincide_are_copied(tmp_path: Path) -> None:
    a, b, out = tmp_path / "a.nii", tmp_path / "b.nii", tmp_path / "c.nii"
    image = volume(a, (9, 8, 7), SOURCE)
    image[3, 4, 5] = np.nan
    nibabel.Nifti1Image(image, SOURCE).to_filename(a)
    flipped = SOURCE @ np.array([[0, -1.0, 0, 8], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    volume(b, (8, 9, 7), flipped)  # voxel (i, j, k) is (8 - j, i, k) of the other
    assert run(a, out, "--like", b) == 0
    np.testing.assert_array_equal(
        np.asarray(nibabel.load(out).dataobj), image[::-1].transpose(1, 0, 2)
    )


@pytest.mark.parametrize("kind", ["npy", "tfm", "h5", "nii.gz", "mha", "nrrd"])
def test_transforms(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, out, path = tmp_path / "a.nii", tmp_path / "c.nii", tmp_path / f"t.{kind}"
    image = volume(a, (9, 8, 7), SOURCE)
    matrix = ROTATION.T + np.array([[0, 0, 0, 1.5], [0, 0, 0, -2], [0, 0, 0, 0.5], [0, 0, 0, 0]])
    array = np.random.default_rng(1).uniform(-1, 1, (1, 8, 9, 7, 3))
    field = Displacement(array[0] @ TARGET[:3, :3].T, TARGET)
    transforms: list[Any] = [field]
    if kind == "npy":
        np.save(path, matrix)
        transforms = [matrix]
    elif kind == "tfm":
        flip = np.diag([-1.0, -1, 1])
        itk = sitk.AffineTransform(3)
        itk.SetMatrix((flip @ matrix[:3, :3] @ flip).ravel().tolist())
        itk.SetTranslation((flip @ matrix[:3, 3]).tolist())
        sitk.WriteTransform(itk, str(path))
        transforms = [matrix]
    else:
        write_field(Field(array, affine=TARGET), path)
    # Several bands of slices.
    monkeypatch.setattr("gridsample.warp._BAND_POINTS", 150)
    like = (7, 8, 9), SOURCE
    expected = resample(image.T, SOURCE, like, transforms, axes="xyz").T
    assert run(a, out, "--transform", path) == 0
    result = nibabel.load(out)
    np.testing.assert_allclose(result.get_fdata(), expected, rtol=0, atol=1e-3)
    np.testing.assert_allclose(result.affine, SOURCE, rtol=0, atol=1e-6)
    # The first is applied first.
    shift = np.eye(4)
    shift[:3, 3] = 1, 2, 3
    np.save(tmp_path / "shift.npy", shift)
    words = "--transform", tmp_path / "shift.npy", "--transform", path
    expected = resample(image.T, SOURCE, like, [shift, *transforms], axes="xyz").T
    assert run(a, out, *words, "--force") == 0
    np.testing.assert_allclose(nibabel.load(out).get_fdata(), expected, rtol=0, atol=1e-3)


def test_planes_are_resampled_too(tmp_path: Path) -> None:
    a, b, out = tmp_path / "a.nii", tmp_path / "b.nii", tmp_path / "c.nii"
    image = volume(a, (9, 8), ROTATION @ np.diag([1.5, 2, 1, 1]))
    volume(b, (6, 10), np.diag([-1.1, 0.9, 1, 1]))
    assert run(a, out, "--like", b, "--padding", "border") == 0
    result = nibabel.load(out)
    affines = [nibabel.load(path).affine[np.ix_([0, 1, 3], [0, 1, 3])] for path in (a, b)]
    expected = resample(image, affines[0], ((6, 10), affines[1]), padding_mode="border")
    np.testing.assert_allclose(result.get_fdata(), expected, rtol=0, atol=1e-3)
    np.testing.assert_array_equal(result.affine, nibabel.load(b).affine)


def test_invalid_files_and_options_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, flat, out = tmp_path / "a.nii", tmp_path / "flat.nii", tmp_path / "c.nii"
    volume(a, (4, 5, 6), SOURCE)
    volume(flat, (4, 5), np.eye(4))
    np.save(tmp_path / "x.npy", np.ones((4, 5)))
    np.save(tmp_path / "flat.npy", np.eye(3))
    for words, message in (
        (
            [tmp_path / "x.npy", out, "--like", a],
            "need NIfTI files, which store the voxels'",
        ),
        ([a, out, "--like", flat], "flat.nii is 2-D, but the input is 3-D"),
        ([a, out, "--like", tmp_path / "x.npy"], "x.npy"),
        ([a, out, "--like", tmp_path / "none.nii"], "none.nii"),
        ([a, out, "--like", a, "--rotate", "3"], "accept no --grid, no steps and no --size"),
        ([a, out, "--transform", tmp_path / "flat.npy"], "--transform is 2-D, but the input is 3"),
        ([a, out, "--transform", tmp_path / "flo.flo"], "unknown kind of transform file"),
    ):
        assert run(*words) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1
    assert not out.exists()
