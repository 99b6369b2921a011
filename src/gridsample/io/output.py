"""Output files: checks before any work is done, and files that appear complete or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.io.image import Bands, FileError, Image


def check_output(path: Path, *, overwrite: bool) -> None:
    """Raise an error if the output path is a folder or a loop of links, has no folder, or exists.

    Raises:
        FileError: The path cannot be written; the message gives the reason.
    """
    if path.is_dir():
        raise FileError(f"{path} is a folder; name a file to write")
    if not path.parent.is_dir():
        raise FileError(f"cannot write {path.name}: there is no folder {path.parent}")
    if os.path.islink(os.path.realpath(path)):
        raise FileError(f"{path} is a symbolic link that leads back to itself")
    if path.is_file() and not overwrite:  # a pipe or a device is never replaced
        raise FileError(f"{path} exists; --force replaces it (in Python, overwrite=True)")


def check_image(image: Any, path: Path) -> None:
    """Raise an error if an image cannot be written in any format."""
    if not isinstance(image, Image) or not isinstance(image.array, np.ndarray):
        kind = type(image.array if isinstance(image, Image) else image).__name__
        raise TypeError(
            f"cannot write {path}: accepted: a gridsample.io.Image of a NumPy array, got {kind}"
        )
    shape, has_axis = image.array.shape, image.has_channel_axis
    if len(shape) not in (3, 4) or 0 in shape or (not has_axis and shape[-1] != 1):
        raise FileError(
            f"cannot write {path}: array must be (H, W, C) or (D, H, W, C) and not be empty, with "
            f"C = 1 if has_channel_axis is False; got shape {shape}, has_channel_axis={has_axis}"
        )


def checked_bands(
    image: Image, bands: Bands, path: Path, *, scaled: bool
) -> Iterator[NDArray[Any]]:
    """Yield the bands of an image in its byte order, or raise an error if they are not its pixels.

    Args:
        image: The image as the caller describes it.
        bands: Its pixels.
        path: The file, for errors.
        scaled: Whether the file gets the values in place of the stored numbers.
    """
    row, dtype, rows = image.array.shape[1:], image.array.dtype.newbyteorder("="), 0
    for band in bands:
        rows += len(band)
        fits = band.shape[1:] == row and band.dtype.newbyteorder("=") == dtype
        if not fits or rows > len(image.array):
            raise FileError(
                f"cannot write {path}: {len(image.array)} rows of shape {row} and dtype {dtype} "
                f"were expected, got a band of shape {band.shape} and dtype {band.dtype} up to row "
                f"{rows}"
            )
        native = band.astype(dtype, copy=False)
        yield from image.scaled_bands([native]) if scaled else [native]
    if rows < len(image.array):
        raise FileError(f"cannot write {path}: {len(image.array)} rows were expected, got {rows}")


def check_free_space(path: Path, size: int) -> None:
    """Raise an error if a file would be larger than the free space on its disk.

    Raises:
        FileError: There is not enough space; the message gives both sizes.
    """
    disk = shutil.disk_usage(path.parent)
    if disk.total and size > disk.free:  # some network disks report 0 for everything
        raise FileError(
            f"{path} would take {size_text(size)}, but {size_text(disk.free)} are free in "
            f"{path.parent.resolve()}"
        )


@contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Provide a temporary path to write to, and rename it to `path` at the end of the block.

    The temporary file is in the same folder and has a hidden name with the same suffix. If the
    block raises, it is removed, and `path` is not changed. Neither is a file that appears
    meanwhile, unless it may be replaced. A pipe or a device is not replaced, but gets the bytes.

    Raises:
        FileError: `check_output` rejects the path.
        OSError: The folder is not writable.
    """
    check_output(path, overwrite=overwrite)
    target = path.resolve()
    written = _replaced(target) if target.is_file() or not target.exists() else _copied(target)
    with written as temporary:
        try:
            yield temporary
        except FileError as error:
            raise FileError(str(error).replace(str(temporary), str(path))) from error
        check_output(path, overwrite=overwrite)


@contextmanager
def _replaced(target: Path) -> Iterator[Path]:
    """Provide a path in the folder of a file, and rename it to the file's at the end."""
    temporary = target.with_name(f".{secrets.token_hex(8)}.{target.name[-32:]}")
    try:
        temporary.touch(exist_ok=False)
        if target.exists():
            shutil.copymode(target, temporary)
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _copied(target: Path) -> Iterator[Path]:
    """Provide a path in a folder of its own, and copy its bytes to a pipe or a device."""
    with tempfile.TemporaryDirectory(prefix="gridsample-") as folder:
        temporary = Path(folder, target.name)
        temporary.touch()
        yield temporary
        with temporary.open("rb") as file, target.open("wb") as pipe:
            shutil.copyfileobj(file, pipe)


def size_text(size: int) -> str:
    """Format a number of bytes with a unit.

    >>> size_text(1_500_000)
    '1.5 MB'
    """
    units = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"]
    power = min(len(units) - 1, (len(str(size)) - 1) // 3)
    return f"{size / 1000**power:.3g} {units[power]}"
