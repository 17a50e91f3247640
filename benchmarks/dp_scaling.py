"""What a sweep of a nonparametric mixture costs, against rows and clusters; and a million rows in 200 clusters.

Times are CPU seconds of one thread for a sweep from the true labels, moves and hyperparameters included, diagonal
Gaussians in 8 columns; with `--figure PATH` they are also plotted. `--large` adds 200,000 rows of 32 columns in 1,000
clusters, from Voronoi cells, and a million rows in 200 clusters, from the start of `DPMixture`: time until the log
joint density is within `NEAR` nats per row of the best that `MAX_SWEEPS` sweeps of exact assignment reach, for
`assign="exact"` and, in no more time, for `assign="auto"`, which redraws rows among lists of candidates in early sweeps
if there are more than 300 clusters (`weald.assign.lists`).
"""

from __future__ import annotations

import sys
import time
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
from weald.mixtures.samplers import from_some, plan_for, voronoi
from weald.partitions import DirichletProcess
from weald.plot import COLOURS

N_ROWS, N_CLUSTERS = (1_000, 10_000, 100_000, 1_000_000), (10, 100, 1_000)
RACES, NEAR, MAX_SWEEPS = ((200_000, 32, 1_000, 1_000), (1_000_000, 32, 200, None)), 0.02, 20


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


def race(n: int, d: int, k: int, n_cells: int | None) -> Claim:
    """`assign="exact"` and `assign="auto"`, from the same start: that of `DPMixture`, or cells of some rows."""
    data = make_blobs_overlapping(n, d, k, separation=6.0, rng=0, dtype=np.float32)
    rows, prior, engine = Rows(data.X, firm(DiagonalGaussian.from_data(data.X, 3), ())), DirichletProcess(), Threads(1)
    begun = time.process_time()
    rng = np.random.default_rng(0)
    start = from_some(rows, prior, engine, rng) if n_cells is None else voronoi(rows, rng, n_cells)
    begun = time.process_time() - begun
    curves, budget = {}, np.inf
    for assign, sweeps in (("exact", MAX_SWEEPS), ("auto", 5 * MAX_SWEEPS)):
        plan = plan_for(
            rows, prior, "parallel", draws=1, warmup=10 * MAX_SWEEPS, chains=1, max_clusters=None, assign=assign,
            engine=engine,
        )  # fmt: skip
        kernel = replace(plan.kernel(np.uint64(0)), first=lambda rng: start)
        rng, points = np.random.default_rng(1), []
        state = kernel.init(rng)
        began = time.process_time()
        while len(points) < sweeps and time.process_time() - began < budget:
            state, info = kernel.step(rng, state)
            points.append((time.process_time() - began, info["log_joint"] / n, info["n_clusters"]))
        budget = points[-1][0]
        curves[assign] = np.array(points)
    target = curves["exact"][:, 1].max() - NEAR
    shown, arrival = [], {}
    for name, points in curves.items():
        there = points[:, 1] >= target
        arrival[name] = float(points[np.argmax(there), 0]) if there.any() else np.inf
        shown.append((name, arrival[name], points[-1, 0] / len(points), points[-1, 1], points[-1, 2]))
    print(
        f"\n{n:,} rows of {d} columns in {k:,} clusters; the start has {np.unique(start).size}, and took {begun:.1f} s"
    )
    table(("assign", "s to arrive", "s per sweep", "log joint per row", "clusters"), shown)
    ratio = arrival["auto"] / arrival["exact"]
    return Claim(f"{n:,} x {d}, {k:,} clusters: time to the same log joint, auto / exact", ratio, 0.5)


def main() -> None:
    heading("Nonparametric mixtures: growth", ())
    claims = growth()
    conclude(claims + ([race(*case) for case in RACES] if "--large" in sys.argv else []))


if __name__ == "__main__":
    main()
