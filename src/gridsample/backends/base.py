"""The protocol that the backend of every array library implements.

The operations (`gridsample.ops`) are written once, over a `Backend`.  A backend receives images as
(N, C, *spatial), values as (N, C, *out), grids as (N, *out, D), and the options as one checked
`gridsample.definitions.options.Options`.  `gridsample.backends.register` makes a backend known.

A backend derives from `Backend` and defines what is abstract.  The other functions have defaults,
for a library on the CPU without derivatives or special kernels, and are overridden where the
library can do more.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from gridsample.definitions.caches import cached_call
from gridsample.definitions.control_points import ControlPoints
from gridsample.definitions.knots import interval_of
from gridsample.definitions.operators import Operator
from gridsample.definitions.options import Averaging, Options, checked, fill_array, fill_numbers
from gridsample.definitions.request import Request
from gridsample.definitions.shapes import Shape
from gridsample.definitions.statistics import Statistic

# An array of the backend's library, and a dtype as the library represents it.
Array = Any
Type = Any
# Whether each gradient is needed, and the gradients, None in place of one that is not.
Needed = tuple[bool, ...]
Gradients = tuple[Array | None, ...]


def concatenate(xp: Any, arrays: Sequence[Array], axis: int) -> Array:
    """Join arrays along an axis, given the library's namespace."""
    # torch.concatenate is torch.cat without its rule for batches of gradients.
    return getattr(xp, "cat", xp.concatenate)(arrays, axis)


class PreparedCall:
    """A call for arrays of certain layouts, of which all but their memory is known.

    Attributes:
        checked: whether enough calls have been looked at for misuse.
    """

    __slots__ = ("checked",)

    def __init__(self) -> None:
        self.checked = False

    def stores_into(self, out: Any, *inputs: Array) -> bool:
        """Whether results can be stored in an array, which shares no memory with the inputs."""
        return False

    def run(self, image: Array, *points: Array, fill_value: Any = 0, out: Any = None) -> Array:
        """Compute the result, in an array if that is given."""
        raise NotImplementedError


class Backend(Protocol):
    """The functions of one array library.

    Attributes:
        xp: the library's namespace, for plain array work.
        is_host: whether arrays are simply memory of the host: NumPy's functions accept them, their
            values can be inspected, and results can be written in place.  Otherwise, an operation
            is not split into parts, returns new arrays, and keeps the precision of its input.
    """

    xp: Any
    is_host: bool

    # Arrays and types ------------------------------------------------------------------------

    @abstractmethod
    def asarrays(self, **arguments: Any) -> Sequence[Array]:
        """Convert the caller's arguments to arrays that the other functions accept.

        Raises:
            TypeError: an argument is not a dense array, or is from another library.
            ValueError: the arguments are on different devices.
        """
        ...

    def to_device(self, **arguments: Any) -> Sequence[Array]:
        """Convert as `asarrays` does, and copy the arrays to a device with kernels if necessary."""
        return self.asarrays(**arguments)

    def restore(self, result: Array | None, like: Any) -> Any:
        """Convert a result to the type and device of the argument ``like``; None stays None."""
        return result

    def shape(self, array: Array) -> Shape:
        """The shape of an array as integers, for checks."""
        return tuple(array.shape)

    def is_concrete(self, *arrays: Array) -> bool:
        """Whether arrays have numbers for sizes, and no program is being traced."""
        return True

    def host_view(self, array: Array) -> Any:
        """View an array in host memory as a NumPy array, without a copy, or return None."""
        return None

    def extents(self, size: Any) -> tuple[Any, Any]:
        """Return a size as numbers for checks, and as values for computations.

        The second is None if both are the same.  They differ while a program is traced for
        arbitrary sizes.
        """
        return size, None

    @abstractmethod
    def type_name(self, dtype: Type, name: str = "input") -> str:
        """The name of a dtype in NumPy, or "bfloat16"; errors mention the argument ``name``."""
        ...

    @abstractmethod
    def as_dtype(self, dtype: Any) -> Type | None:
        """Convert a dtype of the library or of NumPy, or a name, to a dtype; None for an array."""
        ...

    @abstractmethod
    def asarray(self, array: Any, like: Array) -> Array:
        """Convert an array of NumPy or of the library to an array on the device of ``like``."""
        ...

    @abstractmethod
    def type(self, name: str) -> Type:
        """The library's dtype of that name."""
        ...

    @abstractmethod
    def promote(self, *types: Type) -> Type:
        """The dtype of a product of these dtypes, by the library's own promotion rules."""
        ...

    @abstractmethod
    def astype(self, array: Array, dtype: Type) -> Array:
        """Convert an array to another dtype, without rounding or saturating integers."""
        ...

    @abstractmethod
    def permute(self, array: Array, axes: Sequence[int]) -> Array:
        """View an array with its axes in another order."""
        ...

    @abstractmethod
    def full(self, shape: Sequence[int], number: float, dtype: Type, like: Array) -> Array:
        """Create an array of equal numbers on the device of ``like``, possibly a view."""
        ...

    @abstractmethod
    def empty(self, shape: Sequence[int], dtype: Type, like: Array) -> Array:
        """Allocate a C-contiguous array on the device of ``like``, with any contents."""
        ...

    def inspects(self, array: Array) -> bool:
        """Whether the values of an array can be inspected cheaply.

        They cannot while a program is traced or transformed, and waiting for a GPU is not cheap.
        """
        return True

    def ratio(self, values: Array, count: Array) -> Array:
        """Compute values / count, or values where count is 0; values may be overwritten."""
        return values / self.xp.where(count == 0, 1, count)  # so that no derivative is NaN

    @abstractmethod
    def line(self, size: Any, align_corners: bool | None, dtype: Type, like: Array) -> Array:
        """Compute the coordinates of an axis's pixel centres, on the device of ``like``.

        See `gridsample.definitions.coords.coordinates`; if ``align_corners`` is None, the result is
        the indices.
        """
        ...

    @abstractmethod
    def affine_grid(self, theta: Array, out: Sequence[Any], align_corners: bool | None) -> Array:
        """Create the grid (N, *out, D) of affine maps (N, D, D + 1) in their dtype.

        `gridsample.backends.maps.grid_along` does this for any backend.
        """
        ...

    def complex(self, real: Array, imaginary: Array) -> Array:
        """Join real and imaginary parts, of one dtype and shape, as complex numbers."""
        ...

    def quiet(self) -> AbstractContextManager[Any]:
        """A context in which arithmetic does not warn."""
        return nullcontext()

    def custom_vjp(
        self,
        compute: Callable[[Sequence[Array], bool], Array],
        differentiate: Callable[[Array, Sequence[bool], Sequence[Array]], Sequence[Array | None]],
        arrays: Sequence[Array],
    ) -> Array:
        """Compute a function of arrays whose intermediate results are not kept for derivatives.

        ``compute(arrays, in_place)`` may write results in place if ``in_place``.
        ``differentiate(upstream, needed, arrays)`` computes the gradients of the arrays, with
        functions that can be differentiated again; None for those that are not needed.
        """
        return compute(arrays, False)

    def checkpoint(self, function: Callable[..., Array], arrays: Sequence[Array]) -> Array:
        """Compute a function of arrays, and again when its derivatives are needed.

        Unlike in `custom_vjp`, the function may also depend on arrays that are not its arguments.
        """
        return function(*arrays)

    # Sampling --------------------------------------------------------------------------------

    def resolve_options(self, image: Array, grid: Array, request: Request) -> Options:
        """Return the checked options for the caller's image and grid, with the fill value.

        See `checked` and `fill_numbers` in `gridsample.definitions.options`.  The backend may store
        the results of expensive computations in the field ``plan``.
        """
        resolved = checked(request, self.shape(image), self.shape(grid))
        channels = self.shape(image)[-1 if resolved.channels_last() else 1]
        used = resolved.may_fill()
        fill = fill_numbers(request.fill_value, request, used, image.dtype, channels)
        return resolved.changed(fill_value=fill)

    def layouts(self, *arrays: Any) -> Any:
        """Return everything about arrays but their entries, as a key for `prepare`.

        It is None if calls with these arrays cannot be prepared.
        """
        return None

    def prepare(self, request: Any, layouts: Any, size: Any, filled: bool) -> PreparedCall | None:
        """Prepare a call for arrays of some layouts; None if that does not pay.

        `prepared_call` keeps the calls.

        Args:
            request: a plain `Request`, to sample an image at the points of a grid or of maps, or a
                plain `ResizeRequest`.
            layouts: the result of `layouts`.
            size: the output's spatial shape for maps; None for a grid; a `Sizes` for resizing.
            filled: whether the call may have another fill value than 0.

        Raises:
            TypeError, ValueError: an option is not valid.
        """
        return None

    def by_library(self, image: Any, grid: Any, request: Request) -> Any:
        """Sample at a grid by the library's own function, where no kernels are; None elsewhere."""
        return None

    def check_out(self, out: Any, shape: Shape, image: Array, grid: Array) -> None:
        """Raise an error if ``out`` cannot store the result.

        Raises:
            TypeError: the library does not support ``out``.
            ValueError: it has the wrong shape or dtype, or shares memory with the arguments.
        """
        raise TypeError("out is accepted with NumPy arrays only; a new array is returned")

    def concatenate(self, arrays: Sequence[Array], axis: int) -> Array:
        """Join arrays along an axis."""
        return concatenate(self.xp, arrays, axis)

    @abstractmethod
    def gather(
        self, image: Array, grid: Array, options: Options, dtype: Type, out: Array | None = None
    ) -> Array:
        """Sample an image: (N, C, *out) in a dtype, written to ``out`` if that is given.

        With ``options.footprint``, results are means over footprints, here and in `scatter` and
        `backward`: see `gridsample.kernels`.

        Integer results are rounded half to even and saturate; they are the fill value at NaN.
        """
        ...

    def gathers(
        self, image: Array, grid: Array, options: Options, orders: Sequence[Shape], dtype: Type
    ) -> Array:
        """Compute derivatives of samples of several orders: (N, C, *out, orders)."""
        derivatives = [
            self.gather(image, grid, options.changed(order=order), dtype) for order in orders
        ]
        return self.xp.stack(derivatives, -1)

    @abstractmethod
    def scatter(
        self, values: Array, grid: Array, spatial: Shape, options: Options, dtype: Type
    ) -> Array:
        """Apply the transpose of gather, without a fill: (N, C, *spatial) in a dtype."""
        ...

    @abstractmethod
    def backward(
        self,
        values: Array,
        image: Array,
        grid: Array,
        options: Options,
        needed: Needed,
        dtype: Type,
    ) -> Gradients:
        """Compute the needed gradients of gather: image in ``dtype``, grid in its own dtype."""
        ...

    def affine(
        self, image: Array, theta: Array, out: Shape, options: Options, dtype: Type
    ) -> Array | None:
        """Gather at the points of affine maps, (N, D, D + 1), without a grid.

        The result is None if the backend cannot do this for these arrays and options, such as
        ``options.footprint``; the operation then creates a grid (`backends.maps.through_grid`).
        """
        return None

    def affine_backward(
        self,
        values: Array,
        image: Array,
        theta: Array,
        out: Shape,
        options: Options,
        needed: Needed,
        dtype: Type,
    ) -> Gradients | None:
        """Compute the needed gradients of `affine`; None if the backend cannot do this."""
        return None

    def lattice(
        self,
        image: Array,
        lattice: Array,
        places: ControlPoints,
        options: Options,
        dtype: Type,
    ) -> Array | None:
        """Gather at the points of a lattice, (N, *points, D), without a grid or derivatives.

        The result is None if the backend cannot do this for these arrays and options.
        """
        return None

    def lattice_backward(
        self,
        values: Array,
        image: Array,
        lattice: Array,
        places: ControlPoints,
        options: Options,
        needed: Needed,
        dtype: Type,
    ) -> Gradients | None:
        """Compute the gradients of `lattice` with respect to the image and the interpolated grid.

        They have no derivatives.  The result is None if the backend cannot do this.
        """
        return None

    def averages(self, arrays: Sequence[Array], options: Options, detached: bool) -> bool:
        """Whether `average` supports these arrays and options.

        If ``detached``, it does not support them where derivatives of the arrays will be needed.
        """
        return False

    def average(
        self, arrays: Sequence[Array], options: Options, averaging: Averaging
    ) -> tuple[Array, Array | None, bool]:
        """Gather means over the pixels that count.

        Args:
            arrays: an image (N, C, *spatial); a grid, or affine maps; and, if pixels have weights,
                (N or 1, 1 or C, *spatial).
            options: the checked options.
            averaging: which pixels count.

        Returns:
            The means, in the image's dtype; the sums of weights, in that of sums, for
            ``averaging.returns_weights``, otherwise None; and whether some weight that was read may
            be negative or not finite.  They are not differentiable.
        """
        raise TypeError(f"{type(self).__name__} has no kernels that average")

    def average_backward(
        self,
        values: Array,
        arrays: Sequence[Array],
        options: Options,
        averaging: Averaging,
        needed: Needed,
    ) -> tuple[Gradients, bool]:
        """Compute the needed gradients of `average`, given upstream ``values``.

        Returns:
            The gradients of the image and of the points in their dtypes, and that of the weights in
            the dtype of sums; and whether some weight may be negative or not finite.  They cannot
            be differentiated again.
        """
        raise TypeError(f"{type(self).__name__} has no kernels that average")

    def detached(self, array: Array) -> Array:
        """Return an array as a constant, which has no derivatives."""
        return array

    def scatter_maximum(self, values: Array, index: Array, count: int) -> Array:
        """Return the greatest value at each index, (N, count), and -inf at those without any.

        Values and their indices, whole numbers below ``count`` in any dtype, are (N, P), and
        `detached`.
        """
        raise TypeError(f"{type(self).__name__} has no function for the greatest of some values")

    def fused(self, operator: Operator, arrays: Sequence[Array], options: Any) -> Array:
        """Compute a fused operator, of checked arrays and options."""
        return operator.composed(self, arrays, options)

    def fused_vjp(
        self,
        operator: Operator,
        upstream: Array,
        arrays: Sequence[Array],
        options: Any,
        needed: Needed,
    ) -> Sequence[Array | None]:
        """Compute the needed gradients of a fused operator, in the dtypes of its arrays."""
        return operator.composed_vjp(self, upstream, arrays, options, needed)

    def look_up(
        self,
        image: Array,
        table: Array,
        on_simplices: bool,
        factors: tuple[Sequence[float], Sequence[float], float],
        threads: int | None,
    ) -> Array | None:
        """Look the pixels of an image up in a table, (N, K, *spatial), if there is a kernel.

        See `gridsample.kernels.colour_tables.look_up`.
        """
        return None

    def positions(self, axis: Array, points: Array) -> Array:
        """Return where points are among the coordinates of an axis, in pixels.

        Args:
            axis: the coordinates, float64, which increase or decrease; they may have gradients.
            points: of any shape, float64.
        """
        xp = self.xp
        sign = xp.where(axis[-1] > axis[0], 1.0, -1.0)
        sought = xp.reshape(points * sign, (-1,))
        index = xp.reshape(interval_of(xp, axis * sign, sought), self.shape(points))
        left, right = xp.take(axis, index), xp.take(axis, index + 1)
        with self.quiet():  # points may be infinite
            return index + (points - left) / (right - left)

    def cell_statistics(
        self,
        image: Array,
        corners: Array,
        weights: Array | None,
        statistic: Statistic,
        threads: int | None,
    ) -> Array:
        """Compute a statistic of cells, (N, C, rows, columns), without gradients.

        See `gridsample.kernels.cell_statistics.compute`.

        Raises:
            TypeError: the arrays are not in memory that the kernel reads, or need gradients.
        """
        raise TypeError(
            "cell_statistics takes NumPy arrays and tensors on the CPU; convert the arrays by "
            "numpy.asarray"
        )

    def fill(self, image: Array, options: Options) -> Array:
        """The fill value in an image's dtype, (1, C or 1, 1, ...), so that it broadcasts over it.

        It is only called if there is a fill value, and for floating-point or complex images.
        """
        return self.asarray(fill_array(options.fill_value, image.dtype, image.ndim), image)

    @abstractmethod
    def prefilter(
        self,
        image: Array,
        order: int,
        extended: Sequence[str],
        axes: Sequence[int],
        adjoint: bool,
        threads: int | None,
    ) -> Array:
        """Compute B-spline coefficients along some axes, or the transpose, in the sums' dtype.

        ``extended`` are the boundaries of the filter: see `gridsample.definitions.splines`.
        """
        ...

    @abstractmethod
    def resize(self, image: Array, options: Any, transposed: bool) -> Array:
        """Resize (N, C, *spatial), or apply the adjoint.

        ``options`` is a `gridsample.definitions.options.Resizing`.
        """
        ...


def prepare_call(
    backend: Backend, request: Any, layouts: Any, size: Any = None, filled: bool = False
) -> PreparedCall | None:
    """Return the prepared call of a plain, `shared` request, which is kept; None for others.

    See `Backend.prepare`; ``layouts`` is the result of `Backend.layouts`.
    """
    if layouts is None:
        return None
    return backend.prepare(request, layouts, size, filled)


# The type says that a backend can be a key, which a protocol does not say.
prepared_call: Callable[..., PreparedCall | None] = cached_call(1024)(prepare_call)
