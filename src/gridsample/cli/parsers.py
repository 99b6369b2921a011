"""Parsers for the arguments of a command line: numbers, sizes and names."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from gridsample import io

T = TypeVar("T", int, float)

_NEGATIVE_NUMBERS = re.compile(r"-(\d|\.\d|inf|nan)[\d.,eE+\-infa]*")


def numbers(text: str) -> tuple[float, ...]:
    """Parse comma-separated numbers."""
    return _separated(text, float, "numbers like 1.5,-2")


def integers(text: str) -> tuple[int, ...]:
    """Parse comma-separated whole numbers."""
    return _separated(text, int, "integers like 3,0")


def _separated(text: str, number_type: type[T], expected: str) -> tuple[T, ...]:
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


def names(text: str) -> str | tuple[str, ...]:
    """Parse a name, or several separated by commas."""
    return tuple(text.split(",")) if "," in text else text


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
