"""Exact neighbours in a cover tree, by branch and bound with true subtree radii.

Let q be a query, v a node at distance D = |q - v|. No point below v is nearer than D - radius(v), and before the
distance to a child c of v is even computed, |q - x| >= |D - |c - v|| - radius(c) for c and all that is below it.

nearest   open nodes wait in a heap, ordered by D - radius(v); the node with the least bound is opened, its children
          are offered as neighbours and those with children join the heap, until the bound passes the k-th distance.
within    the same bounds against a fixed radius, in any order.

Bounds are widened by what rounding may have taken from them, so the answers are those of brute force.

Reference: Beygelzimer, Kakade & Langford (2006); documents 000/001, appendix C.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weald._kernel import kernel
from weald._typing import FloatArray, IntArray
from weald.trees.nodes import ROUNDING, Nodes, squared


@kernel
def push(keys: FloatArray, items: IntArray, size: int, key: float, item: int) -> None:
    """Add to a heap of `size` entries whose least key stands first."""
    i = size
    while i > 0 and keys[(i - 1) // 2] > key:
        keys[i], items[i] = keys[(i - 1) // 2], items[(i - 1) // 2]
        i = (i - 1) // 2
    keys[i], items[i] = key, item


@kernel
def replace_first(keys: FloatArray, items: IntArray, size: int, key: float, item: int) -> None:
    """Put another entry in the place of the first."""
    i = 0
    while 2 * i + 1 < size:
        c = 2 * i + 1
        if c + 1 < size and keys[c + 1] < keys[c]:
            c += 1
        if keys[c] >= key:
            break
        keys[i], items[i] = keys[c], items[c]
        i = c
    keys[i], items[i] = key, item


@kernel
def floor_of(nodes: Nodes, c: int, away: float) -> Any:
    """Least distance to c and what is below it, for a query `away` from the parent of c."""
    radius, hop = nodes.radius[c], nodes.distance[c]
    return abs(away - hop) - radius - ROUNDING * (away + hop + radius)


@kernel
def nearest(nodes: Nodes, Y: FloatArray, distances: FloatArray, indices: IntArray) -> None:
    """The k nearest points of each query, nearest first.

    Parameters
    ----------
    nodes : Nodes
        A tree of k points or more.
    Y : (m, d) array
        Queries.
    distances : (m, k) array, out
        Ascending.
    indices : (m, k) int array, out
        Numbers of the points.
    """
    k, n = distances.shape[1], len(nodes.number)
    keys, items, away = np.empty(n), np.empty(n, np.int64), np.empty(n)
    best, who = np.empty(k), np.empty(k, np.int64)  # a heap of negative squared distances: the worst stands first
    for q in range(len(Y)):
        best[:] = -math.inf
        s = squared(nodes.points, 0, Y, q)
        replace_first(best, who, k, -s, 0)
        away[0] = math.sqrt(s)
        keys[0], items[0], size = -1.0, 0, 1
        worst = math.sqrt(-best[0])
        while size > 0 and keys[0] < worst:
            v = items[0]
            size -= 1
            replace_first(keys, items, size, keys[size], items[size])
            c = nodes.child[v]
            while c >= 0:
                if floor_of(nodes, c, away[v]) < worst:
                    s = squared(nodes.points, c, Y, q)
                    if -s > best[0]:
                        replace_first(best, who, k, -s, c)
                        worst = math.sqrt(-best[0])
                    if nodes.child[c] >= 0:
                        away[c] = math.sqrt(s)
                        bound = away[c] * (1.0 - ROUNDING) - nodes.radius[c] * (1.0 + ROUNDING)
                        if bound < worst:
                            push(keys, items, size, bound, c)
                            size += 1
                c = nodes.sibling[c]
        for i in range(k - 1, -1, -1):
            distances[q, i], indices[q, i] = math.sqrt(-best[0]), nodes.number[who[0]]
            replace_first(best, who, i, best[i], who[i])


@kernel
def within(nodes: Nodes, Y: FloatArray, q: int, r: float, stack: IntArray, away: FloatArray, found: IntArray) -> int:
    """Write the numbers of all points at most r away from Y[q] into `found` (n,); how many."""
    n = 0
    stack[0], size = 0, 1
    away[0] = math.sqrt(squared(nodes.points, 0, Y, q))
    if away[0] <= r:
        found[0], n = nodes.number[0], 1
    while size > 0:
        size -= 1
        v = stack[size]
        c = nodes.child[v]
        while c >= 0:
            if floor_of(nodes, c, away[v]) <= r:
                away[c] = math.sqrt(squared(nodes.points, c, Y, q))
                if away[c] <= r:
                    found[n] = nodes.number[c]
                    n += 1
                if nodes.child[c] >= 0:
                    stack[size] = c
                    size += 1
            c = nodes.sibling[c]
    return n


@kernel
def within_all(nodes: Nodes, Y: FloatArray, r: FloatArray, counts: IntArray) -> Any:
    """The numbers of all points at most r (m,) away from the queries Y (m, d), one query after the other."""
    n = len(nodes.number)
    stack, away, found = np.empty(n, np.int64), np.empty(n), np.empty(n, np.int64)
    out = np.empty(len(Y), np.int64)
    total = 0
    for q in range(len(Y)):
        counts[q] = within(nodes, Y, q, r[q], stack, away, found)
        while total + counts[q] > len(out):
            out = np.append(out, np.empty(len(out) + counts[q], np.int64))
        for i in range(counts[q]):
            out[total + i] = found[i]
        total += counts[q]
    return out[:total]
