"""Batch variational Bayes for LDA: a lower bound on the evidence of a corpus that no step lowers.

    log p(w | alpha, eta)  >=  L(r, alpha, eta)
        =  - sum_dwk n_dw r_dwk log r_dwk                  entropy of the topics of tokens, (162)
         + sum_d log B(alpha + n_d) - log B(alpha)         proportions, (158)-(159) and (161)
         + sum_k log B(eta + S_k) - log B(eta)             topics, (160)

with log B(x) = sum_i log G(x_i) - log G(sum_i x_i), n_dk = sum_w n_dw r_dwk and S_kw = sum_d n_dw r_dwk: the best
q(theta) and q(phi) for given r have been put in, so that the bound needs r alone. A sweep is the E-step (163)-(164) of
every document, each from where it ended in the sweep before, then q(phi) (165), then one uphill step of alpha and eta
(`weald.topics.polya`). Each raises L or leaves it.

Topics start from passes of the online algorithm, and an E-step makes few rounds: what documents decide while
topics are still vague, they do not take back. Cost of a sweep: 2 K multiplications for each distinct word of a document
and round; memory D K + 2 V K numbers.

References: D. Blei, A. Ng, M. Jordan, Latent Dirichlet allocation (2003); journal (003) 3.2.

    >>> from weald.datasets import make_topics
    >>> X = make_topics(500, 3, 60, 50, 0).X
    >>> corpus = Corpus(X.indptr, X.indices.astype(np.int32), X.data, 60)
    >>> trace = variational(corpus, 3, None, None, 500, 1e-3, np.uint64(0)).stats["objective"][0]
    >>> bool((np.diff(trace) > 0).all())
    True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from weald._progress import Callback
from weald._typing import FloatArray
from weald.engine import Threads
from weald.inference.run import AbstractKernel, Snapshot, run
from weald.topics.corpus import Corpus
from weald.topics.expect import FLOORS, Batch, batch_of, expect_all, expected_words
from weald.topics.fold_in import Topics
from weald.topics.online import OnlinePasses, OnlineRule
from weald.topics.outcome import Learnt
from weald.topics.polya import fit_of_proportions, fit_of_words, learn_alpha, learn_eta
from weald.topics.settled import judged, rising

ROUNDS, SETTLED = 5, 1e-4  # of the E-step: at most so many, and the mean change of n_dk that ends it
START_PASSES = 6


@dataclass(frozen=True, eq=False)
class VariationalState:
    """Expected counts under r, and hyperparameters.

    Parameters
    ----------
    n_dk : (D, K) array
    S : (V, K) array
    alpha : (K,) array
    eta : float
    """

    n_dk: FloatArray
    S: FloatArray
    alpha: FloatArray
    eta: float


@dataclass(frozen=True, eq=False)
class VariationalSweep(AbstractKernel):
    """One sweep of coordinate ascent.

    Parameters
    ----------
    corpus : Corpus
    n_topics : int
        K.
    alpha : (K,) array or None
        Known, or None: learned.
    eta : float or None
        Known, or None: learned.
    batch : Batch
        The whole corpus, in float64.
    engine : Threads
    """

    corpus: Corpus
    n_topics: int
    alpha: FloatArray | None
    eta: float | None
    batch: Batch
    engine: Threads = field(default_factory=Threads)

    def init(self, rng: np.random.Generator) -> VariationalState:
        """Topics from a few passes of the online algorithm, proportions even."""
        passes = OnlinePasses(OnlineRule(self.n_topics, self.alpha, self.eta, engine=self.engine), self.corpus)
        state = passes.init(rng)
        for _ in range(START_PASSES):
            state, _ = passes.step(rng, state)
        return VariationalState(self.batch.spread(self.n_topics), state.scale * state.weights, state.alpha, state.eta)

    def step(self, rng: np.random.Generator, state: VariationalState) -> tuple[VariationalState, Mapping[str, float]]:
        """The next state, and the bound there."""
        words = self.batch.words
        b, largest = np.empty((len(words), self.n_topics)), np.empty(len(words))
        expected_words(state.S, 1.0, state.eta, state.S.sum(axis=0), words, FLOORS[b.dtype], b, largest, False)
        n_dk = state.n_dk.copy()
        found = expect_all(self.batch, b, largest, state.alpha, n_dk, self.engine, ROUNDS, SETTLED)
        entropy = found.entropy - float((found.S * (np.log(b) + largest[:, None])).sum())
        S = np.zeros_like(state.S)
        S[words] = found.S
        alpha, proportions = self._alpha(n_dk, state.alpha)
        eta, topics = self._eta(S, state.eta)
        info = {"objective": entropy + proportions + topics, "n_rounds": float(found.n_rounds), "eta": eta}
        return VariationalState(n_dk, S, alpha, eta), info

    def _alpha(self, n_dk: FloatArray, alpha: FloatArray) -> tuple[FloatArray, float]:
        if self.alpha is None:
            return learn_alpha(n_dk, alpha)
        return alpha, fit_of_proportions(n_dk, alpha, np.empty(len(alpha)))[0]

    def _eta(self, S: FloatArray, eta: float) -> tuple[float, float]:
        return learn_eta(S, 1.0, eta) if self.eta is None else (eta, fit_of_words(S, 1.0, eta)[0])


def variational(
    corpus: Corpus,
    n_topics: int,
    alpha: FloatArray | None,
    eta: float | None,
    max_iter: int,
    tol: float,
    key: np.uint64,
    engine: Threads | None = None,
    *,
    callbacks: Sequence[Callback] = (),
    resume: Snapshot | None = None,
    fingerprint: Callable[[], str] = str,
) -> Learnt:
    """Batch variational Bayes.

    Parameters
    ----------
    corpus : Corpus
        Counts or weights.
    n_topics : int
        K.
    alpha : (K,) array or None
        Parameter of the proportions, or None: learned.
    eta : float or None
        Parameter of the words, or None: learned.
    max_iter : int
        Sweeps at most.
    tol : float
        Sweeps end when the bound per token has less than this still to rise.
    key : uint64
        Seed.
    engine : Threads, optional
    callbacks, resume, fingerprint
        As in `weald.inference.run.run`.

    Returns
    -------
    Learnt
    """
    batch = batch_of(corpus, np.arange(corpus.n_documents))
    kernel = VariationalSweep(corpus, n_topics, alpha, eta, batch, engine or Threads())
    stop = rising(corpus.n_tokens, tol)
    [chain] = run(
        kernel, key=key, sweeps=max_iter, stop=stop, callbacks=callbacks, resume=resume, fingerprint=fingerprint
    )
    status = judged(chain.stats["objective"], stop, corpus.n_tokens, rises=True)
    state: VariationalState = chain.state
    phi = state.eta + state.S.T
    topics = Topics(phi / phi.sum(axis=1, keepdims=True), state.alpha)
    draws = {"alpha": state.alpha[None, None], "eta": np.array([[state.eta]])}
    stats = {name: values[None] for name, values in chain.stats.items()}
    return Learnt(topics, state.S.sum(axis=0), draws, stats, status)
