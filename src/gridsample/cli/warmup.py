"""`gridsample warmup`: compile kernels ahead of time, from the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

_HELP = """\
Compile the kernels of common calls and store them on disk.

A kernel is compiled when a call first needs it, which takes seconds. Afterwards, every process of
the same user, on the same machine and with the same versions, loads it in milliseconds. Use this
command in the build of a container, before a test suite, and when you deploy a service.
"""

_NOTES = """\
covered calls:
  grid_sample, affine_sample and interpolate, for the modes that each of them has; contiguous images
  with channels first, or with channels last if there are 3, 4 or at least 8; float32 grids, or
  float64 grids for float64 images; every boundary that does not change signs.

location of the kernels:
  The folder in GRIDSAMPLE_CACHE_DIR, if that is set, otherwise the user's cache folder. The last
  line of the output names it.

examples:
  gridsample warmup
  gridsample warmup --dtype float32,float64 --rank 2,3 --mode bilinear,bicubic --gradients
  GRIDSAMPLE_CACHE_DIR=/opt/kernels gridsample warmup --torch --gradients
"""

Progress = Callable[[str], AbstractContextManager[Callable[[float], None]]]


def add(commands: Any, progress_bar: Progress) -> None:
    """Add the command; ``progress_bar`` provides a function that reports progress."""
    command = commands.add_parser(
        "warmup", help="compile kernels ahead of time", description=_HELP, epilog=_NOTES
    )
    command.set_defaults(run=lambda arguments: run(arguments, progress_bar))
    for name, kind, default, text in (
        ("dtype", _words, "float32,uint8", "dtypes of the images"),
        ("rank", _numbers, "2", "numbers of spatial axes, 1 to 3"),
        ("mode", _words, "nearest,bilinear,bicubic", "interpolation methods"),
    ):
        command.add_argument(
            f"--{name}", type=kind, default=kind(default), metavar=f"{name.upper()}[,...]",
            help=f"{text} (default {default})",
        )  # fmt: skip
    command.add_argument("--gradients", action="store_true", help="include gradients")
    command.add_argument(
        "--torch", action="store_true",
        help="include PyTorch tensors on the CPU; with --gradients also second derivatives",
    )  # fmt: skip
    command.add_argument("--antialias", action="store_true", help="include samples of footprints")
    command.add_argument(
        "--missing", action="store_true", help="include images with missing pixels"
    )
    command.add_argument(
        "--processes", type=int, metavar="N", help="parallel processes (default: one per core)"
    )


def run(arguments: argparse.Namespace, progress_bar: Progress) -> None:
    """Compile the kernels and print their location."""
    from gridsample.warming import warmup

    with progress_bar("compiling kernels") as progress:
        done = warmup(
            arguments.dtype,
            arguments.rank,
            arguments.mode,
            gradients=arguments.gradients,
            torch=arguments.torch,
            antialias=arguments.antialias,
            missing=arguments.missing,
            processes=arguments.processes,
            progress=progress,
        )
    if done.folder is None:
        raise OSError("no folder for kernels is writable; set GRIDSAMPLE_CACHE_DIR to one that is")
    print(f"compiled {done.compiled} kernels in {done.seconds:.1f} s")
    print(f"kernels are in {done.folder}")


def _words(text: str) -> list[str]:
    return text.split(",")


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers like 2,3, got {text!r}") from None
