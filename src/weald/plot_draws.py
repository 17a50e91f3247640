"""Pictures of draws: traces of chains, the number of clusters, who is together. Each returns matplotlib Axes.

    trace          one line for each chain of a statistic, warmup in grey
    n_clusters     posterior probabilities of the number of clusters, and their 95 % interval
    co-clustering  matrix of p(rows i and j are in one cluster), rows sorted by cluster

What ArviZ draws well (densities, R-hat, ESS) is left to it: see `weald.posterior.Posterior.to_arviz`.
All are reached from `weald.plot`.

    ax = plot.plot_trace(model.posterior_, "log_likelihood")
    ax = plot.plot_n_clusters(model)
    ax = plot.plot_co_clustering(model.co_clustering_(), model.labels_)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weald._canvas import COLOURS, FAINT, axes_or_new, palette
from weald._typing import FloatArray, IntArray
from weald.exceptions import ParameterError

TOGETHER = (0.18, 0.49, 0.36)


def plot_trace(posterior: Any, name: str = "objective", ax: Any = None) -> Any:
    """One line for each chain of a statistic or scalar draw.

    Parameters
    ----------
    posterior : Posterior
        Its ``stats[name]`` of shape (chain, sweep), or ``draws[name]`` of shape (chain, draw).
    name : str
        What to draw.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    ax = axes_or_new(ax)
    known = {**posterior.draws, **posterior.stats}
    if name not in known or np.ndim(known[name]) != 2:
        lines = sorted(key for key, values in known.items() if np.ndim(values) == 2)
        raise ParameterError(f"there is no trace {name!r}; there are: {', '.join(lines)}")
    values = np.asarray(known[name], np.float64)
    warmup = getattr(posterior, "warmup", 0) if name in posterior.stats else 0
    if warmup:
        ax.axvspan(0.5, warmup + 0.5, color=FAINT, alpha=0.18, linewidth=0)
        ax.text(0.5, 1.0, "warmup", transform=ax.get_xaxis_transform(), va="bottom", fontsize="small")
        _look_past(values, warmup, ax)
    for chain, colour in zip(values, palette(len(values)), strict=True):
        seen = np.isfinite(chain)
        ax.plot(
            np.arange(1, len(chain) + 1)[seen],
            chain[seen],
            color=colour,
            linewidth=1.6 if len(values) < 3 else 0.9,
            alpha=0.85,
        )
        ax.plot(np.flatnonzero(seen)[-1:] + 1, chain[seen][-1:], "o", color=colour, markersize=4.5)
    ax.set_xlabel("sweep")
    words = f"number of {name[2:]}" if name.startswith("n_") else name
    ax.set_ylabel(words.replace("_", " "), parse_math=False)
    return ax


def plot_n_clusters(model: Any, ax: Any = None) -> Any:
    """Bars of the posterior probabilities of the number of clusters; those of the 95 % interval are dark.

    Parameters
    ----------
    model : DPMixture or Posterior
        With draws ``"z"`` of shape (chain, draw, n).
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    from weald.consensus import n_clusters_interval, n_clusters_posterior

    ax = axes_or_new(ax)
    Z = getattr(model, "posterior_", model).flat("z")
    (values, probability), (low, high) = n_clusters_posterior(Z), n_clusters_interval(Z)
    inside = (values >= low) & (values <= high)
    bars = ax.bar(values, probability, width=0.8, color=[COLOURS[0] if is_in else FAINT for is_in in inside])
    if values[-1] - values[0] < 16:
        ax.bar_label(bars, [f"{p:.0%}" if p >= 0.01 else "" for p in probability], fontsize="small", padding=1)
    top = 1.14 * float(probability.max())
    ends, ink = (low - 0.4, high + 0.4), {"color": COLOURS[1]}
    ax.plot(np.repeat(ends, 2), [0.97 * top, top, top, 0.97 * top], linewidth=1.3, **ink)
    ax.text(
        np.mean(ends), 1.01 * top, f"95 % interval: {low} to {high}", ha="center", va="bottom", fontsize="small", **ink
    )
    ax.set_ylim(0, 1.12 * top)
    ax.set_xlim(values[0] - 1.4, values[-1] + 1.4)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("number of clusters")
    ax.set_ylabel("posterior probability")
    return ax


def plot_co_clustering(P: FloatArray, labels: IntArray, ax: Any = None) -> Any:
    """Heat map of the probabilities that two rows are in one cluster, cluster by cluster.

    Parameters
    ----------
    P : array of shape (m, m)
        Probabilities, as `DPMixture.co_clustering_` gives them; some hundred rows make a good picture.
    labels : array of shape (m,)
        Clusters 0..K-1 of these rows; rows are sorted by them and otherwise stay in their order.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    ax = axes_or_new(ax)
    P, labels = np.asarray(P, np.float64), np.asarray(labels)
    if P.shape != (len(labels), len(labels)):
        raise ParameterError(f"P must hold a probability for each pair of the {len(labels)} labels, got {P.shape}")
    order = np.argsort(labels, kind="stable")
    shown, first, sizes = np.unique(labels[order], return_index=True, return_counts=True)
    shades = LinearSegmentedColormap.from_list("together", [(*TOGETHER, 0), (*TOGETHER, 1)])  # fades to nothing
    image = ax.imshow(P[np.ix_(order, order)], cmap=shades, vmin=0, vmax=1, interpolation="nearest")
    colours = palette(int(labels.max(initial=0)) + 1)
    for k, start, n in zip(shown, first - 0.5, sizes, strict=True):
        ax.add_patch(Rectangle((start, start), n, n, fill=False, edgecolor=colours[k], linewidth=1.2))
        strip = {"color": colours[k], "clip_on": False, "linewidth": 0}
        ax.add_patch(Rectangle((-0.035, start), 0.025, n, transform=ax.get_yaxis_transform(), **strip))
        ax.add_patch(Rectangle((start, 1.01), n, 0.025, transform=ax.get_xaxis_transform(), **strip))
    for edge in first[1:] - 0.5:
        ax.axhline(edge, color=FAINT, linewidth=0.5, alpha=0.6)
        ax.axvline(edge, color=FAINT, linewidth=0.5, alpha=0.6)
    wide = sizes >= 0.025 * len(labels)
    ax.set_yticks((first + (sizes - 1) / 2)[wide], [str(k) for k in shown[wide]])
    ax.set_xticks([])
    ax.set_ylabel("cluster")
    ax.tick_params(length=0, pad=21)
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.6, pad=0.02, label="probability to be in one cluster")
    bar.outline.set_visible(False)
    return ax


def _look_past(values: FloatArray, warmup: int, ax: Any) -> None:
    """Let the axis show all that comes after warmup, and of warmup what is near."""
    kept = values[:, warmup:][np.isfinite(values[:, warmup:])]
    if kept.size:
        low, high = kept.min(), kept.max()
        room = max(0.35 * (high - low), 0.5)
        ax.set_ylim(max(low - room, np.nanmin(values) - 0.1 * room), min(high + room, np.nanmax(values) + 0.1 * room))
