"""Counts in independent columns, Gamma prior for each rate.

    x_j | k ~ Poisson(lambda_kj),   lambda_kj ~ Gamma(shape_j, rate_j)
    T = (x, 1),   eta = (log lambda, -sum_j lambda_j),   log h = -sum_j log x_j!

Default: shape = 2 and rate = shape / column mean, so that the prior is centred on the data and worth two events
(rate = shape for a column of zeros). Counts have no unit to remove, but they have an exposure: rows must have been
observed for equally long. The posterior is Gamma(shape + S, rate + n), MAP (shape + S - 1)/(rate + n) for shape >= 1,
the predictive negative binomial. Cost of scores: n k (d + 1).

Reference: Gelman et al., Bayesian Data Analysis (2013), section 2.6.

    >>> family = Poisson.from_data(np.array([[1.0], [3.0]]))
    >>> S = family.sufficient(np.array([[1.0], [3.0]])).sum(0, keepdims=True)
    >>> family.named(family.mode_eta(S))["rates"].round(3)
    array([[1.667]])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.special import digamma, gammaln

from weald._typing import Array, FloatArray, Matrix
from weald.exceptions import DataError, ParameterError
from weald.families.checks import (
    choose_prior,
    csr,
    dense,
    field_array,
    has_nan,
    refuse_column,
    rows_needed,
    same_length,
    spread,
)
from weald.families.dirichlet import LEAST, log_gamma_draws
from weald.families.factorised import AbstractFactorised, Cells
from weald.families.standardise import location_scale

NO_COUNTS = "holds values that are no counts (0, 1, 2, ...)"


@dataclass(frozen=True, eq=False)
class Poisson(AbstractFactorised):
    """Independent counts.

    Parameters
    ----------
    shape, rate : ndarray of shape (d,)
        Gamma prior of the rates: `shape` counts events, `rate` rows.
    missing : bool
        Wide layout, in which NaN cells are marginalised.
    """

    shape: FloatArray
    rate: FloatArray
    missing: bool = False
    n_blocks: ClassVar[int] = 1
    accepts_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        d = field_array(self, "shape", positive=True).size
        field_array(self, "rate", positive=True)
        same_length(self, d, "rate")

    @classmethod
    def from_data(cls, X: Matrix, n_components: int = 1, *, weight: FloatArray | None = None, **prior: Any) -> Self:
        """Default prior for X (n, d) of counts. Overrides: `shape`, `rate`, numbers or (d,)."""
        X = csr(X) if sparse.issparse(X) else dense(X, missing=True)
        rows_needed(X)
        given = choose_prior({"shape": 2.0, "rate": None}, prior)
        shape = spread("shape", given["shape"], X.shape[1:])
        mean = _column_means(X, weight)
        default = shape / np.where(mean > 0, mean, 1.0)
        rate = default if given["rate"] is None else spread("rate", given["rate"], mean.shape)
        return cls(shape, rate, has_nan(X))

    @property
    def n_columns(self) -> int:
        """Columns of data: d."""
        return self.shape.size

    def fill_cells(self, X: Array, out: Array) -> None:
        """X itself."""
        refuse_column((X < 0) | (np.floor(X) != X) & ~np.isnan(X), NO_COUNTS)
        out[:] = X

    def coordinates(self, X: Matrix) -> Matrix:
        """(n, d) -> (n, d): square roots, which have equal variances; of the prior mean for NaN."""
        if sparse.issparse(X):
            X = csr(X, self.n_columns)
            if (below := X.indices[X.data < 0]).size:
                raise DataError(f"column {below.min()} {NO_COUNTS}")
            return np.sqrt(X)
        X = dense(X, self.n_columns, missing=True)
        refuse_column(X < 0, NO_COUNTS)
        return np.sqrt(np.where(np.isnan(X), self.shape / self.rate, X))

    def cell_log_base(self, X: Array) -> FloatArray:
        """(m, d): -log x!."""
        log_h: FloatArray = -gammaln(X.astype(np.float64) + 1)
        return log_h

    def cell_log_marginal(self, t: Array, n: Array) -> FloatArray:
        """(..., d): ratio of Gamma normalisers."""
        return _log_normaliser(*self._posterior(t, n)) - _log_normaliser(self.shape, self.rate)

    def log_predictive(self, S: Array, T: Matrix) -> FloatArray:
        """(k, p), (n, p) -> (n, k): negative binomial in each column."""
        a, b = self._posterior(*self.cells(S))
        log_never = a * (np.log(b) - np.log1p(b)) - gammaln(a)
        log_odds = np.log1p(b)
        return self.sum_cells(lambda x: gammaln(a + x) - x * log_odds + log_never, S.shape[0], T)

    def cell_mode(self, t: Array, n: Array) -> Cells:
        """(shape + S - 1)/(rate + n)."""
        if self.shape.min() < 1:
            raise ParameterError("the mode of a Poisson family needs shape >= 1")
        a, b = self._posterior(t, n)
        return _cells(np.maximum((a - 1) / b, LEAST))

    def cell_sample(self, t: Array, n: Array, rng: np.random.Generator) -> Cells:
        """One Gamma draw, in logs."""
        a, b = self._posterior(t, n)
        log_rate = log_gamma_draws(a, rng) - np.log(b)
        return log_rate[..., None, :], -np.exp(log_rate)

    def cell_expected(self, t: Array, n: Array) -> Cells:
        """Digamma and mean."""
        a, b = self._posterior(t, n)
        return (digamma(a) - np.log(b))[..., None, :], -a / b

    def cell_log_partition(self, eta: Array) -> FloatArray:
        """Lambda itself."""
        log_partition: FloatArray = np.exp(eta[..., 0, :])
        return log_partition

    def cell_log_prior(self, eta: Array) -> FloatArray:
        """Gamma density of lambda."""
        log_rate = eta[..., 0, :]
        log_p: FloatArray = (self.shape - 1) * log_rate - self.rate * np.exp(log_rate)
        return log_p - _log_normaliser(self.shape, self.rate)

    def sample_x(self, eta: Array, rng: np.random.Generator) -> FloatArray:
        """(n, p) -> (n, d): counts."""
        return rng.poisson(np.exp(self.natural(eta)[..., 0, :])).astype(np.float64)

    def named(self, eta: Array) -> dict[str, Array]:
        """Rates (k, d)."""
        return {"rates": np.exp(self.natural(eta)[..., 0, :])}

    def _posterior(self, t: Array, n: Array) -> tuple[FloatArray, FloatArray]:
        return t[..., 0, :] + self.shape, n + self.rate


def _log_normaliser(shape: FloatArray, rate: FloatArray) -> FloatArray:
    log_norm: FloatArray = gammaln(shape) - shape * np.log(rate)
    return log_norm


def _cells(rate: FloatArray) -> Cells:
    return np.log(rate)[..., None, :], -rate


def _column_means(X: Matrix, weight: FloatArray | None) -> FloatArray:
    """(n, d) -> (d,): mean of each column, NaN ignored."""
    if not sparse.issparse(X):
        return location_scale(X, weight)[0]
    ones = np.ones(X.shape[0]) if weight is None else weight
    means: FloatArray = (ones @ X) / ones.sum()
    return means
