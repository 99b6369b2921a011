"""The reference: a page for each module of modules.md, and one for each topic of a large module.

An item of a module's list in modules.md is a topic; its page holds the names that the item lists.
"""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from pathlib import Path
from typing import Any

import site_gallery

DOCS = Path(__file__).parent
ROOT = DOCS.parent
MODULE = re.compile(r"^## `(gridsample[\w.]*)`$", re.MULTILINE)
# Modules with more names than this have a page for each topic.
MANY = 8


def modules() -> list[str]:
    """The public modules, in the order of modules.md."""
    return MODULE.findall((DOCS / "modules.md").read_text(encoding="utf-8"))


def exported(module: str) -> list[str]:
    """The names in a module's `__all__`, which is read without importing the module."""
    path = ROOT / "src" / Path(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def items(module: str) -> list[str]:
    """The items of a module's list."""
    text = (DOCS / "modules.md").read_text(encoding="utf-8")
    part = text.partition(f"## `{module}`\n")[2].partition("\n## ")[0]
    return re.split(r"^\* ", part, flags=re.MULTILINE)[1:]


def topics(module: str) -> list[list[str]]:
    """The names of a module by topic; names that no item lists are the last topic."""
    names = exported(module)
    names = [name for name in names or re.findall(r"`(\w+)`", "".join(items(module)))]
    grouped: list[list[str]] = []
    left = [name for name in names if not name.isupper() and not name.startswith("_")]
    for item in items(module):
        listed = dict.fromkeys(re.findall(r"`(\w+)`", item))
        topic = [name for name in listed if name in left]
        left = [name for name in left if name not in topic]
        grouped += [topic] if topic else []
    return grouped + ([left] if left else [])


def is_large(module: str) -> bool:
    """Whether a module has a page for each topic."""
    return len(topics(module)) > 1 and sum(map(len, topics(module))) > MANY


def path_of(module: str, topic: list[str]) -> str:
    """The path of a topic's page."""
    return f"reference/{module}.{topic[0]}.md"


# The menus of the reference, each with at most seven entries.
GROUPS = {
    "Arrays and grids": (
        "gridsample", "gridsample.methods", "gridsample.fields", "gridsample.operators",
    ),
    "In place of": (
        "gridsample.torch_compat", "gridsample.jax", "gridsample.ndimage",
        "gridsample.interpolators", "gridsample.cv", "gridsample.skimage",
    ),
    "Cameras and volumes": (
        "gridsample.cameras", "gridsample.registration", "gridsample.medical", "gridsample.world",
    ),
    "Large data": ("gridsample.dask", "gridsample.zarr", "gridsample.xarray", "gridsample.geo"),
    "Files": (
        "gridsample.io.fields", "gridsample.io.transforms", "gridsample.io.calibration",
        "gridsample.io.cube", "gridsample.io.omezarr", "gridsample.io.rfc5",
    ),
    "Models and tools": (
        "gridsample.nn", "gridsample.onnx", "gridsample.backends", "gridsample.doctor",
    ),
}  # fmt: skip
FEW = 6


def entry(module: str, titles: set[str]) -> Any:
    """The entry of a module: a page, or a menu of its topics; titles of pages are all different."""
    start, pages = f"reference/{module}.md", list[Any]()
    for topic in topics(module):
        title = ", ".join(topic[:2])
        title = f"{module}: {title}" if title in titles else title
        titles.add(title)
        pages.append({title: path_of(module, topic)})
    if not is_large(module):
        return start
    overview = {f"All of {module}": start}
    if len(pages) > FEW:
        rest = {f"More of {module}": pages[FEW - 1 :]}
        return {module: [overview, *pages[: FEW - 1], rest]}
    return {module: [overview, *pages]}


def navigation() -> list[Any]:
    """The entries of the reference; modules that no group lists follow the groups."""
    titles: set[str] = set()
    entries = {module: entry(module, titles) for module in modules()}
    menus: list[Any] = [
        {group: [entries.pop(module) for module in names]} for group, names in GROUPS.items()
    ]
    return menus + list(entries.values())


def shortened(value: object) -> str:
    """A value in a cell of a table."""
    return textwrap.shorten(str(value), 80, placeholder=" ...").replace("|", "\\|")


def constants(module: str) -> str:
    """A table of a module's constants, which have no docstrings."""
    names = [name for name in exported(module) if name.isupper()]
    if not names:
        return ""
    values = importlib.import_module(module)
    rows = (
        f'| <span id="{module}.{name}">`{name}`</span> | `{shortened(getattr(values, name))}` |'
        for name in names
    )
    return "\n".join(["## Constants", "", "| name | value |", "|---|---|", *rows, ""])


def members(module: str, names: list[str]) -> str:
    """The docstrings of some names of a module, without the module's own."""
    lines = [
        f"::: {module}.{name}\n    options:\n      show_root_heading: true\n" for name in names
    ]
    return "\n".join(lines)


def clauses(module: str) -> list[tuple[list[str], str]]:
    """The names of a module's list and what is said about them, in the order of the list."""
    entries = []
    for item in items(module):
        for clause in re.split(r"\.\s+(?=`)", item):
            names, _, text = " ".join(clause.split()).partition(": ")
            text = text.rstrip(".").replace("](", "](../")
            entries.append((re.findall(r"`(\w+)`", names), text))
    return entries


def overview(module: str) -> str:
    """The page of a module with a page for each topic."""
    lines = [f"# `{module}`", "", f"::: {module}", "    options:", "      members: []", ""]
    lines += ["| names | |", "|---|---|"]
    page_of = {name: topic[0] for topic in topics(module) for name in topic}
    left = dict(page_of)
    for names, text in [*clauses(module), (list(page_of), "")]:
        links = ", ".join(
            f"[`{name}`]({module}.{left.pop(name)}.md#{module}.{name})"
            for name in names
            if name in left
        )
        lines += [f"| {links} | {text} |"] if links else []
    return "\n".join(lines) + f"\n\n{constants(module)}"


def used(names: list[str]) -> str:
    """The cards of the gallery that call one of some functions, four at most."""
    calls = re.compile(rf"\b(?:{'|'.join(names)})\(")
    cards = [site_gallery.read(name) for part in site_gallery.SECTIONS.values() for name in part]
    using = [card for card in cards if calls.search(card.code)][:4]
    links = " · ".join(f"[{card.title}](../gallery/{card.name}.md)" for card in using)
    return f" In the gallery: {links}" if links else ""


def pages() -> dict[str, str]:
    """All pages of the reference by their paths."""
    made: dict[str, str] = {}
    for module in modules():
        start = f"reference/{module}.md"
        if not is_large(module):
            names = ", ".join(f'"{name}"' for topic in topics(module) for name in topic)
            options = f"    options:\n      members: [{names}]\n"
            made[start] = f"# `{module}`\n\n::: {module}\n{options}\n{constants(module)}"
            continue
        made[start] = overview(module)
        for topic in topics(module):
            title = ", ".join(f"`{name}`" for name in topic[:3]) + " ..." * (len(topic) > 3)
            parts = f"# {title}\n\nPart of [`{module}`]({module}.md).{used(topic)}\n\n"
            made[path_of(module, topic)] = parts + members(module, topic)
    return made
