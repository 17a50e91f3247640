"""One partition from many, and how far to trust it: point estimates and credible balls of posterior partitions.

With a_k, b_c and n_kc the sizes of the clusters of z, of a draw, and of their intersections, both losses are

    d(z, draw) = 1/s sum_kc n_kc (u(a_k) + u(b_c) - 2 u(n_kc))
    "vi"       u(x) = log x, s = n      variation of information, in nats
    "binder"   u(x) = x,     s = n^2    the share of ordered pairs together in one and apart in the other

and with g(x) = x u(x) putting an item of draw-clusters c_1..c_m into cluster k adds, exactly, up to what all k share,

    m (g(a_k + 1) - g(a_k)) - 2 sum_t (g(n_t,k,c_t + 1) - g(n_t,k,c_t));      a new cluster adds 0.

`point_estimate` minimises the mean loss: items enter one after the other in random order where they add least, sweeps
move single items until none gains; this from several starts, the best draws among them. In the best results whole
clusters are dissolved and rebuilt. Items together in every draw are together in a best partition (the second
difference of g is positive and not increasing), so they are searched as one. Only cells of contingency tables that
are not empty are kept: 12 bytes for each of the m n labels, never n x n. A sweep costs O(m n) times the cells in a
row, at most K. Beyond `MAX_ITEMS` distinct items a random subset is searched; the rest enter greedily, and one
descent of all follows.

References: Dahl, Johnson, Müller, J. Comput. Graph. Stat. 31 (2022), 1189-1201 (SALSO); Wade, Ghahramani, Bayesian
Analysis 13 (2018), 559-626 (credible balls); Meilă, J. Multivariate Analysis 98 (2007), 873-895.

    >>> Z = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 2], [5, 5, 5, 5]])
    >>> point_estimate(Z, rng=np.random.default_rng(0)).labels
    array([0, 0, 1, 1])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from weald._kernel import kernel
from weald._typing import Array, FloatArray, IntArray
from weald.exceptions import ParameterError

Loss: TypeAlias = Literal["vi", "binder"]

MAX_ITEMS = 20_000  # distinct items searched from several starts
N_CANDIDATES, N_DRAW_STARTS = 16, 3  # draws whose expected loss is looked at, and of these the best to start from
N_FINISHED = 8  # partitions, the best that sweeps have led to, whose clusters are rebuilt
N_REBUILT = 32  # clusters dissolved between two sweeps
LEAST_GAIN = 1e-9  # of n times the loss: rounding never moves an item, so every descent ends
DECIMALS = 13  # distances closer than this are equal


@dataclass(frozen=True)
class Estimate:
    """A partition of least expected loss.

    Parameters
    ----------
    labels : int array of shape (n,)
        0, 1, ... from the largest cluster to the smallest.
    loss : float
        Its expected loss over the draws.
    n_clusters : int
    """

    labels: IntArray
    loss: float
    n_clusters: int


@dataclass(frozen=True)
class Ball:
    """The smallest ball around a partition with the posterior mass asked for, and draws at its edges.

    Parameters
    ----------
    radius : float
        Distance from the centre to the farthest draw in the ball.
    horizontal : int array of shape (n,)
        The draw in the ball farthest from the centre.
    upper, lower : int arrays of shape (n,)
        The draws with fewest and with most clusters in the ball, among these the farthest.
    """

    radius: float
    horizontal: IntArray
    upper: IntArray
    lower: IntArray


def expected_loss(z: IntArray, Z: IntArray, loss: Loss = "vi") -> float:
    """Posterior mean of the loss between a partition and the draws, exactly, in O(draws n).

    Parameters
    ----------
    z : int array of shape (n,)
        The partition; only which items share a label matters, here and in Z.
    Z : int array of shape (draws, n)
    loss : {"vi", "binder"}

    Returns
    -------
    float
    """
    Z = _draws(Z)
    return float(_distances(_partition(z, Z), Z, loss).mean())


def point_estimate(
    Z: IntArray,
    loss: Loss = "vi",
    *,
    n_starts: int = 8,
    max_clusters: int | None = None,
    rng: np.random.Generator,
) -> Estimate:
    """The partition of least expected loss, as far as a search from several starts finds it.

    Parameters
    ----------
    Z : int array of shape (draws, n)
        Labels; only equality within a draw matters.
    loss : {"vi", "binder"}
        The variation of information leans to fewer clusters than Binder's loss, which likes small spurious ones.
    n_starts : int
        Random starts; the best draws are tried besides.
    max_clusters : int, optional
        At most so many clusters. By default as many as it takes; where draws hardly agree that may be nearly n
        (Binder), and a bound saves time.
    rng : numpy Generator

    Returns
    -------
    Estimate
    """
    Z = _draws(Z)
    cap = Z.shape[1] if max_clusters is None else max_clusters
    for name, value in (("n_starts", n_starts), ("max_clusters", cap)):
        if value < 1:
            raise ParameterError(f"{name} must be at least 1, got {value}")
    columns, item, weight = _distinct(Z)
    found = _search(columns, weight, _Search(loss, n_starts, min(cap, len(weight))), rng)
    labels = canonical(found[item], "size")
    return Estimate(labels, float(_distances(labels, Z, loss).mean()), int(labels.max()) + 1)


def credible_ball(Z: IntArray, z: IntArray, level: float = 0.95, loss: Loss = "vi") -> Ball:
    """How far the posterior spreads around a partition.

    Parameters
    ----------
    Z : int array of shape (draws, n)
    z : int array of shape (n,)
        The centre, most often `point_estimate(Z).labels`.
    level : float in (0, 1]
        At least this share of the draws is in the ball.
    loss : {"vi", "binder"}

    Returns
    -------
    Ball
        Its labels 0, 1, ... are in order of first appearance; of draws equally far the first is taken.
    """
    Z = _draws(Z)
    distance = np.round(_distances(_partition(z, Z), Z, loss), DECIMALS)
    radius = np.sort(distance)[_n_needed(level, len(Z)) - 1]
    inside = np.flatnonzero(distance <= radius)
    n_clusters = Z[inside].max(axis=1)
    sets = (inside, inside[n_clusters == n_clusters.min()], inside[n_clusters == n_clusters.max()])
    horizontal, upper, lower = (Z[rows[np.argmax(distance[rows])]].astype(np.int64) for rows in sets)
    return Ball(float(radius), horizontal, upper, lower)


def co_clustering_with(Z: IntArray, i: int) -> FloatArray:
    """How often each item is in the cluster of item i: (draws, n) -> (n,), with 1 at i."""
    Z = _draws(Z)
    if not -Z.shape[1] <= i < Z.shape[1]:
        raise ParameterError(f"i must be one of the {Z.shape[1]} items, got {i}")
    together: FloatArray = (Z[:, [i]] == Z).mean(axis=0)
    return together


def uncertainty(Z: IntArray, z: IntArray) -> FloatArray:
    """How unsure each item's place in a partition is.

    Parameters
    ----------
    Z : int array of shape (draws, n)
    z : int array of shape (n,)

    Returns
    -------
    array of shape (n,)
        One minus the mean posterior probability that the item is with another member of its cluster in z; for an
        item alone in z, the probability that it is with any other. O(draws n), exact.
    """
    Z = _draws(Z)
    z = _partition(z, Z)
    n_others = np.bincount(z)[z] - 1
    unsure: FloatArray = 1 - _agreement(*_groups(z), Z) / (len(Z) * np.maximum(n_others, 1))
    return unsure


def n_clusters_posterior(Z: IntArray) -> tuple[IntArray, FloatArray]:
    """The numbers of clusters that occur in draws (draws, n), in increasing order, and their probabilities."""
    values, counts = np.unique(_draws(Z).max(axis=1).astype(np.int64) + 1, return_counts=True)
    return values, counts / counts.sum()


def n_clusters_interval(Z: IntArray, level: float = 0.95) -> tuple[int, int]:
    """The shortest interval of numbers of clusters with at least this share of draws (draws, n).

    Of intervals equally short the one with most mass is taken, then the lowest.
    """
    n_clusters = np.sort(_draws(Z).max(axis=1).astype(np.int64) + 1)
    n_needed = _n_needed(level, len(n_clusters))
    low, high = n_clusters[: len(n_clusters) - n_needed + 1], n_clusters[n_needed - 1 :]
    mass = np.searchsorted(n_clusters, high, "right") - np.searchsorted(n_clusters, low)
    best = np.lexsort((low, -mass, high - low))[0]
    return int(low[best]), int(high[best])


def canonical(z: IntArray, order: Literal["appearance", "size"] = "appearance") -> IntArray:
    """Labels 0, 1, ... in order of first appearance, or from the largest cluster to the smallest.

    Parameters
    ----------
    z : int array of shape (n,)
    order : {"appearance", "size"}
        Clusters of the same size stay in order of first appearance.

    Returns
    -------
    int array of shape (n,)
    """
    z = np.asarray(z)
    if z.ndim != 1:
        raise ParameterError(f"z must have shape (n,), got {z.shape}")
    if order not in ("appearance", "size"):
        raise ParameterError(f"order must be 'appearance' or 'size', got {order!r}")
    _, first, codes, sizes = np.unique(z, return_index=True, return_inverse=True, return_counts=True)
    ranked = np.argsort(first) if order == "appearance" else np.lexsort((first, -sizes))
    return np.argsort(ranked)[codes]


def _draws(Z: IntArray) -> IntArray:
    """Z as int32 with the labels of each draw in order of first appearance."""
    Z = np.asarray(Z)
    if Z.ndim != 2 or not Z.size or Z.dtype.kind not in "iu":
        raise ParameterError(
            f"Z must hold integers, of shape (draws, n) with at least one draw and one item, got {Z.dtype} of "
            f"{Z.shape}; see Posterior.flat"
        )
    low, high = int(Z.min()), int(Z.max())
    if high - low > 4 * Z.size or Z.dtype.kind == "u":
        Z, low, high = np.unique(Z, return_inverse=True)[1].reshape(Z.shape), 0, Z.size - 1
    codes: IntArray = _first_appearance(Z, low, np.full(high - low + 1, -1, np.int32))
    return codes


def _partition(z: IntArray, Z: IntArray) -> IntArray:
    if np.shape(z) != Z.shape[1:]:
        raise ParameterError(f"z must have one label for each of the {Z.shape[1]} items of Z, got shape {np.shape(z)}")
    return canonical(z)


def _n_needed(level: float, n_draws: int) -> int:
    if not 0 < level <= 1:
        raise ParameterError(f"level must lie in (0, 1], got {level!r}")
    return max(1, int(np.ceil(level * n_draws * (1 - 1e-12))))


def _curve(loss: str, n: int) -> FloatArray:
    """u(0..n); a constant added to u changes no loss, and u(1) = 0 makes a new cluster cost nothing."""
    x = np.arange(n + 1, dtype=np.float64)
    if loss == "vi":
        return np.log(np.maximum(x, 1))
    if loss == "binder":
        return x - 1
    raise ParameterError(f"loss must be 'vi' or 'binder', got {loss!r}")


def _groups(z: IntArray) -> tuple[IntArray, IntArray]:
    """Items cluster by cluster, and where each cluster begins and ends."""
    return np.argsort(z, kind="stable"), np.concatenate([[0], np.cumsum(np.bincount(z))])


def _distances(z: IntArray, Z: IntArray, loss: str, weight: IntArray | None = None) -> FloatArray:
    """Loss between z, labels 0, 1, ..., and each draw; items count `weight` times."""
    weight = np.ones(len(z), np.int64) if weight is None else weight
    n = int(weight.sum())
    totals: FloatArray = _losses(*_groups(z), Z, weight, _curve(loss, n))
    return totals / (float(n) ** 2 if loss == "binder" else n)


def _distinct(Z: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Distinct columns of Z as rows (u, m), for each item the row that holds it, and the number of items in each."""
    columns = np.ascontiguousarray(Z.T)
    whole = columns.view(np.dtype((np.void, columns.itemsize * columns.shape[1]))).ravel()
    _, first, item, weight = np.unique(whole, return_index=True, return_inverse=True, return_counts=True)
    return columns[first], item, weight


class _Search(NamedTuple):
    loss: str
    n_starts: int
    cap: int


class _Tables(NamedTuple):
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


def _tables(columns: IntArray, weight: IntArray, search: _Search) -> _Tables:
    n_items = len(weight)
    n_rows = np.concatenate([[0], np.cumsum(columns.max(axis=0).astype(np.int64) + 1)])
    rows = (columns + n_rows[:-1]).astype(np.int32 if n_rows[-1] < 2**31 else np.int64)
    capacity = np.minimum(np.bincount(rows.ravel(), minlength=n_rows[-1]), search.cap)
    span = np.stack([np.cumsum(capacity) - capacity, np.zeros_like(capacity)], axis=1)
    cells = np.zeros((capacity.sum(), 2), np.int32)
    size, score, n = np.zeros(search.cap, np.int64), np.zeros(search.cap), int(weight.sum())
    g = np.arange(n + 1) * _curve(search.loss, n)
    return _Tables(rows, weight, span, cells, np.full(n_items, -1), size, np.zeros(1, np.int64), score, g)


def _search(columns: IntArray, weight: IntArray, search: _Search, rng: np.random.Generator) -> IntArray:
    """Labels (u,) of distinct items."""
    n_items, nowhere = len(weight), np.full(len(weight), -1)
    if n_items > MAX_ITEMS:
        some = rng.choice(n_items, MAX_ITEMS, replace=False)
        nowhere[some] = _search(columns[some], weight[some], search, rng)
        return _descend(_tables(columns, weight, search), nowhere, search.cap, rng)
    Z = _draws(np.ascontiguousarray(columns.T))
    tables, most = _tables(Z.T, weight, search), min(search.cap, int(Z.max()) + 1)
    ends = [_sweeps(tables, start, search.cap, rng) for start in _best_draws(Z, weight, search, rng)]
    ends += [_sweeps(tables, nowhere, n_first, rng) for n_first in _first_caps(most, search.n_starts, rng)]
    ends = [_descend(tables, end, search.cap, rng) for end in _least(ends, N_FINISHED, Z, weight, search.loss)]
    return _least(ends, 1, Z, weight, search.loss)[0]


def _first_caps(most: int, n_starts: int, rng: np.random.Generator) -> list[int]:
    """How many clusters items may open as they enter: as many as a draw has, any fewer, and one.

    Where few pairs are together in half of the draws, items that are free to open clusters end up alone.
    """
    fewer = rng.integers(1, most + 1, n_starts)
    return [1, *(most if start % 2 == 0 else int(fewer[start]) for start in range(n_starts))]


def _best_draws(Z: IntArray, weight: IntArray, search: _Search, rng: np.random.Generator) -> list[IntArray]:
    fit = np.flatnonzero(Z.max(axis=1) < search.cap)
    tried = rng.permutation(fit)[:N_CANDIDATES]
    return _least(list(Z[tried].astype(np.int64)), N_DRAW_STARTS, Z, weight, search.loss)


def _least(partitions: list[IntArray], n_kept: int, Z: IntArray, weight: IntArray, loss: str) -> list[IntArray]:
    """The best partitions, the very best first, none twice."""
    distinct = list({z.tobytes(): z for z in map(canonical, partitions)}.values())
    losses = [_distances(z, Z, loss, weight).mean() for z in distinct]
    return [distinct[j] for j in np.argsort(losses, kind="stable")[:n_kept]]


def _sweeps(tables: _Tables, start: IntArray, n_first: int, rng: np.random.Generator) -> IntArray:
    """Labels that no move of one item improves; those with -1 in `start` enter first, greedily."""
    _restart(tables, start)
    n_moved = _sweep(tables, rng.permutation(len(start)), n_first)
    while n_moved:
        n_moved = _sweep(tables, rng.permutation(len(start)), len(tables.size))
    return tables.z.copy()


def _descend(tables: _Tables, start: IntArray, n_first: int, rng: np.random.Generator) -> IntArray:
    """Labels that no move of one item and no rebuilt cluster improves."""
    z = _sweeps(tables, start, n_first, rng)
    while _rebuild_some(tables, rng.permutation(len(z))):
        z = _sweeps(tables, tables.z.copy(), len(tables.size), rng)
    return z


@kernel
def _first_appearance(Z: Array, low: int, codes: Array) -> Any:
    out = np.empty(Z.shape, np.int32)
    for t in range(Z.shape[0]):
        k = 0
        for i in range(Z.shape[1]):
            label = Z[t, i] - low
            if codes[label] < 0:
                codes[label] = k
                k += 1
            out[t, i] = codes[label]
        for i in range(Z.shape[1]):
            codes[Z[t, i] - low] = -1
    return out


@kernel
def _losses(order: Array, bounds: Array, Z: Array, weight: Array, u: Array) -> Any:
    """The loss to each draw, times s; cells are counted cluster by cluster in one scratch row."""
    out = np.zeros(Z.shape[0])
    n_both, n_draw = np.zeros(Z.shape[1], np.int64), np.zeros(Z.shape[1], np.int64)
    for t in range(Z.shape[0]):
        n_draw[:] = 0
        for i in range(Z.shape[1]):
            n_draw[Z[t, i]] += weight[i]
        for k in range(len(bounds) - 1):
            n_cluster = 0
            for i in order[bounds[k] : bounds[k + 1]]:
                n_both[Z[t, i]] += weight[i]
                n_cluster += weight[i]
            for i in order[bounds[k] : bounds[k + 1]]:
                c = Z[t, i]
                out[t] += n_both[c] * ((u[n_cluster] - u[n_both[c]]) + (u[n_draw[c]] - u[n_both[c]]))
                n_both[c] = 0
    return out


@kernel
def _agreement(order: Array, bounds: Array, Z: Array) -> Any:
    """Others of its cluster that an item is with, summed over draws; for an item alone, draws where it is alone."""
    out = np.zeros(Z.shape[1], np.int64)
    n_both, n_draw = np.zeros(Z.shape[1], np.int64), np.zeros(Z.shape[1], np.int64)
    for t in range(Z.shape[0]):
        n_draw[:] = 0
        for c in Z[t]:
            n_draw[c] += 1
        for k in range(len(bounds) - 1):
            members = order[bounds[k] : bounds[k + 1]]
            for i in members:
                n_both[Z[t, i]] += 1
            for i in members:
                out[i] += n_both[Z[t, i]] - 1 if len(members) > 1 else n_draw[Z[t, i]] == 1
            for i in members:
                n_both[Z[t, i]] = 0
    return out


@kernel
def _change(tables: Any, i: int, k: int, sign: int) -> Any:
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
def _best(tables: Any, i: int, cap: int) -> Any:
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
            _change(tables, i, start[i], 1)


@kernel
def _sweep(tables: Any, order: Array, cap: int) -> Any:
    """Each item to its best cluster, of at most `cap`; how many moved."""
    n_moved, tolerance = 0, LEAST_GAIN * tables.rows.shape[1]
    for i in order:
        k, least, here = _best(tables, i, cap)
        if least < here - tolerance:
            if tables.z[i] >= 0:
                _change(tables, i, tables.z[i], -1)
            _change(tables, i, k, 1)
            n_moved += 1
    return n_moved


@kernel
def _rebuild(tables: Any, members: Array) -> Any:
    """Dissolve a cluster and let its items enter one after the other; undone where nothing is gained."""
    k, gain = tables.z[members[0]], 0.0
    for i in members:
        gain += _change(tables, i, k, -1)
    for i in members:
        gain -= _change(tables, i, _best(tables, i, len(tables.size))[0], 1)
    if gain > LEAST_GAIN * tables.rows.shape[1]:
        return 1
    for i in members:
        _change(tables, i, tables.z[i], -1)
    for i in members:
        _change(tables, i, k, 1)
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
