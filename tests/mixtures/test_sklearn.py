"""scikit-learn's own checks; every expected failure is listed with its reason."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from weald import DPMixture, Mixture, NaiveBayes
from weald.exceptions import StatusWarning

ESTIMATORS = {
    "em": Mixture(2, max_iter=20),
    "em-diag": Mixture(2, covariance="diag", max_iter=20),
    "sem": Mixture(2, inference="sem", max_iter=20),
    "vb": Mixture(2, inference="vb", max_iter=20),
    "gibbs": Mixture(2, inference="gibbs", draws=6, warmup=4, chains=1),
    "dp": DPMixture(draws=6, warmup=4, chains=1),
    "dp-parallel": DPMixture(inference="parallel", draws=3, warmup=2, chains=1),
    "dp-vb": DPMixture(inference="vb", draws=3),
    "map": NaiveBayes(),
    "posterior": NaiveBayes(inference="posterior"),
}
RANDOM_START = {
    "check_sample_weight_equivalence_on_dense_data": "the start draws rows, so it differs when rows are repeated or "
    "dropped; test_mixture shows that weights are repeats when the start is the same"
}
NO_WEIGHTS = dict.fromkeys(
    [
        "check_sample_weights_pandas_series",
        "check_sample_weights_not_an_array",
        "check_sample_weights_list",
        "check_all_zero_sample_weights_error",
        "check_sample_weights_shape",
        "check_sample_weights_not_overwritten",
        "check_sample_weight_equivalence_on_dense_data",
    ],
    "gibbs refuses sample_weight: labels that are drawn have no exact law for weighted rows",
)
EXPECTED: dict[str, dict[str, str]] = {
    "em": RANDOM_START,
    "em-diag": RANDOM_START,
    "sem": RANDOM_START,
    "vb": RANDOM_START,
    "gibbs": NO_WEIGHTS,
    "dp": {},
    "dp-parallel": {},
    "dp-vb": {},
    "map": {},
    "posterior": {},
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_check_estimator(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)  # the checks fit for a handful of sweeps
        results = check_estimator(ESTIMATORS[name], expected_failed_checks=EXPECTED[name], on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed, "\n".join(f"{check}: {type(e).__name__}: {str(e)[:300]}" for check, e in failed.items())
    assert sum(r["status"] == "passed" for r in results) > 30
    unused = set(EXPECTED[name]) - {r["check_name"] for r in results if r["status"] == "xfail"}
    assert not unused, f"expected to fail, but did not: {unused}"


def blobs():
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1, 2], 40)
    return rng.normal(size=(120, 2)) + 6.0 * z[:, None], z


def test_pipeline_and_search_over_the_number_of_components():
    X, z = blobs()
    pipe = make_pipeline(StandardScaler(), Mixture(2, random_state=0))
    search = GridSearchCV(pipe, {"mixture__n_components": [1, 2, 3]}, cv=3).fit(X[np.argsort(np.arange(120) % 40)])
    assert search.best_params_ == {"mixture__n_components": 3}
    assert cross_val_score(NaiveBayes(), X, z, cv=3).min() > 0.9


def test_fit_predict_and_clone():
    X, _ = blobs()
    mix = Mixture(3, random_state=0)
    assert np.array_equal(mix.fit_predict(X), mix.labels_)
    copy = clone(mix)
    assert not hasattr(copy, "labels_")
    assert np.array_equal(copy.fit(X).labels_, mix.labels_)


def test_tags_follow_the_family():
    assert Mixture(family="multinomial").__sklearn_tags__().input_tags.sparse
    assert Mixture(covariance="diag").__sklearn_tags__().input_tags.allow_nan
    assert not Mixture(covariance="full").__sklearn_tags__().input_tags.allow_nan


@pytest.mark.parametrize("family", ["nonsense", None])
def test_a_wrong_family_can_still_be_shown_and_cloned(family):
    mix = Mixture(family=family)
    assert "Mixture" in repr(clone(mix))
    assert mix._repr_html_()
