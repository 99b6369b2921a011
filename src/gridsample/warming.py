"""Compile kernels in advance: for containers, services, test suites, and before a fork.

The kernels that a call needs depend on many things.  Therefore the calls themselves are executed,
with small arrays of zeros: first by several processes in parallel, which store the kernels on disk,
and then by this process, which loads them.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from gridsample.backends.numpy import real_type
from gridsample.definitions.plan import find_method, is_differentiable
from gridsample.kernels.compile import folders
from gridsample.kernels.threads import cores
from gridsample.ops.affine import affine_sample, affine_sample_vjp
from gridsample.ops.resizing import interpolate, interpolate_vjp
from gridsample.ops.sampling import grid_sample, grid_sample_vjp

# Channels, and whether they come last: few and many planes; pixels of one register, and of more.
LAYOUTS = ((2, False), (8, False), (16, False), (3, True), (4, True), (16, True))
# The size of images along each axis, and how many numbers the gradients are taken of.
SIDE, NUMBERS = 40, 1 << 18
# The distances of points in pixels if footprints are sampled: samples are taken of the image, of a
# halved copy, and of a copy that is halved twice.
APART = 3, 20, 40
# Options that need kernels of their own.
OPTIONS: dict[str, dict[str, Any]] = {
    "": {}, "antialias": {"antialias": True}, "missing": {"missing": "ignore"}
}  # fmt: skip


class Warmed(NamedTuple):
    """The result of `warmup`.

    Attributes:
        folder: the folder of the kernels; None if no folder is writable.
        compiled: the number of kernels compiled, without those that existed already.
        seconds: the elapsed time.
    """

    folder: Path | None
    compiled: int
    seconds: float


class Call(NamedTuple):
    """A call to make: of what, and with what; ``option`` is one of OPTIONS."""

    function: str
    dtype: str
    rank: int
    mode: str
    channels: int
    last: bool
    gradients: bool
    torch: bool
    option: str = ""


def warmup(
    dtypes: str | Iterable[str] = ("float32", "uint8"),
    ranks: int | Iterable[int] = 2,
    modes: str | Iterable[str] = ("nearest", "bilinear", "bicubic"),
    *,
    gradients: bool = False,
    torch: bool = False,
    antialias: bool = False,
    missing: bool = False,
    processes: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Warmed:
    """Compile the kernels of common calls, store them on disk, and load them.

    A kernel is compiled when a call first needs it, which takes seconds.  After `warmup`, a covered
    call compiles nothing, in this process or in any other of the same user, on the same machine and
    with the same versions.  If forked children sample, call it before the fork: they inherit the
    loaded kernels.

    The covered calls are `grid_sample`, `affine_sample` and `interpolate`, for the modes that each
    of them has, with

    * contiguous images with channels first, or with channels last if there are 3, 4 or at least 8;
    * contiguous float32 grids, or float64 grids for images that are summed in float64, and for
      tensors grids of the image's dtype;
    * all coordinates except displacements;
    * every boundary that does not change signs;
    * all sizes with fewer than 2^31 elements.

    Combinations that do not exist, such as labels of a floating-point dtype, are left out.

    Args:
        dtypes: names of the dtypes of images, one or several.
        ranks: numbers of spatial axes, 1 to 3, one or several.
        modes: names of modes of `grid_sample`, of `interpolate`, or of both; one or several.
        gradients: whether to include the gradients of the image and the grid.
        torch: whether to include tensors on the CPU and, with gradients, their second derivatives.
        antialias: whether to include samples of footprints (``antialias=True``).
        missing: whether to include images with missing pixels (``missing="ignore"``).
        processes: the number of processes, including this one; by default one per core.
        progress: called with the share of the work that is done, 0 to 1.

    Returns:
        The folder of the kernels, the number of kernels compiled, and the elapsed time.

    Raises:
        ImportError: ``torch`` is True and torch is not installed.
        TypeError: images cannot have one of the dtypes.
        ValueError: a dtype or mode is unknown, a rank is not 1, 2 or 3, or processes is less than
            one.

    Example:
        >>> import gridsample
        >>> gridsample.warmup("float32", 2, "bilinear").folder  # doctest: +SKIP
        PosixPath('/home/me/.cache/gridsample')
    """
    began, shown = time.monotonic(), 0.0
    names = [dtypes] if isinstance(dtypes, str) else list(dtypes)
    wanted = [modes] if isinstance(modes, str) else list(modes)
    numbers = [ranks] if isinstance(ranks, int) else list(ranks)
    check(names, numbers, wanted, torch)
    if processes is not None and processes < 1:
        raise ValueError(f"processes must be at least 1, got {processes}")

    def report(share: float) -> None:
        nonlocal shown
        shown = max(shown, share)
        if progress is not None:
            progress(shown)

    asked = {"": True, "antialias": antialias, "missing": missing}
    options = [name for name, included in asked.items() if included]
    calls = list(calls_for(names, numbers, wanted, gradients, torch, options))
    folder, compiled, shared = folders.writable(), 0, False
    for number, call in enumerate(calls, 1):
        compiled += make(call)
        if compiled and folder and not shared:  # it seems that they are not on disk
            compiled += share_out(calls[number:], processes or cores(), report)
            shared = True
        report(number / len(calls))
    return Warmed(Path(folder) if folder else None, compiled, time.monotonic() - began)


def check(dtypes: list[str], ranks: list[int], modes: list[str], torch: bool) -> None:
    """Refuse what there is no kernel for, before any is compiled."""
    for name in modes:
        find_method(name, resizing=True)
    for rank in ranks:
        if rank not in (1, 2, 3):
            raise ValueError(f"ranks must be 1, 2 or 3, got {rank!r}")
    for name in dtypes:
        if not (torch and name == "bfloat16"):
            try:
                dtype = np.dtype(name)
            except TypeError:
                raise ValueError(f"dtypes must be names of NumPy's types, got {name!r}") from None
            real_type(dtype)
    if torch:
        import gridsample.backends.torch  # noqa: F401


# What is called -----------------------------------------------------------------------------------


def samples(mode: str) -> bool:
    """Whether `grid_sample` has a mode."""
    return find_method(mode, resizing=True).samples


def is_possible(dtype: str, mode: str, option: str) -> bool:
    """Whether there are such images: labels are integers, and missing pixels are not."""
    method = find_method(mode, resizing=True)
    floating = dtype == "bfloat16" or np.dtype(dtype).kind in "fc"
    if method.votes:
        return not floating and option != "missing"
    return option != "missing" or (floating and not method.prefilter)


def calls_for(
    dtypes: list[str], ranks: list[int], modes: list[str], gradients: bool, torch: bool,
    options: Iterable[str] = ("",),
) -> Iterator[Call]:  # fmt: skip
    """Yield the calls that need all the kernels."""
    libraries = (False, True) if torch else (False,)
    kinds = product(dtypes, ranks, modes, libraries, options)
    for dtype, rank, mode, with_torch, option in kinds:
        if (dtype == "bfloat16" and not with_torch) or not is_possible(dtype, mode, option):
            continue
        for channels, last in LAYOUTS:
            how = dtype, rank, mode, channels, last, gradients, with_torch, option
            if samples(mode):
                yield Call("grid_sample", *how)
                yield Call("affine_sample", *how)
            if option != "antialias":  # that is included in any case
                yield Call("interpolate", *how)


@dataclass(frozen=True)
class Case:
    """What decides which kernels a call needs, besides its own fields.

    Attributes:
        items: the number of items.
        boundary: what is outside.
        crowded: whether points outnumber pixels.
        apart: the distance of points in pixels, if footprints are sampled.
    """

    items: int = 1
    boundary: str = "zeros"
    crowded: bool = True
    apart: int = APART[0]


class Work(NamedTuple):
    """A call's functions and operands: an image and, but for resizing, a grid or affine maps."""

    operands: list[Any]
    forward: list[Callable[..., Any]]  # of the operands
    backward: list[Callable[..., Any]]  # of the upstream gradient and the operands


def make(call: Call) -> int:
    """Make a call, and return how many kernels were compiled for it."""
    from gridsample.kernels.compile.cache import tally

    before = tally["compiled"]
    for case in cases_of(call):
        work = work_of(call, case)
        if call.torch:
            from gridsample.backends.torch.warming import differentiate

            differentiate(work.forward, work.operands, call.dtype, call.gradients)
            continue
        for forward in work.forward:
            out = forward(*work.operands)
        for backward in work.backward if call.gradients else ():
            backward(upstream_of(out), *work.operands)
    return tally["compiled"] - before


def cases_of(call: Call) -> list[Case]:
    """Return the cases of a call."""
    if call.function == "interpolate":
        return [Case(), Case(items=4)]
    cases = [Case()] if call.function == "affine_sample" else [Case(), Case(items=4)]
    if not call.last:
        # Linear samples need no list of taps under "zeros"; many channels none by tiles, if there
        # are few points.
        cases += [replace(one, boundary="reflection") for one in cases]
        cases += [replace(one, crowded=False) for one in cases if one.items == 1]
    if call.option == "antialias":
        cases = [replace(one, apart=apart) for one, apart in product(cases, APART)]
    return cases


def upstream_of(out: Any) -> Any:
    """An upstream gradient for an output."""
    return out if is_differentiable(out.dtype) else out.astype(real_type(out.dtype))


def work_of(call: Call, case: Case) -> Work:
    """Make the operands and functions of a call."""
    items, rank, axis = case.items, call.rank, -1 if call.last else 1
    stored = np.dtype("float32" if call.dtype == "bfloat16" else call.dtype)
    real, size = real_type(stored), (SIDE,) * rank
    shape = (items, *size, call.channels) if call.last else (items, call.channels, *size)
    image = np.zeros(shape, stored)
    if call.option == "missing":
        image.flat[0] = np.nan
    how: dict[str, Any] = {"mode": call.mode, "channel_axis": axis, **OPTIONS[call.option]}
    has_gradient = is_differentiable(stored)
    if call.function == "interpolate":
        # Each axis made smaller, left alone or made larger: that decides in which order they go,
        # and so what lies between two.
        sizes = [(SIDE // 2,) * rank, *product((SIDE - 9, SIDE, SIDE + 9), repeat=rank)]
        smooths = not call.mode.startswith("nearest") and find_method(call.mode, True).stretches
        small = {"size": 2, "antialias": smooths}
        resizings: list[Any] = [{"size": one, **how} for one in sizes] + [{**small, **how}]
        return Work(
            [image],
            [partial(interpolate, **one) for one in resizings],
            [partial(interpolate_vjp, **one) for one in resizings[-1:] if has_gradient],
        )
    # At least as many points as pixels; with gradients so many that two threads share the work.  Of
    # several items, each has few.  For all of these there are kernels of their own.
    how["padding_mode"] = case.boundary
    shared = math.ceil((NUMBERS / call.channels) ** (1 / rank)) if call.gradients else SIDE
    side = 5 if items > 1 or not case.crowded else max(SIDE, shared)
    grid = np.zeros((items, *(side,) * rank, rank), real)
    theta = np.zeros((1, rank, rank + 1), real)
    if call.option == "antialias":
        spread(grid, theta, case.apart)
    where, need = grid, "need_grid"
    forward, backward = cast(Any, grid_sample), cast(Any, grid_sample_vjp)
    if call.function == "affine_sample":
        where, need, forward, backward = theta, "need_theta", affine_sample, affine_sample_vjp
        how["size"] = (1, call.channels, *(side,) * rank)
    needs = [(True, True), (True, False), (False, True)] if has_gradient else [(False, True)]
    return Work(
        [image, where],
        [partial(forward, **how, threads=threads) for threads in (1, 2)],
        [
            partial(backward, **how, **{"need_input": a, need: b, "threads": threads})
            for a, b in needs
            for threads in (1, 2)
        ],
    )


def spread(grid: Any, theta: Any, pixels: float) -> None:
    """Lay the points of a grid, and of affine maps, so many pixels apart."""
    side, rank = grid.shape[1], grid.shape[-1]
    line = np.arange(side) * (2 * pixels / SIDE) - 1
    grid[...] = np.stack(np.meshgrid(*[line] * rank, indexing="ij")[::-1], -1)
    theta[..., range(rank), range(rank)] = side * pixels / SIDE


# Processes ----------------------------------------------------------------------------------------


Worker = subprocess.Popen[str]

CODE = "import sys; sys.path[:] = sys.argv[1:]; from gridsample import warming; warming.serve()"


def share_out(calls: list[Call], processes: int, report: Callable[[float], None]) -> int:
    """Have other processes make the calls, and return how many kernels they compiled.

    What they fail to do, its caller does.
    """
    count, program = min(processes, len(calls)), sys.executable
    if count < 2 or not program or getattr(sys, "frozen", False):  # it is no interpreter
        return 0
    workers: list[Worker] = []
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    compiled = 0
    try:
        with contextlib.suppress(OSError):  # it cannot be run, or no more often
            for _ in range(count):
                workers.append(
                    subprocess.Popen([program, "-P", "-c", CODE, *sys.path], text=True, **pipes)
                )
                idle.put(workers[-1])
        if workers:
            with ThreadPoolExecutor(len(workers)) as pool, ended(workers):
                for number, more in enumerate(pool.map(partial(ask, idle), calls), 1):
                    compiled += more
                    report(number / (len(calls) + 1))
        return compiled
    finally:
        for worker in workers:
            worker.communicate()


@contextlib.contextmanager
def ended(workers: list[Worker]) -> Iterator[None]:
    """End the processes at the end, or when interrupted: then nobody waits for them any longer."""
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()


def ask(idle: queue.SimpleQueue[Worker], call: Call) -> int:
    """Have an idle process make a call; one that has died does nothing."""
    worker = idle.get()
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(json.dumps(call) + "\n")
        worker.stdin.flush()
        return int(worker.stdout.readline() or 0)
    except OSError:
        return 0
    finally:
        idle.put(worker)


def serve() -> None:
    """What such a process does: calls are read, and the numbers of kernels compiled are written."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        try:
            compiled = make(Call(*json.loads(line)))
        except Exception:  # it will happen to whoever asked, too, and be raised there
            compiled = 0
        print(compiled, file=answers, flush=True)
