"""Rules for every file: parameters of functions, names of libraries, private names.

Exceptions are listed, and their number can only decrease: an exception that is no longer needed
fails, too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from trees import tree_of

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/gridsample"
FOLDERS = ("src", "tests", "benchmarks")
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
)

PARAMETERS = 12
LIBRARIES = {"torch", "cupy", "numpy", "jax", "jaxlib", "dask", "tensorflow"}

# The two files that may use private names of other libraries.
PRIVATE = ("src/gridsample/kernels/gpu/triton_jit.py", "src/gridsample/backends/torch/internals.py")

# Functions with too many parameters, by file and name, with the reason.
MANY: dict[str, str] = {}

# Files that touch private names of other libraries, with the reason.
TOUCHES: dict[str, str] = {}

# Files above `backends` that compare a library's name, with the reason.
NAMES: dict[str, str] = {
    "src/gridsample/kernels/threads.py": "whose threads are used, where PyTorch is loaded",
    "src/gridsample/registration/__init__.py": "whether it is torch that is not installed",
}


# Functions ----------------------------------------------------------------------------------------

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """All functions of a tree, by their qualified names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(
            child, ast.expr
        ):  # expressions contain no functions, but most of a tree's nodes
            continue
        if isinstance(child, Function):
            yield prefix + child.name, child
        inner = f"{prefix}{child.name}." if isinstance(child, (Function, ast.ClassDef)) else prefix
        yield from functions(child, inner)


def parameters(function: Function) -> int:
    """How many parameters a function has, apart from the object that it belongs to."""
    arguments = function.args
    named = [
        argument.arg
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    ]
    return len(named) - (named[:1] in (["self"], ["cls"]))


def public(tree: ast.Module) -> set[str]:
    """The names in a module's `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def with_many_parameters() -> Iterator[str]:
    trees = {file: tree_of(ROOT / file) for file in FILES}
    users = {name for file, tree in trees.items() if file[:3] == "src" for name in public(tree)}
    for file, tree in trees.items():
        for name, function in functions(tree):
            if parameters(function) > PARAMETERS and name.partition(".")[0] not in users:
                yield f"{file}::{name}"


def test_functions_take_few_parameters() -> None:
    assert set(with_many_parameters()) == MANY.keys()


def test_parameters_are_counted() -> None:
    code = 'class K:\n    def f(self, a, /, b, *c, d=1, **e):\n        "words"\n        return 1\n'
    ((name, function),) = functions(ast.parse(code))
    assert (name, parameters(function)) == ("K.f", 3)


# Libraries ----------------------------------------------------------------------------------------


def compares_a_library(tree: ast.AST) -> bool:
    """Whether a comparison has the name of a library on one of its sides."""
    return any(
        isinstance(side, ast.Constant) and side.value in LIBRARIES
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
    )


def test_library_names_are_compared_in_backends_only() -> None:
    asking = {
        file
        for file in FILES
        if file.startswith("src/gridsample/")
        and not file.startswith("src/gridsample/backends/")
        and compares_a_library(tree_of(ROOT / file))
    }
    assert asking == NAMES.keys()


@pytest.mark.parametrize("code", ['library(x) == "torch"', 'a != "numpy"', '"torch" in found'])
def test_library_name_comparisons_are_detected(code: str) -> None:
    assert compares_a_library(ast.parse(code))


# Private names ------------------------------------------------------------------------------------


def is_foreign(module: str) -> bool:
    top = module.partition(".")[0]
    return top not in sys.stdlib_module_names and top not in ("gridsample", "tests", "benchmarks")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names(tree: ast.AST) -> set[str]:
    """Private names of other libraries that a tree imports or looks up."""
    private, known = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if is_foreign(alias.name):
                    known.add(alias.asname or alias.name.partition(".")[0])
                    private |= (
                        {alias.name} if any(map(is_private, alias.name.split("."))) else set()
                    )
        elif isinstance(node, ast.ImportFrom) and node.module and is_foreign(node.module):
            for alias in node.names:
                known.add(alias.asname or alias.name)
                name = f"{node.module}.{alias.name}"
                private |= {name} if any(map(is_private, name.split("."))) else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            root: ast.AST = node
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in known:
                private.add(ast.unparse(node))
    return private


def test_private_names_of_libraries_are_used_in_two_places() -> None:
    touching = {
        file
        for file in FILES
        if file.startswith("src/gridsample/")
        and not file.startswith(PRIVATE)
        and private_names(tree_of(ROOT / file))
    }
    assert touching == TOUCHES.keys()


def test_private_names_are_detected() -> None:
    code = "import torch\nfrom torch._x import y\nimport os\nos._exit\ntorch._C.z\nself._mine"
    assert private_names(ast.parse(code)) == {"torch._x.y", "torch._C"}


# Names of classes ---------------------------------------------------------------------------------


def classes_of(paths: list[str]) -> dict[str, list[tuple[str, set[str]]]]:
    """The classes of files by name: where each is, and the names of its bases."""
    found: dict[str, list[tuple[str, set[str]]]] = {}
    for path in paths:
        for node in ast.walk(tree_of(ROOT / path)):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                found.setdefault(node.name, []).append((path, bases))
    return found


def test_a_class_name_means_one_thing() -> None:
    """Outside the kernels, whose packages are read one at a time, no two classes share a name."""
    paths = [path for path in FILES if path.startswith("src/") and "/kernels/" not in path]
    shared = {
        name: [path for path, _ in places]
        for name, places in classes_of(paths).items()
        if len(places) > 1 and not any(name in bases for _, bases in places)
    }
    assert shared == {}
