"""Which topic of one run is which of another? Optimal assignment by the distance between their words.

    Hellinger        H(p, q)^2 = 1 - sum_w sqrt(p_w q_w)
    Jensen-Shannon   J(p, q)^2 = KL(p | m) / 2 + KL(q | m) / 2,   m = (p + q) / 2,  in bits

Both are metrics in [0, 1]. The assignment minimises the sum of distances over pairs; with different numbers of topics
those left over are unmatched, and so are pairs farther apart than `farthest`: topics that one run has found and the
other has not. Cost: K^2 V for the distances, K^3 for the assignment.
References: Endres, Schindelin (2003); Crouse (2016), as in `scipy.optimize.linear_sum_assignment`.

    >>> phi = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    >>> match_topics(phi, phi[::-1]).order.tolist()
    [1, 0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import entr

from weald._typing import FloatArray, IntArray
from weald.exceptions import ParameterError

Distance = Literal["hellinger", "jensen-shannon"]


@dataclass(frozen=True, eq=False)
class Matching:
    """Pairs of topics of two models a and b.

    Parameters
    ----------
    order : (K_a,) int array
        For each topic of a its topic of b, -1 where there is none: ``b.components_[order]`` has the order of a.
    distances : (K_a,) array
        How far apart the two are, in [0, 1]; NaN where there is no pair.
    unmatched : (m,) int array
        Topics of b that no topic of a has.
    """

    order: IntArray
    distances: FloatArray
    unmatched: IntArray

    @property
    def pairs(self) -> IntArray:
        """(m, 2): topics of a and of b that belong together."""
        matched = np.flatnonzero(self.order >= 0)
        return np.column_stack([matched, self.order[matched]])


def match_topics(a: Any, b: Any, *, distance: Distance = "hellinger", farthest: float = 1.0) -> Matching:
    """Pair the topics of two models, each with at most one of the other.

    Parameters
    ----------
    a, b : fitted topic models, `Topics`, or (K, V) arrays
        Over the same vocabulary; numbers of topics may differ.
    distance : str
        ``"hellinger"`` or ``"jensen-shannon"``.
    farthest : float
        Pairs farther apart are none.

    Returns
    -------
    Matching
    """
    if not 0 <= farthest <= 1:
        raise ParameterError(f"farthest must be a distance in [0, 1], got {farthest!r}")
    apart = distances(words_of(a), words_of(b), distance)
    rows, columns = linear_sum_assignment(apart)
    near = apart[rows, columns] <= farthest
    rows, columns = rows[near], columns[near]
    order, far = np.full(len(apart), -1), np.full(len(apart), np.nan)
    order[rows], far[rows] = columns, apart[rows, columns]
    return Matching(order, far, np.setdiff1d(np.arange(apart.shape[1]), columns))


def distances(P: FloatArray, Q: FloatArray, distance: Distance = "hellinger") -> FloatArray:
    """(K_a, K_b): distance of each row of P from each row of Q.

    Parameters
    ----------
    P, Q : (K_a, V), (K_b, V) arrays
        Rows sum to one.
    distance : str
        ``"hellinger"`` or ``"jensen-shannon"``.
    """
    if P.shape[1] != Q.shape[1]:
        raise ParameterError(f"topics must be over one vocabulary, got {P.shape[1]} and {Q.shape[1]} words")
    if distance == "hellinger":
        squared = 1 - np.sqrt(P) @ np.sqrt(Q).T
    elif distance == "jensen-shannon":
        alone = entr(P).sum(axis=1)[:, None] + entr(Q).sum(axis=1)
        mixed = np.array([[entr((p + q) / 2).sum() for q in Q] for p in P]).reshape(len(P), len(Q))
        squared = (mixed - alone / 2) / np.log(2)
    else:
        raise ParameterError(f"distance must be 'hellinger' or 'jensen-shannon', got {distance!r}")
    return np.sqrt(np.clip(squared, 0, 1))


def words_of(model: Any) -> FloatArray:
    """(K, V): words of the topics of a fitted model, of `Topics`, or of an array."""
    phi = getattr(model, "components_", None)
    phi = np.asarray(getattr(model, "phi", model) if phi is None else phi)
    if phi.ndim != 2:
        raise ParameterError(f"expected a fitted topic model or an array of shape (K, V), got {type(model).__name__}")
    return phi
