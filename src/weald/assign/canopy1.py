"""Canopy I: proposals from alias tables that neighbouring rows share, corrected by Metropolis-Hastings.

Rows are put into m cells once, each with a surrogate, the mean statistic T_c of its rows. Every sweep builds one alias
table for each cell,

    q_c(z) = (1 - mix) softmax(temper <T_c, eta> + temper log w)_z + mix w_z,

and every row makes `steps` independence moves: z' ~ q_c in O(1), accepted with probability

    min(1, exp( s_z'(x) - s_z(x) + log q_c(z) - log q_c(z') )),        s_z(x) = <T(x), eta_z> + log w_z.

Exact for any cells and surrogates: detailed balance needs only that q is the law that was drawn from, and positive
wherever p is (hence the share `mix` of the prior). Tables come from the current parameters, never from z: nothing is
remembered from sweep to sweep. One row in `turn` is scored in full and drawn exactly, which estimates the
log-likelihood without bias and moves rows whose second-best cluster the cell does not see.

Cost per sweep: m K p for the tables, n `steps` p for the moves. In few dimensions labels renew almost as in exact
sampling; in 30 or more a cell cannot localise a row, and hardly any proposal that matters is accepted: speed per sweep
is no speed then. Canopy supplement (000) 1 and A; specification 1.4 and 1.7.

    >>> CanopyAssignment(steps=4).steps
    4
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.cluster import KMeans

from weald._kernel import kernel
from weald._random import bits, uniform
from weald._typing import Array, FloatArray, IntArray
from weald.assign.base import AbstractAssignment, Memory, Part, Rows, Soft, statistics
from weald.assign.exact import ExactAssignment, look_at, score_matrix
from weald.engine import Threads, one_thread
from weald.trees.alias import alias_draw, build_rows

SAMPLE = 20  # rows for each cell that k-means looks at


class Cells(NamedTuple):
    """The cell of each row (n,), the surrogate of each cell (m, p), and the dtype of scores."""

    of_row: IntArray
    surrogate: FloatArray
    dtype: np.dtype[Any]


class Plan(NamedTuple):
    """What all shards of a sweep share: scores as a matrix and by row, cells, and their tables (m, K)."""

    B: Array
    E: Array
    of_row: IntArray
    threshold: Array
    alias: Array
    log_q: Array
    phase: int


@dataclass(frozen=True)
class CanopyAssignment(AbstractAssignment):
    """Alias-table proposals for cells of rows, with Metropolis-Hastings correction.

    Parameters
    ----------
    n_cells : int
        Cells of rows, made by k-means.
    steps : int
        Moves of each row in a sweep.
    temper : float
        Power of the surrogate's posterior in the proposal.
    mix : float
        Share of the prior in the proposal.
    turn : int
        Sweeps between two full looks at a row.
    """

    n_cells: int = 1024
    steps: int = 4
    temper: float = 0.5
    mix: float = 0.02
    turn: int = 25

    @property
    def period(self) -> int:
        """A full look at each row in `turn` sweeps."""
        return self.turn

    def prepare(self, rows: Rows) -> Cells:
        """Cells by k-means on a sample of rows, every row in its nearest, cells without rows dropped."""
        m = min(self.n_cells, rows.n_rows)
        rng = np.random.default_rng(0)
        chosen = np.sort(rng.choice(rows.n_rows, min(rows.n_rows, max(10_000, SAMPLE * m)), replace=False))
        nearest = KMeans(m, init="random", n_init=1, max_iter=5, random_state=0)
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer distinct rows than cells: some stay empty and are dropped
            nearest.fit(rows.family.coordinates(rows.X[chosen]))
            tiles = rows.tiles(slice(0, rows.n_rows), m)
            found = np.concatenate([nearest.predict(rows.family.coordinates(rows.X[tile])) for tile in tiles])
        held, of_row = np.unique(found, return_inverse=True)
        S = statistics(Rows(rows.X, rows.family), of_row.astype(np.int32), held.size, Threads())
        return Cells(of_row.astype(np.int32), S / S[:, -1:], ExactAssignment().prepare(rows))

    def refresh(self, plan: Cells, eta: Array, log_w: Array, sweep: int) -> Plan:
        """Tables from the current parameters."""
        log_w = log_w - logsumexp(log_w)
        B = score_matrix(eta, log_w, plan.dtype)
        scores = self.temper * (plan.surrogate @ score_matrix(eta, log_w, np.dtype(np.float64)))
        Q = (1.0 - self.mix) * np.exp(scores - logsumexp(scores, axis=1, keepdims=True)) + self.mix * np.exp(log_w)
        threshold, alias = np.empty(Q.shape, np.float32), np.empty(Q.shape, np.int32)
        build_rows(Q, threshold, alias)
        log_q = np.log(Q).astype(plan.dtype)
        return Plan(B, np.ascontiguousarray(B.T), plan.of_row, threshold, alias, log_q, sweep % self.turn)

    def blank(self, n_rows: int, n_components: int) -> Memory:
        """Nothing is remembered."""
        return {}

    def sample(self, plan: Plan, rows: Rows, shard: slice, z: IntArray, memory: Memory, key: np.uint64) -> Part:
        """Moves for all rows but those whose turn it is to be drawn exactly."""
        drawn = z.copy()
        first = (plan.phase - shard.start) % self.turn
        looked = np.arange(shard.start + first, shard.stop, self.turn)
        drawn[first :: self.turn], log_norm = look_at(plan.B, rows, looked, key)
        n_proposed = n_accepted = 0
        for tile in rows.tiles(shard, 1):
            T = rows.family.sufficient(rows.X[tile])
            T = T.toarray() if sp.issparse(T) else T
            labels = drawn[tile.start - shard.start : tile.stop - shard.start]
            skip = (plan.phase - tile.start) % self.turn
            cell, tables = plan.of_row[tile], (plan.threshold, plan.alias, plan.log_q)
            counts = propose(T, plan.E, cell, *tables, key, tile.start, skip, self.turn, self.steps, labels)
            n_proposed, n_accepted = n_proposed + counts[0], n_accepted + counts[1]
        info = {
            "n_evals": float(n_proposed + drawn.size + looked.size * plan.B.shape[1]),
            "n_looked": float(looked.size), "n_proposed": float(n_proposed), "n_accepted": float(n_accepted),
        }  # fmt: skip
        return Part(drawn, log_norm * (drawn.size / looked.size if looked.size else 0.0), info)

    def expect(self, plan: Plan, rows: Rows, shard: slice) -> Soft:
        """Expectations are exact: all clusters, all rows."""
        return ExactAssignment().expect(plan.B, rows, shard)


@kernel
def _score(t: Array, e: Array) -> float:
    total = 0.0
    for q in range(t.shape[0]):
        total += t[q] * e[q]
    return total


@kernel
def propose(
    T: Array, E: Array, cell: IntArray, threshold: Array, alias: IntArray, log_q: Array,
    key: np.uint64, first: int, skip: int, turn: int, steps: int, z: IntArray,
) -> tuple[int, int]:  # fmt: skip
    """`steps` independence moves of each row of T (rows, p); rows skip, skip + turn, ... are left alone.

    z (rows,) IN/OUT, -1 where a row has no label yet and is given one from its table. Returns how many moves were
    proposed and accepted.
    """
    proposed, accepted = 0, 0
    for i in range(T.shape[0]):
        if i % turn == skip:
            continue
        c, k = cell[i], z[i]
        if k < 0:
            k = alias_draw(threshold[c], alias[c], bits(key, first + i, 1))
        weight = _score(T[i], E[k]) - log_q[c, k]
        for step in range(steps):
            new = alias_draw(threshold[c], alias[c], bits(key, first + i, 2 + 2 * step))
            proposed += 1
            if new == k:
                accepted += 1
                continue
            new_weight = _score(T[i], E[new]) - log_q[c, new]
            if np.log(1.0 - uniform(key, first + i, 3 + 2 * step)) < new_weight - weight:
                accepted += 1
                k, weight = new, new_weight
        z[i] = k
    return proposed, accepted
