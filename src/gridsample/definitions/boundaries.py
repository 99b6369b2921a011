"""Boundaries as records: the values outside an image along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gridsample.definitions import axis
from gridsample.definitions.caches import cached_property
from gridsample.messages.links import unknown_name

# A line of pixels, and the indices of taps around it, which show how a boundary folds.
_SIZE = 16
_INDICES = np.arange(-3 * _SIZE, 4 * _SIZE)


@dataclass(frozen=True)
class Boundary:
    """The values outside the image along one axis.

    Attributes:
        name: the name that users write.
        code: what happens to a tap outside: it is dropped (`axis.ZEROS`), clamped (`axis.BORDER`),
            mirrored (`axis.REFLECTION`) or wrapped (`axis.WRAP`).
        edge: the place of the mirror: 1 if it repeats the edge pixel, 0 if it does not, 2 if it is
            at a pixel of 0 next to the image.  None if it depends on align_corners, which is only
            the case for PyTorch's reflection.
        odd: whether the sign changes with each reflection; see `axis.fold_sign`.
        folds_position: whether nearest and linear fold the position instead of each tap's index.
            The gradient is then 0 where the position is clamped.  PyTorch's three boundaries do.
        filled: whether dropped taps have the fill value; otherwise they are 0.
    """

    name: str
    code: int
    edge: int | None = 0
    odd: bool = False
    folds_position: bool = False
    filled: bool = False

    @property
    def drops(self) -> bool:
        """Whether every tap outside is dropped."""
        return self.code == axis.ZEROS

    # The next two are derived from the formula that folds taps, so that a boundary with a new
    # formula need not repeat it.

    @cached_property
    def may_drop(self) -> bool:
        """Whether some tap outside is dropped: all of them, or those at zeros beside the image."""
        return bool((self.fold_index(_INDICES, _SIZE) == axis.DROPPED).any())

    @cached_property
    def joins_ends(self) -> bool:
        """Whether neighbouring taps may read pixels at both ends of the image."""
        pixels = self.fold_index(_INDICES, _SIZE)
        has_pixel = pixels != axis.DROPPED
        return bool((np.abs(np.diff(pixels[has_pixel])) > np.diff(_INDICES[has_pixel])).any())

    @property
    def mirrors_neighbours(self) -> bool:
        """Whether two neighbouring taps are mirrored to neighbours or to one pixel, unchanged."""
        return self.code == axis.REFLECTION and not (self.odd or self.may_drop)

    def period(self, size: int, align_corners: bool = False) -> int | None:
        """After how many pixels the image and its copies repeat; None if it does not repeat."""
        if self.code < axis.REFLECTION:
            return None
        if self.code == axis.REFLECTION:
            return max(2 * (size - 1 + self.edge_for(align_corners)), 1)
        if self.code == axis.WRAP:
            return size
        raise NotImplementedError(f"the period of the boundary {self.name!r}")

    def edge_for(self, align_corners: bool) -> int:
        """The place of the mirrors, which is `edge` resolved for a value of align_corners."""
        return int(not align_corners) if self.edge is None else self.edge

    def fold_index(self, index: Any, size: Any, align_corners: bool = False) -> Any:
        """The index of the pixel that a tap reads, or DROPPED; see `axis.fold_index`."""
        return axis.fold_index(index, size, self.code, self.edge_for(align_corners))


# The comments show three pixels to the left and to the right of an image a b c d.
BOUNDARIES = {
    boundary.name: boundary
    for boundary in (
        Boundary("zeros", axis.ZEROS, folds_position=True),  # 0 0 0 | a b c d | 0 0 0
        Boundary("constant", axis.ZEROS, filled=True),  # f f f | a b c d | f f f
        Boundary("border", axis.BORDER, folds_position=True),  # a a a | a b c d | d d d
        # The same as mirror with align_corners=True, otherwise the same as symmetric.
        Boundary("reflection", axis.REFLECTION, edge=None, folds_position=True),
        Boundary("symmetric", axis.REFLECTION, edge=1),  # c b a | a b c d | d c b
        Boundary("mirror", axis.REFLECTION, edge=0),  # d c b | a b c d | c b a
        Boundary("wrap", axis.WRAP),  # b c d | a b c d | a b c
        # -c -b -a | a b c d | -d -c -b
        Boundary("antisymmetric", axis.REFLECTION, edge=1, odd=True),
        # d -c -b | a b c d | -c -b a: the pixels at the mirrors keep their sign
        Boundary("antimirror", axis.REFLECTION, edge=0, odd=True),
        # -b -a 0 | a b c d | 0 -d -c
        Boundary("dst1", axis.REFLECTION, edge=2, odd=True),
    )
}

# The name of the boundary under which what is outside counts for nothing.  Sampling with missing
# pixels (`gridsample.ops.missing`) knows it; kernels do not.
MISSING: Final = "missing"

# Names that other functions or libraries use, each with the remark in its error message.
# OpenCV's constants, without their prefix.
OPENCV = {
    "constant": "constant",
    "replicate": "border",
    "reflect": "symmetric",
    "reflect_101": "mirror",
    "reflect101": "mirror",
    "default": "mirror",
    "wrap": "wrap",
}
FOREIGN_BOUNDARIES = {
    MISSING: (
        "is for grid_sample, affine_sample, their gradients, splat and gridsample.nn.GridSample"
    ),
    "reflect": (
        "is ambiguous: NumPy's does not repeat the edge pixel ('mirror' here), SciPy's does "
        "('symmetric'), and PyTorch's 'reflection' is one or the other, depending on align_corners"
    ),
    "grid-mirror": "is SciPy's name; here it is 'symmetric'",
    "grid-wrap": "is SciPy's name; here it is 'wrap'",
    "grid-constant": "is SciPy's name; here it is 'constant'",
    "circular": "is another name for 'wrap'",
    "periodic": "is another name for 'wrap'",
    "nearest": "is SciPy's name; here it is 'border'",
    "edge": "is NumPy's name; here it is 'border'",
    "replicate": "is OpenCV's name; here it is 'border'",
    "clamp": "is a texture unit's name; here it is 'border'",
    "zero": "is torch-interpol's name; here it is 'zeros'",
    "dct1": "is torch-interpol's name; here it is 'mirror'",
    "dct2": "is torch-interpol's name; here it is 'symmetric'",
    "dst2": "is torch-interpol's name; here it is 'antisymmetric'",
    "dft": "is torch-interpol's name; here it is 'wrap'",
    "antireflect": (
        "is ambiguous: torch-interpol's is 'antisymmetric' here; PyWavelets' mirrors about the "
        "edge pixel's value, which no boundary here does"
    ),
}


def check_boundary(name: str, argument: str = "padding_mode") -> str:
    """Return the name of a boundary, or raise an error if it is unknown."""
    if name not in BOUNDARIES:
        word = name.lower().removeprefix("border_")
        remark = f"is OpenCV's name; here it is {OPENCV[word]!r}" if word in OPENCV else ""
        remark = FOREIGN_BOUNDARIES.get(name, remark if word != name else "")
        raise unknown_name(argument, name, list(BOUNDARIES), remark)
    return name


def check_boundaries(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of all axes' boundaries, or raise an error if they cannot be combined."""
    names = tuple([check_boundary(name) for name in names])
    if "zeros" in names and "constant" in names:
        raise ValueError(
            f"padding_mode {names!r} mixes 'zeros' and 'constant', which is ambiguous at a "
            "corner outside along both axes; accepted: 'constant' instead of 'zeros', with the "
            "fill value 0, or only one of them together with other boundaries"
        )
    return names


def has_missing(padding_mode: Any) -> bool:
    """Whether the boundary of some axis is `MISSING`."""
    if isinstance(padding_mode, str):
        return padding_mode == MISSING
    return isinstance(padding_mode, (tuple, list)) and MISSING in padding_mode


def without_missing(padding_mode: Any, substitute: str) -> Any:
    """Return the boundaries with another name in place of `MISSING`."""
    if not has_missing(padding_mode):
        return padding_mode
    if isinstance(padding_mode, str):
        return substitute
    return tuple([substitute if name == MISSING else name for name in padding_mode])
