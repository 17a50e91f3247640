"""The variational E-step of one document after another: which topics do its words come from?

    e_k = exp E[log theta_dk],    b_wk = exp E[log phi_kw],    gamma_dk = alpha_k + n_dk
    r_wk = e_k b_wk / sum_l e_l b_wl,    n_dk = sum_w n_dw r_wk                                     (163)-(164)

are repeated until n_dk changes little on average. Rows of b are those of the words of a batch, scaled so that the
largest entry of a word is one, which r does not feel; what underflows is held at a floor. Responsibilities are never
stored. Their entropy, which the evidence bound (162) needs, is recovered from what is at hand:

    - sum_wk n_w r_wk log r_wk  =  sum_w n_w log sum_l e_l b_wl  -  sum_k n_dk log e_k  -  sum_wk n_w r_wk log b_wk

`expect` returns the first two terms; the third is a sum over words and topics of the batch. Both hold exactly for the
r that were used, floors and single precision included. EM (94) is the same with e = theta and b = phi.
Cost: 2 K multiplications for each distinct word of a document and round.

References: journal (003) 3.2; Hoffman, Blei, Bach, Online learning for latent Dirichlet allocation (2010).

    >>> float(round(digamma(0.5), 6))
    -1.96351
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weald._kernel import kernel
from weald._typing import Array, FloatArray, IntArray
from weald.engine import Threads
from weald.topics.corpus import Corpus

PIECES = 8  # a batch is cut into at most so many pieces, each with statistics of its own
LEAST = 64  # documents of a piece
FLOORS = {np.dtype(np.float32): 1e-18, np.dtype(np.float64): 1e-150}  # two of them multiplied do not underflow


@kernel
def digamma(x: float) -> float:
    """Psi(x) for x > 0."""
    shift = 0.0
    while x < 6.0:
        shift -= 1.0 / x
        x += 1.0
    i = 1.0 / x
    s = i * i
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * (691 / 32760 - s / 12))))))
    return shift + math.log(x) - 0.5 * i - series


@dataclass(frozen=True, eq=False)
class Batch:
    """Documents of a corpus, their words numbered anew.

    Parameters
    ----------
    indptr : (n + 1,) int64 array
    slots : (m,) int32 array
        The word of each entry, as a position in `words`.
    counts : (m,) array
    words : (U,) int32 array
        The distinct words.
    """

    indptr: IntArray
    slots: IntArray
    counts: FloatArray
    words: IntArray

    @property
    def n_documents(self) -> int:
        """How many documents there are."""
        return len(self.indptr) - 1

    @property
    def lengths(self) -> FloatArray:
        """(n,): tokens of each document."""
        ends = np.append(0.0, np.cumsum(self.counts, dtype=np.float64))
        return np.asarray(ends[self.indptr[1:]] - ends[self.indptr[:-1]])

    def spread(self, K: int) -> FloatArray:
        """(n, K): the tokens of each document spread evenly over K topics, where the E-step starts cold."""
        return np.repeat((self.lengths / K)[:, None], K, axis=1)


def batch_of(corpus: Corpus, rows: IntArray, dtype: type[np.floating] = np.float64) -> Batch:
    """Some documents of a corpus, with counts of one dtype."""
    indptr = np.append(0, np.cumsum(corpus.indptr[rows + 1] - corpus.indptr[rows], dtype=np.int64))
    slots, counts = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], dtype)
    words = np.empty(min(len(slots), corpus.n_words), np.int32)
    slot_of = np.full(corpus.n_words, -1, np.int32)
    n = _gather(corpus.indptr, corpus.words, corpus.counts, rows, slot_of, slots, counts, words)
    return Batch(indptr, slots, counts, words[:n])


@kernel
def _gather(
    indptr: IntArray, words: IntArray, counts: Array, rows: IntArray, slot_of: IntArray, slots: IntArray,
    chosen: FloatArray, distinct: IntArray,
) -> int:  # fmt: skip
    """Copy the entries of `rows`, number words as they come; slot_of (V,) must hold -1."""
    n, m = 0, 0
    for d in rows:
        for j in range(indptr[d], indptr[d + 1]):
            w = words[j]
            if slot_of[w] < 0:
                slot_of[w] = n
                distinct[n] = w
                n += 1
            slots[m], chosen[m] = slot_of[w], counts[j]
            m += 1
    return n


@kernel
def expected_words(
    weights: FloatArray, scale: float, eta: float, n_k: FloatArray, words: IntArray, floor: float, b: FloatArray,
    largest: FloatArray, mean: bool,
) -> None:  # fmt: skip
    """Write exp E[log phi] of some words over its largest entry, b (U, K) OUT, and the log of that, largest (U,) OUT.

    q(phi_k) = Dirichlet(eta + scale weights_k), weights (V, K), whose sums over words are n_k (K,). With `mean`, it is
    E[phi] that is written.
    """
    V, K = weights.shape
    total, log_b = np.empty(K), np.empty(K)
    for k in range(K):
        total[k] = math.log(V * eta + n_k[k]) if mean else digamma(V * eta + n_k[k])
    for i in range(words.shape[0]):
        top = -np.inf
        for k in range(K):
            x = eta + scale * weights[words[i], k]
            log_b[k] = (math.log(max(x, 1e-300)) if mean else digamma(x)) - total[k]
            top = max(top, log_b[k])
        for k in range(K):
            b[i, k] = max(math.exp(log_b[k] - top), floor)
        largest[i] = top


@kernel
def expect(
    indptr: IntArray, slots: IntArray, counts: FloatArray, b: FloatArray, largest: FloatArray, alpha: FloatArray,
    first: int, n_dk: FloatArray, S: FloatArray, rounds: int, settled: float, floor: float, mean: bool,
) -> tuple[float, float]:  # fmt: skip
    """E-step of documents first, ..., first + n - 1.

    n_dk (n, K) IN: where to start; OUT: expected tokens of each topic. S (U, K) IN/OUT: gains those of each word. With
    `mean`, e is E[theta] (EM) instead of exp E[log theta]. Returns the entropy less the sum over words, and the rounds.
    """
    K, n, longest = alpha.shape[0], n_dk.shape[0], 0
    for d in range(first, first + n):
        longest = max(longest, indptr[d + 1] - indptr[d])
    local, c, r = np.empty((K, longest), b.dtype), np.empty(longest, b.dtype), np.empty(longest, b.dtype)
    e, log_e = np.empty(K, b.dtype), np.empty(K)
    entropy, n_rounds = 0.0, 0
    for i in range(n):
        a = indptr[first + i]
        u = indptr[first + i + 1] - a
        for j in range(u):
            c[j] = counts[a + j]
            for k in range(K):
                local[k, j] = b[slots[a + j], k]
        for _ in range(rounds if u else 0):
            n_rounds += 1
            top = -np.inf
            for k in range(K):
                g = alpha[k] + n_dk[i, k]
                log_e[k] = math.log(max(g, 1e-300)) if mean else digamma(g)
                top = max(top, log_e[k])
            for k in range(K):
                e[k] = max(math.exp(log_e[k] - top), floor)
            r[:u] = 0
            for k in range(K):
                for j in range(u):
                    r[j] += e[k] * local[k, j]
            for j in range(u):
                r[j] = c[j] / r[j]
            moved = 0.0
            for k in range(K):
                s = b.dtype.type(0)
                for j in range(u):
                    s += local[k, j] * r[j]
                moved += abs(e[k] * s - n_dk[i, k])
                n_dk[i, k] = e[k] * s
            if moved < settled * K:
                break
        for j in range(u):
            entropy += counts[a + j] * (math.log(c[j] / r[j]) + largest[slots[a + j]])
            for k in range(K):
                S[slots[a + j], k] += e[k] * local[k, j] * r[j]
        for k in range(K if u else 0):
            entropy -= n_dk[i, k] * math.log(e[k])
    return entropy, n_rounds


@dataclass(frozen=True, eq=False)
class Expected:
    """What an E-step found: S (U, K), the entropy but for its sum over words and topics, and rounds in all."""

    S: FloatArray
    entropy: float
    n_rounds: int


def expect_all(
    batch: Batch, b: FloatArray, largest: FloatArray, alpha: FloatArray, n_dk: FloatArray, engine: Threads,
    rounds: int, settled: float, mean: bool = False,
) -> Expected:  # fmt: skip
    """E-step of a batch over threads; n_dk (n, K) IN/OUT. Sums are taken in an order that no thread can change."""
    n = batch.n_documents
    floor = FLOORS[b.dtype]

    def of_piece(piece: slice) -> tuple[FloatArray, tuple[float, float]]:
        S = np.zeros(b.shape)
        found = expect(
            batch.indptr, batch.slots, batch.counts, b, largest, alpha, piece.start, n_dk[piece], S, rounds, settled,
            floor, mean,
        )  # fmt: skip
        return S, found

    S, entropy, n_rounds = np.zeros(b.shape), 0.0, 0
    for part, (more, some) in engine.map(of_piece, _pieces(n)):
        S += part
        entropy, n_rounds = entropy + more, n_rounds + int(some)
    return Expected(S, entropy, n_rounds)


def _pieces(n: int) -> list[slice]:
    """The fixed cut of n documents: it does not depend on threads."""
    m = max(1, min(PIECES, n // LEAST))
    return [slice(n * i // m, n * (i + 1) // m) for i in range(m)]
