"""What each family answers to bad data, extreme data, empty components and wrong hyperparameters."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats

from weald.exceptions import DataError, ParameterError
from weald.families import (
    FAMILIES,
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    FullGaussian,
    Multinomial,
    Poisson,
    Product,
    SphericalGaussian,
    TiedGaussian,
    family_class,
    family_from_name,
)
from weald.families.dirichlet import log_gamma_draws
from weald.families.niw import fill_svec, smat, svec
from weald.families.standardise import location_common_scale, location_scale

GAUSSIANS = [DiagonalGaussian, SphericalGaussian, FullGaussian, TiedGaussian]
MATRIX = [SphericalGaussian, FullGaussian, TiedGaussian]


@pytest.fixture
def X(rng):
    return rng.standard_normal((20, 3))


@pytest.mark.parametrize("cls", GAUSSIANS)
def test_bad_gaussian_data(cls, X):
    family = cls.from_data(X)
    with pytest.raises(DataError, match="column 1 holds infinity"):
        family.sufficient(np.where(np.arange(3) == 1, np.inf, X))
    with pytest.raises(DataError, match=r"shape \(n, 3\)"):
        family.sufficient(X[:, :2])
    with pytest.raises(DataError, match="dense"):
        family.sufficient(sparse.csr_array(X))
    with pytest.raises(DataError, match="dense"):
        cls.from_data(sparse.csr_array(X))
    with pytest.raises(DataError, match="at least one row"):
        cls.from_data(X[:0])
    with pytest.raises(DataError, match="cannot be read as numbers"):
        cls.from_data(np.array([["a", "b"]], dtype=object))


@pytest.mark.parametrize("cls", MATRIX)
def test_nan_is_refused_with_advice(cls, X):
    family = cls.from_data(X)
    X[4, 2] = np.nan
    for call in (cls.from_data, family.sufficient):
        with pytest.raises(DataError, match=r"column 2 holds NaN \(first in row 4\).*covariance='diag'"):
            call(X)
    with pytest.raises(DataError, match="cannot marginalise"):
        family.with_missing()
    assert not family.accepts_missing


def test_nan_in_the_narrow_layout(X):
    family = DiagonalGaussian.from_data(X)
    X[0, 0] = np.nan
    with pytest.raises(DataError, match="with_missing"):
        family.sufficient(X)
    assert np.isfinite(family.with_missing().sufficient(X)).all()
    assert DiagonalGaussian.from_data(X).missing


def test_bad_discrete_data():
    binary, counts = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0.0, 3.0], [1.0, 2.0]])
    with pytest.raises(DataError, match="column 1 holds values other than 0 and 1"):
        Bernoulli.from_data(binary).sufficient(counts)
    for family, what in ((Poisson.from_data(counts), "no counts"), (Multinomial.from_data(counts), "no counts")):
        for wrong in (-1.0, 0.5):
            with pytest.raises(DataError, match=f"column 1 holds values that are {what}"):
                family.sufficient(np.array([[0.0, wrong]]))
    with pytest.raises(DataError, match="column 0 holds NaN"):
        Multinomial.from_data(counts).sufficient(np.array([[np.nan, 1.0]]))
    for wrong in (-1.0, 0.5, np.nan, np.inf):
        with pytest.raises(DataError, match="column 1 holds values that are no counts"):
            Multinomial.from_data(sparse.csr_array([[2.0, wrong]]))
    with pytest.raises(DataError, match="shape"):
        Multinomial.from_data(counts).sufficient(sparse.csr_array([[1.0]]))
    codes = Categorical.from_data(np.array([[0.0, 1.0], [1.0, 2.0]]))
    with pytest.raises(DataError, match="column 1 holds the code 3; its levels are 0 to 2"):
        codes.sufficient(np.array([[0.0, 3.0]]))
    for wrong in (-1.0, 0.5):
        with pytest.raises(DataError, match="column 0 holds values that are no codes"):
            codes.sufficient(np.array([[wrong, 0.0]]))


def test_errors_of_a_product_name_the_columns_of_the_data():
    X = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 2.0]])
    family = Product.from_data(X, kinds=("gaussian", "bernoulli", "poisson"))
    with pytest.raises(DataError, match="column 2 holds values that are no counts"):
        family.sufficient(np.array([[0.0, 1.0, 0.5]]))
    with pytest.raises(DataError, match="column 1 holds NaN"):
        family.sufficient(np.array([[0.0, np.nan, 0.0]]))


@pytest.mark.parametrize("cls", GAUSSIANS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_constant_columns_and_duplicates(cls, dtype):
    X = np.tile(np.array([[3.0, 0.0]], dtype), (5, 1))
    family = cls.from_data(X, 2)
    assert np.all(np.asarray(family.scale) == 1)
    eta = family.mode_eta(family.sufficient(X).sum(0, dtype=float)[None])
    named = family.named(eta)
    np.testing.assert_allclose(named["means"], [[3.0, 0.0]], atol=1e-6)
    covariance = named["covariances"][0]
    assert ((np.linalg.eigvalsh(covariance) if covariance.ndim == 2 else covariance) > 0).all()
    assert np.isfinite(family.sufficient(X) @ eta.T).all()


@pytest.mark.parametrize("cls", GAUSSIANS)
def test_one_row_and_far_away_rows(cls, X):
    one = cls.from_data(X[:1])
    assert np.isfinite(one.mode_eta(one.sufficient(X[:1]))).all()
    family = cls.from_data(X)
    eta = family.mode_eta(family.sufficient(X).sum(0)[None])
    for far in (X[:1] * 1e200, (X[:1] * 1e30).astype(np.float32)):
        T = family.sufficient(far)
        assert np.isfinite(T).all()
        assert (T @ eta.T < -1e30).all()
    with pytest.raises(DataError, match="column 0 spans"):
        cls.from_data(np.array([[-1.7e308, 0.0], [1.7e308, 1.0], [1.7e308, 2.0]]))


@pytest.mark.parametrize("cls", GAUSSIANS)
def test_offset_keeps_digits(cls, rng):
    """Data at 1e8 +- 1: means to 1e-8, variances as those of the centred data."""
    centred = np.round(rng.standard_normal((200, 2)) * 2**20) / 2**20
    near, far = cls.from_data(centred), cls.from_data(centred + 1e8)
    got, expected = (
        f.named(f.mode_eta(f.sufficient(x).sum(0)[None])) for f, x in ((far, centred + 1e8), (near, centred))
    )
    np.testing.assert_allclose(got["means"] - 1e8, expected["means"], atol=1e-7)
    np.testing.assert_allclose(got["covariances"], expected["covariances"], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("cls", GAUSSIANS)
def test_float32_with_an_offset(cls, rng):
    X = (rng.standard_normal((500, 2)) + 1000).astype(np.float32)
    family = cls.from_data(X)
    T = family.sufficient(X)
    eta = family.mode_eta(T.sum(0, dtype=np.float64)[None])
    np.testing.assert_allclose(T @ eta.T, family.sufficient(X.astype(float)) @ eta.T, atol=1e-4)


def test_location_scale(rng):
    X = rng.standard_normal((9000, 3)) * [1e-300, 1.0, 1e300] + [0.0, 1e8, 0.0]
    X[rng.random(X.shape) < 0.1] = np.nan
    centre, scale = location_scale(X)
    unit = np.array([1e-300, 1.0, 1e300])
    np.testing.assert_allclose(scale / unit, np.nanstd((X - [0.0, 1e8, 0.0]) / unit, axis=0), rtol=1e-8)
    np.testing.assert_allclose((centre - [0, 1e8, 0]) / unit, np.nanmean((X - [0, 1e8, 0]) / unit, axis=0), atol=1e-7)
    centre, scale = location_scale(np.array([[np.nan, 5.0, 5e-324], [np.nan, 5.0, 0.0]]))
    assert centre[0] == 0
    assert (scale[:2] == 1).all()
    assert scale[2] > 0
    assert location_common_scale(np.array([[1.0, 2.0], [3.0, 6.0]]))[1] == pytest.approx(np.sqrt(2.5))


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "mixed"])
def test_empty_components_give_the_prior(name, rng):
    X = rng.integers(0, 2, (20, 3)).astype(float)
    family = FAMILIES[name].from_data(X, 2)
    S = np.zeros((4, family.width))
    S[0] = np.asarray(family.sufficient(X)).sum(0)
    for eta in (family.mode_eta(S), family.sample_eta(S, rng), family.expected_eta(S)):
        assert np.isfinite(eta).all()
        assert eta.shape == S.shape
    assert (family.log_marginal(S)[1:] == 0).all()
    assert family.mode_eta(S[1:])[0] == pytest.approx(family.mode_eta(S[1:])[2])
    assert family.log_evidence(S) == pytest.approx(float(family.log_marginal(S).sum()))


def test_maximum_likelihood_of_binary_data():
    X = np.array([[1.0, 1.0], [1.0, 0.0]])
    family = Bernoulli.from_data(X, alpha=1, beta=1)
    T = family.sufficient(X)
    eta = family.mode_eta(np.stack([T.sum(0), 0 * T.sum(0)]))
    np.testing.assert_allclose(family.named(eta)["probabilities"], [[1.0, 0.5], [0.5, 0.5]])
    scores = T @ eta.T
    np.testing.assert_allclose(scores, np.log([[0.5, 0.25], [0.5, 0.25]]), atol=1e-12)
    impossible = family.sufficient(np.array([[0.0, 1.0]])) @ eta.T
    assert np.isfinite(impossible).all()
    assert impossible[0, 0] < -600
    with pytest.raises(ParameterError, match="alpha >= 1"):
        Bernoulli.from_data(X, alpha=0.5).mode_eta(T)


def test_map_of_binary_data_adds_one():
    """Errata of journal (73): (N1 + b1 - 1)/(N + b0 + b1 - 2)."""
    X = np.array([[1.0], [1.0], [1.0], [0.0]])
    family = Bernoulli.from_data(X, alpha=2, beta=4)
    theta = family.named(family.mode_eta(family.sufficient(X).sum(0)[None]))["probabilities"]
    assert theta[0, 0] == pytest.approx((3 + 2 - 1) / (4 + 2 + 4 - 2))


@pytest.mark.parametrize("cls", [Categorical, Multinomial])
def test_maximum_likelihood_of_counts(cls):
    X = np.array([[0.0, 2.0], [0.0, 1.0]])
    family = cls.from_data(X, concentration=1.0)
    T = family.sufficient(X)
    eta = family.mode_eta(np.stack([T.sum(0), 0 * T.sum(0)]))
    assert np.isfinite(eta).all()
    assert np.isfinite(T @ eta.T).all()
    p = family.named(eta)["probabilities"]
    np.testing.assert_allclose(p[0], [1.0, 0.0, 0.5, 0.5] if cls is Categorical else [0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(p[1], [1.0, 1 / 3, 1 / 3, 1 / 3] if cls is Categorical else [0.5, 0.5])
    sparse_prior = cls.from_data(X, concentration=0.01)
    with pytest.raises(ParameterError, match="concentration >= 1"):
        sparse_prior.mode_eta(T)
    assert np.isfinite(sparse_prior.sample_eta(T, np.random.default_rng(0))).all()


def test_poisson_extremes():
    X = np.array([[0.0, 1e15], [0.0, 2e15]])
    family = Poisson.from_data(X)
    np.testing.assert_allclose(family.rate, [2.0, 2 / 1.5e15])
    eta = family.mode_eta(family.sufficient(X).sum(0)[None])
    assert np.isfinite(eta).all()
    flat = Poisson.from_data(X, shape=1.0)
    assert np.isfinite(flat.mode_eta(flat.sufficient(X).sum(0)[None])).all()
    with pytest.raises(ParameterError, match="shape >= 1"):
        Poisson.from_data(X, shape=0.5).mode_eta(family.sufficient(X))


def test_sparse_counts_equal_dense(rng):
    counts = rng.poisson(0.4, (50, 30))
    dense = Multinomial.from_data(counts)
    for csr in (sparse.csr_array(counts), sparse.csr_matrix(counts), sparse.csc_matrix(counts)):
        family = Multinomial.from_data(csr)
        assert family.n_trials == dense.n_trials
        T = family.sufficient(csr)
        assert sparse.issparse(T)
        assert T.format == "csr"
        np.testing.assert_array_equal(T.toarray(), dense.sufficient(counts))
        np.testing.assert_allclose(family.log_base(csr), dense.log_base(counts), rtol=1e-12)
        S = np.stack([dense.sufficient(counts).sum(0), np.zeros(31)])
        np.testing.assert_allclose(family.log_predictive(S, T), dense.log_predictive(S, T.toarray()), rtol=1e-12)
        np.testing.assert_allclose(family.coordinates(csr).toarray(), dense.coordinates(counts), rtol=1e-12)
    twice = sparse.csr_array((np.array([1.0, 1.0]), np.array([0, 0]), np.array([0, 2])), (1, 30))
    np.testing.assert_allclose(dense.log_base(twice), 0.0, atol=1e-12)
    assert twice.nnz == 2


def test_rows_without_counts():
    family = Multinomial.from_data(sparse.csr_array([[0.0, 0.0], [2.0, 1.0], [0.0, 0.0]]))
    T = family.sufficient(sparse.csr_array([[0.0, 0.0], [2.0, 1.0], [0.0, 0.0]]))
    log_p = family.log_predictive(np.zeros((2, 3)), T)
    assert (log_p[[0, 2]] == 0).all()
    assert (log_p[1] < 0).all()


def test_predictive_in_tiles(monkeypatch, rng):
    for name, cls in FAMILIES.items():
        X = rng.integers(0, 2, (30, 3)).astype(float)
        options = {"kinds": ("gaussian", "poisson", "categorical")} if name == "mixed" else {}
        family = cls.from_data(X, 2, **options)
        T = np.asarray(family.sufficient(X))
        whole = family.log_predictive(T[:2], T)
        with monkeypatch.context() as patch:
            for module in ("factorised", "gaussian_spherical", "gaussian_matrix", "multinomial"):
                patch.setattr(importlib.import_module(f"weald.families.{module}"), "PREDICTIVE_TILE", 20)
            np.testing.assert_allclose(family.log_predictive(T[:2], T), whole, rtol=1e-12)
        assert family.log_predictive(T[:2], T[:0]).shape == (0, 2)


def test_blocks_of_rows(rng):
    X = rng.standard_normal((9001, 2))
    for cls in GAUSSIANS:
        family = cls.from_data(X)
        T = family.sufficient(X)
        for rows in (slice(0, 10), slice(4090, 4100), slice(8990, 9001)):
            np.testing.assert_array_equal(T[rows], family.sufficient(X[rows]))


def test_svec(rng):
    A, B = (M @ M.T for M in rng.standard_normal((2, 4, 4)))
    assert svec(A) @ svec(B) == pytest.approx(np.trace(A @ B))
    np.testing.assert_allclose(smat(svec(A), 4), A, rtol=1e-15)
    Z = rng.standard_normal((3, 4))
    T = np.ones((5, 15))
    fill_svec(Z, 2, T)
    np.testing.assert_allclose(T[2:, 4:-1], svec(Z[:, :, None] * Z[:, None]), rtol=1e-15)
    assert (T[:2] == 1).all()
    assert (T[:, -1] == 1).all()


def test_log_gamma_draws_have_the_right_law(rng):
    for shape in (0.3, 1.0, 7.0):
        draws = np.exp(log_gamma_draws(np.full(4000, shape), rng))
        assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 1e-5
        assert stats.kstest(draws, stats.gamma(shape * 1.2).cdf).pvalue < 1e-5
    assert np.isfinite(log_gamma_draws(np.full(100, 1e-8), rng)).all()


@pytest.mark.parametrize("cls", GAUSSIANS)
def test_prior_overrides_are_in_the_units_of_the_data(cls, X):
    d = 3
    psi = 4.0 if cls is SphericalGaussian else 4.0 * np.eye(d) if cls in MATRIX else np.full(d, 4.0)
    family = cls.from_data(X + 7, mean=5.0, kappa=2.0, nu=9.0, psi=psi)
    named = family.named(family.mode_eta(np.zeros((1, family.width))))
    np.testing.assert_allclose(named["means"], 5.0)
    divisor = {DiagonalGaussian: 9 + 3, SphericalGaussian: 9 + d + 2}.get(cls, 9 + d + 2)
    np.testing.assert_allclose(named["covariances"][0], np.asarray(psi) / divisor, rtol=1e-10, atol=1e-12)
    assert cls.from_data(X, kappa=None).kappa == 0.01


@pytest.mark.parametrize("cls", GAUSSIANS)
def test_default_prior_mean_of_the_variance_shrinks_with_components(cls, X):
    for K in (1, 8):
        family = cls.from_data(X, K)
        psi = np.asarray(family.psi)
        diagonal = np.diag(psi) if psi.ndim == 2 else psi
        free = family.nu - (3 + 1 if psi.ndim == 2 else 2)
        np.testing.assert_allclose(diagonal / free, K ** (-2 / 3))


def test_wrong_hyperparameters(X):
    with pytest.raises(ParameterError, match=r"unknown prior parameter 'kapa'.*kappa.*did you mean 'kappa'"):
        DiagonalGaussian.from_data(X, kapa=1)
    with pytest.raises(ParameterError, match="kappa must be a number above 0"):
        FullGaussian.from_data(X, kappa=-1.0)
    with pytest.raises(ParameterError, match="nu must be a number above 2"):
        FullGaussian.from_data(X, nu=1.5)
    with pytest.raises(ParameterError, match="positive definite"):
        FullGaussian.from_data(X, psi=-np.eye(3))
    with pytest.raises(ParameterError, match="psi must be a number or an array"):
        FullGaussian.from_data(X, psi=np.ones((2, 2)))
    with pytest.raises(ParameterError, match="n_components"):
        FullGaussian.from_data(X, 0)
    with pytest.raises(ParameterError, match="finite and positive"):
        Poisson.from_data(abs(X).round(), shape=-1)
    with pytest.raises(ParameterError, match="n_levels"):
        Categorical.from_data(abs(X).round(), n_levels=(3,))
    with pytest.raises(ParameterError, match="n_trials"):
        Multinomial.from_data(abs(X).round(), n_trials=-2)


@pytest.mark.parametrize("cls", GAUSSIANS)
def test_fields_of_wrong_shape_are_refused(cls, X):
    family = cls.from_data(X)
    for wrong in ({"centre": np.zeros((2, 2))}, {"m0": np.zeros(2)}, {"centre": "no"}, {"scale": -1.0}, {"nu": np.nan}):
        with pytest.raises(ParameterError):
            replace(family, **wrong)
    if hasattr(family.scale, "shape"):
        with pytest.raises(ParameterError, match="every axis must be 3"):
            replace(family, psi=np.ones(2) if cls is DiagonalGaussian else np.eye(2))


def test_fields_of_discrete_families_are_checked():
    for make in (
        lambda: Bernoulli(np.ones(2), np.ones(3)),
        lambda: Bernoulli(np.ones((2, 2)), np.ones((2, 2))),
        lambda: Poisson(np.ones(2), np.zeros(2)),
        lambda: Categorical((2, 2), np.ones(3)),
        lambda: Categorical((2, 0), np.ones(2)),
        lambda: Categorical((), np.ones(0)),
        lambda: Multinomial(np.array([1.0, np.nan]), 3),
        lambda: Product((), (), ()),
        lambda: Product((Poisson(np.ones(2), np.ones(2)),), ((0, 2),), ("p",)),
        lambda: Product((Poisson(np.ones(2), np.ones(2)),), ((0,),), ("p",)),
    ):
        with pytest.raises(ParameterError):
            make()


def test_family_from_name(X):
    for covariance, cls in zip(("diag", "spherical", "full", "tied"), GAUSSIANS, strict=True):
        assert type(family_from_name("gaussian", covariance, X, 2, kappa=0.5)) is cls
    codes = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert family_from_name("categorical", "full", codes, n_levels=(3, 4)).n_levels == (3, 4)
    family = family_from_name(
        "mixed", "full", codes, kinds=("categorical", "gaussian"), n_levels=(5,), gaussian={"kappa": 0.5}
    )
    assert family.parts[0].n_levels == (5,)
    assert family.parts[1].kappa == 0.5
    for name in ("bernoulli", "multinomial", "poisson"):
        assert isinstance(family_from_name(name, "full", codes), FAMILIES[name])
    assert family_class("gaussian") is FullGaussian
    with pytest.raises(ParameterError, match=r"unknown family 'gausian'.*did you mean 'gaussian'"):
        family_from_name("gausian", "full", X)
    with pytest.raises(ParameterError, match=r"unknown covariance 'diagonal'.*full"):
        family_from_name("gaussian", "diagonal", X)
    with pytest.raises(ParameterError, match="unknown kind of column 'normal'"):
        family_from_name("mixed", "full", codes, kinds=("normal", "gaussian"))
    with pytest.raises(ParameterError, match="one kind for each of 2 columns"):
        family_from_name("mixed", "full", codes)
    with pytest.raises(ParameterError, match="unknown prior parameter 'n_levels'"):
        family_from_name("poisson", "full", codes, n_levels=(2, 2))


def test_what_families_read():
    reads = {
        ("gaussian", "diag"): (True, False),
        ("gaussian", "full"): (False, False),
        ("multinomial", ""): (False, True),
        ("bernoulli", ""): (True, True),
        ("poisson", ""): (True, True),
        ("mixed", ""): (True, False),
    }
    for (name, covariance), expected in reads.items():
        family = family_class(name, covariance)
        assert (family.accepts_missing, family.accepts_sparse) == expected


@pytest.mark.parametrize("name", ["bernoulli", "poisson"])
def test_sparse_counts_stay_sparse_and_agree_with_dense(name, rng):
    X = rng.integers(0, 2 if name == "bernoulli" else 4, size=(30, 5)).astype(np.float64)
    C = sparse.csr_array(X)
    weight = rng.random(30) + 0.1
    family = family_from_name(name, "", X, weight=weight)
    assert family.mode_eta(np.zeros((1, 6))) == pytest.approx(
        family_from_name(name, "", C, weight=weight).mode_eta(np.zeros((1, 6)))
    )
    T = family.sufficient(C)
    assert sparse.issparse(T)
    assert np.array_equal(T.toarray(), family.sufficient(X))
    assert np.allclose(family.log_base(C), family.log_base(X))
    assert np.allclose(family.coordinates(C).toarray(), family.coordinates(X))
    S = family.sufficient(X).sum(0, keepdims=True)
    assert np.allclose(family.log_predictive(S, T), family.log_predictive(S, family.sufficient(X)))
    with pytest.raises(DataError):
        family.sufficient(sparse.csr_array(X * 0.5 - 1))


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical", "tied"])
def test_weights_count_as_repeated_rows(covariance, rng):
    X = rng.standard_normal((20, 3)) * [1.0, 10.0, 0.1]
    times = rng.integers(1, 4, size=20)
    weighted = family_from_name("gaussian", covariance, X, weight=times.astype(np.float64))
    repeated = family_from_name("gaussian", covariance, np.repeat(X, times, axis=0))
    assert np.allclose(weighted.centre, repeated.centre)
    assert np.allclose(weighted.scale, repeated.scale)


def test_numbers_of_parameters(X):
    d = 3
    triangle = d * (d + 1) // 2
    expected = {"full": (d + triangle, 0), "diag": (2 * d, 0), "spherical": (d + 1, 0), "tied": (d, triangle)}
    for covariance, (own, shared) in expected.items():
        family = family_from_name("gaussian", covariance, X)
        assert (family.n_parameters, family.n_shared_parameters) == (own, shared)
    codes = np.array([[0.0, 3.0], [1.0, 0.0]])
    assert Categorical.from_data(codes).n_parameters == 1 + 3
    assert Multinomial.from_data(codes).n_parameters == 1
    assert Product.from_data(codes, kinds=("bernoulli", "poisson")).n_parameters == 2


def test_coordinates_have_no_nan():
    X = np.array([[0.0, 1.0], [1.0, np.nan], [np.nan, 0.0]])
    for cls in (DiagonalGaussian, Bernoulli, Poisson, Categorical):
        assert np.isfinite(cls.from_data(X).coordinates(X)).all()
    both = Product.from_data(X, kinds=("bernoulli", "gaussian"))
    assert both.coordinates(X).shape == (3, 2)


def test_one_component_of_a_tied_gaussian_is_a_full_one(X):
    full, tied = FullGaussian.from_data(X, 2), TiedGaussian.from_data(X, 2)
    T = full.sufficient(X)
    S = T.sum(0)[None]
    for name in ("mode_eta", "expected_eta", "log_marginal", "log_evidence"):
        np.testing.assert_allclose(getattr(full, name)(S), getattr(tied, name)(S), rtol=1e-12)
    np.testing.assert_allclose(full.log_predictive(S, T), tied.log_predictive(S, T), rtol=1e-12)
    drawn = tied.named(tied.sample_eta(np.repeat(S, 3, axis=0), np.random.default_rng(0)))
    np.testing.assert_allclose(drawn["covariances"][0], drawn["covariances"][2], rtol=1e-9)
    assert not np.allclose(drawn["means"][0], drawn["means"][2])
