"""How outputs are stored, and what calls on Zarr stores share."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from gridsample._version import __version__
from gridsample.definitions.checks import check_threads
from gridsample.io.image import require
from gridsample.io.omezarr import (
    Multiscale,
    check_shards,
    codecs_of,
    create_array,
    read_multiscale,
)
from gridsample.io.resuming import describe_source, resumable, resumable_store
from gridsample.io.stores import (
    Region,
    Traffic,
    count_files,
    counting_store,
    fill,
    is_address,
    store_of,
)

Progress = Callable[[float], None]


class Layout(NamedTuple):
    """How an output is stored.

    Attributes:
        chunks: the shape of a chunk, for the spatial axes or for all; None for the input's.
        shards: the shape of a shard, in the same way; None for no shards, or for the input's if
            chunks are the input's.
        zarr_format: 2 or 3; None for the input's.
        codec: how chunks are compressed: "zstd", "gzip", "blosc" or "none", perhaps with a level,
            such as "zstd:5"; None for the input's, or Zarr's default in another Zarr version.
    """

    chunks: Sequence[int] | None = None
    shards: Sequence[int] | None = None
    zarr_format: int | None = None
    codec: str | None = None


AS_INPUT = Layout()


def complete_layout(array: Any, spatial: Sequence[int], layout: Layout) -> Layout:
    """Return a layout with a number for each axis, and the input's values in place of None."""
    chunks, shards, zarr_format, codec = layout
    if shards is None and chunks is None:
        shards = array.shards
    full = with_other_axes(chunks, array.chunks, spatial, "chunks")
    if shards is not None:
        shards = with_other_axes(shards, full, spatial, "shards")
        uneven = [n % m for n, m in zip(shards, full, strict=True)]
        if any(uneven):
            raise ValueError(f"shards must be multiples of chunks, got {shards} and {full}")
    version = zarr_format or array.metadata.zarr_format
    if version not in (2, 3):
        raise ValueError(f"zarr_format must be 2 or 3, got {zarr_format!r}")
    check_shards(layout.shards, version)
    if version == 2:
        shards = None
    if codec is not None:
        codecs_of(codec, version)  # raises an error
    return Layout(full, shards, version, codec)


def with_other_axes(
    numbers: Sequence[int] | None, others: Sequence[int], spatial: Sequence[int], name: str
) -> tuple[int, ...]:
    """Return a number for each axis: of the spatial axes, and ``others`` for the other ones."""
    if numbers is None:
        return tuple(others)
    full = list(others)
    if len(numbers) not in (len(spatial), len(full)) or min(numbers) < 1:
        raise ValueError(
            f"{name} must be a positive number for each of the {len(spatial)} spatial axes, or of "
            f"all {len(full)}, got {tuple(numbers)}"
        )
    axes = spatial if len(numbers) == len(spatial) else range(len(full))
    for k, n in zip(axes, numbers, strict=True):
        full[k] = int(n)
    return tuple(full)


def create_levels(
    store: Any, image: Multiscale, shapes: Sequence[tuple[int, ...]], layout: Layout
) -> tuple[Any, list[Any]]:
    """Create the group of an output and its arrays, or open those of an interrupted call."""
    zarr = require("zarr", "zarr")
    group = zarr.open_group(store, mode="a", zarr_format=layout.zarr_format)
    names = [axis["name"] for axis in image.axes]
    arrays = []
    for level, shape in enumerate(shapes):
        if str(level) in group:
            array = group[str(level)].with_config({"write_empty_chunks": True})
        else:
            stored = layout.chunks or shape, layout.shards, names, layout.codec
            array = create_array(group, str(level), shape, image.arrays[0], *stored)
        arrays.append(array)
    return group, arrays


class Output(NamedTuple):
    """An output while it is written.

    Attributes:
        group: the Zarr group.
        arrays: its levels.
        fill: computes every chunk or shard of a level that is not there yet, given its number and a
            function that returns the pixels of a region.
    """

    group: Any
    arrays: list[Any]
    fill: Callable[[int, Callable[[Region], NDArray[Any]]], None]


@dataclass(frozen=True)
class Job:
    """A call that makes an image of another one.

    Attributes:
        image: the image that is read.
        path: the folder to create, or an address or a Zarr store.
        layout: how it is stored; nothing is open.
        traffic: what is read and written.
        threads, overwrite, progress: as in `gridsample.zarr.warp`.
    """

    image: Multiscale
    path: Any
    layout: Layout
    traffic: Traffic
    threads: int | None
    overwrite: bool
    progress: Progress

    @classmethod
    def of(
        cls,
        source: Any,
        output: Any,
        axes: str | None,
        layout: Layout,
        threads: int | None,
        overwrite: bool,
        progress: Progress,
    ) -> Job:
        """Open the source of a call, whose reads are counted; the arguments are those of `warp`."""
        check_threads(threads)
        traffic = Traffic()
        store = counting_store(source, traffic, read_only=True)
        image = read_multiscale(source, axes, store)
        stored = complete_layout(image.arrays[0], image.spatial, layout)
        if isinstance(output, str):  # fsspec's own files are not written at once
            output = output.removeprefix("file://")
        is_folder = isinstance(output, (str, Path)) and not is_address(output)
        path = Path(output) if is_folder else output
        return cls(image, path, stored, traffic, threads, overwrite, progress)

    @property
    def array(self) -> Any:
        """The Zarr array that is read: the finest level."""
        return self.image.arrays[0]

    @property
    def spatial(self) -> tuple[int, ...]:
        """The spatial axes of the array."""
        return self.image.spatial

    @property
    def inputs(self) -> tuple[int, ...]:
        """The spatial shape of the array."""
        return tuple(self.array.shape[k] for k in self.spatial)

    def shape(self, size: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the array with another spatial shape."""
        sizes = dict(zip(self.spatial, size, strict=True))
        return tuple(sizes.get(k, n) for k, n in enumerate(self.array.shape))

    @contextmanager
    def output(
        self, shapes: Sequence[tuple[int, ...]], recipe: Mapping[str, Any]
    ) -> Iterator[Output]:
        """Provide an output with empty levels, which is at its path after the block.

        Args:
            shapes: the shape of each level.
            recipe: the arguments that determine the output, as JSON.
        """
        image, traffic = self.image, self.traffic
        full_recipe = {**recipe, "version": __version__, "shapes": shapes}
        full_recipe |= {
            "layout": self.layout._asdict(),
            "source": describe_source(image.source, self.array),
        }
        full_recipe["axes"] = [dict(axis) for axis in image.axes]
        with self.store(full_recipe) as target:
            store = counting_store(target, traffic, read_only=False)
            group, arrays = create_levels(store, image, shapes, self.layout)
            total = sum(count_files(array.shape, array.shards or array.chunks) for array in arrays)

            def report() -> None:
                self.progress(min(1.0, (traffic.done + traffic.done_before) / total))

            def fill_level(level: int, compute: Callable[[Region], NDArray[Any]]) -> None:
                workers = self.threads or os.cpu_count() or 1
                fill(arrays[level], compute, traffic, workers, report)

            yield Output(group, arrays, fill_level)

    @contextmanager
    def store(self, recipe: Mapping[str, Any]) -> Iterator[Any]:
        """Provide the store of an output, or the folder of it."""
        if isinstance(self.path, Path):
            with resumable(self.path, recipe, overwrite=self.overwrite) as folder:
                yield folder
                self.consolidate(folder)
            return
        store = store_of(self.path, read_only=False)
        with resumable_store(store, recipe, overwrite=self.overwrite):
            yield store
        self.consolidate(store)

    def consolidate(self, store: Any) -> None:
        """Gather the metadata of a complete output in one file, if the source has such a file."""
        if self.image.is_consolidated:
            with warnings.catch_warnings():  # that Zarr version 3 does not specify it yet
                warnings.simplefilter("ignore")
                require("zarr", "zarr").consolidate_metadata(store)

    @property
    def name(self) -> str:
        """The name of an image that has none of its own."""
        return Path(str(self.path)).stem
