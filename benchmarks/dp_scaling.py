"""What a sweep of a nonparametric mixture costs, against rows and clusters; and a million rows in 200 clusters.

Times are CPU seconds of one thread for a sweep from the true labels, moves and hyperparameters included, diagonal
Gaussians in 8 columns. `--large` adds one million rows of 32 columns in 200 clusters: time from one start until the log
joint density is within `NEAR` nats per row of the best that exact assignment reaches, with exact assignment and
with lists of candidates in the early sweeps, which are not draws (`weald.mixtures.parallel`).
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks.harness import Claim, conclude, cpu_seconds, heading, table
from weald.assign import ExactAssignment, ListsAssignment, Rows
from weald.datasets import make_blobs_overlapping
from weald.engine import Threads
from weald.families import DiagonalGaussian
from weald.inference.run import AbstractKernel
from weald.mixtures.collapsed import CollapsedKernel
from weald.mixtures.parallel import ParallelKernel
from weald.mixtures.samplers import voronoi
from weald.partitions import DirichletProcess

N_ROWS, N_CLUSTERS = (1_000, 10_000, 100_000, 1_000_000), (10, 100, 1_000)
LARGE, NEAR, MAX_SWEEPS = (1_000_000, 32, 200), 0.02, 40


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
    n, slow, fast = np.array(by_n[1:]).T  # below 10,000 rows a sweep is overhead
    k, slow_k, fast_k = np.array(by_k).T
    few = np.isfinite(slow)
    return [
        Claim("collapsed: exponent in rows", exponent(n[few], slow[few]), 1.2),
        Claim("parallel: exponent in rows", exponent(n, fast), 1.1),
        Claim("collapsed: exponent in clusters", exponent(k, slow_k), 1.1),
        Claim("parallel: exponent in clusters", exponent(k, fast_k), 1.0),
    ]


def race() -> list[Claim]:
    """Exact assignment and early lists, from the same Voronoi cells of as many rows as there are clusters."""
    n, d, k = LARGE
    data = make_blobs_overlapping(n, d, k, separation=6.0, rng=0, dtype=np.float32)
    rows, rng = Rows(data.X, DiagonalGaussian.from_data(data.X, 3)), np.random.default_rng(0)
    cells = voronoi(rows, rng, k)
    curves = {}
    for name, early in (("exact", None), ("early lists", ListsAssignment())):
        kernel = ParallelKernel(
            rows, DirichletProcess(), ExactAssignment(), Threads(1), first=lambda rng: cells, early=early,
            n_early=0 if early is None else MAX_SWEEPS,
        )  # fmt: skip
        rng, points = np.random.default_rng(1), []
        state = kernel.init(rng)
        start = time.process_time()
        for _ in range(MAX_SWEEPS):
            state, info = kernel.step(rng, state)
            points.append((time.process_time() - start, info["log_joint"] / n, info["n_clusters"]))
        curves[name] = np.array(points)
    target = curves["exact"][:, 1].max() - NEAR
    rows_shown = []
    arrival = {}
    for name, points in curves.items():
        there = points[:, 1] >= target
        arrival[name] = float(points[np.argmax(there), 0]) if there.any() else np.inf
        rows_shown.append((name, arrival[name], points[-1, 0] / MAX_SWEEPS, points[-1, 1], points[-1, 2]))
    table(("assignment", "s to arrive", "s per sweep", "log joint per row", "clusters"), rows_shown)
    ratio = arrival["early lists"] / arrival["exact"]
    return [Claim("1M x 32, 200 clusters: time to the same log joint, lists / exact", ratio, 0.5)]


def main() -> None:
    heading("Nonparametric mixtures: growth", ())
    claims = growth()
    conclude(claims + (race() if "--large" in sys.argv else []))


if __name__ == "__main__":
    main()
