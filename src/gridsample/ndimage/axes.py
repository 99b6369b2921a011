"""Sampling axis by axis: `shift` and `zoom`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import backend_of
from gridsample.backends.resizing import apply_matrices
from gridsample.definitions.bands import CACHE_BYTES, copying_band
from gridsample.definitions.caches import cached_by_size
from gridsample.definitions.checks import as_reals
from gridsample.definitions.shapes import bands_along
from gridsample.definitions.tables import AxisMap, map_of_band
from gridsample.ndimage import arrays
from gridsample.ndimage.arrays import (
    as_image,
    as_like,
    as_numbers,
    as_real,
    bands,
    check_rank,
    new_output,
    per_axis,
    restored,
    store,
)
from gridsample.ndimage.maps import transform_affine
from gridsample.ndimage.modes import Spline, spline_of
from gridsample.ndimage.positions import as_channel, constant
from gridsample.ndimage.prefilter import in_working_type, prepared
from gridsample.ndimage.strips import sample_axis

# Pixels of a result from which kernels copy them.
MANY_PIXELS = 1 << 14
# Taps of a result up to which all axes are sampled at once.
FEW_TAPS = 1 << 19


def shift(
    input: Any,
    shift: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Shift an image along its axes, like `scipy.ndimage.shift`.

    Output pixel o is the input at ``o - shift``.

    Args:
        input: an image of any rank.
        shift: the shift in pixels, a number or one per axis.
        order: the order of the spline, as in `map_coordinates`.
        output, mode, cval, prefilter: as in `map_coordinates`.

    Returns:
        An array of the input's shape, or ``output``.  For tensors, it is differentiable in the
        shift.

    Raises:
        RuntimeError: an argument is not accepted by `map_coordinates`.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> ndimage.shift(np.array([4.0, 1.0, 3.0, 2.0]), 1.5, order=1, cval=9)
        array([9. , 9. , 2.5, 2. ])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image = as_image(input)
    check_rank(image.shape)
    shifts = [as_numbers(value, image, "shift") for value in per_axis(shift, image.ndim, "shift")]
    result = new_output(output, image, tuple(image.shape))
    if pays_at_once(image, result, spline) and all([0 < abs(by) < math.inf for by in shifts]):
        offset = [-float(by) for by in shifts]
        return transform_diagonal(image, [1.0] * image.ndim, offset, spline, result, output is None)
    steps = zip(shifts, image.shape, strict=True)
    positions = [as_like(np.arange(n), by) - by for by, n in steps]
    return restored(sample_separably(image, positions, spline, result), input)


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
    """Resize an image, like `scipy.ndimage.zoom`.

    The output has ``round(n * zoom)`` pixels along an axis of n pixels.  Output pixel o is the
    input at

        o * (n - 1) / (outputs - 1)             grid_mode=False: corner pixels' centres stay
        (o + 1/2) * n / outputs - 1/2           grid_mode=True: their outer edges stay

    Args:
        input: an image of any rank.
        zoom: a factor, or one per axis.
        order: the order of the spline, as in `map_coordinates`.
        output, mode, cval, prefilter: as in `map_coordinates`.
        grid_mode: whether the outer edges of the corner pixels stay in place, see above.

    Returns:
        The resized image, or ``output``.

    Raises:
        RuntimeError: an argument is not accepted by `map_coordinates`.

    Example:
        >>> import numpy as np
        >>> from gridsample import ndimage
        >>> ndimage.zoom(np.array([0.0, 6.0]), 2, order=1)
        array([0., 2., 4., 6.])
    """
    spline = spline_of(order, mode, cval, prefilter)
    image = as_image(input)
    check_rank(image.shape)
    factors = per_axis(as_reals(zoom, "zoom").tolist(), image.ndim, "zoom")
    shape = tuple(round(n * factor) for n, factor in zip(image.shape, factors, strict=True))
    result = new_output(output, image, shape)
    if grid_mode and mode in ("constant", "wrap"):
        warnings.warn(
            f"It is recommended to use mode = grid-{mode} instead of {mode} when grid_mode is "
            "True.",
            stacklevel=2,
        )
    sizes = [*zip(image.shape, shape, strict=True)]
    changes_all = not grid_mode and all(n != outputs for n, outputs in sizes)
    if pays_at_once(image, result, spline) and changes_all:
        steps = [step_between_centres(*each) for each in sizes]
        return transform_diagonal(image, steps, [0.0] * image.ndim, spline, result, output is None)
    positions = [resized_positions(n, outputs, bool(grid_mode)) for n, outputs in sizes]
    return restored(sample_separably(image, positions, spline, result), input)


def pays_at_once(image: Any, output: Any, spline: Spline) -> bool:
    """Whether to sample all axes of an array at once takes less time than one after the other.

    It does for a single axis, for few taps and, as nothing is stored between the axes, for two
    axes with two taps in single precision.  An axis whose pixels are copied must not be sampled,
    which rounds, and one whose positions are not finite must not decide what others are.
    """
    rank, order = image.ndim, spline.order
    if not backend_of(image=image).is_host or not image.size or rank > 3:
        return False
    single = order == 1 and image.dtype == output.dtype == np.float32
    few = output.size * max(order + 1, 2) ** rank <= FEW_TAPS
    return few or rank == 1 or (rank == 2 and single)


def transform_diagonal(
    image: Any,
    steps: Sequence[float],
    offset: Sequence[float],
    spline: Spline,
    output: Any,
    is_new: bool,
) -> Any:
    """Sample all axes of an array at the positions steps * index + offset; see `as_channel`."""

    def sampled(pixels: Any, place: Any) -> Any:
        return transform_affine(pixels, np.diag(steps), offset, output.shape, spline, place)

    return as_channel(sampled, image, output, is_new)


class AxisSampling(NamedTuple):
    """What sampling does along one axis.

    Attributes:
        axis: the axis.
        positions: the positions that are sampled.
        span: their part of the output's axis; elsewhere, positions are outside.
        is_outside: which of the positions are outside; None if the mode extends the image.
    """

    axis: int
    positions: Any
    span: slice
    is_outside: Any

    def sample(self, values: Any, spline: Spline, out: Any = None) -> Any:
        """Sample an array of any rank along the axis, into an array ``out`` if possible."""
        source = prepared(values, (self.axis,), spline)
        return sample_axis(source, self.axis, self.positions, out, **spline.options)


def step_along(axis: int, place: Any, image: Any, spline: Spline) -> AxisSampling | None:
    """Return the step along an axis; None if every pixel is copied."""
    n, x, backend = image.shape[axis], as_real(place, image), backend_of(image=image)
    if are_own_positions(place, n) and (spline.filters or spline.order < 2):
        return None
    part, is_outside = slice(0, len(place)), None
    if spline.mode.fills:
        inside = spline.inside(x, n)
        if backend.is_host:
            part = span_inside(inside)
            x, inside = x[part], inside[part]
        is_outside = ~inside
    return AxisSampling(
        axis, spline.sampled_positions(backend.xp, x, n + 2 * spline.pad), part, is_outside
    )


def sample_separably(image: Any, positions: Sequence[Any], spline: Spline, output: Any) -> Any:
    """Sample an image of any rank at the product of separate positions along each axis.

    The result is stored in ``output``, as `store` does.
    """
    backend, shape = backend_of(image=image), tuple(len(place) for place in positions)
    if 0 in image.shape or 0 in shape:
        return store(constant(shape, spline, image), output)
    along = [step_along(axis, place, image, spline) for axis, place in enumerate(positions)]
    steps = [step for step in along if step is not None]
    if not steps:
        return store(image, output)
    if backend.is_host:
        return sample_host(image, steps, spline, output)
    values = image
    for step in steps:
        values = step.sample(values, spline)
    for step in steps:
        if step.is_outside is not None:
            along_axis = [-1 if k == step.axis else 1 for k in range(values.ndim)]
            outside = backend.full((), spline.cval, values.dtype, values)
            values = backend.xp.where(step.is_outside.reshape(along_axis), outside, values)
    return store(values, output)


def sample_host(image: Any, steps: Sequence[AxisSampling], spline: Spline, output: Any) -> Any:
    """Sample along some axes; what is between two of them is the only array as large as these.

    Pixels are read one by one along the last axis, so it takes its turn while the array is small.
    """
    steps = steps[::-1] if output.size > image.size else steps
    shared = np.may_share_memory(image, output)
    target = np.empty(output.shape, output.dtype) if shared else output
    if spline.order == 0:
        steps = copy_pixels(image, steps, spline, target)
    else:
        spans = [slice(None)] * image.ndim
        for step in steps:
            spans[step.axis] = step.span
        inner, values = target[tuple(spans)], image
        for step in steps[:-1]:
            values = sample_bands(values, step, spline, None)
        sample_bands(values, steps[-1], spline, inner)
    if any(step.is_outside is not None for step in steps):
        outside = np.empty(1, values_type(image, spline))
        outside[...] = spline.cval
        fill_outside(target, steps, store(outside, np.empty(1, target.dtype))[0])
    if shared:
        output[...] = target
    return output


def copy_pixels(
    image: Any, steps: Sequence[AxisSampling], spline: Spline, out: Any
) -> list[AxisSampling]:
    """Copy pixels along some axes, which is what sampling with order 0 does, into ``out``.

    Returns:
        The steps, which also tell where positions are outside under the mode "grid-constant".
    """
    pixels = {
        step.axis: pixels_of(step, image.shape[step.axis], out.shape[step.axis], spline)
        for step in steps
    }
    if is_resizable(image, out, pixels.values()):
        resize_by_copies(image, pixels, out)
    else:
        take_pixels(image, pixels, out)
    if spline.mode.boundary != "constant":
        return [*steps]
    return [step._replace(is_outside=pixels[step.axis][step.span] < 0) for step in steps]


def is_resizable(image: Any, out: Any, pixels: Iterable[Any]) -> bool:
    """Whether it pays to copy pixels by kernels: up to three axes, by indices that never decrease.

    Of few pixels, or of a single axis, it takes longer to prepare the tables.
    """
    known = image.dtype == out.dtype and image.dtype.kind in "biufc" and image.itemsize <= 8
    pays = out.size >= MANY_PIXELS and 1 < image.ndim <= 3
    return known and pays and all((index[1:] >= index[:-1]).all() for index in pixels)


def resize_by_copies(image: Any, pixels: Mapping[int, Any], out: Any) -> None:
    """Copy the pixels with some indices along some axes, by the kernels that resize."""
    maps = []
    for axis, n in enumerate(image.shape):
        index = pixels[axis] if axis in pixels else np.arange(n)
        index = np.clip(index, 0, n - 1).astype(np.int64)
        maps.append(copying_map(n, index.tobytes()))
    apply_matrices(maps, image[np.newaxis, np.newaxis], out[np.newaxis, np.newaxis])


@cached_by_size(CACHE_BYTES, lambda axis_map: axis_map.table.bytes)
def copying_map(n: int, index: bytes) -> AxisMap:
    """Return the map that copies some of n pixels; tables of programs are kept with it."""
    return map_of_band(copying_band(np.frombuffer(index, np.int64), n))


def take_pixels(image: Any, pixels: Mapping[int, Any], out: Any) -> None:
    """Copy the pixels with some indices along some axes of an image of any rank, by NumPy."""
    rows = pixels.get(0, np.arange(len(image)))
    for band in bands_along(out.shape, arrays.BAND):  # small enough to stay in cache
        values = image.take(rows[band], 0, mode="clip")
        for axis, index in pixels.items():
            if axis > 0:
                values = values.take(index, axis, mode="clip")
        store(values, out[band])


def pixels_of(step: AxisSampling, n: int, outputs: int, spline: Spline) -> Any:
    """Return the pixel of n that each output copies; -1 if none, under "grid-constant".

    Outputs whose positions are outside copy some pixel.
    """
    indices = np.arange(float(n))
    samples = step._replace(axis=0).sample(indices, spline._replace(cval=-1.0))
    return np.pad(samples.astype(np.intp), (step.span.start, outputs - step.span.stop), "edge")


def sample_bands(values: Any, step: AxisSampling, spline: Spline, out: Any) -> Any:
    """Sample along one axis, in bands of another, so that copies stay small.

    The result is stored in ``out``, or a new array if that is None.
    """
    shape = list(values.shape)
    shape[step.axis] = len(step.positions)
    if out is None:
        out = np.empty(shape, values_type(values, spline))
    for band in bands(shape, step.axis):
        place = out[band]
        samples = step.sample(values[band], spline, place)
        if samples is not place:
            store(samples, place)
    return out


def values_type(image: Any, spline: Spline) -> Any:
    """Return the dtype in which an array is sampled along an axis."""
    pixel = image[(slice(0, 1),) * image.ndim]
    return in_working_type(pixel, spline, False).dtype.newbyteorder("=")


def fill_outside(target: Any, steps: Sequence[AxisSampling], number: Any) -> None:
    """Write a number to all places whose positions are outside."""
    for step in steps:
        outside = np.ones(target.shape[step.axis], bool)
        outside[step.span] = step.is_outside
        if outside.any():
            target[(slice(None),) * step.axis + (outside,)] = number


def span_inside(inside: Any) -> slice:
    """Return the part of an axis that contains all positions inside the image, or one position."""
    (indices,) = np.nonzero(inside)
    return slice(indices[0], indices[-1] + 1) if len(indices) else slice(0, 1)


def are_own_positions(x: Any, n: int) -> bool:
    """Whether positions are those of the pixels, and need no derivatives."""
    return backend_of(x=x).is_host and len(x) == n and bool((x == np.arange(n)).all())


def resized_positions(n: int, outputs: int, edges: bool) -> Any:
    """Compute the positions of outputs over n pixels: between outer centres, or outer edges."""
    at = np.arange(outputs)
    if edges:
        return (at + 0.5) * (n / outputs) - 0.5 if outputs else at
    return at * step_between_centres(n, outputs)


def step_between_centres(n: int, outputs: int) -> float:
    """Return the distance of outputs over n pixels whose outermost centres stay in place."""
    return (n - 1) / (outputs - 1) if outputs > 1 else 1.0
