"""Do the top words of a topic go together in texts? Co-occurrence of words in windows, NPMI and C_V.

    p_i, p_ij      share of windows that hold word i, words i and j;    e = 1e-12
    NPMI_ij        log((p_ij + e) / (p_i p_j)) / -log(p_ij + e):     -1 never together, 0 independent, 1 always together
    NPMI           mean of NPMI_ij over pairs of top words
    C_V            mean over top words i of cos(v_i, sum_j v_j),     v_i = (NPMI_i1, ..., NPMI_iM)

A window is a whole document, or a run of tokens that slides by one: 10 tokens for NPMI, 110 for C_V; a text that is
shorter is one window. A word that no window holds, or a pair that all do, says nothing: NPMI_ij = 0. Top words have the
highest probability phi_kw, or the largest share phi_kw log(phi_kw / p_w) in the divergence of a topic from the corpus,
p_w = sum_k size_k phi_kw: those of high lift phi_kw / p_w that are not too rare to matter.
gensim 4.4 forgets a word when one of its occurrences leaves the window though another stays, and agrees where no word
comes twice in a window.
Cost: one pass over the tokens, M operations for each occurrence of a top word, whatever the window; memory K M^2.
References: Bouma (2009), NPMI; Röder, Both, Hinneburg (2015), Exploring the space of topic coherence measures;
Chuang, Manning, Heer (2012) for words that set topics apart.

    >>> texts = [["tea", "milk"], ["milk", "tea"], ["car", "road"], ["road", "tea"]]
    >>> top = np.array([[0, 1], [0, 3]])
    >>> windows = sliding(texts, ["tea", "milk", "car", "road"], top, "npmi")
    >>> measured(windows, top, "npmi").round(3)
    array([ 0.415, -0.292])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from weald._kernel import kernel
from weald._typing import FloatArray, IntArray
from weald.exceptions import DataError, ParameterError
from weald.topics.corpus import Corpus

Measure = Literal["npmi", "c_v"]
WIDTHS = {"npmi": 10, "c_v": 110}  # tokens of a sliding window
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Windows:
    """In how many windows the top words of each topic occur.

    Parameters
    ----------
    n_windows : float
        How many windows there are.
    n_pair : (K, M, M) array
        Windows that hold both words; on the diagonal, windows that hold the word.
    """

    n_windows: float
    n_pair: IntArray


def top_words(
    phi: FloatArray, sizes: FloatArray, n_words: int, by: Literal["probability", "lift"] = "probability"
) -> IntArray:
    """The words that say best what each topic is about.

    Parameters
    ----------
    phi : (K, V) array
        Probability of each word in each topic.
    sizes : (K,) array
        Tokens of each topic, or its share.
    n_words : int
        How many; all, where the vocabulary has fewer.
    by : str
        ``"probability"``, or ``"lift"``: words that set the topic apart from the corpus, by phi log(phi / p).

    Returns
    -------
    (K, n_words) int array
        Best word first; ties in the order of the vocabulary.
    """
    if by not in ("probability", "lift"):
        raise ParameterError(f"by must be 'probability' or 'lift', got {by!r}")
    marginal = sizes @ phi / sizes.sum()
    n = min(n_words, phi.shape[1])
    top = np.empty((len(phi), n), np.int64)
    for k, p in enumerate(phi):
        score = p if by == "probability" else p * np.log(np.maximum(p, 1e-300) / np.maximum(marginal, 1e-300))
        least = np.partition(score, -n)[-n]
        best = np.flatnonzero(score >= least)
        top[k] = best[np.argsort(-score[best], kind="stable")[:n]]
    return top


def documents(corpus: Corpus, top: IntArray) -> Windows:
    """Co-occurrence in whole documents.

    Parameters
    ----------
    corpus : Corpus
    top : (K, M) int array
        Top words of each topic.

    Returns
    -------
    Windows
        One for each document that is not empty.
    """
    used = np.unique(top)
    column = np.full(corpus.n_words, -1)
    column[used] = np.arange(len(used))
    kept = column[corpus.words] >= 0
    indptr = np.append(0, np.cumsum(kept))[corpus.indptr]
    held = sp.csr_array(
        (np.ones(indptr[-1]), column[corpus.words[kept]], indptr), shape=(corpus.n_documents, len(used))
    ).tocsc()
    n_pair = np.empty((*top.shape, top.shape[1]), np.int64)
    for k, words in enumerate(column[top]):
        of_topic = held[:, words]
        n_pair[k] = (of_topic.T @ of_topic).toarray()
    return _checked(Windows(float(np.count_nonzero(np.diff(corpus.indptr))), n_pair))


def sliding(texts: Iterable[Sequence[str]], words: Sequence[str], top: IntArray, measure: Measure) -> Windows:
    """Co-occurrence in windows that slide over sequences of words.

    Parameters
    ----------
    texts : iterable of sequences of str
        Words in their order, those outside the vocabulary too; read once.
    words : sequence of V str
        The vocabulary.
    top : (K, M) int array
        Top words of each topic.
    measure : str
        ``"npmi"`` or ``"c_v"``, which sets the width of the window.

    Returns
    -------
    Windows
    """
    width = WIDTHS[_known(measure)]
    used, slots = np.unique(top, return_inverse=True)
    order = np.argsort(slots.ravel(), kind="stable")  # occurrences of each used word in the lists of topics
    starts = np.searchsorted(slots.ravel()[order], np.arange(len(used) + 1))
    index = {words[w]: i for i, w in enumerate(used)}
    slots = slots.reshape(top.shape)
    since, n_inside = np.full(len(used), -1), np.zeros(len(used), np.int64)
    n_pair, n_windows = np.zeros((*top.shape, top.shape[1]), np.int64), 0
    for text in texts:
        if isinstance(text, str):
            raise DataError(
                f"each text must be a sequence of words, got the string {text[:40]!r}: split it as the vectorizer does "
                "(vectorizer.build_analyzer()), or pass a matrix of counts"
            )
        tokens = np.fromiter((index.get(word, -1) for word in text), np.int32)
        n_windows += max(len(tokens) - width + 1, min(len(tokens), 1))
        _slide(tokens, width, slots, starts, order, since, n_inside, n_pair)
    return _checked(Windows(float(n_windows), n_pair))


def measured(windows: Windows, top: IntArray, measure: Measure) -> FloatArray:
    """Coherence of each topic.

    Parameters
    ----------
    windows : Windows
        Of these top words.
    top : (K, M) int array
        Top words of each topic.
    measure : str
        ``"npmi"`` or ``"c_v"``.

    Returns
    -------
    (K,) array
    """
    v = pairwise(windows)
    M = top.shape[1]
    if _known(measure) == "npmi":
        return (v.sum(axis=(1, 2)) - np.trace(v, axis1=1, axis2=2)) / max(M * (M - 1), 1)
    whole = v.sum(axis=1, keepdims=True)
    lengths = np.linalg.norm(v, axis=2) * np.linalg.norm(whole, axis=2)
    cosine = (v * whole).sum(axis=2) / np.where(lengths > 0, lengths, np.inf)
    return np.asarray(cosine.mean(axis=1))


def pairwise(windows: Windows) -> FloatArray:
    """(K, M, M): NPMI of each pair of top words; a word with itself has 1."""
    p = windows.n_pair / windows.n_windows
    alone = np.diagonal(p, axis1=1, axis2=2)
    apart = alone[:, :, None] * alone[:, None, :]
    telling = (apart > 0) & (p < 1)
    npmi = np.log((p + TINY) / np.where(telling, apart, 1.0)) / -np.log(np.where(telling, p + TINY, 0.5))
    return np.where(telling, npmi, 0.0)


def _known(measure: str) -> str:
    if measure not in WIDTHS:
        raise ParameterError(f"measure must be 'npmi' or 'c_v', got {measure!r}")
    return measure


def _checked(windows: Windows) -> Windows:
    if not windows.n_pair.any():
        raise DataError("no text holds a top word of any topic: split the texts into words as the vectorizer did")
    return windows


@kernel
def _leave(
    i: int, window: int, since: IntArray, slots: IntArray, starts: IntArray, order: IntArray, n_pair: IntArray
) -> None:
    """Word i is in no window from this one on: book the windows that it shared; since (U,) IN/OUT, -1 for outside."""
    M = slots.shape[1]
    for place in order[starts[i] : starts[i + 1]]:
        k, s = place // M, place % M
        for t in range(M):
            if since[slots[k, t]] >= 0:
                n_shared = window - max(since[i], since[slots[k, t]])
                n_pair[k, s, t] += n_shared
                if t != s:
                    n_pair[k, t, s] += n_shared
    since[i] = -1


@kernel
def _slide(
    tokens: IntArray, width: int, slots: IntArray, starts: IntArray, order: IntArray, since: IntArray,
    n_inside: IntArray, n_pair: IntArray,
) -> None:  # fmt: skip
    """Add the windows of one text, numbered by their first tokens, to n_pair (K, M, M) IN/OUT.

    Between texts no word is inside: since (U,) is -1 and n_inside (U,) is 0.
    """
    n = tokens.shape[0]
    last = max(n - width, 0)
    for entering in range(n):
        window = max(entering - width + 1, 0)
        if window > 0 and tokens[window - 1] >= 0:
            i = tokens[window - 1]
            n_inside[i] -= 1
            if n_inside[i] == 0:
                _leave(i, window, since, slots, starts, order, n_pair)
        if tokens[entering] >= 0:
            i = tokens[entering]
            n_inside[i] += 1
            if since[i] < 0:
                since[i] = window
    for i in tokens[last:]:
        if i >= 0:
            n_inside[i] = 0
            if since[i] >= 0:
                _leave(i, last + 1, since, slots, starts, order, n_pair)
