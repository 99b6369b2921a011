"""What outputs in Zarr stores keep of their source, besides pixels."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, GzipCodec
from zarr.storage import LocalStore, MemoryStore

import gridsample.zarr
from gridsample import cli
from gridsample.io.image import FileError
from gridsample.zarr import Layout

IMAGE = np.arange(2 * 12 * 14, dtype="int16").reshape(2, 12, 14)
ATTRIBUTES = {"units": "m", "long_name": "height", "scale_factor": 0.1}
AXES = [{"name": "c", "type": "channel"}, *({"name": n, "type": "space"} for n in "yx")]


def stored(store: Any, zarr_format: int = 3, **options: Any) -> Any:
    """Store an OME-Zarr image with metadata of others."""
    group = zarr.open_group(store, mode="w", zarr_format=zarr_format)
    group.create_array(
        "0",
        data=IMAGE,
        chunks=(2, 5, 6),
        fill_value=-9999,
        attributes=ATTRIBUTES,
        **options,
    )
    steps = [{"type": "scale", "scale": [1, 1, 1]}]
    dataset = {"path": "0", "coordinateTransformations": steps}
    scales = [{"version": "0.4", "axes": AXES, "datasets": [dataset]}]
    ome: Any = {"multiscales": scales, "omero": {"channels": []}}
    group.attrs.update(ome if zarr_format == 2 else {"ome": {"version": "0.5", **ome}})
    group.attrs["author"] = "someone"
    return store


def commands(source: Any, output: Any, **options: Any) -> list[Any]:
    """One call of each kind."""
    return [
        lambda: gridsample.zarr.warp(source, output, **options),
        lambda: gridsample.zarr.resize(source, output, (6, 7), **options),
        lambda: gridsample.zarr.pyramid(source, output, levels=2, **options),
    ]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_attributes_fill_values_and_codecs_are_kept(kind: int, zarr_format: int) -> None:
    codec: Any = GzipCodec(level=3) if zarr_format == 3 else {"id": "gzip", "level": 3}
    source, output = stored(MemoryStore(), zarr_format, compressors=[codec]), MemoryStore()
    commands(source, output)[kind]()
    group = zarr.open_group(output, mode="r")
    assert group.metadata.zarr_format == zarr_format and group.attrs["author"] == "someone"
    assert not group.metadata.consolidated_metadata
    for _, array in group.arrays():
        assert array.attrs.asdict() == ATTRIBUTES and array.fill_value == -9999
        (stored_codec,) = array.compressors
        assert (stored_codec if zarr_format == 3 else stored_codec.get_config()) == codec


def test_codecs_are_chosen_by_the_layout_and_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    stored(LocalStore("in.zarr"))
    layout = Layout(codec="blosc:7", zarr_format=2)
    gridsample.zarr.warp("in.zarr", "old.zarr", layout=layout)
    (codec,) = zarr.open("old.zarr")["0"].compressors
    assert (codec.codec_id, codec.clevel) == ("blosc", 7)
    words = ["--codec", "gzip:2", "--chunks", "7x4x1", "--shards", "14x8x2"]
    assert cli.main(["warp", "in.zarr", "new.zarr", "--rotate", "180", *words]) == 0
    array = zarr.open("new.zarr")["0"]
    assert array.chunks == (1, 4, 7) and array.shards == (2, 8, 14)
    assert array.compressors == (GzipCodec(level=2),)
    np.testing.assert_array_equal(array[...], IMAGE[:, ::-1, ::-1])
    assert cli.main(["warp", "in.zarr", "none.zarr", "--codec", "none"]) == 0
    assert zarr.open("none.zarr")["0"].compressors == ()
    capsys.readouterr()
    assert cli.main(["warp", "in.zarr", "x.zarr", "--codec", "zip"]) == 2
    assert "codec must be one of zstd, gzip, blosc, none" in capsys.readouterr().err
    assert not list(tmp_path.glob("*x.zarr*"))


def test_shards_hold_chunks_of_several_channels() -> None:
    """Shards that are given for the spatial axes are as long as chunks along the others."""
    source, output = stored(MemoryStore()), MemoryStore()
    gridsample.zarr.resize(source, output, (12, 14), layout=Layout((3, 7), (6, 14)))
    array = zarr.open_group(output)["0"]
    assert array.chunks == (2, 3, 7) and array.shards == (2, 6, 14)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["folder", "store"])
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_consolidated_metadata_are_written_again(
    kind: str, zarr_format: int, tmp_path: Path
) -> None:
    source = stored(MemoryStore(), zarr_format)
    zarr.consolidate_metadata(source)
    output: Any = tmp_path / "out" if kind == "folder" else MemoryStore()
    gridsample.zarr.pyramid(source, output, levels=2)
    group = zarr.open_group(output, mode="r")
    assert set(group.metadata.consolidated_metadata.metadata) == {"0", "1"}
    assert "gridsample-unfinished" not in group.attrs and group.attrs["author"] == "someone"


@pytest.mark.parametrize("options", [{"mode": "label"}, {"missing": "skip"}])
def test_pyramids_are_checked_before_a_folder_is_made(
    options: dict[str, str], tmp_path: Path
) -> None:
    zarr.create_array(str(tmp_path / "in"), data=np.zeros((5, 6)), chunks=(2, 2))
    with pytest.raises((TypeError, ValueError), match=r"label|missing"):
        gridsample.zarr.pyramid(tmp_path / "in", tmp_path / "out", **options)
    assert [each.name for each in tmp_path.iterdir()] == ["in"]


def test_a_full_disk_is_named_and_the_same_command_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(LocalStore(tmp_path / "in"))
    original, done = LocalStore.set, []

    async def fail_after_some(self: Any, key: str, value: Any) -> None:
        done.append(key)
        if len([each for each in done if "/c/" in each]) > 4:
            raise OSError(errno.ENOSPC, "No space left on device", key)
        await original(self, key, value)

    monkeypatch.setattr(LocalStore, "set", fail_after_some)
    pattern = r"cannot write to file://.*\.out\.unfinished.*No space left.*same command continues"
    with pytest.raises(FileError, match=pattern):
        gridsample.zarr.warp(tmp_path / "in", tmp_path / "out", threads=1)
    monkeypatch.undo()
    assert gridsample.zarr.warp(tmp_path / "in", tmp_path / "out").done_before >= 4


def test_blosc_is_a_codec_of_both_versions() -> None:
    source, output = stored(MemoryStore()), MemoryStore()
    gridsample.zarr.warp(source, output, layout=Layout(codec="blosc"))
    (codec,) = zarr.open_group(output)["0"].compressors
    assert isinstance(codec, BloscCodec)
