"""The kernel that renews most labels for its work: chosen before the first sweep, and again while a fit goes on.

    pruned   where rows that lie together can rule out all but a FEW_LISTED share of the clusters: few dimensions
    lists    where labels are drawn from more than MANY components, as long as a look at the figures bears it out
    exact    else

The choice rests on what is counted, never on a clock, so that a fit with a given seed is the same everywhere. A unit of
work is one score of a matrix product; a score that is gathered on its own costs about `GATHERED` of them. Lists
score one row in `turn` in full, and the share of these rows whose label changes is what exact assignment would renew:

    lists go on while  renewed / work  >=  (renewed among the rows scored in full) / (n K).

`posterior_.stats["kernel"]` tells for each sweep which kernel it was, as a place in `CHOICES`, and
`posterior_.attrs["assign"]` says it in words.

    >>> AutoAssignment(n_components=8, width=5, draws=True, strict=False).names
    ('exact',)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from weald._typing import Array, FloatArray, IntArray
from weald.assign.base import AbstractAssignment, Memory, Part, Rows, Soft
from weald.assign.exact import ExactAssignment
from weald.assign.lists import ListsAssignment
from weald.assign.pruned import PrunedAssignment, pruned_share

CHOICES = ("exact", "lists", "pruned")
MANY = 300  # components from which lists can pay
SOME = 64  # components from which pruning can pay
NARROW = 24  # columns of T up to which pruning can pay
FEW_LISTED = 0.2
GATHERED = 8.0
SETTLE = 3  # sweeps before figures are looked at
LOOK = 5  # sweeps between two choices


@dataclass(frozen=True)
class Setting:
    """The rows, and what each kernel prepares of them when it is first chosen."""

    rows: Rows

    @cached_property
    def scores(self) -> Any:
        """What exact assignment and lists need."""
        return ExactAssignment().prepare(self.rows)

    @cached_property
    def cells(self) -> Any:
        """What pruned assignment needs."""
        return PrunedAssignment().prepare(self.rows)

    def of(self, name: str) -> Any:
        """That of the kernel of this name."""
        return self.cells if name == "pruned" else self.scores


class Plan(NamedTuple):
    """The kernel of this sweep, and its plan."""

    kernel: AbstractAssignment
    inner: Any


@dataclass(frozen=True)
class AutoAssignment(AbstractAssignment):
    """Let the figures choose between exact, pruned and listed assignment.

    Parameters
    ----------
    n_components : int
        K.
    width : int
        Columns of T.
    draws : bool
        Labels will be drawn, not averaged.
    strict : bool
        Chains will be judged by their likelihood, and must not depend on what was remembered of past draws.
    """

    n_components: int
    width: int
    draws: bool
    strict: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Kernels that may be chosen."""
        lists = self.draws and not self.strict and self.n_components > MANY
        pruned = self.n_components >= SOME and self.width <= NARROW
        return ("exact", *(["lists"] if lists else []), *(["pruned"] if pruned else []))

    @property
    def kernels(self) -> dict[str, AbstractAssignment]:
        """All kernels, by name."""
        return {"exact": ExactAssignment(), "lists": listed(self.n_components), "pruned": PrunedAssignment()}

    @property
    def period(self) -> int:
        """That of lists, where they may be chosen."""
        return self.kernels["lists"].period if "lists" in self.names else 1

    @property
    def layout(self) -> str:
        """Rows that lie together side by side, where that can help."""
        return "nearby" if "pruned" in self.names else "parts"

    def prepare(self, rows: Rows) -> Setting:
        """Nothing yet."""
        return Setting(rows)

    def refresh(self, plan: Setting, eta: Array, log_w: Array, sweep: int, shared: Memory) -> tuple[Plan, Memory]:
        """Choose, and refresh what was chosen."""
        name = self._choose(plan.rows, eta, log_w, sweep, shared)
        kernel = self.kernels[name]
        inner, kept = kernel.refresh(plan.of(name), eta, log_w, sweep, shared)
        return Plan(kernel, inner), {**kept, "kernel": np.array(CHOICES.index(name))}

    def blank(self, n_rows: int, n_components: int) -> Memory:
        """Empty lists, where they may be chosen."""
        return self.kernels["lists"].blank(n_rows, n_components) if "lists" in self.names else {}

    def tell(self, memory: Memory, joined: IntArray, also: IntArray) -> None:
        """Lists are told, where they may be chosen."""
        if "lists" in self.names:
            self.kernels["lists"].tell(memory, joined, also)

    def sample(self, plan: Plan, rows: Rows, shard: slice, z: IntArray, memory: Memory, key: np.uint64) -> Part:
        """As the kernel that was chosen."""
        return plan.kernel.sample(plan.inner, rows, shard, z, memory, key)

    def expect(self, plan: Plan, rows: Rows, shard: slice) -> Soft:
        """As the kernel that was chosen."""
        return plan.kernel.expect(plan.inner, rows, shard)

    def _choose(self, rows: Rows, eta: Array, log_w: Array, sweep: int, shared: Memory) -> str:
        before = CHOICES[int(shared["kernel"])] if "kernel" in shared else ""
        if before and sweep % LOOK and (sweep > SETTLE or before == "pruned"):
            return before
        if "pruned" in self.names and few_listed(rows, eta, log_w, before, shared):
            return "pruned"
        if "lists" not in self.names or (before == "exact" and sweep > SETTLE):
            return "exact"
        return "exact" if before == "lists" and sweep > SETTLE and not lists_pay(rows, log_w.size, shared) else "lists"


def few_listed(rows: Rows, eta: Array, log_w: Array, before: str, figures: Memory) -> bool:
    """Whether bounds leave few scores: as counted in the last sweep, or by a few cells of rows."""
    counted = before == "pruned" and "n_evals" in figures
    share = figures["n_evals"] / (rows.n_rows * log_w.size) if counted else pruned_share(rows, eta, log_w)
    return bool(share < FEW_LISTED)


def in_words(stats: Mapping[str, FloatArray], n_scores: float) -> str:
    """What was chosen and why, from the figures of each sweep (sweeps,); `n_scores` is n K."""
    kernel = stats["kernel"]
    runs = np.flatnonzero(np.diff(kernel, prepend=-1.0))
    lengths = np.diff(runs, append=kernel.size)
    words = [
        f"{CHOICES[int(kernel[a])]} for {n} sweep{'' if n == 1 else 's'}" for a, n in zip(runs, lengths, strict=True)
    ]
    chosen = ", then ".join(words)
    moves = f" and renewed {stats['renewed'][-1]:.1%} of the labels" if "renewed" in stats else ""
    return f"auto: {chosen}; the last sweep computed {stats['n_evals'][-1] / n_scores:.1%} of all scores{moves}"


def listed(n_components: int) -> ListsAssignment:
    """Lists with full looks that are rarer the more they cost; whole lists at first where they cost less than all."""
    if n_components <= 2 * MANY:
        return ListsAssignment()
    few = n_components <= 2_000
    return ListsAssignment(turn=10 if few else 20, early=10, early_turn=5 if few else 20)


def lists_pay(rows: Rows, n_components: int, figures: Memory) -> bool:
    """Whether lists renew as many labels for their work as exact assignment would, by the figures of the last sweep."""
    if "n_moved" not in figures or not figures["n_looked"] > 0:
        return True
    in_full = figures["n_looked"] * n_components
    work = in_full + GATHERED * (figures["n_evals"] - in_full)
    exact = figures["n_moved"] / figures["n_looked"] / (rows.n_rows * n_components)
    return bool(figures["renewed"] / work >= exact)
