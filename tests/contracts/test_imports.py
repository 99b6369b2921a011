"""Imports that static contracts on modules cannot check: where in a file, and when.

Run with ``-n 0 -s`` to see how long the import takes.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from trees import tree_of

import gridsample

SOURCE = Path(gridsample.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

# Libraries that are imported on first use only, and the beginnings of the paths of files that may
# import them at the top.
IMPORTERS = {
    "llvmlite": ["kernels/vector"],
    "triton": ["kernels/gpu"],
    "torch": [
        "backends/torch",
        "nn.py",
        "nn_resize.py",
        "onnx.py",
        "registration",
        "torch_compat.py",
    ],
    "jax": ["backends/jax", "jax.py"],
    "dask": ["dask/", "geo/warping.py", "xarray/", "zarr/rasters.py"],
    "cupy": ["backends/cupy"],
    "scipy": [],
    "skimage": [],
    "matplotlib": [],
    "imageio": [],
    "tifffile": [],
    "nibabel": [],
    "SimpleITK": [],
    "xarray": [],
    "zarr": [],
    "PIL": [],
    "rich": [],
}
FRAMEWORKS = {"torch", "jax", "dask", "cupy"}

# The public names.  A change here is a change for users: note it in CHANGELOG.md.
PUBLIC = {
    "Axes",
    "CellOverlaps",
    "Explanation",
    "GridCheck",
    "MisuseWarning",
    "__version__",
    "affine_grid",
    "affine_sample",
    "affine_sample_vjp",
    "check_grid",
    "explain",
    "footprint",
    "grid_gradient",
    "grid_hessian",
    "grid_sample",
    "grid_sample_vjp",
    "help",
    "identity_grid",
    "lattice_grid",
    "lattice_sample",
    "lattice_sample_vjp",
    "methods",
    "register",
    "resample",
    "resample_vjp",
    "splat",
    "splat_count",
    "spline_filter",
    "interpolate",
    "interpolate_vjp",
    "regrid_conservative",
    "regrid_conservative_vjp",
    "warmup",
}


def imports(tree: ast.Module, package: str = "") -> Iterator[tuple[str, bool]]:
    """Every module that a file imports, in full, and whether merely loading the file imports it.

    ``package`` is what relative imports start from.  What only type checkers import is left out.
    """

    def walk(node: ast.AST, on_load: bool) -> Iterator[tuple[str, bool]]:
        match node:
            case ast.Import():
                yield from ((alias.name, on_load) for alias in node.names)
            case ast.ImportFrom():
                parts = package.split(".")[: 1 - node.level or None] if node.level else []
                parent = ".".join([*parts, *([node.module] if node.module else [])])
                yield from ((f"{parent}.{alias.name}", on_load) for alias in node.names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                for child in node.orelse:
                    yield from walk(child, on_load)
            case _:
                inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                for child in ast.iter_child_nodes(node):
                    if not isinstance(child, ast.expr):  # most of a tree, with no import in it
                        yield from walk(child, on_load and not inside)

    yield from walk(tree, True)


@functools.cache
def imports_of(path: Path) -> list[tuple[str, bool]]:
    package = ".".join(["gridsample", *path.relative_to(SOURCE).parent.parts])
    return list(imports(tree_of(path), package))


# Modules of compilers that may change with any version: only one file may use them.
INTERNALS = ("triton.runtime", "triton.compiler")


def private_names(path: Path) -> Iterator[str]:
    """The private attributes of other objects that a file uses."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls") and node.attr not in ("_replace", "_fields", "_asdict"):
                yield f"{id_of(path)}:{node.lineno}: {owner}.{node.attr}"


def test_internals_of_compilers_are_used_in_one_file() -> None:
    paths = [path for path in MODULES if path != SOURCE / "kernels" / "gpu" / "triton_jit.py"]
    touched = [
        (id_of(path), name)
        for path in paths
        for name, _ in imports_of(path)
        if name.startswith(INTERNALS)
    ]
    assert not touched
    kernels = [path for path in paths if path.is_relative_to(SOURCE / "kernels")]
    assert not [name for path in kernels for name in private_names(path)]


def modules_loaded_by(code: str) -> tuple[set[str], float]:
    """Top-level modules that ``code`` adds to a new process with NumPy, and its milliseconds."""
    script = f"""
import json, sys, time
import numpy
before = set(sys.modules)
start = time.perf_counter()
{code}
milliseconds = (time.perf_counter() - start) * 1e3
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(json.dumps([sorted(loaded), milliseconds]))
"""
    path = os.pathsep.join([str(SOURCE.parent), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    loaded, milliseconds = json.loads(run.stdout)
    return set(loaded), milliseconds


def id_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_import_parser_finds_every_import() -> None:
    code = """
import typing
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import hidden
else:
    import a.b
if typing.TYPE_CHECKING:
    import hidden
from . import c
from .d import e
from ..f import g
class K:
    import h
    def method(self):
        import late
def function():
    from late import x
try:
    import i
except ImportError:
    pass
"""
    imported = list(imports(ast.parse(code), "p.q"))
    assert [name for name, on_load in imported if on_load] == [
        "typing",
        "typing.TYPE_CHECKING",
        "a.b",
        "p.q.c",
        "p.q.d.e",
        "p.f.g",
        "h",
        "i",
    ]
    assert [name for name, on_load in imported if not on_load] == ["late", "late.x"]


def test_import_loads_nothing_but_numpy_and_the_standard_library() -> None:
    loaded, milliseconds = modules_loaded_by("import gridsample")
    print(f"\nimport gridsample: {milliseconds:.1f} ms more than import numpy")
    assert "gridsample" in loaded
    assert loaded - set(sys.stdlib_module_names) - {"gridsample", "numpy"} == set()


def test_names_are_loaded_on_first_use() -> None:
    script = (
        "import sys, gridsample\n"
        "assert 'numpy' not in sys.modules\n"
        "assert gridsample.fields.affine_grid is gridsample.affine_grid\n"
        "assert gridsample.methods.names()\n"
    )
    path = os.pathsep.join([str(SOURCE.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


def test_sampling_numpy_arrays_loads_no_framework() -> None:
    loaded, _ = modules_loaded_by(
        "import gridsample\n"
        "image = numpy.ones((1, 1, 2, 2), numpy.float32)\n"
        "grid = numpy.zeros((1, 1, 1, 2), numpy.float32)\n"
        "assert gridsample.grid_sample(image, grid).item() == 1\n"
        "gridsample.grid_sample_vjp(image[..., :1, :1], image, grid)"
    )
    assert loaded & IMPORTERS.keys() == {"llvmlite"}


def test_sampling_tensors_does_not_load_torchs_compiler() -> None:
    """Loading the compiler would take longer than the rest of a first call."""
    modules_loaded_by(
        "import torch, gridsample.torch_compat\n"
        "gridsample.grid_sample(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2))\n"
        "assert 'torch._dynamo' not in sys.modules"
    )


def test_public_names_are_those_listed_here() -> None:
    assert set(gridsample.__all__) == PUBLIC
    assert len(gridsample.__all__) == len(PUBLIC)


def test_public_names_resolve_and_are_listed() -> None:
    assert set(dir(gridsample)) >= PUBLIC
    undocumented = {name for name in PUBLIC if not getattr(gridsample, name).__doc__}
    assert undocumented <= {"__version__"}


def test_public_modules_are_attributes_that_are_loaded_on_use() -> None:
    """Those of `docs/modules.md`; the first use of one is that of a new process."""
    page = (SOURCE.parents[1] / "docs/modules.md").read_text(encoding="utf-8")
    named = {name.partition(".")[0] for name in re.findall(r"^## `gridsample\.(.+)`", page, re.M)}
    assert set(dir(gridsample)) >= named
    loads = "\n".join(f"assert gridsample.{name}.__name__" for name in sorted(named))
    modules_loaded_by(f"import gridsample\n{loads}")


def test_a_module_whose_library_is_missing_says_so() -> None:
    modules_loaded_by(
        "sys.modules['torch'] = None\n"
        "import gridsample\n"
        "try:\n    gridsample.nn\n"
        "except AttributeError as error:\n    assert 'pip install' in str(error)\n"
        "else:\n    raise SystemExit(1)"
    )


def test_no_module_is_named_like_a_public_name() -> None:
    # Loading a submodule sets its name on the package, and replaces an attribute of that name.
    named_alike = PUBLIC & {path.stem for path in SOURCE.iterdir()}
    assert all(isinstance(getattr(gridsample, name), ModuleType) for name in named_alike)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        gridsample.no_such_name  # noqa: B018


def strangers(names: Iterable[str], path: Path) -> set[str]:
    """The imported names that are not allowed in this file."""
    module = path.relative_to(SOURCE).as_posix()
    tops = {name.partition(".")[0] for name in names}
    return {top for top in tops & IMPORTERS.keys() if not module.startswith(tuple(IMPORTERS[top]))}


def test_heavy_libraries_are_imported_on_first_use() -> None:
    found = {
        id_of(path): strangers((name for name, on_load in imports_of(path) if on_load), path)
        for path in MODULES
    }
    assert not {path: names for path, names in found.items() if names}


def test_frameworks_are_imported_only_by_their_backends() -> None:
    found = {
        id_of(path): strangers((name for name, _ in imports_of(path)), path) & FRAMEWORKS
        for path in MODULES
    }
    assert not {path: names for path, names in found.items() if names}


@pytest.mark.parametrize("package", ["messages", "definitions", "kernels.reference"])
def test_foundations_need_only_themselves_and_numpy(package: str) -> None:
    known = {*sys.stdlib_module_names, "numpy"}
    own = [package, "messages"] if package == "definitions" else [package]
    others = {
        (id_of(path), name)
        for path in MODULES
        if id_of(path).startswith(package.replace(".", "/") + "/")
        for name, _ in imports_of(path)
        if name.partition(".")[0] not in known
        and not name.startswith(tuple(f"gridsample.{each}." for each in own))
    }
    assert not others
