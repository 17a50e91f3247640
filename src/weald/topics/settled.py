"""When optimisers of topics stop, and what they then say of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weald._typing import FloatArray
from weald.exceptions import Status
from weald.inference.run import Stop
from weald.mixtures.kernels import RULES
from weald.mixtures.verdict import of_optimiser, stopping

CURES = ("raise max_iter", "raise tol if this precision is not needed")


def rising(n_tokens: float, tol: float) -> Stop:
    """Stop an objective that never falls when less than `tol` for each token is still to come."""
    return stopping(RULES["em"], n_tokens, tol)


def level(n_tokens: float, tol: float) -> Stop:
    """Stop a noisy objective when a pass has raised it by less than `tol` for each token."""

    def arrived(stats: Mapping[str, Sequence[float]]) -> bool:
        last = stats["objective"][-2:]
        return len(last) == 2 and last[1] - last[0] < tol * n_tokens

    return arrived


def judged(trace: FloatArray, stop: Stop, n_tokens: float, *, rises: bool) -> Status:
    """The verdict on a trace (sweeps,) that was to end as `stop` says."""
    arrived = stop({"objective": trace.tolist()})
    status = of_optimiser(trace, arrived=arrived, rises=rises, n_rows=n_tokens)
    figures = {name.replace("per_row", "per_token"): value for name, value in status.figures.items()}
    cures = CURES if status.message.startswith("still rising") else status.advice
    return replace(status, advice=cures, figures=figures)
