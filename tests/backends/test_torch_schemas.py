"""Records become flat arguments of torch's operators, and are restored from them."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest
import torch

from gridsample.backends.torch import schemas
from gridsample.definitions.methods import AREA, LINEAR, METHODS, Method, keys
from gridsample.definitions.options import Options, Resizing
from gridsample.definitions.zooming import Zoom

OPERATORS = torch.ops.gridsample


@pytest.mark.parametrize("name", sorted(schemas.LEADING))
def test_record_fields_have_the_order_of_the_schema(name: str) -> None:
    arguments = [argument.name for argument in getattr(OPERATORS, name).default._schema.arguments]
    assert arguments[schemas.LEADING[name] :] == [*inspect.signature(schemas.options_of).parameters]


def test_resizing_fields_have_the_order_of_the_schema() -> None:
    arguments = [argument.name for argument in OPERATORS.resize.default._schema.arguments]
    assert arguments[1:] == [*inspect.signature(schemas.resizing_of).parameters]


def test_records_round_trip() -> None:
    options = Options(
        mode=(LINEAR, METHODS["spline3"]),
        padding_mode=("border", "wrap"),
        align_corners=True,
        coords="pixel",
        fill_value=(1.5, -2.0),
        ends=("edges", "edges"),
        threads=3,
        order=(1, 0),
    )
    assert schemas.options_of(*schemas.flat_options(options)) == options
    mixed = options.changed(ends=(True, "continue"))
    assert schemas.options_of(*schemas.flat_options(mixed)) == mixed
    zoom = Zoom(3, "border", 1.5, 17, 40, 25, 3, 7)
    methods, scales = (LINEAR, AREA, zoom), (0.5, 0.0, 0.0)
    resizing = Resizing((3, 4, 5), methods, True, True, scales, "torch", threads=2)
    assert schemas.resizing_of(*schemas.flat_resizing(resizing, True)) == (resizing, True)


def test_custom_methods_are_spelled_out() -> None:
    own = Method("own", ((1.0, -1.0), (0.0, 1.0)), 0)
    options = Options(mode=(own,), padding_mode=("zeros",), fill_value=(), order=(0,))
    (mode,) = schemas.options_of(*schemas.flat_options(options)).mode
    assert mode == own and mode is not own


@pytest.mark.parametrize(
    "method", [*METHODS.values(), keys(-0.2), replace(LINEAR, folds_position=False)]
)
def test_methods_are_spelled_as_a_name_or_in_full(method: Method) -> None:
    spelled = schemas.text_of(method)
    assert (spelled == method.name) == (method in METHODS.values())
    assert schemas.method_of(spelled) == method
