"""The operators as compilers see them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cases
import pytest
import torch
from torch import Tensor

import gridsample
import gridsample.backends.torch  # registers the operators
import gridsample.torch_compat
from gridsample.backends.torch import internals, other_devices

OPERATORS = torch.ops.gridsample


def tensors(spatial: tuple[int, int] = (5, 7)) -> tuple[Tensor, Tensor]:
    rng = cases.generator(*spatial)
    image = torch.from_numpy(cases.pixels(rng, (2, 3, *spatial), "float32"))
    return image, torch.from_numpy(rng.uniform(-1, 1, (2, 4, 6, 2)).astype("float32"))


def options(*order: int) -> tuple[Any, ...]:
    return ["cubic", "linear"], ["zeros", "border"], False, list(order)


def check(name: str, *arguments: Any) -> None:
    inputs = [a.clone().requires_grad_() if isinstance(a, Tensor) else a for a in (*arguments,)]
    results = torch.library.opcheck(getattr(OPERATORS, name).default, inputs)
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.slow
def test_operators_pass_opcheck() -> None:
    image, grid = tensors()
    values = torch.ones(2, 3, 4, 6)
    check("gather", image, grid, *options(0, 0))
    check("scatter", values, grid, [2, 3, 5, 7], *options(0, 1))
    check("backward", values, image, grid, True, True, *options(0, 0))
    check("backward", values, image, grid, False, True, *options(0, 0))


def warp(theta: Tensor, image: Tensor, grid: Tensor) -> Tensor:
    moved = grid + gridsample.affine_grid(theta, (2, 3, 4, 6))
    return gridsample.grid_sample(image * 2, moved, "bicubic", ("zeros", "border")).sin()


@pytest.mark.parametrize(
    ("backend", "dynamic", "last"),
    [
        pytest.param("aot_eager", False, False, marks=pytest.mark.slow),
        ("aot_eager", True, True),
        pytest.param("inductor", True, False, marks=pytest.mark.slow),
    ],
)
def test_compiles_without_graph_breaks(backend: str, dynamic: bool, last: bool) -> None:
    torch.compiler.reset()
    compiled = torch.compile(warp, fullgraph=True, dynamic=dynamic, backend=backend)
    for spatial in ((5, 7), (6, 9)):
        image, grid = tensors(spatial)
        if last:
            image = image.contiguous(memory_format=torch.channels_last)
        arguments = torch.eye(2, 3).repeat(2, 1, 1), image, grid
        for tensor in arguments:
            tensor.requires_grad_()
        results = []
        for function in (compiled, warp):
            out = function(*arguments)
            results.append([out, *torch.autograd.grad(out.sum(), arguments)])
        for mine, eager in zip(*results, strict=True):
            torch.testing.assert_close(mine, eager, rtol=1e-5, atol=1e-5)
            assert mine.stride() == eager.stride()


VALUES, MAPS = torch.ones(2, 3, 4, 6), torch.eye(2, 3).repeat(2, 1, 1)
CELLS = gridsample.CellOverlaps([range(8), range(6)], [(0, 1, 2, 3, 4, 6, 7), (5, 4, 2, 1, 0)])

EVERY: dict[str, Any] = {
    "fill": lambda x, g: gridsample.grid_sample(x, g, "cubic", "constant", fill_value=(1, 2, 3)),
    "mask": lambda x, g: gridsample.grid_sample(x, g, return_mask=True, threads=1),
    "spline": lambda x, g: gridsample.grid_sample(x, g, "spline3", "mirror"),
    "spline_fill": lambda x, g: gridsample.grid_sample(
        x, g, ("spline5", "spline3"), ("constant", "border"), fill_value=(1, 2, 3)
    ),
    "vjp": lambda x, g: gridsample.grid_sample_vjp(VALUES, x, g, "cubic"),
    "gradient": gridsample.grid_gradient,
    "hessian": gridsample.grid_hessian,
    "splat": lambda x, g: gridsample.splat(VALUES, g, (5, 7), normalize=True),
    "affine": lambda x, g: gridsample.affine_sample(x, MAPS, (2, 3, 4, 6)),
    "affine_vjp": lambda x, g: gridsample.affine_sample_vjp(VALUES, x, MAPS, (2, 3, 4, 6)),
    "filter": lambda x, g: gridsample.spline_filter(x),
    "resize": lambda x, g: gridsample.interpolate(x, (4, 6), mode="bilinear", antialias=True),
    "resize_vjp": lambda x, g: gridsample.interpolate_vjp(VALUES, x, (4, 6), mode="bilinear"),
    "regrid": lambda x, g: gridsample.regrid_conservative(x, CELLS, missing="ignore"),
    "regrid_vjp": lambda x, g: gridsample.regrid_conservative_vjp(VALUES, x, CELLS),
}


@pytest.mark.parametrize("name", cases.slow_after(1, EVERY))
def test_every_function_compiles_without_graph_breaks(name: str) -> None:
    torch.compiler.reset()
    arguments = tensors()
    expected = EVERY[name](*arguments)
    compiled = torch.compile(EVERY[name], fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*arguments), expected)


def test_exports_with_dynamic_sizes() -> None:
    class Warp(torch.nn.Module):
        def forward(self, image: Tensor, grid: Tensor) -> Tensor:
            return gridsample.grid_sample(image, grid, "bicubic")

    items, height = torch.export.Dim("items", min=2), torch.export.Dim("height")
    program = torch.export.export(
        Warp(), tensors(), dynamic_shapes=({0: items, 2: height}, {0: items})
    )
    called = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert called == [OPERATORS.gather.default]
    image, grid = (t.repeat(2, 1, 1, 1) for t in tensors((9, 7)))
    torch.testing.assert_close(program.module()(image, grid), Warp()(image, grid))


def test_torch_kernels_are_looked_up_when_a_graph_is_compiled() -> None:
    """A call for a device without kernels of ours asks which of its operators torch has there."""

    @torch.compile(backend="eager", fullgraph=True)
    def shifted(image: Tensor) -> Tensor:
        return image + other_devices.has_kernels("cpu", "grid_sampler_2d", "grid_sampler_3d")

    assert shifted(torch.zeros(())) == 1


# The first use of the library in a process is in a function that is compiled: each call has a child
# of a process that has only imported the library, and compiled what has nothing to do with it.
FIRST_USE = """
import os, sys, torch, gridsample

CALLS = {
    "resizing": lambda image, theta: gridsample.interpolate(image, scale_factor=2.0),
    "sampling": lambda image, theta: gridsample.grid_sample(
        image, gridsample.affine_grid(theta, (1, 1, 6, 8))
    ),
    "filter": lambda image, theta: gridsample.spline_filter(image, 3),
}
OPTIONS = {"dynamic": True, "fullgraph": True, "backend": "aot_eager"}
arguments = torch.arange(12.0).reshape(1, 1, 3, 4), torch.eye(2, 3)[None]

def check(function):
    compiled = torch.compile(function, **OPTIONS)
    result = compiled(*arguments)
    torch.compiler.set_stance("fail_on_recompile")
    assert torch.equal(compiled(*arguments), result) and torch.equal(function(*arguments), result)
    assert torch.equal(compiled(*arguments), result)  # also after a call that was not compiled

def fails(function):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    try:
        check(function)
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)

torch.compile(lambda image, theta: image + 1, **OPTIONS)(*arguments)
sys.exit(", ".join(name for name, function in CALLS.items() if fails(function)) or 0)
"""


@pytest.mark.slow
def test_first_use_in_a_compiled_function() -> None:
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


PATCHED = """
import sys, torch
import torch.nn.functional as F
if sys.argv[1] == "patched":
    from gridsample import torch_compat
    torch_compat.patch()
# In a volume, torch's sampling is a call of its kernel, too: there is no C++ to compile.
image, grid = torch.ones(1, 1, 4, 4, 4), torch.zeros(1, 1, 2, 2, 3)
sample = torch.compile(lambda image, grid: F.grid_sample(image, grid, align_corners=False))
print(sample(image, grid).sum().item(), "gridsample" in sys.modules)
"""


@pytest.mark.slow
def test_patched_programs_have_their_own_cache(tmp_path: Path) -> None:
    """The keys of torch.compile's cache on disk have torch's name, whatever the function does."""
    if not hasattr(torch.compiler, "config"):
        return  # the cache has no tag before torch 2.7
    caches = dict.fromkeys(("TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"), "1")
    environment = {**os.environ, **caches, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    for state in ("patched", "plain"):
        done = subprocess.run(
            [sys.executable, "-c", PATCHED, state],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.split() == ["4.0", str(state == "patched")], done.stderr


def test_a_patch_tags_the_cache_of_compiled_programs() -> None:
    before = internals.cache_tag()
    with gridsample.torch_compat.patch():
        default = internals.cache_tag()
        with gridsample.torch_compat.patch(strict=True):
            assert internals.cache_tag() not in (before, default)
        assert internals.cache_tag() == default
    assert internals.cache_tag() == before
    if hasattr(torch.compiler, "config"):
        assert default != before
