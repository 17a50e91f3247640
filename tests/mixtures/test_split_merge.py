"""Split-merge moves: their enumerated transition matrix, invariance for every prior, and bugs to be rejected."""

from functools import lru_cache
from itertools import permutations, product

import numpy as np
import pytest
from test_collapsed import FAMILIES, PRIORS, canonical, invariance, log_posterior, partitions, rows_of, statistics

from weald._random import sweep_key
from weald.assign import Rows
from weald.families import Bernoulli, DiagonalGaussian
from weald.inference.run import run
from weald.mixtures import split_merge as module
from weald.mixtures.collapsed import Board, CollapsedKernel
from weald.mixtures.laws import law_of, other_laws
from weald.mixtures.split_merge import MERGES, SPLITS, allocate, split_merge
from weald.partitions import DirichletProcess
from weald.testing.invariance import BUDGET, chi_square

N = 5


def moves_of(laws, n_moves=3):
    def step(state, rng):
        z, prior = state
        board = Board(laws, z.copy(), int(z.max()) + 1, prior)
        board.play(split_merge, n_moves, sweep_key(rng))
        return board.z

    return step


@pytest.mark.parametrize("family", ["full", "multinomial"])
@pytest.mark.parametrize("prior", PRIORS)
def test_moves_leave_the_posterior_invariant(family, prior, rng):
    rows = rows_of(family, rng)
    assert invariance(rows, PRIORS[prior], moves_of(law_of(rows)), 3_000, rng) > BUDGET


@pytest.mark.parametrize("family", ["diag", "spherical", "bernoulli", "poisson"])
def test_moves_leave_the_posterior_of_every_family_invariant(family, rng):
    rows = rows_of(family, rng)
    n = 600 if family == "poisson" else 3_000
    assert invariance(rows, PRIORS["dp"], moves_of(law_of(rows)), n, rng) > BUDGET


def log_q(rows, sigma, members, sides):
    """Log probability of the allocation, from the family alone."""
    total, T = 0.0, rows.family.sufficient(rows.X)
    for t in range(2, len(members)):
        log_w = []
        for side in (0, 1):
            there = [members[s] for s in range(t) if sides[s] == side]
            S = T[there].sum(axis=0, keepdims=True)
            log_w.append(np.log(len(there) - sigma) + rows.family.log_predictive(S, T[[members[t]]])[0, 0])
        total += log_w[sides[t]] - np.logaddexp(*log_w)
    return total


def log_r(rows, prior, members, sides):
    """What the code makes of a given allocation, but for the ratio of the V."""
    z = np.zeros(rows.n_rows, np.int32)
    board = Board(law_of(rows), z, 1, prior)
    members, ends, given = np.array(members), np.arange(1, len(members) + 1), (5, np.uint64(0), 0)
    return allocate(board.law, members, ends, np.array(sides), *given, board.log_size, board.log_p)


def transition_matrix(rows, prior, *, forget=False):
    """(m, m) over all partitions, summed over anchors, orders and allocations; `forget`: mergers without q."""
    Z, n = partitions(rows.n_rows), rows.n_rows
    index = {tuple(z): i for i, z in enumerate(Z)}
    log_ratio = [0.0, *(prior.log_v(n, k + 1) - prior.log_v(n, k) for k in range(1, n))]
    q = lru_cache(None)(lambda members, sides: log_q(rows, prior.sigma, members, sides))
    r = lru_cache(None)(lambda members, sides: log_r(rows, prior, members, sides))
    P = np.zeros((len(Z), len(Z)))
    for s, z in enumerate(Z):
        for i, j in permutations(range(n), 2):
            others = [m for m in range(n) if z[m] in (z[i], z[j]) and m not in (i, j)]
            orders = list(permutations(others))
            split = z[i] == z[j]
            k = int(z.max()) + 1 - (not split)
            for order in orders:
                members, p = (i, j, *order), 1.0 / (n * (n - 1) * len(orders))
                now = (0, 1, *(int(z[m] == z[j]) for m in order))
                ways = [(0, 1, *w) for w in product((0, 1), repeat=len(order))] if split else [now]
                for sides in ways:
                    log_a = log_ratio[k] + r(members, sides)
                    to = z.copy()
                    if split:
                        to[[m for m, side in zip(members, sides, strict=True) if side]] = n
                        p_move = p * np.exp(q(members, sides) + min(0.0, log_a))
                    else:
                        to[list(members)] = z[i]
                        p_move = p * np.exp(min(0.0, -log_a - (q(members, sides) if forget else 0.0)))
                    P[s, index[canonical(to)]] += p_move
        P[s, s] += 1.0 - P[s].sum()
    return Z, P


def imbalance(log_p, P):
    p = np.exp(log_p - np.logaddexp.reduce(log_p))
    flow = p[:, None] * P
    return np.abs(flow - flow.T).max()


CASES = [("full", "pitman-yor"), ("multinomial", "mfm"), ("spherical", "dp"), ("bernoulli", "dirichlet")]


@pytest.mark.parametrize(("family", "prior"), CASES)
def test_moves_are_in_detailed_balance(family, prior, rng):
    rows = rows_of(family, rng, N)
    Z, P = transition_matrix(rows, PRIORS[prior])
    assert P.min() > -1e-14
    assert imbalance(log_posterior(rows, PRIORS[prior], Z), P) < 1e-12


def test_balance_rejects_a_forgotten_reverse_factor(rng):
    rows = rows_of("full", rng, N)
    Z, P = transition_matrix(rows, PRIORS["dp"], forget=True)
    assert imbalance(log_posterior(rows, PRIORS["dp"], Z), P) > 1e-3


def test_the_compiled_moves_follow_the_matrix(rng):
    rows, prior = rows_of("full", rng, N), PRIORS["dp"]
    Z, P = transition_matrix(rows, prior)
    index = {tuple(z): i for i, z in enumerate(Z)}
    step = moves_of(law_of(rows), 1)
    for start in ((0, 0, 0, 0, 0), (0, 0, 1, 2, 1), (0, 1, 2, 3, 4)):
        s = index[start]
        ends = [index[canonical(step((Z[s], prior), rng))] for _ in range(3_000)]
        counts = np.bincount(ends, minlength=len(Z))
        assert not counts[P[s] == 0].any()
        assert chi_square(counts[P[s] > 0], P[s][P[s] > 0]) > BUDGET


def forgetful(law, members, ends, sides, *args):
    """As if every allocation were certain."""
    log_ratio = allocate(law, members, ends, sides, *args)
    rows = Rows(law.T[:, : law.family.n_columns], law.family)
    return log_ratio + log_q(rows, 0.0, list(members), list(sides))


def test_invariance_rejects_forgotten_probabilities_of_the_allocation(rng, monkeypatch):
    """Run as plain Python, where a part can be replaced; few clusters, for allocations to be improbable."""
    X, prior = np.eye(6)[:, :1], DirichletProcess(0.5, shape=None)
    rows = Rows(X, Bernoulli.from_data(X))
    step = moves_of(other_laws(rows), 4)
    assert invariance(rows, prior, step, 500, rng) > BUDGET
    monkeypatch.setattr(module, "allocate", forgetful)
    assert invariance(rows, prior, step, 500, rng) < BUDGET


def test_allocation_probabilities_sum_to_one(rng):
    """exp(log q) by the code: the ratio of joints over r."""
    rows, prior = rows_of("full", rng, N), PRIORS["pitman-yor"]
    Z = [np.array([0, 1, *sides]) for sides in product((0, 1), repeat=N - 2)]
    merged = log_posterior(rows, prior, np.zeros((1, N), np.int32))[0]
    ratio = prior.log_v(N, 2) - prior.log_v(N, 1)
    found = [log_posterior(rows, prior, z[None])[0] - merged - ratio - log_r(rows, prior, range(N), z) for z in Z]
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(found, [log_q(rows, prior.sigma, range(N), z) for z in Z], atol=1e-11)


def test_columns_are_left_as_the_labels_say(rng):
    """After many accepted moves the law is that of the labels, and spare columns are empty."""
    X = rng.normal(size=(200, 2)) + 6.0 * rng.integers(0, 4, size=(200, 1))
    rows = Rows(X, DiagonalGaussian.from_data(X, 4))
    board = Board(law_of(rows), np.zeros(200, np.int32), 1, DirichletProcess(3.0))
    board.play(split_merge, 400, np.uint64(3))
    assert board.tally[SPLITS] > 3
    assert board.tally[SPLITS] - board.tally[MERGES] == board.k - 1
    fresh = Board(law_of(rows), board.z, board.k, DirichletProcess(3.0))
    np.testing.assert_array_equal(board.law.size[: board.k], np.bincount(board.z))
    for name in ("mean", "inverse", "log_root"):
        left, right = getattr(board.law, name), getattr(fresh.law, name)
        columns = min(left.shape[-1], right.shape[-1])
        np.testing.assert_allclose(left[..., :columns], right[..., :columns], rtol=1e-10, atol=1e-10)


def test_moves_find_the_blobs_where_gibbs_alone_sticks():
    """Thirty blobs in twenty columns from one cluster; the truth is the mode."""
    rng = np.random.default_rng(3)
    centres, truth = 2.0 * rng.normal(size=(30, 20)), rng.integers(0, 30, 900)
    X = centres[truth] + rng.normal(size=(900, 20))
    rows = Rows(X, DiagonalGaussian.from_data(X, 30))
    best = CollapsedKernel(rows, DirichletProcess(shape=None), first=lambda rng: truth)
    log_best = best.log_joint(best.init(rng))
    reached = {}
    for n_moves in (0, 30):
        kernel = CollapsedKernel(rows, DirichletProcess(shape=None), n_moves=n_moves)
        reached[n_moves] = run(kernel, key=np.uint64(1), sweeps=60)[0].stats["log_joint"][-1]
    assert reached[0] < log_best - 1_000
    assert reached[30] > log_best - 30


def test_two_rows(rng):
    X = np.array([[0.0], [1.0]])
    rows = Rows(X, FAMILIES["diag"][0].from_data(X))
    Z, P = transition_matrix(rows, PRIORS["dp"])
    assert imbalance(log_posterior(rows, PRIORS["dp"], Z), P) < 1e-14
    assert statistics(rows, Z[0]).shape == (1, 3)
    assert invariance(rows, PRIORS["dp"], moves_of(law_of(rows), 1), 1_000, rng) > BUDGET
