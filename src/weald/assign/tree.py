"""Exact labels from a tree over the clusters, at a cost that grows much slower than their number.

The clusters are nodes of a cover tree. For a row x, subtrees whose clusters cannot have made x are bounded away without
looking at them, and labels are drawn by rejection from the envelope of these bounds:

    t(k) = w_k exp<T(x), eta_k> = m_k f_k(x),     sum over a subtree of t <= (sum of m) (upper bound of f)

A trial returns k with probability t(k) / gamma whatever the bounds are, so z is an exact, independent draw: nothing of
the last sweep is remembered. See `weald.trees.envelope` for the sampler, `weald.assign._bounds` for the bounds.

Cost per row: nodes evaluated, for K = 1000 clusters 4 standard deviations apart 3% of K in 2 columns, 9% in 4, 39% in
8; for K = 5000 1%, 3% and 22%. An evaluation costs about 30 scores of exact assignment (a matrix product): the tree is
for 2 or 3 columns and thousands of clusters. One row in `turn` is scored in full, which estimates the log-likelihood
without bias. Documents 000/001 B.2, corrected; specification 1.5.

    >>> TreeAssignment(turn=50).turn
    50
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weald._typing import Array, FloatArray, IntArray, Matrix
from weald.assign._bounds import View, forms_of, likelihoods
from weald.assign.base import AbstractAssignment, Memory, Part, Rows, Soft
from weald.assign.exact import ExactAssignment, look_at, score_matrix
from weald.families.base import AbstractFamily
from weald.trees.envelope import Forms, Shape, draw, evaluate, table_of

SAMPLE = 1024  # rows that the mean statistic is taken from
PATIENCE = math.log(0.1)  # log weight that a subtree may have beside the best cluster without being opened at once


class Data(NamedTuple):
    """The family, the mean statistic (p,) of some rows, and the dtype of full scores."""

    family: AbstractFamily
    mean: FloatArray
    dtype: np.dtype[Any]


class Plan(NamedTuple):
    """What all shards of a sweep share: scores as a matrix, the tree, how it sees rows, and whose turn it is."""

    B: Array
    forms: Forms
    table: tuple[Shape, IntArray, FloatArray]
    view: View
    phase: int


@dataclass(frozen=True)
class TreeAssignment(AbstractAssignment):
    """Exact draws by rejection from bounds on a tree of clusters, for data of few columns.

    Parameters
    ----------
    base : float
        Ratio of the scales of successive levels of the tree.
    turn : int
        Sweeps between two full looks at a row.
    """

    base: float = 2.0
    turn: int = 25

    @property
    def period(self) -> int:
        """A full look at each row in `turn` sweeps."""
        return self.turn

    @property
    def layout(self) -> str:
        """No matter."""
        return "parts"

    def prepare(self, rows: Rows) -> Data:
        """The mean statistic of evenly spaced rows: bounds are tight near it."""
        T = rows.family.sufficient(rows.X[:: -(-rows.n_rows // SAMPLE)])
        mean = np.asarray(T.mean(axis=0, dtype=np.float64)).ravel()
        return Data(rows.family, mean, np.dtype(T.dtype))

    def refresh(self, plan: Data, eta: Array, log_w: Array, sweep: int, shared: Memory) -> tuple[Plan, Memory]:
        """Build the tree of the current parameters."""
        view, like = likelihoods(plan.family, eta, log_w, plan.mean)
        forms = forms_of(like, self.base)
        return Plan(score_matrix(eta, log_w, plan.dtype), forms, table_of(forms), view, sweep % self.turn), {}

    def blank(self, n_rows: int, n_components: int) -> Memory:
        """Nothing is remembered."""
        return {}

    def sample(self, plan: Plan, rows: Rows, shard: slice, z: IntArray, memory: Memory, key: np.uint64) -> Part:
        """Draw z from its full conditional; the current `z` plays no part."""
        first = (plan.phase - shard.start) % self.turn
        looked = np.arange(shard.start + first, shard.stop, self.turn)
        slots, n_evals, n_trials = np.zeros(shard.stop - shard.start, np.int64), looked.size * plan.B.shape[1], 0
        for tile in rows.tiles(shard, 1):
            Y = plan.view.rows(rows.family.sufficient(rows.X[tile]))
            out = slots[tile.start - shard.start : tile.stop - shard.start]
            skip = (plan.phase - tile.start) % self.turn
            evals, trials = draw(*plan.table, Y, key, tile.start, skip, self.turn, PATIENCE, out)
            n_evals, n_trials = n_evals + evals, n_trials + trials
        drawn = plan.forms.number[slots]
        drawn[first :: self.turn], log_norm = look_at(plan.B, rows, looked, key)
        info = {"n_evals": float(n_evals), "n_looked": float(looked.size), "n_trials": float(n_trials)}
        return Part(drawn, log_norm * (drawn.size / looked.size if looked.size else 0.0), info)

    def expect(self, plan: Plan, rows: Rows, shard: slice) -> Soft:
        """Expectations are exact: all clusters, all rows."""
        return ExactAssignment().expect(plan.B, rows, shard)


def log_bounds(plan: Plan, T: Matrix) -> tuple[FloatArray, FloatArray]:
    """(rows, p) -> (rows, K), (rows, K): log f of each slot of the tree, and log U of what is below it."""
    Y, K = plan.view.rows(T), len(plan.forms.number)
    out = np.empty((len(Y), 2, K))
    shape, _, table = plan.table
    for i in range(len(Y)):
        evaluate(shape, table, Y, i, 0, K, out[i])
    return out[:, 0], out[:, 1]
