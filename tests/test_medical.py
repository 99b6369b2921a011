"""`gridsample.medical` against nnU-Net's rule, written out here with scikit-image and SciPy."""

import tracemalloc

import numpy as np
import pytest
import torch

from gridsample import medical
from gridsample.medical import resample, resample_data_or_seg_to_shape

transform = pytest.importorskip("skimage.transform")
ndimage = pytest.importorskip("scipy.ndimage")

rng = np.random.default_rng(0)
# Where two labels share a voxel equally, rounding would decide; here and there, this does.
TIE = medical.TIE


def by_scikit_image(image, shape, order):
    return transform.resize(image, shape, order, mode="edge", anti_aliasing=False)


def by_masks(labels, shape, order):
    """Each label's mask is resized, and the last one with at least 1/2 has the voxel."""
    if order == 0:
        return by_scikit_image(labels.astype(float), shape, 0)
    result = np.zeros(shape)
    for label in np.unique(labels):
        result[by_scikit_image((labels == label).astype(float), shape, order) >= 0.5 - TIE] = label
    return result


def along_axis(image, shape, order):
    sizes = list(zip(image.shape, shape, strict=True))
    places = [n / m * (np.arange(m) + 0.5) - 0.5 for n, m in sizes]
    return ndimage.map_coordinates(
        image, np.stack(np.meshgrid(*places, indexing="ij")), order=order, mode="nearest"
    )


def oracle(data, shape, axis, is_seg, order, order_z):
    """What nnU-Net does with (C, x, y, z), if ``axis`` is apart."""
    resize = by_masks if is_seg else by_scikit_image
    created = np.empty((len(data), *shape), data.dtype)
    for volume, out in zip(data.astype(float), created, strict=True):
        if axis is None:
            out[:] = resize(volume, shape, order)
            continue
        plane = np.delete(shape, axis)
        slices = [resize(image, plane, order) for image in np.moveaxis(volume, axis, 0)]
        result = np.stack(slices, axis)
        if result.shape[axis] == shape[axis]:
            out[:] = result
        elif not is_seg or order_z == 0:
            out[:] = along_axis(result, shape, order_z)
        else:
            out[:] = 0
            for label in np.unique(result):
                share = along_axis((result == label).astype(float), shape, order_z)
                out[share > 0.5 + TIE] = label
    return created


def spacing_of(axis):
    return [5.0 if k == axis else 1.0 for k in range(3)]


def labels_like(shape, dtype=np.int16):
    """Blocks of labels, which are -1, 0 and others."""
    blocks = rng.integers(-1, 5, [-(-n // 4) for n in shape])
    return np.kron(blocks, np.ones([4] * len(shape)))[tuple(map(slice, shape))].astype(dtype)


CASES = [((2, 9, 20, 24), (23, 17, 31)), ((1, 14, 12, 15), (9, 19, 15))]


@pytest.mark.covering
@pytest.mark.parametrize("is_seg", [False, True])
@pytest.mark.parametrize("order_z", [0, 1, 3])
@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize(("shape", "size"), CASES)
def test_resample_matches_nnunet(shape, size, axis, order, order_z, is_seg):
    data = np.stack([labels_like(shape[1:]) for _ in range(shape[0])])
    if not is_seg:
        data = rng.random(shape, dtype=np.float32)
    options = size, spacing_of(axis), (1, 1, 1), is_seg, order, order_z
    expected = oracle(data, size, axis, is_seg, order, order_z)
    for array in (data, torch.from_numpy(data)):
        result = resample_data_or_seg_to_shape(array, *options, force_separate_z=None)
        assert type(result) is type(array)
        assert result.dtype == array.dtype
        if is_seg:
            # A slice's share may lie this close to the tie.
            assert (np.asarray(result) != expected).mean() < 2e-3
        else:
            np.testing.assert_allclose(np.asarray(result), expected, rtol=0, atol=5e-6)


def test_labels_are_exact_without_ties():
    labels = labels_like((13, 14, 15), np.int16)
    result = resample_data_or_seg_to_shape(labels[None], (17, 11, 18), (1,) * 3, (1,) * 3, True, 1)
    shares = [
        by_scikit_image((labels == label).astype(float), (17, 11, 18), 1)
        for label in np.unique(labels)
    ]
    clear = np.min([abs(share - 0.5) for share in shares], axis=0) > 2 * TIE
    expected = by_masks(labels, (17, 11, 18), 1)
    np.testing.assert_array_equal(result[0][clear], expected[clear])
    assert clear.mean() > 0.9


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, bool])
@pytest.mark.parametrize("order", [0, 1, 3])
def test_resampled_labels_have_the_largest_weight(dtype, order):
    labels = labels_like((9, 14, 10)).astype(dtype)
    spacing, new = (1.0, 0.8, 2.0), (0.7, 1.3, 1.5)
    result = resample(labels, spacing, new, is_label=True, order=order)
    assert result.dtype == dtype
    assert result.shape == (13, 9, 13)
    present = np.unique(labels)
    shares = np.stack(
        [by_scikit_image((labels == label) * 1.0, result.shape, order) for label in present]
    )
    best = np.sort(shares, axis=0)
    clear = best[-1] - best[-2] > 2 * TIE  # scikit-image clips, so that 1 is a tie only with 1
    np.testing.assert_array_equal(result[clear], present[shares.argmax(0)][clear])
    assert clear.mean() > 0.9


def test_ties_go_to_the_smaller_label():
    row = np.array([3, 1, 9, 9])
    assert resample(row, [2], [1], True, 1).tolist() == [3, 3, 1, 1, 9, 9, 9, 9]
    assert resample(np.array([3, 1]), [1.5], [1], True, 1).tolist() == [3, 1, 1]
    assert resample(np.array([1, 3]), [1.5], [1], True, 1).tolist() == [1, 1, 3]
    corners = np.array([[1, 2], [3, 0]])  # a quarter each in the middle
    assert resample(corners, [1.5, 1.5], [1, 1], True, 1)[1, 1] == 0
    # nnU-Net's rule gives the larger one, and 0 to what has no half
    result = resample_data_or_seg_to_shape(
        corners[None, None] + 1, (1, 3, 3), *[(1,) * 3] * 2, True, 1
    )
    assert result[0, 0].tolist() == [[2, 3, 3], [4, 0, 3], [4, 4, 1]]


def test_results_do_not_depend_on_bands(monkeypatch):
    volume, labels = rng.random((2, 12, 13, 14)), labels_like((2, 12, 13, 14))
    calls = [
        lambda **options: resample(volume, (5, 1, 1), (2, 1.3, 1.1), order_separate=3, **options),
        lambda **options: resample(volume, (1, 1, 5), (1, 1.3, 7), **options),
        lambda **options: resample(
            labels, (5, 1, 1), (2, 1.3, 1.1), True, 3, order_separate=1, **options
        ),
        lambda **options: resample(labels, (1, 1.2, 1), (0.8, 1.3, 1.1), True, 1, **options),
    ]
    expected = [call() for call in calls]
    monkeypatch.setattr(medical, "MIN_BAND_BYTES", 1)
    for call, desired in zip(calls, expected, strict=True):
        np.testing.assert_allclose(call(), desired, rtol=0, atol=1e-12)


def test_the_anisotropic_axis_is_detected():
    axis = medical.anisotropic_axis
    assert axis([3.1, 1, 1], [1, 1, 1], 3) == 0
    assert axis([1, 3, 1], [1, 1, 1], 3) is None
    assert axis([1, 1, 1], [1, 1, 4], 3) == 2
    assert axis([0.2, 1, 1], [1, 1, 1], 3) is None  # two axes are equally coarse
    assert axis([0.2, 1, 1], [1, 1, 9], 3) is None
    data = rng.random((1, 4, 9, 9))
    options = (8, 7, 7), (5, 1, 1), (2, 1, 1)
    apart, joint = (oracle(data, options[0], k, False, 3, 0) for k in (0, None))
    for forced, expected in ((None, apart), (True, apart), (False, joint)):
        result = resample_data_or_seg_to_shape(data, *options, force_separate_z=forced)
        np.testing.assert_allclose(result, expected, atol=1e-12)
    result = resample_data_or_seg_to_shape(data, *options, False, 3, 0, None, 5)
    np.testing.assert_allclose(result, joint, atol=1e-12)
    new = (2.5, 9 / 7, 9 / 7)
    for separate_axis, expected in (("auto", apart), (0, apart), (-3, apart), (None, joint)):
        result = resample(data, options[1], new, separate_axis=separate_axis)
        np.testing.assert_allclose(result, expected, atol=1e-12)


def test_a_plane_and_integers():
    plane = rng.integers(-2000, 3000, (31, 24)).astype(np.int16)
    result = resample(plane, (1, 1), (1.4, 0.9))
    expected = by_scikit_image(plane.astype(float), (22, 27), 3)
    assert result.dtype == np.int16
    np.testing.assert_allclose(result, expected, rtol=0, atol=0.501)
    assert resample(plane, (1, 1), (99, 99)).shape == (1, 1)


def test_the_input_is_not_modified():
    data = rng.random((1, 4, 5, 6))
    original = data.copy()
    for array in (data, torch.from_numpy(data)):
        result = resample(array, (1, 1, 1), (1, 1, 1))
        result += 1
        np.testing.assert_array_equal(data, original)
    data.flags.writeable = False
    for axis, new in ((None, (1, 2, 1)), (0, (0.5, 1, 1)), (0, (0.5, 0.7, 1))):
        for is_label in (False, True):
            options = {"order_separate": 1, "separate_axis": axis}
            resample(data, (1, 1, 1), new, is_label, **options)


def test_tensors_are_differentiable():
    volume = torch.rand(1, 3, 5, 6, dtype=torch.float64, requires_grad=True)
    for spacing in ((1, 1, 1), (5, 1, 1)):
        call = lambda x, by=spacing: resample(x, by, (2.0, 1.2, 0.8), order_separate=1)  # noqa: E731
        result = call(volume)
        np.testing.assert_allclose(result.detach(), call(volume.detach()), rtol=0, atol=1e-12)
    options = {"order": 1, "order_separate": 3}
    assert torch.autograd.gradcheck(
        lambda x: resample(x, (5, 1, 1), (2, 1.2, 0.8), **options), volume
    )
    labels = torch.tensor([[1, 1, 4, 4]], dtype=torch.bfloat16)
    result = resample(labels, [2.0], [1.0], True, 1)
    assert result.dtype == torch.bfloat16
    assert result.tolist() == [[1, 1, 1, 1, 4, 4, 4, 4]]
    half = resample(labels, [2.0], [1.0], order=1)
    assert half.dtype == torch.bfloat16
    assert half.tolist() == [[1, 1, 1, 1.75, 3.25, 4, 4, 4]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": np.ones((4, 4), complex)}, "complex"),
        ({"data": np.ones((0, 4))}, "voxel along each axis"),
        ({"data": np.ones(4)}, "one number for each spatial axis"),
        ({"new_spacing": (1,)}, "one number for each spatial axis"),
        ({"spacing": (1, 0)}, "positive"),
        ({"order": 6}, "order must be 0 to 5"),
        ({"order_separate": -1}, "order_separate must be 0 to 5"),
        ({"separate_axis": 2}, "separate_axis must be"),
        ({"separate_axis": "z"}, "separate_axis must be"),
    ],
)
def test_invalid_volumes_and_spacings_are_rejected(change, message):
    arguments = {"data": np.ones((4, 4)), "spacing": (1, 1), "new_spacing": (1, 2)}
    with pytest.raises((ValueError, TypeError), match=message):
        resample(**(arguments | change))


def test_errors_of_nnunets_function():
    for shape, size in (((4, 4, 4), (4, 4, 4)), ((1, 4, 4, 4), (4, 4)), ((1, 4, 4, 4), (4, 4, 0))):
        with pytest.raises(ValueError, match=r"must be \(C, x, y, z\)|voxel along each axis"):
            resample_data_or_seg_to_shape(np.ones(shape), size, (1, 1, 1), (1, 1, 1))
    data = np.ones((1, 4, 4, 4))
    assert resample_data_or_seg_to_shape(data, (4, 4, 4), (1, 1, 1), (2, 2, 2)) is data


@pytest.mark.slow
@pytest.mark.parametrize("axis", [None, 0, 2])
@pytest.mark.parametrize("is_seg", [False, True])
def test_resampling_needs_little_memory(axis, is_seg):
    data = rng.random((2, 120, 160, 140), dtype=np.float32)
    if is_seg:
        data = (data[:, ::8, ::8, ::8] * 5).astype(np.int16).repeat(8, 1).repeat(8, 2).repeat(8, 3)
    size = (150, 200, 180)
    options = size, spacing_of(axis), (1, 1, 1), is_seg, 1 if is_seg else 3, 0, None
    resample_data_or_seg_to_shape(data, *options)  # loads kernels
    tracemalloc.start()
    try:
        result = resample_data_or_seg_to_shape(data, *options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * result.nbytes
