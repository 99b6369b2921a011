"""TIFF files: every page is a separate image, or all pages are the slices of one volume.

Pages are read and written one after the other, most of them in bands of rows.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample.alpha import Alpha
from gridsample.io import geotiff
from gridsample.io import tags as exif
from gridsample.io.arrays import file_rows
from gridsample.io.image import (
    Bands,
    FileError,
    Image,
    Page,
    Rows,
    check_pixels,
    require,
    whole_page,
    zeros,
)
from gridsample.io.pictures import upright

_CLASSIC_LIMIT = 2**32 - 2**25  # bytes of pixels above which offsets take 64 bits
# Descriptions that software generates to describe how pixels are stored.
_GENERATED = re.compile(rb'\{.*"shape"|shape=\(|<\?xml', re.DOTALL)
_PROFILE = 34675  # the tag of an ICC colour profile
_NODATA = 42113  # GDAL's tag of the nodata value, as text
# GDAL's tag of XML with metadata: scales, offsets and descriptions of bands, and anything else.
_GDAL_METADATA = 42112
# Items of it that describe the old pixels.
_STATISTICS = re.compile(r"\s*<Item[^>]*\bname=\"STATISTICS_[^>]*>[^<]*</Item>")
_STRIP = 1 << 18  # approximate size of a strip in bytes: what readers decode at once


# ---- reading ------------------------------------------------------------------------------------


def read_pages(path: Path, volume: bool, stack: ExitStack, limit: int | None) -> list[Page]:
    """Read the pages of a file, or with `volume` its only series of pages as one volume."""
    tifffile = require("tifffile")
    file = stack.enter_context(tifffile.TiffFile(path))
    if volume and (len(file.pages) > 1 or file.series[0].ndim > file.pages[0].ndim):
        check_pixels(path, file.series[0].shape, limit)
        return [_volume(path, file)]
    pages = list(file.pages)
    for page in pages:
        check_pixels(path, (page.imagewidth, page.imagelength), limit)
    if len(pages) > 1:
        return [_page(path, file, page, f"page {n} of {path}") for n, page in enumerate(pages, 1)]
    return _contiguous_pages(path, file, pages[0]) or [_page(path, file, pages[0], f"{path}")]


def _volume(path: Path, file: Any) -> Page:
    if len(file.series) != 1:
        raise FileError(
            f"{path} holds {len(file.series)} images of different kinds, which cannot form a "
            "volume; without --volume, each is a page"
        )
    series, page = file.series[0], file.series[0].keyframe
    return whole_page(_image(series.asarray(), series.axes, page, file, f"{path}"))


def _contiguous_pages(path: Path, file: Any, page: Any) -> list[Page] | None:
    """Read the pages of a file that describes one page and stores the pixels of more after it.

    tifffile and ImageJ can write such files.
    """
    series = file.series[0]
    count = math.prod(series.shape) // math.prod(page.shape)
    if len(file.series) != 1 or count < 2 or series.dataoffset is None:
        return None
    image = _image(zeros(page.shape, page.dtype), page.axes, page, file, f"{path}", loaded=False)
    if image.array.shape[:-1] != page.shape[:2]:
        return None
    stored, shape = page.dtype.newbyteorder(file.byteorder), image.array.shape
    step = math.prod(shape) * stored.itemsize
    offsets = [series.dataoffset + n * step for n in range(count)]
    return [Page(image, functools.partial(file_rows, path, stored, shape, at)) for at in offsets]


def _page(path: Path, file: Any, page: Any, name: str) -> Page:
    """Return a page that reads rows directly, decodes strips or tiles in turn, or reads it all."""
    if page.dtype is None:
        raise FileError(f"{name} has pixels of an unknown type")
    image = _image(zeros(page.shape, page.dtype), page.axes, page, file, name, loaded=False)
    turned = _orientation(page) != 1
    if _photometric(page) not in ("MINISBLACK", "RGB") or page.axes not in ("YX", "YXS") or turned:

        def read() -> Rows:
            pixels = _image(page.asarray(), page.axes, page, file, name).array
            return lambda begin, end: pixels[begin:end]

        return Page(image, read)
    shape, dtype = image.array.shape, image.array.dtype
    if page.is_memmappable:
        stored = dtype.newbyteorder(file.byteorder)
        return Page(image, functools.partial(file_rows, path, stored, shape, page.dataoffsets[0]))
    return Page(image, lambda: _SegmentRows(page, shape, dtype).read)


class Storage(NamedTuple):
    """How a page is stored, as far as it is preserved.

    Attributes:
        compression: tifffile's name of a compression without losses, or None.
        predictor: whether differences of neighbouring pixels are compressed.
        tile: the height and width of tiles, or None for strips.
        bigtiff: whether offsets in the file have 64 bits.
    """

    compression: str | None = None
    predictor: bool = False
    tile: tuple[int, int] | None = None
    bigtiff: bool = False


def _storage(page: Any, file: Any) -> Storage:
    """Return how to store new pixels of a page: without the losses of JPEG, say, but as small."""
    name = str(require("tifffile").COMPRESSION(page.compression).name)
    lossless = {
        "ADOBE_DEFLATE": "zlib",
        "DEFLATE": "zlib",
        "LZW": "lzw",
        "PACKBITS": "packbits",
        "ZSTD": "zstd",
        "LZMA": "lzma",
    }
    compression = None if name == "NONE" else lossless.get(name, "zlib")
    tile = (page.tilelength, page.tilewidth) if page.is_tiled else None
    predictor = page.predictor != 1 and name in lossless
    return Storage(compression, predictor, tile, bool(file.is_bigtiff))


def _as_rgb(array: NDArray[Any], photometric: str, page: Any) -> NDArray[Any]:
    """Convert CMYK and YCbCr to RGB, as Pillow does."""
    if photometric == "YCBCR":  # tifffile has converted what JPEG stores
        if page.compression in (6, 7):
            return array
        picture = require("PIL.Image").frombytes("YCbCr", array.shape[1::-1], array.tobytes())
        return np.array(picture.convert("RGB"))
    white = np.iinfo(array.dtype).max
    ink, rest = array[..., :3].astype(np.uint64), white - array[..., 3:].astype(np.uint64)
    return (rest - (ink * rest + white // 2) // white).astype(array.dtype)


def _image(
    array: NDArray[Any], axes: str, page: Any, file: Any, name: str, *, loaded: bool = True
) -> Image:
    """Convert stored pixels to an image with the metadata of the page.

    With loaded=False, the pixels are a placeholder (`zeros`) and are not converted.
    """
    photometric = _photometric(page)
    if not _known_colours(photometric, page):
        raise FileError(
            f"{name} has {photometric} colours; accepted: grey, RGB, palettes, and CMYK and YCbCr "
            "of 8 bits, interleaved and without alpha"
        )
    alpha = _alpha(page.samplesperpixel, page.extrasamples) if "S" in axes else None
    array, has_channel_axis = _channels_last(array, axes, name)
    extras: dict[str, Any] = {
        "photometric": photometric.lower(),
        "extrasamples": tuple(page.extrasamples),
    }
    if photometric == "PALETTE":
        palette = (page.colormap.T >> 8).astype(np.uint8)
        indices, has_channel_axis = array[..., 0], True
        array = palette[indices] if loaded else zeros((*indices.shape, 3), palette.dtype)
        extras, alpha = {"palette": True}, None
    elif photometric in ("SEPARATED", "YCBCR"):
        rgb = zeros((*array.shape[:-1], 3), array.dtype)
        array = _as_rgb(array, photometric, page) if loaded else rgb
        extras = {}
    elif photometric == "MINISWHITE" and array.dtype.kind == "u":
        array = np.invert(array) if loaded else array
        extras["photometric"] = "minisblack"
    if photometric in ("MINISBLACK", "RGB"):
        extras |= _nodata(page) | _gdal_metadata(page)
    extras |= _metadata(page, file)
    if photometric == "SEPARATED":
        extras.pop("icc_profile", None)  # it is of CMYK
    storage = _storage(page, file)
    if storage != Storage():
        extras["storage"] = storage
    georeference = geotiff.read(page.tags) if _orientation(page) == 1 else None
    if georeference is not None:
        extras["geotiff"] = georeference
    array = upright(array, _orientation(page))
    return Image(array, "TIFF", has_channel_axis, extras, alpha)


def _known_colours(photometric: str, page: Any) -> bool:
    """Whether the colours of a page can be read."""
    if photometric in ("SEPARATED", "YCBCR"):
        samples = 4 if photometric == "SEPARATED" else 3
        is_bytes = page.dtype == np.uint8
        return bool(is_bytes and page.samplesperpixel == samples and page.axes == "YXS")
    return photometric in ("MINISBLACK", "MINISWHITE", "RGB", "PALETTE")


def _photometric(page: Any) -> str:
    return str(require("tifffile").PHOTOMETRIC(page.photometric).name)


def _orientation(page: Any) -> int:
    tag = page.tags.get(exif.ORIENTATION)
    return 1 if tag is None else int(tag.value)


def _alpha(samples: int, extra: Sequence[int]) -> Alpha | None:
    """Return the alpha channel, given the kinds of extra samples: 1 premultiplied, 2 not."""
    for n, sample_type in enumerate(extra):
        if sample_type in (1, 2):
            return Alpha(samples - len(extra) + n, samples - len(extra), sample_type == 1)
    return None


def _metadata(page: Any, file: Any) -> dict[str, Any]:
    """Return the metadata of a page that remains valid for new pixels."""
    handle, order = file.filehandle, file.byteorder
    tags, orientation, resolution = exif.read_directories(
        handle, page.offset, order, file.is_bigtiff
    )
    image_tags = dict(tags.get(exif.IMAGE, {}))
    description = image_tags.get(exif.DESCRIPTION)
    if description is not None and _GENERATED.match(description.data):
        del image_tags[exif.DESCRIPTION]
    software = image_tags.get(exif.SOFTWARE)
    if software is not None and software.data.rstrip(b"\0") == b"tifffile.py":
        del image_tags[exif.SOFTWARE]
    tags = {n: directory for n, directory in {**tags, exif.IMAGE: image_tags}.items() if directory}
    profile, subfile_type = page.tags.get(_PROFILE), page.tags.get(254)
    metadata = {
        "icc_profile": bytes(profile.value) if profile is not None else None,
        "exif": tags,
        "resolution": exif.upright_resolution(resolution, orientation),
        "subfiletype": int(subfile_type.value) if subfile_type is not None else 0,
    }
    return {name: value for name, value in metadata.items() if value}


def _nodata(page: Any) -> dict[str, Any]:
    """Return the nodata value, if the page names one."""
    tag = page.tags.get(_NODATA)
    text = "" if tag is None else str(tag.value).strip("\0 ")
    for number_type in (int, float):
        with contextlib.suppress(ValueError):
            return {"nodata": number_type(text)}
    return {}


def _gdal_metadata(page: Any) -> dict[str, Any]:
    """Return the XML of GDAL's metadata that remains valid for new pixels, if the page has any."""
    tag = page.tags.get(_GDAL_METADATA)
    text = "" if tag is None else _STATISTICS.sub("", str(tag.value)).strip("\0 ")
    return {"gdal_metadata": text} if "<Item" in text else {}


def _channels_last(array: NDArray[Any], axes: str, name: str) -> tuple[NDArray[Any], bool]:
    """Transpose TIFF axes, given as letters, to (H, W, C) or (D, H, W, C)."""
    channel = next((letter for letter in "SC" if letter in axes), None)
    slices = [letter for letter in axes if letter not in ("Y", "X", channel)]
    if "Y" not in axes or "X" not in axes or len(slices) > 1:
        raise FileError(f"{name} has axes {axes}; accepted: Y, X, channels and one axis of slices")
    if channel is None:
        array, axes = array[..., None], axes + "S"
    order = [axes.index(letter) for letter in (*slices, "Y", "X", channel or "S")]
    return array.transpose(order), channel is not None


class _SegmentRows:
    """The rows of a page that is stored in strips or tiles, decoded one after the other.

    Rows above the requested ones are discarded.
    """

    def __init__(self, page: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.segments = page.segments(maxworkers=1, buffersize=1 << 22)
        self.shape, self.start, self.done = shape, 0, 0
        # The number of rows that are decoded together: those of a strip or of a row of tiles.
        self.height = min(page.tilelength if page.is_tiled else page.rowsperstrip, shape[0])
        self.across = -(-shape[1] // page.tilewidth) if page.is_tiled else 1
        self.buffer = np.empty((0, *shape[1:]), dtype)

    def read(self, begin: int, end: int) -> NDArray[Any]:
        """Return rows begin to end."""
        bands, skipped = [self.buffer[begin - self.start :]], max(0, begin - self.done)
        while self.done < end:
            bands.append(self._band())
        self.buffer, self.start = np.concatenate(bands)[skipped:], begin
        return self.buffer[: end - begin]

    def _band(self) -> NDArray[Any]:
        """Decode the next strip or row of tiles."""
        rows = min(self.height, self.shape[0] - self.done)
        band = np.zeros((rows, *self.shape[1:]), self.buffer.dtype)
        for _ in range(self.across):
            pixels, index, _ = next(self.segments)
            if pixels is not None:  # missing segments are 0
                x = index[3]
                part = pixels[0, :rows, : self.shape[1] - x]
                band[:, x : x + part.shape[1]] = part
        self.done += rows
        return band


# ---- writing ------------------------------------------------------------------------------------


def write_pages(images: Sequence[Image], bands: Iterable[Bands], path: Path) -> None:
    """Write pages or one volume, one band at a time."""
    size = sum(image.array.nbytes for image in images)
    storages = [image.extras.get("storage", Storage()) for image in images]
    large = size > _CLASSIC_LIMIT or any(storage.bigtiff for storage in storages)
    with require("tifffile").TiffWriter(path, bigtiff=large, byteorder="<") as file:
        for image, rows in zip(images, bands, strict=True):
            _write_page(file, image, rows, large)
    _remove_defaults(images, path, large)
    _append_directories(images, path, large)


def _write_page(file: Any, image: Image, bands: Bands, bigtiff: bool) -> None:
    shape, dtype = image.array.shape, image.array.dtype
    if image.channels == 1:  # TIFF has no axis for one channel
        shape, bands = shape[:-1], (band[..., 0] for band in bands)
    storage: Storage = image.extras.get("storage", Storage())
    storage_options: dict[str, Any] = {"compression": storage.compression, "tile": storage.tile}
    if dtype.kind == "b":  # eight pixels are packed into a byte, which needs whole pages
        file.write(np.concatenate([*bands]), **storage_options, **_options(image, bigtiff))
        return
    height = shape[0] if image.array.ndim == 3 else shape[1]
    row = image.size[0] * image.channels * dtype.itemsize
    stored = dtype.newbyteorder("<")
    rows: Iterable[Any] = (np.ascontiguousarray(band, stored) for band in bands)
    strip = max(1, min(height, _STRIP // row))
    # tifffile has no differences of 64-bit integers.
    if storage.predictor and (dtype.kind == "f" or (dtype.kind in "iu" and dtype.itemsize < 8)):
        storage_options["predictor"] = 3 if dtype.kind == "f" else 2
    slices = (page for band in rows for page in band)
    if storage.tile:
        parts = ([page] for page in slices) if image.array.ndim == 4 else [rows]
        rows = (tile for part in parts for tile in _tiles(part, *storage.tile))
    elif storage.compression and image.array.ndim == 4:
        rows = slices
    elif storage.compression:
        rows = _strips(
            rows, strip, storage.compression, storage_options.get("predictor", 1), image.channels
        )
    if not storage.tile:
        storage_options["rowsperstrip"] = strip
    file.write(
        iter(rows),
        shape=shape,
        dtype=stored,
        maxworkers=1,
        **storage_options,
        **_options(image, bigtiff),
    )


def _grouped(bands: Iterable[NDArray[Any]], count: int) -> Iterator[NDArray[Any]]:
    """Divide the rows of bands into groups of equal numbers of rows; the last may have fewer."""
    pending: list[NDArray[Any]] = []
    for band in bands:
        pending.append(band)
        if sum(map(len, pending)) >= count:
            rows = np.concatenate(pending) if len(pending) > 1 else pending[0]
            complete = len(rows) // count * count
            yield from (rows[begin : begin + count] for begin in range(0, complete, count))
            pending = [rows[complete:]] if complete < len(rows) else []
    if pending:
        yield np.concatenate(pending)


def _tiles(bands: Iterable[NDArray[Any]], height: int, width: int) -> Iterator[NDArray[Any]]:
    """Yield the tiles of a page, row after row."""
    for rows in _grouped(bands, height):
        for x in range(0, rows.shape[1], width):
            yield np.ascontiguousarray(rows[:, x : x + width])


def _strips(
    bands: Iterable[NDArray[Any]], count: int, compression: str, predictor: int, channels: int
) -> Iterator[bytes]:
    """Yield the compressed strips of a page."""
    tifffile = require("tifffile")
    name = "ADOBE_DEFLATE" if compression == "zlib" else compression.upper()
    compress = tifffile.TIFF.COMPRESSORS[tifffile.COMPRESSION[name]]
    subtract = tifffile.TIFF.PREDICTORS[predictor] if predictor > 1 else None
    for rows in _grouped(bands, count):
        pixels = rows if subtract is None else subtract(rows, axis=-1 if channels == 1 else -2)
        yield bytes(compress(np.ascontiguousarray(pixels)))


def _options(image: Image, bigtiff: bool) -> dict[str, Any]:
    """Return tifffile's options for writing a page."""
    channels, volume, extras = image.channels, image.array.ndim > 3, image.extras
    axes = "ZYXS"[4 - image.array.ndim :]
    tags = extras.get("exif", {})
    metadata = [(number, *tag, True) for number, tag in tags.get(exif.IMAGE, {}).items()]
    if "icc_profile" in extras:
        profile = extras["icc_profile"]
        metadata.append((_PROFILE, 7, len(profile), profile, True))
    if "nodata" in extras:
        metadata.append(_text(_NODATA, f"{extras['nodata']}"))
    if "gdal_metadata" in extras:
        metadata.append(_text(_GDAL_METADATA, extras["gdal_metadata"]))
    if "geotiff" in extras:
        metadata += extras["geotiff"].tags()
    # The directories that they point to are appended later.
    pointers = [
        (name, "Q" if bigtiff else "I", 1, 0, True)
        for pointer, name in _POINTERS.items()
        if pointer in tags
    ]
    return {
        "photometric": extras.get("photometric", "rgb" if channels in (3, 4) else "minisblack"),
        "planarconfig": "contig" if channels > 1 else None,
        "extrasamples": _extra_samples(image),
        "subfiletype": extras.get("subfiletype"),
        "metadata": {"axes": axes if channels > 1 else axes[:-1]} if volume else None,
        "software": False,
        "extratags": [*metadata, *pointers],
        **_resolution(extras.get("resolution")),
    }


def _text(number: int, text: str) -> geotiff.ExtraTag:
    """Return a tag of text as tifffile writes it."""
    data = text.encode() + b"\0"
    return number, 2, len(data), data, True


def _resolution(resolution: exif.Resolution | None) -> dict[str, Any]:
    if resolution is None:
        return {}
    x, y = (struct.unpack("<II", exif.rational(n).data) for n in resolution[:2])
    return {"resolution": (x, y), "resolutionunit": resolution.unit}


def written_alpha(image: Image) -> Alpha | None:
    """Return the channel that the written file marks as alpha.

    This is the alpha channel of the input file if it specifies its channels.  Otherwise, for a
    picture from an array, it is the last of 2 or 4 channels.
    """
    if "extrasamples" in image.extras or image.alpha is not None:
        return image.alpha
    channels, array = image.channels, image.format == "NumPy" and image.array.ndim == 3
    return Alpha(channels - 1, channels - 1) if array and channels in (2, 4) else None


def _extra_samples(image: Image) -> tuple[int, ...] | None:
    """Return the kinds of the extra channels: 0 for unspecified, 1 and 2 as in `_alpha`."""
    known = image.extras.get("extrasamples")
    if known is not None:
        return known or None
    alpha, colours = written_alpha(image), 3 if image.channels in (3, 4) else 1
    kinds = [0] * (image.channels - colours)
    if alpha is not None:
        kinds[alpha.channel - colours] = 1 if alpha.premultiplied else 2
    return tuple(kinds) or None


# The tags of the resolution and its unit, which tifffile writes as 1 if there is none.
_RESOLUTION = (exif.X_RESOLUTION, exif.Y_RESOLUTION, exif.RESOLUTION_UNIT)


def _remove_defaults(images: Sequence[Image], path: Path, bigtiff: bool) -> None:
    """Remove the resolutions of pages that have none."""
    with path.open("r+b") as file:
        offsets = [*exif.directories(file, bigtiff)]
        for image, offset in zip(images, offsets, strict=False):
            if "resolution" not in image.extras:
                exif.remove(file, offset, _RESOLUTION, bigtiff)


_POINTERS = {exif.EXIF: "ExifTag", exif.GPS: "GPSTag"}


def _append_directories(images: Sequence[Image], path: Path, bigtiff: bool) -> None:
    """Append the directories of EXIF and GPS tags to the file, and set the pointers to them."""
    tags = [exif.with_size(image.extras.get("exif", {}), image.size) for image in images]
    if not any(pointer in directories for directories in tags for pointer in _POINTERS):
        return
    with path.open("r+b") as file:
        for directories, page in zip(tags, exif.directories(file, bigtiff), strict=False):
            children = {n: tags for n, tags in directories.items() if n != exif.IMAGE}
            offset = file.seek(0, os.SEEK_END)
            offset += offset % 2
            data, offsets = exif.serialized(children, offset, bigtiff)
            file.seek(offset)
            file.write(data)
            for pointer in set(_POINTERS) & set(offsets):
                exif.set_pointer(file, page, pointer, offsets[pointer], bigtiff)
