"""The gallery: a page for each script in docs/gallery, offered as a script and as a notebook.

A script begins with a docstring: its title, and what it shows.  It writes NAME.png to the current
folder; `make_gallery.py` keeps a copy, NAME.webp, beside the script, and a small one in small/.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "gallery"
# The cards in the order of the page.
SECTIONS = {
    "Warps": ("rotate", "perspective", "crop_zoom", "polar", "swirl", "elastic", "boundaries"),
    "Quality": ("antialiasing", "floor", "splines", "pyramid"),
    "Labels, holes, measurements": ("labels", "holes", "elevation", "profile"),
    "Flow and registration": (
        "flow_warp", "occlusions", "flow_colours", "registration",
    ),
    "Cameras and volumes": (
        "lens", "panorama", "stereo", "views", "volume_slices", "spacing",
    ),
    "Learning and deployment": ("torch_training", "spatial_transformer", "onnx_export"),
    "In place of other libraries": ("scipy_swap", "opencv_swap"),
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


def index() -> str:
    """The page of all cards, docs/gallery/README.md: on code hosts, its links lead to scripts."""
    parts = [
        "# Gallery",
        "Each picture is the result of a short script on a photo or volume that ships with "
        "scikit-image, Matplotlib or nibabel. The scripts run as they are: `pip install "
        '"gridsample[cli]" scikit-image`, for some cards also torch or onnxruntime.',
    ]
    for section, names in SECTIONS.items():
        parts += [f"## {section}", '<div class="grid cards gallery" markdown>']
        cards = map(read, names)
        items = (
            f"* [![{card.title}: the result](small/{card.name}.webp)]({card.name}.py)\n"
            f"  [{card.title}]({card.name}.py)"
            for card in cards
        )
        parts += ["\n".join(items), "</div>"]
    return "\n\n".join(parts) + "\n"


def page(card: Card) -> str:
    """The page of a card."""
    picture = f"![{card.title}: the result]({card.name}.webp)"
    links = f"[{card.name}.py]({card.name}.py){{ download }} · "
    links += f"[{card.name}.ipynb]({card.name}.ipynb){{ download }} · [Gallery](README.md)"
    code = f"```python\n{card.code}```"
    return "\n\n".join([f"# {card.title}", card.text, picture, code, f"Download: {links}\n"])


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
