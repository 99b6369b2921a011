"""Axes, boundaries, methods, options, and the plan of a call; imports only NumPy."""
