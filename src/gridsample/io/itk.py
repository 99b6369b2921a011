"""ITK's files, by SimpleITK: images of vectors, and transforms.

Everything here is in ITK's terms: millimetres to the left, posterior and superior (LPS), and voxels
in x, y, z order, where x is the last axis of an array.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample.io.image import FileError, require

IMAGES, TRANSFORMS = (".mha", ".nrrd"), (".h5", ".tfm")
"""The ends of the names of files that hold fields as images, and as transforms."""


class Vectors(NamedTuple):
    """A displacement field.

    Attributes:
        array: `(*spatial, D)` floating-point millimetres.
        affine: `(D + 1, D + 1)`, from voxels to millimetres.
    """

    array: NDArray[Any]
    affine: NDArray[np.float64]


Transform = NDArray[np.float64] | Vectors
"""A matrix `(D + 1, D + 1)`, or a displacement field."""


def read_vectors(path: Path) -> Vectors:
    """Read a displacement field from an image of vectors or a transform.

    Raises:
        FileError: The file holds something else.
    """
    if path.name.lower().endswith(IMAGES):
        sitk = itk()
        with _short_errors():
            image = sitk.ReadImage(str(path))
        return _from_image(image, path)
    transforms = read_transforms(path)
    if len(transforms) != 1 or not isinstance(transforms[0], Vectors):
        names = ["a field" if isinstance(step, Vectors) else "a matrix" for step in transforms]
        raise FileError(
            f"{path} holds {' and '.join(names) or 'the identity'}, not one displacement field; "
            "gridsample warp --transform applies every transform"
        )
    return transforms[0]


def write_vectors(vectors: Vectors, path: Path) -> None:
    """Write a displacement field as an image of vectors, or as a transform in float64.

    Raises:
        FileError: Displacements are not finite, and the file is text, which ITK could not read.
    """
    sitk, rank = itk(), vectors.array.shape[-1]
    missing = int(np.count_nonzero(~np.isfinite(vectors.array).all(-1)))
    if missing and path.name.lower().endswith(".tfm"):
        raise FileError(
            f"{missing} of {vectors.array[..., 0].size} displacements are missing (NaN) or "
            "infinite, which ITK cannot read from .tfm files; accepted: .h5, .mha, .nrrd, .nii "
            "and .npy"
        )
    is_image = path.name.lower().endswith(IMAGES)
    wide = vectors.array.dtype == np.float64 or not is_image
    array = np.ascontiguousarray(vectors.array, np.float64 if wide else np.float32)
    image = sitk.GetImageFromArray(array, isVector=True)
    matrix = vectors.affine[:rank, :rank]
    spacing = np.linalg.norm(matrix, axis=0)
    image.SetSpacing(spacing.tolist())
    image.SetDirection((matrix / spacing).ravel().tolist())
    image.SetOrigin(vectors.affine[:rank, rank].tolist())
    if is_image:
        sitk.WriteImage(image, str(path))
    else:
        sitk.WriteTransform(sitk.DisplacementFieldTransform(image), str(path))


def read_transforms(path: Path) -> list[Transform]:
    """Read the transforms of a file, in the order in which they are applied to points.

    Raises:
        FileError: A transform is neither linear nor a displacement field.
    """
    sitk = itk()
    with _short_errors():
        transform = sitk.ReadTransform(str(path))
    return _steps(transform, path)


def itk() -> Any:
    """Import SimpleITK.

    Raises:
        MissingExtraError: It is not installed.
    """
    return require("SimpleITK", "itk")


@contextmanager
def _short_errors() -> Iterator[None]:
    """Shorten ITK's errors, which begin with files and lines of its source, to their last part."""
    try:
        yield
    except RuntimeError as error:
        words = " ".join(str(error).split())
        message = re.split(r"ERROR: (?:\w+\(0x[0-9a-f]+\): )?", words)[-1]
        raise RuntimeError(f"ITK: {message}") from error


def _steps(transform: Any, path: Path) -> list[Transform]:
    sitk = itk()
    name, rank = transform.GetName(), transform.GetDimension()
    if name == "CompositeTransform":
        composite = sitk.CompositeTransform(transform)
        parts = [composite.GetNthTransform(k) for k in range(composite.GetNumberOfTransforms())]
        # The transform that was added last is applied first.
        return [step for part in reversed(parts) for step in _steps(part, path)]
    if name == "DisplacementFieldTransform":
        field = sitk.DisplacementFieldTransform(transform).GetDisplacementField()
        return [_from_image(field, path)]
    if not transform.IsLinear():
        raise FileError(
            f"{path} holds a {name}; accepted: linear transforms and displacement fields, which "
            "SimpleITK's TransformToDisplacementField makes from any transform"
        )
    # A linear transform, however it is parametrised, is determined by the images of these points.
    origin = np.array(transform.TransformPoint([0.0] * rank))
    matrix = np.eye(rank + 1)
    matrix[:rank, rank] = origin
    for k, point in enumerate(np.eye(rank).tolist()):
        matrix[:rank, k] = np.array(transform.TransformPoint(point)) - origin
    return [matrix]


def _from_image(image: Any, path: Path) -> Vectors:
    rank, count = image.GetDimension(), image.GetNumberOfComponentsPerPixel()
    array = itk().GetArrayFromImage(image)
    if count != rank or rank not in (2, 3) or array.dtype.kind != "f":
        raise FileError(
            f"{path} holds a {rank}-D image of {count} x {array.dtype}; a field has floating-point "
            f"vectors of {rank} components"
        )
    affine = np.eye(rank + 1)
    affine[:rank, :rank] = np.reshape(image.GetDirection(), (rank, rank)) * image.GetSpacing()
    affine[:rank, rank] = image.GetOrigin()
    return Vectors(array, affine)
