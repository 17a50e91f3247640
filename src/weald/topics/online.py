"""Online variational Bayes for LDA (Algorithm 3): topics follow small batches, and memory is that of one batch.

    E-step    gamma_d, S_kw = sum over the batch of n_dw r_dwk, with q(phi) as it is               (163)-(164)
    M-step    lambda <- (1 - rho_t) lambda + rho_t (eta + D / B S),   rho_t = (tau_0 + t)^-kappa   (165)

lambda - eta is kept as a number times a (V, K) array, so that a step touches the words of its batch only and its cost
does not depend on the vocabulary. Alpha (one for each topic) takes the share rho_t of its fixed-point update on the
batch; eta is learned from lambda, which reads every entry, once in a while. Topics start from anchor words of the first
documents (`weald.topics.anchors`): from a random start some stay merged for good.

Variational Bayes believes what it says early: exp E[log phi] of a word with few counts is far below E[phi], and topics
that lose words in the first steps do not get them back. So the first 50,000 documents, or four passes, are read with
E[theta] and E[phi] in place of exp E[log], alpha and eta as they start: online EM, whose topics are still fluid. On 20
Newsgroups this raises the final bound by 0.2 for each token.

The objective of a pass is the bound of the documents given topics, batch by batch, before each batch was learned from:
like held-out evidence it rises as topics improve. Passes stop when it has stopped. Cost of a batch: 2 K multiplications
for each distinct word of a document and round, some tens of rounds.

References: M. Hoffman, D. Blei, F. Bach (2010), Online learning for latent Dirichlet allocation; journal (003) 3.2.

    >>> from weald.datasets import make_topics
    >>> X = make_topics(500, 3, 60, 50, 0).X
    >>> corpus = Corpus(X.indptr, X.indices.astype(np.int32), X.data, 60)
    >>> online(corpus, OnlineRule(3), 10, 1e-3, np.uint64(0)).topics.phi.shape
    (3, 60)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weald._progress import Callback
from weald._typing import FloatArray, IntArray
from weald.engine import Threads
from weald.exceptions import Status
from weald.inference.run import AbstractKernel, Snapshot, run
from weald.topics.anchors import anchor_topics
from weald.topics.corpus import Corpus
from weald.topics.expect import FLOORS, batch_of, expect_all, expected_words
from weald.topics.fold_in import Topics
from weald.topics.outcome import Learnt
from weald.topics.polya import follow_alpha, learn_eta
from weald.topics.settled import judged, level

ROUNDS, SETTLED = 100, 1e-3  # of the E-step: at most so many, and the mean change of n_dk that ends it
SOFT_DOCUMENTS, SOFT_PASSES = 50_000, 4  # read with means: so many, or passes over the corpus if that is less
START_TOKENS = 100.0  # tokens for each word of the vocabulary used that the start is worth, at most those of the corpus
ETA_EVERY = 50  # eta is learned when batches have had so many entries for each word of the vocabulary
ETA_STEPS, ETA_SETTLED = 5, 0.02  # steps each time, and the change of log eta that ends them
FIRST_MASS, FIRST_ETA = 2.0, 0.01  # sum of alpha, and eta, at first
TINY = 1e-100


@dataclass(frozen=True, eq=False)
class OnlineRule:
    """What does not change from batch to batch.

    Parameters
    ----------
    n_topics : int
        K.
    alpha : (K,) array or None
        Known parameter of the proportions, or None: learned.
    eta : float or None
        Known parameter of the words, or None: learned.
    offset, decay : float
        tau_0 and kappa.
    batch_size : int
        Documents of a batch, where a corpus is cut.
    engine : Threads
    """

    n_topics: int
    alpha: FloatArray | None = None
    eta: float | None = None
    offset: float = 10.0
    decay: float = 0.7
    batch_size: int = 256
    engine: Threads = field(default_factory=Threads)

    def cut(self, rows: IntArray) -> list[IntArray]:
        """Batches of nearly equal size, at most `batch_size`; none where there are no rows."""
        return np.array_split(rows, -(-len(rows) // self.batch_size)) if len(rows) else []


@dataclass(frozen=True, eq=False)
class OnlineState:
    """What the next batch needs.

    Parameters
    ----------
    weights : (V, K) array
        (lambda - eta) / scale; changed in place.
    scale : float
    n_k : (K,) array
        Expected tokens of each topic: column sums of scale * weights.
    alpha : (K,) array
    eta : float
    n_steps, n_documents : int
        Batches and documents so far.
    n_entries : int
        Entries since eta was learned.
    """

    weights: FloatArray
    scale: float
    n_k: FloatArray
    alpha: FloatArray
    eta: float
    n_steps: int = 0
    n_documents: int = 0
    n_entries: int = 0

    @property
    def topics(self) -> Topics:
        """Posterior means."""
        phi = self.eta + self.scale * self.weights.T
        phi /= phi.sum(axis=1, keepdims=True)
        return Topics(phi, self.alpha)


def first_state(rule: OnlineRule, corpus: Corpus, n_documents: float, rng: np.random.Generator) -> OnlineState:
    """Topics from anchor words of the documents at hand, of which the whole corpus has `n_documents`."""
    K = rule.n_topics
    used = np.count_nonzero(corpus.frequencies)
    worth = min(START_TOKENS * used, corpus.n_tokens * n_documents / corpus.n_documents)
    weights = np.ascontiguousarray(anchor_topics(corpus, K, rng).T) * (worth / K)
    alpha = np.full(K, FIRST_MASS / K) if rule.alpha is None else rule.alpha
    return OnlineState(weights, 1.0, weights.sum(axis=0), alpha, FIRST_ETA if rule.eta is None else rule.eta)


def learn_batch(
    rule: OnlineRule, state: OnlineState, corpus: Corpus, rows: IntArray, n_documents: float
) -> tuple[OnlineState, dict[str, float]]:
    """One step of Algorithm 3 from some documents of a corpus; `state.weights` is changed in place.

    n_documents is the size of the whole corpus, D. Figures: bound of the documents before the step, tokens, rounds, and
    documents that were read with means.
    """
    soft = is_soft(state, n_documents)
    batch = batch_of(corpus, rows, np.float32)
    b, largest = np.empty((len(batch.words), rule.n_topics), np.float32), np.empty(len(batch.words))
    expected_words(state.weights, state.scale, state.eta, state.n_k, batch.words, FLOORS[b.dtype], b, largest, soft)
    n_dk = batch.spread(rule.n_topics)
    found = expect_all(batch, b, largest, state.alpha, n_dk, rule.engine, ROUNDS, SETTLED, soft)
    rate = (rule.offset + state.n_steps) ** -rule.decay
    alpha, value = follow_alpha(n_dk, state.alpha, 0.0 if soft or rule.alpha is not None else rate)
    figures = {
        "objective": found.entropy + value, "n_tokens": float(n_dk.sum()), "n_rounds": float(found.n_rounds),
        "n_soft": float(soft * batch.n_documents),
    }  # fmt: skip
    grown = rate * n_documents / batch.n_documents
    scale = state.scale * (1.0 - rate)
    if scale < TINY:
        np.multiply(state.weights, scale, out=state.weights)
        scale = 1.0
    state.weights[batch.words] += (grown / scale) * found.S
    after = replace(
        state, scale=scale, n_k=(1.0 - rate) * state.n_k + grown * found.S.sum(axis=0), alpha=alpha,
        n_steps=state.n_steps + 1, n_documents=state.n_documents + batch.n_documents,
        n_entries=state.n_entries + len(batch.slots),
    )  # fmt: skip
    hard = not is_soft(after, n_documents)
    due = rule.eta is None and hard and (soft or after.n_entries >= ETA_EVERY * corpus.n_words)
    return (with_eta(after) if due else after), figures


def is_soft(state: OnlineState, n_documents: float) -> bool:
    """Whether the next batch is read with means."""
    return state.n_documents < min(SOFT_DOCUMENTS, SOFT_PASSES * n_documents)


def with_eta(state: OnlineState) -> OnlineState:
    """Eta learned from the topics as they are."""
    eta = state.eta
    for _ in range(ETA_STEPS):
        before, (eta, _) = eta, learn_eta(state.weights, state.scale, eta)
        if abs(np.log(eta / before)) < ETA_SETTLED:
            break
    return replace(state, eta=eta, n_entries=0)


@dataclass(frozen=True, eq=False)
class OnlinePasses(AbstractKernel):
    """One step is a pass over a corpus in memory, in random order."""

    rule: OnlineRule
    corpus: Corpus

    def init(self, rng: np.random.Generator) -> OnlineState:
        """Topics from anchor words."""
        return first_state(self.rule, self.corpus, self.corpus.n_documents, rng)

    def step(self, rng: np.random.Generator, state: OnlineState) -> tuple[OnlineState, Mapping[str, float]]:
        """Every document once."""
        order = rng.permutation(np.flatnonzero(np.diff(self.corpus.indptr)))
        state = replace(state, weights=state.weights.copy())
        total = dict.fromkeys(("objective", "n_tokens", "n_rounds", "n_soft"), 0.0)
        for rows in self.rule.cut(order):
            state, figures = learn_batch(self.rule, state, self.corpus, rows, len(order))
            total = {name: total[name] + value for name, value in figures.items()}
        if self.rule.eta is None and not is_soft(state, len(order)):
            state = with_eta(state)
        return state, {**total, "eta": state.eta}


def online(
    corpus: Corpus,
    rule: OnlineRule,
    max_iter: int,
    tol: float,
    key: np.uint64,
    *,
    callbacks: Sequence[Callback] = (),
    resume: Snapshot | None = None,
    fingerprint: Callable[[], str] = str,
) -> Learnt:
    """Online variational Bayes on a corpus in memory.

    Parameters
    ----------
    corpus : Corpus
        Counts or weights.
    rule : OnlineRule
    max_iter : int
        Passes at most.
    tol : float
        Passes end when the objective per token rises by less than this.
    key : uint64
        Seed.
    callbacks, resume, fingerprint
        As in `weald.inference.run.run`; a sweep is a pass.

    Returns
    -------
    Learnt
    """
    settled = level(corpus.n_tokens, tol)

    def stop(stats: Mapping[str, Sequence[float]]) -> bool:
        return not any(stats["n_soft"][-2:]) and settled(stats)

    [chain] = run(
        OnlinePasses(rule, corpus), key=key, sweeps=max_iter, stop=stop, callbacks=callbacks, resume=resume,
        fingerprint=fingerprint,
    )  # fmt: skip
    arrived = stop({name: values.tolist() for name, values in chain.stats.items()})
    status = judged(chain.stats["objective"], lambda _: arrived, corpus.n_tokens, rises=False)
    return learnt(chain.state, {name: values[None] for name, values in chain.stats.items()}, status)


def learnt(state: OnlineState, stats: Mapping[str, FloatArray], status: Status) -> Learnt:
    """What the estimator is told."""
    draws = {"alpha": state.alpha[None, None], "eta": np.array([[state.eta]])}
    return Learnt(state.topics, state.n_k, draws, stats, status, state=state)
