"""Tags: what a camera or scanner notes beside the pixels, as EXIF blocks and TIFF pages hold it.

Both hold directories of tags. A tag has a type and some values of it; an EXIF block is a small TIFF
file without pixels. Values are kept as the bytes they are, in little-endian order.

Three things are not kept as they are, because a new image would make them untrue: the orientation
(pixels are turned upright when they are read), the size in pixels, and the embedded thumbnail.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from fractions import Fraction
from io import BytesIO
from typing import BinaryIO, NamedTuple

import numpy as np


class Tag(NamedTuple):
    """Values of a tag.

    Attributes:
        kind: TIFF's number of their type.
        values: How many there are.
        data: Their bytes, little-endian.
    """

    kind: int
    values: int
    data: bytes


Directory = Mapping[int, Tag]
Tags = Mapping[int, Directory]
"""Directories by the tag that points to them; the image's own goes by 0."""


class Resolution(NamedTuple):
    """Pixels per unit, along x and y; the unit is TIFF's: 1 for none, 2 for inch, 3 for cm."""

    x: float | Fraction
    y: float | Fraction
    unit: int

    @property
    def dpi(self) -> tuple[float, float] | None:
        """Dots per inch; None if there is no unit, or no file could hold the numbers."""
        factor = {2: 1.0, 3: 2.54}.get(self.unit, 0.0)
        x, y = float(self.x) * factor, float(self.y) * factor
        return (x, y) if 0.5 <= x < 65535.5 and 0.5 <= y < 65535.5 else None

    def near(self, other: Resolution | None) -> bool:
        """Tell whether another is the same but for rounding to whole pixels per inch."""
        if other is None or self.dpi is None or other.dpi is None:
            return False
        return all(abs(a - b) <= 0.5 for a, b in zip(self.dpi, other.dpi, strict=True))


IMAGE, EXIF, GPS, INTEROP = 0, 0x8769, 0x8825, 0xA005
ORIENTATION, X_RESOLUTION, Y_RESOLUTION, RESOLUTION_UNIT = 274, 282, 283, 296
DESCRIPTION, SOFTWARE, WIDTH, HEIGHT = 270, 305, 0xA002, 0xA003

# Of the image's own tags, those that say something about the picture and not about its storage:
# description, make, model, software, date, artist, host, copyright, ratings, and Windows' five.
_DESCRIPTIVE = {DESCRIPTION, 271, 272, SOFTWARE, 306, 315, 316, 33432, 18246, 18249}
_DESCRIPTIVE |= set(range(40091, 40096))
# Bytes of a value, and of the numbers in it whose order of bytes matters, by type. Those above 12
# are pointers, and BigTIFF's.
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}
_SIZES |= {13: 4, 16: 8, 18: 8}
_NUMBERS = {**_SIZES, 5: 4, 10: 4}
_LONGEST = 1 << 20  # bytes of one value; more is no note but data


def read_exif(block: bytes) -> tuple[Tags, int, Resolution | None]:
    """Read an EXIF block: the tags to keep, the orientation, the resolution.

    What is damaged is left out.

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
    file: BinaryIO, offset: int, order: str, big: bool = False
) -> tuple[Tags, int, Resolution | None]:
    """Read the directory at an offset, and those it points to, as `read_exif` does.

    Args:
        file: An EXIF block or a TIFF file.
        offset: Where the directory begins.
        order: "<" or ">", the order of bytes.
        big: Whether it is a BigTIFF file.
    """
    own = _read_directory(file, offset, order, big)
    found = {IMAGE: {n: tag for n, tag in own.items() if n in _DESCRIPTIVE}}
    for pointer in (EXIF, GPS, INTEROP):
        parent = found.get(EXIF, {}) if pointer == INTEROP else own
        if pointer in parent:
            place = int(_number(parent[pointer]))
            found[pointer] = _read_directory(file, place, order, big)
    orientation = int(_number(own[ORIENTATION])) if ORIENTATION in own else 1
    kept = {
        where: {n: tag for n, tag in one.items() if n != INTEROP and tag.kind <= 12}
        for where, one in found.items()
    }
    return {where: one for where, one in kept.items() if one}, orientation, _resolution(own)


def turned(resolution: Resolution | None, orientation: int) -> Resolution | None:
    """The resolution of a picture that was stored with an orientation, once it is upright."""
    if resolution is None or not 5 <= orientation <= 8:
        return resolution
    return Resolution(resolution.y, resolution.x, resolution.unit)


def exif_block(
    tags: Tags, size: tuple[int, ...], resolution: Resolution | None, longest: int
) -> bytes | None:
    """Write tags as an EXIF block; None if there is nothing to say.

    Args:
        tags: What `read_exif` gave.
        size: The picture's size in pixels, (W, H).
        resolution: What to say of it, if anything.
        longest: How many bytes the block may have. The longest values are left out until it fits.
    """
    tags = sized(tags, size)
    if not tags:
        return None
    own = dict(tags.get(IMAGE, {}))
    if resolution is not None:
        own[X_RESOLUTION], own[Y_RESOLUTION] = rational(resolution.x), rational(resolution.y)
        own[RESOLUTION_UNIT] = Tag(3, 1, struct.pack("<H", resolution.unit))
    block = b"Exif\0\0II*\0" + struct.pack("<I", 8) + packed({**tags, IMAGE: own}, 8)[0]
    if len(block) <= longest:
        return block
    where, tag = max(
        ((where, n) for where in tags for n in tags[where]),
        key=lambda place: len(tags[place[0]][place[1]].data),
    )
    rest = {**tags, where: {n: one for n, one in tags[where].items() if n != tag}}
    return exif_block({n: one for n, one in rest.items() if one}, size, resolution, longest)


def sized(tags: Tags, size: tuple[int, ...]) -> Tags:
    """The tags with the size in pixels that they tell, if they tell one, made that of the image."""
    exif = dict(tags.get(EXIF, {}))
    for number, n in ((WIDTH, size[0]), (HEIGHT, size[1])):
        if number in exif:
            exif[number] = Tag(4, 1, struct.pack("<I", min(n, 2**32 - 1)))
    return {**tags, EXIF: exif} if exif else tags


def packed(tags: Tags, start: int, big: bool = False) -> tuple[bytes, Mapping[int, int]]:
    """The bytes of directories, one after the other, that are to lie at an offset in a file.

    First is the image's own, if it is given. It points to others, and they to theirs.

    Args:
        tags: The directories.
        start: The offset in bytes.
        big: Whether the file is a BigTIFF.

    Returns:
        The bytes, and the offset of each directory in the file.
    """
    whole = {n: dict(tags[n]) for n in (IMAGE, EXIF, GPS, INTEROP) if n in tags}
    pointer = Tag(16, 1, b"\0" * 8) if big else Tag(4, 1, b"\0" * 4)
    for child, parent in ((EXIF, IMAGE), (GPS, IMAGE), (INTEROP, EXIF)):
        if child in whole and parent in whole:
            whole[parent][child] = pointer
    places, end = {}, start
    for n, one in whole.items():
        places[n] = end
        end += len(_packed_directory(one, end, big))
    for one in whole.values():
        for child in set(one) & set(places):
            place = struct.pack("<Q" if big else "<I", places[child])
            one[child] = pointer._replace(data=place)
    data = [_packed_directory(one, places[n], big) for n, one in whole.items()]
    return b"".join(data), places


def directories(file: BinaryIO, big: bool) -> Iterator[int]:
    """Where the directories of a little-endian TIFF file begin, one for each page."""
    count, entry, pointer = ("<Q", 20, "<Q") if big else ("<H", 12, "<I")
    file.seek(8 if big else 4)
    while place := struct.unpack(pointer, file.read(struct.calcsize(pointer)))[0]:
        yield place
        file.seek(place)
        entries = struct.unpack(count, file.read(struct.calcsize(count)))[0]
        file.seek(place + struct.calcsize(count) + entries * entry)


def point(file: BinaryIO, directory: int, number: int, place: int, big: bool) -> None:
    """Let a tag of a directory of a little-endian TIFF file point to another place in it."""
    count, entry, pointer = ("<Q", 20, "<Q") if big else ("<H", 12, "<I")
    file.seek(directory)
    entries = struct.unpack(count, file.read(struct.calcsize(count)))[0]
    for begin in range(file.tell(), file.tell() + entries * entry, entry):
        file.seek(begin)
        if struct.unpack("<H", file.read(2))[0] == number:
            file.seek(begin + entry - struct.calcsize(pointer))
            file.write(struct.pack(pointer, place))


def rational(number: float | Fraction) -> Tag:
    """A number as a fraction of two integers of 32 bits."""
    near = Fraction(number).limit_denominator(1_000_000)
    while max(near.numerator, near.denominator) >= 2**32:
        near = Fraction(near.numerator // 2, max(1, near.denominator // 2))
    return Tag(5, 1, struct.pack("<II", near.numerator, near.denominator))


def _packed_directory(directory: Directory, start: int, big: bool) -> bytes:
    inline, entry, count = (8, "<HHQ", "<Q") if big else (4, "<HHI", "<H")
    head = struct.calcsize(count) + len(directory) * (struct.calcsize(entry) + inline) + inline
    entries, values = [struct.pack(count, len(directory))], b""
    for number, tag in sorted(directory.items()):
        place = tag.data.ljust(inline, b"\0")
        if len(tag.data) > inline:
            place = struct.pack("<Q" if big else "<I", start + head + len(values))
            values += tag.data + b"\0" * (len(tag.data) % 2)
        entries.append(struct.pack(entry, number, tag.kind, tag.values) + place)
    return b"".join(entries) + b"\0" * inline + values


def _read_directory(file: BinaryIO, offset: int, order: str, big: bool) -> dict[int, Tag]:
    """The tags of a directory, without those that are cut off, too long or of no known type."""
    inline, entry, count = (8, "HHQ", "Q") if big else (4, "HHI", "H")
    found: dict[int, Tag] = {}
    file.seek(offset)
    head = file.read(struct.calcsize(f"{order}{count}"))
    if len(head) < struct.calcsize(f"{order}{count}"):
        return found
    size = struct.calcsize(f"{order}{entry}") + inline
    entries = file.read(min(struct.unpack(f"{order}{count}", head)[0], 4096) * size)
    for begin in range(0, len(entries) - size + 1, size):
        number, kind, n = struct.unpack_from(f"{order}{entry}", entries, begin)
        data, length = entries[begin + size - inline : begin + size], _SIZES.get(kind, 0) * n
        if not 0 < length <= _LONGEST:
            continue
        if length > inline:
            file.seek(struct.unpack(f"{order}{'Q' if big else 'I'}", data)[0])
            data = file.read(length)
        if len(data) >= length:
            found[number] = Tag(kind, n, _little(data[:length], kind, order))
    return found


def _little(data: bytes, kind: int, order: str) -> bytes:
    """Values of a type with the bytes of each number in little-endian order."""
    unit = _NUMBERS[kind]
    if order == "<" or unit == 1:
        return data
    return np.frombuffer(data, f">u{unit}").astype(f"<u{unit}").tobytes()


def _number(tag: Tag, index: int = 0) -> Fraction:
    """One value of a tag of numbers; 0 where it is no number."""
    letters = {1: "B", 3: "H", 4: "I", 5: "II", 13: "I", 16: "Q", 18: "Q"}.get(tag.kind)
    if letters is None or index >= tag.values:
        return Fraction(0)
    values = struct.unpack_from(f"<{letters}", tag.data, index * _SIZES[tag.kind])
    return Fraction(values[0], values[1] or 1) if len(values) == 2 else Fraction(values[0])


def _resolution(own: Directory) -> Resolution | None:
    """The resolution among a directory's tags; None if it says nothing, or nothing that is true."""
    if X_RESOLUTION not in own or Y_RESOLUTION not in own:
        return None
    x, y = _number(own[X_RESOLUTION]), _number(own[Y_RESOLUTION])
    unit = int(_number(own[RESOLUTION_UNIT])) if RESOLUTION_UNIT in own else 2
    square = unit == 1 and x == y
    return Resolution(x, y, unit) if min(x, y) > 0 and unit in (1, 2, 3) and not square else None
