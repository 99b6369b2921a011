"""Windows of the correlation of two feature maps, which is never computed as a whole."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gridsample.backends import Backend, overridable
from gridsample.definitions.arrays import ArrayT
from gridsample.definitions.checks import check_flag, check_threads
from gridsample.definitions.operators import (
    LookupOptions,
    Operator,
    check_types,
    correlation_scale,
    declare,
)
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import Shape, check_whole
from gridsample.operators.sums import arrays_of, planes_of, wide
from gridsample.ops.arrays import Array, as_type_of, check_upstream
from gridsample.ops.sampling import sample, sample_vjp

Maybe = Array | None
# The most axes of windows.
MAX_AXES = 3


@overridable(arrays=3)
def correlation_lookup(
    f1: ArrayT,
    f2: ArrayT,
    positions: ArrayT,
    radius: int = 4,
    levels: int = 4,
    *,
    threads: int | None = None,
) -> ArrayT:
    """Look up the correlation of two feature maps in windows around positions, at several scales.

    It is what networks for optical flow and stereo, such as RAFT, compute in each iteration.  The
    correlation of a pixel of ``f1`` with all pixels of level l of ``f2`` is an image,

        correlation_l(y) = sum over c of f1[c] * f2_l[c](y) / sqrt(C)

    where level 0 is ``f2``, and each further level has the means of two pixels along each axis of
    the level before; the last pixel of an odd size is left out.  The result is a window of bilinear
    samples of this image, with zeros outside, around the pixel's position x:

        result[l, k] = correlation_l(x / 2**l + offset[k]),  offsets from -radius to radius

    with k from 0 to K**D - 1, K = 2 * radius + 1; the x of offsets changes slowest, as in RAFT.  On
    the CPU and for CUDA tensors, the correlation of all pairs of pixels is not computed: only the
    dot products of the pixels in the windows are, from copies of the features and of their levels.

    The source is Z. Teed, J. Deng, "RAFT", 2020, section 3.2.

    Args:
        f1: the features of the pixels that look up, (N, C, *size1) with one to three spatial axes;
            any floating-point dtype.
        f2: the features in which they look, (N, C, *size2).
        positions: the position in ``f2`` for each pixel of ``f1``, (N, D, *size1): x, y, z in
            pixels.  If D is less than the number of spatial axes, the windows extend along the last
            D axes, and the sizes along the others are equal: with D = 1, each row of ``f1`` looks
            in the same row of ``f2``, as in stereo.
        radius: how many pixels the windows extend from their centres, each way; at least 0.
        levels: the number of levels L, at least 1.
        threads: the maximum number of threads; None for the default.

    Returns:
        (N, L * K**D, *size1), in the dtype of ``f1``; a view whose channels are contiguous.  Half
        precision is summed in float32.  A window around a position with a NaN is NaN, and has no
        gradient.  Results of tensors and JAX arrays have derivatives of any order.

    Raises:
        TypeError: an array is not floating-point, or an option is not an integer.
        ValueError: shapes do not match, an option is out of range, or a level has no pixel.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import correlation_lookup
        >>> f1, f2 = np.full((1, 1, 1), 2.0), np.array([[[1.0, 2.0, 4.0, 8.0]]])
        >>> correlation_lookup(f1, f2, np.full((1, 1, 1), 1.5), radius=1, levels=2).ravel()
        array([ 3.  ,  6.  , 12.  ,  2.25,  9.75,  3.  ])
    """
    backend, given = arrays_of({"f1": f1, "f2": f2, "positions": positions})
    first, second, places = given
    axes = window_axes(backend.shape(places))
    block = CorrelationBlock(first, second, levels, radius, axes=axes, threads=threads)
    return backend.restore(block(places), f1)


@overridable(arrays=4)
def correlation_lookup_vjp(
    grad_output: ArrayT,
    f1: ArrayT,
    f2: ArrayT,
    positions: ArrayT,
    radius: int = 4,
    levels: int = 4,
    *,
    need_f1: bool = True,
    need_f2: bool = True,
    need_positions: bool = True,
    threads: int | None = None,
) -> tuple[Any, ...]:
    """Compute the gradients of `correlation_lookup` in one sweep.

    Args:
        grad_output: the upstream gradient, (N, L * K**D, *size1).
        f1, f2, positions, radius, levels: as in `correlation_lookup`.
        need_f1: whether the gradient of ``f1`` is needed.
        need_f2: whether that of ``f2`` is.
        need_positions: whether that of the positions is.
        threads: the maximum number of threads; None for the default.

    Returns:
        The gradients of ``f1``, ``f2`` and the positions, in their shapes and dtypes; None in place
        of those that are not needed.  A window around a position with a NaN adds nothing to them.

    Raises:
        TypeError: an array is not floating-point, or an option has the wrong type.
        ValueError: shapes do not match, an option is out of range, or a level has no pixel.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import correlation_lookup_vjp
        >>> f1, f2 = np.full((1, 1, 1), 2.0), np.array([[[1.0, 2.0, 4.0, 8.0]]])
        >>> position = np.full((1, 1, 1), 1.5)
        >>> gradients = correlation_lookup_vjp(np.ones((1, 1, 1)), f1, f2, position, 0, 1)
        >>> [gradient.ravel().tolist() for gradient in gradients]
        [[3.0], [0.0, 1.0, 1.0, 0.0], [4.0]]
    """
    arrays = {"grad_output": grad_output, "f1": f1, "f2": f2, "positions": positions}
    backend, (upstream, first, second, places) = arrays_of(arrays)
    flags = {"need_f1": need_f1, "need_f2": need_f2, "need_positions": need_positions}
    needed = tuple([check_flag(flag, name) for name, flag in flags.items()])
    axes = window_axes(backend.shape(places))
    block = CorrelationBlock(first, second, levels, radius, axes=axes, threads=threads)
    gradients = block.gradients(upstream, places, needed)
    return tuple([backend.restore(gradient, f1) for gradient in gradients])


def window_axes(shape: Shape) -> int:
    """Return along how many axes windows extend, given the shape of positions."""
    if len(shape) < 3 or not 1 <= shape[1] <= MAX_AXES:
        raise ValueError(
            f"positions must be (N, D, *size1) with 1 to {MAX_AXES} coordinates D, got "
            f"shape {shape}"
        )
    return shape[1]


class CorrelationBlock:
    """`correlation_lookup` for several lookups in the same feature maps.

    The levels are computed once, and the features copied once to where their channels are
    contiguous.  It is called as the ``CorrBlock`` of RAFT's source is.

    Args:
        f1: the features of the pixels that look up, (N, C, *size1).
        f2: the features in which they look, (N, C, *size2).
        levels: the number of levels, at least 1.
        radius: how many pixels the windows extend from their centres, each way; at least 0.
        axes: the number of axes D along which windows extend, the last ones; all by default.
        threads: the maximum number of threads; None for the default.

    Raises:
        TypeError: an array is not floating-point, or an option is not an integer.
        ValueError: shapes do not match, an option is out of range, or a level has no pixel.

    Example:
        >>> import numpy as np
        >>> from gridsample.operators import CorrelationBlock
        >>> rng = np.random.default_rng(0)
        >>> block = CorrelationBlock(*rng.standard_normal((2, 1, 8, 12, 16)), levels=2, radius=3)
        >>> positions = rng.uniform(0, 10, (1, 2, 12, 16))
        >>> [block(positions + step).shape for step in range(2)]
        [(1, 98, 12, 16), (1, 98, 12, 16)]
    """

    def __init__(
        self,
        f1: Any,
        f2: Any,
        levels: int = 4,
        radius: int = 4,
        *,
        axes: int | None = None,
        threads: int | None = None,
    ) -> None:
        """Compute the levels."""
        check_threads(threads)
        self.like = f1
        self.backend, (first, second) = arrays_of({"f1": f1, "f2": f2})
        types = {"f1": first, "f2": second}
        check_types(**{k: self.backend.type_name(a.dtype, k) for k, a in types.items()})
        shape, other = self.backend.shape(first), self.backend.shape(second)
        rank = len(shape) - 2
        if rank < 1 or len(other) != len(shape):
            raise ValueError(
                "f1 and f2 must be (N, C, *spatial) with as many spatial axes, at least one; got "
                f"shapes {shape} and {other}"
            )
        axes, radius, levels = (
            check_whole(number, name, least)
            for number, name, least in (
                (rank if axes is None else axes, "axes", 1),
                (radius, "radius", 0),
                (levels, "levels", 1),
            )
        )
        if rank < axes or axes > MAX_AXES:
            raise ValueError(
                f"f1 and f2 must be (N, C, *spatial) with at least {axes} spatial axes, and "
                f"windows extend along 1 to {MAX_AXES}; got shapes {shape} and {other}"
            )
        if shape[:-axes] != other[:-axes]:
            raise ValueError(
                f"f1 and f2 must be equal in all sizes but those of the last {axes} axes, got "
                f"shapes {shape} and {other}"
            )
        size = other[-axes:]
        if min(size) >> (levels - 1) < 1:
            raise ValueError(
                f"f2 has {' x '.join(map(str, size))} pixels, too few for {levels} levels"
            )
        self.shape, self.other, self.axes = shape, other, axes
        self.source = listed(self.backend, [self.pixels(first)])
        pyramid = levels_of(self.backend, self.pixels(second), levels)
        self.images = listed(self.backend, pyramid)
        sizes = [n >> level for level in range(levels) for n in size]
        self.options = LookupOptions(tuple(sizes), axes, radius, threads)

    def pixels(self, array: Array) -> Array:
        """Return an array (N, C, *spatial) as (M, *size, C): channels last, M items of windows."""
        rank, axes = len(self.shape) - 2, self.axes
        moved = self.backend.permute(array, (0, *range(2, rank + 2), 1))
        size = self.backend.shape(moved)[-axes - 1 :]
        return self.backend.xp.reshape(moved, (self.items(), *size))

    def items(self) -> int:
        """Return the number of items of windows: N, times the sizes without windows."""
        count: int = self.shape[0] * math.prod(self.shape[2 : -self.axes])
        return count

    def places(self, positions: Array) -> Array:
        """Check positions (N, D, *size1), and return them as (M, Q, D)."""
        check_types(positions=self.backend.type_name(positions.dtype, "positions"))
        expected = self.shape[0], self.axes, *self.shape[2:]
        if self.backend.shape(positions) != expected:
            raise ValueError(
                f"positions must have the shape {expected} of {self.axes} coordinates for each "
                f"pixel of f1, got {self.backend.shape(positions)}"
            )
        return listed(self.backend, [self.pixels(positions)])

    def __call__(self, positions: Any) -> Any:
        """Look up windows around positions (N, D, *size1): (N, L * K**D, *size1)."""
        backend = self.backend
        (places,) = backend.to_device(positions=positions)
        arrays = [self.source, self.images, self.places(places)]
        result = backend.fused(LOOKUP, arrays, self.options)
        return backend.restore(
            planes_of(backend, result, (self.shape[0], *self.shape[2:])), self.like
        )

    def gradients(
        self, upstream: Array, positions: Array, needed: tuple[bool, ...]
    ) -> tuple[Maybe, ...]:
        """Compute the needed gradients of ``f1``, ``f2`` and the positions of a lookup."""
        backend, (items, _, *size) = self.backend, self.shape
        arrays = [self.source, self.images, self.places(positions)]
        shape = items, self.options.lengths()["w"], *size
        upstream = check_upstream(backend, upstream, self.source, shape)
        values = listed(backend, [self.pixels(upstream)])
        gradients = backend.fused_vjp(LOOKUP, values, arrays, self.options, needed)
        source, images, points = gradients
        if images is not None:
            images = gradient_of_levels(backend, images, self.options.levels())
        sizes = size, self.other[2:], size
        pairs = zip((source, images, points), sizes, strict=True)
        return tuple(
            [None if a is None else planes_of(backend, a, (items, *size)) for a, size in pairs]
        )


def levels_of(backend: Backend, image: Array, count: int) -> list[Array]:
    """Return an image (M, *size, C) and its halved levels, in its dtype."""
    (level,) = wide(backend, [image])
    levels = [image]
    for _ in range(count - 1):
        for axis in range(1, len(image.shape) - 1):
            before = (slice(None),) * axis
            end = level.shape[axis] // 2 * 2
            first, second = (level[(*before, slice(k, end, 2))] for k in range(2))
            level = (first + second) * 0.5
        levels.append(backend.astype(level, image.dtype))
    return levels


def gradient_of_levels(backend: Backend, gradient: Array, sizes: Sequence[Shape]) -> Array:
    """Return the gradient of an image, (M, *size, C), given that of all its levels, (M, S, C).

    It is the transpose of `levels_of` and `listed`.
    """
    xp, (items, _, channels) = backend.xp, gradient.shape
    (pixels,) = wide(backend, [gradient])
    total: Maybe = None
    end = pixels.shape[1]
    for size in reversed(sizes):
        begin = end - math.prod(size)
        level = xp.reshape(pixels[:, begin:end], (items, *size, channels))
        total = level if total is None else level + doubled(backend, total, size)
        end = begin
    return backend.astype(total, gradient.dtype)


def doubled(backend: Backend, level: Array, size: Shape) -> Array:
    """Spread the pixels of a level (M, *halves, C) to the pixels of which they are means."""
    for axis, n in enumerate(size, 1):
        half = level * 0.5
        shape = list(level.shape)
        both = backend.xp.stack([half, half], axis + 1)
        shape[axis] *= 2
        level = backend.xp.reshape(both, tuple(shape))
        if n % 2:  # the last pixel is in no mean
            shape[axis] = 1
            last = backend.full(tuple(shape), 0, level.dtype, level)
            level = backend.concatenate([level, last], axis)
    return level


def listed(backend: Backend, levels: Sequence[Array]) -> Array:
    """Return the pixels of all levels, (M, *size, C), one after the other: (M, S, C)."""
    xp = backend.xp
    pixels = [
        xp.reshape(level, (level.shape[0], math.prod(level.shape[1:-1]), level.shape[-1]))
        for level in levels
    ]
    return backend.concatenate(pixels, 1)  # also of one level, so that its channels are contiguous


# The composition ----------------------------------------------------------------------------------


class CorrelationLevel(NamedTuple):
    """The correlation of all queries with a level, and where it is sampled.

    Attributes:
        pixels: the pixels of the level in the images.
        image: these pixels, (M, S, C).
        correlation: (M * Q, 1, *size).
        grid: (M * Q, *window, D) in pixels.
        shrink: the pixels of the level for each pixel of the first one, along an axis.
    """

    pixels: slice
    image: Array
    correlation: Array
    grid: Array
    shrink: float


REQUEST = Request("bilinear", "zeros", coords="pixel")


def each_level(
    backend: Backend, arrays: Sequence[Array], options: LookupOptions
) -> Iterator[CorrelationLevel]:
    """Yield each level."""
    source, images, positions = arrays
    xp, rank, begin = backend.xp, options.rank, 0
    count, side = source.shape[0] * source.shape[1], 2 * options.radius + 1
    window = (count, *(side,) * rank)
    offsets = backend.line(side, None, positions.dtype, positions) - options.radius
    for number, size in enumerate(options.levels()):
        pixels, shrink = slice(begin, begin + math.prod(size)), 0.5**number
        image = images[:, pixels]
        correlation = xp.matmul(source, backend.permute(image, (0, 2, 1)))
        columns = []
        for axis in range(rank):
            centre = xp.reshape(positions[..., axis], (count, *(1,) * rank)) * shrink
            along = [side if other == axis else 1 for other in range(rank)]
            columns.append(xp.broadcast_to(centre + xp.reshape(offsets, (1, *along)), window))
        correlation = xp.reshape(correlation, (count, 1, *size))
        yield CorrelationLevel(pixels, image, correlation, xp.stack(columns, -1), shrink)
        begin = pixels.stop


def composed(backend: Backend, arrays: Sequence[Array], options: LookupOptions) -> Array:
    """Compute the result by sampling the correlation of all pairs of pixels."""
    request, parts = REQUEST._replace(threads=options.threads), []
    items, queries, channels = arrays[0].shape
    for level in each_level(backend, wide(backend, arrays), options):
        inputs = {"input": level.correlation, "grid": level.grid}
        samples = sample(backend, inputs, request, None)
        parts.append(backend.xp.reshape(samples, (items, queries, options.window())))
    result = backend.concatenate(parts, -1) * correlation_scale(channels)
    return backend.astype(result, arrays[0].dtype)


def composed_vjp(
    backend: Backend,
    upstream: Array,
    arrays: Sequence[Array],
    options: LookupOptions,
    needed: Sequence[bool],
) -> Sequence[Maybe]:
    """Compute the needed gradients by sampling the correlation of all pairs of pixels."""
    xp, request = backend.xp, REQUEST._replace(threads=options.threads)
    sources = wide(backend, arrays)
    (items, queries, channels), rank = arrays[0].shape, options.rank
    values = backend.astype(upstream, sources[0].dtype) * correlation_scale(channels)
    window, side = options.window(), 2 * options.radius + 1
    by_source: Maybe = None
    by_positions: Maybe = None
    by_images = []
    for number, level in enumerate(each_level(backend, sources, options)):
        part = values[..., number * window : (number + 1) * window]
        part = xp.reshape(part, (items * queries, 1, *(side,) * rank))
        inputs = {"grad_output": part, "input": level.correlation, "grid": level.grid}
        flags = {"need_input": needed[0] or needed[1], "need_grid": needed[2]}
        by_pixels, by_grid = sample_vjp(inputs, request, None, flags)
        if by_pixels is not None:
            by_pixels = xp.reshape(by_pixels, (items, queries, level.image.shape[1]))
        if needed[0]:
            by_source = plus(by_source, xp.matmul(by_pixels, level.image))
        if needed[1]:
            by_images.append(xp.matmul(backend.permute(by_pixels, (0, 2, 1)), sources[0]))
        if needed[2]:
            by_points = xp.reshape(by_grid, (items, queries, window, rank))
            by_positions = plus(by_positions, xp.sum(by_points, 2) * level.shrink)
    joined = backend.concatenate(by_images, 1) if needed[1] else None
    gradients = by_source, joined, by_positions
    return [as_type_of(backend, a, like) for a, like in zip(gradients, arrays, strict=True)]


def plus(total: Maybe, summand: Array) -> Array:
    """Return a sum, which may begin with nothing."""
    return summand if total is None else total + summand


LOOKUP = declare(
    Operator(
        name="correlation_lookup",
        arrays={"source": "n q c", "images": "n s c", "positions": "n q d"},
        result="n q w",
        sums=("images",),
        whole=("c", "s", "d", "w"),
        options=LookupOptions,
        is_fused=lambda options: True,
        composed=composed,
        composed_vjp=composed_vjp,
        lengths=LookupOptions.lengths,
    )
)
