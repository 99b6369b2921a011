"""Pyramids in Zarr stores: every level, its edges and its position, in every kind of store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import gridsample
import gridsample.zarr
from gridsample.io.image import FileError
from gridsample.io.omezarr import read_multiscale
from gridsample.zarr import Layout

Array = np.ndarray[Any, Any]


def noise(*shape: int, dtype: str = "float32") -> Array:
    rng = np.random.default_rng(5)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 200, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def stored(path: Path, array: Array, chunks: tuple[int, ...], **options: Any) -> Path:
    zarr.create_array(str(path), data=array, chunks=chunks, **options)
    return path


def means_of_blocks(array: Array, factor: int) -> Array:
    """The means of the pixels that exist in blocks of an image, in float64."""
    extended = np.pad(
        array.astype(float), [(0, -n % factor) for n in array.shape], constant_values=np.nan
    )
    for k in range(array.ndim):
        shape = extended.shape
        split = (*shape[:k], shape[k] // factor, factor, *shape[k + 1 :])
        extended = np.moveaxis(extended.reshape(split), k + 1, -1)
    return np.nanmean(extended, tuple(range(array.ndim, extended.ndim)))


@pytest.mark.parametrize("shape", [(37,), (21, 13), (9, 14, 5)])
@pytest.mark.parametrize("chunks", [3, 4])
def test_levels_are_means_of_blocks(shape: tuple[int, ...], chunks: int, tmp_path: Path) -> None:
    image = noise(*shape, dtype="float64")
    stored(tmp_path / "in", image, (chunks,) * len(shape))
    gridsample.zarr.pyramid(tmp_path / "in", tmp_path / "out", levels=4)
    for level in range(4):
        result = zarr.open(str(tmp_path / "out"))[str(level)]
        assert result.chunks == (chunks,) * len(shape)
        expected = means_of_blocks(image, 2**level)
        np.testing.assert_allclose(result[...], expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_levels_do_not_depend_on_chunks_and_threads(dtype: str, tmp_path: Path) -> None:
    image = noise(3, 17, 21, dtype=dtype)
    stored(tmp_path / "in", image, (1, 5, 8), dimension_names=["c", "y", "x"])
    results = []
    for n, (chunks, shards, form) in enumerate(
        [((17, 21), None, 3), ((4, 5), None, 2), ((2, 4), (8, 8), 3), ((2, 1, 7), None, 3)]
    ):
        out = tmp_path / f"out{n}"
        layout = Layout(chunks, shards, form)
        gridsample.zarr.pyramid(tmp_path / "in", out, levels=3, layout=layout, threads=1 + n % 2)
        group = zarr.open(str(out))
        assert group.metadata.zarr_format == form
        assert group["1"].shards == (None if shards is None else (1, *shards))
        results.append([group[str(level)][...] for level in range(3)])
    for other in results[1:]:
        for ours, first in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(ours, first)
    assert results[0][2].shape == (3, 5, 6)  # channels stay
    np.testing.assert_array_equal(results[0][0], image)
    if dtype == "uint16":  # halves are rounded to even
        half = means_of_blocks(image[0], 2)
        np.testing.assert_array_equal(results[0][1][0], np.rint(half))


def test_labels_vote(tmp_path: Path) -> None:
    labels = np.random.default_rng(1).integers(0, 4, (11, 6)).astype("uint16") * 1000
    stored(tmp_path / "in", labels, (4, 4))
    gridsample.zarr.pyramid(tmp_path / "in", tmp_path / "out", mode="label", levels=2)
    result = zarr.open(str(tmp_path / "out"))["1"][...]
    extended = np.pad(labels, [(0, 1), (0, 0)], mode="edge")
    for i in range(6):
        for j in range(3):
            names, votes = np.unique(
                extended[2 * i : 2 * i + 2, 2 * j : 2 * j + 2], return_counts=True
            )
            assert result[i, j] == names[votes.argmax()]


def test_label_images_are_recognized(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "in"), mode="w", zarr_format=2)
    group.create_array("0", data=np.array([[7, 7], [9, 8]], "uint8"), chunks=(2, 2))
    group.attrs.update(
        {
            "image-label": {"version": "0.4", "colors": []},
            "multiscales": [
                {
                    "version": "0.4",
                    "axes": [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}],
                    "datasets": [
                        {
                            "path": "0",
                            "coordinateTransformations": [{"type": "scale", "scale": [1, 1]}],
                        }
                    ],
                }
            ],
        }
    )
    gridsample.zarr.pyramid(tmp_path / "in", tmp_path / "out", levels=2)
    out = zarr.open(str(tmp_path / "out"))
    assert out["1"][...].tolist() == [[7]]
    assert out.attrs["image-label"]["version"] == "0.4"
    assert out.attrs["multiscales"][0]["type"] == "label"


@pytest.mark.parametrize("form", [2, 3])
def test_positions_are_exact(form: int, tmp_path: Path) -> None:
    """The world's position of every level's pixel is the mean of those of its block."""
    group = zarr.open_group(str(tmp_path / "in"), mode="w", zarr_format=form)
    group.create_array("s0", data=noise(2, 1, 9, 13), chunks=(1, 1, 4, 4))
    image = {
        "name": "cells",
        "axes": [
            {"name": "c", "type": "channel"},
            *({"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"),
        ],
        "datasets": [
            {
                "path": "s0",
                "coordinateTransformations": [
                    {"type": "scale", "scale": [1, 2.0, 0.25, 0.25]},
                    {"type": "translation", "translation": [0, 5, 10, 20]},
                ],
            }
        ],
        "coordinateTransformations": [{"type": "scale", "scale": [1, 2, 2, 2]}],
    }
    record = {"omero": {"channels": [{"color": "FF0000"}, {"color": "00FF00"}]}}
    if form == 2:
        group.attrs.update({**record, "multiscales": [{"version": "0.4", **image}]})
    else:
        group.attrs["ome"] = {**record, "version": "0.5", "multiscales": [image]}
    gridsample.zarr.pyramid(tmp_path / "in", tmp_path / "out")
    result = read_multiscale(tmp_path / "out")
    assert [array.shape[1:] for array in result.arrays] == [(1, 9, 13), (1, 5, 7), (1, 3, 4)]
    assert result.extras == record and result.name == "cells"
    assert [axis["name"] for axis in result.axes] == ["c", "z", "y", "x"]
    for level, affine in enumerate(result.affines):
        n = 2**level
        assert np.diag(affine).tolist() == [1, 4, 0.5 * n, 0.5 * n, 1]  # z has one pixel only
        assert affine[:-1, -1].tolist() == [0, 10, *(2 * s + 0.5 * (n - 1) / 2 for s in (10, 20))]
    stored_record = zarr.open(str(tmp_path / "out")).attrs.asdict()
    ome = stored_record if form == 2 else stored_record["ome"]
    kinds = [
        [step["type"] for step in dataset["coordinateTransformations"]]
        for dataset in ome["multiscales"][0]["datasets"]
    ]
    assert kinds == [["scale", "translation"]] * 3


def test_selected_axes_and_nan(tmp_path: Path) -> None:
    image = noise(6, 5, 4)
    image[0, 0, 0] = np.nan
    stored(tmp_path / "in", image, (2, 2, 2))
    gridsample.zarr.pyramid(
        tmp_path / "in", tmp_path / "out", levels=2, halve="yx", missing="ignore"
    )
    result = zarr.open(str(tmp_path / "out"))["1"][...]
    assert result.shape == (6, 3, 2)
    assert result[0, 0, 0] == pytest.approx(np.nanmean(image[0, :2, :2]), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "cubic"}, "mode must be 'linear' or 'label'"),
        ({"levels": 0}, "levels must be at least 1"),
        ({"halve": "q"}, "halve must name some of the spatial axes yx"),
        ({"layout": Layout((2,))}, "chunks must be a positive number for each of the 2"),
        ({"layout": Layout((4, 4), (6, 8))}, "shards must be multiples of chunks"),
        ({"layout": Layout((4, 4), (8, 8), 2)}, "shards need Zarr version 3"),
        ({"layout": Layout(zarr_format=4)}, "zarr_format must be 2 or 3"),
        ({"axes": "x"}, "the array has 2 axes"),
    ],
)
def test_errors(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    stored(tmp_path / "in", noise(5, 5), (2, 2))
    with pytest.raises(ValueError, match=message):
        gridsample.zarr.pyramid(tmp_path / "in", tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_outputs_are_not_replaced_without_overwrite(tmp_path: Path) -> None:
    stored(tmp_path / "in", noise(5, 5), (2, 2))
    (tmp_path / "out").mkdir()
    with pytest.raises(FileError, match="exists; --force replaces it"):
        gridsample.zarr.pyramid(tmp_path / "in", tmp_path / "out")
    gridsample.zarr.pyramid(tmp_path / "in", tmp_path / "out", overwrite=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in", "out"]


def test_bytes_are_counted(tmp_path: Path) -> None:
    """What is read is the source once, and each level once; what is written is on the disk."""
    stored(tmp_path / "in", noise(64, 64, dtype="float64"), (16, 16), compressors=None)
    traffic = gridsample.zarr.pyramid(tmp_path / "in", tmp_path / "out", levels=3, threads=2)
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    chunks = [file for file in files if file.name != "zarr.json"]
    assert traffic.done == len(chunks) == 16 + 4 + 1 and traffic.done_before == 0
    assert traffic.reads == 16 + 16 + 4
    assert traffic.written >= sum(file.stat().st_size for file in files)
    assert traffic.read >= 64 * 64 * 8 + sum(
        file.stat().st_size for file in chunks if "2/c" not in file.as_posix()
    )
