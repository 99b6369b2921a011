"""In place of OpenCV: remap and warpPerspective

`import gridsample.cv as cv` replaces `import cv2 as cv`: the same names, constants and conventions,
without OpenCV, for every dtype and any number of channels.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import gridsample.cv as cv

photo = data.coffee()
x, y = np.meshgrid(np.arange(600, dtype=np.float32), np.arange(400, dtype=np.float32))
ripple = 8 * np.sin(np.hypot(x - 300, y - 200) / 12).astype(np.float32)
water = cv.remap(photo, x + ripple, y + ripple, cv.INTER_CUBIC, borderMode=cv.BORDER_REFLECT)
tilt = np.array([[0.8, -0.25, 130], [0.0, 0.62, 60], [0.0, -0.0008, 1.0]])
tilted = cv.warpPerspective(photo, tilt, (600, 400), flags=cv.INTER_AREA, borderValue=(30, 30, 30))
plt.imsave("opencv_swap.png", np.hstack([water, tilted])[::2, ::2])
