"""OME-Zarr's coordinate transformations (RFC-5), as matrices and displacement fields.

A transformation maps points of its input to points of its output.  Numbers, rows and columns are in
the order of the axes of a coordinate system, which is that of the array's axes: z, y, x.

| type | read as | written |
|---|---|---|
| identity, scale, translation, affine, rotation, mapAxis | a matrix | if the matrix is one |
| sequence | its transformations, the first applied first | for several |
| displacements | `gridsample.world.Displacement` | with the field as an array |
| bijection | its forward transformation | |
| inverseOf | the inverse matrix | |
| byDimension | a matrix, if all parts are matrices | |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.io.image import FileError, as_file_error, require
from gridsample.world import Displacement

__all__ = ["read_transformations", "write_transformations"]

Affine = NDArray[np.float64]
Json = Mapping[str, Any]

MATRICES = ("identity", "scale", "translation", "affine", "rotation", "mapAxis")
READ = (*MATRICES, "sequence", "displacements", "bijection", "inverseOf", "byDimension")


# Reading ------------------------------------------------------------------------------------------


def read_transformations(path: Path | str, name: str | None = None) -> list[Any]:
    """Read the coordinate transformations of a file.

    Args:
        path: a JSON file with a transformation, a list of them, or metadata that have the entry
            "coordinateTransformations"; or the folder of a Zarr group whose attributes do, such as
            a scene.  Paths of arrays are relative to the folder.
        name: which of several transformations of a group; None if there is only one.

    Returns:
        Matrices (D + 1, D + 1) and `gridsample.world.Displacement`s, in the order in which they are
        applied, for `gridsample.resample` with axes="ijk".

    Raises:
        FileError: the content is not understood; the message says which part.
        MissingExtraError: `zarr` is not installed.
        OSError: the file does not exist.

    Example:
        >>> import json, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "shift.json")
        >>> _ = path.write_text(json.dumps({"type": "translation", "translation": [0.5, 2.0]}))
        >>> read_transformations(path)
        [array([[1. , 0. , 0.5],
               [0. , 1. , 2. ],
               [0. , 0. , 1. ]])]
    """
    path = Path(path)
    path.stat()  # a file that does not exist is an OSError
    with as_file_error(f"cannot read {path} as coordinate transformations"):
        if path.is_dir():
            group: Any = require("zarr", "zarr").open_group(str(path), mode="r")
            document = group.attrs.asdict()
        else:
            group = path.parent
            document = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document, Mapping):
            document = document.get("ome", document)
            document = document.get("scene", document)
            document = document.get("coordinateTransformations", document)
        if isinstance(document, list) and path.is_dir():
            document = _choose(document, name)
        return steps_of(document, group)


def _choose(document: list[Any], name: str | None) -> Any:
    """Choose one of a group's transformations, each of which connects two coordinate systems."""
    named = {entry.get("name", ""): entry for entry in document}
    if name is None and len(document) == 1:
        return document[0]
    if name in named:
        return named[name]
    raise FileError(
        f"there are {len(document)} transformations; choose one of "
        + ", ".join(repr(entry) for entry in named)
    )


def steps_of(document: Any, group: Any = None, rank: int | None = None) -> list[Any]:
    """Convert a transformation, or a list of them, to matrices and displacement fields.

    Args:
        document: the transformation as in JSON.
        group: the Zarr group, or the folder, that paths are relative to.
        rank: the number of axes, for identities; None if the transformations determine it.
    """
    if isinstance(document, list):
        return [step for entry in document for step in steps_of(entry, group, rank)]
    if not isinstance(document, Mapping) or document.get("type") not in READ:
        raise FileError(
            f"a coordinate transformation has one of the types {', '.join(READ)}; got "
            f"{document.get('type', document) if isinstance(document, Mapping) else document!r}"
        )
    match document["type"]:
        case "identity":
            return [] if rank is None else [np.eye(rank + 1)]
        case "sequence":
            return steps_of(list(document["transformations"]), group, rank)
        case "bijection":
            return steps_of(document["forward"], group, rank)
        case "displacements":
            return [_field(document, group)]
        case "inverseOf":
            return [np.linalg.inv(_product(document["transformation"], group, rank))]
        case "byDimension":
            return [_by_dimension(document, group)]
    return [_matrix(document, group)]


def affine_of(document: Any, rank: int, group: Any = None) -> Affine:
    """Return the product of transformations that are matrices, (n + 1, n + 1) for n axes."""
    affine = np.eye(rank + 1)
    for step in steps_of(document, group, rank):
        if isinstance(step, Displacement):
            raise FileError(
                "the transformation of an image's level must not be a displacement field"
            )
        if len(step) != rank + 1:
            raise FileError(f"a transformation has {len(step) - 1} axes, but the image {rank}")
        affine = step @ affine
    return affine


def is_matrix(document: Json) -> bool:
    """Whether a transformation is a matrix, or several."""
    type_name = document.get("type")
    if type_name in ("sequence", "byDimension"):
        parts = [entry.get("transformation", entry) for entry in document["transformations"]]
        return all(map(is_matrix, parts))
    return type_name in MATRICES


def _product(document: Any, group: Any, rank: int | None) -> Affine:
    steps = steps_of(document, group, rank)
    if not steps or any(isinstance(step, Displacement) for step in steps):
        raise FileError("the inverse of a transformation is known only if that is a matrix")
    product: Affine = steps[0]
    for step in steps[1:]:
        product = step @ product
    return product


def _matrix(document: Json, group: Any) -> Affine:
    """Read a transformation that is a matrix."""
    type_name = document["type"]
    numbers = document.get(type_name)
    if numbers is None and "path" in document:
        numbers = _array(group, document["path"])[...]
    if numbers is None:
        raise FileError(f"a transformation of type {type_name} needs the entry {type_name!r}")
    values = np.asarray(numbers, np.float64)
    is_flat = type_name in ("scale", "translation", "mapAxis")
    if values.ndim != (1 if is_flat else 2) or not np.isfinite(values).all():
        raise FileError(
            f"{type_name} must be {'a list' if is_flat else 'rows'} of finite numbers, got "
            f"{numbers!r}"
        )
    n = len(values)
    matrix = np.eye(n + 1)
    if type_name == "scale":
        matrix[:n, :n] = np.diag(values)
    elif type_name == "translation":
        matrix[:n, n] = values
    elif type_name == "mapAxis":
        if sorted(values) != list(range(n)):
            raise FileError(f"mapAxis must be a permutation of the {n} axes, got {numbers!r}")
        matrix[:n, :n] = np.eye(n)[values.astype(int)]
    elif values.shape != (n, n if type_name == "rotation" else n + 1):
        raise FileError(
            f"{type_name} must have as many output axes as input axes, got the shape {values.shape}"
        )
    else:
        matrix[:n, : values.shape[1]] = values
    return matrix


def _by_dimension(document: Json, group: Any) -> Affine:
    """Put matrices of some axes together to one of all axes."""
    parts = [
        (entry["inputAxes"], entry["outputAxes"], entry["transformation"])
        for entry in document["transformations"]
    ]
    rank = sum(len(outputs) for _, outputs, _ in parts)
    matrix = np.zeros((rank + 1, rank + 1))
    matrix[rank, rank] = 1
    for inputs, outputs, part in parts:
        product = _product(part, group, len(inputs))
        matrix[np.ix_(outputs, [*inputs, rank])] = product[:-1]
    return matrix


def _array(group: Any, path: str) -> Any:
    """Open an array, or the finest level of an image, at a path in a group or folder."""
    if group is None:
        raise FileError(f"the path {path} is relative to a group, but there is none")
    if isinstance(group, Path):
        return require("zarr", "zarr").open(str(group / path), mode="r")
    return group[path.strip("/")]


def _field(document: Json, group: Any) -> Displacement:
    """Read a displacement field, and where its voxels are."""
    interpolation = document.get("interpolation", "linear")
    if interpolation != "linear":
        raise FileError(f"displacements are interpolated linearly, not by {interpolation!r}")
    opened = _array(group, document["path"])
    ome = opened.attrs.asdict()
    ome = ome.get("ome", ome)
    array = opened
    if ome.get("multiscales"):
        ome = ome["multiscales"][0]
        (dataset, *_) = ome["datasets"]
        array = opened[dataset["path"]]
        ome = {**ome, "coordinateTransformations": dataset["coordinateTransformations"]}
    rank = array.ndim
    systems = ome.get("coordinateSystems") or [{"axes": ome.get("axes", [])}]
    types = [axis.get("type") for axis in systems[0]["axes"]]
    component = types.index("displacement") if "displacement" in types else rank - 1
    affine = affine_of(ome.get("coordinateTransformations", []), rank, opened)
    kept_axes = [k for k in range(rank + 1) if k != component]
    vectors = np.moveaxis(array[...], component, -1)
    if vectors.shape[-1] != rank - 1:
        raise FileError(
            f"the field {document['path']} of shape {array.shape} needs {rank - 1} components, as "
            f"many as spatial axes, along its axis {component}"
        )
    return Displacement(vectors.astype(np.float64), affine[np.ix_(kept_axes, kept_axes)])


# Writing ------------------------------------------------------------------------------------------


def as_json(affine: Affine) -> list[dict[str, Any]]:
    """Write a matrix as transformations: a scale and a translation if these suffice, or an affine.

    >>> import numpy as np
    >>> as_json(np.array([[2.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    [{'type': 'scale', 'scale': [2.0, 1.0]}, {'type': 'translation', 'translation': [0.5, 0.0]}]
    """
    square, shift = affine[:-1, :-1], affine[:-1, -1]
    if not np.array_equal(square, np.diag(np.diag(square))):
        return [{"type": "affine", "affine": affine[:-1].tolist()}]
    written: list[dict[str, Any]] = [{"type": "scale", "scale": np.diag(square).tolist()}]
    if shift.any():
        written.append({"type": "translation", "translation": shift.tolist()})
    return written


def as_sequence(written: Sequence[Json]) -> dict[str, Any]:
    """Combine several transformations into a sequence, unless there is only one."""
    if len(written) == 1:
        return dict(written[0])
    return {"type": "sequence", "transformations": list(written)}


def write_transformations(
    path: Path | str,
    steps: Sequence[Any],
    axes: Sequence[Json],
    systems: tuple[str, str] = ("output", "input"),
) -> None:
    """Write transformations as a Zarr group of version 3, which `read_transformations` reads.

    Args:
        path: the folder to create.
        steps: matrices (D + 1, D + 1) and `gridsample.world.Displacement`s, the first of which is
            applied first, in the order of ``axes``.
        axes: a record for each axis, as in `gridsample.io.omezarr.Multiscale`.
        systems: the names of the coordinate systems that the first step starts from, and that the
            last one arrives at.

    Returns:
        None: the group is written.

    Raises:
        FileError: the folder exists.
        MissingExtraError: `zarr` is not installed.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> folder = tempfile.mkdtemp() + "/shift.zarr"
        >>> shift = np.array([[1.0, 0.0, 3.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        >>> write_transformations(folder, [shift], [{"name": "y"}, {"name": "x"}])
        >>> read_transformations(folder)[1][:, 2]
        array([3., 0., 1.])
    """
    zarr = require("zarr", "zarr")
    if Path(path).exists():
        raise FileError(f"{path} exists")
    records = [{"type": "space", **axis} for axis in axes]
    with as_file_error(f"cannot write {path}"):
        group = zarr.open_group(str(path), mode="w", zarr_format=3)
        written: list[dict[str, Any]] = []
        for k, step in enumerate(steps):
            if isinstance(step, Displacement):
                _write_field(group, f"displacements/{k}", step, records)
                written.append({"type": "displacements", "path": f"displacements/{k}"})
            else:
                written += as_json(np.asarray(step, np.float64))
        combined = as_sequence(written)
        group.attrs["ome"] = {
            "version": "0.6",
            "scene": {
                "coordinateSystems": [{"name": name, "axes": records} for name in systems],
                "coordinateTransformations": [
                    {**combined, "input": {"name": systems[0]}, "output": {"name": systems[1]}}
                ],
            },
        }


def _write_field(group: Any, name: str, step: Displacement, records: list[dict[str, Any]]) -> None:
    """Write a displacement field as an array that says where its voxels are."""
    vectors, affine = np.asarray(step.vectors), np.asarray(step.affine, np.float64)
    rank = vectors.shape[-1]
    full = np.eye(rank + 2)
    kept_axes = [*range(rank), rank + 1]
    full[np.ix_(kept_axes, kept_axes)] = affine
    array = group.create_array(name, data=vectors)
    component = {"name": "d", "type": "displacement", "discrete": True}
    transformation = as_sequence(as_json(full))
    ends = {"input": {"path": name}, "output": {"name": "world"}}
    array.attrs["ome"] = {
        "coordinateSystems": [{"name": "world", "axes": [*records, component]}],
        "coordinateTransformations": [{**transformation, **ends}],
    }
