"""`gridsample resize`, on small files; and on one that is larger than the memory it may use."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

import gridsample
from gridsample import cli, io
from gridsample.io import Image
from gridsample.ops import resized_parts

nibabel = pytest.importorskip("nibabel")
tifffile = pytest.importorskip("tifffile")


@pytest.fixture(autouse=True)
def _inside_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    return cli.main(["resize", *[str(word) for word in words]])


def noise(*shape, dtype=np.uint8):
    rng = np.random.default_rng(5)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return rng.normal(size=shape).astype(dtype)


def resized(array, *words, suffix, volume=False):
    """Write an array, resize the file, and read the result."""
    source, target = io.Path(f"in.{suffix}"), io.Path(f"out.{suffix}")
    io.write(Image(array, "NumPy", has_channel_axis=True), source, overwrite=True)
    assert run(source, target, "--force", *words) == 0
    return io.read(target, volume=volume).array


def expected(array, size, **options):
    return gridsample.interpolate(array[None], size, channel_axis=-1, **options)[0]


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("suffix", ["png", "tif", "npy", "nii"])
def test_every_format(suffix):
    array = noise(40, 31, 3)
    for words, options in (
        (["--size", "17x23"], {"size": (23, 17), "mode": "bilinear", "antialias": True}),
        (["--scale", "1.5", "--mode", "bicubic"], {"size": (60, 46), "mode": "bicubic"}),
        (
            ["--scale", "0.3,2", "--mode", "lanczos3,nearest", "--antialias"],
            {"size": (80, 9), "mode": ("lanczos3", "nearest"), "antialias": True},
        ),
        (
            ["--size=62x80", "--mode", "spline3", "--align-corners"],
            {"size": (80, 62), "mode": "spline3", "align_corners": True},
        ),
    ):
        if suffix == "nii":
            continue  # its pictures with channels have three axes
        np.testing.assert_array_equal(
            resized(array, *words, suffix=suffix), expected(array, **options)
        )
    if suffix == "nii":
        volume = noise(6, 8, 9, 1, dtype=np.float32)
        out = resized(volume[..., 0][..., None], "--size", "5x9x12", suffix=suffix)
        wanted = expected(volume, (12, 9, 5), mode="bilinear", antialias=True)
        np.testing.assert_array_equal(out, wanted)


def test_output_affines_describe_voxel_positions():
    affine = np.array([[2.0, 0, 0, -10], [0, 2, 0, 5], [0, 0, 3, 1], [0, 0, 0, 1]])
    source = nibabel.Nifti1Image(noise(8, 6, 4, dtype=np.float32), affine)
    source.to_filename("brain.nii.gz")
    assert run("brain.nii.gz", "fine.nii.gz", "--scale", 2) == 0
    fine = nibabel.load("fine.nii.gz")
    assert fine.shape == (16, 12, 8)
    halves = np.diag([0.5, 0.5, 0.5, 1])
    halves[:3, 3] = -0.25
    np.testing.assert_allclose(fine.affine, affine @ halves, atol=1e-6)


def test_sizes_are_not_rounded_down_by_floating_point():
    """0.29 * 100 is 28.999999999999996 in float64."""
    io.write(Image(noise(10, 100, 1), "NumPy", has_channel_axis=False), "in.npy")
    for scale, size in (("0.29,0.7", (7, 29)), ("0.57,1.15", (11, 57)), ("0.299,0.69", (6, 29))):
        assert run("in.npy", "out.npy", "--scale", scale, "--force") == 0
        assert np.load("out.npy").shape == size


def test_spacing_is_that_of_the_affine_that_is_used(capsys):
    """The sform of a file may say other sizes than its qform and its sizes of voxels."""
    source = nibabel.Nifti1Image(noise(8, 6, 4), np.diag([2.0, 2, 2, 1]))
    source.header.set_sform(np.diag([1.0, 1, 1, 1]), "scanner")
    source.header.set_qform(np.diag([2.0, 2, 2, 1]), "scanner")
    nibabel.Nifti1Image(noise(8, 6, 4), None, source.header).to_filename("brain.nii")
    assert run("brain.nii", "fine.nii", "--spacing", "0.5") == 0
    fine = nibabel.load("fine.nii")
    assert fine.shape == (16, 12, 8)
    np.testing.assert_allclose(np.diag(fine.affine)[:3], 0.5)
    capsys.readouterr()
    assert cli.main(["info", "brain.nii"]) == 0
    printed = capsys.readouterr().out
    assert "voxel     1 x 1 x 1 (unknown)" in printed
    assert "qform     disagrees with the sform, which is used; its voxels: 2 x 2 x 2" in printed
    assert cli.main(["info", "fine.nii"]) == 0


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"rowsperstrip": 7},
        {"compression": "deflate", "rowsperstrip": 9},
        {"tile": (16, 32), "compression": "deflate"},
        {"tile": (32, 16)},
        {"byteorder": ">"},
        {"predictor": True, "compression": "deflate", "rowsperstrip": 5},
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_tiff_layout_is_read_by_rows(stored, channels, monkeypatch):
    monkeypatch.setattr(resized_parts, "BAND_NUMBERS", 1 << 11)
    for dtype in (np.uint8, np.uint16):
        array = noise(83, 47, channels, dtype=dtype)
        flat = array[..., 0] if channels == 1 else array
        tifffile.imwrite("in.tif", flat, photometric="rgb" if channels == 3 else None, **stored)
        with io.pages(io.Path("in.tif")) as [page]:
            assert page.image.array.strides == (0, 0, 0)  # there are no pixels yet
            assert page.image.array.dtype == dtype
            read = page.open()
            for begin, end in ((0, 3), (2, 30), (10, 31), (70, 83)):
                np.testing.assert_array_equal(read(begin, end), array[begin:end])
        for mode in ("area", "nearest"):
            assert run("in.tif", "out.tif", "--scale", 0.2, "--mode", mode, "--force") == 0
            out = io.read(io.Path("out.tif")).array
            np.testing.assert_array_equal(out, expected(array, (16, 9), mode=mode))


def test_other_formats_are_read_in_full():
    planes = noise(3, 20, 30)
    tifffile.imwrite("planar.tif", planes, photometric="rgb", planarconfig="separate")
    tifffile.imwrite("white.tif", planes[0], photometric="miniswhite")
    tifffile.imwrite("volume.tif", planes, photometric="minisblack")
    np.save("fortran.npy", np.asfortranarray(planes[0]))
    for name, size in [("planar.tif", 2), ("white.tif", 2), ("volume.tif", 3), ("fortran.npy", 2)]:
        volume, flag = size == 3, ["--volume"] * (size == 3)
        assert run(name, f"out-{name}", "--scale", 2, "--mode", "nearest", *flag) == 0
        enlarged = io.read(io.Path(f"out-{name}"), volume=volume).array
        for axis in range(size):
            enlarged = enlarged.take(range(0, enlarged.shape[axis], 2), axis)
        np.testing.assert_array_equal(enlarged, io.read(io.Path(name), volume=volume).array)


def test_metadata_is_kept(monkeypatch):
    array = noise(30, 20, 4)
    tifffile.imwrite(
        "in.tif", array, photometric="rgb", extrasamples=["assocalpha"], iccprofile=b"profile"
    )
    assert run("in.tif", "out.tif", "--scale", 0.5) == 0
    with tifffile.TiffFile("out.tif") as file:
        page = file.pages[0]
        assert page.extrasamples == (tifffile.EXTRASAMPLE.ASSOCALPHA,)
        assert page.tags["InterColorProfile"].value == b"profile"
        assert page.shape == (15, 10, 4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one of --size, --scale and --spacing"),
        (["--size", "3x3", "--scale", "2"], "give one of --size, --scale and --spacing"),
        (["--scale", "0"], "--scale takes one positive number or 2"),
        (["--scale", "1,2,3"], "--scale takes one positive number or 2"),
        (["--size", "3x3x3"], "--size has 3 numbers"),
        (
            ["--size", "3x3", "--mode", "cubics"],
            "--mode: 'cubics' is not known; did you mean cubic?",
        ),
        (
            ["--size", "3x3", "--mode", "area", "--align-corners"],
            "--align-corners has no meaning for --mode area; leave it out, or",
        ),
        (["--size", "3x3", "--threads", "0"], "--threads: expected a whole number from 1"),
    ],
)
def test_invalid_arguments_are_rejected(words, message, capsys):
    io.write(Image(noise(5, 6, 3), "NumPy", True), io.Path("in.png"))
    assert run("in.png", "out.png", *words) == 2
    error = capsys.readouterr().err
    assert error.startswith("gridsample: error: ")
    assert message in error
    assert [path.name for path in io.Path().iterdir()] == ["in.png"]


def test_existing_or_unsuitable_outputs_are_rejected(capsys):
    np.save("in.npy", noise(5, 6, 3, dtype=np.float32))
    assert run("in.npy", "out.png", "--scale", 2) == 2
    assert "PNG does not hold float32" in capsys.readouterr().err
    assert run("in.npy", "in.npy", "--scale", 2) == 2
    assert "--force" in capsys.readouterr().err
    assert run("in.npy", "in.npy", "--scale", 2, "--force") == 0
    assert np.load("in.npy").shape == (10, 12, 3)


def test_help_names_the_modes(capsys):
    assert run("--help-all") == 0
    output = capsys.readouterr().out
    assert all(name in output for name in gridsample.methods.names(resizing=True))


@pytest.mark.slow
def test_a_picture_larger_than_memory():
    side, strip = 24_000, 500
    stripe = np.add.outer(np.arange(strip), np.arange(side)).astype(np.uint8)
    tifffile.imwrite(
        "large.tif",
        itertools.repeat(stripe, side // strip),
        shape=(side, side),
        dtype=np.uint8,
        rowsperstrip=strip,
        photometric="minisblack",
    )
    # Linux counts in ru_maxrss what the process had that this one was forked from.
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from gridsample import cli\n"
        "assert cli.main(['resize', 'large.tif', 'half.tif', *sys.argv[1:]]) == 0\n"
        "if sys.platform == 'linux':\n"
        "    lines = Path('/proc/self/status').read_text().splitlines()\n"
        "    print(next(line.split()[1] for line in lines if line.startswith('VmHWM')))\n"
        "else:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    unit = 1 if sys.platform == "darwin" else 1024
    for words in (["--mode", "area"], ["--antialias"]):
        command = [sys.executable, "-c", script, "--scale", "0.5", "--force", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert int(done.stdout) * unit < 1 << 29
    with tifffile.TiffFile("half.tif") as file:
        assert file.pages[0].shape == (side // 2, side // 2)
    with io.pages(io.Path("half.tif")) as [page]:
        part = expected(
            np.tile(stripe, (3, 1))[..., None], (750, side // 2), mode="bilinear", antialias=True
        )
        error = page.open()(10_250, 10_500).astype(int) - part[250:500]
        assert np.abs(error).max() <= 1
