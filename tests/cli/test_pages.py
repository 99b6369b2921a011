"""Files of several pages, and metadata, through `resize` and `warp`."""

import os
import subprocess
import sys

import numpy as np
import pytest

import gridsample
from gridsample import cli, io
from gridsample.io import tags, tiff

tifffile = pytest.importorskip("tifffile")
pillow = pytest.importorskip("PIL.Image")

EXIF, GPS = 0x8769, 0x8825


@pytest.fixture(autouse=True)
def _inside_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    return cli.main([str(word) for word in words])


def noise(*shape, dtype=np.uint8):
    rng = np.random.default_rng(5)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return rng.normal(size=shape).astype(dtype)


def larger(array, scale=2):
    size = [scale * n for n in array.shape[:2]]
    pixels = array[None, ..., None] if array.ndim == 2 else array[None]
    return gridsample.interpolate(pixels, size, mode="bilinear", channel_axis=-1)[0].reshape(
        *size, *array.shape[2:]
    )


# ---- pages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["png", "webp", "gif"])
def test_animations_stay_animated(suffix, capsys):
    first, *others = [pillow.fromarray(noise(8, 12, 3) // 4 + 60 * n) for n in range(3)]
    options = {"save_all": True, "append_images": others, "duration": [50, 100, 200], "loop": 2}
    first.save(f"in.{suffix}", **options)
    for command in (["resize", "--scale", 2], ["warp", "--rotate", 180]):
        assert run(command[0], f"in.{suffix}", f"out.{suffix}", *command[1:], "--force") == 0
        with io.pages(f"out.{suffix}") as pages:
            frames = [page.image.extras["frame"] for page in pages]
            assert [frame.duration for frame in frames] == [50, 100, 200]
            assert {frame.plays for frame in frames} == {3 if suffix == "gif" else 2}
    assert capsys.readouterr() == ("", "")
    assert run("info", f"out.{suffix}") == 0
    assert "duration  100 ms" in capsys.readouterr().out


def test_a_lost_palette_is_told(capsys):
    picture = pillow.fromarray(noise(8, 12, 3)).quantize(16)
    for suffix in ("png", "tif"):
        picture.save(f"in.{suffix}")
        assert run("resize", f"in.{suffix}", f"out.{suffix}", "--scale", 2) == 0
        assert f"has a palette; out.{suffix} has RGB colours" in capsys.readouterr().err
    assert run("resize", "in.png", "out.gif", "--scale", 2) == 0
    assert capsys.readouterr().err == ""
    with pillow.open("out.gif") as written:
        assert written.mode == "P"


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("shape", [(5, 7, 9), (3, 6, 8, 3), (2, 1, 1)])
@pytest.mark.parametrize("compression", [None, "deflate"])
def test_pages_are_resized_and_warped_separately(shape, dtype, compression):
    array = noise(*shape, dtype=dtype)
    colour = "rgb" if len(shape) == 4 else "minisblack"
    with tifffile.TiffWriter("in.tif") as file:
        for page in array:
            file.write(page, photometric=colour, compression=compression)
    assert run("resize", "in.tif", "out.tif", "--scale", 2) == 0
    assert run("warp", "in.tif", "turned.tif", "--rotate", 180) == 0
    with tifffile.TiffFile("out.tif") as out, tifffile.TiffFile("turned.tif") as turned:
        for page, other, before in zip(out.pages, turned.pages, array, strict=True):
            assert page.dtype == other.dtype == dtype
            np.testing.assert_array_equal(page.asarray(), larger(before))
            np.testing.assert_array_equal(other.asarray(), before[::-1, ::-1])


def test_the_volume_option_makes_pages_an_axis():
    array = noise(5, 7, 9)
    tifffile.imwrite("in.tif", array, photometric="minisblack")
    assert run("resize", "in.tif", "out.tif", "--scale", 2, "--volume") == 0
    assert tifffile.imread("out.tif").shape == (10, 14, 18)
    assert run("warp", "in.tif", "moved.tif", "--translate", "0,0,1", "--volume") == 0
    np.testing.assert_array_equal(tifffile.imread("moved.tif")[1:], array[:-1])
    assert run("warp", "in.tif", "moved.tif", "--translate", "0,0,1", "--force") == 2


def test_pages_may_differ_in_everything():
    grey, colour, deep = noise(7, 9), noise(4, 5, 3), noise(6, 3, dtype=np.float32)
    with tifffile.TiffWriter("in.tif") as file:
        file.write(grey, photometric="minisblack", description="a first page", metadata=None)
        file.write(colour, photometric="rgb", subfiletype=1, metadata=None)
        file.write(deep, photometric="minisblack", resolution=(300, 150), resolutionunit=3)
    assert run("resize", "in.tif", "out.tif", "--scale", 2) == 0
    with tifffile.TiffFile("out.tif") as file:
        for page, before in zip(file.pages, (grey, colour, deep), strict=True):
            np.testing.assert_array_equal(page.asarray(), larger(before))
        first, second, third = file.pages
        assert (first.description, second.subfiletype) == ("a first page", 1)
        assert third.tags["XResolution"].value == (300, 1)
        assert third.tags["YResolution"].value == (150, 1)
        assert third.tags["ResolutionUnit"].value == 3
    assert run("warp", "in.tif", "same.tif", "--size", "4x4") == 0
    with tifffile.TiffFile("same.tif") as file:
        assert [page.shape for page in file.pages] == [(4, 4), (4, 4, 3), (4, 4)]


def test_contiguous_pages_with_a_single_directory():
    array = noise(4, 6, 7, dtype=np.uint16)
    tifffile.imwrite("in.tif", array, photometric="minisblack", truncate=True, byteorder=">")
    assert run("warp", "in.tif", "out.tif", "--rotate", 180) == 0
    np.testing.assert_array_equal(tifffile.imread("out.tif"), array[:, ::-1, ::-1])


def test_imagej_hyperstacks_are_kept():
    array = noise(4, 2, 6, 7)
    tifffile.imwrite("in.tif", array, imagej=True, metadata={"axes": "ZCYX"})
    assert run("warp", "in.tif", "out.tif", "--rotate", 180) == 0
    with tifffile.TiffFile("out.tif") as file:
        assert file.series[0].axes == "ZCYX"
        np.testing.assert_array_equal(file.asarray(), array[..., ::-1, ::-1])


def test_rotated_planar_and_palette_pages_are_read_in_full():
    planes, indices = noise(3, 6, 8), noise(5, 4)
    colormap = noise(3, 256).astype(np.uint16) * 257
    with tifffile.TiffWriter("in.tif") as file:
        file.write(planes, photometric="rgb", planarconfig="separate")
        file.write(indices, photometric="palette", colormap=colormap)
        file.write(indices, photometric="minisblack", extratags=[(274, "H", 1, 6, True)])
        file.write(indices > 99, photometric="miniswhite")
    assert run("warp", "in.tif", "out.tif", "--rotate", 180) == 0
    expected = [
        np.moveaxis(planes, 0, -1),
        np.moveaxis(colormap >> 8, 0, -1)[indices],
        np.rot90(indices, -1),
        indices > 99,
    ]
    with tifffile.TiffFile("out.tif") as file:
        assert file.pages[2].tags.get(274) is None
        for page, pixels in zip(file.pages, expected, strict=True):
            np.testing.assert_array_equal(page.asarray(), pixels[::-1, ::-1])


def test_single_page_formats_reject_several_pages(capsys):
    tifffile.imwrite("in.tif", noise(5, 7, 9), photometric="minisblack")
    for name in ("out.png", "out.npy", "out.nii"):
        assert run("resize", "in.tif", name, "--scale", 2) == 2
        assert "holds one page, and there are 5; accepted: TIFF" in capsys.readouterr().err
    assert run("resize", "in.tif", "out.npy", "--scale", 2, "--volume") == 0
    assert np.load("out.npy").shape == (10, 14, 18)
    assert sorted(path.name for path in io.Path().iterdir()) == ["in.tif", "out.npy"]


def test_info_describes_every_page(capsys):
    tifffile.imwrite("in.tif", noise(3, 7, 9), photometric="minisblack")
    assert run("info", "in.tif") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("page")] == [
        f"page      {n} of 3" for n in (1, 2, 3)
    ]
    assert lines.count("size      9 x 7") == 3
    assert run("info", "in.tif", "--volume") == 0
    assert "size      9 x 7 x 3" in capsys.readouterr().out


@pytest.mark.slow
def test_peak_memory_does_not_grow_with_pages():
    page, pages = 4 << 20, 28
    pixels = np.full((2048, 2048), 7, np.uint8)  # which are packed fast
    with tifffile.TiffWriter("in.tif") as file:
        for _ in range(pages):
            file.write(pixels, photometric="minisblack", compression="deflate")
    script = (
        "import resource, sys\n"
        "from gridsample import cli\n"
        "cli.main(['resize', 'in.tif', 'out.tif', '--size', '9x9', '--force'])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert cli.main([*sys.argv[1:], 'in.tif', 'out.tif', '--force']) == 0\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    unit = 1 if sys.platform == "darwin" else 1024
    for words in (["resize", "--scale", "1.1"], ["warp", "--rotate", "10"]):
        command = [sys.executable, "-c", script, *words]
        fast = {**os.environ, "GRIDSAMPLE_OPTIMIZATION": "2"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=fast)
        assert int(done.stdout) * unit < 16 * page


# ---- what is noted beside pixels ----------------------------------------------------------------


def photo(name, orientation=1, **options):
    """A picture of 7 x 9 stored pixels with tags of every kind."""
    about = pillow.Exif()
    about[271], about[274], about[306] = "Maker", orientation, "2020:02:02 20:20:20"
    about[282], about[283], about[296] = 300.0, 150.0, 2
    about.get_ifd(EXIF).update(
        {0xA002: 7, 0xA003: 9, 33434: (1, 250), 37500: b"a maker's note", 36867: "2020:02:02"}
    )
    about.get_ifd(GPS).update({1: "N", 2: (48.0, 51.0, 30.5)})
    pillow.fromarray(noise(9, 7, 3)).save(name, exif=about, dpi=(300, 150), **options)


def noted(name):
    """The tags of a file as Pillow reads them, and its resolution."""
    with pillow.open(name) as picture:
        about = picture.getexif()
        own = {n: about[n] for n in (271, 274, 306, 282, 283, 296) if n in about}
        dpi = tuple(round(float(n), 1) for n in picture.info.get("dpi", ()))
        return own, dict(about.get_ifd(EXIF)), dict(about.get_ifd(GPS)), dpi


@pytest.mark.parametrize("source", ["in.jpg", "in.png"])
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif"])
@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_exif_and_resolution_are_kept(source, suffix, orientation):
    photo(source, orientation)
    assert run("resize", source, f"out.{suffix}", "--scale", 3) == 0
    own, exif, gps, dpi = noted(f"out.{suffix}")
    turned = orientation == 6
    x, y = (150, 300) if turned else (300, 150)
    width, height = (27, 21) if turned else (21, 27)
    assert 274 not in own  # the pixels stand upright now
    assert (own[271], own[306], own[296]) == ("Maker", "2020:02:02 20:20:20", 2)
    assert (own[282], own[283]) == dpi == (x, y)
    assert (exif[0xA002], exif[0xA003]) == (width, height)
    assert (exif[33434], exif[37500]) == ((1, 250), b"a maker's note")
    assert gps == {1: "N", 2: (48.0, 51.0, 30.5)}
    # A further round trip changes nothing.
    assert run("warp", f"out.{suffix}", f"again.{suffix}", "--rotate", 10) == 0
    assert noted(f"again.{suffix}") == (own, exif, gps, dpi)


@pytest.mark.parametrize("big", [False, True])
def test_tags_of_tiff_pages(big, monkeypatch):
    photo("in.jpg")
    assert run("resize", "in.jpg", "one.tif", "--scale", 1) == 0
    monkeypatch.setattr(tiff, "_CLASSIC_LIMIT", 0 if big else 1 << 30)
    with tifffile.TiffWriter("in.tif", byteorder=">") as file:
        for n in range(3):
            file.write(noise(5, 6), photometric="minisblack", software=f"scan {n}", metadata=None)
    assert run("warp", "in.tif", "out.tif") == 0
    assert run("warp", "one.tif", "two.tif") == 0
    with tifffile.TiffFile("out.tif") as file:
        assert file.is_bigtiff == big
        assert [page.tags["Software"].value for page in file.pages] == [
            f"scan {n}" for n in range(3)
        ]
    with tifffile.TiffFile("two.tif") as file:
        page = file.pages[0]
        assert page.tags["ExifTag"].value["ExposureTime"] == (1, 250)
        assert page.tags["GPSTag"].value["GPSLatitudeRef"] == "N"
        assert page.tags["ExifTag"].value["PixelXDimension"] == 7
    assert run("warp", "two.tif", "three.jpg") == 0  # read by ourselves
    assert noted("three.jpg")[1:] == noted("in.jpg")[1:]


def test_16_bit_colour_png_keeps_its_metadata():
    profile = pytest.importorskip("PIL.ImageCms").ImageCmsProfile
    profile = profile(pytest.importorskip("PIL.ImageCms").createProfile("sRGB")).tobytes()
    photo("in.png", icc_profile=profile)
    assert run("resize", "in.png", "in.tif", "--scale", 1) == 0
    image = io.read(io.Path("in.tif"))
    deep = io.Image(image.array.astype(np.uint16) * 257, "TIFF", True, image.extras)
    io.write(deep, io.Path("deep.png"))
    assert run("resize", "deep.png", "out.png", "--scale", 1) == 0
    after = io.read(io.Path("out.png"))
    assert after.array.dtype == np.uint16
    assert after.extras["icc_profile"] == profile
    assert noted("out.png")[1:] == noted("in.png")[1:]


def test_a_resolution_without_exif():
    picture = pillow.fromarray(noise(9, 7, 3))
    for source, target in (("a.jpg", "b.png"), ("a.png", "b.tif"), ("a.tif", "b.jpg")):
        picture.save(source, dpi=(72, 96))
        assert run("resize", source, target, "--scale", 2) == 0
        with pillow.open(target) as after:
            result = [float(n) for n in after.info["dpi"]]
            np.testing.assert_allclose(result, [72, 96], atol=0.0254)  # PNG's unit is a metre
    picture.save("plain.jpg")
    assert run("resize", "plain.jpg", "plain.png", "--scale", 2) == 0
    with pillow.open("plain.png") as after:
        assert "dpi" not in after.info


def test_damaged_tags_do_not_stop_a_picture():
    original = io.Path("in.jpg")
    photo("in.jpg")
    data = bytearray(original.read_bytes())
    start = data.index(b"Exif\0\0") + 6
    rng = np.random.default_rng(0)
    for _ in range(60):
        broken = data.copy()
        for place in rng.integers(start, start + 150, 5):
            broken[place] = rng.integers(256)
        block = bytes(broken[start : start + 400])
        result, orientation, resolution = tags.read_exif(block)
        again = tags.exif_block(result, (7, 9), resolution, 65533)
        assert again is None or tags.read_exif(again)[0].keys() <= result.keys()
        assert isinstance(orientation, int)


def test_oversized_metadata_is_dropped():
    photo("in.png")
    with pillow.open("in.png") as picture:
        result, _, resolution = tags.read_exif(picture.info["exif"])
    long = tags.Tag(7, 70000, b"n" * 70000)
    result = {**result, tags.EXIF: {**result[tags.EXIF], 37500: long}}
    block = tags.exif_block(result, (7, 9), resolution, 65533)
    entries, _, again = tags.read_exif(block)
    assert 37500 not in entries[tags.EXIF] and 33434 in entries[tags.EXIF]
    assert again == resolution
