"""SciPy's modes, and the options of a call that follow from them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gridsample.backends import backend_of
from gridsample.definitions.checks import check_constant, check_dense
from gridsample.definitions.methods import NEAREST_UP
from gridsample.definitions.names import BoundaryName

# The pixels that SciPy adds before the prefilter for modes without an exact prefilter, and how many
# are necessary for orders that SciPy does not have.
PAD, PAD_OF_HIGH_ORDERS = 12, 60


def is_tie(xp: Any, x: Any, n: int) -> Any:
    """Whether positions are halfway between the last pixel of n and its mirror image.

    Under "mirror", SciPy then selects the mirror image, although it mirrors positions, and thereby
    all other ties.
    """
    return xp.fmod(x, 2 * n - 2) == n - 0.5 if n > 1 else x != x  # none of a single pixel


def wrap_between_centres(xp: Any, x: Any, n: int) -> Any:
    """Wrap positions with the period n - 1, in which the last pixel is also the first."""
    if n == 1:
        return x * 0
    below = x + (n - 1) * (xp.trunc(-x / (n - 1)) + 1)
    above = x - (n - 1) * xp.trunc(x / (n - 1))
    return xp.where(x < 0, below, xp.where(x > n - 1, above, x))


class Mode(NamedTuple):
    """The definition of one of SciPy's modes.

    Attributes:
        boundary: the boundary of taps, a ``padding_mode`` of `gridsample.grid_sample`.
        prefilter: the boundary of the prefilter, a ``boundary`` of `gridsample.spline_filter`.
        fold: a function that folds positions outside, under a boundary that `grid_sample` lacks.
        fills: whether a position outside gives ``cval`` regardless of its taps.
        pad: how the image is padded before the prefilter, a mode of `numpy.pad`.
    """

    boundary: str
    prefilter: BoundaryName
    fold: Callable[[Any, Any, int], Any] | None = None
    fills: bool = False
    pad: str = ""


# The comments show the pixels outside an image a b c d.
MODES = {
    "reflect": Mode("symmetric", "symmetric"),  # c b a | a b c d | d c b
    "grid-mirror": Mode("symmetric", "symmetric"),
    "constant": Mode("mirror", "mirror", fills=True),  # v v v | a b c d | v v v
    "grid-constant": Mode("constant", "mirror", pad="constant"),  # the same, tap by tap
    "nearest": Mode("border", "symmetric", pad="edge"),  # a a a | a b c d | d d d
    "mirror": Mode("mirror", "mirror"),  # d c b | a b c d | c b a
    "grid-wrap": Mode("wrap", "wrap"),  # b c d | a b c d | a b c
    "wrap": Mode("mirror", "mirror", wrap_between_centres),  # b c d | a b c d | b c d: d is a
}

# SciPy rounds ties up, not to the even pixel.
METHODS = (NEAREST_UP, "linear", *[f"spline{order}" for order in range(2, 8)])


class Spline(NamedTuple):
    """The options of a call."""

    order: int
    mode: Mode
    cval: Any
    prefilter: bool

    @property
    def filters(self) -> bool:
        """Whether the image must be prefiltered."""
        return self.prefilter and self.order > 1

    @property
    def pad(self) -> int:
        """The number of pixels that are added at each end of a line."""
        width = PAD if self.order <= 5 else PAD_OF_HIGH_ORDERS
        return width if self.filters and self.mode.pad else 0

    @property
    def options(self) -> dict[str, Any]:
        """The options of `grid_sample`.

        For order 0, SciPy mirrors the position before it is rounded, which affects ties.  The
        boundary "reflection" does the same.
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
    def outside(self) -> dict[str, Any]:
        """Further options of `grid_sample`, if positions outside give ``cval``."""
        return {"fill_value": self.cval, "extrapolate": False} if self.mode.fills else {}

    def suits(self, image: Any) -> bool:
        """Whether an image's integer dtype can represent ``cval``, or the mode does not need it."""
        needed = self.mode.fills or "constant" in (self.mode.boundary, self.mode.pad)
        if not needed or isinstance(self.cval, complex):
            return True
        name = backend_of(image=image).type_name(image.dtype)
        limits = (0, 1) if name == "bool" else (np.iinfo(name).min, np.iinfo(name).max)
        return bool(limits[0] <= self.cval <= limits[1] and self.cval == int(self.cval))

    @property
    def has_ties(self) -> bool:
        """Whether SciPy and `grid_sample` break some ties differently; see `is_tie`."""
        mode = self.mode
        return self.order == 0 and mode.boundary == "mirror" and not (mode.fills or mode.fold)

    def padded(self, x: Any) -> Any:
        """Convert positions, or an offset of positions, to positions in the padded image."""
        return x + self.pad if self.pad else x

    def sampled_positions(self, xp: Any, x: Any, n: int) -> Any:
        """Convert positions along an axis to those that are sampled; n includes padded pixels."""
        x = self.padded(x)
        inside = self.inside(x, n)
        if self.mode.fold:
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # for positions far away, or infinite
                x = self.mode.fold(xp, x, n)
        elif self.has_ties:
            x = xp.where(is_tie(xp, x, n), x + 0.5, x)
        # NaN counts as outside, and so do positions that rounding moved inside.
        return xp.where(inside, x, -1.0) if self.mode.fills else x

    def inside(self, x: Any, n: int) -> Any:
        """Whether positions are between the centres of the outermost pixels."""
        return (x >= 0) & (x <= n - 1)


def spline_of(order: Any, mode: Any, cval: Any, prefilter: Any) -> Spline:
    """Create the options of a call, or raise an error if they are not valid."""
    return Spline(check_order(order), find_mode(mode), check_number(cval), bool(prefilter))


def check_number(cval: Any) -> Any:
    """Return the value outside, which is one number, or an array or tensor without axes.

    Raises:
        TypeError: it is anything else; SciPy raises the same type.
    """
    if isinstance(cval, (int, float, complex)):
        return cval
    check_dense(cval=cval)
    check_constant(cval=cval)
    if getattr(cval, "shape", None) == ():
        number = cval.item()
        if isinstance(number, (int, float, complex, np.number)):
            return number
    shape = getattr(cval, "shape", None)
    got = f"shape {tuple(shape)}" if shape else repr(cval)
    raise TypeError(f"cval must be a number, got {got}")


def find_mode(mode: Any) -> Mode:
    """Find the mode of a name.

    Raises:
        RuntimeError: there is no such mode; SciPy raises the same type.
    """
    if not isinstance(mode, str) or mode not in MODES:
        known = ", ".join(map(repr, MODES))
        raise RuntimeError(f"mode: boundary mode not supported: {mode!r}; accepted: {known}")
    return MODES[mode]


def check_order(order: Any, lowest: int = 0) -> int:
    """Return the order of a spline, up to 5, as an int.

    Raises:
        RuntimeError: there is no such order; SciPy raises the same type.
    """
    if not lowest <= order <= 5:
        raise RuntimeError(f"order: spline order not supported: {order!r}; accepted: {lowest} to 5")
    return operator.index(order)
