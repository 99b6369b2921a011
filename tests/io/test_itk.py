"""ITK's files: fields and transforms, in millimetres of LPS and RAS."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import SimpleITK as sitk

from gridsample import cli
from gridsample.io.fields import Field, holds_field, read_field, write_field
from gridsample.io.image import FileError, MissingExtraError
from gridsample.io.transforms import read_transforms
from gridsample.world import Displacement

Array = np.ndarray[Any, Any]
# Oblique, anisotropic and mirrored; from voxels to RAS.
ROTATION = np.array([[0.8, -0.6, 0, 0], [0.6, 0.8, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
AFFINE = ROTATION @ np.diag([-1.5, 2.0, 3.0, 1]) + np.array([[0, 0, 0, 10.0]] * 3 + [[0] * 4])
SUFFIXES = ("mha", "nrrd", "h5", "tfm")


def created(*spatial: int, dtype: str = "float32") -> Array:
    rng = np.random.default_rng(0)
    return rng.uniform(-20, 20, (1, *spatial, len(spatial))).astype(dtype)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("spatial", [(5, 4), (5, 4, 3)])
def test_fields_round_trip(suffix: str, spatial: tuple[int, ...], tmp_path: Path) -> None:
    affine = AFFINE.copy()
    if len(spatial) == 2:
        affine[2:] = np.eye(4)[2:]
    for dtype in ("float32", "float64"):
        array, path = created(*spatial, dtype=dtype), tmp_path / f"{dtype}.{suffix}"
        write_field(Field(array, affine=affine), path)
        result = read_field(path)
        keeps_affine = suffix in ("mha", "nrrd")
        assert result.array.dtype == (dtype if keeps_affine else np.float64)
        assert result.world == "LPS" and holds_field(path)
        # In millimetres, of which a voxel has at most 3.
        np.testing.assert_allclose(result.array, array, rtol=0, atol=3e-5)
        np.testing.assert_allclose(result.affine, affine, rtol=0, atol=1e-6)
        write_field(result, path, overwrite=True)
        np.testing.assert_allclose(read_field(path).array, array, rtol=0, atol=3e-5)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_vectors_are_millimetres_of_lps(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{suffix}"
    array = np.zeros((1, 3, 4, 5, 3))
    array[0, 2, 1, 3] = 1, -2, 0.5
    write_field(Field(array, affine=AFFINE), path)
    if suffix in ("mha", "nrrd"):
        transform = sitk.DisplacementFieldTransform(
            sitk.Cast(sitk.ReadImage(str(path)), sitk.sitkVectorFloat64)
        )
    else:
        transform = sitk.ReadTransform(str(path))
    flip = np.diag([-1.0, -1, 1, 1])
    voxel = np.array([3, 1, 2, 1.0])
    point = flip @ AFFINE @ voxel
    mapped = transform.TransformPoint(point[:3].tolist())
    expected = flip @ AFFINE @ (voxel + np.array([1, -2, 0.5, 0]))
    np.testing.assert_allclose(mapped, expected[:3], rtol=0, atol=1e-5)


def apply(transforms: list[Any], point: Array) -> Array:
    """Apply transforms to a point of RAS; a field at the nearest voxel."""
    for transform in transforms:
        if isinstance(transform, Displacement):
            voxel = np.linalg.inv(transform.affine) @ [*point, 1]
            index = tuple(np.rint(voxel[:-1]).astype(int)[::-1])
            point = point + transform.vectors[index]
        else:
            point = (transform @ [*point, 1])[:-1]
    return point


@pytest.mark.covering
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("suffix", ["tfm", "h5", "mat", "txt"])
def test_transforms_match_itk(rank: int, suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / f"x.{suffix}"
    affine = sitk.AffineTransform(rank)
    affine.SetMatrix((np.eye(rank) + rng.uniform(-0.2, 0.2, (rank, rank))).ravel().tolist())
    affine.SetCenter([5.0, 6, 7][:rank])
    affine.SetTranslation([1.0, -2, 3][:rank])
    rigid: Any = sitk.Euler2DTransform() if rank == 2 else sitk.Euler3DTransform()
    rigid.SetCenter([2.0, 1, 9][:rank])
    rigid.SetParameters([0.1, 4, 3] if rank == 2 else [0.1, -0.2, 0.3, 4, 3, -2])
    field = sitk.GetImageFromArray(rng.uniform(-9, 9, (*(70, 80, 90)[:rank], rank)), isVector=True)
    field.SetOrigin([-30.0, -40, -35][:rank])
    several: list[Any] = [sitk.DisplacementFieldTransform(field), rigid]
    composite = sitk.CompositeTransform([affine, *several])
    for transform in (affine, rigid, several[0], composite):
        if suffix in ("mat", "txt") and transform.GetName() == "CompositeTransform":
            continue  # SimpleITK does not write these
        sitk.WriteTransform(transform, str(path))
        result = read_transforms(path)
        assert len(result) == (3 if transform is composite else 1)
        # Voxels of the field are cubes of 1 mm.
        start = np.array([3.0, -4, 5])[:rank]
        if transform is composite:  # arrive at a voxel's centre
            start = np.array(rigid.GetInverse().TransformPoint(start.tolist()))
        expected = transform.TransformPoint(start.tolist())
        flip = np.array([-1.0, -1, 1])[:rank]
        moved = apply(result, flip * start) * flip
        np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-6)


def test_matrices_and_fields(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", AFFINE[:3])
    (tmp_path / "b.txt").write_text("\n".join(" ".join(map(str, row)) for row in AFFINE))
    for name in ("a.npy", "b.txt"):
        (result,) = read_transforms(tmp_path / name)
        np.testing.assert_array_equal(result, AFFINE)
    array = created(3, 4, 5)
    for name, world in (("c.nii.gz", "RAS"), ("d.nii", "LPS"), ("e.mha", "LPS")):
        write_field(Field(array, affine=AFFINE, world=world), tmp_path / name)
        ((vectors, affine),) = read_transforms(tmp_path / name)
        np.testing.assert_allclose(vectors, array[0] @ AFFINE[:3, :3].T, rtol=0, atol=1e-4)
        np.testing.assert_allclose(affine, AFFINE, rtol=0, atol=1e-5)


def test_invalid_files_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sitk.WriteImage(sitk.GetImageFromArray(np.zeros((3, 4, 5))), str(tmp_path / "a.mha"))
    with pytest.raises(FileError, match=r"a.mha holds a 3-D image of 1 x float64; a field has"):
        read_field(tmp_path / "a.mha")
    sitk.WriteTransform(sitk.AffineTransform(3), str(tmp_path / "a.tfm"))
    with pytest.raises(FileError, match="holds a matrix, not one displacement field; gridsample w"):
        read_field(tmp_path / "a.tfm")
    spline = sitk.BSplineTransformInitializer(sitk.Image(8, 8, sitk.sitkFloat32), [4, 4])
    sitk.WriteTransform(spline, str(tmp_path / "b.tfm"))
    with pytest.raises(FileError, match="holds a BSplineTransform; accepted: linear transforms an"):
        read_transforms(tmp_path / "b.tfm")
    (tmp_path / "c.tfm").write_text("hello")
    with pytest.raises(FileError, match=r"cannot read .*c.tfm as a transform"):
        read_transforms(tmp_path / "c.tfm")
    np.save(tmp_path / "d.npy", np.ones(5))
    with pytest.raises(FileError, match=r"a matrix is \(3, 4\) or \(4, 4\)"):
        read_transforms(tmp_path / "d.npy")
    with pytest.raises(FileError, match="unknown kind of transform file"):
        read_transforms(tmp_path / "x.flo")
    with pytest.raises(FileError, match="ITK image does not hold 1-D fields; accepted: NumPy"):
        write_field(Field(np.zeros((1, 5, 1))), tmp_path / "x.mha")
    tilted = AFFINE + np.diag([1.0, 1, 1, 0])[:, [1, 2, 0, 3]]
    write_field(Field(created(3, 4), affine=tilted), tmp_path / "t.nii")
    with pytest.raises(FileError, match="and this one is tilted"):
        read_transforms(tmp_path / "t.nii")
    monkeypatch.setitem(sys.modules, "SimpleITK", None)
    for call in (
        lambda: read_field(tmp_path / "a.mha"),
        lambda: read_transforms(tmp_path / "a.tfm"),
        lambda: write_field(Field(created(3, 4)), tmp_path / "n.h5"),
    ):
        with pytest.raises(MissingExtraError, match=r'SimpleITK: pip install "gridsample\[itk\]"'):
            call()
    assert not (tmp_path / "n.h5").exists()


def test_info_shows_the_units_of_a_transform(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_field(Field(created(3, 4, 5), affine=AFFINE), tmp_path / "x.h5")
    assert cli.main(["info", str(tmp_path / "x.h5")]) == 0
    lines = capsys.readouterr().out.splitlines()
    for line in ("format    ITK transform", "units     pixels; the file holds millimetres, LPS"):
        assert line in lines


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.filterwarnings("ignore:invalid value")  # the product of infinity and 0
def test_missing_displacements_round_trip_or_are_rejected(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    for invalid in (np.nan, np.inf):
        array = np.ones((1, 4, 5, 2))
        array[0, 1, 2, 0] = invalid
        if suffix == "tfm":
            with pytest.raises(FileError, match=r"1 of 20 displacements are missing .*\.h5"):
                write_field(Field(array), path)
            assert not path.exists()
        else:
            write_field(Field(array), path, overwrite=True)
            result = read_field(path).array
            assert np.isnan(result[0, 1, 2]).all()
            np.testing.assert_allclose(np.delete(result.reshape(-1, 2), 7, 0), 1, rtol=1e-15)
