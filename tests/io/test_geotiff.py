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


METADATA = """<GDALMetadata>
  <Item name="AREA_OR_POINT">Area</Item>
  <Item name="DESCRIPTION" sample="0" role="description">height</Item>
  <Item name="SCALE" sample="0" role="scale">0.1</Item>
  <Item name="OFFSET" sample="0" role="offset">-100</Item>
  <Item name="STATISTICS_MEAN" sample="0">94</Item>
</GDALMetadata>"""


def test_metadata_of_bands_is_kept_but_for_statistics(tmp_path: Path) -> None:
    heights, text = np.arange(192, dtype=np.int16).reshape(12, 16), METADATA.encode() + b"\0"
    tags = [(42112, 2, len(text), text, True)]
    tifffile.imwrite(tmp_path / "in.tif", heights, extratags=tags, photometric="minisblack")
    words = ["resize", str(tmp_path / "in.tif"), str(tmp_path / "out.tif"), "--size", "8x6"]
    assert cli.main(words) == 0
    with tifffile.TiffFile(tmp_path / "out.tif") as file:
        kept = str(file.pages[0].tags[42112].value)
    assert kept == METADATA.replace('\n  <Item name="STATISTICS_MEAN" sample="0">94</Item>', "")


def test_files_without_a_resolution_get_none(tmp_path: Path) -> None:
    write(tmp_path / "in.tif", AREA)
    for resolution in (False, True):
        image = io.read(tmp_path / "in.tif")
        assert "resolution" not in image.extras or resolution
        out = tmp_path / f"{resolution}.tif"
        io.write(image, out)
        with tifffile.TiffFile(out) as file:
            assert [n for n in (282, 283, 296) if n in file.pages[0].tags] == (
                [282, 283, 296] if resolution else []
            )
            np.testing.assert_array_equal(file.asarray(), image.array[..., 0])
        tifffile.imwrite(
            tmp_path / "in.tif", image.array[..., 0], resolution=(72, 72), resolutionunit=2
        )


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_outside_is_nodata_where_a_tag_names_it(tmp_path: Path, mode: str) -> None:
    write(tmp_path / "in.tif", AREA)
    words = ["warp", tmp_path / "in.tif", tmp_path / "out.tif", "--translate", "4,0"]
    assert cli.main([*map(str, words), "--mode", mode]) == 0
    heights, before = (tifffile.imread(tmp_path / name) for name in ("out.tif", "in.tif"))
    np.testing.assert_array_equal(heights[:, :4], NODATA)
    np.testing.assert_array_equal(heights[:, 4:], before[:, :-4])
    words = [*words[:2], tmp_path / "zeros.tif", *words[3:], "--padding", "zeros"]
    assert cli.main([*map(str, words)]) == 0
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "zeros.tif")[:, :4], 0)


def test_pixels_of_another_geotiff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "in.tif", AREA)
    words = ["resize", tmp_path / "in.tif", tmp_path / "half.tif", "--spacing", "60"]
    assert cli.main([*map(str, words), "--no-antialias"]) == 0
    write(tmp_path / "point.tif", POINT)
    words = ["warp", tmp_path / "in.tif", tmp_path / "out.tif", "--no-antialias", "--like"]
    assert cli.main([*map(str, [*words, tmp_path / "half.tif"])]) == 0
    half, out = place_of(tmp_path / "half.tif"), place_of(tmp_path / "out.tif")
    np.testing.assert_allclose(out.matrix, half.matrix)
    pixels = [tifffile.imread(tmp_path / name) for name in ("half.tif", "out.tif")]
    np.testing.assert_array_equal(*pixels)
    # Pixels that are points have their centres where the corners of areas are.
    words[2] = tmp_path / "points.tif"
    assert cli.main([*map(str, [*words, tmp_path / "point.tif"])]) == 0
    np.testing.assert_allclose(
        place_of(tmp_path / "points.tif").affine, place_of(tmp_path / "point.tif").affine
    )
    capsys.readouterr()
    write(tmp_path / "other.tif", (1, 1, 0, 3, *AREA[4:], 3072, 0, 1, 32633))
    tifffile.imwrite(tmp_path / "plain.tif", np.zeros((4, 5), np.uint8))
    for name, message in (
        ("other.tif", "has no EPSG code"),
        ("plain.tif", "not georeferenced"),
    ):
        assert cli.main([*map(str, [*words[:3], "--force", "--like", tmp_path / name])]) != 0
        assert message in capsys.readouterr().err


def test_overviews_are_resized_as_their_page_is(tmp_path: Path) -> None:
    write(tmp_path / "one.tif", AREA)
    with tifffile.TiffFile(tmp_path / "one.tif") as file:
        tags = [tag.astuple()[:4] for tag in file.pages[0].tags.values() if tag.code > 33000]
        place = [(code, kind, count, value, True) for code, kind, count, value in tags]
    full = tifffile.imread(tmp_path / "one.tif")
    with tifffile.TiffWriter(tmp_path / "in.tif") as file:
        file.write(full, extratags=place, photometric="minisblack", metadata=None)
        file.write(full[::2, ::2], subfiletype=1, photometric="minisblack", metadata=None)
    words = ["resize", str(tmp_path / "in.tif"), str(tmp_path / "out.tif"), "--spacing", "60"]
    assert cli.main(words) == 0
    with tifffile.TiffFile(tmp_path / "out.tif") as file:
        assert [page.shape for page in file.pages] == [(6, 8), (3, 4)]
        assert [page.subfiletype for page in file.pages] == [0, 1]


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
