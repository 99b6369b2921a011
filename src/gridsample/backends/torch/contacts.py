"""Every contact with what torch does not promise to keep.

`install` puts functions in the place of `torch.nn.functional`'s.  It changes what torch's function
objects do, and not what those names refer to: a function that was imported before, one in a table
of `__torch_function__` handlers, and one that `torch.fx`, `torch.compile` or pickle know by
identity is still the same function.  TorchScript compiles a function from its source, which it
finds by the file and the line in the function's code.  Those stay torch's, too, so that TorchScript
compiles what it always has.
"""

from __future__ import annotations

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
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function

__all__ = [
    "FunctionalTensorMode",
    "SingleLevelFunction",
    "below",
    "forward_gradients",
    "handle_torch_function",
    "has_kernel",
    "has_torch_function",
    "inside",
    "install",
    "is_overheard",
    "is_tracing",
    "kind",
    "known",
    "layout_of",
    "recorded",
    "restore",
    "shape_of",
    "torchs",
    "transforms_are_active",
    "untraced",
    "words_of",
]

# Where the functions of torch's find those that stand in for them, see `install`.
_gridsample: Any = None


# What torch's functions do while ours stand in for them.  They run with the globals of
# `torch.nn.functional`, among which `install` puts `_gridsample`.


def grid_sample(
    input: Any, grid: Any, mode: Any = "bilinear", padding_mode: Any = "zeros",
    align_corners: Any = None,
) -> Any:  # fmt: skip
    """What `torch.nn.functional.grid_sample` does."""
    return _gridsample.grid_sample(input, grid, mode, padding_mode, align_corners)


def affine_grid(theta: Any, size: Any, align_corners: Any = None) -> Any:
    """What `torch.nn.functional.affine_grid` does."""
    return _gridsample.affine_grid(theta, size, align_corners)


def interpolate(
    input: Any, size: Any = None, scale_factor: Any = None, mode: Any = "nearest",
    align_corners: Any = None, recompute_scale_factor: Any = None, antialias: Any = False,
) -> Any:  # fmt: skip
    """What `torch.nn.functional.interpolate` does."""
    return _gridsample.interpolate(
        input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    )


STAND_INS: tuple[Any, ...] = (grid_sample, affine_grid, interpolate)
PLACES: dict[str, Any] = {one.__name__: getattr(functional, one.__name__) for one in STAND_INS}
NAME = "_gridsample"


class Theirs:
    """Torch's own functions, whatever stands in for them."""

    grid_sample: Callable[..., Tensor]
    affine_grid: Callable[..., Tensor]
    interpolate: Callable[..., Tensor]

    def __init__(self) -> None:
        for name, place in PLACES.items():
            if not isinstance(place, types.FunctionType):  # somebody has put something else there
                setattr(self, name, place)
                continue
            own = types.FunctionType(
                place.__code__, place.__globals__, name, place.__defaults__, place.__closure__
            )
            own.__kwdefaults__ = place.__kwdefaults__
            setattr(self, name, own)


torchs = Theirs()

Before = tuple[Any, dict[str, types.CodeType]]


def install(ours: Any) -> Before:
    """Let the methods of an object stand in for torch's functions of the same names.

    Returns:
        What `restore` takes to undo it.

    Raises:
        RuntimeError: one of torch's functions takes other arguments than those known here, or
            something else is in its place.
    """
    codes = {one.__name__: in_place_of(one, PLACES[one.__name__]) for one in STAND_INS}
    before = getattr(functional, NAME, None), {n: place.__code__ for n, place in PLACES.items()}
    setattr(functional, NAME, ours)
    for name, code in codes.items():
        PLACES[name].__code__ = code
    return before


def restore(before: Before) -> None:
    """Undo an `install`."""
    ours, codes = before
    for name, code in codes.items():
        PLACES[name].__code__ = code
    setattr(functional, NAME, ours)


def in_place_of(one: types.FunctionType, place: Any) -> types.CodeType:
    """The code of a function for another, with the place of that one's source."""
    if not isinstance(place, types.FunctionType) or place.__closure__:
        raise RuntimeError(
            f"torch.nn.functional.{one.__name__} has been replaced by {place!r}; accepted: torch's "
            "own function"
        )
    known, found = (tuple(inspect.signature(given).parameters) for given in (one, place))
    if known != found:
        raise RuntimeError(
            f"torch.nn.functional.{one.__name__} of torch {torch.__version__} takes {found}; "
            f"accepted: {known}"
        )
    source = place.__code__
    return one.__code__.replace(
        co_filename=source.co_filename, co_firstlineno=source.co_firstlineno
    )


# Traces -------------------------------------------------------------------------------------------


def is_tracing() -> bool:
    """Whether `torch.jit.trace` records what is done, as the older ONNX export does, too."""
    return torch._C._get_tracing_state() is not None


@contextmanager
def untraced() -> Iterator[None]:
    """A block of which `torch.jit.trace` sees nothing."""
    hidden: Any = torch._C  # of which torch's types leave out some functions
    state = hidden._get_tracing_state()
    hidden._set_tracing_state(None)
    try:
        yield
    finally:
        hidden._set_tracing_state(state)


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """A tensor's shape, to be checked.

    In a trace a shape holds tensors.  To read them here is no part of the program that is traced,
    and none of its results depend on it.
    """
    if not is_tracing():
        return tuple(tensor.shape)
    with untraced():
        return tuple([int(n) for n in tensor.shape])


def known(n: Any) -> Any:
    """A number that may be a tensor in a trace, to be checked like those of `shape_of`."""
    if not (isinstance(n, Tensor) and is_tracing()):
        return n
    with untraced():
        return int(n)


# Layouts and warnings -----------------------------------------------------------------------------


def layout_of(tensor: Tensor) -> torch.memory_format:
    """The memory format that torch's own operators see in a tensor's strides."""
    from torch._prims_common import suggest_memory_format

    found: torch.memory_format = suggest_memory_format(tensor)
    return found


def words_of(call: Callable[[], object]) -> str:
    """The words that torch warns with, so that a filter for them holds for us, too."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return str(seen[0].message)


# Dispatch -----------------------------------------------------------------------------------------


def kind(tensor: Tensor) -> tuple[type, int]:
    """A tensor's class, and what the dispatcher sees in it: device, layout, batch and more."""
    return type(tensor), torch._C._dispatch_keys(tensor).raw_repr()


def is_overheard() -> bool:
    """Whether somebody has to hear of what is done to tensors."""
    return bool(
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
    )


def transforms_are_active() -> bool:
    """Whether a transform of `torch.func` is in force."""
    return bool(torch._C._are_functorch_transforms_active())


def has_kernel(device: str, name: str) -> bool:
    """Whether torch has a kernel of an operator for a device."""
    key = torch._C._dispatch_key_for_device(device)
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key))


def below(operator: Any, keys: Any, *arguments: Any) -> Any:
    """What an operator computes, without a record of it."""
    with torch._C._AutoDispatchBelowAutograd():
        return operator.redispatch(keys & torch._C._after_autograd_keyset, *arguments)


def inside(operator: Any, keys: Any, *arguments: Any) -> Any:
    """As below, from the forward of a rule, where records are off: outer transforms need them."""
    with torch.enable_grad(), forward_gradients(True):
        return below(operator, keys, *arguments)


def recorded(rule: Any, *arguments: Any) -> Any:
    """Call an operator with its rules.

    It is entered once for each transform that is in force (`torch.func`), innermost first, and has
    to deal with that one alone: hence the single level.
    """
    with enable_single_level_autograd_function():
        return rule.apply(*arguments)
