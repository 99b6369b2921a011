"""Kernels: two primitives, and one fused pass, behind one contract.

Sampling is linear in the image: out = A(grid) image.  So everything is made of

    gather(plan, image, grid, out, order)       out = A(grid) image
    scatter(plan, values, grid, order)          A(grid)^T values, the exact transpose

where ``order`` is a derivative order along each axis, x first: order (1, 0) is the derivative of A
along x. d gather / d image is scatter; d gather / d grid_k is gather with order k raised by one;
the same holds for scatter.  `backward` is both gradients of gather in one sweep:

    backward(plan, values, image, grid, need_image, need_grid, order)

Shapes: image (N, C, *spatial), grid (N, *out, D), values and out (N, C, *out), as in the plan.
Each target (`gridsample.kernels.cpu`) implements the three; `gridsample.kernels.reference` is what
they must equal.
"""
