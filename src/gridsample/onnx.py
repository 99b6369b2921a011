"""Models that sample, as ONNX files.

`torch.onnx.export(model, arguments, dynamo=True)` needs nothing from here: `gridsample.grid_sample`
called in a model, and the modules of `gridsample.nn`, become the standard operator GridSample.
A program that `torch.export` made before is given to `lower` first.

What GridSample can express: two or three spatial axes, nearest or linear, or cubic in two; zeros,
border or reflection; one of each for all axes; floating images.  N that is broadcast, channels that
come last, points in a list, and a grid of another floating type than the image are expressed with
other operators around it.  For three axes leave ``opset_version`` at 20 or more.

`gridsample.interpolate` becomes Resize: nearest, nearest-exact, linear and cubic, in one to three
axes; antialiased where that is linear or cubic; images that float32 can hold.  docs/torch.md lists
what is written for each.
"""

from __future__ import annotations

from torch.export import ExportedProgram

from gridsample.backends.torch.onnx import gather_as_node
from gridsample.backends.torch.onnx_resizing import resize_as_node
from gridsample.backends.torch.operators import gather
from gridsample.backends.torch.resizing import operator as resize

__all__ = ["lower"]


def lower(program: ExportedProgram) -> ExportedProgram:
    """A program that samples or resizes, with ONNX's operators in the place of ours.

    Args:
        program: what `torch.export.export` gave.

    Returns:
        A program for `torch.onnx.export(program, dynamo=True)`; it is of no other use.

    Raises:
        ValueError: something is sampled in a way that GridSample cannot express, or resized in one
            that Resize cannot.

    Example:
        >>> import torch, gridsample.nn, gridsample.onnx
        >>> arguments = torch.ones(1, 1, 4, 4), torch.zeros(1, 2, 2, 2)
        >>> program = torch.export.export(gridsample.nn.GridSample(), arguments)
        >>> lowered = gridsample.onnx.lower(program)
        >>> [n.target.name() for n in lowered.graph.nodes if "symbolic" in str(n.target)]
        ['onnx_symbolic::_symbolic']
    """
    nodes = {gather: gather_as_node, resize: resize_as_node}
    lowered: ExportedProgram = program.run_decompositions(nodes)
    return lowered
