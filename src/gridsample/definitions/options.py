"""How to sample, as the caller says it: the options that travel from the api to a binding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from gridsample.definitions.plan import Mode

Record = TypeVar("Record", bound=tuple[Any, ...])


class Options(NamedTuple):
    """The options that `gridsample.grid_sample` and its kin share, as they were given, unchecked.

    What they mean stands in the docstring of `gridsample.grid_sample`.
    """

    mode: Mode = "bilinear"
    padding_mode: Mode = "zeros"
    align_corners: bool = False
    coords: str = "normalized"
    fill_value: Any = 0
    extrapolate: bool = True
    prefilter: bool = True
    channel_axis: int = 1
    threads: int | None = None


def changed(record: Record, **fields: Any) -> Record:
    """A named tuple with other values in some fields.

    Before torch 2.9, `torch.compile` cannot follow a named tuple's own `_replace`.
    """
    kind: Any = type(record)
    return kind(*[fields.get(k, one) for k, one in zip(kind._fields, record, strict=True)])  # type: ignore[no-any-return]


def check_fill(
    options: Options, kind: str, shape: Sequence[int], used: bool, dtype: Any, channels: int,
    filled: bool,
) -> None:  # fmt: skip
    """Refuse a fill value that does not go with an image, or that nothing uses.

    Args:
        options: with the value as it was given.
        kind: of its numbers, as NumPy writes it.
        shape: what it has.
        used: whether it is other than 0.
        dtype: the image's, for a message; of a complex one the name says so.
        channels: the image's.
        filled: whether some boundary is filled.

    Raises:
        TypeError: it is not made of numbers, or is complex and the image is not.
        ValueError: its shape is another, or nothing uses it.
    """
    if kind not in "biufc" or (kind == "c" and "complex" not in str(dtype)):
        raise TypeError(
            f"fill_value must be a real number, or one per channel, or complex for a complex "
            f"input; got {options.fill_value!r} for an input of dtype {dtype}"
        )
    if len(shape) > 1 or (len(shape) == 1 and shape[0] != channels):
        raise ValueError(
            f"fill_value must be a number or one for each of the {channels} channels, "
            f"got shape {tuple(shape)}"
        )
    if used and not filled and options.extrapolate:
        raise ValueError(
            f"fill_value {options.fill_value!r} is used by nothing here; accepted with "
            f"padding_mode 'constant' or extrapolate=False, got padding_mode "
            f"{options.padding_mode!r}"
        )
