"""The interpolation functions of `scipy.ndimage`, by their names, signatures, modes and numbers.

    import gridsample.ndimage as ndimage      in place of      import scipy.ndimage as ndimage

NumPy arrays give SciPy's results: sums are made in float64, and integers are rounded half away
from zero.  Torch tensors are taken too; they keep their precision and have derivatives.  What
differs from SciPy, and why, stands in docs/ndimage.md.

A mode of SciPy's is a record here (`MODES`): which boundary its taps have, how the prefilter sees
the image's ends, and what becomes of a position beyond them.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import itertools
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import library
from gridsample.chunked.strips import (
    POINTS,
    Positions,
    float_limits,
    namespace,
    sample,
    sample_axis,
    saturated,
)
from gridsample.definitions.checks import as_array, as_reals, check_constant, check_dense
from gridsample.definitions.weights import NEAREST
from gridsample.ops.affine import affine_sample
from gridsample.ops.filtering import spline_filter as coefficients
from gridsample.ops.sampling import grid_sample

__all__ = [
    "affine_transform",
    "geometric_transform",
    "map_coordinates",
    "rotate",
    "shift",
    "spline_filter",
    "spline_filter1d",
    "zoom",
]

PAD = 12  # pixels that SciPy adds before the prefilter where a mode has none of its own

# ---- modes ---------------------------------------------------------------------------------------

# Each brings a position x, of a line of n pixels, back among them.  Positions that already are
# stay as they are, and at a period's end the result is the one that SciPy's arithmetic gives.


def stay(xp: Any, x: Any, n: int) -> Any:
    """Outside is left to the taps."""
    return x


def clamp(xp: Any, x: Any, n: int) -> Any:
    """To the nearest end."""
    return xp.clip(x, 0, n - 1)


def reflect(xp: Any, x: Any, n: int) -> Any:
    """Mirrored about -1/2 and n - 1/2."""
    x = xp.fmod(x, 2 * n)
    below = xp.where(x < -n, x + 2 * n, -1 - x)
    above = xp.where(x >= n, 2 * n - 1 - x, x)
    return xp.where(x < 0, below, above)


def mirror(xp: Any, x: Any, n: int) -> Any:
    """Mirrored about 0 and n - 1."""
    if n == 1:
        return x * 0
    period = 2 * n - 2
    x = xp.fmod(x, period)
    below = xp.where(x <= 1 - n, x + period, -x)
    above = xp.where(x >= n, period - x, x)
    return xp.where(x < 0, below, above)


def turn(xp: Any, x: Any, n: int) -> Any:
    """Wrapped round with the period n - 1, in which the last pixel is the first."""
    if n == 1:
        return x * 0
    below = x + (n - 1) * (xp.trunc(-x / (n - 1)) + 1)
    above = x - (n - 1) * xp.trunc(x / (n - 1))
    return xp.where(x < 0, below, xp.where(x > n - 1, above, x))


class Mode(NamedTuple):
    """What one of SciPy's modes is.

    Attributes:
        boundary: the taps' boundary, a ``padding_mode`` of `gridsample.grid_sample`.
        prefilter: the prefilter's, a ``boundary`` of `gridsample.spline_filter`.
        fold: what becomes of a position outside, where the nearest pixel is wanted.
        folds: whether the position is folded for every order.
        fills: whether a position outside gives ``cval``, whatever its taps are.
        pad: what the image is padded with before the prefilter, a mode of `numpy.pad`.
    """

    boundary: str
    prefilter: str
    fold: Callable[[Any, Any, int], Any]
    folds: bool = False
    fills: bool = False
    pad: str = ""


# Beside each, what is outside an image a b c d.
MODES = {
    "reflect": Mode("symmetric", "symmetric", reflect),  # c b a | a b c d | d c b
    "grid-mirror": Mode("symmetric", "symmetric", reflect),
    "constant": Mode("mirror", "mirror", stay, fills=True),  # v v v | a b c d | v v v
    "grid-constant": Mode("constant", "mirror", stay, pad="constant"),  # the same, tap by tap
    "nearest": Mode("border", "symmetric", clamp, pad="edge"),  # a a a | a b c d | d d d
    "mirror": Mode("mirror", "mirror", mirror),  # d c b | a b c d | c b a
    "grid-wrap": Mode("wrap", "wrap", stay),  # b c d | a b c d | a b c
    "wrap": Mode("mirror", "mirror", turn, folds=True),  # b c d | a b c d | b c d: d is a
}

# SciPy's ties go up, not to the even pixel.
NEAREST_UP = dataclasses.replace(NEAREST, name="nearest-up", ties_up=True)
METHODS = (NEAREST_UP, "linear", "spline2", "spline3", "spline4", "spline5")


class Spline(NamedTuple):
    """How a call samples: all that does not depend on the place."""

    order: int
    mode: Mode
    cval: Any
    prefilter: bool

    @property
    def filters(self) -> bool:
        """Whether coefficients have to be made of the pixels."""
        return self.prefilter and self.order > 1

    @property
    def pad(self) -> int:
        """How many pixels are added at each end of a line."""
        return PAD if self.filters and self.mode.pad else 0

    @property
    def options(self) -> dict[str, Any]:
        """What `grid_sample` is told.

        The nearest pixel is that of the mirrored position, whose ties count: so it is the position
        that is mirrored, which "reflection" says.
        """
        boundary, mirrors = self.mode.boundary, self.mode.boundary in ("mirror", "symmetric")
        return {
            "mode": METHODS[self.order],
            "padding_mode": "reflection" if mirrors and self.order == 0 else boundary,
            "align_corners": boundary == "mirror",
            "prefilter": False,
            **({"fill_value": self.cval} if self.mode.boundary == "constant" else {}),
        }

    @property
    def beyond(self) -> dict[str, Any]:
        """And what it is told of positions outside, if these give ``cval``."""
        return {"fill_value": self.cval, "extrapolate": False} if self.mode.fills else {}

    def padded(self, x: Any) -> Any:
        """Positions, or an offset of all, counted from the first padded pixel."""
        return x + self.pad if self.pad else x

    def settle(self, xp: Any, x: Any, n: int) -> Any:
        """Positions along an axis of n pixels, padded ones included, as the taps take them."""
        x = self.padded(x)
        inside = self.inside(x, n)
        if self.mode.folds or self.order == 0:
            x = self.mode.fold(xp, x, n)
        if self.order == 0:
            x = xp.floor(x + 0.5)
        # Nowhere (NaN) is outside, too, and so is what rounding brought in.
        return xp.where(inside, x, -1.0) if self.mode.fills else x

    def inside(self, x: Any, n: int) -> Any:
        """Whether positions are between the outermost pixels' centres."""
        return (x >= 0) & (x <= n - 1)


def spline_of(order: Any, mode: Any, cval: Any, prefilter: Any) -> Spline:
    """A call's spline, if there is such a one."""
    check_constant(cval=cval)
    return Spline(check_order(order), find_mode(mode), cval, bool(prefilter))


# ---- errors, and arrays in and out ---------------------------------------------------------------


def find_mode(mode: Any) -> Mode:
    """The mode of a name.

    Raises:
        RuntimeError: there is none; SciPy's error.
    """
    if not isinstance(mode, str) or mode not in MODES:
        known = ", ".join(map(repr, MODES))
        raise RuntimeError(f"mode: boundary mode not supported: {mode!r}; accepted: {known}")
    return MODES[mode]


def check_order(order: Any, lowest: int = 0) -> int:
    """The order of a spline, up to 5.

    Raises:
        RuntimeError: there is no such order; SciPy's error.
    """
    if not lowest <= order <= 5:
        raise RuntimeError(f"order: spline order not supported: {order!r}; accepted: {lowest} to 5")
    return operator.index(order)


def check_rank(*shapes: Sequence[int]) -> None:
    """Refuse arrays without axes."""
    if any(len(shape) < 1 for shape in shapes):
        raise RuntimeError(f"input and output rank must be > 0, got shapes {shapes}")


def as_image(given: Any, name: str = "input") -> Any:
    """A dense tensor as it is; anything else as a NumPy array."""
    if library(given) != "torch":
        return as_array(given, name)
    check_dense(**{name: given})
    return given


def one_each(given: Any, rank: int, name: str) -> list[Any]:
    """One entry an axis, from one or from a sequence of them."""
    check_dense(**{name: given})
    if isinstance(given, str) or not np.iterable(given):
        return [given] * rank
    entries = list(given)
    if len(entries) != rank:
        raise RuntimeError(
            f"{name}: sequence argument must have length equal to input rank, {rank}, "
            f"got {len(entries)}"
        )
    return entries


def new_output(output: Any, image: Any, shape: tuple[int, ...]) -> Any:
    """Where the result goes: the array given, or a new one of the type given or the image's.

    Raises:
        RuntimeError: the array has another shape, or is real though the input is complex.
    """
    if library(image) == "torch":
        return tensor_output(output, image, shape)
    is_complex = image.dtype.kind == "c"
    if output is None:
        return np.zeros(shape, image.dtype.newbyteorder("="))
    if isinstance(output, (type, np.dtype, str)):
        dtype = np.dtype(output)
        if is_complex and dtype.kind != "c" and not isinstance(output, str):
            warnings.warn("promoting specified output dtype to complex", stacklevel=3)
            dtype = np.promote_types(dtype, np.complex64)
        output = np.zeros(shape, dtype)
    output = as_array(output, "output")
    if output.shape != tuple(shape):
        raise RuntimeError(f"output shape not correct: it must be {shape}, got {output.shape}")
    if is_complex and output.dtype.kind != "c":
        raise RuntimeError(f"output must have complex dtype for complex input, got {output.dtype}")
    if output.dtype.kind not in "biufc":
        raise RuntimeError(f"output must have numeric dtype, got {output.dtype}")
    return output


def tensor_output(output: Any, image: Any, shape: tuple[int, ...]) -> Any:
    """As `new_output` for tensors: the tensor given, or the type of a new one."""
    torch = namespace(image)
    if library(output) == "torch" and not isinstance(output, torch.dtype):
        if tuple(output.shape) != tuple(shape):
            raise RuntimeError(
                f"output shape not correct: it must be {tuple(shape)}, got {tuple(output.shape)}"
            )
        dtype = output.dtype
    elif output is None or isinstance(output, torch.dtype):
        output = dtype = image.dtype if output is None else output
    else:
        output = dtype = getattr(torch, np.dtype(output).name)
    if image.dtype.is_complex and not dtype.is_complex:
        raise RuntimeError(f"output must have complex dtype for complex input, got {dtype}")
    return output


def store(values: Any, output: Any) -> Any:
    """The result as the caller asked for it: in an array, or of a type of torch's."""
    if library(values) == "torch":
        torch = namespace(values)
        if isinstance(output, torch.dtype):
            return store_tensor(values, output)
        return output.copy_(store_tensor(values, output.dtype))
    if output.dtype.kind in "iu" and values.dtype.kind not in "iub":
        values = saturated(rounded(np, values), output.dtype)
    elif output.dtype.kind == "b":
        values = np.trunc(values) if values.dtype.kind == "f" else values
    output[...] = values
    return output


def store_tensor(values: Any, dtype: Any) -> Any:
    """Values as a type of torch's; integers as `store` rounds them."""
    torch = namespace(values)
    if values.dtype == dtype or dtype.is_floating_point or dtype.is_complex:
        return values.to(dtype)
    if dtype == torch.bool:
        return torch.trunc(values) != 0
    if kind(values) == "i":
        return values.to(dtype)
    low, high = float_limits(torch.iinfo(dtype))
    return torch.nan_to_num(rounded(torch, values), nan=0.0).clip(low, high).to(dtype)


def rounded(xp: Any, values: Any) -> Any:
    """Half away from zero."""
    return xp.trunc(values + xp.copysign(xp.ones_like(values) / 2, values))


def kind(array: Any) -> str:
    """What an array's numbers are: "f", "c", or integers or truth values, "i"."""
    if library(array) != "torch":
        return "i" if array.dtype.kind in "iub" else str(array.dtype.kind)
    return "c" if array.dtype.is_complex else "f" if array.dtype.is_floating_point else "i"


def as_like(array: Any, like: Any) -> Any:
    """An array as one of the library (and device) of another; integers as that one's reals."""
    if library(like) != "torch":
        return array
    array = namespace(like).as_tensor(array, device=like.device)
    return array if kind(array) in "fc" else array.to(precision(like))


def precision(tensor: Any) -> Any:
    """The type of positions in a tensor: its own, but that half of one does not hold them."""
    torch = namespace(tensor)
    narrow = kind(tensor) in "fc" and torch.finfo(tensor.dtype).bits < 64
    return torch.float32 if narrow else torch.float64


def as_real(array: Any, like: Any) -> Any:
    """A matrix, a shift, or positions, in float64; in a tensor's own precision for a tensor."""
    if library(array) != "torch":
        array = np.asarray(array, np.float64)
    if library(like) != "torch":
        return np.asarray(array)
    return as_like(array, like).to(precision(like))


def as_numbers(given: Any, like: Any, name: str) -> Any:
    """A tensor in a tensor's precision; whatever else in float64, as it is not derived by."""
    if not library(like) == library(given) == "torch":
        return as_reals(given, name)
    if given.dtype.is_complex:
        raise TypeError(f"{name} must hold real numbers, got dtype {given.dtype}")
    return as_real(as_image(given, name), like)


def transposed(array: Any, axes: Sequence[int]) -> Any:
    """An array with its axes in another order."""
    return array.permute(*axes) if library(array) == "torch" else array.transpose(axes)


def working(image: Any, spline: Spline, kept: bool) -> Any:
    """The image in the type that it is sampled in.

    Tensors keep their precision.  Copied numbers do, too; sums are made in float64, which single
    precision is brought to as it is read, if the result is ``kept`` in the image's type.
    """
    if library(image) == "torch":
        return image.double() if kind(image) == "i" and spline.order else image
    if spline.order == 0:
        return image.astype(np.float32) if image.dtype == np.float16 else image
    if kept and spline.order == 1 and image.dtype in (np.float32, np.complex64):
        return image
    return image.astype(np.complex128 if image.dtype.kind == "c" else np.float64, copy=False)


def padded(image: Any, axes: Sequence[int], spline: Spline) -> Any:
    """The image with `PAD` more pixels at both ends of some axes, if the mode has it so."""
    if not spline.pad:
        return image
    if library(image) == "torch":
        return padded_tensor(image, axes, spline)
    widths = [(PAD, PAD) if axis in axes else (0, 0) for axis in range(image.ndim)]
    if spline.mode.pad == "edge":
        return np.pad(image, widths, "edge")
    return np.pad(image, widths, "constant", constant_values=spline.cval)


def padded_tensor(image: Any, axes: Sequence[int], spline: Spline) -> Any:
    """`padded`, by indices, which torch differentiates for every type and rank."""
    torch = namespace(image)
    for axis in axes:
        at = torch.arange(-PAD, image.shape[axis] + PAD, device=image.device)
        inside = (at >= 0) & (at < image.shape[axis])
        image = image.index_select(axis, at.clip(0, image.shape[axis] - 1))
        if spline.mode.pad == "constant":
            inside = inside.reshape([-1 if k == axis else 1 for k in range(image.ndim)])
            image = torch.where(inside, image, torch.full_like(image, spline.cval))
    return image


def prepared(image: Any, axes: Sequence[int], spline: Spline, kept: bool = False) -> Any:
    """What is sampled in an image's place: its coefficients along some axes."""
    image = working(padded(image, axes, spline), spline, kept)
    if spline.filters:
        image = coefficients(image, spline.order, spline.mode.prefilter, tuple(axes))
    return image


# ---- any positions -------------------------------------------------------------------------------


def transform(
    image: Any, positions: Positions, shape: tuple[int, ...], spline: Spline, out: Any = None,
    finite: bool = False,
) -> Any:  # fmt: skip
    """An image (*spatial, C) sampled at positions: (*shape, C).

    ``out``, an array of this shape, is filled where it can be, and else left alone.  Positions
    that are known to be ``finite`` need less to be done.
    """
    xp, rank = namespace(image), image.ndim - 1
    if 0 in image.shape[:rank] and spline.mode.boundary != "constant" and not spline.mode.fills:
        raise RuntimeError(f"input is empty, with shape {image.shape[:rank]}, and has no edge")
    if 0 in image.shape[:rank] or 0 in shape:
        return constant((*shape, image.shape[-1]), spline, image)
    source = prepared(image, range(rank), spline)

    def settled(first: int, last: int) -> list[Any]:
        places = zip(positions(first, last), source.shape, strict=False)
        if finite and spline.order and not spline.mode.folds:
            return [spline.padded(x) for x, _ in places]
        return [spline.settle(xp, x, n) for x, n in places]

    direct = isinstance(out, np.ndarray) and out.dtype == source.dtype and out.dtype.isnative
    if direct and out.flags.writeable and not np.may_share_memory(out, source):
        return sample(source, settled, shape, out, **spline.options, **spline.beyond)
    return sample(source, settled, shape, **spline.options, **spline.beyond)


def transform_whole(
    image: Any, sampled: Callable[[Any], Any], positions: Positions, shape: tuple[int, ...],
    spline: Spline, output: Any, fresh: bool, finite: bool,
) -> Any:  # fmt: skip
    """`transform_plain`, where nothing is to be done to the positions: ``sampled`` in one piece.

    It takes the coefficients (1, 1, *spatial).  What comes out as no number is done again the long
    way, by which a position that is none is outside; so is all, unless positions are ``finite``
    where they would not show.  A ``fresh`` output is nobody else's.
    """
    plain = library(image) != "torch" and not spline.mode.folds and finite
    empty = 0 in image.shape or 0 in shape
    if not plain or empty or meets_tie(positions, shape, image.shape, spline):
        return transform_plain(image, positions, shape, spline, output)
    kept = output.dtype == image.dtype
    source = prepared(image[..., np.newaxis], range(image.ndim), spline, kept)[..., 0]
    values = sampled(source[np.newaxis, np.newaxis])[0, 0]
    if spline.mode.fills and may_be_no_number(values):
        return transform_plain(image, positions, shape, spline, output)
    return values if fresh and values.dtype == output.dtype else store(values, output)


def may_be_no_number(values: Any) -> bool:
    """Whether any of the values is NaN; or infinities are, of which the sum may be."""
    with np.errstate(all="ignore"):
        return bool(np.isnan(values.sum()))


def meets_tie(
    positions: Positions, shape: Sequence[int], sizes: Sequence[int], spline: Spline
) -> bool:
    """Whether a position is half way between the last pixel of an axis and its first mirror image.

    There SciPy takes the pixel of the latter, although it mirrors the position, and all other ties
    with it.
    """
    if spline.order or spline.mode.fills or spline.mode.boundary != "mirror":
        return False

    def among(x: Any, n: int) -> bool:
        beyond = float(x.max()) - (n - 0.5)
        if n == 1 or beyond < 0:
            return False
        return bool((np.fmod(x - (n - 0.5), 2 * n - 2) == 0 if beyond >= n else x == n - 0.5).any())

    rows = max(1, POINTS // max(1, math.prod(shape[1:])))
    return any(
        among(x, n)
        for first in range(0, shape[0], rows)
        for x, n in zip(positions(first, min(first + rows, shape[0])), sizes, strict=True)
    )


def all_finite(numbers: Any) -> bool:
    """Whether all are, as far as their sum tells; it may be infinite where none of them is."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(numbers.sum()))


def transform_affine(
    image: Any, matrix: Any, offset: Sequence[Any], shape: tuple[int, ...], spline: Spline,
    output: Any = None,
) -> Any:  # fmt: skip
    """`transform` to matrix @ index + offset: positions are made while they are sampled."""
    rank, plain = image.ndim - 1, library(image) != "torch"
    finite = plain and bool(np.isfinite(matrix).all() and np.isfinite(offset).all())
    fused = finite and len(shape) == rank and not spline.mode.folds
    positions, empty = linear_positions(matrix, offset, shape), 0 in image.shape or 0 in shape
    if not fused or empty or meets_tie(positions, shape, image.shape[:rank], spline):
        return transform(image, positions, shape, spline, output, finite)
    kept = output is not None and output.dtype == image.dtype
    source = prepared(image, range(rank), spline, kept)
    theta = np.column_stack([matrix[::-1, ::-1], spline.padded(np.array(offset)[::-1])])
    return affine_sample(
        source[np.newaxis], theta[np.newaxis], (1, image.shape[-1], *shape),
        coords="pixel", channel_axis=-1, **spline.options, **spline.beyond,
    )[0]  # fmt: skip


def constant(shape: Sequence[int], spline: Spline, image: Any) -> Any:
    """An image of nothing but the value outside."""
    if library(image) == "torch":
        return image.new_full(tuple(shape), spline.cval)
    return np.full(shape, spline.cval, dtype=image.dtype)


def transform_plain(
    image: Any, positions: Positions, shape: tuple[int, ...], spline: Spline, output: Any
) -> Any:
    """`transform` of an image without channels, into an output from `new_output`."""
    return as_channel(
        lambda pixels, place: transform(pixels, positions, shape, spline, place), image, output
    )


def as_channel(
    sampled: Callable[[Any, Any], Any], image: Any, output: Any, fresh: bool = False
) -> Any:
    """What is ``sampled`` of an image with one channel, perhaps into an output with one.

    A ``fresh`` output is nobody else's.
    """
    if library(image) == "torch":
        return store(sampled(image[..., None], None)[..., 0], output)
    place = output[..., np.newaxis]
    values = sampled(image[..., np.newaxis], place)
    if values is place:
        return output
    kept = fresh and values.dtype == output.dtype
    return values[..., 0] if kept else store(values[..., 0], output)


def scipy_function(name: str, reason: str) -> Any:
    """The function of SciPy's own, for what is not done here."""
    try:
        return getattr(scipy_originals(), name)
    except ImportError:
        raise ImportError(f"{reason} is left to SciPy, which is not installed") from None


@functools.cache
def scipy_originals() -> Any:
    """SciPy's functions as SciPy defines them, in a module object of our own.

    Our functions, or wrappers of them, may have been put over the names in `scipy.ndimage`; to call
    those would never end.  So the module that defines the originals is executed once more, without
    being registered: nothing that others see is changed.
    """
    found = importlib.util.find_spec("scipy.ndimage._interpolation")
    if found is None or found.loader is None:  # a SciPy that keeps them elsewhere
        return importlib.import_module("scipy.ndimage")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def goes_to_scipy(image: Any) -> bool:
    """Whether an image has more axes than are sampled here."""
    if image.ndim > 3 and library(image) == "torch":
        raise TypeError(f"input has {image.ndim} axes; accepted: tensors with up to three")
    return bool(image.ndim > 3)


def map_coordinates(
    input: Any,
    coordinates: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The image at given coordinates, by spline interpolation: `scipy.ndimage.map_coordinates`.

    Output p is the sum over pixels i of c[i] times the product over axes k of
    b(coordinates[k, p] - i[k]), with the B-spline b of the order and the coefficients c that
    `spline_filter` makes.

    Args:
        input: the image, of any rank (more than three axes go to SciPy), real or complex.
        coordinates: (rank, *out), in pixels, along the image's axes in their order: z, y, x.
        output: an array or a tensor for the result, or its dtype; None for the input's.
        order: of the spline, 0 (nearest, ties up) to 5.
        mode: what is outside: "constant" (``cval`` beyond the outermost pixels' centres),
            "grid-constant" (the image is surrounded by pixels of ``cval``), "nearest", "mirror",
            "reflect" or "grid-mirror", "grid-wrap", "wrap" (with the period n - 1).
        cval: the value outside, for the modes with "constant".
        prefilter: False if ``input`` holds coefficients already.

    Returns:
        (*out), or ``output``.  For tensors, a tensor, differentiable in both arguments.

    Raises:
        RuntimeError: shapes, an order or a mode that SciPy refuses with this error.
        TypeError: complex coordinates.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> image = np.arange(12.0).reshape(4, 3)
        >>> ndimage.map_coordinates(image, [[0.5, 2], [0.5, 1]], order=1)
        array([2., 7.])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image, places = as_image(input), as_image(coordinates, "coordinates")
    if library(places) == "torch" != library(image):
        raise TypeError(
            "coordinates are a tensor and input is none; both must be of one library; make it one: "
            "input = torch.as_tensor(input, device=coordinates.device)"
        )
    places = as_like(places, image)
    if kind(places) == "c":
        raise TypeError(f"coordinates: Complex type not supported: {places.dtype}")
    shape = tuple(places.shape[1:])
    check_rank(image.shape, shape)
    if places.shape[0] != image.ndim:
        raise RuntimeError(
            f"coordinates: invalid shape for coordinate array: {tuple(places.shape)}; "
            f"the first axis must have one entry for each of the input's {image.ndim} axes"
        )
    if goes_to_scipy(image):
        elsewhere = scipy_function("map_coordinates", "an input with more than three axes")
        return elsewhere(image, places, output, order, mode, cval, prefilter)
    result = new_output(output, image, shape)

    def sampled(source: Any) -> Any:
        grid = np.moveaxis(spline.padded(places.astype(np.float64, copy=False)), 0, -1)
        return grid_sample(
            source, grid[np.newaxis, ..., ::-1], coords="pixel", **spline.options, **spline.beyond
        )

    fresh = not isinstance(output, np.ndarray)
    finite = spline.order > 0 or library(image) == "torch" or all_finite(places)
    return transform_whole(
        image, sampled, lambda a, b: places[:, a:b], shape, spline, result, fresh, finite
    )


def geometric_transform(
    input: Any,
    mapping: Any,
    output_shape: Sequence[int] | None = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    extra_arguments: tuple[Any, ...] = (),
    extra_keywords: dict[str, Any] | None = None,
) -> Any:
    """The image where a function says: `scipy.ndimage.geometric_transform`.

    The function is called once for each output pixel, which takes most of the time; coordinates
    that can be computed as arrays belong in `map_coordinates`.

    Args:
        input: as in `map_coordinates`.
        mapping: takes an output pixel's indices as a tuple, and gives its coordinates in the
            input as a sequence.  A `scipy.LowLevelCallable` goes to SciPy, with all the rest.
        output_shape: the output's shape; None for the input's.
        output: as in `map_coordinates`.
        order: as in `map_coordinates`.
        mode: as in `map_coordinates`.
        cval: as in `map_coordinates`.
        prefilter: as in `map_coordinates`.
        extra_arguments: more arguments for the function.
        extra_keywords: and by name.

    Returns:
        An array of ``output_shape``, or ``output``.

    Raises:
        RuntimeError: as `map_coordinates`.
        TypeError: the function gives too many or too few coordinates.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> image = np.arange(6.0).reshape(2, 3)
        >>> ndimage.geometric_transform(image, lambda at: (at[1], at[0]), (3, 2), order=1)
        array([[0., 3.],
               [1., 4.],
               [2., 5.]])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image = as_image(input)
    shape = tuple(map(operator.index, image.shape if output_shape is None else output_shape))
    check_rank(image.shape, shape)
    if goes_to_scipy(image) or type(mapping).__name__ == "LowLevelCallable":
        elsewhere = scipy_function("geometric_transform", "more than three axes, or a C function,")
        how = (order, mode, cval, prefilter, extra_arguments, extra_keywords)
        return elsewhere(image, mapping, shape, output, *how)
    result = new_output(output, image, shape)
    given = extra_keywords or {}
    places = [tuple(mapping(at, *extra_arguments, **given)) for at in np.ndindex(shape)]
    if any(len(place) != image.ndim for place in places):
        raise TypeError(
            f"mapping must give {image.ndim} coordinates, one for each axis of the input, "
            f"got {next(len(place) for place in places if len(place) != image.ndim)}"
        )
    if any(library(x) == "torch" for place in places for x in place):
        xp = namespace(image)
        table = xp.stack([as_real(x, image) for x in itertools.chain(*zip(*places, strict=True))])
    else:
        table = as_real(np.ascontiguousarray(np.array(places, np.float64).T), image)
    table = table.reshape(image.ndim, *shape)
    return transform_plain(image, lambda a, b: table[:, a:b], shape, spline, result)


# ---- matrices ------------------------------------------------------------------------------------


def linear_positions(matrix: Any, offset: Any, shape: Sequence[int]) -> Positions:
    """matrix @ index + offset, for output rows; summed in SciPy's order, for the last bit's sake.

    A position that is an edge pixel's by that bit is inside, or outside and so ``cval``.
    """
    xp, rank = namespace(matrix), len(shape)
    sizes = [tuple(-1 if k == axis else 1 for k in range(rank)) for axis in range(rank)]
    steps = [xp.arange(n).reshape(size) for n, size in zip(shape, sizes, strict=True)]
    steps = [as_like(step, matrix) for step in steps]
    inner = [[row[k] * steps[k] for k in range(1, rank)] for row in matrix]

    def positions(first: int, last: int) -> list[Any]:
        rows = steps[0][first:last]
        starts = [o + row[0] * rows for row, o in zip(matrix, offset, strict=True)]
        return [sum(terms, start) for start, terms in zip(starts, inner, strict=True)]

    return positions


def split_matrix(matrix: Any, offset: Any, rank: int, out_rank: int) -> tuple[Any, Any]:
    """A matrix, or its diagonal, and an offset, from all the forms that they may have.

    Raises:
        RuntimeError: shapes that do not go with the input's and the output's rank.
        ValueError: a homogeneous matrix whose last row is not 0 ... 0 1.
    """
    if matrix.ndim not in (1, 2) or matrix.shape[0] < 1:
        raise RuntimeError(f"matrix: no proper affine matrix provided: shape {matrix.shape}")
    if matrix.ndim == 2 and tuple(matrix.shape) in ((rank, rank + 1), (rank + 1, rank + 1)):
        expected = [0] * rank + [1]
        if matrix.shape[0] == rank + 1 and matrix[rank].tolist() != expected:
            raise ValueError(
                f"matrix: a homogeneous matrix of shape {tuple(matrix.shape)} must have "
                f"{expected} as its bottom row, got {matrix[rank].tolist()}"
            )
        matrix, offset = matrix[:rank, :rank], matrix[:rank, rank]
    if matrix.shape[0] != rank:
        raise RuntimeError(
            f"affine matrix has wrong number of rows: {matrix.shape[0]}, "
            f"for an input of rank {rank}"
        )
    if matrix.ndim == 2 and matrix.shape[1] != out_rank:
        raise RuntimeError(
            f"affine matrix has wrong number of columns: {matrix.shape[1]}, "
            f"for an output of rank {out_rank}"
        )
    return matrix, one_each(offset, rank, "offset")


def affine_transform(
    input: Any,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Sequence[int] | None = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The image under an affine map: `scipy.ndimage.affine_transform`.

    Output pixel o is the input at ``matrix @ o + offset``, in pixels and in the array's axes: z,
    y, x.  The matrix maps the output to the input.

    Args:
        input: as in `map_coordinates`.
        matrix: (rank, out_rank); (rank,), the diagonal of one that has no more, which is done axis
            by axis and for any rank; or (rank, rank + 1) or (rank + 1, rank + 1), which hold the
            offset in their last column.
        offset: a number, or one for each axis of the input.
        output_shape: the output's shape; None for that of ``output``, or the input's.
        output: as in `map_coordinates`.
        order: as in `map_coordinates`.
        mode: as in `map_coordinates`.
        cval: as in `map_coordinates`.
        prefilter: as in `map_coordinates`.

    Returns:
        An array of ``output_shape``, or ``output``.  For tensors, differentiable in the input, the
        matrix and the offset.

    Raises:
        RuntimeError: as `map_coordinates`, or a matrix whose shape does not go with the ranks.
        ValueError: a homogeneous matrix whose last row is not 0 ... 0 1.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> image = np.arange(6.0).reshape(2, 3)
        >>> ndimage.affine_transform(image, [[0, 1], [1, 0]], output_shape=(3, 2), order=1)
        array([[0., 3.],
               [1., 4.],
               [2., 5.]])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image = as_image(input)
    if output_shape is None:
        output_shape = output.shape if isinstance(output, np.ndarray) else image.shape
    shape = tuple(map(operator.index, output_shape))
    check_rank(image.shape, shape)
    result = new_output(output, image, shape)
    matrix = as_numbers(matrix, image, "matrix")
    matrix, offset = split_matrix(matrix, offset, image.ndim, len(shape))
    if matrix.ndim == 1:
        matrix, offset = (
            [as_numbers(one, image, name) for one in each]
            for name, each in (("matrix", matrix), ("offset", offset))
        )
        places = [scaled(*each) for each in zip(shape, matrix, offset, strict=True)]
        return store(separable(image, places, spline), result)
    matrix, offset = as_real(matrix, image), [as_real(one, image) for one in offset]
    if goes_to_scipy(image):
        elsewhere = scipy_function("affine_transform", "an input with more than three axes")
        elsewhere(image, matrix, offset, shape, result, order, mode, cval, prefilter)
        return result
    fresh = not isinstance(output, np.ndarray)
    return as_channel(
        lambda pixels, place: transform_affine(pixels, matrix, offset, shape, spline, place),
        image, result, fresh,
    )  # fmt: skip


def scaled(n: int, step: Any, offset: Any) -> Any:
    """step * index + offset, summed as SciPy does it: at an edge the last bit decides."""
    step, offset = (one if library(one) == "torch" else float(one) for one in (step, offset))
    at = as_like(np.arange(n), step if library(step) == "torch" else offset)
    return (at + offset / step) * step if step != 0 else at * step + offset


def turned(angle: float) -> tuple[float, float]:
    """Cosine and sine of an angle in degrees, exact at every quarter turn.

    Halfway between two of them the upper one is taken, which SciPy's last bits follow from.
    """
    quarters = math.floor(abs(angle) / 90 + 0.5)
    rest = math.radians(abs(angle) - 90 * quarters)
    c, s = math.cos(rest), math.sin(rest)
    c, s = ((c, s), (-s, c), (-c, -s), (s, -c))[quarters % 4]
    return c, s if angle >= 0 else -s


def rotation_plane(axes: Any, rank: int) -> list[int]:
    """Two axes in rising order.

    Raises:
        ValueError: they are not two axes of the input.
    """
    if rank < 2:
        raise ValueError(f"input array should be at least 2D, got {rank} axes")
    given = list(axes)
    if len(given) != 2:
        raise ValueError(f"axes should contain exactly two values, got {axes!r}")
    if not all(float(axis).is_integer() for axis in given):
        raise ValueError(f"axes should contain only integer values, got {axes!r}")
    plane = sorted(int(axis) + rank * (axis < 0) for axis in given)
    if plane[0] < 0 or plane[1] >= rank:
        raise ValueError(f"axes: invalid rotation plane specified: {axes!r}, of {rank} axes")
    return plane


def rotate(
    input: Any,
    angle: float,
    axes: Sequence[int] = (1, 0),
    reshape: bool = True,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The image rotated in a plane of two axes: `scipy.ndimage.rotate`.

    All other axes are channels: the same taps for every one of them.

    Args:
        input: an image of two axes or more, of any rank.
        angle: in degrees.
        axes: the two axes of the plane.
        reshape: whether the output is made large enough to hold the whole input.
        output: as in `map_coordinates`.
        order: as in `map_coordinates`.
        mode: as in `map_coordinates`.
        cval: as in `map_coordinates`.
        prefilter: as in `map_coordinates`.

    Returns:
        The rotated image, or ``output``.

    Raises:
        RuntimeError: as `map_coordinates`.
        ValueError: axes that are none of the input's.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> ndimage.rotate(np.arange(6.0).reshape(2, 3), 90, order=1)
        array([[2., 5.],
               [1., 4.],
               [0., 3.]])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image = as_image(input)
    plane = rotation_plane(axes, image.ndim)
    c, s = turned(angle)
    matrix = np.array([[c, s], [-s, c]])
    sizes = np.array([image.shape[axis] for axis in plane])
    y, x = sizes
    bounds = np.ptp(matrix @ [[0, 0, y, y], [0, x, 0, x]], axis=1)
    new = (bounds + 0.5).astype(int) if reshape else sizes
    offset = (sizes - 1) / 2 - matrix @ ((new - 1) / 2)
    others = [axis for axis in range(image.ndim) if axis not in plane]
    shape = tuple(int(new[plane.index(k)]) if k in plane else n for k, n in enumerate(image.shape))
    result = new_output(output, image, shape)
    to = [*plane, *others]
    back = sorted(range(image.ndim), key=to.__getitem__)
    moved = transposed(image, to)
    flat = moved.reshape(*moved.shape[:2], -1)
    values = transform_affine(
        flat, as_real(matrix, image), as_real(offset, image), tuple(new.tolist()), spline
    )
    values = transposed(values.reshape(*values.shape[:2], *moved.shape[2:]), back)
    return store(values, result)


# ---- axis by axis --------------------------------------------------------------------------------


def separable(image: Any, places: Sequence[Any], spline: Spline) -> Any:
    """An image of any rank, sampled at positions that each axis has of its own."""
    xp, outside = namespace(image), []
    if 0 in image.shape or any(len(place) == 0 for place in places):
        return constant([len(place) for place in places], spline, image)
    values = image
    for axis, place in enumerate(places):
        n, x = image.shape[axis], as_real(place, image)
        if at_rest(place, n) and (spline.filters or spline.order < 2):
            continue  # every pixel of the axis is wanted as it is
        source = prepared(values, (axis,), spline)
        if spline.mode.fills:
            outside.append((axis, ~spline.inside(x, n)))
        settled = spline.settle(xp, x, source.shape[axis])
        values = sample_axis(source, axis, settled, **spline.options)
    if values is image:
        return values
    for axis, beyond in outside:
        values = filled(xp, values, axis, beyond, spline.cval)
    return values


def at_rest(x: Any, n: int) -> bool:
    """Whether positions are those of the pixels themselves, and are not derived by."""
    return library(x) != "torch" and len(x) == n and bool((x == np.arange(n)).all())


def filled(xp: Any, values: Any, axis: int, beyond: Any, cval: Any) -> Any:
    """Values with ``cval`` wherever the index along an axis is beyond."""
    if xp is np:
        if beyond.any():
            values[(slice(None),) * axis + (beyond,)] = cval
        return values
    shape = [-1 if k == axis else 1 for k in range(values.ndim)]
    return xp.where(beyond.reshape(shape), values.new_full((), cval), values)


def shift(
    input: Any,
    shift: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The image moved along its axes: `scipy.ndimage.shift`.

    Output pixel o is the input at ``o - shift``.

    Args:
        input: an image of any rank.
        shift: in pixels: a number, or one for each axis.
        output: as in `map_coordinates`.
        order: as in `map_coordinates`.
        mode: as in `map_coordinates`.
        cval: as in `map_coordinates`.
        prefilter: as in `map_coordinates`.

    Returns:
        An array of the input's shape, or ``output``.  For tensors, differentiable in the shift.

    Raises:
        RuntimeError: as `map_coordinates`.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> ndimage.shift(np.array([4.0, 1.0, 3.0, 2.0]), 1.5, order=1, cval=9)
        array([9. , 9. , 2.5, 2. ])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image = as_image(input)
    check_rank(image.shape)
    shifts = [as_numbers(one, image, "shift") for one in one_each(shift, image.ndim, "shift")]
    result = new_output(output, image, tuple(image.shape))
    steps = zip(shifts, image.shape, strict=True)
    places = [as_like(np.arange(n), by) - by for by, n in steps]
    return store(separable(image, places, spline), result)


def zoom(
    input: Any,
    zoom: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Any:
    """The image resized: `scipy.ndimage.zoom`.

    The output has ``round(n * zoom)`` pixels along an axis of n, and its pixel o is the input at

        o * (n - 1) / (outputs - 1)             grid_mode=False: corner pixels' centres stay
        (o + 1/2) * n / outputs - 1/2           grid_mode=True: their outer edges do

    Args:
        input: an image of any rank.
        zoom: a factor, or one for each axis.
        output: as in `map_coordinates`.
        order: as in `map_coordinates`.
        mode: as in `map_coordinates`.
        cval: as in `map_coordinates`.
        prefilter: as in `map_coordinates`.
        grid_mode: see above.

    Returns:
        The resized image, or ``output``.

    Raises:
        RuntimeError: as `map_coordinates`.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> ndimage.zoom(np.array([0.0, 6.0]), 2, order=1)
        array([0., 2., 4., 6.])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image = as_image(input)
    check_rank(image.shape)
    factors = one_each(as_reals(zoom, "zoom").tolist(), image.ndim, "zoom")
    shape = tuple(round(n * factor) for n, factor in zip(image.shape, factors, strict=True))
    result = new_output(output, image, shape)
    if grid_mode and mode in ("constant", "wrap"):
        warnings.warn(
            f"It is recommended to use mode = grid-{mode} instead of {mode} when grid_mode is "
            "True.",
            stacklevel=2,
        )
    places = [
        stretched(n, outputs, bool(grid_mode))
        for n, outputs in zip(image.shape, shape, strict=True)
    ]
    return store(separable(image, places, spline), result)


def stretched(n: int, outputs: int, whole: bool) -> Any:
    """Positions of so many outputs over n pixels: over their centres, or over the whole of them."""
    at = np.arange(outputs)
    if whole:
        return (at + 0.5) * (n / outputs) - 0.5 if outputs else at
    return at * ((n - 1) / (outputs - 1) if outputs > 1 else 1.0)


# ---- the prefilter -------------------------------------------------------------------------------


def spline_filter1d(
    input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """Spline coefficients along one axis: `scipy.ndimage.spline_filter1d`.

    Args:
        input: an image of any rank.
        order: of the spline, 0 to 5; 0 and 1 leave the image as it is.
        axis: the axis.
        output: as in `map_coordinates`; float64 if left out, a tensor's own type for a tensor.
        mode: what is outside, as in `map_coordinates`; exact for "mirror", "reflect",
            "grid-mirror" and "grid-wrap"; "nearest" is filtered as "reflect", others as "mirror".

    Returns:
        An array of the input's shape, or ``output``.

    Raises:
        RuntimeError: as `map_coordinates`.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> c = ndimage.spline_filter1d(np.array([0.0, 0.0, 6.0, 0.0, 0.0]))
        >>> (c[1:-3] + 4 * c[2:-2] + c[3:-1]) / 6  # the spline at the middle pixel
        array([6.])
    """
    image = as_image(input)
    order, how = check_order(order), find_mode(mode)
    result = filter_output(output, image)
    if order > 1 and image.ndim:
        axis = check_axis(axis, image.ndim)
        image = prepared(image, (axis,), Spline(order, how._replace(pad=""), 0.0, True))
    if library(image) == "torch":
        return store(image, result)
    result[...] = np.trunc(image) if image.dtype.kind == "f" and kind(result) == "i" else image
    return result


def filter_output(output: Any, image: Any) -> Any:
    """As `new_output`; SciPy's default stands for a tensor's own type."""
    if library(image) != "torch":
        return new_output(output, image, image.shape)
    own = image.dtype if kind(image) in "fc" else as_like(image, image).dtype
    return own if output is np.float64 else new_output(output, image, image.shape)


def check_axis(axis: Any, rank: int) -> int:
    """An axis, counted from the front."""
    given = operator.index(axis)
    if not -rank <= given < rank:
        raise np.exceptions.AxisError(given, rank)
    return given % rank


def spline_filter(
    input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """Spline coefficients along all axes: `scipy.ndimage.spline_filter`.

    What lies between two axes' passes has the output's type, as in SciPy: keep float64.

    Args:
        input: as in `spline_filter1d`.
        order: of the spline, 2 to 5.
        output: as in `spline_filter1d`.
        mode: as in `spline_filter1d`.

    Returns:
        An array of the input's shape, or ``output``.

    Raises:
        RuntimeError: as `map_coordinates`.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> ndimage.spline_filter(np.ones((2, 2)))
        array([[1., 1.],
               [1., 1.]])
    """
    image = as_image(input)
    check_order(order, 2)
    find_mode(mode)
    result = filter_output(output, image)
    if image.ndim == 0:
        return store(image, result)
    for axis in range(image.ndim):
        image = spline_filter1d(image, order, axis, result, mode)
    return image
