"""Contract A, one line per family: density, normalisation, evidence, mode, draws, simulation, missing cells, units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import betaln

from weald.families import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    FullGaussian,
    Multinomial,
    Poisson,
    Product,
    SphericalGaussian,
    TiedGaussian,
    predictive_from_evidence,
)
from weald.testing import families as kit

KINDS = ("gaussian", "categorical", "bernoulli", "gaussian", "poisson")


def gaussian_data(rng, n=40, d=3):
    return rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) * [10.0, 1.0, 0.1][:d] + [100.0, 0.0, -3.0][:d]


def binary_data(rng, n=40, d=3):
    return (rng.random((n, d)) < np.linspace(0.2, 0.8, d)).astype(float)


def count_data(rng, n=40, d=3):
    return rng.poisson(np.linspace(1, 9, d), (n, d)).astype(float)


def code_data(rng, n=40, d=3):
    return rng.integers(0, np.arange(2, 2 + d), (n, d)).astype(float)


def mixed_data(rng, n=40):
    G, C, B, P = gaussian_data(rng, n, 2), code_data(rng, n, 2), binary_data(rng, n, 1), count_data(rng, n, 1)
    return np.column_stack([G[:, 0], C[:, 1], B, G[:, 1], P])


def normal(X, named):
    return stats.norm.logpdf(X[:, None], named["means"], np.sqrt(named["covariances"])).sum(-1)


def multinormal(X, named):
    eye = np.eye(X.shape[1])
    covariances = [c * eye if c.ndim == 0 else c for c in named["covariances"]]
    pairs = zip(named["means"], covariances, strict=True)
    return np.stack([stats.multivariate_normal(m, c).logpdf(X) for m, c in pairs], axis=1)


def bernoulli(X, named):
    return stats.bernoulli.logpmf(X[:, None], named["probabilities"]).sum(-1)


def poisson(X, named):
    return stats.poisson.logpmf(X[:, None], named["rates"]).sum(-1)


def categorical(X, named, n_levels=(2, 3, 4)):
    p = np.split(named["probabilities"], np.cumsum(n_levels)[:-1], axis=1)
    return sum(np.log(p[j][:, X[:, j].astype(int)]).T for j in range(X.shape[1]))


def multinomial(X, named):
    return np.stack([stats.multinomial.logpmf(X, X.sum(1).astype(int), p) for p in named["probabilities"]], axis=1)


def mixed(X, named):
    def part(kind):
        return {key.removeprefix(f"{kind}_"): value for key, value in named.items() if key.startswith(kind)}

    return (
        normal(X[:, [0, 3]], part("gaussian"))
        + categorical(X[:, [1]], part("categorical"), (3,))
        + bernoulli(X[:, [2]], part("bernoulli"))
        + poisson(X[:, [4]], part("poisson"))
    )


@dataclass(frozen=True)
class Case:
    make: object
    data: object
    reference: object


CASES = {
    "gaussian_diag": Case(partial(DiagonalGaussian.from_data, n_components=3), gaussian_data, normal),
    "gaussian_spherical": Case(partial(SphericalGaussian.from_data, n_components=3), gaussian_data, multinormal),
    "gaussian_full": Case(partial(FullGaussian.from_data, n_components=3), gaussian_data, multinormal),
    "gaussian_tied": Case(partial(TiedGaussian.from_data, n_components=3), gaussian_data, multinormal),
    "bernoulli": Case(partial(Bernoulli.from_data, alpha=2.5, beta=1.5), binary_data, bernoulli),
    "poisson": Case(Poisson.from_data, count_data, poisson),
    "categorical": Case(Categorical.from_data, code_data, categorical),
    "multinomial": Case(Multinomial.from_data, count_data, multinomial),
    "multinomial_csr": Case(Multinomial.from_data, lambda rng: sparse.csr_array(count_data(rng)), None),
    "mixed": Case(partial(Product.from_data, kinds=KINDS), mixed_data, mixed),
    "gaussian_diag_wide": Case(lambda X: DiagonalGaussian.from_data(X).with_missing(), gaussian_data, normal),
    "poisson_wide": Case(lambda X: Poisson.from_data(X).with_missing(), count_data, poisson),
    "mixed_tied": Case(
        lambda X: Product((TiedGaussian.from_data(X[:, :2]), Poisson.from_data(X[:, 2:])), ((0, 1), (2,)), ("g", "p")),
        lambda rng: np.hstack([gaussian_data(rng, d=2), count_data(rng, d=1)]),
        None,
    ),
}
GAUSSIANS = ["gaussian_diag", "gaussian_spherical", "gaussian_full", "gaussian_tied"]


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture
def setting(case, rng):
    X = case.data(rng)
    return case.make(X), X


def test_layout(setting, rng):
    kit.check_layout(*setting, rng)


def test_single_precision(setting):
    kit.check_single_precision(*setting)


def test_evidence(setting, rng):
    kit.check_evidence(*setting, rng)


def test_mode(setting, rng):
    kit.check_mode(*setting, rng)


def test_draws(setting, rng):
    family, X = setting
    kit.check_draws(family, X, rng, 1500 if family.n_shared_parameters else 6000)


def test_sample_x(setting, rng):
    kit.check_sample_x(*setting, rng)


@pytest.mark.parametrize("name", ["gaussian_diag", "bernoulli", "poisson", "categorical", "mixed", "poisson_wide"])
def test_missing(name, rng):
    X = CASES[name].data(rng)
    family = CASES[name].make(X)
    kit.check_missing(family, X, rng)


def test_check_family_runs_all(rng):
    X = binary_data(rng)
    kit.check_family(Bernoulli.from_data(X), X, rng)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.reference])
@pytest.mark.parametrize("source", ["mode_eta", "sample_eta"])
def test_density_matches_scipy(name, source, rng):
    case = CASES[name]
    X = case.data(rng)
    family = case.make(X)
    S = kit.statistics(family, X, 3, rng)
    eta = family.mode_eta(S) if source == "mode_eta" else family.sample_eta(S, rng)
    kit.check_density(family, eta, X, case.reference(X, family.named(eta)))


def test_predictive_matches_the_generic_one(setting, rng):
    family, X = setting
    if family.n_shared_parameters:
        pytest.skip("components share parameters")
    S, T = kit.statistics(family, X, 3, rng), family.sufficient(X)
    dense = T.toarray() if sparse.issparse(T) else T
    np.testing.assert_allclose(family.log_predictive(S, T), predictive_from_evidence(family, S, dense), atol=1e-9)


def test_priors_match_scipy(rng):
    """log_prior is a normalised density, in standardised units, in the parameters people use."""
    X = gaussian_data(rng)
    full, tied = (CASES[name].make(X) for name in ("gaussian_full", "gaussian_tied"))
    for family in (full, tied):
        eta = family.sample_eta(kit.statistics(family, X, 2, rng), rng)
        named = replace(family, centre=np.zeros(3), scale=np.ones(3)).named(eta)
        law = stats.invwishart(family.nu, family.psi)
        pairs = list(zip(named["means"], named["covariances"], strict=True))
        means = sum(stats.multivariate_normal(family.m0, c / family.kappa).logpdf(m) for m, c in pairs)
        covariances = sum(law.logpdf(c) for _, c in (pairs[:1] if family is tied else pairs))
        assert family.log_prior(eta) == pytest.approx(means + covariances, rel=1e-9)
    diag = CASES["gaussian_diag"].make(X)
    eta = diag.sample_eta(kit.statistics(diag, X, 2, rng), rng)
    named = replace(diag, centre=np.zeros(3), scale=np.ones(3)).named(eta)
    v = named["covariances"]
    expected = stats.invgamma.logpdf(v, diag.nu / 2, scale=diag.psi / 2)
    expected = expected + stats.norm.logpdf(named["means"], diag.m0, np.sqrt(v / diag.kappa))
    assert diag.log_prior(eta) == pytest.approx(expected.sum(), rel=1e-10)
    ball = CASES["gaussian_spherical"].make(X)
    eta = ball.sample_eta(kit.statistics(ball, X, 2, rng), rng)
    named = replace(ball, centre=np.zeros(3), scale=1.0).named(eta)
    v = named["covariances"]
    expected = stats.invgamma.logpdf(v, ball.nu / 2, scale=ball.psi / 2)
    expected = expected + stats.norm.logpdf(named["means"], ball.m0, np.sqrt(v / ball.kappa)[:, None]).sum(1)
    assert ball.log_prior(eta) == pytest.approx(expected.sum(), rel=1e-10)


def test_discrete_priors_match_scipy(rng):
    B, P = Bernoulli.from_data(binary_data(rng), alpha=3, beta=2), Poisson.from_data(count_data(rng))
    eta = B.sample_eta(np.zeros((2, B.width)), rng)
    assert B.log_prior(eta) == pytest.approx(stats.beta.logpdf(B.named(eta)["probabilities"], 3, 2).sum())
    eta = P.sample_eta(np.zeros((2, P.width)), rng)
    assert P.log_prior(eta) == pytest.approx(stats.gamma.logpdf(P.named(eta)["rates"], P.shape, scale=1 / P.rate).sum())
    C = Categorical.from_data(code_data(rng))
    eta = C.sample_eta(np.zeros((2, C.width)), rng)
    parts = [np.split(p, [2, 5]) for p in C.named(eta)["probabilities"]]
    expected = sum(stats.dirichlet.logpdf(p, np.full(p.size, 2.0)) for row in parts for p in row)
    assert C.log_prior(eta) == pytest.approx(expected)


def test_predictives_match_scipy(rng):
    X = gaussian_data(rng)
    full = CASES["gaussian_full"].make(X)
    Z = (X - full.centre) / full.scale
    n, d = X.shape
    S = full.sufficient(X).sum(0)[None]
    kappa, nu = full.kappa + n, full.nu + n
    psi = full.psi + n * np.cov(Z.T, bias=True)  # the mean of Z is 0, as is m0
    law = stats.multivariate_t(np.zeros(d), psi * (kappa + 1) / kappa / (nu - d + 1), nu - d + 1)
    expected = law.logpdf(Z) - np.log(full.scale).sum()
    np.testing.assert_allclose(full.log_base(X) + full.log_predictive(S, full.sufficient(X))[:, 0], expected, rtol=1e-9)
    C = count_data(rng)
    P = Poisson.from_data(C)
    a, b = P.shape + C.sum(0), P.rate + C.shape[0]
    expected = stats.nbinom.logpmf(C, a, b / (b + 1)).sum(1)
    T = P.sufficient(C)
    np.testing.assert_allclose(P.log_base(C) + P.log_predictive(T.sum(0)[None], T)[:, 0], expected, rtol=1e-9)
    M = Multinomial.from_data(C)
    expected = stats.dirichlet_multinomial.logpmf(C.astype(int), M.concentration + C.sum(0), C.sum(1).astype(int))
    T = M.sufficient(C)
    np.testing.assert_allclose(M.log_base(C) + M.log_predictive(T.sum(0)[None], T)[:, 0], expected, rtol=1e-9)
    B = binary_data(rng)
    family = Bernoulli.from_data(B, alpha=3, beta=2)
    ones = B.sum(0)
    expected = (betaln(3 + ones, 2 + len(B) - ones) - betaln(3, 2)).sum()
    assert family.log_evidence(family.sufficient(B).sum(0)[None]) == pytest.approx(expected)


LINE = np.linspace(-60.0, 60.0, 4001)
PLANE = np.stack(np.meshgrid(*[np.linspace(-40.0, 40.0, 401)] * 2), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize("cls", [DiagonalGaussian, SphericalGaussian, FullGaussian, TiedGaussian])
@pytest.mark.parametrize("d", [1, 2])
def test_gaussian_predictives_integrate_to_one(cls, d, rng):
    X = rng.standard_normal((30, d)) * np.array([2.0, 3.0])[:d]
    family = cls.from_data(X, 2)
    S = family.sufficient(X).sum(0)[None]
    grid, cell = (LINE[:, None], LINE[1] - LINE[0]) if d == 1 else (PLANE, 0.2**2)
    kit.check_normalised(family, S, grid, np.log(cell), tolerance=1e-6)


def test_discrete_predictives_sum_to_one(rng):
    B = binary_data(rng)
    for family, X, support in [
        (Bernoulli.from_data(B), B, list(product([0.0, 1.0], repeat=3))),
        (Poisson.from_data(count_data(rng, d=1)), count_data(rng, d=1), np.arange(500.0)[:, None]),
        (Categorical.from_data(code_data(rng)), code_data(rng), list(product(range(2), range(3), range(4)))),
        (
            Multinomial.from_data(count_data(rng)),
            count_data(rng),
            [x for x in product(range(6), repeat=3) if sum(x) == 5],
        ),
    ]:
        kit.check_normalised(family, kit.statistics(family, X, 3, rng)[:2], np.array(support, float))


def test_mixed_predictive_sums_to_one(rng):
    X = np.column_stack([rng.standard_normal(30), binary_data(rng, 30, 1)])
    family = Product.from_data(X, kinds=("gaussian", "bernoulli"))
    grid = np.array([(x, b) for x in LINE for b in (0.0, 1.0)])
    kit.check_normalised(family, family.sufficient(X).sum(0)[None], grid, np.log(LINE[1] - LINE[0]), tolerance=1e-6)


@pytest.mark.parametrize("name", GAUSSIANS)
@pytest.mark.parametrize(
    ("factor", "shift"),
    [([2.0] * 3, [1.0, -5.0, 0.0]), ([1.0] * 3, [1e8] * 3), ([1e-300] * 3, [0.0] * 3), ([1e300] * 3, [0.0] * 3)],
    ids=["plain", "offset", "tiny", "huge"],
)
def test_units(name, factor, shift, rng):
    X = np.round(rng.standard_normal((40, 3)) * [1.0, 3.0, 0.5], 6)
    tolerant = X if shift[0] < 1e8 else np.round(X * 2**10) / 2**10
    kit.check_units(CASES[name].make, tolerant, np.array(factor), np.array(shift))


@pytest.mark.parametrize("name", ["gaussian_diag", "gaussian_full", "gaussian_tied"])
def test_each_column_has_its_own_unit(name, rng):
    kit.check_units(CASES[name].make, gaussian_data(rng), np.array([1e-200, 1.0, 1e200]), np.zeros(3))


@pytest.mark.parametrize("name", ["gaussian_diag", "bernoulli", "poisson"])
def test_missing_cells_are_marginal(name, rng):
    """Rows with NaN score as scipy's marginal over the observed columns."""
    case = CASES[name]
    X = case.data(rng)
    family = case.make(X)
    eta = family.mode_eta(kit.statistics(family, X, 3, rng))
    named = family.named(eta)
    holes = rng.random(X.shape) < 0.4
    cells = {
        "gaussian_diag": lambda: stats.norm.logpdf(X[:, None], named["means"], np.sqrt(named["covariances"])),
        "bernoulli": lambda: stats.bernoulli.logpmf(X[:, None], named["probabilities"]),
        "poisson": lambda: stats.poisson.logpmf(X[:, None], named["rates"]),
    }[name]()
    expected = np.where(holes[:, None], 0.0, cells).sum(-1)
    kit.check_density(family.with_missing(), family.widen_eta(eta), np.where(holes, np.nan, X), expected)


def test_evidence_with_missing_cells_is_that_of_the_columns(rng):
    X = gaussian_data(rng)
    X[rng.random(X.shape) < 0.3] = np.nan
    family = DiagonalGaussian.from_data(X)
    assert family.missing
    total = 0.0
    for j in range(3):
        seen = X[~np.isnan(X[:, j]), j : j + 1]
        part = replace(
            family, **{n: getattr(family, n)[j : j + 1] for n in ("centre", "scale", "m0", "psi")}, missing=False
        )
        total += part.log_marginal(part.sufficient(seen).sum(0))
    assert family.log_marginal(family.sufficient(X).sum(0)) == pytest.approx(float(total), rel=1e-12)
