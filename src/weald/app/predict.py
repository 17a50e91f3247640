"""Label new rows with the model of a run, by column name, in the scale of the fit; tell the topics of new documents.

Columns may stand in any order and others may be there; what is missing is named. Rows are read in the kinds of the
fit: text that looks like numbers stays text where the model knows levels.

Where the number of clusters was not given, `novelty` is the probability that a row belongs to no known cluster.

Documents are counted by the vocabulary of the fit; words that it does not have are left out.

    columns = predict("run", "new.csv", "labels.parquet")
    columns["cluster"], columns["probability"]
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import weald
from weald._typing import JSON, Array, PathLike
from weald.app.cluster import assignments, kept_columns
from weald.app.corpus import recount
from weald.app.prepare import Features
from weald.app.readers import read_table, write_table
from weald.app.texts import Fields
from weald.app.topic_tables import columns_of, document_table, log_probability
from weald.app.wording import Vocabulary
from weald.exceptions import PersistError


def predict(run: PathLike, data: PathLike, out: PathLike) -> dict[str, Array]:
    """Label the rows of a file, or tell the topics of its documents, and write that to a file.

    Parameters
    ----------
    run : path or str
        A folder that ``weald cluster`` or ``weald topics`` wrote.
    data : path or str
        A table with the columns of the fit, in any order; other columns are ignored, and the id column of
        the fit is kept where it is there. Or texts, of the formats and with the columns of the fit.
    out : path or str
        A .parquet, .csv, .tsv or .npz file.

    Returns
    -------
    dict of str to array of shape (n,)
        What was written.
    """
    if load_record(run).get("kind") == "topics":
        return predict_topics(run, data, out)
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


def predict_topics(run: PathLike, data: PathLike, out: PathLike) -> dict[str, Array]:
    """Topics of each document: row, [id], the two largest, words known, log probability of a word, t0, t1, ..."""
    path = Path(run) / "run.json"
    with _damage(path):
        record = load_record(run)
        vocabulary = Vocabulary(tuple(record["vocabulary"]["words"]), record["vocabulary"]["token_pattern"])
        fields = Fields(record["settings"]["text"], record["settings"]["id"], lenient=True)
    if Path(data).is_dir():
        fields = Fields(fields.text)
    model = weald.load(Path(run) / "model.weald")
    counted = recount(data, fields, vocabulary)
    theta = model.transform(counted.X)
    found = document_table(counted, theta, log_probability(counted.X, theta, model.components_))
    columns = found | columns_of(theta)
    write_table(out, columns)
    return columns


def load_run(run: PathLike) -> tuple[Features, dict[str, JSON]]:
    """The features and settings in the run.json of a folder."""
    record = load_record(run)
    with _damage(Path(run) / "run.json"):
        parts: dict[str, Any] = {
            name: tuple(part) if isinstance(part, list) else part for name, part in record["features"].items()
        }
        return Features(**parts), record["settings"]


def load_record(run: PathLike) -> dict[str, Any]:
    """The run.json of a folder."""
    path = Path(run) / "run.json"
    if not path.is_file():
        raise PersistError(f"{run} is no finished run: there is no run.json in it")
    with _damage(path):
        record: dict[str, Any] = json.loads(path.read_text())
        if record["weald_run"] > 1:
            raise PersistError(f"{path} was written by a newer weald; upgrade weald")
    return record


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Say that a file is damaged instead of what a reader stumbled over."""
    try:
        yield
    except PersistError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PersistError(f"{path} is damaged: {error}") from error
