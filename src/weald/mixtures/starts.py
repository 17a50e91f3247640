"""First statistics of a mixture: random parameters, random points, k-means++, cover tree.

A start is a function rng -> S (K, p). Parameters follow from S by the rule of the inference, so every start works
with every inference and family. Distances are Euclidean in `family.coordinates(X)`: standardised columns,
indicator columns, square roots of relative frequencies. Large data are looked at through a random subset: 70 rows for
each component, down to 20 where components are thousands, 10,000 at least.

    kmeans++       K seeds, each drawn with probability proportional to weight d^2, d the distance to the seeds before
                   it, and ten Lloyd steps: 0.7 s for 1,000 components in 32 columns, 7 s for 10,000
    cover-tree     K nodes of a cover tree of the rows: the root, then always the one with the largest d^2 x (weight
                   below it); the same Lloyd steps. Levels alone will not do: they jump from tens to thousands of nodes,
                   hold a near copy of every node above, and a group may have two parents
    random-points  one row for each component; costs nothing, but leaves more groups without a component for good
    random         parameters from the prior

Lloyd steps pay in many columns. Components that begin with one row each are as wide as the prior, share rows by chance,
and freeze where they are; means to which rows go by distance alone spread out. Of 1,000 groups in 32 columns EM leaves
104 without a component from random points.

Seeds (beyond `GREEDY` components) and nodes are chosen many at a time, so that distances are matrix products: in every
round candidates are offered by the distances of the round before, and stand if that to the seeds since leaves them
a good choice: with probability d_now^2 / d_then^2 for k-means++, whose law is that of one after the other then.

References: documents 000/001, table 1 and appendix C; Arthur & Vassilvitskii (2007), k-means++.

    >>> from weald.families import SphericalGaussian
    >>> X = np.array([[0.0], [0.2], [5.0], [5.2]])
    >>> first_statistics("cover-tree", Rows(X, SphericalGaussian.from_data(X)), 2, np.random.default_rng(0))[:, -1]
    array([2., 2.])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.metrics.pairwise import euclidean_distances

from weald._random import sweep_key
from weald._typing import FloatArray, IntArray, Matrix
from weald.assign import ExactAssignment, ListsAssignment, Rows, sample_all
from weald.assign.auto import MANY
from weald.assign.base import add_statistics
from weald.assign.cells import TREE_BASE, TREE_ROWS
from weald.engine import Threads, one_thread
from weald.exceptions import DataError, ParameterError
from weald.families.base import AbstractFamily
from weald.trees.cover import CoverTree
from weald.trees.nodes import Nodes

SAMPLE, LEAST_SAMPLE, PAIRS = 70, 20, 70_000_000  # rows for each component; less where they make so many pairs
LLOYD_STEPS = 10
SHARP = 1e9  # over the mean squared distance of rows from their mean: no two means are so close that it matters
GREEDY = 300  # up to this many components each seed is the best of several trials
SEED_SAMPLE = 5  # rows for each component among which seeds are drawn beyond that
FEWEST, MOST = 16, 1024  # candidates in a round
SAME = 1e-12  # squared distances below this share of the mean are rounding
PROJECTED = 256  # columns in a tree at most: squared distances are within 9% or so of those in all
Offer = Callable[[FloatArray, int], tuple[IntArray, FloatArray]]  # near (n,), m -> candidates, least near to stand
LOOKING = ("kmeans++", "cover-tree")  # starts that have looked at many rows for each component
STARTS = (*LOOKING, "random-points", "random")


def first_statistics(name: str, rows: Rows, n_components: int, rng: np.random.Generator) -> FloatArray:
    """Statistics (K, p) to start from, by the name of the start."""
    n_rows = rows.n_rows if rows.weight is None else int(np.count_nonzero(rows.weight))
    if n_components > n_rows:
        raise DataError(f"n_components={n_components} is more than the {n_rows} rows that have weight: ask for fewer")
    if name == "kmeans++":
        return _kmeans_plusplus(rows, n_components, rng)
    if name == "cover-tree":
        return _cover_tree(rows, n_components, rng)
    if name == "random-points":
        return _random_points(rows, n_components, rng)
    if name == "random":
        return _random_parameters(rows, n_components, rng)
    raise ParameterError(f"init must be one of {STARTS}, got {name!r}")


def _subset(rows: Rows, n_components: int, rng: np.random.Generator) -> IntArray:
    candidates = np.arange(rows.n_rows) if rows.weight is None else np.flatnonzero(rows.weight > 0)
    each = min(SAMPLE, max(LEAST_SAMPLE, PAIRS // n_components**2))
    return _some(candidates, max(10_000, each * n_components), rng)


def _some(numbers: IntArray, limit: int, rng: np.random.Generator) -> IntArray:
    return numbers if numbers.size <= limit else np.sort(rng.choice(numbers, limit, replace=False))


def _kmeans_plusplus(rows: Rows, n_components: int, rng: np.random.Generator) -> FloatArray:
    """Seeds far apart and Lloyd steps on a subset of rows; statistics scaled to the weight of all rows."""
    T, C, weight = _look(rows, _subset(rows, n_components, rng))
    with one_thread():
        if n_components <= GREEDY:
            seed = int(rng.integers(2**31))
            _, seeds = kmeans_plusplus(C, n_components, sample_weight=weight, random_state=seed)
        else:
            C = C.astype(np.float32)
            few = _some(np.arange(weight.size), max(10_000, SEED_SAMPLE * n_components), rng)
            seeds = few[_drawn_seeds(C[few], weight[few], n_components, rng)]
        z = _lloyd(C, weight, C[seeds], rng)
    return _scaled_statistics(rows, T, z, weight, n_components)


@dataclass(frozen=True)
class _Places:
    """Coordinates and a one: all that assignment kernels need of a family whose clusters are means."""

    width: int

    def sufficient(self, C: Matrix) -> Matrix:
        """(n, c) -> (n, c + 1), dense or CSR."""
        ones = np.ones((C.shape[0], 1), C.dtype)
        return sp.hstack([C, ones], "csr") if sp.issparse(C) else np.hstack([C, ones])


def _lloyd(C: Matrix, weight: FloatArray, seeds: Matrix, rng: np.random.Generator) -> IntArray:
    """(n,): rows C (n, c) by the nearest mean, after means have followed their rows from the seeds (K, c).

    A row goes to a mean with probability proportional to exp(-sharp d^2 / 2): to the nearest, for all that matters.
    """
    rows = Rows(C.astype(np.float32), cast(AbstractFamily, _Places(C.shape[1] + 1)), weight)
    means = np.asarray(seeds.toarray() if sp.issparse(seeds) else seeds, np.float64)
    K, sharp = len(means), SHARP / max(_mean_square(C, weight), SAME)
    kernel = ListsAssignment(early=LLOYD_STEPS, early_turn=2 * LLOYD_STEPS) if K > MANY else ExactAssignment()
    dtype, memory = kernel.prepare(rows), kernel.blank(rows.n_rows, K)
    z: IntArray = np.full(rows.n_rows, -1, np.int32)
    S: FloatArray = np.zeros((K, rows.family.width))
    for step in range(LLOYD_STEPS):
        eta = sharp * np.hstack([means, -np.square(means).sum(axis=1, keepdims=True) / 2])
        plan, _ = kernel.refresh(dtype, eta, np.zeros(K), step, {})
        drawn = sample_all(kernel, plan, rows, z, S, memory, sweep_key(rng), Threads(1))
        if np.array_equal(drawn.z, z):
            break
        z, S, memory = drawn.z, drawn.S, drawn.memory
        means = np.where(S[:, -1:] > 0, S[:, :-1] / np.maximum(S[:, -1:], 1e-300), means)
    return z


def _mean_square(C: Matrix, weight: FloatArray) -> float:
    """Mean squared distance of rows C (n, c) from their mean."""
    share = weight / weight.sum()
    squares = C.power(2).sum(axis=1) if sp.issparse(C) else np.square(C).sum(axis=1)
    return float(share @ squares - np.square(share @ C).sum())


def _drawn_seeds(C: Matrix, weight: FloatArray, n_seeds: int, rng: np.random.Generator) -> IntArray:
    """Rows of C (n, c) with the law of k-means++."""

    def offer(near: FloatArray, m: int) -> tuple[IntArray, FloatArray]:
        p = weight * near
        drawn = rng.choice(weight.size, m, p=p / p.sum())
        return drawn, rng.random(m) * near[drawn]

    return _spread(C, int(rng.choice(weight.size, p=weight / weight.sum())), n_seeds, offer)


def _greedy_seeds(C: Matrix, weight: FloatArray, first: int, n_seeds: int) -> IntArray:
    """Rows of C (n, c), each nearly the one with the largest weight times squared distance to those before it."""

    def offer(near: FloatArray, m: int) -> tuple[IntArray, FloatArray]:
        gain = weight * near
        best = np.argsort(-gain, kind="stable")[:m]
        return best, near[best] / 2

    return _spread(C, first, n_seeds, offer)


def _spread(C: Matrix, first: int, n_seeds: int, offer: Offer) -> IntArray:
    """Rows of C in rounds; where fewer differ than are asked for, others of the same places follow."""
    least = SAME * float(np.mean(C.power(2).sum(1) if sp.issparse(C) else np.einsum("ij,ij->i", C, C)))
    seeds, new, near = np.array([first]), np.array([first]), np.full(C.shape[0], np.inf)
    while seeds.size < n_seeds:
        near = np.minimum(near, np.square(pairwise_distances_argmin_min(C, C[new])[1], dtype=np.float64))
        near[near <= least] = near[seeds] = 0.0
        if not near.any():
            rest = np.setdiff1d(np.arange(near.size), seeds)
            return np.append(seeds, rest[: n_seeds - seeds.size])
        offered, bar = offer(near, min(max(seeds.size // 2, FEWEST), MOST))
        new = offered[_standing(C[offered], near[offered], bar, least)][: n_seeds - seeds.size]
        seeds = np.append(seeds, new)
    return seeds


def _standing(P: Matrix, near: FloatArray, bar: FloatArray, least: float) -> IntArray:
    """Which candidates P (m, c) are still `bar` (m,) away, squared, when those before them that are become seeds."""
    now, between, out = near.copy(), euclidean_distances(P, squared=True), []
    for i in range(near.size):
        if now[i] >= bar[i] and now[i] > least:
            out.append(i)
            np.minimum(now, between[i], out=now)
    return np.array(out)


def _cover_tree(rows: Rows, n_components: int, rng: np.random.Generator) -> FloatArray:
    """Nodes of a cover tree of some rows, to the nearest of which a subset of rows goes; scaled likewise."""
    T, C, weight = _look(rows, _subset(rows, n_components, rng))
    few = _some(np.arange(weight.size), max(TREE_ROWS, n_components), rng)
    with one_thread():
        nodes = CoverTree(TREE_BASE).fit(_narrow(C[few], rng)).nodes_
        slots = _greedy_seeds(nodes.points, _weight_below(nodes, weight[few]), 0, n_components)
        z = _lloyd(C, weight, C[few[nodes.number[slots]]], rng)
    return _scaled_statistics(rows, T, z, weight, n_components)


def _weight_below(nodes: Nodes, weight: FloatArray) -> FloatArray:
    """Weight of the subtree of each slot."""
    below = weight[nodes.number]
    for level in range(int(nodes.level.min()), int(nodes.level[0])):
        at = np.flatnonzero(nodes.level == level)
        np.add.at(below, nodes.parent[at], below[at])
    return below


def _narrow(C: Matrix, rng: np.random.Generator) -> FloatArray:
    """Dense points of few columns: random projections where there are many (Johnson & Lindenstrauss)."""
    if C.shape[1] > PROJECTED:
        return np.asarray(C @ (rng.standard_normal((C.shape[1], PROJECTED), np.float32) / np.sqrt(PROJECTED)))
    return np.asarray(C.toarray() if sp.issparse(C) else C)


def _look(rows: Rows, chosen: IntArray) -> tuple[Matrix, Matrix, FloatArray]:
    """Statistics, coordinates and weights of some rows; sparse coordinates as scikit-learn reads them."""
    X = rows.X[chosen]
    T = rows.family.sufficient(X)  # first, for it says which column holds what it should not
    C = rows.family.coordinates(X)
    if sp.issparse(C):
        C = C.tocsr()
        C = sp.csr_array((C.data, C.indices.astype(np.int32), C.indptr.astype(np.int32)), C.shape)
    return T, C, np.ones(chosen.size) if rows.weight is None else rows.weight[chosen]


def _scaled_statistics(rows: Rows, T: Matrix, z: IntArray, weight: FloatArray, n_components: int) -> FloatArray:
    """Statistics (K, p) of labelled rows, scaled to the weight of all rows."""
    S = np.zeros((n_components, rows.family.width))
    add_statistics(T, z.astype(np.int32), weight, S)
    return S * (rows.total_weight / float(weight.sum()))


def _random_points(rows: Rows, n_components: int, rng: np.random.Generator) -> FloatArray:
    """One distinct row for each component."""
    candidates = _subset(rows, n_components, rng)
    chosen = rng.choice(candidates, n_components, replace=False)
    S = np.zeros((n_components, rows.family.width))
    add_statistics(rows.family.sufficient(rows.X[chosen]), np.arange(n_components, dtype=np.int32), None, S)
    return S


def _random_parameters(rows: Rows, n_components: int, rng: np.random.Generator) -> FloatArray:
    """Components from the prior: as if each had seen one row simulated from it."""
    family = rows.family
    X = family.sample_x(family.sample_eta(np.zeros((n_components, family.width)), rng), rng)
    S = np.zeros((n_components, family.width))
    add_statistics(family.sufficient(X), np.arange(n_components, dtype=np.int32), None, S)
    return S
