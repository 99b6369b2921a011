"""Links from messages to the documentation: the only place that knows where its pages are."""

from __future__ import annotations

BASE = "docs/"


def page(name: str, anchor: str = "") -> str:
    """Return the address of a page of the documentation, or of a section of it.

    >>> page("doctor", "gs001")
    'docs/doctor.md#gs001'
    """
    return f"{BASE}{name}.md" + (f"#{anchor}" if anchor else "")


def see(name: str, anchor: str = "") -> str:
    """Return the end of a message that leads to a page.

    >>> see("boundaries")
    ' (see docs/boundaries.md)'
    """
    return f" (see {page(name, anchor)})"
