"""Supervised Gibbs against all topics of small corpora, joint tests, and bugs to be rejected."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import gammaln, log_softmax, logsumexp
from scipy.stats import ks_2samp, multivariate_normal, norm

from weald._random import sweep_key, uniform
from weald.testing.invariance import BUDGET, exact_start, joint
from weald.topics import slda_response
from weald.topics.hyper import log_joint
from weald.topics.polya_gamma import polya_gamma
from weald.topics.slda_gibbs import Documents, SupervisedKernel, SupervisedState, counts_of, histograms
from weald.topics.slda_response import NOISE, SPREAD, Response

V, K, ALPHA, ETA = 3, 2, 0.7, 0.4
PAIR = Documents(np.array([0, 3, 6]), np.array([0, 1, 1, 0, 2, 2], np.int32), V)
UNEVEN = Documents(np.array([0, 2, 2, 6]), np.array([0, 1, 1, 0, 2, 0], np.int32), V)  # one document is empty
CASES = {
    "numbers": (PAIR, Response(np.array([0.8, -1.1])), [[-1.0, 1.5]], 0.4),
    "numbers, narrow": (PAIR, Response(np.array([0.03, 0.29])), [[-1.0, 1.0]], 1 / 800),
    "two classes": (PAIR, Response(np.array([1.0, 0.0]), np.array([0, 1])), [[0.0, 0.0], [-3.0, 4.0]], 1.0),
    "classes": (PAIR, Response(np.array([2.0, 1.0]), np.arange(3)), [[1.0, 2.0], [-2.0, 0.5], [3.0, -4.0]], 1.0),
    "a missing label": (PAIR, Response(np.array([np.nan, -1.1])), [[-1.0, 1.5]], 0.4),
    "an empty document": (UNEVEN, Response(np.array([0.8, 5.0, -1.1])), [[-1.0, 1.5]], 0.4),
}
SHARE = BUDGET / 20


def shares(docs, z):
    n_dk = np.array([np.bincount(z[a:b], minlength=K) for a, b in zip(docs.starts[:-1], docs.starts[1:], strict=True)])
    return n_dk, n_dk / np.maximum(docs.lengths, 1)[:, None]


def log_p_words(docs, z, alpha=ALPHA, eta=ETA):
    """Log p(words, z) by the rule of succession, token by token."""
    total, seen, in_doc = 0.0, np.full((V, K), eta), np.zeros((len(docs.lengths), K)) + alpha
    owner = np.repeat(np.arange(len(docs.lengths)), docs.lengths)
    for d, v, k in zip(owner, docs.words, z, strict=True):
        total += np.log(in_doc[d, k] / in_doc[d].sum() * seen[v, k] / seen[:, k].sum())
        in_doc[d, k] += 1
        seen[v, k] += 1
    return total


def log_p_response(response, zbar, w, sigma2):
    told = ~np.isnan(response.y) & zbar.any(axis=1)
    psi, y = zbar[told] @ np.transpose(w), response.y[told]
    if response.classes is None:
        return norm.logpdf(y, psi[:, 0], np.sqrt(sigma2)).sum()
    return log_softmax(psi, axis=1)[np.arange(y.size), y.astype(int)].sum()


def state_of(z, w, sigma2=1.0, tau2=1.0):
    return SupervisedState(np.asarray(z, np.int32), np.asarray(w, float), sigma2, tau2, np.full(K, ALPHA), ETA)


def all_topics(docs):
    return np.array(list(product(range(K), repeat=len(docs.words))), np.int32)


def invariance(name, sweep, n, rng):
    """Exact-start p-value of one sweep over the tokens, coefficients known."""
    docs, response, w, sigma2 = CASES[name]
    Z = all_topics(docs)
    log_p = [log_p_words(docs, z) + log_p_response(response, shares(docs, z)[1], w, sigma2) for z in Z]
    powers = K ** np.arange(Z.shape[1])[::-1]
    kernel = SupervisedKernel(docs, response, K, ALPHA, ETA)

    def step(state, rng):
        return sweep(kernel, state, sweep_key(rng))

    return exact_start(
        np.array(log_p), lambda i, rng: state_of(Z[i], w, sigma2), step, lambda z: int(z @ powers), n=n, rng=rng
    )


def compiled(kernel, state, key):
    return kernel.tokens(state, key, kernel.response.y)[0].z


def by_hand(kernel, state, key, bug=""):
    """The same sweep in plain Python, from the definition of the weights."""
    docs, response, z = kernel.documents, kernel.response, state.z.copy()
    owner = np.repeat(np.arange(len(docs.lengths)), docs.lengths)
    for t, (d, v) in enumerate(zip(owner, docs.words, strict=True)):
        others = np.arange(z.size) != t
        n_vk = counts_of(docs.words[others], z[others], V, K)
        n_dk = np.bincount(z[others & (owner == d)], minlength=K)
        log_p = np.log((n_dk + state.alpha) * (n_vk[v] + state.eta) / (n_vk.sum(axis=0) + V * state.eta))
        for k in range(K):
            mine = n_dk + (np.arange(K) == k) + (np.arange(K) == z[t]) * (bug == "own token stays")
            alone = replace(response, y=response.y[d : d + 1])
            if bug != "no response":
                log_p[k] += log_p_response(alone, mine[None] / docs.lengths[d], state.w, state.sigma2)
        p = np.exp(log_p - logsumexp(log_p))
        z[t] = int(np.searchsorted(np.cumsum(p)[:-1], uniform(key, t, 0), side="right"))
    return z


@pytest.mark.parametrize("name", CASES)
def test_one_sweep_keeps_the_law_of_all_topics(name, rng):
    assert invariance(name, compiled, 6000, rng) > SHARE


@pytest.mark.parametrize("name", CASES)
def test_a_sweep_is_the_one_written_by_hand(name, rng):
    docs, response, w, sigma2 = CASES[name]
    kernel = SupervisedKernel(docs, response, K, ALPHA, ETA)
    for z in all_topics(docs)[::3]:
        key = sweep_key(rng)
        state = state_of(z, w, sigma2)
        np.testing.assert_array_equal(compiled(kernel, state, key), by_hand(kernel, state, key))


@pytest.mark.parametrize("bug", ["own token stays", "no response"])
@pytest.mark.parametrize("name", ["numbers", "two classes"])
def test_bugs_of_the_response_are_rejected(name, bug, rng):
    assert invariance(name, lambda *args: by_hand(*args, bug=bug), 2500, rng) < BUDGET


def test_long_documents_agree_with_the_definition(rng):
    """Products of tilts that are never made anew within a document, and the path of logs, on 400 tokens."""
    docs = Documents(np.array([0, 300, 400]), rng.integers(0, V, 400).astype(np.int32), V)
    z, w = rng.integers(0, K, 400).astype(np.int32), [[-2.0, 3.0]]
    for sigma2 in (0.01, 1e-5):
        kernel = SupervisedKernel(docs, Response(np.array([0.4, -0.9])), K, ALPHA, ETA)
        state, key = state_of(z, w, sigma2), sweep_key(rng)
        np.testing.assert_array_equal(compiled(kernel, state, key), by_hand(kernel, state, key))


def test_counts_and_densities(rng):
    docs, response, w, sigma2 = CASES["an empty document"]
    kernel = SupervisedKernel(docs, response, K, ALPHA, ETA)
    state, n_dk, n_vk = kernel.tokens(state_of([0, 1, 0, 1, 0, 0], w, sigma2), sweep_key(rng), response.y)
    np.testing.assert_array_equal(n_dk, shares(docs, state.z)[0])
    np.testing.assert_array_equal(n_vk, counts_of(docs.words, state.z, V, K))
    swept = histograms(state.z, n_dk, n_vk, state.alpha)
    reached = [[int((n_dk[:, k] > i).sum()) for i in range(int(n_dk[:, k].max()))] for k in range(K)]
    assert [swept.reached[a:b].tolist() for a, b in pairwise(swept.starts)] == reached
    assert swept.word_reached.tolist() == [int((n_vk > i).sum()) for i in range(n_vk.max())]
    parts = log_joint(swept, state.alpha, ETA, V, docs.lengths[docs.lengths > 0])
    assert sum(parts) == pytest.approx(log_p_words(docs, state.z))
    zbar = shares(docs, state.z)[1]
    for case in CASES.values():
        if case[0] is PAIR:
            zbar = shares(PAIR, state.z)[1]
            wanted = log_p_response(case[1], zbar, case[2], case[3])
            assert case[1].log_likelihood(np.array(case[2]), case[3], zbar) == pytest.approx(wanted)


def log_inverse_gamma(x, shape, scale):
    """Density of log x."""
    return shape * np.log(scale) - gammaln(shape) - shape * np.log(x) - scale / x


class ExactPosterior:
    """Draws of (z, w, sigma^2, tau^2) given words and numbers of two documents: w by hand, the rest on a grid."""

    def __init__(self, docs, response, size=120):
        self.Z, self.response, self.docs = all_topics(docs), response, docs
        self.log_s, self.log_t = np.linspace(-3.5, 4.5, size), np.linspace(-3, 8, size)
        s2, t2 = np.exp(self.log_s)[:, None], np.exp(self.log_t)[None, :]
        prior = log_inverse_gamma(s2, *NOISE) + log_inverse_gamma(t2, *SPREAD)
        self.zbar = [shares(docs, z)[1] for z in self.Z]
        cells = []
        for z, Zb in zip(self.Z, self.zbar, strict=True):
            G = Zb @ Zb.T
            a, b, c = s2 + t2 * G[0, 0], t2 * G[0, 1], s2 + t2 * G[1, 1]
            det = a * c - b * b
            y0, y1 = response.y
            quad = (c * y0**2 - 2 * b * y0 * y1 + a * y1**2) / det
            cells.append(log_p_words(docs, z) + prior - 0.5 * (np.log(det) + quad))
        log_p = np.array(cells).ravel()
        self.cumulative = np.cumsum(np.exp(log_p - logsumexp(log_p)))
        self.shape = (len(self.Z), size, size)

    def draw(self, rng):
        i, s, t = np.unravel_index(np.searchsorted(self.cumulative, rng.random() * self.cumulative[-1]), self.shape)
        jitter = rng.random(2) - 0.5
        sigma2 = np.exp(self.log_s[s] + jitter[0] * (self.log_s[1] - self.log_s[0]))
        tau2 = np.exp(self.log_t[t] + jitter[1] * (self.log_t[1] - self.log_t[0]))
        zbar = self.zbar[i]
        cov = np.linalg.inv(zbar.T @ zbar / sigma2 + np.eye(K) / tau2)
        w = multivariate_normal(cov @ zbar.T @ self.response.y / sigma2, cov).rvs(random_state=rng)
        return state_of(self.Z[i], w[None], sigma2, tau2)

    def measures(self, state):
        psi = shares(self.docs, state.z)[1] @ state.w[0]
        return (state.w[0, 0], state.w[0, 1], np.log(state.sigma2), np.log(state.tau2), psi[0], psi[1] - psi[0],
                float(state.z @ (K ** np.arange(6))))  # fmt: skip


def p_values_of_steps(kernel, exact, n, rng):
    before = [exact.measures(exact.draw(rng)) for _ in range(n)]
    after = [exact.measures(kernel.step(rng, exact.draw(rng))[0]) for _ in range(n)]
    return [ks_2samp(b, a).pvalue for b, a in zip(zip(*before, strict=True), zip(*after, strict=True), strict=True)]


def test_a_whole_step_keeps_the_exact_posterior(rng, monkeypatch):
    docs, response, *_ = CASES["numbers"]
    exact = ExactPosterior(docs, response)
    kernel = SupervisedKernel(docs, response, K, ALPHA, ETA)
    assert min(p_values_of_steps(kernel, exact, 3000, rng)) > SHARE / 7
    honest = slda_response.inverse_gamma
    monkeypatch.setattr(slda_response, "inverse_gamma", lambda p, n, ss, rng: honest(p, 2 * n, ss, rng))
    assert min(p_values_of_steps(kernel, exact, 3000, rng)) < BUDGET


N_DOCS, LENGTH = 8, 5
STARTS = np.arange(N_DOCS + 1) * LENGTH


def prior_of(n_classes, learns=False):
    """Rng -> state: everything drawn from the prior."""

    def prior(rng):
        tau2, sigma2 = SPREAD[1] / rng.gamma(SPREAD[0]), NOISE[1] / rng.gamma(NOISE[0])
        w = rng.normal(size=(max(n_classes, 1), K)) * np.sqrt(tau2)
        if n_classes == 2:
            w[0] = 0.0
        alpha, eta = (rng.gamma(1.0, size=K) + 1e-3, rng.gamma(1.0) + 1e-3) if learns else (np.full(K, ALPHA), ETA)
        z = np.concatenate([rng.choice(K, LENGTH, p=p) for p in rng.dirichlet(alpha, N_DOCS)])
        state = state_of(z, w, sigma2 if n_classes == 0 else 1.0, tau2)
        return replace(state, alpha=alpha, eta=eta)

    return prior


def simulate_of(n_classes):
    def simulate(state, rng):
        phi = rng.dirichlet(np.full(V, state.eta), K)
        docs = Documents(STARTS, np.array([rng.choice(V, p=phi[k]) for k in state.z], np.int32), V)
        psi = shares(docs, state.z)[1] @ state.w.T
        if n_classes == 0:
            y = psi[:, 0] + rng.normal(size=N_DOCS) * np.sqrt(state.sigma2)
            return docs, Response(y)
        y = np.argmax(psi + rng.gumbel(size=psi.shape), axis=1).astype(float)
        return docs, Response(y, np.arange(n_classes))

    return simulate


def step(state, data, rng):
    return SupervisedKernel(*data, K, ALPHA, ETA).step(rng, state)[0]


def learning_step(state, data, rng):
    return SupervisedKernel(*data, K, ALPHA, ETA, learns_alpha=True, learns_eta=True).step(rng, state)[0]


def forgetful(state, data, rng):
    """Topics are drawn as if there were no response."""
    docs, response = data
    blind = SupervisedKernel(docs, replace(response, y=np.full(N_DOCS, np.nan)), K, ALPHA, ETA)
    state = blind.tokens(state, sweep_key(rng), blind.response.y)[0]
    zbar = shares(docs, state.z)[1]
    drawn = response.draw(state.w, state.sigma2, state.tau2, zbar, rng)
    return replace(state, w=drawn.w, sigma2=drawn.sigma2, tau2=drawn.tau2)


def measure(state, data):
    docs, response = data
    zbar = shares(docs, state.z)[1]
    psi = zbar @ state.w.T
    wanted = psi[:, 0] if response.classes is None else psi[np.arange(N_DOCS), response.y.astype(int)]
    return {
        "fit": float(np.arctan(np.sum(wanted * (response.y if response.classes is None else 1.0)))),
        "response": log_p_response(response, zbar, state.w, state.sigma2),
        "words": log_p_words(docs, state.z, state.alpha, state.eta),
        "alpha": float(state.alpha[0] + 1e-9 * psi[0, 0]),
        "eta": state.eta + 1e-9 * psi[0, 0],
        "sigma2": state.sigma2 + 1e-9 * state.w[-1, 0],
        "tau2": state.tau2,
        "w": state.w[-1, 0],
        "w by words": state.w[-1, state.z[0]] * np.mean(docs.words == docs.words[0]),
    }


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_parameters_and_data_together(n_classes, rng):
    p = joint(prior_of(n_classes), simulate_of(n_classes), step, measure, n=2000, rng=rng)
    assert min(p.values()) > SHARE, p


def test_parameters_learned_along_and_data_together(rng):
    p = joint(prior_of(0, learns=True), simulate_of(0), learning_step, measure, n=2000, rng=rng)
    assert min(p.values()) > SHARE, p


def test_a_forgotten_response_is_rejected(rng):
    p = joint(prior_of(0), simulate_of(0), forgetful, measure, n=1500, rng=rng)
    assert min(p.values()) < BUDGET, p


@pytest.mark.parametrize("n_classes", [2, 3])
def test_polya_gamma_variables_of_a_wrong_mean_are_rejected(n_classes, rng, monkeypatch):
    monkeypatch.setattr(slda_response, "polya_gamma", lambda c, key: 2.0 * polya_gamma(c, key))
    p = joint(prior_of(n_classes), simulate_of(n_classes), step, measure, n=1200, rng=rng)
    assert min(p.values()) < BUDGET, p
