"""Interaction with the terminal and the process: progress bar, warnings, signals."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import NoReturn

SECONDS_WITHOUT_BAR = 1.0

Report = Callable[[float], None]

# Reports the progress of a part of the work, whose bar is that of the whole.
_whole: ContextVar[Report | None] = ContextVar("_whole", default=None)


@contextmanager
def part_of(report: Report, index: int, count: int) -> Iterator[None]:
    """Make the bar of one of several pieces of work a part of the bar of all of them."""
    token = _whole.set(lambda share: report((index + share) / count))
    try:
        yield
    finally:
        _whole.reset(token)
        report((index + 1) / count)


@contextmanager
def progress_bar(title: str) -> Iterator[Report]:
    """Provide a function that reports progress, from 0 to 1.

    On a terminal, a bar appears once the work has taken a second.
    """
    whole = _whole.get()
    if whole is not None:
        yield whole
        return
    if not sys.stderr.isatty():
        yield lambda share: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:  # the bar is optional
        yield lambda share: None
        return
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=1.0)
    began = time.monotonic()

    def report(share: float) -> None:
        bar.update(task, completed=share)
        if time.monotonic() - began > SECONDS_WITHOUT_BAR:
            bar.start()

    try:
        yield report
    finally:
        bar.stop()


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Suppress warnings and log messages of file libraries: stderr is for our own one line."""
    previous = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous)


class UsageError(ValueError):
    """What was typed is no call of a command."""


class Terminated(BaseException):
    """Raised when a signal ends the process.

    Attributes:
        signal: the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = signal.Signals(number)


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception, so that partial files are removed.

    Signals that are ignored (as under nohup) or have a handler are left alone.  Only the main
    thread can install handlers; in other threads nothing changes.  The previous handlers are
    restored at the end of the block.

    Raises:
        Terminated: a signal arrived during the block.  Further signals are then ignored, because
            they would interrupt the cleanup.
    """
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [getattr(signal, name) for name in names]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    handled = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> NoReturn:
        for other in handled:
            signal.signal(other, signal.SIG_IGN)
        raise Terminated(number)

    try:
        for number in handled:
            signal.signal(number, end)
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
