"""Processing in parts, so that memory stays bounded, with the bits of the whole.

A result that is too large for memory is computed in blocks.  `regions` tells which pixels of the
image a block of the result reads, before any is read; `windows` puts these pixels where the image
has them, so that a block is computed by the very call that would compute the whole:

    call = sampling_of(image.shape, out, "cubic", "wrap", coords="pixel", real=np.float64)
    bounds = bounds_of_maps(call, theta, block)     # of coordinates; or bounds_of_grid(call, grid)
    region = region_of(call, bounds)                # intervals of pixels along each axis
    window = ImageWindow(region, image.shape, image.dtype)
    for box in region.boxes():                      # one, or more where a boundary wraps around
        window.write(box, image[:, :, *box])
    part = sample_maps(call, window, theta, block)  # or sample_grid(call, window, grid, block)

A block is a tuple of slices of the result's spatial axes.  Nothing here knows who stores images or
runs tasks.  `splines` is the same for the prefilter.

Why bits are equal: the window has the *shape* of the image, and the strides of the region.  Sizes,
positions, folds and footprints are hence those of the whole, and no coordinate is ever shifted.
Maps know the index of the block's first point (`gridsample.definitions.plan.OutputBlock`).
Splines need coefficients in the window, and the image's dtype as an argument ``dtype``.
"""
