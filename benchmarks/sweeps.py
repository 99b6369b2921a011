"""Times plane sweeps against the plain version in torch, which keeps all warped volumes.

    python -m benchmarks.sweeps                 every case, on one thread and on all cores
    python -m benchmarks.sweeps --threads 1     on one thread
    python -m benchmarks.sweeps --case large    cases whose name contains a text; * and ? are wild
    python -m benchmarks.sweeps --json FILE     also write the figures
    python -m benchmarks.sweeps --list          the cases

The plain version projects all pixels to all planes, samples every source there with torch's
`grid_sample`, stacks the volumes and takes their variance, as MVSNet's published code does.
Nothing is timed before our volume agrees with the plain version in float64 to 1e-5 of the largest
number.  (In float32, torch is off by more, because normalized coordinates are rounded.)
The memory of each is the growth of the peak (VmHWM) of its own process after a sweep of two planes,
including the results.  A ratio is torch's time divided by ours; above 1, we are faster.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import pairs
from benchmarks.pairs import Disagreement, Row

PROGRAM = "benchmarks.sweeps"
TOLERANCE = 1e-5  # of the largest number
PLANES = 8  # the planes of the expected result that are computed at a time


class Case(NamedTuple):
    """The sizes of a sweep."""

    views: int  # sources
    channels: int
    planes: int
    height: int
    width: int


CASES = {
    "192 planes, 5 views": Case(5, 32, 192, 128, 160),
    "48 planes, 2 views": Case(2, 32, 48, 128, 160),
    "tiny": Case(2, 3, 5, 7, 9),
}


def make_inputs(case: Case) -> tuple[Any, ...]:
    """Features of a reference camera and of views around it: (1, ...) tensors."""
    import torch

    generator = torch.Generator().manual_seed(0)
    height, width = case.height, case.width
    shape = 1, case.views + 1, case.channels, height, width
    features = torch.rand(shape, generator=generator)
    # In float32, both results would be dominated by the rounding of positions.
    lens = torch.tensor([[1.1 * width, 0, width / 2], [0, 1.1 * width, height / 2], [0, 0, 1.0]])
    lens, poses = lens.double(), torch.eye(4).double().repeat(case.views + 1, 1, 1)
    for v in range(1, case.views + 1):
        angle = torch.tensor(0.03 * (-1) ** v * v)
        poses[v, 0, 0] = poses[v, 2, 2] = angle.cos()
        poses[v, 0, 2], poses[v, 2, 0] = angle.sin(), -angle.sin()
        poses[v, :3, 3] = torch.tensor([0.2 * (-1) ** v * v, 0.05 * v, 0.02])
    cameras = lens.repeat(1, case.views + 1, 1, 1), poses[None]
    depths = torch.linspace(2.0, 8.0, case.planes).double()
    return features[:, 0], features[:, 1:], cameras, depths


def ours(reference: Any, sources: Any, cameras: Any, depths: Any) -> Any:
    """The variance by `plane_sweep`."""
    from gridsample import cameras as library

    return library.plane_sweep(reference, sources, cameras, depths)


def naive(reference: Any, sources: Any, cameras: Any, depths: Any) -> Any:
    """The variance of all volumes, which are kept until the end."""
    import torch
    from torch.nn.functional import grid_sample

    n, channels, height, width = reference.shape
    plane_count, (intrinsics, poses) = len(depths), cameras
    matrices = poses.clone()
    matrices[:, :, :3] = intrinsics @ poses[:, :, :3]
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    pixels = torch.stack([x, y, torch.ones_like(x)]).to(poses.dtype).reshape(3, -1)
    volumes = [reference[:, :, None].expand(-1, -1, plane_count, -1, -1)]
    for v in range(sources.shape[1]):
        relative = matrices[:, v + 1] @ torch.inverse(matrices[:, 0])
        rays = (relative[:, :3, :3] @ pixels)[:, :, None] * depths[:, None]
        points = rays + relative[:, :3, 3, None, None]
        grid_x = points[:, 0] / points[:, 2] / ((width - 1) / 2) - 1
        grid_y = points[:, 1] / points[:, 2] / ((height - 1) / 2) - 1
        grid = torch.stack((grid_x, grid_y), -1).view(n, plane_count * height, width, 2)
        warped = grid_sample(sources[:, v], grid.to(reference.dtype), align_corners=True)
        volumes.append(warped.view(n, channels, plane_count, height, width))
    return torch.stack(volumes).var(0, unbiased=False)


IMPLEMENTATIONS: dict[str, Callable[..., Any]] = {"ours": ours, "naive": naive}


def truth(reference: Any, sources: Any, cameras: Any, depths: Any) -> Any:
    """The plain version in float64, a few planes at a time."""
    import torch

    parts = [
        naive(reference.double(), sources.double(), cameras, group)
        for group in depths.split(PLANES)
    ]
    return torch.cat(parts, 2)


def distance(result: Any, expected: Any) -> float:
    """The largest difference, relative to the largest number."""
    return float((result - expected).abs().max() / expected.abs().max())


def compare(inputs: tuple[Any, ...]) -> Row:
    """The distances of both from the expected result.

    Raises:
        Disagreement: Ours is above the tolerance.
    """
    expected = truth(*inputs)
    difference = distance(ours(*inputs), expected)
    if not difference <= TOLERANCE:  # a NaN is no agreement
        raise Disagreement(f"by {difference:.2g} of the largest number")
    return {"difference": difference, "torch_difference": distance(naive(*inputs), expected)}


def peak() -> int:
    """The peak of this process's memory in bytes, as Linux reports it.

    ``ru_maxrss`` also contains that of the process that started this one.
    """
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.partition("VmHWM:")[2].split()[0])


def peak_growth(implementation: str, name: str) -> int:
    """The growth of this process's peak memory in one call, in bytes."""
    import torch

    torch.set_grad_enabled(False)
    *inputs, depths = make_inputs(CASES[name])
    IMPLEMENTATIONS[implementation](*inputs, depths[:2])
    before = peak()
    IMPLEMENTATIONS[implementation](*inputs, depths)
    return peak() - before


def memory(implementation: str, name: str) -> int:
    """The growth of a new process's peak memory in one call, in bytes."""
    words = [sys.executable, "-m", PROGRAM, "--memory", implementation, "--case", name]
    process = subprocess.run(words, check=True, capture_output=True, text=True)
    return int(process.stdout)


def measure(name: str, seconds: float) -> Iterator[Row]:
    """The row of a case."""
    import torch

    inputs = make_inputs(CASES[name])
    with torch.no_grad():
        differences = compare(inputs)
        times = pairs.timed(lambda: ours(*inputs), lambda: naive(*inputs), seconds)
    peaks = {implementation: memory(implementation, name) for implementation in IMPLEMENTATIONS}
    memory_of = {"bytes": peaks["ours"], "torch_bytes": peaks["naive"]}
    yield {"kind": "forward", **times, **differences, **memory_of}
    print(
        f"    memory: ours {peaks['ours'] / 1e6:.0f} MB, plain {peaks['naive'] / 1e6:.0f} MB "
        f"({peaks['naive'] / max(peaks['ours'], 1):.1f} times as much)\n    off the truth: ours "
        f"{differences['difference']:.1g}, plain {differences['torch_difference']:.1g}"
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run and print."""
    parser = pairs.parser(PROGRAM, __doc__, seconds=20.0)
    parser.add_argument(
        "--memory", choices=IMPLEMENTATIONS, help="print the memory of one call, in bytes"
    )
    arguments = parser.parse_args(words)
    if arguments.memory:
        print(
            *(peak_growth(arguments.memory, name) for name in pairs.matching(CASES, arguments.case))
        )
        return 0
    return pairs.run(PROGRAM, arguments, lambda: list(CASES), measure)


if __name__ == "__main__":
    sys.exit(main())
