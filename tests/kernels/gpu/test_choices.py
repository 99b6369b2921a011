"""One description of an axis for GPU kernels."""

from __future__ import annotations

import numpy as np
import plans

from gridsample.kernels.gpu import choices
from gridsample.kernels.gpu.choices import Choices, describe


def test_constants_are_the_indices_of_fields() -> None:
    for place, name in enumerate(Choices._fields):
        assert getattr(choices, "COUNT" if name == "taps" else name.upper()) == place, name
    assert len(Choices._fields) == choices.TABLES


def test_absent_axes_are_described_like_any_other() -> None:
    dtype = np.dtype("float32")
    plan = plans.plan_for((1, 1, 1), dtype, (1, 1, 1), dtype, "nearest")
    # Its position is not computed: it is where its only pixel is.
    assert describe(plan, 0, 0)._replace(coords=choices.IN_PIXELS) == choices.ALONE
