"""Results do not depend on how calls are divided, and calls do not leak memory."""

from typing import Any

import cases
import numpy as np
import psutil
import pytest

import gridsample
from gridsample.kernels.sampling import calls, derivatives


@pytest.mark.parametrize("channels", [1, 2])
def test_distant_points_do_not_affect_each_other(channels):
    """Kernels have another code path where 16 points are spread over a large volume."""
    rng = cases.generator("far apart", channels)
    volume = cases.pixels(rng, (1, channels, 40, 64, 64), "float32")
    grid = rng.uniform(-1.1, 1.1, (1, 40, 3)).astype("float32")
    alone = [gridsample.grid_sample(volume, grid[:, k : k + 1]) for k in range(40)]
    assert np.array_equal(gridsample.grid_sample(volume, grid), np.concatenate(alone, 2))


@pytest.mark.covering
@pytest.mark.parametrize("items", [(1, 1), (1, 3), (3, 1), (3, 3)])
@pytest.mark.parametrize("axis", [1, -1])
def test_gradients_in_another_type_are_made_a_few_planes_at_a_time(items, axis, monkeypatch):
    rng = cases.generator("parts")
    shape = (items[0], 5, 6, 7) if axis == 1 else (items[0], 6, 7, 5)
    image = rng.standard_normal(shape).astype(np.float16)
    grid = rng.uniform(-1.3, 1.3, (items[1], 9, 8, 2)).astype(np.float32)
    options = {"mode": "bicubic", "padding_mode": "constant", "channel_axis": axis}
    options["fill_value"] = rng.standard_normal(5)
    out = gridsample.grid_sample(image, grid, **options)
    expected = gridsample.grid_sample_vjp(out, image, grid, **options)
    for few in (1, 42, 100, 300):
        monkeypatch.setattr(derivatives, "PART", few)
        pieces = gridsample.grid_sample_vjp(out, image, grid, **options)
        np.testing.assert_array_equal(pieces[0], expected[0])
        # Summed over channels in one order, but fused differently with both gradients at once.
        np.testing.assert_allclose(pieces[1], expected[1], rtol=1e-5, atol=1e-4)


def tilted(rank):
    """An image, and a grid of long rows that cross many rows of it."""
    rng = cases.generator("tilted")
    spatial, out = ((210, 190), (21, 1042)) if rank == 2 else ((3, 210, 40), (2, 7, 1042))
    image = rng.standard_normal((2, 3, *spatial))
    matrix = np.eye(rank)
    matrix[:2, :2] = [[0.5, 0.6], [0.9, 0.4]]
    grid = gridsample.identity_grid((1, 3, *out)) @ matrix.T + rng.uniform(
        -0.01, 0.01, (*out, rank)
    )
    return image, np.concatenate([grid, grid[:, ::-1]])


@pytest.mark.covering
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("mode", cases.MODES)
def test_results_do_not_depend_on_strips(mode, axis, rank):
    image, grid = tilted(rank)
    line = grid.reshape(2, -1, rank)  # the same points as a list
    image = np.ascontiguousarray(np.moveaxis(image, 1, axis).repeat(3 if axis == -1 else 1, -1))
    options = {"mode": mode, "padding_mode": ("zeros", "border", "reflection")[:rank]}
    options["channel_axis"] = axis
    expected = gridsample.grid_sample(image, line, **options)
    out = gridsample.grid_sample(image, grid, **options)
    # The last points of a block may round differently: they do not fill a vector.
    np.testing.assert_allclose(out.reshape(expected.shape), expected, rtol=0, atol=1e-14)
    upstream = np.cos(expected)
    first = gridsample.grid_sample_vjp(upstream, image, line, **options)
    second = gridsample.grid_sample_vjp(upstream.reshape(out.shape), image, grid, **options)
    np.testing.assert_allclose(second[0], first[0], rtol=0, atol=1e-12 * abs(first[0]).max())
    scale = 1e-12 * abs(first[1]).max()
    np.testing.assert_allclose(second[1].reshape(line.shape), first[1], rtol=0, atol=scale)


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_pixels_beyond_float32_integers_are_sampled(padding_mode):
    # The last index is odd, and more than 2**24: as a float32, it is that of the pixel beyond.
    size = (1 << 24) + 4
    memory = np.full(size + 8, np.nan, np.float32)
    memory[:size] = 1
    image = memory[:size].reshape(1, 1, size)
    grid = np.repeat(np.float32([0.5, 0.999999, 1]), 16).reshape(1, -1, 1)
    options = {"mode": "linear", "padding_mode": padding_mode, "align_corners": True}
    out = gridsample.grid_sample(image, grid, **options)
    assert set(out.ravel().tolist()) <= {0.0, 1.0}
    upstream = np.ones_like(out)
    for gradient in gridsample.grid_sample_vjp(upstream, image, grid, **options):
        assert np.isfinite(gradient).all()


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("channels", [2, 3, 16, 21])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_interleaved_channels_match_planes_outside_the_image(mode, channels, dtype):
    rng = cases.generator("outside")
    image = (rng.random((2, channels, 9, 12)) * 200).astype(dtype)
    grid = rng.uniform(-0.9, 0.9, (2, 7, 64, 2)).astype("float64" if dtype == "float64" else "f4")
    grid[:, 1, :, 0] = 4  # whole groups are outside along one axis, the other, or both
    grid[:, 2, 32:, 1] = -9
    grid[:, 3] = 50
    grid[:, 4, ::3] = 3  # some points of each group are
    grid[:, 5] = -1.0, 1.0  # some taps are
    grid[:, 5:, 3::5] = np.nan
    grid[:, 6, :, 0] = np.inf
    fills = {"fill_value": np.arange(channels) - 3.0} if dtype != "uint8" else {"fill_value": 7}
    runs = np.ascontiguousarray(np.moveaxis(image, 1, -1))
    several = [{"padding_mode": "zeros"}, {"padding_mode": "border"}, {"extrapolate": False}]
    several += [{"padding_mode": "constant", **fills}, {"extrapolate": False, **fills}]
    for options in [{"mode": mode, "threads": threads} | o for threads in (1, 2) for o in several]:
        expected = gridsample.grid_sample(image, grid, **options)
        out = gridsample.grid_sample(runs, grid, channel_axis=-1, **options)
        tolerance = 0 if dtype == "uint8" or mode == "nearest" else 200 * 8 * np.finfo(dtype).eps
        result = np.moveaxis(out, -1, 1)
        assert np.array_equal(np.isnan(expected), np.isnan(result))
        np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance + (dtype == "uint8"))


# Memory -------------------------------------------------------------------------------------------


def varied_calls(count):
    """Make calls whose shapes change every time, with some of 40 choices of options."""
    rng = cases.generator("calls")
    choices = []
    for _ in range(40):
        rank = int(rng.integers(1, 4))
        modes = tuple(rng.choice(cases.MODES, rank).tolist())
        boundaries = tuple(rng.choice(cases.BOUNDARIES, rank).tolist())
        choices.append((rank, (modes, boundaries, bool(rng.integers(2)))))
    for _ in range(count):
        rank, options = choices[rng.integers(len(choices))]
        image = np.ones((1, 2, *rng.integers(8, 20, rank)), np.float32)
        grid = np.zeros((1, int(rng.integers(20, 40)), rank), np.float32)
        out = gridsample.grid_sample(image, grid, *options)
        if rng.integers(4) == 0:
            gridsample.grid_sample_vjp(out, image, grid, *options)


@pytest.mark.slow
def test_repeated_calls_do_not_leak_memory():
    process = psutil.Process()
    varied_calls(4_000)
    before = process.memory_info().rss
    varied_calls(4_000)
    assert process.memory_info().rss - before < 5e6


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_groups_have_no_more_points_than_rows(
    dtype: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of several registers must not begin before the first point."""
    rng = cases.generator("groups", dtype)
    image = cases.pixels(rng, (1, 1, 5, 6), dtype)
    grid = rng.uniform(-1, 1, (1, 1, 70, 2)).astype("float64" if dtype == "float64" else "float32")
    expected = gridsample.grid_sample(image, grid, mode)
    descriptions = list[Any]()

    def program_for(description: Any) -> Any:
        descriptions.append(description)
        return compiled(description)

    compiled = calls.program_for
    monkeypatch.setattr(calls, "program_for", program_for)
    for columns in range(1, 70):
        part = grid[:, :, :columns].copy()
        result = gridsample.grid_sample(image, part, mode)
        np.testing.assert_array_equal(result, expected[..., :columns])
        points = descriptions[-1].points
        assert points.listed or points.lanes <= columns
    assert len(descriptions) == 69
