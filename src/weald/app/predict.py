"""Label new rows with the model of a run, by column name, in the scale of the fit.

Columns may stand in any order and others may be there; what is missing is named. Rows are read in the kinds of the
fit: text that looks like numbers stays text where the model knows levels.

Where the number of clusters was not given, `novelty` is the probability that a row belongs to no known cluster.

    columns = predict("run", "new.csv", "labels.parquet")
    columns["cluster"], columns["probability"]
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import weald
from weald._typing import JSON, Array, PathLike
from weald.app.cluster import assignments, kept_columns
from weald.app.prepare import Features
from weald.app.readers import read_table, write_table
from weald.exceptions import PersistError


def predict(run: PathLike, data: PathLike, out: PathLike) -> dict[str, Array]:
    """Label the rows of a file and write a labels file.

    Parameters
    ----------
    run : path or str
        A folder that ``weald cluster`` wrote.
    data : path or str
        A table with the columns of the fit, in any order; other columns are ignored, and the id column of
        the fit is kept where it is there.
    out : path or str
        A .parquet, .csv, .tsv or .npz file.

    Returns
    -------
    dict of str to array of shape (n,)
        What was written.
    """
    features, settings = load_run(run)
    model = weald.load(Path(run) / "model.weald")
    table = read_table(data)
    X = features.matrix(table)
    name = settings.get("id")
    kept = {str(name): table.columns[str(name)]} if name in table.names else {}
    columns = {"row": np.arange(table.n_rows), **kept_columns(kept)}
    columns |= assignments(model.predict_proba(X), model.score_samples(X) + features.log_jacobian(table))
    if settings.get("k") is None:
        columns["novelty"] = model.novelty(X)
    write_table(out, columns)
    return columns


def load_run(run: PathLike) -> tuple[Features, dict[str, JSON]]:
    """The features and settings in the run.json of a folder."""
    path = Path(run) / "run.json"
    try:
        record: dict[str, Any] = json.loads(path.read_text())
        if record["weald_run"] > 1:
            raise PersistError(f"{path} was written by a newer weald; upgrade weald")
        parts: dict[str, Any] = {
            name: tuple(part) if isinstance(part, list) else part for name, part in record["features"].items()
        }
        return Features(**parts), record["settings"]
    except FileNotFoundError as error:
        raise PersistError(f"{run} is no finished run: there is no run.json in it") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, PersistError):
            raise
        raise PersistError(f"{path} is damaged: {error}") from error
