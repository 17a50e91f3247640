"""Has a fit arrived, and may it be trusted? Stopping rules, and verdicts with advice.

An optimiser that never falls stops when the objective per row is within `tol` of where it is heading: the limit is
extrapolated from the ratio of the last two rises (Aitken), which sees through slow but steady progress. Stochastic EM
hovers: it has arrived when the mean of a window of sweeps no longer exceeds that of the window before.

Chains are judged by R-hat and effective sample size of the log-likelihood, which does not change when labels are
permuted (Vehtari et al. 2021: R-hat below 1.01, an effective sample size of at least 100 for each chain).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weald._typing import FloatArray
from weald.diagnostics import ess_bulk, rhat
from weald.exceptions import Status, Verdict
from weald.inference.run import Stop
from weald.mixtures.kernels import MERGE_EVERY, Rule

RHAT_LIMIT = 1.01
ESS_PER_CHAIN = 100
WINDOW = 10  # least number of sweeps that stochastic EM averages when it asks whether it still rises
SETTLED = 1e-12  # a rise per row that is rounding
DECIMALS = 6
FALL = 1e-7  # relative fall of a bound that rounding cannot explain


def stopping(rule: Rule, n_rows: float, tol: float, period: int = 1) -> Stop:
    """When to stop a run of `rule` on rows of total weight `n_rows`; merging rules must just have looked in vain.

    Windows are at least a `period` of the assignment kernel long, so that each scores every row once and two of them
    can be compared.
    """
    window = max(WINDOW, period)

    def arrived(stats: Mapping[str, Sequence[float]]) -> bool:
        trace = np.asarray(stats["objective"][-2 * window :], np.float64) / n_rows
        if rule.averages and (len(stats["n_merged"]) % MERGE_EVERY or stats["n_merged"][-1] > 0):
            return False
        if rule.rises:
            return trace.size > 2 and _remaining(trace[-2] - trace[-3], trace[-1] - trace[-2]) < tol
        return trace.size == 2 * window and float(trace[window:].mean() - trace[:window].mean()) < tol

    return arrived


def _remaining(before: float, last: float) -> float:
    """The rise still to come if rises go on shrinking by the same factor, at least ten times the last one."""
    if last <= SETTLED:
        return 0.0
    return last * max(10.0, last / (before - last)) if last < before else np.inf


def of_optimiser(trace: FloatArray, *, arrived: bool, rises: bool, n_rows: float) -> Status:
    """The verdict on an optimiser from the trace (sweeps,) of its objective."""
    figures = {"sweeps": float(trace.size), "objective_per_row": float(trace[-1]) / n_rows}
    if not np.isfinite(trace).all():
        advice = ("look for columns of wildly different scale, or pass float64 data",)
        return Status(Verdict.FAILED, "the objective is not finite", advice, figures)
    if rises and trace.size > 1 and np.min(np.diff(trace)) < -FALL * max(1.0, float(np.max(np.abs(trace)))):
        figures["largest_fall"] = float(-np.min(np.diff(trace)))
        advice = ("pass float64 data: float32 is too coarse for clusters this narrow",)
        return Status(Verdict.CAUTION, "the objective fell, which exact arithmetic forbids", advice, figures)
    if not arrived:
        cures = ("raise max_iter", "raise tol if this precision is not needed", "try another init or n_init > 1")
        return Status(Verdict.CAUTION, f"still rising after {trace.size} sweeps", cures, figures)
    return Status(Verdict.OK, f"converged in {trace.size} sweeps", (), figures)


def of_chains(
    stats: Mapping[str, FloatArray],
    warmup: int,
    names: Sequence[str] = ("log_likelihood",),
    cure: str = "chains may sit in different modes: try fewer components or init='kmeans++'",
) -> Status:
    """The verdict on chains from measurements (chain, sweep) that do not depend on labels: the worst one counts."""
    kept = {name: stats[name][:, warmup:] for name in names}
    first = kept[names[0]]
    if not np.isfinite(first).all():
        return Status(Verdict.FAILED, f"the {names[0].replace('_', '-')} is not finite", ("pass float64 data",))
    if first.shape[1] < 4:
        return Status(Verdict.CAUTION, f"{first.shape[1]} draws are too few to judge", ("raise draws",))
    rounded = [np.round(x, DECIMALS) for x in kept.values()]  # ranks would make much of rounding
    moving = [x for x in rounded if np.ptp(x) > 0] or [first]
    r, ess = max(float(rhat(x)) for x in moving), min(float(ess_bulk(x)) for x in moving)
    figures = {"rhat": r, "ess_bulk": ess}
    if r > RHAT_LIMIT:
        advice = ("raise warmup and draws", cure)
        what = "chains disagree" if len(first) > 1 else "halves of the chain disagree"
        return Status(Verdict.CAUTION, f"{what}: R-hat {r:.3f} is above {RHAT_LIMIT}", advice, figures)
    if ess < ESS_PER_CHAIN * first.shape[0]:
        message = f"an effective sample of {ess:.0f} from {first.size} draws is small"
        return Status(Verdict.CAUTION, message, ("raise draws",), figures)
    chains = "1 chain agrees with itself" if len(first) == 1 else f"{len(first)} chains agree"
    return Status(Verdict.OK, f"{chains} (R-hat {r:.3f}, effective sample {ess:.0f})", (), figures)
