"""Columns of categories, Dirichlet prior for each.

    x_j | k ~ Categorical(p_kj), x_j in {0, .., L_j - 1},   p_kj ~ Dirichlet(a_j)
    T = (one-hot of x_1, .., one-hot of x_d, 1),   eta = (log p_k1, .., log p_kd, 0)

A NaN cell is a one-hot of zeros, which marginalises it exactly. Default: concentration 2 for every level (MAP adds one
to each count). Data are integer codes stored as floats; levels are counted from the data unless `n_levels` is given.
Cost of scores: n k V with V = sum_j L_j, also for `log_predictive`, which is categorical again.

Reference: journal (64)-(75) for more than two levels.

    >>> family = Categorical.from_data(np.array([[0.0, 1.0], [2.0, np.nan]]))
    >>> family.n_levels
    (3, 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from weald._typing import Array, FloatArray, IntArray, Matrix
from weald.exceptions import DataError, ParameterError
from weald.families.checks import choose_prior, dense, field_array, refuse_column, rows_needed, spread
from weald.families.dirichlet import AbstractDirichlet


@dataclass(frozen=True, eq=False)
class Categorical(AbstractDirichlet):
    """Independent categorical columns.

    Parameters
    ----------
    n_levels : tuple of int
        L_j: the number of levels of each column.
    concentration : ndarray of shape (sum of n_levels,)
        Dirichlet prior, column after column.
    """

    n_levels: tuple[int, ...]
    concentration: FloatArray
    accepts_missing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        levels = tuple(int(level) for level in self.n_levels)
        if not levels or min(levels) < 1 or levels != tuple(self.n_levels):
            raise ParameterError(f"n_levels must hold an integer of at least 1 for each column, got {self.n_levels!r}")
        object.__setattr__(self, "n_levels", levels)
        if field_array(self, "concentration", positive=True).size != sum(levels):
            raise ParameterError(f"concentration needs {sum(levels)} entries, one for each level of each column")

    @classmethod
    def from_data(
        cls,
        X: Matrix,
        n_components: int = 1,
        *,
        weight: FloatArray | None = None,
        n_levels: Sequence[int] | None = None,
        **prior: Any,
    ) -> Self:
        """Default prior for codes X (n, d). Overrides: `n_levels` (d,); `concentration`, a number or (V,)."""
        X = dense(X, missing=True)
        rows_needed(X)
        if n_levels is None:
            highest = np.nan_to_num(np.fmax.reduce(X, axis=0))
            n_levels = [max(int(code), 0) + 1 for code in highest]
        if len(n_levels) != X.shape[1]:
            raise ParameterError(f"n_levels has {len(n_levels)} entries for {X.shape[1]} columns")
        given = choose_prior({"concentration": 2.0}, prior)
        return cls(tuple(n_levels), spread("concentration", given["concentration"], (int(sum(n_levels)),)))

    @property
    def n_columns(self) -> int:
        """Columns of data: d."""
        return len(self.n_levels)

    @property
    def lengths(self) -> IntArray:
        """(d,): levels of each column."""
        return np.asarray(self.n_levels)

    def sufficient(self, X: Matrix) -> FloatArray:
        """(n, d) -> (n, V + 1): one-hot columns, zeros for NaN."""
        X = dense(X, self.n_columns, missing=True)
        present = ~np.isnan(X)
        refuse_column(present & ((X < 0) | (np.floor(X) != X)), "holds values that are no codes (0, 1, 2, ...)")
        over = np.flatnonzero((present & (self.lengths <= X)).any(0))
        if over.size:
            top = self.n_levels[over[0]] - 1
            raise DataError(f"column {over[0]} holds the code {np.nanmax(X[:, over[0]]):g}; its levels are 0 to {top}")
        T = np.zeros((X.shape[0], self.width), X.dtype)
        row, column = np.nonzero(present)
        T[row, (np.cumsum(self.lengths) - self.lengths)[column] + X[row, column].astype(np.intp)] = 1
        T[:, -1] = 1
        return T

    def coordinates(self, X: Matrix) -> FloatArray:
        """(n, d) -> (n, V): indicators, zeros for NaN."""
        return self.sufficient(X)[:, :-1].astype(np.float64)

    def log_base(self, X: Matrix) -> FloatArray:
        """(n,): zero."""
        return np.zeros(X.shape[0])

    def log_predictive(self, S: Array, T: Matrix) -> FloatArray:
        """(k, p), (n, p) -> (n, k): categorical with the posterior mean."""
        a = self.concentration + S[:, :-1]
        log_p = np.log(a / np.repeat(self.segment_sums(a), self.lengths, axis=-1))
        scores: FloatArray = np.asarray(T[:, :-1], np.float64) @ log_p.T
        return scores

    def sample_x(self, eta: Array, rng: np.random.Generator) -> FloatArray:
        """(n, p) -> (n, d): codes, by the largest of log p plus Gumbel noise."""
        noisy = eta[:, :-1] + rng.gumbel(size=eta[:, :-1].shape)
        ends = np.cumsum(self.lengths)
        codes = [noisy[:, b - length : b].argmax(1) for b, length in zip(ends, self.lengths, strict=True)]
        return np.stack(codes, axis=1).astype(np.float64)
