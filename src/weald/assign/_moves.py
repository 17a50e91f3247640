"""Independence moves from alias tables of cells: what Canopy I and Canopy II share.

Every cell c of rows has a cut: its clusters, in a fixed order of positions, are divided into runs e = 0, 1, ..., and

    q_c(z) = rate_e base_z,     e the run of z,     sum_e rate_e B_e = 1,   B_e = sum of base over the run.

A run is drawn from the alias table of the cell on rate_e B_e, a cluster in it from the run's own table on base_z / B_e:
O(1), and so is the density of what was drawn; that of the current label takes one binary search. A row moves from z to
z' ~ q_c with probability

    min(1, exp(s_z'(x) - s_z(x)) q_c(z) / q_c(z')),        s_z(x) = <T(x), eta_z> + log w_z,

which leaves p(z | x) invariant whatever the tables hold, those of earlier parameters included: detailed balance needs
only that q is the law drawn from. One row in `turn` is scored in full instead, and drawn exactly: this estimates the
log-likelihood without bias, and moves rows whose second-best cluster their cell does not see.

Tables are kept while the law they encode has hardly moved: `moved` compares the laws of a few cells by total variation.
A kept table depends on past parameters, harmless in stochastic EM; where chains must be strictly Markov, `stale=0`
makes new ones every sweep. Specification 1.4, (I), and 1.6.

    >>> base_weights(np.log([2.0, 6.0]))
    array([0.25, 0.75])
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import uint32, uint64

from weald._kernel import inline, kernel
from weald._random import philox
from weald._typing import Array, FloatArray, IntArray, Matrix
from weald.assign.base import Memory, Part, Rows
from weald.assign.exact import ExactAssignment, look_at
from weald.trees.alias import alias_draw

BLOCK = 512  # rows that take a step together
N_PROBES = 16  # cells whose laws are compared
LEAST = 1e-30  # base weight of clusters that the prior all but excludes: no table divides by zero


class Tables(NamedTuple):
    """The laws of m cells over K clusters; where a cell has K runs, each is one cluster and nothing is searched."""

    offset: IntArray  # (m + 1,) first run of each cell
    start: IntArray  # (runs,) first position of each run; empty where all have length 1
    threshold: FloatArray  # (runs,) alias tables of the cells, one after the other
    alias: IntArray
    rate: FloatArray  # (runs,)
    order: IntArray  # (K,) the cluster at each position
    place: IntArray  # (K,) the position of each cluster
    base: FloatArray  # (K,) by cluster
    within: IntArray  # (K,) where the table of the longest run from each position begins
    inner_threshold: FloatArray  # alias tables of runs longer than 1
    inner_alias: IntArray


class Plan(NamedTuple):
    """What all shards of a sweep share: scores as a matrix (p, K) and by cluster (K, p), cells, and their tables."""

    B: Array
    E: Array
    of_row: IntArray
    tables: Tables
    phase: int


def base_weights(log_w: Array) -> FloatArray:
    """(K,) -> (K,): weights that add to 1, none of them 0."""
    w: FloatArray = np.maximum(np.exp(np.asarray(log_w, np.float64) - np.max(log_w)), LEAST)
    w /= w.sum()
    return w


def densities(tables: Tables, cells: IntArray) -> FloatArray:
    """(c,) -> (c, K): q of some cells, by cluster."""
    K = tables.base.size
    Q = np.empty((len(cells), K))
    for q, c in zip(Q, cells, strict=True):
        runs = slice(tables.offset[c], tables.offset[c + 1])
        lengths = np.diff(tables.start[runs], append=K) if tables.start.size else 1
        q[tables.order] = np.repeat(tables.rate[runs], lengths)
    return Q * tables.base


def probes(n_cells: int) -> IntArray:
    """The cells that `moved` looks at."""
    return np.unique(np.linspace(0, n_cells - 1, N_PROBES).astype(np.int64))


def moved(now: Tables, kept: Tables, cells: IntArray) -> float:
    """Mean total variation between tables made `now` of some cells alone, and those kept of all."""
    return float(np.abs(densities(now, np.arange(cells.size)) - densities(kept, cells)).sum(axis=1).mean()) / 2.0


def kept_tables(shared: Memory, K: int) -> Tables | None:
    """The tables of the sweep before, None where there are none for K clusters."""
    if "base" not in shared or shared["base"].size != K:
        return None
    return Tables(*(shared[name] for name in Tables._fields))


def sweep_shard(plan: Plan, rows: Rows, shard: slice, z: IntArray, key: np.uint64, steps: int, turn: int) -> Part:
    """Moves for all rows of a shard; those whose turn it is are then drawn exactly, and all where any has no label."""
    if z.min(initial=0) < 0:  # dozens of sweeps would not make up for labels from the tables
        return ExactAssignment().sample(plan.B, rows, shard, z, {}, key)
    drawn, n_accepted = z.copy(), 0
    for tile in rows.tiles(shard, 1):
        labels, at = drawn[tile.start - shard.start : tile.stop - shard.start], np.arange(tile.start, tile.stop)
        T = _flat(rows.family.sufficient(rows.X[tile]))
        n_accepted += propose(*T, plan.E, plan.of_row[tile], at, plan.tables, key, steps, labels)
    first = (plan.phase - shard.start) % turn
    looked = np.arange(shard.start + first, shard.stop, turn)
    drawn[first::turn], log_norm = look_at(plan.B, rows, looked, key)
    info = {
        "n_evals": float((steps + 1) * drawn.size + looked.size * plan.B.shape[1]),
        "n_looked": float(looked.size), "n_proposed": float(steps * drawn.size), "n_accepted": float(n_accepted),
    }  # fmt: skip
    return Part(drawn, log_norm * (drawn.size / looked.size if looked.size else 0.0), info)


def _flat(T: Matrix) -> tuple[Array, IntArray, IntArray]:
    """T as CSR, without the column numbers where it is dense."""
    if sp.issparse(T):
        return T.data, T.indices, T.indptr
    n, p = T.shape
    return np.ascontiguousarray(T).ravel(), np.empty(0, np.int32), np.arange(0, n * p + 1, p, dtype=np.int32)


@inline
def words(key: Any, row: Any, stream: Any) -> Any:
    """Twice 64 random bits keyed by (key, row, stream)."""
    high = uint64(row) >> uint64(32)
    r0, r1, r2, r3 = philox(
        uint32(row), uint32(high), uint32(stream), uint32(0), uint32(key), uint32(uint64(key) >> uint64(32))
    )
    return (uint64(r0) << uint64(32)) | uint64(r1), (uint64(r2) << uint64(32)) | uint64(r3)


@kernel
def propose(
    data: Array, indices: IntArray, indptr: IntArray, E: Array, cell: IntArray, rows: IntArray, tables: Tables,
    key: np.uint64, steps: int, z: IntArray,
) -> int:  # fmt: skip
    """`steps` independence moves of each row of T; the row numbers `rows` key the uniforms.

    z (rows,) IN/OUT. Returns how many moves were accepted. Blocks of rows take each step together: loops of one kind
    vectorise and hide the latency of tables.
    """
    bits, u = np.empty(BLOCK, np.uint64), np.empty(BLOCK)
    new, nowhere = np.empty(BLOCK, np.int32), np.full(BLOCK, -1, np.int32)
    q, new_q = np.empty(BLOCK), np.empty(BLOCK)
    score, new_score = np.empty(BLOCK, E.dtype), np.empty(BLOCK, E.dtype)
    accepted = 0
    for a in range(0, rows.shape[0], BLOCK):
        b = min(rows.shape[0], a + BLOCK)
        k, c, row, ends = z[a:b], cell[a:b], rows[a:b], indptr[a : b + 1]
        weigh(tables, c, k, q)
        score_each(data, indices, ends, E, k, nowhere, score)
        for step in range(steps):
            fill_random(key, row, 2 + step, bits, u)
            draw_from(tables, c, key, row, steps + 3 + step, bits, new, new_q)
            score_each(data, indices, ends, E, new, k, new_score)
            for i in range(b - a):
                if new[i] == k[i]:
                    accepted += 1
                elif u[i] * new_q[i] < np.exp(np.float64(new_score[i]) - np.float64(score[i])) * q[i]:
                    accepted += 1
                    k[i], q[i], score[i] = new[i], new_q[i], new_score[i]
    return accepted


@kernel
def fill_random(key: np.uint64, rows: IntArray, stream: int, bits: Array, u: FloatArray) -> None:
    """64 bits and one uniform in [0, 1) for each row."""
    for i in range(rows.shape[0]):
        bits[i], more = words(key, rows[i], stream)
        u[i] = (more >> uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def score_each(
    data: Array, indices: IntArray, indptr: IntArray, E: Array, k: IntArray, known: IntArray, out: Array
) -> None:
    """out_i = <T_i, E[k_i]> for the rows of T, where k_i is not `known` already."""
    n, sparse = indptr.shape[0] - 1, indices.shape[0] > 0
    for i in range(0 if sparse else n):
        if k[i] != known[i]:
            t, e = data[indptr[i] : indptr[i + 1]], E[k[i]]
            total = t[0] * e[0]
            for j in range(1, e.shape[0]):
                total += t[j] * e[j]
            out[i] = total
    for i in range(n if sparse else 0):
        if k[i] != known[i]:
            t, columns, e = data[indptr[i] : indptr[i + 1]], indices[indptr[i] : indptr[i + 1]], E[k[i]]
            total = t[0] * e[columns[0]]
            for j in range(1, t.shape[0]):
                total += t[j] * e[columns[j]]
            out[i] = total


@kernel
def draw_from(
    tables: Tables, cell: IntArray, key: np.uint64, rows: IntArray, stream: int, bits: Array, z: IntArray, q: FloatArray
) -> None:
    """z_i from the table of its cell with bits_i, and its density q_i; `stream` gives more bits to long runs."""
    offset, start, threshold, alias, rate, order, _, base, within, inner_threshold, inner_alias = tables
    K = order.shape[0]
    for i in range(cell.shape[0]):
        a, b = offset[cell[i]], offset[cell[i] + 1]
        e = a + alias_draw(threshold[a:b], alias[a:b], bits[i])
        position = e - a
        if b - a < K:
            position = np.int64(start[e])
            length = (np.int64(start[e + 1]) if e + 1 < b else K) - position
            if length > 1:
                j = within[position]
                more, _ = words(key, rows[i], stream)
                position += alias_draw(inner_threshold[j : j + length], inner_alias[j : j + length], more)
        z[i] = order[position]
        q[i] = rate[e] * base[z[i]]


@kernel
def weigh(tables: Tables, cell: IntArray, z: IntArray, q: FloatArray) -> None:
    """q_i: the density of z_i in its cell."""
    offset, start, _, _, rate, order, place, base, _, _, _ = tables
    for i in range(cell.shape[0]):
        low, high = offset[cell[i]], offset[cell[i] + 1]
        position = place[z[i]]
        if high - low == order.shape[0]:
            low += position
        else:
            while high - low > 1:
                middle = (low + high) // 2
                if start[middle] <= position:
                    low = middle
                else:
                    high = middle
        q[i] = rate[low] * base[z[i]]
