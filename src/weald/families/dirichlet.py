"""Probability vectors with Dirichlet priors, in logs: what categorical and multinomial families share.

    p_kj ~ Dirichlet(a_j) for each segment j of the V = sum_j L_j entries,   T = (indicators or counts, 1)
    eta = (log p, 0),    log evidence = sum_j log B(a_j + s_j) - log B(a_j)

The parametrisation is overcomplete: probabilities of a segment sum to one, so the log partition is 0. The posterior
is Dirichlet(a + s), its mode (a + s - 1)/(A + n - L), defined for a >= 1; where the mode is 0/0 (a = 1, no data) it is
the prior mean. Log probabilities of a mode are kept above log 1e-300, so that zero counts times log zero is no NaN.
Draws are made in logs and survive concentrations near 0: log G(a) = log G(a + 1) + log(U)/a. Cost: k V.

    >>> bool(np.isfinite(log_gamma_draws(np.full(9, 1e-5), np.random.default_rng(0))).all())
    True
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from scipy.special import digamma, gammaln

from weald._typing import Array, FloatArray, IntArray
from weald.exceptions import ParameterError
from weald.families.base import AbstractOneLayout

LEAST = 1e-300


def log_gamma_draws(shape: Array, rng: np.random.Generator) -> FloatArray:
    """Logs of Gamma(shape, 1) draws, finite for any positive shape."""
    log_draw: FloatArray = np.log(rng.standard_gamma(shape + 1)) + np.log1p(-rng.random(np.shape(shape))) / shape
    return log_draw


def log_share(part: Array, total: Array, otherwise: Array) -> FloatArray:
    """log(part / total), or log(otherwise) where total is 0; never below log 1e-300."""
    share = np.where(total > 0, part / np.where(total > 0, total, 1.0), otherwise)
    log_p: FloatArray = np.log(np.maximum(share, LEAST))
    return log_p


class AbstractDirichlet(AbstractOneLayout):
    """Segments of probabilities with Dirichlet priors; `concentration` (V,) holds a."""

    concentration: FloatArray

    @property
    @abstractmethod
    def lengths(self) -> IntArray:
        """(J,): the number of entries of each segment; they sum to V."""

    @property
    def width(self) -> int:
        """Columns of T: V + 1."""
        return self.concentration.size + 1

    @property
    def n_parameters(self) -> int:
        """V less one for each segment."""
        return self.concentration.size - self.lengths.size

    @property
    def n_shared_parameters(self) -> int:
        """Components share nothing."""
        return 0

    def log_marginal(self, S: Array) -> FloatArray:
        """(..., p) -> (...): ratio of Dirichlet normalisers."""
        a = self.concentration + S[..., :-1]
        cells = (gammaln(a) - gammaln(self.concentration)).sum(-1)
        totals = gammaln(self.segment_sums(a)) - gammaln(self.segment_sums(self.concentration))
        log_m: FloatArray = cells - totals.sum(-1)
        return log_m

    def log_evidence(self, S: Array) -> float:
        """(k, p) -> float: the sum of `log_marginal`."""
        return float(self.log_marginal(S).sum())

    def mode_eta(self, S: Array) -> FloatArray:
        """(k, p) -> (k, p): (a + s - 1)/(A + n - L), the prior mean where that is 0/0."""
        a = self.concentration
        if a.min() < 1:
            raise ParameterError(
                f"the mode of a {type(self).__name__} family needs concentration >= 1, got {a.min():g}; "
                "raise it or sample (Gibbs) instead of maximising"
            )
        part = np.maximum(a + S[..., :-1] - 1, 0.0)
        return _closed(log_share(part, self._back(self.segment_sums(part)), a / self._back(self.segment_sums(a))))

    def sample_eta(self, S: Array, rng: np.random.Generator) -> FloatArray:
        """(k, p) -> (k, p): Gamma draws normalised in logs."""
        return _closed(self.normalised(log_gamma_draws(self.concentration + S[..., :-1], rng)))

    def expected_eta(self, S: Array) -> FloatArray:
        """(k, p) -> (k, p): differences of digammas."""
        a = self.concentration + S[..., :-1]
        return _closed(digamma(a) - self._back(digamma(self.segment_sums(a))))

    def log_prior(self, eta: Array) -> float:
        """(k, p) -> float: Dirichlet density of p."""
        a = self.concentration
        log_norm = gammaln(a).sum() - gammaln(self.segment_sums(a)).sum()
        return float(((a - 1) * eta[..., :-1]).sum() - eta.shape[0] * log_norm)

    def named(self, eta: Array) -> dict[str, Array]:
        """Probabilities (k, V), summing to one in each segment."""
        return {"probabilities": np.exp(self.normalised(eta[..., :-1]))}

    def segment_sums(self, values: Array) -> FloatArray:
        """(..., V) -> (..., J)."""
        starts = np.cumsum(self.lengths) - self.lengths
        sums: FloatArray = np.add.reduceat(values, starts, axis=-1)
        return sums

    def normalised(self, log_p: Array) -> FloatArray:
        """(..., V) -> (..., V): log probabilities that sum to one in each segment."""
        starts = np.cumsum(self.lengths) - self.lengths
        log_p = log_p - self._back(np.maximum.reduceat(log_p, starts, axis=-1))
        return log_p - self._back(np.log(self.segment_sums(np.exp(log_p))))

    def _back(self, sums: Array) -> FloatArray:
        return np.repeat(sums, self.lengths, axis=-1)


def _closed(log_p: FloatArray) -> FloatArray:
    return np.concatenate([log_p, np.zeros_like(log_p[..., :1])], axis=-1)
