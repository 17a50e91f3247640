"""Clusters as a tree of likelihoods with bounds on subtrees: what `weald.trees.envelope` draws from.

Scores are split into a measure, which adds up over subtrees, and a likelihood, which is bounded there:

    <T(x), eta_k> + log w_k  =  log m_k + log f_k(y)

    spherical, diagonal   f = exp(-1/2 sum_j p_kj (z_j - mu_kj)^2), y = z, tree over the means
    full, tied            f = exp(-1/2 |R_k (y - c_k)|^2), y = L^-1 z and c = L^-1 mu, where L L' is the mean covariance
                          and R_k' R_k the precision there: the identity, for a tied covariance
    any other             f = exp<T - t, eta_k>, y = T - t with t the mean statistic of the data, tree over eta

All that does not depend on the row (log partitions, and what an averaged eta adds to them) is part of m. Bounds are
widened by what rounding may have taken from them. Cost: K log K distances for the tree, and one pass over it.
Canopy specification 1.5, (B2) and (B3) with boxes in place of balls and own variances.

    >>> like = linear(np.zeros((2, 3)), np.zeros(2), np.ones(3))[1]
    >>> forms_of(like, 2.0).last
    array([2, 2])
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from weald._kernel import kernel
from weald._typing import Array, FloatArray, IntArray, Matrix
from weald.families import DiagonalGaussian, FullGaussian, SphericalGaussian, TiedGaussian
from weald.families.base import AbstractFamily
from weald.families.niw import smat
from weald.trees.envelope import Forms
from weald.trees.nodes import ROUNDING, build, empty_nodes

SLACK = 1e-9  # relative widening of bounds
BUNCH = 8  # a subtree of so many nodes below its top is not worth bounds of its own
NONE = np.zeros((0, 0))


class View(NamedTuple):
    """How rows T become y: the first `q` columns, less `shift` (q,), times `turn` (q, q); empty arrays for neither."""

    q: int
    shift: FloatArray
    turn: FloatArray

    def rows(self, T: Matrix) -> FloatArray:
        """(rows, p) -> (rows, q) float64."""
        Y = np.asarray((T.toarray() if sp.issparse(T) else T)[:, : self.q], np.float64)
        Y = Y - self.shift if self.shift.size else Y
        return np.ascontiguousarray(Y @ self.turn if self.turn.size else Y)


class Likelihoods(NamedTuple):
    """Measures and likelihoods of K clusters, and points (K, c) whose distances the tree shall be built by."""

    log_m: FloatArray  # (K,)
    points: FloatArray  # (K, c)
    centre: FloatArray  # (K, q)
    precision: FloatArray  # (K, P)
    root: FloatArray  # (K, R)


def likelihoods(family: AbstractFamily, eta: Array, log_w: Array, mean: FloatArray) -> tuple[View, Likelihoods]:
    """The form that suits the family, from eta (K, p), log_w (K,) and the mean statistic (p,) of the data."""
    eta = np.asarray(eta, np.float64)
    if isinstance(family, SphericalGaussian) or (isinstance(family, DiagonalGaussian) and not family.missing):
        return diagonal(eta, log_w, family.n_columns)
    if isinstance(family, FullGaussian | TiedGaussian):
        return matrix(eta, log_w, family.n_columns)
    return linear(eta, log_w, mean)


def diagonal(eta: FloatArray, log_w: Array, d: int) -> tuple[View, Likelihoods]:
    """Gaussians with one variance, or one for each of d columns."""
    precision = -2.0 * eta[:, d:-1]
    mu = eta[:, :d] / precision
    log_m = log_w + eta[:, -1] + 0.5 * (eta[:, :d] * mu).sum(axis=1)
    points = mu * np.sqrt(precision.mean(axis=0))
    return View(d, np.empty(0), NONE), Likelihoods(log_m, points, mu, precision, np.zeros((len(eta), 0)))


def matrix(eta: FloatArray, log_w: Array, d: int) -> tuple[View, Likelihoods]:
    """Gaussians with covariance matrices."""
    precision = -2.0 * smat(eta[:, d:-1], d)
    mu = np.linalg.solve(precision, eta[:, :d, None])[..., 0]
    log_m = log_w + eta[:, -1] + 0.5 * (eta[:, :d] * mu).sum(axis=1)
    back = np.linalg.cholesky(np.linalg.inv(precision).mean(axis=0)).T
    local = back @ precision @ back.T
    spectrum = np.linalg.eigvalsh(local)
    least = np.maximum(spectrum[:, :1] - ROUNDING * spectrum[:, -1:], 0.0)
    root = np.swapaxes(np.linalg.cholesky(local), -1, -2)[:, *np.triu_indices(d)]
    turn = np.linalg.inv(back)
    return View(d, np.empty(0), turn), Likelihoods(log_m, mu @ turn, mu @ turn, least, root)


def linear(eta: FloatArray, log_w: Array, mean: FloatArray) -> tuple[View, Likelihoods]:
    """Any family; bounds are tight for rows near the statistic `mean` (p,)."""
    centre, none = eta[:, :-1], np.zeros((len(eta), 0))
    return View(centre.shape[1], mean[:-1], NONE), Likelihoods(log_w + eta @ mean, centre, centre, none, none)


def forms_of(like: Likelihoods, base: float) -> Forms:
    """Build the cover tree of the clusters and bound its subtrees."""
    K = len(like.log_m)
    nodes = empty_nodes(K, like.points.shape[1], np.float64)
    build(np.array(like.points), np.arange(K), base, nodes)
    parent = bunched(nodes.parent, BUNCH)
    order = np.argsort(parent, kind="stable")
    edges = np.searchsorted(parent[order], np.arange(K + 1))
    first, last = edges[:-1][order], edges[1:][order]
    number = nodes.number[order]
    log_m, centre, precision, root = (a[number] for a in (like.log_m, like.centre, like.precision, like.root))
    log_below, low, high, floor = below(first, last, log_m, centre, precision)
    radius = nodes.radius[order]
    if precision.shape[1] == 0:
        slack = ROUNDING * np.abs(centre).max(initial=0.0)
        low, high, radius = low - slack, high + slack, radius + slack
    floor = floor * (1.0 - SLACK)
    return Forms(number, first, last, log_m, log_below, centre, low, high, precision, floor, root, radius)


@kernel
def bunched(parent: IntArray, size: int) -> IntArray:
    """Parents (n,) of a flatter tree: below a node with at most `size` nodes, all of them become its children."""
    n = len(parent)
    n_below = np.zeros(n, np.int64)
    for s in range(n - 1, 0, -1):
        n_below[parent[s]] += 1 + n_below[s]
    top, out = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    for s in range(n):
        p = parent[s]
        out[s] = p
        if p >= 0 and top[p] >= 0:
            out[s] = top[s] = top[p]
        elif n_below[s] <= size:
            top[s] = s
    return out


@kernel
def below(
    first: IntArray, last: IntArray, log_m: FloatArray, centre: FloatArray, precision: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """What lies below each slot: log measure (n,), box of centres (n, q) twice, least precisions (n, P)."""
    n = len(log_m)
    log_below = np.full(n, -np.inf)
    low, high, floor = np.full(centre.shape, np.inf), np.full(centre.shape, -np.inf), np.full(precision.shape, np.inf)
    for s in range(n - 1, -1, -1):
        for c in range(first[s], last[s]):
            log_below[s] = np.logaddexp(log_below[s], np.logaddexp(log_m[c], log_below[c]))
            for j in range(centre.shape[1]):
                low[s, j] = min(low[s, j], low[c, j], centre[c, j])
                high[s, j] = max(high[s, j], high[c, j], centre[c, j])
            for j in range(precision.shape[1]):
                floor[s, j] = min(floor[s, j], floor[c, j], precision[c, j])
    return log_below, low, high, floor
