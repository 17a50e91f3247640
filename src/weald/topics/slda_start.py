"""Where chains of supervised LDA start: words that tell of the response apart, the others by topics of anchor words.

    t_v = sum_d n_dv s_d / sqrt(sum_d n_dv^2) + N(0, 1),      s_d the response, centred and scaled; 0 where unknown

Where nothing goes with the response, t_v is Gaussian of variance 2. Words with |t_v| > `TELLING` are cut by t_v into at
most a quarter of the topics, of equally many tokens; tokens of other words are drawn from the topics of anchor words
(`weald.topics.anchors`), which make up the rest. From random labels topics of much that does not matter form first, and
those of what matters stay merged with them for long. Noise differs from chain to chain, as do the scores of classes.
Cost: one pass over the corpus, and K numbers for each token.

    >>> from weald.topics.slda_response import read_response
    >>> corpus = Corpus(np.array([0, 2, 4]), np.array([0, 1, 0, 2], np.int32), np.array([1, 2, 1, 2]), 3)
    >>> first_topics(corpus, read_response([1.0, 2.0], 2, "auto"), 2, np.random.default_rng(0)).shape
    (6,)
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from weald._typing import FloatArray, IntArray
from weald.topics.anchors import anchor_topics
from weald.topics.corpus import Corpus
from weald.topics.slda_response import Response

TELLING = 3.0
BLOCK = 100_000  # tokens that are drawn at a time


def first_topics(corpus: Corpus, response: Response, n_topics: int, rng: np.random.Generator) -> IntArray:
    """Topics of the tokens, document by document.

    Parameters
    ----------
    corpus : Corpus
        Documents of whole counts.
    response : Response
        Their labels.
    n_topics : int
        K.
    rng : Generator
        Randomness.

    Returns
    -------
    (N,) int32 array
    """
    words = np.repeat(corpus.words, corpus.counts.astype(np.int64))
    score, f = _scores(corpus, response, rng), corpus.frequencies
    telling = np.flatnonzero(np.abs(score) > TELLING)
    n_telling = _n_telling(n_topics, float(f[telling].sum() / f.sum()))
    if n_telling == n_topics:
        return _cut(score, f, n_topics)[words]
    n_anchors = n_topics - n_telling
    phi = anchor_topics(corpus, n_anchors, rng)
    z = _drawn(words, np.cumsum(phi / phi.sum(axis=0), axis=0).T, rng)
    if not n_telling:
        return z
    part = np.full(corpus.n_words, -1, np.int32)
    part[telling] = n_anchors + _cut(score[telling], f[telling], n_telling)
    return np.where(part[words] >= 0, part[words], z)


def _n_telling(n_topics: int, share: float) -> int:
    """How many topics begin as telling words, this share of the tokens; none where they would not fill one."""
    if share * n_topics < 1.0:
        return 0
    return n_topics if n_topics < 4 else max(2, min(n_topics // 4, round(share * n_topics)))


def _scores(corpus: Corpus, response: Response, rng: np.random.Generator) -> FloatArray:
    """(V,): how much each word goes with the response."""
    y, told = response.y, ~np.isnan(response.y)
    if response.classes is not None:
        y = np.where(told, rng.standard_normal(len(response.classes))[np.nan_to_num(y).astype(np.int64)], np.nan)
    s = np.where(told, y - y[told].mean(), 0.0)
    s /= s[told].std() or 1.0
    counts = np.asarray(corpus.counts, np.float64)
    shape = (corpus.n_documents, corpus.n_words)
    together = sp.csr_array((counts, corpus.words, corpus.indptr), shape=shape).T @ s
    squares = np.bincount(corpus.words, counts**2, minlength=corpus.n_words)
    return np.asarray(together / np.sqrt(np.maximum(squares, 1.0)) + rng.standard_normal(corpus.n_words))


def _cut(score: FloatArray, frequencies: FloatArray, n_parts: int) -> IntArray:
    """Parts of words by score, of about equally many tokens."""
    order = np.argsort(score, kind="stable")
    f = frequencies[order]
    middle = (np.cumsum(f) - 0.5 * f) / max(float(f.sum()), 1.0)
    part = np.empty(len(score), np.int32)
    part[order] = np.minimum(middle * n_parts, n_parts - 1)
    return part


def _drawn(words: IntArray, cumulative: FloatArray, rng: np.random.Generator) -> IntArray:
    """Topics of tokens by the cumulative probabilities (V, K) of their words."""
    z = np.empty(len(words), np.int32)
    for start in range(0, len(words), BLOCK):
        some = slice(start, start + BLOCK)
        z[some] = (cumulative[words[some], :-1] <= rng.random(len(z[some]))[:, None]).sum(axis=1)
    return z
