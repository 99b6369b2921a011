"""Our functions in the place of torch's."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import gridsample.torch_compat
from gridsample.torch_compat import patch

TORCHS = functional.grid_sample, functional.affine_grid
OURS = gridsample.torch_compat.grid_sample, gridsample.torch_compat.affine_grid


def current() -> tuple[object, object]:
    return functional.grid_sample, functional.affine_grid


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
