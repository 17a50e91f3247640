"""Tree-guided moves beside plain Gibbs and uniform split-merge: log joint density against CPU time, from one cluster.

Two data sets on which splitting matters: 30 blobs in 20 dimensions (3,000 rows, diagonal Gaussians), and handwritten
digits (1,797, on 15 principal axes, full covariances). Gibbs sampling moves one row at a time and hardly leaves the one
cluster that it starts from; both kinds of split-merge moves do. In two more sets, 20 overlapping clusters in 8
dimensions (3,000 rows, full covariances) and documents of 20 themes (multinomial), Gibbs finds its way alone, and moves
are only paid for. Each chain has `BUDGET` seconds; compared is the time at which it comes within `NEAR` nats of where
the best of them hovers (the largest median of a chain's last third), or the budget. With `--figure PATH` the curves are
plotted.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from benchmarks.harness import Claim, conclude, figure_path, heading, table
from benchmarks.overlapping import matching, truth
from weald.assign import Rows
from weald.datasets import make_blobs_overlapping, make_counts
from weald.families import DiagonalGaussian, FullGaussian, Multinomial
from weald.inference.run import AbstractKernel
from weald.mixtures.base_measure import firm
from weald.mixtures.collapsed import CollapsedKernel
from weald.mixtures.tree_guided import TreeGuidedKernel
from weald.partitions import DirichletProcess
from weald.plot import COLOURS

BUDGET, NEAR = 6.0, 100.0
SHOWN = (0.25, 0.5, 1.0, 2.0, 4.0, 6.0)
SEEDS = (0, 1, 2)
SPLITTING = ("30 blobs, 20-d", "digits, 15-d")


def data() -> dict[str, Rows]:
    blobs = make_blobs_overlapping(3_000, 20, 30, separation=8.0, rng=0).X
    close, _ = truth(0).draw(3_000, np.random.default_rng(0))
    words = make_counts(2_000, 20, vocabulary=500, length=80, rng=0).X
    digits = PCA(15, svd_solver="full").fit_transform(load_digits().data)
    return {
        "30 blobs, 20-d": Rows(blobs, DiagonalGaussian.from_data(blobs, 30)),
        "digits, 15-d": Rows(digits, firm(FullGaussian.from_data(digits, 3), ())),
        "20 overlapping, 8-d": Rows(close, FullGaussian.from_data(close, 3, **matching())),
        "20 themes": Rows(words, Multinomial.from_data(words, 20, concentration=0.1)),
    }


def kernels(rows: Rows) -> dict[str, AbstractKernel]:
    prior = DirichletProcess()
    return {
        "gibbs": CollapsedKernel(rows, prior, n_moves=0),
        "gibbs + uniform": CollapsedKernel(rows, prior, n_moves=10),
        "tree-guided": TreeGuidedKernel(rows, prior),
    }


def curve(kernel: AbstractKernel, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seconds, log joint, number of clusters after each sweep."""
    rng, points = np.random.default_rng(seed), []
    state = kernel.init(rng)
    start = time.process_time()
    while time.process_time() - start < BUDGET:
        state, info = kernel.step(rng, state)
        points.append((time.process_time() - start, info["log_joint"], info["n_clusters"]))
    seconds, log_joint, n_clusters = np.array(points).T
    return seconds, log_joint, n_clusters


def main() -> None:
    heading("Tree-guided moves: log joint against time, from one cluster", ())
    claims, drawn = [], {}
    for name, rows in data().items():
        found = {}
        for label, kernel in kernels(rows).items():
            kernel.step(np.random.default_rng(0), kernel.init(np.random.default_rng(0)))  # compile
            found[label] = [curve(kernel, seed) for seed in SEEDS]
        best = max(np.median(lj[-(lj.size // 3) :]) for curves in found.values() for _, lj, _ in curves)
        lines, arrival = [], {}
        for label, curves in found.items():
            at = [(s[np.argmax(lj > best - NEAR)] if (lj > best - NEAR).any() else BUDGET) for s, lj, _ in curves]
            arrival[label] = float(np.median(at))
            s, lj, k = curves[0]
            where = np.minimum(np.searchsorted(s, SHOWN), s.size - 1)
            lines.append((label, arrival[label], *(f"{lj[i] - best:,.0f} / {k[i]:.0f}" for i in where)))
        print(f"\n{name}: nats below the best / clusters, first of {len(SEEDS)} chains")
        table(("sampler", "s to arrive", *(f"{t:g} s" for t in SHOWN)), lines)
        drawn[name] = {label: [(s, lj - best) for s, lj, _ in curves] for label, curves in found.items()}
        if name in SPLITTING:
            ratio = arrival["tree-guided"] / arrival["gibbs"]
            claims.append(Claim(f"{name}: time to arrive, tree-guided / Gibbs (budget where it does not)", ratio, 0.9))
    if (path := figure_path()) is not None:
        draw(path, drawn)
    conclude(claims)


def draw(path: str, drawn: dict[str, dict[str, list[tuple[np.ndarray, np.ndarray]]]]) -> None:
    """Nats below the best against time, a panel for each data set, a line for each chain."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9.6, 5.6), sharex=True, layout="constrained")
    for ax, (name, found) in zip(axes.flat, drawn.items(), strict=True):
        for colour, (label, curves) in zip(COLOURS, found.items(), strict=False):
            for chain, (s, below) in enumerate(curves):
                ax.plot(
                    s,
                    np.maximum(-below, 10.0),
                    color=colour,
                    alpha=0.8,
                    linewidth=1.2,
                    label=label if not chain else None,
                )
        ax.set(title=name, yscale="log", xlim=(0, BUDGET))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False)
    for ax in axes[1]:
        ax.set_xlabel("CPU seconds")
    for ax in axes[:, 0]:
        ax.set_ylabel("nats below the best")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
