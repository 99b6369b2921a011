"""The result of a registration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridsample.definitions.methods import Padding
from gridsample.ops.sampling import grid_sample
from gridsample.registration.verdict import Verdict


class RegistrationWarning(UserWarning):
    """A registration failed: the images do not agree at the transform that was found.

    Example:
        Make failures errors:

        >>> import warnings
        >>> from gridsample.registration import RegistrationWarning
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", RegistrationWarning)
        ...     # gridsample.register(fixed, moving)
    """


@dataclass(frozen=True)
class Stage:
    """The losses of one level of the pyramid.

    Attributes:
        item: the index of the pair of images.
        model: the model that was optimized.
        size: the spatial shape of the fixed image at this level.
        losses: the loss, with the regularization, before the first and after each step.
    """

    item: int
    model: str
    size: tuple[int, ...]
    losses: tuple[float, ...]


@dataclass(frozen=True, repr=False)
class Registration:
    """A transform from the pixels of the fixed image to those of the moving image.

    Arrays are NumPy arrays or tensors, as the images were.  Tensors are on the device of the
    images, and have no derivatives.

    Attributes:
        model: the name of the model.
        matrix: (N, D + 1, D + 1) float64, from fixed to moving pixels, x first.  `homography_grid`
            and `theta_from_matrix` take it with convention="pixel", OpenCV with
            cv2.WARP_INVERSE_MAP.  None for "displacement" and "velocity".
        theta: (N, D, D + 1) float64, the same map in normalized coordinates with
            align_corners=False, as `affine_grid` and `affine_sample` take it.  None for
            "homography", "displacement" and "velocity".
        field: (N, *spatial, D) float32: the displacement of every fixed pixel, in pixels, x first.
            `flow_warp` takes it, and `grid_sample` with coords="displacement".
        grid: (N, *spatial, D) float32: the same positions in normalized coordinates with
            align_corners=False, as `grid_sample` takes them by default.
        velocity: (N, *spatial, D) float32, for "velocity": the field v in pixels for which the
            transform is x -> start @ (x + exp(v)(x)).  Else None.
        start: (N, D + 1, D + 1) float64: the matrix, in pixels, from which the last model started.
            Fields u are found after it: x -> start @ (x + u(x)).
        warped: the moving image on the grid of the fixed one, in the dtype of the moving image and
            the layout of the images; 0 outside.
        history: the losses of all levels.
        verdicts: for each pair of images, whether they agree at the transform, and why.
    """

    model: str
    matrix: Any
    theta: Any
    field: Any
    grid: Any
    velocity: Any
    start: Any
    warped: Any
    history: tuple[Stage, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def success(self) -> bool:
        """Whether all pairs of images agree at the transform that was found."""
        return all(verdict.success for verdict in self.verdicts)

    @property
    def reason(self) -> str:
        """The reason of the verdict, of the first pair that failed if there is one."""
        for item, verdict in enumerate(self.verdicts):
            if not verdict.success:
                pair = f"pair {item}: " if len(self.verdicts) > 1 else ""
                return pair + verdict.reason
        return self.verdicts[0].reason

    @property
    def relation(self) -> float:
        """How well the images agree, 0 to 1, whatever the loss; the smallest of all pairs.

        It is the share of the fixed image's variance in windows of 9 pixels that a linear function
        of the warped image explains, beyond what the warped image explains when it is displaced, at
        the level of the pyramid where that is largest.
        """
        return min(verdict.relation for verdict in self.verdicts)

    @property
    def overlap(self) -> float:
        """The share of valid fixed pixels on valid moving ones; the smallest of all pairs."""
        return min(verdict.overlap for verdict in self.verdicts)

    @property
    def converged(self) -> bool:
        """Whether the last steps of all pairs became smaller than the tolerance."""
        return all(verdict.converged for verdict in self.verdicts)

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        lengths = (self.field**2).sum(-1) ** 0.5
        pairs = f" of {len(self.verdicts)} pairs" if len(self.verdicts) > 1 else ""
        outcome = "success" if self.success else "FAILURE"
        return (
            f"Registration ({self.model}){pairs}: {outcome}: {self.reason}; loss {self.loss:.6g}, "
            f"pixels move by {float(lengths.mean()):.4g} on average and up to "
            f"{float(lengths.max()):.4g}"
        )

    @property
    def loss(self) -> float:
        """The last loss, averaged over the pairs of images."""
        last = {stage.item: stage.losses[-1] for stage in self.history}
        return sum(last.values()) / len(last)

    def warp(
        self,
        image: Any,
        mode: Any = "bilinear",
        padding_mode: Padding = "zeros",
        *,
        channel_axis: int = 1,
        **options: Any,
    ) -> Any:
        """Warp another image that has the pixels of the moving one, such as its labels.

        Args:
            image: (N, C, *spatial), or (*spatial) without these axes.
            mode: the interpolation method, as in `grid_sample`; "label" for segmentations.
            padding_mode, channel_axis: as in `grid_sample`.
            **options: the other options of `grid_sample`.

        Returns:
            The image on the grid of the fixed image, in its own dtype and layout.

        Raises:
            TypeError: an argument is not accepted by `grid_sample`.
            ValueError: an argument is not accepted by `grid_sample`.

        Example:
            >>> import numpy as np
            >>> from gridsample import register
            >>> x, y = np.meshgrid(np.arange(24.0), np.arange(24.0))
            >>> fixed, moving = (np.exp(-((x - c) ** 2 + (y - 11) ** 2) / 20) for c in (9, 13))
            >>> result = register(fixed, moving, "translation")
            >>> labels = (moving > 0.5).astype(np.uint8)
            >>> bool((result.warp(labels, "label") == (fixed > 0.5)).all())
            True
        """
        is_unbatched = len(image.shape) == self.grid.shape[-1]
        batch = image[None, None] if is_unbatched else image
        axis = 1 if is_unbatched else channel_axis
        warped = grid_sample(batch, self.grid, mode, padding_mode, channel_axis=axis, **options)
        return warped[0, 0] if is_unbatched else warped

    def save(self, path: str | Path, *, affine: Any = None, overwrite: bool = False) -> None:
        """Write the transform to a file, which `load_transform` reads.

        A matrix is written as `.npy` or `.txt` (or `.csv`): it maps *moving* to *fixed* pixels, as
        `gridsample warp --homography`, `cv2.warpPerspective` and `homography_grid` take it by
        default.  It is the inverse of `matrix`.

        A field is written in the formats of `gridsample.io.fields`: `.npy`, `.flo`, `.pfm`, `.png`
        (KITTI), `.nii` and `.nii.gz`; `gridsample flow --warp` takes it.  It maps fixed to moving
        pixels, like `field`.  For `.flo` and the other formats of fields, a matrix is written as
        its field.

        Args:
            path: the file to write; its extension determines the format.
            affine: (4, 4), from fixed voxels to millimetres, for NIfTI files.
            overwrite: whether an existing file may be replaced.

        Raises:
            ValueError: the format cannot hold the transform, the result has N > 1, or the file
                exists.
            OSError: the folder is not writable.
        """
        from gridsample.registration.files import save_transform

        save_transform(Path(path), self.matrix, self.field, affine, overwrite)
