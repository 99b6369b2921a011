"""The command line: standard input and output."""

import io as streams
import os
import subprocess
import sys

import numpy as np
import pytest
from commands import noise

from gridsample import cli, io
from gridsample.io import Image

nibabel = pytest.importorskip("nibabel")
pytest.importorskip("tifffile")


class FakeStdin:
    """Standard input with some content."""

    def __init__(self, data):
        self.buffer = streams.BytesIO(data)


@pytest.mark.parametrize(
    "suffix", ["png", "jpg", "webp", "bmp", "tif", "npy", "npz", "nii", "nii.gz", "mgz"]
)
def test_the_stream_format_is_recognized_and_kept(suffix, tmp_path, monkeypatch, capfdbinary):
    volume = suffix in ("nii", "nii.gz", "mgz")
    array = noise(9, 8, 7, 1, dtype=np.uint8) if volume else noise(9, 8, 3, dtype=np.uint8)
    move = ["--translate", "2,1,0" if volume else "2,1"]
    path, result = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    io.write(Image(array, "NumPy", not volume), path)
    assert cli.main(["warp", str(path), str(result), *move]) == 0
    capfdbinary.readouterr()
    monkeypatch.setattr("sys.stdin", FakeStdin(path.read_bytes()))
    assert cli.main(["warp", "-", "-", *move]) == 0
    written = tmp_path / f"c.{suffix}"
    written.write_bytes(capfdbinary.readouterr().out)
    np.testing.assert_array_equal(io.read(written).array, io.read(result).array)


def test_input_or_output_may_be_a_stream(tmp_path, monkeypatch, capfdbinary):
    path = tmp_path / "a.png"
    io.write(Image(noise(9, 8, 3, dtype=np.uint8), "NumPy", True), path)
    assert cli.main(["resize", str(path), "-", "--scale", "2"]) == 0
    data = capfdbinary.readouterr().out
    assert data.startswith(b"\x89PNG")
    monkeypatch.setattr("sys.stdin", FakeStdin(data))
    assert cli.main(["resize", "-", str(tmp_path / "b.tif"), "--scale", "0.5"]) == 0
    assert io.read(tmp_path / "b.tif").array.shape == (9, 8, 3)
    monkeypatch.setattr("sys.stdin", FakeStdin(data))
    assert cli.main(["info", "-"]) == 0
    assert b"size      16 x 18" in capfdbinary.readouterr().out


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", b"standard input is empty"),
        (b"text", b"holds no file of a known format"),
        (b"\x89PNG cut", b"cannot read"),
    ],
)
def test_unrecognized_streams_are_rejected(data, message, monkeypatch, capfdbinary):
    monkeypatch.setattr("sys.stdin", FakeStdin(data))
    assert cli.main(["warp", "-", "-", "--rotate", "3"]) == 2
    out, err = capfdbinary.readouterr()
    assert not out
    assert message in err


class Terminal(streams.BytesIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


def test_bytes_are_not_written_to_a_terminal(tmp_path, monkeypatch, capsys):
    path = tmp_path / "a.png"
    io.write(Image(noise(9, 8, 3, dtype=np.uint8), "NumPy", True), path)
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", streams.TextIOWrapper(Terminal()))
        assert cli.main(["resize", str(path), "-", "--scale", "2"]) == 2
    assert "not text for a terminal" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", streams.TextIOWrapper(Terminal()))
    assert cli.main(["info", "-"]) == 2
    assert "standard input is a terminal" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_named_pipe_gets_the_bytes_and_remains(force, tmp_path):
    path, pipe, copy = (tmp_path / name for name in ("a.png", "pipe.png", "copy.png"))
    io.write(Image(noise(9, 8, 3, dtype=np.uint8), "NumPy", True), path)
    os.mkfifo(pipe)
    command = f"cat {pipe} > {copy}"
    with subprocess.Popen(["sh", "-c", command]) as reader:
        assert cli.main(["resize", str(path), str(pipe), "--scale", "2", *force]) == 0
        assert reader.wait(60) == 0
    assert io.read(copy).size == (16, 18)
    assert pipe.is_fifo()
    assert sorted(found.name for found in tmp_path.iterdir()) == ["a.png", "copy.png", "pipe.png"]
