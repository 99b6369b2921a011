"""The parser of a command, and the arguments that several commands have, by name."""

from __future__ import annotations

import argparse
import difflib
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from gridsample.cli import parsers
from gridsample.cli.terminal import UsageError
from gridsample.io import MAX_PIXELS
from gridsample.ops.missing import RULES

# The lines of `examples:` that the short help shows.
SHORT_EXAMPLES = 2

# Options of other programs, and what they are called here.
SYNONYMS = {
    "--angle": "--rotate",
    "--background": "--fill",
    "--border": "--padding",
    "--border-mode": "--padding",
    "--boundary": "--padding",
    "--factor": "--scale",
    "--filter": "--mode",
    "--height": "--size",
    "--interpolation": "--mode",
    "--matrix": "--homography",
    "--method": "--mode",
    "--order": "--mode",
    "--output": "--out",
    "--output-dir": "--out",
    "--overwrite": "--force",
    "--percent": "--scale",
    "--resample": "--mode",
    "--width": "--size",
    "-f": "--force",
    "-o": "--out",
    "-s": "--size",
    "-y": "--force",
}


class Command(argparse.ArgumentParser):
    """The parser of one command.

    Its errors are raised, so that they are printed as every other error.  ``--help`` prints what
    fits on a screen; ``--help-all`` also prints the groups of further options, and the notes.
    """

    def __init__(
        self,
        name: str,
        operands: Sequence[str],
        run: Callable[[argparse.Namespace], object],
        description: str,
        notes: str,
    ) -> None:
        """Create a parser without arguments.

        Args:
            name: the name of the command.
            operands: its forms, such as ``["INPUT OUTPUT"]``.
            run: the function that is called with the arguments.
            description: what the command does; the short help shows the first paragraph.
            notes: the end of the full help, with the section `examples:` last.
        """
        lines = [f"%(prog)s {form} [options]" for form in operands]
        super().__init__(
            prog=f"gridsample {name}",
            usage=("\n" + " " * len("usage: ")).join(lines),
            description=description,
            epilog=notes,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        self.set_defaults(run=run)
        self.further = self.add_argument_group("further options")

    def error(self, message: str) -> NoReturn:
        """Raise an error of argparse, in which suggestions come first."""
        message = re.sub(r"^argument (?:[^-]\S*: )?", "", message)
        message = message.replace("the following arguments are required:", "give")
        choice = re.fullmatch(r"(\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)", message)
        if choice:
            option, value, accepted = choice.groups()
            names = accepted.replace("'", "").split(", ")
            message = f"{option}: {parsers.unknown(value, names)}"
        raise UsageError(f"{message} (see {self.prog} --help)")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words after the command; options may be between files."""
        end = words.index("--") if "--" in words else len(words)
        options = parsers.attach_negatives(words[:end])
        for word in options:
            self._check_option(word.partition("=")[0])
        # After --, words are files, even if they begin with a hyphen.
        files = [f"./{word}" if re.match("-.", word) else word for word in words[end + 1 :]]
        arguments, rest = self.parse_known_intermixed_args([*options, *files])
        if rest and rest[0].startswith("-"):
            self.error(f"there is no option {rest[0]}; a file of this name is ./{rest[0]}")
        if rest:
            self.error(f"{rest[0]!r} is one argument too many")
        return arguments

    def _check_option(self, word: str) -> None:
        """Raise an error if a word is an option that the command does not have."""
        known = self._option_string_actions
        if word in known or not re.match(r"--[a-zA-Z]|-[a-zA-Z]$", word):
            return
        close = difflib.get_close_matches(word, known, n=1)
        suggested = SYNONYMS.get(word, close[0] if close else "")
        hint = f"; did you mean {suggested}?" if suggested in known else ""
        raise UsageError(f"there is no option {word}{hint} (see {self.prog} --help-all)")

    def end(self) -> None:
        """Add the options for help, after all others."""
        self.add_argument(
            "--help-all",
            action=_PrintHelp,
            help="print every option, modes, formats, and more examples",
        )
        self.further.add_argument("-h", "--help", action=_PrintHelp, help="print a short help")

    def short_help(self) -> str:
        """Return a help that fits on a screen: the main options, and some examples."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, [], [])
        summary = (self.description or "").split("\n\n")[0]
        formatter.add_text(textwrap.fill(" ".join(summary.split()), 79))
        formatter.start_section("options")
        formatter.add_arguments(self._optionals._group_actions)
        formatter.end_section()
        examples = (self.epilog or "").partition("examples:\n")[2].splitlines()
        formatter.add_text("\n".join(["examples:", *examples[:SHORT_EXAMPLES]]))
        return formatter.format_help()


class _PrintHelp(argparse.Action):
    """Print the short or the full help, and end."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, 0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        print((parser.format_help if option == "--help-all" else parser.short_help)(), end="")
        parser.exit()


SHARED: dict[str, dict[str, Any]] = {
    "input": {"type": parsers.file, "metavar": "INPUT", "help": "the file to read"},
    "output": {"type": parsers.file, "metavar": "OUTPUT", "help": "the file to write"},
    "--size": {
        "type": parsers.extent,
        "metavar": "WxH",
        "help": "640x480; or 640, x480, 50%%: the other follows",
    },
    "--mode": {
        "type": parsers.sampling_modes,
        "default": "bilinear",
        "metavar": "MODE",
        "help": "nearest, bilinear (default), bicubic, lanczos, ...",
    },
    "--padding": {
        "type": parsers.boundaries,
        "metavar": "BOUNDARY",
        "help": "outside: zeros (default without a nodata value), missing, border, mirror, ...",
    },
    "--no-antialias": {
        "action": "store_false",
        "dest": "antialias",
        "default": None,
        "help": "allow aliasing where the output is smaller",
    },
    "--antialias": {
        "action": "store_true",
        "dest": "antialias",
        "default": None,
        "help": "where the output is smaller than the input, average over the area of each output "
        "pixel, or take its most frequent label",
    },
    "--missing": {
        "choices": RULES,
        "help": "propagate missing pixels, or ignore them and take the mean of the others "
        "(default: ignore if there is a nodata value)",
    },
    "--nodata": {
        "type": parsers.number,
        "metavar": "VALUE",
        "help": "value of missing pixels and missing results (default: the tag of a TIFF file, "
        "or the attribute _FillValue of a Zarr array)",
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
    "--threads": {
        "type": parsers.positive,
        "metavar": "N",
        "help": "number of threads (default: one per core)",
    },
    "--volume": {
        "action": "store_true",
        "help": "treat the pages of a TIFF input as slices, and a 3-D .npy input as (D, H, W)",
    },
    "--max-pixels": {
        "type": int,
        "default": MAX_PIXELS,
        "metavar": "N",
        "help": "largest number of pixels accepted if a picture or TIFF file has more than 50 per "
        f"byte, as decompression bombs have (default: {MAX_PIXELS})",
    },
    "--straight-alpha": {
        "action": "store_true",
        "help": "sample colours independently of alpha, see below",
    },
    "--force": {"action": "store_true", "help": "replace OUTPUT if it exists"},
}
METHOD = ("--mode", "--padding", "--no-antialias")
FURTHER = (
    "--antialias", "--missing", "--nodata", "--fill", "--threads", "--max-pixels",
    "--straight-alpha",
)  # fmt: skip


def add_shared(command: Any, *names: str) -> None:
    """Add some of the `SHARED` arguments to a command or a group, in this order."""
    for name in names:
        command.add_argument(name, **SHARED[name])


def add_files(command: Command, action: str, files: str = "INPUT and OUTPUT, or INPUTs") -> None:
    """Add one input and one output, or several inputs and a folder; see `gridsample.cli.batch`.

    action: what the bar of several inputs says.
    files: what the help says of the operands.
    """
    command.set_defaults(action=action)
    command.add_argument("files", nargs="*", type=parsers.file, metavar="FILE", help=files)
    command.add_argument(
        "--out",
        type=parsers.file,
        metavar="FOLDER",
        help="write every INPUT into this folder, under its name",
    )
    add_shared(command, "--force")
