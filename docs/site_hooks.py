"""What MkDocs calls while it builds the site: pages that are made from other files.

The changelog and the page for contributors lie outside this folder, a page of the reference is made
for each topic of each module that modules.md lists, the figures of the benchmarks are made from
their JSON, the gallery from its scripts, and the explorer from its parts and the package's tables.
"""

from __future__ import annotations

import html
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
import site_gallery  # noqa: E402
import site_home  # noqa: E402
import site_reference  # noqa: E402
import site_text  # noqa: E402

from gridsample._version import __version__ as VERSION  # noqa: E402
from gridsample.messages import links  # noqa: E402

# Pages from the root of the repository, and their names in the site.
FROM_ROOT = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
# Pictures of lines on white, which dark mode inverts.
DRAWINGS = {
    "boundaries", "explain-align-corners", "explain-reflection", "methods", "peers", "cpu",
    "antialiasing-footprint", "tutorial-losses", "resizing-align-corners", "resizing-modes",
}  # fmt: skip
# The length of a page's description, of which search engines show about as much.
DESCRIPTION = 160
# How much a page counts in the search: guides more than the reference, and a card least.
BOOSTS = (("reference/gridsample.grid_sample_vjp", 0.2), ("reference/gridsample.dask", 0.3))
BOOSTS += (("reference/", 0.4), ("gallery/", 0.5), ("changelog", 0.1), ("architecture", 0.2))
BOOSTS += tuple(
    (page, 0.2)
    for page in ("subsystems", "extending", "measurements", "kernels", "contributing", "suites")
)
BOOSTS += (("benchmarks/", 0.3), ("operators", 0.4))
BOOSTS += (("recipes", 4), ("coordinates", 6), ("cheatsheet", 3), ("cite", 4), ("", 2))

# Pages that few read from start to end, and the level of their headings whose sections are closed.
FOLDED = {"subsystems.md": 2, "extending.md": 2, "measurements.md": 2, "changelog.md": 3}
FOLDED |= {"benchmarks/cpu.md": 2, "benchmarks/figures.md": 3}


def pages_of(nav: list[Any]) -> list[str]:
    """All paths in a part of the navigation."""
    paths: list[str] = []
    for entry in nav:
        values = entry.values() if isinstance(entry, dict) else [entry]
        for value in values:
            paths += pages_of(value) if isinstance(value, list) else [value]
    return paths


def section(nav: list[Any], title: str) -> list[Any]:
    """The entries of a section of the navigation."""
    return next(entry[title] for entry in nav if title in entry)


def on_config(config: Any) -> Any:
    """Set the address, and complete the navigation: the reference, and pages not listed."""
    config.site_url = links.ADDRESS or None
    config.copyright = f"gridsample {VERSION} · MIT licence"
    section(config.nav, "Reference").extend(site_reference.navigation())
    listed = set(pages_of(config.nav))
    written = (path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md")))
    section(config.nav, "Guides").extend(page for page in written if page not in listed)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in this folder."""
    made = {page: (ROOT / name).read_text(encoding="utf-8") for name, page in FROM_ROOT.items()}
    made |= site_reference.pages() | site_gallery.files()
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
    uri = page.file.src_uri
    if uri == "index.md":
        site_home.check(markdown)
        page.meta |= {"hide": ["navigation", "toc"], "template": "home.html"}
    if uri in FROM_ROOT.values():
        markdown = markdown.replace("](docs/", "](")
    if uri == "gallery/README.md":
        page.meta["hide"] = ["navigation", "toc"]
        markdown = markdown.replace(".py)", ".md)")
    markdown = re.sub(r"\]\((gallery/\w+)\.py\)", r"](\1.md)", markdown)
    if uri.startswith("reference/"):
        names = re.sub("[`#]", "", markdown.partition("\n")[0]).strip()
        page.meta["description"] = f"Reference of {names}: arguments, results, errors and examples."
    page.meta["search"] = {"boost": next(boost for start, boost in BOOSTS if uri.startswith(start))}
    if uri == "index.md":
        page.meta["search"] = {"exclude": True}  # all of it stands on other pages, too
    return site_text.typeset(markdown)


def lazy(match: re.Match[str], folder: Path) -> str:
    """Load a picture when it comes near the window; its size keeps the text below in place."""
    path = folder / match[2]
    if path.suffix not in (".png", ".webp") or not path.is_file():
        return match[0]
    width, height = site_text.size_of(path)
    drawn = path.stem in DRAWINGS and path.parent.name in ("images", "benchmarks")
    drawing = ' class="drawing"' if drawn else ""
    # Those of the front page that show before scrolling are loaded at once.
    when = "" if path.parent.name == "home" else ' loading="lazy"'
    return f'{match[1]} width="{width}" height="{height}"{when}{drawing}'


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Describe a page, for search engines and shared links, and load its pictures when needed."""
    content = site_home.fill(content)
    if page.file.src_uri in FOLDED:
        content = site_text.folded(content, FOLDED[page.file.src_uri])
    start = content.partition("<h2")[0]
    first = re.search(r"<p>(?!<img|<a )(.*?)</p>", start, re.DOTALL)
    if first is not None:
        words = html.unescape(re.sub(r"<[^>]*>", "", first[1]))
        short = textwrap.shorten(words, DESCRIPTION, placeholder=" ...")
        page.meta.setdefault("description", html.escape(short))
    if page.file.src_uri == "gallery/README.md":
        content = site_gallery.compared(content)
    folder = (DOCS / page.file.src_uri).parent
    return re.sub(r'(<img [^>]*src="([^"]*)")', lambda match: lazy(match, folder), content)


def on_post_page(output: str, page: Any = None, **_: Any) -> str:
    """Remove two attributes of the theme that HTML does not allow there, and hide its icons."""
    if page is not None and not page.file.src_uri.startswith("reference/"):
        output = re.sub(r'\s*<link[^>]*_mkdocstrings.css">', "", output)
    output = output.replace(' tabindex=""', "")
    output = output.replace('role="dialog">', 'role="dialog" aria-label="Search">')
    # Empty lines are left out, but not those of code.
    parts = re.split(r"(<pre.*?</pre>)", output, flags=re.DOTALL)
    parts[::2] = [re.sub(r"\n\s*\n+", "\n", part) for part in parts[::2]]
    output = "".join(parts)
    # The links and buttons around them have names.
    output = output.replace("<svg xmlns=", '<svg aria-hidden="true" xmlns=')
    return re.sub(r'(<input[^>]* type="checkbox"[^>]*) autocomplete="off"', r"\1", output)


def on_post_build(config: Any) -> None:
    """Store the style sheet without its comments and indents."""
    path = Path(config.site_dir) / "site.css"
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    path.write_text(re.sub(r"\s*\n\s*", "", text), encoding="utf-8")


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    """Do the same to the page for missing addresses."""
    return on_post_page(output_content) if template_name.endswith(".html") else output_content
