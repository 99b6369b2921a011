"""The modules: their results, representations and errors."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
import torch
from torch import nn

import gridsample
from gridsample.nn import AffineGrid, GridSample, SpatialTransformer


def test_modules_compute_what_the_functions_do() -> None:
    torch.manual_seed(0)
    image, theta = torch.randn(2, 3, 5, 7), torch.randn(2, 2, 3)
    grid = AffineGrid((4, 6), align_corners=True)(theta)
    torch.testing.assert_close(grid, gridsample.affine_grid(theta, (2, 1, 4, 6), True))
    sample = GridSample(("bicubic", "linear"), "border", True, channel_axis=-1)
    torch.testing.assert_close(
        sample(image.movedim(1, -1), grid),
        gridsample.grid_sample(image, grid, ("bicubic", "linear"), "border", True).movedim(1, -1),
    )


def test_options_by_name_are_those_of_the_function() -> None:
    torch.manual_seed(0)
    image, grid = torch.randn(1, 2, 5, 7), torch.randn(1, 5, 7, 2)
    options = {"coords": "displacement", "fill_value": 2, "extrapolate": False, "prefilter": False}
    torch.testing.assert_close(
        GridSample("spline3", "constant", **options)(image, grid),
        gridsample.grid_sample(image, grid, "spline3", "constant", **options),
    )


@pytest.mark.parametrize("name", sorted({*gridsample.nn.__all__} - {"DeformableAttention"}))
def test_unknown_options_get_a_suggestion(name: str) -> None:
    module = getattr(gridsample.nn, name)
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected .* 'xyzzy'$"):
        module(xyzzy=1)
    for word, option in (("order", "mode"), ("shape", "size"), ("aligncorners", "align_corners")):
        if option in inspect.signature(module).parameters:
            with pytest.raises(TypeError, match=f"'{word}'; did you mean '{option}'"):
                module(**{word: 1})


def test_options_are_shown() -> None:
    assert repr(GridSample(("nearest", "linear"), channel_axis=-1)) == (
        "GridSample(mode=('nearest', 'linear'), padding_mode='zeros', align_corners=False, "
        "channel_axis=-1)"
    )
    assert repr(GridSample(coords="pixel", fill_value=[1, 2], extrapolate=False)).endswith(
        "align_corners=False, coords='pixel', fill_value=[1, 2], extrapolate=False)"
    )
    assert repr(AffineGrid([2, 3], True)) == "AffineGrid(size=(2, 3), align_corners=True)"
    assert "size=(4, 4)" in repr(SpatialTransformer(nn.Identity(), (4, 4)))


def test_options_are_checked_when_given() -> None:
    with pytest.raises(ValueError, match="mode 'cubics'"):
        GridSample("cubics")
    with pytest.raises(ValueError, match="padding_mode 'reflect' is ambiguous"):
        GridSample(padding_mode="reflect")
    with pytest.raises(ValueError, match="coords 'pixels' is not known"):
        GridSample(coords="pixels")
    with pytest.raises(TypeError, match="align_corners must be True or False"):
        AffineGrid((2, 2), align_corners="no")


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transformer_starts_as_the_identity_and_learns(rank: int) -> None:
    torch.manual_seed(0)
    spatial = (4, 5, 6)[:rank]
    image = torch.randn(2, 3, *spatial)
    look = nn.Sequential(nn.Flatten(), nn.LazyLinear(rank * (rank + 1)))
    transform = SpatialTransformer(look, padding_mode="border")
    transform(image)
    with torch.no_grad():
        look[1].weight.zero_()
        look[1].bias.copy_(torch.eye(rank, rank + 1).flatten())
    torch.testing.assert_close(transform(image), image)
    transform(image * 2).square().sum().backward()
    assert look[1].bias.grad.abs().max() > 0
    assert SpatialTransformer(look, (2,) * rank)(image).shape == (2, 3, *(2,) * rank)
    fresh = SpatialTransformer(nn.Sequential(nn.Flatten(), nn.Linear(*look[1].weight.shape[::-1])))
    fresh.load_state_dict(transform.state_dict())
    torch.testing.assert_close(fresh(image), transform(image))


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("nn", "torch"),
        ("torch_compat", "torch"),
        ("onnx", "torch"),
        ("jax", "jax"),
        ("dask", "dask"),
    ],
)
def test_without_a_library_the_error_names_the_extra(name: str, library: str) -> None:
    program = """if True:
        import importlib, sys
        class Missing:
            def find_spec(self, name, *_):
                if name == sys.argv[2]:
                    raise ModuleNotFoundError(name=name)
        sys.meta_path.insert(0, Missing())
        try:
            importlib.import_module(sys.argv[1])
        except ImportError as error:
            print(error.name, error)
    """
    # The modules are imported afresh, because this process has imported the library.
    command = [sys.executable, "-c", program, f"gridsample.{name}", library]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    needed = f'{library} gridsample.{name} needs {library}: pip install "gridsample[{library}]"'
    assert result.stdout.strip() == needed, result.stderr
