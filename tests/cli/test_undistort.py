"""`gridsample undistort`, and the calibration files that it reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from gridsample import cli, io
from gridsample.io.calibration import read_camera
from gridsample.io.image import FileError

MATRIX = np.array([[41.5, 0, 30.25], [0, 42.25, 24.75], [0, 0, 1.0]])
LENS = np.array([-0.21, 0.05, 1.2e-3, -0.002, 0.0])
ROS = """\
image_width: 63
image_height: 50
camera_matrix:
  rows: 3
  cols: 3
  data: [41.5, 0.0, 30.25, 0, 42.25, 24.75, 0.0, 0.0, 1.0]  # pixels
distortion_model: {}
distortion_coefficients:
  rows: 1
  cols: 4
  data: {}
rectification_matrix:
  rows: 3
  cols: 3
  data: [1, 0, 0, 0, 1, 0, 0, 0, 1]
"""


@pytest.fixture
def photo(tmp_path: Path) -> np.ndarray[Any, Any]:
    array = np.random.default_rng(0).integers(0, 256, (50, 63, 3), np.uint8)
    array = cv2.GaussianBlur(array, (0, 0), 1.5)
    io.write(io.Image(array, "NumPy", True), tmp_path / "photo.png")
    return array


@pytest.mark.parametrize("suffix", ["yaml", "yml", "json", "xml"])
def test_opencv_calibration_files(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"camera.{suffix}"
    file = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    file.write("calibration_time", "Sun Nov 22 17:27:30 2020")
    file.write("image_width", 63)
    file.write("image_height", 50)
    file.write("camera_matrix", MATRIX)
    file.write("distortion_coefficients", LENS)
    file.write("avg_reprojection_error", 0.3)
    file.release()
    camera = read_camera(path)
    np.testing.assert_array_equal(camera.intrinsics, MATRIX)
    np.testing.assert_array_equal(camera.distortion, LENS)
    assert camera.size == (63, 50) and not camera.fisheye


def test_other_calibration_files(tmp_path: Path) -> None:
    rows = "\n".join("- - " + "\n  - ".join(map(str, row)) for row in MATRIX.tolist())
    texts = {
        "a.yaml": ROS.format("plumb_bob", LENS[:4].tolist()),
        "b.yaml": ROS.format("equidistant", "\n  - " + "\n  - ".join(map(str, LENS[:4]))),
        "c.yml": f"camera_matrix:\n{rows}\ndist_coeff: [[-0.21, 0.05,\n  1.2e-3, -0.002]]\n",
        "d.json": json.dumps({"K": MATRIX.tolist(), "D": LENS[:4].tolist()}),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    np.savez(tmp_path / "e.npz", mtx=MATRIX, dist=LENS[np.newaxis, :4], rvecs=np.ones((2, 3, 1)))
    for name in (*texts, "e.npz"):
        camera = read_camera(tmp_path / name)
        np.testing.assert_array_equal(camera.intrinsics, MATRIX)
        np.testing.assert_array_equal(camera.distortion, LENS[:4])
        assert camera.fisheye == (name == "b.yaml")
        assert camera.size == ((63, 50) if name[0] in "ab" else None)


def run(folder: Path, *words: Any) -> np.ndarray[Any, Any]:
    command = [
        str(folder / "photo.png"),
        str(folder / "out.png"),
        "--camera",
        str(folder / "c.npz"),
    ]
    assert cli.main(["undistort", *command, "--force", *map(str, words)]) == 0
    return io.read(folder / "out.png").array


def test_undistorted_photos_match_opencv(
    photo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridsample.warp._BAND_POINTS", 1000)  # several bands of rows
    np.savez(tmp_path / "c.npz", mtx=MATRIX, dist=LENS)

    def close(result: Any, expected: Any) -> None:
        inner = np.s_[2:-2, 2:-2]
        known = cv2.erode(expected.min(-1), np.ones((3, 3))) > 0  # OpenCV's fill has a hard edge
        error = np.abs(result.astype(float) - expected)[inner][known[inner]]
        assert error.size > 1000
        assert error.max() <= 4 and error.mean() < 0.7  # OpenCV rounds positions to 1/32 pixel

    close(run(tmp_path), cv2.undistort(photo, MATRIX, LENS))
    for alpha in (0, 0.5, 1):
        new, _ = cv2.getOptimalNewCameraMatrix(MATRIX, LENS, (63, 50), alpha)
        saved = tmp_path / "new.json"
        result = run(tmp_path, "--alpha", alpha, "--save-camera", saved)
        close(result, cv2.undistort(photo, MATRIX, LENS, None, new))
        camera = read_camera(saved)
        np.testing.assert_allclose(camera.intrinsics, new, rtol=0, atol=0.02)
        assert camera.size == (63, 50) and not camera.distortion.any()
    lens = np.array([0.05, -0.01, 0.002, 0.0])
    np.savez(tmp_path / "c.npz", mtx=MATRIX, dist=lens)
    focal = 31.5 / np.tan(np.pi / 6)
    wide = np.array([[focal, 0, 31], [0, focal, 24.5], [0, 0, 1]])
    for words, new in ((("--fisheye",), MATRIX), (("--fisheye", "--fov", 60), wide)):
        close(run(tmp_path, *words), cv2.fisheye.undistortImage(photo, MATRIX, lens, None, new))
    result = run(tmp_path, "--size", "40x30", "--padding", "border")
    assert result.shape == (30, 40, 3)


def test_invalid_files_and_options_are_rejected(
    photo: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "c.npz", mtx=MATRIX, dist=LENS)
    np.savez(tmp_path / "small.npz", mtx=MATRIX, dist=LENS, image_size=[64, 50])
    np.savez(tmp_path / "bad.npz", mtx=MATRIX[:2], dist=LENS)
    np.savez(tmp_path / "none.npz", mtx=MATRIX)
    (tmp_path / "x.json").write_text("[1]")
    (tmp_path / "y.json").write_text("{")
    for words, message in (
        (["c.npz", "--alpha", "2"], "alpha must be from 0 to 1, got 2"),
        (["c.npz", "--alpha", "1", "--fov", "30"], "not allowed with argument"),
        (["c.npz", "--fov", "180"], "--fov must be between 0 and 180 degrees"),
        (["c.npz", "--fisheye"], "a fisheye has 4 coefficients"),
        (["c.npz", "--size", "3x4x5"], "--size has 3 numbers"),
        (["small.npz"], "is for photos of 64x50 pixels, but"),
        (["bad.npz"], "mtx has 6 numbers; accepted: 9"),
        (["none.npz"], "has no distortion coefficients: none of its entries (mtx) is named"),
        (["x.json"], "the file does not hold a JSON object"),
        (["y.json"], "as a calibration: "),
        (["photo.png"], "unknown kind of calibration file"),
        (["nothing.yaml"], "No such file"),
    ):
        camera = str(tmp_path / words[0])
        command = [str(tmp_path / "photo.png"), str(tmp_path / "o.png"), "--camera", camera]
        assert cli.main(["undistort", *command, *words[1:]]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1
    with pytest.raises(FileError, match="dist has 3 numbers"):
        np.savez(tmp_path / "three.npz", mtx=MATRIX, dist=LENS[:3])
        read_camera(tmp_path / "three.npz")
