"""Reprojection of xarray's DataArrays and Datasets."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsample.geo.cells import Summary
from gridsample.geo.plans import Positions
from gridsample.geo.rasters import Raster, covering, crs_of, require_pyproj
from gridsample.geo.warping import Resampling, method_of, warped

if TYPE_CHECKING:
    import xarray

# The names of the dimensions of rasters.
ROWS, COLUMNS = ("y", "Y", "lat", "latitude"), ("x", "X", "lon", "longitude")
# Attributes with the projection, after a grid mapping: GeoZarr's, xarray-spatial's, and GDAL's for
# Zarr, with a form of its own in place of each; and those with the places of pixels.
PROJECTIONS = "proj:wkt2", "proj:projjson", "proj:code", "crs", "_CRS"
GDAL_FORMS = "wkt", "projjson", "url"
TRANSFORM, REGISTRATION = "spatial:transform", "spatial:registration"
# Attributes with the nodata value.
NODATA = "_FillValue", "nodata", "missing_value"
# Coordinates are equidistant up to this share of a pixel.
UNEVEN = 1e-3


def reproject(
    image: xarray.DataArray | xarray.Dataset,
    crs: Any = None,
    *,
    resolution: float | tuple[float, float] | None = None,
    like: Any = None,
    method: str | float = "bilinear",
    nodata: Any = None,
    min_weight: float | None = None,
    antialias: bool | None = None,
    tolerance: float = 0.05,
    chunks: Any = None,
    threads: int | None = None,
) -> Any:
    """Reproject a raster, a DataArray or a Dataset, to another projection or to another's pixels.

    A pixel depends on its place alone: chunks, parts and the whole are equal, to the last bit, also
    in memory and lazily.  Missing pixels, NaN and ``nodata``, count for nothing, and the others
    around an output make up for them.

    Args:
        image: real or complex numbers, bool or integers with dimensions y and x (or lat and lon, or
            latitude and longitude), whose coordinates are equidistant centres of pixels, or that
            has a GeoTransform.  Its projection is that of its grid mapping, as rioxarray and CF
            write it, or an attribute: "crs", or those of GeoZarr and GDAL.  Other dimensions are
            kept.
        crs: the projection of the output, in any form that `pyproj.CRS` accepts.
        resolution: the size of output pixels in units of ``crs``, or a pair for x and y; by default
            the diagonal of the image has as many pixels as before.
        like: a DataArray or Dataset with the pixels of the output, or an odc-geo GeoBox, or a
            `gridsample.geo.Raster`; in place of ``crs`` and ``resolution``.
        method: "nearest", "bilinear", "cubic" (Catmull-Rom, as in GDAL), "lanczos"; "average" for
            the mean over the area of each output pixel, "mode" for the label with the largest part
            of it; or another statistic of the pixels in it, for which see
            `gridsample.geo.cell_statistics`: "sum", "min", "max", "q1", "median", "q3", "count",
            "share", or a number from 0 to 1 for a quantile.  All but the first four are for outputs
            that are coarser than the image.
        nodata: the value of missing pixels; by default that of the attributes.  "nearest" and
            "mode" copy it as any other number.
        min_weight: an output is missing unless more than this share of its weight, or of its area,
            is on pixels that are not; by default 0.5, and 0 (one pixel suffices) for sums, extremes
            and quantiles.
        antialias: whether "bilinear", "cubic" and "lanczos" average where they shrink.
        tolerance: the largest error of a position, in pixels of the image; see
            `gridsample.geo.positions`.  Positions are in single precision where their rounding is
            below a hundredth of it, and the image is not in double precision.
        chunks: the chunks of y and x of a lazy output; by default of the image's size.
        threads: as in `gridsample.grid_sample`.

    Returns:
        The DataArray or Dataset, with the dtype, name and attributes of the image, coordinates y
        and x, and ``spatial_ref``.  An image in a Dask array gives a lazy one.  Outputs without
        data are ``nodata``; without one NaN, and 0 for integers.  Sums, counts and shares of
        integers are float64, without a nodata.

    Raises:
        ModuleNotFoundError: pyproj is not installed.
        TypeError: image is no DataArray or Dataset, or an argument has a wrong type.
        ValueError: the image's projection or pixels are unknown, or an option is not accepted.

    Example:
        >>> import numpy as np, xarray, gridsample.xarray
        >>> places = {"lat": np.arange(59.5, 50, -1), "lon": np.arange(0.5, 20)}
        >>> heat = xarray.DataArray(np.ones((10, 20)), places, attrs={"crs": "EPSG:4326"})
        >>> out = gridsample.xarray.reproject(heat, "EPSG:3857", resolution=100_000)
        >>> out.sizes, float(out.mean())
        (Frozen({'lat': 20, 'lon': 23}), 1.0)
    """
    import xarray

    if not isinstance(image, (xarray.DataArray, xarray.Dataset)):
        raise TypeError(f"image must be an xarray.DataArray or Dataset, got {type(image).__name__}")
    resampling = method_of(method, antialias, min_weight=min_weight, threads=threads)
    source = raster_of(image, "image")
    target = target_of(source, crs, resolution, like)
    plan = resampling.plan(source, target, tolerance)
    if isinstance(image, xarray.DataArray):
        return reprojected(image, plan, target, resampling, nodata, chunks)
    return reprojected_dataset(image, plan, target, resampling, nodata, lambda name: chunks)


# Rasters of DataArrays ----------------------------------------------------------------------------


def dimensions(image: Any) -> tuple[Hashable, Hashable]:
    """Return the names of the dimensions of rows and columns."""
    found = [[name for name in names if name in image.dims] for names in (ROWS, COLUMNS)]
    if not all(found):
        raise ValueError(
            f"image must have dimensions y and x (or lat and lon, latitude and longitude), got "
            f"{tuple(image.dims)}; rename them"
        )
    return found[0][0], found[1][0]


def attributes_of(image: Any) -> list[Mapping[Any, Any]]:
    """Return what is stated about a DataArray, or about a Dataset and its variables."""
    variables = [image, *getattr(image, "data_vars", {}).values()]
    return [record for item in variables for record in (item.encoding, item.attrs)]


def mapping_name(image: Any) -> Hashable:
    """Return the name of the variable that describes the projection."""
    for record in attributes_of(image):
        if "grid_mapping" in record:
            return str(record["grid_mapping"])
    return "spatial_ref"


def grid_mapping(image: Any) -> dict[str, Any]:
    """Return the attributes of the variable that describes the projection."""
    name = mapping_name(image)
    known = image.coords if name in image.coords else getattr(image, "data_vars", {})
    return dict(known[name].attrs) if name in known else {}


def projection_of(image: Any, name: str) -> Any:
    """Find the projection of a DataArray or a Dataset."""
    pyproj = require_pyproj()
    attributes = grid_mapping(image)
    for key in ("crs_wkt", "spatial_ref"):
        if key in attributes:
            return attributes[key]
    if "grid_mapping_name" in attributes:
        return pyproj.CRS.from_cf(attributes).to_wkt()
    for stated in attributes_of(image):
        for key in PROJECTIONS:
            if key in stated:
                forms = GDAL_FORMS if key == "_CRS" else ()
                return next((stated[key][k] for k in forms if k in stated[key]), stated[key])
    raise ValueError(
        f"the projection of {name} is unknown: give it one by rioxarray's rio.write_crs, or as the "
        'attribute "crs"'
    )


def raster_of(image: Any, name: str) -> Raster:
    """Return the raster of a DataArray or a Dataset."""
    rows, columns = dimensions(image)
    crs, shape = projection_of(image, name), (image.sizes[rows], image.sizes[columns])
    if rows in image.coords and columns in image.coords:
        (y, dy), (x, dx) = (line_of(image[dim], name) for dim in (rows, columns))
        if dx is not None and dy is not None:
            transform = (dx, 0.0, x - dx / 2, 0.0, dy, y - dy / 2)
            return Raster.of((crs, transform, shape), name)
    text = grid_mapping(image).get("GeoTransform")
    if text is not None:
        c, a, b, f, d, e = map(float, str(text).split())
    elif stated := [record for record in attributes_of(image) if TRANSFORM in record]:
        a, b, c, d, e, f = stated[0][TRANSFORM]
        if stated[0].get(REGISTRATION) == "node":  # from the centre of the first pixel
            c, f = c - (a + b) / 2, f - (d + e) / 2
    else:
        raise ValueError(
            f"the places of the pixels of {name} are unknown: it has neither coordinates "
            f"{rows!r} and {columns!r} of two or more numbers nor a GeoTransform"
        )
    return Raster.of((crs, (a, b, c, d, e, f), shape), name)


def line_of(coordinate: Any, name: str) -> tuple[float, float | None]:
    """Return the first of equidistant coordinates, and their distance; None for a single one."""
    line = np.asarray(coordinate.values, np.float64)
    if len(line) < 2:
        return (float(line[0]) if len(line) else math.nan), None
    step = (line[-1] - line[0]) / (len(line) - 1)
    uneven = np.abs(line - (line[0] + step * np.arange(len(line)))).max()
    if not uneven <= UNEVEN * abs(step):
        raise ValueError(
            f"the coordinates {coordinate.name!r} of {name} must be equidistant; "
            "gridsample.xarray.resample takes others"
        )
    return float(line[0]), float(step)


def target_of(source: Raster, crs: Any, resolution: Any, like: Any) -> Raster:
    """Return the raster of the output."""
    if like is not None:
        if crs is not None or resolution is not None:
            raise ValueError("give either like, or crs and resolution")
        is_dataset = hasattr(like, "coords") and hasattr(like, "sizes")
        return raster_of(like, "like") if is_dataset else Raster.of(like, "like")
    if crs is None:
        raise ValueError("give the projection of the output as crs, or its pixels as like")
    return covering(source, crs, resolution)


def output_coordinates(target: Raster, rows: Hashable, columns: Hashable) -> dict[Hashable, Any]:
    """Return the coordinates of the output, and the variable that describes its projection."""
    import xarray

    a, b, c, d, e, f = target.transform
    known = crs_of(target.crs)
    attributes = known.to_cf() | {"spatial_ref": target.crs, "crs_wkt": target.crs}
    attributes["GeoTransform"] = " ".join(map(repr, (c, a, b, f, d, e)))
    coordinates: dict[Hashable, Any] = {"spatial_ref": xarray.Variable((), 0, attributes)}
    if b == d == 0:
        standard = {record["axis"]: record for record in known.cs_to_cf() if "axis" in record}
        y, x = (
            start + step * (np.arange(n) + 0.5)
            for start, step, n in ((f, e, target.shape[0]), (c, a, target.shape[1]))
        )
        coordinates[rows] = xarray.Variable((rows,), y, standard.get("Y", {}))
        coordinates[columns] = xarray.Variable((columns,), x, standard.get("X", {}))
    return coordinates


# Values -------------------------------------------------------------------------------------------


def nodata_of(image: xarray.DataArray) -> Any:
    """Return the nodata value that the attributes of a DataArray state, or None."""
    # What the encoding states has become NaN in numbers that xarray has decoded.
    records = [image.attrs] if image.dtype.kind in "fc" else [image.attrs, image.encoding]
    stated = [record[name] for record in records for name in NODATA if name in record]
    return image.dtype.type(stated[0]).item() if stated else None


def reprojected_dataset(
    image: xarray.Dataset,
    plan: Positions,
    target: Raster,
    resampling: Resampling | Summary,
    nodata: Any,
    chunks: Callable[[Hashable], Any],
) -> xarray.Dataset:
    """Reproject the rasters of a Dataset by a plan, in the chunks that a function gives by name."""
    import xarray

    mapping, rasters = mapping_name(image), rasters_of(image)
    kept: dict[Hashable, Any] = {
        name: reprojected(variable, plan, target, resampling, nodata, chunks(name))
        if name in rasters
        else variable.drop_vars([mapping] if mapping in variable.coords else [])
        for name, variable in image.data_vars.items()
        if name != mapping
    }
    return xarray.Dataset(kept, attrs=without_place(image.attrs))


def rasters_of(image: xarray.Dataset) -> dict[Hashable, xarray.DataArray]:
    """Return the variables of a Dataset that have rows and columns."""
    both = {*dimensions(image)}
    return {name: item for name, item in image.data_vars.items() if both <= {*item.dims}}


def without_place(attributes: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return attributes without those that say where the pixels of an image are."""
    return {
        name: value
        for name, value in attributes.items()
        if name not in PROJECTIONS and not str(name).startswith(("proj:", "spatial:"))
    }


def reprojected(
    image: xarray.DataArray,
    plan: Positions,
    target: Raster,
    resampling: Resampling | Summary,
    nodata: Any,
    chunks: Any,
) -> xarray.DataArray:
    """Reproject a DataArray by a plan, to the pixels of the target."""
    import xarray

    rows, columns = dimensions(image)
    nodata = nodata_of(image) if nodata is None else nodata
    leading = [dim for dim in image.dims if dim not in (rows, columns)]
    data = image.transpose(*leading, rows, columns).data
    planes = data.reshape(1, -1, *plan.source.shape)
    values = warped(planes, plan, resampling._replace(nodata=nodata), chunks)
    dropped = {"spatial_ref", mapping_name(image)}
    kept = {
        name: coordinate.variable
        for name, coordinate in image.coords.items()
        if not {rows, columns} & {*coordinate.dims} and name not in dropped
    }
    others = () if resampling.dtype(data.dtype) == data.dtype else NODATA
    omitted = {"grid_mapping", *others}
    attributes = {k: v for k, v in without_place(image.attrs).items() if k not in omitted}
    result = xarray.DataArray(
        values.reshape(*data.shape[:-2], *values.shape[2:]),
        kept | output_coordinates(target, rows, columns),
        (*leading, rows, columns),
        name=image.name,
        attrs=attributes,
    )
    result.encoding["grid_mapping"] = "spatial_ref"
    return result.transpose(*image.dims)
