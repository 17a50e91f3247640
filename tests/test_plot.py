"""Pictures show the numbers they were given: positions, colours, heights, texts; nothing needs a display."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from weald import datasets, plot
from weald.exceptions import MissingExtraError, ParameterError, Status, Verdict
from weald.posterior import Posterior

matplotlib.use("Agg")
C = np.array([[4.0, 1.5], [1.5, 1.0]])


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


@pytest.fixture
def blobs():
    return datasets.make_blobs_overlapping(300, 5, 3, 8.0, rng=0)


def test_contrast_by_hand():
    values, labels = np.array([1.0, 3.0, np.nan, 8.0]), np.array([0, 0, 1, 1])
    difference, inside, outside = plot.contrast(values, labels, 3)
    np.testing.assert_allclose(inside, [2.0, 8.0, np.nan])
    np.testing.assert_allclose(outside, [8.0, 2.0, 4.0])
    np.testing.assert_allclose(difference, np.array([-6.0, 6.0, 0.0]) / np.std([1.0, 3.0, 8.0]))


def test_contrast_of_constant_far_and_empty_columns():
    labels = np.array([0, 1, 1])
    np.testing.assert_array_equal(plot.contrast(np.full(3, 0.1), labels, 2)[0], [0, 0])
    np.testing.assert_array_equal(plot.contrast(np.full(3, np.nan), labels, 2)[0], [0, 0])
    far = plot.contrast(np.array([0.0, 1.0, 1.0]) + 1e6, labels, 2)[0]
    np.testing.assert_allclose(far, plot.contrast(np.array([0.0, 1.0, 1.0]), labels, 2)[0], rtol=1e-6)


def test_projection_is_the_principal_plane(blobs):
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    plane = plot.project(blobs.X * [1, 10, 100, 1, 1] + 7)
    reference = PCA(2).fit(StandardScaler().fit_transform(blobs.X))
    np.testing.assert_allclose(plane.shares, reference.explained_variance_ratio_, rtol=1e-6)
    Y = plane(blobs.X * [1, 10, 100, 1, 1] + 7)
    Z = reference.transform(StandardScaler().fit_transform(blobs.X))
    np.testing.assert_allclose(abs(Y), abs(Z), atol=1e-8)


def test_projection_with_holes_constants_and_few_rows():
    X = np.array([[1.0, 5.0, np.nan], [2.0, 5.0, 1.0], [3.0, 5.0, 4.0]])
    plane = plot.project(X)
    assert np.isfinite(plane(X)).all()
    np.testing.assert_array_equal(plane.axes[1], 0)
    assert np.isfinite(plot.project(X[:1])(X[:1])).all()


def test_map_fades_doubtful_rows_and_draws_ellipses(ax, blobs):
    proba = np.full((300, 3), 0.01)
    proba[np.arange(300), blobs.z] = 0.98
    proba[:100] = 1 / 3
    model = SimpleNamespace(parameters_={"means": blobs.truth["means"], "covariances": np.ones((3, 5))})
    plot.plot_clusters(blobs.X, blobs.z, proba, model, ax)
    [points] = ax.collections
    order = np.random.default_rng(0).permutation(300)
    alpha = np.empty(300)
    alpha[order] = points.get_facecolors()[:, 3]
    assert alpha[:100].max() < 0.2 < 0.7 < alpha[100:].min()
    assert len(ax.patches) == 3
    assert "principal axis" in ax.get_xlabel()
    plane = plot.project(blobs.X)
    np.testing.assert_allclose(ax.patches[1].center, plane(blobs.truth["means"])[1])


@pytest.mark.parametrize(
    ("given", "true"),
    [
        (np.stack([C] * 3), C),
        (np.tile(np.diag(C), (3, 1)), np.diag(np.diag(C))),
        (np.ones(3), np.eye(2)),
    ],
    ids=["full", "diagonal", "spherical"],
)
def test_ellipses_hold_ninety_percent(ax, given, true):
    rng = np.random.default_rng(1)
    model = SimpleNamespace(parameters_={"means": np.zeros((3, 2)), "covariances": given})
    X = rng.multivariate_normal(np.zeros(2), true, size=20_000)
    plot.plot_clusters(X[:30], np.arange(30) % 3, None, model, ax, ["a", "b"])
    inside = ax.patches[0].get_path().transformed(ax.patches[0].get_patch_transform()).contains_points(X)
    assert inside.mean() == pytest.approx(0.9, abs=0.011)


def test_map_of_one_and_two_columns_and_of_holes(ax):
    X = np.array([[0.0, 1.0], [np.nan, 2.0], [3.0, 4.0]])
    plot.plot_clusters(X, np.array([0, 1, 1]), ax=ax, names=["a$^{", "b"])
    assert len(ax.collections[0].get_offsets()) == 2
    assert ax.get_xlabel() == "a$^{"
    line = plot.plot_clusters(X[:, :1], np.array([0, 1, 1]), ax=Figure().subplots())
    assert sum(patch.get_height() for patch in line.patches) >= 2


def test_sizes_and_certainty_count_rows(ax):
    plot.plot_sizes(np.array([1, 1, 1, 0]), 3, ax)
    assert [bar.get_width() for bar in ax.patches] == [3, 1, 0]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["1", "0", "2"]
    hist = plot.plot_certainty(np.array([[0.5, 0.5], [1.0, 0.0], [0.3, 0.7]]), Figure().subplots())
    assert sum(bar.get_height() for bar in hist.patches) == 3
    certain = plot.plot_certainty(np.ones((4, 1)), Figure().subplots())
    assert sum(bar.get_height() for bar in certain.patches) == 4


def test_trace_draws_each_chain_and_names_what_there_is(ax):
    posterior = SimpleNamespace(
        draws={"means": np.zeros((2, 3, 4))}, stats={"objective": np.array([[1.0, 2.0, np.nan], [1.0, 1.5, 3.0]])}
    )
    plot.plot_trace(posterior, ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1, 2])
    np.testing.assert_array_equal(ax.lines[2].get_ydata(), [1, 1.5, 3])
    with pytest.raises(ParameterError, match="no trace 'means'; there are: objective"):
        plot.plot_trace(posterior, "means", Figure().subplots())


def test_trace_marks_warmup_and_looks_past_it(ax):
    trace = np.r_[-1e6, -50.0, np.linspace(0, 10, 8)][None]
    plot.plot_trace(SimpleNamespace(draws={}, stats={"n_clusters": trace}, warmup=2), "n_clusters", ax)
    assert ax.patches[0].get_x() + ax.patches[0].get_width() == 2.5
    assert -10 < ax.get_ylim()[0] < 0 < 10 < ax.get_ylim()[1] < 20
    assert ax.get_ylabel() == "number of clusters"


def test_number_of_clusters_shows_the_posterior_and_its_interval(ax):
    Z = np.zeros((1, 40, 5), np.int64)
    Z[0, :30, 3:] = 1
    Z[0, 30:39, 3:] = [1, 2]
    Z[0, 39] = [0, 1, 2, 3, 9]  # labels may have gaps
    posterior = Posterior({"z": Z}, {}, Status(Verdict.OK, "", ()), {})
    plot.plot_n_clusters(posterior, ax)
    assert [bar.get_x() + bar.get_width() / 2 for bar in ax.patches] == pytest.approx([2, 3, 5])
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], [0.75, 0.225, 0.025])
    colours = [bar.get_facecolor() for bar in ax.patches]
    assert colours[0] == colours[1] != colours[2]
    assert "95 % interval: 2 to 3" in [text.get_text() for text in ax.texts]
    model = SimpleNamespace(posterior_=posterior)
    assert len(plot.plot_n_clusters(model, Figure().subplots()).patches) == 3


def test_co_clustering_is_sorted_by_cluster_with_bounds_drawn(ax):
    labels = np.array([1, 0, 1, 0, 0])
    P = np.arange(25.0).reshape(5, 5) / 25
    plot.plot_co_clustering(P, labels, ax)
    order = [1, 3, 4, 0, 2]
    np.testing.assert_array_equal(ax.images[0].get_array(), P[np.ix_(order, order)])
    assert ax.images[0].get_clim() == (0, 1)
    boxes = [(patch.get_x(), patch.get_y(), patch.get_width()) for patch in ax.patches if not patch.get_fill()]
    assert boxes == [(-0.5, -0.5, 3), (2.5, 2.5, 2)]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0", "1"]
    np.testing.assert_array_equal(ax.get_yticks(), [1, 3.5])
    with pytest.raises(ParameterError, match=r"each pair of the 5 labels, got \(5, 4\)"):
        plot.plot_co_clustering(P[:, :4], labels, Figure().subplots())


def test_profiles_show_the_strongest_columns_in_order(ax):
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 50)
    X = rng.normal(size=(100, 40))
    X[:, 33] += 5 * labels
    plot.plot_profiles(X, labels, [f"$c{j}" for j in range(40)], ax)
    names = [text.get_text() for text in ax.get_xticklabels()]
    assert len(names) == plot.MAX_COLUMNS
    assert "$c33" in names
    assert names == sorted(names, key=lambda name: int(name[2:]))
    shown = ax.images[0].get_array()
    assert shown[1, names.index("$c33")] == pytest.approx(plot.contrast(X[:, 33], labels, 2)[0][1])


def test_palette_is_distinct():
    for n in (1, 10, 11, 60):
        assert len(set(plot.palette(n))) == n


def test_axes_are_made_when_none_are_given(blobs):
    from matplotlib import pyplot

    ax = plot.plot_sizes(blobs.z)
    assert ax.figure is not None
    pyplot.close(ax.figure)


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"weald\[plot\]"):
        plot.plot_sizes(np.array([0]))
