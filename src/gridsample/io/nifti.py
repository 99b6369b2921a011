"""NIfTI files: voxels (i, j, k) are x, y, z, and a fourth axis holds channels."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsample.io.image import (
    Bands,
    FileError,
    Image,
    Page,
    as_file_error,
    collected,
    require,
    whole_page,
)

MILLIMETRES = {"meter": 1000.0, "mm": 1.0, "micron": 0.001, "unknown": 1.0}
"""The units of a header's distances."""


class Header(NamedTuple):
    """The metadata of a file.

    Attributes:
        image_class: nibabel's image class, for NIfTI-1 or NIfTI-2.
        header: nibabel's header.
    """

    image_class: Any
    header: Any

    @property
    def unit(self) -> float:
        """The unit of the file's distances, in millimetres."""
        return MILLIMETRES[self.header.get_xyzt_units()[0]]

    @property
    def affine(self) -> NDArray[np.float64]:
        """The affine (4, 4) from voxels to millimetres (RAS): sform, else qform, else sizes."""
        affine = np.array(self.header.get_best_affine(), np.float64)
        affine[:3] *= self.unit
        return affine

    @property
    def spacing(self) -> tuple[float, ...]:
        """The distances between voxels in millimetres, by the affine; the header may say others."""
        rank = min(3, len(self.header.get_data_shape()))
        return tuple(float(length) for length in np.linalg.norm(self.affine[:3, :rank], axis=0))

    @property
    def disagrees(self) -> bool:
        """Whether the file has both affines, and they place voxels in different ways."""
        qform, sform = (
            get_affine(coded=True)[0]
            for get_affine in (self.header.get_qform, self.header.get_sform)
        )
        if qform is None or sform is None:
            return False
        return not np.allclose(qform, sform, rtol=1e-3, atol=1e-3 * min(self.spacing) / self.unit)

    @property
    def scaling(self) -> tuple[float, float]:
        """The slope and the intercept: value = slope * stored + intercept."""
        slope, inter = self.header.get_slope_inter()
        return (1.0 if slope is None else float(slope)), (0.0 if inter is None else float(inter))

    def scaled(self, slope: float, inter: float) -> Header:
        """Return the header with another scaling."""
        scaled = self.header.copy()
        scaled.set_slope_inter(slope, inter)
        return Header(self.image_class, scaled)

    def with_affines_of(self, like: Header) -> Header:
        """Return the header with the affines, voxel sizes and units of another one."""
        placed, other = self.header.copy(), like.header
        space, _ = other.get_xyzt_units()
        placed.set_xyzt_units(space, placed.get_xyzt_units()[1])
        placed.set_qform(*other.get_qform(coded=True), strip_shears=False)
        placed.set_sform(*other.get_sform(coded=True))
        zooms = np.array(placed.get_zooms())
        rank = min(3, len(zooms))
        zooms[:rank] = other.get_zooms()[:rank]
        placed.set_zooms(zooms)
        return Header(self.image_class, placed)

    def resampled(self, voxels: NDArray[np.float64]) -> Header:
        """Return the header of new voxels, given the map from new to old voxels."""
        rank = voxels.shape[0] - 1
        matrix = np.eye(4)
        matrix[:rank, :rank], matrix[:rank, 3] = voxels[:rank, :rank], voxels[:rank, rank]
        resampled = self.header.copy()
        if np.array_equal(matrix, np.eye(4)):
            return Header(self.image_class, resampled)
        zooms = np.array(self.header.get_zooms())
        zooms[:rank] *= np.linalg.norm(voxels[:rank, :rank], axis=0)
        resampled.set_zooms(zooms)
        for get_affine, set_affine in (
            (self.header.get_qform, resampled.set_qform),
            (self.header.get_sform, resampled.set_sform),
        ):
            old, code = get_affine(coded=True)
            if code:
                set_affine(old @ matrix, code)
        return Header(self.image_class, resampled)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a file with nibabel, and check a compressed one after its voxels were read.

    The checksum is at the end, where nibabel does not read.

    Raises:
        EOFError: The file is truncated.
        OSError: Its checksum does not match.
    """
    nibabel = require("nibabel")
    source = nibabel.load(path)
    if not path.name.lower().endswith((".gz", ".mgz")):
        yield source
        return
    with gzip.open(path) as stream:
        holder = nibabel.fileholders.FileHolder(fileobj=stream)
        yield type(source).from_file_map({"image": holder})
        while stream.read(1 << 20):
            pass


def read_geometry(path: Path) -> tuple[tuple[int, ...], Header]:
    """Read the spatial size of a file, x first, and its header, but no voxels.

    Raises:
        FileError: The file is not a NIfTI file.
    """
    with path.open("rb"), as_file_error(f"cannot read {path} as NIfTI"):
        source = require("nibabel").load(path)
        if not path.name.lower().endswith((".nii", ".nii.gz")) or len(source.shape) < 2:
            raise FileError(f"{path} is not a NIfTI file, so its voxels have no known positions")
        return tuple(source.shape[:3]), Header(type(source), source.header.copy())


def affine_of_rank(affine: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
    """Return the part (D + 1, D + 1) of an affine (4, 4) that places D axes of voxels.

    Raises:
        FileError: The plane of a 2-D image is tilted, so that it has no place in two dimensions.
    """
    if np.abs(affine[rank:3, :rank]).max(initial=0) > 1e-6 * np.abs(affine[:3, :rank]).max():
        raise FileError(
            "a 2-D image must be in the plane of x and y, and this one is tilted; store it as a "
            "volume of one slice"
        )
    axes = [*range(rank), 3]
    result: NDArray[np.float64] = affine[np.ix_(axes, axes)]
    return result


def read_pages(path: Path, volume: bool, stack: ExitStack, limit: int | None) -> list[Page]:
    """Read the stored numbers of a file, with its header."""
    with opened(path) as source:
        stored = source.dataobj.get_unscaled()
    if stored.ndim not in (2, 3, 4):
        raise FileError(f"{path} has {stored.ndim} axes; accepted: 2 to 4")
    header = source.header.copy()
    header.set_slope_inter(source.dataobj.slope, source.dataobj.inter)
    return [_page(stored, "NIfTI", Header(type(source), header))]


def read_mgh(path: Path, volume: bool, stack: ExitStack, limit: int | None) -> list[Page]:
    """Read a file of FreeSurfer; its affine becomes that of a NIfTI header."""
    nibabel = require("nibabel")
    with opened(path) as source:
        voxels = np.asarray(source.dataobj)
    voxels = voxels.astype(voxels.dtype.newbyteorder("="), copy=False)
    converted = nibabel.Nifti1Image(voxels, source.affine, dtype=voxels.dtype)
    converted.header.set_xyzt_units("mm")
    return [_page(voxels, "MGH", Header(nibabel.Nifti1Image, converted.header.copy()))]


def _page(voxels: NDArray[Any], format_name: str, header: Header) -> Page:
    has_channels = voxels.ndim > 3
    array = np.moveaxis(voxels.T, 0, -1) if has_channels else voxels.T[..., None]
    return whole_page(Image(array, format_name, has_channels, {"nifti": header}))


def write_mgh(images: Sequence[Image], bands: Iterable[Bands], path: Path) -> None:
    """Write one volume as a file of FreeSurfer."""
    image = collected(images, bands)
    affine = image.extras["nifti"].affine if "nifti" in image.extras else np.eye(4)
    with as_file_error(f"cannot write {path}"):
        require("nibabel").MGHImage(_voxels(image), affine).to_filename(path)


def max_length(image: Image) -> int:
    """Return the largest size of an axis: sizes have 16 bits in NIfTI-1, and 64 in NIfTI-2."""
    image_class, _ = image.extras.get("nifti", (None, None))
    is_nifti2 = getattr(image_class, "__name__", "").startswith("Nifti2")
    return 2**63 - 1 if is_nifti2 else 2**15 - 1


def write_pages(images: Sequence[Image], bands: Iterable[Bands], path: Path) -> None:
    """Write one image."""
    image = collected(images, bands)
    with as_file_error(f"cannot write {path}"):
        voxels = _voxels(image)
        if "nifti" in image.extras:
            image_class, header = image.extras["nifti"]
            header = header.copy()
            header.set_data_dtype(voxels.dtype)
            # No affine is passed: the header already contains its own two, with their codes.
            target = image_class(voxels, None, header)
            target.header.set_slope_inter(*header.get_slope_inter())
        else:
            target = require("nibabel").Nifti1Image(voxels, np.eye(4), dtype=voxels.dtype)
        target.to_filename(path)


def _voxels(image: Image) -> NDArray[Any]:
    """Return the pixels as nibabel has them, (X, Y), (X, Y, Z) or (X, Y, Z, C)."""
    if not image.has_channel_axis:
        return image.stored.T
    voxels = np.moveaxis(image.array, -1, 0).T
    return voxels if voxels.ndim == 4 else voxels[:, :, None]
