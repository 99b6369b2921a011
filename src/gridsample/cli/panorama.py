"""`gridsample panorama`: convert between equirectangular, cubemap and perspective pictures."""

from __future__ import annotations

import argparse
import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample import cameras, io
from gridsample.alpha import divide, multiply
from gridsample.cli import parsers, texts
from gridsample.cli.arguments import Command, add_files, add_shared
from gridsample.cli.files import PreparedPage, Progress, convert_file, sampled_alpha
from gridsample.cli.maps import check_canvas
from gridsample.warp import copies_pixels

PROJECTIONS = ("equirectangular", "cubemap", "perspective")
ANGLES = ("yaw", "pitch", "roll")

# Where the faces (front, right, back, left, up, down) are in each layout, as (row, column), and the
# numbers of rows and columns.
FACE_CELLS = {
    "cross": ((1, 1), (1, 2), (1, 3), (1, 0), (0, 1), (2, 1)),
    "row": ((0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5)),
    "column": ((0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0)),
}
LAYOUT_SHAPES = {"cross": (3, 4), "row": (1, 6), "column": (6, 1)}

HELP = """\
Convert between panoramas (equirectangular), cube maps and perspective pictures, without seams.
"""

NOTES = """\
projections:
  equirectangular  a panorama of all directions, twice as wide as high; forward is in the middle
  cubemap          six square faces: front, right, back, left, up, down, as seen from inside. In a
                   picture, they are a cross of 4x3 faces, a row or a column; when a cube map is
                   read, its shape tells which
  perspective      an ordinary picture, with a horizontal field of view of --fov degrees (of the
                   result) or --from-fov degrees (of the input)

angles:
  --yaw turns to the right, --pitch up, --roll clockwise. They give the direction in which
  the perspective picture looks: the result or, if that is not one, the input. Between panoramas
  and cube maps, they give the direction in the input that is forward in the result.

size of the result:
  By default, the middle of the result has the resolution of the middle of the input. --size is one
  number for a cube map, the edge of a face. There is no antialiasing: to make a small picture from
  a large one, use gridsample resize first.

{modes}

{batch}

examples:
  gridsample panorama pano.jpg view.jpg --to perspective --fov 90 --yaw 30
  gridsample panorama pano.jpg cube.png --to cubemap --layout row
  gridsample panorama cube.png pano.png --from cubemap --to equirectangular --mode bicubic
"""


def command() -> Command:
    """Return the parser of the command."""
    forms = ["INPUT OUTPUT --to PROJECTION", "INPUT... --out FOLDER --to PROJECTION"]
    parser = Command("panorama", forms, _panorama_file, HELP, texts.notes(NOTES))
    parser.set_defaults(volume=False)
    parser.add_argument(
        "--to",
        dest="target",
        choices=PROJECTIONS,
        metavar="PROJECTION",
        required=True,
        help=", ".join(PROJECTIONS),
    )
    parser.add_argument(
        "--from",
        dest="source",
        choices=PROJECTIONS,
        default=PROJECTIONS[0],
        metavar="PROJECTION",
        help="projection of the input (default: equirectangular)",
    )
    for name, text in (
        ("fov", "horizontal field of view of the output (default: 90)"),
        ("from-fov", "horizontal field of view of a perspective input"),
        ("yaw", "turn to the right"),
        ("pitch", "turn up"),
        ("roll", "turn clockwise"),
    ):
        parser.add_argument(f"--{name}", type=parsers.number, metavar="DEG", help=text)
    parser.add_argument(
        "--size", type=parsers.size, metavar="WxH", help="size of the output; S for a cube map"
    )
    add_files(parser, "converting")
    parser.further.add_argument(
        "--layout",
        choices=LAYOUT_SHAPES,
        help="how the faces of a cube map are written (default: cross)",
    )
    add_shared(parser.further, "--mode", "--threads", "--max-pixels", "--straight-alpha")
    return parser


def _panorama_file(arguments: argparse.Namespace) -> None:
    """Convert every page of a file."""
    for option, value, has_meaning in (
        ("--fov", arguments.fov, arguments.target == "perspective"),
        ("--from-fov", arguments.from_fov, arguments.source == "perspective"),
        ("--layout", arguments.layout, arguments.target == "cubemap"),
    ):
        if value is not None and not has_meaning:
            raise ValueError(
                f"{option} has no meaning from {arguments.source} to {arguments.target}"
            )
    convert_file(arguments, "converting", functools.partial(_converted_page, arguments))


def _converted_page(arguments: argparse.Namespace, page: io.Page) -> PreparedPage:
    """Return a page of the result."""
    image, layout = page.image, arguments.layout or "cross"
    if len(image.size) != 2:
        raise ValueError(f"gridsample panorama takes pictures; {arguments.input} is a volume")
    source, focal = _source(image, arguments)
    target = _target(arguments, focal)
    size = target.shape[-2:]
    if target.kind == "cubemap":
        size = tuple(n * count for n, count in zip(size, LAYOUT_SHAPES[layout], strict=True))
    shape = (*check_canvas(size[::-1], image)[::-1], image.channels)
    result = image.resampled(io.zeros(shape, image.array.dtype), np.eye(3))
    alpha = sampled_alpha(image, arguments)
    if copies_pixels(arguments.mode, 2):
        alpha = None
    rotation = cameras.look(*(float(getattr(arguments, name) or 0) for name in ANGLES))
    if source.kind == "perspective" and target.kind != "perspective":
        rotation = rotation.T

    def pixels(progress: Progress) -> io.Bands:
        array = page.pixels()
        dtype = array.dtype.newbyteorder("=")
        if alpha is not None:
            array = multiply(array, alpha)
        if source.kind == "cubemap":
            array = _faces(array, _layout_of(array.shape[1::-1]))
        planes = np.moveaxis(array, -1, 0)[np.newaxis]
        options = {"mode": arguments.mode, "threads": arguments.threads}
        converted = cameras.convert_panorama(planes, source, target, rotation, **options)[0]
        converted = np.moveaxis(converted, 0, -1)
        if alpha is not None:
            converted = divide(converted, alpha, dtype)
        yield _picture(converted, layout) if target.kind == "cubemap" else converted
        progress(1.0)

    return result, pixels


def _source(image: io.Image, arguments: argparse.Namespace) -> tuple[cameras.Projection, float]:
    """Return the projection of the input, and its pixels per radian in the middle."""
    width, height = image.size
    if arguments.source == "equirectangular":
        return cameras.equirectangular((height, width)), width / (2 * math.pi)
    if arguments.source == "cubemap":
        edge = height // LAYOUT_SHAPES[_layout_of((width, height))][0]
        return cameras.cubemap(edge), edge / 2
    if arguments.from_fov is None:
        raise ValueError("--from perspective needs --from-fov, the input's field of view")
    view = cameras.perspective((height, width), arguments.from_fov)
    return view, float(view.intrinsics[0][0])


def _target(arguments: argparse.Namespace, focal: float) -> cameras.Projection:
    """Return the projection of the output, by default with ``focal`` pixels per radian."""
    projection_name, size = arguments.target, arguments.size
    counts, expected = {
        "equirectangular": ((1, 2), "W or WxH"),
        "cubemap": ((1,), "S"),
        "perspective": ((2,), "WxH"),
    }[projection_name]
    if size is not None and len(size) not in counts:
        raise ValueError(
            f"--size of {projection_name} is {expected}, got {'x'.join(map(str, size))}"
        )
    if projection_name == "cubemap":
        return cameras.cubemap(max(1, round(2 * focal)) if size is None else size[0])
    if projection_name == "equirectangular":
        width = max(2, round(2 * math.pi * focal)) if size is None else size[0]
        return cameras.equirectangular((size[1] if size and size[1:] else width // 2 or 1, width))
    fov = 90.0 if arguments.fov is None else float(arguments.fov)
    if size is None:
        width = max(1, round(2 * focal * math.tan(math.radians(min(fov, 179)) / 2)))
        size = width, max(1, round(width * 3 / 4))
    return cameras.perspective(size[::-1], fov)


# Cube maps in pictures ----------------------------------------------------------------------------


def _layout_of(size: tuple[int, ...]) -> str:
    """Return how faces are laid out in a picture (width, height), by its shape."""
    width, height = size
    for name, (rows, columns) in LAYOUT_SHAPES.items():
        if height % rows == 0 and width == height // rows * columns:
            return name
    raise ValueError(
        f"a cube map is a cross of 4x3 square faces, a row of 6x1 or a column of 1x6; the input "
        f"has {width}x{height} pixels"
    )


def _faces(array: NDArray[Any], layout: str) -> NDArray[Any]:
    """Take the faces (6, S, S, C) out of a picture."""
    n = array.shape[0] // LAYOUT_SHAPES[layout][0]
    cells = FACE_CELLS[layout]
    return np.stack([array[n * i : n * i + n, n * j : n * j + n] for i, j in cells])


def _picture(faces: NDArray[Any], layout: str) -> NDArray[Any]:
    """Lay faces (6, S, S, C) out in a picture, whose other pixels are 0."""
    _, n, _, channels = faces.shape
    rows, columns = LAYOUT_SHAPES[layout]
    picture = np.zeros((rows * n, columns * n, channels), faces.dtype)
    for face, (i, j) in zip(faces, FACE_CELLS[layout], strict=True):
        picture[n * i : n * i + n, n * j : n * j + n] = face
    return picture
