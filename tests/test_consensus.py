"""Losses by definition, point estimates by enumeration of every partition, credible balls by their properties."""

from __future__ import annotations

import itertools
import time
import tracemalloc

import numpy as np
import pytest

from weald import consensus as cs
from weald.consensus import losses, search
from weald.diagnostics import co_clustering
from weald.exceptions import ParameterError
from weald.metrics import variation_of_information

LOSSES = ["vi", "binder"]


def partitions(n):
    """Every partition of n items, as labels in order of first appearance."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*p, k] for p in found for k in range(max(p) + 2)]
    return np.array(found)


P6 = partitions(6)


def entropy(a, b=0):
    counts = np.unique(100 * a + b, return_counts=True)[1]
    p = counts / counts.sum()
    return -(p * np.log(p)).sum()


def vi(a, b):
    return 2 * entropy(a, b) - entropy(a) - entropy(b)


def vi_wrong_sign(a, b):
    return -2 * entropy(a, b) + entropy(a) + entropy(b)


def binder(a, b):
    return ((a[:, None] == a) != (b[:, None] == b)).mean()


DEFINITIONS = {"vi": vi, "binder": binder}


@pytest.fixture(scope="module")
def tables():
    """The loss between any two of the 203 partitions of six items, by definition; it is symmetric."""
    halves = {name: np.zeros((203, 203)) for name in LOSSES}
    for name, (i, j) in itertools.product(LOSSES, itertools.combinations(range(203), 2)):
        halves[name][i, j] = DEFINITIONS[name](P6[i], P6[j])
    return {name: half + half.T for name, half in halves.items()}


def noisy(rng, n_draws, n, k, share):
    """A true partition, and draws in which a share of the items are put anywhere and names are shuffled."""
    truth = rng.integers(0, k, n)
    Z = np.where(rng.random((n_draws, n)) < share, rng.integers(0, k, (n_draws, n)), truth)
    return truth, np.stack([rng.permutation(k)[z] for z in Z])


def posteriors(rng, n_posteriors):
    """Draws as rows of P6: scattered, around a centre, and few distinct."""
    for j in range(n_posteriors):
        n_draws = rng.integers(1, 30)
        if j % 3 == 1:
            Z = noisy(rng, n_draws, 6, int(rng.integers(1, 5)), 0.35)[1]
            yield np.array([np.flatnonzero((cs.canonical(z) == P6).all(1))[0] for z in Z])
        else:
            yield rng.choice(rng.integers(0, 203, 203 if j % 3 == 0 else 3), n_draws)


def same(a, b):
    return np.array_equal(cs.canonical(a), cs.canonical(b))


def agrees(definition, loss, rng):
    """Whether `expected_loss` is the mean of a loss given by its definition."""
    return all(
        np.isclose(cs.expected_loss(z, Z, loss), np.mean([definition(z, draw) for draw in Z]), rtol=1e-12, atol=1e-14)
        for z, Z in ((rng.integers(0, 4, 12), rng.integers(-3, rng.integers(1, 9), (5, 12))) for _ in range(20))
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_expected_loss_is_its_definition(loss, rng):
    assert agrees(DEFINITIONS[loss], loss, rng)


def test_wrong_definitions_are_rejected(rng):
    assert not agrees(vi_wrong_sign, "vi", rng)
    assert not agrees(lambda a, b: vi(a, b) / np.log(2), "vi", rng)
    assert not agrees(binder, "vi", rng)
    assert not agrees(vi, "binder", rng)


def test_expected_loss_agrees_with_metrics(rng):
    truth, Z = noisy(rng, 30, 400, 7, 0.3)
    each = [variation_of_information(truth, z) for z in Z]
    assert cs.expected_loss(truth, Z) == pytest.approx(np.mean(each), rel=1e-13)
    assert cs.expected_loss(truth, Z[:1]) == pytest.approx(each[0], rel=1e-13)


@pytest.mark.parametrize("loss", LOSSES)
def test_loss_is_zero_only_for_the_same_partition(loss, rng):
    z = rng.integers(0, 9, 1000)
    assert cs.expected_loss(z, 7 - z[None], loss) == 0
    other = z.copy()
    other[0] = 99
    assert cs.expected_loss(other, z[None], loss) > 0


def misses(loss, tables, rng, n_posteriors, **options):
    """How often the estimate is not a partition of least expected loss among all 203."""
    n_missed = 0
    for rows in posteriors(rng, n_posteriors):
        found = cs.point_estimate(P6[rows], loss, rng=rng, **options)
        expected = tables[loss][:, rows].mean(axis=1)
        here = expected[(cs.canonical(found.labels) == P6).all(1)].item()
        assert found.loss == pytest.approx(here, abs=1e-12)
        assert found.n_clusters == len(np.unique(found.labels)) == found.labels.max() + 1
        allowed = P6.max(axis=1) < options.get("max_clusters", 6)
        n_missed += found.loss > expected[allowed].min() + 1e-9
    return n_missed


@pytest.mark.parametrize("loss", LOSSES)
def test_estimate_is_the_best_of_all_partitions(loss, tables, rng):
    assert misses(loss, tables, rng, 300) == 0


@pytest.mark.parametrize("max_clusters", [1, 2, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_estimate_is_the_best_with_few_clusters(loss, max_clusters, tables, rng):
    """A bound that is in force makes a rougher landscape: the search may miss one in fifty."""
    assert misses(loss, tables, rng, 100, max_clusters=max_clusters) <= (0 if max_clusters == 1 else 2)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_search_with_the_wrong_objective_is_rejected(loss, tables, rng, monkeypatch):
    """The sign turned round, and the variation of information with the curve of Binder's loss and the reverse."""
    right, other = search.tables_of, LOSSES[1 - LOSSES.index(loss)]
    monkeypatch.setattr(search, "tables_of", lambda *args: right(*args)._replace(g=-right(*args).g))
    assert misses(loss, tables, rng, 100) > 3
    monkeypatch.setattr(search, "tables_of", lambda c, w, wanted: right(c, w, wanted._replace(loss=other)))
    assert misses(loss, tables, rng, 100, n_starts=1) > 3


def state(tables):
    """The tables as dense counts (rows, clusters), whatever the order of cells."""
    dense = np.zeros((len(tables.span), len(tables.size)), int)
    for r, (first, n_cells) in enumerate(tables.span):
        for k, count in tables.cells[first : first + n_cells]:
            assert count > 0
            assert dense[r, k] == 0
            dense[r, k] = count
    return dense


@pytest.mark.parametrize("loss", LOSSES)
def test_steps_change_the_objective_by_what_they_say(loss, rng):
    """Putting, taking and choosing, with weights, against contingency tables counted anew."""
    Z = losses.checked_draws(rng.integers(0, 4, (7, 15)))
    weight = rng.integers(1, 5, 15)
    tables = search.tables_of(Z.T, weight, search.Search(loss, 1, 5))
    offset = np.concatenate([[0], np.cumsum(Z.max(1) + 1)])

    def objective():
        dense = np.zeros((offset[-1], 5), int)
        for t, i in itertools.product(range(7), np.flatnonzero(tables.z >= 0)):
            dense[offset[t] + Z[t, i], tables.z[i]] += weight[i]
        np.testing.assert_array_equal(state(tables), dense)
        size = np.bincount(tables.z[tables.z >= 0], weight[tables.z >= 0], minlength=5).astype(int)
        np.testing.assert_array_equal(tables.size, size)
        assert tables.top[0] == max(np.flatnonzero(size), default=-1) + 1
        shared = tables.g[weight[tables.z >= 0]].sum() * 7
        return 7 * tables.g[size].sum() - 2 * tables.g[dense].sum() + shared

    for _ in range(200):
        i, before = rng.integers(15), objective()
        if tables.z[i] >= 0:
            assert search.change(tables, i, tables.z[i], -1) == pytest.approx(before - objective(), abs=1e-9)
            continue
        tried = []
        for k in range(5):
            tried.append(search.change(tables, i, k, 1))
            assert tried[k] == pytest.approx(objective() - before, abs=1e-9)
            search.change(tables, i, k, -1)
        best, least, _ = search.best_place(tables, i, 5)
        assert least == pytest.approx(min(tried), abs=1e-9)
        k = rng.integers(5) if rng.random() < 0.7 else best
        search.change(tables, i, k, 1)
        assert search.best_place(tables, i, 5)[2] == pytest.approx(tried[k], abs=1e-9)
        assert not tables.score.any()


@pytest.mark.parametrize("loss", LOSSES)
def test_no_single_move_improves_the_estimate(loss, rng):
    _, Z = noisy(rng, 40, 60, 4, 0.55)
    found = cs.point_estimate(Z, loss, rng=rng)
    for i, k in itertools.product(range(60), range(found.n_clusters + 1)):
        z = found.labels.copy()
        z[i] = k
        assert cs.expected_loss(z, Z, loss) >= found.loss - 1e-10
    assert found.loss <= min(cs.expected_loss(z, Z, loss) for z in Z)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "k", "share"), [(300, 3, 0.2), (300, 12, 0.2), (2000, 20, 0.2)])
def test_noisy_copies_give_the_truth_back(loss, n, k, share, rng):
    truth, Z = noisy(rng, 100, n, k, share)
    found = cs.point_estimate(Z, loss, rng=rng)
    assert same(found.labels, truth)
    assert (np.diff(np.bincount(found.labels)) <= 0).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_names_of_labels_and_order_of_items_do_not_matter(loss, rng):
    truth, Z = noisy(rng, 50, 80, 5, 0.3)
    found = cs.point_estimate(Z, loss, rng=np.random.default_rng(0))
    renamed = np.stack([rng.permutation(10**9 + np.arange(5) ** 3)[z] for z in Z])
    again = cs.point_estimate(renamed, loss, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(found.labels, again.labels)
    assert cs.expected_loss(truth, renamed, loss) == cs.expected_loss(truth, Z, loss)
    p = rng.permutation(80)
    shuffled = cs.point_estimate(Z[:, p], loss, rng=np.random.default_rng(0))
    assert shuffled.loss == pytest.approx(found.loss, rel=1e-12)
    assert loss == "binder" or same(shuffled.labels, found.labels[p])  # Binder's least loss is attained twice here
    ball, other = (cs.credible_ball(draws, found.labels, 0.8, loss) for draws in (Z, renamed))
    for name in ("radius", "horizontal", "upper", "lower"):
        np.testing.assert_array_equal(getattr(ball, name), getattr(other, name))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.int64])
def test_any_integers_will_do(dtype, rng):
    Z = rng.integers(0, 5, (6, 20))
    expected = cs.point_estimate(Z, rng=np.random.default_rng(0))
    found = cs.point_estimate(np.asfortranarray(Z.astype(dtype)), rng=np.random.default_rng(0))
    np.testing.assert_array_equal(found.labels, expected.labels)
    extreme = np.array([[np.iinfo(dtype).min, np.iinfo(dtype).max, np.iinfo(dtype).max]], dtype)
    np.testing.assert_array_equal(cs.point_estimate(extreme, rng=rng).labels, [1, 0, 0])


def test_same_generator_same_estimate_and_data_unchanged(rng):
    _, Z = noisy(rng, 40, 100, 6, 0.6)
    before = Z.copy()
    first, second = (cs.point_estimate(Z, rng=np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(first.labels, second.labels)
    assert first.loss == second.loss
    np.testing.assert_array_equal(Z, before)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("z", [[0], [3, 3, 1, 2, 1], [0] * 6, [*range(6)], [0] * 50 + [1] * 50])
@pytest.mark.parametrize("n_draws", [1, 3])
def test_draws_that_agree_are_the_estimate(z, n_draws, loss, rng):
    Z = np.array([z] * n_draws)
    found = cs.point_estimate(Z, loss, rng=rng)
    assert same(found.labels, z)
    assert found.loss == 0
    ball = cs.credible_ball(Z, found.labels, loss=loss)
    assert ball.radius == 0
    assert all(same(edge, z) for edge in (ball.horizontal, ball.upper, ball.lower))
    np.testing.assert_array_equal(cs.uncertainty(Z, found.labels), 0)
    assert cs.n_clusters_interval(Z) == (len(set(z)), len(set(z)))


def test_items_always_together_are_together(rng):
    """Copies of items change nothing but weights: they stay together, and weigh as so many items."""
    _, Z = noisy(rng, 30, 40, 4, 0.5)
    copies = rng.integers(1, 6, 40)
    many = np.repeat(Z, copies, axis=1)
    for loss in LOSSES:
        labels = cs.point_estimate(many, loss, rng=rng).labels
        assert all(len(set(block)) == 1 for block in np.split(labels, np.cumsum(copies)[:-1]))


def test_many_items_are_searched_through_a_subset(rng, monkeypatch):
    truth, Z = noisy(rng, 60, 900, 6, 0.3)
    monkeypatch.setattr(search, "MAX_ITEMS", 150)
    assert same(cs.point_estimate(Z, rng=rng).labels, truth)
    assert cs.point_estimate(Z, rng=rng, max_clusters=3).n_clusters <= 3


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 1.0])
def test_ball_has_its_mass_and_its_edges_are_in_it(level, loss, rng):
    Z = rng.integers(0, rng.integers(1, 6, 40)[:, None], (40, 12))
    z = cs.point_estimate(Z, loss, rng=rng).labels
    ball = cs.credible_ball(Z, z, level, loss)
    distance = np.array([DEFINITIONS[loss](z, draw) for draw in Z])
    inside = distance <= ball.radius + 1e-10
    assert inside.mean() >= level
    assert (distance < ball.radius - 1e-10).mean() < level
    n_clusters = np.array([len(set(draw)) for draw in Z])
    fewest, most = n_clusters[inside].min(), n_clusters[inside].max()
    for edge, among in (
        (ball.horizontal, inside),
        (ball.upper, n_clusters == fewest),
        (ball.lower, n_clusters == most),
    ):
        assert any(same(edge, draw) for draw in Z[inside & among])
        assert DEFINITIONS[loss](z, edge) == pytest.approx(distance[inside & among].max(), abs=1e-10)


def test_ball_level_counts_draws_exactly():
    Z = np.array([[0] * 10] * 19 + [[0] * 9 + [1]])
    assert cs.credible_ball(Z, np.zeros(10, int), 0.95).radius == 0
    assert cs.credible_ball(Z, np.zeros(10, int), 0.951).radius > 0


def test_co_clustering_with_is_a_row_of_the_matrix(rng):
    Z = rng.integers(0, 3, (25, 14))
    C = co_clustering(Z)
    for i in (0, 7, -1):
        np.testing.assert_array_equal(cs.co_clustering_with(Z, i), C[i])


def test_uncertainty_is_read_off_the_matrix(rng):
    Z = rng.integers(0, 4, (25, 14))
    z = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 5, 5, 5, 9, 7])
    C = co_clustering(Z)
    alone = [np.mean([(draw == draw[i]).sum() == 1 for draw in Z]) for i in range(14)]
    others = [np.flatnonzero((z == z[i]) & (np.arange(14) != i)) for i in range(14)]
    expected = [1 - (C[i, others[i]].mean() if len(others[i]) else alone[i]) for i in range(14)]
    np.testing.assert_allclose(cs.uncertainty(Z, z), expected, atol=1e-14)


def test_number_of_clusters(rng):
    Z = rng.integers(0, rng.integers(1, 9, 200)[:, None], (200, 30))
    n_clusters = [len(set(z)) for z in Z]
    values, p = cs.n_clusters_posterior(Z)
    np.testing.assert_array_equal(values, np.unique(n_clusters))
    np.testing.assert_allclose(p, [n_clusters.count(k) / 200 for k in values])
    assert p.sum() == pytest.approx(1)
    for level in (0.1, 0.5, 0.77, 0.95, 1.0):
        lo, hi = cs.n_clusters_interval(Z, level)
        mass = {(a, b): p[(values >= a) & (values <= b)].sum() for a in values for b in values if a <= b}
        good = [(b - a, -mass[a, b], a) for a, b in mass if mass[a, b] >= level - 1e-12]
        width, negative_mass, start = min(good)
        assert hi - lo == width
        assert mass[lo, hi] == pytest.approx(-negative_mass)
        assert lo >= start


def test_interval_skips_numbers_that_do_not_occur():
    Z = np.array([[0, 0, 0, 0]] * 2 + [[0, 1, 2, 3]] * 2)
    assert cs.n_clusters_interval(Z, 0.5) == (1, 1)
    assert cs.n_clusters_interval(Z, 0.51) == (1, 4)


def test_canonical():
    z = np.array([7, -2, -2, 7, 3, -2])
    np.testing.assert_array_equal(cs.canonical(z), [0, 1, 1, 0, 2, 1])
    np.testing.assert_array_equal(cs.canonical(z, "size"), [1, 0, 0, 1, 2, 0])
    np.testing.assert_array_equal(cs.canonical(np.array([4, 1, 9, 1, 4]), "size"), [0, 1, 2, 1, 0])
    assert len(cs.canonical(np.array([], int))) == 0


@pytest.mark.parametrize("Z", [np.zeros(5, int), np.zeros((0, 5), int), np.zeros((5, 0), int), np.zeros((2, 5))])
def test_wrong_draws(Z, rng):
    for call in (
        cs.point_estimate,
        lambda Z, rng: cs.n_clusters_interval(Z),
        lambda Z, rng: cs.co_clustering_with(Z, 0),
    ):
        with pytest.raises(ParameterError, match="Z must hold integers"):
            call(Z, rng=rng)


def test_wrong_parameters(rng):
    Z = np.zeros((3, 5), int)
    with pytest.raises(ParameterError, match="loss must be"):
        cs.expected_loss(Z[0], Z, "jaccard")
    with pytest.raises(ParameterError, match="loss must be"):
        cs.point_estimate(Z, "VI", rng=rng)
    for name in ("n_starts", "max_clusters"):
        with pytest.raises(ParameterError, match=f"{name} must be at least 1"):
            cs.point_estimate(Z, rng=rng, **{name: 0})
    for z in (Z[0, :4], Z):
        with pytest.raises(ParameterError, match="one label for each of the 5 items"):
            cs.uncertainty(Z, z)
    for level in (0, -1, 1.1, np.nan):
        with pytest.raises(ParameterError, match="level must lie"):
            cs.credible_ball(Z, Z[0], level)
        with pytest.raises(ParameterError, match="level must lie"):
            cs.n_clusters_interval(Z, level)
    with pytest.raises(ParameterError, match="i must be one of the 5 items"):
        cs.co_clustering_with(Z, 5)
    with pytest.raises(ParameterError, match="order must be"):
        cs.canonical(Z[0], "colour")
    with pytest.raises(ParameterError, match="z must have shape"):
        cs.canonical(Z)


def test_memory_grows_as_the_labels(rng):
    """12,000 items: a matrix of pairs would be a gigabyte; even for draws of singletons a few times the labels."""
    Z = np.concatenate([noisy(rng, 4, 12_000, 5, 0.2)[1], np.arange(12_000)[None]])
    tracemalloc.start()
    z = cs.point_estimate(Z, n_starts=1, rng=rng).labels
    cs.uncertainty(Z, z)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * Z.nbytes


def test_a_thousand_items_in_seconds(rng):
    truth, Z = noisy(rng, 500, 1000, 10, 0.2)
    start = time.process_time()
    found = cs.point_estimate(Z, rng=rng)
    assert time.process_time() - start < 15
    assert same(found.labels, truth)


@pytest.mark.slow
def test_ten_thousand_items_in_tens_of_seconds(rng):
    truth, Z = noisy(rng, 200, 10_000, 10, 0.2)
    start = time.process_time()
    found = cs.point_estimate(Z, rng=rng)
    assert time.process_time() - start < 60
    assert same(found.labels, truth)


def test_an_item_is_alone_only_with_support(rng):
    """Three clusters of ten, one item that is in each of them by turns, and one that is alone in most draws."""
    Z = np.tile(np.append(np.repeat([0, 1, 2], 10), [0, 3]), (60, 1))
    Z[:, 30] = np.arange(60) % 3
    Z[:20, 31] = 1
    free = cs.point_estimate(Z, rng=rng)
    supported = cs.point_estimate(Z, support=0.5, rng=rng)
    assert (np.bincount(free.labels)[free.labels[30:]] == 1).all()
    sizes = np.bincount(supported.labels)[supported.labels]
    assert sizes[30] == 11
    assert sizes[31] == 1
    assert supported.n_clusters == 4
    assert supported.loss >= free.loss
    np.testing.assert_array_equal(cs.canonical(supported.labels[:30]), np.repeat([0, 1, 2], 10))


def test_items_that_are_never_together_stay_alone_or_not_at_all(rng):
    Z = np.array([[0, 1, 2], [0, 1, 2]])
    assert cs.point_estimate(Z, support=0.9, rng=rng).n_clusters == 3
    pairs = np.array([[0, 0, 1], [0, 1, 0], [0, 1, 1]])
    assert cs.point_estimate(pairs, support=1.0, rng=rng).n_clusters in (1, 2)
