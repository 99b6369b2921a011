"""Zarr stores: reads that are counted and cached, and arrays that are filled file by file.

Each chunk, or shard where there are some, is a file that Zarr writes under another name and then
renames.  So a file that exists is complete, whatever ended the process, and the store itself says
what has been done; see `gridsample.io.resuming`.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.chunked.overlaps import copy_chunks
from gridsample.io.image import FileError, as_file_error, reason, require

Region = tuple[slice, ...]
METADATA = (".json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
CACHE_BYTES = 1 << 30
"""The bytes of decoded chunks that a source keeps, at most."""


@dataclass
class Traffic:
    """What was read from and written to stores.

    Attributes:
        read: the number of bytes that were read, of compressed chunks and of metadata.
        written: the number of bytes that were written, likewise.
        reads: the number of reads of chunks.
        done: the chunks, or shards, that were written.
        done_before: those that an earlier run had written.
        lock: held while counts change.
    """

    read: int = 0
    written: int = 0
    reads: int = 0
    done: int = 0
    done_before: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, **counts: int) -> None:
        """Add to counts, from any thread."""
        with self.lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)


def store_of(source: Any, read_only: bool = True) -> Any:
    """Return the Zarr store of a folder or of an address such as "https://..."; or a store itself.

    Raises:
        FileError: there is no such folder, or the library for such addresses is not installed.
        MissingExtraError: `zarr` is not installed.
        TypeError: it is none of these.
    """
    storage = require("zarr.storage", "zarr")
    if isinstance(source, require("zarr.abc.store", "zarr").Store):
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"a Zarr store, its folder or its address is expected, got {source!r}")
    if is_address(source):
        with as_file_error(f"cannot open {source}"):
            return storage.FsspecStore.from_url(source, read_only=read_only)
    if read_only and not Path(source).is_dir():
        raise FileError(f"there is no folder {source}")
    return storage.LocalStore(str(source), read_only=read_only)


def is_address(source: Any) -> bool:
    """Whether a source is an address, such as "s3://bucket/image.zarr", and no folder."""
    return isinstance(source, str) and "://" in source


def counting_store(source: Any, traffic: Traffic, read_only: bool) -> Any:
    """Return the store of a source (see `store_of`) whose reads and writes are counted."""
    storage = require("zarr.storage", "zarr")
    suffix = require("zarr.abc.store", "zarr").SuffixByteRequest
    wrapped = store_of(source, read_only)

    class Counting(storage.WrapperStore):  # type: ignore[misc,name-defined]
        async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
            value = await super().get(key, prototype, byte_range)
            if value is not None:
                # The index of a shard is at its end.
                is_chunk = not key.endswith(METADATA) and not isinstance(byte_range, suffix)
                traffic.add(read=len(value), reads=is_chunk)
            return value

        async def set(self, key: str, value: Any) -> None:
            await super().set(key, value)
            traffic.add(written=len(value))

        def __str__(self) -> str:
            return str(wrapped)

    return Counting(wrapped)


# Reading ------------------------------------------------------------------------------------------


class ChunkReader:
    """Reads regions of a Zarr array chunk by chunk, and caches the chunks used last, decoded.

    Neighbouring regions need the same chunks.  Several threads may read at once; a chunk that two
    of them need is read once.

    Attributes:
        array: a Zarr array, or an array that is computed where it is read.
        shape, dtype: those of the array.
        chunks: the shape of what is read, or computed, at once.
    """

    def __init__(
        self, array: Any, chunks: Sequence[int] | None = None, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self.array, self.lock = array, threading.Lock()
        self.shape, self.chunks = array.shape, tuple(chunks or array.chunks)
        self.ends = [range(n, size + n, n) for size, n in zip(self.shape, self.chunks, strict=True)]
        self.dtype = np.dtype(array.dtype).newbyteorder("=")
        self.cache: OrderedDict[tuple[int, ...], Future[NDArray[Any]]] = OrderedDict()
        self.limit = max(1, cache_bytes // (math.prod(self.chunks) * self.dtype.itemsize))

    def __getitem__(self, region: Region) -> NDArray[Any]:
        """Read a region; every slice has a start and a stop within the array."""
        out = np.empty([part.stop - part.start for part in region], self.dtype)
        self.read(region, out)
        return out

    def read(self, region: Region, out: NDArray[Any]) -> None:
        """Store a region in an array."""
        copy_chunks(self.chunk, region, self.ends, out)

    def chunk(self, index: tuple[int, ...]) -> NDArray[Any]:
        """Return a decoded chunk, cut off at the ends of the array."""
        with self.lock:
            entry = self.cache.get(index)
            is_first = entry is None
            if entry is None:
                entry = self.cache[index] = Future()
                while len(self.cache) > self.limit:
                    self.cache.popitem(last=False)
            else:
                self.cache.move_to_end(index)
        if is_first:
            region = region_of_chunk(index, self.chunks, self.shape)
            source = getattr(self.array, "store_path", "the Zarr array")
            try:
                with as_file_error(f"cannot read the chunk {index} of {source}"):
                    entry.set_result(np.asarray(self.array[region]))
            except BaseException as error:
                with self.lock:
                    self.cache.pop(index, None)
                entry.set_exception(error)
                raise
        return entry.result()


def region_of_chunk(index: Sequence[int], chunk: Sequence[int], shape: Sequence[int]) -> Region:
    """Return the region of a chunk, or a shard, within an array of a shape."""
    sizes = zip(index, chunk, shape, strict=True)
    return tuple(slice(k * n, min((k + 1) * n, size)) for k, n, size in sizes)


# Writing ------------------------------------------------------------------------------------------


def keys_of(store: Any, prefix: str) -> set[str]:
    """Return the keys of a Zarr store that begin with a prefix."""
    sync = require("zarr.core.sync", "zarr").sync

    async def listed() -> set[str]:
        return {key async for key in store.list_prefix(prefix)}

    keys: set[str] = sync(listed())
    return keys


def files_of(array: Any) -> Iterator[tuple[str, Region]]:
    """Yield the key and the region of each file of an array: its shards, or else its chunks.

    They are in Morton order: cubes of 2, 4, 8, ... neighbours along each axis are finished one
    after the other, whose pixels come from the same chunks of a source.
    """
    shape = array.shards or array.chunks
    counts = [-(-size // n) for size, n in zip(array.shape, shape, strict=True)]
    for index in sorted(itertools.product(*map(range, counts)), key=morton):
        key = array.metadata.encode_chunk_key(index)
        yield f"{array.path}/{key}".strip("/"), region_of_chunk(index, shape, array.shape)


def morton(index: Sequence[int]) -> int:
    """Return the position of an index in Morton order, by the bits of its numbers in turn.

    >>> sorted([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)], key=morton)
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2)]
    """
    position, rank = 0, len(index)
    for bit in range(max(index, default=0).bit_length()):
        for axis, k in enumerate(reversed(index)):
            position |= (k >> bit & 1) << (bit * rank + axis)
    return position


def fill(
    array: Any,
    compute: Callable[[Region], NDArray[Any]],
    traffic: Traffic,
    workers: int,
    report: Callable[[], None] = lambda: None,
) -> None:
    """Compute and write every file of an array that is not there yet, several at a time.

    Args:
        array: the Zarr array.
        compute: returns the values of a region.
        traffic: where the files are counted.
        workers: how many threads compute, read and write.
        report: called after each file.
    """

    def write(region: Region) -> None:
        values = compute(region)
        try:
            array[region] = values
        except OSError as error:
            raise FileError(f"cannot write to {array.store_path}: {reason(error)}") from error
        traffic.add(done=1)

    files, known = list(files_of(array)), keys_of(array.store, array.path)
    missing = [region for key, region in files if key not in known]
    traffic.add(done_before=len(files) - len(missing))
    with ThreadPoolExecutor(workers, thread_name_prefix="gridsample-zarr") as pool:
        running: set[Future[None]] = set()
        regions = iter(missing)
        try:
            while True:
                more = itertools.islice(regions, 2 * workers - len(running))
                running |= {pool.submit(write, region) for region in more}
                if not running:
                    break
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
                    report()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def count_files(shape: Sequence[int], file_shape: Sequence[int]) -> int:
    """The number of files of an array."""
    return math.prod(-(-size // n) for size, n in zip(shape, file_shape, strict=True))
