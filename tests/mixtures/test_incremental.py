"""Incremental sweeps of stochastic EM: statistics stay those of the labels, and they pay; when they are not used."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

from weald import Checkpoint, Mixture
from weald.assign import ASSIGNMENTS, ExactAssignment, GroupsAssignment, ListsAssignment, Rows, TreeAssignment
from weald.assign import base as base_module
from weald.assign.base import statistics
from weald.datasets import make_blobs_overlapping
from weald.engine import Threads
from weald.exceptions import StatusWarning
from weald.families import DiagonalGaussian, Multinomial, SphericalGaussian
from weald.inference.run import Chain, Snapshot
from weald.mixtures import kernels as kernels_module
from weald.mixtures.kernels import RULES, MixtureKernel, Model
from weald.mixtures.starts import first_statistics
from weald.partitions import FiniteDirichlet
from weald.persist import read, write

ONE, K, PARTS = Threads(1), 6, 4
KERNELS = {
    "exact": ExactAssignment(),
    "lists": ListsAssignment(length=3, width=4, depth=2.0, rescore=3, turn=5),
    "groups": GroupsAssignment(size=3, turn=5),
    "tree": TreeAssignment(turn=5),
}
DATA = ["plain", "weighted", "sparse", "known", "float32"]


def test_every_kernel_that_takes_parts_is_in_the_table():
    parts = {cls for cls in ASSIGNMENTS.values() if cls().layout == "parts"}
    assert {type(kernel) for kernel in KERNELS.values()} == parts


@pytest.fixture
def small(monkeypatch):
    """Incremental sweeps for few rows, and no sweeps over a subset of them before."""
    for name, value in {"PARTS": PARTS, "PART_ROWS": 50, "MANY": 2, "WORTH": 1_000_000}.items():
        monkeypatch.setattr(kernels_module, name, value)


@pytest.fixture
def noted(monkeypatch):
    """The sweeps that were incremental, as they happen."""
    used, right = [], MixtureKernel._step_in_parts
    monkeypatch.setattr(
        MixtureKernel, "_step_in_parts", lambda self, rng, state: used.append(state.sweep) or right(self, rng, state)
    )
    return used


def rows_of(kind, n=1_002):
    """Rows whose number the parts do not divide."""
    rng = np.random.default_rng(4)
    if kind == "sparse":
        X = sp.csr_array(rng.poisson(rng.dirichlet(np.full(8, 0.4), K)[rng.integers(0, K, n)] * 12.0).astype(float))
        return Rows(X, Multinomial.from_data(X, K))
    data = make_blobs_overlapping(n, 3, K, 2.5, 4, np.float32 if kind == "float32" else np.float64)
    weight = rng.gamma(2.0, size=n) if kind == "weighted" else None
    known = np.where(rng.random(n) < 0.2, data.z, -1).astype(np.int32) if kind == "known" else None
    return Rows(data.X, DiagonalGaussian.from_data(data.X, K, weight=weight), weight, known)


def kernel_for(rows, assign, rule="sem", engine=ONE, n_components=K, **options):
    first = lambda rng: first_statistics("random-points", rows, n_components, rng)  # noqa: E731
    model = Model(rows.family, FiniteDirichlet(n_components, 1.0))
    alone = {"relocates": False, "settles": False}
    return MixtureKernel(model, rows, RULES[rule], assign, engine, first, **alone, **options)


def states(kernel, n_sweeps, seed=0):
    """Every state, the first one included, and the figures of every sweep."""
    found, figures = [kernel.init(np.random.default_rng(seed))], []
    for sweep in range(n_sweeps):
        state, info = kernel.step(np.random.default_rng([seed, sweep]), found[-1])
        found.append(state)
        figures.append(info)
    return found, figures


def drift(kernel, n_sweeps=6):
    """Largest difference, beside the largest entry, between S of a sweep in parts and the statistics of its labels."""
    worst, found = 0.0, states(kernel, n_sweeps)[0]
    for before, state in pairwise(found):
        assert kernel._in_parts(before) == (before.sweep in kernels_module.EARLY)
        S = statistics(kernel.rows, state.z, len(state.S), ONE)
        worst = max(worst, np.abs(state.S - S).max() / np.abs(S).max())
    return worst


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("name", KERNELS)
def test_statistics_are_those_of_the_labels(name, kind, small):
    kernel = kernel_for(rows_of(kind), KERNELS[name])
    assert drift(kernel) < 1e-9
    found, figures = states(kernel, 6)
    for state, info in zip(found[1:], figures, strict=True):
        assert state.z.min() >= 0
        assert state.S[:, -1].sum() == pytest.approx(kernel.rows.total_weight)
        assert 0.0 <= info["renewed"] <= 1.0
        if kernel.rows.known is not None:
            held = kernel.rows.known >= 0
            assert np.array_equal(state.z[held], kernel.rows.known[held])


@pytest.mark.parametrize("name", KERNELS)
def test_statistics_with_old_labels_are_rejected(name, small, monkeypatch):
    """A bug: rows that change their label are added to the new cluster, and stay in the old one."""
    right = base_module.add_statistics

    def only_add(T, z, weight, S):
        if weight is None or np.all(weight >= 0.0):
            right(T, z, weight, S)

    kernel = kernel_for(rows_of("plain"), KERNELS[name])
    assert drift(kernel) < 1e-9
    monkeypatch.setattr(base_module, "add_statistics", only_add)
    assert drift(kernel) > 1e-3


def test_parameters_follow_each_part(small, monkeypatch):
    rows, seen, right = rows_of("plain"), [], RULES["sem"].parameters
    rule = replace(RULES["sem"], parameters=lambda model, S, rng: seen.append(S) or right(model, S, rng))
    monkeypatch.setitem(kernels_module.RULES, "sem", rule)
    kernel = kernel_for(rows, ExactAssignment())
    found, _ = states(kernel, 3)
    assert len(seen) == 3 + PARTS
    for part in range(PARTS):
        z = np.where(np.arange(rows.n_rows) % PARTS <= part, found[3].z, found[2].z)
        assert seen[3 + part] == pytest.approx(statistics(rows, z, K, ONE), rel=1e-9, abs=1e-9)
    assert np.array_equal(found[3].eta, right(kernel.model, seen[-1], None)[0])


@pytest.mark.parametrize("name", KERNELS)
def test_threads_do_not_matter(name, small):
    rows = rows_of("float32", 40_000)
    ends = [states(kernel_for(rows, KERNELS[name], engine=Threads(n)), 4) for n in (1, 2, 4)]
    for found, figures in ends[1:]:
        for a, b in zip(found, ends[0][0], strict=True):
            assert all(np.array_equal(getattr(a, field), getattr(b, field)) for field in ("z", "S", "eta", "log_w"))
            assert all(np.array_equal(a.memory[field], b.memory[field]) for field in b.memory)
        assert figures == ends[0][1]


@pytest.mark.parametrize("name", KERNELS)
def test_states_are_all_that_the_next_sweep_needs(name, small, tmp_path):
    """Each sweep from a state that was written to a file and read; the state it came from is left as it was."""
    kernel = kernel_for(rows_of("weighted"), KERNELS[name])
    found, _ = states(kernel, kernels_module.EARLY.stop + 2)
    state = kernel.init(np.random.default_rng(0))
    for sweep, expected in enumerate(found[1:]):
        write(tmp_path / "state", Snapshot("", 0, sweep, (), Chain(state, {}, {})))
        state = read(tmp_path / "state").current.state
        again, _ = kernel.step(np.random.default_rng([0, sweep]), state)
        state, _ = kernel.step(np.random.default_rng([0, sweep]), state)
        for field in ("z", "S", "eta", "log_w"):
            assert np.array_equal(getattr(state, field), getattr(expected, field))
            assert np.array_equal(getattr(again, field), getattr(expected, field))
        assert all(np.array_equal(state.memory[field], expected.memory[field]) for field in expected.memory)


class Killed(Exception):
    pass


@pytest.mark.parametrize("assign", ["exact", "lists", "auto"])
def test_fits_resume_bitwise(assign, small, noted, tmp_path):
    X, path = make_blobs_overlapping(1_000, 3, K, 2.5, 4).X, tmp_path / "run.ckpt"

    def fit(**options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StatusWarning)
            mix = Mixture(K, inference="sem", assign=assign, covariance="diag", max_iter=12, random_state=3)
            return mix.fit(X, **options)

    def kill(event):
        if event.phase == "step" and event.sweep == 4:
            raise Killed

    whole = fit()
    assert noted == list(kernels_module.EARLY)
    with pytest.raises(Killed):
        fit(callbacks=[Checkpoint(path, every=3), kill])
    resumed = fit(resume=path)
    assert np.array_equal(whole.means_, resumed.means_)
    assert np.array_equal(whole.labels_, resumed.labels_)
    for name, values in whole.posterior_.stats.items():
        np.testing.assert_array_equal(values, resumed.posterior_.stats[name], err_msg=name)


def test_only_early_sweeps_of_stochastic_em(small, noted):
    rows = rows_of("plain")
    for rule in ("em", "gibbs", "vb"):
        states(kernel_for(rows, ExactAssignment(), rule), 4)
    states(kernel_for(rows, ExactAssignment(), incremental=False), 4)
    assert noted == []
    states(kernel_for(rows, ExactAssignment()), kernels_module.EARLY.stop + 3)
    assert noted == list(kernels_module.EARLY)


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_only_kernels_that_prepare_nothing_of_single_rows(name, small, noted):
    states(kernel_for(rows_of("plain"), ASSIGNMENTS[name]()), 4)
    assert noted == ([2, 3] if name in KERNELS else [])


def test_only_many_rows(noted, monkeypatch):
    for name, value in {"PARTS": 4, "PART_ROWS": 100, "MANY": 2}.items():
        monkeypatch.setattr(kernels_module, name, value)
    states(kernel_for(rows_of("plain", 399), ExactAssignment()), 3)
    assert noted == []
    states(kernel_for(rows_of("plain", 400), ExactAssignment()), 3)
    assert noted == [2]
    monkeypatch.setattr(kernels_module, "MANY", 17)
    states(kernel_for(rows_of("plain", 400), ExactAssignment()), 3)
    assert noted == [2]


def log_likelihood(rows, state):
    tiles = (rows.X[a : a + 4096] for a in range(0, rows.n_rows, 4096))
    return sum(logsumexp(rows.family.sufficient(X) @ state.eta.T + state.log_w, axis=1).sum() for X in tiles)


@pytest.mark.parametrize("assign", [ExactAssignment(), ListsAssignment()])
def test_four_sweeps_go_further(assign):
    """Than four sweeps over all rows at once: by a twentieth of a nat for each row, from each of three starts."""
    data = make_blobs_overlapping(60_000, 8, 50, 4.0, 1, np.float32)
    rows = Rows(data.X, SphericalGaussian.from_data(data.X, 50))
    for seed in range(3):
        ends = []
        for incremental in (True, False):
            kernel = kernel_for(rows, assign, n_components=50, incremental=incremental)
            found, _ = states(kernel, 4, seed)
            assert kernel._in_parts(found[2]) == incremental
            ends.append(log_likelihood(rows, found[-1]) / rows.n_rows)
        assert ends[0] > ends[1] + 0.05


def test_components_that_start_from_single_rows_do_not_starve():
    """As flexible ones would if the first two sweeps were in parts, too."""
    data = make_blobs_overlapping(40_000, 24, 200, 5.0, 1, np.float32)
    rows = Rows(data.X, DiagonalGaussian.from_data(data.X, 200))
    held = {}
    for incremental in (True, False):
        kernel = kernel_for(rows, ExactAssignment(), n_components=200, incremental=incremental)
        state = states(kernel, 10)[0][-1]
        held[incremental] = np.count_nonzero(state.S[:, -1] >= 0.1 * len(data.X) / 200), log_likelihood(rows, state)
    assert held[True][0] >= held[False][0] - 10
    assert held[True][1] >= held[False][1] - 0.05 * len(data.X)
