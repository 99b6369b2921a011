"""Meshes in many spellings: the doctor finds something exactly where a warp is not the identity."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from doctor.snippets import HEAD
from hypothesis import given
from hypothesis import strategies as st

from gridsample.doctor import examine

IMAGE = torch.arange(35.0).reshape(1, 1, 5, 7) ** 2

# How the indices of rows and columns are made, as an array whose first axis holds them.
INDICES = {
    "mgrid": "np.mgrid[0:h, 0:w].astype(float)",
    "indices": "np.indices((h, w)).astype(float)",
    "mgrid in steps": "np.mgrid[0:h - 1:h * 1j, 0:w - 1:complex(0, w)]",
    "ij": "torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing='ij')).double()",
    "xy": "np.stack(np.meshgrid(np.arange(w), np.arange(h))[::-1]).astype(float)",
    "any axes": "torch.stack(torch.meshgrid(*[torch.arange(n) for n in image.shape[2:]], "
    "indexing='ij')).double()",
}
# How it becomes coordinates: {0} and {1} divide rows and columns, {2} is twice the offset.
DIVISIONS = {
    "components": "    mesh[0] = (2 * mesh[0] + {2}) / {0} - 1\n"
    "    mesh[1] = (2 * mesh[1] + {2}) / {1} - 1\n",
    "in place": "    mesh += {2} / 2\n    mesh[0] /= {0} / 2\n    mesh[1] /= {1} / 2\n"
    "    mesh -= 1\n",
    "a loop": "    sizes = ({0}, {1})\n    for k in range(2):\n"
    "        mesh[k] = (2 * mesh[k] + {2}) / sizes[k] - 1\n",
    "enumerate": "    for k, n in enumerate(({0}, {1})):\n"
    "        mesh[k] = (2 * mesh[k] + {2}) / n - 1\n",
}
# How it becomes a grid, with the components in the order of the indices.
GRIDS = {
    "stack": "    grid = torch.as_tensor(mesh)\n    grid = torch.stack((grid[0], grid[1]), -1)\n",
    "permute": "    grid = torch.as_tensor(mesh).permute(1, 2, 0)\n",
    "transposed": "    grid = torch.as_tensor(np.asarray(mesh).transpose(1, 2, 0))\n",
    "moveaxis": "    grid = torch.as_tensor(np.moveaxis(np.asarray(mesh), 0, -1))\n",
}


class Spelling(NamedTuple):
    """How a grid is written.

    Attributes:
        indices: one of `INDICES`.
        division: one of `DIVISIONS`.
        grid: one of `GRIDS`.
        flips: whether the components are reversed, which is right.
        exchanges: whether rows are divided by the width and columns by the height.
        corners: whether indices are divided by the size minus 1.
        aligned: align_corners.
    """

    indices: str
    division: str
    grid: str
    flips: bool
    exchanges: bool
    corners: bool
    aligned: bool

    @property
    def code(self) -> str:
        """A function that warps an image."""
        sizes = ("(h - 1)", "(w - 1)") if self.corners else ("h", "w")
        division = DIVISIONS[self.division].format(
            *(sizes[::-1] if self.exchanges else sizes), 0 if self.corners else 1
        )
        return (
            "def warp(image):\n    h, w = image.shape[-2:]\n"
            f"    mesh = {INDICES[self.indices]}\n{division}{GRIDS[self.grid]}"
            + ("    grid = grid.flip(-1)\n" if self.flips else "")
            + "    return F.grid_sample(image.double(), grid[None], padding_mode='border', "
            f"align_corners={self.aligned})\n"
        )


@given(
    st.builds(
        Spelling,
        st.sampled_from([*INDICES]),
        st.sampled_from([*DIVISIONS]),
        st.sampled_from([*GRIDS]),
        flips=st.booleans(),
        exchanges=st.booleans(),
        corners=st.booleans(),
        aligned=st.booleans(),
    )
)
def test_something_is_found_exactly_where_a_warp_is_not_the_identity(spelling: Spelling) -> None:
    names = {"np": np, "torch": torch, "F": torch.nn.functional}
    exec(spelling.code, names)
    result = names["warp"](IMAGE)  # type: ignore[operator]
    is_identity = torch.allclose(result, IMAGE.double(), atol=1e-9)
    report = examine(HEAD + spelling.code)
    assert not (report.findings and is_identity), (spelling.code, report.findings)
    if spelling.indices == "any axes":  # its components are not known one by one
        return
    assert report.findings or is_identity, spelling.code
    found = {finding.code for finding in report.findings}
    if not spelling.flips:
        assert "GS004" in found
    elif spelling.exchanges:
        assert "GS012" in found


ROWS = """
def warp(image):
    h, w = image.shape[-2:]
    gx, gy = {mesh}
    grid = {stack}((gx, gy), -1)[None]
    return F.grid_sample(image, torch.as_tensor(grid).to(image), align_corners=True)
"""
LINES = "(torch.linspace(-1, 1, w), torch.linspace(-1, 1, h)"


@pytest.mark.parametrize(
    ("mesh", "stack"),
    [
        (f"torch.meshgrid{LINES})", "torch.stack"),
        (f"torch.meshgrid{LINES}, indexing='ij')", "torch.stack"),
        (f"np.meshgrid{LINES}, indexing='ij')", "np.stack"),
        ("np.mgrid[-1:1:w * 1j, -1:1:h * 1j]", "np.stack"),
    ],
)
@pytest.mark.filterwarnings("ignore:torch.meshgrid")
def test_the_cure_of_a_mesh_with_x_along_its_rows_is_the_identity(mesh: str, stack: str) -> None:
    code = ROWS.format(mesh=mesh, stack=stack)
    (finding,) = examine(HEAD + code).findings
    cure = finding.fix.partition(", or ")[0]
    cured = code.replace("[None]\n", f"[None]\n    grid = {cure}\n")
    assert finding.code == "GS004" and not examine(HEAD + cured).findings
    for source, expected in ((code, (7, 5)), (cured, (5, 7))):
        names = {"np": np, "torch": torch, "F": torch.nn.functional}
        exec(source, names)
        result = names["warp"](IMAGE)  # type: ignore[operator]
        assert result.shape[2:] == expected
    torch.testing.assert_close(result, IMAGE, rtol=1e-5, atol=1e-3)
