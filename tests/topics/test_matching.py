"""Matching finds a known permutation, the best of all assignments, and says what has no partner."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from weald.exceptions import ParameterError
from weald.topics import Topics, matching

KINDS = ["hellinger", "jensen-shannon"]


@pytest.fixture
def phi(rng):
    return rng.dirichlet(np.full(30, 0.1), size=5)


def test_distances_are_those_of_the_definition(phi, rng):
    other = rng.dirichlet(np.full(30, 0.1), size=3)
    hellinger = [[np.linalg.norm(np.sqrt(p) - np.sqrt(q)) / np.sqrt(2) for q in other] for p in phi]
    np.testing.assert_allclose(matching.distances(phi, other), hellinger)
    shannon = [[jensenshannon(p, q, base=2) for q in other] for p in phi]
    np.testing.assert_allclose(matching.distances(phi, other, "jensen-shannon"), shannon, atol=1e-7)
    for kind in KINDS:
        np.testing.assert_allclose(np.diag(matching.distances(phi, phi, kind)), 0, atol=1e-7)
        np.testing.assert_allclose(matching.distances(np.eye(2), np.eye(2), kind), 1 - np.eye(2), atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_permutation_is_found(phi, kind, rng):
    order = rng.permutation(5)
    blurred = 0.9 * phi + 0.1 / 30
    found = matching.match_topics(phi, blurred[order], distance=kind)
    np.testing.assert_array_equal(blurred[order][found.order], blurred)
    np.testing.assert_allclose(found.distances, np.diag(matching.distances(phi, blurred, kind)))
    assert found.unmatched.size == 0


def test_the_assignment_is_the_best_of_all(rng):
    a, b = rng.dirichlet(np.ones(4), size=(2, 4))
    apart = matching.distances(a, b)
    best = min(sum(apart[k, j] for k, j in enumerate(order)) for order in permutations(range(4)))
    assert matching.match_topics(a, b).distances.sum() == pytest.approx(best)
    nearest_first = apart.min(axis=1).sum()
    assert nearest_first < best  # what each topic would choose for itself is no assignment here


def test_more_topics_on_either_side(phi):
    more = matching.match_topics(phi[:3], phi[::-1])
    assert more.order.tolist() == [4, 3, 2]
    assert more.unmatched.tolist() == [0, 1]
    fewer = matching.match_topics(phi[::-1], phi[:3])
    assert fewer.order.tolist() == [-1, -1, 2, 1, 0]
    assert np.isnan(fewer.distances[:2]).all()
    assert fewer.pairs.tolist() == [[2, 2], [3, 1], [4, 0]]


def test_pairs_too_far_apart_are_none(phi):
    other = phi.copy()
    other[1] = np.roll(phi[1], 15)
    found = matching.match_topics(phi, other, farthest=0.3)
    assert found.order.tolist() == [0, -1, 2, 3, 4]
    assert found.unmatched.tolist() == [1]


def test_models_topics_and_arrays_are_alike(phi):
    model = SimpleNamespace(components_=phi)
    for a in (phi, Topics(phi, np.ones(5)), model):
        assert matching.match_topics(a, phi[::-1]).order.tolist() == [4, 3, 2, 1, 0]


def test_what_cannot_be_matched(phi):
    with pytest.raises(ParameterError, match="one vocabulary, got 30 and 29"):
        matching.match_topics(phi, phi[:, 1:])
    with pytest.raises(ParameterError, match="distance must be"):
        matching.match_topics(phi, phi, distance="cosine")
    with pytest.raises(ParameterError, match="farthest must be"):
        matching.match_topics(phi, phi, farthest=2)
    with pytest.raises(ParameterError, match="got LDA"):
        matching.match_topics(type("LDA", (), {})(), phi)
