"""Moves of whole topics: a topic is split in two, or two are merged, in one exact step.

Tokens that move one at a time never divide a topic that stands for several. With the tables summed out, the law of the
assignments z of tokens and of the weights beta of the topics in use is

    p(z, beta) p(w | z)  propto  gamma^K beta_u^(gamma - 1) prod_k beta_k^-1 D(n_k.; eta)
                                 prod_dk Gamma(alpha beta_k + n_dk) / Gamma(alpha beta_k),

D the Dirichlet-multinomial evidence of the words of a topic, beta_u the weight of all topics not in use. A split of
topic m proposes

    shares   v beta_m and (1 - v) beta_m,    logit v uniform on [-LONGEST, 0]
    launch   words phi_1, phi_2 of two topics: expected sides of the tokens settle for a few rounds, from the words of
             two documents; they are told nothing of how the tokens lie now
    tokens   document by document, one after the other, side s with weight (n_ds + r_ds + alpha beta_s) phi_sw, n_ds of
             the tokens before and r_ds expected, as the launch has settled, of those after

and its reverse, the merger, is judged by the probability with which the tokens would be put back where they are now.
The topic to split is drawn by its size, the pair to merge by the likeness of its words. A topic that stands for two
gains thousands of nats by a split, and the proposal costs it some dozens: chains that start from one topic soon have as
many as they need. Mergers are accepted of small topics; large twins have settled in a way that no launch foresees, and
waste away by moves of tokens. `fuse`, for warmup only, takes their present words for the launch, which makes it ready
to merge rather than exact. Cost: 2 ROUNDS passes over the tokens of one topic.

References: Jain and Neal (2004), restricted launches; Dahl (2005), sequential allocation; Wang and Blei (2012),
split-merge for the HDP, with the tables kept; journal (003) (30)-(35).

    >>> from weald.topics.corpus import Corpus
    >>> corpus = Corpus(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.array([3, 3]), 2)
    >>> board = Board(Layout.of(corpus), np.zeros(6, np.int32), np.array([0.9, 0.1]), 1.0, 1.0, 0.1)
    >>> board.move(np.random.default_rng(0)) in (STAYED, SPLIT, MERGED)
    True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.special import gammaln

from weald._kernel import kernel
from weald._random import sweep_key, uniform
from weald._typing import FloatArray, IntArray
from weald.topics.corpus import Corpus

LONGEST = 5.0  # the smaller share is at least 1/(1 + exp(LONGEST)) of both
ROUNDS = 20  # of a launch
LIKENESS = 4.0  # power of the Bhattacharyya coefficient of words by which partners are drawn
ALIKE = 0.5  # the coefficient from which `fuse` looks at a pair
UNLIKE = 1e-4  # likeness of topics that share no word
STAYED, SPLIT, MERGED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Layout:
    """The tokens document by document.

    Parameters
    ----------
    order : (N,) int64 array
        Tokens as `Corpus.tokens` numbers them.
    docs, words : (N,) int32 arrays
        Their documents and words.
    n_words : int
        Size of the vocabulary.
    """

    order: IntArray
    docs: IntArray
    words: IntArray
    n_words: int

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """The layout of a corpus."""
        tokens = corpus.tokens()
        order = np.argsort(tokens.docs, kind="stable")
        return cls(order, tokens.docs[order], tokens.words[order], corpus.n_words)


class Pair(NamedTuple):
    """Two topics that are or could be one.

    Side 0 has the smaller weight. `members` (n,): places in the layout of the tokens of both, ascending; `weights`:
    alpha beta of each side; `share`: of side 0 in both.
    """

    members: IntArray
    weights: tuple[float, float]
    share: float


class Board:
    """Topics while they are split and merged.

    Parameters
    ----------
    layout : Layout
    z : (N,) int32 array
        Topic of each token, numbered as in `Corpus.tokens`; changed in place: 0, ..., K - 1, all of them in use.
    beta : (K + 1,) array
        Weights of the topics and of all others together.
    alpha, gamma, eta : float
        Concentrations of documents, of the corpus, and of words.

    Attributes
    ----------
    origin : (K,) int array
        The number that each topic had at first, -1 for one that a move has made.
    """

    def __init__(self, layout: Layout, z: IntArray, beta: FloatArray, alpha: float, gamma: float, eta: float) -> None:
        K = beta.size - 1
        self.layout, self.z, self.beta = layout, z, beta
        self.origin = np.arange(K)
        self.alpha, self.gamma, self.eta = alpha, gamma, eta
        topics = z[layout.order]
        ends = np.cumsum(np.bincount(topics, minlength=K))[:-1]
        self.members: list[IntArray] = np.split(np.argsort(topics, kind="stable"), ends)
        self.n_kw = counted(layout.words, topics, K, layout.n_words)
        self.roots = np.sqrt(self.n_kw / self.n_kw.sum(axis=1, keepdims=True))

    @property
    def n_topics(self) -> int:
        """How many topics there are."""
        return len(self.members)

    def move(self, rng: np.random.Generator) -> int:
        """Propose to split or to merge, with probability one half each; tells what happened."""
        if rng.random() < 0.5:
            sizes = np.array([members.size for members in self.members])
            return self._split(int(rng.choice(sizes.size, p=sizes / sizes.sum())), rng)
        if self.n_topics < 2:
            return STAYED
        j = int(rng.integers(self.n_topics))
        like = self._like(self.roots[j], (j,))
        return self._merge(j, int(rng.choice(like.size, p=like / like.sum())), rng)

    def fuse(self) -> int:
        """Merge topics with those that are most like them where that is better, roughly; tells how many. Not exact."""
        n_before = self.n_topics
        for j in range(n_before - 1, -1, -1):
            if j >= self.n_topics:
                continue
            like = self._like(self.roots[j], (j,))
            k = int(like.argmax())
            if like[k] > ALIKE**LIKENESS:
                pair, sides = self._between(j, k)
                phi, r = shares(self.n_kw[self._order(j, k)], self.eta), sides.astype(np.float64)
                settle(pair.members, self.layout.docs, self.layout.words, r, *pair.weights, phi, np.empty_like(phi))
                log_r, _ = self._judge(pair, phi, r, sides, given=True, key=np.uint64(0))
                if log_r < 0.0:
                    self._unite(j, k, pair.members)
        return n_before - self.n_topics

    def _split(self, m: int, rng: np.random.Generator) -> int:
        share = 1.0 / (1.0 + math.exp(LONGEST * rng.random()))
        mass, members = self.alpha * float(self.beta[m]), self.members[m]
        pair = Pair(members, (mass * share, mass * (1.0 - share)), share)
        sides = np.zeros(members.size, np.int8)
        log_r, n_sw = self._judge(pair, *self._launch(pair, rng), sides, given=False, key=sweep_key(rng))
        sizes = n_sw.sum(axis=1, keepdims=True)
        if sizes.min() == 0.0:
            return STAYED
        roots = np.sqrt(n_sw / sizes)
        log_r += self._log_pick(roots, (m,)) - math.log(members.size / self.z.size)
        if math.log1p(-rng.random()) >= log_r:
            return STAYED
        self.z[self.layout.order[members[sides == 1]]] = self.n_topics
        self.members[m] = members[sides == 0]
        self.members.append(members[sides == 1])
        self.beta = np.insert(self.beta, -1, (1.0 - share) * self.beta[m])
        self.beta[m] *= share
        self.origin = np.append(self.origin, -1)
        self.origin[m] = -1
        self.n_kw[m], self.roots[m] = n_sw[0], roots[0]
        self.n_kw, self.roots = np.vstack([self.n_kw, n_sw[1]]), np.vstack([self.roots, roots[1]])
        return SPLIT

    def _merge(self, j: int, k: int, rng: np.random.Generator) -> int:
        pair, sides = self._between(j, k)
        if pair.share < 1.0 / (1.0 + math.exp(LONGEST)):
            return STAYED
        log_r, _ = self._judge(pair, *self._launch(pair, rng), sides, given=True, key=np.uint64(0))
        log_r += self._log_pick(self.roots[[j, k]], (j, k)) - math.log(sides.size / self.z.size)
        if math.log1p(-rng.random()) >= -log_r:
            return STAYED
        self._unite(j, k, pair.members)
        return MERGED

    def _order(self, j: int, k: int) -> list[int]:
        """The lighter topic first."""
        return [j, k] if self.beta[j] < self.beta[k] else [k, j]

    def _between(self, j: int, k: int) -> tuple[Pair, IntArray]:
        """Two topics as a pair, and the side of each of its tokens."""
        j, k = self._order(j, k)
        weights = self.alpha * float(self.beta[j]), self.alpha * float(self.beta[k])
        members = np.concatenate([self.members[j], self.members[k]])
        sides = np.repeat(np.array([0, 1], np.int8), [self.members[j].size, self.members[k].size])
        order = np.argsort(members, kind="stable")
        return Pair(members[order], weights, weights[0] / (weights[0] + weights[1])), sides[order]

    def _unite(self, j: int, k: int, members: IntArray) -> None:
        """Topic k joins topic j, and the last topic takes the free number."""
        self.z[self.layout.order[self.members[k]]] = j
        self.members[j] = members
        self.n_kw[j] += self.n_kw[k]
        self.beta[j] += self.beta[k]
        self.origin[j] = -1
        self.roots[j] = np.sqrt(self.n_kw[j] / members.size)
        last = self.n_topics - 1
        self.z[self.layout.order[self.members[last]]] = k if k != last else j
        self.members[k] = self.members[last]
        for table in (self.n_kw, self.roots, self.beta, self.origin):
            table[k] = table[last]
        self.members.pop()
        self.n_kw, self.roots, self.origin = self.n_kw[:last], self.roots[:last], self.origin[:last]
        self.beta = np.delete(self.beta, last)

    def _launch(self, pair: Pair, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Words (2, V) and sides r (n,) at which a few rounds arrive from the words of two documents."""
        layout, members = self.layout, pair.members
        docs, n = layout.docs[members], members.size
        whole = np.bincount(layout.words[members], minlength=layout.n_words)
        n_sw = np.empty((2, layout.n_words))
        for side in (0, 1):
            seed = layout.words[members[docs == docs[rng.integers(n)]]]
            n_sw[side] = whole + np.bincount(seed, minlength=layout.n_words) * (n / seed.size)
        r = np.full(n, 1.0 - pair.share)
        for _ in range(ROUNDS):
            settle(members, layout.docs, layout.words, r, *pair.weights, shares(n_sw, self.eta), n_sw)
        return shares(n_sw, self.eta), r

    def _judge(
        self, pair: Pair, phi: FloatArray, r: FloatArray, sides: IntArray, *, given: bool, key: np.uint64
    ) -> tuple[float, FloatArray]:
        """Log of p(two) / p(one) over the proposal of given sides, or of sides drawn into it; words of the sides."""
        layout, V = self.layout, self.layout.n_words
        log_q, log_two, log_one = allocate(
            pair.members, layout.docs, layout.words, sides, r, *pair.weights, phi, given, key
        )
        n_sw = counted(layout.words[pair.members], sides, 2, V)
        log_words = float(log_evidence(n_sw, self.eta).sum() - log_evidence(n_sw.sum(axis=0), self.eta))
        return log_words + log_two - log_one - log_q + math.log(self.gamma * LONGEST), n_sw

    def _like(self, root: FloatArray, left_out: tuple[int, ...]) -> FloatArray:
        """(K,): how readily each topic is picked as partner of one with these words; zero where left out."""
        like = (self.roots @ root) ** LIKENESS + UNLIKE
        like[list(left_out)] = 0.0
        return np.asarray(like)

    def _log_pick(self, roots: FloatArray, left_out: tuple[int, ...]) -> float:
        """Log probability that a merger picks two topics of these words (2, V), beside all that are not left out."""
        n_topics = self.n_topics - len(left_out) + 2
        mutual = float(roots[0] @ roots[1]) ** LIKENESS + UNLIKE
        others = [float(self._like(root, left_out).sum()) for root in roots]
        return math.log(sum(mutual / (mutual + other) for other in others) / n_topics)


def counted(words: IntArray, topics: IntArray, K: int, V: int) -> FloatArray:
    """(K, V): how often each topic holds each word."""
    n_kw = np.bincount(words + V * topics.astype(np.int64), minlength=K * V)
    return np.asarray(n_kw.reshape(K, V), np.float64)


def log_evidence(n_w: FloatArray, eta: float) -> FloatArray:
    """Log Dirichlet-multinomial evidence of words in an order: (..., V) -> (...)."""
    V = n_w.shape[-1]
    some = (gammaln(eta + n_w) - math.lgamma(eta)).sum(axis=-1)
    return np.asarray(some + math.lgamma(V * eta) - gammaln(V * eta + n_w.sum(axis=-1)))


def shares(n_kw: FloatArray, eta: float) -> FloatArray:
    """(K, V) counts -> (K, V): expected words of each topic; rows sum to one."""
    smooth = n_kw + eta
    return np.asarray(smooth / smooth.sum(axis=1, keepdims=True))


@kernel
def settle(
    members: IntArray, docs: IntArray, words: IntArray, r: FloatArray, a0: float, a1: float, phi: FloatArray,
    n_sw: FloatArray,
) -> None:  # fmt: skip
    """One round of expected sides: r (n,) IN/OUT, of side 1 for each token; n_sw (2, V) OUT, words expected of each."""
    n_sw[:] = 0.0
    start, n = 0, members.size
    while start < n:
        d, stop = docs[members[start]], start
        n1 = 0.0
        while stop < n and docs[members[stop]] == d:
            n1 += r[stop]
            stop += 1
        n0 = stop - start - n1
        for i in range(start, stop):
            w = words[members[i]]
            p1 = (max(n1 - r[i], 0.0) + a1) * phi[1, w]
            p0 = (max(n0 - 1.0 + r[i], 0.0) + a0) * phi[0, w]
            new = p1 / (p0 + p1)
            n1 += new - r[i]
            n0 -= new - r[i]
            r[i] = new
            n_sw[1, w] += new
            n_sw[0, w] += 1.0 - new
        start = stop


@kernel
def allocate(
    members: IntArray, docs: IntArray, words: IntArray, sides: IntArray, r: FloatArray, a0: float, a1: float,
    phi: FloatArray, given: bool, key: np.uint64,
) -> tuple[float, float, float]:  # fmt: skip
    """Draw the sides of tokens one after the other, or judge the given ones.

    sides (n,) int8 IN/OUT. Returns the log probability of the sides, and the log prior of the documents' tokens for two
    topics, and for one.
    """
    log_q, log_two, log_one = 0.0, 0.0, 0.0
    start, n = 0, members.size
    while start < n:
        d, stop, later0, later1 = docs[members[start]], start, 0.0, 0.0
        while stop < n and docs[members[stop]] == d:
            later1 += r[stop]
            later0 += 1.0 - r[stop]
            stop += 1
        n0, n1 = a0, a1
        for i in range(start, stop):
            w = words[members[i]]
            later1 -= r[i]
            later0 -= 1.0 - r[i]
            p0, p1 = (n0 + max(later0, 0.0)) * phi[0, w], (n1 + max(later1, 0.0)) * phi[1, w]
            if not given:
                sides[i] = 1 if uniform(key, i, 0) * (p0 + p1) >= p0 else 0
            log_one += math.log(n0 + n1)
            if sides[i] == 1:
                log_q += math.log(p1 / (p0 + p1))
                log_two += math.log(n1)
                n1 += 1.0
            else:
                log_q += math.log(p0 / (p0 + p1))
                log_two += math.log(n0)
                n0 += 1.0
        start = stop
    return log_q, log_two, log_one
