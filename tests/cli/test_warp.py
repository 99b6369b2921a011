"""`gridsample warp`, run in this process on small files, against NumPy and SciPy."""

import itertools

import numpy as np
import pytest
import scipy.ndimage
from commands import AFFINE, brain, noise, run, warped

import gridsample
from gridsample import io, warp
from gridsample.io import Image

nibabel = pytest.importorskip("nibabel")


@pytest.fixture(autouse=True)
def _inside_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# ---- pixels that land on pixels ---------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "nearest,bicubic"])
@pytest.mark.parametrize("align_corners", [[], ["--align-corners"]])
@pytest.mark.parametrize(
    ("suffix", "dtype"),
    [
        *[("npy", d) for d in ["i1", "u2", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]],
        *[("tif", d) for d in ["u1", "i2", "u8", "f2", "f8", "c16"]],
        *[("nii", d) for d in ["u1", "i8", "f4", "c8"]],
        ("png", "u1"),
    ],
)
def test_an_identity_keeps_every_bit(suffix, dtype, mode, align_corners):
    array = noise(7, 5, 3, dtype=dtype)
    if array.dtype.kind in "fc":
        array[2, 2], array[3, 3] = np.nan, np.inf
    if suffix == "nii" and "," in mode:
        mode += ",linear"  # NIfTI with channels has three axes besides
    result = warped(array, "--mode", mode, *align_corners, suffix=suffix)
    assert result.dtype == array.dtype
    assert np.ascontiguousarray(result).tobytes() == array.tobytes()


def test_bool_and_16_bit_grey_keep_their_dtype():
    for dtype, suffixes in [(bool, "png tif npy"), (np.uint16, "png tif nii.gz")]:
        array = (noise(9, 8, 1) > 0) if dtype is bool else noise(9, 8, 1, dtype=dtype)
        for suffix in suffixes.split():
            result = warped(array, "--rotate", 180, suffix=suffix)
            assert result.dtype == dtype
            np.testing.assert_array_equal(np.squeeze(result), array[::-1, ::-1, 0])


def test_an_integer_shift_is_a_slice():
    array = noise(6, 9, 2)
    shifted = np.zeros_like(array)
    shifted[2:, :-3] = array[:-2, 3:]  # down by 2, left by 3
    np.testing.assert_array_equal(warped(array, "--translate", "-3,2"), shifted)
    shifted[:2], shifted[:, -3:] = shifted[2:3], shifted[:, -4:-3]
    result = warped(array, "--translate", "-3,2", "--padding", "border")
    np.testing.assert_array_equal(result, shifted)
    result = warped(array, "--translate", "-3,2", "--padding", "reflection", "--mode", "bicubic")
    np.testing.assert_array_equal(result[2:, -3:], array[:-2, :-4:-1])


def test_quarter_turns_are_counter_clockwise_and_four_are_the_identity():
    array = noise(6, 9, 3, dtype=np.uint8)
    turned = array
    for quarter in range(1, 5):
        size = "6x9" if quarter % 2 else "9x6"
        turned = warped(turned, "--rotate", 90, "--size", size, suffix="png")
        np.testing.assert_array_equal(turned, np.rot90(array, quarter))
    np.testing.assert_array_equal(warped(array, *["--rotate", 90] * 4), array)
    np.testing.assert_array_equal(warped(array, "--rotate", -90, "--size=6x9"), np.rot90(array, 3))


def test_the_order_of_steps_matters():
    array = noise(7, 7, 1)
    rotate, move = ["--rotate", 90], ["--translate", "2,0"]
    turned = np.rot90(array)
    expected = np.zeros_like(array)
    expected[:, 2:] = turned[:, :-2]
    np.testing.assert_array_equal(warped(array, *rotate, *move), expected)
    expected = np.zeros_like(array)
    expected[:-2] = turned[2:]  # moved right, then turned: up
    np.testing.assert_array_equal(warped(array, *move, *rotate), expected)


def test_a_canvas_crops_and_extends_around_the_centre():
    array = noise(6, 8, 2)
    np.testing.assert_array_equal(warped(array, "--size", "4x2"), array[2:4, 2:6])
    extended = np.pad(array, ((1, 1), (2, 2), (0, 0)))
    np.testing.assert_array_equal(warped(array, "--size", "12X8"), extended)
    corner = warped(array, "--affine", "1,0,0,0,1,0", "--size", "4x2")
    np.testing.assert_array_equal(corner, array[:2, :4])


# ---- pixels between pixels --------------------------------------------------------------------


def test_half_the_size_is_the_mean_of_four():
    array = noise(6, 8, 3)
    means = array.reshape(3, 2, 4, 2, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(
        warped(array, "--scale", 0.5, "--size", "4x3"), means, rtol=1e-12, atol=1e-10
    )


@pytest.mark.parametrize("order", [0, 1])
def test_a_general_affine_agrees_with_scipy(order):
    array = noise(63, 41, 1)
    forward = np.array([[0.8, -0.37, 11.3], [0.21, 1.17, -7.9], [0, 0, 1]])
    inverse = np.linalg.inv(forward)[::-1, ::-1][1:, 1:], np.linalg.inv(forward)[1::-1, 2]
    expected = scipy.ndimage.affine_transform(
        array[..., 0], inverse[0], inverse[1], (50, 60), order=order, mode="grid-constant"
    )
    result = warped(
        array,
        "--affine",
        ",".join(map(repr, forward[:2].ravel().tolist())),
        "--size=60x50",
        "--mode",
        ["nearest", "bilinear"][order],
    )
    np.testing.assert_allclose(result[..., 0], expected, atol=1e-9)


@pytest.mark.parametrize("file", ["h.txt", "h.npy"])
def test_a_homography_agrees_with_scipy(file):
    array = noise(33, 41, 1)
    matrix = np.array([[1.1, 0.2, -3], [-0.1, 0.9, 5], [2e-3, -1e-3, 1]]) * -3
    if file == "h.npy":
        np.save(file, matrix)
    else:
        io.Path(file).write_text("\n".join(",".join(map(repr, r)) for r in matrix.tolist()))
    y, x = np.mgrid[:33, :41]
    u, v, w = np.tensordot(np.linalg.inv(matrix), np.stack([x, y, np.ones_like(x)]), 1)
    expected = scipy.ndimage.map_coordinates(
        array[..., 0], [v / w, u / w], order=1, mode="grid-constant"
    )
    np.testing.assert_allclose(warped(array, "--homography", file)[..., 0], expected, atol=1e-9)


def test_a_homography_with_its_horizon_in_the_picture():
    io.Path("h.txt").write_text("1 0 0  0 1 0  -0.25 0 1")
    result = warped(noise(9, 9, 3, dtype=np.uint8), "--homography", "h.txt", suffix="png")
    assert result.shape == (9, 9, 3)
    warped(noise(9, 9, 3), "--homography", "h.txt", "--padding", "reflection")


def test_results_do_not_depend_on_bands_and_threads(monkeypatch):
    array = noise(63, 41, 3, dtype=np.uint8)
    arguments = ["--rotate", 30, "--shear", 10, "--mode", "bicubic", "--padding", "reflection"]
    expected = warped(array, *arguments)
    monkeypatch.setattr(warp, "_BAND_POINTS", 100)
    np.testing.assert_array_equal(warped(array, *arguments), expected)
    np.testing.assert_array_equal(warped(array, *arguments, "--threads", 2), expected)


def test_integers_round_and_saturate():
    edge = np.zeros((8, 8, 1), np.uint8)
    edge[:, 4:] = 255
    result = warped(edge, "--translate", "0.5,0", "--mode", "bicubic", "--padding", "border")
    assert result.min() == 0
    assert result.max() == 255


# ---- volumes ----------------------------------------------------------------------------------


def test_a_volume_turns_in_each_slice():
    array = noise(3, 6, 9, 1, dtype=np.int16)
    for suffix, flag in (("nii.gz", []), ("tif", ["--volume"])):
        words = ["--rotate", 90, "--size", "6x9x3", *flag]
        result = warped(array, *words, suffix=suffix, volume=True)
        np.testing.assert_array_equal(result, np.rot90(array, axes=(1, 2)))
    np.testing.assert_array_equal(warped(array, "--translate", "0,0,-1")[:2], array[1:])
    mirrored = warped(array, "--scale", "1,1,-1")
    np.testing.assert_array_equal(mirrored, array[::-1])


def test_a_volume_agrees_with_scipy():
    array = noise(9, 12, 10, 1)
    forward = np.eye(4)
    forward[:3] += np.random.default_rng(1).normal(size=(3, 4)) * 0.2
    inverse = np.linalg.inv(forward)
    expected = scipy.ndimage.affine_transform(
        array[..., 0], inverse[2::-1, 2::-1], inverse[2::-1, 3], order=1, mode="grid-constant"
    )
    numbers = ",".join(map(repr, forward[:3].ravel().tolist()))
    np.testing.assert_allclose(warped(array, f"--affine={numbers}")[..., 0], expected, atol=1e-9)


def test_the_volume_option_applies_to_arrays():
    np.save("x.npy", noise(6, 5, 4))
    assert run("warp", "x.npy", "y.npy", "--translate", "0,0,2", "--volume") == 0
    np.testing.assert_array_equal(np.load("y.npy")[2:], np.load("x.npy")[:-2])
    assert run("warp", "x.npy", "y.npy", "--translate", "0,0,2", "--force") == 2


# ---- grids from a file ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f4"])
@pytest.mark.parametrize("batch", [(), (1,)])
def test_a_grid_gives_sampling_positions(dtype, batch):
    array = noise(6, 8, 3)
    x = (2 * np.array([7, 0, 3]) + 1) / 8 - 1
    y = (2 * np.array([[5], [0]]) + 1) / 6 - 1
    grid = np.stack(np.broadcast_arrays(x, y), -1).astype(dtype)
    np.save("g.npy", grid.reshape(*batch, 2, 3, 2))
    result = warped(array, "--grid", "g.npy", "--mode", "nearest")
    np.testing.assert_array_equal(result, array[[5, 0]][:, [7, 0, 3]])


def test_a_grid_of_corners():
    array = noise(6, 8, 1)
    np.save("g.npy", np.array([[[-1.0, -1.0], [1.0, -1.0]], [[-1.0, 1.0], [1.0, 1.0]]]))
    result = warped(array, "--grid", "g.npy", "--align-corners")
    np.testing.assert_allclose(result, array[::5, ::7], rtol=1e-12)
    halves = warped(array, "--grid", "g.npy")  # the outer edges: half of it is outside, twice
    np.testing.assert_allclose(halves, array[::5, ::7] / 4, rtol=1e-12)


def test_a_grid_for_a_volume():
    array = noise(3, 4, 5, 2, dtype=np.float32)
    np.save("g.npy", gridsample.identity_grid((1, 2, 3, 4, 5)))
    np.testing.assert_allclose(warped(array, "--grid", "g.npy"), array, rtol=1e-4, atol=1e-4)


# ---- what comes along -------------------------------------------------------------------------


def test_alpha_is_kept():
    array = noise(8, 8, 4, dtype=np.uint8)
    for suffix in ("png", "tif"):
        result = warped(array, "--translate", "2,0", suffix=suffix)
        np.testing.assert_array_equal(result[:, 2:], array[:, :-2])
        assert not result[:, :2].any()
    np.testing.assert_array_equal(warped(array[..., :2], suffix="png"), array[..., :2])


def test_formats_are_converted():
    io.write(Image(noise(7, 5, 1, dtype=np.uint8), "NumPy", False), io.Path("a.png"))
    names = ["a.png", "b.tif", "c.npy", "d.nii.gz", "e.png"]
    for source, target in itertools.pairwise(names):
        assert run("warp", source, target) == 0
    np.testing.assert_array_equal(io.read(io.Path("e.png")).array, io.read(io.Path("a.png")).array)


def test_a_nifti_warp_keeps_the_header_and_its_scaling():
    before = brain()
    assert run("warp", "brain.nii.gz", "moved.nii", "--translate", "1,2,1") == 0
    after = nibabel.load("moved.nii")
    np.testing.assert_array_equal(after.affine, AFFINE)
    assert after.header.get_zooms() == before.header.get_zooms()
    assert after.get_data_dtype() == np.int16
    np.testing.assert_array_equal(after.get_fdata()[1:, 2:, 1:], before.get_fdata()[:-1, :-2, :-1])


@pytest.mark.parametrize("target", ["moved.nii", "moved.npy"])
@pytest.mark.parametrize(
    ("options", "outside"),
    [
        ((), 0),
        (("--padding", "zeros,border,zeros"), 0),
        (("--padding", "constant", "--fill", "7"), 7),
        (("--mode", "nearest"), 0),
        (("--mode", "label"), 0),
    ],
)
def test_fill_value_of_a_scaled_nifti_is_in_scaled_units(options, outside, target):
    """Stored numbers outside are -200 for the value 0, and -186 for 7."""
    before = brain().get_fdata()
    assert run("warp", "brain.nii.gz", target, "--translate", "2,0,0", *options) == 0
    after = np.load(target).T if target.endswith(".npy") else nibabel.load(target).get_fdata()
    assert (after[:2] == outside).all()
    np.testing.assert_array_equal(after[2:], before[:-2])


def test_fill_labels_of_a_scaled_nifti_are_rounded_to_stored_values():
    image = nibabel.Nifti1Image(np.full((4, 3, 2), 30, np.uint8), AFFINE)
    arguments = ["--translate", "1,0,0", "--mode", "label", "--force"]
    for scale, inter, outside in ((0.3, -7, 23), (0.3, -6.5, 22), (0.4, 12, 0), (0.02, -12, 255)):
        image.header.set_slope_inter(scale, inter)
        image.to_filename("labels.nii")
        assert run("warp", "labels.nii", "m.nii", *arguments) == 0
        stored = np.asarray(nibabel.load("m.nii").dataobj.get_unscaled())
        assert (stored[1:] == 30).all()
        assert (stored[0] == outside).all()


def test_cropped_voxels_keep_their_world_position():
    before = brain()
    assert run("warp", "brain.nii.gz", "crop.nii", "--size", "4x4x1") == 0
    after = nibabel.load("crop.nii")
    assert after.shape == (4, 4, 1)
    np.testing.assert_array_equal(after.get_fdata(), before.get_fdata()[2:6, 1:5, 2:3])
    np.testing.assert_allclose(after.affine[:3, 3], (AFFINE @ [2, 1, 2, 1])[:3])


@pytest.mark.parametrize("align_corners", [False, True])
def test_a_grid_of_another_shape_covers_the_same_box(align_corners):
    brain()
    np.save("g.npy", gridsample.identity_grid((1, 1, 10, 3, 4), align_corners=align_corners))
    flag = ["--align-corners"] if align_corners else []
    assert run("warp", "brain.nii.gz", "fit.nii", "--grid", "g.npy", *flag) == 0
    after = nibabel.load("fit.nii")
    edge = 0 if align_corners else 0.5
    for low_or_high in (0, 1):
        old = low_or_high * (np.array([8, 6, 5]) - 1) + (2 * low_or_high - 1) * edge
        new = low_or_high * (np.array([4, 3, 10]) - 1) + (2 * low_or_high - 1) * edge
        np.testing.assert_allclose(after.affine @ [*new, 1], AFFINE @ [*old, 1], atol=1e-4)
