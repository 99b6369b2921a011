"""Reports in the formats of other programs: JSON, GitHub's annotations, and SARIF."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from gridsample._version import __version__
from gridsample.doctor.findings import RULES, Finding, Report


def as_json(report: Report) -> str:
    """Return one JSON object."""
    record = {
        "findings": [finding.record() for finding in report.findings],
        "errors": list(report.errors),
        "files": report.files,
        "calls": report.calls,
    }
    return json.dumps(record, indent=2)


def as_github(report: Report) -> str:
    """Return a workflow command of GitHub for each finding, and for each file with an error."""
    lines = [annotation(finding) for finding in report.findings]
    lines += [f"::error title=gridsample doctor::{escaped(error)}" for error in report.errors]
    return "\n".join(lines)


def annotation(finding: Finding) -> str:
    """Return the workflow command of a finding."""
    level = "error" if finding.certain else "warning"
    properties = {
        "file": finding.path,
        "line": finding.line,
        "endLine": finding.end,
        "col": finding.column,
        "title": f"{finding.code} {finding.rule.name}",
    }
    given = ",".join(f"{name}={escaped(str(value), ':,')}" for name, value in properties.items())
    text = escaped(f"{finding.message}\nfix: {finding.fix}")
    return f"::{level} {given}::{text}"


def escaped(text: str, more: str = "") -> str:
    """Escape the characters that end a part of a workflow command.

    >>> escaped("50%: a", ":")
    '50%25%3A a'
    """
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def as_sarif(report: Report) -> str:
    """Return a log in the Static Analysis Results Interchange Format, version 2.1.0."""
    rules = [
        {
            "id": rule.code,
            "shortDescription": {"text": rule.name},
            "fullDescription": {"text": rule.explanation},
            "defaultConfiguration": {"level": "error" if rule.certain else "warning"},
        }
        for rule in RULES.values()
    ]
    run = {
        "tool": {"driver": {"name": "gridsample", "version": __version__, "rules": rules}},
        "results": [sarif_result(finding) for finding in report.findings],
        "invocations": [
            {
                "executionSuccessful": not report.errors,
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": error}} for error in report.errors
                ],
            }
        ],
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2)


def sarif_result(finding: Finding) -> dict[str, object]:
    """Return a finding as a result of SARIF."""
    region = {"startLine": finding.line, "startColumn": finding.column}
    if finding.end:
        region["endLine"] = finding.end
    location = {"uri": Path(finding.path).as_posix()}
    return {
        "ruleId": finding.code,
        "level": "error" if finding.certain else "warning",
        "message": {"text": f"{finding.message}; fix: {finding.fix}"},
        "locations": [{"physicalLocation": {"artifactLocation": location, "region": region}}],
    }


FORMATS: dict[str, Callable[[Report], str]] = {
    "json": as_json,
    "github": as_github,
    "sarif": as_sarif,
}
