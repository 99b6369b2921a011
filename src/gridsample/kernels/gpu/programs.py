"""The programs of fused operators by name: see `gridsample.kernels.gpu.operators`."""

from __future__ import annotations

import importlib
from typing import Any

# The operators that have programs.
NAMES = ("weighted_sum", "correlation_lookup", "splat_maximum", "splat_total", "softmax_splat")


def programs_of(name: str) -> Any:
    """Return the module of an operator's programs, which itself launches what `build` lowers."""
    return importlib.import_module(f"gridsample.kernels.gpu.operators.{name}")
