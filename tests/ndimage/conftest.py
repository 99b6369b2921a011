"""Fixtures of the tests of `gridsample.ndimage`."""

from __future__ import annotations

from typing import Any

import pytest

from gridsample.ndimage import axes


@pytest.fixture(params=[True, False], ids=["at once", "one by one"])
def both_ways(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample all axes of an array at once, whatever its size, and one axis after the other."""
    if request.param:
        monkeypatch.setattr(axes, "FEW_TAPS", 1 << 60)
    else:
        monkeypatch.setattr(axes, "pays_at_once", lambda *_: False)
