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
clusters still hold 93 % of a row's posterior where 16 hold 77 % (32 dimensions, from random points). So `early` sweeps
redraw all rows among their whole lists, which the very first sweep makes: with 1,000 clusters, nine sweeps get as far
as fourteen that redraw among near ones, and spare a second sweep over all clusters. In so many dimensions nothing
cheaper replaces full looks: a search along a graph of neighbouring clusters finds half of what it should, cells of rows
do no better, and looking more often at rows with many near ones leaves behind the others, whose better clusters are not
on their lists.

A new list holds what lies above the median of the best scores in 64 lanes (`middle`): 30 to 60 clusters, for any row.

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
FAR = 1e20  # nats below the best, beyond which nothing is listed: columns that only pad a row
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
    early : int
        Sweeps at the beginning in which all rows are redrawn among their whole lists, the first of which makes them.
        Without such sweeps the second makes them: the parameters of a start are too far off for near candidates.
    early_turn : int
        Sweeps between two full looks at a row then.
    """

    length: int = 16
    width: int = 56
    depth: float = 6.0
    rescore: int = 4
    turn: int = 10
    early: int = 0
    early_turn: int = 5

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

    def tell(self, memory: Memory, joined: IntArray, also: IntArray) -> None:
        """Lists that hold a cluster hold what became of it, too."""
        follow(joined, also, *(memory[name] for name in Lists._fields))

    def sample(self, plan: Plan, rows: Rows, shard: slice, z: IntArray, memory: Memory, key: np.uint64) -> Part:
        """Full looks for the rows whose turn it is, or that have no list yet; lists for the others."""
        if plan.sweep == 0 and not self.early:
            return ExactAssignment().sample(plan.B, rows, shard, z, {}, key)
        drawn, lists = z.copy(), Lists(*(np.array(memory[name], order="C") for name in Lists._fields))
        at = np.arange(shard.start, shard.stop)
        turn = self.early_turn if plan.sweep < self.early else self.turn
        looked = (at - plan.sweep) % turn == 0 if lists.n_listed.all() else np.ones(at.size, bool)
        n_dots = self._redraw(plan, rows, at, looked, drawn, lists, key)
        norms, n_moved, n_outside = self._look(plan, rows, at[looked], shard.start, drawn, lists, key)
        log_norm = float(norms.sum() if rows.weight is None else norms @ rows.weight[at[looked]])
        info = {
            "n_evals": float(n_dots + norms.size * plan.B.shape[1]),
            "n_looked": float(norms.size), "n_moved": float(n_moved), "n_outside": float(n_outside),
        }  # fmt: skip
        return Part(drawn, log_norm * (at.size / max(1, norms.size)), info, memory=lists._asdict())

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
            whole = plan.sweep < self.early or (at[tile] - plan.sweep) % self.rescore == 0
            n_used = np.where(whole, here.n_listed, here.n_near)
            n_used[looked[tile]] = 0
            T = rows.family.sufficient(rows.X[at[tile][0] : at[tile][-1] + 1])
            listed = listed_scores(T, plan.rows, here.member, n_used)
            redraw_within(listed, n_used, key, at[tile][0], z[tile], self.depth, self.length, *here)
            n_dots += int(n_used.sum())
        return n_dots

    def _look(
        self, plan: Plan, rows: Rows, at: IntArray, first: int, z: IntArray, lists: Lists, key: np.uint64
    ) -> tuple[FloatArray, int, int]:
        """Exact draws and new lists for rows `at`; log normalisers, how many moved, how many out of their lists."""
        norms, n_moved, n_outside = np.empty(at.size), 0, 0
        step = max(16, TILE // plan.B.shape[1])
        buffer = np.empty((min(step, at.size), padded_columns(plan.B)), plan.B.dtype)
        for tile in (slice(a, a + step) for a in range(0, at.size, step)):
            scores = score_tile(rows.family.sufficient(rows.X[at[tile]]), plan.B, buffer)
            if rows.known is not None:
                _softmax.clamp(scores, rows.known[at[tile]])
            done = draw_and_list(scores, key, at[tile], first, z, norms[tile], self.depth, self.length, *lists)
            n_moved, n_outside = n_moved + done[0], n_outside + done[1]
        return norms, n_moved, n_outside


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
    threshold, near = scores.dtype.type(top - depth), length + 1
    while near > length and depth > 1e-3:
        near, threshold = 0, scores.dtype.type(top - depth)
        for j in range(n):
            near += scores[j] >= threshold
        depth *= 0.75
    front = 0
    for j in range(n):  # no branch: which are near cannot be foretold
        member[j], member[front] = member[front], member[j]
        front += scores[j] >= threshold
    return min(front, length)


@kernel
def follow(joined: IntArray, also: IntArray, member: IntArray, n_near: IntArray, n_listed: IntArray) -> None:
    """Where a list holds k: joined[k] in its place, and also[k] as the last of its near ones; -1 for neither."""
    for i in range(member.shape[0]):
        for j in range(n_listed[i]):
            new = joined[member[i, j]]
            if new >= 0 and not _holds(member[i], n_listed[i], new):
                member[i, j] = new
        for j in range(n_listed[i]):
            new = also[member[i, j]]
            if new >= 0 and not _holds(member[i], n_listed[i], new):
                n_listed[i] = min(n_listed[i] + 1, member.shape[1])
                n_near[i] = min(n_near[i] + 1, member.shape[1])
                member[i, n_listed[i] - 1] = member[i, n_near[i] - 1]
                member[i, n_near[i] - 1] = new


@kernel
def _holds(member: IntArray, n: int, k: int) -> bool:
    held = False
    for j in range(n):
        held |= member[j] == k
    return held


@ordered
def draw_and_list(
    scores: Array, key: np.uint64, rows: IntArray, first: int, z: IntArray, log_norm: FloatArray,
    depth: float, length: int, member: IntArray, n_near: IntArray, n_listed: IntArray,
) -> tuple[int, int]:  # fmt: skip
    """Exact draws and new lists for some rows, whose numbers key the uniforms.

    scores (rows, 64 g) IN; log_norm (rows,) OUT; labels z and lists IN/OUT are those of rows first, first + 1, ...
    Returns how many labels changed, and how many rows had a list that does not hold the label drawn.
    """
    y, lane = np.empty(scores.shape[1], scores.dtype), np.empty(LANES, scores.dtype)
    peaks, kept = np.empty(scores.shape[1] // LANES + 1, scores.dtype), np.empty(LANES, scores.dtype)
    found = np.empty(scores.shape[1], np.int64)
    n_moved = n_outside = 0
    for i in range(scores.shape[0]):
        at = rows[i] - first
        label, log_norm[i], _ = draw_row(scores[i], uniform(key, rows[i], 0), peaks, y, lane)
        held = n_listed[at] == 0
        for j in range(n_listed[at]):
            held |= member[at, j] == label
        n_moved += label != z[at]
        n_outside += not held
        z[at], n = label, best_columns(scores[i], peaks, lane, member.shape[1], found)
        for j in range(n):
            member[at, j], kept[j] = found[j], scores[i, found[j]]
        n_listed[at] = n
        n_near[at] = near_first(kept, peaks[-1], depth, length, member[at], n)
    return n_moved, n_outside


@ordered
def best_columns(row: Array, peaks: Array, lane: Array, most: int, found: IntArray) -> int:
    """About 42 of the best columns of a row into `found`, and `most` at most; lane (64,): room."""
    heights = peaks[:-1] if peaks.shape[0] > LANES else row
    n, reach = 0, min(peaks[-1] - middle(heights, lane), FAR)
    threshold = row.dtype.type(peaks[-1] - reach)
    for g in range(peaks.shape[0] - 1):
        if peaks[g] >= threshold:
            bits = _bits_above(row[g * LANES : (g + 1) * LANES], threshold)
            while bits != np.uint64(0):
                last = bits & (~bits + np.uint64(1))
                found[n] = g * LANES + PLACE[(last * DE_BRUIJN) >> np.uint64(58)]
                n += 1
                bits ^= last
    while n > most and reach > 1e-3:
        reach *= min((most / n) ** 0.33, 0.95)
        n = _keep_above(row, peaks[-1] - reach, found, n)
    return min(n, most)


@kernel
def middle(row: Array, lane: Array) -> float:
    """About the median of the best scores in each of 64 lanes of a row (>= 64,), which are left in `lane`.

    It is the median of each four lanes, averaged. Half of the lanes hold one of the 64 log 2 = 44 best columns. The
    best of each group of columns do instead of the row where there are as many groups as lanes.
    """
    total, q, whole = 0.0, LANES // 4, row.size // LANES * LANES
    lane[:] = row[:LANES]
    for g in range(1, row.size // LANES):
        for j in range(LANES):
            score = row[g * LANES + j]
            lane[j] = score if score > lane[j] else lane[j]
    for j in range(row.size - whole):
        lane[j] = max(lane[j], row[whole + j])
    for j in range(q):
        a, b, c, d = lane[j], lane[j + q], lane[j + 2 * q], lane[j + 3 * q]
        low, high = (a if a < b else b), (a if a > b else b)
        below, above = (c if c < d else d), (c if c > d else d)
        total += (low if low > below else below) + (high if high < above else above)
    return total / (2 * q)


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
