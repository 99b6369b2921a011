"""`gridsample resize`: resize pictures and volumes."""

from __future__ import annotations

from gridsample.cli import parsers, texts, zarr
from gridsample.cli.arguments import FURTHER, Command, add_files, add_shared
from gridsample.cli.files import resize_file

HELP = """\
Resize pictures or volumes, with antialiasing where they shrink.

The result has the same dtype. It is written to OUTPUT, or into a FOLDER under the name of INPUT.
"""

NOTES = """\
size of the output:
  --size 640x480 is exact (WxHxD for a volume). --size 640 is the width, and --size x480 the height;
  the other lengths keep the aspect ratio. --size 50%, --scale 50% and --scale 0.5 are the
  same: lengths are rounded down. --spacing rounds them to the nearest.

{resizing}

antialiasing:
  Along axes that shrink, weights are stretched, so that no pixel is skipped; labels vote. In modes
  nearest and nearest-exact, pixels are copied unless --antialias is given. With --no-antialias,
  weights are never stretched. --mode area is the mean over the area of each output pixel.

{batch}

files:
  The formats and the metadata preserved are those of gridsample warp. TIFF pages and .npy files are
  read and written in bands of rows, so they may be larger than memory. The pages of a TIFF file are
  resized independently; with --volume, they are the slices of one volume. The output's NIfTI affine
  describes its own voxels.

{missing}

{alpha}

{stores}

examples:
  gridsample resize photo.jpg small.png --size 640
  gridsample resize *.jpg --scale 50% --out small
  gridsample resize scan.tif half.tif --scale 0.5 --mode area
  gridsample resize brain.nii.gz fine.nii.gz --scale 2 --mode spline3
  gridsample resize tissue.nii.gz coarse.nii.gz --scale 0.5 --mode label
  gridsample resize big.zarr half.zarr --scale 0.5
"""


def command() -> Command:
    """Return the parser of the command."""
    run = zarr.for_stores_or_files(zarr.resize_store, resize_file)
    forms = ["INPUT OUTPUT", "INPUT... --out FOLDER"]
    parser = Command("resize", forms, run, HELP, texts.notes(NOTES))
    add_shared(parser, "--size")
    parser.add_argument(
        "--scale",
        type=parsers.factors,
        metavar="S[,S]",
        help="size of output / input: 0.5 or 50%%, or one per axis",
    )
    parser.add_argument(
        "--spacing",
        type=parsers.numbers,
        metavar="S[,S]",
        help="distance between voxels in mm, or pixels of a GeoTIFF",
    )
    parser.add_argument(
        "--mode",
        type=parsers.resizing_modes,
        default="bilinear",
        metavar="MODE",
        help="nearest, bilinear (default), bicubic, lanczos, ...",
    )
    add_shared(parser, "--no-antialias")
    add_files(parser, "resizing")
    parser.further.add_argument(
        "--align-corners",
        action="store_true",
        default=None,
        help="keep the centres of the corner pixels in place, not their outer edges",
    )
    add_shared(parser.further, "--volume", *(name for name in FURTHER if name != "--fill"))
    zarr.add_store(parser)
    return parser
