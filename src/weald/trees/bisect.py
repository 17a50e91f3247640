"""A random binary tree over rows by bisection: two-means at every node, from all rows down to single ones.

    node v holds the rows  order[start[v]], ..., order[stop[v] - 1];
    two centres, drawn as in k-means++ and moved by a few rounds of k-means, cut it by the plane between them.

Its law is a matter of the data and of a generator alone: it knows nothing of a partition, which is what makes it a
guide that moves of partitions may follow without a correction. Rows that no plane separates are halved at random. A
branch deeper than 4 log2 n + 16 is halved at the median from there on, so no data make the tree a list.

Nodes are numbered in preorder: node 0 is the root, v + 1 the left child of v, and those below v are v + 1, ...,
v + 2 (stop - start) - 2. `restricted` gives the tree of some of the rows, without the nodes that lose a child.

Cost: O(n d) for each level, 0.1 s for 100,000 rows of 8 columns. Rows of more than 64 columns are seen through 32
random directions (Johnson & Lindenstrauss 1984), sparse ones too.

    >>> tree = bisect(np.array([[0.0], [9.0], [0.1], [9.1]]), np.random.default_rng(0))
    >>> sorted(sorted(tree.rows(v).tolist()) for v in tree.children(0))
    [[0, 2], [1, 3]]
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import sparse

from weald._kernel import kernel
from weald._random import sweep_key, uniform
from weald._typing import FloatArray, IntArray, Matrix
from weald.exceptions import DataError

ROUNDS = 3  # of k-means at each node
WIDE, DIRECTIONS = 64, 32


class BisectionTree(NamedTuple):
    """Arrays of a binary tree over m rows, with 2m - 1 nodes in preorder.

    Parameters
    ----------
    order : (m,) array of int
        Numbers of the rows, leaves from left to right.
    start, stop : (2m - 1,) arrays of int
        The rows of a node are order[start:stop].
    right : (2m - 1,) array of int
        The right child; the left one is the next node; -1 for a leaf.
    parent : (2m - 1,) array of int
        -1 for the root.
    """

    order: IntArray
    start: IntArray
    stop: IntArray
    right: IntArray
    parent: IntArray

    def children(self, v: int) -> tuple[int, int]:
        """Left and right child of a node that is not a leaf."""
        return v + 1, int(self.right[v])

    def rows(self, v: int) -> IntArray:
        """The rows of a node."""
        return self.order[self.start[v] : self.stop[v]]

    def below(self, v: int) -> slice:
        """The nodes of the subtree of v, itself included."""
        return slice(v, v + 2 * int(self.stop[v] - self.start[v]) - 1)

    def path(self, at: int) -> list[int]:
        """Nodes from the root to the leaf of order[at]."""
        found = [0]
        while self.right[found[-1]] >= 0:
            left, right = self.children(found[-1])
            found.append(left if at < self.start[right] else right)
        return found


def bisect(C: Matrix, rng: np.random.Generator) -> BisectionTree:
    """A random tree over rows.

    Parameters
    ----------
    C : (n, c) array or CSR
        Points whose Euclidean distances make sense, without NaN; `family.coordinates(X)`.
    rng : Generator
        Randomness.

    Returns
    -------
    BisectionTree
    """
    if C.shape[0] == 0:
        raise DataError("a tree needs at least one row, got none")
    if C.shape[1] > WIDE:
        C = C @ rng.normal(size=(C.shape[1], DIRECTIONS))
    Z = np.ascontiguousarray(C.toarray() if sparse.issparse(C) else C, np.float64)
    tree = _empty(rng.permutation(Z.shape[0]))
    _grow(Z, tree, sweep_key(rng))
    return tree


def restricted(tree: BisectionTree, rows: IntArray) -> BisectionTree:
    """The tree of some of the rows: nodes with rows in one child only are left out.

    Parameters
    ----------
    tree : BisectionTree
        Over rows 0, ..., n - 1.
    rows : (m,) array of int
        Different rows, at least one.

    Returns
    -------
    BisectionTree
        With the numbers of these rows in `order`.
    """
    chosen = np.zeros(tree.order.size, np.bool_)
    chosen[rows] = True
    at = np.flatnonzero(chosen[tree.order])
    found = _empty(tree.order[at])
    _prune(tree, at, found)
    return found


def _empty(order: IntArray) -> BisectionTree:
    start, stop, right, parent = np.empty((4, 2 * order.size - 1), np.int64)
    return BisectionTree(order.astype(np.int64), start, stop, right, parent)


@kernel
def _grow(Z: FloatArray, tree: BisectionTree, key: np.uint64) -> None:
    """Fill in the nodes over `order`, a random permutation, which is sorted on the way."""
    n = Z.shape[0]
    deepest = 16 + int(4.0 * math.log2(n))
    side, stack, top = np.empty(n), np.empty((n, 4), np.int64), 1
    stack[0] = 0, n, -1, 0
    for v in range(2 * n - 1):
        top -= 1
        start, stop, parent, depth = stack[top]
        tree.start[v], tree.stop[v], tree.parent[v], tree.right[v] = start, stop, parent, -1
        if parent >= 0 and v != parent + 1:
            tree.right[parent] = v
        if stop - start == 1:
            continue
        rows = tree.order[start:stop]
        lean(Z, rows, side[start:stop], key, v)
        middle = start if depth >= deepest else start + sift(rows, side[start:stop])
        if middle in (start, stop):
            rows[:] = rows[np.argsort(side[start:stop])]
            middle = (start + stop) // 2
        stack[top] = middle, stop, v, depth + 1
        stack[top + 1] = start, middle, v, depth + 1
        top += 2


@kernel
def lean(Z: FloatArray, rows: IntArray, side: FloatArray, key: np.uint64, v: int) -> None:
    """Write how far each row lies towards the second of two centres; negative: nearer to the first."""
    d, m = Z.shape[1], rows.size
    centres, sums = np.empty((2, d)), np.empty((2, d))
    centres[0] = Z[rows[int(uniform(key, v, 0) * m)]]
    centres[1] = Z[rows[far_row(Z, rows, centres[0], uniform(key, v, 1))]]
    axis, counts = np.empty(d), np.zeros(2)
    for turn in range(ROUNDS + 1):
        offset = 0.0
        for r in range(d):
            axis[r] = centres[1, r] - centres[0, r]
            offset += 0.5 * axis[r] * (centres[1, r] + centres[0, r])
        sums[:], counts[:] = 0.0, 0.0
        for t in range(m):
            x, total = Z[rows[t]], 0.0
            for r in range(d):
                total += axis[r] * x[r]
            side[t] = total - offset
            if turn < ROUNDS:
                nearer = int(side[t] >= 0.0)
                counts[nearer] += 1.0
                for r in range(d):
                    sums[nearer, r] += x[r]
        if turn == ROUNDS or counts[0] == 0.0 or counts[1] == 0.0:
            return
        for c in range(2):
            for r in range(d):
                centres[c, r] = sums[c, r] / counts[c]


@kernel
def far_row(Z: FloatArray, rows: IntArray, centre: FloatArray, u: float) -> int:
    """Place of a row drawn with probability proportional to its squared distance from the centre."""
    total, chosen = 0.0, 0
    square = np.empty(rows.size)
    for t in range(rows.size):
        gap = 0.0
        for r in range(centre.size):
            gap += (Z[rows[t], r] - centre[r]) ** 2
        square[t] = gap
        total += gap
    left = u * total
    for t in range(rows.size):
        if square[t] > 0.0:
            chosen = t
            left -= square[t]
            if left < 0.0:
                return chosen
    return chosen


@kernel
def sift(rows: IntArray, side: FloatArray) -> int:
    """Rows of negative side first; returns how many they are."""
    a, b = 0, rows.size
    while a < b:
        if side[a] < 0.0:
            a += 1
        else:
            b -= 1
            rows[a], rows[b] = rows[b], rows[a]
            side[a], side[b] = side[b], side[a]
    return a


@kernel
def _prune(tree: BisectionTree, at: IntArray, found: BisectionTree) -> None:
    """Fill in the nodes of the tree over the leaves at sorted places `at`."""
    m = at.size
    stack, top = np.empty((m, 4), np.int64), 1
    stack[0] = 0, m, -1, 0
    for v in range(2 * m - 1):
        top -= 1
        start, stop, parent, old = stack[top]
        found.start[v], found.stop[v], found.parent[v], found.right[v] = start, stop, parent, -1
        if parent >= 0 and v != parent + 1:
            found.right[parent] = v
        if stop - start == 1:
            continue
        old, middle = fork(tree, at, start, stop, old)
        stack[top] = middle, stop, v, tree.right[old]
        stack[top + 1] = start, middle, v, old + 1
        top += 2


@kernel
def fork(tree: BisectionTree, at: IntArray, start: int, stop: int, v: int) -> tuple[int, int]:
    """The node below v where the sorted places at[start:stop] part, and where: at[middle] is the first on the right."""
    while True:
        border = tree.start[tree.right[v]]
        if at[stop - 1] < border:
            v += 1
        elif at[start] >= border:
            v = tree.right[v]
        else:
            return v, start + int(np.searchsorted(at[start:stop], border))
