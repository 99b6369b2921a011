"""Code in the styles of public projects: what the doctor must find, and what it must not."""

from __future__ import annotations

HEAD = "import numpy as np\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
# name: (codes, code)
WRONG: dict[str, tuple[str, str]] = {}
RIGHT: dict[str, str] = {}

# Divided by size - 1, without align_corners=True --------------------------------------------------

WRONG["optical flow, in place"] = (
    "GS001",
    """
def warp(x, flo):
    B, C, H, W = x.size()
    xx = torch.arange(0, W).view(1, -1).repeat(H, 1)
    yy = torch.arange(0, H).view(-1, 1).repeat(1, W)
    xx = xx.view(1, 1, H, W).repeat(B, 1, 1, 1)
    yy = yy.view(1, 1, H, W).repeat(B, 1, 1, 1)
    grid = torch.cat((xx, yy), 1).float()
    if x.is_cuda:
        grid = grid.cuda()
    vgrid = grid + flo
    vgrid[:, 0, :, :] = 2.0 * vgrid[:, 0, :, :].clone() / max(W - 1, 1) - 1.0
    vgrid[:, 1, :, :] = 2.0 * vgrid[:, 1, :, :].clone() / max(H - 1, 1) - 1.0
    vgrid = vgrid.permute(0, 2, 3, 1)
    return F.grid_sample(x, vgrid)
""",
)
WRONG["split coordinates"] = (
    "GS001",
    """
def sample_at(volume, coords, mode="bilinear"):
    h, w = volume.shape[-2:]
    cx, cy = coords.split([1, 1], dim=-1)
    cx = 2 * cx / (w - 1) - 1
    cy = 2 * cy / (h - 1) - 1
    return F.grid_sample(volume, torch.cat([cx, cy], dim=-1), mode=mode, align_corners=False)
""",
)
WRONG["linspace and a scaled flow"] = (
    "GS001",
    """
class Warper(nn.Module):
    def forward(self, image, flow):
        n, _, h, w = flow.shape
        gx = torch.linspace(-1.0, 1.0, w).view(1, 1, 1, w).expand(n, -1, h, -1)
        gy = torch.linspace(-1.0, 1.0, h).view(1, 1, h, 1).expand(n, -1, -1, w)
        base = torch.cat([gx, gy], 1).to(image)
        step = torch.cat(
            [flow[:, 0:1] / ((w - 1.0) / 2.0), flow[:, 1:2] / ((h - 1.0) / 2.0)], 1
        )
        where = (base + step).permute(0, 2, 3, 1)
        return nn.functional.grid_sample(image, where, padding_mode="border", align_corners=False)
""",
)
WRONG["a helper of the same file"] = (
    "GS001",
    """
def to_unit(p, H, W):
    x = 2.0 * p[..., 0] / (W - 1) - 1.0
    y = 2.0 * p[..., 1] / (H - 1) - 1.0
    return torch.stack([x, y], dim=-1)

def gather_features(fmap, points):
    _, _, H, W = fmap.shape
    grid = to_unit(points, H, W)[:, None]
    return F.grid_sample(fmap, grid, align_corners=False)[:, :, 0]
""",
)

# Divided by the size, with align_corners=True -----------------------------------------------------

WRONG["points divided by the size"] = (
    "GS002",
    """
def lift(features, uv):
    B, C, H, W = features.shape
    u = uv[..., 0] / W * 2 - 1
    v = uv[..., 1] / H * 2 - 1
    grid = torch.stack((u, v), dim=-1)
    return F.grid_sample(features, grid.unsqueeze(1), mode="bilinear", align_corners=True)
""",
)
WRONG["half pixels with corners"] = (
    "GS002",
    """
def identity_like(img):
    height, width = img.shape[-2:]
    xs = (torch.arange(width) + 0.5) / width * 2 - 1
    ys = (torch.arange(height) + 0.5) / height * 2 - 1
    gy, gx = torch.meshgrid(ys, xs, indexing="ij")
    return F.grid_sample(img, torch.stack((gx, gy), -1)[None], align_corners=True)
""",
)
WRONG["a size as a tensor"] = (
    "GS002",
    """
def sample(feat, pts):
    h, w = feat.shape[2], feat.shape[3]
    size = torch.tensor([w, h], device=feat.device)
    grid = 2.0 * pts / size - 1.0
    return F.grid_sample(feat, grid[:, :, None], align_corners=True).squeeze(-1)
""",
)

# Indices divided by the size, without the half pixel ----------------------------------------------

WRONG["indices over the width"] = (
    "GS003",
    """
def shift_image(image, dx):
    b, c, h, w = image.shape
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    gx = 2 * (xs + dx) / w - 1
    gy = 2 * ys / h - 1
    grid = torch.stack([gx, gy], -1).expand(b, h, w, 2)
    return F.grid_sample(image, grid, align_corners=False)
""",
)
WRONG["indices from NumPy"] = (
    "GS003",
    """
def resample(im):
    H, W = im.shape[-2:]
    yy, xx = np.mgrid[0:H, 0:W]
    grid = np.stack([xx / W * 2 - 1, yy / H * 2 - 1], axis=-1)
    return F.grid_sample(im, torch.from_numpy(grid).float()[None], align_corners=False)
""",
)

# (y, x) order -------------------------------------------------------------------------------------

WRONG["stacked in matrix order"] = (
    "GS004",
    """
def zoom(img, factor):
    n, c, H, W = img.shape
    grid_y, grid_x = torch.meshgrid(
        torch.linspace(-1, 1, H), torch.linspace(-1, 1, W), indexing="ij"
    )
    grid = torch.stack((grid_y, grid_x), dim=-1) * factor
    return F.grid_sample(img, grid.expand(n, H, W, 2), align_corners=True)
""",
)
WRONG["a square mesh in matrix order"] = (
    "GS004",
    """
d = torch.linspace(-1, 1, 8)
x, y = torch.meshgrid((d, d))
grid = torch.stack((x, y), 2).unsqueeze(0)
output = F.grid_sample(torch.rand(1, 1, 4, 4), grid, align_corners=True)
""",
)
WRONG["names in matrix order"] = (
    "GS004",
    """
def look(img, points):
    ys, xs = points[..., 0], points[..., 1]
    grid = torch.stack([ys, xs], dim=-1)
    return F.grid_sample(img, grid, align_corners=False)
""",
)
WRONG["components that are divided by the other size"] = (
    "GS004",
    """
def at(feature, keypoints):
    b, c, h, w = feature.shape
    kp = keypoints.clone()
    kp[..., 0] = kp[..., 0] * 2 / (h - 1) - 1
    kp[..., 1] = kp[..., 1] * 2 / (w - 1) - 1
    return F.grid_sample(feature, kp[:, None], mode="bicubic", align_corners=True)
""",
)

# A flow in pixels on a normalized grid ------------------------------------------------------------

WRONG["flow on affine_grid"] = (
    "GS005",
    """
def backwarp(frame, flow):
    theta = torch.eye(2, 3)[None].repeat(frame.shape[0], 1, 1)
    grid = F.affine_grid(theta, frame.size(), align_corners=False)
    grid = grid + flow.permute(0, 2, 3, 1)
    return F.grid_sample(frame, grid, padding_mode="border", align_corners=False)
""",
)
WRONG["flow on a linspace"] = (
    "GS005",
    """
def warp(img, optical_flow):
    N, C, H, W = img.shape
    ys = torch.linspace(-1, 1, H)
    xs = torch.linspace(-1, 1, W)
    gy, gx = torch.meshgrid(ys, xs, indexing="ij")
    grid = torch.stack([gx, gy], dim=0)[None].to(img.device)
    vgrid = (grid + optical_flow).permute(0, 2, 3, 1)
    return F.grid_sample(img, vgrid, align_corners=True)
""",
)

# Half precision -----------------------------------------------------------------------------------

WRONG["a half grid for a half model"] = (
    "GS006",
    """
def forward_half(img, theta):
    grid = F.affine_grid(theta, img.shape, align_corners=False)
    return F.grid_sample(img.half(), grid.half(), align_corners=False)
""",
)
WRONG["a mesh in bfloat16"] = (
    "GS006",
    """
def identity(img):
    h, w = img.shape[-2:]
    xs = torch.linspace(-1, 1, w, dtype=torch.bfloat16)
    ys = torch.linspace(-1, 1, h, dtype=torch.bfloat16)
    grid = torch.stack(torch.meshgrid(xs, ys, indexing="xy"), dim=-1)
    return F.grid_sample(img, grid[None], align_corners=True)
""",
)

WRONG["divided in place, component by component, and resized"] = (  # diffusers' text-to-video
    "GS003",
    """
def coords_grid(batch, ht, wd, device):
    coords = torch.meshgrid(torch.arange(ht, device=device), torch.arange(wd, device=device))
    coords = torch.stack(coords[::-1], dim=0).float()
    return coords[None].repeat(batch, 1, 1, 1)

def warp_single_latent(latent, reference_flow):
    _, _, H, W = reference_flow.size()
    _, _, h, w = latent.size()
    coords0 = coords_grid(1, H, W, device=latent.device).to(latent.dtype)
    coords_t0 = coords0 + reference_flow
    coords_t0[:, 0] /= W
    coords_t0[:, 1] /= H
    coords_t0 = coords_t0 * 2.0 - 1.0
    coords_t0 = F.interpolate(coords_t0, size=(h, w), mode="bilinear", align_corners=False)
    coords_t0 = torch.permute(coords_t0, (0, 2, 3, 1))
    return F.grid_sample(latent, coords_t0, mode="nearest", align_corners=False)
""",
)

# Shrinking without antialiasing -------------------------------------------------------------------

WRONG["a quarter"] = (
    "GS007",
    """
def preview(image):
    return F.interpolate(image, scale_factor=0.25, mode="bilinear", align_corners=False)
""",
)
WRONG["a quarter of the height"] = ("GS007", WRONG["a quarter"][1].replace("0.25", "(0.25, 1)"))
WRONG["an eighth by size"] = (
    "GS007",
    """
def thumbnail(x):
    return F.interpolate(x, size=(x.shape[2] // 8, x.shape[3] // 8), mode="bicubic")
""",
)
WRONG["a small grid of a large image"] = (
    "GS007",
    """
def coarse(img):
    H, W = img.shape[-2:]
    ys, xs = torch.linspace(-1, 1, H // 4), torch.linspace(-1, 1, W // 4)
    gy, gx = torch.meshgrid(ys, xs, indexing="ij")
    return F.grid_sample(img, torch.stack([gx, gy], -1)[None], align_corners=True)
""",
)

# Two conventions in one function ------------------------------------------------------------------

WRONG["affine_grid and grid_sample"] = (
    "GS008",
    """
def stn(self, x):
    theta = self.fc_loc(self.localization(x).flatten(1)).view(-1, 2, 3)
    grid = F.affine_grid(theta, x.size(), align_corners=True)
    return F.grid_sample(x, grid, align_corners=False)
""",
)
WRONG["interpolate and grid_sample"] = (
    "GS008",
    """
def refine(low, high, grid):
    up = F.interpolate(low, size=high.shape[-2:], mode="bilinear", align_corners=True)
    fused = torch.cat([up, high], dim=1)
    return F.grid_sample(fused, grid, mode="bilinear", align_corners=False)
""",
)

# Not given ----------------------------------------------------------------------------------------

WRONG["nothing said"] = (
    "GS009",
    """
def sample_points(feature, grid):
    return F.grid_sample(feature, grid, mode="bilinear", padding_mode="zeros")
""",
)
WRONG["an affine grid that says nothing"] = (
    "GS009",
    """
class Transformer(nn.Module):
    def forward(self, x, theta):
        grid = F.affine_grid(theta, x.size())
        return F.grid_sample(x, grid, align_corners=False)
""",
)

# What targets lack --------------------------------------------------------------------------------

WRONG["border on a Mac"] = (
    "GS010",
    """
device = torch.device("mps")

def warp(image, grid):
    return F.grid_sample(image.to(device), grid, padding_mode="border", align_corners=True)
""",
)
WRONG["an old version of ONNX"] = (
    "GS010",
    """
class Net(nn.Module):
    def forward(self, x, grid):
        return F.grid_sample(x, grid, align_corners=False)

example = torch.rand(1, 1, 4, 4), torch.rand(1, 4, 4, 2)
torch.onnx.export(Net(), example, "m.onnx", opset_version=11)
""",
)
WRONG["a volume in TensorRT"] = (
    "GS010",
    """
import tensorrt as trt

def warp3d(vol, x, y, z):
    grid = torch.stack((x, y, z), dim=-1)
    return F.grid_sample(vol, grid, align_corners=True)
""",
)

# Pixels -------------------------------------------------------------------------------------------

WRONG["a mesh of pixels"] = (
    "GS011",
    """
def warp(img, flow):
    B, C, H, W = img.shape
    yy, xx = torch.meshgrid(torch.arange(H), torch.arange(W), indexing="ij")
    grid = torch.stack((xx, yy), dim=-1).float()[None] + flow.permute(0, 2, 3, 1)
    return F.grid_sample(img, grid, align_corners=True)
""",
)

# Right --------------------------------------------------------------------------------------------

RIGHT["optical flow, in place"] = """
def warp(x, flo):
    B, C, H, W = x.size()
    xx = torch.arange(0, W).view(1, -1).repeat(H, 1)
    yy = torch.arange(0, H).view(-1, 1).repeat(1, W)
    xx = xx.view(1, 1, H, W).repeat(B, 1, 1, 1)
    yy = yy.view(1, 1, H, W).repeat(B, 1, 1, 1)
    vgrid = torch.cat((xx, yy), 1).float().to(x.device) + flo
    vgrid[:, 0, :, :] = 2.0 * vgrid[:, 0, :, :].clone() / max(W - 1, 1) - 1.0
    vgrid[:, 1, :, :] = 2.0 * vgrid[:, 1, :, :].clone() / max(H - 1, 1) - 1.0
    vgrid = vgrid.permute(0, 2, 3, 1)
    output = F.grid_sample(x, vgrid, align_corners=True)
    mask = F.grid_sample(torch.ones_like(x), vgrid, align_corners=True)
    return output * (mask > 0.9999)
"""
RIGHT["a parameter that is True"] = """
def flow_warp(x, flow, interp_mode="bilinear", padding_mode="zeros", align_corners=True):
    _, _, h, w = x.size()
    grid_y, grid_x = torch.meshgrid(torch.arange(0, h).type_as(x), torch.arange(0, w).type_as(x))
    grid = torch.stack((grid_x, grid_y), 2).float()
    grid.requires_grad = False
    vgrid = grid + flow
    vgrid_x = 2.0 * vgrid[:, :, :, 0] / max(w - 1, 1) - 1.0
    vgrid_y = 2.0 * vgrid[:, :, :, 1] / max(h - 1, 1) - 1.0
    scaled = torch.stack((vgrid_x, vgrid_y), dim=3)
    return F.grid_sample(
        x, scaled, mode=interp_mode, padding_mode=padding_mode, align_corners=align_corners
    )
"""
RIGHT["both conventions by a flag"] = """
def normalize(xy, size, align_corners=False):
    h, w = size
    if align_corners:
        x, y = 2 * xy[..., 0] / (w - 1) - 1, 2 * xy[..., 1] / (h - 1) - 1
    else:
        x, y = (2 * xy[..., 0] + 1) / w - 1, (2 * xy[..., 1] + 1) / h - 1
    return torch.stack([x, y], -1)

def sample(img, xy, align_corners=False):
    grid = normalize(xy, img.shape[-2:], align_corners)
    return F.grid_sample(img, grid, align_corners=align_corners)
"""
RIGHT["a flag in a condition"] = """
def sample(img, xy, align_corners=False):
    h, w = img.shape[-2:]
    if align_corners:
        grid = torch.stack((2 * xy[..., 0] / (w - 1) - 1, 2 * xy[..., 1] / (h - 1) - 1), -1)
        return F.grid_sample(img, grid, align_corners=align_corners)
    grid = torch.stack(((2 * xy[..., 0] + 1) / w - 1, (2 * xy[..., 1] + 1) / h - 1), -1)
    return F.grid_sample(img, grid, align_corners=align_corners)
"""
RIGHT["half pixels"] = """
def identity_like(img):
    height, width = img.shape[-2:]
    xs = (torch.arange(width) + 0.5) / width * 2 - 1
    ys = (torch.arange(height) + 0.5) / height * 2 - 1
    gy, gx = torch.meshgrid(ys, xs, indexing="ij")
    return F.grid_sample(img, torch.stack((gx, gy), -1)[None], align_corners=False)
"""
RIGHT["half pixels by linspace"] = """
def identity_like(img):
    h, w = img.shape[-2:]
    xs = torch.linspace(-1 + 1 / w, 1 - 1 / w, w)
    ys = torch.linspace(-1 + 1 / h, 1 - 1 / h, h)
    grid = torch.stack(torch.meshgrid(xs, ys, indexing="xy"), -1)[None]
    return F.grid_sample(img, grid, align_corners=False)
"""
RIGHT["points with pixel edges at integers"] = """
def lift(features, uv):
    B, C, H, W = features.shape
    u = uv[..., 0] / W * 2 - 1
    v = uv[..., 1] / H * 2 - 1
    return F.grid_sample(features, torch.stack((u, v), -1)[:, None], align_corners=False)
"""
RIGHT["a transformer network"] = """
class STN(nn.Module):
    def forward(self, x):
        theta = self.loc(x).view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size(), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)
"""
RIGHT["a displacement in normalized units"] = """
def deform(image, displacement):
    grid = F.affine_grid(torch.eye(2, 3)[None], image.shape, align_corners=True)
    return F.grid_sample(image, grid + displacement, align_corners=True)
"""
RIGHT["a flow that the docstring says is normalized"] = '''
def deform(image, flow):
    """Warp an image by a flow, (N, H, W, 2), in normalized coordinates."""
    grid = F.affine_grid(torch.eye(2, 3)[None], image.shape, align_corners=True)
    return F.grid_sample(image, grid + flow, align_corners=True)
'''
RIGHT["a learned flow"] = """
class Align(nn.Module):
    def forward(self, low, high):
        flow = torch.tanh(self.flow_conv(torch.cat([low, high], 1)))
        grid = F.affine_grid(self.eye, high.shape, align_corners=False)
        return F.grid_sample(low, grid + flow.permute(0, 2, 3, 1), align_corners=False)
"""
RIGHT["a flow divided in place"] = """
def warp(tenInput, tenFlow):
    N, _, H, W = tenFlow.shape
    hor = torch.linspace(-1.0, 1.0, W).view(1, 1, 1, W).expand(N, -1, H, -1)
    ver = torch.linspace(-1.0, 1.0, H).view(1, 1, H, 1).expand(N, -1, -1, W)
    base = torch.cat([hor, ver], 1)
    tenFlow[:, 0:1, :, :].div_((W - 1.0) / 2.0)
    tenFlow[:, 1:2, :, :].div_((H - 1.0) / 2.0)
    g = (base + tenFlow).permute(0, 2, 3, 1)
    return F.grid_sample(input=tenInput, grid=g, padding_mode="border", align_corners=True)
"""
RIGHT["a loop over axes, and reversed components"] = """
class SpatialTransformer(nn.Module):
    def __init__(self, size, mode="bilinear"):
        super().__init__()
        self.mode = mode
        vectors = [torch.arange(0, s) for s in size]
        grid = torch.stack(torch.meshgrid(vectors, indexing="ij")).unsqueeze(0).float()
        self.register_buffer("grid", grid)

    def forward(self, src, flow):
        locs = self.grid + flow
        shape = flow.shape[2:]
        for i in range(len(shape)):
            locs[:, i, ...] = 2 * (locs[:, i, ...] / (shape[i] - 1) - 0.5)
        if len(shape) == 2:
            locs = locs.permute(0, 2, 3, 1)
            locs = locs[..., [1, 0]]
        return F.grid_sample(src, locs, align_corners=True, mode=self.mode)
"""
RIGHT["a mesh by ij, stacked the other way round"] = """
d = torch.linspace(-1, 1, 8)
mesh_x, mesh_y = torch.meshgrid((d, d), indexing="ij")
grid = torch.stack((mesh_y, mesh_x), 2)[None]
out = F.grid_sample(torch.rand(1, 1, 4, 4), grid, align_corners=True)
"""
RIGHT["a mesh that is flipped"] = """
def identity(img):
    axes = [torch.linspace(-1, 1, n) for n in img.shape[2:]]
    h, w = img.shape[-2:]
    mesh = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
    grid = torch.stack(mesh, dim=-1).flip(-1)
    return F.grid_sample(img, grid[None], align_corners=True)
"""
RIGHT["a volume"] = """
def warp3d(vol, disp):
    B, C, D, H, W = vol.shape
    zs, ys, xs = torch.arange(D), torch.arange(H), torch.arange(W)
    z, y, x = torch.meshgrid(zs, ys, xs, indexing="ij")
    gx = 2 * (x + disp[:, 0]) / (W - 1) - 1
    gy = 2 * (y + disp[:, 1]) / (H - 1) - 1
    gz = 2 * (z + disp[:, 2]) / (D - 1) - 1
    return F.grid_sample(vol, torch.stack((gx, gy, gz), -1), align_corners=True)
"""
RIGHT["points in the unit square"] = """
def point_sample(input, point_coords, **kwargs):
    if point_coords.dim() == 3:
        point_coords = point_coords.unsqueeze(2)
    return F.grid_sample(input, 2.0 * point_coords - 1.0, **kwargs)
"""
RIGHT["a grid in float32 for a half model"] = """
def forward_half(img, theta):
    grid = F.affine_grid(theta.half(), img.shape, align_corners=False).float()
    return F.grid_sample(img.float(), grid, align_corners=False).half()
"""
RIGHT["antialiased"] = """
def preview(image, mask):
    small = F.interpolate(image, scale_factor=0.25, mode="bilinear", antialias=True)
    labels = F.interpolate(mask, scale_factor=0.25, mode="nearest")
    half = F.interpolate(image, scale_factor=0.5, mode="bilinear", align_corners=False)
    return small, labels, F.interpolate(image, scale_factor=2, mode="bicubic"), half
"""
RIGHT["a flow that is made finer, then used in pixels"] = """
def upflow_and_warp(img, flow):
    flow = 2 * F.interpolate(flow, scale_factor=2, mode="bilinear", align_corners=False)
    n, _, h, w = flow.shape
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    gx = 2 * (xs + flow[:, 0]) / (w - 1) - 1
    gy = 2 * (ys + flow[:, 1]) / (h - 1) - 1
    return F.grid_sample(img, torch.stack((gx, gy), dim=-1), align_corners=True)
"""
RIGHT["pixels with gridsample"] = """
import gridsample

def warp(img, flow):
    h, w = img.shape[-2:]
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    grid = torch.stack((xs, ys), -1) + flow
    return gridsample.grid_sample(img, grid, coords="pixel")
"""
RIGHT["nothing to do with sampling"] = """
def grid_sample(points, step):
    h, w = points.shape
    return points[::step, ::step]

def thin(points):
    return grid_sample(points, 4)
"""
RIGHT["a function that chooses"] = """
def sample(img, pix, corners):
    H, W = img.shape[-2:]
    sx, sy = (W - 1, H - 1) if corners else (W, H)
    grid = torch.stack([2 * pix[..., 0] / sx - 1, 2 * pix[..., 1] / sy - 1], -1)
    return F.grid_sample(img, grid, align_corners=corners)
"""
RIGHT["a crop of an image"] = """
def crop(img, boxes, out_h, out_w):
    xs = torch.linspace(-1, 1, out_w)
    ys = torch.linspace(-1, 1, out_h)
    gy, gx = torch.meshgrid(ys, xs, indexing="ij")
    grid = torch.stack((gx, gy), -1)[None] * boxes[:, None, None, 2:] + boxes[:, None, None, :2]
    return F.grid_sample(img, grid, align_corners=False)
"""
RIGHT["border beside a Mac"] = """
device = torch.device("cuda")

def warp(image, grid):
    return F.grid_sample(image.to(device), grid, padding_mode="border", align_corners=True)
"""
RIGHT["sizes with swapped names"] = """
def move(img, rows, cols):
    h, w = img.shape[-1], img.shape[-2]
    gridh = rows / (h - 1) * 2 - 1
    gridw = cols / (w - 1) * 2 - 1
    grid = torch.stack([gridw, gridh], dim=-1)[None, None]
    return F.grid_sample(img, grid, align_corners=True)
"""
RIGHT["a finer flow, and a grid made elsewhere"] = """
def upsample_and_warp(self, img, flow):
    flow = 2 * F.interpolate(flow, scale_factor=2, mode="bilinear", align_corners=True)
    return F.grid_sample(img, self.grid_of(flow), align_corners=False)
"""
RIGHT["the reshape of a mesh of queries"] = """
def queries(feat):
    h, w = feat.shape[-2:]
    xs, ys = torch.meshgrid(torch.linspace(-1, 1, w), torch.linspace(-1, 1, h))
    points = torch.stack([xs, ys], dim=-1).reshape(1, -1, 1, 2)
    return F.grid_sample(feat, points, align_corners=True)
"""

# Volumes, complex steps, exchanged sizes ----------------------------------------------------------

WRONG["a loop over the axes of a volume, without reversal"] = (
    "GS004",
    """
class SpatialTransformer(nn.Module):
    def __init__(self, size, mode="bilinear"):
        super().__init__()
        self.mode = mode
        vectors = [torch.arange(0, s) for s in size]
        grids = torch.meshgrid(vectors, indexing="ij")
        grid = torch.stack(grids)
        grid = torch.unsqueeze(grid, 0).type(torch.FloatTensor)
        self.register_buffer("grid", grid)

    def forward(self, src, flow):
        new_locs = self.grid + flow
        shape = flow.shape[2:]
        for i in range(len(shape)):
            new_locs[:, i, ...] = 2 * (new_locs[:, i, ...] / (shape[i] - 1) - 0.5)
        new_locs = new_locs.permute(0, 2, 3, 4, 1)
        return F.grid_sample(src, new_locs, align_corners=True, mode=self.mode)
""",
)
WRONG["a list of lines of any volume"] = (
    "GS004",
    """
def identity(volume):
    axes = [torch.linspace(-1, 1, n) for n in volume.shape[2:]]
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
    return F.grid_sample(volume, grid[None], align_corners=True)
""",
)
WRONG["lines that a loop appends"] = (
    "GS004",
    """
def identity(volume):
    axes = []
    for n in volume.shape[2:]:
        axes.append(torch.linspace(-1, 1, n))
    grid = torch.stack(torch.meshgrid(axes, indexing="ij"), dim=-1)
    return F.grid_sample(volume, grid[None], align_corners=True)
""",
)
WRONG["a complex step in NumPy"] = (
    "GS001",
    """
def identity(image):
    h, w = image.shape[-2:]
    y, x = np.mgrid[-1:1:h * 1j, -1:1:w * 1j]
    grid = torch.from_numpy(np.stack([x, y], -1)[None]).float()
    return F.grid_sample(image, grid, align_corners=False)
""",
)
WRONG["a complex step, in matrix order"] = (
    "GS004",
    """
def identity(image):
    grid = np.mgrid[-1:1:512j, -1:1:512j]
    grid = torch.from_numpy(grid.transpose(1, 2, 0)[None]).float()
    return F.grid_sample(image, grid, align_corners=True)
""",
)
WRONG["a flow added in place to a mesh by complex steps"] = (
    "GS005",
    """
def warp(image, flow):
    grid = np.mgrid[-1:1:512j, -1:1:512j]
    grid[0] += flow[..., 1]
    grid[1] += flow[..., 0]
    grid = torch.from_numpy(grid[::-1].transpose(1, 2, 0)[None].copy())
    return F.grid_sample(image, grid, align_corners=True)
""",
)
WRONG["indices that are changed in place"] = (
    "GS004",
    """
def identity(image):
    h, w = image.shape[-2:]
    grid = np.mgrid[0:h, 0:w].astype(np.float32)
    grid[0] /= (h - 1) / 2
    grid[1] /= (w - 1) / 2
    grid -= 1
    grid = torch.from_numpy(grid.transpose(1, 2, 0)[None])
    return F.grid_sample(image, grid, align_corners=True)
""",
)
WRONG["width and height exchanged"] = (
    "GS012",
    """
def warp(image, flow):
    n, c, h, w = image.shape
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    x = 2 * (xs + flow[:, 0]) / (h - 1) - 1
    y = 2 * (ys + flow[:, 1]) / (w - 1) - 1
    return F.grid_sample(image, torch.stack((x, y), -1), align_corners=True)
""",
)
WRONG["width and height exchanged in a tensor"] = (
    "GS012",
    """
def warp(image, flow):
    n, c, h, w = image.shape
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    grid = torch.stack((xs, ys), -1).float()
    grid = 2 * grid / torch.tensor([h - 1, w - 1]) - 1
    return F.grid_sample(image, grid[None], align_corners=True)
""",
)
WRONG["both divided by the height"] = (
    "GS012",
    """
def identity(image):
    h, w = image.shape[-2:]
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    grid = torch.stack((2 * xs / (h - 1) - 1, 2 * ys / (h - 1) - 1), -1)[None]
    return F.grid_sample(image, grid, align_corners=True)
""",
)
WRONG["sizes of a volume as numbers, exchanged"] = (
    "GS012",
    """
def ident(vol):
    z, y, x = torch.meshgrid(torch.arange(32), torch.arange(64), torch.arange(96), indexing="ij")
    g = torch.stack((2 * x / 31 - 1, 2 * y / 63 - 1, 2 * z / 95 - 1), -1)[None]
    return F.grid_sample(vol, g, align_corners=True)
""",
)
WRONG["our interpolate"] = (
    "GS007",
    """
import gridsample
def small(image):
    return gridsample.interpolate(image, scale_factor=0.25, mode="bilinear")
""",
)
WRONG["our interpolate by size"] = (
    "GS007",
    """
import gridsample as gs
def small(image):
    return gs.interpolate(image, (image.shape[-2] // 4, image.shape[-1] // 4), mode="lanczos3")
""",
)
WRONG["our interpolate in torch's place"] = (
    "GS007",
    """
from gridsample import torch_compat
def small(image):
    return torch_compat.interpolate(image, scale_factor=0.25, mode="bilinear")
""",
)
WRONG["a volume that torch does not antialias"] = (
    "GS007",
    """
def small(vol):
    return F.interpolate(vol, scale_factor=0.25, mode="trilinear")
""",
)
WRONG["a module that shrinks"] = (
    "GS007",
    """
def small(image):
    return nn.Upsample(scale_factor=0.25, mode="bilinear")(image)
""",
)
RIGHT["a list of lines, reversed"] = """
def identity(volume):
    axes = [torch.linspace(-1, 1, n) for n in volume.shape[2:]]
    grid = torch.stack(list(reversed(torch.meshgrid(*axes, indexing="ij"))), dim=-1)
    return F.grid_sample(volume, grid[None], align_corners=True)
"""
RIGHT["a loop over a volume that is stacked in reverse"] = """
def warp(volume, flow):
    d, h, w = volume.shape[2:]
    z, y, x = torch.meshgrid(torch.arange(d), torch.arange(h), torch.arange(w), indexing="ij")
    grid = torch.stack((x, y, z), -1)[None].float() + flow
    for k in range(3):
        grid[..., k] = 2 * grid[..., k] / (volume.shape[-1 - k] - 1) - 1
    return F.grid_sample(volume, grid, align_corners=True)
"""
RIGHT["a complex step with corners"] = """
def identity(image):
    y, x = np.mgrid[-1:1:512j, -1:1:512j]
    grid = torch.from_numpy(np.stack([x, y], -1)[None]).float()
    return F.grid_sample(image, grid, align_corners=True)
"""
RIGHT["a mesh in a range, reversed"] = """
def identity(image):
    shape = image.shape[-2:]
    grid = np.mgrid[0:shape[0], 0:shape[1]].astype(float)
    for k in range(2):
        grid[k] = 2 * grid[k] / (shape[k] - 1) - 1
    grid = torch.from_numpy(grid[::-1].copy()).permute(1, 2, 0)[None].float()
    return F.grid_sample(image, grid, align_corners=True)
"""
RIGHT["the larger of two sizes"] = """
def iso(image):
    h, w = image.shape[-2:]
    m = max(h, w)
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    grid = torch.stack((2 * xs / (m - 1) - 1, 2 * ys / (m - 1) - 1), -1)[None]
    return F.grid_sample(image, grid, align_corners=True)
"""
RIGHT["a square mesh"] = """
def ident(image, n):
    ys, xs = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    g = torch.stack((2 * xs / (n - 1) - 1, 2 * ys / (n - 1) - 1), -1)[None]
    return F.grid_sample(image, g, align_corners=True)
"""
RIGHT["a mean in our interpolate"] = """
import gridsample
def small(image):
    return gridsample.interpolate(image, scale_factor=0.25, mode="area")
"""
RIGHT["our interpolate, antialiased"] = """
import gridsample
def small(image):
    return gridsample.interpolate(image, scale_factor=0.25, mode="bilinear", antialias=True)
"""
RIGHT["a mesh of any axes, reversed after a loop"] = """
def warp(volume, flow):
    shape = volume.shape[2:]
    axes = [torch.arange(n) for n in shape]
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)[None].float() + flow
    for k in range(len(shape)):
        grid[..., k] = 2 * grid[..., k] / (shape[k] - 1) - 1
    return F.grid_sample(volume, grid.flip(-1), align_corners=True)
"""
RIGHT["an index without axes"] = """
def mean(image, grid):
    coords = np.mgrid[0:3, 0:4]
    coords[()] = coords[()] + 1
    return F.grid_sample(image, grid, align_corners=True).mean()[()]
"""
