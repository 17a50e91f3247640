"""From what a user holds to what a family reads: a finite float matrix, or CSR, with names.

Numeric tables go through scikit-learn's own `validate_data`. Tables with text, categories or booleans become a float
matrix through a `Schema` learned at fit: integer codes for levels, NaN for missing cells. Paths are read by
`weald.app.readers`. Nobody's data is changed in place.
"""

from __future__ import annotations

import datetime
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from weald._typing import Array, FloatArray, Matrix, TableLike
from weald.engine.threads import BLOCK
from weald.exceptions import DataError, DataWarning, ParameterError

KINDS = ("gaussian", "poisson", "bernoulli", "categorical")
NO_TIMES = "holds dates or times: turn it into numbers, or leave it out"
TIMES = (datetime.date, datetime.time, datetime.timedelta)


def table_from(X: TableLike) -> TableLike:
    """X itself, or the table that a path leads to."""
    if not isinstance(X, str | os.PathLike):
        return X
    from weald.app.readers import read_table

    table = read_table(os.fspath(X))
    return table.numeric() if os.fspath(X).endswith(".npy") else table.arrow()


def numeric_matrix(
    estimator: Any, X: TableLike, *, reset: bool, allow_nan: bool, sparse: bool, min_rows: int = 1
) -> Matrix:
    """(n, d) float32/float64 array or CSR, checked against what `estimator` was fitted on when not `reset`."""
    _refuse_times(X)
    try:
        M = validate_data(
            estimator, X, reset=reset, dtype=[np.float64, np.float32], order="C", ensure_all_finite=False,
            accept_sparse="csr" if sparse else False, ensure_min_samples=min_rows,
        )  # fmt: skip
    except ValueError as error:
        raise DataError(_with_advice(error)) from error
    _check_finite(M, getattr(estimator, "feature_names_in_", None), allow_nan)
    return M


def _refuse_times(X: TableLike) -> None:
    """scikit-learn would read a table of dates as nanoseconds."""
    names = X.column_names if hasattr(X, "column_names") else getattr(X, "columns", ["0"])
    dtypes = X.schema.types if hasattr(X, "column_names") else getattr(X, "dtypes", [getattr(X, "dtype", "")])
    for name, dtype in zip(names, dtypes, strict=True):
        if str(dtype).lower().startswith(("date", "time", "duration")):
            raise DataError(f"column {str(name)!r} {NO_TIMES}")


def _with_advice(error: ValueError) -> str:
    text = str(error)
    if "could not convert string to float" in text:
        return f"{text}; text columns need family='mixed' or 'categorical'"
    return text


def _check_finite(M: Matrix, names: Sequence[str] | None, allow_nan: bool) -> None:
    cells = M.data[:, None] if sp.issparse(M) else M
    for start in range(0, cells.shape[0], BLOCK):
        block = cells[start : start + BLOCK]
        wrong = np.isinf(block) if allow_nan else ~np.isfinite(block)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            what = "NaN" if np.isnan(block[row, column]) else "infinity"
            where = "a stored cell" if sp.issparse(M) else f"column {_name(names, column)}, row {start + row}"
            cure = "drop or fill it, or use a family that marginalises missing cells (covariance='diag', 'mixed', ...)"
            raise DataError(
                f"X contains {what} in {where}: {cure if what == 'NaN' else 'remove it, or clip the column'}"
            )


def _name(names: Sequence[str] | None, column: int) -> str:
    return str(column) if names is None else repr(str(names[column]))


def weights_for(sample_weight: Any, X: Matrix) -> FloatArray | None:
    """(n,) float64 weights, or None when all rows count alike."""
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"sample_weight must hold one number for each row ({error})") from error
    if weight.ndim == 0:
        weight = np.full(X.shape[0], float(weight))
    if weight.shape != (X.shape[0],):
        raise DataError(f"sample_weight must have shape ({X.shape[0]},), one weight for each row, got {weight.shape}")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise DataError("sample_weight must be finite and non-negative")
    if not weight.any():
        raise DataError("sample_weight: all weights are zero")
    return weight


def check_count(name: str, value: Any, wanted: str = "a positive int", least: int = 1) -> None:
    """`ParameterError` unless value is an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ParameterError(f"{name} must be {wanted}, got {value!r}")


def check_amount(name: str, value: Any) -> None:
    """`ParameterError` unless value is a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < np.inf:
        raise ParameterError(f"{name} must be a finite number >= 0, got {value!r}")


@dataclass(frozen=True)
class Schema:
    """How the columns of a table become numbers.

    Parameters
    ----------
    kinds : tuple of str
        For each column, the family that reads it: one of ``KINDS``.
    levels : tuple of tuples
        For each categorical column its levels, in code order; empty for the others.
    """

    kinds: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]

    @classmethod
    def learn(cls, X: TableLike, kinds: Sequence[str] | str | None = None) -> Self:
        """Kinds from dtypes, unless `kinds` names them (one for all, or one for each column).

        Fractions are gaussian, truth values bernoulli, text and categories categorical; whole numbers are counts
        (poisson) when the smallest is 0 or 1, measurements (gaussian) otherwise.
        """
        columns = columns_of(X)
        if isinstance(kinds, str):
            kinds = [kinds] * len(columns)
        found = tuple(kinds) if kinds is not None else tuple(_kind(name, x) for name, x in columns)
        levels = tuple(_levels(x) if kind == "categorical" else () for kind, (_, x) in zip(found, columns, strict=True))
        return cls(found, levels)

    @property
    def n_levels(self) -> tuple[int, ...]:
        """Number of levels of each column; 0 where it is not categorical."""
        return tuple(len(levels) for levels in self.levels)

    def encode(self, X: TableLike) -> FloatArray:
        """(n, d) float64: numbers as they are, levels as codes, missing cells as NaN."""
        columns = columns_of(X)
        out = np.empty((len(columns[0][1]), len(columns)))
        for j, ((name, x), levels) in enumerate(zip(columns, self.levels, strict=True)):
            out[:, j] = _codes(name, x, levels) if levels else _numbers(name, x)
        return out


def columns_of(X: TableLike) -> list[tuple[str, Array]]:
    """Name and cells of each column of a pandas, polars or pyarrow table, or of a 2-D array."""
    if hasattr(X, "column_names") or hasattr(X, "columns"):
        names = list(X.column_names if hasattr(X, "column_names") else X.columns)
        if not names or not len(X[names[0]]):
            raise DataError(
                f"found an empty table of {len(names)} column(s); at least one row and one column are needed"
            )
        return [(str(name), _cells(X[name])) for name in names]
    if sp.issparse(X):
        raise DataError("sparse input has no mixed or categorical columns: use family='multinomial', or X.toarray()")
    cells = np.asarray(X)
    if cells.ndim != 2:
        raise DataError(f"expected a table with rows and columns, got an array of {cells.ndim} dimension(s)")
    if cells.size == 0:
        raise DataError(f"found an empty table of shape {cells.shape}; at least one row and one column are needed")
    return [(str(j), cells[:, j]) for j in range(cells.shape[1])]


def _cells(x: Any) -> Array:
    """Cells of a pandas or polars series or an Arrow column; where there are gaps, objects with None keep the kind."""
    if hasattr(x, "to_pylist"):
        return np.array(x.to_pylist(), object) if x.null_count and "float" not in str(x.type) else x.to_numpy()
    if isinstance(x.dtype, np.dtype):
        return np.asarray(x)
    if hasattr(x, "null_count"):
        return np.array(x.to_list(), object) if x.null_count() and not x.dtype.is_float() else np.asarray(x)
    return np.asarray(x.to_numpy(object, na_value=None))


def _missing(x: Array) -> Array:
    if x.dtype.kind == "f":
        return np.isnan(x)
    if x.dtype.kind != "O":
        return np.zeros(x.shape, bool)
    return np.array([cell is None or cell != cell for cell in x], bool)


def _kind(name: str, x: Array) -> str:
    present = x[~_missing(x)]
    if not present.size:
        return "gaussian"  # nothing is known of the column, and NaN cells are marginalised
    if x.dtype.kind == "O":
        if isinstance(present[0], TIMES):
            raise DataError(f"column {name!r} {NO_TIMES}")
        present = np.array(present.tolist())
    match present.dtype.kind:
        case "b":
            return "bernoulli"
        case "i" | "u":
            return "poisson" if looks_counted(present) else "gaussian"
        case "f":
            return "gaussian"
        case "M" | "m":
            raise DataError(f"column {name!r} {NO_TIMES}")
        case _:
            return "categorical"


def looks_counted(x: Array) -> bool:
    """Whether whole numbers are counts: those that begin at 0 or 1; ages, years and codes begin elsewhere."""
    return x.size > 0 and x.min() in (0, 1)


def _levels(x: Array) -> tuple[Any, ...]:
    present = x[~_missing(x)].tolist()
    try:
        return tuple(sorted(set(present)))
    except TypeError:
        return tuple(sorted({str(cell) for cell in present}))


def _codes(name: str, x: Array, levels: tuple[Any, ...]) -> FloatArray:
    code = {level: float(i) for i, level in enumerate(levels)}
    gone = _missing(x)
    as_text = bool(levels) and isinstance(levels[0], str)
    cells = [str(cell) if as_text else cell for cell in x.tolist()]
    out = np.array([np.nan if g else code.get(c, -1.0) for c, g in zip(cells, gone, strict=True)])
    if (out == -1).any():
        unseen = cells[int(np.flatnonzero(out == -1)[0])]
        warnings.warn(
            f"column {name!r} has levels not seen in fit (such as {unseen!r}): treated as missing",
            DataWarning,
            stacklevel=4,
        )
        out[out == -1] = np.nan
    return out


def _numbers(name: str, x: Array) -> FloatArray:
    try:
        if x.dtype.kind in "fiub":
            out = x.astype(np.float64)
        else:
            out = np.array([np.nan if gone else float(cell) for cell, gone in zip(x, _missing(x), strict=True)])
    except (TypeError, ValueError) as error:
        raise DataError(f"column {name!r} is not numeric ({error}): fit it as categorical, or leave it out") from error
    if np.isinf(out).any():
        raise DataError(f"X contains infinity in column {name!r}: remove it, or clip the column")
    return out
