"""Draw the pictures of the documentation: ``python docs/make_images.py``."""

from pathlib import Path

from matplotlib.figure import Figure

import gridsample
import gridsample.plot

IMAGES = Path(__file__).parent / "images"


def reflection() -> None:
    """A point outside that is folded back along both axes."""
    one = gridsample.explain((4, 4), (-1.65, 1.35), padding_mode="reflection")
    gridsample.plot.explain(one, IMAGES / "explain-reflection.png")


def align_corners() -> None:
    """One coordinate, with both meanings of -1 and 1."""
    figure = Figure((11, 4.5))
    for ax, aligned in zip(figure.subplots(1, 2), (False, True), strict=True):
        one = gridsample.explain((4, 4), (-0.9, 0.3), align_corners=aligned)
        gridsample.plot.explain(one, ax=ax)
        ax.set_xlim(-2.5, 4.5)  # the same of both, so that they can be compared
    path = IMAGES / "explain-align-corners.png"
    figure.savefig(path, dpi=160, bbox_inches="tight", pad_inches=0.2)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    reflection()
    align_corners()
