"""Results that are kept for later calls, up to a number of bytes.

Tables differ in size by a factor of a million, so that a number of tables would say nothing about
memory.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

# The results that no call needed for a long time are dropped beyond so many of one function.
MOST = 512


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
                while total > limit or len(results) > MOST:
                    total -= results.popitem(last=False)[1][1]
            return result

        cached.cache_clear = clear  # type: ignore[attr-defined]
        cached.cache_bytes = lambda: total  # type: ignore[attr-defined]
        return cached

    return decorate
