"""The Pitman-Yor process: power-law cluster sizes.

    p(sizes) = prod_{0<i<k} (theta + i sigma) / (theta+1)_{n-1} prod_j (1-sigma)_{n_j-1},     0 <= sigma < 1, theta > 0

Item n+1 joins block j with probability (n_j - sigma)/(n + theta) and opens one with (theta + k sigma)/(n + theta);
sigma = 0 is the Dirichlet process, journal (27). Weights by stick-breaking, beta_j ~ Beta(1 - sigma, theta + j sigma).
The number of blocks grows as n^sigma.

theta ~ Gamma(shape, rate) and sigma ~ Uniform(0, 1) are moved by slice sampling, O(k) for each evaluation.

    >>> prior = PitmanYor(concentration=1.0, discount=0.5)
    >>> round(prior.expected_n_clusters(100), 1)
    20.7

References: J. Pitman, M. Yor, Annals of Probability 25 (1997); journal (23)-(29).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from weald._typing import FloatArray, IntArray
from weald.partitions.base import AbstractPartition, as_sizes
from weald.partitions.hyper import (
    check_discount,
    check_hyperprior,
    check_items,
    check_positive,
    gamma_draw,
    log_sticks,
    resample_concentration,
    resample_discount,
)
from weald.partitions.jumps import log_points_above, stable_rate


@dataclass(frozen=True)
class PitmanYor(AbstractPartition):
    """Pitman-Yor process prior.

    Parameters
    ----------
    concentration : float
        theta > 0.
    discount : float
        sigma in [0, 1).
    shape, rate : float
        Gamma(shape, rate) hyperprior of the concentration; with shape None `update` keeps it.
    learn_discount : bool
        Whether `update` moves the discount, under a uniform hyperprior.
    """

    concentration: float = 1.0
    discount: float = 0.25
    shape: float | None = 1.0
    rate: float = 1.0
    learn_discount: bool = True

    def __post_init__(self) -> None:
        check_positive(self, "concentration")
        check_discount(self, 0.0, "[0, 1)")
        check_hyperprior(self)

    @property
    def sigma(self) -> float:
        """The discount."""
        return self.discount

    def log_v(self, n: int, k: int) -> float:
        """Log of prod_{0<i<k} (theta + i sigma) / (theta+1)_{n-1}."""
        theta = self.concentration
        opened = float(np.log(theta + self.discount * np.arange(1, k)).sum())
        return opened + math.lgamma(theta + 1.0) - math.lgamma(theta + n)

    def sticks(self, k: int, rng: np.random.Generator) -> FloatArray:
        """(k,): log stick-breaking weights in size-biased order; the last one is the rest."""
        j = np.arange(1, k)
        return log_sticks(np.full(k - 1, 1.0 - self.discount), self.concentration + self.discount * j, rng)

    def log_other_jumps(self, n: int, k: int, least: float, rng: np.random.Generator) -> FloatArray:
        """(e,): points of a generalised gamma process whose total is gamma-mixed."""
        theta, sigma = self.concentration, self.discount
        rate = stable_rate(gamma_draw(theta / sigma + k, 1.0, rng), sigma) if sigma > 0.0 else theta
        return log_points_above(least, rate, sigma, rng)

    def update(self, sizes: IntArray, rng: np.random.Generator) -> Self:
        """Slice moves of the concentration and of the discount."""
        sizes = as_sizes(sizes)
        check_items(sizes)
        theta = resample_concentration(
            self.concentration, self.shape, self.rate, lambda a: replace(self, concentration=a).log_eppf(sizes), rng
        )
        moved = replace(self, concentration=theta)
        if not self.learn_discount:
            return moved
        sigma = resample_discount(self.discount, lambda s: replace(moved, discount=s).log_eppf(sizes), rng)
        return replace(moved, discount=sigma)

    def expected_n_clusters(self, n: int) -> float:
        """Mean of the urn, E_{i+1} = E_i + (theta + sigma E_i)/(theta + i): O(n), stable for every discount."""
        expected = 0.0
        for i in range(n):
            expected += (self.concentration + self.discount * expected) / (self.concentration + i)
        return expected
