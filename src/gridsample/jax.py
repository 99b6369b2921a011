"""The names of `jax.scipy.ndimage` and `jax.image`, with splines and all of SciPy's modes.

    from gridsample.jax import affine_transform, map_coordinates, resize, zoom

The functions accept JAX arrays, under every transform of JAX, and have derivatives of any order.
The operations of `gridsample` itself accept JAX arrays, too.

"constant" and "wrap" are different modes in JAX and in SciPy.  Here they are JAX's, and those of
SciPy have other names:

    mode here         mode in SciPy     outside an image a b c d
    "constant"        "grid-constant"   pixels of the value cval
    "scipy-constant"  "constant"        cval at any position beyond the outermost centres
    "wrap"            "grid-wrap"       a b c d | a b c d | a b c d
    "scipy-wrap"      "wrap"            b c d | a b c d | b c d: the last pixel is also the first
    "nearest"         "nearest"         a a a | a b c d | d d d
    "mirror"          "mirror"          d c b | a b c d | c b a
    "reflect"         "reflect"         c b a | a b c d | d c b

"grid-constant", "grid-wrap" and "grid-mirror" are accepted with SciPy's meanings.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

try:
    import jax
    import jax.numpy as jnp
except ModuleNotFoundError as error:
    raise ImportError(
        'gridsample.jax needs jax: pip install "gridsample[jax]"', name="jax"
    ) from error

from gridsample.backends import backend_of
from gridsample.definitions.methods import lanczos
from gridsample.definitions.request import ResizeRequest
from gridsample.definitions.shapes import MAX_RANK
from gridsample.messages.links import unknown_name
from gridsample.ndimage import modes
from gridsample.ndimage.arrays import store
from gridsample.ndimage.axes import resized_positions, sample_separably
from gridsample.ndimage.maps import transform_affine
from gridsample.ndimage.modes import Mode, Spline
from gridsample.ndimage.positions import transform_plain
from gridsample.ops.resizing import plan_resizing

__all__ = ["affine_transform", "map_coordinates", "resize", "zoom"]

Array = Any

MODES: dict[str, Mode] = {
    "constant": modes.MODES["grid-constant"],
    "nearest": modes.MODES["nearest"],
    "wrap": modes.MODES["grid-wrap"],
    "mirror": modes.MODES["mirror"],
    "reflect": modes.MODES["reflect"],
    "scipy-constant": modes.MODES["constant"],
    "scipy-wrap": modes.MODES["wrap"],
    **{name: modes.MODES[name] for name in ("grid-constant", "grid-wrap", "grid-mirror")},
}
# The methods of `resize`: the names in `jax.image`, and ours.
RESIZERS: dict[str, Any] = {
    "nearest": "nearest-exact",
    **{name: "linear" for name in ("linear", "bilinear", "trilinear", "triangle")},
    **{name: "catmull-rom" for name in ("cubic", "bicubic", "tricubic")},
    **{name: "cubic" for name in ("cubic-pytorch", "bicubic-pytorch")},
    "lanczos3": "lanczos3",
    "lanczos5": lanczos(5),
}
# The method that repeats edge pixels unless it antialiases.
TORCH_CUBIC = "cubic"
Function = TypeVar("Function", bound=Callable[..., Any])
# The highest order of a spline, and the number of axes that can be sampled or resized at once.
MAX_ORDER, MAX_AXES = 7, MAX_RANK


def with_promotion(function: Function) -> Function:
    """Let a function promote dtypes and ranks, even where JAX is configured not to do so."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return function(*args, **options)

    return cast(Function, call)


@with_promotion
def map_coordinates(
    input: Any,
    coordinates: Sequence[Any],
    order: int,
    mode: str = "constant",
    cval: Any = 0.0,
    *,
    prefilter: bool = True,
) -> Array:
    """Sample an image at coordinates by splines, like `jax.scipy.ndimage.map_coordinates`.

    An output at the position x, which has one of the coordinates for each axis k, is the sum over
    pixels i of c(i) times the product over axes of b(x_k - i_k), where b is the B-spline of the
    order, and c are the image's coefficients: the image itself for order 0 and 1, and otherwise
    those with which the spline passes through the pixels.

    Args:
        input: the image, with one to eight axes, of any dtype.
        coordinates: one array of positions in pixels for each axis, in the order of the axes; they
            are broadcast to one shape.
        order: the order of the spline, 0 (nearest, ties up) to 7.
        mode: the boundary; see `gridsample.jax`.
        cval: the value outside, a number, for "constant" and "scipy-constant".
        prefilter: False if the input already holds coefficients.

    Returns:
        The samples, in the shape of the coordinates and the dtype of the input, with derivatives of
        any order in the input and the coordinates.  Integers are rounded, halves away from zero,
        and saturate.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the mode or the order is unknown, or the shapes do not match.

    Example:
        >>> import jax.numpy as jnp
        >>> from gridsample.jax import map_coordinates
        >>> parabola = jnp.arange(8.0) ** 2
        >>> at = [jnp.array([2.5, 3.5])]
        >>> map_coordinates(parabola, at, order=1), map_coordinates(parabola, at, order=3).round(1)
        (Array([ 6.5, 12.5], dtype=float32), Array([ 6.3, 12.1], dtype=float32))
    """
    (image,) = as_images(input=input)
    spline = spline_of(order, mode, cval, prefilter)
    positions = as_reals("coordinates", [as_images(coordinates=line)[0] for line in coordinates])
    if len(positions) != image.ndim:
        raise ValueError(
            f"coordinates must have one array for each of the input's {image.ndim} axes, "
            f"got {len(positions)}"
        )
    positions = jnp.broadcast_arrays(*positions)
    lines = [axis_positions.reshape(-1) for axis_positions in positions]
    samples = transform_plain(
        image,
        lambda first, last: [line[first:last] for line in lines],
        lines[0].shape,
        spline,
        image.dtype,
    )
    return samples.reshape(positions[0].shape)


@with_promotion
def affine_transform(
    input: Any,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Sequence[int] | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    *,
    prefilter: bool = True,
) -> Array:
    """Sample an image under an affine map, like `scipy.ndimage.affine_transform`.

    Output pixel o is the input at the position matrix @ o + offset.

    Args:
        input: the image, as in `map_coordinates`.
        matrix: (rank, rank) or (rank, rank + 1), whose last column is then the offset.
        offset: (rank,), or one number for all axes.
        output_shape: the shape of the result; the input's if None.
        order: the order of the spline, as in `map_coordinates`.
        mode: the boundary, as in `map_coordinates`.
        cval: the value outside, as in `map_coordinates`.
        prefilter: whether to prefilter, as in `map_coordinates`.

    Returns:
        The samples, in the dtype of the input, with derivatives of any order in the input, the
        matrix and the offset.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the mode or the order is unknown, or the shapes do not match.

    Example:
        >>> import jax.numpy as jnp
        >>> from gridsample.jax import affine_transform
        >>> affine_transform(jnp.array([0.0, 4.0, 8.0]), jnp.array([[0.5]]), order=1)
        Array([0., 2., 4.], dtype=float32)
    """
    (image,) = as_images(input=input)
    spline = spline_of(order, mode, cval, prefilter)
    linear, shift = as_reals("matrix and offset", as_images(matrix=matrix, offset=offset))
    rank = image.ndim
    if linear.shape not in ((rank, rank), (rank, rank + 1)):
        raise ValueError(
            f"matrix must be ({rank}, {rank}) or ({rank}, {rank + 1}) for an input with {rank} "
            f"axes, got shape {linear.shape}"
        )
    if linear.shape[1] > rank:
        linear, shift = linear[:, :rank], linear[:, rank]
    if shift.shape not in ((), (rank,)):
        raise ValueError(f"offset must be a number or ({rank},), got shape {shift.shape}")
    shape = image.shape if output_shape is None else tuple(map(operator.index, output_shape))
    if len(shape) != rank:
        raise ValueError(f"output_shape must have {rank} entries, got {output_shape!r}")
    shifts = list(jnp.broadcast_to(shift, (rank,)))
    samples = transform_affine(image[..., np.newaxis], linear, shifts, shape, spline)
    return store(samples[..., 0], image.dtype)


@with_promotion
def zoom(
    input: Any,
    zoom: Any,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    *,
    prefilter: bool = True,
    grid_mode: bool = False,
) -> Array:
    """Resize an image by splines, like `scipy.ndimage.zoom`; see `gridsample.ndimage.zoom`.

    Args:
        input: an image with any number of axes.
        zoom: a factor, or one per axis: numbers, because they determine the shape of the result.
        order: the order of the spline, as in `map_coordinates`.
        mode: the boundary, as in `map_coordinates`.
        cval: the value outside, as in `map_coordinates`.
        prefilter: whether to prefilter, as in `map_coordinates`.
        grid_mode: whether the outer edges of the corner pixels stay in place, instead of their
            centres.

    Returns:
        The resized image, in the dtype of the input, with derivatives of any order.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the mode or the order is unknown, or there are too many or too few factors.

    Example:
        >>> import jax.numpy as jnp
        >>> from gridsample.jax import zoom
        >>> zoom(jnp.array([0.0, 6.0]), 2, order=1)
        Array([0., 2., 4., 6.], dtype=float32)
    """
    (image,) = as_images(input=input)
    spline = spline_of(order, mode, cval, prefilter)
    factors = np.asarray(zoom, np.float64)
    if factors.shape not in ((), (image.ndim,)):
        raise ValueError(
            f"zoom must be a number or one for each of the input's {image.ndim} axes, got {zoom!r}"
        )
    factors = np.broadcast_to(factors, (image.ndim,))
    sizes = [round(n * factor) for n, factor in zip(image.shape, factors.tolist(), strict=True)]
    positions = [
        resized_positions(n, m, bool(grid_mode)) for n, m in zip(image.shape, sizes, strict=True)
    ]
    return sample_separably(image, positions, spline, image.dtype)


@with_promotion
def resize(
    image: Any,
    shape: Sequence[int],
    method: str | Any = "linear",
    antialias: bool = True,
) -> Array:
    """Resize an image, like `jax.image.resize`, by weights on the pixels near each output.

    Args:
        image: an image with any number of axes, of which at most eight change.
        shape: the shape of the result.
        method: "nearest", "linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", another of
            JAX's names for these, or a `jax.image.ResizeMethod`.
        antialias: whether the weights are stretched along axes that shrink.

    Returns:
        The resized image.  Integers become floating point, unless the method is "nearest".

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the method is unknown, or the shapes do not match.

    Example:
        >>> import jax.numpy as jnp
        >>> from gridsample.jax import resize
        >>> resize(jnp.array([[0.0, 2.0, 4.0, 6.0]]), (1, 2), "linear")
        Array([[1.4285715, 4.571429 ]], dtype=float32)
    """
    (pixels,) = as_images(image=image)
    size = tuple(map(operator.index, shape))
    if len(size) != pixels.ndim:
        raise ValueError(f"shape must have {pixels.ndim} entries, one per axis, got {shape!r}")
    name = (
        method.name.lower().replace("_", "-")
        if isinstance(method, jax.image.ResizeMethod)
        else method
    )
    if not isinstance(name, str):
        raise TypeError(f"method must be a string or a jax.image.ResizeMethod, got {method!r}")
    if name not in RESIZERS:
        raise unknown_name("method", name, list(RESIZERS))
    mode = RESIZERS[name]
    if mode != "nearest-exact" and not jnp.issubdtype(pixels.dtype, jnp.inexact):
        pixels = pixels.astype(jnp.promote_types(pixels.dtype, jnp.float32))
    if 0 in size:
        return jnp.zeros(size, pixels.dtype)
    axes = [k for k, (n, m) in enumerate(zip(pixels.shape, size, strict=True)) if n != m]
    if not axes:
        return pixels
    if len(axes) > MAX_AXES:
        raise ValueError(f"at most {MAX_AXES} axes can change, got {pixels.shape} to {size}")
    others = [k for k in range(pixels.ndim) if k not in axes]
    planes = pixels.transpose(*others, *axes)
    rest, spatial = planes.shape[: len(others)], planes.shape[len(others) :]
    # JAX's methods leave out the pixels that are outside, as antialiasing does.
    omits = mode != "nearest-exact" and (bool(antialias) or mode != TORCH_CUBIC)
    resizing = plan_resizing(
        spatial, tuple(size[k] for k in axes), None, ResizeRequest(mode, antialias=omits)
    )
    resizing = resizing._replace(stretched=bool(antialias))
    planes = planes.reshape(1, -1, *spatial)
    resized = backend_of(input=planes).resize(planes, resizing, False)
    resized = resized.reshape(*rest, *resized.shape[2:])
    return resized.transpose([*np.argsort([*others, *axes])])


# Arguments ----------------------------------------------------------------------------------------


def as_images(**arguments: Any) -> list[Array]:
    """Convert arguments to JAX arrays; lists and numbers are accepted.

    Raises:
        TypeError: an argument is not an array.
    """
    for name, argument in arguments.items():
        if isinstance(argument, (list, tuple, int, float)):
            arguments[name] = jnp.asarray(argument)
    return list(backend_of(like=jnp.zeros(())).asarrays(**arguments))


def as_reals(name: str, arrays: Sequence[Array]) -> list[Array]:
    """Convert arrays to one floating-point dtype, float32 or wider.

    Raises:
        TypeError: an array is complex.
    """
    dtype = functools.reduce(jnp.promote_types, [array.dtype for array in arrays], jnp.float32)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise TypeError(f"{name} must be real numbers, got dtype {dtype}")
    return [array.astype(dtype) for array in arrays]


def spline_of(order: Any, mode: Any, cval: Any, prefilter: Any) -> Spline:
    """Check the options of a spline.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: the order is out of range, or the mode is unknown.
    """
    if isinstance(order, bool) or not hasattr(order, "__index__"):
        raise TypeError(f"order must be an integer from 0 to {MAX_ORDER}, got {order!r}")
    if not 0 <= order <= MAX_ORDER:
        raise ValueError(f"order must be from 0 to {MAX_ORDER}, got {order}")
    if not isinstance(mode, str):
        raise TypeError(f"mode must be a string, got {mode!r}")
    if mode not in MODES:
        raise unknown_name("mode", mode, list(MODES))
    return Spline(operator.index(order), MODES[mode], modes.check_number(cval), bool(prefilter))
