"""What tests of the GPU kernels share: inputs and comparisons."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import cases
import numpy as np
import oracles
import plans
import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from gridsample.definitions.methods import keys
from gridsample.kernels import gpu, reference
from gridsample.kernels.gpu import launching

SIZES = {1: (7,), 2: (5, 6), 3: (3, 4, 5)}
# A sum of up to 64 products whose factors are at most about 2 and rounded some ten times each.
SINGLE, DOUBLE = 64 * oracles.ulp(np.float32), 64 * oracles.ulp(np.float64)


def inputs(
    rank: int, points: int = 11, channels: int = 3, spatial: tuple[int, ...] = (), items: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """An image, a grid in which all kinds of coordinates occur, and values for its points."""
    rng = cases.generator("gpu", rank, points, channels, spatial)
    image = cases.pixels(rng, (items, channels, *(spatial or SIZES[rank])))
    grid = rng.uniform(-1.6, 1.6, (items, points, rank))
    odd = [np.nan, np.inf, -np.inf, -1.0, 1.0, 0.0, 30.0, -30.25]
    for number, value in enumerate(odd[: grid.shape[1] - 1]):
        grid[number % items, number, number % rank] = value
    values = cases.pixels(rng, (items, channels, points))
    return torch.from_numpy(image), torch.from_numpy(grid), torch.from_numpy(values)


def rolled(image: Tensor) -> Tensor:
    """Channels last in memory."""
    return image.movedim(1, -1).contiguous().movedim(-1, 1)


def spaced(tensor: Tensor) -> Tensor:
    """Every second entry of memory that must not be read otherwise."""
    memory = torch.full([2 * n + 1 for n in tensor.shape], torch.nan, dtype=tensor.dtype)
    view = memory[tuple(slice(1, None, 2) for _ in tensor.shape)]
    return view.copy_(tensor)


def check(
    image: Tensor,
    grid: Tensor,
    values: Tensor,
    mode: Any,
    boundary: Any,
    corners: bool,
    tolerance: float = DOUBLE,
    fill: Any = None,
    **counts: Any,
) -> None:
    """Values and both gradients against the reference's; outputs start out poisoned.

    ``counts`` are coords and extrapolate.
    """
    rank = grid.shape[-1]
    modes = tuple(mode) if isinstance(mode, tuple | list) else (mode,) * rank
    names = modes, oracles.per_axis(boundary, rank)
    arrays = image.numpy(), grid.numpy(), values.numpy()
    plan = plans.plan_for(
        tuple(image.shape),
        arrays[0].dtype,
        tuple(grid.shape),
        arrays[1].dtype,
        tuple(map(method, modes)),
        names[1],
        corners,
        **counts,
    )
    flat = grid.reshape(grid.shape[0], -1, rank)
    order = (0,) * rank
    backdrop = None if fill is None else torch.tensor(fill, dtype=image.dtype).reshape(-1)
    launch = launching.LaunchOptions(interpreted=True)
    out = torch.full((*plan.shape[:2], plan.points), torch.nan, dtype=image.dtype)
    gpu.gather(plan, image, flat, out, order, fill=backdrop, options=launch)
    outside = {**counts, "fill": 0 if fill is None else fill}
    wide = [array.astype(float) for array in arrays]
    expected = reference.gather(*wide[:2], *names, corners, **outside)
    oracles.assert_close(out.reshape(plan.shape).numpy(), expected, tolerance)

    grad_image = torch.zeros_like(image)
    gradient = gpu.backward(
        plan,
        values.reshape(*plan.shape[:2], -1),
        image,
        flat,
        grad_image,
        order,
        fill=backdrop,
        empty=lambda shape: torch.full(shape, torch.nan, dtype=image.dtype),
        options=launch,
    )
    upstream = wide[2].reshape(plan.shape)
    by_image, by_grid = reference.gradients(upstream, *wide[:2], *names, corners, **outside)
    oracles.assert_close(grad_image.numpy(), by_image, tolerance)
    assert gradient is not None
    oracles.assert_close(gradient.sum(0).reshape(grid.shape).numpy(), by_grid, 8 * tolerance)


def method(name: Any) -> Any:
    """The method with a name of the reference."""
    return keys(-name[2]) if isinstance(name, tuple) else name


# The operators: types, derivatives, exact sums ----------------------------------------------------


def operator_options(rank: int, mode: Any, boundary: Any, *order: int) -> tuple[Any, ...]:
    return (
        oracles.per_axis(mode, rank),
        oracles.per_axis(boundary, rank),
        False,
        order or (0,) * rank,
    )


# Sums that do not depend on the order -------------------------------------------------------------


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """Require torch's deterministic algorithms within a block."""
    before = torch.are_deterministic_algorithms_enabled()
    try:
        torch.use_deterministic_algorithms(True)
        yield
    finally:
        torch.use_deterministic_algorithms(before)
