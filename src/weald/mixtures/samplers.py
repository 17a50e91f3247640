"""Which sampler of a nonparametric mixture, how long, from where; and what it leaves: draws of a partition.

    auto        few rows                                          -> collapsed
                many rows, or a family of one's own, uncompiled   -> parallel

Chains start from the Voronoi cells of a few random rows, as many as a log-uniform draw says: chains that begin far
apart and end together can be believed. The parallel sampler starts from what is found in some rows, others for each
chain (`weald.mixtures.partition_starts`); with `assign="auto"` the first half of its warmup remembers lists of
candidates where clusters are very many, which are no draws but arrive sooner. A chain with more clusters than it should
have is stopped.

    >>> n_sweeps(5_000, 4)
    500
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from weald._typing import Array, FloatArray
from weald.assign import AbstractAssignment, ListsAssignment, Rows, assignment_from_name
from weald.engine import Threads
from weald.exceptions import ParameterError, Status, Verdict
from weald.inference.run import AbstractKernel, Chain, Stop, run
from weald.mixtures.collapsed import CollapsedKernel
from weald.mixtures.laws import is_compiled
from weald.mixtures.outcome import Sampled, longest
from weald.mixtures.parallel import ParallelKernel
from weald.mixtures.partition_starts import from_some, guess, voronoi
from weald.mixtures.tree_guided import TreeGuidedKernel
from weald.mixtures.variational import variational
from weald.mixtures.verdict import of_chains
from weald.partitions import PARTITIONS, AbstractPartition, NormalisedGeneralisedGamma

SAMPLERS = ("collapsed", "tree-guided", "parallel", "vb")
FEW_ROWS = 10_000  # up to which one row after the other is quick enough
SLOW_ROWS = 300  # the same for families that are not compiled
WORK = 10_000_000  # rows redrawn by all chains, if the user does not say
MIN_SWEEPS, MAX_SWEEPS = 100, 2_000
SOME_ATOMS = 500  # beyond twice the most clusters
HYPER = ("concentration", "discount", "log_u")
JUDGED = ("log_joint", "n_clusters", "largest")
MAX_LABELS = 50_000_000  # labels of rows kept in all draws
CURE = "chains may sit in different modes: try inference='tree-guided', or another family_prior"


@dataclass(frozen=True, eq=False)
class Plan:
    """What to run on which rows.

    Parameters
    ----------
    rows : Rows
    prior : AbstractPartition
    name, why : str
        The sampler, and the reason when it was chosen by itself.
    draws, warmup, chains : int
    most : int
        A chain with more clusters is stopped.
    assign : str
        How the parallel sampler draws labels.
    engine : Threads
    """

    rows: Rows
    prior: AbstractPartition
    name: str
    why: str
    draws: int
    warmup: int
    chains: int
    most: int
    assign: str
    engine: Threads

    @property
    def thin(self) -> int:
        """Sweeps for each draw that is kept, so that labels fit into memory."""
        kept = max(1, MAX_LABELS // (self.rows.n_rows * self.chains))
        return -(-self.draws // min(self.draws, kept))

    def kernel(self, key: np.uint64) -> AbstractKernel:
        """The sampler."""
        first = partial(voronoi, self.rows)
        if self.name == "collapsed":
            return CollapsedKernel(self.rows, self.prior, first=first, most=self.most)
        if self.name == "tree-guided":
            return TreeGuidedKernel(self.rows, self.prior, first=first, most=self.most, seed=int(key))
        strict = strict_assignment(self.assign, self.most, self.rows.family.width)
        return ParallelKernel(
            self.rows, self.prior, strict, self.engine, first=partial(from_some, self.rows, self.prior, self.engine),
            most=2 * self.most + SOME_ATOMS, early=ListsAssignment() if self.assign == "auto" else None,
            n_early=self.warmup // 2,
        )  # fmt: skip

    def run(self, key: np.uint64, **how: Any) -> Sampled:
        """Draw partitions; `how` goes to `weald.inference.run.run`."""
        if self.name == "vb":
            return variational(self.rows, self.prior, self.most, self.draws, self.engine, key, **how)
        chains = run(
            self.kernel(key), key=key, sweeps=self.warmup + self.draws, chains=self.chains, warmup=self.warmup,
            thin=self.thin, collect=collect, stop=exploded(self.most), **how,
        )  # fmt: skip
        return self._sampled(chains)

    def _sampled(self, chains: Sequence[Chain]) -> Sampled:
        """The draws of the chains, cut to one length; the last states where there are none."""
        exploded = any(chain.stats["n_clusters"][-1] > self.most for chain in chains)
        if any("z" in chain.draws for chain in chains) and not exploded:
            chains, n = longest(chains, "z")
            kept = [{name: x[:n] for name, x in chain.draws.items()} for chain in chains]
        else:
            n, kept = 0, [{name: x[None] for name, x in collect(chain.state).items()} for chain in chains]
        draws = {name: np.stack([draw[name] for draw in kept]) for name in kept[0]}
        n_sweeps = min(chain.stats["n_clusters"].size for chain in chains)
        stats = {name: np.stack([chain.stats[name][:n_sweeps] for chain in chains]) for name in chains[0].stats}
        status = self._too_many(stats) if exploded else self._judged(stats, n)
        return Sampled(draws.pop("z"), draws, stats, status, min(self.warmup, n_sweeps), self.thin)

    def _too_many(self, stats: Mapping[str, Array]) -> Status:
        advice = (
            "give family_prior a larger spread (psi): clusters may be expected too narrow",
            "give the prior a smaller concentration, or let it be learnt (shape)",
            "use covariance='diag', or fewer columns",
            f"raise max_clusters above {self.most} if so many are real",
        )
        figures = {"n_clusters": float(stats["n_clusters"].max())}
        return Status(Verdict.FAILED, f"more than {self.most} clusters: the run was stopped", advice, figures)

    def _judged(self, stats: Mapping[str, Array], n_draws: int) -> Status:
        if n_draws == 0:
            return Status(Verdict.FAILED, "stopped before the first draw: this is where the chains stood", ("fit on",))
        return of_chains(stats, self.warmup, JUDGED, CURE)


def plan_for(
    rows: Rows, prior: Any, inference: str, *, draws: int | None, warmup: int | None, chains: int,
    max_clusters: int | None, assign: str, engine: Threads,
) -> Plan:  # fmt: skip
    """Fill in what the user left open."""
    n = rows.n_rows
    name, why = (inference, "") if inference != "auto" else choose(rows)
    if name not in SAMPLERS:
        raise ParameterError(f"inference must be 'auto' or one of {SAMPLERS}, got {inference!r}")
    strict_assignment(assign, 1, 1)  # a wrong name is refused whether it is used or not
    half = n_sweeps(n, chains) // 2
    most = min(n, max(200, min(n // 20, 5_000))) if max_clusters is None else max_clusters
    if name == "vb" and max_clusters is None:
        most = min(n, 8 * guess(n))
    draws, warmup = half if draws is None else draws, half if warmup is None else warmup
    return Plan(rows, prior_from(prior), name, why, draws, warmup, chains, most, assign, engine)


def choose(rows: Rows) -> tuple[str, str]:
    """The sampler for these rows, and why."""
    compiled, n = is_compiled(rows), rows.n_rows
    kind = f"{n:,} rows of a {'compiled' if compiled else 'general'} family"
    return ("collapsed" if n <= (FEW_ROWS if compiled else SLOW_ROWS) else "parallel"), kind


def prior_from(prior: Any) -> AbstractPartition:
    """A prior from its name."""
    if isinstance(prior, AbstractPartition):
        return prior
    if prior == "nig":
        return NormalisedGeneralisedGamma(discount=0.5, learn_discount=False)
    if prior == "dirichlet" or prior not in PARTITIONS:
        names = sorted({*PARTITIONS, "nig"} - {"dirichlet"})
        raise ParameterError(f"prior must be one of {names} or a prior of weald.partitions, got {prior!r}")
    return PARTITIONS[prior]()


def strict_assignment(name: str, most: int, width: int) -> AbstractAssignment:
    """A kernel that remembers nothing of past draws."""
    if name == "lists":
        raise ParameterError("assign='lists' remembers past draws, which is not exact for draws: use 'auto'")
    return assignment_from_name(name, most, width=width, draws=True, strict=name == "auto")


def n_sweeps(n: int, chains: int) -> int:
    """Sweeps of each chain, if the user does not say."""
    return int(min(max(WORK // (n * chains), MIN_SWEEPS), MAX_SWEEPS))


def collect(state: Any) -> dict[str, Array]:
    """What is kept of a draw."""
    names = {f.name for f in fields(state.prior)}
    return {"z": state.z, **{name: np.array(getattr(state.prior, name)) for name in HYPER if name in names}}


def priors_of(prior: AbstractPartition, hyper: Mapping[str, FloatArray]) -> list[AbstractPartition]:
    """The prior with the hyperparameters (m,) of each draw."""
    m = len(next(iter(hyper.values())))
    return [replace(prior, **{name: float(values[t]) for name, values in hyper.items()}) for t in range(m)]  # type: ignore[type-var]


def exploded(most: int) -> Stop:
    """Whether there are more clusters than there should be."""
    return lambda stats: stats["n_clusters"][-1] > most
