"""Normal-inverse-Gamma: the conjugate law of a mean vector of q entries and one variance.

    v ~ IG(nu/2, psi/2),   mu | v ~ N(m, v/kappa I_q)

Data x_1..x_n in R^q with sums S1 = sum x, S2 = sum |x|^2 give (Murphy 2007, "Conjugate Bayesian analysis of the
Gaussian distribution")

    kappa' = kappa + n     nu' = nu + q n     m' = (kappa m + S1) / kappa'
    psi'   = psi + (S2 - |S1|^2/n) + kappa n/kappa' |S1/n - m|^2

and the evidence is a ratio of normalisers. The density of (mu, v) falls as v^-(nu/2 + q/2 + 1) exp(-psi/2v) at mu = m:
its mode is v = psi / (nu + q + 2). The diagonal Gaussian is one law with q = 1 for each column, the spherical Gaussian
one with q = d. Every operation is elementwise over leading axes.

    >>> prior = NormalInverseGamma(np.zeros(1), np.array(0.01), np.array(3.0), np.array(1.0))
    >>> float(prior.update(np.array([2.0]), np.array(4.0), np.array(1.0)).nu)
    4.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import digamma, gammaln

from weald._typing import Array, FloatArray

Natural = tuple[FloatArray, FloatArray, FloatArray]  # mu/v (..., q), -1/(2v) (...), -A (...)


def natural(mu: Array, v: Array) -> Natural:
    """Natural parameters and negative log partition of N(mu, v I)."""
    square = (mu**2).sum(-1)
    return mu / v[..., None], -0.5 / v, -0.5 * (square / v + mu.shape[-1] * np.log(v))


def moments(eta_1: Array, eta_2: Array) -> tuple[FloatArray, FloatArray]:
    """Mean (..., q) and variance (...) from mu/v and -1/(2v)."""
    v = -0.5 / eta_2
    return eta_1 * v[..., None], v


@dataclass(frozen=True, eq=False)
class NormalInverseGamma:
    """The law of (mu, v): `mean` (..., q), the other fields (...)."""

    mean: Array
    kappa: Array
    nu: Array
    psi: Array

    @property
    def q(self) -> int:
        """Entries of mu."""
        return int(self.mean.shape[-1])

    def update(self, S1: Array, S2: Array, n: Array) -> Self:
        """The law given statistics S1 (..., q), S2 (...), n (...)."""
        average = S1 / np.where(n > 0, n, 1.0)[..., None]
        kappa = self.kappa + n
        scatter = np.maximum(S2 - (S1 * average).sum(-1), 0.0)
        shift = self.kappa * n / kappa * ((average - self.mean) ** 2).sum(-1)
        mean = self.mean + (n / kappa)[..., None] * (average - self.mean)
        return type(self)(mean, kappa, self.nu + self.q * n, self.psi + scatter + shift)

    def log_normaliser(self) -> FloatArray:
        """(...): log of the integral of the unnormalised density, without powers of 2 pi."""
        log_norm: FloatArray = (
            gammaln(self.nu / 2) - self.nu / 2 * np.log(self.psi / 2) - self.q / 2 * np.log(self.kappa)
        )
        return log_norm

    def log_density(self, mu: Array, v: Array) -> FloatArray:
        """(...): log density at mu (..., q), v (...)."""
        distance = self.psi + self.kappa * ((mu - self.mean) ** 2).sum(-1)
        power = self.nu / 2 + self.q / 2 + 1
        log_norm = self.log_normaliser() + self.q / 2 * np.log(2 * np.pi)
        log_p: FloatArray = -power * np.log(v) - distance / (2 * v) - log_norm
        return log_p

    def log_predictive(self, x: Array) -> FloatArray:
        """(...): log density of the next x (..., q), a Student t, times (2 pi)^(q/2)."""
        share = self.kappa / (self.kappa + 1)
        power = (self.nu + self.q) / 2
        constant = gammaln(power) - gammaln(self.nu / 2) + self.q / 2 * np.log(2 * share / self.psi)
        square = np.square(x - self.mean)
        distance = square[..., 0] if self.q == 1 else square.sum(-1)
        log_p: FloatArray = constant - power * np.log1p(share / self.psi * distance)
        return log_p

    def mode(self) -> Natural:
        """Natural parameters at the mode of the density of (mu, v)."""
        return natural(self.mean, self.psi / (self.nu + self.q + 2))

    def sample(self, rng: np.random.Generator) -> Natural:
        """Natural parameters of one draw."""
        chi = np.maximum(rng.chisquare(np.broadcast_to(self.nu, self.psi.shape)), 1e-290)
        v = self.psi / chi
        noise = rng.standard_normal(self.mean.shape)
        return natural(self.mean + np.sqrt(v / self.kappa)[..., None] * noise, v)

    def expected(self) -> Natural:
        """Expected natural parameters and negative log partition."""
        precision = self.nu / self.psi
        log_v = np.log(self.psi / 2) - digamma(self.nu / 2)
        square = (self.mean**2).sum(-1) * precision + self.q / self.kappa
        return self.mean * precision[..., None], -0.5 * precision, -0.5 * (square + self.q * log_v)
