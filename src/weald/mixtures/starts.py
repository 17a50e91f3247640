"""First statistics of a mixture: random parameters, random points, k-means++.

A start is a function rng -> S (K, p). Parameters follow from S by the rule of the inference, so every start works
with every inference and family. Distances are Euclidean in `family.coordinates(X)`: standardised columns,
indicator columns, square roots of relative frequencies. Large data are looked at through a random subset of
max(10,000, 20 K) rows. k-means++ costs O(K^2 d): a sweep or two up to thousands of components, more beyond;
`random-points` costs nothing.

k-means++: Arthur & Vassilvitskii (2007), scikit-learn's implementation, followed by five Lloyd steps.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans, kmeans_plusplus

from weald._typing import FloatArray, IntArray, Matrix
from weald.assign import Rows
from weald.assign.base import add_statistics
from weald.engine import one_thread
from weald.exceptions import DataError, ParameterError

SAMPLE = 20
LLOYD_STEPS = 5
GREEDY = 300  # up to this many components each seed is the best of several trials
STARTS = ("kmeans++", "random-points", "random")


def first_statistics(name: str, rows: Rows, n_components: int, rng: np.random.Generator) -> FloatArray:
    """Statistics (K, p) to start from, by the name of the start."""
    n_rows = rows.n_rows if rows.weight is None else int(np.count_nonzero(rows.weight))
    if n_components > n_rows:
        raise DataError(f"n_components={n_components} is more than the {n_rows} rows that have weight: ask for fewer")
    if name == "kmeans++":
        return _kmeans_plusplus(rows, n_components, rng)
    if name == "random-points":
        return _random_points(rows, n_components, rng)
    if name == "random":
        return _random_parameters(rows, n_components, rng)
    raise ParameterError(f"init must be one of {STARTS}, got {name!r}")


def _subset(rows: Rows, n_components: int, rng: np.random.Generator) -> IntArray:
    candidates = np.arange(rows.n_rows) if rows.weight is None else np.flatnonzero(rows.weight > 0)
    limit = max(10_000, SAMPLE * n_components)
    return candidates if candidates.size <= limit else np.sort(rng.choice(candidates, limit, replace=False))


def _kmeans_plusplus(rows: Rows, n_components: int, rng: np.random.Generator) -> FloatArray:
    """Seeds far apart and a few Lloyd steps on a subset of rows; statistics scaled to the weight of all rows."""
    chosen = _subset(rows, n_components, rng)
    weight = np.ones(chosen.size) if rows.weight is None else rows.weight[chosen]
    T = rows.family.sufficient(rows.X[chosen])  # first, for it says which column holds what it should not
    C = _points(rows.family.coordinates(rows.X[chosen]))
    seed, trials = int(rng.integers(2**31)), None if n_components <= GREEDY else 1
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer distinct rows than components: some start empty, which is legal
        seeds, _ = kmeans_plusplus(C, n_components, sample_weight=weight, random_state=seed, n_local_trials=trials)
        z = KMeans(n_components, init=seeds, n_init=1, max_iter=LLOYD_STEPS).fit(C, sample_weight=weight).labels_
    S = np.zeros((n_components, rows.family.width))
    add_statistics(T, z.astype(np.int32), weight, S)
    return S * (rows.total_weight / float(weight.sum()))


def _points(coordinates: Matrix) -> Matrix:
    """CSR with 32-bit indices, the only ones that scikit-learn's k-means reads."""
    if not sp.issparse(coordinates):
        return coordinates
    C = coordinates.tocsr()
    return sp.csr_array((C.data, C.indices.astype(np.int32), C.indptr.astype(np.int32)), C.shape)


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
