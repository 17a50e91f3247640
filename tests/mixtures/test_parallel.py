"""The sampler for very many rows against all partitions of six, joint tests, recovery, and bugs to be rejected."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from test_collapsed import (
    HYPER,
    PRIORS,
    canonical,
    invariance,
    joint_pvalues,
    log_posterior,
    partitions,
    rows_of,
    statistics,
)

from weald._random import step_rng
from weald.assign import (
    Canopy2Assignment,
    CanopyAssignment,
    ExactAssignment,
    GroupsAssignment,
    ListsAssignment,
    PrunedAssignment,
    Rows,
    TreeAssignment,
)
from weald.assign.auto import AutoAssignment
from weald.datasets import make_blobs_overlapping
from weald.engine import Threads
from weald.exceptions import DataError, ParameterError
from weald.families import FullGaussian, SphericalGaussian, TiedGaussian
from weald.inference.run import run
from weald.mixtures import launched, parallel
from weald.mixtures.launched import Course, Move, Table, independent, make_moves, propose
from weald.mixtures.parallel import ParallelKernel, ParallelState, carried
from weald.partitions import AbstractPartition, DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from weald.testing.invariance import BUDGET, chi_square

ONE = Threads(1)
ASSIGN = {
    "canopy1": CanopyAssignment(n_cells=2, steps=2),
    "canopy2": Canopy2Assignment(n_cells=2, n_min=1.0, steps=2),
    "groups": GroupsAssignment(size=2),
    "tree": TreeAssignment(),
    "pruned": PrunedAssignment(),
    "auto": AutoAssignment(n_components=5, width=6, draws=True, strict=True),
}


def kernel_of(rows, prior, assign=None, **how):
    return ParallelKernel(rows, prior, ExactAssignment() if assign is None else assign, ONE, **how)


def state_of(kernel, state, rng):
    z, prior = state
    return ParallelState(z, statistics(kernel.rows, z), prior, int(rng.integers(1, 30)))


def labels_alone(kernel):
    return lambda state, rng: kernel.labels(rng, state_of(kernel, state, rng))[0]


def moves_alone(rows, n_moves=3):
    def step(state, rng):
        z, prior = state
        return make_moves(rows, prior, z, statistics(rows, z), n_moves, rng, ONE)[0]

    return step


def whole(kernel):
    return lambda state, rng: kernel.step(rng, state_of(kernel, state, rng))[0].z


@pytest.mark.parametrize("family", ["full", "multinomial"])
@pytest.mark.parametrize("prior", PRIORS)
def test_labels_leave_the_posterior_invariant(family, prior, rng):
    kernel = kernel_of(rows_of(family, rng), PRIORS[prior], threshold=0.3)
    assert invariance(kernel.rows, PRIORS[prior], labels_alone(kernel), 600, rng) > BUDGET


@pytest.mark.parametrize("family", ["full", "multinomial"])
@pytest.mark.parametrize("prior", PRIORS)
def test_moves_leave_the_posterior_invariant(family, prior, rng):
    rows = rows_of(family, rng)
    assert invariance(rows, PRIORS[prior], moves_alone(rows), 300, rng) > BUDGET


@pytest.mark.parametrize("family", ["full", "multinomial"])
@pytest.mark.parametrize("prior", PRIORS)
def test_a_step_leaves_the_posterior_invariant(family, prior, rng):
    kernel = kernel_of(rows_of(family, rng), PRIORS[prior], n_moves=3)
    assert invariance(kernel.rows, PRIORS[prior], whole(kernel), 150, rng) > BUDGET


@pytest.mark.parametrize("prior", ["dp", "pitman-yor"])
def test_labels_among_the_largest_atoms_only(prior, rng):
    kernel = kernel_of(rows_of("full", rng), PRIORS[prior], most=2)
    assert invariance(kernel.rows, PRIORS[prior], labels_alone(kernel), 600, rng) > BUDGET


@pytest.mark.slow
@pytest.mark.parametrize("family", ["full", "multinomial"])
@pytest.mark.parametrize("prior", PRIORS)
def test_a_step_leaves_the_posterior_invariant_many_times(family, prior, rng):
    kernel = kernel_of(rows_of(family, rng), PRIORS[prior], n_moves=3)
    assert invariance(kernel.rows, PRIORS[prior], whole(kernel), 4_000, rng) > BUDGET


@pytest.mark.parametrize("name", ASSIGN)
def test_labels_of_every_assignment_kernel(name, rng):
    kernel = kernel_of(rows_of("full", rng), PRIORS["pitman-yor"], ASSIGN[name], threshold=0.1)
    assert invariance(kernel.rows, PRIORS["pitman-yor"], labels_alone(kernel), 600, rng) > BUDGET


@pytest.mark.parametrize("family", ["sparse", "missing", "bernoulli", "poisson"])
def test_a_step_with_other_families(family, rng):
    kernel = kernel_of(rows_of(family, rng), PRIORS["dp"], n_moves=3)
    assert invariance(kernel.rows, PRIORS["dp"], whole(kernel), 150, rng) > BUDGET


@pytest.fixture
def in_blocks(monkeypatch):
    """Six rows as if they were many: launches see some of them, blocks come in several tiles."""
    monkeypatch.setattr(launched, "LAUNCH_ROWS", 2)
    monkeypatch.setattr(launched, "HEAD", 1)
    monkeypatch.setattr(launched, "MAX_TILE_ROWS", 2)


@pytest.mark.parametrize("prior", ["pitman-yor", "mfm"])
def test_many_moves_in_blocks_leave_the_posterior_invariant(prior, rng, in_blocks):
    """Where the ratio of the prior depends on what other moves of a batch do."""
    rows = rows_of("full", rng)
    assert invariance(rows, PRIORS[prior], moves_alone(rows, 8), 250, rng) > BUDGET


@pytest.fixture
def alike():
    """Six rows that say little about their clusters: the prior decides."""
    family = SphericalGaussian(np.zeros(2), 1.0, np.zeros(2), 1e4, 1e4, 1e4)
    return Rows(np.arange(12.0).reshape(6, 2) % 3, family)


def of_sizes(rows, step, n, rng, times=1):
    """Exact-start p-value of the sizes of the clusters: more power for less work."""
    Z, prior = partitions(rows.n_rows), PRIORS["pitman-yor"]
    shape = {z.tobytes(): tuple(np.sort(np.bincount(z))) for z in Z}
    names, of_z = np.unique([str(shape[z.tobytes()]) for z in Z], return_inverse=True)
    log_p = log_posterior(rows, prior, Z)
    p, ends = np.exp(log_p - np.logaddexp.reduce(log_p)), []
    for i in rng.choice(p.size, size=n, p=p):
        z = Z[i]
        for _ in range(times):
            z = np.array(canonical(step((z, prior), rng)), np.int32)
        ends.append(np.searchsorted(names, str(shape[z.tobytes()])))
    return chi_square(np.bincount(ends, minlength=names.size), np.bincount(of_z, p))


def test_labels_reject_masses_without_the_discount(alike, rng, monkeypatch):
    step = labels_alone(kernel_of(alike, PRIORS["pitman-yor"]))
    assert of_sizes(alike, step, 1_000, rng, 3) > BUDGET
    right = AbstractPartition.jumps

    def wrong(self, sizes, least, rng):
        return np.log(rng.standard_gamma(sizes)), right(self, sizes, least, rng)[1]

    monkeypatch.setattr(AbstractPartition, "jumps", wrong)
    assert of_sizes(alike, step, 1_000, rng, 3) < BUDGET


def test_labels_reject_rows_that_leave_an_atom_to_which_none_can_return(alike, rng, monkeypatch):
    step = labels_alone(kernel_of(alike, PRIORS["pitman-yor"], threshold=0.3))
    assert of_sizes(alike, step, 1_000, rng) > BUDGET
    right = ParallelKernel.atoms

    def wrong(self, rng, state):
        found = right(self, rng, state)
        return found._replace(place=np.where(found.place < found.log_w.size, found.place, 0).astype(np.int32))

    monkeypatch.setattr(ParallelKernel, "atoms", wrong)
    assert of_sizes(alike, step, 1_000, rng) < BUDGET


def test_moves_reject_mergers_without_the_way_back(alike, rng, monkeypatch):
    step, right = moves_alone(alike), Course.add
    assert of_sizes(alike, step, 600, rng) > BUDGET
    monkeypatch.setattr(Course, "add", lambda self, part: right(self, (part[0] if self.drawn else 0.0, part[1])))
    assert of_sizes(alike, step, 600, rng) < BUDGET


@pytest.mark.parametrize("kind", ["move_of_cluster", "move_of_two"])
def test_moves_reject_anchors_without_their_factor(kind, alike, rng, monkeypatch):
    def step(state, rng):
        z, prior = state
        table = Table(alike, prior, z.copy(), list(statistics(alike, z)), int(z.max()) + 1)
        move = getattr(table, kind)(rng)
        if move is not None:
            table.judge(move, propose(table, [move], 0, ONE)[move])
        return table.z

    assert of_sizes(alike, step, 500, rng, 2) > BUDGET
    monkeypatch.setattr(Move, "log_h", lambda self, k, S: 0.0)
    assert of_sizes(alike, step, 1_000, rng, 3) < BUDGET


def parallel_step(rng, kernel, state, n_moves=3, times=1):
    mine, state = kernel_of(kernel.rows, kernel.prior, n_moves=n_moves), ParallelState(state.z, state.S, state.prior)
    for _ in range(times):
        state = mine.step(rng, state)[0]
    return state


@pytest.mark.parametrize("name", HYPER)
def test_joint_with_hyperparameters(name, rng):
    pvalues = joint_pvalues(HYPER[name], parallel_step, 250, rng)
    assert min(pvalues.values()) > BUDGET, pvalues


def test_joint_rejects_parameters_that_forget_the_data(rng, monkeypatch):
    def labels(rng, kernel, state):
        return parallel_step(rng, kernel, state, n_moves=0, times=3)

    right = ParallelKernel.atoms
    assert min(joint_pvalues(HYPER["dp"], labels, 300, rng).values()) > BUDGET
    forgetful = lambda self, rng, state: right(self, rng, replace(state, S=np.zeros_like(state.S)))  # noqa: E731
    monkeypatch.setattr(ParallelKernel, "atoms", forgetful)
    assert min(joint_pvalues(HYPER["dp"], labels, 300, rng).values()) < BUDGET


def test_moves_of_a_batch_share_no_cluster(rng):
    z = rng.integers(0, 4, 50)
    moves = [Move(rng.choice(50, 2, replace=False), "row", 0.5, rng) for _ in range(12)]
    for ready in ({}, dict.fromkeys(moves[:3])):
        found, before = independent(z, moves, ready), set()
        for move in moves:
            clusters = set(z[move.pair])
            assert (move in found) == (move not in ready and before.isdisjoint(clusters))
            before |= clusters


def test_hopeless_mergers_are_refused_as_if_they_had_been_looked_at(rng, monkeypatch):
    rows = blobs(600, 2, 5, 4.0)
    chains = []
    for look in (False, True):
        if look:
            monkeypatch.setattr(Table, "hopeless", lambda self, move, n_before: False)
        kernel = kernel_of(rows, MixtureOfFiniteMixtures(), first=lambda rng: np.arange(600) % 7, n_moves=10)
        chains.append(run(kernel, key=np.uint64(3), sweeps=15)[0].state.z)
    np.testing.assert_array_equal(*chains)


def blobs(n, d, k, separation, seed=0):
    X = make_blobs_overlapping(n, d, k, separation, seed).X
    return Rows(X, FullGaussian.from_data(X, k))


@pytest.mark.parametrize("assign", [ExactAssignment(), CanopyAssignment(n_cells=20)])
def test_threads_make_no_difference(assign):
    rows, states = blobs(12_000, 3, 6, 5.0), []
    for n_threads in (1, 2, 4):
        kernel = ParallelKernel(rows, PitmanYor(), assign, Threads(n_threads), n_moves=8)
        states.append(run(kernel, key=np.uint64(7), sweeps=5)[0].state)
    assert len(states[0].S) > 2
    for state in states[1:]:
        np.testing.assert_array_equal(state.z, states[0].z)
        np.testing.assert_array_equal(state.S, states[0].S)
        assert state.prior == states[0].prior


def test_a_resumed_run_goes_on_exactly(monkeypatch):
    """From its last state alone, with lists that are remembered, in a kernel that has prepared nothing."""
    monkeypatch.setattr(parallel, "FEW", 2)

    def kernel():
        early = ListsAssignment(length=2, width=3, turn=4)
        return kernel_of(blobs(900, 2, 6, 5.0), DirichletProcess(), PrunedAssignment(), early=early, n_early=5)

    state = kernel().init(step_rng(np.uint64(1), chain=0, sweep=0))
    states, one = [state], kernel()
    for sweep in range(1, 9):
        states.append(one.step(step_rng(np.uint64(1), chain=0, sweep=sweep), states[-1])[0])
    again = kernel()
    for sweep in range(4, 9):
        state = again.step(step_rng(np.uint64(1), chain=0, sweep=sweep), states[3] if sweep == 4 else state)[0]
    assert states[4].memory["n_listed"].any()
    assert not states[-1].memory
    np.testing.assert_array_equal(state.z, states[-1].z)
    np.testing.assert_array_equal(state.S, states[-1].S)


def test_statistics_are_those_of_the_labels(rng):
    kernel = kernel_of(blobs(3_000, 2, 4, 5.0), PitmanYor(), CanopyAssignment(n_cells=20), threshold=2.0, n_moves=4)
    state = kernel.init(rng)
    for _ in range(parallel.FRESH - 1):
        state, info = kernel.step(rng, state)
        assert len(state.S) == info["n_clusters"] == state.z.max() + 1
        np.testing.assert_array_equal(state.S[:, -1], np.bincount(state.z))
    np.testing.assert_allclose(state.S, statistics(kernel.rows, state.z), rtol=1e-10, atol=1e-8)
    fresh = kernel.step(rng, state)[0]
    np.testing.assert_allclose(fresh.S, statistics(kernel.rows, fresh.z), rtol=1e-13, atol=1e-11)


def test_lists_are_remembered_early_and_among_many_atoms_only(monkeypatch, rng):
    first = lambda rng: np.arange(900) % 40  # noqa: E731
    how = {"early": ListsAssignment(), "n_early": 2, "first": first, "n_moves": 0}
    kernel = kernel_of(blobs(900, 2, 6, 5.0), DirichletProcess(), **how)
    state = kernel.step(rng, kernel.init(rng))[0]
    assert not state.memory
    monkeypatch.setattr(parallel, "FEW", 20)
    state = kernel.step(rng, kernel.init(rng))[0]
    assert state.memory
    monkeypatch.setattr(parallel, "FEW", 10**6)  # as if there were few of them from here on
    state = kernel.step(rng, state)[0]
    assert not state.memory
    np.testing.assert_allclose(state.S, statistics(kernel.rows, state.z), rtol=1e-10, atol=1e-8)
    monkeypatch.setattr(parallel, "FEW", 20)
    assert not kernel.step(rng, state)[0].memory


def test_lists_are_carried_to_new_names():
    old = {
        "member": np.array([[0, 2, 1], [1, 0, 0], [2, 1, 0]], np.uint16),
        "n_near": np.array([2, 1, 1], np.int8),
        "n_listed": np.array([3, 1, 3], np.int8),
    }
    blank = ListsAssignment(width=2).blank(3, 4)
    new = carried(old, np.array([3, -1, 1]), np.array([0, 2, 1], np.int32), blank)
    np.testing.assert_array_equal(new["member"], [[3, 1], [2, 0], [1, 3]])
    np.testing.assert_array_equal(new["n_listed"], [2, 1, 2])
    np.testing.assert_array_equal(new["n_near"], [2, 1, 1])


def test_it_finds_twenty_clusters_from_one():
    data = make_blobs_overlapping(20_000, 8, 20, 6.0, 0)
    kernel = kernel_of(Rows(data.X, FullGaussian.from_data(data.X, 20)), DirichletProcess(), n_moves=30)
    chain = run(kernel, key=np.uint64(0), sweeps=45)[0]
    assert adjusted_rand_score(data.z, chain.state.z) > 0.95
    assert abs(chain.stats["n_clusters"][-1] - 20) <= 4
    assert {"n_clusters", "log_joint", "largest", "n_splits", "n_merges", "n_proposed", "n_evals", "renewed"} == set(
        chain.stats
    )


def test_it_merges_what_belongs_together():
    data = make_blobs_overlapping(4_000, 4, 4, 6.0, 1)
    rows, first = Rows(data.X, FullGaussian.from_data(data.X, 4)), lambda rng: np.arange(4_000) % 12
    kernel = kernel_of(rows, DirichletProcess(), first=first, n_moves=20)
    chain = run(kernel, key=np.uint64(2), sweeps=80)[0]
    assert adjusted_rand_score(data.z, chain.state.z) > 0.93
    assert chain.stats["n_clusters"][-1] <= 5
    assert chain.stats["n_merges"].sum() >= 5


@pytest.mark.parametrize("n", [1, 2])
def test_very_few_rows(n):
    X = np.arange(2.0 * n).reshape(n, 2)
    kernel = kernel_of(Rows(X, FullGaussian(np.zeros(2), np.ones(2), np.zeros(2), np.eye(2), 1.0, 3.0)), PitmanYor())
    chain = run(kernel, key=np.uint64(0), sweeps=20)[0]
    assert chain.stats["n_clusters"].max() <= n
    assert np.isfinite(chain.stats["log_joint"]).all()


def test_bad_input(rng):
    rows = blobs(30, 2, 2, 5.0)
    for wrong, words in (
        ({"n_moves": -1}, "n_moves must be 0 or more"),
        ({"n_early": -1}, "n_early must be 0 or more"),
        ({"threshold": 0.0}, "try 0.01"),
    ):
        with pytest.raises(ParameterError, match=words):
            kernel_of(rows, DirichletProcess(), **wrong)
    with pytest.raises(ParameterError, match="drop weight and known"):
        kernel_of(replace(rows, weight=np.ones(30)), DirichletProcess())
    with pytest.raises(ParameterError, match="share parameters"):
        kernel_of(Rows(rows.X, TiedGaussian.from_data(rows.X)), DirichletProcess())
    with pytest.raises(DataError, match="one label for each of 30 rows"):
        kernel_of(rows, DirichletProcess(), first=lambda rng: np.zeros(3)).init(rng)
