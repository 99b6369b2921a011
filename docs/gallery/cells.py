"""The range of heights in each cell of a map

Heights in degrees near Jacksboro, Tennessee, and how much they vary in cells of a kilometre in UTM:
the highest less the lowest of the pixels in a cell, whose corners are projected. No pixel is
skipped, however many there are in a cell.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook, colormaps

from gridsample.geo import Raster, cell_statistics, corners

data = cbook.get_sample_data("jacksboro_fault_dem.npz")
heights, dx, dy = data["elevation"].astype(np.float32), float(data["dx"]), float(data["dy"])
# The data call the northern edge ymin.
degrees = Raster("EPSG:4326", (dx, 0, data["xmin"], 0, -dy, data["ymin"]), heights.shape)
utm = Raster("EPSG:32616", (1000, 0, 731_000, 0, -1000, 4_069_000), (33, 31))
plan = corners(degrees, utm)
image, options = heights[None, None], {"min_weight": 0.8}
lowest, highest = [cell_statistics(image, plan(), name, **options) for name in ("min", "max")]
span = (highest - lowest)[0, 0]

before = colormaps["gist_earth"](0.3 + 0.7 * heights / heights.max())
colours = colormaps["magma"](span / np.nanmax(span))
colours[np.isnan(span)] = 1  # less than 0.8 of the cell is known
canvas = np.ones((400, 806, 4))
canvas[28:372, :403] = before
canvas[2:398, 418:790] = colours.repeat(12, 0).repeat(12, 1)
plt.imsave("cells.png", canvas)
