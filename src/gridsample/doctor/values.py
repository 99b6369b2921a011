"""What the doctor knows of a value: numbers that are linear in pixels, with sizes as symbols.

A coordinate is usually written as ``scale * pixel + offset``, where scale and offset are functions
of the image's size.  There are many spellings.  Scale and offset are therefore evaluated at a few
sizes: the scale of ``2 * x / (W - 1)`` is 2 / (n - 1) at all of them, however it is spelled.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

# The number of sizes at which scales and offsets are evaluated, and a number at all of them.
SAMPLES = 3
Samples = tuple[float, ...]
Operation = Callable[[float, float], float]
ZEROS: Samples = (0.0,) * SAMPLES
ONES: Samples = (1.0,) * SAMPLES


@dataclass(frozen=True)
class Symbol:
    """The size of an image along one axis.

    Attributes:
        key: identifies it within a function.
        axis: "x", "y" or "z", or "" if it is not known.
        owner: the name of the variable whose shape has it, or "".
    """

    key: str
    axis: str = ""
    owner: str = ""

    @property
    def samples(self) -> Samples:
        """The sizes at which expressions are evaluated: arbitrary, but distinct for each symbol."""
        seeds = [zlib.crc32(f"{self.key}/{n}".encode()) for n in range(SAMPLES)]
        return tuple(100.0 + seed % 9001 for seed in seeds)


# The dim of an array that stands for the lines along all axes of an image, which a list holds, and
# of one that stands for the components of their mesh, which are in the order of the axes.
EACH, IN_ORDER = -1, -2


@dataclass(frozen=True)
class Variable:
    """An array that is not known, such as the indices of pixels.

    Attributes:
        kind: "arange" for the indices 0, 1, ... of pixels, "linspace" for those inside a linspace,
            "affine" for the grid of affine_grid, "flow" for a displacement in pixels, "call" for
            the result of an unknown function, "mixed" for anything of unknown units, else "".
        name: identifies it within a function.
        count: the length of an arange or a linspace.
        dim: the axis of a mesh along which it varies; `EACH` or `IN_ORDER` for an array that stands
            for any of several; or None if it is not known.
        align: the align_corners of affine_grid, as a `Flag`.
        location: the line and the column of the call of affine_grid.
    """

    kind: str
    name: str
    count: Samples = ()
    dim: int | None = None
    align: Flag | None = None
    location: tuple[int, int] = (0, 0)

    @property
    def is_index(self) -> bool:
        """Whether it holds the indices of pixels along an axis."""
        return self.kind in ("arange", "linspace")


@dataclass(frozen=True)
class Flag:
    """The value of an option.

    Attributes:
        value: a constant, or None.
        state: "given" as a constant, "missing", "default" of a parameter, or "unknown".
    """

    value: object = None
    state: str = "given"

    @property
    def known(self) -> bool:
        """Whether the value is known."""
        return self.state != "unknown"


@dataclass(frozen=True)
class Const:
    """A constant other than a number, or the name of an object such as a dtype."""

    value: object
    default: bool = False


@dataclass(frozen=True)
class Number:
    """A number, or an array: the sum of variables times scales, plus an offset.

    Attributes:
        offset: the offset.
        terms: the variables and their scales.
        symbols: the sizes that occur in it.
        half: "float16" or "bfloat16" if it was converted to that.
        resized: the align_corners of interpolate, if the array comes from there.
    """

    offset: Samples
    terms: tuple[tuple[Variable, Samples], ...] = ()
    symbols: frozenset[Symbol] = frozenset()
    half: str = ""
    resized: Flag | None = None

    @property
    def constant(self) -> bool:
        """Whether it depends on nothing but sizes."""
        return not self.terms


@dataclass(frozen=True)
class Stack:
    """An array one of whose axes holds known components.

    Attributes:
        parts: the components.
        names: the names of the components where they are stacked.
        first: whether that is the first axis, as of ``np.mgrid``; else it is the last or the
            channel axis.
    """

    parts: tuple[Number | None, ...]
    names: tuple[str, ...] = ()
    first: bool = False


@dataclass(frozen=True)
class ListValue:
    """A tuple or a list."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class Shape:
    """The shape of a variable, or its end.

    Attributes:
        owner: the name of the variable.
        start: the first entry: 0, or -2 for the last two.
    """

    owner: str
    start: int = 0


@dataclass(frozen=True)
class Instance:
    """An object of a class of the file.

    Attributes:
        name: the name of the class.
        members: the values of its attributes, by "self.name".
    """

    name: str
    members: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True)
class LocalFunction:
    """A function that is defined inside another one, or a lambda."""

    function: ast.FunctionDef


Value = Number | Stack | ListValue | Shape | Const | Instance | LocalFunction | None


# Numbers ------------------------------------------------------------------------------------------


def constant(value: float) -> Number:
    """Make a number of a constant."""
    return Number((float(value),) * SAMPLES)


def of_variable(variable: Variable, symbols: frozenset[Symbol] = frozenset()) -> Number:
    """Make a number of a variable, whose length depends on some sizes."""
    return Number(ZEROS, ((variable, ONES),), symbols)


def unknown(name: str, kind: str = "") -> Number:
    """Make a number of an unknown array."""
    return of_variable(Variable(kind, name))


def size(symbol: Symbol) -> Number:
    """Make a number of a size."""
    return Number(symbol.samples, symbols=frozenset([symbol]))


def close(first: Iterable[float], second: Iterable[float]) -> bool:
    """Whether two samples are equal up to rounding, and constants like 1e-7 that are added."""
    return all(
        math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) for a, b in zip(first, second, strict=True)
    )


def product(first: Samples, second: Samples) -> Samples:
    """Multiply samples."""
    return tuple(map(operator.mul, first, second))


def add(first: Number, second: Number, operate: Operation = operator.add) -> Number:
    """Add or subtract two numbers."""
    terms = dict(first.terms)
    for variable, scale in second.terms:
        terms[variable] = tuple(map(operate, terms.get(variable, ZEROS), scale))
    remaining = tuple((variable, scale) for variable, scale in terms.items() if any(scale))
    offset = tuple(map(operate, first.offset, second.offset))
    return Number(offset, remaining, first.symbols | second.symbols, _common_half(first, second))


def scaled(number: Number, by: Number, operate: Operation) -> Number | None:
    """Multiply or divide a number by a constant one."""
    try:
        offset = tuple(map(operate, number.offset, by.offset))
        terms = tuple(
            (variable, tuple(map(operate, scale, by.offset))) for variable, scale in number.terms
        )
    except (ZeroDivisionError, OverflowError):
        return None
    return Number(offset, terms, number.symbols | by.symbols, _common_half(number, by))


def _common_half(first: Number, second: Number) -> str:
    if first.constant or second.constant:
        return first.half or second.half
    return first.half if first.half == second.half else ""


def linspace(start: Number, stop: Number, count: Number, name: str) -> Number | None:
    """Make the number of a linspace; from 0 in steps of 1, it is that of an arange."""
    if not (start.constant and stop.constant and count.constant) or min(count.offset) <= 1:
        return None
    symbols = start.symbols | stop.symbols | count.symbols
    step = tuple(
        (b - a) / (n - 1) for a, b, n in zip(start.offset, stop.offset, count.offset, strict=True)
    )
    is_arange = not any(start.offset) and close(step, ONES)
    variable = Variable("arange" if is_arange else "linspace", name, count.offset)
    return Number(start.offset, ((variable, step),), symbols)


def with_dim(number: Number, dim: int | None) -> Number:
    """Set the axis of a mesh along which the indices in a number vary."""
    terms = tuple(
        (replace(variable, dim=dim) if variable.is_index else variable, scale)
        for variable, scale in number.terms
    )
    return replace(number, terms=terms)


def map_numbers(value: Value, function: Callable[[Number], Number | None]) -> Value:
    """Apply a function to a number, or to all components of a stack."""
    if isinstance(value, Number):
        return function(value)
    if isinstance(value, Stack):
        return replace(value, parts=tuple(p and function(p) for p in value.parts))
    return None


# Names --------------------------------------------------------------------------------------------

_SUFFIX = r"(_?(in|out|img|im|src|dst|\d))?$"
_X_SIZE = re.compile(r"(^|_)(w|width|ww|iw|ow|wd|cols|nx|w\d|wi|wo)" + _SUFFIX)
_Y_SIZE = re.compile(r"(^|_)(h|height|hh|ih|oh|ht|rows|ny|h\d|hi|ho)" + _SUFFIX)
_Z_SIZE = re.compile(r"(^|_)(d|depth|dd|nz|slices)" + _SUFFIX)
_FLOW = re.compile(
    r"(^|_)(flow|flo|flows|opticalflow|optflow|flow_?(up|fw|bw|low|field|map|ab|ba|\d+))$"
)
_CAMEL_FLOW = re.compile(r"^ten(Flow|Flo)$")
_NOT_PIXELS = re.compile(r"norm|unit|ndc|relative|scaled")


def size_axis(name: str) -> str:
    """Return the axis of a size by its name, or "".

    >>> size_axis("img_w"), size_axis("H"), size_axis("x")
    ('x', 'y', '')
    """
    last = name.rpartition(".")[2]
    if re.fullmatch(r"[A-Z][a-z]?\d?|[A-Z_\d]+", last):
        last = last.lower()
    last = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", last).lower()
    for axis, pattern in (("x", _X_SIZE), ("y", _Y_SIZE), ("z", _Z_SIZE)):
        if pattern.search(last):
            return axis
    return ""


def is_flow(name: str) -> bool:
    """Whether a name is that of an optical flow, which is in pixels unless its name says otherwise.

    >>> is_flow("flow"), is_flow("self.flow_up"), is_flow("flow_norm"), is_flow("overflow")
    (True, True, False, False)
    """
    last = name.rpartition(".")[2]
    if _NOT_PIXELS.search(last.lower()):
        return False
    return bool(_CAMEL_FLOW.match(last) or _FLOW.search(last.lower()))


# Names of tuples of sizes.
_SIZES = re.compile(r"(^|_)(size|sizes|shape|shapes|dims|hw|vol_?size|inshape|resolution)$")


def is_sizes(name: str) -> bool:
    """Whether a name is that of a tuple of sizes.

    >>> is_sizes("self.image_size"), is_sizes("inshape"), is_sizes("points")
    (True, True, False)
    """
    return bool(_SIZES.search(name.rpartition(".")[2].lower()))


_X_WORDS = {"x", "xs", "xx", "gx", "xv", "w", "ww", "xgrid", "gridx", "meshx", "col", "cols"}
_Y_WORDS = {"y", "ys", "yy", "gy", "yv", "h", "hh", "ygrid", "gridy", "meshy", "row", "rows"}


def is_field(text: str) -> bool:
    """Whether an expression has the name of a field of displacements or coordinates.

    >>> is_field("self.up(flow)"), is_field("image")
    (True, False)
    """
    return bool(re.search(r"flow|flo\b|disp|grid|coord|offset|motion|field", text.lower()))


def component_axis(name: str) -> str:
    """Return the axis of a coordinate by its name, or "".

    >>> component_axis("grid_x"), component_axis("vgrid_y1"), component_axis("pts")
    ('x', 'y', '')
    """
    last = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name.rpartition(".")[2]).lower()
    words = {re.sub(r"\d+$", "", word) for word in last.split("_")}
    axes = {axis for axis, known in (("x", _X_WORDS), ("y", _Y_WORDS)) if words & known}
    return axes.pop() if len(axes) == 1 else ""
