"""A backend for arrays of a made-up class, over the reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridsample.backends.base import Backend
from gridsample.backends.maps import grid_along
from gridsample.definitions import tables
from gridsample.definitions.checks import as_array
from gridsample.definitions.coords import coordinates
from gridsample.definitions.methods import find_method
from gridsample.kernels import reference
from gridsample.kernels.reference import splines


class Toy:
    """An array with just the operations that backends need."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = np.asarray(numbers)
        self.shape, self.dtype, self.ndim = self.numbers.shape, self.numbers.dtype, np.ndim(numbers)

    def reshape(self, *shape: Any) -> Toy:
        return Toy(self.numbers.reshape(*shape))

    def __bool__(self) -> bool:
        return bool(self.numbers)


OPERATORS = "add sub mul truediv matmul getitem and or lt le gt ge eq"
for name in [f"__{word}__" for word in OPERATORS.split()]:
    setattr(Toy, name, lambda a, b, name=name: Toy(getattr(a.numbers, name)(bare(b))))


def bare(value: Any) -> Any:
    """The numbers of a Toy, also where it is in a list."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(bare, value))
    return value.numbers if isinstance(value, Toy) else value


class Namespace:
    def __init__(self, module: Any = np) -> None:
        self.module = module

    @property
    def linalg(self) -> Namespace:
        return Namespace(np.linalg)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.module, name)

        def call(*positional: Any, **named: Any) -> Any:
            result = function(*map(bare, positional), **named)
            return [*map(Toy, result)] if isinstance(result, (list, tuple)) else Toy(result)

        return call


def as_reference(options: Any) -> tuple[Any, dict[str, Any]]:
    assert options.footprint is None  # the toy samples points
    modes = [find_method(name).name for name in options.mode]
    names = modes, options.padding_mode, options.align_corners
    return names, {"coords": options.coords, "extrapolate": options.ends or True}


class ToyBackend(Backend):
    """A backend over `gridsample.kernels.reference`."""

    xp, is_host = Namespace(), False

    def asarrays(self, **arrays: Any) -> Any:
        return [x if isinstance(x, Toy) else Toy(as_array(x, k)) for k, x in arrays.items()]

    type_name = staticmethod(lambda dtype, name="input": dtype.name)
    type = as_dtype = staticmethod(np.dtype)
    asarray = staticmethod(lambda value, like: Toy(bare(value)))
    empty = staticmethod(lambda shape, dtype, like: Toy(np.empty(shape, dtype)))
    promote = staticmethod(np.result_type)
    astype = staticmethod(lambda array, dtype: Toy(array.numbers.astype(dtype)))
    permute = staticmethod(lambda array, axes: Toy(array.numbers.transpose(axes)))
    full = staticmethod(lambda shape, number, dtype, like: Toy(np.full(shape, number, dtype)))
    affine_grid = grid_along

    def line(self, size: int, align_corners: bool | None, dtype: Any, like: Toy) -> Toy:
        places = np.arange(size) if align_corners is None else coordinates(size, align_corners)
        return Toy(places.astype(dtype))

    def gather(self, image: Toy, grid: Toy, options: Any, dtype: Any, out: None = None) -> Toy:
        names, more = as_reference(options)
        more["fill"] = options.fill_value or 0
        result = reference.gather(image.numbers, grid.numbers, *names, options.order, **more)
        return stored(result, dtype)

    def scatter(self, values: Toy, grid: Toy, spatial: Any, options: Any, dtype: Any) -> Toy:
        names, more = as_reference(options)
        names = (*names, options.order)
        result = reference.scatter(values.numbers, grid.numbers, spatial, *names, **more)
        return Toy(result.astype(dtype))

    def backward(self, values: Toy, image: Toy, grid: Toy, options: Any, *rest: Any) -> Any:
        needed, dtype = rest
        names, more = as_reference(options)
        more["fill"] = options.fill_value or 0
        both = reference.gradients(values.numbers, image.numbers, grid.numbers, *names, **more)
        every = zip(both, (dtype, grid.dtype), needed, strict=True)
        return [
            Toy(gradient.astype(element_type)) if need else None
            for gradient, element_type, need in every
        ]

    def fill(self, image: Toy, options: Any) -> Toy:
        numbers = np.array(options.fill_value, image.dtype)
        return Toy(numbers.reshape(1, -1, *(1,) * (image.ndim - 2)))

    def prefilter(self, image: Toy, order: int, extended: Any, axes: Any, *rest: Any) -> Toy:
        adjoint, _ = rest
        wide = np.result_type(image.dtype, np.float32)
        result = image.numbers.astype(wide)
        for name, axis in zip(extended, axes, strict=True):
            options = (f"spline{order}",), (name,), False
            matrix, _ = splines.at_pixels(image.shape[axis : axis + 1], *options)
            result = along(result, axis, np.linalg.inv(matrix.T if adjoint else matrix))
        return Toy(result.astype(wide))

    def resize(self, image: Toy, options: Any, transposed: bool) -> Toy:
        result = image.numbers
        for axis, axis_map in enumerate(tables.axis_maps(image.shape[2:], options, transposed)):
            result = along(result, axis + 2, axis_map.dense())
        return stored(result, image.dtype)


def stored(numbers: Any, dtype: Any) -> Toy:
    """Numbers in a type; integers are rounded and saturate."""
    if dtype.kind in "iu" and numbers.dtype.kind == "f":
        numbers = np.rint(numbers).clip(np.iinfo(dtype).min, np.iinfo(dtype).max)
    return Toy(numbers.astype(dtype))


def along(numbers: Any, axis: int, matrix: Any) -> Any:
    """A matrix times an array along one of its axes."""
    return np.moveaxis(np.tensordot(matrix, numbers, ([1], [axis])), 0, axis)


BACKEND = ToyBackend()
