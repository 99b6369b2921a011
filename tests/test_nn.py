"""The modules: their results, representations and errors."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

import gridsample
from gridsample.interpolators import RegularGridInterpolator
from gridsample.nn import AffineGrid, GridSample, SpatialTransformer, Table


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


# Tables -------------------------------------------------------------------------------------------

# The first axis decreases.
AXES = ([4.0, 3.0, 1.0, 0.0], [0.0, 2.0, 3.0, 5.0, 9.0])


def table_and_points() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    values = torch.randn(4, 5, 2, dtype=torch.float64)
    return values, torch.rand(3, 2, 2, dtype=torch.float64) * torch.tensor([6.0, 12.0]) - 1


@pytest.mark.parametrize("fill_value", [None, 7.0])
@pytest.mark.parametrize(
    "options",
    [{}, {"learn_axes": True}, {"method": "cubic", "ends": "natural"}, {"method": "akima"}],
    ids=str,
)
def test_tables_are_those_of_the_interpolator(options: Any, fill_value: Any) -> None:
    values, points = table_and_points()
    given = {name: option for name, option in options.items() if name != "learn_axes"}
    expected = RegularGridInterpolator(
        AXES, values, bounds_error=False, fill_value=fill_value, **given
    )(points)
    table = Table(AXES, values, fill_value=fill_value, **options)
    torch.testing.assert_close(table(points), expected)
    for axis, coordinates in zip(AXES, table.points, strict=True):
        torch.testing.assert_close(coordinates, torch.tensor(axis, dtype=torch.float64))
    other = Table(AXES, torch.zeros_like(values), fill_value=fill_value, **options)
    other.load_state_dict(table.state_dict())
    torch.testing.assert_close(other(points), expected)
    assert table.float()(points.float()).dtype == torch.float32


@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_fixed_axes_are_part_of_the_state(method: str) -> None:
    values, points = table_and_points()
    table = Table(AXES, values, method)
    assert [*table.state_dict()] == ["values", "axis0", "axis1"]
    other = Table((torch.arange(4), torch.arange(5)), values, method)
    wrong = copy.deepcopy(other)
    wrong.load_state_dict({**table.state_dict(), "axis1": torch.zeros(5)})
    with pytest.raises(ValueError, match="dimension 1 must be strictly ascending or descending"):
        wrong(points)
    for each in (other, wrong, pickle.loads(pickle.dumps(other))):
        each.load_state_dict(table.state_dict())
        torch.testing.assert_close(each(points), table(points))
    third = [[axis / 3 for axis in line] for line in (AXES[0][::-1], AXES[1])]
    rounded = Table(third, values, method).float()
    assert {tensor.dtype for tensor in rounded.state_dict().values()} == {torch.float32}
    same = Table(rounded.points, values.float(), method)
    torch.testing.assert_close(rounded(points.float()), same(points.float()), rtol=0, atol=0)


def test_tables_have_gradients_in_values_and_axes() -> None:
    values, points = table_and_points()
    table = Table(AXES, values, learn_axes=True)
    names = [name for name, _ in table.named_parameters()]
    assert names == ["values", "axes.0", "axes.1"]
    start = [parameter.detach().clone().requires_grad_() for parameter in table.parameters()]

    def interpolated(points: torch.Tensor, *parameters: torch.Tensor) -> Any:
        state = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(table, state, (points,))

    assert torch.autograd.gradcheck(interpolated, (points.requires_grad_(), *start))


@pytest.mark.slow
def test_tables_learn_where_a_function_bends() -> None:
    table = Table([torch.linspace(0, 1, 3)], torch.tensor([0.0, 0.0, 1.0]), learn_axes=True)
    x = torch.linspace(0, 1, 101)[:, None]
    optimizer = torch.optim.Adam(table.parameters(), 0.02)
    for _ in range(200):
        optimizer.zero_grad()
        loss = ((table(x) - (5 * x[:, 0] - 4).clamp(min=0)) ** 2).mean()
        loss.backward()
        optimizer.step()
    assert loss < 1e-5
    assert abs(table.points[0][1] - 0.8) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"learn_axes": True}, {"method": "cubic"}], ids=str)
def test_tables_are_compiled_and_exported(options: Any) -> None:
    values, points = table_and_points()
    table = Table(AXES, values, **options)
    expected = table(points)
    gradients = torch.autograd.grad(expected.sum(), [*table.parameters()])
    result = torch.compile(table, backend="aot_eager", fullgraph=True)(points)
    torch.testing.assert_close(result, expected)
    for actual, gradient in zip(
        torch.autograd.grad(result.sum(), [*table.parameters()]), gradients, strict=True
    ):
        torch.testing.assert_close(actual, gradient)
    exported = torch.export.export(table, (points,)).module()
    torch.testing.assert_close(exported(points), expected)


def test_tables_are_checked_and_shown() -> None:
    values, points = table_and_points()
    table = Table(AXES, values, "cubic", 0.0, ends="natural")
    assert repr(table) == "Table(4 x 5, method='cubic', fill_value=0.0, ends='natural')"
    with pytest.raises(ValueError, match="There are 4 points and 5 values in dimension 0"):
        Table(AXES, values.transpose(0, 1))
    with pytest.raises(ValueError, match="learn_axes needs method='linear', got 'cubic'"):
        Table(AXES, values, "cubic", learn_axes=True)
    with pytest.raises(ValueError, match="learn_axes needs two coordinates or more"):
        Table([[1.0]], values[:1], learn_axes=True)
    for wrong in ([0.0, 1.0], torch.arange(2)):
        with pytest.raises(TypeError, match="values must be a tensor of floating-point numbers"):
            Table([[0.0, 1.0]], wrong)
    with pytest.raises(ValueError, match="sample points xi have dimension 2"):
        Table([[0.0, 1.0]], torch.zeros(2))(points)
