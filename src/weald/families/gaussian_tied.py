"""Gaussian with one covariance matrix for all components, inverse-Wishart prior.

    x | k ~ N(mu_k, Sigma),   Sigma ~ IW(nu, Psi),   mu_k | Sigma ~ N(m0, Sigma/kappa)

Components are dependent through Sigma: `mode_eta`, `sample_eta`, `expected_eta` and `log_predictive` pool the scatter
of all rows of S, `log_evidence(S)` is joint, and `log_marginal` gives the evidence of each component as if it were
alone. MAP of K components is the joint mode, Sigma = Psi_N / (nu + N + K + d + 1): the K means are part of the density.
With one component it is the full family. Layout, default prior and costs: `weald.families.gaussian_matrix`.

Reference: journal (51), (60)-(63) with a common Sigma; linear discriminant analysis is its case of known labels.

    >>> family = TiedGaussian.from_data([[0.0, 1.0], [2.0, 5.0], [1.0, 0.0]])
    >>> family.n_parameters, family.n_shared_parameters
    (2, 3)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from weald.families.gaussian_matrix import AbstractMatrixGaussian


@dataclass(frozen=True, eq=False)
class TiedGaussian(AbstractMatrixGaussian):
    """Gaussian with one covariance for all components; parameters as `AbstractMatrixGaussian`."""

    shared: ClassVar[bool] = True
