"""The site's additions to the Markdown of code hosts: typeset formulas, sizes of pictures."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from latex2mathml.converter import convert

# As code hosts read them: $`x`$ in a line, and a block of the language "math".
INLINE = re.compile(r"\$`([^`\n]+)`\$")
BLOCK = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# The number of characters of HTML from which a section counts as long.
LONG = 6000


def typeset(markdown: str) -> str:
    """Replace formulas in TeX by MathML, which browsers show without a script."""
    markdown = BLOCK.sub(
        lambda match: f'<div class="formula">{convert(match[1].strip(), display="block")}</div>',
        markdown,
    )
    return INLINE.sub(lambda match: convert(match[1]), markdown)


def folded(content: str, level: int) -> str:
    """Close the long sections of a page whose headings have a level, until they are opened."""
    heading = rf"<h{level} .*?</h{level}>"
    parts = re.split(rf"(?=<h[1-{level}] )", content)
    for i, part in enumerate(parts):
        match = re.match(heading, part, re.DOTALL)
        if match is not None and len(part) > LONG:
            rest = part[match.end() :]
            title = re.sub(r'<a class="headerlink".*?</a>', "", match[0])  # it would be nested
            parts[i] = f'<details class="part"><summary>{title}</summary>{rest}</details>\n'
    return "".join(parts)


def size_of(path: Path) -> tuple[int, int]:
    """The width and height of a PNG file, or of a WebP file with losses."""
    start = path.read_bytes()[:30]
    if path.suffix == ".png":
        width, height = struct.unpack(">II", start[16:24])
    else:
        width, height = (size & 0x3FFF for size in struct.unpack("<HH", start[26:30]))
    return width, height
