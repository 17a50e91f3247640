"""Rows of counts over V columns (bags of words), Dirichlet prior.

    x | k, N ~ Multinomial(N, p_k),   p_k ~ Dirichlet(a)
    T = (x, 1),   eta = (log p, 0),   log h = log N! - sum_v log x_v!

Sparse data stay sparse: T is CSR when X is, and its product with eta.T costs nnz k. The predictive is
Dirichlet-multinomial; it differs from the prior's only in the columns a row uses, so it costs nnz k as well. Default:
concentration 1.1 for every column (MAP adds 0.1 to each count). `sample_x` draws rows of `n_trials` counts, the mean
total of the data unless told otherwise.

Reference: journal (69)-(73), class-conditional word probabilities.

    >>> family = Multinomial.from_data(np.array([[2.0, 1.0], [0.0, 3.0]]))
    >>> family.n_trials
    3
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from weald._typing import Array, FloatArray, IntArray, Matrix
from weald.exceptions import DataError, ParameterError
from weald.families.base import PREDICTIVE_TILE
from weald.families.checks import choose_prior, csr, dense, field_array, row_sums, rows_needed, spread
from weald.families.dirichlet import AbstractDirichlet


@dataclass(frozen=True, eq=False)
class Multinomial(AbstractDirichlet):
    """Counts that share one probability vector.

    Parameters
    ----------
    concentration : ndarray of shape (V,)
        Dirichlet prior.
    n_trials : int
        Total of a row drawn by `sample_x`.
    """

    concentration: FloatArray
    n_trials: int
    accepts_missing: ClassVar[bool] = False
    accepts_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        field_array(self, "concentration", positive=True)
        if not isinstance(self.n_trials, int | np.integer) or self.n_trials < 0:
            raise ParameterError(f"n_trials must be a non-negative integer, got {self.n_trials!r}")

    @classmethod
    def from_data(cls, X: Matrix, n_components: int = 1, *, weight: FloatArray | None = None, **prior: Any) -> Self:
        """Default prior for counts X (n, V), dense or CSR. Overrides: `concentration`, a number or (V,); `n_trials`."""
        X = _counts(X, None)
        rows_needed(X)
        defaults = {"concentration": 1.1, "n_trials": round(float(X.sum(dtype=np.float64)) / X.shape[0])}
        given = choose_prior(defaults, prior)
        return cls(spread("concentration", given["concentration"], X.shape[1:]), given["n_trials"])

    @property
    def n_columns(self) -> int:
        """Columns of data: V."""
        return self.concentration.size

    @property
    def lengths(self) -> IntArray:
        """One segment of V entries."""
        return np.array([self.concentration.size])

    def sufficient(self, X: Matrix) -> Matrix:
        """(n, V) -> (n, V + 1): the counts and 1; CSR stays CSR."""
        X = _counts(X, self.n_columns)
        ones = np.ones((X.shape[0], 1), X.dtype)
        return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])

    def coordinates(self, X: Matrix) -> Matrix:
        """(n, V) -> (n, V): square roots of relative frequencies; CSR stays CSR."""
        X = _counts(X, self.n_columns)
        total = np.maximum(np.asarray(X.sum(1, dtype=np.float64)).ravel(), 1.0)
        if not sparse.issparse(X):
            return np.sqrt(X / total[:, None])
        return sparse.csr_array((np.sqrt(X.data / np.repeat(total, np.diff(X.indptr))), X.indices, X.indptr), X.shape)

    def log_base(self, X: Matrix) -> FloatArray:
        """(n,): log of the multinomial coefficient."""
        X = _counts(X, self.n_columns)
        total = np.asarray(X.sum(1, dtype=np.float64)).ravel()
        if sparse.issparse(X):
            logs = row_sums(X.indptr, gammaln(X.data[:, None].astype(np.float64) + 1))
        else:
            logs = gammaln(X.astype(np.float64) + 1).sum(1)
        log_h: FloatArray = gammaln(total + 1) - np.asarray(logs).ravel()
        return log_h

    def log_predictive(self, S: Array, T: Matrix) -> FloatArray:
        """(k, p), (n, p) -> (n, k): Dirichlet-multinomial, from the non-zero counts only."""
        a = np.ascontiguousarray((self.concentration + S[:, :-1]).T)
        total = a.sum(0)
        counts = sparse.csr_array(T)[:, :-1]
        out: FloatArray = gammaln(total) - gammaln(total + np.asarray(counts.sum(1)).reshape(-1, 1))
        step = max(1, PREDICTIVE_TILE * counts.shape[0] // max(1, counts.nnz * S.shape[0]))
        for first in range(0, counts.shape[0], step):
            tile = counts[first : first + step]
            out[first : first + step] += row_sums(tile.indptr, _rising(a[tile.indices], tile.data))
        return out

    def sample_x(self, eta: Array, rng: np.random.Generator) -> FloatArray:
        """(n, p) -> (n, V): dense rows of `n_trials` counts."""
        return rng.multinomial(self.n_trials, np.exp(self.normalised(eta[:, :-1]))).astype(np.float64)


def _rising(a: Array, counts: Array) -> FloatArray:
    """(m, k), (m,) -> (m, k): log Gamma(a + c) - log Gamma(a); most counts in text are 1, where it is log a."""
    log_ratio: FloatArray = np.log(a)
    many = np.flatnonzero(counts != 1)
    log_ratio[many] = gammaln(a[many] + counts[many, None]) - gammaln(a[many])
    return log_ratio


def _counts(X: Matrix, n_columns: int | None) -> Matrix:
    """X as float counts, dense or canonical CSR; anything else is a `DataError` that names the column."""
    if not sparse.issparse(X):
        X = dense(X, n_columns, advice="counts cannot be missing: fill them with 0 or drop the row")
        bad = np.flatnonzero(((X < 0) | (np.floor(X) != X)).any(0))
    else:
        X = csr(X, n_columns)
        bad = np.sort(X.indices[~((X.data >= 0) & (X.data == np.floor(X.data)) & np.isfinite(X.data))])
    if bad.size:
        raise DataError(f"column {bad[0]} holds values that are no counts (0, 1, 2, ...)")
    return X
