"""Laws: log p(x_i | rows of a cluster), parameters integrated out, kept up to date as rows join and leave clusters.

A law holds one column for each cluster; columns without rows hold the prior, and the last one always does. Algorithms
speak to it by five verbs,

    score(law, i, first, stop, out)    out[j] = log p(x_i | column j), first <= j < stop, without log h
    score_without(law, i, c)           log p(x_i | column c without row i); NaN where rounding would spoil it
    join(law, i, c)                    row i enters column c
    leave(law, i, c) -> bool           row i leaves column c, not its last row; False: spoilt, `rebuild` it
    copy(law, a, b)                    column b becomes a copy of column a

and run compiled for all laws but the last, which is plain Python; each algorithm is written once.

    law          family                      predictive              score      join, leave
    MatrixLaw    full Gaussian               Student t               d^2/2      d^2: rank-one changes of a factor
    ColumnsLaw   diagonal, spherical         Student t's             d          d
    HolesLaw     diagonal, NaN cells         Student t's             d          d
    CountsLaw    multinomial, categorical,   Dirichlet-multinomial   non-zeros  non-zeros
                 Bernoulli
    EventsLaw    Poisson, sparse Bernoulli   negative binomial       non-zeros  non-zeros, and d for the next score
    PairLaw      product                     product                 the sum    the sum over its two laws
    OtherLaw     every family                `log_predictive`        its own    p

The laws of cells that may be missing (Holes, Counts, Events) are in `weald.mixtures._columns`; who gets which law, and
the last one, in `weald.mixtures.laws`.

Without row x, |Psi| shrinks by the factor 1 - kappa/(kappa-1) |L^-1 (x - m)|^2: a row that stays where it is costs no
downdate. Where that factor is below `LEAST`, one row carries the scatter and digits are lost. Inner loops run over
clusters, contiguous.

References: journal (57)-(63), with the Gamma functions of (61); Gill, Golub, Murray & Saunders (1974) for factors.

    >>> law = law_of(rows)(capacity=8)                               # doctest: +SKIP
    >>> join(law, 0, 2); score(law, 1, 0, 3, out)                    # doctest: +SKIP
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba.core import types
from numba.extending import overload, register_jitable

from weald._kernel import kernel
from weald._typing import FloatArray, IntArray

LEAST = 1e-4  # below this share of what was there a downdate has lost four digits
HUGE = 1e75  # four factors up to this have a product
COMPILE: dict[str, Any] = {"fastmath": {"reassoc", "contract"}, "error_model": "numpy", "nogil": True}

F = TypeVar("F", bound=Callable[..., Any])
Law = Any  # a named tuple of arrays, or an `OtherLaw`: the verbs as methods, and `size` (capacity,) of each column


def score(law: Law, i: int, first: int, stop: int, out: FloatArray) -> None:
    """Write log p(x_i | column j) into out[j] for first <= j < stop."""
    law.score(i, first, stop, out)


def score_without(law: Law, i: int, c: int) -> float:
    """Log p(x_i | column c without row i), NaN where it cannot be had from the column."""
    log_p: float = law.score_without(i, c)
    return log_p


def join(law: Law, i: int, c: int) -> None:
    """Row i enters column c."""
    law.join(i, c)


def leave(law: Law, i: int, c: int) -> bool:
    """Row i leaves column c; False where the column is spoilt."""
    right: bool = law.leave(i, c)
    return right


def copy(law: Law, a: int, b: int) -> None:
    """Column b becomes column a."""
    law.copy(a, b)


def _overload(verb: Callable[..., Any]) -> None:
    """Compiled code that calls a verb on a named tuple calls the method of that name, compiled.

    Pairs take long to compile, so that theirs are for int64 alone.
    """

    def implement(law: Any, *args: Any) -> Any:
        whole = [arg for arg in args if isinstance(arg, types.Integer)]
        if law.instance_class is not PairLaw or all(arg == types.int64 for arg in whole):
            return getattr(law.instance_class, verb.__name__)
        if len(args) == 2:
            return lambda law, i, c: verb(law, np.int64(i), np.int64(c))
        return lambda law, i, first, stop, out: verb(law, np.int64(i), np.int64(first), np.int64(stop), out)

    overload(verb, strict=False, jit_options=COMPILE)(implement)


for _verb in (score, score_without, join, leave, copy):
    _overload(_verb)


def either(function: F) -> F:
    """A part of an algorithm: compiled inside compiled code, plain Python inside plain Python."""
    kept: F = register_jitable(**COMPILE)(function)
    return kept


@either
def rebuild(law: Law, z: IntArray, c: int, without: int) -> None:
    """Column c afresh from the rows labelled c, less one."""
    copy(law, law.size.size - 1, c)
    for i in range(z.size):
        if z[i] == c and i != without:
            join(law, i, c)


@either
def drop(law: Law, z: IntArray, c: int, k: int) -> None:
    """Remove cluster c, which has no rows left, of k; the last one takes its number."""
    if c != k - 1:
        copy(law, k - 1, c)
        for i in range(z.size):
            if z[i] == k - 1:
                z[i] = c
    copy(law, law.size.size - 1, k - 1)


class PairLaw(NamedTuple):
    """Two laws of the same rows whose columns are independent given the cluster; either may be a pair again."""

    first: Law
    second: Law
    size: IntArray  # that of the first
    work: FloatArray  # (cap,)

    def score(self, i: int, first: int, stop: int, out: FloatArray) -> None:
        """Logs add."""
        score(self.first, i, first, stop, out)
        score(self.second, i, first, stop, self.work)
        for j in range(first, stop):
            out[j] += self.work[j]

    def score_without(self, i: int, c: int) -> float:
        """Logs add, and NaN stays NaN."""
        return score_without(self.first, i, c) + score_without(self.second, i, c)

    def join(self, i: int, c: int) -> None:
        """Row i enters both."""
        join(self.first, i, c)
        join(self.second, i, c)

    def leave(self, i: int, c: int) -> bool:
        """Row i leaves both."""
        right = leave(self.first, i, c)
        return leave(self.second, i, c) and right

    def copy(self, a: int, b: int) -> None:
        """Both."""
        copy(self.first, a, b)
        copy(self.second, a, b)


@kernel
def copy_column(A: FloatArray, a: int, b: int) -> None:
    """A[:, b] = A[:, a]."""
    for r in range(A.shape[0]):
        A[r, b] = A[r, a]


class MatrixLaw(NamedTuple):
    """Normal-inverse-Wishart: Z (n, d), mean (d, cap), factor (d, d, cap) of Psi with reciprocals on the diagonal."""

    Z: FloatArray
    mean: FloatArray
    factor: FloatArray
    log_root: FloatArray  # (cap,): half the log determinant of Psi
    size: IntArray
    constant: FloatArray  # (n + 1,): what depends on the size alone
    kappa: float
    nu: float
    work: FloatArray  # (d + 1, cap)

    def score(self, i: int, first: int, stop: int, out: FloatArray) -> None:
        """Student t by one forward substitution for all columns at once."""
        _solve(self.Z[i], self.mean[:, first:stop], self.factor[:, :, first:stop], self.work[:, first:stop])
        distance = self.work[self.Z.shape[1]]
        for j in range(first, stop):
            n = self.size[j]
            share = (self.kappa + n) / (self.kappa + n + 1.0)
            power = 0.5 * (self.nu + n + 1.0)
            out[j] = self.constant[n] - self.log_root[j] - power * math.log1p(share * distance[j])

    def score_without(self, i: int, c: int) -> float:
        """By the ratio of determinants."""
        n, here = self.size[c] - 1, slice(c, c + 1)
        _solve(self.Z[i], self.mean[:, here], self.factor[:, :, here], self.work[:, here])
        rest = 1.0 - (self.kappa + n + 1.0) / (self.kappa + n) * self.work[self.Z.shape[1], c]
        if not rest > LEAST:
            return math.nan
        return float(self.constant[n] - self.log_root[c] + 0.5 * (self.nu + n) * math.log(rest))

    def join(self, i: int, c: int) -> None:
        """Rank-one update."""
        kappa, v = self.kappa + self.size[c], self.work[:, c]
        self.log_root[c] += _change_factor(self.Z[i], self.mean[:, c], self.factor[:, :, c], v, kappa, 1.0)
        self.size[c] += 1

    def leave(self, i: int, c: int) -> bool:
        """Rank-one downdate."""
        kappa, v = self.kappa + self.size[c], self.work[:, c]
        change = _change_factor(self.Z[i], self.mean[:, c], self.factor[:, :, c], v, kappa, -1.0)
        self.log_root[c] += change
        self.size[c] -= 1
        return 2.0 * change > math.log(LEAST)  # NaN is not

    def copy(self, a: int, b: int) -> None:
        """All that is kept of a column."""
        copy_column(self.mean, a, b)
        for r in range(self.factor.shape[0]):
            copy_column(self.factor[r], a, b)
        self.log_root[b], self.size[b] = self.log_root[a], self.size[a]


@kernel
def _solve(x: FloatArray, mean: FloatArray, L: FloatArray, y: FloatArray) -> None:
    """Write L^-1 (x - mean) of each column into the first d rows of y, and its square into the last."""
    d, m = mean.shape
    y[d] = 0.0
    for r in range(d):
        for j in range(m):
            y[r, j] = x[r] - mean[r, j]
        for s in range(r):
            for j in range(m):
                y[r, j] -= L[r, s, j] * y[s, j]
        for j in range(m):
            y[r, j] *= L[r, r, j]
            y[d, j] += y[r, j] * y[r, j]


@kernel
def _change_factor(x: FloatArray, mean: FloatArray, L: FloatArray, v: FloatArray, kappa: float, sign: float) -> float:
    """Row x enters (sign 1) or leaves (-1) a column of weight kappa; returns the log of |L'|/|L|, NaN if there is none.

    LL' + sign vv' in place, reciprocals on the diagonal of L; v is work.
    """
    d, log_ratio = mean.size, 0.0
    for r in range(d):
        shift = x[r] - mean[r]
        mean[r] += sign * shift / (kappa + sign)
        v[r] = math.sqrt(kappa / (kappa + sign)) * shift
    for r in range(d):
        s = v[r] * L[r, r]
        c = math.sqrt(1.0 + sign * s * s)
        log_ratio += math.log(c)
        L[r, r] /= c
        for t in range(r + 1, d):
            L[t, r] = (L[t, r] + sign * s * v[t]) / c
            v[t] = c * v[t] - s * L[t, r]
    return log_ratio


class ColumnsLaw(NamedTuple):
    """Normal-inverse-Gamma laws of q columns each: Z (n, d), mean (d, cap), inverse (d/q, cap) of psi."""

    Z: FloatArray
    mean: FloatArray
    inverse: FloatArray
    log_root: FloatArray  # (cap,): q/2 times the sum of log psi
    size: IntArray
    constant: FloatArray  # (n + 1,): what depends on the size alone
    kappa: float
    nu: float
    q: int
    work: FloatArray  # (4, cap)

    def score(self, i: int, first: int, stop: int, out: FloatArray) -> None:
        """Student t's; their factors 1 + r are multiplied, and one log is taken of four."""
        n_laws, q, m = self.inverse.shape[0], self.q, stop - first
        share, total = self.work[0, first:stop], self.work[1, first:stop]
        product, distance = self.work[2, first:stop], self.work[3, first:stop]
        for j in range(m):
            kappa = self.kappa + self.size[first + j]
            share[j], total[j], product[j] = kappa / (kappa + 1.0), 0.0, 1.0
        for law in range(n_laws):
            distance[:] = 0.0
            for r in range(law * q, law * q + q):
                _add_squares(distance, self.Z[i, r], self.mean[r, first:stop])
            inverse = self.inverse[law, first:stop]
            for j in range(m):
                product[j] *= min(1.0 + share[j] * inverse[j] * distance[j], HUGE)
            if law % 4 == 3 or law == n_laws - 1:
                add_logs(total, product, 1.0)
        for j in range(first, stop):
            n = self.size[j]
            power = 0.5 * (self.nu + q * (n + 1.0))
            out[j] = self.constant[n] - self.log_root[j] - power * total[j - first]

    def score_without(self, i: int, c: int) -> float:
        """By the ratios of the psi."""
        n = self.size[c] - 1
        grown = (self.kappa + n + 1.0) / (self.kappa + n)
        total = 0.0
        for law in range(self.inverse.shape[0]):
            square = _square(self.Z[i], self.mean[:, c], law * self.q, self.q)
            rest = 1.0 - grown * self.inverse[law, c] * square
            if not rest > LEAST:
                return math.nan
            total += math.log(rest)
        return float(self.constant[n] - self.log_root[c] + 0.5 * (self.nu + self.q * n) * total)

    def join(self, i: int, c: int) -> None:
        """The scatter about the mean grows."""
        kappa = self.kappa + self.size[c]
        self.log_root[c] += _change_columns(self.Z[i], self.mean[:, c], self.inverse[:, c], self.q, kappa, 1.0)[0]
        self.size[c] += 1

    def leave(self, i: int, c: int) -> bool:
        """The scatter about the mean shrinks."""
        kappa = self.kappa + self.size[c]
        change, least = _change_columns(self.Z[i], self.mean[:, c], self.inverse[:, c], self.q, kappa, -1.0)
        self.log_root[c] += change
        self.size[c] -= 1
        return least > LEAST

    def copy(self, a: int, b: int) -> None:
        """All that is kept of a column."""
        copy_column(self.mean, a, b)
        copy_column(self.inverse, a, b)
        self.log_root[b], self.size[b] = self.log_root[a], self.size[a]


@kernel
def _add_squares(distance: FloatArray, x: float, mean: FloatArray) -> None:
    for j in range(distance.size):
        distance[j] += (x - mean[j]) * (x - mean[j])


@kernel
def add_logs(total: FloatArray, product: FloatArray, sign: float) -> None:
    """The log of each product joins its total; products begin anew."""
    for j in range(total.size):
        total[j] += sign * math.log(product[j])
        product[j] = 1.0


@kernel
def _square(x: FloatArray, mean: FloatArray, first: int, q: int) -> float:
    total = 0.0
    for r in range(first, first + q):
        total += (x[r] - mean[r]) * (x[r] - mean[r])
    return total


@kernel
def _change_columns(
    x: FloatArray, mean: FloatArray, inverse: FloatArray, q: int, kappa: float, sign: float
) -> tuple[float, float]:
    """Row x enters (sign 1) or leaves (-1) a column of weight kappa; returns the change of its log_root and the least
    factor of a psi.
    """
    log_ratio, least = 0.0, math.inf
    for law in range(inverse.size):
        square = _square(x, mean, law * q, q)
        factor = 1.0 + sign * kappa / (kappa + sign) * square * inverse[law]
        least = min(least, factor)
        inverse[law] /= factor
        log_ratio += math.log(max(factor, LEAST))
    for r in range(x.size):
        mean[r] += sign * (x[r] - mean[r]) / (kappa + sign)
    return 0.5 * q * log_ratio, least
