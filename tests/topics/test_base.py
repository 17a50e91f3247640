"""What every topic model answers once its topics are known, and what it says of input that it cannot use."""

from __future__ import annotations

import numpy as np
import pytest
from known import PHI, WORDS, Known
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from weald.exceptions import DataError, ParameterError
from weald.topics import coherence, heldout
from weald.topics.base import AbstractTopicModel

X = sparse.csr_array(np.array([[3, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 4], [0, 1, 0, 0]]))
EMPTY = np.zeros((3, 4), int)


@pytest.fixture
def model() -> AbstractTopicModel:
    return Known().fit(X)


def test_topics_are_numbered_by_size(model):
    np.testing.assert_array_equal(model.components_, PHI[::-1])
    np.testing.assert_allclose(model.topic_sizes_, [2 / 3, 1 / 3])
    np.testing.assert_allclose(model.alpha_, 0.1)


def test_the_same_answer_for_sparse_dense_and_tables(model):
    import pandas as pd

    frame = pd.DataFrame(X.toarray(), columns=WORDS)
    named = Known().fit(frame)
    for again in (model.transform(X.toarray()), model.transform(sparse.csc_array(X)), named.transform(frame)):
        np.testing.assert_array_equal(again, model.transform(X))
    assert model.transform(X)[[0, 2]].argmax(axis=1).tolist() == [1, 0]
    np.testing.assert_allclose(model.transform(X)[1], 0.5)
    assert list(named.get_feature_names_out()) == ["known0", "known1"]


def test_evidence_and_completion(model):
    log_p = model.score_samples(X, n_particles=50)
    assert log_p.shape == (4,)
    assert log_p[1] == 0
    assert log_p[3] == pytest.approx(np.log(0.175))
    half = model.score_samples(X, method="completion")
    assert half[0] > log_p[0]
    n_half, n_whole = 2 + 3 + 1, 4 + 5 + 1
    assert model.perplexity(X) == pytest.approx(np.exp(-half.sum() / n_half))
    assert model.score(X) == pytest.approx(half.sum() / n_half)
    assert model.perplexity(X, method="left-to-right", n_particles=50) == pytest.approx(np.exp(-log_p.sum() / n_whole))
    printed = np.exp(-np.mean(half[[0, 2, 3]] / [2, 3, 1]))
    assert model.perplexity(X, per="document") == pytest.approx(printed)


def test_answers_do_not_depend_on_seeds_and_threads(model):
    other = Known(random_state=np.random.default_rng(3), n_jobs=2).fit(X)
    for method in ("left-to-right", "completion"):
        np.testing.assert_array_equal(other.score_samples(X, method=method), model.score_samples(X, method=method))


def test_corpora_without_words(model):
    np.testing.assert_allclose(model.transform(EMPTY), 0.5)
    np.testing.assert_array_equal(model.score_samples(EMPTY), 0)
    np.testing.assert_array_equal(model.score_samples(EMPTY, method="completion"), 0)
    with pytest.raises(DataError, match="no token to predict"):
        model.perplexity(EMPTY)
    with pytest.raises(DataError, match="no token to predict"):
        model.score(EMPTY)
    with pytest.raises(DataError, match="no text holds a top word"):
        model.coherence_(EMPTY)
    with pytest.raises(DataError, match="no words at all"):
        Known().fit(EMPTY)


def test_fractions_have_proportions_but_no_evidence(model):
    assert model.transform(X / 2).shape == (4, 2)
    with pytest.raises(DataError, match="fractional count"):
        model.score_samples(X / 2)


def test_words_of_topics(model):
    assert model.topics_(2) == [("3", "2"), ("0", "1")]
    assert model.topics_(2, WORDS) == [("road", "car"), ("tea", "milk")]
    assert model.topics_(2, np.array(WORDS)) == model.topics_(2, WORDS)
    assert [len(row) for row in model.topics_(99, WORDS)] == [4, 4]
    assert model.topics_(1, WORDS, by="lift") == [("road",), ("tea",)]
    counts = CountVectorizer()
    texts = ["tea tea tea milk", "", "car road road road road", "milk"]
    pipeline = make_pipeline(counts, Known(PHI[:, [2, 1, 3, 0]])).fit(texts)
    assert pipeline[-1].topics_(1, counts.get_feature_names_out()) == [("road",), ("tea",)]
    assert pipeline.transform(["tea", "unseen words", ""]).shape == (3, 2)


def test_words_of_topics_are_checked(model):
    with pytest.raises(ParameterError, match="words must name the 4 columns of the fit, got 3 names"):
        model.topics_(2, WORDS[1:])
    with pytest.raises(ParameterError, match="words must be a sequence"):
        model.topics_(2, dict.fromkeys(WORDS, 0))
    with pytest.raises(ParameterError, match="n_words must be a positive int"):
        model.topics_(0)
    with pytest.raises(ParameterError, match="by must be"):
        model.topics_(2, by="size")


def test_coherence_of_counts_and_of_texts(model):
    texts = [["tea", "with", "milk"], [], ["road", "car", "road"], ["milk"]]
    top = coherence.top_words(model.components_, model.topic_sizes_, 2)
    for measure in ("npmi", "c_v"):
        found = model.coherence_(texts, measure=measure, n_words=2, words=WORDS)
        np.testing.assert_allclose(
            found, coherence.measured(coherence.sliding(texts, WORDS, top, measure), top, measure)
        )
        assert found[0] == pytest.approx(1)
        series = np.empty(4, object)
        series[:] = texts
        for other in (iter(texts), series):
            np.testing.assert_array_equal(model.coherence_(other, measure=measure, n_words=2, words=WORDS), found)
        assert model.coherence_(X, measure=measure, n_words=2).shape == (2,)
    counts = model.coherence_(X, n_words=2)
    np.testing.assert_array_equal(model.coherence_(X.toarray(), n_words=2), counts)


def test_coherence_is_checked(model):
    with pytest.raises(DataError, match="no text holds a top word"):
        model.coherence_([["unseen"]], words=WORDS)
    with pytest.raises(DataError, match="got the string"):
        model.coherence_(["tea milk"], words=WORDS)
    with pytest.raises(ParameterError, match="words must name the 4 columns"):
        model.coherence_([["tea"]], words=WORDS[:2])
    with pytest.raises(ParameterError, match="measure must be"):
        model.coherence_(X, measure="umass")
    with pytest.raises(ParameterError, match="at least 2"):
        model.coherence_(X, n_words=1)
    with pytest.raises(DataError, match="5 features"):
        model.coherence_(np.ones((2, 5)))


def test_parameters_of_evaluation_are_checked(model):
    with pytest.raises(ParameterError, match="method must be 'completion' or 'left-to-right', got 'ais'"):
        model.perplexity(X, method="ais")
    with pytest.raises(ParameterError, match="per must be"):
        model.perplexity(X, per="word")
    with pytest.raises(ParameterError, match="n_particles must be a positive int"):
        model.score_samples(X, n_particles=0)
    with pytest.raises(ParameterError, match="n_jobs must be"):
        Known(n_jobs=0).fit(X).transform(X)


@pytest.mark.parametrize(
    "ask", ["transform", "score_samples", "perplexity", "score", "coherence_", "topics_", "components_", "alpha_"]
)
def test_questions_before_the_fit(ask):
    with pytest.raises(NotFittedError):
        getattr(Known(), ask)(*([X] if ask not in ("topics_", "components_", "alpha_") else []))


def test_perplexity_of_the_true_topics_is_below_that_of_others():
    from weald.datasets import make_topics

    made = make_topics(80, 5, 60, 50, rng=1)
    uniform = Known(np.full((5, 60), 1 / 60)).fit(made.X)
    true = Known(made.truth["topics"]).fit(made.X)
    assert uniform.perplexity(made.X) == pytest.approx(60)
    for method in ("completion", "left-to-right"):
        assert true.perplexity(made.X, method=method) < 0.6 * uniform.perplexity(made.X, method=method)
    frequencies = np.asarray(made.X.sum(axis=0), float)
    unigram = Known(np.tile(frequencies / frequencies.sum(), (1, 1))).fit(made.X)
    assert true.perplexity(made.X) < unigram.perplexity(made.X)
    assert heldout.perplexity(unigram.score_samples(made.X), np.full(80, 50)) == pytest.approx(
        unigram.perplexity(made.X, method="left-to-right")
    )
