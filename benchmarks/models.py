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
LOSS, GRADIENTS = 1e-6, 1e-4  # the largest relative differences that are accepted


class Training:
    """A model and its optimiser, patched or not."""

    def __init__(self, network: Any, batch: Sequence[Any], patched: bool) -> None:
        import torch

        self.network, self.batch, self.patched = network, batch, patched
        self.optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)

    def step(self) -> Any:
        """Take a step; return the loss before it."""
        from gridsample import torch_compat

        with torch_compat.patch() if self.patched else contextlib.nullcontext():
            self.optimizer.zero_grad()
            loss = self.network(*self.batch)
            loss.backward()
            self.optimizer.step()
        return loss.detach()

    def gradients(self) -> Any:
        """The gradients of all weights, in float64, as one vector."""
        import torch

        return torch.cat([weight.grad.double().flatten() for weight in self.network.parameters()])


def trainings(name: str, tiny: bool = False) -> tuple[Training, Training]:
    """Our training and torch's, which start with the same weights."""
    import torch

    from benchmarks.networks import TASKS

    torch.manual_seed(1)
    task = TASKS[name]
    make_network, make_batch = task.tiny if tiny else (task.network, task.batch)
    network, batch = make_network(), make_batch()
    return Training(copy.deepcopy(network), batch, True), Training(network, batch, False)


def first_step(ours: Training, torchs: Training) -> Row:
    """The relative differences of the first losses and gradients.

    Raises:
        Disagreement: They are larger than rounding.
    """
    mine, theirs = float(ours.step()), float(torchs.step())
    gradient_difference = ours.gradients() - torchs.gradients()
    differences = {
        "loss": abs(mine - theirs) / abs(theirs),
        "gradients": float(gradient_difference.norm() / torchs.gradients().norm()),
    }
    if not (
        differences["loss"] <= LOSS and differences["gradients"] <= GRADIENTS
    ):  # a NaN is no agreement
        raise Disagreement(
            f"losses {mine} and {theirs}, relative difference {differences['loss']:.2g}; "
            f"of the gradients {differences['gradients']:.2g}"
        )
    return differences


def measure(name: str, seconds: float) -> Iterator[Row]:
    """Yield the row of a model."""
    ours, torchs = trainings(name)
    differences = first_step(ours, torchs)
    yield {"kind": "step", **pairs.timed(ours.step, torchs.step, seconds), **differences}


def main(words: Sequence[str] | None = None) -> int:
    """Run and print."""
    arguments = pairs.parser(PROGRAM, __doc__, seconds=4.0).parse_args(words)
    return pairs.run(PROGRAM, arguments, names, measure)


def names() -> list[str]:
    """The models."""
    from benchmarks.networks import TASKS

    return list(TASKS)


if __name__ == "__main__":
    sys.exit(main())
