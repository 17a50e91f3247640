"""Pictures of partitions: a map with certainty, sizes, profiles. Each returns matplotlib Axes.

    map        rows on the first two principal axes of the standardised columns: y = A'(x - m), A = V / s;
               a Gaussian component N(mu, C) appears as the 90 % ellipse of N(A'(mu - m), A' C A)
    certainty  histogram of max_k p(z = k | x)
    profiles   d_kj = (mean of column j in cluster k - mean elsewhere) / standard deviation of column j

Cost: O(nd) and one thin SVD of at most 20,000 rows; at most 5,000 points are drawn.
Pictures of draws are described in `weald.plot_draws`, those of topics in `weald.plot_topics`.

    ax = plot_clusters(X, model.labels_, model.predict_proba(X), model)
    ax = plot_profiles(X, model.labels_, names=["height", "weight"])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weald._canvas import COLOURS, FAINT, axes_or_new, palette, short
from weald._typing import Array, FloatArray, IntArray
from weald.plot_draws import plot_co_clustering, plot_n_clusters, plot_trace
from weald.plot_topics import plot_hinton, plot_mixtures, plot_topic_map, plot_topic_words, plot_topics_over_time

__all__ = [
    "COLOURS", "FAINT", "Projection", "contrast", "palette", "plot_certainty", "plot_clusters", "plot_co_clustering",
    "plot_differences", "plot_hinton", "plot_mixtures", "plot_n_clusters", "plot_profiles", "plot_sizes",
    "plot_topic_map", "plot_topic_words", "plot_topics_over_time", "plot_trace", "project",
]  # fmt: skip

MAX_POINTS, MAX_ROWS, MAX_COLUMNS = 5_000, 20_000, 24  # drawn points, rows of the SVD, columns of the heat map
RADIUS_90 = 2.1460  # sqrt of the 0.9 quantile of chi-square with two degrees of freedom


@dataclass(frozen=True)
class Projection:
    """A linear map to the plane: y = (x - centre) @ axes.

    Parameters
    ----------
    centre : array of shape (d,)
        The origin of the plane.
    axes : array of shape (d, 2)
        One column for each axis.
    shares : array of shape (2,)
        The share of the variance of the standardised columns that each axis shows.
    """

    centre: FloatArray
    axes: FloatArray
    shares: FloatArray

    def __call__(self, X: Array) -> FloatArray:
        """(n, d) -> (n, 2); a missing cell counts as the centre."""
        return np.asarray(np.nan_to_num(np.asarray(X, np.float64) - self.centre) @ self.axes)


def project(X: Array) -> Projection:
    """The first two principal axes of the standardised columns of X, of shape (n, d) with d > 1."""
    rows = _some(len(X), MAX_ROWS)
    Z = np.array(X[rows], np.float64)
    seen = np.isfinite(Z)
    n_seen = np.maximum(seen.sum(axis=0), 1)
    centre = np.where(seen, Z, 0).sum(axis=0) / n_seen
    Z = np.where(seen, Z - centre, 0)
    scale = np.sqrt((Z**2).sum(axis=0) / n_seen)
    scale[scale <= 1e-12 * (1 + abs(centre))] = np.inf  # a constant column takes no part
    _, singular, V = np.linalg.svd(Z / scale, full_matrices=False)
    V, singular = np.pad(V, ((0, 2), (0, 0)))[:2], np.pad(singular, (0, 2))
    V *= np.where(V.sum(axis=1, keepdims=True) < 0, -1, 1)
    return Projection(centre, V.T / scale[:, None], singular[:2] ** 2 / max((singular**2).sum(), 1e-300))


def contrast(values: Array, labels: IntArray, n_clusters: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What sets each cluster apart in one column.

    Parameters
    ----------
    values : array of shape (n,)
        Numbers; NaN cells take no part.
    labels : array of shape (n,)
        Clusters 0..K-1.
    n_clusters : int
        K.

    Returns
    -------
    difference, inside, outside : arrays of shape (K,)
        (inside - outside) / standard deviation of the column (0 where it is not defined), the mean in the
        cluster, and the mean in the rest (NaN where there are no rows).
    """
    values = np.asarray(values, np.float64)
    seen = np.isfinite(values)
    values, labels = values[seen], labels[seen]
    shift = values.mean() if len(values) else 0.0
    values = values - shift
    n_in = np.bincount(labels, minlength=n_clusters).astype(np.float64)
    total_in = np.bincount(labels, weights=values, minlength=n_clusters)
    with np.errstate(invalid="ignore", divide="ignore"):
        inside = total_in / n_in
        outside = (total_in.sum() - total_in) / (len(values) - n_in)
        spread = values.std() if len(values) else 0.0
        difference = (inside - outside) / (spread if spread > 1e-12 * (1 + abs(shift)) else np.inf)
    difference[~np.isfinite(difference)] = 0.0
    return difference, inside + shift, outside + shift


def plot_clusters(
    X: Array,
    labels: IntArray,
    proba: FloatArray | None = None,
    model: Any = None,
    ax: Any = None,
    names: Sequence[str] | None = None,
) -> Any:
    """Rows on a plane, coloured by cluster and faded where the assignment is uncertain.

    Parameters
    ----------
    X : array of shape (n, d)
        Numbers; one column is drawn as stacked histograms, two as they are, more on their principal axes.
    labels : array of shape (n,)
        Clusters 0..K-1.
    proba : array of shape (n, K), optional
        Assignment probabilities.
    model : fitted estimator, optional
        Its ``parameters_`` add 90 % ellipses where they hold Gaussian means and covariances for these d columns.
    ax : Axes, optional
        Where to draw.
    names : sequence of str, optional
        Column names, for one or two columns.

    Returns
    -------
    Axes
    """
    ax = axes_or_new(ax)
    X, labels = np.asarray(X, np.float64), np.asarray(labels)
    n_clusters = int(labels.max(initial=0)) + 1 if proba is None else proba.shape[1]
    colours = palette(n_clusters)
    if X.shape[1] == 1:
        return _plot_line(X[:, 0], labels, colours, ax, names)
    if X.shape[1] == 2:
        plane = Projection(np.zeros(2), np.eye(2), np.full(2, np.nan))
        captions = list(names or ("first column", "second column"))
        keep = np.isfinite(X).all(axis=1)
        X, labels, proba = X[keep], labels[keep], None if proba is None else proba[keep]
    else:
        plane = project(X)
        captions = [
            f"{word} principal axis ({100 * share:.0f} % of variance)"
            for word, share in zip(("first", "second"), plane.shares, strict=True)
        ]
    rows = _some(len(X), MAX_POINTS)
    certainty = np.ones(len(rows)) if proba is None else proba[rows].max(axis=1)
    Y = plane(X[rows])
    _points(Y, labels[rows], certainty, colours, ax)
    _ellipses(plane, model, np.unique(labels), colours, ax)
    _badges(Y, labels[rows], colours, ax)
    ax.set_xlabel(captions[0], parse_math=False)
    ax.set_ylabel(captions[1], parse_math=False)
    return ax


def plot_sizes(labels: IntArray, n_clusters: int | None = None, ax: Any = None) -> Any:
    """Horizontal bars of cluster sizes, largest first; labels of shape (n,)."""
    ax = axes_or_new(ax)
    sizes = np.bincount(labels, minlength=n_clusters or 0)
    order, colours = np.argsort(-sizes, kind="stable"), palette(len(sizes))
    bars = ax.barh([str(k) for k in order], sizes[order], color=[colours[k] for k in order])
    ax.bar_label(bars, [f"{sizes[k]:,}  ({sizes[k] / sizes.sum():.0%})" for k in order], padding=4)
    ax.invert_yaxis()
    ax.set_xlabel("rows")
    ax.set_ylabel("cluster")
    ax.margins(x=0.2)
    return ax


def plot_certainty(proba: FloatArray, ax: Any = None) -> Any:
    """Histogram of the largest assignment probability of each row; proba of shape (n, K)."""
    ax = axes_or_new(ax)
    best = np.asarray(proba).max(axis=1)
    edges = np.linspace(np.floor(20 * min(best.min(), 0.95)) / 20, 1, 21)
    ax.hist(np.minimum(best, 1), edges, color=COLOURS[0], alpha=0.85, rwidth=0.92)
    ax.axvline(0.9, color=COLOURS[1], linewidth=1.2, linestyle=(0, (4, 3)))
    ax.set_xlabel("probability of the chosen cluster")
    ax.set_ylabel("rows")
    return ax


def plot_profiles(X: Array, labels: IntArray, names: Sequence[str] | None = None, ax: Any = None) -> Any:
    """Heat map of the difference of every cluster from the rest, in standard deviations of each column.

    Parameters
    ----------
    X : array of shape (n, d)
        Numbers; the `MAX_COLUMNS` columns that differ most are drawn, in their order.
    labels : array of shape (n,)
        Clusters 0..K-1.
    names : sequence of str, optional
        Column names.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    X, labels = np.asarray(X, np.float64), np.asarray(labels)
    n_clusters = int(labels.max(initial=0)) + 1
    D = np.stack([contrast(column, labels, n_clusters)[0] for column in X.T], axis=1)
    return plot_differences(D, list(names or (f"x{j}" for j in range(X.shape[1]))), ax)


def plot_differences(D: FloatArray, names: Sequence[str], ax: Any = None, clusters: Sequence[int] | None = None) -> Any:
    """The heat map of `plot_profiles` from differences D of shape (K, d), one row for each of `clusters`."""
    from matplotlib.colors import LinearSegmentedColormap

    ax = axes_or_new(ax)
    keep = np.sort(np.argsort(-abs(D).max(axis=0), kind="stable")[:MAX_COLUMNS])
    D, names = D[:, keep], [short(names[j]) for j in keep]
    ends = [(0.16, 0.36, 0.62, 1), (0.16, 0.36, 0.62, 0), (0.80, 0.38, 0.13, 0), (0.80, 0.38, 0.13, 1)]
    shades = LinearSegmentedColormap.from_list(
        "apart", list(zip([0, 0.5, 0.5, 1], ends, strict=True))
    )  # fades to nothing
    limit = max(1.0, float(np.quantile(abs(D), 0.98))) if D.size else 1.0
    ax.imshow(D, cmap=shades, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    ax.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor", parse_math=False)
    ax.set_yticks(range(len(D)), [str(k) for k in clusters or range(len(D))])
    ax.set_ylabel("cluster")
    if D.size <= 240:
        for (k, j), value in np.ndenumerate(D):
            strong = {"color": "white"} if abs(value) > 0.6 * limit else {}
            ax.text(j, k, f"{round(value, 1) + 0.0:+.1f}", ha="center", va="center", fontsize="small", **strong)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    return ax


def _some(n: int, limit: int) -> IntArray:
    """At most `limit` of n rows, the same ones every time, in a random order so that no cluster hides another."""
    return np.random.default_rng(0).permutation(n)[:limit]


def _plot_line(values: FloatArray, labels: IntArray, colours: list[str], ax: Any, names: Sequence[str] | None) -> Any:
    seen = np.isfinite(values)
    groups = [values[seen & (labels == k)] for k in range(len(colours))]
    ax.hist(groups, bins=40, stacked=True, color=colours, label=[f"cluster {k}" for k in range(len(colours))])
    if len(colours) <= len(COLOURS):
        ax.legend(frameon=False)
    ax.set_xlabel((names or ("value",))[0], parse_math=False)
    ax.set_ylabel("rows")
    return ax


def _points(Y: FloatArray, labels: IntArray, certainty: FloatArray, colours: list[str], ax: Any) -> None:
    from matplotlib.colors import to_rgba_array

    chance = 1 / max(2, len(colours))
    rgba = to_rgba_array(colours)[labels]
    rgba[:, 3] = 0.12 + 0.68 * np.clip((certainty - chance) / (1 - chance), 0, 1) ** 2
    size = float(np.clip(9000 / max(len(Y), 1), 4, 34))
    ax.scatter(Y[:, 0], Y[:, 1], s=size, c=rgba, linewidths=0, rasterized=True)


def _ellipses(plane: Projection, model: Any, held: IntArray, colours: list[str], ax: Any) -> None:
    """90 % regions of the Gaussian components that hold rows, seen in the plane."""
    from matplotlib.patches import Ellipse

    means, covariances = _gaussian(model, len(plane.axes))
    for k in held[held < len(means)]:
        scales, turns = np.linalg.eigh(plane.axes.T @ covariances[k] @ plane.axes)
        width, height = 2 * RADIUS_90 * np.sqrt(np.maximum(scales, 0))
        angle = np.degrees(np.arctan2(turns[1, 0], turns[0, 0]))
        centre = plane(means[k : k + 1])[0]
        shape = {"fill": False, "edgecolor": colours[k], "linewidth": 1.3, "alpha": 0.9}
        ax.add_patch(Ellipse(tuple(centre), width, height, angle=angle, **shape))
    if len(means):
        ax.autoscale_view()


def _gaussian(model: Any, d: int) -> tuple[FloatArray, FloatArray]:
    """Means (K, d) and covariances (K, d, d) of a fitted Gaussian mixture; empty where there are none."""
    found = getattr(model, "parameters_", None) or {}
    means, covariances = (np.asarray(found.get(key, ())) for key in ("means", "covariances"))
    if means.ndim != 2 or means.shape[1] != d or not covariances.size:
        return np.empty((0, d)), np.empty((0, d, d))
    if covariances.ndim < 3:  # variances: (K, d) of a diagonal, (K,) of a spherical covariance
        covariances = covariances.reshape(len(means), -1, 1) * np.eye(d)
    return means, covariances


def _badges(Y: FloatArray, labels: IntArray, colours: list[str], ax: Any) -> None:
    """The number of each cluster at its median."""
    for k in np.unique(labels) if len(colours) <= 30 else ():
        x, y = np.median(Y[labels == k], axis=0)
        box = {"boxstyle": "circle,pad=0.35", "facecolor": colours[k], "edgecolor": "white", "linewidth": 1}
        ax.text(x, y, str(k), color="white", weight="bold", fontsize="small", ha="center", va="center", bbox=box)
