"""Views: against the plain formula, written here with torch alone, and against analytic scenes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gridsample import cameras

FLIP = np.diag([1.0, -1.0, -1.0, 1.0])


def rotation(*angles: float) -> np.ndarray:
    matrix = np.eye(3)
    for axis, angle in enumerate(angles):
        i, j = [(1, 2), (2, 0), (0, 1)][axis]
        rotation = np.eye(3)
        rotation[[i, j], [i, j]] = np.cos(angle)
        rotation[i, j], rotation[j, i] = -np.sin(angle), np.sin(angle)
        matrix = rotation @ matrix
    return matrix


def scene(views: int = 3, size: tuple[int, int] = (13, 17)) -> tuple[np.ndarray, ...]:
    """Cameras around the origin at about 4 units, which look towards it, camera to world."""
    rng = np.random.default_rng(0)
    poses = np.tile(np.eye(4), (views, 1, 1))
    for pose in poses:
        pose[:3, :3] = rotation(*rng.uniform(-0.4, 0.4, 3))
        pose[:3, 3] = pose[:3, :3] @ [*rng.uniform(-0.5, 0.5, 2), -4]
    intrinsics = np.tile(np.eye(3), (views, 1, 1))
    intrinsics[:, 0, 0], intrinsics[:, 1, 1] = rng.uniform(15, 25, (2, views))
    intrinsics[:, 0, 1] = 0.3
    intrinsics[:, 0, 2], intrinsics[:, 1, 2] = size[1] / 2, size[0] / 2
    points = rng.normal(size=(5, 7, 3)) * 1.5
    points[0, 0] = poses[0, :3, 3] - poses[0, :3, 2]  # behind the first camera
    points[0, 1] = poses[0, :3, 3] + poses[0, :3, 0]  # beside it, on its image plane
    points[0, 2] = 20
    return points, intrinsics, poses


def expected_views(
    points: Tensor,
    images: Tensor,
    features: Tensor,
    intrinsics: Tensor,
    poses: Tensor,
    query: Tensor,
) -> tuple[Tensor, ...]:
    """Homogeneous projection, `grid_sample` on pixel centres, masks: as renderers write it."""
    views, (height, width) = len(images), images.shape[-2:]
    flat = points.reshape(-1, 3)
    homogeneous = torch.cat([flat, torch.ones_like(flat[:, :1])], -1)
    matrix = torch.eye(4, dtype=points.dtype).repeat(views, 1, 1)
    matrix[:, :3, :3] = intrinsics
    seen = matrix @ torch.linalg.inv(poses) @ homogeneous.T
    depth = seen[:, 2]
    pixels = (seen[:, :2] / depth.clamp(min=1e-8)[:, None]).transpose(1, 2)
    size = torch.tensor([width - 1.0, height - 1.0], dtype=points.dtype)
    mask = (depth > 0) & ((pixels >= 0) & (pixels <= size)).all(-1)
    grid = (2 * pixels / size - 1).clamp(-1e6, 1e6)[:, :, None]

    def read(planes: Tensor) -> Tensor:
        result = torch.nn.functional.grid_sample(planes, grid, align_corners=True)[..., 0]
        return torch.where(mask[:, None], result, 0).permute(2, 0, 1)

    q = torch.nn.functional.normalize(query[:3, 3] - flat, dim=-1)[:, None]
    v = torch.nn.functional.normalize(poses[:, :3, 3] - flat[:, None], dim=-1)
    difference = torch.nn.functional.normalize(q - v, dim=-1)
    directions = torch.cat([difference, (q * v).sum(-1, keepdim=True)], -1)
    result = read(images), read(features), mask.T, directions
    return tuple(array.reshape(*points.shape[:-1], *array.shape[1:]) for array in result)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("axes", ["opencv", "opengl"])
def test_views_match_the_formula(kind: str, axes: str) -> None:
    points, intrinsics, poses = scene()
    rng = np.random.default_rng(1)
    images, features = rng.normal(size=(3, 3, 13, 17)), rng.normal(size=(3, 5, 6, 9))
    query = np.eye(4)
    query[:3, 3] = 1, 2, -5
    arguments = [points, images, features, intrinsics, poses, query]
    expected = expected_views(*map(torch.from_numpy, arguments))
    assert expected[2].any() and not expected[2].all()
    if axes == "opengl":
        arguments[4], arguments[5] = poses @ FLIP, query @ FLIP
    if kind == "torch":
        arguments = [torch.from_numpy(array) for array in arguments]
    result = cameras.sample_views(*arguments, axes=axes)
    assert np.array_equal(result.mask, expected[2])
    for mine, theirs in zip(result, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)


def test_float32_views_are_within_rounding() -> None:
    points, intrinsics, poses = scene()
    x, y = np.meshgrid(np.arange(17), np.arange(13))
    images = np.stack([np.sin(x / 5 + y / 7 + k) for k in range(9)]).reshape(3, 3, 13, 17)
    arguments = [points, images, images, intrinsics, poses, poses[0]]
    wide = cameras.sample_views(*arguments)
    narrow = cameras.sample_views(*[array.astype(np.float32) for array in arguments])
    for mine, exact in zip(narrow, wide, strict=True):
        np.testing.assert_allclose(mine, exact, rtol=0, atol=1e-5)
    assert {array.dtype for array in narrow} == {np.dtype(np.float32), np.dtype(bool)}


def test_views_of_different_sizes() -> None:
    points, intrinsics, poses = scene()
    rng = np.random.default_rng(2)
    images = [rng.normal(size=(3, 13 + v, 17 - v)) for v in range(3)]
    features = [rng.normal(size=(2, 5, 6 + v)) for v in range(3)]
    result = cameras.sample_views(points, images, features, intrinsics, poses)
    for v in range(3):
        samples = cameras.sample_views(
            points, images[v][None], features[v][None], intrinsics[v, None], poses[v, None]
        )
        for mine, theirs in zip(result[:3], samples[:3], strict=True):
            np.testing.assert_array_equal(mine[:, :, v], theirs[:, :, 0])
    assert result.directions is None


@pytest.mark.parametrize("align_corners", [True, False])
def test_features_cover_the_image(align_corners: bool) -> None:
    # A ramp over the normalized coordinates reads the same at any resolution.
    points, intrinsics, poses = scene()

    def ramp(height: int, width: int) -> np.ndarray:
        x, y = np.arange(width, dtype=float), np.arange(height, dtype=float)
        if align_corners:
            x, y = x / (width - 1), y / (height - 1)
        else:
            x, y = (x + 0.5) / width, (y + 0.5) / height
        return np.broadcast_to(np.stack(np.meshgrid(x, y)), (3, 2, height, width)).copy()

    images, features = ramp(13, 17), ramp(26, 51)
    result = cameras.sample_views(
        points, images, features, intrinsics, poses, align_corners=align_corners
    )
    np.testing.assert_allclose(result.colors, result.features, rtol=0, atol=1e-12)


def test_a_textured_plane_and_a_sphere() -> None:
    """Every view of a scene shows the same colour at a point of its surface."""
    size = (241, 321)
    _, intrinsics, poses = scene(size=size)
    intrinsics[:, :2, :2] *= 12

    def colour(points: np.ndarray) -> np.ndarray:
        return np.sin(points @ [1.0, 0.4, 0.3])

    def plane(origin: np.ndarray, ray: np.ndarray) -> np.ndarray:
        return (1 - origin[2]) / ray[..., 2]

    def sphere(origin: np.ndarray, ray: np.ndarray) -> np.ndarray:
        along = -(ray @ origin)
        square = along**2 - (origin @ origin - 1) * (ray * ray).sum(-1)
        return (along - np.sqrt(np.maximum(square, 0))) / (ray * ray).sum(-1)

    x, y = np.meshgrid(np.arange(size[1]), np.arange(size[0]))
    rng = np.random.default_rng(3)
    on_plane = np.concatenate([rng.uniform(-0.5, 0.5, (50, 2)), np.ones((50, 1))], -1)
    on_sphere = np.concatenate([rng.uniform(-0.3, 0.3, (50, 2)), np.ones((50, 1))], -1)
    on_sphere[:, 2] = -np.sqrt(1 - (on_sphere[:, :2] ** 2).sum(-1))
    for surface, points in ((plane, on_plane), (sphere, on_sphere)):
        images = []
        for matrix, pose in zip(intrinsics, poses, strict=True):
            rays = np.stack([x, y, np.ones_like(x)], -1) @ np.linalg.inv(matrix).T
            rays = rays @ pose[:3, :3].T
            depth = surface(pose[:3, 3], rays)
            images.append(colour(pose[:3, 3] + depth[..., None] * rays)[None])
        result = cameras.sample_views(points, np.array(images), None, intrinsics, poses)
        assert result.mask.mean() > 0.9
        error = result.colors[..., 0] - colour(points)[:, None]
        np.testing.assert_allclose(error[result.mask], 0, atol=2e-4)


def test_projection_and_its_inverse_agree() -> None:
    points, intrinsics, poses = scene()
    flat = points.reshape(-1, 3)
    pixels, depth = cameras.project(flat, intrinsics, np.linalg.inv(poses))
    assert pixels.shape == (3, 35, 2) and depth.shape == (3, 35)
    front = depth > 1e-9  # one point is on the image plane, up to rounding
    assert front.any() and not front.all()
    np.testing.assert_array_equal(np.isnan(pixels), np.stack([~front, ~front], -1))
    rays = np.concatenate([pixels, np.ones((3, 35, 1))], -1) * depth[..., None]
    world = rays @ np.linalg.inv(intrinsics).swapaxes(1, 2) @ poses[:, :3, :3].swapaxes(1, 2)
    world += poses[:, None, :3, 3]
    np.testing.assert_allclose(world[front], np.broadcast_to(flat, (3, 35, 3))[front], atol=1e-12)
    other = cameras.project(flat, intrinsics, FLIP @ np.linalg.inv(poses), axes="opengl")
    np.testing.assert_allclose(other[0], pixels, atol=1e-11)
    pixel, z = cameras.project(flat[9], intrinsics[0], np.linalg.inv(poses[0])[:3])
    np.testing.assert_allclose([*pixel, z], [*pixels[0, 9], depth[0, 9]], atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor])
def test_depths_have_the_batch_of_pixels(make: Any) -> None:
    """Also where only the intrinsics have it."""
    points, intrinsics, poses = scene()
    for positions in (points[0], points[0, 0]):
        pixels, depth = cameras.project(make(positions), make(intrinsics), make(poses[0]))
        assert pixels.shape[:-1] == depth.shape == (3, *positions.shape[:-1])
        _, expected = cameras.project(make(positions), make(intrinsics[0]), make(poses[0]))
        assert all((row == expected).all() for row in depth)


def test_projection_is_differentiable() -> None:
    points, intrinsics, poses = (torch.from_numpy(array).requires_grad_() for array in scene())

    def call(*arguments: Tensor) -> Tensor:
        pixels, depth = cameras.project(
            arguments[0].reshape(-1, 3)[3:8], arguments[1], arguments[2]
        )
        return torch.cat([pixels, depth[..., None]], -1).nan_to_num(0)

    arguments = points[0], intrinsics, torch.linalg.inv(poses)
    assert torch.autograd.gradcheck(call, arguments)
    assert torch.autograd.gradgradcheck(call, arguments)


def numbers(result: cameras.ViewSamples) -> Tensor:
    return torch.cat([result.colors, result.features, result.directions], -1)


def test_views_are_differentiable() -> None:
    points, intrinsics, poses = map(torch.from_numpy, scene())
    rng = np.random.default_rng(4)
    images = torch.from_numpy(rng.normal(size=(3, 2, 13, 17)))
    features = torch.from_numpy(rng.normal(size=(3, 1, 6, 9)))
    places = points[1:3, :2].clone().requires_grad_()
    query = poses[0].clone()
    query[:3, 3] += 1
    leaves = [tensor.requires_grad_() for tensor in (images, features, intrinsics, poses, query)]

    def call(*leaves: Tensor) -> Tensor:
        return numbers(cameras.sample_views(*leaves))

    assert torch.autograd.gradcheck(call, (places, *leaves), fast_mode=True)
    assert torch.autograd.gradgradcheck(call, (places, *leaves), fast_mode=True)


def test_points_near_the_image_plane_have_finite_derivatives() -> None:
    depth = torch.tensor([1e-30, 1e-12, 0.0, -1e-30])
    points = torch.stack([torch.ones(4), torch.ones(4), depth], -1).requires_grad_()
    images, lens = torch.ones(1, 1, 5, 5), torch.eye(3)[None]
    result = cameras.sample_views(points, images, None, lens, torch.eye(4)[None])
    assert not result.mask.any()
    pixels, _ = cameras.project(points, lens[0], torch.eye(4))
    assert pixels.isnan().all()
    plane = cameras.distort_points(points, [0.1, 0, 0, 0])
    loss = result.colors.sum() + pixels.nansum() + plane.nansum()
    (slope,) = torch.autograd.grad(loss, points)
    assert torch.equal(slope, torch.zeros(4, 3))


@pytest.mark.parametrize("listed", [False, True])
def test_gradients_of_arrays_match_autograd(listed: bool) -> None:
    points, intrinsics, poses = scene()
    rng = np.random.default_rng(5)
    images: Any = rng.normal(size=(3, 2, 13, 17))
    features: Any = rng.normal(size=(3, 4, 6, 9))
    if listed:
        images, features = list(images), list(features)
    by_colors, by_features = rng.normal(size=(5, 7, 3, 2)), rng.normal(size=(5, 7, 3, 4))
    result = cameras.sample_views_vjp(
        by_colors, by_features, points, images, features, intrinsics, poses, axes="opengl"
    )
    leaves = [
        torch.from_numpy(np.array(tensor)).requires_grad_() for tensor in (points, images, features)
    ]
    call = cameras.sample_views(
        *leaves, torch.from_numpy(intrinsics), torch.from_numpy(poses), axes="opengl"
    )
    loss = (call.colors * torch.from_numpy(by_colors)).sum()
    loss = loss + (call.features * torch.from_numpy(by_features)).sum()
    expected = torch.autograd.grad(loss, leaves)
    assert all(gradient.any() for gradient in expected)
    for mine, theirs in zip(result, expected, strict=True):
        np.testing.assert_allclose(np.array(mine), theirs, rtol=0, atol=1e-11)
    alone = cameras.sample_views_vjp(None, by_features, points, images, features, intrinsics, poses)
    assert alone[1] is None


@pytest.mark.slow
def test_compiled_views_have_no_graph_break() -> None:
    torch.compiler.reset()
    points, intrinsics, poses = map(torch.from_numpy, scene())
    rng = np.random.default_rng(6)
    images = torch.from_numpy(rng.normal(size=(3, 2, 13, 17)))

    def call(points: Tensor, images: Tensor) -> Tensor:
        result = cameras.sample_views(points, images, images, intrinsics, poses, poses[0])
        pixels, _ = cameras.project(points, intrinsics[0], poses[0])
        return numbers(result).sum() + pixels.nan_to_num(0).sum()

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(points, images), call(points, images))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"points": np.zeros((4, 2))}, ValueError, ["points", "(..., 3)", "(4, 2)"]),
        ({"points": np.zeros(3, complex)}, TypeError, ["points", "real", "complex128"]),
        ({"images": np.zeros((3, 2, 5))}, ValueError, ["images", "(V, C, H, W)", "(3, 2, 5)"]),
        ({"features": [np.zeros((2, 5))]}, ValueError, ["features", "(C, H, W)", "features[0]"]),
        ({"features": np.zeros((2, 1, 5, 5))}, ValueError, ["features", "3"]),
        ({"intrinsics": np.eye(3)}, ValueError, ["intrinsics", "(V, 3, 3)", "V = 3"]),
        ({"poses": np.zeros((2, 4, 4))}, ValueError, ["poses", "V = 3"]),
        ({"axes": "blender"}, ValueError, ["axes", "'opencv'", "'opengl'", "'blender'"]),
        ({"points": torch.zeros(3)}, TypeError, ["tensor", "intrinsics"]),
    ],
)
def test_invalid_arguments_are_rejected(
    change: dict[str, Any], error: type[Exception], words: list[str]
) -> None:
    points, intrinsics, poses = scene()
    arguments: dict[str, Any] = {
        "points": points,
        "images": np.zeros((3, 2, 13, 17)),
        "features": None,
        "intrinsics": intrinsics,
        "poses": poses,
    }
    with pytest.raises(error) as caught:
        cameras.sample_views(**{**arguments, **change})
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor])
def test_items_that_do_not_match_are_named(make: Any) -> None:
    points, matrix, pose = (make(np.ones(n)) for n in ((4, 5, 3), (3, 3, 3), (2, 4, 4)))
    words = (
        r"\(4,\) in points of shape \(4, 5, 3\) and \(3,\) in intrinsics .* and \(2,\) in world_to"
    )
    with pytest.raises(ValueError, match=words):
        cameras.project(points, matrix, pose)
    pixels, depth = cameras.project(points[:1], matrix[:1], pose)
    assert (pixels.shape, depth.shape) == ((2, 5, 2), (2, 5))
