"""`gridsample undistort`: remove the distortion of a lens from a photo."""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample import cameras, fields, io
from gridsample.cli import parsers, texts
from gridsample.cli.arguments import FURTHER, METHOD, Command, add_files, add_shared
from gridsample.cli.files import warp_file
from gridsample.cli.maps import Map, canvas_of, check_canvas
from gridsample.io.calibration import Camera, read_camera, write_camera

HELP = """\
Remove lens distortion from photos, using an OpenCV camera calibration.
"""

NOTES = """\
calibration:
  The file has a 3x3 camera matrix in pixels (named camera_matrix, mtx or K) and 4, 5, 8, 12 or 14
  distortion coefficients in OpenCV's order (distortion_coefficients, dist_coeffs, dist or D). It is
  what OpenCV's FileStorage, ROS or numpy.savez writes: .yaml, .json, .xml or .npz. A file may say
  that the lens is a fisheye (distortion_model: equidistant); otherwise, give --fisheye. Pixels are
  counted from the centre of the first pixel, as in OpenCV.

field of view of the result:
  Like cv2.undistort, the result has the camera matrix of the photo. --alpha chooses another one, as
  cv2.getOptimalNewCameraMatrix does: with 0, the result has only pixels of the photo; with 1, it
  shows all of them. For a fisheye lens, it is the balance of
  cv2.fisheye.estimateNewCameraMatrixForUndistortRectify. --fov chooses a horizontal field of view
  around the middle of the result. --save-camera writes the camera matrix of the result. Pixels
  outside the photo are black, or as --padding says.

{modes}

{boundaries}

{batch}

examples:
  gridsample undistort photo.jpg straight.png --camera camera.yaml
  gridsample undistort *.jpg --out straight --camera camera.yaml
  gridsample undistort photo.jpg straight.png --camera calibration.npz --alpha 0 --mode bicubic
  gridsample undistort fisheye.jpg view.png --camera camera.json --fisheye --fov 100 --size 800x600
"""


def command() -> Command:
    """Return the parser of the command."""
    forms = ["PHOTO OUTPUT --camera FILE", "PHOTO... --out FOLDER --camera FILE"]
    parser = Command("undistort", forms, _undistort_file, HELP, texts.notes(NOTES))
    parser.set_defaults(volume=False)
    parser.add_argument(
        "--camera", type=parsers.file, metavar="FILE", required=True, help="the calibration"
    )
    parser.add_argument("--fisheye", action="store_true", help="use OpenCV's fisheye model")
    framing = parser.add_mutually_exclusive_group()
    framing.add_argument(
        "--alpha",
        type=parsers.number,
        metavar="A",
        help="from 0 (no pixels outside the photo) to 1 (all of the photo)",
    )
    framing.add_argument(
        "--fov", type=parsers.number, metavar="DEG", help="horizontal field of view of the result"
    )
    add_shared(parser, "--size", *METHOD)
    add_files(parser, "undistorting")
    parser.further.add_argument(
        "--save-camera",
        type=parsers.file,
        metavar="FILE.json",
        help="write the camera matrix of the result, which has no distortion",
    )
    add_shared(parser.further, *FURTHER)
    return parser


def _undistort_file(arguments: argparse.Namespace) -> None:
    camera = read_camera(arguments.camera)
    if arguments.save_camera:
        if arguments.out:
            raise ValueError("--save-camera is for a single photo; it does not go with --out")
        io.check_output(arguments.save_camera, overwrite=arguments.force)
    ideal: list[Camera] = []

    def map_of(image: io.Image, _: argparse.Namespace) -> Map:
        grid_map, new = _map(image, arguments, camera)
        ideal.append(new)
        return grid_map

    warp_file(arguments, map_of)
    if arguments.save_camera:
        with io.replacing(arguments.save_camera, overwrite=arguments.force) as temporary:
            write_camera(ideal[0], temporary)


def _map(image: io.Image, arguments: argparse.Namespace, camera: Camera) -> tuple[Map, Camera]:
    """Return the map of a photo, and the camera of its result."""
    size = image.size
    if len(size) != 2:
        raise ValueError(f"gridsample undistort takes photos; {arguments.input} is a volume")
    if camera.size not in (None, size):
        raise ValueError(
            f"{arguments.camera} is for photos of {'x'.join(map(str, camera.size or ()))} pixels, "
            f"but {arguments.input} has {'x'.join(map(str, size))}"
        )
    canvas = check_canvas(canvas_of(arguments.size, size), image)
    new, model = _intrinsics(size, canvas, arguments, camera)

    def grid_at(rows: slice) -> NDArray[Any]:
        first = new.copy()
        first[1, 2] -= rows.start
        shape = rows.stop - rows.start, canvas[0]
        grid = cameras.undistort_grid(
            shape, camera.intrinsics, camera.distortion, new_intrinsics=first, model=model
        )
        normalized: NDArray[Any] = fields.to_normalized(grid[0], size[::-1], coords="pixel")
        return normalized

    ideal = Camera(new, np.zeros(4), False, (canvas[0], canvas[1]))
    return Map(canvas, grid_at, np.eye(3)), ideal


def _intrinsics(
    size: tuple[int, ...], canvas: tuple[int, ...], arguments: argparse.Namespace, camera: Camera
) -> tuple[NDArray[Any], str]:
    """Return the intrinsics of the result, and the model of the lens."""
    model = "fisheye" if arguments.fisheye or camera.fisheye else "opencv"
    if model == "fisheye" and camera.distortion.size not in (0, 4):
        raise ValueError(
            f"a fisheye has 4 coefficients; {arguments.camera} has {camera.distortion.size}"
        )
    if arguments.fov is not None:
        if not 0 < arguments.fov < 180:
            raise ValueError(f"--fov must be between 0 and 180 degrees, got {arguments.fov:g}")
        focal = canvas[0] / 2 / math.tan(math.radians(arguments.fov) / 2)
        x, y = ((n - 1) / 2 for n in canvas)
        return np.array([[focal, 0, x], [0, focal, y], [0, 0, 1]]), model
    if arguments.alpha is None:
        return camera.intrinsics, model
    lens = camera.intrinsics, camera.distortion
    return cameras.optimal_intrinsics(
        size[::-1], *lens, arguments.alpha, canvas[::-1], model=model
    ), model
