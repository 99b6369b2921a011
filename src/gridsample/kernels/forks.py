"""Forks while modules are being loaded or programs compiled.

A forked child has only the thread that forked.  If another thread was compiling, or importing a
part of the library that is loaded on first use, the child would wait for that thread's locks for
ever.  So both hold one lock, and a fork waits for it.  If that takes too long, the child raises an
error where it would hang.

The hooks of forks that were registered last run first.  Those of `logging` and of the executors
take locks that an import may need, so both are imported here, before our hooks are registered:
registering hooks while another thread forks would run them after the fork, but not before it.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401
import contextlib
import logging  # noqa: F401
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

# A fork waits this long for another thread, which usually takes a fraction of a second.
SECONDS = 60.0

MESSAGE = (
    "this process was forked while another thread of its parent was compiling, and cannot load or "
    "compile kernels; make a first call before forking, or start processes with 'spawn'"
)


class Guard:
    """A lock that is held while modules are loaded or programs compiled, and during a fork."""

    def __init__(self) -> None:
        """Start with no compilation in progress."""
        self.lock = threading.RLock()
        self.forking = threading.local()
        self.lost = False  # this process is a child that was forked during a compilation
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self.before,
                after_in_parent=self.after_in_parent,
                after_in_child=self.after_in_child,
            )

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock while loading or compiling; a fork in another thread waits until this ends.

        Raises:
            RuntimeError: this process was forked while its parent compiled.
        """
        if self.lost:
            raise RuntimeError(MESSAGE)
        with self.lock:
            yield

    def before(self) -> None:
        """Wait for a compilation in another thread."""
        forking = self.forking
        forking.llvm = None
        forking.waited = not self.lost and self.lock.acquire(timeout=SECONDS)
        # Threads call LLVM at other times, too: to describe the processor, or to free memory.
        llvm = llvm_lock()
        if llvm is not None and llvm.acquire(timeout=SECONDS):
            forking.llvm = llvm

    def after_in_parent(self) -> None:
        """Let other threads compile again."""
        forking = self.forking
        if forking.llvm is not None:
            forking.llvm.release()
        if forking.waited:
            self.lock.release()

    def after_in_child(self) -> None:
        """Determine whether this child can compile."""
        self.lost = self.lost or not self.forking.waited
        self.after_in_parent()


def llvm_lock() -> Any:
    """Return the lock that llvmlite holds while it calls LLVM; None if it is not loaded."""
    module = sys.modules.get("llvmlite.binding.ffi")
    return getattr(getattr(getattr(module, "lib", None), "_lock", None), "_lock", None)


guard = Guard()
held = guard.held
