"""Field files: displacements as they are stored, and as `gridsample.fields` takes them.

| format | files | stores |
|---|---|---|
| Middlebury | `.flo` | 2-D float32, pixels |
| PFM | `.pfm` | 2-D float32, pixels; the third channel is not used |
| KITTI | `.png` | 2-D, 16 bits, 1/64 pixel up to 512 pixels; a flag for missing flow |
| NumPy | `.npy` | 1-D to 3-D, pixels: `(*spatial, D)`, also with an axis of length 1 in front |
| NIfTI | `.nii`, `.nii.gz` | 2-D and 3-D, millimetres, with an affine |
| ITK image | `.mha`, `.nrrd` | 2-D and 3-D, millimetres, with an affine |
| ITK transform | `.h5`, `.tfm` | 2-D and 3-D, float64 millimetres, with an affine |

A field in memory is always `(1, *spatial, D)`, in pixels, with components in x, y, z order. Missing
flow is NaN. NIfTI vectors are millimetres along the axes of the world. With intent 1006
(displacement vector), these are right, anterior, superior (RAS). With intent 1007 (vector), as ITK
and ANTs write it, they are left, posterior, superior (LPS), as always in ITK's own files. They are
multiplied by the inverse of the affine's matrix when they are read, and by the matrix when they are
written. ITK's files are read and written by SimpleITK, which is in the extra `gridsample[itk]`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsample import fields
from gridsample.io import itk, nifti, pictures
from gridsample.io.arrays import load_npy
from gridsample.io.image import FileError, NamedFormat, as_file_error, by_suffix, require
from gridsample.io.output import replacing

__all__ = ["Field", "describe_field", "holds_field", "read_field", "write_field"]

_FLO_MAGIC = b"PIEH"  # the number 202021.25 as float32
_MISSING_ABOVE = 1e9
"""Components of larger magnitude mean missing flow in `.flo` files."""

_DTYPES = ("float16", "float32", "float64")
_INTENTS = {"RAS": 1006, "LPS": 1007}
_FLIP = {"RAS": (1, 1, 1), "LPS": (-1, -1, 1)}


@dataclass(frozen=True)
class Field:
    """A displacement field, and how its file stores it.

    Attributes:
        array: `(1, *spatial, D)` floating-point displacements in pixels, x, y, z; NaN if missing.
        format: the name of the file's format.
        affine: `(4, 4)`, from voxel (x, y, z) to millimetres (RAS), if the file has one.
        world: the axes of the file's vectors, "RAS" or "LPS", if these are millimetres.
    """

    array: NDArray[Any]
    format: str = "array"
    affine: NDArray[np.float64] | None = None
    world: str = "RAS"


@dataclass(frozen=True)
class FieldFormat(NamedFormat):
    """A format of field files: its names, and how it is read and written."""

    ranks: tuple[int, ...]
    read: Callable[[Path], Field]
    write: Callable[[Field, Path], None]


def field_format_of(path: Path) -> FieldFormat:
    """Return the format of a field file according to its extension.

    Raises:
        FileError: The extension is unknown.

    >>> field_format_of(Path("frame.flo")).name
    'Middlebury'
    """
    return by_suffix(path, FIELD_FORMATS, "field file")


def read_field(path: Path | str) -> Field:
    """Read a field file.

    Args:
        path: a file in one of the formats above.

    Returns:
        The field in pixels, and how the file stores it.

    Raises:
        FileError: the name or the content is not supported.
        MissingExtraError: the package that reads the format is not installed.
        OSError: the file does not exist or cannot be read.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/right.flo"
        >>> write_field(Field(np.array([1.0, 0.0]) * np.ones((1, 4, 6, 2))), path)
        >>> field = read_field(path)
        >>> field.format, field.array.dtype, field.array[0, 0, 0]
        ('Middlebury', dtype('float32'), array([1., 0.], dtype=float32))
    """
    path = Path(path)
    field_format = field_format_of(path)
    with path.open("rb"), as_file_error(f"cannot read {path} as a {field_format.name} field"):
        field = field_format.read(path)
        if 0 in field.array.shape:
            raise FileError(f"{path} is empty: its shape is {field.array.shape[1:]}")
        return field


def write_field(field: Field, path: Path | str, *, overwrite: bool = False) -> None:
    """Write a field file, completely or not at all.

    Args:
        field: the displacements in pixels. Only NIfTI's and ITK's files store its `affine`; without
            an affine, a voxel is a cube of 1 mm along right, anterior and superior. Only NIfTI's
            vectors follow its `world`.
        path: the file to write. Its extension determines the format; `.png` is KITTI's.
        overwrite: whether an existing file may be replaced.

    Returns:
        None: the file is written.

    Raises:
        FileError: the array is not a field, the affine or the world is not accepted, the format
            cannot store the displacements, or the file exists.
        TypeError: ``field`` is not a `Field`.
        MissingExtraError: the package that writes the format is not installed.
        OSError: the folder is not writable.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/down.pfm"
        >>> write_field(Field(np.array([0.0, 2.0]) * np.ones((1, 4, 6, 2))), path)
        >>> read_field(path).array[0, 3, 5]
        array([0., 2.], dtype=float32)
    """
    path = Path(path)
    field_format, field = field_format_of(path), _checked(field, path)
    rank = field.array.ndim - 2
    if rank not in field_format.ranks:
        names = ", ".join(other.name for other in FIELD_FORMATS if rank in other.ranks)
        raise FileError(
            f"cannot write {path}: {field_format.name} does not hold {rank}-D fields; "
            f"accepted: {names}"
        )
    with replacing(path, overwrite=overwrite) as temporary, as_file_error(f"cannot write {path}"):
        field_format.write(field, temporary)


def _checked(field: Field, path: Path) -> Field:
    """Return a field with NumPy arrays, or raise an error."""
    if not isinstance(field, Field):
        raise TypeError(f"field must be a gridsample.io.fields.Field, got {type(field).__name__}")
    array = np.asarray(field.array)
    if (
        array.dtype.name not in _DTYPES
        or array.shape[:1] != (1,)
        or array.shape[-1] != array.ndim - 2
        or not array.size
    ):
        raise FileError(
            f"cannot write {path}: a field is a floating-point array (1, *spatial, D) of "
            f"{', '.join(_DTYPES)}, got {array.dtype} of shape {array.shape}"
        )
    if field.world not in _FLIP:
        raise FileError(
            f"cannot write {path}: world must be one of {', '.join(_FLIP)}, got {field.world!r}"
        )
    if field.affine is None:
        return replace(field, array=array)
    try:
        affine = np.asarray(field.affine, np.float64)
    except (TypeError, ValueError):
        affine = np.empty(0)
    valid = affine.shape == (4, 4) and np.isfinite(affine).all()
    if not valid or np.abs(affine[3] - [0, 0, 0, 1]).max() > 1e-6 or not np.linalg.det(affine):
        raise FileError(
            f"cannot write {path}: affine must be an invertible 4 x 4 matrix of finite numbers "
            f"with the last row 0 0 0 1, got {' '.join(str(field.affine).split())}"
        )
    return replace(field, array=array, affine=affine)


def holds_field(path: Path) -> bool:
    """Whether a file certainly holds a field: by its extension, or by the intent of a NIfTI file.

    KITTI's files and `.npy` arrays cannot be distinguished from other pictures and arrays.

    Args:
        path: the file, which is opened only if its name ends in ".nii" or ".nii.gz".

    Returns:
        True or False.

    Raises:
        FileError: a NIfTI file cannot be read.
        MissingExtraError: nibabel is not installed, which reads NIfTI files.
        OSError: a NIfTI file does not exist or cannot be read.

    Example:
        >>> holds_field(Path("frame.flo")), holds_field(Path("frame.png"))
        (True, False)
    """
    if path.name.lower().endswith((".flo", ".pfm", *itk.IMAGES, *itk.TRANSFORMS)):
        return True
    if not path.name.lower().endswith((".nii", ".nii.gz")):
        return False
    with path.open("rb"), as_file_error(f"cannot read {path} as NIfTI"):
        code = int(require("nibabel").load(path).header["intent_code"])
    return code in _INTENTS.values()


def describe_field(field: Field) -> list[tuple[str, str]]:
    """List the properties of a field, as `gridsample info` prints them.

    Args:
        field: the field.

    Returns:
        Pairs of a name and a text.  "volume" is the range of the Jacobian determinant, and
        "folding" the share of points where it is not above 0.

    Example:
        >>> facts = describe_field(Field(np.zeros((1, 4, 6, 2)), "Middlebury"))
        >>> for name, value in facts:
        ...     print(name, "|", value)
        format | Middlebury
        size | 6 x 4
        dtype | float64
        units | pixels
        x | 0 to 0
        y | 0 to 0
        length | 0 to 0
        volume | 1 to 1 times
        folding | 0% of the points
    """
    array = field.array
    rank = array.shape[-1]
    units = "pixels"
    if field.affine is not None:
        units += f"; the file holds millimetres, {field.world}"
    facts = [
        ("format", field.format),
        ("size", " x ".join(map(str, array.shape[-2:0:-1]))),
        ("dtype", array.dtype.name),
        ("units", units),
    ]
    missing = int(np.isnan(array).any(-1).sum())
    if missing:
        facts.append(("missing", f"{missing} of {array[..., 0].size} points"))
    facts += [("xyz"[k], _range_of(array[..., k])) for k in range(rank)]
    facts.append(("length", _range_of(np.sqrt(np.square(array, dtype=np.float64).sum(-1)))))
    volumes = fields.jacobian_determinant(array)
    known = volumes[np.isfinite(volumes)]
    if known.size:
        facts.append(("volume", f"{_range_of(known)} times"))
        facts.append(("folding", f"{100 * float((known <= 0).mean()):.3g}% of the points"))
    if field.affine is not None:
        rows = [" ".join(f"{number:9.4g}" for number in row) for row in field.affine]
        facts.append(("affine", "\n".join(rows)))
    return facts


def _range_of(values: NDArray[Any]) -> str:
    known = values[np.isfinite(values)]
    return f"{known.min():.6g} to {known.max():.6g}" if known.size else "all missing"


# Middlebury's .flo --------------------------------------------------------------------------------


def _read_flo(path: Path) -> Field:
    data = path.read_bytes()
    if data[:4] != _FLO_MAGIC or len(data) < 12:
        raise FileError(f"{path} is not a .flo file, despite its name")
    width, height = struct.unpack("<ii", data[4:12])
    if min(width, height) < 0 or len(data) != 12 + 8 * width * height:
        raise FileError(
            f"{path} should hold {width} x {height} vectors, {8 * width * height} bytes, and holds "
            f"{len(data) - 12}"
        )
    array = np.frombuffer(data, "<f4", offset=12).reshape(1, height, width, 2).astype(np.float32)
    array[~(np.abs(array) <= _MISSING_ABOVE).all(-1)] = np.nan
    return Field(array, "Middlebury")


def _write_flo(field: Field, path: Path) -> None:
    _, height, width, _ = field.array.shape
    known = _known_up_to(_MISSING_ABOVE, field, ".flo")
    array = np.where(known[..., np.newaxis], field.array.astype("<f4"), 10 * _MISSING_ABOVE)
    path.write_bytes(_FLO_MAGIC + struct.pack("<ii", width, height) + array.astype("<f4").tobytes())


def _known_up_to(limit: float, field: Field, suffix: str) -> NDArray[np.bool_]:
    """Return which displacements are not missing, or raise an error if one is above a limit."""
    known: NDArray[np.bool_] = np.isfinite(field.array).all(-1)
    largest = float(np.abs(field.array[known]).max(initial=0))
    if largest > limit:
        raise FileError(
            f"{suffix} files hold displacements up to {limit:g} pixels, and the largest is "
            f"{largest:g}"
        )
    return known


# PFM ----------------------------------------------------------------------------------------------


def _read_pfm(path: Path) -> Field:
    with path.open("rb") as file:
        magic = file.readline().strip()
        words: list[bytes] = []
        while len(words) < 3:
            line = file.readline(256)
            if not line:
                raise FileError(f"{path} ends within its header")
            words += line.partition(b"#")[0].split()
        data = file.read()
    if magic == b"Pf":
        raise FileError(
            f"{path} has one channel, as a disparity or depth map does; a flow has three, of which "
            "the third is not used"
        )
    if magic != b"PF":
        raise FileError(f"{path} is not a .pfm file, despite its name")
    width, height, scale = int(words[0]), int(words[1]), float(words[2])
    if not 0 < abs(scale) < math.inf:
        raise FileError(f"{path} has the scale {scale:g}; accepted: finite numbers other than 0")
    order = "<" if scale < 0 else ">"
    if min(width, height) < 0 or len(data) != 12 * width * height:
        raise FileError(
            f"{path} should hold {width} x {height} pixels, {12 * width * height} bytes, and holds "
            f"{len(data)}"
        )
    pixels = np.frombuffer(data, f"{order}f4").reshape(height, width, 3)
    array = pixels[np.newaxis, ::-1, :, :2].astype(np.float32)  # from the bottom row to the top
    array[~np.isfinite(array).all(-1)] = np.nan
    return Field(array, "PFM")


def _write_pfm(field: Field, path: Path) -> None:
    _, height, width, _ = field.array.shape
    _known_up_to(float(np.finfo(np.float32).max), field, ".pfm")
    pixels = np.zeros((height, width, 3), "<f4")
    pixels[..., :2] = field.array[0, ::-1]
    path.write_bytes(b"PF\n%d %d\n-1.0\n" % (width, height) + pixels.tobytes())


# KITTI's PNG --------------------------------------------------------------------------------------


def _read_kitti(path: Path) -> Field:
    with ExitStack() as stack:
        (page,) = pictures.read_pages(path, False, stack)
        pixels = page.pixels()
    if pixels.dtype != np.uint16 or pixels.shape[-1] != 3:
        raise FileError(
            f"{path} holds {pixels.dtype.name} pixels of {pixels.shape[-1]} channels; a flow of "
            "KITTI has 16 bits and 3 channels"
        )
    array = (pixels[np.newaxis, ..., :2].astype(np.float32) - 2**15) / 64
    array[pixels[np.newaxis, ..., 2] == 0] = np.nan
    return Field(array, "KITTI")


def _write_kitti(field: Field, path: Path) -> None:
    known = np.isfinite(field.array[0]).all(-1)
    numbers = np.rint(field.array[0].astype(np.float64) * 64 + 2**15)
    numbers[~known] = 0
    if numbers.min(initial=0) < 0 or numbers.max(initial=0) > 2**16 - 1:
        raise FileError("KITTI's format holds displacements from -512 to 511.98 pixels")
    pixels = np.concatenate([numbers, known[..., np.newaxis]], -1).astype(np.uint16)
    path.write_bytes(require("imagecodecs").png_encode(np.ascontiguousarray(pixels)))


# NumPy --------------------------------------------------------------------------------------------


def _read_npy(path: Path) -> Field:
    array = np.array(load_npy(path))
    if array.dtype.name in _DTYPES and array.ndim > 1:
        array = array.astype(array.dtype.newbyteorder("="))
        rank = array.shape[-1]
        if 1 <= rank <= 3 and array.ndim == rank + 1:
            return Field(array[np.newaxis], "NumPy")
        if 1 <= rank <= 3 and array.ndim == rank + 2 and len(array) == 1:
            return Field(array, "NumPy")
    raise FileError(
        f"{path} holds {array.dtype} of shape {array.shape}; a field is a floating-point array of "
        "shape (W, 1), (H, W, 2) or (D, H, W, 3)"
    )


def _write_npy(field: Field, path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, field.array[0])


# NIfTI --------------------------------------------------------------------------------------------


def _read_nifti(path: Path) -> Field:
    with nifti.opened(path) as source:
        header = nifti.Header(type(source), source.header)
        rank, world = _rank_and_world(source.shape, header, path)
        stored = np.asanyarray(source.dataobj)
    dtype = np.float64 if stored.dtype == np.float64 else np.float32
    vectors = stored[:, :, :, 0] if rank == 3 else stored[:, :, 0, 0]
    spatial = (*range(rank)[::-1], rank)
    array = _in_voxels(vectors.transpose(spatial), header.affine, world)
    return Field(array.astype(dtype), "NIfTI", header.affine, world)


def _rank_and_world(shape: tuple[int, ...], header: nifti.Header, path: Path) -> tuple[int, str]:
    """Return the number of components of a file's vectors and their axes, or raise an error."""
    rank, code = shape[-1] if len(shape) == 5 else 0, int(header.header["intent_code"])
    if rank not in (2, 3) or shape[3] != 1 or (rank == 2 and shape[2] != 1):
        raise FileError(
            f"{path} has shape {shape}; a field is (X, Y, Z, 1, 3), or (X, Y, 1, 1, 2) in 2-D"
        )
    if code not in _INTENTS.values():
        raise FileError(
            f"{path} has intent {code}, which does not say that its vectors are displacements; "
            "accepted: 1006 (displacement vector, RAS) and 1007 (vector, LPS)"
        )
    if header.unit != 1:
        raise FileError(
            f"{path} has distances in another unit than millimetres, and does not say whether its "
            "vectors have it, too; accepted: millimetres"
        )
    return rank, "LPS" if code == _INTENTS["LPS"] else "RAS"


def _write_nifti(field: Field, path: Path) -> None:
    nibabel, rank = require("nibabel"), field.array.shape[-1]
    affine = np.eye(4) if field.affine is None else field.affine
    dtype = np.float64 if field.array.dtype == np.float64 else np.float32
    vectors = _in_millimetres(field.array, affine, field.world).astype(dtype)
    shape = (*field.array.shape[-2:0:-1], *(1,) * (4 - rank), rank)
    stored = vectors.transpose(*range(rank)[::-1], rank).reshape(shape)
    image = nibabel.Nifti1Image(stored, affine)
    image.header.set_intent(_INTENTS[field.world])
    image.header.set_xyzt_units("mm")
    image.to_filename(path)


# ITK ----------------------------------------------------------------------------------------------


def _read_itk(path: Path) -> Field:
    vectors, lps = itk.read_vectors(path)
    rank = vectors.shape[-1]
    affine = np.eye(4)
    affine[:rank, :rank], affine[:rank, 3] = lps[:rank, :rank], lps[:rank, rank]
    affine = np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine
    array = _in_voxels(vectors, affine, "LPS").astype(vectors.dtype)
    return Field(array, field_format_of(path).name, affine, "LPS")


def _write_itk(field: Field, path: Path) -> None:
    rank = field.array.shape[-1]
    affine = np.eye(4) if field.affine is None else field.affine
    vectors = _in_millimetres(field.array, affine, "LPS").astype(field.array.dtype)
    lps = np.eye(rank + 1)
    lps[:rank, :rank] = _world_matrix(affine, rank, "LPS")
    lps[:rank, rank] = affine[:rank, 3] * _FLIP["LPS"][:rank]
    itk.write_vectors(itk.Vectors(vectors, lps), path)


# Voxels and millimetres ---------------------------------------------------------------------------


def _in_voxels(vectors: NDArray[Any], affine: NDArray[np.float64], world: str) -> NDArray[Any]:
    """Convert vectors (*spatial, D) in millimetres to voxels: (1, *spatial, D) in float64."""
    inverse = np.linalg.inv(_world_matrix(affine, vectors.shape[-1], world))
    with np.errstate(invalid="ignore"):  # an infinite displacement becomes a missing one
        array: NDArray[Any] = (vectors.astype(np.float64) @ inverse.T)[np.newaxis]
    return np.where(np.isfinite(array).all(-1, keepdims=True), array, np.nan)


def _in_millimetres(array: NDArray[Any], affine: NDArray[np.float64], world: str) -> NDArray[Any]:
    """Convert displacements (1, *spatial, D) in voxels to (*spatial, D) in float64 millimetres."""
    matrix = _world_matrix(affine, array.shape[-1], world)
    with np.errstate(invalid="ignore"):
        vectors: NDArray[Any] = array[0].astype(np.float64) @ matrix.T
    return vectors


def _world_matrix(affine: NDArray[np.float64], rank: int, world: str) -> NDArray[np.float64]:
    """Return the matrix from displacements in voxels to millimetres along the axes of the world."""
    signs = np.array(_FLIP[world][:rank], np.float64)
    matrix: NDArray[np.float64] = signs[:, np.newaxis] * affine[:rank, :rank]
    return matrix


FIELD_FORMATS = (
    FieldFormat("Middlebury", (".flo",), (2,), _read_flo, _write_flo),
    FieldFormat("PFM", (".pfm",), (2,), _read_pfm, _write_pfm),
    FieldFormat("KITTI", (".png",), (2,), _read_kitti, _write_kitti),
    FieldFormat("NumPy", (".npy",), (1, 2, 3), _read_npy, _write_npy),
    FieldFormat("NIfTI", (".nii", ".nii.gz"), (2, 3), _read_nifti, _write_nifti),
    FieldFormat("ITK image", itk.IMAGES, (2, 3), _read_itk, _write_itk),
    FieldFormat("ITK transform", itk.TRANSFORMS, (2, 3), _read_itk, _write_itk),
)
"""Every format, in the order in which messages name them."""
