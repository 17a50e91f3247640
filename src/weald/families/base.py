"""Contract A: a likelihood with its conjugate prior, seen by every algorithm as arrays.

    p(x | eta) = h(x) exp <T(x), eta~>,     T(x) = (t(x), 1),  eta~ = (eta, -A(eta))

`T` has one row for each row of data and its last column is 1; `eta` has one row for each component and its last
entry is the negative log partition. Scores of all rows under all components are then one matrix product
``T @ eta.T``, and sufficient statistics ``S = R.T @ T`` (the last entry of S is a count) add over rows, blocks and
machines. EM, SEM, Gibbs and VB differ only in which of `mode_eta`, `sample_eta`, `expected_eta` turns S into eta.

Families centre and scale data inside `sufficient`, so that priors are free of units, huge offsets do not cancel and
float32 suffices; `log_base` carries the Jacobian and `named` returns to the units of the data. `S` never contains
the prior: every method adds its own.

Conjugacy gives the KL divergence of the conjugate posterior q(eta | S) from the prior for free,
    KL = <S, E_q[eta~]> - log_marginal(S),
which is all that a variational bound needs (journal (141)). Components that share parameters (a tied covariance) are
updated together: the same identity then holds for the sum over rows of S and `log_evidence`.

To add a family: one file with one frozen dataclass that meets `AbstractFamily`, one line in
`weald.families.FAMILIES`, one line in the table of `tests/families/test_identities.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from weald._typing import Array, FloatArray, Matrix
from weald.exceptions import DataError

PREDICTIVE_TILE = 2**21  # entries of the (rows, components, width) work array of `predictive_from_evidence`


class AbstractFamily(ABC):
    """One exponential family with its conjugate prior; concrete ones are frozen dataclasses.

    `log_prior`, `sample_x` and `named` read natural parameters only, never the last entry of eta: a product of
    families keeps the sum of the log partitions there.
    """

    accepts_missing: ClassVar[bool]
    """Whether NaN cells can be marginalised (in the layout that `with_missing` returns)."""
    accepts_sparse: ClassVar[bool] = False
    """Whether CSR data stay CSR; other families refuse them."""

    @classmethod
    @abstractmethod
    def from_data(cls, X: Matrix, n_components: int = 1, *, weight: FloatArray | None = None, **prior: Any) -> Self:
        """The family with its documented default prior for data X of shape (n, d).

        `n_components` is the expected number of components (a scale for the prior, not a limit); `weight` (n,) are
        positive weights of the rows;
        `prior` overrides hyperparameters by name.
        """

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """d: how many columns of data the family reads."""

    @property
    @abstractmethod
    def width(self) -> int:
        """p: the number of columns of T."""

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Free parameters of one component, for AIC and BIC."""

    @property
    @abstractmethod
    def n_shared_parameters(self) -> int:
        """Free parameters that all components share (a tied covariance), counted once for AIC and BIC."""

    @abstractmethod
    def with_missing(self) -> Self:
        """The same family in the layout that marginalises NaN cells; itself where there is but one layout."""

    @abstractmethod
    def widen_eta(self, eta: Array) -> FloatArray:
        """(k, p) -> (k, p'): eta in the layout of `with_missing`; complete rows keep their scores."""

    @abstractmethod
    def widen_S(self, S: Array) -> FloatArray:
        """(..., p) -> (..., p'): statistics of complete rows in the layout of `with_missing`."""

    @abstractmethod
    def sufficient(self, X: Matrix) -> Matrix:
        """(n, d) -> (n, p): T in the dtype of X (CSR stays CSR where the family is sparse); last column 1."""

    @abstractmethod
    def coordinates(self, X: Matrix) -> Matrix:
        """(n, d) -> (n, c): rows as points whose Euclidean distances make sense, for k-means++ starts; no NaN."""

    @abstractmethod
    def log_base(self, X: Matrix) -> FloatArray:
        """(n, d) -> (n,): log h(x), in the units of the data."""

    @abstractmethod
    def log_marginal(self, S: Array) -> FloatArray:
        """(..., p) -> (...): log evidence of statistics S under the prior, without log h."""

    @abstractmethod
    def log_evidence(self, S: Array) -> float:
        """(k, p) -> float: joint log evidence; the sum of `log_marginal` unless components share parameters."""

    @abstractmethod
    def log_predictive(self, S: Array, T: Matrix) -> FloatArray:
        """(k, p), (n, p) -> (n, k): log p(x | S) without log h, parameters integrated out."""

    @abstractmethod
    def mode_eta(self, S: Array) -> FloatArray:
        """(k, p) -> (k, p): argmax over eta of <S, eta~> + log_prior(eta)."""

    @abstractmethod
    def sample_eta(self, S: Array, rng: np.random.Generator) -> FloatArray:
        """(k, p) -> (k, p): one draw from the conjugate posterior of each component."""

    @abstractmethod
    def expected_eta(self, S: Array) -> FloatArray:
        """(k, p) -> (k, p): E[eta~] under the conjugate posterior of each component."""

    @abstractmethod
    def log_prior(self, eta: Array) -> float:
        """(k, p) -> float: log prior density of all components, in the parametrisation that `mode_eta` maximises in."""

    @abstractmethod
    def sample_x(self, eta: Array, rng: np.random.Generator) -> Array:
        """(n, p) -> (n, d): one row of data from each row of eta, in the units of the data."""

    @abstractmethod
    def named(self, eta: Array) -> dict[str, Array]:
        """(k, p) -> {"means": (k, d), ...}: parameters for people, in the units of the data."""


class AbstractOneLayout(AbstractFamily):
    """A family whose T has one layout: it marginalises NaN cells as it is, or not at all."""

    def with_missing(self) -> Self:
        """Itself, or a `DataError` where NaN cells cannot be marginalised."""
        if self.accepts_missing:
            return self
        raise DataError(f"{type(self).__name__} cannot marginalise missing cells; fill them or use a factorised family")

    def widen_eta(self, eta: Array) -> FloatArray:
        """(k, p) -> (k, p): eta itself."""
        return eta

    def widen_S(self, S: Array) -> FloatArray:
        """(..., p) -> (..., p): S itself."""
        return S


def predictive_from_evidence(family: AbstractFamily, S: Array, T: Array) -> FloatArray:
    """`log_predictive` by the chain rule of evidence, log m(S + T) - log m(S), in tiles of bounded memory."""
    k, p = S.shape
    rows = max(1, PREDICTIVE_TILE // (k * p))
    base = family.log_marginal(S)
    tiles = [
        family.log_marginal(S[None] + np.asarray(T[a : a + rows], np.float64)[:, None]) - base
        for a in range(0, T.shape[0], rows)
    ]
    return np.concatenate(tiles) if tiles else np.empty((0, k))
