"""Columns independent given the component: the layout and the sums over columns, written once.

    p(x | eta) = prod_j h(x_j) exp{ sum_b t_b(x_j) eta_bj - A(eta_.j) },    b = 1..r blocks, j = 1..d columns

Narrow layout (no NaN), one matrix product of width rd + 1:
    T = (t_1(x), .., t_r(x), 1)              eta = (eta_1, .., eta_r, -sum_j A_j)
Wide layout (`missing=True`), in which a NaN cell drops out of the product, its exact marginal:
    T = (m t_1(x), .., m t_r(x), m, 1)       eta = (eta_1, .., eta_r, -A_1, .., -A_d, 0)    m_j = 1[x_j observed]
S then counts the observed cells of each column. `from_data` picks the wide layout when X has NaN; a model fitted in the
narrow one scores rows with NaN through `with_missing` and `widen_eta`. Averaged eta (VB) have no column-wise log
partition: there, `with_missing().expected_eta(widen_S(S))` is exact, while `widen_eta` keeps the scores of complete
rows and puts the difference into the last entry.

Cost: n r d to build T, n k (rd + 1) to score. Reference: journal (64)-(75), naive Bayes.

A concrete family writes only the scalar conjugate mathematics: the `cell_*` methods, on statistics t (..., r, d) with
counts n (..., d).

    >>> family = DiagonalGaussian.from_data(X)          # doctest: +SKIP
    >>> wide, eta_w = family.with_missing(), family.widen_eta(eta)      # doctest: +SKIP
    >>> scores = wide.sufficient(X_nan) @ eta_w.T       # doctest: +SKIP
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from weald._typing import Array, FloatArray, Matrix
from weald.families.base import PREDICTIVE_TILE, AbstractFamily
from weald.families.checks import csr, dense, row_sums

Cells = tuple[FloatArray, FloatArray]  # natural parameters (..., r, d) and negative log partitions (..., d)
NO_NAN = "the family was set up without missing cells: pass it through with_missing()"


class AbstractFactorised(AbstractFamily):
    """Layout and sums of a family whose columns are independent; `missing` chooses the wide layout."""

    accepts_missing: ClassVar[bool] = True
    n_blocks: ClassVar[int]
    """r: statistics per cell."""
    missing: bool

    @abstractmethod
    def fill_cells(self, X: Array, out: Array) -> None:
        """Write t(x) of X (m, d) into out (m, r d), NaN where x is NaN; `DataError` for a value outside the support."""

    @abstractmethod
    def cell_log_base(self, X: Array) -> FloatArray:
        """(m, d) -> (m, d): log h(x) of each cell."""

    @abstractmethod
    def cell_log_marginal(self, t: Array, n: Array) -> FloatArray:
        """(..., r, d), (..., d) -> (..., d): log evidence of each column."""

    @abstractmethod
    def cell_mode(self, t: Array, n: Array) -> Cells:
        """The mode of the posterior of each column."""

    @abstractmethod
    def cell_sample(self, t: Array, n: Array, rng: np.random.Generator) -> Cells:
        """One draw from the posterior of each column."""

    @abstractmethod
    def cell_expected(self, t: Array, n: Array) -> Cells:
        """Expectations under the posterior of each column."""

    @abstractmethod
    def cell_log_partition(self, eta: Array) -> FloatArray:
        """(..., r, d) -> (..., d): A of natural parameters."""

    @abstractmethod
    def cell_log_prior(self, eta: Array) -> FloatArray:
        """(..., r, d) -> (..., d): log prior density at natural parameters."""

    @property
    def width(self) -> int:
        """Columns of T: rd + 1, or (r + 1)d + 1 in the wide layout."""
        return (self.n_blocks + self.missing) * self.n_columns + 1

    @property
    def n_parameters(self) -> int:
        """Free parameters of one component: r for each column."""
        return self.n_blocks * self.n_columns

    @property
    def n_shared_parameters(self) -> int:
        """Components share nothing."""
        return 0

    def with_missing(self) -> Self:
        """The same family in the wide layout."""
        return self if self.missing else replace(self, missing=True)  # type: ignore[type-var]

    def widen_eta(self, eta: Array) -> FloatArray:
        """(k, p) -> (k, p'): eta in the wide layout; complete rows keep their scores."""
        if self.missing:
            return eta
        log_partition = self.cell_log_partition(self.natural(eta))
        rest = eta[..., -1:] + log_partition.sum(-1, keepdims=True)
        return np.concatenate([eta[..., :-1], -log_partition, rest], axis=-1)

    def widen_S(self, S: Array) -> FloatArray:
        """(..., p) -> (..., p'): statistics of complete rows in the wide layout."""
        if self.missing:
            return S
        n = np.broadcast_to(S[..., -1:], (*S.shape[:-1], self.n_columns))
        return np.concatenate([S[..., :-1], n, S[..., -1:]], axis=-1)

    def sufficient(self, X: Matrix) -> Matrix:
        """(n, d) -> (n, p): T in the dtype of X; CSR stays CSR where t(x) = x."""
        if sparse.issparse(X):
            return self._sparse_sufficient(X)
        X = dense(X, self.n_columns, missing=self.missing, advice=NO_NAN)
        T = np.ones((X.shape[0], self.width), X.dtype)
        end = self.n_blocks * self.n_columns
        self.fill_cells(X, T[:, :end])
        if self.missing:
            T[:, end:-1] = ~np.isnan(X)
            np.copyto(T[:, :end], 0.0, where=np.isnan(T[:, :end]))
        return T

    def _sparse_sufficient(self, X: Matrix) -> Matrix:
        """CSR stays CSR where t(x) = x: one block, no missing cells."""
        if not self.accepts_sparse or self.missing:
            dense(X)
        X = csr(X, self.n_columns)
        self.fill_cells(X.data[:, None], np.empty((X.nnz, 1), X.dtype))
        return sparse.hstack([X, np.ones((X.shape[0], 1), X.dtype)], format="csr")

    def log_base(self, X: Matrix) -> FloatArray:
        """(n, d) -> (n,): the sum of log h over the observed cells."""
        if sparse.issparse(X):  # families that read CSR have h(0) = 1
            X = csr(X, self.n_columns)
            return row_sums(X.indptr, self.cell_log_base(X.data[:, None]))[:, 0]
        X = dense(X, self.n_columns, missing=self.missing, advice=NO_NAN)
        cells = self.cell_log_base(X)
        log_h: FloatArray = (np.where(np.isnan(X), 0.0, cells) if self.missing else cells).sum(1)
        return log_h

    def log_marginal(self, S: Array) -> FloatArray:
        """(..., p) -> (...): log evidence."""
        log_m: FloatArray = self.cell_log_marginal(*self.cells(S)).sum(-1)
        return log_m

    def log_evidence(self, S: Array) -> float:
        """(k, p) -> float: the sum of `log_marginal`."""
        return float(self.log_marginal(S).sum())

    def mode_eta(self, S: Array) -> FloatArray:
        """(k, p) -> (k, p): modes."""
        return self.pack(self.cell_mode(*self.cells(S)))

    def sample_eta(self, S: Array, rng: np.random.Generator) -> FloatArray:
        """(k, p) -> (k, p): draws."""
        return self.pack(self.cell_sample(*self.cells(S), rng))

    def expected_eta(self, S: Array) -> FloatArray:
        """(k, p) -> (k, p): expectations."""
        return self.pack(self.cell_expected(*self.cells(S)))

    def log_prior(self, eta: Array) -> float:
        """(k, p) -> float: log prior density."""
        return float(self.cell_log_prior(self.natural(eta)).sum())

    def cells(self, S: Array) -> Cells:
        """(..., p) -> (..., r, d), (..., d): statistics and counts of each column."""
        end = self.n_blocks * self.n_columns
        shape = (*S.shape[:-1], self.n_columns)
        n = S[..., end:-1] if self.missing else np.broadcast_to(S[..., -1:], shape)
        return self.natural(S), n

    def natural(self, eta: Array) -> FloatArray:
        """(..., p) -> (..., r, d): the natural parameters (or statistics) of each column."""
        end = self.n_blocks * self.n_columns
        return eta[..., :end].reshape(*eta.shape[:-1], self.n_blocks, self.n_columns)

    def pack(self, cells: Cells) -> FloatArray:
        """(..., r, d), (..., d) -> (..., p): eta in the layout of the family."""
        eta, minus_A = cells
        flat = eta.reshape(*eta.shape[:-2], -1)
        if not self.missing:
            return np.concatenate([flat, minus_A.sum(-1, keepdims=True)], axis=-1)
        return np.concatenate([flat, minus_A, np.zeros_like(minus_A[..., :1])], axis=-1)

    def sum_cells(self, score: Callable[[Array], Any], k: int, T: Matrix) -> FloatArray:
        """(n, k): scores of shape (m, k, d) of the first statistic (m, 1, d), summed over observed cells in tiles."""
        d, end = self.n_columns, self.n_blocks * self.n_columns
        out = np.empty((T.shape[0], k))
        step = max(1, PREDICTIVE_TILE // (k * d))
        for a in range(0, T.shape[0], step):
            tile = T[a : a + step]
            tile = np.asarray(tile.toarray() if sparse.issparse(tile) else tile, np.float64)
            cells = score(tile[:, None, :d])
            out[a : a + step] = np.einsum("nkd,nd->nk", cells, tile[:, end:-1]) if self.missing else cells.sum(-1)
        return out
