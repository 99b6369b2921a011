"""Every block of code in the documentation runs, or states why it does not."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from gridsample import cli, io
from gridsample.io.rfc5 import write_transformations

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+?) -->\n\n?)?```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
# Commands are to stand in a block that says what they are.
COMMAND = re.compile(r"^ {4}(?:pip|python3?|gridsample|pytest|git|\.venv/\S+) .*$", re.MULTILINE)


class Block(NamedTuple):
    """A block of code, and the line of the page on which it begins."""

    language: str
    code: str
    reason: str | None
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match["language"], match["code"], match["reason"], text[: match.start()].count("\n"))
        for match in FENCE.finditer(text)
    ]


def runnable(language: str) -> list[Path]:
    """The pages that have blocks of a language to run."""
    return [
        page
        for page in PAGES
        if any(block.language == language and not block.reason for block in blocks(page))
    ]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_code_blocks_are_found() -> None:
    assert {name(page) for page in runnable("python")} >= {"README.md", "docs/resizing.md"}
    assert {name(page) for page in runnable("sh")} >= {"docs/start.md", "docs/files.md"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_is_rendered(page: Path) -> None:
    text, page_blocks = page.read_text(encoding="utf-8"), blocks(page)
    assert text.count("\n```") + text.startswith("```") == 2 * len(page_blocks)
    assert all(block.language for block in page_blocks)
    assert COMMAND.findall(text) == []
    marks = re.findall(r"^<!-- not run", text, re.MULTILINE)
    assert len(marks) == sum(block.reason is not None for block in page_blocks)


# They register images, export models, and compile JAX's.
LONG = ("docs/registration.md", "docs/onnx.md", "docs/jax.md")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (name(page) in LONG))
        for page in runnable("python")
    ],
    ids=name,
)
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python" and not block.reason:
            source = "\n" * (block.line + 1) + block.code  # errors name the page's own lines
            exec(compile(source, page, "exec"), names)


def headings(text: str) -> list[tuple[int, int, str]]:
    """The headings of a page: where they begin, their levels, and the ids that the site gives."""
    hidden = FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    found = []
    for match in re.finditer(r"^(#+) (.*)$", hidden, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[2]).replace("`", "").lower()
        anchor = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        found.append((match.start(), len(match[1]), anchor))
    return found


def sections() -> list[tuple[Path, str]]:
    """The sections that some page links to, and all recipes: readers start there."""
    linked = set()
    for page in PAGES:
        for name, anchor in re.findall(
            r"\]\(([^)\s]+\.md)?#([^)\s]+)\)", page.read_text(encoding="utf-8")
        ):
            linked.add(((page.parent / name).resolve() if name else page, anchor))
    return [
        (page, anchor)
        for page in PAGES
        for _, level, anchor in headings(page.read_text(encoding="utf-8"))
        if (page, anchor) in linked or (page.name == "recipes.md" and level == 3)
    ]


@pytest.mark.parametrize(
    ("page", "anchor"),
    [
        pytest.param(
            page,
            anchor,
            id=f"{page.stem}-{anchor}",
            marks=[pytest.mark.slow] * (name(page) in LONG),
        )
        for page, anchor in sections()
    ],
)
def test_a_section_runs_by_itself(
    page: Path, anchor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text(encoding="utf-8")
    found = headings(text)
    start, level = next((start, level) for start, level, one in found if one == anchor)
    end = next((at for at, other, _ in found if at > start and other <= level), len(text))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for match in FENCE.finditer(text, start, end):
        if match["language"] == "python" and not match["reason"]:
            lines = text[: match.start("code")].count("\n")
            exec(compile("\n" * lines + match["code"], page, "exec"), names)


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that pages speak of, and the command on the path."""
    monkeypatch.chdir(tmp_path)
    tifffile = pytest.importorskip("tifffile")
    nibabel = pytest.importorskip("nibabel")
    zarr = pytest.importorskip("zarr")
    rng = np.random.default_rng(0)
    photo = rng.integers(0, 256, (48, 64, 3), np.uint8)
    for file in ("photo.jpg", "photo.png"):
        io.write(io.Image(photo, "NumPy", has_channel_axis=True), Path(file))
    tifffile.imwrite("scan.tif", photo, photometric="rgb")
    tifffile.imwrite("stack.tif", photo[..., 0].reshape(4, 12, 64), photometric="minisblack")
    scale = (33550, 12, 3, (30.0, 30.0, 0.0), True)
    tags = [scale, (33922, 12, 6, (0.0,) * 6, True), (34735, 3, 4, (1, 1, 0, 0), True)]
    tags.append((42113, 2, 3, b"-1\0", True))
    heights = photo[..., 0].astype(np.float32)
    tifffile.imwrite("heights.tif", heights, extratags=tags, photometric="minisblack")
    brain = nibabel.Nifti1Image(rng.normal(size=(9, 8, 7)).astype(np.float32), np.eye(4))
    brain.to_filename("brain.nii.gz")
    cells = rng.integers(0, 255, (20, 40, 30), dtype=np.uint8)
    zarr.create_array("cells.zarr", data=cells, chunks=(16, 16, 16))
    Path("look.cube").write_text("LUT_1D_SIZE 2\n1 1 1\n0 0 0\n")
    write_transformations("bend.zarr", [np.eye(4)], [{"name": name} for name in "zyx"])
    commands = tmp_path / "commands"
    commands.mkdir()
    for command, words in (("gridsample", "-m gridsample"), ("python", "")):
        path = commands / command
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


# Commands that mean to a shell what they mean to us: they need no process each.
PLAIN = re.compile(r"^(gridsample(?: [\w./,:-]+)+)$", re.MULTILINE)


def run_commands(code: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run commands until one fails; return the exit code, and what went to stderr."""
    for part in filter(str.strip, PLAIN.split(code)):
        if PLAIN.match(part):
            status, errors = cli.main(part.split()[1:]), capsys.readouterr().err
        else:
            done = subprocess.run(["sh", "-ec", part], capture_output=True, text=True, check=False)
            status, errors = done.returncode, done.stderr
        if status or errors:
            return status, errors
    return 0, ""


def test_commands_are_split(capsys: pytest.CaptureFixture[str]) -> None:
    code = "gridsample info a.png\ngridsample info a.png || echo\ngridsample info $1\n"
    assert len([*filter(str.strip, PLAIN.split(code))]) == 2
    assert run_commands("gridsample info nothing.png\n", capsys)[0] == 2
    assert run_commands("true\nexit 3\n", capsys) == (3, "")


# Their commands take longest.
LONG = ("docs/cameras.md", "docs/registration.md")
COMMANDS = [
    pytest.param(page, id=name(page), marks=pytest.mark.slow if name(page) in LONG else ())
    for page in runnable("sh")
]


@pytest.mark.skipif(sys.platform == "win32", reason="the commands are for a POSIX shell")
@pytest.mark.parametrize("page", COMMANDS)
def test_commands_run(page: Path, working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks(page):
        if block.language == "sh" and not block.reason:
            assert run_commands(block.code, capsys) == (0, ""), (page, block.line)


def test_the_command_of_the_first_page_draws_the_picture_below_it(working_folder: Path) -> None:
    text = (ROOT / "docs/start.md").read_text(encoding="utf-8")
    match = re.search(r"^gridsample (explain .*)\n```\n\n!\[.*\]\((.*)\)$", text, re.MULTILINE)
    assert match is not None
    words, picture = match[1].split(), io.read(ROOT / "docs" / match[2]).array
    assert cli.main(words) == 0
    drawn = io.read(Path(words[-1])).array
    # Another version of Matplotlib may put a line elsewhere by a pixel, but no disc.
    assert drawn.shape == picture.shape
    assert np.abs(drawn.astype(int) - picture).mean() < 2


# The pieces of code on the front page: a language, a title, and code that is indented by four.
PANE = re.compile(r'^=== "(\w+)"\n\n {4}```(\w+)\n(.*?)^ {4}```$', re.MULTILINE | re.DOTALL)
PANES = [
    pytest.param(language, textwrap.dedent(code), id=f"{title}-{number}")
    for number, (title, language, code) in enumerate(
        PANE.findall((ROOT / "docs/index.md").read_text(encoding="utf-8"))
    )
]


def smooth(*shape: int) -> np.ndarray:
    """A smooth image, in which a slightly different position changes little."""
    axes = np.meshgrid(*(np.arange(size) / 9 for size in shape), indexing="ij")
    return np.prod([np.sin(axis + k) for k, axis in enumerate(axes)], 0)


def given(code: str) -> dict[str, Any]:
    """What stands for the reader's own data in a piece of code of the front page."""
    y, x = np.mgrid[:40.0, :50.0]
    image, grid = smooth(40, 50), np.stack([x, y], -1)[None] / 32 - 0.9
    names = {"np": np, "photo": smooth(40, 50).astype(np.float32), "image": image, "grid": grid}
    names |= {"x": (x + 0.3).astype(np.float32), "y": (y - 0.4).astype(np.float32)}
    names |= {"at": [y - 0.4, x + 0.3], "matrix": np.array([[0.9, 0.1, 2], [-0.1, 0.9, 3]])}
    names |= {"volume": smooth(20, 24, 28)[None, None], "theta": np.eye(3, 4)[None]}
    names |= {"flow": np.zeros((1, 40, 50, 2)), "backward": np.zeros((1, 40, 50, 2))}
    names |= {"frame2": image[None, None], "table": image, "rows": np.arange(40.0) ** 1.5}
    names |= {"columns": np.arange(50.0), "points": np.stack([y, x], -1) * [6, 0.9]}
    if "grid_sample(" in code:
        names |= {"image": image[None, None], "photo": image[None, None]}
    if "torch" in code:
        torch = pytest.importorskip("torch")
        names |= {name: torch.tensor(names[name]).requires_grad_() for name in ("image", "grid")}
    if "jax.jit" in code:
        jax = pytest.importorskip("jax")
        theta = jax.numpy.asarray([[[1.0, 0, 0], [0, 1, 0]]])
        names |= {"jax": jax, "image": jax.numpy.asarray(names["image"]), "theta": theta}
    if "gridsample.dask" in code:
        names["image"] = pytest.importorskip("dask.array").from_array(image, chunks=20)
    return names


def before_and_after(language: str, code: str) -> list[str]:
    """The code, or the two versions that a diff compares."""
    if language != "diff":
        return [code]
    lines = code.splitlines()
    return ["\n".join(line[2:] for line in lines if line[:2] != mark) for mark in ("+ ", "- ")]


@pytest.mark.parametrize(("language", "code"), PANES)
@pytest.mark.filterwarnings("ignore:Default grid_sample")  # of torch, about align_corners
def test_the_code_of_the_front_page_runs(
    language: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patches: list[Any] = []
    if "torch_compat" in code:
        patch = importlib.import_module("gridsample.torch_compat").patch
        monkeypatch.setattr("gridsample.torch_compat.patch", lambda: patches.append(patch()))
    *before, after = before_and_after(language, code)
    names = given(code)
    exec(after, names)
    for one in patches:
        one.undo()
    for version in before:
        theirs = given(code)
        with contextlib.suppress(ModuleNotFoundError):  # the peer need not be installed
            exec(version, theirs)
            np.testing.assert_allclose(np.asarray(names["out"]), theirs["out"], atol=0.01)


def test_the_pieces_of_code_are_found() -> None:
    text = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert len(PANES) == text.count('=== "') == text.count("    ```\n") >= 11
