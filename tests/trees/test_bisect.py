"""Bisection trees: what every one of them is, whatever the data; and what they are for."""

import numpy as np
import pytest
from scipy import sparse

from weald.exceptions import DataError
from weald.trees.bisect import bisect, restricted

DATA = {
    "normal": lambda rng: rng.normal(size=(300, 3)),
    "constant": lambda rng: np.ones((300, 2)),
    "lattice": lambda rng: rng.integers(0, 2, size=(300, 2)).astype(np.float32),
    "heavy": lambda rng: rng.standard_cauchy(size=(300, 2)) ** 5,
    "growing": lambda rng: np.exp(np.linspace(0.0, 600.0, 300))[:, None],
    "wide": lambda rng: rng.normal(size=(300, 200)),
    "sparse": lambda rng: sparse.random_array((300, 500), density=0.02, rng=rng, format="csr"),
    "narrow sparse": lambda rng: sparse.csr_array(rng.poisson(0.5, size=(300, 4)) * 1.0),
    "two": lambda rng: rng.normal(size=(2, 2)),
    "one": lambda rng: np.zeros((1, 2)),
}


def check(tree, rows):
    """A binary tree in preorder whose nodes hold the rows of their children."""
    m = len(rows)
    assert sorted(tree.order) == sorted(rows)
    assert all(a.size == 2 * m - 1 for a in (tree.start, tree.stop, tree.right, tree.parent))
    assert (tree.start[0], tree.stop[0], tree.parent[0]) == (0, m, -1)
    for v in range(2 * m - 1):
        if tree.right[v] < 0:
            assert tree.stop[v] - tree.start[v] == 1
            assert tree.path(tree.start[v])[-1] == v
            continue
        left, right = tree.children(v)
        assert tree.parent[left] == tree.parent[right] == v
        assert (tree.start[left], tree.stop[right]) == (tree.start[v], tree.stop[v])
        assert tree.start[left] < tree.stop[left] == tree.start[right] < tree.stop[right]
        assert right == tree.below(left).stop
        assert tree.below(right).stop == tree.below(v).stop


def depths(tree):
    found = np.zeros(tree.parent.size, int)
    for v in range(1, found.size):
        found[v] = found[tree.parent[v]] + 1
    return found


@pytest.mark.parametrize("name", DATA)
def test_every_tree_is_one(name, rng):
    X = DATA[name](rng)
    tree = bisect(X, rng)
    check(tree, range(X.shape[0]))
    assert depths(tree).max() <= 16 + 5 * np.log2(X.shape[0] + 1) + 1


@pytest.mark.parametrize("name", ["normal", "constant", "growing"])
def test_restriction_is_a_tree_of_the_same_shape(name, rng):
    tree = bisect(DATA[name](rng), rng)
    for m in (1, 2, 7, 120, 300):
        rows = rng.choice(300, size=m, replace=False)
        found = restricted(tree, rows)
        check(found, rows)
        np.testing.assert_array_equal(found.order, [i for i in tree.order if i in set(rows)])
        wanted = {frozenset(tree.rows(v)) & set(rows) for v in range(599)} - {frozenset()}
        assert {frozenset(found.rows(v)) for v in range(2 * m - 1)} == wanted


def test_blobs_are_branches(rng):
    blob = np.arange(400) % 8
    tree = bisect(rng.normal(size=(400, 5)) + 50.0 * rng.normal(size=(8, 5))[blob], rng)
    branches = {frozenset(tree.rows(v)) for v in range(799)}
    assert all(frozenset(np.flatnonzero(blob == c)) in branches for c in range(8))


def test_wide_rows_keep_their_neighbours(rng):
    blob = np.arange(200) % 4
    X = np.hstack([30.0 * np.eye(4)[blob] + rng.normal(size=(200, 4)), rng.normal(size=(200, 300))])
    for C in (X, sparse.csr_array(X)):
        tree = bisect(C, rng)
        sides = [np.bincount(blob[tree.rows(v)], minlength=4) for v in tree.children(0)]
        assert np.minimum(*sides).sum() < 20


def test_duplicates_are_halved_at_random(rng):
    tops = [frozenset(bisect(np.ones((6, 2)), rng).rows(1)) for _ in range(200)]
    assert len(set(tops)) == 20
    assert {len(top) for top in tops} == {3}


def test_trees_are_random_and_reproducible(rng):
    X = rng.normal(size=(50, 2))
    first, again, other = (bisect(X, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first.order, other.order)


def test_data_stay_as_they_are(rng):
    X = rng.normal(size=(50, 2))
    before = X.copy()
    bisect(X, rng)
    np.testing.assert_array_equal(X, before)


def test_no_rows_are_refused(rng):
    with pytest.raises(DataError, match="at least one row"):
        bisect(np.empty((0, 2)), rng)
