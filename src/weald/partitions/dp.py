"""The Dirichlet process, as a partition: the Chinese restaurant.

    G ~ DP(alpha, H),   p(sizes) = alpha^k Gamma(alpha)/Gamma(alpha+n) prod_j Gamma(n_j)         (journal (19)-(27))

Item n+1 joins block j with probability n_j/(n+alpha) and opens one with alpha/(n+alpha) (27), (58). Weights by
stick-breaking, beta_k ~ Beta(1, alpha), pi_k = beta_k prod_{l<k} (1-beta_l) (28), (29), (53), (54). The mean number of
blocks is alpha (psi(alpha+n) - psi(alpha)), about alpha log(1 + n/alpha) (55).

alpha ~ Gamma(shape, rate) is moved by an auxiliary variable (Escobar and West 1995), in O(1):
eta ~ Beta(alpha+1, n), then alpha ~ Gamma(shape + k, rate - log eta) with odds (shape + k - 1) : n (rate - log eta)
against Gamma(shape + k - 1, rate - log eta).

    >>> prior = DirichletProcess(concentration=1.0, shape=2.0, rate=1.0)
    >>> prior = prior.update(np.array([10, 3, 1]), np.random.default_rng(0))

Reference: M. Escobar, M. West, JASA 90 (1995).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import digamma

from weald._typing import FloatArray, IntArray
from weald.partitions.base import AbstractPartition, as_sizes
from weald.partitions.hyper import check_hyperprior, check_items, check_positive, gamma_draw, log_sticks
from weald.partitions.jumps import log_points_above


@dataclass(frozen=True)
class DirichletProcess(AbstractPartition):
    """Dirichlet process prior.

    Parameters
    ----------
    concentration : float
        alpha > 0; the mean number of clusters grows as alpha log n.
    shape, rate : float
        Gamma(shape, rate) hyperprior of the concentration; with shape None `update` keeps it.
    """

    concentration: float = 1.0
    shape: float | None = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "concentration")
        check_hyperprior(self)

    @property
    def sigma(self) -> float:
        """Zero."""
        return 0.0

    def log_v(self, n: int, k: int) -> float:
        """Log of alpha^k Gamma(alpha)/Gamma(alpha+n)."""
        alpha = self.concentration
        return k * math.log(alpha) + math.lgamma(alpha) - math.lgamma(alpha + n)

    def sticks(self, k: int, rng: np.random.Generator) -> FloatArray:
        """(k,): log stick-breaking weights in size-biased order; the last one is the rest."""
        ones = np.ones(k - 1)
        return log_sticks(ones, self.concentration * ones, rng)

    def log_other_jumps(self, n: int, k: int, least: float, rng: np.random.Generator) -> FloatArray:
        """(e,): points of a gamma process, whatever the partition."""
        return log_points_above(least, self.concentration, 0.0, rng)

    def update(self, sizes: IntArray, rng: np.random.Generator) -> Self:
        """Gibbs move of the concentration."""
        sizes = as_sizes(sizes)
        check_items(sizes)
        if self.shape is None:
            return self
        n, k = int(sizes.sum()), sizes.size
        rate = self.rate - math.log(rng.beta(self.concentration + 1.0, n))
        odds = (self.shape + k - 1.0) / (n * rate)
        shape = self.shape + k - (rng.random() * (1.0 + odds) >= odds)
        return replace(self, concentration=gamma_draw(shape, rate, rng))

    def expected_n_clusters(self, n: int) -> float:
        """Exact mean, alpha (psi(alpha+n) - psi(alpha))."""
        alpha = self.concentration
        return float(1.0 + alpha * (digamma(alpha + n) - digamma(alpha + 1.0)))

    def expected_n_clusters_approx(self, n: int) -> float:
        """The approximation alpha log(1 + n/alpha), journal (55); too small by half a cluster to one."""
        return self.concentration * math.log1p(n / self.concentration)
