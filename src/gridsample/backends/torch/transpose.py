"""The transpose of sampling, for PyTorch tensors: the operator scatter, and what a spline adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gridsample.backends.torch import derivatives, operators
from gridsample.backends.torch.asked import as_grid, check_call, check_tensors
from gridsample.backends.torch.contacts import shape_of
from gridsample.backends.torch.elsewhere import by_cpu, is_elsewhere
from gridsample.backends.torch.filtering import COEFFICIENTS, REALS, prefilter
from gridsample.backends.torch.operators import numpy_type
from gridsample.definitions.options import Options, changed
from gridsample.definitions.plan import (
    channels_last,
    check_flag,
    check_size,
    check_threads,
    check_values,
)


def splat(
    values: Tensor, grid: Tensor, size: Any, options: Options, normalize: bool = False
) -> Tensor:
    """`gridsample.splat` for tensors."""
    check_tensors(values=values, grid=grid)
    if is_elsewhere(grid):
        return by_cpu(splat, values, grid, size, options, normalize)  # type: ignore[no-any-return]
    grid = as_grid(grid, options)
    spatial = check_size(size, shape_of(grid))
    last = channels_last(options.channel_axis, len(spatial) + 2)
    items = check_values(shape_of(values), shape_of(grid), last)
    numpy_type(values.dtype, "values")
    kind = COEFFICIENTS[values.dtype]
    dtype = values.dtype if operators.differentiable(values) else kind
    values = values.movedim(-1, 1) if last else values
    normalized = check_flag(normalize, "normalize")
    result = transpose(
        values.to(kind if normalized else dtype).expand(items, *values.shape[1:]),
        grid, spatial, options,
    )  # fmt: skip
    if normalized:
        count = transpose_ones(grid, spatial, options).to(REALS[values.dtype])
        # Divided by 1 where nothing is, so that no derivative there is NaN either.
        result = result / torch.where(count == 0, 1, count)
    result = result.to(dtype)
    return result.movedim(1, -1) if last else result


def splat_count(grid: Tensor, size: Any, options: Options) -> Tensor:
    """`gridsample.splat_count` for tensors."""
    check_tensors(grid=grid)
    if is_elsewhere(grid):
        return by_cpu(splat_count, grid, size, options)  # type: ignore[no-any-return]
    grid = as_grid(grid, options)
    spatial = check_size(size, shape_of(grid))
    last = channels_last(options.channel_axis, len(spatial) + 2)
    result = transpose_ones(grid, spatial, options)
    return result.movedim(1, -1) if last else result


def transpose(values: Tensor, grid: Tensor, spatial: Sequence[int], options: Options) -> Tensor:
    """The transpose of sampling, the filter's included, of values (N, C, *out)."""
    check_threads(options.threads)
    size = (*shape_of(values)[:2], *spatial)
    asked = check_call(size, shape_of(grid), changed(options, channel_axis=1))
    how = asked.how.changed(threads=options.threads)
    if not asked.orders:
        result: Tensor = derivatives.scatter(values, grid, size, *how)
        return result
    kind = torch.promote_types(COEFFICIENTS[values.dtype], REALS[grid.dtype])
    pushed = derivatives.scatter(values.to(kind), grid, size, *how)
    return prefilter(pushed, grid, asked.orders, how, adjoint=True).to(values.dtype)


def transpose_ones(grid: Tensor, spatial: Sequence[int], options: Options) -> Tensor:
    """The transpose of sampling of ones: how much is added to each pixel."""
    numpy_type(grid.dtype, "grid")
    one = torch.ones((), dtype=REALS[grid.dtype], device=grid.device)
    return transpose(one.expand(grid.shape[0], 1, *grid.shape[1:-1]), grid, spatial, options)
