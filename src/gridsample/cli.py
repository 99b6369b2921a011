"""The command line: `gridsample warp`, `resize`, `info`, `explain` and `warmup`.

What the user typed becomes steps, sizes and paths here; `warp` turns them into a grid, `io` into
files. Whatever goes wrong ends as one line on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from gridsample import cli_warmup, io, warp
from gridsample._version import __version__

_NEGATIVE_NUMBERS = re.compile(r"-(\d|\.\d|inf|nan)[\d.,eE+\-infa]*")
_SECONDS_WITHOUT_BAR = 1.0

_WARP_HELP = """\
Warp a picture or volume and write it, in the same dtype, to another file.

Say how with --grid, or with any of --rotate, --scale, --translate, --shear, --affine and
--homography, which happen to the picture IN THE ORDER GIVEN and may be repeated. With none of
them the picture is copied, or cut or extended to --size.
"""

_WARP_NOTES = """\
coordinates:
  Pixels count from the centre of the first one: x to the right, y down, z through the slices.
  --rotate, --scale and --shear keep the centre of the input where it is. --affine and
  --homography map an input pixel to the output pixel it moves to. The steps are composed to one
  matrix, so the picture is sampled once. Volumes turn and lean in the x-y plane; voxels are taken
  as cubes, whatever their size in the world.

size of the output:
  That of the input, or of the grid; --size chooses another and rescales nothing. The new canvas
  is centred on the input, or starts at pixel (0, 0) if --affine or --homography is used, whose
  numbers name output pixels. An odd difference in size centres it on half pixels.

files:
  PNG, JPEG, TIFF, .npy, NIfTI (.nii, .nii.gz). Alpha is sampled like any other channel. A .npy
  array with three axes is (H, W, C) if its last axis is 1 to 4 long, else a volume (D, H, W).
  NIfTI i, j, k are x, y, z; the stored numbers are sampled and keep their scaling. The NIfTI affine
  written describes the voxels of the output: the input's own, shifted to the first voxel of the
  canvas, or for a --grid of another shape the same box cut into as many voxels as the grid has.

examples:
  gridsample warp photo.jpg turned.png --rotate 30 --scale 0.8
  gridsample warp photo.png half.png --scale 0.5 --size 256x256
  gridsample warp brain.nii.gz moved.nii.gz --translate -2.5,0,4 --mode bicubic --padding border
"""

_RESIZE_HELP = """\
Resize a picture or volume and write it, in the same dtype, to another file.
"""

_RESIZE_NOTES = """\
modes:
  nearest, nearest-exact, bilinear (default), bicubic, area, lanczos3, mitchell, gaussian, spline3.
  To make a picture smaller without skipping pixels, use --antialias, or --mode area.

files:
  Those of gridsample warp. TIFF pictures and .npy files are read and written a band of rows at a
  time, so that they may be larger than memory. Alpha is resized like any other channel. The NIfTI
  affine written describes the voxels of the output.

examples:
  gridsample resize photo.jpg small.png --size 640x480 --antialias
  gridsample resize scan.tif half.tif --scale 0.5 --mode area
  gridsample resize brain.nii.gz fine.nii.gz --scale 2 --mode spline3
"""

_EXPLAIN_HELP = """\
Explain one sample: from its coordinate to a position in pixels, through the boundary's folds, to
the taps with their weights, and the value and gradient they give.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The words after `gridsample`; those of the process by default.

    Returns:
        The exit code: 0 done, 2 refused with one line on stderr, 130 interrupted.

    >>> main(["--version"])
    gridsample ...
    0
    """
    words = sys.argv[1:] if argv is None else argv
    try:
        with _quiet_libraries():
            code = _run(words)
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("gridsample: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, ValueError, TypeError, ImportError, MemoryError) as error:
        print(f"gridsample: error: {io.reason(error)}", file=sys.stderr)
        return 2


def _run(words: Sequence[str]) -> int:
    try:
        arguments = _parser().parse_args(_attach_negatives(words))
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    arguments.run(arguments)
    return 0


# ---- the commands -------------------------------------------------------------------------------


def _warp(arguments: argparse.Namespace) -> None:
    """Read, sample along a grid or a chain of steps, write."""
    steps: list[warp.Step] = arguments.steps
    if arguments.grid and (steps or arguments.size):
        raise ValueError("--grid says where every output pixel comes from; give no step or --size")
    io.check_output(arguments.output, overwrite=arguments.force)
    image = io.read(arguments.input, volume=arguments.volume)
    io.check_writable(arguments.output, image.array.dtype, image.channels, len(image.size))

    align_corners, mode = arguments.align_corners, arguments.mode
    if arguments.grid:
        grid = _load_grid(arguments.grid, len(image.size))
        canvas = grid.shape[-2::-1]
        voxels = warp.fitted(image.size, canvas, align_corners)

        def grid_at(rows: slice) -> NDArray[Any]:
            return grid[rows]
    else:
        canvas = _canvas(arguments.size, image.size)
        inverse = warp.inverse_map(steps, image.size, canvas)
        voxels = warp.window(steps, image.size, canvas)
        if warp.lands_on_pixels(inverse):
            mode = warp.exact_mode(mode, len(image.size))

        def grid_at(rows: slice) -> NDArray[Any]:
            return warp.grid_band(inverse, rows, image.size, canvas, align_corners)

    with _progress_bar(f"warping {arguments.input.name}") as progress:
        pixels = warp.sample(
            image.array,
            grid_at,
            canvas[::-1],
            mode=mode,
            padding_mode=arguments.padding,
            align_corners=align_corners,
            threads=arguments.threads,
            progress=progress,
        )
    io.write(image.resampled(pixels, voxels), arguments.output, overwrite=arguments.force)


def _resize(arguments: argparse.Namespace) -> None:
    """Read, resize and write a band of rows at a time."""
    from gridsample.resize import resize_rows

    if (arguments.size is None) == (arguments.scale is None):
        raise ValueError("give either --size or --scale")
    io.check_output(arguments.output, overwrite=arguments.force)
    with io.rows(arguments.input, volume=arguments.volume) as (image, read):
        size = _resized(arguments, image.size)
        voxels = warp.fitted(image.size, size, bool(arguments.align_corners))
        shape = (*size[::-1], image.channels)
        dtype = image.array.dtype.newbyteorder("=")
        result = image.resampled(np.broadcast_to(np.zeros((), dtype), shape), voxels)
        io.check_writable(arguments.output, dtype, image.channels, len(size))
        bands = resize_rows(
            read,
            image.array.shape,
            size[::-1],
            None,
            arguments.mode,
            arguments.align_corners,
            arguments.antialias,
            threads=arguments.threads,
        )
        with _progress_bar(f"resizing {arguments.input.name}") as progress:
            counted = _counted(bands, shape[0], progress)
            io.write_rows(result, counted, arguments.output, overwrite=arguments.force)


def _resized(arguments: argparse.Namespace, size: tuple[int, ...]) -> tuple[int, ...]:
    """The size of the output, x first."""
    if arguments.size:
        return _canvas(arguments.size, size)
    scales = arguments.scale * (len(size) if len(arguments.scale) == 1 else 1)
    if len(scales) != len(size) or not all(math.isfinite(s) and s > 0 for s in scales):
        raise ValueError(
            f"--scale takes one positive number or {len(size)}, got "
            + ",".join(f"{scale:g}" for scale in arguments.scale)
        )
    return tuple(max(1, math.floor(n * s)) for n, s in zip(size, scales, strict=True))


def _counted(
    bands: Iterator[NDArray[Any]], rows: int, progress: Callable[[float], None]
) -> Iterator[NDArray[Any]]:
    """The bands, and reports of how many of the rows are done."""
    done = 0
    for band in bands:
        yield band
        done += len(band)
        progress(done / rows)


def _info(arguments: argparse.Namespace) -> None:
    """Print what is known about a file, one aligned line each."""
    facts = io.describe(io.read(arguments.file, volume=arguments.volume))
    print(f"file      {arguments.file}")
    for name, value in facts:
        first, *rest = value.splitlines()
        print(f"{name:<9} {first}", *rest, sep="\n" + " " * 10)


def _explain(arguments: argparse.Namespace) -> None:
    """Print one sample tap by tap, and draw it if asked to."""
    import gridsample

    if arguments.plot:
        io.check_output(arguments.plot, overwrite=arguments.force)
    explanation = gridsample.explain(
        size=arguments.size,
        at=arguments.at,
        mode=arguments.mode,
        padding_mode=arguments.padding,
        align_corners=arguments.align_corners,
    )
    if arguments.plot:
        io.require("matplotlib")
        from gridsample.plot import explain as draw

        with io.replacing(arguments.plot, overwrite=arguments.force) as beside:
            draw(explanation, beside)
    print(explanation)


def _load_grid(path: Path, rank: int) -> NDArray[Any]:
    """Map a normalized grid file: (H', W', 2), (1, H', W', 2), or for volumes (D', H', W', 3)."""
    grid = io.load_npy(path)
    if grid.ndim == rank + 2 and grid.shape[0] == 1:
        grid = grid[0]
    if grid.dtype.kind != "f" or grid.ndim != rank + 1 or grid.shape[-1] != rank:
        accepted = "(H', W', 2) for a picture" if rank == 2 else "(D', H', W', 3) for a volume"
        raise ValueError(
            f"--grid {path} has shape {grid.shape} and dtype {grid.dtype}; "
            f"floating-point {accepted} is accepted"
        )
    return grid


def _canvas(asked: tuple[int, ...] | None, size: tuple[int, ...]) -> tuple[int, ...]:
    if asked is None:
        return size
    if len(asked) != len(size):
        raise ValueError(
            f"--size has {len(asked)} numbers, but the input is {_by(size)}: "
            f"give {'WxH' if len(size) == 2 else 'WxHxD'}"
        )
    return asked


@contextmanager
def _progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Lend a function to report the share that is done to.

    A bar shows on a terminal, once the work has taken a second.
    """
    if not sys.stderr.isatty():
        yield lambda share: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:  # a bar is a courtesy
        yield lambda share: None
        return
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=1.0)
    began = time.monotonic()

    def report(share: float) -> None:
        bar.update(task, completed=share)
        if time.monotonic() - began > _SECONDS_WITHOUT_BAR:
            bar.start()

    try:
        yield report
    finally:
        bar.stop()


# ---- the words ----------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are raised, to be printed like every other error."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


class _AddStep(argparse.Action):
    """Keep the steps of a warp in the order in which they were given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        name = self.option_strings[0].lstrip("-")
        namespace.steps = [*namespace.steps, (name, values)]


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="gridsample", description="Sample images along grids of coordinates.")
    parser.add_argument("--version", action="version", version=f"gridsample {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_warp(commands)
    _add_resize(commands)
    _add_info(commands)
    _add_explain(commands)
    cli_warmup.add(commands, _progress_bar)
    return parser


def _add_warp(commands: Any) -> None:
    command = commands.add_parser(
        "warp", help="warp a picture or volume", description=_WARP_HELP, epilog=_WARP_NOTES
    )
    command.set_defaults(run=_warp, steps=[])
    command.add_argument("input", type=Path, metavar="INPUT", help="the file to read")
    command.add_argument("output", type=Path, metavar="OUTPUT", help="the file to write")
    command.add_argument(
        "--grid",
        type=Path,
        metavar="FILE.npy",
        help="normalized grid, x first: (H', W', 2), or (D', H', W', 3) for a volume",
    )
    for name, metavar, kind, text in (
        ("rotate", "DEG", _numbers, "turn counter-clockwise, as seen on a screen"),
        ("scale", "S[,S]", _numbers, "enlarge: one factor, or one per axis"),
        ("translate", "X,Y", _numbers, "move right and down by pixels; X,Y,Z for a volume"),
        ("shear", "DEG", _numbers, "lean to the right, like italics"),
        ("affine", "a,b,c,d,e,f", _numbers, "move pixel (x, y) to (ax+by+c, dx+ey+f)"),
        ("homography", "FILE", _homography, "3x3 pixel matrix, as .npy or as text"),
    ):
        command.add_argument(
            f"--{name}", type=kind, action=_AddStep, dest="steps", metavar=metavar, help=text
        )
    command.add_argument(
        "--size", type=_size, metavar="WxH", help="size of the output; WxHxD for a volume"
    )
    _add_sampling(command)
    _add_how(command)


def _add_resize(commands: Any) -> None:
    command = commands.add_parser(
        "resize",
        help="resize a picture or volume",
        description=_RESIZE_HELP,
        epilog=_RESIZE_NOTES,
    )
    command.set_defaults(run=_resize)
    command.add_argument("input", type=Path, metavar="INPUT", help="the file to read")
    command.add_argument("output", type=Path, metavar="OUTPUT", help="the file to write")
    command.add_argument(
        "--size", type=_size, metavar="WxH", help="size of the output; WxHxD for a volume"
    )
    command.add_argument(
        "--scale",
        type=_numbers,
        metavar="S[,S]",
        help="size of the output over that of the input, rounded down: one factor, or one per axis",
    )
    command.add_argument(
        "--mode",
        type=_names,
        default="bilinear",
        metavar="MODE",
        help="how pixels are weighed, see below; one per axis as x,y",
    )
    command.add_argument(
        "--antialias", action="store_true", help="stretch the weights where the output is smaller"
    )
    command.add_argument(
        "--align-corners",
        action="store_true",
        default=None,
        help="keep the centres of the corner pixels in place, not their outer edges",
    )
    _add_how(command)


def _add_how(command: Any) -> None:
    command.add_argument("--threads", type=int, metavar="N", help="threads to use; all by default")
    command.add_argument(
        "--volume", action="store_true", help="take a .npy input of three axes as (D, H, W)"
    )
    command.add_argument("--force", action="store_true", help="replace OUTPUT if it exists")


def _add_info(commands: Any) -> None:
    command = commands.add_parser(
        "info",
        help="describe a file",
        description="Print a file's format, shape, dtype and range of values.",
    )
    command.set_defaults(run=_info)
    command.add_argument("file", type=Path, metavar="FILE", help="the file to read")
    command.add_argument(
        "--volume", action="store_true", help="take a .npy file of three axes as (D, H, W)"
    )


def _add_explain(commands: Any) -> None:
    command = commands.add_parser(
        "explain", help="explain one sample, tap by tap", description=_EXPLAIN_HELP
    )
    command.set_defaults(run=_explain)
    command.add_argument(
        "--size", type=_size, metavar="WxH", required=True, help="size of the image; W to WxHxD"
    )
    command.add_argument(
        "--at", type=_numbers, metavar="X,Y", required=True, help="normalized coordinate, x first"
    )
    _add_sampling(command)
    command.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the sample as well")
    command.add_argument("--force", action="store_true", help="replace the drawing if it exists")


def _add_sampling(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--mode",
        type=_names,
        default="bilinear",
        metavar="MODE",
        help="nearest, bilinear (default) or bicubic; one per axis as x,y",
    )
    command.add_argument(
        "--padding",
        type=_names,
        default="zeros",
        metavar="BOUNDARY",
        help="zeros (default), border or reflection; one per axis as x,y",
    )
    command.add_argument(
        "--align-corners",
        action="store_true",
        help="-1 and 1 are the centres of the corner pixels, not their outer edges; reflection "
        "mirrors there too",
    )


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers like 1.5,-2, got {text!r}") from None


def _size(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"0*[1-9]\d*(x0*[1-9]\d*){0,2}", text.lower(), re.ASCII):
        raise argparse.ArgumentTypeError(f"expected a size like 640x480, got {text!r}")
    return tuple(int(word) for word in text.lower().split("x"))


def _names(text: str) -> str | tuple[str, ...]:
    return tuple(text.split(",")) if "," in text else text


def _homography(text: str) -> tuple[float, ...]:
    path = Path(text)
    if path.suffix.lower() == ".npy":
        matrix = io.load_npy(path)
        if matrix.dtype.kind not in "biuf":
            raise argparse.ArgumentTypeError(f"{path} has dtype {matrix.dtype}, not real numbers")
        words: Sequence[Any] = matrix.ravel().tolist()
    else:
        words = path.read_text(encoding="utf-8", errors="replace").replace(",", " ").split()
    try:
        numbers = tuple(float(word) for word in words)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{path} does not hold nine numbers") from None
    if len(numbers) != 9:
        raise argparse.ArgumentTypeError(f"{path} holds {len(numbers)} numbers, not nine")
    return numbers


def _attach_negatives(words: Sequence[str]) -> list[str]:
    """Write `--at -1,2` as `--at=-1,2`: argparse would take `-1,2` for an option.

    >>> _attach_negatives(["--at", "-1.2,1.3", "--rotate", "30"])
    ['--at=-1.2,1.3', '--rotate', '30']
    """
    attached: list[str] = []
    for word in words:
        option = attached[-1] if attached else ""
        if _NEGATIVE_NUMBERS.fullmatch(word) and re.fullmatch(r"--[a-z-]+", option):
            attached[-1] = f"{option}={word}"
        else:
            attached.append(word)
    return attached


def _by(size: Sequence[int]) -> str:
    return "x".join(map(str, size))


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Keep the chatter of file libraries off stderr, which is for the one line that matters."""
    previous = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous)
