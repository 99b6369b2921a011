"""Resampling through the world: SimpleITK, nibabel, closed forms, gradients."""

from __future__ import annotations

from typing import Any

import nibabel
import nibabel.processing
import numpy as np
import pytest
import scipy.ndimage
import SimpleITK as sitk
import torch

import gridsample
from gridsample.world import Displacement, resample, resample_vjp, world_grid

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(0)


def rotation_matrix(rank: int, degrees: float) -> Array:
    """A rotation about an oblique axis, or in the plane."""
    a = np.radians(degrees)
    flat = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    if rank == 2:
        return flat
    x, y, z = np.array([2.0, -1.0, 2.0]) / 3
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(a) * cross + (1 - np.cos(a)) * cross @ cross


def affine_of(spacing: Any, degrees: float, centre: Any, shape: Any) -> Array:
    """An oblique affine, x first, whose middle voxel of an array's shape is at a centre."""
    rank = len(spacing)
    result = np.eye(rank + 1)
    result[:rank, :rank] = rotation_matrix(rank, degrees) @ np.diag(spacing)
    middle = (np.array(shape[::-1]) - 1) / 2
    result[:rank, rank] = centre - result[:rank, :rank] @ middle
    return result


def as_itk(array: Array, affine: Array, vector: bool = False) -> sitk.Image:
    rank = len(affine) - 1
    image = sitk.GetImageFromArray(array, isVector=vector)
    spacing = np.linalg.norm(affine[:rank, :rank], axis=0)
    image.SetSpacing(spacing.tolist())
    image.SetDirection((affine[:rank, :rank] / spacing).ravel().tolist())
    image.SetOrigin(affine[:rank, rank].tolist())
    return image


def smooth(shape: Any, sigma: float = 1.0) -> Array:
    result = scipy.ndimage.gaussian_filter(rng.normal(size=shape), sigma)
    return (result - result.min()) / np.ptp(result)


CASES = {
    2: ((31, 24), (1.5, 0.8), (25, 20), (1.1, 1.3), (30.0, -12.0)),
    3: ((17, 24, 21), (1.0, 0.8, 2.5), (15, 13, 18), (1.3, 1.1, 1.7), (30.0, -12.0, 7.0)),
}


def case(rank: int) -> tuple[Array, Array, tuple[tuple[int, ...], Array]]:
    """An image, its affine, and the voxels of an output that overlaps with it, x first."""
    shape, spacing, out, steps, centre = CASES[rank]
    source = affine_of(spacing, 20, centre, shape)
    return smooth(shape), source, (out, affine_of(steps, -35, np.add(centre, 1.3), out))


def transforms(rank: int) -> tuple[Array, Displacement]:
    """An affine matrix about the middle of the images, and a field on oblique voxels."""
    centre = np.array(CASES[rank][-1])
    matrix = np.eye(rank + 1)
    matrix[:rank, :rank] = rotation_matrix(rank, 10) * 1.1
    matrix[:rank, rank] = centre - matrix[:rank, :rank] @ centre + 0.7
    shape = (9, 11, 10)[:rank]
    vectors = np.stack([3 * smooth(shape, 1.5) - 1.5 for _ in range(rank)], -1)
    return matrix, Displacement(vectors, affine_of((3.0, 2.5, 4.0)[:rank], 50, centre, shape))


def itk_affine(matrix: Array) -> sitk.AffineTransform:
    rank = len(matrix) - 1
    result = sitk.AffineTransform(rank)
    result.SetMatrix(matrix[:rank, :rank].ravel().tolist())
    result.SetTranslation(matrix[:rank, rank].tolist())
    return result


def itk_field(field: Displacement) -> sitk.DisplacementFieldTransform:
    return sitk.DisplacementFieldTransform(as_itk(field.vectors, field.affine, vector=True))


@pytest.mark.covering
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("mode", ["linear", "spline3"])
@pytest.mark.parametrize("kind", ["none", "affine", "field", "both"])
def test_results_match_simpleitk(rank: int, mode: str, kind: str) -> None:
    image, affine, (out, target) = case(rank)
    matrix, field = transforms(rank)
    ours: list[Any] = {"none": [], "affine": [matrix], "field": [field], "both": [matrix, field]}[
        kind
    ]
    theirs = sitk.CompositeTransform(rank)
    for step in reversed(ours):  # ITK applies the last first
        theirs.AddTransform(itk_field(step) if isinstance(step, Displacement) else itk_affine(step))
    expected = sitk.Resample(
        as_itk(image, affine),
        as_itk(np.zeros(out), target),
        theirs,
        sitk.sitkLinear if mode == "linear" else sitk.sitkBSpline3,
        0.0,
    )
    result = resample(image, affine, (out, target), ours, mode, "mirror", axes="xyz")
    places = world_grid(affine, (out, target), ours, axes="xyz")[0]
    inner = ((places >= 0) & (places <= np.array(image.shape[::-1]) - 1)).all(-1)
    assert 0.3 < inner.mean() < 0.99
    error = np.abs(result - sitk.GetArrayFromImage(expected))[inner].max()
    assert error < 1e-6  # of a range of 1


def test_image_edges_match_simpleitk() -> None:
    image, affine, (out, target) = case(2)
    expected = sitk.Resample(
        as_itk(image, affine),
        as_itk(np.zeros(out), target),
        sitk.Transform(2, sitk.sitkIdentity),
        sitk.sitkLinear,
        -7.0,
    )
    options: Any = {"padding_mode": "border", "axes": "xyz", "fill_value": -7}
    result = resample(image, affine, (out, target), extrapolate=False, **options)
    np.testing.assert_allclose(result, sitk.GetArrayFromImage(expected), rtol=0, atol=1e-6)
    assert np.array_equal(
        result, resample(image, affine, (out, target), extrapolate="edges", **options)
    )
    inner = resample(image, affine, (out, target), extrapolate="centers", **options)
    assert 0 < (result == -7).sum() < (inner == -7).sum() < result.size


@pytest.mark.parametrize("order", [1, 3])
def test_array_order_matches_nibabel(order: int) -> None:
    image, source, (out, target) = case(3)
    expected = nibabel.processing.resample_from_to(
        nibabel.Nifti1Image(image, source), (out, target), order=order, mode="constant"
    )
    mode = "linear" if order == 1 else "spline3"
    result = resample(image, source, (out, target), mode=mode, padding_mode="mirror")
    places = world_grid(source, (out, target))[0][..., ::-1]
    inner = ((places >= 0) & (places <= np.array(image.shape) - 1)).all(-1)
    assert inner.any()
    np.testing.assert_allclose(
        result[inner], expected.get_fdata()[inner], rtol=0, atol=2e-7
    )  # nibabel's results are float32


@pytest.mark.parametrize("kind", ["affine", "field", "function"])
def test_the_orders_of_axes_differ_by_a_transpose(kind: str) -> None:
    image, source, (out, target) = case(3)
    matrix, field = transforms(3)
    turned = Displacement(field.vectors.transpose(2, 1, 0, 3), field.affine)

    def function(points: Array) -> Array:
        return points @ matrix[:3, :3].T + matrix[:3, 3]

    first = {"affine": matrix, "field": field, "function": function}[kind]
    second = {"affine": matrix, "field": turned, "function": function}[kind]
    result = resample(image, source, (out, target), first, axes="xyz")
    again = resample(image.T, source, (out[::-1], target), second)
    np.testing.assert_allclose(again.T, result, rtol=0, atol=1e-12)
    if kind == "function":
        expected = resample(image, source, (out, target), matrix, axes="xyz")
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)


def test_fields_end_at_their_outer_voxels() -> None:
    image = np.arange(9.0)
    field = Displacement(np.array([[1.0], [2.0]]), [[1.0, 3.0], [0.0, 1.0]])  # from 2.5 to 4.5 mm
    like = (9,), [[0.5, 1.0], [0.0, 1.0]]  # 1 mm to 5 mm
    result = resample(image, np.eye(2), like, field)
    points = np.arange(1, 5.25, 0.5)
    moved = points + np.array([0, 0, 0, 1, 1, 1.5, 2, 2, 0])
    np.testing.assert_allclose(result, moved, rtol=0, atol=1e-12)


def test_the_first_transform_is_applied_first() -> None:
    image, identity = np.arange(20.0), np.eye(2)
    double, shift = np.diag([2.0, 1.0]), np.array([[1.0, 3.0], [0.0, 1.0]])
    like = (4,), identity
    assert resample(image, identity, like, [double, shift]).tolist() == [3, 5, 7, 9]
    assert resample(image, identity, like, [shift, double]).tolist() == [6, 8, 10, 12]
    as_lists = [double.tolist(), shift.tolist()]
    assert resample(image, identity, like, as_lists).tolist() == [3, 5, 7, 9]
    assert resample(image, identity, like, shift.tolist()).tolist() == [3, 4, 5, 6]
    assert resample(image, identity, like, [lambda p: 2 * p, shift]).tolist() == [3, 5, 7, 9]


def test_leading_axes_and_batches() -> None:
    image = rng.normal(size=(2, 3, 5, 7)).astype(np.float32)
    affine = np.stack([np.eye(3), np.diag([2.0, 1.5, 1.0])])
    like = (4, 6), np.eye(3) * [0.7, 0.8, 1]
    every = resample(image, affine, like)
    assert every.shape == (2, 3, 4, 6) and every.dtype == np.float32
    for k in range(2):
        np.testing.assert_array_equal(resample(image[k], affine[k], like), every[k])
        np.testing.assert_array_equal(resample(image[k, 1], affine[k], like), every[k, 1])
    single = resample(image[:1], affine, like)
    np.testing.assert_array_equal(single[1], resample(image[0], affine[1], like))
    moved = resample(image, affine, like, lambda points: points + 0.1)
    shift = np.array([[1, 0, 0.1], [0, 1, 0.1], [0, 0, 1]])
    np.testing.assert_allclose(moved, resample(image, affine, like, shift), rtol=0, atol=1e-5)
    assert world_grid(affine, like).shape == (2, 4, 6, 2)


def test_without_fields_there_is_no_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    image, source, like = case(3)
    matrix, field = transforms(3)
    expected = resample(image, source, like, [matrix, lambda points: points], "cubic")
    monkeypatch.delattr("gridsample.fields.paths.Path.positions")
    result = resample(image, source, like, [matrix, np.eye(4)], "cubic")
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)
    with pytest.raises(AttributeError):
        resample(image, source, like, field)


def test_options_are_those_of_sampling() -> None:
    labels = rng.integers(0, 5, (6, 7)).astype(np.int16)
    affine, like = np.diag([2.0, 1.0, 1.0]), ((9, 5), np.diag([1.1, 1.3, 1.0]))
    result = resample(labels, affine, like, mode="label", padding_mode="border")
    assert result.dtype == np.int16 and set(result.ravel()) <= set(labels.ravel())
    image = rng.normal(size=(6, 7))
    image[2, 3] = np.nan
    grid = world_grid(affine, like)
    for weights in (None, rng.uniform(0.5, 1, (6, 7))):
        full = None if weights is None else weights[None, None]
        options: dict[str, Any] = {"missing": "ignore", "return_weight": True, "min_weight": 0.1}
        actual = resample(image, affine, like, weights=weights, **options)
        expected = gridsample.grid_sample(
            image[None, None], grid, coords="pixel", weights=full, **options
        )
        for gradient, other in zip(actual, expected, strict=True):
            np.testing.assert_allclose(gradient, other[0, 0], rtol=0, atol=1e-12)
    far = (2, 2), np.diag([100.0, 100.0, 1.0])
    filled = resample(image, affine, far, None, "cubic", "constant", fill_value=7.0)
    assert filled[1, 1] == 7


@pytest.mark.parametrize("kind", ["affine", "field"])
def test_larger_voxels_are_averaged(kind: str) -> None:
    image, source, _ = case(2)
    transform = transforms(2)[kind == "field"]
    like = (9, 8), affine_of((4.0, 3.0), 10, CASES[2][-1], (9, 8))
    result = resample(image, source, like, transform, axes="xyz", antialias=True)
    grid = world_grid(source, like, transform, axes="xyz")
    arguments = image[None, None], grid
    expected = gridsample.grid_sample(*arguments, coords="pixel", antialias=True)[0, 0]
    # In an affine map, footprints are those of the matrix, also at the ends.
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-9)
    assert np.abs(result - resample(image, source, like, transform, axes="xyz")).max() > 0.05
    upstream = rng.normal(size=like[0])
    gradient = resample_vjp(upstream, image, source, like, transform, axes="xyz", antialias=True)
    np.testing.assert_allclose((upstream * result).sum(), (gradient * image).sum(), rtol=1e-10)


@pytest.mark.parametrize("kind", ["affine", "field"])
def test_the_gradient_of_arrays_is_the_transpose(kind: str) -> None:
    image, source, like = case(2)
    transform = transforms(2)[kind == "field"]
    upstream = rng.normal(size=like[0])
    for mode in ("linear", "spline3"):
        gradient = resample_vjp(upstream, image, source, like, transform, mode)
        assert gradient.shape == image.shape
        result = resample(image, source, like, transform, mode)
        np.testing.assert_allclose((upstream * result).sum(), (gradient * image).sum(), rtol=1e-10)
    weights = rng.uniform(0.5, 1, image.shape)
    by_image, by_weights = resample_vjp(
        upstream, image, source, like, transform, missing="ignore", weights=weights
    )
    tensors = [torch.from_numpy(array).requires_grad_() for array in (image, weights)]
    theirs = [torch.from_numpy(np.asarray(array)) for array in (source, like[1])]
    moved = (
        Displacement(*(torch.from_numpy(array) for array in transform))
        if kind == "field"
        else torch.from_numpy(transform)
    )
    created = resample(
        tensors[0], theirs[0], (like[0], theirs[1]), moved, missing="ignore", weights=tensors[1]
    )
    expected = torch.autograd.grad(created, tensors, torch.from_numpy(upstream))
    np.testing.assert_allclose(by_image, expected[0].numpy(), rtol=0, atol=1e-10)
    np.testing.assert_allclose(by_weights, expected[1].numpy(), rtol=0, atol=1e-10)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("axes", ["ijk", "xyz"])
def test_tensors_are_differentiable_in_everything(axes: str) -> None:
    image = torch.from_numpy(rng.normal(size=(2, 5, 6)))
    source = torch.tensor([[1.1, 0.2, -0.3], [-0.1, 0.9, 0.2], [0, 0, 1]], dtype=torch.float64)
    target = torch.tensor([[0.9, -0.1, 0.4], [0.2, 1.1, 0.3], [0, 0, 1]], dtype=torch.float64)
    matrix = torch.tensor([[1.0, 0.05, 0.1], [-0.05, 1.0, 0.2], [0, 0, 1]], dtype=torch.float64)
    vectors = torch.from_numpy(rng.normal(size=(4, 4, 2)) * 0.1)
    place = torch.tensor([[1.7, 0.1, -1], [0.1, 1.8, -1.1], [0, 0, 1]], dtype=torch.float64)
    tensors = [leaf.requires_grad_() for leaf in (image, source, target, matrix, vectors, place)]

    def affine(*a: Any) -> Any:
        return resample(a[0], a[1], ((3, 4), a[2]), a[3], "cubic", axes=axes)

    def field(*a: Any) -> Any:
        steps = [a[3], Displacement(a[4], a[5]), torch.sin]
        return resample(a[0], a[1], ((3, 4), a[2]), steps, "cubic", axes=axes)

    assert torch.autograd.gradcheck(affine, tensors[:4])
    assert torch.autograd.gradcheck(field, tensors)
    arrays = [leaf.detach().numpy() for leaf in tensors]
    steps = [arrays[3], Displacement(*arrays[4:]), np.sin]
    like = (3, 4), arrays[2]
    expected = resample(arrays[0], arrays[1], like, steps, "cubic", axes=axes)
    np.testing.assert_allclose(field(*tensors).detach(), expected, rtol=0, atol=1e-12)


def test_precision() -> None:
    image = rng.normal(size=(6, 7)).astype(np.float32)
    source, like = np.diag([0.7, 1.1, 1.0]), ((5, 8), np.diag([0.9, 0.6, 1.0]))
    wide = resample(image.astype(np.float64), source, like)
    np.testing.assert_allclose(resample(image, source, like), wide, rtol=0, atol=3e-6)
    assert world_grid(source, like).dtype == np.float64
    small = world_grid(source.astype(np.float32), (like[0], like[1].astype(np.float32)))
    assert small.dtype == np.float32
    tensor = torch.from_numpy(image)
    result = resample(tensor, source.tolist(), (like[0], like[1].tolist()))
    assert result.dtype == torch.float32
    np.testing.assert_allclose(result, wide, rtol=0, atol=3e-6)


def test_invalid_affines_and_options_are_rejected() -> None:
    image, like = np.ones((5, 6)), ((3, 4), np.eye(3))
    for arguments, error, message in (
        ((image, np.eye(4), ((3, 4, 5), np.eye(4))), ValueError, "with the 3 spatial axes of affi"),
        ((image, np.ones((5, 5)), like), ValueError, "affine must be"),
        ((image, np.diag([1.0, 0, 1]), like), ValueError, "affine is singular"),
        ((image, np.ones((3, 3)), like), ValueError, r"affine is not affine: its last row"),
        ((image, np.eye(3), ((3,), np.eye(3))), ValueError, r"like\[0\] must have 2 entries"),
        ((image, np.eye(3), ((3, 4), np.eye(4))), ValueError, r"like\[1\] must be \(2, 3\) or"),
        ((image, np.eye(3), 3), TypeError, r"like must be \(shape, affine\)"),
        ((image, "x", like), TypeError, "affine"),
        ((image, np.eye(3), like, np.eye(4)), ValueError, "transform must be"),
        ((image, np.eye(3), like, [np.eye(3), np.eye(4)]), ValueError, r"transform\[1\] must be"),
        ((image, np.eye(3), like, [["a"]]), TypeError, r"transform.* must be a matrix of real"),
        ((image, np.eye(3), like, lambda p: p[..., :1]), ValueError, "must return points of the"),
        (
            (image, np.eye(3), like, Displacement(np.ones((3, 4, 3)), np.eye(3))),
            ValueError,
            r"transform.vectors must be \(\*spatial, 2\)",
        ),
        (
            (image, np.eye(3), like, Displacement(np.ones((3, 4, 2)), np.eye(4))),
            ValueError,
            r"transform.affine must be",
        ),
        ((image, np.stack([np.eye(3)] * 2), like), ValueError, "for a batch of 2 affines"),
        ((torch.from_numpy(image), np.eye(3), like), TypeError, "torch.as_tensor"),
        ((image, np.diag([np.inf, 1, 1]), like), ValueError, "affine must hold finite numbers"),
        ((image, np.eye(3), ((3, 4), np.eye(3) * np.nan)), ValueError, r"like\[1\] must hold fini"),
        ((image, np.zeros((0, 3, 3)), like), ValueError, "affine is an empty batch"),
        ((image, np.eye(3), image), TypeError, "got ndarray"),
        ((image, np.eye(3), ((2**30, 2**30), np.eye(3))), ValueError, r"like\[0\] must have less"),
        ((image, np.eye(3), (np.eye(3), (3, 4))), TypeError, r"like\[0\] must be.* got a ndarray"),
        ((image, np.eye(3), like, lambda p: p * 1j), TypeError, "transform, a function, must hold"),
    ):
        with pytest.raises(error, match=message):
            resample(*arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="axes"):
        resample(image, np.eye(3), like, axes="zyx")
    with pytest.raises(ValueError, match="weights must have as many axes as the image, 2"):
        resample(image, np.eye(3), like, weights=np.ones((1, 1, 5, 6)))
    with pytest.raises(ValueError, match="grad_output must have as many axes"):
        resample_vjp(np.ones((1, 3, 4)), image, np.eye(3), like)
