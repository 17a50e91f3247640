"""The estimator: what scikit-learn asks of it, what it says to bad input, files, checkpoints, streams."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import weald
from weald import LDA
from weald.datasets import make_topics
from weald.exceptions import DataError, ParameterError, PersistError, StatusWarning

pytestmark = pytest.mark.filterwarnings("ignore::weald.exceptions.StatusWarning")

INFERENCES = ("gibbs", "online-vb", "vb", "em")
SHORT = {"draws": 6, "warmup": 4, "max_iter": 6, "random_state": 0}
EXPECTED = {
    "check_positive_only_tag_during_fit": "the message names document and column instead",
    "check_estimators_nan_inf": "the message says that a count is not finite instead",
    **dict.fromkeys(
        ["check_methods_sample_order_invariance", "check_methods_subset_invariance"],
        "score_samples estimates with particles keyed by position; proportions do not depend on neighbours",
    ),
}
TEXTS = ["tea with milk", "milk and tea", "a car on the road", "the road and the car"] * 30


def fitted(inference="online-vb", X=None, K=3, **how):
    return LDA(K, inference=inference, **{**SHORT, **how}).fit(corpus() if X is None else X)


def corpus(n=120, K=3, V=40, length=25, seed=0):
    return make_topics(n, K, V, length, seed).X


@pytest.mark.parametrize("inference", INFERENCES)
def test_check_estimator(inference):
    lda = LDA(2, inference=inference, draws=4, warmup=2, max_iter=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)  # the checks fit for a handful of sweeps
        results = check_estimator(lda, expected_failed_checks=EXPECTED, on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed, "\n".join(f"{check}: {type(e).__name__}: {str(e)[:300]}" for check, e in failed.items())
    assert sum(r["status"] == "passed" for r in results) > 30
    unused = set(EXPECTED) - {r["check_name"] for r in results if r["status"] == "xfail"}
    assert not unused, f"expected to fail, but did not: {unused}"


@pytest.mark.parametrize("inference", INFERENCES)
def test_what_a_fit_leaves(inference):
    X = corpus()
    lda = fitted(inference)
    assert lda.components_.shape == (3, 40)
    assert np.allclose(lda.components_.sum(axis=1), 1)
    assert lda.alpha_.shape == (3,)
    assert (lda.alpha_ > 0).all()
    assert lda.eta_ >= 0
    assert lda.topic_sizes_.sum() == pytest.approx(1)
    assert (np.diff(lda.topic_sizes_) <= 0).all()
    assert lda.posterior_.draws["alpha"].shape[2:] == (3,)
    assert lda.n_iter_ == lda.posterior_.n_sweeps > 0
    assert lda.status_ is lda.posterior_.status
    assert np.allclose(lda.transform(X).sum(axis=1), 1)
    assert 1 < lda.perplexity(X) < 40
    assert np.array_equal(fitted(inference).components_, lda.components_)


@pytest.mark.parametrize("inference", INFERENCES)
def test_threads_change_no_bit(inference):
    X = corpus(400)
    one, two = fitted(inference, X, n_jobs=1), fitted(inference, X, n_jobs=2)
    assert np.array_equal(one.components_, two.components_)
    assert np.array_equal(one.transform(X), two.transform(X))


@pytest.mark.parametrize("inference", INFERENCES)
def test_sparse_dense_and_tables_are_alike(inference):
    X = corpus()
    words = [f"word{i}" for i in range(40)]
    table = pd.DataFrame(X.toarray(), columns=words)
    lda, same, named = fitted(inference, X), fitted(inference, X.toarray()), fitted(inference, table)
    assert np.array_equal(lda.components_, same.components_)
    assert np.array_equal(lda.components_, named.components_)
    assert np.array_equal(lda.components_, fitted(inference, X.astype(np.float32)).components_)
    assert named.topics_(2)[0][0] in words
    assert np.array_equal(named.transform(table), lda.transform(X))


@pytest.mark.parametrize(
    "vectorizer", [CountVectorizer(), HashingVectorizer(n_features=64, alternate_sign=False, norm=None)]
)
@pytest.mark.parametrize("inference", INFERENCES)
def test_in_a_pipeline(inference, vectorizer):
    pipe = make_pipeline(clone(vectorizer), LDA(2, inference=inference, **SHORT))
    theta = pipe.fit_transform(TEXTS)
    assert theta.shape == (120, 2)
    assert list(pipe[-1].get_feature_names_out()) == ["lda0", "lda1"]
    pipe[-1].set_output(transform="pandas")
    assert list(pipe.transform(["milk with tea"]).columns) == ["lda0", "lda1"]
    assert pipe.transform(["nothing of this"]).shape == (1, 2)


def test_topics_of_texts_are_those_of_a_reader():
    pipe = make_pipeline(CountVectorizer(stop_words="english"), LDA(2, inference="online-vb", random_state=0)).fit(
        TEXTS
    )
    words = pipe[0].get_feature_names_out()
    assert sorted(map(sorted, pipe[-1].topics_(2, words))) == [["car", "road"], ["milk", "tea"]]


def test_search_over_the_number_of_topics():
    search = GridSearchCV(LDA(inference="online-vb", random_state=0), {"n_topics": [1, 4]}, cv=2)
    assert search.fit(corpus(400, 4, 60, 40)).best_params_ == {"n_topics": 4}


@pytest.mark.parametrize("inference", INFERENCES)
def test_saved_and_loaded(tmp_path, inference):
    X, lda = corpus(), fitted(inference)
    weald.save(lda, tmp_path / "lda.weald")
    copy = weald.load(tmp_path / "lda.weald")
    assert np.array_equal(copy.transform(X), lda.transform(X))
    assert copy.get_params() == lda.get_params()
    assert str(copy.status_) == str(lda.status_)
    if inference == "online-vb":
        assert np.array_equal(copy.partial_fit(X).components_, lda.partial_fit(X).components_)


class Killed(Exception):
    pass


def killer(sweep):
    def callback(event):
        if event.phase == "step" and event.sweep == sweep:
            raise Killed

    return callback


@pytest.mark.parametrize("inference", INFERENCES)
def test_a_killed_fit_is_resumed_bit_by_bit(tmp_path, inference):
    X, path = corpus(), tmp_path / "run.ckpt"
    whole = fitted(inference, tol=0.0)
    lda = LDA(3, inference=inference, tol=0.0, **SHORT)
    with pytest.raises(Killed):
        lda.fit(X, callbacks=[weald.Checkpoint(path, every=1), killer(4)])
    again = clone(lda).fit(X, resume=path)
    assert np.array_equal(again.components_, whole.components_)
    for name, values in whole.posterior_.stats.items():
        assert np.array_equal(again.posterior_.stats[name], values, equal_nan=True)
    with pytest.raises(PersistError, match="another fit"):
        clone(lda).set_params(eta=0.7).fit(X, resume=path)
    with pytest.raises(PersistError, match="another fit"):
        clone(lda).fit(X[:-1], resume=path)


@pytest.mark.parametrize("inference", INFERENCES)
def test_a_callback_may_stop_a_fit(inference):
    lda = LDA(3, inference=inference, **SHORT).fit(corpus(), callbacks=[lambda event: event.sweep >= 5])
    assert lda.n_iter_ == 5


@pytest.mark.parametrize("inference", ["online-vb", "vb", "em"])
def test_an_early_end_is_a_caution_with_advice(inference):
    with pytest.warns(StatusWarning, match="raise max_iter"):
        lda = fitted(inference, max_iter=2, tol=1e-9)
    assert not lda.status_.ok
    assert "raise max_iter" in lda.status_.advice


@pytest.mark.parametrize("inference", ["online-vb", "vb", "em"])
def test_a_fit_that_settles_says_so(inference):
    lda = fitted(inference, max_iter=None, tol=0.01)
    assert lda.status_.ok
    assert "converged" in lda.status_.message


# bad input


@pytest.mark.parametrize("inference", INFERENCES)
def test_empty_documents_and_empty_columns(inference):
    X = corpus().toarray()
    X[[3, 7]] = 0
    X[:, [1, 5]] = 0
    lda = fitted(inference, sp.csr_array(X))
    theta = lda.transform(X)
    assert np.allclose(theta[3], lda.alpha_ / lda.alpha_.sum())
    assert np.allclose(theta.sum(axis=1), 1)
    assert (lda.components_[:, 1] > 0).all()
    assert np.isfinite(lda.perplexity(X))


@pytest.mark.parametrize("inference", INFERENCES)
def test_a_corpus_without_words(inference):
    with pytest.raises(DataError, match="no words at all"):
        fitted(inference, np.zeros((3, 4), int))


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_wrong_counts(inference, value):
    X = corpus().toarray().astype(float)
    X[2, 3] = value
    with pytest.raises(DataError, match="document 2, column 3"):
        fitted(inference, X)


def test_fractional_counts_are_weights_or_refused():
    X = corpus() * 0.5
    with pytest.raises(DataError, match="online-vb"):
        fitted("gibbs", X)
    for inference in ("online-vb", "vb", "em"):
        lda = fitted(inference, X)
        assert np.isfinite(lda.components_).all()
        assert lda.transform(X).shape == (120, 3)


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize(
    ("X", "K"),
    [
        (np.array([[3, 1]]), 1),
        (np.array([[3, 1]]), 4),
        (np.array([[1]]), 2),
        (np.array([[2, 0, 1], [0, 4, 1]]), 7),
        (np.eye(5, dtype=int), 3),
    ],
    ids=["one topic, one document", "more topics than words", "one token", "more topics than all", "one word each"],
)
def test_corpora_of_the_smallest_kind(inference, X, K):
    lda = fitted(inference, X, K)
    assert lda.components_.shape == (K, X.shape[1])
    assert np.isfinite(lda.components_).all()
    assert np.allclose(lda.components_.sum(axis=1), 1)
    assert np.allclose(lda.transform(X).sum(axis=1), 1)


@pytest.mark.parametrize("inference", INFERENCES)
def test_one_topic_is_the_unigram_distribution(inference):
    X = corpus(300)
    unigram = np.asarray(X.sum(axis=0)) / X.sum()
    assert np.abs(fitted(inference, X, 1, eta=1e-6, max_iter=50).components_[0] - unigram).max() < 0.01


@pytest.mark.parametrize("inference", INFERENCES)
def test_another_vocabulary(inference):
    lda = fitted(inference)
    with pytest.raises(DataError, match="vocabulary must be that of the fit"):
        lda.transform(corpus(V=41))
    named = fitted(inference, pd.DataFrame(corpus().toarray(), columns=[f"w{i}" for i in range(40)]))
    with pytest.raises(DataError, match="feature names should match"):
        named.transform(pd.DataFrame(corpus().toarray(), columns=[f"v{i}" for i in range(40)]))


def test_words_that_the_fit_has_not_seen():
    X = corpus().toarray()
    X[:, 0] = 0
    new = np.zeros((1, 40), int)
    new[0, 0] = 5
    for inference in INFERENCES:
        lda = fitted(inference, X)
        assert np.isfinite(lda.score_samples(new)).all()
        assert np.allclose(lda.transform(new).sum(), 1)


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"n_topics": 0}, "n_topics must be a positive int"),
        ({"inference": "mcmc"}, "inference must be one of"),
        ({"sampler": "fast"}, "sampler must be one of"),
        ({"alpha": 0.0}, "alpha must be a positive number"),
        ({"alpha": [1.0, 1.0]}, "one for each of the 3 topics"),
        ({"alpha": "auto"}, "None to learn it"),
        ({"eta": -1.0}, "eta must be a positive number"),
        ({"eta": [1.0, 2.0]}, "eta must be"),
        ({"max_iter": 0}, "max_iter"),
        ({"draws": 0, "inference": "gibbs"}, "draws"),
        ({"tol": -1.0}, "tol"),
        ({"batch_size": 0}, "batch_size"),
        ({"learning_decay": 0.5}, "learning_decay must be in"),
        ({"learning_offset": 0.0}, "learning_offset"),
        ({"chains": 0}, "chains"),
    ],
)
def test_wrong_parameters(wrong, advice):
    with pytest.raises(ParameterError, match=advice):
        LDA(**{"n_topics": 3, "inference": "online-vb", **wrong}).fit(corpus())


def test_given_parameters_are_kept():
    for inference in INFERENCES:
        lda = fitted(inference, eta=0.3, alpha=0.2)
        assert lda.eta_ == pytest.approx(0.3)
        if inference != "em":
            assert np.allclose(lda.alpha_, 0.2)
    lda = fitted("online-vb", alpha=[0.1, 0.2, 0.3])
    assert sorted(lda.alpha_) == [0.1, 0.2, 0.3]


# streams


def halves(X, n=4):
    return [X[i * X.shape[0] // n : (i + 1) * X.shape[0] // n] for i in range(n)]


@pytest.mark.parametrize("inference", ["gibbs", "vb", "em"])
def test_batches_need_online_vb(inference):
    lda = LDA(3, inference=inference)
    assert not hasattr(lda, "partial_fit")
    with pytest.raises(AttributeError) as error:
        lda.partial_fit(corpus())
    assert "inference='online-vb'" in str(error.value.__cause__)


def test_a_stream_finds_the_topics():
    data = make_topics(3300, 5, 200, 50, 0)
    X, test = data.X[:3000], data.X[3000:]
    whole = LDA(5, inference="online-vb", random_state=0).fit(X)
    streams = [
        LDA(5, inference="online-vb", random_state=0).fit_batches(iter(halves(X, 30))),
        LDA(5, inference="online-vb", random_state=0).fit_batches(halves(X, 30), n_documents=3000),
        LDA(5, inference="online-vb", random_state=0),
    ]
    for batch in halves(X, 6):
        streams[2].partial_fit(batch, n_documents=3000)
    for lda in streams:
        assert lda.perplexity(test) < 1.05 * whole.perplexity(test)
        assert not hasattr(lda, "status_")


def test_partial_fit_goes_on_from_a_fit():
    X = corpus(400)
    lda = fitted(X=X[:200])
    assert lda.n_iter_ == 6
    before = lda.components_.copy()
    lda.partial_fit(X[200:])
    assert lda._state.n_documents == 6 * 200 + 200
    assert not np.array_equal(lda.components_, before)
    assert not hasattr(lda, "posterior_")
    lda.fit(X)
    assert hasattr(lda, "status_")


def test_a_stream_is_the_same_for_any_number_of_threads():
    X = corpus(800)
    one, two = (
        LDA(3, inference="online-vb", n_jobs=n, random_state=0).fit_batches(halves(X, 2)).components_ for n in (1, 2)
    )
    assert np.array_equal(one, two)


def test_a_vocabulary_that_changes_between_batches():
    lda = LDA(3, inference="online-vb", random_state=0).partial_fit(corpus())
    with pytest.raises(DataError, match="vocabulary must be that of the fit"):
        lda.partial_fit(corpus(V=50))
    with pytest.raises(DataError, match="vocabulary must be that of the fit"):
        lda.fit_batches([corpus(), corpus(V=50)])


def test_batches_without_words():
    empty = sp.csr_array((5, 40), dtype=np.int64)
    lda = LDA(3, inference="online-vb", random_state=0)
    with pytest.raises(DataError, match="no words at all"):
        lda.partial_fit(empty)
    with pytest.raises(DataError, match="no words at all"):
        lda.fit_batches([empty, empty])
    with pytest.raises(DataError, match="no words at all"):
        lda.fit_batches(iter(()))
    lda.partial_fit(corpus())
    before = lda.components_
    assert np.array_equal(lda.partial_fit(empty).components_, before)
    lda.fit_batches([empty, corpus(), empty])
    assert lda._state.n_documents == 120


def test_another_number_of_topics_starts_anew():
    lda = LDA(3, inference="online-vb", random_state=0).partial_fit(corpus())
    assert lda.set_params(n_topics=4).partial_fit(corpus()).components_.shape == (4, 40)
