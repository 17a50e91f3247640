"""Draw the figure of the README, docs/_static/readme.png: ``python examples/readme_figure.py [path]``."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb

import weald
from weald import plot
from weald.datasets import load_demo

COLUMNS = [9, 6]  # colour intensity and flavanoids
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": "medium"}


def field(mix, X, ax):
    """Shade the plane by cluster, white where the cluster is uncertain."""
    low, high = X.min(axis=0), X.max(axis=0)
    low, high = low - 0.06 * (high - low), high + 0.06 * (high - low)
    u, v = (np.linspace(a, b, 160) for a, b in zip(low, high, strict=True))
    proba = mix.predict_proba(np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2))
    ordered = np.sort(proba, axis=1)
    tint = np.array([to_rgb(colour) for colour in plot.palette(mix.n_components)])[proba.argmax(axis=1)]
    shade = 1 - 0.34 * (ordered[:, -1] - ordered[:, -2])[:, None] * (1 - tint)
    ax.imshow(shade.reshape(160, 160, 3), origin="lower", extent=(low[0], high[0], low[1], high[1]), aspect="auto")


def draw(path):
    """Fit by Gibbs sampling, draw clusters with their certainty and the rows to look at next."""
    wine = load_demo()
    X = wine.X[:, COLUMNS]
    mix = weald.Mixture(n_components=3, covariance="diag", inference="gibbs", random_state=0).fit(X)
    proba, labels = mix.predict_proba(X), mix.predict(X)
    order = np.argsort(np.diff(np.sort(proba, axis=1)[:, -2:]).ravel())
    plt.rcParams.update(STYLE)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.5), width_ratios=(1.3, 1), layout="constrained")
    field(mix, X, left)
    colours = np.array(plot.palette(3))
    left.scatter(*X.T, s=17, c=colours[labels], edgecolors="white", linewidths=0.5)
    left.scatter(*X[order[:10]].T, s=70, facecolors="none", edgecolors="black", linewidths=1)
    left.set(
        xlabel="colour intensity", ylabel="flavanoids", title="178 wines: clusters, doubt, and what to look at next"
    )
    first = order[:60]
    ranks = np.argsort(-proba[first], axis=1)
    heights = np.take_along_axis(proba[first], ranks, axis=1)
    for j in range(3):
        bottom = heights[:, :j].sum(axis=1)
        right.bar(np.arange(len(first)), heights[:, j], 0.9, bottom, color=colours[ranks[:, j]], alpha=0.85)
    right.axvspan(-0.7, 9.5, fill=False, edgecolor="black", linewidth=1.2)
    right.set(xlabel="wines, least certain first", ylabel="probability of each cluster", ylim=(0, 1), xlim=(-0.7, 59.7))
    right.set_title("boxed: the ten circled on the left")
    figure.savefig(path, dpi=110, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    draw(sys.argv[1] if len(sys.argv) > 1 else here.parent / "docs" / "_static" / "readme.png")
