"""Gibbs against enumeration and joint tests; the same law for every family, and bugs that must be rejected."""

from dataclasses import replace

import numpy as np
import pytest

from weald.assign import ExactAssignment, Rows
from weald.engine import Threads
from weald.families import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    FullGaussian,
    Multinomial,
    Poisson,
    Product,
    SphericalGaussian,
    TiedGaussian,
)
from weald.mixtures.kernels import RULES, MixtureKernel, MixtureState, Model
from weald.partitions import FiniteDirichlet
from weald.testing.invariance import BUDGET, enumerate_labels, exact_start, joint

K, N = 2, 5
FAMILIES = {
    "full": (FullGaussian, lambda rng: rng.normal(size=(N, 2)) * [1.0, 100.0] + 7.0),
    "diag": (DiagonalGaussian, lambda rng: rng.normal(size=(N, 2)) * 3.0),
    "spherical": (SphericalGaussian, lambda rng: rng.normal(size=(N, 2)) + 1e4),
    "tied": (TiedGaussian, lambda rng: rng.normal(size=(N, 2))),
    "bernoulli": (Bernoulli, lambda rng: rng.integers(0, 2, size=(N, 3)).astype(float)),
    "categorical": (Categorical, lambda rng: rng.integers(0, 3, size=(N, 2)).astype(float)),
    "multinomial": (Multinomial, lambda rng: rng.integers(0, 4, size=(N, 3)).astype(float)),
    "poisson": (Poisson, lambda rng: rng.poisson(3.0, size=(N, 2)).astype(float)),
    "missing": (DiagonalGaussian, lambda rng: np.where(rng.random((N, 2)) < 0.2, np.nan, rng.normal(size=(N, 2)))),
}


def kernel_for(family, X, prior):
    return MixtureKernel(
        Model(family, prior), Rows(X, family), RULES["gibbs"], ExactAssignment(), Threads(1), lambda rng: None
    )


def statistics(family, X, z):
    T = np.asarray(family.sufficient(X), np.float64)
    return np.stack([T[z == k].sum(axis=0) for k in range(K)])


def invariance(family, X, prior, sampler, n, rng):
    """Exact-start p-value of two Gibbs sweeps of `sampler`; two, so that z feels the new weights."""
    Z, log_p = enumerate_labels(family, prior, X)
    index = {tuple(z): i for i, z in enumerate(Z)}

    def start(i, rng):
        S = statistics(family, X, Z[i])
        eta, log_w = family.sample_eta(S, rng), prior.sample_log_w(S[:, -1], rng)
        return MixtureState(S, eta, log_w, Z[i])

    def twice(state, rng):
        return sampler.step(rng, sampler.step(rng, state)[0])[0]

    return exact_start(log_p, start, twice, lambda state: index[tuple(state.z)], n=n, rng=rng)


@pytest.mark.parametrize("name", FAMILIES)
def test_gibbs_leaves_the_posterior_invariant(name, rng):
    cls, simulate = FAMILIES[name]
    X = simulate(rng)
    family, prior = cls.from_data(X, K), FiniteDirichlet(K, 0.7)
    assert invariance(family, X, prior, kernel_for(family, X, prior), 3_000, rng) > BUDGET


@pytest.fixture
def alike():
    """Five rows that say nothing about their labels: the weights decide."""
    X = np.zeros((N, 1))
    return Bernoulli.from_data(X, K), X, FiniteDirichlet(K, 0.2)


def test_invariance_rejects_a_wrong_prior_of_the_weights(alike, rng):
    family, X, prior = alike
    assert invariance(family, X, prior, kernel_for(family, X, prior), 3_000, rng) > BUDGET
    assert invariance(family, X, prior, kernel_for(family, X, FiniteDirichlet(K, 1.0)), 3_000, rng) < BUDGET


def test_invariance_rejects_forgotten_weights(alike, rng):
    family, X, prior = alike

    class Forgetful:
        def step(self, rng, state):
            return kernel_for(family, X, prior).step(rng, replace(state, log_w=np.zeros(K)))

    assert invariance(family, X, prior, Forgetful(), 3_000, rng) < BUDGET


def joint_pvalues(family, prior, sampler_for, n, rng):
    def draw_prior(rng):
        S = np.zeros((K, family.width))
        return family.sample_eta(S, rng), prior.sample_log_w(S[:, -1], rng)

    def simulate(theta, rng):
        eta, log_w = theta
        z = rng.choice(K, size=N, p=np.exp(log_w) / np.exp(log_w).sum())
        return z.astype(np.int32), family.sample_x(eta[z], rng)

    def step(theta, data, rng):
        z, X = data
        state = MixtureState(statistics(family, X, z), theta[0], theta[1], z)
        state, _ = sampler_for(X).step(rng, state)
        return state.eta, state.log_w

    def measure(theta, data):
        eta, log_w = theta
        scores = family.sufficient(data[1]) @ eta.T + log_w
        figures = {"log_w": log_w[0], "eta_0": eta[0, 0], "eta_1": eta[1, 1], "sum": eta[:, -1].sum()}
        return {**figures, "fit": np.logaddexp.reduce(scores, axis=1).sum(), "worst": scores.max(axis=1).min()}

    return joint(draw_prior, simulate, step, measure, n=n, rng=rng)


@pytest.mark.parametrize("name", ["full", "diag", "spherical", "tied", "bernoulli", "poisson", "categorical"])
def test_joint(name, rng):
    cls, simulate = FAMILIES[name]
    family, prior = cls.from_data(simulate(rng), K), FiniteDirichlet(K, 0.7)
    pvalues = joint_pvalues(family, prior, lambda X: kernel_for(family, X, prior), 1_500, rng)
    assert min(pvalues.values()) > BUDGET, pvalues


def test_joint_rejects_a_forgotten_count(rng):
    """A sampler that draws parameters from half of the statistics."""
    family = DiagonalGaussian.from_data(FAMILIES["diag"][1](rng), K)
    prior = FiniteDirichlet(K, 0.7)

    class Careless:
        def __init__(self, X):
            self.X = X

        def step(self, rng, state):
            state, info = kernel_for(family, self.X, prior).step(rng, state)
            return replace(state, eta=family.sample_eta(state.S * 0.5, rng)), info

    assert min(joint_pvalues(family, prior, Careless, 1_500, rng).values()) < BUDGET


def test_product_of_families_is_sampled_too(rng):
    X = np.column_stack([rng.normal(size=N), rng.integers(0, 2, size=N), rng.integers(0, 3, size=N)])
    family = Product.from_data(X, K, kinds=("gaussian", "bernoulli", "categorical"))
    prior = FiniteDirichlet(K, 1.0)
    assert invariance(family, X, prior, kernel_for(family, X, prior), 3_000, rng) > BUDGET
