"""Chunks that are read once, and outputs that appear complete or not at all."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from gridsample.io.image import FileError
from gridsample.io.resuming import resumable
from gridsample.io.stores import (
    ChunkReader,
    Traffic,
    counting_store,
    files_of,
    fill,
    morton,
)


def test_regions_are_read_whatever_the_chunks(tmp_path: Path) -> None:
    image = np.random.default_rng(0).normal(size=(13, 17))
    zarr.create_array(str(tmp_path / "a"), data=image, chunks=(5, 4))
    traffic = Traffic()
    array = zarr.open_array(counting_store(tmp_path / "a", traffic, True), mode="r")
    reader = ChunkReader(array)
    regions = [(slice(a, a + 6), slice(b, b + 5)) for a in range(7) for b in range(13)]
    with ThreadPoolExecutor(8) as pool:
        for region, values in zip(regions, pool.map(reader.__getitem__, regions), strict=True):
            np.testing.assert_array_equal(values, image[region])
    assert traffic.reads == 3 * 5  # once, though eight threads asked
    small = ChunkReader(array, cache_bytes=2 * 5 * 4 * 8)
    for region in regions:
        np.testing.assert_array_equal(small[region], image[region])
    assert len(small.cache) == 2


def test_failed_reads_are_not_cached() -> None:
    class Broken:
        shape, chunks, dtype = (4,), (2,), np.dtype("f8")
        attempts = 0

        def __getitem__(self, region: Any) -> Any:
            self.attempts += 1
            if self.attempts == 1:
                raise OSError("disk")
            return np.ones(2)

    reader = ChunkReader(Broken())
    with pytest.raises(FileError, match=r"cannot read the chunk \(0,\) of the Zarr array: disk"):
        reader[(slice(0, 4),)]
    assert reader[(slice(0, 4),)].tolist() == [1] * 4


def test_shards_are_written_once_in_morton_order(tmp_path: Path) -> None:
    array = zarr.create_array(
        str(tmp_path / "a"),
        shape=(5, 6),
        dtype="i4",
        chunks=(2, 2),
        config={"write_empty_chunks": True},
    )
    order = [region for _, region in files_of(array)]
    assert [(a.start, b.start) for a, b in order[:5]] == [(0, 0), (0, 2), (2, 0), (2, 2), (0, 4)]
    assert sorted(range(8), key=lambda k: morton((k,))) == list(range(8))
    seen, ends = [], True

    def compute(region: Any) -> Any:
        seen.append(region)
        if ends and len(seen) >= 4:  # the next one may have begun before all end
            raise ValueError("ended")
        return np.zeros([part.stop - part.start for part in region], "i4")

    traffic = Traffic()
    with pytest.raises(ValueError, match="ended"):
        fill(array, compute, traffic, 1)
    assert traffic.done == 3  # zeros are files, too
    seen.clear()
    ends = False
    fill(array, compute, traffic, 2)
    assert traffic.done == 9 and traffic.done_before == 3 and len(seen) == 6


def test_outputs_appear_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "out.zarr"
    with pytest.raises(KeyError), resumable(path, {"a": 1}, overwrite=False) as folder:
        (folder / "x").write_text("done", encoding="utf-8")
        (folder / "y.0123.partial").write_text("ha", encoding="utf-8")
        raise KeyError
    assert not path.exists()
    with (
        pytest.raises(FileError, match="unfinished result of another command"),
        resumable(path, {"a": 2}, overwrite=False),
    ):
        pass
    with resumable(path, {"a": 1}, overwrite=False) as folder:
        if os.name == "posix":
            with (
                pytest.raises(FileError, match="another process is writing"),
                resumable(path, {"a": 1}, overwrite=False),
            ):
                pass
        assert [each.name for each in folder.iterdir()] == ["x"]
    assert [each.name for each in tmp_path.iterdir()] == ["out.zarr"]
    with pytest.raises(FileError, match="exists"), resumable(path, {"a": 1}, overwrite=False):
        pass
    with resumable(path, {"a": 2}, overwrite=True) as folder:
        assert not list(folder.iterdir())
    assert not list(path.iterdir())
