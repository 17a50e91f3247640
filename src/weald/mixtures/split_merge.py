"""Split-merge moves with sequential allocation: whole clusters are born and die in one step.

Gibbs sampling moves one row at a time and cannot cross the valley between one cluster and two. A move picks two
anchor rows i, j, cuts the rows of their clusters into pieces and puts these in random order; all of this without a
look at which of the two clusters a row is in. A begins with the piece of i, B with that of j; then

    each piece q in turn goes to A or B with probability proportional to  phi(A u q)/phi(A),  phi(B u q)/phi(B),

phi(c) = (1 - sigma)_{n_c - 1} m(c). If i and j share a cluster c, its split into A and B is proposed, and q is the
product of the probabilities of what was drawn. If not, the merger of theirs is proposed, and q is that of drawing the
two clusters as they are; a piece that has rows of both makes it impossible. A split is accepted with probability
min(1, r), a merger with min(1, 1/r),

    r = V_{n,k+1}/V_{n,k}  phi(A) phi(B) / [phi(c) q],          k the number of clusters when merged.

All factors but the ratio of the V are products over the rows in their order, as phi(A u x)/phi(A) is the predictive
(n_A - sigma) p(x | A): A, B and c grow side by side in three spare columns of the law. A piece of several rows joins
both A and B, which are kept in two more columns, and the one that does not get it is put back.

`split_merge` draws the anchors uniformly, and pieces are single rows; pieces that are branches of a tree are in
`weald.mixtures.tree_guided`. Cost of a move: three scores and two joins for each row of the clusters concerned (and
three copies for each piece of several rows), and one pass over the labels.
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

SPARE = 6  # columns beyond the clusters: A, B, their union, A and B before a piece, and one that stays empty
SPLITS, MERGES = 2, 3  # where in the tally
ANCHOR, OTHER, ACCEPT, BRANCH, GRAIN, ORDER, SIDE = range(7)  # what random numbers are for; the last two by rows


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
        i, j = int(uniform(key, ANCHOR, move) * z.size), int(uniform(key, OTHER, move) * (z.size - 1))
        j += j >= i
        if lacking(law, z, k, i, j, log_ratio):
            return move, k
        members, ends = single_rows(z, i, j, key, move)
        k = settle(law, z, k, z[i], z[j], members, ends, key, move, log_size, log_ratio, log_p, tally)
    return stop, k


@either
def lacking(law: Law, z: IntArray, k: int, i: int, j: int, log_ratio: FloatArray) -> bool:
    """Whether a move with anchors i and j has too few columns, or no ratio."""
    return k + SPARE > law.size.size or math.isnan(log_ratio[k if z[i] == z[j] else k - 1])


@kernel
def single_rows(z: IntArray, i: int, j: int, key: np.uint64, move: int) -> tuple[IntArray, IntArray]:
    """Members of the clusters of i and j, in random order after these two; and where pieces end: after each."""
    a, b = z[i], z[j]
    members = np.empty(z.size, np.int64)
    members[0], members[1], m = i, j, 2
    for row in range(z.size):
        if (z[row] == a or z[row] == b) and row != i and row != j:
            other = 2 + int(uniform(key, ORDER + 2 * row, move) * (m - 1))  # insert at a random place
            members[m], members[other] = members[other], row
            m += 1
    return members[:m], np.arange(1, m + 1)


@either
def settle(
    law: Law,
    z: IntArray,
    k: int,
    a: int,
    b: int,
    members: IntArray,
    ends: IntArray,
    key: np.uint64,
    move: int,
    log_size: FloatArray,
    log_ratio: FloatArray,
    log_p: FloatArray,
    tally: IntArray,
) -> int:
    """Propose and decide a move of clusters a and b, which may be one; returns the number of clusters.

    Piece p is members[ends[p - 1]:ends[p]]; the first holds the anchor from a, the second that from b.
    """
    sides = np.full(ends.size, -1, np.int8)
    if a != b and not read_sides(z, b, members, ends, sides):
        return k
    log_r = log_ratio[k if a == b else k - 1]
    log_r += allocate(law, members, ends, sides, k, key, move, log_size, log_p)
    accepted = math.log(1.0 - uniform(key, ACCEPT, move)) < (log_r if a == b else -log_r)
    if accepted and a == b:
        copy(law, k, a)
        copy(law, k + 1, k)
        for p in range(1, ends.size):
            if sides[p] == 1:
                z[members[ends[p - 1] : ends[p]]] = k
        tally[SPLITS] += 1
    elif accepted:
        copy(law, k + 2, a)
        z[members] = a
        tally[MERGES] += 1
    grown = int(accepted and a == b)
    for column in range(k + grown, k + SPARE - 1):
        if law.size[column] > 0:
            copy(law, law.size.size - 1, column)
    if accepted and a != b:
        drop(law, z, b, k)
        return k - 1
    return k + grown


@kernel
def read_sides(z: IntArray, b: int, members: IntArray, ends: IntArray, sides: IntArray) -> bool:
    """Write which pieces are of cluster b; False where one has rows of another cluster too."""
    first = 0
    for p in range(ends.size):
        sides[p] = z[members[first]] == b
        for t in range(first + 1, ends[p]):
            if (z[members[t]] == b) != sides[p]:
                return False
        first = ends[p]
    return True


@either
def allocate(
    law: Law,
    members: IntArray,
    ends: IntArray,
    sides: IntArray,
    k: int,
    key: np.uint64,
    move: int,
    log_size: FloatArray,
    log_p: FloatArray,
) -> float:
    """Share the pieces out to columns k and k + 1, and all of them to k + 2; returns log r but for the V.

    `sides` says where each goes; -1: drawn, and written there.
    """
    log_r, first = 0.0, 0
    for p in range(ends.size):
        tried = p > 1 and ends[p] - first > 1
        if tried:
            copy(law, k, k + 3)
            copy(law, k + 1, k + 4)
        log_a = log_b = log_union = 0.0
        for t in range(first, ends[p]):
            row = members[t]
            score(law, row, k, k + 3, log_p)
            log_a += log_p[k] + log_size[law.size[k]]
            log_b += log_p[k + 1] + log_size[law.size[k + 1]]
            log_union += log_p[k + 2] + log_size[law.size[k + 2]]
            join(law, row, k + 2)
            if tried or p == 0:
                join(law, row, k)
            if tried or p == 1:
                join(law, row, k + 1)
        side, log_q = p, 0.0
        if p > 1:
            log_to_b = -soft_plus(log_a - log_b)
            drawn = uniform(key, SIDE + 2 * members[first], move) < math.exp(log_to_b)
            side = sides[p] if sides[p] >= 0 else int(drawn)
            log_q = log_to_b if side == 1 else log_to_b + log_a - log_b
            if tried:
                copy(law, k + 4 - side, k + 1 - side)
            else:
                join(law, members[first], k + side)
        sides[p], first = side, ends[p]
        log_r += (log_b if side == 1 else log_a) - log_union - log_q
    return log_r


@kernel
def soft_plus(x: float) -> float:
    """Log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
