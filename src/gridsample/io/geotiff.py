"""Where the pixels of a GeoTIFF lie on the ground: its tags, and what resampling makes of them.

The matrix of a georeference maps raster coordinates to the ground.  Raster coordinates are
0 at the outer corner of the first pixel, or at its centre if the file says that pixels are points.
Source: OGC 19-008r4, GeoTIFF 1.1, section 7.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SCALE, _TIEPOINTS, _MATRIX = 33550, 33922, 34264
_GEO_KEYS, _GEO_DOUBLES, _GEO_ASCII = 34735, 34736, 34737
_RASTER_TYPE, _PIXEL_IS_AREA, _PIXEL_IS_POINT = 1025, 1, 2  # where raster coordinates begin
# The kind of the coordinate system, and the key with its EPSG code for each kind.
_MODEL_TYPE, _PROJECTED, _GEOGRAPHIC = 1024, 1, 2
_EPSG_KEYS = {_PROJECTED: 3072, _GEOGRAPHIC: 2048}
_EPSG_CODES = range(1024, 32767)

ExtraTag = tuple[int, int, int, Any, bool]
"""A tag as tifffile writes it: number, type, count, value, and whether only one page has it."""


class GeoReference(NamedTuple):
    """The place of an image on the ground.

    Attributes:
        matrix: `(3, 3)`, raster coordinates (x, y, 1) -> ground.
        pixel_is_point: Whether raster coordinates count from the centre of the first pixel.
        keys: The tags that name the coordinate system, unchanged.
    """

    matrix: NDArray[np.float64]
    pixel_is_point: bool
    keys: tuple[ExtraTag, ...]

    @property
    def spacing(self) -> tuple[float, float]:
        """The distance between pixels along x and y, in the units of the ground."""
        x, y = np.linalg.norm(self.matrix[:2, :2], axis=0)
        return float(x), float(y)

    @property
    def affine(self) -> NDArray[np.float64]:
        """`(3, 3)`, indices of pixels (x, y, 1) -> ground."""
        return self.matrix @ self._corner

    @property
    def _corner(self) -> NDArray[np.float64]:
        """`(3, 3)`, indices of pixels -> raster coordinates."""
        corner = np.eye(3)
        corner[:2, 2] = 0 if self.pixel_is_point else 0.5
        return corner

    @classmethod
    def of_epsg(
        cls, affine: NDArray[np.float64], code: int, is_geographic: bool
    ) -> GeoReference | None:
        """Return the place of an image in a coordinate system; None if keys cannot name that.

        Args:
            affine: `(3, 3)`, indices of pixels (x, y, 1) -> ground.
            code: The EPSG code.
            is_geographic: Whether coordinates are longitudes and latitudes.
        """
        if code not in _EPSG_CODES:
            return None
        kind = _GEOGRAPHIC if is_geographic else _PROJECTED
        entries = [(_MODEL_TYPE, 0, 1, kind), (_RASTER_TYPE, 0, 1, _PIXEL_IS_AREA)]
        directory = [(1, 1, 0, 3), *entries, (_EPSG_KEYS[kind], 0, 1, code)]
        data = struct.pack("<16H", *np.ravel(directory))
        system = cls(np.eye(3), False, ((_GEO_KEYS, 3, 16, data, True),))
        return system._replace(matrix=affine @ np.linalg.inv(system._corner))

    @property
    def epsg(self) -> int | None:
        """The code of the coordinate system; None if the keys define it in another way."""
        known = {key: value for key, place, _, value in self._entries() if not place}
        code = known.get(_EPSG_KEYS.get(known.get(_MODEL_TYPE, 0), 0), 0)
        return int(code) if code in _EPSG_CODES else None

    def has_system_of(self, other: GeoReference) -> bool:
        """Whether both name the same coordinate system, in the same way."""
        return self._system() == other._system()

    def _system(self) -> list[Any]:
        """Return the keys but for the one that says where raster coordinates begin."""
        entries = [entry for entry in self._entries() if entry[0] != _RASTER_TYPE]
        return [entries, self.keys[1:]]

    def _entries(self) -> list[list[int]]:
        """Return the entries of the directory of keys."""
        _, _, count, data, _ = self.keys[0]
        entries: list[list[int]] = np.reshape(struct.unpack(f"<{count}H", data), (-1, 4)).tolist()
        return entries[1:]

    def resampled(self, voxels: NDArray[np.float64]) -> GeoReference | None:
        """Return the place of new pixels, given the map from new to old indices, x first.

        None if the map is not affine, or has other dimensions.
        """
        if voxels.shape != (3, 3) or not np.allclose(voxels[2], (0, 0, 1)):
            return None
        matrix = self.affine @ voxels @ np.linalg.inv(self._corner)
        return self._replace(matrix=matrix)

    def tags(self) -> list[ExtraTag]:
        """Return the tags that describe the place."""
        (a, b, x), (c, d, y), _ = self.matrix.tolist()
        if b == c == 0 and a > 0 > d:
            values = {_SCALE: (a, -d, 0.0), _TIEPOINTS: (0.0, 0.0, 0.0, x, y, 0.0)}
        else:
            values = {_MATRIX: (a, b, 0, x, c, d, 0, y, 0, 0, 0, 0, 0, 0, 0, 1)}
        return [
            *((n, 12, len(v), tuple(map(float, v)), True) for n, v in values.items()),
            *self.keys,
        ]


def read(tags: Mapping[int, Any]) -> GeoReference | None:
    """Return the place of a page, given its tags in tifffile's form; None if they do not say.

    A file that only ties some pixels to the ground, without a scale, has no matrix.
    """
    if _GEO_KEYS not in tags:
        return None
    matrix = np.eye(3)
    if _MATRIX in tags:
        matrix[:2] = np.reshape(tags[_MATRIX].value, (4, 4))[np.ix_((0, 1), (0, 1, 3))]
    elif _SCALE in tags and _TIEPOINTS in tags:
        (sx, sy), (i, j, _, x, y) = tags[_SCALE].value[:2], tags[_TIEPOINTS].value[:5]
        matrix[:2] = [[sx, 0, x - i * sx], [0, -sy, y + j * sy]]
    else:
        return None
    directory = np.reshape(tags[_GEO_KEYS].value, (-1, 4))[1:]
    is_point = any(
        key == _RASTER_TYPE and value == _PIXEL_IS_POINT for key, _, _, value in directory
    )
    return GeoReference(matrix, is_point, tuple(_keys(tags)))


def _keys(tags: Mapping[int, Any]) -> list[ExtraTag]:
    """Return the tags of the coordinate system as tifffile writes them."""
    keys = np.ravel(tags[_GEO_KEYS].value)
    kept: list[ExtraTag] = [(_GEO_KEYS, 3, len(keys), struct.pack(f"<{len(keys)}H", *keys), True)]
    if _GEO_DOUBLES in tags:
        numbers = np.ravel(tags[_GEO_DOUBLES].value)
        kept.append(
            (_GEO_DOUBLES, 12, len(numbers), struct.pack(f"<{len(numbers)}d", *numbers), True)
        )
    if _GEO_ASCII in tags:
        text = str(tags[_GEO_ASCII].value).rstrip("\0").encode("ascii", "replace") + b"\0"
        kept.append((_GEO_ASCII, 2, len(text), text, True))
    return kept
