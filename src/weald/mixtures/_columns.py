"""Laws of independent columns whose cells may be missing: what is missing has probability 1 and is counted nowhere.

    HolesLaw     x ~ N(mu, v), Normal-inverse-Gamma: a Student t given the n observed cells of the cluster,
                 log p = level_n - (nu + n + 1)/2 log{1 + (kappa + n)/(kappa + n + 1) (x - m)^2 / psi}
    CountsLaw    Dirichlet with counts N over segments of entries:
                 log p = sum over entries of log a (a+1) ... (a+x-1), less the same sum over segments,  a = prior + N
    EventsLaw    x ~ Poisson, Gamma(a, b) given the cluster; 1/x! is left to h:
                 p(0) = (b/(1+b))^a,   p(x)/p(0) = a (a+1) ... (a+x-1) / (1+b)^x
                 x ~ Bernoulli, Beta(a, b) given the cluster:   p(0) = b/(a+b),   p(1)/p(0) = a/b

Rows of the last two are compressed (CSR). Events: what is not stored is 0; a cluster keeps the score of a row of zeros
(`base`), and of a row of zeros that is one of its own (`before`), both made anew, by one log for each column, when they
are asked for after a change; a row then costs its own entries only. Rising factorials are multiplied up, one log for
every `FACTORS` factors. Counts are whole numbers and stay exact; means and scatters are as in ColumnsLaw, but a column
of a cluster that loses its last observed cell becomes the prior again.

References: journal (60)-(75); Gelman et al., Bayesian Data Analysis (2013), section 2.6, for the negative binomial.

    >>> law = law_of(Rows(X, Poisson.from_data(X)))(capacity=8)      # doctest: +SKIP
    >>> join(law, 0, 2); score(law, 1, 0, 3, out)                    # doctest: +SKIP
"""

from __future__ import annotations

import math
from typing import NamedTuple

from weald._kernel import kernel
from weald._typing import FloatArray, IntArray
from weald.mixtures._predictive import LEAST, Law, add_logs, copy_column, either

FACTORS, SMALL, LARGE = 16, 1e-18, 1e18  # so many factors between these two have a product
LONG = 128  # rising factorials longer than this are differences of log Gamma
TINY = 1e-300  # a spoilt inverse may be negative


class HolesLaw(NamedTuple):
    """Normal-inverse-Gamma laws of columns with NaN: Z (n, d); the next four (d, cap), of each column and cluster."""

    Z: FloatArray
    N: IntArray  # observed cells
    mean: FloatArray
    inverse: FloatArray  # of psi
    level: FloatArray  # constant[N] - log(psi)/2
    size: IntArray
    constant: FloatArray  # (n + 1,): what depends on N alone
    kappa: float
    nu: float

    def score(self, i: int, first: int, stop: int, out: FloatArray) -> None:
        """Student t's of the observed cells."""
        out[first:stop] = 0.0
        for r in range(self.Z.shape[1]):
            x = self.Z[i, r]
            if not math.isnan(x):
                for c in range(first, stop):
                    out[c] += _log_cell(self, x, r, c)

    def score_without(self, i: int, c: int) -> float:
        """By the ratios of the psi; by the prior where row i has the only cell."""
        total = 0.0
        for r in range(self.Z.shape[1]):
            x, n = self.Z[i, r], self.N[r, c] - 1
            if math.isnan(x):
                continue
            if n == 0:
                total += _log_cell(self, x, r, self.size.size - 1)
                continue
            shift = x - self.mean[r, c]
            rest = 1.0 - (self.kappa + n + 1.0) / (self.kappa + n) * self.inverse[r, c] * shift * shift
            if not rest > LEAST:
                return math.nan
            total += self.level[r, c] - self.constant[n + 1] + self.constant[n] + 0.5 * (self.nu + n) * math.log(rest)
        return total

    def join(self, i: int, c: int) -> None:
        """Scatters about the means grow."""
        for r in range(self.Z.shape[1]):
            if not math.isnan(self.Z[i, r]):
                _change_cell(self, self.Z[i, r], r, c, 1)
        self.size[c] += 1

    def leave(self, i: int, c: int) -> bool:
        """Scatters about the means shrink."""
        right = True
        for r in range(self.Z.shape[1]):
            if math.isnan(self.Z[i, r]):
                continue
            if self.N[r, c] == 1:
                _copy_cell(self, r, self.size.size - 1, c)
            elif not _change_cell(self, self.Z[i, r], r, c, -1) > LEAST:
                right = False
        self.size[c] -= 1
        return right

    def copy(self, a: int, b: int) -> None:
        """All that is kept of a column."""
        for r in range(self.Z.shape[1]):
            _copy_cell(self, r, a, b)
        self.size[b] = self.size[a]


@either
def _log_cell(law: Law, x: float, r: int, c: int) -> float:
    """Student t of a cell of column r in cluster c."""
    kappa, power, shift = law.kappa + law.N[r, c], 0.5 * (law.nu + law.N[r, c] + 1.0), x - law.mean[r, c]
    return float(law.level[r, c] - power * math.log(1.0 + kappa / (kappa + 1.0) * law.inverse[r, c] * shift * shift))


@either
def _change_cell(law: Law, x: float, r: int, c: int, sign: int) -> float:
    """A cell of column r enters (sign 1) or leaves (-1) cluster c; returns the factor of psi."""
    kappa, shift = law.kappa + law.N[r, c], x - law.mean[r, c]
    factor = 1.0 + sign * kappa / (kappa + sign) * law.inverse[r, c] * shift * shift
    law.N[r, c] += sign
    law.mean[r, c] += sign * shift / (kappa + sign)
    law.inverse[r, c] /= factor
    law.level[r, c] = law.constant[law.N[r, c]] + 0.5 * math.log(max(law.inverse[r, c], TINY))
    return float(factor)


@either
def _copy_cell(law: Law, r: int, a: int, b: int) -> None:
    law.N[r, b], law.mean[r, b] = law.N[r, a], law.mean[r, a]
    law.inverse[r, b], law.level[r, b] = law.inverse[r, a], law.level[r, a]


class CountsLaw(NamedTuple):
    """Dirichlet laws: `prior` (V + J,) and counts N (V + J, cap) of V entries, then of the J segments they belong to.

    Rows are CSR (values, columns, starts) of entries and, after them, of the totals of the segments they use:
    log p = sum over entries of log a (a+1) ... (a+x-1), less the same sum over segments.
    """

    values: FloatArray
    columns: IntArray
    starts: IntArray
    n_entries: int  # V
    prior: FloatArray
    N: FloatArray
    size: IntArray
    work: FloatArray  # (1, cap)

    def score(self, i: int, first: int, stop: int, out: FloatArray) -> None:
        """Rising factorials of all columns at once."""
        row = slice(self.starts[i], self.starts[i + 1])
        N, product = self.N[:, first:stop], self.work[0, first:stop]
        _rising(self.values[row], self.columns[row], self.n_entries, self.prior, N, product, out[first:stop])

    def score_without(self, i: int, c: int) -> float:
        """The counts of row i taken off as it is read."""
        total = 0.0
        for e in range(self.starts[i], self.starts[i + 1]):
            v, x = self.columns[e], self.values[e]
            a = self.prior[v] + (self.N[v, c] - x)
            total += _log_rising(a, x) if v < self.n_entries else -_log_rising(a, x)
        return total

    def join(self, i: int, c: int) -> None:
        """Counts are added."""
        for e in range(self.starts[i], self.starts[i + 1]):
            self.N[self.columns[e], c] += self.values[e]
        self.size[c] += 1

    def leave(self, i: int, c: int) -> bool:
        """Counts are taken off."""
        for e in range(self.starts[i], self.starts[i + 1]):
            self.N[self.columns[e], c] -= self.values[e]
        self.size[c] -= 1
        return True

    def copy(self, a: int, b: int) -> None:
        """All that is kept of a column."""
        copy_column(self.N, a, b)
        self.size[b] = self.size[a]


@kernel
def _log_rising(a: float, x: float) -> float:
    """Log a (a+1) ... (a+x-1)."""
    if x > FACTORS:
        return math.lgamma(a + x) - math.lgamma(a)
    product = a
    for more in range(1, int(x)):
        product *= a + more
    return math.log(product)


@kernel
def _rising(
    values: FloatArray,
    columns: IntArray,
    n_entries: int,
    prior: FloatArray,
    N: FloatArray,
    product: FloatArray,
    total: FloatArray,
) -> None:
    """(V + J,), (V + J, m) -> (m,): sum of log a (a+1) ... (a+x-1), a = prior + N, over entries less over segments."""
    n_factors, sign = 0, 1.0
    total[:], product[:] = 0.0, 1.0
    for x, v in zip(values, columns):  # noqa: B905
        if v >= n_entries and sign > 0.0:
            add_logs(total, product, sign)
            n_factors, sign = 0, -1.0
        if x > LONG:
            for j in range(total.size):
                a = prior[v] + N[v, j]
                total[j] += sign * (math.lgamma(a + x) - math.lgamma(a))
            continue
        for more in range(int(x)):
            a = prior[v] + more
            for j in range(total.size):
                product[j] *= a + N[v, j]
            n_factors += 1
            if n_factors == FACTORS:
                add_logs(total, product, sign)
                n_factors = 0
    add_logs(total, product, sign)


class EventsLaw(NamedTuple):
    """Gamma-Poisson and Beta-Bernoulli laws of d columns; rows are CSR (values, columns, starts), NaN for missing."""

    values: FloatArray
    columns: IntArray
    starts: IntArray
    alpha: FloatArray  # (d,): priors
    beta: FloatArray
    binary: bool  # Bernoulli, not Poisson
    N: FloatArray  # (d, cap): sums of the cells
    absent: FloatArray  # (d, cap): how many are missing
    base: FloatArray  # (cap,): score of a row of zeros; NaN where not known
    before: FloatArray  # (cap,): its `score_without`
    size: IntArray
    work: FloatArray  # (2, cap)

    def score(self, i: int, first: int, stop: int, out: FloatArray) -> None:
        """A row of zeros, and how the row differs from it."""
        for j in range(first, stop):
            if math.isnan(self.base[j]):
                self.base[j] = _log_zeros(self, j, 0)
            out[j] = self.base[j]
        product, inverse, n_factors = self.work[0, first:stop], self.work[1, first:stop], 0
        product[:] = 1.0
        for e in range(self.starts[i], self.starts[i + 1]):
            x, v = self.values[e], self.columns[e]
            if math.isnan(x):
                for j in range(first, stop):
                    out[j] -= _log_zero(self, v, self.N[v, j], self.size[j] - self.absent[v, j])
                continue
            for j in range(first, stop):
                inverse[j - first] = 1.0 / _odds(self, v, self.N[v, j], self.size[j] - self.absent[v, j])
            if x > LONG:
                _add_long(out[first:stop], self.alpha[v], self.N[v, first:stop], x, inverse)
                continue
            for more in range(int(x)):
                _multiply(product, self.alpha[v] + more, self.N[v, first:stop], inverse)
                n_factors += 1
                if n_factors % FACTORS == 0:
                    add_logs(out[first:stop], product, 1.0)
        if n_factors % FACTORS:
            add_logs(out[first:stop], product, 1.0)

    def score_without(self, i: int, c: int) -> float:
        """The counts of row i taken off as it is read."""
        if math.isnan(self.before[c]):
            self.before[c] = _log_zeros(self, c, 1)
        total = self.before[c]
        for e in range(self.starts[i], self.starts[i + 1]):
            v, x = self.columns[e], self.values[e]
            n = self.size[c] - self.absent[v, c]
            if math.isnan(x):
                total -= _log_zero(self, v, self.N[v, c], n - 1)
                continue
            rest = self.N[v, c] - x
            total += _log_zero(self, v, rest, n - 1) - _log_zero(self, v, self.N[v, c], n - 1)
            total += _log_rising(self.alpha[v] + rest, x) - x * math.log(_odds(self, v, rest, n - 1))
        return float(total)

    def join(self, i: int, c: int) -> None:
        """Counts are added."""
        _count(self, i, c, 1)

    def leave(self, i: int, c: int) -> bool:
        """Counts are taken off."""
        _count(self, i, c, -1)
        return True

    def copy(self, a: int, b: int) -> None:
        """All that is kept of a column."""
        copy_column(self.N, a, b)
        copy_column(self.absent, a, b)
        self.base[b], self.before[b], self.size[b] = self.base[a], self.before[a], self.size[a]


@either
def _odds(law: Law, v: int, total: float, n: float) -> float:
    """What p(x)/p(0) is divided by for each event, given the sum of n cells."""
    return float(law.beta[v] + (n - total) if law.binary else law.beta[v] + n + 1.0)


@either
def _log_zero(law: Law, v: int, total: float, n: float) -> float:
    """Log p(0) in column v given the sum of n cells; 0 where there is no such cell."""
    if law.binary:
        return math.log(_zero(law, v, total, n))
    return float(-(law.alpha[v] + total) * math.log1p(1.0 / (law.beta[v] + n))) if n >= 0 else 0.0


@either
def _zero(law: Law, v: int, total: float, n: float) -> float:
    """p(0) in binary column v; 1 where there is no such cell."""
    return float((law.beta[v] + (n - total)) / (law.alpha[v] + law.beta[v] + n)) if n >= total else 1.0


@either
def _log_zeros(law: Law, c: int, gone: int) -> float:
    """Score of a row of zeros in cluster c, which `gone` rows of zeros have left."""
    log_p, product = 0.0, 1.0
    for v in range(law.alpha.size):
        n = law.size[c] - law.absent[v, c] - gone
        if not law.binary:
            log_p += _log_zero(law, v, law.N[v, c], n)
            continue
        product *= _zero(law, v, law.N[v, c], n)
        if v % FACTORS == 0:
            log_p += math.log(product)
            product = 1.0
    return log_p + math.log(product)


@either
def _count(law: Law, i: int, c: int, sign: int) -> None:
    for e in range(law.starts[i], law.starts[i + 1]):
        if math.isnan(law.values[e]):
            law.absent[law.columns[e], c] += sign
        else:
            law.N[law.columns[e], c] += sign * law.values[e]
    law.size[c] += sign
    law.base[c] = law.before[c] = math.nan


@kernel
def _multiply(product: FloatArray, a: float, N: FloatArray, inverse: FloatArray) -> None:
    for j in range(product.size):
        product[j] *= (a + N[j]) * inverse[j]


@kernel
def _add_long(total: FloatArray, a: float, N: FloatArray, x: float, inverse: FloatArray) -> None:
    for j in range(total.size):
        total[j] += math.lgamma(a + N[j] + x) - math.lgamma(a + N[j]) + x * math.log(inverse[j])
