"""May this fit be trusted? Verdicts on optimisers and on chains, with advice.

Chains are judged by R-hat and effective sample size of the log-likelihood, which does not change when labels are
permuted (Vehtari et al. 2021: R-hat below 1.01, an effective sample size of at least 100 for each chain).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weald._typing import FloatArray
from weald.diagnostics import ess_bulk, rhat
from weald.exceptions import Status, Verdict

RHAT_LIMIT = 1.01
ESS_PER_CHAIN = 100
FALL = 1e-7  # relative fall of a bound that rounding cannot explain


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


def of_chains(stats: Mapping[str, FloatArray], warmup: int) -> Status:
    """The verdict on chains from their log-likelihood (chain, sweep)."""
    kept = stats["log_likelihood"][:, warmup:]
    if not np.isfinite(kept).all():
        return Status(Verdict.FAILED, "the log-likelihood is not finite", ("pass float64 data",))
    if kept.shape[1] < 4:
        return Status(Verdict.CAUTION, f"{kept.shape[1]} draws are too few to judge", ("raise draws",))
    r, ess = float(rhat(kept)), float(ess_bulk(kept))
    figures = {"rhat": r, "ess_bulk": ess}
    if r > RHAT_LIMIT:
        advice = (
            "raise warmup and draws",
            "chains may sit in different modes: try fewer components or init='kmeans++'",
        )
        return Status(Verdict.CAUTION, f"chains disagree: R-hat {r:.3f} is above {RHAT_LIMIT}", advice, figures)
    if ess < ESS_PER_CHAIN * kept.shape[0]:
        message = f"an effective sample of {ess:.0f} from {kept.size} draws is small"
        return Status(Verdict.CAUTION, message, ("raise draws",), figures)
    return Status(Verdict.OK, f"{kept.shape[0]} chains agree (R-hat {r:.3f}, effective sample {ess:.0f})", (), figures)
