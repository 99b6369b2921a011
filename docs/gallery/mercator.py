"""Relief to Web Mercator: tiles equal the whole

Shaded heights near Jacksboro, Tennessee, in degrees, and in Web Mercator, tile by tile. The plan of
positions gives each pixel its place, whatever tile it is in: the tiles equal the whole to the last
bit, and nothing shows where they meet (white lines).
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook, colormaps
from matplotlib.colors import LightSource

import gridsample
from gridsample.geo import Raster, positions

data = cbook.get_sample_data("jacksboro_fault_dem.npz")
heights, dx, dy = data["elevation"].astype(float), float(data["dx"]), float(data["dy"])
light = LightSource(azdeg=315, altdeg=45)
shaded = light.shade(heights, colormaps["gist_earth"], vert_exag=4, dx=74, dy=93, vmin=-400)[
    ..., :3
]
image = np.moveaxis(shaded, -1, 0)[None].astype(np.float32)
# The data call the northern edge ymin.
degrees = Raster("EPSG:4326", (dx, 0, data["xmin"], 0, -dy, data["ymin"]), heights.shape)
mercator = Raster("EPSG:3857", (80, 0, -9_396_900, 0, -80, 4_401_950), (497, 468))
plan = positions(degrees, mercator)


def sampled(rows=slice(None), columns=slice(None)):
    options = {"mode": "catmull-rom", "coords": "pixel", "padding_mode": "border"}
    return gridsample.grid_sample(image, plan(rows, columns), **options)


whole = sampled()
tiles = np.empty_like(whole)
for row in range(0, 497, 100):
    for column in range(0, 468, 100):
        place = slice(row, row + 100), slice(column, column + 100)
        tiles[:, :, *place] = sampled(*place)
assert (tiles == whole).all()

tiles[:, :, 100::100] = tiles[:, :, :, 100::100] = 1
before = np.ones((497, 468, 3))
before[76:420, 32:435] = shaded
both = np.hstack([before, np.moveaxis(tiles[0], 0, -1)])
plt.imsave("mercator.png", both.clip(0, 1))
