"""Exact stochastic EM beside faiss k-means and scikit-learn's EM: N = 200,000, D = 32, K = 1,000, float32, one thread.

All start from the same k-means++ statistics. Quality is the mean log-likelihood per row of the mixture each ends with
(k-means: of the spherical mixture with its clusters' moments), in the units of the data.
"""

from __future__ import annotations

import warnings

import faiss
import numpy as np
from sklearn.mixture import GaussianMixture

from benchmarks import harness
from weald.assign import ExactAssignment, Rows
from weald.assign.base import add_statistics
from weald.datasets import make_blobs_overlapping
from weald.engine import Threads
from weald.families import DiagonalGaussian, SphericalGaussian
from weald.families.base import AbstractFamily
from weald.mixtures.kernels import RULES, MixtureKernel, Model
from weald.mixtures.starts import first_statistics
from weald.partitions import FiniteDirichlet

N, D, K, SWEEPS = 200_000, 32, 1_000, 10
Row = tuple[str, float, int, float, float]


def kernel_for(family: AbstractFamily, X: np.ndarray, S: np.ndarray | None, rule: str = "sem") -> MixtureKernel:
    rows = Rows(X, family)
    model = Model(family, FiniteDirichlet(K, 1.0))
    return MixtureKernel(model, rows, RULES[rule], ExactAssignment(), Threads(1), lambda rng: S, rows.log_base())


def weald_sem(family: AbstractFamily, X: np.ndarray, S: np.ndarray, sweeps: int) -> Row:
    kernel = kernel_for(family, X, S)
    rng = np.random.default_rng(0)
    state = kernel.init(rng)
    kernel.step(rng, state)  # compiled or loaded from the cache before the clock starts
    likelihood = 0.0

    def sweep() -> None:
        nonlocal state, likelihood
        state, info = kernel.step(rng, state)
        likelihood = info["log_likelihood"] / N

    seconds = [harness.cpu_seconds(sweep) for _ in range(sweeps)]
    return (f"weald sem {type(family).__name__}", float(np.median(seconds)), sweeps, sum(seconds), likelihood)


def faiss_kmeans(X: np.ndarray, seeds: np.ndarray, family: AbstractFamily) -> Row:
    def run(sweeps: int) -> faiss.Kmeans:
        kmeans = faiss.Kmeans(D, K, niter=sweeps, seed=1, max_points_per_centroid=N)
        kmeans.train(X, init_centroids=seeds)
        return kmeans

    faiss.omp_set_num_threads(1)
    short, long = harness.cpu_seconds(lambda: run(1)), harness.cpu_seconds(lambda: run(1 + SWEEPS))
    z = run(SWEEPS).index.search(X, 1)[1].ravel().astype(np.int32)
    S = np.zeros((K, family.width))
    add_statistics(family.sufficient(X), z, None, S)
    kernel = kernel_for(family, X, S, "em")
    _, info = kernel.step(np.random.default_rng(0), kernel.init(np.random.default_rng(0)))
    return ("faiss k-means", (long - short) / SWEEPS, SWEEPS, long, info["log_likelihood"] / N)


def sklearn_em(X: np.ndarray, family: AbstractFamily, S: np.ndarray) -> Row:
    """Seconds of an iteration: what two more of them add to a warm-started fit, the median of three."""
    named = family.named(family.mode_eta(S))
    mixture = GaussianMixture(
        n_components=K, covariance_type="diag", tol=0.0, max_iter=1, weights_init=S[:, -1] / S[:, -1].sum(),
        means_init=named["means"], precisions_init=1 / named["covariances"], init_params="random_from_data",
        warm_start=True, random_state=0,
    )  # fmt: skip
    mixture.fit(X)
    spent, slopes = 0.0, []
    for _ in range(3):
        short = harness.cpu_seconds(lambda: mixture.set_params(max_iter=1).fit(X))
        long = harness.cpu_seconds(lambda: mixture.set_params(max_iter=3).fit(X))
        slopes.append((long - short) / 2)
        spent += short + long
    iterations = 1 + 3 * 4
    return ("scikit-learn GaussianMixture diag", float(np.median(slopes)), iterations, spent, float(mixture.score(X)))


def main() -> None:
    warnings.simplefilter("ignore")  # scikit-learn says that it has not converged: so we asked
    X = make_blobs_overlapping(N, D, K, 5.0, np.random.default_rng(0), np.float32).X
    starts = {}
    for cls in (SphericalGaussian, DiagonalGaussian):
        family = cls.from_data(X, K)
        starts[cls] = family, first_statistics("kmeans++", Rows(X, family), K, np.random.default_rng(1))
    spherical, S = starts[SphericalGaussian]
    seeds = spherical.named(spherical.mode_eta(S))["means"].astype(np.float32)
    faiss_row, spherical_row = faiss_kmeans(X, seeds, spherical), weald_sem(spherical, X, S, SWEEPS)
    diagonal, S = starts[DiagonalGaussian]
    sklearn_row = sklearn_em(X, diagonal, S)
    equal, more = weald_sem(diagonal, X, S, sklearn_row[2]), weald_sem(diagonal, X, S, 3 * sklearn_row[2])
    rows = [spherical_row, faiss_row, equal, more, sklearn_row]
    harness.heading(f"Exact SEM, N={N:,}, D={D}, K={K:,}, float32", ("scikit-learn", "faiss-cpu"))
    harness.table(("method", "s/sweep", "sweeps", "s in all", "mean log-likelihood"), rows)
    harness.conclude(
        [
            harness.Claim("spherical SEM sweep / faiss k-means iteration", spherical_row[1] / faiss_row[1], 2.5),
            harness.Claim("diagonal SEM sweep / faiss k-means iteration", equal[1] / faiss_row[1], 2.5),
            harness.Claim("diagonal SEM sweep / scikit-learn EM iteration", equal[1] / sklearn_row[1], 1 / 8),
            harness.Claim("time of three times as many SEM sweeps / scikit-learn's", more[3] / sklearn_row[3], 1.0),
            harness.Claim("  log-likelihood of scikit-learn minus that of those sweeps", sklearn_row[4] - more[4], 0.0),
        ]
    )


if __name__ == "__main__":
    main()
