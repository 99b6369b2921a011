"""Array libraries: finds the library of an array, and the `Backend` that serves it.

A backend is registered under the name of its library's package, with a loader (`register`).  The
loader imports the library, and is called only when an array comes from that library.  No code above
this package depends on the library of an array.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from gridsample.backends.base import Backend
from gridsample.backends.numpy import BACKEND as NUMPY
from gridsample.definitions.caches import cached_call
from gridsample.definitions.request import Request, shared
from gridsample.kernels import forks
from gridsample.messages.links import unknown_keyword

__all__ = [
    "Backend",
    "backend_of",
    "constructor",
    "is_foreign",
    "operation",
    "overridable",
    "register",
]

Loader = Callable[[], Backend]
P = ParamSpec("P")
R = TypeVar("R")


def load_torch() -> Backend:
    """Load the backend of torch's tensors."""
    import_torch_backend()
    from gridsample.backends import torch

    return torch.BACKEND


def load_cupy() -> Backend:
    """Load the backend of CuPy's arrays, which torch's kernels serve."""
    import_torch_backend()
    from gridsample.backends.torch import dlpack

    return dlpack.BACKEND


def load_jax() -> Backend:
    """Load the backend of JAX arrays; a fork in another thread waits until that is done."""
    if "gridsample.backends.jax" not in sys.modules:
        with forks.held():
            importlib.import_module("gridsample.backends.jax")
    from gridsample.backends import jax

    return jax.BACKEND


def import_torch_backend() -> None:
    """Import the backend of torch's tensors; a fork in another thread waits until that is done.

    A compiler cannot trace through the lock, but imports what the code after this call imports.
    """
    if not is_traced() and "gridsample.backends.torch" not in sys.modules:
        with forks.held():
            importlib.import_module("gridsample.backends.torch")


def is_traced() -> bool:
    """Whether torch.compile or torch.export traces this code.

    Traced code must neither change this module's variables nor depend on what has been imported:
    the compiled program would be valid only until the first import.
    """
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


# The loaders, by the name of the package that defines the array's class or one of its base classes.
LOADERS: dict[str, Loader] = {
    "torch": load_torch,
    "cupy": load_cupy,
    "jax": load_jax,
    "jaxlib": load_jax,
}
# Packages whose arrays are rejected instead of being converted to NumPy arrays.
FOREIGN = ["dask", "tensorflow", "PIL"]
HINTS = {
    "dask": "; gridsample.dask has functions for Dask arrays",
    "PIL": "; convert it: np.asarray({0})",
}
# Torch's `has_torch_function` after its first use, because importing it takes longer than a call.
_has_torch_function: list[Callable[..., bool]] = []
# The backends that may repeat a call, by the class of the image; torch's after their first use.
_repeaters: dict[type, Backend] = {np.ndarray: NUMPY}


def register(package: str, loader: Loader) -> None:
    """Register a backend for the arrays of a package.

    Args:
        package: the name of the top-level package that defines the class of the arrays.
        loader: a function that returns the backend; it is called for every call with such an array.
    """
    LOADERS[package] = loader


def library(array: Any) -> str:
    """The package of an array's type, if it has a backend or is foreign; otherwise "numpy"."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.nn.Parameter):
        return "torch"  # a compiler cannot look at the bases of its class
    for cls in type(array).__mro__:
        name: str = cls.__module__.partition(".")[0]
        if name in LOADERS or name in FOREIGN:
            return name
    return "numpy"


def is_foreign(array: Any) -> bool:
    """Whether an array is from a known library that has no backend, so that `backend_of` fails."""
    if type(array) is np.ndarray:
        return False
    name = library(array)
    return name in FOREIGN and name not in LOADERS


def backend_of(**arrays: Any) -> Backend:
    """Find the backend of the arrays' library; objects of no known library use NumPy's.

    Raises:
        TypeError: an array is from a library that has no backend.
    """
    package = "numpy"
    for name, array in arrays.items():
        if type(array) is np.ndarray:
            continue  # the usual case, checked first
        source = library(array)
        if source in LOADERS:
            package = source
        elif source in FOREIGN:
            raise TypeError(
                f"{name} is a {type(array).__module__}.{type(array).__qualname__}; "
                "accepted: NumPy arrays, torch tensors, JAX arrays and, where torch is installed, "
                f"CuPy arrays{HINTS.get(source, '').format(name)}"
            )
    return NUMPY if package == "numpy" else LOADERS[package]()


def overridable(arrays: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a decorator of public functions, whose calls a `__torch_function__` may override.

    Args:
        arrays: how many of the function's first arguments are arrays; their classes, and torch's
            modes, may override a call.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = tuple(inspect.signature(function).parameters)
        names = [*parameters[:arrays]]

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            check_keywords(function.__name__, kwargs, parameters)
            if is_overridden(names, args, kwargs):
                overridden: R = call_torch_function(call, args, kwargs, names)
                return overridden
            return function(*args, **kwargs)

        return call

    return decorate


def constructor(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate the ``__init__`` of a class, so that an unknown option gets the same error.

    For torch's modules, whose own class says only that there is no such option.
    """
    _, *names = inspect.signature(function).parameters
    name = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        check_keywords(name, kwargs, names)
        return function(*args, **kwargs)

    return call


def operation(
    run: Callable[..., Any],
    arrays: int,
    record: type[Any] = Request,
    shortcut: Callable[..., Any] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a decorator of public functions that are their signature and documentation alone.

    What such a function does is ``run``.  The arguments that are fields of a record are collected
    in one, the request; the others are passed by name.

    Args:
        run: takes the request and the other arguments, and returns the result.
        arrays: as for `overridable`.
        record: the record of options, such as `gridsample.definitions.request.Request`.
        shortcut: computes a call of ordinary arrays by a prepared call.  It takes the backend, a
            `shared` request, the arguments before the options, and by name those that are no
            options and the fill value; and returns the result, or None if ``run`` is needed.  It
            comes before all else: after a convolution, Python's objects have left the processor's
            cache, and each that a call needs costs as much as sampling hundreds of points.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        binding = Binding(function, record)
        names, n, given = binding.names[:arrays], len(binding.first), binding.given
        shared_request = binding.shared_request

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            torch = sys.modules.get("torch")
            # Traced code looks up nothing: see `is_traced`.
            if shortcut is not None and (torch is None or not torch.compiler.is_dynamo_compiling()):
                backend = _repeaters.get(type(args[0] if args else kwargs.get(names[0])))
                if backend is not None:
                    first, options, others = args[:n], args[n:], _NONE
                    named: dict[str, Any] | None = kwargs
                    if len(first) < binding.required or not given.isdisjoint(kwargs):
                        named, others = binding.split(len(first), kwargs)
                    try:
                        known = None if named is None else shared_request(*options, **named)
                    except TypeError:  # of `hash`, or for what is no option: see below
                        known = None
                    result: R | None = shortcut(backend, known, *first, **others) if known else None
                    if result is not None:
                        return result
            check_keywords(function.__name__, kwargs, binding.names)
            if is_overridden(names, args, kwargs):
                overridden: R = call_torch_function(call, args, kwargs, names)
                return overridden
            function(*args, **kwargs)  # an error for too many arguments, or too few
            values = {**binding.defaults, **dict(zip(binding.names, args, strict=False)), **kwargs}
            request = record(**{name: values.pop(name) for name in binding.options})
            computed: R = run(request, **values)
            return computed

        return call

    return decorate


class Binding:
    """How the arguments of a public function become a request and others.

    Attributes:
        names: the names of all arguments.
        defaults: the defaults, by name.
        options: the names of those that are fields of the record.
        first: the names of those before the options: arrays, and sizes.
        required: how many of these have no default.
        given: the names of those by which no prepared call is found: all others, and fill values.
        shared_request: returns the shared request for options by position and by name.
    """

    def __init__(self, function: Callable[..., Any], record: type[Any]) -> None:
        parameters = inspect.signature(function).parameters
        self.names = [*parameters]
        self.defaults = {
            name: parameter.default
            for name, parameter in parameters.items()
            if parameter.default is not parameter.empty
        }
        self.options = [name for name in self.names if name in record._fields]
        self.first = self.names[: self.names.index(self.options[0])]
        self.required = len([name for name in self.first if name not in self.defaults])
        self.given = {*self.names} - {*self.options} | {"fill_value"}
        positional = [
            name
            for name in self.options
            if parameters[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]

        @cached_call(512, typed=True)
        def shared_request(*values: Any, **named: Any) -> Any:
            options = dict(zip(positional, values, strict=False)) | named
            if len(options) < len(values) + len(named) or not options.keys() <= {*self.options}:
                raise TypeError("the function says it better")
            request = shared(record(**options))
            if request is None:
                raise TypeError("an array must not be kept")
            return request

        self.shared_request = shared_request

    def split(
        self, count: int, kwargs: dict[str, Any]
    ) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """Return options, and other arguments, of a call by name.

        There are no options if an argument is missing, or is one of the ``count`` by position.
        """
        options, others, given = dict[str, Any](), dict[str, Any](), self.given
        for name, value in kwargs.items():
            (others if name in given else options)[name] = value
        twice = not others.keys().isdisjoint(self.first[:count])
        if twice or not others.keys() >= {*self.first[count : self.required]}:
            return None, others
        return options, others


_NONE: dict[str, Any] = {}


def check_keywords(function: str, kwargs: dict[str, Any], names: Sequence[str]) -> None:
    """Raise an error for an argument that a function does not have."""
    for name in kwargs:
        if name not in names:
            raise unknown_keyword(function, name, names)


def is_overridden(names: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether the class of one of the first arguments, or a mode of torch's, overrides a call."""
    n = len(names)
    # For NumPy arrays, this loop is all that a call costs.
    for array in args[:n] if len(args) >= n else (*args, *kwargs.values()):
        if type(array) is not np.ndarray and hasattr(type(array), "__torch_function__"):
            named = [kwargs[name] for name in names if name in kwargs]
            return torch_function_check()((*args[:n], *named))
    return False


def torch_function_check() -> Callable[[Sequence[Any]], bool]:
    """Return torch's `has_torch_function`: whether an array or a mode overrides a call."""
    traced = is_traced()  # first: a program that depended on the list would be compiled again
    if not traced and _has_torch_function:
        return _has_torch_function[0]
    backend = load_torch()
    from gridsample.backends.torch import internals, operators

    if not traced:
        _has_torch_function.append(internals.has_torch_function)
        _repeaters.update(dict.fromkeys(operators.CLASSES, backend))
    return internals.has_torch_function


def call_torch_function(
    function: Any, args: Any, kwargs: dict[str, Any], names: Sequence[str]
) -> Any:
    """Pass a call to `__torch_function__`: the arrays of these names in order, the rest by name."""
    from gridsample.backends.torch import internals

    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    options = dict(bound.arguments)
    arrays = [options.pop(name) for name in names]
    return internals.handle_torch_function(function, arrays, *arrays, **options)
