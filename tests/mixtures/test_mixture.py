"""Mixtures: objectives that never fall, answers that are known, and results that depend on nothing they should not."""

import copy
import functools
import io
import itertools
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from weald import Mixture, Progress, load, save
from weald.assign import ExactAssignment, Rows
from weald.datasets import make_blobs_overlapping, make_categories, make_counts, make_mixed_table, make_mixture
from weald.engine import Threads
from weald.exceptions import ParameterError, StatusWarning, Verdict
from weald.families import DiagonalGaussian, family_from_name
from weald.mixtures.kernels import RULES, MixtureKernel, Model
from weald.partitions import FiniteDirichlet

COVARIANCES = ("full", "diag", "spherical", "tied")
INFERENCES = ("em", "sem", "vb", "gibbs")
SHORT = {"draws": 60, "warmup": 30, "chains": 2}


def quiet(mix, X, **kwargs):
    """Fit where a caution is not the point of the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        return mix.fit(X, **kwargs)


def blobs(n=300, k=3, d=2, separation=8.0, seed=0):
    data = make_blobs_overlapping(n, d, k, separation, seed)
    return data.X, data.z


def bernoulli(seed=0, n=400, d=24):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, size=n)
    theta = rng.choice([0.1, 0.9], size=(3, d))
    return (rng.random((n, d)) < theta[z]).astype(float), z


def poisson(seed=0, n=400):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, size=n)
    return rng.poisson(rng.gamma(1.0, 15.0, size=(3, 5))[z]).astype(float), z


def categories(seed=0):
    data = make_categories(400, 3, 10, 4, seed, concentration=0.25)
    return data.X.astype(float), data.z


def documents(seed=0):
    data = make_counts(300, 3, 40, 60, seed)
    return data.X.astype(float), data.z


def table(seed=0):
    data = make_mixed_table(400, 3, seed)
    return pd.DataFrame(data.X), data.z


def holes(X, share=0.15, seed=1):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


DATA = {
    **{covariance: (blobs, {"covariance": covariance}) for covariance in COVARIANCES},
    "diag, holes": (lambda seed=0: (holes(blobs(seed=seed, d=4)[0]), blobs(seed=seed, d=4)[1]), {"covariance": "diag"}),
    "bernoulli": (bernoulli, {"family": "bernoulli"}),
    "bernoulli, holes": (lambda seed=0: (holes(bernoulli(seed)[0]), bernoulli(seed)[1]), {"family": "bernoulli"}),
    "poisson": (poisson, {"family": "poisson"}),
    "poisson, holes": (lambda seed=0: (holes(poisson(seed)[0]), poisson(seed)[1]), {"family": "poisson"}),
    "categorical": (categories, {"family": "categorical"}),
    "categorical, holes": (lambda seed=0: (holes(categories(seed)[0]), categories(seed)[1]), {"family": "categorical"}),
    "multinomial": (documents, {"family": "multinomial"}),
    "mixed": (table, {"family": "mixed"}),
}


def data_of(name, seed=0):
    make, parameters = DATA[name]
    return make(seed=seed), parameters


@functools.cache
def fitted(name, inference):
    """One fit that several tests look at; they may not change it."""
    (X, z), parameters = data_of(name)
    return quiet(Mixture(3, inference=inference, n_init=3, random_state=0, **SHORT, **parameters), X), X, z


def n_rows(X):
    return X.shape[0]


def dense(X):
    return X.toarray() if sp.issparse(X) else X


# Objectives


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("inference", ["em", "vb"])
def test_the_objective_never_falls(name, inference):
    for seed, weighted, init in [(0, False, "kmeans++"), (1, True, "random-points"), (2, False, "random")]:
        (X, _), parameters = data_of(name, seed)
        weight = np.random.default_rng(seed).gamma(2.0, size=n_rows(X)) if weighted else None
        mix = Mixture(5, inference=inference, init=init, tol=1e-7, max_iter=60, random_state=seed, **parameters)
        trace = quiet(mix, X, sample_weight=weight).posterior_.stats["objective"][0]
        assert trace.size > 3
        assert np.isfinite(trace).all()
        assert np.diff(trace).min() > -1e-9 * np.abs(trace).max()
        assert trace[-1] > trace[0]


def test_a_wrong_m_step_is_seen_in_the_objective():
    """The same check rejects an M-step that forgets a thousandth of the sums: from the optimum it goes down."""
    X, _ = blobs(separation=3.0)
    family = DiagonalGaussian.from_data(X, 3)
    right = RULES["em"]
    wrong = replace(right, parameters=lambda model, S, rng: right.parameters(model, S * [0.999, 0.999, 1, 1, 1], rng))
    first = family.sufficient(X)[:3] * 100
    _, there = sweeps(kernel_of(X, family, right, first), 200)
    trace, _ = sweeps(kernel_of(X, family, wrong, there.S), 3)
    assert np.diff(trace).min() < -1e-9 * np.abs(trace).max()
    trace, _ = sweeps(kernel_of(X, family, right, there.S), 3)
    assert np.diff(trace).min() > -1e-9 * np.abs(trace).max()


def kernel_of(X, family, rule, first, weight=None):
    rows, model = Rows(X, family, weight), Model(family, FiniteDirichlet(len(first), 1.0))
    return MixtureKernel(model, rows, rule, ExactAssignment(), Threads(1), lambda rng: first, rows.log_base())


def sweeps(kernel, n):
    """Trace of the objective over n sweeps, and the last state."""
    rng, trace = np.random.default_rng(0), []
    state = kernel.init(rng)
    for _ in range(n):
        state, info = kernel.step(rng, state)
        trace.append(info["objective"])
    return np.array(trace), state


def test_the_traced_likelihood_is_that_of_the_data():
    X, _ = blobs()
    mix = Mixture(3, random_state=0, tol=1e-10).fit(X)
    np.testing.assert_allclose(mix.posterior_.stats["log_likelihood"][0, -1], mix.score_samples(X).sum(), rtol=1e-7)
    np.testing.assert_allclose(mix.lower_bound_, mix.posterior_.stats["objective"][0, -1] / 300)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_likelihood_equals_scikit_learn(covariance):
    X, _ = blobs(n=2_000, d=3)
    ours = Mixture(3, covariance=covariance, random_state=0, tol=1e-6).fit(X)
    theirs = GaussianMixture(3, covariance_type=covariance, random_state=0, tol=1e-6).fit(X)
    assert ours.score(X) == pytest.approx(theirs.score(X), abs=5e-3)
    assert ours.score(X) <= theirs.score(X) + 1e-6, "maximum likelihood cannot be beaten on the training data"
    assert ours.aic(X) == pytest.approx(theirs.aic(X), rel=2e-3)
    assert ours.bic(X) == pytest.approx(theirs.bic(X), rel=2e-3)
    order, other = np.argsort(ours.means_[:, 0]), np.argsort(theirs.means_[:, 0])
    np.testing.assert_allclose(ours.means_[order], theirs.means_[other], atol=0.02)


def test_density_is_scipys():
    X, _ = blobs()
    mix = Mixture(3, random_state=0).fit(X)
    parts = [
        w * stats.multivariate_normal(m, C).pdf(X)
        for w, m, C in zip(mix.weights_, mix.means_, mix.covariances_, strict=True)
    ]
    np.testing.assert_allclose(mix.score_samples(X), np.log(np.sum(parts, axis=0)), atol=1e-8)
    np.testing.assert_allclose(mix.predict_proba(X), (np.array(parts) / np.sum(parts, axis=0)).T, atol=1e-8)


@pytest.mark.parametrize("name", DATA)
def test_aic_and_bic(name):
    mix, X, _ = fitted(name, "em")
    d = n_features(X)
    per = {"full": d + d * (d + 1) // 2, "diag": 2 * d, "spherical": d + 1, "tied": d, "bernoulli": d, "poisson": d,
           "categorical": 3 * d, "multinomial": d - 1, "mixed": 2 * 2 + 1 + 1 + 3 + 2}[name.split(",")[0]]  # fmt: skip
    n_parameters = 3 * per + 2 + (d * (d + 1) // 2 if name == "tied" else 0)
    total = mix.score_samples(X).sum()
    assert mix.aic(X) == pytest.approx(-2 * total + 2 * n_parameters)
    assert mix.bic(X) == pytest.approx(-2 * total + np.log(n_rows(X)) * n_parameters)
    assert mix.score(X) == pytest.approx(total / n_rows(X))


def n_features(X):
    return X.shape[1]


# Known answers


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("inference", INFERENCES)
def test_recovery(name, inference):
    mix, X, z = fitted(name, inference)
    assert adjusted_rand_score(z, mix.labels_) > (0.8 if "holes" in name or name == "mixed" else 0.95)
    assert np.array_equal(mix.labels_, mix.predict(X))
    p = mix.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-12)
    assert np.array_equal(p.argmax(1), mix.labels_)
    np.testing.assert_allclose(mix.weights_.sum(), 1.0)
    np.testing.assert_allclose(np.sort(mix.weights_), np.sort(np.bincount(z) / z.size), atol=0.06)
    assert mix.n_components_ == 3
    for key, value in mix.parameters_.items():
        assert len(value) == 3
        assert getattr(mix, f"{key}_") is value


@pytest.mark.parametrize("inference", ["em", "vb", "gibbs"])
def test_truth_from_the_prior_is_found_again(inference):
    family = DiagonalGaussian(np.zeros(6), np.ones(6), np.zeros(6), np.ones(6), 0.02, 5.0)
    data = make_mixture(family, None, np.log([0.5, 0.3, 0.2]), 1_500, 4)
    mix = quiet(Mixture(3, family=family, inference=inference, n_init=3, random_state=0, **SHORT), data.X)
    assert adjusted_rand_score(data.z, mix.labels_) > 0.98
    order = match(mix.means_, data.truth["means"])
    np.testing.assert_allclose(mix.means_[order], data.truth["means"], atol=0.25)
    np.testing.assert_allclose(mix.weights_[order], data.truth["weights"], atol=0.05)
    np.testing.assert_allclose(mix.covariances_[order], data.truth["covariances"], rtol=0.3)


def match(found, truth):
    K = len(truth)
    return list(min(itertools.permutations(range(K)), key=lambda p: np.abs(found[list(p)] - truth).sum()))


def test_variational_bayes_empties_what_it_does_not_need():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 6, size=900)
    X = rng.normal(size=(900, 2)) + 8.0 * np.column_stack([np.cos(z * np.pi / 3), np.sin(z * np.pi / 3)])
    for seed in range(3):
        mix = quiet(Mixture(10, inference="vb", max_iter=300, random_state=seed), X)
        assert mix.n_components_ == 6
        assert adjusted_rand_score(z, mix.labels_) > 0.97


def test_stochastic_em_rises_then_hovers():
    X, _ = blobs(n=800, k=4, separation=5.0)
    family = family_from_name("gaussian", "full", X, 4)
    trace, there = sweeps(kernel_of(X, family, RULES["sem"], family.sufficient(X[:4])), 120)
    late = trace[60:]
    assert late.mean() > trace[0] + 5 * late.std()
    assert np.diff(late).min() < 0 < np.diff(late).max()
    summit = sweeps(kernel_of(X, family, RULES["em"], there.S), 200)[0][-1]
    assert late.max() <= summit
    assert summit - late.mean() < 0.01 * abs(summit)


def test_gibbs_finds_the_truth_and_says_so():
    X, z = blobs(n=400, separation=10.0)
    mix = Mixture(3, inference="gibbs", draws=300, warmup=100, chains=4, random_state=0).fit(X)
    assert mix.status_.ok
    assert mix.converged_
    assert mix.status_.figures["rhat"] < 1.01
    centres = np.array([X[z == k].mean(0) for k in range(3)])
    order = match(mix.means_, centres)
    np.testing.assert_allclose(mix.means_[order], centres, atol=0.15)
    draws = mix.posterior_.draws["means"][:, :, order]
    assert draws.shape == (4, 300, 3, 2)
    sd = draws.std(axis=(0, 1))
    expected = np.array([X[z == k].std(0) / np.sqrt((z == k).sum()) for k in range(3)])
    np.testing.assert_allclose(sd, expected, rtol=0.25)
    assert mix.posterior_.stats["log_likelihood"].shape == (4, 400)
    assert mix.posterior_.warmup == 100


# Verdicts


@pytest.mark.parametrize("inference", ["em", "sem", "vb"])
def test_one_sweep_is_not_enough(inference):
    X, _ = blobs()
    with pytest.warns(StatusWarning, match="raise max_iter"):
        mix = Mixture(3, inference=inference, max_iter=1, random_state=0).fit(X)
    assert mix.status_.verdict is Verdict.CAUTION
    assert mix.status_.advice
    assert not mix.converged_
    assert mix.n_iter_ == 1
    assert mix.posterior_.status == mix.status_


def test_chains_in_different_modes_are_reported():
    """Two far pairs of blobs and three components: which pair is split depends on the chain."""
    rng = np.random.default_rng(0)
    centres = np.array([[-50.0, -3], [-50, 3], [50, -4], [50, 4]])
    X = np.concatenate([rng.normal(c, 0.3, size=(50, 2)) for c in centres])
    with pytest.warns(StatusWarning, match="R-hat"):
        mix = Mixture(
            3,
            inference="gibbs",
            covariance="spherical",
            init="random-points",
            draws=60,
            warmup=20,
            chains=6,
            random_state=0,
        ).fit(X)
    assert mix.status_.verdict is Verdict.CAUTION
    assert any("modes" in line for line in mix.status_.advice)


def test_too_few_draws_are_reported():
    X, _ = blobs()
    with pytest.warns(StatusWarning, match="raise draws"):
        Mixture(3, inference="gibbs", draws=3, warmup=5, chains=1, random_state=0).fit(X)


# Densities and simulation


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_predictive_density_integrates_to_one(inference, covariance):
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(-2, 1, 12), rng.normal(3, 0.5, 8)][:, None]
    mix = quiet(Mixture(2, inference=inference, covariance=covariance, random_state=0, **SHORT), X)
    grid = np.sinh(np.linspace(-16, 16, 40_001))
    density = np.exp(mix.score_samples(grid[:, None]))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("inference", INFERENCES)
def test_probabilities_of_all_binary_rows_sum_to_one(inference):
    X = bernoulli(d=5, n=60)[0]
    mix = quiet(Mixture(2, family="bernoulli", inference=inference, random_state=0, **SHORT), X)
    everything = np.array(list(itertools.product([0.0, 1.0], repeat=5)))
    assert np.exp(mix.score_samples(everything)).sum() == pytest.approx(1.0, abs=1e-9)
    some = everything.copy()
    some[:, 3] = np.nan
    both = mix.score_samples(some)
    np.testing.assert_allclose(
        np.exp(both[0]), np.exp(mix.score_samples(everything[[0, 2]])).sum(), rtol=1e-7
    )  # marginal over column 3


@pytest.mark.parametrize("inference", INFERENCES)
def test_probabilities_of_counts_sum_to_one(inference):
    X = poisson(n=60)[0][:, :1]
    mix = quiet(Mixture(2, family="poisson", inference=inference, random_state=0, **SHORT), X)
    assert np.exp(mix.score_samples(np.arange(2_000.0)[:, None])).sum() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("inference", INFERENCES)
def test_sample_has_the_moments_of_the_data(inference, covariance):
    rng = np.random.default_rng(5)
    z = rng.random(600) < 0.3
    X = np.where(z[:, None], rng.normal(size=(600, 2)) * 3.0 + 10.0, rng.normal(size=(600, 2)) * 0.5 - 10.0)
    mix = quiet(Mixture(2, inference=inference, covariance=covariance, random_state=0, **SHORT), X)
    new, labels = mix.sample(20_000)
    assert new.shape == (20_000, 2)
    assert labels.shape == (20_000,)
    np.testing.assert_allclose(new.mean(0), X.mean(0), atol=0.5)
    np.testing.assert_allclose(np.cov(new.T), np.cov(X.T), rtol=0.08, atol=4.0)
    np.testing.assert_allclose(np.bincount(labels) / 20_000, mix.weights_, atol=0.015)
    for k in range(2):
        inside = new[labels == k]
        np.testing.assert_allclose(inside.mean(0), mix.means_[k], atol=0.3)
        within = mix.covariances_[k] if mix.covariances_.ndim > 2 else np.diag(np.broadcast_to(mix.covariances_[k], 2))
        np.testing.assert_allclose(np.cov(inside.T), within, rtol=0.15, atol=0.15 * within.max())


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("inference", INFERENCES)
def test_sample_can_be_read_again(name, inference):
    mix, X, _ = fitted(name, inference)
    new, labels = mix.sample(50)
    assert new.shape == (50, n_features(X))
    if name != "mixed":  # levels come back as codes
        agree = (mix.predict(new) == labels).mean()
        assert agree > 0.8


# Starts, warm starts, streams


def test_the_best_of_many_starts_is_kept():
    X, _ = blobs(k=6, n=300, separation=5.0, seed=7)
    one = [quiet(Mixture(6, init="random-points", random_state=seed), X).lower_bound_ for seed in range(6)]
    assert np.std(one) > 1e-3
    many = quiet(Mixture(6, init="random-points", n_init=8, random_state=0), X)
    assert many.lower_bound_ >= max(one[:1])
    assert many.lower_bound_ > np.mean(one)
    ends = []

    def note(event):
        if event.phase == "end":
            ends.append(event.stats["objective"])

    quiet(Mixture(6, init="random-points", n_init=4, random_state=0), X, callbacks=[note])
    four = quiet(Mixture(6, init="random-points", n_init=4, random_state=0), X)
    assert len(ends) == 4
    assert four.lower_bound_ == pytest.approx(max(ends) / 300)


@pytest.mark.parametrize("inference", ["em", "vb"])
def test_a_warm_start_goes_on(inference):
    X, _ = blobs(k=4, separation=3.0, n=500)
    mix = Mixture(4, inference=inference, warm_start=True, max_iter=5, tol=1e-9, random_state=0)
    bounds = [quiet(mix, X).lower_bound_ for _ in range(4)]
    assert np.diff(bounds).min() > 0
    whole = quiet(Mixture(4, inference=inference, max_iter=20, tol=1e-9, random_state=0), X)
    assert bounds[-1] == pytest.approx(whole.lower_bound_, rel=1e-4)
    cold = Mixture(4, inference=inference, max_iter=5, tol=1e-9, random_state=0)
    assert quiet(cold, X).lower_bound_ == quiet(cold, X).lower_bound_


def test_a_warm_start_after_another_family_is_a_cold_one():
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0, (100, 3)).astype(float)
    mix = quiet(Mixture(2, family="bernoulli", warm_start=True, random_state=0), (X > 3).astype(float))
    mix.set_params(family="poisson")
    quiet(mix, X)
    assert "rates" in mix.parameters_


@pytest.mark.parametrize("inference", ["em", "vb"])
def test_a_stream_approaches_the_batch_fit(inference):
    X, z = blobs(n=6_000, separation=6.0)
    whole = quiet(Mixture(3, inference=inference, random_state=0), X)
    stream = Mixture(3, inference=inference, random_state=0)
    for rows in np.array_split(np.arange(6_000), 30):
        stream.partial_fit(X[rows])
    assert adjusted_rand_score(z, stream.predict(X)) > 0.97
    assert stream.score(X) == pytest.approx(whole.score(X), abs=0.02)
    order = match(stream.means_, whole.means_)
    np.testing.assert_allclose(stream.means_[order], whole.means_, atol=0.2)


def test_a_stream_may_have_missing_cells_later():
    X, z = blobs(n=600, d=4)
    mix = Mixture(3, covariance="diag", random_state=0).partial_fit(X[:300]).partial_fit(holes(X[300:]))
    assert adjusted_rand_score(z, mix.predict(X)) > 0.95


# Weights


@pytest.mark.parametrize("name", ["full", "diag", "spherical", "tied", "bernoulli", "poisson", "multinomial"])
@pytest.mark.parametrize("rule", ["em", "vb"])
def test_weights_are_repeats_in_every_sweep(name, rule):
    (X, _), parameters = data_of(name)
    X = X[:120]
    weight = np.random.default_rng(0).integers(0, 4, size=n_rows(X)).astype(float)
    repeated = X[np.repeat(np.arange(n_rows(X)), weight.astype(int))]
    law = family_from_name(parameters.get("family", "gaussian"), parameters.get("covariance", "full"), X, 3)

    first = np.asarray(law.sufficient(dense(repeated[:3]))) * 20.0
    trace_a, a = sweeps(kernel_of(X, law, RULES[rule], first, weight), 4)
    trace_b, b = sweeps(kernel_of(repeated, law, RULES[rule], first), 4)
    np.testing.assert_allclose(trace_a, trace_b, rtol=1e-10)
    np.testing.assert_allclose(a.S, b.S, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(a.eta, b.eta, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("inference", ["em", "sem", "vb"])
@pytest.mark.parametrize("name", ["full", "diag", "spherical", "tied", "poisson"])
def test_rows_of_no_weight_do_not_matter(inference, name):
    (X, _), parameters = data_of(name)
    wild = np.full((4, X.shape[1]), 1e7)
    mix = Mixture(3, inference=inference, n_init=2, random_state=0, **parameters)
    alone = quiet(mix, X)
    probabilities, means = alone.predict_proba(X), alone.weights_
    weighted = quiet(mix, np.vstack([X, wild]), sample_weight=np.r_[np.ones(len(X)), np.zeros(4)])
    np.testing.assert_allclose(np.sort(weighted.weights_), np.sort(means), atol=1e-3)
    order = np.argmax(probabilities.T @ weighted.predict_proba(X), axis=1)
    np.testing.assert_allclose(weighted.predict_proba(X)[:, order], probabilities, atol=1e-2)


def test_the_scale_of_equal_weights_is_a_number_of_rows():
    X, _ = blobs()
    one = quiet(Mixture(3, random_state=0), X)
    same = quiet(Mixture(3, random_state=0), X, sample_weight=np.ones(300))
    assert np.array_equal(one.labels_, same.labels_)
    np.testing.assert_allclose(one.means_, same.means_, rtol=1e-9)


# What results may not depend on


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("name", ["full", "diag", "multinomial"])
def test_threads_do_not_matter(inference, name):
    if name == "multinomial":
        X = make_counts(13_000, 4, 30, 12, 0).X.astype(float)
    else:
        X = make_blobs_overlapping(13_000, 3, 4, 3.0, 0).X
    parameters = {"draws": 3, "warmup": 2, "chains": 2, "max_iter": 6, **DATA[name][1]}
    fits = [quiet(Mixture(4, inference=inference, n_jobs=n, random_state=3, **parameters), X) for n in (1, 2, 4)]
    for other in fits[1:]:
        assert same_fit(fits[0], other)
        assert np.array_equal(fits[0].predict_proba(X), other.predict_proba(X))
        assert np.array_equal(fits[0].score_samples(X), other.score_samples(X))


def same_fit(a, b):
    draws = all(np.array_equal(a.posterior_.draws[name], b.posterior_.draws[name]) for name in a.posterior_.draws)
    traces = all(np.array_equal(a.posterior_.stats[name], b.posterior_.stats[name]) for name in a.posterior_.stats)
    return draws and traces and np.array_equal(a.labels_, b.labels_)


@pytest.mark.parametrize("inference", INFERENCES)
def test_the_seed_is_all_that_matters(inference):
    X, _ = blobs(separation=2.0)
    make = lambda seed: quiet(Mixture(3, inference=inference, random_state=seed, **SHORT), X)  # noqa: E731
    assert same_fit(make(5), make(5))
    assert not same_fit(make(5), make(6))
    assert same_fit(make(np.random.default_rng(1)), make(np.random.default_rng(1)))
    assert same_fit(make(np.random.RandomState(1)), make(np.random.RandomState(1)))


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_single_precision_is_close(inference, covariance):
    X, _ = blobs()
    a = quiet(Mixture(3, inference=inference, covariance=covariance, random_state=0, **SHORT), X + 1e3)
    b = quiet(
        Mixture(3, inference=inference, covariance=covariance, random_state=0, **SHORT), (X + 1e3).astype(np.float32)
    )
    assert adjusted_rand_score(a.labels_, b.labels_) == 1.0
    np.testing.assert_allclose(
        np.sort(a.score_samples(X + 1e3)), np.sort(b.score_samples((X + 1e3).astype(np.float32))), atol=0.05
    )


def test_every_container_gives_the_same_fit(tmp_path):
    X, _ = blobs()
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.to_csv(tmp_path / "x.csv", index=False, float_format="%.17g")
    frame.to_csv(tmp_path / "x.tsv", index=False, sep="\t", float_format="%.17g")
    frame.to_parquet(tmp_path / "x.parquet")
    np.save(tmp_path / "x.npy", X)
    named = [frame, pl.DataFrame({"a": X[:, 0], "b": X[:, 1]}), pa.table({"a": X[:, 0], "b": X[:, 1]})]
    named += [tmp_path / "x.csv", str(tmp_path / "x.tsv"), tmp_path / "x.parquet"]
    plain = [X, X.tolist(), np.asfortranarray(X), X[::-1][::-1], tmp_path / "x.npy"]
    reference = Mixture(3, random_state=0).fit(X)
    for container in named + plain:
        mix = Mixture(3, random_state=0).fit(container)
        assert same_fit(reference, mix), type(container)
        assert np.array_equal(mix.predict(container), reference.labels_)
        assert mix.n_features_in_ == 2
        if any(container is one for one in named):
            assert mix.feature_names_in_.tolist() == ["a", "b"]
        else:
            assert not hasattr(mix, "feature_names_in_")


def test_every_container_gives_the_same_mixed_fit(tmp_path):
    data = make_mixed_table(200, 2, 1)
    lists = {name: [None if x != x else x for x in column.tolist()] for name, column in data.X.items()}
    frame = pd.DataFrame(data.X)
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_csv(tmp_path / "x.csv", index=False, float_format="%.17g")
    reference = Mixture(2, family="mixed", random_state=0).fit(frame)
    for container in (
        pl.DataFrame(lists),
        pa.table(lists),
        frame.convert_dtypes(),
        tmp_path / "x.parquet",
        tmp_path / "x.csv",
    ):
        mix = Mixture(2, family="mixed", random_state=0).fit(container)
        assert set(mix.parameters_) == set(reference.parameters_), container
        np.testing.assert_allclose(mix.weights_, reference.weights_, rtol=1e-9)
        assert np.array_equal(mix.predict(frame), reference.labels_)


def test_sparse_and_dense_counts_give_the_same_fit():
    X, _ = documents()
    dense_fit = Mixture(3, family="multinomial", random_state=0).fit(X.toarray())
    for make in (sp.csr_array, sp.csr_matrix, sp.csc_matrix, sp.coo_array):
        for dtype in (np.float64, np.int64):
            mix = Mixture(3, family="multinomial", random_state=0).fit(make(X).astype(dtype))
            assert np.array_equal(mix.labels_, dense_fit.labels_)
            np.testing.assert_allclose(mix.probabilities_, dense_fit.probabilities_, rtol=1e-9)
    np.testing.assert_allclose(dense_fit.score_samples(X), dense_fit.score_samples(X.toarray()), rtol=1e-10)


@pytest.mark.parametrize("inference", ["em", "vb", "gibbs"])
def test_missing_cells_are_dropped_columns(inference):
    X, _ = blobs(d=4)
    mix = quiet(Mixture(3, covariance="diag", inference=inference, random_state=0, **SHORT), X)
    rng = np.random.default_rng(0)
    full = rng.normal(X[:1], 2.0, size=(1, 4))
    hole = full.copy()
    hole[0, 2] = np.nan
    grid = np.linspace(-60, 60, 20_001)
    rows = np.repeat(full, grid.size, axis=0)
    rows[:, 2] = grid
    integral = np.trapezoid(np.exp(mix.score_samples(rows)), grid)
    assert np.exp(mix.score_samples(hole)[0]) == pytest.approx(integral, rel=1e-3)


# Callbacks


def test_events_come_in_order():
    X, _ = blobs()
    events = []
    quiet(Mixture(3, n_init=2, random_state=0), X, callbacks=[lambda e: events.append((e.phase, e.chain, e.sweep))])
    for chain in range(2):
        mine = [e for e in events if e[1] == chain]
        assert mine[0] == ("begin", chain, 0)
        assert [e[2] for e in mine[1:-1]] == list(range(1, len(mine) - 1))
        assert {e[0] for e in mine[1:-1]} == {"step"}
        assert mine[-1] == ("end", chain, len(mine) - 2)
    assert events == sorted(events, key=lambda e: e[1])


@pytest.mark.parametrize("inference", INFERENCES)
def test_a_callback_can_stop(inference):
    X, _ = blobs()
    mix = Mixture(3, inference=inference, tol=0.0, warmup=2, draws=50, chains=1, random_state=0)
    quiet(mix, X, callbacks=[lambda event: event.sweep >= 7, lambda event: None])
    assert mix.n_iter_ == 7
    assert mix.posterior_.stats["objective"].shape == (1, 7)
    assert mix.labels_.shape == (300,)


def test_stopping_late_chains_keeps_the_early_ones():
    X, _ = blobs()
    mix = Mixture(3, inference="gibbs", warmup=10, draws=20, chains=3, random_state=0)
    quiet(mix, X, callbacks=[lambda event: event.chain == 2 and event.sweep >= 3])
    assert mix.posterior_.n_chains == 2
    assert mix.posterior_.n_draws == 20


def test_progress_writes_a_line():
    X, _ = blobs()
    stream = io.StringIO()
    quiet(Mixture(3, random_state=0), X, callbacks=[Progress("blobs", stream, always=True)])
    text = stream.getvalue()
    assert text.startswith("\rblobs [")
    assert text.endswith("\n")
    assert "log_likelihood" in text
    silent = io.StringIO()
    quiet(Mixture(3, random_state=0), X, callbacks=[Progress("blobs", silent)])
    assert not silent.getvalue()


def test_fit_prints_nothing(capsys):
    X, _ = blobs()
    quiet(Mixture(3, random_state=0), X)
    assert capsys.readouterr() == ("", "")


# Saved and loaded


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("inference", INFERENCES)
def test_saved_and_loaded(tmp_path, name, inference):
    mix, X, _ = fitted(name, inference)
    save(mix, tmp_path / "mix.weald")
    again = load(tmp_path / "mix.weald")
    assert again.get_params() == mix.get_params()
    assert np.array_equal(again.predict_proba(X), mix.predict_proba(X))
    assert np.array_equal(again.score_samples(X), mix.score_samples(X))
    assert np.array_equal(again.predict(X), mix.labels_)
    assert all(np.array_equal(a, b) for a, b in zip(again.sample(5), mix.sample(5), strict=True))
    assert again.status_ == mix.status_
    assert same_fit(again, mix)
    if inference in ("em", "vb") and name in ("full", "diag"):
        a, b = again.partial_fit(X[:50]), copy.deepcopy(mix).partial_fit(X[:50])
        assert np.array_equal(a.means_, b.means_)


def test_posterior_goes_to_arviz():
    X, _ = blobs()
    data = quiet(Mixture(3, inference="gibbs", random_state=0, **SHORT), X).posterior_.to_arviz()
    assert data["posterior"]["means"].shape == (2, 60, 3, 2)


def test_a_refit_leaves_nothing_of_the_last_fit():
    X = np.random.default_rng(0).poisson(3.0, (60, 2)).astype(float)
    mix = quiet(Mixture(2, random_state=0), X)
    assert hasattr(mix, "means_")
    quiet(mix.set_params(family="poisson"), X)
    assert hasattr(mix, "rates_")
    assert not hasattr(mix, "means_")
    assert not hasattr(mix, "covariances_")


def test_lists_reach_the_quality_of_exact_assignment():
    rng = np.random.default_rng(4)
    centres = rng.normal(size=(200, 4)) * 9.0
    X = centres[rng.integers(200, size=8_000)] + rng.normal(size=(8_000, 4))
    fits = {
        assign: quiet(Mixture(200, inference="sem", assign=assign, covariance="diag", max_iter=60, random_state=0), X)
        for assign in ("exact", "lists")
    }
    exact, lists = (fits[assign].score(X) for assign in ("exact", "lists"))
    assert lists > exact - 0.1
    evals = {assign: fit.posterior_.stats["n_evals"][0] for assign, fit in fits.items()}
    assert np.median(evals["lists"]) < 0.25 * np.median(evals["exact"])


@pytest.mark.parametrize("assign", ["lists", "groups", "canopy1", "canopy2", "tree"])
def test_gibbs_refuses_kernels_that_estimate_the_likelihood(assign):
    with pytest.raises(ParameterError, match="assign='exact'"):
        Mixture(2, inference="gibbs", assign=assign).fit(np.zeros((5, 2)))


@pytest.mark.parametrize("assign", ["groups", "canopy1"])
def test_other_kernels_fit_too(assign):
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(c, 1.0, (150, 2)) for c in (-12.0, 0.0, 12.0)])
    exact, other = (
        quiet(Mixture(3, inference="sem", assign=name, max_iter=60, random_state=0), X).score(X)
        for name in ("exact", assign)
    )
    assert other > exact - 0.05
