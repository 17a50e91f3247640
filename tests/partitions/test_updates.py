"""Hyperparameter moves leave their posterior invariant: joint tests from independent exact starts.

Hyperparameters from their prior, a partition from the prior given them, then a few moves given its block sizes: the
pair (hyperparameters, partition) must keep its joint law. Checked are the marginals (Kolmogorov-Smirnov) and a cross
moment, E[h(hyper) (k - E[K | hyper])] = 0, which a move that ignores the data would break.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from weald.partitions import (
    DirichletProcess,
    FiniteDirichlet,
    MixtureOfFiniteMixtures,
    NormalisedGeneralisedGamma,
    PitmanYor,
)

SHAPE, RATE = 2.0, 1.5
GAMMA = stats.gamma(SHAPE, scale=1 / RATE)
HYPER = {"shape": SHAPE, "rate": RATE}
CASES = {  # name: prior, fields and their laws, items, replicates
    "dirichlet": (FiniteDirichlet(5, 1.0, **HYPER), {"concentration": GAMMA}, 30, 1500),
    "dp": (DirichletProcess(1.0, **HYPER), {"concentration": GAMMA}, 30, 4000),
    "pitman-yor": (PitmanYor(1.0, 0.5, **HYPER), {"concentration": GAMMA, "discount": stats.uniform()}, 25, 1500),
    "nggp": (
        NormalisedGeneralisedGamma(1.0, 0.5, **HYPER),
        {"concentration": GAMMA, "discount": stats.uniform()},
        10,
        800,
    ),
    "mfm": (MixtureOfFiniteMixtures(1.0, 4.0, **HYPER), {"concentration": GAMMA}, 20, 1000),
}
P_VALUE = 1e-5
Z_VALUE = 4.5


def update(prior, sizes, rng):
    return prior.update(sizes, rng)


def ignores_the_data(prior, sizes, rng):
    return replace(prior, concentration=float(GAMMA.rvs(random_state=rng)))


def counts_items_twice(prior, sizes, rng):
    return prior.update(2 * sizes, rng)


def forgets_the_jacobian(prior, sizes, rng):
    """A density of the concentration taken for one of its logarithm (or k - 1 blocks taken for k)."""
    return replace(replace(prior, shape=prior.shape - 1.0).update(sizes, rng), shape=prior.shape)


def swapped_mixture(prior, sizes, rng):
    """Escobar and West's move with the odds of its two components exchanged."""
    n, k = int(sizes.sum()), sizes.size
    rate = prior.rate - math.log(rng.beta(prior.concentration + 1.0, n))
    odds = (n * rate) / (prior.shape + k - 1.0)
    shape = prior.shape + k - (rng.random() * (1.0 + odds) >= odds)
    return replace(prior, concentration=rng.gamma(shape) / rate)


def joint_test(name, move, seed=1, n_moves=2):
    """Smallest p-value of the marginals, and |z| of the cross moment."""
    prior, laws, n, n_replicates = CASES[name]
    n_replicates = n_replicates if move is update else n_replicates // 2
    rng, values, cross = np.random.default_rng(seed), [], []
    for _ in range(n_replicates):
        start = replace(prior, **{field: float(law.rvs(random_state=rng)) for field, law in laws.items()})
        sizes = np.bincount(start.draw(n, rng))
        moved = start
        for _ in range(n_moves):
            moved = move(moved, sizes, rng)
        values.append([getattr(moved, field) for field in laws])
        cross.append(math.log(moved.concentration) * (sizes.size - moved.expected_n_clusters(n)))
    p = [stats.kstest(column, law.cdf).pvalue for column, law in zip(np.array(values).T, laws.values(), strict=True)]
    return min(p), abs(np.mean(cross)) / (np.std(cross) / math.sqrt(n_replicates))


@pytest.mark.parametrize("name", CASES)
def test_updates_leave_the_joint_law_invariant(name):
    p, z = joint_test(name, update)
    assert p > P_VALUE
    assert z < Z_VALUE


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("dp", swapped_mixture),
        ("dp", counts_items_twice),
        ("dp", ignores_the_data),
        ("dirichlet", forgets_the_jacobian),
        ("pitman-yor", counts_items_twice),
        ("pitman-yor", forgets_the_jacobian),
        ("nggp", counts_items_twice),
        ("nggp", forgets_the_jacobian),
        ("mfm", forgets_the_jacobian),
    ],
)
def test_wrong_updates_are_rejected(name, bug):
    p, z = joint_test(name, bug)
    assert p < 1e-8 or z > 7


def log_u_p_value(sizes, given):
    """Draws of log u by `update` given `sizes` against the exact law of log u given `given`."""
    prior, rng = NormalisedGeneralisedGamma(0.7, 0.35, shape=None, learn_discount=False), np.random.default_rng(2)
    drawn = [prior.update(np.array(sizes), rng).log_u for _ in range(2000)]
    grid = np.linspace(-30.0, 60.0, 4_001)
    density = np.exp([replace(prior, log_u=float(v)).log_joint_eppf(given) + v for v in grid])
    cdf = np.cumsum(density) / density.sum()
    return stats.kstest(drawn, lambda v: np.interp(v, grid, cdf)).pvalue


@pytest.mark.parametrize("sizes", [[1], [3, 1], [40, 10, 1]])
def test_nggp_draws_u_from_its_exact_conditional(sizes):
    assert log_u_p_value(sizes, sizes) > P_VALUE
    assert log_u_p_value(sizes, [*sizes, 1]) < 1e-8


def test_nggp_survives_extreme_hyperparameters():
    rng = np.random.default_rng(0)
    for concentration in (1e-8, 1.0, 1e6):
        for discount in (1e-6, 0.5, 0.999):
            prior = NormalisedGeneralisedGamma(concentration, discount)
            for sizes in ([1], [500, 300, 1, 1]):
                moved = prior.update(np.array(sizes), rng)
                assert np.isfinite([moved.log_u, moved.concentration, moved.log_eppf(sizes)]).all()


def test_fixed_hyperparameters_stay():
    rng, sizes = np.random.default_rng(0), np.array([4, 2, 1])
    fixed = [
        FiniteDirichlet(4, 0.0),
        DirichletProcess(1.5, shape=None),
        PitmanYor(1.5, 0.3, shape=None, learn_discount=False),
        MixtureOfFiniteMixtures(1.5),
    ]
    assert [prior.update(sizes, rng) for prior in fixed] == fixed
    moved = PitmanYor(1.5, 0.0, shape=None).update(sizes, rng)
    assert moved.concentration == 1.5
    assert 0.0 < moved.discount < 1.0
