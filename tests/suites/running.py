"""A run of another project's tests in a process of its own, and its outcomes."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import gridsample

PLUGIN = Path(__file__).parent / "plugin"
# From the best to the worst: a test is as good as the worst of its phases.
OUTCOMES = ("passed", "xfailed", "xpassed", "skipped", "failed", "error", "crashed")


@dataclass
class Run:
    """The outcomes of a run.

    Attributes:
        outcomes: one of `OUTCOMES` for each test.
        why: the error of each test that did not pass, in a line.
        calls: how often our functions were called, by name.
        reached: in how many tests they were.
        seconds: how long it took.
        code: pytest's exit status; -1 when it ran out of time.
        message: the end of pytest's output.
    """

    outcomes: dict[str, str] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    reached: int = 0
    seconds: float = 0.0
    code: int = 0
    message: str = ""

    def count(self, *outcomes: str) -> int:
        """How many tests have one of some outcomes."""
        return sum(outcome in outcomes for outcome in self.outcomes.values())

    def record(self) -> dict[str, Any]:
        """The fields as values for JSON."""
        return asdict(self)


def run(
    python: str,
    folder: Path | None,
    words: Sequence[str],
    in_place: str = "",
    strict: bool = False,
    limit: float | None = None,
) -> Run:
    """Run pytest on a project.

    Args:
        python: the interpreter of an environment in which the project is installed.
        folder: the project's checkout, in which pytest is started; None for an installed package.
        words: the arguments of pytest.
        in_place: a name of the plugin's `SUBSTITUTES`: the functions that ours replace, if any.
        strict: whether `gridsample.torch_compat.patch` is strict.
        limit: seconds until it is stopped.
    """
    with tempfile.TemporaryDirectory() as empty:
        path = Path(empty) / "outcomes"
        sources = [str(PLUGIN), str(Path(gridsample.__file__).parents[1])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [*sources, *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "GRIDSAMPLE_OUTCOMES": str(path),
            # What torch.compile stores for one run must not be used by the other.
            "TORCHINDUCTOR_CACHE_DIR": str(Path(empty) / "compiled"),
            "GRIDSAMPLE_IN_PLACE": in_place,
            "GRIDSAMPLE_STRICT": "1" if strict else "",
        }
        for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):  # of a run that we are a part of
            environment.pop(name, None)
        ours = ["-p", "gridsample_in_place", "-p", "no:cacheprovider", "-q"]
        ours += ["--maxfail=0", "--continue-on-collection-errors"]  # whatever the project says
        start = time.monotonic()
        process = subprocess.Popen(
            [python, "-m", "pytest", *ours, *words],
            cwd=folder or empty,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            message, code = process.communicate(timeout=limit)[0], process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            message, code = process.communicate()[0], -1
        finally:
            process.kill()  # interrupted, the tests do not go on alone
        seconds = time.monotonic() - start
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        completed = read(map(json.loads, lines))
    completed.seconds, completed.code, completed.message = seconds, code, message[-4000:]
    return completed


def read(records: Any) -> Run:
    """Read the records that the plugin wrote."""
    completed = Run()
    calls: collections.Counter[str] = collections.Counter()
    for record in records:
        test, phase = record["test"], record["phase"]
        if phase == "start":
            completed.outcomes[test] = "crashed"  # unless it ends
            completed.why[test] = "the process ended in it"
            continue
        calls.update(record.get("calls", {}))
        completed.reached += bool(record.get("calls"))
        outcome = record["outcome"]
        if outcome == "failed" and phase != "call":
            outcome = "error"
        before = completed.outcomes.get(test, "crashed")
        if before == "crashed" or OUTCOMES.index(outcome) > OUTCOMES.index(before):
            completed.outcomes[test] = outcome
            completed.why.pop(test, None)
            if record["why"]:
                completed.why[test] = record["why"]
    completed.calls = dict(calls)
    return completed


@dataclass(frozen=True)
class Difference:
    """A test whose outcome differs with our functions in place."""

    test: str
    before: str
    after: str
    why: str

    @property
    def worse(self) -> bool:
        """Whether the test passed before, and does not now."""
        bad = ("failed", "error", "crashed", "not run")
        return self.after in bad and self.before not in bad


def compare(baseline: Run, ours: Run) -> list[Difference]:
    """Each test whose outcome differs, the worse ones first."""
    differences = []
    for test in {**baseline.outcomes, **ours.outcomes}:
        before = baseline.outcomes.get(test, "not run")
        after = ours.outcomes.get(test, "not run")
        if before != after:
            why = ours.why.get(test, "") or baseline.why.get(test, "")
            differences.append(Difference(test, before, after, why))
    return sorted(differences, key=lambda difference: (not difference.worse, difference.test))
