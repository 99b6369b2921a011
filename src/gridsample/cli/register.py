"""`gridsample register`: align one image with another."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample import io
from gridsample.alpha import divide, multiply
from gridsample.cli import parsers, texts
from gridsample.cli.arguments import Command, add_shared
from gridsample.cli.files import boundary_and_fill
from gridsample.cli.terminal import progress_bar

if TYPE_CHECKING:
    from gridsample.registration import Registration

HELP = """\
Find the transform that aligns the image MOVING with the image FIXED, and write the moving image,
resampled to the pixels of the fixed one.
"""

NOTES = """\
models:
  translation, rigid, similarity, affine, homography; displacement: a vector for each pixel;
  velocity: a displacement that is smooth and invertible.

losses:
  mse and l1: images with the same brightness. ncc: images that differ in brightness or contrast.
  lncc: images with shading. mi: images of different kinds, such as CT and MR.

transforms:
  --save-transform writes a matrix as .txt, .csv or .npy. It maps pixels of MOVING to pixels of
  FIXED, as gridsample warp --homography takes it. For the models displacement and velocity, or with
  another extension, it writes a displacement field (.npy, .flo, .pfm, .png, .nii, .nii.gz), as
  gridsample flow --warp takes it.

files:
  The formats of gridsample warp. The output has the dtype of MOVING. If one image has
  colours and the other has none, the average of the colours is compared. NaN, the nodata value of a
  TIFF file, and transparent pixels are missing, and are ignored. For NIfTI files,
  rotations take the size of the voxels into account, and the output has the affines of FIXED; the
  affines' rotations and offsets are not used to align the images.

exit code:
  0 if the images agree at the transform that was found, 1 if they do not (the files are written all
  the same), 2 for an error. The printed line says why.

{modes}

{boundaries}

examples:
  gridsample register fixed.png moving.png out.png --model homography --plot report.png
  gridsample register t1.nii.gz t2.nii.gz out.nii.gz --model rigid --loss mi --save-transform t.txt
  gridsample register fixed.png moving.png out.png --model displacement --save-transform field.flo
"""

_FIELDS = ("displacement", "velocity")
_MODELS = ("translation", "rigid", "similarity", "affine", "homography", *_FIELDS)
_LOSSES = ("mse", "l1", "ncc", "lncc", "mi")


def command() -> Command:
    """Return the parser of the command."""
    operands = ["FIXED MOVING OUTPUT"]
    parser = Command("register", operands, _register_files, HELP, texts.notes(NOTES))
    parser.set_defaults(fill=None)
    for name, text in (("fixed", "the image that stays"), ("moving", "the image that is warped")):
        parser.add_argument(name, type=parsers.file, metavar=name.upper(), help=text)
    add_shared(parser, "output")
    parser.add_argument(
        "--model",
        choices=_MODELS,
        default="affine",
        metavar="MODEL",
        help="translation, rigid, similarity, affine (default), homography, displacement, velocity",
    )
    parser.add_argument(
        "--loss",
        choices=_LOSSES,
        default="mse",
        metavar="LOSS",
        help="what is minimized: mse (default), l1, ncc, lncc, mi",
    )
    add_shared(parser, "--mode", "--padding")
    parser.set_defaults(padding="zeros")
    parser.add_argument(
        "--plot", type=parsers.file, metavar="FILE.png", help="draw before, after and the loss"
    )
    parser.add_argument(
        "--save-transform", type=parsers.file, metavar="FILE", help="write the transform"
    )
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    further = parser.further
    for name in ("fixed", "moving"):
        further.add_argument(
            f"--{name}-mask",
            type=parsers.file,
            metavar="FILE",
            help=f"image that is 0 where pixels of {name.upper()} do not count",
        )
    further.add_argument(
        "--initial",
        metavar="START",
        default="search",
        help="search (default), identity, or a file with a matrix, as --save-transform writes it",
    )
    further.add_argument(
        "--regularization",
        choices=("bending", "diffusion"),
        default="bending",
        help="what keeps displacements and velocities smooth (default: bending)",
    )
    further.add_argument(
        "--weight",
        type=parsers.number,
        metavar="W",
        help="weight of the regularization (default: 0.005 for bending, 0.1 for diffusion)",
    )
    add_shared(further, "--volume", "--max-pixels")
    return parser


class _Inputs(NamedTuple):
    """What is read before images are registered.

    Attributes:
        fixed, moving: the images, as they are in their files.
        target: the output, without its pixels.
        compared: the channels of both that are compared, (1, *spatial, C).
        masks: which pixels of both are compared; None for all.
        initial: the transform to begin with, or the name of a way to find it.
    """

    fixed: io.Image
    moving: io.Image
    target: io.Image
    compared: tuple[NDArray[Any], NDArray[Any]]
    masks: tuple[NDArray[Any] | None, ...]
    initial: Any


def _register_files(arguments: argparse.Namespace) -> int:
    """Register two files; return the exit code, 1 if the images do not agree afterwards."""
    _check_outputs(arguments)
    inputs = _read_inputs(arguments)
    # Files are read first: an error of theirs does not need torch.
    from gridsample.registration import RegistrationWarning, draw_report, register

    with (
        progress_bar(f"registering {arguments.moving.name}") as progress,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", RegistrationWarning)  # the exit code says it
        result = register(
            *inputs.compared,
            arguments.model,
            arguments.loss,
            fixed_mask=inputs.masks[0],
            moving_mask=inputs.masks[1],
            initial=inputs.initial,
            channel_axis=-1,
            regularization=arguments.regularization,
            weight=arguments.weight,
            spacing=_spacing(inputs.fixed),
            moving_spacing=_spacing(inputs.moving),
            progress=progress,
        )
    written = replace(inputs.target, array=_warped(inputs.moving, result, arguments))
    io.write(written, arguments.output, overwrite=arguments.force)
    if arguments.save_transform:
        header = inputs.fixed.extras.get("nifti")
        affine = None if header is None else header.header.get_best_affine()
        result.save(arguments.save_transform, affine=affine, overwrite=arguments.force)
    if arguments.plot:
        with io.replacing(arguments.plot, overwrite=arguments.force) as temporary:
            draw_report(result, *inputs.compared, temporary)
    print(result)
    return 0 if result.success else 1


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Raise an error if an output cannot be written."""
    from gridsample.registration.files import check_transform

    for path in (arguments.output, arguments.plot, arguments.save_transform):
        if path is not None:
            io.check_output(path, overwrite=arguments.force)
    if arguments.save_transform:
        check_transform(arguments.save_transform, arguments.model not in _FIELDS)
    if arguments.plot:
        io.require("matplotlib")


def _read_inputs(arguments: argparse.Namespace) -> _Inputs:
    """Read the images, their masks and the initial transform."""
    from gridsample.registration.files import load_transform

    reading = {"volume": arguments.volume, "max_pixels": arguments.max_pixels}
    fixed, moving = (io.read(path, **reading) for path in (arguments.fixed, arguments.moving))
    if "nifti" not in fixed.extras and moving.scaling != (1, 0):
        moving = moving.values()  # there is no header that would keep the scaling
    target = _target(fixed, moving)
    io.check_writable(arguments.output, [target])
    compared = _colours(fixed, arguments.fixed), _colours(moving, arguments.moving)
    if compared[0].shape[-1] != compared[1].shape[-1]:
        compared = compared[0].mean(-1, keepdims=True), compared[1].mean(-1, keepdims=True)
    masks = tuple(
        None if path is None else io.read(path, **reading).array[..., 0] != 0
        for path in (arguments.fixed_mask, arguments.moving_mask)
    )
    initial: Any = arguments.initial
    if initial not in ("search", "identity"):
        initial = load_transform(Path(initial))
    return _Inputs(fixed, moving, target, compared, masks, initial)


def _warped(moving: io.Image, result: Registration, arguments: argparse.Namespace) -> NDArray[Any]:
    """Return the moving image at the pixels of the fixed one; colours are weighted by alpha."""
    alpha, pixels = io.alpha_of(moving, arguments.moving), moving.array
    if alpha is not None and alpha.premultiplied:
        alpha = None
    if alpha is not None:
        pixels = multiply(pixels, alpha)
    padding, fill = boundary_and_fill(moving, arguments, copies=False)
    warped: NDArray[Any] = result.warp(
        pixels[np.newaxis], arguments.mode, padding, channel_axis=-1, fill_value=fill
    )[0]
    return warped if alpha is None else divide(warped, alpha, moving.array.dtype)


def _target(fixed: io.Image, moving: io.Image) -> io.Image:
    """The output without its pixels: the grid of the fixed image, the pixels of the moving one."""
    shape = (*fixed.array.shape[:-1], moving.channels)
    extras = {
        name: value for name, value in moving.extras.items() if name not in ("nifti", "nodata")
    }
    if "nifti" in fixed.extras:
        extras["nifti"] = fixed.extras["nifti"].scaled(*moving.scaling)
    if len(fixed.array.shape) != len(moving.array.shape):
        raise ValueError(
            f"FIXED is {'x'.join(map(str, fixed.size))} and MOVING "
            f"{'x'.join(map(str, moving.size))}: a picture cannot be aligned with a volume"
        )
    placeholder = io.zeros(shape, moving.array.dtype)
    return io.Image(placeholder, moving.format, moving.has_channel_axis, extras, moving.alpha)


def _colours(image: io.Image, path: Path) -> NDArray[Any]:
    """Return the compared channels, (1, *spatial, C) float32, with NaN for missing pixels."""
    array = np.array(image.array, np.float32)
    if "nodata" in image.extras:
        array[image.array == image.extras["nodata"]] = np.nan
    slope, inter = image.scaling
    array = array * np.float32(slope) + np.float32(inter)
    alpha = io.alpha_of(image, path)
    if alpha is not None:
        array[image.array[..., alpha.channel] == 0] = np.nan
        array = np.delete(array, alpha.channel, -1)
    return array[np.newaxis]


def _spacing(image: io.Image) -> tuple[float, ...] | None:
    """The distances between pixels, in the order of the array's axes."""
    return None if image.spacing is None else image.spacing[::-1]
