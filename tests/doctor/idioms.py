"""Idioms that many projects share, with mistakes and without.

Written in our own words; see `doctor.projects`.
"""

from __future__ import annotations

WRONG: dict[str, tuple[str, str, str]] = {}
RIGHT: dict[str, str] = {}

TRUE, FALSE = "align_corners=True)", "align_corners=False)"

WRONG["a mesh of NumPy"] = (
    "GS001",
    TRUE,
    """
def warp(img, flow):
    b, c, h, w = img.shape
    grid = np.stack(np.meshgrid(np.arange(w), np.arange(h)), 0)
    grid = torch.from_numpy(grid).float().unsqueeze(0).to(img.device)
    new = grid + flow
    new = torch.stack([2.0 * new[:, 0] / (w - 1) - 1.0, 2.0 * new[:, 1] / (h - 1) - 1.0], dim=-1)
    return F.grid_sample(img, new, mode='bilinear', padding_mode='zeros')
""",
)
WRONG["a mesh that a method of the constructor makes"] = (
    "GS001",
    TRUE,
    """
class Warper(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.h = args.height
        self.w = args.width
        self.base = self.get_grid()
    def get_grid(self):
        ys, xs = torch.linspace(0, self.h - 1, self.h), torch.linspace(0, self.w - 1, self.w)
        ys, xs = torch.meshgrid(ys, xs)
        return torch.stack([xs, ys], 0).unsqueeze(0)
    def normalize(self, g):
        gx = g[:, 0:1] * 2 / (self.w - 1) - 1
        gy = g[:, 1:2] * 2 / (self.h - 1) - 1
        return torch.cat([gx, gy], 1).permute(0, 2, 3, 1)
    def forward(self, x, flow):
        g = self.normalize(self.base.to(x.device) + flow)
        return F.grid_sample(x, g, padding_mode='border')
""",
)
WRONG["a grid that is made on first use"] = (
    "GS001",
    TRUE,
    """
class Warp(nn.Module):
    def __init__(self):
        super().__init__()
        self.grid = None
    def _build(self, h, w, device):
        rows = torch.linspace(-1, 1, h, device=device)
        columns = torch.linspace(-1, 1, w, device=device)
        gy, gx = torch.meshgrid(rows, columns, indexing='ij')
        self.grid = torch.stack((gx, gy), dim=-1).unsqueeze(0)
    def forward(self, img, flow):
        n, _, h, w = img.shape
        if self.grid is None or self.grid.shape[1:3] != (h, w):
            self._build(h, w, img.device)
        delta = torch.stack((flow[:, 0] / ((w - 1) / 2), flow[:, 1] / ((h - 1) / 2)), dim=-1)
        return F.grid_sample(img, self.grid + delta)
""",
)
WRONG["a dictionary of self"] = (
    "GS001",
    TRUE,
    """
class Warp:
    def __init__(self):
        self.cache = {}
    def grid(self, h, w):
        if (h, w) not in self.cache:
            y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            self.cache[(h, w)] = torch.stack((x, y), 0).float()
        return self.cache[(h, w)]
    def __call__(self, img, flow):
        h, w = img.shape[2:]
        g = self.grid(h, w)[None] + flow
        g = g.permute(0, 2, 3, 1)
        g = 2 * g / torch.tensor([w - 1, h - 1]) - 1
        return F.grid_sample(img, g, align_corners=False)
""",
)
WRONG["a dictionary of the module, by get"] = (
    "GS001",
    TRUE,
    """
_grids = dict()
def get_grid(h, w, device):
    grid = _grids.get((h, w))
    if grid is None:
        yy, xx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing='ij')
        grid = torch.stack((xx, yy), -1).float()
        _grids[(h, w)] = grid
    return grid.to(device)
def warp(im, flow):
    h, w = im.shape[-2:]
    g = get_grid(h, w, im.device) + flow.permute(0, 2, 3, 1)
    g[..., 0].mul_(2.0 / (w - 1)).sub_(1.0)
    g[..., 1].mul_(2.0 / (h - 1)).sub_(1.0)
    return F.grid_sample(im, g)
""",
)
WRONG["components changed by operators"] = (
    "GS001",
    TRUE,
    """
def warp(x, coords):
    N, C, H, W = x.shape
    coords = coords.clone()
    coords[..., 0] -= (W - 1) / 2
    coords[..., 1] -= (H - 1) / 2
    coords[..., 0] /= (W - 1) / 2
    coords[..., 1] /= (H - 1) / 2
    return F.grid_sample(x, coords, align_corners=False)
""",
)
WRONG["a method that returns two values"] = (
    "GS001",
    TRUE,
    """
class Sampler(nn.Module):
    def project(self, pts, K, h, w):
        uv = pts @ K.transpose(1, 2)
        uv = uv[..., :2] / uv[..., 2:]
        u = (uv[..., 0] / (w - 1) - 0.5) * 2
        v = (uv[..., 1] / (h - 1) - 0.5) * 2
        return torch.stack([u, v], -1), uv
    def forward(self, feats, pts, K):
        h, w = feats.shape[-2], feats.shape[-1]
        grid, _ = self.project(pts, K, h, w)
        return F.grid_sample(feats, grid.unsqueeze(2)).squeeze(-1)
""",
)
WRONG["centres with the half pixel"] = (
    "GS002",
    FALSE,
    """
def normal_transform(h, w):
    return torch.tensor([[2.0 / (w - 1), 0, -1], [0, 2.0 / (h - 1), -1], [0, 0, 1]])
def points(feat, pts):
    H, W = feat.shape[-2:]
    pts = (pts + 0.5) / torch.tensor([W, H]) * 2 - 1
    return F.grid_sample(feat, pts[:, None], align_corners=True)
""",
)
WRONG["a volume"] = (
    "GS001",
    TRUE,
    """
class STN3D(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        D, H, W = size
        lines = torch.arange(D), torch.arange(H), torch.arange(W)
        zz, yy, xx = torch.meshgrid(*lines, indexing='ij')
        self.register_buffer('id', torch.stack([xx, yy, zz], -1)[None].float())
    def forward(self, vol, disp):
        D, H, W = self.size
        loc = self.id + disp
        scale = torch.tensor([W - 1, H - 1, D - 1], device=vol.device)
        return F.grid_sample(vol, 2 * loc / scale - 1)
""",
)
WRONG["a buffer of the base class"] = (
    "GS001",
    TRUE,
    """
class Base(nn.Module):
    def __init__(self, h, w):
        super().__init__()
        self.h, self.w = h, w
        gx, gy = torch.meshgrid(torch.arange(w), torch.arange(h), indexing='xy')
        self.register_buffer('pix', torch.stack((gx, gy), -1).float())
class Warp(Base):
    def forward(self, img, flow):
        p = self.pix + flow.permute(0, 2, 3, 1)
        nx = 2 * p[..., 0] / (self.w - 1) - 1
        ny = 2 * p[..., 1] / (self.h - 1) - 1
        return F.grid_sample(img, torch.stack((nx, ny), -1), align_corners=False)
""",
)
WRONG["a chain of methods"] = (
    "GS001",
    TRUE,
    """
def sample(feat, uv, wh):
    w, h = wh
    uv = uv.clone()
    uv = uv.div(uv.new_tensor([w - 1, h - 1])).mul(2).sub(1)
    return F.grid_sample(feat, uv, align_corners=False)
""",
)
WRONG["an array changed by operators"] = (
    "GS001",
    TRUE,
    """
def sample(feat, uv):
    H, W = feat.shape[-2:]
    size = torch.tensor([W, H], dtype=torch.float32)
    uv /= (size - 1) / 2
    uv -= 1
    return F.grid_sample(feat, uv)
""",
)
WRONG["einops"] = (
    "GS001",
    TRUE,
    """
from einops import rearrange
def warp(x, flow):
    _, _, H, W = x.shape
    ys, xs = torch.meshgrid(torch.arange(H), torch.arange(W), indexing='ij')
    base = torch.stack([xs, ys], dim=0).float()[None]
    pos = rearrange(base + flow, 'b c h w -> b h w c')
    pos = pos / torch.tensor([(W - 1) / 2, (H - 1) / 2]) - 1
    return F.grid_sample(x, pos)
""",
)
WRONG["rows and columns"] = (
    "GS004",
    "flip(-1)",
    """
def remap(img, rc):
    h, w = img.shape[-2:]
    r = 2 * rc[..., 0] / (h - 1) - 1
    c = 2 * rc[..., 1] / (w - 1) - 1
    return F.grid_sample(img, torch.stack([r, c], -1), align_corners=True)
""",
)
WRONG["items of mgrid"] = (
    "GS004",
    "flip(-1)",
    """
def remap(img):
    h, w = img.shape[-2:]
    yx = np.mgrid[0:h, 0:w].astype(np.float32)
    yx[0] = yx[0] / (h - 1) * 2 - 1
    yx[1] = yx[1] / (w - 1) * 2 - 1
    g = torch.from_numpy(np.stack([yx[0], yx[1]], -1))[None]
    return F.grid_sample(img, g, align_corners=True)
""",
)
WRONG["a lambda"] = (
    "GS001",
    TRUE,
    """
def warp(img, xy):
    h, w = img.shape[-2:]
    norm = lambda p, n: 2 * p / (n - 1) - 1
    g = torch.stack((norm(xy[..., 0], w), norm(xy[..., 1], h)), -1)
    return F.grid_sample(img, g)
""",
)
WRONG["an inner function"] = (
    "GS001",
    TRUE,
    """
def warp(img, xy):
    h, w = img.shape[-2:]
    def norm(p, n):
        return 2 * p / (n - 1) - 1
    g = torch.stack((norm(xy[..., 0], w), norm(xy[..., 1], h)), -1)
    return F.grid_sample(img, g)
""",
)
WRONG["a static method"] = (
    "GS001",
    TRUE,
    """
class A(nn.Module):
    @staticmethod
    def norm(xy, h, w):
        return torch.stack((xy[..., 0] / (w - 1) * 2 - 1, xy[..., 1] / (h - 1) * 2 - 1), -1)
    def forward(self, img, xy):
        h, w = img.shape[-2:]
        return F.grid_sample(img, self.norm(xy, h, w), align_corners=False)
""",
)
WRONG["a size in a buffer"] = (
    "GS001",
    TRUE,
    """
class A(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.register_buffer("size", torch.tensor([cfg.width, cfg.height]).float())
    def forward(self, img, xy):
        return F.grid_sample(img, xy / (self.size - 1) * 2 - 1)
""",
)
WRONG["a scale in a buffer"] = (
    "GS001",
    TRUE,
    """
class A(nn.Module):
    def __init__(self, height, width):
        super().__init__()
        self.register_buffer("scale", 2.0 / torch.tensor([width - 1, height - 1]))
    def forward(self, img, xy):
        return F.grid_sample(img, xy * self.scale - 1)
""",
)
WRONG["a mesh in a parameter"] = (
    "GS001",
    TRUE,
    """
class A(nn.Module):
    def __init__(self, height, width):
        super().__init__()
        ys, xs = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        self.pix = nn.Parameter(torch.stack((xs, ys), 0).float(), requires_grad=False)
        self.height, self.width = height, width
    def forward(self, img, disp):
        x = (self.pix[0] - disp[:, 0]) / (self.width - 1) * 2 - 1
        y = self.pix[1].expand_as(x) / (self.height - 1) * 2 - 1
        return F.grid_sample(img, torch.stack((x, y), -1))
""",
)
WRONG["unbind"] = (
    "GS001",
    TRUE,
    """
from torch.nn.functional import grid_sample
def bilinear(im, coords):
    x, y = coords.unbind(-1)
    H, W = im.shape[2:]
    x = 2 * x / (W - 1) - 1
    y = 2 * y / (H - 1) - 1
    return grid_sample(im, torch.stack([x, y], -1), align_corners=False)
""",
)
WRONG["clamped positions"] = (
    "GS001",
    TRUE,
    """
def warp(x, flow):
    n, c, h, w = x.shape
    gx = torch.arange(w, device=x.device).view(1, 1, w) + flow[:, 0]
    gy = torch.arange(h, device=x.device).view(1, h, 1) + flow[:, 1]
    gx = gx.clamp(0, w - 1) / (w - 1) * 2 - 1
    gy = torch.clamp(gy, 0, h - 1) / (h - 1) * 2 - 1
    return F.grid_sample(x, torch.stack([gx, gy], 3))
""",
)
RIGHT["a scale that other methods change"] = """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("latent_scaling", torch.empty(2, dtype=torch.float32))
    def index(self, uv, image_size=()):
        if len(image_size) > 0:
            scale = self.latent_scaling / image_size
            uv = uv * scale - 1.0
        uv = uv.unsqueeze(2)
        return F.grid_sample(self.latent, uv, align_corners=True, padding_mode="border")
    def forward(self, x):
        self.latent = self.net(x)
        self.latent_scaling[0] = self.latent.shape[-1]
        self.latent_scaling[1] = self.latent.shape[-2]
        self.latent_scaling = self.latent_scaling / (self.latent_scaling - 1) * 2.0
        return self.latent
"""
RIGHT["both formulas by an attribute"] = """
class W(nn.Module):
    def __init__(self, align_corners=True):
        super().__init__()
        self.align_corners = align_corners
    def norm(self, p, h, w):
        if self.align_corners:
            return torch.stack((2 * p[..., 0] / (w - 1) - 1, 2 * p[..., 1] / (h - 1) - 1), -1)
        return torch.stack(((2 * p[..., 0] + 1) / w - 1, (2 * p[..., 1] + 1) / h - 1), -1)
    def forward(self, img, p):
        h, w = img.shape[-2:]
        return F.grid_sample(img, self.norm(p, h, w), align_corners=self.align_corners)
"""
RIGHT["an affine grid and a scaled flow"] = """
class A(nn.Module):
    def forward(self, img, flow):
        b, _, h, w = img.shape
        theta = torch.eye(2, 3).repeat(b, 1, 1)
        base = F.affine_grid(theta, (b, 1, h, w), align_corners=True)
        step = torch.stack((flow[:, 0] * 2 / (w - 1), flow[:, 1] * 2 / (h - 1)), -1)
        return F.grid_sample(img, base + step, align_corners=True)
"""
RIGHT["boxes as shares of the size"] = """
def roi(feat, boxes, n):
    H, W = feat.shape[-2:]
    ys = (torch.arange(n) + 0.5) / n
    x1, y1, x2, y2 = boxes.unbind(-1)
    px = x1[:, None] + (x2 - x1)[:, None] * ys
    py = y1[:, None] + (y2 - y1)[:, None] * ys
    gx = px / W * 2 - 1
    gy = py / H * 2 - 1
    grid = torch.stack((gx[:, None, :].expand(-1, n, -1), gy[:, :, None].expand(-1, -1, n)), -1)
    return F.grid_sample(feat, grid, align_corners=False)
"""
RIGHT["(z, y, x) points, flipped"] = """
def sample(vol, zyx):
    D, H, W = vol.shape[-3:]
    norm = 2 * zyx / torch.tensor([D - 1, H - 1, W - 1]) - 1
    return F.grid_sample(vol, norm.flip(-1)[:, None, None], align_corners=True)
"""
RIGHT["a helper with a flag for both"] = """
def base_grid(h, w, align):
    if align:
        xs, ys = torch.linspace(-1, 1, w), torch.linspace(-1, 1, h)
    else:
        xs, ys = (torch.arange(w) * 2 + 1) / w - 1, (torch.arange(h) * 2 + 1) / h - 1
    gy, gx = torch.meshgrid(ys, xs, indexing="ij")
    return torch.stack((gx, gy), -1)
def a(img):
    return F.grid_sample(img, base_grid(*img.shape[-2:], True)[None], align_corners=True)
def b(img):
    return F.grid_sample(img, base_grid(*img.shape[-2:], False)[None], align_corners=False)
"""
RIGHT["shares of another size"] = """
def sample(fmap, pts2d, img_w, img_h):
    x = pts2d[..., 0] / img_w
    y = pts2d[..., 1] / img_h
    return F.grid_sample(fmap, torch.stack([x, y], -1) * 2 - 1, align_corners=False)
"""
RIGHT["a loop over levels"] = """
class Pyr:
    def __call__(self, coords):
        out = []
        for i in range(self.n):
            corr = self.pyramid[i]
            h, w = corr.shape[-2:]
            c = coords / 2**i
            x, y = c.split([1, 1], -1)
            g = torch.cat([2 * x / (w - 1) - 1, 2 * y / (h - 1) - 1], -1)
            out.append(F.grid_sample(corr, g, align_corners=True))
        return torch.cat(out, 1)
"""
RIGHT["a dictionary that is defined below"] = """
def warp(x, flow):
    B, C, H, W = x.shape
    if (H, W) not in CACHE:
        mesh = torch.meshgrid(torch.arange(W), torch.arange(H), indexing='xy')
        CACHE[(H, W)] = torch.stack(mesh, 0).float()
    v = CACHE[(H, W)].to(x) + flow
    v = 2 * v / v.new_tensor([W - 1, H - 1]).view(1, 2, 1, 1) - 1
    return F.grid_sample(x, v.permute(0, 2, 3, 1), align_corners=True)
CACHE = {}
"""
RIGHT["a flow that is resized first"] = """
def warp(x, flow):
    flow = F.interpolate(flow, x.shape[-2:], mode='bilinear', align_corners=True)
    h, w = x.shape[-2:]
    g = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing='xy'), -1)
    p = g + flow.permute(0, 2, 3, 1)
    n = torch.stack((p[..., 0] / (w - 1), p[..., 1] / (h - 1)), -1) * 2 - 1
    return F.grid_sample(x, n, align_corners=True)
"""
RIGHT["polar coordinates"] = """
def polar(img, n, m):
    t = torch.linspace(0, 2 * np.pi, n)
    r = torch.linspace(0, 1, m)
    rr, tt = torch.meshgrid(r, t, indexing='ij')
    grid = torch.stack((rr * tt.cos(), rr * tt.sin()), -1)[None]
    return F.grid_sample(img, grid, align_corners=False)
"""
