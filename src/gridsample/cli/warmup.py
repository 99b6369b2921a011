"""`gridsample warmup`: compile kernels ahead of time, from the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

_HELP = """\
Compile the kernels of the usual calls and keep them on disk.

A kernel is compiled when a call first needs it, which takes seconds; afterwards every process of
the same user, machine and versions loads it in milliseconds. Use this in the recipe of a container,
before a test suite, and when a service is deployed.
"""

_NOTES = """\
what is covered:
  grid_sample, affine_sample and interpolate, as far as they have the modes; of contiguous images
  with channels first, or last if there are 3, 4 or at least 8; with grids of float32, or of
  float64 for images of float64; under every boundary but antisymmetric and antimirror.

where the kernels are kept:
  In the folder named by GRIDSAMPLE_CACHE_DIR, if that is set, else in the user's cache folder. The
  last line that is printed names it.

examples:
  gridsample warmup
  gridsample warmup --dtype float32,float64 --rank 2,3 --mode bilinear,bicubic --gradients
  GRIDSAMPLE_CACHE_DIR=/opt/kernels gridsample warmup --torch --gradients
"""

Progress = Callable[[str], AbstractContextManager[Callable[[float], None]]]


def add(commands: Any, progress_bar: Progress) -> None:
    """Add the command; ``progress_bar`` lends a function to report the share that is done to."""
    command = commands.add_parser(
        "warmup", help="compile kernels ahead of time", description=_HELP, epilog=_NOTES
    )
    command.set_defaults(run=lambda arguments: run(arguments, progress_bar))
    for name, kind, default, text in (
        ("dtype", _words, "float32,uint8", "of the images"),
        ("rank", _numbers, "2", "how many spatial axes they have, 1 to 3"),
        ("mode", _words, "nearest,bilinear,bicubic", "the methods"),
    ):
        command.add_argument(
            f"--{name}", type=kind, default=kind(default), metavar=f"{name.upper()}[,...]",
            help=f"{text} (default {default})",
        )  # fmt: skip
    command.add_argument("--gradients", action="store_true", help="gradients, too")
    command.add_argument(
        "--torch", action="store_true",
        help="PyTorch tensors on the CPU, too; with --gradients also second derivatives",
    )  # fmt: skip
    command.add_argument(
        "--processes", type=int, metavar="N", help="how many compile at once (default all cores)"
    )


def run(arguments: argparse.Namespace, progress_bar: Progress) -> None:
    """Compile, and say where the kernels are."""
    from gridsample.warming import warmup

    with progress_bar("compiling kernels") as progress:
        done = warmup(
            arguments.dtype,
            arguments.rank,
            arguments.mode,
            gradients=arguments.gradients,
            torch=arguments.torch,
            processes=arguments.processes,
            progress=progress,
        )
    if done.folder is None:
        raise OSError("found no folder to keep kernels in; set GRIDSAMPLE_CACHE_DIR to one")
    print(f"compiled {done.compiled} kernels in {done.seconds:.1f} s")
    print(f"kernels are in {done.folder}")


def _words(text: str) -> list[str]:
    return text.split(",")


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers like 2,3, got {text!r}") from None
