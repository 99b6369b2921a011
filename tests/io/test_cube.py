"""Colour tables in `.cube` files, and damaged ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gridsample.io import FileError
from gridsample.io.cube import read_cube

HEADER = 'TITLE "A # look"\n# a comment\n\nLUT_3D_SIZE 2\nDOMAIN_MIN 0 0 -1\nDOMAIN_MAX 1 2 1\n'
CUBE = "".join(f"{r} {g} {b}  # {r}\n" for b in (0, 1) for g in (0, 0.5) for r in (0, 0.25))


def test_cubes_and_curves(tmp_path: Path) -> None:
    path = tmp_path / "look.CUBE"
    path.write_bytes(b"\xef\xbb\xbf" + (HEADER + CUBE).replace("\n", "\r\n").encode())
    (cube,) = read_cube(path)
    assert cube.table.shape == (1, 3, 2, 2, 2) and cube.table.dtype == np.float32
    assert cube.domain == ((0, 0, -1), (1, 2, 1))
    blue, green, red = np.meshgrid((0, 1), (0, 0.5), (0, 0.25), indexing="ij")
    np.testing.assert_array_equal(cube.table[0], [red, green, blue])

    path.write_text("#" * 1000 + "\nLUT_1D_SIZE 3\n0 0 0\n0.5 1e-1 0.25\n1 1 1")
    (curves,) = read_cube(str(path))
    np.testing.assert_array_equal(curves.table[0, :, 1], np.float32([0.5, 0.1, 0.25]))
    assert curves.domain == ((0, 0, 0), (1, 1, 1))

    path.write_text(
        "LUT_1D_SIZE 2\nLUT_1D_INPUT_RANGE -0.5 1.5\nLUT_3D_SIZE 2\nLUT_3D_INPUT_RANGE 0 1\n"
        + "0 0 0\n1 1 1\n"
        + CUBE
    )
    first, second = read_cube(path)
    assert first.table.shape == (1, 3, 2) and first.domain == ((-0.5,) * 3, (1.5,) * 3)
    np.testing.assert_array_equal(second.table, cube.table)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it has no entries"),
        ("LUT_3D_SIZE 2\n", "it has no entries"),
        (CUBE, "does not begin with"),
        (
            HEADER + CUBE.replace("0.25 0.5 1", "0.25 0.5"),
            "entry 8 must be 3 numbers, got '0.25 0.5'",
        ),
        (HEADER + CUBE[:20], "8 entries are expected, got 2"),
        (HEADER + CUBE + "0 0 0\n", "more than 8 entries"),
        (HEADER + CUBE.replace("0.25", "nan"), "finite"),
        (HEADER + CUBE.replace("0.25", "1e99"), "finite"),
        (HEADER + "nan" + CUBE[1:], "finite"),
        (HEADER + CUBE.replace("0.25", "x"), "could not convert"),
        ("LUT_3D_SIZE 2.5\n", "whole number, got '2.5'"),
        ("LUT_3D_SIZE\n", "whole number"),
        ("LUT_3D_SIZE 257\n", "from 2 to 256, got 257"),
        ("LUT_1D_SIZE 99999999999\n", "whole number"),
        ("LUT_1D_SIZE 1\n", "from 2 to 65536"),
        ("LUT_3D_SIZE 256\n0 0 0\n", "16777216 entries are expected, got 1"),
        ("DOMAIN_MIN 0 0\n", "DOMAIN_MIN must have 3 finite numbers"),
        ("DOMAIN_MAX 1 1 inf\n", "DOMAIN_MAX must have 3 finite numbers"),
        (HEADER.replace("1 2 1", "1 2 -1") + CUBE, "must increase"),
        (HEADER + "LUT_1D_SIZE 2\n" + CUBE + "0 0 0\n" * 2, "are for one table"),
        ("LUT_IN_VIDEO_RANGE\n" + HEADER + CUBE, "LUT_IN_VIDEO_RANGE is not supported"),
        (HEADER + "LUT_3D_SIZE 2\n" + CUBE, "LUT_3D_SIZE is given twice"),
        (HEADER + "LUT_1D_INPUT_RANGE 0 1\n" + CUBE, "but LUT_1D_SIZE is not"),
        ("LUT_3D_INPUT_RANGE 0 1\nLUT_1D_SIZE 2\n" + "0 0 0\n" * 2, "but LUT_3D_SIZE is not"),
        ("DOMAIN_MIN -1e308 0 0\nDOMAIN_MAX 1e308 1 1\nLUT_3D_SIZE 2\n" + CUBE, "finite"),
        ("#" * 1001, "more than 1000 characters"),
        ("\0" * 2000, "more than 1000 characters"),
        ("\ufffd\0\n", "does not begin with"),
    ],
)
def test_damaged_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "look.cube"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=message) as caught:
        read_cube(path)
    assert "look.cube" in str(caught.value) and "\n" not in str(caught.value)


def test_names_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"must end in one of \.cube"):
        read_cube(tmp_path / "look.3dl")
    with pytest.raises(OSError, match=r"look\.cube"):
        read_cube(tmp_path / "look.cube")
    path = tmp_path / "noise.cube"
    path.write_bytes(np.random.default_rng(0).bytes(5000))
    with pytest.raises(FileError, match="noise"):
        read_cube(path)
