"""First statistics: weights add up, every start works for every family, and seeds follow the law of k-means++."""

from collections import Counter
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.stats import chi2

from weald import Mixture
from weald.assign import Rows
from weald.datasets import make_categories, make_counts, make_mixed_table
from weald.exceptions import DataError, ParameterError
from weald.families import Bernoulli, Categorical, DiagonalGaussian, FullGaussian, Multinomial, Poisson
from weald.mixtures import starts
from weald.mixtures.starts import (
    GREEDY,
    LOOKING,
    PROJECTED,
    STARTS,
    _drawn_seeds,
    _greedy_seeds,
    _standing,
    _weight_below,
    first_statistics,
)  # fmt: skip
from weald.trees import CoverTree
from weald.trees.nodes import subtree

POINTS = (*LOOKING, "random-points")


def blobs(k, rng, n=60, spread=0.05, d=3):
    """K far-apart blobs of n rows each, shuffled, and their numbers."""
    centres = 10.0 * rng.permutation(np.stack(np.meshgrid(*[np.arange(8)] * d), -1).reshape(-1, d))[:k]
    z = rng.permutation(np.repeat(np.arange(k), n))
    return centres[z] + spread * rng.normal(size=(len(z), d)), z


def data(kind, rng):
    if kind == "categorical":
        X = make_categories(400, 4, 6, 3, rng).X.astype(np.float64)
        return X, Categorical.from_data(X)
    if kind in ("counts", "sparse counts"):
        X = make_counts(400, 4, 50, 30, rng).X
        X = sp.csr_array(X) if kind.startswith("sparse") else (X.toarray() if sp.issparse(X) else X).astype(np.float64)
        return X, Multinomial.from_data(X)
    X = rng.normal(size=(400, 4)) + 5.0 * rng.integers(3, size=(400, 1))
    if kind == "missing":
        X[rng.random(X.shape) < 0.2] = np.nan
    if kind == "poisson":
        X = rng.poisson(np.abs(X)).astype(np.float64)
        return X, Poisson.from_data(X)
    if kind in ("bernoulli", "sparse bernoulli"):
        X = (X > 5.0).astype(np.float64)
        X = sp.csr_array(X) if kind.startswith("sparse") else X
        return X, Bernoulli.from_data(X)
    return X, (FullGaussian if kind == "full" else DiagonalGaussian).from_data(X)


KINDS = (
    "gaussian", "full", "missing", "poisson", "bernoulli", "sparse bernoulli", "categorical", "counts", "sparse counts",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", STARTS)
def test_every_start_for_every_family(name, kind, rng):
    X, family = data(kind, rng)
    S = first_statistics(name, Rows(X, family), 7, rng)
    assert S.shape == (7, family.width)
    assert np.isfinite(S).all()
    assert np.isfinite(family.mode_eta(S)).all()
    if name in LOOKING:
        assert S[:, -1].sum() == pytest.approx(400)
        T = family.sufficient(X)
        total = np.asarray((T.toarray() if sp.issparse(T) else T).sum(0))
        assert S.sum(0) == pytest.approx(total, rel=1e-9, abs=1e-8)
    else:
        assert S[:, -1] == pytest.approx(np.ones(7))


@pytest.mark.parametrize("name", STARTS)
def test_the_generator_alone_decides(name):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30_000, 3))  # more than are looked at
    rows = Rows(X, DiagonalGaussian.from_data(X))
    for K in (5, GREEDY + 20):
        one, same, other = (first_statistics(name, rows, K, np.random.default_rng(seed)) for seed in (1, 1, 2))
        assert np.array_equal(one, same)
        assert not np.array_equal(one, other)


@pytest.mark.parametrize("name", LOOKING)
def test_weights_count_and_rows_without_weight_do_not(name, rng):
    X, z = blobs(6, rng)
    weight = np.where(z == 0, 0.0, np.where(z == 1, 3.0, 1.0))
    X[z == 0] *= 100.0  # far away: it would draw a seed if it were looked at
    S = first_statistics(name, Rows(X, DiagonalGaussian.from_data(X[z > 0]), weight), 5, rng)
    assert S[:, -1].sum() == pytest.approx(weight.sum())
    assert np.sort(S[:, -1]) == pytest.approx([60, 60, 60, 60, 180])


@pytest.mark.parametrize("n_rows", [12_000, 30_000])
@pytest.mark.parametrize("name", LOOKING)
def test_subsets_stand_for_all_rows(name, n_rows, rng):
    X = rng.normal(size=(n_rows, 2)).astype(np.float32)
    weight = rng.integers(0, 3, n_rows).astype(np.float64)
    for w in (None, weight):
        S = first_statistics(name, Rows(X, DiagonalGaussian.from_data(X), w), GREEDY + 50, rng)
        assert S[:, -1].sum() == pytest.approx(n_rows if w is None else w.sum())
        assert np.count_nonzero(S[:, -1]) == GREEDY + 50


@pytest.mark.parametrize("K", [12, GREEDY + 12])
@pytest.mark.parametrize("name", POINTS)
def test_as_many_components_as_rows(name, K, rng):
    X = rng.normal(size=(K, 2))
    S = first_statistics(name, Rows(X, DiagonalGaussian.from_data(X)), K, rng)
    assert S[:, -1] == pytest.approx(np.ones(K))
    assert np.unique(S.round(12), axis=0).shape[0] == K
    with pytest.raises(DataError, match=f"n_components={K + 1}.*fewer"):
        first_statistics(name, Rows(X, DiagonalGaussian.from_data(X)), K + 1, rng)


@pytest.mark.parametrize("K", [12, GREEDY + 12])
@pytest.mark.parametrize("name", LOOKING)
def test_fewer_distinct_rows_than_components(name, K, rng):
    """Each place gets a component of its own before any is given two."""
    places = 5
    X = np.repeat(rng.normal(size=(places, 3)), 100, axis=0)
    S = first_statistics(name, Rows(X, DiagonalGaussian.from_data(X)), K, rng)
    held = S[S[:, -1] > 0]
    assert S[:, -1].sum() == pytest.approx(500)
    assert np.unique((held / held[:, -1:]).round(9), axis=0).shape[0] == places
    constant = np.ones((400, 2))
    S = first_statistics(name, Rows(constant, DiagonalGaussian.from_data(constant)), K, rng)
    assert S[:, -1].sum() == pytest.approx(400)


@pytest.mark.parametrize("spread", [0.05, 1.0])
@pytest.mark.parametrize("name", LOOKING)
def test_far_apart_blobs_are_told_apart(name, spread, rng):
    X, z = blobs(8, rng, spread=spread)
    family = DiagonalGaussian.from_data(X)
    S = first_statistics(name, Rows(X, family), 8, rng)
    assert S[:, -1] == pytest.approx(np.full(8, 60))
    means = family.named(family.mode_eta(S))["means"]
    assert len(set(zip(z.tolist(), np.argmin(cdist(X, means), axis=1).tolist(), strict=True))) == 8


@pytest.mark.parametrize(("name", "share"), [("kmeans++", 0.6), ("cover-tree", 0.95)])
def test_most_of_many_tight_blobs_are_found(name, share, rng):
    X, _ = blobs(GREEDY + 20, rng, n=20)
    S = first_statistics(name, Rows(X, DiagonalGaussian.from_data(X)), GREEDY + 20, rng)
    assert np.mean(np.isclose(S[:, -1], 20)) > share


def test_mixed_tables_start_from_a_cover_tree(rng):
    table = pd.DataFrame(make_mixed_table(300, 3, rng).X)
    mix = Mixture(3, family="mixed", init="cover-tree", random_state=0, tol=1e-2).fit(table)
    assert mix.status_.ok
    assert mix.n_components_ == 3


def test_wide_sparse_coordinates_are_projected(rng):
    """Three kinds of document in 2,000 words; a tree of their projections tells them apart."""
    words, z = np.zeros((300, 2000)), rng.integers(3, size=300)
    for i in range(300):
        np.add.at(words[i], rng.integers(50, size=200) + 50 * z[i], 1.0)
    assert words.shape[1] > PROJECTED
    X = sp.csr_array(words)
    S = first_statistics("cover-tree", Rows(X, Multinomial.from_data(X)), 3, rng)
    assert np.sort(S[:, -1]) == pytest.approx(np.sort(np.bincount(z)))


def test_weight_below_is_that_of_the_subtree(rng):
    X = np.concatenate([rng.normal(size=(200, 2)), np.zeros((5, 2))])
    nodes, weight = CoverTree(1.3).fit(X).nodes_, rng.random(205)
    assert _weight_below(nodes, weight) == pytest.approx(
        [weight[nodes.number[subtree(nodes, slot)]].sum() for slot in range(205)]
    )


def test_greedy_seeds_gain_almost_what_the_best_ones_would(rng):
    X, weight = rng.normal(size=(500, 3)), rng.random(500) + 0.5
    seeds = _greedy_seeds(X, weight, 4, 60)
    assert seeds[0] == 4
    assert len(set(seeds.tolist())) == 60
    for j in (1, 2, 10, 40):
        gain = weight * cdist(X, X[seeds[:j]], "sqeuclidean").min(axis=1)
        assert gain[seeds[j]] > 0.4 * gain.max()
    assert np.array_equal(seeds, _greedy_seeds(X, weight, 4, 60))


# The law of seeds drawn many at a time

C = np.array([[0.0], [1.0], [3.0], [3.5], [9.0]], np.float32)
WEIGHT = np.array([1.0, 2.0, 1.0, 1.0, 0.5])


def seed_law(n_seeds):
    """Probability of every ordered choice of seeds, one after the other."""
    law = {}
    for seeds in permutations(range(5), n_seeds):
        p = WEIGHT[seeds[0]] / WEIGHT.sum()
        for j in range(1, n_seeds):
            d = WEIGHT * np.min((C - C[list(seeds[:j])].T) ** 2, axis=1)
            p *= d[seeds[j]] / d.sum()
        law[seeds] = p
    return law


@pytest.fixture
def plain_distances(monkeypatch):
    """Scikit-learn takes milliseconds to measure five points."""
    monkeypatch.setattr(starts, "pairwise_distances_argmin_min", lambda A, B: (None, cdist(A, B).min(axis=1)))
    monkeypatch.setattr(starts, "euclidean_distances", lambda A, squared: cdist(A, A, "sqeuclidean"))


def p_value(n=10_000):
    law, rng = seed_law(3), np.random.default_rng(7)
    found = Counter(tuple(_drawn_seeds(C, WEIGHT, 3, rng).tolist()) for _ in range(n))
    assert set(found) <= set(law)
    statistic = sum((found[s] - n * p) ** 2 / (n * p) for s, p in law.items())
    return chi2.sf(statistic, len(law) - 1)


@pytest.mark.usefixtures("plain_distances")
def test_seeds_in_rounds_have_the_law_of_seeds_one_by_one():
    assert p_value() > 1e-4


@pytest.mark.usefixtures("plain_distances")
def test_seeds_without_rejection_would_not(monkeypatch):
    monkeypatch.setattr(starts, "_standing", lambda P, *_: np.sort(np.unique(P, axis=0, return_index=True)[1]))
    assert p_value() < 1e-6


def test_the_first_candidate_always_stands_and_its_copies_never(rng):
    P = rng.normal(size=(20, 3))
    assert _standing(P, np.full(20, 1e-3), np.full(20, 1e-3), 0.0)[0] == 0
    assert _standing(np.repeat(P[:1], 20, axis=0), np.ones(20), np.zeros(20), 1e-12).tolist() == [0]


def test_sparse_and_dense_seeds_agree(rng):
    X = rng.poisson(0.5, size=(500, 20)).astype(np.float32)
    draw = lambda X: _drawn_seeds(X, np.ones(500), 100, np.random.default_rng(1))  # noqa: E731
    assert np.array_equal(draw(X), draw(sp.csr_array(X)))


def test_unknown_names_are_told_what_there_is(rng):
    X = rng.normal(size=(10, 2))
    with pytest.raises(ParameterError, match=r"kmeans\+\+.*cover-tree.*random-points.*random"):
        first_statistics("cover tree", Rows(X, DiagonalGaussian.from_data(X)), 2, rng)
