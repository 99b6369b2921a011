"""`Explanation`: the record of one sample, which shows itself as text and in notebooks."""

from __future__ import annotations

from dataclasses import dataclass

from gridsample.explanation.notebook import as_html
from gridsample.explanation.records import Sample
from gridsample.explanation.table import lines_of


@dataclass(frozen=True)
class Explanation(Sample):
    """One sample and all steps that lead to it; ``print`` shows a table.

    Attributes:
        axes: the steps along each axis, in x, y, z order.
        taps: the taps of the point, x fastest; none if a coordinate is nowhere or outside.
        value: the sum of the taps' products, or the winner of their vote (mode "label"); NaN if a
            coordinate is nowhere (the fill value for labels), and the fill value if one is outside.
        per_pixel: d value / d sampled position, for each axis.
        gradient: d value / d coordinate, for each axis: the slope times ``per_pixel``.
        image: the sampled image, with axes in the array's order (z, y, x); None for numbered
            pixels.
        fill: the fill value.
        filled: whether dropped taps have the fill value.
        prefilters: the order of the spline prefilter along each axis, or 0.
        coefficients: a function that returns the coefficient of the pixel at x, y, z; None if
            there is no prefilter.
        sides: the sides of the point's footprint, one vector (x, y, z) in units of coordinates for
            each; empty if they were not given.
        samples: the explanations of the samples of the footprint.
    """

    def __str__(self) -> str:
        """Format a table of the axes, the taps and the results.

        It has less than 100 columns unless the image has a billion pixels.
        """
        return "\n".join(line.rstrip() for line in lines_of(self))

    def _repr_html_(self) -> str:
        """Show tables, and in 1-D and 2-D a drawing, in a notebook."""
        return as_html(self)
