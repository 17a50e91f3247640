"""A corpus as flat arrays: the counts of words in documents, and its tokens in the order in which samplers visit them.

    document d holds word words[j] counts[j] times, for indptr[d] <= j < indptr[d + 1]            CSR
    token t, offsets[w] <= t < offsets[w + 1], is one occurrence of word w, in document docs[t]    word by word

Bags of words have no order, so tokens may lie in any. Samplers visit them word by word: what depends on the word is
then made once for each word, and no matrix of words by topics is needed. Cost: one pass; 4 bytes for each token.

    >>> corpus = Corpus(np.array([0, 2, 3]), np.array([0, 2, 2], np.int32), np.array([1, 2, 1]), 3)
    >>> corpus.n_documents, corpus.n_tokens, corpus.tokens().docs.tolist()
    (2, 4.0, [0, 0, 0, 1])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from weald._kernel import kernel
from weald._typing import Array, FloatArray, IntArray, TableLike
from weald._validate import table_from
from weald.exceptions import DataError

COUNTS = (np.int32, np.int64, np.float32, np.float64)
VOCABULARY = "the vocabulary must be that of the fit: keep one fitted vectorizer, or use a HashingVectorizer"


@dataclass(frozen=True, eq=False)
class Corpus:
    """Counts of words in documents.

    Parameters
    ----------
    indptr : (D + 1,) int array
        Where each document begins.
    words : (m,) int32 array
        Word of each entry, ascending within a document.
    counts : (m,) array
        How often it occurs: positive, whole numbers of any dtype or weights.
    n_words : int
        Size of the vocabulary.
    """

    indptr: IntArray
    words: IntArray
    counts: Array
    n_words: int

    @property
    def n_documents(self) -> int:
        """How many documents there are, empty ones included."""
        return len(self.indptr) - 1

    @cached_property
    def lengths(self) -> FloatArray:
        """(D,): tokens of each document."""
        ends = np.append(0.0, np.cumsum(self.counts, dtype=np.float64))
        return np.asarray(ends[self.indptr[1:]] - ends[self.indptr[:-1]])

    @cached_property
    def n_tokens(self) -> float:
        """How many tokens there are."""
        return float(self.counts.sum(dtype=np.float64))

    @cached_property
    def frequencies(self) -> FloatArray:
        """(V,): tokens of each word."""
        return np.bincount(self.words, self.counts, minlength=self.n_words).astype(np.float64)

    def part(self, start: int, stop: int) -> Self:
        """Documents start, ..., stop - 1: views."""
        a, b = self.indptr[start], self.indptr[stop]
        indptr = self.indptr[start : stop + 1] - a
        return type(self)(indptr, self.words[a:b], self.counts[a:b], self.n_words)

    def tokens(self) -> Tokens:
        """The tokens word by word; counts must be whole."""
        offsets = np.append(0, np.cumsum(self.frequencies.astype(np.int64)))
        docs = np.empty(offsets[-1], np.int32)
        _scatter(self.indptr, self.words, self.counts, offsets[:-1].copy(), docs)
        return Tokens(offsets, docs, self.n_documents)


@dataclass(frozen=True, eq=False)
class Tokens:
    """Tokens word by word.

    Parameters
    ----------
    offsets : (V + 1,) int64 array
        Where the tokens of each word begin.
    docs : (N,) int32 array
        Document of each token, ascending within a word.
    n_documents : int
    """

    offsets: IntArray
    docs: IntArray
    n_documents: int

    @property
    def n_words(self) -> int:
        """Size of the vocabulary."""
        return len(self.offsets) - 1

    @property
    def words(self) -> IntArray:
        """(N,) int32: word of each token."""
        return np.repeat(np.arange(self.n_words, dtype=np.int32), np.diff(self.offsets))


@kernel
def _scatter(indptr: IntArray, words: IntArray, counts: Array, following: IntArray, docs: IntArray) -> None:
    """Write the document of each token behind those of the same word; following (V,) IN/OUT: the next free place."""
    for d in range(indptr.shape[0] - 1):
        for j in range(indptr[d], indptr[d + 1]):
            w = words[j]
            for _ in range(int(counts[j])):
                docs[following[w]] = d
                following[w] += 1


def read_corpus(estimator: Any, X: TableLike, *, reset: bool, whole: bool, empty: bool = False) -> Corpus:
    """The corpus in a document-word matrix of counts.

    Parameters
    ----------
    estimator : estimator
        Learns the width and names of X when `reset`, else X must have those it knows.
    X : (D, V) matrix or table of counts
        Sparse or dense; never changed.
    reset : bool
        Whether this is a fit.
    whole : bool
        Whether counts must be whole numbers.
    empty : bool
        Whether a corpus without any word is welcome.
    """
    try:
        M = validate_data(
            estimator, table_from(X), reset=reset, dtype="numeric", accept_sparse="csr", ensure_all_finite=False
        )
    except ValueError as error:
        advice = f"; {VOCABULARY}" if "features" in str(error) and not reset else ""
        raise DataError(f"{error}{advice}") from error
    corpus = _corpus_of(
        sp.csr_array(M if M.dtype in COUNTS else M.astype(np.int64 if M.dtype.kind in "iub" else float))
    )
    _check_counts(corpus, whole, getattr(estimator, "feature_names_in_", None))
    if not corpus.n_tokens and not empty:
        raise DataError("X holds no words at all: look at the vectorizer's stop words, min_df and max_df")
    return corpus


def _corpus_of(M: Any) -> Corpus:
    """Sorted entries that are not zero, without a copy where they are so already."""
    if not M.has_canonical_format:
        M = M.copy()
        M.sum_duplicates()
    if not M.data.all():
        M = M.copy()
        M.eliminate_zeros()
    return Corpus(M.indptr, np.asarray(M.indices, np.int32), M.data, M.shape[1])


def _check_counts(corpus: Corpus, whole: bool, names: Any) -> None:
    counts = corpus.counts
    wrong, what = np.empty(0, np.int64), ""
    if counts.dtype.kind == "f":
        wrong, what = np.flatnonzero(~np.isfinite(counts)), "a count that is not finite: fill or drop it"
    if not wrong.size:
        wrong, what = np.flatnonzero(counts < 0), "a negative count: topic models need counts of words, not embeddings"
    if not wrong.size and whole and counts.dtype.kind == "f":
        cure = "pass counts (CountVectorizer, not TfidfVectorizer); to learn from weights, LDA(inference='online-vb')"
        wrong, what = np.flatnonzero(counts != np.floor(counts)), f"a fractional count: {cure}"
    if wrong.size:
        j = int(wrong[0])
        document = int(np.searchsorted(corpus.indptr, j, side="right")) - 1
        word = int(corpus.words[j])
        column = str(word) if names is None else repr(str(names[word]))
        raise DataError(f"X contains {counts[j]} in document {document}, column {column}: {what}")
