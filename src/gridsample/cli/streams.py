"""The name `-` in place of a file: standard input and standard output."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from gridsample import io
from gridsample.io.pictures import picture_format

_INPUTS = ("input", "file", "fixed", "moving")
STREAM = Path("-")
_SIGNATURES = {
    b"II*\0": ".tif",
    b"MM\0*": ".tif",
    b"II+\0": ".tif",
    b"MM\0+": ".tif",
    b"\x93NUMPY": ".npy",
    b"PK": ".npz",
}


@contextlib.contextmanager
def with_standard_streams(arguments: argparse.Namespace) -> Iterator[None]:
    """Replace `-` among the files of a command by files in a temporary folder.

    The output has the format of the first input, or PNG if that cannot be written.  It is written
    to standard output at the end of the block.

    Raises:
        FileError: the format of standard input is not known, several files are to be read there,
            or a stream is a terminal.
    """
    read = [name for name in _INPUTS if getattr(arguments, name, None) == STREAM]
    written = getattr(arguments, "output", None) == STREAM
    if not read and not written:
        yield
        return
    if len(read) > 1:
        raise io.FileError("only one file can be read from standard input")
    if written and sys.stdout.buffer.isatty():
        raise io.FileError(
            "a file's bytes are not text for a terminal; name the OUTPUT, or redirect it: > FILE"
        )
    if read and sys.stdin.buffer.isatty():
        raise io.FileError("standard input is a terminal, not a file; redirect it: < FILE")
    with tempfile.TemporaryDirectory(prefix="gridsample-") as folder:
        if read:
            data = sys.stdin.buffer.read()
            path = Path(folder, f"stdin{suffix_of(data)}")
            path.write_bytes(data)
            setattr(arguments, read[0], path)
        if written:
            source = next(filter(None, (getattr(arguments, name, None) for name in _INPUTS)), None)
            arguments.output = Path(folder, f"stdout{_written_suffix(source)}")
        yield
        if written and arguments.output.exists():
            with arguments.output.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)


def suffix_of(data: bytes) -> str:
    """Return the suffix of the format that the first bytes of a file tell.

    >>> suffix_of(b"GIF89a")
    '.gif'
    """
    format_name = picture_format(data[:26])
    if format_name is not None:
        return f".{format_name.lower()}"
    for signature, suffix in _SIGNATURES.items():
        if data.startswith(signature):
            return suffix
    head, is_gzip = data[:352], data.startswith(b"\x1f\x8b")
    if is_gzip:
        with contextlib.suppress(zlib.error):
            head = zlib.decompressobj(31).decompress(data[: 1 << 16], 352)
    if head[344:347] in (b"n+1", b"ni1") or head[4:7] == b"n+2":
        return ".nii.gz" if is_gzip else ".nii"
    if is_gzip:
        return ".mgz"
    raise io.FileError(
        "standard input holds no file of a known format" if data else "standard input is empty"
    )


def _written_suffix(path: Path | None) -> str:
    """Return the suffix of a format that can be written: that of a file, or PNG."""
    name = "" if path is None else path.name.lower()
    suffixes = (suffix for known in io.FORMATS if known.holds for suffix in known.suffixes)
    return next(filter(name.endswith, suffixes), ".png")
