"""The plan of a call: its validated description, without arrays.

A plan is created from shapes, dtypes and checked options (`gridsample.definitions.options`).  It
contains no array, does not depend on a framework, and is cached.  The functions here check single
arguments; most errors are raised by them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gridsample.definitions import axis
from gridsample.definitions.caches import cached_property
from gridsample.definitions.checks import check_extent
from gridsample.definitions.footprints import Footprint
from gridsample.definitions.links import about
from gridsample.definitions.methods import ALIASES, METHODS, Method
from gridsample.definitions.sizes import as_whole

Mode = str | Method | Sequence[str | Method]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Boundary:
    """The values outside the image along one axis.

    Attributes:
        name: the name that users write.
        code: what happens to a tap outside: it is dropped (`axis.ZEROS`), clamped (`axis.BORDER`),
            mirrored (`axis.REFLECTION`) or wrapped (`axis.WRAP`).
        edge: the place of the mirror: 1 if it repeats the edge pixel, 0 if it does not, 2 if it is
            at a pixel of 0 next to the image.  None if it depends on align_corners, which is only
            the case for PyTorch's reflection.
        odd: whether the sign changes with each reflection; see `axis.fold_sign`.
        folds_position: whether nearest and linear fold the position instead of each tap's index.
            The gradient is then 0 where the position is clamped.  PyTorch's three boundaries do.
        filled: whether dropped taps have the fill value; otherwise they are 0.
    """

    name: str
    code: int
    edge: int | None = 0
    odd: bool = False
    folds_position: bool = False
    filled: bool = False

    @property
    def drops(self) -> bool:
        """Whether taps outside are dropped."""
        return self.code == axis.ZEROS

    def edge_for(self, align_corners: bool) -> int:
        """The place of the mirrors, which is `edge` resolved for a value of align_corners."""
        return int(not align_corners) if self.edge is None else self.edge

    def fold_index(self, index: Any, size: Any, align_corners: bool = False) -> Any:
        """The index of the pixel that a tap reads, or DROPPED; see `axis.fold_index`."""
        return axis.fold_index(index, size, self.code, self.edge_for(align_corners))


# The comments show three pixels to the left and to the right of an image a b c d.
BOUNDARIES = {
    boundary.name: boundary
    for boundary in (
        Boundary("zeros", axis.ZEROS, folds_position=True),  # 0 0 0 | a b c d | 0 0 0
        Boundary("constant", axis.ZEROS, filled=True),  # f f f | a b c d | f f f
        Boundary("border", axis.BORDER, folds_position=True),  # a a a | a b c d | d d d
        # The same as mirror with align_corners=True, otherwise the same as symmetric.
        Boundary("reflection", axis.REFLECTION, edge=None, folds_position=True),
        Boundary("symmetric", axis.REFLECTION, edge=1),  # c b a | a b c d | d c b
        Boundary("mirror", axis.REFLECTION, edge=0),  # d c b | a b c d | c b a
        Boundary("wrap", axis.WRAP),  # b c d | a b c d | a b c
        # -c -b -a | a b c d | -d -c -b
        Boundary("antisymmetric", axis.REFLECTION, edge=1, odd=True),
        # d -c -b | a b c d | -c -b a: the pixels at the mirrors keep their sign
        Boundary("antimirror", axis.REFLECTION, edge=0, odd=True),
        # -b -a 0 | a b c d | 0 -d -c
        Boundary("dst1", axis.REFLECTION, edge=2, odd=True),
    )
}

# The name of the boundary under which what is outside counts for nothing.  Sampling with missing
# pixels (`gridsample.ops.missing`) knows it; kernels do not.
MISSING = "missing"

# Names that other functions or libraries use, each with the remark in its error message.
FOREIGN_BOUNDARIES = {
    MISSING: (
        "is for grid_sample, affine_sample, their gradients, splat and gridsample.nn.GridSample"
    ),
    "reflect": (
        "is ambiguous: NumPy's does not repeat the edge pixel ('mirror' here), SciPy's does "
        "('symmetric'), and PyTorch's 'reflection' is one or the other, depending on align_corners"
    ),
    "grid-mirror": "is SciPy's name; here it is 'symmetric'",
    "grid-wrap": "is SciPy's name; here it is 'wrap'",
    "grid-constant": "is SciPy's name; here it is 'constant'",
    "circular": "is another name for 'wrap'",
    "periodic": "is another name for 'wrap'",
    "nearest": "is SciPy's name; here it is 'border'",
    "edge": "is NumPy's name; here it is 'border'",
    "replicate": "is OpenCV's name; here it is 'border'",
    "clamp": "is a texture unit's name; here it is 'border'",
    "zero": "is torch-interpol's name; here it is 'zeros'",
    "dct1": "is torch-interpol's name; here it is 'mirror'",
    "dct2": "is torch-interpol's name; here it is 'symmetric'",
    "dst2": "is torch-interpol's name; here it is 'antisymmetric'",
    "dft": "is torch-interpol's name; here it is 'wrap'",
    "antireflect": (
        "is ambiguous: torch-interpol's is 'antisymmetric' here; PyWavelets' mirrors about the "
        "edge pixel's value, which no boundary here does"
    ),
}

# NumPy has no bfloat16.  Its bits are stored in this dtype, or in that of a package that adds it.
BFLOAT16 = np.dtype([("bfloat16", np.uint16)])

GRID_TYPES = ("float16", "bfloat16", "float32", "float64")
# Dtypes whose values or sums need more precision than float32; they are sampled in float64.
WIDE_TYPES = ("float64", "complex128", "int32", "int64", "uint32", "uint64")
NARROW_TYPES = (
    *("bool", "int8", "int16", "uint8", "uint16"),
    *("float16", "bfloat16", "float32", "complex64"),
)
AXES = "xyz"

# The units of coordinates: -1 to 1 across the image; pixels; or pixels from the output's position.
COORDS = ("normalized", "pixel", "displacement")

# Where an image ends that is not extrapolated, by the name that users write: how far beyond its
# outermost pixel centres, in pixels.
MARGINS = {"edges": 0.5, "centers": 0.0}


class Block(NamedTuple):
    """A part of a larger output, in the order of the output's axes.

    Attributes:
        first: the index of its first point.
        whole: the shape of the whole output without N and C.
    """

    first: Shape
    whole: Shape


@dataclass(frozen=True)
class Plan:
    """One call of the operator, without its arrays.

    Attributes:
        methods: the methods, one per axis, in x, y, z order.
        boundaries: the names of the boundaries, one per axis, in x, y, z order.
        align_corners: whether -1 and 1 are the centres of the corner pixels.
        spatial: the image's spatial shape, in the array's order (z, y, x).
        image_items: N of the image.
        grid_items: N of the grid.  If N of the image or of the grid is 1, it is broadcast.
        channels: C.
        out: the grid's shape between its first and last axes.
        dtype: the dtype of the image and of the output, in native byte order.
        real: the dtype in which positions, weights and sums are computed.
        coords: the units of coordinates, one of COORDS.  A "pixel" coordinate is a position
            already.  A "displacement" is added to the index of the output point along the same
            axis, if `out` has such an axis, so output pixel (.., z, y, x) with displacement 0 is at
            position x, y, z.  Both have the slope 1, and align_corners only determines the meaning
            of "reflection".
        margin: how far the image extends beyond its outermost pixel centres, in pixels, if a
            position outside gives the fill value regardless of its taps; None if every position
            has taps.
        footprint: how the footprints of output points are sampled; None to sample points.
        block: which part of a larger output `out` is, for displacements and maps; None for all.
    """

    methods: tuple[Method, ...]
    boundaries: tuple[str, ...]
    align_corners: bool
    spatial: Shape
    image_items: int
    grid_items: int
    channels: int
    out: Shape
    dtype: np.dtype[Any]
    real: np.dtype[Any]
    coords: str = "normalized"
    margin: float | None = None
    footprint: Footprint | None = None
    block: Block | None = None

    def __hash__(self) -> int:
        """The hash, which is computed only once because plans are keys of many caches."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        sizes = (self.spatial, self.image_items, self.grid_items, self.channels, self.out)
        options = self.boundaries, self.align_corners, self.coords, self.margin, self.footprint
        return hash((self.methods, options, sizes, self.dtype, self.block))

    @property
    def items(self) -> int:
        """N of the output."""
        return self.grid_items if self.image_items == 1 else self.image_items

    @property
    def whole(self) -> Shape:
        """The shape of the output that `out` is all or a part of."""
        return self.out if self.block is None else self.block.whole

    @cached_property
    def points(self) -> int:
        """The number of points of one item."""
        return math.prod(self.out)

    @property
    def shape(self) -> Shape:
        """The shape of the output, with channels first."""
        return (self.items, self.channels, *self.out)

    @cached_property
    def nearest(self) -> bool:
        """Whether every point copies one pixel."""
        copies = all(method.taps == 1 and method.normalized for method in self.methods)
        return copies and not any(BOUNDARIES[name].odd for name in self.boundaries)

    @cached_property
    def votes(self) -> bool:
        """Whether the taps vote for the values of their pixels, which are labels."""
        return any(method.votes for method in self.methods)

    @cached_property
    def sums_to_one(self) -> bool:
        """Whether the weights of all taps sum to one.

        If they do, points whose taps are all dropped have exactly the fill value.  Under an odd
        boundary they do not, because some signs change.
        """
        odd = any(BOUNDARIES[name].odd for name in self.boundaries)
        return all(method.normalized for method in self.methods) and not odd

    @cached_property
    def prefilters(self) -> bool:
        """Whether the method of some axis needs the prefilter."""
        return any(method.prefilter > 1 for method in self.methods)

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """The place of each axis's mirrors (`Boundary.edge`), in x, y, z order."""
        return tuple(BOUNDARIES[name].edge_for(self.align_corners) for name in self.boundaries)

    @cached_property
    def folds(self) -> tuple[bool, ...]:
        """Whether each axis folds the position instead of each tap's index."""
        return tuple(
            method.folds_position and BOUNDARIES[name].folds_position
            for method, name in zip(self.methods, self.boundaries, strict=True)
        )

    @property
    def filled(self) -> bool:
        """Whether a dropped tap has the fill value; otherwise it contributes 0."""
        return any(BOUNDARIES[name].filled for name in self.boundaries)

    @property
    def extrapolate(self) -> bool:
        """Whether positions outside the image have taps."""
        return self.margin is None


def coordinates(size: int, align_corners: bool, dtype: Any = np.float64) -> Any:
    """Compute the coordinates of an axis's pixel centres, from the first to the last.

    With align_corners, they range from -1 to 1; otherwise from -1 + 1/size to 1 - 1/size.  A single
    pixel is at 0.

    Example:
        >>> from gridsample.definitions.plan import coordinates
        >>> coordinates(3, align_corners=True), coordinates(4, align_corners=False)
        (array([-1.,  0.,  1.]), array([-0.75, -0.25,  0.25,  0.75]))
    """
    index = np.arange(size, dtype=np.float64)
    if align_corners:
        steps = (2 * index - (size - 1)) / max(size - 1, 1)
    else:
        steps = (2 * index + (1 - size)) / max(size, 1)
    return steps.astype(dtype)


def per_axis(value: Any, rank: int, name: str) -> tuple[Any, ...]:
    """Expand an option to one entry per axis, in x, y, z order.

    An entry is a name.  If ``name`` is "mode", it may also be a `Method`.
    """
    types, expected = ((str, Method), "string or a Method") if name == "mode" else (str, "string")
    if isinstance(value, types):
        return (value,) * rank
    if not isinstance(value, (tuple, list)) or not all(isinstance(entry, types) for entry in value):
        raise TypeError(
            f"{name} must be a {expected}, or a tuple with one per axis (x, y, z), got {value!r}"
        )
    if len(value) != rank:
        raise ValueError(
            f"{name} needs one entry per axis of the image: {rank} ({', '.join(AXES[:rank])}), "
            f"got {len(value)}: {tuple(value)!r}"
        )
    return tuple(value)


def listed(mode: Mode) -> Sequence[Any]:
    """Return a single name or method as a list, and several unchanged."""
    return [mode] if isinstance(mode, (str, Method)) else mode


def unknown(name: str, name_given: str, accepted: Sequence[str], remark: str = "") -> ValueError:
    """Create the error for an unknown name; it suggests the most similar accepted name."""
    import difflib  # which only errors need

    close = difflib.get_close_matches(name_given.lower(), accepted, n=1)
    hint = f"; did you mean {close[0]!r}?" if close and not remark else ""
    end = f"{', '.join(map(repr, accepted))}{hint}{about(name)}"
    return ValueError(f"{name} {name_given!r} {remark or 'is not known'}; accepted: {end}")


def find_method(name: str | Method, resizing: bool = False) -> Method:
    """Find the method of a name or alias; a `Method` is returned unchanged.

    Args:
        name: a name, an alias or a method.
        resizing: whether to also accept methods that only resize.

    Raises:
        ValueError: there is no method of that name, or it only resizes.
    """
    method = name if isinstance(name, Method) else METHODS.get(ALIASES.get(name, name))
    if method is not None and (resizing or method.samples):
        return method
    method_name = method.name if method else str(name)
    accepted = [known for known in METHODS if resizing or METHODS[known].samples]
    remark = f"only resizes, in {RESIZERS}" if method else ""
    raise unknown("mode", method_name, [*accepted, *ALIASES], remark)


# The functions that accept every method, for messages.
RESIZERS = "interpolate, gridsample.nn's Upsample and Downsample and 'gridsample resize'"


def check_boundary(name: str, argument: str = "padding_mode") -> str:
    """Return the name of a boundary, or raise an error if it is unknown."""
    if name not in BOUNDARIES:
        raise unknown(argument, name, list(BOUNDARIES), FOREIGN_BOUNDARIES.get(name, ""))
    return name


def check_boundaries(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of all axes' boundaries, or raise an error if they cannot be combined."""
    names = tuple([check_boundary(name) for name in names])
    if "zeros" in names and "constant" in names:
        raise ValueError(
            f"padding_mode {names!r} mixes 'zeros' and 'constant', which is ambiguous at a "
            "corner outside along both axes; accepted: 'constant' instead of 'zeros', with the "
            "fill value 0, or only one of them together with other boundaries"
        )
    return names


def find_coords(coords: Any) -> str:
    """Return the units of coordinates, or raise an error if the name is unknown."""
    if not isinstance(coords, str):
        raise TypeError(f"coords must be one of {', '.join(map(repr, COORDS))}, got {coords!r}")
    if coords not in COORDS:
        raise unknown("coords", coords, COORDS)
    return coords


def check_coords(coords: Any, rank: int, out: Shape) -> str:
    """Return the units of coordinates, or raise an error if they do not match the grid's shape."""
    if find_coords(coords) == "displacement" and len(out) != rank:
        raise ValueError(
            f"coords 'displacement' is relative to the output's own position, so the grid must "
            "have as many axes as the image between its first and last: "
            f"{rank}, got {len(out)}: {out}{about('displacement')}"
        )
    return str(coords)


def check_flag(value: Any, name: str) -> bool:
    """Return a flag as a bool, or raise an error; None means False, as in PyTorch."""
    if type(value) is bool:
        return value  # quickly
    if value is None or isinstance(value, np.bool_):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {value!r}")


def find_end(extrapolate: Any, coords: str, align_corners: bool) -> str | None:
    """Return the name of the place where an image ends; None if it is extrapolated.

    False means the outer edges if these are the coordinates -1 and 1, otherwise the centres.
    """
    if isinstance(extrapolate, str):
        if extrapolate not in MARGINS:
            raise unknown(
                "extrapolate", extrapolate, [*MARGINS], "is neither True, False nor a name"
            )
        return extrapolate
    if not isinstance(extrapolate, (bool, np.bool_)):
        names = ", ".join(map(repr, MARGINS))
        raise TypeError(f"extrapolate must be True, False or one of {names}, got {extrapolate!r}")
    if extrapolate:
        return None
    return "edges" if coords == "normalized" and not align_corners else "centers"


@functools.cache
def type_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype, regardless of its byte order."""
    return "bfloat16" if dtype == BFLOAT16 else dtype.name


def is_differentiable(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is floating-point or complex."""
    return dtype.kind in "fc" or type_name(dtype) == "bfloat16"


def check_image_type(dtype: np.dtype[Any]) -> None:
    """Raise an error for an image dtype that is not supported."""
    if type_name(dtype) not in WIDE_TYPES + NARROW_TYPES:
        raise TypeError(
            f"input has dtype {dtype}; accepted: bool, int8 to int64, uint8 to uint64, "
            "float16, float32, float64, complex64, complex128"
        )


def check_grid_type(dtype: np.dtype[Any]) -> None:
    """Raise an error for a grid dtype that is not supported."""
    if type_name(dtype) not in GRID_TYPES:
        raise TypeError(
            f"grid has dtype {dtype}; accepted: {', '.join(GRID_TYPES)}, and integers with "
            f"coords='pixel'{about('coords')}"
        )


def grid_type(dtype: np.dtype[Any], coords: Any) -> np.dtype[Any]:
    """The dtype to which a grid is converted; coordinates in pixels may be integers.

    8- and 16-bit integers become float32, which represents them exactly; others become float64.
    """
    if dtype.kind in "iu" and coords == "pixel":
        return np.dtype(np.float64 if type_name(dtype) in WIDE_TYPES else np.float32)
    return dtype


def check_grid_gradient(dtype: Any, is_integer: bool) -> None:
    """Raise an error if the gradient of an integer grid is requested."""
    if is_integer:
        raise TypeError(
            f"grid has dtype {dtype}, which has no gradient; "
            "pass need_grid=False to get only the input's gradient"
        )


def channels_last(channel_axis: Any, dimensions: int) -> bool:
    """Whether channels are the last axis; otherwise they are the second."""
    if isinstance(channel_axis, (int, np.integer)) and not isinstance(channel_axis, bool):
        if channel_axis in (1, 1 - dimensions):
            return False
        if channel_axis in (-1, dimensions - 1):
            return True
    raise ValueError(
        f"channel_axis must be 1 (N, C, *spatial) or -1 (N, *spatial, C), got {channel_axis!r}"
    )


def check_shapes(image: Shape, grid: Shape, last: bool) -> int:
    """Return the spatial rank, or raise an error if the shapes do not match."""
    layout = "(N, *spatial, C)" if last else "(N, C, *spatial)"
    unbatched = image_hint(image, grid)
    if not 3 <= len(image) <= 5:
        raise ValueError(
            f"input must have 3 to 5 dimensions, {layout} with 1 to 3 spatial axes, "
            f"got {len(image)} in shape {image}{unbatched}"
        )
    rank = len(image) - 2
    if len(grid) < 2 or grid[-1] != rank:
        if unbatched:
            raise ValueError(f"input must be {layout}, got shape {image}{unbatched}")
        second = len(grid) == rank + 2 and grid[1] == rank
        hint = "; its components come second: pass grid.movedim(1, -1)" if second else ""
        hint += ", or np.moveaxis(grid, 1, -1) for an array" if second else ""
        raise ValueError(
            f"grid must be (N, *out, {rank}) for an input with {rank} spatial "
            f"{'axis' if rank == 1 else 'axes'}: its last axis holds {', '.join(AXES[:rank])}; "
            f"got grid shape {grid} for input shape {image}{hint}{about('grid')}"
        )
    if image[0] != grid[0] and 1 not in (image[0], grid[0]):
        raise ValueError(
            f"input and grid must have the same N, or one of them N = 1, "
            f"got N = {image[0]} in input shape {image} and N = {grid[0]} in grid shape {grid}"
        )
    spatial = image[1:-1] if last else image[2:]
    if 0 in spatial:
        raise ValueError(
            f"input has an empty spatial axis: shape {image}, {layout}; there is nothing to sample"
        )
    return rank


def image_hint(image: Shape, grid: Shape) -> str:
    """Say how to pass an image without a batch that is meant by a grid of points (x, y)."""
    if not grid or grid[-1] != 2:
        return ""
    if len(image) == 2:
        return "; an image (H, W) is given as input[None, None]"
    if len(image) == 3 and image[-1] <= 4 < min(image[:2]):
        return "; a colour image (H, W, C) is given as input[None], with channel_axis=-1"
    if len(image) == 3 and image[0] <= 4 < min(image[1:]):
        return "; an image (C, H, W) is given as input[None]"
    return ""


def check_size(size: Any, grid: Shape) -> Shape:
    """Return the spatial shape to splat to, or raise an error if it does not match the grid."""
    try:
        is_number = hasattr(size, "__index__") and not getattr(size, "ndim", 0)
        sizes = (size,) if is_number else size
        spatial = tuple([as_whole(n) for n in sizes])
    except TypeError:
        raise TypeError(f"size must be a tuple of integers, *spatial, got {size!r}") from None
    if not 1 <= len(spatial) <= 3 or min(spatial) < 1:
        raise ValueError(f"size must hold 1 to 3 positive numbers, *spatial, got {size!r}")
    check_extent("the result", spatial, 1)
    if len(grid) < 2 or grid[-1] != len(spatial):
        axes = ", ".join(AXES[: len(spatial)])
        raise ValueError(
            f"grid must be (N, *out, {len(spatial)}) for size {spatial}: its last axis holds "
            f"{axes}; got grid shape {grid}"
        )
    return spatial


def check_values(values: Shape, grid: Shape, last: bool) -> int:
    """Return N of the result, or raise an error if the values do not match the grid's points."""
    out, layout = grid[1:-1], "(N, *out, C)" if last else "(N, C, *out)"
    points = values[1:-1] if last else values[2:]
    if len(values) < 2 or points != out:
        raise ValueError(
            f"values must be {layout} for a grid (N, *out, D) of shape {grid}, got shape {values}"
        )
    if values[0] != grid[0] and 1 not in (values[0], grid[0]):
        raise ValueError(
            f"values and grid must have the same N, or one of them N = 1, got N = "
            f"{values[0]} in values shape {values} and N = {grid[0]} in grid shape {grid}"
        )
    return grid[0] if values[0] == 1 else values[0]


def hashable(value: Mode) -> Mode:
    """Make an option a key of a cache: convert a list to a tuple, and reject unhashable values."""
    value = tuple(value) if isinstance(value, list) else value
    try:
        hash(value)
    except TypeError:
        raise TypeError(f"expected a string or a tuple of strings, got {value!r}") from None
    return value


def check_threads(threads: Any) -> None:
    """Raise an error unless ``threads`` is a positive integer or None."""
    if threads is None:
        return
    if not isinstance(threads, (int, np.integer)) or isinstance(threads, bool):
        raise TypeError(f"threads must be a positive integer or None, got {threads!r}")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, or None for every core, got {threads}")
