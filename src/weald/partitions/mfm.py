"""Mixtures of finite mixtures: a Dirichlet over K components, K itself random.

    K ~ pmf,   w | K ~ Dirichlet(gamma, ..., gamma):     p(sizes) = V_n(k) prod_j gamma (gamma+1) ... (gamma+n_j-1),
    V_n(k) = sum_{K >= k} K!/(K-k)! Gamma(gamma K)/Gamma(gamma K + n) pmf(K)

Unlike the Dirichlet process it finds the true number of components of a finite mixture as data grow. The sum runs
in logs until a bound on its tail is below 1e-17 of it: as the pmf is log-concave the ratio of two terms falls below
rho(K) = pmf(K+1)/pmf(K) (K+1)/(K+1-k), which decreases. Values are cached. K - 1 is Poisson or geometric with mean
`n_extra`; the geometric is a Poisson whose mean is itself unknown (exponential), so `n_extra` is not resampled.

gamma ~ Gamma(shape, rate), if given, is moved by slice sampling.

    >>> prior = MixtureOfFiniteMixtures(concentration=1.0, n_extra=4.0)
    >>> int(prior.log_n_clusters(50).argmax()) + 1
    4

References: J. Miller, M. Harrison, JASA 113 (2018), section 3; journal (48)-(52).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np
from scipy.special import gammaln

from weald._typing import FloatArray, IntArray
from weald.exceptions import ParameterError
from weald.partitions.base import AbstractPartition, as_sizes
from weald.partitions.dirichlet import FiniteDirichlet
from weald.partitions.hyper import check_hyperprior, check_items, check_positive, resample_concentration
from weald.partitions.jumps import log_gammas_above

PMFS: dict[str, tuple[Callable[[FloatArray, float], FloatArray], Callable[[float, np.random.Generator], int]]] = {
    "poisson": (
        lambda extra, mean: extra * math.log(mean) - mean - gammaln(extra + 1.0),
        lambda mean, rng: 1 + int(rng.poisson(mean)),
    ),
    "geometric": (
        lambda extra, mean: extra * math.log(mean / (1.0 + mean)) - math.log1p(mean),
        lambda mean, rng: int(rng.geometric(1.0 / (1.0 + mean))),
    ),
}


@dataclass(frozen=True)
class MixtureOfFiniteMixtures(AbstractPartition):
    """Symmetric Dirichlet weights over a random number of components.

    Parameters
    ----------
    concentration : float
        gamma > 0, for each component.
    n_extra : float
        Mean number of components beyond the first.
    pmf : {"poisson", "geometric"}
        Distribution of the number of components less one.
    shape, rate : float
        Gamma(shape, rate) hyperprior of the concentration; with shape None `update` keeps it.
    """

    concentration: float = 1.0
    n_extra: float = 4.0
    pmf: str = "poisson"
    shape: float | None = None
    rate: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "concentration", "n_extra")
        check_hyperprior(self)
        if self.pmf not in PMFS:
            raise ParameterError(f"MixtureOfFiniteMixtures: pmf must be one of {sorted(PMFS)}, got {self.pmf!r}")

    @property
    def sigma(self) -> float:
        """Minus the concentration."""
        return -self.concentration

    def log_v(self, n: int, k: int) -> float:
        """Log of gamma^k V_n(k)."""
        return k * math.log(self.concentration) + _log_v(self, n, k)

    def sticks(self, k: int, rng: np.random.Generator) -> FloatArray:
        """(k,): log weights of a random number of components; those from the k-th on are summed, missing ones -inf."""
        n_components = PMFS[self.pmf][1](self.n_extra, rng)
        return FiniteDirichlet(n_components, self.concentration).sticks(k, rng)

    def log_other_jumps(self, n: int, k: int, least: float, rng: np.random.Generator) -> FloatArray:
        """(e,): gamma masses of the empty components, whose number is drawn."""
        K, log_terms = _log_terms(self, _log_choices(self, n, k), k)
        p = np.exp(log_terms - log_terms.max())
        n_components = int(rng.choice(K, p=p / p.sum()))
        return log_gammas_above(least, n_components - k, self.concentration, rng)

    def update(self, sizes: IntArray, rng: np.random.Generator) -> Self:
        """Slice move of the concentration, if it has a hyperprior."""
        sizes = as_sizes(sizes)
        check_items(sizes)
        value = resample_concentration(
            self.concentration, self.shape, self.rate, lambda a: replace(self, concentration=a).log_eppf(sizes), rng
        )
        return replace(self, concentration=value)

    def expected_n_clusters(self, n: int) -> float:
        """Mean over K of K (1 - probability that n items leave a given component empty)."""
        gamma = self.concentration

        def log_mean(K: FloatArray) -> FloatArray:
            log_empty = gammaln((K - 1) * gamma + n) - gammaln((K - 1) * gamma) + gammaln(K * gamma)
            log_mean: FloatArray = np.log(-K * np.expm1(log_empty - gammaln(K * gamma + n)))
            return log_mean

        return math.exp(_log_sum(self, log_mean, 1))


@lru_cache(maxsize=2**15)
def _log_v(prior: MixtureOfFiniteMixtures, n: int, k: int) -> float:
    return _log_sum(prior, _log_choices(prior, n, k), k)


def _log_choices(prior: MixtureOfFiniteMixtures, n: int, k: int) -> Callable[[FloatArray], FloatArray]:
    """K -> log K!/(K-k)! Gamma(gamma K)/Gamma(gamma K + n)."""

    def log_term(K: FloatArray) -> FloatArray:
        log_choices = gammaln(K + 1.0) - gammaln(K - k + 1.0)
        log_term: FloatArray = log_choices + gammaln(prior.concentration * K) - gammaln(prior.concentration * K + n)
        return log_term

    return log_term


def _log_sum(prior: MixtureOfFiniteMixtures, log_term: Callable[[FloatArray], FloatArray], k: int) -> float:
    """Log of sum_{K>=k} pmf(K) term(K)."""
    return float(np.logaddexp.reduce(_log_terms(prior, log_term, k)[1]))


def _log_terms(
    prior: MixtureOfFiniteMixtures, log_term: Callable[[FloatArray], FloatArray], k: int
) -> tuple[FloatArray, FloatArray]:
    """K = k, k + 1, ... and log pmf(K) term(K), as far as they matter; term(K+1)/term(K) <= (K+1)/(K+1-k)."""
    n_terms = 64
    while True:
        K = np.arange(k, k + n_terms + 1, dtype=np.float64)
        log_pmf = PMFS[prior.pmf][0](K - 1.0, prior.n_extra)
        log_terms = (log_pmf + log_term(K))[:-1]
        log_total = float(np.logaddexp.reduce(log_terms))
        rho = math.exp(log_pmf[-1] - log_pmf[-2]) * K[-1] / (K[-1] - k)
        if rho < 1.0 and log_terms[-1] + math.log(rho / (1.0 - rho)) < log_total - 40.0:
            return K[:-1], log_terms
        n_terms *= 2
