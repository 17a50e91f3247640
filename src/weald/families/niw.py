"""Normal-inverse-Wishart: the conjugate law of means and a covariance matrix, for one or several means.

    Sigma ~ IW(nu, Psi),   mu_k | Sigma ~ N(m, Sigma/kappa)

Data with n, S1 = sum x, S2 = sum x x' give (journal (60)-(63); Murphy 2007)

    kappa' = kappa + n     nu' = nu + n     m' = (kappa m + S1)/kappa'
    Psi'   = Psi + (S2 - S1 S1'/n) + kappa n/kappa' (S1/n - m)(S1/n - m)'

Several means that share one Sigma (`pooled`) add their n to nu and their scatters to Psi. The joint density of K means
and Sigma falls as |Sigma|^-(nu + d + 1 + K)/2 exp(-tr(Psi Sigma^-1)/2) at the means: its mode is Psi/(nu + d + 1 + K).
Draws use Bartlett's decomposition. Arrays carry leading axes k; `nu` and `psi` have 1 in place of k when pooled.

Symmetric matrices travel in T and eta as svec: the upper triangle, off-diagonal entries times sqrt 2, so that
<svec A, svec B> = tr(A B).

    >>> svec(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3)
    array([1.   , 2.828, 3.   ])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
from scipy.special import digamma, gammaln, multigammaln

from weald._kernel import kernel
from weald._typing import Array, FloatArray, IntArray

Precision = tuple[FloatArray, FloatArray, FloatArray]  # mu (k, d), Lambda (k|1, d, d), log|Lambda| (k|1,)


@cache
def _triangle(d: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Rows and columns of the upper triangle, and what its entries are multiplied by."""
    i, j = np.triu_indices(d)
    return i, j, np.where(i == j, 1.0, np.sqrt(2))


def svec(M: Array) -> FloatArray:
    """(..., d, d) -> (..., d(d+1)/2): the upper triangle, off-diagonals times sqrt 2."""
    i, j, factor = _triangle(M.shape[-1])
    half: FloatArray = M[..., i, j] * factor
    return half


def smat(v: Array, d: int) -> FloatArray:
    """(..., d(d+1)/2) -> (..., d, d): the symmetric matrix of svec v."""
    i, j, factor = _triangle(d)
    M = np.empty((*v.shape[:-1], d, d))
    M[..., i, j] = M[..., j, i] = v / factor
    return M


@kernel
def fill_svec(Z: FloatArray, first: int, T: FloatArray) -> None:
    """Write (z, svec(zz')) of the rows of Z into rows first, first + 1, ... of T."""
    n, d = Z.shape
    root = np.sqrt(2.0)
    for row in range(n):
        c = d
        for i in range(d):
            z = Z[row, i]
            T[first + row, i] = z
            T[first + row, c] = z * z
            c += 1
            for j in range(i + 1, d):
                T[first + row, c] = root * z * Z[row, j]
                c += 1


@dataclass(frozen=True, eq=False)
class NormalInverseWishart:
    """The law of means (k, d) and covariances: `mean` (..., d), `kappa` (...), `nu` (...), `psi` (..., d, d)."""

    mean: Array
    kappa: Array
    nu: Array
    psi: Array

    @property
    def d(self) -> int:
        """Entries of a mean."""
        return int(self.mean.shape[-1])

    def update(self, S1: Array, S2: Array, n: Array, *, pooled: bool) -> Self:
        """The law given S1 (..., d), S2 (..., d, d), n (...); pooled over the leading axis when Sigma is shared."""
        average = S1 / np.where(n > 0, n, 1.0)[..., None]
        kappa = self.kappa + n
        shift = average - self.mean
        scatter = S2 - S1[..., :, None] * average[..., None, :]
        scatter += (self.kappa * n / kappa)[..., None, None] * (shift[..., :, None] * shift[..., None, :])
        mean = self.mean + (n / kappa)[..., None] * shift
        if pooled:
            n, scatter = n.sum(0, keepdims=True), scatter.sum(0, keepdims=True)
        return type(self)(mean, kappa, self.nu + n, self.psi + scatter)

    def log_normaliser(self) -> tuple[FloatArray, FloatArray]:
        """Of the means (k,) and of the covariances (k|1,), without powers of 2 pi."""
        log_det = np.linalg.slogdet(self.psi)[1]
        covariances = multigammaln(self.nu / 2, self.d) + self.nu / 2 * (self.d * np.log(2) - log_det)
        return -self.d / 2 * np.log(self.kappa), covariances

    def log_density(self, mu: Array, precision: Array) -> float:
        """Log density of means (k, d) and of the distinct precisions (k|1, d, d), in (mu, Sigma)."""
        log_det = np.linalg.slogdet(precision)[1]
        shift = mu - self.mean
        distance = self.kappa * np.einsum("kd,kd->k", shift, (precision @ shift[..., None])[..., 0])
        means = 0.5 * (log_det - distance) + 0.5 * self.d * np.log(self.kappa / (2 * np.pi))
        trace = np.einsum("ij,kji->k", self.psi, precision)
        covariances = 0.5 * (self.nu + self.d + 1) * log_det - 0.5 * trace - self.log_normaliser()[1]
        return float(means.sum() + covariances.sum())

    def log_predictive(self, x: Array) -> FloatArray:
        """(m, d) -> (m, k): log density of the next x, a Student t, times (2 pi)^(d/2)."""
        d, L = self.d, np.linalg.cholesky(self.psi)
        W = np.linalg.inv(L)
        share = self.kappa / (self.kappa + 1)
        log_det = 2 * np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(-1)
        power = (self.nu + 1) / 2
        constant = gammaln(power) - gammaln(power - d / 2) + 0.5 * d * np.log(2 * share) - 0.5 * log_det
        Y = (x @ W.reshape(-1, d).T).reshape(-1, W.shape[0], d) - (W @ self.mean[..., None])[..., 0]
        log_p: FloatArray = constant - power * np.log1p(share * np.einsum("nkd,nkd->nk", Y, Y))
        return log_p

    def mode(self) -> Precision:
        """Means and precisions at the mode of their joint density."""
        means_each = self.mean.shape[0] / self.nu.shape[0]
        power = self.nu + self.d + 1 + means_each
        precision = power[:, None, None] * np.linalg.inv(self.psi)
        return self.mean, precision, self.d * np.log(power) - np.linalg.slogdet(self.psi)[1]

    def sample(self, rng: np.random.Generator) -> Precision:
        """One draw: Lambda = B B' with B = L^-T A, Psi = L L', A lower triangular (Bartlett)."""
        d, L = self.d, np.linalg.cholesky(self.psi)
        A = np.tril(rng.standard_normal(self.psi.shape), -1)
        roots = np.sqrt(np.maximum(rng.chisquare(self.nu[:, None] - np.arange(d)), 1e-290))
        A[:, np.arange(d), np.arange(d)] = roots
        B = np.linalg.solve(np.swapaxes(L, -1, -2), A)
        noise = rng.standard_normal((*self.mean.shape, 1)) / np.sqrt(self.kappa)[:, None, None]
        mu = self.mean + (L @ np.linalg.solve(np.swapaxes(A, -1, -2), noise))[..., 0]
        log_det = 2 * (np.log(roots) - np.log(np.diagonal(L, axis1=-2, axis2=-1))).sum(-1)
        return mu, B @ np.swapaxes(B, -1, -2), log_det

    def expected(self) -> tuple[Precision, FloatArray]:
        """Means, expected precisions and log determinants, and d/kappa (k,): the rest of E[mu' Lambda mu]."""
        half = (self.nu[:, None] - np.arange(self.d)) / 2
        log_det = digamma(half).sum(-1) + self.d * np.log(2) - np.linalg.slogdet(self.psi)[1]
        precision = self.nu[:, None, None] * np.linalg.inv(self.psi)
        return (self.mean, precision, log_det), self.d / self.kappa
