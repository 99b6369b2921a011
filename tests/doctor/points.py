"""Code in the idioms of key points, faces and transformers, with mistakes and without.

Written in our own words; see `doctor.projects`.
"""

from __future__ import annotations

WRONG: dict[str, tuple[str, str, str]] = {}
RIGHT: dict[str, str] = {}

TRUE, FALSE = "align_corners=True)", "align_corners=False)"

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
