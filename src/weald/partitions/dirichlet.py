"""Finite symmetric Dirichlet weights: the prior of finite mixtures, seen as partition prior and as weight family.

    w ~ Dirichlet(a, ..., a),  z_i | w ~ w,  counts n_k of K components, N items.      (journal (20), (49), (50))

    partition   p(sizes) = K!/(K-k)! Gamma(Ka)/Gamma(Ka+N) prod_j Gamma(a+n_j)/Gamma(a)
    labels      p(z)     = Gamma(Ka)/Gamma(Ka+N) prod_k Gamma(a+n_k)/Gamma(a)
    weights     w | z ~ Dirichlet(a + n)

For mixtures it plays the part of a family of weights: `mode_log_w` (EM, SEM), `sample_log_w` (Gibbs), `expected_log_w`
(variational), all from counts, which may be fractional. The mode is that of the natural parameters log w, where the
prior term is a sum_k log w_k: w_k = (n_k + a) / (N + K a), never zero for a > 0. With a = 0 (maximum likelihood)
empty components keep a weight of about 1e-300, so logs stay finite. Every method costs O(K).

    >>> prior = FiniteDirichlet(3, concentration=0.5)
    >>> np.exp(prior.mode_log_w(np.array([4.0, 0.0, 1.0])))
    array([0.69230769, 0.07692308, 0.23076923])

References: journal (19)-(22), (50); the M-step of the Canopy supplement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import digamma, gammaln

from weald._typing import Array, FloatArray, IntArray
from weald.exceptions import DataError, ParameterError
from weald.partitions.base import AbstractPartition
from weald.partitions.hyper import check_hyperprior, check_items, log_gamma_draw, resample_concentration
from weald.partitions.jumps import log_gammas_above

TINY = 1e-300


@dataclass(frozen=True)
class FiniteDirichlet(AbstractPartition):
    """Symmetric Dirichlet prior over the weights of a fixed number of components.

    Parameters
    ----------
    n_components : int
        K.
    concentration : float
        a, for each component; 0 gives pure frequencies.
    shape, rate : float
        Gamma(shape, rate) hyperprior of the concentration; with shape None `update` keeps it.
    """

    n_components: int
    concentration: float = 1.0
    shape: float | None = None
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not (isinstance(self.n_components, int | np.integer) and self.n_components >= 1):
            raise ParameterError(f"FiniteDirichlet: n_components must be an int >= 1, got {self.n_components!r}")
        if not 0.0 <= self.concentration < math.inf:
            raise ParameterError(
                f"FiniteDirichlet: concentration must be >= 0 and finite, got {self.concentration!r}; "
                "use 0 for maximum likelihood, 1.0 for add-one smoothing"
            )
        check_hyperprior(self)

    @property
    def sigma(self) -> float:
        """Minus the concentration."""
        return -self._a

    def log_v(self, n: int, k: int) -> float:
        """Log of a^k K!/(K-k)! Gamma(Ka)/Gamma(Ka+n)."""
        K, a = self.n_components, self._a
        if k > K:
            return -math.inf
        log_choices = math.lgamma(K + 1) - math.lgamma(K - k + 1)
        return log_choices + k * math.log(a) + math.lgamma(K * a) - math.lgamma(K * a + n)

    def sticks(self, k: int, rng: np.random.Generator) -> FloatArray:
        """(k,): exact Dirichlet log weights; components from the k-th on are summed, missing ones have -inf."""
        log_w = self.sample_log_w(np.zeros(self.n_components), rng)
        if k <= self.n_components:
            return np.append(log_w[: k - 1], np.logaddexp.reduce(log_w[k - 1 :]))
        return np.append(log_w, np.full(k - self.n_components, -np.inf))

    def log_other_jumps(self, n: int, k: int, least: float, rng: np.random.Generator) -> FloatArray:
        """(e,): gamma masses of the K - k empty components."""
        if k > self.n_components:
            raise DataError(f"{k} blocks are more than the {self.n_components} components; ask for more components")
        return log_gammas_above(least, self.n_components - k, self._a, rng)

    def update(self, sizes: Array, rng: np.random.Generator) -> Self:
        """Slice move of the concentration given counts (at most K of them, zeros allowed), if it has a hyperprior."""
        check_items(sizes)

        def log_likelihood(concentration: float) -> float:
            return replace(self, concentration=concentration).log_marginal(sizes)

        value = resample_concentration(self.concentration, self.shape, self.rate, log_likelihood, rng)
        return replace(self, concentration=value)

    def expected_n_clusters(self, n: int) -> float:
        """K (1 - probability that n items leave a given component empty)."""
        K, a = self.n_components, self._a
        log_empty = gammaln((K - 1) * a + n) - gammaln((K - 1) * a) + gammaln(K * a) - gammaln(K * a + n)
        return float(-K * np.expm1(log_empty))

    def mode_log_w(self, counts: Array) -> FloatArray:
        """(K,) -> (K,): argmax over log w of sum_k n_k log w_k + log_prior(log_w), the log posterior-mean weights."""
        posterior = self._posterior(counts)
        log_w: FloatArray = np.log(posterior) - math.log(posterior.sum())
        return log_w

    def mean_log_w(self, counts: Array) -> FloatArray:
        """(K,) -> (K,): log of the posterior mean of w, which is `mode_log_w`."""
        return self.mode_log_w(counts)

    def sample_log_w(self, counts: Array, rng: np.random.Generator) -> FloatArray:
        """(K,) -> (K,): log of a Dirichlet(a + n) draw; finite for the smallest concentrations."""
        log_g = log_gamma_draw(self._posterior(counts), rng)
        log_w: FloatArray = log_g - np.logaddexp.reduce(log_g)
        return log_w

    def expected_log_w(self, counts: Array) -> FloatArray:
        """(K,) -> (K,): E[log w] under Dirichlet(a + n)."""
        posterior = self._posterior(counts)
        log_w: FloatArray = digamma(posterior) - digamma(posterior.sum())
        return log_w

    def log_prior(self, log_w: Array) -> float:
        """(K,) -> float: a sum_k log w_k, the prior's term of the objective that `mode_log_w` maximises."""
        return float(self.concentration * np.sum(log_w))

    def log_marginal(self, counts: Array) -> float:
        """(at most K,) -> float: log probability of one labelled assignment with these counts."""
        counts, K, a = np.asarray(counts, np.float64), self.n_components, self._a
        if counts.ndim != 1 or counts.size > K or (counts < 0).any():
            raise DataError(f"counts must be at most {K} non-negative numbers, got an array of shape {counts.shape}")
        blocks = gammaln(a + counts) - gammaln(a)
        return float(gammaln(K * a) - gammaln(K * a + counts.sum()) + blocks.sum())

    def merge_gain(self, counts: Array, pairs: IntArray) -> FloatArray:
        """(m, 2) pairs of components -> (m,): what `log_marginal` gains when each pair becomes one."""
        n_a, n_b = np.asarray(counts)[pairs.T] + self._a
        gain: FloatArray = gammaln(n_a + n_b - self._a) + gammaln(self._a) - gammaln(n_a) - gammaln(n_b)
        return gain

    @property
    def _a(self) -> float:
        return max(self.concentration, TINY)

    def _posterior(self, counts: Array) -> FloatArray:
        counts = np.asarray(counts, np.float64)
        if counts.shape != (self.n_components,) or (counts < 0).any():
            raise DataError(f"counts must be {self.n_components} non-negative numbers, got shape {counts.shape}")
        return counts + self._a
