"""Collapsed Gibbs against all partitions of six rows, joint tests, odd data, and bugs to be rejected."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from weald._random import sweep_key
from weald.assign import Rows
from weald.exceptions import DataError, ParameterError
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
)
from weald.inference.run import run
from weald.mixtures import collapsed
from weald.mixtures._predictive import MatrixLaw
from weald.mixtures.collapsed import (
    Board,
    CollapsedKernel,
    PartitionState,
    gibbs,
    log_new,
)
from weald.mixtures.laws import law_of, other_laws
from weald.partitions import (
    DirichletProcess,
    FiniteDirichlet,
    MixtureOfFiniteMixtures,
    NormalisedGeneralisedGamma,
    PitmanYor,
)
from weald.testing.invariance import BUDGET, exact_start, joint

N = 6
PRIORS = {
    "dp": DirichletProcess(1.3, shape=None),
    "pitman-yor": PitmanYor(0.7, 0.4, shape=None, learn_discount=False),
    "nggp": NormalisedGeneralisedGamma(1.2, 0.5, shape=None, learn_discount=False),
    "mfm": MixtureOfFiniteMixtures(0.8, 2.0),
    "dirichlet": FiniteDirichlet(3, 0.6),
}


class Mixed:
    """A product of all kinds; only the last two columns are complete."""

    KINDS = ("poisson", "bernoulli", "gaussian", "categorical", "gaussian", "poisson")

    @staticmethod
    def from_data(X, n_components=1):
        return Product.from_data(X, n_components, kinds=Mixed.KINDS)


def mixed_columns(rng, n):
    X = [rng.poisson(2.0, n), rng.integers(0, 2, n), rng.normal(size=n), rng.integers(0, 3, n), rng.normal(size=n)]
    X = np.where(rng.random((n, 5)) < 0.2, np.nan, np.column_stack(X))
    X[:, 4] = rng.normal(size=n)
    return np.column_stack([X, rng.poisson(3.0, n)])


FAMILIES = {
    "full": (FullGaussian, lambda rng, n: rng.normal(size=(n, 2)) * [1.0, 100.0] + 7.0),
    "diag": (DiagonalGaussian, lambda rng, n: rng.normal(size=(n, 6)) * 3.0),
    "spherical": (SphericalGaussian, lambda rng, n: rng.normal(size=(n, 2)) + 1e4),
    "multinomial": (Multinomial, lambda rng, n: rng.integers(0, 4, size=(n, 3)).astype(float)),
    "sparse": (Multinomial, lambda rng, n: sparse.csr_array(rng.poisson(0.3, size=(n, 9)) * 1.0)),
    "long": (Multinomial, lambda rng, n: rng.integers(100, 150, size=(n, 2)).astype(float)),
    "bernoulli": (Bernoulli, lambda rng, n: rng.integers(0, 2, size=(n, 3)).astype(float)),
    "categorical": (Categorical, lambda rng, n: with_holes(rng.integers(0, 3, size=(n, 2)), rng)),
    "poisson": (Poisson, lambda rng, n: rng.poisson(3.0, size=(n, 2)).astype(float)),
    "missing": (DiagonalGaussian, lambda rng, n: with_holes(rng.normal(size=(n, 2)), rng)),
    "holes": (Bernoulli, lambda rng, n: with_holes(rng.integers(0, 2, size=(n, 3)), rng)),
    "ones": (Bernoulli, lambda rng, n: sparse.csr_array((rng.random((n, 9)) < 0.3) * 1.0)),
    "sparse poisson": (Poisson, lambda rng, n: sparse.csr_array(rng.poisson(0.4, size=(n, 9)) * 1.0)),
    "poisson, holes": (Poisson, lambda rng, n: with_holes(rng.poisson(5.0, size=(n, 3)), rng)),
    "many": (Poisson, lambda rng, n: rng.poisson(120.0, size=(n, 2)).astype(float)),
    "mixed": (Mixed, lambda rng, n: mixed_columns(rng, n)),
}


def with_holes(X, rng):
    return np.where(rng.random(X.shape) < 0.2, np.nan, X)


def rows_of(name, rng, n=N):
    cls, simulate = FAMILIES[name]
    X = simulate(rng, n)
    return Rows(X, cls.from_data(X, 2))


def partitions(n):
    """All partitions of n items, labels in order of appearance."""
    Z = [(0,)]
    for _ in range(n - 1):
        Z = [(*z, c) for z in Z for c in range(max(z) + 2)]
    return np.array(Z, np.int32)


def canonical(z):
    """Labels in order of appearance."""
    names = {}
    return tuple(names.setdefault(int(c), len(names)) for c in z)


def statistics(rows, z):
    T = rows.family.sufficient(rows.X)
    T = np.asarray(T.toarray() if sparse.issparse(T) else T, np.float64)
    return np.stack([T[z == c].sum(axis=0) for c in range(max(z) + 1)])


def log_posterior(rows, prior, Z):
    """(m,): unnormalised log probabilities of partitions Z (m, n)."""
    return np.array([prior.log_eppf(np.bincount(z)) + rows.family.log_marginal(statistics(rows, z)).sum() for z in Z])


def invariance(rows, prior, step, n, rng):
    """Exact-start p-value of step((z, prior), rng) -> z; an auxiliary variable starts from its conditional."""
    Z = partitions(rows.n_rows)
    index = {tuple(z): i for i, z in enumerate(Z)}

    def start(i, rng):
        return Z[i], prior.update(np.bincount(Z[i]), rng)

    def moved(state, rng):
        return index[canonical(step(state, rng))]

    return exact_start(log_posterior(rows, prior, Z), start, moved, lambda i: i, n=n, rng=rng)


def gibbs_sweep(laws):
    """State, rng -> labels: the rows of one sweep, without what `step` measures."""

    def step(state, rng):
        z, prior = state
        board = Board(laws, z.copy(), int(z.max()) + 1, prior)
        board.play(gibbs, z.size, rng.permutation(z.size), sweep_key(rng))
        return board.z

    return step


def whole_step(kernel):
    def step(state, rng):
        z, prior = state
        return kernel.step(rng, PartitionState(z, statistics(kernel.rows, z), prior))[0].z

    return step


def test_partitions_are_all_there():
    assert [len(partitions(n)) for n in (1, 2, 5, 6)] == [1, 2, 52, 203]


@pytest.mark.parametrize("name", PRIORS)
def test_the_posterior_is_normalised_by_the_prior(name):
    log_p = [PRIORS[name].log_eppf(np.bincount(z)) for z in partitions(N)]
    assert np.logaddexp.reduce(log_p) == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize("family", ["full", "multinomial"])
@pytest.mark.parametrize("prior", PRIORS)
def test_gibbs_leaves_the_posterior_invariant(family, prior, rng):
    rows = rows_of(family, rng)
    assert invariance(rows, PRIORS[prior], gibbs_sweep(law_of(rows)), 3_000, rng) > BUDGET


@pytest.mark.parametrize("family", sorted({*FAMILIES} - {"full", "multinomial", "long", "many"}))
def test_gibbs_leaves_the_posterior_of_every_family_invariant(family, rng):
    rows = rows_of(family, rng)
    assert invariance(rows, PRIORS["dp"], gibbs_sweep(law_of(rows)), 2_000, rng) > BUDGET


@pytest.mark.parametrize("family", ["spherical", "poisson", "mixed"])
def test_a_step_leaves_the_posterior_invariant(family, rng):
    rows = rows_of(family, rng)
    kernel = CollapsedKernel(rows, PRIORS["nggp"], n_moves=2)
    assert invariance(rows, PRIORS["nggp"], whole_step(kernel), 600, rng) > BUDGET


def test_given_u_the_weight_of_a_new_cluster_does_not_depend_on_their_number():
    """It is the ratio of the joint densities of partition and u."""
    prior = replace(PRIORS["nggp"], log_u=0.3)
    for sizes in ([3], [2, 2], [4, 1, 1]):
        ratio = prior.log_joint_eppf([*sizes, 1]) - prior.log_joint_eppf([*sizes[:-1], sizes[-1] + 1])
        n = sum(sizes) + 1
        assert ratio == pytest.approx(log_new(prior, n, len(sizes)) - math.log(sizes[-1] - prior.sigma), abs=1e-12)


@pytest.fixture
def alike():
    """Six rows that say little about their clusters, whose means and variances are known: the prior decides."""
    family = FullGaussian(np.zeros(2), np.ones(2), np.zeros(2), 1e4 * np.eye(2), 1e4, 1e4)
    return Rows(np.arange(2.0 * N).reshape(N, 2) % 3, family)


def test_invariance_rejects_a_new_cluster_without_the_ratio_of_the_prior(alike, rng, monkeypatch):
    step = gibbs_sweep(law_of(alike))
    assert invariance(alike, PRIORS["pitman-yor"], step, 3_000, rng) > BUDGET
    monkeypatch.setattr(collapsed, "log_new", lambda prior, n, k: 0.0)
    assert invariance(alike, PRIORS["pitman-yor"], step, 3_000, rng) < BUDGET


def test_invariance_rejects_a_wrong_constant_of_the_predictive(alike, rng):
    right = law_of(alike)

    def wrong(capacity):
        law = right(capacity)
        return law._replace(constant=law.constant + 0.3 * (np.arange(N + 1) > 0))

    assert invariance(alike, PRIORS["dp"], gibbs_sweep(wrong), 3_000, rng) < BUDGET


def test_invariance_rejects_a_part_of_a_product_with_another_prior(rng):
    rows = rows_of("mixed", rng)
    right = law_of(rows)

    def wrong(capacity):
        law = right(capacity)
        return law._replace(second=law.second._replace(prior=0.2 * law.second.prior))

    assert invariance(rows, PRIORS["dp"], gibbs_sweep(wrong), 3_000, rng) < BUDGET


def test_invariance_rejects_a_row_that_is_not_taken_out(rng, monkeypatch):
    """Run as plain Python, where a verb can be replaced."""
    rows = rows_of("full", rng)

    def with_itself(law, i, c):
        out = np.empty(law.size.size)
        law.score(i, c, c + 1, out)
        return out[c]

    monkeypatch.setattr(collapsed, "score_without", with_itself)
    assert invariance(rows, PRIORS["dp"], gibbs_sweep(other_laws(rows)), 600, rng) < BUDGET


HYPER = {
    "dp": DirichletProcess(shape=2.0, rate=1.5),
    "pitman-yor": PitmanYor(shape=2.0, rate=1.5),
    "nggp": NormalisedGeneralisedGamma(shape=2.0, rate=1.5),
    "mfm": MixtureOfFiniteMixtures(n_extra=2.0, shape=2.0, rate=1.5),
}


def joint_pvalues(hyper, step, n, rng):
    """Hyperparameters, partition and data drawn from the model, then moved."""
    family = FullGaussian(np.zeros(2), np.ones(2), np.zeros(2), np.eye(2), 0.3, 5.0)

    def draw_prior(rng):
        found = replace(hyper, concentration=rng.gamma(hyper.shape) / hyper.rate)
        if hasattr(hyper, "discount"):
            found = replace(found, discount=rng.uniform(0.01, 0.99))
        z = found.draw(8, rng).astype(np.int32)
        if hasattr(hyper, "log_u"):
            fixed = replace(found, shape=None, learn_discount=False).update(np.bincount(z), rng)
            found = replace(found, log_u=fixed.log_u)
        return found, z

    def simulate(theta, rng):
        eta = family.sample_eta(np.zeros((theta[1].max() + 1, family.width)), rng)
        return Rows(family.sample_x(eta[theta[1]], rng), family)

    def moved(theta, rows, rng):
        state = PartitionState(theta[1], statistics(rows, theta[1]), theta[0])
        state = step(rng, CollapsedKernel(rows, theta[0], n_moves=2), state)
        return state.prior, state.z

    def measure(theta, rows):
        prior, z = theta
        sizes = np.bincount(z)
        fit = family.log_marginal(statistics(rows, z)).sum()
        found = {"k": sizes.size, "largest": sizes.max(), "fit": fit, "concentration": prior.concentration}
        found["eppf"] = prior.log_eppf(sizes)
        return {**found, "discount": prior.discount} if hasattr(prior, "discount") else found

    return joint(draw_prior, simulate, moved, measure, n=n, rng=rng)


@pytest.mark.parametrize("name", HYPER)
def test_joint_with_hyperparameters(name, rng):
    pvalues = joint_pvalues(HYPER[name], lambda rng, kernel, state: kernel.step(rng, state)[0], 300, rng)
    assert min(pvalues.values()) > BUDGET, pvalues


def test_joint_rejects_hyperparameters_updated_with_too_many_clusters(rng):
    def step(rng, kernel, state):
        state = kernel.step(rng, state)[0]
        return replace(state, prior=state.prior.update(np.append(np.bincount(state.z), [1, 1]), rng))

    assert min(joint_pvalues(HYPER["dp"], step, 800, rng).values()) < BUDGET


def check_state(kernel, state):
    k = len(state.S)
    assert state.z.dtype == np.int32
    np.testing.assert_array_equal(np.unique(state.z), np.arange(k))
    np.testing.assert_allclose(state.S, statistics(kernel.rows, state.z), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["full", "diag", "spherical", "multinomial", "poisson"])
def test_one_row(name, rng):
    X = np.ones((1, 2))
    kernel = CollapsedKernel(Rows(X, FAMILIES[name][0].from_data(X)), DirichletProcess())
    state, info = kernel.step(rng, kernel.init(rng))
    assert state.z.tolist() == [0]
    expected = kernel.rows.family.log_marginal(state.S)[0] + kernel.rows.family.log_base(X)[0]
    assert info["log_joint"] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["full", "diag", "spherical", "multinomial", "categorical"])
def test_duplicates(name, rng):
    X = np.tile(np.array([[1.0, 2.0]]), (40, 1))
    kernel = CollapsedKernel(Rows(X, FAMILIES[name][0].from_data(X)), PitmanYor())
    chain = run(kernel, key=np.uint64(3), sweeps=20)[0]
    check_state(kernel, chain.state)
    assert np.isfinite(chain.stats["log_joint"]).all()


@pytest.mark.parametrize("cls", [FullGaussian, DiagonalGaussian, SphericalGaussian])
def test_a_far_outlier_gets_a_cluster_of_its_own(cls, rng):
    X = np.vstack([rng.normal(size=(60, 3)), np.full((1, 3), 1e6)])
    family = cls.from_data(X)
    kernel = CollapsedKernel(Rows(X, replace(family, psi=family.psi * 1e-10)), DirichletProcess(shape=None))
    state = run(kernel, key=np.uint64(4), sweeps=5)[0].state
    check_state(kernel, state)
    assert np.bincount(state.z)[state.z[60]] == 1


def test_ten_thousand_rows_start_in_one_cluster(rng):
    X = rng.normal(size=(10_000, 2)) + 12.0 * rng.integers(0, 2, size=(10_000, 1))
    kernel = CollapsedKernel(Rows(X, FullGaussian.from_data(X, 2)), DirichletProcess(), n_moves=30)
    state, info = kernel.step(rng, kernel.init(rng))
    check_state(kernel, state)
    assert info["n_clusters"] == len(state.S)
    assert info["largest"] == np.bincount(state.z).max() / 10_000
    assert info["n_splits"] >= 1


def test_rows_that_start_alone_find_each_other(rng):
    """As many clusters as rows at first; the number of columns has to grow on the way."""
    X = rng.normal(size=(80, 2)) + 9.0 * np.arange(80)[:, None]
    kernel = CollapsedKernel(
        Rows(X, SphericalGaussian.from_data(X, psi=1.0)), DirichletProcess(5.0), first=lambda rng: np.arange(80)
    )
    assert len(kernel.init(rng).S) == 80
    board = Board(kernel.laws, np.zeros(80, np.int32), 1, DirichletProcess(1e12))
    board.play(gibbs, 80, np.arange(80), np.uint64(1))
    assert board.k >= 79  # all but one left; sixteen columns would not have held them
    assert run(kernel, key=np.uint64(1), sweeps=3)[0].stats["n_deaths"].sum() > 0


def test_a_full_finite_model_opens_no_cluster(rng):
    rows = rows_of("diag", rng, 50)
    chain = run(CollapsedKernel(rows, FiniteDirichlet(3)), key=np.uint64(2), sweeps=30)[0]
    assert chain.stats["n_clusters"].max() <= 3


def test_resumed_runs_are_the_same(rng):
    rows, kept = rows_of("full", rng, 50), []
    kernel = CollapsedKernel(rows, NormalisedGeneralisedGamma())
    tell = lambda event: kept.append(event.snapshot()) if event.sweep == 4 and event.phase == "step" else None  # noqa: E731
    whole = run(kernel, key=np.uint64(9), sweeps=8, callbacks=[tell])[0]
    rest = run(kernel, key=np.uint64(9), sweeps=8, resume=kept[0])[0]
    np.testing.assert_array_equal(whole.state.z, rest.state.z)
    np.testing.assert_array_equal(whole.state.S, rest.state.S)
    assert whole.state.prior == rest.state.prior
    np.testing.assert_array_equal(whole.stats["log_joint"], rest.stats["log_joint"])


def test_gibbs_finds_separated_blobs(rng):
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    truth = rng.integers(0, 3, 150)
    X = centres[truth] + rng.normal(size=(150, 2))
    kernel = CollapsedKernel(Rows(X, FullGaussian.from_data(X, 3)), DirichletProcess())
    state = run(kernel, key=np.uint64(6), sweeps=30)[0].state
    pairs = {(a, b) for a, b in zip(truth, state.z, strict=True) if np.bincount(state.z)[b] > 5}
    assert len(pairs) == 3


def test_the_figures_of_a_sweep(rng):
    rows = rows_of("sparse", rng, 40)
    kernel = CollapsedKernel(rows, PitmanYor())
    state, info = kernel.step(rng, kernel.init(rng))
    log_p = log_posterior(rows, state.prior, state.z[None])[0] + rows.family.log_base(rows.X).sum()
    assert info["log_joint"] == pytest.approx(log_p, rel=1e-12)
    assert set(info) >= {"n_clusters", "largest", "n_births", "n_deaths", "n_splits", "n_merges"}
    assert state.sweep == 1


def test_what_is_refused(rng):
    rows = rows_of("full", rng)
    with pytest.raises(ParameterError, match="share parameters"):
        law_of(Rows(rows.X, TiedGaussian.from_data(rows.X)))
    with pytest.raises(ParameterError, match="weight"):
        CollapsedKernel(replace(rows, weight=np.ones(N)), DirichletProcess())
    with pytest.raises(ParameterError, match="n_moves"):
        CollapsedKernel(rows, DirichletProcess(), n_moves=-1)
    with pytest.raises(DataError, match="one label"):
        CollapsedKernel(rows, DirichletProcess(), first=lambda rng: np.zeros(3)).init(rng)


def test_the_rows_of_a_law_are_not_its_own(rng):
    rows = rows_of("full", rng)
    kernel = CollapsedKernel(rows, DirichletProcess())
    before, state = rows.X.copy(), kernel.init(rng)
    z = state.z.copy()
    kernel.step(rng, state)
    np.testing.assert_array_equal(rows.X, before)
    np.testing.assert_array_equal(state.z, z)
    assert isinstance(kernel.laws(4), MatrixLaw)
