"""Zarr sources other than local folders: stores of Zarr, and addresses."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore, ZipStore

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
        with pytest.raises(FileError, match="unfinished result of another command"):
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


@pytest.mark.parametrize("kind", ["folder", "store", "zip", "memory", "file", "http"])
@pytest.mark.parametrize("output_kind", ["folder", "store"])
def test_a_source_that_has_changed_is_not_continued(
    image: np.ndarray[Any, Any], tmp_path: Path, address: str, kind: str, output_kind: str
) -> None:
    """Pixels of the earlier source are not mixed with those of the present one."""
    source: Any = {
        "folder": tmp_path / "in",
        "store": MemoryStore(),
        "zip": tmp_path / "in.zip",
        "memory": f"memory://{tmp_path}/changing",
        "file": f"file://{tmp_path}/in",
        "http": f"{address}/in",
    }[kind]
    output: Any = tmp_path / "out" if output_kind == "folder" else MemoryStore()

    def write(pixels: np.ndarray[Any, Any]) -> None:
        if kind == "zip":
            source.unlink(missing_ok=True)
            with ZipStore(source, mode="w") as store:
                zarr.create_array(store, data=pixels, chunks=(8, 10))
        elif kind in ("file", "http"):
            zarr.create_array(str(tmp_path / "in"), data=pixels, chunks=(8, 10), overwrite=True)
            times = (0, 1e9 + 10 * pixels[0, 0])  # servers tell seconds, and of the metadata only
            os.utime(tmp_path / "in/zarr.json", times)
        else:
            store = store_of(source, read_only=False)
            zarr.create_array(store, data=pixels, chunks=(8, 10), overwrite=True)

    def stop(share: float) -> None:
        if share > 0.3:
            raise KeyError("stopped")

    def warp(**options: Any) -> gridsample.zarr.Traffic:
        stored = ZipStore(source, mode="r") if kind == "zip" else source
        return gridsample.zarr.warp(stored, output, np.eye(3), threads=1, **options)

    write(image)
    with pytest.raises(KeyError, match="stopped"):
        warp(progress=stop)
    write(image + 1)
    with pytest.raises(FileError, match="has changed since"):
        warp()
    assert warp(overwrite=True).done_before == 0
    result = zarr.open_group(store_of(output), mode="r")["0"][...]
    np.testing.assert_array_equal(result, image + 1)


def test_a_chunk_that_is_rewritten_is_a_change(image: np.ndarray[Any, Any], tmp_path: Path) -> None:
    array = zarr.create_array(str(tmp_path / "in"), data=image, chunks=(8, 10))

    def stop(share: float) -> None:
        raise KeyError("stopped")

    with pytest.raises(KeyError, match="stopped"):
        gridsample.zarr.resize(tmp_path / "in", tmp_path / "out", (30, 41), progress=stop)
    array[20:, 30:] = 0
    with pytest.raises(FileError, match="has changed since"):
        gridsample.zarr.resize(tmp_path / "in", tmp_path / "out", (30, 41))


@pytest.mark.parametrize("kind", ["folder", "store"])
def test_an_unfinished_output_without_results_blocks_no_call(
    image: np.ndarray[Any, Any], tmp_path: Path, kind: str
) -> None:
    """A call that fails before its first chunk leaves no folder; one that is killed may."""
    array = zarr.create_array(str(tmp_path / "in"), data=image, chunks=(8, 10))
    output: Any = tmp_path / "out" if kind == "folder" else MemoryStore()
    chunk = tmp_path / "in" / array.metadata.encode_chunk_key((0, 0))
    content = chunk.read_bytes()
    chunk.write_bytes(b"damaged")
    with pytest.raises(FileError, match="cannot read the chunk"):
        gridsample.zarr.warp(tmp_path / "in", output, threads=1)
    if kind == "folder":
        assert [each.name for each in tmp_path.iterdir()] == ["in"]
        killed = tmp_path / ".out.unfinished/store/0"
        killed.mkdir(parents=True)
        (killed / "zarr.json").write_text("{}", encoding="utf-8")
        (killed.parents[1] / "recipe.json").write_text("{}", encoding="utf-8")
    chunk.write_bytes(content)
    gridsample.zarr.warp(tmp_path / "in", output, padding_mode="wrap")
    result = zarr.open_group(store_of(output), mode="r")["0"][...]
    np.testing.assert_array_equal(result, image)


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
