"""What every family asks of its data and its hyperparameters, in words that name the column or the parameter.

Data are checked where they enter (`sufficient`, `log_base`, `from_data`); hyperparameters where a family is made,
so that a model file with wrong shapes is refused too.

    >>> choose_prior({"kappa": 0.01}, {"kappa": 1.0})
    {'kappa': 1.0}
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from weald._typing import Array, FloatArray, Matrix
from weald.exceptions import DataError, ParameterError


def suggest(name: object, valid: Iterable[str]) -> str:
    """The valid names, with a guess at the one that was meant."""
    names = sorted(valid)
    close = difflib.get_close_matches(str(name), names, n=1)
    return f"valid: {', '.join(names) or 'none'}" + (f"; did you mean {close[0]!r}?" if close else "")


def choose_prior(defaults: Mapping[str, Any], prior: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults overridden by name; None keeps the default, an unknown name is a `ParameterError`."""
    for name in prior:
        if name not in defaults:
            raise ParameterError(f"unknown prior parameter {name!r}; {suggest(name, defaults)}")
    return {**defaults, **{name: value for name, value in prior.items() if value is not None}}


def spread(name: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """A scalar or array as a float64 array of the given shape."""
    try:
        return np.array(np.broadcast_to(np.asarray(value, np.float64), shape))
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{name} must be a number or an array of shape {shape}, got {value!r}") from error


def field_array(family: object, name: str, ndim: int = 1, *, positive: bool = False) -> FloatArray:
    """Field `name` made a finite float64 array of `ndim` axes; the frozen dataclass keeps the converted array."""
    try:
        value = np.ascontiguousarray(getattr(family, name), np.float64).reshape(np.shape(getattr(family, name)))
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{type(family).__name__}.{name} must be an array of numbers") from error
    if value.ndim != ndim or value.size == 0:
        raise ParameterError(f"{type(family).__name__}.{name} must have {ndim} axes and not be empty: {value.shape}")
    if not np.isfinite(value).all() or (positive and not (value > 0).all()):
        raise ParameterError(f"{type(family).__name__}.{name} must be finite{' and positive' if positive else ''}")
    object.__setattr__(family, name, value)
    return value


def same_length(family: object, length: int, *names: str) -> None:
    """`ParameterError` unless every axis of every named field has the given length."""
    for name in names:
        shape = np.shape(getattr(family, name))
        if any(axis != length for axis in shape):
            raise ParameterError(f"{type(family).__name__}.{name} has shape {shape}; every axis must be {length}")


def field_number(family: object, name: str, above: float = 0.0) -> None:
    """Field `name` made a finite float greater than `above`."""
    value = getattr(family, name)
    if np.ndim(value) != 0 or not np.isreal(value) or not np.isfinite(value) or not value > above:
        raise ParameterError(f"{type(family).__name__}.{name} must be a number above {above:g}, got {value!r}")
    object.__setattr__(family, name, float(value))


def whole_components(n_components: int) -> int:
    """The expected number of components, at least 1."""
    if not isinstance(n_components, int | np.integer) or n_components < 1:
        raise ParameterError(f"n_components must be an integer of at least 1, got {n_components!r}")
    return int(n_components)


def dense(X: Matrix, n_columns: int | None = None, *, missing: bool = False, advice: str = "") -> Array:
    """X as a dense (n, d) float array, finite but for NaN where `missing`; float32 and float64 stay what they are."""
    if sparse.issparse(X):
        raise DataError("this family reads dense data; pass X.toarray(), or use family='multinomial' for sparse counts")
    values: Array = np.asarray(X)
    if values.ndim != 2 or (n_columns is not None and values.shape[1] != n_columns):
        raise DataError(f"expected data of shape (n, {n_columns or 'd'}), got {values.shape}")
    if values.dtype not in (np.float32, np.float64):
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            kind = values.dtype
            raise DataError(f"data of type {kind} cannot be read as numbers; encode text columns first") from error
    finite = np.isfinite(values)
    if not finite.all():
        _refuse(values, ~finite if not missing else np.isinf(values), advice)
    return values


def _refuse(X: Array, bad: Array, advice: str) -> None:
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        kind = "NaN" if np.isnan(X[row, column]) else "infinity"
        raise DataError(f"column {column} holds {kind} (first in row {row})" + (f"; {advice}" if advice else ""))


def rows_needed(X: Array) -> None:
    """`DataError` unless X has at least one row and one column: no prior can be scaled to nothing."""
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise DataError(f"a family needs at least one row and one column to set its prior, got shape {X.shape}")


def refuse_column(bad: Array, what: str) -> None:
    """`DataError` that names the first column in which `bad` (n, d) is true."""
    if bad.any():
        raise DataError(f"column {int(np.flatnonzero(bad.any(0))[0])} {what}")


def csr(X: Matrix, n_columns: int | None = None) -> Matrix:
    """X as canonical float CSR; the caller's own matrix is left alone."""
    X = X.tocsr()
    if n_columns not in (None, X.shape[1]):
        raise DataError(f"expected data of shape (n, {n_columns}), got {X.shape}")
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def row_sums(indptr: Array, values: Array) -> FloatArray:
    """(n + 1,), (m, k) -> (n, k): sums of the values (m stored cells) of each CSR row."""
    m = values.shape[0]
    sums: FloatArray = sparse.csr_array((np.ones(m), np.arange(m), indptr), (indptr.size - 1, m)) @ values
    return sums


def has_nan(X: Matrix) -> bool:
    """Whether a cell is missing; CSR has none."""
    return not sparse.issparse(X) and bool(np.isnan(X).any())
