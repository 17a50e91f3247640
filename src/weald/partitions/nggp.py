"""The normalised generalised gamma process: between Dirichlet (sigma -> 0) and normalised stable (alpha -> 0).

    p(partition, u) = u^(n-1)/Gamma(n) exp(-alpha ((1+u)^sigma - 1)) prod_c kappa(n_c, u),
    kappa(m, u) = alpha sigma Gamma(m-sigma)/Gamma(1-sigma) (1+u)^(sigma-m),     0 < sigma < 1 (1/2: inverse Gaussian)

Given u the prior is a product over blocks, which is what tree-guided moves need (`log_kappa`, `log_joint_eppf`).
`log_eppf`, `log_weights` and `draw` have u integrated out. With t = log(1+u),

    V_{n,k} = (alpha sigma)^k / Gamma(n) int_0^inf (1-e^-t)^(n-1) exp(k sigma t - alpha (e^(sigma t) - 1)) dt,

by the trapezoid rule in log t: the integrand is unimodal and analytic, so about 200 nodes give 1e-12. It is cached.

`update` moves sigma by slice sampling with u integrated out, draws log u from its exact conditional, whose density is
log-concave (rejection under tangents), then alpha | u ~ Gamma(shape + k, rate + (1+u)^sigma - 1). As u is drawn afresh,
moves judged by `log_eppf` may run between updates; moves judged given u must come before those, right after `update`.

Weights, exact: with Poisson arrivals G_1 < G_2 < ..., jumps J_j = Gamma(1-sigma) (alpha/(alpha+G_j))^(1/sigma) come in
size-biased order, and the mass left is a tempered stable variable of parameter alpha + G_k in the same scale.
(U_j = Exponential/mass has P(U_j > u) = exp(-psi(u)), so psi(U_j) is one Poisson gap, and tilting by U_j maps
alpha to alpha (1+U_j)^sigma = alpha + gap; sigma -> 0 gives Bondesson's gamma process.)

    >>> prior = NormalisedGeneralisedGamma(concentration=1.0, discount=0.5, learn_discount=False)
    >>> prior = prior.update(np.array([5, 2, 1]), np.random.default_rng(0))

References: the model of the tree-guided MCMC supplement; L. James, A. Lijoi, I. Pruenster, Scand. J. Stat. 36
(2009); M. Kanter, Annals of Probability 3 (1975) for stable draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from weald._typing import Array, FloatArray, IntArray
from weald.exceptions import ParameterError
from weald.partitions.base import AbstractPartition, as_sizes
from weald.partitions.hyper import (
    check_discount,
    check_hyperprior,
    check_items,
    check_positive,
    gamma_draw,
    log_gamma_draw,
    resample_discount,
)
from weald.partitions.jumps import log_points_above, stable_rate

EXPONENT_LIMIT = 600.0  # e^(sigma t) beyond this is as good as infinite
DROP = 50.0  # the integrand is cut where its log is this far below its peak


@dataclass(frozen=True)
class NormalisedGeneralisedGamma(AbstractPartition):
    """Normalised generalised gamma process prior.

    Parameters
    ----------
    concentration : float
        alpha > 0. The Dirichlet process of concentration c is the limit alpha = c/sigma, sigma -> 0.
    discount : float
        sigma in (0, 1); 1/2 is the normalised inverse Gaussian process.
    log_u : float
        log of the auxiliary variable, refreshed by `update`.
    shape, rate : float
        Gamma(shape, rate) hyperprior of the concentration; with shape None `update` keeps it.
    learn_discount : bool
        Whether `update` moves the discount, under a uniform hyperprior.
    """

    concentration: float = 1.0
    discount: float = 0.5
    log_u: float = 0.0
    shape: float | None = 1.0
    rate: float = 1.0
    learn_discount: bool = True

    def __post_init__(self) -> None:
        check_positive(self, "concentration")
        check_discount(self, 1e-12, "(0, 1)")
        check_hyperprior(self)
        if not math.isfinite(self.log_u):
            raise ParameterError(
                f"NormalisedGeneralisedGamma: log_u must be finite, got {self.log_u!r}; leave it at 0.0 and call update"
            )

    @property
    def sigma(self) -> float:
        """The discount."""
        return self.discount

    def log_v(self, n: int, k: int) -> float:
        """Log of V_{n,k}, u integrated out."""
        scale = k * math.log(self.concentration * self.discount) - math.lgamma(n)
        return scale + _log_integral(Conditional(self.concentration, self.discount, n, k))

    def log_kappa(self, sizes: Array) -> FloatArray:
        """(k,) -> (k,): log kappa(n_j, u), the potential of each block given u; sizes positive."""
        sigma, t = self.discount, np.logaddexp(0.0, self.log_u)
        shape = np.asarray(sizes) - sigma
        log_kappa: FloatArray = math.log(self.concentration * sigma) + gammaln(shape) - gammaln(1.0 - sigma) - shape * t
        return log_kappa

    def log_joint_eppf(self, sizes: IntArray) -> float:
        """Log density of (partition, u) with respect to du."""
        sizes = as_sizes(sizes)
        n, t = int(sizes.sum()), float(np.logaddexp(0.0, self.log_u))
        tilt = (n - 1) * self.log_u - math.lgamma(n) - self.concentration * _expm1(self.discount * t)
        return float(tilt + self.log_kappa(sizes).sum())

    def sticks(self, k: int, rng: np.random.Generator) -> FloatArray:
        """(k,): log weights in size-biased order, exact; the last one is the rest."""
        alpha, sigma = self.concentration, self.discount
        reached = alpha + np.cumsum(rng.standard_exponential(k - 1))
        log_jumps = log_gamma_draw(np.full(k - 1, 1.0 - sigma), rng) + np.log(alpha / reached) / sigma
        last = float(reached[-1]) if k > 1 else alpha
        log_rest = _log_tempered_stable(last, sigma, rng) + math.log(alpha / last) / sigma
        log_mass = np.append(log_jumps, log_rest)
        log_w: FloatArray = log_mass - np.logaddexp.reduce(log_mass)
        return log_w

    def log_other_jumps(self, n: int, k: int, least: float, rng: np.random.Generator) -> FloatArray:
        """(e,): points of the generalised gamma process, scaled by 1 + u."""
        log_scale = min(self.discount * float(np.logaddexp(0.0, self.log_u)), EXPONENT_LIMIT)
        rate = stable_rate(self.concentration * math.exp(log_scale), self.discount)
        return log_points_above(least, rate, self.discount, rng)

    def update(self, sizes: IntArray, rng: np.random.Generator) -> Self:
        """Slice move of the discount, exact draw of u, Gibbs move of the concentration."""
        sizes = as_sizes(sizes)
        check_items(sizes)
        n, k = int(sizes.sum()), sizes.size
        alpha, sigma = self.concentration, self.discount
        if self.learn_discount:
            sigma = resample_discount(sigma, lambda s: replace(self, discount=s).log_eppf(sizes), rng)
        log_u = _draw_log_u(Conditional(alpha, sigma, n, k), rng)
        if self.shape is not None:
            rate = self.rate + _expm1(sigma * np.logaddexp(0.0, log_u))
            alpha = gamma_draw(self.shape + k, rate, rng)
        return replace(self, concentration=alpha, discount=sigma, log_u=log_u)

    def expected_n_clusters(self, n: int) -> float:
        """Mean of `log_n_clusters`, O(n^2)."""
        return float(np.exp(self.log_n_clusters(n)) @ np.arange(1, n + 1))


class Conditional(NamedTuple):
    """p(v | n items in k blocks), v = log u, up to a constant: log-concave in v. It is simplest in t = log(1+u)."""

    alpha: float
    sigma: float
    n: int
    k: int

    def log_density(self, v: Any) -> Any:
        """The log density n (v - t) + k sigma t - alpha (e^(sigma t) - 1)."""
        t = np.logaddexp(0.0, v)
        return self.n * (v - t) + self.k * self.sigma * t - self.alpha * _expm1(self.sigma * t)

    def slope(self, t: float) -> float:
        """Derivative in v, at t."""
        pull = self.k - self.alpha * math.exp(min(self.sigma * t, EXPONENT_LIMIT))
        return self.n * math.exp(-t) - math.expm1(-t) * self.sigma * pull

    def peak(self) -> tuple[float, float]:
        """The mode t, and the square root of minus the second derivative in t there."""
        x = brentq(lambda x: self.slope(math.exp(x)), -50.0, math.log(2.0 * EXPONENT_LIMIT / self.sigma), xtol=1e-13)
        t = math.exp(x)
        bend = self.n * math.exp(-t) / math.expm1(-t) ** 2 + self.alpha * self.sigma**2 * math.exp(self.sigma * t)
        return t, math.sqrt(bend)


@lru_cache(maxsize=2**15)
def _log_integral(given: Conditional) -> float:
    """Log of the integral of the density over log u, by the trapezoid rule in x = log t."""
    t, root = given.peak()
    x, sd = math.log(t), 1.0 / (t * root)
    floor = given.log_density(_log_expm1(t)) - DROP
    reach = [min(sd, 1.0)] * 2
    for side, sign in enumerate((-1.0, 1.0)):
        while given.log_density(_log_expm1(math.exp(x + sign * reach[side]))) > floor:
            reach[side] *= 1.5
    widest = math.exp(x + reach[1]) * given.sigma
    step = min(0.5 * sd, 0.3 / (1.0 + math.log(given.n)), 0.3 / (1.0 + min(widest, EXPONENT_LIMIT)))
    t_nodes = np.exp(np.arange(x - reach[0], x + reach[1] + step, step))
    log_terms = given.log_density(_log_expm1(t_nodes)) + np.log(t_nodes / -np.expm1(-t_nodes))
    return float(np.logaddexp.reduce(log_terms)) + math.log(step)


def _draw_log_u(given: Conditional, rng: np.random.Generator) -> float:
    """Exact draw of v = log u: rejection from a flat top with exponential tails, tangents at about one unit's drop."""
    t, root = given.peak()
    mode = float(_log_expm1(t))
    top = float(given.log_density(mode))
    width = math.sqrt(2.0) / (-math.expm1(-t) * root)
    touch = [mode - width, mode + width]
    slopes = [given.slope(float(np.logaddexp(0.0, v))) for v in touch]
    drops = [top - float(given.log_density(v)) for v in touch]
    left, right = (v + drop / slope for v, drop, slope in zip(touch, drops, slopes, strict=True))
    areas = np.array([1.0 / slopes[0], right - left, -1.0 / slopes[1]])
    while True:
        piece = int(np.searchsorted(np.cumsum(areas), rng.random() * areas.sum()))
        tail = rng.standard_exponential()
        v = (left - tail / slopes[0], left + (right - left) * rng.random(), right - tail / slopes[1])[piece]
        hat = top if piece == 1 else top - tail
        if given.log_density(v) >= hat - rng.standard_exponential():
            return float(v)


def _expm1(x: Any) -> Any:
    """e^x - 1, cut off where it is as good as infinite."""
    return np.expm1(np.minimum(x, EXPONENT_LIMIT))


def _log_expm1(t: Any) -> Any:
    """Log u at t = log(1+u)."""
    return t + np.log(-np.expm1(-t))


def _log_tempered_stable(alpha: float, sigma: float, rng: np.random.Generator) -> float:
    """Log T with E exp(-sT) = exp(-alpha ((1+s)^sigma - 1)): a sum of pieces of parameter <= 1, each by rejection."""
    m = math.ceil(alpha)
    log_t, pending = np.empty(m), np.arange(m)
    while pending.size:
        angle, e = np.pi * rng.random(pending.size), rng.standard_exponential(pending.size)
        zolotarev = (1.0 - sigma) * np.log(np.sin((1.0 - sigma) * angle)) + sigma * np.log(np.sin(sigma * angle))
        log_s = (zolotarev - np.log(np.sin(angle)) - (1.0 - sigma) * np.log(e) + math.log(alpha / m)) / sigma
        kept = np.log(rng.standard_exponential(pending.size)) > log_s
        log_t[pending[kept]] = log_s[kept]
        pending = pending[~kept]
    return float(np.logaddexp.reduce(log_t))
