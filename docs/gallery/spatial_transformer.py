"""A spatial transformer network

A small network sees a rotated photo and predicts the six numbers of an affine map. It is trained
through the sampling itself: it is never told the angle, only shown the upright photo.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from skimage import data

import gridsample
from gridsample.nn import SpatialTransformer

torch.manual_seed(0)
cat = torch.from_numpy(data.chelsea()[:, 75:375].mean(-1) / 255).float()[None, None]
cat = gridsample.interpolate(cat, (64, 64), mode="bilinear", antialias=True)


def turned(angles):
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
    theta = torch.stack([cos, -sin, zero, sin, cos, zero], -1).view(-1, 2, 3)
    size = (len(angles), 1, 64, 64)
    return gridsample.affine_sample(cat, theta, size, padding_mode="border")


localization = torch.nn.Sequential(
    torch.nn.AvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(256, 64), torch.nn.ReLU(),
    torch.nn.Linear(64, 6),
)  # fmt: skip
torch.nn.init.zeros_(localization[-1].weight)
localization[-1].bias.data = torch.tensor([1.0, 0, 0, 0, 1, 0])  # the identity
model = SpatialTransformer(localization, padding_mode="border")
optimizer = torch.optim.Adam(model.parameters(), 5e-3)
for _ in range(400):
    loss = (model(turned(torch.rand(32) * 2 - 1)) - cat).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

seen = turned(torch.tensor([-0.9, -0.3, 0.4, 0.8]))
rows = [torch.cat(list(images[:, 0]), -1) for images in (seen, model(seen).detach())]
plt.imsave("spatial_transformer.png", np.kron(torch.cat(rows), np.ones((2, 2))), cmap="gray")
