"""Simulators against their known answers: separations, frequencies and moments with stated error bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats

from weald import datasets
from weald.exceptions import ParameterError
from weald.families.gaussian_full import FullGaussian
from weald.families.poisson import Poisson


@pytest.mark.parametrize(("d", "k", "separation"), [(1, 2, 3.0), (2, 10, 4.0), (20, 50, 6.5)])
def test_blobs_have_the_separation_and_the_moments_asked_for(d, k, separation):
    data = datasets.make_blobs_overlapping(4000, d, k, separation, rng=1)
    means = data.truth["means"]
    distances = np.linalg.norm(means[:, None] - means[None], axis=2) + np.where(np.eye(k), np.inf, 0)
    assert distances.min(axis=1).mean() == pytest.approx(separation)
    residual = data.X - means[data.z]
    assert abs(residual.mean()) < 5 / np.sqrt(residual.size)
    assert residual.var() == pytest.approx(1, abs=5 * np.sqrt(2 / residual.size))
    assert stats.chisquare(np.bincount(data.z, minlength=k)).pvalue > 1e-4


def test_blobs_dtype_reproducibility_and_one_blob():
    a = datasets.make_blobs_overlapping(50, 3, 4, 2.0, rng=7, dtype=np.float32)
    b = datasets.make_blobs_overlapping(50, 3, 4, 2.0, rng=np.random.default_rng(7), dtype=np.float32)
    assert a.X.dtype == np.float32
    np.testing.assert_array_equal(a.X, b.X)
    assert datasets.make_blobs_overlapping(10, 2, 1, 4.0, rng=0).z.max() == 0


@pytest.mark.parametrize(("family", "mean"), [(FullGaussian, "means"), (Poisson, "rates")])
def test_mixture_follows_weights_and_components(family, mean):
    start = np.random.default_rng(0).poisson(20, size=(500, 2)).astype(float)
    prior, w = family.from_data(start), np.array([0.3, 0.7])
    eta = prior.mode_eta(50 * prior.sufficient(start[:2] + np.array([[0.0], [9.0]])))
    data = datasets.make_mixture(prior, eta, np.log(w) + 5, 20_000, rng=3)
    np.testing.assert_allclose(data.truth["weights"], w)
    assert stats.chisquare(np.bincount(data.z), w * 20_000).pvalue > 1e-4
    for j in range(2):
        rows = data.X[data.z == j]
        error = 5 * rows.std(axis=0) / np.sqrt(len(rows))
        assert (abs(rows.mean(axis=0) - data.truth[mean][j]) < error).all()
        assert (abs(rows.mean(axis=0) - data.truth[mean][1 - j]) > error).any()  # the injected bug: labels swapped


def test_mixture_draws_parameters_from_the_prior_and_checks_shapes():
    family = Poisson.from_data(np.array([[3.0], [5.0]]))
    data = datasets.make_mixture(family, None, np.zeros(4), 100, rng=0)
    assert data.truth["eta"].shape == (4, family.width)
    assert len(np.unique(data.truth["rates"])) == 4
    with pytest.raises(ParameterError, match="eta has 4 components but log_w has 3"):
        datasets.make_mixture(family, data.truth["eta"], np.zeros(3), 10, rng=0)


def test_categories_follow_their_probabilities():
    data = datasets.make_categories(20_000, 2, 3, 4, rng=5, concentration=1.0)
    assert data.X.shape == (20_000, 3)
    for c in range(2):
        for j in range(3):
            rows = data.X[data.z == c, j]
            expected = data.truth["probabilities"][c, j] * len(rows)
            assert stats.chisquare(np.bincount(rows, minlength=4), expected).pvalue > 1e-5
            shuffled = np.roll(expected, 1)  # the injected bug: levels off by one
            assert stats.chisquare(np.bincount(rows, minlength=4), shuffled).pvalue < 1e-5


def test_counts_are_sparse_with_exact_lengths_and_right_words():
    data = datasets.make_counts(500, 3, 40, 60, rng=2, concentration=0.5)
    assert sparse.issparse(data.X)
    assert data.X.shape == (500, 40)
    np.testing.assert_array_equal(np.asarray(data.X.sum(axis=1)).ravel(), 60)
    assert data.X.has_canonical_format
    for j in range(3):
        words = np.asarray(data.X[np.flatnonzero(data.z == j)].sum(axis=0)).ravel()
        expected = data.truth["probabilities"][j] * words.sum()
        rare = expected <= 5
        observed, expected = (np.append(a[~rare], a[rare].sum()) for a in (words, expected))
        assert stats.chisquare(observed, expected).pvalue > 1e-5


def test_mixed_table_has_every_type_and_the_known_rates():
    data = datasets.make_mixed_table(20_000, 2, rng=4, missing=0.1)
    kinds = {name: column.dtype.kind for name, column in data.X.items()}
    assert kinds == {"income": "f", "height": "f", "visits": "i", "member": "b", "city": "O", "plan": "O"}
    assert np.isnan(data.X["income"]).mean() == pytest.approx(0.1, abs=0.01)
    assert np.mean([v is None for v in data.X["city"]]) == pytest.approx(0.1, abs=0.01)
    assert not any(v is None for v in data.X["plan"])
    for j in range(2):
        rows = data.z == j
        n = rows.sum()
        assert abs(np.nanmean(data.X["income"][rows]) - data.truth["means"][j, 0]) < 5 * 3 / np.sqrt(0.9 * n)
        assert abs(data.X["visits"][rows].mean() - data.truth["rates"][j]) < 5 * np.sqrt(data.truth["rates"][j] / n)
        assert abs(data.X["member"][rows].mean() - data.truth["members"][j]) < 5 * 0.5 / np.sqrt(n)
        share = np.mean(data.X["plan"][rows] == "basic")
        assert abs(share - data.truth["plans"][j, 0]) < 5 * 0.5 / np.sqrt(n)


def test_demo_is_the_wine_table():
    demo = datasets.load_demo()
    assert demo.X.shape == (178, 13) == (len(demo.z), len(demo.names))
    np.testing.assert_array_equal(np.bincount(demo.z), [59, 71, 48])
    assert len(demo.classes) == 3


def test_galaxies_are_the_published_ones():
    velocities = datasets.load_galaxies()
    assert velocities.shape == (82,)
    assert (np.diff(velocities) >= 0).all()
    assert velocities.mean() == pytest.approx(20.8315, abs=1e-4)
    assert velocities[[0, -1]].tolist() == [9.172, 34.279]


def test_bad_parameters_are_named():
    with pytest.raises(ParameterError, match="k must be positive"):
        datasets.make_blobs_overlapping(10, 2, 0, 1.0, rng=0)
    with pytest.raises(ParameterError, match="missing"):
        datasets.make_mixed_table(10, 2, rng=0, missing=1.0)
