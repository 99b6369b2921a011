"""Code in the idioms of registration, depth and rendering, with mistakes and without.

Written in our own words; see `doctor.projects`.
"""

from __future__ import annotations

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
