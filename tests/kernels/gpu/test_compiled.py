"""The GPU kernels compiled for two generations of GPUs, and in the graphs of torch.compile."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any

import cases
import numpy as np
import oracles
import plans
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)

from gridsample.kernels.gpu import parts

pytest.importorskip("triton")

from interpreted import deterministic, inputs, rolled

from benchmarks import operator_registers, registers
from benchmarks.operator_registers import Still, Warmed
from gridsample.backends.torch import cuda
from gridsample.definitions.footprints import Footprint
from gridsample.kernels import gpu
from gridsample.kernels.gpu import launching

# The interpreter's NumPy warns where a GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")


# Compiled for two generations ---------------------------------------------------------------------

FEW = [
    registers.Build(kernel, 2, "linear", "reflection", last)
    for kernel, last in itertools.product(("gather", "backward", "double_backward"), (False, True))
]
FEW += [
    registers.Build("gather", 3, "cubic"),
    registers.Build("gather", 2, "nearest", "constant"),
    registers.Build("backward", 2, flags=(("needs_SUMS", parts.EXACT),)),
    registers.Build("backward", 2, flags=(("needs_SUMS", parts.MEASURED), ("needs_GRID", False))),
    registers.Build("backward", 2, spread=True),
    registers.Build("measure_footprints", 2, spread=True),
    registers.Build("collect"),
    registers.Build("backward", 2, "linear", "constant"),
    registers.Build("gather", 2, "spline3", "antimirror"),
    registers.Build("gather", 2, coords="displacement", extrapolate=False, spread=True),
    registers.Build("gather", 2, storage="bf16", last=True),
    registers.Build("gather", 3, "label", "constant", storage="i16"),
]
OTHERS = [build for build in registers.builds() if build not in FEW]
# Of the others, cases in which every pair of choices occurs.
COVERING = [OTHERS[i] for i in cases.cover([dataclasses.astuple(build) for build in OTHERS])]


@pytest.mark.parametrize(
    ("build", "capability"),
    cases.slow_after(
        4,
        [
            *zip((*FEW[::2], *FEW[1::2]), itertools.cycle([80, 90]), strict=False),
            *zip(COVERING, itertools.cycle([80, 90]), strict=False),
        ],
    ),
    ids=str,
)
def test_kernels_compile_without_spilling_and_in_their_precision(
    build: registers.Build, capability: int
) -> None:
    ptx, _ = registers.compile_(build, capability)
    if build.storage != "fp64":
        assert ".f64" not in ptx
    # Only a register or two, which ptxas spills so that one more block fits; a few more of second
    # derivatives, and of those that hold the sides of footprints, which are used once a sample.
    most = 64 if build.spread else 40 if build.kernel == "double_backward" else 24
    assert registers.resources(ptx, capability)["spilled"] <= most


OPERATORS = [
    operator_registers.OperatorBuild("weighted_sum"),
    operator_registers.OperatorBuild("correlation_lookup", 3),
    operator_registers.OperatorBuild("correlation_lookup", channels=256, storage="fp16"),
    operator_registers.OperatorBuild("softmax_splat", channels=3),
    operator_registers.OperatorBuild("splat_maximum", storage="fp64"),
]


@pytest.mark.parametrize(
    ("build", "capability"),
    cases.slow_after(0, [*zip(OPERATORS, itertools.cycle([80, 90]), strict=False)]),
    ids=str,
)
def test_kernels_of_operators_compile_without_spilling_and_in_their_precision(
    build: operator_registers.OperatorBuild, capability: int
) -> None:
    for kernel in operator_registers.warmed(build, capability):
        text = kernel.asm["ptx"]
        assert build.storage == "fp64" or ".f64" not in text
        assert registers.resources(text, capability)["spilled"] == 0


def test_interleaved_channels_are_loaded_four_at_a_time() -> None:
    ptx, _ = registers.compile_(registers.Build("gather", last=True), 80)
    assert ptx.count(".v4.b32") >= 4


@pytest.mark.parametrize("last", cases.slow_after(1, [False, True]))
def test_calls_select_the_kernels_of_a_gpu(last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime import driver

    monkeypatch.setattr(driver, "_active", Still())
    monkeypatch.setattr(Warmed, "made", [])
    image, grid, values = (t.float() for t in inputs(2, channels=64))
    image = rolled(image) if last else image
    dtype = np.dtype("float32")
    names = oracles.per_axis("linear", 2), oracles.per_axis("border", 2)
    plan = plans.plan_for(tuple(image.shape), dtype, tuple(grid.shape), dtype, *names)
    out = rolled(torch.empty_like(values)) if last else torch.empty_like(values)
    launch, sums = launching.LaunchOptions(wrap=Warmed), cuda.exact_sums(image, gpu.additions(plan))
    gpu.gather(plan, image, grid, out, (0, 0), options=launch)
    gpu.backward(plan, values, image, grid, image, (0, 0), empty=torch.empty, options=launch)
    gpu.double_backward(
        plan,
        values,
        image,
        grid,
        gpu.Upstream(image, grid),
        out,
        image,
        (0, 0),
        empty=torch.empty,
        options=launch,
    )
    gpu.gather(plan, image.to(torch.uint8), grid, out.to(torch.uint8), (0, 0), options=launch)
    gpu.backward(plan, values, image, grid, image, (0, 0), sums=sums, options=launch)
    gpu.collect(sums, image, image.half(), options=launch)
    assert len(Warmed.made) == 7
    ptx = [result.asm["ptx"] for result in Warmed.made]
    assert not any(".f64" in text for text in ptx)
    assert (".v4.b32" in ptx[0]) == last
    # Other sizes and counts, the same kernel; strides make another.
    gpu.gather(plan, image[:, :, :4, :5], grid, out, (0, 0), options=launch)
    assert Warmed.made[-1] is Warmed.made[0]


@pytest.mark.slow
def test_footprint_calls_share_one_kernel_for_all_levels_and_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from triton.runtime import driver

    monkeypatch.setattr(driver, "_active", Still())
    monkeypatch.setattr(Warmed, "made", [])
    image, grid, values = (t.float() for t in inputs(1))
    dtype, launch = np.dtype("float32"), launching.LaunchOptions(wrap=Warmed)
    for size, most in ((7, 2), (6, 16)):
        plan = plans.plan_for(
            (2, 3, size),
            dtype,
            tuple(grid.shape),
            dtype,
            "linear",
            "border",
            footprint=Footprint(most),
        )
        gpu.measure_footprints(plan, grid, torch.zeros(2, dtype=torch.int32), options=launch)
        for level in (0, 1):
            source = image[..., : size if level == 0 else (size + 1) // 2].contiguous()
            gpu.gather(plan, source, grid, values, (0,), level=level, options=launch)
            gpu.backward(
                plan,
                values,
                source,
                grid,
                source,
                (0,),
                empty=torch.zeros,
                level=level,
                options=launch,
            )
    assert len(Warmed.made) == 10
    assert len({id(result) for result in Warmed.made}) == 3
    assert not any(".f64" in result.asm["ptx"] for result in Warmed.made)


# In graphs of torch.compile -----------------------------------------------------------------------


def traced(function: Any, *shapes: tuple[int, ...], symbolic: bool = False) -> Any:
    """The graph that torch.compile's first half makes of a function of CUDA tensors."""
    from torch._functorch.aot_autograd import aot_export_module

    class Model(torch.nn.Module):
        def forward(self, *tensors: Tensor) -> Any:
            return function(*tensors)

    mode, sizes = FakeTensorMode(shape_env=ShapeEnv()), list(shapes)
    if symbolic:
        from torch._dynamo.source import ConstantSource  # which takes two seconds

        sizes = [
            mode.from_tensor(
                torch.empty(shape),
                source=ConstantSource(f"input{number}"),
                symbolic_context=StatelessSymbolicContext([DimDynamic.DYNAMIC] * len(shape)),
            ).shape
            for number, shape in enumerate(shapes)
        ]
    with mode:
        tensors = [torch.empty(size, device="cuda") for size in sizes]
    with torch.no_grad(), mode:
        graph, _ = aot_export_module(Model(), tuple(tensors), trace_joint=False)
    return graph


def sampled_and_back(image: Tensor, grid: Tensor) -> tuple[Tensor, ...]:
    import gridsample

    out = gridsample.grid_sample(image * 2, grid)
    return (out.sin(), *gridsample.grid_sample_vjp(out, image, grid))


@pytest.mark.parametrize("certain", cases.slow_after(1, [False, True]))
def test_graphs_contain_the_kernels_and_their_mutations(
    certain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.runtime import driver

    monkeypatch.setattr(driver, "_active", Still())
    with deterministic() if certain else contextlib.nullcontext():
        graph = traced(sampled_and_back, (2, 3, 8, 9), (2, 5, 5, 2))
    nodes = [node for node in graph.graph.nodes if "triton_kernel" in str(node.target)]
    written = [set(node.kwargs["tensors_to_clone"]) for node in nodes]
    if certain:
        assert written == [
            {"out_memory"},
            {"grad_image_bounds"},
            {"grad_image_memory", "grad_image_limbs", "gradient"},
            {"out"},
        ]
    else:
        assert written == [{"out_memory"}, {"grad_image_memory", "gradient"}]
    assert not any("gridsample" in str(node.target) for node in graph.graph.nodes)


def test_graphs_of_symbolic_sizes_contain_the_operators() -> None:
    graph = traced(sampled_and_back, (2, 3, 8, 9), (2, 5, 5, 2), symbolic=True)
    targets = [str(node.target) for node in graph.graph.nodes]
    assert {"gridsample.gather.default", "gridsample.backward.default"} <= set(targets)
    assert not any("triton_kernel" in name for name in targets)


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [registers.Build("backward"), registers.Build("gather", 3, "cubic", "antimirror")],
    ids=str,
)
def test_kernel_sources_in_graphs_match_the_kernels(
    build: registers.Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor.codegen import wrapper

    closure = wrapper.user_defined_triton_kernel_transitive_closure_source_code
    kernel = getattr(registers.kernels(build.visits > gpu.MANY), build.kernel)
    path = tmp_path / "program.py"
    path.write_text(f"import triton\nimport triton.language as tl\n@triton.jit\n{closure(kernel)}")
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    instructions = []
    for source in (registers.kernels, lambda rolled: program):
        monkeypatch.setattr(registers, "kernels", source)
        lines = registers.compile_(build, 90)[0].splitlines()
        instructions.append(
            Counter(re.findall(r"^\t(?!\.)(?:@\S+ )?(\S+)", "\n".join(lines), re.M))
        )
    assert instructions[0] == instructions[1] and instructions[0].total() > 100
