"""Our functions as replacements of torch's."""

from __future__ import annotations

import itertools
import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

import gridsample.torch_compat
from gridsample.backends.torch import internals, other_devices
from gridsample.torch_compat import patch

NAMES = ("grid_sample", "affine_grid", "interpolate")
TORCHS = [getattr(functional, name) for name in NAMES]
BYTES = torch.ones(1, 1, 2, 2, dtype=torch.uint8)


def takes_bytes() -> bool:
    """Whether `torch.nn.functional.grid_sample` accepts bytes, as only ours does."""
    try:
        functional.grid_sample(BYTES, torch.zeros(1, 1, 1, 2), align_corners=False)
    except RuntimeError:
        return False
    return True


def test_a_block_is_patched_and_put_back_even_after_an_error() -> None:
    with pytest.raises(KeyError), patch():
        assert takes_bytes()
        raise KeyError
    assert not takes_bytes()


def test_a_patch_without_a_block_stays_until_undone() -> None:
    switch = patch()
    try:
        assert takes_bytes()
    finally:
        switch.undo()
    assert not takes_bytes()


def test_nested_patches_are_undone_separately() -> None:
    with patch():
        with patch(strict=True):
            assert not takes_bytes()
        assert takes_bytes()
    assert not takes_bytes()


def test_earlier_imports_of_torchs_functions_are_patched_too() -> None:
    before = TORCHS[0]
    with patch():
        assert before is functional.grid_sample
        assert before(BYTES, torch.zeros(1, 1, 1, 2), align_corners=False).item() == 1
        assert pickle.loads(pickle.dumps(before)) is before


def test_drop_in_functions_work_without_patching() -> None:
    out = gridsample.torch_compat.grid_sample(BYTES, torch.zeros(1, 1, 1, 2), align_corners=False)
    assert out.item() == 1
    with pytest.raises(RuntimeError, match="grid_sampler"):
        gridsample.torch_compat.grid_sample(
            BYTES, torch.zeros(1, 1, 1, 2), align_corners=False, strict=True
        )
    assert gridsample.torch_compat.interpolate(BYTES, 1, strict=True).shape == (1, 1, 1, 1)
    assert gridsample.torch_compat.affine_grid(
        torch.zeros(1, 2, 3), (1, 1, 2, 2), align_corners=False
    ).shape == (1, 2, 2, 2)


def test_other_functions_are_not_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(input: Any, size: Any, kernel: Any) -> None: ...

    def closed(*arguments: Any) -> Any:
        return other(*arguments)

    for place, words in ((other, r"takes .*'kernel'"), (closed, "replaced"), (min, "replaced")):
        monkeypatch.setitem(internals.REPLACED, "interpolate", place)
        with pytest.raises(RuntimeError, match=words):
            patch()
        assert not takes_bytes()


def test_an_unchanged_project_gets_the_same_samples() -> None:
    torch.manual_seed(0)
    image, theta = torch.randn(2, 3, 5, 7).double(), torch.randn(2, 2, 3).double()

    def project() -> torch.Tensor:
        grid = functional.affine_grid(theta, image.shape, align_corners=False)
        return functional.grid_sample(
            image, grid, mode="bicubic", padding_mode="reflection", align_corners=False
        )

    theirs = project()
    with patch():
        torch.testing.assert_close(project(), theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("strict", [False, True])
def test_affine_grid_graph_can_be_differentiated_twice(strict: bool) -> None:
    theta = torch.eye(2, 3)[None].requires_grad_()
    with patch(strict=strict):
        grid = functional.affine_grid(theta, (1, 1, 3, 4), align_corners=False)
    grid.sum().backward()
    grid.sum().backward()  # without retain_graph, as torch's own
    assert theta.grad is not None
    assert torch.equal(theta.grad[..., 2], torch.full((1, 2), 24.0))


IMAGE, GRID = torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 1, 2)


@pytest.mark.parametrize(
    "arguments",
    [
        (IMAGE, GRID, "garbage"),
        (IMAGE, GRID, "bilinear", "garbage"),
        (IMAGE[0], GRID),
        (IMAGE, GRID[..., :1]),
        (IMAGE.repeat(2, 1, 1, 1), GRID.repeat(3, 1, 1, 1)),
        (IMAGE[:, :, :0], GRID),
        (IMAGE, GRID.long()),
        (IMAGE.numpy(), GRID.numpy()),
    ],
    ids=["mode", "padding", "rank", "last axis", "N", "empty", "dtype", "array"],
)
def test_sampling_errors_have_torchs_types(arguments: tuple[object, ...]) -> None:
    with pytest.raises(Exception) as theirs:
        functional.grid_sample(*arguments, align_corners=False)
    with patch(), pytest.raises(type(theirs.value)):
        functional.grid_sample(*arguments, align_corners=False)


@pytest.mark.parametrize(
    ("theta", "size"),
    [
        (torch.zeros(1, 2, 3).long(), (1, 1, 2, 2)),
        (torch.zeros(1, 2, 2), (1, 1, 2, 2)),
        (torch.zeros(1, 2, 3), (1, 1, 2, 2, 2)),
        (torch.zeros(1, 2, 3), (1, 1, 0, 2)),
        (torch.zeros(1, 2, 3), (1, 1)),
    ],
    ids=["dtype", "shape", "size", "empty", "short"],
)
def test_affine_errors_have_torchs_types(theta: torch.Tensor, size: tuple[int, ...]) -> None:
    with pytest.raises(Exception) as theirs:
        functional.affine_grid(theta, size, align_corners=False)
    with patch(), pytest.raises(type(theirs.value)):
        functional.affine_grid(theta, size, align_corners=False)


CALLS: list[Callable[[], torch.Tensor]] = [
    lambda: functional.grid_sample(IMAGE + 1, GRID),
    lambda: functional.affine_grid(torch.zeros(1, 2, 3), (1, 1, 2, 2)),
]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_omitted_align_corners_warns_as_in_torch(
    call: Callable[[], torch.Tensor], strict: bool
) -> None:
    with pytest.warns(UserWarning) as theirs:
        call()
    with patch(strict=strict), pytest.warns(UserWarning) as ours:
        call()
    assert [str(parameter.message) for parameter in ours] == [
        str(parameter.message) for parameter in theirs
    ]
    assert [parameter.filename for parameter in ours] == [__file__]  # where the caller is


def test_errors_are_torchs_with_a_note_of_our_reason() -> None:
    with pytest.raises(RuntimeError) as theirs:
        functional.grid_sample(IMAGE[:, :, :0], GRID, align_corners=False)
    with patch(), pytest.raises(RuntimeError) as ours:
        functional.grid_sample(IMAGE[:, :, :0], GRID, align_corners=False)
    assert str(ours.value) == str(theirs.value)
    assert "empty spatial axis" in ours.value.__notes__[0]


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_arguments_only_torch_accepts_are_left_to_torch() -> None:
    image = torch.quantize_per_tensor(torch.rand(1, 2, 4, 4), 0.1, 0, torch.quint8)
    theirs = functional.interpolate(image, 8)
    with patch():
        assert functional.interpolate(image, 8).equal(theirs)


# interpolate --------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((2, 3, 9), {"size": 5, "mode": "linear"}),
        ((2, 3, 9), {"scale_factor": 1.7, "mode": "nearest"}),
        ((2, 3, 6, 7), {"scale_factor": (0.6, 1.9), "mode": "bilinear"}),
        ((2, 3, 6, 7), {"scale_factor": 1.3, "mode": "bicubic", "recompute_scale_factor": True}),
        ((2, 3, 6, 7), {"size": (9, 4), "mode": "bicubic", "align_corners": True}),
        ((2, 3, 6, 7), {"size": [3, 4], "mode": "bilinear", "antialias": True}),
        ((2, 3, 6, 7), {"size": torch.Size((3, 4)), "mode": "area"}),
        ((2, 3, 6, 7), {"scale_factor": 0.5, "mode": "area"}),
        ((2, 3, 6, 7), {"size": 5, "mode": "nearest-exact"}),
        ((1, 2, 3, 4, 5), {"scale_factor": 2, "mode": "trilinear", "align_corners": False}),
    ],
    ids=str,
)
def test_an_unchanged_project_resizes_the_same(
    shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    image = torch.randn(shape, dtype=torch.float64, requires_grad=True)

    def project() -> list[torch.Tensor]:
        out = functional.interpolate(image, **options)
        upstream = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
        return [out, *torch.autograd.grad(out, image, upstream)]

    theirs = project()
    with patch():
        torch.testing.assert_close(project(), theirs, rtol=1e-12, atol=1e-12)


def test_torch_modules_use_patched_functions() -> None:
    image = torch.arange(6, dtype=torch.int32).reshape(1, 1, 6)
    upsample = torch.nn.Upsample(3, mode="linear")
    with pytest.raises(RuntimeError):
        upsample(image)
    with patch():
        assert upsample(image).tolist() == [[[0, 2, 4]]]  # 0.5, 2.5 and 4.5, half to even


PLANE = torch.zeros(1, 1, 4, 4)


@pytest.mark.parametrize(
    ("image", "options"),
    [
        (PLANE, {"size": 2, "mode": "garbage"}),
        (PLANE[0, 0], {"size": 2}),
        (PLANE[(None,) * 7], {"size": 2}),
        (PLANE, {}),
        (PLANE, {"size": 2, "scale_factor": 2}),
        (PLANE, {"size": (2, 2, 2)}),
        (PLANE, {"scale_factor": (2, 2, 2)}),
        (PLANE, {"size": (2.5, 2)}),
        (PLANE, {"size": 2, "align_corners": True}),
        (PLANE, {"size": 2, "recompute_scale_factor": True}),
        (PLANE, {"size": 0}),
        (PLANE, {"size": (-1, 2), "mode": "bilinear"}),
        (PLANE, {"scale_factor": 0.1}),
        (PLANE, {"scale_factor": -2.0}),
        (PLANE[:, :, :0], {"size": 2}),
        (PLANE.to(torch.float8_e5m2), {"size": 2}),
        (PLANE.numpy(), {"size": 2}),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_resizing_errors_have_torchs_types(image: Any, options: dict[str, Any]) -> None:
    with pytest.raises(Exception) as theirs:
        functional.interpolate(image, **options)
    with patch(), pytest.raises(type(theirs.value)):
        functional.interpolate(image, **options)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "area"])
def test_images_of_more_axes_than_torchs(mode: str) -> None:
    """They are resized as by `gridsample.interpolate`; ``strict`` has torch's errors."""
    image = torch.arange(3 * 4 * 2 * 5.0).reshape(1, 1, 3, 4, 2, 5)
    with pytest.raises(NotImplementedError) as theirs:
        functional.interpolate(image, size=3, mode=mode)
    with patch():
        result = functional.interpolate(image, size=3, mode=mode)
    torch.testing.assert_close(result, gridsample.interpolate(image, size=(3,) * 4, mode=mode))
    with patch(strict=True), pytest.raises(type(theirs.value)):
        functional.interpolate(image, size=3, mode=mode)


def test_inputs_only_torch_supports_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def theirs(image: torch.Tensor, *options: object, **more: object) -> torch.Tensor:
        seen.append(options)
        return image

    monkeypatch.setattr(internals.originals, "interpolate", theirs)
    monkeypatch.setattr(other_devices, "has_kernels", lambda *names: True)

    class OtherDevice(torch.Tensor):
        device = torch.device("xla")

        __torch_function__ = torch._C._disabled_torch_function_impl

    with patch():
        functional.interpolate(PLANE.as_subclass(OtherDevice), 2)
    assert seen == [([2, 2], None, "nearest", None)]


# Strictly as in torch -----------------------------------------------------------------------------

KINDS = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int32,
    torch.int64, torch.bool, torch.complex64, torch.float8_e5m2,
)  # fmt: skip


def outcome(call: Callable[[], torch.Tensor]) -> Any:
    """The outcome of a call: the type and text of an error, or a tensor."""
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


def check_strict(call: Callable[[], torch.Tensor]) -> None:
    """Torch's error, or a tensor that differs from torch's by rounding alone."""
    theirs = outcome(call)
    with patch(strict=True):
        ours = outcome(call)
    if not isinstance(theirs, torch.Tensor):
        assert ours == theirs
        return
    assert (ours.dtype, ours.stride()) == (theirs.dtype, theirs.stride())
    wide = torch.complex128 if theirs.is_complex() else torch.float64
    error = 64 * torch.finfo(theirs.dtype).eps if theirs.is_floating_point() else 0
    torch.testing.assert_close(
        ours.to(wide), theirs.to(wide), rtol=error, atol=8 * error, equal_nan=True
    )


def random_tensor(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    return (torch.rand(shape, generator=generator) * 4 - 2).to(dtype)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_strict_accepts_the_dtypes_of_torch(dtype: torch.dtype) -> None:
    image = random_tensor((1, 2, 4, 5), dtype)
    for other in KINDS:
        grid = random_tensor((1, 2, 3, 2), other)
        check_strict(lambda: functional.grid_sample(image, grid, align_corners=False))  # noqa: B023
    for mode, antialias in itertools.product(
        ("nearest", "nearest-exact", "bilinear", "bicubic", "area"), (False, True)
    ):
        check_strict(lambda: functional.interpolate(image, (3, 7), None, mode, antialias=antialias))  # noqa: B023
    theta = random_tensor((1, 2, 3), dtype)
    check_strict(lambda: functional.affine_grid(theta, (1, 1, 3, 4), align_corners=False))


@pytest.mark.parametrize(
    ("image", "grid"),
    [
        ((2, 2, 4, 5), (1, 2, 3, 2)),
        ((1, 2, 4, 5), (3, 2, 3, 2)),
        ((2, 4, 5), (2, 3, 1)),
        ((1, 2, 3, 4, 5), (1, 1, 2, 3, 3)),
        ((1, 2, 0, 5), (1, 2, 3, 2)),
        ((1, 0, 4, 5), (1, 2, 3, 2)),
        ((1, 2, 4, 5), (1, 3, 2)),
        ((1, 2, 1, 1), (1, 2, 3, 2)),
    ],
    ids=str,
)
def test_strict_accepts_the_shapes_and_names_of_torch(
    image: tuple[int, ...], grid: tuple[int, ...]
) -> None:
    tensors = random_tensor(image), random_tensor(grid)
    for mode in ("bilinear", "nearest", "bicubic", "cubic", ("nearest", "bilinear"), None):
        for padding_mode in ("zeros", "reflection", "wrap"):
            check_strict(lambda: functional.grid_sample(*tensors, mode, padding_mode, False))  # type: ignore[arg-type]  # noqa: B023


def last(image: torch.Tensor) -> torch.Tensor:
    """The same image with its channels last in memory."""
    form = torch.channels_last if image.dim() == 4 else torch.channels_last_3d
    return image.contiguous(memory_format=form)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as it is": lambda image: image,
    "last": last,
    "an item of last": lambda image: last(image)[0][None],
    "cut from last": lambda image: last(image)[:, :, 1:-1, ::2],
    "transposed": lambda image: image.transpose(-1, -2),
}


@pytest.mark.covering
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "shape", [(1, 3, 7, 9), (2, 8, 7, 9), (2, 1, 7, 9), (2, 3, 5, 4, 6)], ids=str
)
def test_strict_results_have_torchs_memory_format(shape: tuple[int, ...], layout: str) -> None:
    image = LAYOUTS[layout](random_tensor(shape))
    rank = image.dim() - 2
    grid = random_tensor((image.shape[0], *(2, 3, 4)[:rank], rank))
    check_strict(lambda: functional.grid_sample(image, grid, align_corners=False))
    modes = ("nearest", "area", *(("bilinear", "bicubic") if rank == 2 else ("trilinear",)))
    for i, mode in enumerate(modes):
        # Both sizes of each mode, one with every second layout.
        size = (5, 4, 7)[:rank] if (i + [*LAYOUTS].index(layout)) % 2 else (1,) * rank
        check_strict(lambda: functional.interpolate(image, size, mode=mode))  # noqa: B023


# An output of n or 2n pixels, for which some of torch's functions ignore the factor: with channels
# last, or if the output is small.  The last ones are large, or computed in double precision.
@pytest.mark.parametrize(
    ("shape", "factors"),
    [
        ((1, 1, 3, 1), (2.1, 1)),
        ((1, 1, 3, 1), (1.1, 1)),
        ((1, 5, 4, 3), (1.2, 2.3)),
        ((1, 5, 100, 80), (1.009, 1.01)),
        ((1, 5, 4, 3, 2), (1.2, 2.3, 1.4)),
        ((1, 2, 40), (1.05,)),
        ((2, 3, 90, 70), 1.01),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8], ids=str)
def test_strict_nearest_selects_torchs_pixels(
    shape: tuple[int, ...], factors: Any, dtype: torch.dtype
) -> None:
    image = torch.arange(math.prod(shape)).remainder(251).reshape(shape).to(dtype)
    for form in (image, last(image)) if image.dim() > 3 else (image,):
        for mode in ("nearest", "nearest-exact"):
            check_strict(lambda: functional.interpolate(form, None, factors, mode))  # noqa: B023


@given(data=st.data())
def test_strict_nearest_selects_torchs_pixels_by_any_factor(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    channels = data.draw(st.sampled_from((1, 3, 5)))
    sizes = data.draw(st.lists(st.integers(1, 40 if rank < 3 else 6), min_size=rank, max_size=rank))
    factor = st.floats(0.5, 2.5).filter(lambda s: s * min(sizes) >= 1)
    factors = data.draw(st.lists(factor, min_size=rank, max_size=rank))
    dtype = data.draw(st.sampled_from((torch.float32, torch.float64)))
    shape = (1, channels, *sizes)
    image = torch.arange(math.prod(shape), dtype=dtype).reshape(shape)
    image = last(image) if rank > 1 and data.draw(st.booleans()) else image
    theirs = functional.interpolate(image, scale_factor=factors)
    ours = gridsample.torch_compat.interpolate(image, scale_factor=factors, strict=True)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("strict", [False, True])
def test_autocast_dtypes_match_torch(strict: bool) -> None:
    real = (torch.float32, torch.float16, torch.bfloat16)
    pairs = [*itertools.product(real, real), (torch.float64, torch.float64)]
    with torch.autocast("cpu", torch.bfloat16):
        for first, second in pairs:
            tensors = random_tensor((1, 2, 4, 5), first), random_tensor((1, 2, 3, 2), second)
            theirs = functional.grid_sample(*tensors, align_corners=False).dtype
            with patch(strict=strict):
                assert functional.grid_sample(*tensors, align_corners=False).dtype == theirs
            theta = random_tensor((1, 2, 3), first)
            theirs = functional.affine_grid(theta, (1, 1, 4, 4), align_corners=False).dtype
            with patch(strict=strict):
                ours = functional.affine_grid(theta, (1, 1, 4, 4), align_corners=False).dtype
                assert ours == (theirs if strict else first)
                assert functional.interpolate(tensors[0], 3).dtype == first


@pytest.mark.covering
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_strict_matches_torch_at_invalid_coordinates(
    mode: str, padding_mode: str, rank: int
) -> None:
    odd = (torch.nan, torch.inf, -torch.inf, 3e38, -3e38, 0.3)
    grid = torch.tensor([*itertools.product(odd, repeat=rank)]).reshape(1, -1, *(1,) * rank)
    grid = grid.reshape(1, -1, *(1,) * (rank - 1), rank)
    image = random_tensor((1, 2, *(5, 6, 7)[:rank]))
    for corners in (False, True):
        check_strict(lambda: functional.grid_sample(image, grid, mode, padding_mode, corners))  # noqa: B023


def test_strict_gradients_are_finite_where_a_coordinate_is_invalid() -> None:
    image = random_tensor((1, 2, 5, 6)).requires_grad_()
    grid = torch.tensor([[[[torch.nan, 0.0], [0.25, 0.25]]]], requires_grad=True)
    with patch(strict=True):
        out = functional.grid_sample(image, grid, padding_mode="border", align_corners=False)
        gradients = torch.autograd.grad(out.sum(), (image, grid))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert gradients[0].sum() == 2  # of the point that is somewhere, in two channels
    assert not gradients[1][0, 0, 0].any()
    assert gradients[1][0, 0, 1].all()


@pytest.mark.parametrize(
    "size",
    [
        (1, 1, 2, 3), [1, 1, 2, 3], (2, 1, 2, 3), (1, 1, 2, 3, 4), (1, 1, 3), (1, 1, 0, 3),
        (1, 0, 2, 3), (1, 1, 2.0, 3), (1, -1, 2, 3), (True, 1, 2, 3), 5, torch.tensor([1, 1, 2, 3]),
    ],
    ids=str,
)  # fmt: skip
def test_strict_accepts_the_sizes_of_torch(size: Any) -> None:
    check_strict(lambda: functional.affine_grid(random_tensor((1, 2, 3)), size, align_corners=True))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("size", [(1, 1, 1, 3), (1, 1, 2, 3)], ids=str)
def test_strict_warns_of_an_axis_of_one_pixel_as_torch_does(
    size: tuple[int, ...], strict: bool
) -> None:
    def words() -> list[str]:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            functional.affine_grid(random_tensor((1, 2, 3)), size, align_corners=True)
        return [str(function.message) for function in seen]

    theirs = words()
    assert len(theirs) == (1 in size[2:])
    with patch(strict=strict):
        assert words() == (theirs if strict else [])


@pytest.mark.parametrize(
    "options",
    [
        {"size": 5}, {"scale_factor": 2}, {"size": (5, 5)}, {"size": 0}, {"scale_factor": 0.01},
        {"size": 2.5}, {}, {"size": 3, "scale_factor": 2}, {"size": True},
        {"size": torch.tensor(4)}, {"scale_factor": torch.tensor(2.0)},
        {"size": 3, "antialias": True}, {"size": 3, "align_corners": True},
        {"size": 3, "recompute_scale_factor": True}, {"scale_factor": -2.0},
    ],
    ids=str,
)  # fmt: skip
def test_strict_resizes_like_torch(options: dict[str, Any]) -> None:
    images = (
        random_tensor((2, 3, 9)),
        random_tensor((2, 3, 7, 9)),
        random_tensor((3, 9)),
        random_tensor((2, 0, 5, 5)),
    )
    for image, mode in itertools.product(images, ("nearest", "linear", "bilinear", "mitchell")):
        check_strict(lambda: functional.interpolate(image, mode=mode, **options))  # noqa: B023
