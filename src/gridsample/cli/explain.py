"""`gridsample explain`: one sample, tap by tap; or a page on a topic."""

from __future__ import annotations

import argparse

import gridsample
from gridsample import io
from gridsample.cli import parsers, texts
from gridsample.cli.arguments import Command, add_shared
from gridsample.definitions.boundaries import BOUNDARIES

HELP = """\
Explain one sample step by step: the coordinate, the position in pixels, the folds of the boundary,
the taps with their weights, and the resulting value and gradient.

For a spline, the B-spline coefficients are shown next to the pixels. With --topic, print a page of
the documentation instead.
"""

NOTES = """\
{modes}

{boundaries}

examples:
  gridsample explain --size 4x4 --at -1.2,0.3 --padding reflection
  gridsample explain --topic align_corners
"""


def command() -> Command:
    """Return the parser of the command."""
    notes = texts.notes(NOTES, BOUNDARIES)
    forms = ["--size WxH --at X,Y", "--topic NAME"]
    parser = Command("explain", forms, _explain, HELP, notes)
    parser.add_argument(
        "--size", type=parsers.size, metavar="WxH", help="size of the image: W, WxH or WxHxD"
    )
    parser.add_argument("--at", type=parsers.numbers, metavar="X,Y", help="coordinate, x first")
    parser.add_argument(
        "--topic",
        type=parsers.topic,
        metavar="NAME",
        help="print the page on a topic, such as align_corners",
    )
    add_shared(parser, "--mode")
    parser.add_argument(
        "--padding",
        type=parsers.plain_boundaries,
        default="zeros",
        metavar="BOUNDARY",
        help="outside: zeros (default), border, mirror, wrap, ...",
    )
    add_shared(parser.further, "--align-corners")
    parser.further.add_argument(
        "--coords",
        choices=("normalized", "pixel", "displacement"),
        default="normalized",
        help="unit of the coordinate (default: normalized)",
    )
    parser.further.add_argument(
        "--index",
        type=parsers.integers,
        metavar="I,J",
        help="output pixel that a displacement starts from, x first (default: the first)",
    )
    parser.add_argument(
        "--plot", type=parsers.file, metavar="FILE.png", help="also draw the sample"
    )
    parser.add_argument("--force", action="store_true", help="replace the drawing if it exists")
    return parser


def _explain(arguments: argparse.Namespace) -> None:
    """Print one sample tap by tap, and draw it if --plot is given."""
    if arguments.topic is not None:
        gridsample.help(arguments.topic)
        return
    needed = {"--size": arguments.size, "--at": arguments.at}
    missing = " and ".join(name for name, value in needed.items() if value is None)
    if missing:
        raise ValueError(f"give {missing}, or --topic NAME (see gridsample explain --help)")
    if arguments.plot:
        io.check_output(arguments.plot, overwrite=arguments.force)
    explanation = gridsample.explain(
        size=arguments.size,
        at=arguments.at,
        mode=arguments.mode,
        padding_mode=arguments.padding,
        align_corners=arguments.align_corners,
        coords=arguments.coords,
        index=arguments.index,
    )
    if arguments.plot:
        io.require("matplotlib")
        from gridsample.explanation.plot import explain as draw

        with io.replacing(arguments.plot, overwrite=arguments.force) as temporary:
            draw(explanation, temporary)
    print(explanation)
