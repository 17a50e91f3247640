"""EM for LDA: the most probable proportions and topics of a corpus.

    E-step    r_dwk = theta_dk phi_kw / sum_l theta_dl phi_lw                                     (94)
              n_dk = sum_w n_dw r_dwk,   S_kw = sum_d n_dw r_dwk                                  (95)-(96)
    M-step    theta_dk = (n_dk + alpha) / (n_d + K alpha),   phi_kw = (S_kw + eta) / (S_k + V eta)   (97)-(98)

maximise log p(w | theta, phi) + alpha sum log theta + eta sum log phi, the log posterior under Dirichlet(1 + alpha) and
Dirichlet(1 + eta), up to a constant; no step lowers it. With alpha = eta = 0 this is maximum likelihood, as printed,
and words that the corpus lacks have probability zero. The objective of a sweep is that of the point it has left.
For new documents alpha is learned from n at the end. Cost of a sweep: 2 K multiplications for each distinct word of a
document; memory D K + 2 V K numbers.

References: journal (003) 2.2.2; T. Hofmann, Probabilistic latent semantic indexing (1999).

    >>> from weald.datasets import make_topics
    >>> X = make_topics(500, 3, 60, 50, 0).X
    >>> corpus = Corpus(X.indptr, X.indices.astype(np.int32), X.data, 60)
    >>> trace = em(corpus, 3, np.zeros(3), 0.0, 500, 1e-3, np.uint64(0)).stats["objective"][0]
    >>> bool((np.diff(trace) > 0).all())
    True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import xlogy

from weald._progress import Callback
from weald._typing import FloatArray
from weald.engine import Threads
from weald.inference.run import AbstractKernel, Snapshot, run
from weald.topics.anchors import anchor_topics
from weald.topics.corpus import Corpus
from weald.topics.expect import FLOORS, Batch, batch_of, expect_all
from weald.topics.fold_in import Topics
from weald.topics.outcome import Learnt
from weald.topics.polya import learn_alpha
from weald.topics.settled import judged, rising

ALPHA_STEPS = 100  # of the alpha that new documents are read with


@dataclass(frozen=True, eq=False)
class EMState:
    """Expected counts, from which the parameters follow: n_dk (D, K) and S (V, K)."""

    n_dk: FloatArray
    S: FloatArray


@dataclass(frozen=True, eq=False)
class EMSweep(AbstractKernel):
    """One E-step and M-step.

    Parameters
    ----------
    corpus : Corpus
    alpha : (K,) array
        Tokens that each topic of a document is given in advance.
    eta : float
        Tokens that each word of a topic is given in advance.
    batch : Batch
        The whole corpus, in float64.
    engine : Threads
    """

    corpus: Corpus
    alpha: FloatArray
    eta: float
    batch: Batch
    engine: Threads = field(default_factory=Threads)

    def init(self, rng: np.random.Generator) -> EMState:
        """Topics from anchor words, proportions even."""
        K = len(self.alpha)
        S = np.ascontiguousarray(anchor_topics(self.corpus, K, rng).T) * (self.corpus.n_tokens / K)
        return EMState(self.batch.spread(K), S)

    def phi(self, state: EMState) -> FloatArray:
        """(V, K): probability of each word in each topic (98); a topic that has lost all its words is even."""
        phi, total = self.eta + state.S, self.eta * len(state.S) + state.S.sum(axis=0)
        return np.where(total > 0, phi / np.where(total > 0, total, 1.0), 1.0 / len(phi))

    def step(self, rng: np.random.Generator, state: EMState) -> tuple[EMState, Mapping[str, float]]:
        """The next state, and the log posterior of the one that is left."""
        phi, words = self.phi(state), self.batch.words
        largest = phi[words].max(axis=1)
        b = np.maximum(phi[words] / largest[:, None], FLOORS[phi.dtype])
        n_dk = state.n_dk.copy()
        found = expect_all(self.batch, b, np.log(largest), self.alpha, n_dk, self.engine, 1, 0.0, mean=True)
        theta = self.alpha + state.n_dk
        theta /= np.maximum(theta.sum(axis=1, keepdims=True), 1e-300)
        log_likelihood = found.entropy + float(xlogy(n_dk, theta).sum())
        log_prior = float(xlogy(self.alpha, theta)[self.batch.lengths > 0].sum() + xlogy(self.eta, phi).sum())
        S = np.zeros_like(state.S)
        S[words] = found.S
        return EMState(n_dk, S), {"objective": log_likelihood + log_prior, "log_likelihood": log_likelihood}


def em(
    corpus: Corpus,
    n_topics: int,
    alpha: FloatArray,
    eta: float,
    max_iter: int,
    tol: float,
    key: np.uint64,
    engine: Threads | None = None,
    *,
    callbacks: Sequence[Callback] = (),
    resume: Snapshot | None = None,
    fingerprint: Callable[[], str] = str,
) -> Learnt:
    """Expectation maximisation.

    Parameters
    ----------
    corpus : Corpus
        Counts or weights.
    n_topics : int
        K.
    alpha : (K,) array
        Tokens that each topic of a document is given in advance.
    eta : float
        Tokens that each word of a topic is given in advance.
    max_iter : int
        Sweeps at most.
    tol : float
        Sweeps end when the objective per token has less than this still to rise.
    key : uint64
        Seed.
    engine : Threads, optional
    callbacks, resume, fingerprint
        As in `weald.inference.run.run`.

    Returns
    -------
    Learnt
    """
    kernel = EMSweep(corpus, alpha, eta, batch_of(corpus, np.arange(corpus.n_documents)), engine or Threads())
    stop = rising(corpus.n_tokens, tol)
    [chain] = run(
        kernel, key=key, sweeps=max_iter, stop=stop, callbacks=callbacks, resume=resume, fingerprint=fingerprint
    )
    status = judged(chain.stats["objective"], stop, corpus.n_tokens, rises=True)
    state: EMState = chain.state
    proportions = np.full(n_topics, 1.0 / n_topics)
    for _ in range(ALPHA_STEPS):
        proportions, _ = learn_alpha(state.n_dk, proportions)
    draws = {"alpha": proportions[None, None], "eta": np.array([[eta]])}
    stats = {name: values[None] for name, values in chain.stats.items()}
    topics = Topics(np.ascontiguousarray(kernel.phi(state).T), proportions)
    return Learnt(topics, state.S.sum(axis=0), draws, stats, status)
