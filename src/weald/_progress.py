"""Events of a run: how progress bars, early stopping and checkpoints listen without touching the algorithm.

A callback is any function of an `Event`; it returns True to ask the run to stop after the current step.

    >>> def stop_after_ten(event):
    ...     return event.sweep >= 10
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO, TypeAlias


@dataclass(frozen=True)
class Event:
    """What a callback is told after each step.

    Parameters
    ----------
    phase : str
        ``"begin"``, ``"step"`` or ``"end"``.
    chain : int
        Which chain (or restart) is running.
    sweep : int
        Steps done in this chain.
    total : int
        Steps planned in this chain.
    n_chains : int
        Chains planned in all.
    stats : mapping of str to float
        What the last step measured (``log_likelihood``, ``n_evals``, ...).
    snapshot : callable
        Returns all that an exact resumption needs; cheap to pass, costs a copy only when called.
    """

    phase: str
    chain: int
    sweep: int
    total: int
    n_chains: int
    stats: Mapping[str, float]
    snapshot: Callable[[], Any]


Callback: TypeAlias = Callable[[Event], bool | None]


def announce(callbacks: Iterable[Callback], event: Event) -> bool:
    """Tell every callback; True when one of them asks to stop."""
    answers = [bool(callback(event)) for callback in callbacks]
    return any(answers)


@dataclass
class Progress:
    """A one-line progress meter on a terminal; silent where there is none, unless `always`.

    Parameters
    ----------
    label : str
        What is being done.
    stream : file, optional
        Where to write; standard error by default.
    always : bool
        Write even when the stream is no terminal.
    """

    label: str = "fit"
    stream: TextIO | None = None
    always: bool = False
    _started: float = field(default=0.0, repr=False)
    _written: float = field(default=0.0, repr=False)

    def __call__(self, event: Event) -> None:
        """Rewrite the line, at most ten times a second."""
        stream = self.stream or sys.stderr
        if not (self.always or stream.isatty()):
            return
        now = time.monotonic()
        if event.phase == "begin" and event.chain == 0:
            self._started = now
        if event.phase == "step" and now - self._written < 0.1:
            return
        self._written = now
        done = event.chain * event.total + event.sweep
        share = done / max(1, event.total * event.n_chains)
        bar = "#" * int(24 * share)
        figures = "  ".join(f"{name} {value:.6g}" for name, value in event.stats.items() if name == "log_likelihood")
        last = event.phase == "end" and event.chain == event.n_chains - 1
        line = (
            f"\r{self.label} [{bar:<24}] {done}/{event.total * event.n_chains}  {now - self._started:.1f} s  {figures}"
        )
        stream.write(line + ("\n" if last else ""))
        stream.flush()
