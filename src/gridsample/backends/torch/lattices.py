"""Sampling tensors at the points of lattices of control points, without a grid."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gridsample.backends.base import Gradients, Needed
from gridsample.backends.torch.derivatives import needs_gradient, only_needed
from gridsample.backends.torch.operators import (
    OperatorCall,
    call_for,
    check_differentiable,
    check_values,
    is_eager_on_cpu,
    memory,
    run_backward,
    run_gather,
)
from gridsample.definitions.control_points import ControlPoints
from gridsample.definitions.options import Options
from gridsample.kernels import on_cpu


def call_of_lattice(
    image: Tensor, lattice: Tensor, places: ControlPoints, options: Options
) -> OperatorCall | None:
    """Describe a call; None if programs do not read the lattice."""
    call = options.plan
    if call is None:
        grid = lattice.new_empty(()).expand(len(lattice), *places.out, lattice.shape[-1])
        call = call_for(image.shape, image, grid, options)
    call = call._replace(plan=replace(call.plan, lattice=places))
    return call if on_cpu().reads_lattices(call.plan) and not call.vanishes else None


def padded(places: ControlPoints, lattice: Tensor) -> Tensor:
    """Return the control points that programs read."""
    points = lattice if lattice.dtype == torch.float64 else lattice.float()
    return torch.from_numpy(on_cpu().padded(places, memory(points)))


def sample(
    image: Tensor, lattice: Tensor, places: ControlPoints, options: Options, dtype: torch.dtype
) -> Tensor | None:
    """Sample eager tensors on a CPU, without derivatives; None for others."""
    if image.dtype != dtype or not is_eager_on_cpu(image, lattice):
        return None
    call = call_of_lattice(image, lattice, places, options)
    return None if call is None else run_gather(call, image, padded(places, lattice), options)


def gradients(
    values: Tensor,
    image: Tensor,
    lattice: Tensor,
    places: ControlPoints,
    options: Options,
    needed: Needed,
) -> Gradients | None:
    """Compute the gradients of image and grid for such tensors; None for others."""
    tensors = values, image, lattice
    if not is_eager_on_cpu(*tensors) or needs_gradient(*tensors) or not values.numel():
        return None
    call = call_of_lattice(image, lattice, places, options.changed())
    if call is None:
        return None
    if needed[0]:
        check_differentiable(image)
    check_values(values, call.plan, "grad_output")
    first, second = run_backward(call, values, image, padded(places, lattice), needed, options)
    return only_needed((first, second.to(lattice.dtype)), needed)
