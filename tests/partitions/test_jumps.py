"""Masses given a partition: Poisson processes against their intensity, and weights against Dirichlet laws."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import exp1, gamma

from weald.exceptions import DataError, ParameterError
from weald.partitions import (
    DirichletProcess,
    FiniteDirichlet,
    MixtureOfFiniteMixtures,
    NormalisedGeneralisedGamma,
    PitmanYor,
)
from weald.partitions.jumps import log_gammas_above, log_points_above, stable_rate
from weald.testing.invariance import BUDGET

SIGMAS = (0.0, 1e-9, 0.3, 0.7, 0.99)
TINY = 1e-12  # a threshold below which nothing matters
N = 4_000
PRIORS = {
    "dp": DirichletProcess(1.3),
    "pitman-yor": PitmanYor(0.7, 0.4),
    "nggp": NormalisedGeneralisedGamma(1.2, 0.5, log_u=0.4),
    "mfm": MixtureOfFiniteMixtures(0.8, 2.0),
    "dirichlet": FiniteDirichlet(5, 0.6),
}


def tail(least, sigma, power=0):
    """Integral of g^(power - 1 - sigma) e^-g above `least`, by quadrature in log g."""
    return quad(lambda x: np.exp((power - sigma) * x - np.exp(x)), np.log(least), 4.0, epsabs=0, epsrel=1e-10)[0]


def rests(prior, sizes, n, rng, least=TINY):
    """(n,): sums of the masses of atoms without items."""
    return np.array([np.exp(prior.jumps(sizes, least, rng)[1]).sum() for _ in range(n)])


def poisson_pvalues(points, least, rate, sigma):
    """Of the number of points of each draw, and of their sizes."""
    expected = rate * tail(least, sigma)
    counts = np.array([x.size for x in points])
    total = stats.poisson(expected * counts.size).cdf(counts.sum() - 0.5)
    spread = stats.chi2(counts.size - 1).cdf(((counts - counts.mean()) ** 2).sum() / counts.mean())
    grid = np.linspace(np.log(least), 4.0, 400)
    cdf = 1.0 - np.array([tail(np.exp(x), sigma) if x < 4.0 else 0.0 for x in grid]) / tail(least, sigma)
    sizes = stats.kstest(np.concatenate(points), lambda x: np.interp(x, grid, cdf)).pvalue
    return np.array([2 * min(total, 1 - total), 2 * min(spread, 1 - spread), sizes])


@pytest.mark.parametrize("least", [0.01, 2.0])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_points_are_a_poisson_process(sigma, least, rng):
    rate = 5.0 / tail(least, sigma)
    points = [log_points_above(least, rate, sigma, rng) for _ in range(N)]
    assert min(x.min() for x in points if x.size) > np.log(least)
    assert poisson_pvalues(points, least, rate, sigma).min() * 3 > BUDGET


def test_points_of_another_intensity_are_rejected(rng):
    rate = 5.0 / tail(0.01, 0.3)
    for sigma, scale in ((0.35, 1.0), (0.3, 1.05)):
        points = [log_points_above(0.01, scale * rate, sigma, rng) for _ in range(N)]
        assert poisson_pvalues(points, 0.01, rate, 0.3).min() < BUDGET


def test_the_number_of_points_is_the_exponential_integral(rng):
    counts = [log_points_above(0.01, 2.0, 0.0, rng).size for _ in range(N)]
    assert np.mean(counts) == pytest.approx(2.0 * exp1(0.01), abs=4.5 * np.sqrt(2.0 * exp1(0.01) / N))


def test_gammas_above(rng):
    counts = [log_gammas_above(0.3, 4, 0.6, rng).size for _ in range(N)]
    p = stats.gamma(0.6).sf(0.3)
    assert np.mean(counts) == pytest.approx(4 * p, abs=4.5 * np.sqrt(4 * p * (1 - p) / N))


def test_stable_rate_tends_to_the_dirichlet_process():
    assert stable_rate(2.0 / 1e-10, 1e-10) == pytest.approx(2.0, rel=1e-9)
    assert stable_rate(3.0, 0.4) == pytest.approx(1.2 / gamma(0.6))


@pytest.mark.parametrize("name", PRIORS)
def test_masses_of_clusters_are_gamma(name, rng):
    sizes, prior = np.array([7, 1, 3]), PRIORS[name]
    masses = np.exp([prior.jumps(sizes, 0.01, rng)[0] for _ in range(N)])
    pvalues = [stats.kstest(g, stats.gamma(n - prior.sigma).cdf).pvalue for g, n in zip(masses.T, sizes, strict=True)]
    assert min(pvalues) * 3 > BUDGET
    wrong = stats.kstest(masses[:, 1], stats.gamma(sizes[1] + 0.25 - prior.sigma).cdf).pvalue
    assert wrong < BUDGET


@pytest.mark.parametrize("name", ["dp", "pitman-yor"])
def test_the_rest_is_gamma(name, rng):
    """So that weights are Dirichlet: Pitman (1996), corollary 20."""
    prior, sizes, least = PRIORS[name], np.array([7, 1, 3]), 1e-6 if name == "pitman-yor" else TINY
    shape = prior.concentration + 3 * prior.sigma
    found = rests(prior, sizes, N // 2, rng, least)
    assert stats.kstest(found, stats.gamma(shape).cdf).pvalue > BUDGET
    assert stats.kstest(found, stats.gamma(shape + 0.3).cdf).pvalue < BUDGET


def test_pitman_yor_that_forgets_its_clusters_is_rejected(rng, monkeypatch):
    monkeypatch.setattr(
        PitmanYor, "jumps", lambda self, sizes, least, rng: (0, self.log_other_jumps(11, 0, least, rng))
    )
    found = rests(PRIORS["pitman-yor"], np.array([7, 1, 3]), N // 2, rng, 1e-6)
    assert stats.kstest(found, stats.gamma(0.7 + 3 * 0.4).cdf).pvalue < BUDGET


@pytest.mark.parametrize("log_u", [-1.0, 2.0])
def test_the_rest_of_a_generalised_gamma_process_has_its_laplace_transform(log_u, rng):
    """E exp(-s T) = exp(-alpha ((1+u+s')^sigma - (1+u)^sigma)) at s' = s (1+u), T scaled by 1 + u."""
    prior = replace(PRIORS["nggp"], log_u=log_u)
    found, u = rests(prior, np.array([2, 2]), N // 2, rng, 1e-6), np.exp(log_u)
    for s in (0.3, 2.0):
        expected = np.exp(-1.2 * ((1 + u) ** 0.5) * ((1 + s) ** 0.5 - 1))
        values = np.exp(-s * found)
        assert values.mean() == pytest.approx(expected, abs=4.5 * values.std() / np.sqrt(values.size) + 1e-3)


def test_a_discount_of_zero_is_the_dirichlet_process(rng):
    flat, small = PitmanYor(1.3, 0.0), PitmanYor(1.3, 1e-8)
    expected = 1.3 * exp1(0.01)
    for prior in (flat, small):
        counts = [prior.jumps([4, 2], 0.01, rng)[1].size for _ in range(N)]
        assert np.mean(counts) == pytest.approx(expected, abs=4.5 * np.sqrt(expected / N))


def test_the_number_of_components_of_a_mixture_of_finite_mixtures(rng):
    """p(K | 3 clusters of 11 items), by direct summation."""
    prior, K = PRIORS["mfm"], np.arange(3, 60)
    log_p = stats.poisson(2.0).logpmf(K - 1)
    log_p += [np.sum(np.log(k - np.arange(3))) - np.sum(np.log(0.8 * k + np.arange(11))) for k in K]
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    extra = np.array([prior.jumps([7, 1, 3], 1e-300, rng)[1].size for _ in range(N)])
    expected = N * np.append(p[:4], p[4:].sum())
    assert stats.chisquare(np.bincount(np.minimum(extra, 4), minlength=5), expected).pvalue > BUDGET
    unconditional = stats.poisson(2.0).pmf(np.arange(4) + 2) / stats.poisson(2.0).sf(1)
    wrong = N * np.append(unconditional, 1 - unconditional.sum())
    assert stats.chisquare(np.bincount(np.minimum(extra, 4), minlength=5), wrong).pvalue < BUDGET


def test_a_finite_model_has_all_its_components(rng):
    prior = PRIORS["dirichlet"]
    assert prior.jumps([3, 2], 1e-300, rng)[1].size == 3
    assert prior.jumps([1, 1, 1, 1, 1], 1e-300, rng)[1].size == 0


@pytest.mark.parametrize("name", PRIORS)
def test_bad_input(name, rng):
    with pytest.raises(DataError, match="positive block sizes"):
        PRIORS[name].jumps([3, 0, 2], 0.01, rng)
    with pytest.raises(ParameterError, match=r"try 0\.01"):
        PRIORS[name].jumps([3, 2], 0.0, rng)


def test_more_blocks_than_components_are_refused(rng):
    with pytest.raises(DataError, match="more than the 5 components"):
        PRIORS["dirichlet"].jumps([1] * 6, 0.01, rng)
