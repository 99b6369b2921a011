"""JAX arrays on the CPU: XLA calls the kernels, under every transform."""

from __future__ import annotations

import functools
import logging
import os
import subprocess
import sys
from typing import Any

import cases
import numpy as np
import pytest

import gridsample

jax = pytest.importorskip("jax")
jnp = jax.numpy

from jax import export  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

from gridsample.backends.jax import handler  # noqa: E402
from gridsample.definitions.caches import CALLS  # noqa: E402
from gridsample.kernels.sampling import steps  # noqa: E402

pytestmark = pytest.mark.usefixtures("double_jax")


@pytest.fixture
def arrays() -> tuple[Any, Any]:
    rng = cases.generator("jax programs")
    image, grid = cases.pixels(rng, (2, 3, 7, 8)), rng.uniform(-1.2, 1.2, (2, 4, 5, 2))
    return jnp.asarray(image), jnp.asarray(grid)


def cubic(image: Any, grid: Any) -> Any:
    return gridsample.grid_sample(image, grid, "cubic", "mirror")


def calls_programs(function: Any, *arrays: Any) -> bool:
    """Whether XLA's program calls the handler."""
    return handler.NAME in jax.jit(function).lower(*arrays).as_text()


# The handler --------------------------------------------------------------------------------------


def test_kernels_are_called(arrays: Any) -> None:
    image, grid = arrays
    assert calls_programs(cubic, image, grid)
    assert calls_programs(jax.grad(lambda *arrays: cubic(*arrays).sum(), (0, 1)), image, grid)
    assert calls_programs(lambda image: gridsample.spline_filter(image, 3), image)
    # With NumPy's bits.
    expected = gridsample.grid_sample(*map(np.asarray, arrays), "cubic", "mirror")
    np.testing.assert_array_equal(cubic(image, grid), expected)


def test_many_tasks_run_on_threads_of_xla() -> None:
    rng = cases.generator("jax tasks")
    image, grid = cases.pixels(rng, (2, 4, 40, 50)), rng.uniform(-1, 1, (2, 150, 170, 2))
    result = gridsample.grid_sample(jnp.asarray(image), jnp.asarray(grid), "cubic", "border")
    expected = gridsample.grid_sample(image, grid, "cubic", "border")
    np.testing.assert_array_equal(result, expected)
    values = cases.pixels(rng, expected.shape)
    gradients = gridsample.grid_sample_vjp(*map(jnp.asarray, (values, image, grid)), "cubic")
    references = gridsample.grid_sample_vjp(values, image, grid, "cubic")
    for gradient, reference in zip(gradients, references, strict=True):
        np.testing.assert_allclose(gradient, reference, rtol=0, atol=1e-12 * abs(reference).max())


@pytest.mark.parametrize(("dtype", "points"), [("float32", (4, 2)), ("float64", (11, 13))])
@pytest.mark.parametrize("shared", [False, True])
def test_channels_are_interleaved_as_for_numpy(
    shared: bool, dtype: str, points: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    two_items = 2 * 9 * 5 * 6 * np.dtype(dtype).itemsize
    monkeypatch.setattr(steps, "COPIED_AT_ONCE", two_items)
    CALLS.clear()
    rng = cases.generator("jax channels", shared, points)
    image, values = (
        cases.pixels(rng, (5, 9, 5, 6), dtype),
        cases.pixels(rng, (5, 9, *points), dtype),
    )
    grid = rng.uniform(-1.2, 1.2, (1 if shared else 5, *points, 2)).astype(dtype)
    upstream, *arrays = (jnp.asarray(array) for array in (values, image, grid))
    np.testing.assert_array_equal(
        cubic(*arrays), gridsample.grid_sample(image, grid, "cubic", "mirror")
    )
    for needed in [(True, True), (True, False), (False, True)]:
        options = {"need_input": needed[0], "need_grid": needed[1]}
        result = gridsample.grid_sample_vjp(upstream, *arrays, "cubic", "mirror", **options)
        expected = gridsample.grid_sample_vjp(values, image, grid, "cubic", "mirror", **options)
        for ours, numpys in zip(result, expected, strict=True):
            if numpys is None:
                assert ours is None
                continue
            np.testing.assert_allclose(
                ours, numpys, rtol=0, atol=8 * np.finfo(dtype).eps * abs(numpys).max()
            )


def test_importing_the_backend_loads_little() -> None:
    script = "import sys, jax, gridsample.backends.jax; sys.exit('llvmlite' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


HEADER = """
#define XLA_FFI_API_MAJOR 0
#define XLA_FFI_API_MINOR 2
  _XLA_FFI_API_STRUCT_FIELD(XLA_FFI_Error_Destroy);
  _XLA_FFI_API_STRUCT_FIELD(XLA_FFI_ThreadPool_Schedule);
  _XLA_FFI_API_STRUCT_FIELD(XLA_FFI_ThreadPool_NumThreads);
"""


def test_the_interface_is_read_from_its_header() -> None:
    interface = handler.parse_header(HEADER)
    assert interface.version == (0, 2) and not interface.has_state_type
    assert interface.functions["XLA_FFI_ThreadPool_Schedule"] == 56
    with pytest.raises(ValueError, match="lacks a version"):
        handler.parse_header(HEADER.replace("MAJOR", "OTHER"))
    with pytest.raises(ValueError, match="XLA_FFI_Error_Destroy"):
        handler.parse_header(HEADER.replace("Error_Destroy", "Error_Other"))


def test_another_interface_is_not_used(arrays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, records = cubic(*arrays), list[logging.LogRecord]()
    listener = logging.Handler()
    monkeypatch.setattr(listener, "emit", records.append)
    monkeypatch.setattr(handler, "MAJOR", 7)
    monkeypatch.setattr(handler, "is_available", functools.cache(handler.is_available.__wrapped__))
    logger = logging.getLogger("gridsample")
    logger.addHandler(listener)
    jax.clear_caches()
    try:
        results = [cubic(*arrays), jax.jit(cubic)(*arrays)]
        assert not calls_programs(cubic, *arrays)
    finally:
        logger.removeHandler(listener)
        jax.clear_caches()
    (record,) = records
    assert "the major version of XLA's interface is 0" in record.getMessage()
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)


def test_xla_computes_empty_and_symbolic_sizes(arrays: Any) -> None:
    image, grid = arrays
    assert not calls_programs(cubic, image[:0], grid[:0])
    assert not calls_programs(cubic, image, grid[:, :0])
    # An exported program knows no address of this process.
    exported = export.export(jax.jit(cubic))(image, grid)
    loaded = export.deserialize(exported.serialize())
    assert handler.NAME not in exported.mlir_module()
    np.testing.assert_allclose(loaded.call(image, grid), cubic(image, grid), rtol=0, atol=1e-12)


def test_sizes_of_exported_programs() -> None:
    n, p, h = export.symbolic_shape("n, p, h")

    def exported(function: Any, *shapes: Any) -> Any:
        arguments = [jax.ShapeDtypeStruct(shape, np.float64) for shape in shapes]
        return export.export(jax.jit(function))(*arguments)

    rng = cases.generator("jax sizes")
    image, grid = cases.pixels(rng, (3, 1, 4, 5)), rng.uniform(-1, 1, (3, 7, 2))
    gradient = jax.grad(lambda *arrays: gridsample.grid_sample(*arrays).sum(), (0, 1))
    results = exported(gradient, (n, 1, 4, 5), (n, p, 2)).call(image, grid)
    references = gridsample.grid_sample_vjp(np.ones((3, 1, 7)), image, grid)
    for result, reference in zip(results, references, strict=True):
        np.testing.assert_allclose(result, reference, rtol=0, atol=1e-12)
    resized = exported(lambda image: gridsample.interpolate(image, (7, 3)), (n, 1, 4, 5))
    expected = gridsample.interpolate(image, (7, 3))
    np.testing.assert_allclose(resized.call(image), expected, rtol=0, atol=1e-12)
    splat = exported(lambda *arrays: gridsample.splat(*arrays, (4, 5)), (n, 1, p), (n, p, 2))
    values = cases.pixels(rng, (3, 1, 7))
    np.testing.assert_allclose(
        splat.call(values, grid), gridsample.splat(values, grid, (4, 5)), rtol=0, atol=1e-12
    )
    for function in (gridsample.grid_sample, lambda image, _: gridsample.interpolate(image, 3)):
        with pytest.raises(TypeError, match=r"known sizes, got shape \(3, 1, h, 5\)"):
            exported(function, (3, 1, h, 5), (3, 7, 2))


# Transforms ---------------------------------------------------------------------------------------


def results_of(mode: str, image: Any, grid: Any) -> list[Any]:
    """The results of many transforms."""

    def loss(image: Any, grid: Any) -> Any:
        return (gridsample.grid_sample(image, grid, mode, "constant", fill_value=2) ** 3).sum()

    tangents = jnp.cos(image), jnp.sin(grid)
    gradient = jax.grad(loss, (0, 1))
    return jax.tree.leaves(
        [
            gradient(image, grid),
            jax.jvp(loss, (image, grid), tangents),
            jax.jvp(gradient, (image, grid), tangents),  # forward over reverse
            jax.vjp(gradient, image, grid)[1](tangents),  # reverse over reverse
            jax.jacfwd(loss, (0, 1))(image, grid),
            jax.hessian(loss, 1)(image, grid),
            jax.jvp(jax.jacrev(jax.grad(loss, 1), 0), (image, grid), tangents),  # third order
        ]
    )


@pytest.mark.parametrize(
    ("mode", "rank"), [("linear", 1), pytest.param("linear", 2, marks=pytest.mark.slow)]
)
def test_derivatives_match_jax(mode: str, rank: int, request: pytest.FixtureRequest) -> None:
    rng = cases.generator("jax transforms", mode)
    image, grid = cases.pixels(rng, (1, 2, 3, 4)[: 2 + rank]), rng.uniform(-1.2, 1.2, (2, 2, rank))
    arrays = jnp.asarray(image), jnp.asarray(grid)
    results = jax.jit(results_of, static_argnums=0)(mode, *arrays)
    request.getfixturevalue("without_programs")
    references = jax.jit(results_of, static_argnums=0)(mode, *arrays)
    for result, reference in zip(results, references, strict=True):
        scale = 1 + abs(reference).max()
        np.testing.assert_allclose(result, reference, rtol=0, atol=1e-12 * scale)


def test_other_operations_are_differentiated() -> None:
    rng = cases.generator("jax check_grads")
    values, grid = cases.pixels(rng, (1, 1, 3)), rng.uniform(-0.9, 0.9, (1, 3, 1))
    line = cases.pixels(rng, (5,))
    check_grads(
        lambda *arrays: gridsample.splat(*arrays, (4,), "cubic", "wrap"),
        (values, grid),
        order=2,
        rtol=1e-5,
        eps=1e-5,
    )
    check_grads(lambda line: gridsample.spline_filter(line, 3, axes=0), (line,), order=2)


def repeat(function: Any, axes: Any, arrays: Any) -> Any:
    """The results of `jax.vmap`, computed by a loop."""
    size = next(a.shape[k] for a, k in zip(arrays, axes, strict=True) if k is not None)
    results = [
        function(
            *[a if k is None else jnp.take(a, i, k) for a, k in zip(arrays, axes, strict=True)]
        )
        for i in range(size)
    ]
    return jax.tree.map(lambda *parts: jnp.stack(parts), *results)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (2, 1)])
@pytest.mark.parametrize("items", [(1, 1), (2, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize("coords", ["normalized", "displacement"])
def test_vmap_needs_no_loop(coords: str, items: tuple[int, int], axes: Any) -> None:
    rng = cases.generator("jax vmap", coords, items, axes)
    shapes = [[items[0], 2, 5, 6], [items[1], 3, 4, 2]]
    for shape, axis in zip(shapes, axes, strict=True):
        if axis is not None:
            shape.insert(axis, 3)
    arrays = [jnp.asarray(rng.uniform(-1.2, 1.2, shape)) for shape in shapes]
    weights = jnp.asarray(rng.standard_normal((max(items), 2, 3, 4)))

    @jax.jit
    def sample(image: Any, grid: Any) -> Any:
        options = {"coords": coords, "fill_value": (2.0, -1.0)}
        return gridsample.grid_sample(image, grid, "linear", "constant", **options)

    def loss(*arrays: Any) -> Any:  # not linear, so that a batch has a batch of gradients
        return (sample(*arrays) ** 2 * weights).sum()

    programs = str(jax.make_jaxpr(jax.vmap(sample, axes))(*arrays))
    assert "gridsample_gather" in programs and "scan" not in programs
    functions = sample, jax.grad(loss, (0, 1)), jax.grad(loss, 1)

    # One program: JAX would compile each operation of the loops by itself.
    @jax.jit
    def pairs(*arrays: Any) -> Any:
        results = [
            (jax.vmap(function, axes)(*arrays), repeat(function, axes, arrays))
            for function in functions
        ]
        batched = jax.grad(lambda *a: (jax.vmap(sample, axes)(*a) * weights).sum(), (0, 1))
        looped = jax.grad(lambda *a: (repeat(sample, axes, a) * weights).sum(), (0, 1))
        return [*results, (batched(*arrays), looped(*arrays))]

    for pair in pairs(*arrays):
        for result, reference in zip(*map(jax.tree.leaves, pair), strict=True):
            np.testing.assert_allclose(result, reference, rtol=0, atol=1e-11)


def test_control_flow(arrays: Any) -> None:
    image, grid = arrays
    expected = cubic(image, grid)

    @jax.jit
    def choose(flag: Any, image: Any) -> Any:
        return jax.lax.cond(flag, lambda: cubic(image, grid), lambda: 0 * expected)

    np.testing.assert_array_equal(choose(True, image), expected)
    assert not choose(False, image).any()
    repeated = jax.lax.fori_loop(0, 3, lambda _, total: total + cubic(image, grid), 0 * expected)
    np.testing.assert_allclose(repeated, 3 * expected, rtol=1e-12)
    _, stacked = jax.lax.scan(lambda _, g: (None, cubic(image, g)), None, jnp.stack([grid, -grid]))
    np.testing.assert_array_equal(stacked[0], expected)
    last = jax.lax.while_loop(
        lambda state: state[0] < 2,
        lambda state: (state[0] + 1, cubic(state[1], grid[:, :, :, :])[..., :4, :5]),
        (0, image[..., :4, :5]),
    )
    assert last[1].shape == (2, 3, 4, 5)
    checkpointed = jax.checkpoint(lambda image: cubic(image, grid).sum())
    reference = jax.grad(lambda image: cubic(image, grid).sum())(image)
    np.testing.assert_allclose(jax.grad(checkpointed)(image), reference, rtol=1e-12)


def test_ahead_of_time_compilation_and_donated_buffers(arrays: Any) -> None:
    image, grid = arrays
    expected = np.asarray(cubic(image, grid))
    compiled = jax.jit(cubic).lower(image, grid).compile()
    np.testing.assert_array_equal(compiled(image, grid), expected)
    # The image's memory becomes that of the result, after it was read.
    full_grid = jnp.asarray(np.resize(np.asarray(grid), (2, 7, 8, 2)))
    again = np.asarray(cubic(cubic(image, full_grid), full_grid))
    nested = jax.jit(lambda image: cubic(cubic(image, full_grid), full_grid), donate_argnums=0)
    donated = jnp.array(image)
    np.testing.assert_array_equal(nested(donated), again)
    assert donated.is_deleted()
    assert jax.eval_shape(cubic, image, grid).shape == expected.shape
    with jax.disable_jit():
        np.testing.assert_allclose(cubic(image, grid), expected, rtol=0, atol=1e-12)


# Devices ------------------------------------------------------------------------------------------

SHARDED = """
import re
import jax, jax.numpy as jnp, numpy as np
import gridsample
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("b", "p"))
rng = np.random.default_rng(0)
image = rng.standard_normal((2, 4, 9, 7)).astype("f4")
grid = rng.uniform(-1, 1, (2, 8, 6, 2)).astype("f4")
samples = gridsample.grid_sample(image, grid)
gradients = gridsample.grid_sample_vjp(2 * samples, image, grid)

def place(array, *axes):
    return jax.device_put(array, NamedSharding(mesh, P(*axes)))

def exchanged(function, *arrays):
    text = function.lower(*arrays).compile().as_text()
    return re.findall(r"= \\S+ (all-gather|all-reduce|all-to-all|collective-permute)", text)

sample = jax.jit(lambda image, grid: gridsample.grid_sample(image, grid))
slope = jax.jit(jax.grad(lambda *a: (gridsample.grid_sample(*a) ** 2).sum(), (0, 1)))
for axes in [((), ()), (("b",), ("b",)), ((), (None, "p")), (("b",), ("b", "p")),
             (("b", "p"), ("b",))]:
    arrays = place(image, *axes[0]), place(grid, *axes[1])
    result = sample(*arrays)
    np.testing.assert_allclose(result, samples, atol=1e-6)
    assert exchanged(sample, *arrays) == [], axes
    spec = P(*[(axes[1] or (None,))[0], "p" if axes[0][1:] else None, *axes[1][1:]])
    assert result.sharding.is_equivalent_to(NamedSharding(mesh, spec), 4), (axes, result.sharding)
    for gradient, expected in zip(slope(*arrays), gradients):
        np.testing.assert_allclose(gradient, expected, atol=1e-5)
    assert not set(exchanged(slope, *arrays)) - {"all-reduce"}, axes

first = image[:1]
gradients = gridsample.grid_sample_vjp(2 * gridsample.grid_sample(first, grid), first, grid)
for gradient, expected in zip(slope(place(first), place(grid, "b", "p")), gradients):
    np.testing.assert_allclose(gradient, expected, atol=1e-5)
"""
SHARD_MAP = """
def local(image, grid):
    sampled = jax.shard_map(lambda *a: gridsample.grid_sample(*a), mesh=mesh,
                            in_specs=(P(), P("b", "p")), out_specs=P("b", None, "p"))
    return (sampled(image, grid) ** 2).sum()

for gradient, expected in zip(jax.jit(jax.grad(local, (0, 1)))(first, grid), gradients):
    np.testing.assert_allclose(gradient, expected, atol=1e-5)
"""
FILTERED = """
filtered = jax.jit(lambda image: gridsample.spline_filter(image, 3))(place(image, "b", "p"))
np.testing.assert_allclose(filtered, gridsample.spline_filter(image, 3), atol=1e-5)
assert filtered.sharding.is_equivalent_to(NamedSharding(mesh, P("b", "p")), 4)
splat = jax.jit(lambda values, grid: gridsample.splat(values, grid, (9, 7)))
result = splat(place(samples, "b", None, "p"), place(grid, "b", "p"))
np.testing.assert_allclose(result, gridsample.splat(samples, grid, (9, 7)), atol=1e-5)
"""


RESIZED = """
import re
import jax, jax.numpy as jnp, numpy as np
import gridsample
from gridsample.jax import resize
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, -1), ("b", "p"))
rng = np.random.default_rng(0)
image = rng.standard_normal((2, 4, 12, 8)).astype("f4")

def check(function, expected, spec, *arrays):
    arrays = [jax.device_put(a, NamedSharding(mesh, P(*axes))) for a, axes in arrays]
    function = jax.jit(function)
    result, text = function(*arrays), function.lower(*arrays).compile().as_text()
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * abs(expected).max())
    assert result.sharding.is_equivalent_to(NamedSharding(mesh, P(*spec)), result.ndim), spec
    exchanged = r"= \\S+ (all-gather|all-reduce|all-to-all|collective-permute)"
    assert not re.findall(exchanged, text), (spec, text)

def differentiated(function):
    return lambda *arrays: jax.grad(lambda *a: (function(*a) ** 2).sum())(*arrays)

# Items and channels, and an axis that does not change.
for size, spec in [((5, 11), ("b", "p")), ((5, 8), ("b", None, None, "p")), ((30, 8), ("b",))]:
    for options in [{"mode": "bicubic", "antialias": True}, {"mode": "spline3"}]:
        if options["mode"] == "spline3" and len(spec) > 2:
            continue
        function = lambda image: gridsample.interpolate(image, size, **options)
        expected = gridsample.interpolate(image, size, **options)
        check(function, expected, spec, (image, spec))
        slope = gridsample.interpolate_vjp(2 * expected, image, size, **options)
        check(differentiated(function), slope, spec, (image, spec))
labels = (4 * image).astype("i1")
expected = gridsample.interpolate(labels, (5, 11), mode="label")
function = lambda labels: gridsample.interpolate(labels, (5, 11), mode="label")
check(function, expected, ("b",), (labels, ("b",)))
expected = np.asarray(resize(image, (2, 4, 7, 8), "lanczos3"))
check(lambda a: resize(a, (2, 4, 7, 8), "lanczos3"), expected, ("b", "p"), (image, ("b", "p")))

# Antialiased samples: every device needs all points of its items.
grid = rng.uniform(-1, 1, (2, 5, 6, 2)).astype("f4")
expected = gridsample.grid_sample(image, grid, antialias=True)
function = lambda image, grid: gridsample.grid_sample(image, grid, antialias=True)
sharded = (image, ("b", "p")), (grid, ("b",))
check(function, expected, ("b", "p"), *sharded)
first, second = gridsample.grid_sample_vjp(2 * expected, image, grid, antialias=True)
check(differentiated(function), first, ("b", "p"), *sharded)
check(differentiated(lambda grid, image: function(image, grid)), second, ("b",),
      (grid, ("b",)), (image, ("b",)))
"""


def run(script: str, devices: int) -> None:
    """Run a script in a process with several CPU devices."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=600)


@pytest.mark.slow
def test_sharded_arrays_are_not_gathered() -> None:
    script = SHARDED + (SHARD_MAP if hasattr(jax, "shard_map") else "") + FILTERED
    run(script, 4)


@pytest.mark.slow
def test_resizing_and_antialiasing_exchange_nothing() -> None:
    run(RESIZED, 8)


# Nothing hangs ------------------------------------------------------------------------------------

HANGS = """
import faulthandler, os, threading
faulthandler.dump_traceback_later(500, exit=True)
import jax, jax.numpy as jnp, numpy as np
import gridsample

pid = os.fork()  # before anything is used
rng = np.random.default_rng(0)
# So many taps that there are several tasks.
image = rng.standard_normal((1, 2, 30, 40)).astype("f4")
grid = rng.uniform(-1, 1, (1, 60, 70, 2)).astype("f4")
expected = gridsample.grid_sample(image, grid, "cubic")
call = jax.jit(lambda image, grid: gridsample.grid_sample(image, grid, "cubic"))
jax.block_until_ready(call(image, grid))
if pid == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

failures = []

def work(k):
    try:
        place = jax.devices()[k % len(jax.devices())]
        arrays = jax.device_put((image, grid), place)
        for i in range(CALLS // 8):
            result = call(*arrays)
            if i % 100 == 0:
                np.testing.assert_array_equal(result, expected)
                try:
                    call(image, grid[..., :1])
                except ValueError:
                    pass
        jax.block_until_ready(result)
    except BaseException as error:
        failures.append(error)

threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failures, failures

@jax.jit
def scanned(image):
    def step(image, _):
        samples = gridsample.grid_sample(image, grid, "cubic")
        return image + 0 * samples.sum(), samples.sum()  # one after the other
    return jax.lax.scan(step, image, None, length=10_000)[1]

sums = np.asarray(scanned(image))
assert (sums == sums[0]).all()

@jax.jit
def called_back(image):
    # NumPy only: JAX within a callback can hang by itself.
    def back(image):
        return gridsample.grid_sample(np.asarray(image), grid, "cubic")
    shape = jax.ShapeDtypeStruct(expected.shape, "f4")
    return jax.pure_callback(back, shape, image) + call(image, grid)

np.testing.assert_allclose(called_back(image), 2 * expected, atol=1e-5)
"""


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 8])
def test_concurrent_calls_do_not_deadlock(devices: int) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    run(f"CALLS = 10_000\n{HANGS}", devices)
