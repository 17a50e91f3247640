"""Exact labels from the clusters that can matter: rows that lie together share one short, certified list of them.

A cell is a run of `size` rows of the data, and an ellipsoid |L^-1 (T_i - T_c)| <= rho that holds their statistics
(`weald.assign.order`). Scores are linear in T: with b_k = (eta_k, log w_k folded into the last entry) and r the best
cluster at T_c, all rows of the cell have

    s_k - s_r  <=  <T_c, b_k - b_r> + rho |L' (b_k - b_r)|                                        (Cauchy-Schwarz)

so clusters for which this lies below -(37 + log K) have less than e^-37 of the mass of any row, all together: they
cannot matter in float64, and only the others are scored. Ellipsoids of large parts of 1,024 rows, and of parts between
them and cells, shorten the list first. Draws and log normalisers are those of `ExactAssignment`, for rows in any
order; lists are short where neighbours in the array are neighbours in space (`nearby_order`), in few dimensions.

A list is scored by a small matrix product, exponentiated and drawn from for 64 rows abreast, one to a lane: 0.3 ns for
each row and listed cluster, 0.5 ns more where it has any mass. Cost of a sweep: n (listed clusters) p, and 4 ns for
each bound, (n / 1024) K + (n / 256) (listed for the large part) + (n / 64) (listed for the part) of them. Clusters 5
standard deviations apart, 200,000 rows: 26 of 1000 clusters are listed in 3 columns, 82 in 4, 400 in 6, most in 8.
`pruned_share` tells beforehand. Specification 1.5 (B2), with cells in place of rows and nothing left to reject.

    >>> PrunedAssignment(size=128).size
    128
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from weald._kernel import kernel, ordered
from weald._random import uniform
from weald._typing import Array, FloatArray, IntArray
from weald.assign._softmax import CUT, LANES, _exp_group
from weald.assign.base import TILE, AbstractAssignment, Memory, Part, Rows, Soft, add_statistics
from weald.assign.exact import ExactAssignment, score_matrix
from weald.assign.order import Hulls, hulls_of
from weald.engine.threads import BLOCK
from weald.exceptions import ParameterError

NEVER = -1e300  # for a log weight of -inf, which cannot be multiplied by 0
SLACK = 1e-9  # relative widening of bounds


class Cells(NamedTuple):
    """What is known of the data: rows of large parts, parts and cells, their ellipsoids, and the dtype of scores."""

    sizes: tuple[int, ...]
    hulls: tuple[Hulls, ...]
    dtype: np.dtype[Any]


class Plan(NamedTuple):
    """Parameters: E (K, p) for scores, B (p, K) for bounds in float64, and the lengths (K,) of its columns."""

    data: Cells
    E: Array
    B: FloatArray
    length: FloatArray


class Tile(NamedTuple):
    """Neighbouring cells: their rows, their clusters ids[edges[c] : edges[c + 1]], and how many bounds that took."""

    rows: slice
    ids: IntArray
    edges: IntArray
    n_bounds: int


@dataclass(frozen=True)
class PrunedAssignment(AbstractAssignment):
    """Score the clusters that can matter, found by bounds for cells of neighbouring rows.

    Parameters
    ----------
    size : int
        Rows of a cell: a power of two from 64 to 4096.
    """

    size: int = LANES

    def __post_init__(self) -> None:
        if self.size < LANES or BLOCK % self.size:
            raise ParameterError(f"size must be a power of two from {LANES} to {BLOCK}, got {self.size}")

    @property
    def period(self) -> int:
        """Every row, every sweep."""
        return 1

    @property
    def layout(self) -> str:
        """Cells are runs of rows."""
        return "nearby"

    def prepare(self, rows: Rows) -> Cells:
        """The ellipsoids."""
        large = max(BLOCK // 4, self.size)
        sizes = (large, 1 << ((large * self.size).bit_length() - 1) // 2, self.size)
        blocks = (slice(a, a + BLOCK) for a in range(0, rows.n_rows, BLOCK))
        found = [[hulls_of(T, size) for size in sizes] for T in (_dense(rows, at).astype(float) for at in blocks)]
        joined = tuple(Hulls(*map(np.concatenate, zip(*level, strict=True))) for level in zip(*found, strict=True))
        return Cells(sizes, joined, ExactAssignment().prepare(rows))

    def refresh(self, plan: Cells, eta: Array, log_w: Array, sweep: int, shared: Memory) -> tuple[Plan, Memory]:
        """The parameters; lists are made by `sample`, block by block, where threads share the work."""
        return plan_of(plan, eta, log_w), {}

    def blank(self, n_rows: int, n_components: int) -> Memory:
        """Nothing is remembered."""
        return {}

    def sample(self, plan: Plan, rows: Rows, shard: slice, z: IntArray, memory: Memory, key: np.uint64) -> Part:
        """Draw z from its full conditional; the current `z` plays no part."""
        S, drawn = np.zeros(plan.E.shape), np.empty(shard.stop - shard.start, np.int32)
        log_norm, n_evals = 0.0, 0
        for tile in tiles_of(plan, shard):
            T, labels = _dense(rows, tile.rows), drawn[tile.rows.start - shard.start : tile.rows.stop - shard.start]
            norms = np.empty(labels.size)
            n_scores = draw(_lanes(T), plan.E, tile.ids, tile.edges, self.size, key, tile.rows.start, labels, norms)
            if rows.known is not None:
                at, known, norms[at] = _known(plan, rows.known[tile.rows], T)
                labels[at] = known
            weight = None if rows.weight is None else rows.weight[tile.rows]
            add_statistics(T, labels, weight, S)
            log_norm += float(norms.sum() if weight is None else norms @ weight)
            n_evals += tile.n_bounds + n_scores
        return Part(drawn, log_norm, {"n_evals": float(n_evals)}, S)

    def expect(self, plan: Plan, rows: Rows, shard: slice) -> Soft:
        """Responsibilities of the listed clusters, and the statistics they weigh."""
        S, log_norm, n_evals = np.zeros(plan.E.shape), 0.0, 0
        for tile in tiles_of(plan, shard):
            T = _dense(rows, tile.rows)
            weight = np.ones(len(T)) if rows.weight is None else rows.weight[tile.rows]
            known = np.full(len(T), -1) if rows.known is None else rows.known[tile.rows]
            free, norms = np.where(known < 0, weight, 0.0), np.empty(len(T))
            n_scores = soften(_lanes(T), plan.E, tile.ids, tile.edges, self.size, free, S, norms)
            at, known, norms[at] = _known(plan, known, T)
            add_statistics(T[at], known, weight[at], S)
            log_norm += float(norms @ weight)
            n_evals += tile.n_bounds + n_scores
        return Soft(S, log_norm, {"n_evals": float(n_evals)})


def plan_of(data: Cells, eta: Array, log_w: Array) -> Plan:
    """Parameters eta (K, p), log_w (K,) for scores and bounds."""
    B = score_matrix(eta, log_w, np.dtype(np.float64))
    E = np.ascontiguousarray(B.T, data.dtype)
    length = np.sqrt((np.where(np.isfinite(B), B, 0.0) ** 2).sum(axis=0))
    B[-1] = np.maximum(B[-1], NEVER)
    return Plan(data, E, B, length)


def tiles_of(plan: Plan, shard: slice) -> Iterator[Tile]:
    """Cut a shard into tiles of whole cells, with their lists."""
    sizes, (p, K) = plan.data.sizes, plan.B.shape
    size, many = sizes[-1], max(1, TILE // (sizes[-1] * p))
    for start in range(shard.start, shard.stop, BLOCK):
        stop = min(start + BLOCK, shard.stop)
        spans = [slice(start // n, -(-stop // n)) for n in sizes]
        large, parts, cells = (Hulls(h.form[at], h.reach[at]) for h, at in zip(plan.data.hulls, spans, strict=True))
        n_parts, n_cells = sizes[0] // sizes[1], sizes[1] // size
        ids, edges, n_bounds = shortlists(large, parts, cells, n_parts, n_cells, plan.B, plan.length, depth(K))
        for a in range(0, edges.size - 1, many):
            rows = slice(start + a * size, min(start + (a + many) * size, stop))
            yield Tile(rows, ids, edges[a : a + many + 1], n_bounds if a == 0 else 0)


def depth(n_components: int) -> float:
    """How far below the best a cluster must lie so that all such together cannot matter."""
    return CUT + math.log(n_components)


def pruned_share(rows: Rows, eta: Array, log_w: Array, *, size: int = LANES, n_probes: int = 32) -> float:
    """Share of all scores that a sweep would compute, from a few evenly spaced cells.

    Parameters
    ----------
    rows : Rows
        The data, in the order in which they will be swept.
    eta, log_w : (K, p), (K,) arrays
        Parameters.
    size : int
        Rows of a cell.
    n_probes : int
        Cells to look at.

    Returns
    -------
    float
        In (0, 1].
    """
    K, starts = len(log_w), np.arange(0, rows.n_rows, size)
    probes = starts[np.unique(np.linspace(0, starts.size - 1, min(n_probes, starts.size)).astype(np.int64))]
    T = [np.asarray(_dense(rows, slice(a, a + size)), np.float64) for a in probes]
    plan = plan_of(Cells((size,), (), np.dtype(np.float64)), eta, log_w)
    hulls = Hulls(*map(np.concatenate, zip(*(hulls_of(t, size) for t in T), strict=True)))
    seen, found = images(hulls, 0, len(T), plan.B), np.empty(K + 1, np.int64)
    rest = (plan.B, plan.length, depth(K), found)
    return float(np.mean([survivors(hulls.form[i], seen[i], hulls.reach[i], *rest) for i in range(len(T))])) / K


def _dense(rows: Rows, at: slice) -> Array:
    T = rows.family.sufficient(rows.X[at])
    return np.ascontiguousarray(T.toarray() if sp.issparse(T) else T)


def _lanes(T: Array) -> Array:
    """(rows, p) -> (g, p, 64): rows abreast, the last ones of zeros."""
    padded = np.zeros((-(-len(T) // LANES) * LANES, T.shape[1]), T.dtype)
    padded[: len(T)] = T
    return np.ascontiguousarray(padded.reshape(-1, LANES, T.shape[1]).transpose(0, 2, 1))


def _known(plan: Plan, known: IntArray, T: Array) -> tuple[IntArray, IntArray, FloatArray]:
    """Places of rows with known labels, these labels, and their scores, listed or not."""
    at = np.flatnonzero(known >= 0)
    return at, known[at], np.asarray((T[at] * plan.E[known[at]]).sum(axis=1), np.float64)


@kernel
def images(hulls: Hulls, a: int, b: int, B: FloatArray) -> FloatArray:
    """Forms a:b times B (p, n): (b - a, 1 + q, n)."""
    _, rows, p = hulls.form.shape
    out: FloatArray = np.dot(hulls.form[a:b].reshape((b - a) * rows, p), B)
    return out.reshape(b - a, rows, B.shape[1])


@kernel
def survivors(
    form: FloatArray, image: FloatArray, reach: float, B: FloatArray, length: FloatArray, depth: float, found: IntArray
) -> int:
    """Columns of B (p, n) that may matter within an ellipsoid, into `found` (n + 1,); how many there are."""
    n, score, best = length.size, image[0], 0
    for k in range(1, n):
        if score[k] > score[best]:
            best = k
    square, slack, limit = np.zeros(n), SLACK * reach, score[best] - depth
    if form.shape[0] == form.shape[1]:
        for f in range(1, form.shape[0]):
            row, own = image[f], image[f, best]
            for k in range(n):
                square[k] += (row[k] - own) ** 2
    else:
        for f in range(form.shape[1] - 1):
            row, own, w = B[f], B[f, best], form[1, f]
            for k in range(n):
                square[k] += (w * (row[k] - own)) ** 2
    for k in range(n):
        square[k] = score[k] + math.sqrt(square[k]) + slack * (length[k] + length[best])
    n_found = 0
    for k in range(n):
        found[n_found] = k
        n_found += 0 if square[k] < limit else 1
    return n_found


@kernel
def columns(B: FloatArray, length: FloatArray, ids: IntArray, found: IntArray) -> Any:
    """The columns `found` of B (p, n), of length (n,) and of ids (n,)."""
    near, near_length, near_ids = (
        np.empty((B.shape[0], found.size)),
        np.empty(found.size),
        np.empty(found.size, np.int32),
    )
    for k in range(found.size):
        near_length[k], near_ids[k] = length[found[k]], ids[found[k]]
    for f in range(B.shape[0]):
        for k in range(found.size):
            near[f, k] = B[f, found[k]]
    return near, near_length, near_ids


@kernel
def shortlists(
    large: Hulls, parts: Hulls, cells: Hulls, n_parts: int, n_cells: int,
    B: FloatArray, length: FloatArray, depth: float,
) -> tuple[IntArray, IntArray, int]:  # fmt: skip
    """Clusters that may matter in large parts, among them those of each of their parts, among them those of its cells.

    Returns ids (the lists of all cells, one after the other), edges (cells + 1,), and how many bounds were evaluated.
    """
    m, K = cells.reach.size, B.shape[1]
    found, everyone = np.empty(K + 1, np.int64), np.arange(K)
    ids, edges, n_bounds = np.empty(m * K, np.int32), np.zeros(m + 1, np.int64), 0
    for t in range(large.reach.size):
        n = survivors(large.form[t], images(large, t, t + 1, B)[0], large.reach[t], B, length, depth, found)
        B1, length1, ids1 = columns(B, length, everyone, found[:n])
        first, last = t * n_parts, min(parts.reach.size, (t + 1) * n_parts)
        seen = images(parts, first, last, B1)
        n_bounds += K + (last - first) * n
        for i in range(first, last):
            n = survivors(parts.form[i], seen[i - first], parts.reach[i], B1, length1, depth, found)
            B2, length2, ids2 = columns(B1, length1, ids1, found[:n])
            start, stop = i * n_cells, min(m, (i + 1) * n_cells)
            near = images(cells, start, stop, B2)
            n_bounds += (stop - start) * n
            for c in range(start, stop):
                kept = survivors(cells.form[c], near[c - start], cells.reach[c], B2, length2, depth, found)
                for k in range(kept):
                    ids[edges[c] + k] = ids2[found[k]]
                edges[c + 1] = edges[c] + kept
    return ids, edges, n_bounds


@ordered
def weigh(T: Array, E: Array, ids: IntArray, theirs: Array, y: Array, work: Array, held: IntArray) -> int:
    """Weights y OUT of clusters for 64 rows, relative to each row's best: of those that have any, held OUT; how many.

    T (p, 64), E (K, p), ids (m,) IN; work (3, 64) OUT: scores of the best, sums of weights, room; theirs (m, p): room.
    """
    m, floor = ids.size, y.dtype.type(-CUT)
    for k in range(m):
        theirs[k] = E[ids[k]]
    np.dot(theirs[:m], T, y[:m])
    top, total, gap = work[0], work[1], work[2]
    top[:] = y[0]
    total[:] = 0.0
    for k in range(1, m, 4):  # four at a time: the loop over lanes is short
        y0, y1, y2, y3 = y[k], y[min(k + 1, m - 1)], y[min(k + 2, m - 1)], y[min(k + 3, m - 1)]
        for j in range(LANES):
            low = y0[j] if y0[j] > y1[j] else y1[j]
            high = y2[j] if y2[j] > y3[j] else y3[j]
            high = low if low > high else high
            top[j] = high if high > top[j] else top[j]
    held[0], n = ids[0], 0
    for k in range(m):
        row, matters = y[k], 0
        for j in range(LANES):
            gap[j] = row[j] - top[j]
            matters |= gap[j] >= floor
        if matters:
            _exp_group(gap, y.dtype.type(0.0), y[n], total)
            held[n] = ids[k]
            n += 1
    return n


@ordered
def draw(
    lanes: Array, E: Array, ids: IntArray, edges: IntArray, size: int, key: np.uint64, first: int, z: IntArray,
    log_norm: FloatArray,
) -> int:  # fmt: skip
    """Draw the labels of cells of `size` rows, one uniform for each row; return how many scores were computed.

    lanes (g, p, 64) IN: T; E (K, p) IN; ids, edges IN: lists; first: number of the first row; z, log_norm (rows,) OUT.
    """
    theirs, y, work, held = room(lanes, edges)
    rest, place, n_scores = np.empty(LANES), np.empty(LANES, np.int64), 0
    for g in range(lanes.shape[0]):
        a, c = g * LANES, g * LANES // size
        n = weigh(lanes[g], E, ids[edges[c] : edges[c + 1]], theirs, y, work, held)
        for j in range(LANES):
            rest[j] = uniform(key, first + a + j, 0) * work[1, j]
            place[j] = 0
        for k in range(n):
            row = y[k]
            for j in range(LANES):
                rest[j] -= row[j]
                place[j] += rest[j] >= 0.0
        for j in range(min(LANES, z.size - a)):
            k = max(min(place[j], n - 1), 0)
            while k > 0 and y[k, j] == 0.0:  # rounding left the uniform beyond the end
                k -= 1
            z[a + j] = held[k]
            log_norm[a + j] = work[0, j] + np.log(work[1, j])
        n_scores += LANES * (edges[c + 1] - edges[c])
    return n_scores


@kernel
def room(lanes: Array, edges: IntArray) -> Any:
    """Arrays for `weigh`."""
    m = np.max(np.diff(edges))
    y, work = np.empty((m, LANES), lanes.dtype), np.empty((3, LANES), lanes.dtype)
    return np.empty((m, lanes.shape[1]), lanes.dtype), y, work, np.empty(m, np.int64)


@kernel
def soften(
    lanes: Array, E: Array, ids: IntArray, edges: IntArray, size: int, weight: Array, S: FloatArray,
    log_norm: FloatArray,
) -> int:  # fmt: skip
    """Add to S (K, p) what the rows of cells, weighted by `weight` (rows,), are expected to add; else as `draw`."""
    theirs, y, work, held = room(lanes, edges)
    n_scores = 0
    for g in range(lanes.shape[0]):
        a, c = g * LANES, g * LANES // size
        n = weigh(lanes[g], E, ids[edges[c] : edges[c + 1]], theirs, y, work, held)
        work[2] = 0.0
        for j in range(min(LANES, log_norm.size - a)):
            work[2, j] = weight[a + j] / work[1, j]
            log_norm[a + j] = work[0, j] + np.log(work[1, j])
        for k in range(n):
            y[k] *= work[2]
        np.dot(y[:n], lanes[g].T, theirs[:n])
        for k in range(n):
            for f in range(E.shape[1]):
                S[held[k], f] += theirs[k, f]
        n_scores += LANES * (edges[c + 1] - edges[c])
    return n_scores
