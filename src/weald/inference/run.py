"""Contract D: a kernel has `init` and `step`; `run` applies it, tells callbacks, and can be resumed.

    state = kernel.init(rng)                   state is what the next step needs
    state, info = kernel.step(rng, state)      info is for looking at: floats, one row of `stats` each

The generator of a step is a pure function of (key, chain, sweep). A run that was killed and resumed from its last
`Snapshot` therefore makes exactly the steps of one that was not.

A kernel of your own is two functions:

    >>> class Walk(AbstractKernel):
    ...     def init(self, rng):
    ...         return 0.0
    ...     def step(self, rng, state):
    ...         proposal = state + rng.normal()
    ...         accepted = np.log(rng.random()) < (state**2 - proposal**2) / 2
    ...         return (proposal if accepted else state), {"accepted": float(accepted)}
    >>> chain, = run(Walk(), key=np.uint64(1), sweeps=500, collect=lambda state: {"x": np.array(state)})
    >>> chain.draws["x"].shape, bool(abs(chain.draws["x"].mean()) < 0.5)
    ((500,), True)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weald._progress import Callback, Event, announce
from weald._random import step_rng
from weald._typing import Array
from weald.exceptions import PersistError


class AbstractKernel(ABC):
    """One Markov kernel, or one step of an optimiser."""

    @abstractmethod
    def init(self, rng: np.random.Generator) -> Any:
        """A first state."""

    @abstractmethod
    def step(self, rng: np.random.Generator, state: Any) -> tuple[Any, Mapping[str, float]]:
        """The next state, and what was measured on the way."""


@dataclass(frozen=True, eq=False)
class Chain:
    """What one chain has left: its last state, `stats` name -> (sweeps,), `draws` name -> (draws, ...)."""

    state: Any
    stats: Mapping[str, Array]
    draws: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All that an exact resumption needs: finished chains, the current one, and where it stands."""

    fingerprint: str
    key: int
    sweep: int
    done: tuple[Chain, ...]
    current: Chain


@dataclass
class _Tape:
    """A chain while it runs."""

    state: Any
    stats: dict[str, list[float]] = field(default_factory=dict)
    draws: dict[str, list[Array]] = field(default_factory=dict)

    def freeze(self) -> Chain:
        stats = {name: np.array(values, np.float64) for name, values in self.stats.items()}
        return Chain(self.state, stats, {name: np.stack(values) for name, values in self.draws.items()})

    @classmethod
    def thaw(cls, chain: Chain) -> _Tape:
        stats = {name: [float(v) for v in values] for name, values in chain.stats.items()}
        return cls(chain.state, stats, {name: list(values) for name, values in chain.draws.items()})

    def record(self, info: Mapping[str, float], kept: Mapping[str, Array]) -> None:
        n_before = max(map(len, self.stats.values()), default=0)
        for name in {**self.stats, **info}:  # what a sweep has not measured is NaN
            self.stats.setdefault(name, [np.nan] * n_before).append(float(info.get(name, np.nan)))
        for name, array in kept.items():
            self.draws.setdefault(name, []).append(array)


Collect = Callable[[Any], Mapping[str, Array]]
Stop = Callable[[Mapping[str, Sequence[float]]], bool]


def run(
    kernel: AbstractKernel,
    *,
    key: np.uint64,
    sweeps: int,
    chains: int = 1,
    warmup: int = 0,
    thin: int = 1,
    collect: Collect | None = None,
    stop: Stop | None = None,
    callbacks: Sequence[Callback] = (),
    resume: Snapshot | None = None,
    fingerprint: Callable[[], str] = str,
) -> list[Chain]:
    """Run `chains` chains of at most `sweeps` steps each.

    Parameters
    ----------
    kernel : AbstractKernel
        What to apply.
    key : uint64
        Seed of all randomness.
    sweeps, chains : int
        Steps of each chain, warmup included; number of chains.
    warmup, thin : int
        After `warmup` steps every `thin`-th state is collected.
    collect : callable, optional
        State -> arrays to keep.
    stop : callable, optional
        Stats so far -> True when the chain has arrived.
    callbacks : sequence of callables
        Told of every step; one that returns True ends the whole run.
    resume : Snapshot, optional
        Go on from here; must come from a run with the same `fingerprint` and `key`.
    fingerprint : callable
        Returns what identifies model and data.

    Returns
    -------
    list of Chain
    """
    done, tape, sweep = _start(kernel, key, resume, fingerprint)
    stopped = False
    while len(done) < chains and not stopped:
        chain = len(done)

        def tell(phase: str, sweep: int, tape: _Tape = tape, chain: int = chain) -> bool:
            last = {name: values[-1] for name, values in tape.stats.items()}
            past = tuple(done)
            snapshot = lambda: Snapshot(fingerprint(), int(key), sweep, past, tape.freeze())  # noqa: E731
            return announce(callbacks, Event(phase, chain, sweep, sweeps, chains, last, snapshot))

        stopped = tell("begin", sweep)
        while sweep < sweeps and not stopped and not (stop is not None and sweep > 0 and stop(tape.stats)):
            tape.state, info = kernel.step(step_rng(key, chain=chain, sweep=sweep + 1), tape.state)
            sweep += 1
            due = collect is not None and sweep > warmup and (sweep - warmup) % thin == 0
            tape.record(info, collect(tape.state) if due and collect is not None else {})
            stopped = tell("step", sweep)
        tell("end", sweep)
        done.append(tape.freeze())
        if len(done) < chains and not stopped:
            tape, sweep = _Tape(kernel.init(step_rng(key, chain=len(done), sweep=0))), 0
    return done


def _start(
    kernel: AbstractKernel, key: np.uint64, resume: Snapshot | None, fingerprint: Callable[[], str]
) -> tuple[list[Chain], _Tape, int]:
    if resume is None:
        return [], _Tape(kernel.init(step_rng(key, chain=0, sweep=0))), 0
    if resume.fingerprint != fingerprint() or resume.key != int(key):
        raise PersistError(
            "the checkpoint belongs to another fit: data, parameters or random_state differ; "
            "resume with the same ones, or fit without resume"
        )
    return list(resume.done), _Tape.thaw(resume.current), resume.sweep
