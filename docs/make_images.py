"""Draw the pictures of the documentation: ``python docs/make_images.py [--update]``."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pictures
import xarray
from matplotlib import cbook
from matplotlib.axes import Axes
from matplotlib.colors import LightSource
from matplotlib.figure import Figure
from skimage import data

import gridsample
import gridsample.explanation.plot
import gridsample.xarray
from gridsample import cameras, cli, io
from gridsample.cameras.framing import undistort_pixels as rays_of_pixels
from gridsample.definitions.boundaries import BOUNDARIES
from gridsample.geo import Positions, Raster, positions
from gridsample.geo.rasters import covering
from gridsample.registration import draw_report


def reflection(folder: Path) -> None:
    """A point outside that is folded back along both axes: the command that index.md shows."""
    words = "explain --size 4x4 --at -1.65,1.35 --padding reflection --force --plot"
    assert cli.main([*words.split(), str(folder / "explain-reflection.png")]) == 0


def align_corners(folder: Path) -> None:
    """One coordinate, with both meanings of -1 and 1."""
    figure = Figure((11, 4.5))
    for ax, aligned in zip(figure.subplots(1, 2), (False, True), strict=True):
        point = gridsample.explain((4, 4), (-0.9, 0.3), align_corners=aligned)
        gridsample.explanation.plot.explain(point, ax=ax)
        ax.set_xlim(-2.5, 4.5)  # the same of both, so that they can be compared
    path = folder / "explain-align-corners.png"
    pictures.save(figure, path, dpi=160, bbox_inches="tight", pad_inches=0.2)


def panels(figure: Figure, count: int, columns: int) -> list[Axes]:
    """Divide a figure into as many panels as needed, in rows of some columns, with shared axes."""
    axes = figure.subplots(-(-count // columns), columns, sharex=True, sharey=True).flat
    for ax in axes[count:]:
        ax.set_visible(False)
    return list(axes[:count])


def boundaries(folder: Path) -> None:
    """A row of four pixels and what is beside it, under each boundary."""
    row = np.array([1.0, 3.0, 2.0, 4.0])
    pixels, between = np.arange(-6.0, 10), np.linspace(-6, 9, 901)
    figure = Figure((11, 8), layout="constrained")
    names = [name for name in BOUNDARIES if name != "reflection"]
    for ax, name in zip(panels(figure, len(names), 3), names, strict=True):
        fill = {"fill_value": 2.5} if name == "constant" else {}
        dots, line = (
            gridsample.grid_sample(
                row[np.newaxis, np.newaxis],
                x.reshape(1, -1, 1),
                "linear",
                name,
                coords="pixel",
                **fill,
            ).ravel()
            for x in (pixels, between)
        )
        inside = (pixels >= 0) & (pixels < len(row))
        ax.axvspan(-0.5, len(row) - 0.5, color="0.92")
        ax.axhline(0, color="0.8", lw=0.8)
        ax.plot(between, line, color="tab:blue", lw=1)
        ax.plot(pixels[~inside], dots[~inside], "o", color="white", mec="tab:blue", ms=5)
        ax.plot(pixels[inside], dots[inside], "o", color="tab:blue", ms=6)
        ax.set_title(name)
    figure.supxlabel("position in pixels")
    pictures.save(figure, folder / "boundaries.png", dpi=110)


def methods(folder: Path) -> None:
    """The weight of a pixel by its distance to the position."""
    pixel = np.zeros((1, 1, 17))
    pixel[..., 8] = 1
    x = np.linspace(2, 14, 1201).reshape(1, -1, 1)
    names = [name for name in gridsample.methods.names() if name != "label"]
    figure = Figure((11, 7), layout="constrained")
    for ax, name in zip(panels(figure, len(names), 5), names, strict=True):
        ax.axhline(0, color="0.8", lw=0.8)
        splines = (True, False) if gridsample.methods.get(name).prefilter else (False,)
        for prefilter in splines:
            weight = gridsample.grid_sample(pixel, x, name, coords="pixel", prefilter=prefilter)
            style = {"ls": "-" if prefilter == splines[0] else ":", "color": "tab:blue"}
            label = "prefiltered" if prefilter else "of a coefficient"
            ax.plot(x.ravel() - 8, weight.ravel(), lw=1.2, label=label, **style)
        if len(splines) > 1:
            ax.legend(fontsize=6, frameon=False)
        ax.set_title(name, fontsize=10)
    figure.supxlabel("distance from the pixel to the position")
    pictures.save(figure, folder / "methods.png", dpi=110)


def undistorted(folder: Path) -> None:
    """A chessboard as a lens distorts it, and undistorted."""
    lens = np.array([[140.0, 0, 99.5], [0, 140, 79.5], [0, 0, 1]])
    distortion = [-0.35, 0.1, 0, 0]
    y, x = np.mgrid[-3:3:1201j, -3:3:1201j]
    board = (np.sin(8 * x) * np.sin(8 * y) > 0) * 0.7 + 0.15
    # The distorted image shows at each pixel what undistorting would show there: by fixed point.
    pixels = np.stack(np.meshgrid(np.arange(200.0), np.arange(160.0)), -1).reshape(-1, 2)
    rays = (pixels - lens[:2, 2]) / 140
    for _ in range(50):
        rays += (pixels - cameras.distort_points(rays, distortion, lens)) / 140
    grid = ((rays + 3) * 200).reshape(1, 160, 200, 2)
    photo = gridsample.grid_sample(board[np.newaxis, np.newaxis], grid, coords="pixel")
    back = cameras.undistort_grid((160, 200), lens, distortion)
    straight = gridsample.grid_sample(photo, back, coords="pixel")
    figure = Figure((8, 3.4), layout="constrained")
    for ax, image, title in zip(
        figure.subplots(1, 2), (photo, straight), ("distorted", "undistorted"), strict=True
    ):
        ax.imshow(image[0, 0], cmap="gray", vmin=0, vmax=1)
        ax.set_title(title)
        ax.set_axis_off()
    pictures.save(figure, folder / "undistorted.png", dpi=110, bbox_inches="tight", pad_inches=0.1)


def panorama(folder: Path) -> None:
    """A panorama of a sky and a floor, its cube map, and a view across the edges of the cube."""
    sphere, cube = cameras.equirectangular((256, 512)), cameras.cubemap(128)
    x, y, z = np.moveaxis(cameras.panorama_rays(sphere)[0], -1, 0)
    floor = np.maximum(y, 1e-3)
    squares = np.sin(3 * x / floor) * np.sin(3 * z / floor) > 0
    far = np.exp(-0.4 / floor)
    red = np.where(y > 0, far * (0.3 + 0.5 * squares) + (1 - far) * 0.7, 0.75 + 0.6 * y)
    blue = np.where(y > 0, far * (0.5 - 0.2 * squares) + (1 - far) * 0.8, 0.95 + 0.2 * y)
    sun = np.exp(40 * ((x - 0.5 * y + z) / 1.5 - 1))
    image = np.stack([red + sun, (red + blue) / 2 + 0.8 * sun, blue])[np.newaxis].clip(0, 1)
    faces = cameras.convert_panorama(image, sphere, cube)
    view = cameras.perspective((200, 300), fov=100)
    seen = cameras.convert_panorama(faces, cube, view, cameras.look(yaw=45, pitch=10))
    figure = Figure((11, 6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(2, 1))
    left, right = above.subplots(1, 2, width_ratios=(4, 3))
    left.set_title("equirectangular")
    left.imshow(image[0].transpose(1, 2, 0))
    right.set_title("perspective, sampled from the cube map")
    right.imshow(seen[0].transpose(1, 2, 0).clip(0, 1))
    axes = below.subplots(1, 6)
    for ax, name, face in zip(axes, cameras.FACES, faces[0].swapaxes(0, 1), strict=True):
        ax.set_title(name, fontsize=10)
        ax.imshow(face.transpose(1, 2, 0).clip(0, 1))
    for ax in (left, right, *axes):
        ax.set_axis_off()
    pictures.save(figure, folder / "panorama.png", dpi=90)


def flow(folder: Path) -> None:
    """A flow, its colours, and a picture that is warped by it and back by its inverse."""
    y, x = np.mgrid[-64.0:64, -64.0:64]
    swirl = np.stack([-y, x], -1)[np.newaxis] * np.exp(-(x**2 + y**2) / 1200)[..., np.newaxis] * 0.9
    field = gridsample.fields.exp(swirl)
    board = np.where((x // 16 + y // 16) % 2 == 0, 0.9, 0.25)[np.newaxis, np.newaxis]
    warped = gridsample.fields.flow_warp(board, field, "bicubic", "border")
    inverse = gridsample.fields.invert(field).field
    back = gridsample.fields.flow_warp(warped, inverse, "bicubic", "border")
    figure = Figure((11, 3), layout="constrained")
    axes = figure.subplots(1, 4)
    colours = gridsample.fields.flow_colours(field[0])
    shown = (colours, "the flow as colours"), (board[0, 0], "a picture")
    shown += (warped[0, 0], "warped by the flow"), (back[0, 0], "warped back by its inverse")
    for ax, (image, title) in zip(axes, shown, strict=True):
        ax.imshow(image, cmap="gray", vmin=0, vmax=1)
        ax.set_title(title, fontsize=10)
        ax.set_axis_off()
    step = np.s_[4::12]
    arrows = field[0, step, step]
    places = np.arange(128)[step]
    axes[0].quiver(places, places, arrows[..., 0], arrows[..., 1], angles="xy", color="0.2")
    pictures.save(figure, folder / "flow.png", dpi=110)


def run(*words: object) -> None:
    """Run a command, which has to succeed."""
    assert cli.main([str(word) for word in words]) == 0


def row(path: Path, files: list[tuple[Path, str]], widths: tuple[int, ...]) -> None:
    """Draw picture files side by side."""
    figure = Figure((11, 2.6), layout="constrained")
    axes = figure.subplots(1, len(files), width_ratios=widths)
    for ax, (file, title) in zip(axes, files, strict=True):
        ax.imshow(io.read(file).array)
        ax.set_title(title, fontsize=9)
        ax.set_axis_off()
    pictures.save(figure, path, dpi=90)


def undistort_photo(folder: Path) -> None:
    """The command undistort on a photo that a lens has distorted."""
    photo = data.astronaut().transpose(2, 0, 1)[np.newaxis]
    matrix, lens = np.array([[380.0, 0, 255.5], [0, 380, 255.5], [0, 0, 1]]), [-0.22, 0.04, 0, 0]
    pixels = np.stack(np.meshgrid(np.arange(512.0), np.arange(512.0)), -1).reshape(-1, 2)
    grid = rays_of_pixels(pixels, matrix, np.array(lens), "opencv") * 280 + 255.5
    seen = gridsample.grid_sample(
        photo, grid.reshape(1, 512, 512, 2), "bicubic", "reflection", coords="pixel"
    )
    with tempfile.TemporaryDirectory() as name:
        source, camera = Path(name) / "photo.png", Path(name) / "camera.npz"
        io.write(io.Image(np.moveaxis(seen[0], 0, -1), "NumPy", True), source)
        np.savez(camera, mtx=matrix, dist=lens)
        files = [(source, "photo.png")]
        for words in ("", "--alpha 0", "--alpha 1"):
            out = Path(name) / f"{len(files)}.png"
            run("undistort", source, out, "--camera", camera, "--mode", "bicubic", *words.split())
            files.append((out, f"undistort {words}"))
        row(folder / "undistort-photo.png", files, (1, 1, 1, 1))


def panorama_photo(folder: Path) -> None:
    """The command panorama: a photo becomes part of a panorama, a cube map, and a view of it."""
    with tempfile.TemporaryDirectory() as name:
        names = "photo", "pano", "cube", "view"
        photo, pano, cube, view = (Path(name) / f"{stem}.png" for stem in names)
        io.write(io.Image(data.astronaut(), "NumPy", True), photo)
        placed = "--from-fov", 80, "--yaw", 30, "--pitch", 20, "--size", "1024x512"
        run("panorama", photo, pano, "--from", "perspective", "--to", "equirectangular", *placed)
        run("panorama", pano, cube, "--to", "cubemap")
        seen = "--to", "perspective", "--yaw", 45, "--pitch", 20, "--size", "400x300"
        run("panorama", cube, view, "--from", "cubemap", *seen)
        titles = "photo.png", "equirectangular", "cubemap", "perspective, of the cube map"
        files = list(zip((photo, pano, cube, view), titles, strict=True))
        row(folder / "panorama-photo.png", files, (3, 6, 4, 4))


def registration(folder: Path) -> None:
    """The report of a registration: a photo that is moved by a fifth of its size, and bent."""
    photo = data.astronaut().astype(np.float32).transpose(2, 0, 1)[np.newaxis]
    photo = gridsample.interpolate(photo, (256, 256), mode="bilinear", antialias=True)
    y, x = np.mgrid[:256.0, :256.0]
    bend = np.stack([np.sin(y / 25), np.sin(x / 35 + 1)], -1)[np.newaxis]
    field = 6 * bend + (-40, 28)
    fixed = gridsample.grid_sample(
        photo, field, "bicubic", coords="displacement", extrapolate=False, fill_value=np.nan
    )
    result = gridsample.register(fixed, photo, "displacement")
    draw_report(result, fixed, photo, folder / "registration.png")


# The sizes of tiles that are compared.
SIZES = 100, 300


def along_tiles(plan: Positions, size: int) -> np.ndarray[Any, Any]:
    """Positions that are exact at the ends of each tile's rows, and on straight lines between."""
    _, columns = plan.shape
    lines = []
    for first in range(0, columns, size):
        last = min(first + size, columns) - 1
        ends = [plan(columns=slice(k, k + 1)) for k in (first, last)]
        share = np.linspace(0, 1, last - first + 1)[:, None]
        lines.append(ends[0] * (1 - share) + ends[1] * share)
    return np.concatenate(lines, 2)


def raster_tiles(folder: Path) -> None:
    """Heights in UTM: how two sizes of tiles differ if positions are lines along their rows."""
    elevation = cbook.get_sample_data("jacksboro_fault_dem.npz")
    heights = elevation["elevation"].astype(np.float32)[None, None]
    dx, dy, west, north = (float(elevation[k]) for k in ("dx", "dy", "xmin", "ymax"))
    place = "EPSG:4326", (dx, 0, west, 0, -dy, north), heights.shape[2:]
    source = Raster.of(place, "source")
    target = covering(source, "EPSG:32616", 75)
    plan = positions(source, target, tolerance=0)
    exact, options = plan(), {"padding_mode": "border", "coords": "pixel"}
    options |= {"extrapolate": "edges", "fill_value": np.nan}
    results = []
    for size in SIZES:
        grid = along_tiles(plan, size)
        assert np.abs(grid - exact).max() < 0.125  # of a pixel, which GDAL allows by default
        results.append(gridsample.grid_sample(heights, grid, **options)[0, 0])
    image = xarray.DataArray(
        heights[0, 0],
        {
            "y": north - dy * (np.arange(source.shape[0]) + 0.5),
            "x": west + dx * (np.arange(source.shape[1]) + 0.5),
        },
        attrs={"crs": "EPSG:4326"},
    )
    ours = [
        gridsample.xarray.reproject(image.chunk(size), like=target, chunks=(size, size)).values
        for size in SIZES
    ]
    figure = Figure((11, 3.7), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    shade = LightSource(315, 45).hillshade(np.nan_to_num(ours[0], nan=300), 6, 75, 75)
    left.imshow(np.where(np.isnan(ours[0]), np.nan, shade), cmap="gray")
    left.set_title("heights, from degrees to UTM\n", fontsize=9)
    found = [np.abs(a - b) for a, b in (results, ours)]
    top = float(np.nanpercentile(found[0], 99.8))
    names = "interpolated along each tile's rows", "those of gridsample"
    for ax, difference, name in zip((middle, right), found, names, strict=True):
        shown = ax.imshow(difference, cmap="magma", vmin=0, vmax=top)
        most = float(np.nanmax(difference))
        text = f"tiles of {SIZES[0]} and {SIZES[1]}: up to {most:.1f} m"
        text = text if most else text.replace("up to 0.0 m", "no pixel differs")
        ax.set_title(f"positions {name}\n{text}", fontsize=9)
    figure.colorbar(shown, ax=[middle, right], label="difference in m")
    for ax in (left, middle, right):
        ax.set_axis_off()
    pictures.save(figure, folder / "raster-tiles.png", dpi=90)


if __name__ == "__main__":
    folder = pictures.folder(__doc__)
    drawings = reflection, align_corners, boundaries, methods, undistorted, panorama, flow
    drawings += undistort_photo, panorama_photo, registration, raster_tiles
    for draw in drawings:
        draw(folder)
