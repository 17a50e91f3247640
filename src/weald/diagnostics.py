"""Can the draws be trusted: R-hat, effective sample size, Monte Carlo error; and how often rows go together.

For m half-chains of n draws, W the mean within-chain variance, B/n the variance of the chain means,

    R-hat = sqrt(((n - 1)/n W + B/n) / W),      ESS = m n / tau,      tau = -1 + 2 sum_k P_k,
    P_k   = rho_2k + rho_2k+1 (made positive and decreasing),  rho_t = 1 - (W - mean acov_t) / ((n - 1)/n W + B/n).

Chains are always split in half, so drift shows even in one chain. `rhat` and `ess_bulk` look at normal scores of the
ranks (any tail will do); `rhat` is the larger of the values for the draws and for their distance from the median.
A quantity that never changes has R-hat NaN and ESS n; one with a non-finite draw, or fewer than four draws, has NaN.

Cost: one FFT for each chain and quantity, in tiles of bounded memory.
References: Vehtari, Gelman, Simpson, Carpenter, Bürkner, Bayesian Analysis 16 (2021), 667-718; Geyer (1992).

    >>> draws = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(rhat(draws) < 1.01), bool(ess_bulk(draws) > 1000)
    (True, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import fft, special

from weald._typing import Array, FloatArray, IntArray
from weald.exceptions import ParameterError

if TYPE_CHECKING:
    from weald.posterior import Posterior

TILE = 2**20  # draws looked at together
MIN_DRAWS = 4
TAILS = (0.05, 0.95)
ONE_SIGMA = (0.1586553, 0.8413447)


class Summary(NamedTuple):
    """Moments and diagnostics of one quantity; every field has the shape of one draw."""

    mean: FloatArray
    sd: FloatArray
    mcse: FloatArray
    ess_bulk: FloatArray
    ess_tail: FloatArray
    rhat: FloatArray


def rhat(draws: Array) -> FloatArray:
    """Rank-normalised split R-hat, the larger of bulk and folded.

    Parameters
    ----------
    draws : array of shape (chain, draw, ...)

    Returns
    -------
    array of shape (...)
        About 1 when chains agree; above 1.01, run longer.
    """
    return _each(lambda x: np.fmax(_rhat(_normal_scores(_split(x))), _rhat(_normal_scores(_fold(_split(x))))), draws)


def ess_bulk(draws: Array) -> FloatArray:
    """Effective number of draws for the middle of the distribution: (chain, draw, ...) -> (...)."""
    return _each(lambda x: _ess(_normal_scores(_split(x))), draws)


def ess_tail(draws: Array) -> FloatArray:
    """Effective number of draws for the worse of the 5% and 95% quantiles: (chain, draw, ...) -> (...)."""
    return _each(lambda x: np.minimum(*(_ess_quantile(x, q) for q in TAILS)), draws)


def mcse_mean(draws: Array) -> FloatArray:
    """Monte Carlo standard error of the mean: (chain, draw, ...) -> (...)."""
    return _each(lambda x: x.std((0, 1), ddof=1) / np.sqrt(_ess(_split(x))), draws)


def mcse_quantile(draws: Array, q: float) -> FloatArray:
    """Monte Carlo standard error of the q-quantile: (chain, draw, ...) -> (...)."""
    if not 0 < q < 1:
        raise ParameterError(f"q must lie strictly between 0 and 1, got {q!r}")
    return _each(lambda x: _mcse_quantile(x, q), draws)


def summarise(posterior: Posterior, names: Iterable[str] | None = None) -> dict[str, Summary]:
    """Moments and diagnostics of each quantity.

    Parameters
    ----------
    posterior : Posterior
    names : iterable of str, optional
        Which quantities. By default all but integer arrays (labels, counts), whose entries mean little one by one.

    Returns
    -------
    dict of str to Summary
    """
    draws = posterior.draws
    plain = (name for name, x in draws.items() if x.ndim == 2 or x.dtype.kind == "f")
    chosen = list(plain if names is None else names)
    if unknown := [name for name in chosen if name not in draws]:
        raise ParameterError(f"no draws of {unknown}; this posterior has {sorted(draws)}")
    return {name: _summary(draws[name]) for name in chosen}


def co_clustering(Z: IntArray, rows: IntArray | None = None) -> FloatArray:
    """How often two rows are in the same cluster.

    Parameters
    ----------
    Z : int array of shape (draws, n)
        Labels; only equality within a draw matters.
    rows : int array of shape (m,), optional
        The rows to compare, all n by default. Memory and time per draw grow as m^2.

    Returns
    -------
    array of shape (m, m)
        Posterior probabilities in [0, 1], with ones on the diagonal.
    """
    Z = np.asarray(Z)
    if Z.ndim != 2 or not len(Z):
        raise ParameterError(f"Z must have shape (draws, n) with at least one draw, got {Z.shape}; see Posterior.flat")
    if rows is not None:
        Z = Z[:, rows]
    n_together = np.zeros((Z.shape[1], Z.shape[1]), np.int64)
    for z in Z:
        n_together += z[:, None] == z
    return n_together / len(Z)


def _each(statistic: Callable[[FloatArray], FloatArray], draws: Array) -> FloatArray:
    """Apply a statistic (chain, draw, m) -> (m,) to every entry of a draw; NaN where it is not defined."""
    draws = np.asarray(draws)
    if draws.ndim < 2 or draws.dtype.kind not in "biuf":
        raise ParameterError(f"draws must be real, of shape (chain, draw, ...); got {draws.dtype} of {draws.shape}")
    n_chains, n_draws, *shape = draws.shape
    flat = draws.reshape(n_chains, n_draws, int(np.prod(shape, dtype=int)))
    out = np.full(flat.shape[2], np.nan)
    size = max(1, TILE // max(1, n_chains * n_draws))
    for a in range(0, flat.shape[2] if n_chains and n_draws >= MIN_DRAWS else 0, size):
        tile = flat[:, :, a : a + size].astype(np.float64)
        good = np.isfinite(tile).all((0, 1))
        if good.any():
            with np.errstate(invalid="ignore", divide="ignore"):
                out[a : a + size][good] = statistic(tile[:, :, good])
    result: FloatArray = out.reshape(shape)[()]
    return result


def _split(x: FloatArray) -> FloatArray:
    """Halves of chains as chains; the middle draw of an odd number is left out."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _fold(x: FloatArray) -> FloatArray:
    return np.abs(x - np.median(x, axis=(0, 1)))


def _normal_scores(x: FloatArray) -> FloatArray:
    """Normal quantiles of the ranks over all chains (Blom's offsets)."""
    from scipy.stats import rankdata  # a third of a second, only when it is needed

    flat = x.reshape(-1, x.shape[2])
    ranks = rankdata(flat, axis=0)
    scores: FloatArray = special.ndtri((ranks - 0.375) / (len(flat) + 0.25))
    return scores.reshape(x.shape)


def _rhat(x: FloatArray) -> FloatArray:
    n = x.shape[1]
    within = x.var(1, ddof=1).mean(0)
    value: FloatArray = np.sqrt((n - 1) / n + x.mean(1).var(0, ddof=1) / within)
    return value


def _autocovariance(x: FloatArray) -> FloatArray:
    """Biased autocovariance along draws, averaged over chains: (chain, n, m) -> (n, m)."""
    n = x.shape[1]
    size = fft.next_fast_len(2 * n, real=True)
    power = np.abs(fft.rfft(x - x.mean(1, keepdims=True), size, axis=1)) ** 2
    covariance: FloatArray = fft.irfft(power.mean(0), size, axis=0)[:n] / n
    return covariance


def _ess(x: FloatArray) -> FloatArray:
    """Effective sample size of at least two chains, (chain, n, m) -> (m,)."""
    n_chains, n, _ = x.shape
    acov = _autocovariance(x)
    rho = 1 - (acov[0] * n / (n - 1) - acov) / (acov[0] + x.mean(1).var(0, ddof=1))
    rho[0] = 1
    n_pairs = max(1, (n - 1) // 2)
    even = rho[0 : 2 * n_pairs : 2]
    pairs = even + rho[1 : 2 * n_pairs : 2]
    ended = pairs <= 0
    stop = np.where(ended.any(0), ended.argmax(0), n_pairs - 1)
    kept = np.where(np.arange(n_pairs)[:, None] < stop, np.minimum.accumulate(pairs), 0)
    at_stop, pair_at_stop = (np.take_along_axis(a, stop[None], 0)[0] for a in (even, pairs))
    # half of the first pair left out: a better estimate for antithetic chains
    tau = -1 + 2 * kept.sum(0) + np.where((at_stop > 0) | (pair_at_stop >= 0), at_stop, 0)
    constant = np.ptp(x, axis=(0, 1)) <= 1e-15 * np.abs(x).max((0, 1))
    ess: FloatArray = n_chains * n / np.maximum(tau, 1 / np.log10(n_chains * n))
    return np.where(constant, n_chains * n, ess)


def _ess_quantile(x: FloatArray, q: float) -> FloatArray:
    return _ess(_split((x <= np.quantile(x, q, axis=(0, 1))).astype(np.float64)))


def _mcse_quantile(x: FloatArray, q: float) -> FloatArray:
    """Half the distance between the order statistics one sigma below and above the quantile."""
    ess = _ess_quantile(x, q)
    ordered = np.sort(x.reshape(-1, x.shape[2]), axis=0)
    low, high = (special.betaincinv(ess * q + 1, ess * (1 - q) + 1, p) * len(ordered) - 1 for p in ONE_SIGMA)
    at = [np.floor(np.maximum(low, 0)), np.ceil(np.minimum(high, len(ordered) - 1))]
    below, above = np.take_along_axis(ordered, np.array(at, np.intp), 0)
    half: FloatArray = (above - below) / 2
    return half


def _summary(x: Array) -> Summary:
    mean = x.mean((0, 1), dtype=np.float64)
    sd = x.std((0, 1), dtype=np.float64, ddof=1) if x.shape[0] * x.shape[1] > 1 else np.full(x.shape[2:], np.nan)[()]
    return Summary(mean, sd, mcse_mean(x), ess_bulk(x), ess_tail(x), rhat(x))
