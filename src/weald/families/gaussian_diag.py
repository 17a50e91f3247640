"""Gaussian with independent columns, Normal-inverse-Gamma prior for each.

    x_j | k ~ N(mu_kj, v_kj),   v_kj ~ IG(nu/2, psi_j/2),   mu_kj | v_kj ~ N(m0_j, v_kj/kappa)
    T = (z, z^2, 1),   eta = (mu/v, -1/(2v), -sum_j [mu_j^2/(2 v_j) + log(v_j)/2]),   z = (x - centre)/scale

Hyperparameters are kept in standardised units. The default follows Fraley & Raftery (J. Classification 2007), each
column a one-dimensional case: m0 = 0, kappa = 0.01, nu = 3, psi = K^(-2/d), so that the prior mean of v is the share of
the variance that one of K components would have. MAP is the joint mode, v = psi_n / (nu_n + 3). NaN cells are
marginalised in the wide layout (see `weald.families.factorised`). Cost of scores: n k (2d + 1).

Reference: journal (51), (60)-(61) with D = 1.

    >>> family = DiagonalGaussian.from_data(np.array([[0.0, 1.0], [2.0, 5.0]]))
    >>> S = family.sufficient(np.array([[0.0, 1.0], [2.0, 5.0]])).sum(0, keepdims=True)
    >>> family.named(family.mode_eta(S))["means"]
    array([[1., 3.]])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from weald._typing import Array, FloatArray, Matrix
from weald.families.checks import (
    choose_prior,
    dense,
    field_array,
    field_number,
    rows_needed,
    same_length,
    spread,
    whole_components,
)
from weald.families.factorised import AbstractFactorised, Cells
from weald.families.nig import Natural, NormalInverseGamma, moments
from weald.families.standardise import REACH, fill_standard, location_scale, standard


@dataclass(frozen=True, eq=False)
class DiagonalGaussian(AbstractFactorised):
    """Gaussian with diagonal covariance.

    Parameters
    ----------
    centre, scale : ndarray of shape (d,)
        Data are standardised as (x - centre) / scale.
    m0, psi : ndarray of shape (d,)
        Prior mean and scale, in standardised units.
    kappa, nu : float
        Prior counts behind the mean and behind the variance.
    missing : bool
        Wide layout, in which NaN cells are marginalised.
    """

    centre: FloatArray
    scale: FloatArray
    m0: FloatArray
    psi: FloatArray
    kappa: float
    nu: float
    missing: bool = False
    n_blocks: ClassVar[int] = 2

    def __post_init__(self) -> None:
        d = field_array(self, "centre").size
        field_array(self, "m0")
        for name in ("scale", "psi"):
            field_array(self, name, positive=True)
        same_length(self, d, "scale", "m0", "psi")
        field_number(self, "kappa")
        field_number(self, "nu")

    @classmethod
    def from_data(cls, X: Matrix, n_components: int = 1, *, weight: FloatArray | None = None, **prior: Any) -> Self:
        """Default prior for X (n, d).

        Overrides, in the units of the data: `mean` (d,), `kappa`, `nu`, `psi` (d,); numbers hold for every column.
        """
        X = dense(X, missing=True)
        rows_needed(X)
        d, K = X.shape[1], whole_components(n_components)
        centre, scale = location_scale(X, weight)
        given = choose_prior({"mean": None, "kappa": 0.01, "nu": 3.0, "psi": None}, prior)
        m0 = np.zeros(d) if given["mean"] is None else (spread("mean", given["mean"], (d,)) - centre) / scale
        psi = np.full(d, K ** (-2 / d)) if given["psi"] is None else spread("psi", given["psi"], (d,)) / scale / scale
        return cls(centre, scale, m0, psi, given["kappa"], given["nu"], bool(np.isnan(X).any()))

    @property
    def n_columns(self) -> int:
        """Columns of data: d."""
        return self.centre.size

    def fill_cells(self, X: Array, out: Array) -> None:
        """Z and its square."""
        fill_standard(X, self.centre, self.scale, REACH[X.dtype], True, out)

    def coordinates(self, X: Matrix) -> FloatArray:
        """(n, d) -> (n, d): z, 0 for NaN."""
        Z = standard(dense(X, self.n_columns, missing=True), self.centre, self.scale)
        return np.where(np.isnan(Z), 0.0, Z)

    def cell_log_base(self, X: Array) -> FloatArray:
        """(m, d): the Jacobian and the power of 2 pi."""
        return np.broadcast_to(-np.log(self.scale) - 0.5 * np.log(2 * np.pi), X.shape)

    def cell_log_marginal(self, t: Array, n: Array) -> FloatArray:
        """(..., d): ratio of normalisers."""
        return self._posterior(t, n).log_normaliser() - self._prior().log_normaliser()

    def log_predictive(self, S: Array, T: Matrix) -> FloatArray:
        """(k, p), (n, p) -> (n, k): Student t in each column."""
        law = self._posterior(*self.cells(S))
        return self.sum_cells(lambda z: law.log_predictive(z[..., None]), S.shape[0], T)

    def cell_mode(self, t: Array, n: Array) -> Cells:
        """Joint mode of mean and variance."""
        return _cells(self._posterior(t, n).mode())

    def cell_sample(self, t: Array, n: Array, rng: np.random.Generator) -> Cells:
        """One draw of mean and variance."""
        return _cells(self._posterior(t, n).sample(rng))

    def cell_expected(self, t: Array, n: Array) -> Cells:
        """Expected natural parameters."""
        return _cells(self._posterior(t, n).expected())

    def cell_log_partition(self, eta: Array) -> FloatArray:
        """mu^2/(2v) + log(v)/2."""
        mu, v = self._moments(eta)
        return 0.5 * (mu**2 / v + np.log(v))

    def cell_log_prior(self, eta: Array) -> FloatArray:
        """Normal-inverse-Gamma density of (mu, v) in standardised units."""
        mu, v = self._moments(eta)
        return self._prior().log_density(mu[..., None], v)

    def sample_x(self, eta: Array, rng: np.random.Generator) -> FloatArray:
        """(n, p) -> (n, d)."""
        mu, v = self._moments(self.natural(eta))
        return self.centre + self.scale * (mu + np.sqrt(v) * rng.standard_normal(mu.shape))

    def named(self, eta: Array) -> dict[str, Array]:
        """Means (k, d) and covariances (k, d): variances, 0 or inf where the unit makes them unrepresentable."""
        mu, v = self._moments(self.natural(eta))
        with np.errstate(over="ignore", under="ignore"):
            return {"means": self.centre + self.scale * mu, "covariances": self.scale * (self.scale * v)}

    def _prior(self) -> NormalInverseGamma:
        return NormalInverseGamma(self.m0[:, None], np.asarray(self.kappa), np.asarray(self.nu), self.psi)

    def _posterior(self, t: Array, n: Array) -> NormalInverseGamma:
        return self._prior().update(t[..., 0, :, None], t[..., 1, :], n)

    @staticmethod
    def _moments(eta: Array) -> tuple[FloatArray, FloatArray]:
        mu, v = moments(eta[..., 0, :, None], eta[..., 1, :])
        return mu[..., 0], v


def _cells(law: Natural) -> Cells:
    eta_1, eta_2, minus_A = law
    return np.stack([eta_1[..., 0], eta_2], axis=-2), minus_A
