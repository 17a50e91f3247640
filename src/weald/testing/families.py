"""Does a likelihood family keep contract A? Each check raises `AssertionError` that says what differs.

Identities come first, because they expose errors that no sampling test can see:

    log h(x) + <T(x), eta~> = log p(x)                       check_density      (a reference density)
    sum_x p(x | S) = 1                                       check_normalised   (a grid or an enumeration)
    log m(S + T(x)) - log m(S) = log p(x | S)                check_evidence     (chain rule, row by row)
    argmax <S, eta~> + log_prior(eta) = mode_eta(S)          check_mode         (values and slopes around it)
    E[sample_eta(S)] = expected_eta(S)                       check_draws        (5 standard errors)
    E[exp <T(x), eta~>] over draws = exp log p(x | S)        check_draws
    KL = <S, E eta~> - log m(S) = its Monte Carlo mean >= 0  check_draws
    data from sample_x(eta) give eta back                    check_sample_x     (likelihood ratio)
    p(a x + b) = p(x) / |a|                                  check_units

`check_family` runs all that need no reference. Statistical checks fail a correct family with probability below 1e-4 in
all; use a fixed seed.

    >>> from weald.families import Bernoulli
    >>> X = np.random.default_rng(0).integers(0, 2, (30, 3)).astype(float)
    >>> check_family(Bernoulli.from_data(X), X, np.random.default_rng(1))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import chi2

from weald._typing import Array, FloatArray, Matrix
from weald.families.base import AbstractFamily

STANDARD_ERRORS = 5.0


def check_family(family: AbstractFamily, X: Matrix, rng: np.random.Generator) -> None:
    """Run every check that needs no reference.

    Parameters
    ----------
    family : AbstractFamily
        The family under test, set up for X.
    X : array or CSR of shape (n, d)
        Some 20 to 100 rows without NaN, not all alike.
    rng : Generator
        Seeded, so that the verdict does not change from run to run.
    """
    check_layout(family, X, rng)
    check_single_precision(family, X)
    check_evidence(family, X, rng)
    check_mode(family, X, rng)
    check_draws(family, X, rng)
    check_sample_x(family, X, rng)
    if family.accepts_missing:
        check_missing(family, X, rng)


def statistics(family: AbstractFamily, X: Matrix, n_components: int, rng: np.random.Generator) -> FloatArray:
    """(k, p): statistics of a random partition of the rows of X whose last component is empty."""
    z = rng.integers(0, max(1, n_components - 1), X.shape[0])
    R = (z[:, None] == np.arange(n_components)).astype(np.float64)
    return np.asarray((family.sufficient(X).T @ R).T)


def check_layout(family: AbstractFamily, X: Matrix, rng: np.random.Generator) -> None:
    """Shapes, the column of ones, rows treated one by one, X left alone, last entry of eta not read by people."""
    before = X.copy()
    T, log_h = _dense(family.sufficient(X)), family.log_base(X)
    assert_array_equal(_dense(X), _dense(before), err_msg="sufficient changed X")
    assert X.shape[1] == family.n_columns, "n_columns differs from the columns of X"
    assert T.shape == (X.shape[0], family.width), f"T has shape {T.shape}, width is {family.width}"
    assert_array_equal(T[:, -1], 1.0, err_msg="the last column of T must be 1")
    assert np.isfinite(T).all(), "T must be finite"
    assert log_h.shape == (X.shape[0],), "log_base must give one number per row"
    assert np.isfinite(log_h).all(), "log_base must be finite"
    for i in range(0, X.shape[0], 7):
        assert_array_equal(_dense(family.sufficient(X[i : i + 1]))[0], T[i], err_msg="T depends on the other rows")
        assert_allclose(family.log_base(X[i : i + 1])[0], log_h[i], rtol=1e-14, atol=1e-14)
    assert family.sufficient(X[:0]).shape == (0, family.width), "no rows must give no rows"
    assert np.isfinite(_dense(family.coordinates(X))).all(), "coordinates must be finite"
    _check_last_entry(family, X, rng)


def _check_last_entry(family: AbstractFamily, X: Matrix, rng: np.random.Generator) -> None:
    eta = family.mode_eta(statistics(family, X, 3, rng))
    other = eta.copy()
    other[:, -1] += 1.0
    seed = int(rng.integers(2**31))
    assert family.log_prior(eta) == family.log_prior(other), "log_prior reads the last entry of eta"
    for name, value in family.named(eta).items():
        assert_array_equal(value, family.named(other)[name], err_msg=f"named {name} reads the last entry of eta")
    drawn = family.sample_x(eta, np.random.default_rng(seed))
    again = family.sample_x(other, np.random.default_rng(seed))
    assert_array_equal(drawn, again, err_msg="sample_x reads the last entry of eta, or not the generator it is given")
    assert drawn.shape == (3, family.n_columns), "sample_x must give one row of data for each row of eta"


def check_single_precision(family: AbstractFamily, X: Matrix) -> None:
    """float32 data give float32 statistics that agree with those of float64."""
    single = X.astype(np.float32)
    T32, T64 = family.sufficient(single), family.sufficient(single.astype(np.float64))
    assert T32.dtype == np.float32, f"float32 data gave T of {T32.dtype}"
    assert T64.dtype == np.float64, f"float64 data gave T of {T64.dtype}"
    assert_allclose(_dense(T32), _dense(T64), rtol=2e-6, atol=2e-6)
    assert_allclose(family.log_base(single), family.log_base(single.astype(np.float64)), rtol=1e-6, atol=1e-6)


def check_density(family: AbstractFamily, eta: Array, X: Matrix, log_density: Array, tolerance: float = 1e-10) -> None:
    """Scores of X (n, d) under eta (k, p) equal a reference log density (n, k)."""
    scores = family.log_base(X)[:, None] + family.sufficient(X) @ eta.T
    assert_allclose(scores, log_density, rtol=tolerance, atol=tolerance, err_msg="density differs from the reference")


def check_normalised(
    family: AbstractFamily, S: Array, X: Matrix, log_measure: Array | float = 0.0, tolerance: float = 1e-8
) -> None:
    """The predictive of each row of S sums to one over the points X (n, d) with weights exp(log_measure) (n,)."""
    log_p = family.log_base(X)[:, None] + family.log_predictive(S, family.sufficient(X))
    total = logsumexp(log_p + np.reshape(log_measure, (-1, 1)), axis=0)
    assert_allclose(total, 0.0, atol=tolerance, err_msg="the predictive density does not sum to one")


def check_evidence(family: AbstractFamily, X: Matrix, rng: np.random.Generator) -> None:
    """Evidence obeys the chain rule, is zero without data, and adds over components that share nothing."""
    T, k = _dense(family.sufficient(X)).astype(np.float64), 3
    z = rng.integers(0, k - 1, size=(T.shape[0],))
    S, total = np.zeros((k, family.width)), 0.0
    assert_allclose(family.log_marginal(S), 0.0, atol=1e-9, err_msg="the evidence of no data must be 1")
    for t, j in zip(T, z, strict=True):
        total += family.log_predictive(S, t[None])[0, j]
        S[j] += t
    assert_allclose(total, family.log_evidence(S), rtol=1e-8, atol=1e-8, err_msg="chain rule of evidence")
    for i in range(0, T.shape[0], max(1, T.shape[0] // 5)):
        grown = [family.log_evidence(S + T[i] * (np.arange(k) == j)[:, None]) for j in range(k)]
        step = np.array(grown) - family.log_evidence(S)
        assert_allclose(family.log_predictive(S, T[i : i + 1])[0], step, rtol=1e-7, atol=1e-7, err_msg="predictive")
    assert_allclose(family.log_predictive(S, family.sufficient(X)), family.log_predictive(S, T), rtol=1e-12)
    marginal = family.log_marginal(S)
    alone = [family.log_evidence(S[j : j + 1]) for j in range(k)]
    assert_allclose(marginal, alone, rtol=1e-10, atol=1e-10, err_msg="log_marginal is the evidence of one component")
    assert_allclose(family.log_marginal(np.stack([S, S])), [marginal, marginal], err_msg="leading axes")
    if not family.n_shared_parameters:
        assert_allclose(marginal.sum(), family.log_evidence(S), rtol=1e-12, err_msg="evidence must add")


def check_mode(family: AbstractFamily, X: Matrix, rng: np.random.Generator) -> None:
    """No neighbour of the mode does better, and the objective is flat at it.

    Neighbours are modes of statistics with slightly other weights of the rows: they move in every direction in which
    eta can move, without knowing the parametrisation.
    """
    T = _dense(family.sufficient(X)).astype(np.float64)
    R = (rng.integers(0, 2, X.shape[0])[:, None] == np.arange(2)).astype(np.float64)
    S = R.T @ T

    def objective(weight: Array) -> float:
        eta = family.mode_eta((R * weight[:, None]).T @ T)
        return float((S * eta).sum()) + family.log_prior(eta)

    top = objective(np.ones(X.shape[0]))
    noise = 1e-11 * (1 + abs(top)) * T.shape[1]
    for _ in range(25):
        step = 0.02 * rng.choice([-1.0, 1.0], X.shape[0])
        up, down = objective(1 + step), objective(1 - step)
        assert max(up, down) <= top + noise, f"a neighbour of the mode is better by {max(up, down) - top:.3g}"
        assert abs(up - down) <= 0.5 * (2 * top - up - down) + noise, "the objective has a slope at the mode"


def check_draws(family: AbstractFamily, X: Matrix, rng: np.random.Generator, n_draws: int = 4000) -> None:
    """Draws of eta have the expectation, the predictive and the divergence that closed forms give them."""
    S = statistics(family, X, 3, rng)
    draws = _draws(family, S, rng, n_draws)
    expected = family.expected_eta(S)
    _within(draws, expected, "expected_eta")
    T = _dense(family.sufficient(X[:4])).astype(np.float64)
    log_p = family.log_predictive(S, T)[:, :-1]  # an empty component predicts so broadly that draws say little
    _within(np.exp(np.einsum("np,skp->snk", T, draws[:, :-1]) - log_p), np.ones_like(log_p), "log_predictive")
    log_m = family.log_evidence(S)
    divergence = float((S * expected).sum()) - log_m
    assert divergence >= 0, f"negative divergence {divergence:.3g} from the prior"
    _within((draws * S).sum((1, 2)) - log_m, np.asarray(divergence), "divergence")


def _draws(family: AbstractFamily, S: Array, rng: np.random.Generator, n_draws: int) -> FloatArray:
    """(n_draws, k, p); in one call where components are independent."""
    if family.n_shared_parameters:
        return np.stack([family.sample_eta(S, rng) for _ in range(n_draws)])
    return family.sample_eta(np.tile(S, (n_draws, 1)), rng).reshape(n_draws, *S.shape)


def _within(draws: Array, expected: Array, what: str) -> None:
    error = np.abs(draws.mean(0) - expected)
    limit = STANDARD_ERRORS * draws.std(0) / np.sqrt(draws.shape[0]) + 1e-9 * (1 + np.abs(expected))
    assert (error <= limit).all(), f"{what} differs from the average of draws by {(error / limit).max() * 5:.1f} errors"


def check_sample_x(family: AbstractFamily, X: Matrix, rng: np.random.Generator, n_draws: int = 4000) -> None:
    """Data drawn from eta are as likely under eta as under their own mode, up to a chi-square."""
    eta = family.mode_eta(statistics(family, X, 3, rng))
    z = np.repeat(np.arange(3), n_draws)
    drawn = family.sample_x(eta[z], rng)
    S = np.stack([_dense(family.sufficient(drawn[z == j])).sum(0, dtype=np.float64) for j in range(3)])
    ratio = 2 * float((S * (family.mode_eta(S) - eta)).sum())
    limit = chi2.isf(1e-6, 3 * family.n_parameters + family.n_shared_parameters)
    assert ratio <= limit, f"data from sample_x contradict eta: likelihood ratio {ratio:.1f}, limit {limit:.1f}"


def check_missing(family: AbstractFamily, X: Matrix, rng: np.random.Generator) -> None:
    """NaN cells drop out: a row is the product of its columns, an empty row has density 1, complete rows stay."""
    wide, S, d = family.with_missing(), statistics(family, X, 3, rng), family.n_columns
    assert wide.with_missing() is wide, "with_missing of the wide layout must be itself"
    assert_allclose(wide.log_marginal(family.widen_S(S)), family.log_marginal(S), rtol=1e-10, atol=1e-10)
    for name in ("mode_eta", "expected_eta"):
        eta = getattr(family, name)(S)
        wider, scores = family.widen_eta(eta), family.sufficient(X) @ eta.T
        assert_allclose(wide.sufficient(X) @ wider.T, scores, rtol=1e-9, atol=1e-9, err_msg=f"widened {name}")
    eta = wide.mode_eta(family.widen_S(S))
    assert_allclose(family.widen_eta(family.mode_eta(S)), eta, rtol=1e-9, atol=1e-9, err_msg="widen_eta")
    pieces = [np.where(np.arange(d) == j, X, np.nan) for j in range(d)]
    total = sum(_scores(wide, eta, piece) for piece in pieces)
    assert_allclose(total, _scores(wide, eta, X), rtol=1e-9, atol=1e-9, err_msg="columns must multiply")
    assert_allclose(_scores(wide, eta, np.full((1, d), np.nan)), 0.0, atol=1e-9, err_msg="a row of NaN")
    blank = wide.sufficient(np.full((2, d), np.nan))
    assert_allclose(wide.log_marginal(blank), 0.0, atol=1e-9, err_msg="evidence of rows of NaN")
    assert_allclose(wide.log_predictive(family.widen_S(S), blank), 0.0, atol=1e-9, err_msg="predictive of rows of NaN")


def _scores(family: AbstractFamily, eta: Array, X: Array) -> Any:
    return family.log_base(X)[:, None] + family.sufficient(X) @ eta.T


def check_units(make: Callable[[Array], AbstractFamily], X: Array, factor: Array, shift: Array) -> None:
    """In other units, a x + b, statistics stay what they are and densities change by the Jacobian.

    Parameters
    ----------
    make : callable
        Sets up the family for given data, with its default prior.
    X : array of shape (n, d)
        Data.
    factor, shift : array of shape (d,)
        The other units, factors positive; choose values that lose no digits of X.
    """
    here, there = make(X), make(X * factor + shift)
    T, T_there = here.sufficient(X), there.sufficient(X * factor + shift)
    assert_allclose(T_there, T, rtol=1e-6, atol=1e-6, err_msg="T depends on units")
    S = T.sum(0, dtype=np.float64)[None]
    S_there = T_there.sum(0, dtype=np.float64)[None]
    log_p = here.log_base(X) + here.log_predictive(S, T)[:, 0]
    log_p_there = there.log_base(X * factor + shift) + there.log_predictive(S_there, T_there)[:, 0]
    jacobian = np.broadcast_to(np.log(np.abs(factor)), X.shape).sum(1)
    assert_allclose(log_p_there + jacobian, log_p, rtol=1e-6, atol=1e-6, err_msg="density in other units")
    means, means_there = (f.named(f.mode_eta(s))["means"] for f, s in ((here, S), (there, S_there)))
    assert_allclose((means_there - shift) / factor, means, rtol=1e-6, atol=1e-6, err_msg="means in other units")


def _dense(T: Matrix) -> Array:
    return np.asarray(T.toarray()) if sparse.issparse(T) else np.asarray(T)
