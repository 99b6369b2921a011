"""`gridsample doctor`: what it finds, and what it leaves alone."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from doctor import projects
from doctor.snippets import HEAD, RIGHT, WRONG

from gridsample import explain
from gridsample.cli import main
from gridsample.doctor import RULES, examine, examine_files


def codes(code: str) -> set[str]:
    report = examine(HEAD + code)
    assert not report.errors
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize("name", WRONG)
def test_every_mistake_is_found(name: str) -> None:
    expected, code = WRONG[name]
    assert codes(code) == {expected}


@pytest.mark.parametrize("name", RIGHT)
def test_correct_code_has_no_findings(name: str) -> None:
    assert codes(RIGHT[name]) == set()


def test_the_snippets_cover_every_rule() -> None:
    assert len(WRONG) >= 20 and len(RIGHT) >= 20
    assert {code for code, _ in WRONG.values()} == set(RULES)


BAD = "def warp(x, g):\n    return F.grid_sample(x, g)\n"


def test_shifts_are_those_of_the_operator() -> None:
    for name in ("split coordinates", "points divided by the size", "indices over the width"):
        code = HEAD + WRONG[name][1]
        (finding,) = examine(code, size=7).findings
        numbers = [float(word) for word in re.findall(r"([+-][\d.]+) px", finding.message)]
        pixel = np.array([0.0, 6.0])
        divisor = 6 if finding.code == "GS001" else 7
        coordinates = 2 * pixel / divisor - 1
        aligned = finding.code == "GS002"
        seen = [
            explain((7, 3), (x, 0), align_corners=aligned).axes[0].position - p
            for x, p in zip(coordinates, pixel, strict=True)
        ]
        assert numbers == pytest.approx(seen, abs=5e-3)


def test_fixed_calls_have_no_findings() -> None:
    for name in ("split coordinates", "half pixels with corners", "affine_grid and grid_sample"):
        code = HEAD + WRONG[name][1]
        (finding,) = examine(code).findings
        tree = ast.parse(code)
        (call,) = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and node.lineno == finding.line
            and node.col_offset == finding.column - 1
        ]
        fixed = code.replace(ast.get_source_segment(code, call) or "", finding.fix)
        assert fixed != code
        assert not examine(fixed).findings


@pytest.mark.parametrize(
    ("comment", "count"),
    [
        ("# gridsample: ignore", 0),
        ("# gridsample: ignore[GS009]", 0),
        ("#gridsample:ignore[gs001, gs009]", 0),
        ("# gridsample: ignore[GS001]", 1),
        ("# ignore", 1),
    ],
)
def test_comments_suppress_findings(comment: str, count: int) -> None:
    line = f"def warp(x, g):\n    return F.grid_sample(\n        x, g  {comment}\n    )\n"
    assert len(examine(HEAD + line).findings) == count


def test_wrapper_functions_in_other_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        HEAD + "def sample(input, grid, mode='bilinear', align_corners=None):\n"
        "    return F.grid_sample(input, grid, mode, align_corners=align_corners)\n"
    )
    (tmp_path / "use.py").write_text(
        HEAD + "from .tools import sample\ndef at(image, p):\n    h, w = image.shape[-2:]\n"
        "    grid = torch.stack((2 * p[..., 0] / (w - 1) - 1, 2 * p[..., 1] / (h - 1) - 1), -1)\n"
        "    return sample(image, grid, align_corners=False)\n"
    )
    (finding,) = examine_files([tmp_path]).findings
    assert (Path(finding.path).name, finding.line, finding.code) == ("use.py", 9, "GS001")


@pytest.mark.parametrize(
    "body",
    [
        "    return [F.grid_sample(x, g) for x in xs]\n",
        "    return map(lambda x: F.grid_sample(x, g), xs)\n",
        "    match xs:\n        case []:\n            return F.grid_sample(xs, g)\n",
        "    try:\n        pass\n    except E:\n        return F.grid_sample(xs, g)\n",
        "    while xs:\n        with a:\n            xs = F.grid_sample(xs, g)\n",
        "    def inner(x):\n        return F.grid_sample(x, g)\n    return inner\n",
        "    if (y := F.grid_sample(xs, g)) is not None:\n        yield y\n",
    ],
)
def test_calls_are_found_in_every_scope(body: str) -> None:
    report = examine(HEAD + "def f(xs, g):\n" + body)
    assert ([finding.code for finding in report.findings], report.calls) == (["GS009"], 1)


def test_names_are_followed_to_what_they_were_imported_from() -> None:
    other = "from other import functional as F\ndef f(x, g):\n    return F.grid_sample(x, g)\n"
    assert not examine(other).findings
    for head in (
        "from torch.nn.functional import grid_sample as pick\n",
        "import torch.nn.functional as fun\npick = fun.grid_sample\n",
    ):
        code = head + "def f(x, g):\n    return pick(x, g)\n"
        assert bool(examine(code).findings) == ("as pick" in head)


def test_files_that_cannot_be_read_are_named_and_change_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text("def f(:\n")
    (tmp_path / "b.py").write_bytes(b"x = '\xff'\n")
    (tmp_path / "c.py").write_bytes(b"x = 1\0\n")
    (tmp_path / "d.py").write_text("x = " + "(" * 5000 + ")" * 5000)
    (tmp_path / "e.py").write_text(HEAD + BAD)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "f.py").write_text(HEAD + BAD)
    assert main(["doctor", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out.splitlines()[0].startswith(f"{tmp_path / 'e.py'}:6:12: GS009 ")
    assert out.splitlines()[-1] == "1 finding: 1 call in 5 files"
    assert len(err.splitlines()) == 4
    for name in "abcd":
        assert f"gridsample: {tmp_path / name}.py" in err


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.py"
    path.write_text(HEAD + BAD)
    assert main(["doctor", str(path)]) == 1
    assert main(["doctor", str(path), "--select", "gs001"]) == 0
    path.write_text(HEAD)
    assert main(["doctor", str(path)]) == 0
    capsys.readouterr()
    for wrong in (["none.py"], [str(path), "--select", "GS999"], [str(path), "--size", "1"]):
        assert main(["doctor", *wrong]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_folder_without_python_files_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("F.grid_sample(image, grid)")
    assert main(["doctor", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert f"no Python files in {tmp_path}" in err
    assert examine_files([tmp_path]).files == 0


def test_progress_is_reported(tmp_path: Path) -> None:
    for n in range(4):
        (tmp_path / f"{n}.py").write_text("x = 1")
    shares: list[float] = []
    examine_files([tmp_path], progress=shares.append)
    assert shares == [0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize(
    ("size", "apart"), [("h // 3, w // 3", "3"), ("(h - 1) // 2, (w - 1) // 2", "more than 2")]
)
def test_skipped_pixels_are_reported_with_their_spacing(size: str, apart: str) -> None:
    code = "import torch.nn.functional as F\ndef f(image):\n    h, w = image.shape[-2:]\n"
    call = f"    F.interpolate(image, size=({size}), mode='bilinear', align_corners=False)\n"
    (finding,) = examine(code + call).findings
    assert finding.code == "GS007"
    assert finding.message.startswith(f"output pixels are {apart} input pixels apart")


def test_rule_explanations_need_no_documentation_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--explain", "gs001,GS004"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("GS001\n\n**grid spans") and "align_corners=True" in out
    assert "\nGS004\n" in out and "](" not in out
    assert main(["doctor", "--explain", "GS999"]) == 2
    assert "no rule has the code 'GS999'" in capsys.readouterr().err


def test_findings_are_written_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.py"
    path.write_text(HEAD + BAD)
    assert main(["doctor", "--json", str(path)]) == 1
    report = json.loads(capsys.readouterr().out)
    (finding,) = report["findings"]
    assert (finding["path"], finding["line"], finding["code"], finding["certain"]) == (
        str(path),
        6,
        "GS009",
        False,
    )
    assert finding["link"] == "gridsample doctor --explain GS009"
    assert (report["errors"], report["files"], report["calls"]) == ([], 1, 1)


def test_a_finding_says_whether_it_is_certain() -> None:
    for code in ("split coordinates", "nothing said"):
        (finding,) = examine(HEAD + WRONG[code][1]).findings
        assert finding.certain is RULES[finding.code].certain is (finding.code == "GS001")


def test_an_argument_that_is_not_given_has_its_default() -> None:
    code, _, source = projects.WRONG["STN tutorial: a value for one of the two functions"]
    (finding,) = examine(HEAD + source).findings
    assert finding.code == code
    assert "affine_grid has align_corners=False by default" in finding.message
    assert "None" not in finding.message


def test_snippets_of_public_projects_are_numerous() -> None:
    names = {name.partition(":")[0] for name in (*projects.WRONG, *projects.RIGHT)}
    assert len(projects.WRONG) + len(projects.RIGHT) >= 40 and len(names) >= 20


HELPER = """
def pick(image, grid):
    return F.grid_sample(image, grid, align_corners=False)

def at_pixels(image, xy):
    h, w = image.shape[-2:]
    return pick(image, torch.stack((2 * xy[..., 0] / (w - 1), 2 * xy[..., 1] / (h - 1)), -1) - 1)

def at_centres(image, xy):
    h, w = image.shape[-2:]
    return pick(image, torch.stack(((2 * xy[..., 0] + 1) / w, (2 * xy[..., 1] + 1) / h), -1) - 1)
"""


def test_fixes_are_valid_for_every_grid_that_reaches_the_call() -> None:
    (finding,) = examine(HEAD + HELPER).findings
    assert (finding.code, finding.line) == ("GS001", 7)
    assert "True for a grid of" in finding.fix and "False for" in finding.fix


def test_every_rule_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")
    headings = [line for line in page.splitlines() if line.startswith("#")]
    for code, rule in RULES.items():
        assert f"### {code}" in headings
        assert rule.name in page


def test_the_doctor_runs_no_code_and_imports_no_framework(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("raise SystemExit(7)\n" + HEAD + BAD)
    script = (
        "import sys\nfrom gridsample.doctor import examine_files\n"
        f"print(len(examine_files([{str(tmp_path)!r}]).findings))\n"
        "print([m for m in ('torch', 'llvmlite') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:2] == ["1", "[]"]


def test_without_a_path_the_folder_is_examined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 2
    assert "no Python files in ." in capsys.readouterr().err
    Path("x.py").write_text(HEAD + BAD)
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.startswith("x.py:6:12: GS009")


def test_a_hyphen_is_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for source, code in ((HEAD + BAD, 1), (HEAD, 0), ("def f(:", 2)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(source))
        assert main(["doctor", "-"]) == code
    assert capsys.readouterr().err == "gridsample: <stdin>:1: cannot be parsed: invalid syntax\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(HEAD + BAD))
    assert main(["doctor", "-", "--select", "GS001"]) == 0
    assert main(["doctor", "-", "x.py"]) == 2
    monkeypatch.setattr(sys, "stdin", io.StringIO(HEAD + WRONG["split coordinates"][1]))
    assert main(["doctor", "-", "--fix"]) == 2
    assert "cannot change standard input" in capsys.readouterr().err


FIXED = ("GS001", "GS002", "GS008")


@pytest.mark.parametrize("name", [n for n, (code, _) in WRONG.items() if code in FIXED])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_certain_fixes_are_written(name: str, newline: str, tmp_path: Path) -> None:
    source = f"# \N{LATIN SMALL LETTER E WITH ACUTE}\n{HEAD}{WRONG[name][1]}"
    path = tmp_path / "x.py"
    path.write_bytes(source.replace("\n", newline).encode("utf-8-sig"))
    edits = [finding.edit for finding in examine(source).findings if finding.edit]
    assert main(["doctor", "--fix", str(path)]) == int(not edits)
    fixed = path.read_bytes().decode("utf-8-sig").replace(newline, "\n")
    assert bool(examine(fixed).findings) == (not edits) == (fixed == source)
    changed = [a != b for a, b in zip(source.split("\n"), fixed.split("\n"), strict=True)]
    assert sum(changed) == len(edits)


def test_fixes_keep_comments_and_the_layout(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    before = HEAD + WRONG["split coordinates"][1].replace(
        "mode=mode, align_corners=False", "# the centres\n        mode, 'zeros', False"
    )
    path.write_text(before)
    assert main(["doctor", "--fix", str(path)]) == 0
    assert path.read_text() == before.replace("'zeros', False", "'zeros', True")


def test_findings_are_written_for_github_and_sarif(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.py").write_text(HEAD + BAD + WRONG["split coordinates"][1])
    (tmp_path / "y.py").write_text("def f(:\n")
    assert main(["doctor", "--format", "github", str(tmp_path)]) == 2
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith(
        f"::warning file={tmp_path / 'x.py'},line=6,endLine=6,col=12,title=GS009"
    )
    assert second.startswith("::error file=") and "%0Afix: F.grid_sample(" in second
    assert third.startswith("::error title=gridsample doctor::") and "cannot be parsed" in third
    assert main(["doctor", "--format", "sarif", str(tmp_path)]) == 2
    log = json.loads(capsys.readouterr().out)
    (run,) = log["runs"]
    assert log["version"] == "2.1.0" and not run["invocations"][0]["executionSuccessful"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [*RULES]
    results = [(result["ruleId"], result["level"]) for result in run["results"]]
    assert results == [("GS009", "warning"), ("GS001", "error")]
    (place,) = run["results"][0]["locations"]
    region = place["physicalLocation"]["region"]
    assert region == {"startLine": 6, "startColumn": 12, "endLine": 6}


@pytest.mark.parametrize("name", projects.WRONG)
def test_mistakes_of_public_projects_get_the_right_fix(name: str) -> None:
    code, fix, source = projects.WRONG[name]
    findings = examine(HEAD + source).findings
    assert [finding.code for finding in findings] == [code]
    assert fix in findings[0].fix


@pytest.mark.parametrize("name", projects.RIGHT)
def test_correct_public_projects_have_no_findings(name: str) -> None:
    assert codes(projects.RIGHT[name]) == set()
