"""The export is what `pyLDAvis.prepare` checks for; the map keeps the distances of topics where a plane can."""

from __future__ import annotations

import numpy as np
import pytest
from known import PHI, WORDS, Known
from scipy import sparse

from weald.exceptions import ParameterError
from weald.topics import Topics, vis
from weald.topics.matching import distances


@pytest.fixture
def X():
    return sparse.csr_array(np.array([[3, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 4]]))


def test_arguments_are_distributions_over_what_is_there(X):
    found = vis.prepared(Known().fit(X), X, WORDS)
    assert list(found) == ["topic_term_dists", "doc_topic_dists", "doc_lengths", "vocab", "term_frequency"]
    assert found["vocab"] == ["tea", "milk", "road"]
    np.testing.assert_array_equal(found["doc_lengths"], [4, 4])
    np.testing.assert_array_equal(found["term_frequency"], [3, 1, 4])
    np.testing.assert_allclose(found["topic_term_dists"][1], PHI[0, [0, 1, 3]] / PHI[0, [0, 1, 3]].sum())
    for name in ("topic_term_dists", "doc_topic_dists"):
        np.testing.assert_allclose(found[name].sum(axis=1), 1)
    assert found["doc_topic_dists"][0, 1] > 0.9 < found["doc_topic_dists"][1, 0]


def test_names_default_to_those_of_the_fit(X):
    import pandas as pd

    frame = pd.DataFrame(X.toarray(), columns=WORDS)
    model = Known().fit(frame)
    assert vis.prepared(model, frame)["vocab"] == ["tea", "milk", "road"]
    assert vis.prepared(Known().fit(X), X)["vocab"] == ["0", "1", "3"]
    with pytest.raises(ParameterError, match="name the 4 columns"):
        vis.prepared(model, frame, ["tea"])


def test_three_topics_keep_their_distances_in_the_plane(rng):
    phi = rng.dirichlet(np.full(20, 0.3), size=3)
    points = vis.coordinates(phi)
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    np.testing.assert_allclose(apart, distances(phi, phi, "jensen-shannon"), atol=1e-7)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(vis.coordinates(Topics(phi, np.ones(3))), points)


def test_like_topics_are_near(rng):
    a, b = rng.dirichlet(np.full(40, 0.1), size=2)
    groups = [0.9 * base + 0.1 * rng.dirichlet(np.ones(40)) for base in (a, a, a, b, b)]
    x = vis.coordinates(np.array(groups))[:, 0]
    assert abs(x[:3].mean() - x[3:].mean()) > 5 * max(np.ptp(x[:3]), np.ptp(x[3:]))


@pytest.mark.parametrize("n_topics", [1, 2])
def test_one_and_two_topics_have_places(n_topics):
    points = vis.coordinates(PHI[:n_topics])
    assert points.shape == (n_topics, 2)
    np.testing.assert_allclose(points[:, 1], 0, atol=1e-7)
