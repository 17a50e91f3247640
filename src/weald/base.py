"""The scikit-learn face shared by every estimator that reads a table through a family.

`__init__` stores; `fit` validates, runs, and leaves names that end in ``_``. What is validated how follows from the
family alone: NaN where it can be marginalised, CSR where statistics stay sparse, text where columns have levels.
"""

from __future__ import annotations

import hashlib
from abc import ABC
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from weald._typing import FloatArray, Matrix, Params, TableLike
from weald._validate import Schema, check_count, numeric_matrix, table_from
from weald.engine import Threads
from weald.exceptions import DataError, ParameterError
from weald.families import family_class, family_from_name
from weald.families.base import AbstractFamily

CODED = ("categorical", "mixed")  # families that read tables with text, levels and booleans


class AbstractTableEstimator(BaseEstimator, ABC):
    """Reads tables for a family."""

    family: str | AbstractFamily
    covariance: str
    prior: Any
    n_jobs: int | None
    n_features_in_: int
    _schema: Schema | None
    score_samples: Callable[[TableLike], FloatArray]

    def score(self, X: TableLike, y: Any = None) -> float:
        """Mean of `score_samples`: larger is better.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows to score.
        y : ignored
            Present for scikit-learn.

        Returns
        -------
        float
        """
        return float(np.mean(self.score_samples(X)))

    def _engine(self) -> Threads:
        return engine_for(self.n_jobs)

    def _read(self, X: TableLike, *, reset: bool) -> Matrix:
        """The validated matrix of X; learns names and levels when `reset`."""
        X = table_from(X)
        if self.family in CODED:
            try:
                validate_data(self, X, reset=reset, skip_check_array=True)
            except ValueError as error:
                raise DataError(str(error)) from error
            if reset:
                self._schema = Schema.learn(X, "categorical" if self.family == "categorical" else None)
            assert self._schema is not None  # set by the fit that came before
            return self._schema.encode(X)
        if reset:
            self._schema = None
        family = self._reads()
        return numeric_matrix(self, X, reset=reset, allow_nan=family.accepts_missing, sparse=family.accepts_sparse)

    def _make_family(self, X: Matrix, n_components: int, weight: FloatArray | None = None) -> AbstractFamily:
        if isinstance(self.family, AbstractFamily):
            if self.family.n_columns != X.shape[1]:
                raise ParameterError(f"the family reads {self.family.n_columns} columns, X has {X.shape[1]}")
            return self.family
        options: dict[str, Any] = dict(self._family_options())
        if self._schema is not None:
            options["n_levels"] = [n for n in self._schema.n_levels if n]
            if self.family == "mixed":
                options["kinds"] = self._schema.kinds
        if weight is not None:
            X, weight = X[weight > 0], weight[weight > 0]
        return family_from_name(self.family, self.covariance, X, n_components, weight=weight, **options)

    def _family_options(self) -> Params:
        """Hyperparameters of the family by name, where the user gave some."""
        name = "family_prior" if hasattr(self, "family_prior") else "prior"  # where `prior` is that of the partition
        given = getattr(self, name)
        if given is not None and not isinstance(given, Mapping):
            raise ParameterError(f"{name} must be a mapping of hyperparameters by name, or None, got {given!r}")
        return given or {}

    def _reads(self) -> AbstractFamily | type[AbstractFamily]:
        """What says whether NaN and CSR are welcome."""
        if isinstance(self.family, AbstractFamily):
            return self.family
        return family_class(self.family, self.covariance)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        with suppress(ParameterError):  # a wrong name can still be shown; fit refuses it
            family = self._reads()
            tags.input_tags.allow_nan, tags.input_tags.sparse = family.accepts_missing, family.accepts_sparse
        return tags


def engine_for(n_jobs: int | None) -> Threads:
    """So many threads, or all cores."""
    if n_jobs is None or n_jobs == -1:
        return Threads()
    check_count("n_jobs", n_jobs, "None, -1 (all cores) or a positive int")
    return Threads(int(n_jobs))


def fingerprint_of(estimator: BaseEstimator, **data: Any) -> str:
    """A digest of what the draws of a fit depend on: data, and every parameter but threads and seed."""
    params = estimator.get_params(deep=False)
    return fingerprint(data=data, **{name: x for name, x in params.items() if name not in ("n_jobs", "random_state")})


def fingerprint(**parts: Any) -> str:
    """A digest of named parameters and data, every byte of every array included."""
    digest = hashlib.blake2b(digest_size=16)
    _absorb(parts, digest.update)
    return digest.hexdigest()


def _absorb(value: Any, update: Callable[[Any], None]) -> None:
    if sp.issparse(value):
        value = {"shape": value.shape, "data": value.data, "indices": value.indices, "indptr": value.indptr}
    elif is_dataclass(value) and not isinstance(value, type):
        value = {"": type(value).__qualname__, **{f.name: getattr(value, f.name) for f in fields(value)}}
    if isinstance(value, np.ndarray) and value.dtype != object:
        update(f"{value.dtype.str}{value.shape}".encode())
        update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    elif isinstance(value, Mapping):
        for name in sorted(value, key=str):
            update(f"{name}=".encode())
            _absorb(value[name], update)
    elif isinstance(value, list | tuple | np.ndarray):
        update(f"[{len(value)}]".encode())
        for item in value:
            _absorb(item, update)
    else:
        update(f"{value!r};".encode())
