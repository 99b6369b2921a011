"""Several inputs that a command writes into a folder."""

import sys

import numpy as np
import pytest
from commands import noise, run

from gridsample import io
from gridsample.cli import terminal
from gridsample.io import Image


@pytest.fixture(autouse=True)
def pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for n, name in enumerate(("a.png", "b.png", "c.tif")):
        io.write(Image(noise(6 + n, 8, 3, dtype=np.uint8), "NumPy", True), name)
    return ["a.png", "b.png", "c.tif"]


def test_every_input_is_written_under_its_name(pictures, capsys):
    assert run("resize", *pictures, "--scale", "50%", "--out", "new/small") == 0
    assert capsys.readouterr() == ("", "")
    assert sorted(path.name for path in io.Path("new/small").iterdir()) == pictures
    for name in pictures:
        assert run("resize", name, f"one-{name}", "--scale", 0.5) == 0
        expected = io.read(f"one-{name}").array
        np.testing.assert_array_equal(io.read(f"new/small/{name}").array, expected)
    assert run("warp", "a.png", "--rotate", 90, "b.png", "--out", "turned", "c.tif") == 0
    assert len([*io.Path("turned").iterdir()]) == 3


def test_a_failure_does_not_stop_the_others(pictures, capsys):
    io.Path("cut.png").write_bytes(io.Path("a.png").read_bytes()[:-50])
    words = ["resize", "a.png", "cut.png", "none.png", "b.png", "--scale", 2, "--out", "out"]
    assert run(*words) == 2
    errors = capsys.readouterr().err.splitlines()
    assert [line[:18] for line in errors] == ["gridsample: error:"] * 2 + ["gridsample: 2 of 4"]
    assert "cut.png" in errors[0] and "none.png: No such file" in errors[1]
    assert sorted(path.name for path in io.Path("out").iterdir()) == ["a.png", "b.png"]
    assert run(*words) == 2  # now the outputs exist
    assert capsys.readouterr().err.count("exists; --force replaces it") == 2
    assert run(*words, "--force") == 2


def test_an_error_of_all_inputs_is_printed_once(pictures, capsys):
    assert run("warp", *pictures, "--rotate", 3, "--fill", 1, "--out", "out") == 2
    assert capsys.readouterr().err.splitlines() == [
        "gridsample: error: --fill requires --padding constant; give both or neither",
        "gridsample: 3 of 3 inputs failed",
    ]


def test_patterns_that_a_shell_passes_on_are_expanded(pictures, capsys):
    assert run("resize", "*.png", "--scale", 2, "--out", "out") == 0
    assert sorted(path.name for path in io.Path("out").iterdir()) == ["a.png", "b.png"]
    assert run("resize", "*.gif", "--scale", 2, "--out", "out2") == 2
    assert capsys.readouterr().err == "gridsample: error: no file matches *.gif\n"
    assert not io.Path("out2").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "out"], "give at least one INPUT"),
        (["a.png", "--out", "b.png"], "--out b.png is a file"),
        (["a.png", "sub/a.png", "--out", "out"], "would both be written as"),
        (["-", "--out", "out"], "standard input has no name"),
        (["a.png", "sub"], "sub is a folder; --out sub writes into it"),
    ],
)
def test_impossible_outputs_are_refused(words, message, capsys):
    io.Path("sub").mkdir()
    assert run("resize", *words, "--scale", 2) == 2
    assert message in capsys.readouterr().err
    assert not io.Path("out").exists()


def test_one_bar_for_all_files(pictures, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal, "SECONDS_WITHOUT_BAR", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run("resize", *pictures, "--scale", 2, "--out", "out") == 0
    shown = capsys.readouterr().err
    assert "resizing 3 files" in shown and "resizing a.png" not in shown


def test_parts_of_progress():
    shares = []
    for n in range(2):
        with terminal.part_of(shares.append, n, 2), terminal.progress_bar("part") as report:
            report(0.5)
    assert shares == [0.25, 0.5, 0.75, 1.0]


def test_options_may_be_between_files_and_files_may_begin_with_hyphens(capsys):
    io.Path("a.png").rename("-a.png")
    assert run("resize", "b.png", "--scale", 2, "-o.png") == 2
    assert "there is no option -o.png; a file of this name is ./-o.png" in capsys.readouterr().err
    assert run("resize", "--scale", 2, "--", "-a.png", "-o.png") == 0
    assert run("resize", "--scale", 2, "--", "b.png", "p.png") == 0
    assert run("resize", "b.png", "--scale", 2, "q.png") == 0
    assert io.read("./-o.png").size == (16, 12)
