"""Links from messages to the documentation: the only place that knows where its pages are."""

from __future__ import annotations

BASE = "docs/"

# The page, and its section, that explains what goes wrong with an argument or a feature.
TRAPS = {
    "coords": ("fields", "coordinates"),
    "displacement": ("fields", "coordinates"),
    "grid": ("fields", "which-grid-do-i-need"),
    "label": ("methods", "labels"),
    "missing": ("missing", ""),
    "mode": ("methods", ""),
    "padding_mode": ("boundaries", ""),
}


def page(name: str, anchor: str = "") -> str:
    """Return the address of a page of the documentation, or of a section of it.

    >>> page("doctor", "gs001")
    'docs/doctor.md#gs001'
    """
    return f"{BASE}{name}.md" + (f"#{anchor}" if anchor else "")


def about(trap: str) -> str:
    """Return the end of an error about one of `TRAPS`; for others, nothing.

    >>> about("padding_mode"), about("threads")
    (' (see docs/boundaries.md)', '')
    """
    return f" (see {page(*TRAPS[trap])})" if trap in TRAPS else ""
