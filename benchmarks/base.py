"""An older commit as a contender: its source runs in another process, which takes turns with ours.

Run as a module, this is that process.  It receives a case, returns the results once, and then
returns the time of a number of calls on each request.  Messages in both directions are pickled.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.cases import Case, make_inputs
from benchmarks.peers import Contender, Missing, ours, rounding
from benchmarks.timing import limit_cores, timer

ROOT = Path(__file__).resolve().parents[1]


def git(*words: str) -> bytes:
    """The output of a git command in this repository."""
    return subprocess.run(
        ["git", "-C", str(ROOT), *words], check=True, stdout=subprocess.PIPE
    ).stdout


def checked_out(commit: str) -> Path:
    """Extract the ``src`` of a commit to a temporary folder, which stays for later runs."""
    full = git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    folder = Path(tempfile.gettempdir()) / "gridsample-base" / full
    if not (folder / "src").exists():
        folder.parent.mkdir(exist_ok=True)
        with (
            tempfile.TemporaryDirectory(dir=folder.parent) as new,
            tarfile.open(fileobj=io.BytesIO(git("archive", full, "src"))) as files,
        ):
            # Before Python 3.11.4, tarfile has no filters.
            options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            files.extractall(new, **options)
            folder.mkdir(exist_ok=True)
            (Path(new) / "src").rename(folder / "src")
    return folder / "src"


class Base:
    """The other process, as this one sees it."""

    def __init__(self, commit: str, threads: int) -> None:
        path = [str(checked_out(commit)), str(ROOT), os.environ.get("PYTHONPATH", "")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.base", str(threads)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, question: Any) -> Any:
        """Send a question, and wait for the answer; an exception there is raised here."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        pickle.dump(question, self.process.stdin)
        self.process.stdin.flush()
        answer = pickle.load(self.process.stdout)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def contender(self, case: Case, threads: int) -> Contender:
        """The case on the commit's library, whose numbers may be rounded differently."""
        return Contender(
            lambda: self.ask((case, threads)),
            lambda result: result,
            4 * rounding(case),
            clock=self.seconds,
        )

    def seconds(self, number: int) -> float:
        """The time of a number of calls of the latest case."""
        return float(self.ask(number))

    def close(self) -> None:
        """Close the pipe, which ends the process."""
        self.process.communicate()


def serve() -> None:
    """Answer questions until the pipe is closed."""
    threads = int(sys.argv[1])
    limit_cores(threads)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries must not print into the answers
    contender: Contender | None = None
    while True:
        try:
            question = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: Any
        try:
            if isinstance(question, int):
                assert contender is not None
                answer = timer(contender.call)(question)
            else:
                case, threads = question
                contender = ours(case, make_inputs(case), threads)
                answer = contender.read(contender.call())
        except Exception as failure:
            answer = Missing(f"{type(failure).__name__}: {failure}")
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    serve()
