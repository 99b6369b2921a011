"""A fork while another thread imports or compiles: the child works, or fails at once with an error.

Each case is a process of its own, which must have ended by a time: what a test is for is a hang.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gridsample
from gridsample.kernels import forks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

TESTS = Path(__file__).parents[1]
SECONDS = 60

BEGIN = """
import os, sys, threading, traceback, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # that a process with threads forks
import gridsample
import numpy as np

def sample(dtype=np.float32):
    image = np.arange(8, dtype=dtype).reshape(1, 2, 2, 2)
    grid = np.zeros((1, 1, 1, 2), np.float32)
    return gridsample.grid_sample(image, grid, "nearest")[0, 0, 0, 0].item()

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
    from gridsample.kernels.forks import MESSAGE
    try:
        sample(np.float64)
    except RuntimeError as error:
        assert str(error) == MESSAGE and "a first call before forking" in MESSAGE
        return 0
    return 2
"""

# The moment is found without the library's help, so this fails if forks are not handled.
WHILE_IMPORTING = """
thread = threading.Thread(target=sample)
thread.start()
while "llvmlite" not in sys.modules:
    pass
in_child(lambda: print(sample(), flush=True))
thread.join()
assert sample() == 0.0
"""

WHILE_COMPILING = """
sample()
from gridsample.kernels import forks
dtypes = np.float64, np.int16, np.int32
thread = threading.Thread(target=lambda: [sample(dtype) for dtype in dtypes])
thread.start()
while forks.guard.lock.acquire(blocking=False):
    forks.guard.lock.release()
in_child(lambda: print(sample(), sample(np.uint8), flush=True))
thread.join()
assert sample() == 0.0
"""

# Another thread holds the lock for the first time, until the fork asks for it.
AT_THE_FIRST_USE = """
from gridsample.kernels import forks

class Lock:
    def __init__(self):
        self.lock, self.asked = threading.RLock(), threading.Event()
    def acquire(self, timeout):
        self.asked.set()
        return self.lock.acquire(timeout=timeout)
    def release(self):
        self.lock.release()
    def __enter__(self):
        self.lock.acquire()
    def __exit__(self, *error):
        self.lock.release()

guard, begun = forks.Guard(), threading.Event()
guard.lock = Lock()
def use():
    with guard.held():
        begun.set()
        guard.lock.asked.wait()
thread = threading.Thread(target=use)
thread.start()
begun.wait()
def held():
    with guard.held():
        print("held", flush=True)
in_child(held)
thread.join()
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

# Another thread is inside a cache, where it compares keys or computes a property.
IN_A_CACHE = """
from gridsample.definitions.caches import cached_by_size, cached_property
entered, leave = threading.Event(), threading.Event()

class Key:
    def __init__(self, waits):
        self.waits = waits
    def __hash__(self):
        return 0
    def __eq__(self, other):
        if self.waits or other.waits:
            entered.set()
            leave.wait()
        return True

@cached_by_size(100, lambda result: 1)
def cache(key):
    return "kept"

class Record:
    waits = True
    @cached_property
    def value(self):
        if self.waits:
            entered.set()
            leave.wait()
        return "computed"

cache(Key(False))
record = Record()
def read(waits):
    record.waits = waits
    return record.value
for work in (lambda waits: cache(Key(waits)), read):
    entered.clear()
    leave.clear()
    thread = threading.Thread(target=work, args=(True,))
    thread.start()
    entered.wait()
    in_child(lambda: print(work(False), flush=True))
    leave.set()
    thread.join()
"""

# An endless compilation in another thread.
TOO_LONG = """
from gridsample.kernels import forks
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

# The thread that forks is the one that compiles.
BY_THE_COMPILING_THREAD = """
from gridsample.kernels import forks
with forks.held():
    in_child(lambda: print(sample(), flush=True))
print(sample())
"""


def run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
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


def test_a_child_of_a_fork_while_llvmlite_is_imported_works() -> None:
    assert run(WHILE_IMPORTING) == "0.0\n"


def test_a_child_of_a_fork_at_the_first_use_works() -> None:
    assert run(AT_THE_FIRST_USE) == "held\n"


def test_a_child_of_a_fork_while_another_thread_is_in_a_cache_works() -> None:
    assert run(IN_A_CACHE) == "kept\ncomputed\n"


@pytest.mark.slow
def test_a_child_of_a_fork_while_modules_are_loaded_works() -> None:
    assert run(WHILE_LOADING) == "0.0\n" * 3


def test_a_child_of_a_fork_during_a_compilation_works() -> None:
    assert run(WHILE_COMPILING) == "0.0 0\n"


def test_a_fork_during_a_long_compilation_raises_a_clear_error() -> None:
    assert run(TOO_LONG) == "the parent goes on\n"


def test_a_child_without_the_lock_calls_what_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = np.zeros((1, 4, 8, 2), np.float32)
    for size in (8, 9):
        monkeypatch.setattr(forks.guard, "lost", size == 9)
        sampled = gridsample.grid_sample(np.ones((1, 1, size, size), np.float32), grid)
        np.testing.assert_array_equal(sampled, 1)


def test_the_thread_that_compiles_may_fork() -> None:
    assert run(BY_THE_COMPILING_THREAD) == "0.0\n0.0\n"
