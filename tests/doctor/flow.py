"""Code in the idioms of optical flow and video, with mistakes and without.

Written in our own words; see `doctor.projects`.
"""

from __future__ import annotations

WRONG: dict[str, tuple[str, str, str]] = {}
RIGHT: dict[str, str] = {}

TRUE, FALSE = "align_corners=True)", "align_corners=False)"

# Optical flow and video --------------------------------------------------------------------------

_CACHED = """
cached_grids = {}

def warp(tenInput, tenFlow):
    key = (str(tenFlow.device), str(tenFlow.size()))
    if key not in cached_grids:
        hor = torch.linspace(-1.0, 1.0, tenFlow.shape[3]).view(1, 1, 1, tenFlow.shape[3])
        hor = hor.expand(tenFlow.shape[0], -1, tenFlow.shape[2], -1)
        ver = torch.linspace(-1.0, 1.0, tenFlow.shape[2]).view(1, 1, tenFlow.shape[2], 1)
        ver = ver.expand(tenFlow.shape[0], -1, -1, tenFlow.shape[3])
        cached_grids[key] = torch.cat([hor, ver], 1).to(tenFlow.device)
    tenFlow = torch.cat([tenFlow[:, 0:1] / ((tenInput.shape[3] - 1.0) / 2.0),
                         tenFlow[:, 1:2] / ((tenInput.shape[2] - 1.0) / 2.0)], 1)
    g = (cached_grids[key] + tenFlow).permute(0, 2, 3, 1)
    return torch.nn.functional.grid_sample(input=tenInput, grid=g, padding_mode="border")
"""
WRONG["RIFE: a grid in a dictionary of the module"] = ("GS001", TRUE, _CACHED)
RIGHT["RIFE: with align_corners"] = _CACHED.replace('="border")', '="border", align_corners=True)')
WRONG["softsplat: keywords of linspace, and a key of text"] = (
    "GS001",
    TRUE,
    """
cache = {}

def backwarp(tenIn, tenFlow):
    if "grid" + str(tenFlow.shape) not in cache:
        tenHor = torch.linspace(start=-1.0, end=1.0, steps=tenFlow.shape[3]).view(1, 1, 1, -1)
        tenVer = torch.linspace(start=-1.0, end=1.0, steps=tenFlow.shape[2]).view(1, 1, -1, 1)
        tenHor = tenHor.repeat(1, 1, tenFlow.shape[2], 1)
        tenVer = tenVer.repeat(1, 1, 1, tenFlow.shape[3])
        cache["grid" + str(tenFlow.shape)] = torch.cat([tenHor, tenVer], 1).cuda()
    tenFlow = torch.cat([tenFlow[:, 0:1, :, :] / ((tenIn.shape[3] - 1.0) / 2.0),
                         tenFlow[:, 1:2, :, :] / ((tenIn.shape[2] - 1.0) / 2.0)], 1)
    where = (cache["grid" + str(tenFlow.shape)] + tenFlow).permute(0, 2, 3, 1)
    return F.grid_sample(tenIn, where, mode="bilinear", padding_mode="zeros", align_corners=False)
""",
)
RIGHT["SPyNet: edges, and a flow in halves of the size"] = """
cache = {}

def backwarp(tenIn, tenFlow):
    key = str(tenFlow.shape)
    if key not in cache:
        h, w = tenFlow.shape[-2:]
        tenHor = torch.linspace(-1.0 + 1.0 / w, 1.0 - 1.0 / w, w).view(1, 1, 1, -1)
        tenVer = torch.linspace(-1.0 + 1.0 / h, 1.0 - 1.0 / h, h).view(1, 1, -1, 1)
        cache[key] = torch.cat([tenHor.repeat(1, 1, h, 1), tenVer.repeat(1, 1, 1, w)], 1)
    tenFlow = torch.cat([tenFlow[:, 0:1] * 2.0 / tenIn.shape[3],
                         tenFlow[:, 1:2] * 2.0 / tenIn.shape[2]], 1)
    where = (cache[key] + tenFlow).permute(0, 2, 3, 1)
    return F.grid_sample(tenIn, where, padding_mode="border", align_corners=False)
"""
WRONG["vs-rife: a global grid, and a flow that is never divided"] = (
    "GS005",
    "flow * 2 / (size - 1)",
    """
tenGrid = None

def warp(tenInput, tenFlow):
    global tenGrid
    if tenGrid is None or tenGrid.size() != tenFlow.size():
        N, _, H, W = tenFlow.shape
        hor = torch.linspace(-1.0, 1.0, W).view(1, 1, 1, W).expand(N, -1, H, -1)
        ver = torch.linspace(-1.0, 1.0, H).view(1, 1, H, 1).expand(N, -1, -1, W)
        tenGrid = torch.cat([hor, ver], 1)
    g = (tenGrid + tenFlow).permute(0, 2, 3, 1)
    return F.grid_sample(tenInput, g, padding_mode="border", align_corners=True)
""",
)
WRONG["PWC-Net: chained in place"] = (
    "GS001",
    TRUE,
    """
def warp(x, flo):
    B, C, H, W = x.size()
    xx = torch.linspace(0, W - 1, W).view(1, 1, 1, W).expand(B, 1, H, W)
    yy = torch.linspace(0, H - 1, H).view(1, 1, H, 1).expand(B, 1, H, W)
    vgrid = torch.cat((xx, yy), 1) + flo
    vgrid[:, 0].div_(W - 1).mul_(2).sub_(1)
    vgrid[:, 1].div_(H - 1).mul_(2).sub_(1)
    return F.grid_sample(x, vgrid.permute(0, 2, 3, 1), align_corners=False)
""",
)
WRONG["RAFT: a method that samples at pixels"] = (
    "GS001",
    TRUE,
    """
class Lookup:
    def __init__(self, pyramid, radius=4):
        self.pyramid, self.radius = pyramid, radius

    def at(self, volume, coords):
        H, W = volume.shape[-2:]
        xgrid, ygrid = coords.split([1, 1], dim=-1)
        xgrid, ygrid = 2 * xgrid / (W - 1) - 1, 2 * ygrid / (H - 1) - 1
        return F.grid_sample(volume, torch.cat([xgrid, ygrid], dim=-1), align_corners=False)
""",
)
RIGHT["RAFT-Stereo: rows that are normalized only if there are several"] = """
def bilinear_sampler(img, coords):
    H, W = img.shape[-2:]
    xgrid, ygrid = coords.split([1, 1], dim=-1)
    xgrid = 2 * xgrid / (W - 1) - 1
    if H > 1:
        ygrid = 2 * ygrid / (H - 1) - 1
    return F.grid_sample(img, torch.cat([xgrid, ygrid], dim=-1), align_corners=True)
"""
_ARFLOW = """
def mesh_grid(B, H, W):
    x_base = torch.arange(0, W).repeat(B, H, 1)
    y_base = torch.arange(0, H).repeat(B, W, 1).transpose(1, 2)
    return torch.stack([x_base, y_base], 1)

def norm_grid(v_grid):
    _, _, H, W = v_grid.size()
    v_grid_norm = torch.zeros_like(v_grid)
    v_grid_norm[:, 0, :, :] = 2.0 * v_grid[:, 0, :, :] / (W - 1) - 1.0
    v_grid_norm[:, 1, :, :] = 2.0 * v_grid[:, 1, :, :] / (H - 1) - 1.0
    return v_grid_norm.permute(0, 2, 3, 1)
"""
WRONG["ARFlow: helpers for the mesh and for its norm"] = (
    "GS001",
    TRUE,
    _ARFLOW
    + """
def flow_warp(x, flow12, pad="border", mode="bilinear"):
    B, _, H, W = x.size()
    v_grid = norm_grid(mesh_grid(B, H, W).type_as(x) + flow12)
    return nn.functional.grid_sample(x, v_grid, mode=mode, padding_mode=pad)
""",
)
RIGHT["ARFlow: another call for versions without the argument"] = (
    _ARFLOW
    + """
import inspect

def flow_warp(x, flow12, pad="border", mode="bilinear"):
    B, _, H, W = x.size()
    v_grid = norm_grid(mesh_grid(B, H, W).type_as(x) + flow12)
    if "align_corners" in inspect.getfullargspec(F.grid_sample).args:
        return F.grid_sample(x, v_grid, mode=mode, padding_mode=pad, align_corners=True)
    return F.grid_sample(x, v_grid, mode=mode, padding_mode=pad)
"""
)
_COTRACKER = """
def sampler(input, coords, align_corners=True, padding_mode="border"):
    sizes = input.shape[2:]
    if align_corners:
        coords = coords * torch.tensor([2 / max(size - 1, 1) for size in reversed(sizes)])
    else:
        coords = coords * torch.tensor([2 / size for size in reversed(sizes)])
    coords -= 1
    return F.grid_sample(input, coords, align_corners=align_corners, padding_mode=padding_mode)
"""
RIGHT["CoTracker: scales for both values of a flag"] = _COTRACKER
WRONG["CoTracker: scales of corners only"] = (
    "GS001",
    TRUE,
    """
def sampler(input, coords, padding_mode="border"):
    scales = [2 / max(size - 1, 1) for size in reversed(input.shape[2:])]
    coords = coords * torch.tensor(scales, device=coords.device)
    return F.grid_sample(input, coords - 1, align_corners=False, padding_mode=padding_mode)
""",
)
WRONG["GMFlow: a centre of halves"] = (
    "GS001",
    TRUE,
    """
def normalize_coords(coords, h, w):
    c = torch.Tensor([(w - 1) / 2.0, (h - 1) / 2.0]).float().to(coords.device)
    return (coords - c) / c

def lookup(feature, coords):
    b, h, w = coords.shape[:3]
    return F.grid_sample(feature, normalize_coords(coords, h, w), align_corners=False)
""",
)
WRONG["AANet: a mesh of its own name, and disparities"] = (
    "GS001",
    TRUE,
    """
def meshgrid(img):
    b, _, h, w = img.size()
    x_range = torch.arange(0, w).view(1, 1, w).expand(1, h, w).type_as(img)
    y_range = torch.arange(0, h).view(1, h, 1).expand(1, h, w).type_as(img)
    return torch.cat((x_range, y_range), dim=0).unsqueeze(0).expand(b, 2, h, w)

def normalize_coords(grid):
    h, w = grid.size()[2:]
    grid[:, 0, :, :] = 2 * (grid[:, 0, :, :].clone() / (w - 1)) - 1
    grid[:, 1, :, :] = 2 * (grid[:, 1, :, :].clone() / (h - 1)) - 1
    return grid.permute((0, 2, 3, 1))

def disp_warp(img, disp):
    offset = torch.cat((-disp, torch.zeros_like(disp)), dim=1)
    where = normalize_coords(meshgrid(img) + offset)
    return F.grid_sample(img, where, mode="bilinear", padding_mode="border")
""",
)
WRONG["BasicSR: a mesh in the wrong order for a mixed flow"] = (
    "GS004",
    "flip(-1)",
    """
def flow_warp(x, flow):
    _, _, h, w = x.size()
    grid_y, grid_x = torch.meshgrid(torch.arange(0, h), torch.arange(0, w), indexing="ij")
    gx = 2.0 * (grid_x + flow[:, :, :, 0]) / max(w - 1, 1) - 1.0
    gy = 2.0 * (grid_y + flow[:, :, :, 1]) / max(h - 1, 1) - 1.0
    return F.grid_sample(x, torch.stack((gy, gx), dim=3), align_corners=True)
""",
)
RIGHT["BasicSR: a flow resized with the other value"] = """
def flow_warp(x, flow, interp_mode="bilinear", align_corners=True):
    _, _, h, w = x.size()
    grid_y, grid_x = torch.meshgrid(torch.arange(0, h), torch.arange(0, w), indexing="ij")
    vgrid = torch.stack((grid_x, grid_y), 2).type_as(x) + flow
    vx = 2.0 * vgrid[:, :, :, 0] / max(w - 1, 1) - 1.0
    vy = 2.0 * vgrid[:, :, :, 1] / max(h - 1, 1) - 1.0
    where = torch.stack((vx, vy), dim=3)
    return F.grid_sample(x, where, mode=interp_mode, align_corners=align_corners)

def refine(x, flow):
    up = F.interpolate(flow, scale_factor=2, mode="bilinear", align_corners=False) * 2.0
    return flow_warp(x, up.permute(0, 2, 3, 1))
"""
WRONG["TecoGAN: a device mesh whose flow is divided twice by 2"] = (
    "GS001",
    TRUE,
    """
def backward_warp(x, flow, mode="bilinear"):
    n, c, h, w = x.size()
    iu = torch.linspace(-1.0, 1.0, w).view(1, 1, 1, w).expand(n, -1, h, -1)
    iv = torch.linspace(-1.0, 1.0, h).view(1, 1, h, 1).expand(n, -1, -1, w)
    grid = torch.cat([iu, iv], 1).to(flow.device)
    step = torch.cat([flow[:, 0:1] / ((w - 1) / 2), flow[:, 1:2] / ((h - 1) / 2)], dim=1)
    return F.grid_sample(x, (grid + step).permute(0, 2, 3, 1), mode=mode)
""",
)
