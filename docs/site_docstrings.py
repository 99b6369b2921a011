"""What Griffe changes in docstrings before they become pages of the reference."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
# Lines of a session at the left margin, with their output, up to an empty line.
SESSION = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def mend(obj: griffe.Object) -> None:
    """Mark the examples of a docstring as such."""
    if obj.docstring is not None:
        text = EXAMPLE.sub("Examples:", obj.docstring.value)
        obj.docstring.value = SESSION.sub(lambda found: f"```pycon\n{found[0]}\n```", text)


class Examples(griffe.Extension):
    """Examples become code, in sections named "Example:" and in plain text alike."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Mend the docstring of a class, a function or an attribute."""
        mend(obj)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Mend the docstring of the package, which is none of the objects."""
        mend(pkg)
