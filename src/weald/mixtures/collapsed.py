"""Collapsed sampling of nonparametric mixtures: the state is a partition, parameters are integrated out.

    partition ~ prior (V_{n,k} prod_j (1 - sigma)_{n_j - 1}),     rows of cluster c ~ m(S_c) prod_i h(x_i)

One sweep takes the rows in random order (journal Algorithm 1, (57)-(59)). Row i, taken out of its cluster, goes

    to cluster c      with weight  (n_c - sigma) p(x_i | S_c)
    to one of its own with weight  V_{n,k+1}/V_{n,k} p(x_i),         k clusters of the other rows;

then come split-merge moves (`weald.mixtures.split_merge`), then the hyperparameters, `prior.update`. The normalised
generalised gamma process is used given its auxiliary variable u, where V_{n,k+1}/V_{n,k} = alpha sigma (1+u)^sigma for
every k; `update` comes last and draws u afresh, which is all that this needs.

A row draws one uniform number keyed by its own number, and what is cached of the clusters is made anew from the labels
in every sweep, so that a resumed run goes on exactly. Cost: n (k + 1) predictives (`weald.mixtures._predictive`), of
d^2/2 each for full Gaussians: about 8 ms for 5,000 rows of 8 columns in 20 clusters.

    >>> from weald.families import SphericalGaussian
    >>> from weald.inference.run import run
    >>> from weald.partitions import DirichletProcess
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> kernel = CollapsedKernel(Rows(X, SphericalGaussian.from_data(X, 2)), DirichletProcess())
    >>> chain, = run(kernel, key=np.uint64(1), sweeps=20)
    >>> chain.state.z.shape
    (4,)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from weald._kernel import kernel
from weald._random import sweep_key, uniform
from weald._typing import FloatArray, IntArray, Matrix
from weald.assign import Rows
from weald.assign.base import statistics
from weald.engine import Threads
from weald.exceptions import DataError, ParameterError
from weald.families import Bernoulli, Categorical, DiagonalGaussian, FullGaussian, Multinomial, SphericalGaussian
from weald.families.base import AbstractFamily
from weald.inference.run import AbstractKernel
from weald.mixtures._predictive import (
    SMALL,
    ColumnsLaw,
    CountsLaw,
    Law,
    MatrixLaw,
    drop,
    join,
    leave,
    rebuild,
    score,
    score_without,
)
from weald.mixtures.split_merge import MERGES, SPARE, SPLITS, split_merge
from weald.partitions import AbstractPartition, NormalisedGeneralisedGamma

BIRTHS, DEATHS = 0, 1  # where in the tally
ROOM = 16  # columns beyond the clusters at first

F = TypeVar("F", bound=Callable[..., Any])


Laws = Callable[[int], Law]  # capacity -> a law all of whose columns are empty


@dataclass(frozen=True, eq=False)
class PartitionState:
    """Where a nonparametric mixture stands.

    Parameters
    ----------
    z : (n,) array of int32
        Labels 0, ..., k - 1, all of them in use.
    S : (k, p) array
        Statistics of the clusters.
    prior : AbstractPartition
        The prior with its hyperparameters as they are now.
    sweep : int
        Sweeps made.
    """

    z: IntArray
    S: FloatArray
    prior: AbstractPartition
    sweep: int = 0


@dataclass(frozen=True, eq=False)
class CollapsedKernel(AbstractKernel):
    """One sweep of a nonparametric mixture.

    Parameters
    ----------
    rows : Rows
        The data, seen through a family whose clusters share no parameters.
    prior : AbstractPartition
        Prior of the partition, with the hyperparameters to start from.
    n_moves : int
        Split-merge moves in each sweep.
    first : callable, optional
        rng -> labels (n,) to start from; one cluster of all rows if None.
    """

    rows: Rows
    prior: AbstractPartition
    n_moves: int = 10
    first: Callable[[np.random.Generator], IntArray] | None = None

    def __post_init__(self) -> None:
        if self.rows.weight is not None or self.rows.known is not None:
            raise ParameterError(
                "a partition is of rows that count once and have no known label: drop weight and known"
            )
        if self.n_moves < 0:
            raise ParameterError(f"n_moves must be 0 or more, got {self.n_moves!r}")

    @cached_property
    def laws(self) -> Laws:
        """The predictives of these rows."""
        return law_of(self.rows)

    @cached_property
    def log_base(self) -> float:
        """Sum of log h(x)."""
        return self.rows.log_base()

    def init(self, rng: np.random.Generator) -> PartitionState:
        """The first partition, with hyperparameters drawn given it."""
        n = self.rows.n_rows
        labels = np.zeros(n, np.int64) if self.first is None else np.asarray(self.first(rng))
        if labels.shape != (n,):
            raise DataError(f"first must give one label for each of {n} rows, got the shape {labels.shape}")
        _, z, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        return self._state(z.astype(np.int32), self.prior.update(sizes, rng), 0)

    def step(self, rng: np.random.Generator, state: PartitionState) -> tuple[PartitionState, Mapping[str, float]]:
        """All rows, some split-merge moves, the hyperparameters."""
        n = self.rows.n_rows
        board = Board(self.laws, state.z.copy(), len(state.S), state.prior)
        board.play(gibbs, n, rng.permutation(n), sweep_key(rng))
        board.play(split_merge, self.n_moves if n > 1 else 0, sweep_key(rng))
        sizes = np.bincount(board.z)
        after = self._state(board.z, state.prior.update(sizes, rng), state.sweep + 1)
        info = {
            "n_clusters": float(sizes.size),
            "log_joint": self.log_joint(after),
            "largest": float(sizes.max() / n),
            "n_births": float(board.tally[BIRTHS]),
            "n_deaths": float(board.tally[DEATHS]),
            "n_splits": float(board.tally[SPLITS]),
            "n_merges": float(board.tally[MERGES]),
        }
        return after, info

    def log_joint(self, state: PartitionState) -> float:
        """Log p(partition, X) given the hyperparameters."""
        log_m = float(self.rows.family.log_marginal(state.S).sum())
        return state.prior.log_eppf(np.bincount(state.z)) + log_m + self.log_base

    def _state(self, z: IntArray, prior: AbstractPartition, sweep: int) -> PartitionState:
        return PartitionState(z, statistics(self.rows, z, int(z.max()) + 1, Threads(1)), prior, sweep)


@dataclass
class Board:
    """Labels while they move: the law with its columns, and what the prior says of numbers of clusters so far asked."""

    laws: Laws
    z: IntArray
    k: int
    prior: AbstractPartition
    tally: IntArray = field(default_factory=lambda: np.zeros(4, np.int64))

    def __post_init__(self) -> None:
        sigma, n = self.prior.sigma, self.z.size
        self.log_size = np.append(0.0, np.log(np.arange(1, n + 1) - sigma))
        self.log_ratio = np.zeros(1)  # with no other rows a row has a cluster of its own
        self._lay(self.k + ROOM)

    def play(self, moves: Callable[..., tuple[int, int]], total: int, *args: Any) -> None:
        """Make moves 0, ..., total - 1 of an algorithm."""
        at = 0
        while at < total:
            scratch = self.log_size, self.log_ratio, self.log_p, self.tally
            at, self.k = _for(self.law, moves)(self.law, self.z, self.k, at, total, *args, *scratch)
            if at < total:
                self._make_room()

    def _make_room(self) -> None:
        """More columns, or the ratios that the next move may need."""
        if self.k + SPARE > self.log_p.size:
            self._lay(2 * self.log_p.size)
        for k in (self.k - 1, self.k):
            if np.isnan(self.log_ratio[k]):
                self.log_ratio[k] = log_new(self.prior, self.z.size, k)

    def _lay(self, capacity: int) -> None:
        """A law with so many columns, filled by the labels."""
        self.log_ratio = np.append(self.log_ratio, np.full(capacity - self.log_ratio.size, np.nan))
        self.log_p = np.empty(capacity)
        self.law = self.laws(capacity)
        _for(self.law, join_all)(self.law, self.z)


def _for(law: Law, algorithm: F) -> F:
    """The algorithm compiled, or as plain Python for a law that is not."""
    chosen: F = algorithm if isinstance(law, tuple) else getattr(algorithm, "py_func", algorithm)
    return chosen


def log_new(prior: AbstractPartition, n: int, k: int) -> float:
    """Log V_{n,k+1}/V_{n,k}, given the auxiliary variable where the prior has one; k >= 1."""
    if isinstance(prior, NormalisedGeneralisedGamma):
        log_scale = math.log(prior.concentration * prior.discount)
        return log_scale + prior.discount * float(np.logaddexp(0.0, prior.log_u))
    return prior.log_v(n, k + 1) - prior.log_v(n, k)


@kernel
def join_all(law: Law, z: IntArray) -> None:
    """Every row enters the column of its label."""
    for i in range(z.size):
        join(law, i, z[i])


@kernel
def gibbs(
    law: Law,
    z: IntArray,
    k: int,
    start: int,
    stop: int,
    order: IntArray,
    key: np.uint64,
    log_size: FloatArray,
    log_ratio: FloatArray,
    log_p: FloatArray,
    tally: IntArray,
) -> tuple[int, int]:
    """Redraw the labels of rows order[start], ..., order[stop - 1] one after the other.

    Arguments and result as of `weald.mixtures.split_merge.split_merge`.
    """
    for t in range(start, stop):
        i = order[t]
        c = z[i]
        alone = law.size[c] == 1
        if k + SPARE > law.size.size or math.isnan(log_ratio[k - alone]):
            return t, k
        score(law, i, 0, k + 1, log_p)
        for j in range(k):
            log_p[j] += log_size[law.size[j]]
        log_p[k] += log_ratio[k - alone]
        out = False
        if alone:
            log_p[c] = -np.inf
        else:
            log_p[c] = score_without(law, i, c)
            if math.isnan(log_p[c]):
                rebuild(law, z, c, i)
                score(law, i, c, c + 1, log_p)
                out = True
            log_p[c] += log_size[law.size[c] - 1 + out]
        new = draw(log_p[: k + 1], uniform(key, i, 0))
        if (new == c and not out) or (new == k and alone):
            continue
        if not (out or alone) and not leave(law, i, c):
            rebuild(law, z, c, i)
        z[i] = new
        join(law, i, new)
        if new == k:
            tally[BIRTHS] += 1
            k += 1
        elif alone:
            tally[DEATHS] += 1
            drop(law, z, c, k)
            k -= 1
    return stop, k


@kernel
def draw(log_p: FloatArray, u: float) -> int:
    """An index with probability proportional to exp(log_p), which is used up."""
    top = log_p[0]
    for j in range(1, log_p.size):
        top = max(top, log_p[j])
    total = 0.0
    for j in range(log_p.size):
        total += math.exp(log_p[j] - top)
        log_p[j] = total
    u *= total
    for j in range(log_p.size - 1):
        if u < log_p[j]:
            return j
    return int(log_p.size - 1)


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
    if isinstance(family, FullGaussian):
        return _matrix_laws(family, rows.X)
    if isinstance(family, SphericalGaussian) or (isinstance(family, DiagonalGaussian) and not family.missing):
        return _columns_laws(family, rows.X)
    dense_bernoulli = isinstance(family, Bernoulli) and not sparse.issparse(rows.X)
    if dense_bernoulli or isinstance(family, Multinomial | Categorical):
        return _counts_laws(rows)
    return other_laws(rows)


def other_laws(rows: Rows) -> Laws:
    """Capacity -> a law that asks the family."""
    T = rows.family.sufficient(rows.X)

    def law(capacity: int) -> Law:
        return OtherLaw(rows.family, T, np.zeros((capacity, rows.family.width)), np.zeros(capacity, np.int64))

    return law


def _matrix_laws(family: FullGaussian, X: Matrix) -> Laws:
    Z = np.ascontiguousarray(family.coordinates(X), np.float64)
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


def _columns_laws(family: DiagonalGaussian | SphericalGaussian, X: Matrix) -> Laws:
    Z = np.ascontiguousarray(family.coordinates(X), np.float64)
    (n, d), kappa, nu, psi = Z.shape, float(family.kappa), float(family.nu), np.atleast_1d(family.psi)
    q, m = d // psi.size, np.arange(n + 1)
    constant = gammaln((nu + q * (m + 1)) / 2) - gammaln((nu + q * m) / 2)
    constant = psi.size * (constant + 0.5 * q * np.log(2 * (kappa + m) / (kappa + m + 1)))
    log_root = 0.5 * q * float(np.log(psi).sum())

    def law(capacity: int) -> Law:
        mean, inverse = _columns(family.m0, capacity), _columns(1 / psi, capacity)
        size, work = np.zeros(capacity, np.int64), np.empty((4, capacity))
        return ColumnsLaw(Z, mean, inverse, np.full(capacity, log_root), size, constant, kappa, nu, q, work)

    return law


def _counts_laws(rows: Rows) -> Laws:
    family, T = rows.family, sparse.csr_array(rows.family.sufficient(rows.X))[:, :-1].astype(np.float64)
    prior: FloatArray
    totals: FloatArray
    if isinstance(family, Bernoulli):
        present = sparse.csr_array(~np.isnan(rows.X), dtype=np.float64)
        ones = T[:, : family.n_columns]
        words, segments = sparse.hstack([ones, present - ones]), present
        prior, totals = np.append(family.alpha, family.beta), family.alpha + family.beta
    else:
        assert isinstance(family, Multinomial | Categorical)
        of_segment = sparse.block_diag([sparse.coo_array(np.ones((length, 1))) for length in family.lengths])
        words, segments = T, T @ of_segment
        prior, totals = family.concentration, family.segment_sums(family.concentration)
    if prior.min() < SMALL:
        return other_laws(rows)
    counts = sparse.csr_array(sparse.hstack([words, segments]))
    counts.eliminate_zeros()
    counts.sort_indices()
    given = counts.data, counts.indices.astype(np.int32), counts.indptr.astype(np.int64), prior.size

    def law(capacity: int) -> Law:
        N, size, work = np.zeros((counts.shape[1], capacity)), np.zeros(capacity, np.int64), np.empty((1, capacity))
        return CountsLaw(*given, np.append(prior, totals), N, size, work)

    return law


def _columns(values: FloatArray, capacity: int) -> FloatArray:
    """(...) -> (..., capacity): one copy for each column."""
    return np.ascontiguousarray(np.broadcast_to(values[..., None], (*values.shape, capacity)))
