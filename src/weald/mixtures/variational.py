"""The variational Dirichlet process mixture: a quick look at the posterior, and a lower bound on the evidence.

    q(z) q(v) q(eta) maximises  ELBO = E_q[log p(X, z, v, eta)] - E_q[log q],     at most T clusters    (139)-(149)

The E-step, the update of the parameters and merges that raise the bound are those of `weald.mixtures.kernels` with the
weights of `weald.partitions.sticks`. Draws of labels from q(z) stand for the posterior. They are independent given one
set of parameters, and so narrower than the truth: use them for a quick start, not to report an uncertainty.
Cost of a sweep: n T scores.

References: D. Blei, M. Jordan, Bayesian Analysis 1 (2006), 121-143; journal (003) 3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weald._random import step_rng, sweep_key
from weald._typing import IntArray
from weald.assign import ExactAssignment, Rows, sample_all
from weald.consensus.losses import checked_draws
from weald.engine import Threads
from weald.exceptions import ParameterError
from weald.inference.run import run
from weald.mixtures.kernels import RULES, MixtureKernel, Model
from weald.mixtures.outcome import Sampled
from weald.mixtures.starts import first_statistics
from weald.mixtures.verdict import of_optimiser, stopping
from weald.partitions import AbstractPartition, DirichletProcess, TruncatedSticks

MAX_ITER, TOL = 500, 1e-4


def kernel_for(rows: Rows, prior: AbstractPartition, most: int, engine: Threads) -> MixtureKernel:
    """Variational Bayes with the weights of a Dirichlet process."""
    if not isinstance(prior, DirichletProcess):
        raise ParameterError(f"vb knows the Dirichlet process only, not {type(prior).__name__}: use prior='dp'")
    model = Model(rows.family, TruncatedSticks(most, prior.concentration))
    first = lambda rng: first_statistics("kmeans++", rows, most, rng)  # noqa: E731
    return MixtureKernel(model, rows, RULES["vb"], ExactAssignment(), engine, first, rows.log_base())


def variational(
    rows: Rows, prior: AbstractPartition, most: int, draws: int, engine: Threads, key: np.uint64, **how: Any
) -> Sampled:
    """Maximise the bound, then draw labels from q.

    Parameters
    ----------
    rows : Rows
    prior : DirichletProcess
        Its concentration is kept as it is.
    most : int
        T.
    draws : int
        Draws of labels.
    engine : Threads
    key : uint64
    **how
        Callbacks and the like, for `weald.inference.run.run`.

    Returns
    -------
    Sampled
    """
    kernel = kernel_for(rows, prior, most, engine)
    stop = stopping(kernel.rule, rows.total_weight, TOL)
    [chain] = run(kernel, key=key, sweeps=MAX_ITER, stop=stop, **how)
    trace, n = chain.stats["objective"], rows.n_rows
    arrived = stop({name: values.tolist() for name, values in chain.stats.items()})
    status = of_optimiser(trace, arrived=arrived, rises=True, n_rows=n)
    plan, _ = kernel.assign.refresh(kernel.plan, chain.state.eta, chain.state.log_w, 0, {})
    blank, rng = np.full(n, -1, np.int32), step_rng(key, chain=1, sweep=0)

    def labels() -> IntArray:
        return sample_all(kernel.assign, plan, rows, blank, chain.state.S, {}, sweep_key(rng), engine).z

    z = checked_draws(np.stack([labels() for _ in range(draws)]))[None]
    hyper = {"concentration": np.full((1, draws), kernel.model.prior.concentration)}
    return Sampled(z, hyper, {name: values[None] for name, values in chain.stats.items()}, status, 0, 1)
