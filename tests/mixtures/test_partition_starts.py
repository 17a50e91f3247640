"""Where chains of partitions begin: steps on ever more rows, and clusters cut in two where that pays."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from weald.assign import Rows
from weald.assign.base import statistics
from weald.datasets import make_blobs_overlapping
from weald.engine import Threads
from weald.families import DiagonalGaussian
from weald.mixtures import partition_starts
from weald.mixtures.base_measure import firm
from weald.mixtures.partition_starts import CANDIDATES, chosen, divided, from_some, labelled, refined
from weald.partitions import DirichletProcess

ONE, K = Threads(1), 40


@pytest.fixture(scope="module")
def blobs():
    return make_blobs_overlapping(12_000, 8, K, separation=9.0, rng=0)


def rows_of(data):
    return Rows(data.X, firm(DiagonalGaussian.from_data(data.X, 3), ()))


def united(z, n_pairs):
    """Clusters 0 and 1 as one, 2 and 3 as one, and so on."""
    name = np.arange(z.max() + 1)
    name[1 : 2 * n_pairs : 2] = name[0 : 2 * n_pairs : 2]
    return np.unique(name[z], return_inverse=True)[1].astype(np.int32)


def test_clusters_that_are_two_are_cut_and_others_are_not(blobs):
    rows, z = rows_of(blobs), united(blobs.z, 5)
    after = divided(rows, statistics(rows, z, K - 5, ONE), z, np.random.default_rng(0))
    assert np.unique(after).size == K
    assert adjusted_rand_score(blobs.z, after) > 0.97


def test_true_clusters_stay_whole(blobs):
    rows, z = rows_of(blobs), blobs.z.astype(np.int32)
    np.testing.assert_array_equal(divided(rows, statistics(rows, z, K, ONE), z, np.random.default_rng(0)), z)


def test_no_more_than_a_share_is_cut_at_a_time(blobs):
    rows, z = rows_of(blobs), united(blobs.z, 20)
    after = divided(rows, statistics(rows, z, 20, ONE), z, np.random.default_rng(0))
    assert np.unique(after).size == 20 + 1 + 20 // CANDIDATES


def test_more_rows_tell_apart_what_fewer_could_not(blobs):
    rows, z = rows_of(blobs), united(blobs.z, 5)
    S = refined(rows, statistics(rows, z, K - 5, ONE), DirichletProcess(), ONE, np.random.default_rng(0))
    assert len(S) == K
    assert S[:, -1].sum() == 12_000
    assert adjusted_rand_score(blobs.z, labelled(rows, S, ONE, np.random.default_rng(1))) > 0.97


@pytest.mark.parametrize(("more", "looks"), [(6_000, [6_000]), (6_001, [])])
def test_a_second_look_where_rows_abound(blobs, more, looks, monkeypatch):
    seen = []

    def noted(rows, S, *rest):
        seen.append(rows.n_rows)
        return refined(rows, S, *rest)

    monkeypatch.setattr(partition_starts, "MORE_ROWS", more)
    monkeypatch.setattr(partition_starts, "refined", noted)
    z = from_some(rows_of(blobs), DirichletProcess(), ONE, np.random.default_rng(0))
    assert seen == looks
    assert adjusted_rand_score(blobs.z, z) > 0.9


def test_few_rows_are_all_taken(blobs):
    rows = rows_of(blobs)
    assert chosen(rows, 12_000, np.random.default_rng(0)) is rows
    assert chosen(rows, 500, np.random.default_rng(0)).n_rows == 500
