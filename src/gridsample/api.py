"""The public functions: find the binding of the caller's arrays and hand over.

A framework is used only if an array already came from it; here nothing but NumPy is ever imported.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from gridsample.plan import Mode

# Libraries that have a binding, and those that are known to have none.
BINDINGS = ("torch", "cupy")
FOREIGN = ("jax", "jaxlib", "dask", "tensorflow")


def library(array: Any) -> str:
    """The library that an array's type, or one that it is derived from, comes from."""
    for kind in type(array).__mro__:
        name: str = kind.__module__.partition(".")[0]
        if name in BINDINGS or name in FOREIGN:
            return name
    return "numpy"


def find_binding(**arrays: Any) -> ModuleType:
    """The binding for the library that the arrays come from.

    Raises:
        TypeError: an array comes from a library that has no binding.
    """
    found = "numpy"
    for name, array in arrays.items():
        source = library(array)
        if source in FOREIGN:
            raise TypeError(
                f"{name} is a {type(array).__module__}.{type(array).__qualname__}; "
                "accepted: NumPy arrays, torch tensors and, where torch is installed, CuPy arrays"
            )
        found = source if source in BINDINGS else found
    # Statements that `torch.compile` can follow.
    if found == "torch":
        from gridsample.bindings import torch

        return torch
    if found == "cupy":
        from gridsample.bindings.torch import dlpack

        return dlpack
    from gridsample.bindings import numpy

    return numpy


def grid_sample(
    input: Any,
    grid: Any,
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    align_corners: bool = False,
    *,
    channel_axis: int = 1,
    out: Any = None,
    threads: int | None = None,
) -> Any:
    """Sample an image at the coordinates of a grid.

    Every output pixel is a weighted sum of the input's pixels (its taps) around one position, the
    same taps for every channel.  Along each axis the position in pixels of a coordinate x is

        (x + 1) / 2 * (size - 1)     align_corners=True: -1 and 1 are the corner pixels' centres
        ((x + 1) * size - 1) / 2     align_corners=False: they are the corner pixels' outer edges

    as in `torch.nn.functional.grid_sample`, whose results these are wherever it has any.

    Torch tensors give tensors (also bfloat16), with derivatives of any order; memory is not
    copied, and channels-last tensors give channels-last ones.  An integer tensor's output carries
    no derivative, as always in torch: `grid_sample_vjp` has the grid's gradient.

    Args:
        input: the image, (N, C, *spatial) with 1 to 3 spatial axes; bool, any integer type,
            float16 to float64, complex64 or complex128; any strides and byte order.  It is never
            changed.
        grid: where to sample, (N, *out, D) for D spatial axes, float16 to float64.  The last axis
            holds x, y, z; x runs along the *last* spatial axis.  ``out`` may have any rank.  N may
            be 1 here or in the input, and is then broadcast.  A NaN coordinate gives NaN, or 0 in
            an integer image.
        mode: how pixels are weighed: "nearest" (ties to even), "bilinear" (also "linear",
            "trilinear"), or "bicubic" (also "cubic", "tricubic": Keys, a = -0.75), in every rank;
            or a tuple, one for each axis in x, y, z order.
        padding_mode: what is outside: "zeros", "border" (the edge pixel), or "reflection"
            (mirrored about what -1 and 1 stand for); or a tuple, one for each axis.
        align_corners: what -1 and 1 mean, see above.
        channel_axis: 1, or -1 for channels-last input and output, (N, *spatial, C) and
            (N, *out, C).
        out: an array to put the result in, of its shape and dtype, apart from the inputs; with
            NumPy arrays only.
        threads: how many threads to use at most; None for one a core, or as many as torch uses
            for tensors.  The result does not depend on it.

    Returns:
        (N, C, *out), with the input's dtype.  Integers are rounded half to even and saturate.

    Raises:
        TypeError: a dtype, or an option of a type, that is not accepted.
        ValueError: shapes that do not go together, or a name that is unknown or ambiguous.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.array([[[[0.0, 10.0], [20.0, 30.0]]]])
        >>> grid = np.array([[[[0.0, 0.0], [-0.5, -0.5], [1.0, 0.5]]]])
        >>> gridsample.grid_sample(image, grid)  # the middle, a pixel's centre, half outside
        array([[[[15.,  0., 15.]]]])
        >>> gridsample.grid_sample(image, grid, padding_mode="border")
        array([[[[15.,  0., 30.]]]])
    """
    binding = find_binding(input=input, grid=grid)
    return binding.grid_sample(
        input, grid, mode, padding_mode, align_corners, channel_axis, out, threads
    )


def grid_sample_vjp(
    grad_output: Any,
    input: Any,
    grid: Any,
    mode: Mode = "bilinear",
    padding_mode: Mode = "zeros",
    align_corners: bool = False,
    *,
    need_input: bool = True,
    need_grid: bool = True,
    channel_axis: int = 1,
    threads: int | None = None,
) -> tuple[Any, Any]:
    """Both gradients of `grid_sample`: the vector-Jacobian product with ``grad_output``.

    With pixels v and weights w of a sample's taps, and g its upstream gradient,

        grad_input: g * w is added to each tap's pixel, the exact transpose of sampling;
        grad_grid: g * sum of v * (w with one axis's factor differentiated) * d position / d
            coordinate, summed over the channels.

    d position / d coordinate is size / 2 or (size - 1) / 2, times the sign of the boundary's fold,
    and 0 where the boundary clamps.  "nearest" has a zero gradient in the grid.  For a complex
    image, grad_grid is the real part of conj(g) times the above.

    Args:
        grad_output: upstream gradient, of the output's shape; floating, or complex for a complex
        input.
        input: the image, as in `grid_sample`.
        grid: the coordinates, as in `grid_sample`.  A point with a NaN coordinate adds nothing to
            grad_input and its grad_grid is 0.
        mode: as in `grid_sample`.
        padding_mode: as in `grid_sample`.
        align_corners: as in `grid_sample`.
        need_input: whether to compute grad_input; an integer input has none.
        need_grid: whether to compute grad_grid.
        channel_axis: as in `grid_sample`; it holds for grad_output and grad_input too.
        threads: as in `grid_sample`; gradients are the same bit for bit, whatever it is.

    Returns:
        (grad_input, grad_grid), with the shapes and dtypes of input and grid; None for one not
        needed.  Where N was broadcast, the gradient is the sum.

    Raises:
        TypeError: as `grid_sample`, or the gradient of an integer input is asked for.
        ValueError: as `grid_sample`, or grad_output has not the output's shape.

    Example:
        >>> import numpy as np, gridsample
        >>> image = np.array([[[[0.0, 10.0], [20.0, 30.0]]]])
        >>> grid = np.zeros((1, 1, 1, 2))
        >>> grad_input, grad_grid = gridsample.grid_sample_vjp(np.ones((1, 1, 1, 1)), image, grid)
        >>> grad_input
        array([[[[0.25, 0.25],
                 [0.25, 0.25]]]])
        >>> grad_grid  # 10 a pixel to the right, 20 down; a pixel is 1 in coordinates
        array([[[[10., 20.]]]])
    """
    binding = find_binding(grad_output=grad_output, input=input, grid=grid)
    result: tuple[Any, Any] = binding.grid_sample_vjp(
        grad_output,
        input,
        grid,
        mode,
        padding_mode,
        align_corners,
        need_input,
        need_grid,
        channel_axis,
        threads,
    )
    return result
