"""Plans of calls, from shapes and dtypes of arrays and the names of options."""

from __future__ import annotations

from typing import Any

from gridsample.definitions.footprints import ATTACH, DETACH, Footprint
from gridsample.definitions.options import checked, plan_of
from gridsample.definitions.plan import Plan
from gridsample.definitions.request import Request


def plan_for(
    image: tuple[int, ...],
    dtype: Any,
    grid: tuple[int, ...],
    grid_type: Any,
    *names: Any,
    **options: Any,
) -> Plan:
    """The plan of a call with these shapes and dtypes; names are mode, padding_mode and so on.

    Options may have a `Footprint`.
    """
    footprint = options.pop("footprint", None)
    if isinstance(footprint, Footprint):
        how = ATTACH if footprint.attached else DETACH
        options |= {"antialias": True, "max_samples": footprint.max_samples, "footprint": how}
    resolved = checked(Request(*names, **options), image, grid)
    return plan_of(image, dtype, grid, grid_type, resolved)
