"""Links from messages to the documentation: the only place that knows where its pages are."""

from __future__ import annotations

# The address of the published site, with a slash at its end.  There is none yet: messages then name
# the pages as they are in the source, and `gridsample doctor --explain` needs no page at all.
ADDRESS = ""

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

    >>> page("doctor", "gs001").endswith("#gs001")
    True
    """
    place = f"{ADDRESS}{name}.html" if ADDRESS else f"docs/{name}.md"
    return place + (f"#{anchor}" if anchor else "")


def explanation(code: str) -> str:
    """Return the command that explains a rule of the doctor.

    >>> explanation("GS001")
    'gridsample doctor --explain GS001'
    """
    return f"gridsample doctor --explain {code}"


def about(trap: str) -> str:
    """Return the end of an error about one of `TRAPS`; for others, nothing.

    >>> "boundaries" in about("padding_mode"), about("threads")
    (True, '')
    """
    return f" (see {page(*TRAPS[trap])})" if trap in TRAPS else ""
