"""Field files: known bytes, round trips, other libraries, `gridsample info`."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import cv2
import imagecodecs
import nibabel
import numpy as np
import pytest

from gridsample import cli
from gridsample.io.fields import Field, describe_field, holds_field, read_field, write_field
from gridsample.io.image import FileError

Array = np.ndarray[Any, Any]


def created(*spatial: int, dtype: str = "float32", missing: bool = True) -> Array:
    rng = np.random.default_rng(0)
    array = rng.uniform(-20, 20, (1, *spatial, len(spatial))).astype(dtype)
    if missing:
        array[(0, *(1,) * len(spatial))] = np.nan
    return array


@pytest.mark.parametrize(
    ("name", "step"),
    [("f.flo", 0), ("f.pfm", 0), ("f.npy", 0), ("f.png", 0.5 / 64), ("f.nii.gz", 1e-5)],
)
def test_flows_round_trip(name: str, step: float, tmp_path: Path) -> None:
    array = created(5, 7)
    write_field(Field(array), tmp_path / name)
    result = read_field(tmp_path / name)
    assert result.array.dtype == np.float32
    np.testing.assert_allclose(result.array, array, rtol=0, atol=step)
    with pytest.raises(FileError, match="exists"):
        write_field(Field(array), tmp_path / name)
    write_field(result, tmp_path / name, overwrite=True)
    np.testing.assert_allclose(read_field(tmp_path / name).array, array, rtol=0, atol=step)


def test_flo_matches_opencv(tmp_path: Path) -> None:
    array = created(5, 7, missing=False)
    write_field(Field(array), tmp_path / "ours.flo")
    np.testing.assert_array_equal(cv2.readOpticalFlow(str(tmp_path / "ours.flo")), array[0])
    cv2.writeOpticalFlow(str(tmp_path / "theirs.flo"), array[0])
    np.testing.assert_array_equal(read_field(tmp_path / "theirs.flo").array, array)
    assert (tmp_path / "ours.flo").read_bytes() == (tmp_path / "theirs.flo").read_bytes()
    head = struct.pack("<fii", 202021.25, 2, 1)
    (tmp_path / "x.flo").write_bytes(head + struct.pack("<4f", 1, 2, 2e9, 0))
    np.testing.assert_array_equal(
        read_field(tmp_path / "x.flo").array, [[[[1, 2], [np.nan, np.nan]]]]
    )


def test_pfm_matches_opencv(tmp_path: Path) -> None:
    array = created(5, 7, missing=False)
    write_field(Field(array), tmp_path / "ours.pfm")
    theirs = cv2.imread(str(tmp_path / "ours.pfm"), cv2.IMREAD_UNCHANGED)  # blue, green, red
    assert theirs is not None
    np.testing.assert_array_equal(theirs[..., ::-1][..., :2], array[0])
    rows = [[1.0, 2, 0, 3, 4, 0], [5, 6, 9, 7, 8, 9]]  # the lower row comes first
    data = struct.pack(">12f", *rows[0], *rows[1])
    (tmp_path / "big.pfm").write_bytes(b"PF\n# a comment\n2 2\n1.0\n" + data)
    result = read_field(tmp_path / "big.pfm").array
    np.testing.assert_array_equal(result, [[[[5, 6], [7, 8]], [[1, 2], [3, 4]]]])


def test_kitti_files_are_read_and_written(tmp_path: Path) -> None:
    pixels = np.array([[[32768, 32768, 1], [32832, 32704, 1], [40000, 40000, 0]]], np.uint16)
    (tmp_path / "x.png").write_bytes(imagecodecs.png_encode(pixels))
    result = read_field(tmp_path / "x.png").array
    np.testing.assert_array_equal(result, [[[[0, 0], [1, -1], [np.nan, np.nan]]]])
    write_field(Field(result), tmp_path / "y.png")
    again = imagecodecs.png_decode((tmp_path / "y.png").read_bytes())
    np.testing.assert_array_equal(again, [[[32768, 32768, 1], [32832, 32704, 1], [0, 0, 0]]])
    with pytest.raises(FileError, match=r"from -512 to 511.98 pixels"):
        write_field(Field(result * 0 + 600), tmp_path / "z.png")
    (tmp_path / "photo.png").write_bytes(imagecodecs.png_encode(pixels.astype(np.uint8)))
    with pytest.raises(FileError, match="uint8 pixels of 3 channels"):
        read_field(tmp_path / "photo.png")


# Oblique, anisotropic and mirrored.
ROTATION = np.array([[0.8, -0.6, 0, 0], [0.6, 0.8, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
AFFINE = ROTATION @ np.diag([-1.5, 2.0, 3.0, 1]) + np.array([[0, 0, 0, 10.0]] * 3 + [[0] * 4])


@pytest.mark.parametrize(("intent", "world"), [(1006, (1, 1, 1)), (1007, (-1, -1, 1))])
def test_nifti_vectors_are_millimetres(intent: int, world: tuple[int, ...], tmp_path: Path) -> None:
    # The displacement of one voxel along x, y and z, in millimetres, as the standard stores it.
    stored = np.zeros((3, 4, 5, 1, 3))
    for k in range(3):
        stored[k, 1, 2, 0] = AFFINE[:3, k] * world
    image = nibabel.Nifti1Image(stored, AFFINE)
    image.header.set_intent(intent)
    image.to_filename(tmp_path / "x.nii")
    assert holds_field(tmp_path / "x.nii")
    field = read_field(tmp_path / "x.nii")
    assert field.array.shape == (1, 5, 4, 3, 3)
    np.testing.assert_allclose(field.array[0, 2, 1], np.eye(3), rtol=0, atol=1e-6)
    write_field(field, tmp_path / "y.nii.gz")
    again = nibabel.load(tmp_path / "y.nii.gz")
    np.testing.assert_allclose(again.get_fdata(), stored, rtol=0, atol=1e-6)
    np.testing.assert_allclose(again.affine, AFFINE, rtol=0, atol=1e-5)
    assert int(again.header["intent_code"]) == intent


@pytest.mark.parametrize("spatial", [(5, 4), (5, 4, 3)])
def test_nifti_fields_round_trip(spatial: tuple[int, ...], tmp_path: Path) -> None:
    array = created(*spatial)
    for world in ("RAS", "LPS"):
        path = tmp_path / f"{world}.nii.gz"
        write_field(Field(array, affine=AFFINE, world=world), path)
        result = read_field(path)
        assert result.array.dtype == np.float32
        assert result.world == world
        assert nibabel.load(path).shape == (
            *spatial[::-1],
            *(1,) * (4 - len(spatial)),
            len(spatial),
        )
        np.testing.assert_allclose(result.array, array, rtol=0, atol=1e-4)


def test_array_shapes_of_fields(tmp_path: Path) -> None:
    for shape in ((6, 1), (5, 6, 2), (1, 5, 6, 2), (3, 4, 5, 3)):
        np.save(tmp_path / "x.npy", np.ones(shape, ">f8"))
        result = read_field(tmp_path / "x.npy").array
        assert result.shape[0] == 1
        assert result.shape[-1] == result.ndim - 2
    for bad in (np.ones((5, 6, 3)), np.ones((5, 6, 2), int), np.ones((2, 5, 6, 2)), np.ones(2)):
        np.save(tmp_path / "x.npy", bad)
        with pytest.raises(FileError, match="a field is a floating-point array"):
            read_field(tmp_path / "x.npy")


def test_invalid_files_are_rejected(tmp_path: Path) -> None:
    for name, data, message in (
        ("a.flo", b"PIEH", "not a .flo file"),
        ("b.flo", struct.pack("<fii", 202021.25, 3, 3), r"3 x 3 vectors, 72 bytes, and holds 0"),
        ("a.pfm", b"Pf\n1 1\n-1\n" + bytes(4), "has one channel"),
        ("b.pfm", b"PF\n2 1\n-1\n" + bytes(4), "2 x 1 pixels, 24 bytes, and holds 4"),
        ("c.pfm", b"P6\n1 1\n-1\n", "not a .pfm file"),
        ("d.pfm", b"PF\n1 1", "ends within its header"),
        ("e.pfm", b"PF\n1 1\n0\n" + bytes(12), "has the scale 0; accepted: finite numbers"),
        ("e.flo", struct.pack("<fii", 202021.25, 0, 3), "is empty"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(FileError, match=message):
            read_field(tmp_path / name)
    nibabel.Nifti1Image(np.zeros((3, 4, 5)), np.eye(4)).to_filename(tmp_path / "a.nii")
    assert not holds_field(tmp_path / "a.nii")
    with pytest.raises(FileError, match=r"has shape \(3, 4, 5\)"):
        read_field(tmp_path / "a.nii")
    nibabel.Nifti1Image(np.zeros((3, 4, 5, 1, 3)), np.eye(4)).to_filename(tmp_path / "b.nii")
    with pytest.raises(FileError, match="has intent 0"):
        read_field(tmp_path / "b.nii")
    with pytest.raises(FileError, match="unknown kind of field file"):
        read_field(tmp_path / "a.tif")
    with pytest.raises(
        FileError, match="Middlebury does not hold 3-D fields; accepted: NumPy, NIfTI"
    ):
        write_field(Field(created(3, 4, 5)), tmp_path / "x.flo")


@pytest.mark.parametrize(
    ("name", "field", "message"),
    [
        ("x.flo", Field(np.zeros((5, 6, 2))), r"a field is a floating-point array \(1, \*spatial"),
        ("x.npy", Field(np.zeros((1, 0, 6, 2))), r"of shape \(1, 0, 6, 2\)"),
        ("x.npy", Field(np.zeros((1, 5, 6, 2), np.longdouble)), "got float128"),
        ("x.flo", Field(np.full((1, 5, 6, 2), 2e9)), r"up to 1e\+09 pixels, and the largest is 2e"),
        ("x.pfm", Field(np.full((1, 5, 6, 2), -1e300)), "pfm files hold displacements up to 3.4"),
        (
            "x.nii",
            Field(np.zeros((1, 5, 6, 2)), affine=np.eye(3)),
            "affine must be an invertible 4",
        ),
        ("x.nii", Field(np.zeros((1, 5, 6, 2)), affine=np.zeros((4, 4))), "affine must be"),
        ("x.npy", Field(np.zeros((1, 5, 6, 2)), affine=np.eye(4) * np.nan), "affine must be"),
        ("x.npy", Field(np.zeros((1, 5, 6, 2)), affine="RAS"), "affine must be.* got RAS"),  # type: ignore[arg-type]
        (
            "x.mha",
            Field(np.zeros((1, 5, 6, 2)), world="XYZ"),
            "world must be one of RAS, LPS, got 'X",
        ),
    ],
)
def test_invalid_fields_are_not_written(
    tmp_path: Path, name: str, field: Field, message: str
) -> None:
    with pytest.raises(FileError, match=message):
        write_field(field, tmp_path / name)
    with pytest.raises(TypeError, match=r"field must be a gridsample\.io\.fields\.Field"):
        write_field(field.array, tmp_path / name)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_lists_and_infinite_displacements_are_written(tmp_path: Path) -> None:
    array = created(3, 4, 5)
    array[0, 2, 2, 2, 0] = np.inf
    array[0, 1, 1, 1] = np.nan
    for name in ("x.nii", "x.mha"):
        write_field(Field(array.tolist()), tmp_path / name)  # type: ignore[arg-type]
        result = read_field(tmp_path / name).array
        expected = np.where(np.isfinite(array).all(-1, keepdims=True), array, np.nan)
        np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["x.flo", "x.pfm", "x.png", "x.npy", "x.nii", "x.mha", "x.h5"])
def test_half_precision_is_written(tmp_path: Path, name: str) -> None:
    array = np.array([[[[1.5, -2.25], [np.nan, np.nan], [0, 300]]]], np.float16)
    write_field(Field(array), tmp_path / name)
    np.testing.assert_allclose(read_field(tmp_path / name).array, array, rtol=1e-6)


def test_fields_in_other_units_are_rejected(tmp_path: Path) -> None:
    write_field(Field(created(3, 4, 5)), tmp_path / "x.nii")
    image = nibabel.load(tmp_path / "x.nii")
    image.header.set_xyzt_units("micron")
    image.to_filename(tmp_path / "y.nii")
    with pytest.raises(FileError, match="another unit than millimetres"):
        read_field(tmp_path / "y.nii")


def test_info_describes_a_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = np.zeros((1, 4, 6, 2), np.float32)
    array[0, :, 3:, 0] = -2.5  # folds between columns 2 and 3
    write_field(Field(array), tmp_path / "x.flo")
    assert cli.main(["info", str(tmp_path / "x.flo")]) == 0
    lines = capsys.readouterr().out.splitlines()
    for line in ("units     pixels", "x         -2.5 to 0", "folding   33.3% of the points"):
        assert line in lines
    write_field(Field(array), tmp_path / "x.npy")
    assert cli.main(["info", str(tmp_path / "x.npy")]) == 0
    assert "folding" not in capsys.readouterr().out
    assert cli.main(["info", "--field", str(tmp_path / "x.npy")]) == 0
    assert "folding   33.3% of the points" in capsys.readouterr().out
    facts = dict(describe_field(Field(created(3, 4, 5), "NIfTI", AFFINE, "LPS")))
    assert facts["units"] == "pixels; the file holds millimetres, LPS"
    assert facts["missing"] == "1 of 60 points"
    assert len(facts["affine"].splitlines()) == 4
