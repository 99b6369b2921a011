"""Draw the logo and the pictures of the front page: ``python docs/make_look.py [NAME ...]``.

Each picture is made by the library itself, of photos, volumes and maps that ship with
scikit-image, Matplotlib and nibabel.  The pictures go to docs/images.  The
letters of the card need brotli.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import nibabel
import numpy as np
from fontTools.ttLib import TTFont
from matplotlib import cbook, colormaps
from PIL import Image, ImageDraw, ImageFont, ImageOps
from scipy.ndimage import binary_fill_holes, gaussian_filter, label
from skimage import data

import gridsample
from gridsample import fields

OUT = Path(__file__).parent / "images"
TILE = (300, 400)  # of the pictures in a row: height, width
# The logo's four pixels, and the sample between them.
PIXELS = ((0x1B, 0x55, 0x8F), (0x0E, 0x8C, 0x93), (0x10, 0x6D, 0x8F), (0x3F, 0xC7, 0xAE))
POINT = "f5a524"
LAND = (
    (38, 84, 62),
    (78, 116, 66),
    (142, 146, 86),
    (190, 164, 112),
    (214, 196, 164),
    (246, 240, 230),
)
YAW, FRAME, ZOOM, CUT = -32, (0.0, 0.0), 0.00205, np.array([0.0, 0.1, 0.0])
OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)


def store(name: str, picture: np.ndarray, quality: int = 78) -> None:
    """Write a picture of values from 0 to 1 as WebP."""
    rgb = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, -1)
    image = Image.fromarray((rgb.clip(0, 1) * 255 + 0.5).astype(np.uint8))
    path = OUT / "home" / f"{name}.webp"
    image.save(path, quality=quality, method=6)
    print(f"{path.name}: {image.size}, {path.stat().st_size} bytes")


def sample(
    image: np.ndarray, at: np.ndarray, mode: str = "bicubic", **options: object
) -> np.ndarray:
    """Sample an (H, W, C) image at points in pixels."""
    options = {"coords": "pixel", "channel_axis": -1, "antialias": True} | options
    return gridsample.grid_sample(image[None], at[None], mode, **options)[0]


def view(shape: tuple[int, int], centre: tuple[float, float], pixel: float) -> np.ndarray:
    """Points of a window on an image: its centre (x, y), and the size of its pixels."""
    x = (np.arange(shape[1]) - (shape[1] - 1) / 2) * pixel + centre[0]
    y = (np.arange(shape[0]) - (shape[0] - 1) / 2) * pixel + centre[1]
    return np.stack(np.meshgrid(x, y), -1)


def swirl(at: np.ndarray, centre: np.ndarray, angle: float, radius: float) -> np.ndarray:
    """Turn points about a centre, less and less with the distance."""
    x, y = np.moveaxis(at - centre, -1, 0)
    turn = angle * np.exp(-((np.hypot(x, y) / radius) ** 2))
    c, s = np.cos(turn), np.sin(turn)
    return np.stack([x * c - y * s, x * s + y * c], -1) + centre


def mixed(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The colours between the logo's four pixels: a 2 x 2 image, sampled in OKLab."""
    rgb = (np.array(PIXELS).reshape(2, 2, 3) / 255.0) ** 2.2
    lab = np.cbrt(rgb @ CONES.T) @ OKLAB.T
    some = gridsample.grid_sample(
        lab[None], np.stack([u, v], -1)[None], "bilinear", "border", True, channel_axis=-1
    )[0]
    linear = (some @ np.linalg.inv(OKLAB).T) ** 3 @ np.linalg.inv(CONES).T
    return linear.clip(0, 1) ** (1 / 2.2)


def logo() -> None:
    """Three by three cells of a lattice under a swirl, coloured by four pixels."""
    count, gap, size = 3, 0.1, 64
    first_edge, step = -1.0, 2.0 / count
    paths: list[str] = []
    side = np.linspace(gap / 2, 1 - gap / 2, 5)
    low, high = gap / 2, 1 - gap / 2
    around = np.concatenate(
        [
            np.stack([side, 0 * side + low], -1),
            np.stack([0 * side + high, side], -1),
            np.stack([side[::-1], 0 * side + high], -1),
            np.stack([0 * side + low, side[::-1]], -1),
        ]
    )
    middles = first_edge + step * (np.arange(count) + 0.5)
    u, v = np.meshgrid(middles, middles)
    colours = (mixed(u * 1.5, v * 1.5) * 255 + 0.5).astype(int)
    for row in range(count):
        for column in range(count):
            corners = (around + np.array([column, row])) * step + first_edge
            if row == column == 1:
                paths.append(f'<circle fill="#{POINT}" cx="32" cy="32" r="11"/>')
                continue
            out = np.hypot(*np.moveaxis(corners, -1, 0))[:, None]
            bulged = corners * (1.32 - 0.26 * out**2)  # as through a lens
            points = swirl(bulged[None], np.zeros(2), -0.5, 1.0)[0] * 27 + size / 2
            # Each side is a quadratic curve through its middle.
            path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
            for k in range(4):
                first, middle, last = (points[5 * k + i] for i in (0, 2, 4))
                bend = 2 * middle - (first + last) / 2
                path += f"L{first[0]:.1f} {first[1]:.1f}" if k else ""
                path += f"Q{bend[0]:.1f} {bend[1]:.1f} {last[0]:.1f} {last[1]:.1f}"
            colour = "".join(f"{c:02x}" for c in colours[row, column])
            paths.append(f'<path fill="#{colour}" d="{path}z"/>')
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}">'
    (OUT / "logo.svg").write_text("".join([start, *paths, "</svg>\n"]), encoding="utf-8")


def ruled(photo: np.ndarray, every: int, strength: float = 0.85) -> np.ndarray:
    """A photo with a lattice drawn over it."""
    height, width = photo.shape[:2]
    y, x = np.mgrid[:height, :width]
    far = np.minimum(
        np.abs((x - width / 2 + every / 2) % every - every / 2),
        np.abs((y - height / 2 + every / 2) % every - every / 2),
    )
    alpha = strength * np.clip(1.9 - far, 0, 1)[..., None]
    return photo * (1 - alpha) + alpha


def hero() -> None:
    """A cup of coffee, stirred, with the lattice that moves along."""
    photo = data.coffee() / 255.0
    big = sample(photo, view((1200, 1800), (299.5, 199.5), 1 / 3), antialias=False)
    lattice = ruled(big, 75)
    shown = view((960, 1120), (300, 196), 0.375)
    moved = swirl(shown, np.array([300.0, 196.0]), 2.6, 95)
    into = (moved - [299.5, 199.5]) * 3 + [899.5, 599.5]
    plain, lines = (sample(image, into, padding_mode="reflection") for image in (big, lattice))
    x = np.linspace(0, 1, shown.shape[1])[None, :, None]
    share = np.clip(1.15 - 1.15 * x, 0, 1) ** 0.8  # the lattice fades to the right
    picture = plain * (1 - share) + lines * share
    half = picture.reshape(480, 2, 560, 2, 3).mean((1, 3))
    store("hero", half, 66)
    store("hero-2x", picture, 40)  # for screens with two pixels in place of each


def terrain() -> tuple[np.ndarray, np.ndarray]:
    """A map of heights in pixels, and its colours in the light of a low sun."""
    raw = cbook.get_sample_data("jacksboro_fault_dem.npz")["elevation"].astype(float)
    heights = gridsample.interpolate(raw[None, None], scale_factor=3, mode="cubic")[0, 0]
    slope_y, slope_x = np.gradient(heights / 30)
    light = np.array([-0.55, -0.45, 0.7])
    shade = (-slope_x * light[0] - slope_y * light[1] + light[2]) / np.sqrt(
        slope_x**2 + slope_y**2 + 1
    )
    level = (heights - heights.min()) / np.ptp(heights)
    ramp = np.array(LAND)[None].transpose(0, 2, 1) / 255.0  # (1, 3, 6)
    colours = gridsample.grid_sample(
        ramp, 2 * level.reshape(1, -1, 1) - 1, "linear", "border", align_corners=True
    )[0].T.reshape(*level.shape, 3)
    return heights, colours * (0.35 + 0.75 * shade.clip(0, 1.3))[..., None]


def raster() -> None:
    """A map with a strip that was not surveyed, turned; nothing outside darkens its edges."""
    heights, colours = terrain()
    gap = (
        np.abs(
            (np.mgrid[: heights.shape[0], : heights.shape[1]] * [[[0.94]], [[0.34]]]).sum(0) - 640
        )
        < 26
    )
    colours[gap] = np.nan
    turn = np.deg2rad(-17)
    at = view(TILE, (0, 0), 2.55) @ np.array(
        [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]
    )
    at += [heights.shape[1] / 2, heights.shape[0] / 2]
    turned = sample(colours, at, "bilinear", padding_mode="missing", missing="ignore")
    paper = np.array([0.925, 0.94, 0.945])
    store("raster", np.where(np.isnan(turned), paper, turned), 68)


def panorama() -> np.ndarray:
    """All directions around a hill of that map: rays that march over it, under a real sky."""
    heights, colours = terrain()
    heights = heights / 30 * 3.2
    texture = data.grass() / 255.0 - data.grass().mean() / 255
    place = np.array([700.0, 560.0])
    eye = float(sample(heights[..., None], place.reshape(1, 1, 2), antialias=False).item()) + 26
    shape = (700, 1400)
    longitude = (np.arange(shape[1]) + 0.5) / shape[1] * 2 * np.pi
    latitude = (0.5 - (np.arange(shape[0]) + 0.5) / shape[0]) * np.pi
    distances = np.geomspace(0.6, 560, 1100)
    way = np.stack([np.sin(longitude), np.cos(longitude)], -1)  # (W, 2)
    along = place + distances[:, None, None] * way  # (D, W, 2)
    ground = sample(
        heights[..., None], along, "bilinear", padding_mode="reflection", antialias=False
    )
    up = np.arctan2(ground[..., 0] - eye, distances[:, None])  # the angle at which it is seen
    horizon = np.maximum.accumulate(up, 0)  # (D, W), increasing: where each ray first hits
    scene = np.zeros((*shape, 3))
    sky_low, sky_high = np.array([0.98, 0.86, 0.72]), np.array([0.16, 0.42, 0.68])
    for column in range(shape[1]):
        hit = np.searchsorted(horizon[:, column], latitude)
        far = distances[np.minimum(hit, len(distances) - 1)]
        t = np.clip(latitude / 1.1, 0, 1)[:, None] ** 0.62
        sky = sky_low * (1 - t) + sky_high * t
        at = place + far[:, None] * way[column]
        near = sample(colours, at[None], "bilinear", padding_mode="reflection", antialias=False)[0]
        grain = sample(
            texture[..., None], at[None] * 9, "bilinear", padding_mode="wrap", antialias=False
        )[0]
        near = near * (1 + 1.1 * grain * np.exp(-far / 60)[:, None])
        fog = np.exp(-((far / 420) ** 1.6))[:, None]
        land = near * fog + (sky_low * 0.92) * (1 - fog)
        scene[:, column] = np.where((hit >= len(distances))[:, None], sky, land)
    sun = (
        np.exp(-(((longitude - 5.1) / 0.09) ** 2))
        * np.exp(-(((latitude - 0.3) / 0.09) ** 2))[:, None]
    )
    glow = np.exp(-np.hypot((longitude - 5.1), (latitude[:, None] - 0.3)) / 0.35)
    is_sky = latitude[:, None] > horizon[-1]
    scene += np.where(is_sky, sun + 0.3 * glow, 0.12 * glow)[..., None] * [1, 0.93, 0.75]
    return scene.clip(0, 1)


def planet() -> None:
    """The panorama as a little planet: a stereographic projection."""
    scene = panorama()
    height, width = scene.shape[:2]
    right, forward = np.moveaxis(view((2 * TILE[0], 2 * TILE[1]), (0, 0.1), 0.0047), -1, 0)
    above = 2 * np.arctan(np.hypot(right, forward)) / np.pi  # 0 straight down, 1 straight up
    around = np.arctan2(right, forward) / (2 * np.pi)
    at = np.stack([width * (around % 1) - 0.5, height * (1 - above) - 0.5], -1)
    fine = sample(scene, at, padding_mode=("wrap", "border"), antialias=False)
    store("planet", fine.reshape(TILE[0], 2, TILE[1], 2, 3).mean((1, 3)), 82)


def volume() -> None:
    """A brain with a corner cut out: each pixel samples the volume where its ray meets tissue."""
    folder = Path(nibabel.__file__).parent / "tests/data"
    scan = nibabel.load(folder / "example4d.nii.gz")
    head = scan.get_fdata()[..., 0]
    extent = np.array(scan.header.get_zooms()[:3]) * head.shape
    half = extent / extent.max()
    soft = gaussian_filter(head, 1.2)[None, None]
    yaw, pitch = np.deg2rad(YAW), np.deg2rad(42)
    right = np.array([np.cos(yaw), np.sin(yaw), 0])
    ahead = np.array([-np.sin(yaw) * np.cos(pitch), np.cos(yaw) * np.cos(pitch), -np.sin(pitch)])
    up = np.cross(right, ahead)
    fine = (2 * TILE[0], 2 * TILE[1])
    plane = view(fine, FRAME, ZOOM)
    start = plane[..., :1] * right - plane[..., 1:] * up - 2 * ahead
    point = np.zeros((*fine, 3))
    met, was_cut = np.zeros(fine, bool), np.zeros(fine, bool)
    cut_face = np.zeros(fine, bool)
    for step in np.linspace(0, 4, 700):
        at = start + step * ahead
        (value,) = gridsample.grid_sample(soft, (at / half)[..., ::-1][None, None], "linear")[0, 0]
        cut = (at[..., 0] > CUT[0]) & (at[..., 1] < CUT[1]) & (at[..., 2] > CUT[2])
        new = ~met & (value > 130) & ~cut
        point[new], cut_face[new] = at[new], was_cut[new]
        met |= new
        was_cut = cut | (np.abs(at) > half).any(-1)
    grid = (point / half)[..., ::-1][None, None]  # x is the last axis
    tissue = gridsample.grid_sample(head[None, None], grid, "spline3", "border")[0, 0, 0]
    slope = gridsample.grid_gradient(soft, grid, "linear", "border")
    normal = -slope.reshape(*fine, 3)[..., ::-1] / half
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True) + 1e-9
    light = (normal @ np.array([-0.35, -0.55, 0.76])).clip(0, 1)
    bright = (tissue / np.percentile(tissue[met], 98.5)).clip(0, 1)
    cut_part = colormaps["bone"](bright**1.1)[..., :3]
    skin = np.array([0.30, 0.62, 0.66]) * (0.22 + 0.85 * light)[..., None]
    picture = np.where(cut_face[..., None], cut_part, skin)
    picture[~met] = [0.075, 0.165, 0.2]
    store("volume", picture.reshape(TILE[0], 2, TILE[1], 2, 3).mean((1, 3)), 82)


def labels() -> None:
    """Coins and their labels, under one elastic deformation: no label is invented."""
    coins = data.coins()
    names = label(binary_fill_holes(gaussian_filter(coins.astype(float), 1) > 105))[0]
    sizes = np.bincount(names.ravel())
    names[(sizes[names] < 300) | (sizes[names] > 8000)] = 0
    noise = np.random.default_rng(4).standard_normal((2, 5, 6))
    push = gridsample.interpolate(noise[None], size=TILE, mode="spline3")[0].transpose(1, 2, 0)
    at = view(TILE, (196, 162), 0.78) + 10 * push
    photo = sample(coins[..., None] / 255.0, at)[..., 0]
    moved = sample(names[..., None], at, "label", antialias=True)[..., 0]
    hues = colormaps["turbo"](np.random.default_rng(1).permutation(names.max() + 1) / names.max())[
        :, :3
    ]
    tint = hues[moved]
    grey = photo[..., None]
    picture = np.where(
        moved[..., None] > 0, 0.58 * tint + 0.62 * grey * (0.4 + 0.6 * tint), grey * 0.55
    )
    edge = (
        np.abs(np.gradient(moved.astype(float))[0]) + np.abs(np.gradient(moved.astype(float))[1])
    ) > 0
    store("labels", np.where(edge[..., None], 0.96, picture), 62)


def flow() -> None:
    """A flow as colours, with noise that is carried along it: 2 x 30 steps of sampling."""
    shape = (600, 800)
    rng = np.random.default_rng(11)
    waves = gridsample.interpolate(rng.standard_normal((1, 1, 5, 6)), size=shape, mode="spline5")[
        0, 0
    ]
    across, along = np.gradient(waves)
    field = np.stack([across, -along], -1)  # without divergence
    speed = np.hypot(*np.moveaxis(field, -1, 0))[..., None]
    unit = field / (speed + 1e-9)
    noise = rng.random((*shape, 1))
    total = noise.copy()
    for sign in (1, -1):
        at = view(shape, ((shape[1] - 1) / 2, (shape[0] - 1) / 2), 1)
        for _ in range(30):
            at = at + sign * sample(unit, at, "bilinear", padding_mode="border", antialias=False)
            total += sample(noise, at, "bilinear", padding_mode="reflection", antialias=False)
    streaks = (total - total.mean()) / total.std()
    hue = fields.flow_colours(field / speed.max() * 1.0) / 255
    picture = hue * (0.80 + 0.17 * streaks)
    small = gridsample.interpolate(
        picture[None], size=(240, 320), mode="cubic", antialias=True, channel_axis=-1
    )
    store("flow", small[0], 45)


def floor() -> None:
    """A floor to the horizon, antialiased along its footprints."""
    x, y = np.meshgrid(np.linspace(-1.33, 1.33, 320), np.linspace(0.004, 1, 240))
    at = np.stack([170 * x / y + 60, 170 / y], -1)
    board = data.checkerboard()[..., None] / 255.0
    seen = sample(board, at, "bilinear", padding_mode="wrap")[..., 0]
    store("floor", seen, 42)


def strip() -> None:
    """The pictures of the README in one: the cup, and two rows of three."""
    whole = Image.new("RGBA", (1200, 424))
    cup = Image.open(OUT / "home/hero.webp").convert("RGB")
    whole.paste(cup.resize((496, 424), Image.LANCZOS), (0, 0))
    names = ("planet", "volume", "labels", "flow", "raster", "floor")
    for i, name in enumerate(names):
        tile = ImageOps.fit(
            Image.open(OUT / f"home/{name}.webp").convert("RGB"), (228, 208), Image.LANCZOS
        )
        whole.paste(tile, (504 + i % 3 * 234, i // 3 * 216))
    whole.save(OUT / "strip.webp", quality=72, method=6)


def letters(name: str, size: int, weight: int) -> ImageFont.FreeTypeFont:
    """A font of the site, at a weight."""
    buffer = io.BytesIO()
    font = TTFont(Path(__file__).parent / f"fonts/{name}.woff2")
    font.flavor = None
    font.save(buffer)
    drawn = ImageFont.truetype(io.BytesIO(buffer.getvalue()), size)
    drawn.set_variation_by_axes([weight])
    return drawn


def drawn_logo(side: int) -> Image.Image:
    """The logo as pixels, of the curves in its file."""
    scale = 4 * side / 64
    image = Image.new("RGBA", (4 * side, 4 * side))
    pen = ImageDraw.Draw(image)
    for colour, path in re.findall(r'fill="([^"]*)" d="([^"]*)"', (OUT / "logo.svg").read_text()):
        points = np.array([float(n) for n in re.findall(r"[-\d.]+", path)]).reshape(4, 3, 2) * scale
        t = np.linspace(0, 1, 9)[:, None]
        sides = [(1 - t) ** 2 * a + 2 * t * (1 - t) * b + t**2 * c for a, b, c in points]
        pen.polygon([tuple(point) for side_ in sides for point in side_], fill=colour)
    pen.ellipse([scale * n for n in (21, 21, 43, 43)], fill=f"#{POINT}")
    return image.resize((side, side), Image.LANCZOS)


def card() -> None:
    """The picture of a shared link: 1200 x 630."""
    whole = Image.new("RGB", (1200, 630), "#0f171c")
    cup = Image.open(OUT / "home/hero.webp").convert("RGB")
    whole.paste(ImageOps.fit(cup, (540, 630), Image.LANCZOS), (660, 0))
    mark = drawn_logo(96)
    whole.paste(mark, (64, 70), mark)
    pen = ImageDraw.Draw(whole)
    pen.text((182, 92), "gridsample", font=letters("instrument-sans", 48, 650), fill="#f1f6f8")
    for i, line in enumerate(("Sample any image", "at any points.", "Gradients included.")):
        pen.text((64, 236 + 68 * i), line, font=letters("instrument-sans", 57, 680), fill="#ffffff")
    for i, line in enumerate(
        ("NumPy, PyTorch, JAX and Dask arrays,", "in one to three dimensions")
    ):
        pen.text((64, 478 + 38 * i), line, font=letters("instrument-sans", 28, 450), fill="#a3b1b9")
    whole.save(OUT / "card.jpg", quality=82, optimize=True)


FIGURES = (logo, hero, raster, planet, volume, labels, flow, floor, strip, card)


def main() -> None:
    """Draw all of them, or those whose names are given."""
    (OUT / "home").mkdir(parents=True, exist_ok=True)
    for figure in FIGURES:
        if figure.__name__ in sys.argv[1:] or len(sys.argv) == 1:
            figure()


if __name__ == "__main__":
    main()
