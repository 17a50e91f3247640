"""Prediction from draws of a partition, against sums over all partitions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from test_collapsed import PRIORS, log_posterior, partitions, rows_of

from weald.assign import Rows
from weald.engine import Threads
from weald.exceptions import ParameterError
from weald.mixtures.particles import Cloud, learnt
from weald.mixtures.partition_draws import draws_of
from weald.testing.invariance import BUDGET, chi_square

ONE = Threads(1)


def all_partitions(rows, prior):
    """Every partition of the rows as a draw, weighted by its posterior probability."""
    Z = partitions(rows.n_rows)
    log_p = log_posterior(rows, prior, Z)
    Z, log_p = Z[np.isfinite(log_p)], log_p[np.isfinite(log_p)]  # a finite prior has no room for all
    draws = draws_of(rows, Z, [prior] * len(Z), Z[len(Z) // 2])
    return replace(draws, log_share=log_p - logsumexp(log_p)), Z


def log_evidence(rows, prior):
    """Log p(X) by enumeration, base measure included."""
    return logsumexp(log_posterior(rows, prior, partitions(rows.n_rows))) + rows.log_base()


def head(rows, n):
    return rows.taken(np.arange(n))


@pytest.mark.parametrize("name", ["full", "multinomial", "missing", "poisson"])
@pytest.mark.parametrize("prior", PRIORS)
def test_predictive_density_is_a_ratio_of_evidences(name, prior):
    rows = rows_of(name, np.random.default_rng(3), n=6)
    draws, _ = all_partitions(head(rows, 5), PRIORS[prior])
    exact = log_evidence(rows, PRIORS[prior]) - log_evidence(head(rows, 5), PRIORS[prior])
    np.testing.assert_allclose(draws.log_density(rows.X[5:], ONE), exact, rtol=1e-9)


def test_the_chain_rule_rejects_a_wrong_weight_of_new_clusters():
    rows, prior = rows_of("full", np.random.default_rng(3), n=6), PRIORS["dp"]
    draws, _ = all_partitions(head(rows, 5), prior)
    exact = log_evidence(rows, prior) - log_evidence(head(rows, 5), prior)
    wrong = replace(draws, priors=(replace(prior, concentration=2 * prior.concentration),) * draws.n_draws)
    assert abs(wrong.log_density(rows.X[5:], ONE)[0] - exact) > 1e-3


def test_groups_and_novelty_by_enumeration():
    rows, prior = rows_of("full", np.random.default_rng(5), n=6), PRIORS["pitman-yor"]
    few = head(rows, 5)
    draws, Z5 = all_partitions(few, prior)
    groups = Z5[len(Z5) // 2]
    Z6 = partitions(6)
    p = np.exp(log_posterior(rows, prior, Z6) - logsumexp(log_posterior(rows, prior, Z6)))
    alone = np.array([(z == z[5]).sum() == 1 for z in Z6])
    assert draws.novelty(rows.X[5:], ONE)[0] == pytest.approx(p[alone].sum(), rel=1e-9)
    share = np.zeros(groups.max() + 1)
    for z, weight in zip(Z6[~alone], p[~alone], strict=True):
        mates = groups[z[:5] == z[5]]
        share += weight * np.bincount(mates, minlength=share.size) / mates.size
    np.testing.assert_allclose(draws.proba(rows.X[5:], ONE)[0], share / share.sum(), rtol=1e-9)


@pytest.mark.parametrize("name", ["full", "multinomial"])
def test_one_more_row_weighs_draws_by_what_they_predicted(name):
    rows, prior = rows_of(name, np.random.default_rng(7), n=5), PRIORS["dp"]
    draws, Z = all_partitions(head(rows, 4), prior)
    cloud = Cloud(draws, np.empty((len(Z), 0), np.int64), len(draws.S))
    joins, opens = draws.log_w
    known, new = draws.log_scores(rows.family.sufficient(rows.X[4:]))
    predicted = [logsumexp(np.append((known[0] + joins)[draws.owner == t], new[0] + opens[t])) for t in range(len(Z))]
    cloud._draw_again = lambda rng: None
    cloud.take(rows.X[4:], np.random.default_rng(0))
    weighed = draws.log_share + predicted
    np.testing.assert_allclose(cloud.draws.log_share, weighed - logsumexp(weighed), rtol=1e-9)
    np.testing.assert_allclose(cloud.draws.S[:, -1].sum(), draws.S[:, -1].sum() + len(Z))


def test_particles_have_the_posterior_of_all_rows():
    rows, prior = rows_of("full", np.random.default_rng(11), n=5), PRIORS["dp"]
    Z3, Z5, rng = partitions(3), partitions(5), np.random.default_rng(1)
    log_p = log_posterior(head(rows, 3), prior, Z3)
    m = 20_000
    at = rng.choice(len(Z3), m, p=np.exp(log_p - logsumexp(log_p)))
    draws = draws_of(head(rows, 3), Z3[at[:1]], [prior], np.zeros(3, np.int64))  # shapes only; filled below
    S = [draws_of(head(rows, 3), z[None], [prior], np.zeros(3, np.int64)) for z in Z3]
    draws = replace(
        draws,
        S=np.concatenate([S[i].S for i in at]),
        owner=np.concatenate([np.full(len(S[i].S), t) for t, i in enumerate(at)]),
        priors=(prior,) * m,
        group=np.ones((sum(len(S[i].S) for i in at), 1)),
        log_share=np.full(m, -np.log(m)),
    )
    cloud = Cloud(draws, np.empty((m, 0), np.int64), len(draws.S))
    fast_weights(cloud, prior)
    cloud.take(rows.X[3:4], rng)
    fast_weights(cloud, prior)
    cloud.take(rows.X[4:5], rng)
    cloud._draw_again(rng)
    sizes = [tuple(sorted(np.rint(cloud.draws.S[cloud.draws.owner == t, -1]).astype(int))) for t in range(3_000)]
    exact = {}
    log_q = log_posterior(rows, prior, Z5)
    for z, p in zip(Z5, np.exp(log_q - logsumexp(log_q)), strict=True):
        key = tuple(sorted(np.bincount(z)))
        exact[key] = exact.get(key, 0.0) + p
    chosen = rng.choice(len(sizes), 1_000, replace=False)
    counts = np.array([sum(sizes[i] == key for i in chosen) for key in exact])
    assert chi_square(counts, np.array(list(exact.values()))) > BUDGET


def fast_weights(cloud, prior):
    """The weights of a Dirichlet process for all particles at once, where `log_w` would ask the prior 20,000 times."""
    draws = cloud.draws
    n = draws.S[draws.owner == 0, -1].sum()
    total = np.log(n + prior.concentration)
    draws.__dict__["log_w"] = (
        np.log(draws.S[:, -1]) - total,
        np.full(draws.n_draws, np.log(prior.concentration) - total),
    )


def test_rows_unlike_any_before_found_a_group():
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(-5, 1, (40, 2)), rng.normal(5, 1, (40, 2))])
    rows = Rows(X, rows_of("full", rng).family.from_data(X, 2, kappa=0.3))
    Z = np.repeat(np.repeat([0, 1], 40)[None], 20, axis=0)
    draws = draws_of(rows, Z, [PRIORS["dp"]] * 20, Z[0])
    new = rng.normal([20.0, -20.0], 1, (15, 2))
    after, share = learnt(draws, np.concatenate([new, X[:5]]), rng)
    labels = after.proba(np.concatenate([new, X]), ONE).argmax(axis=1)
    assert after.n_groups == 3
    assert 0 < share <= 1
    assert (labels[:15] == 2).all()
    assert (labels[15:] == Z[0]).all()
    np.testing.assert_allclose(after.group.sum(axis=1), 1.0)


def test_simulated_rows_follow_the_predictive_density():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(-4, 1, (60, 1)), rng.normal(3, 2, (40, 1))])
    rows = Rows(X, rows_of("spherical", rng).family.from_data(X, 2, kappa=0.1))
    Z = np.repeat([0, 1], [60, 40])[None]
    draws = draws_of(rows, Z, [PRIORS["dp"]], Z[0])
    simulated, z = draws.sample(20_000, np.random.default_rng(0))
    edges = np.linspace(-9, 9, 25)
    grid = np.linspace(-9, 9, 24 * 40 + 1)
    density = np.exp(draws.log_density(grid[:, None], ONE))
    mass = np.add.reduceat((density[1:] + density[:-1]) / 2 * np.diff(grid), np.arange(0, 960, 40))
    counts = np.histogram(simulated, edges)[0]
    assert chi_square(np.append(counts, 20_000 - counts.sum()), np.append(mass, 1 - mass.sum())) > BUDGET
    assert set(np.unique(z)) == {-1, 0, 1}


def test_shapes_must_fit():
    rows = rows_of("full", np.random.default_rng(0))
    draws = draws_of(rows, np.zeros((2, 6), int), [PRIORS["dp"]] * 2, np.zeros(6, int))
    with pytest.raises(ParameterError, match="do not fit"):
        replace(draws, owner=draws.owner[:1])
