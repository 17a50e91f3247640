"""HDP as an estimator: what it says of the number of topics, scikit-learn's checks, resumption, files, bad input."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from weald import HDP, Checkpoint, load, save
from weald.datasets import make_topics
from weald.exceptions import DataError, ParameterError, PersistError, StatusWarning, Verdict
from weald.topics import hdp_gibbs

SIM = make_topics(240, 4, 60, 50, 0)
X, NEW = SIM.X.tocsr()[:200], SIM.X.tocsr()[200:]
SHORT = {"draws": 6, "warmup": 4, "chains": 1}


def quiet(**options):
    """A fit whose doubts are expected."""
    given = {name: options.pop(name) for name in ("X", "callbacks", "resume") if name in options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        hdp = HDP(**{"random_state": 0, **options})
        return hdp.fit(given.pop("X", X), **given)


@pytest.fixture(scope="module")
def fitted():
    return quiet(draws=60, warmup=80)


def test_it_finds_the_topics(fitted):
    assert fitted.n_topics_ == 4
    low, high = fitted.n_topics_interval_
    assert low <= 4 <= high <= 5
    values, p = fitted.n_topics_posterior_
    assert p.sum() == pytest.approx(1.0)
    assert 4 in values
    true = SIM.truth["topics"]
    likeness = np.sqrt(fitted.components_) @ np.sqrt(true).T
    assert likeness.max(axis=0).min() > 0.9


def test_what_it_leaves(fitted):
    np.testing.assert_allclose(fitted.components_.sum(axis=1), 1.0)
    assert fitted.topic_sizes_.sum() == pytest.approx(1.0)
    assert (np.diff(fitted.topic_sizes_) <= 0).all()
    assert fitted.alpha_.sum() < fitted.posterior_.draws["alpha"].mean() * 1.2
    assert fitted.posterior_.draws["sizes"].shape[:2] == (2, 60)
    assert (fitted.posterior_.draws["sizes"].sum(axis=-1) == X.sum()).all()
    assert fitted.posterior_.draws["n_topics"].shape == (2, 60)
    assert fitted.posterior_.n_sweeps == fitted.n_iter_ == 140
    assert fitted.transform(NEW).shape == (40, 4)
    np.testing.assert_allclose(fitted.transform(NEW).sum(axis=1), 1.0)
    assert fitted.perplexity(NEW) < 40
    assert len(fitted.topics_(3)) == 4
    assert 0.01 < fitted.eta_ < 0.3


def test_known_concentrations_are_kept():
    hdp = quiet(alpha=2.0, gamma=3.0, eta=0.07, **SHORT)
    for name, value in (("alpha", 2.0), ("gamma", 3.0), ("eta", 0.07)):
        np.testing.assert_array_equal(hdp.posterior_.draws[name], value)


def test_seeds_and_threads():
    one, two, other = quiet(n_jobs=1, **SHORT), quiet(n_jobs=2, **SHORT), quiet(random_state=1, **SHORT)
    np.testing.assert_array_equal(one.components_, two.components_)
    assert not np.array_equal(one.posterior_.draws["alpha"], other.posterior_.draws["alpha"])


ESTIMATORS = {
    "gibbs": HDP(**SHORT),
    "svi": HDP(inference="svi", max_iter=2, max_topics=5, document_topics=3),
}


EXPECTED: dict[str, str] = {
    "check_positive_only_tag_during_fit": "the message names document and column instead",
    "check_estimators_nan_inf": "the message says that a count is not finite instead",
    **dict.fromkeys(
        ["check_methods_sample_order_invariance", "check_methods_subset_invariance"],
        "score_samples estimates with particles keyed by position; proportions do not depend on neighbours",
    ),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_check_estimator(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        results = check_estimator(ESTIMATORS[name], expected_failed_checks=EXPECTED, on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed, "\n".join(f"{check}: {type(e).__name__}: {str(e)[:300]}" for check, e in failed.items())
    assert sum(r["status"] == "passed" for r in results) > 30


class Killed(Exception):
    pass


def killer(at):
    left = [at]

    def callback(event):
        left[0] -= event.phase == "step"
        if left[0] <= 0:
            raise Killed

    return callback


FITS = {
    "gibbs": {"draws": 8, "warmup": 12, "chains": 2},
    "svi": {"inference": "svi", "max_iter": 4, "tol": 0.0, "batch_size": 64},
    "batch": {"inference": "svi", "max_iter": 4, "tol": 0.0, "batch_size": None, "max_topics": 12},
}


@pytest.mark.parametrize(("name", "at"), [("gibbs", 5), ("gibbs", 27), ("svi", 2), ("batch", 2)])
def test_a_killed_fit_goes_on(name, at, tmp_path):
    whole, path = quiet(**FITS[name]), tmp_path / "run.ckpt"
    with pytest.raises(Killed):
        quiet(callbacks=[Checkpoint(path, every=1), killer(at)], **FITS[name])
    again = quiet(resume=path, **FITS[name])
    for one, two in (
        (whole.posterior_.draws, again.posterior_.draws),
        (whole.posterior_.stats, again.posterior_.stats),
    ):
        assert set(one) == set(two)
        for key in one:
            np.testing.assert_array_equal(one[key], two[key], err_msg=key)
    np.testing.assert_array_equal(whole.components_, again.components_)
    np.testing.assert_array_equal(whole.alpha_, again.alpha_)
    assert str(whole.status_) == str(again.status_)
    with pytest.raises(PersistError, match="another fit"):
        quiet(resume=path, X=X[1:], **FITS[name])


@pytest.mark.parametrize("name", FITS)
def test_files(name, tmp_path):
    hdp = quiet(**FITS[name])
    save(hdp, tmp_path / "model.weald")
    copy = load(tmp_path / "model.weald")
    np.testing.assert_array_equal(hdp.transform(NEW), copy.transform(NEW))
    assert copy.n_topics_interval_ == hdp.n_topics_interval_
    if name == "svi":
        one, two = hdp.partial_fit(NEW), copy.partial_fit(NEW)
        np.testing.assert_array_equal(one.components_, two.components_)


def test_streams():
    hdp = HDP(inference="svi", batch_size=32, random_state=0)
    for start in range(0, 200, 100):
        hdp.partial_fit(X[start : start + 100], n_documents=200)
    assert hdp.n_topics_ == 4
    assert hdp.n_iter_ == 8
    assert not hasattr(hdp, "status_")
    assert not hasattr(HDP(), "partial_fit")
    with pytest.raises(DataError, match="vocabulary"):
        hdp.partial_fit(X[:, :-1])


def test_callbacks_can_stop_it():
    hdp = quiet(callbacks=[lambda event: event.chain == 0 and event.sweep >= 3], **SHORT)
    assert hdp.status_.verdict is Verdict.FAILED
    assert hdp.n_iter_ == 3
    assert hdp.components_.shape == (hdp.n_topics_, 60)


def test_too_many_topics_are_told():
    with pytest.warns(StatusWarning, match="max_topics"):
        hdp = HDP(max_topics=2, random_state=0, draws=50, warmup=10).fit(X)
    assert hdp.status_.verdict is Verdict.FAILED
    assert hdp.n_iter_ < 60


BAD = {
    "inference": "vb",
    "alpha": -1.0,
    "gamma": (1.0, 0.0),
    "eta": 0.0,
    "chains": 0,
    "max_topics": 1,
    "draws": 0,
    "document_topics": 0,
    "learning_decay": 0.4,
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_parameters(name):
    with pytest.raises(ParameterError, match=name):
        HDP(**{name: BAD[name]}).fit(X)


ODD = {
    "one document": X[:1],
    "one word": sp.csr_array(np.full((20, 1), 3)),
    "one token": sp.csr_array(np.array([[1, 0]])),
    "empty documents": sp.csr_array(np.array([[0, 0, 0], [2, 1, 0], [0, 0, 0], [0, 2, 3]])),
    "a column of zeros": sp.csr_array(np.array([[3, 0, 1], [1, 0, 3]] * 5)),
}


@pytest.mark.parametrize("inference", ["gibbs", "svi"])
@pytest.mark.parametrize("name", ODD)
def test_odd_corpora(name, inference):
    corpus = ODD[name]
    hdp = quiet(X=corpus, inference=inference, draws=10, warmup=10, chains=1)
    assert np.isfinite(hdp.components_).all()
    theta = hdp.transform(corpus)
    np.testing.assert_allclose(theta.sum(axis=1), 1.0)
    empty = np.diff(corpus.indptr) == 0
    if empty.any():
        np.testing.assert_allclose(theta[empty], np.tile(hdp.alpha_ / hdp.alpha_.sum(), (empty.sum(), 1)))
    unseen = np.asarray(corpus.sum(axis=0)).ravel() == 0
    assert (hdp.components_[:, unseen] > 0).all()


@pytest.mark.parametrize(
    ("wrong", "match"),
    [(np.zeros((3, 2)), "no words"), (np.full((2, 2), 0.5), "fractional"), (-np.ones((2, 2)), "(?i)negative")],
)
def test_what_is_no_corpus(wrong, match):
    with pytest.raises(DataError, match=match):
        HDP().fit(wrong)


def test_text_in():
    texts = ["tea with milk", "milk and tea", "a car on the road", "the road and the car"] * 15
    pipe = make_pipeline(CountVectorizer(stop_words="english"), HDP(draws=40, warmup=60, chains=1, random_state=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        theta = pipe.fit_transform(texts)
    words = pipe[-1].topics_(2, pipe[0].get_feature_names_out())
    assert sorted(sorted(pair) for pair in words) == [["car", "road"], ["milk", "tea"]]
    assert (theta[::4].argmax(axis=1) == theta[1::4].argmax(axis=1)).all()


def test_chains_that_disagree_are_told():
    stats = {
        "log_joint": np.random.default_rng(0).normal(size=(2, 50)),
        "n_topics": np.repeat([[5.0], [9.0]], 50, axis=1),
    }
    assert "5.0 to 9.0" in hdp_gibbs._judged(stats, 10, 40, 1_000).message
    stats["n_topics"][1] = 6.0
    assert hdp_gibbs._judged(stats, 10, 40, 1_000).ok
    stats["log_joint"][1] += 50.0
    assert not hdp_gibbs._judged(stats, 10, 40, 1_000).ok
    assert not hdp_gibbs._judged(stats, 10, 3, 1_000).ok


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_corpus_of_twenty_topics(seed):
    sim = make_topics(5_500, 20, 2_000, 100, seed)
    counts = sim.X.tocsr()
    hdp = quiet(X=counts[:5_000], random_state=seed, chains=1)
    assert 18 <= hdp.n_topics_ <= 24
    assert hdp.perplexity(counts[5_000:]) < 575
