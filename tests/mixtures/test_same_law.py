"""Whole fits have one law whichever kernel assigns rows: Gibbs against enumeration, stochastic EM against exact."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import ks_2samp

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
)
from weald.assign import _moves as moves_module
from weald.assign import groups as groups_module
from weald.assign.base import statistics
from weald.datasets import make_blobs_overlapping
from weald.engine import Threads
from weald.families import Multinomial, SphericalGaussian
from weald.inference.run import run
from weald.mixtures.kernels import RULES, MixtureKernel, MixtureState, Model
from weald.partitions import FiniteDirichlet
from weald.testing.invariance import BUDGET, chi_square, enumerate_labels, exact_start

ONE = Threads(1)
N, K = 4, 3  # 81 label vectors: few of them expect less than five replicates
TINY = {
    "spherical": (SphericalGaussian, {"kappa": 2.0}, lambda rng: rng.normal(size=(N, 2)) + 1e3),
    "multinomial": (Multinomial, {}, lambda rng: rng.integers(0, 4, size=(N, 3)).astype(float)),
}
MEMORYLESS = {
    "exact": ExactAssignment(),
    "groups": GroupsAssignment(size=2),
    "canopy1": CanopyAssignment(n_cells=2, steps=2, stale=0.0),
    "canopy2": Canopy2Assignment(n_cells=2, n_min=1.0, steps=2, stale=0.0),
    "tree": TreeAssignment(),
    "pruned": PrunedAssignment(),
}


def invariance(name, assign, rng, n=1_500, sweeps=2):
    """Exact-start p-value, of labels and of cluster sizes, after Gibbs sweeps: two or more, to feel new parameters."""
    cls, near, simulate = TINY[name]
    X = simulate(rng)
    family, prior = cls.from_data(X, 1, **near), FiniteDirichlet(K, 0.7)  # clusters overlap: labels move
    rows = Rows(X, family)
    kernel = MixtureKernel(Model(family, prior), rows, RULES["gibbs"], assign, ONE, lambda rng: None)
    Z, log_p = enumerate_labels(family, prior, X)
    p = np.exp(log_p - logsumexp(log_p))
    _, sizes = np.unique([np.bincount(z, minlength=K) for z in Z], axis=0, return_inverse=True)
    powers, ends = K ** np.arange(N)[::-1], []

    def start(i, rng):
        S = statistics(rows, Z[i], K, ONE)
        eta, log_w = RULES["gibbs"].parameters(kernel.model, S, rng)
        return MixtureState(S, eta, log_w, Z[i], int(rng.integers(7, 15)))  # so that no row is drawn exactly

    def step(state, rng):
        for _ in range(sweeps):
            state, _ = kernel.step(rng, state)
        return state

    def locate(state):
        ends.append(int(state.z @ powers))
        return ends[-1]

    of_labels = exact_start(log_p, start, step, locate, n=n, rng=rng)
    of_sizes = chi_square(np.bincount(sizes[ends], minlength=sizes.max() + 1), np.bincount(sizes, p))
    return 2.0 * min(of_labels, of_sizes)


@pytest.mark.parametrize("family", TINY)
@pytest.mark.parametrize("name", MEMORYLESS)
def test_gibbs_leaves_the_posterior_invariant(name, family, rng):
    assert invariance(family, MEMORYLESS[name], rng) > BUDGET


def without_correction(monkeypatch):
    """A bug: proposals are accepted as if they were even."""
    right = moves_module.propose
    even = lambda t: t._replace(rate=np.ones_like(t.rate), base=np.ones_like(t.base))  # noqa: E731
    monkeypatch.setattr(moves_module, "propose", lambda *a: right(*a[:6], even(a[6]), *a[7:]))


@pytest.mark.parametrize("family", TINY)
def test_gibbs_with_groups_that_are_no_partition_is_rejected(family, rng, monkeypatch):
    monkeypatch.setattr(groups_module, "split", lambda *_: (np.array([0, 1, 1, 2]), np.array([0, 2, 4])))
    assert invariance(family, MEMORYLESS["groups"], rng, sweeps=4) < BUDGET


@pytest.mark.parametrize("family", TINY)
def test_gibbs_with_proposals_that_are_not_corrected_is_rejected(family, rng, monkeypatch):
    without_correction(monkeypatch)
    uneven = CanopyAssignment(n_cells=2, steps=3, temper=1.0, stale=0.0)
    assert invariance(family, uneven, rng) < BUDGET


N_FITS, SWEEPS = 60, 30
KERNELS = {
    "canopy1": CanopyAssignment(n_cells=20),
    "canopy2": Canopy2Assignment(n_cells=20),
    "exact": ExactAssignment(),
    "groups": GroupsAssignment(size=3, turn=10),
    "lists": ListsAssignment(length=3, width=4, depth=4.0, rescore=3, turn=6),
    "pruned": PrunedAssignment(),
    "tree": TreeAssignment(),
}
SLOW = {"groups": 4 * SWEEPS}  # a label meets half of the clusters in a sweep


def test_every_kernel_is_in_the_table():
    assert {type(kernel) for kernel in KERNELS.values()} == set(ASSIGNMENTS.values())


def fits(assign, first_key, sweeps=SWEEPS):
    """Log-likelihood and number of used components (fits, 2) of stochastic EM, from labels of which half are wrong."""
    data, rng = make_blobs_overlapping(300, 2, 6, 3.0, 2), np.random.default_rng(0)
    family = SphericalGaussian.from_data(data.X, 6)
    rows, T, ends = Rows(data.X, family), family.sufficient(data.X), []
    z = np.where(rng.random(300) < 0.5, data.z, rng.integers(0, 6, 300)).astype(np.int32)
    S = statistics(rows, z, 6, ONE)
    kernel = MixtureKernel(
        Model(family, FiniteDirichlet(6, 1.0)), rows, RULES["sem"], assign, ONE, lambda rng: S.copy()
    )
    for key in range(first_key, first_key + N_FITS):
        [chain] = run(kernel, key=np.uint64(key), sweeps=sweeps)
        state = chain.state
        ends.append((logsumexp(T @ state.eta.T + state.log_w, axis=1).sum(), np.unique(state.z).size))
    return np.array(ends)


@pytest.fixture(scope="module")
def expected():
    return fits(ExactAssignment(), 0)


def same(expected, ends):
    """Whether both figures may have one law."""
    pvalues = [ks_2samp(a, b, method="asymp").pvalue for a, b in zip(expected.T, ends.T, strict=True)]
    return min(pvalues) * len(pvalues) > BUDGET


@pytest.mark.parametrize("name", KERNELS)
def test_stochastic_em_settles_in_one_law(name, expected):
    assert same(expected, fits(KERNELS[name], 1_000, SLOW.get(name, SWEEPS)))


def test_stochastic_em_with_proposals_that_are_not_corrected_is_rejected(expected, monkeypatch):
    without_correction(monkeypatch)
    assert not same(expected, fits(KERNELS["canopy1"], 1_000))


def test_stochastic_em_that_leaves_some_rows_alone_is_rejected(expected, monkeypatch):
    """A bug: one row in ten keeps its first label."""
    right = ExactAssignment.sample

    def stuck(self, plan, rows, shard, z, memory, key):
        part = right(self, plan, rows, shard, z, memory, key)
        kept = (np.arange(z.size) % 10 == 0) & (z >= 0)
        return replace(part, z=np.where(kept, z, part.z).astype(np.int32), S=None)

    monkeypatch.setattr(ExactAssignment, "sample", stuck)
    assert not same(expected, fits(ExactAssignment(), 1_000))


def test_stochastic_em_that_has_not_settled_is_rejected(expected):
    assert not same(expected, fits(ExactAssignment(), 1_000, 2))
