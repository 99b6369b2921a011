"""Threads: the same bits for any number, concurrent callers, forks, and Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cases
import numpy as np
import pytest

import gridsample
from gridsample.kernels import threads as pool

Array = np.ndarray[Any, Any]


def inputs(items: int, grids: int, channels: int, last: bool = False) -> tuple[Array, Array, Array]:
    """Image, grid and upstream values; enough points that several tasks are made."""
    rng = np.random.default_rng([items, grids, channels])
    shape = (items, 40, 50, channels) if last else (items, channels, 40, 50)
    out = (max(items, grids), 150, 190)
    image = rng.standard_normal(shape).astype(np.float32)
    grid = rng.uniform(-1.3, 1.3, (grids, *out[1:], 2)).astype(np.float32)
    up = (*out, channels) if last else (out[0], channels, *out[1:])
    return image, grid, rng.standard_normal(up).astype(np.float32)


CASES = {
    "one plane": (1, 1, 1, False),
    "three planes": (1, 1, 3, False),
    "a batch": (3, 3, 2, False),
    "one image, many grids": (1, 3, 2, False),
    "many images, one grid": (3, 1, 2, False),
    "runs": (1, 1, 16, True),
    "runs, one image": (1, 3, 16, True),
}


@pytest.mark.covering
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_every_number_of_threads_gives_the_same_bits(
    case: tuple[int, int, int, bool], mode: str
) -> None:
    image, grid, upstream = inputs(*case)
    axis = -1 if case[3] else 1

    def results(threads: int) -> list[Array]:
        sampled = gridsample.grid_sample(image, grid, mode, channel_axis=axis, threads=threads)
        both = gridsample.grid_sample_vjp(
            upstream, image, grid, mode, channel_axis=axis, threads=threads
        )
        return [sampled, *both]

    check_threads(results)


def check_threads(results: Callable[[int], list[Array]]) -> None:
    """Compare the results of one thread with those of several, bit for bit."""
    expected = results(1)
    for threads in (2, 3, 7):
        for mine, single in zip(results(threads), expected, strict=True):
            np.testing.assert_array_equal(mine, single)
            assert mine.tobytes() == single.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["trilinear", "tricubic"])
@pytest.mark.parametrize("grid_name", ["float16", "float32"])
def test_every_number_of_threads_gives_the_same_bits_in_a_volume(grid_name: str, mode: str) -> None:
    rng = np.random.default_rng(5)
    image = rng.standard_normal((1, 2, 9, 10, 11)).astype(grid_name)
    grid = rng.uniform(-1.3, 1.3, (1, 30, 40, 50, 3)).astype(np.float32)
    upstream = rng.standard_normal((1, 2, 30, 40, 50)).astype(np.float32)
    check_threads(
        lambda threads: list(
            gridsample.grid_sample_vjp(upstream, image, grid, mode, threads=threads)
        )
    )


def test_sixteen_concurrent_callers() -> None:
    image, grid, upstream = inputs(1, 1, 3)
    expected = gridsample.grid_sample(image, grid)
    gradients = gridsample.grid_sample_vjp(upstream, image, grid)
    gate = threading.Barrier(16)

    def call(_: int) -> bool:
        gate.wait()
        same = True
        for _ in range(4):
            same &= bool((gridsample.grid_sample(image, grid, threads=2) == expected).all())
            mine = gridsample.grid_sample_vjp(upstream, image, grid, threads=2)
            same &= all(bool((a == b).all()) for a, b in zip(mine, gradients, strict=True))
        return same

    with ThreadPoolExecutor(16) as executor:
        assert all(executor.map(call, range(16)))


def in_child(queue: Any, expected: Array) -> None:
    """Sample on several threads, and report whether the result is correct."""
    image, grid, _ = inputs(1, 1, 3)
    queue.put(bool((gridsample.grid_sample(image, grid, threads=2) == expected).all()))


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_children_after_the_pool_was_used(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    image, grid, _ = inputs(1, 1, 3)
    expected = gridsample.grid_sample(image, grid, threads=2)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    children = [
        context.Process(target=in_child, args=(queue, expected))
        for _ in range(8 if method == "fork" else 2)
    ]
    for child in children:
        child.start()
    assert all(queue.get(timeout=120) for _ in children)
    for child in children:
        child.join(60)
        assert child.exitcode == 0


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("threads", cases.slow_after(1, [1, 2]))
def test_keyboard_interrupt_stops_a_long_call(threads: int) -> None:
    """Calls without end are stopped, between two tasks, by KeyboardInterrupt."""
    code = f"""
import gc, signal, numpy as np, gridsample
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have turned it off
image = np.zeros((1, 1, 8, 8), np.float32)
grid = np.broadcast_to(np.float32(0.3), (60, 1000, 1000, 2))
# Python ignores an interrupt in a finalizer, such as those of the compiler's objects.
gridsample.grid_sample(image, grid[:, :2], threads={threads})
gc.collect()
try:
    print("ready", flush=True)
    while True:
        gridsample.grid_sample(image, grid, threads={threads})
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        out, error = child.communicate(timeout=60)
    finally:
        child.kill()
    assert out == "stopped\n", error
    assert child.returncode == 0


def test_the_first_failure_is_raised_and_no_more_is_started() -> None:
    done: list[int] = []

    def task(number: int) -> None:
        if number == 3:
            raise RuntimeError("the third")
        done.append(number)

    tasks = [lambda n=n: task(n) for n in range(1000)]  # type: ignore[misc]
    for threads in (1, 2, 4):
        done.clear()
        with pytest.raises(RuntimeError, match="the third"):
            pool.run(tasks, threads)
        assert len(done) < 999


@pytest.mark.parametrize("when", ["queued", "closed"])
def test_an_interrupted_call_waits_for_other_threads(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise they would write into arrays that no longer exist."""
    started, ends = threading.Event(), threading.Event()
    left, done, close = [when], list[int](), pool.Job.close

    def interrupt(place: str) -> None:
        if place in left:
            left.clear()
            assert started.wait(60)
            raise KeyboardInterrupt

    class Queue(queue.SimpleQueue[pool.Job]):
        def put(self, job: pool.Job) -> None:  # type: ignore[override]
            super().put(job)
            interrupt("queued")

    def closed(job: pool.Job) -> None:
        interrupt("closed")
        ends.set()
        close(job)

    def task() -> None:
        if threading.current_thread() is not threading.main_thread():
            started.set()
            ends.wait(60)
            done.append(1)
        else:
            assert started.wait(60)

    mine = pool.Pool()
    mine.jobs = Queue()
    monkeypatch.setattr(pool.Job, "close", closed)
    with pytest.raises(KeyboardInterrupt):
        mine.run([task] * 2, 2)
    assert done == [1]


def test_tasks_may_run_tasks() -> None:
    total: list[int] = []

    def outer() -> None:
        pool.run([lambda: total.append(1)] * 5, 4)

    pool.run([outer] * 20, 4)
    assert len(total) == 100


def test_the_pool_is_reused() -> None:
    pool.run([lambda: None] * 4, 4)
    before = threading.active_count()
    for _ in range(50):
        pool.run([lambda: None] * 4, 4)
    assert threading.active_count() == before


def test_finished_jobs_keep_no_array_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    late = pool.Pool()
    monkeypatch.setattr(late, "grow", lambda helpers: None)  # its threads come too late
    array = np.zeros(3)
    alive = weakref.ref(array)
    late.run([lambda stored=array: stored.fill(1)] * 2, 2)  # type: ignore[misc]
    assert not late.jobs.empty()
    del array
    assert alive() is None
    late.jobs.get().help()  # and late threads find no tasks
