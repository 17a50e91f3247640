"""Gaussian with a covariance matrix for each component, Normal-inverse-Wishart prior.

    x | k ~ N(mu_k, Sigma_k),   Sigma_k ~ IW(nu, Psi),   mu_k | Sigma_k ~ N(m0, Sigma_k/kappa)

MAP is the mode of the joint density of (mu_k, Sigma_k): mu = m_n, Sigma = Psi_n / (nu + n + d + 2). Layout, default
prior and costs: `weald.families.gaussian_matrix`. Reference: journal (51), (60)-(63), the Gamma functions as in (61).

    >>> X = [[0.0, 1.0], [2.0, 5.0], [1.0, 0.0]]
    >>> family = FullGaussian.from_data(X, n_components=2)
    >>> family.named(family.mode_eta(family.sufficient(X).sum(0, keepdims=True)))["covariances"].shape
    (1, 2, 2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from weald.families.gaussian_matrix import AbstractMatrixGaussian


@dataclass(frozen=True, eq=False)
class FullGaussian(AbstractMatrixGaussian):
    """Gaussian with a full covariance for each component; parameters as `AbstractMatrixGaussian`."""

    shared: ClassVar[bool] = False
