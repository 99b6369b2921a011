"""`affine_sample` is `grid_sample` at what `affine_grid` makes, for all that both take."""

import cases
import jax
import numpy as np
import pytest
import torch

import gridsample

OUT = (5, 70, 13)


def call(rank, dtype="float64", items=2, maps=2, channels=3, last=False):
    """An image, maps and a size; points enough for several blocks, inside and outside."""
    rng = np.random.default_rng([rank, items, maps, channels])
    image = cases.pixels(rng, (items, channels, *(7, 9, 8)[:rank]), dtype)
    theta = rng.standard_normal((maps, rank, rank + 1)) * 0.8
    if last:
        image = np.ascontiguousarray(np.moveaxis(image, 1, -1))
    return image, theta, (maps, channels, *OUT[:rank])


def through_grid(image, theta, size, *options, **more):
    """The same samples at a grid in memory."""
    grid = gridsample.affine_grid(theta, size, options[2] if len(options) > 2 else False)
    return gridsample.grid_sample(image, grid, *options, **more)


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "spline3"])
@pytest.mark.parametrize("boundary", ["zeros", "reflection", "wrap"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_affine_samples_match_grid_sample(rank, mode, boundary, align_corners):
    image, theta, size = call(rank)
    options = mode, boundary, align_corners
    np.testing.assert_allclose(
        gridsample.affine_sample(image, theta, size, *options),
        through_grid(image, theta, size, *options),
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.covering
@pytest.mark.parametrize(
    "out", [(5, 16), (3, 48), (7, 20), (6, 5), (2, 200), (2, 3, 64), (4, 2, 24)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("maps", [1, 3])
def test_rows_of_any_length(out, dtype, maps):
    """Whether or not groups of points fill the rows of the output."""
    image, theta, _ = call(len(out), dtype, items=3, maps=maps)
    theta = theta.astype(dtype)
    size = (maps, 3, *out)
    result = gridsample.affine_sample(image, theta, size)
    # Coordinates of a grid are rounded, and differ by about a bit of each term.
    atol = 64 * np.finfo(dtype).eps * np.abs(image).max() * max(image.shape[2:])
    np.testing.assert_allclose(result, through_grid(image, theta, size), rtol=0, atol=atol)
    shifts = gridsample.affine_grid(theta, size) * 3
    axes = [np.arange(n, dtype=dtype) for n in out]
    positions = shifts + np.stack(np.meshgrid(*axes, indexing="ij")[::-1], -1)
    result = gridsample.grid_sample(image, shifts, coords="displacement")
    np.testing.assert_array_equal(result, gridsample.grid_sample(image, positions, coords="pixel"))


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_positions_of_whole_pixels_are_exact(backend, align_corners):
    """In float32, too, whose coordinates at 1,000 pixels are 1e-4 pixels apart."""
    convert = {"numpy": np.asarray, "torch": torch.from_numpy, "jax": jax.numpy.asarray}[backend]
    ramp = np.arange(1001, dtype="float32") + np.zeros((1, 1, 3, 1), "float32")
    mirror, identity = np.eye(2, 3, dtype="float32")[np.newaxis], np.eye(2, 3, dtype="float32")
    mirror[0, 0, 0] = -1
    for theta, expected in ((identity[np.newaxis], ramp), (mirror, ramp[..., ::-1])):
        result = gridsample.affine_sample(
            convert(ramp), convert(theta), ramp.shape, "linear", "border", align_corners
        )
        np.testing.assert_array_equal(np.asarray(result), expected)


def test_second_derivatives_are_those_of_the_same_positions():
    """They are computed at a grid, whose pixels are those that the maps show."""
    image = torch.from_numpy(np.random.default_rng(3).standard_normal((1, 1, 3, 901), "float32"))
    image.requires_grad_()
    theta = torch.eye(2, 3)[None].requires_grad_()
    values = gridsample.affine_sample(image, theta, (1, 1, 3, 901), padding_mode="border")
    for creates in (False, True):
        (slopes,) = torch.autograd.grad(
            values.sum(), theta, create_graph=creates, retain_graph=True
        )
        if not creates:
            expected = slopes
    # Every other slope of a point would differ by about 450, the pixels of a unit of coordinates.
    torch.testing.assert_close(slopes.detach(), expected, rtol=0, atol=1)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "complex64", "int64"])
@pytest.mark.parametrize("last", [False, True])
def test_types_and_layouts(dtype, last):
    image, theta, size = call(2, dtype, channels=9, last=last)
    theta = (np.round(theta * 64) / 64).astype("float32")  # so that both are rounded alike
    axis = -1 if last else 1
    mine = gridsample.affine_sample(image, theta, size, channel_axis=axis)
    theirs = through_grid(image, theta, size, channel_axis=axis)
    assert mine.dtype == image.dtype and mine.shape == theirs.shape
    wide = np.complex128 if mine.dtype.kind == "c" else np.float64
    # If a coordinate's last bit differs, a value changes by its slope times that.
    scale = np.abs(image.astype(wide)).max()
    # The last bit of float32 coordinates is 2**-24 of them, also for int64 images.
    memory = {"uint8": 1, "float16": 2e-3 * scale}.get(dtype, 4e-5 * scale)
    np.testing.assert_allclose(mine.astype(wide), theirs.astype(wide), rtol=0, atol=memory)


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(("items", "maps"), [(2, 2), (1, 2), (2, 1)])
def test_gradients(rank, mode, items, maps):
    image, theta, size = call(rank, items=items, maps=maps)
    size = (maps, *size[1:])
    rng = np.random.default_rng(1)
    upstream = rng.standard_normal((max(items, maps), 3, *size[2:]))
    for boundary, align_corners in (("zeros", False), ("border", True)):
        options = mode, boundary, align_corners
        mine = gridsample.affine_sample_vjp(upstream, image, theta, size, *options)
        grid = gridsample.affine_grid(theta, size, align_corners)
        by_image, by_grid = gridsample.grid_sample_vjp(upstream, image, grid, *options)
        own = gridsample.identity_grid(size, align_corners, dtype="float64")
        own = np.concatenate([own, np.ones((*own.shape[:-1], 1))], -1)
        flat = (gradient.reshape(maps, -1, gradient.shape[-1]) for gradient in (by_grid, own))
        by_theta = np.einsum("npa,npb->nab", *flat)
        np.testing.assert_allclose(mine[0], by_image, rtol=0, atol=1e-12)
        np.testing.assert_allclose(mine[1], by_theta, rtol=0, atol=1e-11 * np.abs(by_theta).max())


@pytest.mark.parametrize("channels", [1, 16])
def test_gradients_do_not_depend_on_threads(channels):
    rng = np.random.default_rng(2)
    image = rng.standard_normal((1, 40, 50, channels)).astype("float32")
    theta = (rng.standard_normal((1, 2, 3)) * 0.7).astype("float32")
    upstream = rng.standard_normal((1, 300, 400, channels)).astype("float32")
    arguments = upstream, image, theta, (1, channels, 300, 400)
    first = gridsample.affine_sample_vjp(*arguments, channel_axis=-1, threads=1)
    for threads in (2, 5):
        again = gridsample.affine_sample_vjp(*arguments, channel_axis=-1, threads=threads)
        assert [gradient.tobytes() for gradient in again] == [
            gradient.tobytes() for gradient in first
        ]


def test_unneeded_gradients_are_not_computed():
    image, theta, size = call(2)
    upstream = np.ones((2, 3, *size[2:]))
    assert gridsample.affine_sample_vjp(upstream, image, theta, size, need_input=False)[0] is None
    assert gridsample.affine_sample_vjp(upstream, image, theta, size, need_theta=False)[1] is None


def test_fill_and_extrapolate():
    image, theta, size = call(2)
    more = {"padding_mode": "constant", "fill_value": [1, 2, 3], "extrapolate": False}
    mine = gridsample.affine_sample(image, theta, size, **more)
    grid = gridsample.affine_grid(theta, size)
    np.testing.assert_allclose(mine, gridsample.grid_sample(image, grid, **more), atol=1e-12)


def pixel_call():
    """An image, maps from indices to positions in pixels, a size, the indices, and the grid."""
    image, _, size = call(2)
    theta = np.array([[[0.1, 0.02, 0.5], [-0.03, 0.11, 1.0]], [[0.5, 0, -1], [0, 0.08, 2]]])
    own = np.stack(np.meshgrid(*map(np.arange, size[2:]), indexing="ij")[::-1], -1)
    turned = theta[:, np.newaxis, :, :2].swapaxes(-1, -2)
    grid = own @ turned + theta[:, np.newaxis, np.newaxis, :, 2]
    return image, theta, size, own, grid


def test_maps_of_pixels():
    image, theta, size, own, grid = pixel_call()
    more = {"padding_mode": "wrap", "coords": "pixel"}
    mine = gridsample.affine_sample(image, theta, size, "cubic", **more)
    theirs = gridsample.grid_sample(image, grid, "cubic", **more)
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)
    ones = np.ones_like(mine)
    _, by_theta = gridsample.affine_sample_vjp(ones, image, theta, size, "cubic", **more)
    _, by_grid = gridsample.grid_sample_vjp(ones, image, grid, "cubic", **more)
    homogeneous = np.concatenate([own, np.ones((*own.shape[:-1], 1))], -1).reshape(-1, 3)
    expected = by_grid.reshape(2, -1, 2).swapaxes(1, 2) @ homogeneous
    np.testing.assert_allclose(by_theta, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_nan_and_infinite_maps():
    image, theta, size = call(2)
    theta[0, 0, 0] = np.nan
    theta[1] = np.inf
    mine, theirs = (
        sample(image, theta, size) for sample in (gridsample.affine_sample, through_grid)
    )
    assert np.isnan(mine[0]).all()
    np.testing.assert_array_equal(mine, theirs)
    both = gridsample.affine_sample_vjp(np.ones((2, 3, *size[2:])), image, theta, size)
    assert not any(gradient.any() for gradient in both)


def test_outputs_without_points():
    image, theta, _ = call(2)
    assert gridsample.affine_sample(image, theta, (2, 3, 0, 4)).shape == (2, 3, 0, 4)
    arguments = np.ones((2, 3, 0, 4)), image, theta, (2, 3, 0, 4)
    assert not any(gradient.any() for gradient in gridsample.affine_sample_vjp(*arguments))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"theta": np.ones((2, 2, 2))}, ValueError, r"theta must be .*\(2, 2, 3\).*\(2, 2, 2\)"),
        ({"theta": np.ones((2, 2, 3), int)}, TypeError, "theta has dtype int64"),
        ({"size": (2, 3, -1, 4)}, ValueError, "size must not hold negative"),
        ({"size": 5}, TypeError, "size must be a sequence"),
        ({"input": np.ones((2, 3, 7))}, ValueError, "input"),
        ({"mode": "bilinaer"}, ValueError, "did you mean 'bilinear'"),
    ],
)
def test_invalid_maps_and_options_are_rejected(change, error, words):
    image, theta, size = call(2)
    with pytest.raises(error, match=words):
        gridsample.affine_sample(**{"input": image, "theta": theta, "size": size, **change})


class TestTensors:
    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch")

    def tensors(self, rank=2, **more):
        image, theta, size = call(rank, **more)
        image, theta = (
            self.torch.from_numpy(array).requires_grad_() for array in (image[..., :5], theta)
        )
        return image, theta, (*size[:2], *(3, 4, 5)[:rank])

    @pytest.mark.covering
    @pytest.mark.parametrize("rank", [1, 2, 3])
    @pytest.mark.parametrize("mode", ["linear", "cubic", "spline2"])
    def test_derivatives(self, rank, mode):
        image, theta, size = self.tensors(rank, channels=1)
        # Second differences are taken of every entry.
        image = image.detach()[(..., *(slice(2 if rank == 3 else 3),) * rank)].requires_grad_()
        size = (*size[:2], *((3,), (2, 3), (2, 2, 1))[rank - 1])

        def sample(image, theta):
            return gridsample.affine_sample(image, theta, size, mode, "border")

        assert self.torch.autograd.gradcheck(sample, (image, theta))
        assert self.torch.autograd.gradgradcheck(sample, (image, theta))

    def test_equals_arrays(self):
        image, theta, size = self.tensors()
        options = "cubic", "constant", True
        out = gridsample.affine_sample(image, theta, size, *options, fill_value=3)
        arrays = image.detach().numpy(), theta.detach().numpy(), size
        np.testing.assert_array_equal(
            out.detach().numpy(), gridsample.affine_sample(*arrays, *options, fill_value=3)
        )
        ones = self.torch.ones_like(out)
        mine = self.torch.autograd.grad(out, (image, theta), ones)
        vjp = gridsample.affine_sample_vjp(ones, image, theta, size, *options, fill_value=3)
        arrays = gridsample.affine_sample_vjp(ones.numpy(), *arrays, *options, fill_value=3)
        for actual, other, third in zip(mine, vjp, arrays, strict=True):
            np.testing.assert_allclose(actual.numpy(), third, rtol=0, atol=1e-12)
            np.testing.assert_allclose(other.detach().numpy(), third, rtol=0, atol=1e-11)

    def test_maps_of_pixels(self):
        image, theta, size, _, _ = pixel_call()
        tensors = self.torch.from_numpy(image), self.torch.from_numpy(theta)
        for mode in ("linear", "spline3"):
            expected = gridsample.affine_sample(image, theta, size, mode, coords="pixel")
            batched = gridsample.affine_sample(*tensors, size, mode, coords="pixel")
            by_grid = self.torch.vmap(  # without kernels that compute the coordinates
                lambda image, mode=mode: gridsample.affine_sample(
                    image, tensors[1], size, mode, coords="pixel"
                )
            )(tensors[0][None])[0]
            for sampled in (batched, by_grid):
                np.testing.assert_allclose(sampled.numpy(), expected, rtol=0, atol=1e-12)

    def test_transforms(self):
        image, theta, size = self.tensors()
        func = self.torch.func

        def loss(theta):
            return gridsample.affine_sample(image.detach(), theta, size).pow(2).sum()

        expected = self.torch.autograd.functional.hessian(loss, theta.detach())
        self.torch.testing.assert_close(func.hessian(loss)(theta.detach()), expected)

    @pytest.mark.parametrize("dtype", ["bfloat16", "uint8"])
    def test_other_types(self, dtype):
        image, theta, size = self.tensors()
        image = (image.detach() * 10).to(getattr(self.torch, dtype))
        out = gridsample.affine_sample(image, theta, size, padding_mode="border")
        grid = gridsample.affine_grid(theta, size)
        other = gridsample.grid_sample(image, grid, padding_mode="border")
        assert out.dtype == image.dtype
        self.torch.testing.assert_close(out, other)


@pytest.mark.parametrize(
    ("shape", "size", "words"),
    [
        ((1, 3, 3), (1, 1, 4, 5), r"pass theta\[:, :2\]"),
        ((3, 3), (1, 1, 4, 5), r"pass theta\[None, :2\]"),
        ((2, 3), (1, 1, 4, 5), r"pass theta\[None\]"),
        ((3, 4), (1, 1, 3, 4, 5), r"pass theta\[None\]"),
        ((1, 2, 3), (48, 64), r"\(N, C, H, W\).*\(1, 1, 48, 64\)"),
    ],
)
def test_shape_errors_suggest_the_fix(
    shape: tuple[int, ...], size: tuple[int, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        gridsample.affine_grid(np.zeros(shape), size)
