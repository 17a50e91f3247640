"""Lists of clusters that can matter: the certificate, and draws, normalisers and statistics of exact assignment."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from weald.assign import ExactAssignment, Rows, expect_all, sample_all
from weald.assign import pruned as pruned_module
from weald.assign._softmax import CUT
from weald.assign.base import statistics
from weald.assign.order import nearby_order
from weald.assign.pruned import PrunedAssignment, pruned_share, tiles_of
from weald.datasets import make_blobs_overlapping, make_categories
from weald.engine import Threads, shards_of
from weald.exceptions import ParameterError
from weald.families import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    FullGaussian,
    Multinomial,
    Poisson,
    SphericalGaussian,
    TiedGaussian,
)
from weald.testing.invariance import BUDGET, chi_square

ONE, KEY = Threads(1), np.uint64(20261116)
KERNEL = PrunedAssignment()


def blobs(n, k, rng):
    data = make_blobs_overlapping(n, 2, k, 7.0, rng)
    return data.X, data.z


def missing(n, k, rng):
    X, z = blobs(n, k, rng)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, z


def outlier(n, k, rng):
    X, z = blobs(n, k, rng)
    X[n // 2] = 1e4
    return X, z


def rates(n, k, rng):
    z = rng.integers(0, k, n)
    return rng.poisson(np.exp(rng.uniform(0, 8, (k, 2)))[z]).astype(float), z


def bits(n, k, rng):
    z = rng.integers(0, k, n)
    return (rng.random((n, 12)) < rng.choice([0.001, 0.999], (k, 12))[z]).astype(float), z


def counts(n, k, rng):
    z = rng.integers(0, k, n)
    return rng.multinomial(300, rng.dirichlet(np.full(4, 0.5), k)[z]).astype(float), z


def sparse(n, k, rng):
    X, z = counts(n, k, rng)
    return sp.csr_array(X), z


def wide(n, k, rng):
    z = rng.integers(0, k, n)
    return rng.poisson(np.exp(rng.uniform(0, 8, (k, 30)))[z]).astype(float), z


def codes(n, k, rng):
    data = make_categories(n, k, 4, 3, rng)
    return data.X.astype(float), data.z


SCENES = {
    "spherical": (SphericalGaussian, blobs),
    "diag": (DiagonalGaussian, blobs),
    "full": (FullGaussian, blobs),
    "tied": (TiedGaussian, blobs),
    "missing": (DiagonalGaussian, missing),
    "outlier": (SphericalGaussian, outlier),
    "poisson": (Poisson, rates),
    "bernoulli": (Bernoulli, bits),
    "multinomial": (Multinomial, counts),
    "sparse": (Multinomial, sparse),
    "wide": (Poisson, wide),
    "categorical": (Categorical, codes),
}
SHORT = {
    "spherical",
    "diag",
    "full",
    "tied",
    "poisson",
    "multinomial",
    "sparse",
}  # scenes where bounds must do some good


def scene(name, rng, n=1500, K=50, dtype=np.float64, ordered=True):
    """Rows of a mixture in order, and parameters near those that made them."""
    cls, simulate = SCENES[name]
    X, z = simulate(n, K, rng)
    X = X.astype(dtype)
    family = cls.from_data(X, K)
    family = family.with_missing() if name == "missing" else family
    if ordered:
        C = family.coordinates(X)
        order = nearby_order(C.toarray() if sp.issparse(C) else C, 64)
        X, z = X[order], z[order]
    S = statistics(Rows(X, family), z.astype(np.int32), K, ONE)
    return Rows(X, family), family.sample_eta(S, rng), np.log(rng.dirichlet(np.full(K, 2.0)))


def plan_for(kernel, rows, eta, log_w):
    return kernel.refresh(kernel.prepare(rows), eta, log_w, 0, {})[0]


def dense(T):
    return np.asarray(T.toarray() if sp.issparse(T) else T, np.float64)


def lists(plan, rows, size=64):
    """(slice of rows, listed clusters) of every cell."""
    for shard in shards_of(rows.n_rows):
        for tile in tiles_of(plan, shard):
            for c in range(tile.edges.size - 1):
                a = tile.rows.start + c * size
                yield slice(a, min(a + size, tile.rows.stop)), tile.ids[tile.edges[c] : tile.edges[c + 1]]


def left_out(plan, rows, eta, log_w, size=64):
    """Largest log mass of a row that lies on clusters which are not listed, and the share of scores in lists."""
    s = dense(rows.family.sufficient(rows.X)) @ eta.T + log_w
    s -= np.logaddexp.reduce(s, axis=1)[:, None]
    worst, kept = -np.inf, 0
    for at, ids in lists(plan, rows, size):
        others = np.setdiff1d(np.arange(len(log_w)), ids)
        kept += ids.size * (at.stop - at.start)
        if others.size:
            worst = max(worst, float(np.logaddexp.reduce(s[at][:, others], axis=1).max()))
    return worst, kept / s.size


@pytest.mark.parametrize("name", SCENES)
def test_what_is_left_out_cannot_matter(name, rng):
    for _ in range(3):
        rows, eta, log_w = scene(name, rng)
        worst, share = left_out(plan_for(KERNEL, rows, eta, log_w), rows, eta, log_w)
        assert worst < -CUT
        assert share < 0.6 or name not in SHORT


@pytest.mark.parametrize("size", [64, 128, 512, 4096])
def test_cells_of_any_size_are_certified(size, rng):
    rows, eta, log_w = scene("spherical", rng, n=9000)
    worst, _ = left_out(plan_for(PrunedAssignment(size), rows, eta, log_w), rows, eta, log_w, size)
    assert worst < -CUT


@pytest.mark.parametrize("factor", [0.0, 0.5])
@pytest.mark.parametrize("name", ["spherical", "full", "poisson", "multinomial"])
def test_ellipsoids_that_are_too_small_are_rejected(name, factor, rng, monkeypatch):
    right = pruned_module.hulls_of

    def smaller(T, size):
        hulls = right(T, size)
        hulls.form[:, 1:] *= factor
        return hulls

    monkeypatch.setattr(pruned_module, "hulls_of", smaller)
    rows, eta, log_w = scene(name, rng)
    assert left_out(plan_for(KERNEL, rows, eta, log_w), rows, eta, log_w)[0] > -CUT


@pytest.mark.parametrize("name", SCENES)
def test_the_law_given_the_lists_is_the_law(name, rng):
    rows, eta, log_w = scene(name, rng)
    s = dense(rows.family.sufficient(rows.X)) @ eta.T + log_w
    for at, ids in lists(plan_for(KERNEL, rows, eta, log_w), rows):
        law = np.zeros_like(s[at])
        law[:, ids] = softmax(s[at][:, ids], axis=1)
        assert np.abs(law - softmax(s[at], axis=1)).max() < 1e-12


def both(rows, eta, log_w, kernel=KERNEL, engine=ONE):
    """One sweep of exact and of pruned assignment: draws and expectations."""
    nowhere, S = np.full(rows.n_rows, -1, np.int32), np.zeros(eta.shape)
    plans = [(k, plan_for(k, rows, eta, log_w)) for k in (ExactAssignment(), kernel)]
    drawn = [sample_all(k, plan, rows, nowhere, S, {}, KEY, engine) for k, plan in plans]
    return drawn, [expect_all(k, plan, rows, engine) for k, plan in plans]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SCENES)
def test_draws_normalisers_and_expectations_are_those_of_exact_assignment(name, dtype, rng):
    """With up to 64 clusters both kernels walk them in the same order: labels are equal, but for rounding."""
    rows, eta, log_w = scene(name, rng, dtype=dtype)
    rows = Rows(rows.X, rows.family, rng.random(rows.n_rows))
    (exact, drawn), (soft, mine) = both(rows, eta, log_w)
    single = dtype == np.float32
    assert np.mean(exact.z != drawn.z) <= (0.003 if single else 0.0)
    scale = (1e-6 if single else 1e-12) * np.abs(dense(rows.family.sufficient(rows.X)) @ eta.T).max()
    assert abs(drawn.log_norm - exact.log_norm) < max(scale * rows.n_rows * 0.1, 1e-12 * abs(exact.log_norm))
    assert mine.log_norm == pytest.approx(drawn.log_norm, rel=1e-9)
    slack = 2e-3 if single else 1e-9
    assert pytest.approx(soft.S, rel=slack, abs=slack * np.abs(soft.S).max()) == mine.S
    assert pytest.approx(statistics(rows, drawn.z, len(log_w), ONE), rel=1e-9, abs=1e-9) == drawn.S


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_normalisers_to_relative_precision(dtype, rng):
    for name in ("spherical", "diag", "full"):
        rows, eta, log_w = scene(name, rng, n=5000, K=200, dtype=dtype)
        (exact, drawn), _ = both(rows, eta, log_w)
        assert drawn.log_norm == pytest.approx(exact.log_norm, rel=1e-6 if dtype == np.float32 else 1e-12)


def chi_of(name, K, rng, dtype=np.float64, n=20_000):
    """P-value of labels of one row, repeated; eta is tempered until no cluster has half of its mass."""
    rows, eta, log_w = scene(name, rng, K=K)
    x = rows.X[:1].astype(dtype)
    T, p = dense(rows.family.sufficient(x)), np.ones(1)
    while p.max() > 0.5:
        eta = eta / 1.5
        p = softmax(T @ eta.T + log_w, axis=1)[0]
    many = sp.csr_array(sp.vstack([x] * n)) if sp.issparse(x) else np.repeat(x, n, axis=0)
    rows = Rows(many, rows.family)
    plan = plan_for(KERNEL, rows, eta, log_w)
    out = sample_all(KERNEL, plan, rows, np.full(n, -1, np.int32), np.zeros(eta.shape), {}, KEY, ONE)
    return chi_square(np.bincount(out.z, minlength=K), p)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SCENES)
def test_labels_have_their_law(name, dtype, rng):
    assert chi_of(name, 100, rng, dtype) > BUDGET


def test_lists_that_lose_a_cluster_are_rejected(rng, monkeypatch):
    right = pruned_module.shortlists

    def losing(*args):
        ids, edges, n_bounds = right(*args)
        kept = [ids[a : b - 3] for a, b in pairwise(edges)]
        return np.concatenate(kept), np.cumsum([0, *map(len, kept)]), n_bounds

    monkeypatch.setattr(pruned_module, "shortlists", losing)
    assert chi_of("spherical", 100, rng) < BUDGET


def test_threads_do_not_matter(rng):
    rows, eta, log_w = scene("diag", rng, n=20_000, dtype=np.float32)
    outs = [both(rows, eta, log_w, engine=Threads(threads)) for threads in (1, 2, 4)]
    for (_, drawn), (_, soft) in outs[1:]:
        (_, first), (_, expected) = outs[0]
        assert np.array_equal(drawn.z, first.z)
        assert np.array_equal(drawn.S, first.S)
        assert np.array_equal(soft.S, expected.S)
        assert drawn.log_norm == first.log_norm


def test_rows_may_come_in_any_order(rng):
    rows, eta, log_w = scene("diag", rng, n=5000, ordered=False)
    worst, share = left_out(plan_for(KERNEL, rows, eta, log_w), rows, eta, log_w)
    assert worst < -CUT
    assert share > 0.5
    (exact, drawn), _ = both(rows, eta, log_w)
    assert np.array_equal(exact.z, drawn.z)


@pytest.mark.parametrize("n", [1, 5, 64, 65, 4096 + 70])
@pytest.mark.parametrize("K", [1, 3])
def test_few_rows_and_few_clusters(n, K, rng):
    X = rng.normal(size=(n, 2))
    family = SphericalGaussian.from_data(np.vstack([X, rng.normal(size=(5, 2))]), K)
    rows = Rows(X, family)
    eta, log_w = family.sample_eta(np.zeros((K, family.width)), rng), np.full(K, -np.log(K))
    (exact, drawn), _ = both(rows, eta, log_w)
    assert np.array_equal(exact.z, drawn.z)
    assert drawn.log_norm == pytest.approx(exact.log_norm, rel=1e-12)


@pytest.mark.parametrize("name", ["spherical", "full", "multinomial"])
def test_rows_that_are_all_the_same(name, rng):
    rows, eta, log_w = scene(name, rng)
    rows = Rows(np.repeat(rows.X[:1], 300, axis=0), rows.family)
    worst, _ = left_out(plan_for(KERNEL, rows, eta, log_w), rows, eta, log_w)
    assert worst < -CUT
    (exact, drawn), _ = both(rows, eta, log_w)
    assert np.array_equal(exact.z, drawn.z)


@pytest.mark.parametrize("weighted", [False, True])
def test_known_labels_are_kept_though_their_cluster_is_not_listed(weighted, rng):
    rows, eta, log_w = scene("diag", rng)
    known = rng.integers(-20, len(log_w), rows.n_rows).clip(-1).astype(np.int32)
    rows = Rows(rows.X, rows.family, rng.random(rows.n_rows) if weighted else None, known)
    (exact, drawn), (soft, mine) = both(rows, eta, log_w)
    assert np.array_equal(exact.z, drawn.z)
    assert np.array_equal(drawn.z[known >= 0], known[known >= 0])
    assert drawn.log_norm == pytest.approx(exact.log_norm, rel=1e-12)
    assert mine.log_norm == pytest.approx(soft.log_norm, rel=1e-12)
    assert pytest.approx(soft.S, rel=1e-9, abs=1e-9) == mine.S
    assert pytest.approx(exact.S, rel=1e-9, abs=1e-9) == drawn.S


def test_clusters_without_weight_are_never_listed(rng):
    rows, eta, log_w = scene("spherical", rng)
    log_w[::2] = -np.inf
    assert not any(np.any(ids % 2 == 0) for _, ids in lists(plan_for(KERNEL, rows, eta, log_w), rows))
    (exact, drawn), _ = both(rows, eta, log_w)
    assert np.array_equal(exact.z, drawn.z)


def test_the_share_is_known_beforehand_and_saves_work(rng):
    rows, eta, log_w = scene("spherical", rng, n=20_000, K=400)
    share = left_out(plan_for(KERNEL, rows, eta, log_w), rows, eta, log_w)[1]
    assert pruned_share(rows, eta, log_w, n_probes=100) == pytest.approx(share, rel=0.3)
    assert share < 0.1
    _, drawn = both(rows, eta, log_w)[0]
    assert drawn.info["n_evals"] < 0.15 * rows.n_rows * 400


@pytest.mark.parametrize("size", [32, 96, 8192])
def test_cells_must_fill_blocks(size):
    with pytest.raises(ParameterError, match="power of two from 64 to 4096"):
        PrunedAssignment(size)
