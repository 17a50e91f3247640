"""Online and batch variational Bayes: parts against plain numpy, the bound against its definition and the evidence."""

import itertools
import weakref

import numpy as np
import pytest
from scipy.special import digamma as psi
from scipy.special import gammaln

import weald
from weald.datasets import make_topics
from weald.engine import Threads
from weald.topics import Corpus, expect, heldout, online, polya, variational
from weald.topics.anchors import _corners, anchor_topics
from weald.topics.expect import batch_of, digamma, expect_all, expected_words
from weald.topics.matching import match_topics

KEY = np.uint64(7)


def corpus_of(X):
    X = X.tocsr() if hasattr(X, "tocsr") else X
    return Corpus(X.indptr, X.indices.astype(np.int32), X.data, X.shape[1])


def small(n=300, K=4, V=60, length=30, seed=0):
    return corpus_of(make_topics(n, K, V, length, seed).X)


def tiny():
    """Three documents, seven tokens, three words."""
    return Corpus(np.array([0, 2, 4, 5]), np.array([0, 1, 1, 2, 2], np.int32), np.array([2.0, 1.0, 1.0, 2.0, 1.0]), 3)


def words_of(batch, weights, eta, dtype=np.float64, mean=False):
    b, largest = np.empty((len(batch.words), weights.shape[1]), dtype), np.empty(len(batch.words))
    floor = expect.FLOORS[b.dtype]
    expected_words(weights, 1.0, eta, weights.sum(axis=0), batch.words, floor, b, largest, mean)
    return b, largest


def test_digamma_is_that_of_scipy():
    x = np.exp(np.random.default_rng(0).uniform(-12, 12, 3000))
    ours = np.array([digamma(v) for v in x])
    assert np.max(np.abs(ours - psi(x)) / np.maximum(1, np.abs(psi(x)))) < 1e-12


def naive(batch, log_b, alpha, rounds, mean):
    """Responsibilities of each entry by the formulas, no shortcut."""
    K, out = len(alpha), []
    for d in range(batch.n_documents):
        at = slice(batch.indptr[d], batch.indptr[d + 1])
        c, rows, n = batch.counts[at].astype(float), log_b[batch.slots[at]], batch.spread(K)[d]
        for _ in range(rounds):
            log_e = np.log(alpha + n) if mean else psi(alpha + n)
            r = np.exp(rows + log_e - (rows + log_e).max(axis=1, keepdims=True))
            r /= r.sum(axis=1, keepdims=True)
            n = c @ r
        out.append((c, rows, log_e, r))
    return out


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-10), (np.float32, 1e-4)])
def test_e_step_is_that_of_the_formulas(dtype, error, mean):
    corpus, K = small(20, 3), 3
    rng = np.random.default_rng(1)
    weights, alpha = rng.gamma(1.0, 5.0, (corpus.n_words, K)), np.array([0.1, 0.5, 1.0])
    batch = batch_of(corpus, np.arange(20), dtype)
    b, largest = words_of(batch, weights, 0.1, dtype, mean)
    lam = weights + 0.1
    log_b = (np.log(lam / lam.sum(axis=0)) if mean else psi(lam) - psi(lam.sum(axis=0)))[batch.words]
    n_dk = batch.spread(K)
    found = expect_all(batch, b, largest, alpha, n_dk, Threads(1), 7, 0.0, mean)
    truth = naive(batch, log_b, alpha, 7, mean)
    assert np.allclose(n_dk, [c @ r for c, _, _, r in truth], rtol=error, atol=error)
    S = np.zeros_like(found.S)
    np.add.at(S, batch.slots, batch.counts[:, None] * np.concatenate([r for *_, r in truth]))
    assert np.allclose(found.S, S, rtol=error, atol=error)
    entropy = sum(float(c @ -(r * np.log(r)).sum(axis=1)) for c, _, _, r in truth)
    assert found.entropy - (found.S * (np.log(b) + largest[:, None])).sum() == pytest.approx(entropy, rel=10 * error)


def test_an_e_step_ends_when_it_has_settled():
    corpus = small(50)
    batch = batch_of(corpus, np.arange(50))
    weights = np.random.default_rng(0).gamma(1.0, 5.0, (corpus.n_words, 4))
    b, largest = words_of(batch, weights, 0.1)
    few = expect_all(batch, b, largest, np.ones(4), batch.spread(4), Threads(1), 100, 1e-3)
    many = expect_all(batch, b, largest, np.ones(4), batch.spread(4), Threads(1), 100, 0.0)
    assert few.n_rounds < many.n_rounds == 5000
    assert np.allclose(few.S, many.S, atol=0.5)


def test_words_that_underflow_keep_a_share():
    """Alpha and eta so small that exp E[log] is zero in any precision."""
    corpus = small(30)
    rule = online.OnlineRule(4, np.full(4, 1e-4), 1e-4, engine=Threads(1))
    found = online.online(corpus, rule, 6, 1e-3, KEY)
    assert np.isfinite(found.topics.phi).all()
    assert found.sizes.sum() == pytest.approx(corpus.n_tokens, rel=0.2)


def by_definition(corpus, r, alpha, eta):
    """The bound from (158)-(162) and the topics' part, term by term, with q(theta) and q(phi) at their best."""
    K, V, rows = len(alpha), corpus.n_words, np.repeat(np.arange(corpus.n_documents), np.diff(corpus.indptr))
    c = corpus.counts[:, None] * r
    gamma, lam = np.tile(alpha, (corpus.n_documents, 1)), np.full((K, V), eta)
    np.add.at(gamma, rows, c)
    np.add.at(lam.T, corpus.words, c)
    log_theta = psi(gamma) - psi(gamma.sum(axis=1, keepdims=True))
    log_phi = psi(lam) - psi(lam.sum(axis=1, keepdims=True))

    def dirichlet(a, log_x):
        return gammaln(a.sum(axis=-1)).sum() - gammaln(a).sum() + ((a - 1) * log_x).sum()

    total = dirichlet(np.broadcast_to(alpha, gamma.shape), log_theta) - dirichlet(gamma, log_theta)  # (158), (161)
    total += dirichlet(np.full((K, V), eta), log_phi) - dirichlet(lam, log_phi)
    total += (c * (log_theta[rows] + log_phi.T[corpus.words])).sum()  # (159), (160)
    return total - (c * np.log(np.maximum(r, 1e-300))).sum()  # (162)


def swept(corpus, K, alpha, eta, sweeps=1, seed=0):
    kernel = variational.VariationalSweep(corpus, K, alpha, eta, batch_of(corpus, np.arange(corpus.n_documents)))
    state, trace = kernel.init(np.random.default_rng(seed)), []
    for _ in range(sweeps):
        before = state
        state, info = kernel.step(np.random.default_rng(0), state)
        trace.append(info["objective"])
    return before, state, np.array(trace)


def test_the_bound_is_that_of_its_definition(monkeypatch):
    monkeypatch.setattr(variational, "ROUNDS", 1)
    corpus, alpha = small(25, 3), np.array([0.2, 0.4, 0.6])
    before, after, trace = swept(corpus, 3, alpha, 0.3, 3)
    lam = before.S + 0.3
    rows = np.repeat(np.arange(25), np.diff(corpus.indptr))
    log_r = (psi(lam) - psi(lam.sum(axis=0)))[corpus.words] + psi(alpha + before.n_dk)[rows]
    r = np.exp(log_r - log_r.max(axis=1, keepdims=True))
    assert trace[-1] == pytest.approx(by_definition(corpus, r / r.sum(axis=1, keepdims=True), alpha, 0.3), rel=1e-10)
    assert after.n_dk.sum() == pytest.approx(corpus.n_tokens)


def log_evidence(corpus, K, alpha, eta):
    """Log p(w) of a tiny corpus: a sum over all topics of all tokens."""
    docs = np.repeat(np.arange(corpus.n_documents), np.diff(corpus.indptr)).repeat(corpus.counts.astype(int))
    words, terms = corpus.words.repeat(corpus.counts.astype(int)), []
    for z in itertools.product(range(K), repeat=len(words)):
        n_dk, n_kw = np.zeros((corpus.n_documents, K)), np.zeros((K, corpus.n_words))
        np.add.at(n_dk, (docs, list(z)), 1)
        np.add.at(n_kw, (list(z), words), 1)
        a, e = np.broadcast_to(alpha, n_dk.shape), np.full(n_kw.shape, eta)
        terms.append(sum(_log_beta(x + n).sum() - _log_beta(x).sum() for x, n in ((a, n_dk), (e, n_kw))))
    return float(np.logaddexp.reduce(terms))


def _log_beta(x):
    return gammaln(x).sum(axis=-1) - gammaln(x.sum(axis=-1))


def test_the_bound_is_below_the_evidence():
    corpus, alpha = tiny(), np.array([0.5, 1.0])
    evidence = log_evidence(corpus, 2, alpha, 0.7)
    _, _, trace = swept(corpus, 2, alpha, 0.7, 50)
    assert evidence - 3.0 < trace[-1] < evidence
    assert log_evidence(corpus, 1, np.ones(1), 0.7) == pytest.approx(swept(corpus, 1, np.ones(1), 0.7)[2][-1])


def largest_fall(trace):
    """Relative to its size: what rounding leaves is 1e-14 or so."""
    return float(-np.diff(trace).min() / np.abs(trace).max())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("alpha", "eta"), [(None, None), (np.full(4, 0.3), None), (None, 0.01), (np.full(4, 2.0), 1.0)]
)
def test_the_bound_never_falls(seed, alpha, eta):
    trace = swept(small(120, 4, seed=seed), 4, alpha, eta, 60, seed)[2]
    assert largest_fall(trace) < 1e-11
    assert trace[-1] > trace[0]


BUGS = {
    "eta stepped too far": ("learn_eta", lambda S, scale, eta: (3 * eta, polya.fit_of_words(S, scale, 3 * eta)[0])),
    "alpha stepped downhill": (
        "learn_alpha", lambda n, a: (0.8 * a, polya.fit_of_proportions(n, 0.8 * a, np.empty(len(a)))[0]),
    ),
    "topics not normalised": (
        "expected_words",
        lambda w, scale, eta, n_k, *rest: expected_words(w, scale, eta, np.arange(1.0, 5.0) * n_k.mean(), *rest),
    ),
    "proportions without prior": (
        "expect_all", lambda batch, b, largest, alpha, *rest: expect_all(batch, b, largest, alpha + 2.0, *rest),
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_update_lowers_the_bound(monkeypatch, bug):
    name, wrong = BUGS[bug]
    corpus = small(120)
    kernel = variational.VariationalSweep(corpus, 4, None, None, batch_of(corpus, np.arange(120)))
    state, trace = kernel.init(np.random.default_rng(0)), []
    for sweep in range(30):
        if sweep == 15:
            monkeypatch.setattr(variational, name, wrong)
        state, info = kernel.step(np.random.default_rng(0), state)
        trace.append(info["objective"])
    assert largest_fall(np.array(trace)) > 1e-6


def test_learned_parameters_are_those_of_a_search():
    rng = np.random.default_rng(0)
    n_dk = np.array([rng.multinomial(20, p) for p in rng.dirichlet([0.3, 1.5], 400)], float) * 0.4
    alpha, values = np.ones(2), []
    for _ in range(200):
        alpha, value = polya.learn_alpha(n_dk, alpha)
        values.append(value)
    assert min(np.diff(values)) >= 0
    around = [alpha * np.exp(step) for step in ([0.02, 0], [-0.02, 0], [0, 0.02], [0, -0.02])]
    assert all(polya.fit_of_proportions(n_dk, a, np.empty(2))[0] < values[-1] for a in around)
    n_d = n_dk.sum(axis=1)
    exact = (gammaln(alpha + n_dk) - gammaln(alpha)).sum() + (gammaln(alpha.sum()) - gammaln(alpha.sum() + n_d)).sum()
    assert values[-1] == pytest.approx(exact)
    eta, counts = 1.0, n_dk[:40] ** 2
    for _ in range(300):
        eta, value = polya.learn_eta(counts, 0.5, eta)
    assert all(polya.fit_of_words(counts, 0.5, eta * x)[0] < value for x in (0.98, 1.02))


def test_a_step_touches_the_words_of_the_batch_and_is_that_of_algorithm_3():
    corpus, rows, rule = small(200), np.arange(3), online.OnlineRule(4, np.full(4, 0.5), 0.1, engine=Threads(1))
    state = online.first_state(rule, corpus, 200, np.random.default_rng(0))
    state = online.replace(state, n_documents=10**6, n_steps=4)  # no longer soft
    lam, rate = state.weights * state.scale + 0.1, (10.0 + 4) ** -0.7
    batch = batch_of(corpus, rows)
    found = expect_all(
        batch, *words_of(batch, lam - 0.1, 0.1), rule.alpha, batch.spread(4), Threads(1), online.ROUNDS, online.SETTLED
    )
    S, kept = np.zeros_like(lam), state.weights.copy()
    S[batch.words] = found.S
    after, _ = online.learn_batch(rule, state, corpus, rows, 200)
    assert np.allclose(0.1 + after.scale * after.weights, (1 - rate) * lam + rate * (0.1 + 200 / 3 * S), rtol=1e-4)
    assert np.allclose(after.n_k, after.scale * after.weights.sum(axis=0))
    others = np.setdiff1d(np.arange(60), batch.words)
    assert len(others)
    assert np.array_equal(after.weights[others], kept[others])


def test_the_scale_is_taken_in_before_it_vanishes():
    corpus, rule = small(100), online.OnlineRule(4, engine=Threads(1))
    state = online.replace(online.first_state(rule, corpus, 100, np.random.default_rng(0)), scale=1e-100)
    after, _ = online.learn_batch(rule, state, corpus, np.arange(50), 100)
    assert after.scale == 1.0
    assert np.isfinite(after.topics.phi).all()


def test_threads_change_no_bit():
    corpus = small(700)
    for fit in (
        lambda n: online.online(corpus, online.OnlineRule(4, engine=Threads(n)), 6, 1e-3, KEY),
        lambda n: variational.variational(corpus, 4, None, None, 10, 1e-3, KEY, Threads(n)),
    ):
        one, two, four = (fit(n) for n in (1, 2, 4))
        for other in (two, four):
            assert np.array_equal(one.topics.phi, other.topics.phi)
            assert np.array_equal(one.topics.alpha, other.topics.alpha)
            assert np.array_equal(one.stats["objective"], other.stats["objective"])


def test_anchor_words_mark_every_topic():
    truth = make_topics(1000, 10, 500, 60, 0)
    phi = anchor_topics(corpus_of(truth.X), 10, np.random.default_rng(0))
    assert np.allclose(phi.sum(axis=1), 1)
    assert phi.min() > 0
    close = np.sqrt(phi) @ np.sqrt(truth.truth["topics"]).T
    assert len(set(close.argmax(axis=1))) == 10


@pytest.mark.parametrize(("n", "r", "K"), [(200, 30, 10), (300, 64, 60), (40, 50, 60)])
def test_corners_are_those_of_projected_rows(n, r, K, rng):
    """The farthest row from the flat through those before, by projecting every row at every step."""
    rows = rng.normal(size=(n, r)) * rng.gamma(1.0, size=(n, 1))
    left, found = rows - rows[np.square(rows).sum(axis=1).argmax()], [int(np.square(rows).sum(axis=1).argmax())]
    for _ in range(min(K, n, r + 1) - 1):
        found.append(int(np.square(left).sum(axis=1).argmax()))
        direction = left[found[-1]] / np.linalg.norm(left[found[-1]])
        left = left - np.outer(left @ direction, direction)
    assert _corners(rows, K).tolist() == found


@pytest.mark.parametrize("X", [np.ones((1, 1)), np.eye(3), np.ones((5, 2)), np.r_[np.zeros((2, 4)), np.ones((1, 4))]])
def test_anchor_topics_of_corpora_that_have_none(X):
    corpus = corpus_of(weald.topics.corpus.sp.csr_array(X))
    phi = anchor_topics(corpus, 6, np.random.default_rng(0))
    assert phi.shape == (6, X.shape[1])
    assert np.allclose(phi.sum(axis=1), 1)


def excess(fit, seed):
    """Perplexity over that of the true topics."""
    data = make_topics(1300, 10, 500, 60, seed)
    train, test = corpus_of(data.X[:1000]), corpus_of(data.X[1000:])
    truth = weald.topics.Topics(data.truth["topics"], np.full(10, 0.1))
    ours, best = (
        heldout.perplexity(*heldout.completion(t, test, np.random.default_rng(0))) for t in (fit(train, seed), truth)
    )
    return ours / best


def fit_online(corpus, seed):
    return online.online(corpus, online.OnlineRule(10, engine=Threads(1)), 20, 1e-3, np.uint64(seed)).topics


def fit_batch(corpus, seed):
    return variational.variational(corpus, 10, None, None, 100, 1e-3, np.uint64(seed), Threads(1)).topics


@pytest.mark.parametrize("fit", [fit_online, fit_batch])
def test_topics_are_recovered(fit):
    assert max(excess(fit, seed) for seed in range(3)) < 1.08


def test_a_start_without_anchors_merges_topics(monkeypatch):
    """What the test above would miss, if it could not see merged topics."""
    flat = lambda corpus, K, rng: rng.dirichlet(np.full(corpus.n_words, 100.0), size=K)  # noqa: E731
    monkeypatch.setattr(online, "anchor_topics", flat)
    assert max(excess(fit_online, seed) for seed in range(3)) > 1.08


def test_learned_parameters_come_near_the_truth():
    data = make_topics(2000, 5, 200, 80, 1)
    found = variational.variational(corpus_of(data.X), 5, None, None, 100, 1e-4, KEY)
    assert np.all((found.topics.alpha > 0.06) & (found.topics.alpha < 0.14))
    assert 0.035 < found.draws["eta"][0, 0] < 0.07
    assert match_topics(found.topics.phi, data.truth["topics"]).distances.max() < 0.2


def test_a_stream_holds_few_batches_at_a_time():
    X, alive, most = make_topics(6000, 4, 60, 10, 0).X, [], 0

    def batches():
        nonlocal most
        for start in range(0, 6000, 100):
            batch = X[start : start + 100].copy()
            alive.append(weakref.ref(batch.data))
            most = max(most, sum(ref() is not None for ref in alive))
            yield batch

    lda = weald.LDA(4, inference="online-vb", random_state=0, n_jobs=1).fit_batches(batches())
    assert most <= 2000 // 100 + 3
    assert lda._state.n_documents == 6000
