"""Exact assignment: every cluster is scored for every row.

    s_ik = <T_i, eta_k> + log w_k,     z_i ~ softmax(s_i)    or    r_ik = softmax(s_i)_k   (journal (83))

One matrix product per tile gives all scores (log w is folded into the last column of eta, where T is 1), one
uniform per row draws the label. Cost n K p multiply-adds plus about 0.5 ns per score; see `weald.assign._softmax`.
This is the reference that every faster kernel is tested against and raced with.

    >>> ExactAssignment()
    ExactAssignment()
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from weald._typing import Array, FloatArray, IntArray, Matrix
from weald.assign import _softmax
from weald.assign.base import TILE, AbstractAssignment, Memory, Part, Rows, Soft, add_statistics


def score_matrix(eta: Array, log_w: Array, dtype: np.dtype[Any]) -> Array:
    """(K, p), (K,) -> (p, K): eta with log w folded into its last entry, transposed for the product with T."""
    folded = np.array(eta, np.float64)
    folded[:, -1] += log_w
    return np.ascontiguousarray(folded.T, dtype=dtype)


def score_tile(T: Matrix, B: Array, out: Array) -> Array:
    """T (rows, p) times B (p, K) into the left columns of `out` (>= rows, 64 g); returns those rows of `out`."""
    scores = out[: T.shape[0]]
    K = B.shape[1]
    if sp.issparse(T):
        scores[:, :K] = T @ B
    else:
        np.matmul(T, B, out=scores[:, :K])
    scores[:, K:] = -np.inf
    return scores


def soft_statistics(R: Array, T: Matrix) -> FloatArray:
    """R.T @ T (K, p) in float64 for a tile of responsibilities R (rows, K)."""
    product = (T.T @ R).T if sp.issparse(T) else R.T @ T
    return np.asarray(product, np.float64)


def padded_columns(B: Array) -> int:
    """Columns of a tile of scores: whole groups, and rows never a page apart, for those would share cache sets."""
    columns = -(-B.shape[1] // _softmax.LANES) * _softmax.LANES
    return columns + _softmax.LANES if columns * B.dtype.itemsize % 2048 == 0 else columns


def buffer_for(rows: Rows, shard: slice, B: Array) -> Array:
    """An array for the scores of one tile of the shard."""
    tallest = max(tile.stop - tile.start for tile in rows.tiles(shard, B.shape[1]))
    return np.empty((tallest, padded_columns(B)), B.dtype)


def look(
    B: Array, rows: Rows, at: IntArray, key: np.uint64, known: IntArray | None = None
) -> tuple[IntArray, FloatArray]:
    """Draw the rows `at` (m,) exactly among the columns of B (p, k): their columns (m,) and log normalisers (m,).

    `known` (m,): columns that are known, -1 where none is.
    """
    T = rows.family.sufficient(rows.X[at])
    scores = score_tile(T, B, np.empty((at.size, padded_columns(B)), B.dtype))
    if known is not None:
        _softmax.clamp(scores, known)
    drawn, norms = np.empty(at.size, np.int32), np.empty(at.size)
    _softmax.draw(scores, key, at, drawn, norms)
    return drawn, norms


def look_at(
    B: Array, rows: Rows, at: IntArray, key: np.uint64, place: IntArray | None = None
) -> tuple[IntArray, float]:
    """`look` in tiles: the columns drawn for rows `at` (m,), and their weighted sum of log normalisers.

    `place` (K,): the column of each cluster, where they are not in order.
    """
    known = np.full(at.size, -1, np.int32) if rows.known is None else rows.known[at]
    if place is not None:
        known = np.where(known >= 0, place[known], -1).astype(np.int32)
    step = max(16, TILE // max(B.shape))
    drawn, log_norm = np.empty(at.size, np.int32), 0.0
    for tile in (slice(a, a + step) for a in range(0, at.size, step)):
        drawn[tile], norms = look(B, rows, at[tile], key, known[tile])
        log_norm += float(norms.sum() if rows.weight is None else norms @ rows.weight[at[tile]])
    return drawn, log_norm


@dataclass(frozen=True)
class ExactAssignment(AbstractAssignment):
    """Score all clusters for all rows, with a matrix product per tile."""

    @property
    def period(self) -> int:
        """Every row, every sweep."""
        return 1

    @property
    def layout(self) -> str:
        """No matter."""
        return "parts"

    def prepare(self, rows: Rows) -> np.dtype[Any]:
        """The dtype of the scores: that of T."""
        return np.dtype(rows.family.sufficient(rows.X[:1]).dtype)

    def refresh(
        self, plan: np.dtype[Any], eta: Array, log_w: Array, sweep: int, shared: Memory
    ) -> tuple[Array, Memory]:
        """(K, p), (K,) -> the matrix (p, K) that turns T into scores."""
        return score_matrix(eta, log_w, plan), {}

    def blank(self, n_rows: int, n_components: int) -> Memory:
        """Nothing is remembered."""
        return {}

    def sample(self, plan: Array, rows: Rows, shard: slice, z: IntArray, memory: Memory, key: np.uint64) -> Part:
        """Draw z from its full conditional; the current `z` plays no part."""
        p, K = plan.shape
        S = np.zeros((K, p))
        drawn = np.empty(shard.stop - shard.start, np.int32)
        log_norm, n_exp = 0.0, 0
        buffer = buffer_for(rows, shard, plan)
        for tile in rows.tiles(shard, K):
            T = rows.family.sufficient(rows.X[tile])
            scores = self._scores(T, plan, rows, tile, buffer)
            labels, norms = drawn[tile.start - shard.start : tile.stop - shard.start], np.empty(T.shape[0])
            n_exp += _softmax.draw(scores, key, np.arange(tile.start, tile.stop), labels, norms)
            weight = None if rows.weight is None else rows.weight[tile]
            add_statistics(T, labels, weight, S)
            log_norm += float(norms.sum() if weight is None else norms @ weight)
        return Part(drawn, log_norm, {"n_evals": float(drawn.size * K), "n_exp": float(n_exp)}, S)

    def expect(self, plan: Array, rows: Rows, shard: slice) -> Soft:
        """Responsibilities, and the statistics they weigh."""
        p, K = plan.shape
        S = np.zeros((K, p))
        log_norm = 0.0
        buffer = buffer_for(rows, shard, plan)
        for tile in rows.tiles(shard, K):
            T = rows.family.sufficient(rows.X[tile])
            R = self._scores(T, plan, rows, tile, buffer)
            norms = np.empty(T.shape[0])
            _softmax.normalise(R, norms)
            weight = None if rows.weight is None else rows.weight[tile]
            if weight is not None:
                R *= weight[:, None].astype(R.dtype)
                norms *= weight
            S += soft_statistics(R[:, :K], T)
            log_norm += float(norms.sum())
        return Soft(S, log_norm, {"n_evals": float((shard.stop - shard.start) * K)})

    def _scores(self, T: Matrix, plan: Array, rows: Rows, tile: slice, buffer: Array) -> Array:
        scores = score_tile(T, plan, buffer)
        if rows.known is not None:
            _softmax.clamp(scores, rows.known[tile])
        return scores
