"""The first T weights of a Dirichlet process, for variational Bayes: sticks beyond T hold no row.

    v_k ~ Beta(1, alpha),        w_k = v_k prod_{l<k} (1 - v_l)                                   (journal (28), (29))

Given counts n the sticks are Beta(1 + n_k, alpha + sum_{l>k} n_l) (journal 3.1, (139)-(149)). Components
are taken from the largest to the smallest, the order in which the counts have the largest probability. Later sticks
keep their prior: the bound is one for the infinite model, and T is only an upper limit on the number of clusters.

    >>> TruncatedSticks(3, 1.0).mean_log_w(np.array([0.0, 8.0, 1.0])).argmax()
    np.int64(1)

References: D. Blei, M. Jordan, Bayesian Analysis 1 (2006), 121-143; K. Kurihara, M. Welling, Y. Teh, IJCAI (2007).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, digamma

from weald._typing import Array, FloatArray, IntArray
from weald.exceptions import DataError, ParameterError
from weald.partitions.hyper import check_positive

Logs = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class TruncatedSticks:
    """Weights of T components, the first of infinitely many.

    Parameters
    ----------
    n_components : int
        T.
    concentration : float
        alpha.
    """

    n_components: int
    concentration: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.n_components, int | np.integer) or self.n_components < 1:
            raise ParameterError(f"TruncatedSticks: n_components must be a positive int, got {self.n_components!r}")
        check_positive(self, "concentration")

    def expected_log_w(self, counts: Array) -> FloatArray:
        """(T,) -> (T,): E[log w]."""
        return self._by_size(counts, lambda a, b: (digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)))

    def mean_log_w(self, counts: Array) -> FloatArray:
        """(T,) -> (T,): log E[w]."""
        return self._by_size(counts, lambda a, b: (np.log(a / (a + b)), np.log(b / (a + b))))

    def log_marginal(self, counts: Array) -> float:
        """(T,) -> float: log probability of one labelled assignment with these counts."""
        a, b = self._betas(np.sort(self._checked(counts))[::-1])
        return float(np.sum(betaln(a, b)) - np.sum(betaln(*self._betas(np.zeros(self.n_components)))))

    def merge_gain(self, counts: Array, pairs: IntArray) -> FloatArray:
        """(m, 2) pairs of components -> (m,): what `log_marginal` gains when each pair becomes one."""
        now, gains = self.log_marginal(counts), np.empty(len(pairs))
        for i, (first, second) in enumerate(pairs):
            after = np.array(counts, np.float64)
            after[first] += after[second]
            after[second] = 0.0
            gains[i] = self.log_marginal(after) - now
        return gains

    def _betas(self, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Parameters of the sticks given counts in their order."""
        later = counts[::-1].cumsum()[::-1] - counts
        return 1.0 + counts, self.concentration + later

    def _by_size(self, counts: Array, logs: Logs) -> FloatArray:
        counts = self._checked(counts)
        order = np.argsort(-counts, kind="stable")
        log_v, log_rest = logs(*self._betas(counts[order]))
        log_w = np.empty(self.n_components)
        log_w[order] = log_v + np.cumsum(log_rest) - log_rest
        return log_w

    def _checked(self, counts: Array) -> FloatArray:
        counts = np.asarray(counts, np.float64)
        if counts.shape != (self.n_components,) or (counts < 0).any() or not math.isfinite(counts.sum()):
            raise DataError(f"counts must be {self.n_components} non-negative numbers, got shape {counts.shape}")
        return counts
