"""Trees against enumeration: potentials, evidence bounds, mergers and insertions; and bugs that must be seen."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy.cluster.hierarchy import is_monotonic, is_valid_linkage
from scipy.special import gammaln, logsumexp

from weald.assign import Rows
from weald.families import Bernoulli, DiagonalGaussian, FullGaussian, Multinomial, Poisson, SphericalGaussian
from weald.mixtures.hierarchical import _inserted
from weald.mixtures.laws import law_of, other_laws
from weald.partitions import DirichletProcess, NormalisedGeneralisedGamma
from weald.trees import bhc, ibhc

PRIORS = {
    "dp": DirichletProcess(0.7, shape=None),
    "nggp": NormalisedGeneralisedGamma(1.5, 0.3, math.log(4.0), shape=None, learn_discount=False),
    "nig": NormalisedGeneralisedGamma(0.4, 0.5, math.log(20.0), shape=None, learn_discount=False),
}
FAMILIES = {  # no two rows alike: distances would tie, and the last digit decide
    "full": (FullGaussian, lambda rng, n: rng.normal(size=(n, 2)) * [1.0, 100.0] + 7.0),
    "diag": (DiagonalGaussian, lambda rng, n: rng.normal(size=(n, 3))),
    "spherical": (SphericalGaussian, lambda rng, n: rng.normal(size=(n, 2)) + 1e4),
    "multinomial": (Multinomial, lambda rng, n: rng.integers(0, 90, size=(n, 3)).astype(float)),
    "poisson": (Poisson, lambda rng, n: rng.poisson(30.0, size=(n, 2)).astype(float)),
    "missing": (DiagonalGaussian, lambda rng, n: np.where(rng.random((n, 4)) < 0.2, np.nan, rng.normal(size=(n, 4)))),
}


def rows_of(name, n, seed=0, spread=0.0):
    rng = np.random.default_rng(seed)
    cls, simulate = FAMILIES[name]
    X = simulate(rng, n)
    X = X + spread * (np.arange(n)[:, None] % 3)
    return Rows(X, cls.from_data(X, 2))


def built(rows, prior, method="greedy", n_first=2):
    """A finished tree, all evidences and potentials included, and its linkage."""
    n, T = rows.n_rows, np.asarray(rows.family.sufficient(rows.X), np.float64)
    kappa, log_marginal = bhc.log_kappa(prior, n), rows.family.log_marginal
    roots = np.arange(n)
    tree = bhc.empty_tree(n)
    if method == "incremental":
        tree = bhc.grown(tree, roots[:n_first], T[:n_first], log_marginal, kappa)
        roots = _inserted(rows, prior, tree, np.arange(n_first, n))
    z = bhc.owners(tree, roots)
    S = np.stack([T[z == c].sum(axis=0) for c in range(len(roots))])
    return bhc.finished(bhc.grown(tree, roots, S, log_marginal, kappa), kappa)


def cuts(tree, v):
    """All sets of nodes into which the tree at v can be cut."""
    yield (v,)
    if tree.left[v] >= 0:
        for a, b in itertools.product(cuts(tree, tree.left[v]), cuts(tree, tree.right[v])):
            yield a + b


def below(tree, v):
    return [v] if tree.left[v] < 0 else sorted(below(tree, tree.left[v]) + below(tree, tree.right[v]))


def log_h_of(rows, prior):
    """Rows of a cluster -> log kappa m, from the definitions."""
    T = np.asarray(rows.family.sufficient(rows.X), np.float64)

    def log_h(cluster):
        k, log_m = len(cluster), float(rows.family.log_marginal(T[list(cluster)].sum(axis=0)))
        if isinstance(prior, DirichletProcess):
            return math.log(prior.concentration) + math.lgamma(k) + log_m
        alpha, sigma, u = prior.concentration, prior.discount, math.exp(prior.log_u)
        front = math.log(alpha * sigma) + gammaln(k - sigma) - gammaln(1 - sigma)
        return front - (k - sigma) * math.log1p(u) + log_m

    return log_h


def error_of_potentials(tree, rows, prior):
    """Largest distance of any phi_t or merge probability from the sum over all ways to cut the tree."""
    log_h, worst = log_h_of(rows, prior), 0.0
    for v in range(tree.n_rows, 2 * tree.n_rows - 1):
        log_phi = logsumexp([sum(log_h(below(tree, c)) for c in nodes) for nodes in cuts(tree, v)])
        share = math.exp(log_h(below(tree, v)) - log_phi)
        worst = max(worst, abs(tree.log_phi[v] - log_phi), abs(1 / (1 + math.exp(tree.log_d[v])) - share))
    return worst


@pytest.mark.parametrize("method", ["greedy", "incremental"])
@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prior", PRIORS)
def test_potentials_sum_over_all_cuts_of_the_tree(prior, family, n, method):
    rows = rows_of(family, n)
    tree, linkage = built(rows, PRIORS[prior], method)
    assert error_of_potentials(tree, rows, PRIORS[prior]) < 1e-9
    assert is_valid_linkage(linkage)
    assert is_monotonic(linkage)


def partitions(n):
    Z = [(0,)]
    for _ in range(n - 1):
        Z = [(*z, c) for z in Z for c in range(max(z) + 2)]
    return Z


@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.parametrize("family", ["full", "poisson"])
@pytest.mark.parametrize("prior", PRIORS)
def test_the_bound_is_the_sum_over_cuts_and_below_the_sum_over_all_partitions(prior, family, n):
    rows, law = rows_of(family, n, seed=3), PRIORS[prior]
    T = np.asarray(rows.family.sufficient(rows.X), np.float64)

    def log_joint(blocks):
        S = np.stack([T[list(block)].sum(axis=0) for block in blocks])
        return law.log_eppf(np.array([len(block) for block in blocks])) + float(rows.family.log_marginal(S).sum())

    tree, _ = built(rows, law)
    bound = bhc.log_bound(tree, law, 2)
    of_cuts = logsumexp([log_joint([below(tree, c) for c in nodes]) for nodes in cuts(tree, 2 * n - 2)])
    of_all = logsumexp(
        [log_joint([np.flatnonzero(np.array(z) == c) for c in range(max(z) + 1)]) for z in partitions(n)]
    )
    assert bound == pytest.approx(of_cuts, abs=1e-9)
    assert bound < of_all
    assert len(list(cuts(tree, 2 * n - 2))) < len(partitions(n))


def test_the_bound_does_not_depend_on_where_u_is_looked_for():
    rows = rows_of("full", 30)
    tree, _ = built(rows, PRIORS["nig"])
    bounds = [bhc.log_bound(tree, PRIORS["nig"], k) for k in (1, 5, 30)]
    assert np.ptp(bounds) < 1e-9


def test_two_coins_by_hand():
    rows = Rows(np.array([[1.0], [1.0]]), Bernoulli(np.ones(1), np.ones(1)))
    tree, linkage = built(rows, DirichletProcess(1.0, shape=None))
    # phi_h of each is 1/2, of both 1/3: d = (1/4)/(1/3), and CRP(1) gives 1/2 to either partition
    assert math.exp(tree.log_d[2]) == pytest.approx(3 / 4)
    assert math.exp(bhc.log_bound(tree, DirichletProcess(1.0), 1)) == pytest.approx(1 / 2 * (1 / 3 + 1 / 4))
    assert linkage[0] == pytest.approx([0, 1, math.log(7 / 4), 2])


def without_the_product(tree, order, log_kappa):
    for v in order:
        log_h, a, b = log_kappa[tree.size[v]] + tree.log_m[v], tree.left[v], tree.right[v]
        tree.log_phi[v] = log_h
        if a >= 0:
            tree.log_d[v] = tree.log_phi[a] + tree.log_phi[b] - log_h


def with_d_upside_down(tree, order, log_kappa):
    for v in order:
        log_h, a, b = log_kappa[tree.size[v]] + tree.log_m[v], tree.left[v], tree.right[v]
        tree.log_phi[v] = log_h
        if a >= 0:
            tree.log_d[v] = log_h - tree.log_phi[a] - tree.log_phi[b]
            tree.log_phi[v] = log_h + np.logaddexp(0.0, -tree.log_d[v])


@pytest.mark.parametrize("bug", [without_the_product, with_d_upside_down])
def test_wrong_potentials_are_seen(bug, monkeypatch):
    rows = rows_of("full", 5)
    monkeypatch.setattr(bhc, "refresh", bug)
    tree, _ = built(rows, PRIORS["dp"])
    assert error_of_potentials(tree, rows, PRIORS["dp"]) > 1e-3


def naive_trees(rows, prior):
    """Both greedy trees as sets of sets of rows, with phi_t of the root, by looking at all pairs each time."""
    log_h = cache(log_h_of(rows, prior))
    T = np.asarray(rows.family.sufficient(rows.X), np.float64)
    log_m = cache(lambda c: float(rows.family.log_marginal(T[list(c)].sum(axis=0))))
    for plain in (False, True):
        trees, nodes = {(i,): log_h((i,)) for i in range(rows.n_rows)}, set()
        while len(trees) > 1:

            def apart(pair):
                a, b = pair
                c = tuple(sorted(a + b))
                return log_m(a) + log_m(b) - log_m(c) if plain else trees[a] + trees[b] - log_h(c)  # noqa: B023

            a, b = min(itertools.combinations(trees, 2), key=apart)
            c = tuple(sorted(a + b))
            trees[c] = np.logaddexp(log_h(c), trees.pop(a) + trees.pop(b))
            nodes.add(c)
        yield trees.popitem()[1], nodes


def nodes_of(tree, used=None):
    inner = np.flatnonzero(tree.left >= 0) if used is None else used
    return {tuple(int(i) for i in below(tree, v)) for v in inner}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("family", ["full", "spherical", "missing"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nearest_partners_are_those_of_a_look_at_all_pairs(family, prior, seed):
    rows = rows_of(family, 14, seed)
    tree, _ = built(rows, PRIORS[prior])
    log_phi, nodes = max(naive_trees(rows, PRIORS[prior]), key=lambda found: found[0])
    assert tree.log_phi[-1] == pytest.approx(log_phi, abs=1e-9)
    assert nodes_of(tree) == nodes


class Reference:
    """SeqInsert from its definition, trees as nested tuples of rows."""

    def __init__(self, rows, prior):
        log_h = cache(log_h_of(rows, prior))
        self.log_h = lambda t: log_h(tuple(sorted(leaves(t))))

    def log_phi(self, t):
        if isinstance(t, int):
            return self.log_h(t)
        return np.logaddexp(self.log_h(t), self.log_phi(t[0]) + self.log_phi(t[1]))

    def log_d(self, a, b):
        return self.log_phi(a) + self.log_phi(b) - self.log_h((a, b))

    def put(self, t, q):
        if isinstance(t, int):
            return t, q
        here, left, right = self.log_d(*t), self.log_d(t[0], q), self.log_d(t[1], q)
        if here < left and here < right:
            return t, q
        return (self.put(t[0], q), t[1]) if left <= right else (t[0], self.put(t[1], q))

    def insert(self, forest, q):
        distances = [self.log_d(t, q) for t in forest]
        best = int(np.argmin(distances))
        if distances[best] >= 0:
            return [*forest, q]
        return [*forest[:best], *forest[best + 1 :], *self.cut(self.put(forest[best], q))]

    def cut(self, t):
        if isinstance(t, int) or self.log_d(*t) <= 0:
            return [t]
        return self.cut(t[0]) + self.cut(t[1])


def leaves(t):
    return [t] if isinstance(t, int) else leaves(t[0]) + leaves(t[1])


def inner(t):
    return set() if isinstance(t, int) else {tuple(sorted(leaves(t)))} | inner(t[0]) | inner(t[1])


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("family", ["full", "diag", "multinomial", "poisson", "missing"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_insertion_follows_its_definition(family, prior, seed):
    n, law = 12, PRIORS[prior]
    rows = rows_of(family, n, seed, spread=0.0 if family == "multinomial" else 6.0)
    T = np.asarray(rows.family.sufficient(rows.X), np.float64)
    kappa = bhc.log_kappa(law, n)
    tree = bhc.grown(bhc.empty_tree(n), np.arange(2), T[:2], rows.family.log_marginal, kappa)
    roots = _inserted(rows, law, tree, np.arange(2, n))
    reference = Reference(rows, law)
    forest = reference.cut((0, 1))
    for q in range(2, n):
        forest = reference.insert(forest, q)
    assert {tuple(below(tree, v)) for v in roots} == {tuple(sorted(leaves(t))) for t in forest}
    assert nodes_of(tree) == set().union(*(inner(t) for t in forest))
    exact = [float(rows.family.log_marginal(T[below(tree, v)].sum(axis=0))) for v in np.flatnonzero(tree.left >= 0)]
    assert tree.log_m[tree.left >= 0] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("compiled", [True, False])
def test_insertions_cut_trees_that_have_become_two_clusters(compiled):
    rng = np.random.default_rng(5)
    X = np.concatenate([[[-0.5], [0.5]], rng.permutation(np.repeat([-0.5, 0.5], 40))[:, None]])
    X += 0.01 * rng.normal(size=X.shape)
    rows, prior = Rows(X, DiagonalGaussian.from_data(X, 1)), DirichletProcess(1e-3)
    kappa, T = bhc.log_kappa(prior, len(X)), rows.family.sufficient(X)
    tree = bhc.grown(bhc.empty_tree(len(X)), np.arange(2), T[:2], rows.family.log_marginal, kappa)
    assert len(ibhc.pieces(tree)) == 1  # two rows are not enough to tell
    law = (law_of if compiled else other_laws)(rows)(ibhc.columns_for(len(X), len(X)))
    forest = ibhc.forest_of(np.array([len(X)]), tree, len(X))
    ibhc.fill(law, tree, forest)
    assert ibhc.insert(law, tree, forest, np.arange(2, len(X)), kappa) == len(X) - 2
    roots = forest.roots[: forest.counts[ibhc.N_ROOTS]]
    assert {len(set(np.sign(X[below(tree, v), 0]))) for v in roots if tree.size[v] > 2} == {1}
    assert forest.counts[ibhc.N_FREE] == len(roots) - 1  # n - k nodes are in use


def test_columns_of_an_old_tree_are_those_of_its_rows():
    rows = rows_of("full", 20)
    prior = PRIORS["dp"]
    old, _ = built(rows, prior)
    tree = ibhc.with_room(old, 3, bhc.log_kappa(prior, 23))
    assert nodes_of(tree) == nodes_of(old)
    more = Rows(np.concatenate([rows.X, rows.X[:3] + 1.0]), rows.family)
    law, forest = law_of(more)(ibhc.columns_for(23, 23)), ibhc.forest_of(ibhc.pieces(tree), tree, 23)
    ibhc.fill(law, tree, forest)
    T, out = more.family.sufficient(more.X), np.empty(law.size.size)
    for v in [*np.flatnonzero(tree.left >= 0), *range(20)]:
        law.score(21, v, v + 1, out)
        S = T[below(tree, v)].sum(axis=0, keepdims=True)
        assert out[v] == pytest.approx(float(rows.family.log_predictive(S, T[21:22])[0, 0]), abs=1e-9)


def test_a_full_forest_says_how_far_it_came():
    X = np.arange(10.0)[:, None]
    rows = Rows(X, DiagonalGaussian.from_data(X, 1))
    kappa = bhc.log_kappa(DirichletProcess(1e6), 10)
    tree = bhc.grown(bhc.empty_tree(10), np.arange(2), rows.family.sufficient(X)[:2], rows.family.log_marginal, kappa)
    law, forest = law_of(rows)(ibhc.columns_for(10, 4)), ibhc.forest_of(ibhc.pieces(tree), tree, 4)
    ibhc.fill(law, tree, forest)
    assert ibhc.insert(law, tree, forest, np.arange(2, 10), kappa) == 2


def test_heights_fall_on_no_way_to_the_root_and_cut_where_labels_do():
    rows = rows_of("full", 60, spread=2.5)
    tree, linkage = built(rows, PRIORS["dp"])
    height = np.concatenate([np.zeros(60), linkage[:, 2]])
    assert (height[tree.parent[:-1]] >= height[:-1]).all()
    owner = bhc.cut(tree)
    assert (height[owner] <= math.log(2) + 1e-12).all()
    above = tree.parent[np.unique(owner)]
    assert (height[above[above >= 0]] > math.log(2)).all()
    again = bhc.from_linkage(linkage, tree.log_m, bhc.log_kappa(PRIORS["dp"], 60))
    for one, other in zip(again, tree, strict=True):
        assert np.array_equal(one, other)
