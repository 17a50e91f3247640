"""Search for the partition of least expected loss.

With g(x) = x u(x), u as in `weald.consensus.losses`, putting an item of draw-clusters c_1..c_m into cluster k adds to
the loss, exactly, up to what all k share,

    m (g(a_k + 1) - g(a_k)) - 2 sum_t (g(n_t,k,c_t + 1) - g(n_t,k,c_t));      a new cluster adds 0.

Items enter one after the other in random order where they add least, sweeps move single items until none gains; this
from several starts, the best draws among them. In the best results whole clusters are dissolved and rebuilt. Items
together in every draw are together in a best partition (the second difference of g is positive and not increasing),
so they are searched as one. Only cells of contingency tables that are not empty are kept: 12 bytes for each of the
m n labels, never n x n. A sweep costs O(m n) times the cells in a row, at most K. Beyond `MAX_ITEMS` distinct items a
random subset is searched; the rest enter greedily, and one descent of all follows.

Reference: Dahl, Johnson, Müller, J. Comput. Graph. Stat. 31 (2022), 1189-1201 (SALSO).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weald._kernel import kernel
from weald._typing import Array, FloatArray, IntArray
from weald.consensus.losses import canonical, checked_draws, curve, distances

MAX_ITEMS = 20_000  # distinct items searched from several starts
N_CANDIDATES, N_DRAW_STARTS = 16, 3  # draws whose expected loss is looked at, and of these the best to start from
N_FINISHED = 8  # partitions, the best that sweeps have led to, whose clusters are rebuilt
N_REBUILT = 32  # clusters dissolved between two sweeps
LEAST_GAIN = 1e-9  # of n times the loss: rounding never moves an item, so every descent ends


class Search(NamedTuple):
    """What is minimised, from how many random starts, with at most how many clusters."""

    loss: str
    n_starts: int
    cap: int


class Tables(NamedTuple):
    """The contingency tables of an estimate with all draws; row r is one cluster of one draw."""

    rows: IntArray  # (u, m) the m rows of each item
    weight: IntArray  # (u,)
    span: IntArray  # (rows, 2) where the cells of a row begin, and how many are not empty
    cells: IntArray  # (capacity, 2) cluster of the estimate, count
    z: IntArray  # (u,) cluster of each item, -1 when it has none yet
    size: IntArray  # (cap,)
    top: IntArray  # (1,) clusters from here on are empty
    score: FloatArray  # (cap,) zeros
    g: FloatArray  # x u(x)


def searched(columns: IntArray, weight: IntArray, search: Search, rng: np.random.Generator) -> IntArray:
    """Labels (u,) of distinct items."""
    n_items, nowhere = len(weight), np.full(len(weight), -1)
    if n_items > MAX_ITEMS:
        some = rng.choice(n_items, MAX_ITEMS, replace=False)
        nowhere[some] = searched(columns[some], weight[some], search, rng)
        return _descend(tables_of(columns, weight, search), nowhere, search.cap, rng)
    Z = checked_draws(np.ascontiguousarray(columns.T))
    tables, most = tables_of(Z.T, weight, search), min(search.cap, int(Z.max()) + 1)
    ends = [_sweeps(tables, start, search.cap, rng) for start in _best_draws(Z, weight, search, rng)]
    ends += [_sweeps(tables, nowhere, n_first, rng) for n_first in _first_caps(most, search.n_starts, rng)]
    ends = [_descend(tables, end, search.cap, rng) for end in _least(ends, N_FINISHED, Z, weight, search.loss)]
    return _least(ends, 1, Z, weight, search.loss)[0]


def without_alone(z: IntArray, columns: IntArray, weight: IntArray, support: float) -> IntArray:
    """Labels (u,) in which items that are alone too rarely in the draws have joined those they are most often with."""
    n_mates = np.stack([np.bincount(c, weight)[c] for c in columns.T], axis=1) - 1
    alone = (np.bincount(z, weight)[z] == 1) & ((n_mates == 0).mean(axis=1) < support)
    if alone.all():
        return np.zeros_like(z)
    held, joined = np.where(alone, 0, weight), z.copy()
    size = np.maximum(np.bincount(z, held), 1)
    for i in np.flatnonzero(alone):
        together = (columns == columns[i]).mean(axis=1)
        joined[i] = np.argmax(np.bincount(z, held * together) / size)
    return joined


def tables_of(columns: IntArray, weight: IntArray, search: Search) -> Tables:
    """Tables of distinct items (u, m) that count `weight` times, all of them without a cluster."""
    n_items = len(weight)
    n_rows = np.concatenate([[0], np.cumsum(columns.max(axis=0).astype(np.int64) + 1)])
    rows = (columns + n_rows[:-1]).astype(np.int32 if n_rows[-1] < 2**31 else np.int64)
    capacity = np.minimum(np.bincount(rows.ravel(), minlength=n_rows[-1]), search.cap)
    span = np.stack([np.cumsum(capacity) - capacity, np.zeros_like(capacity)], axis=1)
    cells = np.zeros((capacity.sum(), 2), np.int32)
    size, score, n = np.zeros(search.cap, np.int64), np.zeros(search.cap), int(weight.sum())
    g = np.arange(n + 1) * curve(search.loss, n)
    return Tables(rows, weight, span, cells, np.full(n_items, -1), size, np.zeros(1, np.int64), score, g)


def distinct(Z: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Distinct columns of Z as rows (u, m), for each item the row that holds it, and the number of items in each."""
    columns = np.ascontiguousarray(Z.T)
    whole = columns.view(np.dtype((np.void, columns.itemsize * columns.shape[1]))).ravel()
    _, first, item, weight = np.unique(whole, return_index=True, return_inverse=True, return_counts=True)
    return columns[first], item, weight


def _first_caps(most: int, n_starts: int, rng: np.random.Generator) -> list[int]:
    """How many clusters items may open as they enter: as many as a draw has, any fewer, and one.

    Where few pairs are together in half of the draws, items that are free to open clusters end up alone.
    """
    fewer = rng.integers(1, most + 1, n_starts)
    return [1, *(most if start % 2 == 0 else int(fewer[start]) for start in range(n_starts))]


def _best_draws(Z: IntArray, weight: IntArray, search: Search, rng: np.random.Generator) -> list[IntArray]:
    fit = np.flatnonzero(Z.max(axis=1) < search.cap)
    tried = rng.permutation(fit)[:N_CANDIDATES]
    return _least(list(Z[tried].astype(np.int64)), N_DRAW_STARTS, Z, weight, search.loss)


def _least(partitions: list[IntArray], n_kept: int, Z: IntArray, weight: IntArray, loss: str) -> list[IntArray]:
    """The best partitions, the very best first, none twice."""
    distinct = list({z.tobytes(): z for z in map(canonical, partitions)}.values())
    losses = [distances(z, Z, loss, weight).mean() for z in distinct]
    return [distinct[j] for j in np.argsort(losses, kind="stable")[:n_kept]]


def _sweeps(tables: Tables, start: IntArray, n_first: int, rng: np.random.Generator) -> IntArray:
    """Labels that no move of one item improves; those with -1 in `start` enter first, greedily."""
    _restart(tables, start)
    n_moved = _sweep(tables, rng.permutation(len(start)), n_first)
    while n_moved:
        n_moved = _sweep(tables, rng.permutation(len(start)), len(tables.size))
    return tables.z.copy()


def _descend(tables: Tables, start: IntArray, n_first: int, rng: np.random.Generator) -> IntArray:
    """Labels that no move of one item and no rebuilt cluster improves."""
    z = _sweeps(tables, start, n_first, rng)
    while _rebuild_some(tables, rng.permutation(len(z))):
        z = _sweeps(tables, tables.z.copy(), len(tables.size), rng)
    return z


@kernel
def change(tables: Any, i: int, k: int, sign: int) -> Any:
    """Put item i into cluster k (sign 1) or take it out (-1); what it adds, or added, to draws times s times loss."""
    g, w, shared = tables.g, tables.weight[i], 0.0
    for r in tables.rows[i]:
        first = s = tables.span[r, 0]
        end = first + tables.span[r, 1]
        while s < end and tables.cells[s, 0] != k:
            s += 1
        if s == end:
            tables.cells[s, 0], tables.cells[s, 1] = k, 0
            tables.span[r, 1] += 1
        x = tables.cells[s, 1] - (w if sign < 0 else 0)
        shared += g[x + w] - g[x] - g[w]
        tables.cells[s, 1] += sign * w
        if tables.cells[s, 1] == 0:
            tables.cells[s] = tables.cells[end - 1]
            tables.span[r, 1] -= 1
    x = tables.size[k] - (w if sign < 0 else 0)
    tables.size[k] += sign * w
    tables.z[i] = k if sign > 0 else -1
    top = max(tables.top[0], k + 1)
    while top and not tables.size[top - 1]:
        top -= 1
    tables.top[0] = top
    return tables.rows.shape[1] * (g[x + w] - g[x] - g[w]) - 2 * shared


@kernel
def best_place(tables: Any, i: int, cap: int) -> Any:
    """The cluster where item i adds least, what it adds there, and what it adds where it is."""
    g, span, cells, score, size = tables.g, tables.span, tables.cells, tables.score, tables.size
    w, own, m = tables.weight[i], tables.z[i], tables.rows.shape[1]
    alone = g[w]
    for r in tables.rows[i]:
        first = span[r, 0]
        for s in range(first, first + span[r, 1]):
            k = cells[s, 0]
            x = cells[s, 1] - (w if k == own else 0)
            score[k] += g[x + w] - g[x] - alone
    best, least, here, top = -1, np.inf, np.inf, tables.top[0]
    free = top if top < cap else -1
    for k in range(top):
        x = size[k] - (w if k == own else 0)
        cost = m * (g[x + w] - g[x] - alone) - 2 * score[k]
        score[k] = 0
        if not size[k]:
            free = k
        elif cost < least:
            best, least = k, cost
        if k == own:
            here = cost
    return (free, 0.0, here) if free >= 0 and least > 0 else (best, least, here)


@kernel
def _restart(tables: Any, start: Array) -> None:
    tables.span[:, 1] = 0
    tables.size[:] = 0
    tables.top[0] = 0
    tables.z[:] = -1
    for i in range(len(start)):
        if start[i] >= 0:
            change(tables, i, start[i], 1)


@kernel
def _sweep(tables: Any, order: Array, cap: int) -> Any:
    """Each item to its best cluster, of at most `cap`; how many moved."""
    n_moved, tolerance = 0, LEAST_GAIN * tables.rows.shape[1]
    for i in order:
        k, least, here = best_place(tables, i, cap)
        if least < here - tolerance:
            if tables.z[i] >= 0:
                change(tables, i, tables.z[i], -1)
            change(tables, i, k, 1)
            n_moved += 1
    return n_moved


@kernel
def _rebuild(tables: Any, members: Array) -> Any:
    """Dissolve a cluster and let its items enter one after the other; undone where nothing is gained."""
    k, gain = tables.z[members[0]], 0.0
    for i in members:
        gain += change(tables, i, k, -1)
    for i in members:
        gain -= change(tables, i, best_place(tables, i, len(tables.size))[0], 1)
    if gain > LEAST_GAIN * tables.rows.shape[1]:
        return 1
    for i in members:
        change(tables, i, tables.z[i], -1)
    for i in members:
        change(tables, i, k, 1)
    return 0


@kernel
def _rebuild_some(tables: Any, order: Array) -> Any:
    """Rebuild clusters in the order in which they appear; how many became better."""
    n_better, n_tried = 0, 0
    tried = np.zeros(len(tables.size), np.bool_)
    for i in order:
        k = tables.z[i]
        if n_tried < N_REBUILT and not tried[k]:
            tried[k] = True
            members = order[tables.z[order] == k]
            if len(members) > 1:
                n_better += _rebuild(tables, members)
                n_tried += 1
    return n_better
