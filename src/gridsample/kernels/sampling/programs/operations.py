"""The operations: samples, their means and labels, and first and second derivatives.

With upstream values g, weights w of a point's taps and pixels v, a sample has the gradients

    of the image    g w, added to each tap's pixel
    of the grid     along axis a: sum over planes of g * (tap sum of v with the order of a raised)

Given upstream gradients u of the image and d of the grid, these two have the gradients

    of g            (tap sum of u) + sum over a of d_a * (tap sum of v with a raised)
    of the image    sum over a of g d_a w_a, added to each tap's pixel; w_a is w with a raised
    of the grid     along b: sum over planes of g * (
                        (tap sum of u with b raised)
                        + sum over a of d_a * (tap sum of v with a and b raised))

A mean is the quotient of two sums, n of w m v and d of w m, where m is the weight of a pixel, and 0
if it is missing.  With g the upstream value of n / d, the quotient rule gives the gradients

    of n    g / d
    of d    - (g / d) (n / d)

The gradient of the grid is the first times that of n plus the second times that of d.  Both are
also added to each tap's pixel, with the tap's weight w, in two arrays.  What these mean for v and m
depends on the pixel alone, and is computed afterwards (`averages`).
"""

from __future__ import annotations

import functools
import operator

from gridsample.kernels.sampling.programs.counting import COUNTED, PIXEL, WEIGHT
from gridsample.kernels.sampling.programs.operation import (
    ArrayUse,
    Needs,
    Operation,
    Order,
    Orders,
    OrdersOfArrays,
    Results,
    Terms,
)
from gridsample.kernels.vector import Value


def product(g: Value, total: Value) -> Value:
    """Multiply; a sum that vanishes gives 0 even where ``g`` is infinite."""
    return total if total.is_constant else g * total


def plus(a: Order, b: Order) -> Order:
    """Add orders of derivatives."""
    return tuple(m + n for m, n in zip(a, b, strict=True))


IMAGE = ArrayUse("pixels", "read", "image")
GRID = ArrayUse("grid", "read")
OUT = ArrayUse("points", "store", "results")
VALUES = ArrayUse("points", "read", "values")
# What points without taps, and dropped taps, have in each plane.
FILLS = {name: ArrayUse("planes", "read", "fill") for name in ("outside", "dropped", "invalid")}

# Samples ------------------------------------------------------------------------------------------


def filled(terms: Terms, value: Value, outside: Value | float, invalid: Value | float) -> Value:
    """Return a result, or what points without taps have in its place."""
    if terms.outside is not None:
        value = terms.outside.select(outside, value)
    return terms.valid.select(value, invalid)


def sample(terms: Terms) -> Results:
    """Return the sum over taps."""
    total, planes = terms.sums["image"][terms.orders.value], terms.planes
    return Results({"out": filled(terms, total, planes["outside"], planes["invalid"])})


GATHER = Operation(
    "gather",
    {"image": IMAGE, "grid": GRID, "out": OUT, **FILLS},
    reads=lambda orders, needs: {"image": [orders.value]},
    formula=sample,
    fills=True,
)
# Its "sum" is the label that wins: see `labels`.
LABELS = Operation(
    "labels",
    GATHER.arrays,
    reads=GATHER.reads,
    formula=sample,
    fills=True,
    votes=True,
)

# First derivatives --------------------------------------------------------------------------------


def differentiate(terms: Terms) -> Results:
    """Compute the gradients of a sample."""
    g, sums = terms.values["values"], terms.sums.get("image")
    totals = [[product(g, sums[order]) for order in terms.orders.raised]] if sums else []
    shares = {"sums": {terms.orders.value: g}} if "image" in terms.needs else {}
    return Results(totals=totals, shares=shares)


BACKWARD = Operation(
    "backward",
    {
        "image": IMAGE._replace(needed_for="grid"),
        "grid": GRID,
        "values": VALUES,
        "sums": ArrayUse("pixels", "add", needed_for="image"),
        "gradient": ArrayUse("vectors", "total", needed_for="grid"),
        "dropped": ArrayUse("planes", "read", "fill", needed_for="grid"),
    },
    choices=("image", "grid"),
    reads=lambda orders, needs: {"image": orders.raised} if "grid" in needs else {},
    adds=lambda orders, needs: {"sums": [orders.value]} if "image" in needs else {},
    formula=differentiate,
)

# Second derivatives -------------------------------------------------------------------------------


def orders_of_directional(orders: Orders, needs: Needs) -> list[Order]:
    """Return the orders of (tap sum of u) + sum over a of d_a * (tap sum of v with a raised)."""
    return [orders.value] * ("values" in needs) + [*orders.raised] * ("grid" in needs)


def read_twice(orders: Orders, needs: Needs) -> OrdersOfArrays:
    """Return the orders of the tap sums of v and u."""
    some = orders_of_directional(orders, needs)
    of_image = [*dict.fromkeys(plus(order, raised) for order in some for raised in orders.raised)]
    reads = {"image": of_image, "upstream": some if "upstream" in needs else []}
    return {name: each for name, each in reads.items() if each}


def differentiate_twice(terms: Terms) -> Results:
    """Compute the gradients of `differentiate`."""
    g, d, orders = terms.values["values"], terms.vectors["tangents"], terms.orders
    totals: dict[Order, Value] = {}
    for order in orders_of_directional(orders, terms.needs):
        summands = [terms.sums["upstream"][order]] if "upstream" in terms.needs else []
        for raised, along in zip(orders.raised, d, strict=True):
            total = terms.sums["image"][plus(order, raised)]
            summands += [] if total.is_constant else [total * along]
        totals[order] = functools.reduce(operator.add, summands) if summands else g.like(0.0)
    results, shares = {}, {}
    if "values" in terms.needs:
        results["results"] = terms.valid.select(totals[orders.value], 0.0)
    if "image" in terms.needs:
        shares["sums"] = {raised: g * along for raised, along in zip(orders.raised, d, strict=True)}
    of_grid = [product(g, totals[raised]) for raised in orders.raised if raised in totals]
    return Results(results, [of_grid] if of_grid else [], shares)


DOUBLE_BACKWARD = Operation(
    "double backward",
    {
        "image": IMAGE,
        "upstream": ArrayUse("pixels", "read", needed_for="upstream"),
        "grid": GRID,
        "tangents": ArrayUse("vectors", "read"),
        "values": VALUES,
        "results": ArrayUse("points", "store", needed_for="values"),
        "sums": ArrayUse("pixels", "add", needed_for="image"),
        "gradient": ArrayUse("vectors", "total", needed_for="grid"),
    },
    choices=("image", "grid", "values", "upstream"),
    reads=read_twice,
    adds=lambda orders, needs: {"sums": orders.raised} if "image" in needs else {},
    formula=differentiate_twice,
)

# Means over the pixels that count -----------------------------------------------------------------

# What is read besides if pixels have weights: `counting.Counts`.
WEIGHTS = {
    "weights": ArrayUse("weights", "read", "weight", needed_for="weighed"),
    "invalid_weights": ArrayUse("task", "store", "int64", needed_for="weighed"),
}


def counted(*orders: Order) -> list[Order]:
    """Return the orders of the sums n and d."""
    return [(number, *order) for number in (COUNTED, WEIGHT) for order in orders]


def average(terms: Terms) -> Results:
    """Compute a mean, and the sum of weights.

    Where a plain sum is a number, it has no missing pixel and is the mean.
    """
    sums, order, planes = terms.sums["image"], terms.orders.value, terms.planes
    above, below = sums[COUNTED, *order], sums[WEIGHT, *order]
    mean = (below > planes["min_weights"]).select(above / below, planes["missing_values"])
    if (PIXEL, *order) in sums:
        plain = sums[PIXEL, *order]
        mean, below = (plain == plain).select(plain, mean), (plain == plain).select(1.0, below)
    stored = {"out": filled(terms, mean, planes["outside"], planes["invalid"])}
    if "shares" in terms.needs:
        stored["shares"] = filled(terms, below, terms.dropped_weight, 0.0)
    return Results(stored)


MEANS = Operation(
    "means",
    {
        **GATHER.arrays,
        "missing_values": ArrayUse("planes", "read"),
        "min_weights": ArrayUse("planes", "read"),
        **WEIGHTS,
        "shares": ArrayUse("points", "store", needed_for="shares"),
    },
    choices=("shares",),
    reads=lambda orders, needs: {
        "image": counted(orders.value) + [(PIXEL, *orders.value)] * ("plain" in needs)
    },
    formula=average,
    fills=True,
    counts=True,
)


def differentiate_mean(terms: Terms) -> Results:
    """Compute the gradients of a mean; where nothing is missing, those of a sample."""
    sums, orders, g = terms.sums["image"], terms.orders, terms.values["values"]
    above, below = (sums[number] for number in counted(orders.value))
    enough = below > terms.planes["min_weights"]
    onto_above = enough.select(g / below, 0.0)
    onto_below = enough.select(-(onto_above * (above / below)), 0.0)
    if (PIXEL, *orders.value) in sums:
        plain = sums[PIXEL, *orders.value]
        onto_above = (plain == plain).select(g, onto_above)
        onto_below = (plain == plain).select(0.0, onto_below)
    totals = []
    if "grid" in terms.needs:
        # One after the other, so that the second does not change the first where it is 0: where
        # nothing is missing, the sum of weights has no derivative.
        totals.append([product(onto_above, sums[COUNTED, *order]) for order in orders.raised])
        of_weights = [sums[WEIGHT, *order] for order in orders.raised]
        totals.append([(d == 0.0).select(0.0, product(onto_below, d)) for d in of_weights])
    shares = {"image": ("sums", onto_above), "weights": ("sums_of_weights", onto_below)}
    return Results(
        totals=totals,
        shares={
            name: {orders.value: share}
            for need, (name, share) in shares.items()
            if need in terms.needs
        },
    )


MEAN_BACKWARD = Operation(
    "mean backward",
    {
        **BACKWARD.arrays,
        "image": IMAGE,
        "dropped": ArrayUse("planes", "read", "fill"),
        "min_weights": ArrayUse("planes", "read"),
        **WEIGHTS,
        "sums_of_weights": ArrayUse("pixels", "add", needed_for="weights"),
    },
    choices=("image", "grid", "weights"),
    reads=lambda orders, needs: {
        "image": counted(orders.value, *orders.raised * ("grid" in needs))
        + [(PIXEL, *orders.value)] * ("plain" in needs)
    },
    adds=lambda orders, needs: {
        name: [orders.value]
        for name, need in (("sums", "image"), ("sums_of_weights", "weights"))
        if need in needs
    },
    formula=differentiate_mean,
    counts=True,
)
