import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from weald.engine import Threads, shards_of


@pytest.mark.parametrize("n", [1, 4095, 4096, 4097, 100_000, 4096 * 32, 4096 * 100 + 5])
def test_shards_cover_every_row_once_in_whole_blocks(n):
    shards = shards_of(n)
    assert np.array_equal(np.concatenate([np.arange(n)[s] for s in shards]), np.arange(n))
    assert len(shards) <= 32
    assert all(s.start % 4096 == 0 for s in shards)


@pytest.mark.parametrize("threads", [1, 2, 5, None, -1])
def test_results_come_in_order(threads):
    def late_first(shard):
        time.sleep(0.01 if shard.start == 0 else 0.0)
        return shard.start

    shards = shards_of(50_000)
    assert list(Threads(threads).map(late_first, shards)) == [s.start for s in shards]


def test_blas_has_one_thread_inside():
    def blas(shard):
        return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

    assert set(Threads(2).map(blas, shards_of(10_000))) == {1}


def test_errors_reach_the_caller():
    def fails(shard):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(Threads(2).map(fails, shards_of(10_000)))
