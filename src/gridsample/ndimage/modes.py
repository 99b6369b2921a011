"""SciPy's modes, and how a call samples by one of them."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from gridsample.definitions.checks import check_constant
from gridsample.definitions.methods import NEAREST

PAD = 12  # pixels that SciPy adds before the prefilter where a mode has none of its own


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
