"""Compiles each GPU kernel without a GPU, and counts registers, spills, loads and atomic additions.

    python -m benchmarks.registers     print the table, and write docs/benchmarks/gpu-registers.json

A kernel is compiled as for contiguous images, with channels first or last.
Registers and spills are as `ptxas`, which comes with Triton, reports them.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gridsample.definitions.options import checked, plan_of
from gridsample.definitions.plan import Plan
from gridsample.definitions.request import Request
from gridsample.kernels import gpu
from gridsample.kernels.gpu import launching, parts
from gridsample.kernels.gpu.build import kernels

VISITS = {"gather": 1, "backward": 2, "double_backward": 4, "collect": 0, "measure_footprints": 1}
TABLES = {"gather": 1, "backward": 2, "double_backward": 3, "collect": 1, "measure_footprints": 1}
SPATIAL = (32, 48, 40)


@dataclass(frozen=True)
class Build:
    """One kernel to compile."""

    kernel: str
    rank: int = 2
    mode: str = "linear"
    boundary: str = "zeros"
    last: bool = False
    storage: str = "fp32"
    wide: bool = False
    coords: str = "normalized"
    extrapolate: bool = True
    spread: bool = False
    flags: tuple[tuple[str, Any], ...] = field(default=())

    @property
    def plan(self) -> Plan:
        """A plan whose kernel it is."""
        real = np.dtype("float64" if self.storage == "fp64" else "float32")
        stored = np.dtype(np.int16) if self.storage == "i16" else real
        channels = 64 if self.last else 3
        image = (2, channels, *SPATIAL[: self.rank])
        spread = self.spread or self.coords == "displacement"
        out = (10, 10, 10)[: self.rank] if spread else (1000,)
        request = Request(
            mode=self.mode,
            padding_mode=self.boundary,
            coords=self.coords,
            extrapolate=self.extrapolate,
            antialias=bool(self.spread),
        )
        grid = (2, *out, self.rank)
        return plan_of(image, stored, grid, real, checked(request, image, grid))

    @property
    def visits(self) -> int:
        """Pixels that are read or added to, for one number of the output."""
        exact = 2 if dict(self.flags).get("needs_SUMS") else 1
        return exact * VISITS[self.kernel] * math.prod(method.taps for method in self.plan.methods)


def statics(build: Build) -> tuple[dict[str, Any], launching.Launch]:
    """The kernel's constants and its launch."""
    import triton.language as tl

    plan = build.plan
    extent = launching.Extent(plan.points, plan.out[-1], plan.channels, plan.grid_items, 1)
    plain = gpu.is_plain(build.kernel, plan)
    launch = launching.shape_launch(extent, build.last, build.visits, plan.real.itemsize, plain)
    tile = {
        **gpu.axes(plan, (0,) * build.rank, TABLES[build.kernel]),
        "RANK": build.rank,
        "REAL": tl.float64 if build.storage == "fp64" else tl.float32,
        "INDEX": tl.int64 if build.wide else tl.int32,
        "BLOCK": launch.block,
        "WIDTH": launch.width,
        "DEPTH": launch.depth,
        "LAST": build.last,
        "SOURCE": parts.DISPLACED if build.coords == "displacement" else parts.GIVEN,
        "FILLED": plan.filled,
        "UNITS": gpu.units_of(plan),
        "SPREAD": build.spread,
    }
    outputs = {
        "COPY": build.mode == "nearest",
        "VOTE": plan.votes,
        "NAN": not plan.votes,
        "ROUND": False,
        "LOW": 0,
        "HIGH": 0,
        "BACKED": plan.filled or not plan.extrapolate,
    }
    needs = {
        "JOIN": False,
        "SUMS": parts.AS_THEY_COME,
        **dict.fromkeys(("IMAGE", "GRID", "VALUES", "FROM_IMAGE", "FROM_GRID"), True),
    }
    footprint = {"SCALED": False, "ATTACHED": True}
    parameters = {"tile": tile, "outputs": outputs, "needs": needs, "footprint": footprint}
    constants = {
        f"{part}_{name}": value
        for part, group in parameters.items()
        for name, value in group.items()
    }
    if build.kernel == "collect":
        constants |= {"BLOCK": gpu.FLAT, "REAL": tile["REAL"]}
    return {**constants, **dict(build.flags)}, launch


def source(build: Build) -> tuple[Any, launching.Launch]:
    """The kernel with the types of its arguments, and its launch."""
    from triton.compiler import ASTSource

    constants_of_kernel, launch = statics(build)
    kernel = getattr(kernels(build.visits > gpu.MANY), build.kernel)
    real = "*fp64" if build.storage == "fp64" else "*fp32"
    storage_pointers = dict.fromkeys(
        ("image", "out", "values", "by_image", "grad_values"), f"*{build.storage}"
    )
    sum_pointers = dict.fromkeys(("grid", "by_grid", "grad_image", "fill"), real)
    pointers = {f"{name}_memory": kind for name, kind in (storage_pointers | sum_pointers).items()}
    pointers |= {"gradient": real, "grad_image_limbs": "*i64", "extent": "*i32"}
    pointers["grad_image_bounds"] = "*i64" if real == "*fp64" else "*i32"
    if constants_of_kernel["outputs_COPY"] or constants_of_kernel["outputs_VOTE"]:
        pointers["fill_memory"] = pointers["image_memory"]
    if build.kernel == "collect":
        pointers["out"] = storage_pointers["out"]
    unit_axis = (
        "channel" if build.last else "[xp]"
    )  # the axis whose stride is 1: channels or points
    unit_strides = re.compile(
        rf"(image|by_image|grad_image)_{unit_axis}|(out|values|grad_values)_(channel|point)"
    )
    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    attributes = {}
    for number, name in enumerate(kernel.arg_names):
        has_unit_stride = unit_strides.fullmatch(name) and (name.endswith("channel") == build.last)
        if name in constants_of_kernel or has_unit_stride:
            types[name], constants[name] = "constexpr", constants_of_kernel.get(name, 1)
            continue
        types[name] = pointers.get(name, "i32")
        # With 64 channels last, all strides of images and values are multiples of 16.
        even_strides = (
            r"work_channels|(image|by_image|grad_image)_\w+|(out|values|grad_values)_(item|point)"
        )
        if name in pointers or (build.last and re.fullmatch(even_strides, name)):
            attributes[(number,)] = [["tt.divisibility", 16]]
    return ASTSource(kernel, types, constants, attributes), launch


def compile_(build: Build, capability: int) -> tuple[str, launching.Launch]:
    """The kernel's PTX for a compute capability, and its launch."""
    import triton
    from triton.backends.compiler import GPUTarget

    kernel_source, launch = source(build)
    options = {"num_warps": launch.warps, "num_stages": 1}
    compiled = triton.compile(
        kernel_source, target=GPUTarget("cuda", capability, 32), options=options
    )
    return compiled.asm["ptx"], launch


def resources(ptx: str, capability: int) -> dict[str, int]:
    """Registers of a thread and bytes that it spills, as ptxas reports."""
    from triton import knobs

    tool = knobs.nvidia.ptxas.path
    name = f"sm_{capability}{'a' if capability == 90 else ''}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.ptx")
        path.write_text(ptx)
        command = [tool, "-v", f"--gpu-name={name}", str(path), "-o", str(Path(folder, "kernel"))]
        messages = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    spilled = map(int, re.findall(r"(\d+) bytes spill", messages))
    match = re.search(r"Used (\d+) registers", messages)
    assert match is not None, messages
    return {"registers": int(match[1]), "spilled": sum(spilled)}


def builds() -> Iterator[Build]:
    """All kernels that are compiled."""
    for kernel, rank, mode, last in itertools.product(
        ("gather", "backward", "double_backward"),
        (1, 2, 3),
        ("nearest", "linear", "cubic"),
        (False, True),
    ):
        if mode != "nearest" or kernel != "double_backward":
            yield Build(kernel, rank, mode, "reflection", last)
    for kernel, last in itertools.product(("gather", "backward", "double_backward"), (False, True)):
        yield Build(kernel, storage="fp16", last=last)
        yield Build(kernel, storage="bf16", last=last)
        yield Build(kernel, storage="fp64", last=last)
        yield Build(kernel, wide=True, last=last)
    for last in (False, True):
        for storage, sums in itertools.product(("fp32", "fp64"), (parts.MEASURED, parts.EXACT)):
            need = ("needs_GRID", sums == parts.EXACT)
            yield Build("backward", storage=storage, last=last, flags=(("needs_SUMS", sums), need))
        yield Build("backward", last=last, flags=(("needs_JOIN", True),))
        yield Build("gather", last=last, flags=(("tile_SOURCE", parts.MAPPED),))
        yield Build("backward", last=last, flags=(("tile_SOURCE", parts.MAPPED),))
    for kernel, rank, last in itertools.product(("gather", "backward"), (1, 2, 3), (False, True)):
        for mode in ("nearest", "linear", "cubic"):
            yield Build(kernel, rank, mode, "reflection", last, spread=True)
    for kernel in ("gather", "backward", "measure_footprints"):
        for flags in ((("footprint_SCALED", True),), (("tile_SOURCE", parts.MAPPED),)):
            yield Build(kernel, spread=True, flags=flags)
        yield Build(kernel, storage="fp64", spread=True)
        yield Build(kernel, coords="displacement", extrapolate=False, spread=True)
    yield Build("backward", spread=True, flags=(("footprint_ATTACHED", False),))
    for storage in ("fp32", "fp64", "fp16"):
        yield Build("collect", storage=storage)
    for kernel, rank in itertools.product(("gather", "backward", "double_backward"), (2, 3)):
        for boundary in ("constant", "symmetric", "wrap", "antimirror"):
            yield Build(kernel, rank, "linear", boundary)
        yield Build(kernel, rank, coords="displacement", extrapolate=False)
    for kernel, mode in itertools.product(
        ("gather", "backward", "double_backward"), ("mitchell", "spline3", "spline5", "lanczos3")
    ):
        yield Build(kernel, 2, mode, "mirror")


def measure(build: Build, capability: int) -> dict[str, Any]:
    """Compile a kernel, and count its resources."""
    ptx, launch = compile_(build, capability)
    return {
        **asdict(build),
        "flags": dict(build.flags),
        "capability": capability,
        **launch._asdict(),
        **counted(ptx, capability),
    }


def counted(ptx: str, capability: int) -> dict[str, int]:
    """Registers, spills, loads and atomic additions."""
    return {
        **resources(ptx, capability),
        "loads": len(re.findall(r"ld\.global", ptx)),
        "wide_loads": len(re.findall(r"ld\.global[\w.:]*\.v4", ptx)),
        "additions": len(re.findall(r"(?:red|atom)\.global", ptx)),
    }


def main() -> None:
    """Compile all kernels, print the table and write it."""
    import triton

    from benchmarks import operator_registers

    made = (measure(*each) for each in itertools.product(builds(), (80, 90)))
    rows = []
    for row in itertools.chain(made, *map(operator_registers.rows, (80, 90))):
        rows.append(row)
        print(*(f"{key}={value}" for key, value in row.items()), flush=True)
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/benchmarks/gpu-registers.json")
    contents = {"triton": triton.__version__, "rows": rows}
    target.write_text(json.dumps(contents).replace('{"kernel"', '\n{"kernel"') + "\n")


if __name__ == "__main__":
    main()
