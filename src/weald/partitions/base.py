"""Contract B: a prior over partitions of n items, seen by every algorithm through two numbers.

All priors here are of Gibbs type (Gnedin and Pitman 2006): with k blocks of sizes n_1, ..., n_k,

    p(partition) = V_{n,k} prod_j (1 - sigma)_{n_j - 1},        V_{n,k} = (n - k sigma) V_{n+1,k} + V_{n+1,k+1},

where (x)_m = x (x+1) ... (x+m-1) and sigma < 1. Hence the urn of journal (23), (27), (58): item n+1 joins block j with
weight n_j - sigma, and opens a block with weight V_{n+1,k+1} / V_{n+1,k}.

| prior | sigma | V_{n,k} |
|---|---|---|
| finite Dirichlet, K components | -a | a^k K!/(K-k)! Gamma(Ka) / Gamma(Ka+n) |
| Dirichlet process | 0 | alpha^k Gamma(alpha) / Gamma(alpha+n) |
| Pitman-Yor | discount | prod_{0<i<k} (theta + i sigma) / (theta+1)_{n-1} |
| normalised generalised gamma | discount | one integral over u |
| mixture of finite mixtures | -gamma | one sum over K |

A prior therefore states `sigma`, `log_v`, its weights (`sticks`, and `log_other_jumps` given a partition), its mean
number of clusters and how its hyperparameters move (`update`); the rest follows here. An urn draw of n items costs
O(n) calls of `log_v`.

    >>> from weald.partitions import DirichletProcess
    >>> z = DirichletProcess(concentration=2.0).draw(100, np.random.default_rng(0))
    >>> existing, new = DirichletProcess(concentration=2.0).log_weights(np.bincount(z))

References: journal (19)-(29), (53)-(58); A. Gnedin, J. Pitman, J. Math. Sci. 138 (2006).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from weald._typing import FloatArray, IntArray
from weald.exceptions import DataError
from weald.partitions.hyper import log_gamma_draw


class AbstractPartition(ABC):
    """One exchangeable partition prior of Gibbs type; concrete ones are frozen dataclasses."""

    @property
    @abstractmethod
    def sigma(self) -> float:
        """The discount in the weight n_j - sigma of an existing block; below 1, negative for finite models."""

    @abstractmethod
    def log_v(self, n: int, k: int) -> float:
        """Log of V_{n,k} for 1 <= k <= n; -inf where k blocks are impossible."""

    @abstractmethod
    def sticks(self, k: int, rng: np.random.Generator) -> FloatArray:
        """(k,): log weights of one draw of the random measure, summing to 1: entry k holds all mass that is left."""

    @abstractmethod
    def log_other_jumps(self, n: int, k: int, least: float, rng: np.random.Generator) -> FloatArray:
        """(e,): log masses above log `least` of the atoms without items, given n items in k blocks; see `jumps`."""

    @abstractmethod
    def update(self, sizes: IntArray, rng: np.random.Generator) -> Self:
        """The prior with its hyperparameters moved by a step that leaves p(hyperparameters | sizes) invariant."""

    @abstractmethod
    def expected_n_clusters(self, n: int) -> float:
        """Exact mean number of blocks of n items."""

    def log_eppf(self, sizes: IntArray) -> float:
        """Log probability of one partition of the items into blocks of these sizes.

        Parameters
        ----------
        sizes : (k,) array of int
            Block sizes; zeros are ignored.
        """
        sizes = as_sizes(sizes)
        if sizes.size == 0:
            return 0.0
        blocks = gammaln(sizes - self.sigma) - gammaln(1.0 - self.sigma)
        return self.log_v(int(sizes.sum()), sizes.size) + float(blocks.sum())

    def log_weights(self, sizes: IntArray) -> tuple[FloatArray, float]:
        """Log predictive probabilities of the next item; they sum to 1.

        Parameters
        ----------
        sizes : (k,) array of int
            Sizes of the blocks so far, all positive.

        Returns
        -------
        existing : (k,) array
            Log probability of joining each block.
        new : float
            Log probability of opening a block; -inf when a finite model is full.
        """
        blocks = positive_sizes(sizes)
        n, k = int(blocks.sum()), blocks.size
        if k == 0:
            return np.empty(0), 0.0
        log_new = self.log_v(n + 1, k + 1) - self.log_v(n + 1, k)
        log_total = float(np.logaddexp(math.log(n - k * self.sigma), log_new))
        return np.log(blocks - self.sigma) - log_total, log_new - log_total

    def jumps(self, sizes: IntArray, least: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Log masses of the random measure given a partition, on a scale on which they sum to about n.

        Labels given the measure are independent with probabilities proportional to the masses of all atoms, of which
        those without items and below `least` are left out; see `weald.partitions.jumps`. A prior with an auxiliary
        variable is taken given it.

        Parameters
        ----------
        sizes : (k,) array of int
            Sizes of the blocks, all positive.
        least : float
            Smallest mass, positive, of an atom without items that is worth knowing.
        rng : numpy Generator

        Returns
        -------
        log_occupied : (k,) array
            Log masses of the blocks, small or large.
        log_others : (e,) array
            Log masses above log `least` of atoms without items, in no order.
        """
        blocks = positive_sizes(sizes)
        log_occupied = log_gamma_draw(blocks - self.sigma, rng)
        return log_occupied, self.log_other_jumps(int(blocks.sum()), blocks.size, least, rng)

    def draw(self, n: int, rng: np.random.Generator) -> IntArray:
        """(n,): labels of n items by the urn, 0, 1, ... in order of appearance."""
        z, sizes = np.zeros(n, np.int64), [1]
        for i in range(1, n):
            k = len(sizes)
            new = math.exp(self.log_v(i + 1, k + 1) - self.log_v(i + 1, k))
            if rng.random() * (new + i - k * self.sigma) < new:
                z[i] = k
                sizes.append(1)
            else:
                z[i] = _pick_block(z, sizes, i, self.sigma, rng)
                sizes[z[i]] += 1
        return z

    def log_n_clusters(self, n: int) -> FloatArray:
        """(n,): log probabilities of 1, ..., n blocks, by generalised factorial coefficients in O(n^2)."""
        k = np.arange(1, n + 1)
        log_c = np.full(n + 1, -np.inf)  # log_c[k]; entry 0 stays impossible
        log_c[1] = 0.0
        for m in range(1, n):
            stay = np.full(m + 1, -np.inf)
            stay[:m] = np.log(m - k[:m] * self.sigma) + log_c[1 : m + 1]
            log_c[1 : m + 2] = np.logaddexp(stay, log_c[: m + 1])
        log_v = np.array([self.log_v(n, int(j)) for j in k])
        log_p: FloatArray = log_c[1:] + log_v
        return log_p


def as_sizes(sizes: Any) -> IntArray:
    """(k,) array of positive int64 block sizes; zeros dropped."""
    found = np.atleast_1d(np.asarray(sizes))
    whole = found.astype(np.int64)
    if found.ndim != 1 or (whole != found).any() or (whole < 0).any():
        raise DataError(f"block sizes must be a vector of non-negative whole numbers, got {sizes!r}")
    return whole[whole > 0]


def positive_sizes(sizes: Any) -> IntArray:
    """(k,) array of int64 block sizes, none of which may be zero."""
    blocks = as_sizes(sizes)
    if blocks.size != np.size(sizes):
        raise DataError(f"needs positive block sizes, got {sizes!r}; drop the empty blocks first")
    return blocks


def _pick_block(z: IntArray, sizes: list[int], i: int, sigma: float, rng: np.random.Generator) -> int:
    """A block with probability proportional to n_j - sigma, in O(1): a uniform item's block, corrected for sigma."""
    k = len(sizes)
    if sigma <= 0 and rng.random() * (i - k * sigma) >= i:
        return int(rng.integers(k))
    while True:
        j = int(z[rng.integers(i)])
        if sigma <= 0 or rng.random() * sizes[j] < sizes[j] - sigma:
            return j
