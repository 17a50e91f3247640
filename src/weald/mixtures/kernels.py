"""EM, SEM, Gibbs and variational Bayes for finite mixtures: one kernel, four rules.

    w ~ Dirichlet(a, ..., a),   eta_k ~ conjugate prior,   z_i ~ w,   x_i ~ p(x | eta_{z_i})

Every sweep is: (eta, w) --E-step--> statistics S --rule--> new (eta, w). The rules are

    rule    E-step      eta, w from S                 objective that is traced
    em      expect      mode          (77)-(92)       log p(X | eta, w) + log prior: never falls
    sem     sample z    mode          Canopy 1.1      the same at the current point: rises, then hovers
    gibbs   sample z    posterior draw                log p(X | eta, w)
    vb      expect      expectation   (139)-(149)     evidence lower bound: never falls (`weald.mixtures.merge` helps)

Early sweeps of stochastic EM on many rows are incremental (Neal & Hinton 1998): rows are taken in `PARTS` interleaved
parts, and parameters follow each part. Every part is a block of Gibbs sampling, so nothing is lost, and parameters
settle in about half the number of sweeps. The first two sweeps are whole: components that start from single rows would
starve on parts. After each early sweep but the very first components are relocated (`weald.mixtures.relocate`). Where
rows abound, and a start has looked at single rows only, `SETTLING` sweeps over a subset of rows, with fewer
relocations, come before the first.

For conjugate families the bound needs nothing but contract A,
    ELBO = sum_i log sum_k exp(E[log w_k] + <T_i, E[eta_k]>) - sum_k KL(eta_k) - KL(w),   KL = <S, E[eta]> - log m(S).

Cost of a sweep: that of the assignment kernel, plus O(K p) to O(K d^3) for the parameters.
References: journal (003) 2.2.1 and 3.1; Canopy supplement (000) 1; Bishop (2006) 10.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from weald._random import sweep_key
from weald._typing import FloatArray, IntArray
from weald.assign import AbstractAssignment, Rows, expect_all, sample_all
from weald.assign._softmax import LANES
from weald.assign.base import Memory
from weald.assign.order import nearby_order
from weald.engine import Threads
from weald.inference.run import AbstractKernel
from weald.mixtures.merge import merged
from weald.mixtures.relocate import relocated

MERGE_EVERY = 5
PARTS = 8
PART_ROWS = 4096  # a part has at least so many rows
MANY = 5  # and so many for each component
SETTLING = 8  # sweeps over a subset of rows
FEW = 70  # rows for each component in it
WORTH = 2  # times as many rows as that make a subset worth while
SOME = 30  # rows for each component before any is relocated
EARLY = range(2, 8)  # sweeps that are incremental
MOVING = range(1, 8)  # sweeps after which components are relocated
MOVING_FEW = MOVING[::2]  # the same over a subset, whose sweeps are cheap beside a relocation


@dataclass(frozen=True, eq=False)
class MixtureState:
    """Where a mixture stands: statistics S (K, p), parameters eta (K, p) and log_w (K,), labels z (n,) if drawn.

    `memory` is what the assignment kernel remembers of each row, `shared` what it remembers of them all.
    """

    S: FloatArray
    eta: FloatArray
    log_w: FloatArray
    z: IntArray
    sweep: int = 0
    memory: Memory = field(default_factory=dict)
    shared: Memory = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """How statistics become parameters.

    `soft`: expected statistics instead of drawn labels; `rises`: the objective never falls; `averages`: the
    parameters are expectations over a posterior, and every `MERGE_EVERY` sweeps components are merged where that
    raises the objective.
    """

    soft: bool
    rises: bool
    averages: bool
    parameters: Callable[[Model, FloatArray, np.random.Generator], tuple[FloatArray, FloatArray]]
    penalty: Callable[[Model, MixtureState], float]


@dataclass(frozen=True, eq=False)
class Model:
    """Likelihood and prior of a finite mixture."""

    family: Any
    prior: Any  # of the weights: `FiniteDirichlet`, or for vb also `TruncatedSticks`


def _mode(model: Model, S: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    return model.family.mode_eta(S), model.prior.mode_log_w(S[:, -1])


def _draw(model: Model, S: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    return model.family.sample_eta(S, rng), model.prior.sample_log_w(S[:, -1], rng)


def _expectation(model: Model, S: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    return model.family.expected_eta(S), model.prior.expected_log_w(S[:, -1])


def _log_prior(model: Model, state: MixtureState) -> float:
    return float(model.family.log_prior(state.eta)) + model.prior.log_prior(state.log_w)


def _nothing(model: Model, state: MixtureState) -> float:
    return 0.0


def _minus_kl(model: Model, state: MixtureState) -> float:
    """-KL of q(eta) q(w) from the prior, by conjugacy."""
    counts = state.S[:, -1]
    of_eta = float(np.sum(state.S * state.eta)) - model.family.log_evidence(state.S)
    of_w = float(counts @ state.log_w) - model.prior.log_marginal(counts)
    return -of_eta - of_w


RULES = {
    "em": Rule(soft=True, rises=True, averages=False, parameters=_mode, penalty=_log_prior),
    "sem": Rule(soft=False, rises=False, averages=False, parameters=_mode, penalty=_log_prior),
    "gibbs": Rule(soft=False, rises=False, averages=False, parameters=_draw, penalty=_nothing),
    "vb": Rule(soft=True, rises=True, averages=True, parameters=_expectation, penalty=_minus_kl),
}


def _measured(shared: Memory, info: dict[str, float]) -> Memory:
    """What the kernel shall be told before the next sweep: what it has kept, and the figures of this sweep."""
    if "kernel" in shared:
        info["kernel"] = float(shared["kernel"])
    return {**shared, **{name: np.array(value) for name, value in info.items()}}


@dataclass(frozen=True, eq=False)
class MixtureKernel(AbstractKernel):
    """One sweep of a finite mixture.

    Parameters
    ----------
    model : Model
        Family and weights' prior.
    rows : Rows
        The data.
    rule : Rule
        One of `RULES`.
    assign : AbstractAssignment
        The E-step.
    engine : Threads
        Where shards run.
    first : callable
        rng -> statistics (K, p) to start from.
    log_base : float
        Sum of log h(x): added so that likelihoods are densities of the data.
    incremental : bool
        Whether early sweeps of stochastic EM may update the parameters after each part of the rows.
    relocates : bool
        Whether components may be relocated between sweeps, after those of `moving`.
    settles : bool
        Whether stochastic EM may begin with sweeps over a subset of rows.
    moving : range
        Sweeps after which components are relocated.
    """

    model: Model
    rows: Rows
    rule: Rule
    assign: AbstractAssignment
    engine: Threads
    first: Callable[[np.random.Generator], FloatArray]
    log_base: float = 0.0
    incremental: bool = True
    relocates: bool = True
    settles: bool = True
    moving: range = MOVING

    @cached_property
    def plan(self) -> Any:
        """What the assignment kernel prepares once for these rows."""
        return self.assign.prepare(self.rows)

    @cached_property
    def parts(self) -> list[Rows]:
        """Interleaved parts of the rows."""
        return [self.rows.every(PARTS, first) for first in range(PARTS)]

    def arranged(self) -> MixtureKernel:
        """The same kernel for rows that lie side by side where they lie together in space, if its E-step likes that."""
        if self.assign.layout != "nearby":
            return self
        C = self.rows.family.coordinates(self.rows.X)
        order = nearby_order(C.toarray() if sp.issparse(C) else C, LANES)
        return replace(self, rows=self.rows.taken(order))

    def init(self, rng: np.random.Generator) -> MixtureState:
        """Parameters from the statistics of the initialisation; no labels yet."""
        S = self.first(rng)
        if self._may_settle(S):
            S = self._settled(S, rng)
        rule = RULES["em"] if self.rule is RULES["gibbs"] else self.rule
        eta, log_w = rule.parameters(self.model, S, rng)
        if self.rule.soft:
            return MixtureState(S, eta, log_w, np.empty(0, np.int32))
        memory = self.assign.blank(self.rows.n_rows, len(S))
        return MixtureState(S, eta, log_w, np.full(self.rows.n_rows, -1, np.int32), 0, memory)

    def _may_settle(self, S: FloatArray) -> bool:
        if not self.settles or self.rule is not RULES["sem"] or self.rows.known is not None:
            return False
        return self.rows.n_rows >= max(PARTS * PART_ROWS, WORTH * self._n_settling(len(S)))

    def _n_settling(self, n_components: int) -> int:
        """Rows of the subset: as many for each component as it has parameters, and `FEW`."""
        return max(PART_ROWS, n_components * max(FEW, self.model.family.n_parameters))

    def _settled(self, S: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Statistics after some sweeps over a subset of rows, scaled to the weight of all rows."""
        n = self.rows.n_rows
        some = np.sort(rng.choice(n, self._n_settling(len(S)), replace=False))
        few = replace(self, rows=self.rows.taken(some), first=lambda rng: S, settles=False, moving=MOVING_FEW)
        state = few.init(rng)
        for _ in range(SETTLING):
            state, _ = few.step(rng, state)
        return state.S * (self.rows.total_weight / few.rows.total_weight)

    def step(self, rng: np.random.Generator, state: MixtureState) -> tuple[MixtureState, Mapping[str, float]]:
        """E-step at the current parameters, then new parameters; figures describe the point that was left."""
        sweep = self._step_in_parts if self._in_parts(state) else self._step_at_once
        after, info = sweep(rng, state)
        return self._relocated(rng, state, after, info) if self._may_relocate(state) else (after, info)

    def _step_at_once(self, rng: np.random.Generator, state: MixtureState) -> tuple[MixtureState, dict[str, float]]:
        """A sweep whose parameters follow all rows."""
        plan, shared = self.assign.refresh(self.plan, state.eta, state.log_w, state.sweep, state.shared)
        z, memory = state.z, state.memory
        if self.rule.soft:
            soft = expect_all(self.assign, plan, self.rows, self.engine)
            S, log_norm, info = soft.S, soft.log_norm, dict(soft.info)
        else:
            key = sweep_key(rng)
            drawn = sample_all(self.assign, plan, self.rows, z, state.S, memory, key, self.engine)
            S, log_norm, info, z, memory = drawn.S, drawn.log_norm, dict(drawn.info), drawn.z, drawn.memory
        info["log_likelihood"] = log_norm + self.log_base
        info["objective"] = info["log_likelihood"] + self.rule.penalty(self.model, state)
        if self.rule.averages:
            S, info["n_merged"] = self._merge(S, state)
        eta, log_w = self.rule.parameters(self.model, S, rng)
        return MixtureState(S, eta, log_w, z, state.sweep + 1, memory, _measured(shared, info)), info

    def _in_parts(self, state: MixtureState) -> bool:
        if not self.incremental or self.rule is not RULES["sem"] or state.sweep not in EARLY:
            return False
        enough = self.rows.n_rows >= PARTS * max(PART_ROWS, MANY * len(state.S))
        return enough and self.assign.layout == "parts"

    def _step_in_parts(self, rng: np.random.Generator, state: MixtureState) -> tuple[MixtureState, dict[str, float]]:
        """A sweep whose parameters follow each part of the rows."""
        z, memory = state.z.copy(), {name: np.empty_like(a) for name, a in state.memory.items()}
        S, eta, log_w, shared, info = state.S, state.eta, state.log_w, state.shared, dict[str, float]()
        for first, rows in enumerate(self.parts):
            at = slice(first, None, PARTS)
            plan, shared = self.assign.refresh(self.plan, eta, log_w, state.sweep, shared)
            here = {name: a[at] for name, a in state.memory.items()}
            drawn = sample_all(self.assign, plan, rows, z[at], S, here, sweep_key(rng), self.engine, others=True)
            z[at], S = drawn.z, drawn.S
            for name, a in drawn.memory.items():
                memory[name][at] = a
            eta, log_w = self.rule.parameters(self.model, S, rng)
            for name, value in {**drawn.info, "log_likelihood": drawn.log_norm}.items():
                info[name] = info.get(name, 0.0) + value
        info["renewed"] /= PARTS
        info["log_likelihood"] += self.log_base
        info["objective"] = info["log_likelihood"] + self.rule.penalty(self.model, state)
        return MixtureState(S, eta, log_w, z, state.sweep + 1, memory, _measured(shared, info)), info

    def _may_relocate(self, state: MixtureState) -> bool:
        if not self.relocates or self.rule is not RULES["sem"] or state.sweep not in self.moving:
            return False
        alone = self.rows.known is None and self.model.family.n_shared_parameters == 0
        return alone and self.rows.n_rows >= max(PARTS * PART_ROWS, SOME * len(state.S))

    def _relocated(
        self, rng: np.random.Generator, before: MixtureState, state: MixtureState, info: dict[str, float]
    ) -> tuple[MixtureState, dict[str, float]]:
        """The state after components have moved, and how many did."""
        S, z, moves = relocated(state.S, state.z, before.z, self.rows, self.model.prior, rng, self.engine)
        info["n_relocated"] = float(len(moves))
        if not len(moves):
            return state, info
        joined, also = np.full((2, len(S)), -1)
        joined[moves[:, 1]], also[moves[:, 2]] = moves[:, 0], moves[:, 1]
        memory = {name: a.copy() if a is before.memory[name] else a for name, a in state.memory.items()}
        self.assign.tell(memory, joined, also)
        eta, log_w = self.rule.parameters(self.model, S, rng)
        return replace(state, S=S, eta=eta, log_w=log_w, z=z, memory=memory), info

    def _merge(self, S: FloatArray, state: MixtureState) -> tuple[FloatArray, float]:
        if (state.sweep + 1) % MERGE_EVERY or self.rows.known is not None:
            return S, 0.0
        return merged(S, state.eta, state.log_w, self.rows, self.model.prior, self.engine)
