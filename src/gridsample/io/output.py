"""Files appear whole or not at all, and nothing is begun that cannot be finished."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gridsample.io.image import FileError


def check_output(path: Path, *, overwrite: bool) -> None:
    """Refuse an output path that is a folder, in no folder, or taken.

    Raises:
        FileError: With the reason.
    """
    if path.is_dir():
        raise FileError(f"{path} is a folder; name a file to write")
    if not path.parent.is_dir():
        raise FileError(f"there is no folder {path.parent} to write {path.name} in")
    if path.exists() and not overwrite:
        raise FileError(f"{path} exists; --force replaces it")


def check_room(path: Path, size: int) -> None:
    """Refuse a file of more bytes than are free on the disk that it is to be written to.

    Raises:
        FileError: With both numbers.
    """
    room = shutil.disk_usage(path.parent)
    if room.total and size > room.free:  # some network disks say 0 of everything
        raise FileError(
            f"{path} would take {_bytes(size)}, but {_bytes(room.free)} are free in "
            f"{path.parent.resolve()}"
        )


@contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Lend a path to write to; what is there at the end becomes `path` in one step.

    The lent file lies in the same folder under a hidden name of the same suffix. If the block
    raises, it is removed, and `path` is as it was.

    Raises:
        FileError: What `check_output` refuses.
        OSError: The folder may not be written.
    """
    check_output(path, overwrite=overwrite)
    target = path.resolve()
    beside = target.with_name(f".{secrets.token_hex(8)}.{target.name[-32:]}")
    try:
        beside.touch(exist_ok=False)
        if target.exists():
            shutil.copymode(target, beside)
        yield beside
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def _bytes(size: int) -> str:
    """A number of bytes with a unit.

    >>> _bytes(1_500_000)
    '1.5 MB'
    """
    units = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"]
    power = min(len(units) - 1, (len(str(size)) - 1) // 3)
    return f"{size / 1000**power:.3g} {units[power]}"
