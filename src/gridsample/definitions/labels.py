"""What ``mode="label"`` accepts: images of labels, and functions that do not sum their pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gridsample.definitions.cells import AxisMethod
from gridsample.definitions.methods import METHODS, Method
from gridsample.messages.links import about


def check_labels(
    methods: Sequence[AxisMethod], dtype: Any, is_integer: bool, odd: Sequence[str] = ()
) -> bool:
    """Return whether the taps of some axis vote, or raise an error if they cannot.

    Args:
        methods: the methods of all axes.
        dtype: the dtype of the image, for the message.
        is_integer: whether that is bool or an integer dtype.
        odd: the names of boundaries that change signs.

    Raises:
        TypeError: the image does not consist of integers.
        ValueError: the method of some axis blends pixels, or a boundary changes their signs.
    """
    tabled = [method for method in methods if isinstance(method, Method)]  # others are none
    if not any([method.votes for method in tabled]):
        return False
    if not is_integer:
        raise TypeError(
            f"mode 'label' is for labels, of bool or any integer dtype, and input has dtype "
            f"{dtype}; convert labels to an integer dtype, or use 'nearest' or 'bilinear'"
            f"{about('label')}"
        )
    copying = [
        (method.taps == 1 and method.normalized) or method.name == "nearest-exact"
        for method in tabled
    ]
    if not all([method.votes or copy for method, copy in zip(tabled, copying, strict=True)]):
        names = tuple([method.name for method in tabled])
        raise ValueError(
            f"mode {names!r} mixes 'label' with a method that blends pixels, but labels cannot be "
            "blended; accepted together with 'label': 'nearest'"
        )
    if odd:
        raise ValueError(
            f"padding_mode {odd[0]!r} changes the sign of pixels, but labels have no sign; "
            "accepted with mode 'label': every other padding_mode"
        )
    return True


def check_label_fill(numbers: Sequence[Any], dtype: Any) -> None:
    """Raise a ValueError unless all numbers are labels that an integer dtype can hold.

    dtype: the image's, of NumPy or torch; one that is not an integer is reported elsewhere.
    """
    name = getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]
    if not name.startswith(("bool", "int", "uint")):
        return
    low, high = (0, 1) if name == "bool" else (np.iinfo(name).min, np.iinfo(name).max)
    # A comparison with NaN is False.
    wrong = [number for number in numbers if not (low <= number <= high and number == int(number))]
    if wrong:
        raise ValueError(
            f"fill_value {wrong[0]!r} is not a label that {name} can hold; accepted with mode "
            f"'label': integers from {low} to {high}"
        )


def has_labels(mode: Any) -> bool:
    """Whether a mode, as callers give it, is "label" along some axis."""
    modes = mode if isinstance(mode, (tuple, list)) else (mode,)
    named = [METHODS.get(name) if isinstance(name, str) else name for name in modes]
    return any([isinstance(method, Method) and method.votes for method in named])


def refuse_labels(mode: Any, remark: str) -> None:
    """Raise an error with a remark if a mode is "label" along some axis."""
    if has_labels(mode):
        raise ValueError(f"mode {mode!r}: {remark}")


def without_labels(mode: Sequence[str | Method], substitute: str) -> tuple[str | Method, ...]:
    """Return a mode with another method along the axes of which it is "label"."""
    return tuple([substitute if has_labels(name) else name for name in mode])
