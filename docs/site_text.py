"""The site's additions to the Markdown of code hosts: typeset formulas, sizes of pictures."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from latex2mathml.converter import convert

# As code hosts read them: $`x`$ in a line, and a block of the language "math".
INLINE = re.compile(r"\$`([^`\n]+)`\$")
BLOCK = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def typeset(markdown: str) -> str:
    """Replace formulas in TeX by MathML, which browsers show without a script."""
    markdown = BLOCK.sub(
        lambda match: f'<div class="formula">{convert(match[1].strip(), display="block")}</div>',
        markdown,
    )
    return INLINE.sub(lambda match: convert(match[1]), markdown)


def size_of(path: Path) -> tuple[int, int]:
    """The width and height of a PNG file, or of a WebP file with losses."""
    start = path.read_bytes()[:30]
    if path.suffix == ".png":
        width, height = struct.unpack(">II", start[16:24])
    else:
        width, height = (size & 0x3FFF for size in struct.unpack("<HH", start[26:30]))
    return width, height
