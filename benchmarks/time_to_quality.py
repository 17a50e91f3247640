"""Time of stochastic EM to a given quality: `assign="auto"` beside exact assignment, in many and in few dimensions.

    D = 32, K = 1,000 and 10,000     blobs 5 standard deviations apart, N = 200,000, float32: lists
    D = 3, K = 5,000                 the same: pruned

All start from the same random points. Quality is the mean log-likelihood of 10,000 rows, scored in full; the goal is
0.1 nats below the best that exact assignment reaches in whole sweeps. Three more rows are exact assignment with what
early sweeps of `auto` have too: parameters that follow parts of the rows ("in parts"), components that move besides
("with relocation"), and sweeps over a subset of rows before the first ("settled"). They tell what of the gain is the
kernel's. All but scoring is timed.

Then scikit-learn's GaussianMixture with diagonal covariance at K = 1,000: whole fits, scored on rows held out.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

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


def trajectory(
    assign: AbstractAssignment, rows: Rows, S: np.ndarray, sweeps: int, *, goal: float, parts: bool = True,
    relocates: bool = True, settles: bool = True,
) -> Path:  # fmt: skip
    """CPU seconds so far and quality, after each sweep until the goal."""
    model = Model(rows.family, FiniteDirichlet(len(S), 1.0))
    kernel = MixtureKernel(model, rows, RULES["sem"], assign, Threads(1), lambda rng: S, 0.0, parts, relocates, settles)
    warm_up(kernel)
    state, seconds, out = MixtureState(S, S, S[:, -1], np.empty(0, np.int32)), 0.0, list[tuple[float, float]]()
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


def warm_up(kernel: MixtureKernel) -> None:
    """Compile all that a fit uses."""
    few = MixtureKernel(
        kernel.model, kernel.rows.taken(np.arange(65_536)), kernel.rule, kernel.assign, kernel.engine, kernel.first,
        settles=False,
    ).arranged()  # fmt: skip
    state = few.init(np.random.default_rng(0))
    for sweep in (0, 1, 2, 20):
        later = MixtureState(state.S, state.eta, state.log_w, state.z, sweep, state.memory, state.shared)
        state, _ = few.step(np.random.default_rng(sweep), later)
    moves = np.arange(3)[None]
    relocated(state.S, state.z, np.roll(state.z, 1), few.rows, few.model.prior, np.random.default_rng(0), few.engine)
    joined, also = np.full((2, len(state.S)), -1)
    joined[moves[:, 1]], also[moves[:, 2]] = moves[:, 0], moves[:, 1]
    few.assign.told(state.memory, joined, also)


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
    exact = trajectory(ExactAssignment(), rows, S, case.sweeps, goal=np.inf, **PLAIN)
    goal = max(q for _, q in exact) - 0.1
    auto = AutoAssignment(case.K, rows.family.width, draws=True, strict=False)
    paths = {
        "exact": exact[: next(i + 1 for i, (_, q) in enumerate(exact) if q > goal)],
        "exact, in parts": trajectory(
            ExactAssignment(), rows, S, case.sweeps, goal=goal, relocates=False, settles=False
        ),
        "exact, with relocation": trajectory(ExactAssignment(), rows, S, case.sweeps, goal=goal, settles=False),
        "exact, settled": trajectory(ExactAssignment(), rows, S, case.sweeps, goal=goal),
        "auto": trajectory(auto, rows, S, 3 * case.sweeps, goal=goal),
    }
    harness.heading(f"Time to quality, N={N:,}, D={case.d}, K={case.K:,}, float32, goal {goal:.3f}", ())
    columns = ("kernel", "sweeps", "s to goal", "of exact", "quality")
    base = paths["exact"][-1][0]
    harness.table(columns, [(name, len(p), p[-1][0], p[-1][0] / base, p[-1][1]) for name, p in paths.items()])
    arrived = paths["auto"][-1][1] > goal
    text = f"time of auto to the goal / that of exact assignment, D={case.d}, K={case.K:,}"
    return harness.Claim(text, paths["auto"][-1][0] / base if arrived else np.inf, case.limit)


def against_scikit_learn(iterations: int = 12) -> list[harness.Claim]:
    """Whole fits at K = 1,000, D = 32, diagonal covariance."""
    X = make_blobs_overlapping(N + 20_000, 32, 1_000, 5.0, np.random.default_rng(0), np.float32).X
    train, test = X[:N], X[N:]
    theirs = GaussianMixture(1_000, covariance_type="diag", init_params="random_from_data", max_iter=iterations)
    theirs.set_params(random_state=0, tol=0.0)
    ours = weald.Mixture(1_000, covariance="diag", inference="sem", init="random-points", n_jobs=1, random_state=0)
    ours.set_params(max_iter=8, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fixed number of iterations is no convergence
        weald.Mixture(400, covariance="diag", inference="sem", max_iter=12, n_jobs=1).fit(train[:80_000])
        seconds = {"scikit-learn": harness.cpu_seconds(lambda: theirs.fit(train))}
        seconds["weald, auto"] = harness.cpu_seconds(lambda: ours.fit(train))
    score = {"scikit-learn": float(theirs.score(test)), "weald, auto": float(ours.score(test))}
    harness.heading(f"Whole fits, N={N:,}, D=32, K=1,000, diagonal covariance, 20,000 rows held out", ("scikit-learn",))
    sweeps = {"scikit-learn": iterations, "weald, auto": ours.n_iter_}
    harness.table(
        ("package", "iterations", "s", "held-out nats/row"),
        [(name, sweeps[name], seconds[name], score[name]) for name in seconds],
    )
    ratio = seconds["weald, auto"] / seconds["scikit-learn"]
    behind = score["scikit-learn"] - score["weald, auto"]
    return [
        harness.Claim("time of weald / that of scikit-learn, diagonal, K=1,000", ratio, 1 / 30),
        harness.Claim("held-out nats per row that weald is behind scikit-learn", behind, 0.0),
    ]


def main() -> None:
    claims = [race(case) for case in CASES]
    harness.conclude([*claims, *against_scikit_learn()])


if __name__ == "__main__":
    main()
