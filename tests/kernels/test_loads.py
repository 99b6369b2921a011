"""Reading pixels at offsets, with registers of every length."""

from __future__ import annotations

import numpy as np
import pytest
from vector_programs import run, same_bits

from gridsample.kernels.sampling.programs import loads
from gridsample.kernels.sampling.programs.states import Offsets
from gridsample.kernels.vector import Function, Record, compile, compiler


@pytest.mark.parametrize("gathers", [False, True])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("offset", ["int32", "int64"])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32", "float64"])
def test_pixels_and_pairs_at_offsets(
    kind: str, offset: str, lanes: int, gathers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler.Target, "gathers_fast", gathers)
    source = np.arange(100).astype(kind)
    places = np.random.default_rng(lanes).integers(0, 90, lanes).astype(offset)
    record = Record(source=f"*{kind}", offsets=f"*{offset}", target=f"*{kind}")
    function = Function("loads", lanes)
    call = function.arguments(record)
    offsets = call.offsets.load(0, lanes)
    fresh = Offsets(offsets)
    values = [
        value
        for each in (fresh, fresh.kept(), Offsets(offsets, function.spill(offsets)))
        for value in (
            loads.read_each(call.source, each),
            *loads.read_pairs(call.source, each),
            *loads.read_neighbours(call.source, each, function.constant(3, "int64")),
        )
    ]
    for k, value in enumerate(values):
        call.target.store(value, k * lanes)
    target = np.zeros(len(values) * lanes, kind)
    run(compile(function), record, source=source, offsets=places, target=target)
    same_bits(target, np.concatenate([source[places + step] for step in 3 * (0, 0, 1, 0, 3)]))
