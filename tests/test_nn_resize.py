"""The modules that resize: their results, representations and errors."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gridsample
from gridsample.nn import CenterPool, Downsample, PatchDownsample, Pyramid, Upsample


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_upsample_matches_torch(mode: str) -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 3, 5, 7)
    options = {} if mode == "nearest" else {"align_corners": True}
    for size in ({"size": (9, 8)}, {"scale_factor": 2.5}, {"scale_factor": (2.0, 1.5)}):
        mine, theirs = (module(mode=mode, **size, **options) for module in (Upsample, nn.Upsample))
        # Positions are in single precision in torch: 64 roundings of some pixels.
        torch.testing.assert_close(mine(image), theirs(image), rtol=0, atol=64 * 2.0**-23)
        assert not [*mine.parameters()]


def test_downsample_reads_every_pixel() -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 3, 12, 10)
    torch.testing.assert_close(
        Downsample((4, 3))(image), nn.functional.adaptive_avg_pool2d(image, (4, 3))
    )
    smooth = Downsample(scale_factor=0.5, mode="cubic")
    expected = gridsample.interpolate(image, scale_factor=0.5, mode="cubic", antialias=True)
    torch.testing.assert_close(smooth(image), expected)
    for module in (Downsample((4, 3)), smooth):
        leaf = image.clone().requires_grad_()
        (grad,) = torch.autograd.grad(module(leaf).sum(), leaf)
        assert (grad > 0).all()


@pytest.mark.parametrize("mode", ["spline5", "lanczos2", gridsample.methods.keys(-0.6)])
def test_modules_accept_every_method(mode: object) -> None:
    image = torch.randn(1, 2, 9, 10, generator=torch.Generator().manual_seed(0))
    for module, smooth in (
        (Upsample((4, 17), mode=mode), False),
        (Downsample((4, 5), mode=mode), True),
    ):
        expected = gridsample.interpolate(image, module.size, mode=mode, antialias=smooth)
        torch.testing.assert_close(module(image), expected, rtol=0, atol=0)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_patches_are_a_strided_convolution(rank: int) -> None:
    torch.manual_seed(0)
    with pytest.warns(DeprecationWarning, match="torch.nn.Conv2d"):
        module = PatchDownsample(3, 8, 4, rank=rank)
    image = torch.randn(2, 3, *(16, 8, 12)[:rank])
    out = module(image)
    assert out.shape == (2, 8, *(4, 2, 3)[:rank])
    corner = image[(0, slice(None), *(slice(0, 4),) * rank)]
    expected = (module.project.weight[5] * corner).sum() + module.project.bias[5]
    torch.testing.assert_close(out[(0, 5, *(0,) * rank)], expected)
    out.square().sum().backward()
    assert module.project.weight.grad.abs().max() > 0


def test_center_pool_averages_cells() -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 3, 6, 12, dtype=torch.float64)
    even = [[(2 * i + 1) / m - 1 for i in range(m)] for m in (4, 3)]
    torch.testing.assert_close(
        CenterPool(even)(image), nn.functional.adaptive_avg_pool2d(image, (3, 4))
    )
    # Centres at 1 and 6 pixels of 6: the border is 3.5, so that pixel 3 is cut in halves.
    line = torch.arange(6.0, dtype=torch.float64).reshape(1, 1, 6)
    pool = CenterPool([[1 / 3 - 1, 1.0]])
    expected = torch.tensor([[[(0 + 1 + 2 + 1.5) / 3.5, (1.5 + 4 + 5) / 2.5]]]).double()
    torch.testing.assert_close(pool(line), expected)
    assert torch.autograd.gradcheck(CenterPool(even), image[:1, :1].clone().requires_grad_())
    volume = torch.randn(1, 1, 3, 4, 5)
    torch.testing.assert_close(CenterPool([[0.0]] * 3)(volume)[0, 0, 0, 0, 0], volume.mean())


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("pyramid_name", ["gaussian", "laplacian"])
@pytest.mark.parametrize("shape", [(37,), (16, 9), (6, 7, 5)])
def test_pyramids_are_invertible(pyramid_name: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 3, *shape, dtype=torch.float64).requires_grad_()
    pyramid = Pyramid(3, pyramid_name)
    levels = pyramid(image)
    assert [tuple(level.shape[2:]) for level in levels[1:3]] == [
        tuple(-(-n // step) for n in shape) for step in (2, 4)
    ]
    back = pyramid.inverse(levels)
    torch.testing.assert_close(back, image)
    (grad,) = torch.autograd.grad(back.sum(), image)
    torch.testing.assert_close(grad, torch.ones_like(grad))
    # A constant has no details, and is the same at every level.
    constant = torch.full((1, 1, *shape), 3.0, dtype=torch.float64)
    *details, last = pyramid(constant)
    torch.testing.assert_close(last, torch.full_like(last, 3.0))
    for detail in details:
        expected = (
            torch.zeros_like(detail)
            if pyramid_name == "laplacian"
            else torch.full_like(detail, 3.0)
        )
        torch.testing.assert_close(detail, expected)


def test_halving_smooths_by_one_pixel() -> None:
    impulse = torch.zeros(1, 1, 64, dtype=torch.float64)
    impulse[..., 32] = 1
    _, half = Pyramid(1, "gaussian")(impulse)
    places = 2 * torch.arange(32.0, dtype=torch.float64) + 0.5 - 32
    variance = (half[0, 0] * places.square()).sum() / half.sum()
    # That of a normal distribution, which is cut off at four deviations: 1.000 but for 0.1 %.
    assert abs(variance - (half[0, 0] * places).sum() ** 2 - 1) < 5e-3


@pytest.mark.filterwarnings("ignore:gridsample.nn.PatchDownsample:DeprecationWarning")
def test_options_are_shown() -> None:
    assert repr(Upsample(size=(3, 4), mode=("linear", "area"))) == (
        "Upsample(size=(3, 4), mode=('linear', 'area'))"
    )
    assert repr(PatchDownsample(3, 8, 4, bias=False)) == (
        "PatchDownsample(3, 8, patch_size=(4, 4), stride=(4, 4), bias=False)"
    )
    assert repr(CenterPool([[0.5]])) == "CenterPool(x=(0.5,))"


@pytest.mark.filterwarnings("ignore:gridsample.nn.PatchDownsample:DeprecationWarning")
def test_options_are_checked_when_given() -> None:
    with pytest.raises(ValueError, match="either size or scale_factor"):
        Upsample()
    with pytest.raises(ValueError, match="mode 'cubics'"):
        Upsample(2, mode="cubics")
    with pytest.raises(ValueError, match="no meaning"):
        Upsample(2, align_corners=True)
    with pytest.raises(ValueError, match="rank must be"):
        PatchDownsample(3, 8, 4, rank=4)
    with pytest.raises(ValueError, match="stride needs one number"):
        PatchDownsample(3, 8, 4, (1, 2, 3))
    with pytest.raises(ValueError, match="along x must increase"):
        CenterPool([[0.5, 0.5]])
    with pytest.raises(ValueError, match="1 to 8 axes"):
        CenterPool([])
    with pytest.raises(ValueError, match="with 1 spatial axes"):
        CenterPool([[0.0]])(torch.zeros(1, 1, 2, 2))
    with pytest.raises(ValueError, match="kind must be"):
        Pyramid(2, "wavelet")
    with pytest.raises(ValueError, match="levels must be 0 or more"):
        Pyramid(-1)
    with pytest.raises(ValueError, match="mode 'cubics'"):
        Pyramid(1, up="cubics")
    with pytest.raises(ValueError, match="levels must be 3 tensors"):
        Pyramid(2).inverse([torch.zeros(1, 1, 4)])
