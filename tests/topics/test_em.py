"""EM: one step against plain numpy, a posterior that never falls, words that were not seen."""

import numpy as np
import pytest

from weald.datasets import make_topics
from weald.engine import Threads
from weald.topics import Corpus, em, heldout
from weald.topics.expect import batch_of

KEY = np.uint64(3)


def small(n=150, K=4, V=50, length=30, seed=0):
    X = make_topics(n, K, V, length, seed).X
    return Corpus(X.indptr, X.indices.astype(np.int32), X.data, V)


def kernel_of(corpus, K, alpha, eta):
    batch = batch_of(corpus, np.arange(corpus.n_documents))
    return em.EMSweep(corpus, np.full(K, alpha), eta, batch, Threads(1))


def naive(corpus, state, alpha, eta):
    """(93)-(98) with every responsibility written out; the log posterior of the parameters that come in."""
    K, rows = state.S.shape[1], np.repeat(np.arange(corpus.n_documents), np.diff(corpus.indptr))
    theta, phi = state.n_dk + alpha, state.S + eta
    theta, phi = theta / theta.sum(axis=1, keepdims=True), phi / phi.sum(axis=0)
    joint = theta[rows] * phi[corpus.words]
    r = joint / joint.sum(axis=1, keepdims=True)
    n_dk, S = np.zeros((corpus.n_documents, K)), np.zeros((corpus.n_words, K))
    np.add.at(n_dk, rows, corpus.counts[:, None] * r)
    np.add.at(S, corpus.words, corpus.counts[:, None] * r)
    log_prior = sum(a * np.log(x).sum() for a, x in ((alpha, theta), (eta, phi)) if a > 0)
    return n_dk, S, float(corpus.counts @ np.log(joint.sum(axis=1))) + log_prior


@pytest.mark.parametrize(("alpha", "eta"), [(0.0, 0.0), (0.5, 0.1)])
def test_a_step_is_that_of_the_formulas(alpha, eta):
    corpus = small(20, 3)
    kernel = kernel_of(corpus, 3, alpha, eta)
    state = kernel.init(np.random.default_rng(0))
    for _ in range(3):
        n_dk, S, value = naive(corpus, state, alpha, eta)
        state, info = kernel.step(np.random.default_rng(0), state)
        assert np.allclose(state.n_dk, n_dk, rtol=1e-10)
        assert np.allclose(state.S, S, rtol=1e-10)
        assert info["objective"] == pytest.approx(value, rel=1e-12)


def trace_of(corpus, alpha, eta, sweeps, seed=0, wrong=None):
    kernel = kernel_of(corpus, 4, alpha, eta)
    state, trace = kernel.init(np.random.default_rng(seed)), []
    for sweep in range(sweeps):
        state, info = kernel.step(np.random.default_rng(0), state)
        trace.append(info["objective"])
        state = wrong(state) if wrong is not None and sweep >= 75 else state
    return np.array(trace)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("alpha", "eta"), [(0.0, 0.0), (0.1, 0.01), (2.0, 1.0)])
def test_the_posterior_never_falls(seed, alpha, eta):
    trace = trace_of(small(seed=seed), alpha, eta, 150, seed)
    assert np.diff(trace).min() > -1e-12 * abs(trace[0])
    assert trace[-1] > trace[0]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda state: em.EMState(state.n_dk + 1.0, state.S),
        lambda state: em.EMState(state.n_dk, state.S * np.array([1.0, 1.0, 1.0, 0.9]) + 0.1),
        lambda state: em.EMState(state.n_dk[:, ::-1].copy(), state.S),
    ],
    ids=["proportions", "topics", "order"],
)
def test_a_wrong_update_lowers_the_posterior(wrong):
    trace = trace_of(small(), 0.1, 0.01, 150, wrong=wrong)
    assert np.diff(trace).min() < -1e-6 * abs(trace[0])


def unseen_word():
    corpus = small()
    return Corpus(corpus.indptr, corpus.words, corpus.counts, corpus.n_words + 1)


def test_words_that_were_not_seen():
    corpus = unseen_word()
    strict = em.em(corpus, 4, np.zeros(4), 0.0, 50, 1e-3, KEY).topics
    smooth = em.em(corpus, 4, np.full(4, 0.1), 0.01, 50, 1e-3, KEY).topics
    assert (strict.phi[:, -1] == 0).all()
    assert (smooth.phi > 0).all()
    for topics in (strict, smooth):
        assert np.allclose(topics.phi.sum(axis=1), 1)
    test = Corpus(np.array([0, 2]), np.array([0, corpus.n_words - 1], np.int32), np.array([5, 5]), corpus.n_words)
    found = {
        name: heldout.perplexity(*heldout.completion(topics, test, np.random.default_rng(0)))
        for name, topics in {"strict": strict, "smooth": smooth}.items()
    }
    assert found["strict"] == np.inf
    assert found["smooth"] < np.inf


def test_more_topics_than_the_data_have():
    topics = em.em(Corpus(np.array([0, 2]), np.array([0, 1], np.int32), np.array([3, 1]), 2), 5, np.zeros(5), 0.0, 30,
                   1e-3, KEY).topics  # fmt: skip
    assert np.isfinite(topics.phi).all()
    assert np.allclose(topics.phi.sum(axis=1), 1)


def test_threads_change_no_bit():
    corpus = small(500)
    one, two, four = (em.em(corpus, 4, np.full(4, 0.1), 0.01, 20, 1e-4, KEY, Threads(n)) for n in (1, 2, 4))
    for other in (two, four):
        assert np.array_equal(one.topics.phi, other.topics.phi)
        assert np.array_equal(one.stats["objective"], other.stats["objective"])
