"""Lower axis.py and the kernels beside it to Triton: for a GPU, or for Triton's interpreter.

Triton reads the *source* of a function, which must not contain other annotations than Triton's own,
nor records.  A function is therefore lowered by flattening its source, removing annotations, and
binding its global names to Triton's.
"""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from gridsample.definitions import axis
from gridsample.kernels.gpu import choices, footprints, parts, programs, sums, sweeps, taps
from gridsample.kernels.gpu.flattening import flat_definition
from gridsample.kernels.gpu.records import FootprintParams, Work

Function = Callable[..., Any]

# The programs of fused operators.
OPERATORS = [programs.programs_of(name) for name in programs.NAMES]

# Ordered so that each function uses only those before it.
FUNCTIONS: tuple[Function, ...] = (
    *(taps.where, taps.minimum, taps.maximum, taps.floor, taps.rint, taps.remainder),
    taps.row,
    *(axis.position, axis.slope, axis.known, axis.inside, axis.confine, axis.fold, axis.split),
    *(axis.fold_index, axis.fold_sign, axis.weight),
    *(taps.locate, taps.fold_taps, taps.any_kept, taps.weigh),
    *sweeps.FUNCTIONS,
    *itertools.chain.from_iterable(each.FUNCTIONS for each in OPERATORS),
)
KERNELS: tuple[Function, ...] = (
    *sweeps.KERNELS,
    *itertools.chain.from_iterable(each.KERNELS for each in OPERATORS),
)

# Arguments whose values do not cause recompilation.
COUNTS = [
    *(f"work_{name}" for name in Work._fields if name != "channels"),
    *(f"{heads}_{name}" for heads in ("heads", "grad_heads") for name in ("count", "points")),
    *(f"footprint_{name}" for name in FootprintParams._fields if not name.isupper()),
    *("grad_image_limb", "grad_image_room", "count"),
]


class Strip(ast.NodeTransformer):
    """Remove the annotations and docstring of a function; ``Static`` becomes ``tl.constexpr``.

    The function is renamed to ``name``.  If it is ``unrolled``, its loops are executed at compile
    time.
    """

    def __init__(self, name: str, unrolled: bool) -> None:
        self.name, self.unrolled = name, unrolled

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace ``range`` by Triton's unrolled range."""
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
    """Move the statements after an ``if`` that returns to its ``else`` branch.

    Triton compiles only one branch of a static condition, but always compiles what follows it.
    """
    for i, statement in enumerate(body):
        if (
            isinstance(statement, ast.If)
            and isinstance(statement.body[-1], ast.Return)
            and body[i + 1 :]
        ):
            assert not statement.orelse
            statement.orelse = nested(body[i + 1 :])
            return body[: i + 1]
    return body


def kept(annotation: ast.expr | None) -> ast.expr | None:
    """Return the annotation that remains."""
    static = isinstance(annotation, ast.Name) and annotation.id == "Static"
    return ast.parse("tl.constexpr", mode="eval").body if static else None


def strip(
    function: Function,
    scope: dict[str, Any],
    alias: str,
    unrolled: bool,
    outputs: Sequence[str] = (),
) -> Function:
    """Compile a function again from its bare source, in another scope and under another name.

    The source must be complete, except for names bound to Triton's own, because torch.compile
    copies it into programs.  Parameters that are ``outputs`` come last, before static ones.
    """
    stripped = Strip(alias, unrolled).visit(flat_definition(function))
    if outputs:
        stripped.args.args.sort(key=lambda arg: (arg.annotation is not None, arg.arg in outputs))
    source = ast.unparse(ast.fix_missing_locations(ast.Module([stripped], []))) + "\n"
    suffix = "unrolled" if unrolled else "rolled"
    name = f"<{function.__module__}.{alias}, {suffix}, for Triton>"
    # `inspect.getsource`, with which Triton reads the source, looks here first.
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), scope)
    result: Function = scope[alias]
    result.__module__ = function.__module__
    return result


def constants() -> dict[str, Any]:
    """Return the constants that the functions use."""
    return {
        name: value
        for module in (axis, choices, taps, parts, footprints, sums, sweeps)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, (int, float))
    }


@functools.cache
def kernels(rolled: bool = False, interpreted: bool = False) -> SimpleNamespace:
    """Return every lowered function by its name.

    If ``rolled``, kernels process the lines of taps in a loop, otherwise the loop is unrolled.  If
    ``interpreted``, they run on the CPU, slowly.
    """
    import triton.language as tl

    from gridsample.kernels.gpu.triton_jit import compiler, known_reduction

    names: dict[str, Any] = {"tl": tl, "__builtins__": __builtins__}
    names |= {name: tl.constexpr(value) for name, value in constants().items()}
    jit = compiler(interpreted)
    for function in FUNCTIONS:
        specialization = parts.entry_rolled if rolled and function is parts.entry else function
        unrolled = not interpreted and (
            function is axis.weight or (function in sweeps.LOOPS and not rolled)
        )
        names[function.__name__] = jit(
            strip(specialization, {**names}, function.__name__, unrolled)
        )
        if interpreted and function in (parts.plus, parts.larger):
            name = function.__name__
            names[name] = known_reduction(name, names[name])
    for kernel in KERNELS:
        options = {} if interpreted else {"do_not_specialize": COUNTS}
        unrolled = not (rolled or interpreted)
        names[kernel.__name__] = jit(strip(kernel, {**names}, kernel.__name__, unrolled), **options)
    return SimpleNamespace(**names)


@functools.cache
def with_outputs_last(name: str, outputs: tuple[str, ...], rolled: bool) -> Any:
    """Return a kernel whose parameters are what it reads, ``outputs``, and what is static."""
    from gridsample.kernels.gpu.triton_jit import compiler

    scope = {**vars(kernels(rolled))}
    alias = f"{name}_to_outputs"
    return compiler(False)(strip(getattr(sweeps, name), scope, alias, not rolled, outputs))
