"""What a coordinate was divided by, and in which order a grid holds its components."""

from __future__ import annotations

from gridsample.doctor import values as v
from gridsample.doctor.values import Number, Stack, Value, Variable

# Conventions --------------------------------------------------------------------------------------


def parts_of(grid: Value) -> list[Number]:
    """Return the known components of a grid; a number is its own component."""
    if isinstance(grid, Stack):
        return [number for number in grid.parts if number is not None]
    return [grid] if isinstance(grid, Number) and grid.terms else []


def position_terms(number: Number) -> list[tuple[Variable, v.Samples]]:
    """Return the terms of a coordinate that are positions, and not displacements."""
    return [
        (variable, scale)
        for variable, scale in number.terms
        if variable.kind in ("arange", "linspace", "", "call", "mixed")
        and max(map(abs, scale)) < 0.5
    ]


def convention(number: Number, owner: str) -> str:
    """Tell what a coordinate was divided by.

    Args:
        number: the coordinate.
        owner: the name of the image, or "".

    Returns:
        "corners" (size - 1), "edges" (size, with the half pixel), "steps" (size, without it),
        "indices" (as "steps", for indices of pixels), or "".
    """
    flows = any(variable.kind == "flow" for variable, _ in number.terms)
    for variable, scale in position_terms(number):
        counts = [(variable.count, None)] if variable.count else []
        samples_of_sizes = [*((s.samples, s) for s in number.symbols), *counts]
        for n, symbol in samples_of_sizes:
            half = tuple(0.5 * s for s in scale)
            size, last = v.product(half, n), v.product(half, tuple(m - 1 for m in n))
            if v.close(last, v.ONES):
                is_linspace = variable.kind == "linspace" and not flows
                if not v.close(number.offset, [-1.0] * v.SAMPLES):
                    continue
                if is_linspace and not (symbol and owner and symbol.owner == owner):
                    continue
                return "corners"
            if v.close(size, v.ONES):
                if variable.kind == "linspace" and symbol is None:
                    continue
                offset = v.product(number.offset, n)
                if v.close(offset, [1 - m for m in n]):
                    return "edges"
                if v.close(offset, [-m for m in n]):
                    return "indices" if variable.kind == "arange" else "steps"
    return ""


def is_normalized(number: Number) -> bool:
    """Whether a coordinate has a term that covers -1 to 1."""
    return any(
        variable.is_index
        and covers(variable, scale)
        and not v.close(scale, v.ONES)
        and all(abs(o + 1) < 0.1 for o in number.offset)
        for variable, scale in number.terms
    )


def covers(variable: Variable, scale: v.Samples) -> bool:
    """Whether a term covers a range of about 2 or more."""
    return all(s * n > 1.9 for s, n in zip(scale, variable.count, strict=True))


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


def order_of(grid: Value) -> str:
    """Return the order of a grid's components, or "" if it is not known.

    It is "xy", "yx", "rows" (x along the rows of the grid), or "axes" (that of the array's axes,
    whose number is not known).
    """
    if isinstance(grid, Number):
        return "axes" if dim_of(grid) == v.IN_ORDER else ""
    if not isinstance(grid, Stack) or len(grid.parts) not in (2, 3):
        return ""
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


def components_over_other_sizes(grid: Stack) -> list[int]:
    """Return which components of a mesh in the right order were divided by another axis's size."""
    if order_of(grid) != "xy" or None in [dim_of(number) for number in grid.parts]:
        return []
    lines = [
        next((term for term in number.terms if term[0].is_index), None) if number else None
        for number in grid.parts
    ]
    counts = [line[0].count if line else () for line in lines]
    found = []
    for i, (number, line) in enumerate(zip(grid.parts, lines, strict=True)):
        if number is None or line is None or ends_at_corners(number, line[1], counts[i]):
            continue
        others = [count for count in counts if count and count != counts[i]]
        others += [s.samples for s in number.symbols if s.axis and s.axis != "xyz"[i]]
        if any(ends_at_corners(number, line[1], n) for n in others):
            found.append(i)
    return found


def ends_at_corners(number: Number, scale: v.Samples, n: v.Samples) -> bool:
    """Whether a coordinate with this scale goes from -1 to 1 along an axis of size ``n``."""
    half = tuple(0.5 * s for s in scale)
    if v.close(v.product(half, tuple(m - 1 for m in n)), v.ONES):
        return v.close(number.offset, [-1.0] * v.SAMPLES)
    if not v.close(v.product(half, n), v.ONES):
        return False
    offset = v.product(number.offset, n)
    return v.close(offset, [1 - m for m in n]) or v.close(offset, [-m for m in n])


def dim_of(number: Number | None) -> int | None:
    """Return the axis of a mesh along which a component varies, if there is just one."""
    dims = {variable.dim for variable, _ in number.terms if variable.is_index} if number else set()
    return dims.pop() if len(dims) == 1 else None


def axis_of_size(number: Number | None) -> str:
    """Return the axis of the size that a component was divided by, if there is just one."""
    axes = {symbol.axis for symbol in number.symbols} if number else set()
    return axes.pop() if len(axes) == 1 else ""
