"""Copies of boxes from chunks, against slices of the whole array."""

from __future__ import annotations

import numpy as np
import pytest

from gridsample.chunked.overlaps import copy_chunks, ends_of, overlapping


@pytest.mark.parametrize("first_axis", [0, 1, 2])
def test_boxes_are_those_of_the_whole_array(first_axis: int) -> None:
    rng = np.random.default_rng(first_axis)
    sizes = [(3, 1, 5), (4, 4, 2, 1), (6,)][: 4 - first_axis]
    ends = [ends_of(line) for line in sizes]
    whole = rng.normal(size=(2,) * first_axis + tuple(line[-1] for line in ends)).astype("float32")
    before = (slice(None),) * first_axis
    reads = []

    def chunk(index: tuple[int, ...]) -> np.ndarray:
        reads.append(index)
        slices = [
            slice(line[k] - n[k], line[k]) for line, n, k in zip(ends, sizes, index, strict=True)
        ]
        return whole[(*before, *slices)]

    for _ in range(50):
        pairs = [np.sort(rng.integers(0, line[-1] + 1, 2)).tolist() for line in ends]
        box = [slice(*pair) for pair in pairs]
        out = np.full(whole[(*before, *box)].shape, np.nan)
        reads.clear()
        copy_chunks(chunk, box, ends, out, first_axis)
        np.testing.assert_array_equal(out, whole[(*before, *box)])
        assert len(reads) == len({*reads}), "a chunk is read once"


def test_equal_chunks_may_be_a_range() -> None:
    ends = range(4, 14, 4)  # of 10 pixels
    assert overlapping(0, 10, ends) == range(0, 3)
    assert overlapping(4, 8, ends) == range(1, 2)
    assert overlapping(8, 9, ends) == range(2, 3)
    assert not overlapping(5, 5, ends)


def test_masked_chunks_are_refused() -> None:
    with pytest.raises(TypeError, match="masked"):
        copy_chunks(lambda index: np.ma.ones(4), [slice(0, 2)], [(4,)], np.zeros(2))
