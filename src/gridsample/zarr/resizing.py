"""Resizing: each block from the part of the image that its weights reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.chunked.regions import Block
from gridsample.definitions.methods import Method, ResizingMode
from gridsample.definitions.names import MissingName
from gridsample.definitions.request import ResizeRequest
from gridsample.io.omezarr import resampled_affine, write_metadata
from gridsample.io.stores import Traffic
from gridsample.ops.missing import check_rule
from gridsample.ops.resized_parts import resize_block, windows_of
from gridsample.ops.resizing import interpolate, plan_resizing
from gridsample.warp import copies_pixels, fitted
from gridsample.zarr.layouts import AS_INPUT, Job, Layout, Progress
from gridsample.zarr.missing import name_number, nodata_of, reader_of, stored
from gridsample.zarr.planes import StoredPlanes, by_planes


def resize(
    source: Any,
    output: Any,
    size: Sequence[int],
    mode: ResizingMode = "linear",
    *,
    align_corners: bool | None = None,
    antialias: bool = False,
    missing: MissingName = "propagate",
    nodata: float | None = None,
    axes: str | None = None,
    layout: Layout = AS_INPUT,
    threads: int | None = None,
    overwrite: bool = False,
    progress: Progress = lambda share: None,
) -> Traffic:
    """Resize an image of a Zarr store, and write the result to another store.

    The results are those of `gridsample.interpolate` for the whole image in memory, bit for bit;
    splines, and means with missing="ignore", differ by rounding.

    Args:
        source: the folder or the address of a Zarr array or of an OME-Zarr image, or a Zarr store;
            see `gridsample.io.omezarr.read_multiscale`.  The finest level is read.
        output: the folder to create, or an empty Zarr store or its address,
            for an OME-Zarr image with one level.
        size: the output's size along the spatial axes, in the order of the array.
        mode: the method, as in `interpolate`; several are in x, y, z order.
        align_corners: as in `interpolate`.
        antialias: whether weights are stretched along axes that shrink, as in `interpolate`.
        missing: "propagate", or "ignore": other pixels make up for missing ones, as in
            `interpolate`; not with splines, whose coefficients depend on all pixels.
        nodata, axes, layout, threads, overwrite, progress: as in `warp`.

    Returns:
        What was read and written.

    Raises:
        FileError: the source is not a Zarr store, or the output cannot be written.
        MissingExtraError: `zarr` is not installed.
        TypeError: an argument is not accepted.
        ValueError: an argument is not accepted.

    Example:
        >>> import tempfile
        >>> import numpy as np, zarr, gridsample.zarr
        >>> folder = tempfile.mkdtemp()
        >>> _ = zarr.create_array(folder + "/in", data=np.arange(6.0), chunks=(2,))
        >>> _ = gridsample.zarr.resize(folder + "/in", folder + "/out", [3])
        >>> zarr.open(folder + "/out")["0"][:]
        array([0.5, 2.5, 4.5])
    """
    job = Job.of(source, output, axes, layout, threads, overwrite, progress)
    inputs, spatial = job.inputs, job.spatial
    resizing = plan_resizing(
        inputs, size, None, ResizeRequest(mode, align_corners, antialias=antialias, threads=1)
    )
    methods = [method for method in resizing.methods if isinstance(method, Method)]
    copies = copies_pixels(mode, len(spatial), antialias=antialias)
    missing_pixels = nodata_of(job.array, nodata, missing, copies)
    averages = missing_pixels is not None and missing_pixels.ignore
    if averages:
        check_rule(methods, (), any(method.prefilter > 1 for method in methods))
    reader = reader_of(job.array, None if averages else missing_pixels)
    # Errors of the dtype and of options are raised before anything is written.
    pixel = np.zeros((1, 1) + (1,) * len(spatial), reader.dtype)
    interpolate(
        pixel,
        pixel.shape[2:],
        mode=mode,
        align_corners=align_corners,
        antialias=antialias,
        missing=missing,
    )

    def resized(block: Block, image: StoredPlanes) -> NDArray[Any]:
        windows = windows_of(resizing, inputs, block)
        pixels = image[image.box([window.inputs for window in windows])]
        if missing_pixels is None or not averages:
            return resize_block(pixels, windows, resizing, inputs)
        sums = resize_block(missing_pixels.stacked(pixels, 1), windows, resizing, inputs)
        return missing_pixels.mean(sums, 1)

    recipe: dict[str, Any] = {"command": "resize", "mode": mode, "antialias": antialias}
    recipe |= {"align_corners": align_corners, "missing": missing}
    recipe["nodata"] = None if missing_pixels is None else repr(missing_pixels.number)
    with job.output([job.shape(resizing.size)], recipe) as out:
        compute = by_planes(resized, reader, spatial)
        out.fill(0, compute if averages else stored(compute, missing_pixels))
        name_number(out.arrays, nodata)
        voxels = fitted(inputs, resizing.size, bool(align_corners))
        affine = resampled_affine(job.image.affines[0], voxels, spatial)
        write_metadata(out.group, job.image, affine, name=job.name)
    return job.traffic
