"""The command line: `gridsample warp`, `resize`, `flow`, `undistort`, `panorama`, `register`, ...

This module parses the arguments; the other modules process the files.  Every error is printed as
one line on stderr, with exit code 2.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from gridsample import io
from gridsample._version import __version__
from gridsample.cli import doctor, flow, panorama, parsers, register, texts, undistort, zarr
from gridsample.cli.arguments import PROCESSING, WARPING, add_command, add_shared
from gridsample.cli.files import resize_file, warp_file
from gridsample.cli.streams import with_standard_streams
from gridsample.cli.terminal import Terminated, ending_cleanly, quiet_libraries
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.io.omezarr import is_store


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The arguments after `gridsample`; by default those of the process.

    Returns:
        The exit code: 0 for success, 1 if `doctor` found anything or `register` failed to align
        the images, 2 for an error, with one line on stderr, and 128 + n if signal n ended the
        command (130 interrupt, 143 termination, 129 closed terminal).  A partial output file is
        always removed; a partial Zarr store remains hidden, until the command is repeated.

    >>> main(["--version"])
    gridsample ...
    0
    """
    try:
        with ending_cleanly(), quiet_libraries():
            code = _run(sys.argv[1:] if argv is None else argv)
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("gridsample: interrupted", file=sys.stderr)
        return 130
    except Terminated as ended:
        with contextlib.suppress(OSError):  # writing to a closed terminal fails
            print(f"gridsample: ended by {ended.signal.name}", file=sys.stderr)
        return 128 + ended.signal
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, ValueError, TypeError, ImportError, MemoryError) as error:
        print(f"gridsample: error: {io.reason(error)}", file=sys.stderr)
        return 2


def _run(argv: Sequence[str]) -> int:
    try:
        arguments = _parser().parse_args(parsers.attach_negatives(argv))
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    with with_standard_streams(arguments):
        return int(arguments.run(arguments) or 0)


# ---- the commands -------------------------------------------------------------------------------


def _info(arguments: argparse.Namespace) -> None:
    """Print the properties of a file, one per line, aligned."""
    from gridsample.io import fields

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


def _explain(arguments: argparse.Namespace) -> None:
    """Print one sample tap by tap, and draw it if --plot is given."""
    import gridsample

    if arguments.topic is not None:
        gridsample.help(arguments.topic)
        return
    needed = {"--size": arguments.size, "--at": arguments.at}
    missing = ", ".join(name for name, value in needed.items() if value is None)
    if missing:
        raise ValueError(
            f"the following arguments are required: {missing} (see gridsample explain --help)"
        )
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


# ---- the arguments ------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """A parser that raises its errors, so that they are printed like every other error."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


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


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="gridsample", description="Sample images along grids of coordinates.")
    parser.add_argument("--version", action="version", version=f"gridsample {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_warp(commands)
    _add_resize(commands)
    zarr.add(commands)
    flow.add(commands)
    undistort.add(commands)
    panorama.add(commands)
    register.add(commands)
    _add_info(commands)
    _add_explain(commands)
    doctor.add(commands)
    return parser


def _add_warp(commands: Any) -> None:
    run, notes = zarr.for_stores_or_files(zarr.warp_store, warp_file), texts.notes(texts.WARP_NOTES)
    command = add_command(commands, "warp", run, "warp a picture or volume", texts.WARP, notes)
    command.set_defaults(steps=[], transform=[])
    add_shared(command, "input", "output")
    command.add_argument(
        "--grid",
        type=Path,
        metavar="FILE.npy",
        help="normalized grid, x first: (H', W', 2), or (D', H', W', 3) for a volume",
    )
    for name, metavar, number_type, text in (
        ("rotate", "DEG", parsers.numbers, "rotate counter-clockwise, as seen on a screen"),
        ("scale", "S[,S]", parsers.numbers, "enlarge: one factor, or one per axis"),
        ("translate", "X,Y", parsers.numbers, "move right and down by pixels; X,Y,Z for a volume"),
        ("shear", "DEG", parsers.numbers, "slant to the right, like italics"),
        ("affine", "a,b,c,d,e,f", parsers.numbers, "move pixel (x, y) to (ax+by+c, dx+ey+f)"),
        ("homography", "FILE", parsers.homography, "apply a 3x3 pixel matrix (.npy or text)"),
    ):
        command.add_argument(
            f"--{name}", type=number_type, action=_AddStep, dest="steps", metavar=metavar, help=text
        )
    add_shared(command, "--size")
    command.add_argument(
        "--like",
        type=Path,
        metavar="FILE",
        help="resample a NIfTI file or OME-Zarr image to the voxels of another one, see below",
    )
    command.add_argument(
        "--transform",
        type=Path,
        action="append",
        metavar="FILE",
        help="transform in the world's units, see below; may be repeated",
    )
    add_shared(command, *WARPING, "--align-corners", "--fill", *PROCESSING)
    zarr.add_store(command)


def _add_resize(commands: Any) -> None:
    run, notes = (
        zarr.for_stores_or_files(zarr.resize_store, resize_file),
        texts.notes(texts.RESIZE_NOTES),
    )
    command = add_command(
        commands, "resize", run, "resize a picture or volume", texts.RESIZE, notes
    )
    add_shared(command, "input", "output", "--size")
    command.add_argument(
        "--scale",
        type=parsers.numbers,
        metavar="S[,S]",
        help="output size divided by input size (rounded down): one factor, or one per axis",
    )
    command.add_argument(
        "--spacing",
        type=parsers.numbers,
        metavar="S[,S]",
        help="distance between the output's pixels or voxels, in millimetres for NIfTI files, in "
        "the units of a GeoTIFF; the size is rounded, and the extent is kept",
    )
    add_shared(command, "--mode")
    command.add_argument(
        "--antialias", action="store_true", help="stretch the weights along axes that shrink"
    )
    command.add_argument(
        "--align-corners",
        action="store_true",
        default=None,
        help="keep the centres of the corner pixels in place, not their outer edges",
    )
    add_shared(command, "--missing", "--nodata", *PROCESSING)
    zarr.add_store(command)


def _add_info(commands: Any) -> None:
    command = add_command(commands, "info", _info, "describe a file", texts.INFO)
    command.add_argument("file", type=Path, metavar="FILE", help="the file to read")
    command.add_argument(
        "--field",
        action="store_true",
        help="treat a .npy or .png (KITTI) file as a field of displacements; .flo and .pfm files, "
        "and NIfTI files with intent 1006 or 1007, always are",
    )
    command.add_argument(
        "--volume",
        action="store_true",
        help="treat the pages of a TIFF file as slices, and a 3-D .npy file as (D, H, W)",
    )
    add_shared(command, "--max-pixels")


def _add_explain(commands: Any) -> None:
    summary, notes = "explain one sample, tap by tap", texts.notes(texts.EXPLAIN_NOTES, BOUNDARIES)
    command = add_command(commands, "explain", _explain, summary, texts.EXPLAIN, notes)
    command.add_argument(
        "--size", type=parsers.size, metavar="WxH", help="size of the image: W, WxH or WxHxD"
    )
    command.add_argument("--at", type=parsers.numbers, metavar="X,Y", help="coordinate, x first")
    command.add_argument(
        "--topic", metavar="NAME", help="print the page on a topic instead, such as align_corners"
    )
    add_shared(command, "--mode", "--padding", "--align-corners")
    command.add_argument(
        "--coords",
        default="normalized",
        metavar="UNIT",
        help="unit of the coordinate: normalized (default), pixel or displacement",
    )
    command.add_argument(
        "--index",
        type=parsers.integers,
        metavar="I,J",
        help="output pixel that a displacement starts from, x first (default: the first)",
    )
    command.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the sample as well")
    command.add_argument("--force", action="store_true", help="replace the drawing if it exists")
