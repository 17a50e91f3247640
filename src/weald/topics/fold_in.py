"""New documents under known topics: the expected proportions of topics in each.

    theta ~ Dirichlet(alpha),   z_i ~ theta,   w_i ~ phi[z_i];      wanted: E[theta | w, phi, alpha]

Responsibilities r_w of each word are iterated to their fixed point (collapsed variational Bayes of order zero),

    r_wk  propto  phi_kw (g_k - r_wk),      g_k = alpha_k + sum_w n_w r_wk,      E[theta] = g / sum g,

one token of the word being left out of the counts that judge it, as in the collapsed posterior (117). A document
without known words has its prior mean. Cost: n K for each round, some tens of rounds.
References: journal (003) 2.3.1; Asuncion, Welling, Smyth, Teh (2009).

    >>> topics = Topics(np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([0.1, 0.1]))
    >>> corpus = Corpus(np.array([0, 1]), np.array([0], np.int32), np.array([5.0]), 2)
    >>> topics.proportions(corpus).round(2)
    array([[0.98, 0.02]])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weald._kernel import kernel
from weald._typing import Array, FloatArray, IntArray
from weald.engine import Threads, shards_of
from weald.topics.corpus import Corpus

ROUNDS = 200
SETTLED = 1e-4  # tokens that may still move between topics, a document


@dataclass(frozen=True, eq=False)
class Topics:
    """What prediction needs of a topic model.

    Parameters
    ----------
    phi : (K, V) array
        Probability of each word in each topic; rows sum to one.
    alpha : (K,) array
        Dirichlet parameter of the proportions of topics in a document.
    """

    phi: FloatArray
    alpha: FloatArray

    @property
    def n_topics(self) -> int:
        """How many topics there are."""
        return len(self.alpha)

    @cached_property
    def by_word(self) -> FloatArray:
        """(V, K): phi transposed, in the order in which words ask for it."""
        return np.ascontiguousarray(self.phi.T)

    def proportions(self, corpus: Corpus, engine: Threads | None = None) -> FloatArray:
        """(D, K): expected proportions of topics in each document."""
        theta = np.empty((corpus.n_documents, self.n_topics))

        def of_shard(shard: slice) -> None:
            fold_in(
                corpus.indptr, corpus.words, corpus.counts, self.by_word, self.alpha, shard.start, theta[shard],
                ROUNDS, SETTLED,
            )  # fmt: skip

        for _ in (engine or Threads()).map(of_shard, shards_of(corpus.n_documents)):
            pass
        return theta


@kernel
def fold_in(
    indptr: IntArray, words: IntArray, counts: Array, by_word: FloatArray, alpha: FloatArray, first: int,
    theta: FloatArray, rounds: int, settled: float,
) -> None:  # fmt: skip
    """Expected proportions theta (n, K) OUT of documents first, ..., first + n - 1."""
    K = alpha.shape[0]
    n, longest = theta.shape[0], 0
    for d in range(first, first + n):
        longest = max(longest, indptr[d + 1] - indptr[d])
    r, new, g = np.empty((longest, K)), np.empty(K), np.empty(K)
    for i in range(n):
        a, b = indptr[first + i], indptr[first + i + 1]
        g[:] = alpha
        for j in range(a, b):
            total = 0.0
            for k in range(K):
                r[j - a, k] = by_word[words[j], k] * alpha[k]
                total += r[j - a, k]
            share = 1.0 / total if total > 0.0 else 0.0
            for k in range(K):
                r[j - a, k] *= share
                g[k] += counts[j] * r[j - a, k]
        for _ in range(rounds):
            moved = 0.0
            for j in range(a, b):
                out = min(1.0, counts[j])
                total = 0.0
                for k in range(K):
                    new[k] = by_word[words[j], k] * max(g[k] - out * r[j - a, k], 0.0)
                    total += new[k]
                if total > 0.0:
                    share = 1.0 / total
                    for k in range(K):
                        step = new[k] * share - r[j - a, k]
                        r[j - a, k] += step
                        g[k] += counts[j] * step
                        moved += counts[j] * abs(step)
            if moved < settled:
                break
        total = 0.0
        for k in range(K):
            total += g[k]
        for k in range(K):
            theta[i, k] = g[k] / total
