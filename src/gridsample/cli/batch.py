"""One input and one output, or several inputs that are written into a folder; and error lines."""

from __future__ import annotations

import argparse
import glob
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from gridsample import io
from gridsample.cli.streams import STREAM, with_standard_streams
from gridsample.cli.terminal import UsageError, part_of, progress_bar

ERRORS = (OSError, ValueError, TypeError, ImportError, MemoryError)

# What errors of the library say, and what is typed in a shell.
_SHELL_WORDS = (
    (r' \(see gridsample\.help\("(\w+)"\)\)', r" (see gridsample explain --topic \1)"),
    (r" \(in Python, [^)]*\)", ""),
    (r"leave it out \(None\)", "leave it out"),
    (r"\bantialias=(?:True|False)", "--no-antialias"),
    (r"\b(missing|mode|model)=?[ =]'([\w-]+)'", r"--\1 \2"),
    (r"\bpadding_mode '(\w+)'", r"--padding \1"),
    (r"\bpadding_mode\b", "--padding"),
    (r"\bfill_value\b", "--fill"),
    (r"\balign_corners\b", "--align-corners"),
    (r"\('([\w-]+)',\)", r"\1"),
    (r"\('([\w-]+)', '([\w-]+)'\)", r"\1,\2"),
    (r"\('([\w-]+)', '([\w-]+)', '([\w-]+)'\)", r"\1,\2,\3"),
    ("^mode ", "--mode "),
    (", weights or --padding missing: ", " or --padding missing: "),
    (", or an image of coefficients with prefilter=False", ""),
)


def error_line(error: BaseException) -> str:
    """Return the line that is printed for an error, in the words of a shell.

    >>> error_line(ValueError("align_corners has no meaning for mode 'area'"))
    'gridsample: error: --align-corners has no meaning for --mode area'
    """
    text = io.reason(error)
    if not isinstance(error, UsageError):
        for pattern, words in _SHELL_WORDS:
            text = re.sub(pattern, words, text)
    return f"gridsample: error: {text}"


def run(arguments: argparse.Namespace) -> int:
    """Run a command for its files, and return the exit code.

    Raises:
        ValueError: the files do not fit the command.
    """
    if hasattr(arguments, "files"):
        if arguments.out is not None:
            return _run_all(arguments, _outputs(arguments.files, arguments.out))
        arguments.input, arguments.output = _input_and_output(arguments.files)
    with with_standard_streams(arguments):
        return int(arguments.run(arguments) or 0)


def _run_all(arguments: argparse.Namespace, outputs: dict[Path, Path]) -> int:
    """Run a command for several inputs; a failure does not stop the others."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    failures, reported = 0, set()
    with progress_bar(f"{arguments.action} {len(outputs)} files") as progress:
        for n, (source, target) in enumerate(outputs.items()):
            one = argparse.Namespace(**{**vars(arguments), "input": source, "output": target})
            with part_of(progress, n, len(outputs)):
                try:
                    arguments.run(one)
                except ERRORS as error:
                    failures += 1
                    line = error_line(error)
                    if line not in reported:  # one that names no file is about the options
                        print(line, file=sys.stderr)
                    reported.add(line)
    if failures and len(outputs) > 1:
        print(f"gridsample: {failures} of {len(outputs)} inputs failed", file=sys.stderr)
    return 2 if failures else 0


def _input_and_output(files: Sequence[Path]) -> tuple[Path, Path]:
    """Return the input and the output."""
    if len(files) > 2:
        last = files[-1].name
        hint = f"did you mean --size {last}? " if re.fullmatch(r"\d*x\d*|\d+%?", last) else ""
        if files[-2].name == "x":
            hint = "a size is one word, such as 640x480; "
        names = ", ".join(map(str, files[:4])) + ", ..." * (len(files) > 4)
        raise ValueError(
            f"{hint}got {len(files)} files: {names}; accepted: INPUT and OUTPUT, or several INPUTs "
            "with --out FOLDER"
        )
    if len(files) < 2:
        missing = "OUTPUT, the file to write" if files else "INPUT and OUTPUT"
        raise ValueError(f"give {missing}; or --out FOLDER, which gets every input under its name")
    if files[1].is_dir() and files[1].suffix != ".zarr":
        raise ValueError(f"{files[1]} is a folder; --out {files[1]} writes into it")
    return files[0], files[1]


def _outputs(files: Sequence[Path], folder: Path) -> dict[Path, Path]:
    """Return the output of every input, in a folder."""
    inputs = [path for file in files for path in _expanded(file)]
    if not inputs:
        raise ValueError("give at least one INPUT beside --out FOLDER")
    if STREAM in inputs:
        raise ValueError("standard input has no name, which --out FOLDER needs; give OUTPUT")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {folder} is a file; accepted: a folder, which may be new")
    outputs: dict[Path, Path] = {}
    for path in dict.fromkeys(inputs):
        target = folder / path.name
        twin = next((other for other, taken in outputs.items() if taken == target), None)
        if twin is not None:
            raise ValueError(f"{twin} and {path} would both be written as {target}")
        outputs[path] = target
    return outputs


def _expanded(path: Path) -> list[Path]:
    """Return the files that a pattern matches, for shells that pass patterns on."""
    if not re.search(r"[*?\[]", str(path)) or path.exists():
        return [path]
    found = sorted(map(Path, glob.glob(str(path))))
    if not found:
        raise ValueError(f"no file matches {path}")
    return found
