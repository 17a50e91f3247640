"""Polya-Gamma draws against their moments and Laplace transform, and a wrong mean to be rejected."""

import numpy as np
import pytest
from scipy.stats import ks_2samp, norm

from weald.testing.invariance import BUDGET
from weald.topics.polya_gamma import polya_gamma

N = 100_000
TILTS = [0.0, 0.1, -1.0, 2.9, 3.2, 12.0, -80.0, 2000.0]


def mean(c):
    return 0.25 if c == 0 else np.tanh(c / 2) / (2 * c)


def variance(c):
    if abs(c) > 300:
        return 1 / (2 * abs(c) ** 3)
    return 1 / 24 if c == 0 else (np.sinh(c) - c) / (4 * c**3 * np.cosh(c / 2) ** 2)


def laplace(c, t):
    """E[exp(-t omega)]."""
    a, b = abs(c) / 2, np.sqrt(c * c / 4 + t / 2)
    return np.exp(np.logaddexp(a, -a) - np.logaddexp(b, -b))


def p_value(x, expected):
    return 2 * norm.sf(abs(x.mean() - expected) * np.sqrt(x.size) / x.std())


def draws(c, seed=1):
    return polya_gamma(np.full(N, c), np.uint64(seed))


@pytest.mark.parametrize("c", TILTS)
def test_moments_and_laplace_transform(c):
    omega = draws(c)
    assert (omega > 0).all()
    assert p_value(omega, mean(c)) > BUDGET / (4 * len(TILTS))
    assert p_value((omega - mean(c)) ** 2, variance(c)) > BUDGET / (4 * len(TILTS))
    for t in (0.5 / mean(c), 5.0 / mean(c)):
        assert p_value(np.exp(-t * omega), laplace(c, t)) > BUDGET / (4 * len(TILTS))


@pytest.mark.parametrize("c", [0.0, 1.5, 6.0])
def test_the_law_is_that_of_the_sum_of_gammas(c):
    k = np.arange(1, 401) - 0.5
    rng = np.random.default_rng(0)
    g = rng.standard_exponential((10_000, k.size)) / (k**2 + (c / (2 * np.pi)) ** 2)
    rest = np.sum(1 / (np.arange(401, 200_000) - 0.5) ** 2)  # mean of what is cut off
    assert ks_2samp((g.sum(axis=1) + rest) / (2 * np.pi**2), draws(c)[:10_000]).pvalue > BUDGET / 3


def test_a_tilt_that_is_not_halved_is_rejected():
    assert p_value(draws(2.0), mean(1.0)) < BUDGET
    assert p_value(draws(0.5), mean(0.25)) < BUDGET


def test_a_draw_depends_on_its_place_and_key_only():
    c = np.linspace(-3, 3, 50)
    np.testing.assert_array_equal(polya_gamma(c, np.uint64(3)), polya_gamma(-c, np.uint64(3)))
    np.testing.assert_array_equal(polya_gamma(c, np.uint64(3))[:10], polya_gamma(c[:10], np.uint64(3)))
    assert (polya_gamma(c, np.uint64(3)) != polya_gamma(c, np.uint64(4))).all()
    assert polya_gamma(np.empty(0), np.uint64(3)).shape == (0,)
