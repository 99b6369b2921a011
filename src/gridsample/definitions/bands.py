"""Banded matrices: the inputs of each output, and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsample.definitions.caches import cached_property

Array = np.ndarray[Any, Any]

# The bytes up to which each cache of bands grows.
CACHE_BYTES = 1 << 25


@dataclass(frozen=True, eq=False)
class Band:
    """A matrix (outputs, inputs) that is zero outside a band.

    Attributes:
        inputs: the number of columns.
        first: the first column of the band in each row; it never decreases from row to row.
        count: the number of columns of the band in each row, which may be 0.
        weights: (outputs, the greatest count), zero beyond each row's count.
    """

    inputs: int
    first: Array
    count: Array
    weights: Array

    @property
    def outputs(self) -> int:
        """The number of rows."""
        return len(self.first)

    @cached_property
    def taps(self) -> int:
        """The greatest count."""
        return int(self.count.max(initial=0))

    @cached_property
    def copies(self) -> bool:
        """Whether every output is a copy of one input."""
        return bool(self.taps == 1 and self.count.all() and (self.weights == 1).all())

    @cached_property
    def gain(self) -> float:
        """The largest sum of a row's absolute weights: how far an output can exceed the inputs."""
        return float(np.abs(self.weights).sum(axis=1).max(initial=0))

    @cached_property
    def is_identity(self) -> bool:
        """Whether every output equals the input of the same index."""
        if self.inputs != self.outputs or not self.count.all():
            return False
        diagonal = np.arange(self.outputs)[:, np.newaxis] - self.first[:, np.newaxis]
        return np.array_equal(self.weights, diagonal == np.arange(self.weights.shape[1]))

    @cached_property
    def used(self) -> Array:
        """The inputs that it reads, in ascending order."""
        rows, taps = self._places()
        return np.unique(self.first[rows] + taps)

    @cached_property
    def compact(self) -> Band:
        """Its matrix of the `used` inputs alone."""
        if len(self.used) == self.inputs:
            return self
        first = np.searchsorted(self.used, self.first)
        return Band(len(self.used), first, self.count, self.weights)

    @property
    def bytes(self) -> int:
        """The memory of the tables."""
        tables = [self.first, self.count, self.weights]
        return sum([table.nbytes for table in tables if table.base is None or table.strides[0]])

    def _places(self) -> tuple[Array, Array]:
        """The rows and taps of all entries in the band."""
        rows, taps = np.nonzero(np.arange(self.weights.shape[1]) < self.count[:, np.newaxis])
        return rows, taps

    def dense(self) -> Array:
        """The dense matrix, (outputs, inputs)."""
        matrix = np.zeros((self.outputs, self.inputs))
        rows, taps = self._places()
        matrix[rows, self.first[rows] + taps] = self.weights[rows, taps]
        return matrix

    def transpose(self) -> Band:
        """The transposed matrix."""
        columns = np.arange(self.inputs)
        first = np.searchsorted(self.first + self.count, columns, side="right")
        count = np.maximum(np.searchsorted(self.first, columns, side="right") - first, 0)
        weights = np.zeros((self.inputs, int(count.max(initial=0))))
        rows, taps = self._places()
        inputs = self.first[rows] + taps
        weights[inputs, rows - first[inputs]] = self.weights[rows, taps]
        return Band(self.outputs, first, count, weights)


def copying_band(index: Array, inputs: int) -> Band:
    """Create a band that copies one input to each output."""
    shape = len(index), 1
    return Band(inputs, index, np.broadcast_to(np.int64(1), shape[:1]), np.broadcast_to(1.0, shape))


def collect(index: Array, weights: Array, inputs: int) -> Band:
    """Create a band from indices (outputs, taps) and weights; those of equal indices are added."""
    first = np.minimum.accumulate(index.min(axis=1)[::-1])[::-1]
    count = np.maximum.accumulate(index.max(axis=1)) + 1 - first
    table = np.zeros((len(index), int(count.max())))
    taps = index.shape[1]
    unfolded = (index == first[:, np.newaxis] + np.arange(taps)).all(axis=1)
    table[unfolded, :taps] = weights[unfolded, : table.shape[1]]
    folded = np.flatnonzero(~unfolded)
    columns = index[folded] - first[folded, np.newaxis]
    np.add.at(table, (folded[:, np.newaxis], columns), weights[folded])
    return Band(inputs, first, count, table)
