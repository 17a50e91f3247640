"""Random groups: each sweep a row looks only at the clusters that share a random group with its own.

Every sweep the clusters are split by random hyperplanes, each through two of them, into groups of at most `size`. The
split never looks at z, so redrawing z within its group is Gibbs sampling on a block (restricted Gibbs, see
`weald.assign.lists`) and leaves p(z | x) invariant; since groups change, every cluster can be reached. Rows are
sorted by group and each group is one small matrix product:

    groups of clusters  <-  halve at the median of <eta, eta_a - eta_b> for random a, b, until small enough
    z_i ~ softmax over the group of z_i

Cost per sweep: n `size` p, whatever K. Labels mix slowly when K is large (a label meets each neighbour once in a few
sweeps), and lists get further in the same time. One row in `turn` is scored in full and drawn exactly, which
estimates the log-likelihood without bias. Canopy specification 1.8, K4.

    >>> GroupsAssignment(size=32).size
    32
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weald._typing import Array, IntArray
from weald.assign.base import MAX_TILE_ROWS, AbstractAssignment, Memory, Part, Rows, Soft
from weald.assign.exact import ExactAssignment, look, look_at, score_matrix


class Plan(NamedTuple):
    """What all shards of a sweep share.

    Scores as a matrix (p, K) with its columns in group order, the cluster of each column, the group of each cluster,
    the columns at which groups begin, and whose turn it is to be scored in full.
    """

    B: Array
    order: IntArray
    group: IntArray
    edges: IntArray
    phase: int


@dataclass(frozen=True)
class GroupsAssignment(AbstractAssignment):
    """Redraw labels within random groups of clusters.

    Parameters
    ----------
    size : int
        Most clusters of a group.
    turn : int
        Sweeps between two full looks at a row.
    seed : int
        Chooses the groups.
    """

    size: int = 64
    turn: int = 25
    seed: int = 0

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
        """Split the clusters anew."""
        order, edges = split(np.asarray(eta)[:, :-1], self.size, np.random.default_rng([self.seed, sweep]))
        group = np.empty(len(order), np.int64)
        group[order] = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        B = np.ascontiguousarray(score_matrix(eta, log_w, plan)[:, order])
        return Plan(B, order, group, edges, sweep % self.turn), {}

    def blank(self, n_rows: int, n_components: int) -> Memory:
        """Nothing is remembered."""
        return {}

    def sample(self, plan: Plan, rows: Rows, shard: slice, z: IntArray, memory: Memory, key: np.uint64) -> Part:
        """Rows whose turn it is, and rows without a label, are drawn exactly; the others within their groups."""
        at = np.arange(shard.start, shard.stop)
        full = (at % self.turn == plan.phase) | (z < 0)
        drawn = z.copy()
        columns, log_norm = look_at(plan.B, rows, at[full], key, np.argsort(plan.order))
        drawn[full] = plan.order[columns]
        n_scores = self._redraw(plan, rows, shard, at[~full], drawn, key)
        n_full = int(full.sum())
        info = {"n_evals": float(n_scores + n_full * plan.B.shape[1]), "n_looked": float(n_full)}
        return Part(drawn, log_norm * (at.size / n_full if n_full else 0.0), info)

    def expect(self, plan: Plan, rows: Rows, shard: slice) -> Soft:
        """Expectations are exact: all clusters, all rows."""
        soft = ExactAssignment().expect(plan.B, rows, shard)
        S = np.empty_like(soft.S)
        S[plan.order] = soft.S
        return Soft(S, soft.log_norm, soft.info)

    def _redraw(self, plan: Plan, rows: Rows, shard: slice, at: IntArray, z: IntArray, key: np.uint64) -> int:
        """Redraw rows `at` within the groups of their labels z (rows of the shard,); count the scores."""
        group = plan.group[z[at - shard.start]]
        at = at[np.argsort(group, kind="stable")]
        counts = np.bincount(group, minlength=len(plan.edges) - 1)
        n_scores, stops = 0, np.cumsum(counts)
        for g in np.flatnonzero(counts):
            B = np.ascontiguousarray(plan.B[:, plan.edges[g] : plan.edges[g + 1]])
            members = at[stops[g] - counts[g] : stops[g]]
            for tile in (members[a : a + MAX_TILE_ROWS] for a in range(0, members.size, MAX_TILE_ROWS)):
                labels, _ = look(B, rows, tile, key)
                z[tile - shard.start] = plan.order[plan.edges[g] + labels]
            n_scores += members.size * B.shape[1]
        return n_scores


def split(points: Array, size: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Random groups of at most `size` of the K points: an order of the points (K,), and where each group begins."""
    todo, groups = [np.arange(len(points))], []
    while todo:
        members = todo.pop()
        if members.size <= size:
            groups.append(members)
            continue
        a, b = rng.choice(members, 2, replace=False)
        along = np.argsort(points[members] @ (points[a] - points[b]), kind="stable")
        half = members.size // 2
        todo += [members[along[:half]], members[along[half:]]]
    return np.concatenate(groups), np.cumsum([0, *map(len, groups)])
