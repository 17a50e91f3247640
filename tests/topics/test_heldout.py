"""Held-out estimators equal enumeration, do not depend on threads, and are defined where nothing is to be predicted."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

from weald.engine import Threads
from weald.exceptions import DataError, ParameterError
from weald.testing.invariance import BUDGET, chi_square
from weald.topics import Corpus, Topics, heldout

K, V = 3, 5
PHI = np.random.default_rng(0).dirichlet(np.full(V, 0.5), K)
ALPHA = np.array([0.2, 0.5, 1.0])
TOPICS = Topics(PHI, ALPHA)
DOCUMENTS = ([0], [1, 1, 4], [0, 1, 2, 3], [0, 0, 2, 2])


def corpus_of(*documents: list[int]) -> Corpus:
    entries = [np.unique(document, return_counts=True) for document in documents]
    indptr = np.append(0, np.cumsum([len(words) for words, _ in entries]))
    words, counts = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    return Corpus(indptr, words.astype(np.int32), counts.astype(float), V)


def copies(document: list[int], n: int) -> Corpus:
    one = corpus_of(document)
    return Corpus(np.arange(n + 1) * len(one.words), np.tile(one.words, n), np.tile(one.counts, n), V)


def evidence(document: list[int], topics: Topics = TOPICS) -> float:
    """Log p(document): the sum over all z, proportions integrated out."""
    alpha = topics.alpha
    Z = np.array(list(product(range(len(alpha)), repeat=len(document)))).reshape(-1, len(document))
    n_k = (Z[:, :, None] == np.arange(len(alpha))).sum(axis=1)
    log_z = (
        (gammaln(alpha + n_k) - gammaln(alpha)).sum(axis=1) + gammaln(alpha.sum()) - gammaln(alpha.sum() + len(Z[0]))
    )
    return float(logsumexp(log_z + np.log(topics.phi[Z, document]).sum(axis=1)))


def unbiased(log_p: np.ndarray, exact: float) -> float:
    """P-value that the mean of p is exact; estimates that never vary must be exact."""
    ratio = np.exp(log_p - exact)
    if np.ptp(ratio) < 1e-12:
        return float(abs(ratio[0] - 1) < 1e-9)
    return float(2 * norm.sf(abs(ratio.mean() - 1) / (ratio.std() / len(ratio) ** 0.5)))


def test_enumeration_sums_to_one():
    assert sum(np.exp(evidence(list(words))) for words in product(range(V), repeat=3)) == pytest.approx(1)


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
@pytest.mark.parametrize("n_particles", [1, 2, 10])
def test_left_to_right_is_unbiased_for_any_number_of_particles(document, n_particles):
    rng = np.random.default_rng(n_particles)
    log_p, n_tokens = heldout.left_to_right(TOPICS, copies(document, 20_000), n_particles, rng)
    assert set(n_tokens) == {len(document)}
    assert unbiased(log_p, evidence(document)) > BUDGET


def test_left_to_right_comes_close_with_many_particles():
    log_p, _ = heldout.left_to_right(TOPICS, corpus_of(*DOCUMENTS), 20_000, np.random.default_rng(1))
    np.testing.assert_allclose(log_p, [evidence(document) for document in DOCUMENTS], atol=0.02)


def reference(document, n_particles, n, rng, *, weigh=True, earlier=True, own=True):
    """The estimator in a few lines of numpy, with its switches: (n,) log estimates."""
    R, alpha = n_particles, ALPHA
    z, n_k, log_p = np.zeros((n, R, 0), int), np.zeros((n, R, K)), np.zeros(n)

    def draw(p):
        cumulated = p.cumsum(axis=-1)
        return (rng.random((n, R, 1)) * cumulated[..., -1:] > cumulated).sum(axis=-1)

    for i, w in enumerate(document):
        p = PHI[:, w] * (n_k + alpha)
        weight = p.sum(axis=-1) / (i + alpha.sum())
        log_p += np.log(weight.mean(axis=1))
        if weigh:
            share = np.repeat(weight[:, None] / weight.sum(axis=1)[:, None, None], R, axis=1)
            source = (rng.random((n, R, 1)) > share.cumsum(axis=-1)).sum(axis=-1)
            z, n_k, p = (np.take_along_axis(x, source[..., None], axis=1) for x in (z, n_k, p))
        z = np.concatenate([z, draw(p)[..., None]], axis=2)
        n_k = n_k + np.eye(K)[z[..., -1]]
        for j in range(i + 1) if earlier else ():
            out = np.eye(K)[z[..., j]]
            z[..., j] = draw(PHI[:, document[j]] * (n_k - own * out + alpha))
            n_k = n_k - out + np.eye(K)[z[..., j]]
    return log_p


def test_unbiasedness_is_told_from_bugs():
    document, n = [1, 1, 4, 4], 30_000
    exact = evidence(document)
    for switches in ({}, {"earlier": False}, {"n_particles": 1, "weigh": False}):
        right = reference(document, **{"n_particles": 6, "n": n, "rng": np.random.default_rng(2), **switches})
        assert unbiased(right, exact) > BUDGET
    for switches in ({"own": False}, {"weigh": False}, {"weigh": False, "earlier": False}):
        wrong = reference(document, 6, n, np.random.default_rng(2), **switches)
        assert unbiased(wrong, exact) < BUDGET


def test_left_to_right_moves_some_tokens_of_long_documents(monkeypatch):
    monkeypatch.setattr(heldout, "MOVES", 2)
    log_p, _ = heldout.left_to_right(TOPICS, copies([0, 1, 2, 3, 3], 20_000), 3, np.random.default_rng(3))
    assert unbiased(log_p, evidence([0, 1, 2, 3, 3])) > BUDGET


def test_left_to_right_of_one_topic_is_the_unigram():
    one = Topics(PHI[:1], np.array([0.7]))
    log_p, _ = heldout.left_to_right(one, corpus_of(*DOCUMENTS), 2, np.random.default_rng(0))
    np.testing.assert_allclose(log_p, [np.log(PHI[0, document]).sum() for document in DOCUMENTS])


def test_completion_of_two_tokens_is_exact():
    exact = {w: evidence([w, 4]) - evidence([w]) for w in range(V)}
    exact |= {(4, w): evidence([w, 4]) - evidence([4]) for w in range(V)}
    for w in range(V - 1):
        log_p, n_tokens = heldout.completion(TOPICS, copies([w, 4], 40), np.random.default_rng(0))
        assert set(n_tokens) == {1}
        wanted = np.array([exact[w], exact[4, w]])
        assert abs(log_p[:, None] - wanted).min(axis=1).max() < 1e-6
        assert (abs(log_p[:, None] - wanted).argmin(axis=1) == 0).any() != np.isclose(*wanted)


def halves(document: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Log probability of the rest for each set of told tokens, and the share of sets that have it."""
    found = []
    for told in product([False, True], repeat=len(document)):
        if sum(told) == len(document) // 2:
            rest = [w for w, known in zip(document, told, strict=True) if not known]
            theta = TOPICS.proportions(corpus_of([w for w, known in zip(document, told, strict=True) if known]))[0]
            found.append(np.log(theta @ PHI[:, rest]).sum())
    values, n = np.unique(np.round(found, 9), return_counts=True)
    return values, n / n.sum()


def test_completion_draws_halves_without_replacement():
    values, share = halves([0, 1, 1, 2, 4])
    log_p, n_tokens = heldout.completion(TOPICS, copies([0, 1, 1, 2, 4], 5_000), np.random.default_rng(4))
    assert set(n_tokens) == {3}
    place = abs(log_p[:, None] - values).argmin(axis=1)
    np.testing.assert_allclose(log_p, values[place], atol=1e-8)
    assert chi_square(np.bincount(place, minlength=len(values)), share) > BUDGET
    words_not_tokens = np.bincount(np.random.default_rng(4).integers(len(values), size=5_000), minlength=len(values))
    assert chi_square(words_not_tokens, share) < BUDGET


def test_documents_of_no_and_of_one_token():
    corpus = Corpus(np.array([0, 0, 1, 1]), np.array([2], np.int32), np.array([1]), V)
    log_p, n_tokens = heldout.completion(TOPICS, corpus, np.random.default_rng(0))
    np.testing.assert_allclose(log_p, [0, np.log(ALPHA / ALPHA.sum() @ PHI[:, 2]), 0])
    np.testing.assert_array_equal(n_tokens, [0, 1, 0])
    log_p, n_tokens = heldout.left_to_right(TOPICS, corpus, 3, np.random.default_rng(0))
    np.testing.assert_allclose(log_p, [0, evidence([2]), 0])
    np.testing.assert_array_equal(n_tokens, [0, 1, 0])


def test_corpus_without_documents():
    nothing = Corpus(np.zeros(1, int), np.empty(0, np.int32), np.empty(0), V)
    for log_p, n_tokens in (
        heldout.completion(TOPICS, nothing, np.random.default_rng(0)),
        heldout.left_to_right(TOPICS, nothing, 3, np.random.default_rng(0)),
    ):
        assert log_p.shape == n_tokens.shape == (0,)
        with pytest.raises(DataError, match="no token to predict"):
            heldout.perplexity(log_p, n_tokens)


def test_impossible_words_have_probability_zero():
    topics = Topics(np.array([[0.5, 0.5, 0, 0, 0], [0, 1.0, 0, 0, 0]]), np.ones(2))
    corpus = corpus_of([0, 4, 4], [1, 1])
    log_p, n_tokens = heldout.left_to_right(topics, corpus, 3, np.random.default_rng(0))
    assert log_p[0] == -np.inf
    assert np.isfinite(log_p[1])
    assert heldout.perplexity(log_p, n_tokens) == np.inf
    assert heldout.completion(topics, corpus, np.random.default_rng(0))[0][0] == -np.inf


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_threads_tiles_and_dtypes_do_not_matter(dtype, monkeypatch):
    rng = np.random.default_rng(5)
    corpus = corpus_of(*[list(rng.integers(V, size=rng.integers(1, 9))) for _ in range(90)])
    typed = Corpus(corpus.indptr, corpus.words, corpus.counts.astype(dtype), V)
    results = []
    for tile, threads, documents in ((256, 1, corpus), (7, 3, typed)):
        monkeypatch.setattr(heldout, "TILE", tile)
        log_c, _ = heldout.completion(TOPICS, documents, np.random.default_rng(6), Threads(threads))
        log_e, _ = heldout.left_to_right(TOPICS, documents, 3, np.random.default_rng(6), Threads(threads))
        results.append((log_c, log_e))
    np.testing.assert_array_equal(*results)


def test_perplexity_by_hand():
    log_p, n_tokens = np.array([-2.0, -9.0, 0.0]), np.array([1, 3, 0])
    assert heldout.perplexity(log_p, n_tokens) == pytest.approx(np.exp(11 / 4))
    assert heldout.perplexity(log_p, n_tokens, "document") == pytest.approx(np.exp(2.5))
    assert heldout.perplexity(np.array([-2000.0]), np.array([1])) == np.inf
    with pytest.raises(ParameterError, match="per must be"):
        heldout.perplexity(log_p, n_tokens, "word")


def test_both_estimates_know_the_better_model():
    from weald.datasets import make_topics

    made = make_topics(60, 4, 50, 40, rng=0)
    X = made.X.tocsr()
    corpus = Corpus(X.indptr, X.indices.astype(np.int32), X.data, X.shape[1])
    true = Topics(made.truth["topics"] + 1e-9, np.full(4, 0.1))
    blurred = Topics(0.7 * true.phi + 0.3 * true.phi.mean(axis=0), true.alpha)
    for estimate in (heldout.completion, lambda *a: heldout.left_to_right(a[0], a[1], 10, a[2])):
        found = [heldout.perplexity(*estimate(topics, corpus, np.random.default_rng(0))) for topics in (true, blurred)]
        assert found[0] < found[1]


def annealed(document: list[int], topics: Topics, n: int, n_steps: int, rng: np.random.Generator) -> np.ndarray:
    """(n,) log weights of annealed importance sampling from the prior of z to its posterior: journal (124)."""
    alpha, K = topics.alpha, topics.n_topics
    theta = rng.dirichlet(alpha, size=n)
    z = (rng.random((n, len(document), 1)) > theta.cumsum(axis=1)[:, None]).sum(axis=2)
    n_k, log_w = (z[:, :, None] == np.arange(K)).sum(axis=1).astype(float), np.zeros(n)
    for step in range(1, n_steps + 1):
        log_w += np.log(topics.phi[z, document]).sum(axis=1) / n_steps
        for i, w in enumerate(document):
            n_k -= np.eye(K)[z[:, i]]
            p = (topics.phi[:, w] ** (step / n_steps) * (n_k + alpha)).cumsum(axis=1)
            z[:, i] = (rng.random((n, 1)) * p[:, -1:] > p).sum(axis=1)
            n_k += np.eye(K)[z[:, i]]
    return log_w


def test_longer_documents_agree_with_annealed_importance_sampling():
    rng = np.random.default_rng(7)
    topics = Topics(rng.dirichlet(np.full(20, 0.3), 4), np.array([0.4, 0.6, 0.8, 1.0]))
    document = sorted(rng.choice(20, size=30, p=rng.dirichlet(topics.alpha) @ topics.phi))
    words, counts = np.unique(document, return_counts=True)
    one = Corpus(np.array([0, len(words)]), words.astype(np.int32), counts.astype(float), 20)
    log_w = annealed(document, topics, 200, 100, rng)
    weight = np.exp(log_w - log_w.max())
    spread = weight.std() / weight.mean()
    assert spread < 1.5
    [estimate], _ = heldout.left_to_right(topics, one, 2_000, rng)
    assert abs(estimate - logsumexp(log_w) + np.log(200)) < 4 * spread / 200**0.5
