"""Run every benchmark, each in a fresh process: ``python -m benchmarks [name ...]``."""

import subprocess
import sys
from pathlib import Path

CLAIMS = (
    "cover_tree",
    "exact_sem",
    "time_to_quality",
    "first_call",
    "memory",
    "scaling",
    "dp_mixture",
    "dp_scaling",
    "tree_guided",
    "topics_speed",
    "topics_online",
    "topics_hdp",
    "topics_supervised",
)
LONG = ("canopy_table",)  # run when named

if __name__ == "__main__":
    names = sys.argv[1:] or CLAIMS
    if unknown := set(names) - {*CLAIMS, *LONG}:
        sys.exit(f"unknown benchmarks {sorted(unknown)}; there are {', '.join(CLAIMS + LONG)}")
    root = Path(__file__).resolve().parent.parent
    failed = [
        name for name in names if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=root).returncode
    ]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
