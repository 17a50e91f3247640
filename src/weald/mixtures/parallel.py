"""Nonparametric mixtures of very many rows: weights and parameters are drawn, labels follow all at once.

    partition ~ prior of Gibbs type,     rows of cluster c ~ m(S_c) prod_i h(x_i)

The state is a partition, as in `weald.mixtures.collapsed`, and so is the target. One sweep:

    A  masses      G_j ~ Gamma(n_j - sigma, 1) for clusters, and those above `threshold` of the Poisson process of all
                   other atoms (`weald.partitions.jumps`): the random measure given the partition
    B  parameters  eta_k from its posterior for clusters, from the prior for others
    C  labels      z_i = k with probability proportional to G_k p(x_i | eta_k), by any assignment kernel (contract C)
    D  moves       splits and mergers of whole clusters, parameters integrated out (`weald.mixtures.launched`)
    E  prior       hyperparameters, `prior.update`

Nothing is truncated. M = atoms whose mass exceeds the threshold depends on the measure only; rows whose atom is in M
are redrawn among M, the others (few: of clusters that have drawn a tiny mass) stay where they are. Given the measure
that is Gibbs sampling of the labels within two blocks, exact for every threshold; a low one lets small clusters move
and new ones arise, and costs components: 4 alpha of them at 0.01 for the Dirichlet process, and a few for each cluster
with a discount of 1/2.

Assignment kernels that remember past draws are not exact here: `early` may be one, for the first `n_early` sweeps
with more than `FEW` atoms.

Cost: that of the assignment kernel, plus |c| p for every move. References: O. Papaspiliopoulos, G. Roberts, Biometrika
95 (2008) and M. Kalli, J. Griffin, S. Walker, Stat. Comput. 21 (2011) for conditional samplers; J. Chang, J. Fisher
(2013); L. James, A. Lijoi, I. Pruenster (2009).

    >>> from weald.assign import ExactAssignment
    >>> from weald.families import SphericalGaussian
    >>> from weald.inference.run import run
    >>> from weald.partitions import DirichletProcess
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> rows = Rows(X, SphericalGaussian.from_data(X, 2))
    >>> kernel = ParallelKernel(rows, DirichletProcess(), ExactAssignment(), Threads(1))
    >>> chain, = run(kernel, key=np.uint64(1), sweeps=20)
    >>> chain.state.z.shape
    (4,)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from weald._kernel import kernel
from weald._random import sweep_key
from weald._typing import FloatArray, IntArray
from weald.assign import AbstractAssignment, Rows, sample_all
from weald.assign.auto import AutoAssignment
from weald.assign.base import Memory, statistics, updated_statistics
from weald.assign.lists import Lists
from weald.engine import Threads
from weald.exceptions import DataError, ParameterError
from weald.inference.run import AbstractKernel
from weald.mixtures.launched import make_moves
from weald.partitions import AbstractPartition

FRESH = 20  # sweeps after which statistics are summed afresh
FEW = 300  # atoms up to which remembering the best of them gains nothing


@dataclass(frozen=True, eq=False)
class ParallelState:
    """Where a nonparametric mixture stands.

    Parameters
    ----------
    z : (n,) array of int32
        Labels 0, ..., k - 1, all of them in use.
    S : (k, p) array
        Statistics of the clusters.
    prior : AbstractPartition
        The prior with its hyperparameters as they are now.
    sweep : int
        Sweeps made.
    memory : Memory
        What an early assignment kernel remembers of each row.
    """

    z: IntArray
    S: FloatArray
    prior: AbstractPartition
    sweep: int = 0
    memory: Memory = field(default_factory=dict)


class Atoms(NamedTuple):
    """Atoms of the random measure, those of M first: `place` (k,) of the clusters, and eta (m, p), log_w (m,) of M."""

    place: IntArray
    n_atoms: int
    eta: FloatArray
    log_w: FloatArray


@dataclass(frozen=True, eq=False)
class ParallelKernel(AbstractKernel):
    """One sweep of a nonparametric mixture of very many rows.

    Parameters
    ----------
    rows : Rows
        The data, seen through a family whose clusters share no parameters.
    prior : AbstractPartition
        Prior of the partition, with the hyperparameters to start from.
    assign : AbstractAssignment
        How labels are drawn; one that remembers nothing.
    engine : Threads
        Where shards run.
    n_moves : int, optional
        Split-merge moves in each sweep; None: one for 2,500 rows, from 4 to 100.
    first : callable, optional
        rng -> labels (n,) to start from; one cluster of all rows if None.
    threshold : float
        Mass, on a scale on which all masses sum to about n, above which atoms are drawn.
    most : int, optional
        At most so many atoms take part in a sweep, those with the largest masses: like the threshold, a function of
        the measure only.
    early : AbstractAssignment, optional
        How labels are drawn in the first `n_early` sweeps where there are many atoms; it may remember. Those sweeps
        are no draws.
    n_early : int
        See there.
    """

    rows: Rows
    prior: AbstractPartition
    assign: AbstractAssignment
    engine: Threads
    n_moves: int | None = None
    first: Callable[[np.random.Generator], IntArray] | None = None
    threshold: float = 0.01
    most: int | None = None
    early: AbstractAssignment | None = None
    n_early: int = 0

    def __post_init__(self) -> None:
        if self.rows.weight is not None or self.rows.known is not None:
            raise ParameterError(
                "a partition is of rows that count once and have no known label: drop weight and known"
            )
        if self.rows.family.n_shared_parameters:
            raise ParameterError(
                f"clusters of a {type(self.rows.family).__name__} share parameters, which cannot be integrated out one "
                "cluster at a time; use a family whose clusters are independent"
            )
        for name in ("n_moves", "n_early"):
            if (getattr(self, name) or 0) < 0:
                raise ParameterError(f"{name} must be 0 or more, got {getattr(self, name)!r}")
        if not 0.0 < self.threshold < math.inf:
            raise ParameterError(f"threshold must be positive and finite, got {self.threshold!r}; try 0.01")

    @cached_property
    def plan(self) -> Any:
        """What the assignment kernel prepares once for these rows."""
        return self.assign.prepare(self.rows)

    @cached_property
    def early_plan(self) -> Any:
        """The same of the early one."""
        return None if self.early is None else self.early.prepare(self.rows)

    @cached_property
    def log_base(self) -> float:
        """Sum of log h(x)."""
        return self.rows.log_base()

    def init(self, rng: np.random.Generator) -> ParallelState:
        """The first partition, with hyperparameters drawn given it."""
        n = self.rows.n_rows
        return self.begun(np.zeros(n, np.int64) if self.first is None else np.asarray(self.first(rng)), rng)

    def begun(self, labels: IntArray, rng: np.random.Generator) -> ParallelState:
        """The partition of labels (n,), with hyperparameters drawn given it."""
        n = self.rows.n_rows
        if labels.shape != (n,):
            raise DataError(f"first must give one label for each of {n} rows, got the shape {labels.shape}")
        _, z, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        z = z.astype(np.int32)
        return ParallelState(z, statistics(self.rows, z, sizes.size, self.engine), self.prior.update(sizes, rng))

    def step(self, rng: np.random.Generator, state: ParallelState) -> tuple[ParallelState, Mapping[str, float]]:
        """Masses, parameters, labels, moves, hyperparameters."""
        z, S, memory, info = self.labels(rng, state)
        n_moves = self._n_moves()
        z, S, n_splits, n_merges = make_moves(self.rows, state.prior, z, S, n_moves, rng, self.engine)
        sizes = np.bincount(z, minlength=len(S))
        place = np.where(sizes > 0, np.cumsum(sizes > 0) - 1, -1).astype(np.int32)
        z, S, sizes = place[z], S[sizes > 0], sizes[sizes > 0]
        if state.sweep % FRESH == FRESH - 1:
            S = statistics(self.rows, z, sizes.size, self.engine)
        blank = self._assignment(state.sweep, sizes.size).blank(z.size, sizes.size) if memory else {}
        memory = carried(memory, place, z, blank) if blank else {}
        after = ParallelState(z, S, state.prior.update(sizes, rng), state.sweep + 1, memory)
        return after, {
            **info,
            "n_clusters": float(sizes.size),
            "log_joint": self.log_joint(after),
            "largest": float(sizes.max() / z.size),
            "n_splits": float(n_splits),
            "n_merges": float(n_merges),
            "n_proposed": float(n_moves),
        }

    def log_joint(self, state: ParallelState) -> float:
        """Log p(partition, X) given the hyperparameters."""
        log_m = float(self.rows.family.log_marginal(state.S).sum())
        return state.prior.log_eppf(np.bincount(state.z)) + log_m + self.log_base

    def labels(
        self, rng: np.random.Generator, state: ParallelState
    ) -> tuple[IntArray, FloatArray, Memory, dict[str, float]]:
        """Steps A to C: labels among all atoms, their statistics, what is remembered, and figures."""
        atoms = self.atoms(rng, state)
        m, z = atoms.log_w.size, atoms.place[state.z]
        S: FloatArray = np.zeros((atoms.n_atoms, self.rows.family.width))
        S[atoms.place] = state.S
        stays = z >= m
        if stays.all():
            return z, S, {}, {"n_evals": 0.0, "renewed": 0.0}
        assign, inside = self._assignment(state.sweep, m), np.where(stays, 0, z).astype(np.int32)
        prepared = self.early_plan if self._is_early(state.sweep, m) else self.plan
        plan, _ = assign.refresh(prepared, atoms.eta, atoms.log_w, state.sweep, {})
        memory = assign.blank(z.size, m)
        if memory and state.memory:
            memory = carried(state.memory, np.where(atoms.place < m, atoms.place, -1), inside, memory)
        S_inside = updated_statistics(self.rows, z, inside, S, self.engine, others=True)[:m]
        drawn = sample_all(assign, plan, self.rows, inside, S_inside, memory, sweep_key(rng), self.engine)
        after = np.where(stays, z, drawn.z)
        S[:m], S[m:] = drawn.S, 0.0
        S = updated_statistics(self.rows, drawn.z, after, S, self.engine, others=True)
        info = {"n_evals": drawn.info["n_evals"], "renewed": float(np.mean(after != z))}
        return after, S, drawn.memory, info

    def atoms(self, rng: np.random.Generator, state: ParallelState) -> Atoms:
        """Steps A and B: the random measure given the partition."""
        k, p = state.S.shape
        log_g = np.concatenate(state.prior.jumps(np.bincount(state.z, minlength=k), self.threshold, rng))
        level = math.log(self.threshold)
        if self.most is not None and log_g.size > self.most:
            level = max(level, float(np.partition(log_g, -self.most - 1)[-self.most - 1]))
        log_g = log_g[(np.arange(log_g.size) < k) | (log_g > level)]
        eta = self.rows.family.sample_eta(np.vstack([state.S, np.zeros((log_g.size - k, p))]), rng)
        within = log_g > level
        order = np.argsort(~within, kind="stable")
        place, m = np.empty(order.size, np.int32), int(within.sum())
        place[order] = np.arange(order.size)
        log_w = log_g[order[:m]]
        return Atoms(place[:k], order.size, eta[order[:m]], log_w - np.logaddexp.reduce(log_w))

    def _n_moves(self) -> int:
        if self.rows.n_rows < 2:
            return 0
        return min(max(self.rows.n_rows // 2_500, 4), 100) if self.n_moves is None else self.n_moves

    def _is_early(self, sweep: int, n_components: int) -> bool:
        return self.early is not None and sweep < self.n_early and n_components > FEW

    def _assignment(self, sweep: int, n_components: int) -> AbstractAssignment:
        """The kernel of a sweep; what chooses by the number of components is told it."""
        assign = self.early if self.early is not None and self._is_early(sweep, n_components) else self.assign
        return replace(assign, n_components=n_components) if isinstance(assign, AutoAssignment) else assign


def carried(memory: Memory, place: IntArray, z: IntArray, blank: Memory) -> Memory:
    """Lists of candidates under new names: cluster c is called place[c] now, -1 if it is no more.

    `z` (n,) are labels under the new names, one of which stands in a list that would be empty; `blank` is an
    empty memory for the new number of clusters, which is filled and returned.
    """
    old, new = Lists(*(memory[name] for name in Lists._fields)), Lists(*(blank[name] for name in Lists._fields))
    _carry(*old, place, z, *new)
    return blank


@kernel
def _carry(
    member: IntArray, n_near: IntArray, n_listed: IntArray, place: IntArray, z: IntArray,
    to_member: IntArray, to_near: IntArray, to_listed: IntArray,
) -> None:  # fmt: skip
    for i in range(z.size):
        n, near = 0, 0
        for j in range(n_listed[i]):
            c = place[member[i, j]]
            if c >= 0 and n < to_member.shape[1]:
                to_member[i, n] = c
                n += 1
                near += j < n_near[i]
        if n == 0 and n_listed[i] > 0:
            to_member[i, 0] = z[i]
            n, near = 1, 1
        to_near[i], to_listed[i] = near, n
