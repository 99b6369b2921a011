"""Apply a colour table (LUT)

A film look as a table of 17 x 17 x 17 colours: shadows turn teal, and highlights orange. With
`tetrahedral` interpolation, greys between the table's entries depend on its greys alone.
`gridsample lut` does the same with a `.cube` file.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

from gridsample.operators import apply_lut

photo = data.rocket()
level = np.linspace(0, 1, 17)
blue, green, red = np.meshgrid(level, level, level, indexing="ij")
colours = np.stack([red, green, blue])
light = np.sqrt(0.3 * red + 0.6 * green + 0.1 * blue)
teal, orange = (np.reshape(c, (3, 1, 1, 1)) for c in ([0.0, 0.55, 0.55], [1.0, 0.6, 0.2]))
look = (1 - light) * light * 1.6 * teal + light**2 * (0.6 * orange + 0.4 * light)
table = (0.45 * colours + 0.55 * look).clip(0, 1)[None]  # (1, 3, 17, 17, 17)
graded = apply_lut(photo[None], table, "tetrahedral", channel_axis=-1)[0]
plt.imsave("colour_table.png", np.hstack([photo, graded]))
