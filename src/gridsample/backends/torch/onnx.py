"""ONNX: sampling as the standard operator GridSample, where that can express it.

GridSample knows one mode and one boundary for all axes, an image and a grid of one N, and as many
output axes as the image has.  All but the first is a matter of shapes and types, which are changed
to suit and changed back.  Of three axes cubic is left out: runtimes refuse it, and the reference
implementation gives other numbers; so is one axis, which they refuse too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gridsample.backends.torch.schemas import record
from gridsample.definitions.options import Options
from gridsample.definitions.plan import check_boundary, check_shapes, method_of

# The names of opset 16; on its way to a later one, the exporter renames them.
OPSET = 16
MODES = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}


def exporting() -> bool:
    """Whether torch is writing an ONNX model."""
    return torch.compiler.is_compiling() and torch.onnx.is_in_onnx_export()


def check_expressible(image: Tensor, grid: Tensor, how: Options) -> tuple[str, str]:
    """The mode and the boundary of all axes, in ONNX's names."""
    rank = check_shapes(tuple(image.shape), tuple(grid.shape), False)
    methods = {method_of(name).name for name in how.mode}
    boundaries = {check_boundary(name) for name in how.padding_mode}
    if not (
        len(methods) == len(boundaries) == 1
        and not any(how.order)
        and how.coords == "normalized"
        and how.extrapolate
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
            f"floating input, at normalized coordinates, extrapolated; got mode {tuple(how.mode)}, "
            f"padding_mode {tuple(how.padding_mode)}, {axes}, input {image.dtype}, grid "
            f"{grid.dtype}, derivative order {tuple(how.order)}, coords {how.coords!r}, "
            f"extrapolate={how.extrapolate}"
        )
    return MODES[methods.pop()], boundaries.pop()


def node(*arguments: Any, **options: Any) -> Tensor:
    """A node of the model that is being written.

    Raises:
        ValueError: torch is too old to be told of one.
    """
    nodes = getattr(torch.onnx, "ops", None)
    if nodes is None:
        raise ValueError(
            f"ONNX models are written by torch 2.8 or newer, this is {torch.__version__}"
        )
    made: Tensor = nodes.symbolic(*arguments, **options)
    return made


def one_type(image: Tensor, grid: Tensor) -> torch.dtype:
    """The type that runtimes are to sample in: it loses nothing of either, and all of them know it.

    GridSample takes bfloat16 since opset 22 alone.
    """
    kind = torch.promote_types(image.dtype, grid.dtype)
    return torch.float32 if kind == torch.bfloat16 else kind


def gather_as_node(image: Tensor, grid: Tensor, *options: Any) -> Tensor:
    """The operator gather as a node of an ONNX model; it holds zeros until that runs."""
    how = record(*options)
    name, boundary = check_expressible(image, grid, how)
    rank, out, kind = len(how.mode), grid.shape[1:-1], one_type(image, grid)
    items = grid.shape[0] if image.shape[0] == 1 else image.shape[0]
    # A list of points, or any other shape than the image's number of axes, is one long axis.
    points = grid if len(out) == rank else grid.reshape(grid.shape[0], *(1,) * (rank - 1), -1, rank)
    attributes: dict[str, Any] = {
        "mode": name,
        "padding_mode": boundary,
        "align_corners": int(how.align_corners),
    }
    sampled = node(
        "GridSample",
        (
            image.to(kind).expand(items, *image.shape[1:]),
            points.to(kind).expand(items, *points.shape[1:]),
        ),
        attributes,
        dtype=kind,
        shape=(items, image.shape[1], *points.shape[1:-1]),
        version=OPSET,
    )
    return sampled.reshape(items, image.shape[1], *out).to(image.dtype)
