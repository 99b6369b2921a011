"""Calls with tensors that `gridsample.warmup` makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def differentiate(
    functions: list[Callable[..., Tensor]], operands: list[Any], dtype: str, gradients: bool
) -> None:
    """Call functions with arrays as tensors, and compute first and second derivatives.

    ``dtype`` is that of the image, the first of the operands.  Derivatives are computed with
    respect to each operand and to all of them, because these cases need different kernels.  An
    integer image has no derivatives.
    """
    kind: torch.dtype = getattr(torch, dtype)
    tensors = [torch.from_numpy(one) for one in operands]
    if kind.is_floating_point:  # the grid has the image's dtype, as torch requires
        tensors = [one.to(kind) for one in tensors]
    wanted = tensors if gradients and (kind.is_floating_point or kind.is_complex) else []
    for function in functions:
        function(*tensors)
        for some in [wanted, *([one] for one in wanted)] if wanted else []:
            for one in tensors:
                one.requires_grad_(any(one is a for a in some))
            out = function(*tensors)
            upstream = torch.zeros_like(out, requires_grad=True)
            first = torch.autograd.grad(out, some, upstream, create_graph=True)
            again = [one for one in first if one.requires_grad]
            if again:
                upstreams = [torch.zeros_like(one) for one in again]
                torch.autograd.grad(again, [*some, upstream], upstreams, allow_unused=True)
        for one in tensors:
            one.requires_grad_(False)
