"""What an array library has to bring so that every public operation works on its arrays.

The operations (`gridsample.ops`) are written once, over a `Backend`.  Images reach a backend as
planes, (N, C, *spatial), values as (N, C, *out), grids as (N, *out, D); how to sample is a checked
`gridsample.definitions.options.Options`, handed on whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from gridsample.definitions.options import Options
from gridsample.definitions.plan import Shape

# An array of the backend's library, and a type of its numbers as the library writes it.
Array = Any
Type = Any


class Backend(Protocol):
    """The functions of one array library.

    Attributes:
        xp: the library's namespace, for plain array work.
        plain: whether arrays are the host's memory, and no more: NumPy's functions take them, their
            numbers can be looked at, and results can be written in place.  Elsewhere an operation
            is done in one piece, makes new arrays, and keeps the precision of its numbers.
    """

    xp: Any
    plain: bool

    # Arrays and types ------------------------------------------------------------------------

    def take(self, **given: Any) -> Sequence[Array]:
        """The caller's arguments as arrays that the other functions take.

        Raises:
            TypeError: one is no dense array, or is from another library.
            ValueError: they are not on one device.
        """
        ...

    def bring(self, **given: Any) -> Sequence[Array]:
        """As `take`, and where the kernels reach the arrays; copied, if they must be."""
        ...

    def give(self, result: Array | None, like: Any) -> Any:
        """A result as the caller has it, whose argument is ``like``; None stays None."""
        ...

    def shape(self, array: Array) -> Shape:
        """The shape of an array as integers, to be checked."""
        ...

    def extents(self, size: Any) -> tuple[Any, Any]:
        """A size as numbers to be checked, and as what is to be computed with, or None for those.

        They are not the same in a program that is traced for any size.
        """
        ...

    def type_name(self, dtype: Type, name: str = "input") -> str:
        """The type's name in NumPy, or "bfloat16"; ``name`` is the argument's, for an error."""
        ...

    def as_dtype(self, given: Any) -> Type | None:
        """The library's type for one of its own, one of NumPy's or a name; None for an array."""
        ...

    def asarray(self, given: Any, like: Array) -> Array:
        """An array of the library beside ``like``, of one of NumPy's or of its own."""
        ...

    def type(self, name: str) -> Type:
        """The library's type of that name."""
        ...

    def promote(self, *types: Type) -> Type:
        """The type of a product of numbers of these types, by the library's own rules."""
        ...

    def astype(self, array: Array, dtype: Type) -> Array:
        """The array in another type; integers are neither rounded nor saturated."""
        ...

    def permute(self, array: Array, axes: Sequence[int]) -> Array:
        """The array with its axes in another order: a view."""
        ...

    def full(self, shape: Sequence[int], number: float, dtype: Type, like: Array) -> Array:
        """An array of one number, which need not take more memory than that, beside ``like``."""
        ...

    def ratio(self, values: Array, count: Array) -> Array:
        """values / count, and the values as they are where count is 0; the values may be lost."""
        ...

    def line(self, size: Any, align_corners: bool | None, dtype: Type, like: Array) -> Array:
        """`gridsample.definitions.plan.coordinates` beside ``like``; the indices for None."""
        ...

    def quiet(self) -> AbstractContextManager[Any]:
        """A block in which arithmetic does not warn."""
        ...

    # Sampling --------------------------------------------------------------------------------

    def settle(self, image: Array, grid: Array, options: Options) -> Options:
        """The checked record for the caller's image and grid, with its fill value.

        `gridsample.definitions.options.checked` and `fill_numbers` say what that is.  What takes
        long to work out may be kept in the record's ``plan``.
        """
        ...

    def whole(self, image: Any, grid: Any, options: Options) -> Any:
        """A plain `grid_sample` in a shorter way, or None, which is always right."""
        ...

    def check_out(self, out: Any, shape: Shape, image: Array, grid: Array) -> None:
        """Refuse an ``out`` that cannot take a result of the image's type.

        Raises:
            TypeError: the library takes none.
            ValueError: it has another shape or type, or is memory of the arguments.
        """
        ...

    def gather(
        self, image: Array, grid: Array, how: Options, dtype: Type, out: Array | None = None
    ) -> Array:
        """Sample: (N, C, *out) in a type, in ``out`` where one is given.

        Samples of integers are rounded half to even and saturate, and are the fill at NaN.
        """
        ...

    def gathers(
        self, image: Array, grid: Array, how: Options, orders: Sequence[Shape], dtype: Type
    ) -> Array:
        """Derivatives of samples, of several orders: (N, C, *out, orders)."""
        ...

    def scatter(
        self, values: Array, grid: Array, spatial: Shape, how: Options, dtype: Type
    ) -> Array:
        """The transpose of gather, without a fill: (N, C, *spatial) in a type."""
        ...

    def backward(
        self, values: Array, image: Array, grid: Array, how: Options, needed: tuple[bool, bool],
        dtype: Type,
    ) -> tuple[Array | None, Array | None]:  # fmt: skip
        """Both gradients of gather, where needed: the image's in a type, the grid's in its own."""
        ...

    def affine(
        self, image: Array, theta: Array, out: Shape, how: Options, dtype: Type
    ) -> Array | None:
        """Gather at the points of affine maps, (N, D, D + 1), without a grid; None if it cannot."""
        ...

    def affine_backward(
        self, values: Array, image: Array, theta: Array, out: Shape, how: Options,
        needed: tuple[bool, bool], dtype: Type,
    ) -> tuple[Array | None, Array | None] | None:  # fmt: skip
        """Both gradients of `affine`, where needed; None if it cannot."""
        ...

    def prefilter(
        self, image: Array, order: int, boundaries: Sequence[str], axes: Sequence[int],
        align_corners: bool, adjoint: bool, threads: int | None,
    ) -> Array:  # fmt: skip
        """B-spline coefficients along some axes, or the transpose, in the type of the sums."""
        ...

    def resize(self, image: Array, how: Any, transposed: bool) -> Array:
        """Resize (N, C, *spatial) as a `gridsample.ops.resizing.Resizing` says, or the adjoint."""
        ...
