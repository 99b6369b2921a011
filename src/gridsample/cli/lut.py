"""`gridsample lut`: apply the colour table of a `.cube` file to pictures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample import io
from gridsample.alpha import Alpha, divide, multiply
from gridsample.cli import texts
from gridsample.cli.arguments import Command, add_files, add_shared
from gridsample.cli.files import PreparedPage, Progress, convert_file
from gridsample.definitions.dtypes import WIDE_TYPES
from gridsample.definitions.integers import saturated
from gridsample.definitions.shapes import bands_along
from gridsample.io.cube import ColourTable, read_cube
from gridsample.operators import apply_lut

HELP = """\
Apply the colour table (LUT) of a .cube file to pictures.
"""

NOTES = """\
tables:
  TABLE is a .cube file with three curves, a cube of colours, or curves followed by a cube, as
  programs for grading write it. Its colours are red, green and blue from 0 to 1, which are 0 and
  the largest number in pictures of integers. Colours outside of the table become those of its edge.
  A table is for one colour space: a picture keeps its ICC profile, and is not converted to that of
  the table.

modes:
  linear is a mean of the eight entries around a colour. tetrahedral takes four of them, so that
  greys depend on greys only. Of curves, both are the same.

pictures:
  The result has the same dtype. Opacity is kept. Colours of a TIFF file that are multiplied by it
  are divided by it first, and multiplied again. The formats and the metadata preserved are those of
  gridsample warp. TIFF pages are read and written in bands of rows.

{batch}

examples:
  gridsample lut photo.png look.cube graded.png
  gridsample lut *.jpg look.cube --out graded
  gridsample lut scan.tif film.cube graded.tif --mode tetrahedral
"""
MODES = ("linear", "tetrahedral")
# The pixels of a band.
BAND = 1 << 20


class PixelLookup(NamedTuple):
    """What happens to the colours of a picture.

    Attributes:
        tables: the tables, which are applied one after the other.
        alpha: the channel of opacity, if there is one.
        mode, threads: as in `apply_lut`.
    """

    tables: Sequence[ColourTable]
    alpha: Alpha | None
    mode: Literal["linear", "tetrahedral"]
    threads: int | None

    def pixels(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Look up stored pixels, (..., C); between tables, nothing is rounded."""
        dtype = stored.dtype.newbyteorder("=")
        real = np.dtype(np.float64 if dtype.name in WIDE_TYPES else np.float32)
        top = 1.0 if dtype.kind == "f" else float(np.iinfo(dtype).max)
        values = stored.astype(real) / real.type(top)
        alpha = self.alpha if self.alpha is not None and self.alpha.premultiplied else None
        if alpha is not None:
            values = divide(values, alpha, real)
        for table, domain in self.tables:
            values[..., :3] = apply_lut(
                values[None, ..., :3],
                table,
                self.mode,
                domain=domain,
                channel_axis=-1,
                threads=self.threads,
            )[0]
        if alpha is not None:
            values = multiply(values, alpha, real)
        result = stored.astype(dtype)
        colours = values[..., :3] * real.type(top)
        result[..., :3] = colours if dtype.kind == "f" else saturated(np.rint(colours), dtype)
        return result


class LutCommand(Command):
    """A parser that finds the table among the files."""

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words after the command."""
        arguments = super().parse(words)
        tables = [file for file in arguments.files if file.suffix.lower() == ".cube"]
        if len(tables) != 1:
            given = ", ".join(map(str, tables)) or "none"
            self.error(f"give one TABLE, a .cube file; got {given}")
        (arguments.table,) = tables
        arguments.files.remove(arguments.table)
        return arguments


def command() -> Command:
    """Return the parser of the command."""
    forms = ["INPUT TABLE.cube OUTPUT", "INPUT... TABLE.cube --out FOLDER"]
    parser = LutCommand("lut", forms, _lut_file, HELP, texts.notes(NOTES))
    parser.set_defaults(volume=False, straight_alpha=False)
    parser.add_argument(
        "--mode", choices=MODES, default="linear", help="linear (default), or tetrahedral"
    )
    add_files(parser, "grading", "INPUT, TABLE and OUTPUT, or INPUTs and TABLE")
    add_shared(parser.further, "--threads", "--max-pixels")
    return parser


def _bands(page: io.Page, lookup: PixelLookup, progress: Progress) -> io.Bands:
    """Yield the rows of a page's new pixels."""
    read, shape = page.open(), page.image.array.shape
    for rows in bands_along(shape[:-1], BAND):
        yield lookup.pixels(read(rows.start, rows.stop))
        progress(rows.stop / shape[0])


def _lut_file(arguments: argparse.Namespace) -> None:
    tables = read_cube(arguments.table)

    def prepare(page: io.Page) -> PreparedPage:
        image = page.image
        alpha = io.alpha_of(image, arguments.output)
        colours = image.channels if alpha is None else alpha.colours
        if colours != 3:
            raise ValueError(
                f"a colour table takes red, green and blue, but {arguments.input} has {colours} "
                f"channel{'s' * (colours != 1)}{' beside opacity' * (alpha is not None)}"
            )
        if image.array.dtype.kind not in "uif":
            raise ValueError(
                f"{arguments.input} has dtype {image.array.dtype}; accepted: integers and floats"
            )
        result = replace(image, array=io.zeros(image.array.shape, image.array.dtype))
        lookup = PixelLookup(tables, alpha, arguments.mode, arguments.threads)
        return result, lambda progress: _bands(page, lookup, progress)

    convert_file(arguments, "grading", prepare)
