"""Stick-breaking weights: against Beta integrals, simulation, and every order of the counts."""

from itertools import permutations

import numpy as np
import pytest
from scipy.special import betaln

from weald.exceptions import DataError, ParameterError
from weald.partitions import DirichletProcess, FiniteDirichlet, TruncatedSticks


def drawn_weights(sticks, counts, rng, n=200_000):
    """(n, T) draws of the weights given counts, components from the largest to the smallest along the stick."""
    order = np.argsort(-counts, kind="stable")
    later = counts[order][::-1].cumsum()[::-1] - counts[order]
    v = rng.beta(1 + counts[order], sticks.concentration + later, size=(n, counts.size))
    w = np.empty_like(v)
    w[:, order] = v * np.cumprod(np.column_stack([np.ones(n), 1 - v[:, :-1]]), axis=1)
    return w


def test_expectations_are_those_of_drawn_sticks():
    sticks, counts, rng = TruncatedSticks(4, 0.8), np.array([1.0, 7.0, 0.0, 3.5]), np.random.default_rng(0)
    w = drawn_weights(sticks, counts, rng)
    np.testing.assert_allclose(sticks.mean_log_w(counts), np.log(w.mean(axis=0)), atol=0.02)
    np.testing.assert_allclose(sticks.expected_log_w(counts), np.log(w).mean(axis=0), atol=0.03)


def test_marginal_is_the_mean_probability_of_the_labels():
    sticks, counts, rng = TruncatedSticks(3, 1.5), np.array([2.0, 1.0, 0.0]), np.random.default_rng(1)
    w = drawn_weights(sticks, np.zeros(3), rng)
    assert sticks.log_marginal(counts) == pytest.approx(np.log(np.mean(w[:, 0] ** 2 * w[:, 1])), abs=0.02)


def test_the_largest_first_is_the_best_order():
    rng = np.random.default_rng(2)
    for _ in range(50):
        counts, alpha = rng.gamma(0.3, 10.0, 5), rng.gamma(1.0) + 0.01
        in_order = [
            np.sum(betaln(1 + c, alpha + c[::-1].cumsum()[::-1] - c))
            for c in (counts[list(p)] for p in permutations(range(5)))
        ]
        best = max(in_order) - 5 * betaln(1, alpha)
        assert TruncatedSticks(5, alpha).log_marginal(counts) == pytest.approx(best, abs=1e-9)


def test_many_sticks_hold_the_mass_of_the_process():
    counts = np.append([5.0, 2.0], np.zeros(198))
    log_w = TruncatedSticks(200, 2.0).mean_log_w(counts)
    assert np.exp(log_w).sum() == pytest.approx(1.0, abs=1e-6)
    existing, _ = DirichletProcess(2.0).log_weights(np.array([5, 2]))
    assert log_w[0] > existing[0]  # size-biased order: earlier on the stick is more


@pytest.mark.parametrize("prior", [TruncatedSticks(4, 0.7), FiniteDirichlet(4, 0.3)], ids=["sticks", "dirichlet"])
def test_gain_of_a_merger(prior):
    counts, pairs = np.array([4.0, 0.5, 2.0, 9.0]), np.array([[0, 1], [2, 3], [1, 3]])
    merged = []
    for a, b in pairs:
        after = counts.copy()
        after[a], after[b] = counts[a] + counts[b], 0.0
        merged.append(prior.log_marginal(after) - prior.log_marginal(counts))
    np.testing.assert_allclose(prior.merge_gain(counts, pairs), merged, rtol=1e-12)


def test_what_cannot_be():
    with pytest.raises(ParameterError, match="n_components"):
        TruncatedSticks(0)
    with pytest.raises(ParameterError, match="concentration"):
        TruncatedSticks(3, -1.0)
    with pytest.raises(DataError, match="3 non-negative"):
        TruncatedSticks(3).log_marginal(np.ones(2))
