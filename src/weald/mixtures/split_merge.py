"""Split-merge moves with sequential allocation: whole clusters are born and die in one step.

Gibbs sampling moves one row at a time and cannot cross the valley between one cluster and two. A move picks two
anchor rows i, j at random, and a random order of the other rows of their clusters; then, with A = {i}, B = {j},

    each row in turn goes to A or B with probability proportional to  (n_A - sigma) p(x | A),  (n_B - sigma) p(x | B).

If i and j share a cluster c, its split into A and B is proposed, and q is the product of the probabilities of what was
drawn. If not, the merger of theirs is proposed, and q is that of drawing the two clusters as they are. Anchors and
order do not depend on the partition, so a split is accepted with probability min(1, r), a merger with min(1, 1/r),

    r = V_{n,k+1} (1 - sigma)_{n_A - 1} (1 - sigma)_{n_B - 1} m(A) m(B) / [V_{n,k} (1 - sigma)_{n_c - 1} m(c) q],

k the number of clusters when merged. All factors but the ratio of the V are products over the rows in their order, as
m(A) is a product of predictives: A, B and c grow side by side in three spare columns of the law.

Cost of a move: three scores and two joins for each row of the clusters concerned, and one pass over the labels.
References: D. Dahl, Sequentially-allocated merge-split sampler (2005); S. Jain, R. Neal, JCGS 13 (2004).

    >>> kernel = CollapsedKernel(rows, DirichletProcess(), n_moves=10)      # doctest: +SKIP
"""

from __future__ import annotations

import math

import numpy as np

from weald._kernel import kernel
from weald._random import uniform
from weald._typing import FloatArray, IntArray
from weald.mixtures._predictive import Law, copy, drop, either, join, score

SPARE = 4  # columns beyond the clusters: A, B, their union, and one that stays empty
SPLITS, MERGES = 2, 3  # where in the tally


@kernel
def split_merge(
    law: Law,
    z: IntArray,
    k: int,
    start: int,
    stop: int,
    key: np.uint64,
    log_size: FloatArray,
    log_ratio: FloatArray,
    log_p: FloatArray,
    tally: IntArray,
) -> tuple[int, int]:
    """Moves start, ..., stop - 1 of labels z (n,) in k clusters.

    Parameters
    ----------
    law : Law
        Its first k columns are the clusters, the others are empty.
    z : (n,) array of int32
        Labels 0, ..., k - 1; changed in place, as is the law.
    k, start, stop : int
        Number of clusters; the first move; where to end.
    key : uint64
        All randomness.
    log_size : (n + 1,) array
        log(m - sigma), 0 for m = 0.
    log_ratio : (capacity,) array
        log V_{n,k+1}/V_{n,k} at k, NaN where not known yet.
    log_p : (capacity,) array
        Work.
    tally : (4,) array of int
        Accepted splits and mergers are counted here.

    Returns
    -------
    move, k : int
        The first move that was not made, for lack of columns or of a ratio, and the number of clusters.
    """
    for move in range(start, stop):
        a, b, members = anchored(z, key, move)
        merged = k if a == b else k - 1
        if k + SPARE > law.size.size or math.isnan(log_ratio[merged]):
            return move, k
        sides = np.full(members.size, -1, np.int8) if a == b else (z[members] == b).astype(np.int8)
        log_r = log_ratio[merged] + allocate(law, members, sides, k, key, move, log_size, log_p)
        accepted = math.log(1.0 - uniform(key, 2, move)) < (log_r if a == b else -log_r)
        if accepted and a == b:
            copy(law, k, a)
            copy(law, k + 1, k)
            z[members[sides == 1]] = k
        elif accepted:
            copy(law, k + 2, a)
            z[members] = a
        for column in range(k + int(accepted and a == b), k + 3):
            copy(law, law.size.size - 1, column)
        if accepted and a == b:
            tally[SPLITS] += 1
            k += 1
        elif accepted:
            tally[MERGES] += 1
            drop(law, z, b, k)
            k -= 1
    return stop, k


@kernel
def anchored(z: IntArray, key: np.uint64, move: int) -> tuple[int, int, IntArray]:
    """Clusters of two random rows, and their members: the two rows first, the others in random order."""
    n = z.size
    i, j = int(uniform(key, 0, move) * n), int(uniform(key, 1, move) * (n - 1))
    j += j >= i
    a, b = z[i], z[j]
    members = np.empty(n, np.int64)
    members[0], members[1], m = i, j, 2
    for row in range(n):
        if (z[row] == a or z[row] == b) and row != i and row != j:
            other = 2 + int(uniform(key, 3 + 2 * row, move) * (m - 1))  # insert at a random place
            members[m], members[other] = members[other], row
            m += 1
    return a, b, members[:m]


@either
def allocate(
    law: Law,
    members: IntArray,
    sides: IntArray,
    k: int,
    key: np.uint64,
    move: int,
    log_size: FloatArray,
    log_p: FloatArray,
) -> float:
    """Share the members out to columns k and k + 1, and all of them to k + 2; returns log r but for the V.

    `sides` says where each goes; -1: drawn, and written there.
    """
    log_r = 0.0
    for t in range(members.size):
        row = members[t]
        score(law, row, k, k + 3, log_p)
        for j in range(k, k + 3):
            log_p[j] += log_size[law.size[j]]
        side, log_q = t, 0.0
        if t > 1:
            log_odds = log_p[k + 1] - log_p[k]
            log_b = -soft_plus(-log_odds)
            side = sides[t] if sides[t] >= 0 else int(uniform(key, 4 + 2 * row, move) < math.exp(log_b))
            log_q = log_b if side == 1 else log_b - log_odds
        sides[t] = side
        log_r += log_p[k + side] - log_p[k + 2] - log_q
        join(law, row, k + side)
        join(law, row, k + 2)
    return log_r


@kernel
def soft_plus(x: float) -> float:
    """Log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
