"""The command line: `gridsample warp`, `resize`, `flow`, `undistort`, `panorama`, `lut`, ...

This module finds the command and prints its errors; each command has a module, which is imported
when it is called.  Every error is printed as one line on stderr, with exit code 2.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from gridsample._version import __version__
from gridsample.cli.terminal import Terminated, UsageError, ending_cleanly, quiet_libraries

# The module and the summary of each command.
COMMANDS = {
    "resize": ("resize", "resize pictures or volumes"),
    "warp": ("warp", "rotate, scale, shear or move pictures or volumes"),
    "undistort": ("undistort", "remove the distortion of a lens"),
    "panorama": ("panorama", "convert panoramas, cube maps and perspective pictures"),
    "lut": ("lut", "apply a colour table"),
    "register": ("register", "align one image with another"),
    "flow": ("flow", "show a flow as colours, or warp an image by it"),
    "pyramid": ("zarr", "write a Zarr image with halved copies"),
    "info": ("info", "describe a file"),
    "explain": ("explain", "explain one sample, tap by tap"),
    "doctor": ("doctor", "find misuse of grid sampling in Python code"),
}

# Commands of other programs, and what they are called here.
SYNONYMS = {
    "align": "register",
    "check": "doctor",
    "convert": "resize",
    "crop": "warp --size",
    "grade": "lut",
    "identify": "info",
    "lint": "doctor",
    "rotate": "warp --rotate",
    "scale": "resize",
    "shrink": "resize",
    "thumbnail": "resize",
    "transform": "warp",
}

HELP = """\
usage: gridsample COMMAND ...

Resize, warp and align pictures and volumes.

commands:
{commands}

  gridsample COMMAND --help      what a command does, and its main options
  gridsample COMMAND --help-all  all of its options
  gridsample --version           the version

examples:
  gridsample resize *.jpg --size 640 --out small
  gridsample warp scan.png straight.png --rotate 1.5
"""


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
    except UsageError as error:
        print(f"gridsample: error: {error}", file=sys.stderr)
        return 2
    except (OSError, ValueError, TypeError, ImportError, MemoryError) as error:
        from gridsample.cli.batch import error_line

        print(error_line(error), file=sys.stderr)
        return 2


def _run(argv: Sequence[str]) -> int:
    name, words = (argv[0], argv[1:]) if argv else ("--help", [])
    if name == "help" and words:  # of a command
        name, words = words[0], ["--help"]
    if name in ("-h", "--help", "--help-all", "help"):
        rows = "\n".join(f"  {name:<10} {summary}" for name, (_, summary) in COMMANDS.items())
        print(HELP.format(commands=rows), end="")
        return 0
    if name in ("-V", "--version"):
        print(f"gridsample {__version__}")
        return 0
    command = command_of(name)
    try:
        arguments = command.parse(words)
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    from gridsample.cli.batch import run

    return run(arguments)


def command_of(name: str) -> Any:
    """Return the parser of a command, whose module is imported now.

    Raises:
        UsageError: there is no such command.
    """
    if name not in COMMANDS:
        import difflib

        kind, known = "command", [*COMMANDS]
        if name.startswith("-"):
            kind, known = "option", ["--help", "--help-all", "--version"]
        close = difflib.get_close_matches(name, known, n=1)
        suggested = SYNONYMS.get(name, close[0] if close else "")
        hint = f"; did you mean gridsample {suggested}? " if suggested else "; "
        accepted = f"accepted: {', '.join(known)} (see gridsample --help)"
        raise UsageError(f"there is no {kind} {name}{hint}{accepted}")
    module = importlib.import_module(f"gridsample.cli.{COMMANDS[name][0]}")
    command = module.command()
    command.end()
    return command
