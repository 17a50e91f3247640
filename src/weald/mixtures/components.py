"""The components of a fitted mixture, ready to score new rows.

    log p(x, z = k | data) = log h(x) + log-mean over draws of [ log w_k + <T(x), eta_k> ]        EM, SEM, Gibbs
    log p(x, z = k | data) = log h(x) + log E[w_k] + log p(x | S_k)                               VB, conjugate

With one draw the first line plugs in a point estimate; with many it is the posterior predictive, whose components
were matched across draws by `align`; the second integrates the parameters out in closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

from weald._typing import Array, FloatArray, IntArray, Matrix
from weald.assign import ExactAssignment, Rows, _softmax
from weald.assign.exact import buffer_for, score_matrix, score_tile
from weald.engine import Threads, shards_of
from weald.exceptions import ParameterError
from weald.families.base import AbstractFamily


@dataclass(frozen=True, eq=False)
class Components:
    """Draws of the parameters of K components.

    Parameters
    ----------
    family : AbstractFamily
        Reads the rows.
    eta : (m, K, p) array
        m draws of the natural parameters.
    log_w : (m, K) array
        Their log weights.
    S : (K, p) array or None
        Statistics; when given, parameters are integrated out instead of plugged in.
    """

    family: AbstractFamily
    eta: FloatArray
    log_w: FloatArray
    S: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.eta.ndim != 3 or self.eta.shape[2] != self.family.width or self.eta.shape[:2] != self.log_w.shape:
            raise ParameterError(f"components of shape {self.eta.shape} with weights {self.log_w.shape} do not fit")
        if self.S is not None and self.S.shape != self.eta.shape[1:]:
            raise ParameterError(f"statistics of shape {self.S.shape} do not fit {self.eta.shape[1:]} parameters")

    @property
    def n_components(self) -> int:
        """K."""
        return int(self.eta.shape[1])

    def thinned(self, most: int) -> Components:
        """At most `most` of the draws, evenly spaced."""
        chosen = np.unique(np.linspace(0, len(self.eta) - 1, min(most, len(self.eta))).astype(np.int64))
        return replace(self, eta=self.eta[chosen], log_w=self.log_w[chosen])

    def drawn(self, m: int, rng: np.random.Generator) -> Components:
        """These components where parameters are plugged in; m draws of them where they are integrated out."""
        if self.S is None:
            return self
        S = self.S
        eta = np.stack([self.family.sample_eta(S, rng) for _ in range(m)])
        return Components(self.family, eta, np.repeat(self.log_w, m, axis=0))

    def named(self) -> dict[str, list[Array]]:
        """Parameters for people, and weights: one array for each draw."""
        draws = [
            {**self.family.named(eta), "weights": _weights(w)} for eta, w in zip(self.eta, self.log_w, strict=True)
        ]
        return {name: [draw[name] for draw in draws] for name in draws[0]}

    def for_rows(self, X: Matrix) -> Components:
        """These components, able to read X: widened where X has missing cells and training data had none."""
        family: Any = self.family
        if not family.accepts_missing or sp.issparse(X) or not np.isnan(X).any():
            return self
        wide = family.with_missing()
        if wide is family:
            return self
        eta = np.stack([family.widen_eta(draw) for draw in self.eta])
        return replace(self, family=wide, eta=eta, S=None if self.S is None else family.widen_S(self.S))

    def log_joint(self, X: Matrix) -> FloatArray:
        """(rows, d) -> (rows, K): log p(x, z = k | data), log h included."""
        T = self.family.sufficient(X)
        if self.S is not None:
            joint = self.family.log_predictive(self.S, T) + self.log_w[0]
        else:
            joint = _mean_of_draws(T, self.eta, self.log_w)
        return joint + self.family.log_base(X)[:, None]

    def map(self, function: Callable[[FloatArray], Array], X: Matrix, engine: Threads) -> Array:
        """Apply `function` to the log joint of tiles of rows; concatenate along rows."""
        ready = self.for_rows(X)
        rows = Rows(X, ready.family)

        def shard_of(shard: slice) -> Array:
            return np.concatenate([function(ready.log_joint(X[t])) for t in rows.tiles(shard, self.n_components)])

        return np.concatenate(list(engine.map(shard_of, shards_of(X.shape[0]))))

    def best(self, X: Matrix, engine: Threads) -> IntArray:
        """(n,): the most probable component of each row."""
        if self.S is not None or len(self.eta) > 1:
            return self.map(lambda joint: np.argmax(joint, axis=1), X, engine)
        ready = self.for_rows(X)
        rows = Rows(X, ready.family)
        B = score_matrix(ready.eta[0], ready.log_w[0], ExactAssignment().prepare(rows))
        z = np.empty(rows.n_rows, np.int64)

        def label(shard: slice) -> None:
            buffer = buffer_for(rows, shard, B)
            for tile in rows.tiles(shard, B.shape[1]):
                _softmax.best(score_tile(rows.family.sufficient(X[tile]), B, buffer), z[tile])

        list(engine.map(label, shards_of(rows.n_rows)))
        return np.minimum(z, self.n_components - 1)  # a row without finite scores belongs anywhere, but not nowhere


def _mean_of_draws(T: Matrix, eta: FloatArray, log_w: FloatArray) -> FloatArray:
    total: FloatArray | None = None
    for draw, weights in zip(eta, log_w, strict=True):
        score = np.asarray(T @ score_matrix(draw, weights, np.dtype(T.dtype)), np.float64)
        total = score if total is None else np.logaddexp(total, score)
    assert total is not None  # __post_init__ admits only (m, K, p), and m >= 1 where it is built
    return total - np.log(len(eta))


def _weights(log_w: FloatArray) -> FloatArray:
    return np.exp(log_w - logsumexp(log_w))


def probabilities(log_joint: FloatArray) -> FloatArray:
    """(rows, K) log joint -> p(z = k | x), rows summing to one."""
    return np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))


def align(eta: FloatArray, log_w: FloatArray, reference: int, T: Matrix) -> IntArray:
    """Match components across draws: (m, K, p), (m, K) -> (m, K) permutations.

    Each draw's responsibilities for the rows of T are matched to those of the draw `reference` by the assignment
    of largest overlap, so that label k means the same group in every draw.
    """

    def responsibilities(draw: int) -> FloatArray:
        return probabilities(np.asarray(T @ score_matrix(eta[draw], log_w[draw], np.dtype(np.float64))))

    R = responsibilities(reference)
    return np.array([linear_sum_assignment(R.T @ responsibilities(i), maximize=True)[1] for i in range(len(eta))])
