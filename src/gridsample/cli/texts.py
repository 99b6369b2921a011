"""The help texts of `warp`, `resize` and `explain`, and the notes that several commands share."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from gridsample.definitions.boundaries import BOUNDARIES, MISSING
from gridsample.methods import names as method_names

WARP = """\
Warp a picture or volume and write the result, in the same dtype, to another file.

Describe the warp with --grid, with --like and --transform, or with any of --rotate, --scale,
--translate, --shear, --affine and --homography, which are applied IN THE GIVEN ORDER and may be
repeated. Without any of them, the picture is copied, or cropped or extended to --size.
"""

WARP_NOTES = """\
coordinates:
  Coordinates are in pixels from the centre of the first pixel: x to the right, y down, z through
  the slices. --rotate, --scale and --shear leave the centre of the input in place. --affine and
  --homography map an input pixel to the output pixel that it moves to. All steps are combined into
  one matrix, so the picture is sampled only once. Volumes are rotated and sheared in the x-y plane.
  Voxels are treated as cubes, whatever their physical size.

millimetres:
  --like takes the voxels of another NIfTI file: its size, and its position in the world.
  --transform maps points of the output's world to the points of the input's world that are shown
  there, which is ITK's convention. The first of several is applied first. Accepted are ITK's
  transforms (.tfm, .h5, .mat, .txt; linear ones and displacement fields), matrices (.npy,
  .txt; 4x4, RAS), and displacement fields in millimetres (.nii, .nii.gz, .mha, .nrrd). ITK's own
  files are read by SimpleITK: pip install "gridsample[itk]".

size of the output:
  The size of the input, or of the grid. --size selects another size without scaling. The new
  canvas is centred on the input, on half pixels if the sizes differ by an odd number. With --affine
  or --homography, whose numbers refer to output pixels, it starts at pixel (0, 0).

{modes}

{boundaries}

files:
  PNG, JPEG, WebP, AVIF, BMP, GIF (only read), TIFF, .npy, .npz, NIfTI (.nii, .nii.gz), .mgz; - is
  standard input or output, in the format of the input. ICC profiles, resolution (DPI) and EXIF tags
  are preserved. A photo is first turned upright, and its orientation tag is removed. The pages of a
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
  input, or of --like.

examples:
  gridsample warp photo.jpg turned.png --rotate 30 --scale 0.8
  gridsample warp photo.png half.png --scale 0.5 --size 256x256 --antialias
  gridsample warp brain.nii.gz moved.nii.gz --translate -2.5,0,4 --mode bicubic --padding border
  gridsample warp tissue.nii.gz moved.nii.gz --translate -2.5,0,4 --mode label
  gridsample warp brain.nii.gz out.nii.gz --like other.nii.gz --transform brain_to_other.tfm
  gridsample warp big.zarr turned.zarr --rotate 10 --chunks 128x128x128
"""

RESIZE = """\
Resize a picture or volume and write the result, in the same dtype, to another file.
"""

RESIZE_NOTES = """\
{resizing}
  To make a picture smaller without skipping pixels, use --antialias, or --mode area.

files:
  The formats and the metadata preserved are those of gridsample warp. TIFF pages and .npy files are
  read and written in bands of rows, so they may be larger than memory. The pages of a TIFF file are
  resized independently; with --volume, they are the slices of one volume. The output's NIfTI affine
  describes its own voxels.

{missing}

{alpha}

{stores}

examples:
  gridsample resize photo.jpg small.png --size 640x480 --antialias
  gridsample resize scan.tif half.tif --scale 0.5 --mode area
  gridsample resize brain.nii.gz fine.nii.gz --scale 2 --mode spline3
  gridsample resize tissue.nii.gz coarse.nii.gz --scale 0.5 --mode label --antialias
  gridsample resize big.zarr half.zarr --scale 0.5 --antialias
"""

ALPHA_NOTES = """\
alpha:
  Colours are multiplied by alpha before sampling and divided by it afterwards, so that the colours
  of transparent pixels do not bleed. Alpha is the last of 2 or 4 channels of a PNG file (input or
  output), or the channel that a TIFF file marks as alpha. The colours of a TIFF file with
  associated alpha are already multiplied by it, and are sampled as they are. --straight-alpha
  samples alpha like any other channel."""

MISSING_NOTES = """\
missing pixels:
  NaN, and the value of --nodata or of a TIFF file's nodata tag. They are ignored: a result is the
  mean of the other pixels that it reads. A result without any is missing, too, and gets the nodata
  value, or NaN. With --missing propagate, every result that reads a missing pixel is missing.
  Modes that copy whole pixels copy missing ones, too. Outside the image, nothing is missing unless
  --padding missing is given (gridsample warp)."""

STORES = """\
Zarr:
  An input folder with a Zarr array or an OME-Zarr image (0.4 to 0.6) is processed chunk by chunk,
  and may be larger than memory; OUTPUT is a new OME-Zarr image, whose name ends in .zarr. Only the
  finest level is read. A command that was ended, even by kill -9, continues when it is repeated:
  finished chunks are not computed again. At the end, the bytes read and written are printed. Axes
  named t and c are time and channels; all others are spatial, and x is the last one."""

INFO = """\
Print a file's format, shape, dtype and range of values. For a field of displacements: its units,
range and folding.
"""

EXPLAIN_NOTES = "{modes}\n\n{boundaries}"

EXPLAIN = """\
Explain one sample step by step: the coordinate, the position in pixels, the folds of the boundary,
the taps with their weights, and the resulting value and gradient. For a spline, the B-spline
coefficients are shown next to the pixels.
"""


def notes(text: str, names: Iterable[str] = (*BOUNDARIES, MISSING)) -> str:
    """Return the end of a help text, with the names of modes and boundaries filled in."""
    sampled, resized, boundaries = (
        textwrap.fill(f"{', '.join(shown)}.", 100, initial_indent="  ", subsequent_indent="  ")
        for shown in (method_names(), method_names(resizing=True), names)
    )
    modes = (
        "modes:\n{}\n  bilinear and bicubic are linear and cubic. label is for integers that name "
        "classes: the value\n  with the largest sum of linear weights wins, so no new values "
        "appear."
    )
    return text.format(
        modes=modes.format(sampled),
        boundaries=f"boundaries:\n{boundaries}",
        resizing=modes.format(resized),
        alpha=ALPHA_NOTES,
        missing=MISSING_NOTES,
        stores=STORES,
    )
