"""Grids of affine maps, and sampling tensors under affine maps without a grid where possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from gridsample.backends import maps
from gridsample.backends.base import Backend, Gradients, Needed
from gridsample.backends.torch import cuda, derivatives, operators
from gridsample.backends.torch.operators import (
    OperatorCall,
    call_for,
    check_values,
    empty,
    run_backward,
    run_gather,
)
from gridsample.definitions.coords import coordinates
from gridsample.definitions.knots import Axes
from gridsample.definitions.labels import has_labels
from gridsample.definitions.options import Options

Size = Sequence[int]
# A linear function of a backend, an array and sizes, and its transpose.
Pair = tuple[Callable[..., Tensor], Callable[..., Tensor]]


def line(n: Any, align_corners: bool | None) -> Tensor:
    """Compute `definitions.coords.coordinates` as a tensor; the size may be symbolic.

    If ``align_corners`` is None, the result is the indices.
    """
    if align_corners is None:
        return torch.arange(n, dtype=torch.float64)
    if isinstance(n, int):
        return torch.from_numpy(coordinates(n, align_corners))
    last = n - 1
    steps: Tensor = 2 * torch.arange(n, dtype=torch.float64) - last
    if not align_corners:
        return torch.div(steps, n)
    return torch.div(steps, last.clamp(min=1) if isinstance(last, Tensor) else max(last, 1))


def grid(backend: Backend, theta: Tensor, out: Size, align_corners: bool | None) -> Tensor:
    """Create the grid of affine maps, (N, *out, D); ``out`` may be symbolic."""
    pair = maps.grid_along, maps.gradient_along
    return linear(pair, theta, backend, tuple(out), align_corners)


def linear(pair: Pair, array: Tensor, backend: Backend, *arguments: Any) -> Tensor:
    """Call a linear function; autograd records the pair, or elsewhere the single operations."""
    if derivatives.needs_gradient(array) and operators.is_eager(array):
        result: Tensor = LinearPair.apply(array, pair, backend, *arguments)  # type: ignore[no-untyped-call]
        return result
    return pair[0](backend, array, *arguments)


def can_fuse(image: Tensor, theta: Tensor, options: Options, dtype: torch.dtype) -> bool:
    """Whether a kernel can compute the coordinates; not if samples are rounded to integers."""
    if not operators.is_eager(image, theta) or (
        image.dtype != dtype and not (dtype.is_floating_point or dtype.is_complex)
    ):
        return False
    # The GPU kernels do not count the votes of footprints.
    known = options.footprint is None or not has_labels(options.mode)
    known &= not isinstance(options.coords, Axes)
    return image.device.type == "cpu" or (image.device.type in cuda.DEVICES and known)


def can_fuse_gradients(values: Tensor, image: Tensor, theta: Tensor, options: Options) -> bool:
    """Whether a kernel can compute the gradients from the maps."""
    return operators.is_eager(values) and can_fuse(image, theta, options, image.dtype)


class AffineCall(NamedTuple):
    """Sampling under affine maps, for tensors of known shapes and dtypes.

    Attributes:
        backend: the backend of tensors.
        out: the output's spatial shape.
        options: the options.
        call: the call for the grid that the maps represent.
        on_gpu: whether the GPU kernels are used.
    """

    backend: Backend
    out: Size
    options: Options
    call: OperatorCall
    on_gpu: bool

    def sample(self, image: Tensor, theta: Tensor) -> Tensor:
        """Sample an image, without derivatives."""
        call = self.call
        if not self.on_gpu:
            return run_gather(call, image, theta, self.options)
        result = empty(call.plan.shape, image, call.dtype)
        if not result.numel():
            return result
        cuda.run_affine(call, image, theta, result, self.options.fill_value)
        return result

    def gradients(self, values: Tensor, image: Tensor, theta: Tensor, needed: Needed) -> Gradients:
        """Compute the needed gradients; by way of a grid if they will be differentiated again."""
        tensors, options = (values, image, theta), self.options
        both: Gradients
        if derivatives.needs_gradient(*tensors) or not operators.is_eager(*tensors):
            both = self.gradients_by_grid(*tensors, needed)
        elif self.on_gpu:
            both = cuda.run_affine_backward(self.call, *tensors, needed, options.fill_value)
        else:
            both = run_backward(self.call, *tensors, needed, options)
        return derivatives.only_needed(both, needed)

    def gradients_by_grid(
        self, values: Tensor, image: Tensor, theta: Tensor, needed: Needed
    ) -> Gradients:
        """Compute the needed gradients with operators that are differentiable.

        This also works for tensors that are not eager.
        """
        points = maps.through_grid(self.backend, theta, image.shape[2:], self.out, self.options)
        first, second = derivatives.backward(
            points.extend(values), image, points.grid(), needed, points.options
        )
        return first, points.gradient(second) if needed[1] else None


def call_of_maps(
    backend: Backend, image: Tensor, theta: Tensor, out: Size, options: Options
) -> AffineCall:
    """Describe a call; of the grid that the maps represent, only the shape is used."""
    call = options.plan
    if call is None:
        grid = theta.new_empty(()).expand(len(theta), *out, theta.shape[1])
        call = call_for(image.shape, image, grid, options)
    return AffineCall(backend, tuple(out), options, call, image.device.type != "cpu")


def sample(call: AffineCall, image: Tensor, theta: Tensor) -> Tensor:
    """Sample an image under affine maps; the result has derivatives of any order."""
    result: Tensor = Affine.apply(image, theta, call)  # type: ignore[no-untyped-call]
    return result


def gradients(
    call: AffineCall, values: Tensor, image: Tensor, theta: Tensor, needed: Needed
) -> Gradients:
    """Compute the needed gradients, which can be differentiated again."""
    check_values(values, call.call.plan, "grad_output")
    return call.gradients(values, image, theta, needed)


class Affine(Function):
    """The derivatives of sampling under affine maps, for eager tensors."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, theta: Tensor, call: AffineCall) -> Any:
        """Sample the image."""
        ctx.save_for_backward(image, theta)
        ctx.set_materialize_grads(False)
        ctx.call = call
        return call.sample(image, theta)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None) -> Any:
        """Compute both gradients."""
        if upstream is None:
            return (None,) * 3
        return *ctx.call.gradients(upstream, *ctx.saved_tensors, ctx.needs_input_grad[:2]), None


class LinearPair(Function):
    """The derivatives of a linear function, whose gradient is another one, for eager tensors.

    Nothing but sizes is saved.  Like the graph of torch's own function, that of a grid therefore
    serves any number of backward passes.
    """

    @staticmethod
    def forward(ctx: Any, array: Tensor, pair: Pair, backend: Backend, *arguments: Any) -> Any:
        """Compute the first function of the pair."""
        ctx.pair, ctx.arguments = pair, (backend, *arguments)
        return pair[0](backend, array, *arguments)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        """Compute the other function, of which the first one is the gradient."""
        return linear(ctx.pair[::-1], upstream, *ctx.arguments), *(None,) * 4
