"""What is unsure, against the plain n x n matrix of co-clustering."""

from __future__ import annotations

import numpy as np
import pytest

from weald.app import doubts
from weald.diagnostics import co_clustering
from weald.mixtures import outcome


@pytest.fixture
def draws():
    rng = np.random.default_rng(0)
    labels = np.array([0, 0, 1, 2, 0, 1, 1, 0, 3])
    Z = np.where(rng.random((30, 9)) < 0.7, labels, rng.integers(0, 6, (30, 9)))
    return Z, labels


def test_means_over_pairs_are_those_of_the_matrix(draws):
    Z, labels = draws
    P, expected = co_clustering(Z), np.ones((4, 4))
    for g, h in np.ndindex(4, 4):
        pairs = [(i, j) for i in np.flatnonzero(labels == g) for j in np.flatnonzero(labels == h) if i != j]
        expected[g, h] = np.mean([P[pair] for pair in pairs]) if pairs else 1.0
    np.testing.assert_allclose(doubts.together(Z, labels), expected)
    rows = np.array([4, 8])
    near = [[P[i, labels == k].mean() for k in range(4)] for i in rows]
    np.testing.assert_allclose(doubts.with_clusters(Z, labels, rows), near)


def test_only_what_is_worth_saying_largest_first():
    P = np.array([[0.6, 0.3, 0.001], [0.3, 1.0, 0.5], [0.001, 0.5, 0.4]])
    assert doubts.merged(P, 5) == [(1, 2, 0.5), (0, 1, 0.3)]
    assert doubts.merged(P, 1) == [(1, 2, 0.5)]
    assert doubts.split(P, 5) == [(2, 0.4), (0, 0.6)]
    assert doubts.merged(np.ones((1, 1)), 5) == []


def test_rows_for_the_picture_come_evenly_from_every_cluster():
    rng = np.random.default_rng(0)
    labels, unsure = np.repeat([0, 1, 2], [7_000, 2_999, 1]), rng.random(10_000)
    shuffled = rng.permutation(10_000)
    labels, unsure = labels[shuffled], unsure[shuffled]
    rows = doubts.spread(labels, unsure, 300)
    assert np.bincount(labels[rows]).tolist() == pytest.approx([210, 90, 1], abs=2)
    assert (np.diff(labels[rows]) >= 0).all()
    inside = unsure[rows][labels[rows] == 0]
    assert (np.diff(inside) >= 0).all()
    assert inside[0] < 0.01 < 0.99 < inside[-1]
    assert sorted(doubts.spread(labels[:50], unsure[:50], 300)) == list(range(50))


def test_draws_are_thinned_to_what_there_is_time_for(monkeypatch):
    monkeypatch.setattr(outcome, "CONSENSUS_LABELS", 100)
    Z = np.arange(50)[:, None] * np.ones(5, np.int64)
    some = outcome.for_consensus(Z)
    assert len(some) == 20
    assert (some[0, 0], some[-1, 0]) == (0, 49)
