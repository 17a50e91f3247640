"""Gaussians with a covariance matrix: all that the full and the tied family share.

    x | k ~ N(mu_k, Sigma_k),   Lambda = Sigma^-1,   z = (x - centre)/scale
    T = (z, svec(z z'), 1),   eta = (Lambda mu, -svec(Lambda)/2, -(mu' Lambda mu - log|Lambda|)/2)

with the Normal-inverse-Wishart prior of `weald.families.niw`, kept in standardised units. The default follows Fraley &
Raftery (J. Classification 2007): m0 = 0, kappa = 0.01, nu = d + 2, Psi = K^(-2/d) I, the prior mean of Sigma. T is
d(d + 3)/2 + 1 wide. NaN cells are refused: use covariance='diag'. Cost: n d^2/2 to build T, n k d^2/2 for scores,
n k d^2 for `log_predictive` (a Student t by one batched Cholesky factorisation), k d^3 for each update.

    >>> family = FullGaussian.from_data(np.eye(3))      # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from weald._typing import Array, FloatArray, Matrix
from weald.exceptions import ParameterError
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
from weald.families.niw import NormalInverseWishart, fill_svec, smat, svec
from weald.families.standardise import NO_MISSING, blocks, location_scale, standard


@dataclass(frozen=True, eq=False)
class AbstractMatrixGaussian(AbstractOneLayout):
    """Gaussian with covariance matrices.

    Parameters
    ----------
    centre, scale : ndarray of shape (d,)
        Data are standardised as (x - centre) / scale.
    m0 : ndarray of shape (d,)
        Prior mean, in standardised units.
    psi : ndarray of shape (d, d)
        Inverse-Wishart scale matrix, in standardised units.
    kappa : float
        Prior count behind the mean.
    nu : float
        Inverse-Wishart degrees of freedom, above d - 1.
    """

    centre: FloatArray
    scale: FloatArray
    m0: FloatArray
    psi: FloatArray
    kappa: float
    nu: float
    accepts_missing: ClassVar[bool] = False
    shared: ClassVar[bool]
    """Whether all components have one covariance."""

    def __post_init__(self) -> None:
        d = field_array(self, "centre").size
        field_array(self, "scale", positive=True)
        field_array(self, "m0")
        psi = field_array(self, "psi", ndim=2)
        same_length(self, d, "scale", "m0", "psi")
        if not np.allclose(psi, psi.T) or np.linalg.eigvalsh(psi)[0] <= 0:
            raise ParameterError(f"{type(self).__name__}.psi must be symmetric and positive definite")
        field_number(self, "kappa")
        field_number(self, "nu", above=d - 1)

    @classmethod
    def from_data(cls, X: Matrix, n_components: int = 1, *, weight: FloatArray | None = None, **prior: Any) -> Self:
        """Default prior for X (n, d).

        Overrides, in the units of the data: `mean` (d,), `kappa`, `nu`, `psi` (d, d).
        """
        X = dense(X, advice=NO_MISSING)
        rows_needed(X)
        d, K = X.shape[1], whole_components(n_components)
        centre, scale = location_scale(X, weight)
        given = choose_prior({"mean": None, "kappa": 0.01, "nu": d + 2.0, "psi": None}, prior)
        m0 = np.zeros(d) if given["mean"] is None else (spread("mean", given["mean"], (d,)) - centre) / scale
        if given["psi"] is None:
            psi = K ** (-2 / d) * np.eye(d)
        else:
            psi = spread("psi", given["psi"], (d, d)) / scale[:, None] / scale
        return cls(centre, scale, m0, psi, given["kappa"], given["nu"])

    @property
    def n_columns(self) -> int:
        """Columns of data: d."""
        return self.centre.size

    @property
    def width(self) -> int:
        """d(d + 3)/2 + 1."""
        return self.n_columns * (self.n_columns + 3) // 2 + 1

    @property
    def n_parameters(self) -> int:
        """The mean, and the covariance unless it is shared."""
        return self.n_columns + (not self.shared) * self._triangle

    @property
    def n_shared_parameters(self) -> int:
        """The covariance, if it is shared."""
        return self.shared * self._triangle

    def sufficient(self, X: Matrix) -> FloatArray:
        """(n, d) -> (n, p): z, svec(zz') and 1."""
        X = dense(X, self.n_columns, advice=NO_MISSING)
        T = np.ones((X.shape[0], self.width), X.dtype)
        for rows in blocks(X.shape[0]):
            fill_svec(np.ascontiguousarray(standard(X[rows], self.centre, self.scale)), rows.start, T)
        return T

    def coordinates(self, X: Matrix) -> FloatArray:
        """(n, d) -> (n, d): z."""
        return standard(dense(X, self.n_columns, advice=NO_MISSING), self.centre, self.scale)

    def log_base(self, X: Matrix) -> FloatArray:
        """(n,): the Jacobian and the power of 2 pi."""
        return np.full(X.shape[0], -np.log(self.scale).sum() - 0.5 * self.n_columns * np.log(2 * np.pi))

    def log_marginal(self, S: Array) -> FloatArray:
        """(..., p) -> (...): log evidence of each component on its own."""
        means, covariances = self._posterior(S, pooled=False).log_normaliser()
        prior_means, prior_covariances = self._prior().log_normaliser()
        return means - prior_means + covariances - prior_covariances

    def log_evidence(self, S: Array) -> float:
        """(k, p) -> float: joint log evidence; covariances count once if they are shared."""
        means, covariances = self._posterior(S, pooled=self.shared).log_normaliser()
        prior_means, prior_covariances = self._prior().log_normaliser()
        return float((means - prior_means).sum() + (covariances - prior_covariances).sum())

    def log_predictive(self, S: Array, T: Matrix) -> FloatArray:
        """(k, p), (n, p) -> (n, k): Student t, in tiles."""
        law, d = self._posterior(S, pooled=self.shared), self.n_columns
        step = max(1, PREDICTIVE_TILE // (S.shape[0] * d))
        tiles = [law.log_predictive(np.asarray(T[a : a + step, :d], np.float64)) for a in range(0, T.shape[0], step)]
        return np.concatenate(tiles) if tiles else np.empty((0, S.shape[0]))

    def mode_eta(self, S: Array) -> FloatArray:
        """(k, p) -> (k, p): joint modes of means and covariances."""
        return _pack(*self._posterior(S, pooled=self.shared).mode())

    def sample_eta(self, S: Array, rng: np.random.Generator) -> FloatArray:
        """(k, p) -> (k, p): draws; one covariance for all if it is shared."""
        return _pack(*self._posterior(S, pooled=self.shared).sample(rng))

    def expected_eta(self, S: Array) -> FloatArray:
        """(k, p) -> (k, p): expectations."""
        expected, rest = self._posterior(S, pooled=self.shared).expected()
        eta = _pack(*expected)
        eta[:, -1] -= 0.5 * rest
        return eta

    def log_prior(self, eta: Array) -> float:
        """(k, p) -> float: Normal-inverse-Wishart density of (mu, Sigma) in standardised units."""
        mu, precision = self._moments(eta)
        return self._prior().log_density(mu, precision[:1] if self.shared else precision)

    def sample_x(self, eta: Array, rng: np.random.Generator) -> FloatArray:
        """(n, p) -> (n, d), in tiles."""
        out = np.empty((eta.shape[0], self.n_columns))
        step = max(1, PREDICTIVE_TILE // self.n_columns**2)
        for a in range(0, eta.shape[0], step):
            mu, precision = self._moments(eta[a : a + step])
            root = np.swapaxes(np.linalg.cholesky(precision), -1, -2)
            noise = np.linalg.solve(root, rng.standard_normal((*mu.shape, 1)))[..., 0]
            out[a : a + step] = self.centre + self.scale * (mu + noise)
        return out

    def named(self, eta: Array) -> dict[str, Array]:
        """Means (k, d) and covariances (k, d, d), 0 or inf where the unit makes them unrepresentable."""
        mu, precision = self._moments(eta)
        with np.errstate(over="ignore", under="ignore"):
            covariances = self.scale[:, None] * (self.scale * np.linalg.inv(precision))
        return {"means": self.centre + self.scale * mu, "covariances": covariances}

    @property
    def _triangle(self) -> int:
        return self.n_columns * (self.n_columns + 1) // 2

    def _prior(self) -> NormalInverseWishart:
        return NormalInverseWishart(self.m0, np.asarray(self.kappa), np.asarray(self.nu), self.psi)

    def _posterior(self, S: Array, *, pooled: bool) -> NormalInverseWishart:
        d = self.n_columns
        return self._prior().update(S[..., :d], smat(S[..., d:-1], d), S[..., -1], pooled=pooled)

    def _moments(self, eta: Array) -> tuple[FloatArray, FloatArray]:
        d = self.n_columns
        precision = -2 * smat(eta[..., d:-1], d)
        return np.linalg.solve(precision, eta[..., :d, None])[..., 0], precision


def _pack(mu: FloatArray, precision: FloatArray, log_det: FloatArray) -> FloatArray:
    """(k, d), (k|1, d, d), (k|1,) -> (k, p)."""
    k = mu.shape[0]
    h = (precision @ mu[..., None])[..., 0]
    half = np.broadcast_to(-0.5 * svec(precision), (k, mu.shape[1] * (mu.shape[1] + 1) // 2))
    minus_A = -0.5 * (np.einsum("kd,kd->k", mu, h) - log_det)
    return np.concatenate([h, half, minus_A[:, None]], axis=1)
