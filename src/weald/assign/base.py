"""Contract C: the E-step, interchangeable.

An assignment kernel leaves p(z | x, eta, w) invariant (`sample`) or computes its expectation (`expect`), for one
shard of rows at a time. What it must remember of a row between sweeps (a list of candidates, say) is an array that
travels with the state, so that runs can be resumed. Statistics add, so a sweep is a map over shards and an ordered
sum, whatever the engine:

    rows  --shards-->  T = family.sufficient(X[tile])  --kernel-->  z, S  --ordered sum-->  Assignment

`T` is made tile by tile and never stored: a fit holds the data, the labels, and a few tiles for each thread.
Every sweep counts its work in `info` (`n_evals`: scores computed; `renewed`: share of labels that changed;
`acceptance`: share of proposals accepted): the speed claim is measured in every fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from weald._typing import Array, FloatArray, IntArray, Matrix
from weald.assign import _softmax
from weald.engine import Threads, shards_of
from weald.families.base import AbstractFamily

TILE = 2**19  # entries of one tile of scores or of T: about what a core's cache holds
MAX_TILE_ROWS = 4096
_NO_WEIGHT = np.empty(0)


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

    def every(self, step: int, first: int) -> Rows:
        """Rows first, first + step, ...: views, but for sparse data."""
        at = slice(first, None, step)
        weight = None if self.weight is None else self.weight[at]
        return Rows(self.X[at], self.family, weight, None if self.known is None else self.known[at])

    def taken(self, at: IntArray) -> Rows:
        """Some rows, or all in another order: copies."""
        weight = None if self.weight is None else self.weight[at]
        return Rows(self.X[at], self.family, weight, None if self.known is None else self.known[at])

    def log_base(self) -> float:
        """Weighted sum of log h(x) over all rows: what scores leave out of the log-likelihood."""
        total = 0.0
        for shard in shards_of(self.n_rows):
            h = self.family.log_base(self.X[shard])
            total += float(h.sum() if self.weight is None else h @ self.weight[shard])
        return total


Memory = Mapping[str, Array]  # what a kernel keeps between sweeps: name -> array; of each row, (n, ...)


@dataclass(frozen=True, eq=False)
class Part:
    """What a kernel did to one shard.

    `z` (rows,) int32; `log_norm`: weighted sum of log sum_k w_k exp<T, eta_k>, or an unbiased estimate; `S` (K, p) the
    statistics of the drawn labels, or None to have them kept by differences; `memory`: new arrays of what is remembered
    of the rows, or nothing to have the old ones kept.
    """

    z: IntArray
    log_norm: float
    info: Mapping[str, float]
    S: FloatArray | None = None
    memory: Memory = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Assignment:
    """Labels drawn for all rows (n,), their statistics (K, p), the log normaliser, memory, and what it cost."""

    z: IntArray
    S: FloatArray
    log_norm: float
    info: Mapping[str, float]
    memory: Memory


@dataclass(frozen=True, eq=False)
class Soft:
    """Expected statistics `S` (K, p) and the weighted sum of log normalisers."""

    S: FloatArray
    log_norm: float
    info: Mapping[str, float]


class AbstractAssignment(ABC):
    """One way of doing the E-step; concrete ones are frozen dataclasses without state of their own."""

    @property
    @abstractmethod
    def period(self) -> int:
        """Sweeps in which every row is scored in full once: log normalisers are estimates over so many sweeps."""

    @property
    @abstractmethod
    def layout(self) -> str:
        """How rows may lie: ``"parts"``, a plan serves any part of them; ``"fixed"``, a plan is for all of them;
        ``"nearby"``, as fixed, and it pays to have rows that lie together in space side by side.
        """

    @abstractmethod
    def prepare(self, rows: Rows) -> Any:
        """Once per data set: nothing, or the data tree. Returns a plan."""

    @abstractmethod
    def refresh(self, plan: Any, eta: Array, log_w: Array, sweep: int, shared: Memory) -> tuple[Any, Memory]:
        """Once per sweep: what all shards share, in the dtype of the scores.

        Returns a plan, and what the next `refresh` shall be given as `shared`: arrays that travel with the state. The
        figures that the sweep measures are added to them.
        """

    @abstractmethod
    def blank(self, n_rows: int, n_components: int) -> Memory:
        """The memory before the first sweep, of zeros, which take no room until they are overwritten; empty for kernels
        that keep none.
        """

    @abstractmethod
    def sample(self, plan: Any, rows: Rows, shard: slice, z: IntArray, memory: Memory, key: np.uint64) -> Part:
        """Draw the labels of a shard given its current labels `z` (rows of the shard,; -1 before the first sweep).

        `memory` is what is remembered of the rows of the shard, and only read.
        """

    def tell(  # noqa: B027  (most kernels remember nothing)
        self, memory: Memory, joined: IntArray, also: IntArray
    ) -> None:
        """Change memory of the rows after clusters have moved: b is now at `joined[b]`, some rows of c at `also[c]`.

        Both (K,); -1 where nothing has moved. Kernels that remember clusters by name must learn of it.
        """

    @abstractmethod
    def expect(self, plan: Any, rows: Rows, shard: slice) -> Soft:
        """Expected statistics of a shard, exactly."""


def sample_all(
    kernel: AbstractAssignment,
    plan: Any,
    rows: Rows,
    z: IntArray,
    S: FloatArray,
    memory: Memory,
    key: np.uint64,
    engine: Threads,
    *,
    others: bool = False,
) -> Assignment:
    """One sweep over all rows, from labels `z` (n,) with statistics `S` (K, p), those of `others` included.

    `memory` is left as it is; what no shard has written anew is shared with the answer, not copied.
    """
    shards, kept = shards_of(rows.n_rows), dict(memory)

    def part_of(shard: slice) -> Part:
        return kernel.sample(plan, rows, shard, z[shard], {name: a[shard] for name, a in memory.items()}, key)

    drawn = np.empty(rows.n_rows, np.int32)
    totals: list[FloatArray] = []
    log_norm, info = 0.0, dict[str, float]()
    for shard, part in zip(shards, engine.map(part_of, shards), strict=True):
        drawn[shard] = part.z
        log_norm += part.log_norm
        info = {name: info.get(name, 0.0) + value for name, value in part.info.items()}
        if part.S is not None and not others:
            totals = [part.S if not totals else np.add(totals[0], part.S, out=totals[0])]
        for name, a in part.memory.items():
            kept[name] = np.empty(memory[name].shape, a.dtype) if kept[name] is memory[name] else kept[name]
            kept[name][shard] = a
    if rows.known is not None:  # kernels that look at a part of the clusters may have moved them
        drawn = np.where(rows.known >= 0, rows.known, drawn).astype(np.int32)
    S = totals[0] if totals else updated_statistics(rows, z, drawn, S, engine, others=others)
    info["renewed"] = float(np.mean(drawn != z))
    if "n_proposed" in info:
        info["acceptance"] = info["n_accepted"] / info["n_proposed"]
    return Assignment(drawn, S, log_norm, info, kept)


def expect_all(kernel: AbstractAssignment, plan: Any, rows: Rows, engine: Threads) -> Soft:
    """Expected statistics of all rows."""
    total: Soft | None = None
    for part in engine.map(lambda shard: kernel.expect(plan, rows, shard), shards_of(rows.n_rows)):
        if total is None:
            total = part
        else:
            info = {name: total.info[name] + part.info[name] for name in total.info}
            total = Soft(np.add(total.S, part.S, out=total.S), total.log_norm + part.log_norm, info)
    assert total is not None  # validation admits no empty data
    return total


def updated_statistics(
    rows: Rows, before: IntArray, after: IntArray, S: FloatArray, engine: Threads, *, others: bool = False
) -> FloatArray:
    """Statistics of labels `after`: from the rows that changed when they are few, afresh when they are many.

    Where `S` holds the statistics of `others` too, always from the rows that changed.
    """
    changed = np.flatnonzero(before != after)
    if not others and (2 * changed.size > rows.n_rows or before[changed].min(initial=0) < 0):
        return statistics(rows, after, S.shape[0], engine)
    S = S.copy()
    for chunk in (changed[a : a + MAX_TILE_ROWS] for a in range(0, changed.size, MAX_TILE_ROWS)):
        T = rows.family.sufficient(rows.X[chunk])
        weight = np.ones(chunk.size) if rows.weight is None else rows.weight[chunk]
        add_statistics(T, after[chunk], weight, S)
        add_statistics(T, before[chunk], -weight, S)
    S[:, -1] = np.maximum(S[:, -1], 0.0)  # a cluster that lost its last row may be left with -1e-16 of it
    return S


def statistics(rows: Rows, z: IntArray, n_components: int, engine: Threads) -> FloatArray:
    """(K, p): statistics of labels z (n,), summed over shards in order; rows labelled -1 count nowhere."""

    def of_shard(shard: slice) -> FloatArray:
        S = np.zeros((n_components, rows.family.width))
        for tile in rows.tiles(shard, 1):
            held = np.arange(tile.start, tile.stop)[z[tile] >= 0]
            if held.size:
                weight = None if rows.weight is None else rows.weight[held]
                add_statistics(rows.family.sufficient(rows.X[held]), z[held], weight, S)
        return S

    total = np.zeros((n_components, rows.family.width))
    for part in engine.map(of_shard, shards_of(rows.n_rows)):
        total += part
    return total


def add_statistics(T: Matrix, z: IntArray, weight: FloatArray | None, S: FloatArray) -> None:
    """S[z_i] += weight_i T_i, dense or CSR."""
    w = _NO_WEIGHT if weight is None else weight
    if sp.issparse(T):
        _softmax.add_sparse_rows(T.data, T.indices, T.indptr, z, w, S)
    else:
        _softmax.add_rows(T, z, w, S)
