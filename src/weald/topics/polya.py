"""The Dirichlet parameters that fit expected counts best: alpha of the proportions, eta of the words.

Given responsibilities, the best q(theta) and q(phi) are Dirichlet(alpha + n_d) and Dirichlet(eta + S_k), and the bound
depends on alpha and eta through the evidence of Dirichlet-multinomial counts, fractional ones too:

    F(alpha) = sum_d [ log G(A) - log G(A + n_d) + sum_k log G(alpha_k + n_dk) - log G(alpha_k) ],      A = sum alpha
    F(eta)   = sum_k [ log G(V eta) - log G(V eta + n_k) + sum_w log G(eta + S_kw) - log G(eta) ]

A step goes along the logarithm of the fixed-point update (Minka 2000, (55)), which always points uphill,

    log alpha_k <- log alpha_k + s log( sum_d [Psi(alpha_k + n_dk) - Psi(alpha_k)] / sum_d [Psi(A + n_d) - Psi(A)] )

and s is halved from 1 until F does not fall: for counts below one the update alone may overshoot. Cost: one or two
passes over the counts. Reference: T. Minka, Estimating a Dirichlet distribution (2000).

    >>> rng = np.random.default_rng(0)
    >>> n_dk = np.array([rng.multinomial(50, p) for p in rng.dirichlet([0.2, 1.0], size=2000)], float)
    >>> alpha = np.ones(2)
    >>> for _ in range(100):
    ...     alpha, _ = learn_alpha(n_dk, alpha)
    >>> alpha.round(1)
    array([0.2, 1. ])
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from weald._kernel import kernel
from weald._typing import FloatArray
from weald.topics.expect import digamma

LEAST, MOST = 1e-3, 1e3  # of alpha and eta
HALVINGS = 12


@kernel
def fit_of_proportions(n_dk: FloatArray, alpha: FloatArray, rise: FloatArray) -> tuple[float, float]:
    """F(alpha), and the second sum of the update; rise (K,) OUT: the first."""
    K = alpha.shape[0]
    A, own, all_ = 0.0, np.empty(K), np.empty(K)
    for k in range(K):
        A += alpha[k]
        own[k], all_[k], rise[k] = math.lgamma(alpha[k]), digamma(alpha[k]), 0.0
    value, fall, log_A, psi_A = 0.0, 0.0, math.lgamma(A), digamma(A)
    for d in range(n_dk.shape[0]):
        n = 0.0
        for k in range(K):
            n += n_dk[d, k]
            value += math.lgamma(alpha[k] + n_dk[d, k]) - own[k]
            rise[k] += digamma(alpha[k] + n_dk[d, k]) - all_[k]
        value += log_A - math.lgamma(A + n)
        fall += digamma(A + n) - psi_A
    return value, fall


@kernel
def fit_of_words(weights: FloatArray, scale: float, eta: float) -> tuple[float, float, float]:
    """F(eta) for counts scale * weights, (V, K), and the two sums of the update."""
    V, K = weights.shape
    own, psi_own, value, rise = math.lgamma(eta), digamma(eta), 0.0, 0.0
    n_k = np.zeros(K)
    for w in range(V):
        for k in range(K):
            s = scale * weights[w, k]
            n_k[k] += s
            value += math.lgamma(eta + s) - own
            rise += digamma(eta + s) - psi_own
    fall = 0.0
    for k in range(K):
        value += math.lgamma(V * eta) - math.lgamma(V * eta + n_k[k])
        fall += V * (digamma(V * eta + n_k[k]) - digamma(V * eta))
    return value, rise, fall


def learn_alpha(n_dk: FloatArray, alpha: FloatArray) -> tuple[FloatArray, float]:
    """A better alpha (K,) for expected counts n_dk (D, K), and F there."""
    rise = np.empty(len(alpha))
    value, fall = fit_of_proportions(n_dk, alpha, rise)
    direction = _direction(rise, fall)
    return _uphill(lambda a: fit_of_proportions(n_dk, a, np.empty(len(alpha)))[0], alpha, direction, value)


def learn_eta(weights: FloatArray, scale: float, eta: float) -> tuple[float, float]:
    """A better eta for expected counts scale * weights, (V, K), and F there."""
    value, rise, fall = fit_of_words(weights, scale, eta)
    best, value = _uphill(
        lambda h: fit_of_words(weights, scale, float(h[0]))[0],
        np.array([eta]),
        _direction(np.array([rise]), fall),
        value,
    )
    return float(best[0]), value


def follow_alpha(n_dk: FloatArray, alpha: FloatArray, rate: float) -> tuple[FloatArray, float]:
    """Alpha moved by `rate` of the fixed-point update of a batch, and F before: unbiased however small the batch is."""
    rise = np.empty(len(alpha))
    value, fall = fit_of_proportions(n_dk, alpha, rise)
    if rate == 0.0 or fall <= 0.0:
        return alpha, value
    return np.clip(alpha * (1.0 + rate * (rise / fall - 1.0)), LEAST, MOST), value


def _direction(rise: FloatArray, fall: float) -> FloatArray:
    if fall <= 0.0:
        return np.zeros_like(rise)
    return np.clip(np.log(np.maximum(rise, 1e-300) / fall), -2.0, 2.0)


def _uphill(
    value_at: Callable[[FloatArray], float], x: FloatArray, direction: FloatArray, value: float
) -> tuple[FloatArray, float]:
    """The first of ever smaller steps in log x that does not lower the value."""
    for halving in range(HALVINGS):
        candidate = np.clip(x * np.exp(direction * 0.5**halving), LEAST, MOST)
        found = value_at(candidate)
        if found >= value:
            return candidate, found
    return x, value
