"""JAX arrays on a GPU: XLA would call the Triton kernels, which are compiled but never run here.

Numbers are those of Triton's interpreter, in which the same calls run on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import cases
import numpy as np
import pytest

import gridsample

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
jnp = jax.numpy

from gridsample.backends.jax import gpu  # noqa: E402

pytestmark = pytest.mark.usefixtures("double_jax")


class Recorded:
    """A stand-in for a kernel of jaxlib's library for CUDA: its name and its PTX."""

    def __init__(self, name: str, *details: Any) -> None:
        # Warps, thread blocks of a cluster, shared memory, the code, its first form, the GPU.
        self.name, self.ptx, self.capability = name, details[3], details[5]


class RecordedCall:
    """A call of a kernel, as bytes in XLA's program."""

    all: ClassVar[list[RecordedCall]] = []

    def __init__(self, kernel: Recorded, x: int, y: int, z: int, parameters: Any) -> None:
        self.kernel, self.programs, self.parameters = kernel, x * y * z, parameters
        self.all.append(self)

    def to_proto(self, name: str, metadata: bytes) -> bytes:
        return self.kernel.name.encode()


@pytest.fixture
def jax_triton(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module jax-triton, without jaxlib's library for CUDA."""
    from jaxlib import gpu_triton

    library = {
        "TritonKernel": Recorded,
        "TritonKernelCall": RecordedCall,
        "create_array_parameter": lambda zeros, alignment: ("array", zeros),
        "create_scalar_parameter": lambda number, dtype: ("number", number),
        "get_compute_capability": lambda device: 90,
        "get_serialized_metadata": None,
    }
    for name, entry in library.items():
        monkeypatch.setattr(gpu_triton, name, entry, raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", "")  # which the import changes
    return pytest.importorskip("jax_triton")


@pytest.fixture
def recorded(jax_triton: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RecordedCall]]:
    """The calls of kernels in programs that are lowered for a GPU."""
    monkeypatch.setattr(RecordedCall, "all", [])
    jax.clear_caches()
    yield RecordedCall.all
    jax_triton.triton_lib._COMPILED_KERNEL_CACHE.clear()


def lowered_text(function: Any, *arrays: Any) -> str:
    """A program for a GPU."""
    trace = jax.jit(function).trace(*arrays)
    text: str = trace.lower(lowering_platforms=("cuda",)).as_text()
    return text


def arrays_of(dtype: str = "float32") -> tuple[Any, Any]:
    rng = cases.generator("jax gpu")
    image, grid = cases.pixels(rng, (2, 3, 7, 8), dtype), rng.uniform(-1.2, 1.2, (2, 4, 5, 2))
    return jnp.asarray(image), jnp.asarray(grid, "f4")


def test_programs_for_a_gpu_call_kernels_in_ptx(recorded: list[RecordedCall]) -> None:
    image, grid = arrays_of()
    text = lowered_text(lambda *a: gridsample.grid_sample(*a, "linear", "border"), image, grid)
    assert text.count("triton_kernel_call") == 1
    (call,) = recorded
    assert call.kernel.capability == 90
    assert ".target sm_90" in call.kernel.ptx and ".f64" not in call.kernel.ptx
    # The image, the grid, what would be the fill value, and the samples, which begin as zeros.
    assert [zeros for kind, zeros in call.parameters if kind == "array"] == [0, 0, 0, 480]


def test_both_gradients_are_one_kernel(recorded: list[RecordedCall]) -> None:
    def loss(*arrays: Any) -> Any:
        return gridsample.grid_sample(*arrays, "linear", "constant", fill_value=2).sum()

    text = lowered_text(jax.grad(loss, (0, 1)), *arrays_of())
    assert text.count("triton_kernel_call") == 1
    assert [call.kernel.name for call in recorded] == ["backward_to_outputs"]
    assert "atom" in recorded[0].kernel.ptx or "red." in recorded[0].kernel.ptx


@pytest.mark.slow
def test_batches_and_second_derivatives_are_kernels(recorded: list[RecordedCall]) -> None:
    image, grid = arrays_of()

    def loss(image: Any, grid: Any) -> Any:
        return (gridsample.grid_sample(image, grid, "linear") ** 2).sum()

    batched = jax.vmap(jax.grad(loss, (0, 1)), (None, 0))
    assert "triton_kernel_call" in lowered_text(batched, image, jnp.stack([grid, -grid]))
    hessian = lowered_text(lambda *arrays: jax.jvp(jax.grad(loss, 1), arrays, arrays), image, grid)
    assert hessian.count("triton_kernel_call") >= 3
    assert {call.kernel.name for call in recorded} == {"gather_to_outputs", "backward_to_outputs"}


def test_unsupported_calls_are_left_to_xla(recorded: list[RecordedCall]) -> None:
    image, grid = arrays_of()
    text = lowered_text(lambda *a: gridsample.grid_sample(*a, antialias=True), image, grid)
    assert "triton_kernel_call" not in text and not recorded
    # An exported program runs where there are no kernels.
    exported = jax.export.export(jax.jit(gridsample.grid_sample), platforms=["cuda"])(image, grid)
    assert "triton_kernel_call" not in exported.mlir_module()


# Numbers ------------------------------------------------------------------------------------------


def interpreted(*arguments: Any, kernel: Any, out_shape: Any, grid: Any, **options: Any) -> Any:
    """The results of `jax_triton.triton_call`, computed by Triton's interpreter."""
    from gridsample.kernels.gpu.build import kernels

    names = [p.name for p in kernel.params if not p.is_constexpr]
    outputs = [torch.zeros(out.shape, dtype=getattr(torch, str(out.dtype))) for out in out_shape]
    inputs = [torch.tensor(np.array(a)) if hasattr(a, "shape") else a for a in arguments]
    known = {**dict(zip(names, [*inputs, *outputs], strict=True)), **options}
    run = getattr(kernels(False, True), kernel.__name__.removesuffix("_to_outputs"))
    run[grid](*[known[name] for name in run.arg_names])
    return [jnp.asarray(output.numpy()) for output in outputs]


def call_of(image: Any, grid: Any, *options: Any, **others: Any) -> Any:
    """The description of a call that primitives have."""
    from gridsample.backends.jax import BACKEND, call_of
    from gridsample.definitions.request import Request

    arrays = jnp.asarray(image), jnp.asarray(grid)
    resolved = BACKEND.resolve_options(*arrays, Request(*options, **others))
    return call_of(image.shape, arrays[1], resolved, arrays[0].dtype)


# The pairs are shown for tensors, which the same kernels sample (tests/kernels/gpu).
@pytest.mark.covering(slow=1)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "label"])
@pytest.mark.parametrize("boundary", ["zeros", "constant", "mirror"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8", "bool"])
@pytest.mark.parametrize("items", [(2, 2), (1, 2), (2, 1)])
def test_kernels_in_the_interpreter_match_numpy(
    items: tuple[int, int],
    dtype: str,
    boundary: str,
    mode: str,
    jax_triton: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if mode == "label" and dtype.startswith("float"):
        dtype = "uint8"
    monkeypatch.setattr(jax_triton, "triton_call", interpreted)
    rng = cases.generator("jax gpu", mode, boundary, dtype, items)
    image = cases.pixels(rng, (items[0], 2, 5, 6), dtype)
    grid = rng.uniform(-1.4, 1.4, (items[1], 3, 4, 2))
    options: Any = {"fill_value": (1, 0)} if boundary == "constant" else {}
    if mode == "label":
        image = image % 3 if dtype == "uint8" else image
    expected = gridsample.grid_sample(image, grid, mode, boundary, **options)
    call = call_of(image, grid, mode, boundary, **options)
    result = gpu.gather(jnp.asarray(image), jnp.asarray(grid), call, np.dtype(dtype))
    tolerance = 2e-3 if dtype == "float16" else 1e-12
    np.testing.assert_allclose(
        np.asarray(result, "f8"), expected.astype("f8"), rtol=0, atol=tolerance
    )
    if dtype != "float64":
        return
    values = cases.pixels(rng, expected.shape)
    gradients = gpu.backward(
        jnp.asarray(values), jnp.asarray(image), jnp.asarray(grid), call, (True, True)
    )
    references = gridsample.grid_sample_vjp(values, image, grid, mode, boundary, **options)
    for gradient, reference in zip(gradients, references, strict=True):
        np.testing.assert_allclose(gradient, reference, rtol=0, atol=1e-12)
    added = gpu.scatter(jnp.asarray(values), jnp.asarray(grid), call)
    np.testing.assert_allclose(added, references[0], rtol=0, atol=1e-12)
