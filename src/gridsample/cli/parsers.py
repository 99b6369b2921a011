"""Parsers for the arguments of a command line: numbers, sizes and names."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gridsample import io
from gridsample.definitions.boundaries import BOUNDARIES, FOREIGN_BOUNDARIES, MISSING
from gridsample.definitions.methods import accepted_names
from gridsample.definitions.statistics import NAMES
from gridsample.messages.links import TOPICS

T = TypeVar("T", int, float)
# As `gridsample.xarray.reproject` calls them.
STATISTICS = ["average", *(name for name in NAMES if name != "mean")]
Names = Callable[[str], str | tuple[str, ...]]

_NEGATIVE_NUMBERS = re.compile(r"-(\d|\.\d|inf|nan)[\d.,eE+\-infa]*")


def file(text: str) -> Path:
    """Parse the name of a file or folder."""
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+://", text):
        raise argparse.ArgumentTypeError(
            f"{text} is an address; files are read and written on this computer only: download it "
            "first, and name the file, or pipe it to -"
        )
    return Path(text)


def numbers(text: str) -> tuple[float, ...]:
    """Parse comma-separated numbers."""
    return _separated(text, float, "numbers like 1.5,-2")


def integers(text: str) -> tuple[int, ...]:
    """Parse comma-separated whole numbers."""
    return _separated(text, int, "integers like 3,0")


def factors(text: str) -> tuple[float, ...]:
    """Parse comma-separated numbers or percentages.

    >>> factors("50%,2")
    (0.5, 2.0)
    """
    return _separated(text, _factor, "factors like 0.5, 50% or 2,0.5")


def _factor(word: str) -> float:
    return float(word[:-1]) / 100 if word.endswith("%") else float(word)


def _separated(text: str, number_type: Callable[[str], T], expected: str) -> tuple[T, ...]:
    try:
        return tuple(map(number_type, text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}") from None


def number(text: str) -> float:
    """Parse a number; whole numbers stay exact."""
    for number_type in (int, float):
        with contextlib.suppress(ValueError):
            return number_type(text)
    raise argparse.ArgumentTypeError(f"expected a number, got {text!r}")


def statistic(text: str) -> str | float:
    """Parse the name of a statistic of cells, or a number from 0 to 1: a quantile."""
    if text in STATISTICS:
        return text
    with contextlib.suppress(ValueError):
        if 0 <= float(text) <= 1:
            return float(text)
    raise argparse.ArgumentTypeError(f"{unknown(text, STATISTICS)}, a number from 0 to 1")


def positive(text: str) -> int:
    """Parse a whole number from 1."""
    if not re.fullmatch(r"0*[1-9]\d*", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)


def size(text: str) -> tuple[int, ...]:
    """Parse a size, x first: W, WxH or WxHxD."""
    if not re.fullmatch(r"0*[1-9]\d*(x0*[1-9]\d*){0,2}", text.lower(), re.ASCII):
        raise argparse.ArgumentTypeError(f"expected a size like 640x480, got {text!r}")
    return tuple(int(word) for word in text.lower().split("x"))


def sizes_of_axes(text: str) -> tuple[int, ...]:
    """Parse a size along each axis, x first, of up to five axes."""
    if not re.fullmatch(r"0*[1-9]\d*(x0*[1-9]\d*){0,4}", text.lower(), re.ASCII):
        raise argparse.ArgumentTypeError(f"expected sizes like 64x64x64, got {text!r}")
    return tuple(int(word) for word in text.lower().split("x"))


class RelativeSize(NamedTuple):
    """A size that may be relative to that of the input.

    Attributes:
        lengths: the numbers of pixels, x first; None for those that follow from the others.
        share: all lengths divided by those of the input, if there are no numbers.
    """

    lengths: tuple[int | None, ...]
    share: float = 1.0


def extent(text: str) -> RelativeSize:
    """Parse a size, x first, of which one length may follow from the others, or a percentage.

    >>> extent("640x480").lengths, extent("x480").lengths, extent("50%").share
    ((640, 480), (None, 480), 0.5)
    """
    expected = "expected a size like 640x480, 640, x480 or 50%"
    if text.endswith("%"):
        try:
            share = float(text[:-1]) / 100
        except ValueError:
            share = 0.0
        if 0 < share < float("inf"):
            return RelativeSize((), share)
    elif re.fullmatch(r"\d*(x\d*){0,2}", text.lower(), re.ASCII):
        words = text.lower().split("x")
        lengths = tuple(int(word) if word else None for word in words)
        if any(lengths) and 0 not in lengths:
            return RelativeSize(lengths)
    separated = re.fullmatch(r"([1-9]\d*)[,*:;/ ×]+([1-9]\d*)", text, re.ASCII)
    hint = f"did you mean {separated[1]}x{separated[2]}? " if separated else ""
    raise argparse.ArgumentTypeError(f"{hint}{expected}, got {text!r}")


# Names --------------------------------------------------------------------------------------------


def unknown(name: str, accepted: Sequence[str], remark: str = "") -> str:
    """Return the error for an unknown name, which begins with the most similar accepted name.

    >>> unknown("bicubc", ["bilinear", "bicubic"])
    "'bicubc' is not known; did you mean bicubic? accepted: bilinear, bicubic"
    """
    close = difflib.get_close_matches(name.lower(), accepted, n=1)
    hint = f"; did you mean {close[0]}? " if close and not remark else "; "
    return f"{name!r} {remark or 'is not known'}{hint}accepted: {', '.join(accepted)}"


def topic(text: str) -> str:
    """Parse a topic of the documentation, or the code of a rule of the doctor."""
    if text not in TOPICS and not re.fullmatch(r"GS\d\d\d", text):
        raise argparse.ArgumentTypeError(unknown(text, [*TOPICS, "GS001"]))
    return text


def _names_among(accepted: Sequence[str], remarks: Mapping[str, str]) -> Names:
    """Return a parser of a name, or of several separated by commas."""

    def names(text: str) -> str | tuple[str, ...]:
        for name in text.split(","):
            if name not in accepted:
                remark = remarks.get(name, "")
                raise argparse.ArgumentTypeError(unknown(name, accepted, remark))
        return tuple(text.split(",")) if "," in text else text

    return names


SAMPLING_MODES, RESIZING_MODES = accepted_names(), accepted_names(resizing=True)
"""The modes of commands that warp, and of those that resize."""

_ONLY_RESIZING = {
    name: "is for gridsample resize" for name in RESIZING_MODES if name not in SAMPLING_MODES
}
_FOREIGN = {
    name: remark.replace("align_corners", "--align-corners")
    for name, remark in {**FOREIGN_BOUNDARIES, MISSING: "is for gridsample warp"}.items()
}

sampling_modes = _names_among(SAMPLING_MODES, _ONLY_RESIZING)
resizing_modes = _names_among(RESIZING_MODES, {})
boundaries = _names_among([*BOUNDARIES, MISSING], _FOREIGN)
plain_boundaries = _names_among([*BOUNDARIES], _FOREIGN)


def homography(text: str) -> tuple[float, ...]:
    """Read nine numbers from a `.npy` or text file."""
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


def attach_negatives(words: Sequence[str]) -> list[str]:
    """Rewrite `--at -1,2` as `--at=-1,2`, because argparse would parse `-1,2` as an option.

    >>> attach_negatives(["--at", "-1.2,1.3", "--rotate", "30"])
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
