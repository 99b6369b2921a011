"""GeoTIFF and NIfTI files keep their world coordinates when they are resampled."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest
import tifffile

from gridsample import cli, io

NODATA = -9999
KEYS = (1, 1, 0, 2, 1024, 0, 1, 1, 1025, 0, 1, 1)  # projected; pixels are areas
AREA, POINT = KEYS, (*KEYS[:-1], 2)


def write(path: Path, keys: tuple[int, ...], *, matrix: bool = False) -> np.ndarray:
    """A raster of 12 x 16 pixels of 30 m, with a hole; return the map to the ground."""
    heights = np.arange(192, dtype=np.float32).reshape(12, 16)
    heights[3, 4] = NODATA
    ground = np.array([[30.0, 0, 500_000], [0, -30, 4_000_000], [0, 0, 1]])
    place = [
        (33550, 12, 3, (30.0, 30.0, 0.0), True),
        (33922, 12, 6, (2.0, 1.0, 0.0, 500_060.0, 3_999_970.0, 0.0), True),
    ]
    if matrix:
        four = np.eye(4)
        four[:2, [0, 1, 3]] = ground[:2]
        place = [(34264, 12, 16, tuple(four.ravel()), True)]
    text = b"WGS 84|\0"
    tags = [*place, (34735, 3, len(keys), keys, True), (34737, 2, len(text), text, True)]
    tags.append((42113, 2, 6, b"-9999\0", True))
    tifffile.imwrite(path, heights, extratags=tags, photometric="minisblack")
    return ground


def place_of(path: Path) -> io.geotiff.GeoReference:
    with tifffile.TiffFile(path) as file:
        tags = file.pages[0].tags
        assert str(tags[34737].value).startswith("WGS 84") and str(tags[42113].value) == "-9999"
        return io.geotiff.read(tags)


@pytest.mark.parametrize("matrix", [False, True])
def test_the_outer_corners_stay_where_they_are(tmp_path: Path, matrix: bool) -> None:
    ground = write(tmp_path / "in.tif", AREA, matrix=matrix)
    words = ["resize", tmp_path / "in.tif", tmp_path / "out.tif", "--spacing", "60"]
    words.append("--no-antialias")
    assert cli.main([*map(str, words)]) == 0
    place = place_of(tmp_path / "out.tif")
    assert place.spacing == (60, 60) and not place.pixel_is_point
    np.testing.assert_allclose(place.matrix @ (8, 6, 1), ground @ (16, 12, 1))
    np.testing.assert_allclose(place.matrix @ (0, 0, 1), ground @ (0, 0, 1))
    heights = tifffile.imread(tmp_path / "out.tif")
    assert heights.shape == (6, 8) and heights[1, 2] == np.mean([36, 37, 53])


def test_pixel_is_point_files_keep_their_pixel_centres(tmp_path: Path) -> None:
    ground = write(tmp_path / "in.tif", POINT)
    words = ["resize", tmp_path / "in.tif", tmp_path / "out.tif", "--scale", "2,2"]
    assert cli.main([*map(str, words)]) == 0
    place = place_of(tmp_path / "out.tif")
    # The first new centre lies a quarter of an old pixel outside the first old one.
    np.testing.assert_allclose(place.matrix @ (0, 0, 1), ground @ (-0.25, -0.25, 1))
    assert place.pixel_is_point and place.spacing == (15, 15)


def test_warps_keep_the_georeference(tmp_path: Path) -> None:
    ground = write(tmp_path / "in.tif", AREA)
    words = ["warp", tmp_path / "in.tif", tmp_path / "out.tif", "--translate", "2,1"]
    assert cli.main([*map(str, words), "--padding", "missing"]) == 0
    np.testing.assert_array_equal(place_of(tmp_path / "out.tif").matrix, ground)
    old, new = tifffile.imread(tmp_path / "in.tif"), tifffile.imread(tmp_path / "out.tif")
    np.testing.assert_array_equal(new[1:, 2:], old[:-1, :-2])
    assert (new[0] == NODATA).all()


def test_a_rotated_grid_needs_a_matrix(tmp_path: Path) -> None:
    ground = write(tmp_path / "in.tif", AREA)
    rotation = np.array([[0.0, -1, 11], [1, 0, 0], [0, 0, 1]])  # new to old indices
    resampled = place_of(tmp_path / "in.tif").resampled(rotation)
    numbers = {number: value for number, _, _, value, _ in resampled.tags()}
    assert 34264 in numbers and 33550 not in numbers
    # The centre of the new pixel (3, 2) is that of the old pixel (9, 3).
    np.testing.assert_allclose(resampled.matrix @ (3.5, 2.5, 1), ground @ (9.5, 3.5, 1))
    assert resampled.resampled(np.array([[1.0, 0, 0], [0, 1, 0], [0.1, 0, 1]])) is None


def test_a_volume_of_one_millimetre(tmp_path: Path) -> None:
    affine = np.diag([2.0, 3.0, 4.0, 1.0])
    scan = nibabel.Nifti1Image(np.arange(60, dtype=np.float32).reshape(5, 4, 3), affine)
    scan.to_filename(tmp_path / "in.nii.gz")
    words = ["resize", tmp_path / "in.nii.gz", tmp_path / "out.nii.gz", "--spacing", "1"]
    assert cli.main([*map(str, words)]) == 0
    out = nibabel.load(tmp_path / "out.nii.gz")
    assert out.shape == (10, 12, 12) and out.header.get_zooms() == (1, 1, 1)
    np.testing.assert_allclose(out.affine @ (-0.5, -0.5, -0.5, 1), affine @ (-0.5, -0.5, -0.5, 1))


def test_invalid_arguments_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "in.npy", np.zeros((4, 5)))
    words = ["resize", tmp_path / "in.npy", tmp_path / "out.npy", "--spacing", "1"]
    assert cli.main([*map(str, words)]) == 2
    assert "--spacing needs a file with the sizes of its voxels" in capsys.readouterr().err
    assert cli.main([*map(str, words), "--scale", "2"]) == 2
    assert "one of --size, --scale and --spacing" in capsys.readouterr().err
