"""The notes that the help of several commands shares."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from gridsample.definitions.boundaries import BOUNDARIES, MISSING
from gridsample.definitions.methods import accepted_names

BATCH = """\
several files:
  With --out FOLDER, every INPUT is written into the folder under its own name. One that fails is
  reported and does not stop the others; the exit code is then 2."""

ALPHA_NOTES = """\
alpha:
  Colours are multiplied by alpha before sampling and divided by it afterwards, so that the colours
  of transparent pixels do not bleed. Alpha is the last of 2 or 4 channels of a PNG file (input or
  output), or the channel that a TIFF file marks as alpha. The colours of a TIFF file with
  associated alpha are already multiplied by it, and are sampled as they are. --straight-alpha
  samples alpha like any other channel."""

MISSING_NOTES = """\
missing pixels:
  NaN, and the value of --nodata, of a TIFF file's nodata tag or of a Zarr array's _FillValue. They
  are ignored: a result is the weighted mean of the other pixels that it reads. If it reads no
  others, it is missing, too, and gets the nodata value, or NaN. With --missing propagate, every
  result that reads a missing pixel is missing.
  Modes that copy whole pixels copy missing ones, too. Outside the image, pixels are missing if
  there is a nodata value, and 0 if there is none or --padding zeros is given (gridsample warp)."""

STORES = """\
Zarr:
  An input folder with a Zarr array or an OME-Zarr image (0.4 to 0.6) is processed chunk by chunk,
  and may be larger than memory; OUTPUT is a new OME-Zarr image, whose name ends in .zarr. Only the
  finest level is read. A command that was interrupted, even by kill -9, resumes when it is run
  again: finished chunks are kept. At the end, the bytes read and written are printed. Axes
  named t and c are time and channels; all others are spatial, and x is the last one."""


def notes(text: str, names: Iterable[str] = (*BOUNDARIES, MISSING)) -> str:
    """Return the end of a help text, with the names of modes and boundaries filled in."""
    sampled, resized, boundaries = (
        textwrap.fill(f"{', '.join(shown)}.", 100, initial_indent="  ", subsequent_indent="  ")
        for shown in (accepted_names(), accepted_names(resizing=True), names)
    )
    modes = (
        "modes:\n{}\n  The last ones are aliases: bilinear is linear. label is for integers "
        "that name classes: the\n  value with the largest sum of linear weights wins, so no new "
        "values appear. Two or three names,\n  separated by commas, are for x, y and z."
    )
    return text.format(
        modes=modes.format(sampled),
        boundaries=f"boundaries:\n{boundaries}",
        resizing=modes.format(resized),
        alpha=ALPHA_NOTES,
        missing=MISSING_NOTES,
        stores=STORES,
        batch=BATCH,
    )
