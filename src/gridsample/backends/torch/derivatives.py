"""The derivatives of the operators in reverse and forward mode, composed of the operators.

Let A be sampling with some orders, A_k the same with order k raised by one, and g_k axis k of the
grid.  Then, for each point,

    d gather(image)   / d image  = A         d gather(image)   / d g_k = A_k image
    d scatter(values) / d values = A^T       d scatter(values) / d g_k = A_k^T (the point's values)

and backward(values, image), which is A^T values and the sums over channels of values * A_k image,
is composed of the two.  Each formula below therefore calls only the three operators, and can itself
be differentiated, any number of times and in either mode.

A fill acts like an additional pixel that has no derivative.  It belongs to each term that contains
the image, but to none in which a tangent or an upstream gradient takes the image's place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gridsample.backends.base import Needed
from gridsample.backends.torch import cuda, footprints, operators
from gridsample.backends.torch.fast_path import PreparedTensorCall
from gridsample.backends.torch.internals import SingleLevelFunction as Function
from gridsample.backends.torch.internals import (
    apply_rule,
    forward_gradients,
    redispatch,
    redispatch_forward,
    transforms_are_active,
)
from gridsample.backends.torch.operators import (
    LIBRARY,
    is_eager,
    is_eager_on_cpu,
    run_backward,
    run_gather,
)
from gridsample.backends.torch.schemas import as_operator, flat_options, operator_arguments
from gridsample.backends.torch.traced import traceable
from gridsample.definitions.options import Options

Maybe = Tensor | None

# Annotated because torch gives it no type.
unpack: Any = forward_ad.unpack_dual


# The operators, with shortcuts --------------------------------------------------------------------


def needs_gradient(*tensors: Tensor) -> bool:
    """Whether autograd records operations on the tensors."""
    return torch.is_grad_enabled() and any([tensor.requires_grad for tensor in tensors])


def without_dispatcher(name: str, compute: Any, tensors: int) -> Any:
    """Wrap an operator: it takes a record of options, and skips the dispatcher if possible.

    For eager tensors that are not recorded, the wrapper calls ``compute`` directly.  ``tensors`` is
    the number of leading arguments that are tensors.
    """
    full = traceable(getattr(operators, name))

    def call(*arguments: Any) -> Any:
        leading = arguments[:tensors]
        if is_eager_on_cpu(*leading) and not needs_gradient(*leading):
            return compute(*arguments)
        return full(*operator_arguments(name, *arguments))

    return call


gather = without_dispatcher("gather", operators.gather_on_cpu, 2)
scatter = without_dispatcher("scatter", operators.scatter_on_cpu, 2)
backward = without_dispatcher("backward", operators.backward_on_cpu, 3)
backward_twice = without_dispatcher("backward_twice", operators.double_backward_on_cpu, 3)


def fuses_double_backward(
    values: Tensor, image: Tensor, grid: Tensor, options: Options, *upstream: Maybe
) -> bool:
    """Whether `backward_twice`, which has no derivative of its own, can replace the formulas.

    On a CPU, it does not support a fill in sums; on a GPU, it only supports real numbers.
    """
    tensors = [values, image, grid, *(tensor for tensor in upstream if tensor is not None)]
    if (
        upstream[1] is None
        or transforms_are_active()
        or needs_gradient(*tensors)
        or not all(type(tensor) in (Tensor, torch.nn.Parameter) for tensor in tensors)
    ):
        return False
    if values.device.type == "cpu":
        differentiable = operators.differentiable(image)
        return is_eager_on_cpu(*tensors) and differentiable and not options.blends()
    real = all(tensor.is_floating_point() for tensor in tensors)
    return values.device.type in cuda.DEVICES and real


def scatter_transpose(image: Tensor, grid: Tensor, options: Options) -> Tensor:
    """Apply the transpose of scatter: gather without a fill, and 0 where a coordinate is NaN."""
    options = options.linear()
    result: Tensor = gather(image, grid, options)
    if any(options.order) or is_known_finite(grid):
        return result
    still = image.new_zeros(()).expand(1, 1, *image.shape[2:])
    return torch.where(gather(still, grid, options).isnan(), 0, result)


def is_known_finite(grid: Tensor) -> bool:
    """Whether a cheap test shows that no position is NaN or overflows."""
    if not is_eager_on_cpu(grid) or not grid.numel():
        return False
    low, high = torch.aminmax(grid.detach())
    return bool(low > -1e30) and bool(high < 1e30)


# Derivatives along a direction in the space of grids ----------------------------------------------


def raised_orders(along: Tensor, options: Options) -> Iterator[tuple[Tensor, Options]]:
    """Yield each axis's component (N, 1, *out) and the options with its order raised."""
    for axis in range(along.shape[-1]):
        yield along[..., axis].unsqueeze(1), options.raised(axis)


def gather_along(image: Tensor, grid: Tensor, along: Tensor, options: Options) -> Maybe:
    """Compute the directional derivative of gather along a direction of grids."""
    if options.footprint is not None:
        return footprints.gather_along(gather_along, image, grid, along, options)
    parts = raised_orders(along, options)
    return total(part * gather(image, grid, raised) for part, raised in parts)


def scatter_along(
    values: Tensor, grid: Tensor, along: Tensor, size: Sequence[int], options: Options
) -> Maybe:
    """Compute the directional derivative of scatter along a direction of grids."""
    if options.footprint is not None:
        return footprints.scatter_along(scatter_along, values, grid, along, size, options)
    return total(
        scatter(part * values, grid, size, raised) for part, raised in raised_orders(along, options)
    )


def backward_along(
    values: Tensor, image: Tensor, grid: Tensor, along: Tensor, needed: Needed, options: Options
) -> tuple[Maybe, Maybe]:
    """Compute the directional derivatives of the needed gradients along a direction of grids."""
    if not any(needed):
        return None, None
    if options.footprint is not None:
        return footprints.backward_along(
            backward_along, values, image, grid, along, needed, options
        )
    sweeps = [
        backward(part * values, image, grid, needed, raised)
        for part, raised in raised_orders(along, options)
    ]
    first, second = (total(sweep[k] for sweep in sweeps) if needed[k] else None for k in (0, 1))
    return first, second


def grid_gradient(values: Tensor, image: Tensor, grid: Tensor, options: Options) -> Tensor:
    """Compute the gradient of gather with respect to the grid."""
    gradient: Tensor = backward(values, image, grid, (False, True), options)[1]
    return gradient


def only_needed(gradients: Sequence[Maybe], needed: Needed) -> tuple[Maybe, ...]:
    """Return the gradients that are needed, and None in place of the others."""
    pairs = zip(gradients, needed, strict=True)
    return tuple([gradient if need else None for gradient, need in pairs])


def total(terms: Iterable[Maybe], dtype: torch.dtype | None = None) -> Maybe:
    """Sum the terms that are not None, and convert the sum to a dtype."""
    result = None
    for term in terms:
        if term is not None:
            result = term if result is None else result + term
    return result if dtype is None or result is None else result.to(dtype)


# Autograd functions -------------------------------------------------------------------------------


def save_for_derivatives(ctx: Any, options: Options, *tensors: Tensor) -> None:
    """Store the tensors and options that derivatives need."""
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)
    ctx.set_materialize_grads(False)  # zero gradients are None and cost nothing
    ctx.options = options


def primals(ctx: Any) -> Iterator[Tensor]:
    """The stored tensors without their tangents."""
    return (unpack(tensor).primal for tensor in ctx.saved_tensors)


class Gather(Function):
    """The derivatives of gather."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, grid: Tensor, options: Options, keys: Any) -> Any:
        """Compute gather."""
        save_for_derivatives(ctx, options, image, grid)
        result = redispatch_forward(operators.gather, keys, image, grid, *flat_options(options))
        ctx.dtype = result.dtype
        return result

    @staticmethod
    def backward(ctx: Any, upstream: Maybe) -> Any:
        """Compute both gradients in one sweep."""
        needed = ctx.needs_input_grad[:2]
        if upstream is None or not any(needed):
            return (None,) * 4
        image, grid = ctx.saved_tensors
        gradients = backward(upstream, image, grid, needed, ctx.options)
        return *only_needed(gradients, needed), None, None

    @staticmethod
    def jvp(ctx: Any, d_image: Maybe, d_grid: Maybe, *_: Any) -> Any:
        """Compute the tangent: linear in the image, and the derivative along the grid."""
        with forward_gradients(True):  # as for `redispatch_forward`
            image, grid = primals(ctx)
            return total(
                (
                    None if d_image is None else gather(d_image, grid, ctx.options.linear()),
                    None if d_grid is None else gather_along(image, grid, d_grid, ctx.options),
                ),
                ctx.dtype,
            )


class Scatter(Function):
    """The derivatives of scatter."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, grid: Tensor, size: Sequence[int], options: Options, keys: Any
    ) -> Any:
        """Compute scatter."""
        save_for_derivatives(ctx, options, values, grid)
        ctx.size = size
        arguments = values, grid, size, *flat_options(options)
        return redispatch_forward(operators.scatter, keys, *arguments)

    @staticmethod
    def backward(ctx: Any, upstream: Maybe) -> Any:
        """Compute both gradients; the transpose of scatter is gather."""
        if upstream is None:
            return (None,) * 5
        values, grid = ctx.saved_tensors
        need_values, need_grid = ctx.needs_input_grad[:2]
        return (
            scatter_transpose(upstream, grid, ctx.options).to(values.dtype)
            if need_values
            else None,
            grid_gradient(values, upstream, grid, ctx.options.linear()) if need_grid else None,
            None,
            None,
            None,
        )

    @staticmethod
    def jvp(ctx: Any, d_values: Maybe, d_grid: Maybe, *_: Any) -> Any:
        """Compute the tangent: linear in the values, and the derivative along the grid."""
        options, size = ctx.options, ctx.size
        with forward_gradients(True):
            values, grid = primals(ctx)
            return total(
                (
                    None if d_values is None else scatter(d_values, grid, size, options),
                    None if d_grid is None else scatter_along(values, grid, d_grid, size, options),
                ),
                values.dtype,
            )


class Backward(Function):
    """The derivatives of backward.

    Both gradients are linear in the values; the grid's gradient is also linear in the image.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        image: Tensor,
        grid: Tensor,
        needed: Needed,
        options: Options,
        keys: Any,
    ) -> Any:
        """Compute both gradients of gather."""
        save_for_derivatives(ctx, options, values, image, grid)
        ctx.needed = needed
        arguments = operator_arguments("backward", values, image, grid, needed, options)
        results = redispatch_forward(operators.backward, keys, *arguments)
        ctx.mark_non_differentiable(
            *(gradient for gradient, need in zip(results, needed, strict=True) if not need)
        )
        return results

    @staticmethod
    def backward(ctx: Any, u: Maybe, w: Maybe) -> Any:
        """Compute the gradients for the upstream gradients ``u``, an image, and ``w``, a grid."""
        values, image, grid = ctx.saved_tensors
        need_values, need_image, need_grid = ctx.needs_input_grad[:3]
        options = ctx.options
        if fuses_double_backward(values, image, grid, options, u, w):
            needed = need_values, need_image, need_grid
            results = backward_twice(values, image, grid, u, w, needed, options)
            return *only_needed(results, needed), *(None,) * 3
        grad_image = grid_from_grid = grad_values = grid_from_image = None
        if u is not None:
            if need_values:
                grad_values = scatter_transpose(u, grid, options)
            if need_grid:
                grid_from_image = grid_gradient(values, u, grid, options.linear())
        if w is not None:
            if need_values:
                grad_values = total((grad_values, gather_along(image, grid, w, options)))
            grad_image, grid_from_grid = backward_along(
                values, image, grid, w, (need_image, need_grid), options
            )
        return (
            total((grad_values,), values.dtype),
            total((grad_image,), image.dtype),
            total((grid_from_image, grid_from_grid), grid.dtype),
            None,
            None,
            None,
        )

    @staticmethod
    def jvp(ctx: Any, d_values: Maybe, d_image: Maybe, d_grid: Maybe, *_: Any) -> Any:
        """Compute the tangents by the product rule."""
        options, needed = ctx.options, ctx.needed
        with forward_gradients(True):
            values, image, grid = primals(ctx)
            terms: list[Sequence[Maybe]] = []
            if d_values is not None:
                terms.append(backward(d_values, image, grid, needed, options))
            if d_image is not None and needed[1]:
                terms.append((None, grid_gradient(values, d_image, grid, options.linear())))
            if d_grid is not None:
                terms.append(backward_along(values, image, grid, d_grid, needed, options))
            return tuple(
                total((term[k] for term in terms), like.dtype) if needed[k] else None
                for k, like in enumerate((image, grid))
            )


# Without the dispatcher ---------------------------------------------------------------------------


class EagerGather(Gather):
    """The derivatives of gather for eager tensors, which skip torch's dispatcher."""

    @staticmethod
    def forward(
        ctx: Any, image: Tensor, grid: Tensor, options: Options, prepared: PreparedTensorCall | None
    ) -> Any:
        """Compute gather."""
        ctx.save_for_backward(image, grid)
        ctx.set_materialize_grads(False)
        ctx.options, ctx.prepared = options, prepared
        if prepared is not None:
            return prepared.run(image, grid)
        return gather_directly(image, grid, options)

    @staticmethod
    def backward(ctx: Any, upstream: Maybe) -> Any:
        """Compute both gradients; with the operator if they will be differentiated again."""
        image, grid = ctx.saved_tensors
        if upstream is None or torch.is_grad_enabled() or not is_eager(upstream):
            return Gather.backward(ctx, upstream)
        needed, options = ctx.needs_input_grad[:2], ctx.options
        results = None
        if ctx.prepared is not None:
            results = ctx.prepared.run_backward(upstream, image, grid, needed)
        if results is None and image.is_cuda:
            results = cuda.backward_on_gpu(upstream, image, grid, needed, options, options.plan)
        elif results is None:
            results = run_backward(options.plan, upstream, image, grid, needed, options)
        return *only_needed(results, needed), None, None


# Computes gather for eager tensors, perhaps by a prepared call, and records it for autograd.
Record = Callable[[Tensor, Tensor, Options, PreparedTensorCall | None], Tensor]
record_gather: Record = EagerGather.apply  # type: ignore[attr-defined]


def eager_gather(image: Tensor, grid: Tensor, options: Options) -> Tensor:
    """Compute gather for eager tensors and options with a plan."""
    if needs_gradient(image, grid):
        return record_gather(image, grid, options, None)
    return gather_directly(image, grid, options)


def gather_directly(image: Tensor, grid: Tensor, options: Options) -> Tensor:
    """Call the kernels of a device."""
    if image.is_cuda:
        return cuda.gather_on_gpu(image, grid, options, options.plan)
    return run_gather(options.plan, image, grid, options)


# Through the dispatcher ---------------------------------------------------------------------------


def needs_derivative(*tensors: Tensor) -> bool:
    """Whether autograd records operations on the tensors, or one of them has a tangent."""
    if needs_gradient(*tensors):
        return True
    return any(unpack(tensor).tangent is not None for tensor in tensors)


def autograd_gather(keys: Any, image: Tensor, grid: Tensor, options: Options) -> Any:
    """Call gather, recorded by autograd if necessary."""
    if needs_derivative(image, grid):
        return apply_rule(Gather, image, grid, options, keys)
    return redispatch(operators.gather, keys, image, grid, *flat_options(options))


def autograd_scatter(keys: Any, values: Tensor, grid: Tensor, size: Any, options: Options) -> Any:
    """Call scatter, recorded by autograd if necessary."""
    if needs_derivative(values, grid):
        return apply_rule(Scatter, values, grid, size, options, keys)
    return redispatch(operators.scatter, keys, values, grid, size, *flat_options(options))


def autograd_backward(
    keys: Any, values: Tensor, image: Tensor, grid: Tensor, needed: Needed, options: Options
) -> Any:
    """Call backward, recorded by autograd if necessary."""
    arguments = values, image, grid, needed, options
    if needs_derivative(values, image, grid):
        return apply_rule(Backward, *arguments, keys)
    return redispatch(operators.backward, keys, *operator_arguments("backward", *arguments))


for name, rule in (
    ("gather", autograd_gather),
    ("scatter", autograd_scatter),
    ("backward", autograd_backward),
):
    LIBRARY.impl(name, as_operator(name, rule, more=1), "Autograd", with_keyset=True)
