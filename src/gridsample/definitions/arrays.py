"""The types of arrays in public signatures: what goes in comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy.typing as npt


class AnyArray(Protocol):
    """What arrays, tensors and JAX arrays have in common."""

    @property
    def shape(self) -> Any:
        """The number of entries along each axis."""
        ...

    @property
    def dtype(self) -> Any:
        """The type of an entry."""
        ...

    @property
    def ndim(self) -> int:
        """The number of axes."""
        ...


ArrayT = TypeVar("ArrayT", bound=AnyArray)
# Arrays, and what NumPy makes an array of.
ArrayLike = npt.ArrayLike | AnyArray
# A value outside an image, or one for each channel.
Fill = complex | Sequence[complex] | AnyArray
