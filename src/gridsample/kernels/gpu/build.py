"""Lowers axis.py and the kernels beside it to Triton: for a GPU, or for Triton's interpreter.

Triton reads the *source* of a function, in which it wants no annotations but its own, and no
records for pointers; so a function is lowered by flattening and stripping its source, and binding
what it mentions to Triton's names.
"""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gridsample.definitions import axis
from gridsample.kernels import axes
from gridsample.kernels.compile.records import flat_definition
from gridsample.kernels.gpu import parts, sweeps, taps
from gridsample.kernels.gpu.records import Work

Function = Callable[..., Any]

# In an order in which each mentions only those before it.
FUNCTIONS: tuple[Function, ...] = (
    *(taps.where, taps.minimum, taps.maximum, taps.floor, taps.rint, taps.remainder),
    taps.row,
    *(axis.position, axis.slope, axis.known, axis.inside, axis.confine, axis.fold, axis.split),
    *(axis.fold_index, axis.fold_sign, axis.weight),
    *(taps.locate, taps.lay, taps.any_kept, taps.weigh),
    *sweeps.FUNCTIONS,
)

# Arguments for whose values no kernel is compiled anew.
COUNTS = [
    *(f"work_{name}" for name in Work._fields if name != "channels"),
    *("shadow_limb", "shadow_room", "count"),
]


class Strip(ast.NodeTransformer):
    """Takes annotations and the docstring off a function; ``Static`` becomes Triton's word.

    The function gets the name that others know it by; ``unrolled``, its loops are done when it is
    compiled.
    """

    def __init__(self, name: str, unrolled: bool) -> None:
        self.name, self.unrolled = name, unrolled

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Say which loop is meant."""
        if self.unrolled and node.id == "range":
            return ast.parse("tl.static_range", mode="eval").body
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Strip a function."""
        self.generic_visit(node)
        node.name, node.returns = self.name, None
        node.body = nested(node.body[1:] if ast.get_docstring(node) else node.body)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Strip an argument."""
        node.annotation = kept(node.annotation)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """Strip a variable."""
        assert node.value is not None
        static = kept(node.annotation)
        if static is None:
            return ast.Assign([node.target], node.value)
        node.annotation = static
        return node


def nested(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements in which what follows a choice that returns is the other choice.

    Triton compiles only one of two choices that it knows, but whatever follows them.
    """
    for i, one in enumerate(body):
        if isinstance(one, ast.If) and isinstance(one.body[-1], ast.Return) and body[i + 1 :]:
            assert not one.orelse
            one.orelse = nested(body[i + 1 :])
            return body[: i + 1]
    return body


def kept(annotation: ast.expr | None) -> ast.expr | None:
    """What is left of an annotation."""
    static = isinstance(annotation, ast.Name) and annotation.id == "Static"
    return ast.parse("tl.constexpr", mode="eval").body if static else None


def strip(function: Function, scope: dict[str, Any], alias: str, unrolled: bool) -> Function:
    """The function anew, from its bare source, in another scope and by another name.

    Sources must be all that there is to them, but for names that are bound to Triton's own:
    torch.compile writes them into programs.
    """
    bare = Strip(alias, unrolled).visit(flat_definition(function))
    source = ast.unparse(ast.fix_missing_locations(ast.Module([bare], []))) + "\n"
    kind = "unrolled" if unrolled else "rolled"
    name = f"<{function.__module__}.{function.__name__}, {kind}, for Triton>"
    # Where `inspect.getsource`, by which Triton reads it, looks first.
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), scope)
    made: Function = scope[alias]
    made.__module__ = function.__module__
    return made


def constants() -> dict[str, Any]:
    """The numbers that the functions mention."""
    return {
        name: value
        for module in (axis, axes, taps, parts, sweeps)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, (int, float))
    }


@functools.cache
def kernels(rolled: bool = False, interpreted: bool = False) -> SimpleNamespace:
    """Every lowered function by its name.

    ``rolled`` ones go through the lines of taps in a loop, others have it unrolled; ``interpreted``
    ones run on the CPU, slowly.
    """
    import triton.language as tl

    from gridsample.kernels.compile.triton_jit import compiler, known_sum

    names: dict[str, Any] = {"tl": tl, "__builtins__": __builtins__}
    names |= {name: tl.constexpr(value) for name, value in constants().items()}
    jit = compiler(interpreted)
    for function in FUNCTIONS:
        twin = parts.entry_rolled if rolled and function is parts.entry else function
        unrolled = function is axis.weight and not interpreted
        names[function.__name__] = jit(strip(twin, {**names}, function.__name__, unrolled))
        if interpreted and function is parts.plus:
            names["plus"] = known_sum(names["plus"])
    for kernel in sweeps.KERNELS:
        options = {} if interpreted else {"do_not_specialize": COUNTS}
        unrolled = not (rolled or interpreted)
        names[kernel.__name__] = jit(strip(kernel, {**names}, kernel.__name__, unrolled), **options)
    return SimpleNamespace(**names)
