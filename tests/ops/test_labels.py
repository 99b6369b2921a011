"""mode="label": the taps vote, and every result is a label of the image."""

from __future__ import annotations

import tracemalloc
from typing import Any

import cases
import numpy as np
import pytest

import gridsample
from gridsample import affine_sample, grid_sample, grid_sample_vjp, interpolate
from gridsample.kernels.reference.labels import vote

Array = np.ndarray[Any, Any]

BOUNDARIES = ("zeros", "constant", "border", "reflection", "symmetric", "mirror", "wrap")
AMBIGUOUS = 1e-6  # rounding may decide between two sums that differ by less


def labels(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, count: int = 5) -> Array:
    """Labels over the whole range of a type, of which 0 is one."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    ends = np.iinfo(kind)
    known = rng.integers(ends.min, ends.max, count, dtype=kind, endpoint=True)
    known[:3] = 0, ends.min, ends.max
    return known[rng.integers(0, count, shape)]


def exact_grid(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Coordinates that are exact in binary, so that ties are exact; one of them is NaN."""
    grid = rng.integers(-160, 160, shape) / 64
    grid.reshape(-1)[0] = np.nan
    return grid


def one_hot(image: Array, sample: Any) -> tuple[Array, Array]:
    """The argmax of all labels' samples in double precision, and where it is certain."""
    known = np.unique(np.append(image, image.dtype.type(0)))
    sums = np.stack([sample((image == label).astype(float), label) for label in known])
    first, second = np.sort(sums, axis=0)[[-1, -2]]
    return known[sums.argmax(axis=0)], first - second > AMBIGUOUS


def assert_is_the_reference(
    image: Array, grid: Array, mode: Any, boundary: str, **more: Any
) -> None:
    rank = grid.shape[-1]
    modes = (mode,) * rank if isinstance(mode, str) else mode
    corners, last = more.pop("align_corners", False), more.pop("channel_axis", 1)
    expected = vote(
        image,
        grid,
        modes,
        (boundary,) * rank,
        corners,
        coords=more.get("coords", "normalized"),
        extrapolate=more.get("extrapolate", True),
        fill=more.get("fill_value", 0),
    )
    pixels = np.moveaxis(image, 1, last)
    result = grid_sample(pixels, grid, mode, boundary, corners, channel_axis=last, **more)
    assert result.dtype == image.dtype
    assert np.array_equal(np.moveaxis(result, last, 1), expected)


# Sampling -----------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_labels_match_the_reference(rank: int, boundary: str) -> None:
    rng = cases.generator("labels", rank, boundary)
    for corners in (False, True):
        image = labels(rng, (2, 3, *(7, 1, 4)[:rank]), np.uint8)
        grid = exact_grid(rng, (2, 23, rank))
        more = {"fill_value": [1, 250, 0]} if boundary == "constant" else {}
        assert_is_the_reference(image, grid, "label", boundary, align_corners=corners, **more)
        more |= {"extrapolate": False, "fill_value": 7}
        assert_is_the_reference(image, grid, "label", boundary, channel_axis=-1, **more)


@pytest.mark.parametrize("dtype", ["bool", *cases.INTEGERS])
def test_every_dtype(dtype: str) -> None:
    rng = cases.generator("dtypes", dtype)
    image, grid = labels(rng, (1, 2, 5, 6), dtype), exact_grid(rng, (2, 40, 2))
    assert_is_the_reference(image, grid, "label", "zeros")
    assert_is_the_reference(image, grid, "label", "constant", fill_value=1)


def test_axes_of_nearest_and_coordinates_in_pixels() -> None:
    rng = cases.generator("mixed")
    image = labels(rng, (2, 2, 3, 5, 4), np.uint8)
    grid = exact_grid(rng, (1, 3, 2, 4, 3))
    for mode in (("label", "nearest", "label"), ("nearest", "label", "nearest")):
        assert_is_the_reference(image, grid, mode, "zeros")
    for coords in ("pixel", "displacement"):
        assert_is_the_reference(image, 2 * grid, "label", "wrap", coords=coords)


@pytest.mark.covering
@pytest.mark.parametrize("count", [2, 20, 2000])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_labels_match_the_argmax_of_one_hot_samples(rank: int, count: int) -> None:
    rng = cases.generator("argmax", rank, count)
    image = rng.integers(0, count, (1, 1, *(63, 9, 5)[:rank]), np.uint16)
    grid = rng.uniform(-1.3, 1.3, (1, 300, rank))
    for boundary, corners in (("zeros", False), ("reflection", True), ("wrap", False)):
        # Under zeros, the outside has the label 0, so it is 1 in the image of that label.
        outside = "constant" if boundary == "zeros" else boundary

        def sample(image: Array, label: Any) -> Array:
            fill = int(label == 0 and outside == "constant")  # noqa: B023
            return grid_sample(image, grid, "linear", outside, corners, fill_value=fill)  # noqa: B023

        expected, certain = one_hot(image, sample)
        result = grid_sample(image, grid, "label", boundary, corners)
        assert np.array_equal(result[certain], expected[certain])
        assert certain.mean() > 0.9


def test_ties_go_to_the_smallest_value() -> None:
    square = np.array([[[[9, 4], [7, 4]]]], np.int8)
    at = [[0.5, 0.5], [0.0, 0.5], [0.5, 0.0], [0.25, 0.75], [0.5, -0.5]]
    grid = np.array([at])
    result = grid_sample(square, grid, "label", "border", coords="pixel")
    assert result[0, 0].tolist() == [4, 7, 4, 7, 4]
    assert grid_sample(-square, grid, "label", "border", coords="pixel")[0, 0].tolist() == [
        -4,
        -9,
        -9,
        -7,
        -9,
    ]
    # Half of the weight is outside: 0 is less than 4, but more than -4.
    edge = np.array([[[1.5, 0.0]]])
    assert grid_sample(square, edge, "label", coords="pixel").item() == 0
    assert grid_sample(-square, edge, "label", coords="pixel").item() == -4


def test_results_do_not_depend_on_layouts_and_threads() -> None:
    rng = cases.generator("memory")
    grid = rng.uniform(-1.2, 1.2, (1, 700, 31, 2)).astype(np.float32)
    image = np.kron(rng.integers(0, 9, (1, 2, 8, 8)), np.ones((9, 11), int)).astype(np.uint8)
    expected = grid_sample(image, grid, "label", "border", threads=1)
    spaced = np.repeat(image, 2, axis=3)[..., ::2]
    backwards = image[..., ::-1, :].copy()[..., ::-1, :]
    last = np.ascontiguousarray(np.moveaxis(image, 1, -1))
    for stored in (spaced, backwards, np.moveaxis(last, -1, 1), np.asfortranarray(image)):
        assert np.array_equal(grid_sample(stored, grid, "label", "border", threads=2), expected)
    out = np.empty((1, 2, 700, 62), np.uint8)[..., ::2]
    assert grid_sample(image, grid, "label", "border", out=out) is out
    assert np.array_equal(out, expected)
    # Small items share blocks.
    many = rng.integers(0, 3, (40, 1, 6, 5), np.uint8)
    grids = rng.uniform(-1, 1, (40, 9, 2))
    alone = [grid_sample(a[None], g[None], "label") for a, g in zip(many, grids, strict=True)]
    assert np.array_equal(grid_sample(many, grids, "label"), np.concatenate(alone))


@pytest.mark.slow
def test_memory_does_not_grow_with_labels() -> None:
    rng = cases.generator("peak")
    image = rng.integers(0, 60000, (1, 1, 1500, 1500), np.uint16)
    theta = np.array([[[0.8, -0.3, 0.1], [0.3, 0.8, 0.0]]])
    for call in (
        lambda: affine_sample(image, theta, (1, 1, 1600, 1400), "label"),
        lambda: interpolate(image, (1600, 1400), mode="label"),
        lambda: interpolate(image, (160, 14), mode="label", antialias=True),
    ):
        call()  # cached kernels and plans
        tracemalloc.start()
        out = call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < out.nbytes + (8 << 20)


def test_affine_maps_and_masks() -> None:
    rng = cases.generator("affine")
    image = rng.integers(0, 4, (2, 1, 9, 7), np.uint8)
    theta = rng.uniform(-0.8, 0.8, (2, 2, 3))
    grid = gridsample.affine_grid(theta, (2, 1, 11, 5))
    expected, mask = grid_sample(image, grid, "label", "zeros", return_mask=True)
    assert np.array_equal(affine_sample(image, theta, (2, 1, 11, 5), "label"), expected)
    _, expected_mask = grid_sample(image, grid, "linear", "zeros", return_mask=True)
    assert np.array_equal(mask, expected_mask)


def test_derivatives_are_zero_and_labels_have_none() -> None:
    rng = cases.generator("derivatives")
    image, grid = rng.integers(0, 4, (1, 2, 5, 5), np.uint8), rng.uniform(-1, 1, (1, 6, 2))
    upstream = np.ones((1, 2, 6))
    none, by_grid = grid_sample_vjp(upstream, image, grid, "label", need_input=False)
    assert none is None and not by_grid.any() and by_grid.shape == grid.shape
    assert not gridsample.grid_gradient(image, grid, "label").any()
    assert not gridsample.grid_hessian(image, grid, ("label", "nearest")).any()
    with pytest.raises(TypeError, match="no gradient"):
        grid_sample_vjp(upstream, image, grid, "label")
    with pytest.raises(ValueError, match="no gradient"):
        gridsample.interpolate_vjp(np.ones((1, 2, 3, 3)), image * 1.0, 3, mode="label")


def test_non_label_dtypes_are_rejected() -> None:
    image, grid = np.zeros((1, 1, 4, 4), np.uint8), np.zeros((1, 3, 2))
    for dtype in ("float32", "float16", "complex64"):
        for call in (
            lambda labels: grid_sample(labels, grid, "label"),
            lambda labels: affine_sample(labels, np.zeros((1, 2, 3)), (1, 1, 2, 2), "label"),
            lambda labels: interpolate(labels, 2, mode="label"),
        ):
            with pytest.raises(TypeError, match=r"convert labels to an integer dtype.*'nearest'"):
                call(image.astype(dtype))
    for mode in (("label", "linear"), ("cubic", "label")):
        with pytest.raises(ValueError, match=r"mixes 'label'.*'nearest'"):
            grid_sample(image, grid, mode)
    with pytest.raises(ValueError, match=r"mixes 'label'.*'nearest'"):
        interpolate(image, 2, mode=("label", "area"))
    with pytest.raises(ValueError, match="'antimirror' changes the sign"):
        grid_sample(image, grid, "label", ("wrap", "antimirror"))
    with pytest.raises(ValueError, match="labels cannot be added"):
        gridsample.splat(np.ones((1, 1, 3)), grid, (4, 4), "label")
    with pytest.raises(ValueError, match="no weights to count"):
        gridsample.splat_count(grid, (4, 4), ("label", "nearest"))


# Resizing -----------------------------------------------------------------------------------------

SIZES = {
    1: [((7,), (13,)), ((131,), (9,)), ((5,), (1,))],
    2: [((5, 7), (3, 11)), ((17, 40), (34, 3)), ((1, 9), (4, 1)), ((4, 5), (2, 300))],
    3: [((3, 5, 7), (4, 2, 11)), ((9, 8, 11), (2, 3, 2))],
}


@pytest.mark.covering
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_resized_labels_are_the_argmax_of_one_hot_images(rank: int, antialias: bool) -> None:
    for (spatial, size), align in ((size, a) for size in SIZES[rank] for a in (False, True)):
        for dtype, last in (("uint8", 1), ("int16", -1), ("bool", 1)):
            image = labels(cases.generator(spatial, dtype), (2, 3, *spatial), dtype)
            options: dict[str, Any] = {"align_corners": align, "antialias": antialias}
            expected, certain = one_hot(
                image,
                lambda mask, _: interpolate(mask, size, mode="linear", **options),  # noqa: B023
            )
            pixels = np.ascontiguousarray(np.moveaxis(image, 1, last))
            for threads in (1, 2):
                result = interpolate(
                    pixels, size, mode="label", channel_axis=last, threads=threads, **options
                )
                result = np.moveaxis(result, last, 1)
                assert result.dtype == image.dtype
                assert np.array_equal(result[certain], expected[certain])


def test_more_labels_than_the_vote_table_holds() -> None:
    image = np.arange(1 << 14, dtype=np.int64).reshape(1, 1, 128, 128) - 50
    image[0, 0, 60:66, 60:66] = np.iinfo(np.int64).min
    result = interpolate(image, 1, mode="label", antialias=True)
    assert result.item() == np.iinfo(np.int64).min
    expected, certain = one_hot(
        image[..., ::9], lambda mask, _: interpolate(mask, (1, 2), mode="linear", antialias=True)
    )
    result = interpolate(image[..., ::9], (1, 2), mode="label", antialias=True)
    assert np.array_equal(result[certain], expected[certain])


def test_ties_of_thirds_go_to_the_smallest() -> None:
    # Neither 1/3 nor 2/3 is exact; mirrored images have mirrored results all the same.
    rng = cases.generator("thirds")
    image = rng.integers(0, 3, (1, 1, 12, 12), np.uint8)
    for antialias, size in ((False, 36), (True, 4)):
        options: dict[str, Any] = {"mode": "label", "antialias": antialias}
        result = interpolate(image, size, **options)
        assert np.array_equal(interpolate(image[..., ::-1], size, **options), result[..., ::-1])
        assert np.array_equal(
            interpolate(image.swapaxes(2, 3), size, **options), result.swapaxes(2, 3)
        )


def test_label_and_nearest_may_be_mixed_by_axis() -> None:
    image = np.array([[[[1, 2, 2, 3], [3, 3, 1, 1]]]], np.uint8)
    result = interpolate(image, (4, 2), mode=("nearest", "label"))
    assert result[0, 0].tolist() == [[1, 2], [1, 2], [3, 1], [3, 1]]


# Tensors ------------------------------------------------------------------------------------------


def test_label_tensors_match_arrays() -> None:
    import torch

    rng = cases.generator("tensors")
    image, grid = rng.integers(0, 6, (2, 1, 7, 9), np.uint8), rng.uniform(-1.2, 1.2, (2, 5, 6, 2))
    expected = grid_sample(image, grid, "label")
    small = interpolate(image, (3, 4), mode="label", antialias=True)
    i, g = torch.from_numpy(image), torch.from_numpy(grid)

    def both(i: Any, g: Any) -> Any:
        options = {"mode": "label", "antialias": True}
        return grid_sample(i, g, "label"), interpolate(i, (3, 4), **options)

    result = [both(i, g), torch.compile(both, fullgraph=True, backend="aot_eager")(i, g)]
    batched = torch.vmap(lambda a, b: both(a[None], b[None]))(i, g)
    result.append(tuple(tensor[:, 0] for tensor in batched))
    for actual, other in result:
        assert np.array_equal(actual.numpy(), expected) and np.array_equal(other.numpy(), small)
    assert both(i.to("meta"), g.to("meta"))[0].shape == expected.shape
    assert not grid_sample(i, g.requires_grad_(), "label").requires_grad
    with pytest.raises(TypeError, match="convert labels to an integer dtype"):
        grid_sample(i.float(), g, "label")


def test_modules_sample_labels() -> None:
    import torch

    import gridsample.nn

    rng = cases.generator("modules")
    image, grid = rng.integers(0, 6, (1, 1, 6, 8), np.int64), rng.uniform(-1, 1, (1, 4, 2))
    i, g = torch.from_numpy(image), torch.from_numpy(grid)
    sample = gridsample.nn.GridSample("label", "border")
    expected = grid_sample(image, grid, "label", "border")
    assert np.array_equal(sample(i, g).numpy(), expected)
    assert np.array_equal(torch.export.export(sample, (i, g)).module()(i, g).numpy(), expected)
    for module, options in (
        (gridsample.nn.Upsample(scale_factor=2, mode="label"), {"scale_factor": 2}),
        (gridsample.nn.Downsample(3, mode="label"), {"size": 3, "antialias": True}),
    ):
        assert np.array_equal(module(i).numpy(), interpolate(image, mode="label", **options))


def test_onnx_export_rejects_labels() -> None:
    import torch

    from gridsample.backends.torch.onnx import check_expressible
    from gridsample.definitions.options import Options

    options = Options(mode=("label",) * 2, padding_mode=("zeros",) * 2, order=(0, 0))
    with pytest.raises(ValueError, match=r"nearest, linear or cubic.*'label'"):
        check_expressible(torch.zeros(1, 1, 2, 2, dtype=torch.uint8), torch.zeros(1, 3, 2), options)


# Explanations -------------------------------------------------------------------------------------


def test_explanations_show_votes() -> None:
    image = np.array([[5, 5], [3, 9]])
    explanation = gridsample.explain((2, 2), (0.6, 0.4), "label", image=image, coords="pixel")
    assert explanation.value == 5 and explanation.gradient == (0, 0)
    assert "largest sum of weights" in str(explanation)
    with pytest.raises(TypeError, match="convert labels"):
        gridsample.explain((2, 2), (0.6, 0.4), "label", image=image * 1.0)


def test_labels_of_64_bits() -> None:
    labels = np.array([[[2**63 + 5, 7, 2**64 - 1, 2**63 + 5]]], np.uint64)
    points = np.array([[[0.4], [1.6], [2.4], [3.0]]])
    result = gridsample.grid_sample(labels, points, "label", coords="pixel")
    np.testing.assert_array_equal(result[0, 0], labels[0, 0, [0, 2, 2, 3]])


@pytest.mark.parametrize(
    ("dtype", "wrong", "right"),
    [
        ("uint8", (300, -1, 2.5, np.nan, np.inf), (255, 7.0)),
        (">i2", (2**15, -(2**15) - 1, 0.5), (-(2**15),)),
        ("int64", (2**63, 0.25), (2**62,)),
        ("uint64", (2**64, -1), (2**63,)),
        ("bool", (2, -1, 0.5), (1, True)),
    ],
)
def test_non_integer_fill_labels_are_rejected(dtype: str, wrong: Any, right: Any) -> None:
    image, grid = np.ones((1, 2, 3, 4), dtype), np.full((1, 1, 2, 2), 5.0)
    theta = np.array([[[1.0, 0, 9], [0, 1, 9]]])
    options: list[dict[str, Any]] = [
        {"padding_mode": "constant"},
        {"padding_mode": "border", "extrapolate": False},
    ]
    for option in options:
        for fill in wrong:
            with pytest.raises(ValueError, match=r"is not a label that u?(int|bool).* can hold"):
                grid_sample(image, grid, "label", fill_value=[0, fill], **option)
            with pytest.raises(ValueError, match="is not a label"):
                affine_sample(image, theta, (1, 2, 3, 3), "label", fill_value=fill, **option)
        for fill in right:
            result = grid_sample(image, grid, ("label", "nearest"), fill_value=fill, **option)
            assert (result == fill).all()


def test_non_integer_fill_labels_of_tensors_are_rejected() -> None:
    torch = pytest.importorskip("torch")
    grid = torch.full((1, 1, 2, 2), 5.0)
    for dtype, fill in ((torch.uint8, 300), (torch.int64, 0.5), (torch.bool, 2)):
        image = torch.ones((1, 1, 3, 4), dtype=dtype)
        with pytest.raises(ValueError, match="is not a label"):
            grid_sample(image, grid, "label", "constant", fill_value=fill)
