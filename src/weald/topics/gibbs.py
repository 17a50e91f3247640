"""Latent Dirichlet allocation by collapsed Gibbs sampling, alpha and eta learned.

    theta_d ~ Dirichlet(alpha),   z_t ~ theta_d,   phi_k ~ Dirichlet(eta),   w_t ~ phi[z_t]        (99)-(102)

Theta and phi are integrated out (112); a step redraws every label (`weald.topics.sweeps`), then alpha and eta
(`weald.topics.hyper`), all exactly. The first labels are drawn from p(k | w) under topics of anchor words
(`weald.topics.anchors`): from random labels two topics often stay merged for good. Of the sweeps after warmup, every
`thin`-th adds to the means that make the result,

    phi_kw = mean of (n_kw + eta) / (n_k + V eta),      alpha = mean of alpha,

taken within one chain, that with the best mean log joint, for topics of two chains have no common numbers. All chains
together say whether they agree: R-hat of the log joint, or halves of chains that differ by less than matters.

Which sweep is faster follows from what it computes: a dense one K weights for each token, eight at a time; a sparse one
as many as the document has topics, one by one, which takes five times as long. Both have one law. Where documents have
hundreds of topics alias sweeps take over, whose cost is fixed. The choice is free to change during warmup only. Cost at
K = 20 about 0.05 us for each token and sweep, at K = 1,000 about 0.07 us. Memory: 16 bytes for each token, and 4 K V
for the mean of phi.

    >>> from weald.datasets import make_topics
    >>> X = make_topics(200, 3, 60, 50, 0).X
    >>> corpus = Corpus(X.indptr, X.indices.astype(np.int32), X.data, 60)
    >>> gibbs(corpus, 3, key=np.uint64(0)).topics.phi.shape
    (3, 60)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from weald._kernel import kernel
from weald._progress import Callback
from weald._random import sweep_key
from weald._typing import JSON, Array, FloatArray, IntArray
from weald.exceptions import DataError, ParameterError, Status, Verdict
from weald.inference.run import AbstractKernel, Chain, Snapshot, run
from weald.mixtures.verdict import of_chains
from weald.topics.anchors import anchor_topics
from weald.topics.corpus import Corpus, Tokens
from weald.topics.fold_in import Topics
from weald.topics.hyper import draw_alpha, draw_eta, log_joint
from weald.topics.matching import match_topics
from weald.topics.outcome import Learnt
from weald.topics.sweeps import MOST_TOPICS, sweep
from weald.trees.alias import AliasTable

WARMUP, DRAWS = 100, 100
MOST_MEANS = 50  # draws that make the means
FIRST_MASS, FIRST_ETA = 2.0, 0.05  # sum of alpha, and eta, at first
LISTED = 5.0  # topics that a dense sweep weighs while a sparse one weighs a topic of a list
ALIAS = 200.0  # topics of a document from which on alias sweeps gain more than their smaller steps lose
AT_ONCE = 4_000_000  # weights, and first labels, made at a time
CLOSE, FEWEST = 0.005, 10  # nats per token that do not matter, half a percent of perplexity; draws of half a chain
CURE = "chains have found different topics: raise warmup, or look at topics that only one of them has"


@dataclass(frozen=True, eq=False)
class LDAState:
    """Where a chain stands.

    Parameters
    ----------
    z : (N,) uint16 array
        Topic of each token, word by word.
    alpha : (K,) array
        Prior weights of the topics in a document.
    eta : float
        Prior weight of a word in a topic.
    listed : float
        Topics of a document, on average, in the last sweep of warmup.
    sweep, n_means : int
        Sweeps made, and draws in the sums.
    words : (V, K) float32 array
        Sum over draws of n_kw / (n_k + V eta); (0, K) before the first one.
    floor, sizes : (K,) arrays
        Sums over draws of eta / (n_k + V eta), and of n_k.
    """

    z: IntArray
    alpha: FloatArray
    eta: float
    listed: float
    sweep: int
    n_means: int
    words: FloatArray
    floor: FloatArray
    sizes: FloatArray

    @property
    def phi(self) -> FloatArray:
        """(K, V): mean probability of each word in each topic."""
        phi = (self.words.T + self.floor[:, None]) / self.n_means
        return np.asarray(phi / phi.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class LDAKernel(AbstractKernel):
    """One step of the sampler.

    Parameters
    ----------
    corpus : Corpus
        Whole counts.
    n_topics : int
        K.
    alpha : (K,) array or None
        Prior weights; None learns them.
    eta : float or None
        Prior weight of words; None learns it.
    sampler : str
        ``"auto"``, or the sweep.
    warmup, thin : int
        After `warmup` steps every `thin`-th adds to the means.
    """

    corpus: Corpus
    n_topics: int
    alpha: FloatArray | None = None
    eta: float | None = None
    sampler: str = "auto"
    warmup: int = WARMUP
    thin: int = 1

    @cached_property
    def tokens(self) -> Tokens:
        """The tokens word by word."""
        return self.corpus.tokens()

    @cached_property
    def lengths(self) -> FloatArray:
        """Tokens of the documents that are not empty."""
        return self.corpus.lengths[self.corpus.lengths > 0]

    def init(self, rng: np.random.Generator) -> LDAState:
        """Labels drawn from topics of anchor words."""
        K = self.n_topics
        z = labels(self.tokens, anchor_topics(self.corpus, K, rng), rng)
        alpha = np.full(K, FIRST_MASS / K) if self.alpha is None else self.alpha
        eta = FIRST_ETA if self.eta is None else self.eta
        listed = min(float(K), self.corpus.n_tokens / self.lengths.size)
        return LDAState(z, alpha, eta, listed, 0, 0, np.zeros((0, K), np.float32), np.zeros(K), np.zeros(K))

    def step(self, rng: np.random.Generator, state: LDAState) -> tuple[LDAState, Mapping[str, float]]:
        """All labels, alpha, eta."""
        key, V, N = sweep_key(rng), self.corpus.n_words, self.tokens.docs.size
        swept = sweep(self.tokens, state.z, state.alpha, state.eta, key, method=self.method(state.listed))
        alpha = draw_alpha(swept, state.alpha, self.lengths, rng) if self.alpha is None else state.alpha
        eta = draw_eta(swept, state.eta, V, rng) if self.eta is None else state.eta
        log_z, log_w = log_joint(swept, alpha, eta, V, self.lengths)
        firsts = swept.starts[:-1][np.diff(swept.starts) > 0]
        listed = float(swept.reached[firsts].sum()) / self.lengths.size if state.sweep < self.warmup else state.listed
        after = replace(state, z=swept.z, alpha=alpha, eta=eta, listed=listed, sweep=state.sweep + 1)
        info = {
            "log_joint": log_z + log_w,
            "log_likelihood": log_w / N,
            "n_evals": float(swept.n_evals),
            "renewed": swept.n_changed / N,
            "topics_per_document": float(swept.reached[firsts].sum()) / self.lengths.size,
            "alpha_sum": float(alpha.sum()),
            "eta": eta,
        }
        return self._averaged(after, swept.n_k), info

    def method(self, listed: float) -> str:
        """The sweep for documents with so many topics on average: the one with less work."""
        if self.sampler != "auto":
            return self.sampler
        if self.n_topics <= LISTED * listed:
            return "dense" if self.n_topics <= LISTED * ALIAS else "alias"
        return "sparse" if listed <= ALIAS else "alias"

    def _averaged(self, state: LDAState, n_k: IntArray) -> LDAState:
        """The state with its draw in the means, where it is due."""
        if state.sweep <= self.warmup or (state.sweep - self.warmup) % self.thin:
            return state
        scale = 1.0 / (n_k + self.corpus.n_words * state.eta)
        words = state.words.copy() if state.n_means else np.zeros((self.corpus.n_words, self.n_topics), np.float32)
        add_words(self.tokens.offsets, state.z, scale, words)
        floor, sizes = state.floor + state.eta * scale, state.sizes + n_k
        return replace(state, words=words, floor=floor, sizes=sizes, n_means=state.n_means + 1)


def labels(tokens: Tokens, phi: FloatArray, rng: np.random.Generator) -> IntArray:
    """(N,) uint16: a topic for each token, drawn in proportion to phi (K, V) of its word."""
    K, V = phi.shape
    z, w = np.empty(tokens.docs.size, np.uint16), 0
    while w < V:
        most = int(np.searchsorted(tokens.offsets, tokens.offsets[w] + AT_ONCE, side="right")) - 1
        stop = min(max(w + 1, most), w + max(1, AT_ONCE // K), V)
        offsets = tokens.offsets[w : stop + 1]
        rows = np.repeat(np.arange(stop - w), np.diff(offsets))
        table = AliasTable(np.ascontiguousarray(phi[:, w:stop].T))
        z[offsets[0] : offsets[-1]] = table.draw(rng, rows.size, rows)
        w = stop
    return z


@kernel
def add_words(offsets: IntArray, z: IntArray, scale: FloatArray, words: FloatArray) -> None:
    """Add n_kw scale_k to words (V, K)."""
    n_w = np.zeros(scale.shape[0], np.int64)
    for w in range(offsets.shape[0] - 1):
        for t in range(offsets[w], offsets[w + 1]):
            n_w[z[t]] += 1
        for t in range(offsets[w], offsets[w + 1]):
            k = z[t]
            words[w, k] += n_w[k] * scale[k]
            n_w[k] = 0


def gibbs(
    corpus: Corpus,
    n_topics: int,
    *,
    alpha: float | Array | None = None,
    eta: float | None = None,
    sampler: str = "auto",
    draws: int | None = None,
    warmup: int | None = None,
    chains: int = 1,
    key: np.uint64,
    callbacks: Sequence[Callback] = (),
    resume: Snapshot | None = None,
    fingerprint: Callable[[], str] = str,
) -> Learnt:
    """Topics of a corpus by collapsed Gibbs sampling.

    Parameters
    ----------
    corpus : Corpus
        Whole counts.
    n_topics : int
        K.
    alpha : float or (K,) array, optional
        Prior weight of each topic in a document; None learns one for each.
    eta : float, optional
        Prior weight of each word in a topic; None learns it.
    sampler : str
        ``"dense"``, ``"sparse"``, ``"alias"``, or ``"auto"``: the one with less work.
    draws, warmup : int, optional
        Kept sweeps, and sweeps before them.
    chains : int
        Independent chains.
    key : uint64
        Seed.
    callbacks, resume, fingerprint
        As in `weald.inference.run.run`.

    Returns
    -------
    Learnt
        Topics are means over draws of the chain with the best mean log joint.
    """
    if n_topics > MOST_TOPICS:
        raise ParameterError(f"n_topics must be at most {MOST_TOPICS} for inference='gibbs', got {n_topics}")
    draws, warmup = DRAWS if draws is None else draws, WARMUP if warmup is None else warmup
    given = None if alpha is None else np.broadcast_to(np.float64(alpha), n_topics).copy()
    kernel = LDAKernel(
        corpus, n_topics, given, None if eta is None else float(eta), sampler, warmup, max(1, draws // MOST_MEANS)
    )
    ran = run(
        kernel, key=key, sweeps=warmup + draws, chains=chains, warmup=warmup, collect=collected, callbacks=callbacks,
        resume=resume, fingerprint=fingerprint,
    )  # fmt: skip
    return learnt(kernel, ran)


def collected(state: LDAState) -> Mapping[str, Array]:
    """What is kept of every draw."""
    return {"alpha": state.alpha, "eta": np.array(state.eta)}


def learnt(kernel: LDAKernel, chains: Sequence[Chain]) -> Learnt:
    """The outcome of chains; those that were stopped before the first mean do not count."""
    chains = [chain for chain in chains if chain.state.n_means]
    if not chains:
        raise DataError("the run was stopped before its first draw: let it pass warmup")
    n_sweeps = min(chain.stats["log_joint"].size for chain in chains)
    n_draws = n_sweeps - kernel.warmup
    stats = {name: np.stack([chain.stats[name][:n_sweeps] for chain in chains]) for name in chains[0].stats}
    best = int(stats["log_joint"][:, kernel.warmup :].mean(axis=1).argmax())
    state = chains[best].state
    phi = state.phi
    orders = [match_topics(phi, chain.state.phi).order for chain in chains]
    draws = {
        "alpha": np.stack([c.draws["alpha"][:n_draws, order] for c, order in zip(chains, orders, strict=True)]),
        "eta": np.stack([chain.draws["eta"][:n_draws] for chain in chains]),
    }
    topics = Topics(phi, chains[best].draws["alpha"].mean(axis=0))
    status = verdict(stats, kernel.warmup, kernel.tokens.docs.size)
    attrs = {**_choice(kernel, state), "chain_of_topics": best, "draws_averaged": state.n_means}
    return Learnt(topics, state.sizes / state.n_means, draws, stats, status, kernel.warmup, attrs=attrs)


def verdict(stats: Mapping[str, FloatArray], warmup: int, n_tokens: int) -> Status:
    """R-hat and effective sample size of the log joint, unless halves of chains differ by less than would matter."""
    status = of_chains(stats, warmup, ("log_joint",), CURE)
    kept = stats["log_joint"][:, warmup:] / n_tokens
    n = kept.shape[1] // 2
    if status.verdict is not Verdict.CAUTION or n < FEWEST:
        return status
    means = np.concatenate([kept[:, :n].mean(axis=1), kept[:, -n:].mean(axis=1)])
    apart = float(np.ptp(means))
    figures = {**status.figures, "nats_apart": apart}
    if apart > CLOSE:
        return replace(status, figures=figures)
    text = f"halves of {len(kept)} chain{'s' * (len(kept) > 1)} agree to {apart:.4f} nats of log joint per token"
    return Status(Verdict.OK, text, (), figures)


def _choice(kernel: LDAKernel, state: LDAState) -> dict[str, JSON]:
    """Which sweep was taken after warmup, and why."""
    method = kernel.method(state.listed)
    if kernel.sampler != "auto":
        return {"sampler": method, "sampler_why": "asked for"}
    why = f"{kernel.n_topics} topics in vectors of 8, {state.listed:.1f} topics of a document one by one, or proposals"
    return {"sampler": method, "sampler_why": f"less work: {why}"}
