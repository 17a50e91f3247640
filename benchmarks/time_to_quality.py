"""Time of stochastic EM to a given quality: `assign="auto"` beside exact assignment, in many and in few dimensions.

    D = 32, K = 1,000 and 10,000     blobs 5 standard deviations apart, N = 200,000, float32: lists
    D = 3, K = 5,000                 the same: pruned

All start from the same random points. Quality is the mean log-likelihood of 10,000 rows, scored in full; the goal is
0.1 nats below the best that exact assignment reaches in whole sweeps. Three more rows are exact assignment with what
early sweeps of `auto` have too: parameters that follow parts of the rows ("in parts"), components that move besides
("with relocation"), and sweeps over a subset of rows before the first ("settled"). They tell what of the gain is the
kernel's. The last row begins with k-means++, as `weald.Mixture` does by default. All but scoring is timed, starts too.

Then scikit-learn's GaussianMixture with diagonal covariance at K = 1,000, from random rows for a few iterations, and
with its defaults (k-means, then EM until it stops): whole fits, scored on rows held out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture

import weald
from benchmarks import harness
from weald.assign import AbstractAssignment, AutoAssignment, ExactAssignment, Rows
from weald.assign.exact import score_matrix
from weald.datasets import make_blobs_overlapping
from weald.engine import Threads
from weald.families import SphericalGaussian
from weald.mixtures.kernels import RULES, MixtureKernel, MixtureState, Model
from weald.mixtures.relocate import relocated
from weald.mixtures.starts import first_statistics
from weald.partitions import FiniteDirichlet

N = 200_000


@dataclass(frozen=True)
class Case:
    """A number of dimensions and of components, exact sweeps, and the ratio of times that is claimed."""

    d: int
    K: int
    sweeps: int
    limit: float


CASES = (Case(32, 1_000, 30, 1 / 3), Case(32, 10_000, 30, 1 / 8), Case(3, 5_000, 30, 1 / 10))
PLAIN = {"parts": False, "relocates": False, "settles": False}
Path = list[tuple[float, float]]
Start = Callable[[np.random.Generator], np.ndarray]


def trajectory(
    assign: AbstractAssignment, rows: Rows, K: int, start: Start, sweeps: int, *, goal: float, parts: bool = True,
    relocates: bool = True, settles: bool = True,
) -> Path:  # fmt: skip
    """CPU seconds so far and quality, after each sweep until the goal."""
    model = Model(rows.family, FiniteDirichlet(K, 1.0))
    kernel = MixtureKernel(model, rows, RULES["sem"], assign, Threads(1), start, 0.0, parts, relocates, settles)
    warm_up(kernel, K)
    state, seconds, out = MixtureState(*[np.empty(0)] * 3, np.empty(0, np.int32)), 0.0, list[tuple[float, float]]()
    sample = np.sort(np.random.default_rng(5).choice(N, 10_000, replace=False))

    def begin() -> None:
        nonlocal kernel, state
        kernel = kernel.arranged()
        state = kernel.init(np.random.default_rng(1))

    def sweep() -> None:
        nonlocal state
        state, _ = kernel.step(rng, state)

    rng = np.random.default_rng(0)
    seconds += harness.cpu_seconds(begin)
    while len(out) < sweeps and (not out or out[-1][1] <= goal):
        seconds += harness.cpu_seconds(sweep)
        out.append((seconds, quality(state, rows, sample)))
    return out


def warm_up(kernel: MixtureKernel, K: int) -> None:
    """Compile all that a fit uses."""
    rows = kernel.rows.taken(np.arange(65_536))
    S = first_statistics("random-points", rows, K, np.random.default_rng(0))
    few = MixtureKernel(
        kernel.model, rows, kernel.rule, kernel.assign, kernel.engine, lambda rng: S, settles=False
    ).arranged()  # fmt: skip
    first_statistics("kmeans++", rows, 400, np.random.default_rng(0))
    state = few.init(np.random.default_rng(0))
    for sweep in (0, 1, 2, 20):
        later = MixtureState(state.S, state.eta, state.log_w, state.z, sweep, state.memory, state.shared)
        state, _ = few.step(np.random.default_rng(sweep), later)
    moves = np.arange(3)[None]
    relocated(state.S, state.z, np.roll(state.z, 1), few.rows, few.model.prior, np.random.default_rng(0), few.engine)
    joined, also = np.full((2, len(state.S)), -1)
    joined[moves[:, 1]], also[moves[:, 2]] = moves[:, 0], moves[:, 1]
    few.assign.tell(state.memory, joined, also)


def quality(state: MixtureState, rows: Rows, sample: np.ndarray) -> float:
    B, total = score_matrix(state.eta, state.log_w, np.dtype(np.float32)), 0.0
    for tile in np.array_split(sample, 20):
        scores = rows.family.sufficient(rows.X[tile]) @ B
        total += float(logsumexp(scores.astype(np.float64), axis=1).sum())
    return total / sample.size + float(np.mean(rows.family.log_base(rows.X[sample])))


def race(case: Case) -> harness.Claim:
    X = make_blobs_overlapping(N, case.d, case.K, 5.0, np.random.default_rng(0), np.float32).X
    rows = Rows(X, SphericalGaussian.from_data(X, case.K))
    S = first_statistics("random-points", rows, case.K, np.random.default_rng(1))

    def run(assign: AbstractAssignment, sweeps: int, goal: float, start: Start = lambda rng: S, **how: bool) -> Path:
        return trajectory(assign, rows, case.K, start, sweeps, goal=goal, **how)

    exact = run(ExactAssignment(), case.sweeps, np.inf, **PLAIN)
    goal = max(q for _, q in exact) - 0.1
    auto = AutoAssignment(case.K, rows.family.width, draws=True, strict=False)
    paths = {
        "exact": exact[: next(i + 1 for i, (_, q) in enumerate(exact) if q > goal)],
        "exact, in parts": run(ExactAssignment(), case.sweeps, goal, relocates=False, settles=False),
        "exact, with relocation": run(ExactAssignment(), case.sweeps, goal, settles=False),
        "exact, settled": run(ExactAssignment(), case.sweeps, goal),
        "auto": run(auto, 3 * case.sweeps, goal),
        "auto from k-means++": run(
            auto, 3 * case.sweeps, goal, lambda rng: first_statistics("kmeans++", rows, case.K, rng), settles=False
        ),
    }
    harness.heading(f"Time to quality, N={N:,}, D={case.d}, K={case.K:,}, float32, goal {goal:.3f}", ())
    columns = ("kernel", "sweeps", "s to goal", "of exact", "quality")
    base = paths["exact"][-1][0]
    harness.table(columns, [(name, len(p), p[-1][0], p[-1][0] / base, p[-1][1]) for name, p in paths.items()])
    arrived = paths["auto"][-1][1] > goal
    text = f"time of auto to the goal / that of exact assignment, D={case.d}, K={case.K:,}"
    return harness.Claim(text, paths["auto"][-1][0] / base if arrived else np.inf, case.limit)


def against_scikit_learn() -> list[harness.Claim]:
    """Whole fits at K = 1,000, D = 32, diagonal covariance."""
    X = make_blobs_overlapping(N + 20_000, 32, 1_000, 5.0, np.random.default_rng(0), np.float32).X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fixed number of iterations is no convergence
        ours(12, n_components=400).fit(X[:80_000])  # compiles
        few = GaussianMixture(
            1_000, covariance_type="diag", init_params="random_from_data", max_iter=12, tol=0.0, random_state=0
        )
        fits = {
            "scikit-learn, random rows": whole(few, X),
            "scikit-learn, defaults": whole(GaussianMixture(1_000, covariance_type="diag", random_state=0), X),
            **{f"weald, {sweeps} sweeps": whole(ours(sweeps), X) for sweeps in (3, 8, 24)},
        }
    harness.heading(f"Whole fits, N={N:,}, D=32, K=1,000, diagonal covariance, 20,000 rows held out", ("scikit-learn",))
    harness.table(("package", "iterations", "s", "held-out nats/row"), [(name, *fit) for name, fit in fits.items()])
    return [
        claim
        for theirs, sweeps in (("random rows", 3), ("defaults", 8))
        for claim in beside(f"scikit-learn, {theirs}", f"weald, {sweeps} sweeps", fits)
    ]


def ours(sweeps: int, n_components: int = 1_000) -> weald.Mixture:
    return weald.Mixture(
        n_components, covariance="diag", inference="sem", max_iter=sweeps, tol=0.0, n_jobs=1, random_state=0
    )


def whole(model: Any, X: np.ndarray) -> tuple[int, float, float]:
    """Iterations and seconds of a fit, and the score of rows held out."""
    seconds = harness.cpu_seconds(lambda: model.fit(X[:N]))
    return model.n_iter_, seconds, float(model.score(X[N:]))


def beside(theirs: str, us: str, fits: dict[str, tuple[int, float, float]]) -> list[harness.Claim]:
    (_, seconds, score), (_, our_seconds, our_score) = fits[theirs], fits[us]
    return [
        harness.Claim(f"time of {us} / that of {theirs}, diagonal, K=1,000", our_seconds / seconds, 1 / 30),
        harness.Claim(f"held-out nats per row that {us} is behind {theirs}", score - our_score, 0.0),
    ]


def main() -> None:
    claims = [race(case) for case in CASES]
    harness.conclude([*claims, *against_scikit_learn()])


if __name__ == "__main__":
    main()
