"""Corpora hold what the matrix held, whatever its form; tokens are all there; bad counts are named."""

from __future__ import annotations

import numpy as np
import pytest
from known import WORDS, Known
from scipy import sparse

from weald.exceptions import DataError
from weald.topics.corpus import Corpus, read_corpus

DENSE = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [0, 3, 0, 1]])


def read(X, **options) -> Corpus:
    return read_corpus(Known(), X, **{"reset": True, "whole": True, **options})


def dense(corpus: Corpus) -> np.ndarray:
    return sparse.csr_array((corpus.counts, corpus.words, corpus.indptr), shape=(corpus.n_documents, 4)).toarray()


def forms():
    import pandas as pd
    import polars as pl

    unsorted = sparse.csr_array((np.array([1, 2, 1, 3]), np.array([2, 0, 3, 1]), np.array([0, 2, 2, 4])), shape=(3, 4))
    entries, where = [1, 1, 1, 0, 1, 3], ([0, 0, 0, 1, 2, 2], [0, 0, 2, 2, 3, 1])
    duplicated = sparse.csr_array(
        (np.array(entries), np.array(where[1]), np.array([0, 3, 4, 6])), shape=(3, 4)
    )  # the same word twice, and an explicit zero
    return {
        "list": DENSE.tolist(),
        "array": DENSE,
        "float": DENSE.astype(float),
        "uint8": DENSE.astype(np.uint8),
        "csr": sparse.csr_array(DENSE),
        "csr matrix": sparse.csr_matrix(DENSE),
        "csc": sparse.csc_array(DENSE),
        "coo": sparse.coo_array(DENSE),
        "unsorted": unsorted,
        "duplicated": duplicated,
        "pandas": pd.DataFrame(DENSE, columns=WORDS),
        "polars": pl.DataFrame(DENSE, schema=WORDS),
    }


@pytest.mark.parametrize("form", forms())
def test_every_form_is_the_same_corpus_and_none_is_changed(form):
    X = forms()[form]
    before = [part.copy() for part in (X.data, X.indices, X.indptr)] if form in ("unsorted", "duplicated") else []
    corpus = read(X)
    np.testing.assert_array_equal(dense(corpus), DENSE)
    assert corpus.counts.all()
    assert all((np.diff(corpus.words[a:b]) > 0).all() for a, b in zip(corpus.indptr, corpus.indptr[1:], strict=False))
    for part, old in zip((X.data, X.indices, X.indptr) if before else (), before, strict=True):
        np.testing.assert_array_equal(part, old)


def test_sums():
    corpus = read(DENSE)
    assert (corpus.n_documents, corpus.n_tokens, corpus.n_words) == (3, 7, 4)
    np.testing.assert_array_equal(corpus.lengths, [3, 0, 4])
    np.testing.assert_array_equal(corpus.frequencies, [2, 3, 1, 1])
    part = corpus.part(1, 3)
    np.testing.assert_array_equal(dense(part), DENSE[1:])
    np.testing.assert_array_equal(part.lengths, [0, 4])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_tokens_are_those_of_the_counts(dtype, rng):
    X = rng.poisson(0.6, (30, 12)).astype(dtype)
    X[:, 5] = 0
    tokens = read(sparse.csr_array(X)).tokens()
    found = np.zeros_like(X)
    np.add.at(found, (tokens.docs, tokens.words), 1)
    np.testing.assert_array_equal(found, X)
    assert (tokens.n_words, tokens.n_documents) == (12, 30)
    assert all((np.diff(tokens.docs[a:b]) >= 0).all() for a, b in zip(tokens.offsets, tokens.offsets[1:], strict=False))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1.0, r"-1.0 in document 2, column 'car': a negative count"),
        (0.5, r"0.5 in document 2, column 'car': a fractional count: pass counts"),
        (np.nan, r"nan in document 2, column 'car': a count that is not finite"),
        (np.inf, r"inf in document 2, column 'car': a count that is not finite"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_wrong_counts_are_named(value, message, packed):
    import pandas as pd

    X = DENSE.astype(float)
    X[2, 2] = value
    with pytest.raises(DataError, match=message):
        read(pd.DataFrame(X, columns=WORDS))
    with pytest.raises(DataError, match=message.replace("'car'", "2")):
        read(sparse.csr_array(X) if packed else X)


def test_weights_are_welcome_where_counts_need_not_be_whole():
    np.testing.assert_array_equal(dense(read(DENSE / 2, whole=False)), DENSE / 2)


def test_a_corpus_without_words():
    with pytest.raises(DataError, match="holds no words at all"):
        read(np.zeros((2, 4)))
    assert read(np.zeros((2, 4)), empty=True).n_tokens == 0


def test_a_vocabulary_that_changes_is_refused_with_advice():
    model = Known().fit(DENSE)
    with pytest.raises(DataError, match=r"5 features.*one fitted vectorizer, or use a HashingVectorizer"):
        read_corpus(model, np.ones((2, 5)), reset=False, whole=True)
    with pytest.raises(DataError, match="2D array"):
        read(np.ones(4))
