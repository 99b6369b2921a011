"""Panoramas: functions of the direction, converted, have no seams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gridsample import cameras

PANORAMA, CUBE = cameras.equirectangular((64, 128)), cameras.cubemap(40)
BOTH = pytest.mark.parametrize("source", [PANORAMA, CUBE], ids=lambda projection: projection.kind)


def colour(rays: np.ndarray) -> np.ndarray:
    """A smooth function of directions, different everywhere."""
    x, y, z = np.moveaxis(rays / np.linalg.norm(rays, axis=-1, keepdims=True), -1, 0)
    return np.stack([x, y + 0.3 * z, np.sin(2 * x - y + z)])


def picture(projection: cameras.Projection) -> np.ndarray:
    return colour(cameras.panorama_rays(projection)[0])[np.newaxis]


def turned(direction: Any, fov: float = 20) -> tuple[cameras.Projection, np.ndarray]:
    """A view with an odd number of pixels, whose middle looks in a direction."""
    z = np.asarray(direction, float) / np.linalg.norm(direction)
    x = np.cross(z, [0.3, 0.9, -0.2])
    x /= np.linalg.norm(x)
    return cameras.perspective((61, 63), fov=fov), np.stack([x, np.cross(z, x), z], 1)


EDGES = [
    (0, 0, -1), (0.01, 0.2, -1), (0, -1, 0), (0, 1, 0), (0.01, 1, 0.02),  # date line, poles
    (1, 0, 1), (1, 0, -1), (-1, 0, 1), (-1, 0, -1), (0, 1, 1), (0, -1, 1), (1, 1, 0), (1, -1, 0),
    (-1, 1, 0), (-1, -1, 0), (0, 1, -1), (0, -1, -1),  # edges of a cube
    *[(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)],  # its corners
]  # fmt: skip


@pytest.mark.covering(ordinary=1, slow=2)
@BOTH
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "spline3"])
def test_seams_are_as_accurate_as_the_interior(source: cameras.Projection, mode: str) -> None:
    image = picture(source)

    def error(direction: Any) -> float:
        view, rotation = turned(direction)
        result = cameras.convert_panorama(image, source, view, rotation, mode=mode)
        expected = colour(cameras.panorama_rays(view, rotation)[0])
        return float(np.abs(result[0] - expected).max())

    # A pixel is 0.05 wide, so the error of what is clamped there would be up to 0.04.
    interior = max(
        error(direction) for direction in [(0.2, 0.1, 1), (1, 0.3, 0.2), (-0.2, -0.6, -0.9)]
    )
    assert interior < {"bilinear": 2e-3, "bicubic": 8e-3, "spline3": 3e-4}[mode]
    for direction in EDGES:
        assert error(direction) < max(1.1 * interior, 3e-4), direction


@BOTH
def test_constant_images_stay_constant(source: cameras.Projection) -> None:
    image = np.full((1, 1, *source.shape), 200, np.uint8)
    for target in (PANORAMA, CUBE, cameras.perspective((31, 33), fov=120)):
        for mode in ("nearest", "bilinear", "bicubic"):
            result = cameras.convert_panorama(image, source, target, mode=mode)
            assert result.dtype == np.uint8 and (result == 200).all()


@BOTH
def test_values_are_continuous_across_seams(source: cameras.Projection) -> None:
    """Across an edge, random pixels are interpolated as continuously as within a face."""
    image = np.random.default_rng(0).normal(size=(1, 1, *source.shape))
    # At the poles of a panorama, all pixels of a row meet.
    for direction in EDGES[:2] if source is PANORAMA else EDGES:
        view, rotation = turned(direction, fov=0.01)  # a few thousandths of a pixel
        result = cameras.convert_panorama(image, source, view, rotation)
        jumps = np.abs(np.diff(result, axis=-1)).max(), np.abs(np.diff(result, axis=-2)).max()
        # Faces are extended by interpolation, which agrees with the neighbour to second order.
        limit = 2e-3 if source is PANORAMA else 0.6
        assert max(jumps) < limit, direction


@BOTH
def test_converting_to_the_same_projection_is_the_identity(source: cameras.Projection) -> None:
    image = np.random.default_rng(1).normal(size=(2, 3, *source.shape))
    result = cameras.convert_panorama(image, source, source)
    np.testing.assert_allclose(result, image, rtol=0, atol=1e-11)


@pytest.mark.parametrize("width", [1, 7, 12])
def test_small_panoramas(width: int) -> None:
    source = cameras.equirectangular((3, width))
    image = np.random.default_rng(2).normal(size=(1, 1, 3, width))
    result = cameras.convert_panorama(image, source, cameras.cubemap(5), mode="bicubic")
    assert np.isfinite(result).all()
    tiny = cameras.convert_panorama(np.ones((1, 1, 6, 1, 1)), cameras.cubemap(1), source)
    np.testing.assert_allclose(tiny, 1, rtol=0, atol=1e-12)


def test_directions_of_known_pixels() -> None:
    rays = cameras.panorama_rays(cameras.cubemap(1))[0, :, 0, 0]
    forward = [[0, 0, 1], [1, 0, 0], [0, 0, -1], [-1, 0, 0], [0, -1, 0], [0, 1, 0]]
    np.testing.assert_array_equal(rays, forward)
    assert cameras.FACES == ("front", "right", "back", "left", "up", "down")
    # Front, right, zenith, and just right of the date line.
    x, y = cameras.panorama_grid(
        cameras.perspective((1, 1), fov=1), PANORAMA, np.stack([
            np.eye(3), cameras.look(yaw=90), cameras.look(pitch=90), cameras.look(yaw=180.001),
        ])
    ).reshape(4, 2).T  # fmt: skip
    np.testing.assert_allclose(x[[0, 1, 3]], [63.5, 95.5, -0.5], atol=1e-3)
    np.testing.assert_allclose(y, [31.5, 31.5, -0.5, 31.5], atol=1e-3)
    # A point of the panorama's grid is the same direction in the cube.
    grid = cameras.panorama_grid(PANORAMA, CUBE)[0]
    assert grid.shape == (64, 128, 3) and set(np.unique(grid[..., 2])) == set(range(6))
    assert (np.abs(grid[..., :2] - 19.5) <= 20 + 1e-9).all()
    roll = cameras.look(roll=90) @ [0, -1, 0]  # the viewer's up is the scene's right
    np.testing.assert_allclose(roll, [1, 0, 0], atol=1e-12)


def test_directions_outside_a_view_are_missing() -> None:
    view = cameras.perspective((33, 47), fov=80)
    image = picture(view)
    result = cameras.convert_panorama(image, view, PANORAMA)[0]
    missing = np.isnan(result).any(0)
    rays = cameras.panorama_rays(PANORAMA)[0]
    expected = colour(rays)
    np.testing.assert_allclose(result[:, ~missing], expected[:, ~missing], rtol=0, atol=2e-2)
    inside = (rays[..., 2] > 0) & (np.abs(rays[..., 0]) < np.tan(np.radians(40)) * rays[..., 2])
    inside &= np.abs(rays[..., 1]) < np.tan(np.radians(40)) * 33 / 47 * rays[..., 2]
    np.testing.assert_array_equal(~missing, inside)


@pytest.mark.parametrize("mode", ["nearest", "label"])
def test_labels_are_copied(mode: str) -> None:
    image = np.random.default_rng(3).choice([3, 70, 200], (1, 1, 6, 40, 40)).astype(np.uint8)
    result = cameras.convert_panorama(image, CUBE, PANORAMA, mode=mode)
    assert set(np.unique(result)) == {3, 70, 200}


@BOTH
def test_the_gradient_is_the_transpose(source: cameras.Projection) -> None:
    rng = np.random.default_rng(4)
    target = cameras.cubemap(9) if source is PANORAMA else cameras.equirectangular((11, 17))
    for mode in ("bilinear", "bicubic"):
        image = rng.normal(size=(2, 2, *source.shape))
        upstream = rng.normal(size=(2, 2, *target.shape))
        created = cameras.convert_panorama(image, source, target, cameras.look(20, 70), mode=mode)
        result = cameras.convert_panorama_vjp(
            upstream, image, source, target, cameras.look(20, 70), mode=mode
        )
        assert result.shape == image.shape
        assert np.vdot(created, upstream) == pytest.approx(np.vdot(image, result), rel=1e-11)


@pytest.mark.slow
def test_tensors_are_differentiable() -> None:
    small = cameras.equirectangular((5, 8)), cameras.cubemap(4)
    rotation = torch.tensor(cameras.look(20, 30, 10), requires_grad=True)
    lens = torch.tensor([[3.0, 0, 1], [0, 3, 1], [0, 0, 1]], dtype=torch.float64)
    for source in small:
        image = torch.from_numpy(picture(source)[:, :2]).requires_grad_()

        def call(image: Tensor, rotation: Tensor, lens: Tensor, source: Any = source) -> Tensor:
            view = cameras.perspective((2, 3), intrinsics=lens)
            return cameras.convert_panorama(image, source, view, rotation)

        leaves = image, rotation, lens.clone().requires_grad_()
        assert torch.autograd.gradcheck(call, leaves)
        arrays = [tensor.detach().numpy() for tensor in leaves]
        view = cameras.perspective((2, 3), intrinsics=arrays[2])
        theirs = cameras.convert_panorama(arrays[0], source, view, arrays[1])
        np.testing.assert_allclose(call(*leaves).detach(), theirs, rtol=0, atol=1e-12)
    at_pole = torch.tensor(cameras.look(pitch=90), requires_grad=True)
    grid = cameras.panorama_grid(cameras.perspective((1, 1), fov=9), small[0], at_pole)
    (slope,) = torch.autograd.grad(grid.sum(), at_pole)
    assert torch.isfinite(slope).all()


@pytest.mark.slow
def test_compiled_conversions_have_no_graph_break() -> None:
    torch.compiler.reset()
    source, view = cameras.cubemap(4), cameras.perspective((5, 6), fov=100)
    image = torch.from_numpy(picture(source))
    rotation = torch.from_numpy(cameras.look(30, 40))

    def call(image: Tensor, rotation: Tensor) -> Tensor:
        return cameras.convert_panorama(image, source, view, rotation)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(image, rotation), call(image, rotation))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: cameras.equirectangular((0, 4)), ValueError, ["size", "positive"]),
        (lambda: cameras.cubemap("a"), TypeError, ["size"]),
        (lambda: cameras.perspective((4, 4)), ValueError, ["fov", "intrinsics"]),
        (lambda: cameras.perspective((4, 4), fov=180), ValueError, ["fov", "180"]),
        (lambda: cameras.perspective((4, 4), intrinsics=np.eye(2)), ValueError, ["(3, 3)"]),
        (lambda: cameras.panorama_rays("cubemap"), TypeError, ["projection", "'cubemap'"]),
        (lambda: cameras.panorama_grid(CUBE, PANORAMA, np.eye(2)), ValueError, ["rotation"]),
        (lambda: cameras.convert_panorama(np.zeros((1, 1, 4, 4)), CUBE, PANORAMA), ValueError,
         ["input", "(N, C, 6, 40, 40)", "(1, 1, 4, 4)"]),
    ],
)  # fmt: skip
def test_invalid_arguments_are_rejected(
    call: Any, error: type[Exception], words: list[str]
) -> None:
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_panoramas_match_py360convert() -> None:
    """If the centres of corner pixels, not their edges, are at the edges of the view.

    It rounds positions to 1/32 pixel; a pixel is 0.05 wide.
    """
    py360convert = pytest.importorskip("py360convert")
    image = picture(PANORAMA)
    planes = np.moveaxis(image[0], 0, -1).astype(np.float32)

    def converted(size: tuple[int, int], fov: float, *angles: float) -> np.ndarray:
        focal = (size[1] - 1) / 2 / np.tan(np.radians(fov) / 2)
        x, y = (size[1] - 1) / 2, (size[0] - 1) / 2
        view = cameras.perspective(size, intrinsics=[[focal, 0, x], [0, focal, y], [0, 0, 1]])
        result = cameras.convert_panorama(image, PANORAMA, view, cameras.look(*angles))
        return np.moveaxis(result[0], 0, -1)

    for yaw, pitch in ((0, 0), (40, 0), (-70, 25), (175, -30)):
        expected = py360convert.e2p(planes, 70, yaw, pitch, (33, 33))
        np.testing.assert_allclose(converted((33, 33), 70, yaw, pitch), expected, rtol=0, atol=5e-3)
    faces = py360convert.e2c(planes, 33, cube_format="list")
    angles = (0, 0), (90, 0), (180, 0), (-90, 0), (0, 90), (0, -90)
    for view_angles, expected in zip(angles, faces, strict=True):
        result = converted((33, 33), 90, *view_angles)
        # At the seams and the poles, it interpolates otherwise.
        assert np.quantile(np.abs(result - expected), 0.95) < 5e-3
