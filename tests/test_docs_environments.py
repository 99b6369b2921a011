"""Each page runs in an environment with just what the page says to install."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from test_docs import LONG, PAGES, ROOT, blocks, name

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# Modules that are not named as their packages are.
PACKAGES = {"cv2": "opencv-python-headless", "skimage": "scikit-image", "PIL": "pillow"}
INSTALLED = re.compile(r"(?:gridsample|\.)\[([\w,]+)\]")
# What stands after `pip install`, up to the end of the code.
PLAIN = re.compile(r"pip\s+install\s([^`]*?)(?:`|\n(?!\w))")
# Modules of gridsample that need an extra.
NEEDS = {"dask": "dask", "jax": "jax", "nn": "torch", "onnx": "onnx", "torch_compat": "torch"}
NEEDS |= {"xarray": "xarray", "zarr": "zarr"}
# They are about working on the project, or about code that they do not run.
OTHERS = {"CONTRIBUTING.md", "docs/architecture.md", "docs/kernels.md", "docs/suites.md"}
GUIDES = [page for page in PAGES if name(page) not in OTHERS]


def canonical(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def packages_of(extra: str) -> set[str]:
    """The packages of an extra, and of the extras that it names."""
    found: set[str] = set()
    for line in EXTRAS[extra]:
        requirement = Requirement(line)
        if requirement.name == "gridsample":
            found = found.union(*map(packages_of, requirement.extras))
        else:
            found.add(canonical(requirement.name))
    return found


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


@functools.cache
def closure(packages: frozenset[str]) -> frozenset[str]:
    """Packages and all that they require."""
    found: set[str] = set()
    left = set(packages)
    while left:
        package = left.pop()
        found.add(package)
        try:
            lines = metadata.requires(package) or []
        except metadata.PackageNotFoundError:
            continue
        requirements = map(Requirement, lines)
        left |= {
            canonical(one.name)
            for one in requirements
            if one.marker is None or one.marker.evaluate({"extra": ""})
        } - found
    return frozenset(found)


# Hides the modules of all other packages from Python, in a file that it runs when it starts.
HIDE = """
import sys

hidden = set({hidden})

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
"""


@pytest.mark.slow
@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_a_page_runs_with_what_it_says_to_install(page: Path, tmp_path: Path) -> None:
    codes = [b.code for b in blocks(page) if b.language == "python" and not b.reason]
    if not codes or any(b.language == "sh" and not b.reason for b in blocks(page)):
        pytest.skip("it has no Python to run, or commands whose files Python reads")
    allowed = closure(frozenset(said(page)))
    hidden = [
        module
        for module, packages in metadata.packages_distributions().items()
        if module != "gridsample" and not {canonical(one) for one in packages} & allowed
    ]
    (tmp_path / "sitecustomize.py").write_text(HIDE.format(hidden=json.dumps(hidden)))
    (tmp_path / "page.py").write_text("\n".join(codes), encoding="utf-8")
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
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
