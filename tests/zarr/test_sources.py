"""Zarr sources other than local folders: stores of Zarr, and addresses."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore

import gridsample.zarr
from gridsample.io.image import FileError
from gridsample.io.omezarr import read_multiscale
from gridsample.io.stores import store_of

TURN = np.array([[0.9, 0.3, -2.0], [-0.3, 0.9, 7.0], [0.0, 0.0, 1.0]])


@pytest.fixture
def image() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).random((30, 41))


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server of the files in a folder."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            pass

    handler = partial(Quiet, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def expected(image: np.ndarray[Any, Any], folder: Path) -> np.ndarray[Any, Any]:
    zarr.create_array(str(folder / "local"), data=image, chunks=(8, 10))
    gridsample.zarr.warp(folder / "local", folder / "warped", TURN, mode="cubic")
    return zarr.open(str(folder / "warped"))["0"][...]


def test_stores_in_memory_are_warped_resized_and_halved(
    image: np.ndarray[Any, Any], tmp_path: Path
) -> None:
    store = MemoryStore()
    zarr.create_array(store, data=image, chunks=(8, 10))
    expected_pixels = expected(image, tmp_path)
    traffic = gridsample.zarr.warp(store, tmp_path / "out", TURN, mode="cubic")
    np.testing.assert_array_equal(zarr.open(str(tmp_path / "out"))["0"][...], expected_pixels)
    assert 0 < traffic.reads <= 4 * 5 and traffic.read > 0
    gridsample.zarr.resize(store, tmp_path / "small", [15, 20])
    assert read_multiscale(tmp_path / "small").arrays[0].shape == (15, 20)
    gridsample.zarr.pyramid(store, tmp_path / "levels", levels=2)
    assert len(read_multiscale(tmp_path / "levels").arrays) == 2
    like = gridsample.zarr.warp(tmp_path / "local", tmp_path / "like", like=store)
    assert like.done == 4 * 5


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["store", "memory", "file"])
def test_outputs_may_be_stores_and_addresses_and_are_continued(
    image: np.ndarray[Any, Any], tmp_path: Path, zarr_format: int, kind: str
) -> None:
    expected_pixels, source = expected(image, tmp_path), tmp_path / "local"
    output: Any = {
        "store": MemoryStore(),
        "memory": f"memory://{tmp_path}",
        "file": f"file://{tmp_path}/out",
    }[kind]
    options: Any = {"mode": "cubic", "layout": gridsample.zarr.Layout(zarr_format=zarr_format)}

    def stop(share: float) -> None:
        if share > 0.3:
            raise KeyError("stopped")

    with pytest.raises(KeyError, match="stopped"):
        gridsample.zarr.warp(source, output, TURN, threads=1, progress=stop, **options)
    if kind != "file":
        with pytest.raises(FileError, match="not empty"):
            gridsample.zarr.warp(source, output, TURN, padding_mode="wrap", **options)
    traffic = gridsample.zarr.warp(source, output, TURN, **options)
    assert traffic.done_before >= 7 and traffic.done + traffic.done_before == 20
    group = zarr.open_group(store_of(output), mode="r")
    np.testing.assert_array_equal(group["0"][...], expected_pixels)
    assert [*group.attrs] == ["multiscales" if zarr_format == 2 else "ome"]
    with pytest.raises(FileError, match="overwrite=True"):
        gridsample.zarr.warp(source, output, TURN, **options)
    gridsample.zarr.pyramid(source, output, levels=2, overwrite=True)
    assert [array.shape for array in read_multiscale(output).arrays] == [(30, 41), (15, 21)]


def test_addresses_are_read_by_fsspec(
    image: np.ndarray[Any, Any], tmp_path: Path, address: str
) -> None:
    expected_pixels = expected(image, tmp_path)
    for source in (f"file://{tmp_path}/local", f"{address}/local"):
        gridsample.zarr.warp(source, tmp_path / "out", TURN, mode="cubic", overwrite=True)
        np.testing.assert_array_equal(zarr.open(str(tmp_path / "out"))["0"][...], expected_pixels)
    with pytest.raises(FileError, match="/absent"):
        gridsample.zarr.warp(f"{address}/absent", tmp_path / "out", TURN, overwrite=True)
    with pytest.raises(FileError, match="cannot open nowhere://x"):
        gridsample.zarr.warp("nowhere://x", tmp_path / "other", TURN)
