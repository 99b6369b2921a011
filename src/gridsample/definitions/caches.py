"""Results that are kept for later calls, and properties that are kept.

Tables differ in size by a factor of a million, so that a number of tables would say nothing about
memory.

What is kept for the options of a call is small, except for axes with coordinates of their own:
`make_room_for` drops it if these become many.

Nothing here waits in a forked child for a thread that only the parent has.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

Result = TypeVar("Result")

# The results that no call needed for a long time are dropped beyond so many of one function.
MAX_RESULTS = 512

# The bytes of axes with coordinates of their own, and of their tables, that kept calls hold.
MAX_AXES_BYTES = 2**26

if TYPE_CHECKING or sys.version_info >= (3, 12):
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property[Result]):
        """A property that is computed once, without the lock that Python 3.11 holds meanwhile."""

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            """Compute the value and store it in the instance, where it hides this property."""
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


def cached_by_size(
    limit: int, size: Callable[[Any], int]
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Keep the latest results of a function, as `functools.lru_cache` does, up to ``limit`` bytes.

    A result of more than a quarter of that is not kept.

    Args:
        limit: the bytes that all results have at most.
        size: returns the bytes of a result.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        results: OrderedDict[tuple[Any, ...], tuple[Result, int]] = OrderedDict()
        lock = threading.Lock()
        total = 0

        def clear() -> None:
            nonlocal total
            with lock:
                results.clear()
                total = 0

        def clear_in_child() -> None:
            nonlocal lock
            lock = threading.Lock()  # a thread that exists no more may hold the other one
            clear()

        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=clear_in_child)

        @functools.wraps(function)
        def cached(*arguments: Any) -> Result:
            nonlocal total
            with lock:
                entry = results.get(arguments)
                if entry is not None:
                    results.move_to_end(arguments)
                    return entry[0]
            result = function(*arguments)
            number = size(result)
            with lock:
                if 4 * number <= limit and arguments not in results:
                    results[arguments] = result, number
                    total += number
                while total > limit or len(results) > MAX_RESULTS:
                    total -= results.popitem(last=False)[1][1]
            return result

        cached.cache_clear = clear  # type: ignore[attr-defined]
        cached.cache_bytes = lambda: total  # type: ignore[attr-defined]
        return cached

    return decorate


class CallCaches:
    """All results of `cached_call`.

    Attributes:
        functions: the functions that keep results.
        axes_bytes: the bytes of axes that the results may hold.
    """

    def __init__(self) -> None:
        self.functions: list[functools._lru_cache_wrapper[Any]] = []
        self.axes_bytes = 0

    def clear(self) -> None:
        """Drop all results."""
        for function in self.functions:
            function.cache_clear()


CALLS = CallCaches()


def cached_call(
    maxsize: int, typed: bool = False
) -> Callable[[Callable[..., Result]], functools._lru_cache_wrapper[Result]]:
    """Keep the latest results of a function of a call's options, or of its plan.

    It is `functools.lru_cache`, but results are also dropped by `make_room_for`.
    """

    def decorate(function: Callable[..., Result]) -> functools._lru_cache_wrapper[Result]:
        cached = functools.lru_cache(maxsize, typed)(function)
        CALLS.functions.append(cached)
        return cached

    return decorate


def make_room_for(axes_bytes: int) -> None:
    """Count the bytes of axes of a new call, and drop the results of all others if they are many.

    Threads that count at the same time may miss a few bytes.
    """
    CALLS.axes_bytes += axes_bytes
    if CALLS.axes_bytes > MAX_AXES_BYTES:
        CALLS.clear()
        CALLS.axes_bytes = axes_bytes
