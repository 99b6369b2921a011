"""OME-Zarr's coordinate transformations: the meaning of each type, and round trips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from gridsample.io.image import FileError
from gridsample.io.rfc5 import affine_of, read_transformations, steps_of, write_transformations
from gridsample.world import Displacement

POINT = np.array([2.0, 3.0, 5.0, 1.0])
SHEAR = [[1, 0.5, 0, 1], [0, 1, 0, 2], [0, 0.25, 1, 3]]
ROTATION = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
AXES = [{"name": name, "type": "space"} for name in "zyx"]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"type": "identity"}, [2, 3, 5]),
        ({"type": "scale", "scale": [1, 2, 3]}, [2, 6, 15]),
        ({"type": "translation", "translation": [1, 2, 3]}, [3, 5, 8]),
        ({"type": "affine", "affine": SHEAR}, [4.5, 5, 8.75]),
        ({"type": "rotation", "rotation": ROTATION}, [-3, 2, 5]),
        ({"type": "mapAxis", "mapAxis": [2, 0, 1]}, [5, 2, 3]),
        (
            {
                "type": "sequence",
                "transformations": [
                    {"type": "scale", "scale": [2, 2, 2]},
                    {"type": "translation", "translation": [1, 1, 1]},
                ],
            },
            [5, 7, 11],
        ),
        (
            {"type": "inverseOf", "transformation": {"type": "scale", "scale": [2, 3, 5]}},
            [1, 1, 1],
        ),
        (
            {
                "type": "bijection",
                "forward": {"type": "scale", "scale": [2, 2, 2]},
                "inverse": {"type": "scale", "scale": [0.5, 0.5, 0.5]},
            },
            [4, 6, 10],
        ),
        (
            {
                "type": "byDimension",
                "transformations": [
                    {
                        "inputAxes": [2, 0],
                        "outputAxes": [0, 2],
                        "transformation": {"type": "translation", "translation": [10, 20]},
                    },
                    {
                        "inputAxes": [1],
                        "outputAxes": [1],
                        "transformation": {"type": "scale", "scale": [4]},
                    },
                ],
            },
            [15, 12, 22],
        ),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_types_map_points(document: dict[str, Any], expected: list[float]) -> None:
    np.testing.assert_allclose((affine_of(document, 3) @ POINT)[:3], expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"type": "spline"}, "has one of the types identity, scale"),
        ("scale", "has one of the types identity, scale"),
        ({"type": "scale"}, "needs the entry 'scale'"),
        ({"type": "scale", "scale": [[1, 2]]}, "must be a list of finite numbers"),
        ({"type": "translation", "translation": [1, np.inf]}, "finite numbers"),
        ({"type": "affine", "affine": [[1, 2], [3, 4]]}, "as many output axes as input axes"),
        ({"type": "mapAxis", "mapAxis": [0, 0]}, "must be a permutation"),
        ({"type": "displacements", "path": "d"}, "relative to a group"),
        ({"type": "displacements", "path": "d", "interpolation": "cubic"}, "linearly"),
        ({"type": "scale", "scale": [1, 2]}, "has 2 axes, but the image 3"),
    ],
)
def test_errors_name_the_invalid_part(document: Any, message: str) -> None:
    with pytest.raises(FileError, match=message):
        affine_of(document, 3)


def test_transforms_round_trip(tmp_path: Path) -> None:
    matrix = np.eye(4)
    matrix[:3] = SHEAR
    vectors = np.random.default_rng(0).normal(size=(3, 4, 5, 3))
    place = np.diag([2.0, 3, 4, 1])
    place[:3, 3] = [1, -1, 0.5]
    field = Displacement(vectors, place)
    for name, steps in (("one", [matrix]), ("many", [matrix, field, np.linalg.inv(matrix)])):
        write_transformations(tmp_path / name, steps, AXES, ("fixed", "moving"))
        again = read_transformations(tmp_path / name)
        assert len(again) == len(steps)
        np.testing.assert_array_equal(again[0], matrix)
    np.testing.assert_array_equal(again[1].vectors, vectors)
    np.testing.assert_array_equal(again[1].affine, place)
    record = zarr.open(str(tmp_path / "many")).attrs["ome"]["scene"]
    (transformation,) = record["coordinateTransformations"]
    assert transformation["input"] == {"name": "fixed"} and transformation["output"] == {
        "name": "moving"
    }
    assert [step["type"] for step in transformation["transformations"]] == [
        "affine",
        "displacements",
        "affine",
    ]
    with pytest.raises(FileError, match="exists"):
        write_transformations(tmp_path / "one", [matrix], AXES)


def test_foreign_fields_store_components_first(tmp_path: Path) -> None:
    """As ngff-zarr writes them: the field is a multiscale image, and "d" is its first axis."""
    vectors = np.random.default_rng(0).normal(size=(2, 4, 5))
    group = zarr.open_group(str(tmp_path / "t"), mode="w")
    image = group.create_group("field")
    image.create_array("s0", data=vectors)
    axes = [{"name": "d", "type": "displacement"}, *AXES[1:]]
    step = {"type": "scale", "scale": [1, 2, 3], "input": {"path": "s0"}, "output": {"name": "w"}}
    image.attrs["ome"] = {
        "version": "0.6",
        "multiscales": [
            {
                "coordinateSystems": [{"name": "w", "axes": axes}],
                "datasets": [{"path": "s0", "coordinateTransformations": [step]}],
            }
        ],
    }
    named = [
        {"name": "bend", "type": "displacements", "path": "field"},
        {"name": "same", "type": "scale", "scale": [1, 1]},
    ]
    group.attrs["ome"] = {"coordinateTransformations": named}
    with pytest.raises(FileError, match="choose one of 'bend', 'same'"):
        read_transformations(tmp_path / "t")
    (field,) = read_transformations(tmp_path / "t", "bend")
    np.testing.assert_array_equal(field.vectors, np.moveaxis(vectors, 0, -1))
    np.testing.assert_array_equal(field.affine, np.diag([2.0, 3, 1]))


def test_parameters_in_arrays_and_json(tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path / "matrix"), data=np.array(SHEAR))
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"type": "affine", "path": "matrix"}]), encoding="utf-8")
    np.testing.assert_array_equal(read_transformations(path)[0][:3], SHEAR)
    assert steps_of({"type": "identity"}) == []
    path.write_text("{", encoding="utf-8")
    with pytest.raises(FileError, match=r"cannot read .*t.json as coordinate transformations"):
        read_transformations(path)
    with pytest.raises(OSError, match="no"):
        read_transformations(tmp_path / "no.json")
