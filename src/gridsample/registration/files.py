"""Files with transforms: matrices as `.npy` or text, and fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample.io import FileError, load_npy, replacing
from gridsample.io.fields import Field, field_format_of, read_field, write_field

_TEXTS = (".txt", ".csv")


def as_numpy(array: Any) -> NDArray[Any]:
    """Convert an array or a tensor to a NumPy array."""
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)


def save_transform(
    path: Path, matrix: Any, field: Any, affine: Any = None, overwrite: bool = False
) -> None:
    """Write a matrix (N, D + 1, D + 1) or None, or a field (N, *spatial, D).

    See `Registration.save`.
    """
    if len(field) != 1:
        raise FileError(
            f"a file holds one transform, and the result has {len(field)}; register the images one "
            "at a time"
        )
    suffix = path.suffix.lower()
    check_transform(path, matrix is not None)
    if suffix in (".npy", *_TEXTS) and matrix is not None:
        matrix = np.linalg.inv(as_numpy(matrix)[0])
        matrix = matrix / matrix[-1, -1]
        with replacing(path, overwrite=overwrite) as temporary:
            if suffix == ".npy":
                with temporary.open("wb") as file:
                    np.save(file, matrix)
            else:
                delimiter = "," if suffix == ".csv" else " "
                np.savetxt(temporary, matrix, "%.17g", delimiter)
        return
    write_field(Field(as_numpy(field), affine=affine), path, overwrite=overwrite)


def check_transform(path: Path, is_matrix: bool) -> None:
    """Raise an error if the name of a file is not one that a transform can be written to."""
    if path.suffix.lower() not in _TEXTS:
        field_format_of(path)
    elif not is_matrix:
        raise FileError(
            f"cannot write {path}: a text file holds a matrix, and the transform is a field; "
            "accepted: .npy, .flo, .pfm, .png, .nii, .nii.gz"
        )


def load_transform(path: str | Path) -> NDArray[Any]:
    """Read a transform that `Registration.save` wrote.

    Args:
        path: a `.npy`, `.txt` or `.csv` file with a matrix, or a file with a displacement field.

    Returns:
        A matrix as in `Registration.matrix`, (1, D + 1, D + 1) float64, from fixed to moving
        pixels; or a field as in `Registration.field`, (1, *spatial, D), in pixels.

    Raises:
        ValueError: the file does not hold a transform, or its matrix is singular.
        OSError: the file does not exist or cannot be read.

    Example:
        >>> import numpy as np, tempfile
        >>> from gridsample.registration import load_transform
        >>> with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        ...     np.savetxt(file.name, [[1, 0, 5], [0, 1, 0], [0, 0, 1]])  # moving to fixed pixels
        ...     load_transform(file.name)[0]
        array([[ 1.,  0., -5.],
               [ 0.,  1.,  0.],
               [ 0.,  0.,  1.]])
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in _TEXTS:
        text = path.read_text("utf-8", errors="replace")
        words = [line.replace(",", " ").split() for line in text.splitlines()]
        try:
            matrix = np.array([list(map(float, line)) for line in words if line])
        except ValueError:
            raise FileError(f"{path} does not hold a matrix of numbers") from None
        return _inverse(matrix, path)
    if suffix == ".npy":
        array = load_npy(path)
        if array.ndim == 2 and array.shape in ((3, 3), (4, 4)):
            return _inverse(np.array(array, np.float64), path)
    return read_field(path).array


def _inverse(matrix: NDArray[Any], path: Path) -> NDArray[Any]:
    if matrix.shape not in ((3, 3), (4, 4)):
        raise FileError(f"{path} holds shape {matrix.shape}; a transform is 3 x 3 or 4 x 4")
    if not np.isfinite(matrix).all():
        raise FileError(f"{path} holds a matrix with NaN or infinite entries")
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        raise FileError(f"{path} holds a singular matrix") from None
    if not inverse[-1, -1]:
        raise FileError(f"{path} holds a matrix that maps a pixel of the fixed image to infinity")
    normalized: NDArray[Any] = (inverse / inverse[-1, -1])[np.newaxis]
    return normalized
