"""The command line, run in this process on small files; and what it says when it refuses."""

import importlib
import itertools
import subprocess
import sys

import numpy as np
import pytest
import scipy.ndimage

import gridsample
from gridsample import cli, io, warp
from gridsample.cli import terminal
from gridsample.definitions.plan import BOUNDARIES
from gridsample.io import Image

nibabel = pytest.importorskip("nibabel")
tifffile = pytest.importorskip("tifffile")


@pytest.fixture(autouse=True)
def _inside_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    return cli.main([str(word) for word in words])


def warped(array, *words, suffix="npy", volume=False):
    """Write an array, warp the file, and read the result."""
    image = Image(array, "NumPy", has_channel_axis=True)
    source, target = io.Path(f"in.{suffix}"), io.Path(f"out.{suffix}")
    io.write(image, source, overwrite=True)
    assert run("warp", source, target, "--force", *words) == 0
    return io.read(target, volume=volume).array


def noise(*shape, dtype=np.float64):
    rng = np.random.default_rng(3)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    if np.dtype(dtype).kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return (rng.normal(size=shape) * 100).astype(dtype)


# ---- pixels that land on pixels ---------------------------------------------------------------


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


def test_bool_and_16_bit_grey_stay_what_they_are():
    for dtype, suffixes in [(bool, "png tif npy"), (np.uint16, "png tif nii.gz")]:
        array = (noise(9, 8, 1) > 0) if dtype is bool else noise(9, 8, 1, dtype=dtype)
        for suffix in suffixes.split():
            result = warped(array, "--rotate", 180, suffix=suffix)
            assert result.dtype == dtype
            np.testing.assert_array_equal(np.squeeze(result), array[::-1, ::-1, 0])


def test_a_whole_shift_is_a_slice():
    array = noise(6, 9, 2)
    shifted = np.zeros_like(array)
    shifted[2:, :-3] = array[:-2, 3:]  # down by 2, left by 3
    np.testing.assert_array_equal(warped(array, "--translate", "-3,2"), shifted)
    shifted[:2], shifted[:, -3:] = shifted[2:3], shifted[:, -4:-3]
    result = warped(array, "--translate", "-3,2", "--padding", "border")
    np.testing.assert_array_equal(result, shifted)
    result = warped(array, "--translate", "-3,2", "--padding", "reflection", "--mode", "bicubic")
    np.testing.assert_array_equal(result[2:, -3:], array[:-2, :-4:-1])


def test_a_quarter_turn_is_counter_clockwise_and_four_are_none():
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
    turn, move = ["--rotate", 90], ["--translate", "2,0"]
    turned = np.rot90(array)
    expected = np.zeros_like(array)
    expected[:, 2:] = turned[:, :-2]
    np.testing.assert_array_equal(warped(array, *turn, *move), expected)
    expected = np.zeros_like(array)
    expected[:-2] = turned[2:]  # moved right, then turned: up
    np.testing.assert_array_equal(warped(array, *move, *turn), expected)


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


def test_a_horizon_in_the_picture_is_no_trouble():
    io.Path("h.txt").write_text("1 0 0  0 1 0  -0.25 0 1")
    result = warped(noise(9, 9, 3, dtype=np.uint8), "--homography", "h.txt", suffix="png")
    assert result.shape == (9, 9, 3)
    warped(noise(9, 9, 3), "--homography", "h.txt", "--padding", "reflection")


def test_bands_and_threads_do_not_show(monkeypatch):
    array = noise(63, 41, 3, dtype=np.uint8)
    how = ["--rotate", 30, "--shear", 10, "--mode", "bicubic", "--padding", "reflection"]
    whole = warped(array, *how)
    monkeypatch.setattr(warp, "_BAND_POINTS", 100)
    np.testing.assert_array_equal(warped(array, *how), whole)
    np.testing.assert_array_equal(warped(array, *how, "--threads", 2), whole)


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


def test_an_array_is_forced_to_be_a_volume():
    np.save("x.npy", noise(6, 5, 4))
    assert run("warp", "x.npy", "y.npy", "--translate", "0,0,2", "--volume") == 0
    np.testing.assert_array_equal(np.load("y.npy")[2:], np.load("x.npy")[:-2])
    assert run("warp", "x.npy", "y.npy", "--translate", "0,0,2", "--force") == 2


# ---- grids from a file ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f4"])
@pytest.mark.parametrize("batch", [(), (1,)])
def test_a_grid_says_where_to_look(dtype, batch):
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


def test_alpha_is_a_channel_and_stays():
    array = noise(8, 8, 4, dtype=np.uint8)
    for suffix in ("png", "tif"):
        result = warped(array, "--translate", "2,0", suffix=suffix)
        np.testing.assert_array_equal(result[:, 2:], array[:, :-2])
        assert not result[:, :2].any()
    np.testing.assert_array_equal(warped(array[..., :2], suffix="png"), array[..., :2])


def test_formats_change_on_the_way():
    io.write(Image(noise(7, 5, 1, dtype=np.uint8), "NumPy", False), io.Path("a.png"))
    names = ["a.png", "b.tif", "c.npy", "d.nii.gz", "e.png"]
    for source, target in itertools.pairwise(names):
        assert run("warp", source, target) == 0
    np.testing.assert_array_equal(io.read(io.Path("e.png")).array, io.read(io.Path("a.png")).array)


AFFINE = np.array([[-2.0, 0, 0, 90], [0, 2, 0, -126], [0, 0, 3, -72], [0, 0, 0, 1]])


def brain(shape=(8, 6, 5)):
    image = nibabel.Nifti1Image(noise(*shape, dtype=np.int16), AFFINE)
    image.header.set_slope_inter(0.5, 100)
    image.to_filename("brain.nii.gz")
    return nibabel.load("brain.nii.gz")


def test_a_nifti_warp_keeps_the_header_and_its_scaling():
    before = brain()
    assert run("warp", "brain.nii.gz", "moved.nii", "--translate", "1,2,1") == 0
    after = nibabel.load("moved.nii")
    np.testing.assert_array_equal(after.affine, AFFINE)
    assert after.header.get_zooms() == before.header.get_zooms()
    assert after.get_data_dtype() == np.int16
    np.testing.assert_array_equal(after.get_fdata()[1:, 2:, 1:], before.get_fdata()[:-1, :-2, :-1])


def test_a_voxel_that_is_cropped_to_stays_where_it_was():
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


# ---- refusals ---------------------------------------------------------------------------------


@pytest.fixture
def files():
    """One good file of every kind, and the bad ones."""
    picture = noise(6, 8, 3, dtype=np.uint8)
    for name in ("p.png", "p.jpg", "p.tif"):
        io.write(Image(picture, "NumPy", True), io.Path(name))
    np.save("alpha.npy", noise(6, 8, 4, dtype=np.uint8))
    np.save("float.npy", noise(6, 8, 3))
    np.save("deep.npy", noise(6, 8, 1, dtype=np.uint16))
    np.save("volume.npy", noise(3, 6, 8, 1, dtype=np.uint8))
    np.save("objects.npy", np.array([[{}]]), allow_pickle=True)
    np.save("grid1d.npy", np.zeros((4, 4, 1)))
    np.save("gridint.npy", np.zeros((4, 4, 2), int))
    np.save("grid.npy", np.zeros((4, 4, 2)))
    io.Path("text.png").write_text("no picture")
    io.Path("cut.npy").write_bytes(io.Path("float.npy").read_bytes()[:-100])
    io.Path("cut.png").write_bytes(io.Path("p.png").read_bytes()[:-100])
    io.Path("eight.txt").write_text("1 2 3 4 5 6 7 8")
    io.Path("words.txt").write_text("one two three")
    io.Path("new\nline.png").write_text("")
    io.Path("folder.png").mkdir()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "required: COMMAND"),
        ("wrap p.png o.png", "wrap"),
        ("warp p.png", "required: OUTPUT"),
        ("warp p.png o.png --twist 3", "--twist"),
        ("warp p.png o.png --rot 3", "--rot"),
        ("warp none.png o.png", "none.png: No such file"),
        ("warp folder.png o.png", "folder.png: Is a directory"),
        ("warp p.gif o.png", ".png, .jpg, .jpeg, .tif"),
        ("warp p.png o.webp", ".png, .jpg, .jpeg, .tif"),
        ("warp text.png o.png", "neither a PNG nor a JPEG"),
        ("warp cut.png o.png", "cannot read cut.png as PNG"),
        ("warp cut.npy o.npy", "cannot read cut.npy as NumPy"),
        ("warp objects.npy o.npy", "cannot read objects.npy"),
        ("warp new\nline.png o.png", "neither"),
        ("warp p.png folder.png", "is a folder"),
        ("warp p.png no/where.png", "no folder no"),
        ("warp p.png p.jpg", "p.jpg exists; --force"),
        ("warp float.npy o.png", "PNG does not hold float64 pictures of 3 channels; TIFF"),
        ("warp deep.npy o.jpg", "JPEG does not hold uint16"),
        ("warp alpha.npy o.jpg", "JPEG does not hold uint8 pictures of 4 channels"),
        ("warp volume.npy o.png", "PNG does not hold uint8 volumes"),
        ("warp p.png o.png --rotate x", "--rotate: expected numbers like 1.5,-2, got 'x'"),
        ("warp p.png o.png --rotate", "--rotate: expected one argument"),
        ("warp p.png o.png --rotate 1,2", "--rotate takes 1"),
        ("warp p.png o.png --rotate nan", "finite"),
        ("warp p.png o.png --translate -inf,0", "finite"),
        ("warp p.png o.png --scale 0", "singular"),
        ("warp p.png o.png --translate 1,2,3", "--translate takes 2 numbers, got 3"),
        ("warp p.png o.png --size 0x4", "--size: expected a size like 640x480, got '0x4'"),
        ("warp p.png o.png --size 4", "--size has 1 numbers, but the input is 8x6: give WxH"),
        ("warp volume.npy o.npy --size 4x4", "give WxHxD"),
        ("warp p.png o.png --size 99999999x99999999", "allocate"),
        ("warp p.png o.png --mode cubist", "cubist"),
        ("warp p.png o.png --rotate 3 --mode cubist", "cubist"),
        ("warp p.png o.png --mode nearest,cubist", "cubist"),
        ("warp p.png o.png --padding reflect", "reflect"),
        ("warp p.png o.png --padding zeros,zeros,zeros", "3"),
        ("warp p.png o.png --threads -1", "threads"),
        ("warp p.png o.png --threads two", "--threads"),
        ("warp p.png o.png --homography none.txt", "none.txt: No such file"),
        ("warp p.png o.png --homography eight.txt", "holds 8 numbers, not nine"),
        ("warp p.png o.png --homography words.txt", "does not hold nine numbers"),
        ("warp p.png o.png --homography p.png", "nine"),
        ("warp volume.npy o.npy --homography eight.txt", "nine"),
        ("warp p.png o.png --grid grid1d.npy", "(4, 4, 1)"),
        ("warp p.png o.png --grid gridint.npy", "dtype int64"),
        ("warp volume.npy o.npy --grid grid.npy", "(D', H', W', 3) for a volume"),
        ("warp p.png o.png --grid text.png", "not a .npy file"),
        ("warp p.png o.png --grid grid.npy --rotate 3", "--grid"),
        ("warp p.png o.png --grid grid.npy --size 3x3", "--grid"),
        ("info none.png", "none.png: No such file"),
        ("info text.png", "neither"),
        ("explain --size 4x4", "required: --at"),
        ("explain --size 4x4 --at 1,2 --plot p.png", "p.png exists"),
        ("explain --size 4x4 --at 1,2 --mode cubist", "cubist"),
        ("explain --size 4x4 --at 1,2,3", "at"),
        ("explain --size 4x4 --at 1,2 --coords pixels", "coords 'pixels'"),
        ("explain --size 4x4 --at 1,2 --coords displacement --index 1,a", "integers like 3,0"),
    ],
)
def test_a_refusal_is_one_line_and_leaves_no_file(files, capfd, words, message):
    before = {path.name for path in io.Path().iterdir()}
    assert run(*words.split(" ") if words else []) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("gridsample: error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert {path.name for path in io.Path().iterdir()} == before


def test_a_writer_that_fails_leaves_the_old_file(monkeypatch, capfd):
    io.write(Image(noise(6, 8, 3, dtype=np.uint8), "NumPy", True), io.Path("p.png"))
    whole = io.Path("p.png").read_bytes()

    for error, code in [(OSError(28, "No space left on device"), 2), (KeyboardInterrupt(), 130)]:

        def fail(file, *_, error=error, **__):
            file.write(b"half")
            raise error

        monkeypatch.setattr(importlib.import_module("imageio.v3"), "imwrite", fail)
        for target in ("o.png", "p.png"):
            assert run("warp", "p.png", target, "--rotate", 3, "--force") == code
    assert capfd.readouterr().err.count("No space left on device\n") == 2
    assert [path.name for path in io.Path().iterdir()] == ["p.png"]
    assert io.Path("p.png").read_bytes() == whole


def test_an_interrupt_while_sampling_ends_with_130(monkeypatch, capfd):
    np.save("x.npy", noise(6, 8, 3))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(warp, "grid_sample", interrupted)
    assert run("warp", "x.npy", "y.npy", "--rotate", 3) == 130
    assert capfd.readouterr().err == "gridsample: interrupted\n"
    assert [path.name for path in io.Path().iterdir()] == ["x.npy"]


def test_every_name_in_the_help_is_taken(capsys):
    np.save("x.npy", noise(6, 8, 3, dtype=np.uint8))
    assert run("warp", "--help") == 0
    said = capsys.readouterr().out.split("\nmodes:\n")[1].split("\n\n")
    modes, boundaries = (" ".join(part.replace(".", ",").split()) for part in said[:2])
    modes = modes.split(", bilinear and")[0].split(", ")
    boundaries = boundaries.removeprefix("boundaries: ").rstrip(",").split(", ")
    assert modes == list(gridsample.methods.names())
    assert boundaries == [*BOUNDARIES, "missing"]
    for words in [*(["--mode", one] for one in modes), *(["--padding", one] for one in boundaries)]:
        assert run("warp", "x.npy", "y.npy", "--rotate", 3, "--force", *words) == 0
        explained = run("explain", "--size", "4x4", "--at", "-1.2,0.3", *words)
        assert explained == (2 if "missing" in words else 0)  # explain does not list it


def test_a_constant_is_filled_with_what_is_asked_for(capsys):
    array = noise(6, 8, 3)
    words = ["--translate", "3,0", "--padding", "constant"]
    np.testing.assert_array_equal(warped(array, *words, "--fill", "-2.5")[:, :3], -2.5)
    result = warped(array, *words, "--fill", "1,2,3")
    np.testing.assert_array_equal(result[:, :3], np.broadcast_to([1, 2, 3], (6, 3, 3)))
    np.testing.assert_array_equal(result[:, 3:], array[:, :-3])
    np.testing.assert_array_equal(warped(array, *words)[:, :3], 0)
    for fill, message in (("1,2", "one for each of the 3 channels, got 2"), ("x", "numbers like")):
        assert run("warp", "in.npy", "out.npy", "--force", *words, "--fill", fill) == 2
        assert message in capsys.readouterr().err
    assert run("warp", "in.npy", "out.npy", "--force", "--rotate", 3, "--fill", 1) == 2
    assert "--padding constant" in capsys.readouterr().err


def test_a_folder_that_may_not_be_written(monkeypatch, capfd):
    np.save("x.npy", noise(6, 8, 3))

    def forbidden(path, **_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(io.Path, "touch", forbidden)
    assert run("warp", "x.npy", "y.npy") == 2
    assert "Permission denied" in capfd.readouterr().err


def test_input_and_output_may_be_the_same_file():
    for suffix in ("npy", "nii", "tif", "png"):
        array = noise(6, 8, 3, dtype=np.uint8)
        path = io.Path(f"same.{suffix}")
        io.write(Image(array, "NumPy", True), path)
        assert run("warp", path, path, "--rotate", 180, "--force") == 0
        np.testing.assert_array_equal(np.squeeze(io.read(path).array), array[::-1, ::-1])


# ---- the bar, the other commands, the process -------------------------------------------------


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("seconds", [0, 1000])
def test_a_bar_shows_on_a_terminal_when_work_is_long(monkeypatch, capsys, shown, seconds):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal, "SECONDS_WITHOUT_BAR", seconds)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: shown)
    warped(noise(6, 8, 1), "--rotate", 3)
    captured = capsys.readouterr()
    assert ("warping in.npy" in captured.err) == (shown and seconds == 0)
    assert captured.out == ""


def test_without_rich_there_is_no_bar(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setattr(terminal, "SECONDS_WITHOUT_BAR", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    warped(noise(6, 8, 1), "--rotate", 3)
    assert capsys.readouterr().err == ""


def test_info_is_a_table(capsys):
    brain()
    assert run("info", "brain.nii.gz") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "file      brain.nii.gz"
    table = {line[:10].strip(): line[10:] for line in lines}
    assert table["format"] == "NIfTI"
    assert table["size"] == "8 x 6 x 5"
    assert table["dtype"] == "int16"
    assert table["voxel"].startswith("2 x 2 x 3")
    rows = [line[10:].split() for line in lines if line[:10].strip() in ("affine", "")]
    np.testing.assert_array_equal(np.array(rows, float), AFFINE)


def test_info_can_take_an_array_as_a_volume(capsys):
    np.save("x.npy", noise(6, 5, 4))
    assert run("info", "x.npy") == 0
    assert "(6, 5, 4) as (H, W, C)" in capsys.readouterr().out
    assert run("info", "x.npy", "--volume") == 0
    assert "(6, 5, 4) as (D, H, W)" in capsys.readouterr().out


def test_explain_prints_and_draws(capsys):
    words = ["--size", "4x4", "--at", "-1.2,1.3", "--padding", "reflection", "--mode", "bilinear"]
    assert run("explain", *words, "--plot", "drawing.png") == 0
    explanation = gridsample.explain(
        size=(4, 4), at=(-1.2, 1.3), mode="bilinear", padding_mode="reflection"
    )
    assert capsys.readouterr().out == f"{explanation}\n"
    assert io.Path("drawing.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in io.Path().iterdir()] == ["drawing.png"]
    assert run("explain", *words, "--align-corners") == 0
    assert capsys.readouterr().out != f"{explanation}\n"
    words = ["--size", "4x4", "--at", "-1.5,0.5", "--coords", "displacement", "--index", "3,1"]
    assert run("explain", *words, "--mode", "spline3") == 0
    one = gridsample.explain((4, 4), (-1.5, 0.5), "spline3", coords="displacement", index=(3, 1))
    assert capsys.readouterr().out == f"{one}\n"


def test_explain_needs_matplotlib_only_to_draw(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = ["explain", "--size", "8", "--at", "0.3"]
    assert run(*words) == 0
    assert run(*words, "--plot", "drawing.png") == 2
    assert 'pip install "gridsample[cli]"' in capsys.readouterr().err


def test_help_and_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"gridsample {gridsample.__version__}\n"
    for words in (["--help"], ["warp", "--help"], ["info", "--help"], ["explain", "--help"]):
        assert run(*words) == 0
        assert capsys.readouterr().out.startswith("usage: gridsample")


def test_the_module_is_the_command():
    command = [sys.executable, "-m", "gridsample"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    assert (version.returncode, version.stdout) == (0, f"gridsample {gridsample.__version__}\n")
    refused = subprocess.run(
        [*command, "warp", "none.png", "o.png"], capture_output=True, text=True, check=False
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "gridsample: error: none.png: No such file or directory\n"


def test_a_reader_that_leaves_is_no_error():
    np.save("x.npy", noise(6, 8, 3))
    command = [sys.executable, "-m", "gridsample", "info", "x.npy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_libraries_keep_quiet(monkeypatch, capfd):
    import logging
    import warnings

    def chatter(arguments):
        warnings.warn("a library's worry", stacklevel=1)
        logging.getLogger("tifffile").error("a library's worry")

    monkeypatch.setattr(cli, "_info", chatter)
    assert run("info", "x.npy") == 0
    assert capfd.readouterr() == ("", "")
    assert logging.root.manager.disable == 0
