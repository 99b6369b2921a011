"""`gridsample warp`, `resize` and `pyramid` of Zarr stores, and what `info` says about them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gridsample import io, warp, zarr
from gridsample.cli import ground, parsers, texts
from gridsample.cli.arguments import Command, add_shared
from gridsample.cli.files import antialiases, output_size, resize_antialiases
from gridsample.cli.maps import canvas_of
from gridsample.cli.nodata import boundary_of_missing, missing_by_default
from gridsample.cli.terminal import progress_bar
from gridsample.geo.rasters import covering
from gridsample.io.nodata import number_of_array
from gridsample.io.omezarr import Multiscale, is_store, read_multiscale
from gridsample.io.output import size_text
from gridsample.io.rfc5 import read_transformations
from gridsample.zarr import rasters

HELP = """\
Write a Zarr array or OME-Zarr image and its halved copies as an OME-Zarr image.
"""

NOTES = """\
levels:
  Each level has half as many pixels along each spatial axis as the one before, rounded up, until
  the image fits into one chunk. A pixel is the mean of the two pixels along each axis, as far as
  they exist, or with --mode label the most frequent of their labels. Every level's scale and
  translation are exact.

{stores}

examples:
  gridsample pyramid big.zarr out.zarr --chunks 64x64x64 --shards 512x512x512
  gridsample pyramid nuclei.zarr out.zarr --mode label
"""


def command() -> Command:
    """Return the parser of `gridsample pyramid`."""
    notes = NOTES.format(stores=texts.STORES)
    command = Command("pyramid", ["INPUT OUTPUT.zarr"], pyramid, HELP, notes)
    command.add_argument("input", type=Path, metavar="INPUT", help="the Zarr store to read")
    command.add_argument("output", type=Path, metavar="OUTPUT.zarr", help="the store to write")
    command.add_argument(
        "--levels", type=int, metavar="N", help="number of levels, including the first"
    )
    command.add_argument(
        "--mode",
        choices=("linear", "label"),
        help="means or votes (default: label for label images, otherwise linear)",
    )
    command.add_argument(
        "--halve", metavar="AXES", help="axes to halve, such as yx (default: all spatial axes)"
    )
    add_store(command)
    add_shared(command, "--threads", "--force")
    add_shared(command.further, "--missing", "--nodata")
    return command


def add_store(command: Any) -> None:
    """Add the arguments that say how a Zarr store is read and written."""
    group = command.add_argument_group("Zarr")
    for name, noun in (("chunks", "a chunk"), ("shards", "a shard, which holds several chunks")):
        group.add_argument(
            f"--{name}",
            type=parsers.sizes_of_axes,
            metavar="WxHxD",
            help=f"size of {noun}, along the spatial axes or along all, the last axis first "
            "(default: that of the input)",
        )
    group.add_argument(
        "--codec",
        metavar="NAME[:LEVEL]",
        help="compression of chunks: zstd, gzip, blosc or none (default: that of the input)",
    )
    group.add_argument(
        "--zarr-format",
        type=int,
        choices=(2, 3),
        help="version of the output: 2 for OME-Zarr 0.4, 3 for 0.5 (default: that of the input)",
    )
    group.add_argument(
        "--axes", metavar="NAMES", help="axes of the input, such as tczyx (default: its metadata)"
    )


# The commands -------------------------------------------------------------------------------------


def warp_store(arguments: argparse.Namespace) -> None:
    """Warp a Zarr store, in its coordinate system or to another one."""
    reject_options(arguments, "grid", "straight_alpha", "volume", "align_corners")
    if arguments.crs is not None or is_over_ground(arguments):
        return reproject_store(arguments)
    for name in ("resolution", "statistic"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"--{name} is of pixels in another coordinate system: give --crs")
    image = open_input(arguments)
    options = {
        **common_options(arguments),
        **missing_options(image, arguments),
        "antialias": antialiases(arguments),
    }
    if arguments.fill is not None:
        if len(arguments.fill) != 1 or arguments.padding != "constant":
            raise ValueError("--fill takes one number, and requires --padding constant")
        options["fill_value"] = arguments.fill[0]
    if arguments.like or arguments.transform:
        if arguments.steps or arguments.size:
            raise ValueError(
                "--like and --transform determine the whole warp; they accept no steps and no "
                "--size"
            )
        options["like"] = arguments.like
        options["transform"] = [
            step for path in arguments.transform for step in read_transformations(path)
        ]
    else:
        options |= matrix_options(image, arguments)
    options["padding_mode"] = arguments.padding
    if arguments.padding is None:
        copies = warp.copies_pixels(
            arguments.mode, len(image.spatial), antialias=options["antialias"]
        )
        number = number_of_array(image.arrays[0], arguments.nodata)
        padding, fill = boundary_of_missing(number, copies)
        options |= {"padding_mode": padding, "fill_value": fill}
    run(arguments, "warping", zarr.warp, {**options, "mode": arguments.mode})


def is_over_ground(arguments: argparse.Namespace) -> bool:
    """Whether --like names the pixels of a raster, and the input is one, too."""
    if arguments.like is None or arguments.transform:
        return False
    is_like = not is_store(arguments.like) or rasters.is_raster(arguments.like)
    return is_like and rasters.is_raster(arguments.input)


def reproject_store(arguments: argparse.Namespace) -> None:
    """Bring a raster to another coordinate system, or to the pixels of another raster."""
    option, like = ("--like" if arguments.crs is None else "--crs"), arguments.like
    ground.check_others(arguments, option, "resolution" if arguments.crs is None else "like")
    raster = rasters.open_raster(arguments.input, arguments.axes).with_nodata(arguments.nodata)
    source = raster.raster("the input")
    if arguments.crs is not None:
        target = covering(source, arguments.crs, arguments.resolution)
    elif is_store(like):
        target = rasters.open_raster(like).raster(f"--like {like}")
    else:
        target = ground.raster_of_file(like)
    options = {
        "raster": raster,
        "target": target,
        "method": ground.method_of_arguments(arguments, source, target)._replace(threads=1),
        **{name: common_options(arguments)[name] for name in ("layout", "threads", "overwrite")},
    }
    run(arguments, "warping", rasters.write_reprojected, options)


def matrix_options(image: Multiscale, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the matrix, the size and the place of the canvas that the steps describe.

    Where pixels are copied, the mode changes, and nothing is averaged.
    """
    size = spatial_size(image)
    canvas = canvas_of(arguments.size, size)
    inverse = warp.inverse_map(arguments.steps, size, canvas)
    if inverse[-1, :-1].any():
        raise ValueError("--homography is not accepted for Zarr stores")
    copied: dict[str, Any] = {}
    if warp.lands_on_pixels(inverse):
        arguments.mode = warp.exact_mode(arguments.mode, len(size))
        copied["antialias"] = False
    order = [*range(len(size) - 1, -1, -1), len(size)]
    reversed_axes = np.ix_(order, order)
    voxels = warp.window(arguments.steps, size, canvas)
    placed = {"matrix": inverse[reversed_axes], "voxels": voxels[reversed_axes]}
    return {**placed, "size": canvas[::-1], **copied}


def resize_store(arguments: argparse.Namespace) -> None:
    """Resize a Zarr store."""
    reject_options(arguments, "straight_alpha", "volume")
    image = open_input(arguments)
    old_size = spatial_size(image)
    size = output_size(arguments, old_size)
    options = {
        **common_options(arguments),
        **missing_options(image, arguments),
        "align_corners": arguments.align_corners,
        "antialias": resize_antialiases(arguments, old_size, size),
        "mode": arguments.mode,
        "size": size[::-1],
    }
    run(arguments, "resizing", zarr.resize, options)


def pyramid(arguments: argparse.Namespace) -> None:
    """Write the pyramid of a Zarr store."""
    if not is_store(arguments.input):
        raise io.FileError(f"{arguments.input} is no folder with a Zarr array or group")
    options = {
        **common_options(arguments),
        "levels": arguments.levels,
        "mode": arguments.mode,
        "halve": arguments.halve,
        **missing_options(open_input(arguments), arguments),
    }
    run(arguments, "halving", zarr.pyramid, options)


def run(
    arguments: argparse.Namespace,
    action: str,
    function: Callable[..., zarr.Traffic],
    options: dict[str, Any],
) -> None:
    """Call a function, show its progress, and print what it has read and written."""
    if arguments.output.suffix.lower() != ".zarr":
        raise io.FileError(f"{arguments.output}: the output of a Zarr store must end in .zarr")
    with progress_bar(f"{action} {arguments.input.name}") as progress:
        traffic = function(output=arguments.output, progress=progress, **options)
    before = f", after {traffic.done_before} of an earlier run" if traffic.done_before else ""
    print(
        f"read {size_text(traffic.read)} in {traffic.reads} chunks, wrote "
        f"{size_text(traffic.written)} in {traffic.done} files{before}"
    )


# What the commands share --------------------------------------------------------------------------


def reject_options(arguments: argparse.Namespace, *names: str) -> None:
    """Raise an error if an option is given that has no meaning for Zarr stores."""
    for name in names:
        if getattr(arguments, name, None):
            raise ValueError(f"--{name.replace('_', '-')} is not accepted for Zarr stores")


def for_stores_or_files(
    store_command: Callable[[argparse.Namespace], None],
    file_command: Callable[[argparse.Namespace], None],
) -> Callable[[argparse.Namespace], None]:
    """Return a command that processes Zarr stores in one way and files in another."""

    def command(arguments: argparse.Namespace) -> None:
        if is_store(arguments.input):
            return store_command(arguments)
        for name in ("chunks", "shards", "codec", "zarr_format", "axes"):
            if getattr(arguments, name):
                raise ValueError(
                    f"--{name.replace('_', '-')} is for Zarr stores, but {arguments.input} is none"
                )
        return file_command(arguments)

    return command


def open_input(arguments: argparse.Namespace) -> Multiscale:
    """Open the input, whose pixels are not read yet."""
    return read_multiscale(arguments.input, arguments.axes)


def spatial_size(image: Multiscale) -> tuple[int, ...]:
    """The spatial size of an image, x first."""
    return tuple(int(image.arrays[0].shape[k]) for k in image.spatial[::-1])


def common_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options that all commands have."""
    chunks, shards = (
        None if numbers is None else numbers[::-1]
        for numbers in (arguments.chunks, arguments.shards)
    )
    return {
        "source": arguments.input,
        "layout": zarr.Layout(chunks, shards, arguments.zarr_format, arguments.codec),
        "axes": arguments.axes,
        "threads": arguments.threads,
        "overwrite": arguments.force,
    }


def missing_options(image: Multiscale, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return how missing pixels are treated."""
    number = number_of_array(image.arrays[0], arguments.nodata)
    return {
        "missing": missing_by_default(arguments.missing, number),
        "nodata": arguments.nodata,
    }


def describe(path: Path) -> list[tuple[str, str]]:
    """Describe a store, for `gridsample info`."""
    image = read_multiscale(path)
    form = image.arrays[0].metadata.zarr_format
    names = ", ".join(
        f"{axis['name']} ({axis['unit']})" if axis.get("unit") else str(axis["name"])
        for axis in image.axes
    )
    facts = [("format", f"{'OME-Zarr' if image.is_ome else 'Zarr array'}, Zarr version {form}")]
    facts += [("axes", names), ("dtype", str(image.arrays[0].dtype))]
    for level, (array, affine) in enumerate(zip(image.arrays, image.affines, strict=True)):
        shards = f" in shards {array.shards}" if array.shards else ""
        text = f"{array.shape}, chunks {array.chunks}{shards}"
        if image.is_ome:
            text += "\n" + np.array2string(affine[:-1], precision=6)
        facts.append((f"level {level}", text))
    return facts
