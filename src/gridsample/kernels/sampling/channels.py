"""Which calls process the channels of a pixel together: see `runs`."""

from __future__ import annotations

from gridsample.kernels.memory import Layout, is_plain


def channels_together(*layouts: Layout) -> int:
    """Return the number of channels of a pixel that are processed together, or 1.

    These are all channels if they are neighbours in the memory of all arrays.  The parts of a
    complex number are two channels, and always neighbours.  Numbers that are not native are read
    one by one.
    """
    shape, strides, dtype = layouts[0]
    if not is_plain(strides, dtype):
        return 1
    parts = 2 if dtype.kind == "c" else 1
    neighbours = all(shape[1] == 1 or strides[1] == dtype.itemsize for _, strides, dtype in layouts)
    return shape[1] * parts if neighbours else parts


def shares_weights(weights: Layout) -> bool:
    """Whether all channels share the weights of pixels (N or 1, C, *spatial)."""
    shape, strides, _ = weights
    return shape[1] == 1 or strides[1] == 0


def channels_with_weights(weights: Layout | None, *layouts: Layout) -> int:
    """Return the same as `channels_together` for pixels that may have weights.

    Channels that do not share weights need weights that are neighbours, too.
    """
    channels = channels_together(*layouts)
    if weights is None:
        return channels
    if not is_plain(*weights[1:]):
        return 1
    if shares_weights(weights):
        return channels
    complex_ = layouts[0][2].kind == "c"
    beside = not complex_ and weights[1][1] == weights[2].itemsize
    return channels if beside else 2 if complex_ else 1


def block_of(channels: int, lanes: int) -> int:
    """Return how many channels are read at a time, given the lanes of a register."""
    if channels < lanes:
        return channels
    return next(n * lanes for n in (4, 2, 1) if channels % (n * lanes) == 0 or n == 1)
