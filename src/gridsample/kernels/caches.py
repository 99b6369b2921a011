"""The caches of a processor, as calls are divided for them."""

from __future__ import annotations

from typing import NamedTuple


class Caches(NamedTuple):
    """Sizes in bytes.

    They are assumed, and not asked for: a call is divided in the same way on every processor.

    Attributes:
        line: what is read from memory together.
        page: lines that are so far apart, or a multiple of it, displace each other.
        near: what is read again after a few instructions: a cache of the first level.
        own: what is read again within a task: a core's cache of the second level.
    """

    line: int = 64
    page: int = 4096
    near: int = 1 << 16
    own: int = 1 << 20


CACHES = Caches()


def whole_lines(size: int) -> int:
    """Round a number of bytes up to whole lines."""
    return -(-size // CACHES.line) * CACHES.line
