"""Commands and the system: signals leave no partial files, and impossible work is not begun."""

import concurrent.futures
import shutil
import signal
import subprocess
import sys
import tomllib
import zipapp
from pathlib import Path

import numpy as np
import pytest

import gridsample
from gridsample import cli, io, warp
from gridsample.cli import terminal
from gridsample.io import Image
from gridsample.ops import resized_parts

pytest.importorskip("tifffile")


@pytest.fixture(autouse=True)
def _inside_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    return cli.main([str(word) for word in words])


def noise(*shape, dtype=np.float64):
    return (np.random.default_rng(3).random(shape) * 200).astype(dtype)


# A signal comes when a band has been written, and another while the partial file is removed.
SIGNALLED = """
import os, signal, sys
from pathlib import Path
from gridsample import cli, io, warp
from gridsample.ops import resized_parts

number = int(sys.argv[1])
signal.signal(number, signal.SIG_DFL)  # nohup, if it started the tests, ignores SIGHUP
made, unlink = resized_parts.resize_rows, Path.unlink

def signalled(*args, **options):
    for band in made(*args, rows=2, **options):
        yield band
        assert len([*Path().glob(".*")]) == 1
        os.kill(os.getpid(), number)

def unlinked(path, **options):
    os.kill(os.getpid(), number)
    unlink(path, **options)

def sampled(*args, **options):
    os.kill(os.getpid(), number)

resized_parts.resize_rows, Path.unlink, warp.grid_sample = signalled, unlinked, sampled
code = cli.main(sys.argv[2:])
assert signal.getsignal(number) is signal.SIG_DFL
sys.exit(code)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.covering
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("words", [["resize", "--scale", "2"], ["warp", "--rotate", "3"]])
@pytest.mark.parametrize("target", ["y.tif", "y.npy"])
def test_a_signal_leaves_no_partial_file(name, words, target):
    np.save("x.npy", noise(6, 8, 3))
    number = getattr(signal, name)
    command = [sys.executable, "-c", SIGNALLED, str(int(number)), *words, "x.npy", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 128 + number
    assert done.stderr == f"gridsample: ended by {name}\n"
    assert [path.name for path in io.Path().iterdir()] == ["x.npy"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_existing_signal_handlers_are_kept():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with terminal.ending_cleanly():
            signal.raise_signal(signal.SIGTERM)
            assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
        assert seen == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
        with terminal.ending_cleanly():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, hangup)


def test_commands_run_in_other_threads():
    np.save("x.npy", noise(6, 8, 3))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(run, "warp", "x.npy", "y.npy", "--rotate", 180).result() == 0
    np.testing.assert_array_equal(np.load("y.npy"), np.load("x.npy")[::-1, ::-1])


@pytest.mark.parametrize("size", ["9999999x9999999", f"{10**30}x3", f"1x{10**30}"])
@pytest.mark.parametrize("command", ["warp", "resize"])
@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "npy", "nii"])
def test_impossible_sizes_are_rejected_before_work(command, size, suffix, capfd, monkeypatch):
    io.write(Image(noise(6, 8, 3, dtype=np.uint8), "NumPy", True), io.Path("in.png"))

    def work(*_, **__):
        raise AssertionError

    monkeypatch.setattr(warp, "grid_sample", work)
    monkeypatch.setattr(resized_parts.tables, "window", work)
    assert run(command, "in.png", f"out.{suffix}", "--size", size) == 2
    output = capfd.readouterr().err
    reasons = (
        "does not hold",
        "allocate",
        "free in",
        "pixels along an axis",
        "larger than any array",
    )
    assert any(reason in output for reason in reasons)
    assert [path.name for path in io.Path().iterdir()] == ["in.png"]


def test_a_full_disk_is_reported_before_work(capfd, monkeypatch):
    np.save("x.npy", noise(6, 8, 3))
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    assert run("resize", "x.npy", "y.npy", "--scale", 10) == 2
    assert "y.npy would take 115 kB, but 1 kB are free in" in capfd.readouterr().err
    assert run("resize", "x.npy", "y.npy", "--size", "2x2") == 0


ROOT = Path(__file__).parents[2]

# The package in an archive that Python runs, with its dependencies installed beside it.
ARCHIVED = """
import sys
import numpy as np
import gridsample
from gridsample import cli

assert "app.pyz" in gridsample.__file__, gridsample.__file__
assert (gridsample.grid_sample(np.ones((1, 1, 4, 4)), np.zeros((1, 2, 2))) == 1).all()
sys.exit(cli.main(["doctor", "--explain", "GS001"]))
"""


def test_a_zip_archive_of_the_package_runs() -> None:
    package = Path(gridsample.__file__).parent
    shutil.copytree(package, "app/gridsample", ignore=shutil.ignore_patterns("__pycache__"))
    # A checkout has the pages elsewhere than the wheel, whose content a user's archive has.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    Path("app/gridsample/docs").mkdir(exist_ok=True)
    for source, place in included.items():
        shutil.copy(ROOT / source, Path("app") / place)
    Path("app/__main__.py").write_text(ARCHIVED)
    zipapp.create_archive("app", "app.pyz")
    done = subprocess.run(
        [sys.executable, "app.pyz"], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert "align_corners" in done.stdout
