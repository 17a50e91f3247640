"""What a clustering without k is unsure of: clusters that may be one, clusters that may be several, rows in between.

With n_g the size of cluster g of the point estimate, and N_t(g, c) how many of its rows cluster c of draw t holds,

    together(g, h) = mean over t of  sum_c N_t(g, c) N_t(h, c) / (n_g n_h)                    g and h may be one
    together(g, g) = mean over t of  sum_c N_t(g, c) (N_t(g, c) - 1) / (n_g (n_g - 1))        low: g may be several
    with(i, h)     = mean over t of  N_t(h, c_t(i)) / n_h                                     i may belong to h

are the means of co-clustering probabilities over pairs of rows, exactly, without the n x n matrix.
Cost: O(draws (n + K^2)).

    >>> Z = np.array([[0, 0, 1, 1], [0, 0, 0, 0]])
    >>> together(Z, np.array([0, 0, 1, 1]))
    array([[1. , 0.5],
           [0.5, 1. ]])
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weald._typing import FloatArray, IntArray

WORTH_SAYING = 0.02  # co-clustering of two clusters, or apartness within one


def together(Z: IntArray, labels: IntArray) -> FloatArray:
    """Mean co-clustering of the rows of two clusters, and of the rows of one.

    Parameters
    ----------
    Z : int array of shape (draws, n)
        Labels of each draw.
    labels : int array of shape (n,)
        Clusters 0..K-1, none empty.

    Returns
    -------
    array of shape (K, K)
        1 on the diagonal for a cluster of one row.
    """
    sizes = np.bincount(labels)
    pairs = sum((N @ N.T for _, N in _tables(Z, labels)), np.zeros((sizes.size, sizes.size))) / len(Z)
    out: FloatArray = pairs / np.outer(sizes, sizes)
    within = (np.diagonal(pairs) - sizes) / np.maximum(sizes * (sizes - 1), 1)
    out[np.diag_indices(sizes.size)] = np.where(sizes > 1, within, 1.0)
    return out


def with_clusters(Z: IntArray, labels: IntArray, rows: IntArray) -> FloatArray:
    """(draws, n), (n,), (m,) -> (m, K): mean co-clustering of some rows with all rows of each cluster."""
    sizes = np.bincount(labels)
    totals = sum((N[:, z[rows]] for z, N in _tables(Z, labels)), np.zeros((sizes.size, len(rows))))
    return np.asarray((totals / len(Z) / sizes[:, None]).T)


def merged(P: FloatArray, limit: int) -> list[tuple[int, int, float]]:
    """The pairs of clusters that are together most, from the (K, K) of `together`; only what is worth saying."""
    g, h = np.triu_indices(len(P), 1)
    best = np.argsort(-P[g, h], kind="stable")[:limit]
    return [(int(g[j]), int(h[j]), float(P[g[j], h[j]])) for j in best if P[g[j], h[j]] >= WORTH_SAYING]


def split(P: FloatArray, limit: int) -> list[tuple[int, float]]:
    """The clusters whose rows are together least, from the (K, K) of `together`; only what is worth saying."""
    within = np.diagonal(P)
    best = np.argsort(within, kind="stable")[:limit]
    return [(int(k), float(within[k])) for k in best if within[k] <= 1 - WORTH_SAYING]


def spread(labels: IntArray, uncertainty: FloatArray, limit: int) -> IntArray:
    """About `limit` rows for a picture, evenly from each cluster and at least one of each, the surest of it first."""
    order = np.lexsort((uncertainty, labels))
    even = np.linspace(0, len(order) - 1, min(limit, len(order))).astype(np.int64)
    first = np.searchsorted(labels[order], np.unique(labels))
    return np.asarray(order[np.union1d(even, first[:limit])])


def _tables(Z: IntArray, labels: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
    """Each draw with its contingency table (K, clusters of the draw)."""
    n_clusters = int(labels.max()) + 1
    for z in Z:
        width = int(z.max()) + 1
        counts = np.bincount(labels * width + z, minlength=n_clusters * width)
        yield z, counts.reshape(n_clusters, width).astype(np.float64)
