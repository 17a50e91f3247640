"""Gaussian with one variance for all columns, Normal-inverse-Gamma prior.

    x | k ~ N(mu_k, v_k I),   v_k ~ IG(nu/2, psi/2),   mu_k | v_k ~ N(m0, v_k/kappa I)
    T = (z, |z|^2, 1),   eta = (mu/v, -1/(2v), -|mu|^2/(2v) - d/2 log v),   z = (x - centre)/scale

One common scale, the root of the mean column variance, keeps distances as they are; a column with another unit than
the rest is not evened out. Hyperparameters are kept in standardised units; the default follows Fraley & Raftery (J.
Classification 2007): m0 = 0, kappa = 0.01, nu = 3, psi = K^(-2/d), the prior mean of v. MAP is the joint mode,
v = psi_n / (nu_n + d + 2) with nu_n = nu + n d. Cost of scores: n k (d + 2).

Reference: journal (51), (60)-(61) with Sigma = v I.

    >>> family = SphericalGaussian.from_data(np.array([[0.0, 1.0], [2.0, 5.0]]))
    >>> family.width
    4
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from weald._typing import Array, FloatArray, Matrix
from weald.families.base import PREDICTIVE_TILE, AbstractOneLayout
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
from weald.families.nig import Natural, NormalInverseGamma, moments
from weald.families.standardise import NO_MISSING, REACH, fill_standard, location_common_scale, standard


@dataclass(frozen=True, eq=False)
class SphericalGaussian(AbstractOneLayout):
    """Gaussian with covariance v I.

    Parameters
    ----------
    centre : ndarray of shape (d,)
        Data are standardised as (x - centre) / scale.
    scale : float
        One scale for all columns.
    m0 : ndarray of shape (d,)
        Prior mean, in standardised units.
    psi : float
        Prior scale of the variance, in standardised units.
    kappa, nu : float
        Prior counts behind the mean and behind the variance.
    """

    centre: FloatArray
    scale: float
    m0: FloatArray
    psi: float
    kappa: float
    nu: float
    accepts_missing: ClassVar[bool] = False

    def __post_init__(self) -> None:
        d = field_array(self, "centre").size
        field_array(self, "m0")
        same_length(self, d, "m0")
        for name in ("scale", "psi", "kappa", "nu"):
            field_number(self, name)

    @classmethod
    def from_data(cls, X: Matrix, n_components: int = 1, *, weight: FloatArray | None = None, **prior: Any) -> Self:
        """Default prior for X (n, d).

        Overrides, in the units of the data: `mean` (d,), `kappa`, `nu`, `psi` (a number).
        """
        X = dense(X, advice=NO_MISSING)
        rows_needed(X)
        d, K = X.shape[1], whole_components(n_components)
        centre, scale = location_common_scale(X, weight)
        given = choose_prior({"mean": None, "kappa": 0.01, "nu": 3.0, "psi": None}, prior)
        m0 = np.zeros(d) if given["mean"] is None else (spread("mean", given["mean"], (d,)) - centre) / scale
        psi = K ** (-2 / d) if given["psi"] is None else float(spread("psi", given["psi"], ())) / scale / scale
        return cls(centre, scale, m0, psi, given["kappa"], given["nu"])

    @property
    def n_columns(self) -> int:
        """Columns of data: d."""
        return self.centre.size

    @property
    def width(self) -> int:
        """Columns of T: d + 2."""
        return self.n_columns + 2

    @property
    def n_parameters(self) -> int:
        """A mean and a variance: d + 1."""
        return self.n_columns + 1

    @property
    def n_shared_parameters(self) -> int:
        """Components share nothing."""
        return 0

    def sufficient(self, X: Matrix) -> FloatArray:
        """(n, d) -> (n, d + 2): z, |z|^2 and 1."""
        X = dense(X, self.n_columns, advice=NO_MISSING)
        T = np.ones((X.shape[0], self.width), X.dtype)
        fill_standard(X, self.centre, np.full(self.n_columns, self.scale), REACH[X.dtype], False, T)
        return T

    def coordinates(self, X: Matrix) -> FloatArray:
        """(n, d) -> (n, d): z."""
        return standard(dense(X, self.n_columns, advice=NO_MISSING), self.centre, self.scale)

    def log_base(self, X: Matrix) -> FloatArray:
        """(n,): the Jacobian and the power of 2 pi."""
        return np.full(X.shape[0], -self.n_columns * (np.log(self.scale) + 0.5 * np.log(2 * np.pi)))

    def log_marginal(self, S: Array) -> FloatArray:
        """(..., p) -> (...): ratio of normalisers."""
        return self._posterior(S).log_normaliser() - self._prior().log_normaliser()

    def log_evidence(self, S: Array) -> float:
        """(k, p) -> float: the sum of `log_marginal`."""
        return float(self.log_marginal(S).sum())

    def log_predictive(self, S: Array, T: Matrix) -> FloatArray:
        """(k, p), (n, p) -> (n, k): Student t, in tiles."""
        law, (k, p) = self._posterior(S), S.shape
        step = max(1, PREDICTIVE_TILE // (k * p))
        out = np.empty((T.shape[0], k))
        for a in range(0, T.shape[0], step):
            out[a : a + step] = law.log_predictive(np.asarray(T[a : a + step, None, :-2], np.float64))
        return out

    def mode_eta(self, S: Array) -> FloatArray:
        """(k, p) -> (k, p): joint modes of mean and variance."""
        return _pack(self._posterior(S).mode())

    def sample_eta(self, S: Array, rng: np.random.Generator) -> FloatArray:
        """(k, p) -> (k, p): draws."""
        return _pack(self._posterior(S).sample(rng))

    def expected_eta(self, S: Array) -> FloatArray:
        """(k, p) -> (k, p): expectations."""
        return _pack(self._posterior(S).expected())

    def log_prior(self, eta: Array) -> float:
        """(k, p) -> float: Normal-inverse-Gamma density of (mu, v) in standardised units."""
        return float(self._prior().log_density(*moments(eta[..., :-2], eta[..., -2])).sum())

    def sample_x(self, eta: Array, rng: np.random.Generator) -> FloatArray:
        """(n, p) -> (n, d)."""
        mu, v = moments(eta[..., :-2], eta[..., -2])
        return self.centre + self.scale * (mu + np.sqrt(v)[:, None] * rng.standard_normal(mu.shape))

    def named(self, eta: Array) -> dict[str, Array]:
        """Means (k, d) and covariances (k,): variances, 0 or inf where the unit makes them unrepresentable."""
        mu, v = moments(eta[..., :-2], eta[..., -2])
        with np.errstate(over="ignore", under="ignore"):
            return {"means": self.centre + self.scale * mu, "covariances": self.scale * (self.scale * v)}

    def _prior(self) -> NormalInverseGamma:
        return NormalInverseGamma(self.m0, *(np.asarray(value) for value in (self.kappa, self.nu, self.psi)))

    def _posterior(self, S: Array) -> NormalInverseGamma:
        return self._prior().update(S[..., :-2], S[..., -2], S[..., -1])


def _pack(law: Natural) -> FloatArray:
    eta_1, eta_2, minus_A = law
    return np.concatenate([eta_1, eta_2[..., None], minus_A[..., None]], axis=-1)
