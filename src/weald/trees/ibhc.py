"""Incremental Bayesian hierarchical clustering (IBHC): rows enter a forest of trees one after the other.

Potentials phi_h, phi_t and d as in `weald.trees.bhc`. A new row q joins the tree with the smallest d(c, q) if that is
below 1, and starts a tree of its own if not. Into a tree it goes by SeqInsert,

    at node v = (l, r):  if v is a row, or d(l, r) < d(l, q) and d(l, r) < d(r, q):  (v, q) takes the place of v
                         else go on in the child with the smaller d,

after which all d above have changed: roots with d > 1 are cut, and the pieces are trees of their own. In the end
`weald.trees.bhc.grown` makes one tree of the forest.

d(c, q) needs p(x_q | rows of c), which the compiled laws of collapsed sampling give for any node: one column of the law
for each node, and one more for each root, so that roots are scored in one go. A large cluster is one long branch, outer
rows at the top, inner ones at its end; rows go down at most `DEEPEST` levels, which in trials left clusters and bound
as they were. Cost for one row: a score for each tree, and two scores and a join for each level. Memory: 3n columns.

References: document 002, section 1; Lee & Choi (NIPS 2015), Tree-guided MCMC inference for normalized random measure
mixture models, section 3; design of the forest: Lee & Choi (AISTATS 2014), Incremental tree-based inference with
dependent normalized random measures.

    >>> law, forest = law_of(rows)(columns_for(n, n)), forest_of(pieces(tree), tree, n)              # doctest: +SKIP
    >>> fill(law, tree, forest)                                                                      # doctest: +SKIP
    >>> insert(law, tree, forest, np.arange(500, n), log_kappa(prior, n))                            # doctest: +SKIP
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weald._kernel import kernel
from weald._typing import FloatArray, IntArray
from weald.mixtures._predictive import Law, copy, either, join, score
from weald.trees.bhc import Tree, adopt, empty_tree, refresh, settle

DEEPEST = 16  # levels that a row goes down
N_ROOTS, N_FREE = 0, 1  # where in `Forest.counts`


class Forest(NamedTuple):
    """The trees that rows are inserted into: their roots, and nodes that are not in use."""

    roots: IntArray
    free: IntArray
    counts: IntArray  # how many of each


def with_room(old: Tree, m: int, log_kappa: FloatArray) -> Tree:
    """A finished tree with room for m more rows."""
    n = old.n_rows
    tree, here = empty_tree(n + m), np.arange(2 * n - 1)
    there = here + m * (here >= n)
    for new, links in zip(tree[:3], old[:3], strict=True):
        new[there] = links + m * (links >= n)
    tree.size[there], tree.log_m[there] = old.size, old.log_m
    refresh(tree, there, log_kappa)
    return tree


def pieces(tree: Tree) -> IntArray:
    """Cut the largest tree at the top wherever d > 1: the roots of its pieces; nodes above them are free again."""
    roots = np.empty(tree.n_rows, np.int64)
    return roots[: _cut_down(tree, roots)].copy()


@kernel
def _cut_down(tree: Tree, roots: IntArray) -> int:
    roots[0], k, at = np.argmax(tree.size), 1, 0
    while at < k:
        v = roots[at]
        if tree.log_d[v] > 0.0:
            roots[at], roots[k] = tree.left[v], tree.right[v]
            k += 1
            _release(tree, v)
        else:
            at += 1
    return k


def forest_of(roots: IntArray, tree: Tree, most: int) -> Forest:
    """The forest of these roots, with room for `most` of them."""
    free = np.flatnonzero(tree.size == 0)
    counts = np.array([roots.size, free.size])
    return Forest(np.resize(roots, most), np.resize(free, tree.n_rows - 1), counts)


@either
def _release(tree: Tree, v: int) -> None:
    """Node v is free, its children have no parent."""
    tree.parent[tree.left[v]], tree.parent[tree.right[v]] = -1, -1
    tree.left[v], tree.right[v], tree.size[v] = -1, -1, 0
    tree.log_m[v], tree.log_d[v] = -np.inf, -np.inf


def columns_for(n: int, n_roots: int) -> int:
    """Columns of the law that `insert` needs: nodes, then roots once more side by side, then one that stays empty."""
    return 2 * n + n_roots


def insert(law: Law, tree: Tree, forest: Forest, rows: IntArray, log_kappa: FloatArray) -> int:
    """Put rows into the forest one after the other; how many went in before the forest was full."""
    play = _insert if isinstance(law, tuple) else getattr(_insert, "py_func", _insert)
    done: int = play(law, tree, forest, rows, log_kappa, np.empty(law.size.size))
    return done


@kernel
def _insert(law: Law, tree: Tree, forest: Forest, rows: IntArray, log_kappa: FloatArray, log_p: FloatArray) -> int:
    base, empty = tree.size.size, law.size.size - 1
    for at in range(rows.size):
        i, k = rows[at], forest.counts[N_ROOTS]
        score(law, i, empty, empty + 1, log_p)
        tree.log_m[i] = log_p[empty]
        settle(tree, log_kappa, i)
        join(law, i, i)
        score(law, i, base, base + k, log_p)
        best, least = k, 0.0
        for j in range(k):
            log_d = _log_d_row(tree, log_kappa, forest.roots[j], i, log_p[base + j])
            if log_d < least:
                best, least = j, log_d
        if best < k:
            forest.counts[N_FREE] -= 1
            node = forest.free[forest.counts[N_FREE]]
            forest.roots[best] = _descend(law, tree, log_kappa, forest.roots[best], i, node, log_p)
        elif k == forest.roots.size:
            return at
        else:
            forest.roots[k] = i
            forest.counts[N_ROOTS] += 1
        _cut_roots(law, tree, forest, best)
    return rows.size


@either
def _log_d_row(tree: Tree, log_kappa: FloatArray, v: int, i: int, log_x: float) -> float:
    """Log d of tree v and row i, given log p(x_i | rows of v)."""
    return float(tree.log_phi[v] + tree.log_phi[i] - log_kappa[tree.size[v] + 1] - tree.log_m[v] - log_x)


@either
def _descend(law: Law, tree: Tree, log_kappa: FloatArray, root: int, i: int, node: int, log_p: FloatArray) -> int:
    """SeqInsert: row i enters the tree at root, with `node` as its parent; returns the root."""
    v, level = root, 0
    score(law, i, v, v + 1, log_p)
    while tree.left[v] >= 0 and level < DEEPEST:
        a, b, log_x = tree.left[v], tree.right[v], log_p[v]
        score(law, i, a, a + 1, log_p)
        score(law, i, b, b + 1, log_p)
        log_a = _log_d_row(tree, log_kappa, a, i, log_p[a])
        log_b = _log_d_row(tree, log_kappa, b, i, log_p[b])
        if tree.log_d[v] < min(log_a, log_b):
            break
        tree.log_m[v] += log_x
        tree.size[v] += 1
        join(law, i, v)
        v, level = a if log_a <= log_b else b, level + 1
    above = tree.parent[v]
    tree.parent[node] = above
    if above >= 0 and tree.left[above] == v:
        tree.left[above] = node
    elif above >= 0:
        tree.right[above] = node
    copy(law, v, node)
    join(law, i, node)
    tree.log_m[node] = tree.log_m[v] + log_p[v]
    adopt(tree, log_kappa, node, v, i)
    while tree.parent[node] >= 0:
        node = tree.parent[node]
        settle(tree, log_kappa, node)
    return node


@either
def _cut_roots(law: Law, tree: Tree, forest: Forest, changed: int) -> None:
    """Cut the root that changed, and the pieces, where d > 1 and there is room; bring their columns up to date."""
    at, after = changed, forest.counts[N_ROOTS]
    while at < forest.counts[N_ROOTS]:
        v, k = forest.roots[at], forest.counts[N_ROOTS]
        if tree.log_d[v] > 0.0 and k < forest.roots.size:
            forest.roots[at], forest.roots[k] = tree.left[v], tree.right[v]
            _release(tree, v)
            copy(law, law.size.size - 1, v)
            forest.free[forest.counts[N_FREE]] = v
            forest.counts[N_FREE] += 1
            forest.counts[N_ROOTS] += 1
        else:
            copy(law, v, tree.size.size + at)
            at, after = after, after + 1


def fill(law: Law, tree: Tree, forest: Forest) -> None:
    """Columns of the law for trees that exist already; parents have larger numbers than their children."""
    play = _fill if isinstance(law, tuple) else getattr(_fill, "py_func", _fill)
    play(law, tree, forest, np.empty(tree.size.size, np.int64))


@kernel
def _fill(law: Law, tree: Tree, forest: Forest, stack: IntArray) -> None:
    """Each node copies its larger child and is joined by the rows of the smaller one: O(n log n) joins."""
    for v in range(tree.size.size):
        a, b = tree.left[v], tree.right[v]
        if a < 0:
            if tree.log_m[v] > -np.inf:
                join(law, v, v)
            continue
        if tree.size[a] < tree.size[b]:
            a, b = b, a
        copy(law, a, v)
        stack[0], depth = b, 1
        while depth > 0:
            depth -= 1
            u = stack[depth]
            if tree.left[u] < 0:
                join(law, u, v)
            else:
                stack[depth], stack[depth + 1] = tree.left[u], tree.right[u]
                depth += 2
    for at in range(forest.counts[N_ROOTS]):
        copy(law, forest.roots[at], tree.size.size + at)
