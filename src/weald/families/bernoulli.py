"""Binary columns, Beta prior for each.

    x_j | k ~ Bernoulli(theta_kj),   theta_kj ~ Beta(alpha_j, beta_j),   alpha belongs to x = 1
    T = (x, 1),   eta = (log theta/(1 - theta), sum_j log(1 - theta_j))

The posterior is Beta(N1 + alpha, N0 + beta) and MAP is (N1 + alpha - 1)/(N + alpha + beta - 2); alpha = beta = 2, the
default, adds one to each count, and 1 is maximum likelihood. MAP needs alpha, beta >= 1; where it is undetermined
(1 and no data) it is the prior mean. Log probabilities are kept above log 1e-300, so that no score is NaN.
Cost of scores: n k (d + 1), also for `log_predictive`, which is Bernoulli again.

Reference: journal (66)-(75), with the arguments of Beta in (68) and (73) in the right order.

    >>> family = Bernoulli.from_data(np.array([[0.0], [1.0], [1.0]]))
    >>> S = family.sufficient(np.array([[0.0], [1.0], [1.0]])).sum(0, keepdims=True)
    >>> family.named(family.mode_eta(S))["probabilities"]
    array([[0.6]])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.special import betaln, digamma, expit, log_expit

from weald._typing import Array, FloatArray, Matrix
from weald.exceptions import ParameterError
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
from weald.families.dirichlet import log_gamma_draws, log_share
from weald.families.factorised import AbstractFactorised, Cells


@dataclass(frozen=True, eq=False)
class Bernoulli(AbstractFactorised):
    """Independent binary columns.

    Parameters
    ----------
    alpha, beta : ndarray of shape (d,)
        Beta prior of the probability of a one: `alpha` counts ones, `beta` zeros.
    missing : bool
        Wide layout, in which NaN cells are marginalised.
    """

    alpha: FloatArray
    beta: FloatArray
    missing: bool = False
    n_blocks: ClassVar[int] = 1
    accepts_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        d = field_array(self, "alpha", positive=True).size
        field_array(self, "beta", positive=True)
        same_length(self, d, "beta")

    @classmethod
    def from_data(cls, X: Matrix, n_components: int = 1, *, weight: FloatArray | None = None, **prior: Any) -> Self:
        """Default prior for X (n, d) of zeros and ones. Overrides: `alpha`, `beta`, numbers or (d,)."""
        X = csr(X) if sparse.issparse(X) else dense(X, missing=True)
        rows_needed(X)
        given = choose_prior({"alpha": 2.0, "beta": 2.0}, prior)
        alpha, beta = (spread(name, given[name], X.shape[1:]) for name in ("alpha", "beta"))
        return cls(alpha, beta, has_nan(X))

    @property
    def n_columns(self) -> int:
        """Columns of data: d."""
        return self.alpha.size

    def fill_cells(self, X: Array, out: Array) -> None:
        """X itself."""
        refuse_column(~((X == 0) | (X == 1) | np.isnan(X)), "holds values other than 0 and 1; binarise it first")
        out[:] = X

    def coordinates(self, X: Matrix) -> Matrix:
        """(n, d) -> (n, d): x, 1/2 for NaN."""
        if sparse.issparse(X):
            return csr(X, self.n_columns)
        X = dense(X, self.n_columns, missing=True)
        return np.where(np.isnan(X), 0.5, X)

    def cell_log_base(self, X: Array) -> FloatArray:
        """(m, d): zero."""
        return np.zeros(X.shape)

    def cell_log_marginal(self, t: Array, n: Array) -> FloatArray:
        """(..., d): ratio of Beta functions."""
        a, b = self._posterior(t, n)
        log_m: FloatArray = betaln(a, b) - betaln(self.alpha, self.beta)
        return log_m

    def log_predictive(self, S: Array, T: Matrix) -> FloatArray:
        """(k, p), (n, p) -> (n, k): Bernoulli with the posterior mean."""
        a, b = self._posterior(*self.cells(S))
        scores: FloatArray = T.astype(np.float64) @ self.pack(_cells(np.log(a / (a + b)), np.log(b / (a + b)))).T
        return scores

    def cell_mode(self, t: Array, n: Array) -> Cells:
        """(N1 + alpha - 1)/(N + alpha + beta - 2), the prior mean where that is 0/0."""
        if min(self.alpha.min(), self.beta.min()) < 1:
            raise ParameterError("the mode of a Bernoulli family needs alpha >= 1 and beta >= 1 (maximum likelihood)")
        a, b = self._posterior(t, n)
        total, prior = a + b - 2, self.alpha + self.beta
        return _cells(
            log_share(a - 1, total, self.alpha / prior),
            log_share(b - 1, total, self.beta / prior),
        )

    def cell_sample(self, t: Array, n: Array, rng: np.random.Generator) -> Cells:
        """Two Gamma draws, in logs."""
        log_a, log_b = (log_gamma_draws(shape, rng) for shape in self._posterior(t, n))
        return _cells(log_expit(log_a - log_b), log_expit(log_b - log_a))

    def cell_expected(self, t: Array, n: Array) -> Cells:
        """Digammas."""
        a, b = self._posterior(t, n)
        return _cells(digamma(a) - digamma(a + b), digamma(b) - digamma(a + b))

    def cell_log_partition(self, eta: Array) -> FloatArray:
        """-log(1 - theta)."""
        log_partition: FloatArray = -log_expit(-eta[..., 0, :])
        return log_partition

    def cell_log_prior(self, eta: Array) -> FloatArray:
        """Beta density of theta."""
        logit = eta[..., 0, :]
        ones, zeros = (self.alpha - 1) * log_expit(logit), (self.beta - 1) * log_expit(-logit)
        log_p: FloatArray = ones + zeros - betaln(self.alpha, self.beta)
        return log_p

    def sample_x(self, eta: Array, rng: np.random.Generator) -> FloatArray:
        """(n, p) -> (n, d): zeros and ones."""
        theta = expit(self.natural(eta)[..., 0, :])
        return np.asarray(rng.random(theta.shape) < theta, np.float64)

    def named(self, eta: Array) -> dict[str, Array]:
        """Probabilities (k, d) of a one."""
        return {"probabilities": expit(self.natural(eta)[..., 0, :])}

    def _posterior(self, t: Array, n: Array) -> tuple[FloatArray, FloatArray]:
        ones = t[..., 0, :]
        return ones + self.alpha, n - ones + self.beta


def _cells(log_theta: FloatArray, log_rest: FloatArray) -> Cells:
    return (log_theta - log_rest)[..., None, :], log_rest
