"""Releases: the wheel, the sdist, and the files that name the version."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import gridsample
from gridsample.messages.links import TOPICS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = gridsample.__version__


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_file_names_the_same_version() -> None:
    assert re.search(r"^version: (.*)$", text("CITATION.cff"), re.MULTILINE)[1] == VERSION
    assert re.search(r'^  version: "(.*)"$', text("conda/recipe.yaml"), re.MULTILINE)[1] == VERSION
    dated = re.search(rf"^## \[{re.escape(VERSION)}\] - (.*)$", text("CHANGELOG.md"), re.MULTILINE)
    released = re.search(r"^date-released: (.*)$", text("CITATION.cff"), re.MULTILINE)
    assert dated[1] == released[1]


def test_the_recipe_has_the_requirements_of_the_project() -> None:
    needed = {requirement.replace(">=", " >=", 1) for requirement in PROJECT["dependencies"]}
    needed.add(f"python {PROJECT['requires-python']}")
    run = text("conda/recipe.yaml").partition("  run:\n")[2].partition("\n\n")[0]
    assert {line.removeprefix("    - ") for line in run.splitlines()} == needed
    (command,) = PROJECT["scripts"].items()
    assert f"- {command[0]} = {command[1]}" in text("conda/recipe.yaml")


def test_the_table_of_versions_matches_the_requirements() -> None:
    table = text("docs/releases.md")
    oldest = dict(requirement.split(">=") for requirement in PROJECT["dependencies"])
    (oldest["torch"],) = (
        requirement.split(">=")[1] for requirement in PROJECT["optional-dependencies"]["torch"]
    )
    for package, version in oldest.items():
        assert re.search(rf"^\| {package}[^|]*\| {version} or later", table, re.MULTILINE | re.I)
    first, last = re.findall(r"3\.\d+", PROJECT["requires-python"])
    before = f"3.{int(last.partition('.')[2]) - 1}"
    assert f"| Python | {first} to {before} |" in table


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist, built by hatchling from the working tree."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.mark.slow
def test_both_archives_pass_twine_check(built: tuple[Path, Path]) -> None:
    words = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def tracked(*folders: str) -> set[str]:
    """The files of some folders, without what tools leave there."""
    files = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    names = (path.relative_to(ROOT).as_posix() for path in files)
    return {name for name in names if not re.search(r"__pycache__|\.pyc$|\.egg-info|/\.", name)}


@pytest.mark.slow
def test_the_wheel_has_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    wheel, _ = built
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        about = f"gridsample-{VERSION}.dist-info"
        metadata = email.message_from_bytes(archive.read(f"{about}/METADATA"))
        commands = archive.read(f"{about}/entry_points.txt").decode()
    expected = {name.removeprefix("src/") for name in tracked("src")}
    expected |= {f"gridsample/docs/{page}.md" for page, _ in TOPICS.values()}
    parts = "METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"
    assert names == expected | {f"{about}/{part}" for part in parts}
    assert wheel.name == f"gridsample-{VERSION}-py3-none-any.whl"
    assert metadata["License-Expression"] == "MIT" and metadata["Version"] == VERSION
    assert "gridsample = gridsample.cli:main" in commands
    assert wheel.stat().st_size < 2_000_000


@pytest.mark.slow
def test_the_tests_can_be_run_from_the_sdist(built: tuple[Path, Path]) -> None:
    _, sdist = built
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    files = {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md", "PKG-INFO"}
    files |= {"mkdocs.yml", "pyproject.toml", ".gitignore", "conda/recipe.yaml"}
    assert names == files | tracked("src", "tests", "benchmarks", "docs")
