"""Keywords that a public function does not have are refused, before anything is written."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray

MODULES = ("dask", "zarr", "xarray", "jax", "cv", "ndimage", "skimage")
# A keyword that no function has, those of other functions, and those of functions that are not
# public; the values are those that the others take.
KEYWORDS: dict[str, Any] = {
    "bogus": 1,
    "channel_axis": -1,
    "coords": "pixel",
    "align_corners": True,
    "padding_mode": "border",
    "borderMode": 1,
    "cval": 1.0,
    "fill_value": 1.0,
    "prefilter": False,
    "footprint": "detach",
    "weights": np.ones((4, 5)),
    "min_weight": 0.5,
    "return_mask": True,
    "return_weight": True,
    "out": None,
    "output": None,
    "size": (4, 5),
    "order": 1,
    "chunks": 2,
    "options": {},
    "real": np.float64,
    "lines": (),
    "wide": True,
    "block": None,
}


def public_functions() -> list[Any]:
    functions = []
    for module in MODULES:
        public = importlib.import_module(f"gridsample.{module}")
        for name in public.__all__:
            function = getattr(public, name)
            if inspect.isroutine(function):
                functions.append(pytest.param(module, name, id=f"{module}.{name}"))
    return functions


def arguments_of(function: Any, folder: Path) -> dict[str, Any]:
    """Arguments for all parameters without a default, under which a call gets to its keywords."""
    pixels = np.arange(20.0).reshape(4, 5)
    known: dict[str, Any] = {
        "source": str(folder / "in"),
        "output": str(folder / "out"),
        "target": np.full((4, 5), -1.0),
        "result": da.ones((4, 5), chunks=3),
        "size": (4, 5),
        "dsize": (5, 4),
        "obj": xarray.DataArray(pixels, dims=("y", "x")),
        "other": xarray.DataArray([0.0, 0.5], dims="x"),
    }
    parameters = inspect.signature(function).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    return {name: known.get(name, pixels) for name in needed}


def check_refusal(function: Any, arguments: dict[str, Any], keyword: str) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"\b{keyword}\b"):
        function(**arguments, **{keyword: KEYWORDS[keyword]})


@pytest.mark.parametrize(("module", "name"), public_functions())
def test_keywords_of_others_are_refused(module: str, name: str, tmp_path: Path) -> None:
    function = getattr(importlib.import_module(f"gridsample.{module}"), name)
    parameters = inspect.signature(function).parameters
    arguments = arguments_of(function, tmp_path)
    if module == "zarr":
        zarr = pytest.importorskip("zarr")
        zarr.create_array(arguments["source"], data=np.arange(20.0).reshape(4, 5), chunks=(2, 5))
    refused = [keyword for keyword in KEYWORDS if keyword not in parameters]
    assert "bogus" in refused and len(refused) > 8
    for keyword in refused:
        check_refusal(function, arguments, keyword)
        assert not (tmp_path / "out").exists()
    if "target" in arguments:
        assert (arguments["target"] == -1).all()
    if module == "zarr":  # nothing blocks the corrected call
        function(**arguments)
        assert (tmp_path / "out").exists()
