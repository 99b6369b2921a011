"""The gallery: a page for each script in docs/gallery, offered as a script and as a notebook.

A script begins with a docstring: its title, and what it shows.  It writes NAME.png to the current
folder; `make_gallery.py` keeps a copy, NAME.webp, beside the script, and a small one in small/.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "gallery"
# The cards in the order of the page: four fill a row, two fill one on a phone.
SECTIONS = {
    "Warps": (
        "rotate", "perspective", "crop_zoom", "polar", "swirl", "elastic", "thin_plate",
        "opencv_swap",
    ),
    "Quality and colour": (
        "antialiasing", "floor", "splines", "boundaries", "pyramid", "colour_table",
    ),
    "Labels, holes, measurements": (
        "labels", "holes", "elevation", "relief", "mercator", "cells", "profile",
        "point_features",
    ),
    "Flow and registration": (
        "flow_warp", "occlusions", "view_between", "matching", "flow_colours", "registration",
    ),
    "Cameras and volumes": ("lens", "panorama", "stereo", "views", "volume_slices", "spacing"),
    "Learning and deployment": (
        "torch_training", "spatial_transformer", "onnx_export", "scipy_swap",
    ),
}  # fmt: skip
# The guide of each card.
GUIDES = {
    "coordinates": ("crop_zoom", "polar", "swirl"),
    "recipes": ("rotate", "elastic", "profile", "point_features"),
    "gradients": ("relief",), "colour": ("colour_table",), "rasters": ("mercator", "cells"),
    "boundaries": ("boundaries",), "antialiasing": ("antialiasing", "floor"),
    "methods": ("splines",), "labels": ("labels",), "missing": ("holes", "elevation"),
    "resizing": ("pyramid",), "fields": ("perspective", "flow_colours", "thin_plate"),
    "flow": ("flow_warp", "occlusions"), "registration": ("registration",),
    "cameras": ("lens", "panorama", "stereo", "views"), "world": ("volume_slices", "spacing"),
    "tutorial_gradients": ("torch_training",), "torch": ("spatial_transformer",),
    "onnx": ("onnx_export",), "operators": ("view_between", "matching"),
    "ndimage": ("scipy_swap",), "cv": ("opencv_swap",),
}  # fmt: skip


# The panels of a card's picture, from left to right: how many, the one with the result, and the one
# to compare it with.  The last number is the height on which a crop is centred.
PANELS: dict[str, tuple[int, int, int | None, float]] = {
    "rotate": (3, 2, 0, 0.3), "crop_zoom": (3, 2, 0, 0.5), "boundaries": (1, 0, None, 0.5),
    "splines": (4, 3, 1, 0.4), "labels": (3, 2, 0, 0.55), "holes": (3, 2, 1, 0.5),
    "flow_colours": (4, 1, 2, 0.35), "registration": (3, 2, 1, 0.3), "views": (3, 2, 0, 0.5),
    "volume_slices": (3, 1, 0, 0.5), "torch_training": (5, 2, 0, 0.4),
    "opencv_swap": (2, 1, 0, 0.5),
    "scipy_swap": (2, 1, 0, 0.35), "swirl": (2, 1, 0, 0.45), "floor": (2, 1, 0, 0.4),
    "flow_warp": (2, 1, 0, 0.68), "occlusions": (2, 1, 0, 0.45), "panorama": (2, 1, 0, 0.5),
    "spatial_transformer": (1, 0, None, 0.5), "point_features": (1, 0, None, 0.5),
    "colour_table": (2, 1, 0, 0.75),
}  # fmt: skip
USUAL = (2, 1, 0, 0.5)
# Where a thumbnail shows a part: how much larger, and where its middle is along x.
CROPS = {
    "boundaries": (1.0, 1.0), "polar": (1.1, 0.4), "swirl": (1.12, 0.42),
    "antialiasing": (1.6, 0.5),
    "flow_warp": (1.9, 0.72), "occlusions": (1.9, 0.3), "spatial_transformer": (1.0, 1.0),
}  # fmt: skip


class Card(NamedTuple):
    """A script: its name, title, text and code."""

    name: str
    title: str
    text: str
    code: str


def read(name: str) -> Card:
    """Read a script."""
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    title, _, text = docstring.partition("\n\n")
    return Card(name, title, text, source.split('"""', 2)[2].lstrip())


def anchor(title: str) -> str:
    """The address of a heading in its page."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")


def index() -> str:
    """The page of all cards, docs/gallery/README.md: on code hosts, its links lead to scripts."""
    parts = [
        "# Gallery",
        "Each picture is the result of a short script on a photo or volume that ships with "
        "scikit-image, Matplotlib or nibabel. The scripts run unchanged: `pip install "
        '"gridsample[cli]" scikit-image`, for some cards also torch, onnxruntime or pyproj.',
        " ".join(f"[{section}](#{anchor(section)})" for section in SECTIONS) + "\n{ .jumps }",
    ]
    for section, names in SECTIONS.items():
        parts += [f"## {section}", '<div class="gallery" markdown>']
        parts += ["\n".join(map(item, map(read, names))), "</div>"]
    return "\n\n".join(parts) + "\n"


def item(card: Card) -> str:
    """A card in the list: its result alone, and its title."""
    return f"* [![](small/{card.name}.webp) {card.title}]({card.name}.py)"


def compared(content: str) -> str:
    """The list with a button for each card that has a picture of what its result was made from."""

    def add(match: re.Match[str]) -> str:
        card, name, title = match.groups()
        if not (FOLDER / "small" / f"{name}-before.webp").is_file():
            return match[0]
        return (
            f'{card}<button type="button" class="before" data-picture="small/{name}-before.webp"'
            f' aria-pressed="false" aria-label="Before: {title.strip()}" hidden>before</button>'
        )

    return re.sub(r'(<a [^>]*><img [^>]*src="small/(\w+)\.webp"[^>]*>([^<]*)</a>)', add, content)


def page(card: Card) -> str:
    """The page of a card."""
    picture = f"![{card.title}: the result]({card.name}.webp)"
    every = [name for names in SECTIONS.values() for name in names]
    at = every.index(card.name)
    before, after = read(every[at - 1]), read(every[(at + 1) % len(every)])
    guide = next(guide for guide, names in GUIDES.items() if card.name in names)
    heading = (FOLDER.parent / f"{guide}.md").read_text(encoding="utf-8").partition("\n")[0]
    around = f"[← {before.title}]({before.name}.md) [Gallery](README.md)"
    around += f" [{after.title} →]({after.name}.md)\n{{ .around }}"
    links = f"[{card.name}.py]({card.name}.py){{ download }} · "
    links += f"[{card.name}.ipynb]({card.name}.ipynb){{ download }}"
    links += f" · Guide: [{heading.removeprefix('# ')}](../{guide}.md)"
    code = f"```python\n{card.code}```"
    return "\n\n".join(
        [f"# {card.title}", card.text, picture, code, f"Download: {links}", f"{around}\n"]
    )


def notebook(card: Card) -> str:
    """A card as a notebook."""
    cells = [
        ("markdown", f"# {card.title}\n\n{card.text}"),
        ("code", card.code.rstrip()),
        ("code", f'from IPython.display import Image\n\nImage("{card.name}.png")'),
    ]
    document = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"language_info": {"name": "python"}},
        "cells": [
            {"cell_type": kind, "id": f"cell{i}", "metadata": {}, "source": text}
            | ({"execution_count": None, "outputs": []} if kind == "code" else {})
            for i, (kind, text) in enumerate(cells)
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def files() -> dict[str, str]:
    """The pages and notebooks by their paths."""
    cards = [read(name) for names in SECTIONS.values() for name in names]
    pages = {f"gallery/{card.name}.md": page(card) for card in cards}
    return pages | {f"gallery/{card.name}.ipynb": notebook(card) for card in cards}
