"""First fit in a fresh process with an empty kernel cache, compilation included; and again, with the cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from benchmarks import harness

FIT = """
import time; start = time.perf_counter()
import numpy as np, weald
X = np.random.default_rng(0).normal(size=(2000, 5)).astype(np.{dtype})
weald.Mixture(3, inference="{inference}", max_iter=30, draws=20, warmup=10, chains=2, random_state=0).fit(X)
print(time.perf_counter() - start)
"""


def seconds(cache: str, **choices: str) -> float:
    environment = dict(os.environ, NUMBA_CACHE_DIR=cache, PYTHONWARNINGS="ignore")
    answer = subprocess.run(
        [sys.executable, "-c", FIT.format(**choices)], env=environment, capture_output=True, text=True, check=True
    )
    return float(answer.stdout)


def main() -> None:
    rows = []
    for inference in ("em", "sem", "gibbs"):
        for dtype in ("float64", "float32"):
            with tempfile.TemporaryDirectory() as cache:
                cold = seconds(cache, inference=inference, dtype=dtype)
                rows.append((inference, dtype, cold, seconds(cache, inference=inference, dtype=dtype)))
    harness.heading("First call in a fresh process (wall clock, import included)", ("numba",))
    harness.table(("inference", "dtype", "cold cache s", "warm cache s"), rows)
    harness.conclude(
        [
            harness.Claim("slowest first call, compilation included, s", max(row[2] for row in rows), 10.0),
            harness.Claim("slowest later process, s", max(row[3] for row in rows), 5.0),
        ]
    )


if __name__ == "__main__":
    main()
