"""Naive Bayes against scikit-learn, against sums by hand, and against itself in pieces."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

from weald import NaiveBayes, load, save
from weald.datasets import make_mixed_table
from weald.exceptions import DataWarning, StatusWarning
from weald.families import Bernoulli, DiagonalGaussian

LABELS = np.array(["ash", "birch", "cedar"])


@pytest.fixture
def y(rng):
    return LABELS[rng.choice(3, size=300, p=[0.5, 0.3, 0.2])]


def binary(rng, y, d=7):
    theta = rng.random((3, d))
    return (rng.random((y.size, d)) < theta[np.searchsorted(LABELS, y)]).astype(float)


def counts(rng, y, d=9):
    p = rng.dirichlet(np.full(d, 0.7), size=3)
    return np.array([rng.multinomial(20, p[c]) for c in np.searchsorted(LABELS, y)]).astype(float)


def gaussians(rng, y, spread=3.0):
    return rng.normal(size=(y.size, 4)) * [1, 5, 0.1, 1] + spread * rng.normal(size=(3, 4))[np.searchsorted(LABELS, y)]


def mixed(seed=0):
    data = make_mixed_table(400, 3, seed)
    return pd.DataFrame(data.X), data.z


# scikit-learn


def test_bernoulli_equals_scikit_learn(rng, y):
    X, new = binary(rng, y), binary(rng, y)
    ours, theirs = NaiveBayes("bernoulli").fit(X, y), BernoulliNB(alpha=1.0).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-10)
    np.testing.assert_allclose(ours.parameters_["probabilities"], np.exp(theirs.feature_log_prob_), atol=1e-12)
    np.testing.assert_allclose(ours.predict_log_proba(new), theirs.predict_log_proba(new), atol=1e-10)
    assert (ours.predict(new) == theirs.predict(new)).all()
    assert ours.score(new, y) == theirs.score(new, y)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csr_matrix, sp.csc_array])
def test_multinomial_equals_scikit_learn(rng, y, make):
    X, new = counts(rng, y), counts(rng, y)
    ours = NaiveBayes("multinomial", prior={"concentration": 2.0}).fit(make(X), y)
    theirs = MultinomialNB(alpha=1.0).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(make(new)), theirs.predict_proba(new), atol=1e-10)
    np.testing.assert_allclose(ours.parameters_["probabilities"], np.exp(theirs.feature_log_prob_), atol=1e-12)


@pytest.mark.parametrize("prior", [{"concentration": 2.0}, None])
def test_categorical_equals_scikit_learn(rng, y, prior):
    X = rng.integers(0, 4, size=(y.size, 5)) + np.searchsorted(LABELS, y)[:, None]
    ours, theirs = NaiveBayes("categorical", prior=prior).fit(X, y), CategoricalNB(alpha=1.0).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-10)


def test_gaussian_approaches_scikit_learn(rng):
    y = LABELS[rng.choice(3, size=20_000)]
    X = gaussians(rng, y, spread=1.0)
    ours, theirs = NaiveBayes().fit(X, y), GaussianNB().fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-2)
    np.testing.assert_allclose(ours.parameters_["means"], theirs.theta_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(ours.parameters_["covariances"], theirs.var_, rtol=5e-3)


def test_weights_of_classes(rng, y):
    X = binary(rng, y)
    share = np.array([(y == c).mean() for c in LABELS])
    nb = NaiveBayes("bernoulli").fit(X, y)
    np.testing.assert_allclose(nb.weights_, share, atol=1e-12)
    np.testing.assert_allclose(nb.class_count_, share * y.size)
    assert (nb.classes_ == LABELS).all()
    nb = NaiveBayes("bernoulli", weight_concentration=1.0).fit(X, y)
    np.testing.assert_allclose(nb.weights_, (share * y.size + 1) / (y.size + 3), atol=1e-12)


# By hand


def test_map_is_the_corrected_journal_73():
    X = np.array([[1, 0], [1, 1], [0, 1], [0, 1], [0, 0]], float)
    y = np.array([0, 0, 1, 1, 1])
    b1, b0 = 3.0, 2.0
    nb = NaiveBayes("bernoulli", prior={"alpha": b1, "beta": b0}).fit(X, y)
    N = np.array([2.0, 3.0])[:, None]
    N1 = np.array([[2, 1], [0, 2]])
    theta = (N1 + b1 - 1) / (N + b0 + b1 - 2)
    np.testing.assert_allclose(nb.parameters_["probabilities"], theta, atol=1e-12)
    joint = np.log([0.4, 0.6]) + np.log(np.where(X[:, None, :] == 1, theta, 1 - theta)).sum(2)
    np.testing.assert_allclose(nb.predict_log_proba(X), joint - logsumexp(joint, axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_allclose(nb.score_samples(X), logsumexp(joint, axis=1), atol=1e-12)


def test_maximum_likelihood_with_flat_priors():
    X = np.array([[1, 0], [1, 1], [0, 1], [0, 1]], float)
    nb = NaiveBayes("bernoulli", prior={"alpha": 1.0, "beta": 1.0}).fit(X, [0, 0, 1, 1])
    np.testing.assert_allclose(nb.parameters_["probabilities"], [[1, 0.5], [0, 1]], atol=1e-12)
    assert np.isfinite(nb.predict_log_proba([[0.0, 0.0]])).all()


def test_posterior_of_bernoulli_by_hand():
    X = np.array([[1, 0], [1, 1], [0, 1], [0, 1], [0, 0]], float)
    nb = NaiveBayes("bernoulli", inference="posterior", weight_concentration=1.0).fit(X, [0, 0, 1, 1, 1])
    mean = (np.array([[2, 1], [0, 2]]) + 2) / (np.array([[2], [3]]) + 4)
    joint = np.log(np.array([3, 4]) / 7) + np.log(np.where(X[:, None, :] == 1, mean, 1 - mean)).sum(2)
    np.testing.assert_allclose(nb.score_samples(X), logsumexp(joint, axis=1), atol=1e-12)


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "poisson", "multinomial"])
def test_posterior_is_a_ratio_of_evidences(rng, y, family):
    make = {"gaussian": gaussians, "bernoulli": binary, "poisson": counts, "multinomial": counts}[family]
    X, y = make(rng, y)[:40], y[:40]
    nb = NaiveBayes(family, inference="posterior").fit(X, y)
    law = nb._components.family
    T = np.asarray(law.sufficient(X), float)
    S = np.array([T[y == c].sum(0) for c in LABELS])
    ratio = np.array([law.log_marginal(S + t) - law.log_marginal(S) for t in T])
    joint = np.log(S[:, -1] / y.size) + ratio + law.log_base(X)[:, None]
    np.testing.assert_allclose(nb.score_samples(X), logsumexp(joint, axis=1), atol=1e-8)
    expected = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    np.testing.assert_allclose(nb.predict_proba(X), expected, atol=1e-8)


def test_posterior_is_less_sure_than_map(rng):
    X, y = rng.normal(size=(6, 2)) + np.repeat([-1, 1], 3)[:, None], np.repeat([0, 1], 3)
    new = np.array([[8.0, 8.0]])
    sure = NaiveBayes().fit(X, y).predict_proba(new).max()
    assert NaiveBayes(inference="posterior").fit(X, y).predict_proba(new).max() < sure


# Pieces


@pytest.mark.parametrize("inference", ["map", "posterior"])
@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "multinomial", "poisson"])
def test_batches_add_up(rng, y, family, inference):
    make = {"gaussian": gaussians, "bernoulli": binary, "poisson": counts, "multinomial": counts}[family]
    X = make(rng, y)
    whole = NaiveBayes(family, inference=inference).fit(X, y)
    law = whole._components.family
    parts = NaiveBayes(law, inference=inference)
    for rows in np.array_split(np.arange(y.size), 7):
        parts.partial_fit(X[rows], y[rows], classes=LABELS)
    np.testing.assert_allclose(parts.predict_log_proba(X), whole.predict_log_proba(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(parts.class_count_, whole.class_count_)


def test_a_class_may_wait_for_a_later_batch(rng, y):
    X, order = gaussians(rng, y), np.argsort(y, kind="stable")
    nb = NaiveBayes()
    for rows in np.array_split(order, 10):
        nb.partial_fit(X[rows], y[rows], classes=LABELS)
        assert np.isfinite(nb.predict_proba(X)).all()
    assert nb.score(X, y) > 0.9


def test_batches_with_missing_cells_after_a_first_without(rng, y):
    X = gaussians(rng, y)
    holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    nb = NaiveBayes().partial_fit(X[:150], y[:150], classes=LABELS).partial_fit(holes[150:], y[150:])
    assert nb.score(X, y) > 0.9


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "multinomial", "poisson", "categorical"])
def test_weights_are_repeats(rng, y, family):
    make = {"gaussian": gaussians, "multinomial": counts, "poisson": counts}.get(family, binary)
    X, weight = make(rng, y), rng.integers(0, 4, size=y.size)
    repeated = np.repeat(np.arange(y.size), weight)
    a = NaiveBayes(family).fit(X, y, sample_weight=weight)
    b = NaiveBayes(family).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(a.predict_log_proba(X), b.predict_log_proba(X), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(a.class_count_, b.class_count_)


def test_rows_of_no_weight_do_not_matter(rng, y):
    X, wild = gaussians(rng, y), np.full((5, 4), 1e9)
    weight = np.r_[np.ones(y.size), np.zeros(5)]
    a = NaiveBayes().fit(np.vstack([X, wild]), np.r_[y, y[:5]], sample_weight=weight)
    b = NaiveBayes().fit(X, y)
    np.testing.assert_allclose(a.predict_log_proba(X), b.predict_log_proba(X), rtol=1e-6, atol=1e-6)


# Missing cells, missing labels, mixed columns


@pytest.mark.parametrize("inference", ["map", "posterior"])
@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "poisson", "categorical"])
def test_a_missing_cell_is_a_dropped_column(rng, y, family, inference):
    X = {"gaussian": gaussians, "poisson": counts}.get(family, binary)(rng, y)[:, :4]
    nb = NaiveBayes(family, inference=inference).fit(X, y)
    rest = NaiveBayes(family, inference=inference, prior=prior_of(family, X)).fit(X[:, [0, 2, 3]], y)
    holes = X.copy()
    holes[:, 1] = np.nan
    np.testing.assert_allclose(nb.predict_proba(holes), rest.predict_proba(X[:, [0, 2, 3]]), atol=1e-9)
    np.testing.assert_allclose(nb.score_samples(holes), rest.score_samples(X[:, [0, 2, 3]]), atol=1e-8)


def prior_of(family, X):
    """The default prior of a Gaussian depends on the number of columns: say what it was with four."""
    return {"psi": 3 ** (-2 / 4) * X[:, [0, 2, 3]].var(0)} if family == "gaussian" else None


def test_a_cell_missing_in_fit_counts_for_nothing(rng, y):
    X = gaussians(rng, y)
    holes = X.copy()
    holes[::3, 1] = np.nan
    nb = NaiveBayes().fit(holes, y)
    for k, c in enumerate(LABELS):
        seen = holes[(y == c) & ~np.isnan(holes[:, 1]), 1]
        np.testing.assert_allclose(nb.parameters_["means"][k, 1], seen.mean(), atol=0.05 * seen.std())
    assert nb.predict(holes).shape == y.shape


@pytest.mark.parametrize("inference", ["map", "posterior"])
def test_unknown_labels_help(inference):
    few, many = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        z = rng.integers(0, 2, size=1_000)
        X = rng.normal(size=(1_000, 8)) * 1.2 + 0.7 * (2 * z[:, None] - 1)
        y = np.where(np.arange(1_000) < 12, z + 1, -1)
        y[:2], X[:2] = [1, 2], X[:2] * 0 + 0.7 * (2 * np.array([0, 1])[:, None] - 1)
        known = y > 0
        few.append((NaiveBayes(inference=inference).fit(X[known], y[known]).predict(X) == z + 1).mean())
        nb = NaiveBayes(inference=inference).fit(X, y)
        assert nb.classes_.tolist() == [1, 2]
        assert nb.n_iter_ > 1
        assert nb.status_.ok
        many.append((nb.predict(X) == z + 1).mean())
    assert np.mean(many) > np.mean(few) + 0.03
    assert np.mean(many) > 0.9


def test_known_labels_stay_what_they_are(rng):
    """The statistics of known rows are theirs alone: a row far on the wrong side keeps its class."""
    X = np.r_[rng.normal(-3, 1, 50), rng.normal(3, 1, 50), 3.0][:, None]
    y = np.r_[np.full(50, 1), np.full(50, 2), 1]
    both = NaiveBayes().fit(X, y)
    semi = NaiveBayes().fit(np.vstack([X, [[-3.0]]]), np.r_[y, -1])
    assert semi.class_count_[0] == pytest.approx(both.class_count_[0] + 1, abs=1e-3)


def test_too_few_sweeps_are_reported(rng):
    X, z = rng.normal(size=(200, 2)), rng.integers(1, 3, size=200)
    X += z[:, None]
    with pytest.warns(StatusWarning, match="max_iter"):
        nb = NaiveBayes(max_iter=1).fit(X, np.where(np.arange(200) < 10, z, -1))
    assert not nb.status_.ok


def test_minus_one_and_one_other_are_two_classes(rng):
    X = np.r_[rng.normal(-3, 1, (50, 2)), rng.normal(3, 1, (50, 2))]
    nb = NaiveBayes().fit(X, np.repeat([-1, 1], 50))
    assert nb.classes_.tolist() == [-1, 1]
    assert nb.n_iter_ == 1


def test_mixed_columns_from_pandas():
    X, z = mixed()
    nb = NaiveBayes("mixed").fit(X, z)
    assert set(nb.parameters_) == {
        "gaussian_means", "gaussian_covariances", "poisson_rates", "bernoulli_probabilities",
        "categorical_probabilities",
    }  # fmt: skip
    assert nb.score(X, z) > NaiveBayes("categorical").fit(X[["plan"]], z).score(X[["plan"]], z)
    assert nb.score(X, z) > 0.9
    assert nb.feature_names_in_.tolist() == list(X.columns)


def test_mixed_equals_the_product_of_its_parts():
    X, z = mixed()
    X = X.drop(columns=["height", "city"]).dropna()
    z = z[X.index]
    whole = NaiveBayes("mixed").fit(X, z).predict_log_proba(X)
    total = 0.0
    for names, family in [
        (["income"], "gaussian"), (["visits"], "poisson"), (["member"], "bernoulli"), (["plan"], "categorical"),
    ]:  # fmt: skip
        part = NaiveBayes(family).fit(X[names], z)
        total = total + part.predict_log_proba(X[names]) - np.log(part.weights_)
    total = total + np.log(part.weights_)
    total -= logsumexp(total, axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(whole), np.exp(total), atol=1e-8)


def test_levels_that_a_class_lacks_and_levels_nobody_had(rng):
    X = pd.DataFrame({"u": ["a", "b", "a", "c"], "v": ["p", "p", "q", "q"]})
    nb = NaiveBayes("categorical").fit(X, [0, 0, 1, 1])
    np.testing.assert_allclose(
        nb.predict_proba(X[:1])[0], odds(2 / 5 * 3 / 4, 2 / 5 * 1 / 4)
    )  # by hand: (n + 1)/(N + L)
    with pytest.warns(DataWarning, match="'u'"):
        p = nb.predict_proba(pd.DataFrame({"u": ["z"], "v": ["p"]}))
    np.testing.assert_allclose(p[0], odds(3 / 4, 1 / 4))


def odds(a, b):
    return np.array([a, b]) / (a + b)


@pytest.mark.parametrize("inference", ["map", "posterior"])
@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "multinomial", "poisson", "categorical", "mixed"])
def test_saved_and_loaded(tmp_path, rng, y, family, inference):
    if family == "mixed":
        X, y = mixed()
    else:
        X = {"gaussian": gaussians, "multinomial": counts, "poisson": counts}.get(family, binary)(rng, y)
    nb = NaiveBayes(family, inference=inference).fit(X, y)
    save(nb, tmp_path / "nb.weald")
    again = load(tmp_path / "nb.weald")
    assert np.array_equal(nb.predict_proba(X), again.predict_proba(X))
    assert np.array_equal(nb.predict(X), again.predict(X))
    if family != "mixed":
        again.partial_fit(X[:50], y[:50])
        nb.partial_fit(X[:50], y[:50])
        assert np.array_equal(nb.predict_proba(X), again.predict_proba(X))


def test_a_family_with_its_own_prior(rng, y):
    X = binary(rng, y)
    law = Bernoulli(np.full(7, 5.0), np.full(7, 1.0))
    assert NaiveBayes(law).fit(X, y)._components.family is law
    law = DiagonalGaussian.from_data(X, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert NaiveBayes(law).fit(X, y).score(X, y) > 0.3


@pytest.mark.parametrize("inference", ["map", "posterior"])
def test_threads_do_not_matter(rng, inference):
    z = rng.integers(1, 4, size=13_000)
    X = rng.normal(size=(13_000, 3)) + z[:, None]
    y = np.where(rng.random(13_000) < 0.7, -1, z)
    fits = [NaiveBayes(inference=inference, n_jobs=n).fit(X, y) for n in (1, 2, 4)]
    for other in fits[1:]:
        assert np.array_equal(fits[0].predict_proba(X), other.predict_proba(X))


def test_single_precision(rng, y):
    X = gaussians(rng, y)
    a, b = NaiveBayes().fit(X, y), NaiveBayes().fit(X.astype(np.float32), y)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X.astype(np.float32)), atol=1e-3)
