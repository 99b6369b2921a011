"""Forks while kernels are being loaded or compiled.

A forked child has only the thread that forked.  If another thread was compiling, or importing Numba
or a part of the library that is loaded on first use, the child would wait for that thread's locks
for ever.  So a fork waits until that is done.  If it takes too long, or if the program itself is
compiling with Numba, the child raises an error where it would hang.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

# A fork waits this long for a compilation in another thread, which usually takes a few seconds.
SECONDS = 60.0

MESSAGE = (
    "this process was forked while another thread of its parent was compiling, and cannot load or "
    "compile kernels; call gridsample.warmup() before forking, or start processes with 'spawn'"
)


class Guard:
    """A lock that is held while kernels are loaded or compiled, and during a fork."""

    def __init__(self) -> None:
        """Start with no compilation in progress."""
        self.lock = threading.RLock()
        self.forking = threading.local()
        self.registered = False
        self.lost = False  # this process is a child that was forked during a compilation

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock while loading or compiling; a fork in another thread waits until this ends.

        Raises:
            RuntimeError: this process was forked while its parent compiled.
        """
        if self.lost:
            raise RuntimeError(MESSAGE)
        with self.lock:
            if not self.registered:
                self.registered = True
                self.register()
            yield

    def register(self) -> None:
        """Register the hooks for forks.

        The hooks that are registered last run first.  Other hooks take locks that a compilation
        needs, so ours must run before them.  Those are the hooks of logging and of the executors,
        which compilers import.
        """
        import concurrent.futures.thread  # noqa: F401
        import logging  # noqa: F401

        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self.before,
                after_in_parent=self.after_in_parent,
                after_in_child=self.after_in_child,
            )

    def before(self) -> None:
        """Wait for a compilation in another thread."""
        self.forking.waited, self.forking.llvm = False, None  # stays if the wait is interrupted
        self.forking.waited = not self.lost and self.lock.acquire(timeout=SECONDS)
        # Threads call LLVM at other times, too: to describe the processor, or to free memory.
        llvm = llvm_lock()
        if llvm is not None and llvm.acquire(timeout=SECONDS):
            self.forking.llvm = llvm

    def after_in_parent(self) -> None:
        """Let other threads compile again."""
        if self.forking.llvm is not None:
            self.forking.llvm.release()
        if self.forking.waited:
            self.lock.release()

    def after_in_child(self) -> None:
        """Determine whether this child can compile."""
        self.lost = self.lost or not self.forking.waited or numba_is_locked()
        self.after_in_parent()


def llvm_lock() -> Any:
    """Return the lock that llvmlite holds while it calls LLVM; None if it is not loaded."""
    module = sys.modules.get("llvmlite.binding.ffi")
    return getattr(getattr(getattr(module, "lib", None), "_lock", None), "_lock", None)


def numba_is_locked() -> bool:
    """Whether another thread holds Numba's own lock: in a child, a thread that no longer exists.

    That thread was compiling one of the program's own functions.
    """
    module = sys.modules.get("numba.core.compiler_lock")
    lock = getattr(getattr(module, "global_compiler_lock", None), "_lock", None)
    if lock is None:
        return False
    if lock.acquire(blocking=False):
        lock.release()
        return False
    return True


guard = Guard()
held = guard.held
