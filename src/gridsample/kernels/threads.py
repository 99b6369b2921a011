"""A thread pool for kernels that run without the interpreter's lock.

Many threads may enter it at once.  It survives a fork: the child starts with an empty pool.  The
calling thread works too, so that no call has to wait for another one.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

Task = Callable[[], None]
# The address of the machine code of a function of one address, and the function for Python to call.
Worker = tuple[int, Callable[[int], None]]


class Job:
    """The tasks of one call.  Every free thread takes the next one.

    Only the calling thread can be interrupted, between any two of its instructions, because Python
    handles signals in its main thread.  Therefore only the other threads are counted here.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Keep the tasks, without starting any."""
        self.tasks = tasks
        self.lock = threading.Lock()
        self.taken = 0
        self.helping = 0
        self.closed = False
        self.failure: BaseException | None = None
        self.idle = threading.Event()  # set when no thread helps and none will

    def work(self) -> None:
        """Run tasks until none is left or one has failed."""
        while True:
            with self.lock:
                if self.failure is not None or self.taken == len(self.tasks):
                    return
                task = self.tasks[self.taken]
                self.taken += 1
            task()

    def help(self) -> None:
        """Run tasks in another thread than the caller's, unless it comes too late."""
        with self.lock:
            if self.closed:
                return
            self.helping += 1
        try:
            self.work()
        except BaseException as failure:  # every failure must reach the caller
            self.failure = failure
        with self.lock:
            self.helping -= 1
            if self.closed and self.helping == 0:
                self.idle.set()

    def close(self) -> None:
        """Let no more threads help, and wait for those that do.

        Their tasks write into the caller's arrays, so the caller must not continue before.
        """
        with self.lock:
            self.closed = True
            if self.helping == 0:
                self.idle.set()
        self.idle.wait()


class Pool:
    """Threads that wait for jobs.  They are started when they are first needed."""

    def __init__(self) -> None:
        """Make an empty pool."""
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.size = 0

    def serve(self) -> None:
        """Process jobs for ever; each thread runs this."""
        while True:
            self.jobs.get().help()

    def grow(self, size: int) -> None:
        """Start threads until there are ``size``, or until no more can be started."""
        with self.lock:
            while self.size < size:
                try:
                    threading.Thread(
                        target=self.serve, name=f"gridsample-{self.size}", daemon=True
                    ).start()
                except RuntimeError:
                    # The interpreter is shutting down, or the system has no threads left.
                    return
                self.size += 1

    def run(self, tasks: Sequence[Task], threads: int) -> None:
        """Run all tasks on at most ``threads`` threads, including the caller's, and wait."""
        helpers = min(threads, len(tasks)) - 1
        if helpers < 1:
            for task in tasks:
                task()
            return
        self.grow(helpers)
        job = Job(tasks)
        waiting = True
        while waiting:
            # All of it is in here, because an interrupt may come between any two lines.
            try:
                if job.failure is None and not job.closed:
                    for _ in range(helpers):
                        self.jobs.put(job)
                    job.work()
                job.close()
                waiting = False
            except BaseException as failure:
                job.failure = failure
        job.tasks = ()  # a thread that comes too late keeps no array alive
        if job.failure is not None:
            raise job.failure


_pool = Pool()

# The process that loaded this module.  A forked child has no OpenMP threads and would wait for
# them.
_loading_process = os.getpid()


def _start_anew() -> None:
    """Reset the pool in a forked child, where no thread exists and locks may never be released."""
    _pool.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def run(tasks: Sequence[Task], threads: int) -> None:
    """Run all tasks on at most ``threads`` threads, wait for them, and raise the first failure."""
    _pool.run(tasks, threads)


def work(worker: Worker, orders: int, threads: int) -> None:
    """Run a worker on ``threads`` threads and wait for them.

    The worker is called with the address ``orders``, as machine code or from Python.  If PyTorch is
    loaded, its own OpenMP threads run the worker: after each of PyTorch's operators they spin until
    the next one, on the cores that other threads would need.
    """
    code, function = worker
    team = openmp() if "torch" in sys.modules and os.getpid() == _loading_process else None
    if team is None:
        _pool.run([functools.partial(function, orders)] * threads, threads)
    else:
        team(code, orders, threads, 0)


@functools.cache
def openmp() -> Any:
    """Return the function of the loaded OpenMP library that runs a function on several threads.

    Its arguments are the function's address, the argument, the number of threads, and 0.  Programs
    compiled by GCC enter parallel regions through it, and other OpenMP libraries have it under the
    same name.  The result is None if there is no such library.
    """
    try:
        with open("/proc/self/maps") as maps:
            loaded = {line.split(maxsplit=5)[5].strip() for line in maps if "omp" in line}
    except OSError:
        return None
    for path in sorted(loaded):
        if re.search(r"/lib(gomp|iomp5|omp)[-.\w]*$", path):
            with contextlib.suppress(OSError, AttributeError):
                team: Any = ctypes.CDLL(path).GOMP_parallel
                team.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
                team.restype = None
                return team
    return None


@functools.cache
def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
