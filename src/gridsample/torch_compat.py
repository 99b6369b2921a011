"""Use gridsample in an unchanged PyTorch project.

`patch` replaces `grid_sample`, `affine_grid` and `interpolate` of `torch.nn.functional` by
gridsample's functions, with torch's signatures, errors and warnings.  Calls that only gridsample
supports (one spatial axis, cubic in 3-D, integers, a grid of another dtype, a mode for each axis,
antialiasing for every mode) are accepted, too, unless ``strict=True``.

The functions are also available here under the same names, to be imported directly.

With ``libraries=...``, `patch` also replaces functions of transformers, mmcv and torchvision that
sample: see `LIBRARIES`.

Some features use torch's own functions: `torch.jit.trace` and the ONNX export based on it record
them, and TorchScript compiles them.  If gridsample rejects a call, torch's function is called, and
the caller gets its result or its error.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import numpy as np

try:
    import torch
    from torch import Tensor
    from torch.overrides import has_torch_function_unary, has_torch_function_variadic
except ModuleNotFoundError as error:
    raise ImportError(
        'gridsample.torch_compat needs torch: pip install "gridsample[torch]"', name="torch"
    ) from error

from gridsample import fields, operators
from gridsample.backends import overridable
from gridsample.backends.base import prepared_call
from gridsample.backends.torch import BACKEND, internals
from gridsample.backends.torch.internals import autocast_is_enabled, originals
from gridsample.backends.torch.operators import is_eager_on_cpu
from gridsample.backends.torch.resizing import has_fastest_channels
from gridsample.definitions.footprints import MAX_SAMPLES, as_footprint
from gridsample.definitions.methods import Mode, Padding
from gridsample.definitions.request import Request, ResizeRequest, request_of
from gridsample.definitions.shapes import check_output
from gridsample.messages.links import unknown_name
from gridsample.ops import resizing as resize
from gridsample.ops import sampling as api
from gridsample.ops.misuse import check_use

__all__ = ["patch"]

Size = int | Sequence[int]
T = TypeVar("T")

# The exceptions with which gridsample rejects a call, which is then forwarded to torch.
REFUSALS = (TypeError, ValueError, NotImplementedError)

SAMPLING = {4: ("bilinear", "nearest", "bicubic"), 5: ("bilinear", "nearest")}
BOUNDARIES = ("zeros", "border", "reflection")
RESIZING = {3: ("linear",), 4: ("bilinear", "bicubic"), 5: ("trilinear",)}
NEAREST = ("nearest", "nearest-exact")
SMOOTHED = ("bilinear", "bicubic")

# Coordinates above which positions overflow in torch, in float32 or as 32-bit counts of folds.
FAR = 1e9

# The ``stacklevel`` of the caller of torch's or our function, for warnings of `check_corners`.
CALLER = 5


class PatchOptions(NamedTuple):
    """How a function replaces torch's.

    Attributes:
        strict: whether to accept and return exactly what torch does.
        max_samples: the maximum number of samples along a side of a footprint; 0 to sample points.
    """

    strict: bool
    max_samples: int = 0


# The points of a grid are sampled, and nothing else has to be as torch does it.
POINTS = PatchOptions(strict=False)


# The functions ------------------------------------------------------------------------------------


@overridable(arrays=2)
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: Mode = "bilinear",
    padding_mode: Padding = "zeros",
    align_corners: bool | None = None,
    *,
    strict: bool = False,
) -> Tensor:
    """Sample an image: `gridsample.grid_sample` with the signature of torch's function.

    Under `torch.autocast`, the result has the same dtype as torch's.

    Args:
        input: the image, (N, C, *spatial), as in `gridsample.grid_sample`.
        grid: the coordinates, (N, *out, D), as in `gridsample.grid_sample`.
        mode: the interpolation method, as in `gridsample.grid_sample`.
        padding_mode: the boundary, as in `gridsample.grid_sample`.
        align_corners: whether -1 and 1 are the centres of the corner pixels; None means False, with
            torch's warning.
        strict: whether to accept and return exactly what torch does, as in `patch`.

    Returns:
        (N, C, *out).

    Raises:
        ValueError: mode or padding_mode is unknown.
        RuntimeError: the tensors are not compatible.
        TypeError: an argument is not a tensor.
    """
    return sample(PatchOptions(strict), input, grid, mode, padding_mode, align_corners)


@overridable(arrays=1)
def affine_grid(
    theta: Tensor, size: Sequence[int], align_corners: bool | None = None, *, strict: bool = False
) -> Tensor:
    """Make the grid of an affine map: `gridsample.affine_grid` with torch's signature.

    Args:
        theta: the matrices, (N, D, D + 1), as in `gridsample.affine_grid`.
        size: the shape of the output, (N, C, *out), as in `gridsample.affine_grid`.
        align_corners: whether -1 and 1 are the centres of the corner pixels; None means False, with
            torch's warning.
        strict: whether to accept and return exactly what torch does, as in `patch`.

    Returns:
        (N, *out, D).

    Raises:
        ValueError: theta is not floating-point or does not match size, or size is not positive.
        NotImplementedError: size has too few or too many entries.
        TypeError: theta is not a tensor, or size does not consist of integers.
    """
    return make_grid(PatchOptions(strict), theta, size, align_corners)


@overridable(arrays=1)
def interpolate(
    input: Tensor,
    size: Size | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Mode = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    strict: bool = False,
) -> Tensor:
    """Resize an image: `gridsample.interpolate` with the signature of torch's function.

    Args:
        input: the image, (N, C, *spatial), as in `gridsample.interpolate`.
        size: the output's spatial shape, or one number for all axes.
        scale_factor: output size divided by input size, one number or one per axis.
        mode: the method, as in `gridsample.interpolate`.
        align_corners: whether the centres or the outer edges of the corner pixels stay in place.
        recompute_scale_factor: whether positions follow from the sizes, not from scale_factor.
        antialias: whether to stretch the weights along axes that shrink.
        strict: whether to accept and return exactly what torch does, as in `patch`.

    Returns:
        (N, C, *size).

    Raises:
        NotImplementedError: the input has too few or too many dimensions or an unsupported dtype,
            or the mode is unknown.
        RuntimeError: the size is zero along an axis.
        ValueError: both or neither of size and scale_factor are given, or other options contradict
            each other.
        TypeError: the input is not a tensor, or the size does not consist of integers.
    """
    options = size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    return resized(input, options, strict)


class patch:
    """Replace torch's functions by gridsample's, permanently or within a ``with`` block.

    The patch affects every thread and all code that calls `torch.nn.functional.grid_sample`,
    `affine_grid` or `interpolate`, under whatever name the function was imported, and indirect
    callers such as `torch.nn.Upsample`.  Code that was compiled, scripted or traced before is not
    affected.

    Args:
        strict: whether to accept and return exactly what torch does: its errors for integers, mixed
            dtypes and different batch sizes, its memory formats, its dtypes under `torch.autocast`,
            its warnings, and its results where a coordinate is NaN or infinite.  Results then
            differ only by rounding.  ``gridsample.help("torch")`` lists the differences without
            ``strict``.
        antialias: whether grid_sample takes the mean over the footprint of each point, as in
            `gridsample.grid_sample`, where the grid has as many axes as the image.
        max_samples: the maximum number of samples along a side of a footprint.
        libraries: other libraries whose functions are replaced, too, where they are imported
            already: "transformers" (multi-scale deformable attention of every model), "mmcv" (the
            same, in its version for CPUs) and "torchvision" (``roi_align``, ``ps_roi_align``,
            ``deform_conv2d`` and the correlations of RAFT).
            Calls that are traced by `torch.jit.trace`, or that gridsample rejects, use the
            library's function.

    Raises:
        TypeError: ``antialias``, ``max_samples`` or ``libraries`` has the wrong type.
        ValueError: ``strict`` and ``antialias`` are combined, ``max_samples`` is out of range, or a
            library is unknown.
        RuntimeError: nothing of a library can be replaced: it or its model is not imported yet, or
            its functions have other parameters.

    Example:
        >>> import torch, torch.nn.functional as F, gridsample.torch_compat
        >>> image, grid = torch.ones(1, 1, 2, 2, dtype=torch.uint8), torch.zeros(1, 1, 1, 2)
        >>> with gridsample.torch_compat.patch():
        ...     F.grid_sample(image, grid, align_corners=False)  # torch's takes no uint8
        tensor([[[[1]]]], dtype=torch.uint8)
    """

    def __init__(
        self,
        *,
        strict: bool = False,
        antialias: bool = False,
        max_samples: int = MAX_SAMPLES,
        libraries: Sequence[str] = (),
    ) -> None:
        """Replace the functions immediately."""
        replaced = [*replaceable(libraries)]
        footprint = as_footprint(antialias, max_samples)
        if strict and footprint is not None:
            raise ValueError("strict=True accepts what torch does, which has no antialias=True")
        max_samples = 0 if footprint is None else footprint.max_samples
        patch_options = PatchOptions(bool(strict), max_samples)
        tag = f"gridsample {tuple(patch_options)}"
        self.before = internals.install(Replacements(patch_options), tag)
        self.codes = [internals.replace_code(*pair, forwarded) for pair in replaced]

    def undo(self) -> None:
        """Restore the previous functions."""
        for restore in reversed(self.codes):
            restore()
        internals.restore(self.before)

    def __enter__(self) -> patch:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.undo()


class Replacements:
    """The functions that torch's functions call while they are patched.

    Subclasses, modes and proxies see torch's function, as without the patch.  If they call it, the
    call arrives here again.
    """

    def __init__(self, patch_options: PatchOptions) -> None:
        self.patch_options = patch_options

    def grid_sample(self, input: Any, grid: Any, *options: Any) -> Tensor:
        """Replace `torch.nn.functional.grid_sample`."""
        if has_torch_function_variadic(input, grid):
            return originals.grid_sample(input, grid, *options)
        return sample(self.patch_options, input, grid, *options)

    def affine_grid(self, theta: Any, *options: Any) -> Tensor:
        """Replace `torch.nn.functional.affine_grid`."""
        if has_torch_function_unary(theta):
            return originals.affine_grid(theta, *options)
        return make_grid(self.patch_options, theta, *options)

    def interpolate(self, input: Any, *options: Any) -> Tensor:
        """Replace `torch.nn.functional.interpolate`."""
        if has_torch_function_unary(input):
            return originals.interpolate(input, *options)
        return resized(input, options, self.patch_options.strict)


# Functions of other libraries ---------------------------------------------------------------------


def attend(value: Tensor, shapes: Any, locations: Tensor, weights: Tensor) -> Tensor:
    """Replace `multi_scale_deformable_attention` of transformers, and mmcv's."""
    result: Tensor = operators.deformable_attention(value, shapes, locations, weights)
    return result


def attend_module(
    module: Any,
    value: Tensor,
    shapes: Any,
    shapes_list: Any,
    starts: Any,
    locations: Tensor,
    weights: Tensor,
    step: Any,
) -> Tensor:
    """Replace the forward of transformers' `MultiScaleDeformableAttention`."""
    return attend(value, shapes_list, locations, weights)


def attend_unevenly(
    value: Tensor,
    shapes: Any,
    locations: Tensor,
    weights: Tensor,
    counts: Sequence[int],
    method: str = "default",
) -> Tensor:
    """Replace `multi_scale_deformable_attention_v2` of transformers.

    Levels may have different numbers of points; points with a weight of 0 are added to some.
    """
    if method != "default":
        raise NotImplementedError(f"method {method!r} takes nearest pixels")
    most = max(counts)
    places, shares = (
        torch.stack(
            [
                torch.nn.functional.pad(part, (*(0, 0) * (part.dim() - 4), 0, most - count))
                for part, count in zip(torch.split(array, [*counts], 3), counts, strict=True)
            ],
            3,
        )
        for array in (locations, weights)
    )
    return attend(value, shapes, places, shares)


def align_regions(
    input: Tensor,
    boxes: Any,
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Replace `torchvision.ops.roi_align`."""
    boxes = fixed_boxes(boxes, sampling_ratio)
    options = output_size, spatial_scale, sampling_ratio, aligned
    result: Tensor = operators.roi_align(input, boxes, *options)
    return result.contiguous()


def align_sensitively(
    input: Tensor,
    boxes: Any,
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
) -> Tensor:
    """Replace `torchvision.ops.ps_roi_align`."""
    boxes = fixed_boxes(boxes, sampling_ratio)
    options = output_size, spatial_scale, sampling_ratio
    result: Tensor = operators.ps_roi_align(input, boxes, *options)
    return result.contiguous()


def fixed_boxes(boxes: Any, sampling_ratio: int) -> Any:
    """Return boxes without gradients, as torchvision has none."""
    if sampling_ratio <= 0 and internals.is_observed():
        raise NotImplementedError("the number of samples depends on the boxes")
    return boxes.detach() if isinstance(boxes, Tensor) else [box.detach() for box in boxes]


def convolve(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    mask: Tensor | None = None,
) -> Tensor:
    """Replace `torchvision.ops.deform_conv2d`, which multiplies in float32 under autocast."""
    if autocast_is_enabled():
        raise NotImplementedError("under autocast, matrices are multiplied in half precision")
    steps = stride, padding, dilation
    result: Tensor = operators.deform_conv2d(input, offset, weight, bias, *steps, mask)
    return result.contiguous()


def build_pyramid(module: Any, fmap1: Tensor, fmap2: Tensor) -> None:
    """Replace `CorrBlock.build_pyramid` of torchvision's RAFT, which computes all correlations."""
    if autocast_is_enabled():
        raise NotImplementedError("under autocast, correlations have half precision")
    if fmap1.shape != fmap2.shape or min(fmap1.shape[-2:]) < 2**module.num_levels:
        raise NotImplementedError("torchvision refuses these feature maps")
    module.corr_pyramid = [
        operators.CorrelationBlock(fmap1, fmap2, module.num_levels, module.radius)
    ]


def index_pyramid(module: Any, centroids_coords: Tensor) -> Tensor:
    """Replace `CorrBlock.index_pyramid` of torchvision's RAFT, after `build_pyramid`."""
    block = module.corr_pyramid[0]
    if not isinstance(block, operators.CorrelationBlock):
        raise NotImplementedError("torchvision's correlations are looked up by torchvision")
    result: Tensor = block(centroids_coords)
    return result


class Replaceable(NamedTuple):
    """A function of another library.

    Attributes:
        module: the begin of the names of modules that have it.
        name: its name there, also of a method: "Class.forward".
        parameters: the names of its parameters; a function with others is left alone.
        ours: the function that replaces it, with the same parameters in the same order.
    """

    module: str
    name: str
    parameters: str
    ours: Callable[..., Any]


ATTENTION = "value value_spatial_shapes sampling_locations attention_weights"
LIBRARIES: dict[str, tuple[Replaceable, ...]] = {
    "transformers": (
        Replaceable(
            "transformers.models.",
            "MultiScaleDeformableAttention.forward",
            "self value value_spatial_shapes value_spatial_shapes_list level_start_index "
            "sampling_locations attention_weights im2col_step",
            attend_module,
        ),
        Replaceable("transformers.models.", "multi_scale_deformable_attention", ATTENTION, attend),
        Replaceable(
            "transformers.models.",
            "multi_scale_deformable_attention_v2",
            f"{ATTENTION} num_points_list method",
            attend_unevenly,
        ),
    ),
    "mmcv": (
        Replaceable(
            "mmcv.ops.multi_scale_deform_attn",
            "multi_scale_deformable_attn_pytorch",
            ATTENTION,
            attend,
        ),
    ),
    "torchvision": (
        Replaceable(
            "torchvision.ops.roi_align",
            "roi_align",
            "input boxes output_size spatial_scale sampling_ratio aligned",
            align_regions,
        ),
        Replaceable(
            "torchvision.ops.ps_roi_align",
            "ps_roi_align",
            "input boxes output_size spatial_scale sampling_ratio",
            align_sensitively,
        ),
        Replaceable(
            "torchvision.ops.deform_conv",
            "deform_conv2d",
            "input offset weight bias stride padding dilation mask",
            convolve,
        ),
        Replaceable(
            "torchvision.models.optical_flow.raft",
            "CorrBlock.build_pyramid",
            "self fmap1 fmap2",
            build_pyramid,
        ),
        Replaceable(
            "torchvision.models.optical_flow.raft",
            "CorrBlock.index_pyramid",
            "self centroids_coords",
            index_pyramid,
        ),
    ),
}


def replaceable(
    libraries: Sequence[Any],
) -> Iterator[tuple[types.FunctionType, Callable[..., Any]]]:
    """Yield the functions of libraries that can be replaced, each with ours.

    Raises:
        TypeError: ``libraries`` is one name, or has something else than names.
        ValueError: a name is unknown.
        RuntimeError: nothing of a library can be replaced.
    """
    if isinstance(libraries, str):
        raise TypeError(f"libraries must be a list of names, got {libraries!r}")
    for library in libraries:
        if not isinstance(library, str) or library not in LIBRARIES:
            raise unknown_name("libraries", library, [*LIBRARIES])
        found = {
            id(function): (function, one.ours)
            for one in LIBRARIES[library]
            for function in functions_of(one)
        }
        if not found:
            names = ", ".join([one.name for one in LIBRARIES[library]])
            raise RuntimeError(
                f"nothing of {library} is replaced: no module that is imported has {names} with "
                "the expected parameters; import the library, or create its model, before patch()"
            )
        yield from found.values()


def functions_of(one: Replaceable) -> Iterator[types.FunctionType]:
    """Yield the functions of imported modules that one entry of `LIBRARIES` replaces."""
    for name, module in [*sys.modules.items()]:
        if not name.startswith(one.module) or not isinstance(module, types.ModuleType):
            continue
        function: Any = module
        for part in one.name.split("."):
            function = vars(function).get(part) if hasattr(function, "__dict__") else None
        if not isinstance(function, types.FunctionType) or function.__closure__:
            continue
        if [*inspect.signature(function).parameters] == one.parameters.split():
            yield function


def forwarded(ours: Callable[..., Any], theirs: Callable[..., Any], *arguments: Any) -> Any:
    """Call our function in place of another one, which gets calls that ours does not support."""
    if internals.is_tracing():
        return theirs(*arguments)
    try:
        return ours(*arguments)
    except REFUSALS as error:
        return torch_call_after(error, theirs, *arguments)


# Implementations ----------------------------------------------------------------------------------


def sample(
    patch_options: PatchOptions,
    input: Any,
    grid: Any,
    mode: Any,
    padding_mode: Any,
    align_corners: Any,
) -> Tensor:
    """Sample with gridsample's function or, if it does not apply, with torch's."""
    if align_corners is not None and patch_options == POINTS and not autocast_is_enabled():
        call = None
        with contextlib.suppress(*REFUSALS):  # they are raised again below
            request = request_of(Request, mode, padding_mode, align_corners)
            call = prepared_call(BACKEND, request, BACKEND.layouts(input, grid))
        if call is not None:
            if not call.checked:
                call.checked = check_use(BACKEND, input, grid, request)
            plain: Tensor = call.run(input, grid)
            return plain
    torch_call = functools.partial(originals.grid_sample, input, grid, mode, padding_mode)
    tensors = isinstance(input, Tensor) and isinstance(grid, Tensor)
    if not tensors or internals.is_tracing():
        return torch_call(align_corners)
    corners = check_corners(align_corners)
    image, points = as_autocast(input, grid)
    if patch_options.strict and not torch_samples(image, points, mode, padding_mode):
        return torch_call(corners)
    averaged = patch_options.max_samples > 0 and points.dim() == image.dim()
    try:
        if not patch_options.strict:
            check_use(BACKEND, image, points, Request(mode, padding_mode, corners))
        result: Tensor = api.grid_sample(
            image,
            points,
            mode,
            padding_mode,
            corners,
            antialias=averaged,
            max_samples=patch_options.max_samples or MAX_SAMPLES,
        )
    except REFUSALS as error:
        return torch_call_after(error, torch_call, corners)
    if not patch_options.strict:
        return result
    return with_torchs_invalid_points(
        result.contiguous(), image, points, mode, padding_mode, corners
    )


def make_grid(patch_options: PatchOptions, theta: Any, size: Any, align_corners: Any) -> Tensor:
    """Make the grid of an affine map with gridsample's function or, if necessary, torch's."""
    torch_call = functools.partial(originals.affine_grid, theta, size)
    if not isinstance(theta, Tensor) or internals.is_tracing():
        return torch_call(align_corners)
    corners = check_corners(align_corners)
    if patch_options.strict and not isinstance(size, (tuple, list)):
        return torch_call(corners)
    try:
        size = check_output(size, *((4, 5) if patch_options.strict else ()))
        if any(n < 1 for n in size):
            raise ValueError(f"size must be positive, got {size}")
        grid: Tensor = fields.affine_grid(theta, size, corners)
    except REFUSALS as error:
        return torch_call_after(error, torch_call, corners)
    if not patch_options.strict:
        return grid
    if corners and any(n == 1 for n in size[2:]):
        warnings.warn(warning_for_single_pixels(), stacklevel=CALLER - 1)
    device_type = theta.device.type
    if device_type in ("cpu", "cuda") and torch.is_autocast_enabled(device_type):
        narrow = theta.dtype != torch.float64
        return grid.to(torch.get_autocast_dtype(device_type)) if narrow else grid
    return grid


def resized(input: Any, options: tuple[Any, ...], strict: bool) -> Tensor:
    """Resize with gridsample's function or, if it does not apply, with torch's."""
    if not strict:
        call = None
        size, scale_factor, *others = options
        with contextlib.suppress(*REFUSALS):  # they are raised again below
            request = request_of(ResizeRequest, *others)
            call = resize.prepared_resizing(BACKEND, request, input, size, scale_factor)
        if call is not None:
            plain: Tensor = call.run(input)
            return plain
    torch_call = functools.partial(originals.interpolate, input)
    if not isinstance(input, Tensor) or internals.is_tracing():
        return torch_call(*options)
    if strict and not (
        torch_resizes(input, mode=options[2], antialias=options[-1])
        and selects_alike(input, scale_factor=options[1], mode=options[2])
    ):
        return torch_call(*options)
    rounding = "torch" if strict and input.dtype == torch.uint8 else "exact"
    try:
        result: Tensor = resize.interpolate(input, *options, rounding=rounding)
    except REFUSALS as error:
        return torch_call_after(error, torch_call, *options)
    return in_torch_layout(result, input, mode=options[2]) if strict else result


def torch_call_after(error: Exception, torch_call: Callable[..., T], *options: Any) -> T:
    """Call torch's function after gridsample has rejected a call; add the reason to its error."""
    try:
        return torch_call(*options)
    except Exception as torch_error:
        torch_error.add_note(f"gridsample: {error}")
        raise torch_error from None


def torch_samples(image: Tensor, grid: Tensor, mode: Any, padding_mode: Any) -> bool:
    """Return whether torch's function accepts a call, as far as gridsample accepts more."""
    return (
        image.dim() == grid.dim()
        and mode in SAMPLING.get(image.dim(), ())
        and padding_mode in BOUNDARIES
        and image.dtype == grid.dtype
        and image.is_floating_point()
        and image.shape[0] == grid.shape[0]
    )


def torch_resizes(image: Tensor, mode: Any, antialias: Any) -> bool:
    """Return whether torch accepts a call that gridsample accepts or rounds differently."""
    if not image.numel() or image.dim() not in RESIZING:
        return False
    if mode in NEAREST:
        return not antialias and (image.is_floating_point() or image.dtype == torch.uint8)
    if image.dtype == torch.uint8:
        return image.dim() == 4 and mode in SMOOTHED
    if not image.is_floating_point():
        return False
    if antialias and (mode not in SMOOTHED or image.element_size() < 4):
        return False
    return mode == "area" or mode in RESIZING.get(image.dim(), ())


def selects_alike(image: Tensor, scale_factor: Any, mode: Any) -> bool:
    """Return whether every function of torch selects the pixels that the formula of nearest names.

    Some compute positions in double precision.  Others ignore a factor where the output is as large
    as the image, or twice as large: which ones depends on the rank, layout, size and device.
    """
    if mode not in NEAREST:
        return True
    factors = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,)
    fractional = any([isinstance(s, (float, np.floating)) and s > 1 and s % 1 for s in factors])
    return image.dtype != torch.float64 and not (mode == "nearest" and fractional)


def in_torch_layout(result: Tensor, image: Tensor, mode: Any) -> Tensor:
    """Convert a resized image to the memory format of torch's result."""
    pooled = mode == "area" and image.dim() == 5  # to one voxel it is a mean, which keeps layouts
    planar = image.dim() == 3 or (pooled and any(n != 1 for n in result.shape[2:]))
    layout = torch.contiguous_format if planar else internals.memory_format_of(image)
    if has_fastest_channels(image) == (layout != torch.contiguous_format):
        return result
    return result.clone(memory_format=layout)


def as_autocast(image: Tensor, grid: Tensor) -> tuple[Tensor, Tensor]:
    """Convert both tensors to the dtypes that torch's function would receive under autocast.

    On a CPU, narrower dtypes become float32. On a GPU, both become the wider of the two dtypes.
    """
    if not autocast_is_enabled():  # the usual case, checked first
        return image, grid
    device_type = image.device.type
    if device_type not in ("cpu", "cuda") or not torch.is_autocast_enabled(device_type):
        return image, grid
    tensors = image, grid
    real = [tensor.is_floating_point() and tensor.dtype != torch.float64 for tensor in tensors]
    types = {tensor.dtype for tensor, is_real in zip(tensors, real, strict=True) if is_real}
    wide = torch.float32
    if device_type == "cuda" and len(types) == 1:
        return tensors
    first, second = (
        tensor.to(wide) if is_real else tensor
        for tensor, is_real in zip(tensors, real, strict=True)
    )
    return first, second


def with_torchs_invalid_points(
    result: Tensor, image: Tensor, grid: Tensor, *options: Any
) -> Tensor:
    """Use torch's own results at points where a coordinate is NaN or exceeds `FAR`.

    These results have no gradient, because torch's backward may access memory out of bounds there.
    """
    points = grid.detach()
    if not is_eager_on_cpu(points) or not points.numel():
        return result
    low, high = torch.aminmax(points)
    if low >= -FAR and high <= FAR:
        return result
    is_near = (points.abs() <= FAR).all(-1).unsqueeze(1)
    return torch.where(is_near, result, originals.grid_sample(image.detach(), points, *options))


# Warnings -----------------------------------------------------------------------------------------


@functools.cache
def warning_for_corners() -> str:
    """Torch's warning about a call without align_corners."""
    return internals.warning_of(lambda: originals.affine_grid(torch.zeros(1, 2, 3), (1, 1, 1, 1)))


@functools.cache
def warning_for_single_pixels() -> str:
    """Torch's warning about a grid with an axis of one pixel and align_corners=True."""
    return internals.warning_of(
        lambda: originals.affine_grid(torch.zeros(1, 2, 3), (1, 1, 1, 1), True)
    )


def check_corners(align_corners: Any) -> bool:
    """Return ``align_corners``; None becomes False, with torch's warning."""
    if align_corners is None:
        warnings.warn(warning_for_corners(), stacklevel=CALLER)
        return False
    return align_corners  # type: ignore[no-any-return]
