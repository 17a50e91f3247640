"""Every assignment kernel, one line each: the same law, right statistics, one result for any number of threads."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from weald.assign import (
    ASSIGNMENTS,
    Canopy2Assignment,
    CanopyAssignment,
    ExactAssignment,
    GroupsAssignment,
    ListsAssignment,
    PrunedAssignment,
    Rows,
    TreeAssignment,
    expect_all,
    sample_all,
)
from weald.assign import groups as groups_module
from weald.assign import lists as lists_module
from weald.assign.base import statistics, updated_statistics
from weald.engine import Threads
from weald.families import Bernoulli, DiagonalGaussian, FullGaussian, Multinomial, Poisson, SphericalGaussian
from weald.testing.invariance import BUDGET, chi_square

K = 7
KERNELS = {
    "exact": ExactAssignment(),
    "lists": ListsAssignment(length=4, width=6, depth=6.0, rescore=2, turn=5),
    "canopy1": CanopyAssignment(n_cells=5, steps=2, turn=7),
    "canopy2": Canopy2Assignment(n_cells=5, steps=2, turn=7),
    "groups": GroupsAssignment(size=3, turn=7),
    "pruned": PrunedAssignment(),
    "early lists": ListsAssignment(length=2, width=4, depth=1.0, rescore=4, turn=5, early=4, early_turn=3),
    "short lists": ListsAssignment(length=2, width=3, depth=1.0, rescore=4, turn=3),
    "tree": TreeAssignment(turn=7),
}
ONE = Threads(1)
FAMILIES = {
    "full": (FullGaussian, lambda rng: rng.normal(size=(40, 2))),
    "diag": (DiagonalGaussian, lambda rng: rng.normal(size=(40, 3))),
    "spherical": (SphericalGaussian, lambda rng: rng.normal(size=(40, 3))),
    "bernoulli": (Bernoulli, lambda rng: rng.integers(0, 2, (40, 4)).astype(float)),
    "poisson": (Poisson, lambda rng: rng.poisson(3.0, (40, 2)).astype(float)),
    "multinomial": (Multinomial, lambda rng: rng.integers(0, 3, (40, 5)).astype(float)),
    "sparse": (Multinomial, lambda rng: sp.csr_array(rng.integers(0, 3, (40, 5)).astype(float))),
}


def test_every_kernel_is_in_the_table():
    assert {type(kernel) for kernel in KERNELS.values()} == set(ASSIGNMENTS.values())


def model(name, rng, dtype=np.float64):
    """A family, one row of its data repeated, components that overlap, and the exact law of that row's label."""
    cls, simulate = FAMILIES[name]
    X = simulate(rng)
    family = cls.from_data(X, K)
    T = family.sufficient(X)
    T = T.toarray() if sp.issparse(T) else T
    eta = family.sample_eta(np.stack([T[rng.random(40) < 0.3].sum(axis=0) for _ in range(K)]), rng)
    log_w = np.log(rng.dirichlet(np.full(K, 2.0)))
    x = (X[[0]] if sp.issparse(X) else X[:1]).astype(dtype)
    T = family.sufficient(x)
    p = softmax((T.toarray() if sp.issparse(T) else T).astype(np.float64) @ eta.T + log_w, axis=1)[0]
    return family, x, eta, log_w, p


def repeated(x, n):
    return sp.csr_array(sp.vstack([x] * n)) if sp.issparse(x) else np.repeat(x, n, axis=0)


def sweeps(kernel, rows, eta, log_w, z, n_sweeps, rng, engine=ONE):
    """Z after a first sweep that sets up the kernel's memory and is then forgotten, and `n_sweeps` more from z."""
    plan = kernel.prepare(rows)
    memory = kernel.blank(rows.n_rows, K)
    S = statistics(rows, z, K, engine)
    nowhere = np.full_like(z, -1)
    first, shared = kernel.refresh(plan, eta, log_w, 0, {})
    memory = sample_all(kernel, first, rows, nowhere, S, memory, np.uint64(rng.integers(2**62)), engine).memory
    for sweep in range(1, n_sweeps + 1):
        now, shared = kernel.refresh(plan, eta, log_w, sweep, shared)
        out = sample_all(kernel, now, rows, z, S, memory, np.uint64(rng.integers(2**62)), engine)
        z, S, memory = out.z, out.S, out.memory
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", KERNELS)
def test_sweeps_leave_the_law_of_labels_invariant(name, family, dtype, rng):
    n = 20_000
    family, x, eta, log_w, p = model(family, rng, dtype)
    rows = Rows(repeated(x, n), family)
    z = rng.choice(K, size=n, p=p).astype(np.int32)
    out = sweeps(KERNELS[name], rows, eta, log_w, z, 2, rng)
    assert chi_square(np.bincount(out.z, minlength=K), p) > BUDGET


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_statistics_are_those_of_the_labels(name, weighted, rng):
    X = rng.normal(size=(9_000, 3))
    family = DiagonalGaussian.from_data(X, K)
    weight = rng.random(len(X)) if weighted else None
    rows = Rows(X, family, weight)
    eta, log_w = family.mode_eta(3 * family.sufficient(X)[:K]), np.full(K, -np.log(K))
    out = sweeps(KERNELS[name], rows, eta, log_w, rng.integers(0, K, len(X)).astype(np.int32), 4, rng)
    assert pytest.approx(statistics(rows, out.z, K, Threads(1)), rel=1e-9, abs=1e-9) == out.S
    assert out.info["n_evals"] > 0


@pytest.mark.parametrize("name", KERNELS)
def test_threads_do_not_matter(name, rng):
    X = rng.normal(size=(20_000, 3)).astype(np.float32)
    family = DiagonalGaussian.from_data(X, K)
    eta, log_w = family.mode_eta(3 * family.sufficient(X)[:K].astype(float)), np.full(K, -np.log(K))
    z = rng.integers(0, K, len(X)).astype(np.int32)
    outs = [
        sweeps(KERNELS[name], Rows(X, family), eta, log_w, z, 3, np.random.default_rng(1), Threads(threads))
        for threads in (1, 2, 4)
    ]
    for out in outs[1:]:
        assert np.array_equal(out.z, outs[0].z)
        assert np.array_equal(out.S, outs[0].S)
        assert out.log_norm == outs[0].log_norm


@pytest.mark.parametrize("name", KERNELS)
def test_the_log_normaliser_is_unbiased(name, rng):
    X = rng.normal(size=(8_000, 3))
    family = DiagonalGaussian.from_data(X, K)
    rows = Rows(X, family)
    eta, log_w = family.mode_eta(3 * family.sufficient(X)[:K]), np.full(K, -np.log(K))
    exact = ExactAssignment()
    full = expect_all(exact, exact.refresh(exact.prepare(rows), eta, log_w, 0, {})[0], rows, Threads(1)).log_norm
    out = sweeps(KERNELS[name], rows, eta, log_w, rng.integers(0, K, len(X)).astype(np.int32), 2, rng)
    assert out.log_norm == pytest.approx(full, rel=0.02)


@pytest.mark.parametrize("name", KERNELS)
def test_the_log_normaliser_of_known_labels_is_their_score(name, rng):
    X = rng.normal(size=(2_000, 3))
    family = DiagonalGaussian.from_data(X, K)
    known = rng.integers(0, K, len(X)).astype(np.int32)
    eta, log_w = family.mode_eta(3 * family.sufficient(X)[:K]), np.full(K, -np.log(K))
    out = sweeps(KERNELS[name], Rows(X, family, None, known), eta, log_w, known, 2, rng)
    exact = float((family.sufficient(X) * eta[known]).sum() + log_w[known].sum())
    assert out.log_norm == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("name", KERNELS)
def test_known_labels_are_kept(name, rng):
    X = rng.normal(size=(3_000, 3))
    family = DiagonalGaussian.from_data(X, K)
    known = rng.integers(-1, K, len(X)).astype(np.int32)
    eta, log_w = family.mode_eta(3 * family.sufficient(X)[:K]), np.full(K, -np.log(K))
    z = np.where(known >= 0, known, 0).astype(np.int32)
    rows = Rows(X, family, None, known)
    out = sweeps(KERNELS[name], rows, eta, log_w, z, 5, rng)
    assert np.array_equal(out.z[known >= 0], known[known >= 0])
    assert pytest.approx(statistics(rows, out.z, K, ONE), abs=1e-9) == out.S


def listed(scores, depth, length):
    n = len(scores)
    lists = lists_module.Lists(np.zeros((n, 64), np.uint16), np.zeros(n, np.int8), np.zeros(n, np.int8))
    z, log_norm = np.empty(n, np.int32), np.empty(n)
    lists_module.draw_and_list(scores, np.uint64(1), np.arange(n), 0, z, log_norm, depth, length, *lists)
    return lists.member, lists.n_near


def test_lists_hold_the_best_clusters(rng):
    scores = np.full((50, 128), -np.inf)
    scores[:, :100] = rng.normal(size=(50, 100)) * 4
    lists, n_listed = listed(scores, 10.0, 6)
    for i in range(50):
        held = lists[i, : n_listed[i]]
        assert n_listed[i] >= 1
        best = np.argsort(-scores[i])[: n_listed[i]]
        assert set(held.tolist()) == set(best.tolist())
        assert scores[i, held].min() >= scores[i].max() - 10.0


def test_ties_do_not_overflow_a_list():
    _, n_listed = listed(np.zeros((3, 64)), 10.0, 6)
    assert n_listed.tolist() == [6, 6, 6]


def test_few_changes_update_and_many_recompute(rng):
    X = rng.normal(size=(500, 2))
    rows = Rows(X, DiagonalGaussian.from_data(X, K))
    before = rng.integers(0, K, 500).astype(np.int32)
    for share in (0.0, 0.1, 0.9):
        after = np.where(rng.random(500) < share, rng.integers(0, K, 500), before).astype(np.int32)
        S = updated_statistics(rows, before, after, statistics(rows, before, K, Threads(1)), Threads(1))
        assert pytest.approx(statistics(rows, after, K, Threads(1)), abs=1e-9) == S


def test_groups_share_out_the_clusters(rng):
    order, edges = groups_module.split(rng.normal(size=(100, 3)), 9, rng)
    assert np.array_equal(np.sort(order), np.arange(100))
    assert np.diff(edges).max() <= 9
    assert edges[0] == 0
    assert edges[-1] == 100


def test_groups_that_look_at_z_are_rejected(rng, monkeypatch):
    """A bug: the group of a row is its own label and the next one, which is no partition of the clusters."""
    n = 40_000
    family, x, eta, log_w, p = model("spherical", rng)
    z = rng.choice(K, size=n, p=p).astype(np.int32)

    def neighbours(self, plan, rows, shard, at, z, key):
        here = z[at - shard.start]
        there = (here + 1) % K
        moves = rng.random(here.size) < p[there] / (p[here] + p[there])
        z[at - shard.start] = np.where(moves, there, here)
        return 0

    monkeypatch.setattr(groups_module.GroupsAssignment, "_redraw", neighbours)
    out = sweeps(GroupsAssignment(size=3, turn=50), Rows(repeated(x, n), family), eta, log_w, z, 3, rng)
    assert chi_square(np.bincount(out.z, minlength=K), p) < BUDGET
