"""Hints on stderr: labels that were blended, and pixels that were skipped."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample import io
from gridsample.definitions.labels import has_labels
from gridsample.definitions.methods import Mode, find_method, listed
from gridsample.ops.footprints import footprint

MAX_LABELS = 256
MAX_ROWS = 64  # of a band, which are examined
# Outputs that are smaller by more than this factor need antialiasing.
MIN_SHRINK = 1.5
# The modes that copy pixels.
COPYING = {"nearest", "nearest-exact", "spline0"}
# The formats in which labels are usually stored.
LABEL_FORMATS = ("NIfTI", "TIFF", "NumPy")


class LabelHint:
    """Examines pixels that will be blended, and warns if they look like labels.

    Labels are integers of one channel, of few values, and most neighbours have the same one: more
    than half of those that are not both background, which is the most common value.
    """

    def __init__(self, mode: Mode, antialias: bool = False) -> None:
        """Start without pixels; a mode that copies or votes needs no hint."""
        methods = [find_method(name, resizing=True) for name in listed(mode)]
        copying = set() if antialias else COPYING
        self.is_active = not all(method.votes or method.name in copying for method in methods)
        self.counts: dict[int, int] = {}
        self.same_pairs: dict[int, int] = {}
        self.pair_count = 0

    def examine(self, image: io.Image, rows: NDArray[Any]) -> None:
        """Count values, and neighbours along x that are alike, in some rows of an image."""
        labels = rows.dtype.kind in "iu" and image.channels == 1 and image.format in LABEL_FORMATS
        self.is_active = self.is_active and labels
        if not self.is_active:
            return
        lines = rows[..., 0].reshape(-1, rows.shape[-2])
        lines = lines[:: max(1, len(lines) // MAX_ROWS)]
        same = lines[:, 1:][lines[:, 1:] == lines[:, :-1]]
        for counts, values in ((self.counts, lines), (self.same_pairs, same)):
            for value, count in zip(*np.unique(values, return_counts=True), strict=True):
                counts[int(value)] = counts.get(int(value), 0) + int(count)
        self.pair_count += lines[:, 1:].size
        self.is_active = len(self.counts) <= MAX_LABELS

    def show(self) -> None:
        """Print the hint if the pixels look like labels."""
        if not self.is_active or len(self.counts) < 2:
            return
        background = max(self.counts, key=lambda value: self.counts[value])
        empty = self.same_pairs.pop(background, 0)
        if 2 * sum(self.same_pairs.values()) > self.pair_count - empty:
            _print("the input looks like labels, which were blended; --mode label keeps them")


class ShrinkHint:
    """Warns if most of an image that is not antialiased shrinks, so that pixels are skipped."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Start without an image; no hint is needed where the user chose."""
        self.is_active = arguments.antialias is None
        votes = has_labels(arguments.mode)
        self.remedy = "counts all labels" if votes else "averages over them, --mode label votes"
        self.lengths: list[NDArray[Any]] = []

    def examine(self, grid: NDArray[Any], size: tuple[int, ...], align_corners: bool) -> None:
        """Measure the middle rows of a band's grid (rows, ..., D)."""
        if not self.is_active or not grid.size:
            return
        middle = len(grid) // 2
        rows = grid[max(middle - 1, 0) : middle + 2][np.newaxis]
        inside = (np.abs(rows) <= 1).all(-1)
        longest = footprint(rows, size, align_corners).lengths.max(-1)
        self.lengths.append(longest[inside])

    def compare(self, size: Sequence[int], new_size: Sequence[int]) -> None:
        """Measure an image that is resized."""
        if self.is_active:
            self.lengths.append(np.array([max(np.divide(size, new_size))]))

    def show(self) -> None:
        """Print the hint if the median length is above `MIN_SHRINK`."""
        lengths = np.concatenate([np.zeros(0), *self.lengths])
        shrink = float(np.median(lengths)) if lengths.size else 0.0
        if shrink > MIN_SHRINK:
            _print(
                f"the image shrinks by a factor of {shrink:.2g}, and pixels are skipped; "
                f"--antialias {self.remedy}"
            )


def show_lost_palette(images: Sequence[io.Image], path: Path) -> None:
    """Print a hint if pictures had a palette, which the file at a path has not."""
    if any("palette" in image.extras for image in images) and io.format_of(path).name != "GIF":
        _print(f"the input has a palette; {path} has RGB colours, because new colours arise")


# Texts of pictures that some formats keep, and what they are called.
TEXTS = {"chunks": "text and gamma", "xmp": "XMP", "comment": "comment"}
KEPT = {
    "PNG": {*TEXTS},
    "JPEG": {"xmp", "comment"},
    "WebP": {"xmp"},
    "AVIF": {"xmp"},
    "GIF": {"comment"},
}


def show_lost_texts(images: Sequence[io.Image], path: Path) -> None:
    """Print a hint if pictures had texts that the picture at a path has not."""
    name = io.format_of(path).name
    kept = KEPT.get(name, set[str]())
    lost = [word for key, word in TEXTS.items() if key in images[0].extras and key not in kept]
    if lost and name in (*KEPT, "BMP", "TIFF"):
        _print(f"the {' and the '.join(lost)} of the input are not kept in {path}")


def _print(hint: str) -> None:
    print(f"gridsample: hint: {hint}", file=sys.stderr)
