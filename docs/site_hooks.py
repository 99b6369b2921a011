"""What MkDocs calls while it builds the site: pages that are made from other files.

The changelog and the page for contributors lie outside this folder, a page of the reference is made
for each module that modules.md lists, the figures of the benchmarks are made from their JSON, and
the explorer from its parts and the package's tables.
"""

from __future__ import annotations

import ast
import html
import importlib
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))

import site_explorer  # noqa: E402  # of this folder
import site_figures  # noqa: E402

from gridsample.definitions import links  # noqa: E402

# Pages from the root of the repository, and their names in the site.
FROM_ROOT = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
# The length of a page's description, of which search engines show about as much.
DESCRIPTION = 160
MODULE = re.compile(r"^## `(gridsample[\w.]*)`$", re.MULTILINE)


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


def in_order(module: str) -> list[str]:
    """The names of a module in the order of modules.md, then the others."""
    text = (DOCS / "modules.md").read_text(encoding="utf-8")
    part = text.partition(f"## `{module}`\n")[2].partition("\n## ")[0]
    listed = re.findall(r"`(\w+)`", part)
    names = exported(module) or listed
    return sorted(names, key=lambda name: listed.index(name) if name in listed else len(listed))


def reference(module: str) -> str:
    """The page of a module."""
    names = ", ".join(f'"{name}"' for name in in_order(module) if not name.isupper())
    options = f"    options:\n      members: [{names}]\n"
    return f"# `{module}`\n\n::: {module}\n{options}\n{constants(module)}"


def pages_of(nav: list[Any]) -> list[str]:
    """All paths in a part of the navigation."""
    found: list[str] = []
    for one in nav:
        values = one.values() if isinstance(one, dict) else [one]
        for value in values:
            found += pages_of(value) if isinstance(value, list) else [value]
    return found


def section(nav: list[Any], title: str) -> list[Any]:
    """The entries of a section of the navigation."""
    return next(one[title] for one in nav if title in one)


def on_config(config: Any) -> Any:
    """Set the address, and complete the navigation: the reference, and pages not listed."""
    config.site_url = links.ADDRESS or None
    section(config.nav, "Reference").extend(f"reference/{module}.md" for module in modules())
    listed = set(pages_of(config.nav))
    written = (path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md")))
    section(config.nav, "Guides").extend(page for page in written if page not in listed)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in this folder."""
    made = {page: (ROOT / name).read_text(encoding="utf-8") for name, page in FROM_ROOT.items()}
    made |= {f"reference/{module}.md": reference(module) for module in modules()}
    made["benchmarks/figures.md"] = site_figures.page()
    made["explorer/index.html"] = site_explorer.page()
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links between this folder and the root of the repository to pages of the site."""
    for name, target in FROM_ROOT.items():
        markdown = markdown.replace(f"](../{name}", f"]({target}").replace(
            f"]({name}", f"]({target}"
        )
    if page.file.src_uri in FROM_ROOT.values():
        markdown = markdown.replace("](docs/", "](")
    return markdown


def on_page_content(content: str, page: Any, **_: Any) -> None:
    """Describe a page, for search engines and shared links, by its first paragraph."""
    start = content.partition("<h2")[0]
    first = re.search(r"<p>(?!<img|<a )(.*?)</p>", start, re.DOTALL)
    if first is not None:
        words = html.unescape(re.sub(r"<[^>]*>", "", first[1]))
        short = textwrap.shorten(words, DESCRIPTION, placeholder=" ...")
        page.meta.setdefault("description", html.escape(short))


def on_post_page(output: str, **_: Any) -> str:
    """Leave out two attributes that HTML does not allow where the theme has them, and hide icons."""
    output = output.replace(' tabindex=""', "")
    output = output.replace("<svg xmlns=", '<svg aria-hidden="true" xmlns=')  # their links have names
    return re.sub(r'(<input[^>]* type="checkbox"[^>]*) autocomplete="off"', r"\1", output)


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    """Do the same to the page that servers show if there is none."""
    return on_post_page(output_content) if template_name.endswith(".html") else output_content
