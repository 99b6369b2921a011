"""Output files: checks before any work is done, and files that appear complete or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gridsample.io.image import FileError


def check_output(path: Path, *, overwrite: bool) -> None:
    """Raise an error if the output path is a folder, has no folder, or exists.

    Raises:
        FileError: The path cannot be written; the message gives the reason.
    """
    if path.is_dir():
        raise FileError(f"{path} is a folder; name a file to write")
    if not path.parent.is_dir():
        raise FileError(f"cannot write {path.name}: there is no folder {path.parent}")
    if path.exists() and not overwrite:
        raise FileError(f"{path} exists; --force replaces it (in Python, overwrite=True)")


def check_room(path: Path, size: int) -> None:
    """Raise an error if a file would be larger than the free space on its disk.

    Raises:
        FileError: There is not enough space; the message gives both sizes.
    """
    room = shutil.disk_usage(path.parent)
    if room.total and size > room.free:  # some network disks report 0 for everything
        raise FileError(
            f"{path} would take {size_text(size)}, but {size_text(room.free)} are free in "
            f"{path.parent.resolve()}"
        )


@contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Provide a temporary path to write to, and rename it to `path` at the end of the block.

    The temporary file is in the same folder and has a hidden name with the same suffix. If the
    block raises, it is removed, and `path` is not changed.

    Raises:
        FileError: `check_output` rejects the path.
        OSError: The folder is not writable.
    """
    check_output(path, overwrite=overwrite)
    target = path.resolve()
    temporary = target.with_name(f".{secrets.token_hex(8)}.{target.name[-32:]}")
    try:
        temporary.touch(exist_ok=False)
        if target.exists():
            shutil.copymode(target, temporary)
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def size_text(size: int) -> str:
    """Format a number of bytes with a unit.

    >>> size_text(1_500_000)
    '1.5 MB'
    """
    units = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"]
    power = min(len(units) - 1, (len(str(size)) - 1) // 3)
    return f"{size / 1000**power:.3g} {units[power]}"
