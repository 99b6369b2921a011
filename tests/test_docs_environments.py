"""Each page runs in an environment with just what the page says to install."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from environments import canonical, closure, environment_with, packages_of
from test_docs import LONG, PAGES, ROOT, blocks, name

# Modules that are not named as their packages are.
PACKAGES = {"cv2": "opencv-python-headless", "skimage": "scikit-image", "PIL": "pillow"}
INSTALLED = re.compile(r"(?:gridsample|\.)\[([\w,]+)\]")
# What stands after `pip install`, up to the end of the code.
PLAIN = re.compile(r"pip\s+install\s([^`]*?)(?:`|\n(?!\w))")
# Modules of gridsample that need an extra.
NEEDS = {"dask": "dask", "jax": "jax", "nn": "torch", "onnx": "onnx", "torch_compat": "torch"}
NEEDS |= {"xarray": "xarray", "zarr": "zarr"}
# They are about working on the project, or about code that they do not run.
PROJECT_PAGES = ("architecture", "subsystems", "extending", "measurements", "kernels", "suites")
OTHERS = {"CONTRIBUTING.md", *(f"docs/{page}.md" for page in PROJECT_PAGES)}
GUIDES = [page for page in PAGES if name(page) not in OTHERS]


def said(page: Path) -> set[str]:
    """The packages that a page says to install, and those of the core."""
    text = page.read_text(encoding="utf-8")
    found = {"numpy", "llvmlite"}
    for extras in INSTALLED.findall(text):
        for extra in extras.split(","):
            found |= packages_of(extra)
    for words in PLAIN.findall(text):
        found |= {canonical(word) for word in words.split() if re.fullmatch(r"[\w-]+", word)}
    return found


def imported(code: str) -> Iterator[str]:
    """The packages of the modules that a block imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [str(node.module)]
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for module in modules:
            first, *rest = module.split(".")
            if first == "gridsample":
                yield from packages_of(NEEDS[rest[0]]) if rest and rest[0] in NEEDS else ()
            elif first not in sys.stdlib_module_names:
                yield canonical(PACKAGES.get(first, first))


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_a_page_says_what_it_imports(page: Path) -> None:
    runnable = [block for block in blocks(page) if not block.reason]
    needed = {
        package
        for block in runnable
        if block.language == "python"
        for package in imported(block.code)
    }
    # The other commands are read with the standard library, and print text.
    files = re.compile(r"^gridsample (?!doctor|explain|modes)", re.MULTILINE)
    if any(block.language == "sh" and files.search(block.code) for block in runnable):
        needed |= packages_of("cli") & {"tifffile", "pillow"}
    assert needed - said(page) == set()


def codes(page: Path) -> list[str]:
    """The blocks of Python of a page, unless they read the files that commands write."""
    ours = [block for block in blocks(page) if not block.reason]
    if any(block.language == "sh" for block in ours):
        return []
    return [block.code for block in ours if block.language == "python"]


def pages_by_environment() -> list[list[Path]]:
    """The pages with code, together if they say to install the same packages."""
    groups: dict[frozenset[str], list[Path]] = {}
    for page in GUIDES:
        if codes(page):
            groups.setdefault(closure(frozenset(said(page))), []).append(page)
    return [*groups.values()]


# Runs the pages in these folders, each with names of its own.
RUN = """
import os, sys

for folder in sys.argv[1:]:
    os.chdir(folder)
    print(folder, file=sys.stderr)
    with open("page.py", encoding="utf-8") as page:
        exec(page.read(), {"__name__": "__main__"})
"""


@pytest.mark.slow
@pytest.mark.parametrize("pages", pages_by_environment(), ids=lambda pages: name(pages[0]))
def test_pages_run_with_what_they_say_to_install(pages: list[Path], tmp_path: Path) -> None:
    folders = [tmp_path / name(page).replace("/", "-") for page in pages]
    for folder, page in zip(folders, pages, strict=True):
        folder.mkdir()
        (folder / "page.py").write_text("\n".join(codes(page)), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, folders)],
        env=environment_with(said(pages[0]), tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_what_a_page_says_is_found() -> None:
    assert {"torch", "numpy"} <= said(ROOT / "docs/registration.md")
    assert "torch" not in said(ROOT / "docs/labels.md")
    assert set(imported("import skimage.data, os\nfrom gridsample import dask")) == {
        "scikit-image",
        *packages_of("dask"),
    }
    assert set(LONG) <= set(map(name, PAGES))
