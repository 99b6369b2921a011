"""`gridsample info`: describe a file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from gridsample import io
from gridsample.cli import parsers, zarr
from gridsample.cli.arguments import Command, add_shared
from gridsample.io import fields
from gridsample.io.omezarr import is_store

HELP = """\
Print a file's format, shape, dtype and range of values. For a field of displacements: its units,
range and folding.
"""

NOTES = """\
examples:
  gridsample info photo.jpg
  gridsample info flow.npy --field
"""


def command() -> Command:
    """Return the parser of the command."""
    parser = Command("info", ["FILE"], _info, HELP, NOTES)
    parser.add_argument("file", type=parsers.file, metavar="FILE", help="the file to read")
    parser.add_argument(
        "--field",
        action="store_true",
        help="treat a .npy or .png (KITTI) file as a field of displacements; .flo and .pfm files, "
        "and NIfTI files with intent 1006 or 1007, always are",
    )
    parser.add_argument(
        "--volume",
        action="store_true",
        help="treat the pages of a TIFF file as slices, and a 3-D .npy file as (D, H, W)",
    )
    add_shared(parser, "--max-pixels")
    return parser


def _info(arguments: argparse.Namespace) -> None:
    """Print the properties of a file, one per line, aligned."""
    if arguments.field or fields.holds_field(arguments.file):
        facts = fields.describe_field(fields.read_field(arguments.file))
        _print_facts([("file", str(arguments.file)), *facts])
        return
    if is_store(arguments.file):
        _print_facts([("file", str(arguments.file)), *zarr.describe(arguments.file)])
        return
    limit = arguments.max_pixels
    with io.pages(arguments.file, volume=arguments.volume, max_pixels=limit) as pages:
        print(f"file      {arguments.file}")
        for n, page in enumerate(pages, 1):
            if len(pages) > 1:
                print(f"{'' if n == 1 else chr(10)}page      {n} of {len(pages)}")
            _print_facts(io.describe(replace(page.image, array=page.pixels())))


def _print_facts(facts: Sequence[tuple[str, str]]) -> None:
    for name, value in facts:
        first, *rest = value.splitlines()
        print(f"{name:<9} {first}", *rest, sep="\n" + " " * 10)
