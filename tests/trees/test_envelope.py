"""The law of trials and of whole draws by enumeration, with the errors that such samplers invite; compiled draws."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from weald.assign import Rows, _bounds
from weald.assign.tree import PATIENCE, TreeAssignment, log_bounds
from weald.families import (
    Bernoulli,
    DiagonalGaussian,
    FullGaussian,
    Multinomial,
    Poisson,
    SphericalGaussian,
    TiedGaussian,
)
from weald.testing.invariance import BUDGET, chi_square
from weald.trees.envelope import Forms, draw, evaluate, flat_draws, table_of

TOP = -1  # what stands above the root
FAMILIES = {
    "full": (FullGaussian, lambda rng: rng.normal(size=(80, 2))),
    "tied": (TiedGaussian, lambda rng: rng.normal(size=(80, 2))),
    "diag": (DiagonalGaussian, lambda rng: rng.normal(size=(80, 3))),
    "missing": (DiagonalGaussian, lambda rng: np.where(rng.random((80, 3)) < 0.2, np.nan, rng.normal(size=(80, 3)))),
    "spherical": (SphericalGaussian, lambda rng: rng.normal(size=(80, 3))),
    "bernoulli": (Bernoulli, lambda rng: rng.integers(0, 2, (80, 4)).astype(float)),
    "poisson": (Poisson, lambda rng: rng.poisson(3.0, (80, 2)).astype(float)),
    "multinomial": (Multinomial, lambda rng: rng.integers(0, 3, (80, 5)).astype(float)),
    "sparse": (Multinomial, lambda rng: sp.csr_array(rng.integers(0, 3, (80, 5)).astype(float))),
}


class Tree:
    """Nodes 0..n-1 with measure m, likelihood f, bounds U of what is below, and lists of children."""

    def __init__(self, children, m, f, U, below=None):
        self.children, self.m, self.f, self.U = children, m, f, U
        self.below = np.zeros(len(m)) if below is None else below
        if below is None:
            for v in range(len(m) - 1, -1, -1):
                self.below[v] = sum(m[c] + self.below[c] for c in children[v])

    @property
    def law(self):
        return self.m * self.f / (self.m * self.f).sum()

    def under(self, v):
        return [0] if v == TOP else self.children[v]


def trial(tree, opened, meet=min):
    """Law of what one trial returns, {nodes visited: probability of failing there}, and the least exit probability."""
    entries, bounds = [], {TOP: np.inf}
    for v in sorted(opened):
        for c in tree.under(v):
            bounds[c] = meet(bounds[v], tree.U[c])
            entries.append((c, False, tree.m[c] * tree.f[c]))
            if tree.children[c] and c not in opened:
                entries.append((c, True, bounds[c] * tree.below[c]))
    gamma = sum(weight for *_, weight in entries)
    returns, fails, least = np.zeros(len(tree.m)), {}, 0.0

    def descend(v, bound, path, share):
        nonlocal least
        weight, left = bound * tree.below[v], 1.0
        for c in tree.children[v]:
            part = min(max(left, 0.0), tree.m[c] * tree.f[c] / weight)  # what clipping makes of a negative exit
            returns[c] += share * part
            left -= tree.m[c] * tree.f[c] / weight
            if tree.children[c]:
                below = meet(bound, tree.U[c])
                part = min(max(left, 0.0), below * tree.below[c] / weight)
                descend(c, below, (*path, c), share * part)
                left -= below * tree.below[c] / weight
        least = min(least, left)
        fails[path] = share * max(left, 0.0)

    for v, is_open, weight in entries:
        if is_open:
            descend(v, bounds[v], (v,), weight / gamma)
        else:
            returns[v] += weight / gamma
    return returns, fails, least


def whole(tree, opened, known=None):
    """Law of a whole draw that begins with the envelope `opened`: trials until one returns."""
    known = {} if known is None else known
    if opened not in known:
        law, fails, _ = trial(tree, opened)
        for path, p in fails.items():
            if p > 0.0:
                law = law + p * whole(tree, opened | frozenset(path), known)
        known[opened] = law
    return known[opened]


def hasty(tree, opened):
    """The law of a draw that starts again from the envelope as soon as the node it picked rejects: a known trap."""
    bounds, law, again = {TOP: np.inf}, np.zeros(len(tree.m)), []
    for v in sorted(opened):
        for c in tree.under(v):
            bounds[c] = min(bounds[v], tree.U[c])
            law[c] += tree.m[c] * tree.f[c]
            if tree.children[c] and c not in opened:
                again.append(c)
    gamma = law.sum() + sum(bounds[c] * tree.below[c] for c in again)
    for v in again:
        own = np.zeros(len(tree.m))
        own[tree.children[v]] = [tree.m[c] * tree.f[c] for c in tree.children[v]]
        law = law + own + (bounds[v] * tree.below[v] - own.sum()) * hasty(tree, opened | {v})
    return law / gamma


def opened_first(tree):
    """The nodes opened before the first trial."""
    opened, best, bounds = {TOP}, 0.0, {TOP: np.inf}
    while True:
        waiting = {}
        for v in sorted(opened):
            for c in tree.under(v):
                bounds[c] = min(bounds[v], tree.U[c])
                best = max(best, tree.m[c] * tree.f[c])
                if tree.children[c] and c not in opened:
                    waiting[c] = bounds[c] * tree.below[c]
        heavy = max(waiting, key=waiting.get, default=None)
        if heavy is None or waiting[heavy] <= best * math.exp(PATIENCE):
            return frozenset(opened)
        opened.add(heavy)


def model(name, K, rng):
    cls, simulate = FAMILIES[name]
    X = simulate(rng)
    family = cls.from_data(X, K)
    T = family.sufficient(X)
    dense = T.toarray() if sp.issparse(T) else T
    eta = family.sample_eta(np.stack([dense[rng.random(80) < 0.1].sum(axis=0) for _ in range(K)]), rng)
    return Rows(X, family), dense, eta, np.log(rng.dirichlet(np.full(K, 2.0)))


def trees(plan, T):
    """One `Tree` for each row of T, and the numbers of its nodes."""
    forms = plan.forms
    children = [list(range(a, b)) for a, b in zip(forms.first, forms.last, strict=True)]
    for log_f, log_u in zip(*log_bounds(plan, T), strict=True):
        top = log_f.max()
        yield Tree(children, np.exp(forms.log_m - forms.log_m.max()), np.exp(log_f - top), np.exp(log_u - top))


def plans(name, K, rng, monkeypatch):
    """Rows of T, their exact law, and a plan for each kind of bound that holds for the family."""
    rows, T, eta, log_w = model(name, K, rng)
    kernel = TreeAssignment()
    data = kernel.prepare(rows)
    yield T, eta, log_w, kernel.refresh(data, eta, log_w, 0, {})[0]
    for mean in (data.mean, np.append(np.zeros(data.mean.size - 1), 1.0)):  # (B2), and its case (B1)
        with monkeypatch.context() as patch:
            patch.setattr("weald.assign.tree.likelihoods", lambda _, eta, log_w, t: _bounds.linear(eta, log_w, t))
            yield T, eta, log_w, kernel.refresh(data._replace(mean=mean), eta, log_w, 0, {})[0]


@pytest.mark.parametrize("K", [2, 5, 20, 50])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_trial_and_every_draw_has_the_exact_law(name, K, rng, monkeypatch):
    for T, eta, log_w, plan in plans(name, K, rng, monkeypatch):
        exact = softmax(T[:4] @ eta.T + log_w, axis=1)[:, plan.forms.number]
        for tree, p in zip(trees(plan, T[:4]), exact, strict=True):
            first = opened_first(tree)
            for opened in (frozenset({TOP}), first):
                returns, fails, least = trial(tree, opened)
                assert least > -1e-12
                assert returns.sum() + sum(fails.values()) == pytest.approx(1.0, abs=1e-12)
                assert np.abs(returns / returns.sum() - p).max() < 1e-12
            start = frozenset({TOP}) if K <= 20 else first
            assert np.abs(whole(tree, start) - p).max() < 1e-12


@pytest.mark.parametrize("name", FAMILIES)
def test_bounds_hold_below_every_node(name, rng, monkeypatch):
    for T, _, _, plan in plans(name, 50, rng, monkeypatch):
        log_f, log_u = log_bounds(plan, np.vstack([T, 100.0 * T]))
        for v in range(49, -1, -1):
            for c in range(plan.forms.first[v], plan.forms.last[v]):
                assert (log_f[:, c] <= log_u[:, v]).all()
                log_f[:, v] = np.maximum(log_f[:, v], log_f[:, c])  # from now on the best of the subtree


def line(points, children, m, x, radius):
    """A hand-made tree of unit Gaussians on a line, bounded on balls."""
    points = np.asarray(points, float)
    gap = np.maximum(np.abs(x - points) - radius, 0.0)
    return Tree(children, np.asarray(m, float), np.exp(-0.5 * (x - points) ** 2), np.exp(-0.5 * gap**2))


CHAIN = [0.0, 2.0, 3.0, 3.5]  # each within 2^level of its parent, for levels 1, 0, -1: legal for an explicit tree
BELOW = [[1], [2], [3], []]
RADII = {"subtree": [3.5, 1.5, 0.5, 0.0], "level": [2.0, 1.0, 0.5, 0.0]}


def off(law, tree):
    return 0.5 * np.abs(law / law.sum() - tree.law).sum()


def test_the_radius_of_a_level_is_no_bound():
    right, wrong = (line(CHAIN, BELOW, [0.1, 0.2, 0.3, 0.4], 3.4, np.array(RADII[r])) for r in ("subtree", "level"))
    assert trial(right, frozenset({TOP}))[2] > -1e-15
    assert off(whole(right, frozenset({TOP})), right) < 1e-14
    assert trial(wrong, frozenset({TOP}))[2] < -0.1
    assert off(whole(wrong, frozenset({TOP})), wrong) > 0.01


def test_tight_bounds_need_the_running_minimum():
    """A child's bound that is looser than its parent's: without the minimum the child weighs more than the parent."""
    tree = line([0.0, 1.0, 3.0], [[1], [2], []], [0.2, 0.4, 0.4], -4.0, np.array([3.0, 2.0, 0.0]))
    tree.U[:2] = np.exp([-1.5, -0.5])
    assert trial(tree, frozenset({TOP}))[2] > -1e-15
    assert off(whole(tree, frozenset({TOP})), tree) < 1e-14
    assert trial(tree, frozenset({TOP}), meet=lambda above, own: own)[2] < -0.1


def bushy(rng, x=0.3):
    """A tree of 12 nodes on the line, of three levels, with subtree radii."""
    children = [[1, 2, 3], [4, 5], [6, 7], [8, 9], [10], [], [], [], [], [11], [], []]
    points = np.array([0.0, -3.0, 0.5, 3.0, -4.0, -2.5, 0.0, 1.0, 2.5, 3.5, -4.5, 3.8])
    radius = np.zeros(12)
    for v in range(11, -1, -1):
        todo = list(children[v])
        while todo:
            c = todo.pop()
            radius[v] = max(radius[v], abs(points[c] - points[v]))
            todo += children[c]
    return line(points, children, rng.dirichlet(np.ones(12)), x, radius)


def test_a_tree_of_three_levels_has_the_exact_law(rng):
    for x in (-4.2, 0.3, 9.0):
        tree = bushy(rng, x)
        assert off(whole(tree, frozenset({TOP})), tree) < 1e-14


def test_a_node_that_returns_at_every_level_is_rejected(rng):
    """A bug: levels are nested, and a node is its own child, returned again there."""
    tree = bushy(rng)
    internal = [v for v in range(12) if tree.children[v]]
    copies = {v: 12 + i for i, v in enumerate(internal)}
    children = [[*kids, copies[v]] if kids else [] for v, kids in enumerate(tree.children)] + [[] for _ in internal]
    again = Tree(children, *(np.append(a, a[internal]) for a in (tree.m, tree.f, np.append(tree.U, 0.0)[:-1])))
    law = whole(again, frozenset({TOP}))
    law[internal] += law[12:]
    assert off(law[:12], tree) > 0.01


def test_masses_that_omit_a_node_are_rejected(rng):
    """A bug: the measure below a node counts the leaves only."""
    tree = bushy(rng, -4.2)
    below = np.zeros(12)
    for v in range(11, -1, -1):  # children, but not themselves
        below[v] = sum(below[c] if tree.children[c] else tree.m[c] for c in tree.children[v])
    wrong = Tree(tree.children, tree.m, tree.f, tree.U, below)
    assert trial(wrong, frozenset({TOP}))[2] < -0.01
    assert off(whole(wrong, frozenset({TOP})), tree) > 0.001


def test_starting_again_before_the_end_of_a_trial_is_rejected(rng):
    tree = bushy(rng)
    assert off(whole(tree, frozenset({TOP})), tree) < 1e-14
    assert off(hasty(tree, frozenset({TOP})), tree) > 0.01


def hand_made(tree, x):
    """The tree as `Forms` whose box bounds are those of unit Gaussians at points on a line."""
    points = x + np.sqrt(-2 * np.log(tree.f))
    n = len(points)
    first = np.array([kids[0] if kids else 0 for kids in tree.children])
    last = np.array([kids[-1] + 1 if kids else 0 for kids in tree.children])
    with np.errstate(divide="ignore"):
        log_m, log_below = np.log(tree.m), np.log(tree.below)
    spread = np.sqrt(-2 * np.log(np.maximum(tree.U, 1e-300)))  # a box at that distance
    column = (x + spread)[:, None]
    ones = np.ones((n, 1))
    return Forms(
        np.arange(n), first, last, log_m, log_below, points[:, None], column, column, ones, ones, np.zeros((n, 0)),
        np.zeros(n),
    )  # fmt: skip


@pytest.mark.parametrize("patience", [1e300, 0.0, -5.0])
def test_compiled_draws_have_the_law(patience, rng):
    n = 100_000
    tree, z = bushy(rng), np.empty(n, np.int64)
    n_evals, n_trials = draw(*table_of(hand_made(tree, 0.3)), np.full((n, 1), 0.3), np.uint64(5), 0, 1, 1, patience, z)
    assert chi_square(np.bincount(z, minlength=12), tree.law) > BUDGET
    assert n_evals > n
    assert n_trials >= n


@pytest.mark.parametrize("bug", ["none", "mass", "bound"])
def test_wrong_trees_give_compiled_draws_away(bug, rng):
    """Bugs: measures that are too small, and the likelihood of a node taken for the bound of what is below it."""
    n = 100_000
    tree, z = bushy(rng, -4.2), np.empty(n, np.int64)
    forms = hand_made(tree, -4.2)
    if bug == "mass":
        forms = forms._replace(log_below=forms.log_below - 0.5)
    elif bug == "bound":
        forms = forms._replace(low=forms.centre, high=forms.centre)
    draw(*table_of(forms), np.full((n, 1), -4.2), np.uint64(5), 0, 1, 1, 1e300, z)
    assert (chi_square(np.bincount(z, minlength=12), tree.law) > BUDGET) == (bug == "none")


def test_forms_are_evaluated_as_written(rng):
    q, n = 3, 6
    Y, centre = rng.normal(size=(1, q)), rng.normal(size=(n, q))
    low, high = centre - rng.random((n, q)), centre + rng.random((n, q))
    gap = np.maximum(np.maximum(low - Y, Y - high), 0.0)
    scalars = (np.arange(n), np.zeros(n, int), np.zeros(n, int), np.zeros(n), np.zeros(n))
    none, radius = np.zeros((n, 0)), rng.random(n)
    upper = rng.normal(size=(n, q, q))
    for P, root in ((1, none), (q, none), (1, upper[:, *np.triu_indices(q)]), (0, none)):
        precision, floor = rng.random((n, P)), rng.random((n, P))
        shape, _, table = table_of(Forms(*scalars, centre, low, high, precision, floor, root, radius))
        out = np.empty((2, n))
        evaluate(shape, table, Y, 0, 0, n, out)
        if P == 0:
            f = centre @ Y[0]
            corner = np.maximum(Y * low, Y * high).sum(axis=1)
            u = np.minimum(corner, f + np.linalg.norm(Y) * radius)
        else:
            steps = (
                np.einsum("nij,nj->ni", np.triu(upper), Y - centre) ** 2 if root.size else precision * (Y - centre) ** 2
            )
            f, u = -0.5 * steps.sum(axis=1), -0.5 * (floor * gap**2).sum(axis=1)
        assert np.allclose(out, [f, u], rtol=1e-13)


def test_flat_draws_have_the_law(rng):
    log_f, log_w = rng.normal(size=9), np.log(rng.dirichlet(np.ones(9)))
    log_q = log_f + rng.uniform(-0.7, 0.7, 9)
    z = flat_draws(log_f, log_q, log_w, rng, 100_000)
    assert chi_square(np.bincount(z, minlength=9), softmax(log_w + log_f)) > BUDGET
    assert chi_square(np.bincount(z, minlength=9), softmax(log_w + log_q)) < BUDGET
