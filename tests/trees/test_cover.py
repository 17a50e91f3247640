import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import weald
from weald.exceptions import DataError, ParameterError, WealdError
from weald.trees import CoverTree
from weald.trees.search import nearest


def manifold(n, d, D, rng):
    U = rng.uniform(-1, 1, size=(n, d))
    return np.sin(U @ rng.normal(size=(d, D))) + 0.5 * np.cos(U @ rng.normal(size=(d, D)))


def shapes():
    rng = np.random.default_rng(5)
    line = np.linspace(0, 1, 300)[:, None] * np.array([1.0, -2.0, 0.5])
    grid = np.stack(np.meshgrid(np.arange(15.0), np.arange(20.0)), axis=-1).reshape(-1, 2)
    normal = rng.normal(size=(400, 5))
    return {
        "one point": np.array([[3.0, 4.0]]),
        "two points": np.array([[0.0], [1.0]]),
        "constant": np.full((200, 3), 7.5),
        "normal": normal,
        "float32": normal.astype(np.float32),
        "manifold": manifold(600, 2, 10, rng),
        "collinear": line,
        "grid": grid,
        "duplicates": np.repeat(normal[:40], 6, axis=0),
        "many duplicates of one": np.vstack([np.zeros((300, 5)), normal[:50]]),
        "huge offset": 1e9 + normal,
        "huge offset, float32": (1e6 + 8 * np.round(normal * 16)).astype(np.float32),
        "tiny": normal * 1e-140,
        "large": normal * 1e140,
        "outlier": np.vstack([normal, [[1e12] * 5]]),
        "scales": np.sign(normal[:, :1]) * 10.0 ** rng.uniform(-100, 100, size=(400, 1)),
        "wide": rng.normal(size=(60, 300)),
    }


NAMES = list(shapes())


def brute(X, Y):
    X, Y = np.asarray(X, np.float64), np.asarray(Y, np.float64)
    return np.sqrt(((Y[:, None, :] - X[None]) ** 2).sum(axis=2))


def same_neighbours(tree, X, numbers, Y, k):
    """Distances equal those of brute force, and belong to the points that are named."""
    distances, indices = tree.query(Y, k)
    all_distances = brute(X, Y)
    np.testing.assert_allclose(distances, np.sort(all_distances, axis=1)[:, :k], rtol=1e-13, atol=0)
    row = {int(number): i for i, number in enumerate(numbers)}
    for q, named in enumerate(indices):
        assert len(set(named.tolist())) == k
        mine = all_distances[q, [row[int(i)] for i in named]]
        np.testing.assert_allclose(distances[q], mine, rtol=1e-13, atol=0)


def same_balls(tree, X, numbers, Y, r):
    found = tree.query_radius(Y, r)
    inside = brute(X, Y) <= np.broadcast_to(r, len(Y))[:, None]
    assert len(found) == len(Y)
    assert all(np.array_equal(f, np.sort(numbers[i])) for f, i in zip(found, inside, strict=True))


def queries(X, rng, m=25):
    spread = np.ptp(X, axis=0) + 1e-3
    near = X[rng.integers(0, len(X), m)] + 0.1 * spread * rng.normal(size=(m, X.shape[1]))
    return np.vstack([near, X[:5], X.mean(axis=0) + 10 * spread])


@pytest.mark.parametrize("base", [1.3, 2.0, 4.0])
@pytest.mark.parametrize("name", NAMES)
def test_batch_build_is_a_cover_tree_with_the_neighbours_of_brute_force(name, base, rng):
    X = shapes()[name]
    before = X.copy()
    tree = CoverTree(base).fit(X)
    assert tree.check() is tree
    assert tree.n_points_ == len(X)
    assert tree.nodes_.points.dtype == X.dtype
    Y, numbers = queries(X, rng), np.arange(len(X))
    for k in {1, min(7, len(X)), len(X)}:
        same_neighbours(tree, X, numbers, Y, k)
    r = np.median(brute(X, Y), axis=1) * 0.73
    same_balls(tree, X, numbers, Y, r)
    same_balls(tree, X, numbers, Y, 0.0)
    same_balls(tree, X, numbers, Y, np.inf)
    assert np.array_equal(X, before)


@pytest.mark.parametrize("name", NAMES)
def test_incremental_build_is_a_cover_tree_too(name, rng):
    X = shapes()[name]
    X = X[rng.permutation(len(X))][:120]
    tree = CoverTree().fit(X[:1])
    assert [tree.insert(x) for x in X[1:]] == list(range(1, len(X)))
    tree.check()
    same_neighbours(tree, X, np.arange(len(X)), queries(X, rng), min(5, len(X)))


@pytest.mark.parametrize("name", ["manifold", "duplicates", "grid", "scales", "float32"])
@pytest.mark.parametrize("base", [1.3, 2.0])
def test_levels_are_nested_and_cover(name, base):
    X = shapes()[name]
    tree = CoverTree(base).fit(X)
    for x in X[::3]:
        tree.insert(x)
    X = np.vstack([X, X[::3]]).astype(np.float64)
    levels = tree.levels_
    assert list(levels) == sorted(levels, reverse=True)
    above = set()
    for level, numbers in levels.items():
        assert above < set(numbers.tolist())
        above = set(numbers.tolist())
        ancestors = tree.ancestor_at(level)
        assert set(ancestors.tolist()) == above
        assert np.array_equal(ancestors[numbers], numbers)
        far = np.sqrt(((X - X[ancestors]) ** 2).sum(axis=1)).max()
        assert far <= base ** (level + 1) / (base - 1) * (1 + 1e-12)
    assert above == set(range(len(X)))
    assert np.array_equal(tree.ancestor_at(min(levels) - 3), np.arange(len(X)))
    assert len(set(tree.ancestor_at(max(levels) + 3).tolist())) == 1


def test_radii_bound_each_other(rng):
    tree = CoverTree(1.5).fit(manifold(2000, 3, 8, rng))
    nodes = tree.nodes_
    assert np.all(nodes.radius <= nodes.path * (1 + 1e-12))
    assert np.all(nodes.path <= 1.5 ** (nodes.level + 1) / 0.5)
    assert np.all(nodes.radius <= 1.5**nodes.level * (1 + 1e-12))
    assert np.any(nodes.radius < 0.9 * nodes.path)
    assert nodes.radius[0] == pytest.approx(brute(nodes.points, nodes.points[:1]).max())


def random_point(rng, live, X):
    """Now and then a duplicate, a point on a line or a lattice, a near duplicate, an outlier."""
    kind = rng.integers(0, 12)
    if kind < 2 and live:
        return X[live[rng.integers(len(live))]].copy()
    if kind == 2 and live:
        return X[live[rng.integers(len(live))]] + 1e-9 * rng.normal(size=3)
    if kind < 5:
        return rng.integers(-8, 9) * np.array([0.5, 0.25, -1.0])
    if kind < 7:
        return rng.integers(-3, 4, size=3).astype(float)
    if kind == 7 and rng.random() < 0.05:
        return rng.normal(size=3) * 10.0 ** rng.integers(1, 6)
    return rng.normal(size=3)


@pytest.mark.parametrize("base", [1.3, 2.0])
def test_invariants_under_ten_thousand_random_inserts_and_removes(base):
    rng = np.random.default_rng(17)
    X = dict(enumerate(rng.normal(size=(150, 3))))
    tree, live = CoverTree(base).fit(np.stack(list(X.values()))), list(X)
    for step in range(10_000):
        grow = 0.7 if (step // 1000) % 2 == 0 else 0.3  # between about 100 and 550 points
        if rng.random() < grow or not live:
            x = random_point(rng, live, X)
            number = tree.insert(x)
            assert number not in X
            X[number] = x
            live.append(number)
        else:
            at = int(rng.integers(len(live)))
            live[at], live[-1] = live[-1], live[at]
            tree.remove(live.pop())
        if step % 100 == 99:
            tree.check()
            assert tree.n_points_ == len(live)
        if step % 500 == 499:
            P, numbers = np.stack([X[i] for i in live]), np.array(live)
            Y = queries(P, rng)
            same_neighbours(tree, P, numbers, Y, min(6, len(live)))
            same_balls(tree, P, numbers, Y, 0.9)
    assert set(live) == {int(i) for i in np.flatnonzero(tree.ancestor_at(-100) >= 0)}


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 25), st.integers(1, 3)),
        elements=st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6)),
    ),
    st.lists(st.integers(0, 24), max_size=30),
    st.sampled_from([1.1, 2.0, 3.7]),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_small_set_in_any_order(X, order, base):
    tree, live = CoverTree(base).fit(X), dict(enumerate(X))
    for i in order:
        if i in live and len(live) > 1:
            del live[i]
            tree.remove(i)
        else:
            x = X[i % len(X)]
            live[tree.insert(x)] = x
    tree.check()
    P, numbers = np.stack(list(live.values())), np.array(list(live))
    same_neighbours(tree, P, numbers, X[:3], min(4, len(P)))
    same_balls(tree, P, numbers, X[:3], 1.0)


def test_an_emptied_tree_can_be_filled_again(rng):
    X = rng.normal(size=(12, 2))
    tree = CoverTree().fit(X)
    for i in rng.permutation(12):
        tree.remove(int(i))
        tree.check()
    assert tree.n_points_ == 0
    assert tree.levels_ == {}
    assert [len(found) for found in tree.query_radius(X, 9.0)] == [0] * 12
    assert tree.expansion_rate_ == 1.0
    with pytest.raises(ParameterError, match="at most"):
        tree.query(X, 1)
    assert [tree.insert(x) for x in X] == list(range(12, 24))
    same_neighbours(tree.check(), X, np.arange(12, 24), X, 3)


def test_parents_stand_before_children_and_numbers_stay(rng):
    X = rng.normal(size=(300, 4))
    tree = CoverTree().fit(X)
    for i in range(0, 300, 2):
        tree.remove(i)
    for x in X[::2]:
        tree.insert(x)
    nodes = tree.check().nodes_
    alive = np.flatnonzero(nodes.number >= 0)[1:]
    assert np.all(nodes.parent[alive] < alive)
    _, indices = tree.query(X)
    assert np.array_equal(indices[1::2, 0], np.arange(1, 300, 2))
    assert np.array_equal(indices[::2, 0], np.arange(300, 450))


def test_float32_and_float64_agree(rng):
    X = rng.normal(size=(500, 6)).astype(np.float32)
    Y = rng.normal(size=(40, 6)).astype(np.float32)
    single, double = CoverTree().fit(X), CoverTree().fit(X.astype(np.float64))
    assert np.array_equal(single.query(Y, 5)[0], double.query(Y.astype(np.float64), 5)[0])


def test_expansion_rate_knows_the_dimension_of_the_data_not_of_the_space(rng):
    rates = []
    for d in (1, 2, 4):
        X = rng.uniform(size=(8000, d)) @ np.linalg.qr(rng.normal(size=(20, d)))[0].T
        rates.append(CoverTree().fit(X).expansion_rate_)
    assert 2 <= rates[0] < rates[1] < rates[2]
    assert rates[0] < 4
    assert rates[1] < 8
    assert CoverTree().fit([[1.0]]).expansion_rate_ == 1.0


def test_saved_and_loaded_it_is_the_same_tree(tmp_path, rng):
    X = rng.normal(size=(200, 3))
    tree = CoverTree(1.7).fit(X)
    for i in range(0, 60, 2):
        tree.remove(i)
    tree.insert([0.1, 0.2, 0.3])
    weald.save(tree, tmp_path / "tree.weald")
    back = weald.load(tmp_path / "tree.weald")
    assert back.base == 1.7
    assert all(np.array_equal(a, b) for a, b in zip(back.nodes_, tree.nodes_, strict=True))
    for a in (tree, back):
        a.insert([9.0, 9.0, 9.0])
        a.remove(1)
        a.check()
    assert all(np.array_equal(a, b) for a, b in zip(back.nodes_, tree.nodes_, strict=True))
    assert np.array_equal(back.query(X, 4)[1], tree.query(X, 4)[1])


@pytest.mark.parametrize(
    ("field", "value"),
    [("child", 10_000), ("sibling", -7), ("parent", 150), ("number", 3), ("level", 99), ("child", 0)],
)
def test_a_damaged_file_never_reaches_compiled_code(tmp_path, rng, field, value):
    tree = CoverTree().fit(rng.normal(size=(200, 3)))
    getattr(tree.nodes_, field)[5] = value
    weald.save(tree, tmp_path / "tree.weald")
    with pytest.raises(DataError, match="do not fit together"):
        weald.load(tmp_path / "tree.weald").query([[0.0, 0.0, 0.0]])


@pytest.mark.parametrize("name", ["_store", "_slots", "_n_slots", "base_"])
def test_a_file_with_a_part_missing_is_refused(tmp_path, rng, name):
    tree = CoverTree().fit(rng.normal(size=(20, 3)))
    setattr(tree, name, None)
    weald.save(tree, tmp_path / "tree.weald")
    with pytest.raises(DataError, match="do not fit together"):
        weald.load(tmp_path / "tree.weald").query([[0.0, 0.0, 0.0]])


def deep_leaf(nodes):
    """The last leaf that is no child of the root."""
    return next(s for s in range(len(nodes.number) - 1, 0, -1) if nodes.child[s] < 0 and nodes.parent[s] > 0)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda nodes, s: nodes.radius.__setitem__(0, nodes.radius[0] * 0.99), "radii"),
        (lambda nodes, s: nodes.path.__setitem__(0, nodes.path[0] * 1.01), "radii"),
        (lambda nodes, s: nodes.distance.__setitem__(s, nodes.distance[s] * 1.01), "covering"),
        (lambda nodes, s: nodes.points.__setitem__(s, 1e3), "covering"),
        (lambda nodes, s: nodes.level.__setitem__(s, nodes.level[s] - 1), "nesting"),
        (lambda nodes, s: nodes.level.__iadd__(3), "separation"),
        (lambda nodes, s: nodes.level.__isub__(1), "covering"),
        (lambda nodes, s: nodes.parent.__setitem__(s, nodes.parent[nodes.parent[s]]), "nesting"),
        (lambda nodes, s: nodes.sibling.__setitem__(int(nodes.child[0]), -1), "nesting"),
    ],
)
def test_check_finds_each_kind_of_damage(damage, message, rng):
    tree = CoverTree().fit(rng.normal(size=(300, 3)))
    nodes = tree.check().nodes_
    damage(nodes, deep_leaf(nodes))
    with pytest.raises(WealdError, match=message):
        tree.check()


def test_injected_bug_radii_too_small_lose_neighbours(rng):
    """Radii short by a tenth prune what brute force finds."""
    P = manifold(3200, 3, 6, rng)
    X, Y = P[200:], P[:200]
    nodes = CoverTree().fit(X).nodes_
    truth = np.sort(brute(X, Y), axis=1)[:, :3]
    missed = []
    for radius in (nodes.radius, 0.9 * nodes.radius):
        distances, indices = np.empty((200, 3)), np.empty((200, 3), np.int64)
        nearest(nodes._replace(radius=radius), Y, distances, indices)
        missed.append(np.count_nonzero(distances > truth * (1 + 1e-12)))
    assert missed[0] == 0
    assert missed[1] > 0


@pytest.mark.parametrize("base", [1.0, 0, -2.0, np.nan, np.inf, "2", None, True])
def test_bad_base(base):
    with pytest.raises(ParameterError, match="base"):
        CoverTree(base).fit([[1.0], [2.0]])


@pytest.mark.parametrize(
    "X", [[[np.nan, 1.0]], [[np.inf, 1.0]], np.empty((0, 2)), [1.0, 2.0], [["a"]], [[1e200], [0.0]]]
)
def test_bad_data(X):
    with pytest.raises(DataError):
        CoverTree().fit(X)


def test_bad_calls(rng):
    tree = CoverTree().fit(rng.normal(size=(10, 2)))
    for k in (0, 11, 1.5, True):
        with pytest.raises(ParameterError, match="k must"):
            tree.query([[0.0, 0.0]], k)
    for r in (-1.0, np.nan, [1.0, 2.0]):
        with pytest.raises(ParameterError, match="r must"):
            tree.query_radius([[0.0, 0.0]], r)
    for Y in ([[0.0]], [0.0, 0.0], [[np.nan, 0.0]]):
        with pytest.raises(DataError):
            tree.query(Y)
    for x in ([0.0], [np.nan, 0.0], [[0.0, 0.0], [1.0, 1.0]], [1e200, 0.0]):
        with pytest.raises(DataError):
            tree.insert(x)
    tree.remove(3)
    for i in (3, 10, -1, 1.0, None, True):
        with pytest.raises(ParameterError, match="number of a point"):
            tree.remove(i)
    assert tree.check().n_points_ == 9


def test_unfitted_and_cloned():
    with pytest.raises(NotFittedError):
        CoverTree().query([[0.0]])
    with pytest.raises(NotFittedError):
        CoverTree().insert([0.0])
    tree = CoverTree(3.0).fit([[0.0], [1.0]])
    assert clone(tree).get_params() == {"base": 3.0}
    tree.set_params(base=1.2)
    tree.insert([0.3])
    assert tree.check().base_ == 3.0
