"""`warmup`: what it covers compiles nothing afterwards, in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gridsample
from gridsample import cli, warming
from gridsample.kernels.compile import folders

# Calls as users make them, on images of various sizes.
CALLS = """
import itertools, sys
import numpy as np
import gridsample
from gridsample import warming

def calls(dtype, real, mode, gradients):
    shapes = [(1, 1, 30, 41), (2, 3, 80, 160), (1, 16, 64, 64), (3, 5, 7, 63)]
    shapes += [(2, 7, 20, 30), (1, 48, 64, 3), (2, 60, 81, 4), (1, 33, 47, 8), (4, 20, 30, 64)]
    for shape, boundary in itertools.product(shapes, ("zeros", "border", "wrap")):
        last = shape[-1] < 20 or shape[1] == 20
        image = np.ones(shape, dtype)
        how = {"channel_axis": -1 if last else 1}
        few = np.zeros((shape[0], 6, 7, 2), real)
        gridsample.grid_sample(image, few, mode, boundary, **how)
        grid = np.zeros((1 if shape[0] == 3 else shape[0], 150, 200, 2), real)
        out = gridsample.grid_sample(image, grid, mode, boundary, **how)
        theta = np.zeros((1, 2, 3), real)
        size = (1, 1, 150, 200)
        turned = gridsample.affine_sample(image, theta, size, mode, boundary, **how)
        for new in ((5, 90), (200, 30), (40, 80), (30, 40), (99, 99)):
            gridsample.interpolate(image, new, mode=mode, **how)
        if gradients:
            gridsample.grid_sample_vjp(out, image, grid, mode, boundary, **how)
            gridsample.grid_sample_vjp(out, image, grid, mode, boundary, need_grid=False, **how)
            gridsample.affine_sample_vjp(turned, image, theta, size, mode, boundary, **how)
            small = gridsample.interpolate(image, (9, 90), mode=mode, antialias=True, **how)
            gridsample.interpolate_vjp(small, image, (9, 90), mode=mode, antialias=True, **how)

def tensor_calls(dtype, mode, gradients):
    import torch
    kind = getattr(torch, dtype)
    smooth = mode != "nearest"
    for shape in [(1, 1, 30, 41), (2, 3, 80, 160), (4, 16, 20, 30)]:
        for channels_last in (False, True)[: shape[1]]:
            image = torch.ones(shape, dtype=kind)
            if channels_last:
                image = image.contiguous(memory_format=torch.channels_last)
            image.requires_grad_(gradients)
            theta = torch.eye(2, 3, dtype=kind).repeat(shape[0], 1, 1).requires_grad_(gradients)
            size = (shape[0], shape[1], 90, 80)
            grid = gridsample.affine_grid(theta, size)
            wanted = [image, theta] if smooth else [image]
            for out in (
                gridsample.grid_sample(image, grid, mode),
                gridsample.grid_sample(image, grid.detach(), mode),
                gridsample.affine_sample(image, theta, size, mode),
            ):
                if gradients:
                    how = {"allow_unused": True}
                    first = torch.autograd.grad(
                        out.square().sum(), wanted, create_graph=True, **how
                    )
                    total = sum(one.square().sum() for one in first if one is not None)
                    torch.autograd.grad(total, wanted, **how)
            small = gridsample.interpolate(image, (15, 90), mode=mode, antialias=smooth)
            if gradients:
                small.sum().backward()
"""

# Which kernels are needed is found out without compiling any: what stands for them does nothing.
COLLECT = """
from gridsample.kernels import cpu, resize
from gridsample.kernels.cpu import calls as planned
needed = set()

class Batch:
    def __init__(self, parts, arrays):
        pass
    def run(self, arrays, threads, worker):
        pass

class Resizing:
    def __init__(self, spec):
        self.spec = spec
    def __call__(self, *arguments):
        kinds = [(one.dtype, one.flags.writeable) if isinstance(one, np.ndarray) else type(one)
                 for one in arguments]
        needed.add((self.spec, *kinds))

planned.driver_for, planned.Batch, cpu.worker = needed.add, Batch, lambda: (0, None)
resize.driver_for = Resizing

def kernels_of(work):
    needed.clear()
    work()
    return needed.copy()

def make(*arguments):
    for call in warming.calls_for(*arguments):
        warming.make(call)
"""


def run(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CALLS + code],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "GRIDSAMPLE_CACHE_DIR": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("dtype", "mode", "gradients", "torch"),
    [
        ("uint8", "nearest", False, False),
        ("uint8", "bicubic", False, False),
        ("float32", "bilinear", True, False),
        pytest.param("float32", "bilinear", True, True, marks=pytest.mark.slow),
        ("float64", "bicubic", True, False),
        ("float16", "nearest", False, False),
        ("bfloat16", "bilinear", False, True),
    ],
)
def test_what_is_covered_needs_no_other_kernels(
    tmp_path: Path, dtype: str, mode: str, gradients: bool, torch: bool
) -> None:
    real = "float64" if dtype == "float64" else "float32"
    arrays = f"calls({dtype!r}, {real!r}, {mode!r}, {gradients})" if dtype != "bfloat16" else ""
    tensors = f"tensor_calls({dtype!r}, {mode!r}, {gradients})" if torch else ""
    output = run(
        f"""{COLLECT}
def work():
    {arrays}
    {tensors}

covered = kernels_of(lambda: make([{dtype!r}], [2], [{mode!r}], {gradients}, {torch}))
wanted = kernels_of(work)
for one in wanted - covered:
    print("not covered:", one)
print(len(wanted) > 8)
""",
        tmp_path,
    )
    assert output == "True\n"


OPTIONAL = """
def optional_calls(dtype, mode, option, gradients):
    how = {"antialias": True} if option == "antialias" else {"missing": "ignore"}
    for shape, boundary in itertools.product(
        [(1, 1, 30, 41), (2, 3, 80, 160), (1, 60, 81, 4), (4, 20, 30, 64)], ("zeros", "reflection")
    ):
        last = shape[-1] == 4 or shape[1] == 20
        image, axis = np.ones(shape, dtype), {"channel_axis": -1 if last else 1}
        if option == "missing":
            image[0, 0, 0, 0] = np.nan
        for size in ((5, 4), (50, 70), (90, 111)):
            line, column = [np.linspace(-1, 1, n, dtype="f4") for n in size[::-1]]
            grid = np.stack(np.meshgrid(line, column), -1)[None]
            grid = np.repeat(grid, shape[0], 0) if boundary == "zeros" else grid
            out = gridsample.grid_sample(image, grid, mode, boundary, **how, **axis)
            theta, size = np.eye(2, 3, dtype="f4")[None], (1, 1, *size)
            turned = gridsample.affine_sample(image, theta, size, mode, boundary, **how, **axis)
            if gradients:
                gridsample.grid_sample_vjp(out, image, grid, mode, boundary, **how, **axis)
                gridsample.affine_sample_vjp(
                    turned, image, theta, size, mode, boundary, **how, **axis
                )
        if option == "missing":
            gridsample.interpolate(image, (20, 30), mode=mode, **how, **axis)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "option", "mode", "gradients"),
    [
        ("float32", "antialias", "bilinear", False),
        ("float32", "antialias", "bicubic", True),
        ("uint8", "antialias", "bilinear", False),
        ("uint8", "antialias", "nearest", False),
        ("uint8", "antialias", "label", False),
        ("float32", "missing", "bilinear", True),
        ("float32", "missing", "bicubic", False),
    ],
)
def test_options_that_are_covered_need_no_other_kernels(
    tmp_path: Path, dtype: str, option: str, mode: str, gradients: bool
) -> None:
    output = run(
        f"""{COLLECT}{OPTIONAL}
from gridsample.kernels.cpu import footprints
driver = footprints.driver

def noted(*arguments):
    needed.add(arguments)
    return driver(*arguments)

footprints.driver = noted
how = [{dtype!r}], [2], [{mode!r}], {gradients}, False, ["", {option!r}]
covered = kernels_of(lambda: make(*how))
wanted = kernels_of(lambda: optional_calls({dtype!r}, {mode!r}, {option!r}, {gradients}))
for one in wanted - covered:
    print("not covered:", one)
print(len(wanted) > 4)
""",
        tmp_path,
    )
    assert output == "True\n"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_what_was_warmed_up_compiles_nothing(tmp_path: Path) -> None:
    warm = "print(gridsample.warmup('float32', 2, 'nearest', processes=2).compiled)"
    assert int(run(warm, tmp_path)) == len(list(tmp_path.glob("*.kernel"))) > 8
    run(
        """
calls('float32', 'float32', 'nearest', False)
from gridsample.kernels.compile.cache import tally
assert tally["loaded"] and not tally["compiled"]
""",
        tmp_path,
    )
    assert int(run(warm, tmp_path)) == 0


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One layout of images, so that little is compiled."""
    monkeypatch.setattr(warming, "LAYOUTS", ((2, False),))


@pytest.mark.usefixtures("few")
def test_progress_and_the_folder() -> None:
    shares: list[float] = []
    done = gridsample.warmup("float32", 2, "nearest", progress=shares.append)
    assert str(done.folder) == folders.writable()
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert done.seconds > 0
    assert gridsample.warmup("float32", 2, "nearest").compiled == 0


@pytest.mark.usefixtures("few")
def test_other_processes_share_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list(warming.calls_for(["float32"], [2], ["nearest"], False, False))
    assert [one.function for one in calls] == ["grid_sample", "affine_sample", "interpolate"]
    shares: list[float] = []
    with monkeypatch.context() as patch:
        patch.setattr(warming, "make", lambda call: 1)
        alone = gridsample.warmup("float32", 2, "nearest", processes=1, progress=shares.append)
        assert alone.compiled == 3
        assert shares == [1 / 3, 2 / 3, 1]

        def share_out(calls: list[warming.Call], processes: int, report: Any) -> int:
            assert (len(calls), processes) == (2, 4)
            report(0.9)
            return 5

        patch.setattr(warming, "share_out", share_out)
        shares.clear()
        done = gridsample.warmup("float32", 2, "nearest", processes=4, progress=shares.append)
        assert done.compiled == 1 + 5 + 2
        assert shares == [0.9, 0.9, 0.9, 1]
    shares.clear()
    assert warming.share_out(calls, 2, shares.append) >= 0
    assert len(shares) == 3
    assert shares == sorted(shares)


@pytest.mark.parametrize("program", ["/bin/false", "", "/no/such/program"])
def test_what_others_cannot_do_is_left_to_us(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(warming.sys, "executable", program)
    calls = list(warming.calls_for(["float32"], [2], ["nearest"], False, False))
    assert warming.share_out(calls, 2, lambda share: None) == 0


def test_modes_are_those_of_either_function() -> None:
    def functions(mode: str) -> set[str]:
        return {call.function for call in warming.calls_for(["uint8"], [2], [mode], False, False)}

    assert functions("area") == {"interpolate"}
    assert functions("spline5") == {"interpolate", "grid_sample", "affine_sample"}
    assert functions("bicubic") == {"interpolate", "grid_sample", "affine_sample"}


def test_what_no_image_has_is_left_out() -> None:
    def kinds(dtype: str, mode: str, option: str) -> set[str]:
        return {
            call.option for call in warming.calls_for([dtype], [2], [mode], True, False, [option])
        }

    assert kinds("float32", "label", "") == set()
    assert kinds("int16", "label", "antialias") == {"antialias"}
    assert kinds("int16", "bilinear", "missing") == kinds("int16", "label", "missing") == set()
    assert kinds("float32", "spline3", "missing") == set()
    assert kinds("complex64", "bilinear", "missing") == {"missing"}


REFUSED: list[tuple[type[Exception], dict[str, Any], str]] = [
    (ValueError, {"ranks": 4}, "ranks must be 1, 2 or 3, got 4"),
    (ValueError, {"modes": "quartic"}, "mode 'quartic' is not known"),
    (ValueError, {"dtypes": "float33"}, "dtypes must be names of NumPy's types, got 'float33'"),
    (ValueError, {"processes": 0}, "processes must be at least 1, got 0"),
    (TypeError, {"dtypes": "datetime64"}, "input has dtype datetime64"),
]


@pytest.mark.parametrize(("kind", "options", "message"), REFUSED)
def test_what_there_is_no_kernel_for_is_refused(
    kind: type[Exception], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(kind, match=message):
        gridsample.warmup(**options)


# The command --------------------------------------------------------------------------------------


def command(*words: str) -> int:
    return cli.main(["warmup", *words])


@pytest.mark.usefixtures("few")
def test_the_command_says_where_the_kernels_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--dtype", "float32", "--mode", "nearest", "--processes", "1") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("compiled ")
    assert second == f"kernels are in {folders.writable()}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rank", "2,4"], "ranks must be 1, 2 or 3, got 4"),
        (["--rank", "two"], "expected numbers like 2,3, got 'two'"),
        (["--mode", "nearest,quartic"], "quartic"),
        (["--dtype", "float33"], "float33"),
        (["--processes", "0"], "processes must be at least 1"),
    ],
)
def test_the_command_refuses_in_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert command(*words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_the_command_fails_where_nothing_can_be_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "writable", lambda: "")
    monkeypatch.setattr(warming, "make", lambda call: 1)
    assert command() == 2
    assert "set GRIDSAMPLE_CACHE_DIR" in capsys.readouterr().err
