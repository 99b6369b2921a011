"""`gridsample flow`: show a flow as colours, or warp an image by it."""

from __future__ import annotations

import argparse

import numpy as np

from gridsample import fields, io
from gridsample.cli import parsers, texts
from gridsample.cli.arguments import FURTHER, Command, add_shared
from gridsample.cli.files import warp_file
from gridsample.cli.maps import map_of_flow
from gridsample.io.fields import read_field

HELP = """\
Show a flow, or another field of displacements, as colours; or warp an image by it with --warp.

Flows are read from .flo (Middlebury), .pfm, .png (KITTI), .npy and NIfTI files.
"""

NOTES = """\
colours:
  No motion is white. Motion to the right is red, down yellow, left cyan, and up blue. The longest
  vectors, or those of length --largest, have the strongest colours. Missing flow is black.

warping:
  The output pixel (x, y) shows the image at (x, y) plus the flow at that pixel. With the flow from
  frame 1 to frame 2, give frame 2: the output looks like frame 1. Where the flow is missing,
  pixels are 0, or NaN in floating-point images. Where the flow shrinks the image, pixels are
  skipped unless --antialias is given.

{modes}

{boundaries}

examples:
  gridsample flow flow.flo colours.png
  gridsample flow flow.png warped.png --warp frame2.png
  gridsample flow warp.nii.gz moved.nii.gz --warp brain.nii.gz --mode spline3
"""


def command() -> Command:
    """Return the parser of the command."""
    parser = Command("flow", ["FLOW OUTPUT"], _flow_file, HELP, texts.notes(NOTES))
    parser.add_argument("flow", type=parsers.file, metavar="FLOW", help="the file with the flow")
    add_shared(parser, "output")
    parser.add_argument(
        "--warp",
        type=parsers.file,
        dest="input",
        metavar="IMAGE",
        help="the image to warp by the flow",
    )
    parser.add_argument(
        "--largest",
        type=parsers.number,
        metavar="PIXELS",
        help="length of the strongest colours (default: the longest vector)",
    )
    add_shared(parser, "--mode", "--padding", "--force")
    add_shared(parser.further, "--no-antialias", "--volume", *FURTHER)
    return parser


def _flow_file(arguments: argparse.Namespace) -> None:
    if arguments.input:
        if arguments.largest is not None:
            raise ValueError("--largest is for colours; it has no meaning with --warp")
        warp_file(arguments, map_of_flow)
        return
    io.check_output(arguments.output, overwrite=arguments.force)
    flow = read_field(arguments.flow).array
    if flow.shape[-1] != 2:
        raise ValueError(
            f"{arguments.flow} holds a {flow.shape[-1]}-D field; colours show 2-D flows only"
        )
    picture = io.Image(
        np.ascontiguousarray(fields.flow_colours(flow[0], arguments.largest)), "NumPy", True
    )
    io.write(picture, arguments.output, overwrite=arguments.force)
