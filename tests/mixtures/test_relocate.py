"""Relocation of components: exact evidence, blobs that sweeps alone miss, the same for any threads."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from weald import Checkpoint, Mixture
from weald.assign import AutoAssignment, ExactAssignment, ListsAssignment, Rows
from weald.assign.base import statistics
from weald.datasets import make_blobs_overlapping
from weald.engine import Threads
from weald.exceptions import StatusWarning
from weald.families import Bernoulli, DiagonalGaussian, FullGaussian, Multinomial, SphericalGaussian, TiedGaussian
from weald.mixtures import kernels as kernels_module
from weald.mixtures import relocate as relocate_module
from weald.mixtures.kernels import RULES, MixtureKernel, Model
from weald.mixtures.relocate import exchanging, relocated
from weald.mixtures.starts import first_statistics
from weald.partitions import FiniteDirichlet

ONE, K, N = Threads(1), 6, 1_500
FAMILIES = {
    "spherical": SphericalGaussian,
    "diag": DiagonalGaussian,
    "full": FullGaussian,
    "multinomial": Multinomial,
    "sparse": Multinomial,
    "bernoulli": Bernoulli,
}


def rows_of(name, weighted=False):
    """Rows of six groups, and the groups."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, K, N)
    if name in ("multinomial", "sparse"):
        X = rng.poisson(rng.dirichlet(np.full(12, 0.3), K)[truth] * 30.0).astype(float)
        X = sp.csr_array(X) if name == "sparse" else X
    elif name == "bernoulli":
        X = (rng.random((N, 30)) < np.where(rng.random((K, 30)) < 0.5, 0.05, 0.95)[truth]).astype(float)
    else:
        X = rng.normal(size=(K, 4))[truth] * 6.0 + rng.normal(size=(N, 4))
    weight = rng.gamma(4.0, 0.25, size=N) if weighted else None
    return Rows(X, FAMILIES[name].from_data(X, K), weight), truth


def stuck(truth, seed=0):
    """Labels that unite groups 0 and 1 and cut group 5 in two at random, and the same with another cut."""
    rng, z = np.random.default_rng(seed), truth.copy()
    z[truth == 1] = 0
    before = z.copy()
    for labels in (z, before):
        labels[(truth == 5) & (rng.random(N) < 0.5)] = 1
    return z.astype(np.int32), before.astype(np.int32)


def log_joint(rows, z, prior):
    S = statistics(rows, z, K, ONE)
    return rows.family.log_evidence(S) + prior.log_marginal(S[:, -1])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_united_groups_part_and_halves_unite(name, weighted):
    rows, truth = rows_of(name, weighted)
    z, before = stuck(truth)
    prior, S = FiniteDirichlet(K, 1.0), statistics(rows, z, K, ONE)
    moved = relocated(S, z, before, rows, prior, np.random.default_rng(0), ONE)
    assert moved.moves.tolist() in ([[1, 5, 0]], [[5, 1, 0]])
    assert (
        np.mean([truth[moved.z == k].size and np.bincount(truth[moved.z == k]).max() for k in range(K)]) * K > 0.97 * N
    )
    assert pytest.approx(statistics(rows, moved.z, K, ONE), rel=1e-9, abs=1e-6) == moved.S
    assert log_joint(rows, moved.z, prior) > log_joint(rows, z, prior) + 100


def gains_and_truth(rows, z, before, prior):
    """What relocation believes to gain, and what the joint evidence gains."""
    seen, right = [], relocate_module._matched

    def noted(S, z, rows, engine, pairs, gain, at, second, worth):
        seen.append((gain[0], worth.max()))
        return right(S, z, rows, engine, pairs[:1], gain[:1], at, second, worth)

    S = statistics(rows, z, K, ONE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relocate_module, "_matched", noted)
        moved = relocated(S, z, before, rows, prior, np.random.default_rng(0), ONE)
    assert len(moved.moves) == 1
    return sum(seen[0]), log_joint(rows, moved.z, prior) - log_joint(rows, z, prior)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_gains_are_those_of_the_evidence(name, weighted):
    rows, truth = rows_of(name, weighted)
    believed, gained = gains_and_truth(rows, *stuck(truth), FiniteDirichlet(K, 0.7))
    assert believed == pytest.approx(gained, rel=1e-7)


def test_gains_without_sizes_are_rejected(monkeypatch):
    """A bug: the evidence of the weights is left out of cuts."""
    monkeypatch.setattr(
        relocate_module,
        "cut_gain",
        lambda S, halves, family, prior: family.log_marginal(halves).sum(axis=1) - family.log_marginal(S),
    )
    rows, truth = rows_of("diag")
    believed, gained = gains_and_truth(rows, *stuck(truth), FiniteDirichlet(K, 0.7))
    assert believed != pytest.approx(gained, rel=1e-7)


def test_nothing_moves_at_the_truth():
    rows, truth = rows_of("diag")
    z = truth.astype(np.int32)
    moved = relocated(statistics(rows, z, K, ONE), z, z, rows, FiniteDirichlet(K), np.random.default_rng(0), ONE)
    assert len(moved.moves) == 0
    assert moved.z is z


def test_an_empty_component_takes_a_half():
    rows, truth = rows_of("spherical")
    z = np.where(truth == 1, 0, truth).astype(np.int32)
    moved = relocated(statistics(rows, z, K, ONE), z, z, rows, FiniteDirichlet(K), np.random.default_rng(0), ONE)
    assert moved.moves.tolist() == [[1, 1, 0]]
    assert np.unique(moved.z).size == K


def test_one_component_and_one_row_have_nowhere_to_go():
    rows, _ = rows_of("diag")
    for n_components, at in ((1, slice(None)), (2, slice(2))):
        few = replace(rows, X=rows.X[at])
        z = (np.arange(few.n_rows) % n_components).astype(np.int32)
        S = statistics(few, z, n_components, ONE)
        prior = FiniteDirichlet(n_components)
        assert len(relocated(S, z, z[::-1], few, prior, np.random.default_rng(0), ONE).moves) == 0


def test_pairs_are_those_that_exchange_rows():
    before = np.repeat([0, 1, 2, -1], [40, 40, 40, 4])
    z = before.copy()
    z[:3], z[40:43], z[80:81], z[-4:] = 1, 2, 0, 2
    assert exchanging(z, before, 3).tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("kind", [np.uint16, np.int32])
def test_lists_follow(kind):
    member = np.array([[4, 1, 0, 0], [2, 3, 1, 0], [0, 1, 2, 3], [3, 4, 2, 1]], kind)
    memory = {"member": member, "n_near": np.array([1, 2, 4, 1], np.int8), "n_listed": np.array([2, 3, 4, 2], np.int8)}
    joined, also = np.full(6, -1), np.full(6, -1)
    joined[1], also[3] = 4, 1  # 1 joined 4, and took a half of 3
    ListsAssignment(width=4).tell(memory, joined, also)
    sets = [set(row[:n].tolist()) for row, n in zip(member, memory["n_listed"], strict=True)]
    assert sets == [{4, 1}, {2, 3, 4, 1}, {0, 4, 2, 1}, {3, 4, 1}]
    assert member[1][2] == 1  # the last of the near ones
    assert memory["n_near"].tolist() == [1, 3, 4, 2]


@pytest.fixture
def small(monkeypatch):
    """Relocations, incremental sweeps and subsets for few rows."""
    for name, value in {"PARTS": 4, "PART_ROWS": 50, "MANY": 2, "SOME": 2, "FEW": 5, "WORTH": 2}.items():
        monkeypatch.setattr(kernels_module, name, value)


def kernel_for(rows, assign, n_components, rule="sem", engine=ONE, **options):
    first = lambda rng: first_statistics("random-points", rows, n_components, rng)  # noqa: E731
    model = Model(rows.family, FiniteDirichlet(n_components, 1.0))
    return MixtureKernel(model, rows, RULES[rule], assign, engine, first, **options)


def states(kernel, n_sweeps, seed=0):
    found, figures = [kernel.init(np.random.default_rng(seed))], []
    for sweep in range(n_sweeps):
        state, info = kernel.step(np.random.default_rng([seed, sweep]), found[-1])
        found.append(state)
        figures.append(info)
    return found, figures


BLOBS = make_blobs_overlapping(12_000, 3, 40, 8.0, 1)
ASSIGNMENTS = {
    "exact": ExactAssignment(),
    "lists": ListsAssignment(length=4, width=12, early=4),
    "auto": AutoAssignment(40, 5, draws=True, strict=False),
}


def n_found(z, truth):
    """How many blobs are most of some component and mostly in it."""
    both = np.zeros((truth.max() + 1, z.max() + 1))
    np.add.at(both, (truth, z), 1)
    return int(((both > 0.8 * both.sum(0)) & (both > 0.8 * both.sum(1, keepdims=True))).sum())


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_blobs_that_sweeps_alone_miss(name, small):
    rows = Rows(BLOBS.X, SphericalGaussian.from_data(BLOBS.X, 40))
    found = {}
    for moves in (True, False):
        kernel = kernel_for(rows, ASSIGNMENTS[name], 40, relocates=moves, settles=False)
        ends, figures = states(kernel, 12)
        found[moves] = n_found(ends[-1].z, BLOBS.z)
        assert ("n_relocated" in figures[3]) == moves
        assert pytest.approx(statistics(rows, ends[-1].z, 40, ONE), rel=1e-8, abs=1e-6) == ends[-1].S
    assert found[True] >= found[False] + 4
    assert found[True] >= 34


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_threads_do_not_matter(name, small):
    rows = Rows(BLOBS.X, SphericalGaussian.from_data(BLOBS.X, 40))
    ends = [states(kernel_for(rows, ASSIGNMENTS[name], 40, engine=Threads(n)), 6) for n in (1, 2, 4)]
    assert sum(info.get("n_relocated", 0.0) for info in ends[0][1]) > 0
    for found, figures in ends[1:]:
        assert figures == ends[0][1]
        for a, b in zip(found, ends[0][0], strict=True):
            assert all(np.array_equal(getattr(a, field), getattr(b, field)) for field in ("z", "S", "eta", "log_w"))
            assert all(np.array_equal(a.memory[field], b.memory[field]) for field in b.memory)


class Killed(Exception):
    pass


@pytest.mark.parametrize("assign", ["exact", "lists", "auto"])
def test_fits_resume_bitwise(assign, small, tmp_path):
    path = tmp_path / "run.ckpt"

    def fit(**options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StatusWarning)
            mix = Mixture(40, inference="sem", assign=assign, covariance="diag", init="random-points", max_iter=10)
            return mix.set_params(random_state=3).fit(BLOBS.X, **options)

    def kill(event):
        if event.phase == "step" and event.sweep == 5:
            raise Killed

    whole = fit()
    assert np.nansum(whole.posterior_.stats["n_relocated"]) > 0
    with pytest.raises(Killed):
        fit(callbacks=[Checkpoint(path, every=2), kill])
    resumed = fit(resume=path)
    assert np.array_equal(whole.means_, resumed.means_)
    assert np.array_equal(whole.labels_, resumed.labels_)
    for name, values in whole.posterior_.stats.items():
        np.testing.assert_array_equal(values, resumed.posterior_.stats[name], err_msg=name)


def test_only_early_sweeps_of_stochastic_em_on_many_rows(small, monkeypatch):
    rows = Rows(BLOBS.X[:1_000], SphericalGaussian.from_data(BLOBS.X, K))

    def sweeps(kernel, n=10):
        return [i for i, info in enumerate(states(kernel, n)[1]) if "n_relocated" in info]

    assert sweeps(kernel_for(rows, ExactAssignment(), K)) == list(kernels_module.MOVING)
    for rule in ("em", "gibbs", "vb"):
        assert sweeps(kernel_for(rows, ExactAssignment(), K, rule), 4) == []
    known = np.where(np.arange(1_000) < 10, 0, -1).astype(np.int32)
    assert sweeps(kernel_for(replace(rows, known=known), ExactAssignment(), K), 4) == []
    tied = Rows(rows.X, TiedGaussian.from_data(rows.X, K))
    assert sweeps(kernel_for(tied, ExactAssignment(), K), 4) == []
    monkeypatch.setattr(kernels_module, "SOME", 1_000)
    assert sweeps(kernel_for(rows, ExactAssignment(), K), 4) == []


def test_a_subset_settles_where_rows_abound(small):
    rows = Rows(BLOBS.X, SphericalGaussian.from_data(BLOBS.X, 40), np.full(12_000, 2.0))
    S = {
        settles: kernel_for(rows, ExactAssignment(), 40, settles=settles).init(np.random.default_rng(0)).S
        for settles in (True, False)
    }
    assert S[True][:, -1].sum() == pytest.approx(rows.total_weight)
    assert S[False][:, -1].tolist() == [1.0] * 40
    few = kernel_for(replace(rows, X=rows.X[:300], weight=None), ExactAssignment(), 40).init(np.random.default_rng(0))
    assert few.S[:, -1].tolist() == [1.0] * 40


def test_a_warm_start_goes_on_from_where_it_was(small):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        mix = Mixture(40, inference="sem", covariance="spherical", max_iter=12, random_state=0, warm_start=True)
        before = mix.fit(BLOBS.X).lower_bound_
        assert mix.set_params(max_iter=1).fit(BLOBS.X).lower_bound_ > before - 0.05
