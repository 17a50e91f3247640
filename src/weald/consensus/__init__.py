"""One partition from many, and how far to trust it: point estimates and credible balls of posterior partitions.

    point estimate    argmin_z  mean over draws of  d(z, draw)        `weald.consensus.search`
    credible ball     the draws nearest to it that hold 95 % of the posterior
    d                 variation of information, or Binder's loss      `weald.consensus.losses`

Only which items share a label matters, and never is an n x n matrix made.
References: Wade, Ghahramani, Bayesian Analysis 13 (2018), 559-626; Dahl, Johnson, Müller, J. Comput. Graph. Stat. 31
(2022), 1189-1201.

    >>> Z = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 2], [5, 5, 5, 5]])
    >>> point_estimate(Z, rng=np.random.default_rng(0)).labels
    array([0, 0, 1, 1])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from weald._typing import FloatArray, IntArray
from weald.consensus.losses import agreement, canonical, checked_draws, checked_partition, distances, groups
from weald.consensus.search import Search, distinct, searched, without_alone
from weald.exceptions import ParameterError

__all__ = [
    "Ball", "Estimate", "canonical", "co_clustering_with", "credible_ball", "expected_loss", "n_clusters_interval",
    "n_clusters_posterior", "point_estimate", "uncertainty",
]  # fmt: skip

Loss: TypeAlias = Literal["vi", "binder"]
DECIMALS = 13  # distances closer than this are equal


@dataclass(frozen=True)
class Estimate:
    """A partition of least expected loss.

    Parameters
    ----------
    labels : int array of shape (n,)
        0, 1, ... from the largest cluster to the smallest.
    loss : float
        Its expected loss over the draws.
    n_clusters : int
    """

    labels: IntArray
    loss: float
    n_clusters: int


@dataclass(frozen=True)
class Ball:
    """The smallest ball around a partition with the posterior mass asked for, and draws at its edges.

    Parameters
    ----------
    radius : float
        Distance from the centre to the farthest draw in the ball.
    horizontal : int array of shape (n,)
        The draw in the ball farthest from the centre.
    upper, lower : int arrays of shape (n,)
        The draws with fewest and with most clusters in the ball, among these the farthest.
    """

    radius: float
    horizontal: IntArray
    upper: IntArray
    lower: IntArray


def expected_loss(z: IntArray, Z: IntArray, loss: Loss = "vi") -> float:
    """Posterior mean of the loss between a partition and the draws, exactly, in O(draws n).

    Parameters
    ----------
    z : int array of shape (n,)
        The partition; only which items share a label matters, here and in Z.
    Z : int array of shape (draws, n)
    loss : {"vi", "binder"}

    Returns
    -------
    float
    """
    Z = checked_draws(Z)
    return float(distances(checked_partition(z, Z), Z, loss).mean())


def point_estimate(
    Z: IntArray,
    loss: Loss = "vi",
    *,
    n_starts: int = 8,
    max_clusters: int | None = None,
    support: float = 0.0,
    rng: np.random.Generator,
) -> Estimate:
    """The partition of least expected loss, as far as a search from several starts finds it.

    Parameters
    ----------
    Z : int array of shape (draws, n)
        Labels; only equality within a draw matters.
    loss : {"vi", "binder"}
        The variation of information leans to fewer clusters than Binder's loss, which likes small spurious ones.
    n_starts : int
        Random starts; the best draws are tried besides.
    max_clusters : int, optional
        At most so many clusters. By default as many as it takes; where draws hardly agree that may be nearly n
        (Binder), and a bound saves time.
    support : float in [0, 1]
        An item is left alone only if it is alone in at least this share of the draws. An item that is in no cluster
        in half of the draws costs least alone, though in most draws it is in some cluster: with support 1/2 it goes
        to those that it is most often with.
    rng : numpy Generator

    Returns
    -------
    Estimate
    """
    Z = checked_draws(Z)
    cap = Z.shape[1] if max_clusters is None else max_clusters
    for name, value in (("n_starts", n_starts), ("max_clusters", cap)):
        if value < 1:
            raise ParameterError(f"{name} must be at least 1, got {value}")
    columns, item, weight = distinct(Z)
    found = searched(columns, weight, Search(loss, n_starts, min(cap, len(weight))), rng)
    if support > 0:
        found = without_alone(found, columns, weight, support)
    labels = canonical(found[item], "size")
    return Estimate(labels, float(distances(labels, Z, loss).mean()), int(labels.max()) + 1)


def credible_ball(Z: IntArray, z: IntArray, level: float = 0.95, loss: Loss = "vi") -> Ball:
    """How far the posterior spreads around a partition.

    Parameters
    ----------
    Z : int array of shape (draws, n)
    z : int array of shape (n,)
        The centre, most often `point_estimate(Z).labels`.
    level : float in (0, 1]
        At least this share of the draws is in the ball.
    loss : {"vi", "binder"}

    Returns
    -------
    Ball
        Its labels 0, 1, ... are in order of first appearance; of draws equally far the first is taken.
    """
    Z = checked_draws(Z)
    distance = np.round(distances(checked_partition(z, Z), Z, loss), DECIMALS)
    radius = np.sort(distance)[_n_needed(level, len(Z)) - 1]
    inside = np.flatnonzero(distance <= radius)
    n_clusters = Z[inside].max(axis=1)
    sets = (inside, inside[n_clusters == n_clusters.min()], inside[n_clusters == n_clusters.max()])
    horizontal, upper, lower = (Z[rows[np.argmax(distance[rows])]].astype(np.int64) for rows in sets)
    return Ball(float(radius), horizontal, upper, lower)


def co_clustering_with(Z: IntArray, i: int) -> FloatArray:
    """How often each item is in the cluster of item i: (draws, n) -> (n,), with 1 at i."""
    Z = checked_draws(Z)
    if not -Z.shape[1] <= i < Z.shape[1]:
        raise ParameterError(f"i must be one of the {Z.shape[1]} items, got {i}")
    together: FloatArray = (Z[:, [i]] == Z).mean(axis=0)
    return together


def uncertainty(Z: IntArray, z: IntArray) -> FloatArray:
    """How unsure each item's place in a partition is.

    Parameters
    ----------
    Z : int array of shape (draws, n)
    z : int array of shape (n,)

    Returns
    -------
    array of shape (n,)
        One minus the mean posterior probability that the item is with another member of its cluster in z; for an
        item alone in z, the probability that it is with any other. O(draws n), exact.
    """
    Z = checked_draws(Z)
    z = checked_partition(z, Z)
    n_others = np.bincount(z)[z] - 1
    unsure: FloatArray = 1 - agreement(*groups(z), Z) / (len(Z) * np.maximum(n_others, 1))
    return unsure


def n_clusters_posterior(Z: IntArray) -> tuple[IntArray, FloatArray]:
    """The numbers of clusters that occur in draws (draws, n), in increasing order, and their probabilities."""
    values, counts = np.unique(checked_draws(Z).max(axis=1).astype(np.int64) + 1, return_counts=True)
    return values, counts / counts.sum()


def n_clusters_interval(Z: IntArray, level: float = 0.95) -> tuple[int, int]:
    """The shortest interval of numbers of clusters with at least this share of draws (draws, n).

    Of intervals equally short the one with most mass is taken, then the lowest.
    """
    n_clusters = np.sort(checked_draws(Z).max(axis=1).astype(np.int64) + 1)
    n_needed = _n_needed(level, len(n_clusters))
    low, high = n_clusters[: len(n_clusters) - n_needed + 1], n_clusters[n_needed - 1 :]
    mass = np.searchsorted(n_clusters, high, "right") - np.searchsorted(n_clusters, low)
    best = np.lexsort((low, -mass, high - low))[0]
    return int(low[best]), int(high[best])


def _n_needed(level: float, n_draws: int) -> int:
    if not 0 < level <= 1:
        raise ParameterError(f"level must lie in (0, 1], got {level!r}")
    return max(1, int(np.ceil(level * n_draws * (1 - 1e-12))))
