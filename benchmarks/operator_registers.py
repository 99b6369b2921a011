"""Compiles the GPU kernels of fused operators without a GPU, and counts as `benchmarks.registers`.

The programs of an operator run on tensors in memory, but their kernels are only compiled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple
from unittest import mock

import torch

from benchmarks.registers import counted
from gridsample.definitions.methods import LINEAR
from gridsample.definitions.operators import LookupOptions, Operator, SplatOptions, SumOptions
from gridsample.kernels.gpu.launching import LaunchOptions
from gridsample.kernels.gpu.operators import Context, Total
from gridsample.kernels.gpu.programs import programs_of
from gridsample.operators.correlation import LOOKUP
from gridsample.operators.splatting import MAXIMUM, SPLAT, TOTAL
from gridsample.operators.sums import WEIGHTED_SUM

TYPES = {"fp16": torch.float16, "fp32": torch.float32, "fp64": torch.float64}
SIDE = 16


class Still(NamedTuple):
    """A stand-in for Triton's driver: everything that a launch queries before it starts."""

    capability: int = 90

    def get_current_device(self) -> int:
        return self.capability  # Triton keeps what it has compiled by the number of the device

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)


class Warmed:
    """A kernel that is compiled where it would be launched."""

    made: list[Any] = []  # noqa: RUF012 - tests put another list in its place

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def warm(*arguments: Any, **options: Any) -> None:
            self.made.append(self.kernel.warmup(*arguments, grid=grid, **options))

        return warm


@dataclass(frozen=True)
class OperatorBuild:
    """The kernels of an operator to compile."""

    operator: str
    rank: int = 2
    channels: int = 32
    storage: str = "fp32"

    def options(self) -> Any:
        """Options for bilinear samples with zeros outside."""
        size, rank = (SIDE,) * self.rank, self.rank
        zeros = ("zeros",) * rank
        if self.operator == "weighted_sum":
            return SumOptions(size, rank, (LINEAR,) * rank, zeros, False, "unit", None)
        if self.operator == "correlation_lookup":
            return LookupOptions(size, rank, 4 if rank < 3 else 2, None)
        return SplatOptions(size, zeros, False, None)


OPERATORS: dict[str, Operator] = {
    operator.name: operator for operator in (WEIGHTED_SUM, LOOKUP, MAXIMUM, TOTAL, SPLAT)
}


def warmed(build: OperatorBuild, capability: int) -> list[Any]:
    """The compiled kernels of an operator: those of the result, then that of the gradients."""
    from triton.runtime import driver

    operator, options = OPERATORS[build.operator], build.options()
    sizes = {"n": 2, "h": 8, "l": 1, "q": 256, "p": 256, "d": build.rank, "c": build.channels}
    sizes["s"] = math.prod((SIDE,) * build.rank)
    real = torch.float64 if build.storage == "fp64" else torch.float32
    arrays = {
        name: torch.empty([sizes[axis] for axis in axes.split()], dtype=TYPES[build.storage])
        for name, axes in operator.arrays.items()
    }
    upstream = torch.empty(operator.shape(sizes, options), dtype=real)
    gradients = {
        name: Total(torch.empty(array.shape, dtype=real))
        for name, array in arrays.items()
        if name not in ("greatest", "total")
    }
    context = Context(LaunchOptions(wrap=Warmed), lambda shape: torch.empty(shape, dtype=real))
    programs = programs_of(operator.name)
    with (
        mock.patch.object(driver, "_active", Still(capability)),
        mock.patch.object(Warmed, "made", []),
    ):
        programs.compute(arrays, options, Total(upstream), context)
        arrays |= {"upstream": upstream, "result": upstream}
        programs.differentiate(arrays, options, gradients, context)
        return Warmed.made


def builds() -> Iterator[OperatorBuild]:
    """All operators whose kernels are compiled."""
    for name in OPERATORS:
        for rank in (1, 2, 3):
            yield OperatorBuild(name, rank)
        yield OperatorBuild(name, storage="fp64")
    yield OperatorBuild("weighted_sum", storage="fp16")
    yield OperatorBuild("correlation_lookup", channels=256)
    yield OperatorBuild("correlation_lookup", channels=256, storage="fp16")
    yield OperatorBuild("softmax_splat", channels=3)


def rows(capability: int) -> Iterator[dict[str, Any]]:
    """Compile all kernels, and count their resources."""
    for build in builds():
        for kernel in warmed(build, capability):
            counts = counted(kernel.asm["ptx"], capability)
            described = {"kernel": kernel.src.name, **asdict(build), "capability": capability}
            yield {**described, "warps": kernel.metadata.num_warps, **counts}
