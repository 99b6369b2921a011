"""The kernel that copies images between the two memory layouts: channels first and channels last.

As in `taps`, the functions are plain Python, lowered to Triton by `build`.
"""

from __future__ import annotations

from typing import Any

from gridsample.kernels.gpu.records import Static, Values
from gridsample.kernels.gpu.taps import tl


def transpose(
    source: Values, target: Values, channels: Any, pixels: Any, BLOCK: Static, DEPTH: Static
) -> None:
    """Copy (N, C, pixels) to other strides and another dtype.

    A program copies a tile of BLOCK pixels and DEPTH channels, which is read in the order of the
    source's memory, and written in that of the target's.
    """
    blocks = (pixels + BLOCK - 1) // BLOCK
    chunks = (channels + DEPTH - 1) // DEPTH
    number = tl.program_id(0)
    pixel = ((number % blocks) * BLOCK + tl.arange(0, BLOCK))[:, None]
    channel = (number // blocks % chunks * DEPTH + tl.arange(0, DEPTH))[None, :]
    item = (number // blocks // chunks).to(tl.int64)
    there = (pixel < pixels) & (channel < channels)
    start = source.memory + item * source.item
    tile = tl.load(
        start + channel.to(tl.int64) * source.channel + pixel.to(tl.int64) * source.point,
        mask=there,
    )
    end = target.memory + item * target.item
    tl.store(
        end + channel.to(tl.int64) * target.channel + pixel.to(tl.int64) * target.point,
        tile.to(target.memory.dtype.element_ty),
        mask=there,
    )
