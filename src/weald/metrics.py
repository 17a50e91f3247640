"""How good is an answer: partitions against the truth, densities on rows not seen, stated probabilities, topics.

    purity(t, z)                 = 1/n sum_k max_c #{i : z_i = k, t_i = c}
    variation_of_information     = H(a | b) + H(b | a) = 2 H(a, b) - H(a) - H(b), in nats: a metric on partitions
    held_out_log_score(model, X) = 1/n sum_i log p(x_i | data)
    calibration_error(p, y)      = sum over bins of (share of rows) |observed frequency - mean stated probability|
    coherence(topics, texts)     = do the words of a topic go together? NPMI or C_V: see `weald.topics.coherence`

The adjusted Rand index is `sklearn.metrics.adjusted_rand_score`. Cost: one sort of the labels.
References: Meilă, J. Multivariate Analysis 98 (2007), 873-895; Naeini, Cooper, Hauskrecht, AAAI 2015.

    >>> purity([0, 0, 1, 1], [5, 5, 5, 7])
    0.75
    >>> variation_of_information([0, 0, 1], [3, 3, 8])
    0.0
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from weald._typing import Array, FloatArray, IntArray, TableLike
from weald.exceptions import DataError, ParameterError


def purity(labels_true: ArrayLike, labels: ArrayLike) -> float:
    """The share of rows whose cluster is named after their class, each cluster named after its commonest class.

    Parameters
    ----------
    labels_true, labels : arrays of shape (n,)
        Classes and clusters, of any type that sorts.

    Returns
    -------
    float
        In (0, 1]; one when no cluster mixes classes (singletons too, so compare at equal numbers of clusters).
    """
    _, cluster, n_both = _cross(labels_true, labels)
    best = np.zeros(cluster.max() + 1, np.int64)
    np.maximum.at(best, cluster, n_both)
    return float(best.sum() / n_both.sum())


def variation_of_information(a: ArrayLike, b: ArrayLike) -> float:
    """The distance between two partitions of the same rows, in nats: from 0 (the same) to log n.

    Parameters
    ----------
    a, b : arrays of shape (n,)
        Labels; only which rows share one matters.

    Returns
    -------
    float
    """
    in_a, in_b, n_both = _cross(a, b)
    n_a, n_b = np.bincount(in_a, n_both)[in_a], np.bincount(in_b, n_both)[in_b]
    surprise = np.log(n_a / n_both) + np.log(n_b / n_both)
    return float(n_both @ surprise / n_both.sum())


def held_out_log_score(model: Any, X: TableLike) -> float:
    """Mean log predictive density of rows the model has not seen; higher is better.

    Parameters
    ----------
    model : fitted estimator with ``score_samples``
    X : table of shape (n, d)

    Returns
    -------
    float
    """
    scores = np.asarray(model.score_samples(X), np.float64)
    if not len(scores):
        raise DataError("X has no rows: the mean score of nothing is not defined")
    return float(scores.mean())


def calibration_error(proba: ArrayLike, y: ArrayLike, n_bins: int = 10) -> float:
    """Expected calibration error: how far stated probabilities are from observed frequencies.

    Parameters
    ----------
    proba : array of shape (n,) or (n, k)
        Probability that y is 1, or of each class; for classes the most probable one is judged.
    y : int array of shape (n,)
        Outcome 0 or 1, or the column of `proba` that came true.
    n_bins : int
        Bins of equal width on [0, 1].

    Returns
    -------
    float
        In [0, 1]; zero when, in every bin, things come true as often as stated.
    """
    proba, y = np.asarray(proba, np.float64), np.asarray(y)
    if n_bins < 1:
        raise ParameterError(f"n_bins must be at least 1, got {n_bins}")
    if proba.ndim not in (1, 2) or y.shape != proba.shape[:1] or not proba.size:
        raise DataError(f"proba must be (n,) or (n, k) and y (n,), with n > 0; got {proba.shape} and {y.shape}")
    if not ((proba >= 0) & (proba <= 1)).all():
        raise DataError("proba must lie in [0, 1], without NaN")
    stated, true = (proba, y == 1) if proba.ndim == 1 else (proba.max(1), y == proba.argmax(1))
    if not np.isin(y, np.arange(2 if proba.ndim == 1 else proba.shape[1])).all():
        raise DataError("y must hold the columns of proba (0, 1, ...); encode class names first")
    in_bin = np.minimum((stated * n_bins).astype(np.intp), n_bins - 1)
    return float(np.abs(np.bincount(in_bin, true - stated)).sum() / len(y))


def coherence(
    topics: Sequence[Sequence[str]], texts: Iterable[Sequence[str]], *, measure: Literal["npmi", "c_v"] = "npmi"
) -> FloatArray:
    """How well the words of each topic go together in texts, whichever model has found them.

    Parameters
    ----------
    topics : K sequences of M words
        The top words of each topic, as many for each.
    texts : iterable of sequences of words
        Tokens in their order; a window of 10 tokens (npmi) or 110 (c_v) slides over each.
    measure : str
        ``"npmi"`` (normalised pointwise mutual information, in [-1, 1]) or ``"c_v"``.

    Returns
    -------
    (K,) array
    """
    from weald.topics.coherence import measured, sliding

    if len({len(topic) for topic in topics}) != 1 or not len(topics[0]):
        raise DataError("topics must hold one or more lists of words, equally long")
    words, top = np.unique([list(topic) for topic in topics], return_inverse=True)
    top = top.reshape(len(topics), -1)
    return measured(sliding(texts, words.tolist(), top, measure), top, measure)


def _cross(a: ArrayLike, b: ArrayLike) -> tuple[IntArray, IntArray, IntArray]:
    """The cells of the contingency table that are not empty: index in a, index in b, count."""
    codes = [_codes(a), _codes(b)]
    if len(codes[0]) != len(codes[1]):
        raise DataError(f"labels of the same rows must be equally long, got {len(codes[0])} and {len(codes[1])}")
    n_b = int(codes[1].max()) + 1
    cells, counts = np.unique(codes[0] * n_b + codes[1], return_counts=True)
    return cells // n_b, cells % n_b, counts


def _codes(labels: ArrayLike) -> Array:
    """Labels as 0, 1, ..."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or not labels.size:
        raise DataError(f"labels must have shape (n,) with n > 0, got {labels.shape}")
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
