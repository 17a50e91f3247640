"""The Chinese restaurant franchise by enumeration: every partition of a few tokens into topics, tables summed out."""

from itertools import product
from math import lgamma, log

import numpy as np
from scipy.special import logsumexp
from scipy.stats import beta as beta_law

from weald.topics.corpus import Corpus
from weald.topics.hdp_gibbs import HDPKernel, HDPState, Prior
from weald.topics.hdp_moves import log_evidence

DOCS, WORDS = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 2, 2])  # tokens word by word
TABLES = {1: {1: 1}, 2: {1: 1, 2: 1}, 3: {1: 2, 2: 3, 3: 1}}  # unsigned Stirling numbers of the first kind
FIXED = Prior((None, 1.0), (None, 1.0), (None, 1.0))
ALPHA, GAMMA, ETA = 1.5, 0.8, 0.6
HEAVY = 0.3  # is the topic of token 0 heavier than this?


def corpus_of(docs, words, n_documents, n_words):
    counts = np.zeros((n_documents, n_words), np.int64)
    np.add.at(counts, (docs, words), 1)
    d, w = np.nonzero(counts)
    indptr = np.append(0, np.cumsum(np.bincount(d, minlength=n_documents)))
    return Corpus(indptr, w.astype(np.int32), counts[d, w], n_words)


def partitions(n):
    """(Bell(n), n): labels in order of appearance."""
    rows = [[0]]
    for _ in range(n - 1):
        rows = [[*row, k] for row in rows for k in range(max(row) + 2)]
    return np.array(rows)


def canonical(z):
    _, first, inverse = np.unique(z, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def seatings(z, alpha, gamma):
    """Tables (s, K) of each topic, and log p(z, tables), one row for each way to seat the guests."""
    K = z.max() + 1
    guests = [(k, int(((z == k) & (d == DOCS)).sum())) for d in (0, 1) for k in range(K)]
    guests = [(k, n) for k, n in guests if n]
    rows, log_p = [], []
    for taken in product(*(TABLES[n].items() for _, n in guests)):
        m = np.zeros(K, np.int64)
        for (k, _), (t, _) in zip(guests, taken, strict=True):
            m[k] += t
        M = m.sum()
        ways = sum(log(s) for _, s in taken)
        crowd = 2 * (lgamma(alpha) - lgamma(alpha + 3)) + M * log(alpha)
        menu = K * log(gamma) + lgamma(gamma) - lgamma(gamma + M) + sum(lgamma(t) for t in m)
        rows.append(m)
        log_p.append(ways + crowd + menu)
    return np.array(rows), np.array(log_p)


class Franchise:
    """States: a partition of the tokens, and whether the topic of token 0 is heavy."""

    def __init__(self):
        self.Z = partitions(DOCS.size)
        self.index = {tuple(z): i for i, z in enumerate(self.Z)}
        self.seatings = [seatings(z, ALPHA, GAMMA) for z in self.Z]
        self.log_prior = np.array([logsumexp(log_p) for _, log_p in self.seatings])
        log_w = np.array([self.log_words(z) for z in self.Z])
        heavy = np.array([self.p_heavy(i) for i in range(len(self.Z))])
        self.log_p = ((self.log_prior + log_w)[:, None] + np.log(np.column_stack([1 - heavy, heavy]))).ravel()
        self.corpus = corpus_of(DOCS, WORDS, 2, 3)
        self.kernel = HDPKernel(self.corpus, FIXED, ALPHA, GAMMA, ETA)

    def log_words(self, z):
        n_kw = np.zeros((z.max() + 1, 3))
        np.add.at(n_kw, (z, WORDS), 1.0)
        return float(log_evidence(n_kw, ETA).sum())

    def given(self, i):
        tables, log_p = self.seatings[i]
        return tables, np.exp(log_p - logsumexp(log_p))

    def p_heavy(self, i):
        tables, p = self.given(i)
        m = tables[:, 0]
        return float(p @ beta_law(m, GAMMA + tables.sum(axis=1) - m).sf(HEAVY))

    def start(self, i, rng):
        """A state with this index: weights by rejection."""
        tables, p = self.given(i // 2)
        while True:
            beta = rng.dirichlet(np.append(tables[rng.choice(p.size, p=p)], GAMMA))
            if (beta[0] > HEAVY) == i % 2:
                return self.state(self.Z[i // 2], beta)

    def state(self, z, beta):
        K = beta.size - 1
        return HDPState(z.astype(np.uint16), beta, ALPHA, GAMMA, ETA, 0, np.zeros(K, np.int64), np.zeros((K, 5)))

    def locate(self, state):
        return 2 * self.index[tuple(canonical(state.z))] + int(state.beta[state.z[0]] > HEAVY)
