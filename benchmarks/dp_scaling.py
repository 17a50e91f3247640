"""What a sweep of a nonparametric mixture costs, against rows and clusters; and a million rows in 200 clusters.

Times are CPU seconds of one thread for a sweep from the true labels, moves and hyperparameters included, diagonal
Gaussians in 8 columns; with `--figure PATH` they are also plotted. `--large` adds races: time until the log joint
density is within `NEAR` nats per row of the best that `MAX_SWEEPS` sweeps of exact assignment reach.

    200,000 x 32, 1,000 clusters   from the same Voronoi cells, for `assign="exact"` and `assign="auto"`, which redraws
                                   rows among lists of candidates in early sweeps (`weald.assign.lists`)
    1,000,000 x 32, 200 clusters   from the same short chain on 5,000 rows: labels of all rows and sweeps at once, and
                                   as `DPMixture` goes on, by 50,000 rows (`weald.mixtures.partition_starts`). What
                                   that takes counts; with so few clusters `auto` is exact assignment.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.harness import Claim, conclude, cpu_seconds, figure_path, heading, table
from weald.assign import ExactAssignment, Rows
from weald.datasets import make_blobs_overlapping
from weald.engine import Threads
from weald.families import DiagonalGaussian
from weald.inference.run import AbstractKernel
from weald.mixtures.base_measure import firm
from weald.mixtures.collapsed import CollapsedKernel
from weald.mixtures.parallel import ParallelKernel
from weald.mixtures.partition_starts import (
    MORE_ROWS,
    SOME_ROWS,
    chosen,
    labelled,
    refined,
    short_chain,
    voronoi,
)
from weald.mixtures.samplers import plan_for
from weald.partitions import DirichletProcess
from weald.plot import COLOURS

N_ROWS, N_CLUSTERS = (1_000, 10_000, 100_000, 1_000_000), (10, 100, 1_000)
RACES, NEAR, MAX_SWEEPS, SEEDS = ((200_000, 32, 1_000, 1_000), (1_000_000, 32, 200, None)), 0.02, 20, (0, 1, 2)
Start = Callable[[np.random.Generator], np.ndarray]  # labels of all rows


def kernels(n: int, k: int) -> dict[str, AbstractKernel]:
    data = make_blobs_overlapping(n, 8, k, separation=6.0, rng=0, dtype=np.float32)
    rows, prior = Rows(data.X, DiagonalGaussian.from_data(data.X, k)), DirichletProcess()
    return {
        "collapsed": CollapsedKernel(rows, prior, first=lambda rng: data.z),
        "parallel": ParallelKernel(rows, prior, ExactAssignment(), Threads(1), first=lambda rng: data.z),
    }


def seconds(kernel: AbstractKernel, sweeps: int) -> float:
    """Of one sweep, after two."""
    rng = np.random.default_rng(0)
    state = kernel.init(rng)
    for _ in range(2):
        state, _ = kernel.step(rng, state)

    def go() -> None:
        nonlocal state
        for _ in range(sweeps):
            state, _ = kernel.step(rng, state)

    return cpu_seconds(go) / sweeps


def exponent(x: list[float], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def growth() -> list[Claim]:
    rows, by_n, by_k = [], [], []
    for n in N_ROWS:
        both = kernels(n, 20)
        slow = seconds(both["collapsed"], 3) if n <= 100_000 else np.nan
        by_n.append((n, slow, seconds(both["parallel"], 5)))
        rows.append((n, 20, *by_n[-1][1:]))
    for k in N_CLUSTERS:
        both = kernels(20_000, k)
        by_k.append((k, seconds(both["collapsed"], 2), seconds(both["parallel"], 4)))
        rows.append((20_000, k, *by_k[-1][1:]))
    table(("rows", "clusters", "collapsed, s", "parallel, s"), rows)
    in_n, in_k = np.array(by_n), np.array(by_k)
    found = {
        "collapsed: exponent in rows": (exponent(*in_n[1:3, :2].T), 1.2),  # below 10,000 rows a sweep is overhead
        "parallel: exponent in rows": (exponent(*in_n[1:, [0, 2]].T), 1.1),
        "collapsed: exponent in clusters": (exponent(*in_k[:, :2].T), 1.1),
        "parallel: exponent in clusters": (exponent(*in_k[:, [0, 2]].T), 1.0),
    }
    if (path := figure_path()) is not None:
        draw(path, in_n, in_k, [figure for figure, _ in found.values()])
    return [Claim(name, figure, limit) for name, (figure, limit) in found.items()]


def draw(path: str, in_n: np.ndarray, in_k: np.ndarray, exponents: list[float]) -> None:
    """Time of a sweep against rows and against clusters."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.4), sharey=True, layout="constrained")
    for ax, points, of, words in (
        (axes[0], in_n, exponents[:2], "rows (20 clusters)"),
        (axes[1], in_k, exponents[2:], "clusters (20,000 rows)"),
    ):
        for column, name, colour in ((1, "collapsed", COLOURS[0]), (2, "parallel", COLOURS[1])):
            ax.loglog(
                points[:, 0], points[:, column], "o-", color=colour, label=f"{name}: exponent {of[column - 1]:.2f}"
            )
        ax.set_xlabel(words)
        ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("CPU seconds of a sweep")
    figure.savefig(path, dpi=130)


def race(n: int, d: int, k: int, n_cells: int | None, seed: int) -> tuple[float, float]:
    """CPU seconds to the same log joint: those of exact assignment from a plain start, and ours."""
    data = make_blobs_overlapping(n, d, k, separation=6.0, rng=seed, dtype=np.float32)
    rows, prior, engine = Rows(data.X, firm(DiagonalGaussian.from_data(data.X, 3), ())), DirichletProcess(), Threads(1)
    starts = beginnings(rows, prior, engine, n_cells)
    exact = path(rows, prior, engine, "exact", starts[0], MAX_SWEEPS, np.inf)
    ours = path(rows, prior, engine, "auto", starts[-1], 5 * MAX_SWEEPS, exact[-1, 0])
    target, shown, arrivals = exact[:, 1].max() - NEAR, [], []
    for name, points in (("exact, plain start", exact), ("as DPMixture does", ours)):
        there = points[:, 1] >= target
        arrivals.append(float(points[np.argmax(there), 0]) if there.any() else np.inf)
        each = (points[-1, 0] - points[0, 0]) / max(1, len(points) - 1)
        shown.append((name, arrivals[-1], int(np.argmax(there)), each, points[-1, 1], points[-1, 2]))
    print(f"\n{n:,} rows of {d} columns in {k:,} clusters, seed {seed}")
    table(("", "s to arrive", "sweeps", "s per sweep", "log joint per row", "clusters"), shown)
    return arrivals[0], arrivals[1]


def beginnings(rows: Rows, prior: DirichletProcess, engine: Threads, n_cells: int | None) -> list[Start]:
    """The plain start, and that of `DPMixture`: the same where both begin with cells."""
    rng = np.random.default_rng(0)
    if n_cells is not None:
        cells = voronoi(rows, rng, n_cells)
        return [lambda rng: cells]
    _, S = short_chain(chosen(rows, SOME_ROWS, rng), prior, rng)
    more = chosen(rows, MORE_ROWS, rng)
    return [
        lambda rng: labelled(rows, S, engine, rng),
        lambda rng: labelled(rows, refined(more, S, prior, engine, rng), engine, rng),
    ]


def path(
    rows: Rows, prior: DirichletProcess, engine: Threads, assign: str, start: Start, sweeps: int, budget: float
) -> np.ndarray:
    """(seconds so far, log joint per row, clusters): of the start, then of each sweep."""
    plan = plan_for(
        rows, prior, "parallel", draws=1, warmup=10 * MAX_SWEEPS, chains=1, max_clusters=None, assign=assign,
        engine=engine,
    )  # fmt: skip
    kernel, rng, began = plan.kernel(np.uint64(0)), np.random.default_rng(1), time.process_time()
    assert isinstance(kernel, ParallelKernel)
    state = replace(kernel, first=start).init(rng)
    points = [(time.process_time() - began, kernel.log_joint(state) / rows.n_rows, len(state.S))]
    while len(points) <= sweeps and points[-1][0] < budget:
        state, info = kernel.step(rng, state)
        points.append((time.process_time() - began, info["log_joint"] / rows.n_rows, info["n_clusters"]))
    return np.array(points)


def races(n: int, d: int, k: int, n_cells: int | None) -> Claim:
    plain, ours = np.array([race(n, d, k, n_cells, seed) for seed in SEEDS]).sum(axis=0)
    text = f"{n:,} x {d}, {k:,} clusters: time to the same log joint / exact assignment's, {len(SEEDS)} tables"
    return Claim(text, ours / plain, 0.5)


def main() -> None:
    heading("Nonparametric mixtures: growth", ())
    claims = growth()
    conclude(claims + ([races(*case) for case in RACES] if "--large" in sys.argv else []))


if __name__ == "__main__":
    main()
