"""The rules: what is wrong with a call of grid_sample, affine_grid or interpolate."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator

from gridsample.doctor import values as v
from gridsample.doctor.evaluator import Scope
from gridsample.doctor.findings import Finding
from gridsample.doctor.names import Module
from gridsample.doctor.operations import as_int, first_name, flag_of
from gridsample.doctor.values import Base, Const, Flag, Number, Pack, Stack, Value

ONES = (1.0,) * v.SAMPLES
LINEAR = ("linear", "bilinear", "bicubic", "trilinear")
# The largest rounding error of a coordinate near 1, by dtype.
ROUNDING = {"float16": 2.0**-12, "bfloat16": 2.0**-9}


class Rules:
    """Checks the calls of one file.

    Attributes:
        module: the file.
        size: the width of the image in messages, in pixels.
        findings: what was found so far.
        calls: the places of the calls that were seen.
    """

    def __init__(self, module: Module, size: int) -> None:
        self.module, self.size = module, size
        self.findings: dict[tuple[int, int, str], Finding] = {}
        self.calls: set[tuple[int, int]] = set()

    def __call__(
        self, node: ast.Call, function_kind: str, arguments: dict[str, Value], scope: Scope
    ) -> None:
        """Check a call."""
        self.calls.add((node.lineno, node.col_offset))
        if function_kind == "resize":
            self.check_resize(node, arguments)
            return
        align = flag_of(arguments)
        has_findings = False
        if function_kind.endswith("sample"):
            has_findings = self.check_sample(node, arguments, align, scope)
            self.check_targets(node, arguments)
        if (
            not has_findings
            and not function_kind.startswith("own")
            and align.value is None
            and align.known
        ):
            self.check_missing(node, align)

    def add(self, node: ast.Call, code: str, message: str, fix: str) -> bool:
        """Add a finding, once for each place."""
        place = (node.lineno, node.col_offset, code)
        if place not in self.findings:
            self.findings[place] = Finding(
                self.module.path, node.lineno, node.col_offset + 1, code, message, fix,
                node.end_lineno or node.lineno,
            )  # fmt: skip
        return True

    # grid_sample ----------------------------------------------------------------------------------

    def check_sample(
        self, node: ast.Call, arguments: dict[str, Value], align: Flag, scope: Scope
    ) -> bool:
        """Check the grid of a call; return whether anything was found on its convention."""
        grid, coords = arguments.get("grid"), arguments.get("coords")
        if coords is not None and not (isinstance(coords, Const) and coords.value == "normalized"):
            return False
        parts = parts_of(grid)
        owner = owner_of(argument(node, "input", 0))
        has_findings = self.check_half(node, parts)
        has_findings = self.check_units(node, parts) or has_findings
        if not has_findings:
            has_findings = self.check_convention(node, parts, align, owner)
        has_findings = self.check_order(node, grid) or has_findings
        self.check_shrinking(node, parts, owner)
        return self.check_conventions(node, arguments, parts, align, scope) or has_findings

    def check_convention(
        self, node: ast.Call, parts: list[Number], align: Flag, owner: str
    ) -> bool:
        """Compare what the grid was divided by with align_corners."""
        if not align.known or not parts:
            return False
        conventions = [convention(number, owner) for number in parts]
        kinds = {name for name in conventions if name}
        if len(kinds) != 1:
            return False
        (convention_found,) = kinds
        aligned = align.value is True
        first, last = (shift(convention_found, aligned, p, self.size) for p in (0, self.size - 1))
        offsets = (
            f"at width {self.size}, positions are off by {first:+.3g} px at the first pixel and "
            f"{last:+.3g} px at the last"
        )
        remark = "by default" if align.state in ("missing", "default") else ""
        value = f"align_corners={align.value or False}{' ' + remark if remark else ''}"
        if convention_found == "corners" and not aligned:
            message = f"coordinates are divided by size - 1, but {value}: {offsets}"
            return self.add(node, "GS001", message, with_align(node, True))
        if convention_found in ("edges", "steps", "indices") and aligned:
            message = f"coordinates are divided by the size, but {value}: {offsets}"
            return self.add(node, "GS002", message, with_align(node, False))
        if convention_found == "indices" and not aligned:
            return self.add(
                node, "GS003", f"the pixel at index i has its centre at i + 0.5: {offsets}",
                "2 * (index + 0.5) / size - 1",
            )  # fmt: skip
        return False

    def check_units(self, node: ast.Call, parts: list[Number]) -> bool:
        """Find pixels in a grid that should be normalized."""
        for number in parts:
            bases = {base.kind: scale for base, scale in number.terms}
            flow = bases.get("flow")
            raw = flow is not None and all(abs(abs(s) - 1) < 1e-9 for s in flow)
            if raw and (normalized(number) or "affine" in bases):
                message = (
                    "the grid is normalized, the flow in pixels: a flow of 1 px moves by "
                    f"{self.size / 2:g} px at width {self.size}"
                )
                fix = "grid + flow * 2 / size, or grid_sample(..., coords='displacement')"
                return self.add(node, "GS005", message, fix)
        scales = [
            scale
            for number in parts
            for base, scale in number.terms
            if base.kind in ("arange", "line") and covers(base, scale)
        ]
        if scales and all(v.close(scale, ONES) for scale in scales) and len(scales) == len(parts):
            message = (
                "the grid holds pixels, and all but those from -1 to 1 are outside: at width "
                f"{self.size}, {self.size - 2} of {self.size} columns"
            )
            fix = "2 * (pixel + 0.5) / size - 1, or gridsample.grid_sample(..., coords='pixel')"
            return self.add(node, "GS011", message, fix)
        return False

    def check_half(self, node: ast.Call, parts: list[Number]) -> bool:
        """Find grids that were converted to half precision."""
        halves = {number.half for number in parts}
        if len(halves) != 1 or not (half := halves.pop()):
            return False
        width = max(self.size, 1024)
        message = (
            f"a {half} grid is off by up to {ROUNDING[half] * width / 2:.2g} px "
            f"at width {width} by rounding"
        )
        grid = argument(node, "grid", 1)
        name = ast.unparse(grid) if grid is not None else "grid"
        self.add(node, "GS006", message, f"keep {name} in float32; gridsample accepts half input")
        return False

    def check_order(self, node: ast.Call, grid: Value) -> bool:
        """Find grids whose first component is y."""
        if not isinstance(grid, Stack) or len(grid.parts) not in (2, 3):
            return False
        order = order_of(grid)
        if order not in ("yx", "rows"):
            return False
        call = ast.unparse(node.func)
        if order == "rows":
            message = (
                "the first component varies along the rows of the grid: the result is transposed"
            )
            fix = "torch.meshgrid(..., indexing='ij') gives (y, x): torch.stack((x, y), -1)"
        else:
            message = f"{call} takes (x, y), x along the width, and the grid holds (y, x)"
            fix = f"grid.flip(-1){', or stack the components in (x, y) order' * bool(grid.names)}"
        return self.add(node, "GS004", f"{message} (shifts of up to the whole image)", fix)

    def check_shrinking(self, node: ast.Call, parts: list[Number], owner: str) -> None:
        """Find grids of the whole image that have less than half of its points."""
        for number in parts:
            for base, scale in number.terms:
                for symbol in number.symbols:
                    if symbol.owner != owner or not base.count or base.kind != "line":
                        continue
                    spans = [s * (n - 1) for s, n in zip(scale, base.count, strict=True)]
                    ratios = [n / m for n, m in zip(base.count, symbol.samples, strict=True)]
                    if all(abs(s - 2) < 0.05 for s in spans) and max(ratios) < 0.45:
                        self.add_shrinking(node, max(ratios))
                        return

    def add_shrinking(self, node: ast.Call, factor: float) -> None:
        """Add the finding that an image shrinks by a factor."""
        mode = argument(node, "mode", 3)
        taps = 4 if isinstance(mode, ast.Constant) and mode.value == "bicubic" else 2
        apart = f"{1 / factor:.3g}"
        apart = "more than 2" if apart == "2" else apart
        message = (
            f"output pixels are {apart} input pixels apart, and each reads {taps} along "
            "an axis: details alias"
        )
        is_gridsample = ast.unparse(node.func).startswith("gridsample")
        fix = with_keyword(node, "antialias", True)
        if not is_gridsample and "interpolate" not in fix:
            fix = "gridsample.grid_sample(..., antialias=True)"
        self.add(node, "GS007", message, fix)

    def check_conventions(
        self, node: ast.Call, arguments: dict[str, Value], parts: list[Number], align: Flag,
        scope: Scope,
    ) -> bool:  # fmt: skip
        """Compare align_corners with that of affine_grid, and of interpolate."""
        if not align.known:
            return False
        mine = align.value is True
        for number in parts:
            for base, _ in number.terms:
                grid_align = base.align
                if (
                    base.kind == "affine"
                    and grid_align
                    and grid_align.known
                    and (grid_align.value is True) != mine
                ):
                    message = (
                        f"affine_grid has align_corners={grid_align.value}, "
                        f"{ast.unparse(node.func)} has {align.value}: "
                        "positions are off by up to 0.5 px at the edges"
                    )
                    return self.add(
                        node, "GS008", message, with_align(node, grid_align.value is True)
                    )
        pixels = any(convention(number, "") for number in parts)
        if pixels or align.state != "given" or align.value is None:
            return False
        image = arguments.get("input")
        linked = isinstance(image, Number) and image.resized and image.resized.known
        others = [flag for _, flag in scope.resized]
        if linked and isinstance(image, Number) and image.resized is not None:
            others.append(image.resized)
        for other in others:
            if (other.value is True) != mine:
                message = (
                    f"interpolate has align_corners={other.value or False} here, and "
                    f"{ast.unparse(node.func)} has {align.value}: the results are misaligned by "
                    "up to 0.5 px of the coarser image at the edges"
                )
                return self.add(node, "GS008", message, with_align(node, other.value is True))
        return False

    def check_missing(self, node: ast.Call, align: Flag) -> None:
        """Find calls of torch that warn because align_corners is not given."""
        if align.state == "default":
            return
        message = (
            "torch warns, and uses False (True before 1.3): a difference of 0.5 px at the edges"
        )
        self.add(node, "GS009", message, with_align(node, False))

    # interpolate, and what targets lack -----------------------------------------------------------

    def check_resize(self, node: ast.Call, arguments: dict[str, Value]) -> None:
        """Find resizing to less than half without antialiasing."""
        mode = arguments.get("mode", Const("nearest"))
        if not isinstance(mode, Const) or mode.value not in LINEAR[:3]:
            return
        if "antialias" in arguments and arguments["antialias"] != Const(False):
            return
        factor = self.factor_of(node, arguments)
        if factor is not None and factor < 0.5 - 1e-6 and mode.value != "linear":
            self.add_shrinking(node, factor)

    def factor_of(self, node: ast.Call, arguments: dict[str, Value]) -> float | None:
        """Return the factor of an interpolate, if it is a constant."""
        factor = arguments.get("scale_factor")
        if isinstance(factor, Number) and factor.constant and not factor.symbols:
            return factor.offset[0]
        size = arguments.get("size")
        owner = owner_of(argument(node, "input", 0))
        last = size.items[-1] if isinstance(size, Pack) and size.items else None
        if not isinstance(last, Number) or not last.constant or len(last.symbols) != 1:
            return None
        (symbol,) = last.symbols
        if not owner or symbol.owner != owner:
            return None
        return max(a / b for a, b in zip(last.offset, symbol.samples, strict=True))

    def check_targets(self, node: ast.Call, arguments: dict[str, Value]) -> None:
        """Find options that the targets of the file do not support."""
        padding, mode = arguments.get("padding_mode"), arguments.get("mode")
        grid = arguments.get("grid")
        volume = isinstance(grid, Stack) and len(grid.parts) == 3
        if "mps" in self.module.targets:
            if isinstance(padding, Const) and padding.value == "border":
                message = "MPS: torch before 2.13 raises an error for padding_mode='border'"
                self.add(node, "GS010", message, "grid.clamp(-1, 1), with padding_mode='zeros' "
                         "and align_corners=True")  # fmt: skip
            elif isinstance(mode, Const) and mode.value == "bicubic":
                message = "MPS: torch raises an error for mode='bicubic' in many versions"
                self.add(node, "GS010", message, with_keyword(node, "mode", "bilinear"))
        if "tensorrt" in self.module.targets and volume:
            message = "TensorRT: its grid sample layer takes 4-D inputs only, no volumes"
            self.add(node, "GS010", message, "sample slices, or use a plugin")


# Conventions --------------------------------------------------------------------------------------


def parts_of(grid: Value) -> list[Number]:
    """Return the known components of a grid; a number is its own component."""
    if isinstance(grid, Stack):
        return [number for number in grid.parts if number is not None]
    return [grid] if isinstance(grid, Number) and grid.terms else []


def position_terms(number: Number) -> list[tuple[Base, v.Samples]]:
    """Return the terms of a coordinate that are positions, and not displacements."""
    return [
        (base, scale)
        for base, scale in number.terms
        if base.kind in ("arange", "line", "", "call", "mixed") and max(map(abs, scale)) < 0.5
    ]


def convention(number: Number, owner: str) -> str:
    """Tell what a coordinate was divided by.

    Args:
        number: the coordinate.
        owner: the name of the image, or "".

    Returns:
        "corners" (size - 1), "edges" (size, with the half pixel), "steps" (size, without it),
        "indices" (the same of indices of pixels), or "".
    """
    flows = any(base.kind == "flow" for base, _ in number.terms)
    for base, scale in position_terms(number):
        counts = [(base.count, None)] if base.count else []
        samples_of_sizes = [*((s.samples, s) for s in number.symbols), *counts]
        for n, symbol in samples_of_sizes:
            half = [0.5 * s for s in scale]
            if v.close([h * (m - 1) for h, m in zip(half, n, strict=True)], ONES):
                lined = base.kind == "line" and not flows
                if not v.close(number.offset, [-1.0] * v.SAMPLES):
                    continue
                if lined and not (symbol and owner and symbol.owner == owner):
                    continue
                return "corners"
            if v.close([h * m for h, m in zip(half, n, strict=True)], ONES):
                if base.kind == "line" and symbol is None:
                    continue
                if v.close(
                    [o * m for o, m in zip(number.offset, n, strict=True)], [1 - m for m in n]
                ):
                    return "edges"
                if v.close([o * m for o, m in zip(number.offset, n, strict=True)], [-m for m in n]):
                    return "indices" if base.kind == "arange" else "steps"
    return ""


def normalized(number: Number) -> bool:
    """Whether a coordinate has a term that covers -1 to 1."""
    return any(
        base.kind in ("arange", "line") and covers(base, scale) and not v.close(scale, ONES)
        and all(abs(o + 1) < 0.1 for o in number.offset)
        for base, scale in number.terms
    )  # fmt: skip


def covers(base: Base, scale: v.Samples) -> bool:
    """Whether a term covers a range of about 2 or more."""
    return all(s * n > 1.9 for s, n in zip(scale, base.count, strict=True))


def shift(convention_name: str, aligned: bool, pixel: float, n: int) -> float:
    """Return by how many pixels the position of a pixel is off."""
    coordinate = {
        "corners": 2 * pixel / max(n - 1, 1) - 1,
        "edges": (2 * pixel + 1) / n - 1,
        "steps": 2 * pixel / n - 1,
        "indices": 2 * pixel / n - 1,
    }[convention_name]
    position = (coordinate + 1) / 2 * (n - 1) if aligned else ((coordinate + 1) * n - 1) / 2
    return position - pixel


# Order --------------------------------------------------------------------------------------------


def order_of(grid: Stack) -> str:
    """Return "xy", "yx", "rows" (x along the rows of the grid) or "" for the order of a stack."""
    dims = [dim_of(number) for number in grid.parts]
    sizes = [axis_of_size(number) for number in grid.parts]
    count = len(grid.parts)
    forward = {2: ["x", "y"], 3: ["x", "y", "z"]}[count]
    if None not in dims and sorted(dims) == list(range(count)):  # type: ignore[type-var]
        if dims == list(range(count))[::-1]:
            return "xy"
        if dims != list(range(count)):
            return ""
        if sizes == forward:
            return "rows"
        return "yx"
    if "" not in sizes:
        return {"".join(forward): "xy", "".join(forward[::-1]): "yx"}.get("".join(sizes), "")
    if any(sizes) or count != 2 or any(d is not None for d in dims):
        return ""
    words = "".join(v.component_axis(name) for name in grid.names)
    return words if words in ("xy", "yx") else ""


def dim_of(number: Number | None) -> int | None:
    """Return the axis of a mesh along which a component varies, if there is just one."""
    dims = (
        {base.dim for base, _ in number.terms if base.kind in ("arange", "line")}
        if number
        else set()
    )
    return dims.pop() if len(dims) == 1 else None


def axis_of_size(number: Number | None) -> str:
    """Return the axis of the size that a component was divided by, if there is just one."""
    axes = {symbol.axis for symbol in number.symbols} if number else set()
    return axes.pop() if len(axes) == 1 else ""


# Syntax -------------------------------------------------------------------------------------------


def argument(node: ast.Call, name: str, place: int) -> ast.expr | None:
    """Return an argument of a call by its name or its place."""
    for keyword in node.keywords:
        if keyword.arg == name:
            return keyword.value
    return node.args[place] if place < len(node.args) else None


def owner_of(node: ast.expr | None) -> str:
    """Return the name of a variable, also below a method such as ``x.float()``."""
    return first_name(node) if node is not None else ""


def with_align(node: ast.Call, value: bool) -> str:
    """Return a call as text, with align_corners."""
    return with_keyword(node, "align_corners", value)


def with_keyword(node: ast.Call, name: str, value: bool | str) -> str:
    """Return a call as text, with a keyword added or replaced."""
    result = copy.deepcopy(node)
    result.keywords = [keyword for keyword in result.keywords if keyword.arg != name]
    if name == "align_corners" and len(result.args) == 5:
        result.args.pop()
    result.keywords.append(ast.keyword(name, ast.Constant(value)))
    return re.sub(r"\s+", " ", ast.unparse(result))


def exports(module: Module, size: int, sampled: bool) -> Iterator[Finding]:
    """Yield findings on exports to ONNX whose version of the operators is too old."""
    if not sampled:
        return
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or module.qualify(node.func) != "torch.onnx.export":
            continue
        version = as_int(argument(node, "opset_version", len(node.args)))
        if version is not None and version < 16:
            yield Finding(
                module.path, node.lineno, node.col_offset + 1, "GS010",
                f"ONNX: grid_sample needs opset 16, and 20 for volumes, got {version}",
                "opset_version=20", node.end_lineno or node.lineno,
            )  # fmt: skip
