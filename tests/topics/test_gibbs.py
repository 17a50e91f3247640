"""LDA by Gibbs sampling: invariance of whole steps, hyperparameters, resumption, the promised perplexity."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln

from weald._random import step_rng
from weald.datasets import make_topics
from weald.exceptions import DataError, ParameterError, Verdict
from weald.inference.run import run
from weald.persist import Checkpoint, read
from weald.testing.invariance import BUDGET, joint
from weald.topics import gibbs as module
from weald.topics import heldout, hyper
from weald.topics.corpus import Corpus
from weald.topics.gibbs import LDAKernel, LDAState, gibbs, labels, verdict
from weald.topics.hyper import draw_alpha, draw_eta, log_beta, n_tables
from weald.topics.sweeps import Swept

KEY = np.uint64(7)


def corpus_of(X):
    return Corpus(X.indptr, X.indices.astype(np.int32), X.data, X.shape[1])


@pytest.fixture(scope="module")
def small():
    return corpus_of(make_topics(300, 4, 50, 40, 0).X)


def test_auxiliary_betas_have_their_law():
    rng = np.random.default_rng(0)
    x = np.exp(log_beta(np.full(50_000, 0.7), 3.0, rng))
    np.testing.assert_allclose([x.mean(), x.var()], [0.7 / 3.7, 0.7 * 3 / 3.7**2 / 4.7], rtol=0.03)
    assert np.isfinite(log_beta(1e-9, np.ones(10), rng)).all()


def test_tables_have_the_law_of_stirling_numbers():
    rng, a = np.random.default_rng(0), 0.8
    m = [n_tables(np.array([1, 1, 1]), a, rng) for _ in range(40_000)]  # one restaurant of three guests
    p = np.array([2 * a, 3 * a**2, a**3])
    np.testing.assert_allclose(np.bincount(m)[1:] / len(m), p / p.sum(), atol=0.012)


def swept_of(n_dk, n_kw):
    """Histograms of given counts."""
    most = n_dk.max(axis=0)
    reached = [(n_dk[:, k] > i).sum() for k in range(len(most)) for i in range(most[k])]
    word_reached = np.array([(n_kw > i).sum() for i in range(n_kw.max())])
    starts = np.append(0, np.cumsum(most))
    none = np.zeros(0, np.uint16)
    return Swept(none, n_kw.sum(axis=1), none, -1, starts, np.array(reached), word_reached, 0, 0)


def test_hyperparameters_have_their_posterior():
    """Gibbs over alpha of one topic and over eta, against the densities (107) and (111), integrated."""
    n_dk, n_kw = np.array([[3, 1], [0, 4], [2, 0]]), np.array([[5, 0, 0], [1, 2, 2]])
    swept, lengths = swept_of(n_dk, n_kw), n_dk.sum(axis=1).astype(float)

    def of_eta(eta):
        V = n_kw.shape[1]
        log_p = (gammaln(n_kw + eta) - gammaln(eta)).sum()
        return np.exp(log_p + (gammaln(V * eta) - gammaln(V * eta + n_kw.sum(axis=1))).sum() - eta)

    def of_sum(a):  # alpha = a (s, 1 - s), s integrated out
        def at(s):
            alpha = a * np.array([s, 1 - s])
            log_p = (gammaln(n_dk + alpha) - gammaln(alpha)).sum() + (gammaln(a) - gammaln(a + lengths)).sum()
            return np.exp(log_p - a) * a

        return quad(at, 0, 1)[0]

    rng, alpha, eta = np.random.default_rng(0), np.ones(2), 1.0
    trace = np.empty((20_000, 2))
    for i in range(len(trace)):
        alpha, eta = draw_alpha(swept, alpha, lengths, rng), draw_eta(swept, eta, 3, rng)
        trace[i] = alpha.sum(), eta
    for x, density, top in ((trace[:, 0], of_sum, 30), (trace[:, 1], of_eta, 30)):
        mass, mean = (quad(lambda v, p=p, f=density: v**p * f(v), 0, top, limit=100)[0] for p in (0, 1))
        assert abs(x.mean() - mean / mass) < 0.04 * mean / mass


K, D, V, LENGTH = 3, 5, 4, 6


def simulate(theta, rng):
    """A corpus and its labels from the prior, alpha and eta given."""
    alpha, eta = theta["alpha"], theta["eta"]
    phi = np.exp(log_dirichlet(np.full((K, V), eta), rng))
    share = np.exp(log_dirichlet(np.tile(alpha, (D, 1)), rng))
    z = np.array([rng.choice(K, LENGTH, p=p) for p in share]).ravel()
    words = np.array([rng.choice(V, p=phi[k]) for k in z])
    docs = np.repeat(np.arange(D, dtype=np.int32), LENGTH)
    order = np.lexsort((docs, words))
    X = np.zeros((D, V), np.int64)
    np.add.at(X, (docs, words), 1)
    theta["z"] = z[order].astype(np.uint16)
    indptr = np.append(0, np.cumsum((X > 0).sum(axis=1)))
    return Corpus(indptr, np.nonzero(X)[1].astype(np.int32), X[X > 0], V)


def log_dirichlet(alpha, rng):
    """Logs of Dirichlet vectors, which do not underflow."""
    log_g = np.log(rng.gamma(alpha + 1)) + np.log(rng.random(alpha.shape)) / alpha
    return log_g - np.logaddexp.reduce(log_g, axis=-1, keepdims=True)


def measure(theta, corpus):
    z, tokens = theta["z"], corpus.tokens()
    same_word, same_doc = tokens.words[1:] == tokens.words[:-1], tokens.docs[1:] == tokens.docs[:-1]
    same = z[1:] == z[:-1]
    return {
        "alpha": theta["alpha"].sum(), "first": theta["alpha"][0], "eta": theta["eta"], "share": np.mean(z == 0),
        "word": np.sum(same & same_word) / max(1, same_word.sum()),
        "document": np.sum(same & same_doc) / max(1, same_doc.sum()),
        "eta with word": theta["eta"] * np.sum(same & same_word), "topics": len(np.unique(z)) * theta["alpha"].sum(),
    }  # fmt: skip


def joint_pvalue(sampler, seed, n=2000):
    prior = lambda rng: {"alpha": rng.gamma(hyper.SHAPE, size=K), "eta": rng.gamma(hyper.SHAPE)}  # noqa: E731

    def step(theta, corpus, rng):
        kernel = LDAKernel(corpus, K, sampler=sampler, warmup=9)
        sums = np.zeros((0, K), np.float32), np.zeros(K), np.zeros(K)
        state = LDAState(theta["z"], theta["alpha"], theta["eta"], 2.0, 0, 0, *sums)
        for _ in range(2):
            state, _ = kernel.step(rng, state)
        return {"z": state.z, "alpha": state.alpha, "eta": state.eta}

    return min(joint(prior, simulate, step, measure, n=n, rng=np.random.default_rng(seed)).values())


@pytest.mark.parametrize("sampler", ["dense", "sparse", "alias"])
def test_a_step_passes_the_joint_test(sampler):
    assert joint_pvalue(sampler, 1) > BUDGET


def test_the_joint_test_sees_a_wrong_rate(monkeypatch):
    monkeypatch.setattr(hyper, "log_beta", lambda a, b, rng: 0.5 * log_beta(a, b, rng))
    assert joint_pvalue("dense", 1) < BUDGET


def test_the_joint_test_sees_lost_tables(monkeypatch):
    monkeypatch.setattr(hyper, "n_tables", lambda reached, weight, rng: len(reached))
    assert joint_pvalue("dense", 1) < BUDGET


def test_the_log_joint_is_that_of_the_counts(small):
    rng, kernel = np.random.default_rng(0), LDAKernel(small, 4)
    state, info = kernel.step(rng, kernel.init(rng))
    tokens = kernel.tokens
    n_dk, n_kw = np.zeros((small.n_documents, 4)), np.zeros((4, small.n_words))
    np.add.at(n_dk, (tokens.docs, state.z), 1)
    np.add.at(n_kw, (state.z, tokens.words), 1)
    alpha, eta, A, seen = state.alpha, state.eta, state.alpha.sum(), small.n_words * state.eta
    log_z = (gammaln(n_dk + alpha) - gammaln(alpha)).sum() + (gammaln(A) - gammaln(A + n_dk.sum(axis=1))).sum()
    log_w = (gammaln(n_kw + eta) - gammaln(eta)).sum() + (gammaln(seen) - gammaln(seen + n_kw.sum(axis=1))).sum()
    np.testing.assert_allclose([info["log_joint"], info["log_likelihood"]], [log_z + log_w, log_w / tokens.docs.size])


def test_a_resumed_run_is_the_run(small, tmp_path):
    kernel = LDAKernel(small, 4, warmup=3, thin=2)
    path = tmp_path / "run.npz"

    def go(callbacks=(), resume=None):
        chains = run(
            kernel, key=KEY, sweeps=9, chains=2, warmup=3, collect=module.collected, callbacks=callbacks, resume=resume
        )
        return module.learnt(kernel, chains)

    whole = go()
    seen = []
    stop = lambda event: event.phase == "step" and (seen.append(1) or len(seen) == 14)  # noqa: E731
    go([Checkpoint(path, every=1), stop])
    after = go(resume=read(path, "Snapshot"))
    np.testing.assert_array_equal(after.topics.phi, whole.topics.phi)
    for name, x in whole.draws.items():
        np.testing.assert_array_equal(after.draws[name], x)
    for name, x in whole.stats.items():
        np.testing.assert_array_equal(after.stats[name], x)


def test_means_are_of_the_kept_draws(small):
    rng, kernel = step_rng(KEY, chain=0, sweep=1), LDAKernel(small, 4, warmup=1)
    state, wanted = kernel.init(rng), 0
    for sweep in range(4):
        state, _ = kernel.step(rng, state)
        n_kw = np.zeros((4, small.n_words))
        np.add.at(n_kw, (state.z, kernel.tokens.words), 1)
        if sweep >= 1:
            p = n_kw + state.eta
            wanted = wanted + p / p.sum(axis=1, keepdims=True) / 3
    np.testing.assert_allclose(state.phi, wanted, rtol=1e-5)


def test_parameters_that_are_given_stay(small):
    learnt = gibbs(small, 4, alpha=0.3, eta=0.02, draws=4, warmup=2, key=KEY)
    assert np.ptp(learnt.draws["alpha"]) == 0
    np.testing.assert_allclose(learnt.topics.alpha, 0.3)
    assert learnt.draws["eta"].shape == (1, 4)
    assert (learnt.draws["eta"] == 0.02).all()


def test_the_choice_of_sweep_is_told(small):
    assert gibbs(small, 4, draws=4, warmup=2, key=KEY).attrs["sampler"] == "dense"
    many = gibbs(small, 300, draws=4, warmup=2, key=KEY)
    assert many.attrs["sampler"] == "sparse"
    assert "less work" in many.attrs["sampler_why"]
    assert LDAKernel(small, 4000).method(300.0) == "alias"
    asked = gibbs(small, 4, sampler="sparse", draws=4, warmup=2, key=KEY).attrs
    assert (asked["sampler"], asked["sampler_why"]) == ("sparse", "asked for")


def test_sweeps_that_are_chosen_do_not_change_the_law(small):
    """Dense and sparse draw the same labels from the same numbers but for rounding and the order of topics."""
    fits = [gibbs(small, 4, sampler=sampler, draws=200, warmup=50, key=KEY) for sampler in ("dense", "sparse")]
    means = [fit.stats["log_joint"][0, 50:].mean() for fit in fits]
    assert abs(means[0] - means[1]) < 0.01 * small.n_tokens


def test_odd_corpora():
    empty_rows = Corpus(np.array([0, 0, 2, 2, 3]), np.array([0, 2, 2], np.int32), np.array([2, 1, 1]), 4)
    learnt = gibbs(empty_rows, 6, draws=5, warmup=2, key=KEY)  # more topics than words, a word that never occurs
    assert np.isfinite(learnt.topics.phi).all()
    np.testing.assert_allclose(learnt.topics.phi.sum(axis=1), 1)
    assert (learnt.topics.phi > 0).all()
    np.testing.assert_allclose(learnt.sizes.sum(), 4)
    with pytest.raises(ParameterError, match="at most"):
        gibbs(empty_rows, 70_000, key=KEY)


def test_stopped_too_early(small):
    with pytest.raises(DataError, match="before its first draw"):
        gibbs(small, 4, key=KEY, callbacks=[lambda event: event.phase == "step"])


def test_first_labels_follow_their_words():
    corpus = corpus_of(make_topics(50, 2, 3, 400, 0).X)
    phi = np.array([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]])
    tokens = corpus.tokens()
    z = labels(tokens, phi, np.random.default_rng(0))
    share = np.bincount(tokens.words, z, minlength=3) / np.bincount(tokens.words)
    np.testing.assert_allclose(share, phi[1] / phi.sum(axis=0), atol=0.05)


def test_verdicts():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2, 60)).cumsum(axis=1)
    assert verdict({"log_joint": noise}, 0, 10_000).verdict is Verdict.OK
    falling = verdict({"log_joint": noise + np.linspace(0, 1e4, 60)}, 0, 10_000)
    assert falling.verdict is Verdict.CAUTION
    assert falling.figures["nats_apart"] > 0.3
    assert verdict({"log_joint": noise[:, :3]}, 0, 10_000).verdict is Verdict.CAUTION


@pytest.mark.slow
def test_the_promised_perplexity():
    corpus = corpus_of(make_topics(5500, 20, 2000, 100, 0, alpha=0.1, eta=0.05).X)
    learnt = gibbs(corpus.part(0, 5000), 20, warmup=30, draws=50, key=KEY)
    scores = heldout.completion(learnt.topics, corpus.part(5000, 5500), np.random.default_rng(0))
    assert heldout.perplexity(*scores) < 560
    np.testing.assert_allclose(learnt.topics.alpha, 0.1, rtol=0.2)
    np.testing.assert_allclose(learnt.draws["eta"].mean(), 0.05, rtol=0.1)
