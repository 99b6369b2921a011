"""Damaged files and arrays that are not images: one clear error, and nothing is written."""

from __future__ import annotations

import gzip
import io as streams
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import zarr
from PIL import Image as Pillow

from gridsample import cli, io
from gridsample.io import FileError, Image
from gridsample.io.fields import Field, read_field, write_field
from gridsample.io.transforms import read_transforms
from gridsample.registration import load_transform

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 8, 3), np.uint8)


def compressed_files(folder: Path) -> None:
    """Write a volume as NIfTI and MGH, and a field, all compressed."""
    volume = np.random.default_rng(0).normal(size=(8, 7, 6, 1)).astype(np.float32)
    io.write(Image(volume, "NumPy", False), folder / "x.nii.gz")
    io.write(Image(volume, "NumPy", False), folder / "x.mgz")
    write_field(Field(volume.reshape(1, 14, 12, 2)), folder / "field.nii.gz")


@pytest.mark.parametrize("name", ["x.nii.gz", "x.mgz", "field.nii.gz"])
def test_checksums_of_compressed_files_are_checked(tmp_path: Path, name: str) -> None:
    compressed_files(tmp_path)
    path = tmp_path / name
    complete, read = path.read_bytes(), read_field if "field" in name else io.read
    read(path)
    wrong = bytearray(complete)
    wrong[-6] ^= 1  # in the checksum, after the last voxel
    for content in (complete[:-1], complete[:-8], bytes(wrong)):
        path.write_bytes(content)
        with pytest.raises(FileError, match=name):
            read(path)


def test_stored_numbers_that_changed_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.nii.gz"
    image = nibabel.Nifti1Image(np.zeros((9, 9, 9), np.float32), np.eye(4)).to_bytes()
    path.write_bytes(gzip.compress(image, compresslevel=0))  # stored as it is
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileError, match="CRC check failed"):
        io.read(path)


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "gif", "bmp"])
def test_truncated_pictures_say_what_is_wrong(tmp_path: Path, suffix: str) -> None:
    picture, path = streams.BytesIO(), tmp_path / f"x.{suffix}"
    Pillow.fromarray(PIXELS).save(picture, {"jpg": "JPEG"}.get(suffix, suffix))
    path.write_bytes(picture.getvalue()[:20])
    with pytest.raises(FileError, match=f"x.{suffix} begins as a .* may be damaged or truncated"):
        io.read(path)


def test_pictures_beyond_the_memory_name_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*arguments: Any, **options: Any) -> Any:
        raise MemoryError

    io.write(Image(PIXELS, "NumPy", True), tmp_path / "x.png")
    monkeypatch.setattr("imageio.v3.imopen", no_memory)
    with pytest.raises(MemoryError, match=r"cannot read .*x.png as PNG: it does not fit into mem"):
        io.read(tmp_path / "x.png")


def test_archives_without_arrays_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(FileError, match=r"holds readme.txt, which is no array"):
        io.read(path)
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(FileError, match=r"not a .npz file, despite its name, or it is truncated"):
        io.read(path)


@pytest.mark.parametrize("suffix", ["png", "tif", "npy", "npz", "nii"])
@pytest.mark.parametrize(
    ("image", "message"),
    [
        (Image(PIXELS[..., 0], "PNG", False), r"got shape \(7, 8\)"),
        (Image(PIXELS, "PNG", False), "C = 1 if has_channel_axis is False"),
        (Image(PIXELS[:0], "PNG", True), "not be empty"),
    ],
)
def test_arrays_that_are_no_images_are_not_written(
    tmp_path: Path, suffix: str, image: Image, message: str
) -> None:
    path = tmp_path / f"x.{suffix}"
    with pytest.raises(FileError, match=message):
        io.write(image, path)
    with pytest.raises(TypeError, match=r"gridsample.io.Image of a NumPy array, got list"):
        io.write(Image([[1]], "PNG", False), path)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"gridsample.io.Image of a NumPy array, got ndarray"):
        io.write(PIXELS, path)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["png", "tif", "npy", "npz"])
@pytest.mark.parametrize(
    ("bands", "message"),
    [
        ([PIXELS[:5]], "7 rows were expected, got 5"),
        ([PIXELS[:5], PIXELS[:5]], r"7 rows of shape \(8, 3\).* up to row 10"),
        ([PIXELS[:, :5]], r"got a band of shape \(7, 5, 3\)"),
        ([PIXELS.astype(float)], "dtype uint8 were expected, got.* dtype float64"),
    ],
)
def test_bands_that_are_not_the_image_are_not_written(
    tmp_path: Path, suffix: str, bands: list[Any], message: str
) -> None:
    with pytest.raises(FileError, match=message):
        io.write_pages([Image(PIXELS, "PNG", True)], [bands], tmp_path / f"x.{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["png", "tif", "npy", "npz", "nii"])
def test_byte_orders_of_other_machines_are_written(tmp_path: Path, suffix: str) -> None:
    array = np.arange(2**16 - 168, 2**16, dtype=">u2").reshape(7, 8, 3)
    io.write(Image(array, "NumPy", True), tmp_path / f"x.{suffix}")
    result = io.read(tmp_path / f"x.{suffix}").array
    assert result.dtype.isnative
    np.testing.assert_array_equal(result.reshape(array.shape), array)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.full((3, 3), np.nan), "NaN or infinite entries"),
        (np.diag([np.inf, 1, 1]), "NaN or infinite entries"),
        (np.eye(3)[::-1], "maps a pixel of the fixed image to infinity"),
    ],
)
def test_matrices_that_are_no_transforms_are_rejected(
    tmp_path: Path, matrix: Any, message: str
) -> None:
    np.save(tmp_path / "x.npy", matrix)
    np.savetxt(tmp_path / "x.csv", matrix, delimiter=",")
    for name in ("x.npy", "x.csv"):
        with pytest.raises(FileError, match=message):
            load_transform(tmp_path / name)
    if not np.isfinite(matrix).all():
        with pytest.raises(FileError, match=message):
            read_transforms(tmp_path / "x.npy")
    (tmp_path / "x.txt").write_bytes(bytes(range(256)))
    with pytest.raises(FileError, match="does not hold a matrix of numbers"):
        load_transform(tmp_path / "x.txt")


def test_damaged_zarr_stores_are_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "x.zarr", tmp_path / "y.zarr"
    array = zarr.create_array(source, shape=(40, 50), chunks=(16, 16), dtype="f4")
    array[:] = 1.0
    (source / "c" / "1" / "2").write_bytes(b"not compressed")
    assert cli.main(["warp", str(source), str(target), "--rotate", "10"]) == 2
    assert "cannot read the chunk (1, 2) of file://" in capsys.readouterr().err
    metadata = source / "zarr.json"
    text = metadata.read_text()
    for size in ("40", "16"):  # of the array, and of a chunk
        metadata.write_text(text.replace(size, "0", 1))
        assert cli.main(["warp", str(source), str(target), "--rotate", "10"]) == 2
        assert "accepted: positive sizes" in capsys.readouterr().err
    assert cli.main(["warp", str(tmp_path / "no.zarr"), str(target), "--rotate", "10"]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert not target.exists()


# Files that ask for too much memory --------------------------------------------------------------


def png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def write_bomb(path: Path) -> None:
    """A small file that says that it has 10^10 pixels."""
    if path.suffix == ".tif":
        strip = struct.pack("<HHII", 273, 4, 1, 8) + struct.pack("<HHII", 279, 4, 1, 8)
        sizes = [struct.pack("<HHII", n, 4, 1, 100_000) for n in (256, 257, 278)]
        kinds = [struct.pack("<HHII", n, 3, 1, v) for n, v in ((258, 8), (259, 8), (262, 1))]
        entries = sorted([strip[:12], strip[12:], *sizes, *kinds], key=lambda e: e[:2][::-1])
        directory = struct.pack("<H", len(entries)) + b"".join(entries) + struct.pack("<I", 0)
        path.write_bytes(struct.pack("<2sHI", b"II", 42, 16) + bytes(8) + directory)
        return
    bits, colour = (16, 2) if path.stem == "deep" else (8, 0)
    header = struct.pack(">IIBBBBB", 100_000, 100_000, bits, colour, 0, 0, 0)
    data = png_chunk(b"IDAT", zlib.compress(bytes(100)))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + data)


@pytest.mark.parametrize("name", ["plain.png", "deep.png", "x.tif"])
def test_files_made_to_fill_the_memory_are_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bomb(tmp_path / name)

    def fail(*arguments: Any, **options: Any) -> None:
        pytest.fail("pixels were made")

    monkeypatch.setattr("gridsample.io.pictures._frame", fail)
    monkeypatch.setattr("imagecodecs.png_decode", fail)
    monkeypatch.setattr("tifffile.TiffPage.asarray", fail)
    with pytest.raises(FileError, match=r"100000 x 100000 pixels in \d+ bytes.*max_pixels"):
        io.read(tmp_path / name)
    assert cli.main(["warp", str(tmp_path / name), str(tmp_path / "out.npy")]) == 2
    assert "--max-pixels 10000000000" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("suffix", ["png", "tif", "gif"])
def test_the_limit_on_pixels_can_be_lifted(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"blank.{suffix}"
    frames = [Pillow.new("L", (600, 500))] * 2
    more: dict[str, Any] = (
        {} if suffix == "tif" else {"save_all": True, "append_images": frames[1:]}
    )
    frames[0].save(path, **more, **({"compression": "tiff_deflate"} if suffix == "tif" else {}))
    for limit in (1, 299_999):
        with pytest.raises(FileError, match="500"), io.pages(path, max_pixels=limit):
            pass
    for limit in (None, 600_000, io.MAX_PIXELS):
        with io.pages(path, max_pixels=limit) as pages:
            assert pages[0].image.size == (600, 500)
