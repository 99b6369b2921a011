"""The command line, run in this process: errors, progress bars, and the small commands."""

import importlib
import subprocess
import sys

import numpy as np
import pytest
from commands import AFFINE, brain, noise, run, warped

import gridsample
from gridsample import cli, io, warp
from gridsample.cli import terminal
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.io import Image


@pytest.fixture(autouse=True)
def _inside_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# ---- refusals ---------------------------------------------------------------------------------


@pytest.fixture
def files():
    """A valid file of every format, and invalid ones."""
    picture = noise(6, 8, 3, dtype=np.uint8)
    for name in ("p.png", "p.jpg", "p.tif"):
        io.write(Image(picture, "NumPy", True), io.Path(name))
    np.save("alpha.npy", noise(6, 8, 4, dtype=np.uint8))
    np.save("float.npy", noise(6, 8, 3))
    np.save("deep.npy", noise(6, 8, 1, dtype=np.uint16))
    np.save("volume.npy", noise(3, 6, 8, 1, dtype=np.uint8))
    np.save("objects.npy", np.array([[{}]]), allow_pickle=True)
    np.save("grid1d.npy", np.zeros((4, 4, 1)))
    np.save("gridint.npy", np.zeros((4, 4, 2), int))
    np.save("grid.npy", np.zeros((4, 4, 2)))
    io.Path("text.png").write_text("no picture")
    io.Path("cut.npy").write_bytes(io.Path("float.npy").read_bytes()[:-100])
    io.Path("cut.png").write_bytes(io.Path("p.png").read_bytes()[:-100])
    io.Path("eight.txt").write_text("1 2 3 4 5 6 7 8")
    io.Path("words.txt").write_text("one two three")
    io.Path("new\nline.png").write_text("")
    io.Path("folder.png").mkdir()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "required: COMMAND"),
        ("wrap p.png o.png", "wrap"),
        ("warp p.png", "required: OUTPUT"),
        ("warp p.png o.png --twist 3", "--twist"),
        ("warp p.png o.png --rot 3", "--rot"),
        ("warp none.png o.png", "none.png: No such file"),
        ("warp folder.png o.png", "folder.png: Is a directory"),
        ("warp p.xyz o.png", ".png, .jpg, .jpeg, .tif"),
        ("warp p.png o.xyz", ".png, .jpg, .jpeg, .tif"),
        ("warp text.png o.png", "neither a PNG nor a JPEG"),
        ("warp cut.png o.png", "cannot read cut.png as PNG"),
        ("warp cut.npy o.npy", "cannot read cut.npy as NumPy"),
        ("warp objects.npy o.npy", "cannot read objects.npy"),
        ("warp new\nline.png o.png", "neither"),
        ("warp p.png folder.png", "is a folder"),
        ("warp p.png no/where.png", "no folder no"),
        ("warp p.png p.jpg", "p.jpg exists; --force replaces it (in Python, overwrite=True)"),
        ("warp float.npy o.png", "PNG does not hold float64 pictures of 3 channels; TIFF"),
        ("warp deep.npy o.jpg", "JPEG does not hold uint16"),
        ("warp alpha.npy o.jpg", "JPEG does not hold uint8 pictures of 4 channels"),
        ("warp volume.npy o.png", "PNG does not hold uint8 volumes"),
        ("warp p.png o.png --rotate x", "--rotate: expected numbers like 1.5,-2, got 'x'"),
        ("warp p.png o.png --rotate", "--rotate: expected one argument"),
        ("warp p.png o.png --rotate 1,2", "--rotate takes 1"),
        ("warp p.png o.png --rotate nan", "finite"),
        ("warp p.png o.png --translate -inf,0", "finite"),
        ("warp p.png o.png --scale 0", "singular"),
        ("warp p.png o.png --translate 1,2,3", "--translate takes 2 numbers, got 3"),
        ("warp p.png o.png --size 0x4", "--size: expected a size like 640x480, got '0x4'"),
        ("warp p.png o.png --size 4", "--size has 1 numbers, but the input is 8x6: give WxH"),
        ("warp volume.npy o.npy --size 4x4", "give WxHxD"),
        ("warp p.png o.png --size 99999999x99999999", "allocate"),
        ("warp p.png o.png --mode cubist", "cubist"),
        ("warp p.png o.png --rotate 3 --mode cubist", "cubist"),
        ("warp p.png o.png --mode nearest,cubist", "cubist"),
        ("warp p.png o.png --padding reflect", "reflect"),
        ("warp p.png o.png --padding zeros,zeros,zeros", "3"),
        ("warp p.png o.png --threads -1", "threads"),
        ("warp p.png o.png --threads two", "--threads"),
        ("warp p.png o.png --homography none.txt", "none.txt: No such file"),
        ("warp p.png o.png --homography eight.txt", "holds 8 numbers, not nine"),
        ("warp p.png o.png --homography words.txt", "does not hold nine numbers"),
        ("warp p.png o.png --homography p.png", "nine"),
        ("warp volume.npy o.npy --homography eight.txt", "nine"),
        ("warp p.png o.png --grid grid1d.npy", "(4, 4, 1)"),
        ("warp p.png o.png --grid gridint.npy", "dtype int64"),
        ("warp volume.npy o.npy --grid grid.npy", "(D', H', W', 3) for a volume"),
        ("warp p.png o.png --grid text.png", "not a .npy file"),
        ("warp p.png o.png --grid grid.npy --rotate 3", "--grid"),
        ("warp p.png o.png --grid grid.npy --size 3x3", "--grid"),
        ("info none.png", "none.png: No such file"),
        ("info text.png", "neither"),
        ("explain --size 4x4", "required: --at"),
        ("explain --size 4x4 --at 1,2 --plot p.png", "p.png exists"),
        ("explain --size 4x4 --at 1,2 --mode cubist", "cubist"),
        ("explain --size 4x4 --at 1,2,3", "at"),
        ("explain --size 4x4 --at 1,2 --coords pixels", "coords 'pixels'"),
        ("explain --size 4x4 --at 1,2 --coords displacement --index 1,a", "integers like 3,0"),
    ],
)
def test_errors_print_one_line_and_leave_no_file(files, capfd, words, message):
    before = {path.name for path in io.Path().iterdir()}
    assert run(*words.split(" ") if words else []) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("gridsample: error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert {path.name for path in io.Path().iterdir()} == before


def test_a_writer_that_fails_leaves_the_old_file(monkeypatch, capfd):
    io.write(Image(noise(6, 8, 3, dtype=np.uint8), "NumPy", True), io.Path("p.png"))
    original = io.Path("p.png").read_bytes()

    for error, code in [(OSError(28, "No space left on device"), 2), (KeyboardInterrupt(), 130)]:

        def fail(file, *_, error=error, **__):
            file.write(b"half")
            raise error

        monkeypatch.setattr(importlib.import_module("imageio.v3"), "imwrite", fail)
        for target in ("o.png", "p.png"):
            assert run("warp", "p.png", target, "--rotate", 3, "--force") == code
    assert capfd.readouterr().err.count("No space left on device\n") == 2
    assert [path.name for path in io.Path().iterdir()] == ["p.png"]
    assert io.Path("p.png").read_bytes() == original


def test_an_interrupt_while_sampling_ends_with_130(monkeypatch, capfd):
    np.save("x.npy", noise(6, 8, 3))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(warp, "grid_sample", interrupted)
    assert run("warp", "x.npy", "y.npy", "--rotate", 3) == 130
    assert capfd.readouterr().err == "gridsample: interrupted\n"
    assert [path.name for path in io.Path().iterdir()] == ["x.npy"]


@pytest.mark.slow
def test_every_option_value_in_the_help_is_accepted(capsys):
    np.save("x.npy", noise(6, 8, 3, dtype=np.uint8))
    assert run("warp", "--help") == 0
    output = capsys.readouterr().out.split("\nmodes:\n")[1].split("\n\n")
    modes, boundaries = (" ".join(part.replace(".", ",").split()) for part in output[:2])
    modes = modes.split(", bilinear and")[0].split(", ")
    boundaries = boundaries.removeprefix("boundaries: ").rstrip(",").split(", ")
    assert modes == list(gridsample.methods.names())
    assert boundaries == [*BOUNDARIES, "missing"]
    for words in [
        *(["--mode", name] for name in modes),
        *(["--padding", name] for name in boundaries),
    ]:
        assert run("warp", "x.npy", "y.npy", "--rotate", 3, "--force", *words) == 0
        explained = run("explain", "--size", "4x4", "--at", "-1.2,0.3", *words)
        assert explained == (2 if "missing" in words else 0)  # explain does not list it


def test_constant_boundary_uses_the_requested_fill_value(capsys):
    array = noise(6, 8, 3)
    words = ["--translate", "3,0", "--padding", "constant"]
    np.testing.assert_array_equal(warped(array, *words, "--fill", "-2.5")[:, :3], -2.5)
    result = warped(array, *words, "--fill", "1,2,3")
    np.testing.assert_array_equal(result[:, :3], np.broadcast_to([1, 2, 3], (6, 3, 3)))
    np.testing.assert_array_equal(result[:, 3:], array[:, :-3])
    np.testing.assert_array_equal(warped(array, *words)[:, :3], 0)
    for fill, message in (("1,2", "one for each of the 3 channels, got 2"), ("x", "numbers like")):
        assert run("warp", "in.npy", "out.npy", "--force", *words, "--fill", fill) == 2
        assert message in capsys.readouterr().err
    assert run("warp", "in.npy", "out.npy", "--force", "--rotate", 3, "--fill", 1) == 2
    assert "--padding constant" in capsys.readouterr().err


def test_read_only_folders_are_reported(monkeypatch, capfd):
    np.save("x.npy", noise(6, 8, 3))

    def forbidden(path, **_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(io.Path, "touch", forbidden)
    assert run("warp", "x.npy", "y.npy") == 2
    assert "Permission denied" in capfd.readouterr().err


def test_input_and_output_may_be_the_same_file():
    for suffix in ("npy", "nii", "tif", "png"):
        array = noise(6, 8, 3, dtype=np.uint8)
        path = io.Path(f"same.{suffix}")
        io.write(Image(array, "NumPy", True), path)
        assert run("warp", path, path, "--rotate", 180, "--force") == 0
        np.testing.assert_array_equal(np.squeeze(io.read(path).array), array[::-1, ::-1])


# ---- the bar, the other commands, the process -------------------------------------------------


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("seconds", [0, 1000])
def test_a_terminal_shows_a_progress_bar_for_long_work(monkeypatch, capsys, shown, seconds):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal, "SECONDS_WITHOUT_BAR", seconds)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: shown)
    warped(noise(6, 8, 1), "--rotate", 3)
    captured = capsys.readouterr()
    assert ("warping in.npy" in captured.err) == (shown and seconds == 0)
    assert captured.out == ""


def test_no_progress_bar_without_rich(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setattr(terminal, "SECONDS_WITHOUT_BAR", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    warped(noise(6, 8, 1), "--rotate", 3)
    assert capsys.readouterr().err == ""


def test_info_prints_a_table(capsys):
    brain()
    assert run("info", "brain.nii.gz") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "file      brain.nii.gz"
    table = {line[:10].strip(): line[10:] for line in lines}
    assert table["format"] == "NIfTI"
    assert table["size"] == "8 x 6 x 5"
    assert table["dtype"] == "int16"
    assert table["voxel"].startswith("2 x 2 x 3")
    rows = [line[10:].split() for line in lines if line[:10].strip() in ("affine", "")]
    np.testing.assert_array_equal(np.array(rows, float), AFFINE)


def test_info_can_take_an_array_as_a_volume(capsys):
    np.save("x.npy", noise(6, 5, 4))
    assert run("info", "x.npy") == 0
    assert "(6, 5, 4) as (H, W, C)" in capsys.readouterr().out
    assert run("info", "x.npy", "--volume") == 0
    assert "(6, 5, 4) as (D, H, W)" in capsys.readouterr().out


def test_explain_prints_and_draws(capsys):
    words = ["--size", "4x4", "--at", "-1.2,1.3", "--padding", "reflection", "--mode", "bilinear"]
    assert run("explain", *words, "--plot", "drawing.png") == 0
    explanation = gridsample.explain(
        size=(4, 4), at=(-1.2, 1.3), mode="bilinear", padding_mode="reflection"
    )
    assert capsys.readouterr().out == f"{explanation}\n"
    assert io.Path("drawing.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in io.Path().iterdir()] == ["drawing.png"]
    assert run("explain", *words, "--align-corners") == 0
    assert capsys.readouterr().out != f"{explanation}\n"
    words = ["--size", "4x4", "--at", "-1.5,0.5", "--coords", "displacement", "--index", "3,1"]
    assert run("explain", *words, "--mode", "spline3") == 0
    explanation = gridsample.explain(
        (4, 4), (-1.5, 0.5), "spline3", coords="displacement", index=(3, 1)
    )
    assert capsys.readouterr().out == f"{explanation}\n"


def test_explain_needs_matplotlib_only_to_draw(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = ["explain", "--size", "8", "--at", "0.3"]
    assert run(*words) == 0
    assert run(*words, "--plot", "drawing.png") == 2
    assert 'pip install "gridsample[cli]"' in capsys.readouterr().err


def test_help_and_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"gridsample {gridsample.__version__}\n"
    for words in (["--help"], ["warp", "--help"], ["info", "--help"], ["explain", "--help"]):
        assert run(*words) == 0
        assert capsys.readouterr().out.startswith("usage: gridsample")


def test_the_module_is_the_command():
    command = [sys.executable, "-m", "gridsample"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    assert (version.returncode, version.stdout) == (0, f"gridsample {gridsample.__version__}\n")
    refused = subprocess.run(
        [*command, "warp", "none.png", "o.png"], capture_output=True, text=True, check=False
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "gridsample: error: none.png: No such file or directory\n"


def test_a_closed_pipe_is_no_error():
    np.save("x.npy", noise(6, 8, 3))
    command = [sys.executable, "-m", "gridsample", "info", "x.npy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_libraries_keep_quiet(monkeypatch, capfd):
    import logging
    import warnings

    def chatter(arguments):
        warnings.warn("a library's worry", stacklevel=1)
        logging.getLogger("tifffile").error("a library's worry")

    monkeypatch.setattr(cli, "_info", chatter)
    assert run("info", "x.npy") == 0
    assert capfd.readouterr() == ("", "")
    assert logging.root.manager.disable == 0
