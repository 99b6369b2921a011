"""Alpha: transparent pixels do not affect colours, for every dtype and function."""

import numpy as np
import pytest

import gridsample
from gridsample import cli, io, warp
from gridsample.alpha import Alpha, divide, multiply
from gridsample.ops import resized_parts

tifffile = pytest.importorskip("tifffile")
pillow = pytest.importorskip("PIL.Image")

DTYPES = ["uint8", "uint16", "int16", "uint32", "float32", "float64"]


@pytest.fixture(autouse=True)
def _inside_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    return cli.main([str(word) for word in words])


def full(dtype):
    """The number that means opaque."""
    return np.iinfo(dtype).max if np.dtype(dtype).kind in "iu" else 1.0


def red_beside_nothing(dtype, channels=4):
    """Opaque red (or white) and transparent black: (1, 2, C)."""
    array = np.zeros((1, 2, channels), dtype)
    array[0, 0, [0, -1]] = full(dtype)
    return array


def save(name, array, alpha="unassalpha"):
    colour = "rgb" if array.shape[-1] == 4 else "minisblack"
    if name.endswith(".tif"):
        tifffile.imwrite(
            name, array, photometric=colour, extrasamples=[alpha], planarconfig="contig"
        )
    else:
        io.write(io.Image(array, "NumPy", has_channel_axis=True), io.Path(name), overwrite=True)


def read(name):
    return io.read(io.Path(name)).array


COMMANDS = {
    "resize": ["resize", "in", "out", "--size", "8x1"],
    "warp": ["warp", "in", "out", "--size", "8x1", "--affine", "4,0,1.5,0,4,0"],
}


@pytest.mark.covering
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("channels", [2, 4])
@pytest.mark.parametrize(
    ("suffix", "dtype"), [("png", "uint8"), ("png", "uint16"), *(("tif", d) for d in DTYPES)]
)
def test_opaque_red_beside_transparent_black_stays_red(suffix, dtype, channels, command):
    save(f"in.{suffix}", red_beside_nothing(dtype, channels))
    words = [f"{word}.{suffix}" if word in ("in", "out") else word for word in COMMANDS[command]]
    padding = ["--padding", "border"] if command == "warp" else []
    assert run(*words, *padding) == 0
    out = read(f"out.{suffix}")
    share = np.array([1, 1, 0.875, 0.625, 0.375, 0.125, 0, 0])
    is_integer = np.dtype(dtype).kind in "iu"
    expected = np.zeros((1, 8, channels))
    expected[0, :, -1] = np.rint(share * full(dtype)) if is_integer else share
    expected[0, :6, 0] = full(dtype)
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=0)
    assert out.dtype == dtype

    assert run(*words, *padding, "--straight-alpha", "--force") == 0
    expected[..., 0] = expected[..., -1]
    np.testing.assert_allclose(read(f"out.{suffix}"), expected, rtol=1e-6, atol=0)


def test_warps_match_pillow():
    save("in.png", red_beside_nothing("uint8"))
    assert run("resize", "in.png", "out.png", "--size", "8x4") == 0
    picture = pillow.open("in.png").resize((8, 4), pillow.Resampling.BILINEAR)
    np.testing.assert_array_equal(read("out.png"), np.asarray(picture))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_resizing_matches_that_of_premultiplied_colours(dtype):
    array = np.random.default_rng(0).uniform(0, full(dtype), (7, 63, 4)).astype(dtype)
    save("in.tif", array)
    assert run("resize", "in.tif", "out.tif", "--size", "31x13", "--antialias") == 0
    exact = array.astype(np.float64)
    exact[..., :3] *= exact[..., 3:] / full(dtype)
    exact = gridsample.interpolate(
        exact[None], (13, 31), mode="bilinear", antialias=True, channel_axis=-1
    )[0]
    exact[..., :3] /= exact[..., 3:] / full(dtype)
    is_integer = np.dtype(dtype).kind == "u"
    atol = 0.5 + 1e-5 * full(dtype) * is_integer if is_integer else 1e-6
    np.testing.assert_allclose(read("out.tif"), exact, rtol=0, atol=atol)


def test_results_do_not_depend_on_bands_and_threads(monkeypatch):
    array = np.random.default_rng(1).integers(0, 256, (63, 41, 4), np.uint8)
    save("in.tif", array)
    commands = (
        ["resize", "in.tif", "out.tif", "--size", "20x31", "--mode", "bicubic"],
        ["warp", "in.tif", "out.tif", "--rotate", "30", "--mode", "bicubic"],
    )
    for words in commands:
        assert run(*words, "--force") == 0
        expected = read("out.tif")
        with monkeypatch.context() as patch:
            patch.setattr(resized_parts, "BAND_NUMBERS", 1 << 9)
            patch.setattr(warp, "_BAND_POINTS", 100)
            assert run(*words, "--force", "--threads", 2) == 0
        np.testing.assert_array_equal(read("out.tif"), expected)


def test_pixel_copies_are_exact_and_keep_hidden_colours():
    array = np.random.default_rng(2).integers(0, 256, (7, 9, 4), np.uint8)
    array[:3, :, 3] = 0
    save("in.png", array)
    for words in (
        ["resize", "in.png", "out.png", "--size", "9x7", "--mode", "nearest-exact"],
        ["warp", "in.png", "out.png", "--mode", "nearest"],
        ["warp", "in.png", "out.png", "--mode", "bicubic"],
    ):
        assert run(*words, "--force") == 0
        np.testing.assert_array_equal(read("out.png"), array)


def test_a_fill_has_alpha_too():
    save("in.png", red_beside_nothing("uint8"))
    words = ["warp", "in.png", "out.png", "--padding", "constant", "--translate", "0.5,0"]
    assert run(*words, "--fill", "0,255,0,51") == 0
    # Half red of alpha 255, half green of alpha 51, which weighs a fifth.
    assert read("out.png")[0, 0].tolist() == [212, 42, 0, 153]
    assert run(*words, "--fill", "255", "--force") == 0
    assert read("out.png")[0, 0].tolist() == [255, 128, 128, 255]


def test_premultiplied_colours_stay_premultiplied():
    array = red_beside_nothing("uint8")
    save("in.tif", array, "assocalpha")
    assert run("resize", "in.tif", "out.tif", "--size", "8x1") == 0
    assert read("out.tif")[0, 2].tolist() == [223, 0, 0, 223]
    assert run("resize", "in.tif", "out.png", "--size", "8x1") == 0  # PNG's are never
    assert read("out.png")[0, 2].tolist() == [255, 0, 0, 223]


def test_unlabelled_channels_are_not_alpha():
    array = red_beside_nothing("uint8")
    save("in.npy", array)
    save("in.tif", array, "unspecified")
    for name in ("in.npy", "in.tif"):
        assert run("resize", name, f"out{name[2:]}", "--size", "8x1") == 0
        assert read(f"out{name[2:]}")[0, 2].tolist() == [223, 0, 0, 223]
    for name in ("npy.png", "npy.tif"):  # which call it so
        assert run("resize", "in.npy", name, "--size", "8x1") == 0
        assert read(name)[0, 2].tolist() == [255, 0, 0, 223]


def test_alpha_may_be_any_channel_beyond_the_colours():
    array = np.array([[[1.0, 5, 1], [0, 7, 0]]], np.float32)  # grey, infrared, alpha
    tifffile.imwrite(
        "in.tif", array, photometric="minisblack", planarconfig="contig", extrasamples=[0, 2]
    )
    assert run("resize", "in.tif", "out.tif", "--size", "1x1", "--mode", "area") == 0
    assert read("out.tif").tolist() == [[[1, 6, 0.5]]]


def test_alpha_beyond_its_range_is_harmless():
    product = np.array([[0.3, -0.1], [np.inf, 0.0], [0.5, 1.5]])
    back = divide(product.copy(), Alpha(1, 1), np.dtype(np.float64))
    np.testing.assert_allclose(back, [[0, -0.1], [0, 0], [0.5 / 1.5, 1.5]])
    bytes_back = divide(product * 255, Alpha(1, 1), np.dtype(np.uint8))
    assert bytes_back.tolist() == [[0, 0], [0, 0], [85, 255]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dividing_undoes_multiplying(dtype):
    rng = np.random.default_rng(3)
    array = rng.uniform(0, full(dtype), (63, 4)).astype(dtype)
    alpha = Alpha(3, 3)
    back = divide(multiply(array, alpha), alpha, np.dtype(dtype))
    assert back.dtype == dtype
    wide = dtype in ("float64", "uint32")
    np.testing.assert_allclose(back, array, rtol=1e-14 if wide else 1e-6, atol=0)
