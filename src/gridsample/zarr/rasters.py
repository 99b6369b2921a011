"""Rasters in Zarr stores: read and written as xarray does, and computed chunk by chunk.

What is computed is a lazy Dataset.  Its chunks are the files of the output: a call that was ended
continues with those that are not there yet.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gridsample._version import __version__
from gridsample.geo.cells import Summary
from gridsample.geo.dataarrays import (
    PROJECTIONS,
    dimensions,
    raster_of,
    rasters_of,
    reprojected_dataset,
)
from gridsample.geo.rasters import Raster
from gridsample.geo.warping import Resampling
from gridsample.io.image import FileError, as_file_error, require
from gridsample.io.nodata import ATTRIBUTE, number_of_array
from gridsample.io.omezarr import Multiscale, codecs_like, read_multiscale
from gridsample.io.resuming import describe_source, has_results, resumable
from gridsample.io.stores import CACHE_BYTES, Traffic, counting_store, files_of, keys_of
from gridsample.zarr.layouts import Layout, Progress, complete_layout

# What xarray keeps of how a variable was stored, which another version of Zarr stores otherwise.
STORED = "chunks", "shards", "preferred_chunks", "compressors", "filters", "serializer"

if TYPE_CHECKING:
    import xarray


class StoredRaster(NamedTuple):
    """A raster in a Zarr store.

    Attributes:
        source: the folder.
        dataset: its variables, lazy, with the numbers that are stored.
        arrays: the Zarr arrays of those that have rows and columns, by name.
        is_consolidated: whether the metadata of all arrays are also in one file.
        traffic: what is read of it.
    """

    source: Path
    dataset: xarray.Dataset
    arrays: dict[Hashable, Any]
    is_consolidated: bool
    traffic: Traffic

    def raster(self, name: str) -> Raster:
        """Return where the pixels are; the name is for errors."""
        return raster_of(self.dataset, name)

    def layouts(self, layout: Layout) -> dict[Hashable, Layout]:
        """Return how each of the arrays is stored, with its own values in place of None."""
        both = dimensions(self.dataset)
        return {
            name: complete_layout(
                array, [self.dataset[name].dims.index(dim) for dim in both], layout
            )
            for name, array in self.arrays.items()
        }

    def with_nodata(self, nodata: float | None) -> StoredRaster:
        """Return the raster with another nodata value, if there is one."""
        if nodata is None:
            return self
        numbers = {name: number_of_array(array, nodata) for name, array in self.arrays.items()}
        named = {
            name: self.dataset[name].assign_attrs({ATTRIBUTE: number})
            for name, number in numbers.items()
        }
        return self._replace(dataset=self.dataset.assign(named))


def is_raster(source: Path) -> bool:
    """Whether a Zarr store is a group as xarray writes it, or states a projection."""
    opened = require("zarr", "zarr").open(source, mode="r")
    return not is_image(opened) or any(name in opened.attrs for name in PROJECTIONS)


def is_image(opened: Any) -> bool:
    """Whether a part of a store is an array, or an image of OME-Zarr."""
    attributes = opened.attrs.asdict()
    levels = attributes.get("ome", attributes).get("multiscales")
    return isinstance(opened, require("zarr", "zarr").Array) or isinstance(levels, list)


def open_raster(source: Path, axes: str | None = None) -> StoredRaster:
    """Open a raster; no pixels are read.

    Args:
        source: the folder of a group as xarray writes it, of an image of OME-Zarr, whose
            coordinates are those of its metadata, or of an array.
        axes: the names of the axes of the last two, as in `read_multiscale`.

    Raises:
        FileError: the store cannot be read.
        MissingExtraError: xarray, dask or zarr is not installed.
    """
    xarray, _ = require("xarray", "xarray"), require("dask.array", "dask")
    traffic = Traffic()
    store = counting_store(source, traffic, read_only=True)
    with as_file_error(f"cannot read {source} as a Zarr store"):
        opened = require("zarr", "zarr").open(store=store, mode="r")
        if is_image(opened):
            image = read_multiscale(source, axes, store)
            dataset = dataset_of(image, source.stem)
            arrays: dict[Hashable, Any] = {source.stem: image.arrays[0]}
            return StoredRaster(source, dataset, arrays, image.is_consolidated, traffic)
        # Numbers stay as they are stored: packed ones are sampled as such.
        as_stored = {"mask_and_scale": False, "decode_times": False, "decode_coords": "all"}
        dataset = xarray.open_zarr(store, chunks={}, **as_stored)
    is_consolidated = opened.metadata.consolidated_metadata is not None
    arrays = {name: opened[str(name)] for name in rasters_of(dataset)}
    return StoredRaster(source, dataset, arrays, is_consolidated, traffic)


def dataset_of(image: Multiscale, name: str) -> xarray.Dataset:
    """Return the finest level of an image as a Dataset, with coordinates if it has a place."""
    import dask.array as da
    import xarray

    array, affine = image.arrays[0], image.affines[0]
    dims = [str(axis["name"]) for axis in image.axes]
    attributes = {**image.attributes, **array.attrs}
    attributes.pop("_ARRAY_DIMENSIONS", None)
    if (number := number_of_array(array)) is not None:
        attributes[ATTRIBUTE] = number
    coordinates = {}
    if image.is_ome:
        square = affine[:-1, :-1]
        if not np.array_equal(square, np.diag(np.diag(square))):
            raise FileError(f"the pixels of {name} are rotated or sheared on the ground")
        for k in image.spatial:
            coordinates[dims[k]] = affine[k, k] * np.arange(array.shape[k]) + affine[k, -1]
    pixels = da.from_array(array, chunks=array.shards or array.chunks)
    return xarray.DataArray(pixels, coordinates, dims, name, attributes).to_dataset()


def write_reprojected(
    raster: StoredRaster,
    target: Raster,
    method: Resampling | Summary,
    output: Path,
    layout: Layout,
    threads: int | None = None,
    overwrite: bool = False,
    progress: Progress = lambda share: None,
) -> Traffic:
    """Reproject a raster, and write it to a folder as xarray writes Datasets.

    Args:
        raster: the raster.
        target: the pixels of the output.
        method: how values are computed.
        output: the folder to create.
        layout: how rasters are stored.
        threads, overwrite, progress: as in `gridsample.zarr.warp`.

    Returns:
        What was read and written.
    """
    import dask

    plan = method.plan(raster.raster("the input"), target)
    layouts = raster.layouts(layout)

    def chunks(name: Hashable) -> list[int]:
        files, dims = layouts[name].shards or layouts[name].chunks, raster.dataset[name].dims
        assert files is not None
        return [files[dims.index(dim)] for dim in dimensions(raster.dataset)]

    result = reprojected_dataset(raster.dataset, plan, target, method, None, chunks)
    # Zarr lists the members of a group in any order.
    names = sorted(raster.arrays, key=str)
    if not names:
        dims = " and ".join(map(str, dimensions(raster.dataset)))
        raise FileError(f"{raster.source} has no variable with the dimensions {dims}")
    described = [describe_source(raster.source, raster.arrays[name]) for name in names]
    numbers = {str(name): repr(result[name].attrs.get(ATTRIBUTE)) for name in names}
    recipe = {
        "command": "reproject",
        "version": __version__,
        "source": {"place": described[0]["place"], "arrays": described},
        "target": target,
        "method": repr(method),
        "nodata": numbers,
        "layouts": {str(name): layout._asdict() for name, layout in layouts.items()},
    }
    with resumable(output, recipe, overwrite=overwrite) as folder:
        store = counting_store(folder, raster.traffic, read_only=False)
        known = keys_of(store, "")
        lazy = {str(name): item for name, item in result.variables.items() if item.chunks}
        folders = tuple([f"{name}/" for name in lazy])
        if not has_results(key for key in known if key.startswith(folders)):
            create(store, result, raster, layouts)
        with dask.config.set(scheduler="threads", num_workers=threads or os.cpu_count() or 1):
            fill(store, lazy, known, raster.traffic, progress)
    return raster.traffic


def create(
    store: Any, result: xarray.Dataset, raster: StoredRaster, layouts: Mapping[Hashable, Layout]
) -> None:
    """Write everything but the pixels of lazy arrays."""
    (version,) = {layout.zarr_format or 3 for layout in layouts.values()}
    encoding = {}
    for name, layout in layouts.items():
        shards = {} if layout.shards is None else {"shards": layout.shards}
        codecs = codecs_like(raster.arrays[name], version, layout.codec)
        encoding[name] = {"chunks": layout.chunks, **shards, **codecs}
    if any(array.metadata.zarr_format != version for array in raster.arrays.values()):
        for item in result.variables.values():
            item.encoding = {k: value for k, value in item.encoding.items() if k not in STORED}
    result.to_zarr(
        store,
        mode="w",
        compute=False,
        encoding=encoding,
        zarr_format=version,
        consolidated=raster.is_consolidated,
    )


def fill(
    store: Any, lazy: Mapping[str, Any], known: set[str], traffic: Traffic, progress: Progress
) -> None:
    """Compute the chunks of lazy arrays that a store does not have yet."""
    from gridsample.dask import store as compute_into

    group = require("zarr", "zarr").open_group(store, mode="r+")
    total, before = sum(item.size for item in lazy.values()), 0
    for name, item in lazy.items():
        array = group[name].with_config({"write_empty_chunks": True})
        shape = array.shards or array.chunks
        files = {
            tuple(part.start // n for part, n in zip(region, shape, strict=True)): key
            for key, region in files_of(array)
        }
        done = {index for index, key in files.items() if key in known}
        traffic.add(done_before=len(done))
        keep = max(1, CACHE_BYTES // (int(np.prod(shape)) * item.dtype.itemsize))

        def report(share: float, before: int = before, size: int = item.size) -> None:
            progress((before + share * size) / total)

        compute_into(item.data.rechunk(shape), array, keep=keep, skip=done, progress=report)
        traffic.add(done=len(files) - len(done))
        before += item.size
