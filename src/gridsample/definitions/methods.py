"""Interpolation methods as data, for sampling and for resizing.

A `Method` defines the weights of the pixels around a position along one axis.  It is a record.  Its
weights are a table of polynomials in the fraction ``t`` (`gridsample.definitions.weights`).
Sampling, resizing, antialiasing and all derivatives follow from the record.  A table is checked
when a method is created: the weights must sum to one at every ``t``, so that a constant image stays
constant.  The sums of the table's columns must therefore be 1, 0, 0, ...

`METHODS` and `ALIASES` list all names.  The public module is `gridsample.methods`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

import numpy as np

from gridsample.definitions import axis
from gridsample.definitions.caches import cached_property
from gridsample.definitions.names import BoundaryName, EndName, MethodName, ResizingName
from gridsample.definitions.shapes import axis_names
from gridsample.definitions.weights import (
    FAMILIES,
    Array,
    Formula,
    Kernel,
    Table,
    bc_table,
    bspline_table,
    kernel,
    keys_cubic,
    lanczos_table,
    pieces,
)
from gridsample.messages.links import unknown_name


@dataclass(frozen=True)
class Method:
    """The taps of one axis and their weights.

    Attributes:
        name: the canonical name.
        table: ``taps`` rows of ``degree + 1`` coefficients, lowest power of ``t`` first.  It is
            empty for the few methods that only resize.  They depend on the pixels that an output
            pixel covers, and a point covers none.
        first: the first tap is at ``base index + first``.
        rounds: if True, the base index is the integer nearest to the position, and ``t`` is in
            [-1/2, 1/2]; otherwise it is the position's floor, and ``t`` is in [0, 1).
        folds_position: if True, PyTorch's boundaries fold the position before taps are computed,
            and a tap that is still outside is dropped; otherwise each tap's index is folded.
        prefilter: the order of the B-spline whose coefficients the method weighs instead of pixels
            (see `gridsample.spline_filter`); 0 for a method that weighs pixels.
        normalized: whether the weights sum to one at every t, so that a constant image stays
            constant.  A table whose weights do not is rejected unless this is False.
        ties_up: how a method that rounds breaks ties between two base indices: True selects the
            upper one, floor(position + 1/2), as in SciPy; False the even one, as in PyTorch.
        formula: the published kernel of the method, as a family and its parameters, such as
            ("bc", 0, 0.5).  Resizing uses it.  Without a formula, resizing uses the table.
        stretched: the kernel that antialiasing stretches, if it differs from ``formula``.
        votes: whether the taps vote, so that the result is one of the pixels' values: the one with
            the largest sum of weights.  Otherwise the pixels are blended.
        by_interval: whether the weights are those of the intervals of an axis
            (`gridsample.definitions.knots.SplineKnots`).  The table has as many taps and powers.

    Raises:
        ValueError: the table is empty, ragged, or not finite, its weights do not sum to one, or the
            formula does not match the table.

    Example:
        >>> from gridsample.definitions.methods import LINEAR
        >>> LINEAR.taps, LINEAR.table
        (2, ((1.0, -1.0), (0.0, 1.0)))
        >>> LINEAR.derivative(1)
        ((-1.0, 0.0), (1.0, 0.0))
    """

    name: str
    table: Table
    first: int
    rounds: bool = False
    folds_position: bool = False
    prefilter: int = 0
    normalized: bool = True
    ties_up: bool = False
    formula: Formula = ()
    stretched: Formula = ()
    votes: bool = False
    by_interval: bool = False

    @classmethod
    def of_text(cls, text: str) -> Method:
        """Create a method from its ``text``."""
        return cls(*ast.literal_eval(text))

    def __post_init__(self) -> None:
        """Validate the table and the formulas."""
        for formula in filter(None, (self.formula, self.stretched)):
            if formula[0] not in FAMILIES:
                raise ValueError(
                    f"method {self.name!r}: the formula {formula!r} belongs to no known family; "
                    f"accepted: {', '.join(map(repr, FAMILIES))}"
                )
        if self.table or not self.formula:
            self._check_table()

    def __hash__(self) -> int:
        """The hash, which takes no time because methods are keys of many caches."""
        return hash(self.name)

    def _check_table(self) -> None:
        """Reject a table that is malformed, does not sum to one or does not match the formula."""
        powers = {len(row) for row in self.table}
        if len(powers) != 1 or 0 in powers:
            raise ValueError(
                f"method {self.name!r}: every tap needs the same number of coefficients, "
                f"at least one; got rows of lengths {[len(row) for row in self.table]}"
            )
        if not all(math.isfinite(c) for row in self.table for c in row):
            raise ValueError(f"method {self.name!r}: every coefficient must be a finite number")
        for power, column in enumerate(zip(*self.table, strict=True) if self.normalized else ()):
            expected = 1.0 if power == 0 else 0.0
            if abs(sum(column) - expected) > 1e-12 * max(1.0, *map(abs, column)):
                raise ValueError(
                    f"method {self.name!r}: the weights must sum to one at every t, but the "
                    f"coefficients of t**{power} sum to {sum(column)!r} instead of {expected}"
                )
        if self.formula:
            t = np.array([0.0, 0.3, 0.45])
            weights = kernel(self.formula)[1](self.offsets - t[:, np.newaxis])
            ours = np.vander(t, self.powers, increasing=True) @ np.array(self.table).T
            error = weights - ours * weights.sum(axis=1, keepdims=True)
            if np.abs(error).max() > 1e-6 * np.abs(weights).max():
                raise ValueError(
                    f"method {self.name!r}: the table's weights are not those of the formula "
                    f"{self.formula!r}; leave the formula out, and resizing uses the table"
                )

    @property
    def samples(self) -> bool:
        """Whether the method can sample points; otherwise it only resizes."""
        return len(self.table) > 0

    @property
    def taps(self) -> int:
        """Number of taps along the axis."""
        return len(self.table)

    @property
    def copies(self) -> bool:
        """Whether the result is one pixel."""
        return self.taps == 1 and self.normalized

    @property
    def is_linear(self) -> bool:
        """Whether the method is linear interpolation, without votes."""
        between = self.first == 0 and not (self.votes or self.by_interval)
        return between and self.table == ((1.0, -1.0), (0.0, 1.0))

    @property
    def offsets(self) -> Array:
        """The indices of the taps relative to the base index."""
        return np.arange(self.first, self.first + self.taps)

    @property
    def rounding(self) -> int:
        """How a position is rounded to the base index: a code of `gridsample.definitions.axis`."""
        return (axis.HALF_UP if self.ties_up else axis.HALF_EVEN) if self.rounds else axis.FLOOR

    @property
    def powers(self) -> int:
        """Number of coefficients of each weight: the polynomials' degree plus one."""
        return len(self.table[0])

    def weights(self, t: Array) -> Array:
        """The weights of the taps, (..., taps), at fractions (...)."""
        return np.stack([axis.weight(t, row, self.powers) + 0 * t for row in self.table], axis=-1)

    def derivative(self, order: int) -> Table:
        """The table of the weights' derivative of the given order with respect to ``t``.

        Rows keep their length (padded with zeros), so that the same compiled kernel computes every
        order.
        """
        table = self.table
        for _ in range(order):
            table = tuple((*(p * row[p] for p in range(1, len(row))), 0.0) for row in table)
        return table

    @cached_property
    def text(self) -> str:
        """All of the method as a string, from which `of_text` restores it."""
        table = tuple(tuple(float(c) for c in row) for row in self.table)
        formulas = [
            (*formula[:1], *map(float, formula[1:])) for formula in (self.formula, self.stretched)
        ]
        others = [getattr(self, field.name) for field in fields(self)][2:-4]
        return str([self.name, table, *others, *formulas, self.votes, self.by_interval])

    @cached_property
    def by_distance(self) -> bool:
        """Whether taps at the same distance on both sides of a position have the same weight."""
        if not self.table:
            return True
        middle = 0 if self.rounds else 1  # taps k and middle - k mirror each other about t = 0, 1/2
        if 2 * self.first + self.taps - 1 != middle:
            return False
        start, steps = (-0.5 if self.rounds else 0.0), 2 * self.powers
        points = [start + k / steps for k in range(steps + 1)]
        # Numbers of Python, which torch.compile can follow.
        weights = [polynomial(row, t) for t in points for row in self.table]
        mirrored = [polynomial(row, middle - t) for t in points for row in self.table[::-1]]
        error = max([abs(a - b) for a, b in zip(weights, mirrored, strict=True)])
        return error <= 1e-9 * max(map(abs, weights))

    @property
    def stretches(self) -> bool:
        """Whether antialiasing can stretch the weights.

        They must depend only on the distance, and sum to one.
        """
        return self.by_distance and self.normalized

    def kernel(self, antialias: bool = False) -> tuple[float, Kernel]:
        """The kernel that resizing uses: its support, and the weight as a function of distance.

        Args:
            antialias: whether the kernel will be stretched.

        Returns:
            The support in pixels, and a function of the distance of a tap from the position.
        """
        formula = (antialias and self.stretched) or self.formula
        if formula:
            return kernel(formula)
        return self.taps / 2, pieces(self.table, self.first, self.rounds)


def polynomial(coefficients: Sequence[float], t: float) -> float:
    """The value of a polynomial, whose constant comes first, at ``t``."""
    value = 0.0
    for coefficient in reversed(coefficients):
        value = value * t + coefficient
    return value


def keys(a: float) -> Method:
    """Keys' cubic convolution with the parameter ``a``.

    ``a`` = -1/2 (also called Catmull-Rom) reproduces parabolas; PyTorch's bicubic uses -3/4.  See
    `gridsample.definitions.weights.keys_cubic` for the formula.

    Args:
        a: the slope of the kernel at a distance of one pixel; 0 gives no overshoot.

    Returns:
        A `Method` with 4 taps.

    Raises:
        ValueError: ``a`` is not finite.

    Example:
        >>> from gridsample.definitions.methods import keys
        >>> keys(-0.5).name
        'cubic(a=-0.5)'
    """
    return Method(f"cubic(a={a:g})", keys_cubic(a), first=-1, formula=("bc", 0, -a))


def bc_spline(b: float, c: float) -> Method:
    """The cubic filters of Mitchell and Netravali, with the parameters B and C.

    (1/3, 1/3) is the authors' own choice, "mitchell"; (0, -a) is Keys with that a; (1, 0) is the
    cubic B-spline.  If B is not 0, the image is smoothed, and the method does not interpolate.
    See `gridsample.definitions.weights.bc_table` for the formula.

    Args:
        b: B, by which the kernel is a B-spline.
        c: C, which is -a in Keys' kernel.

    Returns:
        A `Method` with 4 taps.

    Raises:
        ValueError: a parameter is not finite.

    Example:
        >>> from gridsample.definitions.methods import bc_spline
        >>> [round(row[0], 4) for row in bc_spline(1 / 3, 1 / 3).table[:3]]  # on a pixel
        [0.0556, 0.8889, 0.0556]
    """
    return Method(f"bc(b={b:g}, c={c:g})", bc_table(b, c), first=-1, formula=("bc", b, c))


def check_whole(name: str, value: Any, low: int, high: int) -> None:
    """Raise an error unless ``value`` is an integer from ``low`` to ``high``."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name} must be an integer from {low} to {high}, got {value!r}")


def bspline(order: int) -> Method:
    """The B-spline of an order from 2 to 7, which is applied to coefficients from the prefilter.

    It has order + 1 taps and order - 1 continuous derivatives, and reproduces polynomials up to
    the degree ``order``.  Even orders round the position to the base index, odd orders take its
    floor.  See `gridsample.definitions.weights.bspline_table` for the formula.

    Args:
        order: the order, an integer from 2 to 7.

    Returns:
        A `Method` with order + 1 taps.

    Raises:
        ValueError: ``order`` is not accepted.

    Example:
        >>> from gridsample.definitions.methods import bspline
        >>> bspline(2).taps, bspline(2).rounds, bspline(2).prefilter
        (3, True, 2)
    """
    check_whole("order", order, 2, 7)
    return Method(
        f"spline{order}",
        bspline_table(order),
        first=-(order // 2),
        rounds=order % 2 == 0,
        prefilter=order,
        formula=("bc", 1, 0) if order == 3 else (),
    )


def spline_on_knots(degree: int) -> Method:
    """The B-splines of a degree from 1 to 5 on the knots of an axis, applied to coefficients.

    The axis is a `gridsample.definitions.knots.SplineKnots` of that degree.
    """
    return Method(f"splines{degree}", bspline_table(degree), first=0, by_interval=True)


def lanczos(a: int) -> Method:
    """The Lanczos-windowed sinc with ``a`` lobes on each side, from 2 to 8, and 2 a taps.

    With sinc(s) = sin(pi s) / (pi s) and s the distance to a tap, the weight is

        sinc(s) sinc(s / a), divided by the sum of that over all taps.

    The table is a polynomial approximation (`gridsample.definitions.weights.lanczos_table`).  For
    a = 2, 3 and 4, its error is below 1e-9 in the weights (float32 rounding is 6e-8), 1e-7 in their
    first and 2e-5 in their second derivative.  Derivatives are those of the table.  The true first
    derivative is continuous; the table's is continuous up to that error.  Resizing uses the formula
    itself.

    Args:
        a: the number of lobes, an integer from 2 to 8.

    Returns:
        A `Method` with 2 a taps.

    Raises:
        ValueError: ``a`` is not accepted.

    Example:
        >>> from gridsample.definitions.methods import lanczos
        >>> lanczos(3).taps, lanczos(3).first, lanczos(3).powers
        (6, -2, 14)
    """
    check_whole("a", a, 2, 8)
    return Method(f"lanczos{a}", lanczos_table(a), first=1 - a, formula=("lanczos", a))


# These only resize.
NEAREST_EXACT = Method("nearest-exact", (), first=0, formula=("box",))
AREA = Method("area", (), first=0, formula=("box",))

NEAREST = Method("nearest", ((1.0,),), first=0, rounds=True, folds_position=True, formula=("box",))
NEAREST_UP = replace(NEAREST, name="nearest-up", ties_up=True)  # no name that users write
LINEAR = Method(
    "linear", ((1.0, -1.0), (0.0, 1.0)), first=0, folds_position=True, formula=("triangle",)
)
# Its weights are those of linear, and are summed for each value among the taps.
LABEL = replace(LINEAR, name="label", votes=True)
# PyTorch's two cubics: a = -3/4, and -1/2 with antialiasing.
CUBIC = replace(keys(-0.75), name="cubic", stretched=("bc", 0, 0.5))

# All named methods; `gridsample.methods.register` adds to them.
METHODS = {
    method.name: method
    for method in (
        NEAREST,
        LINEAR,
        CUBIC,
        replace(keys(-0.5), name="catmull-rom"),
        replace(bc_spline(1 / 3, 1 / 3), name="mitchell"),
        *(bspline(order) for order in range(2, 8)),
        *(lanczos(a) for a in (2, 3, 4)),
        LABEL,
        NEAREST_EXACT,
        AREA,
        Method("gaussian", (), first=0, formula=("gaussian",)),  # it only resizes, too
    )
}

# Names that are common for one rank, or in PyTorch.  The method is the same for every rank.
ALIASES = {
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
    "tricubic": "cubic",
    "lanczos": "lanczos3",
    # The coefficients of these B-splines are the pixels.
    "spline0": "nearest",
    "spline1": "linear",
}


def sampling_names() -> tuple[str, ...]:
    """The names of the methods that can sample points."""
    return tuple([name for name, method in METHODS.items() if method.samples])


def accepted_names(resizing: bool = False) -> list[str]:
    """The names that ``mode`` accepts for sampling or for resizing, with the aliases."""
    return [*(METHODS if resizing else sampling_names()), *ALIASES]


# The functions that accept every method, for messages.
RESIZERS = "interpolate, gridsample.nn's Upsample and Downsample and 'gridsample resize'"

Mode = MethodName | Method | Sequence[MethodName | Method]
ResizingMode = Mode | ResizingName | Sequence[MethodName | ResizingName | Method]
Padding = BoundaryName | Sequence[BoundaryName]


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
    remark = f"only resizes, in {RESIZERS}" if method else ""
    raise unknown_name("mode", method_name, accepted_names(resizing), remark)


def listed(mode: Any) -> Sequence[Any]:
    """Return a single name or method as a list, and several unchanged."""
    return [mode] if isinstance(mode, (str, Method)) else mode


# What the numbers of other libraries mean.
NUMBERED = {
    0: "'nearest', which is 0 in OpenCV and the order 0 of SciPy",
    1: "'linear', which is 1 in OpenCV and the order 1 of SciPy",
    2: "'cubic', which is 2 in OpenCV, or 'spline2', which is the order 2 of SciPy",
    3: "'spline3', which is the order 3 of SciPy",
    4: "'lanczos4', which is 4 in OpenCV, or 'spline4', which is the order 4 of SciPy",
    5: "'spline5', which is the order 5 of SciPy",
}


# What an entry of an option is, besides a string, by the option's name.
ENTRIES: dict[str, tuple[Any, str]] = {
    "mode": ((str, Method), "a string or a Method"),
    "extrapolate": (
        (str, bool, np.bool_),
        f"True, False or one of {', '.join(map(repr, get_args(EndName)))}",
    ),
}


def per_axis(value: Any, rank: int, name: str) -> tuple[Any, ...]:
    """Expand an option to one entry per axis, in x, y, z order.

    An entry is a name; in "mode" it may also be a `Method`, in "extrapolate" True or False.
    """
    types, expected = ENTRIES.get(name, (str, "a string"))
    if isinstance(value, types):
        return (value,) * rank
    if not isinstance(value, (tuple, list)) or not all(isinstance(entry, types) for entry in value):
        known = value in NUMBERED if name == "mode" and isinstance(value, int) else False
        hint = f"; did you mean {NUMBERED[value]}?" if known else ""
        raise TypeError(
            f"{name} must be {expected}, or a tuple with one per axis (x, y, z), got {value!r}"
            f"{hint}"
        )
    if len(value) != rank:
        raise ValueError(
            f"{name} needs one entry per axis of the image: {rank} ({axis_names(rank)}), "
            f"got {len(value)}: {tuple(value)!r}"
        )
    return tuple(value)
