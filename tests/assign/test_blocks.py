"""Lists and groups: enumerated transitions, the compiled draws that make them, what lists may hold, bugs rejected."""

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from weald._random import uniform
from weald.assign import GroupsAssignment, ListsAssignment, Rows, sample_all
from weald.assign import groups as groups_module
from weald.assign import lists as lists_module
from weald.assign.base import statistics
from weald.engine import Threads
from weald.families import Bernoulli, DiagonalGaussian, FullGaussian, Multinomial, Poisson, SphericalGaussian
from weald.testing.invariance import BUDGET, chi_square

ONE = Threads(1)
N = 60
FAMILIES = {
    "full": (FullGaussian, lambda rng: rng.normal(size=(N, 2))),
    "diag": (DiagonalGaussian, lambda rng: rng.normal(size=(N, 3))),
    "spherical": (SphericalGaussian, lambda rng: rng.normal(size=(N, 3))),
    "bernoulli": (Bernoulli, lambda rng: rng.integers(0, 2, (N, 4)).astype(float)),
    "poisson": (Poisson, lambda rng: rng.poisson(3.0, (N, 2)).astype(float)),
    "multinomial": (Multinomial, lambda rng: rng.integers(0, 3, (N, 5)).astype(float)),
    "sparse": (Multinomial, lambda rng: sp.csr_array(rng.integers(0, 3, (N, 5)).astype(float))),
}
LISTS = ListsAssignment(length=3, width=5, depth=1.5, rescore=3, turn=5)
EARLY = ListsAssignment(length=3, width=5, depth=1.5, rescore=3, turn=5, early=5, early_turn=3)
GROUPS = GroupsAssignment(size=3, turn=5)


def dense(T):
    return (T.toarray() if sp.issparse(T) else T).astype(np.float64)


def model(name, K, rng, dtype=np.float64):
    """Rows of a family, parameters of K components that overlap, and others that are a little different."""
    cls, simulate = FAMILIES[name]
    X = simulate(rng)
    family = cls.from_data(X, K)
    T = dense(family.sufficient(X))
    S = np.stack([T[rng.random(N) < 0.3].sum(axis=0) for _ in range(K)])
    log_w = np.log(rng.dirichlet(np.full(K, 2.0)))
    return Rows(X.astype(dtype), family), family.sample_eta(S, rng), family.sample_eta(S, rng), log_w


def scores(rows, eta, log_w):
    return dense(rows.family.sufficient(rows.X)) @ eta.T + log_w


def posterior(rows, eta, log_w):
    return softmax(scores(rows, eta, log_w), axis=1)


def repeated(rows, i, n):
    """Row i, n times."""
    x = rows.X[[i]]
    return Rows(sp.csr_array(sp.vstack([x] * n)) if sp.issparse(x) else np.repeat(x, n, axis=0), rows.family)


def sweep(kernel, rows, eta, log_w, z, memory, number, key=5, engine=ONE):
    """Sweep `number` of a kernel that has the memory of the sweeps before it."""
    plan, _ = kernel.refresh(kernel.prepare(rows), eta, log_w, number, {})
    S = statistics(rows, z, log_w.size, engine)
    return sample_all(kernel, plan, rows, z, S, memory, np.uint64(key), engine)


def listed(rows, eta, log_w, kernel=LISTS):
    """The memory of the lists kernel after the two sweeps that make its lists."""
    memory, z = kernel.blank(rows.n_rows, log_w.size), np.full(rows.n_rows, -1, np.int32)
    for number in (0, 1):
        out = sweep(kernel, rows, eta, log_w, z, memory, number)
        z, memory = out.z, out.memory
    return memory


def block(p, C):
    """(K,), indices -> (K, K): labels in C are redrawn within C, the others stay."""
    P = np.eye(p.size)
    if len(C) > 1:
        P[np.ix_(C, C)] = p[C] / p[C].sum()
    return P


def looked_set(memory, i, row, number, kernel=LISTS):
    """The clusters, in order, among which row number `row` is redrawn with the list at i: all, the whole list, near."""
    early = number < kernel.early
    if (row - number) % (kernel.early_turn if early else kernel.turn) == 0:
        return None
    whole = early or (row - number) % kernel.rescore == 0
    return memory["member"][i, : memory["n_listed" if whole else "n_near"][i]].astype(np.int64)


def is_balanced(p, P):
    """Whether P is a stochastic matrix, in detailed balance with p, which it leaves as it is."""
    flow = p[:, None] * P
    gaps = np.abs(P.sum(axis=1) - 1.0), np.abs(flow - flow.T), np.abs(p @ P - p)
    return P.min() >= 0.0 and max(gap.max() for gap in gaps) < 1e-12


@pytest.mark.parametrize("kernel", [LISTS, EARLY])
@pytest.mark.parametrize("K", [2, 7, 50])
@pytest.mark.parametrize("family", FAMILIES)
def test_enumerated_transitions_of_lists(family, K, kernel, rng):
    """Near redraws, whole-list redraws, full looks and a round of them all; lists fresh, and of other parameters."""
    rows, eta, later, log_w = model(family, K, rng)
    memory = listed(rows, eta, log_w, kernel)
    assert memory["n_listed"].min() >= 1
    for now in (eta, later):
        p, kept = posterior(rows, now, log_w), memory
        rounds = np.repeat(np.eye(K)[None], N, axis=0)
        for number in range(2, 2 + kernel.early + kernel.turn):
            for i in range(N):
                C = looked_set(kept, i, i, number, kernel)
                P = np.repeat(p[i][None], K, axis=0) if C is None else block(p[i], C)
                assert is_balanced(p[i], P)
                rounds[i] = rounds[i] @ P
            kept = sweep(kernel, rows, now, log_w, np.zeros(N, np.int32), kept, number).memory
        assert np.abs(np.einsum("ij,ijk->ik", p, rounds) - p).max() < 1e-12
        assert np.all(rounds > 0.0)  # full looks: every label leads to every other


@pytest.mark.parametrize("K", [2, 7, 50])
@pytest.mark.parametrize("family", FAMILIES)
def test_enumerated_transitions_of_groups(family, K, rng):
    rows, eta, later, log_w = model(family, K, rng)
    splits = set()
    for number in range(GROUPS.turn):
        plan, shared = GROUPS.refresh(GROUPS.prepare(rows), eta, log_w, number, {})
        assert shared == {}
        blocks = np.split(plan.order, plan.edges[1:-1])
        assert np.array_equal(np.sort(plan.order), np.arange(K))
        assert max(map(len, blocks)) <= GROUPS.size
        assert all(np.all(plan.group[C] == g) for g, C in enumerate(blocks))
        splits.add(frozenset(frozenset(C.tolist()) for C in blocks))
        for p in np.concatenate([posterior(rows, now, log_w)[:5] for now in (eta, later)]):
            P = np.linalg.multi_dot([block(p, C) for C in blocks]) if len(blocks) > 1 else block(p, blocks[0])
            assert np.array_equal(P > 0.0, plan.group[:, None] == plan.group)
            assert is_balanced(p, P)
    assert len(splits) > 1 or GROUPS.size >= K


@numba.njit
def uniforms(key, n):
    """What rows 0, ..., n - 1 draw with."""
    u = np.empty(n)
    for i in range(n):
        u[i] = uniform(key, i, 0)
    return u


def agree(out, before, sets, p, u):
    """P-values of labels drawn for copies of a row from given ones, against rows of the enumerated matrix.

    `sets` maps rows to the ordered set of clusters they were redrawn among. Where uniforms `u` are given, labels must
    be the very ones at which the distribution function of that set reaches them.
    """
    pvalues, K = [], p.size
    for C, among in sets:
        P = block(p, C)
        for start in np.unique(before[among]):
            at = among[before[among] == start]
            if start not in C or len(C) < 2:
                assert np.all(out.z[at] == start)
                continue
            pvalues.append(chi_square(np.bincount(out.z[at], minlength=K), P[start]))
            if u is not None:
                edges = np.cumsum(p[C] / p[C].sum())
                edges[-1] = 1.0
                assert np.array_equal(out.z[at], C[np.searchsorted(edges, u[at], side="right")])
    return pvalues


def lists_against_rows_of_P(family, K, rng, dtype, stale, n=30_000):
    """Copies of one row with one list, from near labels, listed ones, and labels that are on no list."""
    rows, eta, later, log_w = model(family, K, rng, dtype)
    memory = listed(rows, eta, log_w)
    n_near, n_listed = memory["n_near"].astype(int), memory["n_listed"].astype(int)
    i = int(np.argmax((n_near > 1) * ((n_listed > n_near) + 1.0)))
    held = memory["member"][i, : n_listed[i]].astype(np.int64)
    starts = np.unique([*held[:2], *held[-2:], *np.setdiff1d(np.arange(K), held)[:2]])
    now = later if stale else eta
    p = posterior(rows, now, log_w)[i]
    copies = {name: np.repeat(a[[i]], n, axis=0) for name, a in memory.items()}
    before = starts[np.arange(n) // 15 % starts.size].astype(np.int32)
    out = sweep(LISTS, repeated(rows, i, n), now, log_w, before, copies, 7)
    kinds = np.array([0 if row % 5 == 2 else 1 if row % 3 == 1 else 2 for row in range(n)])
    sets = [(looked_set(memory, i, row, 7), np.flatnonzero(kinds == kind)) for kind, row in enumerate((2, 1, 0))]
    sets = [(np.arange(K) if C is None else C, among) for C, among in sets]
    assert [len(C) for C, _ in sets] == [K, n_listed[i], n_near[i]]
    return agree(out, before, sets, p, uniforms(np.uint64(5), n) if dtype is np.float64 else None)


def groups_against_rows_of_P(family, K, rng, dtype, n=30_000):
    rows, eta, _, log_w = model(family, K, rng, dtype)
    p = posterior(rows, eta, log_w)[0]
    plan, _ = GROUPS.refresh(GROUPS.prepare(rows), eta, log_w, 7, {})
    before = (np.arange(n) // 5 % min(K, 7)).astype(np.int32)
    out = sweep(GROUPS, repeated(rows, 0, n), eta, log_w, before, {}, 7)
    full = np.arange(n) % 5 == 2
    sets = [(plan.order, np.flatnonzero(full))]
    for g, C in enumerate(np.split(plan.order, plan.edges[1:-1])):
        sets.append((C, np.flatnonzero(~full & (plan.group[before] == g))))
    return agree(out, before, sets, p, uniforms(np.uint64(5), n) if dtype is np.float64 else None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("family", FAMILIES)
def test_compiled_lists_draw_from_the_rows_of_the_matrix(family, dtype, rng):
    for K, stale in ((2, False), (7, False), (7, True), (50, True)):
        pvalues = lists_against_rows_of_P(family, K, rng, dtype, stale)
        assert min(pvalues) * len(pvalues) > BUDGET
        assert len(pvalues) >= 3 * min(K, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("family", FAMILIES)
def test_compiled_groups_draw_from_the_rows_of_the_matrix(family, dtype, rng):
    for K in (2, 7, 50):
        pvalues = groups_against_rows_of_P(family, K, rng, dtype)
        assert min(pvalues) * len(pvalues) > BUDGET
        assert len(pvalues) > min(K, 7)


@pytest.mark.parametrize("kernel", [LISTS, EARLY, GROUPS])
def test_known_labels_among_unknown_ones(kernel, rng):
    """Known labels stay whatever their probability; rows beside them keep their law."""
    n, K = 30_000, 7
    rows, eta, _, log_w = model("spherical", K, rng)
    p = posterior(rows, eta, log_w)[0]
    known = np.where(rng.random(n) < 0.3, rng.integers(0, K, n), -1).astype(np.int32)
    rows = Rows(repeated(rows, 0, n).X, rows.family, None, known)
    z = np.where(known >= 0, known, rng.choice(K, size=n, p=p)).astype(np.int32)
    memory = kernel.blank(n, K)
    for number in range(7):
        out = sweep(kernel, rows, eta, log_w, z, memory, number, key=rng.integers(2**62))
        z, memory = out.z, out.memory
        assert np.array_equal(z[known >= 0], known[known >= 0])
        assert chi_square(np.bincount(z[known < 0], minlength=K), p) > BUDGET
        assert pytest.approx(statistics(rows, z, K, ONE), abs=1e-8) == out.S
    for name, a in memory.items():
        if name == "n_listed":
            assert np.all(a[known >= 0] == 1)
        elif name == "member":
            assert np.array_equal(a[known >= 0, 0], known[known >= 0])


def in_order(memory, S, length, where):
    """Near ones of rows `where` stand first: their scores S (n, K) are above those of all others on the list."""
    for i in np.flatnonzero(where):
        held = S[i, memory["member"][i, : memory["n_listed"][i]]]
        near, close = memory["n_near"][i], np.sum(held >= held.max() - LISTS.depth)
        assert near == held.size or held[:near].min() >= held[near:].max()
        assert held.max() - held[:near].min() <= LISTS.depth
        assert near == close if close <= length else near <= length
    return True


@pytest.mark.parametrize("K", [2, 7, 50, 200])
@pytest.mark.parametrize("family", ["full", "spherical", "sparse"])
def test_what_lists_hold(family, K, rng):
    """While parameters change: distinct clusters, near ones first, whole lists that only full looks replace."""
    kernel = ListsAssignment(length=3, width=12, depth=LISTS.depth, rescore=3, turn=5)
    rows, eta, later, log_w = model(family, K, rng)
    memory, z, at = listed(rows, eta, log_w, kernel), np.zeros(N, np.int32), np.arange(N)
    assert in_order(memory, scores(rows, eta, log_w), kernel.length, np.ones(N, bool))
    for number in range(2, 14):
        now = eta + (later - eta) * number / 14
        last, out = memory, sweep(kernel, rows, now, log_w, z, memory, number)
        z, memory = out.z, out.memory
        full = (at - number) % kernel.turn == 0
        whole = ((at - number) % kernel.rescore == 0) | (last["n_near"] == last["n_listed"])
        many = memory["n_listed"] > 1
        assert in_order(memory, scores(rows, now, log_w), kernel.length, full | (whole & many))
        for i in range(N):
            held, old = (m["member"][i, : m["n_listed"][i]].tolist() for m in (memory, last))
            assert 1 <= memory["n_near"][i] <= min(kernel.length, len(held))
            assert len(set(held)) == len(held) <= min(kernel.width, K)
            assert max(held) < K
            assert full[i] or (sorted(held) if whole[i] else held) == (sorted(old) if whole[i] else old)
    best = np.argmax(scores(rows, now, log_w), axis=1)
    assert np.all((memory["member"][full] == best[full, None]).any(axis=1))


def lists_for_labels(kernel, rng, n=6_000, K=20):
    """Labels after the first sweep with lists, and lists after eight, from labels of two kinds; all else is one."""
    rows, eta, later, log_w = model("spherical", K, rng)
    rows = Rows(np.repeat(rows.X, n // N, axis=0), rows.family)
    ends = []
    for labels in (np.zeros(n, np.int32), rng.integers(0, K, n).astype(np.int32)):
        memory, z, early = kernel.blank(n, K), np.full(n, -1, np.int32), labels
        for number in range(8):
            out = sweep(kernel, rows, eta + (later - eta) * number / 8, log_w, z, memory, number, key=number)
            z, memory = labels if number < 2 else out.z, out.memory
            early = z if number < 3 else early
        ends.append((early, memory))
    return ends


def test_lists_do_not_depend_on_labels(rng):
    (z, a), (other, b) = lists_for_labels(LISTS, rng)
    assert all(np.array_equal(a[name], b[name]) for name in a)
    assert not np.array_equal(z, other)


@pytest.mark.parametrize("kernel", [LISTS, GROUPS])
def test_ties_and_clusters_without_weight(kernel, rng):
    """Equal scores neither overfill lists nor repeat clusters; clusters without weight are left, and never entered."""
    n, K = 20_000, 9
    family = SphericalGaussian.from_data(rng.normal(size=(N, 2)), K)
    rows, eta = Rows(np.zeros((n, 2)), family), np.repeat(family.mode_eta(np.zeros((1, family.width))), K, axis=0)
    log_w = np.where(np.arange(K) < 3, -np.inf, -np.log(6.0))
    z = rng.integers(0, K, n).astype(np.int32)
    memory, alive = listed(rows, eta, log_w) if kernel is LISTS else {}, z >= 3
    for number in range(2, 2 + kernel.turn):
        out = sweep(kernel, rows, eta, log_w, z, memory, number, key=number)
        assert chi_square(np.bincount(out.z[alive], minlength=K)[3:], np.full(6, 1 / 6)) > BUDGET
        assert out.z[z >= 3].min() >= 3
        z, memory = out.z, out.memory
    assert z.min() >= 3
    for held, near, m in zip(*memory.values(), strict=True):
        assert len(set(held[:m].tolist())) == m
        assert near <= min(m, kernel.length)


@pytest.mark.parametrize("kernel", [LISTS, GROUPS])
def test_every_row_is_looked_at_once_in_a_turn(kernel, rng, monkeypatch):
    n, K, seen = 10_003, 7, []
    rows, eta, _, log_w = model("diag", K, rng)
    rows = Rows(rng.normal(size=(n, 3)), rows.family)
    z, memory = rng.integers(0, K, n).astype(np.int32), listed(rows, eta, log_w) if kernel is LISTS else {}
    module, name, place = (lists_module, "draw_and_list", 2) if kernel is LISTS else (groups_module, "look_at", 2)
    right = getattr(module, name)

    def noting(*args):
        seen.append(args[place])
        return right(*args)

    monkeypatch.setattr(module, name, noting)
    for number in range(2, 2 + kernel.turn):
        out = sweep(kernel, rows, eta, log_w, z, memory, number)
        z, memory = out.z, out.memory
        assert out.info["n_looked"] == pytest.approx(n / kernel.turn, abs=1.0)
    assert np.array_equal(np.sort(np.concatenate(seen)), np.arange(n))


def pvalue_of(kernel, rng, n_sweeps, n=40_000, K=7):
    """Of labels after some sweeps from the exact law, the lists made before."""
    rows, eta, _, log_w = model("spherical", K, rng)
    p = posterior(rows, eta, log_w)[0]
    z = rng.choice(K, size=n, p=p).astype(np.int32)
    rows = repeated(rows, 0, n)
    memory = listed(rows, eta, log_w, kernel) if isinstance(kernel, ListsAssignment) else {}
    for number in range(2, 2 + n_sweeps):
        out = sweep(kernel, rows, eta, log_w, z, memory, number, key=rng.integers(2**62))
        z, memory = out.z, out.memory
    return chi_square(np.bincount(z, minlength=K), p)


@pytest.mark.parametrize("number", [0, 1, 4, 5])
def test_early_sweeps_look_at_whole_lists(number, rng):
    """The first sweep makes lists; until early ones end, rows are redrawn among all that they list, some among all."""
    rows, eta, later, log_w = model("spherical", 50, rng)
    memory, z = listed(rows, eta, log_w, EARLY) if number else EARLY.blank(N, 50), np.zeros(N, np.int32)
    out = sweep(EARLY, rows, later, log_w, z, memory, number)
    sets = [looked_set(memory, i, i, number, EARLY) for i in range(N)]
    n_looked = N if number == 0 else sum(C is None for C in sets)
    n_dots = sum(len(C) for C in sets if C is not None)
    assert out.info["n_looked"] == n_looked
    assert out.info["n_evals"] == 50 * n_looked + n_dots * (number > 0)
    assert out.memory["n_listed"].min() >= 1


NEAR_ONLY = ListsAssignment(length=2, width=5, depth=50.0, rescore=1000, turn=1000)
WHOLE_ONLY = ListsAssignment(length=2, width=4, depth=50.0, rescore=1, turn=1000)


EARLY_ONLY = ListsAssignment(length=2, width=4, depth=50.0, rescore=1000, turn=1000, early=1000, early_turn=1000)


@pytest.mark.parametrize("kernel", [NEAR_ONLY, WHOLE_ONLY, EARLY_ONLY])
@pytest.mark.parametrize("looks", [False, True])
def test_lists_that_look_at_z_are_rejected(kernel, looks, rng, monkeypatch):
    """A bug: a label that is not among those a row looks at takes the place of the last of them."""
    right, dots, seen = lists_module.redraw_within, lists_module.listed_scores, {}

    def keep(T, E, member, n_used):
        seen["T"], seen["E"] = T, E
        return dots(T, E, member, n_used)

    def looking(listed, n_used, key, first, z, depth, length, member, n_near, n_listed):
        among = np.arange(member.shape[1]) < n_used[:, None]
        lost = np.flatnonzero(~((member == z[:, None]) & among).any(axis=1) & (n_used > 1))
        assert lost.size > 0
        if looks:
            member = member.copy()
            member[lost, n_used[lost] - 1] = z[lost]
            listed = dots(seen["T"], seen["E"], member, n_used)
        right(listed, n_used, key, first, z, depth, length, member, n_near, n_listed)

    monkeypatch.setattr(lists_module, "listed_scores", keep)
    monkeypatch.setattr(lists_module, "redraw_within", looking)
    assert (pvalue_of(kernel, rng, 3) > BUDGET) != looks


@pytest.mark.parametrize("bug", ["none", "keeps", "drops"])
def test_near_ones_that_look_at_z_are_rejected(bug, rng, monkeypatch):
    """Bugs: the label just drawn among the whole list is always put among the near ones, or never."""
    right = lists_module.redraw_within

    def looking(listed, n_used, key, first, z, depth, length, member, n_near, n_listed):
        right(listed, n_used, key, first, z, depth, length, member, n_near, n_listed)
        for i in np.flatnonzero((n_used == n_listed) & (n_listed > n_near)) if bug != "none" else ():
            [j] = np.flatnonzero(member[i, : n_listed[i]] == z[i]).tolist() or [None]
            last = n_near[i] - 1
            if j is not None and (j > last) == (bug == "keeps"):
                other = last if bug == "keeps" else n_listed[i] - 1
                member[i, [j, other]] = member[i, [other, j]]

    monkeypatch.setattr(lists_module, "redraw_within", looking)
    (_, a), (_, b) = lists_for_labels(LISTS, rng, n=1_200)
    assert all(np.array_equal(a[name], b[name]) for name in a) == (bug == "none")
    if bug != "drops":  # then no label that was drawn moves among near ones, and to stay is never wrong
        kernel = ListsAssignment(length=2, width=5, depth=50.0, rescore=2, turn=1000)
        assert (pvalue_of(kernel, rng, 6, n=20_000) > BUDGET) == (bug == "none")


@pytest.mark.parametrize("overlap", [False, True])
def test_groups_that_are_no_partition_are_rejected(overlap, rng, monkeypatch):
    """A bug: neighbouring groups share a cluster, which always is redrawn within the second."""
    if overlap:
        shared = np.array([0, 1, 2, 2, 3, 4, 4, 5, 6]), np.array([0, 3, 6, 9])
        monkeypatch.setattr(groups_module, "split", lambda points, size, rng: shared)
    assert (pvalue_of(GroupsAssignment(size=3, turn=1000), rng, 3) > BUDGET) != overlap
