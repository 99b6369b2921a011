"""The function that XLA calls on the CPU: machine code that runs prepared launches.

XLA calls typed FFI handlers with the address of a call frame (`xla/ffi/api/c_api.h`, which jaxlib
contains).  This handler is written in the vector language.  Its only attribute is the address of a
`LAUNCH`: the handler enters the addresses of XLA's buffers into the record that a program of
`gridsample.kernels.run` takes, and runs the program, in the calling thread and, for several tasks,
on XLA's own threads.  No Python runs, and nothing is copied.

The calling thread never waits for a thread that has not started, so it cannot wait for itself:
helpers that start late find no task left.  The last thread frees the record that they share.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import pathlib
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gridsample.kernels import forks
from gridsample.kernels import threads as pool
from gridsample.kernels.caches import CACHES, whole_lines
from gridsample.kernels.run import HEAD, Launch
from gridsample.kernels.vector import (
    Function,
    Pointer,
    Program,
    Record,
    StoredRecord,
    Value,
    compile,
)

# The major version of the interface that this module is written for.
MAJOR = 0
# Places in XLA's structures, in bytes, that no minor version has changed.
EXTENSION, API, CONTEXT, STAGE, ARGUMENTS, RESULTS, ATTRIBUTES = 8, 16, 24, 32, 72, 112, 160
EXTENSION_TYPE, METADATA, METADATA_VERSION, METADATA_TYPE = 8, 24, 24, 40
BUFFER_DATA, SCALAR_VALUE, API_FUNCTIONS = 24, 8, 48
METADATA_EXTENSION, EXECUTE = 1, 3
# Functions of the interface that the handler calls.
SCHEDULE, NUMBER_OF_THREADS = "XLA_FFI_ThreadPool_Schedule", "XLA_FFI_ThreadPool_NumThreads"
DESTROY = "XLA_FFI_Error_Destroy"

# A launch, which XLA's programs refer to for as long as the process lives.
LAUNCH = Record(
    next="int64",  # the address of the launch to run after this one, or 0
    program="int64",
    settings="int64",
    tasks="int64",
    threads="int64",  # their maximum number
    scratch="int64",  # the result that is scratch memory, or -1
    scratch_bytes="int64",  # the part of each thread
    places="*int64",  # of each array: a kind of place, its number, and an offset
    array_count="int64",
    cleared="*int64",  # results that are set to 0 before: the number of each, and its bytes
    cleared_count="int64",
    condition="int64",  # bits, of which reports must have one; 0 to run in any case
    report="int64",  # the result with a word of bits from each task
    report_words="int64",  # the number of words
)
ARGUMENT, RESULT, ADDRESS = range(3)
# What threads share: counters, and then the record of the program (`run.HEAD`).
OWNERS, RUNNING, PROGRAM, SHARED_HEAD = 0, 1, 2, 8
MAX_ARRAYS = 24
SLOT = 8


class Interface(NamedTuple):
    """What is read from jaxlib's header.

    Attributes:
        version: the version of the interface, major and minor.
        functions: the place of each function in the table of the interface, in bytes.
        has_state_type: whether metadata contain the type of a state.
    """

    version: tuple[int, int]
    functions: dict[str, int]
    has_state_type: bool


def parse_header(text: str) -> Interface:
    """Read the version and the functions of the interface from its header.

    Raises:
        ValueError: they are not there.
    """
    version = [re.search(rf"#define XLA_FFI_API_{part} (\d+)", text) for part in ("MAJOR", "MINOR")]
    names = re.findall(r"_XLA_FFI_API_STRUCT_FIELD\((XLA_FFI_\w+)\);", text)
    missing = {SCHEDULE, NUMBER_OF_THREADS, DESTROY} - {*names}
    if missing or None in version:
        raise ValueError(f"its header lacks {sorted(missing) or 'a version'}")
    major, minor = (int(match[1]) for match in version if match)
    functions = {name: API_FUNCTIONS + SLOT * k for k, name in enumerate(names)}
    return Interface((major, minor), functions, "state_type_id" in text)


# Machine code -------------------------------------------------------------------------------------


class Writer:
    """Writes the handler.

    Attributes:
        function: the function that is written.
        interface: what is known about XLA.
        libc: the addresses of malloc, free and sched_yield.
        task: the address of the function that XLA's threads run.
    """

    def __init__(self, name: str, interface: Interface, libc: dict[str, int], task: int) -> None:
        self.function = Function(name, 1)
        self.interface, self.libc, self.task = interface, libc, task
        self.frame = Pointer(self.function.argument, "int64")
        self.launch = self.function.scratch("int64", 1)  # the address of the current launch
        self.report_bits = self.function.scratch("int64", 1)  # the bits of all reports

    def constant(self, value: int) -> Value:
        """A constant."""
        return self.function.constant(value, "int64")

    def follow(self, memory: Pointer, *offsets: int) -> Pointer:
        """Read addresses, each at some bytes from the one before it."""
        for offset in offsets:
            memory = self.function.at_address(memory.load(offset // SLOT), "int64")
        return memory

    def write(self) -> Function:
        """Write the handler: answer a query of metadata, and run launches when XLA executes."""
        function, frame = self.function, self.frame
        with function.when(frame.load(EXTENSION // SLOT) != 0):
            extension = self.follow(frame, EXTENSION)
            kind = extension.cast("int32").load(EXTENSION_TYPE // 4)
            with function.when(kind == METADATA_EXTENSION):
                self.answer(self.follow(extension, METADATA))
        stage = frame.cast("int32").load(STAGE // 4)
        # Other stages, and queries, have no launch to run.
        self.launch.store(self.constant(0))
        self.report_bits.store(self.constant(0))
        with function.when(stage == EXECUTE), function.when(frame.load(CONTEXT // SLOT) != 0):
            value = self.follow(frame, ATTRIBUTES, 0, SCALAR_VALUE)
            self.launch.store(value.load())
        with function.until(lambda: self.launch.load() == 0):
            launch = LAUNCH.read(function.at_address(self.launch.load(), "int64"))
            with function.when(
                (launch.condition == 0) | ((launch.condition & self.report_bits.load()) != 0)
            ):
                self.run(launch)
                self.collect(launch)
            self.launch.store(launch.next)
        function.result = self.constant(0)  # no error
        return function

    def answer(self, metadata: Pointer) -> None:
        """Answer a query of metadata with the version of the interface."""
        words = metadata.cast("int32")
        for k, part in enumerate((*self.interface.version, 0)):  # no traits
            words.store(self.function.constant(part, "int32"), METADATA_VERSION // 4 + k)
        if self.interface.has_state_type:
            metadata.store(self.constant(0), METADATA_TYPE // SLOT)

    def run(self, launch: Any) -> None:
        """Run one launch."""
        function, task = self.function, self.task
        stack = function.scratch("int64", SHARED_HEAD + len(HEAD) + MAX_ARRAYS)
        shared_address, helpers = function.scratch("int64", 1), function.scratch("int64", 1)
        shared_address.store(function.address_of(stack))
        helpers.store(self.constant(0))
        with function.when(launch.threads > 1):
            self.prepare_helpers(launch, shared_address, helpers)
        shared = function.at_address(shared_address.load(), "int64")
        self.clear(launch)
        self.fill(launch, shared, helpers.load())
        address = shared_address.load()
        with function.loop(0, helpers.load()):
            failed = self.call_api(SCHEDULE, self.constant(task), address)
            with function.when(failed):
                shared.at(OWNERS).fetch_add(-1, ordered=True)
        function.invoke(launch.program, function.address_of(shared.at(SHARED_HEAD)))
        with function.when(helpers.load() > 0):
            running = shared.at(RUNNING)
            with function.until(lambda: running.fetch_add(0, ordered=True) == 0):
                function.invoke(self.libc["sched_yield"])
            release(function, shared, self.libc)

    def collect(self, launch: Any) -> None:
        """Add the bits that the tasks of a launch report."""
        with self.function.loop(0, launch.report_words) as loop:
            report = self.function.at_address(self.buffer(RESULT, launch.report), "int64")
            self.report_bits.store(self.report_bits.load() | report.load(loop.index))

    def call_api(self, name: str, *arguments: Value) -> Value:
        """Call a function of XLA's, and return whether it failed."""
        function = self.function
        structure = function.scratch("int64", 3 + len(arguments))
        size, context = SLOT * (3 + len(arguments)), self.frame.load(CONTEXT // SLOT)
        for k, slot in enumerate((self.constant(size), self.constant(0), context, *arguments)):
            structure.store(slot, k)
        code = self.follow(self.frame, API).load(self.interface.functions[name] // SLOT)
        error = function.invoke(code, function.address_of(structure))
        with function.when(error != 0, rare=True):
            wrapped = function.scratch("int64", 3)
            for k, slot in enumerate((self.constant(3 * SLOT), self.constant(0), error)):
                wrapped.store(slot, k)
            code = self.follow(self.frame, API).load(self.interface.functions[DESTROY] // SLOT)
            function.invoke(code, function.address_of(wrapped))
        return error != 0

    def prepare_helpers(self, launch: Any, shared_address: Pointer, helpers: Pointer) -> None:
        """Count the threads that can help, and allocate what is shared with them."""
        function = self.function
        count = function.scratch("int64", 1)
        count.store(self.constant(1))
        self.call_api(NUMBER_OF_THREADS, function.address_of(count))
        max_helpers = launch.threads.minimum(count.load()) - 1
        with function.when(max_helpers > 0):
            size = self.constant(SLOT * (SHARED_HEAD + len(HEAD) + MAX_ARRAYS))
            memory = function.invoke(self.libc["malloc"], size)
            with function.when(memory != 0):
                shared_address.store(memory)
                helpers.store(max_helpers)

    def buffer(self, kind: int, number: Value) -> Value:
        """The address of an argument's or a result's data."""
        buffers = self.follow(self.frame, ARGUMENTS if kind == ARGUMENT else RESULTS)
        buffer = self.function.at_address(buffers.load(number), "int64")
        return buffer.load(BUFFER_DATA // SLOT)

    def clear(self, launch: Any) -> None:
        """Set results to 0."""
        function, lanes = self.function, 32
        zero = function.constant(0, "uint8")
        with function.loop(0, launch.cleared_count) as loop:
            result, size = (launch.cleared.load(loop.index * 2 + k) for k in range(2))
            memory = function.at_address(self.buffer(RESULT, result), "uint8")
            memory.fill(zero, size, lanes)

    def fill(self, launch: Any, shared: Pointer, helpers: Value) -> None:
        """Write what threads share: counters, the head of the program's record, and addresses."""
        function, zero = self.function, self.constant(0)
        shared.store(helpers + 1, OWNERS)
        shared.store(zero, RUNNING)
        shared.store(launch.program, PROGRAM)
        scratch = function.scratch("int64", 1)
        scratch.store(zero)
        with function.when(launch.scratch >= 0):
            memory = self.buffer(RESULT, launch.scratch)
            scratch.store((memory + (CACHES.line - 1)) & -CACHES.line)
        head = {"taken": zero, "working": zero, "first": zero, "last": launch.tasks}
        head |= {"settings": launch.settings, "scratch": scratch.load()}
        head["scratch_bytes"] = launch.scratch_bytes
        for k, name in enumerate(HEAD):
            shared.store(head[name], SHARED_HEAD + k)
        with function.loop(0, launch.array_count) as loop:
            kind, number, offset = (launch.places.load(loop.index * 3 + k) for k in range(3))
            address = function.scratch("int64", 1)
            address.store(number)
            for buffers in (ARGUMENT, RESULT):
                with function.when(kind == buffers):
                    address.store(self.buffer(buffers, number) + offset)
            shared.store(address.load(), loop.index + (SHARED_HEAD + len(HEAD)))


def release(function: Function, shared: Pointer, libc: dict[str, int]) -> None:
    """Give up what threads share; the last one frees it."""
    owners = shared.at(OWNERS).fetch_add(-1, ordered=True)
    with function.when(owners == 1):
        function.invoke(libc["free"], function.address_of(shared))


def write_task(libc: dict[str, int]) -> Function:
    """Write the function that XLA's threads run."""
    function = Function("xla_task", 1)
    shared = Pointer(function.argument, "int64")
    shared.at(RUNNING).fetch_add(1, ordered=True)
    head = function.address_of(shared.at(SHARED_HEAD))
    function.invoke(shared.load(PROGRAM), head)
    shared.at(RUNNING).fetch_add(-1, ordered=True)
    release(function, shared, libc)
    return function


# Registration -------------------------------------------------------------------------------------

# XLA's programs contain addresses of launches.  Another process, which may load them from a cache,
# must not find the handler under the same name.
NAME = f"gridsample_cpu_{os.getpid()}_{secrets.token_hex(8)}"
_code: list[Program] = []  # XLA calls it for as long as the process lives


@functools.cache
def is_available() -> bool:
    """Whether XLA has the handler; it is compiled and registered on the first call.

    If this JAX or this system is not known, one warning is logged.
    """
    try:
        register()
    except (OSError, ValueError, AttributeError) as error:
        logging.getLogger("gridsample").warning(
            "JAX arrays on the CPU are sampled by XLA's operations, without the CPU kernels: %s",
            error,
        )
        return False
    return True


def register() -> None:
    """Compile and register the handler.

    Raises:
        ValueError: the version of the interface, or the system, is not known.
        OSError: jaxlib's header cannot be read.
    """
    if os.name != "posix" or sys.maxsize < 1 << 32 or sys.byteorder != "little":
        raise ValueError(f"the system is {sys.platform}, where this has not been tried")
    header = pathlib.Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    interface = parse_header(header.read_text())
    if interface.version[0] != MAJOR:
        raise ValueError(f"the major version of XLA's interface is {interface.version[0]}")
    names = ("malloc", "free", "sched_yield")
    library = ctypes.CDLL(None)
    libc = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names}
    with forks.held():
        task = compile(write_task(libc))
        code = compile(Writer("xla_handler", interface, libc, task.address).write())
        _code.extend((task, code))
    handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(code.address)
    jax.ffi.register_ffi_target(NAME, jax.ffi.pycapsule(handler), platform="cpu")


# Launches -----------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where an array of a program is.

    Attributes:
        kind: whether it is in an argument, in a result, or at an address.
        number: the number of the argument or the result, or the address.
        offset: how many bytes after the beginning of the argument or the result it begins.
    """

    kind: int
    number: int
    offset: int = 0


class LaunchStep(NamedTuple):
    """A launch and the places of its arrays.

    Attributes:
        launch: the launch.
        places: an argument, a result, constants, or None, for the arrays of its program, by name;
            there may be others.
        cleared: the bytes of results that are set to 0 before, by their numbers.
        report: the number of the result in which each task reports bits, if they do.
        condition: bits, of which earlier steps must have reported one for this one to run; 0 if it
            runs in any case.
    """

    launch: Launch
    places: Mapping[str, Place | np.ndarray[Any, Any] | None]
    cleared: dict[int, int]
    report: int | None = None
    condition: int = 0


def threads_of(step: LaunchStep) -> int:
    """Return the maximum number of threads of a step."""
    return max(1, min(step.launch.threads, step.launch.tasks, pool.cores()))


def scratch_of(steps: Sequence[LaunchStep]) -> int:
    """Return the bytes of scratch memory that steps need, each after the other."""
    sizes = [whole_lines(step.launch.scratch) * threads_of(step) for step in steps]
    return max(sizes) + CACHES.line if any(sizes) else 0


_references: list[Any] = []  # what XLA's programs refer to


def store_launches(steps: Sequence[LaunchStep], scratch: int) -> int:
    """Store launches that are never freed, and return the address of the first.

    scratch: the number of the result that is scratch memory.
    """
    next_launch = 0
    for step in reversed(steps):
        record = record_of(step, scratch, next_launch)
        _references.append((step, record))
        next_launch = record.address
    return next_launch


def record_of(step: LaunchStep, scratch: int, next_launch: int) -> StoredRecord:
    """Return the record of a step."""
    launch, names = step.launch, step.launch.program.arrays
    launch.check([name for name, place in step.places.items() if place is not None])
    if len(names) > MAX_ARRAYS:
        raise TypeError(f"a launch takes up to {MAX_ARRAYS} arrays; got {len(names)}")
    places = np.empty((len(names), 3), np.int64)
    for row, name in zip(places, names, strict=True):
        place = step.places[name]
        if isinstance(place, Place):
            row[...] = place
        elif place is not None:
            row[...] = ADDRESS, place.ctypes.data, 0
    return LAUNCH.pack(
        next=next_launch,
        program=launch.program.address,
        settings=launch.settings.address,
        tasks=launch.tasks,
        threads=threads_of(step),
        scratch=scratch if launch.scratch else -1,
        scratch_bytes=whole_lines(launch.scratch),
        places=places,
        array_count=len(places),
        cleared=np.array([*step.cleared.items()], np.int64).reshape(-1, 2),
        cleared_count=len(step.cleared),
        condition=step.condition,
        report=step.report or 0,
        report_words=0 if step.report is None else launch.tasks,
    )
