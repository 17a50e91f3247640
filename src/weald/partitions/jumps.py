"""Masses of the atoms of a random measure, as many as lie above a threshold.

Given a partition with sizes n_j, the measures behind all priors of Gibbs type are, up to scale, independent masses

    G_j ~ Gamma(n_j - sigma, 1)   of the k clusters,  and the points g of a Poisson process of intensity
    c g^(-1-sigma) e^-g dg        elsewhere (0 <= sigma < 1), or K - k masses Gamma(-sigma, 1) (sigma < 0),

| prior | c |
|---|---|
| Dirichlet process | alpha |
| Pitman-Yor | beta sigma / Gamma(1 - sigma), beta ~ Gamma(theta/sigma + k, 1); theta where sigma = 0 |
| normalised generalised gamma | alpha (1+u)^sigma sigma / Gamma(1 - sigma), given its auxiliary variable u |

and all masses sum to about n. There are infinitely many points, but few above a threshold. They are found by thinning
a process whose points are easy to draw,

    g^(-1-sigma) on (least, 1), kept with probability e^-g;     e^-g above 1, kept with probability g^(-1-sigma),

which needs no incomplete gamma function and is exact for every sigma. Cost: at most e points for each that is kept.

    >>> log_g = log_points_above(0.01, 2.0, 0.0, np.random.default_rng(0))
    >>> bool((log_g > np.log(0.01)).all())
    True

References: J. Pitman, M. Yor, Annals of Probability 25 (1997), proposition 21; L. James, A. Lijoi, I. Pruenster, Scand.
J. Stat. 36 (2009), theorem 1; J. Kingman, Poisson Processes (1993), chapter 5.
"""

from __future__ import annotations

import math

import numpy as np

from weald._typing import FloatArray
from weald.exceptions import ParameterError
from weald.partitions.hyper import log_gamma_draw


def log_points_above(least: float, rate: float, sigma: float, rng: np.random.Generator) -> FloatArray:
    """Logs of the points above `least` of the Poisson process with intensity rate g^(-1-sigma) e^-g, 0 <= sigma < 1.

    Parameters
    ----------
    least : float
        Threshold, positive.
    rate, sigma : float
        Of the intensity.
    rng : numpy Generator

    Returns
    -------
    (e,) array
        In no order.
    """
    _check_positive(least)
    cut = max(least, 1.0)
    reach = _power_integral(-min(math.log(least), 0.0), sigma)
    y = reach * rng.random(rng.poisson(rate * reach))
    log_low = -(np.log1p(sigma * y) / sigma if sigma > 0.0 else y)
    log_low = log_low[rng.random(y.size) < np.exp(-np.exp(log_low))]
    n_high = rng.poisson(rate * math.exp(-cut - (1.0 + sigma) * math.log(cut)))
    log_high = np.log1p(rng.standard_exponential(n_high) / cut)  # less log cut
    kept = rng.standard_exponential(n_high) > (1.0 + sigma) * log_high
    return np.concatenate([log_low, math.log(cut) + log_high[kept]])


def log_gammas_above(least: float, n: int, shape: float, rng: np.random.Generator) -> FloatArray:
    """(e,): those of n draws of log Gamma(shape, 1) that lie above log `least`."""
    _check_positive(least)
    log_g = log_gamma_draw(np.full(n, shape), rng)
    return log_g[log_g > math.log(least)]


def stable_rate(beta: float, sigma: float) -> float:
    """Beta sigma / Gamma(1 - sigma), for 0 < sigma < 1."""
    return beta * sigma / math.gamma(1.0 - sigma)


def _power_integral(x: float, sigma: float) -> float:
    """Integral of g^(-1-sigma) from e^-x to 1."""
    return math.expm1(sigma * x) / sigma if sigma > 0.0 else x


def _check_positive(least: float) -> None:
    if not 0.0 < least < math.inf:
        raise ParameterError(f"the least mass must be positive and finite, got {least!r}; try 0.01")
