"""`check_grid`: measures of grids, and hints on what they look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gridsample
from gridsample import check_grid

SIZE = (7, 63)


def identity(size: tuple[int, ...] = SIZE, align_corners: bool = False) -> Any:
    return gridsample.identity_grid((1, 1, *size), align_corners=align_corners)


def pixels(size: tuple[int, ...] = SIZE) -> Any:
    return np.stack(np.meshgrid(*map(np.arange, size), indexing="ij")[::-1], -1)[np.newaxis] * 1.0


@pytest.mark.parametrize("size", [(7,), SIZE, (5, 1, 6), (4, 5, 6)])
@pytest.mark.parametrize("align_corners", [False, True])
def test_an_identity_grid_has_no_hints(size: tuple[int, ...], align_corners: bool) -> None:
    report = check_grid(identity(size, align_corners), size, align_corners)
    assert (report.outside, report.missing, report.hints) == (
        0,
        0,
        () if 1 not in size else report.hints,
    )
    assert report.lowest == pytest.approx((0,) * len(size), abs=1e-12)
    assert report.highest == pytest.approx([n - 1 for n in size[::-1]])
    assert report.scale == pytest.approx([float(n > 1) for n in size[::-1]])
    assert report.folded == (1 if 1 in size else 0)  # an axis of one pixel has no volume


def test_shares_are_counted() -> None:
    grid = pixels()
    grid[0, 0, :3, 0] = np.nan
    grid[0, 1, :5, 1] = [np.inf, -np.inf, 6.6, -0.6, 6.5]  # the last is on the edge
    grid[0, 2, 0] = [np.nan, 99]
    report = check_grid(grid, SIZE, coords="pixel")
    assert report.missing == pytest.approx(4 / 441)
    assert report.outside == pytest.approx(4 / 441)
    everywhere = check_grid(grid * np.nan, SIZE, coords="pixel")
    assert (everywhere.missing, everywhere.outside) == (1, 0)
    assert np.isnan([*everywhere.lowest, *everywhere.highest]).all()
    assert everywhere.hints == ("all points are NaN",)


def test_scale_and_folds() -> None:
    grid = pixels() * [2.0, 0.5]
    report = check_grid(grid, SIZE, coords="pixel")
    assert report.scale == pytest.approx((2, 0.5))
    grid[0, :, 40:, 0] = 80 - grid[0, :, 40:, 0]
    report = check_grid(grid, SIZE, coords="pixel")
    assert report.folded == pytest.approx(23 / 63, abs=1.1 / 63)
    assert "the grid folds: some pixels are seen more than once" in report.hints
    turned = np.stack((pixels()[..., 1], 62 - pixels()[..., 0]), -1)  # by 90 degrees
    assert check_grid(turned, (63, 7), coords="pixel").folded == 0
    volume = pixels((3, 4, 5)) * [-1, 1, 1] + [4, 0, 0]
    report = check_grid(volume, (3, 4, 5), coords="pixel")
    assert (report.folded, report.scale) == (1, pytest.approx((1, 1, 1)))
    assert report.hints == ("the image is mirrored: the determinant is nowhere above 0",)


def test_the_scale_is_that_of_a_matrix() -> None:
    theta = np.array([[[0.9, -0.4, 0.1], [0.2, 1.1, 0.0]]])
    grid = gridsample.affine_grid(theta, (1, 1, 9, 9))
    report = check_grid(grid, (9, 9))
    assert report.scale == pytest.approx(np.linalg.norm(theta[0, :, :2], axis=0))


HINTS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "pixels": (pixels(), {}, "this looks like pixels"),
    "0 to 1": (identity(align_corners=True) / 2 + 0.5, {}, "this looks like 0 to 1"),
    "normalized": (identity(), {"coords": "pixel"}, "this looks normalized"),
    "positions": (pixels(), {"coords": "displacement"}, "this looks like positions"),
    "order": (identity()[..., ::-1], {}, "this looks like (y, x)"),
    "order of pixels": (pixels()[..., ::-1], {"coords": "pixel"}, "this looks like (y, x)"),
    "order of points": (
        pixels()[..., ::-1].reshape(1, -1, 2), {"coords": "pixel"}, "this looks like (y, x)"
    ),
    "corners": (identity(align_corners=True), {}, "this looks like align_corners=True"),
    "edges": (identity(), {"align_corners": True}, "this looks like align_corners=False"),
    "shrinking": (pixels()[:, ::3, ::3], {"coords": "pixel"}, "the image shrinks by 3"),
    "away": (identity() + 9.5, {}, "all points are outside"),
    "half": (torch.tensor(identity((7, 1024))).half(), {"size": (7, 1024)}, "float16 rounds"),
}  # fmt: skip


@pytest.mark.parametrize("name", HINTS)
def test_a_hint_names_the_likely_mistake(name: str) -> None:
    grid, options, expected = HINTS[name]
    options = {"size": SIZE, **options}
    hints = check_grid(grid, **options).hints
    assert len(hints) == 1 and hints[0].startswith(expected)


RIGHT: dict[str, tuple[Any, dict[str, Any]]] = {
    "a rotation": (
        gridsample.affine_grid(np.array([[[0.0, -1, 0], [1, 0, 0]]]), (1, 1, 9, 9)),
        {"size": (9, 9)},
    ),
    "a crop": (identity() * 0.5 + 0.2, {}),
    "the last quarter": (identity((24, 32)) * 0.5 + 0.5, {"size": (48, 64)}),
    "the last quarter, enlarged": (identity((96, 128)) * 0.5 + 0.5, {"size": (48, 64)}),
    "the last eighth of a volume": (identity((4, 5, 6)) / 2 + 0.5, {"size": (8, 10, 12)}),
    "points of the last quarter": ((identity() * 0.5 + 0.5).reshape(1, -1, 2), {}),
    "a view that is half outside": (identity() + 1, {}),
    "points": (np.array([[[0.1, 0.5], [0.3, 0.9]]]), {}),
    "a small flow": (np.full((1, *SIZE, 2), 0.25), {"coords": "displacement"}),
    "one pixel": (np.zeros((1, 1, 1, 2)), {"size": (1, 1)}),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_no_hint_for_valid_grids(name: str) -> None:
    grid, options = RIGHT[name]
    hints = check_grid(grid, **{"size": SIZE, **options}).hints
    assert all(hint.startswith("the image is mirrored") for hint in hints) if name == "one pixel" \
        else hints == ()  # fmt: skip


def test_a_volume_in_the_order_of_arrays() -> None:
    (hint,) = check_grid(identity((4, 5, 6))[..., ::-1], (4, 5, 6)).hints
    assert hint.startswith("this looks like (z, y, x)")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_match_arrays(dtype: torch.dtype) -> None:
    grid = torch.from_numpy(pixels()).to(dtype).requires_grad_()
    report, expected = (check_grid(array, SIZE) for array in (grid, grid.detach().numpy()))
    assert report == expected
    assert report.hints


def test_points_have_no_scale() -> None:
    report = check_grid(np.zeros((1, 5, 2)), SIZE)
    assert (report.scale, report.folded) == (None, None)
    assert "scale" not in str(report)


def test_text_and_html_representations() -> None:
    report = check_grid(pixels(), SIZE)
    text, html = str(report), report._repr_html_()
    for name, value in report.facts():
        assert f"{name:<9} {value}" in text
        assert f"<td>{value}</td>" in html
    assert "coords=&quot;pixel&quot;" in html
    assert text.splitlines()[-1].startswith("hint      this looks like pixels")


def test_invalid_grids_and_sizes_are_rejected() -> None:
    for grid, size, message in (
        (np.zeros((1, 4, 3)), SIZE, "grid must be"),
        (np.zeros((1, 0, 2)), SIZE, "at least one point"),
        (np.zeros((2,)), SIZE, "grid must be"),
    ):
        with pytest.raises(ValueError, match=message):
            check_grid(grid, size)
    with pytest.raises(ValueError, match="coords 'pixels'"):
        check_grid(identity(), SIZE, coords="pixels")
    with pytest.raises(TypeError, match="size must be"):
        check_grid(identity(), 7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="grid has dtype"):
        check_grid(identity() * 1j, SIZE)
    with pytest.raises(TypeError, match="align_corners must be"):
        check_grid(identity(), SIZE, "pixel")  # type: ignore[arg-type]
