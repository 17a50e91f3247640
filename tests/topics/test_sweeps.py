"""Sweeps leave the collapsed posterior invariant: against enumeration of all labels, with bugs that must be seen."""

import inspect
from itertools import product

import numpy as np
import pytest
from numba import njit
from scipy.special import gammaln

from weald._random import sweep_key
from weald.testing.invariance import BUDGET, exact_start, joint
from weald.topics import sweeps
from weald.topics.alias_mh import alias
from weald.topics.corpus import Tokens
from weald.topics.dense import dense
from weald.topics.sparse import sparse
from weald.topics.sweeps import sweep

ETA, N = 0.3, 20_000
# documents 0: words 0 0 1, 1: words 0 2 2; word by word
TOKENS = Tokens(np.array([0, 3, 4, 6]), np.array([0, 0, 1, 0, 1, 1], np.int32), 2)
# a word with more tokens than alias sweeps have groups
CROWD = Tokens(np.array([0, 7, 9]), np.array([0, 0, 0, 0, 1, 1, 1, 0, 1], np.int32), 2)


def log_joint(tokens, z, alpha, eta):
    """Log p(w, z) of (112), the straightforward way."""
    K, V = alpha.size, tokens.n_words
    n_dk, n_kw = np.zeros((tokens.n_documents, K)), np.zeros((K, V))
    np.add.at(n_dk, (tokens.docs, z), 1)
    np.add.at(n_kw, (z, tokens.words), 1)
    of_docs = (
        gammaln(alpha.sum()) - gammaln(alpha.sum() + n_dk.sum(1)) + (gammaln(n_dk + alpha) - gammaln(alpha)).sum(1)
    )
    of_topics = gammaln(V * eta) - gammaln(V * eta + n_kw.sum(1)) + (gammaln(n_kw + eta) - gammaln(eta)).sum(1)
    return of_docs.sum() + of_topics.sum()


def enumerated(tokens, alpha, eta):
    Z = np.array(list(product(range(alpha.size), repeat=tokens.docs.size)), np.uint16)
    return Z, np.array([log_joint(tokens, z, alpha, eta) for z in Z])


def pvalue(method, alpha, seed, n=N, steps=1, tokens=TOKENS):
    Z, log_p = enumerated(tokens, alpha, ETA)
    place = alpha.size ** np.arange(tokens.docs.size)[::-1]

    def step(z, rng):
        for _ in range(steps):
            z = sweep(tokens, z, alpha, ETA, sweep_key(rng), method=method).z
        return z

    rng = np.random.default_rng(seed)
    return exact_start(log_p, lambda i, _: Z[i], step, lambda z: int(z.astype(int) @ place), n=n, rng=rng)


@pytest.mark.parametrize("method", ["dense", "sparse", "alias"])
@pytest.mark.parametrize("alpha", [(0.5, 0.5), (0.7, 0.1, 0.4)])
def test_a_sweep_leaves_the_posterior_invariant(method, alpha):
    assert pvalue(method, np.array(alpha), 0) > BUDGET
    assert pvalue(method, np.array(alpha), 1, steps=2) > BUDGET


def test_groups_of_tokens_leave_the_posterior_invariant():
    assert pvalue("alias", np.array([0.7, 0.2]), 0, tokens=CROWD) > BUDGET
    assert pvalue("alias", np.array([0.7, 0.2]), 1, tokens=CROWD, steps=3) > BUDGET


BUGS = {
    "own token of the document kept": (sparse, "listed = -own", "listed = 0.0"),
    "own token of the word kept": (sparse, "n_w[old] - 1 + eta", "n_w[old] + eta"),
    "own token kept": (dense, "row[old] - one + prior", "row[old] + prior"),
    "n_k of the new topic forgotten": (dense, "n_k[new] += 1", "n_k[new] += 0"),
    "correction forgotten": (alias, "d_t * (others[s] + shared * alpha[s])", "d_t"),
    "tables that know the token": (alias, "end, begin, stop, n_w", "end, begin, begin, n_w"),
    "document proposal corrected twice": (alias, "gain, loss = b_t, b_s", "gain, loss = b_t * alpha[new], b_s * d_s"),
    "smoothing forgets the token's topic": (sparse, "less = alpha[old] * (own - whole)", "less = 0.0"),
}


def with_bug(kernel, right, wrong):
    """The kernel with a piece of its source replaced."""
    source = inspect.getsource(kernel.py_func)
    assert source.count(right) == 1
    scope = dict(kernel.py_func.__globals__)
    exec(source[source.index("def ") :].replace(right, wrong), scope)
    return njit(error_model="numpy")(scope[kernel.__name__])


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_seen(bug, monkeypatch):
    kernel, right, wrong = BUGS[bug]
    name = kernel.__name__
    monkeypatch.setattr(sweeps, name, with_bug(kernel, right, wrong))
    case = {"alpha": np.array([0.7, 0.2]), "tokens": CROWD} if name == "alias" else {"alpha": np.array([0.7, 0.1, 0.4])}
    assert pvalue(name, seed=0, **case) < BUDGET


@pytest.mark.parametrize("method", ["dense", "sparse", "alias"])
def test_counts_agree_with_labels(method):
    rng = np.random.default_rng(0)
    tokens = random_tokens(rng, 30, 20, 900)
    z = rng.integers(0, 70, tokens.docs.size).astype(np.uint16)
    for s in range(5):
        swept = sweep(tokens, z, np.full(70, 0.1), 0.1, np.uint64(s), method=method)
        assert 0 < swept.n_changed == np.sum(swept.z != z)
        z = swept.z
    n_dk, n_kw = np.zeros((30, 70), int), np.zeros((70, 20), int)
    np.add.at(n_dk, (tokens.docs, z), 1)
    np.add.at(n_kw, (z, tokens.words), 1)
    np.testing.assert_array_equal(swept.n_k, np.bincount(z, minlength=70))
    np.testing.assert_array_equal(swept.word_reached, [(n_kw > i).sum() for i in range(n_kw.max())])
    for k in range(70):
        reached = swept.reached[swept.starts[k] : swept.starts[k + 1]]
        np.testing.assert_array_equal(reached, [(n_dk[:, k] > i).sum() for i in range(n_dk[:, k].max())])


def random_tokens(rng, D, V, N):
    words = np.sort(rng.integers(0, V, N))
    docs = rng.integers(0, D, N)
    order = np.lexsort((docs, words))
    return Tokens(np.searchsorted(words, np.arange(V + 1)), docs[order].astype(np.int32), D)


def test_long_documents_have_wide_lists():
    tokens = Tokens(np.array([0, 70_000, 70_010]), np.zeros(70_010, np.int32), 1)
    swept = sweep(tokens, np.zeros(70_010, np.uint16), np.full(3, 0.01), 0.1, np.uint64(0))
    assert sweeps.Lists.of(tokens, swept.z, 3).pairs.dtype == np.uint64
    np.testing.assert_array_equal(np.diff(swept.starts), np.bincount(swept.z, minlength=3))


@pytest.mark.parametrize("method", ["dense", "sparse"])
def test_topics_to_come(method):
    """A word that is always the same says nothing: labels and sticks keep the law of their prior."""
    tokens, alpha0, gamma = Tokens(np.array([0, 3]), np.zeros(3, np.int32), 1), 1.5, 0.8

    def step(theta, data, rng):
        z, sticks = theta
        swept = sweep(tokens, z, sticks, 0.5, sweep_key(rng), method=method, spare=sticks.size - 1, gamma=gamma)
        assert swept.spare == swept.alpha.size - 1
        assert swept.n_k[-1] == 0
        np.testing.assert_allclose(swept.alpha.sum(), alpha0)
        return swept.z, swept.alpha

    prior = lambda rng: franchise(rng, alpha0, gamma, 3)  # noqa: E731
    measure = lambda theta, data: measured(*theta)  # noqa: E731
    pvalues = joint(prior, lambda theta, rng: None, step, measure, n=4000, rng=np.random.default_rng(3))
    assert min(pvalues.values()) > BUDGET


def franchise(rng, alpha0, gamma, n):
    """Labels of n tokens of one document and the sticks broken for them, from the prior."""
    sticks, z = np.array([alpha0]), np.empty(n, np.uint16)
    for i in range(n):
        weight = sticks + np.bincount(z[:i], minlength=sticks.size)
        z[i] = rng.choice(sticks.size, p=weight / weight.sum())
        if z[i] == sticks.size - 1:
            v = rng.beta(1, gamma)
            sticks = np.append(sticks[:-1], sticks[-1] * np.array([v, 1 - v]))
    return z, sticks


def measured(z, sticks):
    """What does not depend on the numbers of topics."""
    return {
        "topics": len(np.unique(z)), "pattern": 2 * (z[0] == z[1]) + (z[1] == z[2]),
        "sticks in use": sticks[np.unique(z)].sum(), "stick of a token": sticks[z[0]],
    }  # fmt: skip
