"""Which law speaks for which family: `law_of`.

    rows of a family  --law_of-->  capacity  -->  a law with so many empty columns

Every family of weald has a compiled law (`weald.mixtures._predictive`). That of a product is a chain of pairs of laws,
in one order whatever that of its parts, and with one law for all its categories, so that few combinations are ever
compiled. Families of users, and priors so weak that a product of sixteen factors leaves the range of floats, are asked
themselves (`OtherLaw`), as plain Python.

Cost: one pass over the data, once for each fit; a law of d columns then takes a few arrays (d, capacity).

    >>> from weald.families import Poisson
    >>> X = np.array([[0.0, 3.0], [1.0, np.nan]])
    >>> law = law_of(Rows(X, Poisson.from_data(X)))(capacity=4)
    >>> type(law).__name__
    'EventsLaw'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from weald._typing import FloatArray, IntArray, Matrix
from weald.assign import Rows
from weald.exceptions import ParameterError
from weald.families import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    FullGaussian,
    Multinomial,
    Poisson,
    Product,
    SphericalGaussian,
)
from weald.families.base import AbstractFamily
from weald.mixtures._columns import LARGE, SMALL, CountsLaw, EventsLaw, HolesLaw
from weald.mixtures._predictive import ColumnsLaw, Law, MatrixLaw, PairLaw

Columns = DiagonalGaussian | SphericalGaussian
Laws = Callable[[int], Law]  # capacity -> a law all of whose columns are empty
Part = tuple[AbstractFamily, Matrix]  # a family, and the columns that it reads


@dataclass(frozen=True, eq=False)
class OtherLaw:
    """Any family: T (n, p) dense or CSR, S (cap, p)."""

    family: AbstractFamily
    T: Matrix
    S: FloatArray
    size: IntArray

    def score(self, i: int, first: int, stop: int, out: FloatArray) -> None:
        """`log_predictive` of the family."""
        out[first:stop] = self.family.log_predictive(self.S[first:stop], self.T[i : i + 1])[0]

    def score_without(self, i: int, c: int) -> float:
        """`log_predictive` given the statistics without row i."""
        return float(self.family.log_predictive((self.S[c] - self._row(i))[None], self.T[i : i + 1])[0, 0])

    def join(self, i: int, c: int) -> None:
        """Statistics add."""
        self.S[c] += self._row(i)
        self.size[c] += 1

    def leave(self, i: int, c: int) -> bool:
        """Statistics subtract."""
        self.S[c] -= self._row(i)
        self.size[c] -= 1
        return True

    def copy(self, a: int, b: int) -> None:
        """All that is kept of a column."""
        self.S[b], self.size[b] = self.S[a], self.size[a]

    def _row(self, i: int) -> FloatArray:
        row = self.T[i]
        return np.asarray(row.toarray() if sparse.issparse(row) else row, np.float64).ravel()


def law_of(rows: Rows) -> Laws:
    """Capacity -> a law of these rows with so many empty columns."""
    family = rows.family
    if family.n_shared_parameters:
        raise ParameterError(
            f"clusters of a {type(family).__name__} share parameters, which cannot be integrated out one cluster "
            "at a time; use a family whose clusters are independent"
        )
    gaussians, events, counts = list[Laws](), list[Laws | None](), list[Part]()
    for part, X in _parts(family, rows.X):
        if isinstance(part, FullGaussian | DiagonalGaussian | SphericalGaussian):
            gaussians += _gaussian_laws(part, X)
        elif isinstance(part, Multinomial | Categorical) or (isinstance(part, Bernoulli) and not sparse.issparse(X)):
            counts.append((part, X))
        elif isinstance(part, Poisson | Bernoulli):
            events.append(_events_laws(part, X))
        else:
            return other_laws(rows)
    chain = [*gaussians, *events, *([_counts_laws(counts)] if counts else [])]
    found = [laws for laws in chain if laws is not None]
    return reduce(_pair, found) if len(found) == len(chain) else other_laws(rows)


def is_compiled(rows: Rows) -> bool:
    """Whether a sweep over these rows runs compiled."""
    return isinstance(law_of(rows)(1), tuple)


def other_laws(rows: Rows) -> Laws:
    """Capacity -> a law that asks the family."""
    T = rows.family.sufficient(rows.X)

    def law(capacity: int) -> Law:
        return OtherLaw(rows.family, T, np.zeros((capacity, rows.family.width)), np.zeros(capacity, np.int64))

    return law


def _parts(family: AbstractFamily, X: Matrix) -> Iterator[Part]:
    """Families that are no products, with their columns."""
    if not isinstance(family, Product):
        yield family, X
        return
    for part, columns in zip(family.parts, family.columns, strict=True):
        yield from _parts(part, X[:, columns])


def _pair(first: Laws, second: Laws) -> Laws:
    def law(capacity: int) -> Law:
        a, b = first(capacity), second(capacity)
        return PairLaw(a, b, a.size, np.empty(capacity))

    return law


def _gaussian_laws(family: AbstractFamily, X: Matrix) -> list[Laws]:
    """Of a diagonal Gaussian, one law for the columns without NaN and one for the others."""
    Z = np.asarray(family.coordinates(X), np.float64)
    if isinstance(family, FullGaussian):
        return [_matrix_laws(family, Z)]
    assert isinstance(family, Columns)
    psi, missing = np.atleast_1d(family.psi), np.isnan(X)
    holes = missing.any(0)
    if not holes.any():
        return [_columns_laws(family, Z, family.m0, psi)]
    Z = np.where(missing, np.nan, Z)
    laws = [_holes_laws(family, Z[:, holes], family.m0[holes], psi[holes])]
    return laws if holes.all() else [_columns_laws(family, Z[:, ~holes], family.m0[~holes], psi[~holes]), *laws]


def _matrix_laws(family: FullGaussian, Z: FloatArray) -> Laws:
    Z = np.ascontiguousarray(Z)
    (n, d), kappa, nu = Z.shape, float(family.kappa), float(family.nu)
    m = np.arange(n + 1)
    constant = gammaln((nu + m + 1) / 2) - gammaln((nu + m + 1 - d) / 2)
    constant += 0.5 * d * np.log(2 * (kappa + m) / (kappa + m + 1))
    L = np.linalg.cholesky(family.psi)
    log_root = float(np.log(np.diagonal(L)).sum())
    np.fill_diagonal(L, 1 / np.diagonal(L))

    def law(capacity: int) -> Law:
        mean, factor = _columns(family.m0, capacity), _columns(L, capacity)
        size, work = np.zeros(capacity, np.int64), np.empty((d + 1, capacity))
        return MatrixLaw(Z, mean, factor, np.full(capacity, log_root), size, constant, kappa, nu, work)

    return law


def _columns_laws(family: Columns, Z: FloatArray, m0: FloatArray, psi: FloatArray) -> Laws:
    Z = np.ascontiguousarray(Z)
    (n, d), kappa, nu = Z.shape, float(family.kappa), float(family.nu)
    q = d // psi.size
    constant = psi.size * _student_constant(n, kappa, nu, q)
    log_root = 0.5 * q * float(np.log(psi).sum())

    def law(capacity: int) -> Law:
        mean, inverse = _columns(m0, capacity), _columns(1 / psi, capacity)
        size, work = np.zeros(capacity, np.int64), np.empty((4, capacity))
        return ColumnsLaw(Z, mean, inverse, np.full(capacity, log_root), size, constant, kappa, nu, q, work)

    return law


def _holes_laws(family: Columns, Z: FloatArray, m0: FloatArray, psi: FloatArray) -> Laws:
    Z = np.ascontiguousarray(Z)
    (n, d), kappa, nu = Z.shape, float(family.kappa), float(family.nu)
    constant = _student_constant(n, kappa, nu, 1)
    level = constant[0] - 0.5 * np.log(psi)

    def law(capacity: int) -> Law:
        N, size = np.zeros((d, capacity), np.int64), np.zeros(capacity, np.int64)
        moments = _columns(m0, capacity), _columns(1 / psi, capacity), _columns(level, capacity)
        return HolesLaw(Z, N, *moments, size, constant, kappa, nu)

    return law


def _student_constant(n: int, kappa: float, nu: float, q: int) -> FloatArray:
    """(n + 1,): constants of the Student t of q columns given 0, ..., n rows."""
    m = np.arange(n + 1)
    constant: FloatArray = gammaln((nu + q * (m + 1)) / 2) - gammaln((nu + q * m) / 2)
    return constant + 0.5 * q * np.log(2 * (kappa + m) / (kappa + m + 1))


def _counts_laws(parts: Sequence[Part]) -> Laws | None:
    """One law of all Dirichlet parts; None where a prior is too weak."""
    words, segments, priors, totals = zip(*(_dirichlet(*part) for part in parts), strict=True)
    prior, total = np.concatenate(priors), np.concatenate(totals)
    if prior.min() < SMALL:
        return None
    given = *_csr(sparse.hstack([*words, *segments])), prior.size

    def law(capacity: int) -> Law:
        N, size = np.zeros((prior.size + total.size, capacity)), np.zeros(capacity, np.int64)
        return CountsLaw(*given, np.append(prior, total), N, size, np.empty((1, capacity)))

    return law


def _dirichlet(family: AbstractFamily, X: Matrix) -> tuple[Matrix, Matrix, FloatArray, FloatArray]:
    """Counts of entries and of segments of entries (n, .), and their priors (.,)."""
    T = sparse.csr_array(family.sufficient(X))[:, :-1].astype(np.float64)
    if isinstance(family, Bernoulli):
        present, ones = sparse.csr_array(~np.isnan(X), dtype=np.float64), T[:, : family.n_columns]
        prior = np.append(family.alpha, family.beta)
        return sparse.hstack([ones, present - ones]), present, prior, family.alpha + family.beta
    assert isinstance(family, Multinomial | Categorical)
    of_segment = sparse.block_diag([sparse.coo_array(np.ones((length, 1))) for length in family.lengths])
    return T, T @ of_segment, family.concentration, family.segment_sums(family.concentration)


def _events_laws(family: Poisson | Bernoulli, X: Matrix) -> Laws | None:
    """None where the prior is too weak."""
    binary = isinstance(family, Bernoulli)
    alpha, beta = np.array(
        [family.alpha, family.beta] if isinstance(family, Bernoulli) else [family.shape, family.rate]
    )
    values, columns, starts = _csr(X)
    n, top = X.shape[0], np.nanmax(values, initial=1.0)
    least, most = alpha.min() / (1 + beta.max() + n), (alpha.max() + max(n, top)) / (beta.min() if binary else 1.0)
    if least < SMALL or most > LARGE:
        return None

    def law(capacity: int) -> Law:
        N, absent = np.zeros((2, alpha.size, capacity))
        base, before = np.full((2, capacity), np.nan)
        size, work = np.zeros(capacity, np.int64), np.empty((2, capacity))
        return EventsLaw(values, columns, starts, alpha, beta, binary, N, absent, base, before, size, work)

    return law


def _csr(X: Matrix) -> tuple[FloatArray, IntArray, IntArray]:
    """Values, columns, starts of the cells that are not zero."""
    X = sparse.csr_array(X, dtype=np.float64, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    return X.data, X.indices.astype(np.int32), X.indptr.astype(np.int64)


def _columns(values: FloatArray, capacity: int) -> FloatArray:
    """(...) -> (..., capacity): one copy for each column."""
    return np.ascontiguousarray(np.broadcast_to(values[..., None], (*values.shape, capacity)))
