"""More rows for draws of a partition: each draw is a particle that takes the rows one after the other.

    weight of a draw  *=  p(row | rows of the draw so far),      the row's cluster ~ its conditional given the draw

which is exact importance sampling with the draws of the fit as proposals; where few draws carry the weight (an
effective share below `LEAST`), they are drawn again in proportion to it. Labels of earlier rows stay as they are, so
this is for a stream of batches after a good fit; rows that change the picture call for a new one.

Rows that found clusters of their own are given groups beyond those of the fit: their consensus (`weald.consensus`).
Cost: for each row the scores of the clusters of all draws.
References: J. Liu, Ann. Statist. 24 (1996), 911-930; P. Fearnhead, Statistics and Computing 14 (2004), 11-21.

    >>> draws, share = learnt(draws, X, np.random.default_rng(0))           # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from weald._typing import FloatArray, IntArray, Matrix
from weald.consensus import point_estimate
from weald.mixtures.partition_draws import PartitionDraws

LEAST = 0.5


@dataclass
class Cloud:
    """Particles while they learn; `z` (m, rows so far) are the clusters, numbers of rows of S, that rows went to."""

    draws: PartitionDraws
    z: IntArray
    n_before: int  # clusters from here on were opened by the new rows
    worst: float = 1.0  # the smallest effective share on the way

    def take(self, x: Matrix, rng: np.random.Generator) -> None:
        """One row."""
        draws, owner = self.draws, self.draws.owner
        T = draws.family.sufficient(x)
        joins, opens = draws.log_w
        known, new = draws.log_scores(T)
        known, new = known[0] + joins, new[0] + opens
        total = np.logaddexp(_sums(known, owner, draws.n_draws), new)
        fresh = np.log1p(-rng.random(draws.n_draws)) < new - total
        chosen = _draw_each(known, owner, draws.n_draws, rng)
        chosen[fresh] = len(owner) + np.arange(np.count_nonzero(fresh))
        self._join(np.asarray(T.toarray() if hasattr(T, "toarray") else T, np.float64)[0], chosen, fresh)
        self._weigh(total, rng)

    def _join(self, row: FloatArray, chosen: IntArray, fresh: FloatArray) -> None:
        """The row enters a cluster of each draw."""
        draws, n_fresh = self.draws, int(np.count_nonzero(fresh))
        S = np.vstack([draws.S, np.zeros((n_fresh, row.size))])
        S[chosen] += row
        owner = np.append(draws.owner, np.flatnonzero(fresh))
        group = np.vstack([draws.group, np.zeros((n_fresh, draws.n_groups))])
        self.draws = replace(draws, S=S, owner=owner, group=group)
        self.z = np.column_stack([self.z, chosen])

    def _weigh(self, log_p: FloatArray, rng: np.random.Generator) -> None:
        """Weights times p; draws again where few of them carry all weight."""
        log_share = self.draws.log_share + log_p
        log_share -= logsumexp(log_share)
        share = float(np.exp(-logsumexp(2 * log_share)) / log_share.size)
        self.worst = min(self.worst, share)
        self.draws = replace(self.draws, log_share=log_share)
        if share < LEAST:
            self._draw_again(rng)

    def _draw_again(self, rng: np.random.Generator) -> None:
        """Systematic resampling: clusters are copied with their draws."""
        draws, m = self.draws, self.draws.n_draws
        taken = np.searchsorted(np.cumsum(np.exp(draws.log_share)), (rng.random() + np.arange(m)) / m).clip(0, m - 1)
        old = [np.flatnonzero(draws.owner == t) for t in taken]
        at = np.concatenate(old)
        order = np.lexsort((np.arange(at.size), at >= self.n_before))  # those of the fit stay before the others
        place, n_before = np.argsort(order), int(np.count_nonzero(at < self.n_before))
        owner = np.repeat(np.arange(m), [len(part) for part in old])
        ends = np.cumsum([0, *map(len, old)])
        z = [place[ends[j] + np.searchsorted(old[j], self.z[t])] for j, t in enumerate(taken)]
        self.z, self.n_before = np.array(z, np.int64).reshape(m, -1), n_before
        self.draws = replace(
            draws, S=draws.S[at][order], owner=owner[order], group=draws.group[at][order],
            priors=tuple(draws.priors[t] for t in taken), log_share=np.full(m, -np.log(m)),
        )  # fmt: skip

    def grouped(self, rng: np.random.Generator) -> PartitionDraws:
        """The draws, the clusters opened since described by groups of their own."""
        draws, z = self.draws, self.z
        is_new = z >= self.n_before
        rows = np.flatnonzero(np.exp(draws.log_share) @ is_new > 0.5)
        if not rows.size:
            return replace(draws, group=_filled(draws.group, draws.owner))
        found = point_estimate(z[:, rows], rng=rng)
        group = np.hstack([draws.group, np.zeros((len(draws.group), found.n_clusters))])
        for t in range(draws.n_draws):
            mine = is_new[t, rows]
            np.add.at(group, (z[t, rows[mine]], draws.n_groups + found.labels[mine]), 1.0)
        return replace(draws, group=_filled(group, draws.owner))


def learnt(draws: PartitionDraws, X: Matrix, rng: np.random.Generator) -> tuple[PartitionDraws, float]:
    """The draws given more rows X (n, d), and the smallest effective share of them on the way."""
    ready = draws.for_rows(X)
    cloud = Cloud(ready, np.empty((ready.n_draws, 0), np.int64), len(ready.S))
    for i in range(X.shape[0]):
        cloud.take(X[i : i + 1], rng)
    return cloud.grouped(rng), cloud.worst


def _sums(log_p: FloatArray, owner: IntArray, m: int) -> FloatArray:
    """(M,) -> (m,): log of the sums of the exponentials of each draw."""
    top = np.full(m, -np.inf)
    np.maximum.at(top, owner, log_p)
    total: FloatArray = top + np.log(np.bincount(owner, np.exp(log_p - top[owner]), minlength=m))
    return total


def _draw_each(log_p: FloatArray, owner: IntArray, m: int, rng: np.random.Generator) -> IntArray:
    """(m,): a cluster of each draw with probability proportional to exp(log_p)."""
    order = np.lexsort((log_p + rng.gumbel(size=log_p.size), owner))
    return order[np.searchsorted(owner[order], np.arange(m), side="right") - 1]


def _filled(group: FloatArray, owner: IntArray) -> FloatArray:
    """Shares that sum to one; a cluster about whose rows nothing is known has those of its draw."""
    total = group.sum(axis=1, keepdims=True)
    of_draw = np.zeros((owner.max() + 1, group.shape[1]))
    np.add.at(of_draw, owner, group)
    filled = np.where(total > 0, group, of_draw[owner])
    return np.asarray(filled / filled.sum(axis=1, keepdims=True))
