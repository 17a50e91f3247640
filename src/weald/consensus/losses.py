"""Losses between partitions, and the checks that come before them.

With a_k, b_c and n_kc the sizes of the clusters of z, of a draw, and of their intersections, both losses are

    d(z, draw) = 1/s sum_kc n_kc (u(a_k) + u(b_c) - 2 u(n_kc))
    "vi"       u(x) = log x, s = n      variation of information, in nats
    "binder"   u(x) = x,     s = n^2    the share of ordered pairs together in one and apart in the other

A draw is compared in O(n), whatever the number of clusters.
Reference: Meilă, J. Multivariate Analysis 98 (2007), 873-895.

    >>> distances(np.array([0, 0, 1]), np.array([[0, 0, 1], [0, 1, 2]]), "binder")
    array([0.        , 0.22222222])
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from weald._kernel import kernel
from weald._typing import Array, FloatArray, IntArray
from weald.exceptions import ParameterError


def canonical(z: IntArray, order: Literal["appearance", "size"] = "appearance") -> IntArray:
    """Labels 0, 1, ... in order of first appearance, or from the largest cluster to the smallest.

    Parameters
    ----------
    z : int array of shape (n,)
    order : {"appearance", "size"}
        Clusters of the same size stay in order of first appearance.

    Returns
    -------
    int array of shape (n,)
    """
    z = np.asarray(z)
    if z.ndim != 1:
        raise ParameterError(f"z must have shape (n,), got {z.shape}")
    if order not in ("appearance", "size"):
        raise ParameterError(f"order must be 'appearance' or 'size', got {order!r}")
    _, first, codes, sizes = np.unique(z, return_index=True, return_inverse=True, return_counts=True)
    ranked = np.argsort(first) if order == "appearance" else np.lexsort((first, -sizes))
    return np.argsort(ranked)[codes]


def checked_draws(Z: IntArray) -> IntArray:
    """Z as int32 with the labels of each draw in order of first appearance."""
    Z = np.asarray(Z)
    if Z.ndim != 2 or not Z.size or Z.dtype.kind not in "iu":
        raise ParameterError(
            f"Z must hold integers, of shape (draws, n) with at least one draw and one item, got {Z.dtype} of "
            f"{Z.shape}; see Posterior.flat"
        )
    low, high = int(Z.min()), int(Z.max())
    if high - low > 4 * Z.size or Z.dtype.kind == "u":
        Z, low, high = np.unique(Z, return_inverse=True)[1].reshape(Z.shape), 0, Z.size - 1
    codes: IntArray = _first_appearance(Z, low, np.full(high - low + 1, -1, np.int32))
    return codes


def checked_partition(z: IntArray, Z: IntArray) -> IntArray:
    """A partition of the items of Z, labels in order of first appearance."""
    if np.shape(z) != Z.shape[1:]:
        raise ParameterError(f"z must have one label for each of the {Z.shape[1]} items of Z, got shape {np.shape(z)}")
    return canonical(z)


def curve(loss: str, n: int) -> FloatArray:
    """u(0..n); a constant added to u changes no loss, and u(1) = 0 makes a new cluster cost nothing."""
    x = np.arange(n + 1, dtype=np.float64)
    if loss == "vi":
        return np.log(np.maximum(x, 1))
    if loss == "binder":
        return x - 1
    raise ParameterError(f"loss must be 'vi' or 'binder', got {loss!r}")


def groups(z: IntArray) -> tuple[IntArray, IntArray]:
    """Items cluster by cluster, and where each cluster begins and ends."""
    return np.argsort(z, kind="stable"), np.concatenate([[0], np.cumsum(np.bincount(z))])


def distances(z: IntArray, Z: IntArray, loss: str, weight: IntArray | None = None) -> FloatArray:
    """Loss between z, labels 0, 1, ..., and each draw; items count `weight` times."""
    weight = np.ones(len(z), np.int64) if weight is None else weight
    n = int(weight.sum())
    totals: FloatArray = _losses(*groups(z), Z, weight, curve(loss, n))
    return totals / (float(n) ** 2 if loss == "binder" else n)


@kernel
def _first_appearance(Z: Array, low: int, codes: Array) -> Any:
    out = np.empty(Z.shape, np.int32)
    for t in range(Z.shape[0]):
        k = 0
        for i in range(Z.shape[1]):
            label = Z[t, i] - low
            if codes[label] < 0:
                codes[label] = k
                k += 1
            out[t, i] = codes[label]
        for i in range(Z.shape[1]):
            codes[Z[t, i] - low] = -1
    return out


@kernel
def _losses(order: Array, bounds: Array, Z: Array, weight: Array, u: Array) -> Any:
    """The loss to each draw, times s; cells are counted cluster by cluster in one scratch row."""
    out = np.zeros(Z.shape[0])
    n_both, n_draw = np.zeros(Z.shape[1], np.int64), np.zeros(Z.shape[1], np.int64)
    for t in range(Z.shape[0]):
        n_draw[:] = 0
        for i in range(Z.shape[1]):
            n_draw[Z[t, i]] += weight[i]
        for k in range(len(bounds) - 1):
            n_cluster = 0
            for i in order[bounds[k] : bounds[k + 1]]:
                n_both[Z[t, i]] += weight[i]
                n_cluster += weight[i]
            for i in order[bounds[k] : bounds[k + 1]]:
                c = Z[t, i]
                out[t] += n_both[c] * ((u[n_cluster] - u[n_both[c]]) + (u[n_draw[c]] - u[n_both[c]]))
                n_both[c] = 0
    return out


@kernel
def agreement(order: Array, bounds: Array, Z: Array) -> Any:
    """Others of its cluster that an item is with, summed over draws; for an item alone, draws where it is alone."""
    out = np.zeros(Z.shape[1], np.int64)
    n_both, n_draw = np.zeros(Z.shape[1], np.int64), np.zeros(Z.shape[1], np.int64)
    for t in range(Z.shape[0]):
        n_draw[:] = 0
        for c in Z[t]:
            n_draw[c] += 1
        for k in range(len(bounds) - 1):
            members = order[bounds[k] : bounds[k + 1]]
            for i in members:
                n_both[Z[t, i]] += 1
            for i in members:
                out[i] += n_both[Z[t, i]] - 1 if len(members) > 1 else n_draw[Z[t, i]] == 1
            for i in members:
                n_both[Z[t, i]] = 0
    return out
