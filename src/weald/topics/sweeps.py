"""Exact sweeps of collapsed Gibbs sampling over the tokens of a corpus.

Token t of word w in document d, taken out of all counts, gets topic k with probability (journal (003) (117))

    p(z_t = k | rest)  propto  (n_dk + alpha_k) b_k,      b_k = (n_wk + eta) / (n_k + V eta).

Tokens are visited word by word, documents ascending: n_wk is counted on entry to a word, so that no matrix of words by
topics is kept, and b changes in two places where a label does. What a document holds makes the method:

    dense     n_dk for every topic (`weald.topics.dense`): K operations for each token, vectorised
    sparse    a list of its topics (`weald.topics.sparse`): as many operations as the list is long
    alias     a hash table of them (`weald.topics.alias_mh`): a fixed number, Metropolis-Hastings in place of (117)

The state is z alone: counts are made anew from it in every sweep, for a tenth of its time, so that a resumed run
goes on exactly. Token t draws from hash(key, t).

Given `spare`, a topic without tokens whose alpha stands for all topics to come, a sweep is one of the HDP: a token that
takes it breaks its stick, v ~ Beta(1, gamma); the topic keeps the share v of alpha, the rest is the next spare (journal
1.4). Topics that lose their last token stay, with their alpha, until the caller removes them.
References: Griffiths & Steyvers (2004); Yao, Mimno, McCallum (2009); Teh, Jordan, Beal, Blei (2006).

    >>> tokens = Tokens(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), 2)
    >>> swept = sweep(tokens, np.zeros(3, np.uint16), np.full(2, 0.5), 0.1, np.uint64(1))
    >>> int(swept.n_k.sum())
    3
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from weald._typing import FloatArray, IntArray
from weald.exceptions import ParameterError
from weald.topics.alias_mh import alias, fill_tables, lists_of
from weald.topics.corpus import Tokens
from weald.topics.dense import CHUNK, add_counts, count_dense, dense, reach_dense
from weald.topics.sparse import count_sparse, most_sparse, reach_sparse, sparse

ROOM = 32  # topics added where an HDP runs out of them
MOST_TOPICS = 65_000
SHORT = 65_535  # tokens of a document whose counts fit in half of 32 bits


@dataclass(frozen=True, eq=False)
class Swept:
    """Labels after a sweep, and what hyperparameters are learned from.

    Parameters
    ----------
    z : (N,) uint16 array
        Topic of each token.
    n_k : (K,) int64 array
        Tokens of each topic.
    alpha : (K,) array
        Prior weights; changed, and more of them, only where sticks were broken.
    spare : int
        The topic that no token has yet, which is the last one, or -1.
    starts, reached : (K + 1,) and (m,) int64 arrays
        reached[starts[k] + i]: how many documents have more than i tokens of topic k.
    word_reached : (m,) int64 array
        How many pairs of topic and word have more than i tokens.
    n_changed, n_evals : int
        Labels that changed, and weights that were computed.
    """

    z: IntArray
    n_k: IntArray
    alpha: FloatArray
    spare: int
    starts: IntArray
    reached: IntArray
    word_reached: IntArray
    n_changed: int
    n_evals: int


class AbstractCounts(ABC):
    """What the documents hold while their tokens move."""

    @classmethod
    @abstractmethod
    def of(cls, tokens: Tokens, z: IntArray, K: int) -> Self:
        """The counts of labels z, with room for K topics."""

    @abstractmethod
    def sweep(self, tokens: Tokens, z: IntArray, at: int, *rest: Any) -> int:
        """Redraw tokens from `at` on; returns the first one not redrawn."""

    @abstractmethod
    def reached(self, K: int) -> tuple[IntArray, IntArray]:
        """`Swept.starts` and `Swept.reached`."""


@dataclass(frozen=True, eq=False)
class Matrix(AbstractCounts):
    """A count for every document and topic: (D, K) float32, K rounded up to whole chunks."""

    n_dk: FloatArray

    @classmethod
    def of(cls, tokens: Tokens, z: IntArray, K: int) -> Self:
        """The counts of labels z, with room for K topics."""
        n_dk = np.zeros((tokens.n_documents, -(-K // CHUNK) * CHUNK), np.float32)
        count_dense(tokens.docs, z, n_dk)
        return cls(n_dk)

    def sweep(self, tokens: Tokens, z: IntArray, at: int, *rest: Any) -> int:
        """Redraw tokens from `at` on; returns the first one not redrawn."""
        return dense(tokens.offsets, tokens.docs, z, at, self.n_dk, *rest)

    def reached(self, K: int) -> tuple[IntArray, IntArray]:
        """`Swept.starts` and `Swept.reached`."""
        most = self.n_dk[:, :K].max(axis=0, initial=0).astype(np.int64)
        starts = np.append(0, np.cumsum(most))
        reached = np.zeros(starts[-1], np.int64)
        reach_dense(self.n_dk, starts, reached)
        return starts, reached


@dataclass(frozen=True, eq=False)
class Lists(AbstractCounts):
    """A list of topics for every document d: pairs[first[d]], ..., size[d] of them, topic and count in one integer."""

    first: IntArray
    pairs: IntArray
    size: IntArray

    @classmethod
    def of(cls, tokens: Tokens, z: IntArray, K: int) -> Self:
        """The counts of labels z, with room for K topics."""
        first, dtype = _first(tokens)
        lists = cls(first, np.empty(z.size, dtype), np.zeros(tokens.n_documents, np.int32))
        count_sparse(tokens.docs, z, lists.first, lists.pairs, lists.size, np.zeros(K, np.int64))
        return lists

    def sweep(self, tokens: Tokens, z: IntArray, at: int, *rest: Any) -> int:
        """Redraw tokens from `at` on; returns the first one not redrawn."""
        return sparse(tokens.offsets, tokens.docs, z, at, self.first, self.pairs, self.size, *rest)

    def reached(self, K: int) -> tuple[IntArray, IntArray]:
        """`Swept.starts` and `Swept.reached`."""
        most = np.zeros(K, np.int64)
        most_sparse(self.first, self.pairs, self.size, most)
        starts = np.append(0, np.cumsum(most))
        reached = np.zeros(starts[-1], np.int64)
        reach_sparse(self.first, self.pairs, self.size, starts, reached)
        return starts, reached


@dataclass(frozen=True, eq=False)
class Tables(AbstractCounts):
    """A hash table of topics for every document, cells[places[d]] and on, and its labels, labels[first[d]] and on."""

    first: IntArray
    labels: IntArray
    places: IntArray
    cells: IntArray

    @classmethod
    def of(cls, tokens: Tokens, z: IntArray, K: int) -> Self:
        """The counts of labels z, with room for K topics."""
        first, dtype = _first(tokens)
        room = np.minimum(2 * np.diff(first), K)
        room = np.where(room > 0, 2 ** np.ceil(np.log2(np.maximum(room, 1))).astype(np.int64), 0)
        places = np.append(0, np.cumsum(room))
        tables = cls(first, np.empty(z.size, np.uint16), places, np.zeros(places[-1], dtype))
        fill_tables(tokens.docs, z, first, tables.labels, places, tables.cells)
        return tables

    def sweep(self, tokens: Tokens, z: IntArray, at: int, *rest: Any) -> int:
        """Move every token."""
        n_k, alpha, eta, key, _, tally, word_reached = rest
        alias(
            tokens.offsets, tokens.docs, z, self.first, self.labels, self.places, self.cells, n_k, alpha, eta, key,
            tally, word_reached,
        )  # fmt: skip
        return int(z.size)

    def reached(self, K: int) -> tuple[IntArray, IntArray]:
        """`Swept.starts` and `Swept.reached`."""
        lists = Lists(self.first, np.empty(self.labels.size, self.cells.dtype), np.empty(self.first.size - 1, np.int32))
        lists_of(self.first, self.places, self.cells, lists.pairs, lists.size)
        return lists.reached(K)


METHODS: dict[str, type[AbstractCounts]] = {"dense": Matrix, "sparse": Lists, "alias": Tables}


def _first(tokens: Tokens) -> tuple[IntArray, type[np.unsignedinteger[Any]]]:
    """Where each document begins if tokens lie document by document, and a dtype that holds a topic and a count."""
    lengths = np.zeros(tokens.n_documents, np.int64)
    add_counts(tokens.docs, lengths)
    return np.append(0, np.cumsum(lengths)), np.uint32 if lengths.max(initial=0) <= SHORT else np.uint64


def sweep(
    tokens: Tokens, z: IntArray, alpha: FloatArray, eta: float, key: np.uint64, *, method: str = "sparse",
    spare: int = -1, gamma: float = 1.0,
) -> Swept:  # fmt: skip
    """One sweep over all tokens.

    Parameters
    ----------
    tokens : Tokens
        The corpus, word by word.
    z : (N,) uint16 array
        Topics to start from; not changed.
    alpha : (K,) array
        Prior weight of each topic in a document.
    eta : float
        Prior weight of each word in a topic.
    key : uint64
        Randomness of this sweep.
    method : str
        ``"sparse"`` or ``"dense"``: the same law. ``"alias"`` keeps the same posterior invariant, in smaller steps.
    spare : int
        The last topic of `alpha`, of which there is no token, stands for topics to come; -1: there are none to come.
    gamma : float
        Concentration that breaks the stick of the spare topic.

    Returns
    -------
    Swept
    """
    if method == "alias" and spare >= 0:
        raise ParameterError("alias sweeps have no topics to come: use 'sparse' or 'dense'")
    z, alpha = z.copy(), np.array(alpha, np.float64)
    n_k = np.zeros(alpha.size, np.int64)
    add_counts(z, n_k)
    word_reached = np.zeros(int(np.diff(tokens.offsets).max(initial=0)) + 1, np.int64)
    tally = np.array([spare, 0, 0])
    at = 0
    while True:
        if spare >= 0:
            alpha, n_k = np.append(alpha, np.zeros(ROOM)), np.append(n_k, np.zeros(ROOM, np.int64))
        counts = METHODS[method].of(tokens, z, alpha.size)
        at = counts.sweep(tokens, z, at, n_k, alpha, eta, key, gamma, tally, word_reached)
        if at == z.size:
            break
    spare, n_changed, n_evals = (int(x) for x in tally)
    K = alpha.size if spare < 0 else spare + 1
    starts, reached = counts.reached(K)
    used = word_reached[1 : 1 + np.count_nonzero(word_reached)]
    return Swept(z, n_k[:K], alpha[:K], spare, starts, reached, used, n_changed, n_evals)
