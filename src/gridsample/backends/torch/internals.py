"""All uses of torch's private interfaces.

`install` replaces functions of `torch.nn.functional`.  It replaces the code of torch's function
objects instead of the objects themselves.  Functions that were imported earlier, that are in a
table of `__torch_function__` handlers, or that `torch.fx`, `torch.compile` or pickle know by
identity therefore remain the same objects.  TorchScript compiles a function from its source, which
it finds by the file and line in the function's code.  These are not changed, so TorchScript still
compiles torch's source.
"""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.autograd import forward_ad
from torch.autograd.forward_ad import _set_fwd_grad_enabled as forward_gradients
from torch.autograd.function import _SingleLevelFunction as SingleLevelFunction
from torch.compiler import is_dynamo_compiling
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function

__all__ = [
    "FunctionalTensorMode",
    "SingleLevelFunction",
    "apply_rule",
    "as_integer",
    "autocast_is_enabled",
    "constant_in_graphs",
    "dispatch_keys",
    "eager_keys",
    "forward_gradients",
    "handle_torch_function",
    "has_kernel",
    "has_torch_function",
    "install",
    "is_observed",
    "is_tracing",
    "memory_format_of",
    "originals",
    "redispatch",
    "redispatch_forward",
    "replace_code",
    "restore",
    "shape_of",
    "transforms_are_active",
    "untraced",
    "warning_of",
]

# The object whose methods replace torch's functions; see `install`.
_gridsample: Any = None


# The code of torch's functions while they are replaced.  It runs with the globals of
# `torch.nn.functional`, to which `install` adds `_gridsample`.


def grid_sample(
    input: Any,
    grid: Any,
    mode: Any = "bilinear",
    padding_mode: Any = "zeros",
    align_corners: Any = None,
) -> Any:
    """The replacement of `torch.nn.functional.grid_sample`."""
    return _gridsample.grid_sample(input, grid, mode, padding_mode, align_corners)


def affine_grid(theta: Any, size: Any, align_corners: Any = None) -> Any:
    """The replacement of `torch.nn.functional.affine_grid`."""
    return _gridsample.affine_grid(theta, size, align_corners)


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: Any = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: Any = False,
) -> Any:
    """The replacement of `torch.nn.functional.interpolate`."""
    return _gridsample.interpolate(
        input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    )


REPLACEMENTS: tuple[Any, ...] = (grid_sample, affine_grid, interpolate)
REPLACED: dict[str, Any] = {
    function.__name__: getattr(functional, function.__name__) for function in REPLACEMENTS
}
NAME = "_gridsample"


class Originals:
    """Torch's own functions, also while they are replaced."""

    grid_sample: Callable[..., Tensor]
    affine_grid: Callable[..., Tensor]
    interpolate: Callable[..., Tensor]

    def __init__(self) -> None:
        for name, place in REPLACED.items():
            if not isinstance(place, types.FunctionType):  # other code has replaced the function
                setattr(self, name, place)
                continue
            copy = types.FunctionType(
                place.__code__, place.__globals__, name, place.__defaults__, place.__closure__
            )
            copy.__kwdefaults__ = place.__kwdefaults__
            setattr(self, name, copy)


originals = Originals()

PreviousState = tuple[Any, dict[str, types.CodeType], str]


def install(ours: Any, tag: str) -> PreviousState:
    """Replace torch's functions by the methods of an object with the same names.

    Args:
        ours: the object.
        tag: tells programs compiled with it from others in torch.compile's cache on disk, whose
            keys have only the names of torch's functions.

    Returns:
        The previous state, for `restore`.

    Raises:
        RuntimeError: one of torch's functions has unexpected parameters, or has already been
            replaced by other code.
    """
    codes = {
        function.__name__: replacement_code(function, REPLACED[function.__name__])
        for function in REPLACEMENTS
    }
    known = cache_tag()
    before_codes = {name: place.__code__ for name, place in REPLACED.items()}
    before = getattr(functional, NAME, None), before_codes, known
    set_cache_tag(f"{known} {tag}".strip())
    setattr(functional, NAME, ours)
    for name, code in codes.items():
        REPLACED[name].__code__ = code
    return before


def restore(before: PreviousState) -> None:
    """Undo an `install`."""
    ours, codes, tag = before
    for name, code in codes.items():
        REPLACED[name].__code__ = code
    setattr(functional, NAME, ours)
    set_cache_tag(tag)


def cache_tag() -> str:
    """The tag in the keys of torch.compile's cache; empty before torch 2.7, which has none."""
    return str(getattr(getattr(torch.compiler, "config", None), "cache_key_tag", ""))


def set_cache_tag(tag: str) -> None:
    """Set the tag in the keys of torch.compile's cache, if this torch has one."""
    config: Any = getattr(torch.compiler, "config", None)
    if hasattr(config, "cache_key_tag"):
        config.cache_key_tag = tag


def replacement_code(ours: types.FunctionType, place: Any) -> types.CodeType:
    """Return the code of a function with the file and line of the function that it replaces."""
    if not isinstance(place, types.FunctionType) or place.__closure__:
        raise RuntimeError(
            f"torch.nn.functional.{ours.__name__} has been replaced by {place!r}; accepted: "
            "torch's own function"
        )
    known, theirs = (tuple(inspect.signature(function).parameters) for function in (ours, place))
    if known != theirs:
        raise RuntimeError(
            f"torch.nn.functional.{ours.__name__} of torch {torch.__version__} takes {theirs}; "
            f"accepted: {known}"
        )
    source = place.__code__
    return ours.__code__.replace(
        co_filename=source.co_filename, co_firstlineno=source.co_firstlineno
    )


# The code of another library's function while it is replaced.  It runs with the globals of that
# function, to which `replace_code` adds a name of its own for each function.


def replaced(*args: Any, **kwargs: Any) -> Any:
    """The replacement of a function of any parameters."""
    return _gridsample(*args, **kwargs)


def replace_code(
    place: types.FunctionType, ours: Callable[..., Any], call: Callable[..., Any]
) -> Callable[[], None]:
    """Replace the code of a function of another library, wherever it was imported before.

    Args:
        place: the function, which has no closure.
        ours: the function that replaces it.
        call: called with ``ours``, the original function, and all arguments by position.

    Returns:
        A function that restores the code.
    """
    code, defaults, keyword_defaults = place.__code__, place.__defaults__, place.__kwdefaults__
    original = types.FunctionType(code, place.__globals__, place.__name__, defaults)
    original.__kwdefaults__ = keyword_defaults
    names = code.co_varnames[: code.co_argcount]
    known = dict(zip(reversed(names), reversed(defaults or ()), strict=False))

    def redirect(*args: Any, **kwargs: Any) -> Any:
        rest = names[len(args) :]
        if len(args) > len(names) or not {*kwargs} <= {*rest} <= {*known, *kwargs}:
            return original(*args, **kwargs)  # which raises the error
        others = [kwargs[name] if name in kwargs else known[name] for name in rest]
        return call(ours, original, *args, *others)

    key = f"{NAME}_{place.__qualname__.replace('.', '_')}"
    before = place.__globals__.get(key)
    place.__globals__[key] = redirect
    place.__defaults__ = place.__kwdefaults__ = None
    place.__code__ = replaced.__code__.replace(
        co_names=tuple([key if name == NAME else name for name in replaced.__code__.co_names]),
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
    )

    def restore() -> None:
        place.__code__ = code
        place.__defaults__, place.__kwdefaults__ = defaults, keyword_defaults
        place.__globals__[key] = before

    return restore


# Traces -------------------------------------------------------------------------------------------


def is_tracing() -> bool:
    """Whether `torch.jit.trace` is recording, which the older ONNX export uses, too."""
    return torch._C._get_tracing_state() is not None


@contextmanager
def untraced() -> Iterator[None]:
    """A context that `torch.jit.trace` does not record."""
    hidden: Any = torch._C  # torch's type stubs lack some of its functions
    state = hidden._get_tracing_state()
    hidden._set_tracing_state(None)
    try:
        yield
    finally:
        hidden._set_tracing_state(state)


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a tensor as integers, for checks.

    In a trace, a shape consists of tensors.  They are read without being recorded, because no
    result of the program depends on the checks.
    """
    if not is_tracing():
        return tuple(tensor.shape)
    with untraced():
        return tuple([int(n) for n in tensor.shape])


def as_integer(n: Any) -> Any:
    """Convert a number that may be a tensor in a trace to an integer for checks; see `shape_of`."""
    if not (isinstance(n, Tensor) and is_tracing()):
        return n
    with untraced():
        return int(n)


# Layouts and warnings -----------------------------------------------------------------------------


def memory_format_of(tensor: Tensor) -> torch.memory_format:
    """The memory format that torch's own operators infer from a tensor's strides."""
    from torch._prims_common import suggest_memory_format

    layout: torch.memory_format = suggest_memory_format(tensor)
    return layout


def warning_of(call: Callable[[], object]) -> str:
    """The text of torch's warning, so that filters for it also apply to our warning."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return str(seen[0].message)


# Dispatch -----------------------------------------------------------------------------------------


# These are called in each small call, where another function of ours around them would take longer
# than they do.
autocast_is_enabled: Callable[[], bool] = torch._C._is_any_autocast_enabled
dispatch_keys: Callable[[Tensor], Any] = torch._C._dispatch_keys
included_keys: Callable[[], Any] = torch._C._dispatch_tls_local_include_set
function_modes: Callable[[], int] = torch._C._len_torch_function_stack

# The keys that a thread adds to those of tensors while their operations are observed: by a mode, by
# a transform of `torch.func`, or by `torch.jit.trace`.
HIDDEN: Any = torch._C  # whose stubs differ from it
OBSERVERS: int = sum(
    HIDDEN.DispatchKeySet(HIDDEN._parse_dispatch_key(name)).raw_repr()
    for name in (
        *("Python", "PythonTLSSnapshot", "Tracer"),
        *("FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode"),
    )
)


def eager_keys(device: str) -> Iterator[int]:
    """The dispatch keys of ordinary tensors, created outside and inside inference mode."""
    for inference in (False, True):
        with torch.inference_mode(inference):
            yield dispatch_keys(torch.empty(0, device=device)).raw_repr()


def is_observed() -> bool:
    """Whether a transform, mode, trace or compiler observes operations on tensors."""
    return bool(
        is_dynamo_compiling()
        or included_keys().raw_repr() & OBSERVERS
        or function_modes()
        or forward_ad._current_level >= 0
    )


def transforms_are_active() -> bool:
    """Whether a transform of `torch.func` is active."""
    return bool(torch._C._are_functorch_transforms_active())


def constant_in_graphs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Tell torch.compile to call a function when it traces, and to keep the result as a constant.

    `torch.compiler.assume_constant_result` does the same, but imports the compiler, which takes
    two seconds.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@functools.cache
def has_kernel(device: str, name: str) -> bool:
    """Whether torch has a kernel for an operator on a device."""
    key = torch._C._dispatch_key_for_device(device)
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key))


def redispatch(operator: Any, keys: Any, *arguments: Any) -> Any:
    """Call an operator without recording it for autograd."""
    with torch._C._AutoDispatchBelowAutograd():
        return operator.redispatch(keys & torch._C._after_autograd_keyset, *arguments)


def redispatch_forward(operator: Any, keys: Any, *arguments: Any) -> Any:
    """Call an operator like `redispatch`, from the forward of an autograd function.

    Recording is disabled there, but outer transforms need it, so it is enabled again.
    """
    with torch.enable_grad(), forward_gradients(True):
        return redispatch(operator, keys, *arguments)


def apply_rule(rule: Any, *arguments: Any) -> Any:
    """Call an operator with its derivatives.

    The operator is entered once for each active transform of `torch.func`, innermost first, and
    handles only that transform, hence the single level.
    """
    with enable_single_level_autograd_function():
        return rule.apply(*arguments)
