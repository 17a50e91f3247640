"""Canopy I: proposals from alias tables that neighbouring rows share, corrected by Metropolis-Hastings.

Rows are put into m cells once (`weald.assign.cells`), each with a surrogate, the mean statistic T_c of its rows. Every
cell has one alias table over all clusters,

    q_c(z) = (1 - mix) softmax(temper <T_c, eta> + temper log w)_z + mix w_z,

from which its rows propose (`weald.assign._moves`). Exact for any cells and surrogates; `mix` keeps q positive
wherever p is, and `temper` < 1 keeps it from missing the second-best cluster of rows far from their surrogate.

Cost per sweep: n `steps` p for the moves, and m K (p + about 10 ns) for new tables, which are made when the old ones
have moved by more than `stale`. Tables take 12 bytes for each of m K entries; beyond 2^26 entries neighbouring cells
share one. In few dimensions labels renew almost as in exact sampling; in 30 or more a cell cannot localise a row, and
hardly any proposal that matters is accepted: speed per sweep is no speed then.
Canopy supplement (000) 1 and A; specification 1.4 and 1.7.

    >>> CanopyAssignment(steps=4).steps
    4
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weald._typing import Array, FloatArray, IntArray
from weald.assign import _softmax
from weald.assign._moves import Plan, Tables, base_weights, kept_tables, moved, probes, sweep_shard
from weald.assign.base import TILE, AbstractAssignment, Memory, Part, Rows, Soft
from weald.assign.cells import MAX_ENTRIES, Cells, check_cells, coarser, make_cells
from weald.assign.exact import ExactAssignment, padded_columns, score_matrix, score_tile
from weald.engine import one_thread
from weald.trees.alias import build_rows


@dataclass(frozen=True)
class CanopyAssignment(AbstractAssignment):
    """Alias-table proposals for cells of rows, with Metropolis-Hastings correction.

    Parameters
    ----------
    n_cells : int or None
        Cells of rows, at most; None takes one for 100 rows, from 64 to 2048.
    cells : "kmeans" or "tree"
        How rows are put into cells; k-means localises better.
    steps : int
        Moves of each row in a sweep.
    temper : float
        Power of the surrogate's posterior in the proposal.
    mix : float
        Share of the prior in the proposal.
    turn : int
        Sweeps between two full looks at a row.
    stale : float
        Total variation by which the law of tables may lag behind the parameters; 0 makes new tables every sweep.
    """

    n_cells: int | None = None
    cells: str = "kmeans"
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

    def prepare(self, rows: Rows) -> Cells:
        """The cells."""
        return make_cells(self.cells, self.n_cells, rows)

    def refresh(self, plan: Cells, eta: Array, log_w: Array, sweep: int, shared: Memory) -> tuple[Plan, Memory]:
        """Tables from the current parameters, or those of the sweep before where they are as good."""
        plan = coarser(plan, MAX_ENTRIES // log_w.size)
        base = base_weights(log_w)
        B = score_matrix(eta, log_w, plan.dtype)
        tables, few = kept_tables(shared, base.size), probes(plan.size.size)
        with one_thread():
            if tables is None or moved(self._tables(plan.surrogate[few], B, base), tables, few) > self.stale:
                tables = self._tables(plan.surrogate, B, base)
        now = Plan(B, np.ascontiguousarray(B.T), plan.of_row, tables, sweep % self.turn)
        return now, tables._asdict() if self.stale > 0.0 else {}

    def blank(self, n_rows: int, n_components: int) -> Memory:
        """Nothing is remembered of single rows."""
        return {}

    def sample(self, plan: Plan, rows: Rows, shard: slice, z: IntArray, memory: Memory, key: np.uint64) -> Part:
        """Moves for all rows but those whose turn it is to be drawn exactly."""
        return sweep_shard(plan, rows, shard, z, key, self.steps, self.turn)

    def expect(self, plan: Plan, rows: Rows, shard: slice) -> Soft:
        """Expectations are exact: all clusters, all rows."""
        return ExactAssignment().expect(plan.B, rows, shard)

    def _tables(self, surrogate: FloatArray, B: Array, base: FloatArray) -> Tables:
        """Tables of cells with these surrogates (m, p), over all clusters."""
        m, K = surrogate.shape[0], base.size
        rate, threshold, alias = np.empty((m, K), B.dtype), np.empty((m, K), np.float32), np.empty((m, K), np.int32)
        prior, tempered = (self.mix * base).astype(B.dtype), (self.temper * B).astype(B.dtype)
        step = max(1, TILE // (4 * K))
        buffer, norms = np.empty((step, padded_columns(B)), B.dtype), np.empty(step)
        for cells in (slice(a, min(a + step, m)) for a in range(0, m, step)):
            scores = score_tile(surrogate[cells].astype(B.dtype), tempered, buffer)
            _softmax.normalise(scores, norms)
            np.multiply(scores[:, :K], B.dtype.type(1.0 - self.mix), out=rate[cells])
            rate[cells] += prior
            build_rows(rate[cells], threshold[cells], alias[cells])
        none, ones = np.empty(0, np.int32), np.arange(K, dtype=np.int32)
        flat = (np.arange(m + 1) * K, none, threshold.ravel(), alias.ravel(), rate.ravel())
        return Tables(*flat, ones, ones, np.ones(K, B.dtype), none, np.empty(0, np.float32), none)
