"""A counter-example: the global move of tree-guided MCMC as published (document 002, section 2), on forests.

The state is a forest, one tree over the rows of each cluster; the acceptance ratio, with products for the sums of (3)
and (4), speaks of partitions. It is not that of any reversible chain: a split forgets the tree that it cuts, a merger
makes a cascade of the trees it finds, and the ratio of a merger has one way of picking the first cluster where that of
a split has all. With so few rows all forests can be listed, and the stationary law found without simulation. It is
not the posterior.

A tree is a row or a pair of trees; phi(t) = phi_h(t) + phi(left) phi(right), d(a, b) = phi(a) phi(b)/phi_h(a u b).

    >>> Published(log_phi, 4).partition_law()                    # {partition: stationary probability}
"""

from collections import defaultdict
from functools import cached_property, lru_cache
from itertools import combinations
from math import exp, prod

import numpy as np


@lru_cache(None)
def leaves(t):
    return frozenset([t]) if isinstance(t, int) else leaves(t[0]) | leaves(t[1])


def index(t):
    """By which trees are sorted: clusters are disjoint."""
    return min(leaves(t))


def node(a, b):
    return (a, b) if index(a) < index(b) else (b, a)


class Published:
    """`log_phi`: frozenset of rows -> log phi_h; n rows."""

    def __init__(self, log_phi, n):
        self.phi_h = lru_cache(None)(lambda rows: exp(log_phi(rows)))
        self.n = n

    @lru_cache(None)  # noqa: B019
    def phi(self, t):
        return self.phi_h(leaves(t)) + (0.0 if isinstance(t, int) else self.phi(t[0]) * self.phi(t[1]))

    @lru_cache(None)  # noqa: B019
    def d(self, a, b):
        return self.phi(a) * self.phi(b) / self.phi_h(leaves(a) | leaves(b))

    def seq_insert(self, t, q):
        if isinstance(t, int) or self.d(*t) < min(self.d(t[0], q), self.d(t[1], q)):
            return node(t, q)
        near, far = sorted(t, key=lambda child: self.d(child, q))
        return node(self.seq_insert(near, q), far)

    def nodes(self, t, above=()):
        """All inner nodes with the siblings on the way up, nearest first."""
        if not isinstance(t, int):
            yield t, above
            for child, sibling in (t, t[::-1]):
                yield from self.nodes(child, (sibling, *above))

    def cuts(self, t):
        """(node, siblings, probability)."""
        found = list(self.nodes(t))
        top = max(self.d(*v) for v, _ in found)
        total = sum(self.d(*v) + top for v, _ in found)
        return [(v, above, (self.d(*v) + top) / total) for v, above in found]

    def stoc_insert(self, S, queue):
        """All ways of sharing out the queue: (trees, probability)."""
        if not queue:
            yield S, 1.0
            return
        q, *rest = queue
        w = [1.0 / self.d(s, q) for s in S]
        ways = [([*S[:i], self.seq_insert(s, q), *S[i + 1 :]], w[i]) for i, s in enumerate(S)] + [([*S, q], 1.0)]
        for trees, weight in ways:
            for end, p in self.stoc_insert(trees, rest):
                yield end, p * weight / (1.0 + sum(w))

    def gather(self, c, chosen, others):
        """Probability that c, once picked, gathers these of all clusters."""
        return prod(1.0 / (1.0 + self.d(c, b)) for b in chosen) * prod(
            self.d(c, b) / (1.0 + self.d(c, b)) for b in others
        )

    def joint(self, forest):
        return prod(self.phi_h(leaves(t)) for t in forest)

    def splits(self, forest, c):
        others = forest - {c}
        alone = self.gather(c, (), others) / len(forest)
        for v, above, p in self.cuts(c):
            for trees, p_in in self.stoc_insert(list(v), above):
                to = others.union(trees)
                back = sum(self.gather(t, set(trees) - {t}, others) for t in trees) / len(to)  # (3)
                forward = alone * p * p_in
                yield to, forward * min(1.0, self.joint(to) / self.joint(forest) * back / forward)

    def mergers(self, forest, c):
        for size in range(1, len(forest)):
            for chosen in combinations(forest - {c}, size):
                others = forest.difference(chosen, [c])
                first, *rest = sorted([c, *chosen], key=index)
                cascade, below = first, None
                for t in rest:
                    cascade = (cascade, t)
                    below = below or cascade
                forward = self.gather(c, chosen, others) / len(forest)  # (2)
                back = self.gather(cascade, (), others) / (1 + len(others))  # (4)
                back *= next(p for v, _, p in self.cuts(cascade) if v == below)
                S = list(below)
                for t in rest[1:]:
                    back /= 1.0 + sum(1.0 / self.d(s, t) for s in S)
                    S.append(t)
                to = others | {cascade}
                yield to, forward * min(1.0, self.joint(to) / self.joint(forest) * back / forward)

    def moves(self, forest):
        for c in forest:
            if not isinstance(c, int):
                yield from self.splits(forest, c)
            yield from self.mergers(forest, c)

    @cached_property
    def matrix(self):
        """Forests that can be reached from single rows, and the transition matrix of these."""
        found, rows = {frozenset(range(self.n)): 0}, []
        for forest in (queue := list(found)):
            moves = list(self.moves(forest))
            for to, _ in moves:
                if to not in found:
                    found[to] = len(found)
                    queue.append(to)
            rows.append([(found[to], p) for to, p in moves])
        P = np.zeros((len(found), len(found)))
        for s, row in enumerate(rows):
            for to, p in row:
                P[s, to] += p
            P[s, s] += 1.0 - P[s].sum()
        return list(found), P

    def partition_law(self):
        """{partition as a frozenset of clusters: stationary probability}."""
        forests, P = self.matrix
        A = np.vstack([P.T - np.eye(len(P)), np.ones(len(P))])
        p = np.linalg.lstsq(A, np.append(np.zeros(len(P)), 1.0), rcond=None)[0]
        law = defaultdict(float)
        for forest, mass in zip(forests, p, strict=True):
            law[frozenset(map(leaves, forest))] += mass
        return dict(law)
