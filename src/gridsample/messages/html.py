"""Small pieces of HTML, with which objects show themselves in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(rows: Iterable[Sequence[object]], header: Sequence[object] = ()) -> str:
    """Return a table; all texts are escaped, and numbers aligned by the caller's formatting.

    >>> table([("x", "<1>")])
    '<table><tbody><tr><td>x</td><td>&lt;1&gt;</td></tr></tbody></table>'
    """
    head = f"<thead>{_row(header, 'th')}</thead>" if header else ""
    return f"<table>{head}<tbody>{''.join(_row(row, 'td') for row in rows)}</tbody></table>"


def paragraph(text: object) -> str:
    """Return a paragraph of escaped text."""
    return f"<p>{escape(str(text))}</p>"


def _row(cells: Sequence[object], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"
