"""The estimator: recovery, uncertainty, entropy, labels of every kind, bad input, files, scikit-learn."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import weald
from weald import SupervisedLDA
from weald.datasets import make_topics
from weald.exceptions import DataError, ParameterError, PersistError, StatusWarning
from weald.testing.invariance import BUDGET
from weald.topics import Corpus
from weald.topics.slda_draws import KEPT, ResponseDraws
from weald.topics.slda_response import Response, read_response
from weald.topics.slda_start import first_topics

COEF = np.array([20.0, 10.0, -10.0, -20.0])


@pytest.fixture(autouse=True)
def _short_runs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)  # a few sweeps do not agree, which has its own test
        yield


def reviews(n=400, noise=3.0, seed=0, length=60):
    """Counts, and a number with its four coefficients around 100."""
    corpus = make_topics(n, 4, 150, length, seed, alpha=0.3)
    return corpus.X, 100 + corpus.truth["proportions"] @ COEF + np.random.default_rng(seed).normal(size=n) * noise


X, Y = reviews()
TRAIN, TEST = slice(0, 300), slice(300, 400)
SHORT = {"draws": 40, "warmup": 60, "chains": 2, "n_jobs": 1, "random_state": 0}
TINY = {"draws": 6, "warmup": 4, "chains": 1, "n_jobs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def regressor():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        return SupervisedLDA(4, **SHORT).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def classifier():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        return SupervisedLDA(4, **SHORT).fit(X[TRAIN], np.where(Y[TRAIN] > 100, "good", "bad"))


def test_coefficients_noise_and_topics_are_recovered(regressor):
    np.testing.assert_allclose(regressor.coef_, 100 + COEF, atol=4)
    assert 2.4 < regressor.sigma_ < 3.6
    truth = make_topics(400, 4, 150, 60, 0, alpha=0.3).truth["topics"]
    assert np.abs(regressor.components_ - truth).sum(axis=1).max() < 0.35
    assert regressor.score(X[TEST], Y[TEST]) > 0.8
    np.testing.assert_allclose(regressor.components_.sum(axis=1), 1)
    np.testing.assert_allclose(regressor.topic_sizes_.sum(), 1)
    assert regressor.transform(X[TEST]).shape == (100, 4)


def test_predictions_know_how_sure_they_are(regressor):
    mean, sd = regressor.predict(X[TEST], return_std=True)
    np.testing.assert_array_equal(mean, regressor.predict(X[TEST]))
    assert 0.85 < np.mean(np.abs(mean - Y[TEST]) < 1.96 * sd) <= 1.0
    assert (sd > regressor.sigma_ * 0.9).all()
    two = sparse.csr_array(([1, 1], ([0, 0], [0, 1])), shape=(1, 150))
    assert regressor.predict(two, return_std=True)[1][0] > 1.2 * sd.mean()
    assert regressor.entropy(two)[0] > regressor.entropy(X[TEST]).mean()


def test_posterior_draws_are_in_units_and_in_order(regressor):
    draws = regressor.posterior_.draws
    assert draws["w"].shape == (2, 40, 4)
    assert draws["alpha"].shape == (2, 40, 4)
    assert draws["sigma"].shape == draws["eta"].shape == (2, 40)
    np.testing.assert_allclose(draws["w"].mean(axis=1), [regressor.coef_, regressor.coef_], atol=4)
    assert (np.diff(regressor.coef_) < 0).all()
    assert regressor.posterior_.attrs["response"] == "gaussian"
    assert set(regressor.posterior_.stats) >= {"log_response", "log_words"}


def test_two_classes(classifier):
    labels = np.where(Y > 100, "good", "bad")
    assert classifier.classes_.tolist() == ["bad", "good"]
    assert classifier.coef_.shape == (4,)
    assert classifier.coef_[0] > 2
    assert classifier.coef_[-1] < -2
    p = classifier.predict_proba(X[TEST])
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert classifier.score(X[TEST], labels[TEST]) > 0.85
    assert np.mean(np.log(np.where(labels[TEST] == "good", p[:, 1], p[:, 0]))) > -0.4
    np.testing.assert_allclose(classifier.entropy(X[TEST]), -np.sum(p * np.log(p), axis=1))
    assert "sigma" not in classifier.posterior_.draws


def test_several_classes():
    truth = make_topics(400, 3, 150, 60, 1, alpha=0.1)
    y = np.array([7, 3, 5])[truth.z]
    slda = SupervisedLDA(3, response="softmax", **SHORT).fit(truth.X[TRAIN], y[TRAIN])
    assert slda.classes_.tolist() == [3, 5, 7]
    assert slda.coef_.shape == (3, 3)
    np.testing.assert_allclose(slda.coef_.sum(axis=0), 0, atol=1e-9)
    assert slda.score(truth.X[TEST], y[TEST]) > 0.9
    assert slda.posterior_.draws["w"].shape == (2, 40, 3, 3)
    assert (np.diff(slda.topic_sizes_) <= 0).all()


def test_units_of_the_response_do_not_matter():
    one = SupervisedLDA(4, **TINY).fit(X, Y)
    other = SupervisedLDA(4, **TINY).fit(X, 1024 * Y)
    np.testing.assert_allclose(other.predict(X), 1024 * one.predict(X), rtol=1e-10)
    np.testing.assert_allclose(other.sigma_, 1024 * one.sigma_, rtol=1e-10)
    np.testing.assert_allclose(other.entropy(X), one.entropy(X) + np.log(1024))


def test_documents_without_label_help():
    """Ten labels: topics that all documents have shaped know words that the ten do not have."""
    gains = []
    for seed in (3, 5):
        corpus = make_topics(400, 4, 1500, 30, seed, alpha=0.1)
        y = 100 + corpus.truth["proportions"] @ COEF + np.random.default_rng(seed).normal(size=400)
        partly, Z = np.where(np.arange(400) < 10, y, np.nan), corpus.X
        alone = SupervisedLDA(4, **SHORT).fit(Z[:10], y[:10])
        together = SupervisedLDA(4, **SHORT).fit(Z[TRAIN], partly[TRAIN])
        gains.append(together.score(Z[TEST], y[TEST]) - alone.score(Z[TEST], y[TEST]))
    assert np.mean(gains) > 0.08


def test_chains_start_from_what_tells_of_the_response(rng):
    corpus = Corpus(X.indptr, X.indices.astype(np.int32), X.data, 150)
    words = np.repeat(corpus.words, corpus.counts)
    for y in (Y, Y > 100, np.digitize(Y, [90, 110])):
        z = first_topics(corpus, read_response(y, 400, "softmax" if y is not Y else "auto"), 8, rng)
        assert z.shape == words.shape
        assert set(z) <= set(range(8))
        first, last = (np.bincount(words[z == k], minlength=150) for k in (6, 7))
        assert not np.any((first > 0) & (last > 0))  # words that tell most, one way and the other
    nothing = read_response(rng.normal(size=400), 400, "gaussian")
    assert first_topics(corpus, nothing, 3, rng).max() <= 2
    assert first_topics(corpus, nothing, 1, rng).max() == 0


def test_a_prediction_does_not_depend_on_its_neighbours_or_on_threads(regressor):
    whole = regressor.predict(X)
    np.testing.assert_array_equal(regressor.predict(X[::-1])[::-1], whole)
    np.testing.assert_array_equal(np.concatenate([regressor.predict(X[:7]), regressor.predict(X[7:])]), whole)
    other = clone(regressor).set_params(n_jobs=2).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(other.predict(X.toarray()), whole)


PHI = np.array([[[0.7, 0.2], [0.2, 0.3], [0.1, 0.5]]], np.float32)  # (1, V, K)


def draws_of(S, w, sigma, response):
    """The same draw many times, each walk from a fresh start."""
    return ResponseDraws(
        np.repeat(PHI, S, axis=0), np.full((S, 2), 0.6), np.repeat(w[None], S, axis=0), np.full(S, sigma),
        np.ones(S, bool), response, 5,
    )  # fmt: skip


def enumerated(words, w):
    """Values of w . zbar over all topics of a document, and their probabilities."""
    psi, p = [], []
    for z in np.ndindex(*(2,) * len(words)):
        n = np.bincount(z, minlength=2)
        prior = np.prod([np.prod(0.6 + np.arange(m)) for m in n])
        psi.append(n @ w / len(words))
        p.append(prior * np.prod([PHI[0, v, k] for v, k in zip(words, z, strict=True)]))
    return np.array(psi), np.array(p) / np.sum(p)


def test_walks_have_the_law_of_the_topics_of_a_document():
    w, S = np.array([[-1.0, 2.0]]), 4000
    corpus = Corpus(np.array([0, 2, 3]), np.array([0, 2, 1], np.int32), np.array([2, 1, 4]), 3)
    psi = draws_of(S, w, 1.0, Response(np.empty(0)))._map(lambda psi: psi[:, ::KEPT, 0], corpus, None)
    for drawn, words in zip(psi, [[0, 0, 2], [1, 1, 1, 1]], strict=True):
        values, p = enumerated(words, w[0])
        levels = np.unique(values.round(9))
        expected = np.array([p[np.isclose(values, level)].sum() for level in levels])
        counts = np.array([np.isclose(drawn, level).sum() for level in levels])
        z = (counts - S * expected) / np.sqrt(S * expected * (1 - expected))
        assert counts.sum() == S
        assert 2 * norm.sf(np.abs(z)).min() > BUDGET / 20


def test_moments_and_entropy_of_a_document():
    w, response = np.array([[-1.0, 2.0]]), Response(np.empty(0), None, 3.0, 5.0)
    corpus = Corpus(np.array([0, 2, 2]), np.array([0, 2], np.int32), np.array([2, 1]), 3)
    draws = draws_of(400, w, 0.2, response)
    values, p = enumerated([0, 0, 2], w[0])
    mean, sd = draws.moments(corpus)
    average = p @ values
    assert mean[0] == pytest.approx(3 + 5 * average, abs=0.3)
    assert sd[0] == pytest.approx(5 * np.sqrt(p @ (values - average) ** 2 + 0.04), rel=0.05)
    density = lambda y: p @ norm.pdf(y, values, 0.2)  # noqa: E731
    H = quad(lambda y: -density(y) * np.log(density(y)), -2.2, 3.2, limit=400)[0]
    assert draws.entropy(corpus)[0] == pytest.approx(H + np.log(5), abs=0.03)
    assert mean[1] == pytest.approx(3 + 5 * 0.5, abs=0.5)  # an empty document: topics by their prior
    assert sd[1] > sd[0]


def test_proba_of_a_document():
    w = np.array([[0.0, 0.0], [-1.0, 3.0]])
    corpus = Corpus(np.array([0, 2]), np.array([0, 2], np.int32), np.array([2, 1]), 3)
    values, p = enumerated([0, 0, 2], w[1])
    proba = draws_of(2000, w, 1.0, Response(np.empty(0), np.array(["a", "b"]))).proba(corpus)
    assert proba[0, 1] == pytest.approx(p @ (1 / (1 + np.exp(-values))), abs=0.02)


def test_responses_that_are_read():
    nan = np.nan
    assert read_response([1, 2, 3], 3, "auto").kind == "gaussian"
    assert read_response([1.5, nan, 2.5, 3.0], 4, "auto").kind == "gaussian"
    assert read_response([0, 1, 1], 3, "auto").kind == "binary"
    assert read_response([True, False], 2, "auto").classes.tolist() == [False, True]
    assert read_response(["a", "b", "c"], 3, "auto").kind == "softmax"
    assert read_response([None, 1.0, 2.0, 4.0], 4, "auto").kind == "gaussian"
    np.testing.assert_array_equal(read_response([0, 1, -1], 3, "binary").y, [0, 1, nan])
    np.testing.assert_array_equal(read_response([-1, 1, 1], 3, "binary").y, [0, 1, 1])
    partly = read_response(np.array(["a", None, "b"], object), 3, "auto")
    np.testing.assert_array_equal(partly.y, [0, nan, 1])
    assert partly.classes.tolist() == ["a", "b"]
    np.testing.assert_array_equal(read_response(np.array([0.0, nan, 4.0]), 3, "softmax").y, [0, nan, 1])


@pytest.mark.parametrize(
    ("y", "response", "message"),
    [
        (Y[:-1], "auto", "399 labels for 400 documents"),
        (None, "auto", "requires y to be passed"),
        (np.full(400, np.nan), "gaussian", "labels no document"),
        (np.where(np.arange(400) == 3, np.inf, Y), "gaussian", "infinity"),
        (np.full(400, "a"), "auto", "one class only"),
        (np.ones(400), "binary", "one class only"),
        (np.arange(400) % 3, "binary", "use 'softmax'"),
        (Y, "softmax", "Unknown label type: continuous"),
        (np.where(Y > 0, "a", "b"), "gaussian", "must hold numbers"),
    ],
)
def test_bad_responses_say_what_to_do(y, response, message):
    with pytest.raises(DataError, match=message):
        SupervisedLDA(2, response=response, **TINY).fit(X, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X * 0, "no words at all"),
        (lambda X: X * 0.5, "fractional count"),
        (lambda X: X * -1, "negative count"),
        (lambda X: X * np.nan, "not finite"),
    ],
)
def test_bad_counts_say_what_to_do(change, message, regressor):
    with pytest.raises(DataError, match=message):
        SupervisedLDA(2, **TINY).fit(change(X.toarray().astype(float)), Y)
    if "no words" not in message:
        with pytest.raises(DataError, match=message):
            regressor.predict(change(X.toarray().astype(float)))


@pytest.mark.parametrize(
    "params",
    [{"n_topics": 0}, {"n_topics": 2.5}, {"draws": 0}, {"warmup": -1}, {"chains": 0}, {"alpha": 0.0}, {"eta": -1.0},
     {"alpha": "auto"}, {"response": "poisson"}, {"n_jobs": 0}, {"random_state": -1}],
)  # fmt: skip
def test_bad_parameters_are_refused(params):
    with pytest.raises(ParameterError):
        SupervisedLDA(**{**TINY, **params}).fit(X, Y)


def test_odd_corpora(regressor):
    """Empty documents, words that never occur, more topics than words, one document, one topic."""
    Z = X.toarray().copy()
    Z[[0, 5]] = 0
    Z[:, 3] = 0
    slda = SupervisedLDA(4, **TINY).fit(Z, Y)
    assert np.isfinite(slda.predict(Z)).all()
    empty = regressor.predict(np.zeros((2, 150), int), return_std=True)
    assert empty[0][0] == empty[0][1]
    assert empty[1][0] > regressor.predict(X, return_std=True)[1].mean()
    assert SupervisedLDA(5, **TINY).fit([[2, 1], [0, 3]], [1.0, 2.0]).components_.shape == (5, 2)
    one = SupervisedLDA(1, **TINY).fit(Z, Y)
    assert one.predict(Z).std() < 1
    assert np.isfinite(SupervisedLDA(2, **TINY).fit([[2, 1]], [3.0]).predict([[1, 1]])).all()


def test_a_constant_response_is_predicted_and_reported():
    with pytest.warns(StatusWarning, match="y is constant"):
        slda = SupervisedLDA(2, **TINY).fit(X, np.full(400, 7.0))
    np.testing.assert_allclose(slda.predict(X), 7.0, atol=3)
    assert slda.status_.advice


def test_chains_that_disagree_say_so():
    with pytest.warns(StatusWarning, match="disagree|effective sample"):
        SupervisedLDA(8, draws=10, warmup=0, chains=3, random_state=0).fit(X, Y)


def test_a_fit_that_is_stopped_early():
    slda = SupervisedLDA(4, **SHORT).fit(X, Y, callbacks=[lambda e: e.sweep == 20])
    assert slda.status_.verdict.value == "failed"
    assert slda.predict(X).shape == (400,)
    slda = SupervisedLDA(4, **SHORT).fit(X, Y, callbacks=[lambda e: e.sweep == 80 and e.chain == 1])
    assert slda.posterior_.draws["w"].shape[1] in (20, 40)


@pytest.mark.parametrize("response", ["gaussian", "softmax"])
def test_a_resumed_fit_is_the_same(response, tmp_path):
    y = Y if response == "gaussian" else np.digitize(Y, [90, 110])
    make = lambda: SupervisedLDA(3, response=response, **{**TINY, "chains": 2})  # noqa: E731
    whole = make().fit(X, y)
    stop = lambda e: e.phase == "step" and e.chain == 1 and e.sweep == 7  # noqa: E731
    make().fit(X, y, callbacks=[weald.Checkpoint(tmp_path / "c", every=1), stop])
    resumed = make().fit(X, y, resume=tmp_path / "c")
    for name, values in whole.posterior_.draws.items():
        np.testing.assert_array_equal(resumed.posterior_.draws[name], values)
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    np.testing.assert_array_equal(resumed.predict(X), whole.predict(X))
    with pytest.raises(PersistError):
        make().fit(X, np.roll(y, 1), resume=tmp_path / "c")


def test_files(regressor, classifier, tmp_path):
    for slda in (regressor, classifier, SupervisedLDA(3)):
        weald.save(slda, tmp_path / "m")
        again = weald.load(tmp_path / "m")
        assert again.get_params() == slda.get_params()
        if hasattr(slda, "coef_"):
            np.testing.assert_array_equal(again.predict(X), slda.predict(X))
            np.testing.assert_array_equal(again.transform(X), slda.transform(X))
            assert again.topics_(3) == slda.topics_(3)


def test_what_scikit_learn_takes_it_for(regressor, classifier):
    assert is_regressor(SupervisedLDA())
    assert is_regressor(SupervisedLDA(response="gaussian"))
    assert is_classifier(SupervisedLDA(response="binary"))
    assert is_classifier(SupervisedLDA(response="softmax"))
    assert is_regressor(regressor)
    assert is_classifier(classifier)
    assert hasattr(classifier, "predict_proba")
    assert not hasattr(regressor, "predict_proba")
    with pytest.raises(ParameterError, match="predict_proba"):
        classifier.predict(X, return_std=True)
    refitted = clone(classifier).fit(X, Y > 100).fit(X, Y)
    assert not hasattr(refitted, "classes_")


def test_in_a_pipeline_and_in_cross_validation():
    texts = ["good fun film", "fun good good", "dull bad film", "bad dull bad", "film of fun", "a dull film"] * 8
    stars = np.array([5, 5, 1, 1, 4, 2] * 8)
    pipe = make_pipeline(CountVectorizer(), SupervisedLDA(2, **SHORT))
    assert cross_val_score(pipe, texts, stars, cv=3).min() > 0.5
    names = pipe.fit(texts, stars).named_steps["countvectorizer"].get_feature_names_out()
    assert set(pipe[-1].topics_(3, names)[0]) & {"good", "fun"}
    pipe = make_pipeline(CountVectorizer(), SupervisedLDA(2, response="binary", **SHORT))
    assert cross_val_score(pipe, texts, stars > 3, cv=3).min() > 0.7


class Counting(SupervisedLDA):
    """Takes the numbers of scikit-learn's checks for counts, by rounding."""

    def _read(self, X, *, reset):
        return super()._read(rounded(X), reset=reset)

    def _counts(self, X):
        return super()._counts(rounded(X))

    def _evaluated(self, X, *args):
        return super()._evaluated(rounded(X), *args)


def rounded(X):
    if sparse.issparse(X):
        return X.tocsr().rint()
    if not hasattr(X, "columns"):
        X = np.asarray(X)
        try:
            X = X.astype(float) if X.dtype.kind == "O" else X
        except (TypeError, ValueError):
            return X
    return X if np.asarray(X).dtype.kind not in "f" else np.rint(X)


EXPECTED: dict[str, str] = {
    "check_positive_only_tag_during_fit": "the message names document and column instead",
    "check_estimators_nan_inf": "the message says that a count is not finite instead",
    **dict.fromkeys(
        ["check_methods_sample_order_invariance", "check_methods_subset_invariance"],
        "score_samples estimates with particles keyed by position; predictions do not depend on neighbours, see above",
    ),
}


@pytest.mark.parametrize("response", ["gaussian", "softmax"])
def test_check_estimator(response):
    results = check_estimator(
        Counting(2, response=response, draws=6, warmup=4, chains=1, n_jobs=1),
        expected_failed_checks=EXPECTED, on_fail=None, on_skip=None,
    )  # fmt: skip
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed, "\n".join(f"{check}: {type(e).__name__}: {str(e)[:300]}" for check, e in failed.items())
    assert sum(r["status"] == "passed" for r in results) > 30
