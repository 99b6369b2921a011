"""The arguments that several commands have, by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gridsample.cli import parsers
from gridsample.io import MAX_PIXELS
from gridsample.ops.missing import RULES

Command = argparse.ArgumentParser

SHARED: dict[str, dict[str, Any]] = {
    "input": {"type": Path, "metavar": "INPUT", "help": "the file to read"},
    "output": {"type": Path, "metavar": "OUTPUT", "help": "the file to write"},
    "--size": {
        "type": parsers.size,
        "metavar": "WxH",
        "help": "size of the output; WxHxD for a volume",
    },
    "--mode": {
        "type": parsers.names,
        "default": "bilinear",
        "metavar": "MODE",
        "help": "interpolation method, see below (default: bilinear); x,y for one per axis",
    },
    "--padding": {
        "type": parsers.names,
        "default": "zeros",
        "metavar": "BOUNDARY",
        "help": "boundary, see below (default: zeros); x,y for one per axis",
    },
    "--antialias": {
        "action": "store_true",
        "help": "where the warp shrinks the input, average over the area of each output pixel; in "
        "mode label, take the most frequent label",
    },
    "--missing": {
        "choices": RULES,
        "help": "propagate missing pixels, or ignore them and take the mean of the others "
        "(default: ignore if there is a nodata value)",
    },
    "--nodata": {
        "type": parsers.number,
        "metavar": "VALUE",
        "help": "value of missing pixels and missing results (default: the tag of a TIFF file)",
    },
    "--align-corners": {
        "action": "store_true",
        "help": "-1 and 1 are the centres of the corner pixels, not their outer edges; reflection "
        "mirrors about the same points",
    },
    "--fill": {
        "type": parsers.numbers,
        "metavar": "V[,V...]",
        "help": "value outside the image for --padding constant: one number, or one per channel",
    },
    "--threads": {"type": int, "metavar": "N", "help": "number of threads (default: one per core)"},
    "--volume": {
        "action": "store_true",
        "help": "treat the pages of a TIFF input as slices, and a 3-D .npy input as (D, H, W)",
    },
    "--max-pixels": {
        "type": int,
        "default": MAX_PIXELS,
        "metavar": "N",
        "help": "pixels above which a picture or TIFF file with more than 50 per byte is refused, "
        f"as it may be made to fill the memory (default: {MAX_PIXELS})",
    },
    "--straight-alpha": {
        "action": "store_true",
        "help": "sample colours independently of alpha, see below",
    },
    "--force": {"action": "store_true", "help": "replace OUTPUT if it exists"},
}
WARPING = ("--mode", "--padding", "--antialias", "--missing", "--nodata")
PROCESSING = ("--threads", "--volume", "--max-pixels", "--straight-alpha", "--force")


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], object],
    summary: str,
    description: str,
    notes: str = "",
) -> Command:
    """Add a command that runs a function."""
    command: Command = commands.add_parser(
        name, help=summary, description=description, epilog=notes
    )
    command.set_defaults(run=run)
    return command


def add_shared(command: Command, *names: str) -> None:
    """Add some of the `SHARED` arguments, in this order."""
    for name in names:
        command.add_argument(name, **SHARED[name])
