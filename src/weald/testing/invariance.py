"""Is a sampler right? Exact-start invariance against enumeration, and joint (Geweke) tests.

Both use independent replicates that start from the exact law, apply the kernel once or twice, and ask whether the law
is still there. Whatever the mixing of the kernel, p-values of a correct one are uniform; a chi-square test on one
long chain would reject correct samplers for mixing slowly.

    exact start   state ~ p(. | X) by enumeration,  state' = step(state),    state' ~ p(. | X) ?    chi-square
    joint         theta ~ prior, X ~ p(X | theta),  theta' = step(theta; X), (theta', X) as before? Kolmogorov-Smirnov

A failing p-value is one below `BUDGET`, the chance of a false alarm that a test suite allows itself in all. Every
use ships with an injected bug that must be rejected.

References: Geweke (2004), Getting it right; Gandy & Scott (2021), unit testing for MCMC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, TypeVar

import numpy as np
from scipy.special import logsumexp
from scipy.stats import chisquare, ks_2samp

from weald._typing import Array, FloatArray, IntArray, Matrix
from weald.families.base import AbstractFamily
from weald.partitions import FiniteDirichlet

State = TypeVar("State")

BUDGET = 1e-4
MIN_EXPECTED = 8.0


def chi_square(counts: Array, p: Array) -> float:
    """P-value of counts (m,) against probabilities p (m,), rare cells pooled."""
    counts, expected = np.asarray(counts), counts.sum() * np.asarray(p, np.float64)
    rare = expected < MIN_EXPECTED
    if rare.any() and expected[rare].sum() < MIN_EXPECTED and not rare.all():
        rare[np.argmin(np.where(rare, np.inf, expected))] = True
    observed = np.append(counts[~rare], counts[rare].sum()) if rare.any() else counts
    wanted = np.append(expected[~rare], expected[rare].sum()) if rare.any() else expected
    return float(chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue)


def exact_start(
    log_p: Array,
    start: Callable[[int, np.random.Generator], State],
    step: Callable[[State, np.random.Generator], State],
    locate: Callable[[State], int],
    *,
    n: int,
    rng: np.random.Generator,
) -> float:
    """P-value of the law after one step from the exact law.

    Parameters
    ----------
    log_p : (m,) array
        Unnormalised log probabilities of the enumerated states.
    start : callable
        Index of an enumerated state, rng -> a state, with everything else drawn from its conditional.
    step : callable
        State, rng -> state: the kernel under test.
    locate : callable
        State -> index of the enumerated state.
    n : int
        Independent replicates.
    rng : Generator
        Randomness.

    Returns
    -------
    float
    """
    p = np.exp(log_p - logsumexp(log_p))
    ends = [locate(step(start(int(i), rng), rng)) for i in rng.choice(p.size, size=n, p=p)]
    return chi_square(np.bincount(ends, minlength=p.size), p)


def joint(
    prior: Callable[[np.random.Generator], Any],
    simulate: Callable[[Any, np.random.Generator], Any],
    step: Callable[[Any, Any, np.random.Generator], Any],
    measure: Callable[[Any, Any], Mapping[str, float]],
    *,
    n: int,
    rng: np.random.Generator,
) -> dict[str, float]:
    """P-values of a joint test, one for each measured functional, Bonferroni-corrected.

    Parameters
    ----------
    prior : callable
        rng -> parameters.
    simulate : callable
        Parameters, rng -> data.
    step : callable
        Parameters, data, rng -> parameters: the kernel under test.
    measure : callable
        Parameters, data -> functionals by name; those that tie parameters to data have the most power.
    n : int
        Independent replicates on each side.
    rng : Generator
        Randomness.

    Returns
    -------
    dict of str to float
    """
    sides: tuple[list[Mapping[str, float]], list[Mapping[str, float]]] = ([], [])
    for moved, side in enumerate(sides):
        for _ in range(n):
            theta = prior(rng)
            data = simulate(theta, rng)
            side.append(measure(step(theta, data, rng) if moved else theta, data))
    before, after = ({name: [row[name] for row in side] for name in side[0]} for side in sides)
    pvalues = {name: float(ks_2samp(before[name], after[name]).pvalue) for name in before}
    return {name: min(1.0, p * len(pvalues)) for name, p in pvalues.items()}


def enumerate_labels(family: AbstractFamily, prior: FiniteDirichlet, X: Matrix) -> tuple[IntArray, FloatArray]:
    """All K^n label vectors of a finite mixture, (m, n), and their unnormalised log posterior (m,)."""
    T = np.asarray(family.sufficient(X), np.float64)
    Z = np.array(list(product(range(prior.n_components), repeat=T.shape[0])), np.int32)
    log_p = np.empty(len(Z))
    for i, z in enumerate(Z):
        S = np.stack([T[z == k].sum(axis=0) for k in range(prior.n_components)])
        log_p[i] = family.log_evidence(S) + prior.log_marginal(S[:, -1])
    return Z, log_p
