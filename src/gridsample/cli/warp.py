"""`gridsample warp`: rotate, scale, shear or move pictures and volumes."""

from __future__ import annotations

import argparse
from typing import Any

from gridsample.cli import ground, parsers, texts, zarr
from gridsample.cli.arguments import FURTHER, METHOD, Command, add_files, add_shared
from gridsample.cli.files import warp_file

HELP = """\
Warp a picture or volume by steps, which are applied IN THE GIVEN ORDER and may be repeated.

The result has the same dtype. The warp is given by --grid, by --like and --transform, or by any of
--rotate, --scale, --translate, --shear, --affine and --homography. Without any of them, the picture
is copied, or cropped or extended to --size.
"""

NOTES = """\
coordinates:
  Coordinates are in pixels from the centre of the first pixel: x to the right, y down, z through
  the slices. --rotate, --scale and --shear leave the centre of the input in place. --affine and
  --homography map an input pixel to the output pixel that it moves to. All steps are combined into
  one matrix, so the picture is sampled only once. Volumes are rotated and sheared in the x-y plane.
  Voxels are treated as cubes, whatever their physical size.

millimetres:
  --like gives the output the voxels of another NIfTI file: its size, and its position in the
  world. For a GeoTIFF, it takes the pixels of another GeoTIFF; for a raster in a Zarr store, those
  of a GeoTIFF or of another raster.
  --transform maps points of the output's world to the points of the input's world that are shown
  there, which is ITK's convention. The first of several is applied first. Accepted are ITK's
  transforms (.tfm, .h5, .mat, .txt; linear ones and displacement fields), matrices (.npy,
  .txt; 4x4, RAS), and displacement fields in millimetres (.nii, .nii.gz, .mha, .nrrd). ITK's own
  files are read by SimpleITK: pip install "gridsample[itk]".

coordinate systems:
  --crs reprojects a GeoTIFF to another coordinate system, any that pyproj knows by an EPSG code,
  and --like to that of another GeoTIFF: pip install "gridsample[geo]". They take Zarr stores, too,
  with any system of pyproj's; these also need "gridsample[xarray,dask]". --resolution is the size
  of pixels; without it, the diagonal keeps its number of pixels. The nodata value is kept, and
  given to pixels without data: those beyond the edges, and those of which half or more is
  missing. Without a nodata value, they are NaN, or 0 for integers. Positions are within 0.05
  pixels of pyproj's. GDAL's cubic is catmull-rom. --statistic computes a statistic of the pixels
  in the exact area of each output pixel; sums, counts and shares of integers become float64.

size of the output:
  The size of the input, or of the grid. --size selects another size without scaling. The new
  canvas is centred on the input, on half pixels if the sizes differ by an odd number. With --affine
  or --homography, whose numbers refer to output pixels, it starts at pixel (0, 0).

{modes}

{boundaries}

antialiasing:
  Where the warp shrinks the input, a result is the mean over the area that its pixel covers, or in
  mode label the most frequent label there. With --no-antialias, only the points of the output are
  sampled, and pixels between them are skipped. The same holds for mode nearest, and with a --grid,
  unless --antialias is given.

{batch}

files:
  PNG, JPEG, WebP, AVIF, BMP, GIF, TIFF, .npy, .npz, NIfTI (.nii, .nii.gz), .mgz; - is standard
  input or output, in the format of the input. ICC profiles, resolution (DPI) and EXIF tags are
  preserved. A photo is first rotated upright, and its orientation tag is removed. The pages of a
  TIFF file are warped independently; with --volume, they are the slices of one volume. A .npy array
  with three axes is (H, W, C) if its last axis has length 1 to 4, otherwise a volume (D, H, W).
  NIfTI i, j, k are x, y, z; the stored numbers are sampled, and their scaling is preserved. The
  output's NIfTI affine describes its own voxels: those of the input, shifted to the first voxel of
  the canvas, or for a --grid of another shape the same box divided into the grid's voxels.

{missing}

{alpha}

{stores}
  With --like, another OME-Zarr image, and --transform, RFC-5's coordinate transformations (.json,
  or a Zarr group), the warp is in the units of the metadata. The output has the spacing of the
  input, or of --like. With --crs, the output is a group as xarray writes it.

examples:
  gridsample warp photo.jpg turned.png --rotate 30 --scale 0.8
  gridsample warp *.png --rotate 90 --out turned
  gridsample warp photo.png half.png --scale 50% --size 50%
  gridsample warp brain.nii.gz moved.nii.gz --translate -2.5,0,4 --mode bicubic --padding border
  gridsample warp tissue.nii.gz moved.nii.gz --translate -2.5,0,4 --mode label
  gridsample warp brain.nii.gz out.nii.gz --like other.nii.gz --transform brain_to_other.tfm
  gridsample warp heights.tif mercator.tif --crs EPSG:3857 --resolution 30
  gridsample warp heights.zarr mercator.zarr --crs EPSG:3857 --resolution 30
  gridsample warp people.tif coarse.tif --crs EPSG:3035 --resolution 1000 --statistic sum
  gridsample warp big.zarr turned.zarr --rotate 10 --chunks 128x128x128
"""


class _AddStep(argparse.Action):
    """Collect the steps of a warp in the order in which they are given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        name = self.option_strings[0].lstrip("-")
        namespace.steps = [*namespace.steps, (name, values)]


def warp_pages(arguments: argparse.Namespace) -> None:
    """Warp every page of a file, in its coordinate system or to another one."""
    warp_file(arguments, other=ground.Reprojection(arguments))


def command() -> Command:
    """Return the parser of the command."""
    run = zarr.for_stores_or_files(zarr.warp_store, warp_pages)
    forms = ["INPUT OUTPUT", "INPUT... --out FOLDER"]
    parser = Command("warp", forms, run, HELP, texts.notes(NOTES))
    parser.set_defaults(steps=[], transform=[])
    further = parser.further
    for group, name, metavar, number_type, text in (
        (parser, "rotate", "DEG", parsers.numbers, "rotate counter-clockwise"),
        (parser, "scale", "S[,S]", parsers.factors, "enlarge: a factor or 50%%, or one per axis"),
        (parser, "translate", "X,Y", parsers.numbers, "move right and down by pixels"),
        (parser, "shear", "DEG", parsers.numbers, "slant to the right, like italics"),
        (parser, "homography", "FILE", parsers.homography, "apply a 3x3 matrix of pixels"),
        (further, "affine", "a,b,c,d,e,f", parsers.numbers, "move (x, y) to (ax+by+c, dx+ey+f)"),
    ):
        group.add_argument(
            f"--{name}", type=number_type, action=_AddStep, dest="steps", metavar=metavar, help=text
        )
    add_shared(parser, "--size", *METHOD)
    add_files(parser, "warping")
    further.add_argument(
        "--grid",
        type=parsers.file,
        metavar="FILE.npy",
        help="normalized grid, x first: (H', W', 2), or (D', H', W', 3) for a volume",
    )
    further.add_argument(
        "--like",
        type=parsers.file,
        metavar="FILE",
        help="resample a NIfTI file, OME-Zarr image or raster to the voxels of another, see below",
    )
    further.add_argument(
        "--crs",
        metavar="CRS",
        help="reproject a GeoTIFF or a raster of Zarr to this coordinate system: EPSG:3857",
    )
    further.add_argument(
        "--resolution",
        type=parsers.numbers,
        metavar="R[,R]",
        help="with --crs: the size of pixels in its units, or one for x and one for y",
    )
    further.add_argument(
        "--statistic",
        type=parsers.statistic,
        metavar="NAME",
        help="in another coordinate system, the statistic of all pixels in the area of an output "
        "pixel: average, sum, count, share, min, max, q1, median, q3, or 0.9 for another quantile",
    )
    further.add_argument(
        "--transform",
        type=parsers.file,
        action="append",
        metavar="FILE",
        help="transform in the world's units, see below; may be repeated",
    )
    add_shared(further, "--align-corners", "--volume", *FURTHER)
    zarr.add_store(parser)
    return parser
