"""Supervised LDA by collapsed Gibbs sampling: topics that explain a response of the documents.

    theta_d ~ Dirichlet(alpha),  phi_k ~ Dirichlet(eta),  z_di ~ theta_d,  x_di ~ phi_{z_di}
    y_d ~ p(y | w . zbar_d),     zbar_d = mean of the one-hot z_di                            (280)-(281)

theta and phi are integrated out, (104)-(117). Token i of word v in document d, taken out of all counts, goes to topic k

    with weight   (n_dk + alpha_k) (n_kv + eta) / (n_k + V eta) p(y_d | zbar_d with the token in k)

The last factor, the tilt, is kept up to date at O(1) for each topic, without an exponential. For numbers its log is
quadratic, and moving a token from k to k' multiplies the tilts by G_kj / G_k'j, G_kj = exp(w_k w_j / (n_d sigma)^2).
For classes it is h_yk e_y / sum_c h_ck e_c, e_c = exp(w_c . zbar), h_ck = exp(w_ck / n_d). Where the noise is so small
that G would overflow, logs are kept, and exponentials taken.

After the tokens come w, sigma^2 and tau^2 (`weald.topics.slda_response`), then alpha and eta. Documents without label
have no tilt; those without tokens have no zbar and take no part. Cost of a sweep: N K multiplications, about 40
nanoseconds for each token at K = 10, and the counts of the labels are made anew, so that a resumed run goes on exactly.

References: journal (003) 5.3, 2.3.1; McAuliffe & Blei (2007); Griffiths & Steyvers (2004).

    >>> from weald.topics.corpus import Corpus
    >>> from weald.topics.slda_response import read_response
    >>> from weald.inference.run import run
    >>> corpus = Corpus(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.array([3, 2]), 2)
    >>> kernel = SupervisedKernel(documents_of(corpus), read_response([1.0, 2.0], 2, "gaussian"), 2)
    >>> chain, = run(kernel, key=np.uint64(1), sweeps=5)
    >>> chain.state.z.shape, chain.state.w.shape
    ((5,), (1, 2))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from weald._kernel import kernel
from weald._random import sweep_key, uniform
from weald._typing import FloatArray, IntArray
from weald.inference.run import AbstractKernel
from weald.topics.corpus import Corpus
from weald.topics.hyper import draw_alpha, draw_eta, log_joint
from weald.topics.slda_response import Response
from weald.topics.sweeps import Swept

STEADY = 250.0  # largest log of a tilt that products of tilts may reach
NOTHING, PRODUCTS, LOGS, CLASSES = range(4)  # how the tilts of a document are kept


@dataclass(frozen=True, eq=False)
class Documents:
    """Tokens document by document: words[starts[d] : starts[d + 1]]; `n_words` is the size of the vocabulary."""

    starts: IntArray
    words: IntArray
    n_words: int

    @cached_property
    def lengths(self) -> IntArray:
        """(D,): tokens of each document."""
        return np.diff(self.starts)


@dataclass(frozen=True, eq=False)
class SupervisedState:
    """Where the sampler stands.

    Parameters
    ----------
    z : (N,) int32 array
        Topic of each token.
    w : (R, K) array
        Coefficients of the standardised response.
    sigma2, tau2 : float
        Variances of the noise, and of the coefficients.
    alpha : (K,) array
    eta : float
    sweep : int
        Sweeps made.
    """

    z: IntArray
    w: FloatArray
    sigma2: float
    tau2: float
    alpha: FloatArray
    eta: float
    sweep: int = 0


@dataclass(frozen=True, eq=False)
class SupervisedKernel(AbstractKernel):
    """One sweep of supervised LDA.

    Parameters
    ----------
    documents : Documents
    response : Response
    n_topics : int
    alpha, eta : float
        Symmetric Dirichlet parameters to start from.
    learns_alpha, learns_eta : bool
        Whether they are drawn too.
    first : callable, optional
        rng -> topics (N,) to start from; if None, token by token, each given those before it.
    """

    documents: Documents
    response: Response
    n_topics: int
    alpha: float = 0.1
    eta: float = 0.01
    learns_alpha: bool = False
    learns_eta: bool = False
    first: Callable[[np.random.Generator], IntArray] | None = None

    def init(self, rng: np.random.Generator) -> SupervisedState:
        """The first topics, with coefficients that say nothing yet."""
        z = np.full(len(self.documents.words), -1, np.int32) if self.first is None else self.first(rng)
        alpha, w = np.full(self.n_topics, self.alpha), self.response.zeros(self.n_topics)
        state = SupervisedState(z, w, 1.0, 1.0, alpha, self.eta)
        return state if self.first else self.tokens(state, sweep_key(rng), np.full_like(self.response.y, np.nan))[0]

    def step(self, rng: np.random.Generator, state: SupervisedState) -> tuple[SupervisedState, Mapping[str, float]]:
        """All tokens, then the coefficients, then the Dirichlet parameters."""
        docs = self.documents
        state, n_dk, n_vk = self.tokens(state, sweep_key(rng), self.response.y)
        zbar = n_dk / np.maximum(docs.lengths, 1)[:, None]
        drawn = self.response.draw(state.w, state.sigma2, state.tau2, zbar, rng)
        swept = histograms(state.z, n_dk, n_vk, state.alpha)
        lengths = docs.lengths[docs.lengths > 0].astype(np.float64)
        alpha = draw_alpha(swept, state.alpha, lengths, rng) if self.learns_alpha else state.alpha
        eta = draw_eta(swept, state.eta, docs.n_words, rng) if self.learns_eta else state.eta
        log_z, log_words = log_joint(swept, alpha, eta, docs.n_words, lengths)
        info = {
            "log_response": self.response.log_likelihood(drawn.w, drawn.sigma2, zbar),
            "log_words": log_z + log_words,
            "largest": float(swept.n_k.max() / len(state.z)),
        }
        return SupervisedState(state.z, drawn.w, drawn.sigma2, drawn.tau2, alpha, eta, state.sweep + 1), info

    def phi(self, state: SupervisedState) -> FloatArray:
        """(V, K) float32: expected probability of each word in each topic, given the topics of the tokens."""
        n_vk = counts_of(self.documents.words, state.z, self.documents.n_words, self.n_topics) + state.eta
        return (n_vk / n_vk.sum(axis=0)).astype(np.float32)

    def tokens(
        self, state: SupervisedState, key: np.uint64, y: FloatArray
    ) -> tuple[SupervisedState, FloatArray, IntArray]:
        """Draw every topic once; also the counts n_dk (D, K) and n_vk (V, K) after it."""
        docs, z = self.documents, state.z.copy()
        n_vk = counts_of(docs.words, z, docs.n_words, self.n_topics)
        n_dk = np.empty((len(docs.lengths), self.n_topics))
        precision = 1.0 / state.sigma2 if self.response.classes is None else 0.0
        sweep(docs.starts, docs.words, z, n_vk, state.alpha, state.eta, y, state.w, precision, key, n_dk)
        return replace(state, z=z), n_dk, n_vk


def documents_of(corpus: Corpus) -> Documents:
    """The tokens of a corpus with whole counts."""
    starts = np.append(0, np.cumsum(corpus.lengths.astype(np.int64)))
    return Documents(starts, np.repeat(corpus.words, corpus.counts.astype(np.int64)), corpus.n_words)


def counts_of(words: IntArray, z: IntArray, n_words: int, n_topics: int) -> IntArray:
    """(V, K) int32: tokens of each word in each topic; those of topic -1 are in none."""
    placed = z >= 0
    cells = words[placed].astype(np.int64) * n_topics + z[placed]
    return np.bincount(cells, minlength=n_words * n_topics).reshape(n_words, n_topics).astype(np.int32)


def histograms(z: IntArray, n_dk: FloatArray, n_vk: IntArray, alpha: FloatArray) -> Swept:
    """Labels with the histograms that `weald.topics.hyper` learns from."""
    starts, reached = _reached(n_dk.astype(np.int64))
    _, word_reached = _reached(n_vk.reshape(-1, 1))
    return Swept(z, n_vk.sum(axis=0, dtype=np.int64), alpha, -1, starts, reached, word_reached, 0, 0)


def _reached(counts: IntArray) -> tuple[IntArray, IntArray]:
    """(m + 1,), (sum of lengths,): column by column, how many counts exceed 0, 1, ..., up to the largest."""
    columns = [np.bincount(column) for column in counts.T]
    reached = [np.cumsum(column[::-1])[::-1][1:] for column in columns]
    return np.cumsum([0, *map(len, reached)]), np.concatenate(reached)


@kernel
def sweep(
    starts: IntArray, words: IntArray, z: IntArray, n_vk: IntArray, alpha: FloatArray, eta: float, y: FloatArray,
    w: FloatArray, precision: float, key: np.uint64, n_dk: FloatArray,
) -> None:  # fmt: skip
    """Draw the topic of every token; z (N,), n_vk (V, K) IN/OUT, n_dk (D, K) OUT; precision 0 means classes."""
    V, K = n_vk.shape
    R = w.shape[0]
    n_k, over, weight, u = np.empty(K), np.empty(K), np.empty(K), np.empty(np.diff(starts).max())
    tilt, now, G, made = np.empty(K), np.empty(K), np.empty((K, K)), np.full(K, -1, np.int64)
    e, h = np.empty(R), np.empty((R, K))
    for k in range(K):
        n_k[k] = V * eta
        for v in range(V):
            n_k[k] += n_vk[v, k]
        over[k] = 1.0 / n_k[k]
    for d in range(starts.shape[0] - 1):
        first, end, g = starts[d], starts[d + 1], n_dk[d]
        g[:] = 0.0
        for t in range(first, end):
            u[t - first] = uniform(key, t, 0)
            if z[t] >= 0:
                g[z[t]] += 1.0
        mode, q = _begin(g, w, y[d], precision, end - first, now, e, h)
        for k in range(K):
            g[k] += alpha[k]
            tilt[k] = 1.0
        for t in range(first, end):
            v, k = words[t], z[t]
            if k >= 0:
                g[k] -= 1.0
                n_vk[v, k] -= 1
                n_k[k] -= 1.0
                over[k] = 1.0 / n_k[k]
            if mode == PRODUCTS:
                if made[k] != d:
                    _row(w, q, k, G)
                    made[k] = d
                for j in range(K):
                    tilt[j] = now[j] * G[k, j]
            elif mode == LOGS:
                _tilts_from_logs(w, q, k, now, tilt)
            elif mode == CLASSES:
                _tilts_of_classes(e, h, k, int(y[d]), tilt)
            total = 0.0
            for j in range(K):
                weight[j] = g[j] * (n_vk[v, j] + eta) * over[j] * tilt[j]
                total += weight[j]
            new = pick(weight, u[t - first] * total)
            z[t] = new
            g[new] += 1.0
            n_vk[v, new] += 1
            n_k[new] += 1.0
            over[new] = 1.0 / n_k[new]
            if mode == PRODUCTS and new != k:
                if made[new] != d:
                    _row(w, q, new, G)
                    made[new] = d
                for j in range(K):
                    now[j] *= G[k, j] / G[new, j]
            elif mode == LOGS:
                for j in range(K):
                    now[j] += q * w[0, j] * (w[0, k] - w[0, new])
            elif mode == CLASSES:
                for c in range(R):
                    e[c] *= h[c, new] / h[c, k]
        for k in range(K):
            g[k] = np.rint(g[k] - alpha[k])


@kernel
def pick(weight: FloatArray, u: float) -> int:
    """The topic in whose stretch of the summed weights u falls; without branches, which would be guessed wrongly."""
    new, below = 0, 0.0
    for k in range(weight.shape[0] - 1):
        below += weight[k]
        new += below <= u
    return new


@kernel
def _begin(
    n_k: FloatArray, w: FloatArray, y: float, precision: float, n: int, now: FloatArray, e: FloatArray, h: FloatArray
) -> tuple[int, float]:
    """How the tilts of a document are kept, and their curvature; `now` (K,), or `e` (R,) and `h` (R, K), OUT."""
    if n == 0 or math.isnan(y):
        return NOTHING, 0.0
    for c in range(w.shape[0]):
        e[c] = 0.0
        for k in range(n_k.shape[0]):
            e[c] += n_k[k] * w[c, k] / n
    if precision == 0.0:
        e[:] = np.exp(e - e.max())
        h[:] = np.exp(w / n)
        return CLASSES, 0.0
    q, mean, widest = precision / (float(n) * n), e[0], 0.0
    for k in range(n_k.shape[0]):
        now[k] = q * w[0, k] * (n * (y - mean) - 0.5 * w[0, k])
        widest = max(widest, abs(w[0, k]))
    if q * n * widest * (abs(y) + 2.0 * widest) > STEADY:
        return LOGS, q
    now[:] = np.exp(now)
    return PRODUCTS, q


@kernel
def _row(w: FloatArray, q: float, k: int, G: FloatArray) -> None:
    for j in range(G.shape[0]):
        G[k, j] = math.exp(q * w[0, k] * w[0, j])


@kernel
def _tilts_from_logs(w: FloatArray, q: float, k: int, now: FloatArray, tilt: FloatArray) -> None:
    """Tilts once a token of topic k is gone, the largest being one."""
    for j in range(now.shape[0]):
        tilt[j] = now[j] + q * w[0, k] * w[0, j]
    tilt[:] = np.exp(tilt - tilt.max())


@kernel
def _tilts_of_classes(e: FloatArray, h: FloatArray, k: int, y: int, tilt: FloatArray) -> None:
    """Probability of class y if a token of topic k goes to each other topic."""
    tilt[:] = 0.0
    for c in range(e.shape[0]):
        left = e[c] / h[c, k]
        for j in range(tilt.shape[0]):
            tilt[j] += left * h[c, j]
    for j in range(tilt.shape[0]):
        tilt[j] = h[y, j] / tilt[j]
