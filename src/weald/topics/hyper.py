"""Learning alpha and eta inside Gibbs sampling, exactly, from histograms of the counts.

    p(z | alpha)  =  prod_d  G(A) / G(A + n_d)  prod_k G(alpha_k + n_dk) / G(alpha_k),         A = sum alpha   (107)

Two families of auxiliary variables make alpha conjugate. Tables of a Chinese restaurant: G(a + n) / G(a) is a
polynomial in a, and m_dk, its power, is the number of i <= n_dk with a coin of alpha_k / (alpha_k + i - 1). Lengths:
G(A) / G(A + n) is proportional to the integral of q^(A - 1) (1 - q)^(n - 1). Hence, with alpha_k ~ Gamma(a, rate b),

    m_k      ~ sum_i Binomial(C_ki, alpha_k / (alpha_k + i - 1)),      C_ki documents with n_dk >= i
    q_d      ~ Beta(A, n_d),                                           documents that are not empty
    alpha_k  ~ Gamma(a + m_k, b - sum_d log q_d).

Eta is the same with topics for documents and words for topics, all words sharing one parameter:

    m  ~ sum_i Binomial(C_i, eta / (eta + i - 1)),  q_k ~ Beta(V eta, n_k),  eta ~ Gamma(a + m, b - V sum_k log q_k).

Histograms come with a sweep (`weald.topics.sweeps.Swept`); the cost is one Beta for each document.
References: Escobar & West (1995); Teh et al. (2006); Newman, Asuncion, Smyth, Welling (2009).

    >>> rng = np.random.default_rng(0)
    >>> n_tables(np.array([100, 60, 30]), 0.5, rng)      # 100 documents have the topic, 60 of them twice, 30 thrice
    120
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from weald._typing import Array, FloatArray, IntArray
from weald.topics.sweeps import Swept

SHAPE, RATE = 1.0, 1.0  # of the Gamma priors
LEAST = 1e-12  # below which a parameter is no longer told from zero


def n_tables(reached: IntArray, weight: float, rng: np.random.Generator) -> int:
    """Tables of all restaurants together.

    Parameters
    ----------
    reached : (m,) int array
        Restaurants with at least 1, ..., m guests.
    weight : float
        Concentration of each restaurant.
    rng : Generator
        Randomness.

    Returns
    -------
    int
    """
    return int(rng.binomial(reached, weight / (weight + np.arange(len(reached)))).sum())


def log_beta(a: Array | float, b: Array | float, rng: np.random.Generator) -> FloatArray:
    """Logs of Beta(a, b) variables, also where a is so small that the variables themselves are zero."""
    shape = np.broadcast_shapes(np.shape(a), np.shape(b))
    log_x = np.log(rng.gamma(np.add(a, 1.0), size=shape)) + np.log1p(-rng.random(shape)) / a
    return np.asarray(log_x - np.logaddexp(log_x, np.log(rng.gamma(b, size=shape))))


def draw_alpha(swept: Swept, alpha: FloatArray, lengths: FloatArray, rng: np.random.Generator) -> FloatArray:
    """New alpha (K,) given labels.

    Parameters
    ----------
    swept : Swept
        Labels and their histograms.
    alpha : (K,) array
        The parameter now.
    lengths : (D',) array
        Tokens of the documents that are not empty.
    rng : Generator
        Randomness.
    """
    topics, place = _cells(swept)
    tables = rng.binomial(swept.reached, alpha[topics] / (alpha[topics] + place))
    m = np.bincount(topics, tables, minlength=len(alpha))
    rate = RATE - log_beta(alpha.sum(), lengths, rng).sum()
    return np.maximum(rng.gamma(SHAPE + m) / rate, LEAST)


def draw_eta(swept: Swept, eta: float, n_words: int, rng: np.random.Generator) -> float:
    """New eta given labels; arguments as of `draw_alpha`."""
    m = n_tables(swept.word_reached, eta, rng)
    rate = RATE - n_words * log_beta(n_words * eta, swept.n_k[swept.n_k > 0], rng).sum()
    return max(float(rng.gamma(SHAPE + m) / rate), LEAST)


def log_joint(swept: Swept, alpha: FloatArray, eta: float, n_words: int, lengths: FloatArray) -> tuple[float, float]:
    """Log p(z | alpha) (107) and log p(w | z, eta) (111): Gamma ratios are products, summed over histograms."""
    topics, place = _cells(swept)
    total, n_k = alpha.sum(), swept.n_k
    log_z = swept.reached @ np.log(alpha[topics] + place) - (gammaln(total + lengths) - gammaln(total)).sum()
    n, seen = np.arange(len(swept.word_reached)), n_words * eta
    log_w = swept.word_reached @ np.log(eta + n) - (gammaln(seen + n_k) - gammaln(seen)).sum()
    return float(log_z), float(log_w)


def _cells(swept: Swept) -> tuple[IntArray, IntArray]:
    """Topic and i of each entry of `swept.reached`."""
    most = np.diff(swept.starts)
    return np.repeat(np.arange(len(most)), most), np.arange(len(swept.reached)) - np.repeat(swept.starts[:-1], most)
