"""One description of an axis, and one position, for every target."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gridsample.definitions import axis
from gridsample.definitions.plan import make_plan
from gridsample.kernels import axes
from gridsample.kernels.axes import Choices, Extent, Measures, describe
from gridsample.kernels.cpu.positions import (
    stretch,
)

# Constants whose names are not their fields'.
ELSEWHERE = {"taps": "COUNT", "from_": "FROM"}


def test_constants_are_the_places_of_fields() -> None:
    for fields in ((*Choices._fields, *Extent._fields), Measures._fields):
        for place, name in enumerate(fields):
            assert getattr(axes, ELSEWHERE.get(name, name.upper())) == place, name
    assert len(Choices._fields) == axes.TABLES
    assert len(Choices._fields) + len(Extent._fields) == axes.COLUMNS
    assert len(Measures._fields) == axes.MEASURES


def test_an_axis_that_an_image_has_not_is_described_as_any() -> None:
    kind = np.dtype("float32")
    plan = make_plan((1, 1, 1), kind, (1, 1, 1), kind, "nearest", "zeros", False, False)
    found = describe(plan, 0, 0).choices
    # Its position is not worked out: it is where its only pixel is.
    assert found._replace(coords=axes.IN_PIXELS) == axes.ALONE


@pytest.mark.parametrize(
    ("kind", "aligned"), [*itertools.product(("float32", "float64"), (False, True))]
)
def test_positions_round_alike_at_every_tie_of_every_size(kind: str, aligned: bool) -> None:
    """Where a position is halfway between pixels, or on one, its rounding decides the taps."""
    real = np.dtype(kind).type
    one, half = real(1), real(0.5)
    ties = np.arange(-1, 8202) / 2  # in pixels
    for size in range(1 + aligned, 4101):
        wide = ties[: 2 * size + 4]
        coordinates = (wide * 2 / (size - 1) - 1 if aligned else (wide * 2 + 1) / size - 1).astype(
            kind
        )
        measure = {
            axes.PLUS: one, axes.TIMES: real(size - aligned),
            axes.MINUS: real(not aligned), axes.BY: half,
        }  # fmt: skip
        found = stretch(coordinates, measure, 0)
        assert found.dtype == kind
        np.testing.assert_array_equal(found, axis.position(coordinates, real(size - 1), aligned))
