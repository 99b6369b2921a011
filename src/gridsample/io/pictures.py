"""Pictures that Pillow reads and writes: PNG, JPEG, WebP, GIF, BMP and AVIF."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample.alpha import Alpha, divide
from gridsample.io.image import (
    MAX_PIXELS,
    Bands,
    FileError,
    Image,
    Page,
    as_file_error,
    check_pixels,
    collected,
    require,
    whole_page,
)
from gridsample.io.tags import Resolution, exif_block, read_exif, upright_resolution

# The length of a JPEG marker segment has 16 bits, and counts its own two bytes.
_MAX_SEGMENT_BYTES = 65533


class Frame(NamedTuple):
    """How a frame of an animation is shown.

    Attributes:
        duration: in milliseconds.
        plays: how often the animation is played; 0 for ever.
    """

    duration: float
    plays: int

    @classmethod
    def of_metadata(cls, metadata: Mapping[str, Any], format_name: str) -> Frame:
        """Return the frame that Pillow's metadata describe."""
        plays = metadata.get("loop", 1 if format_name == "GIF" else 0)
        if format_name == "GIF" and metadata.get("loop", 0) > 0:
            plays += 1  # GIF counts repetitions
        return cls(float(metadata.get("duration", 0)), int(plays))


def read_pages(
    path: Path, volume: bool, stack: ExitStack, limit: int | None = MAX_PIXELS
) -> list[Page]:
    """Read the picture of a file; the frames of an animation are pages."""
    with path.open("rb") as file:
        head = file.read(26)
        format_name = picture_format(head)
        if format_name is None:
            raise FileError(
                f"{path} is neither a PNG nor a JPEG, WebP, GIF, BMP or AVIF file, despite its name"
            )
        count = _check_size(path, format_name, limit)
        file.seek(0)
        chunks = _kept_chunks(file) if format_name == "PNG" else {}
        file.seek(0)
        if format_name == "PNG" and head[24:25] == b"\x10" and head[25] != 0:
            array, metadata = _read_deep_png(path)
            return [_page(array, {**metadata, **chunks}, format_name, False)]
        with _large_pictures(), _opened(file, format_name) as source:
            frames = [_frame(source, n) for n in range(count)]
        animated = len(frames) > 1
        return [
            _page(array, {**metadata, **chunks}, format_name, animated)
            for array, metadata in frames
        ]


def _check_size(path: Path, format_name: str, limit: int | None) -> int:
    """Return the number of frames, or raise an error if there are too many pixels."""
    pillow = require("PIL.Image")
    with _large_pictures(), _errors_of_pillow(path, format_name), pillow.open(path) as picture:
        # The further pictures of a JPEG file are previews and maps of gain.
        count = 1 if format_name == "JPEG" else int(getattr(picture, "n_frames", 1))
        size = picture.size
    check_pixels(path, size if count == 1 else (count, *size), limit)
    return count


def _opened(file: BinaryIO, format_name: str) -> Any:
    """Open a picture with imageio."""
    with _errors_of_pillow(Path(file.name), format_name):
        return require("imageio.v3").imopen(file, "r", plugin="pillow")


@contextmanager
def _errors_of_pillow(path: Path, format_name: str) -> Iterator[None]:
    """Say why Pillow rejects a file."""
    try:
        yield
    except OSError as error:
        raise FileError(
            f"{path} begins as a {format_name} file does, but Pillow cannot read it; it may "
            "be damaged or truncated"
        ) from error


def picture_format(head: bytes) -> str | None:
    """Return the name of the format that the first bytes of a file tell, or None."""
    signatures = {"PNG": b"\x89PNG", "JPEG": b"\xff\xd8", "GIF": b"GIF8", "BMP": b"BM"}
    for format_name, signature in signatures.items():
        if head.startswith(signature):
            return format_name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    return "AVIF" if head[4:8] == b"ftyp" and head[8:12] in (b"avif", b"avis", b"mif1") else None


def _frame(source: Any, index: int) -> tuple[NDArray[Any], Mapping[str, Any]]:
    """Read a frame, with one number per channel, and its metadata."""
    metadata = source.metadata(index=index, exclude_applied=False)
    mode = _expanded_mode(metadata["mode"], transparent="transparency" in metadata)
    array = source.read(index=index, mode=mode, writeable_output=False)
    if metadata["mode"].startswith("I;16") and "transparency" in metadata:
        opaque = (array != metadata["transparency"]) * np.uint16(65535)
        array = np.stack([array, opaque], -1)
    # The durations of some formats are known when a frame has been read.
    later = source.metadata(index=index, exclude_applied=False)
    return array, {
        **metadata,
        **{name: later[name] for name in ("duration", "loop") if name in later},
    }


def _page(
    array: NDArray[Any], metadata: Mapping[str, Any], format_name: str, animated: bool
) -> Page:
    """Return a page with the metadata that remain valid for new pixels."""
    tags, orientation, resolution = read_exif(metadata.get("exif", b""))
    format_resolution = _format_resolution(metadata, format_name)
    # If both specify it, EXIF has the exact value; PNG and JPEG round it.
    if format_resolution is not None and not format_resolution.is_close(resolution):
        resolution = format_resolution
    has_channels = array.ndim == 3
    array = array if has_channels else array[..., None]
    extras = {
        "icc_profile": metadata.get("icc_profile") if metadata["mode"] != "CMYK" else None,
        "exif": tags,
        "resolution": upright_resolution(resolution, orientation),
        "frame": Frame.of_metadata(metadata, format_name) if animated else None,
        "palette": metadata["mode"] in ("P", "PA") and format_name != "GIF",
        "chunks": metadata.get("chunks"),
        # A packet says the orientation, too, which pixels no longer have.
        "xmp": metadata.get("xmp") if orientation == 1 else None,
        "comment": metadata.get("comment"),
    }
    known = {name: value for name, value in extras.items() if value}
    alpha = last_alpha(array.shape[-1])
    pixels = upright(array, orientation)
    return whole_page(Image(pixels, format_name, has_channels, known, alpha))


def last_alpha(channels: int) -> Alpha | None:
    """Return the alpha channel of a picture: the last of 2 or 4."""
    return Alpha(channels - 1, channels - 1) if channels in (2, 4) else None


def upright(array: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Undo an EXIF orientation: 1 to 4 keep the axes, 5 to 8 are the same with axes swapped."""
    if not 1 <= orientation <= 8:
        return array
    if orientation > 4:
        array = array.swapaxes(-3, -2)
    quarter_turns = (orientation - 1) % 4
    down, right = (-1 if quarter_turns in (2, 3) else 1), (-1 if quarter_turns in (1, 2) else 1)
    return array[..., ::down, ::right, :]


def write_png(images: Sequence[Image], bands: Iterable[Bands], path: Path) -> None:
    """Write a PNG picture."""
    frames, metadata = _contents(images, bands)
    with as_file_error(f"cannot write {path}"):
        if frames[0].dtype == np.uint16 and frames[0].shape[-1] > 1:
            encoded = require("imagecodecs").png_encode(np.ascontiguousarray(frames[0]))
            path.write_bytes(_with_chunks(encoded, _chunks_of(metadata)))
        else:
            _write_picture(frames, path, metadata)
        if further := _further_chunks(images[0]):
            path.write_bytes(_with_chunks(path.read_bytes(), further))


def write_jpeg(images: Sequence[Image], bands: Iterable[Bands], path: Path) -> None:
    """Write a JPEG picture with quality 95 and colours at full resolution."""
    frames, metadata = _contents(images, bands, _MAX_SEGMENT_BYTES)
    with as_file_error(f"cannot write {path}"):
        kept = _texts(images[0], "xmp", "comment")
        _write_picture(frames, path, {**metadata, **kept, "quality": 95, "subsampling": 0})


def write_webp(images: Sequence[Image], bands: Iterable[Bands], path: Path) -> None:
    """Write a WebP picture, without losses, and with the colours of transparent pixels."""
    _write_without_dpi(images, bands, path, lossless=True, exact=True)


def write_avif(images: Sequence[Image], bands: Iterable[Bands], path: Path) -> None:
    """Write an AVIF picture with quality 95 and colours at full resolution."""
    _write_without_dpi(images, bands, path, quality=95, subsampling="4:4:4")


def write_bmp(images: Sequence[Image], bands: Iterable[Bands], path: Path) -> None:
    """Write a BMP picture; it has no metadata."""
    frames, _ = _contents(images, bands)
    with as_file_error(f"cannot write {path}"):
        _write_picture(frames, path, {})


def write_gif(images: Sequence[Image], bands: Iterable[Bands], path: Path) -> None:
    """Write a GIF picture or animation, each frame with the 256 colours closest to its own."""
    frames, _ = _contents(images, bands)
    options: dict[str, Any] = {}
    if len(frames) > 1:
        plays = images[0].extras["frame"].plays
        options["loop"] = max(plays - 1, 0) if plays != 1 else None
    with as_file_error(f"cannot write {path}"):
        options |= _texts(images[0], "comment")
        _write_picture(frames, path, {**_animation(images), **options})


def _write_without_dpi(
    images: Sequence[Image], bands: Iterable[Bands], path: Path, **options: Any
) -> None:
    """Write a picture with Pillow's options, in a format that has no resolution."""
    frames, metadata = _contents(images, bands)
    metadata.pop("dpi", None)
    with as_file_error(f"cannot write {path}"):
        _write_picture(frames, path, {**metadata, **_texts(images[0], "xmp"), **options})


def _contents(
    images: Sequence[Image], bands: Iterable[Bands], max_exif: int = 2**31 - 1
) -> tuple[list[NDArray[Any]], dict[str, Any]]:
    """Return the pixels of the picture, or of all frames, not premultiplied, and the metadata."""
    frames = []
    for page, rows in zip(images, bands, strict=True):
        image = collected([page], [rows])
        array = image.array
        if image.extras.get("photometric") == "miniswhite" and array.dtype.kind == "b":
            array = ~array  # it looks the same
        if image.alpha is not None and image.alpha.premultiplied:  # no format's colours are
            array = divide(array.astype(np.float64), image.alpha, array.dtype)
        frames.append(array)
    return frames, {**_metadata(images[0], max_exif), **_animation(images)}


def _animation(images: Sequence[Image]) -> dict[str, Any]:
    """Return Pillow's options for the frames of an animation; none for a picture."""
    if len(images) == 1:
        return {}
    frames: list[Frame] = [image.extras["frame"] for image in images]
    return {"duration": [round(frame.duration) for frame in frames], "loop": frames[0].plays}


def _read_deep_png(path: Path) -> tuple[NDArray[Any], Mapping[str, Any]]:
    """Read a 16-bit PNG with several channels, which Pillow would truncate to 8 bits."""
    codecs = require("imagecodecs")
    with _large_pictures(), require("PIL.Image").open(path) as picture:
        metadata = {**picture.info, "mode": picture.mode}
    return codecs.png_decode(path.read_bytes()), metadata


def _format_resolution(metadata: Mapping[str, Any], format_name: str) -> Resolution | None:
    """Return the resolution that the format itself specifies, apart from EXIF."""
    if format_name == "PNG" and min(metadata.get("dpi", (0, 0))) > 0:
        x, y = metadata["dpi"]
        return Resolution(x, y, 2)
    unit = metadata.get("jfif_unit")
    if unit in (1, 2) and min(metadata["jfif_density"]) > 0:
        x, y = metadata["jfif_density"]
        return Resolution(x, y, unit + 1)
    return None


def _metadata(image: Image, max_exif: int) -> dict[str, Any]:
    """Return the metadata to write, under Pillow's names."""
    resolution: Resolution | None = image.extras.get("resolution")
    dpi = resolution.dpi if resolution is not None else None
    metadata = {
        "icc_profile": image.extras.get("icc_profile"),
        "exif": exif_block(
            image.extras.get("exif", {}), image.size, resolution if dpi else None, max_exif
        ),
        "dpi": dpi,
    }
    return {name: value for name, value in metadata.items() if value is not None}


def _write_picture(frames: Sequence[NDArray[Any]], path: Path, options: Mapping[str, Any]) -> None:
    """Write a picture or an animation in the format of the suffix, with Pillow's options."""
    extension = path.suffix.lower()
    arrays = [frame[..., 0] if frame.shape[-1] == 1 else frame for frame in frames]
    if len(arrays) > 1:
        make = require("PIL.Image").fromarray
        first, *rest = (make(np.ascontiguousarray(array)) for array in arrays)
        known = {name: value for name, value in options.items() if value is not None}
        first.save(path, save_all=True, append_images=rest, **known)
        return
    (array,) = arrays
    with path.open("wb") as file:
        require("imageio.v3").imwrite(file, array, extension=extension, plugin="pillow", **options)


def _texts(image: Image, *names: str) -> dict[str, Any]:
    """Return some of the texts of a picture, under Pillow's names."""
    return {name: image.extras[name] for name in names if name in image.extras}


# The chunks of a PNG file that remain valid for new pixels, besides those that Pillow reads.
_COLOUR_CHUNKS = (b"gAMA", b"cHRM", b"sRGB")
_TEXT_CHUNKS = (b"tEXt", b"zTXt", b"iTXt")
_XMP = b"XML:com.adobe.xmp"
Chunk = tuple[bytes, bytes]
"""The name and the data of a chunk."""


def _kept_chunks(file: BinaryIO) -> dict[str, Any]:
    """Read the chunks of a PNG file that are written again, and the packet of XMP if it has one."""
    chunks, position, kept = list[Chunk](), 8, dict[str, Any]()
    while True:
        file.seek(position)
        head = file.read(8)
        if len(head) < 8 or head[4:] == b"IEND":
            return {**kept, "chunks": chunks}
        size, name = struct.unpack(">I4s", head)
        position += size + 12
        if name in _COLOUR_CHUNKS + _TEXT_CHUNKS:
            data = file.read(size)
            if not data.startswith(_XMP + b"\0"):
                chunks.append((name, data))
                continue
            compressed, text = data[len(_XMP) + 1], data[len(_XMP) + 3 :].split(b"\0", 2)[-1]
            kept["xmp"] = zlib.decompress(text) if compressed else text


def _further_chunks(image: Image) -> list[Chunk]:
    """Return the chunks of a PNG file that Pillow does not write."""
    chunks = list[Chunk](image.extras.get("chunks", []))
    if "xmp" in image.extras:
        chunks.append((b"iTXt", _XMP + b"\0\0\0\0\0" + image.extras["xmp"]))
    if "comment" in image.extras:
        chunks.append((b"tEXt", b"Comment\0" + image.extras["comment"]))
    return chunks


def _chunks_of(metadata: Mapping[str, Any]) -> list[Chunk]:
    """Return the chunks with metadata under Pillow's names."""
    chunks = list[Chunk]()
    if "icc_profile" in metadata:
        chunks.append((b"iCCP", b"profile\0\0" + zlib.compress(metadata["icc_profile"])))
    if "dpi" in metadata:
        x, y = (round(n / 0.0254) for n in metadata["dpi"])
        chunks.append((b"pHYs", struct.pack(">IIB", x, y, 1)))
    if "exif" in metadata:
        chunks.append((b"eXIf", metadata["exif"].removeprefix(b"Exif\0\0")))
    return chunks


def _with_chunks(png: bytes, chunks: Sequence[Chunk]) -> bytes:
    """Insert chunks after the header of a PNG file."""
    end = 8 + 25  # the signature and the header's chunk
    encoded_chunks = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    ]
    return png[:end] + b"".join(encoded_chunks) + png[end:]


def _expanded_mode(mode: str, *, transparent: bool) -> str | None:
    """Choose the Pillow mode with one number per channel; None if the picture has it already."""
    if transparent and mode in ("1", "L", "RGB", "P"):
        return "LA" if mode in ("1", "L") else "RGBA"
    return {"P": "RGB", "PA": "RGBA", "CMYK": "RGB", "YCbCr": "RGB"}.get(mode)


@contextmanager
def _large_pictures() -> Iterator[None]:
    """Lift Pillow's limit on the size of pictures, in place of which `check_pixels` has one."""
    pillow = require("PIL.Image")
    limit, pillow.MAX_IMAGE_PIXELS = pillow.MAX_IMAGE_PIXELS, None
    try:
        yield
    finally:
        pillow.MAX_IMAGE_PIXELS = limit
