"""DPMixture beside scikit-learn's BayesianGaussianMixture, and both beside the model that generated the rows.

Held-out scores are nats per row behind the generating model; 900 parameters cost 0.09 of them with 5,000 rows and 0.009
with 50,000, however they are estimated. scikit-learn is given 40 components, full covariances and 100 sweeps, its
default; one thread, CPU time, seeds in turn. The interval of the number of clusters is asked of a prior that matches
the generator, in `COVERED` seeds.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture

import weald
from benchmarks.harness import Claim, conclude, cpu_seconds, heading, table
from benchmarks.overlapping import CONCENTRATION, matching, truth
from weald.assign import Rows
from weald.families import FullGaussian
from weald.mixtures.collapsed import CollapsedKernel
from weald.partitions import DirichletProcess, MixtureOfFiniteMixtures

SIZES = {5_000: (0, 1, 2), 50_000: (0, 1)}
GAPS = {5_000: 0.12, 50_000: 0.012}
COVERED = 10
HELD_OUT = 20_000
OPTIONS = {5_000: {"draws": 150, "warmup": 150, "chains": 1}, 50_000: {"draws": 20, "warmup": 10, "chains": 1}}


def weald_fit(X: np.ndarray, seed: int) -> weald.DPMixture:
    return weald.DPMixture(**OPTIONS[len(X)], n_jobs=1, random_state=seed).fit(X)


def sklearn_fit(X: np.ndarray, seed: int) -> BayesianGaussianMixture:
    return BayesianGaussianMixture(n_components=40, random_state=seed).fit(X)


def compared(n: int, seed: int) -> list[tuple[object, ...]]:
    """A row of the table for each package."""
    model, rng = truth(seed), np.random.default_rng(seed + 100)
    X, z = model.draw(n, rng)
    new, _ = model.draw(HELD_OUT, rng)
    best, rows = model.score(new), []
    oracle = adjusted_rand_score(z, model.log_joint(X).argmax(axis=1))
    for name, fit in (("weald", weald_fit), ("scikit-learn", sklearn_fit)):
        start = time.process_time()
        fitted = fit(X, seed)
        seconds = time.process_time() - start
        labels = fitted.predict(X) if name == "scikit-learn" else fitted.labels_
        gap, rand = best - fitted.score(new), adjusted_rand_score(z, labels)
        rows.append((n, seed, name, seconds, gap, rand, oracle, np.unique(labels).size))
    return rows


def covered(seed: int) -> bool:
    """Whether the 95 % interval of the number of clusters holds the truth, given a prior that matches it."""
    X, _ = truth(seed).draw(5_000, np.random.default_rng(seed + 100))
    prior = MixtureOfFiniteMixtures(CONCENTRATION, 19.0)
    options = {"draws": 300, "warmup": 200, "chains": 1, "random_state": seed}
    low, high = weald.DPMixture(prior=prior, family_prior=matching(), **options).fit(X).n_components_interval_
    print(f"seed {seed}: {low} to {high} clusters", flush=True)
    return low <= 20 <= high


def collapsed_sweep(n_moves: int) -> float:
    """Milliseconds of one collapsed sweep of 5,000 rows of 8 columns in 20 clusters, split-merge moves included."""
    X, z = truth(0).draw(5_000, np.random.default_rng(0))
    kernel = CollapsedKernel(Rows(X, FullGaussian.from_data(X, 20)), DirichletProcess(), n_moves, first=lambda rng: z)
    rng = np.random.default_rng(0)
    state, _ = kernel.step(rng, kernel.init(rng))

    def sweeps() -> None:
        nonlocal state
        for _ in range(20):
            state, _ = kernel.step(rng, state)

    return 50 * cpu_seconds(sweeps)


def main() -> None:
    heading("Nonparametric mixtures: 20 overlapping clusters in 8 dimensions", ("scikit-learn",))
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", weald.exceptions.StatusWarning)
    for n in SIZES:  # compile both samplers
        weald_fit(truth(9).draw(n, np.random.default_rng(0))[0], 0)
    rows = [row for n, seeds in SIZES.items() for seed in seeds for row in compared(n, seed)]
    table(("rows", "seed", "package", "s", "nats behind", "ARI", "ARI of truth", "clusters"), rows)

    def mean(n: int, package: str, column: int) -> float:
        return float(np.mean([row[column] for row in rows if row[0] == n and row[2] == package]))

    claims = [Claim(f"{n:,} rows: nats behind the truth", mean(n, "weald", 4), GAPS[n]) for n in SIZES]
    claims += [Claim(f"{n:,} rows: 1 - adjusted Rand index", 1 - mean(n, "weald", 5), 0.10) for n in SIZES]
    behind = mean(50_000, "weald", 4) - mean(50_000, "scikit-learn", 4)
    claims += [
        Claim("50,000 rows: nats behind scikit-learn", behind, 0.0),
        Claim("50,000 rows: time / scikit-learn's", mean(50_000, "weald", 3) / mean(50_000, "scikit-learn", 3), 0.2),
        Claim("collapsed sweep, 5,000 x 8, 20 clusters: ms", collapsed_sweep(0), 15.0),
        Claim("the same with ten split-merge moves: ms", collapsed_sweep(10), 15.0),
        Claim(f"intervals without the truth, of {COVERED}", float(sum(not covered(s) for s in range(COVERED))), 1.0),
    ]
    conclude(claims)


if __name__ == "__main__":
    main()
