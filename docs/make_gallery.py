"""Draw the gallery: ``python docs/make_gallery.py [--update] [NAME ...]``.

Runs the scripts of docs/gallery, all of them or those named, and stores their pictures small, with
the page that lists them.  Without --update, it writes to a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import runpy
import shutil
import tempfile
from pathlib import Path

import site_gallery
from PIL import Image

# The four pictures of the README, and the part of each (left, top, width in shares of its height).
STRIP = {"floor": 0.5, "swirl": 0.5, "panorama": 1.0, "elastic": 0.5}
WIDEST = 900


def draw(name: str, folder: Path) -> Image.Image:
    """Run a script in a folder, and return its picture."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        runpy.run_path(str(site_gallery.FOLDER / f"{name}.py"))
        return Image.open(folder / f"{name}.png").convert("RGB")
    finally:
        os.chdir(before)


def small(picture: Image.Image) -> Image.Image:
    """A picture at most as wide as a page."""
    height = round(picture.height * WIDEST / picture.width)
    return picture.resize((WIDEST, height), Image.LANCZOS) if picture.width > WIDEST else picture


def thumbnail(picture: Image.Image) -> Image.Image:
    """The right end of a picture, which shows the result, for the list of cards."""
    width = min(picture.width, round(picture.height * 1.6))
    height = round(width / 1.6)
    top = (picture.height - height) // 2
    part = picture.crop((picture.width - width, top, picture.width, top + height))
    return part.resize((320, 200), Image.LANCZOS)


def strip(folder: Path, height: int = 220) -> Image.Image:
    """The right ends of four pictures, side by side."""
    parts = []
    for name, share in STRIP.items():
        picture = Image.open(folder / f"{name}.webp").convert("RGB")
        side = min(picture.height, round(picture.width * share))
        part = picture.crop((picture.width - side, 0, picture.width, side))
        parts.append(part.resize((height, height), Image.LANCZOS))
    picture = Image.new("RGB", (height * len(parts) + 8 * (len(parts) - 1), height), "white")
    for i, part in enumerate(parts):
        picture.paste(part, (i * (height + 8), 0))
    return picture


def main() -> None:
    """Draw pictures, and store them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    os.environ["MPLBACKEND"] = "agg"
    target = site_gallery.FOLDER if options.update else Path(tempfile.mkdtemp())
    (target / "small").mkdir(exist_ok=True)
    every = [name for names in site_gallery.SECTIONS.values() for name in names]
    for name in options.names or every:
        with tempfile.TemporaryDirectory() as folder:
            picture = small(draw(name, Path(folder)))
        picture.save(target / f"{name}.webp", quality=80, method=6)
        thumbnail(picture).save(target / "small" / f"{name}.webp", quality=72, method=6)
    (target / "README.md").write_text(site_gallery.index(), encoding="utf-8")
    if not options.update and options.names:
        for path in site_gallery.FOLDER.glob("*.webp"):
            if not (target / path.name).exists():
                shutil.copy(path, target)
    images = site_gallery.FOLDER.parent / "images" if options.update else target
    strip(target).save(images / "strip.webp", quality=85, method=6)
    print(target)


if __name__ == "__main__":
    main()
