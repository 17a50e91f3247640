"""Cluster a table from file to folder: read, choose columns, scale, fit, write labels, model and report.

    run/labels.parquet         row, [id], [label column], cluster, probability, second_cluster, second_probability,
                               log_density; without k also uncertainty
    run/probabilities.parquet  row, [id], p0, p1, ...
    run/model.weald            the fitted `weald.Mixture`, without k `weald.DPMixture` (in the units after scaling)
    run/report.html            one file for people
    run/run.json               what `weald predict` and a later you need: columns, scaling, settings, versions, command

Each file appears whole or not at all, and run.json last: a folder with run.json is complete.

    run = cluster("wine.csv", "run", Settings(k=3, label="cultivar"))
    run.labels[:3], run.status.ok
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import weald
from weald._atomic import replacing
from weald._progress import Callback
from weald._typing import JSON, Array, FloatArray, IntArray, PathLike
from weald.app.prepare import Features, Settings, choose_features, used_columns
from weald.app.readers import Table, read_table, write_table
from weald.app.runs import checkpointed, collected, command_line, folder_for, plain, provenance, write_record
from weald.exceptions import ParameterError, Status
from weald.mixtures.dp_mixture import DPMixture

N_INIT = 5


@dataclass(frozen=True)
class Run:
    """A finished clustering and all that is needed to report it.

    Parameters
    ----------
    source : str
        Where the table came from.
    out : Path
        The folder of the run.
    settings : Settings
        What was asked.
    features : Features
        What the model reads.
    table : Table
        The columns used, in the units of the file.
    X : array of shape (n, d) or pyarrow table
        What the model read.
    model : Mixture or DPMixture
        The fitted model.
    proba : array of shape (n, K)
        Assignment probabilities.
    log_density : array of shape (n,)
        Log density of each row, in the units of the file.
    ids, given : array of shape (n,) or None
        The id column and the label column.
    notes : tuple of str
        What to know about the data.
    seconds : float
        Time of the fit.
    """

    source: str
    out: Path
    settings: Settings
    features: Features
    table: Table
    X: Any
    model: Any
    proba: FloatArray
    log_density: FloatArray
    ids: Array | None
    given: Array | None
    notes: tuple[str, ...]
    seconds: float

    @property
    def labels(self) -> IntArray:
        """(n,): the most probable cluster of each row; without k its cluster in the point estimate."""
        return np.asarray(self.model.labels_ if self.settings.k is None else np.argmax(self.proba, axis=1))

    @property
    def certainty(self) -> FloatArray:
        """(n,): the probability of the cluster of each row."""
        return np.asarray(self.proba[np.arange(len(self.proba)), self.labels])

    @property
    def assigned(self) -> dict[str, Array]:
        """The columns of the labels file that the model adds."""
        columns = assignments(self.proba, self.log_density, self.labels)
        return columns | ({"uncertainty": self.model.uncertainty_} if self.settings.k is None else {})

    @property
    def found(self) -> str:
        """How many clusters there are, for people."""
        n_clusters = len(np.unique(self.labels))
        text = "One cluster" if n_clusters == 1 else f"{n_clusters:,} clusters"
        if self.settings.k is not None:
            return text
        low, high = self.model.n_components_interval_
        return f"{text} (95 % interval {low} to {high})"

    @property
    def status(self) -> Status:
        """The verdict on the fit."""
        status: Status = self.model.status_
        return status

    @property
    def command(self) -> str:
        """The command line that repeats this run."""
        return command_line("cluster", self.source, self.out, self.settings.changed())

    @property
    def python(self) -> str:
        """The Python lines that repeat this run."""
        options = ", ".join(f"{name}={value!r}" for name, value in self.settings.changed().items())
        return (
            "import weald\nfrom weald.app.cluster import cluster\nfrom weald.app.prepare import Settings\n\n"
            f"run = cluster({self.source!r}, {str(self.out)!r}, Settings({options}))\n"
            f"model = weald.load({str(self.out / 'model.weald')!r})"
        )


def cluster(
    data: PathLike,
    out: PathLike,
    settings: Settings,
    *,
    labels_format: str = "parquet",
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
) -> Run:
    """Cluster a file and write the folder `out`.

    Parameters
    ----------
    data : path or str
        A table that `weald.app.readers.read_table` reads; ``"-"`` is standard input.
    out : path or str
        The folder to write; files of an earlier run there are replaced.
    settings : Settings
        What to do.
    labels_format : str
        ``"parquet"``, ``"csv"``, ``"tsv"`` or ``"npz"``.
    callbacks : sequence of callables
        Told of each sweep; see `weald._progress.Event`.
    resume : bool
        Go on from the checkpoint that an interrupted run left in `out`, where there is one.

    Returns
    -------
    Run
    """
    from weald.app import report

    report.check_extras()
    if labels_format not in ("parquet", "csv", "tsv", "npz"):
        raise ParameterError(f"labels_format must be parquet, csv, tsv or npz; got {labels_format!r}")
    extra = [name for name in (settings.id, settings.label) if name]
    table = read_table(data, columns=[*settings.columns, *extra] if settings.columns else None)
    table.select(extra)
    used = table.select(used_columns(table, settings))
    features, notes = choose_features(used, settings)
    X = features.matrix(used)
    out = folder_for(out)
    started = time.perf_counter()
    with collected(notes):
        model = checkpointed(make_model(settings, features.family), X, out, callbacks, resume)
    run = Run(
        source=str(data), out=out, settings=settings, features=features, table=used, X=X, model=model,
        proba=model.predict_proba(X), log_density=model.score_samples(X) + features.log_jacobian(used),
        ids=table.columns[settings.id] if settings.id else None,
        given=table.columns[settings.label] if settings.label else None,
        notes=tuple(notes), seconds=time.perf_counter() - started,
    )  # fmt: skip
    write_run(run, labels_format)
    return run


def write_run(run: Run, labels_format: str) -> None:
    """Write the files of a run, run.json last."""
    from weald.app import report

    row = {"row": np.arange(run.table.n_rows)}
    weald.save(run.model, run.out / "model.weald")
    names = {"id": (run.settings.id, run.ids), "label": (run.settings.label, run.given)}
    kept = {name: cells for name, cells in names.values() if name is not None and cells is not None}
    write_table(run.out / f"labels.{labels_format}", row | kept_columns(kept) | run.assigned)
    wide = {f"p{k}": run.proba[:, k] for k in range(run.proba.shape[1])}
    only_id = {name: kept[name] for name in (run.settings.id,) if name is not None}
    write_table(run.out / f"probabilities.{labels_format}", row | kept_columns(only_id, set(wide)) | wide)
    with replacing(run.out / "report.html") as sink:
        sink.write(report.render(run).encode())
    write_record(run.out, record(run))


def assignments(proba: FloatArray, log_density: FloatArray, labels: IntArray | None = None) -> dict[str, Array]:
    """The columns of a labels file.

    Parameters
    ----------
    proba : array of shape (n, K)
        Probabilities of the clusters.
    log_density : array of shape (n,)
    labels : int array of shape (n,), optional
        Clusters that are already decided; the most probable by default. The second is the most probable other one,
        -1 where there is none.
    """
    rows = np.arange(len(proba))
    best = np.argmax(proba, axis=1) if labels is None else labels
    rest = proba.copy()
    rest[rows, best] = -1.0
    second = np.argmax(rest, axis=1) if proba.shape[1] > 1 else np.full(len(proba), -1)
    return {
        "cluster": best,
        "probability": proba[rows, best],
        "second_cluster": second,
        "second_probability": np.maximum(rest[rows, second], 0.0),
        "log_density": log_density,
    }


def record(run: Run) -> dict[str, JSON]:
    """The contents of run.json."""
    about = provenance(run.source, run.table.n_rows, run.status, run.seconds, run.command)
    return about | {"settings": plain(run.settings), "features": plain(run.features)}


def make_model(settings: Settings, family: str) -> Any:
    """The estimator that the settings ask for, not yet fitted: a finite mixture with k, else a nonparametric one."""
    options: dict[str, Any] = {"family": family, "covariance": settings.covariance, "random_state": settings.seed}
    if settings.max_iter is not None:
        half = settings.max_iter // 2
        chained = settings.k is None or settings.inference == "gibbs"
        sweeps = {"draws": settings.max_iter - half, "warmup": half}
        options |= sweeps if chained else {"max_iter": settings.max_iter}
    if settings.k is None:
        options |= {"inference": settings.inference, "prior": settings.prior or "dp"}
        return DPMixture(**options)
    options["inference"] = "em" if settings.inference == "auto" else settings.inference
    options["n_init"] = N_INIT if settings.n_init is None else settings.n_init
    return weald.Mixture(settings.k, **options)


def kept_columns(kept: dict[str, Array], taken: set[str] | None = None) -> dict[str, Array]:
    """Rename kept columns that would collide with ours."""
    ours = {
        "row", "cluster", "probability", "second_cluster", "second_probability", "log_density", "uncertainty",
        "novelty", *(taken or ()),
    }  # fmt: skip
    return {f"input_{name}" if name in ours else name: cells for name, cells in kept.items()}
