"""The bands of `gridsample.definitions.zooming`, and the functions of `gridsample.ops.zooming`."""

import numpy as np
import pytest
import torch

from gridsample.definitions.splines import cardinal
from gridsample.definitions.zooming import (
    Zoom,
    full_band,
    inputs_of,
    nearest_inputs,
    shares_inside,
    zoomed,
)
from gridsample.ops.zooming import groups, zoom_axes, zooms_of

ndimage = pytest.importorskip("scipy.ndimage")

MODES = {
    "constant": "grid-constant",
    "border": "nearest",
    "symmetric": "reflect",
    "mirror": "mirror",
    "wrap": "grid-wrap",
}
# SciPy's "reflect" prefilter is inexact on shorter lines; see docs/ndimage.md.
LONG = 22


def zoom_line(line, outputs, order, boundary, sigma=0.0, cval=0.0):
    zooms = zooms_of(line.shape, (outputs,), order, boundary, [sigma])
    return zoom_axes(line, zooms, cval)


@pytest.mark.covering
@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("boundary", MODES)
def test_bands_match_scipys_gaussian_and_zoom(boundary, order):
    mode, rng = MODES[boundary], np.random.default_rng(0)
    for n in (1, 2, 7, 63):
        if boundary == "symmetric" and order > 1 and n < LONG:
            continue
        line = rng.normal(size=n)
        for outputs in (1, 5, 64):
            for sigma in (0.0, 0.7, 3.0):
                blurred = ndimage.gaussian_filter(line, sigma, mode=mode, cval=0.3)
                expected = ndimage.zoom(
                    blurred, outputs / n, order=order, mode=mode, cval=0.3, grid_mode=True
                )
                result = zoom_line(line, outputs, order, boundary, sigma, 0.3)
                np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("order", range(2, 6))
def test_splines_interpolate_their_pixels(order):
    line = np.random.default_rng(1).normal(size=15)
    for boundary in MODES:
        band, share = full_band(Zoom(order, boundary, 0.0, 17, 15, 45))
        result = band.dense()[1::3] @ line if boundary != "wrap" else line
        np.testing.assert_allclose(result, line, atol=1e-12)
        assert (boundary == "constant") != (share == 1).all()
    # and the weights beyond the reach are below the tolerance
    far = cardinal(order, 100)[100:]
    for digits in (8, 17):
        reach = Zoom(order, "border", 0.0, digits, 15, 45).reach
        assert abs(far[reach + 1]) < 4 * 10.0**-digits


def test_windows_match_the_full_result():
    zoom = Zoom(3, "border", 1.5, 17, 40, 25)
    rows = slice(7, 12)
    window = inputs_of(zoom, rows)
    part = zoom._replace(first_input=window.start, first_output=rows.start)
    band = zoomed(part, window.stop - window.start, 5)
    full = full_band(zoom)[0].dense()
    np.testing.assert_array_equal(band.dense(), full[rows, window])
    assert not full[rows, : window.start].any() and not full[rows, window.stop :].any()
    with pytest.raises(ValueError, match="do not suffice"):
        zoomed(part, window.stop - window.start - 1, 5)

    image = np.random.default_rng(2).normal(size=(40, 9))
    zooms = zooms_of(image.shape, (25, 4), 3, "constant")
    window = inputs_of(zooms[0], rows)
    result = zoom_axes(image[window], zooms, 0.7, rows)
    np.testing.assert_allclose(result, zoom_axes(image, zooms, 0.7)[rows], atol=1e-13)


def test_copied_pixels_are_exact():
    assert nearest_inputs(Zoom(0, "border", 0.0, 8, 3, 6)).tolist() == [0, 0, 1, 1, 2, 2]
    assert shares_inside(Zoom(-1, "constant", 3.0, 8, 7, 3)).tolist() == [1, 1, 1 / 3]


@pytest.mark.parametrize(
    ("changing", "expected"),
    [
        ((), []),
        ((1,), [range(1, 2)]),
        ((0, 2), [range(3)]),
        ((0, 3), [range(1), range(3, 4)]),
        ((0, 1, 2, 3, 4), [range(3), range(3, 5)]),
    ],
)
def test_axes_are_resized_in_groups(changing, expected):
    zooms = [Zoom(1, "border", 0.0, 8, 4, 5 if k in changing else 4) for k in range(5)]
    assert list(groups(zooms)) == expected


@pytest.mark.parametrize("boundary", MODES)
def test_any_rank_and_any_layout(boundary):
    image = np.random.default_rng(3).normal(size=(4, 5, 3, 6, 7))
    size = (6, 5, 2, 6, 4)
    expected = ndimage.zoom(
        image, np.divide(size, image.shape), order=1, mode=MODES[boundary], cval=2.0, grid_mode=True
    )
    for array in (image, np.asfortranarray(image), torch.from_numpy(image)):
        result = zoom_axes(array, zooms_of(image.shape, size, 1, boundary), 2.0)
        assert type(result) is type(array)
        np.testing.assert_allclose(np.asarray(result), expected, rtol=0, atol=1e-13)


def test_a_tensor_has_derivatives():
    image = torch.rand(5, 6, dtype=torch.float64, requires_grad=True)
    for boundary in ("constant", "wrap"):
        zooms = zooms_of((5, 6), (3, 8), 3, boundary, [0.8, 0.0])
        assert torch.autograd.gradcheck(lambda x, zooms=zooms: zoom_axes(x, zooms, 0.5), image)
        assert torch.autograd.gradgradcheck(lambda x, zooms=zooms: zoom_axes(x, zooms, 0.5), image)


def test_nothing_to_resize():
    image = np.ones((3, 4))
    assert zoom_axes(image, zooms_of((3, 4), (3, 4), 3, "border")) is image
    for shape, size in (((3, 0), (3, 2)), ((3, 4), (0, 4))):
        with pytest.raises(ValueError, match="at least one pixel"):
            zoom_axes(np.ones(shape), zooms_of(shape, size, 1, "border"))
