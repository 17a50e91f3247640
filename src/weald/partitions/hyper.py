"""What the priors share about hyperparameters: validation, and moves of a concentration and of a discount.

    concentration ~ Gamma(shape, rate),     discount ~ Uniform(0, 1)

Both moves are slice samplers (`slice1d`) on any log likelihood of the block sizes, the first one on the log scale.

    >>> from weald.partitions import DirichletProcess
    >>> rng = np.random.default_rng(0)
    >>> alpha = resample_concentration(1.0, 1.0, 1.0, lambda a: DirichletProcess(a).log_eppf([5, 1]), rng)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weald._typing import Array, FloatArray
from weald.exceptions import DataError, ParameterError
from weald.partitions.slice1d import slice_sample

LOG_RANGE = 575.0  # |log concentration| stays below this, so that no exp overflows or vanishes


def check_positive(prior: Any, *names: str) -> None:
    """Raise unless the named fields of a prior are positive and finite."""
    for name in names:
        value = getattr(prior, name)
        if not (isinstance(value, int | float | np.number) and 0.0 < value < math.inf):
            raise ParameterError(
                f"{type(prior).__name__}: {name} must be positive and finite, got {value!r}; try {name}=1.0"
            )


def check_hyperprior(prior: Any) -> None:
    """Raise unless the Gamma hyperprior (shape, rate) is whole: shape None keeps the concentration fixed."""
    if prior.shape is not None:
        check_positive(prior, "shape", "rate")


def check_discount(prior: Any, lowest: float, words: str) -> None:
    """Raise unless the field `discount` lies in [lowest, 1)."""
    if not lowest <= prior.discount < 1.0:
        raise ParameterError(
            f"{type(prior).__name__}: discount must lie in {words}, got {prior.discount!r}; try discount=0.25"
        )


def check_items(sizes: Array) -> None:
    """Raise where there is no item to learn from."""
    if np.sum(sizes) <= 0:
        raise DataError("hyperparameters need at least one item: got no blocks; skip the update of an empty model")


def log_gamma_draw(shape: float | Array, rng: np.random.Generator) -> FloatArray:
    """Log of Gamma(shape, 1) draws, finite for shapes down to 1e-300: Gamma(a) = Gamma(a + 1) U^(1/a)."""
    a = np.asarray(shape, np.float64)
    log_boost: FloatArray = np.log(rng.standard_gamma(a + 1.0)) - rng.standard_exponential(a.shape) / a
    return log_boost


def log_sticks(a: Array, b: Array, rng: np.random.Generator) -> FloatArray:
    """(k-1,), (k-1,) -> (k,): log weights of sticks beta_j ~ Beta(a_j, b_j); the last entry is the rest."""
    log_a, log_b = log_gamma_draw(a, rng), log_gamma_draw(b, rng)
    log_sum = np.logaddexp(log_a, log_b)
    log_w = np.zeros(log_a.size + 1)
    log_w[1:] = np.cumsum(log_b - log_sum)
    log_w[:-1] += log_a - log_sum
    return log_w


def gamma_draw(shape: float, rate: float, rng: np.random.Generator) -> float:
    """One Gamma(shape, rate) draw, kept inside the floating range."""
    return math.exp(max(-LOG_RANGE, float(log_gamma_draw(shape, rng)) - math.log(rate)))


def resample_concentration(
    value: float, shape: float | None, rate: float, log_likelihood: Callable[[float], float], rng: np.random.Generator
) -> float:
    """One slice move of log concentration under Gamma(shape, rate) times a likelihood; shape None keeps it."""
    if shape is None:
        return value

    def log_density(x: float) -> float:
        return shape * x - rate * math.exp(x) + log_likelihood(math.exp(x))

    return math.exp(slice_sample(log_density, math.log(value), rng, lower=-LOG_RANGE, upper=LOG_RANGE))


def resample_discount(value: float, log_likelihood: Callable[[float], float], rng: np.random.Generator) -> float:
    """One slice move of a discount in (0, 1) under a uniform prior times a likelihood."""
    return slice_sample(log_likelihood, value, rng, width=0.25, lower=1e-12, upper=1.0 - 1e-9)
