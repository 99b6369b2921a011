"""OME-Zarr: images in Zarr stores, their levels, axes and positions in the world.

| version | Zarr | a level's position |
|---|---|---|
| 0.4 | 2 | a scale and a translation |
| 0.5 | 3 | a scale and a translation |
| 0.6 (RFC-5) | 3 | also affine maps, rotations, permutations of axes, and sequences of them |

All of them are read.  Version 0.4 or 0.5 is written, according to the store's Zarr version, unless
only RFC-5 can say where the voxels are.  A Zarr array without such metadata is an image with one
level, whose voxels have the size 1.

A level's affine is (n + 1, n + 1) for an array with n axes, in the order of the array's axes.  It
maps the indices of a voxel to the position of its centre.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample._version import __version__
from gridsample.definitions.lattice import Lattice
from gridsample.io.image import FileError, as_file_error, require
from gridsample.io.rfc5 import affine_of, as_json, as_sequence, is_matrix
from gridsample.io.stores import store_of

__all__ = ["Multiscale", "read_multiscale", "write_metadata"]

Affine = NDArray[np.float64]
AxisRecord = Mapping[str, Any]

# The names of axes that have none, by the number of axes, and the types of axes by their names.
DEFAULT_NAMES = {1: "x", 2: "yx", 3: "zyx", 4: "czyx", 5: "tczyx"}
AXIS_TYPES = {"t": "time", "c": "channel"}

# The files by which a folder is recognized as a Zarr store.
MARKERS = ("zarr.json", ".zgroup", ".zarray")

# The metadata that `write_metadata` writes anew; everything else is copied.
WRITTEN = ("multiscales", "version")

# How chunks are compressed: the class of Zarr version 3, and the name of its level.
CODECS = {
    "zstd": ("ZstdCodec", "level"),
    "gzip": ("GzipCodec", "level"),
    "blosc": ("BloscCodec", "clevel"),
    "none": ("", ""),
}


@dataclass(frozen=True)
class Multiscale:
    """An image at several resolutions.

    Attributes:
        axes: a record for each axis of the arrays: its "name", "type" and perhaps "unit".
        arrays: the Zarr arrays of the levels, the finest first.
        affines: for each level, the map from indices to the world.
        extras: the other metadata of OME-Zarr, such as "omero" and "image-label".
        attributes: the other attributes of the group.
        name: the name of the image.
        is_ome: whether the store has OME-Zarr's metadata; otherwise it is a plain array.
        source: the folder, the address or the store.
        is_consolidated: whether the metadata of all arrays are also in one file.
    """

    axes: tuple[AxisRecord, ...]
    arrays: tuple[Any, ...]
    affines: tuple[Affine, ...]
    extras: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    is_ome: bool = True
    source: Any = ""
    is_consolidated: bool = False

    @property
    def spatial(self) -> tuple[int, ...]:
        """The axes of the array that are spatial."""
        return tuple(k for k, axis in enumerate(self.axes) if axis.get("type") == "space")

    def spatial_affine(self, level: int = 0) -> Affine:
        """The map from spatial indices to the world, (D + 1, D + 1), in the order of the axes.

        Raises:
            FileError: it mixes spatial axes with others.
        """
        return spatial_part(self.affines[level], self.spatial)

    def lattice(self, level: int = 0) -> Lattice:
        """The pixels along the spatial axes, and where they are in the world."""
        records = [self.axes[k] for k in self.spatial]
        return Lattice(
            tuple(self.arrays[level].shape[k] for k in self.spatial),
            self.spatial_affine(level),
            tuple(str(axis["name"]) for axis in records),
            tuple(str(axis.get("unit", "")) for axis in records),
        )


def spatial_part(affine: Affine, spatial: Sequence[int]) -> Affine:
    """Return the rows and columns of an affine map that belong to spatial axes."""
    kept_axes = [*spatial, len(affine) - 1]
    others = [k for k in range(len(affine) - 1) if k not in spatial]
    if affine[np.ix_(list(spatial), others)].any() or affine[np.ix_(others, list(spatial))].any():
        raise FileError("an OME-Zarr transformation mixes spatial axes with time or channels")
    part: Affine = affine[np.ix_(kept_axes, kept_axes)]
    return part


def is_store(path: Path) -> bool:
    """Whether a path is a folder with a Zarr array or group.

    Raises:
        FileError: the path ends in .zarr, and there is no such folder.
    """
    if path.suffix == ".zarr" and not path.is_dir():
        raise FileError(f"there is no folder {path}")
    return path.is_dir() and any((path / marker).exists() for marker in MARKERS)


# Reading ------------------------------------------------------------------------------------------


def read_multiscale(source: Any, axes: str | None = None, store: Any = None) -> Multiscale:
    """Open an image in a Zarr store; no pixels are read.

    Args:
        source: the folder of an OME-Zarr image, or of a Zarr array, of Zarr version 2 or 3; an
            address of one, such as "https://...", "s3://..." or "memory://...", which fsspec and
            its library for such addresses open; or a Zarr store.
        axes: the names of the axes, such as "cyx", in place of those in the metadata: t is time,
            c a channel, and every other axis is spatial.
        store: a Zarr store that reads the source's content, such as one that counts its reads.

    Returns:
        The image; its Zarr arrays are open for reading.

    Raises:
        FileError: the source is not a Zarr store, or its metadata are not understood.
        MissingExtraError: `zarr` is not installed.

    Example:
        >>> import tempfile, zarr
        >>> folder = tempfile.mkdtemp()
        >>> array = zarr.create_array(folder, shape=(4, 5), dtype="u1")
        >>> image = read_multiscale(folder)
        >>> [axis["name"] for axis in image.axes], image.spatial
        (['y', 'x'], (0, 1))
    """
    zarr = require("zarr", "zarr")
    store = store or store_of(source)
    with as_file_error(f"cannot read {source} as a Zarr store"):
        opened = zarr.open(store=store, mode="r")
        if isinstance(opened, zarr.Array):
            return _checked(replace(_describe_array(opened, axes), source=source))
        attributes = opened.attrs.asdict()
        ome = attributes.get("ome", attributes)
        if not ome.get("multiscales"):
            raise FileError(
                f"{source} is a Zarr group without multiscales; name one of its images or arrays: "
                + (", ".join(sorted(opened.keys())) or "it has none")
            )
        return _checked(replace(_multiscale(opened, ome, axes), source=source))


def _checked(image: Multiscale) -> Multiscale:
    """Return an image, or raise an error if an array is empty."""
    for array in image.arrays:
        if 0 in (*array.shape, *array.chunks):
            raise FileError(
                f"{image.source} has an array of shape {array.shape} in chunks of {array.chunks}; "
                "accepted: positive sizes"
            )
    return image


def _describe_array(array: Any, names: str | None) -> Multiscale:
    """Describe an array without OME-Zarr's metadata."""
    stored = getattr(array.metadata, "dimension_names", None) or array.attrs.get(
        "_ARRAY_DIMENSIONS"
    )
    named = tuple(names or stored or DEFAULT_NAMES.get(array.ndim, ""))
    if len(named) != array.ndim or None in named:
        raise FileError(
            f"the array has {array.ndim} axes; name them by --axes, such as tczyx (got "
            f"{names or stored or 'nothing'})"
        )
    return Multiscale(axes_of(named), (array,), (np.eye(array.ndim + 1),), is_ome=False)


def axes_of(names: Sequence[str]) -> tuple[AxisRecord, ...]:
    """Describe axes by their names.

    >>> [axis["type"] for axis in axes_of("cyx")]
    ['channel', 'space', 'space']
    """
    return tuple({"name": name, "type": AXIS_TYPES.get(name.lower(), "space")} for name in names)


def _multiscale(group: Any, ome: Mapping[str, Any], names: str | None) -> Multiscale:
    """Describe an image by the first entry of its multiscales."""
    first = ome["multiscales"][0]
    systems = first.get("coordinateSystems")
    stored = systems[0]["axes"] if systems else first.get("axes")
    arrays = tuple(group[dataset["path"]] for dataset in first["datasets"])
    if names is not None:
        axes = axes_of(names)
    elif stored is None or isinstance(stored[0], str):  # before version 0.4
        axes = axes_of(stored or DEFAULT_NAMES[arrays[0].ndim])
    else:
        axes = tuple(stored)
    rank = len(axes)
    if any(array.ndim != rank for array in arrays):
        raise FileError(
            f"the image has {rank} axes ({', '.join(axis['name'] for axis in axes)}), but arrays "
            f"with {', '.join(str(array.ndim) for array in arrays)}"
        )
    # Transformations of the image follow those of each level.  In RFC-5 there may be several, to
    # different coordinate systems, of which the first one that is a matrix is taken.
    common = first.get("coordinateTransformations", [])
    if systems:
        common = next(
            ([transformation] for transformation in common if is_matrix(transformation)), []
        )
    affines = tuple(
        affine_of([*dataset.get("coordinateTransformations", []), *common], rank, group)
        for dataset in first["datasets"]
    )
    extras = {name: value for name, value in ome.items() if name not in WRITTEN}
    attributes = group.attrs.asdict()
    attributes.pop("ome", None)
    if "ome" not in group.attrs:  # in version 0.4, all other attributes are siblings
        names_of_ome = {*WRITTEN, "omero", "image-label"}
        attributes = {name: value for name, value in extras.items() if name not in names_of_ome}
        extras = {name: value for name, value in extras.items() if name in names_of_ome}
    name, is_consolidated = first.get("name", ""), group.metadata.consolidated_metadata is not None
    return Multiscale(
        axes, arrays, affines, extras, attributes, name, is_consolidated=is_consolidated
    )


# Writing ------------------------------------------------------------------------------------------


def write_metadata(
    group: Any,
    image: Multiscale,
    affine: Affine,
    levels: Sequence[Affine] = (),
    name: str = "",
    method: str | None = None,
) -> None:
    """Write the metadata of an image whose levels are the arrays "0", "1", ... of a Zarr group.

    Args:
        group: the group, of Zarr version 2 or 3.
        image: an image whose axes and other metadata are copied.
        affine: the map from indices of the first level to the world, as in `Multiscale`.
        levels: for each level, scales and shifts from its indices to those of the first level; none
            if there is only one level.
        name: the name of an image that has none.
        method: how a level is computed from the one before; None if there is only one.

    Returns:
        None: the metadata are written to the group's attributes.

    Raises:
        FileError: the group is of Zarr version 2, and voxels are not aligned with the world's axes.

    Example:
        >>> import tempfile, zarr
        >>> import numpy as np
        >>> folder = tempfile.mkdtemp()
        >>> group = zarr.open_group(folder, mode="w")
        >>> level = group.create_array("0", shape=(4, 5), dtype="u1")
        >>> image = Multiscale(axes_of("yx"), (level,), (np.eye(3),))
        >>> write_metadata(group, image, np.diag([0.5, 0.25, 1.0]))  # the voxels' sizes
        >>> read_multiscale(folder).spatial_affine()
        array([[0.5 , 0.  , 0.  ],
               [0.  , 0.25, 0.  ],
               [0.  , 0.  , 1.  ]])
    """
    scales = list(levels) or [np.eye(len(affine))]
    axes, zarr_format = [dict(axis) for axis in image.axes], group.metadata.zarr_format
    record: dict[str, Any] = {"name": image.name or name}
    check_voxels(affine, zarr_format)
    if _is_aligned(affine):
        record["axes"] = axes
        steps = [as_json(affine @ scale) for scale in scales]
    else:
        # Levels have scales and shifts only, relative to pixels of the first one.
        pixels, world = {"name": "pixels"}, {"name": "world"}
        record["coordinateSystems"] = [{**pixels, "axes": axes}, {**world, "axes": axes}]
        (transformation,) = as_json(affine)
        record["coordinateTransformations"] = [{**transformation, "input": pixels, "output": world}]
        steps = [
            [{**as_sequence(as_json(scale)), "input": {"path": str(level)}, "output": pixels}]
            for level, scale in enumerate(scales)
        ]
    record["datasets"] = [
        {"path": str(level), "coordinateTransformations": step} for level, step in enumerate(steps)
    ]
    if method:
        record["type"] = method
    record["metadata"] = {"method": "gridsample", "version": __version__}
    group.attrs.update(image.attributes)
    if zarr_format == 2:
        group.attrs.update({**image.extras, "multiscales": [{"version": "0.4", **record}]})
    else:
        version = "0.5" if "axes" in record else "0.6"
        group.attrs.update({"ome": {**image.extras, "version": version, "multiscales": [record]}})


def check_voxels(affine: Affine, zarr_format: int | None) -> None:
    """Raise an error if no version of OME-Zarr for a Zarr version can say where voxels are."""
    if zarr_format == 2 and not _is_aligned(affine):
        raise FileError(
            "OME-Zarr 0.4 cannot store voxels that are rotated or sheared; write Zarr version 3"
        )


def check_shards(shards: Sequence[int] | None, zarr_format: int) -> None:
    """Raise an error if a Zarr version has no shards."""
    if zarr_format == 2 and shards is not None:
        raise FileError("shards need Zarr version 3: give --zarr-format 3, or no --shards")


def _is_aligned(affine: Affine) -> bool:
    """Whether voxels are aligned with the world's axes, and none is mirrored."""
    square = affine[:-1, :-1]
    return bool(np.array_equal(square, np.diag(np.diag(square))) and (np.diag(square) > 0).all())


def resampled_affine(affine: Affine, voxels: Affine, spatial: Sequence[int]) -> Affine:
    """Multiply an affine map of all axes by a map from new to old voxels of the spatial axes.

    Args:
        affine: (n + 1, n + 1).
        voxels: (D + 1, D + 1), in the order of the array's axes.
        spatial: which axes are spatial.
    """
    full = np.eye(len(affine))
    kept_axes = [*spatial, len(affine) - 1]
    full[np.ix_(kept_axes, kept_axes)] = voxels
    product: Affine = affine @ full
    return product


def create_array(
    group: Any,
    name: str,
    shape: Sequence[int],
    like: Any,
    chunks: Sequence[int],
    shards: Sequence[int] | None,
    names: Sequence[str],
    codec: str | None = None,
) -> Any:
    """Create an array in a Zarr group.

    Args:
        group: the group.
        name: the name of the array.
        shape: its shape.
        like: an array whose dtype, fill value, attributes and codecs it has.
        chunks: the shape of a chunk.
        shards: the shape of a shard, in which several chunks are stored together; None for none.
        names: the names of the axes.
        codec: how chunks are compressed, see `codecs_of`; None for as those of ``like``, or by
            Zarr's default if that is of another version of Zarr.
    """
    zarr_format = group.metadata.zarr_format
    check_shards(shards, zarr_format)
    keys = {"name": "v2", "separator": "/"} if zarr_format == 2 else None
    return group.create_array(
        name,
        shape=tuple(shape),
        dtype=np.dtype(like.dtype),
        chunks=tuple(chunks),
        shards=None if shards is None else tuple(shards),
        chunk_key_encoding=keys,
        fill_value=like.fill_value,
        attributes=like.attrs.asdict(),
        dimension_names=list(names) if zarr_format == 3 else None,
        config={"write_empty_chunks": True},
        **codecs_like(like, zarr_format, codec),
    )


def codecs_like(like: Any, zarr_format: int, codec: str | None) -> dict[str, Any]:
    """Return Zarr's arguments that say how chunks are stored.

    Args:
        like: an array whose codecs are used if it is of the same version of Zarr; otherwise, they
            are Zarr's default.
        zarr_format: the version.
        codec: a compression in place of those, see `codecs_of`; or None.
    """
    if codec is not None:
        return {"compressors": codecs_of(codec, zarr_format)}
    if like.metadata.zarr_format != zarr_format:
        return {}
    codecs = {"compressors": like.compressors or None, "filters": like.filters or None}
    return codecs | ({"serializer": like.serializer} if zarr_format == 3 else {})


def codecs_of(codec: str, zarr_format: int) -> list[Any] | None:
    """Return Zarr's compressors for a name and perhaps a level, such as "zstd:5" or "gzip".

    Raises:
        ValueError: the name is unknown, or the level is no integer.

    >>> codecs_of("none", 3) is None
    True
    """
    name, _, level = codec.partition(":")
    if name not in CODECS or (level and not level.isdigit()):
        raise ValueError(
            f"codec must be one of {', '.join(CODECS)}, perhaps with a level such as zstd:5, got "
            f"{codec!r}"
        )
    if name == "none":
        return None
    kind, key = CODECS[name]
    options = {key: int(level)} if level else {}
    if zarr_format == 2:
        old_kind = {"ZstdCodec": "Zstd", "GzipCodec": "GZip", "BloscCodec": "Blosc"}[kind]
        return [getattr(require("numcodecs", "zarr"), old_kind)(**options)]
    return [getattr(require("zarr.codecs", "zarr"), kind)(**options)]


def halved(shape: Sequence[int], factors: Sequence[int]) -> tuple[int, ...]:
    """Return the size of an image that is made smaller by whole factors, edges included.

    >>> halved((5, 6, 1), (2, 2, 1))
    (3, 3, 1)
    """
    return tuple(math.ceil(n / factor) for n, factor in zip(shape, factors, strict=True))


def blocks_affine(factors: Sequence[int]) -> Affine:
    """Return the map from the indices of blocks to the centres of the blocks, in pixels.

    >>> blocks_affine((1, 4))
    array([[1. , 0. , 0. ],
           [0. , 4. , 1.5],
           [0. , 0. , 1. ]])
    """
    matrix = np.diag([*factors, 1]).astype(np.float64)
    matrix[:-1, -1] = [(factor - 1) / 2 for factor in factors]
    return matrix
