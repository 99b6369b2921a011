"""Times training steps of whole models, alternately with our functions and with torch's.

    python -m benchmarks.models                 every model, on one thread and on all cores
    python -m benchmarks.models --threads 1 2   numbers of threads, each in its own process
    python -m benchmarks.models --case 3-D      models whose name contains a text; * and ? are wild
    python -m benchmarks.models --json FILE     also write the figures
    python -m benchmarks.models --list          the models

A step clears the gradients, computes the loss and its gradients, and updates the weights.
`gridsample.torch_compat.patch` replaces torch's functions; torch's thread pool has its default
settings (OMP_*).  A ratio is torch's time divided by ours; above 1, we are faster.
Nothing is timed before the losses of the first step agree to 1e-6, and the gradients of all
weights, as one vector, to 1e-4.
"""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import pairs
from benchmarks.pairs import Disagreement, Row

PROGRAM = "benchmarks.models"
LOSS, GRADIENTS = 1e-6, 1e-4  # relative differences that may be


class Training:
    """A model and its optimiser, patched or not."""

    def __init__(self, network: Any, batch: Sequence[Any], patched: bool) -> None:
        import torch

        self.network, self.batch, self.patched = network, batch, patched
        self.optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)

    def step(self) -> Any:
        """One step; the loss before it."""
        from gridsample import torch_compat

        with torch_compat.patch() if self.patched else contextlib.nullcontext():
            self.optimizer.zero_grad()
            loss = self.network(*self.batch)
            loss.backward()
            self.optimizer.step()
        return loss.detach()

    def gradients(self) -> Any:
        """Of all weights, in float64, as one vector."""
        import torch

        return torch.cat([one.grad.double().flatten() for one in self.network.parameters()])


def trainings(name: str, tiny: bool = False) -> tuple[Training, Training]:
    """Ours and torch's, which start with the same weights."""
    import torch

    from benchmarks.networks import TASKS

    torch.manual_seed(1)
    task = TASKS[name]
    make, given = task.tiny if tiny else (task.network, task.batch)
    network, batch = make(), given()
    return Training(copy.deepcopy(network), batch, True), Training(network, batch, False)


def first_step(ours: Training, torchs: Training) -> Row:
    """How far the first losses and gradients are apart.

    Raises:
        Disagreement: by more than rounding.
    """
    mine, theirs = float(ours.step()), float(torchs.step())
    apart = ours.gradients() - torchs.gradients()
    found = {
        "loss": abs(mine - theirs) / abs(theirs),
        "gradients": float(apart.norm() / torchs.gradients().norm()),
    }
    if not (found["loss"] <= LOSS and found["gradients"] <= GRADIENTS):  # a NaN is no agreement
        raise Disagreement(
            f"losses {mine} and {theirs}, relative difference {found['loss']:.2g}; "
            f"of the gradients {found['gradients']:.2g}"
        )
    return found


def measure(name: str, seconds: float) -> Iterator[Row]:
    """The row of a model."""
    ours, torchs = trainings(name)
    differences = first_step(ours, torchs)
    yield {"kind": "step", **pairs.timed(ours.step, torchs.step, seconds), **differences}


def main(words: Sequence[str] | None = None) -> int:
    """Run and print."""
    given = pairs.parser(PROGRAM, __doc__, seconds=4.0).parse_args(words)
    return pairs.run(PROGRAM, given, names, measure)


def names() -> list[str]:
    """The models."""
    from benchmarks.networks import TASKS

    return list(TASKS)


if __name__ == "__main__":
    sys.exit(main())
