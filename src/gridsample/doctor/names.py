"""What names mean in a file: imports, and functions that stand for others."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

# The usual names of modules, which apply unless a file imports something else by that name.
IMPORTED_AS = {"F": "torch.nn.functional", "nn": "torch.nn", "np": "numpy", "torch": "torch"}

SAMPLER = ("input", "grid", "mode", "padding_mode", "align_corners")
INTERPOLATE = (
    "input",
    "size",
    "scale_factor",
    "mode",
    "align_corners",
    "recompute_scale_factor",
    "antialias",
)
# Functions that are checked: what they are, and the names of their arguments.
KNOWN = {
    "torch.nn.functional.grid_sample": ("sample", SAMPLER),
    "torch.grid_sampler": ("sample", SAMPLER),
    "torch.nn.functional.affine_grid": ("affine", ("theta", "size", "align_corners")),
    "torch.nn.functional.interpolate": ("resize", INTERPOLATE),
    "torch.nn.functional.upsample": ("resize", INTERPOLATE[:5]),
    "torch.nn.Upsample": ("module resize", INTERPOLATE[1:5]),
    "gridsample.grid_sample": ("own sample", SAMPLER),
    "gridsample.affine_grid": ("own affine", ("theta", "size", "align_corners")),
    "gridsample.interpolate": ("resize", INTERPOLATE),
    "gridsample.torch_compat.interpolate": ("resize", INTERPOLATE),
    "gridsample.torch_compat.grid_sample": ("own sample", SAMPLER),
    "gridsample.torch_compat.affine_grid": ("own affine", ("theta", "size", "align_corners")),
}

# The last parts of their names, by which files that use none of them are skipped.
_LAST_NAMES = sorted({name.rpartition(".")[2] for name in KNOWN})

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """One parsed file.

    Attributes:
        path: the file.
        tree: its syntax tree.
        imports: the full names that local names stand for.
        functions: the functions at the top of the file.
        classes: the classes at the top of the file.
        targets: what the file exports to or runs on: "onnx", "tensorrt", "mps".
        wrappers: functions of other files that only call grid_sample: see `wrappers_of`.
    """

    path: str
    tree: ast.Module
    imports: dict[str, str] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    targets: set[str] = field(default_factory=set)
    wrappers: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    def methods(self, name: str, seen: tuple[str, ...] = ()) -> dict[str, Function]:
        """Return the methods of a class of the file, also those of its bases in the file."""
        node = self.classes.get(name)
        if node is None or name in seen:
            return {}
        methods: dict[str, Function] = {}
        for base in reversed(node.bases):
            if isinstance(base, ast.Name):
                methods |= self.methods(base.id, (*seen, name))
        return methods | {part.name: part for part in node.body if isinstance(part, Function)}

    def qualify(self, node: ast.expr) -> str:
        """Return the full name of an expression like ``F.grid_sample``, or ""."""
        if isinstance(node, ast.Name):
            if node.id in self.imports:
                return self.imports[node.id]
            return IMPORTED_AS.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            before = self.qualify(node.value)
            return before and f"{before}.{node.attr}"
        return ""

    def known(self, node: ast.expr) -> tuple[str, tuple[str, ...]] | None:
        """Return what a called function is, and the names of its arguments; see `KNOWN`."""
        full = self.qualify(node)
        if full in KNOWN:
            local = isinstance(node, ast.Name) and node.id not in self.imports
            return None if local else KNOWN[full]
        module, _, name = full.rpartition(".")
        wrapper = self.wrappers.get((module.rpartition(".")[2], name))
        return ("sample", wrapper) if wrapper and full else None


def read_module(path: str, tree: ast.Module) -> Module:
    """Collect the names of a parsed file."""
    module = Module(path, tree)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                module.imports[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module.imports[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
        module.targets |= set(_targets(node))
    module.functions = {node.name: node for node in module.tree.body if isinstance(node, Function)}
    module.classes = {
        node.name: node for node in module.tree.body if isinstance(node, ast.ClassDef)
    }
    return module


def _targets(node: ast.AST) -> Iterator[str]:
    """Yield the targets on which the code runs, by a node of its syntax."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    if any(name.partition(".")[0] in ("tensorrt", "torch_tensorrt", "torch2trt") for name in names):
        yield "tensorrt"
    match node:
        case ast.Call(func=function, args=[ast.Constant(value="mps"), *_]):
            if ast.unparse(function).rpartition(".")[2] in ("device", "to"):
                yield "mps"
        case ast.Attribute(attr="mps", value=owner) if ast.unparse(owner) == "torch.backends":
            yield "mps"


def mentions(source: str, names: Iterable[str] = ()) -> bool:
    """Whether source code has the name of a function that is checked, or one of ``names``."""
    return any(name in source for name in (*_LAST_NAMES, *names))


def wrappers_of(module: Module) -> dict[tuple[str, str], tuple[str, ...]]:
    """Find the functions that pass their arguments to grid_sample unchanged.

    Returns:
        The names of their parameters, by (name of the module, name of the function).
    """
    wrappers = {}
    for name, function in module.functions.items():
        names = [parameter.arg for parameter in function.args.args]
        for node in ast.walk(function):
            if not isinstance(node, ast.Call):
                continue
            known = module.known(node.func)
            if known is None or known[0] != "sample" or len(node.args) > len(known[1]):
                continue
            arguments: dict[str, ast.expr] = dict(zip(known[1], node.args, strict=False))
            arguments |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
            passed = {
                key: value.id for key, value in arguments.items() if isinstance(value, ast.Name)
            }
            if all(passed.get(key) in names for key in ("input", "grid", "align_corners")):
                originals = {value: key for key, value in passed.items()}
                wrappers[Path(module.path).stem, name] = tuple(
                    originals.get(parameter, parameter) for parameter in names
                )
                break
    return wrappers
