"""Where messages lead: pages of the documentation, which the package contains.

`gridsample.help` prints a page, or a section of it, so that a message need not name a file that
only a checkout of the source has.  This is the only module that knows where the pages are.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

# The address of the published site, with a slash at its end; empty if there is none.
ADDRESS = ""

# The pages, and the headings of sections, by topic.  pyproject.toml lists the pages of the wheel.
TOPICS = {
    "align_corners": ("coordinates", ""),
    "antialias": ("antialiasing", ""),
    "channel_axis": ("fields", "Units, axes, signs"),
    "coords": ("coordinates", "Three units: a grid in pixels, normalized, or displacements"),
    "cv": ("cv", ""),
    "dask": ("dask", ""),
    "displacement": ("fields", "Displacement fields"),
    "doctor": ("doctor", ""),
    "extrapolate": ("boundaries", ""),
    "fill_value": ("boundaries", ""),
    "flow": ("flow", ""),
    "footprint": ("antialiasing", ""),
    "gradients": ("gradients", ""),
    "grid": ("fields", "Which grid do I need?"),
    "label": ("methods", "Labels"),
    "max_samples": ("antialiasing", ""),
    "medical": ("medical", ""),
    "min_weight": ("missing", ""),
    "missing": ("missing", ""),
    "mode": ("methods", ""),
    "ndimage": ("ndimage", ""),
    "onnx": ("onnx", ""),
    "padding_mode": ("boundaries", ""),
    "prefilter": ("boundaries", "Prefiltering splines"),
    "skimage": ("skimage", ""),
    "torch": ("torch", ""),
    "weights": ("missing", ""),
}
_RULE = re.compile(r"GS\d\d\d")


def help(topic: str | None = None) -> None:  # `gridsample.help`
    """Print the page of the documentation on a topic, as Markdown.

    Args:
        topic: a topic, such as "align_corners", or the code of a rule of the doctor, such as
            "GS001"; None to list the topics.

    Returns:
        None: the page is printed.

    Raises:
        ValueError: there is no such topic.

    Example:
        >>> import gridsample
        >>> gridsample.help("GS009")  # doctest: +ELLIPSIS
        ### GS009
        <BLANKLINE>
        **align_corners is not given.** torch then warns and uses False; before ...
    """
    print(f"topics: {', '.join(TOPICS)}, GS001, ..." if topic is None else text_of(topic))


def text_of(topic: str) -> str:
    """Return the page, or the section, on a topic or a rule of the doctor, without its links.

    Raises:
        ValueError: there is no such topic.
    """
    if _RULE.fullmatch(topic):
        name, heading = "doctor", topic
    elif topic in TOPICS:
        name, heading = TOPICS[topic]
    else:
        raise unknown_name("topic", topic, list(TOPICS))
    text = read_page(name)
    if not heading:
        return text.strip()
    match = re.search(rf"^(#+) {re.escape(heading)}\n", text, re.MULTILINE)
    if match is None:
        raise ValueError(f"topic {topic!r} has no text; accepted: {', '.join(TOPICS)}")
    rest = text[match.end() :]
    # The section ends at the next heading that is not below its own.
    end = re.search(rf"^#{{1,{len(match[1])}}} ", rest, re.MULTILINE)
    return (match[0] + (rest[: end.start()] if end else rest)).strip()


@functools.cache
def read_page(name: str) -> str:
    """Read a page without its pictures and links, which lead nowhere in a terminal."""
    # Imported here, as they take a third of the time to import the library.
    import importlib.resources
    from pathlib import Path

    # From the wheel, which may be in a zip archive, or from the checkout that is installed.
    place = importlib.resources.files("gridsample").joinpath("docs", f"{name}.md")
    if not place.is_file():
        place = Path(__file__).parents[3] / "docs" / f"{name}.md"
    text = place.read_text(encoding="utf-8")
    text = re.sub(r"^!\[[^\]]*\]\([^)]+\)\n+", "", text, flags=re.MULTILINE)
    text = re.sub(r"^<!--.*?-->\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\([^)\s]+\)", r"\1", text)


def explanation(code: str) -> str:
    """Return the command that explains a rule of the doctor.

    >>> explanation("GS001")
    'gridsample doctor --explain GS001'
    """
    return f"gridsample doctor --explain {code}"


def link(code: str) -> str:
    """Return the address of the section on a rule of the doctor; the command if there is none."""
    return f"{ADDRESS}doctor.html#{code.lower()}" if ADDRESS else explanation(code)


def about(topic: str) -> str:
    """Return the end of an error about one of `TOPICS`; for others, nothing.

    >>> about("padding_mode"), about("threads")
    (' (see gridsample.help("padding_mode"))', '')
    """
    return f' (see gridsample.help("{topic}"))' if topic in TOPICS else ""


# What other libraries call an argument, and what it is here.
KEYWORDS = {
    **dict.fromkeys(("order", "interpolation", "interp", "method"), "mode"),
    **dict.fromkeys(("flags", "resample", "interpolation_mode"), "mode"),
    **dict.fromkeys(("cval", "borderValue", "value", "fill"), "fill_value"),
    **dict.fromkeys(("channels_last", "data_format", "channel_dim"), "channel_axis"),
    **dict.fromkeys(("anti_aliasing", "antialiasing", "anti_alias"), "antialias"),
    **dict.fromkeys(("padding", "boundary", "borderMode", "border_mode", "pad"), "padding_mode"),
    **dict.fromkeys(("dsize", "output_size", "output_shape", "shape"), "size"),
    **dict.fromkeys(("zoom", "scale", "scales", "factor", "zoom_factor"), "scale_factor"),
    **dict.fromkeys(("image", "img", "src", "x", "data", "array", "tensor"), "input"),
    **dict.fromkeys(("coordinates", "points", "flow_grid", "map", "locations"), "grid"),
    **dict.fromkeys(("matrix", "M", "affine"), "theta"),
    **dict.fromkeys(("mask", "weight"), "weights"),
    **dict.fromkeys(("regularization", "regularisation", "stiffness", "lambda_"), "smoothing"),
    **dict.fromkeys(("num_threads", "n_threads", "workers", "n_jobs"), "threads"),
}
# Functions of other libraries, and what does that here.
FUNCTIONS = {
    **dict.fromkeys(("resize", "zoom", "rescale", "upsample", "resample_image"), "interpolate"),
    **dict.fromkeys(("remap", "map_coordinates", "sample", "grid_sampler", "warp"), "grid_sample"),
    **dict.fromkeys(("affine_transform", "warpAffine", "warp_affine", "rotate"), "affine_sample"),
    **dict.fromkeys(("meshgrid", "create_meshgrid", "base_grid"), "identity_grid"),
    **dict.fromkeys(("spline_filter1d", "prefilter"), "spline_filter"),
    **dict.fromkeys(
        ("regrid", "conservative", "Regridder", "remap_conservative"), "regrid_conservative"
    ),
}
# What other libraries have under these names, in drop-ins.
DROP_INS = {
    "map_coordinates": "gridsample.ndimage.map_coordinates",
    "zoom": "gridsample.ndimage.zoom",
    "affine_transform": "gridsample.ndimage.affine_transform",
    "rotate": "gridsample.ndimage.rotate",
    "remap": "gridsample.cv.remap",
    "resize": "gridsample.cv.resize",
    "rescale": "gridsample.skimage.rescale",
    "warp": "gridsample.skimage.warp",
    "warpAffine": "gridsample.cv.warpAffine",
    "warpPerspective": "gridsample.cv.warpPerspective",
    "warpPolar": "gridsample.cv.warpPolar",
    "warp_polar": "gridsample.skimage.warp_polar",
    "swirl": "gridsample.skimage.swirl",
    "pyrDown": "gridsample.cv.pyrDown",
    "pyrUp": "gridsample.cv.pyrUp",
    "undistort": "gridsample.cv.undistort",
    "undistortPoints": "gridsample.cv.undistortPoints",
    "undistort_points": "gridsample.cameras.undistort_points",
    "thin_plate": "gridsample.fields.thin_plate",
    "tps": "gridsample.fields.thin_plate",
}


def closest(name: str, accepted: Sequence[str]) -> str:
    """Return the accepted name that is most like another one, or ""."""
    import difflib  # only errors need it

    close = difflib.get_close_matches(name.lower(), accepted, n=1)
    return close[0] if close else ""


def unknown_keyword(function: str, name: str, accepted: Sequence[str]) -> TypeError:
    """Create the error for an argument that a function does not have, as Python says it."""
    known = KEYWORDS.get(name, "")
    suggestion = known if known in accepted else closest(name, accepted)
    hint = f"; did you mean {suggestion!r}?" if suggestion else ""
    return TypeError(
        f"{function}() got an unexpected keyword argument {name!r}{hint}{about(suggestion)}"
    )


def unknown_attribute(name: str, accepted: Sequence[str]) -> AttributeError:
    """Create the error for a name that the package does not have."""
    suggestion = FUNCTIONS.get(name, "")
    if not suggestion and name not in DROP_INS and not name.startswith("_"):
        suggestion = closest(name, accepted)
    meant = [f"gridsample.{suggestion}"] * bool(suggestion) + [DROP_INS.get(name, "")]
    hint = ", or ".join(filter(None, meant))
    hint = f"; did you mean {hint}?" if hint else ""
    return AttributeError(f"module 'gridsample' has no attribute {name!r}{hint}")


def unknown_name(
    argument: str, name: Any, accepted: Sequence[str], remark: str = ""
) -> ValueError | TypeError:
    """Create the error for an unknown name, which begins with the most similar accepted name.

    It is a TypeError for what is no name.
    """
    if not isinstance(name, str):
        return TypeError(f"{argument} must be a str, got {type(name).__name__}")
    close = closest(name.lower().removeprefix("inter_"), accepted)  # OpenCV's constants
    hint = f"; did you mean {close!r}? " if close and not remark else "; "
    end = f"accepted: {', '.join(map(repr, accepted))}{about(argument)}"
    return ValueError(f"{argument} {name!r} {remark or 'is not known'}{hint}{end}")
