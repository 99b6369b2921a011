"""Findings of the doctor, and the catalogue of everything that it can find."""

from __future__ import annotations

from dataclasses import dataclass

from gridsample.doctor.edits import Edit
from gridsample.messages.links import explanation, link, text_of


@dataclass(frozen=True)
class Rule:
    """One kind of finding.

    Attributes:
        code: the stable code, such as "GS001".
        name: a short name.
        certain: whether the code computes something other than intended; otherwise it loses
            quality, depends on a default, or fails on some platform.
    """

    code: str
    name: str
    certain: bool = True

    @property
    def link(self) -> str:
        """The address of the section on this rule, or the command that prints it."""
        return link(self.code)

    @property
    def explanation(self) -> str:
        """That section itself, as Markdown: what happens, why, and how to fix it."""
        return text_of(self.code).partition("\n")[2].strip()


RULES = {
    rule.code: rule
    for rule in (
        Rule("GS001", "grid spans pixel centres, but align_corners is not True"),
        Rule("GS002", "grid spans pixel edges, but align_corners is True"),
        Rule("GS003", "pixel indices divided by the size, without the half pixel"),
        Rule("GS004", "grid is in (y, x) order"),
        Rule("GS005", "flow in pixels added to a normalized grid"),
        Rule("GS006", "grid in half precision", certain=False),
        Rule("GS007", "image shrinks without antialiasing", certain=False),
        Rule("GS008", "functions with different align_corners are combined"),
        Rule("GS009", "align_corners is not given", certain=False),
        Rule("GS010", "option that the target does not support", certain=False),
        Rule("GS011", "grid holds pixels, not normalized coordinates"),
        Rule("GS012", "coordinate divided by the size of another axis"),
    )
}


@dataclass(frozen=True, order=True)
class Finding:
    """One place where a rule is broken.

    Attributes:
        path: the file.
        line: the line, from 1.
        column: the column, from 1.
        code: the code of its rule; see `RULES`.
        message: what happens, with the shift in pixels where there is one.
        fix: the code that fixes it.
        end: the last line of the call.
        edit: the change of the file that fixes it, if that is certain.
    """

    path: str
    line: int
    column: int
    code: str
    message: str
    fix: str
    end: int = 0
    edit: Edit | None = None

    @property
    def rule(self) -> Rule:
        """The rule that was broken."""
        return RULES[self.code]

    @property
    def certain(self) -> bool:
        """Whether the code computes something other than intended; see `Rule`."""
        return self.rule.certain

    def __str__(self) -> str:
        return (
            f"{self.path}:{self.line}:{self.column}: {self.code} {self.message}\n"
            f"    fix:  {self.fix}\n    see:  {explanation(self.code)}"
        )

    def record(self) -> dict[str, object]:
        """Return the finding as a dictionary for JSON."""
        return {
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "code": self.code,
            "name": self.rule.name,
            "certain": self.certain,
            "message": self.message,
            "fix": self.fix,
            "link": self.rule.link,
        }


@dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
        findings: the findings, by file and line.
        errors: one line for each file that could not be read or parsed.
        files: the number of files that were read.
        calls: the number of calls that were checked.
    """

    findings: tuple[Finding, ...] = ()
    errors: tuple[str, ...] = ()
    files: int = 0
    calls: int = 0
