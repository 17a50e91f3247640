"""Lazy candidate lists: most rows look at a few clusters, some rows look at all.

Lemma (restricted Gibbs). For a set C chosen without looking at z: if z is in C, redraw it from p(z | x) restricted to
C, else keep it. This is Gibbs sampling on the block {z in C} and leaves p(z | x) invariant.

Every row owns a list: the clusters within `depth` nats of its best one when it was last scored in full, at most
`length`. In each sweep one row in `turn` is scored in full, drawn exactly and given a new list; the others are redrawn
within their lists by a few dot products. Full looks make the chain irreducible, estimate the log-likelihood without
bias, and count how many exact draws fall outside the old list (`n_outside`).

A list made from an older eta depends on the past: exact for fixed parameters, harmless for stochastic EM; strict MCMC
wants ``"exact"`` (Canopy specification 1.8, K2 and K3). Cost per sweep: n (length of lists) p + n K p / turn.

    >>> ListsAssignment(turn=20).turn
    20
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from weald._kernel import kernel, ordered
from weald._random import uniform
from weald._typing import Array, FloatArray, IntArray, Matrix
from weald.assign import _softmax
from weald.assign._softmax import LANES, _exp_group, _row_max, pick
from weald.assign.base import MAX_TILE_ROWS, TILE, AbstractAssignment, Memory, Part, Rows, Soft
from weald.assign.exact import ExactAssignment, padded_columns, score_matrix, score_tile


class Plan(NamedTuple):
    """What all shards of a sweep share: scores as a matrix (p, K), its transpose, and whose turn it is."""

    B: Array
    rows: Array
    phase: int


@dataclass(frozen=True)
class ListsAssignment(AbstractAssignment):
    """Redraw rows within short lists of candidates; score one row in `turn` in full.

    Parameters
    ----------
    length : int
        Most candidates of a row, at most 64.
    depth : float
        Nats below its best cluster at which a row's list ends.
    turn : int
        Sweeps between two full looks at a row.
    """

    length: int = 16
    depth: float = 6.0
    turn: int = 10

    @property
    def period(self) -> int:
        """A full look at each row in `turn` sweeps."""
        return self.turn

    def prepare(self, rows: Rows) -> np.dtype[Any]:
        """The dtype of the scores."""
        return ExactAssignment().prepare(rows)

    def refresh(self, plan: np.dtype[Any], eta: Array, log_w: Array, sweep: int) -> Plan:
        """(K, p), (K,) -> scores by column and by row."""
        B = score_matrix(eta, log_w, plan)
        return Plan(B, np.ascontiguousarray(B.T), sweep % self.turn)

    def blank(self, n_rows: int, n_components: int) -> Memory:
        """Empty lists; two bytes for each candidate where they suffice."""
        kind = np.uint16 if n_components <= 2**16 else np.int32
        length = min(self.length, n_components)
        return {"lists": np.zeros((n_rows, length), kind), "n_listed": np.zeros(n_rows, np.int8)}

    def sample(self, plan: Plan, rows: Rows, shard: slice, z: IntArray, memory: Memory, key: np.uint64) -> Part:
        """Full looks for the rows whose turn it is, or that have no list yet; lists for the others."""
        drawn = z.copy()
        lists, n_listed = memory["lists"].copy(), memory["n_listed"].copy()
        n_rows, K = drawn.size, plan.B.shape[1]
        first = not n_listed.all()
        step, phase = (1, 0) if first else (self.turn, (plan.phase - shard.start) % self.turn)
        n_dots = 0 if first else self._redraw(plan, rows, shard, drawn, (lists, n_listed), key, phase)
        log_norm, n_looked, n_outside = 0.0, 0, 0
        for looked in _strided(phase, n_rows, step, K):
            at = slice(shard.start + looked.start, shard.start + looked.stop, step)
            norms, outside = self._look(plan, rows, at, drawn[looked], lists[looked], n_listed[looked], key)
            log_norm += float(norms.sum() if rows.weight is None else norms @ rows.weight[at])
            n_looked, n_outside = n_looked + norms.size, n_outside + outside
        scale = n_rows / n_looked if n_looked else 0.0
        info = {"n_evals": float(n_dots + n_looked * K), "n_looked": float(n_looked), "n_outside": float(n_outside)}
        return Part(drawn, log_norm * scale, info, None, {"lists": lists, "n_listed": n_listed})

    def expect(self, plan: Plan, rows: Rows, shard: slice) -> Soft:
        """Expectations are exact: all clusters, all rows."""
        return ExactAssignment().expect(plan.B, rows, shard)

    def _redraw(
        self, plan: Plan, rows: Rows, shard: slice, z: IntArray, memory: tuple[Array, Array], key: np.uint64, phase: int
    ) -> int:
        """Redraw, within its list, every row of the shard whose turn it is not; count the dot products."""
        (lists, n_listed), n_dots = memory, 0
        for start in range(0, z.size, MAX_TILE_ROWS):
            tile = slice(start, min(start + MAX_TILE_ROWS, z.size))
            at = slice(shard.start + tile.start, shard.start + tile.stop)
            listed = listed_scores(rows.family.sufficient(rows.X[at]), plan.rows, lists[tile], n_listed[tile])
            skip = (phase - tile.start) % self.turn
            n_dots += redraw_within(listed, lists[tile], n_listed[tile], key, at.start, skip, self.turn, z[tile])
        return n_dots

    def _look(
        self, plan: Plan, rows: Rows, at: slice, z: IntArray, lists: Array, n_listed: Array, key: np.uint64
    ) -> tuple[FloatArray, int]:
        """Exact draws and new lists for the rows `at`; how many of the draws their old lists did not hold."""
        T = rows.family.sufficient(rows.X[at])
        scores = score_tile(T, plan.B, np.empty((T.shape[0], padded_columns(plan.B)), plan.B.dtype))
        if rows.known is not None:
            _softmax.clamp(scores, rows.known[at])
        norms, drawn = np.empty(T.shape[0]), np.empty(T.shape[0], np.int32)
        _softmax.draw(scores, key, np.arange(at.start, at.stop, at.step), drawn, norms)
        outside = count_outside(drawn, lists, n_listed)
        shortlist(scores, self.depth, lists, n_listed)
        z[:] = drawn
        return norms, outside


def _strided(phase: int, n_rows: int, step: int, n_components: int) -> Iterator[slice]:
    """Tiles of the rows phase, phase + step, ... below n_rows."""
    rows = step * max(16, TILE // n_components)
    for start in range(phase, n_rows, rows):
        yield slice(start, min(start + rows, n_rows), step)


def listed_scores(T: Matrix, E: Array, lists: IntArray, n_listed: IntArray) -> Array:
    """(rows, p), (K, p) -> (rows, length): <T_i, E_k> for the clusters k of each row's list, -inf beyond its end."""
    out = np.full(lists.shape, -np.inf, E.dtype)
    if sp.issparse(T):
        _sparse_dots(T.data, T.indices, T.indptr, E, lists, n_listed, out)
    else:
        _dense_dots(T, E, lists, n_listed, out)
    return out


@kernel
def _dense_dots(T: Array, E: Array, lists: IntArray, n_listed: IntArray, out: Array) -> None:
    for i in range(T.shape[0]):
        if n_listed[i] > 1:
            row = T[i]
            for j in range(n_listed[i]):
                candidate = E[lists[i, j]]
                total = row[0] * candidate[0]
                for q in range(1, row.shape[0]):
                    total += row[q] * candidate[q]
                out[i, j] = total


@kernel
def _sparse_dots(
    data: Array, indices: IntArray, indptr: IntArray, E: Array, lists: IntArray, n_listed: IntArray, out: Array
) -> None:
    for i in range(indptr.shape[0] - 1):
        if n_listed[i] > 1:
            for j in range(n_listed[i]):
                candidate = E[lists[i, j]]
                total = 0.0
                for q in range(indptr[i], indptr[i + 1]):
                    total += data[q] * candidate[indices[q]]
                out[i, j] = total


@ordered
def redraw_within(
    listed: Array, lists: IntArray, n_listed: IntArray, key: np.uint64, first: int, skip: int, turn: int, z: IntArray
) -> int:
    """z_i ~ softmax over the list of row i if it holds z_i; rows skip, skip + turn, ... are left alone.

    listed (rows, length) scores IN; z (rows,) IN/OUT; returns how many scores were used.
    """
    group, y = np.full(LANES, -np.inf, listed.dtype), np.empty(LANES, listed.dtype)
    lane = np.empty(LANES, listed.dtype)
    n_dots = 0
    for i in range(listed.shape[0]):
        n = n_listed[i]
        if n < 2 or i % turn == skip:
            continue
        n_dots += n
        held = False
        top = listed[i, 0]
        for j in range(listed.shape[1]):
            group[j] = listed[i, j]
            top = max(top, listed[i, j])
            held |= j < n and lists[i, j] == z[i]
        if held:
            lane[:] = 0.0
            _exp_group(group, top, y, lane)
            chosen, _ = pick(uniform(key, first + i, 0) * np.sum(y), y, n)
            z[i] = lists[i, chosen]
    return n_dots


@kernel
def count_outside(z: IntArray, lists: IntArray, n_listed: IntArray) -> int:
    """How many rows have a list, and a label that it does not hold."""
    outside = 0
    for i in range(z.shape[0]):
        held = n_listed[i] == 0
        for j in range(n_listed[i]):
            held |= lists[i, j] == z[i]
        outside += not held
    return outside


@ordered
def shortlist(scores: Array, depth: float, lists: IntArray, n_listed: IntArray) -> None:
    """New lists: the clusters at most `depth` below a row's best, fewer where they would not fit.

    scores (rows, 64 g) IN; lists (rows, length) OUT; n_listed (rows,) OUT.
    """
    scratch, found = np.empty(LANES, scores.dtype), np.empty(scores.shape[1], np.int64)
    for i in range(scores.shape[0]):
        top = _row_max(scores[i], scratch)
        reach = depth
        n = _within(scores[i], top, reach, scratch, found)
        while n > lists.shape[1] and reach > 1e-3:
            reach *= 0.75
            scratch[0] = top - reach
            n = _keep_above(scores[i], scratch[0], found, n)
        n_listed[i] = min(n, lists.shape[1])
        for j in range(n_listed[i]):
            lists[i, j] = found[j]


@ordered
def _within(row: Array, top: Any, reach: float, scratch: Array, found: IntArray) -> int:
    """Columns of a row at most `reach` below its top, into `found`; groups without any are passed over."""
    scratch[0] = top - reach
    threshold = scratch[0]
    n = 0
    for g in range(row.shape[0] // LANES):
        group = row[g * LANES : (g + 1) * LANES]
        above = np.int32(0)
        for j in range(LANES):
            above += np.int32(group[j] >= threshold)
        if above > 0:
            for j in range(LANES):
                if group[j] >= threshold:
                    found[n] = g * LANES + j
                    n += 1
    return n


@kernel
def _keep_above(row: Array, threshold: Any, found: IntArray, n: int) -> int:
    """The first n columns in `found` whose score reaches the threshold, moved to its front."""
    kept = 0
    for j in range(n):
        if row[found[j]] >= threshold:
            found[kept] = found[j]
            kept += 1
    return kept
