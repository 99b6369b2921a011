"""Plane sweeps: against full warped volumes, which are computed here with torch alone."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gridsample import cameras
from gridsample.cameras import sweep

FLIP = np.diag([1.0, -1.0, -1.0, 1.0])


def scene(
    items: int = 2, views: int = 3, channels: int = 4, size: tuple[int, int] = (7, 9)
) -> dict[str, Any]:
    """Cameras side by side, of which one looks backwards; smooth features."""
    rng = np.random.default_rng(0)
    height, width = size
    intrinsics = np.tile(np.eye(3), (items, views + 1, 1, 1))
    intrinsics[..., 0, 0] = intrinsics[..., 1, 1] = rng.uniform(1, 1.4, (items, views + 1)) * width
    intrinsics[..., 0, 2], intrinsics[..., 1, 2] = (width - 1) / 2, (height - 1) / 2
    poses = np.tile(np.eye(4), (items, views + 1, 1, 1))
    poses[..., :3, 3] = rng.uniform(-0.2, 0.2, (items, views + 1, 3))
    poses[-1, -1] = np.diag([-1.0, 1, -1, 1]) @ poses[-1, -1]
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    phase = rng.uniform(0, 6, (items, views + 1, channels, 1, 1))
    features = np.sin(x / 3 + y / 5 + phase)
    return {
        "reference": features[:, 0],
        "sources": features[:, 1:],
        "cameras": (intrinsics, poses),
        "depths": np.linspace(1, 4, 5),
    }


def reference_sweep(reference: Any, sources: Any, cameras: Any, depths: Any, reduce: str) -> Tensor:
    """One warped volume per view, as in MVSNet, with pixels on centres and zeros outside."""
    n, views, channels, height, width = sources.shape
    intrinsics, poses = cameras
    depths = depths.reshape(
        *{1: (1, -1, 1, 1), 2: (*depths.shape, 1, 1)}.get(depths.ndim, depths.shape)
    )
    depths = depths.expand(n, -1, *reference.shape[-2:])
    matrix = torch.zeros(n, views + 1, 4, 4, dtype=poses.dtype)
    matrix[:, :, :3] = intrinsics @ poses[:, :, :3]
    matrix[:, :, 3, 3] = 1
    y, x = torch.meshgrid(*map(torch.arange, reference.shape[-2:]), indexing="ij")
    pixels = torch.stack([x, y, torch.ones_like(x)]).to(poses.dtype)
    points = pixels[None, :, None] * depths[:, None]
    points = torch.cat([points, torch.ones_like(points[:, :1])], 1).flatten(2)
    volumes = []
    for v in range(views):
        seen = (matrix[:, v + 1] @ torch.linalg.inv(matrix[:, 0]) @ points)[:, :3]
        place = seen[:, :2] / seen[:, 2:]
        size = torch.tensor([width - 1.0, height - 1.0], dtype=poses.dtype)[:, None]
        grid = torch.where(seen[:, 2:] > 0, 2 * place / size - 1, -9).permute(0, 2, 1)[:, :, None]
        result = torch.nn.functional.grid_sample(sources[:, v], grid, align_corners=True)
        volumes.append(result.reshape(n, channels, *depths.shape[1:]))
    if reduce == "none":
        return torch.stack(volumes, 1)
    every = torch.stack([reference[:, :, None].expand_as(volumes[0]), *volumes])
    return every.mean(0) if reduce == "mean" else (every**2).mean(0) - every.mean(0) ** 2


def tensors(arrays: dict[str, Any]) -> dict[str, Any]:
    result = {k: torch.from_numpy(v) for k, v in arrays.items() if k != "cameras"}
    return {**result, "cameras": tuple(map(torch.from_numpy, arrays["cameras"]))}


def depth_like(kind: str, depths: np.ndarray) -> np.ndarray:
    if kind == "D":
        return depths
    rng = np.random.default_rng(1)
    shape = {"ND": (2, 1), "1DHW": (1, 1, 7, 9), "NDHW": (2, 1, 7, 9)}[kind]
    rows = depths.reshape(1, -1, *(1,) * (len(shape) - 2))
    return rows * rng.uniform(0.9, 1.1, shape)


@pytest.mark.parametrize("reduce", ["variance", "mean", "none"])
@pytest.mark.parametrize("kind", ["D", "ND", "1DHW", "NDHW"])
def test_sweeps_match_the_plain_implementation(
    reduce: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = scene()
    arguments["depths"] = depth_like(kind, arguments["depths"])
    expected = reference_sweep(**tensors(arguments), reduce=reduce)
    monkeypatch.setattr(sweep, "FORWARD", 2 * 2 * 4 * 7 * 9)  # two planes at a time, and one
    result = cameras.plane_sweep(**arguments, reduce=reduce)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)
    of_tensors = cameras.plane_sweep(**tensors(arguments), reduce=reduce)
    np.testing.assert_allclose(of_tensors, expected, rtol=0, atol=1e-12)
    intrinsics, poses = arguments["cameras"]
    flipped = {**arguments, "cameras": (intrinsics, FLIP @ poses)}
    again = cameras.plane_sweep(**flipped, reduce=reduce, axes="opengl")
    np.testing.assert_allclose(again, expected, rtol=0, atol=1e-12)


def test_float32_is_within_rounding() -> None:
    arguments = scene()
    exact = cameras.plane_sweep(**arguments)
    narrow = {k: v.astype(np.float32) for k, v in arguments.items() if k != "cameras"}
    lenses = [camera.astype(np.float32) for camera in arguments["cameras"]]
    result = cameras.plane_sweep(**narrow, cameras=lenses)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, exact, rtol=0, atol=1e-5)
    # Matrices in float64 do not change the dtype of the features.
    assert cameras.plane_sweep(**narrow, cameras=arguments["cameras"]).dtype == np.float32


def test_sources_of_different_sizes_and_shared_cameras() -> None:
    arguments = scene(items=2, views=2)
    lenses = tuple(camera[0] for camera in arguments["cameras"])
    sources = [
        arguments["sources"][:, 0],
        np.pad(arguments["sources"][:, 1], [(0, 0)] * 2 + [(0, 3)] * 2),
    ]
    result = cameras.plane_sweep(
        arguments["reference"], sources, lenses, arguments["depths"], "mean"
    )
    for n in range(2):
        for v in range(2):
            pair = tuple(lens[[0, v + 1]] for lens in lenses)
            volume = cameras.plane_sweep(
                arguments["reference"][n : n + 1],
                [sources[v][n : n + 1]],
                pair,
                arguments["depths"],
                "none",
            )
            result[n] -= volume[0, 0] / 3
    np.testing.assert_allclose(
        result, arguments["reference"][:, :, None] / 3 + 0 * result, atol=1e-12
    )


def test_a_custom_reduction() -> None:
    arguments = scene()
    expected = cameras.plane_sweep(**arguments)
    shapes = []

    def variance(features: np.ndarray, mask: np.ndarray) -> np.ndarray:
        shapes.append((features.shape, mask.shape, mask.dtype, mask[:, 0].all()))
        return features.var(1)

    result = cameras.plane_sweep(**arguments, reduce=variance)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)
    assert shapes == [((2, 4, 4, 5, 7, 9), (2, 4, 1, 5, 7, 9), np.dtype(bool), True)]
    count = cameras.plane_sweep(**arguments, reduce=lambda features, mask: mask.sum(1) + 0.0)
    assert count.shape == (2, 1, 5, 7, 9)
    assert count.min() >= 1 and count[-1].max() == 3  # the last view of the last item looks away


def losses(arguments: dict[str, Any], reduce: Any, upstream: Tensor) -> Tensor:
    return (cameras.plane_sweep(**arguments, reduce=reduce) * upstream).sum()


@pytest.mark.covering
@pytest.mark.parametrize("reduce", ["variance", "mean", "none"])
@pytest.mark.parametrize("kind", ["D", "ND", "NDHW"])
def test_gradients_match_the_plain_implementation(
    reduce: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "BACKWARD", 2 * 2 * 4 * 7 * 9)
    arrays = scene()
    arrays["depths"] = depth_like(kind, arrays["depths"])
    arguments = tensors(arrays)
    leaves = [
        arguments["reference"],
        arguments["sources"],
        arguments["depths"],
        *arguments["cameras"],
    ]
    for leaf in leaves:
        leaf.requires_grad_()
    expected = reference_sweep(**arguments, reduce=reduce)
    upstream = torch.from_numpy(np.random.default_rng(2).normal(size=expected.shape))
    # The mean and the sampled features depend on the reference in part only, or not at all.
    truth = torch.autograd.grad((expected * upstream).sum(), leaves, materialize_grads=True)
    result = torch.autograd.grad(
        losses(arguments, reduce, upstream), leaves, materialize_grads=True
    )
    for mine, theirs in zip(result, truth, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-9)
    by_arrays = cameras.plane_sweep_vjp(upstream.numpy(), **arrays, reduce=reduce)
    for mine, theirs in zip(by_arrays, truth, strict=False):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("reduce", ["variance", "mean", "none"])
def test_derivatives_of_second_order(reduce: str) -> None:
    arguments = tensors(scene(items=1, views=2, channels=1, size=(3, 4)))
    arguments["depths"] = arguments["depths"][:2]
    leaves = [
        arguments["reference"],
        arguments["sources"],
        arguments["depths"],
        *arguments["cameras"],
    ]
    leaves = [leaf.detach().requires_grad_() for leaf in leaves]

    def call(reference: Tensor, sources: Tensor, depths: Tensor, *lenses: Tensor) -> Tensor:
        return cameras.plane_sweep(reference, sources, lenses, depths, reduce)

    assert torch.autograd.gradcheck(call, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, leaves, fast_mode=True)


def test_depths_at_a_sources_image_plane_have_finite_gradients() -> None:
    arguments = tensors(scene(items=1, views=1))
    arguments["cameras"][1][:] = torch.eye(4)
    arguments["cameras"][1][0, 1, 2, 3] = -1  # the source is one unit in front
    arguments["depths"] = torch.tensor([0.5, 1, 1 + 1e-15, 2], dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad(cameras.plane_sweep(**arguments).sum(), arguments["depths"])
    assert torch.isfinite(slope).all() and (slope[:2] == 0).all() and slope[3] != 0


def test_a_function_with_parameters_is_differentiable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "FORWARD", 2 * 2 * 4 * 7 * 9)
    arguments = tensors(scene())
    weight = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    leaves = [arguments["reference"], arguments["sources"], arguments["depths"], weight]
    for leaf in leaves:
        leaf.requires_grad_()
    upstream = torch.from_numpy(np.random.default_rng(2).normal(size=(2, 4, 5, 7, 9)))
    loss = losses(arguments, lambda warped, mask: weight * warped.var(1, correction=0), upstream)
    result = torch.autograd.grad(loss, leaves)
    truth = torch.autograd.grad(weight * losses(arguments, "variance", upstream), leaves)
    for mine, theirs in zip(result, truth, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_sweeps_support_transforms_and_compilers() -> None:
    arguments = tensors(scene(items=1, views=2))
    depths = arguments.pop("depths")

    def call(depths: Tensor) -> Tensor:
        return cameras.plane_sweep(**arguments, depths=depths)

    tangent = torch.ones_like(depths)
    _, slope = torch.func.jvp(call, (depths,), (tangent,))
    step = 1e-6
    difference = (call(depths + step) - call(depths - step)) / (2 * step)
    torch.testing.assert_close(slope, difference, rtol=0, atol=1e-5)
    several = torch.stack([depths, depths + 0.1])
    mapped = torch.vmap(call)(several)
    torch.testing.assert_close(mapped, torch.stack([call(volume) for volume in several]))
    torch.compiler.reset()
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(depths), call(depths))


def test_the_depth_of_a_plane_has_the_least_cost() -> None:
    """The variance is smallest at the depth of the plane that all views show."""
    arguments = scene(items=1, views=3, channels=1, size=(25, 31))
    intrinsics, poses = arguments["cameras"]
    poses[-1, -1] = poses[-1, 1]
    x, y = np.meshgrid(np.arange(31), np.arange(25))
    pictures = []
    for matrix, pose in zip(intrinsics[0], poses[0], strict=True):
        inverse = np.linalg.inv(poses[0, 0] @ np.linalg.inv(pose))  # reference to camera
        to_reference = np.linalg.inv(inverse)
        rays = np.stack([x, y, np.ones_like(x)], -1) @ np.linalg.inv(matrix).T
        rays, start = rays @ to_reference[:3, :3].T, to_reference[:3, 3]
        points = start + rays * ((2.5 - start[2]) / rays[..., 2])[..., None]
        pictures.append(np.sin(7 * points[..., 0] + 5 * points[..., 1]))
    pictures = np.array(pictures)[None, :, None]
    depths = np.array([1.5, 2.0, 2.5, 3.0, 3.5])
    cost = cameras.plane_sweep(pictures[:, 0], pictures[:, 1:], arguments["cameras"], depths)
    middle = cost[0, 0, :, 6:-6, 6:-6]
    assert (middle[2] < 2e-3).all()
    assert (middle.mean((1, 2)).argmin() == 2) and middle[[1, 3]].mean() > 10 * middle[2].mean()


MEASURE = """
import sys
from pathlib import Path
import numpy as np
import torch
from gridsample import cameras
from gridsample.cameras import sweep

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))

def call(depths):
    cost = cameras.plane_sweep(features[:, 0], features[:, 1:], lenses, depths)
    return cost, torch.autograd.grad(cost, (features, depths), upstream[:, :, : len(depths)])

sweep.FORWARD = sweep.BACKWARD = 1 << 17
torch.set_num_threads(1)
features = torch.rand(1, 5, 8, 32, 40, requires_grad=True)
intrinsics = torch.tensor([[40.0, 0, 20], [0, 40, 16], [0, 0, 1]]).repeat(5, 1, 1)
poses = torch.eye(4).repeat(5, 1, 1)
poses[:, 0, 3] = torch.linspace(0, 0.2, 5)
lenses = intrinsics, poses
upstream = torch.ones(1, 8, 768, 32, 40)
call(torch.linspace(1, 2, 2, requires_grad=True))
depths = torch.linspace(1, 4, 768, requires_grad=True)
before = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
cost, _ = call(depths)
print((status("VmHWM") - before) / (cost.numel() * 4))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is reset by a file of Linux's")
def test_a_sweep_and_its_gradients_take_the_memory_of_one_volume() -> None:
    run = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=False
    )
    if "clear_refs" in run.stderr and "Error" in run.stderr:
        pytest.skip("the peak cannot be reset here")
    assert run.returncode == 0, run.stderr
    # The volume is 31 MB, and a part of the planes is 0.5 MB for each of four views.
    assert float(run.stdout) < 2.5


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"reference": np.zeros((2, 4, 7))}, ValueError, ["reference", "(N, C, H, W)"]),
        ({"reference": np.zeros((2, 4, 7, 9), int)}, TypeError, ["reference", "int64"]),
        ({"sources": np.zeros((2, 4, 7, 9))}, ValueError, ["sources", "(N, V, C, h, w)"]),
        ({"sources": []}, ValueError, ["sources", "one view"]),
        ({"sources": [np.zeros((2, 5, 7, 9))]}, ValueError, ["sources[0]", "(2, 5, 7, 9)"]),
        ({"cameras": np.eye(3)}, ValueError, ["cameras", "(intrinsics, world_to_camera)"]),
        ({"cameras": (np.eye(3), np.eye(4))}, ValueError, ["intrinsics", "V + 1 = 4"]),
        ({"depths": np.zeros((3, 4))}, ValueError, ["depths", "(N, D)", "(3, 4)"]),
        ({"depths": np.zeros((1, 5, 7, 8))}, ValueError, ["depths", "(1, 5, 7, 8)"]),
        ({"reduce": "median"}, ValueError, ["reduce", "'variance'", "'median'"]),
        ({"reduce": 3}, TypeError, ["reduce", "3"]),
        ({"reduce": lambda warped, mask: warped}, ValueError, ["reduce", "(N, any, planes, H, W)"]),
    ],
)
def test_invalid_arguments_are_rejected(
    change: dict[str, Any], error: type[Exception], words: list[str]
) -> None:
    with pytest.raises(error) as caught:
        cameras.plane_sweep(**{**scene(), **change})
    for word in words:
        assert word in str(caught.value)


def test_invalid_arguments_of_the_gradients_are_rejected() -> None:
    with pytest.raises(ValueError, match="grad_output must have the shape"):
        cameras.plane_sweep_vjp(np.zeros(3), **scene())
    with pytest.raises(ValueError, match="reduce must be"):
        cameras.plane_sweep_vjp(np.zeros(3), **scene(), reduce=lambda warped, mask: warped[:, 0])
