"""What a call is to do, worked out before any number is touched.

A plan is made from shapes, types and options alone: it holds no array, knows no framework, and is
cached, so that the same call twice is validated once.  Every error that the arguments can cause is
raised here.
"""

from __future__ import annotations

import difflib
import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsample.definitions import axis
from gridsample.definitions.methods import ALIASES, METHODS, Method

Mode = str | Method | Sequence[str | Method]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Boundary:
    """What is outside the image along one axis.

    Attributes:
        name: the name that users write.
        code: what becomes of a tap outside: it is dropped (`axis.ZEROS`), clamped (`axis.BORDER`),
            mirrored (`axis.REFLECTION`) or wrapped round (`axis.WRAP`).
        edge: 1 where the mirror doubles the edge pixel, 0 where it does not, 2 where it stands on a
            pixel of 0 beside the image, and None where align_corners tells, which is PyTorch's
            reflection alone.
        odd: each image of the image has the opposite sign of the one before: `axis.fold_sign`.
        folds_position: nearest and linear fold the position, with the gradient 0 where it is
            clamped, rather than each tap's index.  So do PyTorch's three boundaries.
        filled: dropped taps count with the call's fill value, rather than as 0.
    """

    name: str
    code: int
    edge: int | None = 0
    odd: bool = False
    folds_position: bool = False
    filled: bool = False

    def edge_for(self, align_corners: bool) -> int:
        """Where the mirrors stand, `edge` with align_corners known."""
        return int(not align_corners) if self.edge is None else self.edge


# Beside each, three pixels to the left and to the right of an image a b c d.
BOUNDARIES = {
    boundary.name: boundary
    for boundary in (
        Boundary("zeros", axis.ZEROS, folds_position=True),  # 0 0 0 | a b c d | 0 0 0
        Boundary("constant", axis.ZEROS, filled=True),  # f f f | a b c d | f f f
        Boundary("border", axis.BORDER, folds_position=True),  # a a a | a b c d | d d d
        # As mirror if align_corners, else as symmetric.
        Boundary("reflection", axis.REFLECTION, edge=None, folds_position=True),
        Boundary("symmetric", axis.REFLECTION, edge=1),  # c b a | a b c d | d c b
        Boundary("mirror", axis.REFLECTION, edge=0),  # d c b | a b c d | c b a
        Boundary("wrap", axis.WRAP),  # b c d | a b c d | a b c
        # -c -b -a | a b c d | -d -c -b
        Boundary("antisymmetric", axis.REFLECTION, edge=1, odd=True),
        # d -c -b | a b c d | -c -b a: what a mirror stands on keeps its sign
        Boundary("antimirror", axis.REFLECTION, edge=0, odd=True),
        # -b -a 0 | a b c d | 0 -d -c
        Boundary("dst1", axis.REFLECTION, edge=2, odd=True),
    )
}

# Spellings that other libraries use: what to say instead, and why it is not taken as it is.
FOREIGN_BOUNDARIES = {
    "reflect": (
        "is ambiguous: NumPy's does not repeat the edge pixel ('mirror' here), SciPy's does "
        "('symmetric'), and PyTorch's 'reflection' is the one or the other by align_corners"
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

# NumPy has no bfloat16: its 16 bits go by this name, or by that of a package that adds the type.
BFLOAT16 = np.dtype([("bfloat16", np.uint16)])

GRID_TYPES = ("float16", "bfloat16", "float32", "float64")
# Types whose numbers, or sums of them, float32 does not hold: sampled in float64.
WIDE_TYPES = ("float64", "complex128", "int32", "int64", "uint32", "uint64")
NARROW_TYPES = (
    *("bool", "int8", "int16", "uint8", "uint16"),
    *("float16", "bfloat16", "float32", "complex64"),
)
AXES = "xyz"

# What a coordinate counts: -1 to 1 across the image; pixels; or pixels from the output's own place.
COORDS = ("normalized", "pixel", "displacement")


@dataclass(frozen=True)
class Plan:
    """One call of the operator, without its arrays.

    Attributes:
        methods: how taps are weighed, one method an axis, in x, y, z order.
        boundaries: what is outside, one name an axis, in x, y, z order.
        align_corners: whether -1 and 1 are the centres of the corner pixels.
        spatial: the image's spatial shape, in the array's order (z, y, x).
        image_items: N of the image.
        grid_items: N of the grid; where one of the two is 1, it is broadcast.
        channels: C.
        out: the grid's shape between its first and last axes.
        dtype: the image's type, which is the output's (in native byte order).
        real: the type that positions, weights and sums are computed in.
        coords: what a coordinate counts, one of COORDS.  A "pixel" is a position already; to a
            "displacement" the index of the output point along the same axis is added, as far as
            `out` has one: output pixel (.., z, y, x) of displacement 0 is at position x, y, z.
            Both have the slope 1, and align_corners is only what "reflection" goes by.
        extrapolate: False if a position outside the image gives the fill value, whatever its taps
            are; outside is what lies `rim` beyond the outermost pixel centres.
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
    extrapolate: bool = True

    def __hash__(self) -> int:
        """Worked out once: plans are what much is cached by."""
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        sizes = (self.spatial, self.image_items, self.grid_items, self.channels, self.out)
        how = (self.boundaries, self.align_corners, self.coords, self.extrapolate)
        return hash((self.methods, how, sizes, self.dtype))

    @property
    def items(self) -> int:
        """N of the output."""
        return self.grid_items if self.image_items == 1 else self.image_items

    @functools.cached_property
    def points(self) -> int:
        """Number of points of one item."""
        return math.prod(self.out)

    @property
    def shape(self) -> Shape:
        """Shape of the output, channels first."""
        return (self.items, self.channels, *self.out)

    @functools.cached_property
    def nearest(self) -> bool:
        """Whether every point copies one pixel."""
        copies = all(method.taps == 1 and method.normalized for method in self.methods)
        return copies and not any(BOUNDARIES[name].odd for name in self.boundaries)

    @functools.cached_property
    def sums_to_one(self) -> bool:
        """Whether the weights of all taps sum to one: then a fill is the same everywhere outside.

        An odd boundary turns the sign of some.
        """
        odd = any(BOUNDARIES[name].odd for name in self.boundaries)
        return all(method.normalized for method in self.methods) and not odd

    @functools.cached_property
    def prefilters(self) -> bool:
        """Whether the methods of some axis weigh coefficients that a filter makes of the image."""
        return any(method.prefilter > 1 for method in self.methods)

    @functools.cached_property
    def edges(self) -> tuple[int, ...]:
        """Where each axis's mirrors stand (`Boundary.edge`), in x, y, z order."""
        return tuple(BOUNDARIES[name].edge_for(self.align_corners) for name in self.boundaries)

    @functools.cached_property
    def folds(self) -> tuple[bool, ...]:
        """Whether each axis folds the position, rather than each tap's index."""
        return tuple(
            method.folds_position and BOUNDARIES[name].folds_position
            for method, name in zip(self.methods, self.boundaries, strict=True)
        )

    @property
    def filled(self) -> bool:
        """Whether a dropped tap counts with the fill value; otherwise it counts nothing."""
        return any(BOUNDARIES[name].filled for name in self.boundaries)

    @property
    def rim(self) -> float:
        """How far the image reaches beyond its outermost pixel centres, for ``extrapolate``.

        Half a pixel where -1 and 1 are the outer edges, else nothing.
        """
        return 0.5 if self.coords == "normalized" and not self.align_corners else 0.0


def coordinates(size: int, align_corners: bool, dtype: Any = np.float64) -> Any:
    """The coordinates of an axis's pixel centres, from the first to the last.

    align_corners: from -1 to 1; otherwise from -1 + 1/size to 1 - 1/size.  A single pixel is at 0.

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


def per_axis(given: Any, rank: int, name: str) -> tuple[Any, ...]:
    """One entry for each axis, in x, y, z order, from one or one per axis.

    An entry is a name; for ``name`` "mode" it may be a `Method` too.
    """
    kinds, expected = ((str, Method), "string or a Method") if name == "mode" else (str, "string")
    if isinstance(given, kinds):
        return (given,) * rank
    if not isinstance(given, (tuple, list)) or not all(isinstance(one, kinds) for one in given):
        raise TypeError(
            f"{name} must be a {expected}, or a tuple with one per axis (x, y, z), got {given!r}"
        )
    if len(given) != rank:
        raise ValueError(
            f"{name} needs one entry per axis of the image: {rank} ({', '.join(AXES[:rank])}), "
            f"got {len(given)}: {tuple(given)!r}"
        )
    return tuple(given)


def listed(given: Mode) -> Sequence[Any]:
    """The entries of one name or method, or of several."""
    return [given] if isinstance(given, (str, Method)) else given


def unknown(name: str, given: str, accepted: Sequence[str], remark: str = "") -> ValueError:
    """The error for a name that is not among the accepted ones; it suggests the nearest."""
    close = difflib.get_close_matches(given.lower(), accepted, n=1)
    hint = f"; did you mean {close[0]!r}?" if close and not remark else ""
    listed = ", ".join(repr(one) for one in accepted)
    return ValueError(f"{name} {given!r} {remark or 'is not known'}; accepted: {listed}{hint}")


def find_method(name: str | Method, resizing: bool = False) -> Method:
    """The method of a name or alias; a method is its own.

    Args:
        name: what the caller gave.
        resizing: whether methods that only resize are accepted, too.

    Raises:
        ValueError: there is no method of that name, or it cannot do this.
    """
    found = name if isinstance(name, Method) else METHODS.get(ALIASES.get(name, name))
    if found is not None and (resizing or found.samples):
        return found
    given = found.name if found else str(name)
    accepted = [one for one in METHODS if resizing or METHODS[one].samples]
    remark = f"only resizes, in {RESIZERS}" if found else ""
    raise unknown("mode", given, [*accepted, *ALIASES], remark)


# What accepts every method.
RESIZERS = "interpolate, gridsample.nn's Upsample and Downsample and 'gridsample resize'"


@functools.lru_cache(maxsize=1024)
def method_of(spelling: str | Method) -> Method:
    """The method of a name, or of what `spell` made of it; it may be one that only resizes."""
    if isinstance(spelling, Method):
        return spelling
    if spelling.startswith("["):
        return Method.of_text(spelling)
    return find_method(spelling, resizing=True)


def check_boundary(name: str, argument: str = "padding_mode") -> str:
    """The name of a boundary, if it is one."""
    if name not in BOUNDARIES:
        raise unknown(argument, name, list(BOUNDARIES), FOREIGN_BOUNDARIES.get(name, ""))
    return name


def check_boundaries(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of each axis's boundary, if they are some that go together."""
    names = tuple([check_boundary(name) for name in names])
    if "zeros" in names and "constant" in names:
        raise ValueError(
            f"padding_mode {names!r} mixes 'zeros' and 'constant', of which a corner outside "
            "along both axes could be either; accepted: 'constant' in place of 'zeros', with the "
            "fill value 0, or one of them beside other boundaries"
        )
    return names


def find_coords(coords: Any) -> str:
    """What coordinates count, if it is a name of such."""
    if not isinstance(coords, str):
        raise TypeError(f"coords must be one of {', '.join(map(repr, COORDS))}, got {coords!r}")
    if coords not in COORDS:
        raise unknown("coords", coords, COORDS)
    return coords


def check_coords(coords: Any, rank: int, out: Shape) -> str:
    """What coordinates count, if the grid's shape allows it."""
    if find_coords(coords) == "displacement" and len(out) != rank:
        raise ValueError(
            f"coords 'displacement' counts from the output's own place, so that the grid must have "
            f"as many axes as the image between its first and last: {rank}, got {len(out)}: {out}"
        )
    return str(coords)


def check_flag(value: Any, name: str) -> bool:
    """A bool, if it is one; None counts as False, as in PyTorch."""
    if value is None or isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {value!r}")


def type_name(dtype: np.dtype[Any]) -> str:
    """A type's name, whatever its byte order."""
    return "bfloat16" if dtype == BFLOAT16 else dtype.name


def is_differentiable(dtype: np.dtype[Any]) -> bool:
    """Whether a type holds real or complex numbers, rather than integers."""
    return dtype.kind in "fc" or type_name(dtype) == "bfloat16"


def check_image_type(dtype: np.dtype[Any]) -> None:
    """Refuse a type that is not sampled."""
    if type_name(dtype) not in WIDE_TYPES + NARROW_TYPES:
        raise TypeError(
            f"input has dtype {dtype}; accepted: bool, int8 to int64, uint8 to uint64, "
            "float16, float32, float64, complex64, complex128"
        )


def check_grid_type(dtype: np.dtype[Any]) -> None:
    """Refuse a grid that is not floating."""
    if type_name(dtype) not in GRID_TYPES:
        raise TypeError(
            f"grid has dtype {dtype}; accepted: {', '.join(GRID_TYPES)}, and integers with "
            "coords='pixel'"
        )


def grid_type(dtype: np.dtype[Any], coords: Any) -> np.dtype[Any]:
    """The type that a grid's numbers are taken as: pixels may be counted in integers.

    Those of 8 and 16 bits are taken as float32, which holds all of them, and others as float64.
    """
    if dtype.kind in "iu" and coords == "pixel":
        return np.dtype(np.float64 if type_name(dtype) in WIDE_TYPES else np.float32)
    return dtype


def check_grid_gradient(dtype: Any, is_integer: bool) -> None:
    """Refuse the gradient of a grid of integers."""
    if is_integer:
        raise TypeError(
            f"grid has dtype {dtype}, of which there is no gradient; "
            "pass need_grid=False to get the input's alone"
        )


def channels_last(channel_axis: Any, dimensions: int) -> bool:
    """Whether channels are the last axis rather than the second."""
    if isinstance(channel_axis, (int, np.integer)) and not isinstance(channel_axis, bool):
        if channel_axis in (1, 1 - dimensions):
            return False
        if channel_axis in (-1, dimensions - 1):
            return True
    raise ValueError(
        f"channel_axis must be 1 (N, C, *spatial) or -1 (N, *spatial, C), got {channel_axis!r}"
    )


def check_shapes(image: Shape, grid: Shape, last: bool) -> int:
    """Refuse shapes that do not go together; the spatial rank otherwise."""
    layout = "(N, *spatial, C)" if last else "(N, C, *spatial)"
    if not 3 <= len(image) <= 5:
        raise ValueError(
            f"input must have 3 to 5 dimensions, {layout} with 1 to 3 spatial axes, "
            f"got {len(image)} in shape {image}"
        )
    rank = len(image) - 2
    if len(grid) < 2 or grid[-1] != rank:
        raise ValueError(
            f"grid must be (N, *out, {rank}) for an input with {rank} spatial "
            f"{'axis' if rank == 1 else 'axes'}: its last axis holds {', '.join(AXES[:rank])}; "
            f"got grid shape {grid} for input shape {image}"
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


def as_whole(n: Any) -> Any:
    """An entry of a size as an int; a SymInt, which stands for one in a program, as it is.

    Integers of Python and NumPy are taken, and so are arrays and tensors that hold one.

    Raises:
        TypeError: it is no integer.
    """
    if type(n) is int:
        return n
    if isinstance(n, (bool, np.bool_)):
        raise TypeError(f"expected an integer, got {n!r}")
    if type(n).__name__ == "SymInt":
        return n
    operator.index(n)  # refuses what is no integer
    return int(n)  # of a tensor that is traced torch warns here that it becomes a constant


def check_output(size: Any, fewest: int, most: int) -> Shape:
    """An output's shape, if it is one of an accepted length."""
    try:
        given = tuple([as_whole(n) for n in size])
    except TypeError:
        raise TypeError(f"size must be a sequence of integers, got {size!r}") from None
    if any(n < 0 for n in given):
        raise ValueError(f"size must not hold negative sizes, got {given}")
    if not fewest <= len(given) <= most:
        raise ValueError(f"size must have {fewest} to {most} entries, got {len(given)}: {given}")
    return given


def check_theta(theta: Shape, size: Shape) -> None:
    """Refuse the shape of affine maps that do not go with an output's shape."""
    rank = len(size) - 2
    wanted = (size[0], rank, rank + 1)
    if theta != wanted:
        raise ValueError(
            f"theta must be (N, D, D + 1) = {wanted} for size {size}, got shape {theta}"
        )


def check_size(size: Any, grid: Shape) -> Shape:
    """The spatial shape to splat to, if it is one and has the rank of a grid of a shape."""
    try:
        one = hasattr(size, "__index__") and not getattr(size, "ndim", 0)
        given = (size,) if one else size
        spatial = tuple([as_whole(n) for n in given])
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
    """Refuse values that are not one for each point and channel; N of the result otherwise."""
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


@functools.lru_cache(maxsize=1024)
def make_plan(
    image_shape: Shape,
    image_type: np.dtype[Any],
    grid_shape: Shape,
    grid_type: np.dtype[Any],
    mode: Mode,
    padding_mode: Mode,
    align_corners: bool,
    last: bool,
    *,
    coords: str = "normalized",
    extrapolate: bool = True,
) -> Plan:
    """Validate a call and plan it; ``last`` tells that channels are the image's last axis.

    Raises:
        TypeError: a type that is not sampled, or options of the wrong type.
        ValueError: shapes that do not go together, or an unknown or ambiguous name.
    """
    check_image_type(image_type)
    check_grid_type(grid_type)
    rank = check_shapes(image_shape, grid_shape, last)
    methods = tuple(find_method(name) for name in per_axis(mode, rank, "mode"))
    boundaries = check_boundaries(per_axis(padding_mode, rank, "padding_mode"))
    wide = grid_type.name == "float64" or image_type.name in WIDE_TYPES
    return Plan(
        methods=methods,
        boundaries=boundaries,
        align_corners=check_flag(align_corners, "align_corners"),
        spatial=image_shape[1:-1] if last else image_shape[2:],
        image_items=image_shape[0],
        grid_items=grid_shape[0],
        channels=image_shape[-1] if last else image_shape[1],
        out=grid_shape[1:-1],
        dtype=image_type.newbyteorder("="),
        real=np.dtype(np.float64 if wide else np.float32),
        coords=check_coords(coords, rank, grid_shape[1:-1]),
        extrapolate=check_flag(extrapolate, "extrapolate"),
    )


def check_extent(name: str, shape: Sequence[int], itemsize: int) -> None:
    """Refuse a shape that no array can have, because its bytes are more than an address counts."""
    most = np.iinfo(np.intp).max // itemsize
    if math.prod(shape) > most:
        raise ValueError(
            f"{name} would have the shape {tuple(shape)}, which is more than any array can hold: "
            f"{most} numbers"
        )


def hashable(given: Mode) -> Mode:
    """Options as the cache needs them: a list becomes a tuple; what cannot be hashed is refused."""
    if isinstance(given, list):
        given = tuple(given)
    try:
        hash(given)
    except TypeError:
        raise TypeError(f"expected a string or a tuple of strings, got {given!r}") from None
    return given


def check_threads(threads: Any) -> None:
    """Refuse a number of threads that is not one."""
    if threads is None:
        return
    if not isinstance(threads, (int, np.integer)) or isinstance(threads, bool):
        raise TypeError(f"threads must be a positive integer or None, got {threads!r}")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, or None for every core, got {threads}")
