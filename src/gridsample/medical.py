"""Resampling volumes to another spacing, by the rules of nnU-Net.

    medical.resample(volume, spacing=(3.0, 0.8, 0.8), new_spacing=(1.0, 0.7, 0.7))

Spacings are in the order of the array's axes, and channels come first.
`resample_data_or_seg_to_shape` has the signature of nnU-Net's function of that name, so it can
replace that function.  `gridsample.help("medical")` compares the two.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gridsample.backends import backend_of
from gridsample.definitions.shapes import bands_along
from gridsample.definitions.zooming import Zoom, inputs_of, nearest_inputs
from gridsample.ops.zooming import zoom_axes, zooms_of
from gridsample.skimage.images import as_image, clip_range, copy_image, type_of

Array = Any

__all__ = ["resample", "resample_data_or_seg_to_shape"]

# The ratio of spacings above which a volume is anisotropic, and the fewest bytes of a band.
ANISOTROPY = 3
MIN_BAND_BYTES = 1 << 20
# Shares of labels that differ by no more are equal: sums in single precision are that exact.
TIE = 1e-5
# Integers up to which labels are counted in a table.
MAX_TABLE_ENTRIES = 1 << 16


def resample(
    data: Any,
    spacing: Sequence[float],
    new_spacing: Sequence[float],
    is_label: bool = False,
    order: int = 3,
    separate_axis: int | str | None = "auto",
    order_separate: int = 0,
) -> Any:
    """Resample a volume to another spacing.

    The result has ``round(n * spacing / new_spacing)`` voxels along an axis of n voxels, and covers
    the same extent.  Images are interpolated by a spline through the voxels and clipped to the
    range of the input, channel by channel.  Outside, the edge voxels are repeated.  Anisotropic
    volumes are interpolated slice by slice, and then along the remaining axis.

    A label map gets, at each voxel, the label with the largest share: each label's mask is resized
    like an image, and the smaller label wins a tie.

    Args:
        data: (*spatial) or (C, *spatial) with one spatial axis per spacing; an array or a tensor of
            any real dtype.
        spacing: the distance between voxels along each axis.
        new_spacing: the distance between voxels of the result along each axis.
        is_label: whether the voxels are labels, which are not averaged.
        order: the order of the spline, 0 (nearest) to 5.
        separate_axis: the spatial axis that is interpolated separately; None for none.  "auto": the
            axis with the largest spacing, if that is more than three times the smallest, in
            ``spacing`` or else in ``new_spacing``, and no other axis has the same spacing.
        order_separate: the order along that axis.

    Returns:
        The resampled volume, with the input's dtype; integers are rounded half to even.  For
        tensors, the result is differentiable with respect to the image.

    Raises:
        TypeError: the dtype is complex.
        ValueError: the spacings do not match the volume, or an order or an axis is not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample import medical
        >>> medical.resample(np.array([0.0, 4.0]), [2.0], [1.0], order=1)
        array([0., 1., 3., 4.])
        >>> medical.resample(np.array([2, 7, 7]), [2.0], [1.0], is_label=True, order=1)
        array([2, 2, 7, 7, 7, 7])
    """
    array, before, after = as_image(data), check_spacing(spacing), check_spacing(new_spacing)
    rank = len(before)
    if len(after) != rank or array.ndim not in (rank, rank + 1):
        raise ValueError(
            "spacing and new_spacing need one number for each spatial axis of data, (*spatial) or "
            f"(C, *spatial); got {spacing!r} and {new_spacing!r} for shape {tuple(array.shape)}"
        )
    volume = array[None] if array.ndim == rank else array
    axes = zip(volume.shape[1:], before, after, strict=True)
    shape = [max(1, round(old / new * n)) for n, old, new in axes]
    if separate_axis == "auto":
        axis = anisotropic_axis(before, after, ANISOTROPY)
    else:
        axis = None if separate_axis is None else check_axis(separate_axis, rank)
    orders = check_order(order, "order"), check_order(order_separate, "order_separate")
    result = resampled(volume, shape, is_label, axis, *orders, (largest_share,) * 2)
    return backend_of(data=data).restore(result[0] if array.ndim == rank else result, data)


def resample_data_or_seg_to_shape(
    data: Any,
    new_shape: Sequence[int],
    current_spacing: Sequence[float],
    new_spacing: Sequence[float],
    is_seg: bool = False,
    order: int = 3,
    order_z: int = 0,
    force_separate_z: bool | None = False,
    separate_z_anisotropy_threshold: float = 3,
) -> Any:
    """Resample a volume to a shape, like nnU-Net's function of this name.

    Images are resampled as by `resample`.  For an anisotropic volume, each slice is clipped to its
    own range, as in nnU-Net.  In label maps, each label's mask is resized like an image.  A voxel
    gets the largest label whose mask is at least 1/2 there, or 0 if there is none.  Along the axis
    that is interpolated separately, the mask must be more than 1/2.  This is the rule of
    batchgenerators up to version 0.25.1.

    Args:
        data: (C, x, y, z), an array or a tensor of any real dtype.
        new_shape: the shape of the result without channels.
        current_spacing: the distance between voxels along each axis.
        new_spacing: the distance between voxels of the result along each axis.
        is_seg: whether the voxels are labels.
        order: the order of the spline, 0 to 5.
        order_z: the order along the axis that is interpolated separately.
        force_separate_z: whether the axis with the largest current spacing is interpolated
            separately; None to do so if the volume is anisotropic.
        separate_z_anisotropy_threshold: how many times the smallest spacing the largest has to
            exceed in an anisotropic volume, before or after.

    Returns:
        (C, *new_shape), with the input's dtype and library; the input itself if nothing changes.

    Raises:
        TypeError: the dtype is complex.
        ValueError: shapes, spacings or orders are not accepted.

    Example:
        >>> import numpy as np
        >>> from gridsample import medical
        >>> volume = np.ones((1, 4, 8, 8), np.float32)
        >>> medical.resample_data_or_seg_to_shape(
        ...     volume, (8, 6, 6), (5, 1, 1), (2.5, 1.3, 1.3), force_separate_z=None
        ... ).shape
        (1, 8, 6, 6)
    """
    volume = as_image(data)
    shape = [operator.index(n) for n in new_shape]
    spacings = check_spacing(current_spacing), check_spacing(new_spacing)
    if volume.ndim != 4 or any(len(numbers) != 3 for numbers in (shape, *spacings)):
        raise ValueError(
            "data must be (C, x, y, z), and new_shape, current_spacing and new_spacing must have "
            f"three numbers each, got shape {tuple(volume.shape)}, {new_shape!r}, "
            f"{current_spacing!r} and {new_spacing!r}"
        )
    if force_separate_z is None:
        axis = anisotropic_axis(*spacings, separate_z_anisotropy_threshold)
    else:
        axis = coarsest_axis(spacings[0]) if force_separate_z else None
    orders = check_order(order, "order"), check_order(order_z, "order_z")
    if tuple(shape) == tuple(volume.shape[1:]):
        return data
    rules = at_least_half, more_than_half
    result = resampled(volume, shape, is_seg, axis, *orders, rules)
    return backend_of(data=data).restore(result, data)


# What the arguments mean --------------------------------------------------------------------------


def check_spacing(value: Any) -> list[float]:
    """Return spacings as numbers.

    Raises:
        ValueError: they are not positive.
    """
    spacing: list[float] = np.asarray(value, float).reshape(-1).tolist()
    if not spacing or not all(0 < n < np.inf for n in spacing):
        raise ValueError(f"a spacing must consist of positive numbers, got {value!r}")
    return spacing


def check_order(order: Any, name: str) -> int:
    """Return the order of a spline, 0 to 5."""
    if not 0 <= order <= 5:
        raise ValueError(f"{name} must be 0 to 5, got {order!r}")
    return operator.index(order)


def check_axis(axis: Any, rank: int) -> int:
    """Return a spatial axis as a number from 0 on."""
    if isinstance(axis, str) or not -rank <= operator.index(axis) < rank:
        raise ValueError(
            f"separate_axis must be 'auto', None or one of {rank} spatial axes, got {axis!r}"
        )
    return operator.index(axis) % rank


def coarsest_axis(spacing: Sequence[float]) -> int | None:
    """The axis with the largest spacing; None if several have it."""
    largest = [axis for axis, n in enumerate(spacing) if n == max(spacing)]
    return largest[0] if len(largest) == 1 else None


def anisotropic_axis(
    spacing: Sequence[float], new_spacing: Sequence[float], threshold: float
) -> int | None:
    """The axis that is interpolated separately; see `resample`."""
    for numbers in (spacing, new_spacing):
        if max(numbers) / min(numbers) > threshold:
            return coarsest_axis(numbers)
    return None


# Resampling (C, *spatial) -------------------------------------------------------------------------

# Decides which label each voxel gets: given the output, the labels in ascending order, and a
# function that computes the share of a label.
Rule = Callable[[Any, Any, Callable[[Any], Any]], None]


def resampled(
    volume: Array,
    shape: Sequence[int],
    is_label: bool,
    axis: int | None,
    order: int,
    slice_order: int,
    rules: tuple[Rule, Rule],
) -> Array:
    """Resample (C, *spatial) to (C, *shape); ``axis`` is that of slices, or None.

    ``rules`` are those of label maps, for the axes of slices and for that axis.
    """
    backend, name = backend_of(volume=volume), type_of(volume)
    if name.startswith("complex"):
        raise TypeError(f"data must be real, got dtype {name}")
    if 0 in volume.shape or min(shape) < 1:
        raise ValueError(
            f"data and result must have at least one voxel along each axis, got the shapes "
            f"{tuple(volume.shape)} and {tuple(shape)}"
        )
    if tuple(shape) == tuple(volume.shape[1:]):
        return copy_image(volume)
    memory = volume if backend.is_host else as_memory(volume, is_label)
    if memory is None:
        return resample_image(volume, shape, axis, order, slice_order)
    if not is_label and axis is None:
        result = resample_image(memory, shape, axis, order, slice_order)
    else:
        result = np.empty((len(memory), *shape), memory.dtype)
        for channel, out in zip(memory, result, strict=True):
            if axis is None:
                zooms = zooms_of(channel.shape, shape, order, "border", None, "float32")
                relabel(channel, out, zooms, rules[0])
                continue
            slices, target = np.moveaxis(channel, axis, 0), np.moveaxis(out, axis, 0)
            resize = relabel_slices if is_label else resize_slices
            by_slices(slices, target, order, slice_order, resize, rules)
    if backend.is_host:
        return result
    return backend.astype(backend.asarray(result, volume), volume.dtype)


def as_memory(volume: Array, is_label: bool) -> Any:
    """A tensor as a NumPy array, which can be worked on in parts; None if it has to stay one."""
    if not is_label and (volume.requires_grad or volume.device.type != "cpu"):
        return None
    if type_of(volume) == "bfloat16":
        return np.asarray(volume.detach().float().cpu()) if is_label else None
    return np.asarray(volume.detach().cpu())


def zooms_for(image: Array, size: Sequence[int], order: int) -> list[Zoom]:
    """Describe how an image is resized: beyond it, its edge continues."""
    wide = type_of(image) in ("float64", "int32", "int64", "uint32", "uint64")
    dtype = "float64" if wide else "float32"
    return zooms_of(image.shape, size, order, "border", None, dtype)


def resample_image(
    volume: Array, shape: Sequence[int], axis: int | None, order: int, slice_order: int
) -> Array:
    """Interpolate (C, *spatial) in one piece, and clip it by channel, or by slice."""
    items, size = volume.shape[0], tuple(shape)
    if axis is None:
        resized = zoom_axes(volume, zooms_for(volume, (items, *size), order))
        return clip_items(volume, resized, order)
    backend, rank = backend_of(volume=volume), volume.ndim
    to = [0, axis + 1, *[k for k in range(1, rank) if k != axis + 1]]
    slices = backend.permute(volume, to)
    slices = slices.reshape((-1, *slices.shape[2:]))
    target = [n for k, n in enumerate(size) if k != axis]
    slices = resize_slices(slices, target, order).reshape((items, volume.shape[axis + 1], *target))
    size = (items, size[axis], *target)
    resized = zoom_axes(slices, zooms_for(slices, size, slice_order))
    return backend.permute(resized, sorted(range(rank), key=to.__getitem__))


def clip_items(image: Array, result: Array, order: int) -> Array:
    """Clip each entry of a result to the range of that entry of the image."""
    if order == 0 or result is image:
        return result  # every voxel is one of the image's
    backend = backend_of(image=image)
    pairs = zip(image, result, strict=True)
    clipped = [clip_range(source, values, "edge", 0.0) for source, values in pairs]
    return result if backend.is_host else backend.xp.stack(clipped)


def resize_slices(slices: Array, size: Sequence[int], order: int, rule: Any = None) -> Array:
    """Resize each of some slices (n, *spatial), and clip it to its own range."""
    resized = zoom_axes(slices, zooms_for(slices, (slices.shape[0], *size), order))
    return clip_items(slices, resized, order)


# The axis of slices, a few of them at a time ------------------------------------------------------


def bands(out: Array, bytes_each: int) -> Iterator[slice]:
    """Parts of the first axis of an output that need little memory beside it."""
    return bands_along(out.shape, max(MIN_BAND_BYTES, out.nbytes // 48) // bytes_each)


def by_slices(
    slices: Array,
    out: Array,
    order: int,
    slice_order: int,
    resize: Callable[..., Array],
    rules: tuple[Rule, Rule],
) -> None:
    """Resize slices (n, *spatial) by a function, and then their axis."""
    (slice_zoom,) = zooms_of(
        slices.shape[:1], out.shape[:1], slice_order, "border", None, "float32"
    )
    size = out.shape[1:]
    if slice_zoom.is_identity:
        slice_zoom = slice_zoom._replace(order=0)
    for rows in bands(out, out.itemsize):
        if slice_zoom.order == 0:
            used, index = np.unique(nearest_inputs(slice_zoom)[rows], return_inverse=True)
            out[rows] = resize(slices[used], size, order, rules[0])[index]
            continue
        used_slices = resize(slices[inputs_of(slice_zoom, rows)], size, order, rules[0])
        zooms = [slice_zoom, *zooms_of(size, size, slice_order, "border")]
        if resize is relabel_slices:
            relabel_part(used_slices, out[rows], zooms, rows, rules[1])
        else:
            out[rows] = zoom_axes(used_slices, zooms, rows=rows)


def relabel_slices(slices: Any, size: Sequence[int], order: int, rule: Rule) -> Any:
    """Resize slices (n, *spatial) of a label map."""
    out = np.empty((len(slices), *size), slices.dtype)
    relabel(slices, out, zooms_of(slices.shape, out.shape, order, "border", None, "float32"), rule)
    return out


# Labels -------------------------------------------------------------------------------------------


def relabel(labels: Any, out: Any, zooms: Sequence[Zoom], rule: Rule) -> None:
    """Resize a label map, a band at a time."""
    if zooms[-1].order == 0:
        out[...] = zoom_axes(labels, zooms)
        return
    for rows in bands(out, 16):  # a share, its best, and two masks
        relabel_part(labels[inputs_of(zooms[0], rows)], out[rows], zooms, rows, rule)


def relabel_part(labels: Any, out: Any, zooms: Sequence[Zoom], rows: slice, rule: Rule) -> None:
    """Resize the part of a label map that some rows of the output need."""
    present = labels_of(labels)
    if len(present) == 1 or all(zoom.is_identity for zoom in zooms):
        out[...] = present[0] if len(present) == 1 else labels
        return

    def share(label: Any) -> Any:
        return zoom_axes((labels == label).astype(np.float32), zooms, rows=rows)

    rule(out, present, share)


def labels_of(labels: Any) -> Any:
    """The distinct labels, in ascending order."""
    if labels.dtype.kind in "iu":
        low, high = int(labels.min()), int(labels.max())
        if high - low < MAX_TABLE_ENTRIES:
            is_present = np.zeros(high - low + 1, bool)
            for row in labels:
                offsets = row.reshape(-1).astype(np.int64) - low
                is_present |= np.bincount(offsets, minlength=len(is_present)) > 0
            return (np.flatnonzero(is_present) + low).astype(labels.dtype)
    labels_by_row: list[Any] = [np.unique(row) for row in labels]
    return np.unique(np.concatenate(labels_by_row))


def largest_share(out: Any, present: Any, share: Callable[[Any], Any]) -> None:
    """Give each voxel the label with the largest share; the smaller one wins a tie."""
    best = share(present[0])
    out[...] = present[0]
    for label in present[1:]:
        own = share(label)
        np.copyto(out, label, where=own > best + np.float32(TIE))
        np.maximum(best, own, out=best)


def at_least_half(out: Any, present: Any, share: Callable[[Any], Any]) -> None:
    """Give each voxel the largest label with a share of at least 1/2, or 0."""
    out[...] = 0
    for label in present:
        np.copyto(out, label, where=share(label) >= np.float32(0.5 - TIE))


def more_than_half(out: Any, present: Any, share: Callable[[Any], Any]) -> None:
    """Give each voxel the largest label with a share above 1/2, or 0."""
    out[...] = 0
    for label in present:
        np.copyto(out, label, where=share(label) > np.float32(0.5 + TIE))
