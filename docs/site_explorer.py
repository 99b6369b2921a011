"""The explorer: one page without a server, made from docs/explorer and the package's own tables.

``python docs/site_explorer.py FILE`` writes it on its own.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

from site_formulas import formulas

from gridsample import methods
from gridsample.definitions.boundaries import BOUNDARIES, MISSING

PARTS = Path(__file__).parent / "explorer"


def tables() -> dict[str, object]:
    """The methods and boundaries that samples can have, as data."""
    return {
        "methods": {
            name: {
                "table": [[float(c) for c in row] for row in methods.get(name).table],
                "first": methods.get(name).first,
                "rounding": methods.get(name).rounding,
                "folds": methods.get(name).folds_position,
                "prefilter": methods.get(name).prefilter,
                "votes": methods.get(name).votes,
            }
            for name in methods.names()
        },
        "boundaries": {name: boundary(name) for name in (*BOUNDARIES, MISSING)},
    }


def boundary(name: str) -> dict[str, object]:
    """A boundary as data.  Under `missing`, the taps outside are dropped, and do not count."""
    record = BOUNDARIES["zeros" if name == MISSING else name]
    return {
        "code": record.code,
        "edge": record.edge,
        "odd": record.odd,
        "filled": record.filled,
        "folds": record.folds_position,
        "ignores": name == MISSING,
    }


def page() -> str:
    """The page: its parts, the tables and the photo, in one file."""
    photo = base64.b64encode((PARTS / "photo.jpg").read_bytes()).decode()
    data = json.dumps(tables(), separators=(",", ":"))
    script = [
        f"const TABLES = {data};",
        f'const PHOTO = "data:image/jpeg;base64,{photo}";',
        formulas(),
        *((PARTS / name).read_text(encoding="utf-8") for name in ("core.js", "page.js")),
    ]
    text = (PARTS / "explorer.html").read_text(encoding="utf-8")
    text = text.replace("/*style*/", (PARTS / "style.css").read_text(encoding="utf-8"))
    return text.replace("/*script*/", "\n".join(script))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
