"""From a table to what a model reads: which columns, which likelihood, which scale, and what to tell the user.

    family auto  gaussian for numbers, bernoulli for zeros and ones, mixed where there is text or truth values
    counts       whole numbers of a mixed table are counts (Poisson) when the smallest is 0 or 1, else measurements
    scale        x -> (x - centre) / spread, by mean and standard deviation (standard), or by median and
                 interquartile range / 1.349 (robust); truth values, text and counts are left alone

`Features` is stored with a run, so that new rows are read by name, in the kinds and the scale of the fit.

    >>> table = Table(("age",), {"age": np.array([30, 41, 58])})
    >>> features, notes = choose_features(table, Settings(k=2, scale="standard"))
    >>> features.family, features.centre, features.matrix(table).shape
    ('gaussian', (43.0,), (3, 1))
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weald._typing import Array, FloatArray
from weald._validate import looks_counted
from weald.app.readers import Table
from weald.exceptions import DataError, ParameterError

CHOICES = {
    "family": ("auto", "gaussian", "bernoulli", "categorical", "multinomial", "poisson", "mixed"),
    "covariance": ("full", "diag", "spherical", "tied"),
    "prior": ("dp", "pitman-yor", "nggp", "nig", "mfm"),
    "scale": ("none", "standard", "robust"),
}
WITH_K = ("em", "sem", "gibbs", "vb")
WITHOUT_K = ("auto", "collapsed", "tree-guided", "parallel", "vb")
BY_COLUMN = ("mixed", "categorical")  # families that read a table; the others read a matrix


@dataclass(frozen=True)
class Settings:
    """What to do with a table: the options of ``weald cluster``.

    Parameters
    ----------
    k : int, optional
        Number of clusters. With it a `weald.Mixture` is fitted; without it a `weald.DPMixture`, which finds the number.
    family : str
        Likelihood; ``"auto"`` takes gaussian for numbers, bernoulli for zeros and ones, mixed where there is text.
    covariance, seed
        Passed to the model; tied covariances need k.
    inference : str
        ``"em"``, ``"sem"``, ``"gibbs"`` or ``"vb"`` with k; ``"collapsed"``, ``"tree-guided"``, ``"parallel"`` or
        ``"vb"`` without. ``"auto"`` is em with k, and goes by the data without.
    columns, exclude : tuple of str
        Columns to use (all by default), columns to leave out.
    id, label : str, optional
        A column that names rows, and one with known classes to compare with; neither is used in the fit.
    scale : str
        ``"standard"`` divides each number column by its standard deviation, ``"robust"`` by its interquartile range.
    n_init : int, optional
        Starts, 5 by default; only with k.
    max_iter : int, optional
        Most sweeps of a start or chain; of chains, half of them are warmup.
    prior : str, optional
        What is expected of the clusters before the data are seen: ``"dp"`` (the default), ``"pitman-yor"``, ``"nggp"``,
        ``"nig"`` or ``"mfm"``; only without k.
    """

    k: int | None = None
    family: str = "auto"
    covariance: str = "full"
    inference: str = "auto"
    columns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    id: str | None = None
    label: str | None = None
    scale: str = "none"
    seed: int = 0
    n_init: int | None = None
    max_iter: int | None = None
    prior: str | None = None

    def __post_init__(self) -> None:
        for name, least in (("k", 1), ("n_init", 1), ("seed", 0), ("max_iter", 2)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ParameterError(f"{name} must be at least {least}, got {value}")
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise ParameterError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        """Options that mean something only with k, or only without."""
        allowed = WITHOUT_K if self.k is None else ("auto", *WITH_K)
        if self.inference not in allowed:
            raise ParameterError(
                f"inference must be one of {', '.join(WITH_K)} with k, or one of {', '.join(WITHOUT_K)} without; "
                f"got {self.inference!r} {'without k' if self.k is None else f'with k {self.k}'}"
            )
        if self.k is not None:
            if self.prior is not None:
                raise ParameterError(f"prior {self.prior} is about an unknown number of clusters: leave out k or prior")
            return
        if self.covariance == "tied":
            raise ParameterError("covariance tied needs k: add it, or use full, diag or spherical")
        if self.n_init is not None:
            raise ParameterError("n_init counts starts, which need k: add it, or leave out n_init (there are 4 chains)")
        if self.inference == "vb" and self.max_iter is not None:
            raise ParameterError("without k, vb stops by itself: leave out max_iter, or use another inference")
        if self.inference == "vb" and self.prior not in (None, "dp"):
            raise ParameterError(f"vb knows prior dp only: use another inference for {self.prior}")

    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults."""
        return changed(self)


@dataclass(frozen=True)
class Features:
    """Which columns a model reads, by name and kind, and how their numbers are scaled.

    Parameters
    ----------
    names, kinds : tuple of str
        Columns and what they are read as: float, count, bool or text.
    family : str
        The likelihood.
    centre, spread : tuple of float
        x becomes (x - centre) / spread.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    family: str
    centre: tuple[float, ...]
    spread: tuple[float, ...]

    def matrix(self, table: Table) -> Any:
        """What the model reads: (n, d) array, or a pyarrow table for families that go by column."""
        by_column = self.family in BY_COLUMN
        chosen = table.select(self.names)
        cells = {
            name: _as_kind(chosen, name, kind, by_column) for name, kind in zip(self.names, self.kinds, strict=True)
        }
        for name, kind, centre, spread in zip(self.names, self.kinds, self.centre, self.spread, strict=True):
            if kind != "text" and (centre, spread) != (0.0, 1.0):
                cells[name] = (cells[name] - centre) / spread
        chosen = Table(self.names, cells)
        return chosen.arrow() if by_column else chosen.numeric()

    def log_jacobian(self, table: Table) -> FloatArray:
        """(n,): what turns log densities after scaling into log densities in the units of the file."""
        total = np.zeros(table.n_rows)
        for name, spread in zip(self.names, self.spread, strict=True):
            if spread != 1.0:
                total -= np.where(missing(table.columns[name]), 0.0, np.log(spread))
        return total


def choose_features(table: Table, settings: Settings) -> tuple[Features, list[str]]:
    """Decide family and scaling for the columns of a table; notes say what a user should know."""
    found = {name: table.kind(name) for name in table.names}
    _refuse_unusable(table, found)
    family = _auto_family(table, found) if settings.family == "auto" else settings.family
    _refuse_missing(table, found, family, settings.covariance)
    kinds = {name: _kind(table.columns[name], kind, family) for name, kind in found.items()}
    if settings.scale != "none" and family not in ("gaussian", "mixed"):
        raise ParameterError(f"scale {settings.scale!r} makes no sense for the {family} family: use scale none")
    pairs = [_scaling(table.columns[name], kinds[name], settings.scale) for name in table.names]
    centre, spread = zip(*pairs, strict=True)
    return Features(table.names, tuple(kinds.values()), family, centre, spread), _notes(table, found)


def changed(settings: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults."""
    fields = dataclasses.fields(settings)
    return {f.name: getattr(settings, f.name) for f in fields if getattr(settings, f.name) != f.default}


def join_names(names: Sequence[str]) -> str:
    """Names as one option, separated by commas; those that hold commas or quotes stand in double quotes."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def used_columns(table: Table, settings: Settings) -> list[str]:
    """The columns to cluster on, in order."""
    table.select(settings.exclude)
    aside = {*settings.exclude, settings.id, settings.label}
    used = [name for name in (settings.columns or table.names) if name not in aside]
    if not used:
        raise DataError("no columns are left to cluster on; check columns, exclude, id and label")
    return used


def _refuse_unusable(table: Table, kinds: dict[str, str]) -> None:
    times = [name for name, kind in kinds.items() if kind == "time"]
    if times:
        raise DataError(
            f"{', '.join(map(repr, times))} holds dates: exclude it (--exclude {join_names(times)}) or make it a number"
        )
    names = [name for name, kind in kinds.items() if kind == "text" and _names_rows(table.columns[name])]
    if names:
        raise DataError(
            f"every cell of {', '.join(map(repr, names))} is different, so it names rows rather than describing them: "
            f"use --id {names[0]} or --exclude {join_names(names)}"
        )


def _refuse_missing(table: Table, kinds: dict[str, str], family: str, covariance: str) -> None:
    """Say at once, and by name, which columns have holes that the family cannot leave out."""
    from sklearn.utils import get_tags

    import weald

    holes = [name for name in table.names if missing(table.columns[name]).any()]
    options: dict[str, Any] = {"family": family, "covariance": covariance}
    if holes and not get_tags(weald.Mixture(**options)).input_tags.allow_nan:
        cure = "use --covariance diag, " if family == "gaussian" else ""
        what = f"{', '.join(map(repr, holes))} {'misses' if len(holes) == 1 else 'miss'} cells"
        raise DataError(
            f"{what}, which {family} with covariance {covariance} cannot leave out: "
            f"{cure}fill them, or --exclude {join_names(holes)}"
        )


def missing(cells: Array) -> Array:
    """(n,) bool: which cells are missing."""
    return np.array([cell is None for cell in cells]) if cells.dtype == object else np.asarray(cells != cells)


def _names_rows(cells: Array) -> bool:
    return len(cells) > 20 and len(set(cells.tolist())) == len(cells)


def _auto_family(table: Table, kinds: dict[str, str]) -> str:
    text = "text" in kinds.values()
    if not text and all(np.isin(table.columns[name], (0, 1)).all() for name in table.names):
        return "bernoulli"
    return "mixed" if text or "bool" in kinds.values() else "gaussian"


def _kind(cells: Array, found: str, family: str) -> str:
    """What the model reads a column as."""
    if found != "int":
        return found
    counted = family in ("poisson", "multinomial") or (family == "mixed" and looks_counted(cells))
    return "count" if counted else "float"


def _scaling(cells: Array, kind: str, scale: str) -> tuple[float, float]:
    """Centre and spread of one column; (0, 1) where it is left as it is."""
    if scale == "none" or kind != "float" or not np.isfinite(cells).any():
        return 0.0, 1.0
    if scale == "standard":
        centre, spread = np.nanmean(cells), np.nanstd(cells)
    else:
        low, centre, high = np.nanquantile(cells, [0.25, 0.5, 0.75])
        spread = (high - low) / 1.349  # the standard deviation, were the column Gaussian
    return float(centre), float(spread) if spread > 0 else 1.0


def _notes(table: Table, kinds: dict[str, str]) -> list[str]:
    notes = []
    for name, kind in kinds.items():
        cells = table.columns[name]
        if kind == "int" and len(cells) > 20 and (np.diff(cells) == 1).all():
            notes.append(f"Column {name!r} counts the rows; pass it as the id or exclude it.")
        empty = missing(cells).mean()
        if empty:
            notes.append(f"Column {name!r} misses {100 * empty:.1f} % of its cells.")
        if len(cells) > 1 and not empty and (cells == cells[0]).all():
            notes.append(f"Column {name!r} is constant and tells clusters nothing.")
    return notes


def _as_kind(table: Table, name: str, kind: str, by_column: bool) -> Array:
    """One column in the kind the model was fitted on."""
    cells, found = table.columns[name], table.kind(name)
    if kind == "text":
        empty = [cell is None or cell != cell for cell in cells]
        return np.array([None if no else str(cell) for cell, no in zip(cells.tolist(), empty, strict=True)], object)
    if found in ("text", "time"):
        raise DataError(f"column {name!r} holds {found}, but the model was fitted on numbers there")
    if kind == "bool" and found == "float" and by_column:
        return np.array([None if cell != cell else bool(cell) for cell in cells], object)
    return cells.astype(np.float64) if kind == "float" else cells
