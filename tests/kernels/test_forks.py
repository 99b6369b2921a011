"""A fork while another thread imports Numba or compiles: the child works, or says at once why not.

Each case is a process of its own, which must have ended by a time: what a test is for is a hang.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

TESTS = Path(__file__).parents[1]
SECONDS = 200

BEGIN = """
import os, sys, threading, traceback, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # that a process with threads forks
import gridsample
import numpy as np

def sample(dtype=np.float32):
    image = np.arange(4, dtype=dtype).reshape(1, 1, 2, 2)
    grid = np.zeros((1, 1, 1, 2), np.float32)
    return gridsample.grid_sample(image, grid, "nearest").item()

def in_child(work):
    child = os.fork()
    if not child:
        status = 1
        try:
            status = work() or 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0

def refused():
    from gridsample.kernels.compile.forks import MESSAGE
    try:
        sample(np.float64)
    except RuntimeError as error:
        assert str(error) == MESSAGE and "gridsample.warmup() before forking" in MESSAGE
        return 0
    return 2
"""

# The moment is found without a word of ours, so that this fails where nothing is done about forks.
WHILE_IMPORTING = """
thread = threading.Thread(target=sample)
thread.start()
while "numba" not in sys.modules:
    pass
assert "numba.core.dispatcher" not in sys.modules
in_child(lambda: print(sample(), flush=True))
thread.join()
assert sample() == 0.0
"""

WHILE_COMPILING = """
import gridsample.kernels.cpu
from numba.core.compiler_lock import global_compiler_lock
lock = global_compiler_lock._lock
thread = threading.Thread(target=sample)
thread.start()
while lock.acquire(blocking=False):
    lock.release()
in_child(lambda: print(sample(), sample(np.uint8), flush=True))
thread.join()
assert sample() == 0.0
"""

# Modules of ours that are imported when something is first called.
WHILE_LOADING = """
import torch
sys.setswitchinterval(1e-5)
image, grid = torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 1, 2)
works = {
    "gridsample.backends.torch": lambda: gridsample.grid_sample(image, grid, "nearest").item(),
    "gridsample.ops.resizing": lambda: gridsample.interpolate(image.numpy(), 1).item(),
    "gridsample.ops.affine": lambda: gridsample.affine_sample(
        image.numpy(), np.zeros((1, 2, 3)), (1, 1, 1, 1), "nearest"
    ).item(),
}
for module, work in works.items():
    assert module not in sys.modules
    thread = threading.Thread(target=work)
    thread.start()
    while module not in sys.modules:
        pass
    in_child(lambda: print(work(), flush=True))
    thread.join()
"""

# A compilation without end in another thread.
TOO_LONG = """
from gridsample.kernels.compile import forks
sample()
forks.SECONDS = 0.01
begun, end = threading.Event(), threading.Event()
def compile_for_ever():
    with forks.held():
        begun.set()
        end.wait()
thread = threading.Thread(target=compile_for_ever)
thread.start()
begun.wait()
def work():
    assert sample() == 0.0  # what the parent has loaded works
    forks.SECONDS = 3600
    in_child(refused)  # and so does a fork
    return refused()
in_child(work)
end.set()
thread.join()
assert sample(np.uint8) == 0
print("the parent goes on")
"""

# The program compiles something of its own.
WHILE_THE_PROGRAM_COMPILES = """
import numba
from numba.core.compiler_lock import global_compiler_lock
sample()
begun, end = threading.Event(), threading.Event()
def compile_for_ever():
    with global_compiler_lock:
        begun.set()
        end.wait()
thread = threading.Thread(target=compile_for_ever)
thread.start()
begun.wait()
in_child(refused)
end.set()
thread.join()
in_child(lambda: print(sample(np.uint8), flush=True))
"""

# The thread that forks is the one that compiles: as a callback of Numba's might.
BY_THE_COMPILING_THREAD = """
from gridsample.kernels.compile import forks
with forks.held():
    in_child(lambda: print(sample(), flush=True))
print(sample())
"""


def run(code: str, folder: Path | None = None) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    if folder is not None:
        environment["GRIDSAMPLE_CACHE_DIR"] = str(folder)
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail(f"it did not end in {SECONDS} s: {process.communicate()[0]}")
    assert process.returncode == 0, output
    return output


def test_a_child_of_a_fork_while_numba_is_imported_works() -> None:
    assert run(WHILE_IMPORTING) == "0.0\n"


@pytest.mark.slow
def test_a_child_of_a_fork_while_modules_are_loaded_works() -> None:
    assert run(WHILE_LOADING) == "0.0\n" * 3


@pytest.mark.slow
def test_a_child_of_a_fork_during_a_compilation_works(tmp_path: Path) -> None:
    assert run(WHILE_COMPILING, tmp_path) == "0.0 0\n"


def test_a_child_of_a_fork_during_a_long_compilation_is_told() -> None:
    assert run(TOO_LONG) == "the parent goes on\n"


def test_a_child_of_a_fork_while_the_program_compiles_is_told() -> None:
    assert run(WHILE_THE_PROGRAM_COMPILES) == "0\n"


def test_the_thread_that_compiles_may_fork() -> None:
    assert run(BY_THE_COMPILING_THREAD) == "0.0\n0.0\n"
