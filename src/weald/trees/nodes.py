"""A cover tree as flat arrays: what a node is, and how trees are built, extended and cut.

Every point is exactly one node, in one *slot*; slot 0 is the root and a parent's slot is below those of its children.
Node v has a level l(v) and reaches as far as b^l(v):

    level      l(child) = l(parent) - 1
    covering   |x - v| <= b^l(v) for every descendant x of v
    separation |c - c'| > b^(l(v) - 1) for children c, c' of v
    duplicates points at distance 0 from v are leaves, last among its children, and exempt from separation
    radius(v) = max |x - v| over descendants x;   path(v) = max over children c of |c - v| + path(c)
    radius(v) <= path(v) <= b^(l(v)+1) / (b-1)

build    all points at once, one node after the other. The children of v are a net of its points: first the point
         nearest to v, then always the point farthest from those chosen, until all are within b^(l(v)-1) of one; each
         point goes to its nearest child. Points of a node lie side by side in memory. A point whose nearest child is
         closer than half the way to the newest one is passed over (triangle inequality).
insert   descend to the nearest child while it reaches the point; else hang the point there.
detach   cut a subtree off; the caller inserts again all of it but the removed point. The mean size of a subtree is
         the mean depth of a node, so removal of a random point costs about as much as a few insertions.

A net costs (points x children); with expansion rate c a node has O(c^4) children and the tree O(log n) levels, so
building takes O(c^4 n log n). Differences are taken before squares, in float64: an offset costs no digits.

References: documents 000/001, appendix C; Beygelzimer, Kakade & Langford (2006); Izbicki & Shelton (2015).

    >>> nodes = empty_nodes(3, 1, np.float64)
    >>> build(np.array([[0.0], [1.0], [5.0]]), np.arange(3), 2.0, nodes)
    >>> nodes.number, nodes.parent, nodes.level
    (array([1, 0, 2], dtype=int32), array([-1,  0,  0], dtype=int32), array([2, 1, 1], dtype=int32))
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from weald._kernel import kernel
from weald._typing import FloatArray, IntArray

ROUNDING = 1e-12  # relative error that a distance or radius may have


class Nodes(NamedTuple):
    """The arrays of a cover tree, one entry for each slot: what compiled code takes."""

    points: FloatArray  # (s, d), float32 or float64
    number: IntArray  # of the point, -1 in a slot left by a removed one
    parent: IntArray  # slot, -1 for the root
    child: IntArray  # slot of the first child, -1 for a leaf
    sibling: IntArray  # slot of the next child of the same parent, -1 for the last
    level: IntArray
    distance: FloatArray  # to the parent
    radius: FloatArray  # largest distance to a descendant
    path: FloatArray  # longest way down to a descendant


def empty_nodes(capacity: int, d: int, dtype: Any) -> Nodes:
    """Arrays with room for `capacity` points of d coordinates."""
    ints = np.full((5, capacity), -1, np.int32)
    floats = np.zeros((3, capacity))
    return Nodes(np.zeros((capacity, d), dtype), *(x.copy() for x in (*ints, *floats)))


def compacted(nodes: Nodes, capacity: int) -> Nodes:
    """The same tree without empty slots, with room for `capacity` points."""
    alive = np.flatnonzero(nodes.number >= 0)
    slot = np.full(len(nodes.number) + 1, -1, np.int32)  # the last entry serves -1
    slot[alive] = np.arange(len(alive))
    out = empty_nodes(capacity, nodes.points.shape[1], nodes.points.dtype)
    for name, old, new in zip(Nodes._fields, nodes, out, strict=True):
        new[: len(alive)] = slot[old[alive]] if name in ("parent", "child", "sibling") else old[alive]
    return out


@kernel
def squared(A: FloatArray, i: int, B: FloatArray, j: int) -> float:
    """|A[i] - B[j]|^2 in float64."""
    total = 0.0
    for k in range(A.shape[1]):
        step = np.float64(A[i, k]) - np.float64(B[j, k])
        total += step * step
    return total


@kernel
def reach(base: float, level: int) -> float:
    """b^l: how far a node of this level covers."""
    return math.pow(base, np.float64(level))


@kernel
def level_for(base: float, distance: float) -> int:
    """The lowest level that reaches as far as `distance`."""
    if distance <= 0.0:
        return 0
    level = math.ceil(math.log(distance) / math.log(base))
    while reach(base, level) < distance:
        level += 1
    while reach(base, level - 1) >= distance:
        level -= 1
    return level


@kernel
def fill(nodes: Nodes, slot: int, W: FloatArray, ids: IntArray, i: int) -> None:
    """Put row i of W, numbered ids[i], into a slot."""
    nodes.number[slot] = ids[i]
    for k in range(W.shape[1]):
        nodes.points[slot, k] = W[i, k]


@kernel
def write(nodes: Nodes, slot: int, parent: int, level: int, distance: float) -> None:
    """A leaf at `slot`, not yet among the children of its parent."""
    nodes.parent[slot], nodes.child[slot], nodes.sibling[slot] = parent, -1, -1
    nodes.level[slot], nodes.distance[slot] = level, distance
    nodes.radius[slot] = nodes.path[slot] = 0.0


@kernel
def middle(W: FloatArray) -> int:
    """The row nearest to the mean."""
    n, d = W.shape
    mean = np.zeros((1, d))
    for i in range(n):
        for k in range(d):
            mean[0, k] += np.float64(W[i, k]) / n
    best, least = 0, math.inf
    for i in range(n):
        s = squared(W, i, mean, 0)
        if s < least:
            best, least = i, s
    return best


@kernel
def swap(W: FloatArray, ids: IntArray, near: FloatArray, i: int, j: int) -> None:
    """Exchange two rows, with their numbers and distances."""
    for k in range(W.shape[1]):
        W[i, k], W[j, k] = W[j, k], W[i, k]
    ids[i], ids[j] = ids[j], ids[i]
    near[i], near[j] = near[j], near[i]


@kernel
def net(
    W: FloatArray, near: FloatArray, fresh: FloatArray, owner: IntArray, centres: IntArray, between: FloatArray,
    a: int, b: int, far: float,
) -> int:  # fmt: skip
    """Choose rows of W[a:b] as centres, farthest first, until each row is within `far` of one.

    Parameters
    ----------
    W : (n, d) array
        Points.
    near : (n,) array
        Distances to the parent; rows at 0 stay out of the net.
    fresh, owner : (n,) arrays, out
        Squared distance to the nearest centre, and which it is.
    centres : (n,) int array, out
        Rows of the centres.
    between : (n,) array
        Room for the squared distances between centres.
    a, b : int
        The rows.
    far : float
        Distance that the centres must cover.

    Returns
    -------
    int
        Number of centres.
    """
    newest, least = -1, math.inf
    for i in range(a, b):
        owner[i] = 0
        fresh[i] = math.inf if near[i] > 0.0 else 0.0
        if 0.0 < near[i] < least:
            newest, least = i, near[i]
    between[0] = 0.0
    k = 0
    while newest >= 0:
        for j in range(k):
            between[j] = squared(W, newest, W, centres[j])
        centres[k] = newest
        newest, widest = -1, 0.0
        for i in range(a, b):
            if between[owner[i]] < 4.0 * fresh[i]:
                s = squared(W, i, W, centres[k])
                if s < fresh[i]:
                    fresh[i], owner[i] = s, k
            if fresh[i] > widest:
                newest, widest = i, fresh[i]
        k += 1
        if math.sqrt(widest) <= far:
            break
    return k


@kernel
def build(W: FloatArray, ids: IntArray, base: float, nodes: Nodes) -> None:
    """Build the tree of all rows of W (n, d), numbered ids (n,); both are permuted in place."""
    n = W.shape[0]
    near, fresh, between = np.empty(n), np.empty(n), np.empty(n)
    owner, centres, goal = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    start, stop = np.zeros(n, np.int64), np.zeros(n, np.int64)
    swap(W, ids, near, middle(W), n - 1)
    widest = 0.0
    for i in range(n - 1):
        near[i] = math.sqrt(squared(W, i, W, n - 1))
        widest = max(widest, near[i])
    write(nodes, 0, -1, level_for(base, widest), 0.0)
    fill(nodes, 0, W, ids, n - 1)
    stop[0] = n - 1
    n_used = 1
    for v in range(n):
        a, b = start[v], stop[v]
        if a == b:
            continue
        for i in range(a, b):
            nodes.radius[v] = max(nodes.radius[v], near[i])
        k = net(W, near, fresh, owner, centres, between, a, b, reach(base, nodes.level[v] - 1))
        n_children = plant(nodes, W, ids, near, owner, centres, k, v, n_used, a, b)
        part(owner, goal, start, stop, n_used, k, a, b)
        for i in range(a, b):
            near[i] = math.sqrt(fresh[i])
        for i in range(a, b):
            while goal[i] != i:
                j = goal[i]
                swap(W, ids, near, i, j)
                goal[i], goal[j] = goal[j], j
        n_used += n_children
    for s in range(n - 1, 0, -1):
        p = nodes.parent[s]
        nodes.path[p] = max(nodes.path[p], nodes.distance[s] + nodes.path[s])


@kernel
def plant(
    nodes: Nodes, W: FloatArray, ids: IntArray, near: FloatArray, owner: IntArray, centres: IntArray, k: int,
    v: int, first: int, a: int, b: int,
) -> int:  # fmt: skip
    """Make the k centres, then the duplicates of v, children of v in slots first, ...; their rows get owner -1."""
    n_children = 0
    for place in range(k + b - a):
        i = centres[place] if place < k else a + place - k
        if place < k or near[i] == 0.0:
            slot = first + n_children
            write(nodes, slot, v, nodes.level[v] - 1, near[i])
            fill(nodes, slot, W, ids, i)
            nodes.sibling[slot], owner[i] = slot + 1, -1
            n_children += 1
    nodes.child[v], nodes.sibling[first + n_children - 1] = first, -1
    return n_children


@kernel
def part(owner: IntArray, goal: IntArray, start: IntArray, stop: IntArray, first: int, k: int, a: int, b: int) -> None:
    """Where each row of a:b goes so that the rows of child first + j lie side by side, those with owner -1 last."""
    for i in range(a, b):
        if owner[i] >= 0:
            stop[first + owner[i]] += 1
    place = a
    for slot in range(first, first + k):
        count = stop[slot]
        start[slot] = stop[slot] = place
        place += count
    for i in range(a, b):
        if owner[i] >= 0:
            goal[i] = stop[first + owner[i]]
            stop[first + owner[i]] += 1
        else:
            goal[i] = place
            place += 1


@kernel
def insert(nodes: Nodes, first: int, last: int, base: float) -> bool:
    """Hang the points in slots first:last into the tree; False, at once, where one is out of the root's reach."""
    for s in range(first, last):
        v = 0
        d = math.sqrt(squared(nodes.points, 0, nodes.points, s))
        if d > reach(base, nodes.level[0]):
            return False
        while d > 0.0:
            nodes.radius[v] = max(nodes.radius[v], d)
            c, nearest = nearest_child(nodes, v, s, d)
            if nearest > reach(base, nodes.level[v] - 1):
                break
            v, d = c, nearest
        attach(nodes, s, v, d)
    return True


@kernel
def nearest_child(nodes: Nodes, v: int, s: int, d: float) -> Any:
    """The child of v nearest to the point in slot s, which is d away from v, and its distance."""
    best, least = -1, math.inf
    c = nodes.child[v]
    while c >= 0 and nodes.distance[c] > 0.0:
        if abs(d - nodes.distance[c]) < least:
            gap = math.sqrt(squared(nodes.points, c, nodes.points, s))
            if gap < least:
                best, least = c, gap
        c = nodes.sibling[c]
    return best, least


@kernel
def attach(nodes: Nodes, s: int, v: int, d: float) -> None:
    """Slot s becomes a child of v, d away: the first, or where d is 0 the first duplicate."""
    write(nodes, s, v, nodes.level[v] - 1, d)
    before, after = -1, nodes.child[v]
    while d == 0.0 and after >= 0 and nodes.distance[after] > 0.0:
        before, after = after, nodes.sibling[after]
    nodes.sibling[s] = after
    if before < 0:
        nodes.child[v] = s
    else:
        nodes.sibling[before] = s
    while v >= 0:
        nodes.path[v] = max(nodes.path[v], nodes.distance[s] + nodes.path[s])
        s, v = v, nodes.parent[v]


@kernel
def subtree(nodes: Nodes, v: int) -> IntArray:
    """Slots of v and of all its descendants, parents first."""
    out = np.empty(16, np.int64)
    out[0] = v
    n, i = 1, 0
    while i < n:
        c = nodes.child[out[i]]
        while c >= 0:
            if n == len(out):
                out = np.append(out, np.empty(n, np.int64))
            out[n] = c
            n += 1
            c = nodes.sibling[c]
        i += 1
    return out[:n]


@kernel
def farthest(nodes: Nodes, v: int, slots: IntArray) -> float:
    """Largest distance from v to the points in `slots`."""
    widest = 0.0
    for s in slots:
        widest = max(widest, squared(nodes.points, v, nodes.points, s))
    return math.sqrt(widest)


@kernel
def detach(nodes: Nodes, s: int) -> IntArray:
    """Cut off the subtree of slot s, not the root; its slots are returned, and empty from now on."""
    gone = subtree(nodes, s)
    a = nodes.parent[s]
    if nodes.child[a] == s:
        nodes.child[a] = nodes.sibling[s]
    else:
        before = nodes.child[a]
        while nodes.sibling[before] != s:
            before = nodes.sibling[before]
        nodes.sibling[before] = nodes.sibling[s]
    while a >= 0:
        if farthest(nodes, a, gone) >= nodes.radius[a] * (1.0 - ROUNDING):
            nodes.radius[a] = farthest(nodes, a, subtree(nodes, a))
        nodes.path[a] = 0.0
        c = nodes.child[a]
        while c >= 0:
            nodes.path[a] = max(nodes.path[a], nodes.distance[c] + nodes.path[c])
            c = nodes.sibling[c]
        a = nodes.parent[a]
    for x in gone:
        nodes.number[x] = -1
    return gone


@kernel
def climb(nodes: Nodes, level: int) -> IntArray:
    """For each slot that holds a point, its lowest ancestor (or itself) of at least this level."""
    out = np.full(len(nodes.number), -1, np.int64)
    for s in range(len(nodes.number)):
        if nodes.number[s] >= 0:
            v = s
            while nodes.level[v] < level and v > 0:
                v = nodes.parent[v]
            out[s] = v
    return out
