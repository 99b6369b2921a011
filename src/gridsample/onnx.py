"""ONNX export of models that sample or resize.

`torch.onnx.export(model, arguments, dynamo=True)` needs nothing from this module: calls of
`gridsample.grid_sample`, and the modules of `gridsample.nn`, are exported as the standard operator
GridSample.  A program that `torch.export` has already created must be converted by `lower` first.

GridSample supports two or three spatial axes; nearest, linear, and in two dimensions cubic; zeros,
border and reflection; the same mode and boundary for all axes; floating-point images.  Broadcasting
of N, channels-last layouts, lists of points, and grids of another floating-point dtype are
expressed by additional operators.  For three axes, keep ``opset_version`` at 20 or more: the
standard has them since then, though some runtimes accept them in earlier files.

`gridsample.interpolate` is exported as Resize: nearest, nearest-exact, linear and cubic, in one to
three dimensions, with antialiasing for linear and cubic, for images that float32 can represent.
`gridsample.help("onnx")` lists the operators for each case.
"""

from __future__ import annotations

try:
    from torch.export import ExportedProgram
except ModuleNotFoundError as error:
    raise ImportError(
        'gridsample.onnx needs torch: pip install "gridsample[torch]"', name="torch"
    ) from error

from gridsample.backends.torch.onnx import gather_as_node
from gridsample.backends.torch.onnx_resizing import resize_as_node
from gridsample.backends.torch.operators import gather
from gridsample.backends.torch.resizing import operator as resize

__all__ = ["lower"]


def lower(program: ExportedProgram) -> ExportedProgram:
    """Replace gridsample's operators in an exported program by those of ONNX.

    Args:
        program: the result of `torch.export.export`.

    Returns:
        A program for `torch.onnx.export(program, dynamo=True)`; it has no other use.

    Raises:
        ValueError: a call uses options that ONNX's GridSample or Resize does not support.

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
