"""Axes, boundaries, methods, options, and the plan of a call; needs NumPy alone."""
