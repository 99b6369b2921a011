"""`gridsample doctor`: reads Python code, without running it, and finds misuse of grid sampling.

>>> from gridsample.doctor import examine
>>> code = '''
... import torch, torch.nn.functional as F
... def warp(image, x, y):
...     h, w = image.shape[-2:]
...     grid = torch.stack((2 * x / (w - 1) - 1, 2 * y / (h - 1) - 1), -1)
...     return F.grid_sample(image, grid, align_corners=False)
... '''
>>> [finding] = examine(code).findings
>>> finding.line, finding.code, finding.rule.name
(6, 'GS001', 'grid spans pixel centres, but align_corners is not True')
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from gridsample.doctor.findings import RULES, Finding, Report, Rule
from gridsample.doctor.names import Module, mentions, read_module, wrappers_of
from gridsample.doctor.rules import Rules, check_exports
from gridsample.doctor.walker import walk

__all__ = ["RULES", "Finding", "Report", "Rule", "examine", "examine_files"]

SKIPPED = frozenset((".git", ".tox", ".venv", "__pycache__", "build", "node_modules", "venv"))
_IGNORE = re.compile(r"#\s*gridsample:\s*ignore(?:\[([A-Za-z0-9,\s]*)\])?")


def examine(source: str, path: str = "<string>", *, size: int = 256) -> Report:
    """Examine the source code of one file.

    Args:
        source: Python code.
        path: the name of the file, for messages.
        size: the width of an image, in pixels, for which messages give shifts.

    Returns:
        A `Report`; if the code cannot be parsed, its errors say why.

    Example:
        >>> from gridsample.doctor import examine
        >>> examine("def f(:", "new.py").errors
        ('new.py:1: cannot be parsed: invalid syntax',)
    """
    tree = _parse(source, path)
    if isinstance(tree, str):
        return Report(errors=(tree,), files=1)
    return _examine(read_module(path, tree), source, size)


def examine_files(
    paths: Iterable[Path | str],
    *,
    size: int = 256,
    codes: Sequence[str] = (),
    progress: Callable[[float], None] = lambda share: None,
) -> Report:
    """Examine files, and all Python files below folders.

    Args:
        paths: files and folders.
        size: the width of an image, in pixels, for which messages give shifts.
        codes: the codes of the rules to report; all if it is empty.
        progress: a function that is called with the share of the work that is done, from 0 to 1.

    Returns:
        A `Report`.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a code is not that of a rule.

    Example:
        >>> import pathlib, tempfile
        >>> from gridsample import doctor
        >>> code = "from torch.nn.functional import grid_sample; grid_sample(image, grid)"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "warp.py").write_text(code)
        ...     report = doctor.examine_files([folder])
        >>> report.files, report.calls, [finding.line for finding in report.findings]
        (1, 1, [1])
    """
    for code in codes:
        if code not in RULES:
            raise ValueError(f"no rule has the code {code!r}; accepted: {', '.join(RULES)}")
    parsed: list[tuple[str, str]] = []
    modules: dict[str, Module] = {}  # of files with calls; the trees of all would be large
    errors: list[str] = []
    wrappers: dict[tuple[str, str], tuple[str, ...]] = {}
    for path in _files(paths):
        try:
            source = path.read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            errors.append(f"{path}: cannot be read: {reason}")
            continue
        tree = _parse(source, str(path))
        if isinstance(tree, str):
            errors.append(tree)
            continue
        parsed.append((str(path), source))
        if mentions(source):
            modules[str(path)] = read_module(str(path), tree)
            wrappers |= wrappers_of(modules[str(path)])
    findings: list[Finding] = []
    unparsed = len(errors)
    calls, wrapper_names = 0, [name for _, name in wrappers]
    for n, (name, source) in enumerate(parsed):
        progress(n / len(parsed))
        if not mentions(source, wrapper_names):
            continue
        module = modules.pop(name, None) or read_module(name, ast.parse(source, name))
        module.wrappers = wrappers
        report = _examine(module, source, size)
        errors += report.errors
        findings += [finding for finding in report.findings if not codes or finding.code in codes]
        calls += report.calls
    return Report(tuple(sorted(findings)), tuple(errors), len(parsed) + unparsed, calls)


def _files(paths: Iterable[Path | str]) -> Iterator[Path]:
    """Yield the files among some paths, and the Python files below folders, each once."""
    resolved = set()
    for folder in map(Path, paths):
        if not folder.exists():
            raise FileNotFoundError(2, "No such file or directory", str(folder))
        files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]
        for path in files:
            inner = path.relative_to(folder).parts if folder.is_dir() else ()
            if path not in resolved and not SKIPPED & set(inner):
                resolved.add(path)
                yield path


def _parse(source: str, path: str) -> ast.Module | str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of strings in the code, such as "\d"
            return ast.parse(source, path)
    except SyntaxError as error:
        return f"{path}:{error.lineno or 1}: cannot be parsed: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{path}: cannot be parsed: {error}"


def _examine(module: Module, source: str, size: int) -> Report:
    rules = Rules(module, size)
    try:
        walk(module, rules)
    except RecursionError:
        return Report((), (f"{module.path}: cannot be examined: it is nested too deeply",), 1)
    findings = [*rules.report(), *(check_exports(module) if rules.calls else ())]
    lines = source.splitlines()
    reported = tuple(sorted(finding for finding in findings if not _ignored(lines, finding)))
    return Report(reported, (), 1, len(rules.calls))


def _ignored(lines: Sequence[str], finding: Finding) -> bool:
    """Whether a comment on one of the finding's lines hides it."""
    for line in lines[finding.line - 1 : max(finding.line, finding.end)]:
        match = _IGNORE.search(line)
        if match is not None:
            codes = [code.strip().upper() for code in (match[1] or "").split(",")]
            return match[1] is None or finding.code in codes
    return False
