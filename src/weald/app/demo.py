"""The tour: real data from file to report, without a network.

The table is `weald.datasets.load_demo`: 178 wines of three cultivars, which the fit does not see.

    run = demo("weald-demo")
    run.out / "report.html"
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from weald._progress import Callback
from weald._typing import PathLike
from weald.app.cluster import Run, cluster
from weald.app.prepare import Settings
from weald.app.readers import write_table
from weald.datasets import load_demo

SETTINGS = Settings(k=3, covariance="diag", id="bottle", label="cultivar", n_init=10)


def demo(out: PathLike = "weald-demo", callbacks: Sequence[Callback] = ()) -> Run:
    """Write the wine table to `out`/wine.csv and cluster it into `out`.

    Parameters
    ----------
    out : path or str
        The folder to write.
    callbacks : sequence of callables
        Told of each sweep.

    Returns
    -------
    Run
    """
    data = load_demo()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    columns = {"bottle": np.array([f"bottle {i + 1}" for i in range(len(data.z))], object)}
    columns["cultivar"] = np.array(data.classes, object)[data.z]
    columns |= dict(zip(data.names, data.X.T, strict=True))
    write_table(folder / "wine.csv", columns)
    return cluster(folder / "wine.csv", folder, SETTINGS, callbacks=callbacks)
