"""The rules: what is wrong with a call of grid_sample, affine_grid or interpolate."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gridsample.doctor import values as v
from gridsample.doctor.conventions import (
    components_over_other_sizes,
    convention,
    covers,
    dim_of,
    is_normalized,
    order_of,
    parts_of,
    shift,
)
from gridsample.doctor.edits import Edit, edit_of_keyword
from gridsample.doctor.evaluator import Scope
from gridsample.doctor.findings import Finding
from gridsample.doctor.names import Module
from gridsample.doctor.operations import align_flag, argument, as_int, root_name
from gridsample.doctor.values import Const, Flag, ListValue, Number, Stack, Value

# The formulas that belong to the values of align_corners, for a position p in pixels.
CORNERS, EDGES = "2 * p / (size - 1) - 1", "(2 * p + 1) / size - 1"
BOTH_FORMULAS = f"True for a grid of {CORNERS}, False for {EDGES}"
DEFAULT_USED = "torch warns, and uses False (True before 1.3): a difference of 0.5 px at the edges"
# The rules on what a grid was divided by.
CONVENTION_RULES = ("GS001", "GS002", "GS003")
# The modes of interpolate that do not interpolate between pixels, or antialias by themselves.
UNSMOOTHED = ("nearest", "nearest-exact", "label", "area", "gaussian")
# How many pixels a sample reads along an axis.
TAPS: dict[str, int | str] = {"linear": 2, "bilinear": 2, "trilinear": 2, "cubic": 4, "bicubic": 4}
# The largest rounding error of a coordinate near 1, by dtype.
ROUNDING = {"float16": 2.0**-12, "bfloat16": 2.0**-9}


Location = tuple[int, int]


@dataclass
class Rules:
    """Checks the calls of one file.

    Attributes:
        module: the file.
        size: the width of the image in messages, in pixels.
        findings: what was found so far.
        calls: the locations of the calls that were seen.
        conventions: what the grids that reach each call were divided by.
        affine: the calls of affine_grid, by their locations.
        readers: the align_corners of the calls that read the grid of each of them.
    """

    module: Module
    size: int
    findings: dict[tuple[Location, str], Finding] = field(default_factory=dict)
    calls: set[Location] = field(default_factory=set)
    conventions: dict[Location, set[str]] = field(default_factory=dict)
    affine: dict[Location, ast.Call] = field(default_factory=dict)
    readers: dict[Location, set[bool]] = field(default_factory=dict)

    def __call__(
        self, node: ast.Call, function_kind: str, arguments: dict[str, Value], scope: Scope
    ) -> None:
        """Check a call."""
        self.calls.add(location_of(node))
        if function_kind.endswith("resize"):
            self.check_resize(node, arguments)
            return
        align = align_flag(arguments)
        if function_kind.endswith("affine"):
            self.affine[location_of(node)] = node
            if align.state == "missing" and not function_kind.startswith("own"):
                self.add(node, "GS009", DEFAULT_USED, "")  # see `report`
            return
        has_findings = self.check_sample(node, arguments, align, scope)
        self.check_targets(node, arguments, align)
        if not has_findings and not function_kind.startswith("own") and align.state == "missing":
            self.add(node, "GS009", DEFAULT_USED, self.value_for(node, arguments))

    def add(
        self, node: ast.Call, code: str, message: str, fix: str, edit: Edit | None = None
    ) -> bool:
        """Add a finding, once at each location."""
        finding = replace(finding_at(self.module, node, code, message, fix), edit=edit)
        self.findings.setdefault((location_of(node), code), finding)
        return True

    def report(self) -> list[Finding]:
        """Return all findings, with fixes that suit every grid that reaches a call."""
        reported = []
        for (location, code), finding in self.findings.items():
            fix = finding.fix
            if code == "GS009" and location in self.affine:
                values = self.readers.get(location, set())
                fix = "affine_grid(..., align_corners=...), with the value that grid_sample has"
                if len(values) == 1:
                    fix = with_align(self.affine[location], *values)
            elif code == "GS009" and any(
                (location, other) in self.findings for other in CONVENTION_RULES
            ):
                continue
            elif code in CONVENTION_RULES and len(self.conventions[location]) > 1:
                fix = f"the same formula for all grids that get here; align_corners={BOTH_FORMULAS}"
            edit = finding.edit if fix == finding.fix else None
            reported.append(replace(finding, fix=fix, edit=edit))
        return reported

    def value_for(self, node: ast.Call, arguments: dict[str, Value]) -> str:
        """Return the call with the align_corners that its grid needs: both if it is not known."""
        parts = parts_of(arguments.get("grid"))
        owner = owner_of(argument(node, "input", 0))
        kinds = {convention(number, owner) for number in parts}
        affine = any(variable.kind == "affine" for number in parts for variable, _ in number.terms)
        if affine or kinds & {"edges", "steps"}:
            return with_align(node, False)
        return f"{with_align(node, True)} for a grid of {CORNERS}; align_corners=False for {EDGES}"

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
        has_findings = self.check_units(node, parts, align) or has_findings
        if not has_findings and not is_passed_on(node, scope):
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
        (division,) = kinds
        self.conventions.setdefault(location_of(node), set()).add(division)
        aligned = align.value is True
        first, last = (shift(division, aligned, p, self.size) for p in (0, self.size - 1))
        offsets = (
            f"at width {self.size}, positions are off by {first:+.3g} px at the first pixel and "
            f"{last:+.3g} px at the last"
        )
        value = f"align_corners={flag_text(align)}"
        if division == "corners" and not aligned:
            message = f"coordinates are divided by size - 1, but {value}: {offsets}"
            edit = align_edit(node, True)
            return self.add(node, "GS001", message, with_align(node, True), edit)
        if division in ("edges", "steps", "indices") and aligned:
            message = f"coordinates are divided by the size, but {value}: {offsets}"
            fix = {
                "edges": with_align(node, False),
                "indices": f"2 * index / (size - 1) - 1, or {EDGES} with align_corners=False",
                "steps": f"{CORNERS} for p from the centre of the first pixel; "
                "align_corners=False for p from its outer edge",
            }[division]
            edit = align_edit(node, False) if division == "edges" else None
            return self.add(node, "GS002", message, fix, edit)
        if division == "indices" and not aligned:
            return self.add(
                node,
                "GS003",
                f"the pixel at index i has its centre at i + 0.5: {offsets}",
                "2 * (index + 0.5) / size - 1, with align_corners=False",
            )
        return False

    def check_units(self, node: ast.Call, parts: list[Number], align: Flag) -> bool:
        """Find pixels in a grid that should be normalized."""
        size = "(size - 1)" if align.value is True else "size"
        for number in parts:
            scales_by_kind = {variable.kind: scale for variable, scale in number.terms}
            flow = scales_by_kind.get("flow")
            is_flow_in_pixels = flow is not None and all(abs(abs(s) - 1) < 1e-9 for s in flow)
            if is_flow_in_pixels and (is_normalized(number) or "affine" in scales_by_kind):
                message = (
                    "the grid is normalized, the flow in pixels: a flow of 1 px moves by "
                    f"{self.size / 2:g} px at width {self.size}"
                )
                own = "gridsample.grid_sample(image, flow, coords='displacement')"
                fix = f"grid + flow * 2 / {size}, or {own} with the flow on the last axis"
                return self.add(node, "GS005", message, fix)
        scales = [
            scale
            for number in parts
            for variable, scale in number.terms
            if variable.is_index and covers(variable, scale)
        ]
        if scales and all(v.close(scale, v.ONES) for scale in scales) and len(scales) == len(parts):
            message = (
                "the grid holds pixels, and all but those from -1 to 1 are outside: at width "
                f"{self.size}, {self.size - 2} of {self.size} columns"
            )
            formula = CORNERS if align.value is True else EDGES
            fix = f"{formula}, or gridsample.grid_sample(..., coords='pixel')"
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
        order = order_of(grid)
        call = ast.unparse(node.func)
        if order == "rows" and isinstance(grid, Stack):
            message = (
                "the first component varies along the rows of the grid: the result is transposed"
            )
            fix = f"grid.swapaxes(-{len(grid.parts) + 1}, -2), or meshgrid(..., indexing='xy')"
        elif order == "axes":
            message = f"{call} takes (x, y, z), and the grid holds the axes in the array's order"
            fix = "grid.flip(-1)"
        elif order == "yx" and isinstance(grid, Stack):
            message = f"{call} takes (x, y), x along the width, and the grid holds (y, x)"
            fix = f"grid.flip(-1){', or stack the components in (x, y) order' * bool(grid.names)}"
            if not known_order(grid):  # only the sizes say it
                fix += "; or, if the first component is x, divide it by the width"
        else:
            return self.check_divisors(node, grid)
        return self.add(node, "GS004", f"{message} (shifts of up to the whole image)", fix)

    def check_divisors(self, node: ast.Call, grid: Value) -> bool:
        """Find components of a mesh that are divided by the size of another axis."""
        if not isinstance(grid, Stack):
            return False
        swapped = components_over_other_sizes(grid)
        if not swapped:
            return False
        names = " and ".join("xyz"[i] for i in swapped)
        message = (
            f"{names}: divided by the size of another axis, so that the grid does not end where "
            "the image does, unless the image is square"
        )
        fix = "2 * x / (width - 1) - 1, 2 * y / (height - 1) - 1"
        if convention(grid.parts[swapped[0]] or v.constant(0), "") in ("edges", "steps", "indices"):
            fix = "(2 * x + 1) / width - 1, (2 * y + 1) / height - 1"
        return self.add(node, "GS012", message, fix)

    def check_shrinking(self, node: ast.Call, parts: list[Number], owner: str) -> None:
        """Find grids of the whole image that have less than half of its points."""
        for number in parts:
            for variable, scale in number.terms:
                for symbol in number.symbols:
                    if symbol.owner != owner or not variable.count or variable.kind != "linspace":
                        continue
                    spans = [s * (n - 1) for s, n in zip(scale, variable.count, strict=True)]
                    ratios = [n / m for n, m in zip(variable.count, symbol.samples, strict=True)]
                    if all(abs(s - 2) < 0.05 for s in spans) and max(ratios) < 0.45:
                        self.add_shrinking(node, max(ratios))
                        return

    def add_shrinking(self, node: ast.Call, factor: float) -> None:
        """Add the finding that an image shrinks by a factor."""
        mode = argument(node, "mode", 3)
        taps = TAPS.get(str(mode.value), "few") if isinstance(mode, ast.Constant) else "few"
        apart = f"{1 / factor:.3g}"
        apart = "more than 2" if apart == "2" else apart
        message = (
            f"output pixels are {apart} input pixels apart, and each reads {taps} along "
            "an axis: details alias"
        )
        name = self.module.qualify(node.func)
        smooths = isinstance(mode, ast.Constant) and mode.value in ("bilinear", "bicubic")
        fix = with_keyword(node, "antialias", True)
        if not (name.startswith("gridsample") or (name.endswith("interpolate") and smooths)):
            function = "grid_sample" if "grid_sample" in name else "interpolate"
            fix = f"gridsample.{function}(..., antialias=True)"
        self.add(node, "GS007", message, fix)

    def check_conventions(
        self,
        node: ast.Call,
        arguments: dict[str, Value],
        parts: list[Number],
        align: Flag,
        scope: Scope,
    ) -> bool:
        """Compare align_corners with that of affine_grid, and of interpolate."""
        if not align.known:
            return False
        aligned = align.value is True
        for number in parts:
            for variable, _ in number.terms:
                grid_align = variable.align
                if variable.kind != "affine" or grid_align is None or not grid_align.known:
                    continue
                self.readers.setdefault(variable.location, set()).add(aligned)
                if (grid_align.value is True) != aligned:
                    message = (
                        f"affine_grid has align_corners={flag_text(grid_align)}, "
                        f"{ast.unparse(node.func)} has {flag_text(align)}: "
                        "positions are off by up to 0.5 px at the edges"
                    )
                    fix = with_align(node, grid_align.value is True)
                    edit = align_edit(node, grid_align.value is True)
                    if grid_align.state == "missing" and variable.location in self.affine:
                        self.findings.pop((variable.location, "GS009"), None)
                        fix = with_align(self.affine[variable.location], aligned)
                        edit = align_edit(self.affine[variable.location], aligned)
                    return self.add(node, "GS008", message, fix, edit)
        pixels = any(convention(number, "") for number in parts)
        if pixels or align.state != "given" or align.value is None:
            return False
        image = arguments.get("input")
        others = [(with_align(call, aligned), flag) for call, flag in scope.resized]
        if isinstance(image, Number) and image.resized is not None and image.resized.known:
            others.append((f"interpolate(..., align_corners={aligned})", image.resized))
        for fix, other in others:
            if (other.value is True) != aligned:
                message = (
                    f"interpolate has align_corners={flag_text(other)} here, and "
                    f"{ast.unparse(node.func)} has {flag_text(align)}: the results are misaligned "
                    "by up to 0.5 px of the coarser image at the edges"
                )
                return self.add(node, "GS008", message, fix)  # the grid decides, not the resizing
        return False

    # interpolate, and what targets lack -----------------------------------------------------------

    def check_resize(self, node: ast.Call, arguments: dict[str, Value]) -> None:
        """Find resizing to less than half without antialiasing."""
        mode = arguments.get("mode", Const("nearest"))
        if not isinstance(mode, Const) or mode.value is None or mode.value in UNSMOOTHED:
            return
        if "antialias" in arguments and arguments["antialias"] != Const(False):
            return
        image = argument(node, "input", 0)
        if image is not None and v.is_field(ast.unparse(image)):
            return  # a flow is smooth, and a mean over an edge of it is no motion at all
        factor = self.factor_of(node, arguments)
        if factor is not None and factor < 0.5 - 1e-6:
            self.add_shrinking(node, factor)

    def factor_of(self, node: ast.Call, arguments: dict[str, Value]) -> float | None:
        """Return the least factor of an interpolate, if it is a constant."""
        factor = arguments.get("scale_factor")
        factors = factor.items if isinstance(factor, ListValue) else [factor]
        known = [n for n in factors if isinstance(n, Number) and n.constant and not n.symbols]
        if known:
            return min([number.offset[0] for number in known])
        size = arguments.get("size")
        owner = owner_of(argument(node, "input", 0))
        last = size.items[-1] if isinstance(size, ListValue) and size.items else None
        if not isinstance(last, Number) or not last.constant or len(last.symbols) != 1:
            return None
        (symbol,) = last.symbols
        if not owner or symbol.owner != owner:
            return None
        return max(a / b for a, b in zip(last.offset, symbol.samples, strict=True))

    def check_targets(self, node: ast.Call, arguments: dict[str, Value], align: Flag) -> None:
        """Find options that the targets of the file do not support."""
        padding, mode = arguments.get("padding_mode"), arguments.get("mode")
        grid = arguments.get("grid")
        volume = isinstance(grid, Stack) and len(grid.parts) == 3
        if "mps" in self.module.targets:
            if isinstance(padding, Const) and padding.value == "border":
                message = "MPS: torch before 2.13 raises an error for padding_mode='border'"
                limits = "-1, 1" if align.value is True else "1 / size - 1, 1 - 1 / size"
                fix = f"padding_mode='zeros', with each coordinate of the grid .clamp({limits})"
                self.add(node, "GS010", message, fix)
            elif isinstance(mode, Const) and mode.value == "bicubic":
                message = "MPS: torch raises an error for mode='bicubic' in many versions"
                fix = f"{with_keyword(node, 'mode', 'bilinear')}, or the same call on the CPU"
                self.add(node, "GS010", message, fix)
        if "tensorrt" in self.module.targets and volume:
            message = "TensorRT: its grid sample layer takes 4-D inputs only, no volumes"
            self.add(node, "GS010", message, "sample slices, or use a plugin")


def known_order(grid: Stack) -> bool:
    """Whether the order of components follows from a mesh or from their names."""
    return bool(grid.names) or any(dim_of(number) is not None for number in grid.parts)


def flag_text(align: Flag) -> str:
    """Return the value of align_corners for messages."""
    default = " by default" if align.state in ("missing", "default") else ""
    return f"{align.value is True}{default}"


def is_passed_on(node: ast.Call, scope: Scope) -> bool:
    """Whether the caller of the function gives align_corners, so that it has to be right there."""
    flag = argument(node, "align_corners", 4)
    return scope.depth > 0 and flag is not None and not isinstance(flag, ast.Constant)


# Syntax -------------------------------------------------------------------------------------------


def location_of(node: ast.Call) -> Location:
    """Return the line and the column of a call."""
    return node.lineno, node.col_offset


def finding_at(module: Module, node: ast.Call, code: str, message: str, fix: str) -> Finding:
    """Make a finding on a call."""
    line, column = location_of(node)
    return Finding(module.path, line, column + 1, code, message, fix, end=node.end_lineno or line)


def owner_of(node: ast.expr | None) -> str:
    """Return the name of a variable, also below a method such as ``x.float()``."""
    return root_name(node) if node is not None else ""


def align_edit(node: ast.Call, value: bool) -> Edit | None:
    """Return the edit of a call of torch's or our functions that sets align_corners."""
    name = ast.unparse(node.func).rpartition(".")[2]
    position = {"grid_sample": 4, "grid_sampler": 4, "affine_grid": 2}.get(name)
    return edit_of_keyword(node, "align_corners", value, position) if position else None


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


def check_exports(module: Module) -> Iterator[Finding]:
    """Yield findings on exports to ONNX whose version of the operators is too old."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or module.qualify(node.func) != "torch.onnx.export":
            continue
        version = as_int(argument(node, "opset_version", len(node.args)))
        if version is not None and version < 16:
            message = f"ONNX: grid_sample needs opset 16, and 20 for volumes, got {version}"
            fix = "opset_version=16, or 20 for volumes"
            yield finding_at(module, node, "GS010", message, fix)
