"""ONNX: sampling with the standard operator GridSample, where that supports the call.

GridSample has one mode and one boundary for all axes.  It requires the image and the grid to have
the same N, and the output to have as many axes as the image.  Shapes and dtypes are converted
accordingly, and converted back afterwards.  Cubic in three axes is not supported, because runtimes
reject it and the reference implementation gives different results.  Images with one axis are not
supported either, because runtimes reject them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gridsample.backends.torch.schemas import options_of
from gridsample.definitions.boundaries import check_boundary
from gridsample.definitions.methods import find_method
from gridsample.definitions.options import Options
from gridsample.definitions.shapes import check_shapes

# The names of modes in opset 16; the exporter renames them for later opsets.
OPSET = 16
MODES = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}


def exporting() -> bool:
    """Whether torch is exporting an ONNX model."""
    return torch.compiler.is_compiling() and torch.onnx.is_in_onnx_export()


def check_expressible(image: Tensor, grid: Tensor, options: Options) -> tuple[str, str]:
    """Return ONNX's names of the mode and the boundary, or raise an error if there are none."""
    rank = check_shapes(tuple(image.shape), tuple(grid.shape), False)
    names = tuple([find_method(method).name for method in options.mode])
    methods = set(names)
    boundaries = {check_boundary(name) for name in options.padding_mode}
    if not (
        len(methods) == len(boundaries) == 1
        and not any(options.order)
        and options.coords == "normalized"
        and options.extrapolates()
        and options.footprint is None
        and rank in ((2,) if "cubic" in methods else (2, 3))
        and methods <= MODES.keys()
        and boundaries <= {"zeros", "border", "reflection"}
        and image.is_floating_point()
        and grid.is_floating_point()
    ):
        axes = f"{rank} {'axis' if rank == 1 else 'axes'}"
        raise ValueError(
            "ONNX's GridSample has one mode (nearest, linear or cubic) and one padding_mode "
            "(zeros, border or reflection) for all axes, two or three of them, cubic in two, and a "
            "floating input, at normalized coordinates, extrapolated, not antialiased; got mode "
            f"{names}, padding_mode {tuple(options.padding_mode)}, {axes}, input "
            f"{image.dtype}, grid {grid.dtype}, derivative order {tuple(options.order)}, coords "
            f"{options.coords!r}, extrapolate={options.ends or True}, "
            f"antialias={options.footprint is not None}"
        )
    return MODES[methods.pop()], boundaries.pop()


def node(*arguments: Any, **options: Any) -> Tensor:
    """Add a node to the model that is being exported.

    Raises:
        ValueError: this version of torch does not support custom nodes.
    """
    nodes = getattr(torch.onnx, "ops", None)
    if nodes is None:
        raise ValueError(f"export to ONNX requires torch 2.8 or newer, this is {torch.__version__}")
    result: Tensor = nodes.symbolic(*arguments, **options)
    return result


def common_type(image: Tensor, grid: Tensor) -> torch.dtype:
    """The dtype in which runtimes sample: it represents both inputs, and all runtimes support it.

    GridSample supports bfloat16 only since opset 22.
    """
    dtype = torch.promote_types(image.dtype, grid.dtype)
    return torch.float32 if dtype == torch.bfloat16 else dtype


def gather_as_node(image: Tensor, grid: Tensor, *options: Any) -> Tensor:
    """Express gather as a node of an ONNX model; the result is zeros until the model runs."""
    checked = options_of(*options)
    name, boundary = check_expressible(image, grid, checked)
    rank, out, dtype = len(checked.mode), grid.shape[1:-1], common_type(image, grid)
    items = grid.shape[0] if image.shape[0] == 1 else image.shape[0]
    # If the output does not have as many axes as the image, its points become one long axis.
    points = grid if len(out) == rank else grid.reshape(grid.shape[0], *(1,) * (rank - 1), -1, rank)
    attributes: dict[str, Any] = {
        "mode": name,
        "padding_mode": boundary,
        "align_corners": int(checked.align_corners),
    }
    sampled = node(
        "GridSample",
        (
            image.to(dtype).expand(items, *image.shape[1:]),
            points.to(dtype).expand(items, *points.shape[1:]),
        ),
        attributes,
        dtype=dtype,
        shape=(items, image.shape[1], *points.shape[1:-1]),
        version=OPSET,
    )
    return sampled.reshape(items, image.shape[1], *out).to(image.dtype)
