"""Grid sampling as PyTorch modules.

Only `SpatialTransformer`, through its localization network, `DeformConv2d`, `PatchDownsample` and
`Table` have learnable parameters.  The modules that resize are defined in `gridsample.nn_resize`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

try:
    import torch
    from torch import Tensor, nn
except ModuleNotFoundError as error:
    raise ImportError(
        'gridsample.nn needs torch: pip install "gridsample[torch]"', name="torch"
    ) from error

from gridsample.backends import backend_of, constructor
from gridsample.definitions.boundaries import check_boundary, without_missing
from gridsample.definitions.checks import check_dense, check_flag
from gridsample.definitions.coords import Extrapolate, find_ends, find_units
from gridsample.definitions.footprints import MAX_SAMPLES, as_footprint
from gridsample.definitions.knots import Coords
from gridsample.definitions.methods import Mode, Padding, find_method, listed
from gridsample.definitions.names import MissingName, SplatName
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import check_whole
from gridsample.fields import affine_grid, to_pixel
from gridsample.interpolators.tables import (
    RegularGridInterpolator,
    TableSampler,
    check_dimension,
)
from gridsample.nn_resize import CenterPool, Downsample, PatchDownsample, Pyramid, Upsample
from gridsample.operators import (
    correlation_lookup,
    deform_conv2d,
    deformable_attention,
    softmax_splat,
)
from gridsample.operators.convolution import pair
from gridsample.operators.splatting import check_mode
from gridsample.ops.missing import as_rule
from gridsample.ops.sampling import grid_sample

__all__ = [
    "AffineGrid",
    "CenterPool",
    "CorrelationLookup",
    "DeformConv2d",
    "DeformableAttention",
    "Downsample",
    "GridSample",
    "PatchDownsample",
    "Pyramid",
    "SoftmaxSplat",
    "SpatialTransformer",
    "Table",
    "Upsample",
]


# The options of `GridSample` that may be passed by position, and the defaults of the others.
RULES = ("mode", "padding_mode", "align_corners")
DEFAULTS = {
    name: getattr(Request(), name)
    for name in ("coords", "fill_value", "extrapolate", "prefilter", "channel_axis")
} | {"missing": "propagate", "min_weight": 0.0, "antialias": False, "max_samples": MAX_SAMPLES}


class GridSample(nn.Module):
    """`gridsample.grid_sample` with fixed options.

    Args:
        mode: the interpolation method: a name or a `Method`, or one per axis in x, y, z order.
        padding_mode: the boundary: a name, or one per axis.
        align_corners: whether -1 and 1 are the centres of the corner pixels or their outer edges.
        coords: the units of coordinates: "normalized", "pixel", "displacement", or those of axes,
            as in `grid_sample`.
        fill_value: the value outside, for "constant" and extrapolate=False.
        extrapolate: whether to extend the image, or where it ends, as in `grid_sample`.
        prefilter: whether splines first compute coefficients from the input.
        channel_axis: 1, or -1 for channels-last input and output.
        missing: "propagate" NaN pixels, or "ignore" them and take the mean of the other pixels.
        min_weight: a result is missing unless more than this share of its weight counts.
        antialias: whether a result is the mean over its point's footprint.
        max_samples: the maximum number of samples along a side of a footprint.

    Shapes:
        input (N, C, *spatial) and grid (N, *out, D) give (N, C, *out), with the input's dtype.
        Weights of pixels, if given, are (N or 1, 1 or C, *spatial).

    Raises:
        TypeError: an option has the wrong type.
        ValueError: a name is unknown or ambiguous.

    Example:
        >>> import torch, gridsample.nn
        >>> sample = gridsample.nn.GridSample(padding_mode="border")
        >>> sample
        GridSample(mode='bilinear', padding_mode='border', align_corners=False)
        >>> image = torch.arange(4.0).reshape(1, 1, 2, 2)
        >>> sample(image, torch.tensor([[[[0.0, 0.0], [9.0, 9.0]]]]))
        tensor([[[[1.5000, 3.0000]]]])
        >>> gridsample.nn.GridSample("spline3", "mirror", coords="displacement")
        GridSample(mode='spline3', padding_mode='mirror', align_corners=False,
            coords='displacement')
    """

    @constructor
    def __init__(
        self,
        mode: Mode = "bilinear",
        padding_mode: Padding = "zeros",
        align_corners: bool = False,
        *,
        coords: Coords = "normalized",
        fill_value: Any = 0,
        extrapolate: Extrapolate = True,
        prefilter: bool = True,
        channel_axis: int = 1,
        missing: MissingName = "propagate",
        min_weight: float = 0.0,
        antialias: bool = False,
        max_samples: int = MAX_SAMPLES,
    ) -> None:
        super().__init__()
        for name in listed(mode):
            find_method(name)
        for name in listed(without_missing(padding_mode, "zeros")):
            check_boundary(name)
        # Whether min_weight is used depends on the weights of a call.
        as_rule(Request(missing=missing, min_weight=min_weight), True, padding_mode)
        as_footprint(antialias, max_samples)
        self.mode = mode
        self.padding_mode = padding_mode
        self.align_corners = check_flag(align_corners, "align_corners")
        self.coords = find_units(coords)
        self.fill_value = fill_value
        axes = len(extrapolate) if isinstance(extrapolate, (tuple, list)) else 1
        find_ends(extrapolate, "pixel", self.align_corners, axes)
        self.extrapolate = extrapolate
        self.prefilter = check_flag(prefilter, "prefilter")
        self.channel_axis = channel_axis
        self.missing = missing
        self.min_weight = min_weight
        self.antialias = antialias
        self.max_samples = max_samples

    def forward(self, input: Tensor, grid: Tensor, weights: Tensor | None = None) -> Tensor:
        """Sample the input at the grid; ``weights`` say how much each pixel counts."""
        others = {k: getattr(self, k) for k in DEFAULTS if getattr(self, k) is not DEFAULTS[k]}
        if weights is not None:
            others["weights"] = weights
        rules = self.mode, self.padding_mode, self.align_corners
        result: Tensor = grid_sample(input, grid, *rules, **others)
        return result

    def extra_repr(self) -> str:
        """Return the options; keyword-only options are shown if they differ from the default."""
        shown = {name: getattr(self, name) for name in (*RULES, *DEFAULTS)}
        return ", ".join(
            f"{name}={value!r}"
            for name, value in shown.items()
            if name in RULES or repr(value) != repr(DEFAULTS[name])
        )


class AffineGrid(nn.Module):
    """`gridsample.affine_grid` for an output of fixed size.

    Args:
        size: the output's spatial shape, slowest axis first: (height, width) in two dimensions.
        align_corners: whether -1 and 1 are the centres of the corner pixels or their outer edges.

    Shapes:
        theta (N, D, D + 1) gives (N, *size, D), with theta's dtype.

    Example:
        >>> import torch, gridsample.nn
        >>> make = gridsample.nn.AffineGrid((2, 3))
        >>> make
        AffineGrid(size=(2, 3), align_corners=False)
        >>> make(torch.eye(2, 3).repeat(5, 1, 1)).shape
        torch.Size([5, 2, 3, 2])
    """

    @constructor
    def __init__(self, size: Sequence[int], align_corners: bool = False) -> None:
        super().__init__()
        self.size = tuple(size)
        self.align_corners = check_flag(align_corners, "align_corners")

    def forward(self, theta: Tensor) -> Tensor:
        """Return the grid of each matrix."""
        check_dense(theta=theta)
        grid: Tensor = affine_grid(theta, (theta.shape[0], 1, *self.size), self.align_corners)
        return grid

    def extra_repr(self) -> str:
        """Return the options."""
        return f"size={self.size}, align_corners={self.align_corners}"


class SpatialTransformer(nn.Module):
    """Warp each input by an affine map that a network predicts from it.

    This is the spatial transformer of M. Jaderberg et al., "Spatial transformer networks", 2015:

        theta = localization(input);  output = grid_sample(input, affine_grid(theta))

    Args:
        localization: a module that maps an input (N, C, *spatial) with D spatial axes to matrices
            (N, D, D + 1), or to (N, D * (D + 1)) numbers.  To start from the identity, initialize
            the weights of its last layer to 0 and its bias to the entries of the identity.
        size: the output's spatial shape; None for the input's.
        mode: the interpolation method, as in `GridSample`.
        padding_mode: the boundary, as in `GridSample`.
        align_corners: whether -1 and 1 are the centres of the corner pixels or their outer edges.

    Shapes:
        input (N, C, *spatial) gives (N, C, *size).

    Example:
        >>> import torch, gridsample.nn
        >>> look = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 6))
        >>> with torch.no_grad():
        ...     _ = look[1].weight.zero_(), look[1].bias.copy_(torch.eye(2, 3).flatten())
        >>> transform = gridsample.nn.SpatialTransformer(look)
        >>> transform
        SpatialTransformer(
          (localization): Sequential(
            (0): Flatten(start_dim=1, end_dim=-1)
            (1): Linear(in_features=12, out_features=6, bias=True)
          )
          (sample): GridSample(mode='bilinear', padding_mode='zeros', align_corners=False)
        )
        >>> image = torch.arange(12.0).reshape(1, 1, 3, 4)
        >>> torch.testing.assert_close(transform(image), image)
    """

    @constructor
    def __init__(
        self,
        localization: nn.Module,
        size: Sequence[int] | None = None,
        mode: Mode = "bilinear",
        padding_mode: Padding = "zeros",
        align_corners: bool = False,
    ) -> None:
        super().__init__()
        self.localization = localization
        self.size = None if size is None else tuple(size)
        self.sample = GridSample(mode, padding_mode, align_corners)

    def forward(self, input: Tensor) -> Tensor:
        """Predict the maps and sample the input."""
        rank = input.dim() - 2
        theta = self.localization(input).reshape(-1, rank, rank + 1)
        shape = (*input.shape[:2], *(self.size or input.shape[2:]))
        grid = affine_grid(theta, shape, self.sample.align_corners)
        result: Tensor = self.sample(input, grid)
        return result

    def extra_repr(self) -> str:
        """Return the size, if one is set."""
        return "" if self.size is None else f"size={self.size}"


class Table(nn.Module):
    """A table of learnable values that is interpolated at points; its axes may be learnable, too.

    Args:
        points: the coordinates of each axis, in the order of the axes of ``values``: 1-D arrays or
            tensors that increase or decrease throughout.
        values: the initial values, (m1, ..., mn, ...): a floating-point tensor, whose first n = 1
            to 8 axes have coordinates.  Each point has a result for every entry of the other axes.
        method: as in `gridsample.interpolators.RegularGridInterpolator`.
        fill_value: the result outside; None to extrapolate.
        ends: as in `gridsample.interpolators.RegularGridInterpolator`.
        learn_axes: whether coordinates are learned, too, with the method "linear".  The parameter
            of an axis holds its first coordinate and the logarithms of the distances between
            neighbours, so that the coordinates keep their order.  Fixed coordinates are buffers,
            in float64 until the module is converted: part of the state, and of what ``to`` moves
            and converts.

    Shapes:
        points (..., n) give (..., *rest), rest being the shape of the values after their first n
        axes, with the dtype of the values.

    Raises:
        TypeError: values are not a tensor of floating-point numbers, or an option has a wrong type.
        ValueError: the coordinates do not match the values or do not increase or decrease
            throughout, an option is unknown, or axes are learned with another method.

    Example:
        >>> import torch, gridsample.nn
        >>> table = gridsample.nn.Table([[0.0, 1.0, 3.0]], torch.tensor([0.0, 1.0, 5.0]))
        >>> table
        Table(3, method='linear')
        >>> table(torch.tensor([[0.5], [2.0]])).tolist()
        [0.5, 3.0]
        >>> learned = gridsample.nn.Table([[0.0, 1.0, 3.0]], torch.zeros(3, 2), learn_axes=True)
        >>> [name for name, _ in learned.named_parameters()]
        ['values', 'axes.0']
    """

    @constructor
    def __init__(
        self,
        points: Sequence[Any],
        values: Tensor,
        method: str = "linear",
        fill_value: float | None = None,
        *,
        ends: str | Sequence[str | Sequence[str]] = "not-a-knot",
        learn_axes: bool = False,
    ) -> None:
        super().__init__()
        kind: Any = getattr(values, "dtype", None)
        if not getattr(kind, "is_floating_point", False):
            given = kind or type(values).__name__
            raise TypeError(f"values must be a tensor of floating-point numbers, got {given}")
        self.method, self.fill_value, self.ends = method, fill_value, ends
        self.learn_axes = check_flag(learn_axes, "learn_axes")
        if learn_axes and method != "linear":
            raise ValueError(
                f"learn_axes needs method='linear', got {method!r}: coefficients of other methods "
                "have no derivatives with respect to coordinates"
            )
        table = values.detach().clone()
        axes = [torch.as_tensor(axis, dtype=torch.float64).detach().cpu() for axis in points]
        # The interpolator checks all arguments.
        interpolator = RegularGridInterpolator(axes, table, method, False, fill_value, ends=ends)
        self.values = nn.Parameter(table)
        self._lengths = [len(axis) for axis in axes]
        if learn_axes:
            if min(map(len, axes)) < 2:
                raise ValueError("learn_axes needs two coordinates or more along each axis")
            self._signs = [-1 if axis[1] < axis[0] else 1 for axis in axes]
            starts = [torch.cat([axis[:1], axis.diff().abs().log()]) for axis in axes]
            self.axes = nn.ParameterList([start.to(table) for start in starts])
            pixels = [torch.arange(len(axis)) for axis in axes]
            interpolator = RegularGridInterpolator(pixels, table, method, False, fill_value)
        else:
            for k, axis in enumerate(axes):
                self.register_buffer(f"axis{k}", axis.to(table.device))
        self._sampler: TableSampler | None = interpolator.samplers[method]
        rest = table.shape[len(axes) :]
        self._fill = None if fill_value is None else np.full(rest, fill_value).reshape(-1)

    @property
    def points(self) -> tuple[Tensor, ...]:
        """The coordinates of each axis."""
        if not self.learn_axes:
            return tuple([getattr(self, f"axis{k}") for k in range(len(self._lengths))])
        return tuple(
            [
                torch.cat([axis[:1], axis[:1] + sign * torch.exp(axis[1:]).cumsum(0)])
                for axis, sign in zip(self.axes, self._signs, strict=True)
            ]
        )

    def _new_sampler(self) -> TableSampler:
        """Make the sampler for the fixed coordinates of the axes."""
        axes = [axis.detach().double().cpu() for axis in self.points]
        options = self.method, False, self.fill_value
        interpolator = RegularGridInterpolator(axes, self.values.detach(), *options, ends=self.ends)
        return interpolator.samplers[self.method]

    def _renew(self) -> None:
        """Make the sampler again if fixed coordinates may have changed and are in memory."""
        if self.learn_axes or self.values.is_meta:
            return
        self._sampler = None
        with contextlib.suppress(ValueError):  # the next call raises the error
            self._sampler = self._new_sampler()

    def _apply(self, fn: Any, *arguments: Any, **options: Any) -> Any:
        """Convert or move parameters and buffers, as `torch.nn.Module` does."""
        parent: Any = super()  # torch's method has no types
        parent._apply(fn, *arguments, **options)
        self._renew()
        return self

    def _load_from_state_dict(self, *arguments: Any) -> None:
        """Load parameters and buffers, as `torch.nn.Module` does."""
        super()._load_from_state_dict(*arguments)
        self._renew()

    def forward(self, points: Tensor) -> Tensor:
        """Interpolate at points."""
        backend, rank = backend_of(points=points), len(self._lengths)
        sampler = self._sampler or self._new_sampler()
        check_dense(points=points)
        check_dimension(points, rank)
        shape, rest = points.shape[:-1], self.values.shape[rank:]
        if self.learn_axes:
            points = to_pixel(points.flip(-1), coords=self.points[::-1]).flip(-1)
        rows = sampler.within_periods(backend, points.reshape(-1, rank))
        image = sampler.image_of(backend, self.values)
        result: Tensor = sampler(backend, image, rows, self._fill)
        return result.to(self.values.dtype).reshape(*shape, *rest)

    def extra_repr(self) -> str:
        """Return the lengths of the axes, and the options that differ from the default."""
        shown = [" x ".join(map(str, self._lengths)), f"method={self.method!r}"]
        defaults = {"fill_value": None, "ends": "not-a-knot", "learn_axes": False}
        for name, default in defaults.items():
            if getattr(self, name) != default:
                shown.append(f"{name}={getattr(self, name)!r}")
        return ", ".join(shown)


class DeformableAttention(nn.Module):
    """`gridsample.operators.deformable_attention` as a module without parameters.

    Shapes:
        value (N, S, H, D), the (height, width) of L levels, sampling_locations (N, Q, H, L, P, 2)
        and attention_weights (N, Q, H, L, P) give (N, Q, H * D), with the dtype of value.

    Example:
        >>> import torch, gridsample.nn
        >>> attend = gridsample.nn.DeformableAttention()
        >>> value = torch.arange(5.0).reshape(1, 5, 1, 1)
        >>> locations, weights = torch.full((1, 1, 1, 2, 1, 2), 0.5), torch.ones(1, 1, 1, 2, 1)
        >>> attend(value, [(2, 2), (1, 1)], locations, weights)
        tensor([[[5.5000]]])
    """

    def forward(
        self,
        value: Tensor,
        value_spatial_shapes: Any,
        sampling_locations: Tensor,
        attention_weights: Tensor,
    ) -> Tensor:
        """Sum the weighted samples of each query."""
        result: Tensor = deformable_attention(
            value, value_spatial_shapes, sampling_locations, attention_weights
        )
        return result


class CorrelationLookup(nn.Module):
    """`gridsample.operators.correlation_lookup` with fixed windows.

    Args:
        radius: how many pixels the windows extend from their centres, each way; at least 0.
        levels: the number of levels L, at least 1.

    Shapes:
        f1 (N, C, *size1), f2 (N, C, *size2) and positions (N, D, *size1) give (N, L * K**D, *size1)
        with K = 2 * radius + 1, with the dtype of f1.

    Raises:
        TypeError: an option is not an integer.
        ValueError: an option is out of range.

    Example:
        >>> import torch, gridsample.nn
        >>> look = gridsample.nn.CorrelationLookup(radius=3, levels=2)
        >>> look
        CorrelationLookup(radius=3, levels=2)
        >>> look(*torch.ones(2, 1, 8, 12, 16), torch.zeros(1, 2, 12, 16)).shape
        torch.Size([1, 98, 12, 16])
    """

    @constructor
    def __init__(self, radius: int = 4, levels: int = 4) -> None:
        super().__init__()
        self.radius = check_whole(radius, "radius", 0)
        self.levels = check_whole(levels, "levels", 1)

    def forward(self, f1: Tensor, f2: Tensor, positions: Tensor) -> Tensor:
        """Look up windows around the positions."""
        result: Tensor = correlation_lookup(f1, f2, positions, self.radius, self.levels)
        return result

    def extra_repr(self) -> str:
        """Return the options."""
        return f"radius={self.radius}, levels={self.levels}"


class SoftmaxSplat(nn.Module):
    """`gridsample.operators.softmax_splat` with fixed options.

    Args:
        mode: how values are combined: "sum", "average", "linear", "soft" or "maximum".
        padding_mode: the boundary: a name, or one per axis.

    Shapes:
        input (N, C, *size), flow (N, D, *size) and metric (N, 1, *size), which "sum" and "average"
        do not take, give (N, C, *size), with the input's dtype.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: a name is unknown.

    Example:
        >>> import torch, gridsample.nn
        >>> warp = gridsample.nn.SoftmaxSplat("average")
        >>> warp
        SoftmaxSplat(mode='average', padding_mode='zeros')
        >>> warp(torch.tensor([[[1.0, 2.0, 3.0]]]), torch.tensor([[[1.0, 0.0, 0.0]]]))
        tensor([[[0.0000, 1.5000, 3.0000]]])
    """

    @constructor
    def __init__(self, mode: SplatName = "soft", padding_mode: Padding = "zeros") -> None:
        super().__init__()
        check_mode(mode)
        for name in listed(padding_mode):
            check_boundary(name)
        self.mode = mode
        self.padding_mode = padding_mode

    def forward(self, input: Tensor, flow: Tensor, metric: Tensor | None = None) -> Tensor:
        """Move the pixels of the input along the flow."""
        result: Tensor = softmax_splat(input, flow, metric, self.mode, self.padding_mode)
        return result

    def extra_repr(self) -> str:
        """Return the options."""
        return f"mode={self.mode!r}, padding_mode={self.padding_mode!r}"


class DeformConv2d(nn.Module):
    """`gridsample.operators.deform_conv2d` with learnable kernels.

    It has the parameters, their initial values and the state of `torchvision.ops.DeformConv2d`.

    Args:
        in_channels: the number of channels of the input.
        out_channels: the number of channels of the output.
        kernel_size: the number of points of the kernel: (along y, along x), or one number for both.
        stride: the distance between neighbouring outputs, in pixels of the input.
        padding: the number of zeros by which the input is extended on each side.
        dilation: the distance between neighbouring points of the kernel, in pixels.
        groups: the number of groups of channels, each with kernels of its own.
        bias: whether a learnable bias is added.

    Shapes:
        input (N, C, H, W), offset (N, G * kh * kw * 2, Ho, Wo) and, if given, mask
        (N, G * kh * kw, Ho, Wo) give (N, O, Ho, Wo), with the input's dtype.

    Raises:
        TypeError: an option is not an integer.
        ValueError: the groups do not divide the channels, or an option is out of range.

    Example:
        >>> import torch, gridsample.nn
        >>> convolve = gridsample.nn.DeformConv2d(4, 8, 3, padding=1)
        >>> convolve
        DeformConv2d(4, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
        >>> convolve(torch.ones(1, 4, 5, 6), torch.zeros(1, 18, 5, 6)).shape
        torch.Size([1, 8, 5, 6])
    """

    @constructor
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"groups must divide in_channels and out_channels; got {groups} groups of "
                f"{in_channels} and {out_channels}"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = pair(kernel_size, "kernel_size", 1)
        self.stride = pair(stride, "stride", 1)
        self.padding = pair(padding, "padding", 0)
        self.dilation = pair(dilation, "dilation", 1)
        shape = out_channels, in_channels // groups, *self.kernel_size
        self.weight = nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.empty(out_channels)) if check_flag(bias, "bias") else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the parameters at random, as `torch.nn.Conv2d` does."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        """Convolve the input with kernels moved by the offsets."""
        steps = self.stride, self.padding, self.dilation
        result: Tensor = deform_conv2d(input, offset, self.weight, self.bias, *steps, mask)
        return result

    def extra_repr(self) -> str:
        """Return the options; those after the stride are shown if they differ from the default."""
        shown = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"]
        shown.append(f"stride={self.stride}")
        defaults = {"padding": (0, 0), "dilation": (1, 1), "groups": 1}
        for name, default in defaults.items():
            if getattr(self, name) != default:
                shown.append(f"{name}={getattr(self, name)}")
        return ", ".join(shown + ["bias=False"] * (self.bias is None))
