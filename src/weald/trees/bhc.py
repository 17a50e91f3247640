"""Bayesian hierarchical clustering: a binary tree whose nodes say how probable it is that their rows are one cluster.

    phi_h(c) = kappa(|c|) m(X_c)                          all rows of c in one cluster
    phi_t(c) = phi_h(c) + phi_t(l) phi_t(r)               or some partition of each child; leaves: phi_t = phi_h
    d(l, r)  = phi_t(l) phi_t(r) / phi_h(l u r),    P(c is one cluster | its rows, the tree) = 1/(1 + d(l, r))

so that phi_t(root) sums prod_c phi_h(c) over all partitions that the tree can be cut into. kappa is the prior of the
partition: alpha Gamma(k) for the Dirichlet process; alpha sigma Gamma(k-sigma)/Gamma(1-sigma) (1+u)^(sigma-k) for the
normalised generalised gamma process, with u at n/(alpha sigma), n over the prior mean of the total mass.

`grown` is greedy: the pair with the smallest d merges, until one tree is left. In d stands Gamma(|l|) Gamma(|r|) /
Gamma(|c|): large trees snowball, across clusters that overlap. Pairs with the smallest m(l) m(r)/m(c) do not. Both
orders are tried, and the tree with the larger phi_t(root), the tighter bound, is kept. 3/2 n^2 evidences, 2 n^2 numbers
of memory; each tree remembers its nearest partner, and only partners that changed are looked for again. For many rows
there is `weald.trees.ibhc`.

Evidence: with Gamma(alpha)/Gamma(alpha+n) before it, phi_t(root) is a lower bound of p(X), the sum over all partitions
(Heller & Ghahramani). With the generalised gamma it bounds p(X, u); u is integrated out numerically, for the same tree.

Heights of the linkage: the largest log(1+d), minus the log of the merge probability, of a node and those below it. They
never fall on the way to the root. The tree is cut into the largest nodes with d <= 1; these, and all below them, are
not drawn higher than log 2, so that a cut at log 2 gives just these clusters.

References: document 002, section 1; Heller & Ghahramani (ICML 2005), Bayesian hierarchical clustering; Lee & Choi (NIPS
2015), Tree-guided MCMC inference for normalized random measure mixture models.

    >>> weights = log_kappa(prior, 3)                                                                  # doctest: +SKIP
    >>> tree = grown(empty_tree(3), np.arange(3), family.sufficient(X), family.log_marginal, weights)  # doctest: +SKIP
    >>> tree, linkage = finished(tree, weights)                                                        # doctest: +SKIP
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from weald._kernel import kernel
from weald._typing import Array, FloatArray, IntArray
from weald.mixtures._predictive import either
from weald.partitions import DirichletProcess, NormalisedGeneralisedGamma
from weald.partitions.nggp import Conditional

Evidence = Callable[[Array], FloatArray]  # (k, p) statistics -> (k,) logs
Prior = DirichletProcess | NormalisedGeneralisedGamma
STEP, DROP = 0.3, 45.0  # of the trapezoid rule over log u: in standard deviations (or 1), and in nats below the peak


class Tree(NamedTuple):
    """Binary trees over n rows; all arrays are (2n - 1,). Nodes 0, ..., n - 1 are the rows, -1 is nobody."""

    left: IntArray
    right: IntArray
    parent: IntArray
    size: IntArray
    log_m: FloatArray  # log evidence of the rows below
    log_phi: FloatArray  # log phi_t
    log_d: FloatArray  # log d(left, right), -inf for rows

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return (self.size.size + 1) // 2


def empty_tree(n: int) -> Tree:
    """Rows without evidence, and room for n - 1 nodes above them."""
    nobody = np.full(2 * n - 1, -1, np.int64)
    size = np.zeros(2 * n - 1, np.int64)
    size[:n] = 1
    log_m, log_phi, log_d = np.full((3, 2 * n - 1), -np.inf)
    return Tree(nobody, nobody.copy(), nobody.copy(), size, log_m, log_phi, log_d)


def _copy(tree: Tree) -> Tree:
    return Tree._make(x.copy() for x in tree)


def log_kappa(prior: Prior, n: int) -> FloatArray:
    """(n + 1,): log kappa of clusters of 0 (never used), 1, ..., n rows."""
    sizes = np.arange(1, n + 1)
    if isinstance(prior, DirichletProcess):
        logs = math.log(prior.concentration) + gammaln(sizes)
    else:
        logs = prior.log_kappa(sizes)
    return np.append(0.0, logs)


def grown(tree: Tree, roots: IntArray, S: FloatArray, log_marginal: Evidence, log_kappa: FloatArray) -> Tree:
    """Merge the trees at `roots` greedily into one, in both orders; the tree with the larger phi_t.

    Parameters
    ----------
    tree : Tree
        Left as it is; nodes without rows are taken for the mergers.
    roots : (k,) array of int
        Nodes without a parent.
    S : (k, p) array
        Statistics of their rows.
    log_marginal : callable
        (k, p) -> (k,): log evidence of statistics.
    log_kappa : (n + 1,) array
        The prior, by sizes.

    Returns
    -------
    Tree
        With the `roots` below one node.
    """
    tree, k = _copy(tree), len(roots)
    tree.log_m[roots] = log_marginal(S)
    refresh(tree, roots, log_kappa)
    log_m = np.zeros((k, k))
    for i in range(k - 1):
        log_m[i, i + 1 :] = log_m[i + 1 :, i] = log_marginal(S[i + 1 :] + S[i])
    trees = (_grow(tree, roots, S, log_m, log_marginal, log_kappa, plain) for plain in (False, True))
    return max(trees, key=lambda grown: float(grown.log_phi[np.argmax(grown.size)]))


def _grow(
    tree: Tree, roots: IntArray, S: FloatArray, log_m: FloatArray, log_marginal: Evidence, log_kappa: FloatArray,
    plain: bool,
) -> Tree:  # fmt: skip
    """One order of mergers, given the evidence log_m (k, k) of all pairs."""
    tree, roots, S, k = _copy(tree), roots.copy(), S.copy(), len(roots)
    D = np.stack([_apart(tree, log_kappa, root, roots, row, plain) for root, row in zip(roots, log_m, strict=True)])
    np.fill_diagonal(D, np.inf)
    near = D.argmin(axis=1)
    least, live = D[np.arange(k), near], np.arange(k)
    for node in np.flatnonzero(tree.size == 0)[: k - 1]:
        a, b = sorted((int(least.argmin()), int(near[least.argmin()])))
        live = live[live != b]
        S[a] += S[b]
        total = S[live] + S[a]
        total[live == a] = S[a]
        log_total = log_marginal(total)
        tree.log_m[node] = log_total[live == a][0]
        adopt(tree, log_kappa, node, roots[a], roots[b])
        roots[a], row = node, np.full(k, np.inf)
        row[live] = _apart(tree, log_kappa, node, roots[live], log_total, plain)
        row[a] = np.inf
        _replace(D, near, least, a, b, row)
    return tree


def _apart(tree: Tree, log_kappa: FloatArray, a: int, b: IntArray, log_m: FloatArray, plain: bool) -> FloatArray:
    """(k,): log d of tree a and each of the trees b (k,), given the evidence of their unions; of a itself, anything."""
    log_d: FloatArray
    if plain:
        log_d = tree.log_m[a] + tree.log_m[b] - log_m
    else:
        size = np.minimum(tree.size[a] + tree.size[b], log_kappa.size - 1)
        log_d = tree.log_phi[a] + tree.log_phi[b] - log_kappa[size] - log_m
    return log_d


@kernel
def _replace(D: FloatArray, near: IntArray, least: FloatArray, a: int, b: int, row: FloatArray) -> None:
    """Tree b is gone and a has become another, at distances `row`: bring the nearest partners up to date."""
    k = row.size
    for i in range(k):
        D[a, i] = D[i, a] = row[i]
        D[b, i] = D[i, b] = np.inf
    row[b] = least[b] = np.inf
    for i in range(k):
        if least[i] == np.inf and i != a:
            continue
        if i != a and row[i] <= least[i]:
            near[i], least[i] = a, row[i]
        elif i == a or near[i] == a or near[i] == b:
            near[i] = np.argmin(D[i])
            least[i] = D[i, near[i]]


@either
def settle(tree: Tree, log_kappa: FloatArray, v: int) -> None:
    """Potentials of node v from its evidence and its children."""
    log_h, left, right = log_kappa[tree.size[v]] + tree.log_m[v], tree.left[v], tree.right[v]
    if left < 0:
        tree.log_phi[v] = log_h
        return
    tree.log_d[v] = tree.log_phi[left] + tree.log_phi[right] - log_h
    tree.log_phi[v] = log_h + np.logaddexp(0.0, tree.log_d[v])


@either
def adopt(tree: Tree, log_kappa: FloatArray, node: int, a: int, b: int) -> None:
    """Node, of known evidence, becomes the parent of a and b."""
    tree.left[node], tree.right[node] = a, b
    tree.parent[a], tree.parent[b] = node, node
    tree.size[node] = tree.size[a] + tree.size[b]
    settle(tree, log_kappa, node)


def from_linkage(linkage: FloatArray, log_m: FloatArray, log_kappa: FloatArray) -> Tree:
    """The finished tree of a linkage (n - 1, 4) and the evidence of its nodes (2n - 1,)."""
    tree = empty_tree(len(linkage) + 1)
    tree.log_m[:] = log_m
    _link(tree, linkage[:, :2].astype(np.int64), log_kappa)
    return tree


@kernel
def _link(tree: Tree, pairs: IntArray, log_kappa: FloatArray) -> None:
    n = len(pairs) + 1
    for i in range(n):
        settle(tree, log_kappa, i)
    for i in range(n - 1):
        adopt(tree, log_kappa, n + i, pairs[i, 0], pairs[i, 1])


def owners(tree: Tree, roots: IntArray) -> IntArray:
    """(n,): which of the roots each row is below."""
    z = np.full(tree.size.size, -1, np.int64)
    z[roots] = np.arange(len(roots))
    _climb(tree.parent, z)
    return z[: tree.n_rows]


@kernel
def _climb(parent: IntArray, z: IntArray) -> None:
    """Every row takes the mark of its lowest marked ancestor, and leaves it on the way."""
    for i in range((z.size + 1) // 2):
        v = i
        while z[v] < 0:
            v = parent[v]
        mark, v = z[v], i
        while z[v] < 0:
            z[v] = mark
            v = parent[v]


def finished(tree: Tree, log_kappa: FloatArray) -> tuple[Tree, FloatArray]:
    """The one tree over all rows with its nodes in the order of their heights, and its linkage.

    Parameters
    ----------
    tree : Tree
        One root, every node in use; its evidences are believed, its potentials computed afresh.
    log_kappa : (n + 1,) array
        The prior, by sizes.

    Returns
    -------
    tree : Tree
        Children have smaller numbers than their parents; node n + i is row i of the linkage.
    linkage : (n - 1, 4) array
        As of scipy: two nodes, their height, the number of rows.
    """
    n = tree.n_rows
    order = np.empty(2 * n - 1, np.int64)
    _top_down(tree, order)
    refresh(tree, order[::-1], log_kappa)
    height = np.logaddexp(0.0, tree.log_d)
    _raise(tree, order, height)
    inner = order[::-1][order[::-1] >= n]
    inner = inner[np.argsort(height[inner], kind="stable")]
    old = np.concatenate([np.arange(n), inner])
    new = np.empty(2 * n, np.int64)
    new[old], new[-1] = np.arange(2 * n - 1), -1  # nobody stays nobody
    left, right = new[tree.left[old]], new[tree.right[old]]
    pair = np.minimum(left, right), np.maximum(left, right)
    ordered = Tree(*pair, new[tree.parent[old]], *(x[old] for x in tree[3:]))
    return ordered, np.column_stack([*(x[n:] for x in pair), height[inner], ordered.size[n:]]).astype(np.float64)


@kernel
def _top_down(tree: Tree, order: IntArray) -> None:
    """All nodes, parents before their children; `order` is its own queue."""
    order[0] = np.argmax(tree.size)
    last = 1
    for at in range(order.size):
        v = order[at]
        if tree.left[v] >= 0:
            order[last], order[last + 1] = tree.left[v], tree.right[v]
            last += 2


@kernel
def refresh(tree: Tree, order: IntArray, log_kappa: FloatArray) -> None:
    """Potentials of all nodes from their evidences, children before parents."""
    for v in order:
        settle(tree, log_kappa, v)


@kernel
def _raise(tree: Tree, order: IntArray, height: FloatArray) -> None:
    """No node is lower than its children, or higher than log 2 in a cluster."""
    inside = np.zeros(height.size, np.bool_)
    for v in order:
        inside[v] = tree.log_d[v] <= 0.0 or (tree.parent[v] >= 0 and inside[tree.parent[v]])
    for v in order[::-1]:
        if inside[v]:
            height[v] = min(height[v], math.log(2.0))
        if tree.parent[v] >= 0:
            height[tree.parent[v]] = max(height[tree.parent[v]], height[v])


def cut(tree: Tree) -> IntArray:
    """(n,): for each row of a finished tree the largest node around it with d <= 1."""
    owner = np.full(tree.size.size, -1, np.int64)
    _cut(tree, owner)
    return owner[: tree.n_rows]


@kernel
def _cut(tree: Tree, owner: IntArray) -> None:
    for v in range(owner.size - 1, -1, -1):
        if owner[v] < 0 and tree.log_d[v] <= 0.0:
            owner[v] = v
        if owner[v] >= 0 and tree.left[v] >= 0:
            owner[tree.left[v]] = owner[tree.right[v]] = owner[v]


def log_bound(tree: Tree, prior: Prior, n_clusters: int) -> float:
    """Log of the sum of p(partition) m over all partitions of a finished tree; near n_clusters u is looked for."""
    n = tree.n_rows
    if isinstance(prior, DirichletProcess):
        alpha = prior.concentration
        return math.lgamma(alpha) - math.lgamma(alpha + n) + float(tree.log_phi[-1])
    work = _copy(tree)
    t, root = Conditional(prior.concentration, prior.discount, n, n_clusters).peak()
    share = -math.expm1(-t)  # dt/dv, v = log u
    middle, step = t + math.log(share), min(STEP / (root * share), STEP)
    log_p = [_log_joint(work, replace(prior, log_u=middle))]
    for sign in (-1.0, 1.0):
        at, top = 0, max(log_p)
        while at == 0 or log_p[-1] > top - DROP:
            at += 1
            log_p.append(_log_joint(work, replace(prior, log_u=middle + sign * at * step)))
            top = max(top, log_p[-1])
    return float(np.logaddexp.reduce(log_p)) + math.log(step)


def _log_joint(tree: Tree, prior: NormalisedGeneralisedGamma) -> float:
    """Log of the sum of p(partition, log u) m over all cuts of a finished tree, which gets the potentials of u."""
    n, v = tree.n_rows, prior.log_u
    refresh(tree, np.arange(2 * n - 1), log_kappa(prior, n))
    tilt = n * v - math.lgamma(n) - prior.concentration * math.expm1(prior.discount * float(np.logaddexp(0.0, v)))
    return tilt + float(tree.log_phi[-1])
