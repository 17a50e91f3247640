"""Variational inference for the HDP: the bound against its definition, that it never falls, streams, truncations."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from weald._random import key_from
from weald.datasets import make_topics
from weald.engine import Threads
from weald.inference.run import run
from weald.topics.corpus import Corpus
from weald.topics.expect import batch_of
from weald.topics.hdp_gibbs import Prior
from weald.topics.hdp_svi import SVIPasses, SVIRule, SVIState, bound_of_topics, first_state, followed, learn_batch, svi
from weald.topics.hdp_tables import log_words

FIXED = Prior((None, 1.0), (None, 1.0), (None, 1.0))


def corpus_with(k, seed, n=200, V=60, length=40):
    X = make_topics(n, k, V, length, seed).X.tocsr()
    return Corpus(X.indptr, X.indices.astype(np.int32), X.data, V)


CORPUS = corpus_with(4, 0)
BATCH = SVIRule(n_topics=12, n_tables=5, batch_size=None)


def trace(rule, sweeps=15, corpus=CORPUS):
    (chain,) = run(SVIPasses(rule, corpus), key=key_from(0), sweeps=sweeps)
    return chain.stats["objective"]


@pytest.mark.parametrize("prior", [Prior(), FIXED])
def test_the_bound_never_falls(prior):
    rises = np.diff(trace(replace(BATCH, prior=prior)))
    assert (rises > -1e-9 * 30_000).all()
    assert rises.sum() > 100


def test_bugs_make_it_fall(monkeypatch):
    """Bug: a stick of the corpus counts the tables of the next topic only, not those of all that follow."""
    wrong = property(lambda self: (1.0 + self.C[:-1], self.gamma + self.C[1:]))
    monkeypatch.setattr(SVIState, "sticks", wrong)
    assert (np.diff(trace(BATCH)) < -1e-6 * 30_000).any()


def beta_kl(a, b, c):
    """KL of Beta(a, b) from Beta(1, c)."""
    log_norm = gammaln(a) + gammaln(b) - gammaln(a + b)
    return -np.log(c) - log_norm + (a - 1) * (digamma(a) - digamma(a + b)) + (b - c) * (digamma(b) - digamma(a + b))


def test_the_bound_is_that_of_its_definition():
    """All of E log p - E log q, term by term, responsibilities included."""
    rule = replace(BATCH, prior=FIXED)
    rng = np.random.default_rng(0)
    state = first_state(rule, CORPUS, CORPUS.n_documents, rng)
    rows = np.arange(6)
    some = replace(rule, engine=Threads(1))
    after, _ = learn_batch(some, state, CORPUS, rows, 6)
    state = replace(state, zeta=after.zeta, g=after.g)
    _, objective = learn_batch(some, state, CORPUS, rows, 6)
    again, _ = learn_batch(some, state, CORPUS, rows, 6)
    lam = state.eta + state.S
    log_phi = digamma(lam) - digamma(lam.sum(axis=0))
    total = 0.0
    for d in rows:
        words = CORPUS.words[CORPUS.indptr[d] : CORPUS.indptr[d + 1]]
        counts = CORPUS.counts[CORPUS.indptr[d] : CORPUS.indptr[d + 1]]
        a, b = again.g[d, :-1].T
        log_pi = np.append(digamma(a) - digamma(a + b), 0.0)
        log_pi[1:] += np.cumsum(digamma(b) - digamma(a + b))
        zeta = again.zeta[d]
        fit = log_phi[words] @ zeta.T
        log_r = fit + log_pi
        r = np.exp(log_r - log_r.max(axis=1, keepdims=True))
        r /= r.sum(axis=1, keepdims=True)
        total += (counts[:, None] * r * (fit + log_pi - np.log(r))).sum()
        total += (zeta * (state.log_sigma - np.log(np.maximum(zeta, 1e-300)))).sum()
        total -= beta_kl(a, b, state.alpha).sum()
    V = CORPUS.n_words
    for k in range(lam.shape[1]):
        log_p = gammaln(V * state.eta) - V * gammaln(state.eta) + (state.eta - 1) * log_phi[:, k].sum()
        log_q = gammaln(lam[:, k].sum()) - gammaln(lam[:, k]).sum() + ((lam[:, k] - 1) * log_phi[:, k]).sum()
        total += log_p - log_q
    total -= beta_kl(*state.sticks, state.gamma).sum()
    assert objective == pytest.approx(total, rel=1e-9)


def test_expected_weights_sum_to_one():
    state = first_state(BATCH, CORPUS, 200, np.random.default_rng(1))
    assert state.sigma.sum() == pytest.approx(1.0)
    assert bound_of_topics(state, FIXED) < 0.0


@pytest.mark.parametrize("size", [None, 64])
def test_it_finds_the_topics_and_leaves_the_rest_empty(size):
    found = svi(CORPUS, replace(BATCH, n_topics=30, batch_size=size), 15, 1e-3, key_from(0))
    assert found.topics.n_topics == 4
    np.testing.assert_allclose(found.topics.phi.sum(axis=1), 1.0)


def test_threads_do_not_matter():
    one, two = (trace(replace(BATCH, batch_size=100, engine=Threads(n)), 2) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_streams_go_on():
    rule = replace(BATCH, batch_size=32, n_topics=20)
    state = None
    for start in range(0, 200, 50):
        state = followed(rule, state, CORPUS.part(start, start + 50), None, key_from(0))
    assert state.n_documents == 200
    assert state.n_steps == 8
    np.testing.assert_allclose(state.S.sum(), CORPUS.n_tokens, rtol=0.05)


def test_a_truncation_that_is_too_small_is_told():
    found = svi(CORPUS, replace(BATCH, n_topics=2), 5, 1e-3, key_from(0))
    assert not found.status.ok
    assert "max_topics" in found.status.advice[0]


def test_words_of_a_batch():
    batch = batch_of(CORPUS, np.arange(3))
    S = np.random.default_rng(0).gamma(1.0, size=(60, 3))
    log_b = np.empty((len(batch.words), 3))
    log_words(S, 0.2, S.sum(axis=0), batch.words, log_b)
    wanted = digamma(0.2 + S) - digamma(60 * 0.2 + S.sum(axis=0))
    np.testing.assert_allclose(log_b, wanted[batch.words], rtol=1e-9)
