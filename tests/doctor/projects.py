"""Code in the idioms of public projects, in our own words: with mistakes, and without.

Each wrong snippet has the code that the doctor must find, and a part of the fix that is right.
"""

from __future__ import annotations

# (project and idiom): (code, part of the fix, source)
WRONG: dict[str, tuple[str, str, str]] = {}
RIGHT: dict[str, str] = {}

TRUE, FALSE = "align_corners=True)", "align_corners=False)"

# Registration ------------------------------------------------------------------------------------

_TRANSFORMER = """
import torch.nn.functional as nnf

class Transformer(nn.Module):
    def __init__(self, size, mode="bilinear"):
        super().__init__()
        self.mode = mode
        axes = [torch.arange(0, s) for s in size]
        mesh = torch.stack(torch.meshgrid(axes))
        mesh = torch.unsqueeze(mesh, 0).type(torch.FloatTensor)
        self.register_buffer("grid", mesh)

    def forward(self, source, flow):
        where = self.grid + flow
        extent = flow.shape[2:]
        for axis in range(len(extent)):
            where[:, axis, ...] = 2 * (where[:, axis, ...] / (extent[axis] - 1) - 0.5)
        if len(extent) == 2:
            where = where.permute(0, 2, 3, 1)[..., [1, 0]]
        elif len(extent) == 3:
            where = where.permute(0, 2, 3, 4, 1)[..., [2, 1, 0]]
        return nnf.grid_sample(source, where, mode=self.mode)
"""
WRONG["VoxelMorph: a buffer of indices, normalized in a loop"] = ("GS001", TRUE, _TRANSFORMER)
RIGHT["VoxelMorph: with align_corners"] = _TRANSFORMER.replace(
    "mode=self.mode)", "mode=self.mode, align_corners=True)"
)
WRONG["VoxelMorph: two axes by name, the order not reversed"] = (
    "GS004",
    "flip(-1)",
    """
class Transformer2D(nn.Module):
    def __init__(self, height, width):
        super().__init__()
        rows, cols = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        self.register_buffer("grid", torch.stack((rows, cols))[None].float())

    def forward(self, moving, shift):
        where = self.grid + shift
        shape = shift.shape[2:]
        for i in range(len(shape)):
            where[:, i] = 2 * (where[:, i] / (shape[i] - 1) - 0.5)
        return F.grid_sample(moving, where.permute(0, 2, 3, 1), align_corners=True)
""",
)
WRONG["TransMorph: a constructor that calls a method for its grid"] = (
    "GS001",
    TRUE,
    """
class Warp(nn.Module):
    def __init__(self, inshape):
        super().__init__()
        self.inshape = inshape
        self._prepare()

    def _prepare(self):
        lines = [torch.arange(n).float() for n in self.inshape]
        self.identity = torch.stack(torch.meshgrid(lines, indexing="ij"), 0)

    def forward(self, volume, displacement):
        points = self.identity.to(volume) + displacement
        for k, n in enumerate(self.inshape):
            points[:, k] = points[:, k] * 2 / (n - 1) - 1
        points = points.movedim(1, -1).flip(-1)
        return F.grid_sample(volume, points, padding_mode="border", align_corners=False)
""",
)
WRONG["LDDMM: pixels by linspace, and no normalization"] = (
    "GS011",
    "2 * p / (size - 1) - 1",
    """
def apply(template, velocity):
    n, c, h, w = template.shape
    ys = torch.linspace(0, h - 1, h)
    xs = torch.linspace(0, w - 1, w)
    gy, gx = torch.meshgrid(ys, xs, indexing="ij")
    where = torch.stack((gx + velocity[..., 0], gy + velocity[..., 1]), -1)
    return F.grid_sample(template, where, align_corners=True)
""",
)
RIGHT["AirLab: displacements of an affine grid in its own units"] = """
class Displacement:
    def __init__(self, size):
        self.unit = F.affine_grid(torch.eye(2, 3)[None], size, align_corners=True)

    def warp(self, image, displacement):
        return F.grid_sample(image, self.unit + displacement, align_corners=True)
"""
RIGHT["MONAI: a buffer of indices, normalized by a flag"] = """
def normalize_transform(shape, align_corners=False):
    norm = torch.tensor(shape, dtype=torch.float64)
    if align_corners:
        norm = 2.0 / (norm - 1)
    else:
        norm = 2.0 / norm
    return torch.diag(torch.cat((norm, torch.ones(1))))

class Resampler:
    def __init__(self, align_corners=False):
        self.align_corners = align_corners

    def __call__(self, img, grid):
        scale = normalize_transform(img.shape[2:], self.align_corners)
        return F.grid_sample(img, grid @ scale, align_corners=self.align_corners)
"""

# Depth and views ---------------------------------------------------------------------------------

_PROJECT = """
class Project(nn.Module):
    def __init__(self, batch_size, height, width, eps=1e-7):
        super().__init__()
        self.batch_size, self.height, self.width, self.eps = batch_size, height, width, eps

    def forward(self, points, K, T):
        P = torch.matmul(K, T)[:, :3, :]
        cam = torch.matmul(P, points)
        pix = cam[:, :2, :] / (cam[:, 2, :].unsqueeze(1) + self.eps)
        pix = pix.view(self.batch_size, 2, self.height, self.width).permute(0, 2, 3, 1)
        pix[..., 0] /= self.width - 1
        pix[..., 1] /= self.height - 1
        return (pix - 0.5) * 2
"""
WRONG["monodepth2: a layer that projects, and a dictionary of outputs"] = (
    "GS001",
    TRUE,
    _PROJECT
    + """
class Trainer:
    def __init__(self, opt):
        self.opt = opt
        self.project = {}
        for scale in opt.scales:
            h, w = opt.height // 2**scale, opt.width // 2**scale
            self.project[scale] = Project(opt.batch_size, h, w)

    def views(self, inputs, outputs):
        for scale in self.opt.scales:
            for i, frame in enumerate(self.opt.frames[1:]):
                T = outputs[("cam_T_cam", 0, frame)]
                where = self.project[scale](outputs["points"], inputs["K"], T)
                outputs[("sample", frame, scale)] = where
                outputs[("color", frame, scale)] = F.grid_sample(
                    inputs[("color", frame, 0)],
                    outputs[("sample", frame, scale)],
                    padding_mode="border",
                )
""",
)
RIGHT["monodepth2: the same with align_corners"] = (
    _PROJECT
    + """
def synthesize(color, points, K, T, height, width):
    layer = Project(1, height, width)
    return F.grid_sample(color, layer(points, K, T), padding_mode="border", align_corners=True)
"""
)
WRONG["monodepth2: the grid comes from elsewhere"] = (
    "GS009",
    "True) for a grid of 2 * p / (size - 1) - 1; align_corners=False for (2 * p + 1) / size - 1",
    """
from layers import Project

class Trainer:
    def __init__(self, opt):
        self.project = Project(opt.batch_size, opt.height, opt.width)

    def view(self, color, points, K, T):
        return F.grid_sample(color, self.project(points, K, T), padding_mode="border")
""",
)
WRONG["monodepth: a base from 0 to 1, doubled"] = (
    "GS001",
    TRUE,
    """
def by_disparity(img, disp):
    batch, _, height, width = img.size()
    x_base = torch.linspace(0, 1, width).repeat(batch, height, 1).type_as(img)
    y_base = torch.linspace(0, 1, height).repeat(batch, width, 1).transpose(1, 2).type_as(img)
    x_shifts = disp[:, 0, :, :]
    field = torch.stack((x_base + x_shifts, y_base), dim=3)
    return F.grid_sample(img, 2 * field - 1, mode="bilinear", padding_mode="zeros")
""",
)
_NORMALIZE = """
class Projector:
    def __init__(self, device):
        self.device = device

    def normalize(self, pixels, h, w):
        factor = torch.tensor([w - 1.0, h - 1.0]).to(pixels.device)[None, None, :]
        return 2 * pixels / factor - 1.0

    def project(self, xyz, cameras):
        p = torch.bmm(cameras[:, 2:18].reshape(-1, 4, 4), xyz.repeat(len(cameras), 1, 1))
        return p[..., :2] / p[..., 2:3], p[..., 2] > 0

    def compute(self, xyz, images, cameras, maps):
        h, w = cameras[0][:2]
        pixels, mask = self.project(xyz, cameras)
        where = self.normalize(pixels, h, w)
        return F.grid_sample(maps, where), mask
"""
WRONG["IBRNet: a method that normalizes, sizes from a camera"] = ("GS001", TRUE, _NORMALIZE)
RIGHT["IBRNet: with align_corners"] = _NORMALIZE.replace(
    "(maps, where)", "(maps, where, align_corners=True)"
)
WRONG["MVSNet: halves of the size minus one"] = (
    "GS001",
    TRUE,
    """
def homography(features, projection, depth):
    batch, channels, height, width = features.shape
    with torch.no_grad():
        y, x = torch.meshgrid([torch.arange(0, height), torch.arange(0, width)], indexing="ij")
        y, x = y.contiguous().view(-1), x.contiguous().view(-1)
        xyz = torch.stack((x, y, torch.ones_like(x)))
        warped = torch.matmul(projection[:, :3, :3], xyz[None].repeat(batch, 1, 1).float())
        xy = warped[:, :2] / warped[:, 2:3]
        x_norm = xy[:, 0, :] / ((width - 1) / 2) - 1
        y_norm = xy[:, 1, :] / ((height - 1) / 2) - 1
        grid = torch.stack((x_norm, y_norm), dim=2)
    where = grid.view(batch, height, width, 2)
    return F.grid_sample(features, where, mode="bilinear", padding_mode="zeros")
""",
)
WRONG["SfMLearner: points that are masked in place"] = (
    "GS001",
    TRUE,
    """
def cam2pixel(coords, rot, trans, padding_mode):
    b, _, h, w = coords.size()
    flat = coords.reshape(b, 3, -1)
    p = rot @ flat + trans
    X, Y, Z = p[:, 0], p[:, 1], p[:, 2].clamp(min=1e-3)
    X_norm = 2 * (X / Z) / (w - 1) - 1
    Y_norm = 2 * (Y / Z) / (h - 1) - 1
    if padding_mode == "zeros":
        outside = ((X_norm > 1) + (X_norm < -1)).detach()
        X_norm[outside] = 2
    return torch.stack([X_norm, Y_norm], dim=2).reshape(b, h, w, 2)

def inverse_warp(img, cloud, rot, trans, padding_mode="zeros"):
    where = cam2pixel(cloud, rot, trans, padding_mode)
    return F.grid_sample(img, where, padding_mode=padding_mode, align_corners=False)
""",
)
WRONG["PIFu: a helper that samples what its callers normalized"] = (
    "GS001",
    TRUE,
    """
def index(features, uv):
    return F.grid_sample(features, uv.transpose(1, 2).unsqueeze(2))[..., 0]

def query(features, points):
    h, w = features.shape[-2:]
    u = points[:, 0] / (w - 1) * 2 - 1
    v = points[:, 1] / (h - 1) * 2 - 1
    return index(features, torch.stack((u, v), 1))
""",
)
RIGHT["EG3D: planes in the unit cube"] = """
def sample_planes(features, coordinates, box_warp=None):
    N, planes, C, H, W = features.shape
    coordinates = (2 / box_warp) * coordinates
    grid = coordinates[..., :2].unsqueeze(1).float()
    return F.grid_sample(features.view(-1, C, H, W), grid, align_corners=False)
"""
RIGHT["TensoRF: a box that is normalized by its own extent"] = """
class Field(nn.Module):
    def __init__(self, aabb):
        super().__init__()
        self.aabb = aabb
        self.inverse_size = 2.0 / (aabb[1] - aabb[0])

    def forward(self, plane, xyz):
        where = (xyz - self.aabb[0]) * self.inverse_size - 1
        return F.grid_sample(plane, where[..., :2].view(1, -1, 1, 2), align_corners=True)
"""
RIGHT["DVGO: a volume whose axes are flipped"] = """
class Voxels(nn.Module):
    def forward(self, xyz):
        index = (xyz - self.xyz_min) / (self.xyz_max - self.xyz_min)
        where = index.reshape(1, 1, 1, -1, 3).flip((-1,)) * 2 - 1
        return F.grid_sample(self.grid, where, mode="bilinear", align_corners=True)
"""
RIGHT["BEVFormer: points as shares of the image"] = """
def features_at(maps, points, metas):
    points[..., 0] /= metas[0]["img_shape"][0][1]
    points[..., 1] /= metas[0]["img_shape"][0][0]
    return F.grid_sample(maps, ((points - 0.5) * 2).view(-1, 1, 1, 2), align_corners=False)
"""
WRONG["DETR3D: shares of the size, sampled by corners"] = (
    "GS002",
    "align_corners=False for p from its outer edge",
    """
def lift(feature, pixels):
    height, width = feature.shape[-2:]
    pixels[..., 0] /= width
    pixels[..., 1] /= height
    pixels = (pixels - 0.5) * 2
    return F.grid_sample(feature, pixels[:, None], align_corners=True)
""",
)

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

# Key points, faces, transformers -----------------------------------------------------------------

WRONG["first order model: a coordinate grid made by a function"] = (
    "GS001",
    TRUE,
    """
def make_coordinate_grid(spatial_size, type):
    h, w = spatial_size
    x, y = torch.arange(w).type(type), torch.arange(h).type(type)
    x, y = 2 * (x / (w - 1)) - 1, 2 * (y / (h - 1)) - 1
    yy = y.view(-1, 1).repeat(1, w)
    xx = x.view(1, -1).repeat(h, 1)
    return torch.cat([xx.unsqueeze_(2), yy.unsqueeze_(2)], 2)

def deform(source, kp_driving, kp_source):
    bs, _, h, w = source.shape
    identity = make_coordinate_grid((h, w), type=kp_source["value"].type())
    motion = identity.view(1, h, w, 2) - kp_driving["value"] + kp_source["value"]
    return F.grid_sample(source, motion)
""",
)
RIGHT["SuperGlue: keyword arguments that depend on the version"] = """
def sample_descriptors(keypoints, descriptors, s=8):
    b, c, h, w = descriptors.shape
    keypoints = keypoints - s / 2 + 0.5
    keypoints /= torch.tensor([(w * s - s / 2 - 0.5), (h * s - s / 2 - 0.5)]).to(keypoints)[None]
    keypoints = keypoints * 2 - 1
    args = {"align_corners": True} if int(torch.__version__[2]) > 2 else {}
    return F.grid_sample(descriptors, keypoints.view(b, 1, -1, 2), mode="bilinear", **args)
"""
WRONG["ALIKED: the size as a tensor, without its minus one"] = (
    "GS002",
    "2 * p / (size - 1) - 1",
    """
class Head(nn.Module):
    def forward(self, scores, keypoints):
        h, w = scores.shape[-2:]
        wh = keypoints.new_tensor([w, h])
        where = keypoints / wh * 2 - 1
        return F.grid_sample(scores, where.view(1, 1, -1, 2), align_corners=True)
""",
)
RIGHT["ALIKED: the size minus one"] = """
class Head(nn.Module):
    def forward(self, scores, keypoints):
        wh = torch.tensor(scores.shape[-2:][::-1], device=scores.device) - 1
        where = keypoints / wh * 2 - 1
        return F.grid_sample(scores, where.view(1, 1, -1, 2), align_corners=True)
"""
RIGHT["LIIF: coordinates of centres, flipped"] = """
def make_coord(shape, ranges=None):
    seqs = []
    for i, n in enumerate(shape):
        r = 2 / (2 * n)
        seqs.append(-1 + r + 2 * r * torch.arange(n).float())
    return torch.stack(torch.meshgrid(*seqs, indexing="ij"), dim=-1)

def query(feat, shape):
    coord = make_coord(shape).view(1, -1, 2)
    return F.grid_sample(feat, coord.flip(-1)[:, None], mode="nearest", align_corners=False)
"""
WRONG["LIIF: coordinates of centres, sampled by corners"] = (
    "GS002",
    FALSE,
    """
def make_coord(shape):
    seqs = []
    for i, n in enumerate(shape):
        r = 1 / n
        seqs.append(-1 + r + (2 * r) * torch.arange(n).float())
    return torch.stack(torch.meshgrid(*seqs, indexing="ij"), dim=-1)

def query(feat):
    coord = make_coord(feat.shape[-2:])
    return F.grid_sample(feat, coord.flip(-1)[None], align_corners=True)
""",
)
WRONG["Kornia: its mesh of corners, with the default"] = (
    "GS001",
    TRUE,
    """
from kornia.utils import create_meshgrid

def jitter(image, offsets):
    n, c, h, w = image.shape
    grid = create_meshgrid(h, w, device=image.device)
    return F.grid_sample(image, grid + offsets, align_corners=False)
""",
)
RIGHT["Kornia: its mesh of pixels, normalized"] = """
import kornia

def remap(image, dx, dy):
    h, w = image.shape[-2:]
    grid = kornia.utils.create_meshgrid(h, w, normalized_coordinates=False)
    x = 2 * (grid[..., 0] + dx) / (w - 1) - 1
    y = 2 * (grid[..., 1] + dy) / (h - 1) - 1
    return F.grid_sample(image, torch.stack((x, y), -1), align_corners=True)
"""
WRONG["STN tutorial: a value for one of the two functions"] = (
    "GS008",
    "F.affine_grid(theta, x.size(), align_corners=True)",
    """
class Net(nn.Module):
    def stn(self, x):
        theta = self.fc_loc(self.localization(x).view(-1, 90)).view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size())
        return F.grid_sample(x, grid, align_corners=True)
""",
)
WRONG["deformable attention: locations as cells, without the half"] = (
    "GS003",
    "2 * (index + 0.5) / size - 1",
    """
def reference(value, offsets):
    H, W = value.shape[-2:]
    ref_y, ref_x = torch.meshgrid(torch.arange(H), torch.arange(W), indexing="ij")
    ref = torch.stack((ref_x / W, ref_y / H), -1)
    where = 2 * (ref + offsets) - 1
    return F.grid_sample(value, where, mode="bilinear", align_corners=False)
""",
)
RIGHT["deformable attention: cells with the half"] = """
def reference(value, offsets):
    H, W = value.shape[-2:]
    ref_y, ref_x = torch.meshgrid(
        torch.linspace(0.5, H - 0.5, H), torch.linspace(0.5, W - 0.5, W), indexing="ij"
    )
    ref = torch.stack((ref_x / W, ref_y / H), -1)
    return F.grid_sample(value, 2 * (ref + offsets) - 1, align_corners=False)
"""
WRONG["thin plates: a lattice by ij, stacked as it is"] = (
    "GS004",
    "flip(-1)",
    """
class TPS(nn.Module):
    def __init__(self, height, width):
        super().__init__()
        ys, xs = torch.linspace(-1, 1, height), torch.linspace(-1, 1, width)
        self.lattice = torch.stack(torch.meshgrid(ys, xs, indexing="ij"), -1)

    def forward(self, image, shift):
        return F.grid_sample(image, self.lattice[None] + shift, align_corners=True)
""",
)
WRONG["NumPy: indices, and no minus one"] = (
    "GS003",
    "2 * (index + 0.5) / size - 1",
    """
def distort(image, k):
    height, width = image.shape[-2:]
    yy, xx = np.indices((height, width)).astype(np.float32)
    x, y = xx / width * 2 - 1, yy / height * 2 - 1
    r = 1 + k * (x**2 + y**2)
    grid = torch.from_numpy(np.stack((x, y), -1))[None]
    return F.grid_sample(image, grid, align_corners=False)
""",
)
WRONG["panoramas: longitudes of corners"] = (
    "GS001",
    TRUE,
    """
def perspective(equi, uv):
    height, width = equi.size(-2), equi.size(-1)
    sizes = torch.as_tensor([width - 1, height - 1], dtype=torch.float32)
    where = uv.mul(2).div(sizes).sub(1)
    return F.grid_sample(equi, where, padding_mode="border", align_corners=False)
""",
)
RIGHT["panoramas: angles"] = """
def perspective(equi, lon, lat):
    grid = torch.stack((lon / np.pi, lat / (0.5 * np.pi)), dim=-1)
    return F.grid_sample(equi, grid, padding_mode="border", align_corners=True)
"""
WRONG["a cropper: pixels of boxes against the size minus one"] = (
    "GS001",
    TRUE,
    """
def crops(image, centres, offsets):
    H, W = image.shape[-2:]
    where = centres[:, None, None] + offsets
    where = torch.stack((where[..., 0] / (0.5 * (W - 1)), where[..., 1] / (0.5 * (H - 1))), -1)
    return F.grid_sample(image, where - 1, align_corners=False)
""",
)
RIGHT["a try for old versions"] = """
def sample(img, grid):
    try:
        return F.grid_sample(img, grid, align_corners=True)
    except TypeError:
        return F.grid_sample(img, grid)
"""
RIGHT["a helper for both kinds of grids"] = """
def pick(image, grid):
    return F.grid_sample(image, grid, align_corners=True)

def at_points(image, xy):
    h, w = image.shape[-2:]
    x, y = xy[..., 0], xy[..., 1]
    return pick(image, torch.stack((2 * x / (w - 1) - 1, 2 * y / (h - 1) - 1), -1))

def at_shares(image, uv):
    return pick(image, 2 * uv - 1)
"""
RIGHT["a cached mesh behind a function"] = """
from functools import lru_cache

@lru_cache(maxsize=8)
def mesh(h, w):
    ys = (torch.arange(h) + 0.5) * (2 / h) - 1
    xs = (torch.arange(w) + 0.5) * (2 / w) - 1
    gy, gx = torch.meshgrid(ys, xs, indexing="ij")
    return torch.stack((gx, gy), -1)

def wobble(image, delta):
    h, w = image.shape[-2:]
    return F.grid_sample(image, mesh(h, w) + delta, align_corners=False)
"""
