"""What a command owes the terminal and the process it runs in: a bar, quiet, a clean end."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

SECONDS_WITHOUT_BAR = 1.0


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Lend a function to report the share that is done to.

    A bar shows on a terminal, once the work has taken a second.
    """
    if not sys.stderr.isatty():
        yield lambda share: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:  # a bar is a courtesy
        yield lambda share: None
        return
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=1.0)
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
    """Keep the chatter of file libraries off stderr, which is for the one line that matters."""
    previous = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous)


class Terminated(BaseException):
    """A signal has asked the process to end.

    Attributes:
        signal: which one.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = signal.Signals(number)


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception, so that partial files are removed on the way out.

    A signal that is ignored (as under nohup) or has a handler keeps what it has. Only the main
    thread can have handlers: in others nothing changes. The handlers are the former ones after.

    Raises:
        Terminated: in the block, when the signal comes. Further ones are ignored from then on: they
            would interrupt the cleaning up.
    """
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [getattr(signal, name) for name in names]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    taken = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> NoReturn:
        for other in taken:
            signal.signal(other, signal.SIG_IGN)
        raise Terminated(number)

    try:
        for number in taken:
            signal.signal(number, end)
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
