"""`gridsample.operators.apply_lut`, against plain loops and Pillow."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import numpy as np
import pytest

from gridsample.operators import apply_lut

MODES = ["linear", "tetrahedral"]


def entry(table: Any, colour: Any, mode: str) -> Any:
    """Look up one colour, in units of entries with x first, in a table (K, *sizes)."""
    sizes = table.shape[:0:-1]
    places = [min(max(c, 0), n - 1) for c, n in zip(colour, sizes, strict=True)]
    base = [min(int(p), max(n - 2, 0)) for p, n in zip(places, sizes, strict=True)]
    t = [p - b for p, b in zip(places, base, strict=True)]

    def at(steps: Any) -> Any:
        ends = [min(b + s, n - 1) for b, s, n in zip(base, steps, sizes, strict=True)]
        return table[(slice(None), *ends[::-1])]

    total = np.zeros(table.shape[0])
    if mode == "linear":
        for steps in itertools.product((0, 1), repeat=len(t)):
            total += np.prod([x if s else 1 - x for x, s in zip(t, steps, strict=True)]) * at(steps)
        return total
    order, steps = sorted(range(len(t)), key=lambda d: -t[d]), [0] * len(t)
    levels = [1.0, *[t[d] for d in order], 0.0]
    for k in range(len(t) + 1):
        total += (levels[k] - levels[k + 1]) * at(steps)
        if k < len(t):
            steps[order[k]] = 1
    return total


def defined(image: Any, table: Any, mode: str, low: Any = 0.0, high: Any = 1.0) -> Any:
    """Look up every pixel of an image (N, C, P) of floats."""
    sizes = np.array(table.shape[:1:-1])
    low, high = (np.broadcast_to(end, image.shape[1])[:, None] for end in (low, high))
    places = (image - low) / (high - low) * (sizes - 1)[:, None]
    result = np.zeros((image.shape[0], table.shape[1], image.shape[2]))
    for n, p in np.ndindex(image.shape[0], image.shape[2]):
        own = table[n if len(table) > 1 else 0]
        result[n, :, p] = entry(own, places[n, :, p], mode)
    return result


def inputs(*sizes: int, items: int = 2, tables: int = 1, curves: int = 3) -> Any:
    """Colours, some of them outside or with equal fractions, and a table with sizes z, y, x."""
    rng = cases.generator("tables", *sizes)
    image = rng.uniform(-0.2, 1.2, (items, len(sizes), 11))
    image[:, :, 0], image[:, :, 1], image[:, :, 2] = 0.4, 1.0, 0.0
    return image, rng.uniform(0, 1, (tables, curves, *sizes))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", [(4, 3), (5, 2, 4), (3, 1, 4, 2)], ids=str)
def test_colours_are_those_of_plain_loops(sizes: Any, mode: str) -> None:
    image, table = inputs(*sizes)
    expected = defined(image, table, mode)
    result = apply_lut(image, table, mode)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-13)
    # Several tables; spatial axes; channels last.
    image, table = inputs(*sizes, tables=2)
    expected = defined(image, table, mode)
    shaped = np.moveaxis(image.reshape(2, len(sizes), 11, 1), 1, -1)
    result = apply_lut(shaped, table, mode, channel_axis=-1)
    assert result.shape == (2, 11, 1, 3)
    np.testing.assert_allclose(result[:, :, 0], np.moveaxis(expected, 1, 2), rtol=1e-12, atol=1e-13)
    low, high = [-0.3, *[0.1] * (len(sizes) - 1)], 2.0
    result = apply_lut(image, table, mode, domain=(low, high))
    expected = defined(image, table, mode, low, high)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-13)


def test_curves() -> None:
    rng = cases.generator("curves")
    image, table = rng.uniform(-0.1, 1.1, (2, 3, 4, 5)), rng.uniform(0, 1, (1, 3, 9))
    knots = np.linspace(0, 1, 9)
    result = apply_lut(image, table, "tetrahedral", domain=(0, [1, 1, 1]))
    for k in range(3):
        np.testing.assert_allclose(result[:, k], np.interp(image[:, k], knots, table[0, k]))
        shared = apply_lut(image, table[:, k : k + 1])
        np.testing.assert_allclose(shared, np.interp(image, knots, table[0, k]))
        coloured = apply_lut(image[:, :1], table)  # a colour map
        np.testing.assert_allclose(coloured[:, k], np.interp(image[:, 0], knots, table[0, k]))
    negative = np.array([[np.arange(256)[::-1]]], np.uint8)
    photo = rng.integers(0, 256, (1, 3, 7), np.uint8)
    np.testing.assert_array_equal(apply_lut(photo, negative), 255 - photo)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "uint32", "float16", "float32"])
def test_dtypes(dtype: str, mode: str) -> None:
    image, table = inputs(5, 4, 3)
    kind = np.dtype(dtype)
    top = 1 if kind.kind == "f" else np.iinfo(kind).max
    image = (np.clip(image, 0, 1) * top).astype(kind)
    expected = defined(image.astype(float) / top, table, mode)
    for entries in (table, table.astype(np.float32)):
        result = apply_lut(image, entries, mode)
        assert result.dtype == kind
        # Rounded once; in float32, the sums differ by a few units in the last place.
        limit = {"float16": 2**-11, "float32": 2**-20}.get(dtype, 0.5 / top + 2**-20)
        np.testing.assert_allclose(result / top, expected, rtol=0, atol=limit)


def test_layouts_and_threads_change_nothing() -> None:
    image = cases.generator("parts").integers(0, 256, (2, 300, 301, 3), np.uint8)
    levels = np.linspace(0, 1, 5)
    identity = np.stack(np.meshgrid(levels, levels, levels, indexing="ij")[::-1])[None]
    curves, entries = levels.repeat(3).reshape(1, 5, 3).transpose(0, 2, 1), np.linspace(0, 1, 256)
    calls = [(table, mode) for table in (identity, curves) for mode in MODES]
    # Nearest entries are looked up in parts of the image.
    for table, mode in (*calls, (entries[None, None], "nearest")):
        result = apply_lut(image, table, mode, channel_axis=-1)
        np.testing.assert_array_equal(result, image)
        assert result.strides == image.strides
        planes = image.transpose(0, 3, 1, 2)
        for view in (planes, np.ascontiguousarray(planes), planes[:, :, ::-1].copy()[:, :, ::-1]):
            result = apply_lut(view, table, mode, threads=1)
            np.testing.assert_array_equal(result, planes)


@pytest.mark.parametrize("mode", MODES)
def test_one_pass_and_compositions_agree(mode: str) -> None:
    """Of more channels than programs write out, the result is composed."""
    image, table = inputs(4, 3, 5, curves=9)
    image[1, 0, 4] = np.nan
    composed = apply_lut(image, table, mode)
    np.testing.assert_allclose(
        apply_lut(image, table[:, :7], mode), composed[:, :7], rtol=1e-12, atol=1e-13
    )
    swapped = apply_lut(image.astype(">f8"), table.astype(">f8"), mode)
    np.testing.assert_allclose(swapped, composed, rtol=1e-12, atol=1e-13)


def test_colours_of_pillow() -> None:
    pillow = pytest.importorskip("PIL.Image")
    from PIL import ImageFilter

    rng = cases.generator("pillow")
    photo, size = rng.integers(0, 256, (40, 50, 3), np.uint8), 9
    table = rng.uniform(0, 1, (1, 3, size, size, size))
    numbers = np.moveaxis(table[0], 0, -1).ravel().tolist()
    other = np.asarray(pillow.fromarray(photo).filter(ImageFilter.Color3DLUT(size, numbers)))
    result = apply_lut(photo[None], table, channel_axis=-1)[0]
    # Pillow computes with integers of 16 bits.
    assert np.abs(result.astype(int) - other).max() <= 1


def test_splines_and_undefined_colours() -> None:
    image, _ = inputs(6, 5, 7)
    z, y, x = np.meshgrid(*[np.linspace(0, 1, n) for n in (6, 5, 7)], indexing="ij")
    square = (x * x + y * z)[None, None]
    image = np.clip(image, 0.25, 0.75)  # away from the edges, which are clamped
    expected = image[:, :1] ** 2 + image[:, 1:2] * image[:, 2:]
    np.testing.assert_allclose(apply_lut(image, square, "catmull-rom"), expected, rtol=1e-12)
    image[0, 1, 3] = np.nan
    for mode in MODES:
        result = apply_lut(image, square, mode)
        assert np.isnan(result[0, :, 3]).all()
        assert np.isnan(result).sum() == 1


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    image, table = (torch.from_numpy(array) for array in inputs(4, 3, 2, items=1, curves=2))
    image = image[..., 3:7].clone().requires_grad_()  # fractions that are not equal
    table.requires_grad_()
    for mode in MODES:
        result = apply_lut(image, table, mode)
        expected = defined(image.detach().numpy(), table.detach().numpy(), mode)
        np.testing.assert_allclose(result.detach(), expected, rtol=1e-12, atol=1e-13)
        assert torch.autograd.gradcheck(lambda *a, m=mode: apply_lut(*a, m), (image, table))
        assert torch.autograd.gradgradcheck(lambda *a, m=mode: apply_lut(*a, m), (image, table))
    curves = table[:, :, 0, 0]
    pair = image[:, :2]
    assert torch.autograd.gradcheck(apply_lut, (pair, curves))
    pixels = torch.randint(0, 256, (1, 3, 5, 4), dtype=torch.uint8)
    same = apply_lut(pixels.numpy(), table.detach().numpy())
    with torch.no_grad():
        assert (apply_lut(pixels, table).repeat(1, 2, 1, 1)[:, :2].numpy() == same).all()


def test_jax_arrays() -> None:
    jax = pytest.importorskip("jax")
    image, table = (array.astype(np.float32) for array in inputs(4, 3, 2, items=1))
    upstream = cases.generator("upstream").standard_normal((1, 3, 11)).astype(np.float32)
    for mode in MODES:

        def total(image: Any, table: Any, mode: str = mode) -> Any:
            return (apply_lut(image, table, mode) * upstream).sum()

        result = jax.jit(apply_lut, static_argnums=2)(image, table, mode)
        np.testing.assert_allclose(result, defined(image, table, mode), rtol=1e-5, atol=1e-5)
        # The result is linear in the table.
        by_image, by_table = jax.jit(jax.grad(total, (0, 1)))(image, table)
        np.testing.assert_allclose(
            (by_table * table).sum(), total(image, table), rtol=1e-5, atol=1e-5
        )
        step = np.zeros_like(image)
        step[0, 1, 5] = 1e-2
        slope = (total(image + step, table) - total(image - step, table)) / 2e-2
        np.testing.assert_allclose(by_image[0, 1, 5], slope, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("image", "table", "options", "message"),
    [
        (
            (1, 4, 5),
            (1, 3, 2, 2, 2),
            {},
            "but the image has 4; pass its first 3 if",
        ),
        ((1, 2, 5), (1, 3, 2, 2, 2), {}, "takes 3 channels, but the image has 2$"),
        ((1, 5, 5, 3), (1, 3, 2, 2, 2), {}, "has 5; pass channel_axis=-1 if"),
        ((1, 3, 5), (1, 2, 9), {}, "2 curves, but the image has 3 channels"),
        ((3, 3, 5), (2, 3, 2, 2, 2), {}, "2 tables for 3 images"),
        ((3,), (1, 3, 9), {}, "image must be"),
        ((1, 3, 5), (3, 9), {}, "table must be"),
        ((1, 3, 5), (1, 3, 0), {}, "table must be"),
        ((1, 3, 5), (1, 1, 9), {"domain": (1, 0)}, "low < high"),
        ((1, 3, 5), (1, 1, 9), {"domain": (0, 10**400)}, "each a number or 3"),
        ((1, 3, 5), (1, 1, 9), {"domain": (-1e308, 1e308)}, "finite width"),
        ((1, 3, 5), (1, 1, 9), {"domain": (0, 1e-320)}, "too narrow for float64"),
        ((0, 3, 5), (1, 1, 9), {"mode": "cube"}, "mode"),
        ((1, 0, 5), (1, 1, 9), {"mode": "nearest"}, "at least one channel"),
        ((), (1, 1, 9), {"channel_axis": -1}, "image must be"),
        ((1, 3, 5), (1, 1, 9), {"domain": 1}, "each a number or 3"),
        ((1, 3, 5), (1, 1, 9), {"domain": (0, [1, 1])}, "each a number or 3"),
        ((1, 3, 5), (1, 1, 9), {"mode": "cube"}, "mode"),
        ((1, 3, 5), (1, 1, 9), {"channel_axis": 0}, "channel_axis"),
    ],
)
def test_errors(image: Any, table: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        apply_lut(np.zeros(image), np.zeros(table), **options)


@pytest.mark.parametrize("mode", MODES)
def test_entries_that_are_not_finite_are_of_their_cells_only(mode: str) -> None:
    torch = pytest.importorskip("torch")
    image = np.array([[[1.0], [1.0]]])
    table = np.array([[[[1.0, np.nan, 4.0], [0.0, np.inf, 3.0]]]])
    for like in (np.asarray, torch.from_numpy):
        assert apply_lut(like(image), like(table), mode).item() == 3
        # On an axis of one entry, infinite values are moved to it.
        far = apply_lut(like(np.array([[[np.inf], [-np.inf]]])), like(table[:, :, 1:, 2:]), mode)
        assert far.item() == 3


def test_types_and_empty_images() -> None:
    with pytest.raises(TypeError, match="mode must be a string or a Method"):
        apply_lut(np.zeros((1, 1, 5)), np.zeros((1, 1, 5)), mode=np.array(["linear"] * 3))
    with pytest.raises(TypeError, match="image has dtype bool"):
        apply_lut(np.zeros((1, 1, 5), bool), np.zeros((1, 1, 5)))
    with pytest.raises(TypeError, match="table has dtype complex64"):
        apply_lut(np.zeros((1, 1, 5)), np.zeros((1, 1, 5), np.complex64))
    for mode in MODES:
        for shape in ((0, 2, 3), (2, 2, 0), (1, 2, 0, 4)):
            result = apply_lut(np.zeros(shape), np.zeros((1, 3, 2, 2)), mode)
            assert result.shape == (shape[0], 3, *shape[2:])
        assert apply_lut(np.zeros((2, 2)), np.ones((1, 3, 2, 2)), mode).tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("mode", MODES)
def test_no_entry_beyond_the_table_is_read(mode: str) -> None:
    """Not even with the share 0, which would make a result NaN here."""
    image, table = inputs(3, 1, 4, items=1, curves=1)
    memory = np.full(table.size + 40, np.nan)
    inner = memory[20:-20].reshape(table.shape)
    inner[...] = table
    image[0, :, 3] = -np.inf, 0.5, np.inf
    image[0, 0, 5] = np.nan
    result = apply_lut(image, inner, mode)
    assert np.isfinite(np.delete(result, 5, -1)).all()
    np.testing.assert_array_equal(result, apply_lut(image, table, mode))
