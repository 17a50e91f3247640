"""Laws against their families after thousands of moves, against plain Python, and at the edges of what floats hold."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy import sparse
from test_collapsed import FAMILIES, PRIORS, Mixed, rows_of, statistics

from weald._random import sweep_key
from weald.assign import Rows
from weald.families import Bernoulli, DiagonalGaussian, FullGaussian, Multinomial, Poisson, Product, SphericalGaussian
from weald.inference.run import run
from weald.mixtures._columns import CountsLaw, EventsLaw, HolesLaw
from weald.mixtures._predictive import ColumnsLaw, MatrixLaw, PairLaw
from weald.mixtures.collapsed import Board, CollapsedKernel, gibbs
from weald.mixtures.laws import OtherLaw, is_compiled, law_of, other_laws
from weald.partitions import PitmanYor


def scores(law, z, k):
    """(n, k), (n,): what the law says of each row in each column, and in its own without it."""
    out, without = np.empty((z.size, law.size.size)), np.empty(z.size)
    for i in range(z.size):
        law.score(i, 0, k, out[i])
        without[i] = law.score_without(i, z[i]) if law.size[z[i]] > 1 else np.nan
    return out[:, :k], without


def agreement(rows, law, z):
    """Largest errors of score and of score_without against `log_predictive`."""
    family, T, k = rows.family, rows.family.sufficient(rows.X), max(z) + 1
    D = np.asarray(T.toarray() if sparse.issparse(T) else T, np.float64)
    S = np.vstack([statistics(rows, z), np.zeros(family.width)])
    every, without = scores(law, z, k + 1)
    kept = np.flatnonzero(~np.isnan(without))
    assert 2 * kept.size > z.size
    expected = [family.log_predictive(S[z[i]][None] - D[i], T[i : i + 1])[0, 0] for i in kept]
    return np.abs(every - family.log_predictive(S, T)).max(), np.abs(without[kept] - expected).max()


def moved(rows, rng, at_least=3_000):
    """Compiled sweeps on one board, which is not laid anew in between."""
    n = rows.n_rows
    board, n_moved = Board(law_of(rows), rng.integers(0, 5, n).astype(np.int32), 5, PitmanYor(5.0, 0.5)), 0
    while n_moved < at_least:
        before = board.z.copy()
        board.play(gibbs, n, rng.permutation(n), sweep_key(rng))
        n_moved += int((before != board.z).sum())
    return board


@pytest.mark.parametrize("name", [*FAMILIES, "wide"])
def test_laws_keep_to_the_family_after_thousands_of_moves(name, rng):
    n = 100
    rows = Rows(X := rng.normal(size=(n, 9)), FullGaussian.from_data(X)) if name == "wide" else rows_of(name, rng, n)
    board = moved(rows, rng)
    np.testing.assert_array_equal(board.law.size[: board.k], np.bincount(board.z))
    assert not board.law.size[board.k :].any()
    assert max(agreement(rows, board.law, board.z)) < 1e-9


WEAK = {
    "faint rates": lambda rng: (Poisson, rng.poisson(60.0, size=(100, 5)) * 1.0, {"shape": 1e-9, "rate": 1e-9}),
    "no events expected": lambda rng: (Poisson, rng.poisson(9.0, size=(100, 5)) * 1.0, {"shape": 1e-9, "rate": 1e8}),
    "rare": lambda rng: (Bernoulli, sparse.csr_array((rng.random((100, 40)) < 0.1) * 1.0), {"alpha": 1e-9}),
    "common": lambda rng: (Bernoulli, sparse.csr_array((rng.random((100, 40)) < 0.9) * 1.0), {"beta": 1e-9}),
}


@pytest.mark.parametrize("name", WEAK)
def test_products_of_factors_stay_in_range(name, rng):
    cls, X, prior = WEAK[name](rng)
    rows = Rows(X, cls.from_data(X, **prior))
    law, z = law_of(rows)(8), rng.integers(0, 5, 100)
    assert isinstance(law, EventsLaw)
    for i in range(100):
        law.join(i, z[i])
    assert max(agreement(rows, law, z)) < 1e-8


def outlier(name, rng):
    """Twenty rows, and one so far off that it carries all of the scatter."""
    X = np.vstack([rng.normal(size=(20, 3)), np.full((1, 3), 1e7)])
    if name == "holes":
        X[[0, 1, 2], [0, 1, 2]] = np.nan
    cls = {"full": FullGaussian, "spherical": SphericalGaussian}.get(name, DiagonalGaussian)
    return Rows(X, replace(cls.from_data(X), psi=cls.from_data(X).psi * 1e-14))


@pytest.mark.parametrize("name", ["full", "diag", "spherical", "holes"])
def test_a_row_that_carries_the_scatter_is_taken_out_by_rebuilding(name, rng):
    """A downdate would leave rounding errors of the outlier behind."""
    rows = outlier(name, rng)
    board = Board(law_of(rows), np.zeros(21, np.int32), 1, PRIORS["dp"])
    without = scores(board.law, board.z, 1)[1]
    assert np.isnan(without[20])
    assert np.isfinite(without[:20]).all()
    board.play(gibbs, 1, np.array([20]), np.uint64(1))
    assert board.k == 2
    fresh = Board(law_of(rows), board.z, 2, PRIORS["dp"])
    np.testing.assert_allclose(scores(board.law, board.z, 2)[0], scores(fresh.law, board.z, 2)[0], rtol=1e-13)


@pytest.mark.parametrize("first", [True, False])
def test_a_pair_is_spoilt_with_either_of_its_laws(first, rng):
    gaussian, counts = outlier("diag", rng), rng.poisson(3.0, size=(21, 1)).astype(float)
    poisson = Rows(counts, Poisson.from_data(counts))
    pair = [law_of(rows)(3) for rows in ((gaussian, poisson) if first else (poisson, gaussian))]
    law = PairLaw(*pair, pair[0].size, np.empty(3))
    for i in range(21):
        law.join(i, 1)
    assert np.isfinite(law.score_without(0, 1))
    assert np.isnan(law.score_without(20, 1))
    assert law.leave(0, 1)
    assert not law.leave(20, 1)
    assert pair[0].size[1] == pair[1].size[1] == 19


def test_a_column_whose_last_cell_leaves_a_cluster_is_the_prior_again(rng):
    """Taken off from the mean, with kappa = 1e-9, the cell would leave an error of 1e-7 behind."""
    X = rng.normal(size=(6, 2)) + 1e3
    X[1:, 0] = np.nan
    family = replace(DiagonalGaussian.from_data(X), kappa=1e-9, m0=np.array([3.0, 4.0]))
    law = law_of(Rows(X, family))(4)
    assert isinstance(law, PairLaw)
    holes = law.second
    out = np.empty(4)
    for i in range(3):
        law.join(i, 1)
    holes.score(0, 2, 3, out)
    assert holes.score_without(0, 1) == out[2]
    assert law.leave(0, 1)
    for kept in (holes.N, holes.mean, holes.inverse, holes.level):
        np.testing.assert_array_equal(kept[:, 1], kept[:, 3])


@pytest.mark.parametrize("name", FAMILIES)
def test_compiled_and_plain_chains_are_the_same(name, rng):
    rows = rows_of(name, rng, 30)
    states = []
    for laws in (law_of(rows), other_laws(rows)):
        kernel = CollapsedKernel(rows, PRIORS["nggp"], n_moves=3, first=lambda rng: np.arange(30) % 4)
        kernel.__dict__["laws"] = laws
        states.append(run(kernel, key=np.uint64(5), sweeps=6)[0])
    compiled, plain = states
    np.testing.assert_array_equal(plain.state.z, compiled.state.z)
    assert compiled.stats["n_births"].sum() > 0
    for figure, values in compiled.stats.items():
        np.testing.assert_allclose(values, plain.stats[figure], rtol=1e-9)


KINDS = {"full": MatrixLaw, "diag": ColumnsLaw, "spherical": ColumnsLaw, "missing": HolesLaw, "poisson": EventsLaw,
         "ones": EventsLaw, "bernoulli": CountsLaw, "categorical": CountsLaw, "mixed": PairLaw}  # fmt: skip


def test_every_family_is_compiled(rng):
    assert all(is_compiled(rows_of(name, rng)) for name in FAMILIES)
    for name, kind in KINDS.items():
        assert isinstance(law_of(rows_of(name, rng, 50))(3), kind)


def test_the_chain_of_a_product_does_not_depend_on_the_order_of_its_columns(rng):
    X = rows_of("mixed", rng, 20).X[:, 1:5]
    chains = set()
    for order in permutations(range(4)):
        kinds = tuple(Mixed.KINDS[1:5][j] for j in order)
        law = law_of(Rows(X[:, order], Product.from_data(X[:, order], kinds=kinds)))(3)
        chains.add((type(law.first.first), type(law.first.second), type(law.second)))
    assert chains == {(ColumnsLaw, HolesLaw, CountsLaw)}


class Own:
    """A family that weald does not know."""

    def __init__(self, family):
        self.family = family

    def __getattr__(self, name):
        return getattr(self.family, name)


def test_what_is_not_compiled(rng):
    X = (rng.random((9, 3)) < 0.3).astype(float)
    weak = {Multinomial: "concentration", Bernoulli: "alpha", Poisson: "shape"}
    for cls, name in weak.items():
        for data in (X, sparse.csr_array(X)):
            assert isinstance(law_of(Rows(data, cls.from_data(data, **{name: 1e-20})))(3), OtherLaw)
    known = Poisson.from_data(X)
    assert not is_compiled(Rows(X, Own(known)))
    parts = Own(known), known
    assert not is_compiled(Rows(np.hstack([X, X]), Product(parts, ((0, 1, 2), (3, 4, 5)), ("own", "poisson"))))


def test_data_that_are_not_canonical_are_read_but_left_alone():
    X = sparse.csr_array((np.array([0.0, 2.0, 1.0, 3.0]), np.array([1, 0, 1, 1]), np.array([0, 1, 4])), shape=(2, 2))
    law = law_of(Rows(X, Poisson.from_data(X)))(2)
    assert X.nnz == 4
    assert law.values.tolist() == [2.0, 4.0]
    assert law.starts.tolist() == [0, 0, 2]
