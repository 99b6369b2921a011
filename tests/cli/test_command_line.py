"""The command line, run in this process: errors, progress bars, and the small commands."""

import importlib
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from commands import AFFINE, brain, noise, run, warped
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import gridsample
from gridsample import cli, io, warp
from gridsample.cli import info, terminal
from gridsample.cli.maps import scaled
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.definitions.methods import ALIASES
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
    io.Path("text").write_text("no picture")
    io.Path("cut.npy").write_bytes(io.Path("float.npy").read_bytes()[:-100])
    io.Path("cut.png").write_bytes(io.Path("p.png").read_bytes()[:-100])
    io.Path("eight.txt").write_text("1 2 3 4 5 6 7 8")
    io.Path("words.txt").write_text("one two three")
    io.Path("new\nline.png").write_text("")
    io.Path("folder.png").mkdir()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("wrap p.png o.png", "there is no command wrap; did you mean gridsample warp?"),
        ("warp p.png", "give OUTPUT, the file to write"),
        ("warp", "give INPUT and OUTPUT"),
        ("warp p.png q.png o.png", "several INPUTs with --out FOLDER"),
        ("resize p.png o.png 40x30", "did you mean --size 40x30?"),
        ("resize p.png o.png --size 40 x 30", "a size is one word, such as 640x480; got 4 files"),
        ("resize p.png o.png yes --scale 2", "got 3 files: p.png, o.png, yes; accepted"),
        ("warp p.png o.png --boundary wrap", "did you mean --padding?"),
        ("warp p.png o.png --matrix m.txt", "did you mean --homography?"),
        ("warp p.png o.png --juggle 3", "there is no option --juggle (see"),
        ("warp p.png o.png -x", "there is no option -x (see"),
        ("warp p.png o.png --output o", "there is no option --output; did you mean --out?"),
        ("warp p.png o.png --rotat 3", "did you mean --rotate?"),
        ("warp none.png o.png", "none.png: No such file"),
        ("warp folder.png o.png", "folder.png is a folder; accepted"),
        ("info folder.png", "folder.png is a folder; accepted"),
        ("warp http://a.b/p.png o.png", "http://a.b/p.png is an address"),
        ("warp text o.png", ".png, .jpg, .jpeg, .tif"),
        ("info nothing", "nothing: No such file"),
        ("warp p.png o.xyz", ".png, .jpg, .jpeg, .tif"),
        ("warp text.png o.png", "neither a PNG nor a JPEG"),
        ("warp cut.png o.png", "cannot read cut.png as PNG"),
        ("warp cut.npy o.npy", "cannot read cut.npy as NumPy"),
        ("warp objects.npy o.npy", "cannot read objects.npy"),
        ("warp new\nline.png o.png", "neither"),
        ("warp p.png folder.png", "folder.png is a folder; --out folder.png writes into it"),
        ("warp p.png no/where.png", "no folder no"),
        ("warp p.png p.jpg", "p.jpg exists; --force replaces it\n"),
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
        ("warp p.png o.png --size 0x4", "--size: expected a size like 640x480, 640, x480"),
        ("warp p.png o.png --size 4,3", "--size: did you mean 4x3? expected a size"),
        ("warp p.png o.png --size x", "expected a size like"),
        ("warp p.png o.png --size 0%", "expected a size like"),
        ("warp volume.npy o.npy --size 4x4", "give WxHxD"),
        ("warp p.png o.png --size 99999999x99999999", "allocate"),
        ("warp p.png o.png --mode cubci", "'cubci' is not known; did you mean cubic? accepted: n"),
        ("warp p.png o.png --mode area", "'area' is for gridsample resize; accepted: nearest"),
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
        ("explain --size 4x4", "give --at, or --topic NAME"),
        ("explain --topic aligncorners", "did you mean align_corners? accepted: align_corners"),
        ("explain --size 4x4 --at 1,2 --plot p.png", "p.png exists"),
        ("explain --size 4x4 --at 1,2 --mode cubist", "cubist"),
        ("explain --size 4x4 --at 1,2,3", "at"),
        (
            "explain --size 4x4 --at 1,2 --coords pixels",
            "'pixels' is not known; did you mean pixel?",
        ),
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
    assert run("warp", "--help-all") == 0
    output = capsys.readouterr().out.split("\nmodes:\n")[1].split("\n\n")
    modes, boundaries = (" ".join(part.replace(".", ",").split()) for part in output[:2])
    modes = modes.split(", The last")[0].split(", ")
    boundaries = boundaries.removeprefix("boundaries: ").rstrip(",").split(", ")
    assert modes == [*gridsample.methods.names(), *ALIASES]
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


def test_version_and_the_list_of_commands(capsys):
    for words in (["--version"], ["-V"]):
        assert run(*words) == 0
        assert capsys.readouterr().out == f"gridsample {gridsample.__version__}\n"
    for words in ([], ["--help"], ["help"]):
        assert run(*words) == 0
        output = capsys.readouterr().out
        assert output.startswith("usage: gridsample COMMAND")
        assert output.count("\n") <= 24


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_fits_a_screen_and_the_full_help_has_every_option(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(name, "--help") == 0
    short = capsys.readouterr().out
    assert short.startswith(f"usage: gridsample {name}")
    assert short.count("\n") <= 24
    assert run("help", name) == run(name, "-h") == 0
    assert capsys.readouterr().out == 2 * short
    assert run(name, "--help-all") == 0
    full = capsys.readouterr().out
    options = {word for action in cli.command_of(name)._actions for word in action.option_strings}
    assert all(
        re.search(rf"^  (-h, )?{option}\b", full, re.MULTILINE) for option in options - {"-h"}
    )
    assert len(full) > len(short)


@pytest.mark.parametrize("words", ["", "--version", "--help", "resiz a b", "--verison"])
def test_the_version_loads_no_library(words):
    script = (
        "import sys\nfrom gridsample import cli\n"
        f"cli.main({words.split()})\nassert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)


# What messages to Python users have, and a shell does not: names with underscores, flags, repr.
PYTHON = re.compile(
    r"\w=(?:True|False|None|')|\(None\)|gridsample\.help|\('[^']*',|[a-z]_(?:mode|value|corn)"
)


@pytest.mark.parametrize(
    "words",
    [
        "resize p.png p.jpg --scale 2",
        "resize p.png o.png --scale 2 --mode area --align-corners",
        "warp float.npy o.npy --rotate 3 --mode spline3 --missing ignore",
        "warp float.npy o.npy --rotate 3 --mode label",
        "resize float.npy o.npy --scale 2 --mode spline3 --missing ignore",
        "warp p.png o.png --rotate 3 --padding reflect",
        "warp p.png o.png --rotate 3 --padding zeros,constant",
        "warp p.png o.png --rotate 3 --mode linear,linear,linear",
        "warp p.png o.png --rotate 3 --mode label,cubic",
        "warp p.png o.png --rotate 3 --mode label --padding dst1",
        "warp p.png o.png --rotate 3 --mode label --padding constant --fill 0.5",
        "explain --size 4x4 --at 1,2 --mode area",
    ],
)
def test_messages_have_no_words_of_python(files, words, capsys):
    assert run(*words.split()) == 2
    error = capsys.readouterr().err
    assert not PYTHON.search(error), error
    assert error.count("\n") == 1


OPTIONS = {name: [*cli.command_of(name)._option_string_actions] for name in ("resize", "warp")}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_typing_error_is_followed_by_what_was_meant(data, capsys):
    command = data.draw(st.sampled_from(sorted(OPTIONS)))
    option = data.draw(st.sampled_from([name for name in OPTIONS[command] if len(name) > 6]))
    at = data.draw(st.integers(3, len(option) - 2))
    # One letter is left out, or two are exchanged.
    wrong = data.draw(
        st.sampled_from(
            [
                option[:at] + option[at + 1 :],
                f"{option[:at]}{option[at + 1]}{option[at]}{option[at + 2 :]}",
            ]
        )
    )
    assume(wrong not in OPTIONS[command])
    capsys.readouterr()
    assert run(command, "a.png", "b.png", wrong) == 2
    assert f"there is no option {wrong}; did you mean --" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ("--size 16", (16, 12)),
        ("--size x9", (12, 9)),
        ("--size 16x", (16, 12)),
        ("--size 3x20", (3, 20)),
        ("--size 50%", (4, 3)),
        ("--scale 50%", (4, 3)),
        ("--scale 200%,0.5", (16, 3)),
        ("--size 0.1%", (1, 1)),
    ],
)
def test_sizes_may_be_relative(files, words, size):
    for command in ("resize", "warp"):
        if command == "resize" or "--size" in words:
            assert run(command, "p.png", "o.png", *words.split(), "--force") == 0
            assert io.read("o.png").size == size


@given(n=st.integers(1, 100_000), percent=st.integers(1, 300))
def test_scaled_sizes_are_those_of_exact_arithmetic(n, percent):
    expected = max(1, n * percent // 100)
    assert scaled((n,), [percent / 100], math.floor) == (expected,)


def test_a_scale_is_not_lowered_by_rounding():
    np.save("x.npy", noise(100, 100))
    assert run("resize", "x.npy", "y.npy", "--scale", "0.29") == 0
    assert np.load("y.npy").shape == (29, 29)


def test_files_are_examined_before_torch_is_needed(files, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    for words, message in (
        ("none.png p.png o.png", "none.png: No such file"),
        ("p.png text.png o.png", "neither a PNG"),
        ("p.png p.png p.jpg", "p.jpg exists"),
        ("p.png p.png o.png --initial none.txt", "none.txt: No such file"),
    ):
        assert run("register", *words.split()) == 2
        assert message in capsys.readouterr().err


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

    monkeypatch.setattr(info, "_info", chatter)
    assert run("info", "x.npy") == 0
    assert capfd.readouterr() == ("", "")
    assert logging.root.manager.disable == 0
