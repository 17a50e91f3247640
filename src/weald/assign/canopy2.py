"""Canopy II: proposals that descend both trees, for cells of rows and for groups of clusters at once.

The clusters are the nodes of a cover tree (over the mean coordinates of a few simulated rows of each). For every cell
of rows, with surrogate T_c, a cut of that tree is made: an antichain of subtrees v, each with the weight

    W(c, v) = B(v) exp(temper <T_c, eta_v>),      B(v) = sum of w_z over the clusters z below v, v included,

and a label is proposed by v ~ W, then z ~ w_z / B(v) within v, both O(1) from alias tables:

    q_c(z) = (1 - mix) W(c, v(z)) / sum W  w_z / B(v(z)) + mix w_z  =  (rate_v + mix) w_z.

A cut starts at the root. A subtree is opened, into its own cluster (an atom) and its children, unless
n_c U(c, v) < n_min times the mass found so far, n_c the rows of the cell. U is W with the score of the best cluster
that v may hold: scores are taken to fall with the square of the distance d from their peak h_v, as those of a Gaussian
do, and clusters below v to lie up to its radius r away from it,

    h_v - (1 + r^2 / d^2 - 2 cos r / d) (h_v - <T_c, eta_v>),        cos = min(1, (2 log(10 n_v) / dim)^1/2):

of n_v random directions in `dim` dimensions none points nearer to the cell, nine times out of ten. A wrong guess costs
proposals, never exactness: rows are corrected by Metropolis-Hastings with the q of the cut (`weald.assign._moves`). In
the tree's preorder every subtree is a run of positions: a cut is a list of where runs start, made in one walk.

Cost of new tables: m x cut x (p + dim), cuts of tens of nodes where the surrogate's posterior is concentrated, instead
of m K p; the tree itself O(K log K). From 8 dimensions or so on most subtrees may hold the best cluster, and Canopy I
is cheaper. Moves, and what limits them, as there.
Documents 000/001, Canopy II; specification 1.6.

    >>> Canopy2Assignment(n_min=1.0).n_min
    1.0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weald._kernel import inline, kernel
from weald._typing import Array, FloatArray, IntArray
from weald.assign._moves import Plan, Tables, base_weights, kept_tables, moved, probes, sweep_shard
from weald.assign.base import TILE, AbstractAssignment, Memory, Part, Rows, Soft
from weald.assign.cells import MAX_ENTRIES, Cells, check_cells, coarser, make_cells
from weald.assign.exact import ExactAssignment, score_matrix
from weald.engine import one_thread
from weald.families.base import AbstractFamily
from weald.trees.alias import build_rows
from weald.trees.nodes import Nodes, build, empty_nodes

N_DRAWS = 4  # simulated rows of a cluster whose mean is its place
TREE_BASE = 1.3
TREE = "tree_"  # before the names of the tree's arrays in what is kept
MISSED = 0.1  # share of subtrees whose best cluster may be underrated
FAR = 40.0  # exp(-40) of a mass is no mass


class Tree(NamedTuple):
    """The tree of clusters, by position in preorder: the subtree of node v is positions v, ..., end[v] - 1."""

    order: IntArray  # (K,) the cluster at each position
    end: IntArray  # (K,)
    points: FloatArray  # (K, c)
    radius: FloatArray  # (K,) distance to the farthest descendant
    peak: FloatArray  # (K,) mean score of its own rows
    cosine: FloatArray  # (K,) of the angle at which the best of so many random directions points at a cell


class Setting(NamedTuple):
    """What stays fixed for a data set: cells, and the family that simulates rows of a cluster."""

    cells: Cells
    family: AbstractFamily


@dataclass(frozen=True)
class Canopy2Assignment(AbstractAssignment):
    """Alias tables over cuts of a tree of clusters, one for each cell of rows, with Metropolis-Hastings correction.

    Parameters
    ----------
    n_cells : int or None
        Cells of rows, at most; None takes one for 100 rows, from 64 to 2048.
    cells : "kmeans" or "tree"
        How rows are put into cells; k-means localises better.
    n_min : float
        Subtrees are opened down to this expected number of rows of the cell.
    steps : int
        Moves of each row in a sweep.
    temper : float
        Power of the surrogate's likelihood in the proposal.
    mix : float
        Share of the prior in the proposal.
    turn : int
        Sweeps between two full looks at a row.
    stale : float
        Total variation by which the law of tables may lag behind the parameters; 0 makes new tables every sweep.
    """

    n_cells: int | None = None
    cells: str = "kmeans"
    n_min: float = 1.0
    steps: int = 4
    temper: float = 0.5
    mix: float = 0.02
    turn: int = 25
    stale: float = 0.05

    def __post_init__(self) -> None:
        check_cells(self.cells, self.n_cells)

    @property
    def period(self) -> int:
        """A full look at each row in `turn` sweeps."""
        return self.turn

    @property
    def layout(self) -> str:
        """Cells are of all rows."""
        return "fixed"

    def prepare(self, rows: Rows) -> Setting:
        """The cells."""
        return Setting(make_cells(self.cells, self.n_cells, rows), rows.family)

    def refresh(self, plan: Setting, eta: Array, log_w: Array, sweep: int, shared: Memory) -> tuple[Plan, Memory]:
        """A tree and cuts from the current parameters, or those of the sweep before where they are as good."""
        cells, base = coarser(plan.cells, MAX_ENTRIES // log_w.size), base_weights(log_w)
        few = probes(cells.size.size)
        with one_thread():
            tables, tree = kept_tables(shared, base.size), kept_tree(shared)
            if tables is None or moved(self._tables(cells, few, tree, eta, base), tables, few) > self.stale:
                tree = cluster_tree(plan.family, np.asarray(eta, np.float64))
                tables = self._tables(cells, np.arange(cells.size.size), tree, eta, base)
        B = score_matrix(eta, log_w, cells.dtype)
        now = Plan(B, np.ascontiguousarray(B.T), cells.of_row, tables, sweep % self.turn)
        kept = {**tables._asdict(), **{TREE + name: a for name, a in tree._asdict().items()}}
        return now, kept if self.stale > 0.0 else {}

    def blank(self, n_rows: int, n_components: int) -> Memory:
        """Nothing is remembered of single rows."""
        return {}

    def sample(self, plan: Plan, rows: Rows, shard: slice, z: IntArray, memory: Memory, key: np.uint64) -> Part:
        """Moves for all rows; those whose turn it is are drawn exactly."""
        return sweep_shard(plan, rows, shard, z, key, self.steps, self.turn)

    def expect(self, plan: Plan, rows: Rows, shard: slice) -> Soft:
        """Expectations are exact: all clusters, all rows."""
        return ExactAssignment().expect(plan.B, rows, shard)

    def _tables(self, cells: Cells, which: IntArray, tree: Tree, eta: Array, base: FloatArray) -> Tables:
        """Cuts and tables of some cells."""
        w, K = base[tree.order], base.size
        mass, H = subtree_sums(tree.end, w), np.ascontiguousarray(eta[tree.order], cells.dtype)
        T, share = cells.surrogate[which].astype(cells.dtype), self.n_min / cells.size[which]
        offset, start, rate = cut_cells(T, cells.centre[which], share, H, tree, w, mass, self.temper)
        rate = ((1.0 - self.mix) * rate + self.mix).astype(cells.dtype)
        stop = np.append(start[1:], np.int32(K))
        stop[offset[1:] - 1] = K
        outer = alias_tables(rate * np.where(stop - start > 1, mass[start], w[start]), offset[:-1], offset[1:], offset)
        sizes = tree.end - np.arange(K)
        within = np.concatenate([[0], np.cumsum(sizes)])
        inner = alias_tables(w, np.arange(K), tree.end, within)
        place = np.argsort(tree.order).astype(np.int32)
        return Tables(offset, start, *outer, rate, tree.order, place, base.astype(cells.dtype), within, *inner)


def kept_tree(shared: Memory) -> Tree:
    """The tree of the sweep before, of no use where none was kept."""
    return Tree(*(shared.get(TREE + name, np.empty(0)) for name in Tree._fields))


def cluster_tree(family: AbstractFamily, eta: FloatArray) -> Tree:
    """(K, p) -> the tree of the clusters."""
    points, peak = simulated_places(family, eta)
    K = len(points)
    nodes = empty_nodes(K, points.shape[1], np.float64)
    build(points.copy(), np.arange(K), TREE_BASE, nodes)
    slots, end = preorder(nodes)
    order = nodes.number[slots]
    cosine = np.minimum(1.0, np.sqrt(2.0 * np.log((end - np.arange(K)) / MISSED) / effective_dimension(points)))
    return Tree(order, end, nodes.points[slots], nodes.radius[slots], peak[order], cosine)


def simulated_places(family: AbstractFamily, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(K, p) -> mean coordinates (K, c) and mean scores (K,) of a few rows simulated from each cluster."""
    rng, points, peak = np.random.default_rng(0), [], []
    step = max(1, TILE // (N_DRAWS * family.width))
    for H in (np.repeat(eta[a : a + step], N_DRAWS, axis=0) for a in range(0, len(eta), step)):
        X = family.sample_x(H, rng)
        points.append(np.asarray(family.coordinates(X)).reshape(len(H) // N_DRAWS, N_DRAWS, -1).mean(axis=1))
        peak.append(np.einsum("ij,ij->i", family.sufficient(X), H).reshape(-1, N_DRAWS).mean(axis=1))
    return np.concatenate(points), np.concatenate(peak)


def effective_dimension(points: FloatArray) -> float:
    """(tr C)^2 / tr C^2 of the covariance of some of the points: c where it is round."""
    some = points[:: max(1, len(points) // 256)]
    G = (some - some.mean(axis=0)) @ (some - some.mean(axis=0)).T
    return float(np.trace(G) ** 2 / np.sum(G * G)) if G.any() else 1.0


@kernel
def preorder(nodes: Nodes) -> tuple[IntArray, IntArray]:
    """Slots from parents to children, subtree by subtree, and where the subtree of each position ends."""
    K = len(nodes.number)
    slots, end, stack = np.empty(K, np.int32), np.empty(K, np.int32), np.empty(K, np.int32)
    size = np.ones(K, np.int32)
    for s in range(K - 1, 0, -1):
        size[nodes.parent[s]] += size[s]
    stack[0], depth = 0, 1
    for position in range(K):
        depth -= 1
        s = stack[depth]
        slots[position], end[position] = s, position + size[s]
        c = nodes.child[s]
        while c >= 0:
            stack[depth] = c
            depth += 1
            c = nodes.sibling[c]
    return slots, end


@kernel
def subtree_sums(end: IntArray, w: FloatArray) -> FloatArray:
    """(K,), (K,) -> (K,): the sum of w over the subtree of each position."""
    out = np.zeros(len(w))
    for v in range(len(w)):
        for x in range(v, end[v]):
            out[v] += w[x]
    return out


def alias_tables(P: FloatArray, first: IntArray, last: IntArray, at: IntArray) -> tuple[FloatArray, IntArray]:
    """Flat alias tables of weights P[first_i : last_i], that of i from at_i to at_i+1."""
    threshold, alias = np.ones(at[-1], np.float32), np.zeros(at[-1], np.int32)  # right for tables of one outcome
    build_tables(P, first, last, at, threshold, alias)
    return threshold, alias


@kernel
def build_tables(
    P: FloatArray, first: IntArray, last: IntArray, at: IntArray, threshold: FloatArray, alias: IntArray
) -> None:
    """The alias tables of weights P[first_i : last_i], put from at_i on; those of one outcome are left."""
    for i in range(len(last)):
        n, a = last[i] - first[i], at[i]
        if n > 1:
            weights = P[first[i] : last[i]].reshape((1, n))
            build_rows(weights, threshold[a : a + n].reshape((1, n)), alias[a : a + n].reshape((1, n)))


@inline
def best_below(peak: Any, score: Any, distance: Any, r: Any, cosine: Any) -> Any:
    """The score that the best cluster of a subtree may have, its root scoring `score` at some distance."""
    peak = max(peak, score)
    if r >= distance * cosine:
        fall = 1.0 - cosine * cosine
    else:
        r /= distance
        fall = 1.0 + r * r - 2.0 * r * cosine
    return peak - fall * (peak - score)


@inline
def product(a: Any, b: Any) -> Any:
    """<a, b> in float64."""
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@inline
def squared_distance(a: Any, b: Any) -> Any:
    """|a - b|^2."""
    total = 0.0
    for j in range(len(a)):
        total += (a[j] - b[j]) ** 2
    return total


@kernel
def descend(end: IntArray, points: FloatArray, centre: FloatArray) -> int:
    """A leaf near a cell: always into the nearest child."""
    v = 0
    while end[v] > v + 1:
        child, last, least = v + 1, end[v], math.inf
        while child < last:
            d = squared_distance(centre, points[child])
            if d < least:
                v, least = child, d
            child = end[child]
    return v


@kernel
def cut_cells(
    T: Array, centre: FloatArray, share: FloatArray, H: Array, tree: Tree, w: FloatArray, mass: FloatArray,
    temper: float,
) -> tuple[IntArray, IntArray, FloatArray]:  # fmt: skip
    """The cut of each cell: where its runs begin in the flat arrays (m + 1,), their first positions, their rates.

    One walk in preorder: a subtree that may hold more than `share` (m,) of the mass found so far (of a leaf near the
    cell, to begin with) is opened, and leaves its own cluster behind as a run of length 1; any other is one run, and
    passed over. Rates are exp(temper <T_c, eta_v>) / sum W.
    """
    _, end, points, radius, peak, cosine = tree
    m, K, log_mass = len(T), len(w), np.log(mass)
    offset, start, rate = np.zeros(m + 1, np.int64), np.empty(16 * m + K, np.int32), np.empty(16 * m + K)
    for c in range(m):
        if offset[c] + K > len(start):
            start, rate = np.append(start, np.empty_like(start)), np.append(rate, np.empty_like(rate))
        t, x, n = T[c], centre[c], offset[c]
        v = descend(end, points, x)
        top, total = temper * product(t, H[v]), w[v]
        v = 0
        while v < K:
            score = product(t, H[v])
            start[n], rate[n] = v, temper * score
            if rate[n] > top:
                total, top = total * math.exp(top - rate[n]), rate[n]
            if rate[n] > top - FAR:
                total += w[v] * math.exp(rate[n] - top)
            n += 1
            run_end = end[v]
            if run_end > v + 1:
                d = math.sqrt(squared_distance(x, points[v]))
                bound = log_mass[v] + temper * best_below(peak[v], score, d, radius[v], cosine[v])
                if math.exp(bound - top) >= share[c] * total:
                    run_end = v + 1
            v = run_end
        offset[c + 1] = n
        normalise_rates(start[offset[c] : n], rate[offset[c] : n], top, w, mass)
    return offset, start[:n].copy(), rate[:n].copy()


@kernel
def normalise_rates(start: IntArray, rate: FloatArray, top: float, w: FloatArray, mass: FloatArray) -> None:
    """Rate <- exp(rate) / sum over runs of exp(rate) times their mass."""
    n, total = len(start), 0.0
    for e in range(n):
        v = start[e]
        alone = (start[e + 1] if e + 1 < n else len(w)) == v + 1
        rate[e] = math.exp(rate[e] - top)
        total += rate[e] * (w[v] if alone else mass[v])
    for e in range(n):
        rate[e] /= total
