"""Cover trees: nested nets of a set of points, with exact neighbours and surrogates at every scale.

Level j of the tree is a set S_j of points, S_j in S_(j-1), such that every point has an ancestor in S_j no farther than

    b^(j+1) / (b - 1)                                              (2^(j+1) for base b = 2)

and children of one node v are farther than b^(l(v)-1) from each other. Each point is one node, at the highest level
where it occurs; duplicates hang below the first of their kind. All nodes know the true radius of their subtree, which
queries, and the samplers over clusters, use as a bound.

How fast it is depends on the expansion rate c of the data (21), not on the number of columns: if c is small, building
costs O(c^4 n log n) and a query O(c^12 log n). In full-dimensional data beyond 10 columns or so all points are about
equally far from each other, and no tree helps.

Reference: documents 000/001, appendix C, equation (21); Beygelzimer, Kakade & Langford (2006), Cover trees for nearest
neighbor; Izbicki & Shelton (2015), Faster cover trees; Karger & Ruhl (2002) for the expansion rate.

    >>> tree = CoverTree().fit(np.array([[0.0, 0.0], [1.0, 0.0], [4.0, 3.0]]))
    >>> tree.query([[5.0, 3.0]], k=2)
    (array([[1., 5.]]), array([[2, 1]]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from weald._typing import Array, FloatArray, IntArray, TableLike
from weald._validate import check_count, numeric_matrix, table_from
from weald.exceptions import DataError, ParameterError, WealdError
from weald.trees import audit
from weald.trees.nodes import Nodes, build, climb, compacted, detach, empty_nodes, insert
from weald.trees.search import nearest, within_all

FARTHEST = 1e150  # beyond it squares overflow
LEAST_BASE = 1.05
N_PROBES = 32  # points at which the expansion rate is measured
AUDITS: dict[str, Callable[[Nodes, float], int]] = {
    "covering: it is out of its parent's reach, or not where its distance says": audit.uncovered,
    "separation: it is too close to a sibling": audit.crowded,
    "radii: the radius or the path of its subtree is wrong": audit.wrong_radius,
}


class CoverTree(BaseEstimator):
    """Exact Euclidean neighbours, nested levels, insertion and removal.

    Parameters
    ----------
    base : float, default 2.0
        Ratio of the scales of successive levels, at least 1.05. Smaller bases give more levels with fewer children.

    Attributes
    ----------
    nodes_ : Nodes
        The arrays of the tree, by slot; views, not to be written to. Slot 0 is the root, parents stand before
        their children.
    n_points_ : int
        Number of points in the tree.
    base_ : float
        The base it was built with.
    levels_ : dict of int to int arrays
        The points of each level, from the top down.
    expansion_rate_ : float
        How the number of points grows with the radius.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    Points are numbered by their row in `fit`, those inserted later from there on; removal leaves the other numbers
    as they are. Differences are taken before squares, in float64, so offsets cost no digits; points whose distance
    rounds to 0 are duplicates.

    Examples
    --------
    >>> tree = CoverTree().fit(np.random.default_rng(0).normal(size=(1000, 3)))
    >>> distances, indices = tree.query([[0.0, 0.0, 0.0]], k=5)
    """

    _persisted = ("_store", "_slots", "_n_slots", "_n_issued")

    _store: tuple[Array, ...]  # the arrays of Nodes, with room to grow
    _slots: IntArray  # (room,) slot of each number given out, -1 where removed
    _n_slots: int
    _n_issued: int
    _sound: bool  # whether the arrays have been looked at since they were loaded

    def __init__(self, base: float = 2.0) -> None:
        self.base = base

    def fit(self, X: TableLike, y: Any = None) -> Self:
        """Build the tree of the rows of X.

        Parameters
        ----------
        X : (n, d) array-like
            Points, float32 or float64 (anything else becomes float64).
        y : ignored

        Returns
        -------
        self
        """
        number = isinstance(self.base, int | float | np.number) and not isinstance(self.base, bool)
        if not number or not LEAST_BASE <= self.base < np.inf:
            raise ParameterError(f"base must be a finite number of at least {LEAST_BASE}, got {self.base!r}")
        X = _in_range(numeric_matrix(self, table_from(X), reset=True, allow_nan=False, sparse=False))
        self.base_ = float(self.base)
        self._slots, self._n_issued = np.full(len(X), -1, np.int32), len(X)
        self._rebuild(X.copy(), np.arange(len(X)))
        return self

    def query(self, Y: TableLike, k: int = 1) -> tuple[FloatArray, IntArray]:
        """The k nearest points of each row.

        Parameters
        ----------
        Y : (m, d) array-like
            Queries.
        k : int
            Number of neighbours, at most `n_points_`.

        Returns
        -------
        distances : (m, k) float64 array
            Ascending.
        indices : (m, k) int64 array
            Numbers of the points; among equal distances any may come first, or at all.
        """
        nodes, Q = self.nodes_, self._queries(Y)
        check_count("k", k)
        if k > self.n_points_:
            raise ParameterError(f"k must be at most the number of points in the tree, {self.n_points_}, got {k}")
        distances, indices = np.empty((len(Q), k)), np.empty((len(Q), k), np.int64)
        nearest(nodes, Q, distances, indices)
        return distances, indices

    def query_radius(self, Y: TableLike, r: float | FloatArray) -> list[IntArray]:
        """All points at most r away from each row.

        Parameters
        ----------
        Y : (m, d) array-like
            Queries.
        r : float or (m,) array
            Radius, one for all or one for each query.

        Returns
        -------
        list of m int64 arrays
            Numbers of the points, ascending.
        """
        nodes, Q = self.nodes_, self._queries(Y)
        radii = np.asarray(r, np.float64)
        if radii.shape not in ((), (len(Q),)) or not np.all(radii >= 0):
            raise ParameterError(f"r must be a number >= 0, or one for each of the {len(Q)} queries, got {r!r}")
        counts = np.zeros(len(Q), np.int64)
        if self.n_points_ == 0:
            return [np.empty(0, np.int64) for _ in Q]
        found = within_all(nodes, Q, np.broadcast_to(radii, len(Q)).copy(), counts)
        return [np.sort(part) for part in np.split(found, np.cumsum(counts)[:-1])]

    def insert(self, x: Any) -> int:
        """Add the point x (d,); its number is returned."""
        points = self.nodes_.points
        row = _in_range(
            numeric_matrix(self, x if np.ndim(x) == 2 else np.atleast_2d(x), reset=False, allow_nan=False, sparse=False)
        )
        if len(row) != 1:
            raise DataError(f"insert takes one point of shape ({points.shape[1]},), got {np.shape(x)}")
        number = self._n_issued
        if number == len(self._slots):
            self._slots = np.append(self._slots, np.full(max(number, 8), -1, np.int32))
        self._n_issued += 1
        self._add(row.astype(points.dtype, copy=False), np.array([number]))
        return number

    def remove(self, i: int) -> None:
        """Take point number i out; what was below it is inserted again."""
        nodes = self.nodes_
        known = isinstance(i, int | np.integer) and not isinstance(i, bool) and 0 <= i < self._n_issued
        if not known or self._slots[i] < 0:
            raise ParameterError(f"i must be the number of a point in the tree, got {i!r}: never given out, or removed")
        slot, self._slots[i] = int(self._slots[i]), -1
        if slot == 0:
            rest = np.flatnonzero(nodes.number >= 0)[1:]
            self._rebuild(nodes.points[rest], nodes.number[rest])
            return
        numbers = nodes.number.copy()
        orphans = detach(nodes, slot)[1:]
        self._add(nodes.points[orphans], numbers[orphans])

    def check(self) -> Self:
        """Verify links, levels, covering, separation and radii; `WealdError` names the first node that is wrong."""
        nodes = self.nodes_
        if self.n_points_ != np.count_nonzero(self._slots[: self._n_issued] >= 0):
            raise WealdError(
                f"{self.n_points_} nodes for {np.count_nonzero(self._slots >= 0)} points: rebuild the tree"
            )
        slot = audit.unlisted(nodes)
        _refuse(nodes, slot, "nesting: it must be once in the list of its parent, one level below")
        for what, test in AUDITS.items():
            _refuse(nodes, test(nodes, self.base_), what)
        return self

    def ancestor_at(self, level: int) -> IntArray:
        """(n,) for each number given out, its lowest ancestor, or itself, of at least this level; -1 where removed.

        The distance to it is at most base^(level+1) / (base-1); above the root's level it is the root.
        """
        nodes, slots = self.nodes_, self._slots[: self._n_issued]
        out = np.full(len(slots), -1, np.int64)
        there = slots >= 0
        out[there] = nodes.number[climb(nodes, int(level))[slots[there]]]
        return out

    @property
    def nodes_(self) -> Nodes:
        """The arrays of the tree, by slot."""
        check_is_fitted(self, "_store")
        if not hasattr(self, "_sound"):
            self._verify()
        return Nodes(*(x[: self._n_slots] for x in self._store))

    @property
    def n_points_(self) -> int:
        """Number of points in the tree."""
        return int(np.count_nonzero(self.nodes_.number >= 0))

    @property
    def levels_(self) -> dict[int, IntArray]:
        """Levels from the top down: for each the numbers of its points, those of the level above first."""
        nodes = self.nodes_
        slots = np.flatnonzero(nodes.number >= 0)
        slots = slots[np.argsort(-nodes.level[slots], kind="stable")]
        levels, sizes = np.unique(-nodes.level[slots], return_counts=True)
        numbers = nodes.number[slots].astype(np.int64)
        return {-int(j): numbers[:n] for j, n in zip(levels, np.cumsum(sizes), strict=True)}

    @property
    def expansion_rate_(self) -> float:
        """How many times more points a ball of twice the radius holds, at most: c of equation (21), from below.

        The largest ratio over 32 points of the tree and balls of log n points or more; O(32 n d) at each call.
        2^(intrinsic dimension) for uniform data; 1 for fewer points than that.
        """
        nodes = self.nodes_
        P = nodes.points[nodes.number >= 0].astype(np.float64)
        rate, least = 1.0, max(int(np.ceil(np.log(max(len(P), 1)))), 1)
        for probe in P[:: max(len(P) // N_PROBES, 1)]:
            d = np.sort(np.sqrt(np.sum((P - probe) ** 2, axis=1)))
            r = d[least - 1 :: least]
            inner, outer = np.searchsorted(d, r, side="right"), np.searchsorted(d, 2 * r, side="right")
            rate = max(rate, float(np.max(outer / inner)))
        return rate

    def _queries(self, Y: TableLike) -> FloatArray:
        Q = numeric_matrix(self, table_from(Y), reset=False, allow_nan=False, sparse=False)
        return _in_range(Q).astype(np.float64, copy=False)

    def _rebuild(self, W: FloatArray, numbers: IntArray) -> None:
        """A new tree of the rows of W, which is permuted."""
        nodes = empty_nodes(len(W), W.shape[1], W.dtype)
        if len(W):
            build(W, numbers.astype(np.int64), self.base_, nodes)
        self._take(nodes, len(W))

    def _take(self, nodes: Nodes, n_slots: int) -> None:
        self._store, self._n_slots, self._sound = tuple(nodes), n_slots, True
        number = nodes.number[:n_slots]
        slots = np.flatnonzero(number >= 0)
        self._slots[number[slots]] = slots

    def _add(self, rows: FloatArray, numbers: IntArray) -> None:
        """Insert rows; where one is out of the root's reach, build anew."""
        first, last = self._n_slots, self._n_slots + len(rows)
        if last > len(self._store[0]):
            n = self.n_points_
            self._take(compacted(self.nodes_, 2 * (n + len(rows))), n)
            first, last = n, n + len(rows)
        nodes, self._n_slots = Nodes(*self._store), last
        nodes.points[first:last], nodes.number[first:last] = rows, numbers
        self._slots[numbers] = np.arange(first, last)
        if first == 0 or not insert(nodes, first, last, self.base_):
            there = np.flatnonzero(nodes.number[:last] >= 0)
            self._rebuild(nodes.points[there], nodes.number[there])

    def _verify(self) -> None:
        """Compiled code trusts the arrays: those that came from a file are looked at once."""
        try:
            self._sound = self._fits_together()
        except (AttributeError, IndexError, TypeError, ValueError):
            self._sound = False
        if not self._sound:
            del self._sound
            raise DataError(
                "the arrays of the tree do not fit together: fit it again, or load another copy of the file"
            )

    def _fits_together(self) -> bool:
        n, store = self._n_slots, self._store
        like = empty_nodes(0, self.n_features_in_, np.float32 if store[0].dtype == np.float32 else np.float64)
        if not all(x.dtype == e.dtype and x.shape[1:] == e.shape[1:] for x, e in zip(store, like, strict=True)):
            return False
        if not 0 <= n <= min(len(x) for x in store) == max(len(x) for x in store) or self.base_ < LEAST_BASE:
            return False
        nodes, slots = Nodes(*(x[:n] for x in store)), self._slots[: self._n_issued]
        there = np.flatnonzero(slots >= 0)
        if self._slots.dtype != np.int32 or len(slots) != self._n_issued or np.any(slots >= n):
            return False
        whole = np.array_equal(nodes.number[slots[there]], there) and len(there) == np.count_nonzero(nodes.number >= 0)
        return whole and (n == 0 or nodes.number[0] >= 0) and audit.unlisted(nodes) < 0


def _in_range(X: FloatArray) -> FloatArray:
    if X.size and max(-float(X.min()), float(X.max())) > FARTHEST:
        column = int(np.argmax(np.abs(X).max(axis=0)))
        raise DataError(f"column {column} goes beyond {FARTHEST:g}, where squares overflow; divide it by a constant")
    return X


def _refuse(nodes: Nodes, slot: int, what: str) -> None:
    if slot >= 0:
        raise WealdError(f"point {nodes.number[slot]} (slot {slot}) violates {what}; fit the tree again")
