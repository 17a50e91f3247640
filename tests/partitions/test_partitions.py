"""Every partition prior against enumeration: one line in PRIORS is all that a new prior needs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from weald.exceptions import DataError, ParameterError
from weald.partitions import (
    PARTITIONS,
    AbstractPartition,
    DirichletProcess,
    FiniteDirichlet,
    MixtureOfFiniteMixtures,
    NormalisedGeneralisedGamma,
    PitmanYor,
)

PRIORS = {
    "dirichlet": FiniteDirichlet(4, 0.7),
    "dp": DirichletProcess(1.3),
    "pitman-yor": PitmanYor(0.8, 0.4),
    "nggp": NormalisedGeneralisedGamma(1.2, 0.6),
    "inverse-gaussian": NormalisedGeneralisedGamma(0.5, 0.5),
    "mfm": MixtureOfFiniteMixtures(0.8, 2.5),
    "mfm-geometric": MixtureOfFiniteMixtures(1.5, 2.0, "geometric"),
}
SIZE_BIASED = ("dp", "pitman-yor", "nggp", "inverse-gaussian")
P_VALUE = 1e-5
Z_VALUE = 4.5

every_prior = pytest.mark.parametrize("name", PRIORS)


def set_partitions(n):
    """All label vectors of n items, labels in order of appearance."""
    found = [(0,)]
    for _ in range(n - 1):
        found = [(*z, j) for z in found for j in range(max(z) + 2)]
    return found


def eppf(prior, z):
    return math.exp(prior.log_eppf(np.bincount(z)))


@dataclass(frozen=True)
class ForgottenDiscount(AbstractPartition):
    """An injected bug: tables are left with the discount, new ones are opened without it."""

    right: AbstractPartition

    sigma = property(lambda self: self.right.sigma)

    def log_v(self, n, k):
        return DirichletProcess(self.right.concentration).log_v(n, k)

    sticks = update = expected_n_clusters = log_other_jumps = None


def test_every_name_has_a_prior():
    assert set(PARTITIONS) == {"dirichlet", "dp", "pitman-yor", "nggp", "mfm"}
    assert {PARTITIONS[name] for name in PARTITIONS} == {type(prior) for prior in PRIORS.values()}


@every_prior
def test_eppf_sums_to_one(name):
    partitions = set_partitions(6)
    assert len(partitions) == 203
    assert sum(eppf(PRIORS[name], z) for z in partitions) == pytest.approx(1.0, abs=1e-10)
    assert PRIORS[name].log_eppf(np.array([], int)) == 0.0
    assert PRIORS[name].log_eppf([1]) == pytest.approx(0.0, abs=1e-10)


@every_prior
@pytest.mark.parametrize("sizes", [[1], [3], [2, 1], [1, 1, 1], [5, 2, 1, 1], [40, 7, 3], [300, 150, 50]])
def test_predictive_weights_are_ratios_of_the_eppf(name, sizes):
    prior, k = PRIORS[name], len(sizes)
    existing, new = prior.log_weights(np.array(sizes))
    assert existing.shape == (k,)
    assert np.exp(existing).sum() + math.exp(new) == pytest.approx(1.0, abs=1e-12)
    base = prior.log_eppf(sizes)
    for j in range(k):
        grown = np.array(sizes) + (np.arange(k) == j)
        assert existing[j] == pytest.approx(prior.log_eppf(grown) - base, abs=1e-10)
    extended = prior.log_eppf([*sizes, 1])
    assert (new == extended == -math.inf) or new == pytest.approx(extended - base, abs=1e-10)


@every_prior
def test_first_item_opens_the_first_block(name):
    existing, new = PRIORS[name].log_weights(np.array([], int))
    assert existing.shape == (0,)
    assert new == 0.0
    assert PRIORS[name].draw(0, np.random.default_rng(0)).shape == (0,)


def draw_p_value(sampler, prior, n_draws=10_000, n=5, seed=11):
    """Chi-square of label vectors drawn by `sampler` against the EPPF of `prior`; rare cells pooled."""
    rng = np.random.default_rng(seed)
    counts = Counter(tuple(sampler.draw(n, rng).tolist()) for _ in range(n_draws))
    expected = np.array([n_draws * eppf(prior, z) for z in set_partitions(n)])
    observed = np.array([counts[z] for z in set_partitions(n)])
    assert observed.sum() == n_draws
    rare = expected < 8
    cells = [np.append(v[~rare], v[rare].sum()) for v in (observed, expected)]
    keep = cells[1] > 1
    return stats.chi2.sf(((cells[0] - cells[1])[keep] ** 2 / cells[1][keep]).sum(), keep.sum() - 1)


@every_prior
def test_draws_follow_the_eppf(name):
    prior = PRIORS[name]
    assert draw_p_value(prior, prior) > P_VALUE
    assert draw_p_value(replace(prior, concentration=2 * prior.concentration), prior) < 1e-12


@pytest.mark.parametrize("name", ["pitman-yor", "nggp"])
def test_draws_that_forget_the_discount_are_rejected(name):
    assert draw_p_value(ForgottenDiscount(PRIORS[name]), PRIORS[name]) < 1e-12


@every_prior
@pytest.mark.parametrize("n", [1, 2, 6])
def test_number_of_clusters_equals_enumeration(name, n):
    prior, by_k = PRIORS[name], np.zeros(n)
    for z in set_partitions(n):
        by_k[max(z)] += eppf(prior, z)
    np.testing.assert_allclose(np.exp(prior.log_n_clusters(n)), by_k, atol=1e-10)
    assert prior.expected_n_clusters(n) == pytest.approx(by_k @ np.arange(1, n + 1), abs=1e-10)


@every_prior
def test_number_of_clusters_of_many_items(name):
    prior, rng = PRIORS[name], np.random.default_rng(5)
    pmf, k = np.exp(prior.log_n_clusters(50)), np.arange(1, 51)
    assert pmf.sum() == pytest.approx(1.0, abs=1e-10)
    assert prior.expected_n_clusters(50) == pytest.approx(pmf @ k, rel=1e-10)
    found = np.array([prior.draw(50, rng).max() + 1 for _ in range(1000)])
    z = (found.mean() - prior.expected_n_clusters(50)) / (found.std() / math.sqrt(found.size))
    assert abs(z) < Z_VALUE


def stick_z_values(sampler, prior, size_biased, n_draws=4000):
    """Moments of the weights against the EPPF of four items (Pitman's formula where the order is size-biased)."""
    rng, z = np.random.default_rng(3), []
    w = np.exp([sampler.sticks(3 if size_biased else 40, rng) for _ in range(n_draws)])
    assert np.allclose(w.sum(1), 1.0, atol=1e-12)
    for a, b in ((3, 1), (2, 2), (1, 3)):
        if size_biased:
            moment = w[:, 0] ** (a - 1) * w[:, 1] ** (b - 1) * (1 - w[:, 0])
        else:
            moment = (w**a).sum(1) * (w**b).sum(1) - (w ** (a + b)).sum(1)
        z.append((moment.mean() - math.exp(prior.log_eppf([a, b]))) / (moment.std() / math.sqrt(n_draws)))
    return np.abs(z)


@every_prior
def test_sticks_have_the_moments_of_the_eppf(name):
    prior, size_biased = PRIORS[name], name in SIZE_BIASED
    assert stick_z_values(prior, prior, size_biased).max() < Z_VALUE
    wrong = replace(prior, concentration=5 * prior.concentration)
    assert stick_z_values(wrong, prior, size_biased).max() > 6


@every_prior
def test_items_drawn_from_sticks_make_as_many_clusters(name):
    prior, rng = PRIORS[name], np.random.default_rng(8)
    found = []
    for _ in range(1000):
        edges = np.cumsum(np.exp(prior.sticks(2000, rng)))
        found.append(np.unique(np.searchsorted(edges, edges[-1] * rng.random(10))).size)
    z = (np.mean(found) - prior.expected_n_clusters(10)) / (np.std(found) / math.sqrt(len(found)))
    assert abs(z) < Z_VALUE
    assert prior.sticks(1, rng) == pytest.approx([0.0], abs=1e-12)


def partitions_differ(first, second):
    """Largest difference of log EPPF over all partitions of five items."""
    every = [np.bincount(z) for z in set_partitions(5)]
    return max(abs(first.log_eppf(sizes) - second.log_eppf(sizes)) for sizes in every)


def test_priors_that_are_limits_of_each_other():
    dp = DirichletProcess(1.7)
    assert partitions_differ(PitmanYor(1.7, 0.0), dp) < 1e-12
    assert partitions_differ(NormalisedGeneralisedGamma(1.7e7, 1e-7), dp) < 1e-5
    assert partitions_differ(FiniteDirichlet(10**6, 1.7e-6), dp) < 1e-4
    assert partitions_differ(NormalisedGeneralisedGamma(1e-12, 0.4), PitmanYor(1e-12, 0.4)) < 1e-4
    assert partitions_differ(PitmanYor(1.7, 0.1), dp) > 0.1


def test_closed_forms():
    assert math.exp(DirichletProcess(2.0).log_eppf([3, 1])) == pytest.approx(2.0**2 * 2 / (2 * 3 * 4 * 5))
    assert math.exp(PitmanYor(1.0, 0.5).log_eppf([2, 1])) == pytest.approx(1.5 * 0.5 / (2 * 3))
    assert math.exp(FiniteDirichlet(3, 0.5).log_eppf([2, 1])) == pytest.approx(
        3 * 2 * 0.5 * 1.5 * 0.5 / (1.5 * 2.5 * 3.5)
    )
    assert FiniteDirichlet(2).log_eppf([1, 1, 1]) == -math.inf
    assert FiniteDirichlet(3, 0.0).log_eppf([7]) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("pmf", ["poisson", "geometric"])
@pytest.mark.parametrize("n_extra", [0.05, 3.0, 60.0])
def test_mfm_is_the_average_of_finite_mixtures(pmf, n_extra):
    prior = MixtureOfFiniteMixtures(0.6, n_extra, pmf)
    law = stats.poisson(n_extra) if pmf == "poisson" else stats.geom(1 / (1 + n_extra), loc=-1)
    K = np.arange(1, 3000)
    p = law.pmf(K - 1)
    for sizes in ([4], [2, 1], [9, 4, 1, 1]):
        average = sum(p[i] * math.exp(FiniteDirichlet(int(K[i]), 0.6).log_eppf(sizes)) for i in range(K.size))
        assert prior.log_eppf(sizes) == pytest.approx(math.log(average), abs=1e-9)
    average = sum(p[i] * FiniteDirichlet(int(K[i]), 0.6).expected_n_clusters(30) for i in range(K.size))
    assert prior.expected_n_clusters(30) == pytest.approx(average, rel=1e-9)


def test_mfm_is_stable_for_large_n():
    prior = MixtureOfFiniteMixtures(0.01, 5.0)
    existing, new = prior.log_weights(np.array([90_000, 9_000, 1_000]))
    assert np.exp(existing).sum() + math.exp(new) == pytest.approx(1.0, abs=1e-12)
    left = prior.log_v(100_000, 3)
    right = np.logaddexp(math.log(100_000 + 3 * 0.01) + prior.log_v(100_001, 3), prior.log_v(100_001, 4))
    assert left == pytest.approx(right, abs=1e-7)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 300.0])
@pytest.mark.parametrize("sigma", [0.01, 0.5, 0.97])
def test_nggp_has_u_integrated_out(alpha, sigma):
    for sizes in ([1], [3, 1], [30, 20, 5, 1, 1]):
        prior = NormalisedGeneralisedGamma(alpha, sigma)
        total = prior.log_eppf(sizes)

        def density(x, prior=prior, sizes=sizes, total=total):  # t = log(1+u) = e^x
            t = math.exp(x)
            log_u = t + math.log(-math.expm1(-t))
            return math.exp(replace(prior, log_u=log_u).log_joint_eppf(sizes) + log_u - total) * t / -math.expm1(-t)

        edges = np.linspace(-32.0, math.log(25.0 / sigma), 60)
        parts = [quad(density, a, b, epsabs=1e-13, epsrel=1e-11)[0] for a, b in itertools.pairwise(edges)]
        assert sum(parts) == pytest.approx(1.0, abs=1e-10)


def test_nggp_conditional_weights_given_u():
    prior = NormalisedGeneralisedGamma(1.4, 0.3, log_u=0.9)
    t, log_kappa = math.log1p(math.exp(0.9)), prior.log_kappa(np.array([1, 2, 6, 7]))
    assert log_kappa[1] - log_kappa[0] + t == pytest.approx(math.log(1 - 0.3))
    assert log_kappa[3] - log_kappa[2] + t == pytest.approx(math.log(6 - 0.3))
    assert log_kappa[0] + t == pytest.approx(math.log(1.4 * 0.3) + 0.3 * t)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("n", [1000, 100_000])
def test_journal_55_is_close_for_many_items(alpha, n):
    prior = DirichletProcess(alpha)
    exact, approx = prior.expected_n_clusters(n), prior.expected_n_clusters_approx(n)
    assert exact == pytest.approx(sum(alpha / (alpha + i) for i in range(n)), rel=1e-10)
    assert 0.45 < exact - approx < 1.0
    if alpha >= 5:
        assert approx == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: DirichletProcess(0.0), "concentration"),
        (lambda: DirichletProcess(math.nan), "concentration"),
        (lambda: DirichletProcess(1.0, -1.0), "shape"),
        (lambda: DirichletProcess(1.0, 1.0, math.inf), "rate"),
        (lambda: DirichletProcess("one"), "concentration"),
        (lambda: PitmanYor(1.0, 1.0), "discount"),
        (lambda: PitmanYor(1.0, -0.1), "discount"),
        (lambda: NormalisedGeneralisedGamma(1.0, 0.0), "discount"),
        (lambda: NormalisedGeneralisedGamma(1.0, 0.5, math.inf), "log_u"),
        (lambda: MixtureOfFiniteMixtures(1.0, 0.0), "n_extra"),
        (lambda: MixtureOfFiniteMixtures(1.0, 1.0, "uniform"), "pmf"),
        (lambda: FiniteDirichlet(0), "n_components"),
        (lambda: FiniteDirichlet(2.5), "n_components"),
        (lambda: FiniteDirichlet(2, -1.0), "concentration"),
    ],
)
def test_wrong_parameters_are_named(make, word):
    with pytest.raises(ParameterError, match=word):
        make()


@every_prior
def test_wrong_sizes_are_named(name):
    prior, rng = PRIORS[name], np.random.default_rng(0)
    for bad in ([1.5], [-1, 2], [[1, 2]]):
        with pytest.raises(DataError, match="block sizes"):
            prior.log_eppf(bad)
    with pytest.raises(DataError, match="empty blocks"):
        prior.log_weights([2, 0, 1])
    with pytest.raises(DataError, match="at least one item"):
        prior.update(np.array([], int), rng)
    assert prior.log_eppf([2, 0, 1]) == prior.log_eppf([2, 1])
