"""Random calls in chunks are those in memory, however each of their arguments is divided."""

from __future__ import annotations

import dask
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_calls import KINDS, Arrays, Recipe, difference
from strategies import examples

CALLS = 4  # with the same options


@pytest.mark.parametrize("kind", sorted({*KINDS}, key=lambda kind: kind.__name__))
@pytest.mark.filterwarnings("ignore")
def test_any_call_in_chunks_is_that_in_memory(kind: object) -> None:
    @settings(max_examples=examples(12))
    @given(kind(), st.integers(0, 2**32 - 1))  # type: ignore[operator]
    def check(recipe: Recipe, seed: int) -> None:
        for k in range(CALLS):
            comparison = recipe(Arrays(seed + k))
            with dask.config.set(scheduler="synchronous"):
                text = difference(comparison)
            assert text is None, f"{comparison.description}: {text}"

    check()
