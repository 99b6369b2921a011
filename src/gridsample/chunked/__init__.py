"""Processing in parts, so that memory stays bounded, with the bits of the whole.

A result that is too large for memory is computed in blocks.  A block is a tuple of slices of the
result's spatial axes, and is computed by the very call that would compute the whole:

    call = sampling_of(image.shape, out, "linear", "wrap", coords="pixel", real=np.float64)
    part = sample_block(call, block, theta, image, image.dtype)  # or coordinates, in place of maps

Here, ``image`` is a `Pixels`, which reads boxes of an image wherever it is.  `regions` tells which
pixels a block reads, before any is read; `windows` puts these where the image has them.  Nothing
here knows who stores images or runs tasks: `gridsample.dask` makes graphs of blocks, and
`gridsample.zarr` runs them by threads.

Why bits are equal: a window has the *shape* of the image, and the strides of the region.  Sizes,
positions, folds and footprints are hence those of the whole, and no coordinate is ever shifted.
Maps know the index of the block's first point (`gridsample.definitions.plan.OutputBlock`).
Splines need `Coefficients` of the image, and long footprints a halved copy of it.
"""
