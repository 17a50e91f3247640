"""Canopy I and II: enumerated transitions, tables that encode the law they claim, stale ones, and bugs they reject."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from weald.assign import CanopyAssignment, ExactAssignment, Rows, sample_all
from weald.assign import _moves as moves_module
from weald.assign import canopy1 as canopy1_module
from weald.assign import canopy2 as canopy2_module
from weald.assign._moves import densities, draw_from, score_each, weigh
from weald.assign.base import statistics
from weald.assign.canopy2 import Canopy2Assignment, cluster_tree
from weald.assign.cells import TREE_BASE, coarser, make_cells
from weald.datasets import make_blobs_overlapping
from weald.engine import Threads
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
from weald.trees import CoverTree
from weald.trees.alias import law

ONE = Threads(1)
FAMILIES = {
    "full": (FullGaussian, lambda rng: rng.normal(size=(60, 2))),
    "tied": (TiedGaussian, lambda rng: rng.normal(size=(60, 2))),
    "diag": (DiagonalGaussian, lambda rng: rng.normal(size=(60, 3))),
    "spherical": (SphericalGaussian, lambda rng: rng.normal(size=(60, 3))),
    "bernoulli": (Bernoulli, lambda rng: rng.integers(0, 2, (60, 4)).astype(float)),
    "categorical": (Categorical, lambda rng: rng.integers(0, 3, (60, 3)).astype(float)),
    "poisson": (Poisson, lambda rng: rng.poisson(3.0, (60, 2)).astype(float)),
    "multinomial": (Multinomial, lambda rng: rng.integers(0, 3, (60, 5)).astype(float)),
    "sparse": (Multinomial, lambda rng: sp.csr_array(rng.integers(0, 3, (60, 5)).astype(float))),
}
KERNELS = {
    "canopy1": CanopyAssignment(n_cells=5, steps=2, turn=7),
    "canopy1 tree": CanopyAssignment(n_cells=9, cells="tree", steps=2, turn=7),
    "canopy2 leaves": Canopy2Assignment(n_cells=5, n_min=0.0, steps=2, turn=7),
    "canopy2": Canopy2Assignment(n_cells=5, n_min=3.0, steps=2, turn=7),
    "canopy2 tree": Canopy2Assignment(n_cells=9, cells="tree", n_min=1.0, steps=2, turn=7),
    "canopy2 root": Canopy2Assignment(n_cells=5, n_min=1e9, steps=2, turn=7),
}


def dense(T):
    return (T.toarray() if sp.issparse(T) else T).astype(np.float64)


def model(name, K, rng, dtype=np.float64):
    """Rows of a family, parameters of K components that overlap, and others that are a little different."""
    cls, simulate = FAMILIES[name]
    X = simulate(rng)
    family = cls.from_data(X, K)
    T = dense(family.sufficient(X))
    S = np.stack([T[rng.random(60) < 0.3].sum(axis=0) for _ in range(K)])
    eta, later = family.sample_eta(S, rng), family.sample_eta(S, rng)
    log_w = np.log(rng.dirichlet(np.full(K, 2.0)))
    return Rows(X.astype(dtype), family), eta, later, log_w


def posterior(rows, eta, log_w):
    return softmax(dense(rows.family.sufficient(rows.X)) @ eta.T + log_w, axis=1)


def repeated(rows, i, n):
    """Row i, n times."""
    x = rows.X[[i]]
    X = sp.csr_array(sp.vstack([x] * n)) if sp.issparse(x) else np.repeat(x, n, axis=0)
    return Rows(X, rows.family)


def encoded(tables, c):
    """The law of a cell's table as its thresholds have it."""
    a, b = tables.offset[c], tables.offset[c + 1]
    K = tables.order.size
    edges = np.append(tables.start[a:b], K) if tables.start.size else np.arange(K + 1)
    q = np.empty(K)
    shares = law(tables.threshold[None, a:b], tables.alias[None, a:b])[0]
    for first, last, share in zip(edges[:-1], edges[1:], shares, strict=True):
        inside = np.ones(1)
        if last - first > 1:
            i = tables.within[first]
            table = slice(i, i + last - first)
            inside = law(tables.inner_threshold[None, table], tables.inner_alias[None, table])[0]
        q[tables.order[first:last]] = share * inside
    return q


def transitions(p, q):
    """(K,), (K,) -> (K, K): the independence sampler's matrix."""
    A = np.minimum(1.0, p[None, :] * q[:, None] / (p[:, None] * q[None, :]))
    P = q * A
    np.fill_diagonal(P, 0.0)
    np.fill_diagonal(P, 1.0 - P.sum(axis=1))
    return P


@pytest.mark.parametrize("K", [2, 7, 50])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", KERNELS)
def test_enumerated_transitions_leave_p_invariant(name, family, K, rng):
    """With tables of the parameters, and with stale ones; and the tables draw from the q that corrects them."""
    rows, eta, later, log_w = model(family, K, rng)
    kernel = KERNELS[name]
    cells = kernel.prepare(rows)
    plan, _ = kernel.refresh(cells, eta, log_w, 0, {})
    tables = plan.tables
    Q = densities(tables, np.arange(tables.offset.size - 1))
    assert Q.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    for c, q in enumerate(Q):
        assert encoded(tables, c) == pytest.approx(q, abs=2.0**-22 / K ** (tables.start.size == 0))
    for now in (eta, later):
        for p, q in zip(posterior(rows, now, log_w)[:5], Q[plan.of_row[:5]], strict=True):
            P = transitions(p, q)
            flow = p[:, None] * P
            assert P.min() >= -1e-15
            assert flow == pytest.approx(flow.T, abs=1e-12)
            assert p @ P == pytest.approx(p, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("family", ["full", "sparse"])
@pytest.mark.parametrize("name", KERNELS)
def test_compiled_parts_agree_with_the_tables(name, family, dtype, rng):
    """Densities of current and of drawn labels are those of the law; scores are products."""
    K = 50
    rows, eta, _, log_w = model(family, K, rng, dtype)
    kernel = KERNELS[name]
    plan, _ = kernel.refresh(kernel.prepare(rows), eta, log_w, 0, {})
    Q, cell = densities(plan.tables, np.arange(plan.tables.offset.size - 1)), plan.of_row
    z, q = rng.integers(0, K, 60).astype(np.int32), np.empty(60)
    weigh(plan.tables, cell, z, q)
    assert q == pytest.approx(Q[cell, z], rel=1e-6)
    bits = rng.integers(0, 2**64, 60, dtype=np.uint64)
    draw_from(plan.tables, cell, np.uint64(4), np.arange(60), 1, bits, z, q)
    assert q == pytest.approx(Q[cell, z], rel=1e-6)
    score = np.empty(60, dtype)
    T = rows.family.sufficient(rows.X)
    data, indices, indptr = moves_module._flat(T)
    score_each(data, indices, indptr, plan.E, z, np.full(60, -1, np.int32), score)
    expected = np.einsum("ij,ij->i", dense(T), eta[z]) + log_w[z]
    assert score == pytest.approx(expected, rel=1e-4 if dtype == np.float32 else 1e-11)


def swept(kernel, rows, eta, log_w, z, rng, *, made_from=None, n_sweeps=2):
    """Labels after some sweeps at eta, from tables made from other parameters if these are given."""
    plan = kernel.prepare(rows)
    shared = {} if made_from is None else kernel.refresh(plan, made_from, log_w, 0, {})[1]
    S = statistics(rows, z, log_w.size, ONE)
    for sweep in range(1, n_sweeps + 1):
        now, shared = kernel.refresh(plan, eta, log_w, sweep, shared)
        out = sample_all(kernel, now, rows, z, S, {}, np.uint64(rng.integers(2**62)), ONE)
        z, S = out.z, out.S
    return out


@pytest.mark.parametrize(("dtype", "stale"), [(np.float32, False), (np.float64, False), (np.float32, True)])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n_min", [None, 0.0, 2e3, 1e9])
def test_sweeps_leave_the_law_of_labels_invariant(n_min, family, dtype, stale, rng):
    n, K = 20_000, 7
    options = {"n_cells": 5, "steps": 2, "turn": 50, "stale": 1.0 if stale else 0.0}
    kernel = CanopyAssignment(**options) if n_min is None else Canopy2Assignment(n_min=n_min, **options)
    rows, eta, later, log_w = model(family, K, rng, dtype)
    p = posterior(rows, eta, log_w)[0]
    z = rng.choice(K, size=n, p=p).astype(np.int32)
    out = swept(kernel, repeated(rows, 0, n), eta, log_w, z, rng, made_from=later if stale else None)
    assert chi_square(np.bincount(out.z, minlength=K), p) > BUDGET
    assert 0.0 < out.info["n_accepted"] <= out.info["n_proposed"]


def chi_square_with(kernel, family, rng, K=7, n=40_000):
    rows, eta, _, log_w = model(family, K, rng)
    p = posterior(rows, eta, log_w)[0]
    z = rng.choice(K, size=n, p=p).astype(np.int32)
    out = swept(kernel, repeated(rows, 0, n), eta, log_w, z, rng, n_sweeps=3)
    return chi_square(np.bincount(out.z, minlength=K), p)


def with_tables(monkeypatch, change):
    right = moves_module.propose
    monkeypatch.setattr(moves_module, "propose", lambda *a: right(*a[:6], change(a[6]), *a[7:]))


@pytest.mark.parametrize("family", ["full", "spherical", "multinomial"])
@pytest.mark.parametrize("cls", [CanopyAssignment, Canopy2Assignment])
def test_proposals_without_the_correction_are_rejected(cls, family, rng, monkeypatch):
    """A bug: the table's own law is left out of the acceptance probability."""
    with_tables(monkeypatch, lambda t: t._replace(rate=np.ones_like(t.rate), base=np.ones_like(t.base)))
    assert chi_square_with(cls(n_cells=5, steps=3, temper=1.0, mix=0.1), family, rng) < BUDGET


@pytest.mark.parametrize("family", ["full", "spherical", "multinomial"])
def test_densities_without_the_share_within_a_run_are_rejected(family, rng, monkeypatch):
    """A bug: w_z / B(v) is forgotten."""
    with_tables(monkeypatch, lambda t: t._replace(base=np.ones_like(t.base)))
    assert chi_square_with(Canopy2Assignment(n_cells=5, n_min=8e3, steps=3), family, rng) < BUDGET


@pytest.mark.parametrize("family", ["full", "spherical", "multinomial"])
def test_clusters_counted_twice_are_rejected(family, rng, monkeypatch):
    """A bug: the cluster of an opened node is counted in its atom, and again in the mass of its first child."""
    right = canopy2_module.build_tables

    def twice(P, first, last, at, threshold, alias):
        if last.size == 1:  # one cell: its runs, the root's own cluster first
            assert P.size > 1
            P = P.copy()
            P[1] += P[0]
        right(P, first, last, at, threshold, alias)

    monkeypatch.setattr(canopy2_module, "build_tables", twice)
    assert chi_square_with(Canopy2Assignment(n_cells=5, n_min=0.0, steps=3), family, rng) < BUDGET


def blobs(K=60, n=12_000, d=2, dtype=np.float32, separation=4.0):
    data = make_blobs_overlapping(n, d, K, separation, 3, dtype)
    rows = Rows(data.X, SphericalGaussian.from_data(data.X, K))
    z = data.z.astype(np.int32)
    S = statistics(rows, z, K, ONE)
    return rows, z, rows.family.mode_eta(S), np.log(S[:, -1] / S[:, -1].sum())


@pytest.mark.parametrize("name", ["canopy1 tree", "canopy2"])
def test_threads_do_not_matter(name):
    rows, z, eta, log_w = blobs()
    kernel = KERNELS[name]
    plan, _ = kernel.refresh(kernel.prepare(rows), eta, log_w, 0, {})
    S = statistics(rows, z, log_w.size, ONE)
    outs = [sample_all(kernel, plan, rows, z, S, {}, np.uint64(6), Threads(threads)) for threads in (1, 2, 4)]
    for out in outs[1:]:
        assert np.array_equal(out.z, outs[0].z)
        assert np.array_equal(out.S, outs[0].S)
        assert out.log_norm == outs[0].log_norm


@pytest.mark.parametrize("kernel", [CanopyAssignment(n_cells=50), Canopy2Assignment(n_cells=50)])
def test_runs_resume_bitwise(kernel, tmp_path):
    """Tables made, kept, made anew and kept again, in one go and with all arrays written to a file in between."""
    rows, z, eta, log_w = blobs()
    cells, ends = kernel.prepare(rows), []
    S = statistics(rows, z, log_w.size, ONE)
    for through_file in (False, True):
        shared, now = {}, z
        for sweep, at in enumerate((eta, eta * (1 + 1e-5), eta[::-1], eta[::-1] * (1 + 1e-5))):
            plan, shared = kernel.refresh(cells, at, log_w, sweep, shared)
            now = sample_all(kernel, plan, rows, now, S, {}, np.uint64(sweep), ONE).z
            if through_file:
                np.savez(tmp_path / "shared.npz", **shared)
                shared = dict(np.load(tmp_path / "shared.npz"))
        ends.append(now)
    assert np.array_equal(*ends)
    assert not np.array_equal(ends[0], z)


@pytest.mark.parametrize("kernel", [CanopyAssignment(n_cells=50), Canopy2Assignment(n_cells=50)])
def test_tables_are_kept_while_parameters_barely_move(kernel):
    rows, _, eta, log_w = blobs()
    cells = kernel.prepare(rows)
    first, shared = kernel.refresh(cells, eta, log_w, 0, {})
    near, shared = kernel.refresh(cells, eta * (1 + 1e-5), log_w, 1, shared)
    assert near.tables.rate is first.tables.rate
    assert not np.array_equal(near.B, first.B)
    far, _ = kernel.refresh(cells, eta[::-1], log_w, 2, shared)
    assert far.tables.rate is not first.tables.rate
    again, _ = kernel.refresh(cells, eta[::-1], log_w, 2, {})
    assert np.array_equal(far.tables.rate, again.tables.rate)
    fewer, _ = kernel.refresh(cells, eta[:30], log_w[:30], 3, shared)
    assert fewer.tables.base.size == 30


@pytest.mark.parametrize("cls", [CanopyAssignment, Canopy2Assignment])
def test_strict_chains_keep_nothing(cls):
    rows, _, eta, log_w = blobs()
    kernel = cls(n_cells=20, stale=0.0)
    assert kernel.refresh(kernel.prepare(rows), eta, log_w, 0, {})[1] == {}


def test_tree_cells_are_the_lowest_level_that_is_small_enough(rng):
    X = rng.normal(size=(3_000, 2))
    family = SphericalGaussian.from_data(X, 3)
    cells = make_cells("tree", 100, Rows(X, family))
    tree = CoverTree(TREE_BASE).fit(family.coordinates(X))
    sizes = {j: nodes.size for j, nodes in tree.levels_.items()}
    level = min(j for j, size in sizes.items() if size <= 100)
    assert cells.size.size == sizes[level] > 1
    assert sizes[level - 1] > 100
    ancestor = tree.ancestor_at(level)
    assert len(set(zip(ancestor.tolist(), cells.of_row.tolist(), strict=True))) == sizes[level]
    assert cells.centre[cells.of_row[ancestor]] == pytest.approx(family.coordinates(X)[ancestor])


@pytest.mark.parametrize("kind", ["kmeans", "tree"])
@pytest.mark.parametrize("family", ["diag", "sparse"])
def test_surrogates_are_means_of_cells(kind, family, rng):
    rows, *_ = model(family, 3, rng)
    cells = make_cells(kind, 12, rows)
    T = dense(rows.family.sufficient(rows.X))
    for c in range(cells.size.size):
        assert cells.surrogate[c] == pytest.approx(T[cells.of_row == c].mean(axis=0))
        assert cells.size[c] == np.sum(cells.of_row == c) > 0


def test_rows_outside_the_tree_go_to_the_nearest_node(rng, monkeypatch):
    monkeypatch.setattr("weald.assign.cells.TREE_ROWS", 500)
    X = rng.normal(size=(4_000, 2))
    family = SphericalGaussian.from_data(X, 3)
    cells = make_cells("tree", 60, Rows(X, family))
    distance = np.linalg.norm(family.coordinates(X)[:, None] - cells.centre, axis=2)
    nearest = distance.argmin(axis=1) == cells.of_row
    assert nearest.sum() >= 3_500
    assert not nearest.all()


def test_neighbouring_cells_share_tables_where_they_would_not_fit(rng, monkeypatch):
    rows, _, eta, log_w = blobs()
    cells = make_cells("kmeans", 40, rows)
    few = coarser(cells, 13)
    assert few.size.size == 10
    assert few.size.sum() == rows.n_rows
    assert np.array_equal(few.of_row, cells.of_row // 4)
    T = dense(rows.family.sufficient(rows.X))
    assert few.surrogate[3] == pytest.approx(T[few.of_row == 3].mean(axis=0), rel=1e-4, abs=1e-4)
    spread = np.mean([rows.X[few.of_row == c].var(axis=0) for c in range(10)])
    assert spread < 0.5 * rows.X.var(axis=0).mean()
    for module in (canopy1_module, canopy2_module):
        monkeypatch.setattr(module, "MAX_ENTRIES", 60 * 13)
    for kernel in (CanopyAssignment(n_cells=40), Canopy2Assignment(n_cells=40)):
        plan, _ = kernel.refresh(kernel.prepare(rows), eta, log_w, 0, {})
        assert plan.tables.offset.size == 11


def test_cuts_are_short_and_finest_cuts_are_canopy1():
    """In the plane a cut has tens of nodes whatever K is; opened down to the leaves it is the table of Canopy I."""
    K = 600
    rows, _, eta, _ = blobs(K, 30_000, dtype=np.float64)
    log_w = np.full(K, -np.log(K))
    flat = CanopyAssignment(n_cells=200)
    cells = flat.prepare(rows)
    full = densities(flat.refresh(cells, eta, log_w, 0, {})[0].tables, np.arange(200))
    both = canopy2_module.Setting(cells, rows.family)
    leaves, _ = Canopy2Assignment(n_min=0.0).refresh(both, eta, log_w, 0, {})
    assert densities(leaves.tables, np.arange(200)) == pytest.approx(full, rel=1e-9)
    short, _ = Canopy2Assignment(n_min=1.0).refresh(both, eta, log_w, 0, {})
    assert np.diff(short.tables.offset).mean() < K / 5
    assert 0.5 * np.abs(densities(short.tables, np.arange(200)) - full).sum(axis=1).mean() < 0.02


def test_preorder_makes_subtrees_runs(rng):
    rows, _, eta, _ = blobs()
    tree = cluster_tree(rows.family, eta)
    assert np.array_equal(np.sort(tree.order), np.arange(60))
    assert tree.end[0] == 60
    for v, end in enumerate(tree.end):
        assert np.all(tree.end[v:end] <= end)
        reach = np.linalg.norm(tree.points[v:end] - tree.points[v], axis=1).max()
        assert reach == pytest.approx(tree.radius[v], abs=1e-12)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("cls", [CanopyAssignment, Canopy2Assignment])
def test_labels_renew_almost_as_in_exact_sampling(cls, d):
    rows, z, eta, log_w = blobs(100, 20_000, d)
    S, renewed = statistics(rows, z, 100, ONE), []
    for kernel in (ExactAssignment(), cls(turn=1000)):
        plan, _ = kernel.refresh(kernel.prepare(rows), eta, log_w, 999, {})
        scores = plan.B if renewed else plan
        now = sample_all(ExactAssignment(), scores, rows, z, S, {}, np.uint64(8), ONE).z
        renewed.append(sample_all(kernel, plan, rows, now, S, {}, np.uint64(9), ONE).info["renewed"])
    assert renewed[1] > 0.8 * renewed[0]


@pytest.mark.parametrize("name", KERNELS)
def test_one_cluster_and_rows_without_labels(name, rng):
    kernel = KERNELS[name]
    for K in (1, 7):
        rows, eta, _, log_w = model("spherical", K, rng)
        plan, _ = kernel.refresh(kernel.prepare(rows), eta, log_w, 0, {})
        nowhere, S = np.full(60, -1, np.int32), np.zeros((K, rows.family.width))
        out = sample_all(kernel, plan, rows, nowhere, S, {}, np.uint64(2), ONE)
        assert out.z.min() >= 0
        assert out.z.max() < K
        assert pytest.approx(statistics(rows, out.z, K, ONE)) == out.S


@pytest.mark.parametrize("name", KERNELS)
def test_clusters_without_weight_are_left_and_never_entered(name, rng):
    rows, eta, _, log_w = model("diag", 7, rng)
    kernel, log_w = KERNELS[name], np.where(np.arange(7) < 2, -np.inf, log_w + 3.0)
    rows = Rows(np.repeat(rows.X, 50, axis=0), rows.family)
    plan, _ = kernel.refresh(kernel.prepare(rows), eta, log_w, 0, {})
    z = (np.arange(rows.n_rows) % 7).astype(np.int32)
    S = statistics(rows, z, 7, ONE)
    out = sample_all(kernel, plan, rows, z, S, {}, np.uint64(2), ONE)
    assert np.mean(out.z[z < 2] < 2) < 0.5
    assert out.z[z >= 2].min() >= 2
    exact = ExactAssignment()
    full = sample_all(exact, exact.refresh(np.dtype(float), eta, log_w, 0, {})[0], rows, z, S, {}, np.uint64(2), ONE)
    assert out.log_norm == pytest.approx(full.log_norm, rel=0.2)


def test_wrong_cells_are_refused():
    with pytest.raises(ParameterError, match="cells must be one of"):
        CanopyAssignment(cells="hexagons")
    with pytest.raises(ParameterError, match="n_cells"):
        Canopy2Assignment(n_cells=0)
