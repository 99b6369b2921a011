"""Which calls process the channels of a pixel together: see `runs`."""

from __future__ import annotations

from gridsample.kernels.memory import Layout, is_plain


def channels_together(*layouts: Layout) -> int:
    """Return the number of channels of a pixel that are processed together, or 1.

    These are all channels, or parts of complex numbers, if they are neighbours in the memory of all
    arrays, which are native.
    """
    shape, strides, dtype = layouts[0]
    if not is_plain(strides, dtype):
        return 1
    channels = shape[1] * (2 if dtype.kind == "c" else 1)
    neighbours = all(shape[1] == 1 or strides[1] == dtype.itemsize for _, strides, dtype in layouts)
    return channels if neighbours else 1


def block_of(channels: int, lanes: int) -> int:
    """Return how many channels are read at a time, given the lanes of a register."""
    if channels < lanes:
        return channels
    return next(n * lanes for n in (4, 2, 1) if channels % (n * lanes) == 0 or n == 1)
