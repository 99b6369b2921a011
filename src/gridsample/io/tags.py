"""Tags: the metadata in EXIF blocks and TIFF pages.

Both contain directories of tags. A tag has a type and one or more values. An EXIF block is a small
TIFF file without pixels. Values are stored as bytes in little-endian order.

Three things are not preserved, because they would be wrong for the new image: the orientation
(pixels are turned upright when they are read), the size in pixels, and the embedded thumbnail.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator, Mapping
from fractions import Fraction
from io import BytesIO
from typing import BinaryIO, NamedTuple

import numpy as np


class Tag(NamedTuple):
    """The values of a tag.

    Attributes:
        type_code: TIFF's code for their type.
        values: The number of values.
        data: Their bytes, little-endian.
    """

    type_code: int
    values: int
    data: bytes


Directory = Mapping[int, Tag]
Tags = Mapping[int, Directory]
"""Directories by the number of the tag that points to them; that of the image itself is 0."""


class Resolution(NamedTuple):
    """Pixels per unit along x and y; unit as in TIFF: 1 for none, 2 for inch, 3 for cm."""

    x: float | Fraction
    y: float | Fraction
    unit: int

    @property
    def dpi(self) -> tuple[float, float] | None:
        """Dots per inch; None if there is no unit, or if the numbers do not fit in a file."""
        factor = {2: 1.0, 3: 2.54}.get(self.unit, 0.0)
        x, y = float(self.x) * factor, float(self.y) * factor
        return (x, y) if 0.5 <= x < 65535.5 and 0.5 <= y < 65535.5 else None

    def is_close(self, other: Resolution | None) -> bool:
        """Return whether two resolutions differ only by rounding to whole pixels per inch."""
        if other is None or self.dpi is None or other.dpi is None:
            return False
        return all(abs(a - b) <= 0.5 for a, b in zip(self.dpi, other.dpi, strict=True))


IMAGE, EXIF, GPS, INTEROP = 0, 0x8769, 0x8825, 0xA005
ORIENTATION, X_RESOLUTION, Y_RESOLUTION, RESOLUTION_UNIT = 274, 282, 283, 296
DESCRIPTION, SOFTWARE, WIDTH, HEIGHT = 270, 305, 0xA002, 0xA003

# The tags of the image that describe the picture, not its storage: description, make, model,
# software, date, artist, host, copyright, ratings, and five of Windows.
_DESCRIPTIVE = {DESCRIPTION, 271, 272, SOFTWARE, 306, 315, 316, 33432, 18246, 18249}
_DESCRIPTIVE |= set(range(40091, 40096))
# Bytes of a value, and of the numbers in it that have a byte order, by type. Types above 12 are
# pointers and types of BigTIFF.
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}
_SIZES |= {13: 4, 16: 8, 18: 8}
_NUMBER_SIZES = {**_SIZES, 5: 4, 10: 4}
_MAX_VALUE_BYTES = 1 << 20  # longer values are data, not metadata


def read_exif(block: bytes) -> tuple[Tags, int, Resolution | None]:
    """Read an EXIF block: the tags to preserve, the orientation, the resolution.

    Damaged tags are omitted.

    >>> read_exif(b"no tags")
    ({}, 1, None)
    """
    block = block.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4])
    if order is None or len(block) < 8:
        return {}, 1, None
    (offset,) = struct.unpack(f"{order}I", block[4:8])
    return read_directories(BytesIO(block), offset, order)


def read_directories(
    file: BinaryIO, offset: int, order: str, bigtiff: bool = False
) -> tuple[Tags, int, Resolution | None]:
    """Read the directory at an offset and those that it points to; returns as `read_exif`.

    Args:
        file: An EXIF block or a TIFF file.
        offset: The position of the directory in bytes.
        order: The byte order, "<" or ">".
        bigtiff: Whether the file is a BigTIFF.
    """
    directory = _read_directory(file, offset, order, bigtiff)
    directories_read = {IMAGE: {n: tag for n, tag in directory.items() if n in _DESCRIPTIVE}}
    for pointer in (EXIF, GPS, INTEROP):
        parent = directories_read.get(EXIF, {}) if pointer == INTEROP else directory
        if pointer in parent:
            position = int(_number(parent[pointer]))
            directories_read[pointer] = _read_directory(file, position, order, bigtiff)
    orientation = int(_number(directory[ORIENTATION])) if ORIENTATION in directory else 1
    preserved = {
        pointer: {n: tag for n, tag in entries.items() if n != INTEROP and tag.type_code <= 12}
        for pointer, entries in directories_read.items()
    }
    return _without_empty(preserved), orientation, _resolution(directory)


def _without_empty(tags: Tags) -> Tags:
    return {pointer: directory for pointer, directory in tags.items() if directory}


def upright_resolution(resolution: Resolution | None, orientation: int) -> Resolution | None:
    """Return the resolution of a picture after its orientation has been undone."""
    if resolution is None or not 5 <= orientation <= 8:
        return resolution
    return Resolution(resolution.y, resolution.x, resolution.unit)


def exif_block(
    tags: Tags, size: tuple[int, ...], resolution: Resolution | None, max_bytes: int
) -> bytes | None:
    """Return tags as an EXIF block, or None if there are none.

    Args:
        tags: The tags, from `read_exif`.
        size: The picture's size in pixels, (W, H).
        resolution: The resolution to write, if any.
        max_bytes: The maximum number of bytes. The longest values are dropped until the block fits.
    """
    tags = with_size(tags, size)
    if not tags:
        return None
    image_tags = dict(tags.get(IMAGE, {}))
    if resolution is not None:
        image_tags[X_RESOLUTION] = rational(resolution.x)
        image_tags[Y_RESOLUTION] = rational(resolution.y)
        image_tags[RESOLUTION_UNIT] = Tag(3, 1, struct.pack("<H", resolution.unit))
    block = b"Exif\0\0II*\0" + struct.pack("<I", 8) + serialized({**tags, IMAGE: image_tags}, 8)[0]
    if len(block) <= max_bytes:
        return block
    pointer, longest = max(
        ((pointer, number) for pointer in tags for number in tags[pointer]),
        key=lambda key: len(tags[key[0]][key[1]].data),
    )
    directory = {number: tag for number, tag in tags[pointer].items() if number != longest}
    rest = _without_empty({**tags, pointer: directory})
    return exif_block(rest, size, resolution, max_bytes)


def with_size(tags: Tags, size: tuple[int, ...]) -> Tags:
    """Return the tags with their size in pixels, if they have one, replaced by the image's."""
    exif = dict(tags.get(EXIF, {}))
    for number, n in ((WIDTH, size[0]), (HEIGHT, size[1])):
        if number in exif:
            exif[number] = Tag(4, 1, struct.pack("<I", min(n, 2**32 - 1)))
    return {**tags, EXIF: exif} if exif else tags


def serialized(tags: Tags, start: int, bigtiff: bool = False) -> tuple[bytes, Mapping[int, int]]:
    """Serialise directories for a given offset in a file.

    The directory of the image comes first, if it is given. It points to the others.

    Args:
        tags: The directories.
        start: The offset in bytes.
        bigtiff: Whether the file is a BigTIFF.

    Returns:
        The bytes, and the offset of each directory in the file.
    """
    tables = {n: dict(tags[n]) for n in (IMAGE, EXIF, GPS, INTEROP) if n in tags}
    pointer = Tag(16, 1, b"\0" * 8) if bigtiff else Tag(4, 1, b"\0" * 4)
    for child, parent in ((EXIF, IMAGE), (GPS, IMAGE), (INTEROP, EXIF)):
        if child in tables and parent in tables:
            tables[parent][child] = pointer
    offsets, end = {}, start
    for n, directory in tables.items():
        offsets[n] = end
        end += len(_serialized_directory(directory, end, bigtiff))
    for directory in tables.values():
        for child in set(directory) & set(offsets):
            position = struct.pack("<Q" if bigtiff else "<I", offsets[child])
            directory[child] = pointer._replace(data=position)
    data = [
        _serialized_directory(directory, offsets[n], bigtiff) for n, directory in tables.items()
    ]
    return b"".join(data), offsets


def directories(file: BinaryIO, bigtiff: bool) -> Iterator[int]:
    """Yield the offsets of the directories of a little-endian TIFF file, one per page."""
    count, entry, pointer = ("<Q", 20, "<Q") if bigtiff else ("<H", 12, "<I")
    file.seek(8 if bigtiff else 4)
    while position := struct.unpack(pointer, file.read(struct.calcsize(pointer)))[0]:
        yield position
        file.seek(position)
        entries = struct.unpack(count, file.read(struct.calcsize(count)))[0]
        file.seek(position + struct.calcsize(count) + entries * entry)


def set_pointer(file: BinaryIO, directory: int, number: int, position: int, bigtiff: bool) -> None:
    """Set the pointer in a tag of a directory of a little-endian TIFF file to an offset."""
    count, entry, pointer = ("<Q", 20, "<Q") if bigtiff else ("<H", 12, "<I")
    file.seek(directory)
    entries = struct.unpack(count, file.read(struct.calcsize(count)))[0]
    for begin in range(file.tell(), file.tell() + entries * entry, entry):
        file.seek(begin)
        if struct.unpack("<H", file.read(2))[0] == number:
            file.seek(begin + entry - struct.calcsize(pointer))
            file.write(struct.pack(pointer, position))


def remove(file: BinaryIO, directory: int, numbers: Container[int], bigtiff: bool) -> None:
    """Remove tags from a directory of a little-endian TIFF file; their place stays empty."""
    count, entry, pointer = ("<Q", 20, "<Q") if bigtiff else ("<H", 12, "<I")
    file.seek(directory)
    entries = struct.unpack(count, file.read(struct.calcsize(count)))[0]
    stored = [file.read(entry) for _ in range(entries)]
    following = file.read(struct.calcsize(pointer))
    kept = [tag for tag in stored if struct.unpack("<H", tag[:2])[0] not in numbers]
    empty = bytes(entry * (entries - len(kept)))
    file.seek(directory)
    file.write(struct.pack(count, len(kept)) + b"".join(kept) + following + empty)


def rational(number: float | Fraction) -> Tag:
    """Return a number as a fraction of two 32-bit integers."""
    near = Fraction(number).limit_denominator(1_000_000)
    while max(near.numerator, near.denominator) >= 2**32:
        near = Fraction(near.numerator // 2, max(1, near.denominator // 2))
    return Tag(5, 1, struct.pack("<II", near.numerator, near.denominator))


def _serialized_directory(directory: Directory, start: int, bigtiff: bool) -> bytes:
    inline, entry, count = (8, "<HHQ", "<Q") if bigtiff else (4, "<HHI", "<H")
    head = struct.calcsize(count) + len(directory) * (struct.calcsize(entry) + inline) + inline
    entries, values = [struct.pack(count, len(directory))], b""
    for number, tag in sorted(directory.items()):
        position = tag.data.ljust(inline, b"\0")
        if len(tag.data) > inline:
            position = struct.pack("<Q" if bigtiff else "<I", start + head + len(values))
            values += tag.data + b"\0" * (len(tag.data) % 2)
        entries.append(struct.pack(entry, number, tag.type_code, tag.values) + position)
    return b"".join(entries) + b"\0" * inline + values


def _read_directory(file: BinaryIO, offset: int, order: str, bigtiff: bool) -> dict[int, Tag]:
    """Read a directory's tags, except those that are truncated, too long or of unknown type."""
    inline, entry, count = (8, "HHQ", "Q") if bigtiff else (4, "HHI", "H")
    tags: dict[int, Tag] = {}
    file.seek(offset)
    head = file.read(struct.calcsize(f"{order}{count}"))
    if len(head) < struct.calcsize(f"{order}{count}"):
        return tags
    size = struct.calcsize(f"{order}{entry}") + inline
    entries = file.read(min(struct.unpack(f"{order}{count}", head)[0], 4096) * size)
    for begin in range(0, len(entries) - size + 1, size):
        number, type_code, n = struct.unpack_from(f"{order}{entry}", entries, begin)
        data, length = entries[begin + size - inline : begin + size], _SIZES.get(type_code, 0) * n
        if not 0 < length <= _MAX_VALUE_BYTES:
            continue
        if length > inline:
            file.seek(struct.unpack(f"{order}{'Q' if bigtiff else 'I'}", data)[0])
            data = file.read(length)
        if len(data) >= length:
            tags[number] = Tag(type_code, n, _little_endian(data[:length], type_code, order))
    return tags


def _little_endian(data: bytes, type_code: int, order: str) -> bytes:
    """Return the bytes of values of a type with each number in little-endian order."""
    unit = _NUMBER_SIZES[type_code]
    if order == "<" or unit == 1:
        return data
    return np.frombuffer(data, f">u{unit}").astype(f"<u{unit}").tobytes()


def _number(tag: Tag, index: int = 0) -> Fraction:
    """Return one value of a tag; 0 if it is not a number."""
    letters = {1: "B", 3: "H", 4: "I", 5: "II", 13: "I", 16: "Q", 18: "Q"}.get(tag.type_code)
    if letters is None or index >= tag.values:
        return Fraction(0)
    values = struct.unpack_from(f"<{letters}", tag.data, index * _SIZES[tag.type_code])
    return Fraction(values[0], values[1] or 1) if len(values) == 2 else Fraction(values[0])


def _resolution(directory: Directory) -> Resolution | None:
    """Return the resolution in a directory's tags; None if it is missing or not meaningful."""
    if X_RESOLUTION not in directory or Y_RESOLUTION not in directory:
        return None
    x, y = _number(directory[X_RESOLUTION]), _number(directory[Y_RESOLUTION])
    unit = int(_number(directory[RESOLUTION_UNIT])) if RESOLUTION_UNIT in directory else 2
    square = unit == 1 and x == y
    return Resolution(x, y, unit) if min(x, y) > 0 and unit in (1, 2, 3) and not square else None
