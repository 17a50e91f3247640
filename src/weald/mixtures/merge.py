"""Merge moves of variational Bayes: two components become one when that raises the bound.

With q(eta) and q(w) at their optimum for responsibilities r, the bound is (Bishop 2006, 10.2.2; conjugacy)

    L(r) = sum_k log m(S_k) + log m(n) + sum_i H(r_i) + sum_i log h(x_i),

m(S) the evidence of statistics and m(n) that of counts. Giving component b's responsibilities to a changes it by

    dL = log m(S_a + S_b) - log m(S_a) - log m(S_b) + d log m(n)
         - sum_i [ (r_a + r_b) log(r_a + r_b) - r_a log r_a - r_b log r_b ]_i.

The last sum is never negative, so the first line bounds dL from above: only neighbours for which it is positive cost a
pass over the data. Without such moves the halves of a split cluster part only after thousands of sweeps.
Reference: Hughes & Sudderth (2013), memoized online variational inference.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import xlogy

from weald._typing import Array, FloatArray, IntArray
from weald.assign import Rows, _softmax
from weald.assign.exact import buffer_for, score_matrix, score_tile
from weald.engine import Threads, shards_of
from weald.families.base import AbstractFamily
from weald.partitions import FiniteDirichlet, TruncatedSticks

Weights = FiniteDirichlet | TruncatedSticks
NEIGHBOURS = 4
MOST_PAIRS = 32


def merged(
    S: FloatArray, eta: Array, log_w: Array, rows: Rows, prior: Weights, engine: Threads
) -> tuple[FloatArray, int]:
    """Statistics (K, p) after all merges that raise the bound, and their number.

    `S` are the statistics of the responsibilities that `eta` (K, p) and `log_w` (K,) imply.
    """
    pairs, gain = _promising(S, rows.family, prior)
    if not len(pairs):
        return S, 0
    gain = gain - lost_entropy(pairs, eta, log_w, rows, engine)
    S, taken = S.copy(), set[int]()
    for (a, b), rise in sorted(zip(pairs.tolist(), gain, strict=True), key=lambda item: -item[1]):
        if rise > 0 and not taken & {a, b}:
            S[a] += S[b]
            S[b] = 0.0
            taken |= {a, b}
    return S, len(taken) // 2


def _promising(S: FloatArray, family: AbstractFamily, prior: Weights) -> tuple[IntArray, FloatArray]:
    """Pairs (m, 2) of neighbouring components, best first, whose upper bound of the gain (m,) is positive."""
    held = np.flatnonzero(S[:, -1] > 1e-3)
    if held.size < 2:
        return np.empty((0, 2), np.int64), np.empty(0)
    means = S[held, :-1] / S[held, -1:]
    near = np.argsort(cdist(means, means), axis=1)[:, 1 : NEIGHBOURS + 1]
    pairs = np.array(sorted({(min(i, j), max(i, j)) for i, row in enumerate(near.tolist()) for j in row}))
    pairs = held[pairs]
    gain = _evidence_gain(S, pairs, family, prior)
    best = np.argsort(-gain)[:MOST_PAIRS]
    best = best[gain[best] > 0]
    return pairs[best], gain[best]


def _evidence_gain(S: FloatArray, pairs: IntArray, family: AbstractFamily, prior: Weights) -> FloatArray:
    a, b = S[pairs[:, 0]], S[pairs[:, 1]]
    of_counts = prior.merge_gain(S[:, -1], pairs)
    if family.n_shared_parameters == 0:
        return family.log_marginal(a + b) - family.log_marginal(a) - family.log_marginal(b) + of_counts
    now = family.log_evidence(S)
    after = [family.log_evidence(np.concatenate([np.delete(S, pair, axis=0), S[pair].sum(0)[None]])) for pair in pairs]
    return np.array(after) - now + of_counts


def lost_entropy(pairs: IntArray, eta: Array, log_w: Array, rows: Rows, engine: Threads) -> FloatArray:
    """(m,): entropy of the responsibilities that merging each pair gives up, one pass over the data."""
    B = score_matrix(eta, log_w, np.dtype(rows.family.sufficient(rows.X[:1]).dtype))

    def of_shard(shard: slice) -> FloatArray:
        total = np.zeros(len(pairs))
        buffer = buffer_for(rows, shard, B)
        for tile in rows.tiles(shard, B.shape[1]):
            R = score_tile(rows.family.sufficient(rows.X[tile]), B, buffer)
            _softmax.normalise(R, np.empty(R.shape[0]))
            r_a, r_b = R[:, pairs[:, 0]].astype(np.float64), R[:, pairs[:, 1]].astype(np.float64)
            lost = xlogy(r_a + r_b, r_a + r_b) - xlogy(r_a, r_a) - xlogy(r_b, r_b)
            total += lost.sum(0) if rows.weight is None else rows.weight[tile] @ lost
        return total

    return np.sum(list(engine.map(of_shard, shards_of(rows.n_rows))), axis=0)
