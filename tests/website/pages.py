"""Reads the pages of a built site: their ids, links and resources, and their faults."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

# Elements without an end tag, and those whose end tag may be left out.
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
MAY_END = {"dd", "dt", "li", "option", "p", "rb", "rp", "rt", "tbody", "td", "th", "thead", "tr"}


class Page(HTMLParser):
    """One page, read to its end."""

    def __init__(self, text: str) -> None:
        """Read a page."""
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.resources: list[str] = []
        self.faults: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is not closed" for tag in self.open if tag not in MAY_END]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the element has."""
        names = [name for name, _ in attrs]
        attributes = dict(attrs)
        for name in {name for name in names if names.count(name) > 1}:
            self.faults.append(f"<{tag}> has {name} twice at {self.getpos()}")
        if attributes.get("id"):
            self.ids.append(str(attributes["id"]))
        if tag == "a" and attributes.get("href"):
            self.links.append(str(attributes["href"]))
        source = attributes.get("src") or (
            attributes.get("href") if tag in ("link", "use") else None
        )
        if source and attributes.get("rel") not in ("canonical", "next", "prev"):
            self.resources.append(str(source))
        for candidate in (attributes.get("srcset") or "").split(","):
            self.resources += candidate.split()[:1]
        if tag == "img" and attributes.get("alt") is None:
            self.faults.append(f"<img> has no alt at {self.getpos()}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that is closed at once, as those of SVG may be."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element, which must be of this name."""
        while self.open and self.open[-1] != tag and self.open[-1] in MAY_END:
            self.open.pop()
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes nothing at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        """Note the text."""
        self.text.append(data)


@functools.cache
def read(path: Path) -> Page:
    """A page of a site."""
    return Page(path.read_text(encoding="utf-8"))


def faults(path: Path) -> Iterator[str]:
    """What is wrong with a page by itself."""
    page = read(path)
    yield from page.faults
    for name in {name for name in page.ids if page.ids.count(name) > 1}:
        yield f"the id {name!r} is there more than once"
    for name in page.resources:
        if urlsplit(name).netloc:
            yield f"{name} is loaded from another host"


def broken(path: Path, site: Path) -> Iterator[str]:
    """The links and resources of a page that lead to nothing in the site."""
    page = read(path)
    for link in (*page.links, *page.resources):
        address, fragment = urldefrag(link)
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        place = unquote(parts.path)
        target = (site / place[1:] if place.startswith("/") else path.parent / place).resolve()
        if not place:
            target = path
        elif place.endswith("/") or target.is_dir():
            target = target / "index.html"
        if not target.exists():
            yield f"{link}: there is no such file"
        elif fragment.startswith("__") or "=" in fragment or target.suffix != ".html":
            pass  # the theme's own scripts make the ids that begin so; a state of the explorer
        elif fragment and unquote(fragment) not in read(target).ids:
            yield f"{link}: there is no such id"
