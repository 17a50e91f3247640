"""The finite Dirichlet as the family of mixture weights: mode, draw and expectation from counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from weald.exceptions import DataError
from weald.partitions import FiniteDirichlet

COUNTS = np.array([4.0, 0.0, 2.5, 1.25])


def test_mode_maximises_the_objective():
    prior, rng = FiniteDirichlet(4, 0.6), np.random.default_rng(0)

    def objective(log_w):
        return COUNTS @ log_w + prior.log_prior(log_w)

    mode = prior.mode_log_w(COUNTS)
    assert np.exp(mode) == pytest.approx((COUNTS + 0.6) / (COUNTS.sum() + 2.4))
    for size in (1e-3, 0.1, 1.0):
        for _ in range(50):
            moved = mode + size * rng.normal(size=4)
            assert objective(moved - np.logaddexp.reduce(moved)) < objective(mode)


def test_evidence_obeys_the_chain_rule():
    prior = FiniteDirichlet(4, 0.6)
    for k in range(4):
        step = (np.arange(4) == k) * 1.0
        ratio = prior.log_marginal(COUNTS + step) - prior.log_marginal(COUNTS)
        assert ratio == pytest.approx(prior.mean_log_w(COUNTS)[k], abs=1e-12)
    assert prior.log_marginal(np.zeros(4)) == pytest.approx(0.0, abs=1e-14)
    sizes, choices = np.array([3, 2]), 4 * 3
    assert prior.log_eppf(sizes) == pytest.approx(prior.log_marginal(sizes) + math.log(choices), abs=1e-12)


def test_expected_log_weights_are_the_gradient_of_the_evidence():
    prior, h = FiniteDirichlet(4, 0.6), 1e-5
    counts = COUNTS + 0.5
    for k in range(4):
        step = h * (np.arange(4) == k)
        slope = (prior.log_marginal(counts + step) - prior.log_marginal(counts - step)) / (2 * h)
        assert prior.expected_log_w(counts)[k] == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize("concentration", [0.02, 0.6, 5.0])
def test_draws_have_beta_marginals(concentration):
    prior, rng = FiniteDirichlet(4, concentration), np.random.default_rng(1)
    log_w = np.array([prior.sample_log_w(COUNTS, rng) for _ in range(3000)])
    assert np.logaddexp.reduce(log_w, axis=1) == pytest.approx(0.0, abs=1e-12)
    posterior = COUNTS + concentration
    for k in (0, 2, 3):
        law = stats.beta(posterior[k], posterior.sum() - posterior[k])
        assert stats.kstest(np.exp(log_w[:, k]), law.cdf).pvalue > 1e-5
        assert stats.kstest(np.exp(log_w[:, k]), stats.beta(posterior[k] + 1, law.args[1]).cdf).pvalue < 1e-8
    error = log_w.std(axis=0) / math.sqrt(3000)
    assert (np.abs(log_w.mean(axis=0) - prior.expected_log_w(COUNTS)) < 4.5 * error).all()


@pytest.mark.parametrize("concentration", [0.0, 1e-300, 1e-12, 1e-3])
@pytest.mark.parametrize("counts", [np.zeros(3), np.array([1e9, 0.0, 3.0])])
def test_logs_stay_finite_for_tiny_concentrations(concentration, counts):
    prior, rng = FiniteDirichlet(3, concentration), np.random.default_rng(2)
    for log_w in (prior.mode_log_w(counts), prior.sample_log_w(counts, rng), prior.expected_log_w(counts)):
        assert np.isfinite(log_w).all()
        assert np.isfinite(prior.log_prior(log_w))
    assert np.exp(prior.mode_log_w(counts)).sum() == pytest.approx(1.0)
    assert np.isfinite(prior.log_marginal(counts))


def test_no_concentration_gives_frequencies():
    assert np.exp(FiniteDirichlet(4, 0.0).mode_log_w(COUNTS)) == pytest.approx(COUNTS / COUNTS.sum(), abs=1e-15)
    assert FiniteDirichlet(4, 0.0).log_prior(np.log([0.1, 0.2, 0.3, 0.4])) == 0.0


def test_sticks_fold_and_pad():
    prior, rng = FiniteDirichlet(3, 2.0), np.random.default_rng(3)
    assert prior.sticks(2, rng).shape == (2,)
    folded = np.exp([prior.sticks(2, rng)[1] for _ in range(2000)])
    assert stats.kstest(folded, stats.beta(4.0, 2.0).cdf).pvalue > 1e-5
    padded = prior.sticks(5, rng)
    assert (padded[3:] == -np.inf).all()
    assert np.exp(padded).sum() == pytest.approx(1.0)


def test_wrong_counts_are_named():
    prior, rng = FiniteDirichlet(3), np.random.default_rng(0)
    for bad in (np.ones(2), -np.ones(3), np.ones((3, 1))):
        with pytest.raises(DataError, match="counts"):
            prior.mode_log_w(bad)
        with pytest.raises(DataError, match="counts"):
            prior.sample_log_w(bad, rng)
    with pytest.raises(DataError, match="counts"):
        prior.log_marginal(np.ones(4))
