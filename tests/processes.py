"""Sampling in processes that torch starts: workers of data loaders, children, and replicas.

Run in a process of its own by the tests, which give it a time by which it must have ended:

    python -m processes loader fork | loader spawn | shared spawn | replicas
"""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import gridsample
import gridsample.nn

SHAPE = (1, 2, 33, 47)
ITEMS = 6


def sample(index: int) -> tuple[Tensor, Tensor]:
    """A rotated image and the gradient of its image, which depend on the index only."""
    generator = torch.Generator().manual_seed(index)
    image = torch.rand(SHAPE, generator=generator, requires_grad=True)
    theta = torch.eye(2, 3).unsqueeze(0) + 0.1 * torch.rand((1, 2, 3), generator=generator)
    out = gridsample.grid_sample(image, gridsample.affine_grid(theta, SHAPE), "bicubic")
    (gradient,) = torch.autograd.grad(out.square().sum(), image)
    return out.detach()[0], gradient[0]


def same(mine: Any, theirs: Any) -> None:
    """Whether two arrays are equal bit for bit."""
    for actual, other in zip(mine, theirs, strict=True):
        assert torch.equal(actual, other)


class RotatedImages(Dataset[tuple[Tensor, Tensor]]):
    """Samples in the process that asks for an item."""

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return sample(index)


def loader(start: str) -> None:
    """Two workers sample items, after and while this process does, on more than one thread."""
    torch.set_num_threads(2)
    large = torch.rand(1, 1, 600, 600)  # large enough for the pool to be at work before the fork
    gridsample.grid_sample(large, gridsample.affine_grid(torch.eye(2, 3)[None], large.shape))
    batches = DataLoader(
        RotatedImages(), batch_size=2, num_workers=2, multiprocessing_context=start, timeout=120
    )
    for epoch in range(2):
        for n, batch in enumerate(batches):
            expected = [
                torch.stack(pair) for pair in zip(sample(2 * n), sample(2 * n + 1), strict=True)
            ]
            same(batch, expected)
        print(f"{start}: epoch {epoch}")


def shared_worker(rank: int, tensors: tuple[Tensor, ...], results: Tensor) -> None:
    """Sample shared memory into shared memory."""
    image, grid = tensors
    with torch.no_grad():
        results[rank] = gridsample.grid_sample(image, grid[rank : rank + 1], "bicubic")[0]


def shared(start: str) -> None:
    """Processes sample one tensor's shared memory."""
    torch.manual_seed(0)
    image, grid = torch.rand(SHAPE).share_memory_(), (torch.rand(2, 20, 30, 2) * 2 - 1)
    results = torch.zeros(2, 2, 20, 30).share_memory_()
    torch.multiprocessing.start_processes(
        shared_worker, ((image, grid.share_memory_()), results), nprocs=2, start_method=start
    )
    same(results, gridsample.grid_sample(image, grid, "bicubic"))


def model() -> nn.Module:
    """A transformer that starts near the identity."""
    torch.manual_seed(1)
    look = nn.Sequential(nn.Flatten(), nn.Linear(2 * 8 * 9, 6))
    with torch.no_grad():
        look[1].weight.mul_(0.1)
        look[1].bias.copy_(torch.eye(2, 3).flatten())
    return gridsample.nn.SpatialTransformer(look, mode="bicubic", padding_mode="border")


def train(net: nn.Module, data: Tensor) -> list[Tensor]:
    """The parameters after some steps on data (steps, N, 2, 8, 9)."""
    steps = torch.optim.SGD(net.parameters(), lr=1e-3)
    for batch in data:
        steps.zero_grad()
        net(batch).square().mean().backward()
        steps.step()
    return [parameter.detach() for parameter in net.parameters()]


def replica(rank: int, place: str, data: Tensor, expected: list[Tensor]) -> None:
    """One of two processes, each of which sees half of every batch."""
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    distributed.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2)
    net = DistributedDataParallel(model())
    learned = train(net, data.chunk(2, dim=1)[rank])
    # Both processes wait for each other, and stop torch's threads before they exit.
    distributed.barrier()
    del net
    gc.collect()
    distributed.destroy_process_group()
    for mine, desired in zip(learned, expected, strict=True):
        torch.testing.assert_close(mine, desired, rtol=1e-5, atol=1e-7)


def replicas(start: str) -> None:
    """Two replicas that average their gradients learn what one process learns of all the data."""
    torch.manual_seed(2)
    data = torch.rand(3, 4, 2, 8, 9)
    expected = train(model(), data)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(
            replica, (f"{folder}/meet", data, expected), nprocs=2, start_method=start
        )


MAINS: dict[str, Callable[[str], None]] = {"loader": loader, "shared": shared, "replicas": replicas}

if __name__ == "__main__":
    MAINS[sys.argv[1]](sys.argv[2])
    print("done")
