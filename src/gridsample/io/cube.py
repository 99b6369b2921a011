"""Colour tables in `.cube` files, as programs for grading film and photos write them.

A file has `LUT_1D_SIZE` for three curves, `LUT_3D_SIZE` for a cube, or both: then colours go
through the curves first.  `DOMAIN_MIN` and `DOMAIN_MAX` (Adobe), or `LUT_1D_INPUT_RANGE` and
`LUT_3D_INPUT_RANGE` (DaVinci Resolve), are the colours of the first and last entries.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample.io.image import as_file_error, unknown_suffix

__all__ = ["ColourTable", "read_cube"]

# The largest sizes, by the number of axes.
MAX_SIZES = {1: 65536, 3: 256}
LINE = 1000  # the longest line, in characters
_SIZE = re.compile(r"LUT_([13])D_SIZE")
_RANGE = re.compile(r"LUT_([13])D_INPUT_RANGE")


class ColourTable(NamedTuple):
    """A colour table of a file.

    Attributes:
        table: `(1, 3, size)` for three curves, or `(1, 3, size, size, size)`, whose last axis is
            red; float32.
        domain: `(low, high)`, the colours of the first and last entries: three numbers each.
    """

    table: NDArray[np.float32]
    domain: tuple[tuple[float, ...], tuple[float, ...]]


def read_cube(path: Path | str) -> list[ColourTable]:
    r"""Read the colour tables of a `.cube` file.

    Args:
        path: the file.

    Returns:
        The tables, which are applied one after the other: one, or curves and then a cube.

    Raises:
        FileError: the name or the content is not supported.
        OSError: the file does not exist or cannot be read.

    Example:
        >>> import pathlib, tempfile
        >>> from gridsample.operators import apply_lut
        >>> path = pathlib.Path(tempfile.mkdtemp(), "negative.cube")
        >>> _ = path.write_text("LUT_1D_SIZE 2\n1 1 1\n0 0 0\n")
        >>> (curves,) = read_cube(path)
        >>> photo = np.array([[[[0, 100, 255]]]], np.uint8)
        >>> apply_lut(photo, curves.table, domain=curves.domain, channel_axis=-1)
        array([[[[255, 155,   0]]]], dtype=uint8)
    """
    path = Path(path)
    if not path.name.lower().endswith(".cube"):
        raise unknown_suffix(path, "colour table", [".cube"])
    with (
        path.open(encoding="utf-8-sig", errors="replace") as file,
        as_file_error(f"cannot read {path} as a colour table"),
    ):
        header, rows = _Header(), _lines(file)
        for row in rows:
            if not header.take(row):
                break
        else:
            raise ValueError("it has no entries")
        return header.tables(_entries(row, rows, header.count))


class _Header:
    """The lines before the entries."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.domains: dict[int, tuple[tuple[float, ...], tuple[float, ...]]] = {}
        self.ends: dict[str, tuple[float, ...]] = {}

    @property
    def count(self) -> int:
        """The number of entries of all tables."""
        return sum(size**axes for axes, size in self.sizes.items())

    def take(self, row: str) -> bool:
        """Interpret a line, and return whether it belongs to the header."""
        word, *values = row.split()
        size, both = _SIZE.fullmatch(word), _RANGE.fullmatch(word)
        if size:
            if int(size[1]) in self.sizes:
                raise ValueError(f"{word} is given twice")
            self.sizes[int(size[1])] = _size_of(int(size[1]), values)
        elif both:
            low, high = _numbers(word, values, 2)
            self.domains[int(both[1])] = (low,) * 3, (high,) * 3
        elif word in ("DOMAIN_MIN", "DOMAIN_MAX"):
            self.ends[word] = _numbers(word, values, 3)
        elif re.match("[A-Za-z_]", word) and word.lower() not in ("nan", "inf", "infinity"):
            if word != "TITLE":
                raise ValueError(
                    f"{word[:40]} is not supported; accepted: TITLE, LUT_1D_SIZE, LUT_3D_SIZE, "
                    "DOMAIN_MIN, DOMAIN_MAX, LUT_1D_INPUT_RANGE, LUT_3D_INPUT_RANGE"
                )
        else:
            return False
        return True

    def tables(self, entries: NDArray[np.float32]) -> list[ColourTable]:
        """Divide the entries among the tables."""
        for axes in self.domains.keys() - self.sizes.keys():
            raise ValueError(f"LUT_{axes}D_INPUT_RANGE is given, but LUT_{axes}D_SIZE is not")
        if self.ends and (self.domains or len(self.sizes) > 1):
            raise ValueError(
                "DOMAIN_MIN and DOMAIN_MAX are for one table; with curves and a cube, give "
                "LUT_1D_INPUT_RANGE and LUT_3D_INPUT_RANGE"
            )
        low, high = ((number,) * 3 for number in (0.0, 1.0))
        whole = self.ends.get("DOMAIN_MIN", low), self.ends.get("DOMAIN_MAX", high)
        result, begin = [], 0
        for axes, size in sorted(self.sizes.items()):
            domain, end = self.domains.get(axes, whole), begin + size**axes
            if any(a >= b or math.isinf(b - a) for a, b in zip(*domain, strict=True)):
                raise ValueError(
                    "the domain must increase by a finite number for each colour, but it goes from "
                    f"{domain[0]} to {domain[1]}"
                )
            # Red varies fastest, so it is on the last axis.
            table = np.moveaxis(entries[begin:end].reshape((size,) * axes + (3,)), -1, 0)
            result.append(ColourTable(np.ascontiguousarray(table[None]), domain))
            begin = end
        return result


def _lines(file: IO[str]) -> Iterator[str]:
    """Yield the lines without comments and empty lines, and read no more of one than is allowed."""
    while line := file.readline(LINE + 1):
        if len(line.removesuffix("\n")) > LINE:
            raise ValueError(f"a line has more than {LINE} characters")
        text = line.partition("#")[0].strip() if not line.startswith("TITLE") else line.strip()
        if text:
            yield text


def _entries(first: str, rest: Iterator[str], count: int) -> NDArray[np.float32]:
    """Read the entries: (count, 3)."""
    if not count:
        raise ValueError("it does not begin with LUT_1D_SIZE or LUT_3D_SIZE")

    def rows() -> Iterator[str]:
        for number, row in enumerate(itertools.chain([first], rest), 1):
            if len(row.split()) != 3:
                raise ValueError(f"entry {number} must be 3 numbers, got {row[:40]!r}")
            yield row

    entries = np.loadtxt(rows(), np.float32, ndmin=2, max_rows=count + 1)
    if len(entries) > count:
        raise ValueError(f"it has more than {count} entries")
    if len(entries) < count:
        raise ValueError(f"{count} entries are expected, got {len(entries)}")
    if not np.isfinite(entries).all():
        raise ValueError("entries must be finite float32 numbers")
    return entries


def _size_of(axes: int, values: list[str]) -> int:
    """Return the number of entries along each axis."""
    largest = MAX_SIZES[axes]
    if len(values) != 1 or not re.fullmatch(r"[0-9]{1,9}", values[0]):
        raise ValueError(f"LUT_{axes}D_SIZE must be a whole number, got {' '.join(values)[:40]!r}")
    size = int(values[0])
    if not 2 <= size <= largest:
        raise ValueError(f"LUT_{axes}D_SIZE must be from 2 to {largest}, got {size}")
    return size


def _numbers(word: str, values: list[str], count: int) -> tuple[float, ...]:
    """Return the finite numbers after a word."""
    try:
        numbers = tuple(map(float, values))
    except ValueError:
        numbers = ()
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ValueError(f"{word} must have {count} finite numbers, got {' '.join(values)[:40]!r}")
    return numbers
