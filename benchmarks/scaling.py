"""Steady state of the assignment kernels: time of a sweep against the numbers of clusters, rows and columns.

Blobs 5 standard deviations apart, float32, stochastic EM from the statistics of the true labels, so that there is no
burn-in; the first sweeps, in which labels and lists are made, are not counted. A cheap sweep that renews no labels is
no gain: beside its time stand the labels that a sweep renews, and with the columns the labels renewed in a second, as a
multiple of exact assignment's. Near convergence is where lists do best: `time_to_quality` measures whole fits.

With --large 10,000,000 rows, too, and peak memory (4 GB, 4 minutes more).
"""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass, replace
from math import log

import numpy as np

from benchmarks import harness
from weald.assign import ASSIGNMENTS, AbstractAssignment, AutoAssignment, ExactAssignment, Rows
from weald.assign.auto import CHOICES
from weald.assign.base import statistics
from weald.datasets import make_blobs_overlapping
from weald.engine import Threads
from weald.families import SphericalGaussian
from weald.mixtures.kernels import RULES, MixtureKernel, Model
from weald.partitions import FiniteDirichlet

KERNELS = ("exact", "pruned", "tree", "canopy1", "canopy2", "lists", "groups")
FIRST = 2  # sweeps in which lists and tables are made
TREE_COLUMNS = 16  # beyond, the tree evaluates every cluster, at 30 times the cost of a score
Data = tuple[Rows, np.ndarray]


@dataclass(frozen=True)
class Steady:
    """Means over sweeps: s to prepare, s of a sweep, shares of labels renewed and scores computed, acceptance."""

    kernel: str
    once: float
    seconds: float
    renewed: float
    scores: float
    accepted: float

    def figures(self, exact: Steady) -> tuple[object, ...]:
        """Cells of a table."""
        return f"{self.seconds:.4f}", f"{self.seconds / exact.seconds:.2f}", f"{self.renewed:.1%}", f"{self.scores:.1%}"


def blobs(n: int, d: int, K: int) -> Data:
    """Rows, and the statistics of the labels they were made with."""
    data = make_blobs_overlapping(n, d, K, 5.0, np.random.default_rng(0), np.float32)
    rows = Rows(data.X, SphericalGaussian.from_data(data.X, K))
    return rows, statistics(rows, data.z.astype(np.int32), K, Threads(1))


def steady(assign: AbstractAssignment, data: Data, sweeps: int) -> Steady:
    """Means over `sweeps` sweeps, after an exact one and `FIRST` others."""
    rows, S = data
    model = Model(rows.family, FiniteDirichlet(len(S), 1.0))
    kernel = MixtureKernel(model, rows, RULES["sem"], assign, Threads(1), lambda rng: S, 0.0, incremental=False)
    rng, figures = np.random.default_rng(1), list[dict[str, float]]()

    def arrange() -> None:
        nonlocal kernel
        kernel = kernel.arranged()
        _ = kernel.plan

    def sweep() -> None:
        nonlocal state
        state, info = kernel.step(rng, state)
        figures.append(dict(info))

    once = harness.cpu_seconds(arrange)
    state, _ = replace(kernel, assign=ExactAssignment()).step(rng, kernel.init(rng))
    seconds = [harness.cpu_seconds(sweep) for _ in range(FIRST + sweeps)][FIRST:]
    renewed, n_evals, accepted = (
        float(np.mean([info.get(name, np.nan) for info in figures[FIRST:]]))
        for name in ("renewed", "n_evals", "acceptance")
    )
    chosen = CHOICES[int(figures[-1]["kernel"])] if "kernel" in figures[-1] else ""
    return Steady(chosen, once, float(np.mean(seconds)), renewed, n_evals / (rows.n_rows * len(S)), accepted)


def automatic(data: Data) -> AutoAssignment:
    return AutoAssignment(len(data[1]), data[0].family.width, draws=True, strict=False)


def warm_up() -> None:
    """Compile, or load, all that is timed."""
    for data in (blobs(8_192, 2, 400), blobs(8_192, 32, 400)):
        for assign in (*(ASSIGNMENTS[name]() for name in KERNELS), automatic(data)):
            steady(assign, data, 1)


def against_exact(cases: list[tuple[int, int, int]]) -> list[tuple[Steady, Steady]]:
    """For each (n, d, K): auto and exact assignment, as a table."""
    found, table = list[tuple[Steady, Steady]](), list[tuple[object, ...]]()
    for n, d, K in cases:
        data = blobs(n, d, K)
        exact, auto = (
            steady(kernel, data, 4 if n * K >= 10**9 else 10) for kernel in (ExactAssignment(), automatic(data))
        )
        found.append((auto, exact))
        for name, row in ((f"auto: {auto.kernel}", auto), ("exact", exact)):
            table.append((f"{n:,}", f"{K:,}", name, *row.figures(exact)))
    harness.table(("N", "K", "kernel", "s/sweep", "of exact", "renewed", "scores"), table)
    return found


def by_clusters(n: int = 200_000, d: int = 32) -> list[harness.Claim]:
    sizes = (100, 300, 1_000, 3_000, 10_000)
    harness.heading(f"Clusters: N={n:,}, D={d}, float32", ())
    found = against_exact([(n, d, K) for K in sizes])
    sweep, exact = ([pair[i].seconds for pair in found] for i in (0, 1))
    label = [auto.seconds / auto.renewed for auto, _ in found]
    slopes = [log(t[-1] / t[0]) / log(sizes[-1] / sizes[0]) for t in (sweep, label, exact)]
    print(f"\nFrom K={sizes[0]} to {sizes[-1]:,} the time of an exact sweep grows as K^{slopes[2]:.2f}.")
    return [
        harness.Claim("growth exponent in K, time of a sweep of auto", slopes[0], 0.4),
        harness.Claim("growth exponent in K, time of auto for each label renewed", slopes[1], 0.4),
    ]


def by_rows(*, large: bool) -> None:
    sizes = (10_000, 100_000, 1_000_000, *([10_000_000] if large else []))
    harness.heading("Rows: D=32, K=1,000, float32", ())
    against_exact([(n, 32, 1_000) for n in sizes])
    if large:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"\nPeak memory {peak:.1f} GB, of which the data are {sizes[-1] * 32 * 4 / 2**30:.1f} GB.")


def by_columns(n: int = 100_000, K: int = 1_000) -> None:
    table = list[tuple[object, ...]]()
    for d in (2, 3, 4, 8, 16, 32, 64, 128):
        data = blobs(n, d, K)
        exact = steady(ExactAssignment(), data, 6)
        chosen = steady(automatic(data), data, 1).kernel
        for name in KERNELS:
            if name == "tree" and d > TREE_COLUMNS:
                continue
            at = exact if name == "exact" else steady(ASSIGNMENTS[name](), data, 2 if name == "tree" else 6)
            accepted = "" if np.isnan(at.accepted) else f"{at.accepted:.0%}"
            gain = (at.renewed / at.seconds) / (exact.renewed / exact.seconds)
            table.append(
                (d, name + "  (auto)" * (name == chosen), f"{at.once:.2f}", *at.figures(exact), accepted, f"{gain:.2f}")
            )
    harness.heading(f"Columns: N={n:,}, K={K:,}, float32", ())
    columns = ("D", "kernel", "s once", "s/sweep", "of exact", "renewed", "scores", "accepted", "renewed/s of exact's")
    harness.table(columns, table)


def main() -> None:
    warm_up()
    claims = by_clusters()
    by_rows(large="--large" in sys.argv[1:])
    by_columns()
    harness.conclude(claims)


if __name__ == "__main__":
    main()
