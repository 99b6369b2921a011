"""Results that are kept for later calls, up to a number of bytes, and properties that are kept.

Tables differ in size by a factor of a million, so that a number of tables would say nothing about
memory.

Neither waits in a forked child for a thread that only the parent has.
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
