"""Stochastic variational inference for the HDP: mini-batches, streams, and a bound that never falls in batch mode.

    nu_k ~ Beta(1, gamma),   sigma_k = nu_k prod_(l<k) (1 - nu_l),   phi_k ~ Dirichlet(eta),        k = 1, ..., K
    pi_dt ~ Beta(1, alpha),  c_dt ~ sigma,  z_dn ~ sticks of pi_d,  w_dn ~ phi[c_d,z_dn],           t = 1, ..., T

K truncates the corpus and T a document (Algorithm 5 of journal (003), with K and T as in its lines; (201)-(203)). Given
E log phi_kw and E log sigma_k, the q of one document are climbed in turn until its share of the bound stands still:

    r_nt     propto exp{ E log pi_t + sum_k zeta_tk E log phi_k,w(n) }          which table a token sits at
    zeta_tk  propto exp{ E log sigma_k + sum_n r_nt E log phi_k,w(n) }          which topic a table has
    pi_t     ~ Beta( 1 + sum_n r_nt,  alpha + sum_n sum_(u>t) r_nu )

Tables start as the T topics that a quick fold-in finds in the document: started all alike, as printed in lines 5 and 6,
they stay alike. Words S and tables C of the topics then move towards those of the batch, scaled to the whole corpus,
with step (tau_0 + t)^-kappa, and q(phi_k) = Dirichlet(eta + S_k), q(nu_k) = Beta(1 + C_k, gamma + sum_(l>k) C_l). Alpha
and gamma take the best value under Gamma priors, eta the fixed-point step of `weald.topics.polya`.

Topics start from a short chain of the exact sampler (`weald.topics.hdp_gibbs`) on some documents; as many again and
`SPARE` more, but no more than K in all, start empty and may be filled. Cost: 2 K T multiplications for each distinct
word of a document and round (`weald.topics.hdp_tables`).
References: Wang, Paisley, Blei (2011); Hoffman, Blei, Wang, Paisley (2013).

    >>> from weald.datasets import make_topics
    >>> X = make_topics(300, 3, 60, 50, 0).X
    >>> corpus = Corpus(X.indptr, X.indices.astype(np.int32), X.data, 60)
    >>> svi(corpus, SVIRule(n_topics=10, batch_size=None), 5, 1e-3, np.uint64(0)).topics.n_topics
    3
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import digamma as psi
from scipy.special import gammaln

from weald._progress import Callback
from weald._random import step_rng, sweep_key
from weald._typing import FloatArray, IntArray
from weald.engine import Threads
from weald.exceptions import Status, Verdict
from weald.inference.run import AbstractKernel, Snapshot, run
from weald.topics.corpus import Corpus
from weald.topics.expect import Batch, batch_of
from weald.topics.fold_in import Topics
from weald.topics.hdp_gibbs import PRIOR, START_ETA, HDPKernel, Prior, n_covering
from weald.topics.hdp_tables import climb, log_words
from weald.topics.outcome import Learnt
from weald.topics.polya import learn_eta
from weald.topics.settled import judged, level, rising

START_TOKENS, START_STEPS = 200_000, 60  # of the chain that topics start from
SPARE = 10  # topics that start empty, beside as many as were found
ETA_EVERY = 10  # batches from one step of eta to the next
ROUNDS, SETTLED = 30, 1e-4  # of a document: at most so many, and the rise of the bound per token that ends them
PIECES, LEAST = 8, 32  # a batch is cut into at most so many pieces, of so many documents or more


@dataclass(frozen=True, eq=False)
class SVIRule:
    """How to learn.

    Parameters
    ----------
    prior : Prior
        What is learned of alpha and gamma, and whether eta is.
    alpha, gamma, eta : float
        Where concentrations start.
    n_topics, n_tables : int
        Truncations K of the corpus and T of a document.
    batch_size : int or None
        Documents of a batch; None takes all of them.
    offset, decay : float
        tau_0 and kappa.
    engine : Threads
    """

    prior: Prior = PRIOR
    alpha: float = 1.0
    gamma: float = 1.0
    eta: float = START_ETA
    n_topics: int = 150
    n_tables: int = 15
    batch_size: int | None = 256
    offset: float = 10.0
    decay: float = 0.7
    engine: Threads = field(default_factory=Threads)


@dataclass(frozen=True, eq=False)
class SVIState:
    """What the next batch needs.

    Parameters
    ----------
    S : (V, K) array
        Expected words of the topics.
    C : (K,) array
        Expected tables of the topics.
    alpha, gamma, eta : float
    rest : float
        Sum over documents and tables of E log(1 - pi).
    worth : float
        Documents that S, C and rest stand for.
    n_steps, n_documents : int
        Batches so far, and the documents of them.
    zeta, g : (D, T, K) and (D, T, 2) arrays
        Batch mode: topics of tables, and parameters of pi; empty otherwise.
    """

    S: FloatArray
    C: FloatArray
    alpha: float
    gamma: float
    eta: float
    rest: float
    worth: float
    n_steps: int
    n_documents: int
    zeta: FloatArray
    g: FloatArray

    @property
    def sticks(self) -> tuple[FloatArray, FloatArray]:
        """Parameters (K - 1,) of q(nu); the last stick is whole."""
        after = np.append(np.cumsum(self.C[::-1])[::-1][1:], 0.0)
        return 1.0 + self.C[:-1], self.gamma + after[:-1]

    @property
    def log_sigma(self) -> FloatArray:
        """(K,): E log sigma (203)."""
        a, b = self.sticks
        whole = psi(a + b)
        return np.append(psi(a) - whole, 0.0) + np.append(0.0, np.cumsum(psi(b) - whole))

    @property
    def sigma(self) -> FloatArray:
        """(K,): E sigma."""
        a, b = self.sticks
        return np.append(a / (a + b), 1.0) * np.append(1.0, np.cumprod(b / (a + b)))


def first_state(rule: SVIRule, corpus: Corpus, n_documents: float, rng: np.random.Generator) -> SVIState:
    """Topics from a short chain on some documents of a corpus of `n_documents`."""
    order = rng.permutation(np.flatnonzero(np.diff(corpus.indptr)))
    rows = order[: int(np.searchsorted(np.cumsum(corpus.lengths[order]), START_TOKENS)) + 1]
    some = _rows(corpus, np.sort(rows))
    chain = HDPKernel(some, rule.prior, rule.alpha, rule.gamma, rule.eta, warmup=2 * START_STEPS)
    state, key = chain.init(rng), sweep_key(rng)
    for sweep in range(START_STEPS):
        state, _ = chain.step(step_rng(key, chain=0, sweep=sweep), state)
    n_kw = chain.n_kw(state)
    sizes = n_kw.sum(axis=1)
    found = np.argsort(-sizes, kind="stable")[: min(n_covering(sizes), rule.n_topics)]
    K = min(rule.n_topics, 2 * found.size + SPARE)
    S = rng.gamma(1.0, rule.eta, (corpus.n_words, K))
    S[:, : found.size] = n_kw[found].T * (n_documents / rows.size)
    C = np.zeros(K)
    C[: found.size] = state.beta[found] * n_documents
    rest = -n_documents * (rule.n_tables - 1) / state.alpha
    none = np.empty((0, rule.n_tables, K)), np.empty((0, rule.n_tables, 2))
    return SVIState(S, C, state.alpha, state.gamma, state.eta, rest, n_documents, 0, 0, *none)


def learn_batch(
    rule: SVIRule, state: SVIState, corpus: Corpus, rows: IntArray, n_documents: float
) -> tuple[SVIState, float]:
    """One step from some documents of a corpus of `n_documents`; the estimate of the bound before it."""
    whole = rule.batch_size is None
    batch, K, T = batch_of(corpus, rows), len(state.C), rule.n_tables
    cold = not (whole and len(state.zeta) == len(rows))
    zeta = np.zeros((len(rows), T, K)) if cold else state.zeta.copy()
    g = np.empty((len(rows), T, 2)) if cold else state.g.copy()
    log_b = np.empty((len(batch.words), K))
    log_words(state.S, state.eta, state.S.sum(axis=0), batch.words, log_b)
    S, C, bound, rest = _expected(rule.engine, batch, log_b, state, zeta, g, cold)
    grown = n_documents / len(rows)
    objective = grown * bound + bound_of_topics(state, rule.prior)
    rate = 1.0 if whole else (rule.offset + state.n_steps) ** -rule.decay
    kept = (1.0 - rate) * n_documents / state.worth
    new_S = kept * state.S
    new_S[batch.words] += rate * grown * S
    after = replace(
        state, S=new_S, C=kept * state.C + rate * grown * C, rest=kept * state.rest + rate * grown * rest,
        worth=n_documents, n_steps=state.n_steps + 1, zeta=zeta if whole else state.zeta, g=g if whole else state.g,
    )  # fmt: skip
    return _concentrated(rule, after, n_documents), objective


def _expected(
    engine: Threads, batch: Batch, log_b: FloatArray, state: SVIState, zeta: FloatArray, g: FloatArray, cold: bool
) -> tuple[FloatArray, FloatArray, float, float]:
    """Words (U, K) and tables (K,) of the topics, the bound of the documents, and sum E log(1 - pi)."""
    n, K = len(zeta), len(state.C)
    n_pieces = min(PIECES, -(-n // LEAST))
    pieces = [slice(i * n // n_pieces, (i + 1) * n // n_pieces) for i in range(n_pieces)]
    log_sigma, sigma = state.log_sigma, state.sigma
    b = np.exp(log_b - log_b.max(axis=1, keepdims=True))

    def of_piece(piece: slice) -> tuple[FloatArray, FloatArray, tuple[float, float]]:
        S, C = np.zeros((len(batch.words), K)), np.zeros(K)
        figures = climb(
            batch.indptr, batch.slots, batch.counts, log_b, b, log_sigma, sigma, state.alpha, piece.start,
            zeta[piece], g[piece], cold, S, C, ROUNDS, SETTLED,
        )  # fmt: skip
        return S, C, figures

    S, C, bound, rest = np.zeros((len(batch.words), K)), np.zeros(K), 0.0, 0.0
    for more_S, more_C, figures in engine.map(of_piece, pieces):
        S += more_S
        C += more_C
        bound, rest = bound + figures[0], rest + figures[1]
    return S, C, bound, rest


def _concentrated(rule: SVIRule, state: SVIState, n_documents: float) -> SVIState:
    """Gamma given the sticks, alpha given the documents, each at its best; a few steps of eta, if whole."""
    alpha, gamma, eta = state.alpha, state.gamma, state.eta
    shape, rate = rule.prior.gamma
    if shape is not None:
        a, b = state.sticks
        gamma = (shape - 1.0 + a.size) / (rate - float((psi(b) - psi(a + b)).sum()))
    shape, rate = rule.prior.alpha
    if shape is not None:
        alpha = (shape - 1.0 + n_documents * (rule.n_tables - 1)) / (rate - state.rest)
    if rule.prior.eta[0] is not None and (rule.batch_size is None or state.n_steps % ETA_EVERY == 0):
        eta, _ = learn_eta(state.S, 1.0, eta)
    return replace(state, alpha=alpha, gamma=gamma, eta=eta)


def bound_of_topics(state: SVIState, prior: Prior) -> float:
    """The part of the bound that no document has: words, sticks, and priors of alpha and gamma."""
    V, eta, n_k = len(state.S), state.eta, state.S.sum(axis=0)
    log_phi = psi(eta + state.S) - psi(V * eta + n_k)
    words = float((gammaln(eta + state.S) - math.lgamma(eta) - state.S * log_phi).sum())
    words += float((math.lgamma(V * eta) - gammaln(V * eta + n_k)).sum())
    a, b = state.sticks
    log_nu, log_rest = psi(a) - psi(a + b), psi(b) - psi(a + b)
    log_norm = gammaln(a) + gammaln(b) - gammaln(a + b)
    sticks = float((math.log(state.gamma) + (state.gamma - b) * log_rest - (a - 1.0) * log_nu + log_norm).sum())
    values = ((state.alpha, prior.alpha), (state.gamma, prior.gamma))
    return words + sticks + sum((s - 1.0) * math.log(x) - r * x for x, (s, r) in values if s is not None)


@dataclass(frozen=True, eq=False)
class SVIPasses(AbstractKernel):
    """One step is a pass over a corpus in memory, in random order; in batch mode one step of all documents."""

    rule: SVIRule
    corpus: Corpus

    def init(self, rng: np.random.Generator) -> SVIState:
        """Topics from a short chain on some documents."""
        return first_state(self.rule, self.corpus, float(np.count_nonzero(np.diff(self.corpus.indptr))), rng)

    def step(self, rng: np.random.Generator, state: SVIState) -> tuple[SVIState, Mapping[str, float]]:
        """Every document once."""
        rows = np.flatnonzero(np.diff(self.corpus.indptr))
        size = self.rule.batch_size or len(rows)
        order = rows if self.rule.batch_size is None else rng.permutation(rows)
        bounds, n = [], len(rows)
        for start in range(0, n, size):
            batch = order[start : start + size]
            state, bound = learn_batch(self.rule, state, self.corpus, batch, n)
            bounds.append(bound * len(batch) / n)
        sizes = state.S.sum(axis=0)
        figures = {"alpha": state.alpha, "gamma": state.gamma, "eta": state.eta, "n_topics": n_covering(sizes)}
        return state, {"objective": sum(bounds), **{name: float(x) for name, x in figures.items()}}


def topics_of(state: SVIState) -> tuple[Topics, FloatArray]:
    """Posterior means of the topics that hold 99 % of the tokens, and their sizes."""
    sizes = state.S.sum(axis=0)
    largest = np.argsort(-sizes, kind="stable")[: n_covering(sizes)]
    phi = state.eta + state.S.T[largest]
    return Topics(phi / phi.sum(axis=1, keepdims=True), state.alpha * state.sigma[largest]), sizes[largest]


def followed(
    rule: SVIRule, state: SVIState | None, corpus: Corpus, n_documents: float | None, key: np.uint64
) -> SVIState:
    """The state after the batches of more documents."""
    rows = np.flatnonzero(np.diff(corpus.indptr))
    seen = len(rows) + (state.n_documents if state is not None else 0)
    total = float(max(seen, n_documents or 0))
    if state is None:
        state = first_state(rule, corpus, total, step_rng(key, chain=0, sweep=0))
    size = rule.batch_size or max(len(rows), 1)
    for start in range(0, len(rows), size):
        state, _ = learn_batch(rule, state, corpus, rows[start : start + size], total)
    return replace(state, n_documents=seen)


def svi(
    corpus: Corpus, rule: SVIRule, max_iter: int, tol: float, key: np.uint64, *, callbacks: Sequence[Callback] = (),
    resume: Snapshot | None = None, fingerprint: Callable[[], str] = str,
) -> Learnt:  # fmt: skip
    """Variational inference on a corpus in memory; a sweep is a pass. Arguments as of `weald.topics.online.online`."""
    whole = rule.batch_size is None
    stop = rising(corpus.n_tokens, tol) if whole else level(corpus.n_tokens, tol)
    [chain] = run(
        SVIPasses(rule, corpus), key=key, sweeps=max_iter, stop=stop, callbacks=callbacks, resume=resume,
        fingerprint=fingerprint,
    )  # fmt: skip
    state = replace(chain.state, n_documents=int(np.count_nonzero(np.diff(corpus.indptr))))
    status = judged(chain.stats["objective"], stop, corpus.n_tokens, rises=whole)
    topics, sizes = topics_of(state)
    if topics.n_topics >= rule.n_topics and rule.n_topics < corpus.n_tokens:
        advice = (f"raise max_topics above {rule.n_topics}",)
        status = Status(Verdict.CAUTION, f"all {rule.n_topics} topics of the truncation are in use", advice)
    values = {"n_topics": topics.n_topics, "alpha": state.alpha, "gamma": state.gamma, "eta": state.eta}
    draws = {name: np.array([[value]]) for name, value in values.items()}
    stats = {name: x[None] for name, x in chain.stats.items()}
    return Learnt(topics, sizes, draws, stats, status, state=replace(state, zeta=state.zeta[:0], g=state.g[:0]))


def _rows(corpus: Corpus, rows: IntArray) -> Corpus:
    """Some documents of a corpus."""
    batch = batch_of(corpus, rows)
    return Corpus(batch.indptr, batch.words[batch.slots], batch.counts, corpus.n_words)
