"""Contract C: the E-step, interchangeable.

An assignment kernel leaves p(z | x, eta, w) invariant (`sample`) or computes its expectation (`expect`), for one
shard of rows at a time. Statistics add, so a sweep is a map over shards and an ordered sum, whatever the engine:

    rows  --shards-->  T = family.sufficient(X[tile])  --kernel-->  z, S  --ordered sum-->  Assignment

`T` is made tile by tile and never stored: a fit holds the data, the labels, and a few tiles for each thread.
Every sweep counts its work in `info` (`n_evals`: scores computed; `renewed`: rows whose label changed): the
speed claim is measured in every fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weald._typing import Array, FloatArray, IntArray, Matrix
from weald.engine import Threads, shards_of
from weald.families.base import AbstractFamily

TILE = 2**19  # entries of one tile of scores or of T: about what a core's cache holds
MAX_TILE_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of data seen through a family.

    Parameters
    ----------
    X : (n, d) array or CSR
        Validated data, never changed.
    family : AbstractFamily
        Turns rows into sufficient statistics.
    weight : (n,) array or None
        Weight of each row in the statistics.
    known : (n,) int array or None
        Known labels; -1 where unknown.
    """

    X: Matrix
    family: AbstractFamily
    weight: FloatArray | None = None
    known: IntArray | None = None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.X.shape[0])

    @property
    def total_weight(self) -> float:
        """Sum of the weights: the effective number of rows."""
        return float(self.n_rows if self.weight is None else self.weight.sum())

    def tiles(self, shard: slice, n_components: int) -> Iterator[slice]:
        """Cut a shard into tiles; their size depends on the shapes alone, so results do not depend on threads."""
        rows = TILE // max(n_components, self.family.width)
        rows = min(MAX_TILE_ROWS, max(16, rows))
        for start in range(shard.start, shard.stop, rows):
            yield slice(start, min(start + rows, shard.stop))

    def log_base(self) -> float:
        """Weighted sum of log h(x) over all rows: what scores leave out of the log-likelihood."""
        total = 0.0
        for shard in shards_of(self.n_rows):
            h = self.family.log_base(self.X[shard])
            total += float(h.sum() if self.weight is None else h @ self.weight[shard])
        return total


@dataclass(frozen=True, eq=False)
class Assignment:
    """Labels drawn for rows, their statistics, and what it cost.

    `z` (n,) int32; `S` (K, p) float64; `log_norm`: weighted sum of log sum_k w_k exp<T, eta_k>.
    """

    z: IntArray
    S: FloatArray
    log_norm: float
    info: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Soft:
    """Expected statistics `S` (K, p) and the weighted sum of log normalisers."""

    S: FloatArray
    log_norm: float
    info: Mapping[str, float]


class AbstractAssignment(ABC):
    """One way of doing the E-step; concrete ones are frozen dataclasses without state of their own."""

    @abstractmethod
    def prepare(self, rows: Rows) -> Any:
        """Once per data set: nothing, or the data tree. Returns a plan."""

    @abstractmethod
    def refresh(self, plan: Any, eta: Array, log_w: Array) -> Any:
        """Once per sweep: what all shards share, in the dtype of the scores. Returns a plan."""

    @abstractmethod
    def sample(self, plan: Any, rows: Rows, shard: slice, z: IntArray, key: np.uint64) -> Assignment:
        """Draw the labels of a shard given its current labels `z` (rows of the shard,)."""

    @abstractmethod
    def expect(self, plan: Any, rows: Rows, shard: slice) -> Soft:
        """Expected statistics of a shard."""


def sample_all(
    kernel: AbstractAssignment, plan: Any, rows: Rows, z: IntArray, key: np.uint64, engine: Threads
) -> Assignment:
    """One sweep over all rows."""
    shards = shards_of(rows.n_rows)
    parts = engine.map(lambda shard: kernel.sample(plan, rows, shard, z[shard], key), shards)
    drawn = np.empty(rows.n_rows, np.int32)
    total: Assignment | None = None
    for shard, part in zip(shards, parts, strict=True):
        drawn[shard] = part.z
        total = part if total is None else _plus(total, part)
    assert total is not None  # validation admits no empty data
    info = dict(total.info, renewed=float(np.mean(drawn != z)))
    return Assignment(drawn, total.S, total.log_norm, info)


def expect_all(kernel: AbstractAssignment, plan: Any, rows: Rows, engine: Threads) -> Soft:
    """Expected statistics of all rows."""
    total: Soft | None = None
    for part in engine.map(lambda shard: kernel.expect(plan, rows, shard), shards_of(rows.n_rows)):
        total = part if total is None else _plus(total, part)
    assert total is not None  # validation admits no empty data
    return total


def _plus(total: Any, part: Any) -> Any:
    """Add a shard's sums to the running total, in place: the total is ours alone."""
    np.add(total.S, part.S, out=total.S)
    info = {name: total.info[name] + part.info[name] for name in total.info}
    fields = {"S": total.S, "log_norm": total.log_norm + part.log_norm, "info": info}
    return Soft(**fields) if isinstance(total, Soft) else Assignment(z=total.z, **fields)
