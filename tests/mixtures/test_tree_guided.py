"""Tree-guided moves: enumerated transition matrices, invariance, the published move, bugs to be rejected."""

from collections import Counter
from functools import lru_cache
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from published import Published
from scipy.special import expit, gammaln, log_expit
from test_collapsed import (
    FAMILIES,
    HYPER,
    PRIORS,
    canonical,
    check_state,
    invariance,
    joint_pvalues,
    log_posterior,
    partitions,
    rows_of,
    statistics,
    whole_step,
)
from test_split_merge import imbalance

from weald._random import sweep_key
from weald.assign import Rows
from weald.exceptions import ParameterError
from weald.families import Bernoulli, DiagonalGaussian
from weald.inference.run import run
from weald.mixtures import split_merge, tree_guided, tree_moves
from weald.mixtures.collapsed import Board, CollapsedKernel
from weald.mixtures.laws import law_of, other_laws
from weald.mixtures.tree_guided import GRAINS, PERIOD, TreeGuidedKernel, branches, tree_split_merge
from weald.mixtures.tree_moves import Guide, cut_of, log_merge, log_odds, log_visit, regroup, revisit, scatter
from weald.partitions import DirichletProcess, FiniteDirichlet, NormalisedGeneralisedGamma
from weald.testing.invariance import BUDGET, chi_square
from weald.trees.bisect import bisect

N = 5
STARTS = ((0, 0, 0, 0, 0), (0, 1, 0, 1, 0), (0, 0, 1, 1, 1), (0, 0, 1, 2, 1), (0, 1, 2, 3, 4))


def guide_of(rows, prior, rng):
    return Guide(np.asarray(rows.family.sufficient(rows.X), float), rows.family, prior, tree_of(rows, rng))


def tree_of(rows, rng):
    return bisect(rows.family.coordinates(rows.X), rng)


def law_given(rows, prior, Z):
    """As `log_posterior`, given the auxiliary variable where there is one: what single moves leave invariant."""
    log_p = log_posterior(rows, prior, Z)
    if isinstance(prior, NormalisedGeneralisedGamma):
        log_p += [prior.log_joint_eppf(np.bincount(z)) - prior.log_eppf(np.bincount(z)) for z in Z]
    return log_p


def branch_moves(laws, rows, n_moves=3):
    """State, rng -> labels: split-merge moves, a tree each time."""

    def step(state, rng):
        z, prior = state
        board = Board(laws, z.copy(), int(z.max()) + 1, prior, tally=np.zeros(6, np.int64))
        board.play(tree_split_merge, n_moves, tree_of(rows, rng), sweep_key(rng))
        return board.z

    return step


def single(move, rows):
    return lambda state, rng: move(guide_of(rows, state[1], rng), state[0], rng)


@pytest.mark.parametrize("family", ["full", "multinomial"])
@pytest.mark.parametrize("prior", PRIORS)
def test_a_step_leaves_the_posterior_invariant(family, prior, rng):
    rows = rows_of(family, rng)
    kernel = TreeGuidedKernel(rows, PRIORS[prior], n_moves=2, local=0.5)
    assert invariance(rows, PRIORS[prior], whole_step(kernel), 800, rng) > BUDGET


@pytest.mark.parametrize("family", ["full", "multinomial"])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("move", [regroup, revisit])
def test_published_moves_made_exact_leave_the_posterior_invariant(move, family, prior, rng):
    rows = rows_of(family, rng)
    assert invariance(rows, PRIORS[prior], single(move, rows), 300, rng) > BUDGET


@pytest.mark.parametrize("family", ["full", "diag", "sparse", "categorical", "poisson"])
def test_split_merge_leaves_the_posterior_of_every_family_invariant(family, rng):
    rows = rows_of(family, rng)
    n = 400 if family == "poisson" else 2_000
    assert invariance(rows, PRIORS["dp"], branch_moves(law_of(rows), rows), n, rng) > BUDGET


def test_a_step_with_all_moves_leaves_the_posterior_invariant(rng):
    rows = rows_of("spherical", rng)
    kernel = TreeGuidedKernel(rows, PRIORS["nggp"], n_moves=1, local=0.3, n_regroups=1, n_revisits=1)
    assert invariance(rows, PRIORS["nggp"], whole_step(kernel), 300, rng) > BUDGET


def anchor_law(tree):
    """{(i, j): probability}."""
    law, n = Counter(), tree.order.size
    for place, i in enumerate(tree.order):
        path = tree.path(place)
        for v, below in pairwise(path):
            others = tree.rows(sum(tree.children(v)) - below)
            for j in others:
                law[int(i), int(j)] += 1.0 / (n * (len(path) - 1) * len(others))
    return law


def pieces_of(tree, c, grain, i, j, v=0):
    rows = tuple(int(r) for r in tree.rows(v) if r in c)
    if len(rows) > grain or {i, j} <= set(rows):
        return [piece for child in tree.children(v) for piece in pieces_of(tree, c, grain, i, j, child)]
    return [rows] if rows else []


def split_merge_matrix(rows, prior, tree, *, forget=False):
    """(m, m) over all partitions, from the specification alone; `forget`: mergers without q."""
    Z, n, T = partitions(rows.n_rows), rows.n_rows, rows.family.sufficient(rows.X)
    index, P = {tuple(z): s for s, z in enumerate(Z)}, np.zeros((len(Z), len(Z)))

    @lru_cache(None)
    def log_phi(c):
        return rows.family.log_marginal(T[sorted(c)].sum(axis=0)[None])[0] + gammaln(len(c) - prior.sigma)

    def log_q(pieces, sides):
        sets, total = [frozenset(pieces[0]), frozenset(pieces[1])], 0.0
        for piece, side in zip(pieces[2:], sides, strict=True):
            gain = [log_phi(s.union(piece)) - log_phi(s) for s in sets]
            total += log_expit(gain[side] - gain[1 - side])
            sets[side] = sets[side].union(piece)
        return total, *sets

    def ways(z, i, j, pieces):
        """(labels, probability): of every allocation, or of the one merger."""
        if z[i] == z[j]:
            for sides in product((0, 1), repeat=len(pieces) - 2):
                total, A, B = log_q(pieces, sides)
                yield np.where([r in B for r in range(n)], n, z), total, log_r(z, A, B) - total
        elif all(len({z[r] for r in piece}) == 1 for piece in pieces):
            total, A, B = log_q(pieces, [int(z[piece[0]] == z[j]) for piece in pieces[2:]])
            yield np.where(z == z[j], z[i], z), 0.0, -log_r(z, A, B) + (0.0 if forget else total)

    def log_r(z, A, B):
        k = len(set(z)) - (z[min(A)] != z[min(B)])
        rise = prior.log_v(n, k + 1) - prior.log_v(n, k) - gammaln(1.0 - prior.sigma)
        return rise + log_phi(A) + log_phi(B) - log_phi(A | B)

    grains = Counter(min(g, n) for g in GRAINS)
    for (s, z), ((i, j), p), (grain, times) in product(enumerate(Z), anchor_law(tree).items(), grains.items()):
        pieces = pieces_of(tree, set(np.flatnonzero((z == z[i]) | (z == z[j]))), grain, i, j)
        seeds = [next(q for q in pieces if r in q) for r in (i, j)]
        orders = list(permutations([q for q in pieces if q not in seeds]))
        for order in orders:
            for to, log_p, log_a in ways(z, i, j, [*seeds, *order]):
                P[s, index[canonical(to)]] += p * times / 8 / len(orders) * np.exp(log_p + min(0.0, log_a))
    return Z, P + np.diag(1.0 - P.sum(axis=1))


def follows(step, Z, P, prior, rng, n=2_500):
    """Smallest p-value of moves from some partitions against the rows of a matrix."""
    index, pvalues = {tuple(z): s for s, z in enumerate(Z)}, []
    for start in STARTS:
        p = P[index[start]].clip(0.0)
        ends = [index[canonical(step((np.array(start, np.int32), prior), rng))] for _ in range(n)]
        counts = np.bincount(ends, minlength=len(Z))
        pvalues.append(chi_square(counts[p > 1e-12], p[p > 1e-12]) if not counts[p <= 1e-12].any() else 0.0)
    return min(pvalues)


@pytest.mark.parametrize(("family", "prior"), [("full", "pitman-yor"), ("multinomial", "mfm"), ("diag", "dp")])
def test_split_merge_is_in_detailed_balance(family, prior, rng):
    rows = rows_of(family, rng, N)
    Z, P = split_merge_matrix(rows, PRIORS[prior], tree_of(rows, rng))
    assert P.min() > -1e-14
    assert imbalance(log_posterior(rows, PRIORS[prior], Z), P) < 1e-14


def test_balance_rejects_a_forgotten_reverse_factor(rng):
    rows = rows_of("full", rng, N)
    Z, P = split_merge_matrix(rows, PRIORS["dp"], tree_of(rows, rng), forget=True)
    assert imbalance(log_posterior(rows, PRIORS["dp"], Z), P) > 1e-3


def at_tree(laws, tree):
    def step(state, rng):
        z, prior = state
        board = Board(laws, z.copy(), int(z.max()) + 1, prior, tally=np.zeros(6, np.int64))
        board.play(tree_split_merge, 1, tree, sweep_key(rng))
        return board.z

    return step


@pytest.mark.parametrize(("family", "prior"), [("full", "pitman-yor"), ("multinomial", "mfm")])
def test_the_compiled_moves_follow_the_matrix(family, prior, rng):
    rows = rows_of(family, rng, N)
    tree = tree_of(rows, rng)
    Z, P = split_merge_matrix(rows, PRIORS[prior], tree)
    assert follows(at_tree(law_of(rows), tree), Z, P, PRIORS[prior], rng) > BUDGET


def test_the_matrix_rejects_clusters_read_from_the_first_rows_of_the_pieces(rng, monkeypatch):
    """Run as plain Python. A piece with rows of both clusters may begin with one that is not of its anchor's."""
    rows = rows_of("full", rng, N)
    tree, right = tree_of(rows, rng), tree_guided.settle

    def wrong(law, z, k, a, b, members, ends, *args):
        return right(law, z, k, z[members[0]], z[members[ends[0]]], members, ends, *args)

    Z, P = split_merge_matrix(rows, PRIORS["dp"], tree)
    assert follows(at_tree(other_laws(rows), tree), Z, P, PRIORS["dp"], rng, 300) > BUDGET
    monkeypatch.setattr(tree_guided, "settle", wrong)
    assert follows(at_tree(other_laws(rows), tree), Z, P, PRIORS["dp"], rng, 300) < BUDGET


def test_invariance_rejects_mergers_without_the_probabilities_of_the_split(rng, monkeypatch):
    """Run as plain Python, where a part can be replaced; many clusters, for mergers to be improbable."""
    X, prior = np.eye(6)[:, :1], DirichletProcess(3.0, shape=None)
    rows, right = Rows(X, Bernoulli.from_data(X)), split_merge.allocate
    step, soft_plus, odds = branch_moves(other_laws(rows), rows, 4), split_merge.soft_plus, []

    def overheard(x):
        odds.append(x)
        return soft_plus(x)

    def forgetful(law, members, ends, sides, *args):
        merging = sides[0] >= 0
        odds.clear()
        log_r = right(law, members, ends, sides, *args)
        return log_r - merging * sum(soft_plus(x if b else -x) for x, b in zip(odds, sides[2:], strict=True))

    assert invariance(rows, prior, step, 500, rng) > BUDGET
    monkeypatch.setattr(split_merge, "soft_plus", overheard)
    monkeypatch.setattr(split_merge, "allocate", forgetful)
    assert invariance(rows, prior, step, 500, rng) < BUDGET


def test_pieces_are_branches(rng):
    """Against the specification, in random order but for the anchors' pieces."""
    X = rng.normal(size=(60, 2))
    tree, z = bisect(X, rng), rng.integers(0, 3, 60).astype(np.int32)
    firsts = set()
    for move in range(200):
        left, right = rng.choice(60, 2, replace=False)
        grain = int(rng.choice([2, 4, 16, 60]))
        i, j = (int(tree.order[place]) for place in (left, right))
        members, ends = branches(tree, z, left, right, grain, np.uint64(5), move)
        found = [tuple(members[a:b].tolist()) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        wanted = pieces_of(tree, set(np.flatnonzero((z == z[i]) | (z == z[j]))), grain, i, j)
        assert sorted(found) == sorted(wanted)
        assert i in found[0]
        assert j in found[1]
        firsts.update(wanted.index(piece) for piece in found[2:3])
    assert len(firsts) > 20


def regroup_matrix(guide, rows):
    """(m, m) over all partitions, and (m,): the sum of the probabilities of all proposals, which is 1."""
    Z, n = partitions(rows.n_rows), rows.n_rows
    index = {tuple(z): s for s, z in enumerate(Z)}
    P, total = np.zeros((len(Z), len(Z))), np.zeros(len(Z))
    for (s, z), c in product(enumerate(Z), range(N)):
        if c > z.max():
            continue
        S = statistics(rows, z)
        rest, branch = np.delete(S, c, axis=0), guide.branch(np.flatnonzero(z == c))
        alone = np.prod(expit(guide.log_d(S[c][None], rest))) / len(S) if len(rest) else 1.0
        tree = branch.tree
        total[s] += alone if tree.order.size == 1 else 0.0
        for blocks in partitions(tree.order.size)[1:]:
            to = z.copy()
            to[tree.order] = n + blocks
            t, A = index[canonical(to)], np.stack([guide.T[tree.order[blocks == b]].sum(axis=0) for b in set(blocks)])
            q_merge = np.exp(log_merge(guide.log_d(A, np.vstack([A, rest]))))
            total[t] += q_merge
            if (path := cut_of(tree, blocks)) is not None:
                found, log_q = scatter(guide, branch, path, blocks, np.random.default_rng())
                log_r, q_split = log_odds(guide, branch, rest, found, log_q), alone * np.exp(log_q)
                total[s] += q_split
                P[s, t], P[t, s] = q_split * np.exp(min(0.0, log_r)), q_merge * np.exp(min(0.0, -log_r))
    return Z, P + np.diag(1.0 - P.sum(axis=1)), total


REGROUPED = [("full", "dp"), ("multinomial", "nggp"), ("full", "pitman-yor"), ("spherical", "mfm")]


@pytest.mark.parametrize(("family", "prior"), REGROUPED)
def test_regrouping_is_in_detailed_balance_and_follows_its_matrix(family, prior, rng):
    rows, prior = rows_of(family, rng, N), PRIORS[prior]
    guide = guide_of(rows, prior, rng)
    Z, P, total = regroup_matrix(guide, rows)
    np.testing.assert_allclose(total, 1.0, rtol=1e-10)
    assert imbalance(law_given(rows, prior, Z), P) < 1e-13
    assert follows(lambda state, rng: regroup(guide, state[0], rng), Z, P, prior, rng, 250) > BUDGET


def test_balance_and_invariance_reject_one_way_of_picking_the_first_cluster(rng, monkeypatch):
    rows = rows_of("full", rng, 6)
    five = Rows(rows.X[:N], rows.family)
    right = tree_moves.log_merge
    monkeypatch.setattr(tree_moves, "log_merge", lambda log_d: right(log_d) - np.log(len(log_d)))
    Z, P, _ = regroup_matrix(guide_of(five, PRIORS["dp"], rng), five)
    assert imbalance(log_posterior(five, PRIORS["dp"], Z), P) > 1e-3
    assert invariance(rows, PRIORS["dp"], single(regroup, rows), 1_000, rng) < BUDGET


def revisit_matrix(guide, rows, log_p, *, forget=False):
    """(m, m) over all partitions, and (m,): the sum over rows of the probabilities of drawing them, which is 1."""
    Z = partitions(rows.n_rows)
    index = {tuple(z): s for s, z in enumerate(Z)}
    s_i = np.exp([[log_visit(guide, z, i) for i in range(len(z))] for z in Z])
    P = np.zeros((len(Z), len(Z)))
    for (s, z), i in product(enumerate(Z), range(rows.n_rows)):
        to = [index[canonical(np.where(np.arange(len(z)) == i, c, z))] for c in range(-1, len(z))]
        to = np.unique(to)
        p = np.exp(log_p[to] - np.logaddexp.reduce(log_p[to]))
        P[s, to] += s_i[s, i] * p * (1.0 if forget else np.minimum(1.0, s_i[to, i] / s_i[s, i]))
    return Z, P + np.diag(1.0 - P.sum(axis=1)), s_i.sum(axis=1)


@pytest.mark.parametrize(("family", "prior"), [("full", "dp"), ("multinomial", "nggp"), ("spherical", "mfm")])
def test_revisiting_is_in_detailed_balance_and_follows_its_matrix(family, prior, rng):
    rows, prior = rows_of(family, rng, N), PRIORS[prior]
    guide, log_p = guide_of(rows, prior, rng), law_given(rows, prior, partitions(N))
    Z, P, total = revisit_matrix(guide, rows, log_p)
    np.testing.assert_allclose(total, 1.0, rtol=1e-10)
    assert imbalance(log_p, P) < 1e-14
    assert imbalance(log_p, revisit_matrix(guide, rows, log_p, forget=True)[1]) > 1e-3
    assert follows(lambda state, rng: revisit(guide, state[0], rng), Z, P, prior, rng, 250) > BUDGET


def test_invariance_rejects_revisits_that_are_always_accepted(rng, monkeypatch):
    rows = rows_of("full", rng)

    def often(state, rng):
        z, guide = state[0], guide_of(rows, state[1], rng)
        for _ in range(6):
            z = revisit(guide, z, rng)
        return z

    assert invariance(rows, PRIORS["dp"], often, 300, rng) > BUDGET
    monkeypatch.setattr(tree_moves, "log_visit", lambda guide, z, i: 0.0)
    assert invariance(rows, PRIORS["dp"], often, 300, rng) < BUDGET


@pytest.mark.parametrize("family", ["full", "spherical"])
def test_the_published_move_samples_another_law(family, rng):
    """Stationary laws from enumerated matrices: theirs is off, those of the exact forms are the posterior."""
    rows, prior = rows_of(family, rng, N), PRIORS["dp"]
    T, Z = rows.family.sufficient(rows.X), partitions(N)

    def log_phi(c):
        return np.log(1.3) + gammaln(len(c)) + rows.family.log_marginal(T[sorted(c)].sum(axis=0)[None])[0]

    published = Published(log_phi, N)
    assert published.matrix[1].shape == (266, 266)  # all forests
    law = published.partition_law()
    p = np.exp(log_posterior(rows, prior, Z))
    p /= p.sum()
    found = [law[frozenset(frozenset(np.flatnonzero(z == c).tolist()) for c in set(z))] for z in Z]
    assert sum(found) == pytest.approx(1.0)
    assert 0.5 * np.abs(found - p).sum() > 0.03
    regrouping = regroup_matrix(guide_of(rows, prior, rng), rows)[1]
    for P in (regrouping, split_merge_matrix(rows, prior, tree_of(rows, rng))[1]):
        assert np.abs(p @ P - p).max() < 1e-13
        assert np.sort(np.abs(np.linalg.eigvals(P)))[-2] < 0.9999  # no other law does that


@pytest.mark.parametrize("name", ["dp", "nggp"])
def test_joint_with_hyperparameters(name, rng):
    def step(rng, kernel, state):
        return TreeGuidedKernel(kernel.rows, kernel.prior, n_moves=3, local=0.5).step(rng, state)[0]

    pvalues = joint_pvalues(HYPER[name], step, 250, rng)
    assert min(pvalues.values()) > BUDGET, pvalues


def blobs(n, k, d, spread=2.0):
    rng = np.random.default_rng(3)
    centres, truth = spread * rng.normal(size=(k, d)), rng.integers(0, k, n)
    X = centres[truth] + rng.normal(size=(n, d))
    return Rows(X, DiagonalGaussian.from_data(X, k)), truth


@pytest.mark.parametrize("n_first", [1, 150])
def test_blobs_are_found_where_gibbs_alone_sticks(n_first, rng):
    """Twelve blobs in twenty columns; the truth is the mode."""
    rows, truth = blobs(600, 12, 20)
    prior, first = DirichletProcess(shape=None), lambda rng: np.arange(600) % n_first
    best = CollapsedKernel(rows, prior, first=lambda rng: truth)
    log_best = best.log_joint(best.init(rng))
    chain = run(TreeGuidedKernel(rows, prior, first=first), key=np.uint64(1), sweeps=80)[0]
    assert chain.stats["log_joint"][-1] > log_best - 30
    assert chain.stats["n_clusters"][-1] == 12
    if n_first == 1:
        plain = run(CollapsedKernel(rows, prior, n_moves=0, first=first), key=np.uint64(1), sweeps=80)[0]
        assert plain.stats["log_joint"][-1] < log_best - 500


def test_regrouping_finds_blobs_too(rng):
    rows, truth = blobs(200, 4, 5, 6.0)
    kernel = TreeGuidedKernel(rows, DirichletProcess(shape=None), n_moves=0, n_regroups=10, n_revisits=5)
    chain = run(kernel, key=np.uint64(2), sweeps=15)[0]
    check_state(kernel, chain.state)
    assert chain.stats["n_regroups"].sum() >= 2
    assert len(set(zip(truth, chain.state.z, strict=True))) == chain.stats["n_clusters"][-1] == 4


def test_columns_are_left_as_the_labels_say():
    rows, _ = blobs(300, 4, 3, 3.0)
    tree, prior = tree_of(rows, np.random.default_rng(0)), DirichletProcess(30.0)
    board = Board(law_of(rows), np.zeros(300, np.int32), 1, prior, tally=np.zeros(6, np.int64))
    board.play(tree_split_merge, 600, tree, np.uint64(3))
    assert board.tally[2] - board.tally[3] == board.k - 1
    assert board.tally[3] > 0
    assert board.tally[4] + board.tally[5] == 600
    fresh = Board(law_of(rows), board.z, board.k, prior)
    np.testing.assert_array_equal(board.law.size[: board.k], np.bincount(board.z))
    for name in ("mean", "inverse", "log_root"):
        left, right = getattr(board.law, name), getattr(fresh.law, name)
        columns = min(left.shape[-1], right.shape[-1])
        np.testing.assert_allclose(left[..., :columns], right[..., :columns], rtol=1e-9, atol=1e-9)


def test_compiled_and_plain_chains_are_the_same(rng):
    rows, states = rows_of("full", rng, 30), []
    for laws in (law_of(rows), other_laws(rows)):
        kernel = TreeGuidedKernel(rows, PRIORS["nggp"], n_moves=8, first=lambda rng: np.arange(30) % 4)
        kernel.plain.__dict__["laws"] = laws
        states.append(run(kernel, key=np.uint64(5), sweeps=6)[0])
    np.testing.assert_array_equal(states[0].state.z, states[1].state.z)
    assert states[0].stats["n_splits"].sum() + states[0].stats["n_merges"].sum() > 0


def test_every_row_is_redrawn_in_turn(rng):
    """From labels that no conditional would leave as they are."""
    rows, truth = blobs(100, 2, 4, 20.0)
    kernel = TreeGuidedKernel(rows, DirichletProcess(shape=None), n_moves=0, local=0.25, first=lambda rng: truth)
    state = kernel.init(rng)
    swapped = np.where(np.arange(100) < 20, 1 - state.z, state.z).astype(np.int32)
    for sweep, left in enumerate((15, 10, 5, 0)):
        state = kernel.step(rng, type(state)(swapped, statistics(rows, swapped), state.prior, sweep))[0]
        swapped = state.z
        wrong = sum(min(Counter(truth[swapped == c].tolist()).get(t, 0) for t in (0, 1)) for c in set(swapped))
        assert wrong <= left + 8
    assert wrong == 0


def test_resumed_runs_are_the_same_across_trees(rng):
    rows, kept = rows_of("full", rng, 40), []
    kernel = TreeGuidedKernel(rows, NormalisedGeneralisedGamma(), local=0.5)
    tell = lambda event: kept.append(event.snapshot()) if event.sweep == 48 and event.phase == "step" else None  # noqa: E731
    whole = run(kernel, key=np.uint64(9), sweeps=54, callbacks=[tell])[0]
    fresh = TreeGuidedKernel(rows, NormalisedGeneralisedGamma(), local=0.5)
    rest = run(fresh, key=np.uint64(9), sweeps=54, resume=kept[0])[0]
    np.testing.assert_array_equal(whole.state.z, rest.state.z)
    np.testing.assert_array_equal(whole.stats["log_joint"], rest.stats["log_joint"])
    assert PERIOD == 50
    orders = [kernel.tree(sweep).order for sweep in (0, 49, 50)]
    np.testing.assert_array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[1], orders[2])
    assert not np.array_equal(orders[0], TreeGuidedKernel(rows, PRIORS["dp"], seed=1).tree(0).order)


@pytest.mark.parametrize("name", ["full", "multinomial", "poisson"])
def test_one_row_and_two(name, rng):
    for n in (1, 2):
        X = np.ones((n, 2))
        rows = Rows(X, FAMILIES[name][0].from_data(X))
        kernel = TreeGuidedKernel(rows, DirichletProcess(), n_regroups=2, n_revisits=2)
        state, info = kernel.step(rng, kernel.init(rng))
        check_state(kernel, state)
        assert np.isfinite(info["log_joint"])


def test_a_full_finite_model_opens_no_cluster(rng):
    rows = rows_of("diag", rng, 50)
    for most in (1, 3):
        kernel = TreeGuidedKernel(rows, FiniteDirichlet(most), n_regroups=3, n_revisits=3)
        assert run(kernel, key=np.uint64(2), sweeps=10)[0].stats["n_clusters"].max() <= most


def test_the_figures_of_a_sweep(rng):
    rows = rows_of("sparse", rng, 40)
    kernel = TreeGuidedKernel(rows, PRIORS["pitman-yor"], n_moves=20, n_regroups=1)
    state, info = kernel.step(rng, kernel.init(rng))
    log_p = log_posterior(rows, state.prior, state.z[None])[0] + rows.family.log_base(rows.X).sum()
    assert info["log_joint"] == pytest.approx(log_p, rel=1e-12)
    assert info["n_splits_proposed"] + info["n_merges_proposed"] == 20
    assert info["n_splits"] <= info["n_splits_proposed"]
    assert set(info) >= {"n_clusters", "largest", "n_births", "n_deaths", "n_merges", "n_regroups"}
    assert state.sweep == 1


def test_what_is_refused(rng):
    rows = rows_of("full", rng)
    for wrong in ({"local": 1.5}, {"n_regroups": -1}, {"n_revisits": -1}, {"n_moves": -1}, {"seed": -1}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            TreeGuidedKernel(rows, DirichletProcess(), **wrong)
    with pytest.raises(ParameterError, match="weight"):
        TreeGuidedKernel(Rows(rows.X, rows.family, np.ones(6)), DirichletProcess())
