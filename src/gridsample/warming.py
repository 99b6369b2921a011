"""`warmup`, which compiled kernels ahead of time while that took seconds."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple


class Warmed(NamedTuple):
    """The result of `warmup`.

    Attributes:
        folder: None, because kernels are not stored on disk.
        compiled: 0, the number of kernels compiled.
        seconds: 0.0, the elapsed time.
    """

    folder: Path | None
    compiled: int
    seconds: float


def warmup(*arguments: Any, **options: Any) -> Warmed:
    """Do nothing: a kernel compiles in milliseconds when a call first needs it.

    The function stays for one release, so that programs that call it still run.

    Args:
        arguments: ignored.
        options: ignored.

    Returns:
        A record that says that nothing was compiled.

    Warns:
        DeprecationWarning: always.

    Example:
        >>> import warnings
        >>> import gridsample
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", DeprecationWarning)
        ...     gridsample.warmup("float32", 2, "bilinear").compiled
        0
    """
    warnings.warn(
        "gridsample.warmup does nothing: kernels compile in milliseconds; it will be removed",
        DeprecationWarning,
        stacklevel=2,
    )
    return Warmed(None, 0, 0.0)
