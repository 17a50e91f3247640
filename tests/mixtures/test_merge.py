"""Merge moves of variational Bayes: the gain is the true change of the bound, and components are counted right."""

import numpy as np
import pytest
from scipy.special import xlogy

from weald import Mixture
from weald.assign import Rows
from weald.engine import Threads
from weald.families import Bernoulli, DiagonalGaussian, FullGaussian, Multinomial, SphericalGaussian, TiedGaussian
from weald.mixtures import merge
from weald.mixtures.components import probabilities
from weald.partitions import FiniteDirichlet

FAMILIES = [FullGaussian, DiagonalGaussian, SphericalGaussian, TiedGaussian, Bernoulli, Multinomial]


def setting(cls, rng, n=60, K=4):
    X = rng.normal(size=(n, 3)) + 2.0 * rng.integers(0, 2, size=(n, 1))
    if cls is Bernoulli:
        X = (X > 0.5).astype(float)
    if cls is Multinomial:
        X = np.floor(np.abs(X) * 2)
    family, prior = cls.from_data(X, K), FiniteDirichlet(K, 0.3)
    eta, log_w = family.sample_eta(np.zeros((K, family.width)), rng), np.log(rng.dirichlet(np.ones(K)))
    T = family.sufficient(X)
    R = probabilities(T @ eta.T + log_w)
    return X, family, prior, eta, log_w, T, R


def bound(R, T, family, prior):
    """L(r) with q(eta) and q(w) at their optimum, without log h."""
    S = R.T @ T
    return family.log_evidence(S) + prior.log_marginal(S[:, -1]) - xlogy(R, R).sum()


@pytest.mark.parametrize("cls", FAMILIES)
def test_the_gain_is_the_change_of_the_bound(cls, rng):
    X, family, prior, eta, log_w, T, R = setting(cls, rng)
    S, pairs = R.T @ T, np.array([[0, 1], [2, 3], [1, 3]])
    weight = rng.random(len(X)) + 0.5
    gain = merge._evidence_gain(S, pairs, family, prior)
    gain = gain - merge.lost_entropy(pairs, eta, log_w, Rows(X, family), Threads(1))
    for (a, b), stated in zip(pairs, gain, strict=True):
        joined = R.copy()
        joined[:, a] += joined[:, b]
        joined[:, b] = 0.0
        assert stated == pytest.approx(bound(joined, T, family, prior) - bound(R, T, family, prior), abs=1e-8)
    weighted = merge.lost_entropy(pairs, eta, log_w, Rows(X, family, weight), Threads(1))
    r_a, r_b = R[:, pairs[:, 0]], R[:, pairs[:, 1]]
    assert weighted == pytest.approx(weight @ (xlogy(r_a + r_b, r_a + r_b) - xlogy(r_a, r_a) - xlogy(r_b, r_b)))


def test_merging_keeps_the_statistics_of_all_rows(rng):
    X, family, prior, eta, log_w, T, R = setting(DiagonalGaussian, rng)
    S = R.T @ T
    after, n = merge.merged(S, eta, log_w, Rows(X, family), prior, Threads(1))
    assert after.sum(axis=0) == pytest.approx(S.sum(axis=0))
    assert (after[:, -1] == 0).sum() == n


def six_blobs(seed):
    rng = np.random.default_rng(seed)
    while True:
        centres = rng.normal(size=(6, 2)) * 8.0
        gaps = np.linalg.norm(centres[:, None] - centres, axis=2)
        if gaps[np.triu_indices(6, 1)].min() > 4.5:
            z = rng.integers(6, size=600)
            return centres[z] + rng.normal(size=(600, 2))


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical", "tied"])
@pytest.mark.parametrize("seed", range(3))
def test_ten_components_on_six_blobs_keep_six(covariance, seed):
    """Journal Figure 22, with the defaults of the estimator."""
    mix = Mixture(10, inference="vb", covariance=covariance, random_state=seed).fit(six_blobs(seed))
    assert mix.n_components_ == 6
    assert mix.status_.ok
    assert (np.sort(mix.weights_)[:4] < 1e-3).all()
    assert np.diff(mix.posterior_.stats["objective"][0]).min() > -1e-7


def test_the_bound_never_falls_through_merges():
    mix = Mixture(10, inference="vb", init="random-points", random_state=0, tol=1e-8, max_iter=500).fit(six_blobs(5))
    stats = mix.posterior_.stats
    assert stats["n_merged"].sum() > 0
    assert np.diff(stats["objective"][0]).min() > -1e-7
