"""Calibration files: the intrinsics and the distortion of a camera.

| file | written by |
|---|---|
| `.yaml`, `.yml`, `.json`, `.xml` | OpenCV's FileStorage, ROS (`camera_info`), or a script |
| `.npz` | `numpy.savez` |

A file names a matrix (3, 3), for example `camera_matrix`, `mtx` or `K`, and coefficients in
OpenCV's order, for example `distortion_coefficients`, `dist_coeffs`, `dist` or `D`. It may name the
size of the camera's images, and the model.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample.io.image import FileError, as_file_error, unknown_suffix

__all__ = ["Camera", "read_camera", "write_camera"]

SUFFIXES = (".yaml", ".yml", ".json", ".xml", ".npz")

# Names without underscores, in lower case.
_MATRIX = ("cameramatrix", "mtx", "k", "intrinsics", "intrinsicmatrix")
_DISTORTION = (
    "distortioncoefficients",
    "distortioncoeffs",
    "distcoeffs",
    "distcoeff",
    "dist",
    "d",
    "distortion",
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_FISHEYE = ("fisheye", "equidistant", "kannalabrandt")


class Camera(NamedTuple):
    """A calibrated camera.

    Attributes:
        intrinsics: `(3, 3)`, in pixels.
        distortion: the coefficients, in OpenCV's order.
        fisheye: whether the file says that the model is OpenCV's "fisheye".
        size: `(width, height)` of the camera's images, if the file has it.
    """

    intrinsics: NDArray[np.float64]
    distortion: NDArray[np.float64]
    fisheye: bool = False
    size: tuple[int, int] | None = None


def read_camera(path: Path | str) -> Camera:
    """Read a calibration file.

    Args:
        path: a file of one of the kinds above.

    Returns:
        The `Camera`, whose entries `gridsample.cameras.undistort_grid` takes.

    Raises:
        FileError: the name or the content is not supported.
        OSError: the file does not exist or cannot be read.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "camera.json")
        >>> _ = path.write_text('{"K": [50, 0, 32, 0, 50, 24, 0, 0, 1], "D": [-0.2, 0, 0, 0]}')
        >>> read_camera(path).distortion
        array([-0.2,  0. ,  0. ,  0. ])
    """
    path = Path(path)
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise unknown_suffix(path, "calibration file", SUFFIXES)
    with path.open("rb"), as_file_error(f"cannot read {path} as a calibration"):
        if name.endswith(".npz"):
            with np.load(path) as file:
                entries: dict[str, Any] = {key: file[key] for key in file.files}
        else:
            text = path.read_text(encoding="utf-8")
            parsers = {".json": _parse_json, ".xml": _parse_xml}
            entries = parsers.get(path.suffix.lower(), _parse_yaml)(text)
        return _camera({re.sub(r"[_\s-]", "", k).lower(): v for k, v in entries.items()}, path)


def write_camera(camera: Camera, path: Path | str) -> None:
    """Write a calibration as JSON, which `read_camera` reads.

    Args:
        camera: the calibration.
        path: the file to write.  An existing file is replaced.

    Returns:
        None: the file is written.

    Raises:
        OSError: the file cannot be written.

    Example:
        >>> import tempfile
        >>> lens = np.array([[50.0, 0.0, 32.0], [0.0, 50.0, 24.0], [0.0, 0.0, 1.0]])
        >>> path = tempfile.mkdtemp() + "/camera.json"
        >>> write_camera(Camera(lens, np.zeros(4), fisheye=True, size=(64, 48)), path)
        >>> read_camera(path).fisheye, read_camera(path).size
        (True, (64, 48))
    """
    facts: dict[str, Any] = {
        "camera_matrix": camera.intrinsics.tolist(),
        "distortion_coefficients": camera.distortion.tolist(),
    }
    if camera.size is not None:
        facts |= dict(zip(("image_width", "image_height"), camera.size, strict=True))
    if camera.fisheye:
        facts["distortion_model"] = "fisheye"
    Path(path).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _camera(entries: dict[str, Any], path: Path) -> Camera:
    """Interpret the entries of a file."""

    def numbers(names: tuple[str, ...], role: str, counts: tuple[int, ...]) -> NDArray[np.float64]:
        key = next((name for name in names if name in entries), None)
        if key is None:
            raise FileError(
                f"{path} has no {role}: none of its entries ({', '.join(entries)}) is named "
                f"{', '.join(names)}"
            )
        values = np.array(entries[key], np.float64).reshape(-1)
        if values.size not in counts:
            raise FileError(
                f"{path}: {key} has {values.size} numbers; accepted: {', '.join(map(str, counts))}"
            )
        return values

    matrix = numbers(_MATRIX, "camera matrix", (9,)).reshape(3, 3)
    distortion = numbers(_DISTORTION, "distortion coefficients", (0, 1, 4, 5, 8, 12, 14))
    if distortion.size == 1:
        raise FileError(f"{path}: OpenCV has no lens model with one distortion coefficient")
    model = re.sub(r"[_\s-]", "", str(entries.get("distortionmodel", ""))).lower()
    fisheye = model in _FISHEYE or bool(np.any(_scalar(entries.get("fisheyemodel", 0))))
    width, height = entries.get("imagewidth"), entries.get("imageheight")
    pair = entries.get("imagesize", (width, height))
    known = np.size(pair) == 2 and None not in tuple(np.ravel(np.array(pair, object)))
    size = (int(_scalar(pair[0])), int(_scalar(pair[1]))) if known else None
    return Camera(matrix, distortion, fisheye, size)


def _scalar(values: Any) -> float:
    """Return the first of some numbers."""
    return float(np.ravel(values)[0])


def _parse_json(text: str) -> dict[str, Any]:
    """Read an object; matrices are nested lists, or OpenCV's objects with their numbers as data."""
    entries = json.loads(text)
    if not isinstance(entries, dict):
        raise FileError("the file does not hold a JSON object")
    return {
        key: value["data"] if isinstance(value, dict) and "data" in value else value
        for key, value in entries.items()
        if not isinstance(value, dict) or "data" in value
    }


def _parse_xml(text: str) -> dict[str, Any]:
    """Read OpenCV's XML: one element for each entry, and matrices with their numbers as data."""
    entries: dict[str, Any] = {}
    for element in xml.etree.ElementTree.fromstring(text):
        data = element.find("data")
        words = ((element if data is None else data).text or "").strip()
        entries[element.tag] = _values(words)
    return entries


def _parse_yaml(text: str) -> dict[str, Any]:
    """Read the entries of a mapping: numbers, matrices in any of YAML's styles, and words.

    This is not all of YAML.  Of an entry that has its numbers as data, only those count.
    """
    uncommented = re.sub(r"(?m)(^|\s)#.*$", "", text)
    parts = re.split(r"(?m)^([A-Za-z_][\w .-]*?)\s*:(?=\s|$)", uncommented)
    entries = {}
    for key, block in zip(parts[1::2], parts[2::2], strict=True):
        inner = re.search(r"(?m)^\s+data\s*:\s*(\[[^\]]*\]|(?:.|\n\s*-)*)", block)
        entries[key] = _values((inner.group(1) if inner else block).strip())
    return entries


def _values(words: str) -> Any:
    """Convert text to numbers, if it consists of them, or leave it."""
    # Remove brackets, commas, and the dashes of lists in YAML.
    tokens = re.sub(r"[\[\],]|(?:(?<=\s)|^)-(?=\s)", " ", words).split()
    if all(_NUMBER.fullmatch(token) for token in tokens):
        return [float(token) for token in tokens]
    return words.strip("\"'")
