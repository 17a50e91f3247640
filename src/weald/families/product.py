"""Columns of several kinds: a product of families over disjoint sets of columns.

    p(x | k) = prod_i p_i(x_{C_i} | k),   T = (T_1, T_2, .., 1),   eta = (eta_1, eta_2, .., sum of the -A_i)

(the parts without their last columns). Everything is delegated and added; a part may be any family. NaN cells are
marginalised where every part can. Cost: the sum over parts.

    >>> X = np.array([[0.3, 1.0], [2.5, 0.0], [1.1, 1.0]])
    >>> family = Product.from_data(X, kinds=("gaussian", "bernoulli"))
    >>> sorted(family.named(family.mode_eta(family.sufficient(X))))
    ['bernoulli_probabilities', 'gaussian_covariances', 'gaussian_means']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np

from weald._typing import Array, FloatArray, Matrix
from weald.exceptions import DataError, ParameterError
from weald.families.base import AbstractFamily
from weald.families.bernoulli import Bernoulli
from weald.families.categorical import Categorical
from weald.families.checks import choose_prior, dense, rows_needed, suggest
from weald.families.gaussian_diag import DiagonalGaussian
from weald.families.poisson import Poisson

KINDS: dict[str, type[AbstractFamily]] = {
    "gaussian": DiagonalGaussian,
    "bernoulli": Bernoulli,
    "poisson": Poisson,
    "categorical": Categorical,
}


@dataclass(frozen=True, eq=False)
class Product(AbstractFamily):
    """Independent parts, each with its own columns.

    Parameters
    ----------
    parts : tuple of AbstractFamily
        The families.
    columns : tuple of tuple of int
        The columns each part reads; together they are 0 to d - 1, each once.
    names : tuple of str
        Prefixes in `named`, one for each part.
    """

    parts: tuple[AbstractFamily, ...]
    columns: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    accepts_missing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "columns", tuple(tuple(int(j) for j in columns) for columns in self.columns))
        object.__setattr__(self, "names", tuple(self.names))
        if not len(self.parts) == len(self.columns) == len(set(self.names)) == len(self.names) > 0:
            raise ParameterError("a product needs at least one part, and for each its columns and a name of its own")
        read = [j for columns in self.columns for j in columns]
        if sorted(read) != list(range(len(read))):
            raise ParameterError(f"columns must share out 0 to d - 1, each once, got {self.columns}")
        if [len(columns) for columns in self.columns] != [part.n_columns for part in self.parts]:
            raise ParameterError("each part must be given as many columns as it reads")

    @classmethod
    def from_data(
        cls,
        X: Matrix,
        n_components: int = 1,
        *,
        weight: FloatArray | None = None,
        kinds: Sequence[str] = (),
        n_levels: Sequence[int] | None = None,
        **prior: Any,
    ) -> Self:
        """Default priors for X (n, d) with a kind for each column.

        Parameters
        ----------
        X : array of shape (n, d)
            Data; categories as integer codes.
        n_components : int
            Expected number of components.
        weight : array of shape (n,), optional
            Positive weights of the rows.
        kinds : sequence of str of length d
            ``"gaussian"``, ``"bernoulli"``, ``"poisson"`` or ``"categorical"``.
        n_levels : sequence of int, optional
            Levels of the categorical columns, in their order.
        **prior : mapping
            Overrides of a kind by its name, as in ``gaussian={"kappa": 0.1}``.
        """
        X = dense(X, missing=True)
        rows_needed(X)
        for kind in kinds:
            if kind not in KINDS:
                raise ParameterError(f"unknown kind of column {kind!r}; {suggest(kind, KINDS)}")
        if len(kinds) != X.shape[1]:
            raise ParameterError(f"kinds must name one kind for each of {X.shape[1]} columns, got {len(kinds)}")
        names = tuple(dict.fromkeys(kinds))
        given = {name: dict(value) for name, value in choose_prior({key: {} for key in names}, prior).items()}
        if n_levels is not None and "categorical" in given:
            given["categorical"]["n_levels"] = n_levels
        columns = tuple(tuple(j for j, kind in enumerate(kinds) if kind == name) for name in names)
        parts = []
        for name, part in zip(names, columns, strict=True):
            with _renumbered(part):
                parts.append(KINDS[name].from_data(X[:, part], n_components, weight=weight, **given[name]))
        return cls(tuple(parts), columns, names)

    @property
    def n_columns(self) -> int:
        """Columns of all parts: d."""
        return sum(part.n_columns for part in self.parts)

    @property
    def width(self) -> int:
        """Widths of the parts, with one common last column."""
        return sum(part.width - 1 for part in self.parts) + 1

    @property
    def n_parameters(self) -> int:
        """Free parameters of one component of all parts."""
        return sum(part.n_parameters for part in self.parts)

    @property
    def n_shared_parameters(self) -> int:
        """Shared parameters of all parts."""
        return sum(part.n_shared_parameters for part in self.parts)

    def with_missing(self) -> Self:
        """Every part in its layout for NaN; a `DataError` where one has none."""
        parts = tuple(part.with_missing() for part in self.parts)
        return self if all(a is b for a, b in zip(parts, self.parts, strict=True)) else replace(self, parts=parts)

    def widen_eta(self, eta: Array) -> FloatArray:
        """(k, p) -> (k, p'): eta in the layout of `with_missing`."""
        split = self._zip(eta)
        for _, part_eta in split[1:]:
            part_eta[..., -1] = 0.0  # the first part alone compares the common log partition with its own
        return _join_eta([part.widen_eta(part_eta) for part, part_eta in split])

    def widen_S(self, S: Array) -> FloatArray:
        """(..., p) -> (..., p'): statistics in the layout of `with_missing`."""
        return _join([part.widen_S(part_S) for part, part_S in self._zip(S)], S[..., -1:])

    def sufficient(self, X: Matrix) -> FloatArray:
        """(n, d) -> (n, p): statistics of all parts, and 1."""
        X = dense(X, self.n_columns, missing=True)
        split = []
        for part, columns in self._parts():
            with _renumbered(columns):
                split.append(part.sufficient(X[:, columns]))
        return _join(split, split[0][:, -1:])

    def coordinates(self, X: Matrix) -> FloatArray:
        """(n, d) -> (n, c): coordinates of all parts."""
        X = dense(X, self.n_columns, missing=True)
        return np.hstack([part.coordinates(X[:, columns]) for part, columns in self._parts()])

    def log_base(self, X: Matrix) -> FloatArray:
        """(n, d) -> (n,): the sum over parts."""
        X = dense(X, self.n_columns, missing=True)
        return _total(part.log_base(X[:, columns]) for part, columns in self._parts())

    def log_marginal(self, S: Array) -> FloatArray:
        """(..., p) -> (...): the sum over parts."""
        return _total(part.log_marginal(part_S) for part, part_S in self._zip(S))

    def log_evidence(self, S: Array) -> float:
        """(k, p) -> float: the sum over parts."""
        return sum(part.log_evidence(part_S) for part, part_S in self._zip(S))

    def log_predictive(self, S: Array, T: Matrix) -> FloatArray:
        """(k, p), (n, p) -> (n, k): the sum over parts."""
        pairs = zip(self._zip(S), self._split(T), strict=True)
        return _total(part.log_predictive(part_S, part_T) for (part, part_S), part_T in pairs)

    def mode_eta(self, S: Array) -> FloatArray:
        """(k, p) -> (k, p): modes."""
        return _join_eta([part.mode_eta(part_S) for part, part_S in self._zip(S)])

    def sample_eta(self, S: Array, rng: np.random.Generator) -> FloatArray:
        """(k, p) -> (k, p): draws."""
        return _join_eta([part.sample_eta(part_S, rng) for part, part_S in self._zip(S)])

    def expected_eta(self, S: Array) -> FloatArray:
        """(k, p) -> (k, p): expectations."""
        return _join_eta([part.expected_eta(part_S) for part, part_S in self._zip(S)])

    def log_prior(self, eta: Array) -> float:
        """(k, p) -> float: the sum over parts."""
        return sum(part.log_prior(part_eta) for part, part_eta in self._zip(eta))

    def sample_x(self, eta: Array, rng: np.random.Generator) -> FloatArray:
        """(n, p) -> (n, d): the columns of all parts."""
        X = np.empty((eta.shape[0], self.n_columns))
        for (part, columns), part_eta in zip(self._parts(), self._split(eta), strict=True):
            X[:, columns] = part.sample_x(part_eta, rng)
        return X

    def named(self, eta: Array) -> dict[str, Array]:
        """Parameters of all parts, with the name of the part in front."""
        parts = zip(self.names, self._zip(eta), strict=True)
        return {f"{name}_{key}": value for name, (part, e) in parts for key, value in part.named(e).items()}

    def _parts(self) -> list[tuple[AbstractFamily, tuple[int, ...]]]:
        return list(zip(self.parts, self.columns, strict=True))

    def _zip(self, S: Array) -> list[tuple[AbstractFamily, FloatArray]]:
        return list(zip(self.parts, self._split(S), strict=True))

    def _split(self, S: Array) -> list[FloatArray]:
        """(..., p) -> (..., p_i) for each part, each with the last entry of S."""
        ends = np.cumsum([part.width - 1 for part in self.parts])
        bodies = np.split(S[..., :-1], ends[:-1], axis=-1)
        return [np.concatenate([body, S[..., -1:]], axis=-1) for body in bodies]


@contextmanager
def _renumbered(columns: tuple[int, ...]) -> Iterator[None]:
    """Errors of a part name its own columns; say which columns of X they are."""
    try:
        yield
    except DataError as error:
        raise DataError(re.sub(r"column (\d+)", lambda m: f"column {columns[int(m[1])]}", str(error))) from error


def _join(split: Sequence[Array], last: Array) -> FloatArray:
    return np.concatenate([*(part[..., :-1] for part in split), last], axis=-1)


def _join_eta(split: Sequence[Array]) -> FloatArray:
    return _join(split, _total(part[..., -1:] for part in split))


def _total(parts: Iterable[Array]) -> FloatArray:
    return reduce(np.add, parts)
