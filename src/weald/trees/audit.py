"""Does a cover tree keep its promises? Each function gives the first slot that does not, or -1.

Cost: O(n depth) distances for the radii, O(sum of squared numbers of children) for separation. Rounding is forgiven.
"""

from __future__ import annotations

import math

import numpy as np

from weald._kernel import kernel
from weald.trees.nodes import Nodes, reach, squared

SLACK = 1e-9  # relative; distances also forgive 1e-150, below which squares vanish
TINY = 1e-150


@kernel
def unlisted(nodes: Nodes) -> int:
    """A node not in the list of its parent exactly once, not one level below it, or with links out of the arrays."""
    n = len(nodes.number)
    seen = np.zeros(n, np.int64)
    for s in range(n):
        if nodes.number[s] < 0:
            continue
        p = nodes.parent[s]
        if not (-1 <= nodes.child[s] < n and -1 <= nodes.sibling[s] < n and -1 <= p < s and (p >= 0 or s == 0)):
            return s
        if s > 0 and nodes.level[s] != nodes.level[p] - 1:
            return s
        for other, parent in ((np.int64(nodes.child[s]), np.int64(s)), (np.int64(nodes.sibling[s]), np.int64(p))):
            if other >= 0:
                seen[other] += 1
                if nodes.parent[other] != parent or nodes.number[other] < 0:
                    return s
    for s in range(n):
        if nodes.number[s] >= 0 and seen[s] != (1 if s > 0 else 0):
            return s
    return -1


@kernel
def uncovered(nodes: Nodes, base: float) -> int:
    """A node farther from its parent than b^level(parent), or not where its distance says."""
    for s in range(1, len(nodes.number)):
        if nodes.number[s] >= 0:
            p = nodes.parent[s]
            d = math.sqrt(squared(nodes.points, s, nodes.points, p))
            if d > reach(base, nodes.level[p]) * (1 + SLACK) or abs(d - nodes.distance[s]) > d * SLACK + TINY:
                return s
    return -1


@kernel
def crowded(nodes: Nodes, base: float) -> int:
    """A node within b^(level(parent)-1) of a sibling after it; or a duplicate that has children or is not last."""
    for s in range(1, len(nodes.number)):
        if nodes.number[s] < 0:
            continue
        far = reach(base, nodes.level[nodes.parent[s]] - 1)
        duplicate = nodes.distance[s] == 0.0
        if duplicate and nodes.child[s] >= 0:
            return s
        c = nodes.sibling[s]
        while c >= 0:
            if duplicate and nodes.distance[c] > 0.0:
                return s
            if nodes.distance[c] > 0.0 and math.sqrt(squared(nodes.points, s, nodes.points, c)) <= far * (1 - SLACK):
                return s
            c = nodes.sibling[c]
    return -1


@kernel
def wrong_radius(nodes: Nodes, base: float) -> int:
    """A node whose radius or path is not the largest over its descendants, or beyond its bound."""
    n = len(nodes.number)
    radius, path = np.zeros(n), np.zeros(n)
    for s in range(n - 1, 0, -1):
        if nodes.number[s] >= 0:
            v = nodes.parent[s]
            path[v] = max(path[v], nodes.distance[s] + path[s])
            while v >= 0:
                radius[v] = max(radius[v], math.sqrt(squared(nodes.points, s, nodes.points, v)))
                v = nodes.parent[v]
    for s in range(n):
        if nodes.number[s] >= 0:
            r, p = nodes.radius[s], nodes.path[s]
            if abs(r - radius[s]) > r * SLACK + TINY or abs(p - path[s]) > p * SLACK + TINY:
                return s
            far = reach(base, nodes.level[s]) * (1 + SLACK)
            if r > p * (1 + SLACK) + TINY or r > far or p > far * base / (base - 1):
                return s
    return -1
