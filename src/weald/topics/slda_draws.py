"""New documents under draws of supervised topics: their topics are drawn, and the response follows.

    z_d^(i) ~ p(z_d | x_d, phi_s, alpha_s)                                            (282), draw s of the posterior
    p_hat(y_d | x_d) = 1/M sum_i p(y_d | w_s . zbar_d^(i), sigma_s)                    (283)
    mean, variance   those of the mixture p_hat: noise, doubt of zbar and doubt of (phi, w, sigma) together
    H[y_d | x_d] = -1/M sum_i log p_hat(y_i),    y_i ~ p_hat                           (284), as corrected
    H[y_d | x_d] = -sum_c p_hat(c) log p_hat(c)                                        for classes: exact, nothing drawn

The topics of a document walk along: they start where the draw before has left them, so that a few sweeps are enough
for each draw. Randomness is keyed by the words of the document: what is said of it does not depend on its neighbours.
Of an empty document only the prior of its topics is known, theta ~ Dirichlet(alpha_s) stands for zbar.
Cost: n K for each sweep, `KEPT` sweeps for each of at most `PREDICT_DRAWS` draws.

References: journal (003) (282)-(284), errata.

    >>> one = ResponseDraws(np.ones((1, 2, 1), np.float32) / 2, np.ones((1, 1)), np.zeros((1, 1, 1)), np.ones(1),
    ...                     np.ones(1, bool), Response(np.zeros(1), None, 5.0, 2.0), 0)
    >>> corpus = Corpus(np.array([0, 1]), np.array([0], np.int32), np.array([3]), 2)
    >>> one.moments(corpus)
    (array([5.]), array([2.]))
    >>> bool(abs(one.entropy(corpus)[0] - np.log(2.0 * np.sqrt(2 * np.pi * np.e))) < 0.01)
    True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import entr, logsumexp, ndtri, softmax

from weald._kernel import kernel
from weald._random import bits, uniform
from weald._typing import Array, FloatArray, IntArray
from weald.engine import Threads
from weald.topics.corpus import Corpus
from weald.topics.slda_gibbs import pick
from weald.topics.slda_response import Response

PREDICT_DRAWS = 40  # draws of the posterior that predictions average over
KEPT = 3  # draws of the topics of a document for each of them
BURN_IN = 10  # sweeps before the first
TILE = 256  # documents in work at a time
LEAST = 256  # draws of y that the entropy of numbers averages at least, for each document


@dataclass(frozen=True, eq=False)
class ResponseDraws:
    """Draws of a supervised topic model.

    Parameters
    ----------
    phi : (S, V, K) float32 array
        Probability of each word in each topic.
    alpha : (S, K) array
    w : (S, R, K) array
        Coefficients of the standardised response.
    sigma : (S,) array
        Standard deviation of its noise.
    fresh : (S,) bool array
        Whether a draw is the first of its chain.
    response : Response
        Classes, or units; labels are not looked at.
    key : int
        Seed.
    """

    phi: FloatArray
    alpha: FloatArray
    w: FloatArray
    sigma: FloatArray
    fresh: Array
    response: Response
    key: int

    def moments(self, corpus: Corpus, engine: Threads | None = None) -> tuple[FloatArray, FloatArray]:
        """(n,), (n,): mean and standard deviation of the response of documents, in its units."""

        def of(psi: FloatArray) -> FloatArray:
            mean = psi[:, :, 0].mean(axis=1)
            return np.stack([mean, np.sqrt(psi[:, :, 0].var(axis=1) + np.mean(self.sigma**2))], axis=1)

        mean, sd = self._map(of, corpus, engine).T
        return self.response.location + self.response.scale * mean, self.response.scale * sd

    def proba(self, corpus: Corpus, engine: Threads | None = None) -> FloatArray:
        """(n, C): probability of each class."""
        return self._map(lambda psi: softmax(psi, axis=2).mean(axis=1), corpus, engine)

    def entropy(self, corpus: Corpus, engine: Threads | None = None) -> FloatArray:
        """(n,): entropy of the response of each document, in nats."""
        if self.response.classes is not None:
            return np.asarray(entr(self.proba(corpus, engine)).sum(axis=1))
        sigma = np.repeat(self.sigma, KEPT)
        again = -(-LEAST // len(sigma))
        rng = np.random.default_rng(self.key)
        places = (np.arange(again * len(sigma)) + 0.5) / (again * len(sigma))
        noise = ndtri(rng.permutation(places)).reshape(again, len(sigma))

        def of(psi: FloatArray) -> FloatArray:
            return np.array([_entropy_of_mixture(mean, sigma, noise) for mean in psi[:, :, 0]])

        return self._map(of, corpus, engine) + math.log(self.response.scale)

    def _map(self, of: Callable[[FloatArray], FloatArray], corpus: Corpus, engine: Threads | None) -> FloatArray:
        """Apply a function of the draws psi (n, M, R) = w . zbar to documents, tile by tile."""
        unread = self._unread()

        def of_tile(tile: slice) -> FloatArray:
            part = corpus.part(tile.start, tile.stop)
            psi = np.empty((part.n_documents, *unread.shape))
            counts = np.asarray(part.counts, np.int64)
            walk(
                np.asarray(part.indptr, np.int64), part.words, counts, self.phi, self.alpha, self.w, self.fresh,
                np.uint64(self.key), BURN_IN, KEPT, psi,
            )  # fmt: skip
            psi[part.lengths == 0] = unread
            return of(psi)

        tiles = [slice(a, min(a + TILE, corpus.n_documents)) for a in range(0, corpus.n_documents, TILE)]
        return np.concatenate(list((engine or Threads()).map(of_tile, tiles)))

    def _unread(self) -> FloatArray:
        """(M, R): draws of w . theta for a document without words."""
        rng = np.random.default_rng(self.key)
        theta = np.stack([rng.dirichlet(alpha, KEPT) for alpha in self.alpha])
        return np.einsum("skt,srt->skr", theta, self.w).reshape(-1, self.w.shape[1])


def _entropy_of_mixture(mean: FloatArray, sigma: FloatArray, noise: FloatArray) -> float:
    """(284) for Gaussians of these means and deviations (M,), with `noise` (m, M) of each."""
    y = (mean + sigma * noise).reshape(-1, 1)
    log_p = -0.5 * ((y - mean) / sigma) ** 2 - np.log(sigma)
    return float(-np.mean(logsumexp(log_p, axis=1))) + math.log(len(mean) * math.sqrt(2.0 * math.pi))


@kernel
def walk(
    indptr: IntArray, words: IntArray, counts: IntArray, phi: FloatArray, alpha: FloatArray, w: FloatArray,
    fresh: Array, key: np.uint64, burn_in: int, kept: int, psi: FloatArray,
) -> None:  # fmt: skip
    """Draws psi (n, S kept, R) OUT of the linear predictor of each document."""
    S, K = alpha.shape
    longest = 0
    for d in range(psi.shape[0]):
        longest = max(longest, counts[indptr[d] : indptr[d + 1]].sum())
    z, g, weight, u = np.empty(longest, np.int64), np.empty(K), np.empty(K), np.empty(longest)
    for d in range(psi.shape[0]):
        n, mark = 0, key
        for j in range(indptr[d], indptr[d + 1]):
            n += counts[j]
            mark += bits(key, words[j], counts[j])
        stream = 0
        for s in range(S):
            if fresh[s]:
                z[:n] = -1
            _count(z, n, alpha[s], g)
            for sweep in range(kept + (burn_in if fresh[s] else 0)):
                for t in range(n):
                    u[t] = uniform(mark, t, stream)
                stream += 1
                _sweep(indptr[d], indptr[d + 1], words, counts, phi[s], u, z, g, weight)
                at = s * kept + sweep - (burn_in if fresh[s] else 0)
                if at >= s * kept:
                    for r in range(w.shape[1]):
                        psi[d, at, r] = 0.0
                        for k in range(K):
                            psi[d, at, r] += w[s, r, k] * (g[k] - alpha[s, k]) / max(n, 1)


@kernel
def _count(z: IntArray, n: int, alpha: FloatArray, g: FloatArray) -> None:
    g[:] = alpha
    for t in range(n):
        if z[t] >= 0:
            g[z[t]] += 1.0


@kernel
def _sweep(
    start: int, stop: int, words: IntArray, counts: IntArray, phi: FloatArray, u: FloatArray, z: IntArray,
    g: FloatArray, weight: FloatArray,
) -> None:  # fmt: skip
    """Draw the topics z of one document once, topics known; g (K,) IN/OUT: counts + alpha."""
    t = 0
    for j in range(start, stop):
        v = words[j]
        for _ in range(counts[j]):
            if z[t] >= 0:
                g[z[t]] -= 1.0
            total = 0.0
            for k in range(g.shape[0]):
                weight[k] = g[k] * phi[v, k]
                total += weight[k]
            z[t] = pick(weight, u[t] * total)
            g[z[t]] += 1.0
            t += 1
