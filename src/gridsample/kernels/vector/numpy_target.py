"""Values as NumPy arrays: formulas of values run at once, for tests and for readers.

NumPy's operators and functions are those of `Value` already, so most formulas need no target but
NumPy.  `Lanes` is an array that also has the methods of `Value`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.kernels.vector.kinds import Kind, kind_of

Array = np.ndarray[Any, Any]


class Lanes(Array):
    """An array with the methods of `Value`; one number has the shape (1,).

    There is no bfloat16, which NumPy lacks, and no memory.

    Example:
        >>> from gridsample.kernels.vector.numpy_target import Lanes
        >>> numbers = Lanes.of([0.5, 1.5, -7.25, 300.0], "float32")
        >>> numbers.saturate("uint8")
        Lanes([  0,   2,   0, 255], dtype=uint8)
        >>> (numbers > 1).select(numbers, 1.0).sum()
        Lanes([303.5], dtype=float32)
    """

    @classmethod
    def of(cls, numbers: Any, kind: Any = None) -> Lanes:
        """View or convert numbers as lanes."""
        dtype = None if kind is None else np.dtype(kind_of(kind).name)
        return np.atleast_1d(np.asarray(numbers, dtype)).view(cls)

    @property
    def kind(self) -> Kind:
        """The element type."""
        return kind_of(self.dtype)

    @property
    def lanes(self) -> int:
        """How many numbers there are."""
        return self.size

    def __getitem__(self, lane: Any) -> Any:
        """The number in one lane."""
        return super().__getitem__(slice(lane, lane + 1) if isinstance(lane, int) else lane)

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        result = super().__array_function__(function, types, inputs, options)
        return Lanes.of(result) if function is np.where else result

    # Functions ------------------------------------------------------------------------------------

    def floor(self) -> Any:
        """Round down."""
        return np.floor(self)

    def rint(self) -> Any:
        """Round to the nearest integer, ties to even."""
        return np.rint(self)

    def sqrt(self) -> Any:
        """The square root."""
        return np.sqrt(self)

    def abs(self) -> Any:
        """The absolute value."""
        return np.abs(self)

    def mul_add(self, factor: Any, summand: Any) -> Lanes:
        """``self * factor + summand``; a float32 is rounded once, but for rare ties."""
        wide = self.astype(np.float64) * factor + summand
        return Lanes.of(wide.astype(self.dtype))

    def minimum(self, limit: Any) -> Any:
        """The smaller number; NaN if either is NaN."""
        return np.minimum(self, limit)

    def maximum(self, limit: Any) -> Any:
        """The larger number; NaN if either is NaN."""
        return np.maximum(self, limit)

    def select(self, a: Any, b: Any) -> Lanes:
        """Choose a where this condition holds, otherwise b."""
        return Lanes.of(np.where(self, a, b))

    # Conversion -----------------------------------------------------------------------------------

    def to(self, kind: Any) -> Lanes:
        """Convert to another kind, as C does."""
        return Lanes.of(self, kind)

    def saturate(self, kind: Any) -> Lanes:
        """Round to the nearest number (ties to even) that a kind holds; NaN becomes 0 or False."""
        kind = kind_of(kind)
        rounded = np.where(np.isnan(self), 0, np.rint(self))
        if kind.name == "bool":
            return Lanes.of(rounded > 0)
        limits = np.iinfo(kind.name)
        # 2.0 ** bits is exact, where the greatest integer need not be.
        above, below = rounded >= 2.0 * (limits.max // 2 + 1), rounded <= float(limits.min)
        rounded = np.where(above | below, 0, rounded).astype(kind.name)
        return Lanes.of(np.where(above, limits.max, np.where(below, limits.min, rounded)), kind)

    def round_to(self, kind: Any) -> Lanes:
        """Convert results to the kind that is stored: floats to integers as `saturate` does."""
        rounds = self.kind.is_float and not kind_of(kind).is_float
        return self.saturate(kind) if rounds else self.to(kind)

    def bitcast(self, kind: Any) -> Lanes:
        """Read the same bits as another kind, with as many lanes as fill them."""
        kind = kind_of(kind)
        is_bool = self.kind.name == "bool"
        bits = np.packbits(self, bitorder="little") if is_bool else np.asarray(self)
        if kind.name == "bool":
            return Lanes.of(np.unpackbits(bits.view(np.uint8), bitorder="little").astype(bool))
        return Lanes.of(bits.view(kind.name))

    # Lanes ----------------------------------------------------------------------------------------

    def splat(self, lanes: int) -> Lanes:
        """The same number in each of ``lanes`` lanes."""
        return Lanes.of(np.broadcast_to(self, lanes))

    def shuffle(self, picked: Sequence[int | None], other: Lanes | None = None) -> Lanes:
        """Pick lanes: of these, then (from index ``lanes`` on) of ``other``; None is any."""
        numbers = self if other is None else np.concatenate([self, other])
        return Lanes.of(np.asarray(numbers)[[lane or 0 for lane in picked]])

    def freeze(self) -> Lanes:
        """The same numbers: no lane is undefined here."""
        return self

    def insert(self, number: Any, lane: int) -> Lanes:
        """A copy with another number in one lane."""
        result = self.copy()
        result[lane : lane + 1] = number
        return result

    def any(self, *_: Any, **__: Any) -> Lanes:  # type: ignore[override]
        """Whether a condition holds in any lane."""
        return Lanes.of(np.asarray(self).any())

    def all(self, *_: Any, **__: Any) -> Lanes:  # type: ignore[override]
        """Whether a condition holds in all lanes."""
        return Lanes.of(np.asarray(self).all())

    def sum(self, *_: Any, **__: Any) -> Lanes:  # type: ignore[override]
        """The sum of all lanes, as a tree of pairwise sums."""
        total = np.asarray(self)
        while total.size > 1:
            total = total[: total.size // 2] + total[total.size // 2 :]
        return Lanes.of(total)
