"""Image files: read one, ask what a format can hold, write one whole or not at all.

Whatever the file, an `Image` is channels-last: `(H, W, C)` for a picture, `(D, H, W, C)` for a
volume. Pixels keep the dtype they are stored with.

| format | files | holds |
|---|---|---|
| PNG | `.png` | bool (grey), uint8, uint16; grey or colour, with or without alpha |
| JPEG | `.jpg`, `.jpeg` | uint8; grey or colour |
| TIFF | `.tif`, `.tiff` | every dtype; any channels; several pages are a volume |
| NumPy | `.npy` | every dtype; `(H, W)`, `(H, W, C)`, `(D, H, W)`, `(D, H, W, C)` |
| NIfTI | `.nii`, `.nii.gz` | numbers of 8 to 64 bits; 2-D, 3-D, and 4-D as channels |

What reading does beyond copying values:

- An array of three axes is `(H, W, C)` if the last is 1 to 4 long, else a volume `(D, H, W)`.
- A palette becomes RGB, or RGBA if it has transparency; CMYK and YCbCr become RGB; an image whose
  zero means white is inverted.
- A picture that carries an orientation (EXIF) is turned upright, and the tag is dropped.
- NIfTI voxels `(i, j, k)` are x, y, z. Their *stored* numbers are sampled, and the header's scaling
  (`scl_slope`, `scl_inter`) is handed on with them.
- Of an animation, the first frame is read.

Kept from file to file of the same family: the ICC colour profile (PNG, JPEG, TIFF), the meaning of
extra TIFF channels, the NIfTI header with its affines.
"""

from __future__ import annotations

import importlib
import itertools
import math
import os
import secrets
import shutil
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class FileError(ValueError):
    """A file that cannot be read, or cannot hold what it is asked to; one clear line."""


class MissingExtraError(ImportError):
    """A file format or drawing needs a package that is not installed."""


@dataclass(frozen=True)
class Image:
    """Pixels and what is known about them.

    Attributes:
        array: `(H, W, C)` or `(D, H, W, C)`.
        format: Name of the format it was read from, `"PNG"`, ...
        has_channel_axis: Whether the file has an axis for channels. Without, C is 1 and the axis is
            left off again in formats that can tell the two apart.
        extras: What the format keeps beside the pixels, by name.
    """

    array: NDArray[Any]
    format: str
    has_channel_axis: bool
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> tuple[int, ...]:
        """The size in pixels, x first: `(W, H)` or `(W, H, D)`."""
        return self.array.shape[-2::-1]

    @property
    def channels(self) -> int:
        """How many channels each pixel has."""
        return int(self.array.shape[-1])

    @property
    def stored(self) -> NDArray[Any]:
        """The array as files keep it: without the channel axis if there was none."""
        return self.array if self.has_channel_axis else self.array[..., 0]

    def resampled(self, array: NDArray[Any], voxels: NDArray[np.float64]) -> Image:
        """Give the image new pixels, on voxels that lie elsewhere in the world.

        Args:
            array: The new pixels, channels last, as many channels as before.
            voxels: `(D + 1, D + 1)` affine, new voxel -> old voxel, in x, y, z order. A NIfTI
                header's affines are multiplied by it, so that each new voxel is where it says.
        """
        extras = dict(self.extras)
        if "nifti" in extras:
            kind, header = extras["nifti"]
            extras["nifti"] = kind, _moved_header(header, voxels)
        return Image(array, self.format, self.has_channel_axis, extras)


Rows = Callable[[int, int], NDArray[Any]]
"""Gives some rows of an image: (begin, end) -> (end - begin, ..., C)."""


@dataclass(frozen=True)
class Format:
    """One file format, as data: its names, what it holds, how it is read and written.

    Attributes:
        name: What people call it.
        suffixes: How its files' names end.
        holds: For each dtype it can store, the numbers of channels.
        ranks: Spatial ranks: 2 for pictures, 3 for volumes.
        read: `(path, volume) -> Image`.
        write: `(image, path)`, to a path that may be overwritten.
        rows: `(path, volume, stack)`, as `rows` yields; None where a file must be read whole. What
            it opens, the stack closes.
        write_rows: `(image, bands, path)`; None where bands must be collected.
    """

    name: str
    suffixes: tuple[str, ...]
    holds: Mapping[str, Container[int]]
    ranks: tuple[int, ...]
    read: Callable[[Path, bool], Image]
    write: Callable[[Image, Path], None]
    rows: Callable[[Path, bool, ExitStack], tuple[Image, Rows] | None] | None = None
    write_rows: Callable[[Image, Iterable[NDArray[Any]], Path], None] | None = None

    def fits(self, dtype: np.dtype[Any], channels: int, rank: int) -> bool:
        """Tell whether the format can store such pixels without changing them."""
        return rank in self.ranks and channels in self.holds.get(dtype.name, ())


def format_of(path: Path) -> Format:
    """Find a file's format by the end of its name.

    Raises:
        FileError: No format has such files.

    >>> format_of(Path("brain.NII.gz")).name
    'NIfTI'
    """
    for candidate in FORMATS:
        if path.name.lower().endswith(candidate.suffixes):
            return candidate
    accepted = ", ".join(suffix for candidate in FORMATS for suffix in candidate.suffixes)
    raise FileError(f"{path}: unknown kind of file; the name must end in one of {accepted}")


def read(path: Path, *, volume: bool = False) -> Image:
    """Read an image file.

    Args:
        path: A file in one of the formats above.
        volume: Take a `.npy` array of three axes as a volume `(D, H, W)` whatever its last axis.

    Raises:
        FileError: A name, content or pixel type that is not understood.
        MissingExtraError: The package that reads the format is not installed.
        OSError: The file is missing or may not be read.
    """
    kind = format_of(path)
    with path.open("rb"), _one_line(f"cannot read {path} as {kind.name}"):
        image = kind.read(path, volume)
        _check_pixels(path, image.array)
        return image


def describe(image: Image) -> list[tuple[str, str]]:
    """List what there is to know about an image, as names and values to print.

    >>> picture = Image(np.array([[[0], [255]]], np.uint8), "PNG", has_channel_axis=False)
    >>> for name, value in describe(picture):
    ...     print(name, "|", value)
    format | PNG
    size | 2 x 1
    shape | (1, 2) as (H, W)
    dtype | uint8
    channels | 1
    values | 0 to 255
    """
    letters = ["D", "H", "W", "C"][4 - image.array.ndim :][: image.stored.ndim]
    facts = [
        ("format", image.format),
        ("size", " x ".join(map(str, image.size))),
        ("shape", f"{image.stored.shape} as ({', '.join(letters)})"),
        ("dtype", image.array.dtype.name),
        ("channels", str(image.channels)),
        ("values", _value_range(image.array)),
    ]
    if "nifti" in image.extras:
        _, header = image.extras["nifti"]
        slope, inter = header.get_slope_inter()
        rows = [" ".join(f"{number:9.4g}" for number in row) for row in header.get_best_affine()]
        zooms = header.get_zooms()[: image.array.ndim - 1]
        space_unit = header.get_xyzt_units()[0]
        facts += [
            ("voxel", " x ".join(f"{zoom:g}" for zoom in zooms) + f" ({space_unit})"),
            ("affine", "\n".join(rows)),
            ("scaling", f"value = {slope:g} * stored + {inter:g}"),
        ]
    return facts


def check_writable(path: Path, dtype: np.dtype[Any], channels: int, rank: int) -> None:
    """Refuse, before any work is done, what the file at `path` could not hold.

    Raises:
        FileError: The format has no room for such pixels; the message says which formats do.
    """
    kind = format_of(path)
    if not kind.fits(dtype, channels, rank):
        pixels = f"{dtype.name} {'pictures' if rank == 2 else 'volumes'} of {_count(channels)}"
        others = [other.name for other in FORMATS if other.fits(dtype, channels, rank)]
        raise FileError(
            f"cannot write {path}: {kind.name} does not hold {pixels}"
            + (f"; {' and '.join(others)} do" if others else "")
        )


def write(image: Image, path: Path, *, overwrite: bool = False) -> None:
    """Write an image file, whole or not at all.

    Args:
        image: The pixels, with the extras of the file they came from.
        path: Where to; the end of its name decides the format. JPEG is written at quality 95 with
            full colour resolution, TIFF and NIfTI without and `.nii.gz` with compression.
        overwrite: Whether a file that is there already may be replaced.

    Raises:
        FileError: The format cannot hold the pixels, the writing failed, or the file exists.
        MissingExtraError: The package that writes the format is not installed.
        OSError: The folder may not be written.
    """
    check_writable(path, image.array.dtype, image.channels, image.array.ndim - 1)
    with replacing(path, overwrite=overwrite) as beside, _one_line(f"cannot write {path}"):
        format_of(path).write(image, beside)


@contextmanager
def rows(path: Path, *, volume: bool = False) -> Iterator[tuple[Image, Rows]]:
    """Open an image file of which only some rows at a time are to be in memory.

    That is so for `.npy` files and for TIFF pictures that are not planar, turned or of a palette.
    Others are read whole.

    Args:
        path: As in `read`.
        volume: As in `read`.

    Returns:
        The image, whose pixels may not be there yet: its array has the right shape and dtype, and
        perhaps nothing but zeros in it. And a function that gives rows (in a volume, slices)
        begin to end of them, to be called with bands that go down the image and may overlap.

    Raises:
        FileError: As `read`; also while rows are read.
        MissingExtraError: As `read`.
        OSError: As `read`.
    """
    kind = format_of(path)
    with ExitStack() as stack:
        found = None
        with path.open("rb"), _one_line(f"cannot read {path} as {kind.name}"):
            if kind.rows is not None:
                found = kind.rows(path, volume, stack)
        if found is None:
            image = read(path, volume=volume)
            yield image, lambda begin, end: image.array[begin:end]
            return
        image, pixels = found
        _check_pixels(path, image.array)

        def guarded(begin: int, end: int) -> NDArray[Any]:
            with _one_line(f"cannot read {path} as {kind.name}"):
                return pixels(begin, end)

        yield image, guarded


def write_rows(
    image: Image, bands: Iterable[NDArray[Any]], path: Path, *, overwrite: bool = False
) -> None:
    """Write an image file from bands of rows, whole or not at all.

    TIFF pictures and `.npy` files are written as the bands come; for others they are collected.

    Args:
        image: What to write, but for the pixels: of its array, shape and dtype matter.
        bands: The pixels from the first row (in a volume, slice) to the last, channels last; all
            but the last band of the same number of rows.
        path: As in `write`.
        overwrite: As in `write`.

    Raises:
        FileError: As `write`.
        MissingExtraError: As `write`.
        OSError: As `write`.
    """
    kind = format_of(path)
    check_writable(path, image.array.dtype, image.channels, image.array.ndim - 1)
    if kind.write_rows is None or (kind.name == "TIFF" and image.array.ndim > 3):
        pixels = np.concatenate([*bands])
        whole = Image(pixels, image.format, image.has_channel_axis, image.extras)
        write(whole, path, overwrite=overwrite)
        return
    with replacing(path, overwrite=overwrite) as beside:
        kind.write_rows(image, bands, beside)


def check_output(path: Path, *, overwrite: bool) -> None:
    """Refuse an output path that is a folder, in no folder, or taken.

    Raises:
        FileError: With the reason.
    """
    if path.is_dir():
        raise FileError(f"{path} is a folder; name a file to write")
    if not path.parent.is_dir():
        raise FileError(f"there is no folder {path.parent} to write {path.name} in")
    if path.exists() and not overwrite:
        raise FileError(f"{path} exists; --force replaces it")


@contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Lend a path to write to; what is there at the end becomes `path` in one step.

    The lent file lies in the same folder under a hidden name of the same suffix. If the block
    raises, it is removed, and `path` is as it was.

    Raises:
        FileError: What `check_output` refuses.
        OSError: The folder may not be written.
    """
    check_output(path, overwrite=overwrite)
    target = path.resolve()
    beside = target.with_name(f".{secrets.token_hex(8)}.{target.name[-32:]}")
    try:
        beside.touch(exist_ok=False)
        if target.exists():
            shutil.copymode(target, beside)
        yield beside
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def load_npy(path: Path) -> NDArray[Any]:
    """Map a `.npy` file into memory; nothing in it is ever unpickled.

    Raises:
        FileError: Not a `.npy` file, cut short, or holding objects.
        OSError: The file is missing or may not be read.
    """
    with path.open("rb") as file, _one_line(f"cannot read {path} as NumPy"):
        if file.read(6) != b"\x93NUMPY":
            raise FileError(f"{path} is not a .npy file")
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return array


def require(module: str) -> Any:
    """Import a module that the core does without.

    Raises:
        MissingExtraError: With the command that installs it.

    >>> require("no_such_module")
    Traceback (most recent call last):
    gridsample.io.MissingExtraError: this needs no_such_module: pip install "gridsample[cli]"
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(f'this needs {package}: pip install "gridsample[cli]"') from error


# ---- PNG and JPEG -------------------------------------------------------------------------------


def _read_picture(path: Path, volume: bool) -> Image:
    with path.open("rb") as file:
        head = file.read(26)
        if not head.startswith((b"\x89PNG", b"\xff\xd8")):
            raise FileError(f"{path} is neither a PNG nor a JPEG file, whatever its name")
        if head.startswith(b"\x89PNG") and head[24:25] == b"\x10" and head[25] != 0:
            codecs = require("imagecodecs")
            return Image(codecs.png_decode(path.read_bytes()), "PNG", has_channel_axis=True)
        file.seek(0)
        with _large_pictures(), require("imageio.v3").imopen(file, "r", plugin="pillow") as source:
            about = source.metadata(index=0, exclude_applied=False)
            mode = _plain_mode(about["mode"], transparent="transparency" in about)
            array = source.read(index=0, mode=mode, writeable_output=False)
    flat = array.ndim == 2
    array = _upright(array[..., None] if flat else array, about.get("Orientation", 1))
    keeps_profile = about["mode"] != "CMYK" and about.get("icc_profile")
    extras = {"icc_profile": about["icc_profile"]} if keeps_profile else {}
    return Image(array, "PNG" if head.startswith(b"\x89") else "JPEG", not flat, extras)


def _plain_mode(mode: str, *, transparent: bool) -> str | None:
    """Choose the Pillow mode with one number per channel; None where it is that already."""
    if transparent and mode in ("1", "L", "RGB", "P"):
        return "LA" if mode in ("1", "L") else "RGBA"
    return {"P": "RGB", "PA": "RGBA", "CMYK": "RGB", "YCbCr": "RGB"}.get(mode)


@contextmanager
def _large_pictures() -> Iterator[None]:
    """Let Pillow open a picture of any size: it is the user's own."""
    pillow = require("PIL.Image")
    limit, pillow.MAX_IMAGE_PIXELS = pillow.MAX_IMAGE_PIXELS, None
    try:
        yield
    finally:
        pillow.MAX_IMAGE_PIXELS = limit


def _upright(array: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Undo an EXIF orientation: 1 to 4 stand upright, 5 to 8 are the same four on their side."""
    if not 1 <= orientation <= 8:
        return array
    if orientation > 4:
        array = array.swapaxes(-3, -2)
    turn = (orientation - 1) % 4
    down, right = (-1 if turn in (2, 3) else 1), (-1 if turn in (1, 2) else 1)
    return array[..., ::down, ::right, :]


def _write_png(image: Image, path: Path) -> None:
    if image.array.dtype == np.uint16 and image.channels > 1:
        codecs = require("imagecodecs")
        path.write_bytes(codecs.png_encode(np.ascontiguousarray(image.array)))
    else:
        _write_picture(image, path, ".png")


def _write_jpeg(image: Image, path: Path) -> None:
    _write_picture(image, path, ".jpg", quality=95, subsampling=0)


def _write_picture(image: Image, path: Path, extension: str, **options: Any) -> None:
    array = image.array[..., 0] if image.channels == 1 else image.array
    profile = {key: image.extras[key] for key in ("icc_profile",) if key in image.extras}
    with path.open("wb") as file:
        require("imageio.v3").imwrite(
            file, array, extension=extension, plugin="pillow", **options, **profile
        )


# ---- TIFF ---------------------------------------------------------------------------------------


def _read_tiff(path: Path, volume: bool) -> Image:
    tifffile = require("tifffile")
    with tifffile.TiffFile(path) as file:
        if len(file.series) != 1:
            raise FileError(f"{path} holds {len(file.series)} images of different kinds; 1 is read")
        series, page = file.series[0], file.series[0].keyframe
        photometric = tifffile.PHOTOMETRIC(page.photometric).name
        if photometric not in ("MINISBLACK", "MINISWHITE", "RGB", "PALETTE"):
            raise FileError(f"{path} has {photometric} colours; grey, RGB and palettes are read")
        array, has_channel_axis = _channels_last(series.asarray(), series.axes, path)
        tags = {tag.name: tag.value for tag in page.tags}
    extras = {"photometric": photometric.lower(), "extrasamples": tuple(page.extrasamples)}
    if photometric == "PALETTE":
        array, has_channel_axis = (page.colormap.T >> 8).astype(np.uint8)[array[..., 0]], True
        extras = {}
    elif photometric == "MINISWHITE" and array.dtype.kind in "bu":
        array = np.invert(array)
        extras["photometric"] = "minisblack"
    if "InterColorProfile" in tags:
        extras["icc_profile"] = bytes(tags["InterColorProfile"])
    return Image(_upright(array, int(tags.get("Orientation", 1))), "TIFF", has_channel_axis, extras)


def _channels_last(array: NDArray[Any], axes: str, path: Path) -> tuple[NDArray[Any], bool]:
    """Bring TIFF axes, one letter each, to (H, W, C) or (D, H, W, C)."""
    channel = next((letter for letter in "SC" if letter in axes), None)
    slices = [letter for letter in axes if letter not in ("Y", "X", channel)]
    if "Y" not in axes or "X" not in axes or len(slices) > 1:
        raise FileError(f"{path} has axes {axes}; Y, X, channels and one of slices are read")
    if channel is None:
        array, axes = array[..., None], axes + "S"
    order = [axes.index(letter) for letter in (*slices, "Y", "X", channel or "S")]
    return array.transpose(order), channel is not None


def _tiff_options(image: Image) -> dict[str, Any]:
    colour = image.channels in (3, 4)
    extrasamples = image.extras.get("extrasamples", ("unassalpha",) * (image.channels in (2, 4)))
    axes = "ZYXS"[4 - image.array.ndim :]
    return {
        "photometric": image.extras.get("photometric", "rgb" if colour else "minisblack"),
        "planarconfig": "contig" if image.channels > 1 else None,
        "extrasamples": extrasamples or None,
        "iccprofile": image.extras.get("icc_profile"),
        "metadata": {"axes": axes if image.has_channel_axis else axes[:-1]},
    }


def _write_tiff(image: Image, path: Path) -> None:
    array = np.ascontiguousarray(image.stored)
    require("tifffile").imwrite(path, array, **_tiff_options(image))


def _tiff_rows(path: Path, volume: bool, stack: ExitStack) -> tuple[Image, Rows] | None:
    """Rows of a picture: from where they lie in the file, or from strips and tiles in turn."""
    tifffile = require("tifffile")
    file = stack.enter_context(tifffile.TiffFile(path))
    series, page = file.series[0], file.series[0].keyframe
    photometric = tifffile.PHOTOMETRIC(page.photometric).name
    plain = photometric in ("MINISBLACK", "RGB") and series.axes in ("YX", "YXS")
    tags = {tag.name: tag.value for tag in page.tags}
    if len(file.series) != 1 or not plain or page.dtype is None or tags.get("Orientation", 1) != 1:
        return None
    dtype = series.dtype.newbyteorder("=")
    array = np.broadcast_to(np.zeros((), dtype), (*page.shape[:2], page.samplesperpixel))
    extras: dict[str, Any] = {
        "photometric": photometric.lower(),
        "extrasamples": tuple(page.extrasamples),
    }
    if "InterColorProfile" in tags:
        extras["icc_profile"] = bytes(tags["InterColorProfile"])
    image = Image(array, "TIFF", series.axes == "YXS", extras)
    if series.dataoffset is not None and page.is_memmappable:
        stored = dtype.newbyteorder(file.byteorder)
        return image, _file_rows(path, stored, array.shape, series.dataoffset)
    return image, _SegmentRows(page, array.shape, dtype).read


class _SegmentRows:
    """The rows of a TIFF page that is stored in strips or tiles, decoded one after the other.

    Rows that were once asked for, and lie before those asked for now, are forgotten.
    """

    def __init__(self, page: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.segments = page.segments(maxworkers=1, buffersize=1 << 22)
        self.shape, self.start, self.done = shape, 0, 0
        # As many rows as there are decoded at once when a strip, or a row of tiles, has begun.
        self.height = min(page.tilelength if page.is_tiled else page.rowsperstrip, shape[0])
        self.across = -(-shape[1] // page.tilewidth) if page.is_tiled else 1
        self.kept = np.empty((0, *shape[1:]), dtype)

    def read(self, begin: int, end: int) -> NDArray[Any]:
        """Rows begin to end."""
        bands, skipped = [self.kept[begin - self.start :]], max(0, begin - self.done)
        while self.done < end:
            bands.append(self._band())
        self.kept, self.start = np.concatenate(bands)[skipped:], begin
        return self.kept[: end - begin]

    def _band(self) -> NDArray[Any]:
        """The next strip, or row of tiles."""
        rows = min(self.height, self.shape[0] - self.done)
        band = np.zeros((rows, *self.shape[1:]), self.kept.dtype)
        for _ in range(self.across):
            pixels, place, _ = next(self.segments)
            if pixels is not None:  # what is left out is 0
                x = place[3]
                part = pixels[0, :rows, : self.shape[1] - x]
                band[:, x : x + part.shape[1]] = part
        self.done += rows
        return band


def _write_tiff_rows(image: Image, bands: Iterable[NDArray[Any]], path: Path) -> None:
    shape, dtype = image.stored.shape, image.array.dtype
    strips = (
        np.ascontiguousarray(band if image.has_channel_axis else band[..., 0]) for band in bands
    )
    first = next(strips)
    large = math.prod(shape) * dtype.itemsize > 2**32 - 2**25
    with require("tifffile").TiffWriter(path, bigtiff=large) as file:
        file.write(
            itertools.chain([first], strips), shape=shape, dtype=dtype, rowsperstrip=len(first),
            **_tiff_options(image),
        )  # fmt: skip


# ---- NumPy --------------------------------------------------------------------------------------


def _read_npy(path: Path, volume: bool) -> Image:
    array = load_npy(path)
    if array.ndim not in (2, 3, 4):
        raise FileError(
            f"{path} has shape {array.shape}; "
            "(H, W), (H, W, C), (D, H, W) and (D, H, W, C) are read"
        )
    flat = array.ndim == 2 or (array.ndim == 3 and (volume or not 1 <= array.shape[2] <= 4))
    return Image(array[..., None] if flat else array, "NumPy", not flat)


def _npy_rows(path: Path, volume: bool, stack: ExitStack) -> tuple[Image, Rows] | None:
    image = _read_npy(path, volume)
    mapped = load_npy(path)
    if not isinstance(mapped, np.memmap) or not mapped.flags.c_contiguous:
        return None
    shape = image.array.shape
    array = np.broadcast_to(np.zeros((), mapped.dtype), shape)
    kept = Image(array, image.format, image.has_channel_axis)
    return kept, _file_rows(path, mapped.dtype, shape, mapped.offset)


def _file_rows(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> Rows:
    """Rows that lie one after the other in a file.

    They are read rather than mapped, lest all of the file count as memory in use.
    """
    row = math.prod(shape[1:])

    def read(begin: int, end: int) -> NDArray[Any]:
        start, count = offset + begin * row * dtype.itemsize, (end - begin) * row
        flat = np.fromfile(path, dtype, count, offset=start)
        return flat.reshape(end - begin, *shape[1:]).astype(dtype.newbyteorder("="), copy=False)

    return read


def _write_npy_rows(image: Image, bands: Iterable[NDArray[Any]], path: Path) -> None:
    about = {
        "descr": np.lib.format.dtype_to_descr(image.array.dtype),
        "fortran_order": False,
        "shape": image.stored.shape,
    }
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, about)
        for band in bands:
            file.write(np.ascontiguousarray(band).data)


def _write_npy(image: Image, path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, image.stored, allow_pickle=False)


# ---- NIfTI --------------------------------------------------------------------------------------


def _read_nifti(path: Path, volume: bool) -> Image:
    nibabel = require("nibabel")
    source = nibabel.load(path)
    stored = source.dataobj.get_unscaled()
    if stored.ndim not in (2, 3, 4):
        raise FileError(f"{path} has {stored.ndim} axes; 2 to 4 are read")
    header = source.header.copy()
    header.set_slope_inter(source.dataobj.slope, source.dataobj.inter)
    array = stored.T if stored.ndim < 4 else np.moveaxis(stored.T, 0, -1)
    flat = stored.ndim < 4
    extras = {"nifti": (type(source), header)}
    return Image(array[..., None] if flat else array, "NIfTI", not flat, extras)


def _write_nifti(image: Image, path: Path) -> None:
    nibabel = require("nibabel")
    if image.has_channel_axis:
        spatial_first = np.moveaxis(image.array, -1, 0).T
        voxels = spatial_first if image.array.ndim == 4 else spatial_first[:, :, None]
    else:
        voxels = image.stored.T
    if "nifti" in image.extras:
        kind, header = image.extras["nifti"]
        header = header.copy()
        header.set_data_dtype(voxels.dtype)
        # No affine: the header keeps its own two, each with its code.
        target = kind(voxels, None, header)
        target.header.set_slope_inter(*header.get_slope_inter())
        target.to_filename(path)
    else:
        nibabel.Nifti1Image(voxels, np.eye(4), dtype=voxels.dtype).to_filename(path)


def _moved_header(header: Any, voxels: NDArray[np.float64]) -> Any:
    """Multiply both affines of a NIfTI header, and its voxel sizes, by new voxel -> old voxel."""
    rank = voxels.shape[0] - 1
    matrix = np.eye(4)
    matrix[:rank, :rank], matrix[:rank, 3] = voxels[:rank, :rank], voxels[:rank, rank]
    moved = header.copy()
    if np.array_equal(matrix, np.eye(4)):
        return moved
    zooms = np.array(header.get_zooms())
    zooms[:rank] *= np.linalg.norm(voxels[:rank, :rank], axis=0)
    moved.set_zooms(zooms)
    for get, put in ((header.get_qform, moved.set_qform), (header.get_sform, moved.set_sform)):
        old, code = get(coded=True)
        if code:
            put(old @ matrix, code)
    return moved


# ---- shared -------------------------------------------------------------------------------------


@contextmanager
def _one_line(doing: str) -> Iterator[None]:
    """Turn whatever a codec raises over bad content into one line that names the file."""
    try:
        yield
    except (FileError, MissingExtraError, MemoryError):
        raise
    except Exception as error:
        raise FileError(f"{doing}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """Say in one line what an exception is about, without the numbers of the operating system."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _check_pixels(path: Path, array: NDArray[Any]) -> None:
    if array.dtype.name not in _EVERY_DTYPE:
        raise FileError(f"{path} has pixels of dtype {array.dtype}; numbers and bool are read")
    if 0 in array.shape:
        raise FileError(f"{path} is empty: its shape is {array.shape}")


def _value_range(array: NDArray[Any]) -> str:
    """Give the least and the greatest value, of magnitudes for complex pixels, NaN set apart."""
    values = np.abs(array) if array.dtype.kind == "c" else array
    missing = int(np.isnan(values).sum())
    if missing == values.size:
        return "all NaN"
    low, high = np.nanmin(values), np.nanmax(values)
    kind = "magnitudes " if array.dtype.kind == "c" else ""
    return f"{kind}{low} to {high}" + (f", and {missing} NaN" if missing else "")


def _count(channels: int) -> str:
    return "1 channel" if channels == 1 else f"{channels} channels"


_ANY = range(1, 1 << 16)
_WHOLE = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_WIDE = ["float32", "float64", "complex64", "complex128"]
_EVERY_DTYPE = ["bool", *_WHOLE, "float16", *_WIDE]

FORMATS = (
    Format(
        "PNG",
        (".png",),
        {"bool": (1,), "uint8": (1, 2, 3, 4), "uint16": (1, 2, 3, 4)},
        (2,),
        _read_picture,
        _write_png,
    ),
    Format("JPEG", (".jpg", ".jpeg"), {"uint8": (1, 3)}, (2,), _read_picture, _write_jpeg),
    Format(
        "TIFF",
        (".tif", ".tiff"),
        {**dict.fromkeys(_EVERY_DTYPE, _ANY), "bool": (1,)},
        (2, 3),
        _read_tiff,
        _write_tiff,
        _tiff_rows,
        _write_tiff_rows,
    ),
    Format(
        "NumPy",
        (".npy",),
        dict.fromkeys(_EVERY_DTYPE, _ANY),
        (2, 3),
        _read_npy,
        _write_npy,
        _npy_rows,
        _write_npy_rows,
    ),
    Format(
        "NIfTI",
        (".nii", ".nii.gz"),
        dict.fromkeys([*_WHOLE, *_WIDE], _ANY),
        (2, 3),
        _read_nifti,
        _write_nifti,
    ),
)
"""Every format, in the order in which messages name them."""
