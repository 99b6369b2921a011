"""A pool of threads for kernels that run without the interpreter's lock.

It may be entered from many threads at once, it survives a fork (the child starts with an empty
pool), and whoever calls works too, so that a call is never stuck behind another.
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
# Where the machine code of a function of an address is, and it as Python may call it.
Worker = tuple[int, Callable[[int], None]]


class Job:
    """The tasks of one call, taken one by one by whoever is free."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Nothing is started yet."""
        self.tasks = tasks
        self.lock = threading.Lock()
        self.taken = 0
        self.running = 0
        self.failure: BaseException | None = None
        self.idle = threading.Event()  # set whenever no task runs and none is left

    def work(self) -> None:
        """Take tasks until none is left, or one has failed."""
        while True:
            with self.lock:
                if self.failure is not None or self.taken == len(self.tasks):
                    break
                task = self.tasks[self.taken]
                self.taken += 1
                self.running += 1
            try:
                task()
            except BaseException as failure:  # whatever it is, the caller must hear of it
                self.failure = failure
            finally:
                with self.lock:
                    self.running -= 1
        with self.lock:
            if self.running == 0:
                self.idle.set()

    def finish(self) -> None:
        """Wait for the tasks that others run.  Interrupted, start no more and wait all the same.

        The tasks write into the caller's arrays: it must not go on while one runs.
        """
        while True:
            try:
                self.idle.wait()
                break
            except BaseException as interruption:
                self.failure = interruption
        with self.lock:  # a thread that comes too late finds nothing, and keeps no array alive
            self.tasks, self.taken = (), 0
        if self.failure is not None:
            raise self.failure


class Pool:
    """Threads that wait for jobs; made when first needed."""

    def __init__(self) -> None:
        """An empty pool."""
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.size = 0

    def serve(self) -> None:
        """What each thread does, for ever."""
        while True:
            self.jobs.get().work()

    def grow(self, size: int) -> None:
        """Have at least so many threads, if the interpreter still starts any."""
        with self.lock:
            while self.size < size:
                try:
                    threading.Thread(
                        target=self.serve, name=f"gridsample-{self.size}", daemon=True
                    ).start()
                except (
                    RuntimeError
                ):  # the interpreter is shutting down, or the system has no threads left
                    return
                self.size += 1

    def run(self, tasks: Sequence[Task], threads: int) -> None:
        """Run all tasks on at most so many threads, the caller's included, and wait for them."""
        helpers = min(threads, len(tasks)) - 1
        if helpers < 1:
            for task in tasks:
                task()
            return
        self.grow(helpers)
        job = Job(tasks)
        for _ in range(helpers):
            self.jobs.put(job)
        try:
            job.work()
        except BaseException as interruption:
            job.failure = interruption
        job.finish()


_pool = Pool()

# The process that loaded this.  In a forked child OpenMP's threads are missing, and waited for.
_first = os.getpid()


def _start_anew() -> None:
    """In a forked child the threads stayed behind, and locks may be held by nobody."""
    _pool.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def run(tasks: Sequence[Task], threads: int) -> None:
    """Run all tasks on at most so many threads and wait for them; the first failure is raised."""
    if len(tasks) == 1:
        tasks[0]()
    else:
        _pool.run(tasks, threads)


def work(worker: Worker, orders: int, threads: int) -> None:
    """Have a worker take tasks on at most so many threads, and wait for them.

    The worker's machine code, or the function that Python can call, is given the address of its
    orders.  Where PyTorch is loaded its own threads are taken, those of OpenMP: after each of its
    operators they wait for the next one without rest, on the processors that others would need.
    """
    code, function = worker
    if threads == 1:
        function(orders)
        return
    team = openmp() if "torch" in sys.modules and os.getpid() == _first else None
    if team is None:
        _pool.run([functools.partial(function, orders)] * threads, threads)
    else:
        team(code, orders, threads, 0)


@functools.cache
def openmp() -> Any:
    """OpenMP's way to run a function on a team of threads, of the library that is loaded; or None.

    It takes the function's address, the argument, the number of threads, and 0.  GCC's programs
    enter regions that run in parallel so, and other implementations know the name, too.
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
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
