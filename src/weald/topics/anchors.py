"""First topics from words that belong to one topic only.

Topics that start alike stay merged: every sweep after it only sharpens what the start has mixed up. Words that go
with one topic mark the corners of the cloud of rows

    q_w = p(next word | a word w in the same document),   q_w = sum_k p(k | w) phi_k approximately

which are found greedily: the row farthest from the mean, then ever the row farthest from the flat through those chosen.
Column v is divided by the root of its frequency, which makes sampling noise alike in all of them. Rows of words in few
documents are noise and lie far out for no reason, so row w is shrunk by df_w / (df_w + 30) to the mean. A topic starts
as q of its anchor, mixed with some of the unigram distribution. Distances are those of random projections onto r = 256
directions or more, and 2,000 documents suffice: cost r m for their m entries.

Reference: S. Arora et al., A practical algorithm for topic modeling with provable guarantees (2013), where the corners
are the answer; here they are a start, so that noise in them does no harm.

    >>> from weald.datasets import make_topics
    >>> X = make_topics(500, 3, 60, 50, 0).X
    >>> corpus = Corpus(X.indptr, X.indices.astype(np.int32), X.data, 60)
    >>> anchor_topics(corpus, 3, np.random.default_rng(0)).shape
    (3, 60)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from weald._typing import FloatArray, IntArray
from weald.topics.corpus import Corpus

DOCUMENTS, CANDIDATES = 2000, 4000
DIRECTIONS, MOST_DIRECTIONS = 256, 1024  # of projections, and 4 more for each topic
RELIABLE = 30.0  # documents of a word at which half of what its row says is believed
BACKGROUND = 0.1  # share of the unigram distribution in a first topic


def anchor_topics(corpus: Corpus, K: int, rng: np.random.Generator) -> FloatArray:
    """Probabilities of words in K first topics.

    Parameters
    ----------
    corpus : Corpus
        Documents; at most 2,000 of them, at random, are looked at.
    K : int
        Number of topics.
    rng : Generator
        Randomness.

    Returns
    -------
    (K, V) array
        Rows sum to one, and no entry is zero.
    """
    X, words = _sample(corpus, rng)
    df, n_w = np.bincount(X.indices, minlength=len(words)), np.asarray(X.sum(axis=0))
    together = sp.csr_array(sp.diags_array(1.0 / np.asarray(X.sum(axis=1))) @ X)
    candidates = np.argsort(-df, kind="stable")[:CANDIDATES]
    rows = (
        _rows(X, together, candidates, n_w, min(DIRECTIONS + 4 * K, MOST_DIRECTIONS), rng)
        * (df / (df + RELIABLE))[candidates, None]
    )
    anchors = candidates[_corners(rows, K)]
    found = np.zeros((K, corpus.n_words))
    if len(anchors):
        found[: len(anchors), words] = (together[:, anchors].T @ X).toarray()
    for k in range(len(anchors), K):  # no direction is left: any document will do
        one = int(rng.integers(X.shape[0]))
        found[k, words[X.indices[X.indptr[one] : X.indptr[one + 1]]]] = X.data[X.indptr[one] : X.indptr[one + 1]]
    unigram = np.full(corpus.n_words, 0.5)
    unigram[words] += n_w
    found /= found.sum(axis=1, keepdims=True)
    return (1.0 - BACKGROUND) * found + BACKGROUND * unigram / unigram.sum()


def _sample(corpus: Corpus, rng: np.random.Generator) -> tuple[Any, IntArray]:
    """CSR of some documents that are not empty, columns being the words they use."""
    rows = np.flatnonzero(np.diff(corpus.indptr))
    rows = np.sort(rng.permutation(rows)[:DOCUMENTS])
    entries = np.concatenate([np.arange(corpus.indptr[d], corpus.indptr[d + 1]) for d in rows])
    words, columns = np.unique(corpus.words[entries], return_inverse=True)
    indptr = np.append(0, np.cumsum(corpus.indptr[rows + 1] - corpus.indptr[rows]))
    data = corpus.counts[entries].astype(np.float64)
    return sp.csr_array((data, columns, indptr), shape=(len(rows), len(words))), words


def _rows(
    X: Any, together: Any, candidates: IntArray, n_w: FloatArray, n_directions: int, rng: np.random.Generator
) -> FloatArray:
    """Projected rows q_w of candidates less the mean.

    Of itself a word is not asked, which bursts and short documents would spoil: its frequency, times what it multiplies
    that of other words by on average, takes the place.
    """
    R = rng.normal(size=(X.shape[1], n_directions)) / np.sqrt(n_directions * n_w / n_w.sum())[:, None]
    own = np.asarray(together.multiply(X).sum(axis=0))
    others = np.where(own < (1.0 - 1e-9) * n_w, n_w - own, 0.0)  # zero where a word has documents of its own
    rows = together[:, candidates].T @ (X @ R) - own[candidates, None] * R[candidates]
    rows /= np.maximum(others[candidates], 1e-12)[:, None]
    itself = np.minimum(n_w[candidates] / n_w.sum() * (rows * rows).sum(axis=1), 1.0)[:, None]
    rows = (rows + itself * R[candidates]) / (1.0 + itself) - (others @ R) / max(others.sum(), 1e-12)
    rows[others[candidates] == 0] = 0.0
    return np.asarray(rows)


def _corners(rows: FloatArray, K: int) -> IntArray:
    """Greedily, the rows farthest from the flat through those before; fewer than K where the flat holds all."""
    first = int((rows * rows).sum(axis=1).argmax())
    chosen, size = [first], float(rows[first] @ rows[first])
    rows = rows - rows[first]
    square, basis = (rows * rows).sum(axis=1), np.empty((K, rows.shape[1]))
    while len(chosen) < K:
        far, flat = int(square.argmax()), basis[: len(chosen) - 1]
        if square[far] <= 1e-9 * size:
            break
        direction = rows[far] - flat.T @ (flat @ rows[far])
        direction -= flat.T @ (flat @ direction)  # again, for what rounding has left
        basis[len(chosen) - 1] = direction / np.linalg.norm(direction)
        square -= np.square(rows @ basis[len(chosen) - 1])  # Pythagoras: rows need not be projected themselves
        chosen.append(far)
    return np.array(chosen, np.int64)
