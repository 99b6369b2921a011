"""From LLVM's language to machine code, with llvmlite.

A program compiles in 10 to 100 ms, so nothing is stored on disk.  Programs are kept in memory
(`Program` holds what its code needs) and freed some time after nobody refers to them any more.

Environment variables, read when the first program is compiled:

* ``GRIDSAMPLE_CPU``: compile for this generation of processors, such as ``x86-64-v3`` (`LEVELS`),
  instead of the one that runs the program.
* ``GRIDSAMPLE_OPTIMIZATION``: LLVM's level of optimization, 0 to 3; without it, 2.
* ``GRIDSAMPLE_INTERPRET``: let Python run programs (`gridsample.kernels.vector.interpreter`).
* ``GRIDSAMPLE_SHOW_KERNELS``: a folder in which each program's text (``.ll``) and assembly (``.s``)
  are stored for readers.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import pathlib
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, cast

import llvmlite.binding as llvm

from gridsample.kernels import forks
from gridsample.kernels.vector.kinds import kind_of

# The processors that GRIDSAMPLE_CPU names, and those of their features that make a difference here.
LEVELS = {
    "generic": (),
    "x86-64": (),
    "x86-64-v2": (),
    "x86-64-v3": ("avx2", "fma", "f16c"),
    "x86-64-v4": ("avx2", "fma", "f16c", "avx512bw", "avx512vl"),
}


class Target(NamedTuple):
    """A processor.

    Attributes:
        triple: LLVM's name of its architecture and system.
        cpu: LLVM's name of the processor.
        features: what it has and lacks, as LLVM spells it: "+avx2,-avx512f".  The name implies some
            features, but those that this class asks for must be listed.
    """

    triple: str
    cpu: str
    features: str = ""

    def has(self, *features: str) -> bool:
        """Whether all these features are listed."""
        listed = self.features.split(",")
        return all(f"+{feature}" in listed for feature in features)

    @property
    def bits(self) -> int:
        """The width of its vector registers."""
        if self.has("avx512bw", "avx512vl"):
            return 512
        return 256 if self.has("avx2", "fma") else 128

    @functools.cache  # noqa: B019
    def lanes(self, kind: str) -> int:
        """Return how many numbers of a kind fill a vector register."""
        return self.bits // kind_of(kind).bits

    @property
    def gathers_fast(self) -> bool:
        """Whether a gather instruction takes less time than a load for each lane.

        It does on Intel's processors since Sapphire Rapids, which are those that calculate with
        float16.  Older ones must be protected against leaks of data by gathers, which makes these
        slow, and AMD's read each lane by itself.
        """
        return self.has("avx512bw", "avx512fp16")

    @property
    def fuses(self) -> bool:
        """Whether one instruction multiplies and adds, with one rounding."""
        return self.triple.startswith(("aarch64", "arm64")) or self.has("fma")

    @property
    def converts_halves(self) -> bool:
        """Whether one instruction converts a vector of float16."""
        return self.triple.startswith(("aarch64", "arm64")) or self.has("f16c")


def llvm_version() -> int:
    """The major version of LLVM."""
    version: int = llvm.llvm_version_info[0]
    return version


@functools.cache
def host() -> Target:
    """Describe the processor that programs are compiled for.

    Raises:
        ValueError: GRIDSAMPLE_CPU names one that is not known, or that can more than this one.
    """
    initialize()
    features = llvm.get_host_cpu_features().flatten()
    machine = Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), features)
    name = os.environ.get("GRIDSAMPLE_CPU")
    if not name:
        return machine
    names = [level for level in LEVELS if "x86" not in level or machine.triple.startswith("x86_64")]
    if name not in names:
        raise ValueError(f"GRIDSAMPLE_CPU is {name!r}; accepted: {', '.join(names)}")
    missing = [feature for feature in LEVELS[name] if not machine.has(feature)]
    if missing:
        raise ValueError(f"GRIDSAMPLE_CPU is {name!r}, but this processor lacks {missing}")
    return Target(machine.triple, name, ",".join(f"+{feature}" for feature in LEVELS[name]))


@functools.cache
def initialize() -> None:
    """Load the code generator for this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def initialize_all() -> None:
    """Load the code generators for all processors."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def target_machine(target: Target, level: int = 2) -> Any:
    """Return LLVM's code generator for a processor.

    Args:
        target: the processor.
        level: how much to optimize, from 0 to 3.  Level 3 gives the code of level 2, and level 1
            compiles little faster.  Level 0 compiles in less than half the time; its code computes
            the same bits, but can take more than twice as long.
    """
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=level
    )


def optimization() -> int:
    """The level of optimization of programs that are run.

    Raises:
        ValueError: GRIDSAMPLE_OPTIMIZATION is none.
    """
    level = os.environ.get("GRIDSAMPLE_OPTIMIZATION") or "2"
    if level not in ("0", "1", "2", "3"):
        raise ValueError(f"GRIDSAMPLE_OPTIMIZATION is {level!r}; accepted: 0, 1, 2, 3")
    return int(level)


def parse(text: str, target: Target, machine: Any) -> Any:
    """Return a module of LLVM's for a program's text."""
    module = llvm.parse_assembly(f'target triple = "{target.triple}"\n{text}')
    module.data_layout = str(machine.target_data)
    return module


def assembly(function: Any, target: Target) -> str:
    """Compile a `Function` for any processor that LLVM knows; return the assembly for readers."""
    with forks.held():
        initialize_all()
        machine = target_machine(target)
        text: str = machine.emit_assembly(parse(function.text(target.bits), target, machine))
        return text


@contextlib.contextmanager
def strength_reduction(wanted: bool) -> Iterator[None]:
    """Let LLVM replace multiplications in loops by additions, or not.

    LLVM has a switch of the process for it.  Whoever compiles holds `forks.held`, so that one
    thread at a time turns it.
    """
    if not wanted:
        llvm.set_option("gridsample", "-disable-lsr=true")
    try:
        yield
    finally:
        if not wanted:
            llvm.set_option("gridsample", "-disable-lsr=false")


class Engine:
    """LLVM's holder of machine code: several programs share one, because one takes 1 MB."""

    # Programs per engine.  They are freed together, when none of them is referred to any more.
    SHARED = 64
    current: ClassVar[Engine | None] = None  # to which programs are added
    # LLVM's parts of engines that nobody refers to.  The thread that happens to collect an engine
    # may hold any lock, so it must not wait for another one that compiles.
    unused: ClassVar[deque[Any]] = deque()

    def __init__(self) -> None:
        level = optimization()
        if level == 0:
            # Otherwise, LLVM would look at one instruction at a time where that is possible, and
            # leave products and sums apart which it fuses elsewhere.
            llvm.set_option("gridsample", "-fast-isel=false")
        self.machine = target_machine(host(), level)
        self.engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), self.machine)
        self.programs = 0
        # When Python ends, the system frees everything.
        weakref.finalize(self, self.unused.append, self.engine).atexit = False

    def add(self, name: str, text: str) -> int:
        """Compile a function and return the address of its machine code."""
        module = parse(text, host(), self.machine)
        code = self.machine.emit_object(module)
        show(name, text, lambda: self.machine.emit_assembly(module))
        self.engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self.engine.finalize_object()
        self.programs += 1
        address: int = self.engine.get_function_address(name)
        return address

    @classmethod
    def with_room(cls) -> Engine:
        """Free unused engines, and return one to which a program may be added."""
        while cls.unused:
            cls.unused.popleft().close()
        if cls.current is None or cls.current.programs >= cls.SHARED:
            cls.current = cls()
        return cls.current


def show(name: str, text: str, assembly: Callable[[], str]) -> None:
    """Store a program for readers, if the environment asks for it."""
    folder = os.environ.get("GRIDSAMPLE_SHOW_KERNELS")
    if folder:
        path = pathlib.Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{name}.ll").write_text(text)
        (path / f"{name}.s").write_text(assembly())


_numbers = itertools.count()


class Program:
    """Compiled machine code.

    Attributes:
        address: the address of the code, a C function ``void (*)(void *arguments)``.
        call: the function for Python; it takes the address of the arguments, and runs without the
            interpreter's lock.
        arrays: the names of the arrays that it takes (`Function.arrays`).
    """

    def __init__(
        self, name: str, text: str, arrays: tuple[str, ...], reduces_strength: bool
    ) -> None:
        self.arrays = arrays
        with forks.held(), strength_reduction(reduces_strength):
            engine = Engine.with_room()
            self.address = engine.add(name, text)
        call: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.address)
        call.engine = engine  # whoever holds the function keeps its machine code
        self.call: Callable[[int], None] = call


def compile(function: Any, reduces_strength: bool = True) -> Program:
    """Compile a `Function`; its name is made unique.

    While GRIDSAMPLE_INTERPRET is set, the result is a `PythonProgram`, which has the same
    attributes, and nothing is compiled.

    Args:
        function: the function.
        reduces_strength: whether LLVM replaces multiplications in loops by additions.  This takes
            a quarter to a half of the time of a compilation, and makes loops with many addresses
            slower, for which it runs out of registers; only short loops over channels gain.
    """
    if os.environ.get("GRIDSAMPLE_INTERPRET"):
        return cast(Program, function.in_python())
    number = next(_numbers)
    text = function.text(host().bits)
    name = f"{function.name}_{number}"
    text = text.replace(f"@{function.name}(", f"@{name}(", 1)
    return Program(name, text, function.arrays, reduces_strength)
