"""Times derivatives of tensors against torch's, in one run, interleaved, after comparing them.

    python -m benchmarks.torch_derivatives                   every case, one thread
    python -m benchmarks.torch_derivatives --only double     cases whose name holds a text
    python -m benchmarks.torch_derivatives --tiny            small sizes: to see that it works

A ratio is torch's time over ours, pair by pair.  MB is the most that a call takes beside what there
was before it (Linux).  The last rows are calls on 16 points, whose time is overhead.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import gridsample
from benchmarks.__main__ import interleave
from tests import cases

Sample = Callable[[Tensor, Tensor], Tensor]
Call = Callable[[], tuple[Tensor, ...]]

SHAPES = ((4, 16, 128, 128), (1, 3, 1024, 1024), (1, 1, 96, 96, 96))
TINY = ((1, 2, 16, 16), (1, 1, 8, 8, 8))
POINTS = (1, 3, 4, 4)  # 16 points


def ours(image: Tensor, grid: Tensor) -> Tensor:
    return gridsample.grid_sample(image, grid)


def torchs(image: Tensor, grid: Tensor) -> Tensor:
    return functional.grid_sample(image, grid, align_corners=False)


def inputs(shape: tuple[int, ...]) -> dict[str, Tensor]:
    """Image, grid, and something of the shape of each and of the output to multiply with."""
    rng = cases.generator(shape)
    items, _, *spatial = shape
    grid = cases.rotation(spatial, False, items) * 0.99  # no point on a tie, where sides differ

    def noise(like: Any) -> Tensor:
        return torch.from_numpy(rng.standard_normal(like).astype("f4"))

    return {
        "image": noise(shape).requires_grad_(),
        "grid": torch.from_numpy(grid.astype("f4")).requires_grad_(),
        "d_image": noise(shape),
        "d_grid": noise(grid.shape),
        "upstream": noise(shape).requires_grad_(),
    }


# What is timed: each makes a call that gives tensors ----------------------------------------------


def forward(sample: Sample, of: dict[str, Tensor]) -> Call:
    image, grid = of["image"].detach(), of["grid"].detach()
    return lambda: (sample(image, grid),)


def backward(sample: Sample, of: dict[str, Tensor]) -> Call:
    leaves, upstream = (of["image"], of["grid"]), of["upstream"].detach()
    out = sample(*leaves)
    return lambda: torch.autograd.grad(out, leaves, upstream, retain_graph=True)


def both(sample: Sample, of: dict[str, Tensor]) -> Call:
    leaves, upstream = (of["image"], of["grid"]), of["upstream"].detach()
    return lambda: torch.autograd.grad(sample(*leaves), leaves, upstream)


def double(sample: Sample, of: dict[str, Tensor]) -> Call:
    leaves = of["image"], of["grid"]
    firsts = torch.autograd.grad(sample(*leaves), leaves, of["upstream"], create_graph=True)
    along, wanted = (of["d_image"], of["d_grid"]), (*leaves, of["upstream"])
    return lambda: torch.autograd.grad(firsts, wanted, along, retain_graph=True)


def jvp(sample: Sample, of: dict[str, Tensor]) -> Call:
    """Torch 2.13 has no forward mode here: its jvp is the reverse of a reverse."""
    primals = of["image"].detach(), of["grid"].detach()
    take = torch.func.jvp if sample is ours else torch.autograd.functional.jvp
    return lambda: take(sample, primals, (of["d_image"], of["d_grid"]))


def every_case(shapes: tuple[tuple[int, ...], ...]) -> Iterator[tuple[str, tuple[int, ...], Any]]:
    for shape in shapes:
        for kind in (forward, backward, double, jvp):
            yield f"{'x'.join(map(str, shape))} {kind.__name__}", shape, kind
    for kind in (forward, both):
        yield f"16 points {kind.__name__}", POINTS, kind


# Measuring ----------------------------------------------------------------------------------------


def agree(name: str, mine: tuple[Tensor, ...], theirs: tuple[Tensor, ...]) -> None:
    """An error where results differ by more than rounding, but in one number of ten thousand."""
    for a, b in zip(mine, theirs, strict=True):
        difference = (a - b).abs() / b.abs().max()
        if (difference > 1e-3).float().mean() > 1e-4:
            sys.exit(f"{name}: the results differ by up to {difference.max():.2g}")


def megabytes(call: Call) -> float:
    """The peak of a call's memory beside what there was before, where the system tells."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return float("nan")

    def read(name: str) -> int:
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))

    before = read("VmRSS")
    reset.write_text("5")
    call()
    return (read("VmHWM") - before) / 1e3


def measure(name: str, shape: tuple[int, ...], kind: Any, seconds: float) -> dict[str, Any]:
    of = inputs(shape)
    mine, theirs = kind(ours, of), kind(torchs, of)
    agree(name, mine(), theirs())
    a, b = interleave(mine, theirs, seconds)
    return {
        "case": name,
        "us": statistics.median(a) * 1e6,
        "torch_us": statistics.median(b) * 1e6,
        "ratio": statistics.median(y / x for x, y in zip(a, b, strict=True)),
        "mb": megabytes(mine),
        "torch_mb": megabytes(theirs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(f"torch {torch.__version__}, {given.threads} thread(s)\n")
    print(f"{'case':34}{'ours us':>12}{'torch us':>12}{'ratio':>8}{'ours MB':>9}{'torch MB':>10}")
    rows = []
    for name, shape, kind in every_case(TINY if given.tiny else SHAPES):
        if given.only in name:
            row = measure(name, shape, kind, given.seconds)
            rows.append(row)
            print(
                f"{name:34}{row['us']:12.1f}{row['torch_us']:12.1f}{row['ratio']:8.2f}"
                f"{row['mb']:9.1f}{row['torch_mb']:10.1f}",
                flush=True,
            )
    if given.json:
        setting = {"torch": torch.__version__, "threads": given.threads}
        given.json.write_text(json.dumps({**setting, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
