"""Gibbs sampling of the hierarchical Dirichlet process topic model, topics and proportions integrated out.

    beta ~ GEM(gamma),   theta_d ~ DP(alpha, beta),   z_dn ~ theta_d,   w_dn ~ phi[z_dn],   phi_k ~ Dirichlet(eta)

One step (direct assignment, Teh et al. 2006; journal (003) (30)-(35), (34) with the weight n_jt of a table):

    1. whole topics are split and merged                                                       `weald.topics.hdp_moves`
    2. p(z = k | rest)  propto  (n_dk + alpha beta_k) (n_kw + eta) / (n_k + V eta),
       p(z = new | rest) propto  alpha beta_u / V;  the new topic takes v ~ Beta(1, gamma) of beta_u   `topics.sweeps`
    3. tables m_k = sum over d of the tables of n_dk guests with alpha beta_k                                  (34)
    4. gamma given K and sum m (an auxiliary variable), then (beta, beta_u) ~ Dirichlet(m, gamma)              (35)
    5. alpha given sum m and the lengths of documents, eta given n_kw (slices)

All of this is exact. A chain starts from one topic, and moves of kind 1 find the others; in the first three quarters of
warmup near twins are also fused, which is not exact and hurries them off. A topic's words are averaged over the draws
in which it lives. Cost: the sweep, and some passes over the tokens of a few topics for the moves.

    >>> from weald.inference.run import run
    >>> corpus = Corpus(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.array([3, 3]), 2)
    >>> chain, = run(HDPKernel(corpus), key=np.uint64(1), sweeps=5, collect=collected(10))
    >>> chain.draws["sizes"].sum(axis=1)
    array([6, 6, 6, 6, 6])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from weald._progress import Callback
from weald._random import sweep_key
from weald._typing import Array, FloatArray, IntArray
from weald.exceptions import Status, Verdict
from weald.inference.run import AbstractKernel, Chain, Snapshot, run
from weald.mixtures.outcome import longest
from weald.partitions import DirichletProcess
from weald.partitions.hyper import resample_concentration
from weald.topics.corpus import Corpus, Tokens
from weald.topics.fold_in import Topics
from weald.topics.gibbs import verdict
from weald.topics.hdp_moves import MERGED, SPLIT, Board, Layout, counted, shares
from weald.topics.hyper import log_joint, n_tables
from weald.topics.outcome import Learnt
from weald.topics.sweeps import Swept, sweep

FEWEST_MOVES, TOPICS_A_MOVE = 4, 4  # moves in a step: so many, and one more for so many topics
DENSE = 100  # topics up to which dense sweeps are quicker
FUSE_EVERY, FUSING = 5, 0.75  # steps from one `fuse` to the next, in this part of warmup
START_ETA = 0.1
WORK = 50_000_000  # tokens redrawn by all chains after warmup, if the user does not say
FEWEST_DRAWS, MOST_DRAWS = 100, 500
LEAST_DRAWS = 4  # to judge
NEAR = 0.1  # share by which chains may differ in their mean number of topics, and one topic more
CURES = ("raise warmup and draws", "topics are those of the likeliest chain: see which return with other seeds")
COVERED = 0.99  # share of the tokens that the topics which count must hold


class Prior(NamedTuple):
    """Gamma(shape, rate) priors; a shape of None keeps the value."""

    alpha: tuple[float | None, float] = (1.0, 1.0)
    gamma: tuple[float | None, float] = (1.0, 1.0)
    eta: tuple[float | None, float] = (1.0, 1.0)


PRIOR = Prior()


@dataclass(frozen=True, eq=False)
class HDPState:
    """Where a chain stands.

    Parameters
    ----------
    z : (N,) uint16 array
        Topic of each token, 0, ..., K - 1, all of them in use.
    beta : (K + 1,) array
        Weights of the topics, and of all others together.
    alpha, gamma, eta : float
        Concentrations of documents, of the corpus, and of words.
    sweep : int
        Steps made.
    lives : (K,) int array
        In how many draws since warmup each topic has lived; a split or a merger makes new topics.
    sums : (K, V + 2) array
        Sums over these draws of its expected words, of alpha beta, and of its size.
    """

    z: IntArray
    beta: FloatArray
    alpha: float
    gamma: float
    eta: float
    sweep: int
    lives: IntArray
    sums: FloatArray

    @property
    def n_topics(self) -> int:
        """How many topics hold tokens."""
        return self.beta.size - 1

    @property
    def sizes(self) -> IntArray:
        """(K,): tokens of each topic."""
        return np.bincount(self.z, minlength=self.n_topics)


@dataclass(frozen=True, eq=False)
class HDPKernel(AbstractKernel):
    """One step of the sampler.

    Parameters
    ----------
    corpus : Corpus
        Whole counts.
    prior : Prior
        Of the concentrations.
    alpha, gamma, eta : float
        Values to start from.
    warmup : int
        Steps before draws are averaged.
    n_moves : int or None
        Splits and mergers proposed in each step; None goes by the number of topics.
    """

    corpus: Corpus
    prior: Prior = PRIOR
    alpha: float = 1.0
    gamma: float = 1.0
    eta: float = START_ETA
    warmup: int = 0
    n_moves: int | None = None

    @cached_property
    def tokens(self) -> Tokens:
        """The tokens word by word."""
        return self.corpus.tokens()

    @cached_property
    def layout(self) -> Layout:
        """The tokens document by document."""
        return Layout.of(self.corpus)

    @cached_property
    def lengths(self) -> tuple[FloatArray, IntArray]:
        """Lengths of documents that are not empty, and how many have each."""
        lengths, n_docs = np.unique(self.corpus.lengths[self.corpus.lengths > 0], return_counts=True)
        return np.asarray(lengths), np.asarray(n_docs)

    def init(self, rng: np.random.Generator) -> HDPState:
        """All tokens in one topic."""
        z, V = np.zeros(self.tokens.docs.size, np.uint16), self.corpus.n_words
        beta = rng.dirichlet([1.0, self.gamma])
        return HDPState(z, beta, self.alpha, self.gamma, self.eta, 0, np.zeros(1, np.int64), np.zeros((1, V + 2)))

    def step(self, rng: np.random.Generator, state: HDPState) -> tuple[HDPState, Mapping[str, float]]:
        """Moves of topics, tokens, tables, concentrations."""
        board = Board(self.layout, state.z.copy(), state.beta.copy(), state.alpha, state.gamma, state.eta)
        n_moves = FEWEST_MOVES + state.n_topics // TOPICS_A_MOVE if self.n_moves is None else self.n_moves
        done = [board.move(rng) for _ in range(n_moves)]
        n_fused = board.fuse() if self._may_fuse(state.sweep + 1) else 0
        swept = self._sweep(board, rng)
        moved = settled(state, board, swept)
        m = tables(swept, rng)[swept.n_k > 0]
        after = self._concentrations(moved, swept, m, rng)
        if after.sweep > self.warmup:
            after = averaged(after, self.n_kw(after))
        log_z, log_w = self._log_joint(after, swept)
        sizes = after.sizes
        info = {
            "log_joint": log_z + log_w,
            "log_likelihood": log_w,
            "n_topics": float(n_covering(sizes)),
            "n_occupied": float(after.n_topics),
            "alpha": after.alpha,
            "changed": swept.n_changed / sizes.sum(),
            "n_splits": float(done.count(SPLIT)),
            "n_merges": float(done.count(MERGED) + n_fused),
        }
        return after, info

    def _may_fuse(self, sweep: int) -> bool:
        return sweep % FUSE_EVERY == 0 and sweep <= FUSING * self.warmup

    def _sweep(self, board: Board, rng: np.random.Generator) -> Swept:
        K = board.n_topics
        return sweep(
            self.tokens, board.z, board.alpha * board.beta, board.eta, sweep_key(rng),
            method="dense" if K < DENSE else "sparse", spare=K, gamma=board.gamma,
        )  # fmt: skip

    def n_kw(self, state: HDPState) -> FloatArray:
        """(K, V): words of the topics."""
        return counted(self.tokens.words, state.z, state.n_topics, self.corpus.n_words)

    def _concentrations(self, state: HDPState, swept: Swept, m: IntArray, rng: np.random.Generator) -> HDPState:
        """Gamma, the weights, alpha and eta, given the tables m (K,)."""
        gamma = DirichletProcess(state.gamma, *self.prior.gamma).update(m, rng).concentration
        beta = np.maximum(rng.dirichlet(np.append(m, gamma)), np.finfo(float).tiny)
        alpha = resample_concentration(state.alpha, *self.prior.alpha, self._log_tables(int(m.sum())), rng)
        eta = resample_concentration(state.eta, *self.prior.eta, self._log_words(swept), rng)
        return replace(state, beta=beta, alpha=alpha, gamma=gamma, eta=eta)

    def _log_joint(self, state: HDPState, swept: Swept) -> tuple[float, float]:
        """Log p(z | alpha, beta) and log p(w | z, eta)."""
        a = np.zeros(swept.n_k.size)
        a[swept.n_k > 0], a[-1] = state.alpha * state.beta[:-1], state.alpha * state.beta[-1]
        return log_joint(swept, a, state.eta, self.corpus.n_words, np.repeat(*self.lengths))

    def _log_tables(self, n_tables: int) -> Callable[[float], float]:
        """Log likelihood of alpha."""
        lengths, n_docs = self.lengths
        D = n_docs.sum()
        return lambda a: float(n_tables * np.log(a) + D * gammaln(a) - n_docs @ gammaln(a + lengths))

    def _log_words(self, swept: Swept) -> Callable[[float], float]:
        """Log likelihood of eta."""
        i, n_k, V = np.arange(swept.word_reached.size), swept.n_k[swept.n_k > 0], self.corpus.n_words
        return lambda eta: float(
            swept.word_reached @ np.log(eta + i) + n_k.size * gammaln(V * eta) - gammaln(V * eta + n_k).sum()
        )


def tables(swept: Swept, rng: np.random.Generator) -> IntArray:
    """(K,): tables of each topic, in all documents."""
    ends = zip(swept.starts[:-1], swept.starts[1:], swept.alpha, strict=True)
    return np.array([n_tables(swept.reached[i:j], a, rng) for i, j, a in ends])


def settled(state: HDPState, board: Board, swept: Swept) -> HDPState:
    """The state after a sweep: topics without tokens give their weight back, the others close ranks."""
    used = swept.n_k > 0
    origin = np.append(board.origin, np.full(used.size - board.n_topics, -1))[used]
    old = (origin >= 0)[:, None]
    beta = swept.alpha / board.alpha
    return replace(
        state,
        z=(np.cumsum(used) - 1).astype(np.uint16)[swept.z],
        beta=np.append(beta[used], beta[~used].sum()),
        sweep=state.sweep + 1,
        lives=state.lives[origin] * old[:, 0],
        sums=state.sums[origin] * old,
    )


def averaged(state: HDPState, n_kw: FloatArray) -> HDPState:
    """One more draw in the sums."""
    own = np.column_stack([state.alpha * state.beta[:-1], n_kw.sum(axis=1)])
    sums = state.sums + np.hstack([shares(n_kw, state.eta), own])
    return replace(state, lives=state.lives + 1, sums=sums)


def n_covering(sizes: Array, share: float = COVERED) -> int:
    """The fewest topics that hold this share of the tokens."""
    held = np.cumsum(np.sort(sizes)[::-1])
    return int(np.searchsorted(held, share * held[-1] * (1.0 - 1e-12))) + 1


def collected(most: int) -> Callable[[HDPState], Mapping[str, Array]]:
    """What is kept of a state: sizes of the `most` largest topics, and the concentrations."""

    def collect(state: HDPState) -> Mapping[str, Array]:
        sizes = np.zeros(most, np.int64)
        largest = np.sort(state.sizes)[::-1][:most]
        sizes[: largest.size] = largest
        kept = {"n_topics": n_covering(state.sizes), "n_occupied": state.n_topics}
        concentrations = {"alpha": state.alpha, "gamma": state.gamma, "eta": state.eta}
        return {"sizes": sizes, **{name: np.array(x) for name, x in {**kept, **concentrations}.items()}}

    return collect


def gibbs(
    corpus: Corpus, *, prior: Prior, alpha: float, gamma: float, eta: float, most: int, draws: int | None,
    warmup: int | None, chains: int, key: np.uint64, callbacks: Sequence[Callback] = (), resume: Snapshot | None = None,
    fingerprint: Callable[[], str] = str,
) -> Learnt:  # fmt: skip
    """Run chains; what they leave.

    Parameters
    ----------
    corpus : Corpus
        Whole counts.
    prior : Prior
    alpha, gamma, eta : float
        Concentrations to start from.
    most : int
        A chain with more topics is stopped.
    draws, warmup : int or None
        Kept steps of each chain, and steps before them; None goes by the number of tokens.
    chains : int
    key : uint64
        Seed.
    callbacks, resume, fingerprint
        As in `weald.inference.run.run`.

    Returns
    -------
    Learnt
        Topics of the chain of the highest mean likelihood, averaged over its draws: those that hold 99 % of the tokens.
    """
    half = int(np.clip(WORK / (corpus.n_tokens * chains), FEWEST_DRAWS, MOST_DRAWS))
    draws, warmup = half if draws is None else draws, half if warmup is None else warmup
    kernel = HDPKernel(corpus, prior, alpha, gamma, eta, warmup)
    found: Sequence[Chain] = run(
        kernel, key=key, sweeps=warmup + draws, chains=chains, warmup=warmup, collect=collected(most),
        stop=lambda stats: stats["n_occupied"][-1] > most, callbacks=callbacks, resume=resume, fingerprint=fingerprint,
    )  # fmt: skip
    stopped = any(chain.stats["n_occupied"][-1] > most for chain in found)
    if stopped or not any(chain.draws for chain in found):
        n, kept = 0, [{name: x[None] for name, x in collected(most)(chain.state).items()} for chain in found]
    else:
        found, n = longest(found, "n_topics")
        kept = [{name: x[:n] for name, x in chain.draws.items()} for chain in found]
    n_steps = min(chain.stats["n_topics"].size for chain in found)
    stats = {name: np.stack([chain.stats[name][:n_steps] for chain in found]) for name in found[0].stats}
    best = int(np.argmax(stats["log_joint"][:, -max(n, 1) :].mean(axis=1)))
    topics, sizes = _topics(kernel, found[best].state)
    status = _too_many(most) if stopped else _judged(stats, min(warmup, n_steps), n, int(corpus.n_tokens))
    columns = {name: np.stack([draw[name] for draw in kept]) for name in kept[0]}
    return Learnt(topics, sizes, columns, stats, status, min(warmup, n_steps), attrs={"chain": best})


def _topics(kernel: HDPKernel, state: HDPState) -> tuple[Topics, FloatArray]:
    """Averages over the life of the topics that hold 99 % of the tokens, and their sizes."""
    if not state.lives.any():
        state = averaged(state, kernel.n_kw(state))
    alive = state.lives > 0
    mean = state.sums[alive] / state.lives[alive, None]
    largest = np.argsort(-mean[:, -1], kind="stable")[: n_covering(mean[:, -1])]
    return Topics(mean[largest, :-2], mean[largest, -2]), mean[largest, -1]


def _too_many(most: int) -> Status:
    advice = (
        f"raise max_topics above {most} if so many are real",
        "give a larger eta: topics may be expected to have too few words each",
        "leave out rare words (min_df) and very short documents",
    )
    return Status(Verdict.FAILED, f"more than {most} topics: the run was stopped", advice, {"max_topics": float(most)})


def _judged(stats: Mapping[str, Array], warmup: int, n_draws: int, n_tokens: int) -> Status:
    """Whether the chains agree on the number of topics, and on how well they explain the tokens."""
    if n_draws < LEAST_DRAWS:
        judgement = Verdict.CAUTION if n_draws else Verdict.FAILED
        return Status(judgement, f"{n_draws} draws are too few: this is where the chains stood", ("raise draws",))
    n_topics = stats["n_topics"][:, warmup:].mean(axis=1)
    fewest, most = float(n_topics.min()), float(n_topics.max())
    status = verdict(stats, warmup, n_tokens)
    figures = {**status.figures, "fewest_topics": fewest, "most_topics": most}
    if most - fewest > 1.0 + NEAR * most:
        message = f"chains disagree on the number of topics: {fewest:.1f} to {most:.1f} on average"
        return Status(Verdict.CAUTION, message, CURES, figures)
    return replace(status, figures=figures, advice=() if status.ok else CURES)
