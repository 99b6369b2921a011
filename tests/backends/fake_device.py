"""Devices without kernels of ours: torch's operators where they suffice, else the CPU's kernels.

The device is a stand-in: tensors that hold a CPU tensor, say that they are somewhere else, and have
no operators but torch's own.  It stays in the process, so
`test_torch_other_devices` runs this file in a process of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils import backend_registration

import gridsample
from gridsample import torch_compat
from gridsample.backends.torch import other_devices, resizing
from gridsample.definitions.methods import find_method
from gridsample.definitions.options import Resizing

ATEN = torch.library.Library("aten", "IMPL")
CALLS: list[str] = []  # operators that were called with tensors on the device
REFUSED: list[str] = []  # operators that report missing support


class Far(Tensor):
    """A tensor on the stand-in's device, which holds its numbers as a tensor on the CPU."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Far:
        return Tensor._make_wrapper_subclass(  # type: ignore[attr-defined, no-any-return]
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device="faraway:0"
        )

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(
        cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        named = dict(kwargs or {})
        CALLS.append(operator.name())
        if operator.namespace == "gridsample" or operator.name() in REFUSED:
            raise NotImplementedError(f"{operator} on {types}")
        stays = named.get("device") is None or torch.device(named["device"]).type == "faraway"
        if "device" in named:
            named["device"] = torch.device("cpu")
        args, named = pytree.tree_map(inner, (args, named))
        return pytree.tree_map(
            lambda value: Far(value) if stays and isinstance(value, Tensor) else value,
            operator(*args, **named),
        )


def inner(array: Any) -> Any:
    return array.inner if isinstance(array, Far) else array


def empty_far(*arguments: Any, dtype: Any = None, **_: Any) -> Tensor:
    """Allocate memory on the device, as the first step of a copy to it."""
    make = torch.empty_strided if len(arguments) > 1 else torch.empty
    return Far(make(*arguments, dtype=dtype))


@pytest.fixture(scope="module", autouse=True)
def device() -> None:
    backend_registration._setup_privateuseone_for_python_backend("faraway")  # type: ignore[attr-defined]
    ATEN.impl("empty_strided", empty_far, "PrivateUse1")
    ATEN.impl("empty.memory_format", empty_far, "PrivateUse1")


@pytest.fixture(autouse=True)
def nothing_said() -> Iterator[None]:
    other_devices.WARNED.clear()
    CALLS.clear()
    yield
    REFUSED.clear()


@pytest.fixture
def torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices on which torch has kernels of its own."""
    monkeypatch.setattr(other_devices, "has_kernels", lambda *names: True)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, shape))


IMAGE, GRID, VALUES = numbers(2, 3, 5, 7), numbers(2, 4, 6, 2, seed=1), numbers(2, 3, 4, 6, seed=2)
MAPS = torch.eye(2, 3, dtype=torch.float64).repeat(2, 1, 1) + 0.1

EVERY: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "bilinear": lambda x, g, m: gridsample.grid_sample(x, g),
    "per axis": lambda x, g, m: gridsample.grid_sample(x, g, ("cubic", "linear"), "wrap"),
    "last": lambda x, g, m: gridsample.grid_sample(
        x.movedim(1, -1), g, "cubic", "mirror", channel_axis=-1
    ),
    "fill": lambda x, g, m: gridsample.grid_sample(
        x, g, "linear", "constant", fill_value=(1, 2, 3)
    ),
    "spline": lambda x, g, m: gridsample.grid_sample(x, g, "spline3", "mirror"),
    "vjp": lambda x, g, m: gridsample.grid_sample_vjp(VALUES.to(x.device), x, g, "cubic"),
    "gradient": lambda x, g, m: gridsample.grid_gradient(x, g, "cubic"),
    "hessian": lambda x, g, m: gridsample.grid_hessian(x, g, "cubic"),
    "splat": lambda x, g, m: gridsample.splat(VALUES.to(x.device), g, (5, 7), normalize=True),
    "count": lambda x, g, m: gridsample.splat_count(g, (5, 7)),
    "affine": lambda x, g, m: gridsample.affine_sample(x, m, (2, 3, 4, 6), "cubic", "mirror"),
    "affine vjp": lambda x, g, m: gridsample.affine_sample_vjp(
        VALUES.to(x.device), x, m, (2, 3, 4, 6), "cubic", "mirror"
    ),
    "grid": lambda x, g, m: gridsample.affine_grid(m, (2, 3, 4, 6)),
    "filter": lambda x, g, m: gridsample.spline_filter(x),
    "resize": lambda x, g, m: gridsample.interpolate(x, (4, 6), mode="lanczos3", antialias=True),
    "resize vjp": lambda x, g, m: gridsample.interpolate_vjp(
        VALUES.to(x.device), x, (4, 6), mode="bicubic"
    ),
    "drop-in": lambda x, g, m: torch_compat.grid_sample(x, g, "bicubic", "border", False),
}


def tensors_on(far: bool, record: bool) -> list[Tensor]:
    tensors = [array.clone() for array in (IMAGE, GRID, MAPS)]
    return [(Far(tensor) if far else tensor).requires_grad_(record) for tensor in tensors]


@pytest.mark.filterwarnings("ignore:neither gridsample nor torch")
@pytest.mark.parametrize("name", EVERY)
def test_every_function_and_its_derivatives(name: str) -> None:
    results = []
    for far in (False, True):
        tensors = tensors_on(far, True)
        result = EVERY[name](*tensors)
        several = list(result) if isinstance(result, tuple) else [result]
        assert all(output.device.type == ("faraway" if far else "cpu") for output in several)
        loss = sum(((output * output).sum() for output in several), several[0].new_zeros(()))
        first: tuple[Tensor | None, ...] = ()
        if loss.requires_grad:
            first = torch.autograd.grad(loss, tensors, create_graph=True, allow_unused=True)
        again = [
            gradient.square().sum()
            for gradient in first
            if gradient is not None and gradient.requires_grad
        ]
        second: tuple[Tensor | None, ...] = ()
        if again:
            second = torch.autograd.grad(sum(again, loss * 0), tensors, allow_unused=True)
        results.append([inner(tensor) for tensor in (*several, *first, *second)])
    assert results[0][0].numel()
    for actual, other in zip(*results, strict=True):
        assert (actual is None) == (other is None)
        if actual is not None:
            torch.testing.assert_close(other, actual, rtol=1e-11, atol=1e-11)


def test_warns_once_per_device() -> None:
    x, g, m = tensors_on(True, False)
    with pytest.warns(UserWarning, match="kernel on faraway .* computed on the CPU") as output:
        EVERY["spline"](x, g, m)
        EVERY["resize"](x, g, m)
        EVERY["splat"](x, g, m)
    assert len(output) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EVERY["filter"](x, g, m)


@pytest.mark.usefixtures("torchs")
@pytest.mark.parametrize("last", [False, True])
def test_torchs_own_operator_is_used(last: bool) -> None:
    """It is used for the options that it supports on the device, and for no others."""
    x, g, _ = tensors_on(True, True)
    planes = x.movedim(1, -1) if last else x
    result = gridsample.grid_sample(planes, g, "bicubic", "border", channel_axis=-1 if last else 1)
    expected = torch.nn.functional.grid_sample(IMAGE, GRID, "bicubic", "border", False)
    torch.testing.assert_close(inner(result.movedim(-1, 1) if last else result), expected)
    assert "aten::grid_sampler_2d" in CALLS and "aten::_to_copy" not in CALLS
    torch.autograd.grad(result.sum(), (x, g))
    assert "aten::grid_sampler_2d_backward" in CALLS


@pytest.mark.usefixtures("torchs")
@pytest.mark.filterwarnings("ignore:neither gridsample nor torch")
def test_options_that_torch_rejects_run_on_the_cpu() -> None:
    """For example, torch rejects "border" and antialiased cubic resizing on Apple's GPUs."""
    REFUSED.extend(("aten::grid_sampler_2d", "aten::_upsample_bicubic2d_aa"))
    x, g, _ = tensors_on(True, False)
    result = gridsample.grid_sample(x, g, "bilinear", "border")
    torch.testing.assert_close(
        inner(result), gridsample.grid_sample(IMAGE, GRID, "bilinear", "border")
    )
    options: dict[str, Any] = {"size": (3, 4), "mode": "bicubic", "antialias": True}
    result = gridsample.interpolate(x, **options)
    torch.testing.assert_close(inner(result), gridsample.interpolate(IMAGE, **options))
    assert set(REFUSED) <= set(CALLS)


@pytest.mark.usefixtures("torchs")
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_torchs_own_resizing_is_used(rank: int) -> None:
    """The operators that are looked up are those that are called."""
    image = numbers(1, 2, *(6, 4, 5)[:rank])
    for method, names in resizing.TORCH_NAMES.items():
        for smooth in (False, True):
            if rank not in names or (smooth and names[rank] not in ("bilinear", "bicubic")):
                continue
            CALLS.clear()
            x = Far(image.clone()).requires_grad_()
            methods = (find_method(method, resizing=True),) * rank
            options = Resizing((3,) * rank, methods, False, smooth, (0.0,) * rank)
            result = resizing.resize(x, options, False)
            result.sum().backward()
            name = f"aten::{resizing.operator_of_torch(names[rank], rank, smooth)}"
            assert name in CALLS
            assert "aten::_to_copy" not in CALLS
            expected = gridsample.interpolate(
                image, (3,) * rank, mode=method, antialias=smooth or method == "area"
            )
            torch.testing.assert_close(inner(result), expected, rtol=1e-5, atol=1e-5)


def test_operators_are_looked_up_for_each_device() -> None:
    both = "grid_sampler_2d", "grid_sampler_2d_backward"
    assert other_devices.has_kernels("cpu", *both)
    assert not other_devices.has_kernels("faraway", *both)


def test_mps_tensors_are_never_64_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    dtypes_of_calls: list[Any] = []
    monkeypatch.setattr(Tensor, "to", lambda self, *arguments: dtypes_of_calls.append(arguments))
    for device in ("mps", "xpu"):
        for tensor in (torch.ones(1, dtype=torch.float64), torch.ones(1, dtype=torch.int64)):
            other_devices.back(tensor, torch.device(device))
    assert [dtype for _, dtype in dtypes_of_calls] == [torch.float32, None, None, None]
