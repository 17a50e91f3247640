from __future__ import annotations

import numpy as np
import pytest

from weald import datasets
from weald.app.cluster import cluster
from weald.app.prepare import Settings
from weald.app.readers import write_table


@pytest.fixture(scope="session")
def blobs(tmp_path_factory):
    """A CSV of three clear blobs with id and truth columns."""
    path = tmp_path_factory.mktemp("data") / "blobs.csv"
    data = datasets.make_blobs_overlapping(240, 3, 3, 9.0, rng=2)
    columns = {f"x{j}": data.X[:, j] for j in range(3)}
    columns |= {
        "who": np.array([f"p{i:03d}" for i in range(240)], object),
        "truth": np.array(list("abc"), object)[data.z],
    }
    write_table(path, columns)
    return path


@pytest.fixture(scope="session")
def free(blobs, tmp_path_factory):
    """The blobs clustered without k, in few sweeps."""
    settings = Settings(covariance="diag", id="who", label="truth", max_iter=60)
    return cluster(blobs, tmp_path_factory.mktemp("free") / "out", settings)


@pytest.fixture(scope="session")
def customers(tmp_path_factory):
    """A Parquet file with columns of every type, missing cells, and hostile names."""
    path = tmp_path_factory.mktemp("data") / "customers.parquet"
    data = datasets.make_mixed_table(300, 3, rng=0)
    columns = dict(data.X)
    columns["<script>alert(1)</script>"] = columns.pop("income")
    columns["$a_{b} \\frac"] = columns.pop("height")
    columns["plan"] = np.array([f'<b onclick="x">{cell}' for cell in columns["plan"]], object)
    columns["<id>"] = np.array([f"<img src=x onerror=alert({i})>" for i in range(300)], object)
    columns["<kind>"] = np.array([f"<i>{z}</i>" for z in data.z], object)
    write_table(path, columns)
    return path
