"""Files: every format is read and written without loss, or rejected with a clear error."""

import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

from gridsample import io
from gridsample.io import FileError, Image
from gridsample.io.fields import Field, read_field, write_field
from gridsample.io.transforms import read_transforms

nibabel = pytest.importorskip("nibabel")
tifffile = pytest.importorskip("tifffile")
pillow = pytest.importorskip("PIL.Image")

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
EVERY_DTYPE = ["bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128"]


def pixels(shape, dtype, seed=0):
    """Random bit patterns of numbers, with the extremes."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        array = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        array.flat[:2] = info.min, info.max
        return array
    array = rng.normal(size=shape) * 100
    return (array + 1j * rng.normal(size=shape) if dtype.kind == "c" else array).astype(dtype)


def round_trip(tmp_path, name, array, has_channel_axis=True, **extras):
    path = tmp_path / name
    io.write(Image(array, "NumPy", has_channel_axis, extras), path)
    return io.read(path)


# ---- every dtype in every format that holds it ------------------------------------------------


@pytest.mark.parametrize("dtype", EVERY_DTYPE)
@pytest.mark.parametrize(
    "shape", [(7, 5, 3), (7, 5, 1), (3, 7, 5, 2), (3, 7, 5, 1), (4, 1, 1, 1), (1, 1, 4)]
)
@pytest.mark.parametrize("suffix", ["npy", "tif", "nii", "nii.gz", "png", "jpg"])
def test_supported_images_round_trip_and_others_are_rejected(tmp_path, suffix, shape, dtype):
    array = pixels(shape, dtype)
    path = tmp_path / f"image.{suffix}"
    image = Image(array, "NumPy", has_channel_axis=shape[-1] > 1)
    if not io.format_of(path).fits(array.dtype, shape[-1], len(shape) - 1):
        with pytest.raises(FileError, match=f"does not hold {dtype}"):
            io.write(image, path)
        assert list(tmp_path.iterdir()) == []
        return
    io.write(image, path)
    back = io.read(path, volume=len(shape) == 4)
    assert back.array.dtype == array.dtype
    if suffix == "jpg":
        assert back.array.shape == array.shape
    elif suffix.startswith("nii") and len(shape) == 3 and shape[-1] > 1:
        np.testing.assert_array_equal(back.array[0], array)  # NIfTI has no 2-D with channels
    else:
        np.testing.assert_array_equal(back.array, array)
        assert back.has_channel_axis == image.has_channel_axis


def test_formats_support_the_expected_dtypes():
    stored = {
        (form.name, dtype)
        for form in io.FORMATS
        for dtype in EVERY_DTYPE
        if form.fits(np.dtype(dtype), 1, 2)
    }
    assert {d for f, d in stored if f == "PNG"} == {"bool", "uint8", "uint16"}
    assert {d for f, d in stored if f == "JPEG"} == {"uint8"}
    assert {d for f, d in stored if f == "TIFF"} == set(EVERY_DTYPE)
    assert {d for f, d in stored if f == "NumPy"} == set(EVERY_DTYPE)
    assert {d for f, d in stored if f == "NIfTI"} == set(EVERY_DTYPE) - {"bool", "float16"}


def test_jpeg_files_round_trip_approximately(tmp_path):
    ramp = np.linspace(0, 255, 63 * 33).reshape(63, 33).astype(np.uint8)
    array = np.stack([ramp, ramp[::-1], ramp], -1)
    back = round_trip(tmp_path, "ramp.jpeg", array).array
    assert np.abs(back.astype(int) - array).max() <= 16
    assert np.abs(back.astype(int) - array).mean() < 3


def test_errors_name_suitable_formats(tmp_path):
    def check(name, dtype, *shape):
        image = Image(io.zeros(shape, np.dtype(dtype)), "NumPy", has_channel_axis=True)
        io.check_writable(tmp_path / name, [image])

    with pytest.raises(FileError, match=r"PNG does not hold float32 pictures of 3 channels; TIFF"):
        check("x.png", "float32", 4, 5, 3)
    with pytest.raises(FileError, match=r"JPEG does not hold uint8 .* of 4 channels; PNG and TIFF"):
        check("x.jpg", "uint8", 4, 5, 4)
    with pytest.raises(FileError, match=r"PNG does not hold uint8 volumes of 1 channel;"):
        check("x.png", "uint8", 3, 4, 5, 1)


# ---- PNG and JPEG -----------------------------------------------------------------------------


def save(picture, path, **options):
    picture.save(path, **options)
    return io.read(path)


def test_a_palette_becomes_its_colours(tmp_path):
    picture = pillow.new("P", (3, 2))
    picture.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 9])
    picture.putdata([0, 1, 2, 2, 1, 0])
    image = save(picture, tmp_path / "p.png")
    assert image.array.tolist()[0] == [[255, 0, 0], [0, 255, 0], [0, 0, 9]]

    image = save(picture, tmp_path / "t.png", transparency=1)
    assert image.array.tolist()[0] == [[255, 0, 0, 255], [0, 255, 0, 0], [0, 0, 9, 255]]


def test_a_transparent_colour_becomes_alpha(tmp_path):
    grey = pillow.fromarray(np.array([[7, 8]], np.uint8))
    assert save(grey, tmp_path / "g.png", transparency=8).array.tolist() == [[[7, 255], [8, 0]]]
    colour = pillow.fromarray(np.array([[[1, 2, 3], [4, 5, 6]]], np.uint8))
    image = save(colour, tmp_path / "c.png", transparency=(4, 5, 6))
    assert image.array[..., 3].tolist() == [[255, 0]]


def test_cmyk_becomes_rgb(tmp_path):
    cyan = pillow.new("CMYK", (8, 8), (255, 0, 0, 0))
    array = save(cyan, tmp_path / "cmyk.jpg", quality=100, icc_profile=b"inks").array
    assert array.shape == (8, 8, 3)
    assert np.abs(array.astype(int) - [0, 255, 255]).max() <= 3
    assert "icc_profile" not in io.read(tmp_path / "cmyk.jpg").extras


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "jpg", "tif"])
def test_exif_orientation_is_applied(tmp_path, orientation, suffix):
    # The picture as it should look: bright top left, grey top right, dark below.
    upright = np.zeros((16, 24), np.uint8)
    upright[:8, :12], upright[:8, 12:] = 255, 128
    undo = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].T,
        8: np.rot90(upright, -1),
    }
    path = tmp_path / f"o.{suffix}"
    stored = np.ascontiguousarray(undo[orientation])
    if suffix == "tif":
        tifffile.imwrite(path, stored, extratags=[(274, "H", 1, orientation, True)])
    else:
        tags = pillow.Exif()
        tags[274] = orientation
        pillow.fromarray(stored).save(path, exif=tags)
    image = io.read(path)
    assert np.abs(image.array[..., 0].astype(int) - upright).max() <= 8 * (suffix == "jpg")
    io.write(image, tmp_path / f"again.{suffix}")
    assert np.array_equal(io.read(tmp_path / f"again.{suffix}").array > 64, image.array > 64)


def test_the_colour_profile_is_kept(tmp_path):
    image = save(pillow.new("RGB", (4, 4)), tmp_path / "a.png", icc_profile=b"a profile")
    for name in ("b.png", "b.jpg", "b.tif"):
        io.write(image, tmp_path / name)
        assert io.read(tmp_path / name).extras["icc_profile"] == b"a profile"


def png_16_bit_rgb(array):
    """A PNG file, written by hand: rows of big-endian numbers with filter 0."""

    def chunk(chunk_type, data):
        return (
            struct.pack(">I", len(data))
            + chunk_type
            + data
            + struct.pack(">I", zlib.crc32(chunk_type + data))
        )

    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in array)
    head = struct.pack(">IIBBBBB", array.shape[1], array.shape[0], 16, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_16_bit_colour_png_keeps_its_bits_or_says_what_it_needs(tmp_path, monkeypatch):
    array = pixels((7, 5, 3), "uint16")
    path = tmp_path / "deep.png"
    path.write_bytes(png_16_bit_rgb(array))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "imagecodecs", None)
        with pytest.raises(io.MissingExtraError, match="needs imagecodecs"):
            io.read(path)
    np.testing.assert_array_equal(io.read(path).array, array)


def test_a_picture_of_any_size_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(pillow, "MAX_IMAGE_PIXELS", 10)
    image = round_trip(tmp_path, "large.png", pixels((9, 9, 3), "uint8"))
    assert image.size == (9, 9)
    assert pillow.MAX_IMAGE_PIXELS == 10


# ---- TIFF -------------------------------------------------------------------------------------


def tiff(tmp_path, array, volume=False, **options):
    tifffile.imwrite(tmp_path / "x.tif", array, **options)
    return io.read(tmp_path / "x.tif", volume=volume)


def test_tiff_planes_and_pages(tmp_path):
    rgb = pixels((3, 7, 5), "uint8")
    image = tiff(tmp_path, rgb, photometric="rgb", planarconfig="separate")
    np.testing.assert_array_equal(image.array, np.moveaxis(rgb, 0, -1))

    pages = pixels((6, 7, 5), "uint16")
    image = tiff(tmp_path, pages, volume=True, photometric="minisblack", metadata=None)
    np.testing.assert_array_equal(image.array[..., 0], pages)
    assert image.size == (5, 7, 6)
    assert not image.has_channel_axis

    hyperstack = pixels((6, 2, 7, 5), "uint8")
    image = tiff(tmp_path, hyperstack, volume=True, imagej=True, metadata={"axes": "ZCYX"})
    np.testing.assert_array_equal(image.array, np.moveaxis(hyperstack, 1, -1))


def test_tiff_grey_scales_and_palettes(tmp_path):
    ink = pixels((7, 5), "uint8")
    image = tiff(tmp_path, ink, photometric="miniswhite")
    np.testing.assert_array_equal(image.array[..., 0], 255 - ink)
    io.write(image, tmp_path / "again.tif")
    np.testing.assert_array_equal(io.read(tmp_path / "again.tif").array, image.array)

    indices = pixels((7, 5), "uint8")
    palette = pixels((3, 256), "uint8")
    colormap = palette.astype(np.uint16) * 257
    image = tiff(tmp_path, indices, photometric="palette", colormap=colormap)
    np.testing.assert_array_equal(image.array, np.moveaxis(palette[:, indices], 0, -1))


@pytest.mark.parametrize("photometric", [None, "miniswhite", "minisblack"])
def test_masks_in_tiff_files_keep_their_bits(tmp_path, photometric):
    """tifffile writes bool arrays with zero for white, and reads their bits."""
    mask = pixels((7, 5), "bool")
    image = tiff(tmp_path, mask, photometric=photometric)
    np.testing.assert_array_equal(image.array[..., 0], mask)
    io.write(image, tmp_path / "again.tif")
    io.write(image, tmp_path / "again.npy")
    for again in (tifffile.imread(tmp_path / "again.tif"), np.load(tmp_path / "again.npy")):
        np.testing.assert_array_equal(again, mask)
    with tifffile.TiffFile(tmp_path / "again.tif") as file:
        assert file.pages[0].photometric.name.lower() == (photometric or "miniswhite")
    io.write(image, tmp_path / "again.png")  # which looks the same
    is_white = mask if photometric == "minisblack" else ~mask
    np.testing.assert_array_equal(io.read(tmp_path / "again.png").array[..., 0], is_white)


def test_tiff_channels_keep_their_meaning(tmp_path):
    bands = pixels((7, 5, 4), "uint8")
    for options in (
        {"photometric": "rgb", "extrasamples": ["assocalpha"]},
        {"photometric": "rgb", "extrasamples": ["unspecified"]},
        {"photometric": "minisblack", "planarconfig": "contig", "extrasamples": [0, 0, 0]},
    ):
        before = tiff(tmp_path, bands, **options)
        io.write(before, tmp_path / "again.tif", overwrite=True)
        assert io.read(tmp_path / "again.tif").extras == before.extras
    alpha = round_trip(tmp_path, "alpha.tif", bands)
    assert alpha.extras["extrasamples"] == (tifffile.EXTRASAMPLE.UNASSALPHA,)


def test_unsupported_tiff_files_are_rejected(tmp_path):
    with pytest.raises(FileError, match="SEPARATED colours"):
        tiff(tmp_path, pixels((7, 5, 4), "uint16"), photometric="separated")
    with pytest.raises(FileError, match="axes TZYX"):
        tiff(
            tmp_path,
            pixels((2, 3, 7, 5), "uint8"),
            volume=True,
            photometric="minisblack",
            metadata={"axes": "TZYX"},
        )
    with tifffile.TiffWriter(tmp_path / "two.tif") as writer:
        writer.write(pixels((7, 5), "uint8"), photometric="minisblack")
        writer.write(pixels((9, 4), "float32"), photometric="minisblack")
    with pytest.raises(FileError, match="2 images of different kinds"):
        io.read(tmp_path / "two.tif", volume=True)


# ---- NumPy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "volume", "expected", "has_channel_axis"),
    [
        ((7, 5), False, (7, 5, 1), False),
        ((7, 5, 1), False, (7, 5, 1), True),
        ((7, 5, 4), False, (7, 5, 4), True),
        ((7, 5, 4), True, (7, 5, 4, 1), False),
        ((7, 5, 5), False, (7, 5, 5, 1), False),
        ((7, 5, 6, 2), False, (7, 5, 6, 2), True),
        ((7, 5, 6, 2), True, (7, 5, 6, 2), True),
    ],
)
def test_npy_axes_are_inferred(tmp_path, shape, volume, expected, has_channel_axis):
    np.save(tmp_path / "x.npy", np.zeros(shape))
    image = io.read(tmp_path / "x.npy", volume=volume)
    assert image.array.shape == expected
    assert image.has_channel_axis == has_channel_axis
    io.write(image, tmp_path / "y.npy")
    assert np.load(tmp_path / "y.npy").shape == shape


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", ["<f4", ">f4", ">i2"])
def test_npy_of_any_memory_order(tmp_path, order, dtype):
    array = np.asarray(pixels((7, 5, 3), dtype[1:]), dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", array)
    np.testing.assert_array_equal(io.read(tmp_path / "x.npy").array, array)


class Bomb:
    def __reduce__(self):
        return (sys.exit, ("unpickled!",))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([Bomb()]), "cannot read"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((1, 2, 3, 4, 5)), r"shape \(1, 2, 3, 4, 5\)"),
        (np.zeros((2, 2), "U3"), "dtype <U3"),
        (np.zeros((2, 2), "M8[s]"), "dtype datetime64"),
        (np.zeros((2, 2), [("r", "u1"), ("g", "u1")]), "dtype"),
        (np.zeros((2, 0, 3)), "cannot read|empty"),
    ],
)
def test_npy_files_that_are_not_images_are_rejected(tmp_path, array, message):
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with pytest.raises(FileError, match=message):
        io.read(tmp_path / "x.npy")


def test_paths_may_be_strings(tmp_path):
    image, name = Image(pixels((5, 7, 3), "uint8"), "NumPy", True), str(tmp_path / "a.png")
    io.write(image, name)
    np.testing.assert_array_equal(io.read(name).array, image.array)
    io.write_pages([image], [[image.array]], name, overwrite=True)
    io.check_writable(name, [image])
    with io.pages(name) as pages:
        assert len(pages) == 1
    field = Field(np.ones((1, 4, 5, 2)))
    write_field(field, str(tmp_path / "a.npy"))
    np.testing.assert_array_equal(read_field(str(tmp_path / "a.npy")).array, field.array)
    np.save(tmp_path / "m.npy", np.eye(4))
    np.testing.assert_array_equal(read_transforms(str(tmp_path / "m.npy")), [np.eye(4)])


# ---- NIfTI ------------------------------------------------------------------------------------

AFFINE = np.array([[-2.0, 0.1, 0, 90], [0.1, 2.0, 0.3, -126], [0, -0.3, 3.0, -72], [0, 0, 0, 1]])


def nifti(path, voxels, qcode=1, scode=4, scale=(1.0, 0.0), image_class=nibabel.Nifti1Image):
    image = image_class(voxels, AFFINE, dtype=voxels.dtype)
    # float32 header fields hold these exactly or not at all: a rotation for the quaternion too.
    image.set_sform(AFFINE, scode)
    image.set_qform(np.diag([2.0, 2.0, 3.0, 1.0]) if qcode else None, qcode)
    image.header.set_slope_inter(*scale)
    image.header["descrip"] = b"a head"
    image.header.set_xyzt_units("mm", "sec")
    image.to_filename(path)
    return io.read(path)


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3), (5, 7, 3, 2), (5, 7, 1, 1)])
@pytest.mark.parametrize("image_class", [nibabel.Nifti1Image, nibabel.Nifti2Image])
def test_nifti_axes_are_x_y_z_channels(tmp_path, shape, image_class):
    voxels = pixels(shape, "int16")
    image = nifti(tmp_path / "a.nii", voxels, image_class=image_class)
    assert image.size == shape[:3]
    for index in ((1, 2), (4, 6)):
        full = (*index, *(0,) * (len(shape) - 2))
        at = (*full[2::-1], full[3] if len(shape) == 4 else 0)
        assert image.array[at] == voxels[full]
    io.write(image, tmp_path / "b.nii.gz")
    again = nibabel.load(tmp_path / "b.nii.gz")
    assert type(again) is image_class
    np.testing.assert_array_equal(again.dataobj.get_unscaled(), voxels)


def test_nifti_header_is_kept(tmp_path):
    image = nifti(tmp_path / "a.nii", pixels((5, 7, 3), "int16"), scale=(2.5, -1024.0))
    before = nibabel.load(tmp_path / "a.nii")
    io.write(image.resampled(image.array, np.eye(4)), tmp_path / "b.nii")
    after = nibabel.load(tmp_path / "b.nii")
    assert (after.dataobj.slope, after.dataobj.inter) == (2.5, -1024.0)
    np.testing.assert_array_equal(after.get_fdata(), before.get_fdata())
    assert after.header == before.header
    assert (tmp_path / "a.nii").read_bytes() == (tmp_path / "b.nii").read_bytes()


@pytest.mark.parametrize("dtype", ["int16", "uint8", "float32", "complex64"])
@pytest.mark.parametrize("suffix", [".npy", ".tif"])
def test_other_formats_hold_the_values_of_a_scaled_nifti(tmp_path, dtype, suffix):
    image = nifti(tmp_path / "a.nii", pixels((5, 7, 3), dtype), scale=(0.5, 10.0))
    written = tmp_path / f"b{suffix}"
    # In two bands, as the command line writes.
    io.write_pages([image], [[image.array[:1], image.array[1:]]], written)
    expected = np.asanyarray(nibabel.load(tmp_path / "a.nii").dataobj)
    result = io.read(written, volume=True).array[..., 0]
    assert result.dtype == (np.complex128 if dtype == "complex64" else np.float64)
    np.testing.assert_array_equal(result.T, expected)


def test_formats_that_cannot_hold_scaled_values_are_reported(tmp_path):
    image = nifti(tmp_path / "a.nii", pixels((5, 7), "uint8"), scale=(0.5, 10.0))
    with pytest.raises(FileError, match=r"PNG .*scaled values 0\.5 \* stored \+ 10\); TIFF and"):
        io.write(image, tmp_path / "b.png")
    unscaled = nifti(tmp_path / "c.nii", pixels((5, 7), "uint8"))
    io.write(unscaled, tmp_path / "d.png")
    np.testing.assert_array_equal(io.read(tmp_path / "d.png").array, unscaled.array)


@pytest.mark.parametrize(("qcode", "scode"), [(1, 4), (0, 2), (3, 0), (0, 0)])
def test_nifti_affines_follow_the_voxels(tmp_path, qcode, scode):
    image = nifti(tmp_path / "a.nii", pixels((5, 7, 3, 2), "float32"), qcode, scode)
    before = nibabel.load(tmp_path / "a.nii").header
    # Every second voxel along x from the fourth on, two slices further.
    voxels = np.array([[2.0, 0, 0, 3], [0, 1, 0, 0], [0, 0, 1, -2], [0, 0, 0, 1]])
    io.write(image.resampled(np.zeros((4, 7, 6, 2), np.float32), voxels), tmp_path / "b.nii")
    after = nibabel.load(tmp_path / "b.nii").header
    assert after.get_data_shape() == (6, 7, 4, 2)
    assert (int(after["qform_code"]), int(after["sform_code"])) == (qcode, scode)
    np.testing.assert_allclose(after.get_zooms(), np.array(before.get_zooms()) * [2, 1, 1, 1])
    for name, code in (("get_qform", qcode), ("get_sform", scode)):
        if code:
            old, new = getattr(before, name)(), getattr(after, name)()
            np.testing.assert_allclose(new, old @ voxels, rtol=1e-6, atol=1e-4)
    assert before == nibabel.load(tmp_path / "a.nii").header


def test_unsupported_nifti_files_are_rejected(tmp_path):
    nibabel.Nifti1Image(np.zeros((2, 2, 2, 1, 3), np.float32), np.eye(4)).to_filename(
        tmp_path / "5.nii"
    )
    with pytest.raises(FileError, match="5 axes"):
        io.read(tmp_path / "5.nii")
    rgb = np.zeros((2, 2, 2), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    nibabel.Nifti1Image(rgb, np.eye(4)).to_filename(tmp_path / "rgb.nii")
    with pytest.raises(FileError, match="dtype"):
        io.read(tmp_path / "rgb.nii")


# ---- bad files --------------------------------------------------------------------------------


def good_files(folder):
    array = pixels((9, 8, 3), "uint8")
    for suffix in ("png", "jpg", "tif", "npy", "nii", "nii.gz"):
        io.write(Image(array, "NumPy", True), folder / f"x.{suffix}")
    return sorted(folder.iterdir())


def test_corrupt_files_raise_one_clear_error(tmp_path):
    for path in good_files(tmp_path):
        complete = path.read_bytes()
        for content in (
            b"",
            b"hello\n",
            complete[:5],
            complete[: len(complete) // 2],
            complete[:-30],
        ):
            path.write_bytes(content)
            with pytest.raises(FileError) as caught:
                io.read(path)
            assert str(path) in str(caught.value), content[:20]
            assert "\n" not in str(caught.value)


def test_scrambled_files_raise_only_file_errors(tmp_path):
    rng = np.random.default_rng(1)
    for path in good_files(tmp_path):
        content = np.frombuffer(path.read_bytes(), np.uint8)
        for _ in range(60):
            broken = content.copy()
            # Damage matters most in headers.
            broken[rng.integers(0, min(len(content), 400), 3)] = rng.integers(0, 256, 3)
            path.write_bytes(broken.tobytes())
            try:
                image = io.read(path)
            except (FileError, MemoryError, io.MissingExtraError):
                continue
            assert image.array.ndim in (3, 4)


def test_missing_files_folders_and_unknown_names(tmp_path):
    with pytest.raises(FileNotFoundError):
        io.read(tmp_path / "none.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(FileError, match="is a folder; accepted: a file"):
        io.read(tmp_path / "folder.png")
    (tmp_path / "x.xyz").touch()
    with pytest.raises(FileError, match=r"must end in one of \.png, \.jpg"):
        io.read(tmp_path / "x.xyz")
    with pytest.raises(FileError, match="neither a PNG nor a JPEG"):
        (tmp_path / "text.png").write_text("I am a text file, all of me.")
        io.read(tmp_path / "text.png")


# ---- the description and the package ------------------------------------------------------------


def test_descriptions(tmp_path):
    image = nifti(tmp_path / "a.nii", pixels((5, 7, 3), "int16"), scale=(2.5, -1024.0))
    facts = dict(io.describe(image))
    assert facts["size"] == "5 x 7 x 3"
    assert facts["shape"] == "(3, 7, 5) as (D, H, W)"
    assert facts["values"] == "-32768 to 32767"
    assert facts["voxel"] == "2.0025 x 2.02485 x 3.01496 (mm)"  # of the affine, not of pixdim
    assert facts["scaling"] == "value = 2.5 * stored + -1024"
    assert len(facts["affine"].splitlines()) == 4

    floats = np.array([[1.5, np.nan, -2.0]])[..., None]
    assert dict(io.describe(Image(floats, "TIFF", True)))["values"] == "-2.0 to 1.5, and 1 NaN"
    assert dict(io.describe(Image(floats * np.nan, "TIFF", True)))["values"] == "all NaN"
    assert dict(io.describe(Image(np.array([[[3 + 4j]]]), "TIFF", True)))["values"].startswith(
        "magnitudes 5.0"
    )


def test_only_the_needed_library_is_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 2)))
    code = (
        "import sys; from pathlib import Path; from gridsample import io;"
        "io.write(io.read(Path(sys.argv[1])), Path(sys.argv[2]));"
        "heavy = {'PIL', 'imageio', 'tifffile', 'nibabel', 'rich', 'matplotlib'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    command = [sys.executable, "-c", code, tmp_path / "x.npy", tmp_path / "y.npy"]
    assert subprocess.run(command, check=False).returncode == 0


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    for path, module in [("x.png", "imageio.v3"), ("x.tif", "tifffile"), ("x.nii", "nibabel")]:
        target = tmp_path / path
        io.write(Image(pixels((4, 4, 1), "uint8"), "NumPy", False), target)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(io.MissingExtraError, match=r'pip install "gridsample\[cli\]"'):
                io.read(target)
