"""Changes of docstrings by Griffe before they become pages of the reference."""

from __future__ import annotations

import contextlib
import pkgutil
import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
# The section with the example: its lines are indented, or empty.
SECTION = re.compile(r"^Example:\n(?:(?: .*)?(?:\n|$))+", re.MULTILINE)
# Lines of a session at the left margin, with their output, up to an empty line.
SESSION = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)

# Where the text on the result begins.  Griffe would take what is before a colon there as the type.
RETURNS = re.compile(r"^Returns:\n +", re.MULTILINE)
# Several arguments that are described together.
TOGETHER = re.compile(r"^( +)(\w+(?:,\s+\w+)+): +(as\s+in\s+`[\w.]+`\.)$", re.MULTILINE)
# A table of two columns between lines of "=", whose first column holds names.
TABLE = re.compile(r"^=+  =+\n((?:.+\n)+?)=+  =+$", re.MULTILINE)


def as_list(match: re.Match[str]) -> str:
    """Return a table of two columns as a list, whose items may continue on the next line."""
    width = match[0].index(" ") + 2
    items: list[str] = []
    for line in match[1].replace("*", r"\*").splitlines():
        name, text = line[:width].strip(), line[width:].strip()
        if name:
            items.append(f"* `{name}`: {text}")
        else:
            items[-1] += f" {text}"
    return "\n".join(items)


def one_by_one(match: re.Match[str]) -> str:
    """Return arguments that are described together as one item each."""
    indent, names, text = match.groups()
    text = " ".join(text.split())
    return "\n".join([f"{indent}{name}: {text}" for name in re.split(r",\s+", names)])


# Functions that other docstrings name, and that no other module has a namesake of.
LINKED = re.compile(
    r"`(?:gridsample\.)?(grid_sample|affine_sample|grid_sample_vjp|affine_sample_vjp|splat|interpolate"
    r"|grid_gradient|grid_hessian|check_grid)`"
)


def example_first(text: str) -> str:
    """Move a docstring's example behind its first paragraph, before formulas and lists."""
    example = SECTION.search(text)
    summary, gap, rest = text.partition("\n\n")
    if example is None or example.start() < len(summary):
        return text
    rest = rest.replace(example[0], "", 1).rstrip("\n")
    return f"{summary}{gap}{example[0].rstrip()}\n\n{rest}\n"


def rewrite(obj: griffe.Object) -> None:
    """Mark examples as such, separate arguments, make lists of tables, and give results a type."""
    if obj.docstring is not None:
        text = TABLE.sub(as_list, example_first(obj.docstring.value))
        text = EXAMPLE.sub("Examples:", text)
        text = TOGETHER.sub(one_by_one, text)
        if obj.is_function and obj.annotation is not None:
            text = RETURNS.sub(lambda match: f"{match[0]}{obj.annotation}: ", text)
        if not obj.path.startswith("gridsample.backends"):
            text = LINKED.sub(r"[`\1`][gridsample.\1]", text)
        obj.docstring.value = SESSION.sub(lambda match: f"```pycon\n{match[0]}\n```", text)


def evaluate(function: griffe.Function) -> None:
    """Replace defaults that are names of constants by their values.

    A constant is imported from the module that defines it.  If that needs a package that is not
    installed, the name stays.
    """
    for parameter in function.parameters:
        name = str(parameter.default)
        if re.fullmatch(r"(\w+\.)*[A-Z][A-Z_]*", name):
            first, dot, rest = name.partition(".")
            known = function.module.members.get(first)
            origin = (
                known.target_path if known and known.is_alias else f"{function.module.path}.{first}"
            )
            with contextlib.suppress(ImportError, AttributeError):
                parameter.default = repr(pkgutil.resolve_name(f"{origin}{dot}{rest}"))


class Examples(griffe.Extension):
    """Examples become code, in sections named "Example:" and in plain text alike."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a class, function or attribute, and show defaults' values."""
        rewrite(obj)
        if obj.is_function:
            evaluate(obj)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the docstring of the package, which `on_object` does not get."""
        rewrite(pkg)
