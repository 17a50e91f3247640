"""Peak memory that fitting 1,000,000 x 32 float32 rows with K = 1,000 adds to the data."""

from __future__ import annotations

import subprocess
import sys

from benchmarks import harness

FIT = """
import resource, warnings
import numpy as np, weald
from weald.assign import ExactAssignment
warnings.simplefilter("ignore")
weald.Mixture(400, inference="{inference}", max_iter=2, covariance="diag", init="{init}", random_state=0).fit(
    np.random.default_rng(0).normal(size=(40_000, 32)).astype(np.float32))   # imports and kernels are not the fit's
X = np.random.default_rng(0).standard_normal((1_000_000, 32), dtype=np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
weald.Mixture(1000, inference="{inference}", max_iter=2, covariance="diag", init="{init}", random_state=0).fit(X)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def added(inference: str, init: str) -> float:
    """Megabytes; the interpreter's own high-water mark before the fit is taken off."""
    code = FIT.format(inference=inference, init=init)
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def main() -> None:
    rows = [("sem", "kmeans++", added("sem", "kmeans++")), ("em", "kmeans++", added("em", "kmeans++"))]
    harness.heading("Memory that a fit adds to 1,000,000 x 32 float32, K=1,000", ("scikit-learn",))
    harness.table(("inference", "init", "added MB"), rows)
    harness.conclude([harness.Claim("largest addition, MB", max(row[2] for row in rows), 300.0)])


if __name__ == "__main__":
    main()
