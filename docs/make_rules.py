"""Copies the explanations of the doctor's rules from doctor.md into the package.

``gridsample doctor --explain`` prints them.  With ``--update``, the script writes the file.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
COPY = DOCS.parent / "src/gridsample/doctor/rules.md"


def rules() -> str:
    """The sections of doctor.md on rules, without links, which lead nowhere in a terminal."""
    text = (DOCS / "doctor.md").read_text(encoding="utf-8")
    part = text.partition("\n## Rules\n")[2].partition("\n## ")[0].strip() + "\n"
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", part)


if __name__ == "__main__":
    if "--update" in sys.argv[1:]:
        COPY.write_text(rules(), encoding="utf-8")
    elif COPY.read_text(encoding="utf-8") != rules():
        sys.exit(f"{COPY} is not up to date: give --update")
