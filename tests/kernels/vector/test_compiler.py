"""Machine code for other processors, many threads, forks, and the memory of programs."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import cases
import numpy as np
import pytest
from vector_programs import COUNT, counted, counter, run

from gridsample.kernels import forks
from gridsample.kernels.vector import (
    Function,
    Record,
    Target,
    assembly,
    compile,
    compiler,
    host,
)

TESTS = Path(__file__).parents[2]
SECONDS = 120


def python(code: str, *options: str, **environment: str) -> str:
    """Run code in a process of its own, which must print no warning; return what it prints."""
    begin = "import gc, os, sys, threading\nfrom vector_programs import *\n"
    done = subprocess.run(
        [sys.executable, *options, "-c", begin + textwrap.dedent(code)],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


# Processors ---------------------------------------------------------------------------------------

LEVELS = [name for name, features in compiler.LEVELS.items() if host().has(*features)]
SAMPLE = """
    test_values.py::test_quotients_and_remainders_of_integers
    test_values.py::test_functions_of_floats
    test_values.py::test_bounds_and_choices
    test_values.py::test_mul_add_rounds_once_if_the_processor_can
    test_values.py::test_lanes_are_reduced
    test_conversions.py::test_saturation
    test_conversions.py::test_every_16_bit_float_is_widened
    test_conversions.py::test_floats_are_narrowed
    test_memory.py::test_a_gather_reads_only_where_its_condition_holds
    test_formulas.py::test_positions_are_folded
"""


@pytest.mark.parametrize(
    "level", cases.slow_after(1, [name for name in LEVELS if name in ("x86-64", "x86-64-v3")])
)
def test_results_match_on_every_vector_level(level: str) -> None:
    folder = Path(__file__).parent
    chosen = [str(folder / name) for name in SAMPLE.split()]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider",
          "-k", "(16 and not 16-) or (not 1 and not 4 and not 8 and not 16)", *chosen],
        env={**os.environ, "GRIDSAMPLE_CPU": level}, cwd=TESTS.parent,
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 20


@pytest.mark.parametrize("level", LEVELS)
def test_levels_are_described(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRIDSAMPLE_CPU", level)
    target = host.__wrapped__()
    assert (target.triple, target.cpu, target.gathers_fast) == (host().triple, level, False)
    if level.startswith("x86"):
        wide, halves = {"x86-64-v3": (256, True), "x86-64-v4": (512, True)}.get(level, (128, False))
        assert (target.bits, target.converts_halves) == (wide, halves)


def test_unknown_levels_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRIDSAMPLE_CPU", "skylake")
    with pytest.raises(ValueError, match="GRIDSAMPLE_CPU is 'skylake'; accepted: generic"):
        host.__wrapped__()
    monkeypatch.setenv("GRIDSAMPLE_CPU", "future")
    monkeypatch.setitem(compiler.LEVELS, "future", ("telepathy",))
    with pytest.raises(ValueError, match=r"'future', but this processor lacks \['telepathy'\]"):
        host.__wrapped__()


def test_levels_of_optimization(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRIDSAMPLE_OPTIMIZATION")
    assert compiler.optimization() == 2
    monkeypatch.setenv("GRIDSAMPLE_OPTIMIZATION", "1")
    assert compiler.optimization() == 1
    monkeypatch.setenv("GRIDSAMPLE_OPTIMIZATION", "fast")
    with pytest.raises(ValueError, match="GRIDSAMPLE_OPTIMIZATION is 'fast'; accepted: 0, 1, 2, 3"):
        compiler.optimization()


def everything(target: Target) -> Function:
    """A program with all operations for which processors have different instructions."""
    lanes = target.bits // 32
    function = Function("everything", lanes, half_conversions=target.converts_halves)
    record = Record(half="*float16", out="*uint8", places="*int32", count="int64")
    arguments = function.arguments(record)
    with function.loop(0, arguments.count, lanes) as loop:
        a = arguments.half.load(loop.index, lanes).to("float32")
        b = arguments.half.gather(arguments.places.load(loop.index, lanes)).to("float32")
        c = np.minimum(np.floor(a) * b + np.rint(b), abs(a).sqrt())
        with function.when((c > 0).any()):
            arguments.out.store(c.saturate("uint8"), loop.index)
        arguments.half.store(c.to("float16"), loop.index)
        total = a.to("float64").mul_add(2.0, c.to("float64"))
        with function.exactly():
            total = total.sum()
        arguments.out.cast("int64").store(total.saturate("int64"), loop.index)
    arguments.out.at(1).cast("int64").fetch_add(1)
    return function


@pytest.mark.parametrize(
    ("target", "patterns"),
    [
        (Target("aarch64-unknown-linux-gnu", "neoverse-n1"), "fmla frintm fcvtl fcvtn ldadd"),
        (Target("arm64-apple-darwin", "apple-m1"), "fmla frintm fcvtl fcvtn ldadd"),
        (
            Target("x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2,+fma,+f16c"),
            "vfmadd.*ymm vroundps vcvtph2ps vcvtps2ph lock",
        ),
        (
            Target("x86_64-pc-windows-msvc", "x86-64-v4", "+avx2,+fma,+f16c,+avx512bw,+avx512vl"),
            "vfmadd.*zmm vcvtph2ps.*zmm vcvtps2ph",
        ),
    ],
    ids=lambda value: value.triple if isinstance(value, Target) else "",
)
def test_assembly_for_other_processors(target: Target, patterns: str) -> None:
    text = assembly(everything(target), target)
    for pattern in patterns.split():
        assert re.search(pattern, text), pattern
    # Anything but an instruction would be a call of a function, which may not exist there.
    assert not re.search(r"^\s*(bl|callq?)\s", text, re.MULTILINE)


def test_programs_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "shown"
    monkeypatch.setenv("GRIDSAMPLE_SHOW_KERNELS", str(folder))
    function = counter()
    function.comment("a comment for readers")
    assert counted(compile(function)) == 3
    text, code = sorted(folder.iterdir())
    assert (text.stem, text.suffix, code.suffix) == (code.stem, ".ll", ".s")
    assert "; a comment for readers" in text.read_text()
    assert f"@{text.stem}(" in text.read_text()
    assert f"{text.stem}:" in code.read_text()


# Threads and processes ----------------------------------------------------------------------------


def test_threads_compile_and_call_at_once() -> None:
    wrong: list[object] = []

    def work(start: int) -> None:
        try:
            functions = [compile(counter(start + k)) for k in range(10)]
            for k, program in enumerate(functions):
                wrong.extend([] if counted(program) == 1 + 2 * (start + k) else [(start, k)])
                del compile(counter()).call
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_children_compile_after_a_fork_during_compilation() -> None:
    code = """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # that a process with threads forks
        ended, compiled = threading.Event(), []

        def work():
            while not ended.is_set():
                compiled.append(counted(compile(counter())))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        while not compiled:
            pass
        before = compile(counter(5))
        for _ in range(10):
            child = os.fork()
            if not child:
                right = counted(before) == 11 and counted(compile(counter(7))) == 15
                os._exit(0 if right else 1)
            assert os.waitpid(child, 0)[1] == 0
        count = len(compiled)
        while len(compiled) < count + 5:  # the parent's threads go on
            pass
        ended.set()
        for thread in threads:
            thread.join()
        assert set(compiled) == {3}
        print("done")
    """
    assert python(code) == "done\n"


# Memory -------------------------------------------------------------------------------------------


def test_programs_are_freed() -> None:
    code = """
        import psutil

        def memory():
            return psutil.Process().memory_info().rss

        def many(count):
            for _ in range(count):
                assert counted(compile(counter())) == 3

        many(250)
        before = memory()
        many(550)
        print(memory() - before)
    """
    assert int(python(code)) < 5e6  # 10 MB if nothing were freed


def test_code_lives_as_long_as_its_function() -> None:
    compiler.Engine.current = None
    call = compile(counter(3)).call
    for _ in range(compiler.Engine.SHARED + 1):
        compile(counter())
    gc.collect()
    compile(counter())  # frees what is unused
    out = np.ones(1, np.int64)
    record = COUNT.pack(out=out, amount=2)
    call(record.address)
    assert out[0] == 7


def test_garbage_collection_does_not_wait_for_compilation() -> None:
    compiler.Engine.current = None
    program = compile(counter())
    compiler.Engine.current = None
    stored, collected = threading.Event(), threading.Event()

    def compiling() -> None:
        with forks.held():
            stored.set()
            assert collected.wait(SECONDS)

    thread = threading.Thread(target=compiling)
    thread.start()
    assert stored.wait(SECONDS)
    before = len(compiler.Engine.unused)
    del program
    gc.collect()
    assert len(compiler.Engine.unused) == before + 1
    collected.set()
    thread.join()
    compile(counter())
    assert not compiler.Engine.unused


@pytest.mark.parametrize(
    "leave",
    [
        "sys.keep = program",
        "program.itself = program; Engine.current = None; del program",
        "import atexit; atexit.register(lambda: counted(compile(counter())))",
    ],
)
def test_processes_can_exit_right_after_compiling(leave: str) -> None:
    code = f"""
        from gridsample.kernels.vector.compiler import Engine
        program = compile(counter())
        assert counted(program) == 3
        print("done")
        {leave}
    """
    assert python(code, "-W", "error", "-X", "dev") == "done\n"


def test_strength_reduction_can_be_disabled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The option belongs to the process: it is restored for the next program."""
    monkeypatch.setenv("GRIDSAMPLE_SHOW_KERNELS", str(tmp_path))
    monkeypatch.setenv("GRIDSAMPLE_OPTIMIZATION", "2")
    monkeypatch.setattr(compiler.Engine, "current", None)
    function = Function("strided", lanes=4)
    arguments = function.arguments(COUNT)
    with function.loop(0, 10) as loop:
        element = arguments.out.at(loop.index * arguments.amount)
        element.store(loop.index * arguments.amount)
    texts = []
    for reduces_strength in (True, False, True):
        out = np.full(28, -1)
        run(compile(function, reduces_strength), COUNT, out=out, amount=3)
        np.testing.assert_array_equal(out[::3], np.arange(0, 30, 3))
        (path,) = tmp_path.glob("*.s")
        texts.append(path.read_text().replace(path.stem, ""))
        for path in tmp_path.iterdir():
            path.unlink()
    assert texts[0] == texts[2] != texts[1]
