"""Cells of rows: neighbours that share one proposal, and the surrogate that stands for them.

A cell is a set of rows; its surrogate is their mean statistic T_c, its centre a point among `family.coordinates` of
the rows. Two kinds:

    kmeans   a few Lloyd steps on a sample of rows; every row goes to its nearest centre
    tree     the cover tree of a sample of rows, cut at the lowest level with at most `n_cells` nodes; rows of the
             sample go to their ancestor there, all others to the nearest node of that level

Any cells leave Metropolis-Hastings exact. k-means localises better: a centroid is nearer to its rows than a node, and
a node chosen by descent is not even the nearest one (at K = 1000, two columns, the same number of cells: a
proposal is accepted 75% of the time against 25%); and in many dimensions the levels of a tree jump from tens to
thousands of nodes. Cells of a tree need no iterations and are nested.

Cost: k-means SAMPLE m c for each row of the sample and n m c for all; tree O(sample log sample) and n m c. Neighbouring
cells have neighbouring numbers, so that `coarser` can let a few in a row share one table where m K tables would not
fit. Document 000, 1 and appendix C; specification 1.3 and 1.7.

    >>> from weald.families import SphericalGaussian
    >>> X = np.array([[0.0], [0.2], [5.0], [5.1], [5.2]])
    >>> np.sort(make_cells("kmeans", 2, Rows(X, SphericalGaussian.from_data(X))).size)
    array([2, 3])
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin

from weald._typing import FloatArray, IntArray, Matrix
from weald.assign.base import Rows, statistics
from weald.assign.exact import ExactAssignment
from weald.assign.groups import split
from weald.engine import Threads, one_thread
from weald.exceptions import ParameterError
from weald.trees.cover import CoverTree

KINDS = ("kmeans", "tree")
SAMPLE = 20  # rows for each cell that k-means looks at
TREE_ROWS = 20_000  # rows in the tree at most
TREE_ENTRIES = 2**25  # coordinates in the tree at most
TREE_BASE = 1.3  # levels grow slowly, so that one has about as many nodes as were asked for
FEWEST, MOST, ROWS_PER_CELL = 64, 2048, 100
MAX_ENTRIES = 2**26  # of the tables of all cells together: 0.8 GB in float32


class Cells(NamedTuple):
    """Cells of rows: that of each row, their surrogates and centres."""

    of_row: IntArray  # (n,) int32
    size: IntArray  # (m,) rows
    surrogate: FloatArray  # (m, p) mean statistics
    centre: FloatArray  # (m, c)
    dtype: np.dtype[Any]  # of scores


def check_cells(kind: str, n_cells: int | None) -> None:
    """Refuse what is no kind or number of cells."""
    if kind not in KINDS:
        raise ParameterError(f"cells must be one of {list(KINDS)}, got {kind!r}")
    if n_cells is not None and n_cells < 1:
        raise ParameterError(f"n_cells must be at least 1, or None to choose it from the rows, got {n_cells}")


def make_cells(kind: str, n_cells: int | None, rows: Rows) -> Cells:
    """Cells of all rows; None takes one for 100 rows, from 64 to 2048. Those without rows are dropped."""
    m = min(n_cells or min(max(rows.n_rows // ROWS_PER_CELL, FEWEST), MOST), rows.n_rows)
    with one_thread():
        centre, found = (_by_kmeans if kind == "kmeans" else _by_tree)(m, rows)
    held, of_row = np.unique(found, return_inverse=True)
    centre = centre[held]
    order, _ = split(centre, 1, np.random.default_rng(0))
    number = np.empty(held.size, np.int32)
    number[order] = np.arange(held.size)
    cell = number[of_row]
    S = statistics(Rows(rows.X, rows.family), cell, held.size, Threads())
    size = np.bincount(cell, minlength=held.size)
    return Cells(cell, size, S / S[:, -1:], centre[order], ExactAssignment().prepare(rows))


def coarser(cells: Cells, n_cells: int) -> Cells:
    """At most `n_cells` cells, each a few neighbours in a row; the same ones where they are few enough."""
    m = cells.size.size
    if m <= n_cells:
        return cells
    first = np.arange(0, m, -(-m // n_cells))
    size = np.add.reduceat(cells.size, first)
    surrogate, centre = (
        np.add.reduceat(a * cells.size[:, None], first) / size[:, None] for a in (cells.surrogate, cells.centre)
    )
    of_row = (cells.of_row // -(-m // n_cells)).astype(np.int32)
    return cells._replace(of_row=of_row, size=size, surrogate=surrogate, centre=centre)


def _sampled(rows: Rows, n: int) -> IntArray:
    return np.sort(np.random.default_rng(0).choice(rows.n_rows, min(rows.n_rows, n), replace=False))


def _by_kmeans(m: int, rows: Rows) -> tuple[FloatArray, IntArray]:
    nearest = KMeans(m, init="random", n_init=1, max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer distinct rows than cells: some stay empty and are dropped
        nearest.fit(rows.family.coordinates(rows.X[_sampled(rows, max(10_000, SAMPLE * m))]))
    tiles = rows.tiles(slice(0, rows.n_rows), m)
    found = [nearest.predict(rows.family.coordinates(rows.X[tile])) for tile in tiles]
    return np.asarray(nearest.cluster_centers_, np.float64), np.concatenate(found)


def _by_tree(m: int, rows: Rows) -> tuple[FloatArray, IntArray]:
    width = rows.family.coordinates(rows.X[:1]).shape[1]
    chosen = _sampled(rows, min(TREE_ROWS, max(TREE_ENTRIES // width, m)))
    points = _dense(rows.family.coordinates(rows.X[chosen]))
    tree = CoverTree(TREE_BASE).fit(points)
    level, nodes = min((j, nodes) for j, nodes in tree.levels_.items() if nodes.size <= max(m, 1) or nodes.size == 1)
    node = np.empty(len(points), np.int64)
    node[nodes] = np.arange(nodes.size)
    centre = points[nodes]
    tiles = rows.tiles(slice(0, rows.n_rows), nodes.size)
    found = np.concatenate([_nearest(rows.family.coordinates(rows.X[tile]), centre) for tile in tiles])
    found[chosen] = node[tree.ancestor_at(level)]
    return centre, found


def _nearest(points: Matrix, centre: FloatArray) -> IntArray:
    return np.asarray(pairwise_distances_argmin(_dense(points), centre))


def _dense(points: Matrix) -> FloatArray:
    return np.asarray(points.toarray() if sp.issparse(points) else points, np.float64)
