"""The kit must reject families with one known error each."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, multigammaln

from weald.families import Bernoulli, Categorical, DiagonalGaussian, FullGaussian, Multinomial, Poisson, TiedGaussian
from weald.testing import families as kit


class Broken:
    """A family with some methods replaced."""

    def __init__(self, family, **methods):
        self.family, self.methods = family, methods

    def __getattr__(self, name):
        return self.methods[name] if name in self.methods else getattr(self.family, name)


@pytest.fixture
def normal(rng):
    X = rng.standard_normal((40, 2)) * [5.0, 0.3] + [20.0, 1.0]
    return DiagonalGaussian.from_data(X, 2), X


@pytest.fixture
def full(rng):
    X = rng.standard_normal((40, 2)) @ [[2.0, 1.0], [0.0, 1.0]]
    return FullGaussian.from_data(X, 2), X


@pytest.fixture
def binary(rng):
    X = (rng.random((40, 3)) < [0.2, 0.5, 0.9]).astype(float)
    return Bernoulli.from_data(X), X


def rejected(check, *args):
    with pytest.raises(AssertionError):
        check(*args)


def last_scaled(eta, by):
    eta = eta.copy()
    eta[:, -1] *= by
    return eta


def test_log_partition_off_by_a_tenth(normal, rng):
    family, X = normal
    eta = family.mode_eta(kit.statistics(family, X, 2, rng))
    named = family.named(eta)
    expected = stats.norm.logpdf(X[:, None], named["means"], np.sqrt(named["covariances"])).sum(-1)
    kit.check_density(family, eta, X, expected)
    rejected(kit.check_density, family, last_scaled(eta, 1.1), X, expected)
    rejected(kit.check_mode, Broken(family, mode_eta=lambda S: last_scaled(family.mode_eta(S), 0.9)), X, rng)
    rejected(kit.check_draws, Broken(family, expected_eta=lambda S: last_scaled(family.expected_eta(S), 1.1)), X, rng)
    rejected(kit.check_draws, Broken(family, sample_eta=lambda S, r: last_scaled(family.sample_eta(S, r), 1.1)), X, rng)


def test_forgotten_jacobian(normal):
    _, X = normal

    def make(X):
        right = DiagonalGaussian.from_data(X)
        return Broken(right, log_base=lambda X: np.full(len(X), -np.log(2 * np.pi)))

    kit.check_units(DiagonalGaussian.from_data, X, np.full(2, 3.0), np.zeros(2))
    rejected(kit.check_units, make, X, np.full(2, 3.0), np.zeros(2))


def test_prior_in_the_units_of_the_data(normal):
    _, X = normal
    rejected(kit.check_units, lambda X: DiagonalGaussian.from_data(X, psi=1.0), X, np.full(2, 3.0), np.zeros(2))


def test_beta_arguments_swapped_as_printed(binary, rng):
    """Journal (68), (73): the mode of the absence probability."""
    family, X = binary

    def swapped(S):
        other = S.copy()
        other[:, :-1] = S[:, -1:] - S[:, :-1]
        return family.mode_eta(other)

    def drawn(S, rng):
        other = S.copy()
        other[:, :-1] = S[:, -1:] - S[:, :-1]
        return family.sample_eta(other, rng)

    rejected(kit.check_mode, Broken(family, mode_eta=swapped), X, rng)
    rejected(kit.check_draws, Broken(family, sample_eta=drawn), X, rng)


def test_mode_without_the_means_in_the_density(full, rng):
    """Sigma = Psi_n/(nu_n + d + 1), the mode of the marginal of Sigma, is not the joint mode."""
    family, X = full

    def marginal(S):
        eta, nu = family.mode_eta(S), family.nu + S[:, -1:]
        eta[:, :-1] *= (nu + 2 + 1) / (nu + 2 + 2)
        mu, precision = family._moments(eta)
        eta[:, -1] = -0.5 * ((mu * eta[:, :2]).sum(1) - np.linalg.slogdet(precision)[1])
        return eta

    kit.check_mode(family, X, rng)
    rejected(kit.check_mode, Broken(family, mode_eta=marginal), X, rng)


def test_tied_mode_without_the_number_of_components(rng):
    """Sigma = Psi_N/(nu_N + d + 2) is right for one component only."""
    X = rng.standard_normal((40, 2))
    family = TiedGaussian.from_data(X)

    def as_if_alone(S):
        eta, nu = family.mode_eta(S), family.nu + S[:, -1].sum()
        eta[:, :-1] *= (nu + 2 + 1 + 1) / (nu + 2 + 1 + S.shape[0])
        mu, precision = family._moments(eta)
        eta[:, -1] = -0.5 * ((mu * eta[:, :2]).sum(1) - np.linalg.slogdet(precision)[1])
        return eta

    kit.check_mode(family, X, rng)
    rejected(kit.check_mode, Broken(family, mode_eta=as_if_alone), X, rng)


def test_evidence_with_the_printed_gamma_functions(full, rng):
    """Journal (63) has log Gamma((nu + i - 1)/2) where (61) has (nu + 1 - i)/2."""
    family, X = full

    def printed(S):
        nu, d = family.nu + S[..., -1], 2
        wrong = sum(gammaln((nu + i - 1) / 2) - gammaln((family.nu + i - 1) / 2) for i in range(1, d + 1))
        right = multigammaln(nu / 2, d) - multigammaln(family.nu / 2, d)
        return family.log_marginal(S) + wrong - right

    broken = Broken(family, log_marginal=printed, log_evidence=lambda S: float(printed(S).sum()))
    rejected(kit.check_evidence, broken, X, rng)


@pytest.mark.parametrize("shift", [0.05, -0.05])
def test_predictive_off_by_a_little(normal, rng, shift):
    family, X = normal
    off = Broken(family, log_predictive=lambda S, T: family.log_predictive(S, T) + shift)
    rejected(kit.check_evidence, off, X, rng)
    rejected(kit.check_normalised, off, family.sufficient(X).sum(0)[None], X)


def test_evidence_and_predictive_wrong_together(rng):
    """A wrong but coherent evidence passes the chain rule; draws and sums expose it."""
    X = rng.poisson(4.0, (40, 1)).astype(float)
    family, other = Poisson.from_data(X), Poisson.from_data(X, shape=6.0, rate=0.5)
    names = ("log_marginal", "log_evidence", "log_predictive")
    broken = Broken(family, **{name: getattr(other, name) for name in names})
    kit.check_evidence(broken, X, rng)
    rejected(kit.check_draws, broken, X, rng)


def test_draws_with_too_little_spread(full, rng):
    family, X = full
    rejected(kit.check_draws, Broken(family, sample_eta=lambda S, rng: family.expected_eta(S)), X, rng)
    rejected(kit.check_draws, Broken(family, sample_eta=lambda S, rng: family.sample_eta(2 * S, rng)), X, rng)


def test_simulated_data_in_the_wrong_unit(normal, rng):
    family, X = normal

    def standardised(eta, rng):
        return (family.sample_x(eta, rng) - family.centre) / family.scale

    def too_wide(eta, rng):
        return family.centre + 1.05 * (family.sample_x(eta, rng) - family.centre)

    rejected(kit.check_sample_x, Broken(family, sample_x=standardised), X, rng)
    rejected(kit.check_sample_x, Broken(family, sample_x=too_wide), X, rng)


def test_missing_cells_filled_instead_of_marginalised(normal, rng):
    family, X = normal
    wide = family.with_missing()

    def filled(X):
        T = wide.sufficient(X)
        T[:, 4:-1] = 1.0
        return T

    broken = Broken(wide, sufficient=filled)
    broken.methods["with_missing"] = lambda: broken
    rejected(kit.check_missing, broken, X, rng)


def test_layout_errors(binary, normal, rng):
    family, X = binary

    def in_place(X):
        X[0] = 0
        return family.sufficient(X)

    def of_this_batch(X):
        T = family.sufficient(X).copy()
        T[:, :-1] -= X.mean(0)
        return T

    for wrong in (in_place, of_this_batch, lambda X: family.sufficient(X)[:, ::-1]):
        rejected(kit.check_layout, Broken(family, sufficient=wrong), X + 0, rng)
    rejected(kit.check_single_precision, Broken(family, sufficient=lambda X: family.sufficient(X).astype(float)), X)
    reads_last = Broken(family, log_prior=lambda eta: float(eta.sum()))
    rejected(kit.check_layout, reads_last, X, rng)


def test_multinomial_coefficient_forgotten(rng):
    X = rng.multinomial(5, [0.2, 0.3, 0.5], 20).astype(float)
    family = Multinomial.from_data(X)
    support = np.array([(a, b, 5 - a - b) for a in range(6) for b in range(6 - a)], float)
    S = family.sufficient(X).sum(0)[None]
    kit.check_normalised(family, S, support)
    rejected(kit.check_normalised, Broken(family, log_base=lambda X: np.zeros(len(X))), S, support)


def test_one_hot_of_the_wrong_column(rng):
    X = rng.integers(0, 3, (40, 2)).astype(float)
    family = Categorical.from_data(X)
    rejected(kit.check_sample_x, Broken(family, sample_x=lambda e, r: family.sample_x(e, r)[:, ::-1]), X, rng)
