"""Export to ONNX

The exported file holds the standard operator `GridSample`, so any runtime can run it without this
library. Here, onnxruntime computed the picture.
"""

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import torch
from skimage import data

import gridsample


class Barrel(torch.nn.Module):
    """Bends an image like a lens."""

    def forward(self, image):
        grid = gridsample.affine_grid(torch.eye(2, 3)[None], (1, 3, 400, 400))
        grid = grid * (0.55 + 0.45 * grid.square().sum(-1, keepdim=True))
        return gridsample.grid_sample(image, grid, "bicubic", "border")


photo = torch.tensor(data.coffee()[:, 100:500] / 255).permute(2, 0, 1)[None].float()
torch.onnx.export(Barrel().eval(), (photo,), "barrel.onnx", dynamo=True, verbose=False)
session = onnxruntime.InferenceSession("barrel.onnx")
(bent,) = session.run(None, {session.get_inputs()[0].name: photo.numpy()})
assert np.allclose(bent, Barrel()(photo), atol=1e-4)
panels = np.concatenate([photo.numpy(), bent], -1)[0].transpose(1, 2, 0)
plt.imsave("onnx_export.png", panels.clip(0, 1))
