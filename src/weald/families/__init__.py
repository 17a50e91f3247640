"""Likelihoods with their conjugate priors, one exponential family per file; contract A in `weald.families.base`.

>>> family = family_from_name("gaussian", "diag", [[0.0, 1.0], [2.0, 5.0]], 1)
>>> family.width
5
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weald._typing import FloatArray, Matrix
from weald.exceptions import ParameterError
from weald.families.base import AbstractFamily, predictive_from_evidence
from weald.families.bernoulli import Bernoulli
from weald.families.categorical import Categorical
from weald.families.checks import suggest
from weald.families.factorised import AbstractFactorised
from weald.families.gaussian_diag import DiagonalGaussian
from weald.families.gaussian_full import FullGaussian
from weald.families.gaussian_spherical import SphericalGaussian
from weald.families.gaussian_tied import TiedGaussian
from weald.families.multinomial import Multinomial
from weald.families.poisson import Poisson
from weald.families.product import Product

FAMILIES: dict[str, type[AbstractFamily]] = {
    "gaussian/full": FullGaussian,
    "gaussian/diag": DiagonalGaussian,
    "gaussian/spherical": SphericalGaussian,
    "gaussian/tied": TiedGaussian,
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "multinomial": Multinomial,
    "poisson": Poisson,
    "mixed": Product,
}
"""Name, with the covariance after a slash where there is a choice, to class."""


def family_class(name: str, covariance: str = "full") -> type[AbstractFamily]:
    """The class of a family by name; `covariance` is read for ``"gaussian"`` only."""
    names = {key.partition("/")[0] for key in FAMILIES}
    if name not in names:
        raise ParameterError(f"unknown family {name!r}; {suggest(name, names)}")
    key = name if name in FAMILIES else f"{name}/{covariance}"
    if key not in FAMILIES:
        kinds = [other.partition("/")[2] for other in FAMILIES if other.startswith(f"{name}/")]
        raise ParameterError(f"unknown covariance {covariance!r}; {suggest(covariance, kinds)}")
    return FAMILIES[key]


def family_from_name(
    name: str,
    covariance: str,
    X: Matrix,
    n_components: int = 1,
    *,
    weight: FloatArray | None = None,
    n_levels: Sequence[int] | None = None,
    kinds: Sequence[str] | None = None,
    **prior: Any,
) -> AbstractFamily:
    """A family with its default prior for data X.

    Parameters
    ----------
    name : str
        ``"gaussian"``, ``"bernoulli"``, ``"categorical"``, ``"multinomial"``, ``"poisson"`` or ``"mixed"``.
    covariance : str
        ``"full"``, ``"diag"``, ``"spherical"`` or ``"tied"``; read for ``"gaussian"`` only.
    X : array of shape (n, d)
        Data, checked and used to set the prior.
    n_components : int
        Expected number of components.
    weight : array of shape (n,), optional
        Positive weights of the rows.
    n_levels : sequence of int, optional
        Levels of categorical columns, where the data may not show all.
    kinds : sequence of str, optional
        Kind of each column, for ``"mixed"``.
    **prior
        Overrides of hyperparameters by name.
    """
    options = {key: value for key, value in (("n_levels", n_levels), ("kinds", kinds)) if value is not None}
    return family_class(name, covariance).from_data(X, n_components, weight=weight, **options, **prior)


__all__ = [
    "FAMILIES",
    "AbstractFactorised",
    "AbstractFamily",
    "Bernoulli",
    "Categorical",
    "DiagonalGaussian",
    "FullGaussian",
    "Multinomial",
    "Poisson",
    "Product",
    "SphericalGaussian",
    "TiedGaussian",
    "family_class",
    "family_from_name",
    "predictive_from_evidence",
]
