"""Lazy candidate lists: most rows look at a few clusters, some at a longer list, a few rows look at all.

Lemma (restricted Gibbs). For a set C chosen without looking at z: if z is in C, redraw it from p(z | x) restricted to
C, else keep it. This is Gibbs sampling on the block {z in C} and leaves p(z | x) invariant.

Every row owns a list of up to `width` clusters, its best when it was last scored in full; those within `depth` nats of
the best, at most `length`, stand first and are called near. In a sweep

    one row in `turn`      is scored in full, drawn exactly and given a new list,
    one row in `rescore`   is redrawn among its whole list, whose near ones are then found anew,
    the others             are redrawn among their near ones, by a few dot products.

Full looks make the chain irreducible, estimate the log-likelihood without bias, and count how many exact draws fall
outside the old list (`n_outside`) and how many labels exact assignment would have renewed (`n_moved`). While
parameters still move fast, near ones go stale within a few sweeps but long lists hold: after seven sweeps 64 of 1,000
clusters still hold 93 % of a row's posterior where 16 hold 77 % (32 dimensions, from random points). In so many
dimensions nothing cheaper replaces full looks: a search along a graph of neighbouring clusters finds half of what it
should, cells of rows do no better, and looking more often at rows with many near ones leaves behind the others, whose
better clusters are not on their lists.

A list made from an older eta depends on the past: exact for fixed parameters, harmless for stochastic EM; strict MCMC
wants ``"exact"`` (Canopy specification 1.8, K2 and K3).
Cost per sweep: n p (`length` + `width` / `rescore` + K / `turn`).

    >>> ListsAssignment(turn=20).turn
    20
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from weald._kernel import kernel, ordered
from weald._random import uniform
from weald._typing import Array, FloatArray, IntArray, Matrix
from weald.assign import _softmax
from weald.assign._softmax import LANES, _exp_group, draw_row, pick
from weald.assign.base import MAX_TILE_ROWS, TILE, AbstractAssignment, Memory, Part, Rows, Soft
from weald.assign.exact import ExactAssignment, padded_columns, score_matrix, score_tile

DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)  # the top six bits of its product with 2**j tell j
PLACE = np.argsort([(int(DE_BRUIJN) << j) % 2**64 >> 58 for j in range(64)])


class Plan(NamedTuple):
    """What all shards of a sweep share: scores as a matrix (p, K), its transpose, and the sweep."""

    B: Array
    rows: Array
    sweep: int


class Lists(NamedTuple):
    """The lists of some rows: clusters (rows, width), how many are near (rows,), and how many there are (rows,)."""

    member: IntArray
    n_near: IntArray
    n_listed: IntArray

    def at(self, where: slice) -> Lists:
        """Those of fewer rows: views."""
        return Lists(self.member[where], self.n_near[where], self.n_listed[where])


@dataclass(frozen=True)
class ListsAssignment(AbstractAssignment):
    """Redraw rows within lists of candidates; score one row in `turn` in full.

    Parameters
    ----------
    length : int
        Most near candidates of a row.
    width : int
        Most candidates of a row, at most 64.
    depth : float
        Nats below its best cluster at which a row's near candidates end.
    rescore : int
        Sweeps between two redraws of a row among its whole list.
    turn : int
        Sweeps between two full looks at a row.
    """

    length: int = 16
    width: int = 64
    depth: float = 6.0
    rescore: int = 4
    turn: int = 10

    @property
    def period(self) -> int:
        """A full look at each row in `turn` sweeps."""
        return self.turn

    @property
    def layout(self) -> str:
        """No matter."""
        return "parts"

    def prepare(self, rows: Rows) -> np.dtype[Any]:
        """The dtype of the scores."""
        return ExactAssignment().prepare(rows)

    def refresh(self, plan: np.dtype[Any], eta: Array, log_w: Array, sweep: int, shared: Memory) -> tuple[Plan, Memory]:
        """(K, p), (K,) -> scores by column and by row."""
        B = score_matrix(eta, log_w, plan)
        return Plan(B, np.ascontiguousarray(B.T), sweep), {}

    def blank(self, n_rows: int, n_components: int) -> Memory:
        """Empty lists; two bytes for each candidate where they suffice."""
        kind = np.uint16 if n_components <= 2**16 else np.int32
        width = min(self.width, n_components)
        return {
            "member": np.zeros((n_rows, width), kind),
            "n_near": np.zeros(n_rows, np.int8),
            "n_listed": np.zeros(n_rows, np.int8),
        }

    def sample(self, plan: Plan, rows: Rows, shard: slice, z: IntArray, memory: Memory, key: np.uint64) -> Part:
        """Full looks for the rows whose turn it is, or that have no list yet; lists for the others."""
        if plan.sweep == 0:  # the parameters of a start are too far off to make lists that last
            return ExactAssignment().sample(plan.B, rows, shard, z, {}, key)
        drawn, lists = z.copy(), Lists(*(np.ascontiguousarray(memory[name]) for name in Lists._fields))
        at = np.arange(shard.start, shard.stop)
        looked = (at - plan.sweep) % self.turn == 0 if lists.n_listed.all() else np.ones(at.size, bool)
        n_dots = self._redraw(plan, rows, at, looked, drawn, lists, key)
        norms, n_moved, n_outside = self._look(plan, rows, at[looked], looked, drawn, lists, key)
        log_norm = float(norms.sum() if rows.weight is None else norms @ rows.weight[at[looked]])
        info = {
            "n_evals": float(n_dots + norms.size * plan.B.shape[1]),
            "n_looked": float(norms.size), "n_moved": float(n_moved), "n_outside": float(n_outside),
        }  # fmt: skip
        for name, a in lists._asdict().items():
            if a is not memory[name]:  # rows of a part do not lie side by side
                memory[name][:] = a
        return Part(drawn, log_norm * (at.size / max(1, norms.size)), info)

    def expect(self, plan: Plan, rows: Rows, shard: slice) -> Soft:
        """Expectations are exact: all clusters, all rows."""
        return ExactAssignment().expect(plan.B, rows, shard)

    def _redraw(
        self, plan: Plan, rows: Rows, at: IntArray, looked: Array, z: IntArray, lists: Lists, key: np.uint64
    ) -> int:
        """Redraw, within its list, every row `at` whose turn it is not; count the dot products."""
        n_dots = 0
        for start in range(0, 0 if looked.all() else z.size, MAX_TILE_ROWS):
            tile = slice(start, min(start + MAX_TILE_ROWS, z.size))
            here = lists.at(tile)
            n_used = np.where((at[tile] - plan.sweep) % self.rescore == 0, here.n_listed, here.n_near)
            n_used[looked[tile]] = 0
            T = rows.family.sufficient(rows.X[at[tile][0] : at[tile][-1] + 1])
            listed = listed_scores(T, plan.rows, here.member, n_used)
            redraw_within(listed, n_used, key, at[tile][0], z[tile], self.depth, self.length, *here)
            n_dots += int(n_used.sum())
        return n_dots

    def _look(
        self, plan: Plan, rows: Rows, at: IntArray, looked: Array, z: IntArray, lists: Lists, key: np.uint64
    ) -> tuple[FloatArray, int, int]:
        """Exact draws and new lists for rows `at`; log normalisers, how many moved, how many out of their lists."""
        drawn, mine, norms, outside = z[looked], Lists(*(a[looked] for a in lists)), np.empty(at.size), 0
        step = max(16, TILE // plan.B.shape[1])
        buffer = np.empty((min(step, at.size), padded_columns(plan.B)), plan.B.dtype)
        for tile in (slice(a, a + step) for a in range(0, at.size, step)):
            scores = score_tile(rows.family.sufficient(rows.X[at[tile]]), plan.B, buffer)
            if rows.known is not None:
                _softmax.clamp(scores, rows.known[at[tile]])
            here = mine.at(tile)
            outside += draw_and_list(scores, key, at[tile], drawn[tile], norms[tile], self.depth, self.length, *here)
        n_moved = int(np.count_nonzero(drawn != z[looked]))
        z[looked] = drawn
        for all_rows, some in zip(lists, mine, strict=True):
            all_rows[looked] = some
        return norms, n_moved, outside


def listed_scores(T: Matrix, E: Array, member: IntArray, n_used: IntArray) -> Array:
    """(rows, p), (K, p) -> (rows, 64): <T_i, E_k> for the first n_used clusters k of each row's list, -inf beyond."""
    out = np.empty((T.shape[0], LANES), E.dtype)
    if sp.issparse(T):
        _sparse_dots(T.data, T.indices, T.indptr, E, member, n_used, out)
    else:
        _dense_dots(T, E, member, n_used, out)
    return out


@kernel
def _dense_dots(T: Array, E: Array, member: IntArray, n_used: IntArray, out: Array) -> None:
    for i in range(T.shape[0]):
        row = T[i]
        out[i] = -np.inf
        for j in range(n_used[i] if n_used[i] > 1 else 0):
            candidate = E[member[i, j]]
            total = row[0] * candidate[0]
            for q in range(1, row.shape[0]):
                total += row[q] * candidate[q]
            out[i, j] = total


@kernel
def _sparse_dots(
    data: Array, indices: IntArray, indptr: IntArray, E: Array, member: IntArray, n_used: IntArray, out: Array
) -> None:
    for i in range(indptr.shape[0] - 1):
        out[i] = -np.inf
        for j in range(n_used[i] if n_used[i] > 1 else 0):
            candidate = E[member[i, j]]
            total = 0.0
            for q in range(indptr[i], indptr[i + 1]):
                total += data[q] * candidate[indices[q]]
            out[i, j] = total


@ordered
def redraw_within(
    listed: Array, n_used: IntArray, key: np.uint64, first: int, z: IntArray,
    depth: float, length: int, member: IntArray, n_near: IntArray, n_listed: IntArray,
) -> None:  # fmt: skip
    """z_i ~ softmax over the first n_used clusters of row i's list if they hold z_i; fewer than 2 leave it alone.

    listed (rows, 64) scores IN; rows first, first + 1, ...; z (rows,) IN/OUT. Where the whole list was used, its
    near ones are put first again.
    """
    y, lane = np.empty(LANES, listed.dtype), np.empty(LANES, listed.dtype)
    for i in range(listed.shape[0]):
        n = n_used[i]
        if n < 2:
            continue
        held = False
        top = listed[i, 0]
        for j in range(n):
            top = max(top, listed[i, j])
            held |= member[i, j] == z[i]
        if held:
            lane[:] = 0.0
            _exp_group(listed[i], top, y, lane)
            chosen, _ = pick(uniform(key, first + i, 0) * np.sum(y), y, n)
            z[i] = member[i, chosen]
        if n == n_listed[i]:
            n_near[i] = near_first(listed[i], top, depth, length, member[i], n)


@ordered
def near_first(scores: Array, top: float, depth: float, length: int, member: IntArray, n: int) -> int:
    """Order the first n members so that those at most `depth` below the top, at most `length`, stand first."""
    near = length + 1
    while near > length and depth > 1e-3:
        near = 0
        for j in range(n):
            near += scores[j] >= top - depth
        depth *= 0.75 if near > length else 1.0
    front = 0
    for j in range(n):
        if scores[j] >= top - depth:
            member[front], member[j] = member[j], member[front]
            scores[front], scores[j] = scores[j], scores[front]
            front += 1
    return min(front, length)


@ordered
def draw_and_list(
    scores: Array, key: np.uint64, rows: IntArray, z: IntArray, log_norm: FloatArray,
    depth: float, length: int, member: IntArray, n_near: IntArray, n_listed: IntArray,
) -> int:  # fmt: skip
    """Exact draws and new lists for some rows, whose numbers key the uniforms.

    scores (rows, 64 g) IN; z, log_norm (rows,) OUT; lists IN/OUT. Returns how many rows had a list that does not hold
    the label drawn.
    """
    y, lane = np.empty(scores.shape[1], scores.dtype), np.empty(LANES, scores.dtype)
    peaks, kept = np.empty(scores.shape[1] // LANES + 1, scores.dtype), np.empty(LANES, scores.dtype)
    found = np.empty(scores.shape[1], np.int64)
    outside, reach = 0, depth
    for i in range(scores.shape[0]):
        z[i], log_norm[i], _ = draw_row(scores[i], uniform(key, rows[i], 0), peaks, y, lane)
        held = n_listed[i] == 0
        for j in range(n_listed[i]):
            held |= member[i, j] == z[i]
        outside += not held
        n, reach = best_columns(scores[i], peaks, reach, member.shape[1], found)
        for j in range(n):
            member[i, j], kept[j] = found[j], scores[i, found[j]]
        n_listed[i] = n
        n_near[i] = near_first(kept, peaks[-1], depth, length, member[i], n)
    return outside


@ordered
def best_columns(row: Array, peaks: Array, reach: float, most: int, found: IntArray) -> tuple[int, float]:
    """The best columns of a row into `found`: at least half of `most` and at most all, but for ties and short rows.

    `reach` is a first guess of how far below the best they lie; returned with their number is one for the next row.
    """
    n = 0
    threshold = peaks[-1] - reach
    for g in range(peaks.shape[0] - 1):
        if peaks[g] >= threshold:
            bits = _bits_above(row[g * LANES : (g + 1) * LANES], threshold)
            while bits != np.uint64(0):
                last = bits & (~bits + np.uint64(1))
                found[n] = g * LANES + PLACE[(last * DE_BRUIJN) >> np.uint64(58)]
                n += 1
                bits ^= last
    guess = reach * min(max((0.7 * most / max(n, 1)) ** 0.2, 0.8), 1.25)
    while n > most and reach > 1e-3:
        reach *= min((most / n) ** 0.33, 0.95)
        n = _keep_above(row, peaks[-1] - reach, found, n)
    return min(n, most), min(max(guess, 1e-2), 1e6)


@ordered
def _bits_above(group: Array, threshold: Any) -> Any:
    """Which of 64 scores reach the threshold, as bits."""
    bits = np.uint64(0)
    for j in range(LANES):
        bits |= np.uint64(group[j] >= threshold) << np.uint64(j)
    return bits


@kernel
def _keep_above(row: Array, threshold: Any, found: IntArray, n: int) -> int:
    """The first n columns in `found` whose score reaches the threshold, moved to its front."""
    kept = 0
    for j in range(n):
        if row[found[j]] >= threshold:
            found[kept] = found[j]
            kept += 1
    return kept
