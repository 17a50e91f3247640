"""Cover tree beside scikit-learn's BallTree and KDTree: build, and the 10 nearest neighbours of 10,000 new points.

N = 100,000 points of a curved 4-dimensional sheet in D = 32 (and 16) columns, float64, one thread. All answers are
exact: the distances of all three are compared.
"""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import BallTree, KDTree

from benchmarks import harness
from weald.trees import CoverTree

N, N_QUERIES, K, INTRINSIC = 100_000, 10_000, 10, 4
METHODS = {"weald CoverTree": lambda X: CoverTree().fit(X), "BallTree": BallTree, "KDTree": KDTree}
Row = tuple[str, int, float, float, float]


def sheet(n: int, D: int, rng: np.random.Generator) -> np.ndarray:
    U = rng.uniform(-1, 1, size=(n, INTRINSIC))
    return np.sin(U @ rng.normal(size=(INTRINSIC, D))) + 0.5 * np.cos(U @ rng.normal(size=(INTRINSIC, D)))


def measure(name: str, X: np.ndarray, Y: np.ndarray, exact: np.ndarray | None) -> tuple[Row, np.ndarray]:
    """The best of three builds, one pass of queries, and the largest deviation from the exact distances."""
    trees, answers = [], []
    build = min(harness.cpu_seconds(lambda: trees.append(METHODS[name](X))) for _ in range(3))
    query = harness.cpu_seconds(lambda: answers.append(trees[-1].query(Y, K)[0]))
    error = 0.0 if exact is None else float(np.max(np.abs(answers[0] - exact)))
    return (name, X.shape[1], build, query, error), answers[0]


def main() -> None:
    METHODS["weald CoverTree"](np.eye(3)).query(np.eye(3), 2)  # compiled or loaded before the clock starts
    rows: dict[tuple[str, int], Row] = {}
    for D in (16, 32):
        P = sheet(N + N_QUERIES, D, np.random.default_rng(D))
        exact = None
        for name in reversed(METHODS):
            rows[name, D], distances = measure(name, P[:N], P[N:], exact)
            exact = distances if exact is None else exact
    harness.heading(f"Neighbours, N={N:,}, {N_QUERIES:,} queries, k={K}, 4-d sheet", ("scikit-learn",))
    harness.table(("method", "D", "s build", "s query", "largest error"), sorted(rows.values(), key=lambda row: row[1]))
    claims = []
    for D in (16, 32):
        cover, ball = rows["weald CoverTree", D], rows["BallTree", D]
        claims += [
            harness.Claim(f"D={D}: build / BallTree's", cover[2] / ball[2], 2.0),
            harness.Claim(f"D={D}: queries / BallTree's", cover[3] / ball[3], 1 / 4),
            harness.Claim(f"D={D}: queries / KDTree's", cover[3] / rows["KDTree", D][3], 1.0),
            harness.Claim(f"D={D}: largest error of a distance", cover[4], 1e-12),
        ]
    harness.conclude(claims)


if __name__ == "__main__":
    main()
