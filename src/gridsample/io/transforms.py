"""Transform files: what `gridsample.resample` takes as transforms, in millimetres, RAS.

| file | holds |
|---|---|
| `.tfm`, `.h5`, `.mat`, or `.txt` that begins as ITK's do | ITK's transforms (LPS), also several |
| `.npy`, other `.txt` | a matrix, (D + 1, D + 1) or (D, D + 1), RAS |
| `.nii`, `.nii.gz`, `.mha`, `.nrrd` | a displacement field; see `gridsample.io.fields` |

All of them map points of the output's world to points of the input's world. NIfTI's millimetres are
to the right, anterior and superior (RAS); ITK's, which are to the left, posterior and superior
(LPS), are converted. ITK's transforms are read by SimpleITK, which is in the extra
`gridsample[itk]`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.io import itk
from gridsample.io.arrays import load_npy
from gridsample.io.fields import read_field
from gridsample.io.image import FileError, as_file_error, unknown_suffix
from gridsample.io.nifti import affine_of_rank
from gridsample.world import Displacement

__all__ = ["read_transforms"]

FIELDS, MATRICES = (".nii", ".nii.gz", *itk.IMAGES), (".npy", ".txt")
_ITK = b"#Insight Transform File"


def read_transforms(path: Path | str) -> list[Any]:
    """Read the transforms of a file for `gridsample.resample` with axes="xyz".

    Args:
        path: a file in one of the formats above.

    Returns:
        Matrices (D + 1, D + 1), and `gridsample.world.Displacement`s with float64 vectors, in the
        order in which they are applied to points of the output, in RAS.

    Raises:
        FileError: the name or the content is not supported.
        MissingExtraError: the package that reads the format is not installed.
        OSError: the file does not exist or cannot be read.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/shift.txt"
        >>> np.savetxt(path, [[1, 0, 2.5], [0, 1, 0], [0, 0, 1]])  # 2.5 mm along x
        >>> read_transforms(path)
        [array([[1. , 0. , 2.5],
               [0. , 1. , 0. ],
               [0. , 0. , 1. ]])]
    """
    path = Path(path)
    name = path.name.lower()
    if name.endswith(FIELDS):
        field = read_field(path)
        if field.affine is None:
            raise FileError(f"{path} has no affine")
        affine = affine_of_rank(field.affine, field.array.shape[-1])
        vectors = field.array[0].astype(np.float64) @ affine[:-1, :-1].T
        return [Displacement(vectors, affine)]
    accepted = (*itk.TRANSFORMS, ".mat", *MATRICES, *FIELDS)
    if not name.endswith(accepted):
        raise unknown_suffix(path, "transform file", accepted)
    with path.open("rb") as file, as_file_error(f"cannot read {path} as a transform"):
        if name.endswith(".npy"):
            return [_as_matrix(load_npy(path), path)]
        if name.endswith(".txt") and file.read(len(_ITK)) != _ITK:
            words = path.read_text(encoding="utf-8", errors="replace").replace(",", " ").split()
            return [_as_matrix(np.array([float(word) for word in words]), path)]
        return [_as_ras(transform) for transform in itk.read_transforms(path)]


def _as_matrix(numbers: NDArray[Any], path: Path) -> NDArray[np.float64]:
    """Convert numbers to a matrix (D + 1, D + 1)."""
    for rank in (2, 3):
        if numbers.dtype.kind in "fiu" and numbers.size in (rank * (rank + 1), (rank + 1) ** 2):
            rows = numbers.astype(np.float64).reshape(-1, rank + 1)
            matrix = np.eye(rank + 1)
            matrix[: len(rows)] = rows
            if not np.isfinite(matrix).all():
                raise FileError(f"{path} holds a matrix with NaN or infinite entries")
            return matrix
    raise FileError(
        f"{path} holds {numbers.dtype} of shape {numbers.shape}; a matrix is (3, 4) or (4, 4), or "
        "for 2-D images (2, 3) or (3, 3)"
    )


def _as_ras(transform: itk.Transform) -> Any:
    """Convert a transform from LPS to RAS."""
    if isinstance(transform, itk.Vectors):
        flip = _flip(transform.affine)
        vectors = transform.array.astype(np.float64) * flip[:-1]
        return Displacement(vectors, flip[:, np.newaxis] * transform.affine)
    flip = _flip(transform)
    return flip[:, np.newaxis] * transform * flip


def _flip(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The diagonal of the matrix that converts points between LPS and RAS."""
    flip = np.ones(len(matrix))
    flip[:2] = -1
    return flip
