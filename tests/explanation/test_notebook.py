"""Explanations in notebooks: well-formed, escaped, and with the numbers of the explanation."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

from gridsample import explain

CASES: dict[str, dict[str, Any]] = {
    "2-D": {"size": (4, 4), "at": (-1.65, 1.35), "padding_mode": "reflection"},
    "1-D": {"size": (63,), "at": (0.3,), "mode": "lanczos3"},
    "3-D": {"size": (5, 6, 7), "at": (0.1, 0.2, 0.3), "mode": "bicubic"},
    "dropped taps": {"size": (4, 1), "at": (-1.2, 0.3), "mode": "bicubic"},
    "far away": {"size": (5, 5), "at": (1e9, -3), "padding_mode": "border"},
    "nowhere": {"size": (5, 5), "at": (np.nan, 0)},
    "outside": {"size": (5, 5), "at": (3, 0), "extrapolate": False},
    "a spline": {"size": (5,), "at": (0,), "mode": "spline3", "image": [0, 0, 1, 0, 0]},
    "labels": {"size": (2, 2), "at": (0.1, 0), "mode": "label", "image": [[1, 2], [3, 4]]},
}


@pytest.mark.parametrize("name", CASES)
def test_html_is_well_formed(name: str) -> None:
    explanation = explain(**CASES[name])
    tree = ET.fromstring(explanation._repr_html_())
    tables = tree.findall("table")
    assert len(tables[0].findall("tbody/tr")) == len(explanation.axes)
    assert (tree.find("{http://www.w3.org/2000/svg}svg") is not None) == (
        bool(explanation.taps) and len(explanation.axes) < 3
    )
    shown = min(len(explanation.taps), 32)
    assert len(tables) == 1 + bool(explanation.taps)
    if explanation.taps:
        assert len(tables[1].findall("tbody/tr")) == shown
    assert tree.findtext("details/pre") == str(explanation)


def test_html_contains_the_values_of_the_explanation() -> None:
    explanation = explain(**CASES["2-D"])
    tree = ET.fromstring(explanation._repr_html_())
    rows = tree.findall("table")[1].findall("tbody/tr")
    result = sorted(float(row.findall("td")[1].text or "") for row in rows)
    assert result == pytest.approx(sorted(tap.weight for tap in explanation.taps), abs=1e-5)
    adds = sum(float(row.findall("td")[3].text or "") for row in rows)
    assert adds == pytest.approx(explanation.value, abs=1e-4)
    svg = tree.find("{http://www.w3.org/2000/svg}svg")
    assert svg is not None
    discs = svg.findall("{http://www.w3.org/2000/svg}circle")
    assert len(discs) == len(explanation.taps) + 1
