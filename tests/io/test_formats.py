"""Files: how TIFF is stored, pictures of Pillow, archives of NumPy, volumes of FreeSurfer."""

import dataclasses
import itertools
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from gridsample import cli, io
from gridsample.io import FileError, Image, tiff
from tests.io.test_io import pixels

nibabel = pytest.importorskip("nibabel")
tifffile = pytest.importorskip("tifffile")
pillow = pytest.importorskip("PIL.Image")
png = pytest.importorskip("PIL.PngImagePlugin")

# ---- how TIFF files are stored ------------------------------------------------------------------

KINDS = ["bool", "uint8", "int16", "uint64", "float16", "float32", "float64", "complex64"]


@pytest.mark.parametrize("tile", [None, (16, 32)])
@pytest.mark.parametrize("dtype", KINDS)
def test_tiff_keeps_compression_tiles_and_bigtiff(tmp_path, dtype, tile):
    array = pixels((2, 37, 45), dtype)
    predictor = np.dtype(dtype).kind in "iuf" and dtype != "uint64"
    with tifffile.TiffWriter(tmp_path / "a.tif", bigtiff=tile is not None) as file:
        for page in array:
            file.write(
                page,
                compression="zlib",
                tile=tile,
                predictor=predictor,
                photometric="minisblack",
                metadata=None,
            )
    with io.pages(tmp_path / "a.tif") as pages:
        images, bands = [p.image for p in pages], [[p.pixels()[:9], p.pixels()[9:]] for p in pages]
        io.write_pages(images, bands, tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        assert file.is_bigtiff == (tile is not None)
        for page, expected in zip(file.pages, array, strict=True):
            assert page.compression == 8
            assert page.predictor == (1 if not predictor else 3 if dtype.startswith("f") else 2)
            assert ((page.tilelength, page.tilewidth) if page.is_tiled else None) == tile
            np.testing.assert_array_equal(page.asarray(), expected)
    volume = io.read(tmp_path / "b.tif", volume=True)
    io.write(volume, tmp_path / "c.tif")
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "c.tif"), array)
    io.write(volume, tmp_path / "d.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "d.npy"), array)


@pytest.mark.parametrize(
    ("compression", "expected"),
    [("lzw", 5), ("packbits", 32773), ("zstd", 50000), ("lzma", 34925), ("jpeg", 8), ("webp", 8)],
)
def test_tiff_compressions_that_lose_information_become_zlib(tmp_path, compression, expected):
    tifffile.imwrite(tmp_path / "a.tif", pixels((48, 64, 3), "uint8"), compression=compression)
    image = io.read(tmp_path / "a.tif")
    io.write(image, tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        assert file.pages[0].compression == expected
        np.testing.assert_array_equal(file.asarray(), image.array)


@pytest.mark.parametrize("tile", [None, (128, 112)])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("channels", [1, 3])
def test_packed_tiff_is_written_in_bands(tmp_path, dtype, channels, tile):
    """In several strips, each with its own differences, and without ever holding the page."""
    numbers = np.arange(3000 * 300 * channels).reshape(3000, 300, channels) % 251
    array = numbers.astype(dtype)
    storage = tiff.Storage("zlib", True, tile, False)
    image = Image(io.zeros(array.shape, array.dtype), "TIFF", True, {"storage": storage})
    ends = [*range(0, 3000, 70), 3000]
    tracemalloc.start()
    try:
        bands = (array[begin:end] for begin, end in itertools.pairwise(ends))
        io.write_pages([image], [bands], tmp_path / "a.tif")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        (page,) = file.pages
        assert (page.predictor, len(page.dataoffsets) > 2) == (3 if dtype[0] == "f" else 2, True)
        np.testing.assert_array_equal(page.asarray(), array if channels > 1 else array[..., 0])
    # A strip or a row of tiles, a few times over, and what libraries keep.
    assert peak < 2**21 + 10 * 128 * array[0].nbytes


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr"])
@pytest.mark.parametrize("compression", [None, "tiff_lzw"])
def test_tiff_colours_are_converted_as_for_jpeg(tmp_path, mode, compression):
    picture = pillow.fromarray(pixels((21, 34, 3), "uint8")).convert(mode)
    if mode == "CMYK":
        black = pillow.fromarray(pixels((21, 34), "uint8"))
        picture = pillow.merge("CMYK", [*picture.split()[:3], black])
    picture.save(tmp_path / "a.tif", compression=compression)
    result = io.read(tmp_path / "a.tif")
    np.testing.assert_array_equal(result.array, np.array(picture.convert("RGB")))
    io.write(result, tmp_path / "b.tif")
    np.testing.assert_array_equal(io.read(tmp_path / "b.tif").array, result.array)
    io.write(result, tmp_path / "b.png")


# ---- other pictures -----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["png", "webp", "gif", "avif"])
def test_frames_of_an_animation_are_pages(tmp_path, suffix):
    flat = [np.full((24, 32, 3), shade, np.uint8) for shade in (20, 120, 220)]
    first, *others = [pillow.fromarray(page) for page in flat]
    path = tmp_path / f"a.{suffix}"
    first.save(path, save_all=True, append_images=others, duration=50)
    with io.pages(path) as pages:
        frames, images = [page.pixels() for page in pages], [page.image for page in pages]
    for mine, expected in zip(frames, flat, strict=True):
        np.testing.assert_allclose(mine[..., :3], expected, rtol=0, atol=4 * (suffix == "avif"))
    with pytest.raises(FileError, match="holds one page, and there are 3; accepted: PNG, TIFF"):
        io.write_pages(images, [[page] for page in frames], tmp_path / "b.jpg")
    io.write_pages(images, [[page] for page in frames], tmp_path / "b.tif")
    with io.pages(tmp_path / "b.tif") as pages, pytest.raises(FileError, match="holds one page"):
        io.write_pages([page.image for page in pages], [], tmp_path / "b.png")  # no animation


@pytest.mark.parametrize("target", ["png", "webp", "gif", "avif"])
@pytest.mark.parametrize(("source", "plays"), [("png", 3), ("webp", 0), ("gif", 1), ("gif", 4)])
def test_animations_keep_their_frames_and_durations(tmp_path, source, plays, target):
    rng = np.random.default_rng(0)
    shades = [np.full((24, 32, 3), shade, np.uint8) for shade in rng.integers(0, 255, (3, 3))]
    first, *others = [pillow.fromarray(page) for page in shades]
    counted = plays if source != "gif" else (plays - 1 or None)
    options = {} if counted is None else {"loop": counted}
    path, written = tmp_path / f"a.{source}", tmp_path / f"b.{target}"
    first.save(path, save_all=True, append_images=others, duration=[50, 100, 200], **options)
    with io.pages(path) as pages:
        frames = [page.image.extras["frame"] for page in pages]
        assert [frame.duration for frame in frames] == [50, 100, 200]
        assert {frame.plays for frame in frames} == {plays}
        io.write_pages([page.image for page in pages], ([p.pixels()] for p in pages), written)
    with io.pages(written) as pages:
        frames = [page.image.extras["frame"] for page in pages]
        assert [frame.duration for frame in frames] == [50, 100, 200]
        assert {frame.plays for frame in frames} == {plays if target != "avif" else 0}
        for page, shade in zip(pages, shades, strict=True):
            error = np.abs(page.pixels()[..., :3].astype(int) - shade)
            assert error.max() <= 8  # AVIF and WebP are lossy


def test_a_gif_has_the_colours_closest_to_those_of_the_picture(tmp_path):
    array = np.linspace(0, 255, 24 * 32 * 3).reshape(24, 32, 3).astype(np.uint8)
    io.write(Image(array, "NumPy", True), tmp_path / "a.gif")
    assert np.abs(io.read(tmp_path / "a.gif").array.astype(int) - array).mean() < 4


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("suffix", ["webp", "avif", "bmp"])
def test_other_picture_formats_round_trip(tmp_path, suffix, channels):
    grey = np.linspace(0, 255, 40, dtype=np.uint8)[:, None, None]
    array = np.broadcast_to(grey, (40, 30, channels)).copy()
    array[..., 3:] = 255 - array[..., 3:]
    path = tmp_path / f"a.{suffix}"
    if channels not in io.format_of(path).holds["uint8"]:
        with pytest.raises(FileError, match="does not hold uint8 pictures"):
            io.write(Image(array, "NumPy", True), path)
        return
    io.write(Image(array, "NumPy", True, {"icc_profile": b"p" * 200}), path)
    result = io.read(path)
    # AVIF is not exact: a few grey levels at quality 95.
    np.testing.assert_allclose(result.array, array.astype(int), rtol=0, atol=6 * (suffix == "avif"))
    assert (result.alpha is not None) == (channels == 4)
    assert result.format == io.format_of(path).name
    assert ("icc_profile" in result.extras) == (suffix != "bmp")


# ---- .npz and .mgz ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3), (4, 5, 7), (4, 5, 7, 2)])
def test_an_archive_of_one_array_is_that_array(tmp_path, shape):
    array = pixels(shape, "int16")
    np.savez(tmp_path / "a.npz", voxels=array)
    np.save(tmp_path / "a.npy", array)
    result, expected = (io.read(tmp_path / name) for name in ("a.npz", "a.npy"))
    np.testing.assert_array_equal(result.array, expected.array)
    io.write(result, tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as file:
        np.testing.assert_array_equal(file["arr_0"], array)


def test_unsupported_archives_are_rejected(tmp_path):
    np.savez(tmp_path / "two.npz", a=np.ones((3, 3)), b=np.ones((3, 3)))
    with pytest.raises(FileError, match="holds 2 arrays: a, b; accepted: one"):
        io.read(tmp_path / "two.npz")
    np.savez(tmp_path / "objects.npz", np.array([[{}, None]], object))
    with pytest.raises(FileError, match="allow_pickle"):
        io.read(tmp_path / "objects.npz")
    np.save(tmp_path / "array.npy", np.ones((3, 3)))
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    with pytest.raises(FileError, match=r"not a \.npz file"):
        io.read(tmp_path / "array.npz")


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32"])
@pytest.mark.parametrize("shape", [(5, 7, 3), (5, 7, 3, 2)])
def test_files_of_freesurfer(tmp_path, dtype, shape):
    voxels = pixels(shape, dtype)
    turned = np.array([[-1.0, 0, 0, 9], [0, 0, 2, -4], [0, -3, 0, 7], [0, 0, 0, 1]])
    nibabel.MGHImage(voxels, turned).to_filename(tmp_path / "a.mgz")
    image = io.read(tmp_path / "a.mgz")
    assert image.size == shape[:3]
    for name in ("b.mgz", "b.nii.gz"):
        io.write(image.resampled(image.array, np.diag([2.0, 1, 1, 1])), tmp_path / name)
        again = nibabel.load(tmp_path / name)
        np.testing.assert_array_equal(np.asarray(again.dataobj), voxels)
        assert again.get_data_dtype().name == dtype
        np.testing.assert_allclose(again.affine, turned @ np.diag([2.0, 1, 1, 1]), atol=1e-5)


# Texts --------------------------------------------------------------------------------------------

PACKET = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"></x:xmpmeta>'


def write_texts(path: Path, pixels: np.ndarray) -> None:
    """A PNG with a text, a compressed one, XMP and a gamma."""
    info = png.PngInfo()
    info.add_text("Author", "A. N. Author")
    info.add_text("Comment", "long " * 100, zip=True)
    info.add_itxt("XML:com.adobe.xmp", PACKET.decode(), zip=True)
    info.add(b"gAMA", struct.pack(">I", 45455))
    pillow.fromarray(pixels).save(path, pnginfo=info)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_texts_and_gamma_of_png_files_are_kept(
    tmp_path: Path, dtype: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pixels = np.arange(8 * 9 * 3).reshape(8, 9, 3).astype("uint8")
    write_texts(tmp_path / "in.png", pixels)
    if dtype == "uint16":
        image = io.read(tmp_path / "in.png")
        image = dataclasses.replace(image, array=image.array.astype("uint16"))
        io.write(image, tmp_path / "in.png", overwrite=True)
    words = [str(tmp_path / "in.png"), str(tmp_path / "out.png"), "--size", "9x8"]
    assert cli.main(["resize", *words]) == 0 and not capsys.readouterr().err
    with pillow.open(tmp_path / "out.png") as picture:
        picture.load()
        assert picture.text["Author"] == "A. N. Author" and len(picture.text["Comment"]) == 500
        assert picture.text["XML:com.adobe.xmp"].encode() == PACKET
        assert picture.info["gamma"] == 0.45455
    np.testing.assert_array_equal(io.read(tmp_path / "out.png").array, pixels)


def test_other_formats_say_what_they_do_not_keep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_texts(tmp_path / "in.png", np.zeros((8, 9, 3), "uint8"))
    for name, lost in (("out.jpg", "the text and gamma of"), ("out.bmp", "the text and gamma and")):
        assert (
            cli.main(["resize", str(tmp_path / "in.png"), str(tmp_path / name), "--size", "9"]) == 0
        )
        assert lost in capsys.readouterr().err
    with pillow.open(tmp_path / "out.jpg") as picture:
        assert picture.info["xmp"] == PACKET


def test_comments_of_jpeg_and_gif_files_are_kept(tmp_path: Path) -> None:
    pixels = pillow.new("L", (9, 8))
    for name in ("in.jpg", "in.gif"):
        pixels.save(tmp_path / name, comment=b"a comment")
        for other in ("out.jpg", "out.gif", "out.png"):
            io.write(io.read(tmp_path / name), tmp_path / other, overwrite=True)
            with pillow.open(tmp_path / other) as picture:
                kept = picture.info.get("comment", picture.info.get("Comment"))
            assert kept in (b"a comment", "a comment"), (name, other)


def test_a_transparent_grey_of_16_bits_becomes_alpha(tmp_path: Path) -> None:
    grey = np.arange(72, dtype="uint16").reshape(8, 9) * 800
    pillow.fromarray(grey).save(tmp_path / "in.png", transparency=1600)
    image = io.read(tmp_path / "in.png")
    np.testing.assert_array_equal(image.array[..., 0], grey)
    np.testing.assert_array_equal(image.array[..., 1], np.where(grey == 1600, 0, 65535))
    assert image.alpha is not None
