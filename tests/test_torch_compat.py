"""Our functions in the place of torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

import gridsample.torch_compat
from gridsample.torch_compat import patch

NAMES = ("grid_sample", "affine_grid", "interpolate")
TORCHS = [getattr(functional, name) for name in NAMES]
OURS = [getattr(gridsample.torch_compat, name) for name in NAMES]


def current() -> list[object]:
    return [getattr(functional, name) for name in NAMES]


def test_a_block_is_patched_and_put_back_even_after_an_error() -> None:
    with pytest.raises(KeyError), patch():
        assert current() == OURS
        raise KeyError
    assert current() == TORCHS


def test_a_switch_stays_until_undone() -> None:
    switch = patch()
    try:
        assert current() == OURS
    finally:
        switch.undo()
    assert current() == TORCHS


def test_an_unchanged_project_gets_the_same() -> None:
    torch.manual_seed(0)
    image, theta = torch.randn(2, 3, 5, 7).double(), torch.randn(2, 2, 3).double()

    def project() -> torch.Tensor:
        grid = functional.affine_grid(theta, image.shape, align_corners=False)
        return functional.grid_sample(
            image, grid, mode="bicubic", padding_mode="reflection", align_corners=False
        )

    theirs = project()
    with patch():
        torch.testing.assert_close(project(), theirs, rtol=1e-12, atol=1e-12)


IMAGE, GRID = torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 1, 2)


@pytest.mark.parametrize(
    "arguments",
    [
        (IMAGE, GRID, "garbage"),
        (IMAGE, GRID, "bilinear", "garbage"),
        (IMAGE[0], GRID),
        (IMAGE, GRID[..., :1]),
        (IMAGE.repeat(2, 1, 1, 1), GRID.repeat(3, 1, 1, 1)),
        (IMAGE[:, :, :0], GRID),
        (IMAGE, GRID.long()),
        (IMAGE.numpy(), GRID.numpy()),
    ],
    ids=["mode", "padding", "rank", "last axis", "N", "empty", "dtype", "array"],
)
def test_sampling_errors_have_torchs_types(arguments: tuple[object, ...]) -> None:
    with pytest.raises(Exception) as theirs:
        functional.grid_sample(*arguments, align_corners=False)
    with patch(), pytest.raises(type(theirs.value)):
        functional.grid_sample(*arguments, align_corners=False)


@pytest.mark.parametrize(
    ("theta", "size"),
    [
        (torch.zeros(1, 2, 3).long(), (1, 1, 2, 2)),
        (torch.zeros(1, 2, 2), (1, 1, 2, 2)),
        (torch.zeros(1, 2, 3), (1, 1, 2, 2, 2)),
        (torch.zeros(1, 2, 3), (1, 1, 0, 2)),
        (torch.zeros(1, 2, 3), (1, 1)),
    ],
    ids=["dtype", "shape", "size", "empty", "short"],
)
def test_affine_errors_have_torchs_types(theta: torch.Tensor, size: tuple[int, ...]) -> None:
    with pytest.raises(Exception) as theirs:
        functional.affine_grid(theta, size, align_corners=False)
    with patch(), pytest.raises(type(theirs.value)):
        functional.affine_grid(theta, size, align_corners=False)


def test_corners_not_given_warn_as_in_torch() -> None:
    with patch():
        with pytest.warns(UserWarning, match="align_corners is not given"):
            out = functional.grid_sample(IMAGE + 1, GRID)
        with pytest.warns(UserWarning, match="align_corners is not given"):
            functional.affine_grid(torch.zeros(1, 2, 3), (1, 1, 2, 2))
    assert out.item() == 1


# interpolate --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "how"),
    [
        ((2, 3, 9), {"size": 5, "mode": "linear"}),
        ((2, 3, 9), {"scale_factor": 1.7, "mode": "nearest"}),
        ((2, 3, 6, 7), {"scale_factor": (0.6, 1.9), "mode": "bilinear"}),
        ((2, 3, 6, 7), {"scale_factor": 1.3, "mode": "bicubic", "recompute_scale_factor": True}),
        ((2, 3, 6, 7), {"size": (9, 4), "mode": "bicubic", "align_corners": True}),
        ((2, 3, 6, 7), {"size": [3, 4], "mode": "bilinear", "antialias": True}),
        ((2, 3, 6, 7), {"size": torch.Size((3, 4)), "mode": "area"}),
        ((2, 3, 6, 7), {"scale_factor": 0.5, "mode": "area"}),
        ((2, 3, 6, 7), {"size": 5, "mode": "nearest-exact"}),
        ((1, 2, 3, 4, 5), {"scale_factor": 2, "mode": "trilinear", "align_corners": False}),
    ],
    ids=str,
)
def test_an_unchanged_project_resizes_the_same(shape: tuple[int, ...], how: dict[str, Any]) -> None:
    torch.manual_seed(0)
    image = torch.randn(shape, dtype=torch.float64, requires_grad=True)

    def project() -> list[torch.Tensor]:
        out = functional.interpolate(image, **how)
        upstream = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
        return [out, *torch.autograd.grad(out, image, upstream)]

    theirs = project()
    with patch():
        torch.testing.assert_close(project(), theirs, rtol=1e-12, atol=1e-12)


def test_modules_of_torchs_use_it() -> None:
    image = torch.arange(6, dtype=torch.int32).reshape(1, 1, 6)
    upsample = torch.nn.Upsample(3, mode="linear")
    with pytest.raises(RuntimeError):
        upsample(image)
    with patch():
        assert upsample(image).tolist() == [[[0, 2, 4]]]  # 0.5, 2.5 and 4.5, half to even


PLANE = torch.zeros(1, 1, 4, 4)


@pytest.mark.parametrize(
    ("image", "how"),
    [
        (PLANE, {"size": 2, "mode": "garbage"}),
        (PLANE[0, 0], {"size": 2}),
        (PLANE[None, None], {"size": 2}),
        (PLANE, {}),
        (PLANE, {"size": 2, "scale_factor": 2}),
        (PLANE, {"size": (2, 2, 2)}),
        (PLANE, {"scale_factor": (2, 2, 2)}),
        (PLANE, {"size": (2.5, 2)}),
        (PLANE, {"size": 2, "align_corners": True}),
        (PLANE, {"size": 2, "recompute_scale_factor": True}),
        (PLANE, {"size": 0}),
        (PLANE, {"size": (-1, 2), "mode": "bilinear"}),
        (PLANE, {"scale_factor": 0.1}),
        (PLANE, {"scale_factor": -2.0}),
        (PLANE[:, :, :0], {"size": 2}),
        (PLANE.to(torch.float8_e5m2), {"size": 2}),
        (PLANE.numpy(), {"size": 2}),
    ],
    ids=lambda one: str(one) if isinstance(one, dict) else "",
)
def test_resizing_errors_have_torchs_types(image: Any, how: dict[str, Any]) -> None:
    with pytest.raises(Exception) as theirs:
        functional.interpolate(image, **how)
    with patch(), pytest.raises(type(theirs.value)):
        functional.interpolate(image, **how)


def test_what_only_torch_has_kernels_for_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def theirs(image: torch.Tensor, *options: object) -> torch.Tensor:
        seen.append(options)
        return image

    monkeypatch.setattr(gridsample.torch_compat, "TORCHS", theirs)

    class Elsewhere(torch.Tensor):
        device = torch.device("xla")

    with patch():
        functional.interpolate(PLANE.as_subclass(Elsewhere), 2)
    assert seen == [(2, None, "nearest", None, None, False)]
