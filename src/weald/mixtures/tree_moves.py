"""Moves of a partition along a tree over the rows: many clusters gathered or one scattered; one doubtful row redrawn.

G is a tree over all rows that knows nothing of the partition (`weald.trees.bisect`), T(c) its restriction to the rows
of a cluster. Dissimilarity is measured by the marginal likelihood and the prior,

    phi(c) = R (1 - sigma)_{n_c - 1} m(c),     d(a, b) = phi(a) phi(b) / phi(a u b),     R = V_{n,2}/V_{n,1},

and nodes v = (l, r) of a tree are drawn with probability proportional to d(l, r) + max d (`chances`). Any R > 0 would
do in a proposal; for the Dirichlet process, and given u, it is the ratio V_{n,k+1}/V_{n,k} for every k.

`regroup`: pick a cluster c uniformly; every other one joins it with probability 1/(1 + d). If some do, they are
merged. If none does, a node v* of T(c) is drawn, l and r are two blocks, and the siblings of v* and of the nodes above
it, from below, enter block B with weight 1/d(B, q) or found one with weight 1. Merging blocks A of k clusters:

    q_merge = 1/k  sum_{a in A}  prod_{b in A, not a} 1/(1 + d(a, b))  prod_{b not in A} d(a, b)/(1 + d(a, b)),

and splitting is the product of its probabilities; v* is unique given the blocks, or does not exist. The ratio of the
joints times q_merge/q_split decides. Many mergers have no v*: clusters that interleave in G cannot be merged.

`revisit`: a cluster, `DEPTH` times a subtree of the subtree before, and one of its rows are drawn; the row is redrawn
from its conditional, and the new partition is accepted with probability min(1, s'/s), s that of drawing this row.

Both are the published tree-guided moves, made exact: trees that the moves rebuild would be part of the state, and the
published acceptance ratio does not know them. Cost: some 2 n_c marginals, in numpy.
Reference: document 002, sections 2 and 3, (1)-(4) with products for sums; J. Lee, S. Choi, NIPS 28 (2015).

    >>> z = regroup(Guide(T, family, prior, bisect(family.coordinates(X), rng)), z, rng)     # doctest: +SKIP
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.special import gammaln, log_expit, logsumexp

from weald._kernel import kernel
from weald._typing import FloatArray, IntArray
from weald.families.base import AbstractFamily
from weald.mixtures.collapsed import log_new
from weald.partitions import AbstractPartition, NormalisedGeneralisedGamma
from weald.trees.bisect import BisectionTree, restricted

DEPTH = 2  # subtrees of subtrees


@dataclass(frozen=True, eq=False)
class Guide:
    """What the moves go by.

    Parameters
    ----------
    T : (n, p) array
        Statistics of the rows.
    family : AbstractFamily
        Of the clusters.
    prior : AbstractPartition
        With its hyperparameters as they are now.
    tree : BisectionTree
        Over all rows.
    """

    T: FloatArray
    family: AbstractFamily
    prior: AbstractPartition
    tree: BisectionTree

    @cached_property
    def log_reference(self) -> float:
        """Log R, 0 where there is never more than one cluster."""
        found = log_new(self.prior, len(self.T), 1)
        return found if math.isfinite(found) else 0.0

    def log_phi(self, S: FloatArray) -> FloatArray:
        """(..., p) -> (...): log phi of clusters with statistics S."""
        log_sizes = gammaln(S[..., -1] - self.prior.sigma) - gammaln(1.0 - self.prior.sigma)
        found: FloatArray = self.family.log_marginal(S) + log_sizes + self.log_reference
        return found

    def log_d(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """(a, p), (b, p) -> (a, b): log dissimilarities."""
        union = self.log_phi(A[:, None] + B[None])
        found: FloatArray = self.log_phi(A)[:, None] + self.log_phi(B) - union
        return found

    def log_rise(self, k: int, more: int) -> float:
        """Log V_{n,k+more}/V_{n,k}."""
        n = len(self.T)
        if isinstance(self.prior, NormalisedGeneralisedGamma):
            return more * log_new(self.prior, n, k)
        return self.prior.log_v(n, k + more) - self.prior.log_v(n, k)

    def statistics(self, z: IntArray) -> FloatArray:
        """(n,) -> (k, p)."""
        S = np.zeros((int(z.max()) + 1, self.T.shape[1]))
        np.add.at(S, z, self.T)
        return S

    def branch(self, rows: IntArray) -> Branch:
        """T(c)."""
        tree = restricted(self.tree, rows)
        S = np.zeros((tree.right.size, self.T.shape[1]))
        S[tree.right < 0] = self.T[tree.order]
        _add_up(S, tree.parent)
        log_phi, inner = self.log_phi(S), np.flatnonzero(tree.right >= 0)
        log_d = np.full(tree.right.size, -np.inf)
        log_d[inner] = log_phi[inner + 1] + log_phi[tree.right[inner]] - log_phi[inner]
        return Branch(tree, S, log_d)


@dataclass(frozen=True, eq=False)
class Branch:
    """The tree of a cluster, statistics S (nodes, p), and log d of the children of each node, -inf for leaves."""

    tree: BisectionTree
    S: FloatArray
    log_d: FloatArray

    def chances(self, v: int, *, inner: bool = False) -> FloatArray:
        """(nodes of the subtree of v,): probabilities of drawing them; of those that are not leaves if `inner`."""
        log_d = self.log_d[self.tree.below(v)]
        if log_d.size == 1:
            return np.ones(1)
        w = 1.0 + np.exp(log_d - log_d.max())
        w[np.isneginf(log_d) & inner] = 0.0
        chances: FloatArray = w / w.sum()
        return chances

    def log_chance(self, at: int) -> float:
        """Log probability of ending at the row of place `at` after `DEPTH` subtrees."""
        path = self.tree.path(at)
        p = 1.0 / np.array([self.tree.stop[v] - self.tree.start[v] for v in path])
        onward = np.zeros((len(path), len(path)))
        for a, v in enumerate(path):
            onward[a, a:] = self.chances(v)[np.array(path[a:]) - v]
        for _ in range(DEPTH):
            p = onward @ p
        return math.log(p[0])


@kernel
def _add_up(S: FloatArray, parent: IntArray) -> None:
    """Statistics of leaves (the others 0) become those of all nodes."""
    for v in range(parent.size - 1, 0, -1):
        S[parent[v]] += S[v]


def regroup(guide: Guide, z: IntArray, rng: np.random.Generator) -> IntArray:
    """Merge some clusters, or split one into some.

    Parameters
    ----------
    guide : Guide
        What the move goes by.
    z : (n,) array of int
        Labels 0, ..., k - 1, all of them in use.
    rng : Generator
        Randomness.

    Returns
    -------
    (n,) array of int
        `z` itself where nothing was changed.
    """
    S = guide.statistics(z)
    c = int(rng.integers(len(S)))
    chosen = np.log(1.0 - rng.random(len(S))) < log_expit(-guide.log_d(S[c][None], S)[0])
    chosen[c] = True
    branch, merging = guide.branch(np.flatnonzero(chosen[z])), chosen.sum() > 1
    if branch.tree.order.size == 1:
        return z
    blocks = z[branch.tree.order] if merging else None
    path = cut_of(branch.tree, blocks) if blocks is not None else draw_cut(branch, rng)
    if path is None:
        return z
    blocks, log_q = scatter(guide, branch, path, blocks, rng)
    log_r = log_odds(guide, branch, S[~chosen], blocks, log_q)
    if not math.log(1.0 - rng.random()) < (-log_r if merging else log_r):
        return z
    found = z.copy()
    found[branch.tree.order] = c if merging else blocks + len(S)
    return np.unique(found, return_inverse=True)[1].astype(z.dtype)


def draw_cut(branch: Branch, rng: np.random.Generator) -> list[int]:
    """The nodes from the root to a node v* to be cut."""
    path = [int(rng.choice(branch.log_d.size, p=branch.chances(0, inner=True)))]
    while path[0] > 0:
        path.insert(0, int(branch.tree.parent[path[0]]))
    return path


def cut_of(tree: BisectionTree, blocks: IntArray) -> list[int] | None:
    """The nodes from the root to the v* that leads to these blocks (m,), in the order of leaves; None if none does."""
    path = [0]
    while True:
        mixed = [v for v in tree.children(path[-1]) if np.ptp(blocks[tree.start[v] : tree.stop[v]]) > 0]
        if len(mixed) != 1:
            return None if mixed else path
        path.append(mixed[0])


def scatter(
    guide: Guide, branch: Branch, path: list[int], blocks: IntArray | None, rng: np.random.Generator
) -> tuple[IntArray, float]:
    """Cut at the end of the path; returns blocks (m,), numbered as they appear, and the log probability of these.

    They are drawn, or those that are given.
    """
    tree, S = branch.tree, [branch.S[v] for v in branch.tree.children(path[-1])]
    found, names = np.zeros(tree.order.size, np.int64), list[int]()
    log_q = math.log(branch.chances(0, inner=True)[path[-1]])
    for number, v in enumerate(tree.children(path[-1])):
        found[tree.start[v] : tree.stop[v]] = number
        names += [int(blocks[tree.start[v]])] if blocks is not None else []
    for above, v in reversed(list(pairwise(path))):
        q = sum(tree.children(above)) - v
        log_w = np.append(-guide.log_d(np.stack(S), branch.S[q][None])[:, 0], 0.0)
        log_p = log_w - logsumexp(log_w)
        if blocks is None:
            number = int(rng.choice(log_p.size, p=np.exp(log_p)))
        else:
            name = int(blocks[tree.start[q]])
            names += [] if name in names else [name]
            number = names.index(name)
        S[number : number + 1] = [branch.S[q] + S[number] if number < len(S) else branch.S[q]]
        found[tree.start[q] : tree.stop[q]] = number
        log_q += float(log_p[number])
    return found, log_q


def log_odds(guide: Guide, branch: Branch, rest: FloatArray, blocks: IntArray, log_q: float) -> float:
    """Log r of splitting a cluster into blocks (m,), beside the clusters of statistics `rest` (k - 1, p).

    r is the ratio of the joints times that of the probabilities of merging the blocks and of splitting the cluster;
    `log_q` is what `scatter` found.
    """
    whole, A = branch.S[:1], np.zeros((int(blocks.max()) + 1, branch.S.shape[1]))
    np.add.at(A, blocks, guide.T[branch.tree.order])
    log_gain = float(guide.log_phi(A).sum() - guide.log_phi(whole)[0])
    log_gain += guide.log_rise(len(rest) + 1, len(A) - 1) - (len(A) - 1) * guide.log_reference
    log_alone = log_expit(guide.log_d(whole, rest)).sum() if len(rest) else 0.0
    log_split = log_q + float(log_alone) - math.log(len(rest) + 1)
    return log_gain + log_merge(guide.log_d(A, np.vstack([A, rest]))) - log_split


def log_merge(log_d: FloatArray) -> float:
    """Log probability that the first a of k clusters are merged; log_d (a, k)."""
    a, k = log_d.shape
    log_p = log_expit(log_d)
    log_p[:, :a] = log_expit(-log_d[:, :a])
    log_p[np.arange(a), np.arange(a)] = 0.0
    return float(logsumexp(log_p.sum(axis=1))) - math.log(k)


def revisit(guide: Guide, z: IntArray, rng: np.random.Generator) -> IntArray:
    """Redraw the label of one row that lies where its cluster is least alike; arguments and result as of `regroup`."""
    k = int(z.max()) + 1
    branch, v = guide.branch(np.flatnonzero(z == rng.integers(k))), 0
    for _ in range(DEPTH):
        p = branch.chances(v)
        v += int(rng.choice(p.size, p=p))
    i = int(branch.tree.order[rng.integers(branch.tree.start[v], branch.tree.stop[v])])
    found = redrawn(guide, z, i, rng)
    log_r = log_visit(guide, found, i) - log_visit(guide, z, i)
    return found if math.log(1.0 - rng.random()) < log_r else z


def log_visit(guide: Guide, z: IntArray, i: int) -> float:
    """Log probability of drawing row i when the labels are z (n,)."""
    branch = guide.branch(np.flatnonzero(z == z[i]))
    return branch.log_chance(int(np.flatnonzero(branch.tree.order == i)[0])) - math.log(int(z.max()) + 1)


def redrawn(guide: Guide, z: IntArray, i: int, rng: np.random.Generator) -> IntArray:
    """Labels with that of row i drawn from its conditional."""
    others = np.delete(z, i)
    names, found, sizes = np.unique(others, return_inverse=True, return_counts=True)
    if names.size == 0:
        return z
    S = np.zeros((names.size + 1, guide.T.shape[1]))
    np.add.at(S, found, np.delete(guide.T, i, axis=0))
    log_w = guide.family.log_marginal(S + guide.T[i]) - guide.family.log_marginal(S)
    log_w[:-1] += np.log(sizes - guide.prior.sigma)
    log_w[-1] += log_new(guide.prior, z.size, names.size)
    c = int(rng.choice(log_w.size, p=np.exp(log_w - logsumexp(log_w))))
    labels: IntArray = np.insert(found, i, c).astype(z.dtype)
    return labels
