"""`.npy` files, read and written in ranges of rows, and `.npz` files with one array."""

from __future__ import annotations

import functools
import math
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.io.image import (
    Bands,
    FileError,
    Image,
    Page,
    Rows,
    as_file_error,
    collected,
    whole_page,
    zeros,
)


def load_npy(path: Path) -> NDArray[Any]:
    """Memory-map a `.npy` file. Nothing in it is ever unpickled.

    Raises:
        FileError: The file is not a `.npy` file, is truncated, or holds objects.
        OSError: The file does not exist or cannot be read.
    """
    with path.open("rb") as file, as_file_error(f"cannot read {path} as NumPy"):
        if file.read(6) != b"\x93NUMPY":
            raise FileError(f"{path} is not a .npy file")
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return array


def load_npz(path: Path) -> NDArray[Any]:
    """Read the only array of a `.npz` file. Nothing in it is ever unpickled.

    Raises:
        FileError: The file is not a `.npz` file, or holds several arrays.
    """
    if not zipfile.is_zipfile(path):
        raise FileError(f"{path} is not a .npz file, despite its name, or it is truncated")
    with np.load(path, allow_pickle=False) as file:
        if len(file.files) != 1:
            raise FileError(
                f"{path} holds {len(file.files)} arrays: {', '.join(file.files) or 'none'}; "
                "accepted: one; save it as a .npy file"
            )
        array: NDArray[Any] = file[file.files[0]]
        if not isinstance(array, np.ndarray):
            raise FileError(f"{path} holds {file.files[0]}, which is no array")
        return array


def read_pages(path: Path, volume: bool, stack: ExitStack, limit: int | None) -> list[Page]:
    """Read the array of a file as a picture or a volume."""
    array = load_npz(path) if path.name.lower().endswith(".npz") else load_npy(path)
    if array.ndim not in (2, 3, 4):
        raise FileError(
            f"{path} has shape {array.shape}; "
            "accepted: (H, W), (H, W, C), (D, H, W) and (D, H, W, C)"
        )
    flat = array.ndim == 2 or (array.ndim == 3 and (volume or not 1 <= array.shape[2] <= 4))
    image = Image(array[..., None] if flat else array, "NumPy", not flat)
    if not isinstance(array, np.memmap) or not array.flags.c_contiguous or not array.size:
        return [whole_page(image)]
    shape = image.array.shape
    assembled = Image(zeros(shape, array.dtype), image.format, image.has_channel_axis)
    return [Page(assembled, functools.partial(file_rows, path, array.dtype, shape, array.offset))]


def file_rows(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> Rows:
    """Return a function that reads rows that are contiguous in a file.

    The rows are read, not memory-mapped; otherwise the whole file would count as memory in use.
    """
    row = math.prod(shape[1:])

    def read(begin: int, end: int) -> NDArray[Any]:
        start, count = offset + begin * row * dtype.itemsize, (end - begin) * row
        flat = np.fromfile(path, dtype, count, offset=start)
        return flat.reshape(end - begin, *shape[1:]).astype(dtype.newbyteorder("="), copy=False)

    return read


def write_pages(images: Sequence[Image], bands: Iterable[Bands], path: Path) -> None:
    """Write one array, one band at a time."""
    (image,) = images
    header = {
        "descr": np.lib.format.dtype_to_descr(image.array.dtype),
        "fortran_order": False,
        "shape": image.stored.shape,
    }
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        (rows,) = bands
        for band in rows:
            file.write(np.ascontiguousarray(band).data)


def write_npz(images: Sequence[Image], bands: Iterable[Bands], path: Path) -> None:
    """Write one array, compressed, under the name that `numpy.savez` gives it."""
    np.savez_compressed(path, collected(images, bands).stored)
