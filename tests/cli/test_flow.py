"""`gridsample flow`: colours, and images warped by a flow."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest

import gridsample
from gridsample import cli, fields, io
from gridsample.io.fields import Field, write_field


def test_colours_of_the_wheel() -> None:
    vectors = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [0, 0], [np.nan, 1]], float)
    red, cyan, yellow, blue, white, black = fields.flow_colours(vectors).astype(int)
    np.testing.assert_array_equal(red, [255, 0, 0])
    np.testing.assert_array_equal(white, 255)
    np.testing.assert_array_equal(black, 0)
    assert cyan[0] == 0
    assert cyan[2] == 255
    assert yellow[0] == 255
    assert yellow[1] > 220
    assert yellow[2] == 0
    assert blue[2] == 255
    assert blue[1] == 0
    np.testing.assert_array_equal(fields.flow_colours(vectors * 0.5, 1.0)[0], [255, 128, 128])
    np.testing.assert_array_equal(fields.flow_colours(vectors * 2, 1.0)[0], [191, 0, 0])
    np.testing.assert_array_equal(fields.flow_colours(np.zeros((2, 3, 2))), 255)
    assert fields.flow_colours(np.zeros((0, 3, 2))).shape == (0, 3, 3)
    with pytest.raises(ValueError, match="flow must be"):
        fields.flow_colours(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="largest must be above 0"):
        fields.flow_colours(vectors, 0.0)
    with pytest.raises(TypeError, match="flow must hold real numbers"):
        fields.flow_colours(vectors * 1j)


def test_a_flow_becomes_a_picture(tmp_path: Path) -> None:
    flow = np.random.default_rng(0).uniform(-3, 3, (1, 5, 7, 2)).astype(np.float32)
    write_field(Field(flow), tmp_path / "x.flo")
    for options, largest in (([], None), (["--largest", "10"], 10.0)):
        words = ["flow", str(tmp_path / "x.flo"), str(tmp_path / "x.png"), "--force", *options]
        assert cli.main(words) == 0
        drawn = io.read(tmp_path / "x.png").array
        np.testing.assert_array_equal(drawn, fields.flow_colours(flow[0], largest))


def test_an_image_is_warped(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    flow = rng.uniform(-2, 2, (1, 5, 7, 2)).astype(np.float32)
    flow[0, 2, 3] = np.nan
    photo = rng.integers(0, 256, (5, 7, 3), np.uint8)
    write_field(Field(flow), tmp_path / "x.pfm")
    io.write(io.Image(photo, "NumPy", True), tmp_path / "photo.png")
    words = ["flow", str(tmp_path / "x.pfm"), str(tmp_path / "y.png")]
    assert cli.main([*words, "--warp", str(tmp_path / "photo.png"), "--padding", "border"]) == 0
    result = io.read(tmp_path / "y.png").array
    truth = fields.flow_warp(photo[np.newaxis], flow, padding_mode="border", channel_axis=-1)
    np.testing.assert_array_equal(truth[0, 2, 3], 0)
    assert np.abs(result.astype(int) - truth[0]).max() <= 1
    assert (result == truth[0]).mean() > 0.95


def test_a_volume_is_warped_in_voxels_and_keeps_its_affine(tmp_path: Path) -> None:
    affine = np.diag([2.0, 3.0, 4.0, 1.0])
    brain = np.random.default_rng(0).normal(size=(6, 5, 4)).astype(np.float32)
    nibabel.Nifti1Image(brain, affine).to_filename(tmp_path / "brain.nii.gz")
    field = np.zeros((1, 4, 5, 6, 3), np.float32)
    field[..., 0] = 1  # one voxel, 2 mm
    write_field(Field(field, affine=affine), tmp_path / "warp.nii.gz")
    words = ["flow", str(tmp_path / "warp.nii.gz"), str(tmp_path / "moved.nii.gz")]
    assert cli.main([*words, "--warp", str(tmp_path / "brain.nii.gz")]) == 0
    moved = nibabel.load(tmp_path / "moved.nii.gz")
    np.testing.assert_allclose(moved.get_fdata()[:-1], brain[1:], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(moved.get_fdata()[-1], 0)
    np.testing.assert_array_equal(moved.affine, affine)


def test_invalid_files_and_options_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_field(Field(np.zeros((1, 3, 4, 5, 3))), tmp_path / "volume.npy")
    write_field(Field(np.zeros((1, 4, 5, 2))), tmp_path / "x.npy")
    io.write(io.Image(np.zeros((4, 5, 1), np.uint8), "NumPy", False), tmp_path / "p.png")
    volume, flow, picture, out = (
        str(tmp_path / name) for name in ("volume.npy", "x.npy", "p.png", "out.png")
    )
    for words, message in (
        ([volume, out], "holds a 3-D field; colours show 2-D flows only"),
        ([volume, out, "--warp", picture], "holds a 3-D field, but the image is 5x4"),
        ([flow, picture], "exists"),
        ([flow, out, "--warp", picture, "--largest", "3"], "--largest is for colours"),
        ([flow, out, "--largest", "x"], "expected a number"),
        ([flow, out, "--largest", "0"], "largest must be above 0"),
    ):
        assert cli.main(["flow", *words]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1
    assert gridsample.fields is fields
