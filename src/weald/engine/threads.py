"""Map shards of rows over threads, results in order.

Rows are cut into at most 32 shards, each a run of whole blocks of 4,096 rows. The cut depends on the number of
rows only, never on the number of workers, and partial sums are added in shard order: labels *and* statistics
are bitwise equal for 1, 2 or 64 threads. BLAS is held to one thread inside, so that one layer of threads
exists and no more.

    >>> list(Threads(2).map(lambda shard: shard.stop - shard.start, shards_of(10_000)))
    [4096, 4096, 1808]
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")

BLOCK = 4096
MAX_SHARDS = 32


def shards_of(n_rows: int) -> list[slice]:
    """The fixed cut of `n_rows` rows into shards."""
    n_blocks = -(-n_rows // BLOCK)
    n_shards = min(n_blocks, MAX_SHARDS)
    edges = [min(n_rows, BLOCK * (i * n_blocks // n_shards)) for i in range(n_shards)] + [n_rows]
    return [slice(a, b) for a, b in pairwise(edges)]


@lru_cache(maxsize=1)
def _pools() -> Any:
    return ThreadpoolController()


_limit_lock, _limits_held = threading.Lock(), 0
_limiter: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which BLAS and OpenMP keep to one thread: no second layer, and sums in one order.

    The setting belongs to the whole process: the first fit to enter makes it, the last to leave takes it back.
    """
    global _limits_held, _limiter
    with _limit_lock:
        if _limits_held == 0:
            _limiter = _pools().limit(limits=1)
        _limits_held += 1
    try:
        yield
    finally:
        with _limit_lock:
            _limits_held -= 1
            if _limits_held == 0:
                _limiter.restore_original_limits()


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Threads:
    """The default engine.

    Parameters
    ----------
    n_threads : int or None
        Threads to use; None or -1 takes every core this process may use.
    """

    n_threads: int | None = None

    def map(self, function: Callable[[slice], Result], shards: Sequence[slice]) -> Iterator[Result]:
        """Apply `function` to every shard; yield the results in the order of the shards."""
        n_threads = available_cores() if self.n_threads in (None, -1) else self.n_threads
        workers = min(int(n_threads or 1), len(shards))
        with one_thread():
            yield from _serial(function, shards) if workers <= 1 else _threaded(function, shards, workers)


def _serial(function: Callable[[slice], Result], shards: Sequence[slice]) -> Iterator[Result]:
    for shard in shards:
        yield function(shard)


def _threaded(function: Callable[[slice], Result], shards: Sequence[slice], workers: int) -> Iterator[Result]:
    """Keep `workers + 1` shards in flight, so that few partial sums are held at a time."""
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Result]] = deque()
        for shard in shards:
            waiting.append(pool.submit(function, shard))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
