"""What chains leave: the best start of an optimiser, the matched draws of a sampler, or draws of a partition.

A posterior over parameters is symmetric under permutations of the components, and chains use that freedom. Before
draws are averaged their components are matched to those of the likeliest draw (`weald.mixtures.components.align`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from weald._typing import Array, FloatArray, IntArray
from weald.exceptions import DataError, Status
from weald.inference.run import Chain
from weald.mixtures.components import Components, align
from weald.mixtures.kernels import MixtureKernel, MixtureState

ALIGN_ROWS = 2_000  # rows that decide which component of one draw is which of another
CONSENSUS_LABELS = 20_000_000  # labels that the point estimate looks at


class Sampled(NamedTuple):
    """Draws z (chain, draw, n), hyperparameters (chain, draw) by name, stats (chain, sweep), and the verdict."""

    z: IntArray
    hyper: Mapping[str, FloatArray]
    stats: Mapping[str, Array]
    status: Status
    warmup: int
    thin: int


def best_of(chains: Sequence[Chain]) -> Chain:
    """The start with the best final objective."""
    return max(chains, key=lambda chain: float(chain.stats["objective"][-1]))


def longest(chains: Sequence[Chain], name: str = "eta") -> tuple[Sequence[Chain], int]:
    """The chains that leave most draws of `name` in all when each is cut to the same length, and that length."""
    lengths = [len(chain.draws.get(name, ())) for chain in chains]
    n = max(lengths, key=lambda length: length * sum(other >= length for other in lengths))
    if n == 0:
        raise DataError("the run was stopped before its first draw: let it pass warmup")
    return [chain for chain, length in zip(chains, lengths, strict=True) if length >= n], n


def point(kernel: MixtureKernel, state: MixtureState) -> Components:
    """One set of parameters; with their statistics where the rule averages, so that they can be integrated out."""
    model, S = kernel.model, state.S
    if not kernel.rule.averages:
        return Components(model.family, state.eta[None], state.log_w[None])
    return Components(model.family, model.family.mode_eta(S)[None], model.prior.mean_log_w(S[:, -1])[None], S)


def matched(kernel: MixtureKernel, chains: Sequence[Chain], warmup: int) -> Components:
    """Draws of all chains, their components matched to those of the likeliest draw."""
    chains, n = longest(chains)
    eta = np.concatenate([chain.draws["eta"][:n] for chain in chains])
    log_w = np.concatenate([chain.draws["log_w"][:n] for chain in chains])
    score = np.concatenate([chain.stats["log_likelihood"][warmup:][:n] for chain in chains])
    rows = kernel.rows
    chosen = np.linspace(0, rows.n_rows - 1, min(rows.n_rows, ALIGN_ROWS)).astype(np.int64)
    order = align(eta, log_w, int(np.argmax(score)), rows.family.sufficient(rows.X[chosen]))
    pick = np.arange(len(eta))[:, None]
    return Components(rows.family, eta[pick, order], log_w[pick, order])


def for_consensus(Z: IntArray) -> IntArray:
    """Evenly spaced draws of Z (m, n), as many as there is time for."""
    return Z[spaced(len(Z), max(10, CONSENSUS_LABELS // Z.shape[1]))]


def spaced(n: int, most: int) -> IntArray:
    """At most so many of 0, ..., n - 1, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
