"""Learn a displacement field in torch

Two frames, and no flow: start from zero displacement, sample, compare, and let torch's Adam follow
the gradient with respect to the grid. A penalty keeps the field smooth. Only one line differs from
a program with `torch.nn.functional.grid_sample`: displacements are in pixels.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from skimage import data

import gridsample

photo = torch.tensor(data.astronaut()[:256, 100:356].mean(-1) / 255).float()[None, None]
y, x = torch.meshgrid(torch.linspace(0, 6, 256), torch.linspace(0, 6, 256), indexing="ij")
truth = 5 * torch.stack([y.sin(), x.cos()], -1)[None]
target = gridsample.grid_sample(photo, truth, padding_mode="border", coords="displacement")
coarse = torch.zeros(1, 2, 16, 16, requires_grad=True)
optimizer = torch.optim.Adam([coarse], 0.3)
for _ in range(80):
    field = gridsample.interpolate(coarse, (256, 256), mode="bicubic").movedim(1, -1)
    moved = gridsample.grid_sample(photo, field, padding_mode="border", coords="displacement")
    loss = (moved - target).abs().mean() + 1e-5 * coarse.diff(dim=-1).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
before, after = (target - photo).abs(), (target - moved).abs().detach()
assert after.mean() < before.mean() / 5
field = gridsample.fields.flow_colours(field.detach().numpy()[0], 8)
panels = [
    image[0, 0].numpy()[..., None].repeat(3, -1) for image in (photo, target, 4 * before, 4 * after)
]
plt.imsave("torch_training.png", np.hstack([*panels[:2], field / 255.0, *panels[2:]]).clip(0, 1))
