"""Functions of other libraries whose names may have been replaced by ours."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from typing import Any


@functools.cache
def originals(definer: str, package: str) -> Any:
    """Load a module's original functions in a separate module object.

    The names in the package may have been replaced by our functions or wrappers of them, and
    calling those would cause infinite recursion.  The module that defines the originals is
    therefore executed again, without registering it, so other code is not affected.

    Args:
        definer: the module that defines the originals.
        package: the package in which they are, in versions without that module.
    """
    spec = importlib.util.find_spec(definer)
    if spec is None or spec.loader is None:
        return importlib.import_module(package)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
