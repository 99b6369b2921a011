"""Environments with some of the installed packages: Python does not find the others."""

from __future__ import annotations

import functools
import json
import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


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
            for name in requirement.extras:
                found |= required_by(requirement.name, name)
    return found


def required_by(package: str, extra: str = "") -> set[str]:
    """The packages that an installed package requires, or one of its extras."""
    try:
        requirements = map(Requirement, metadata.requires(package) or [])
    except metadata.PackageNotFoundError:
        return set()
    return {
        canonical(one.name)
        for one in requirements
        if one.marker is None or one.marker.evaluate({"extra": extra})
    }


@functools.cache
def closure(packages: frozenset[str]) -> frozenset[str]:
    """Packages and all that they require."""
    found: set[str] = set()
    left = set(packages)
    while left:
        package = left.pop()
        found.add(package)
        left |= required_by(package) - found
    return frozenset(found)


# Hides the modules of all other packages from Python, in a file that it runs when it starts.
HIDE = """
from importlib.machinery import PathFinder

hidden, find = set({hidden}), PathFinder.find_spec


def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in hidden else find(name, path, target)


PathFinder.find_spec = find_spec
"""


def environment_with(packages: set[str], folder: Path) -> dict[str, str]:
    """The variables of an environment with the core, some packages, and what they require."""
    allowed = closure(frozenset(packages | {"numpy", "llvmlite"}))
    hidden = [
        module
        for module, names in metadata.packages_distributions().items()
        if module != "gridsample" and not {canonical(one) for one in names} & allowed
    ]
    (folder / "sitecustomize.py").write_text(HIDE.format(hidden=json.dumps(hidden)))
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "src")])}
