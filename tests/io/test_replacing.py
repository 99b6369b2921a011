"""Files are written completely or not at all."""

import os
import stat
import subprocess
import sys

import pytest

from gridsample import io
from gridsample.io import FileError


def test_files_appear_only_when_complete(tmp_path):
    target = tmp_path / "x.txt"
    with io.replacing(target, overwrite=False) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".txt"
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, SystemExit])
def test_failed_writes_leave_no_file(tmp_path, error):
    target = tmp_path / "x.txt"
    target.write_text("old")
    with pytest.raises(error), io.replacing(target, overwrite=True) as temporary:
        temporary.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_existing_files_are_not_overwritten(tmp_path):
    target = tmp_path / "x.txt"
    target.write_text("old")
    with pytest.raises(FileError, match="--force"), io.replacing(target, overwrite=False):
        pytest.fail("the path was lent")
    with pytest.raises(FileError, match="is a folder"), io.replacing(tmp_path, overwrite=True):
        pytest.fail("the path was lent")
    missing_folder = tmp_path / "no" / "x.txt"
    with pytest.raises(FileError, match="no folder"), io.replacing(missing_folder, overwrite=True):
        pytest.fail("the path was lent")


def test_files_that_appear_meanwhile_are_kept(tmp_path):
    target = tmp_path / "x.txt"
    with (
        pytest.raises(FileError, match=r"x.txt exists; --force"),
        io.replacing(target, overwrite=False) as temporary,
    ):
        temporary.write_text("new")
        target.write_text("precious")
    assert target.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [target]


def test_loops_of_links_are_rejected(tmp_path):
    link = tmp_path / "x.txt"
    link.symlink_to(link)
    for overwrite in (False, True):
        with (
            pytest.raises(FileError, match="is a symbolic link that leads back to itself"),
            io.replacing(link, overwrite=overwrite),
        ):
            pytest.fail("the path was lent")
    assert link.is_symlink()


def test_errors_do_not_name_the_temporary_file(tmp_path):
    with (
        pytest.raises(FileError, match=r"^cannot write .*/x\.txt$") as caught,
        io.replacing(tmp_path / "x.txt", overwrite=False) as temporary,
    ):
        raise FileError(f"cannot write {temporary}")
    assert str(tmp_path / "x.txt") in str(caught.value)


def test_permissions_and_links_are_kept(tmp_path):
    target, link = tmp_path / "x.txt", tmp_path / "link.txt"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    with io.replacing(link, overwrite=True) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640

    file_path = tmp_path / "plain.txt"
    file_path.touch()
    with io.replacing(tmp_path / "fresh.txt", overwrite=False) as temporary:
        temporary.write_text("new")
    assert (tmp_path / "fresh.txt").stat().st_mode == file_path.stat().st_mode


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")
def test_a_named_pipe_is_written_and_not_replaced(tmp_path):
    pipe, copy = tmp_path / "pipe.txt", tmp_path / "copy.txt"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"cat {pipe} > {copy}"]) as reader:
        with io.replacing(pipe, overwrite=True) as temporary:
            temporary.write_text("whole")
        assert reader.wait(60) == 0
    assert copy.read_text() == "whole" and pipe.is_fifo()
    with pytest.raises(KeyError), io.replacing(pipe, overwrite=True) as temporary:
        raise KeyError  # nothing is written
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.txt", "pipe.txt"]
