"""Prediction from draws of a partition: parameters integrated out, everything else averaged.

Given one draw, with clusters c of statistics S_c and sizes n_c, a new row

    joins cluster c          with weight  (1 - v) (n_c - sigma) / sum_c (n_c - sigma)  p(x | S_c),
    opens one of its own     with weight  v p(x),            v the prior's predictive probability of a new cluster,

and the log of the mean over draws of their sum is the log posterior predictive density. Labels differ between draws,
so a row is described in terms of one partition of the training rows, the point estimate: it takes the group of a
random member of the cluster that it joins,

    p(group g | x) = mean over draws of  sum_c p(c | x) (share of cluster c in group g),    new clusters left out.

Cost: n times the number of clusters of all draws; memory does not grow with n beyond the answer.

    >>> from weald.families import SphericalGaussian
    >>> from weald.partitions import DirichletProcess
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> rows = Rows(X, SphericalGaussian.from_data(X, 2))
    >>> Z = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 2]])
    >>> draws = draws_of(rows, Z, [DirichletProcess()] * 3, np.array([0, 0, 1, 1]))
    >>> np.argmax(draws.proba(X, Threads(1)), axis=1)
    array([0, 0, 1, 1])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from weald._typing import Array, FloatArray, IntArray, Matrix
from weald.assign import Rows
from weald.assign.base import statistics
from weald.engine import Threads, shards_of
from weald.exceptions import ParameterError
from weald.families.base import AbstractFamily
from weald.partitions import AbstractPartition


@dataclass(frozen=True, eq=False)
class PartitionDraws:
    """m draws of a partition with M clusters in all, as far as new rows need them.

    Parameters
    ----------
    family : AbstractFamily
        Reads the rows.
    S : (M, p) array
        Statistics of the clusters of all draws.
    owner : (M,) int array
        The draw that each cluster belongs to.
    priors : tuple of m AbstractPartition
        The prior of each draw, with its hyperparameters.
    group : (M, G) array
        Shares of each cluster in the groups of the point estimate; rows sum to one.
    log_share : (m,) array
        Log weights of the draws; their exponentials sum to one.
    """

    family: AbstractFamily
    S: FloatArray
    owner: IntArray
    priors: tuple[AbstractPartition, ...]
    group: FloatArray
    log_share: FloatArray

    def __post_init__(self) -> None:
        m, M = len(self.priors), len(self.S)
        fits = self.S.shape == (M, self.family.width) and self.owner.shape == (M,) and self.group.shape[0] == M
        if not fits or self.log_share.shape != (m,) or not np.array_equal(np.unique(self.owner), np.arange(m)):
            raise ParameterError(f"{M} clusters, their owners and groups do not fit {m} draws")

    @property
    def n_draws(self) -> int:
        """M."""
        return len(self.priors)

    @property
    def n_groups(self) -> int:
        """G."""
        return int(self.group.shape[1])

    @cached_property
    def log_w(self) -> tuple[FloatArray, FloatArray]:
        """(M,), (m,): log probabilities that the next row joins each cluster, and that it opens one, in each draw."""
        joins, opens = np.empty(len(self.S)), np.empty(self.n_draws)
        sizes = np.rint(self.S[:, -1]).astype(np.int64)
        for t, prior in enumerate(self.priors):
            mine = self.owner == t
            joins[mine], opens[t] = prior.log_weights(sizes[mine])
        return joins, opens

    def log_density(self, X: Matrix, engine: Threads) -> FloatArray:
        """(n,): log posterior predictive density."""
        return self._map(lambda joint: logsumexp(joint, axis=1), X, engine)

    def proba(self, X: Matrix, engine: Threads) -> FloatArray:
        """(n, G): probabilities of the groups, given that the row is of a cluster already known."""

        def groups(joint: FloatArray) -> FloatArray:
            known = joint[:, :-1]
            p = np.exp(known - known.max(axis=1, keepdims=True)) @ self.group
            return np.asarray(p / p.sum(axis=1, keepdims=True))

        return self._map(groups, X, engine)

    def novelty(self, X: Matrix, engine: Threads) -> FloatArray:
        """(n,): probability that the row is the first of its cluster."""
        return self._map(lambda joint: np.exp(joint[:, -1] - logsumexp(joint, axis=1)), X, engine)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, IntArray]:
        """Rows (n, d) from the posterior predictive, and their groups (n,), -1 for a cluster of their own."""
        joins, opens = self.log_w
        log_p = np.append(joins + self.log_share[self.owner], logsumexp(opens + self.log_share))
        c = rng.choice(log_p.size, n, p=np.exp(log_p - logsumexp(log_p)))
        S = np.vstack([self.S, np.zeros((1, self.family.width))])[c]
        share = np.vstack([self.group, np.zeros((1, self.n_groups))])[c]
        z = (share.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        return self.family.sample_x(self.family.sample_eta(S, rng), rng), np.where(c < len(self.S), z, -1)

    def for_rows(self, X: Matrix) -> PartitionDraws:
        """These draws, able to read X: widened where X has the first missing cells."""
        family: Any = self.family
        if not family.accepts_missing or not isinstance(X, np.ndarray) or not np.isnan(X).any():
            return self
        wide = family.with_missing()
        return self if wide is family else replace(self, family=wide, S=family.widen_S(self.S))

    def log_scores(self, T: Matrix) -> tuple[FloatArray, FloatArray]:
        """(n, p) -> (n, M), (n,): log p(x | cluster) for each cluster, and for one without rows."""
        empty = np.zeros((1, self.family.width))
        return self.family.log_predictive(self.S, T), self.family.log_predictive(empty, T)[:, 0]

    def _joint(self, X: Matrix) -> FloatArray:
        """(n, M + 1): log p(x, cluster, draw); the last column is for a new cluster, over all draws."""
        (joins, opens), (known, new) = self.log_w, self.log_scores(self.family.sufficient(X))
        known += joins + self.log_share[self.owner]
        joint = np.concatenate([known, (new + logsumexp(opens + self.log_share))[:, None]], axis=1)
        return np.asarray(joint + self.family.log_base(X)[:, None])

    def _map(self, function: Callable[[FloatArray], FloatArray], X: Matrix, engine: Threads) -> FloatArray:
        """Apply `function` to the log joint of tiles of rows; concatenate along rows."""
        ready = self.for_rows(X)
        rows = Rows(X, ready.family)

        def of_shard(shard: slice) -> FloatArray:
            return np.concatenate([function(ready._joint(X[tile])) for tile in rows.tiles(shard, len(self.S))])

        return np.concatenate(list(engine.map(of_shard, shards_of(X.shape[0]))))


def draws_of(rows: Rows, Z: IntArray, priors: Sequence[AbstractPartition], groups: IntArray) -> PartitionDraws:
    """Draws from labels Z (m, n) of the rows, with a prior for each, described by groups (n,) of the point estimate."""
    S, owner, group = [], [], []
    for t, z in enumerate(Z):
        _, codes, sizes = np.unique(z, return_inverse=True, return_counts=True)
        S.append(statistics(rows, codes.astype(np.int32), sizes.size, Threads(1)))
        owner.append(np.full(sizes.size, t))
        counts = np.bincount(codes * (groups.max() + 1) + groups, minlength=sizes.size * (groups.max() + 1))
        group.append(counts.reshape(sizes.size, -1) / sizes[:, None])
    log_share = np.full(len(Z), -np.log(len(Z)))
    joined = np.concatenate(S), np.concatenate(owner), tuple(priors), np.concatenate(group)
    return PartitionDraws(rows.family, *joined, log_share)
