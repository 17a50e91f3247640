"""Proportions of new documents: near the enumerated mean, and a fixed point; threads and dtypes do not matter."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln

from weald.engine import Threads
from weald.topics import Corpus, Topics, fold_in

K, V = 3, 6
PHI = np.random.default_rng(0).dirichlet(np.full(V, 0.5), K)
ALPHA = np.array([0.3, 0.6, 1.1])


def corpus_of(X, dtype=np.float64) -> Corpus:
    X = np.atleast_2d(X)
    indptr = np.append(0, np.cumsum((X > 0).sum(axis=1)))
    return Corpus(indptr, np.nonzero(X)[1].astype(np.int32), X[X > 0].astype(dtype), X.shape[1])


def posterior_mean(document: list[int], topics: Topics) -> np.ndarray:
    """E[theta | document]: the sum over all z."""
    K, alpha = topics.n_topics, topics.alpha
    Z = np.array(list(product(range(K), repeat=len(document)))).reshape(-1, len(document))
    n_k = (Z[:, :, None] == np.arange(K)).sum(axis=1)
    log_p = gammaln(alpha + n_k).sum(axis=1) + np.log(topics.phi[Z, document]).sum(axis=1)
    p = np.exp(log_p - log_p.max())
    return p @ (n_k + alpha) / p.sum() / (len(document) + alpha.sum())


@pytest.mark.parametrize("word", range(V))
def test_one_token_is_exact(word):
    topics = Topics(PHI, ALPHA)
    found = topics.proportions(corpus_of(np.eye(V, dtype=int)[word]))[0]
    np.testing.assert_allclose(found, posterior_mean([word], topics), atol=1e-9)


def test_a_few_tokens_are_near_the_enumerated_mean(rng):
    topics = Topics(PHI, ALPHA)
    documents = [sorted(rng.choice(V, size=5)) for _ in range(30)]
    X = np.array([np.bincount(document, minlength=V) for document in documents])
    exact = np.array([posterior_mean(document, topics) for document in documents])
    error = abs(topics.proportions(corpus_of(X)) - exact).max(axis=1)
    assert np.median(error) < 0.03
    assert error.max() < 0.12
    blurred = Topics(PHI, ALPHA + 1)  # a wrong prior is told from the approximation
    assert np.median(abs(blurred.proportions(corpus_of(X)) - exact).max(axis=1)) > 0.05


def test_long_documents_find_their_proportions(rng):
    phi = rng.dirichlet(np.full(200, 0.1), size=4)
    theta = rng.dirichlet(np.ones(4), size=20)
    X = np.array([rng.multinomial(5_000, p) for p in theta @ phi])
    found = Topics(phi, np.ones(4)).proportions(corpus_of(X))
    assert abs(found - theta).max() < 0.03


def test_it_stops_at_the_fixed_point(monkeypatch, rng):
    X, topics = rng.poisson(1.0, (20, V)), Topics(PHI, ALPHA)
    found = topics.proportions(corpus_of(X))
    monkeypatch.setattr(fold_in, "SETTLED", 0.0)
    monkeypatch.setattr(fold_in, "ROUNDS", 2_000)
    np.testing.assert_allclose(found, topics.proportions(corpus_of(X)), atol=1e-3)


def test_documents_without_words_have_the_prior_mean():
    topics = Topics(PHI, ALPHA)
    found = topics.proportions(corpus_of(np.array([[0] * V, [1] + [0] * (V - 1), [0] * V])))
    np.testing.assert_allclose(found[[0, 2]], [ALPHA / ALPHA.sum()] * 2)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert topics.proportions(Corpus(np.zeros(1, int), np.empty(0, np.int32), np.empty(0), V)).shape == (0, K)


def test_words_that_no_topic_has_say_nothing():
    topics = Topics(np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]), np.array([1.0, 3.0]))
    found = topics.proportions(corpus_of(np.array([[0, 0, 4], [0, 1, 4]])))
    np.testing.assert_allclose(found, [[0.25, 0.75], [0.4, 0.6]])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_threads_and_dtypes_do_not_matter(dtype, rng):
    X, topics = rng.poisson(0.8, (9_000, V)), Topics(PHI, ALPHA)
    one = topics.proportions(corpus_of(X), Threads(1))
    np.testing.assert_array_equal(topics.proportions(corpus_of(X, dtype), Threads(3)), one)
    np.testing.assert_array_equal(topics.proportions(corpus_of(X[4_000:4_010])), one[4_000:4_010])


def test_weights_are_tokens(rng):
    topics = Topics(PHI, ALPHA)
    light = topics.proportions(corpus_of(np.full((1, V), 1e-9)))
    np.testing.assert_allclose(light, [ALPHA / ALPHA.sum()], atol=1e-6)
